// Integer and logic instructions, comparisons, selects.
#include "runtime/emu/num_int.h"
#include "runtime/emu/ops_int.h"

// ---- arithmetic ----

// Signed sums and products wrap: they are made of unsigned ones.
#define WRAPPING(bits, wide)                                                                       \
    OP2(add_##bits, u##bits, u##bits, u##bits, (u##bits)(a + b))                                   \
    OP2(sub_##bits, u##bits, u##bits, u##bits, (u##bits)(a - b))                                   \
    OP2(mul_lo_##bits, u##bits, u##bits, u##bits, (u##bits)((wide)a * (wide)b))                    \
    OP3(mad_lo_##bits, u##bits, u##bits, u##bits, u##bits, (u##bits)((wide)a * (wide)b + c))       \
    OP1(neg_##bits, u##bits, u##bits, (u##bits)(0u - a))                                           \
    OP1(not_##bits, u##bits, u##bits, (u##bits) ~a)                                                \
    OP2(and_##bits, u##bits, u##bits, u##bits, a &b)                                               \
    OP2(or_##bits, u##bits, u##bits, u##bits, a | b)                                               \
    OP2(xor_##bits, u##bits, u##bits, u##bits, a ^ b)                                              \
    OP1(abs_##bits, u##bits, s##bits, a < 0 ? 0u - (u##bits)a : (u##bits)a)                        \
    OP2(min_u##bits, u##bits, u##bits, u##bits, a < b ? a : b)                                     \
    OP2(max_u##bits, u##bits, u##bits, u##bits, a > b ? a : b)                                     \
    OP2(min_s##bits, s##bits, s##bits, s##bits, a < b ? a : b)                                     \
    OP2(max_s##bits, s##bits, s##bits, s##bits, a > b ? a : b)
WRAPPING(16, uint32_t)
WRAPPING(32, uint32_t)
WRAPPING(64, uint64_t)

OP2(mul_wide_u16, u32, u16, u16, (uint32_t)a *b)
OP2(mul_wide_s16, u32, s16, s16, (uint32_t)((int32_t)a *b))
OP2(mul_wide_u32, u64, u32, u32, (uint64_t)a *b)
OP2(mul_wide_s32, u64, s32, s32, (uint64_t)((int64_t)a *b))
OP3(mad_wide_u16, u32, u16, u16, u32, (uint32_t)a *b + c)
OP3(mad_wide_s16, u32, s16, s16, u32, (uint32_t)((int32_t)a *b) + c)
OP3(mad_wide_u32, u64, u32, u32, u64, (uint64_t)a *b + c)
OP3(mad_wide_s32, u64, s32, s32, u64, (uint64_t)((int64_t)a *b) + c)

static inline uint64_t high_u64(uint64_t a, uint64_t b) {
    uint64_t al = (uint32_t)a, ah = a >> 32, bl = (uint32_t)b, bh = b >> 32;
    uint64_t mid = ah * bl + (al * bl >> 32), mid2 = al * bh + (uint32_t)mid;
    return ah * bh + (mid >> 32) + (mid2 >> 32);
}

static inline uint64_t high_s64(int64_t a, int64_t b) {
    return high_u64((uint64_t)a, (uint64_t)b) - (a < 0 ? (uint64_t)b : 0) -
           (b < 0 ? (uint64_t)a : 0);
}

OP2(mul_hi_u16, u16, u16, u16, (u16)((uint32_t)a *b >> 16))
OP2(mul_hi_s16, u16, s16, s16, (u16)((int32_t)a *b >> 16))
OP2(mul_hi_u32, u32, u32, u32, (u32)((uint64_t)a *b >> 32))
OP2(mul_hi_s32, u32, s32, s32, (u32)((int64_t)a *b >> 32))
OP2(mul_hi_u64, u64, u64, u64, high_u64(a, b))
OP2(mul_hi_s64, u64, s64, s64, high_s64(a, b))
OP3(mad_hi_u32, u32, u32, u32, u32, (u32)((uint64_t)a *b >> 32) + c)
OP3(mad_hi_s32, u32, s32, s32, u32, (u32)((int64_t)a *b >> 32) + c)

// By 0: all ones, both, as hardware has it. The least number by -1 is itself, remainder 0.
#define DIVISION(bits)                                                                             \
    OP2(div_u##bits, u##bits, u##bits, u##bits, b ? (u##bits)(a / b) : (u##bits) - 1)              \
    OP2(rem_u##bits, u##bits, u##bits, u##bits, b ? (u##bits)(a % b) : (u##bits) - 1)              \
    OP2(div_s##bits, u##bits, s##bits, s##bits,                                                    \
        !b        ? (u##bits) - 1                                                                  \
        : b == -1 ? (u##bits)(0u - (u##bits)a)                                                     \
                  : (u##bits)(a / b))                                                              \
    OP2(rem_s##bits, u##bits, s##bits, s##bits,                                                    \
        !b        ? (u##bits) - 1                                                                  \
        : b == -1 ? (u##bits)0                                                                     \
                  : (u##bits)(a % b))
DIVISION(16)
DIVISION(32)
DIVISION(64)

// ---- bits ----

// Shifts by the width or more give 0, or the sign.
#define SHIFTS(bits)                                                                               \
    OP2(shl_##bits, u##bits, u##bits, u32,                                                         \
        b < bits ? (u##bits)(a << (b & (bits - 1))) : (u##bits)0)                                  \
    OP2(shr_u##bits, u##bits, u##bits, u32,                                                        \
        b < bits ? (u##bits)(a >> (b & (bits - 1))) : (u##bits)0)                                  \
    OP2(shr_s##bits, u##bits, s##bits, u32, (u##bits)(a >> (b < bits ? b : bits - 1)))
SHIFTS(16)
SHIFTS(32)
SHIFTS(64)

static inline uint64_t field(uint64_t a, uint32_t pos, uint32_t len, uint32_t bits,
                             bool is_signed) {
    pos &= 255, len &= 255;
    uint64_t sign = 0;
    if (is_signed && len) {
        uint32_t at = pos + len - 1;
        sign = a >> (at < bits - 1 ? at : bits - 1) & 1;
    }
    uint64_t v = pos < bits ? a >> pos : sign ? ~(uint64_t)0 : 0;
    if (pos < bits && sign && pos) v |= ~(uint64_t)0 << (bits - pos);
    if (len >= bits) return v;
    uint64_t mask = ((uint64_t)1 << len) - 1;
    return sign ? v | ~mask : v & mask;
}

static inline uint64_t insert(uint64_t a, uint64_t into, uint32_t pos, uint32_t len,
                              uint32_t bits) {
    pos &= 255, len &= 255;
    if (pos >= bits || !len) return into;
    uint64_t mask = len >= 64 ? ~(uint64_t)0 : ((uint64_t)1 << len) - 1;
    return (into & ~(mask << pos)) | (a & mask) << pos;
}

static inline uint32_t permute(uint32_t a, uint32_t b, uint32_t select) {
    uint64_t bytes = a | (uint64_t)b << 32;
    uint32_t out = 0;
    for (int k = 0; k < 4; k++) {
        uint32_t s = select >> 4 * k & 15, byte = (uint32_t)(bytes >> 8 * (s & 7)) & 255;
        if (s & 8) byte = byte & 128 ? 255 : 0;
        out |= byte << 8 * k;
    }
    return out;
}

static inline uint64_t reverse(uint64_t a, int bits) {
    uint64_t r = 0;
    for (int k = 0; k < bits; k++) r |= (a >> k & 1) << (bits - 1 - k);
    return r;
}

OP3(bfe_u32, u32, u32, u32, u32, (u32)field(a, b, c, 32, false))
OP3(bfe_s32, u32, u32, u32, u32, (u32)field(a, b, c, 32, true))
OP3(bfe_u64, u64, u64, u32, u32, field(a, b, c, 64, false))
OP3(bfe_s64, u64, u64, u32, u32, field(a, b, c, 64, true))
OP1(popc_32, u32, u32, (u32)__builtin_popcount(a))
OP1(popc_64, u32, u64, (u32)__builtin_popcountll(a))
OP1(clz_32, u32, u32, a ? (u32)__builtin_clz(a) : 32u)
OP1(clz_64, u32, u64, a ? (u32)__builtin_clzll(a) : 64u)
OP1(brev_32, u32, u32, (u32)reverse(a, 32))
OP1(brev_64, u64, u64, reverse(a, 64))
OP3(prmt, u32, u32, u32, u32, permute(a, b, c))
OP3(shf_l_wrap, u32, u32, u32, u32, (u32)(((uint64_t)b << 32 | a) << (c & 31) >> 32))
OP3(shf_r_wrap, u32, u32, u32, u32, (u32)(((uint64_t)b << 32 | a) >> (c & 31)))
OP3(shf_l_clamp, u32, u32, u32, u32, c < 32 ? (u32)(((uint64_t)b << 32 | a) << c >> 32) : a)
OP3(shf_r_clamp, u32, u32, u32, u32, c < 32 ? (u32)(((uint64_t)b << 32 | a) >> c) : b)

#define FOUR_OPERANDS(name, T, expr)                                                               \
    RUN(name) {                                                                                    \
        lane_##T *d = LANES_OF(T, 0);                                                              \
        const lane_##T *a_ = LANES_OF(T, 1), *b_ = LANES_OF(T, 2);                                 \
        const uint32_t *c_ = LANES_OF(u32, 3), *e_ = LANES_OF(u32, 4);                             \
        EACH(m, T a = a_[l]; T b = b_[l]; uint32_t c = c_[l]; uint32_t e = e_[l];                  \
             d[l] = (T)(expr));                                                                    \
        return NEXT;                                                                               \
    }
FOUR_OPERANDS(bfi_32, u32, insert(a, b, c, e, 32))
FOUR_OPERANDS(bfi_64, u64, insert(a, b, c, e, 64))

// Three inputs through a table of 8 bits.
RUN(lop3) {
    uint32_t *d = LANES_OF(u32, 0), table = (uint32_t)i->o[4].offset;
    const uint32_t *a = LANES_OF(u32, 1), *b = LANES_OF(u32, 2), *c = LANES_OF(u32, 3);
    EACH(m, uint32_t v = 0;
         for (uint32_t k = 0; k < 8; k++) if (table >> k & 1) v |=
         (k & 4 ? a[l] : ~a[l]) & (k & 2 ? b[l] : ~b[l]) & (k & 1 ? c[l] : ~c[l]);
         d[l] = v);
    return NEXT;
}

// ---- predicates ----

static inline void set_pred(Warp *w, const Ins *i, uint32_t m, uint32_t v) {
    uint32_t *p = &w->pred[i->o[0].at];
    *p = (*p & ~m) | (v & m);
}

#define PRED(k) (w->pred[i->o[k].at])
RUN(and_pred) {
    return set_pred(w, i, m, PRED(1) & PRED(2)), NEXT;
}
RUN(or_pred) {
    return set_pred(w, i, m, PRED(1) | PRED(2)), NEXT;
}
RUN(xor_pred) {
    return set_pred(w, i, m, PRED(1) ^ PRED(2)), NEXT;
}
RUN(not_pred) {
    return set_pred(w, i, m, ~PRED(1)), NEXT;
}
RUN(mov_pred) {
    return set_pred(w, i, m, PRED(1)), NEXT;
}

#define COMPARE(name, T, expr)                                                                     \
    RUN(set_##name) {                                                                              \
        const lane_##T *a_ = LANES_OF(T, 1), *b_ = LANES_OF(T, 2);                                 \
        uint32_t v = 0;                                                                            \
        for (int l = 0; l < LANES; l++) {                                                          \
            T a = GET_##T(a_[l]), b = GET_##T(b_[l]);                                              \
            v |= (uint32_t)(expr) << l;                                                            \
        }                                                                                          \
        return set_pred(w, i, m, v), NEXT;                                                         \
    }
#define COMPARISONS(T)                                                                             \
    COMPARE(eq_##T, T, a == b)                                                                     \
    COMPARE(ne_##T, T, a != b)                                                                     \
    COMPARE(lt_##T, T, a < b)                                                                      \
    COMPARE(le_##T, T, a <= b)                                                                     \
    COMPARE(gt_##T, T, a > b)                                                                      \
    COMPARE(ge_##T, T, a >= b)
COMPARISONS(u16)
COMPARISONS(s16)
COMPARISONS(u32)
COMPARISONS(s32)
COMPARISONS(u64)
COMPARISONS(s64)

#define IS_NAN(x) ((x) != (x))
#define COMPARISONS_REAL(T)                                                                        \
    COMPARE(eq_##T, T, a == b)                                                                     \
    COMPARE(ne_##T, T, a<b || a> b)                                                                \
    COMPARE(lt_##T, T, a < b)                                                                      \
    COMPARE(le_##T, T, a <= b)                                                                     \
    COMPARE(gt_##T, T, a > b)                                                                      \
    COMPARE(ge_##T, T, a >= b)                                                                     \
    COMPARE(equ_##T, T, !(a < b || a > b))                                                         \
    COMPARE(neu_##T, T, a != b)                                                                    \
    COMPARE(ltu_##T, T, !(a >= b))                                                                 \
    COMPARE(leu_##T, T, !(a > b))                                                                  \
    COMPARE(gtu_##T, T, !(a <= b))                                                                 \
    COMPARE(geu_##T, T, !(a < b))                                                                  \
    COMPARE(num_##T, T, !IS_NAN(a) && !IS_NAN(b))                                                  \
    COMPARE(nan_##T, T, IS_NAN(a) || IS_NAN(b))
typedef lane_u16 lane_f16, lane_bf16;
typedef float f16, bf16;
#define GET_f16(x)  f16_to_f32((x) & 0xffff)
#define GET_bf16(x) bf16_to_f32((x) & 0xffff)
COMPARISONS_REAL(f32)
COMPARISONS_REAL(f16)
COMPARISONS_REAL(bf16)

#define SELECT(name, T)                                                                            \
    RUN(name) {                                                                                    \
        lane_##T *d = LANES_OF(T, 0);                                                              \
        const lane_##T *a = LANES_OF(T, 1), *b = LANES_OF(T, 2);                                   \
        uint32_t p = PRED(3);                                                                      \
        EACH(m, d[l] = p >> l & 1 ? a[l] : b[l]);                                                  \
        return NEXT;                                                                               \
    }
SELECT(selp_32, u32)
SELECT(selp_64, u64)
