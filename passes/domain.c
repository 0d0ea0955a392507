/* domain.c - conditions that only bound an index become exact bounds of the reduced axes.
 *
 *     sum[j where j <= i + T - S and j < len[b]]    bound j to min(len[b], i + T - S + 1), exact
 *
 * Each conjunct e >= 0 (infer_conjuncts) is solved for the last reduced axis that it uses, if it is
 * affine there:  c*k + r >= 0  gives  k >= ceil(-r / c)  or, for c < 0,  k < floor(r / -c) + 1.
 * The rest r may hold sizes, value axes, earlier reduced axes and data that do not use the axis.
 * Bounds only restate what `where` implies: `where` stays whole, and `exact` says that it holds
 * wherever the bounds do, so that no guard is needed. Conjuncts without a reduced axis are no
 * bounds; neither are those that are not affine: they leave `exact` false.
 *
 * Changes nothing but lo, hi and exact of reductions; runs last, as other passes rebuild `where`.
 */
#include "passes/domain_int.h"
#include "passes/rebuild_int.h"

/* ---- bounds ---- */

static int last_reduced(const Node *n, const Ix *x, int below) {
    for (int k = below - 1; k >= n->rank; k--)
        if (ix_uses_axis(x, k)) return k;
    return -1;
}

/* Facts about `axis` are judged where only the axes before it are known to have elements. */
static bool holds(Graph *g, const Node *n, int axis, const Ix *x) {
    return rb_nonneg(g, x, n, axis);
}

static void raise(Graph *g, const Node *n, int axis, const Ix **lo, const Ix *x) {
    IxPool *p = g->ix;
    const Ix *old = *lo ? *lo : ix_const(p, 0);
    if (holds(g, n, axis, ix_sub(p, old, x))) return;
    *lo = holds(g, n, axis, ix_sub(p, x, old)) ? x : ix_max(p, old, x);
}

static void lower(Graph *g, const Node *n, int axis, const Ix **hi, const Ix *x) {
    IxPool *p = g->ix;
    const Ix *old = *hi ? *hi : n->axes[axis].extent;
    if (holds(g, n, axis, ix_sub(p, x, old))) return;
    *hi = holds(g, n, axis, ix_sub(p, old, x)) ? x : ix_min(p, old, x);
}

/* coef * axis + rest >= 0, coef != 0 */
static void bound(Graph *g, const Node *n, Domain *d, int axis, int64_t coef, const Ix *rest) {
    IxPool *p = g->ix;
    int k = axis - n->rank;
    if (coef > 0) {
        const Ix *up = ix_add(p, ix_neg(p, rest), ix_const(p, coef - 1));
        raise(g, n, axis, &d->lo[k], ix_div(p, up, ix_const(p, coef)));
    } else {
        const Ix *top = ix_div(p, rest, ix_const(p, -coef));
        lower(g, n, axis, &d->hi[k], ix_add(p, top, ix_const(p, 1)));
    }
}

static void use_fact(Graph *g, const Node *n, Domain *d, const Ix *fact) {
    int64_t coef;
    const Ix *rest;
    int axis = last_reduced(n, fact, n->naxes);
    if (axis < 0) {
        vec_push(g->arena, &d->rows, fact);
    } else if (ix_linear_in(g->ix, fact, axis, &coef, &rest) && coef && coef > INT64_MIN) {
        bound(g, n, d, axis, coef, rest);
        if (last_reduced(n, rest, axis) >= 0) d->box = false;
    } else {
        d->exact = false;
    }
}

Domain domain_of(Graph *g, const Node *n) {
    int reduced = n->naxes - n->rank;
    Domain d = {.exact = true, .box = true};
    d.lo = ARENA_ARRAY(g->arena, const Ix *, reduced);
    d.hi = ARENA_ARRAY(g->arena, const Ix *, reduced);
    if (n->where) {
        IxVec facts = {0};
        infer_conjuncts(g, &n->in[n->nin - 1], &facts, &d.exact);
        for (int i = 0; i < facts.n; i++) use_fact(g, n, &d, facts.v[i]);
    }
    for (int k = 0; k < reduced; k++) d.some |= d.lo[k] || d.hi[k];
    return d;
}

/* ---- is there an element? ---- */

static bool follows(Graph *g, const Node *n, const IxVec *conds, int but, const Ix *x) {
    const Ix **fact = ARENA_ARRAY(g->arena, const Ix *, conds->n);
    int nfacts = 0;
    for (int i = 0; i < conds->n; i++)
        if (i != but) fact[nfacts++] = conds->v[i];
    return infer_nonneg(g, x, rb_extents(g, n, n->rank), n->rank, fact, nfacts);
}

/* hi - lo >= 1, a condition for each pair of the smallest of hi and the largest of lo */
static void some_between(Graph *g, const Ix *lo, const Ix *hi, IxVec *conds) {
    if (hi->kind == IX_MIN) {
        for (int i = 0; i < hi->n; i++) some_between(g, lo, hi->arg[i], conds);
    } else if (lo->kind == IX_MAX) {
        for (int i = 0; i < lo->n; i++) some_between(g, lo->arg[i], hi, conds);
    } else {
        const Ix *x = ix_sub(g->ix, ix_sub(g->ix, hi, lo), ix_const(g->ix, 1));
        vec_push(g->arena, conds, x);
    }
}

bool domain_nonempty(Graph *g, const Node *n, const Domain *d, IxVec *conds) {
    if (!d->exact || !d->box) return false;
    for (int i = 0; i < d->rows.n; i++) vec_push(g->arena, conds, d->rows.v[i]);
    for (int k = 0; k < n->naxes - n->rank; k++) {
        const Ix *lo = d->lo[k] ? d->lo[k] : ix_const(g->ix, 0);
        const Ix *hi = d->hi[k] ? d->hi[k] : n->axes[n->rank + k].extent;
        some_between(g, lo, hi, conds);
    }
    for (int i = conds->n - 1; i >= 0; i--) {
        if (!follows(g, n, conds, i, conds->v[i])) continue;
        for (int k = i; k + 1 < conds->n; k++) conds->v[k] = conds->v[k + 1];
        conds->n--;
    }
    return true;
}

/* ---- the pass ---- */

static bool same(const Ix *const *a, const Ix *const *b, int n) {
    for (int i = 0; i < n; i++)
        if ((a ? a[i] : NULL) != b[i]) return false;
    return true;
}

bool pass_domain(PassCtx *cx, Graph *g) {
    (void)cx;
    bool changed = false;
    for (int i = 0; i < g->nodes.n; i++) {
        Node *n = g->nodes.v[i];
        if (n->kind != N_REDUCE || !n->where) continue;
        Domain d = domain_of(g, n);
        int reduced = n->naxes - n->rank;
        bool exact = d.exact && !d.rows.n;
        if (same(n->lo, d.lo, reduced) && same(n->hi, d.hi, reduced) && n->exact == exact) continue;
        n->lo = d.some ? d.lo : NULL;
        n->hi = d.some ? d.hi : NULL;
        n->exact = exact;
        changed = true;
    }
    return changed;
}
