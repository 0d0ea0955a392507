/* infer_range.c - rule 2: the range of an index, and whether a read stays inside.
 *
 * Proofs go through ix_prove_nonneg, which takes every size as >= 1 and every quotient as floor.
 * Two facts of the graph are put in before, by rewriting sizes:
 *   exact quotients   H/8 stands in a dimension, so H = 8 * H': then (H - 1)/8 is H' - 1
 *   empty domains     a size that no axis of the domain needs to be >= 1 may be 0: S = S' - 1
 */
#include "ir/infer.h"

/* ---- exact quotients ---------------------------------------------------------------------- */

typedef VEC(Exact) ExactVec;

static void add_exact(const Graph *g, ExactVec *v, const Ix *x, int param, int dim) {
    int64_t c;
    for (int i = 0; i < x->n; i++) add_exact(g, v, x->arg[i], param, dim);
    if (x->kind != IX_DIV || x->arg[0]->kind != IX_SIZE) return;
    const Ix *div = x->arg[1];
    if (div->kind != IX_SIZE && !(ix_is_const(div, &c) && c > 1)) return;
    for (int i = 0; i < v->n; i++)
        if (v->v[i].quotient == x) return;
    Exact e = {
        (int)x->arg[0]->num, div, x, ix_neg(g->ix, ix_mod(g->ix, x->arg[0], div)), param, dim};
    vec_push(g->arena, v, e);
}

int infer_exact(const Graph *g, const Exact **out) {
    ExactVec v = {0};
    for (int i = 0; i < g->params.n; i++)
        for (int d = 0; d < g->params.v[i].rank; d++)
            add_exact(g, &v, g->params.v[i].dims[d], i, d);
    *out = v.v;
    return v.n;
}

static int64_t gcd(int64_t a, int64_t b) {
    return b ? gcd(b, a % b) : a;
}

/* The constant that divides size s by what the dimensions say. */
static int64_t const_factor(const Exact *e, int n, int size) {
    int64_t f = 1, c;
    for (int i = 0; i < n; i++) {
        if (e[i].size != size || !ix_is_const(e[i].div, &c)) continue;
        int64_t step = c / gcd(f, c);
        if (step < ((int64_t)1 << 40) / f) f *= step; /* else: one fact fewer */
    }
    return f;
}

/* ---- what sizes are ----------------------------------------------------------------------- */

static bool uses_size(const Ix *x, int size) {
    if (x->kind == IX_SIZE) return x->num == size;
    for (int i = 0; i < x->n; i++)
        if (uses_size(x->arg[i], size)) return true;
    return false;
}

/* Is the extent <= 0 where the size is 0, whatever the others are? */
static bool needs_size(const Graph *g, const Ix *extent, int size) {
    IxPool *p = g->ix;
    if (extent->kind == IX_SIZE) return extent->num == size;
    if (!uses_size(extent, size)) return false;
    const Ix **by = ARENA_ARRAY(p->arena, const Ix *, g->sizes.n);
    for (int s = 0; s < g->sizes.n; s++)
        by[s] = s == size ? ix_const(p, 0) : ix_sub(p, ix_size(p, s), ix_const(p, 1));
    const Ix *at0 = ix_subst(p, extent, &(IxSubst){.sizes = by, .nsz = g->sizes.n});
    return ix_prove_nonneg(p, ix_neg(p, at0), NULL, 0, NULL, 0);
}

static bool is_positive(const Graph *g, int size, const Ix *const *extents, int nax) {
    for (int i = 0; i < nax; i++)
        if (extents[i] && needs_size(g, extents[i], size)) return true;
    return false;
}

