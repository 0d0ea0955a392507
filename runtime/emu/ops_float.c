// f32, f16 and bf16 arithmetic. NaN results are canonical; .ftz takes and gives subnormals as 0.
// The approximate functions are the exact ones, rounded: what hardware gives differs in its last
// bits.
#include "runtime/emu/ops_int.h"
#include "runtime/emu/num_int.h"

// ---- f32 ----

OP2(add_f32, f32, f32, f32, a + b)
OP2(sub_f32, f32, f32, f32, a - b)
OP2(mul_f32, f32, f32, f32, a *b)
OP3(fma_f32, f32, f32, f32, f32, fmaf(a, b, c))
OP2(div_f32, f32, f32, f32, a / b)
OP1(rcp_f32, f32, f32, 1 / a)
OP1(sqrt_f32, f32, f32, sqrtf(a))
OP2(add_ftz_f32, f32, f32, f32, flush(flush(a) + flush(b)))
OP2(sub_ftz_f32, f32, f32, f32, flush(flush(a) - flush(b)))

// What .ftz makes of a result that is also known in double: hardware looks at the exponent that the
// result has when it is rounded with no bound for it, so that a number just below 2^-126 is 0,
// though its subnormal neighbour above is 2^-126 itself.
static inline float tiny(float f, double wide) {
    return fabs(wide) < 0x1p-126 * (1 - 0x1p-25) ? copysignf(0, f) : f;
}

static inline float fma_ftz(float a, float b, float c) {
    return tiny(fmaf(a, b, c), (double)a * b + c);
}

OP2(mul_ftz_f32, f32, f32, f32, tiny(flush(a) * flush(b), (double)flush(a) * flush(b)))
OP3(fma_ftz_f32, f32, f32, f32, f32, fma_ftz(flush(a), flush(b), flush(c)))
OP2(div_ftz_f32, f32, f32, f32, tiny(flush(a) / flush(b), (double)flush(a) / flush(b)))
OP1(rcp_ftz_f32, f32, f32, flush(1 / flush(a)))
OP1(sqrt_ftz_f32, f32, f32, flush(sqrtf(flush(a))))

OP2(add_sat_f32, f32, f32, f32, saturate(a + b))
OP2(mul_sat_f32, f32, f32, f32, saturate(a *b))
OP3(fma_sat_f32, f32, f32, f32, f32, saturate(fmaf(a, b, c)))

OP1(neg_f32, f32, f32, -a)
OP1(abs_f32, f32, f32, fabsf(a))

// -0 is less than 0. One NaN gives the other; with .NaN, NaN.
static inline float least(float a, float b) {
    if (a == b) return as_f32(as_bits(a) | as_bits(b));
    return a < b || b != b ? a : b;
}

static inline float most(float a, float b) {
    if (a == b) return as_f32(as_bits(a) & as_bits(b));
    return a > b || b != b ? a : b;
}

OP2(min_f32, f32, f32, f32, least(a, b))
OP2(max_f32, f32, f32, f32, most(a, b))
OP2(min_nan_f32, f32, f32, f32, a != a || b != b ? NAN : least(a, b))
OP2(max_nan_f32, f32, f32, f32, a != a || b != b ? NAN : most(a, b))
OP2(min_ftz_f32, f32, f32, f32, least(flush(a), flush(b)))
OP2(max_ftz_f32, f32, f32, f32, most(flush(a), flush(b)))

OP2(min_ftz_nan_f32, f32, f32, f32, a != a || b != b ? NAN : least(flush(a), flush(b)))
OP2(max_ftz_nan_f32, f32, f32, f32, a != a || b != b ? NAN : most(flush(a), flush(b)))

// .xorsign.abs: of the magnitudes, with the product's sign.
static inline float signed_by(float f, float a, float b) {
    return as_f32(as_bits(f) | ((as_bits(a) ^ as_bits(b)) & 0x80000000));
}

static inline float least_magnitude(float a, float b, bool nan) {
    if (nan && (a != a || b != b)) return NAN;
    return signed_by(least(fabsf(a), fabsf(b)), a, b);
}

static inline float most_magnitude(float a, float b, bool nan) {
    if (nan && (a != a || b != b)) return NAN;
    return signed_by(most(fabsf(a), fabsf(b)), a, b);
}

