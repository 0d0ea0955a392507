/* flatten.c - two summed indices become one, where tensor cores can then make the product.
 *
 *     sum[h, e] a[t, h, e] * w[d, h, e]    ->    sum[k] a[t, k/128, k%128] * w[d, k/128, k%128]
 *
 * The tensor core sums over one index, in stages of 128 bytes of either factor. A stage lies within
 * one h where e is known to be a multiple of that, and both factors read h and e bare, each in one
 * dimension; e is the last dimension of a factor whose rows are not. Terms come in the same order
 * where h stands before e. Sums that share a loop stay as they are.
 */
#include "passes/contract_int.h"
#include "passes/rebuild_int.h"

enum { STAGE = 128 }; /* bytes of k */

/* The dimension in which o reads axis a; -1: it does not do so bare and once. */
static int bare_dim(const Graph *g, const Operand *o, int a) {
    int found = -1;
    for (int d = 0; d < g->nodes.v[o->node]->rank; d++) {
        int axis;
        if (!ix_uses_axis(o->map[d], a)) continue;
        if (found >= 0 || !ix_is_axis(o->map[d], &axis)) return -1;
        found = d;
    }
    return found;
}

static bool goes(const Graph *g, const Operand *o, int outer, int inner) {
    int last = g->nodes.v[o->node]->rank - 1;
    int a = bare_dim(g, o, outer), b = bare_dim(g, o, inner);
    return a >= 0 && b >= 0 && a != last && !o->checked;
}

/* Bytes of an element of either factor; 0: tensor cores do not multiply such. */
static int factor_bytes(const Graph *g, const Node *n) {
    DType a = g->nodes.v[n->in[0].node]->type, b = g->nodes.v[n->in[1].node]->type;
    if (a == b && (a == DT_bf16 || a == DT_f16)) return 2;
    bool fp8 = dtype_class(a) == DC_REAL && dtype_class(b) == DC_REAL;
    return fp8 && dtype_bits(a) == 8 && dtype_bits(b) == 8 ? 1 : 0;
}

static bool find_pair(const Graph *g, const Node *n, int *outer, int *inner) {
    int bytes = factor_bytes(g, n);
    for (int i = n->naxes - 1; i >= n->rank && bytes; i--) {
        int64_t extent;
        if (!ix_is_const(n->axes[i].extent, &extent) || extent < 1 || extent * bytes % STAGE)
            continue;
        for (int o = n->rank; o < n->naxes; o++) {
            if (o == i || !goes(g, &n->in[0], o, i) || !goes(g, &n->in[1], o, i)) continue;
            *outer = o, *inner = i;
            return true;
        }
    }
    return false;
}

static const char *joint_name(Graph *g, const Axis *a, const Axis *b) {
    return a->name && b->name ? arena_printf(g->arena, "%s%s", a->name, b->name) : NULL;
}

/* Per old axis, where it is over the new ones; the new one takes the place of the outer. */
static const Ix **move_axes(Graph *g, Node *n, int outer, int inner) {
    IxPool *p = g->ix;
    const Ix *size = n->axes[inner].extent;
    const Ix **to = ARENA_ARRAY(g->arena, const Ix *, n->naxes);
    Axis *axes = ARENA_ARRAY(g->arena, Axis, n->naxes);
    int at = 0, joint = outer - (inner < outer);
    for (int a = 0; a < n->naxes; a++) {
        if (a == inner) continue;
        to[a] = ix_axis(p, at);
        axes[at] = n->axes[a];
        n->roles[at++] = n->roles[a];
    }
    axes[joint].name = joint_name(g, &n->axes[outer], &n->axes[inner]);
    axes[joint].extent = ix_mul(p, n->axes[outer].extent, size);
    to[outer] = ix_div(p, ix_axis(p, joint), size);
    to[inner] = ix_mod(p, ix_axis(p, joint), size);
    n->roles[at] = 0;
    n->axes = axes;
    n->naxes--;
    return to;
}

/* Does its loop have other sums in it? */
static bool shares_loop(const Graph *g, const Node *n) {
    for (int i = 0; i < g->nodes.n && n->loop >= 0; i++)
        if (g->nodes.v[i] != n && g->nodes.v[i]->loop == n->loop) return true;
    return false;
}

static bool visit(Rebuild *r, Node *n, void *ctx) {
    (void)ctx;
    Graph *g = r->g;
    int outer, inner;
    if (n->kind != N_REDUCE || n->red != RED_contract || n->where || n->nin != 2) return false;
    if (n->naxes < n->rank + 2 || shares_loop(g, n) || !find_pair(g, n, &outer, &inner))
        return false;
    int old = n->naxes;
    const Ix **to = move_axes(g, n, outer, inner);
    for (int k = 0; k < n->nin; k++) {
        Operand *o = &n->in[k];
        int rank = g->nodes.v[o->node]->rank;
        const Ix **map = ARENA_ARRAY(g->arena, const Ix *, rank);
        for (int d = 0; d < rank; d++) map[d] = ix_at(g->ix, o->map[d], to, old);
        o->map = map;
    }
    return true;
}

bool pass_flatten(PassCtx *cx, Graph *g) {
    return rebuild(cx, g, visit, NULL);
}