/* What each size is rewritten to. positive: every size is >= 1, as rule 1 words it. */
static const Ix *const *rewritten_sizes(const Graph *g, const Ix *const *extents, int nax,
                                        bool positive) {
    IxPool *p = g->ix;
    const Exact *e;
    int n = infer_exact(g, &e);
    const Ix **by = ARENA_ARRAY(p->arena, const Ix *, g->sizes.n);
    bool *by_size = ARENA_ARRAY(p->arena, bool, g->sizes.n);
    bool *divides = ARENA_ARRAY(p->arena, bool, g->sizes.n); /* then it is > 0: rule 7 */
    for (int i = 0; i < n; i++) {
        if (e[i].div->kind != IX_SIZE) continue;
        by_size[e[i].size] = divides[e[i].div->num] = true;
    }
    for (int s = 0; s < g->sizes.n; s++) {
        const Ix *unit = ix_size(p, s);
        bool one = positive || divides[s] || is_positive(g, s, extents, nax);
        if (!one) unit = ix_sub(p, unit, ix_const(p, 1));
        by[s] = ix_mul(p, ix_const(p, const_factor(e, n, s)), unit);
    }
    for (int i = 0; i < n; i++) { /* H/G over a run-time G, once a size and not of each other */
        int s = e[i].size;
        if (e[i].div->kind != IX_SIZE || const_factor(e, n, s) > 1) continue;
        if (by[s]->kind == IX_MUL || by_size[e[i].div->num]) continue;
        by[s] = ix_mul(p, by[e[i].div->num], by[s]);
    }
    return by;
}

static const Ix *const *rewritten(const Graph *g, const IxSubst *s, const Ix *const *x, int n) {
    const Ix **y = ARENA_ARRAY(g->ix->arena, const Ix *, n);
    for (int i = 0; i < n; i++) y[i] = x[i] ? ix_subst(g->ix, x[i], s) : NULL;
    return y;
}

static bool nonneg(const Graph *g, const Ix *x, const Ix *const *extents, int nax,
                   const Ix *const *facts, int nfacts, bool positive) {
    bool overflow = g->ix->overflow;
    const Ix *const *by = rewritten_sizes(g, extents, nax, positive);
    IxSubst s = {.sizes = by, .nsz = g->sizes.n};
    const Ix *const *ext = rewritten(g, &s, extents, nax);
    const Ix *const *fact = rewritten(g, &s, facts, nfacts);
    x = ix_subst(g->ix, x, &s);
    bool proved =
        (overflow || !g->ix->overflow) && ix_prove_nonneg(g->ix, x, ext, nax, fact, nfacts);
    g->ix->overflow = overflow; /* of the user's constants, not of what is tried here */
    return proved;
}

bool infer_nonneg(const Graph *g, const Ix *x, const Ix *const *extents, int nax,
                  const Ix *const *facts, int nfacts) {
    return nonneg(g, x, extents, nax, facts, nfacts, false);
}

/* ---- ranges ------------------------------------------------------------------------------- */

static const Ix *use_extent(const Graph *g, const RangeUse *u) {
    const Exact *e;
    int64_t c;
    if (u->c <= 1 || u->written) return u->dim;
    int n = infer_exact(g, &e);
    for (int i = 0; i < n; i++) /* 128 * (K/128) is K */
        if (e[i].quotient == u->dim && ix_is_const(e[i].div, &c) && u->c % c == 0)
            return ix_mul(g->ix, ix_const(g->ix, u->c / c), ix_size(g->ix, e[i].size));
    return ix_mul(g->ix, ix_const(g->ix, u->c), u->dim);
}

static int sort_of_use(const RangeUse *u) {
    return u->written ? 0 : u->c == 1 ? 1 : 2;
}

Range infer_range(const Graph *g, const RangeUse *uses, int n) {
    Range r = {NULL, -1, -1};
    for (int i = 0; i < n; i++)
        if (r.from < 0 || sort_of_use(&uses[i]) < sort_of_use(&uses[r.from])) r.from = i;
    if (r.from < 0) return r;
    r.extent = use_extent(g, &uses[r.from]);
    for (int i = 0; i < n && r.clash < 0; i++)
        if (sort_of_use(&uses[i]) == sort_of_use(&uses[r.from]) &&
            use_extent(g, &uses[i]) != r.extent)
            r.clash = i;
    return r;
}

/* ---- reads -------------------------------------------------------------------------------- */

typedef struct Read {
    const Graph *g;
    const Ix *index, *dim, *const *extents;
    int nax;
} Read;

static bool inside(const Read *r, const Ix *const *guards, int n) {
    IxPool *p = r->g->ix;
    const Ix *above = ix_sub(p, ix_sub(p, r->dim, r->index), ix_const(p, 1));
    return infer_nonneg(r->g, r->index, r->extents, r->nax, guards, n) &&
           infer_nonneg(r->g, above, r->extents, r->nax, guards, n);
}

