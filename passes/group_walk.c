/* group_walk.c - what a step computes and loads: a walk from its stored values down to what is
 * stored elsewhere.
 *
 * Group prices the fn once per candidate, so a walk has to be cheap and rare. Cheap: a point, that
 * is a node at an index map over the axes of the walk, is made once in the pass and knows the
 * points that it reads. Rare: a walk depends on where it starts and on which of the nodes it saw
 * are stored, and while these are as they were its result is.
 */
#include "passes/block_int.h"
#include "passes/cost_int.h"
#include "passes/group_walk_int.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_INSTANCES = 4000, POINT_BYTES = 16 << 20 };

/* A product that the wgmma tier cannot make is not worth a loop of its own around it there. */
static void find_slow(Group *gr) {
    const Graph *g = gr->g;
    gr->slow = ARENA_ARRAY(&gr->arena, bool, g->nodes.n);
    for (int i = 0; i < g->nodes.n && (gr->target->has & TGT_W); i++) {
        const Node *n = g->nodes.v[i];
        gr->slow[i] = group_is_product(n) && !block_is_fast(g, n, NULL);
        for (int k = 0; k < n->nin && n->kind == N_OP; k++) gr->slow[i] |= gr->slow[n->in[k].node];
    }
}

static void find_reduced(Group *gr) {
    const Graph *g = gr->g;
    gr->reduced = ARENA_ARRAY(&gr->arena, bool, g->nodes.n);
    for (int i = 0; i < g->nodes.n; i++) {
        const Node *n = g->nodes.v[i];
        gr->reduced[i] = n->kind == N_REDUCE;
        for (int k = 0; k < n->nin && n->kind == N_OP; k++)
            gr->reduced[i] |= gr->reduced[n->in[k].node];
    }
    gr->online = ARENA_ARRAY(&gr->arena, bool, g->nodes.n);
    for (int i = g->nodes.n - 1; i >= 0; i--) {
        const Node *n = g->nodes.v[i];
        gr->online[i] |= n->loop >= 0;
        for (int k = 0; k < n->nin; k++)
            gr->online[n->in[k].node] |= n->loop >= 0 || (n->kind == N_OP && gr->online[i]);
    }
}

void group_walk_init(Group *gr) {
    int n = gr->g->nodes.n;
    gr->points = ARENA_NEW(&gr->arena, Points);
    gr->points->seen = ARENA_ARRAY(&gr->arena, int, n);
    gr->points->touched = ARENA_ARRAY(&gr->arena, double, n);
    gr->reads = arena_alloc(&gr->arena, sizeof *gr->reads * (size_t)n);
    gr->priced = arena_alloc(&gr->arena, sizeof *gr->priced * (size_t)n);
    gr->read_keys.arena = &gr->arena;
    find_slow(gr);
    find_reduced(gr);
}

void group_walk_free(Group *gr) {
    arena_free(&gr->points->arena);
}

/* ---- work ---- */

/* f32 operations for one element (of a reduction: for one that it takes in). */
static double flops_of(const Node *n) {
    if (n->kind == N_OP) return cost_op(n->op);
    if (n->kind != N_REDUCE) return 0;
    return n->red == RED_contract ? 2 * (n->nin - n->where - 1) : 1;
}

static double dtype_bytes(DType t) {
    return dtype_bits(t) / 8.0;
}

/* Under --invariant an extent that is not summed over may not sway what is computed where. */
double group_value_extent(const Group *gr, const Node *n, int axis) {
    return gr->invariant ? GROUP_SIZE_HINT : group_number(gr, n->axes[axis].extent);
}

/* ---- points ---- */

