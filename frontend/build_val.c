/* build_val.c - values over variables, and the nodes made of them. */
#include "frontend/build_int.h"

#include <math.h>
#include <string.h>

/* ---- variables
 * ------------------------------------------------------------------------------------ */

int var_new(Build *b, const char *name, const Ix *extent) {
    vec_push(b->arena, &b->vars, ((Var){name, extent}));
    return b->vars.n - 1;
}

/* A set of variables, in order. */
typedef VEC(int) Vars;

static void vars_add(Build *b, Vars *s, int var) {
    int i = s->n;
    while (i > 0 && s->v[i - 1] > var) i--;
    if (i > 0 && s->v[i - 1] == var) return;
    vec_push(b->arena, s, var);
    memmove(s->v + i + 1, s->v + i, sizeof(int) * (size_t)(s->n - 1 - i));
    s->v[i] = var;
}

static void vars_in_ix(Build *b, Vars *s, const Ix *x) {
    if (!x->has_axis) return;
    if (x->kind == IX_AXIS) vars_add(b, s, (int)x->num);
    for (int i = 0; i < x->n; i++) vars_in_ix(b, s, x->arg[i]);
}

static int rank_of(const Build *b, int node) {
    return b->g->nodes.v[node]->rank;
}

static void vars_in_operand(Build *b, Vars *s, const Operand *o) {
    for (int d = 0; d < rank_of(b, o->node); d++) vars_in_ix(b, s, o->map[d]);
}

static void vars_in(Build *b, Vars *s, const Val *v) {
    if (v->kind == VAL_IX) vars_in_ix(b, s, v->ix);
    if (v->kind == VAL_NODE) vars_in_operand(b, s, &v->op);
}

bool val_uses(Build *b, const Val *v, const int *vars, int n) {
    Vars s = {0};
    vars_in(b, &s, v);
    for (int i = 0; i < s.n; i++)
        for (int k = 0; k < n; k++)
            if (s.v[i] == vars[k]) return true;
    return false;
}

/* ---- plain values
 * --------------------------------------------------------------------------------- */

static Val *val_new(Build *b, ValKind kind, DType type, Span sp) {
    Val *v = ARENA_NEW(b->arena, Val);
    v->kind = kind;
    v->type = type;
    v->span = sp;
    return v;
}

const Val *val_bad(Build *b, Span sp) {
    return val_new(b, VAL_BAD, DT_none, sp);
}

const Val *val_int(Build *b, int64_t i, Span sp) {
    Val *v = val_new(b, VAL_INT, i == (int32_t)i ? DT_i32 : DT_i64, sp);
    v->i = i;
    return v;
}

const Val *val_real(Build *b, double r, Span sp) {
    if (isfinite(r) && isinf((float)r)) {
        build_error(b, sp, "number-range",
                    "this number is too large for f32 (the largest is 3.4e38)");
        return val_bad(b, sp);
    }
    Val *v = val_new(b, VAL_REAL, DT_f32, sp);
    v->r = r;
    return v;
}

const Val *val_ix(Build *b, const Ix *ix, Span sp) {
    int64_t i;
    if (ix_is_const(ix, &i)) {
        Val *c = val_new(b, VAL_INT, DT_i64, sp);
        c->i = i;
        return c;
    }
    Val *v = val_new(b, VAL_IX, DT_i64, sp);
    v->ix = ix;
    return v;
}

const Val *val_node(Build *b, Operand op, Span sp) {
    Val *v = val_new(b, VAL_NODE, b->g->nodes.v[op.node]->type, sp);
    v->op = op;
    return v;
}

const Val *val_with(Build *b, const Val *v, bool quotient, Span sp) {
    if (v->kind == VAL_BAD) return v;
    Val *w = ARENA_NEW(b->arena, Val);
    *w = *v;
    w->quotient = quotient;
    w->span = sp;
    return w;
}

bool val_is_int(const Val *v) {
    return v->kind == VAL_INT || v->kind == VAL_IX ||
           (v->kind == VAL_NODE && dtype_is_int(v->type));
}

/* ---- moving variables
 * ----------------------------------------------------------------------------- */

static Operand operand_subst(Build *b, const Operand *o, const IxSubst *s) {
    Operand r = {o->node, ARENA_ARRAY(b->arena, const Ix *, rank_of(b, o->node)), o->checked};
    for (int d = 0; d < rank_of(b, o->node); d++) r.map[d] = ix_subst(b->p, o->map[d], s);
    return r;
}

