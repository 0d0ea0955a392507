/* rebuild.c - the walk of the rebuilding passes, reading through nodes, and what they prove. */
#include "passes/rebuild_int.h"

/* ---- operands ---- */

Node *rb_op(Graph *g, Op op, DType type, const Node *like, int rank) {
    Node *n = graph_node(g, N_OP, type, rank, rank, op_arity(op));
    n->op = op;
    n->span = like->span;
    for (int i = 0; i < rank; i++) n->axes[i] = like->axes[i];
    return n;
}

Operand rb_read(Graph *g, const Node *n) {
    Operand o;
    graph_map(g, &o, n->id);
    for (int d = 0; d < n->rank; d++) o.map[d] = ix_axis(g->ix, d);
    return o;
}

Operand rb_const(Graph *g, DType type, double num, int64_t inum) {
    Node *n = graph_node(g, N_CONST, type, 0, 0, 0);
    n->num = num;
    n->inum = inum;
    return rb_read(g, n);
}

/* Position of mid's axis d, bare, in a read of a node whose extent there is the same; -1. Other
 * positions that use the axis may not gather with it. */
static int stands_bare(const Graph *g, const Node *mid, const Operand *inner, int d) {
    const Node *to = g->nodes.v[inner->node];
    int at = -1, axis;
    for (int e = 0; e < to->rank; e++) {
        const Ix *x = inner->map[e];
        if (!ix_uses_axis(x, d)) continue;
        if (x->has_value) return -1;
        if (ix_is_axis(x, &axis) && to->axes[e].extent == mid->axes[d].extent) at = e;
    }
    return at;
}

bool rb_compose(Graph *g, const Operand *outer, const Operand *inner, Operand *out) {
    const Node *mid = g->nodes.v[outer->node], *to = g->nodes.v[inner->node];
    Operand r;
    graph_map(g, &r, inner->node);
    r.checked = inner->checked;
    for (int e = 0; e < to->rank; e++) /* gathers are inside by proof only: keep the proof */
        for (int d = 0, axis; d < mid->rank && inner->map[e]->has_value; d++)
            if (ix_uses_axis(inner->map[e], d) && !ix_is_axis(outer->map[d], &axis)) return false;
    for (int d = 0; d < mid->rank; d++) {
        if (!(outer->checked >> d & 1)) continue;
        if (stands_bare(g, mid, inner, d) < 0) return false;
        for (int e = 0; e < to->rank; e++)
            if (ix_uses_axis(inner->map[e], d)) r.checked |= 1u << e;
    }
    for (int e = 0; e < to->rank; e++)
        r.map[e] = ix_at(g->ix, inner->map[e], outer->map, mid->rank);
    *out = r;
    return true;
}

Operand rb_inline(Graph *g, const Operand *outer, const Operand *inner) {
    Operand r = *outer;
    if (rb_compose(g, outer, inner, &r)) return r;
    const Node *mid = g->nodes.v[outer->node];
    Node *c = rb_op(g, OP_copy, g->nodes.v[inner->node]->type, mid, mid->rank);
    c->in[0] = *inner;
    r.node = c->id;
    return r;
}

bool rb_through(Graph *g, const Operand *o, int i, Operand *out) {
    return rb_compose(g, o, &g->nodes.v[o->node]->in[i], out);
}

bool rb_same(const Graph *g, const Operand *a, const Operand *b) {
    if (a->node != b->node || a->checked != b->checked) return false;
    for (int d = 0; d < g->nodes.v[a->node]->rank; d++)
        if (a->map[d] != b->map[d]) return false;
    return true;
}

bool rb_identity(const Graph *g, const Node *reader, const Operand *o) {
    const Node *to = g->nodes.v[o->node];
    if (o->checked || to->rank != reader->rank) return false;
    for (int d = 0, axis; d < to->rank; d++)
        if (!ix_is_axis(o->map[d], &axis) || axis != d ||
            to->axes[d].extent != reader->axes[d].extent)
            return false;
    return true;
}

bool rb_uses(const Graph *g, const Operand *o, int axis) {
    for (int d = 0; d < g->nodes.v[o->node]->rank; d++)
        if (ix_uses_axis(o->map[d], axis)) return true;
    return false;
}

bool rb_is_op(const Graph *g, const Operand *o, Op op) {
    const Node *n = g->nodes.v[o->node];
    return n->kind == N_OP && n->op == op;
}

bool rb_is_output(const Graph *g, const Node *n) {
    for (int i = 0; i < g->params.n; i++)
        if (g->params.v[i].out && g->params.v[i].node == n->id) return true;
    return false;
}

/* ---- values that are 0 outside their domain ---- */

enum { UNKNOWN, INSIDE, OUTSIDE };

static bool is_zero(const Node *n) {
    return n->kind == N_CONST && (dtype_class(n->type) == DC_REAL ? n->num == 0 : n->inum == 0);
}

