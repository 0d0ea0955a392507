/* types.c - stored types and value types.
 *
 * In registers a real is an f32 (already rounded where its type is a narrow one), an integer i32 or
 * i64, a condition i1. Conversions of bf16 and f16 are in hardware; of fp8 where the target has
 * them (sm_89 on), else in integer code, so that the general kernel's PTX is right on every chip.
 * Nothing here uses LLVM's vectors or its bf16 and half loads: those are where its NVPTX back end
 * has been wrong (CASES A84).
 */
#include "backend/nvptx/nvptx_int.h"
#include "backend/nvptx/ptx_int.h"

#include <math.h>
#include <string.h>

Ty reg_type(const Lower *l, DType t) {
    switch (dtype_value(t)) {
    case DT_f32: return l->f32;
    case DT_i64: return l->i64;
    case DT_i32: return l->i32;
    case DT_bool: return l->i1;
    default: FK_BUG("type %d has no register", (int)t);
    }
}

Val const_real(const Lower *l, double v) {
    float f = (float)v;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return LLVMConstBitCast(LLVMConstInt(l->i32, bits, 0), l->f32);
}

Val const_int(const Lower *l, DType t, int64_t v) {
    if (dtype_value(t) == DT_bool) v = v != 0;
    return LLVMConstInt(reg_type(l, t), (uint64_t)v, 1);
}

enum Identity { ID_zero, ID_one, ID_lowest, ID_highest };
static const enum Identity identity_of[] = {
#define REDUCE(name, combine, identity, nan, factors, formula) ID_##identity,
#include "ir/reduce.def"
#undef REDUCE
};

Val identity(const Lower *l, Reduce r, DType t) {
    t = dtype_value(t);
    enum Identity id = identity_of[r];
    if (t == DT_f32) {
        double v[] = {0, 1, -INFINITY, INFINITY};
        return const_real(l, v[id]);
    }
    int64_t v[] = {0, 1, dtype_lowest(t), dtype_highest(t)};
    return const_int(l, t, v[id]);
}

static Val u32(const Lower *l, uint32_t v) {
    return LLVMConstInt(l->i32, v, 0);
}

static Val as_i32(Lower *l, Val f) {
    return LLVMBuildBitCast(l->b, f, l->i32, "");
}

static Val as_f32(Lower *l, Val i) {
    return LLVMBuildBitCast(l->b, i, l->f32, "");
}

static Val is_nan(Lower *l, Val f) {
    return LLVMBuildFCmp(l->b, LLVMRealUNO, f, f, "");
}

/* ---- fp8 ------------------------------------------------------------------------------------ */

typedef struct Fp8 {
    int man, bias;    /* mantissa bits, exponent bias */
    uint32_t largest; /* bits of the largest finite value */
} Fp8;
static const Fp8 fp8_e4m3 = {3, 7, 0x7e}, fp8_e5m2 = {2, 15, 0x7b};

static bool fp8_in_hardware(const Lower *l) {
    return l->o->target->has & TGT_F;
}

/* Through f16, which has all values of both types. */
static Val fp8_widened(Lower *l, bool e4m3, Val b8) {
    Val pair = ptx_cvt_fp8_f16(l, e4m3, LLVMBuildZExt(l->b, b8, l->i16, ""));
    Val low = LLVMBuildTrunc(l->b, pair, l->i16, "");
    return LLVMBuildFPExt(l->b, LLVMBuildBitCast(l->b, low, l->f16, ""), l->f32, "");
}

