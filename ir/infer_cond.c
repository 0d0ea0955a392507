/* infer_cond.c - what a condition says about indices: its affine conjuncts. */
#include "ir/infer.h"

/* Conditions and index arithmetic are graphs with sharing; walked as trees they may be larger than
 * memory. After so many steps the rest is left out. */
enum { STEPS_MAX = 4096 };

typedef struct Walk {
    const Graph *g;
    IxPool *p;
    IxVec *facts;
    bool exact;
    int steps;
} Walk;

/* Operand `in` of a node that is itself read at `at`, as an operand of that reader. */
static Operand compose(const Walk *w, const Operand *in, const Operand *at) {
    int rank = w->g->nodes.v[in->node]->rank, outer = w->g->nodes.v[at->node]->rank;
    Operand o = {in->node, ARENA_ARRAY(w->p->arena, const Ix *, rank), in->checked | at->checked};
    for (int d = 0; d < rank; d++) o.map[d] = ix_at(w->p, in->map[d], at->map, outer);
    return o;
}

static const Ix *value_of(Walk *w, const Operand *o);

/* i64 arithmetic is index arithmetic: neither overflows (rule 1). */
static const Ix *arith_of(Walk *w, const Node *n, const Operand *at) {
    const Ix *x[2] = {NULL, NULL};
    int64_t c;
    if (n->nin > 2) return NULL;
    for (int i = 0; i < n->nin; i++) {
        Operand o = compose(w, &n->in[i], at);
        x[i] = value_of(w, &o);
        if (!x[i]) return NULL;
    }
    switch (n->op) {
    case OP_copy:
    case OP_cast: return x[0];
    case OP_neg: return ix_neg(w->p, x[0]);
    case OP_add: return ix_add(w->p, x[0], x[1]);
    case OP_sub: return ix_sub(w->p, x[0], x[1]);
    case OP_mul: return ix_mul(w->p, x[0], x[1]);
    case OP_min: return ix_min(w->p, x[0], x[1]);
    case OP_max: return ix_max(w->p, x[0], x[1]);
    case OP_idiv: return ix_is_const(x[1], &c) && c > 0 ? ix_div(w->p, x[0], x[1]) : NULL;
    case OP_imod: return ix_is_const(x[1], &c) && c > 0 ? ix_mod(w->p, x[0], x[1]) : NULL;
    default: return NULL;
    }
}

/* The integer that operand o reads, over the reader's axes; NULL when an Ix cannot say it. */
static const Ix *value_of(Walk *w, const Operand *o) {
    const Node *n = w->g->nodes.v[o->node];
    if (w->steps++ > STEPS_MAX || o->checked || !dtype_is_int(n->type)) return NULL;
    if (n->kind == N_INDEX) return ix_at(w->p, n->ix, o->map, n->rank);
    if (n->kind == N_CONST) return ix_const(w->p, n->inum);
    if (n->kind == N_OP && n->type == DT_i64) {
        DType from = w->g->nodes.v[n->in[0].node]->type;
        return dtype_is_int(from) ? arith_of(w, n, o) : NULL;
    }
    if (n->type == DT_i64) return NULL; /* data of 64 bits: a sum with it could overflow */
    return ix_value(w->p, o->node, o->map, n->rank);
}

static void fact(Walk *w, const Ix *x) {
    vec_push(w->p->arena, w->facts, x);
}

/* big - small - gap >= 0 */
static void fact_above(Walk *w, const Ix *big, const Ix *small, int64_t gap) {
    fact(w, ix_sub(w->p, ix_sub(w->p, big, small), ix_const(w->p, gap)));
}

static Op opposite(Op op) {
    switch (op) {
    case OP_lt: return OP_ge;
    case OP_le: return OP_gt;
    case OP_gt: return OP_le;
    case OP_ge: return OP_lt;
    case OP_eq: return OP_ne;
    case OP_ne: return OP_eq;
    default: return OP_COUNT;
    }
}

/* Of a comparison a != b: > 0 if a is never below b, < 0 if never above (t != 0 is t > 0); 0. */
static int side_of(Walk *w, const Node *n) {
    const Ix *a = value_of(w, &n->in[0]), *b = value_of(w, &n->in[1]);
    const Ix **ext = ARENA_ARRAY(w->p->arena, const Ix *, n->rank);
    for (int i = 0; i < n->rank; i++) ext[i] = n->axes[i].extent;
    if (!a || !b) return 0;
    if (infer_nonneg(w->g, ix_sub(w->p, a, b), ext, n->rank, NULL, 0)) return 1;
    return infer_nonneg(w->g, ix_sub(w->p, b, a), ext, n->rank, NULL, 0) ? -1 : 0;
}

static void compare(Walk *w, const Node *n, Op op, const Operand *at) {
    Operand oa = compose(w, &n->in[0], at), ob = compose(w, &n->in[1], at);
    const Ix *a = value_of(w, &oa), *b = a ? value_of(w, &ob) : NULL;
    int side = b && op == OP_ne ? side_of(w, n) : 0;
    if (side) op = side > 0 ? OP_gt : OP_lt;
    if (!b || op == OP_ne) {
        w->exact = false;
        return;
    }
    if (op == OP_ge || op == OP_gt || op == OP_eq) fact_above(w, a, b, op == OP_gt);
    if (op == OP_le || op == OP_lt || op == OP_eq) fact_above(w, b, a, op == OP_lt);
}

static void walk(Walk *w, const Operand *cond, bool negated) {
    const Node *n = w->g->nodes.v[cond->node];
    if (w->steps++ > STEPS_MAX || cond->checked) {
        w->exact = false;
    } else if (n->kind == N_CONST) {
        if ((n->inum != 0) == negated) fact(w, ix_const(w->p, -1)); /* never */
    } else if (n->kind != N_OP) {
        w->exact = false;
    } else if (n->op == (negated ? OP_or : OP_and) || n->op == OP_copy || n->op == OP_not) {
        for (int i = 0; i < n->nin; i++) {
            Operand o = compose(w, &n->in[i], cond);
            walk(w, &o, negated != (n->op == OP_not));
        }
    } else if (opposite(n->op) != OP_COUNT) {
        compare(w, n, negated ? opposite(n->op) : n->op, cond);
    } else {
        w->exact = false;
    }
}

static void conjuncts(const Graph *g, const Operand *cond, IxVec *facts, bool *exact,
                      bool negated) {
    Walk w = {g, g->ix, facts, true, 0};
    walk(&w, cond, negated);
    if (!w.exact) *exact = false;
}

void infer_conjuncts(const Graph *g, const Operand *cond, IxVec *facts, bool *exact) {
    conjuncts(g, cond, facts, exact, false);
}

void infer_negated(const Graph *g, const Operand *cond, IxVec *facts, bool *exact) {
    conjuncts(g, cond, facts, exact, true);
}
