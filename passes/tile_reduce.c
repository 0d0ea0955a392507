/* tile_reduce.c - reductions become loops with carried values.
 *
 * The loop opens in the outermost block where the axes of the reduction's map are open, one nested
 * loop per further reduced axis. Reductions of the step at the same place over the same range that
 * do not read one another share it, and so do products of which one is read at another column of
 * its tile (mma_turned). Conditions become a guard around the step, unless the bounds that `domain`
 * found say it all; steps with the same condition share one, and what they compute.
 */
#include "passes/group_int.h"
#include "passes/tile_int.h"

#include <string.h>

static bool ix_reaches(const Ix *x, const bool *reach) {
    if (x->kind == IX_VALUE && reach[x->num]) return true;
    for (int i = 0; i < x->n && x->has_value; i++)
        if (ix_reaches(x->arg[i], reach)) return true;
    return false;
}

static bool depends(TileBuild *b, int on, int node) {
    if (!b->reach[on]) {
        bool *r = b->reach[on] = ARENA_ARRAY(b->arena, bool, b->g->nodes.n);
        r[on] = true;
        for (int i = on + 1; i < b->g->nodes.n; i++) {
            const Node *n = b->g->nodes.v[i];
            if (n->kind == N_INDEX) r[i] = ix_reaches(n->ix, r);
            for (int k = 0; k < n->nin && !r[i]; k++) {
                r[i] = r[n->in[k].node];
                for (int d = 0; d < b->g->nodes.v[n->in[k].node]->rank; d++)
                    r[i] |= ix_reaches(n->in[k].map[d], r);
            }
        }
    }
    return b->reach[on][node];
}

static bool same_range(const Node *a, const Node *c) {
    if (a->naxes - a->rank != c->naxes - c->rank) return false;
    for (int i = 0; i < a->naxes - a->rank; i++) {
        int ka = a->rank + i, kc = c->rank + i;
        if (a->axes[ka].extent != c->axes[kc].extent) return false;
        const Ix *la = a->lo ? a->lo[i] : NULL, *lc = c->lo ? c->lo[i] : NULL;
        const Ix *ha = a->hi ? a->hi[i] : NULL, *hc = c->hi ? c->hi[i] : NULL;
        if (la != lc || ha != hc) return false;
        if ((la || ha) && a->rank != c->rank) return false;
    }
    return true;
}

static const Ix *before_turn(TileBuild *b, const Ix *x) {
    int axis, by, size;
    return mma_turned(x, &axis, &by, &size) ? ix_axis(b->g->ix, axis) : x;
}

/* The same place, or of products at the last dimension some columns further. */
static bool same_place(TileBuild *b, const Node *n, const Ix *const *map, const Node *c,
                       const Ix *const *to) {
    if (!n->rank || !memcmp(to, map, sizeof *map * (size_t)n->rank)) return true;
    int last = n->rank - 1;
    if (!group_is_product(n) || !group_is_product(c)) return false;
    return (!last || !memcmp(to, map, sizeof *map * (size_t)last)) &&
           before_turn(b, map[last]) == before_turn(b, to[last]);
}

/* A reduction, and where. */
typedef struct Member {
    int node;
    const Ix *const *map;
} Member;

/* The wanted reductions that can share the loop of `node` at `map`, itself first. */
static int share_loop(TileBuild *b, int node, const Ix *const *map, Member *member) {
    const Node *n = b->g->nodes.v[node];
    int count = 0;
    member[count++] = (Member){node, map};
    for (int i = 0; i < b->wants.n; i++) {
        const TileWant *w = &b->wants.v[i];
        const Node *c = b->g->nodes.v[w->node];
        if (c->rank != n->rank || !same_range(n, c)) continue;
        if (!same_place(b, n, map, c, w->map)) continue;
        bool free = true;
        for (int k = 0; k < count && free; k++) {
            const Member *m = &member[k];
            bool other =
                m->node != w->node || memcmp(m->map, w->map, sizeof *map * (size_t)n->rank);
            free = other && (m->node == w->node ||
                             (!depends(b, m->node, w->node) && !depends(b, w->node, m->node)));
        }
        size_t len;
        void *key = tb_key_of(b, w->node, w->map, c->rank, &len);
        if (free && !map_get(&b->started, key, len)) member[count++] = (Member){w->node, w->map};
    }
    return count;
}

static int product(TileBuild *b, const Node *n, const Ix *const *axes) {
    int factors = n->nin - (n->where ? 1 : 0);
    int v = tb_operand(b, &n->in[0], axes, n->naxes);
    for (int k = 1; k < factors; k++) {
        int f = tb_operand(b, &n->in[k], axes, n->naxes);
        int dv = b->value_depth.v[v], df = b->value_depth.v[f];
        TInst *m = tb_emit(b, tb_scope_at(b, dv > df ? dv : df), T_OP, n->type, 2, 0, n->id);
        m->op = OP_mul;
        m->args[0] = v;
        m->args[1] = f;
        v = m->id;
    }
    return v;
}

