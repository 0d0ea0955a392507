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
 * at its own point, or both read the same operand at the same place. What a step costs is
 * group_walk.c's.
 */
#include "passes/block_int.h"
#include "passes/group_int.h"
#include "passes/online_int.h"
#include "passes/passes.h"

#include <math.h>
#include <string.h>

enum { MAX_SWEEPS = 3 };

/* ---- sizes and maps ---- */

double group_number(const Group *gr, const Ix *x) {
    bool ok = true;
    int64_t v = ix_eval(x, &(IxEnv){.size = gr->sizes}, &ok);
    return ok && v > 0 ? (double)v : 0;
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

/* ---- steps of a set of stored nodes ---- */

/* The step that n joins: the last one that its reads allow, of those that hold what it reads at its
 * own point or inside of its loop, load what it loads, or compute a contraction that it needs. -1:
 * none. */
static int joins(Group *gr, const Node *n, const GroupMemo *m) {
    int earliest = 0, join = -1;
    for (int i = 0; i < m->reads.n; i++) {
        const GroupRead *r = &m->reads.v[i];
        if (gr->g->nodes.v[r->node]->kind == N_INPUT || r->product) continue;
        int s = gr->step[r->node];
        bool here = r->here || (r->inside && group_hosts(gr, s, n, m));
        if (here && s > join) join = s;
        if (!here && s + 1 > earliest) earliest = s + 1;
        if (here && s > earliest) earliest = s;
    }
    bool alone = !gr->fuse || dtype_bits(n->type) == 4; /* two 4-bit neighbours, one thread */
    if (alone) return -1;
    int online = group_online(gr, n, m);
    if (online >= 0 || m->loop >= 0) return online;
    int found = join >= earliest && group_takes(gr, join, n, m) ? join : -1;
    for (int i = 0; i < m->reads.n; i++) {
        int key = m->reads.v[i].key, s = gr->last.v[key];
        if (gr->last_round.v[key] != gr->round || s <= found || s < earliest) continue;
        if (group_takes(gr, s, n, m)) found = s;
    }
    found = group_joining(gr, n, m, earliest, found);
    if (found < 0) return -1;
    bool inside = m->block >= 0 && (m->product || gr->steps[found].product);
    return inside && !group_hosts(gr, found, n, m) ? -1 : found;
}

static int place(Group *gr, const Node *n) {
    const GroupMemo *m = group_reads(gr, n);
    int s = joins(gr, n, m);
    if (s < 0) {
        s = gr->nsteps++;
        IntList list = gr->steps[s].node, fast = gr->steps[s].fast; /* their memory */
        list.n = fast.n = 0;
        gr->steps[s] =
            (GroupStep){.node = list, .fast = fast, .outer = -1, .inner = -1, .joining = -1};
        gr->steps[s].loop = gr->steps[s].wide = -1;
    }
    group_enter(gr, s, n, m);
    group_online_enter(gr, s, n, m);
    bool open = group_takes(gr, s, n, m);
    for (int i = 0; i < m->reads.n && open; i++) {
        int key = m->reads.v[i].key;
        bool known = gr->last_round.v[key] == gr->round;
        if (!known || gr->last.v[key] < s) gr->last.v[key] = s;
        gr->last_round.v[key] = gr->round;
    }
    return s;
}

static void partition(Group *gr) {
    gr->nsteps = 0;
    gr->round++;
    for (int i = 0; i < gr->g->nodes.n; i++) {
        gr->step[i] = gr->store[i] ? GROUP_UNPLACED : -1;
        if (gr->store[i]) gr->step[i] = place(gr, gr->g->nodes.v[i]);
    }
}

static double price(Group *gr) {
    partition(gr);
    double sum = 0;
    for (int s = 0; s < gr->nsteps; s++) sum += group_step_price(gr, s);
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

/* k/c beside k%c: together they move as one. */
static bool has_rest(const Operand *o, int rank, int d) {
    const Ix *x = o->map[d];
    for (int k = 0; k < rank && x->kind == IX_DIV; k++) {
        const Ix *y = o->map[k];
        if (y->kind == IX_MOD && y->arg[0] == x->arg[0] && y->arg[1] == x->arg[1]) return true;
    }
    return false;
}

/* Do two positions of a read move together? */
static bool on_diagonal(const Graph *g, const Node *n, const Operand *o) {
    int rank = g->nodes.v[o->node]->rank;
    for (int a = 0; a < n->naxes; a++) {
        int uses = 0;
        for (int d = 0; d < rank; d++) uses += ix_uses_axis(o->map[d], a) && !has_rest(o, rank, d);
        if (uses > 1) return true;
    }
    return false;
}

/* Per node: whether it is computed along a diagonal of its domain alone, as what is computed in the
 * frame of a block at the elements of that block. */
static bool *find_thin(Group *gr) {
    const Graph *g = gr->g;
    bool *thin = ARENA_ARRAY(&gr->arena, bool, g->nodes.n);
    bool *wide = ARENA_ARRAY(&gr->arena, bool, g->nodes.n);
    for (int i = g->nodes.n - 1; i >= 0; i--) {
        const Node *n = g->nodes.v[i];
        thin[i] &= !wide[i] && !gr->must[i];
        for (int k = 0; k < n->nin; k++) {
            bool is = on_diagonal(g, n, &n->in[k]) || thin[i];
            *(is ? &thin[n->in[k].node] : &wide[n->in[k].node]) = true;
        }
    }
    return thin;
}

static void find_candidates(Group *gr) {
    Graph *g = gr->g;
    gr->heavy = ARENA_ARRAY(&gr->arena, bool, g->nodes.n);
    for (int i = 0; i < g->nodes.n; i++) gr->heavy[i] = reads_memory(gr, g->nodes.v[i]);
    int *uses = ARENA_ARRAY(&gr->arena, int, g->nodes.n);
    const bool *thin = find_thin(gr);
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
        bool part = gr->fuse && uses[i] == 1 && group_is_block_sum(g, n);
        gr->candidate[i] = work && !part && !gr->must[i] &&
                           (n->kind == N_REDUCE || (uses[i] > 1 && !cheap && !thin[i]));
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

/* Is n computed inside of the loop of a reduction of its step? */
static bool is_inside(const Group *gr, const Node *n) {
    if (!gr->store[n->id]) return false;
    int outer = gr->steps[gr->step[n->id]].outer;
    return outer >= 0 && !group_same_domain(n, gr->g->nodes.v[outer]);
}

/* The reduction that n is made of, through pointwise values of as many axes; NULL. */
static const Node *reduced_in(const Graph *g, const Node *n) {
    for (const Node *next = n; next; n = next) {
        if (n->kind == N_REDUCE) return n;
        next = NULL;
        for (int k = 0; k < n->nin && n->kind == N_OP && !next; k++) {
            const Node *in = g->nodes.v[n->in[k].node];
            if (in->rank == n->rank && (in->kind == N_OP || in->kind == N_REDUCE)) next = in;
        }
    }
    return NULL;
}

static const char *cut_reason(const Group *gr, const Node *n, const Node *reader,
                              const bool *feeds) {
    if (gr->must[n->id]) return gr->must[n->id];
    if (!gr->fuse) return "--no-fuse";
    if (gr->steps[gr->step[n->id]].outer >= 0 && n->kind == N_REDUCE)
        return "blocks are joined in the order of their numbers";
    if (n->kind == N_REDUCE && reads_row_again(n, reader)) {
        const char *why = online_refusal(gr->g, n, reader);
        if (why) return why;
        if (n->loop < 0 && (reader->kind == N_REDUCE || feeds[reader->id])) return "needs online";
        return "its row is read again";
    }
    const Node *red = reduced_in(gr->g, n);
    const char *why = red ? online_refusal(gr->g, red, reader) : NULL;
    return why ? why : "computing it again costs more than memory";
}

/* Of a reduction in the step of its reader: one that does not separate has a loop of its own. */
static const char *join_reason(const Group *gr, const Node *n, const Node *reader) {
    if (is_inside(gr, n)) return "a tile holds the block";
    const char *why = NULL;
    if (n->kind == N_REDUCE) why = online_refusal(gr->g, n, reader);
    return why ? arena_printf(gr->g->arena, "a loop of its own: %s", why) : "saves memory traffic";
}

static double hundredths(double us) {
    return round(us * 100) / 100;
}

/* Per node: the step in which it is computed; MANY when there are several. */
enum { NOWHERE = -1, MANY = -2 };

static int *homes(Group *gr) {
    const Graph *g = gr->g;
    int *home = ARENA_ARRAY(&gr->arena, int, g->nodes.n);
    for (int i = 0; i < g->nodes.n; i++) home[i] = NOWHERE;
    for (int i = g->nodes.n - 1; i >= 0; i--) {
        const Node *n = g->nodes.v[i];
        if (gr->store[i]) home[i] = gr->step[i];
        for (int k = 0; k < n->nin; k++) {
            int *h = &home[n->in[k].node];
            *h = *h == NOWHERE || *h == home[i] ? home[i] : MANY;
        }
    }
    return home;
}

static void record_edges(Group *gr, const double *other, double now) {
    Graph *g = gr->g;
    const bool *feeds = feeding(gr);
    const int *home = homes(gr);
    g->edges.n = 0;
    for (int i = 0; i < g->nodes.n; i++) {
        const Node *reader = g->nodes.v[i];
        for (int k = 0; k < reader->nin; k++) {
            const Node *n = g->nodes.v[reader->in[k].node];
            if (n->kind == N_INPUT || n->kind == N_CONST || n->kind == N_INDEX) continue;
            bool cut = gr->store[n->id] && home[i] != gr->step[n->id], held = is_inside(gr, n);
            if (!cut && !gr->candidate[n->id] && !held) continue;
            Edge e = {n->id, i, cut, "", -1, -1};
            e.reason = cut ? cut_reason(gr, n, reader, feeds) : join_reason(gr, n, reader);
            if (gr->candidate[n->id] && gr->fuse) {
                e.price = hundredths(now);
                e.other = hundredths(other[n->id]);
            }
            vec_push(g->arena, &g->edges, e);
        }
    }
}

/* ---- the pass ---- */

/* All that a shared loop need not store is taken back at once: one by one, each costs more than it
 * saves. */
static double take_loops(Group *gr, double *other, double best) {
    bool *before = ARENA_ARRAY(&gr->arena, bool, gr->g->nodes.n);
    for (int k = 0; k < group_loops(gr); k++) {
        memcpy(before, gr->store, sizeof *before * (size_t)gr->g->nodes.n);
        if (!group_unstore(gr, k)) continue;
        double t = price(gr);
        for (int i = 0; i < gr->g->nodes.n; i++)
            if (before[i] != gr->store[i]) other[i] = t < best ? best : t;
        if (t < best)
            best = t;
        else
            memcpy(gr->store, before, sizeof *before * (size_t)gr->g->nodes.n);
    }
    return best;
}

static void sweep(Group *gr, double *other) {
    double best = take_loops(gr, other, price(gr));
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
    gr.strict = cx->strict;
    gr.store = ARENA_ARRAY(&gr.arena, bool, g->nodes.n);
    gr.candidate = ARENA_ARRAY(&gr.arena, bool, g->nodes.n);
    gr.must = ARENA_ARRAY(&gr.arena, const char *, g->nodes.n);
    gr.step = ARENA_ARRAY(&gr.arena, int, g->nodes.n);
    gr.place = ARENA_ARRAY(&gr.arena, const Ix **, g->nodes.n);
    int64_t *sizes = ARENA_ARRAY(&gr.arena, int64_t, g->sizes.n + 1);
    for (int i = 0; i < g->sizes.n; i++) sizes[i] = cx->hint ? cx->hint[i] : GROUP_SIZE_HINT;
    gr.sizes = sizes;
    gr.steps = ARENA_ARRAY(&gr.arena, GroupStep, g->nodes.n + 1);
    group_walk_init(&gr);
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
    group_walk_free(&gr);
    arena_free(&gr.arena);
    return (!cx->strict && block_undo(g)) || changed;
}
