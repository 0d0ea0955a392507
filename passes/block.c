/* block.c - a reduction of a contraction's result is cut into blocks of it that one tile holds.
 *
 *     s[m] = sum[n] f(z[m, n])             z[m, n] = contract ...
 * becomes
 *     s_part[nb, m] = sum[ni in 128 where 128*nb + ni < N] f(z[m, 128*nb + ni])
 *     s[m]          = sum[nb] s_part[nb, m]
 *
 * so that the first of the two can be made where z is (group decides), and z need not be read, nor
 * stored. The order is fixed: blocks hold the same elements at any size, and are joined by their
 * number.
 *
 *   1. The argument reaches z through pointwise work alone, at all axes of the reduction, each bare
 *      and once; nothing else in it has been reduced from z (an online reduction, or a row that is
 *      read again). A condition on the reduced axes stays with the loop that it masks: no block.
 *   2. z has roles m and n: two matrices. The last m and the last n axis are those a tile spans,
 *      the earlier of the two its rows. What is reduced of them is cut, by 64 or 128, unless it has
 *      fewer elements for certain; a row tile may hold 64, a column tile 256 without a cut.
 *   Reductions that share a loop and a moving frame (online.c) are cut together (block_online.c).
 *   3. Other reduced axes stay whole in the parts: sum[b, t] of z[b, t, n] leaves s_part[b, tb, n].
 *      The axes of the parts come first, so that neighbours in the value are neighbours in memory.
 */
#include "passes/block_int.h"
#include "passes/rebuild_int.h"

#include <string.h>

enum { ROWS = 64, COLS = 128, COLS_WHOLE = 256, NODES_MAX = 2000 };

/* ---- which reductions ---- */

bool block_is_product(const Node *n) {
    return n->kind == N_REDUCE && n->red == RED_contract && strchr(n->roles, 'm') &&
           strchr(n->roles, 'n');
}

/* Is z read at every axis of p, each bare and once? */
bool block_covers(const Node *p, const Node *z, const Operand *o) {
    uint64_t seen = 0;
    if (z->rank != p->naxes || p->naxes > 60) return false;
    for (int d = 0; d < z->rank; d++) {
        int axis;
        if (!ix_is_axis(o->map[d], &axis) || seen >> axis & 1) return false;
        if (z->axes[d].extent != p->axes[axis].extent) return false;
        seen |= (uint64_t)1 << axis;
    }
    return true;
}

typedef struct Find {
    Graph *g;
    const Node *p;
    char *seen;
    int visited; /* an argument of more than NODES_MAX nodes is no epilogue */
    Operand at;  /* of the product */
} Find;

static bool find_product(Find *f, const Operand *o) {
    const Node *n = f->g->nodes.v[o->node];
    if (o->checked || f->seen[n->id] || f->visited++ > NODES_MAX) return false;
    f->seen[n->id] = 1;
    if (block_is_product(n) && block_covers(f->p, n, o)) {
        f->at = *o;
        return true;
    }
    for (int k = 0; k < n->nin && n->kind == N_OP; k++) {
        Operand in;
        if (rb_compose(f->g, o, &n->in[k], &in) && find_product(f, &in)) return true;
    }
    return false;
}

enum { APART, POINTWISE, REDUCED }; /* how a value depends on z */

static char of_ix(const Ix *x, const char *how) {
    if (!x || !x->has_value) return APART;
    if (x->kind == IX_VALUE && how[x->num]) return REDUCED;
    for (int i = 0; i < x->n; i++)
        if (of_ix(x->arg[i], how)) return REDUCED;
    return APART;
}

static char of_operands(const Graph *g, const Node *n, const char *how) {
    char worst = of_ix(n->ix, how);
    for (int k = 0; k < n->nin; k++) {
        const Operand *o = &n->in[k];
        if (how[o->node] > worst) worst = how[o->node];
        for (int d = 0; d < g->nodes.v[o->node]->rank; d++)
            if (of_ix(o->map[d], how)) worst = REDUCED;
    }
    return worst;
}

/* Does the argument of p hold what was reduced from z? */
static bool reduced_before(const Graph *g, int z, const Node *p) {
    Arena a = {0};
    char *how = ARENA_ARRAY(&a, char, p->id + 1);
    how[z] = POINTWISE;
    for (int i = z + 1; i < p->id; i++) {
        const Node *n = g->nodes.v[i];
        how[i] = of_operands(g, n, how);
        if (how[i] && n->kind == N_REDUCE) how[i] = REDUCED;
    }
    bool is = of_operands(g, p, how) == REDUCED;
    arena_free(&a);
    return is;
}

/* ---- which products the wgmma tier makes (ir/mma.h) ----
 *
 * For another, what reads its result is better left alone: then at least the product is fast. */

static bool in_memory(const Graph *g, const Node *n) {
    for (int i = 0; i < g->params.n; i++)
        if (g->params.v[i].out && g->params.v[i].node == n->id) return true;
    return n->kind == N_INPUT;
}

/* k, or k%c of a sum that was over two indices (flatten.c). */
static bool reads_depth(const Node *z, const Ix *x) {
    int axis;
    if (x->kind == IX_MOD) x = x->arg[0];
    return ix_is_axis(x, &axis) && axis == z->rank;
}

