/* eval_ops.c - what each op means: one function a row of op.def, in f64 and i64.
 *
 * Reals stay doubles; only casts round (and constants and integers that meet reals, which are f32
 * on every device). i32 and i64 wrap. Comparisons with NaN are false, != is true; min and max give
 * NaN when either operand is NaN.
 *
 * Exactness. A real is `exact` when any device holds this very value: it was loaded, is a constant,
 * an integer widened, a random number, or came from exact values by +, -, *, negation, |.|, min,
 * max, select, copy or a cast, with a result that an f32 can hold. Everything else (divisions,
 * functions, sums) is inexact: the device's value may differ in the last bits. A comparison, or a
 * rounding to an integer, of inexact reals within 2^-16 of its threshold makes the result `unsure`;
 * whatever is computed from an unsure value is unsure. Comparisons of integers, and relu(x) of a
 * loaded x, are always sure; so is a select whose arms agree within 2^-16, as both arms of
 * relu(sum) do near 0.
 */
#include "ir/eval_int.h"

#include <math.h>

/* ---- helpers ------------------------------------------------------------------------------ */

static EvalVal integer(int64_t i, bool unsure) {
    return (EvalVal){.i = i, .unsure = unsure, .exact = true};
}

static EvalVal inexact(double r, bool unsure) {
    return (EvalVal){.r = r, .unsure = unsure};
}

/* The result of an operation that a device rounds once, from exact operands or not. */
static EvalVal rounded(double r, bool unsure, bool exact) {
    return (EvalVal){.r = r, .unsure = unsure, .exact = exact && (double)(float)r == r};
}

static int64_t wrap(DType type, uint64_t v) {
    return type == DT_i32 ? (int64_t)(int32_t)(uint32_t)v : (int64_t)v;
}

static bool near(double a, double b) {
    double scale = fmax(1, fmax(fabs(a), fabs(b)));
    return fabs(a - b) <= 0x1p-16 * scale; /* false for NaN and for an infinity against itself */
}

static bool is_real(DType t) {
    return dtype_class(t) == DC_REAL;
}

#define BOTH(field) (in[0].field && in[1].field)
#define ANY(field)  (in[0].field || in[1].field)

/* ---- arithmetic --------------------------------------------------------------------------- */

#define ARITH(name, symbol)                                                                        \
    static EvalVal eval_##name(DType type, DType vt, const EvalVal *in) {                          \
        if (is_real(vt)) return rounded(in[0].r symbol in[1].r, ANY(unsure), BOTH(exact));         \
        return integer(wrap(type, (uint64_t)in[0].i symbol(uint64_t) in[1].i), ANY(unsure));       \
    }
ARITH(add, +)
ARITH(sub, -)
ARITH(mul, *)

static EvalVal eval_div(DType type, DType vt, const EvalVal *in) {
    (void)type, (void)vt;
    return inexact(in[0].r / in[1].r, ANY(unsure));
}

/* A divisor that is not positive is refused at launch unless nothing is computed: 0 here. */
static EvalVal eval_idiv(DType type, DType vt, const EvalVal *in) {
    (void)type, (void)vt;
    return integer(in[1].i > 0 ? floor_div(in[0].i, in[1].i) : 0, ANY(unsure));
}

static EvalVal eval_imod(DType type, DType vt, const EvalVal *in) {
    (void)type, (void)vt;
    return integer(in[1].i > 0 ? floor_mod(in[0].i, in[1].i) : 0, ANY(unsure));
}

static EvalVal eval_neg(DType type, DType vt, const EvalVal *in) {
    if (is_real(vt)) return rounded(-in[0].r, in[0].unsure, in[0].exact);
    return integer(wrap(type, 0 - (uint64_t)in[0].i), in[0].unsure);
}

static EvalVal extremum(DType vt, const EvalVal *in, bool first) {
    if (!is_real(vt)) return integer(first ? in[0].i : in[1].i, ANY(unsure));
    double r = isnan(in[0].r) ? in[0].r : isnan(in[1].r) ? in[1].r : first ? in[0].r : in[1].r;
    return rounded(r, ANY(unsure), BOTH(exact));
}

static EvalVal eval_min(DType type, DType vt, const EvalVal *in) {
    (void)type;
    return extremum(vt, in, is_real(vt) ? in[0].r <= in[1].r : in[0].i <= in[1].i);
}

static EvalVal eval_max(DType type, DType vt, const EvalVal *in) {
    (void)type;
    return extremum(vt, in, is_real(vt) ? in[0].r >= in[1].r : in[0].i >= in[1].i);
}