static Point *point_at(Walk *w, int node, const Ix *const *map) {
    Points *pt = w->pt;
    const Node *n = w->gr->g->nodes.v[node];
    int64_t small[17], *key = n->rank < 17 ? small : ARENA_ARRAY(&pt->arena, int64_t, n->rank + 1);
    key[0] = node;
    for (int i = 0; i < n->rank; i++) key[i + 1] = map[i]->id;
    intptr_t *slot = map_put(&pt->map, key, sizeof *key * (size_t)(n->rank + 1));
    if (*slot) return (Point *)*slot;
    Point *p = ARENA_NEW(&pt->arena, Point);
    *p = (Point){.node = n, .map = ARENA_ARRAY(&pt->arena, const Ix *, n->rank)};
    if (n->rank) memcpy(p->map, map, sizeof *map * (size_t)n->rank);
    *slot = (intptr_t)p;
    return p;
}

/* The points that p reads, over `axes` of its node; those it reduces are numbered from `base`. */
static void make_in(Walk *w, Point *p, int base) {
    Graph *g = w->gr->g;
    const Node *n = p->node;
    p->base = base;
    const Ix **axes = ARENA_ARRAY(&w->pt->arena, const Ix *, n->naxes);
    for (int i = 0; i < n->naxes; i++)
        axes[i] = i < n->rank ? p->map[i] : ix_axis(g->ix, p->base + i - n->rank);
    if (!p->in) p->in = ARENA_ARRAY(&w->pt->arena, Point *, n->nin);
    for (int k = 0; k < n->nin; k++) {
        const Operand *o = &n->in[k];
        int rank = g->nodes.v[o->node]->rank;
        const Ix **sub = ARENA_ARRAY(&w->pt->arena, const Ix *, rank);
        for (int i = 0; i < rank; i++) sub[i] = ix_at(g->ix, o->map[i], axes, n->naxes);
        p->in[k] = point_at(w, o->node, sub);
        p->in[k]->checked |= o->checked != 0;
    }
}

/* ---- the walk ---- */

static void walk_point(Walk *w, Point *p);

/* How often what uses the axes of x is computed, at least `it`. */
static double iters_in(const Walk *w, const Ix *x, double it) {
    if (x->kind == IX_AXIS) return fmax(it, w->pt->iters.v[x->num]);
    for (int i = 0; i < x->n && x->has_axis; i++) it = iters_in(w, x->arg[i], it);
    return it;
}

static double iters_of(const Walk *w, const Point *p) {
    double it = w->grid;
    for (int i = 0; i < p->node->rank; i++) it = iters_in(w, p->map[i], it);
    return it;
}

static void walk_gathers(Walk *w, const Ix *x) {
    if (!x->has_value) return;
    for (int i = 0; i < x->n; i++) walk_gathers(w, x->arg[i]);
    if (x->kind == IX_VALUE) walk_point(w, point_at(w, (int)x->num, x->arg));
}

enum { ANY_DOMAIN = -2 }; /* of a contraction computed at its own points */

static int read_key(Walk *w, int node, const Ix *const *map, int domain) {
    Group *gr = w->gr;
    int rank = domain == ANY_DOMAIN ? 0 : gr->g->nodes.v[node]->rank;
    int64_t small[18], *key = rank < 17 ? small : ARENA_ARRAY(&gr->arena, int64_t, rank + 2);
    key[0] = domain;
    key[1] = node;
    for (int i = 0; i < rank; i++) key[i + 2] = map[i]->id;
    intptr_t *slot = map_put(&gr->read_keys, key, sizeof *key * (size_t)(rank + 2));
    if (!*slot) {
        vec_push(&gr->arena, &gr->last, 0);
        vec_push(&gr->arena, &gr->last_round, 0);
        *slot = gr->last.n;
    }
    return (int)*slot - 1;
}