static bool is_fast_factor(const Graph *g, const Node *z, const Operand *o, const bool *stored) {
    const Node *n = g->nodes.v[o->node];
    int bits = dtype_bits(n->type), last, deep = 0;
    bool there = in_memory(g, n) || (stored && stored[o->node]);
    if (!there || o->checked || n->rank < 2 || (bits != 16 && bits != 8)) return false;
    for (int d = 0; d < n->rank; d++) deep += reads_depth(z, o->map[d]);
    bool k_last = reads_depth(z, o->map[n->rank - 1]);
    return deep == 1 &&
           (k_last || (ix_is_axis(o->map[n->rank - 1], &last) && last != z->rank && bits == 16));
}

bool block_is_fast(const Graph *g, const Node *z, const bool *stored) {
    if (z->nin != 2 || z->naxes != z->rank + 1) return false;
    DType a = g->nodes.v[z->in[0].node]->type, b = g->nodes.v[z->in[1].node]->type;
    bool same = dtype_bits(a) == 16 ? a == b : dtype_class(b) == DC_REAL && dtype_bits(b) == 8;
    if (dtype_class(a) != DC_REAL || !same) return false;
    return is_fast_factor(g, z, &z->in[0], stored) && is_fast_factor(g, z, &z->in[1], stored);
}

/* ---- where it is cut ---- */

int block_last_role(const Node *z, char role) {
    int last = -1;
    for (int d = 0; d < z->rank; d++)
        if (z->roles[d] == role) last = d;
    return last;
}

/* False when no axis is cut. */
static bool cut_axes(const Node *p, const Node *z, const Operand *at, BlockCut *cut) {
    int m = block_last_role(z, 'm'), n = block_last_role(z, 'n'), pieces = 0, spans = 0, axis;
    for (int d = 0; d < z->rank; d++) {
        int64_t extent;
        ix_is_axis(at->map[d], &axis);
        if (axis < p->rank) {
            cut[axis].kind = CUT_value;
            continue;
        }
        bool tile = d == m || d == n, rows = d == (m < n ? m : n);
        bool known = ix_is_const(p->axes[axis].extent, &extent);
        cut[axis].kind = !tile ? CUT_part : CUT_blocks;
        cut[axis].block = rows ? ROWS : COLS;
        if (tile && known && extent <= (rows ? ROWS : COLS_WHOLE)) cut[axis].kind = CUT_whole;
        spans += tile;
        pieces += cut[axis].kind != CUT_whole;
    }
    return spans && pieces;
}

/* Axes of the parts: pieces, the value's, then those that are still reduced. */
void block_place_axes(const Node *p, BlockCut *cut, int *rank, int *naxes) {
    int at = 0;
    for (int a = p->rank; a < p->naxes; a++)
        if (cut[a].kind == CUT_blocks || cut[a].kind == CUT_part) cut[a].at = at++;
    for (int a = 0; a < p->rank; a++) cut[a].at = at++;
    *rank = at;
    for (int a = p->rank; a < p->naxes; a++) {
        if (cut[a].kind == CUT_blocks) cut[a].inner_at = at++;
        if (cut[a].kind == CUT_whole) cut[a].at = at++;
    }
    *naxes = at;
}

/* ---- the two reductions ---- */

static const char *named(Graph *g, const char *name, const char *what) {
    return name ? arena_printf(g->arena, "%s%s", name, what) : NULL;
}

static const Ix *blocks_of(IxPool *p, const Ix *extent, int block) {
    return ix_div(p, ix_add(p, extent, ix_const(p, block - 1)), ix_const(p, block));
}

static const Ix *element(IxPool *p, int outer, int inner, int block) {
    return ix_add(p, ix_mul(p, ix_axis(p, outer), ix_const(p, block)), ix_axis(p, inner));
}

static Operand index_of(Graph *g, const Ix *x, const Axis *axes, int rank) {
    Node *n = graph_node(g, N_INDEX, DT_i64, rank, rank, 0);
    for (int i = 0; i < rank; i++) n->axes[i] = axes[i];
    n->ix = x;
    return rb_read(g, n);
}

/* block*outer + inner < extent, over (outer, inner), as read by the parts. */
static Operand inside(Graph *g, const Node *part, const BlockCut *c, const Ix *extent) {
    Axis axes[2] = {part->axes[c->at], part->axes[c->inner_at]};
    Node *lt = graph_node(g, N_OP, DT_bool, 2, 2, 2);
    lt->op = OP_lt;
    lt->span = part->span;
    memcpy(lt->axes, axes, sizeof axes);
    lt->in[0] = index_of(g, element(g->ix, 0, 1, c->block), axes, 2);
    lt->in[1] = index_of(g, extent, axes, 0);
    Operand o = rb_read(g, lt);
    o.map[0] = ix_axis(g->ix, c->at);
    o.map[1] = ix_axis(g->ix, c->inner_at);
    return o;
}