/* Least and greatest index. A guard e >= 0 with index = e + c makes the least at least c. */
static void extremes(const Read *r, const Ix *const *guards, int n, BoundResult *b) {
    IxPool *p = r->g->ix;
    ix_range(p, r->index, r->extents, r->nax, &b->lo, &b->hi);
    for (int i = 0; i < n; i++) {
        const Ix *c = ix_sub(p, r->index, guards[i]), *d = ix_add(p, r->index, guards[i]);
        if (!c->has_axis && !c->has_value) {
            b->lo = b->lo ? ix_max(p, b->lo, c) : c;
            b->guarded = true;
        }
        if (!d->has_axis && !d->has_value) {
            b->hi = b->hi ? ix_min(p, b->hi, d) : d;
            b->guarded = true;
        }
    }
}

/* Are the bounds of ix_range reached? They are found term by term, so an axis that occurs twice may
 * make them too wide; so may a remainder, unless its argument is an axis or an axis runs through
 * all residues. Wide bounds must not refuse a program. */
static bool is_tight(const Read *r, const Ix *x, uint64_t *seen) {
    IxPool *p = r->g->ix;
    if (x->kind == IX_AXIS) {
        bool again = x->num >= 64 || *seen >> x->num & 1;
        if (!again) *seen |= (uint64_t)1 << x->num;
        return !again;
    }
    if (x->kind == IX_MOD && x->arg[0]->has_axis && !ix_is_axis(x->arg[0], NULL)) {
        bool all = false;
        for (int a = 0; a < r->nax && !all; a++) {
            int64_t c;
            const Ix *rest;
            if (r->extents[a] && ix_linear_in(p, x->arg[0], a, &c, &rest) && (c == 1 || c == -1))
                all = nonneg(r->g, ix_sub(p, r->extents[a], x->arg[1]), NULL, 0, NULL, 0, true);
        }
        if (!all) return false;
    }
    for (int i = 0; i < x->n; i++)
        if (!is_tight(r, x->arg[i], seen)) return false;
    return true;
}

static bool never(const Read *r, const BoundResult *b) {
    IxPool *p = r->g->ix;
    const Ix *below = ix_sub(p, ix_const(p, -1), b->lo), *above = ix_sub(p, b->hi, r->dim);
    return nonneg(r->g, below, NULL, 0, NULL, 0, true) ||
           nonneg(r->g, above, NULL, 0, NULL, 0, true);
}

/* Is nothing read at all, since an axis is bound to no element? */
static bool is_empty(const Read *r) {
    int64_t c;
    for (int i = 0; i < r->nax; i++)
        if (r->extents[i] && ix_is_const(r->extents[i], &c) && c <= 0) return true;
    return false;
}

static BoundResult judge(const Read *read, const Ix *const *guards, int nguards) {
    Read r = *read;
    BoundResult b = {BOUND_PROVED, false, NULL, NULL};
    int axis;
    if (is_empty(&r)) return b;
    if (ix_is_axis(r.index, &axis) && axis < r.nax && r.extents[axis] == r.dim) return b;
    if (inside(&r, NULL, 0)) return b;
    if (nguards && inside(&r, guards, nguards)) {
        b.guarded = true;
        return b;
    }
    uint64_t seen = 0;
    if (!r.index->has_value && is_tight(&r, r.index, &seen)) extremes(&r, guards, nguards, &b);
    if (!b.lo || !b.hi) return (BoundResult){BOUND_DATA, false, NULL, NULL};
    b.bound = never(&r, &b) ? BOUND_NEVER : BOUND_LAUNCH;
    return b;
}

/* A difference of indices that leaves 64 bits is no fault of the program's: the load decides. */
BoundResult infer_bound(const Graph *g, const Ix *index, const Ix *dim, const Ix *const *extents,
                        int nax, const Ix *const *guards, int nguards) {
    Read r = {g, index, dim, extents, extents ? nax : 0};
    bool before = g->ix->overflow;
    g->ix->overflow = false;
    BoundResult b = judge(&r, guards, nguards);
    if (g->ix->overflow) b = (BoundResult){BOUND_DATA, false, NULL, NULL};
    g->ix->overflow = before;
    return b;
}
