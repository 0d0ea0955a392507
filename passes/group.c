/* group.c - cuts the graph into steps: which values are stored, and which are stored together.
 *
 * Everything follows from the set of stored nodes: a node that is not stored is computed again
 * wherever it is read (once per kernel and index map), a stored one is computed in the kernel of
 * its step and loaded by the others. Outputs and values read through an index that may fall
 * outside must be stored. Each other candidate (a reduction, or a value with more than one use) is
 * priced both ways by a roofline over the whole fn, bytes against multiply-adds, and the cheaper
 * way is taken, producers first, until a sweep changes nothing. Prices of both ways go into
 * g->edges.
 *
 * Two stored nodes share a step when their domains are the same and one is read by the other only
 * at its own point, or both read the same operand at the same place.
 */
#include "passes/cost_int.h"
#include "passes/group_int.h"

#include <math.h>
#include <string.h>

enum { MAX_INSTANCES = 4000, MAX_SWEEPS = 3, UNPLACED = -2 };

/* ---- sizes and work ---- */

double group_number(const Group *gr, const Ix *x) {
    bool ok = true;
    int64_t v = ix_eval(x, &(IxEnv){.size = gr->sizes}, &ok);
    return ok && v > 0 ? (double)v : 0;
}

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
static double value_extent(const Group *gr, const Node *n, int axis) {
    return gr->invariant ? GROUP_SIZE_HINT : group_number(gr, n->axes[axis].extent);
}

bool group_same_domain(const Node *a, const Node *b) {
    if (a->rank != b->rank) return false;
    for (int i = 0; i < a->rank; i++)
        if (a->axes[i].extent != b->axes[i].extent) return false;
    return true;
}

bool group_identity(const Ix *const *map, int n) {
    for (int i = 0; i < n; i++) {
        int axis;
        if (!ix_is_axis(map[i], &axis) || axis != i) return false;
    }
    return true;
}

/* ---- walking a step ---- */

typedef struct Read {
    int node;
    const Ix **map;
} Read;

typedef struct Walk {
    Group *gr;
    Arena arena; /* of this walk */
    Map seen;
    int step;          /* of the root; nodes of it are computed at their own point */
    VEC(double) iters; /* per axis: how often a value that needs it is computed */
    double grid, flops;
    double *touched; /* per node: elements loaded */
    VEC(Read) reads;
    int instances;
} Walk;

static void walk_value(Walk *w, int id, const Ix *const *map);

static double iters_of(const Walk *w, const Ix *const *map, int n) {
    double it = w->grid;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < w->iters.n; k++)
            if (w->iters.v[k] > it && ix_uses_axis(map[i], k)) it = w->iters.v[k];
    return it;
}

static void walk_gathers(Walk *w, const Ix *x) {
    if (!x->has_value) return;
    for (int i = 0; i < x->n; i++) walk_gathers(w, x->arg[i]);
    if (x->kind == IX_VALUE) walk_value(w, (int)x->num, x->arg);
}

static void walk_read(Walk *w, const Node *n, const Ix *const *map) {
    double all = 1;
    for (int i = 0; i < n->rank; i++) all *= value_extent(w->gr, n, i);
    w->touched[n->id] = fmin(all, w->touched[n->id] + iters_of(w, map, n->rank));
    Read r = {n->id, ARENA_ARRAY(&w->arena, const Ix *, n->rank)};
    if (n->rank) memcpy(r.map, map, sizeof *map * (size_t)n->rank);
    vec_push(&w->arena, &w->reads, r);
}

static bool first_time(Walk *w, int id, const Ix *const *map, int n) {
    int64_t *key = ARENA_ARRAY(&w->arena, int64_t, n + 1);
    key[0] = id;
    for (int i = 0; i < n; i++) key[i + 1] = map[i]->id;
    intptr_t *slot = map_put(&w->seen, key, sizeof *key * (size_t)(n + 1));
    if (*slot) return false;
    *slot = 1;
    w->instances++;
    return true;
}

static bool loaded(const Walk *w, const Node *n, const Ix *const *map) {
    if (n->kind == N_INPUT) return true;
    if (!w->gr->store[n->id]) return false;
    return w->gr->step[n->id] != w->step || !group_identity(map, n->rank);
}

