/* run_graph.c - what a graph says of how exact its outputs must be, and of its work. All of it is
 * read from the graph before any pass.
 */
#include "compiler/run_int.h"

#include <math.h>
#include <string.h>

static int64_t evaluate(const Ix *x, const int64_t *sizes) {
    IxEnv env = {.size = sizes};
    bool ok = true;
    int64_t v = ix_eval(x, &env, &ok);
    return ok ? v : 0;
}

/* ---- sums of products ---------------------------------------------------------------------------
 */

typedef struct Factors {
    int n;              /* that use a reduced index */
    int computed;       /* of these, f32 values that were computed */
    bool f16, bf16, b8; /* of these, tensors and rounded values of such a type */
    int fp8;            /* how many of e4m3 and e5m2 */
} Factors;

static bool uses_reduced(const Node *reduce, const Operand *o, int rank) {
    for (int d = 0; d < rank; d++)
        for (int a = reduce->rank; a < reduce->naxes; a++)
            if (ix_uses_axis(o->map[d], a)) return true;
    return false;
}

static bool is_product(const Node *n) {
    return n->kind == N_OP && (n->op == OP_mul || n->op == OP_within);
}

static void factor(Factors *f, const Node *leaf) {
    bool rounded = leaf->kind == N_INPUT || (leaf->kind == N_OP && leaf->op == OP_cast);
    f->n++;
    f->fp8 += rounded && (leaf->type == DT_e4m3 || leaf->type == DT_e5m2);
    if (!rounded || leaf->type == DT_f32)
        f->computed += leaf->kind != N_INPUT;
    else if (leaf->type == DT_f16)
        f->f16 = true;
    else if (leaf->type == DT_bf16)
        f->bf16 = true;
    else if (dtype_bits(leaf->type) <= 8)
        f->b8 = true;
}

/* The factors below a node that is an argument of a sum. Inside the product an index of the sum is
 * an axis of the product, so only the first level asks which factors use it. */
static void collect(const Graph *g, const Node *reduce, const Operand *o, Factors *f, int depth) {
    const Node *n = g->nodes.v[o->node];
    if (depth > 64 || (depth == 0 && n->kind != N_CONST && !uses_reduced(reduce, o, n->rank)))
        return;
    if (n->kind == N_CONST || dtype_class(n->type) != DC_REAL) {
        if (n->kind != N_CONST && n->type != DT_bool) factor(f, n);
        return;
    }
    if (!is_product(n)) {
        factor(f, n);
        return;
    }
    for (int i = 0; i < n->nin; i++) collect(g, reduce, &n->in[i], f, depth + 1);
}

static Factors factors_of(const Graph *g, const Node *n) {
    Factors f = {0};
    if (n->kind != N_REDUCE || (n->red != RED_sum && n->red != RED_contract)) return f;
    if (dtype_class(n->type) != DC_REAL) return f;
    for (int i = 0; i < n->nin - n->where; i++) collect(g, n, &n->in[i], &f, 0);
    return f;
}

double run_flops(const Graph *g, const int64_t *sizes) {
    double sum = 0;
    for (int i = 0; i < g->nodes.n; i++) {
        const Node *n = g->nodes.v[i];
        double points = 2;
        if (factors_of(g, n).n < 2) continue;
        for (int a = 0; a < n->naxes; a++) points *= (double)evaluate(n->axes[a].extent, sizes);
        sum += points;
    }
    return sum;
}

/* ---- tolerance ----------------------------------------------------------------------------------
 */

/* DESIGN.md, Accuracy: norm and element bound by the type of the output. */
static Tolerance by_type(DType t) {
    switch (t) {
    case DT_f16: return (Tolerance){4e-4, 0x1p-9, 0};
    case DT_bf16: return (Tolerance){3e-3, 0x1p-6, 0};
    case DT_e4m3: return (Tolerance){3.5e-2, 0x1p-3, 0};
    case DT_e5m2: return (Tolerance){7e-2, 0x1p-2, 0};
    default: return (Tolerance){1e-5, 0x1p-13, 0};
    }
}

static void at_least(Tolerance *t, Tolerance floor) {
    t->norm = fmax(t->norm, floor.norm);
    t->element = fmax(t->element, floor.element);
}

static void mark(const Graph *g, int id, bool *above) {
    if (above[id]) return;
    above[id] = true;
    for (int i = 0; i < g->nodes.v[id]->nin; i++) mark(g, g->nodes.v[id]->in[i].node, above);
}

static double points(const Node *reduce, const int64_t *sizes) {
    double n = 1;
    for (int a = reduce->rank; a < reduce->naxes; a++)
        n *= (double)evaluate(reduce->axes[a].extent, sizes);
    return n;
}

/* A tensor core adds fp8 products to the largest of them and the sum so far, cut to 13 bits behind
 * its first: seen as 2e-3 for normal values and K = 8192 when it keeps all of the sum, and from a
 * model of it 1.2e-4 to 3e-4 when it keeps 128 products. The element farthest off is about 8 times
 * as far. */
static void at_fp8(Tolerance *t, const Node *reduce, const int64_t *sizes) {
    at_least(t, (Tolerance){5e-4, 0x1p-9, 0});
    if (!sizes) return;
    double kept = 3e-7 * points(reduce, sizes);
    t->norm += kept;
    t->element += 8 * kept;
}

Tolerance run_tolerance(const Graph *g, int param, const int64_t *fast_accum) {
    Arena scratch = {0};
    const Node *out = g->nodes.v[g->params.v[param].node];
    Tolerance t = by_type(out->type);
    bool *above = ARENA_ARRAY(&scratch, bool, g->nodes.n);
    mark(g, out->id, above);
    for (int i = 0; i < g->nodes.n; i++) {
        Factors f = above[i] ? factors_of(g, g->nodes.v[i]) : (Factors){0};
        if (f.f16 || f.bf16 || f.b8) t.norm = fmax(t.norm, 2e-5);
        if (f.fp8 > 1) at_fp8(&t, g->nodes.v[i], fast_accum);
        if (!f.computed || f.n < 2) continue; /* the tensor-core rule may round what was computed */
        if (f.f16) at_least(&t, by_type(DT_f16));
        if (f.bf16 || f.b8) at_least(&t, by_type(DT_bf16));
    }
    /* An integer that was rounded from a real may fall on the other side. */
    if (out->kind == N_OP && out->op == OP_cast && dtype_is_int(out->type))
        t.integer = dtype_class(g->nodes.v[out->in[0].node]->type) == DC_REAL;
    arena_free(&scratch);
    return t;
}