static Val fp8_from_bits(Lower *l, const Fp8 *t, Val b8) {
    LLVMBuilderRef b = l->b;
    if (fp8_in_hardware(l)) return fp8_widened(l, t == &fp8_e4m3, b8);
    Val b32 = LLVMBuildZExt(b, b8, l->i32, "");
    Val mag = LLVMBuildAnd(b, b32, u32(l, 0x7f), "");
    Val sign = LLVMBuildShl(b, LLVMBuildAnd(b, b32, u32(l, 0x80), ""), u32(l, 24), "");
    /* Shifted to an f32's fields the value is 2^(127 - bias) too small, subnormals included. */
    Val f = as_f32(l, LLVMBuildShl(b, mag, u32(l, (uint32_t)(23 - t->man)), ""));
    f = LLVMBuildFMul(b, f, const_real(l, ldexp(1, 127 - t->bias)), "");
    Val bits = as_i32(l, f);
    if (t == &fp8_e5m2) { /* has an infinity at 0x7c */
        Val inf = LLVMBuildICmp(b, LLVMIntEQ, mag, u32(l, 0x7c), "");
        bits = LLVMBuildSelect(b, inf, u32(l, 0x7f800000), bits, "");
    }
    uint32_t first_nan = t == &fp8_e5m2 ? 0x7d : 0x7f;
    Val nan = LLVMBuildICmp(b, LLVMIntUGE, mag, u32(l, first_nan), "");
    bits = LLVMBuildSelect(b, nan, u32(l, 0x7fc00000), bits, "");
    return as_f32(l, LLVMBuildOr(b, bits, sign, ""));
}

/* To nearest even: in the normal range by adding half of the last place (less one unless it is odd)
 * to the bits; below it by adding the f32 whose last place is the smallest subnormal. */
static Val fp8_rounded(Lower *l, const Fp8 *t, Val f) {
    LLVMBuilderRef b = l->b;
    uint32_t drop = (uint32_t)(23 - t->man);
    Val all = as_i32(l, f);
    Val mag = LLVMBuildAnd(b, all, u32(l, 0x7fffffff), "");
    Val odd = LLVMBuildAnd(b, LLVMBuildLShr(b, mag, u32(l, drop), ""), u32(l, 1), "");
    Val r = LLVMBuildAdd(b, mag, u32(l, (1u << (drop - 1)) - 1), "");
    r = LLVMBuildLShr(b, LLVMBuildAdd(b, r, odd, ""), u32(l, drop), "");
    r = LLVMBuildSub(b, r, u32(l, (uint32_t)(127 - t->bias) << t->man), "");
    Val big = LLVMBuildICmp(b, LLVMIntUGT, r, u32(l, t->largest), "");
    r = LLVMBuildSelect(b, big, u32(l, t->largest), r, "");

    double magic = ldexp(1, 23 + 1 - t->bias - t->man);
    Val sub = LLVMBuildFAdd(b, as_f32(l, mag), const_real(l, magic), "");
    sub = LLVMBuildSub(b, as_i32(l, sub), as_i32(l, const_real(l, magic)), "");
    uint32_t smallest = (uint32_t)(127 + 1 - t->bias) << 23; /* normal */
    Val small = LLVMBuildICmp(b, LLVMIntULT, mag, u32(l, smallest), "");
    r = LLVMBuildSelect(b, small, sub, r, "");

    r = LLVMBuildSelect(b, is_nan(l, f), u32(l, 0x7f), r, "");
    Val sign = LLVMBuildAnd(b, LLVMBuildLShr(b, all, u32(l, 24), ""), u32(l, 0x80), "");
    return LLVMBuildTrunc(b, LLVMBuildOr(b, r, sign, ""), l->i8, "");
}

/* ---- bits ---------------------------------------------------------------------------------------
 */

/* The bits of a value that was just rounded are at hand; a store need not round again. */
typedef struct NarrowKey {
    Val v;
    intptr_t type;
} NarrowKey;

static Val rounded(Lower *l, Val from, Val bits) {
    *map_put(&l->wide, &bits, sizeof bits) = (intptr_t)from;
    return bits;
}

static Val fp8_bits(Lower *l, const Fp8 *t, Val f) {
    if (!fp8_in_hardware(l)) return fp8_rounded(l, t, f);
    Val pair = ptx_cvt_fp8_pair(l, t == &fp8_e4m3, f, const_real(l, 0));
    return rounded(l, f, LLVMBuildTrunc(l->b, pair, l->i8, ""));
}