const Val *val_move(Build *b, const Val *v, const int *from, const int *to, int n) {
    if (v->kind != VAL_IX && v->kind != VAL_NODE) return v;
    const Ix **axes = ARENA_ARRAY(b->arena, const Ix *, b->vars.n);
    for (int i = 0; i < n; i++) axes[from[i]] = ix_axis(b->p, to[i]);
    IxSubst s = {.axes = axes, .nax = b->vars.n};
    Val *w = ARENA_NEW(b->arena, Val);
    *w = *v;
    if (v->kind == VAL_IX) w->ix = ix_subst(b->p, v->ix, &s);
    if (v->kind == VAL_NODE) w->op = operand_subst(b, &v->op, &s);
    w->zero = (Conds){0};
    for (int i = 0; i < v->zero.n; i++) conds_add(b, &w->zero, operand_subst(b, &v->zero.v[i], &s));
    return w;
}

/* ---- nodes
 * ---------------------------------------------------------------------------------------- */

static bool same_operand(const Build *b, const Operand *x, const Operand *y) {
    if (x->node != y->node) return false;
    for (int d = 0; d < rank_of(b, x->node); d++)
        if (x->map[d] != y->map[d]) return false;
    return true;
}

void conds_add(Build *b, Conds *to, Operand cond) {
    for (int i = 0; i < to->n; i++)
        if (same_operand(b, &to->v[i], &cond)) return;
    vec_push(b->arena, to, cond);
}

/* A read that is proved with the node's own axes alone, or marked: the node may be computed where
 * the statement around it has nothing to compute, so what that one's domain or a launch check
 * promises does not count here. */
static void mark_unproved(Build *b, const Node *n, Operand *o) {
    const Node *of = b->g->nodes.v[o->node];
    const Ix **ext = NULL;
    for (int d = 0; d < of->rank; d++) {
        int axis;
        if (o->checked >> d & 1) continue;
        if (ix_is_axis(o->map[d], &axis) && n->axes[axis].extent == of->axes[d].extent) continue;
        if (!ext) {
            ext = ARENA_ARRAY(b->arena, const Ix *, n->naxes);
            for (int i = 0; i < n->naxes; i++) ext[i] = n->axes[i].extent;
        }
        BoundResult r = infer_bound(b->g, o->map[d], of->axes[d].extent, ext, n->naxes, NULL, 0);
        if (r.bound != BOUND_PROVED) o->checked |= 1u << d;
    }
}

/* A node whose axes are vars[0..naxes); `in` are over variables. NULL when there is no room. */
static Node *new_node(Build *b, NodeKind kind, DType type, const int *vars, int rank, int naxes,
                      const Operand *in, int nin, Span sp) {
    if (naxes > AXES_MAX || b->g->nodes.n >= NODES_MAX) {
        if (naxes > AXES_MAX)
            build_error(b, sp, "rank-limit",
                        "this depends on %d indices at once, at most %d can be", naxes, AXES_MAX);
        else if (!b->full)
            build_error(b, sp, "expansion",
                        "the fn grows over %d operations here, once its defs are expanded",
                        NODES_MAX);
        b->full |= naxes <= AXES_MAX;
        return NULL;
    }
    Node *n = graph_node(b->g, kind, type, rank, naxes, nin);
    const Ix **local = ARENA_ARRAY(b->arena, const Ix *, b->vars.n);
    for (int i = 0; i < naxes; i++) {
        n->axes[i] = (Axis){b->vars.v[vars[i]].name, b->vars.v[vars[i]].extent};
        local[vars[i]] = ix_axis(b->p, i);
    }
    IxSubst s = {.axes = local, .nax = b->vars.n};
    for (int i = 0; i < nin; i++) {
        n->in[i] = operand_subst(b, &in[i], &s);
        mark_unproved(b, n, &n->in[i]);
    }
    n->span = sp;
    return n;
}

/* The node read at its own variables. */
static const Val *node_val(Build *b, const Node *n, const int *vars, Span sp) {
    Operand o = {.node = n->id};
    o.map = ARENA_ARRAY(b->arena, const Ix *, n->rank);
    for (int i = 0; i < n->rank; i++) o.map[i] = ix_axis(b->p, vars[i]);
    return val_node(b, o, sp);
}