static EvalVal eval_abs(DType type, DType vt, const EvalVal *in) {
    if (is_real(vt)) return rounded(fabs(in[0].r), in[0].unsure, in[0].exact);
    return in[0].i < 0 ? eval_neg(type, vt, in) : integer(in[0].i, in[0].unsure);
}

static EvalVal eval_sign(DType type, DType vt, const EvalVal *in) {
    (void)type;
    if (!is_real(vt)) return integer((in[0].i > 0) - (in[0].i < 0), in[0].unsure);
    double x = in[0].r;
    bool unsure = in[0].unsure || (!in[0].exact && near(x, 0));
    return rounded(isnan(x) || x == 0 ? x : copysign(1, x), unsure, true);
}

/* ---- functions ---------------------------------------------------------------------------- */

#define REAL(name, formula)                                                                        \
    static EvalVal eval_##name(DType type, DType vt, const EvalVal *in) {                          \
        (void)type, (void)vt;                                                                      \
        double a = in[0].r;                                                                        \
        return inexact(formula, in[0].unsure);                                                     \
    }
REAL(sqrt, sqrt(a))
REAL(rsqrt, 1 / sqrt(a))
REAL(exp, exp(a))
REAL(exp2, exp2(a))
REAL(log, log(a))
REAL(log2, log2(a))
REAL(tanh, tanh(a))
REAL(sigmoid, 1 / (1 + exp(-a)))
REAL(erf, erf(a))
REAL(erfc, erfc(a))
REAL(sin, sin(a))
REAL(cos, cos(a))

/* To an integral value; it jumps at every integer, or half-way between two. */
#define STEP(name, formula, jump)                                                                  \
    static EvalVal eval_##name(DType type, DType vt, const EvalVal *in) {                          \
        (void)type, (void)vt;                                                                      \
        double a = in[0].r;                                                                        \
        return rounded(formula, in[0].unsure || (!in[0].exact && near(a, jump)), true);            \
    }
STEP(floor, floor(a), nearbyint(a))
STEP(ceil, ceil(a), nearbyint(a))
STEP(round, nearbyint(a), floor(a) + 0.5)

static EvalVal eval_pow(DType type, DType vt, const EvalVal *in) {
    (void)type, (void)vt;
    return inexact(pow(in[0].r, in[1].r), ANY(unsure));
}

/* ---- comparison and logic ------------------------------------------------------------------ */

static EvalVal compared(DType vt, const EvalVal *in, bool reals, bool ints) {
    if (!is_real(vt)) return integer(ints, ANY(unsure));
    return integer(reals, ANY(unsure) || (!BOTH(exact) && near(in[0].r, in[1].r)));
}

#define CMP(name, symbol)                                                                          \
    static EvalVal eval_##name(DType type, DType vt, const EvalVal *in) {                          \
        (void)type;                                                                                \
        return compared(vt, in, in[0].r symbol in[1].r, in[0].i symbol in[1].i);                   \
    }
CMP(eq, ==)
CMP(ne, !=)
CMP(lt, <)
CMP(le, <=)
CMP(gt, >)
CMP(ge, >=)

/* An operand decides alone when it is sure and false (and), sure and true (or). */
static EvalVal eval_and(DType type, DType vt, const EvalVal *in) {
    (void)type, (void)vt;
    bool decided = (!in[0].i && !in[0].unsure) || (!in[1].i && !in[1].unsure);
    return integer(BOTH(i), ANY(unsure) && !decided);
}

static EvalVal eval_or(DType type, DType vt, const EvalVal *in) {
    (void)type, (void)vt;
    bool decided = (in[0].i && !in[0].unsure) || (in[1].i && !in[1].unsure);
    return integer(ANY(i), ANY(unsure) && !decided);
}

static EvalVal eval_not(DType type, DType vt, const EvalVal *in) {
    (void)type, (void)vt;
    return integer(!in[0].i, in[0].unsure);
}

static EvalVal eval_select(DType type, DType vt, const EvalVal *in) {
    (void)type;
    EvalVal v = in[0].i ? in[1] : in[2], other = in[0].i ? in[2] : in[1];
    if (!in[0].unsure) return v;
    bool same = is_real(vt) ? near(v.r, other.r) : v.i == other.i;
    v.unsure = v.unsure || other.unsure || !same;
    v.exact = v.exact && !is_real(vt);
    return v;
}

static EvalVal eval_within(DType type, DType vt, const EvalVal *in) {
    (void)type, (void)vt;
    EvalVal v = in[0].i ? in[1] : (EvalVal){.exact = true};
    v.unsure = v.unsure || in[0].unsure;
    return v;
}

