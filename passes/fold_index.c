/* fold_index.c - laws of reading, index arithmetic and domains; tried before those of the ops. */
#include "passes/fold_int.h"

/* ---- reading ---- */

/* Readers read through copies (read_copy, read_index), so only outputs keep them alive: one that
 * says no more than "the output is that node" goes. An input or a constant cannot be that. */
static Fate copy(Fold *f, Node *n) {
    const Node *x = f->g->nodes.v[n->in[0].node];
    bool needed = x->kind == N_INPUT || x->kind == N_CONST || !rb_identity(f->g, n, &n->in[0]);
    return needed || !rb_is_output(f->g, n) ? FOLD_NOT : fold_out(f, n->in[0]);
}

static Fate read_copy(Fold *f, Node *n) {
    for (int i = 0; i < n->nin; i++) {
        Operand x;
        if (!rb_is_op(f->g, &n->in[i], OP_copy) || !rb_through(f->g, &n->in[i], 0, &x)) continue;
        n->in[i] = x;
        return FOLD_EDIT;
    }
    return FOLD_NOT;
}

/* What a gather reads: through copies, and an index may come out. */
static const Ix *value_index(void *ctx, IxPool *p, int value, const Ix *const *args, int n) {
    Fold *f = ctx;
    Operand o, x;
    graph_map(f->g, &o, value);
    for (int i = 0; i < n; i++) o.map[i] = args[i];
    while (rb_is_op(f->g, &o, OP_copy) && rb_through(f->g, &o, 0, &x) && !x.checked) o = x;
    const Ix *index = rb_integer(f->g, &o, false);
    return index ? index : ix_value(p, o.node, o.map, f->g->nodes.v[o.node]->rank);
}

static Fate read_index(Fold *f, Node *n) {
    bool changed = false;
    IxSubst s = {.value = value_index, .ctx = f};
    for (int i = 0; i < n->nin; i++)
        for (int d = 0; d < f->g->nodes.v[n->in[i].node]->rank; d++) {
            const Ix **x = &n->in[i].map[d], *old = *x;
            if (old->has_value) *x = ix_subst(f->g->ix, old, &s);
            changed |= *x != old;
        }
    return changed ? FOLD_EDIT : FOLD_NOT;
}

/* A checked read that is inside wherever it is made. */
static Fate read_inside(Fold *f, Node *n) {
    bool changed = false;
    const Ix **extents = rb_extents(f->g, n, n->naxes);
    for (int i = 0; i < n->nin; i++) {
        Operand *o = &n->in[i];
        const Node *to = f->g->nodes.v[o->node];
        for (int d = 0; d < to->rank; d++) {
            if (!(o->checked >> d & 1) || o->map[d]->has_value) continue;
            BoundResult b =
                infer_bound(f->g, o->map[d], to->axes[d].extent, extents, n->naxes, NULL, 0);
            if (b.bound != BOUND_PROVED) continue;
            o->checked &= ~(1u << d);
            changed = true;
        }
    }
    return changed ? FOLD_EDIT : FOLD_NOT;
}

/* ---- axes that the value does not use ---- */

static bool uses_axis(const Graph *g, const Node *n, int axis) {
    if (n->ix && ix_uses_axis(n->ix, axis)) return true;
    for (int i = 0; i < n->nin; i++)
        if (rb_uses(g, &n->in[i], axis)) return true;
    return false;
}

static Node *without_axes(Fold *f, const Node *n, const bool *drop, int kept) {
    Graph *g = f->g;
    Node *m = graph_node(g, n->kind, n->type, kept, kept + n->naxes - n->rank, n->nin);
    const Ix **at = ARENA_ARRAY(g->arena, const Ix *, n->naxes);
    int k = 0;
    for (int d = 0; d < n->naxes; d++) {
        at[d] = ix_axis(g->ix, k);
        if (d >= n->rank || !drop[d]) m->axes[k++] = n->axes[d];
    }
    m->op = n->op;
    m->red = n->red;
    m->where = n->where;
    m->span = n->span;
    m->ix = n->ix ? ix_at(g->ix, n->ix, at, n->naxes) : NULL;
    for (int i = 0; i < n->nin; i++) {
        graph_map(g, &m->in[i], n->in[i].node);
        m->in[i].checked = n->in[i].checked;
        for (int d = 0; d < g->nodes.v[n->in[i].node]->rank; d++)
            m->in[i].map[d] = ix_at(g->ix, n->in[i].map[d], at, n->naxes);
        rb_check_reads(g, m, m->naxes, &m->in[i]);
    }
    return m;
}