static void step(TileBuild *b, const TileStep *s, int value) {
    if (value < 0) value = product(b, s->n, s->axes);
    TInst *st = tb_emit(b, b->top, T_STEP, DT_none, 2, 0, s->n->id);
    st->args[0] = s->carry;
    st->args[1] = value;
}

/* Opens a guard, which is not in its block yet: hoisted values may still come before it. */
static TInst *open_guard(TileBuild *b, int cond, int node) {
    TInst *gd = tb_emit(b, b->top, T_GUARD, DT_none, 1, 0, node);
    gd->args[0] = cond;
    b->top->block->inst.n--;
    tb_open_scope(b, &gd->body, true);
    return gd;
}

static void close_guard(TileBuild *b, TInst *gd) {
    tb_close_scope(b);
    vec_push(b->arena, &b->top->block->inst, gd);
}

/* A frame stands before what follows it; where conditions differ, what several of the loop use
 * stands before their guards. */
void tb_steps(TileBuild *b, const TileStep *s, int n) {
    int *cond = ARENA_ARRAY(b->arena, int, n);
    bool *done = ARENA_ARRAY(b->arena, bool, n), alike = true;
    for (int i = 0; i < n; i++) {
        cond[i] = -1;
        if (s[i].guard)
            cond[i] = tb_operand(b, &s[i].n->in[s[i].n->nin - 1], s[i].axes, s[i].n->naxes);
        alike &= cond[i] == cond[0];
    }
    for (int i = 0; i < n; i++) {
        if (done[i]) continue;
        bool online = s[i].n->loop >= 0 && !alike;
        int before = online || cond[i] < 0 ? product(b, s[i].n, s[i].axes) : -1;
        TInst *gd = cond[i] >= 0 ? open_guard(b, cond[i], s[i].n->id) : NULL;
        step(b, &s[i], before);
        for (int k = i + 1; k < n && gd && !online; k++) {
            if (done[k] || cond[k] != cond[i]) continue;
            step(b, &s[k], -1);
            done[k] = true;
        }
        if (gd) close_guard(b, gd);
    }
}

/* The k-th reduced axis that the loops nest at level `level`, outermost first. A fold walks its
 * last, contiguous axis outermost, where it can be cut across threads; a contraction keeps the
 * order. */
static int nest_order(const TileBuild *b, const Node *n, int level) {
    int count = n->naxes - n->rank;
    bool reverse = n->red != RED_contract && !b->strict;
    for (int i = 0; i < count && n->lo; i++) reverse &= !n->lo[i] && !n->hi[i];
    return n->rank + (reverse ? count - 1 - level : level);
}

static const Ix *bound_in(TileBuild *b, const Ix *x, const Ix *otherwise, const Ix *const *axes,
                          int nax) {
    return x ? tb_map_in(b, x, axes, nax) : otherwise;
}

TInst *tb_loop(TileBuild *b, const Node *n, int k, const Ix *lo, const Ix *hi, const Ix **axes) {
    const Ix *extent = n->axes[k].extent, *zero = ix_const(b->g->ix, 0);
    TAxis ax = {n->axes[k].name, extent, false, 1};
    int axis = b->t->axes.n;
    vec_push(b->arena, &b->t->axes, ax);
    vec_push(b->arena, &b->axis_depth, b->top->depth + 1);
    TInst *loop = tb_emit(b, b->top, T_LOOP, DT_none, 0, 0, n->id);
    b->top->block->inst.n--; /* pushed when its body is done: hoisted values come first */
    loop->axis = axis;
    loop->lo = lo == zero ? lo : ix_max(b->g->ix, lo, zero);
    loop->hi = hi == extent ? hi : ix_min(b->g->ix, hi, extent);
    axes[k] = ix_axis(b->g->ix, axis);
    return loop;
}

static TInst *emit_loop(TileBuild *b, const Node *n, int k, const Ix **axes) {
    const Ix *lo = n->lo ? n->lo[k - n->rank] : NULL, *hi = n->hi ? n->hi[k - n->rank] : NULL;
    lo = bound_in(b, lo, ix_const(b->g->ix, 0), axes, n->naxes);
    hi = bound_in(b, hi, n->axes[k].extent, axes, n->naxes);
    return tb_loop(b, n, k, lo, hi, axes);
}

/* Where the step's n-th stored value is inside of the loop over `axes`; NULL: it is not. */
static const Ix **place_inside(TileBuild *b, int n, const Ix *const *axes) {
    const Node *x = b->g->nodes.v[b->plan->steps.v[b->step].stores.v[n]];
    if (!tb_is_inside(b, x)) return NULL;
    const Ix **map = ARENA_ARRAY(b->arena, const Ix *, x->rank);
    for (int d = 0; d < x->rank; d++) map[d] = ix_at(b->g->ix, b->cover[d], axes, b->outer->naxes);
    return map;
}

