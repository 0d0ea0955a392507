/* block_undo.c - a reduction of blocks that nobody stores, and the one that joins them, are one:
 *
 *     s[m] = sum[nb] sum[ni in 128 where 128*nb + ni < N] f(x[m, 128*nb + ni])
 *  -> s[m] = sum[n] f(x[m, n])
 *
 * Everything under the inner one must be a function of the position 128*nb + ni alone: then nb
 * becomes 0 and ni becomes n.
 */
#include "passes/block_int.h"
#include "ir/ir.h"

#include <string.h>

typedef struct Undo {
    Graph *g;
    Node *join;
    const Node *part;
    const Ix **to;     /* per axis of the parts: what it becomes */
    const Ix **same;   /* per axis: what changes nothing if only the position counts */
    const Ix **extent; /* per value axis of the parts that numbers blocks: of what was cut; NULL */
    int *inner;        /* and its axis inside of a block; -1 */
} Undo;

/* ---- is it such a pair? ---- */

static bool same_reduction(const Node *a, const Node *b) {
    Reduce ra = a->red == RED_contract ? RED_sum : a->red;
    Reduce rb = b->red == RED_contract ? RED_sum : b->red;
    return ra == rb && a->type == b->type;
}

/* Every axis of the joining one stands bare and once in the read. */
static bool reads_bare(const Node *join, const Node *part) {
    uint64_t seen = 0;
    if (part->rank != join->naxes || part->naxes > 60) return false;
    for (int d = 0; d < part->rank; d++) {
        int axis;
        if (!ix_is_axis(join->in[0].map[d], &axis) || seen >> axis & 1) return false;
        if (join->axes[axis].extent != part->axes[d].extent) return false;
        seen |= (uint64_t)1 << axis;
    }
    return true;
}

static const Ix *position(IxPool *p, int outer, int inner, int64_t block) {
    return ix_add(p, ix_mul(p, ix_axis(p, outer), ix_const(p, block)), ix_axis(p, inner));
}

/* outer and inner number [0, extent) by blocks, of which a fact (taken out) says the end, or which
 * have none. */
static bool pair_up(Undo *u, IxVec *facts, int outer, int inner) {
    IxPool *p = u->g->ix;
    int64_t block;
    const Ix *blocks = u->part->axes[outer].extent, *extent = NULL;
    if (!ix_is_const(u->part->axes[inner].extent, &block) || block < 2) return false;
    const Ix *at = position(p, outer, inner, block);
    for (int i = 0; i < facts->n && !extent; i++) {
        const Ix *e = ix_add(p, ix_add(p, facts->v[i], at), ix_const(p, 1));
        if (e->has_axis || e->has_value) continue;
        if (blocks != ix_div(p, ix_add(p, e, ix_const(p, block - 1)), ix_const(p, block))) continue;
        extent = e;
        facts->v[i] = facts->v[--facts->n];
    }
    if (!extent && u->part->where) return false;
    u->extent[outer] = extent ? extent : ix_mul(p, blocks, ix_const(p, block));
    u->inner[outer] = inner;
    u->same[outer] = ix_const(p, 0);
    u->same[inner] = at;
    return true;
}

static bool find_pairs(Undo *u) {
    const Node *part = u->part;
    IxVec facts = {0};
    bool exact = true, any = false;
    if (part->where) infer_conjuncts(u->g, &part->in[part->nin - 1], &facts, &exact);
    for (int d = 0; d < part->rank; d++) {
        int axis;
        ix_is_axis(u->join->in[0].map[d], &axis);
        u->inner[d] = -1;
        for (int k = part->rank; k < part->naxes && axis >= u->join->rank && exact; k++) {
            if (u->inner[d] >= 0 || u->same[k] || !pair_up(u, &facts, d, k)) continue;
            any = true;
        }
    }
    return any && exact && !facts.n;
}

static bool only_positions(const Undo *u) {
    const Node *n = u->part;
    for (int k = 0; k < n->nin - n->where; k++) {
        const Operand *o = &n->in[k];
        for (int d = 0; d < u->g->nodes.v[o->node]->rank; d++)
            if (ix_at(u->g->ix, o->map[d], u->same, n->naxes) != o->map[d]) return false;
    }
    return true;
}