/* Each row that is the same is computed once, and read by all. */
static Fate narrow(Fold *f, Node *n) {
    if (n->kind == N_OP && n->op == OP_copy) return FOLD_NOT;
    bool *drop = ARENA_ARRAY(f->g->arena, bool, n->rank);
    int kept = 0;
    for (int d = 0; d < n->rank; d++) {
        drop[d] = !uses_axis(f->g, n, d);
        kept += !drop[d];
    }
    if (kept == n->rank) return FOLD_NOT;
    Node *m = without_axes(f, n, drop, kept);
    for (int i = 0; i < n->nin; i++) /* a checked read would not hand on "0 outside its domain" */
        if (m->in[i].checked != n->in[i].checked && rb_outside(f->r, n->in[i].node))
            return FOLD_NOT;
    if (!rb_is_output(f->g, n)) m->name = n->name;
    Operand at, inner = fold_new(f, m);
    graph_map(f->g, &at, m->id);
    for (int d = 0, k = 0; d < n->rank; d++)
        if (!drop[d]) at.map[k++] = ix_axis(f->g->ix, d);
    return fold_out(f, rb_inline(f->g, &at, &inner));
}

/* ---- index arithmetic ---- */

static Fate index_constant(Fold *f, Node *n) {
    int64_t v;
    return ix_is_const(n->ix, &v) ? fold_out_num(f, DT_i64, 0, v) : FOLD_NOT;
}

/* NULL where the op has no index expression, or a divisor is not known to be positive. */
static const Ix *index_op(Fold *f, const Node *n, const Ix *a, const Ix *b) {
    IxPool *p = f->g->ix;
    bool positive = b && rb_nonneg(f->g, ix_sub(p, b, ix_const(p, 1)), n, n->rank);
    bool less = b && rb_nonneg(f->g, ix_sub(p, b, a), n, n->rank);
    bool more = b && rb_nonneg(f->g, ix_sub(p, a, b), n, n->rank);
    switch (n->op) {
    case OP_add: return ix_add(p, a, b);
    case OP_sub: return ix_sub(p, a, b);
    case OP_mul: return ix_mul(p, a, b);
    case OP_neg: return ix_neg(p, a);
    case OP_idiv: return positive ? ix_div(p, a, b) : NULL;
    case OP_imod: return positive ? ix_mod(p, a, b) : NULL;
    case OP_min: return less ? a : more ? b : ix_min(p, a, b);
    case OP_max: return less ? b : more ? a : ix_max(p, a, b);
    default: return NULL;
    }
}

/* i64 arithmetic on indices and constants is one index. Index expressions have 64 bits, and so has
 * the arithmetic; i32 wraps and stays an op. */
static Fate index_merge(Fold *f, Node *n) {
    Graph *g = f->g;
    if (n->type != DT_i64 || op_rule(n->op) == RULE_cast) return FOLD_NOT;
    if (op_rule(n->op) != RULE_arith && op_rule(n->op) != RULE_int) return FOLD_NOT;
    const Ix *a = rb_integer(g, &n->in[0], false), *b = NULL;
    if (!a || (n->nin > 1 && !(b = rb_integer(g, &n->in[1], false)))) return FOLD_NOT;
    bool overflow = g->ix->overflow;
    g->ix->overflow = false;
    const Ix *x = index_op(f, n, a, b);
    bool wrapped = g->ix->overflow;
    g->ix->overflow = overflow;
    if (!x || wrapped) return FOLD_NOT;
    n->kind = N_INDEX;
    n->ix = x;
    n->nin = 0;
    return FOLD_EDIT;
}