static void walk_value(Walk *w, int id, const Ix *const *map) {
    Graph *g = w->gr->g;
    const Node *n = g->nodes.v[id];
    if (w->instances > MAX_INSTANCES || !first_time(w, id, map, n->rank)) return;
    for (int i = 0; i < n->rank; i++) walk_gathers(w, map[i]);
    if (loaded(w, n, map)) {
        walk_read(w, n, map);
        return;
    }
    const Ix **axes = ARENA_ARRAY(&w->arena, const Ix *, n->naxes);
    double it = iters_of(w, map, n->rank);
    for (int i = 0; i < n->rank; i++) axes[i] = map[i];
    for (int i = n->rank; i < n->naxes; i++) {
        axes[i] = ix_axis(g->ix, w->iters.n);
        it *= group_number(w->gr, n->axes[i].extent);
        vec_push(&w->arena, &w->iters, it);
    }
    w->flops += it * flops_of(n);
    for (int k = 0; k < n->nin; k++) {
        const Operand *o = &n->in[k];
        int rank = g->nodes.v[o->node]->rank;
        const Ix **sub = ARENA_ARRAY(&w->arena, const Ix *, rank);
        for (int i = 0; i < rank; i++) sub[i] = ix_at(g->ix, o->map[i], axes, n->naxes);
        walk_value(w, o->node, sub);
    }
}

static void walk_start(Walk *w, Group *gr, const Node *root, int step) {
    *w = (Walk){.gr = gr, .step = step, .grid = 1};
    w->seen.arena = &w->arena;
    w->touched = ARENA_ARRAY(&w->arena, double, gr->g->nodes.n);
    for (int i = 0; i < root->rank; i++) w->grid *= value_extent(gr, root, i);
    for (int i = 0; i < root->rank; i++) vec_push(&w->arena, &w->iters, w->grid);
}

static void walk_root(Walk *w, const Node *root) {
    const Ix **map = ARENA_ARRAY(&w->arena, const Ix *, root->rank);
    for (int i = 0; i < root->rank; i++) map[i] = ix_axis(w->gr->g->ix, i);
    walk_value(w, root->id, map);
}

/* ---- steps of a set of stored nodes ---- */

static bool same_read(const Read *a, const Read *b, const Graph *g) {
    if (a->node != b->node) return false;
    int rank = g->nodes.v[a->node]->rank;
    return !rank || !memcmp(a->map, b->map, sizeof *a->map * (size_t)rank);
}

/* The step that node n joins, or the number of a new one. */
static int place(Group *gr, const Node *n) {
    Graph *g = gr->g;
    Walk w;
    walk_start(&w, gr, n, UNPLACED);
    walk_root(&w, n);
    int earliest = 0, join = -1;
    for (int i = 0; i < w.reads.n; i++) {
        const Read *r = &w.reads.v[i];
        if (g->nodes.v[r->node]->kind == N_INPUT) continue;
        int s = gr->step[r->node];
        bool here = group_same_domain(n, g->nodes.v[r->node]) && group_identity(r->map, n->rank);
        if (here && s > join) join = s;
        if (!here && s + 1 > earliest) earliest = s + 1;
        if (here && s > earliest) earliest = s;
    }
    int found = -1;
    bool alone = !gr->fuse || dtype_bits(n->type) == 4; /* two 4-bit neighbours, one thread */
    for (int s = gr->nsteps - 1; s >= earliest && found < 0 && !alone; s--) {
        const GroupStep *st = &gr->steps[s];
        const Node *first = g->nodes.v[st->node[0]];
        if (!group_same_domain(n, first) || dtype_bits(first->type) == 4) continue;
        bool related = s == join;
        for (int i = 0; i < w.reads.n && !related; i++)
            for (int k = 0; k < st->nreads && !related; k++)
                related = same_read(&w.reads.v[i], &((Read *)st->reads)[k], g);
        if (related) found = s;
    }
    if (found < 0) {
        found = gr->nsteps++;
        gr->steps[found] = (GroupStep){.node = ARENA_ARRAY(&gr->scratch, int, g->nodes.n)};
    }
    GroupStep *st = &gr->steps[found];
    st->node[st->n++] = n->id;
    Read *all = ARENA_ARRAY(&gr->scratch, Read, st->nreads + w.reads.n);
    if (st->nreads) memcpy(all, st->reads, sizeof *all * (size_t)st->nreads);
    for (int i = 0; i < w.reads.n; i++) {
        Read *r = &all[st->nreads + i];
        int rank = g->nodes.v[w.reads.v[i].node]->rank;
        *r = (Read){w.reads.v[i].node, ARENA_ARRAY(&gr->scratch, const Ix *, rank)};
        if (rank) memcpy(r->map, w.reads.v[i].map, sizeof *r->map * (size_t)rank);
    }
    st->reads = all;
    st->nreads += w.reads.n;
    arena_free(&w.arena);
    return found;
}

