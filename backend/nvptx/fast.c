/* fast.c - approximate forms of ops, in few instructions and no branch, on the chip's own units:
 * ex2, lg2, rcp, rsqrt, sqrt (about 2^-22 of the value) and tanh.approx (2^-11).
 *
 * Functions take their argument as a polynomial p of a value x, so that constant factors (log2 e,
 * one half) go into its coefficients. Special values come out as in the exact forms: NaN stays NaN,
 * at the infinities the limits. The coefficients are fits of least relative error in f64, made for
 * this file; the error after each.
 *
 * Near 0 some functions are a short polynomial. Forms for all arguments that have such a one take
 * both ways and select; who knows a whole set of arguments to be near has a form of its own.
 */
#include "backend/nvptx/approx_int.h"
#include "backend/nvptx/ptx_int.h"

#include <math.h>

static const double log2e = 1.4426950408889634, ln2 = 0.6931471805599453;

static Val real1(Lower *l, const char *intrinsic, Val a) {
    return ptx_intrinsic(l, l->b, intrinsic, NULL, 0, &a, 1);
}

static Val ex2(Lower *l, Val a) {
    return real1(l, "llvm.nvvm.ex2.approx.f", a);
}

/* Beside a summand to which a subnormal adds nothing. */
static Val ex2_small(Lower *l, Val a) {
    return real1(l, "llvm.nvvm.ex2.approx.ftz.f", a);
}

static Val tanh_unit(Lower *l, Val a) {
    return ptx_asm(l, "tanh.approx.f32 $0, $1;", "=f,f", ASM_PURE, l->f32, &a, 1);
}

static Val mul(Lower *l, Val a, Val b) {
    return LLVMBuildFMul(l->b, a, b, "");
}

static Val fma3(Lower *l, Val a, Val b, Val c) {
    Val arg[3] = {a, b, c};
    return ptx_intrinsic(l, l->b, "llvm.fma", &l->f32, 1, arg, 3);
}

static Val over(Lower *l, const char *intrinsic, Val a, Val b) {
    Val arg[2] = {a, b};
    return ptx_intrinsic(l, l->b, intrinsic, &l->f32, 1, arg, b ? 2 : 1);
}

static Val below(Lower *l, Val a, double than) {
    return LLVMBuildFCmp(l->b, LLVMRealOLT, a, const_real(l, than), "");
}

/* c[0] + c[1] q + .. c[n - 1] q^(n - 1) */
static Val horner(Lower *l, const double *c, int n, Val q) {
    Val v = const_real(l, c[n - 1]);
    for (int i = n - 2; i >= 0; i--) v = fma3(l, v, q, const_real(l, c[i]));
    return v;
}

/* scale * p(x). Odd polynomials, which are common, take half of the steps. */
static Val argument(Lower *l, const Poly *p, Val x, double scale) {
    double c[POLY_MAX + 1], odd[POLY_MAX / 2 + 1];
    int n = 0;
    bool even = false;
    for (int i = 0; i <= POLY_MAX; i++) {
        c[i] = scale * p->c[i];
        if (c[i] != 0) n = i + 1;
        if (i % 2) odd[i / 2] = c[i];
        even |= i % 2 == 0 && c[i] != 0;
    }
    if (n == 2 && c[0] == 0) return c[1] == 1 ? x : mul(l, x, const_real(l, c[1]));
    if (even || n < 2) return horner(l, c, n ? n : 1, x);
    return mul(l, x, horner(l, odd, n / 2, mul(l, x, x)));
}

double poly_slope(const Poly *p) {
    for (int i = 0; i <= POLY_MAX; i++)
        if (i != 1 && p->c[i] != 0) return 0;
    return p->c[1];
}

/* ---- exponentials ---- */

/* Of what a maximum was taken from: beside that one's 1 subnormals are nothing. */
static bool below_max(const Lower *l, const Poly *p) {
    const TInst *d = p->base >= 0 ? l->def[p->base] : NULL;
    if (!d || d->kind != T_OP || d->op != OP_sub || !(poly_slope(p) > 0)) return false;
    const CarryState *s = l->carry[d->args[1]];
    return s && s->c->red == RED_max;
}

static Val fast_exp(Lower *l, Approx how, const Poly *p, Val x) {
    Val v = argument(l, p, x, log2e);
    (void)how;
    return below_max(l, p) ? ex2_small(l, v) : ex2(l, v);
}

static Val fast_exp2(Lower *l, Approx how, const Poly *p, Val x) {
    Val v = argument(l, p, x, 1);
    (void)how;
    return below_max(l, p) ? ex2_small(l, v) : ex2(l, v);
}