/* Of a root's own walk. */
static GroupRead *note_read(Walk *w, const Point *p, int key) {
    Group *gr = w->gr;
    const Node *n = p->node, *root = gr->g->nodes.v[w->memo->root.v[0]];
    GroupRead r = {.node = n->id, .key = key, .map = ARENA_ARRAY(&gr->arena, const Ix *, n->rank)};
    if (n->rank) memcpy(r.map, p->map, sizeof *p->map * (size_t)n->rank);
    r.here = group_same_domain(root, n) && group_identity(p->map, n->rank);
    if (!gr->slow[n->id] && !r.here && root->loop < 0 && !p->checked &&
        group_covers(gr->g, root, n, p->map)) {
        r.inside = ARENA_ARRAY(&gr->arena, const Ix *, n->rank);
        memcpy(r.inside, p->map, sizeof *p->map * (size_t)n->rank);
    }
    vec_push(&gr->arena, &w->memo->reads, r);
    return &w->memo->reads.v[w->memo->reads.n - 1];
}

/* Two matrices are multiplied, at all points of the root: here, or inside of its loop. */
static void note_product(Walk *w, const Point *p) {
    GroupRead *r = note_read(w, p, read_key(w, p->node->id, p->map, ANY_DOMAIN));
    r->product = r->here || r->inside;
    if (!r->product) w->memo->reads.n--;
}

/* Of a step with a shared loop: what does not depend on an axis of the grid is computed once for
 * those of its elements that a kernel holds at once. Where tensor cores are used these are rows, or
 * columns, all of them if it is not known how many there are: head dimensions are few. What is
 * loaded again comes from a cache. */
static double shared_iters(const Walk *w, const Point *p, bool load) {
    enum { ROWS = 128, COLUMNS = 512, GENERAL = 1, AXES = 64 };
    bool used[AXES] = {false};
    double it = 1;
    int n = w->pt->extent.n < AXES ? w->pt->extent.n : AXES;
    for (int a = 0; a < n; a++) {
        for (int d = 0; d < p->node->rank && !used[a]; d++) used[a] = ix_uses_axis(p->map[d], a);
        bool column = w->columns >> a & 1, grid = a < w->first->rank;
        bool all = column && !ix_is_const(w->first->axes[a].extent, NULL);
        double held = !w->fast ? GENERAL : column ? COLUMNS : ROWS;
        if (used[a])
            it *= w->pt->extent.v[a];
        else if (grid && !all && !load)
            it *= ceil(w->pt->extent.v[a] / held);
    }
    return it;
}

static void walk_read(Walk *w, const Point *p) {
    const Node *n = p->node;
    double all = 1, *touched = &w->pt->touched[n->id];
    for (int i = 0; i < n->rank; i++) all *= group_value_extent(w->gr, n, i);
    if (*touched == 0) vec_push(&w->gr->arena, &w->pt->loads, n->id);
    bool online = w->step >= 0 && w->gr->steps[w->step].loop >= 0;
    *touched = fmin(all, *touched + (online ? shared_iters(w, p, true) : iters_of(w, p)));
    if (w->step == GROUP_UNPLACED) note_read(w, p, read_key(w, p->node->id, p->map, w->domain));
}

bool group_same_map(const Ix *const *a, const Ix *const *b, int n) {
    return !n || !memcmp(a, b, sizeof *a * (size_t)n);
}

/* Is it where the step computes such a value? */
static bool own_point(const Walk *w, const Point *p) {
    const Node *n = p->node;
    if (w->step >= 0 && w->gr->steps[w->step].loop >= 0)
        return group_same_map(p->map, w->gr->place[n->id], n->rank);
    if (!w->block || group_same_domain(n, w->gr->g->nodes.v[w->block->outer]))
        return group_identity(p->map, n->rank);
    return group_same_map(p->map, w->block->cover, n->rank);
}

bool group_walk_loaded(const Walk *w, const Point *p) {
    const Node *n = p->node;
    if (n->kind == N_INPUT) return true;
    if (!w->gr->store[n->id]) return false;
    return w->gr->step[n->id] != w->step || !own_point(w, p);
}

