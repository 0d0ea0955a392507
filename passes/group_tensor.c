/* group_tensor.c - which products of a step tensor cores make, as the walk of a step meets them
 * (group_walk.c), and what threads make of their factors.
 */
#include "passes/group_walk_int.h"

#include <math.h>

enum { STAGE = 128 }; /* bytes of k */

static bool half(DType t) {
    return t == DT_bf16 || t == DT_f16;
}

/* Can threads make it in the loop of a product (ir/mma_made.c): pointwise, of what is in memory?
 * Not of statistics of its rows: rows.c makes these and it in one kernel. */
static bool is_pointwise(const Walk *w, const Node *n, int rank, int *budget) {
    if (n->kind == N_INPUT || n->kind == N_CONST || n->kind == N_INDEX) return true;
    if (w->gr->store[n->id]) return n->rank >= rank || !w->gr->reduced[n->id];
    if (n->kind != N_OP || --*budget < 0) return false;
    for (int k = 0; k < n->nin; k++)
        if (n->in[k].checked || !is_pointwise(w, w->gr->g->nodes.v[n->in[k].node], rank, budget))
            return false;
    return true;
}

/* Factors of a product of a 16-bit type, as bits those that threads make; false: they cannot. */
static bool find_made(const Walk *w, const Point *p, int *made) {
    enum { NODES = 64 };
    DType type = DT_none;
    *made = 0;
    for (int k = 0; k < 2; k++) {
        const Node *n = p->in[k]->node;
        bool is = group_walk_loaded(w, p->in[k]) || (n->kind == N_OP && n->op == OP_cast);
        if (is && half(n->type) && type == DT_none) type = n->type;
    }
    for (int k = 0; k < 2; k++) {
        const Node *n = p->in[k]->node;
        int budget = NODES;
        bool there = group_walk_loaded(w, p->in[k]), same = n->type == type;
        bool narrow = dtype_bits(n->type) <= 8 && n->type != DT_bool;
        bool rounds = !there && type == DT_bf16 && (n->type == DT_f32 || n->type == DT_i32);
        if (same && there) continue;
        if (!(same || narrow || rounds) || !is_pointwise(w, n, n->rank, &budget)) return false;
        *made |= 1 << k;
    }
    return type != DT_none && (!*made || !w->gr->online[p->node->id]);
}

static bool is_fp8(const Node *n) {
    return dtype_class(n->type) == DC_REAL && dtype_bits(n->type) == 8;
}

/* Factors of fp8 as they lie in memory. */
static bool narrow(const Walk *w, const Point *p) {
    bool all = w->gr->target->has & TGT_W;
    for (int k = 0; k < 2; k++) all &= is_fp8(p->in[k]->node) && group_walk_loaded(w, p->in[k]);
    return all;
}

bool group_is_block_sum(const Graph *g, const Node *n) {
    int64_t block;
    return n->kind == N_REDUCE && n->red == RED_contract && n->rank && n->naxes == n->rank + 1 &&
           n->nin - n->where == 2 && n->roles[n->rank - 1] == 'b' &&
           is_fp8(g->nodes.v[n->in[0].node]) && is_fp8(g->nodes.v[n->in[1].node]) &&
           ix_is_const(n->axes[n->rank].extent, &block) && block % STAGE == 0;
}

double group_share_of(const Walk *w, const Node *n, int k) {
    enum { TILE = 256 };
    double all = 1;
    for (int d = 0; d < n->rank; d++)
        if (n->roles[d] == (k ? 'm' : 'n')) all *= group_value_extent(w->gr, n, d);
    return fmin(all, TILE);
}

bool group_on_tensor_cores(const Walk *w, const Point *p, int *made) {
    const Group *gr = w->gr;
    const Node *n = p->node;
    *made = 0;
    if (!(gr->target->has & (TGT_W | TGT_M)) || gr->strict || n->nin - n->where != 2) return false;
    bool fp8 = narrow(w, p), block = fp8 && group_is_block_sum(gr->g, n);
    if (n->where && !block) return false;
    if (!fp8 && (!find_made(w, p, made) || (*made && !(gr->target->has & TGT_W)))) return false;
    const GroupStep *s = w->block;
    if (s && !(gr->target->has & TGT_W)) return false; /* blocks that are reduced are wgmma's */
    if (s && group_same_domain(n, gr->g->nodes.v[s->inner]) &&
        group_same_map(p->map, s->cover, n->rank))
        return true;
    const Node *root = gr->g->nodes.v[w->memo->root.v[0]];
    for (int i = 0; i < n->rank - block; i++) {
        int axis;
        if (!ix_is_axis(p->map[i], &axis) || axis >= root->rank) return false;
    }
    return true;
}

/* Of the factor that it reads along axis d, is no other axis of the product the last in memory? */
static bool has_columns(const Graph *g, const Node *n, int d) {
    int found = 0;
    for (int k = 0; k < 2; k++) {
        const Operand *o = &n->in[k];
        int rank = g->nodes.v[o->node]->rank;
        bool uses = false;
        for (int i = 0; i < rank; i++) uses |= ix_uses_axis(o->map[i], d);
        for (int a = 0; a < n->rank && uses; a++)
            if (a != d && ix_uses_axis(o->map[rank - 1], a)) return false;
        found += uses;
    }
    return found == 1;
}

static bool turned_point(const Walk *w, const Point *p) {
    const Group *gr = w->gr;
    const Node *n = p->node, *root = gr->g->nodes.v[w->memo->root.v[0]];
    int axis, by, size, last = n->rank - 1, made;
    int64_t extent;
    if (!(gr->target->has & TGT_W) || gr->strict || w->block || n->nin != 2 || n->where)
        return false;
    if (w->step >= 0 && gr->steps[w->step].loop >= 0) return false;
    if (last < 1 || !group_same_domain(root, n) || !group_identity(p->map, last)) return false;
    if (!mma_turned(p->map[last], &axis, &by, &size) || axis != last) return false;
    if (!ix_is_const(n->axes[last].extent, &extent) || extent != size) return false;
    return find_made(w, p, &made) && !made && has_columns(gr->g, n, last);
}

bool group_turned(Walk *w, const Point *p) {
    if (p->node->rank < 1 || p->map[p->node->rank - 1]->kind != IX_MOD) return false;
    if (!p->in) return false;
    if (!turned_point(w, p)) return false;
    w->stray |= w->turns == MMA_TURNS;
    if (!w->stray) w->turned[w->turns++] = p->node;
    return true;
}

void group_find_strays(Walk *w) {
    for (int n = 0; n < w->turns; n++) {
        bool is = false;
        for (int k = 0; k < w->products; k++)
            is |= w->product[k]->node == w->turned[n] &&
                  group_identity(w->product[k]->map, w->turned[n]->rank);
        w->stray |= !is;
    }
}

void group_count_product(Walk *w, const Point *p) {
    for (int k = 0; k < w->products && !w->apart; k++) {
        const Point *q = w->product[k];
        w->apart = !group_together(w->gr->g, q->node, p->node) ||
                   !group_same_map(q->map, p->map, p->node->rank);
    }
    w->apart |= w->products == MMA_SUMS;
    if (!w->apart) w->product[w->products++] = p;
}