/* Beside a factor (1 + tanh(v / 2)) / 2, else 1 / (1 + e^-v), which keeps what is tiny. */
static Val fast_sigmoid(Lower *l, Approx how, const Poly *p, Val x) {
    if (how == APPROX_FACTOR) {
        Val half = const_real(l, 0.5);
        return fma3(l, tanh_unit(l, argument(l, p, x, 0.5)), half, half);
    }
    Val e = ex2_small(l, argument(l, p, x, -log2e));
    return ptx_rcp(l, LLVMBuildFAdd(l->b, e, const_real(l, 1), ""));
}

/* 1 - 2 / (1 + e^2v), or near 0 an odd polynomial (7e-8). */
static Val fast_tanh(Lower *l, Approx how, const Poly *p, Val x) {
    if (how >= APPROX_BF16) return tanh_unit(l, argument(l, p, x, 1));
    static const double small[] = {0.99999993, -0.33332311, 0.13310182, -0.0521019, 0.01547606};
    Val v = argument(l, p, x, 1), one = const_real(l, 1);
    Val e = ex2_small(l, mul(l, v, const_real(l, 2 * log2e)));
    Val r = ptx_rcp(l, LLVMBuildFAdd(l->b, e, one, ""));
    Val far = fma3(l, r, const_real(l, -2), one);
    Val near = mul(l, v, horner(l, small, 5, mul(l, v, v)));
    Val is_near = below(l, over(l, "llvm.fabs", v, NULL), 0.6);
    return LLVMBuildSelect(l->b, is_near, near, far, "");
}

/* ---- the error function ---- */

/* erf(v) = tanh(v (a + b q + c q^2)) with q = min(v^2, 10), 6e-5. v = k x when p is that alone. */
static Val erf_unit(Lower *l, const Poly *p, Val x) {
    static const double c[] = {1.1283137808146313, 0.10364222414442636, -0.0016163583473085335};
    double slope = poly_slope(p), k = slope != 0 ? slope : 1;
    Val v = slope != 0 ? x : argument(l, p, x, 1);
    double scaled[] = {c[0] * k, c[1] * k * k * k, c[2] * k * k * k * k * k};
    Val q = over(l, "llvm.minnum", mul(l, v, v), const_real(l, 10 / (k * k)));
    return tanh_unit(l, mul(l, v, horner(l, scaled, 3, q)));
}

/* erfc(v) for v >= 0: e^(-v^2) t (..) with t = 1 / (1 + 0.45 v), 1e-5 of it. */
static Val erfc_fine(Lower *l, Val v) {
    static const double c[] = {0.2539542796697906, 0.2518453542622036,  0.2479328549792062,
                               0.0904274595651098, 0.29142913188690217, -0.1355984511992874};
    Val t = ptx_rcp(l, fma3(l, v, const_real(l, 0.45), const_real(l, 1)));
    Val e = ex2(l, mul(l, mul(l, v, v), const_real(l, -log2e)));
    return mul(l, mul(l, e, t), horner(l, c, 6, t));
}

static Val fast_erfc(Lower *l, Approx how, const Poly *p, Val x) {
    if (how == APPROX_FACTOR) return LLVMBuildFSub(l->b, const_real(l, 1), erf_unit(l, p, x), "");
    Val v = argument(l, p, x, 1);
    Val of_abs = erfc_fine(l, over(l, "llvm.fabs", v, NULL));
    Val other = LLVMBuildFSub(l->b, const_real(l, 2), of_abs, "");
    return LLVMBuildSelect(l->b, below(l, v, 0), other, of_abs, "");
}

/* Near 0 an odd polynomial (4e-8). */
static Val fast_erf(Lower *l, Approx how, const Poly *p, Val x) {
    if (how >= APPROX_BF16) return erf_unit(l, p, x);
    static const double small[] = {1.12837913, -0.37612222, 0.11277002, -0.02647457, 0.0042819};
    Val v = argument(l, p, x, 1), a = over(l, "llvm.fabs", v, NULL);
    Val far = LLVMBuildFSub(l->b, const_real(l, 1), erfc_fine(l, a), "");
    far = over(l, "llvm.copysign", far, v);
    Val near = mul(l, v, horner(l, small, 5, mul(l, v, v)));
    return LLVMBuildSelect(l->b, below(l, a, 0.7), near, far, "");
}

/* ---- logarithms, roots, quotients ---- */