static Fate compare(Fold *f, Node *n) {
    Graph *g = f->g;
    if (op_rule(n->op) != RULE_cmp) return FOLD_NOT;
    const Ix *a = rb_integer(g, &n->in[0], true), *b = rb_integer(g, &n->in[1], true);
    if (!a || !b) return FOLD_NOT;
    bool overflow = g->ix->overflow; /* a difference that leaves 64 bits proves nothing */
    g->ix->overflow = false;
    const Ix *d = ix_sub(g->ix, a, b), *one = ix_const(g->ix, 1), *zero = ix_const(g->ix, 0);
    bool ge = rb_nonneg(g, d, n, n->rank), le = rb_nonneg(g, ix_neg(g->ix, d), n, n->rank);
    bool gt = rb_nonneg(g, ix_sub(g->ix, d, one), n, n->rank);
    bool lt = rb_nonneg(g, ix_sub(g->ix, ix_neg(g->ix, d), one), n, n->rank);
    bool wrapped = g->ix->overflow;
    g->ix->overflow = overflow;
    if (wrapped) return FOLD_NOT;
    bool is, not;
    switch (n->op) {
    case OP_eq: is = d == zero, not = gt || lt; break;
    case OP_ne: is = gt || lt, not = d == zero; break;
    case OP_lt: is = lt, not = ge; break;
    case OP_le: is = le, not = gt; break;
    case OP_gt: is = gt, not = le; break;
    default: is = ge, not = lt; break;
    }
    return is || not ? fold_out_num(f, DT_bool, 0, is) : FOLD_NOT;
}

/* ---- domains of reductions
 * ----------------------------------------------------------------------- */

static Fate reduce_empty(Fold *f, Node *n) {
    bool where = true;
    if (n->where) fold_bool(f->g, &n->in[n->nin - 1], &where);
    int64_t extent;
    for (int d = n->rank; d < n->naxes; d++)
        if (ix_is_const(n->axes[d].extent, &extent) && extent <= 0) where = false;
    if (where) return FOLD_NOT;
    EvalVal v = eval_identity(n->red, n->type);
    return fold_out_num(f, n->type, v.r, v.i);
}

static Fate where_true(Fold *f, Node *n) {
    bool where;
    if (!n->where || !fold_bool(f->g, &n->in[n->nin - 1], &where) || !where) return FOLD_NOT;
    n->where = false;
    n->nin--;
    return FOLD_EDIT;
}

/* sum[k] 1 is the number of elements. In i32 it may wrap: only where it is seen not to. */
static Fate count(Fold *f, Node *n) {
    double one;
    if (n->where || !fold_real(f->g, &n->in[0], &one) || one != 1) return FOLD_NOT;
    const Ix *elements = ix_const(f->g->ix, 1);
    for (int d = n->rank; d < n->naxes; d++)
        elements = ix_mul(f->g->ix, elements, n->axes[d].extent);
    int64_t v;
    if (n->type == DT_i32 && (!ix_is_const(elements, &v) || v > INT32_MAX)) return FOLD_NOT;
    Node *x = graph_node(f->g, N_INDEX, DT_i64, 0, 0, 0);
    x->ix = elements;
    x->span = n->span;
    return fold_out(f, fold_new(f, x));
}

#define RULE(kind, op, fn, law) {law, kind, op, fn}

const FoldRule fold_index_rules[] = {
    RULE(N_OP, OP_copy, copy, "an output that is a copy of a node is that node"),
    RULE(N_OP, FOLD_ANY, read_copy, "copies are read through"),
    RULE(N_REDUCE, FOLD_ANY, read_copy, "the same for reductions"),
    RULE(N_OP, FOLD_ANY, read_index, "a gather by an index expression is none; through copies"),
    RULE(N_REDUCE, FOLD_ANY, read_index, "the same for reductions"),
    RULE(N_OP, FOLD_ANY, read_inside, "a read that is always inside needs no check"),
    RULE(N_REDUCE, FOLD_ANY, read_inside, "the same for reductions"),
    RULE(N_REDUCE, FOLD_ANY, reduce_empty, "an empty reduction is its identity"),
    RULE(N_REDUCE, FOLD_ANY, where_true, "where true"),
    RULE(N_REDUCE, RED_sum, count, "sum[k] 1 is the extent of k"),
    RULE(N_INDEX, FOLD_ANY, index_constant, "an index without indices is a constant"),
    RULE(N_OP, FOLD_ANY, index_merge, "i64 arithmetic on indices is one index"),
    RULE(N_OP, FOLD_ANY, compare, "comparisons of indices that always come out the same"),
    RULE(N_OP, FOLD_ANY, narrow, "an axis that the value does not use is no axis of it"),
    RULE(N_REDUCE, FOLD_ANY, narrow, "the same for reductions"),
    RULE(N_INDEX, FOLD_ANY, narrow, "the same for indices"),
    {0},
};
