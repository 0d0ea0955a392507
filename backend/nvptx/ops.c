/* ops.c - op.def in LLVM: one function lower_NAME a row.
 *
 * Operands arrive in the common value type `vt` of the row's type rule. Division and square root
 * are IEEE (div.rn, sqrt.rn); max and min propagate NaN; a * b + c may contract to an fma unless
 * strict. The transcendental functions but exp and exp2 are libclc's. Where a value may be
 * approximate (approx.c), fast.c comes first.
 */
#include "backend/nvptx/approx_int.h"
#include "backend/nvptx/ptx_int.h"

#include <string.h>

typedef struct LowerOp {
    Op op;
    DType type, vt;
    const DType *from; /* of each operand, as it was before widening */
    bool contract;
} LowerOp;

static Val fast(const LowerOp *o, Val v) {
    if (o->contract && LLVMCanValueUseFastMathFlags(v))
        LLVMSetFastMathFlags(v, LLVMFastMathAllowContract);
    return v;
}

static bool real(const LowerOp *o) {
    return o->vt == DT_f32;
}

static Val call1(Lower *l, const char *intrinsic, Val a) {
    Ty over = LLVMTypeOf(a);
    return ptx_intrinsic(l, l->b, intrinsic, &over, 1, &a, 1);
}

static Val call2(Lower *l, const char *intrinsic, Val a, Val b) {
    Ty over = LLVMTypeOf(a);
    Val arg[2] = {a, b};
    return ptx_intrinsic(l, l->b, intrinsic, &over, 1, arg, 2);
}

static Val libclc(Lower *l, const char *name, const Val *a, int n) {
    Ty type[2] = {l->f32, l->f32};
    Val arg[2] = {a[0], n > 1 ? a[1] : NULL};
    Ty ft = LLVMFunctionType(l->f32, type, (unsigned)n, 0);
    Val fn = LLVMGetNamedFunction(l->mod, name);
    if (!fn) fn = LLVMAddFunction(l->mod, name, ft);
    l->math = true;
    return LLVMBuildCall2(l->b, ft, fn, arg, (unsigned)n, "");
}

static Val zero_of(const Lower *l, const LowerOp *o) {
    return real(o) ? const_real(l, 0) : const_int(l, o->vt, 0);
}

/* ---- arithmetic ---------------------------------------------------------------------------------
 */

static Val lower_add(Lower *l, const LowerOp *o, const Val *a) {
    if (!real(o)) return LLVMBuildAdd(l->b, a[0], a[1], "");
    return fast(o, LLVMBuildFAdd(l->b, a[0], a[1], ""));
}

static Val lower_sub(Lower *l, const LowerOp *o, const Val *a) {
    if (!real(o)) return LLVMBuildSub(l->b, a[0], a[1], "");
    return fast(o, LLVMBuildFSub(l->b, a[0], a[1], ""));
}

static Val lower_mul(Lower *l, const LowerOp *o, const Val *a) {
    if (!real(o)) return LLVMBuildMul(l->b, a[0], a[1], "");
    return fast(o, LLVMBuildFMul(l->b, a[0], a[1], ""));
}

static Val lower_div(Lower *l, const LowerOp *o, const Val *a) {
    (void)o;
    return LLVMBuildFDiv(l->b, a[0], a[1], "");
}

static Val lower_imod(Lower *l, const LowerOp *o, const Val *a) {
    Val r = LLVMBuildSRem(l->b, a[0], a[1], "");
    Val below = LLVMBuildICmp(l->b, LLVMIntSLT, r, zero_of(l, o), "");
    return LLVMBuildSelect(l->b, below, LLVMBuildAdd(l->b, r, a[1], ""), r, "");
}

static Val lower_idiv(Lower *l, const LowerOp *o, const Val *a) {
    Val q = LLVMBuildSDiv(l->b, a[0], a[1], "");
    Val r = LLVMBuildSub(l->b, a[0], LLVMBuildMul(l->b, q, a[1], ""), "");
    Val below = LLVMBuildICmp(l->b, LLVMIntSLT, r, zero_of(l, o), "");
    return LLVMBuildAdd(l->b, q, LLVMBuildSExt(l->b, below, LLVMTypeOf(q), ""), "");
}