/* False when this walk was here. */
static bool arrive(Walk *w, Point *p) {
    if (p->walk == w->pt->walk) return false;
    p->walk = w->pt->walk;
    w->instances++;
    int id = p->node->id;
    if (w->pt->seen[id] == w->pt->walk) return true;
    w->pt->seen[id] = w->pt->walk;
    vec_push(&w->gr->arena, &w->memo->seen, id);
    vec_push(&w->gr->arena, &w->memo->stored, (char)w->gr->store[id]);
    return true;
}

/* Reductions of the step with others inside of their loop share that loop, and so do those that
 * `online` found. */
static int base_of(Walk *w, const Node *n) {
    bool online = w->step >= 0 && n->loop >= 0 && n->loop == w->gr->steps[w->step].loop;
    if (online && w->loop_base < 0) w->loop_base = w->pt->iters.n;
    if (online) return w->loop_base;
    if (!w->block || n->kind != N_REDUCE || w->gr->step[n->id] != w->step) return w->pt->iters.n;
    const Node *outer = w->gr->g->nodes.v[w->block->outer];
    bool shares = n->naxes == outer->naxes && group_same_domain(n, outer);
    for (int i = n->rank; i < n->naxes && shares; i++)
        shares = n->axes[i].extent == outer->axes[i].extent;
    return shares ? n->rank : w->pt->iters.n;
}

static void note_loop(Walk *w, const Point *p) {
    const Node *n = p->node;
    if (w->memo->loop < 0) w->memo->loop = n->loop;
    if (n->loop < 0 || n->loop != w->memo->loop) return;
    for (int a = 0; a < w->first->rank && a < 64; a++)
        for (int d = 0; d < n->rank; d++)
            if (ix_uses_axis(p->map[d], a)) w->covered |= (uint64_t)1 << a;
}

/* Whoever reads a reduction at more places than it has elements makes it again at each, a thread
 * from the first element to the last: some 20 ns an element, whatever the arithmetic is. */
static void note_again(Walk *w, const Node *n, double points) {
    double own = 1, length = 1;
    if (n->kind != N_REDUCE || n->red == RED_contract || w->block) return;
    for (int i = 0; i < n->rank; i++) own *= group_value_extent(w->gr, n, i);
    for (int i = n->rank; i < n->naxes; i++) length *= group_number(w->gr, n->axes[i].extent);
    if (points > own) w->again = fmax(w->again, 0.02 * length);
}

static void walk_point(Walk *w, Point *p) {
    const Node *n = p->node;
    if (w->instances > MAX_INSTANCES || !arrive(w, p)) return;
    for (int i = 0; i < n->rank; i++) walk_gathers(w, p->map[i]);
    if (group_walk_loaded(w, p)) {
        walk_read(w, p);
        return;
    }
    bool product = group_is_product(n);
    int base = base_of(w, n);
    if (!p->in || (n->naxes > n->rank && p->base != base)) make_in(w, p, base);
    if (product && group_turned(w, p)) return;
    if (product) group_count_product(w, p);
    bool online = w->step >= 0 && w->gr->steps[w->step].loop >= 0;
    if (product && n->loop < 0 && w->step == GROUP_UNPLACED) note_product(w, p);
    double it = online ? shared_iters(w, p, false) : iters_of(w, p);
    if (!online) note_again(w, n, it);
    for (int i = n->rank; i < n->naxes; i++) {
        double extent = group_number(w->gr, n->axes[i].extent);
        it *= extent;
        if (base + i - n->rank != w->pt->iters.n) continue;
        vec_push(&w->gr->arena, &w->pt->iters, it);
        vec_push(&w->gr->arena, &w->pt->extent, extent);
    }
    note_loop(w, p);
    int made = 0;
    bool tensor = product && group_on_tensor_cores(w, p, &made);
    if (w->fast && n->red == RED_contract && n->kind == N_REDUCE)
        w->online += it * flops_of(n);
    else
        *(tensor ? &w->tensor : &w->flops) += it * flops_of(n) / w->share;
    if (tensor && made) w->making += it * flops_of(n);
    for (int k = 0; k < n->nin; k++) {
        double before = w->share;
        if (tensor && (made >> k & 1)) w->share = group_share_of(w, n, k);
        walk_point(w, p->in[k]);
        w->share = before;
    }
}