static bool outside_op(Rebuild *r, const Node *n) {
    int traits = op_traits(n->op);
    if (n->op == OP_within) return true;
    if (traits & OPT_Z && rb_outside(r, n->in[0].node)) return true;
    if (traits & OPT_Y && rb_outside(r, n->in[1].node)) return true;
    if (n->op != OP_select) return false;
    bool zero1 = is_zero(r->g->nodes.v[n->in[1].node]),
         zero2 = is_zero(r->g->nodes.v[n->in[2].node]);
    return (zero2 && rb_outside(r, n->in[1].node)) || (zero1 && rb_outside(r, n->in[2].node));
}

bool rb_outside(Rebuild *r, int node) {
    const Node *n = r->g->nodes.v[node];
    if (n->kind != N_OP) return false;
    while (r->outside.n <= node) vec_push(r->cx->arena, &r->outside, UNKNOWN);
    if (r->outside.v[node] == UNKNOWN) {
        char is = outside_op(r, n) ? OUTSIDE : INSIDE;
        r->outside.v[node] = is;
    }
    return r->outside.v[node] == OUTSIDE;
}

/* ---- proofs ---- */

const Ix **rb_extents(Graph *g, const Node *n, int nax) {
    const Ix **e = ARENA_ARRAY(g->arena, const Ix *, nax);
    for (int i = 0; i < nax; i++) e[i] = n->axes[i].extent;
    return e;
}

bool rb_nonneg(Graph *g, const Ix *x, const Node *at, int nax) {
    return infer_nonneg(g, x, rb_extents(g, at, nax), nax, NULL, 0);
}

/* What the launch checks say where a node has an element, per list of extents. */
typedef struct Facts {
    Arena arena;
    Map by_extents; /* ids of extents -> FactList */
} Facts;

typedef struct FactList {
    const Ix **v;
    int n;
} FactList;

static FactList *make_facts(Facts *f, Graph *g, const Ix *const *extents, int nax) {
    Map holds = {.arena = &f->arena}; /* `unless` -> 1: the domain has an element; -1 */
    FactList *all = ARENA_NEW(&f->arena, FactList);
    all->v = ARENA_ARRAY(&f->arena, const Ix *, g->checks.n);
    for (int i = 0; i < g->checks.n; i++) {
        const Check *c = &g->checks.v[i];
        intptr_t *known = map_put(&holds, &c->unless, sizeof c->unless);
        if (!*known) {
            const Ix *some = c->unless ? ix_sub(g->ix, c->unless, ix_const(g->ix, 1)) : NULL;
            *known = !some || infer_nonneg(g, some, extents, nax, NULL, 0) ? 1 : -1;
        }
        if (*known > 0) all->v[all->n++] = c->e;
    }
    all->n = ix_strongest(all->v, all->n);
    return all;
}

static const FactList *facts_of(Facts *f, Graph *g, const Ix *const *extents, int nax) {
    int64_t *key = ARENA_ARRAY(&f->arena, int64_t, nax);
    for (int i = 0; i < nax; i++) key[i] = extents[i]->id;
    f->by_extents.arena = &f->arena;
    intptr_t *slot = map_put(&f->by_extents, key, sizeof *key * (size_t)nax);
    if (!*slot) *slot = (intptr_t)make_facts(f, g, extents, nax);
    return (const FactList *)*slot;
}

static void check_read(Facts *f, Graph *g, const Ix *const *extents, int nax, const IxVec *guards,
                       Operand *o) {
    const Node *to = g->nodes.v[o->node];
    for (int d = 0; d < to->rank; d++) {
        const Ix *dim = to->axes[d].extent, *x = o->map[d];
        if (o->checked >> d & 1) continue;
        BoundResult b = infer_bound(g, x, dim, extents, nax, guards->v, guards->n);
        if (b.bound == BOUND_PROVED) continue;
        bool inside = b.bound == BOUND_LAUNCH;
        if (inside) {
            const FactList *k = facts_of(f, g, extents, nax);
            const Ix *top = ix_sub(g->ix, ix_sub(g->ix, dim, b.hi), ix_const(g->ix, 1));
            inside = infer_nonneg(g, b.lo, extents, nax, k->v, k->n) &&
                     infer_nonneg(g, top, extents, nax, k->v, k->n);
        }
        if (!inside) o->checked |= 1u << d;
    }
}

void rb_check_reads(Graph *g, const Node *at, int nax, Operand *o) {
    Facts f = {0};
    check_read(&f, g, rb_extents(g, at, nax), nax, &(IxVec){0}, o);
    arena_free(&f.arena);
}

const Ix *rb_integer(Graph *g, const Operand *o, bool data) {
    const Node *n = g->nodes.v[o->node];
    DClass cls = dtype_class(n->type);
    if (o->checked || (cls != DC_INT && cls != DC_UINT)) return NULL;
    if (n->kind == N_INDEX) return ix_at(g->ix, n->ix, o->map, n->rank);
    if (n->kind == N_CONST) return ix_const(g->ix, n->inum);
    Operand in;
    if (rb_is_op(g, o, OP_cast) && dtype_bits(n->type) >= 32 && rb_through(g, o, 0, &in)) {
        DType from = g->nodes.v[in.node]->type; /* exact when the type is at least as wide */
        bool wider =
            dtype_is_int(from) && (dtype_bits(from) < dtype_bits(n->type) || from == n->type);
        const Ix *x = wider ? rb_integer(g, &in, data) : NULL;
        if (x) return x;
    }
    return data ? ix_value(g->ix, n->id, o->map, n->rank) : NULL;
}