static int const_node(Build *b, DType type, int64_t i, double r, Span sp) {
    struct {
        int64_t type, i;
        double r;
    } key = {type, i, r};
    intptr_t *slot = map_put(&b->consts, &key, sizeof key);
    if (!*slot) {
        Node *n = graph_node(b->g, N_CONST, type, 0, 0, 0);
        n->inum = i;
        n->num = r;
        n->span = sp;
        *slot = n->id + 1;
    }
    return (int)*slot - 1;
}

Operand val_operand(Build *b, const Val *v) {
    switch (v->kind) {
    case VAL_INT: return (Operand){.node = const_node(b, v->type, v->i, 0, v->span)};
    case VAL_REAL: return (Operand){.node = const_node(b, DT_f32, 0, v->r, v->span)};
    case VAL_NODE: return v->op;
    default: break;
    }
    FK_ASSERT(v->kind == VAL_IX && !v->ix->has_value);
    Vars s = {0};
    vars_in_ix(b, &s, v->ix);
    Node *n = new_node(b, N_INDEX, DT_i64, s.v, s.n, s.n, NULL, 0, v->span);
    if (!n) return (Operand){.node = const_node(b, DT_i64, 0, 0, v->span)};
    const Ix **local = ARENA_ARRAY(b->arena, const Ix *, b->vars.n);
    for (int i = 0; i < s.n; i++) local[s.v[i]] = ix_axis(b->p, i);
    n->ix = ix_at(b->p, v->ix, local, b->vars.n);
    return node_val(b, n, s.v, v->span)->op;
}

/* ---- zero outside a domain (rule 4)
 * ---------------------------------------------------------------- */

static bool is_zero(const Val *v) {
    return (v->kind == VAL_INT && v->i == 0) || (v->kind == VAL_REAL && v->r == 0);
}

/* Known to be finite, and not 0 if it divides. */
static bool is_tame(const Val *v, bool divides) {
    if (v->kind == VAL_REAL) return isfinite(v->r) && (!divides || v->r != 0);
    if (v->kind == VAL_INT) return !divides || v->i != 0;
    return v->kind == VAL_IX && !divides;
}

const Val *val_masked(Build *b, const Val *v) {
    if (v->masked || !v->zero.n || v->kind != VAL_NODE) return v;
    Val *m = ARENA_NEW(b->arena, Val);
    *m = *v;
    m->masked = true;
    for (int i = 0; i < v->zero.n; i++) {
        const Val *in[] = {val_node(b, v->zero.v[i], v->span), m};
        const Val *w = make_op(b, OP_within, v->type, in, 2, v->span);
        if (w->kind == VAL_BAD) return w;
        m->op = w->op;
    }
    return m;
}

/* Is the result 0 wherever operand i is? */
static bool hands_zero_on(Op op, const Val *const *in, int i) {
    if (op == OP_select) return (i == 1 && is_zero(in[2])) || (i == 2 && is_zero(in[1]));
    if (op == OP_within) return i == 1;
    return (i == 0 && op_traits(op) & OPT_Z) || (i == 1 && op_traits(op) & OPT_Y);
}

/* And is it so by itself, whatever the other operand is? */
static bool stays_masked(Op op, const Val *const *in, int i) {
    if (!in[i]->masked) return false;
    if (op == OP_mul) return is_tame(in[1 - i], false);
    if (op == OP_div || op == OP_idiv) return is_tame(in[1], true);
    return true;
}

static void hand_zero_on(Build *b, Op op, const Val *const *in, int n, Val *out) {
    out->masked = true;
    for (int i = 0; i < n; i++) {
        if (!in[i]->zero.n || !hands_zero_on(op, in, i)) continue;
        for (int k = 0; k < in[i]->zero.n; k++) conds_add(b, &out->zero, in[i]->zero.v[k]);
        out->masked &= stays_masked(op, in, i);
    }
}

/* ---- ops and reductions
 * ---------------------------------------------------------------------------- */

const Val *make_op(Build *b, Op op, DType type, const Val *const *in, int n, Span sp) {
    const Val **v = ARENA_ARRAY(b->arena, const Val *, n);
    Operand *o = ARENA_ARRAY(b->arena, Operand, n);
    Vars s = {0};
    for (int i = 0; i < n; i++) {
        v[i] = hands_zero_on(op, in, i) ? in[i] : val_masked(b, in[i]);
        if (v[i]->kind == VAL_BAD) return v[i];
        vars_in(b, &s, v[i]);
    }
    for (int i = 0; i < n; i++) o[i] = val_operand(b, v[i]);
    Node *node = new_node(b, N_OP, type, s.v, s.n, s.n, o, n, sp);
    if (!node) return val_bad(b, sp);
    node->op = op;
    Val *out = ARENA_NEW(b->arena, Val);
    *out = *node_val(b, node, s.v, sp);
    hand_zero_on(b, op, v, n, out);
    return out;
}

