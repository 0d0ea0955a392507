/* strip.c - factors of a sum of products that are the same for a whole block of the summed index
 * leave the sum over the block.
 *
 *     sum[k] (a[m, k] * s[m, k/128]) * (b[n, k] * t[n/128, k/128])
 * becomes
 *     p[m, n, kb] = sum[ki in 128 where 128*kb + ki < K] a[m, 128*kb + ki] * b[n, 128*kb + ki]
 *     sum[kb] p[m, n, kb] * (s[m, kb] * t[n/128, kb])
 *
 * so that tensor cores can make p, a stage or more at a time, and what they have made is scaled
 * when it is added up (backend/nvptx/wgmma_promote.c). Only for factors of fp8, whose sums leave
 * the tensor core every 128 anyway, and on targets with wgmma; of 16 bits a factor is scaled before
 * it is multiplied (ir/mma_made.c).
 *
 *   1. Two factors use an index i otherwise than divided by constants, all others only by those
 *      (then it is cut by what divides all constants) or not at all (then they use one other
 *      summed index, and i is the inner one as it is). A block is whole stages of k.
 *   2. A sum over blocks of a sum over one, as the text may have it, with several factors outside:
 *      these are multiplied with one another first.
 *   3. What rule 5 promises: a block always has an element, so no guard is needed for factors that
 *      are not finite; those that may be "0 outside their domain" skip terms, and stay.
 */
#include "passes/contract_int.h"
#include "passes/rebuild_int.h"

#include <string.h>

enum { STAGE = 128, FACTORS = 8 }; /* bytes of k; factors */

typedef struct Strip {
    int matrix[2]; /* factors that stay together */
    int inner;     /* axis that they are summed over first */
    int outer;     /* the other one; -1: inner is cut.. */
    int64_t block; /* ..into blocks of so many */
} Strip;

/* c: what divides all constants, 0: none yet; -1: not constants. */
static void note(void *ctx, const Ix *divisor) {
    int64_t *c = ctx, d;
    *c = *c >= 0 && ix_is_const(divisor, &d) ? ix_gcd(*c, d) : -1;
}

/* Does o move with axis a only by blocks? */
static bool by_blocks(const Graph *g, const Operand *o, int a, int64_t *c) {
    for (int d = 0; d < g->nodes.v[o->node]->rank; d++)
        if (!tile_by_blocks(o->map[d], a, note, c)) return false;
    return *c >= 0;
}

static bool is_fp8(const Graph *g, const Operand *o) {
    DType t = g->nodes.v[o->node]->type;
    return dtype_class(t) == DC_REAL && dtype_bits(t) == 8;
}

static bool whole_stages(int64_t n) {
    return n >= STAGE && n % STAGE == 0;
}

/* Is axis i, of n's reduced ones, that of a block? */
static bool find_at(const Graph *g, const Node *n, int i, Strip *s) {
    int count = 0, reduced = n->naxes - n->rank;
    *s = (Strip){.inner = i, .outer = -1};
    for (int k = 0; k < n->nin; k++) {
        const Operand *o = &n->in[k];
        int64_t c = s->block;
        if (by_blocks(g, o, i, &c)) {
            s->block = c;
        } else {
            if (count == 2 || !is_fp8(g, o)) return false;
            s->matrix[count++] = k;
        }
    }
    if (count != 2) return false;
    if (s->block) return reduced == 1 && whole_stages(s->block);
    if (reduced != 2 || !ix_is_const(n->axes[i].extent, &s->block)) return false;
    s->outer = i == n->rank ? n->rank + 1 : n->rank;
    return whole_stages(s->block) && rb_uses(g, &n->in[s->matrix[0]], s->outer) &&
           rb_uses(g, &n->in[s->matrix[1]], s->outer);
}

static bool find(Rebuild *r, const Node *n, Strip *s) {
    if (n->nin < 3 || n->nin > FACTORS || n->where || n->loop >= 0 || n->type != DT_f32)
        return false;
    for (int k = 0; k < n->nin; k++)
        if (rb_outside(r, n->in[k].node)) return false;
    for (int i = n->rank; i < n->naxes; i++)
        if (find_at(r->g, n, i, s)) return true;
    return false;
}

/* ---- the sum over a block ---- */

static const char *named(Graph *g, const char *name, const char *what) {
    return name ? arena_printf(g->arena, "%s%s", name, what) : NULL;
}

static Operand index_of(Graph *g, const Ix *x, const Axis *axes, int rank) {
    Node *n = graph_node(g, N_INDEX, DT_i64, rank, rank, 0);
    for (int i = 0; i < rank; i++) n->axes[i] = axes[i];
    n->ix = x;
    return rb_read(g, n);
}

/* size * number + element < extent, over p's last two axes. */
static Operand below(Graph *g, const Node *p, const Ix *size, const Ix *extent) {
    const Axis *axes = p->axes + p->rank - 1;
    const Ix *element = ix_add(g->ix, ix_mul(g->ix, ix_axis(g->ix, 0), size), ix_axis(g->ix, 1));
    Node *lt = graph_node(g, N_OP, DT_bool, 2, 2, 2);
    lt->op = OP_lt;
    lt->span = p->span;
    for (int i = 0; i < 2; i++) lt->axes[i] = axes[i];
    lt->in[0] = index_of(g, element, axes, 2);
    lt->in[1] = index_of(g, extent, axes, 0);
    Operand o = rb_read(g, lt);
    for (int i = 0; i < 2; i++) o.map[i] = ix_axis(g->ix, p->rank - 1 + i);
    return o;
}

