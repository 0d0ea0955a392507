// What handlers are written with. The files ops_*.c are compiled once for any CPU and once for one
// with AVX2 and FMA (EMU_SUFFIX), whose loops over lanes are tens of times faster.
#ifndef RUNTIME_EMU_OPS_INT_H
#define RUNTIME_EMU_OPS_INT_H

#include <math.h>

#include "runtime/emu/machine_int.h"

#ifndef EMU_SUFFIX
#define EMU_SUFFIX
#endif
#define EMU_PASTE_(a, b) a##b
#define EMU_PASTE(a, b)  EMU_PASTE_(a, b)
#define EMU_NAME(name)   EMU_PASTE(name, EMU_SUFFIX)
#define RUN(name)        Step EMU_NAME(run_##name)(Warp * w, const Ins *i, uint32_t m)

#define FORM(name, operands, handler, arg, kind) Run EMU_NAME(run_##handler);
#include "runtime/emu/forms.def"
#undef FORM

#if defined(__clang__)
#define EMU_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define EMU_INDEPENDENT _Pragma("GCC ivdep")
#endif

// The statements for each lane l of mask m.
#define EACH(m, ...)                                                                               \
    do {                                                                                           \
        if ((m) == ALL_LANES) {                                                                    \
            EMU_INDEPENDENT for (int l = 0; l < LANES; l++) {                                      \
                __VA_ARGS__;                                                                       \
            }                                                                                      \
        } else {                                                                                   \
            for (uint32_t left_ = (m); left_; left_ &= left_ - 1) {                                \
                int l = __builtin_ctz(left_);                                                      \
                __VA_ARGS__;                                                                       \
            }                                                                                      \
        }                                                                                          \
    } while (0)

// How values of a type stand in a lane. Values of 16 bits have the upper half 0.
typedef uint32_t lane_u16, lane_s16, lane_u32, lane_s32, lane_f32, lane_b16, lane_b32;
typedef uint64_t lane_u64, lane_s64, lane_b64;
typedef uint16_t u16, b16;
typedef int16_t s16;
typedef uint32_t u32, b32;
typedef int32_t s32;
typedef uint64_t u64, b64;
typedef int64_t s64;
typedef float f32;

#define KEEP_u16(x) ((uint16_t)(x))
#define KEEP_s16(x) ((uint16_t)(x))
#define KEEP_b16(x) ((uint16_t)(x))
#define KEEP_u32(x) ((uint32_t)(x))
#define KEEP_s32(x) ((uint32_t)(x))
#define KEEP_b32(x) ((uint32_t)(x))
#define KEEP_u64(x) ((uint64_t)(x))
#define KEEP_s64(x) ((uint64_t)(x))
#define KEEP_b64(x) ((uint64_t)(x))
#define GET_u16(x)  ((uint16_t)(x))
#define GET_s16(x)  ((int16_t)(x))
#define GET_b16(x)  ((uint16_t)(x))
#define GET_u32(x)  (x)
#define GET_s32(x)  ((int32_t)(x))
#define GET_b32(x)  (x)
#define GET_u64(x)  (x)
#define GET_s64(x)  ((int64_t)(x))
#define GET_b64(x)  (x)

// Lane l's address.
static inline uint64_t address_in(const Warp *w, const Opd *o, int l) {
    const void *p = operand(w, o);
    uint64_t offset = (uint64_t)(int64_t)o->offset;
    if (o->cls == OPD_64) return ((const uint64_t *)p)[l] + offset;
    return (uint32_t)(((const uint32_t *)p)[l] + offset);
}

// That of shared memory, a generic one too.
static inline uint32_t shared_address(const Warp *w, const Opd *o, int l) {
    uint64_t a = address_in(w, o, l);
    if (a >> WINDOW_SHIFT == SPACE_SHARED) a &= ((uint64_t)1 << WINDOW_SHIFT) - 1;
    return a > UINT32_MAX ? UINT32_MAX : (uint32_t)a;
}

// For each lane LANE of mask m.
#define EACH_LANE(m) for (uint32_t left_ = m; left_; left_ &= left_ - 1)
#define LANE         (__builtin_ctz(left_))

#define LANES_OF(type, k) ((lane_##type *)operand(w, &i->o[k]))

static inline float as_f32(uint32_t b) {
    float f;
    memcpy(&f, &b, 4);
    return f;
}

static inline uint32_t as_bits(float f) {
    uint32_t b;
    memcpy(&b, &f, 4);
    return b;
}

// What arithmetic gives for a NaN, whatever NaN went in.
#define NAN_BITS 0x7fffffffu
static inline uint32_t f32_result(float f) {
    return f != f ? NAN_BITS : as_bits(f);
}

// Subnormals as zeros of their sign.
static inline float flush(float f) {
    return fabsf(f) < 0x1p-126f ? copysignf(0, f) : f;
}

static inline float saturate(float f) {
    return f > 0 ? f < 1 ? f : 1 : 0; // NaN and -0 give 0
}

static inline float relu(float f) { // NaN stays
    return f <= 0 ? 0 : f;
}

#define KEEP_f32(x) f32_result(x)
#define GET_f32(x)  as_f32(x)

// An operation on one, two, three values of types that the lanes hold.
#define OP1(name, D, A, expr)                                                                      \
    RUN(name) {                                                                                    \
        lane_##D *d = LANES_OF(D, 0);                                                              \
        const lane_##A *a_ = LANES_OF(A, 1);                                                       \
        EACH(m, A a = GET_##A(a_[l]); d[l] = KEEP_##D(expr));                                      \
        return NEXT;                                                                               \
    }
#define OP2(name, D, A, B, expr)                                                                   \
    RUN(name) {                                                                                    \
        lane_##D *d = LANES_OF(D, 0);                                                              \
        const lane_##A *a_ = LANES_OF(A, 1);                                                       \
        const lane_##B *b_ = LANES_OF(B, 2);                                                       \
        EACH(m, A a = GET_##A(a_[l]); B b = GET_##B(b_[l]); d[l] = KEEP_##D(expr));                \
        return NEXT;                                                                               \
    }
#define OP3(name, D, A, B, C, expr)                                                                \
    RUN(name) {                                                                                    \
        lane_##D *d = LANES_OF(D, 0);                                                              \
        const lane_##A *a_ = LANES_OF(A, 1);                                                       \
        const lane_##B *b_ = LANES_OF(B, 2);                                                       \
        const lane_##C *c_ = LANES_OF(C, 3);                                                       \
        EACH(m, A a = GET_##A(a_[l]); B b = GET_##B(b_[l]); C c = GET_##C(c_[l]);                  \
             d[l] = KEEP_##D(expr));                                                               \
        return NEXT;                                                                               \
    }

#endif
