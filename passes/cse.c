/* cse.c - equal nodes become one.
 *
 * Two nodes are equal when their keys are: kind, op, type, extents, operands, maps. A key does not
 * know names, and it names value axes in the order in which the operands use them, so that
 * m[b, h, i] and m[b, i, h] are one node, the second read in another order. Operands of commutative
 * ops are put in order of node; a > b is b < a. The first of equal nodes stays, with its name or
 * else the other's.
 *
 * Needs nothing; folding first makes more nodes equal. Sharing never changes a value.
 */
#include "passes/rebuild_int.h"

#include <string.h>

typedef struct Key {
    VEC(int64_t) word;
    int *place; /* per axis of the node: its number in the key */
    Arena *arena;
} Key;

/* What stands under a key: the node and where its axes went. */
typedef struct Seen {
    int node;
    int *place;
} Seen;

static void put(Key *k, int64_t v) {
    vec_push(k->arena, &k->word, v);
}

/* ---- the order of axes ---- */

static void place_axes(Key *k, const Ix *x, int rank, int *next) {
    if (!x || !x->has_axis) return;
    if (x->kind == IX_AXIS && x->num < rank && k->place[x->num] < 0) k->place[x->num] = (*next)++;
    for (int i = 0; i < x->n; i++) place_axes(k, x->arg[i], rank, next);
}

static void place_all(Key *k, const Graph *g, const Node *n, const Operand *const *in) {
    int next = 0;
    k->place = ARENA_ARRAY(k->arena, int, n->naxes);
    for (int d = 0; d < n->naxes; d++) k->place[d] = d < n->rank ? -1 : d;
    place_axes(k, n->ix, n->rank, &next);
    for (int i = 0; i < n->nin; i++)
        for (int d = 0; d < g->nodes.v[in[i]->node]->rank; d++)
            place_axes(k, in[i]->map[d], n->rank, &next);
    for (int d = 0; d < n->rank; d++)
        if (k->place[d] < 0) k->place[d] = next++;
}

/* ---- keys ---- */

static Op mirrored(Op op) {
    return op == OP_gt ? OP_lt : op == OP_ge ? OP_le : op;
}

static const Operand **ordered(Key *k, const Node *n) {
    const Operand **in = ARENA_ARRAY(k->arena, const Operand *, n->nin);
    for (int i = 0; i < n->nin; i++) in[i] = &n->in[i];
    if (n->kind != N_OP || n->nin != 2) return in;
    bool swap = mirrored(n->op) != n->op;
    if (op_traits(n->op) & OPT_C) swap = in[0]->node > in[1]->node;
    if (swap) {
        const Operand *a = in[0];
        in[0] = in[1];
        in[1] = a;
    }
    return in;
}

static void put_ix(Key *k, Graph *g, const Node *n, const Ix *x) {
    const Ix **at = ARENA_ARRAY(k->arena, const Ix *, n->naxes);
    for (int d = 0; d < n->naxes; d++) at[d] = ix_axis(g->ix, k->place[d]);
    put(k, ix_at(g->ix, x, at, n->naxes)->id);
}

static void put_extents(Key *k, const Node *n) {
    int at = k->word.n;
    for (int d = 0; d < n->naxes; d++) put(k, 0);
    for (int d = 0; d < n->naxes; d++) k->word.v[at + k->place[d]] = n->axes[d].extent->id;
}

static void key_of(Key *k, Graph *g, const Node *n) {
    const Operand **in = ordered(k, n);
    int64_t bits;
    memcpy(&bits, &n->num, sizeof bits);
    place_all(k, g, n, in);
    put(k, n->kind);
    put(k, n->kind == N_OP ? (int64_t)mirrored(n->op) : n->kind == N_REDUCE ? (int64_t)n->red : 0);
    put(k, n->type);
    put(k, n->rank);
    put(k, n->naxes);
    put(k, n->where);
    put(k, n->kind == N_CONST ? bits : 0);
    put(k, n->kind == N_CONST ? n->inum : 0);
    put_extents(k, n);
    if (n->ix) put_ix(k, g, n, n->ix);
    for (int i = 0; i < n->nin; i++) {
        put(k, in[i]->node);
        put(k, in[i]->checked);
        for (int d = 0; d < g->nodes.v[in[i]->node]->rank; d++) put_ix(k, g, n, in[i]->map[d]);
    }
}

/* ---- the pass ---- */

typedef struct Cse {
    Arena scratch;
    Map map;
} Cse;

static void share(Rebuild *r, Node *n, const Seen *first, const int *place) {
    Graph *g = r->g;
    Operand by;
    graph_map(g, &by, first->node);
    for (int d = 0; d < n->rank; d++)
        for (int e = 0; e < n->rank; e++)
            if (first->place[d] == place[e]) by.map[d] = ix_axis(g->ix, e);
    rb_replace(r, n, by);
}

static bool visit(Rebuild *r, Node *n, void *ctx) {
    Cse *c = ctx;
    if (n->kind == N_INPUT) return false;
    Key k = {.arena = &c->scratch};
    key_of(&k, r->g, n);
    intptr_t *slot = map_put(&c->map, k.word.v, sizeof(int64_t) * (size_t)k.word.n);
    if (*slot) {
        share(r, n, (const Seen *)*slot, k.place);
        return true;
    }
    Seen *s = ARENA_NEW(&c->scratch, Seen);
    *s = (Seen){n->id, k.place};
    *slot = (intptr_t)s;
    return false;
}

bool pass_cse(PassCtx *cx, Graph *g) {
    Cse c = {0};
    c.map.arena = &c.scratch;
    bool changed = rebuild(cx, g, visit, &c);
    arena_free(&c.scratch);
    return changed;
}