static Operand moved(Graph *g, const Operand *from, const Ix *const *to, int axes) {
    Operand o;
    int rank = g->nodes.v[from->node]->rank;
    graph_map(g, &o, from->node);
    o.checked = from->checked;
    for (int d = 0; d < rank; d++) o.map[d] = ix_at(g->ix, from->map[d], to, axes);
    return o;
}

/* p, over n's value axes, the number of the block, and the elements of one. */
static Node *block_sum(const PassCtx *cx, Graph *g, const Node *n, const Strip *s, const Ix **to) {
    IxPool *x = g->ix;
    const Axis *inner = &n->axes[s->inner];
    const Ix *size = ix_const(x, s->block), *number = ix_axis(x, n->rank);
    const Ix *element = ix_axis(x, n->rank + 1);
    Node *p = graph_node(g, N_REDUCE, DT_f32, n->rank + 1, n->rank + 2, 3);
    for (int d = 0; d < n->rank; d++) p->axes[d] = n->axes[d], to[d] = ix_axis(x, d);
    p->red = RED_contract;
    p->span = n->span;
    p->nin = 2;
    p->axes[n->rank + 1] = *inner;
    if (s->outer >= 0) {
        p->axes[n->rank] = n->axes[s->outer];
        to[s->outer] = number;
        to[s->inner] = element;
    } else {
        const Ix *up = ix_add(x, inner->extent, ix_const(x, s->block - 1));
        p->axes[n->rank] = (Axis){named(g, inner->name, "b"), ix_div(x, up, size)};
        p->axes[n->rank + 1] = (Axis){named(g, inner->name, "i"), size};
        to[s->inner] = ix_add(x, ix_mul(x, number, size), element);
    }
    for (int k = 0; k < 2; k++) p->in[k] = moved(g, &n->in[s->matrix[k]], to, n->naxes);
    if (s->outer < 0 && ix_mod(x, inner->extent, size) != ix_const(x, 0)) {
        p->in[2] = below(g, p, size, inner->extent);
        p->nin = 3;
        p->where = true;
    }
    contract_arrange(cx, g, p);
    return p;
}

/* ---- the sum over blocks ---- */

static Operand times(Graph *g, const Node *like, int rank, Operand a, Operand b) {
    Node *m = rb_op(g, OP_mul, DT_f32, like, rank);
    m->in[0] = a;
    m->in[1] = b;
    return rb_read(g, m);
}

/* n becomes the sum of p times the product of `scale`, over p's value axes. */
static void sum_blocks(Graph *g, Node *n, const Node *p, Operand at, const Operand *scale,
                       int count) {
    Operand all = scale[0];
    for (int k = 1; k < count; k++) all = times(g, p, p->rank, all, scale[k]);
    n->in = ARENA_ARRAY(g->arena, Operand, 1);
    n->in[0] = times(g, p, p->rank, at, all);
    n->nin = 1;
    n->red = RED_sum;
    memset(n->roles, 0, sizeof n->roles);
}

static void cut(const PassCtx *cx, Graph *g, Node *n, const Strip *s) {
    const Ix **to = ARENA_ARRAY(g->arena, const Ix *, n->naxes);
    Node *p = block_sum(cx, g, n, s, to);
    Operand scale[FACTORS];
    int count = 0;
    if (s->outer < 0)
        to[s->inner] = ix_mul(g->ix, ix_axis(g->ix, n->rank), ix_const(g->ix, s->block));
    for (int k = 0; k < n->nin; k++)
        if (k != s->matrix[0] && k != s->matrix[1])
            scale[count++] = moved(g, &n->in[k], to, n->naxes);
    Axis *axes = ARENA_ARRAY(g->arena, Axis, p->rank);
    for (int d = 0; d < p->rank; d++) axes[d] = p->axes[d];
    n->axes = axes;
    n->naxes = p->rank;
    sum_blocks(g, n, p, rb_read(g, p), scale, count);
}

/* A sum over blocks as the text has it: the factor that is the sum over one; -1. */
static int written(const Graph *g, const Node *n) {
    int found = -1;
    if (n->nin < 3 || n->nin > FACTORS || n->where || n->loop >= 0 || n->naxes != n->rank + 1)
        return -1;
    for (int k = 0; k < n->nin; k++) {
        const Node *p = g->nodes.v[n->in[k].node];
        if (p->kind != N_REDUCE || p->red != RED_contract) continue;
        bool fp8 = p->nin - p->where == 2 && is_fp8(g, &p->in[0]) && is_fp8(g, &p->in[1]);
        if (!fp8 || found >= 0 || p->rank != n->naxes || n->in[k].checked) return -1;
        if (!rb_uses(g, &p->in[0], n->rank) || !rb_uses(g, &p->in[1], n->rank)) return -1;
        for (int d = 0; d < p->rank; d++)
            if (n->in[k].map[d] != ix_axis(g->ix, d)) return -1;
        found = k;
    }
    return found;
}

static bool visit(Rebuild *r, Node *n, void *ctx) {
    (void)ctx;
    Graph *g = r->g;
    Strip s;
    if (n->kind != N_REDUCE || n->red != RED_contract) return false;
    if (find(r, n, &s)) {
        cut(r->cx, g, n, &s);
        return true;
    }
    int at = written(g, n), count = 0;
    if (at < 0) return false;
    Operand scale[FACTORS];
    for (int k = 0; k < n->nin; k++)
        if (k != at) scale[count++] = n->in[k];
    sum_blocks(g, n, g->nodes.v[n->in[at].node], n->in[at], scale, count);
    return true;
}

bool pass_strip(PassCtx *cx, Graph *g) {
    return cx->target->has & TGT_W && rebuild(cx, g, visit, NULL);
}
