/* linear_empty.c - when does a sum have no element? As conditions of a graph, for the guard of what
 * left it (linear.c). And what a mask leaves: has a row an element that was kept?
 */
#include "passes/domain_int.h"
#include "passes/linear_int.h"

#include <math.h>

Operand linear_op2(Graph *g, Op op, DType type, const Node *like, Operand a, Operand b) {
    Node *n = rb_op(g, op, type, like, like->rank);
    n->in[0] = a;
    n->in[1] = b;
    return rb_read(g, n);
}

/* The integer x over the value axes of n, data in it read by an op's operand. */
static Operand integer(Graph *g, const Node *n, const Ix *x);

/* Sums of data and indices become ops; the part without data is one index. */
static Operand sum_terms(Graph *g, const Node *n, const Ix *x) {
    IxTerm *t;
    IxPool *p = g->ix;
    int terms = ix_terms(p, x, &t);
    const Ix *plain = ix_const(p, 0);
    Operand sum;
    bool some = false;
    for (int i = 0; i < terms; i++) {
        const Ix *c = ix_const(p, t[i].coef), *atom = t[i].atom ? t[i].atom : ix_const(p, 1);
        if (!atom->has_value) {
            plain = ix_add(p, plain, ix_mul(p, c, atom));
            continue;
        }
        Operand term = integer(g, n, atom);
        if (t[i].coef != 1) term = linear_op2(g, OP_mul, DT_i64, n, integer(g, n, c), term);
        sum = some ? linear_op2(g, OP_add, DT_i64, n, sum, term) : term;
        some = true;
    }
    Operand rest = integer(g, n, plain);
    return some ? linear_op2(g, OP_add, DT_i64, n, sum, rest) : rest;
}

static Operand integer(Graph *g, const Node *n, const Ix *x) {
    static const Op op[] = {[IX_DIV] = OP_idiv,
                            [IX_MOD] = OP_imod,
                            [IX_MIN] = OP_min,
                            [IX_MAX] = OP_max,
                            [IX_MUL] = OP_mul};
    int64_t v;
    if (ix_is_const(x, &v)) return rb_const(g, DT_i64, 0, v);
    if (!x->has_value) {
        Node *m = graph_node(g, N_INDEX, DT_i64, n->rank, n->rank, 0);
        for (int d = 0; d < n->rank; d++) m->axes[d] = n->axes[d];
        m->ix = x;
        return rb_read(g, m);
    }
    if (x->kind == IX_VALUE) {
        Operand o;
        graph_map(g, &o, (int)x->num);
        for (int i = 0; i < x->n; i++) o.map[i] = x->arg[i];
        Node *m = rb_op(g, OP_cast, DT_i64, n, n->rank);
        m->in[0] = o;
        return rb_read(g, m);
    }
    if (x->kind == IX_ADD || (x->kind == IX_MUL && x->arg[0]->kind == IX_CONST))
        return sum_terms(g, n, x);
    Operand r = integer(g, n, x->arg[0]);
    for (int i = 1; i < x->n; i++)
        r = linear_op2(g, op[x->kind], DT_i64, n, r, integer(g, n, x->arg[i]));
    return r;
}

/* The value axes of n that something uses, as the axes of a smaller node. */
typedef struct Frame {
    Node node;        /* like n, with these value axes and none reduced */
    const Ix **inner; /* per axis of n: in the smaller node */
    const Ix **outer; /* per axis of the smaller node: in n */
} Frame;

static Frame frame_of(Graph *g, const Node *n, const bool *used) {
    Frame f = {.node = {.axes = ARENA_ARRAY(g->arena, Axis, n->naxes), .span = n->span}};
    f.inner = ARENA_ARRAY(g->arena, const Ix *, n->naxes);
    f.outer = ARENA_ARRAY(g->arena, const Ix *, n->naxes);
    for (int d = 0; d < n->rank; d++) {
        if (!used[d]) continue;
        f.node.axes[f.node.rank] = n->axes[d];
        f.outer[f.node.rank] = ix_axis(g->ix, d);
        f.inner[d] = ix_axis(g->ix, f.node.rank++);
    }
    return f;
}

/* x >= 0, as a node over the axes that x uses. */
static Operand nonneg(Graph *g, const Node *n, const Ix *x) {
    bool *used = ARENA_ARRAY(g->arena, bool, n->rank);
    for (int d = 0; d < n->rank; d++) used[d] = ix_uses_axis(x, d);
    Frame f = frame_of(g, n, used);
    Operand index = integer(g, &f.node, ix_at(g->ix, x, f.inner, n->rank));
    Operand c = linear_op2(g, OP_ge, DT_bool, &f.node, index, rb_const(g, DT_i64, 0, 0));
    c.map = f.outer;
    return c;
}

