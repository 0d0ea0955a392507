/* cost.c - elements, bytes, flops and the roofline. Prices are for comparing choices: right to a
 * factor of two is enough, the order of two choices is what counts.
 */
#include "passes/cost_int.h"

#include <math.h>

enum { DEFAULT_SIZE = 1024 };

typedef struct Env {
    const PassCtx *cx;
    const Graph *g;
    const Node *at;
    double unknown;
} Env;

static double value(const Env *e, const Ix *x);

static double middle(const Env *e, int axis) {
    if (!e->at || axis >= e->at->naxes) return 0;
    return floor(value(e, e->at->axes[axis].extent) / 2);
}

static double value(const Env *e, const Ix *x) {
    double a, b;
    switch (x->kind) {
    case IX_CONST: return (double)x->num;
    case IX_SIZE: return e->cx->hint ? (double)e->cx->hint[x->num] : (double)DEFAULT_SIZE;
    case IX_AXIS: return middle(e, (int)x->num);
    case IX_VALUE: return e->unknown;
    case IX_ADD:
    case IX_MUL:
        a = value(e, x->arg[0]);
        for (int i = 1; i < x->n; i++) {
            b = value(e, x->arg[i]);
            a = x->kind == IX_ADD ? a + b : a * b;
        }
        return a;
    default: break;
    }
    a = value(e, x->arg[0]);
    b = value(e, x->arg[1]);
    if (x->kind == IX_MIN) return fmin(a, b);
    if (x->kind == IX_MAX) return fmax(a, b);
    if (b <= 0) return 0;
    return x->kind == IX_DIV ? floor(a / b) : a - b * floor(a / b);
}

double cost_ix(const PassCtx *cx, const Graph *g, const Node *at, const Ix *x, double unknown) {
    Env e = {cx, g, at, unknown};
    return fmax(value(&e, x), 0);
}

double cost_count(const PassCtx *cx, const Graph *g, const Node *n) {
    double count = 1;
    for (int d = 0; d < n->rank; d++) count *= cost_ix(cx, g, NULL, n->axes[d].extent, 0);
    return count;
}

/* Elements of a reduced axis: between its bounds where `domain` found some. */
static double trips(const PassCtx *cx, const Graph *g, const Node *n, int axis) {
    double extent = cost_ix(cx, g, NULL, n->axes[axis].extent, 0), lo = 0, hi = extent;
    int k = axis - n->rank;
    if (n->lo && n->lo[k]) lo = cost_ix(cx, g, n, n->lo[k], 0);
    if (n->hi && n->hi[k]) hi = fmin(cost_ix(cx, g, n, n->hi[k], extent / 2), extent);
    return fmax(hi - lo, 1);
}

double cost_points(const PassCtx *cx, const Graph *g, const Node *n) {
    double points = cost_count(cx, g, n);
    for (int d = n->rank; d < n->naxes; d++) points *= trips(cx, g, n, d);
    return points;
}

double cost_bytes(const PassCtx *cx, const Graph *g, const Node *n) {
    return cost_count(cx, g, n) * dtype_bits(n->type) / 8;
}

static bool uses(const Graph *g, const Operand *o, int axis) {
    for (int d = 0; d < g->nodes.v[o->node]->rank; d++)
        if (ix_uses_axis(o->map[d], axis)) return true;
    return false;
}

double cost_read_bytes(const PassCtx *cx, const Graph *g, const Node *n, const Operand *o) {
    const Node *to = g->nodes.v[o->node];
    double points = 1;
    for (int d = 0; d < n->naxes; d++)
        if (uses(g, o, d)) points *= cost_ix(cx, g, NULL, n->axes[d].extent, 0);
    return fmin(points * dtype_bits(to->type) / 8, cost_bytes(cx, g, to));
}

double cost_op(Op op) {
    switch (op) {
    case OP_copy: return 0;
    case OP_div:
    case OP_idiv:
    case OP_imod:
    case OP_sqrt:
    case OP_rsqrt:
    case OP_exp:
    case OP_exp2:
    case OP_log:
    case OP_log2: return 8;
    case OP_tanh:
    case OP_sigmoid: return 16;
    case OP_erf:
    case OP_erfc:
    case OP_sin:
    case OP_cos:
    case OP_pow: return 32;
    case OP_rand: return 60; /* ten rounds of Philox, shared by four neighbours at best */
    default: return 1;
    }
}

double cost_flops(const PassCtx *cx, const Graph *g, const Node *n) {
    switch (n->kind) {
    case N_INPUT:
    case N_CONST: return 0;
    case N_INDEX: return cost_count(cx, g, n);
    case N_OP: return cost_count(cx, g, n) * cost_op(n->op);
    case N_REDUCE: break;
    }
    int factors = n->nin - n->where;
    return cost_points(cx, g, n) * (n->red == RED_contract ? 2 * (factors - 1) : 1);
}

double cost_time(const Target *t, double flops, double bytes) {
    return fmax(bytes / (t->gbs * 1e3), flops / (t->f32_tflops * 1e6));
}
