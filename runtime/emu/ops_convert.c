// cvt and mov: between types, and between registers of different widths.
#include "runtime/emu/num_int.h"
#include "runtime/emu/ops_int.h"

// ---- moves ----

OP1(mov_32, b32, b32, a)
OP1(mov_64, b64, b64, a)

// Parts of 16 or 32 bits (arg), the first lowest, to one value, and back.
RUN(pack) {
    uint64_t v[LANES] = {0};
    for (int k = 0; k < i->o[1].offset; k++) {
        const uint32_t *a = operand(w, element(w, &i->o[1], k));
        uint32_t shift = (uint32_t)k * i->form->arg;
        EACH(m, v[l] |= (uint64_t)a[l] << shift);
    }
    uint32_t *d = LANES_OF(u32, 0);
    uint64_t *d64 = LANES_OF(u64, 0);
    if (i->o[0].cls == OPD_64)
        EACH(m, d64[l] = v[l]);
    else
        EACH(m, d[l] = (uint32_t)v[l]);
    return NEXT;
}

RUN(unpack) {
    uint64_t v[LANES];
    const uint32_t *a = LANES_OF(u32, 1);
    const uint64_t *a64 = LANES_OF(u64, 1);
    uint32_t mask = i->form->arg == 32 ? ALL_LANES : 0xffff;
    if (i->o[1].cls == OPD_64)
        EACH(m, v[l] = a64[l]);
    else
        EACH(m, v[l] = a[l]);
    for (int k = 0; k < i->o[0].offset; k++) {
        uint32_t *d = operand(w, element(w, &i->o[0], k)), shift = (uint32_t)k * i->form->arg;
        EACH(m, d[l] = (uint32_t)(v[l] >> shift) & mask);
    }
    return NEXT;
}

// ---- integer to integer: the source as its type says; 8 bits are extended to 16 or 32 ----

