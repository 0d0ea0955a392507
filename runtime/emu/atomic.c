// See atomic_int.h. Every update is a loop of compare and exchange.
#include "runtime/emu/atomic_int.h"

#include <stdbool.h>

#include "runtime/emu/num_int.h"

uint32_t atomic_bytes(AtomicType t) {
    switch (t) {
    case TYPE_U64:
    case TYPE_S64: return 8;
    case TYPE_F16:
    case TYPE_BF16: return 2;
    default: return 4;
    }
}

uint64_t atomic_get(const void *p, uint32_t bytes) {
    switch (bytes) {
    case 1: return __atomic_load_n((const uint8_t *)p, __ATOMIC_SEQ_CST);
    case 2: return __atomic_load_n((const uint16_t *)p, __ATOMIC_SEQ_CST);
    case 4: return __atomic_load_n((const uint32_t *)p, __ATOMIC_SEQ_CST);
    default: return __atomic_load_n((const uint64_t *)p, __ATOMIC_SEQ_CST);
    }
}

void atomic_set(void *p, uint32_t bytes, uint64_t v) {
    switch (bytes) {
    case 1: __atomic_store_n((uint8_t *)p, (uint8_t)v, __ATOMIC_SEQ_CST); break;
    case 2: __atomic_store_n((uint16_t *)p, (uint16_t)v, __ATOMIC_SEQ_CST); break;
    case 4: __atomic_store_n((uint32_t *)p, (uint32_t)v, __ATOMIC_SEQ_CST); break;
    default: __atomic_store_n((uint64_t *)p, v, __ATOMIC_SEQ_CST);
    }
}

static bool replace(void *p, uint32_t bytes, uint64_t *was, uint64_t v) {
    uint16_t h = (uint16_t)*was;
    uint32_t w = (uint32_t)*was;
    bool done;
    if (bytes == 8)
        return __atomic_compare_exchange_n((uint64_t *)p, was, v, false, __ATOMIC_SEQ_CST,
                                           __ATOMIC_SEQ_CST);
    if (bytes == 4) {
        done = __atomic_compare_exchange_n((uint32_t *)p, &w, (uint32_t)v, false, __ATOMIC_SEQ_CST,
                                           __ATOMIC_SEQ_CST);
        *was = w;
        return done;
    }
    done = __atomic_compare_exchange_n((uint16_t *)p, &h, (uint16_t)v, false, __ATOMIC_SEQ_CST,
                                       __ATOMIC_SEQ_CST);
    *was = h;
    return done;
}

static float get_half(AtomicType t, uint64_t v) {
    return t == TYPE_F16 || t == TYPE_F16X2 ? f16_to_f32(v & 0xffff) : bf16_to_f32(v & 0xffff);
}

static uint64_t keep_half(AtomicType t, float f) {
    return t == TYPE_F16 || t == TYPE_F16X2 ? f32_to_f16(f) : f32_to_bf16(f);
}

static bool is_float(AtomicType t) {
    return t >= TYPE_F32;
}

// Subnormals as zeros of their sign.
static float flushed(float f) {
    return fabsf(f) < 0x1p-126f ? copysignf(0, f) : f;
}

static float combine_float(AtomicOp op, float a, float b) {
    if (op == ATOMIC_ADD) return a + b;
    if (a != a || b != b) return a != a ? b : a;
    return (op == ATOMIC_MIN) == (a < b) ? a : b;
}

static uint64_t float_after(AtomicOp op, AtomicType t, uint64_t a, uint64_t b) {
    if (t == TYPE_F32 || t == TYPE_F32_FTZ) {
        float x = num_f32((uint32_t)a), y = num_f32((uint32_t)b);
        bool ftz = t == TYPE_F32_FTZ;
        float f =
            ftz ? flushed(combine_float(op, flushed(x), flushed(y))) : combine_float(op, x, y);
        return f != f ? 0x7fffffff : num_bits(f);
    }
    uint64_t low = keep_half(t, combine_float(op, get_half(t, a), get_half(t, b)));
    if (t == TYPE_F16 || t == TYPE_BF16) return low;
    return low | keep_half(t, combine_float(op, get_half(t, a >> 16), get_half(t, b >> 16))) << 16;
}

static bool less(AtomicType t, uint64_t a, uint64_t b) {
    switch (t) {
    case TYPE_S32: return (int32_t)a < (int32_t)b;
    case TYPE_S64: return (int64_t)a < (int64_t)b;
    case TYPE_U64: return a < b;
    default: return (uint32_t)a < (uint32_t)b;
    }
}

static uint64_t after(AtomicOp op, AtomicType t, uint64_t a, uint64_t b, uint64_t c) {
    if (op == ATOMIC_EXCH) return b;
    if (op == ATOMIC_CAS) return a == b ? c : a;
    if (is_float(t)) return float_after(op, t, a, b);
    switch (op) {
    case ATOMIC_ADD: return a + b;
    case ATOMIC_MIN: return less(t, a, b) ? a : b;
    case ATOMIC_MAX: return less(t, a, b) ? b : a;
    case ATOMIC_AND: return a & b;
    case ATOMIC_OR: return a | b;
    case ATOMIC_XOR: return a ^ b;
    case ATOMIC_INC: return (uint32_t)a >= (uint32_t)b ? 0 : a + 1;
    default: return !a || (uint32_t)a > (uint32_t)b ? b : a - 1; // DEC
    }
}

uint64_t atomic_update(AtomicOp op, AtomicType type, void *p, uint64_t b, uint64_t c) {
    uint32_t bytes = atomic_bytes(type);
    uint64_t was = atomic_get(p, bytes),
             mask = bytes == 8 ? ~(uint64_t)0 : ((uint64_t)1 << 8 * bytes) - 1;
    while (!replace(p, bytes, &was, after(op, type, was, b & mask, c & mask))) {
    }
    return was;
}