/* What the step has inside of this loop: computed at the loop's points, and stored. */
static void store_inside(TileBuild *b, const Ix *const *axes) {
    const Step *s = &b->plan->steps.v[b->step];
    for (int i = 0; i < s->stores.n; i++) {
        const Ix **map = place_inside(b, i, axes);
        const Node *n = b->g->nodes.v[s->stores.v[i]];
        if (map) tb_store(b, n, tb_value_of(b, n->id, map), map);
    }
}

static void want_operands(TileBuild *b, const TileStep *s) {
    for (int k = 0; k < s->n->nin; k++) {
        const Operand *o = &s->n->in[k];
        int rank = b->g->nodes.v[o->node]->rank;
        const Ix **map = ARENA_ARRAY(b->arena, const Ix *, rank);
        bool gathers = false;
        for (int d = 0; d < rank; d++) {
            map[d] = ix_at(b->g->ix, o->map[d], s->axes, s->n->naxes);
            gathers |= map[d]->has_value;
        }
        if (!gathers) tb_want(b, o->node, map);
    }
}

/* What is computed in the loop of a block shares loops as at the level of the grid. */
static void inside(TileBuild *b, const TileStep *s, int n) {
    int outer = 0;
    while (outer < n && s[outer].n != b->outer) outer++;
    if (outer == n) return;
    const Step *step = &b->plan->steps.v[b->step];
    for (int i = 0; i < n; i++) want_operands(b, &s[i]);
    for (int i = 0; i < step->stores.n; i++) {
        const Ix **map = place_inside(b, i, s[outer].axes);
        if (map) tb_want(b, step->stores.v[i], map);
    }
    store_inside(b, s[outer].axes);
}

int tb_reduction(TileBuild *b, int node, const Ix *const *map) {
    Graph *g = b->g;
    const Node *n = g->nodes.v[node];
    int value;
    if (n->loop >= 0 && tb_online(b, node, map, &value)) return value;
    TileScope *saved = b->top, *at = tb_scope_at(b, tb_depth_of_map(b, map, n->rank));
    bool moved = tb_leaves_loop(saved, at);
    b->wary += moved;
    b->top = at;
    Member *member = ARENA_ARRAY(b->arena, Member, b->wants.n + 1);
    int count = share_loop(b, node, map, member);
    const Ix **axes = ARENA_ARRAY(b->arena, const Ix *, n->naxes);
    if (n->rank) memcpy(axes, map, sizeof *map * (size_t)n->rank);
    VEC(TInst *) nest = {0};
    int levels = n->naxes - n->rank;
    for (int l = 0; l < levels; l++) {
        TInst *loop = emit_loop(b, n, nest_order(b, n, l), axes);
        vec_push(b->arena, &nest, loop);
        tb_open_scope(b, &loop->body, false);
    }
    FK_ASSERT(levels > 0);
    int *carry = ARENA_ARRAY(b->arena, int, count);
    for (int i = 0; i < count; i++) {
        const Node *m = g->nodes.v[member[i].node];
        size_t len;
        void *key = tb_key_of(b, m->id, member[i].map, n->rank, &len);
        *map_put(&b->started, key, len) = 1;
        Reduce red = m->red == RED_contract ? RED_sum : m->red;
        carry[i] = tb_new_value(b, m->type, at->depth + 1);
        TCarry c = {.id = carry[i], .type = m->type, .red = red, .frame = -1, .name = m->name};
        vec_push(b->arena, &nest.v[0]->carries, c);
    }
    TileStep *steps = ARENA_ARRAY(b->arena, TileStep, count);
    for (int i = 0; i < count; i++) {
        const Node *m = g->nodes.v[member[i].node];
        const Ix **own = ARENA_ARRAY(b->arena, const Ix *, m->naxes);
        for (int a = 0; a < m->naxes; a++) own[a] = a < n->rank ? member[i].map[a] : axes[a];
        steps[i] = (TileStep){m, m->where && !m->exact, carry[i], own};
    }
    for (int i = 0; i < count && count > 1; i++) want_operands(b, &steps[i]);
    inside(b, steps, count);
    tb_steps(b, steps, count);
    for (int l = levels - 1; l >= 0; l--) {
        tb_close_scope(b);
        vec_push(b->arena, &b->top->block->inst, nest.v[l]);
    }
    for (int i = 0; i < count; i++) {
        size_t len;
        void *key = tb_key_of(b, member[i].node, member[i].map, n->rank, &len);
        *map_put(&at->values, key, len) = carry[i] + 1;
        b->value_depth.v[carry[i]] = at->depth;
    }
    b->top = saved;
    b->wary -= moved;
    return carry[0];
}