#define CVT_TO(D)                                                                                  \
    OP1(cvt_##D##_u8, D, u32, (D)(uint8_t)a)                                                       \
    OP1(cvt_##D##_s8, D, u32, (D)(int8_t)a)                                                        \
    OP1(cvt_##D##_u16, D, u16, (D)a)                                                               \
    OP1(cvt_##D##_s16, D, s16, (D)a)                                                               \
    OP1(cvt_##D##_u32, D, u32, (D)a)                                                               \
    OP1(cvt_##D##_s32, D, s32, (D)a)                                                               \
    OP1(cvt_##D##_u64, D, u64, (D)a)                                                               \
    OP1(cvt_##D##_s64, D, s64, (D)a)
// From the low part of a 64-bit register.
#define CVT_LOW(D)                                                                                 \
    OP1(cvt_##D##_low_u8, D, u64, (D)(uint8_t)a)                                                   \
    OP1(cvt_##D##_low_s8, D, u64, (D)(int8_t)a)                                                    \
    OP1(cvt_##D##_low_u16, D, u64, (D)(uint16_t)a)                                                 \
    OP1(cvt_##D##_low_s16, D, u64, (D)(int16_t)a)                                                  \
    OP1(cvt_##D##_low_u32, D, u64, (D)(uint32_t)a)                                                 \
    OP1(cvt_##D##_low_s32, D, u64, (D)(int32_t)a)
CVT_LOW(u32)
CVT_LOW(s32)
CVT_LOW(u64)
CVT_LOW(s64)
CVT_TO(u16)
CVT_TO(s16)
CVT_TO(u32)
CVT_TO(s32)
CVT_TO(u64)
CVT_TO(s64)
OP1(cvt_u8_32, u32, u32, (uint8_t)a)
OP1(cvt_u8_64, u32, u64, (uint8_t)a)
OP1(cvt_s8_32, s16, u32, (int8_t)a)
OP1(cvt_s8_64, s16, u64, (int8_t)a)

// ---- integer to f32 ----

OP1(cvt_f32_u8, f32, u32, (float)(uint8_t)a)
OP1(cvt_f32_s8, f32, u32, (float)(int8_t)a)
OP1(cvt_f32_u16, f32, u16, (float)a)
OP1(cvt_f32_s16, f32, s16, (float)a)
OP1(cvt_f32_u32, f32, u32, (float)a)
OP1(cvt_f32_s32, f32, s32, (float)a)
OP1(cvt_f32_u64, f32, u64, (float)a)
OP1(cvt_f32_s64, f32, s64, (float)a)

// ---- integer to f16 and bf16: by way of an f32 that keeps whether anything was cut off ----

static inline float odd_f32(uint64_t v) {
    int cut = v >> 24 ? 40 - __builtin_clzll(v) : 0;
    uint64_t top = v >> cut;
    return ldexpf((float)(top | (top << cut != v)), cut);
}

static inline float odd_signed(int64_t v) {
    return v < 0 ? -odd_f32(0 - (uint64_t)v) : odd_f32((uint64_t)v);
}

#define INT_TO(half)                                                                               \
    OP1(cvt_##half##_u16, u16, u16, f32_to_##half((float)a))                                       \
    OP1(cvt_##half##_s16, u16, s16, f32_to_##half((float)a))                                       \
    OP1(cvt_##half##_u32, u16, u32, f32_to_##half(odd_f32(a)))                                     \
    OP1(cvt_##half##_s32, u16, s32, f32_to_##half(odd_signed(a)))                                  \
    OP1(cvt_##half##_u64, u16, u64, f32_to_##half(odd_f32(a)))                                     \
    OP1(cvt_##half##_s64, u16, s64, f32_to_##half(odd_signed(a)))
INT_TO(f16)
INT_TO(bf16)
OP1(cvt_f16_u8, u16, u32, f32_to_f16((float)(uint8_t)a))
OP1(cvt_f16_s8, u16, u32, f32_to_f16((float)(int8_t)a))

// ---- f32 to integer: clamped; NaN gives 0, and in 64 bits the value with the top bit alone ----

static inline float to_zero(float f) {
    return truncf(f);
}

#define CLAMP(f, low, high, T, last) ((f) < (low) ? (T)(low) : (f) >= (high) ? (T)(last) : (T)(f))
static inline uint32_t int_u32(float f) {
    return f != f ? 0 : CLAMP(f, 0.0f, 0x1p32f, uint32_t, UINT32_MAX);
}
static inline uint32_t int_s32(float f) {
    return f != f ? 0 : (uint32_t)CLAMP(f, -0x1p31f, 0x1p31f, int32_t, INT32_MAX);
}
static inline uint64_t int_u64(float f) {
    return f != f ? (uint64_t)1 << 63 : CLAMP(f, 0.0f, 0x1p64f, uint64_t, UINT64_MAX);
}
static inline uint64_t int_s64(float f) {
    return f != f ? (uint64_t)1 << 63 : (uint64_t)CLAMP(f, -0x1p63f, 0x1p63f, int64_t, INT64_MAX);
}
static inline uint32_t int_s8(float f) {
    return f != f ? 0 : (uint16_t)CLAMP(f, -128.0f, 128.0f, int16_t, 127);
}
static inline uint32_t int_u8(float f) {
    return f != f ? 0 : CLAMP(f, 0.0f, 256.0f, uint8_t, 255);
}
static inline uint32_t int_s16(float f) {
    return f != f ? 0 : (uint16_t)CLAMP(f, -0x1p15f, 0x1p15f, int16_t, INT16_MAX);
}
static inline uint32_t int_u16(float f) {
    return f != f ? 0 : CLAMP(f, 0.0f, 0x1p16f, uint16_t, UINT16_MAX);
}

// `from`: what the source's type is added to the name by; `value`: a as an f32.
#define TO_INT_OF(round, from, T, value, how)                                                      \
    OP1(cvt_##round##_u32##from, u32, T, int_u32(how(value)))                                      \
    OP1(cvt_##round##_s32##from, u32, T, int_s32(how(value)))                                      \
    OP1(cvt_##round##_u64##from, u64, T, int_u64(how(value)))                                      \
    OP1(cvt_##round##_s64##from, u64, T, int_s64(how(value)))                                      \
    OP1(cvt_##round##_u16##from, u32, T, int_u16(how(value)))                                      \
    OP1(cvt_##round##_s16##from, u32, T, int_s16(how(value)))
#define TO_INT(round, how)                                                                         \
    TO_INT_OF(round, , f32, a, how)                                                                \
    TO_INT_OF(round, _f16, u16, f16_to_f32(a), how)                                                \
    TO_INT_OF(round, _bf16, u16, bf16_to_f32(a), how)                                              \
    OP1(cvt_##round##_u8, u32, f32, int_u8(how(a)))                                                \
    OP1(cvt_##round##_s8, u32, f32, int_s8(how(a)))                                                \
    OP1(cvt_##round##_u8_f16, u32, u16, int_u8(how(f16_to_f32(a))))                                \
    OP1(cvt_##round##_s8_f16, u32, u16, int_s8(how(f16_to_f32(a))))                                \
    OP1(cvt_##round##_f32, f32, f32, how(a))                                                       \
    OP1(cvt_##round##_f16, u16, u16, f32_to_f16(how(f16_to_f32(a))))                               \
    OP1(cvt_##round##_bf16, u16, u16, f32_to_bf16(how(bf16_to_f32(a))))
TO_INT(rni, nearbyintf)
TO_INT(rzi, to_zero)
TO_INT(rmi, floorf)
TO_INT(rpi, ceilf)

// .sat of what stays an f32, and .ftz.
#define TO_INT_MODE(round, how)                                                                    \
    OP1(cvt_##round##_sat_f32, f32, f32, saturate(how(a)))                                         \
    OP1(cvt_##round##_ftz_f32, f32, f32, how(flush(a)))                                            \
    OP1(cvt_##round##_ftz_u32, u32, f32, int_u32(how(flush(a))))                                   \
    OP1(cvt_##round##_ftz_s32, u32, f32, int_s32(how(flush(a))))
TO_INT_MODE(rni, nearbyintf)
TO_INT_MODE(rzi, to_zero)
TO_INT_MODE(rmi, floorf)
TO_INT_MODE(rpi, ceilf)

// ---- integers, clamped to the other type's ----

static inline int64_t clamp(int64_t v, int64_t low, int64_t high) {
    return v < low ? low : v > high ? high : v;
}

static inline int64_t clamp_u64(uint64_t v, uint64_t high) {
    return (int64_t)(v > high ? high : v);
}

#define CVT_SAT(D, S, K, low, high) OP1(cvt_sat_##D##_##S, K, S, (K)clamp(a, low, high))
#define CVT_SAT_LONG(D, K, low, high)                                                              \
    OP1(cvt_sat_##D##_u64, K, u64, (K)clamp_u64(a, high))                                          \
    CVT_SAT(D, s64, K, low, high)
#define CVT_SAT_WORD(D, K, low, high)                                                              \
    CVT_SAT(D, u32, K, low, high)                                                                  \
    CVT_SAT(D, s32, K, low, high)                                                                  \
    CVT_SAT_LONG(D, K, low, high)
#define CVT_SAT_BYTE(D, K, low, high)                                                              \
    CVT_SAT(D, u16, K, low, high)                                                                  \
    CVT_SAT(D, s16, K, low, high)                                                                  \
    CVT_SAT_WORD(D, K, low, high)
CVT_SAT_BYTE(u8, u16, 0, UINT8_MAX)
CVT_SAT_BYTE(s8, s16, INT8_MIN, INT8_MAX)
CVT_SAT(u16, s16, u16, 0, UINT16_MAX)
CVT_SAT_WORD(u16, u16, 0, UINT16_MAX)
CVT_SAT(s16, u16, s16, INT16_MIN, INT16_MAX)
CVT_SAT_WORD(s16, s16, INT16_MIN, INT16_MAX)
CVT_SAT(u32, s16, u32, 0, UINT32_MAX)
CVT_SAT(u32, s32, u32, 0, UINT32_MAX)
CVT_SAT_LONG(u32, u32, 0, UINT32_MAX)
CVT_SAT(s32, u32, s32, INT32_MIN, INT32_MAX)
CVT_SAT_LONG(s32, s32, INT32_MIN, INT32_MAX)

// The first operand above the second; bytes below the lower half of the third.
#define PACK(a, b, low, high, bits)                                                                \
    (((u32)clamp(a, low, high) & ((1u << bits) - 1)) << bits |                                     \
     ((u32)clamp(b, low, high) & ((1u << bits) - 1)))
OP2(cvt_pack_u16, u32, s32, s32, PACK(a, b, 0, UINT16_MAX, 16))
OP2(cvt_pack_s16, u32, s32, s32, PACK(a, b, INT16_MIN, INT16_MAX, 16))
OP3(cvt_pack_u8, u32, s32, s32, u32, c << 16 | PACK(a, b, 0, UINT8_MAX, 8))
OP3(cvt_pack_s8, u32, s32, s32, u32, c << 16 | PACK(a, b, INT8_MIN, INT8_MAX, 8))

// ---- floating point ----

OP1(cvt_f32_f16, f32, u16, f16_to_f32(a))
OP1(cvt_f32_bf16, u32, u16, (u32)a << 16) // NaNs as they are
OP1(cvt_ftz_f32_bf16, f32, u16, flush(bf16_to_f32(a)))
OP1(cvt_sat_f32_f32, f32, f32, saturate(a))
OP1(cvt_ftz_f32_f32, f32, f32, flush(a))
OP1(cvt_sat_f32_f16, f32, u16, saturate(f16_to_f32(a)))
OP1(cvt_sat_f16_f16, u16, u16, f32_to_f16(saturate(f16_to_f32(a))))
OP1(cvt_sat_f16_f32, u16, f32, f32_to_f16(saturate(a)))
OP1(cvt_bf16_f16, u16, u16, f32_to_bf16(f16_to_f32(a)))
OP1(cvt_f16_bf16, u16, u16, f32_to_f16(bf16_to_f32(a)))

// An infinity, whose bits are given, becomes the largest number.
static inline uint16_t to_finite(uint16_t v, uint16_t infinity) {
    return (v & 0x7fff) == infinity ? (uint16_t)(v - 1) : v;
}

// One value, and two in the halves of 32 bits, the first above.
#define DOWN_ONE(name, f)                                                                          \
    OP1(name, u16, f32, f(a))                                                                      \
    OP2(name##x2, u32, f32, f32, (u32)f(a) << 16 | f(b))
#define DOWN(r, type, to, infinity)                                                                \
    static inline uint16_t r##_relu_##type(float f) {                                              \
        return to(relu(f));                                                                        \
    }                                                                                              \
    static inline uint16_t r##_finite_##type(float f) {                                            \
        return to_finite(to(f), infinity);                                                         \
    }                                                                                              \
    static inline uint16_t r##_relu_finite_##type(float f) {                                       \
        return to_finite(to(relu(f)), infinity);                                                   \
    }                                                                                              \
    DOWN_ONE(cvt_##r##_##type, to)                                                                 \
    DOWN_ONE(cvt_##r##_relu_##type, r##_relu_##type)                                               \
    DOWN_ONE(cvt_##r##_finite_##type, r##_finite_##type)                                           \
    DOWN_ONE(cvt_##r##_relu_finite_##type, r##_relu_finite_##type)
DOWN(rn, f16, f32_to_f16, 0x7c00)
DOWN(rz, f16, f32_to_f16_rz, 0x7c00)
DOWN(rn, bf16, f32_to_bf16, 0x7f80)
DOWN(rz, bf16, f32_to_bf16_rz, 0x7f80)

// fp8: two at a time, from two f32 or two f16; back to two f16.
#define FP8(type, name, how)                                                                       \
    OP2(cvt_##name##type##x2, u16, f32, f32,                                                       \
        (u16)(f32_to_##type(how(a)) << 8 | f32_to_##type(how(b))))                                 \
    OP1(cvt_##name##type##x2_f16x2, u16, u32,                                                      \
        (u16)(f32_to_##type(how(f16_to_f32(a >> 16))) << 8 |                                       \
              f32_to_##type(how(f16_to_f32(a & 0xffff)))))                                         \
    OP1(cvt_##name##f16x2_##type##x2, u32, u16,                                                    \
        (u32)f32_to_f16(how(type##_to_f32(a >> 8))) << 16 |                                        \
            f32_to_f16(how(type##_to_f32(a & 0xff))))
FP8(e4m3, , )
FP8(e5m2, , )
FP8(e4m3, relu_, relu)
FP8(e5m2, relu_, relu)