/* ---- the walk ---- */

void rb_replace(Rebuild *r, Node *n, Operand by) {
    Graph *g = r->g;
    Node *m = g->nodes.v[by.node];
    FK_ASSERT(n->id < r->old && m != n && m->type == n->type);
    Operand *o = ARENA_NEW(g->arena, Operand);
    *o = by;
    r->to[n->id] = o;
    r->changed = true;
    bool fits = m->kind != N_INPUT && m->kind != N_CONST && rb_identity(g, n, &by);
    if (fits && !m->name && n->name) {
        m->name = n->name;
        m->span = n->span;
    }
}

/* The node that stands for a replaced one where nothing can be read through. */
static int copy_of(Rebuild *r, int node) {
    Graph *g = r->g;
    if (r->copy[node] < 0) {
        const Node *n = g->nodes.v[node];
        Node *c = rb_op(g, OP_copy, n->type, n, n->rank);
        c->in[0] = *r->to[node];
        c->name = n->name;
        r->copy[node] = c->id;
    }
    return r->copy[node];
}

static const Ix *redirect_value(void *ctx, IxPool *p, int value, const Ix *const *args, int n) {
    Rebuild *r = ctx;
    if (value >= r->old || !r->to[value]) return ix_value(p, value, args, n);
    const Operand *by = r->to[value];
    if (by->checked) return ix_value(p, copy_of(r, value), args, n);
    int rank = r->g->nodes.v[by->node]->rank;
    const Ix **at = ARENA_ARRAY(p->arena, const Ix *, rank);
    for (int d = 0; d < rank; d++) at[d] = ix_at(p, by->map[d], args, n);
    return ix_value(p, by->node, at, rank);
}

static const Ix *redirect_ix(Rebuild *r, const Ix *x) {
    if (!x || !x->has_value) return x;
    return ix_subst(r->g->ix, x, &(IxSubst){.value = redirect_value, .ctx = r});
}

static void redirect(Rebuild *r, Node *n) {
    Graph *g = r->g;
    n->ix = redirect_ix(r, n->ix);
    for (int i = 0; n->lo && i < n->naxes - n->rank; i++) {
        n->lo[i] = redirect_ix(r, n->lo[i]);
        n->hi[i] = redirect_ix(r, n->hi[i]);
    }
    for (int i = 0; i < n->nin; i++) {
        Operand *o = &n->in[i], by;
        for (int d = 0; d < g->nodes.v[o->node]->rank; d++) o->map[d] = redirect_ix(r, o->map[d]);
        if (o->node >= r->old || !r->to[o->node]) continue;
        if (rb_compose(g, o, r->to[o->node], &by))
            *o = by;
        else
            o->node = copy_of(r, o->node);
    }
}

static void redirect_outputs(Rebuild *r) {
    Graph *g = r->g;
    for (int i = 0; i < g->params.n; i++) {
        Param *p = &g->params.v[i];
        if (!p->out || !r->to[p->node]) continue;
        const Operand *by = r->to[p->node];
        bool fits =
            g->nodes.v[by->node]->kind != N_INPUT && rb_identity(g, g->nodes.v[p->node], by);
        p->node = fits ? by->node : copy_of(r, p->node);
    }
}

/* A composed read is inside wherever it is made, but the proof may be lost in the new expression:
 * (K - 1 - i) % 2 < K. Such a read gets a check that never fails. */
static void check_reads(Graph *g) {
    Facts f = {0};
    for (int i = 0; i < g->nodes.n; i++) {
        Node *n = g->nodes.v[i];
        const Ix **extents = rb_extents(g, n, n->naxes);
        IxVec guards = {0};
        bool exact;
        for (int k = n->nin - 1; k >= 0; k--) {
            check_read(&f, g, extents, n->naxes, &guards, &n->in[k]);
            if (n->where && k == n->nin - 1) infer_conjuncts(g, &n->in[k], &guards, &exact);
        }
    }
    arena_free(&f.arena);
}

bool rebuild(PassCtx *cx, Graph *g, RebuildFn *visit, void *ctx) {
    Rebuild r = {.cx = cx, .g = g, .old = g->nodes.n};
    r.to = ARENA_ARRAY(g->arena, Operand *, r.old);
    r.copy = ARENA_ARRAY(g->arena, int, r.old);
    for (int i = 0; i < r.old; i++) r.copy[i] = -1;
    for (int i = 0; i < r.old; i++) {
        Node *n = g->nodes.v[i];
        redirect(&r, n);
        if (visit(&r, n, ctx)) r.changed = true;
    }
    redirect_outputs(&r);
    if (!r.changed) {
        g->nodes.n = r.old; /* whatever a rule tried and dropped */
        return false;
    }
    graph_sweep(g);
    check_reads(g);
    return true;
}