/* ---- copies and casts ---------------------------------------------------------------------- */

static EvalVal eval_copy(DType type, DType vt, const EvalVal *in) {
    (void)type, (void)vt;
    return in[0];
}

static EvalVal eval_cast(DType type, DType vt, const EvalVal *in) {
    EvalVal v = in[0];
    if (is_real(type)) {
        v = eval_widen(vt, DT_f32, v); /* an integer meets reals as f32 */
        v.r = dtype_round(type, v.r);
    } else if (dtype_class(type) == DC_BOOL) {
        if (is_real(vt)) v = integer(v.r != 0, v.unsure || (!v.exact && near(v.r, 0)));
        v.i = v.i != 0;
    } else if (is_real(vt)) {
        bool tie = !v.exact && near(v.r, floor(v.r) + 0.5);
        v = integer(dtype_to_int(type, v.r), v.unsure || tie);
    } else {
        v.i = dtype_clamp(type, v.i);
    }
    return v;
}

EvalVal eval_widen(DType from, DType to, EvalVal v) {
    if (is_real(from) || !is_real(to)) {
        FK_ASSERT(is_real(from) == is_real(to));
        return v;
    }
    v.r = (double)(float)v.i;
    v.i = 0;
    v.exact = true;
    return v;
}

EvalVal eval_load(DType type, const void *base, int64_t index) {
    EvalVal v = {.exact = true};
    dtype_load(type, base, index, &v.r, &v.i);
    return v;
}

EvalVal eval_const(DType type, double num, int64_t inum) {
    if (is_real(type)) return (EvalVal){.r = dtype_round(type, num), .exact = true};
    return integer(inum, false);
}

/* ---- random numbers ------------------------------------------------------------------------ */

/* Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3 (SC 2011). */
void eval_philox(uint32_t ctr[4], uint32_t k0, uint32_t k1) {
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)ctr[0] * 0xD2511F53u, p1 = (uint64_t)ctr[2] * 0xCD9E8D57u;
        uint32_t next[4] = {(uint32_t)(p1 >> 32) ^ ctr[1] ^ k0, (uint32_t)p1,
                            (uint32_t)(p0 >> 32) ^ ctr[3] ^ k1, (uint32_t)p0};
        for (int i = 0; i < 4; i++) ctr[i] = next[i];
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
}

float eval_random(uint64_t seed, const int64_t idx[4]) {
    uint32_t last = (uint32_t)idx[3];
    uint32_t ctr[4] = {last / 4, (uint32_t)idx[2], (uint32_t)idx[1], (uint32_t)idx[0]};
    eval_philox(ctr, (uint32_t)seed, (uint32_t)(seed >> 32));
    return (float)(ctr[last % 4] >> 8) * 0x1p-24f;
}

static EvalVal eval_rand(DType type, DType vt, const EvalVal *in) {
    (void)type, (void)vt;
    bool unsure = false;
    for (int i = 0; i < 5; i++) unsure = unsure || in[i].unsure;
    const int64_t idx[4] = {in[1].i, in[2].i, in[3].i, in[4].i};
    return rounded((double)eval_random((uint64_t)in[0].i, idx), unsure, true);
}

/* ---- the tables ---------------------------------------------------------------------------- */

EvalFn *eval_fn(Op op) {
    static EvalFn *const fn[OP_COUNT] = {
#define OP(name, arity, type, traits, sep, grad, eval, lower, formula) eval_##eval,
#include "ir/op.def"
#undef OP
    };
    FK_ASSERT((unsigned)op < OP_COUNT);
    return fn[op];
}

EvalVal eval_op(Op op, DType type, DType vt, const EvalVal *in) {
    return eval_fn(op)(type, vt, in);
}

static EvalVal identity_zero(DType type) {
    (void)type;
    return (EvalVal){.exact = true};
}

static EvalVal identity_one(DType type) {
    return eval_const(type, 1, 1);
}

static EvalVal identity_lowest(DType type) {
    return is_real(type) ? eval_const(type, (double)-INFINITY, 0) : integer(dtype_lowest(type), 0);
}

static EvalVal identity_highest(DType type) {
    return is_real(type) ? eval_const(type, (double)INFINITY, 0) : integer(dtype_highest(type), 0);
}

EvalVal eval_identity(Reduce r, DType type) {
    switch (r) {
#define REDUCE(name, combine, identity, nan, factors, formula)                                     \
    case RED_##name: return identity_##identity(type);
#include "ir/reduce.def"
#undef REDUCE
    case RED_COUNT: break;
    }
    FK_BUG("no such reduction");
}