/* ---- and then ---- */

static const char *shorter(Graph *g, const char *name) { /* "nb" of "n" */
    size_t n = name ? strlen(name) : 0;
    return n > 1 ? arena_strndup(g->arena, name, n - 1) : name;
}

static void set_axes(Undo *u) {
    const Node *part = u->part;
    Node *join = u->join;
    Axis *axes = ARENA_ARRAY(u->g->arena, Axis, part->naxes);
    int naxes = join->naxes;
    for (int a = 0; a < join->naxes; a++) axes[a] = join->axes[a];
    for (int d = 0; d < part->rank; d++) {
        int axis;
        ix_is_axis(join->in[0].map[d], &axis);
        u->to[d] = ix_axis(u->g->ix, axis);
        if (u->inner[d] < 0) continue;
        axes[axis] = (Axis){shorter(u->g, axes[axis].name), u->extent[d]};
        u->to[u->inner[d]] = u->to[d];
        u->to[d] = ix_const(u->g->ix, 0);
    }
    for (int k = part->rank; k < part->naxes; k++) {
        if (u->to[k]) continue;
        u->to[k] = ix_axis(u->g->ix, naxes);
        axes[naxes++] = part->axes[k];
    }
    join->axes = axes;
    join->naxes = naxes;
}

static void become_one(Undo *u) {
    Graph *g = u->g;
    Node *join = u->join;
    const Node *part = u->part;
    set_axes(u);
    join->red = part->red;
    join->nin = part->nin - part->where;
    join->in = ARENA_ARRAY(g->arena, Operand, join->nin);
    for (int k = 0; k < join->nin; k++) {
        const Operand *o = &part->in[k];
        graph_map(g, &join->in[k], o->node);
        join->in[k].checked = o->checked;
        for (int d = 0; d < g->nodes.v[o->node]->rank; d++)
            join->in[k].map[d] = ix_at(g->ix, o->map[d], u->to, part->naxes);
    }
    for (int i = 0; i < g->edges.n; i++) { /* what the parts read is read here now */
        Edge *e = &g->edges.v[i];
        if (e->to == part->id) e->to = join->id;
    }
}

static bool undo(Graph *g, Node *join, const int *readers) {
    if (join->kind != N_REDUCE || join->where || join->nin != 1 || join->in[0].checked)
        return false;
    const Node *part = g->nodes.v[join->in[0].node];
    if (part->kind != N_REDUCE || part->store || readers[part->id] != 1) return false;
    if (!same_reduction(join, part) || !reads_bare(join, part)) return false;
    Undo u = {.g = g, .join = join, .part = part};
    u.to = ARENA_ARRAY(g->arena, const Ix *, part->naxes);
    u.same = ARENA_ARRAY(g->arena, const Ix *, part->naxes);
    u.extent = ARENA_ARRAY(g->arena, const Ix *, part->naxes);
    u.inner = ARENA_ARRAY(g->arena, int, part->naxes);
    if (!find_pairs(&u) || !only_positions(&u)) return false;
    become_one(&u);
    return true;
}

static void count_ix(const Ix *x, int *readers) {
    if (!x || !x->has_value) return;
    if (x->kind == IX_VALUE) readers[x->num]++;
    for (int i = 0; i < x->n; i++) count_ix(x->arg[i], readers);
}

bool block_undo(Graph *g) {
    int *readers = ARENA_ARRAY(g->arena, int, g->nodes.n);
    bool changed = false;
    for (int i = 0; i < g->nodes.n; i++) {
        const Node *n = g->nodes.v[i];
        count_ix(n->ix, readers);
        for (int k = 0; k < n->nin; k++) {
            readers[n->in[k].node]++;
            for (int d = 0; d < g->nodes.v[n->in[k].node]->rank; d++)
                count_ix(n->in[k].map[d], readers);
        }
    }
    for (int i = 0; i < g->nodes.n; i++) changed |= undo(g, g->nodes.v[i], readers);
    if (changed) graph_sweep(g);
    return changed;
}