static Operand both(Graph *g, const Node *part, const Operand *a, const Operand *b) {
    Node *and = rb_op(g, OP_and, DT_bool, part, part->naxes);
    and->in[0] = *a;
    and->in[1] = *b;
    return rb_read(g, and);
}

/* The last operand of the parts: which elements of a block there are. */
static void add_condition(Graph *g, const Node *p, const BlockCut *cut, Node *part) {
    for (int a = p->rank; a < p->naxes; a++) {
        int64_t extent;
        if (cut[a].kind != CUT_blocks) continue;
        if (ix_is_const(p->axes[a].extent, &extent) && extent % cut[a].block == 0) continue;
        Operand o = inside(g, part, &cut[a], p->axes[a].extent), *last = &part->in[p->nin];
        *last = part->where ? both(g, part, last, &o) : o;
        part->where = true;
        part->nin = p->nin + 1;
    }
}

static void set_axes(Graph *g, const Node *p, const BlockCut *cut, Node *part) {
    for (int a = 0; a < p->naxes; a++) {
        const Axis *x = &p->axes[a];
        part->axes[cut[a].at] = *x;
        if (cut[a].kind != CUT_blocks) continue;
        part->axes[cut[a].at] =
            (Axis){named(g, x->name, "b"), blocks_of(g->ix, x->extent, cut[a].block)};
        part->axes[cut[a].inner_at] = (Axis){named(g, x->name, "i"), ix_const(g->ix, cut[a].block)};
    }
}

Node *block_parts(Graph *g, const Node *p, const BlockCut *cut, int rank, int naxes) {
    Node *part = graph_node(g, N_REDUCE, p->type, rank, naxes, p->nin + 1);
    part->nin = p->nin;
    part->red = p->red;
    part->span = p->span;
    part->part = true;
    part->name = named(g, p->name, "_part");
    set_axes(g, p, cut, part);
    const Ix **axes = ARENA_ARRAY(g->arena, const Ix *, p->naxes);
    for (int a = 0; a < p->naxes; a++)
        axes[a] = cut[a].kind == CUT_blocks
                      ? element(g->ix, cut[a].at, cut[a].inner_at, cut[a].block)
                      : ix_axis(g->ix, cut[a].at);
    for (int k = 0; k < p->nin; k++) {
        const Operand *o = &p->in[k];
        graph_map(g, &part->in[k], o->node);
        part->in[k].checked = o->checked;
        for (int d = 0; d < g->nodes.v[o->node]->rank; d++)
            part->in[k].map[d] = ix_at(g->ix, o->map[d], axes, p->naxes);
    }
    add_condition(g, p, cut, part);
    return part;
}

/* p itself goes on as what joins the parts, in the order of their numbers. */
void block_join(Graph *g, Node *p, const Node *part) {
    int pieces = part->rank - p->rank;
    Axis *axes = ARENA_ARRAY(g->arena, Axis, p->rank + pieces);
    for (int a = 0; a < p->rank; a++) axes[a] = p->axes[a];
    for (int a = 0; a < pieces; a++) axes[p->rank + a] = part->axes[a];
    p->axes = axes;
    p->naxes = p->rank + pieces;
    p->nin = 1;
    if (p->red == RED_contract) p->red = RED_sum;
    memset(p->roles, 0, sizeof p->roles);
    graph_map(g, &p->in[0], part->id);
    for (int a = 0; a < part->rank; a++)
        p->in[0].map[a] = ix_axis(g->ix, a < pieces ? p->rank + a : a - pieces);
}

/* ---- the pass ---- */

static bool find(Graph *g, const Node *p, Operand *at) {
    if (p->kind != N_REDUCE || p->where || p->loop >= 0) return false;
    Arena a = {0};
    Find f = {.g = g, .p = p, .seen = arena_alloc(&a, (size_t)g->nodes.n)};
    bool found = false;
    memset(f.seen, 0, (size_t)g->nodes.n);
    for (int k = 0; k < p->nin && !found; k++) found = find_product(&f, &p->in[k]);
    arena_free(&a);
    *at = f.at;
    return found && !reduced_before(g, at->node, p);
}

bool pass_block(PassCtx *cx, Graph *g) {
    bool wgmma = cx->target->has & TGT_W;
    bool changed = wgmma && block_online(g, cx->target->sms);
    int old = g->nodes.n;
    Operand *at = ARENA_ARRAY(g->arena, Operand, old);
    char *found = ARENA_ARRAY(g->arena, char, old);
    for (int i = 0; i < old; i++) found[i] = find(g, g->nodes.v[i], &at[i]);
    for (int i = 0; i < old; i++) {
        Node *p = g->nodes.v[i];
        BlockCut *cut = ARENA_ARRAY(g->arena, BlockCut, p->naxes);
        int rank, naxes;
        const Node *z = g->nodes.v[at[i].node];
        if (!found[i] || !cut_axes(p, z, &at[i], cut)) continue;
        if (wgmma && !block_is_fast(g, z, NULL)) continue;
        block_place_axes(p, cut, &rank, &naxes);
        block_join(g, p, block_parts(g, p, cut, rank, naxes));
        changed = true;
    }
    if (changed) graph_sweep(g);
    return changed;
}
