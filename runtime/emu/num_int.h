// The small floating-point formats: to f32, which holds them all, and back with one rounding to
// nearest even.
#ifndef RUNTIME_EMU_NUM_INT_H
#define RUNTIME_EMU_NUM_INT_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static inline float num_f32(uint32_t bits) {
    float f;
    memcpy(&f, &bits, 4);
    return f;
}

static inline uint32_t num_bits(float f) {
    uint32_t b;
    memcpy(&b, &f, 4);
    return b;
}

static inline float bf16_to_f32(uint32_t h) {
    return num_f32(h << 16);
}

static inline uint16_t f32_to_bf16(float f) {
    uint32_t b = num_bits(f);
    if (f != f) return 0x7fff;
    return (uint16_t)((b + 0x7fff + (b >> 16 & 1)) >> 16);
}

// Exact: the significand as an f32, scaled; infinities and NaNs by their own way.
static inline float f16_to_f32(uint32_t h) {
    uint32_t sign = (h & 0x8000) << 16, rest = h & 0x7fff;
    if (rest >= 0x7c00) return num_f32(sign | 0x7f800000 | (rest & 0x3ff) << 13);
    return num_f32(sign | num_bits(num_f32(rest << 13) * 0x1p112f));
}

static inline uint16_t f32_to_f16(float f) {
    uint32_t b = num_bits(f), sign = b >> 16 & 0x8000, rest = b & 0x7fffffff;
    if (f != f) return 0x7fff;
    if (rest >= 0x477ff000) return (uint16_t)(sign | 0x7c00); // 65520 and more
    if (rest < 0x38800000) // below the least normal: adding 0.5 rounds to multiples of 2^-24
        return (uint16_t)(sign | (num_bits(num_f32(rest) + 0.5f) - 0x3f000000));
    return (uint16_t)(sign | (rest + 0xfff + (rest >> 13 & 1) - 0x38000000) >> 13);
}

// Rounded to zero: what is cut off, is.
static inline uint16_t f32_to_bf16_rz(float f) {
    return f != f ? 0x7fff : (uint16_t)(num_bits(f) >> 16);
}

static inline uint16_t f32_to_f16_rz(float f) {
    uint32_t b = num_bits(f), sign = b >> 16 & 0x8000, rest = b & 0x7fffffff;
    if (f != f) return 0x7fff;
    if (rest == 0x7f800000) return (uint16_t)(sign | 0x7c00);
    if (rest >= 0x47800000) return (uint16_t)(sign | 0x7bff);
    if (rest < 0x38800000) return (uint16_t)(sign | (uint32_t)(num_f32(rest) * 0x1p24f));
    return (uint16_t)(sign | (rest - 0x38000000) >> 13);
}

// e4m3: no infinity, NaN 0x7f, largest 448.
static inline float e4m3_to_f32(uint32_t v) {
    uint32_t sign = (v & 0x80) << 24, rest = v & 0x7f;
    if (rest == 0x7f) return num_f32(0x7fffffff);
    return num_f32(sign | num_bits(num_f32(rest << 20) * 0x1p120f));
}

static inline float e5m2_to_f32(uint32_t v) {
    return f16_to_f32(v << 8);
}

// Rounds |f| to `bits` bits of significand, with subnormals below 2^least, to an f32; f is finite.
static inline float round_to(float f, int bits, int least) {
    int e;
    frexpf(f, &e);
    int unit = (e - 1 < least ? least : e - 1) - bits + 1;
    return ldexpf(nearbyintf(ldexpf(f, -unit)), unit);
}

// Both saturate: to the largest finite number.
static inline uint8_t f32_to_e4m3(float f) {
    if (f != f) return 0x7f;
    uint32_t sign = num_bits(f) >> 24 & 0x80;
    float a = fabsf(f);
    if (a >= 448) return (uint8_t)(sign | 0x7e);
    a = round_to(a, 4, -6);
    if (a > 448) a = 448;
    return (uint8_t)(sign | num_bits(a * 0x1p-120f) >> 20);
}

static inline uint8_t f32_to_e5m2(float f) {
    if (f != f) return 0x7f;
    uint32_t sign = num_bits(f) >> 24 & 0x80;
    float a = fabsf(f);
    if (a >= 57344) return (uint8_t)(sign | 0x7b);
    a = round_to(a, 3, -14);
    if (a > 57344) a = 57344;
    return (uint8_t)(sign | f32_to_f16(a) >> 8);
}

#endif