static void walk_root(Walk *w, const Node *root) {
    const Ix **map = ARENA_ARRAY(&w->pt->arena, const Ix *, root->rank);
    for (int i = 0; i < root->rank; i++) map[i] = ix_axis(w->gr->g->ix, i);
    const GroupStep *b = w->block;
    if (b && !group_same_domain(root, w->gr->g->nodes.v[b->outer]))
        memcpy(map, b->cover, sizeof *map * (size_t)root->rank);
    if (w->step >= 0 && w->gr->steps[w->step].loop >= 0 && root->rank)
        memcpy(map, w->gr->place[root->id], sizeof *map * (size_t)root->rank);
    walk_point(w, point_at(w, root->id, map));
}

/* Equal for nodes with equal extents. */
static int domain_of(Walk *w, const Node *n) {
    Group *gr = w->gr;
    int64_t *key = ARENA_ARRAY(&w->pt->arena, int64_t, n->rank + 1);
    key[0] = -1;
    for (int i = 0; i < n->rank; i++) key[i + 1] = n->axes[i].extent->id;
    intptr_t *slot = map_put(&gr->read_keys, key, sizeof *key * (size_t)(n->rank + 1));
    if (!*slot) *slot = (intptr_t)gr->read_keys.n;
    return (int)*slot;
}

static void walk_all(Walk *w, GroupMemo *m) {
    Points *pt = w->pt;
    Graph *g = w->gr->g;
    const GroupStep *st = w->step >= 0 ? &w->gr->steps[w->step] : NULL;
    bool online = st && st->loop >= 0;
    int head = w->block ? w->block->outer : online ? st->wide : m->root.v[0];
    const Node *first = g->nodes.v[head];
    if (pt->arena.total > POINT_BYTES) {
        arena_free(&pt->arena);
        pt->map = (Map){0};
    }
    pt->map.arena = &pt->arena;
    pt->walk++;
    pt->iters.n = pt->extent.n = pt->loads.n = 0;
    m->loop = w->loop_base = -1;
    w->first = first;
    w->fast = online && m->about.fast;
    w->columns = w->fast ? group_online_columns(w->gr, first) : 0;
    m->seen.n = m->stored.n = m->reads.n = 0;
    w->memo = m;
    w->domain = domain_of(w, first);
    w->grid = w->share = 1;
    for (int i = 0; i < first->rank; i++) w->grid *= group_value_extent(w->gr, first, i);
    for (int i = 0; i < first->rank; i++) {
        vec_push(&w->gr->arena, &pt->iters, w->grid);
        vec_push(&w->gr->arena, &pt->extent, group_value_extent(w->gr, first, i));
    }
    if (w->block) walk_root(w, first); /* numbers the axes of the loop */
    for (int i = 0; i < m->root.n; i++) walk_root(w, g->nodes.v[m->root.v[i]]);
    /* A value with axes of its own would compute the loop again for each of their elements. */
    if (first->rank < 64 && w->covered != ((uint64_t)1 << first->rank) - 1) m->loop = -1;
}

/* ---- memos ---- */

static bool same_about(const GroupAbout *a, const GroupAbout *b) {
    return a->outer == b->outer && a->inner == b->inner && a->loop == b->loop &&
           a->wide == b->wide && a->fast == b->fast;
}

static bool holds(const Group *gr, const GroupMemo *m, const int *root, int n,
                  const GroupAbout *about) {
    if (!m->used || m->root.n != n || memcmp(m->root.v, root, sizeof *root * (size_t)n))
        return false;
    if (!same_about(&m->about, about)) return false;
    for (int i = 0; i < m->seen.n; i++)
        if (m->stored.v[i] != (char)gr->store[m->seen.v[i]]) return false;
    return true;
}