/* lg2's error is absolute near 1: there log(1 + u) as a polynomial (2e-8). */
static Val logarithm(Lower *l, const Poly *p, Val x, double per_bit) {
    static const double c[] = {1.000000022024051,    -0.5000000607557407, 0.33330992402923665,
                               -0.24996968186032584, 0.20367641619359605, -0.17035022988097967};
    Val v = argument(l, p, x, 1), u = LLVMBuildFSub(l->b, v, const_real(l, 1), "");
    Val far = mul(l, real1(l, "llvm.nvvm.lg2.approx.f", v), const_real(l, per_bit));
    Val near = mul(l, mul(l, u, const_real(l, per_bit / ln2)), horner(l, c, 6, u));
    Val is_near = below(l, over(l, "llvm.fabs", u, NULL), 0.125);
    return LLVMBuildSelect(l->b, is_near, near, far, "");
}

static Val fast_log(Lower *l, Approx how, const Poly *p, Val x) {
    (void)how;
    return logarithm(l, p, x, ln2);
}

static Val fast_log2(Lower *l, Approx how, const Poly *p, Val x) {
    (void)how;
    return logarithm(l, p, x, 1);
}

static Val fast_sqrt(Lower *l, Approx how, const Poly *p, Val x) {
    (void)how;
    return real1(l, "llvm.nvvm.sqrt.approx.f", argument(l, p, x, 1));
}

static Val fast_rsqrt(Lower *l, Approx how, const Poly *p, Val x) {
    (void)how;
    return real1(l, "llvm.nvvm.rsqrt.approx.f", argument(l, p, x, 1));
}

Val fast_div(Lower *l, Val a, Val b) {
    Val arg[2] = {a, b};
    return ptx_asm(l, "div.full.f32 $0, $1, $2;", "=f,f,f", ASM_PURE, l->f32, arg, 2);
}

/* ---- near 0 ---- */

enum { NEAR_TERMS = 5 };

/* shift + v h(v^2) for |v| <= bound: h by Remez's exchange, for the least error relative to the
 * value. */
typedef struct NearForm {
    double bound, shift, h[NEAR_TERMS];
} NearForm;

static const NearForm near_form[OP_COUNT] = {
    [OP_tanh] = {0.85, /* 1.8e-6 */
                 0,
                 {0.9999982841, -0.3332128047, 0.1319495664, -0.04821175708, 0.0112914402}},
    [OP_sigmoid] = {1.5, /* 4e-7 */
                    0.5,
                    {0.2499989809, -0.02082522645, 0.002064053883, -0.0001910762903,
                     1.175790548e-05}},
    [OP_erf] = {1, /* 1.2e-6 */
                0,
                {1.128377888, -0.3760641423, 0.1123417429, -0.02544780999, 0.003494069893}},
};

/* Coarser forms are as short; exact ones are not to be had this way. */
double fast_near(Op op, Approx how) {
    return how == APPROX_FINE ? near_form[op].bound : 0;
}

/* by k^(2 i + 1) h[i], which keeps v = k x out of the code; false: beyond f32's range. */
static bool take_in(const NearForm *n, double by, double k, double *h) {
    for (int i = 0; i < NEAR_TERMS; i++) {
        h[i] = by * n->h[i] * pow(k, 2 * i + 1);
        if (!(fabs(h[i]) > 0x1p-120 && fabs(h[i]) < 0x1p120)) return false;
    }
    return true;
}

double fast_near_shift(Op op) {
    return near_form[op].shift;
}

Val fast_near_sum(Lower *l, Op op, const Poly *p, Val x, double by, Val add) {
    const NearForm *n = &near_form[op];
    double h[NEAR_TERMS], k = poly_slope(p);
    Val v = x;
    if (k == 0 || !take_in(n, by, k, h)) {
        v = argument(l, p, x, 1);
        for (int i = 0; i < NEAR_TERMS; i++) h[i] = by * n->h[i];
    }
    Val of = horner(l, h, NEAR_TERMS, mul(l, v, v));
    return add ? fma3(l, v, of, add) : mul(l, v, of);
}

Val fast_emit_near(Lower *l, Op op, const Poly *p, Val x) {
    double shift = near_form[op].shift;
    return fast_near_sum(l, op, p, x, 1, shift == 0 ? NULL : const_real(l, shift));
}

/* ---- the table ---- */

typedef Val FastFn(Lower *l, Approx how, const Poly *p, Val x);
static FastFn *const row[OP_COUNT] = {
    [OP_exp] = fast_exp,     [OP_exp2] = fast_exp2, [OP_sigmoid] = fast_sigmoid,
    [OP_tanh] = fast_tanh,   [OP_erf] = fast_erf,   [OP_erfc] = fast_erfc,
    [OP_log] = fast_log,     [OP_log2] = fast_log2, [OP_sqrt] = fast_sqrt,
    [OP_rsqrt] = fast_rsqrt,
};

bool fast_has(Op op, Approx how) {
    return how >= APPROX_FINE && (row[op] || op == OP_div);
}

Val fast_emit(Lower *l, Op op, Approx how, const Poly *p, Val x) {
    return row[op](l, how, p, x);
}