/* A sum skips what is 0 outside a domain; any other reduction takes the zeros. */
static const Val *add_domains(Build *b, Reduce r, const Val **x, const Val *where, Span sp) {
    if (r != RED_sum) {
        *x = val_masked(b, *x);
        return where;
    }
    for (int i = 0; i < (*x)->zero.n; i++) {
        const Operand *c = &(*x)->zero.v[i];
        if (where && same_operand(b, &where->op, c)) continue;
        where = op_and(b, where, val_node(b, *c, sp), sp);
    }
    return where;
}

const Val *make_reduce(Build *b, Reduce r, const Val *x, const Val *where, const int *vars, int n,
                       Span sp) {
    where = add_domains(b, r, &x, where, sp);
    if (x->kind == VAL_BAD || (where && where->kind == VAL_BAD)) return val_bad(b, sp);
    Vars used = {0}, axes = {0};
    vars_in(b, &used, x);
    if (where) vars_in(b, &used, where);
    for (int i = 0; i < used.n; i++) {
        bool reduced = false;
        for (int k = 0; k < n; k++) reduced |= vars[k] == used.v[i];
        if (!reduced) vec_push(b->arena, &axes, used.v[i]);
    }
    int rank = axes.n;
    for (int k = 0; k < n; k++) vec_push(b->arena, &axes, vars[k]);
    Operand in[2] = {val_operand(b, x)};
    if (where) in[1] = val_operand(b, where);
    const char *why;
    DType given = b->g->nodes.v[in[0].node]->type, type = infer_reduce(r, &given, 1, &why);
    if (type == DT_none) {
        build_error(b, sp, "type", "'%s' %s", reduce_name(r), why);
        return val_bad(b, sp);
    }
    Node *node = new_node(b, N_REDUCE, type, axes.v, rank, axes.n, in, where ? 2 : 1, sp);
    if (!node) return val_bad(b, sp);
    node->red = r;
    node->where = where != NULL;
    return node_val(b, node, axes.v, sp);
}

/* The node that a statement names: v with exactly the axes vars[0..n), in this order. */
int make_named(Build *b, const Val *v, const int *vars, int n, const char *name, Span sp) {
    Operand o = val_operand(b, v);
    Node *node = b->g->nodes.v[o.node];
    bool same = node->rank == n && !node->name && (node->kind == N_OP || node->kind == N_REDUCE);
    for (int i = 0; same && i < n; i++) same = o.map[i] == ix_axis(b->p, vars[i]);
    if (!same) {
        DType type = node->type;
        node = new_node(b, N_OP, type, vars, n, n, &o, 1, sp);
        if (!node) return -1;
        node->op = OP_copy;
    }
    node->name = name;
    node->span = sp;
    return node->id;
}

/* ---- indices
 * -------------------------------------------------------------------------------------- */

static bool proved_alone(Build *b, const Operand *o) {
    Vars s = {0};
    const Node *of = b->g->nodes.v[o->node];
    vars_in_operand(b, &s, o);
    const Ix **ext = ARENA_ARRAY(b->arena, const Ix *, b->vars.n);
    for (int i = 0; i < s.n; i++) ext[s.v[i]] = b->vars.v[s.v[i]].extent;
    for (int d = 0; d < of->rank; d++)
        if (o->checked >> d & 1 ||
            infer_bound(b->g, o->map[d], of->axes[d].extent, ext, b->vars.n, NULL, 0).bound !=
                BOUND_PROVED)
            return false;
    return true;
}

/* A gather has no `checked`: what may fall outside is read by a node of its own. */
const Ix *val_index(Build *b, const Val *v) {
    if (v->kind == VAL_INT) return ix_const(b->p, v->i);
    if (v->kind == VAL_IX) return v->ix;
    if (v->kind != VAL_NODE || !dtype_is_int(v->type)) return NULL;
    v = val_masked(b, v);
    if (v->kind == VAL_NODE && !proved_alone(b, &v->op))
        v = make_op(b, OP_copy, v->type, &v, 1, v->span);
    if (v->kind != VAL_NODE) return NULL;
    return ix_value(b->p, (int)v->op.node, v->op.map, rank_of(b, v->op.node));
}
