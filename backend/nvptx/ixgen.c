/* ixgen.c - index expressions as 64-bit LLVM values.
 *
 * What depends on sizes alone is computed by the host and arrives as a parameter. What is linear in
 * an axis becomes one multiplication for the first element a thread holds and an addition for each
 * other one (axis_scaled), so that loops reduce to additions.
 */
#include "backend/nvptx/nvptx_int.h"

bool ix_uniform(const Ix *x) {
    return !x->has_axis && !x->has_value;
}

Val uniform_ix(Lower *l, const Ix *x) {
    FK_ASSERT(ix_uniform(x));
    int64_t c;
    if (ix_is_const(x, &c)) return LLVMConstInt(l->i64, (uint64_t)c, 1);
    intptr_t *v = map_put(&l->uniform, &x, sizeof x);
    if (!*v) *v = (intptr_t)param_value(l, x);
    return (Val)*v;
}

/* Known to be >= 0 by its form: sizes and axes are. */
static bool nonneg(const Ix *x) {
    switch (x->kind) {
    case IX_CONST: return x->num >= 0;
    case IX_SIZE:
    case IX_AXIS:
    case IX_MOD: return true;
    case IX_VALUE: return false;
    case IX_DIV: return nonneg(x->arg[0]);
    case IX_MAX:
        for (int i = 0; i < x->n; i++)
            if (nonneg(x->arg[i])) return true;
        return false;
    default:
        for (int i = 0; i < x->n; i++)
            if (!nonneg(x->arg[i])) return false;
        return true;
    }
}

Frag axis_scaled(Lower *l, int axis, Val scale) {
    const AxisState *s = &l->axis[axis];
    FK_ASSERT(s->open);
    Frag f = frag_new(l, frag_live(l, axis_bit(axis)));
    Val from = LLVMBuildMul(l->b, scale, s->base ? s->base : s->e[0], "");
    f.v[0] = from;
    for (int i = s->base ? 0 : 1; i < s->count; i++) {
        Val step = LLVMConstInt(l->i64, (uint64_t)s->step[i], 1);
        Val v = LLVMBuildAdd(l->b, from, LLVMBuildMul(l->entry, scale, step, ""), "");
        f.v[i] = s->in[i] && !s->raw ? LLVMBuildSelect(l->b, s->in[i], v, from, "") : v;
    }
    return f;
}

static Frag axis_frag(Lower *l, int axis) {
    const AxisState *s = &l->axis[axis];
    if (!s->open) FK_BUG("axis %d is read outside its loop", axis);
    Frag f = frag_new(l, frag_live(l, axis_bit(axis)));
    for (int i = 0; i < f.n; i++) f.v[i] = s->e[i];
    return f;
}

typedef struct IxStep {
    IxKind kind;
    bool nonneg; /* of the numerator */
    bool narrow; /* both fit 32 bits */
} IxStep;

static Val floor_pair(Lower *l, const IxStep *s, Val a, Val b) {
    bool div = s->kind == IX_DIV;
    Val zero = LLVMConstInt(l->i64, 0, 0);
    int64_t c = LLVMIsConstant(b) ? LLVMConstIntGetSExtValue(b) : 0;
    if (c > 0 && !(c & (c - 1))) { /* a power of two: floor for either sign */
        Val sh = LLVMConstInt(l->i64, (unsigned)__builtin_ctzll((uint64_t)c), 0);
        if (div) return LLVMBuildAShr(l->b, a, sh, "");
        return LLVMBuildAnd(l->b, a, LLVMConstInt(l->i64, (uint64_t)c - 1, 0), "");
    }
    if (s->nonneg && s->narrow) {
        a = LLVMBuildTrunc(l->b, a, l->i32, ""), b = LLVMBuildTrunc(l->b, b, l->i32, "");
        a = div ? LLVMBuildUDiv(l->b, a, b, "") : LLVMBuildURem(l->b, a, b, "");
        return LLVMBuildZExt(l->b, a, l->i64, "");
    }
    if (s->nonneg) return div ? LLVMBuildUDiv(l->b, a, b, "") : LLVMBuildURem(l->b, a, b, "");
    Val r = LLVMBuildSRem(l->b, a, b, "");
    Val below = LLVMBuildICmp(l->b, LLVMIntSLT, r, zero, "");
    if (!div) return LLVMBuildSelect(l->b, below, LLVMBuildAdd(l->b, r, b, ""), r, "");
    Val q = LLVMBuildSDiv(l->b, a, b, "");
    return LLVMBuildAdd(l->b, q, LLVMBuildSExt(l->b, below, l->i64, ""), "");
}

static Val ix_pair(Lower *l, const void *ctx, const Val *in) {
    const IxStep *s = ctx;
    Val a = in[0], b = in[1];
    switch (s->kind) {
    case IX_ADD: return LLVMBuildAdd(l->b, a, b, "");
    case IX_MUL: return LLVMBuildMul(l->b, a, b, "");
    case IX_MIN: return LLVMBuildSelect(l->b, LLVMBuildICmp(l->b, LLVMIntSLT, a, b, ""), a, b, "");
    case IX_MAX: return LLVMBuildSelect(l->b, LLVMBuildICmp(l->b, LLVMIntSGT, a, b, ""), a, b, "");
    case IX_DIV:
    case IX_MOD: return floor_pair(l, s, a, b);
    default: FK_BUG("index expression of kind %d has operands", (int)s->kind);
    }
}

static Val widen(Lower *l, const void *ctx, const Val *in) {
    (void)ctx;
    return LLVMBuildIntCast2(l->b, in[0], l->i64, LLVMTypeOf(in[0]) != l->i1, "");
}

/* Digits of an axis, in a kernel of rows: 32 bits hold it and what it is divided by, or the launch
 * is another's. */
static bool is_narrow(Lower *l, const Ix *x) {
    int axis;
    bool digit = (x->kind == IX_DIV || x->kind == IX_MOD) && ix_uniform(x->arg[1]);
    const Ix *of = x->arg[0];
    if (digit && (of->kind == IX_DIV || of->kind == IX_MOD) && ix_uniform(of->arg[1]))
        of = of->arg[0];
    if (!digit || !l->s->wide || !ix_is_axis(of, &axis)) return false;
    IxPool *p = l->t->ix;
    const Ix *most = ix_const(p, INT32_MAX);
    KGuard g = {.kind = KG_NONNEG, .ix = ix_sub(p, most, l->t->axes.v[axis].extent)};
    vec_push(l->arena, &l->runs, g);
    g.ix = ix_sub(p, most, x->arg[1]);
    vec_push(l->arena, &l->runs, g);
    if (of != x->arg[0]) {
        g.ix = ix_sub(p, most, x->arg[0]->arg[1]);
        vec_push(l->arena, &l->runs, g);
    }
    return true;
}

Frag frag_ix(Lower *l, const Ix *x) {
    if (ix_uniform(x)) return frag_one(l, uniform_ix(l, x));
    if (x->kind == IX_AXIS) return axis_frag(l, (int)x->num);
    if (x->kind == IX_VALUE) {
        Frag v = value_of(l, (int)x->num);
        return frag_map(l, widen, NULL, &v, 1);
    }
    Frag at = frag_ix(l, x->arg[0]);
    for (int i = 1; i < x->n; i++) {
        IxStep s = {x->kind, nonneg(x->arg[0]), is_narrow(l, x)};
        Frag pair[2] = {at, frag_ix(l, x->arg[i])};
        at = frag_map(l, ix_pair, &s, pair, 2);
    }
    return at;
}
