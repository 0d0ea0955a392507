// What the inputs of tests hold: edges first, then drawn numbers, the same everywhere.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/gpu/emu_agrees/agrees.h"

static uint64_t draw(uint64_t a, uint64_t b) {
    uint64_t z = a * 0x9e3779b97f4a7c15u + b * 0xd1342543de82ef95u + 0x632be59bd9b4e019u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

// ---- edges ----

static const uint64_t int_edges[] = {0,
                                     1,
                                     (uint64_t)-1,
                                     2,
                                     3,
                                     5,
                                     7,
                                     8,
                                     15,
                                     16,
                                     17,
                                     31,
                                     32,
                                     33,
                                     63,
                                     64,
                                     65,
                                     127,
                                     128,
                                     255,
                                     256,
                                     0x7fff,
                                     0x8000,
                                     0xffff,
                                     0x10000,
                                     0x7fffffff,
                                     0x80000000,
                                     1u << 30,
                                     0xffffffff,
                                     (uint64_t)1 << 32,
                                     INT64_MAX,
                                     (uint64_t)1 << 63,
                                     (uint64_t)-2,
                                     (uint64_t)-128,
                                     (uint64_t)-129};

static const uint32_t f32_edges[] = {
    0x00000000, 0x80000000, 0x3f800000, 0xbf800000, 0x00000001, 0x80000001, 0x007fffff, 0x807fffff,
    0x00800000, 0x80800000, 0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000, 0x7fc00000, 0xffc00000,
    0x7fffffff, 0x7f800001, 0xff923456, 0x3f000000, 0xbf000000, 0x3fc00000, 0x40200000, 0xc0200000,
    0x42ff0000, 0x43000000, 0xc3000000, 0xc3008000, 0x437f8000, 0x43800000, 0x46fffe00, 0x47000000,
    0x477fff80, 0x47800000, 0xc7000100, 0x4effffff, 0x4f000000, 0xcf000000, 0x4f7fffff, 0x4f800000,
    0x5effffff, 0x5f000000, 0xdf000000, 0x5f800000, 0x477fefff, 0x477ff000, 0x38800000, 0x387fc000,
    0x33000000, 0x33000001, 0x33800000, 0x43e00000, 0x43e80000, 0x43f00000, 0x47600000, 0x47680000,
    0x3f7fffff, 0x7f7f0000, 0x7f7f8000, 0x3f808000, 0x3f7ffffe, 0x00800001};

static const uint16_t f16_edges[] = {
    0x0000, 0x8000, 0x3c00, 0xbc00, 0x0001, 0x8001, 0x03ff, 0x83ff, 0x0400, 0x8400, 0x7bff,
    0xfbff, 0x7c00, 0xfc00, 0x7e00, 0xfe00, 0x7fff, 0x7d01, 0xfc01, 0x3800, 0x3c01, 0x4000,
    0xc000, 0x5f00, 0x5f40, 0x5f80, 0x7b00, 0x7b40, 0x1000, 0x2c00, 0x1400, 0x0200};

static const uint16_t bf16_edges[] = {
    0x0000, 0x8000, 0x3f80, 0xbf80, 0x0001, 0x8001, 0x007f, 0x807f, 0x0080, 0x8080, 0x7f7f,
    0xff7f, 0x7f80, 0xff80, 0x7fc0, 0xffc0, 0x7fff, 0x7f81, 0xff91, 0x3f00, 0x3f81, 0x4000,
    0xc000, 0x42fe, 0x4300, 0x437f, 0x5f00, 0x2000, 0x1f80, 0x0040, 0x3380, 0x3b80};

#define COUNT(array) (sizeof(array) / sizeof *(array))

// ---- numbers ----

// Of any size, as often small as large; few bits set now and then.
static uint64_t any_int(uint64_t r) {
    uint64_t v = draw(r, 1) >> (r & 63);
    return r >> 6 & 1 ? v : (uint64_t)0 - v;
}

static uint32_t bits_of(float f) {
    uint32_t b;
    memcpy(&b, &f, 4);
    return b;
}

// Any bits; numbers near 1; quarters, for what rounds to whole numbers.
static uint32_t any_f32(uint64_t r) {
    uint64_t bits = draw(r, 2);
    if (r % 3 == 0) return (uint32_t)bits;
    if (r % 3 == 1)
        return (uint32_t)(bits & 0x807fffff) | (107 + (uint32_t)(bits >> 32) % 40) << 23;
    return bits_of((float)((double)(int64_t)(bits % 400001 - 200000) / 4));
}

static uint32_t any_half(Kind kind, uint64_t r) {
    uint64_t bits = draw(r, 3);
    if (r % 2) return (uint32_t)(bits & 0xffff);
    if (kind == KIND_F16)
        return (uint32_t)(bits & 0x83ff) | (10 + (uint32_t)(bits >> 32) % 10) << 10;
    return (uint32_t)(bits & 0x807f) | (117 + (uint32_t)(bits >> 32) % 20) << 7;
}

static uint64_t pool(Kind kind, uint64_t i) {
    switch (kind) {
    case KIND_INT: return i < COUNT(int_edges) ? int_edges[i] : any_int(draw(i, 4));
    case KIND_F32: return i < COUNT(f32_edges) ? f32_edges[i] : any_f32(draw(i, 5));
    case KIND_F16: return i < COUNT(f16_edges) ? f16_edges[i] : any_half(kind, draw(i, 6));
    case KIND_BF16: return i < COUNT(bf16_edges) ? bf16_edges[i] : any_half(kind, draw(i, 7));
    case KIND_F16X2:
    case KIND_BF16X2: {
        Kind half = kind == KIND_F16X2 ? KIND_F16 : KIND_BF16;
        return pool(half, i) | pool(half, draw(i, 8) % 96) << 16;
    }
    case KIND_PRED: return i & 1;
    case KIND_LOW: return i % 64;
    case KIND_BYTE: return i < 68 ? i : draw(i, 21) & 255;
    case KIND_MASK: return i % 4 ? (draw(i, 9) % 32) << 8 | 31 : draw(i, 10) & 0x1f1f;
    default: return draw(i, 11);
    }
}

static bool inside(Range r, double v) {
    return !isfinite(v) || (fabs(v) >= r.low && fabs(v) <= r.high);
}

// |value| in the range, as often small as large.
static uint32_t in_range(Range range, uint64_t r) {
    uint32_t sign = r & 2 ? 0x80000000 : 0;
    double u = (double)(draw(r, 12) >> 11) * 0x1p-53;
    if (r & 1) return sign | bits_of((float)(range.low + u * (range.high - range.low)));
    uint32_t low = bits_of((float)(range.low > 0 ? range.low : range.high * 0x1p-20));
    return sign | (low + (uint32_t)(draw(r, 19) % (bits_of((float)range.high) - low + 1)));
}

enum { SQUARE = 64 }; // values of the first two operands meet each other

static uint64_t value(const Input *in, uint32_t c) {
    Kind kind = (Kind)in->kind;
    if (in->range.high > 0) {
        float f;
        uint32_t bits = (uint32_t)pool(KIND_F32, in->of > 1 ? draw(c, in->index) % 96 : c);
        memcpy(&f, &bits, 4);
        return inside(in->range, f) ? bits : in_range(in->range, draw(c, 20u + in->index));
    }
    if (kind == KIND_PRED) // some warps agree
        return c / 32 % 4 == 0 || (c / 32 % 4 != 1 && draw(c, 13u + in->index) & 1);
    if (kind == KIND_LOW || kind == KIND_MASK) // the first half: alike in a warp
        return pool(kind, draw(2 * c < in->count ? c / 32 : c, 18u + in->index));
    if (kind == KIND_RANDOM) return draw(c, 14u + in->index);
    if (in->of == 1) return in->unit == 2 && in->count == 65536 ? c : pool(kind, c);
    if (in->index == 0) return pool(kind, c % SQUARE);
    if (in->index == 1) return pool(kind, c / SQUARE % SQUARE + (c / SQUARE / SQUARE) * SQUARE);
    return pool(kind, draw(c, 15u + in->index) % 128);
}

// ---- elements of matrices ----

static const struct {
    uint8_t exponent, mantissa; // bits; 0: a whole number
} format[] = {{5, 10}, {8, 7}, {8, 23}, {4, 3}, {5, 2}, {0, 0}, {0, 0}, {8, 23}};

static uint32_t whole(Element e, int v) {
    int exponent = 0, m = format[e].mantissa, bias = (1 << (format[e].exponent - 1)) - 1;
    uint32_t sign = v < 0, a = (uint32_t)(v < 0 ? -v : v);
    if (!a) return 0;
    while (a >> (exponent + 1)) exponent++;
    uint32_t fraction = (a << (m + 2) >> exponent >> 2) & ((1u << m) - 1);
    return sign << (m + format[e].exponent) | (uint32_t)(bias + exponent) << m | fraction;
}

static uint32_t special(Element e, uint64_t r) {
    uint32_t m = format[e].mantissa, ones = ((1u << format[e].exponent) - 1) << m;
    uint32_t sign = (uint32_t)(r >> 20 & 1) << (m + format[e].exponent);
    if (r % 128 == 0 && e != EL_E4M3) return sign | ones; // infinity
    if (r % 128 == 1) return sign | ones | (e == EL_E4M3 ? 7 : 1u << (m - 1));
    return r >> 10 & 1 ? whole(e, r >> 11 & 1 ? 1 : -1) : 0;
}

static uint32_t element(Element e, Fill fill, uint64_t r) {
    uint64_t bits = draw(r, 16);
    if (e == EL_S8 || e == EL_U8) return (uint32_t)bits & 255;
    uint32_t m = format[e].mantissa, bias = (1u << (format[e].exponent - 1)) - 1;
    uint32_t sign = (uint32_t)(bits >> 40 & 1) << (m + format[e].exponent);
    uint32_t fraction = (uint32_t)bits & ((1u << m) - 1);
    switch (fill) {
    case FILL_SMALL: return whole(e, (int)(bits % 7) - 3);
    case FILL_SPECIAL: return special(e, bits);
    case FILL_TINY: return sign | fraction;
    default: return sign | (bias - 2 + (uint32_t)(bits >> 50 & 3)) << m | fraction;
    }
}

uint8_t *test_input(const Test *t) {
    uint8_t *bytes = calloc(1, t->in_bytes + 16);
    if (!bytes) return NULL;
    for (uint32_t k = 0; k < t->n_in; k++) {
        const Input *in = &t->in[k];
        for (uint32_t c = 0; c < in->count; c++) {
            uint64_t v = in->fill
                             ? element((Element)in->kind, (Fill)in->fill, draw(c, 17u + in->index))
                             : value(in, c);
            memcpy(bytes + in->at + (size_t)c * in->unit, &v, in->unit);
        }
    }
    return bytes;
}