static void partition(Group *gr) {
    arena_free(&gr->scratch);
    gr->steps = ARENA_ARRAY(&gr->scratch, GroupStep, gr->g->nodes.n + 1);
    gr->nsteps = 0;
    for (int i = 0; i < gr->g->nodes.n; i++) {
        gr->step[i] = gr->store[i] ? UNPLACED : -1;
        if (gr->store[i]) gr->step[i] = place(gr, gr->g->nodes.v[i]);
    }
}

/* Microseconds of one step: a launch, then the slower of memory and arithmetic. */
static double step_price(Group *gr, int s) {
    Graph *g = gr->g;
    const GroupStep *st = &gr->steps[s];
    Walk w;
    walk_start(&w, gr, g->nodes.v[st->node[0]], s);
    for (int i = 0; i < st->n; i++) walk_root(&w, g->nodes.v[st->node[i]]);
    double bytes = 0;
    for (int i = 0; i < g->nodes.n; i++) bytes += w.touched[i] * dtype_bytes(g->nodes.v[i]->type);
    for (int i = 0; i < st->n; i++) bytes += w.grid * dtype_bytes(g->nodes.v[st->node[i]]->type);
    double flops = w.flops;
    bool huge = w.instances > MAX_INSTANCES;
    arena_free(&w.arena);
    if (huge) return INFINITY;
    /* traffic counts a little even where arithmetic hides it: it breaks the ties */
    return COST_LAUNCH_US + cost_time(gr->target, flops, bytes) +
           0.1 * cost_time(gr->target, 0, bytes);
}

static double price(Group *gr) {
    partition(gr);
    double sum = 0;
    for (int s = 0; s < gr->nsteps; s++) sum += step_price(gr, s);
    return sum;
}

/* ---- candidates ---- */

/* A 4-bit store needs two neighbours in one thread, which a branch may not part: what branches is
 * computed before, in a step of its own. */
static void keep_branches_out(Group *gr, int id) {
    const Node *n = gr->g->nodes.v[id];
    for (int k = 0; k < n->nin; k++) {
        int o = n->in[k].node;
        const Node *src = gr->g->nodes.v[o];
        if (src->kind == N_REDUCE && src->where)
            gr->must[o] = "a masked sum under a 4-bit store";
        else if (!gr->must[o])
            keep_branches_out(gr, o);
    }
}

static void find_must(Group *gr) {
    Graph *g = gr->g;
    for (int i = 0; i < g->params.n; i++)
        if (g->params.v[i].out) gr->must[g->params.v[i].node] = "an output";
    for (int i = 0; i < g->nodes.n; i++)
        for (int k = 0; k < g->nodes.v[i]->nin; k++) {
            const Operand *o = &g->nodes.v[i]->in[k];
            if (o->checked && g->nodes.v[o->node]->kind != N_INPUT)
                gr->must[o->node] = "read at an index that may fall outside";
        }
    for (int i = 0; i < g->nodes.n; i++)
        if (gr->must[i] && dtype_bits(g->nodes.v[i]->type) == 4) keep_branches_out(gr, i);
}

/* Conditions, and values of indices and scalars alone, are always computed where they are used. */
static bool reads_memory(const Group *gr, const Node *n) {
    if (n->kind == N_INPUT) return n->rank > 0;
    if (n->kind != N_OP) return n->kind == N_REDUCE;
    for (int k = 0; k < n->nin; k++)
        if (gr->heavy[n->in[k].node]) return true;
    return n->op == OP_rand;
}

static void find_candidates(Group *gr) {
    Graph *g = gr->g;
    gr->heavy = ARENA_ARRAY(&gr->arena, bool, g->nodes.n);
    for (int i = 0; i < g->nodes.n; i++) gr->heavy[i] = reads_memory(gr, g->nodes.v[i]);
    int *uses = ARENA_ARRAY(&gr->arena, int, g->nodes.n);
    for (int i = 0; i < g->nodes.n; i++) {
        const Node *n = g->nodes.v[i];
        for (int k = 0; k < n->nin; k++) {
            const Node *src = g->nodes.v[n->in[k].node];
            bool plain = n->naxes == src->rank && group_identity(n->in[k].map, src->rank);
            uses[src->id] += plain ? 1 : 2;
        }
    }
    for (int i = 0; i < g->nodes.n; i++) {
        const Node *n = g->nodes.v[i];
        bool work = n->kind == N_OP || n->kind == N_REDUCE;
        gr->store[i] = gr->must[i] && n->kind != N_INPUT;
        bool cheap = n->type == DT_bool || !reads_memory(gr, n);
        gr->candidate[i] = work && !gr->must[i] && (n->kind == N_REDUCE || (uses[i] > 1 && !cheap));
        if (gr->candidate[i] || (work && !gr->fuse && uses[i])) gr->store[i] = true;
    }
}

