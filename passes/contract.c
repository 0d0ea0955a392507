/* contract.c - a sum of products becomes a contraction: the factors as operands, read directly, and
 * a role for every axis.
 *
 *     sum[k] (x[m, k] * s[m]) * w[n, k]     ->    contract x[m, k], w[n, k], s[m]    roles mnk
 *
 *   1. The product is taken apart where mul computes in the sum's own type; casts (roundings),
 *      quotients and all other nodes are factors as they are. Copies are read through.
 *   2. At least two factors use a reduced index, else it stays a sum. `where` stays.
 *   3. The two largest tensors (by what is stored, then by axes used, then by place) come first,
 *      in the order of the text; the rest are scales. Roles follow from these two:
 *          k reduced   b used by both, or by neither   m by the left one only   n by the right only
 *   4. Strict: only the outermost product is taken apart and nothing is moved, so that the
 *      products are rounded in the order of the text.
 * Only products are computed twice when others read them too.
 */
#include "passes/contract_int.h"
#include "passes/cost_int.h"
#include "passes/rebuild_int.h"

enum { FACTORS = 8 };

typedef struct Factors {
    Operand v[FACTORS];
    int n;
} Factors;

/* ---- taking the product apart ---- */

/* False when there are too many factors. */
static bool take_apart(Graph *g, const Operand *o, DType type, bool deep, Factors *f) {
    Operand a, b;
    if (rb_is_op(g, o, OP_copy) && rb_through(g, o, 0, &a)) return take_apart(g, &a, type, deep, f);
    bool product = rb_is_op(g, o, OP_mul) && g->nodes.v[o->node]->type == type && !o->checked;
    if (product && (deep || !f->n) && rb_through(g, o, 0, &a) && rb_through(g, o, 1, &b)) {
        if (deep) return take_apart(g, &a, type, deep, f) && take_apart(g, &b, type, deep, f);
        f->v[f->n++] = a;
        f->v[f->n++] = b;
        return true;
    }
    if (f->n == FACTORS) return false;
    f->v[f->n++] = *o;
    return true;
}

/* ---- order and roles ---- */

static bool uses_reduced(const Graph *g, const Node *n, const Operand *o) {
    for (int d = n->rank; d < n->naxes; d++)
        if (rb_uses(g, o, d)) return true;
    return false;
}

static int axes_used(const Graph *g, const Node *n, const Operand *o) {
    int count = 0;
    for (int d = 0; d < n->naxes; d++) count += rb_uses(g, o, d);
    return count;
}

static bool larger(const PassCtx *cx, const Graph *g, const Node *n, const Operand *a,
                   const Operand *b) {
    double ca = cost_count(cx, g, g->nodes.v[a->node]), cb = cost_count(cx, g, g->nodes.v[b->node]);
    return ca != cb ? ca > cb : axes_used(g, n, a) > axes_used(g, n, b);
}

/* The largest factor that uses a reduced axis, but for `but`; -1. */
static int largest(const PassCtx *cx, const Graph *g, const Node *n, int factors, int but) {
    int best = -1;
    for (int i = 0; i < factors; i++) {
        if (i == but || !uses_reduced(g, n, &n->in[i])) continue;
        if (best < 0 || larger(cx, g, n, &n->in[i], &n->in[best])) best = i;
    }
    return best;
}

static void move_to(Node *n, int from, int to) {
    Operand o = n->in[from];
    for (int i = from; i > to; i--) n->in[i] = n->in[i - 1];
    n->in[to] = o;
}

static void set_roles(const Graph *g, Node *n) {
    for (int d = 0; d < n->naxes; d++) {
        bool left = rb_uses(g, &n->in[0], d), right = rb_uses(g, &n->in[1], d);
        n->roles[d] = d >= n->rank ? 'k' : left == right ? 'b' : left ? 'm' : 'n';
    }
    n->roles[n->naxes] = 0;
}

bool contract_arrange(const PassCtx *cx, Graph *g, Node *n) {
    int factors = n->nin - n->where;
    int a = largest(cx, g, n, factors, -1), b = largest(cx, g, n, factors, a);
    if (a < 0 || b < 0 || n->naxes >= (int)sizeof n->roles) return false;
    if (!cx->strict) {
        move_to(n, a < b ? a : b, 0);
        move_to(n, a < b ? b : a, 1);
    }
    set_roles(g, n);
    return true;
}

/* ---- the pass ---- */

static bool visit(Rebuild *r, Node *n, void *ctx) {
    (void)ctx;
    if (n->kind != N_REDUCE || n->red != RED_sum) return false;
    Factors f = {.n = 0};
    if (!take_apart(r->g, &n->in[0], n->type, !r->cx->strict, &f)) {
        f.n = 0; /* too many: the outermost product only */
        take_apart(r->g, &n->in[0], n->type, false, &f);
    }
    Node as = *n;
    as.red = RED_contract;
    as.nin = f.n + n->where;
    as.in = ARENA_ARRAY(r->g->arena, Operand, as.nin);
    for (int i = 0; i < f.n; i++) as.in[i] = f.v[i];
    if (n->where) as.in[f.n] = n->in[1];
    if (!contract_arrange(r->cx, r->g, &as)) return false;
    *n = as;
    return true;
}

bool pass_contract(PassCtx *cx, Graph *g) {
    return rebuild(cx, g, visit, NULL);
}
