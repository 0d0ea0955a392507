/* sample.c - see sample.h. */
#include "ir/sample.h"

#include <stdlib.h>
#include <string.h>

static uint64_t next(uint64_t *s) { /* splitmix64, Steele, Lea, Flood 2014 */
    uint64_t z = *s += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static int64_t between(uint64_t *s, int64_t lo, int64_t hi) {
    return lo + (int64_t)(next(s) % (uint64_t)(hi - lo + 1));
}

/* ---- sizes ---- */

static bool value(const Ix *x, const int64_t *sizes, int64_t *v) {
    bool ok = true;
    *v = ix_eval(x, &(IxEnv){.size = sizes}, &ok);
    return ok;
}

/* A quotient of one size (or constant) in a dimension must be whole: LANGUAGE rule 1. */
static bool whole(const Ix *x, const int64_t *sizes) {
    int64_t a, b;
    if (x->kind != IX_DIV || x->arg[0]->kind == IX_ADD || x->arg[0]->kind == IX_MUL) return true;
    return value(x->arg[0], sizes, &a) && value(x->arg[1], sizes, &b) && b > 0 && a % b == 0;
}

bool sample_legal(const Graph *g, const int64_t *sizes) {
    int64_t v;
    for (int i = 0; i < g->params.n; i++)
        for (int d = 0; d < g->params.v[i].rank; d++) {
            const Ix *dim = g->params.v[i].dims[d];
            if (!whole(dim, sizes) || !value(dim, sizes, &v) || v < 0) return false;
        }
    for (int i = 0; i < g->checks.n; i++) {
        const Check *c = &g->checks.v[i];
        if (c->unless && value(c->unless, sizes, &v) && v == 0) continue;
        if (!value(c->e, sizes, &v) || v < 0) return false;
    }
    return true;
}

/* The constant that divides size s in some dimension; 1: none. */
static int64_t divisor_of(const Graph *g, int s) {
    int64_t c, lcm = 1;
    for (int i = 0; i < g->params.n; i++)
        for (int d = 0; d < g->params.v[i].rank; d++) {
            const Ix *x = g->params.v[i].dims[d];
            if (x->kind != IX_DIV || x->arg[0]->kind != IX_SIZE || x->arg[0]->num != s) continue;
            if (ix_is_const(x->arg[1], &c) && c > 0 && lcm % c) lcm *= c;
        }
    return lcm;
}

bool sample_sizes(const Graph *g, uint64_t seed, int64_t most, int64_t *sizes) {
    int64_t *draw = calloc((size_t)g->sizes.n + 1, sizeof *draw);
    if (!draw) return false;
    bool found = false;
    for (int round = 0; round < 20000 && !found; round++) {
        for (int i = 0; i < g->sizes.n; i++) {
            int64_t c = divisor_of(g, i), top = most / c > 0 ? most / c : 1;
            draw[i] = sizes[i] >= 0 ? sizes[i] : c * between(&seed, 1, top);
        }
        found = sample_legal(g, draw);
    }
    if (found && g->sizes.n) memcpy(sizes, draw, sizeof *sizes * (size_t)g->sizes.n);
    free(draw);
    return found;
}

/* ---- shapes ---- */

size_t sample_shape(const Graph *g, int param, const int64_t *sizes, EvalTensor *t) {
    const Param *p = &g->params.v[param];
    FK_ASSERT(p->rank <= 8);
    t->type = p->type;
    t->rank = p->rank;
    int64_t n = 1;
    for (int d = p->rank - 1; d >= 0; d--) {
        if (!value(p->dims[d], sizes, &t->extent[d])) FK_BUG("sizes do not suit %s", p->name);
        t->stride[d] = n;
        n *= t->extent[d];
        if (d == p->rank - 1 && dtype_bits(p->type) == 4) n += n & 1;
    }
    return ((size_t)n * (size_t)dtype_bits(p->type) + 7) / 8;
}

/* ---- what an integer parameter is used for ---- */

typedef struct Use {
    int64_t lo, hi;
    bool found;
} Use;

static void add_use(Use *u, int64_t lo, int64_t hi) {
    if (!u->found || hi < u->hi) *u = (Use){lo, hi < lo ? lo : hi, true};
}

/* Is the gather x (an IX_VALUE) the bare parameter, perhaps cast? */
static bool reads_node(const Graph *g, int node, int param_node) {
    for (int hops = 0; hops < 8; hops++) {
        if (node == param_node) return true;
        const Node *n = g->nodes.v[node];
        if (n->kind != N_OP || (n->op != OP_copy && n->op != OP_cast)) return false;
        node = n->in[0].node;
    }
    return false;
}

static void uses_in_map(const Graph *g, const Ix *x, int node, const int64_t *sizes,
                        const Ix *extent, Use *u) {
    int64_t n;
    if (x->kind == IX_VALUE && reads_node(g, (int)x->num, node)) {
        if (value(extent, sizes, &n)) add_use(u, -1, n);
    }
    for (int i = 0; i < x->n && x->has_value; i++) {
        const Ix *inner = extent;
        if (x->kind == IX_VALUE) inner = g->nodes.v[x->num]->axes[i].extent;
        uses_in_map(g, x->arg[i], node, sizes, inner, u);
    }
}

static void uses_in_compare(const Graph *g, const Node *n, int node, const int64_t *sizes, Use *u) {
    if (n->kind != N_OP || n->op < OP_eq || n->op > OP_ge) return;
    for (int k = 0; k < 2; k++) {
        const Node *other = g->nodes.v[n->in[1 - k].node];
        int axis;
        int64_t extent;
        if (!reads_node(g, n->in[k].node, node) || other->kind != N_INDEX) continue;
        if (ix_is_axis(other->ix, &axis) && value(other->axes[axis].extent, sizes, &extent))
            add_use(u, 0, extent);
    }
}

static Use use_of(const Graph *g, int param, const int64_t *sizes) {
    Use u = {0};
    int node = g->params.v[param].node;
    for (int i = 0; i < g->nodes.n; i++) {
        const Node *n = g->nodes.v[i];
        for (int k = 0; k < n->nin; k++) {
            const Node *src = g->nodes.v[n->in[k].node];
            for (int d = 0; d < src->rank; d++)
                uses_in_map(g, n->in[k].map[d], node, sizes, src->axes[d].extent, &u);
        }
        uses_in_compare(g, n, node, sizes, &u);
    }
    if (u.found) return u;
    DType t = g->params.v[param].type;
    int64_t lo = dtype_lowest(t), hi = dtype_highest(t);
    bool nibble = dtype_bits(t) == 4;
    return (Use){nibble || lo > -8 ? lo : -8, nibble || hi < 8 ? hi : 8, true};
}

void sample_fill(const Graph *g, int param, const int64_t *sizes, uint64_t seed,
                 const EvalTensor *t) {
    uint64_t s = seed * 0x2545f4914f6cdd1du + (uint64_t)param;
    DClass cls = dtype_class(t->type);
    Use u = cls == DC_INT || cls == DC_UINT ? use_of(g, param, sizes) : (Use){0, 1, true};
    int64_t at[8] = {0}, count = 1;
    for (int d = 0; d < t->rank; d++) count *= t->extent[d];
    for (int64_t e = 0; e < count; e++) {
        int64_t offset = 0;
        for (int d = 0; d < t->rank; d++) offset += at[d] * t->stride[d];
        double unit = (double)(next(&s) >> 11) * 0x1p-53;
        double r = t->rank ? 2 * unit - 1 : 0.1 + 0.8 * unit;
        if (cls == DC_REAL)
            dtype_store(t->type, t->data, offset, r, 0);
        else
            dtype_store(t->type, t->data, offset, 0, dtype_clamp(t->type, between(&s, u.lo, u.hi)));
        for (int d = t->rank - 1; d >= 0 && ++at[d] == t->extent[d]; d--) at[d] = 0;
    }
}