Val type_bits(Lower *l, DType t, Val v) {
    NarrowKey key = {v, (intptr_t)t};
    intptr_t *known = map_get(&l->narrow, &key, sizeof key);
    if (known) return (Val)*known;
    switch (t) {
    case DT_f32: return as_i32(l, v);
    case DT_f16:
        return rounded(l, v,
                       LLVMBuildBitCast(l->b, LLVMBuildFPTrunc(l->b, v, l->f16, ""), l->i16, ""));
    case DT_bf16: return rounded(l, v, ptx_cvt_bf16(l, v));
    case DT_e4m3: return fp8_bits(l, &fp8_e4m3, v);
    case DT_e5m2: return fp8_bits(l, &fp8_e5m2, v);
    case DT_i64:
    case DT_i32: return v;
    case DT_i8:
    case DT_u8:
    case DT_i4:
    case DT_u4: return LLVMBuildTrunc(l->b, v, l->i8, "");
    case DT_bool: return LLVMBuildZExt(l->b, v, l->i8, "");
    default: FK_BUG("no bits of type %d", (int)t);
    }
}

Val type_bits_pair(Lower *l, DType t, Val lo, Val hi) {
    intptr_t *from_lo = map_get(&l->wide, &lo, sizeof lo);
    intptr_t *from_hi = map_get(&l->wide, &hi, sizeof hi);
    if (from_lo && from_hi && dtype_bits(t) == 8)
        return ptx_cvt_fp8_pair(l, t == DT_e4m3, (Val)*from_lo, (Val)*from_hi);
    if (from_lo && from_hi) return ptx_cvt_pair(l, t == DT_bf16, (Val)*from_lo, (Val)*from_hi);
    unsigned width = LLVMGetIntTypeWidth(LLVMTypeOf(lo));
    Ty both = LLVMIntTypeInContext(l->cx, 2 * width);
    hi = LLVMBuildShl(l->b, LLVMBuildZExt(l->b, hi, both, ""), LLVMConstInt(both, width, 0), "");
    return LLVMBuildOr(l->b, hi, LLVMBuildZExt(l->b, lo, both, ""), "");
}

Val type_from_bits(Lower *l, DType t, Val bits) {
    switch (t) {
    case DT_f32: return as_f32(l, bits);
    case DT_f16: return LLVMBuildFPExt(l->b, LLVMBuildBitCast(l->b, bits, l->f16, ""), l->f32, "");
    case DT_bf16: {
        Val w = LLVMBuildZExt(l->b, bits, l->i32, "");
        return as_f32(l, LLVMBuildShl(l->b, w, u32(l, 16), ""));
    }
    case DT_e4m3: return fp8_from_bits(l, &fp8_e4m3, bits);
    case DT_e5m2: return fp8_from_bits(l, &fp8_e5m2, bits);
    case DT_i64:
    case DT_i32: return bits;
    case DT_i8: return LLVMBuildSExt(l->b, bits, l->i32, "");
    case DT_u8: return LLVMBuildZExt(l->b, bits, l->i32, "");
    case DT_bool:
        return LLVMBuildICmp(l->b, LLVMIntNE, bits, LLVMConstInt(LLVMTypeOf(bits), 0, 0), "");
    default: FK_BUG("no value of bits of type %d", (int)t);
    }
}

static Val nibble_value(Lower *l, DType t, Val byte, Val nibble) {
    Val w = LLVMBuildZExt(l->b, byte, l->i32, "");
    Val at = LLVMBuildShl(l->b, nibble, u32(l, 2), "");
    w = LLVMBuildLShr(l->b, w, at, "");
    if (t == DT_u4) return LLVMBuildAnd(l->b, w, u32(l, 15), "");
    w = LLVMBuildShl(l->b, w, u32(l, 28), "");
    return LLVMBuildAShr(l->b, w, u32(l, 28), "");
}

Val type_load(Lower *l, DType t, Val ptr, Val nibble, Val pred) {
    int bits = dtype_bits(t);
    Val raw = ptx_load(l, bits < 8 ? 1 : bits / 8, ptr, pred);
    return bits == 4 ? nibble_value(l, t, raw, nibble) : type_from_bits(l, t, raw);
}

/* ---- conversions --------------------------------------------------------------------------------
 */

