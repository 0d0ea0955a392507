/* schedule_group.c - a program whose loop multiplies, works on and multiplies again (ir/online.h),
 * but without rows: of its scores' factors one is read at a grid axis, the other at its quotient
 * (heads of queries that share a head of keys). The axis is cut in two, of which the second has
 * rows:
 *
 *     grid h: H                              grid h_group: H/4, h_in_group: 4
 *     q[b, h, e] * k[b, j, h/4, e]           q[b, 4*h_group + h_in_group, e] * k[b, j, h_group, e]
 *
 * The extent must be a multiple of the divisor: a constant that is, or a size of which the quotient
 * stands in the dimensions of a parameter, so that the launch checks it.
 */
#include "ir/online.h"
#include "passes/schedule_int.h"

typedef struct Cut {
    const TProg *t;
    int axis;       /* that is cut; the second part is the axis after it */
    const Ix *div;  /* extent of the second part */
    const Ix **now; /* per axis, what it is now */
} Cut;

/* h / div and h % div are looked for in the terms of a sum; elsewhere they stay what they are. */
static const Ix *atom(const Cut *c, const Ix *x) {
    int axis;
    bool part = (x->kind == IX_DIV || x->kind == IX_MOD) && ix_is_axis(x->arg[0], &axis) &&
                axis == c->axis && x->arg[1] == c->div;
    if (part) return ix_axis(c->t->ix, c->axis + (x->kind == IX_MOD));
    return ix_at(c->t->ix, x, c->now, c->t->axes.n);
}

static const Ix *in_parts(const void *view, const Ix *x) {
    const Cut *c = view;
    IxPool *p = c->t->ix;
    if (!x->has_axis) return x;
    IxTerm *term;
    int n = ix_terms(p, x, &term);
    const Ix *sum = ix_const(p, 0);
    for (int k = 0; k < n; k++) {
        const Ix *coef = ix_const(p, term[k].coef);
        sum = ix_add(p, sum, term[k].atom ? ix_mul(p, coef, atom(c, term[k].atom)) : coef);
    }
    return sum;
}

/* Does x stand in the expression? */
static bool inside(const Ix *in, const Ix *x) {
    if (in == x) return true;
    for (int k = 0; k < in->n; k++)
        if (inside(in->arg[k], x)) return true;
    return false;
}

static bool divides(const TProg *t, const Ix *div, const Ix *extent) {
    const Ix *quotient = ix_div(t->ix, extent, div);
    if (ix_mul(t->ix, quotient, div) == extent) return true;
    if (extent->kind != IX_SIZE) return false;
    for (int k = 0; k < t->tensors.n; k++)
        for (int d = 0; d < t->tensors.v[k].rank; d++)
            if (t->tensors.v[k].mem != TM_TEMP && inside(t->tensors.v[k].dims[d], quotient))
                return true;
    return false;
}

static TProg *cut(const TProg *t, int axis, const Ix *div) {
    Arena *a = t->arena;
    const char *name = t->axes.v[axis].name;
    TAxis in_group = {arena_printf(a, "%s_in_group", name), div, true, 1};
    Cut c = {t, axis, div, ARENA_ARRAY(a, const Ix *, t->axes.n)};
    for (int k = 0; k < t->axes.n; k++) c.now[k] = ix_axis(t->ix, k + (k > axis));
    const Ix *whole = ix_mul(t->ix, ix_axis(t->ix, axis), div);
    c.now[axis] = ix_add(t->ix, whole, ix_axis(t->ix, axis + 1));
    TProg *to = schedule_view(t, axis + 1, in_group, in_parts, &c);
    TAxis *group = &to->axes.v[axis];
    group->name = arena_printf(a, "%s_group", name);
    group->extent = ix_div(t->ix, group->extent, div);
    return to;
}

/* why: what else is in the way, where it has. */
static bool has_rows(const TProg *t, int axis, Str *why) {
    Online o;
    Str reason = {0};
    bool is = online_find(t->arena, t, &o, &reason), has = o.rows == axis;
    if (!is && has && why) str_add(why, str_get(&reason));
    str_free(&reason);
    return is && has;
}

static bool refused(const Str *why) {
    return why && why->n;
}

/* x, of a load: a quotient of a grid axis. */
static TProg *cut_by(const TProg *t, const Ix *x, Str *why) {
    IxTerm *term;
    int n = ix_terms(t->ix, x, &term), axis;
    for (int k = 0; k < n; k++) {
        const Ix *q = term[k].atom;
        if (!q || q->kind != IX_DIV || !ix_is_axis(q->arg[0], &axis) || axis >= t->ngrid) continue;
        const Ix *div = q->arg[1], *extent = t->axes.v[axis].extent;
        if (div->kind != IX_SIZE && !ix_is_const(div, NULL)) continue;
        if (!divides(t, div, extent)) continue;
        TProg *to = cut(t, axis, div);
        if (has_rows(to, axis + 1, why)) return to;
        if (refused(why)) return NULL;
    }
    return NULL;
}

static TProg *cut_by_any(const TProg *t, const TBlock *b, Str *why) {
    TProg *to = NULL;
    for (int k = 0; k < b->inst.n && !to && !refused(why); k++) {
        const TInst *i = b->inst.v[k];
        for (int d = 0; i->kind == T_LOAD && d < i->nix && !to && !refused(why); d++)
            to = cut_by(t, i->ix[d], why);
        if (i->kind == T_LOOP || i->kind == T_GUARD) to = to ? to : cut_by_any(t, &i->body, why);
    }
    return to;
}

TProg *schedule_with_group(const TProg *t, Str *why) {
    return cut_by_any(t, &t->body, why);
}