/* The memo of a walk from these roots; true when what it says holds, else it is one to fill. */
static bool recall(Group *gr, GroupMemo (*all)[GROUP_MEMOS], const int *root, int n,
                   const GroupAbout *about, GroupMemo **out) {
    GroupMemo *m = all[root[0]], *old = m;
    for (int i = 0; i < GROUP_MEMOS; i++) {
        if (m[i].used < old->used) old = &m[i];
        if (!holds(gr, &m[i], root, n, about)) continue;
        *out = &m[i];
        m[i].used = ++gr->clock;
        return true;
    }
    old->used = ++gr->clock;
    old->root.n = 0;
    old->about = *about;
    for (int i = 0; i < n; i++) vec_push(&gr->arena, &old->root, root[i]);
    *out = old;
    return false;
}

static void forget_loads(Points *pt) {
    for (int i = 0; i < pt->loads.n; i++) pt->touched[pt->loads.v[i]] = 0;
}

const GroupMemo *group_reads(Group *gr, const Node *n) {
    GroupMemo *m;
    const GroupAbout alone = {-1, -1, -1, -1, false};
    if (recall(gr, gr->reads, &n->id, 1, &alone, &m)) return m;
    Walk w = {.gr = gr, .pt = gr->points, .step = GROUP_UNPLACED};
    walk_all(&w, m);
    group_settle(gr, m);
    forget_loads(w.pt);
    return m;
}

static int by_number(const void *a, const void *b) {
    return *(const int *)a - *(const int *)b;
}

/* A loop that makes factors takes so much longer, and so many microseconds to begin: guesses, not
 * measured. A launch less is worth that; the traffic of a step that remains is rarely. */
#define MAKING    0.25
#define MAKING_US 0.5

/* Microseconds of one step: a launch, then the slower of memory and arithmetic. */
double group_step_price(Group *gr, int s) {
    const GroupStep *st = &gr->steps[s];
    Graph *g = gr->g;
    GroupMemo *m;
    GroupAbout about = {st->outer, st->inner, st->loop, st->wide, false};
    about.fast = st->loop >= 0 && group_online_fast(gr, st->loop);
    if (recall(gr, gr->priced, st->node.v, st->node.n, &about, &m)) return m->price;
    Walk w = {.gr = gr, .pt = gr->points, .step = s, .block = st->outer < 0 ? NULL : st};
    walk_all(&w, m);
    IntList *loads = &w.pt->loads;
    if (loads->n) qsort(loads->v, (size_t)loads->n, sizeof *loads->v, by_number);
    double bytes = 0;
    for (int i = 0; i < loads->n; i++)
        bytes += w.pt->touched[loads->v[i]] * dtype_bytes(g->nodes.v[loads->v[i]]->type);
    for (int i = 0; i < st->node.n; i++) {
        const Node *n = g->nodes.v[st->node.v[i]];
        double count = 1;
        for (int d = 0; d < n->rank; d++) count *= group_value_extent(gr, n, d);
        bytes += count * dtype_bytes(n->type);
    }
    forget_loads(w.pt);
    /* traffic counts a little even where arithmetic hides it: it breaks the ties */
    double faster = w.apart ? 1 : gr->target->f32_tflops / gr->target->bf16_tflops;
    double flops = w.flops + w.tensor * faster + w.making * faster * MAKING;
    flops += w.online * gr->target->f32_tflops / gr->target->bf16_tflops;
    m->price = COST_LAUNCH_US + fmax(cost_time(gr->target, flops, bytes), w.again) +
               0.1 * cost_time(gr->target, 0, bytes);
    if (w.making > 0) m->price += MAKING_US;
    group_find_strays(&w);
    if (w.instances > MAX_INSTANCES || w.stray) m->price = INFINITY;
    return m->price;
}