static Val lower_neg(Lower *l, const LowerOp *o, const Val *a) {
    return real(o) ? LLVMBuildFNeg(l->b, a[0], "") : LLVMBuildNeg(l->b, a[0], "");
}

static Val pick(Lower *l, LLVMIntPredicate p, const Val *a) {
    return LLVMBuildSelect(l->b, LLVMBuildICmp(l->b, p, a[0], a[1], ""), a[0], a[1], "");
}

static Val lower_min(Lower *l, const LowerOp *o, const Val *a) {
    return real(o) ? call2(l, "llvm.minimum", a[0], a[1]) : pick(l, LLVMIntSLT, a);
}

static Val lower_max(Lower *l, const LowerOp *o, const Val *a) {
    return real(o) ? call2(l, "llvm.maximum", a[0], a[1]) : pick(l, LLVMIntSGT, a);
}

static Val lower_abs(Lower *l, const LowerOp *o, const Val *a) {
    if (real(o)) return call1(l, "llvm.fabs", a[0]);
    Val below = LLVMBuildICmp(l->b, LLVMIntSLT, a[0], zero_of(l, o), "");
    return LLVMBuildSelect(l->b, below, LLVMBuildNeg(l->b, a[0], ""), a[0], "");
}

static Val lower_sign(Lower *l, const LowerOp *o, const Val *a) {
    Val zero = zero_of(l, o);
    if (!real(o)) {
        Ty t = LLVMTypeOf(a[0]);
        Val above = LLVMBuildZExt(l->b, LLVMBuildICmp(l->b, LLVMIntSGT, a[0], zero, ""), t, "");
        Val below = LLVMBuildZExt(l->b, LLVMBuildICmp(l->b, LLVMIntSLT, a[0], zero, ""), t, "");
        return LLVMBuildSub(l->b, above, below, "");
    }
    Val above = LLVMBuildFCmp(l->b, LLVMRealOGT, a[0], zero, "");
    Val below = LLVMBuildFCmp(l->b, LLVMRealOLT, a[0], zero, "");
    Val v = LLVMBuildSelect(l->b, below, const_real(l, -1), a[0], ""); /* 0 and NaN stay */
    return LLVMBuildSelect(l->b, above, const_real(l, 1), v, "");
}

/* ---- real functions
 * -------------------------------------------------------------------------------- */

#define INTRINSIC1(name, intrinsic)                                                                \
    static Val lower_##name(Lower *l, const LowerOp *o, const Val *a) {                            \
        (void)o;                                                                                   \
        return call1(l, intrinsic, a[0]);                                                          \
    }
INTRINSIC1(floor, "llvm.floor")
INTRINSIC1(ceil, "llvm.ceil")
INTRINSIC1(round, "llvm.roundeven")
INTRINSIC1(sqrt, "llvm.sqrt")

#define LIBCLC(name, mangled, n)                                                                   \
    static Val lower_##name(Lower *l, const LowerOp *o, const Val *a) {                            \
        (void)o;                                                                                   \
        return libclc(l, mangled, a, n);                                                           \
    }
LIBCLC(log, "_Z3logf", 1)
LIBCLC(log2, "_Z4log2f", 1)
LIBCLC(tanh, "_Z4tanhf", 1)
LIBCLC(erf, "_Z3erff", 1)
LIBCLC(erfc, "_Z4erfcf", 1)
LIBCLC(sin, "_Z3sinf", 1)
LIBCLC(cos, "_Z3cosf", 1)
LIBCLC(pow, "_Z3powff", 2)

/* ---- e^x and 2^x: libclc's flush subnormal results and divide ----------------------------------
 *
 * x = j ln2 + r with |r| <= ln2 / 2, e^r = 1 + r + r^2 q(r), and 2^j in two factors so that a
 * subnormal result is rounded once. q is the polynomial of degree 4 of least relative error of e^r
 * (2^-27.4 with these f32 coefficients). In all 0.8 ulp, no branch. */

