/* tile_online.c - reductions that `online` numbered alike become one loop, with frames.
 *
 * The loop has all of them that the step needs at its grid, and the frames of these. Its bounds are
 * those of all its reductions; where they differ, each has a guard, or all one if alike. What
 * stands in the loop reads the carry of a frame as the frame.
 *
 * Frames lag a block. How far one may is set by the type to which a factor of a product is rounded:
 * what is summed is then at most 2^64 times what it is by the true frame, for f16 2^15 times.
 */
#include "passes/online_int.h"
#include "passes/tile_int.h"

#include <math.h>
#include <string.h>

enum { BLOCK = 128 };

typedef struct Member {
    int node;
    const Ix *const *map;
    int frame; /* place in the list; -1 */
    Sep sep;
    int carry;
    const Ix **axes; /* of the node: its map, then the loops' */
    bool guard;
} Member;

typedef struct Members {
    VEC(Member) v;
    int loop, depth;
} Members;

static bool known(TileBuild *b, int node, const Ix *const *map) {
    size_t len;
    void *key = tb_key_of(b, node, map, b->g->nodes.v[node]->rank, &len);
    for (TileScope *s = b->top; s; s = s->up)
        if (map_get(&s->values, key, len)) return true;
    return map_get(&b->started, key, len) != NULL;
}

/* The place of the reduction in the list; -1: not in this loop, its value stands before it. */
static int enter(TileBuild *b, Members *m, int node, const Ix *const *map) {
    const Node *n = b->g->nodes.v[node];
    size_t size = sizeof *map * (size_t)n->rank;
    for (int i = 0; i < m->v.n; i++)
        if (m->v.v[i].node == node && (!size || !memcmp(m->v.v[i].map, map, size))) return i;
    bool here = n->loop == m->loop && tb_depth_of_map(b, map, n->rank) == m->depth;
    if (m->v.n && !online_same_range(n, b->g->nodes.v[m->v.v[0].node])) here = false;
    if (!here || tb_is_loaded(b, n, map) || known(b, node, map)) return -1;
    Member x = {.node = node, .map = map, .frame = -1};
    if (n->frame >= 0) {
        if (!online_sep(b->g, n, b->step, &x.sep)) return -1;
        int rank = x.sep.frame >= 0 ? b->g->nodes.v[n->frame]->rank : 0;
        const Ix **at = ARENA_ARRAY(b->arena, const Ix *, rank);
        for (int d = 0; d < rank; d++) at[d] = tb_map_in(b, x.sep.at[d], map, n->rank);
        if (x.sep.frame >= 0) x.frame = enter(b, m, n->frame, at);
    }
    vec_push(b->arena, &m->v, x);
    return m->v.n - 1;
}

/* ---- rescale ---- */

static void put_factor(TileBuild *b, TCarry *c, const SepItem *i, const Node *n,
                       const Ix *const *map) {
    TFactor f = {.kind = TF_OP, .op = i->op, .num = i->num};
    switch (i->kind) {
    case SI_OLD: f.kind = TF_OLD; break;
    case SI_NEW: f.kind = TF_NEW; break;
    case SI_CONST: f.kind = TF_CONST; break;
    case SI_READ:
        f.kind = TF_VALUE;
        f.value = tb_operand(b, &i->read, map, n->rank);
        break;
    case SI_FRAME: FK_BUG("a frame that is neither old nor new");
    case SI_OP: break;
    }
    vec_push(b->arena, &c->rescale, f);
}

/* All that follow a frame lag alike. */
static double bound_of_all(const TileBuild *b, const Members *m, int frame) {
    double least = INFINITY;
    for (int i = 0; i < m->v.n; i++) {
        if (m->v.v[i].frame != frame) continue;
        double bound = online_bits(b->g, b->g->nodes.v[m->v.v[i].node]) * log(2);
        if (bound < least) least = bound;
    }
    return least;
}

static TCarry carry_of(TileBuild *b, const Members *m, Member *x) {
    const Node *n = b->g->nodes.v[x->node];
    Reduce red = n->red == RED_contract ? RED_sum : n->red;
    x->carry = tb_new_value(b, n->type, m->depth + 1);
    TCarry c = {.id = x->carry, .type = n->type, .red = red, .frame = -1, .name = n->name};
    if (x->frame < 0) return c;
    c.frame = m->v.v[x->frame].carry;
    for (int i = 0; i < x->sep.rescale.n; i++) put_factor(b, &c, &x->sep.rescale.v[i], n, x->map);
    c.bound = bound_of_all(b, m, x->frame);
    c.lag = 1;
    return c;
}

/* ---- the loop ---- */

static const Ix *bound_in(TileBuild *b, const Member *x, const Ix *const *bounds, int level,
                          const Ix *otherwise) {
    const Node *n = b->g->nodes.v[x->node];
    return bounds && bounds[level] ? tb_map_in(b, bounds[level], x->axes, n->naxes) : otherwise;
}

