/* online_place.c - where the values of a step stand that have fewer axes than its grid.
 *
 * The grid is the domain of the value of most axes. Another value stands where it reads what that
 * one reads at the same place: its axes are those at which the two read the same nodes. An axis
 * that nothing tells goes to the first of the same extent that is free.
 */
#include "passes/online_int.h"

#include <string.h>

typedef struct Pairs {
    Graph *g;
    OnlinePairs *out;
    Map seen;
} Pairs;

static void add_pairs(Pairs *p, int node, const Ix *const *map, bool deep);

static void add_operands(Pairs *p, const Node *n, const Ix *const *axes, bool deep) {
    for (int k = 0; k < n->nin; k++) {
        const Operand *o = &n->in[k];
        int rank = p->g->nodes.v[o->node]->rank;
        const Ix **map = ARENA_ARRAY(p->g->arena, const Ix *, rank);
        for (int d = 0; d < rank; d++) map[d] = ix_at(p->g->ix, o->map[d], axes, n->naxes);
        add_pairs(p, o->node, map, deep);
    }
}

static void add_pairs(Pairs *p, int node, const Ix *const *map, bool deep) {
    enum { PAIRS_MAX = 400 };
    const Node *n = p->g->nodes.v[node];
    int64_t *key = ARENA_ARRAY(p->g->arena, int64_t, n->rank + 1);
    if ((n->kind != N_OP && n->kind != N_REDUCE) || p->out->n == PAIRS_MAX) return;
    key[0] = node;
    for (int d = 0; d < n->rank; d++) key[d + 1] = map[d]->id;
    intptr_t *seen = map_put(&p->seen, key, sizeof *key * (size_t)(n->rank + 1));
    if (*seen) return;
    *seen = 1;
    OnlinePair pair = {node, ARENA_ARRAY(p->g->arena, const Ix *, n->rank)};
    if (n->rank) memcpy(pair.map, map, sizeof *map * (size_t)n->rank);
    vec_push(p->g->arena, p->out, pair);
    if (n->kind == N_REDUCE && deep) return;
    const Ix **axes = ARENA_ARRAY(p->g->arena, const Ix *, n->naxes);
    for (int a = 0; a < n->naxes; a++)
        axes[a] = a < n->rank ? map[a] : ix_axis(p->g->ix, ONLINE_INNER + a - n->rank);
    add_operands(p, n, axes, deep || n->kind == N_REDUCE);
}

void online_pairs(Graph *g, const Node *n, OnlinePairs *out) {
    Pairs p = {.g = g, .out = out, .seen = {.arena = g->arena}};
    const Ix **self = ARENA_ARRAY(g->arena, const Ix *, n->rank);
    for (int d = 0; d < n->rank; d++) self[d] = ix_axis(g->ix, d);
    add_pairs(&p, n->id, self, false);
}

/* Axis `from` of n is axis `to` of the widest, if they agree with what is bound. */
static void bind(const Node *n, const Node *wide, const Ix *from, const Ix *to, int *bound) {
    int x, y;
    if (!ix_is_axis(from, &x) || !ix_is_axis(to, &y) || x >= n->rank || y >= wide->rank) return;
    if (n->axes[x].extent != wide->axes[y].extent) return;
    for (int d = 0; d < n->rank; d++)
        if (bound[d] == y || (d == x && bound[d] >= 0)) return;
    bound[x] = y;
}

static bool place_one(Graph *g, const Node *n, const Node *wide, const OnlinePairs *known,
                      const Ix ***map, OnlinePairs *mine) {
    int *bound = ARENA_ARRAY(g->arena, int, n->rank);
    for (int d = 0; d < n->rank; d++) bound[d] = -1;
    online_pairs(g, n, mine);
    bool common = false;
    for (int i = 0; i < mine->n; i++)
        for (int k = 0; k < known->n; k++) {
            if (mine->v[i].node != known->v[k].node) continue;
            common = true;
            for (int d = 0; d < g->nodes.v[mine->v[i].node]->rank; d++)
                bind(n, wide, mine->v[i].map[d], known->v[k].map[d], bound);
        }
    for (int d = 0; d < n->rank && common; d++)
        for (int y = 0; y < wide->rank && bound[d] < 0; y++)
            bind(n, wide, ix_axis(g->ix, d), ix_axis(g->ix, y), bound);
    *map = ARENA_ARRAY(g->arena, const Ix *, n->rank);
    for (int d = 0; d < n->rank; d++) {
        if (bound[d] < 0) return false;
        (*map)[d] = ix_axis(g->ix, bound[d]);
    }
    return common;
}

static void add_known(Graph *g, const Node *n, const Ix *const *map, const OnlinePairs *mine,
                      OnlinePairs *known) {
    for (int i = 0; i < mine->n; i++) {
        OnlinePair p = mine->v[i];
        int rank = g->nodes.v[p.node]->rank;
        const Ix **at = ARENA_ARRAY(g->arena, const Ix *, rank);
        for (int d = 0; d < rank; d++) at[d] = ix_at(g->ix, p.map[d], map, n->rank);
        p.map = at;
        vec_push(g->arena, known, p);
    }
}

bool online_place(Graph *g, const int *node, int n, int *wide, const Ix ***maps) {
    OnlinePairs known = {0};
    int left = n;
    *wide = node[0];
    for (int i = 1; i < n; i++)
        if (g->nodes.v[node[i]]->rank > g->nodes.v[*wide]->rank) *wide = node[i];
    const Node *w = g->nodes.v[*wide];
    online_pairs(g, w, &known);
    for (int i = 0; i < n; i++) maps[i] = NULL;
    for (bool more = true; more && left;) {
        more = false;
        for (int i = 0; i < n; i++) {
            const Node *x = g->nodes.v[node[i]];
            OnlinePairs mine = {0};
            const Ix **map;
            if (maps[i] || !place_one(g, x, w, &known, &map, &mine)) continue;
            if (x != w) add_known(g, x, map, &mine, &known);
            maps[i] = map;
            more = true;
            left--;
        }
    }
    return !left;
}

bool online_placed(Graph *g, const int *node, int n) {
    bool one = true;
    for (int i = 1; i < n; i++) {
        const Node *a = g->nodes.v[node[0]], *b = g->nodes.v[node[i]];
        one &= a->rank == b->rank;
        for (int d = 0; d < a->rank && one; d++) one = a->axes[d].extent == b->axes[d].extent;
    }
    for (int i = 0; i < n && !one; i++) {
        OnlinePairs pairs = {0};
        online_pairs(g, g->nodes.v[node[i]], &pairs);
        for (int k = 0; k < pairs.n; k++) {
            const Node *x = g->nodes.v[pairs.v[k].node];
            if (x->loop >= 0 && (!x->store || x->step == g->nodes.v[node[i]]->step)) return true;
        }
    }
    return false;
}