static Val fma3(Lower *l, Val a, Val b, Val c) {
    Val arg[3] = {a, b, c};
    return ptx_intrinsic(l, l->b, "llvm.fma", &l->f32, 1, arg, 3);
}

static Val exp_reduced(Lower *l, Val r) {
    static const double q[] = {
        0x1.6a1070p-10, 0x1.1245cap-7, 0x1.55593cp-5, 0x1.555482p-3, 0x1.fffffcp-2, 1, 1};
    Val v = const_real(l, q[0]);
    for (size_t i = 1; i < sizeof q / sizeof *q; i++) v = fma3(l, v, r, const_real(l, q[i]));
    return v;
}

static Val two_to(Lower *l, Val j) {
    Val biased = LLVMBuildAdd(l->b, j, LLVMConstInt(l->i32, 127, 0), "");
    Val bits = LLVMBuildShl(l->b, biased, LLVMConstInt(l->i32, 23, 0), "");
    return LLVMBuildBitCast(l->b, bits, l->f32, "");
}

static Val scaled(Lower *l, Val v, Val j) {
    Val half = LLVMBuildAShr(l->b, j, LLVMConstInt(l->i32, 1, 0), "");
    v = LLVMBuildFMul(l->b, v, two_to(l, half), "");
    return LLVMBuildFMul(l->b, v, two_to(l, LLVMBuildSub(l->b, j, half, "")), "");
}

/* Keeps a NaN; beyond the ends the result is 0 or infinity as at them. */
static Val clamped(Lower *l, Val v, double lo, double hi) {
    v = call2(l, "llvm.maximum", v, const_real(l, lo));
    return call2(l, "llvm.minimum", v, const_real(l, hi));
}

/* The f32 that ends in the nearest integer of a small number added to it. */
enum { MAGIC = 0x4b400000 };

static Val nearest(Lower *l, Val t, Val *j) {
    Val magic = LLVMConstInt(l->i32, MAGIC, 0);
    *j = LLVMBuildSub(l->b, LLVMBuildBitCast(l->b, t, l->i32, ""), magic, "");
    return LLVMBuildFSub(l->b, t, const_real(l, 0x1.8p23), "");
}

static Val lower_exp(Lower *l, const LowerOp *o, const Val *a) {
    (void)o;
    Val x = clamped(l, a[0], -105, 89), j;
    Val t = fma3(l, x, const_real(l, 0x1.715476p0), const_real(l, 0x1.8p23));
    Val n = nearest(l, t, &j);
    Val r = fma3(l, n, const_real(l, -0x1.62e430p-1), x);
    r = fma3(l, n, const_real(l, 0x1.05c610p-29), r);
    return scaled(l, exp_reduced(l, r), j);
}

static Val lower_exp2(Lower *l, const LowerOp *o, const Val *a) {
    (void)o;
    Val x = clamped(l, a[0], -152, 129), j;
    Val n = nearest(l, LLVMBuildFAdd(l->b, x, const_real(l, 0x1.8p23), ""), &j);
    Val f = LLVMBuildFSub(l->b, x, n, "");
    f = LLVMBuildFMul(l->b, f, const_real(l, 0x1.62e430p-1), "");
    return scaled(l, exp_reduced(l, f), j);
}

static Val lower_rsqrt(Lower *l, const LowerOp *o, const Val *a) {
    return LLVMBuildFDiv(l->b, const_real(l, 1), lower_sqrt(l, o, a), "");
}

/* With e = e^-|a|: 1 / (1 + e), or e / (1 + e) for a < 0, which keeps what is tiny. */
static Val lower_sigmoid(Lower *l, const LowerOp *o, const Val *a) {
    Val minus = LLVMBuildFNeg(l->b, call1(l, "llvm.fabs", a[0]), "");
    Val one = const_real(l, 1), e = lower_exp(l, o, &minus);
    Val below = LLVMBuildFCmp(l->b, LLVMRealOLT, a[0], const_real(l, 0), "");
    Val top = LLVMBuildSelect(l->b, below, e, one, "");
    Val d = LLVMBuildFAdd(l->b, one, e, "");
    if (!o->contract) return LLVMBuildFDiv(l->b, top, d, "");
    Val r = ptx_rcp(l, d); /* d is in [1, 2]: a Newton step makes it an ulp, with no special case */
    r = fma3(l, r, fma3(l, LLVMBuildFNeg(l->b, d, ""), r, one), r);
    return LLVMBuildFMul(l->b, top, r, "");
}