/* Opens the loop over the reduced axis `level` of all. */
static TInst *open_level(TileBuild *b, Members *m, int level) {
    IxPool *p = b->g->ix;
    const Node *first = b->g->nodes.v[m->v.v[0].node];
    const Ix *zero = ix_const(p, 0), *extent = first->axes[first->rank + level].extent;
    const Ix *lo = NULL, *hi = NULL;
    for (int i = 0; i < m->v.n; i++) {
        const Node *n = b->g->nodes.v[m->v.v[i].node];
        const Ix *l = bound_in(b, &m->v.v[i], n->lo, level, zero);
        const Ix *h = bound_in(b, &m->v.v[i], n->hi, level, extent);
        lo = !lo ? l : lo == zero || l == zero ? zero : ix_min(p, lo, l);
        hi = !hi ? h : hi == extent || h == extent ? extent : ix_max(p, hi, h);
    }
    for (int i = 0; i < m->v.n; i++) {
        Member *x = &m->v.v[i];
        const Node *n = b->g->nodes.v[x->node];
        bool same = bound_in(b, x, n->lo, level, zero) == lo;
        same &= bound_in(b, x, n->hi, level, extent) == hi;
        x->guard |= n->where && (!same || !n->exact);
    }
    TInst *loop = tb_loop(b, first, first->rank + level, lo, hi, m->v.v[0].axes);
    for (int i = 1; i < m->v.n; i++) {
        const Node *n = b->g->nodes.v[m->v.v[i].node];
        m->v.v[i].axes[n->rank + level] = m->v.v[0].axes[first->rank + level];
    }
    return loop;
}

static void set_value(TileBuild *b, TileScope *at, const Member *x) {
    size_t len;
    void *key = tb_key_of(b, x->node, x->map, b->g->nodes.v[x->node]->rank, &len);
    *map_put(&at->values, key, len) = x->carry + 1;
}

static void start(TileBuild *b, Member *x) {
    const Node *n = b->g->nodes.v[x->node];
    size_t len;
    void *key = tb_key_of(b, x->node, x->map, n->rank, &len);
    *map_put(&b->started, key, len) = 1;
    x->axes = ARENA_ARRAY(b->arena, const Ix *, n->naxes);
    if (n->rank) memcpy(x->axes, x->map, sizeof *x->map * (size_t)n->rank);
}

static void make_loop(TileBuild *b, Members *m) {
    VEC(TInst *) nest = {0};
    VEC(TCarry) carries = {0};
    const Node *first = b->g->nodes.v[m->v.v[0].node];
    TileScope *at = b->top;
    int levels = first->naxes - first->rank;
    bool framed = false;
    for (int i = 0; i < m->v.n; i++) start(b, &m->v.v[i]);
    for (int i = 0; i < m->v.n; i++) {
        vec_push(b->arena, &carries, carry_of(b, m, &m->v.v[i]));
        framed |= m->v.v[i].frame >= 0;
    }
    for (int l = 0; l < levels; l++) {
        vec_push(b->arena, &nest, open_level(b, m, l));
        tb_open_scope(b, &nest.v[l]->body, false);
        for (int i = 0; i < m->v.n && !l; i++) set_value(b, b->top, &m->v.v[i]);
    }
    for (int i = 0; i < carries.n; i++) vec_push(b->arena, &nest.v[0]->carries, carries.v[i]);
    if (framed) b->t->axes.v[nest.v[0]->axis].tile = BLOCK;
    TileStep *steps = ARENA_ARRAY(b->arena, TileStep, m->v.n);
    for (int i = 0; i < m->v.n; i++) {
        const Member *x = &m->v.v[i];
        steps[i] = (TileStep){b->g->nodes.v[x->node], x->guard, x->carry, x->axes};
    }
    tb_steps(b, steps, m->v.n);
    for (int l = levels - 1; l >= 0; l--) {
        tb_close_scope(b);
        vec_push(b->arena, &b->top->block->inst, nest.v[l]);
    }
    for (int i = 0; i < m->v.n; i++) {
        set_value(b, at, &m->v.v[i]);
        b->value_depth.v[m->v.v[i].carry] = at->depth;
    }
}

bool tb_online(TileBuild *b, int node, const Ix *const *map, int *value) {
    const Node *n = b->g->nodes.v[node];
    TileScope *saved = b->top, *at = tb_scope_at(b, tb_depth_of_map(b, map, n->rank));
    Members m = {.loop = n->loop, .depth = tb_depth_of_map(b, map, n->rank)};
    bool moved = tb_leaves_loop(saved, at);
    b->wary += moved;
    b->top = at;
    for (int k = 0; k < b->g->nodes.n; k++) { /* in the order of the graph */
        if (k == node) enter(b, &m, node, map);
        for (int i = 0; i < b->wants.n; i++)
            if (b->wants.v[i].node == k) enter(b, &m, k, b->wants.v[i].map);
    }
    int mine = m.v.n ? enter(b, &m, node, map) : -1;
    if (mine >= 0) {
        make_loop(b, &m);
        *value = m.v.v[mine].carry;
    }
    b->top = saved;
    b->wary -= moved;
    return mine >= 0;
}