/* ---- reasons ---- */

/* Per node: whether a reduction reads it, near or far. */
static bool *feeding(Group *gr) {
    const Graph *g = gr->g;
    bool *feeds = ARENA_ARRAY(&gr->arena, bool, g->nodes.n);
    for (int i = g->nodes.n - 1; i >= 0; i--) {
        const Node *n = g->nodes.v[i];
        for (int k = 0; k < n->nin; k++) feeds[n->in[k].node] |= n->kind == N_REDUCE || feeds[i];
    }
    return feeds;
}

/* A reader of a reduction that runs over the reduced extents again. */
static bool reads_row_again(const Node *red, const Node *reader) {
    for (int a = red->rank; a < red->naxes; a++) {
        bool found = false;
        for (int b = 0; b < reader->naxes; b++)
            found |= reader->axes[b].extent == red->axes[a].extent;
        if (!found) return false;
    }
    return reader->naxes > red->rank;
}

static const char *cut_reason(const Group *gr, const Node *n, const Node *reader,
                              const bool *feeds) {
    if (gr->must[n->id]) return gr->must[n->id];
    if (!gr->fuse) return "--no-fuse";
    if (n->kind == N_REDUCE && reads_row_again(n, reader)) {
        if (reader->kind == N_REDUCE || feeds[reader->id]) return "needs online";
        return "its row is read again";
    }
    return "computing it again costs more than memory";
}

static double hundredths(double us) {
    return round(us * 100) / 100;
}

static void record_edges(Group *gr, const double *other, double now) {
    Graph *g = gr->g;
    const bool *feeds = feeding(gr);
    g->edges.n = 0;
    for (int i = 0; i < g->nodes.n; i++) {
        const Node *reader = g->nodes.v[i];
        for (int k = 0; k < reader->nin; k++) {
            const Node *n = g->nodes.v[reader->in[k].node];
            if (n->kind == N_INPUT || n->kind == N_CONST || n->kind == N_INDEX) continue;
            bool cut = gr->store[n->id] && (!gr->store[i] || gr->step[i] != gr->step[n->id]);
            if (!cut && !gr->candidate[n->id]) continue;
            Edge e = {n->id, i,
                      cut,   cut ? cut_reason(gr, n, reader, feeds) : "saves memory traffic",
                      -1,    -1};
            if (gr->candidate[n->id] && gr->fuse) {
                e.price = hundredths(now);
                e.other = hundredths(other[n->id]);
            }
            vec_push(g->arena, &g->edges, e);
        }
    }
}

/* ---- the pass ---- */

static void sweep(Group *gr, double *other) {
    double best = price(gr);
    for (int round = 0; round < MAX_SWEEPS; round++) {
        bool changed = false;
        for (int i = 0; i < gr->g->nodes.n; i++) {
            if (!gr->candidate[i]) continue;
            gr->store[i] = !gr->store[i];
            double t = price(gr);
            if (t < best) {
                other[i] = best;
                best = t;
                changed = true;
            } else {
                other[i] = t;
                gr->store[i] = !gr->store[i];
            }
        }
        if (!changed) break;
    }
}

bool pass_group(PassCtx *cx, Graph *g) {
    Group gr = {.g = g, .target = cx->target, .fuse = cx->fuse, .invariant = cx->invariant};
    gr.store = ARENA_ARRAY(&gr.arena, bool, g->nodes.n);
    gr.candidate = ARENA_ARRAY(&gr.arena, bool, g->nodes.n);
    gr.must = ARENA_ARRAY(&gr.arena, const char *, g->nodes.n);
    gr.step = ARENA_ARRAY(&gr.arena, int, g->nodes.n);
    int64_t *sizes = ARENA_ARRAY(&gr.arena, int64_t, g->sizes.n + 1);
    for (int i = 0; i < g->sizes.n; i++) sizes[i] = cx->hint ? cx->hint[i] : GROUP_SIZE_HINT;
    gr.sizes = sizes;
    find_must(&gr);
    find_candidates(&gr);
    double *other = ARENA_ARRAY(&gr.arena, double, g->nodes.n);
    if (cx->fuse) sweep(&gr, other);
    double now = price(&gr);
    bool changed = false;
    for (int i = 0; i < g->nodes.n; i++) {
        Node *n = g->nodes.v[i];
        changed |= n->store != gr.store[i] || n->step != gr.step[i];
        n->store = gr.store[i];
        n->step = gr.step[i];
    }
    record_edges(&gr, other, now);
    arena_free(&gr.scratch);
    arena_free(&gr.arena);
    return changed;
}