static Operand all_nonneg(Graph *g, const Node *n, const IxVec *conds) {
    Operand all = nonneg(g, n, conds->v[0]);
    for (int i = 1; i < conds->n; i++)
        all = linear_op2(g, OP_and, DT_bool, n, all, nonneg(g, n, conds->v[i]));
    return all;
}

/* An operand of n over the axes of the frame and those that n reduces, of reduction m. */
static void move_operand(Graph *g, const Node *n, const Frame *f, const Operand *from, Node *m,
                         Operand *to) {
    graph_map(g, to, from->node);
    to->checked = from->checked;
    for (int d = 0; d < g->nodes.v[from->node]->rank; d++)
        to->map[d] = ix_at(g->ix, from->map[d], f->inner, n->naxes);
    rb_check_reads(g, m, m->naxes, to);
}

/* The reduction `red` of `value` over n's domain, compared with 0; over the value axes that those
 * two use. */
static Operand compared(Graph *g, const Node *n, Reduce red, const Operand *value, Op op) {
    const Operand *where = n->where ? &n->in[n->nin - 1] : NULL;
    bool *used = ARENA_ARRAY(g->arena, bool, n->rank);
    for (int d = 0; d < n->rank; d++)
        used[d] = (where && rb_uses(g, where, d)) || rb_uses(g, value, d);
    Frame f = frame_of(g, n, used);
    int rank = f.node.rank, reduced = n->naxes - n->rank;
    Node *m = graph_node(g, N_REDUCE, DT_f32, rank, rank + reduced, 1 + n->where);
    for (int d = 0; d < rank; d++) m->axes[d] = f.node.axes[d];
    for (int k = 0; k < reduced; k++) {
        m->axes[rank + k] = n->axes[n->rank + k];
        f.inner[n->rank + k] = ix_axis(g->ix, rank + k);
    }
    m->red = red;
    m->where = n->where;
    m->span = n->span;
    move_operand(g, n, &f, value, m, &m->in[0]);
    if (where) move_operand(g, n, &f, where, m, &m->in[1]);
    Operand any = linear_op2(g, op, DT_bool, &f.node, rb_read(g, m), rb_const(g, DT_f32, 0, 0));
    any.map = f.outer;
    return any;
}

/* max[where] 1 > 0 over the axes that `where` uses: a max of nothing is -inf. */
static Operand counted(Graph *g, const Node *n) {
    Operand one = rb_const(g, DT_f32, 1, 0);
    return compared(g, n, RED_max, &one, OP_gt);
}

Operand linear_kept(Graph *g, const Node *n, const Operand *mask) {
    return compared(g, n, RED_sum, mask, OP_ne);
}

bool linear_nonempty(Graph *g, const Node *n, Operand *cond) {
    Domain d = domain_of(g, n);
    IxVec conds = {0};
    if (!domain_nonempty(g, n, &d, &conds)) { /* so there is a condition */
        *cond = counted(g, n);
        return true;
    }
    if (conds.n) *cond = all_nonneg(g, n, &conds);
    return conds.n > 0;
}

/* ---- what a mask leaves ---- */

static bool same_read(const Graph *g, const Operand *a, const Operand *b) {
    return rb_same(g, a, b) && !a->checked && !b->checked;
}

bool linear_nonneg(const Graph *g, const Node *n) {
    if (n->kind == N_CONST) return dtype_class(n->type) == DC_REAL ? n->num >= 0 : n->inum >= 0;
    if (n->kind != N_OP) return false;
    switch (n->op) {
    case OP_exp:
    case OP_exp2:
    case OP_abs:
    case OP_sigmoid:
    case OP_sqrt:
    case OP_rsqrt:
    case OP_erfc:
    case OP_rand: return true;
    case OP_mul:
        if (same_read(g, &n->in[0], &n->in[1])) return true;
        break;
    case OP_add:
    case OP_div:
    case OP_min:
    case OP_cast:
    case OP_copy: break;
    case OP_select: /* but for the condition */
        return linear_nonneg(g, g->nodes.v[n->in[1].node]) &&
               linear_nonneg(g, g->nodes.v[n->in[2].node]);
    default: return false;
    }
    bool all = true;
    for (int k = 0; k < n->nin; k++) all &= linear_nonneg(g, g->nodes.v[n->in[k].node]);
    return all;
}