static Val clamp_int(Lower *l, DType to, Val v) {
    Ty t = LLVMTypeOf(v);
    Val lo = LLVMConstInt(t, (uint64_t)dtype_lowest(to), 1);
    Val hi = LLVMConstInt(t, (uint64_t)dtype_highest(to), 1);
    v = LLVMBuildSelect(l->b, LLVMBuildICmp(l->b, LLVMIntSLT, v, lo, ""), lo, v, "");
    return LLVMBuildSelect(l->b, LLVMBuildICmp(l->b, LLVMIntSGT, v, hi, ""), hi, v, "");
}

static Val int_from_real(Lower *l, DType to, Val v) {
    if (to == DT_i64) {
        Val i = ptx_cvt_i64(l, v);
        return LLVMBuildSelect(l->b, is_nan(l, v), LLVMConstInt(l->i64, 0, 0), i, "");
    }
    Val i = ptx_cvt_i32(l, v);
    return to == DT_i32 ? i : clamp_int(l, to, i);
}

static Val int_from_int(Lower *l, DType to, Val v) {
    if (to == DT_i64) return LLVMBuildIntCast2(l->b, v, l->i64, 1, "");
    if (to != DT_i32 || LLVMTypeOf(v) == l->i64) v = clamp_int(l, to, v);
    return LLVMBuildIntCast2(l->b, v, l->i32, 1, "");
}

/* As the high half of a pair: an f32 at once, and of a unit that takes more of them a cycle than of
 * single ones. */
static Val bf16_rounded(Lower *l, Val v, Val *bits) {
    Val r = ptx_cvt_pair(l, true, const_real(l, 0), v);
    Val high = LLVMBuildLShr(l->b, r, u32(l, 16), "");
    *bits = rounded(l, v, LLVMBuildTrunc(l->b, high, l->i16, ""));
    return as_f32(l, r);
}

static Val real_rounded(Lower *l, DType to, Val v) {
    if (to == DT_f32) return v;
    NarrowKey had = {v, (intptr_t)to};
    bool fresh = l->roles && !l->online && to == DT_bf16 && !map_get(&l->narrow, &had, sizeof had);
    Val bits, r;
    if (fresh) {
        r = bf16_rounded(l, v, &bits);
    } else {
        bits = type_bits(l, to, v);
        r = type_from_bits(l, to, bits);
    }
    NarrowKey key = {r, (intptr_t)to};
    *map_put(&l->narrow, &key, sizeof key) = (intptr_t)bits;
    return r;
}

Val type_widen(Lower *l, DType from, DType to, Val v) {
    from = dtype_value(from);
    if (from == to) return v;
    if (from == DT_bool) {
        if (to == DT_f32) return LLVMBuildUIToFP(l->b, v, l->f32, "");
        return LLVMBuildZExt(l->b, v, reg_type(l, to), "");
    }
    if (to == DT_f32) {
        const intptr_t *known = map_get(&l->reals, &v, sizeof v);
        if (!known) return LLVMBuildSIToFP(l->b, v, l->f32, "");
        const RealOf *r = (const RealOf *)*known;
        *r->used = true;
        return LLVMBuildFAdd(l->b, r->base, const_real(l, r->add), "");
    }
    if (to == DT_i32 && from == DT_i64) return LLVMBuildTrunc(l->b, v, l->i32, ""); /* wraps */
    if (to == DT_i64 && from == DT_i32) return LLVMBuildSExt(l->b, v, l->i64, "");
    FK_BUG("%s does not widen to %s", dtype_name(from), dtype_name(to));
}

Val type_convert(Lower *l, DType from, DType to, Val v) {
    DType value = dtype_value(from);
    if (to == DT_bool) {
        if (value == DT_bool) return v;
        if (value == DT_f32) return LLVMBuildFCmp(l->b, LLVMRealUNE, v, const_real(l, 0), "");
        return LLVMBuildICmp(l->b, LLVMIntNE, v, LLVMConstInt(LLVMTypeOf(v), 0, 0), "");
    }
    if (dtype_class(to) == DC_REAL) {
        if (from == to) return v;
        return real_rounded(l, to, type_widen(l, value, DT_f32, v));
    }
    if (value == DT_f32) return int_from_real(l, to, v);
    if (value == DT_bool) return type_widen(l, value, dtype_value(to), v);
    return from == to ? v : int_from_int(l, to, v);
}