/* ---- conditions
 * --------------------------------------------------------------------------------------- */

#define COMPARE(name, fp, ip)                                                                      \
    static Val lower_##name(Lower *l, const LowerOp *o, const Val *a) {                            \
        return real(o) ? LLVMBuildFCmp(l->b, fp, a[0], a[1], "")                                   \
                       : LLVMBuildICmp(l->b, ip, a[0], a[1], "");                                  \
    }
COMPARE(eq, LLVMRealOEQ, LLVMIntEQ)
COMPARE(ne, LLVMRealUNE, LLVMIntNE)
COMPARE(lt, LLVMRealOLT, LLVMIntSLT)
COMPARE(le, LLVMRealOLE, LLVMIntSLE)
COMPARE(gt, LLVMRealOGT, LLVMIntSGT)
COMPARE(ge, LLVMRealOGE, LLVMIntSGE)

static Val lower_and(Lower *l, const LowerOp *o, const Val *a) {
    (void)o;
    return LLVMBuildAnd(l->b, a[0], a[1], "");
}

static Val lower_or(Lower *l, const LowerOp *o, const Val *a) {
    (void)o;
    return LLVMBuildOr(l->b, a[0], a[1], "");
}

static Val lower_not(Lower *l, const LowerOp *o, const Val *a) {
    (void)o;
    return LLVMBuildNot(l->b, a[0], "");
}

static Val lower_select(Lower *l, const LowerOp *o, const Val *a) {
    (void)o;
    return LLVMBuildSelect(l->b, a[0], a[1], a[2], "");
}

static Val lower_within(Lower *l, const LowerOp *o, const Val *a) {
    return LLVMBuildSelect(l->b, a[0], a[1], zero_of(l, o), "");
}

static Val lower_copy(Lower *l, const LowerOp *o, const Val *a) {
    (void)l;
    (void)o;
    return a[0];
}

static Val lower_cast(Lower *l, const LowerOp *o, const Val *a) {
    return type_convert(l, o->from[0], o->type, a[0]);
}

/* ---- rand: Philox4x32-10 (LANGUAGE.md rule 12)
 * ---------------------------------------------------- */

static Val mul_wide(Lower *l, Val a, uint32_t m, Val *high) {
    Val p = LLVMBuildMul(l->b, LLVMBuildZExt(l->b, a, l->i64, ""), LLVMConstInt(l->i64, m, 0), "");
    Val h = LLVMBuildLShr(l->b, p, LLVMConstInt(l->i64, 32, 0), "");
    *high = LLVMBuildTrunc(l->b, h, l->i32, "");
    return LLVMBuildTrunc(l->b, p, l->i32, "");
}

static Val low_word(Lower *l, Val v) {
    return LLVMBuildIntCast2(l->b, v, l->i32, 1, "");
}