OP2(min_xorsign_f32, f32, f32, f32, least_magnitude(a, b, false))
OP2(max_xorsign_f32, f32, f32, f32, most_magnitude(a, b, false))
OP2(min_nan_xorsign_f32, f32, f32, f32, least_magnitude(a, b, true))
OP2(max_nan_xorsign_f32, f32, f32, f32, most_magnitude(a, b, true))
OP1(neg_ftz_f32, f32, f32, -flush(a))
OP1(abs_ftz_f32, f32, f32, fabsf(flush(a)))

OP1(ex2_f32, f32, f32, exp2f(a))
OP1(lg2_f32, f32, f32, log2f(a))
OP1(rsqrt_f32, f32, f32, 1 / sqrtf(a))
OP1(sin_f32, f32, f32, sinf(a))
OP1(cos_f32, f32, f32, cosf(a))
OP1(tanh_f32, f32, f32, tanhf(a))
OP1(ex2_ftz_f32, f32, f32, flush(exp2f(flush(a))))
OP1(lg2_ftz_f32, f32, f32, log2f(flush(a)))
OP1(rsqrt_ftz_f32, f32, f32, 1 / sqrtf(flush(a)))
OP1(sin_ftz_f32, f32, f32, flush(sinf(flush(a))))
OP1(cos_ftz_f32, f32, f32, flush(cosf(flush(a))))

// ---- f16 and bf16 ----
// Sums, products and fused products of them, rounded to odd in double, round once more to what a
// single rounding gives.

static inline double to_odd(double a, double b) { // a + b
    double s = a + b, t = s - a, error = (a - (s - t)) + (b - t);
    int64_t bits;
    memcpy(&bits, &s, 8);
    if (error == 0 || error != error || bits & 1) return s;
    bits += (error > 0) == (s > 0) ? 1 : -1;
    memcpy(&s, &bits, 8);
    return s;
}

// A double that was rounded to odd, to f32, rounded to odd again.
static inline float odd_f32(double d) {
    float f = (float)d;
    uint32_t bits = as_bits(f);
    if ((double)f == d || f != f || bits & 1 || isinf(f)) return f;
    bits += fabs((double)f) < fabs(d) ? 1u : (uint32_t)-1;
    return as_f32(bits);
}

typedef enum Half { F16, BF16 } Half;

static inline float half_get(Half h, uint32_t v) {
    return h == F16 ? f16_to_f32(v & 0xffff) : bf16_to_f32(v & 0xffff);
}

static inline uint32_t half_keep(Half h, double d) {
    float f = odd_f32(d);
    return h == F16 ? f32_to_f16(f) : f32_to_bf16(f);
}

static inline uint32_t half_fma(Half h, uint32_t a, uint32_t b, uint32_t c) {
    double p = (double)half_get(h, a) * (double)half_get(h, b), q = half_get(h, c);
    return half_keep(h, to_odd(p, q));
}

static inline uint32_t half_add(Half h, uint32_t a, uint32_t b) {
    return half_keep(h, to_odd(half_get(h, a), half_get(h, b)));
}

static inline uint32_t half_mul(Half h, uint32_t a, uint32_t b) {
    return half_keep(h, (double)half_get(h, a) * (double)half_get(h, b));
}

static inline uint32_t half_min(Half h, uint32_t a, uint32_t b) {
    return half_keep(h, least(half_get(h, a), half_get(h, b)));
}

static inline uint32_t half_max(Half h, uint32_t a, uint32_t b) {
    return half_keep(h, most(half_get(h, a), half_get(h, b)));
}

static inline uint32_t half_min_nan(Half h, uint32_t a, uint32_t b) {
    float x = half_get(h, a), y = half_get(h, b);
    return half_keep(h, x != x || y != y ? NAN : least(x, y));
}

static inline uint32_t half_max_nan(Half h, uint32_t a, uint32_t b) {
    float x = half_get(h, a), y = half_get(h, b);
    return half_keep(h, x != x || y != y ? NAN : most(x, y));
}

#define HALF_MAGNITUDE(name, f, nan)                                                               \
    static inline uint32_t half_##name(Half h, uint32_t a, uint32_t b) {                           \
        return half_keep(h, f(half_get(h, a), half_get(h, b), nan));                               \
    }