static Val lower_rand(Lower *l, const LowerOp *o, const Val *a) {
    (void)o;
    LLVMBuilderRef b = l->b;
    Val i32c[4] = {LLVMConstInt(l->i32, 0, 0), LLVMConstInt(l->i32, 1, 0),
                   LLVMConstInt(l->i32, 2, 0), LLVMConstInt(l->i32, 3, 0)};
    Val k0 = low_word(l, a[0]);
    Val k1 = low_word(l, LLVMBuildLShr(b, a[0], LLVMConstInt(l->i64, 32, 0), ""));
    Val last = low_word(l, a[4]);
    Val c[4] = {LLVMBuildLShr(b, last, i32c[2], ""), low_word(l, a[3]), low_word(l, a[2]),
                low_word(l, a[1])};
    for (int round = 0; round < 10; round++) {
        Val h0, h1, l0 = mul_wide(l, c[0], 0xD2511F53u, &h0);
        Val l1 = mul_wide(l, c[2], 0xCD9E8D57u, &h1);
        Val n0 = LLVMBuildXor(b, LLVMBuildXor(b, h1, c[1], ""), k0, "");
        Val n2 = LLVMBuildXor(b, LLVMBuildXor(b, h0, c[3], ""), k1, "");
        c[0] = n0, c[1] = l1, c[2] = n2, c[3] = l0;
        k0 = LLVMBuildAdd(b, k0, LLVMConstInt(l->i32, 0x9E3779B9u, 0), "");
        k1 = LLVMBuildAdd(b, k1, LLVMConstInt(l->i32, 0xBB67AE85u, 0), "");
    }
    Val word = LLVMBuildAnd(b, last, i32c[3], "");
    Val w = c[0];
    for (int i = 1; i < 4; i++)
        w = LLVMBuildSelect(b, LLVMBuildICmp(b, LLVMIntEQ, word, i32c[i], ""), c[i], w, "");
    w = LLVMBuildLShr(b, w, LLVMConstInt(l->i32, 8, 0), "");
    Val f = LLVMBuildUIToFP(b, w, l->f32, "");
    return LLVMBuildFMul(b, f, const_real(l, 0x1p-24), "");
}

/* ---- the table
 * ----------------------------------------------------------------------------------------- */

typedef Val LowerFn(Lower *l, const LowerOp *o, const Val *a);
static const struct {
    LowerFn *fn;
    OpRule rule;
    int arity;
} row[OP_COUNT] = {
#define OP(name, arity, type, traits, sep, grad, eval, lower, formula)                             \
    [OP_##name] = {lower_##lower, RULE_##type, arity},
#include "ir/op.def"
#undef OP
};

/* The value type in which operands first..n meet. */
static DType meet(const DType *t, int first, int n) {
    DType m = DT_bool;
    for (int i = first; i < n; i++) {
        DType v = dtype_value(t[i]);
        if (v == DT_f32 || m == DT_f32)
            m = DT_f32;
        else if (v == DT_i64 || m == DT_i64)
            m = DT_i64;
        else if (v == DT_i32 || m == DT_i32)
            m = DT_i32;
    }
    return m;
}

static DType operand_type(OpRule r, const DType *from, int n, int i, DType type) {
    switch (r) {
    case RULE_arith: return dtype_value(type);
    case RULE_int: return dtype_value(type);
    case RULE_real: return DT_f32;
    case RULE_cmp: {
        DType m = meet(from, 0, n);
        return m == DT_bool ? DT_i32 : m;
    }
    case RULE_logic: return DT_bool;
    case RULE_select: return i == 0 ? DT_bool : dtype_value(type);
    case RULE_within: return i == 0 ? DT_bool : dtype_value(from[1]);
    case RULE_rand: return DT_i64;
    default: return dtype_value(from[i]);
    }
}

bool op_is_long(const Lower *l, const TInst *i) {
    if (fast_has(i->op, l->approx[i->id])) return false;
    LowerFn *const longs[] = {lower_log, lower_log2, lower_tanh, lower_erf, lower_erfc,
                              lower_sin, lower_cos,  lower_pow,  lower_rand};
    for (size_t k = 0; k < sizeof longs / sizeof *longs; k++)
        if (row[i->op].fn == longs[k]) return true;
    return false;
}

Val op_emit(Lower *l, Op op, DType type, const DType *from, const Val *in) {
    Val a[8];
    int n = row[op].arity;
    LowerOp o = {op, type, DT_none, from, !l->o->strict};
    for (int i = 0; i < n; i++) {
        DType t = operand_type(row[op].rule, from, n, i, type);
        a[i] = type_widen(l, from[i], t, in[i]);
        o.vt = t;
    }
    return row[op].fn(l, &o, a);
}

Val op_emit_exact(Lower *l, Op op, DType type, Val a, Val b) {
    DType from[2] = {type, type};
    Val in[2] = {a, b};
    LowerOp o = {op, type, dtype_value(type), from, false};
    return row[op].fn(l, &o, in);
}