HALF_MAGNITUDE(min_xorsign, least_magnitude, false)
HALF_MAGNITUDE(max_xorsign, most_magnitude, false)
HALF_MAGNITUDE(min_nan_xorsign, least_magnitude, true)
HALF_MAGNITUDE(max_nan_xorsign, most_magnitude, true)

// A result with .relu or .sat.
static inline uint32_t half_relu(Half h, uint32_t a) {
    return half_keep(h, relu(half_get(h, a)));
}

static inline uint32_t half_sat(Half h, uint32_t a) {
    return half_keep(h, saturate(half_get(h, a)));
}

static inline uint32_t half_fma_relu(Half h, uint32_t a, uint32_t b, uint32_t c) {
    return half_relu(h, half_fma(h, a, b, c));
}

static inline uint32_t half_fma_sat(Half h, uint32_t a, uint32_t b, uint32_t c) {
    return half_sat(h, half_fma(h, a, b, c));
}

static inline uint32_t half_add_sat(Half h, uint32_t a, uint32_t b) {
    return half_sat(h, half_add(h, a, b));
}

static inline uint32_t half_sub_sat(Half h, uint32_t a, uint32_t b) {
    return half_sat(h, half_add(h, a, b ^ 0x8000));
}

static inline uint32_t half_mul_sat(Half h, uint32_t a, uint32_t b) {
    return half_sat(h, half_mul(h, a, b));
}

static inline uint32_t half_neg(Half h, uint32_t a) {
    return half_keep(h, -half_get(h, a));
}

static inline uint32_t half_abs(Half h, uint32_t a) {
    return half_keep(h, fabsf(half_get(h, a)));
}

static inline uint32_t half_ex2(Half h, uint32_t a) {
    return half_keep(h, exp2(half_get(h, a)));
}

static inline uint32_t half_tanh(Half h, uint32_t a) {
    return half_keep(h, tanh(half_get(h, a)));
}

// One value, and two in the halves of 32 bits.
#define HALF1(name, h, f)                                                                          \
    OP1(name, u16, u16, f(h, a))                                                                   \
    OP1(name##x2, u32, u32, f(h, a) | f(h, a >> 16) << 16)
#define HALF2(name, h, f)                                                                          \
    OP2(name, u16, u16, u16, f(h, a, b))                                                           \
    OP2(name##x2, u32, u32, u32, f(h, a, b) | f(h, a >> 16, b >> 16) << 16)
#define HALF3(name, h, f)                                                                          \
    OP3(name, u16, u16, u16, u16, f(h, a, b, c))                                                   \
    OP3(name##x2, u32, u32, u32, u32, f(h, a, b, c) | f(h, a >> 16, b >> 16, c >> 16) << 16)
#define HALVES(type, h)                                                                            \
    HALF2(add_##type, h, half_add)                                                                 \
    HALF2(sub_##type, h, half_sub)                                                                 \
    HALF2(mul_##type, h, half_mul)                                                                 \
    HALF2(min_##type, h, half_min)                                                                 \
    HALF2(max_##type, h, half_max)                                                                 \
    HALF2(min_nan_##type, h, half_min_nan)                                                         \
    HALF2(max_nan_##type, h, half_max_nan)                                                         \
    HALF1(ex2_##type, h, half_ex2)                                                                 \
    HALF1(neg_##type, h, half_neg)                                                                 \
    HALF1(abs_##type, h, half_abs)                                                                 \
    HALF1(tanh_##type, h, half_tanh)                                                               \
    HALF2(min_xorsign_##type, h, half_min_xorsign)                                                 \
    HALF2(max_xorsign_##type, h, half_max_xorsign)                                                 \
    HALF2(min_nan_xorsign_##type, h, half_min_nan_xorsign)                                         \
    HALF2(max_nan_xorsign_##type, h, half_max_nan_xorsign)                                         \
    HALF3(fma_##type, h, half_fma)                                                                 \
    HALF3(fma_relu_##type, h, half_fma_relu)

static inline uint32_t half_sub(Half h, uint32_t a, uint32_t b) {
    return half_add(h, a, b ^ 0x8000);
}

HALVES(f16, F16)
HALVES(bf16, BF16)
HALF2(add_sat_f16, F16, half_add_sat)
HALF2(sub_sat_f16, F16, half_sub_sat)
HALF2(mul_sat_f16, F16, half_mul_sat)
HALF3(fma_sat_f16, F16, half_fma_sat)
