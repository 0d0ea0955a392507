/* group_online.c - steps whose reductions share a loop (online.c).
 *
 * Stored values join such a step wherever they compute reductions of the same loop, or read what it
 * stores at its own place, if all can be placed over the one of most axes (online_place.c). So the
 * log-sum-exp of a row, [b, h, i], stands beside [b, i, h, e].
 */
#include "passes/group_int.h"
#include "passes/online_int.h"

#include <string.h>

/* ---- joining ---- */

/* Where all values of the step and n would stand; false: somewhere one cannot. */
static bool placed(Group *gr, int step, const Node *n, int *wide, const Ix ***maps) {
    const GroupStep *s = &gr->steps[step];
    int *node = ARENA_ARRAY(&gr->arena, int, s->node.n + 1), count = s->node.n;
    if (count) memcpy(node, s->node.v, sizeof *node * (size_t)count);
    if (n) node[count++] = n->id;
    return online_place(gr->g, node, count, wide, maps);
}

/* The reads of n, over the axes of the widest, meet what the step stores where it stands. */
static bool reads_fit(Group *gr, int step, const Node *n, const GroupMemo *m, const Ix *const *at,
                      const Ix ***maps) {
    enum { AXES = 128 };
    const GroupStep *s = &gr->steps[step];
    const Ix **axes = ARENA_ARRAY(&gr->arena, const Ix *, AXES); /* those of loops are elsewhere */
    for (int a = 0; a < AXES; a++)
        axes[a] = a < n->rank ? at[a] : ix_axis(gr->g->ix, ONLINE_INNER + a);
    for (int i = 0; i < m->reads.n; i++) {
        const GroupRead *r = &m->reads.v[i];
        const Node *x = gr->g->nodes.v[r->node];
        if (x->kind == N_INPUT || r->product) continue;
        if (gr->step[x->id] > step) return false;
        if (gr->step[x->id] < step) continue;
        int k = 0;
        while (s->node.v[k] != x->id) k++;
        for (int d = 0; d < x->rank; d++)
            if (ix_at(gr->g->ix, r->map[d], axes, AXES) != maps[k][d]) return false;
    }
    return true;
}

/* Columns that the products of the loop itself sum, as a kernel would hold them. */
static int64_t columns(const Group *gr, int loop, const int *node, int n) {
    enum { UNKNOWN = 64 };
    int64_t all = 0;
    bool *seen = ARENA_ARRAY(gr->g->arena, bool, gr->g->nodes.n);
    for (int i = 0; i < n; i++) {
        OnlinePairs pairs = {0};
        online_pairs(gr->g, gr->g->nodes.v[node[i]], &pairs);
        for (int k = 0; k < pairs.n; k++) {
            const Node *x = gr->g->nodes.v[pairs.v[k].node];
            int64_t extent, each = 1;
            if (x->loop != loop || x->red != RED_contract || seen[x->id]) continue;
            seen[x->id] = true;
            for (int d = 0; d < x->rank; d++)
                if (x->roles[d] == 'n')
                    each *= ix_is_const(x->axes[d].extent, &extent) ? extent : UNKNOWN;
            all += each > 1 ? each : 0;
        }
    }
    return all;
}

/* More sums than registers hold are better made one after the other. */
static bool too_wide(Group *gr, int step, const Node *n) {
    enum { MOST = 256 };
    const GroupStep *s = &gr->steps[step];
    int *node = ARENA_ARRAY(&gr->arena, int, s->node.n + 1);
    memcpy(node, s->node.v, sizeof *node * (size_t)s->node.n);
    node[s->node.n] = n->id;
    int64_t before = columns(gr, s->loop, node, s->node.n);
    int64_t after = columns(gr, s->loop, node, s->node.n + 1);
    return after > before && after > MOST;
}

static bool has_nibbles(const Group *gr, const GroupStep *s) {
    for (int i = 0; i < s->node.n; i++)
        if (dtype_bits(gr->g->nodes.v[s->node.v[i]]->type) == 4) return true;
    return false;
}

static bool reads_from(const Group *gr, int step, const GroupMemo *m) {
    for (int i = 0; i < m->reads.n; i++)
        if (gr->g->nodes.v[m->reads.v[i].node]->kind != N_INPUT && !m->reads.v[i].product &&
            gr->step[m->reads.v[i].node] == step)
            return true;
    return false;
}

int group_online(Group *gr, const Node *n, const GroupMemo *m) {
    for (int s = gr->nsteps - 1; s >= 0; s--) {
        const GroupStep *st = &gr->steps[s];
        if (st->loop < 0 || has_nibbles(gr, st)) continue;
        if (m->loop >= 0 ? m->loop != st->loop : !reads_from(gr, s, m)) continue;
        int wide;
        const Ix ***maps = ARENA_ARRAY(&gr->arena, const Ix **, st->node.n + 1);
        if (!placed(gr, s, n, &wide, maps) || (m->loop < 0 && wide != st->wide)) continue;
        if (reads_fit(gr, s, n, m, maps[st->node.n], maps) && !too_wide(gr, s, n)) return s;
    }
    return -1;
}

void group_online_enter(Group *gr, int step, const Node *n, const GroupMemo *m) {
    GroupStep *s = &gr->steps[step];
    if (s->node.n == 1) s->loop = m->loop;
    if (s->loop < 0) return;
    const Ix ***maps = ARENA_ARRAY(&gr->arena, const Ix **, s->node.n);
    bool ok = placed(gr, step, NULL, &s->wide, maps);
    FK_ASSERT(ok && n);
    for (int i = 0; i < s->node.n; i++) gr->place[s->node.v[i]] = maps[i];
}

/* ---- what a loop need not store ---- */

int group_loops(const Group *gr) {
    int n = 0;
    for (int i = 0; i < gr->g->nodes.n; i++)
        if (gr->g->nodes.v[i]->loop >= n) n = gr->g->nodes.v[i]->loop + 1;
    return n;
}

/* What a block in a frame of its own leaves (block_online.c) is read by what joins it. */
static bool is_left(const Node *n) {
    return n->part && (n->kind == N_OP || (n->loop >= 0 && n->frame < 0));
}

/* Its reductions, and what they are made of inside of the loop. */
bool group_unstore(Group *gr, int loop) {
    bool changed = false;
    for (int i = 0; i < gr->g->nodes.n; i++) {
        OnlinePairs pairs = {0};
        if (gr->g->nodes.v[i]->loop != loop) continue;
        online_pairs(gr->g, gr->g->nodes.v[i], &pairs);
        for (int k = 0; k < pairs.n; k++) {
            int x = pairs.v[k].node;
            if (is_left(gr->g->nodes.v[x])) continue;
            changed |= gr->candidate[x] && gr->store[x];
            if (gr->candidate[x]) gr->store[x] = false;
        }
    }
    return changed;
}

/* ---- tensor cores ---- */

/* Bits of a factor that is read from memory. */
static int width(const Group *gr, const Operand *o) {
    const Node *n = gr->g->nodes.v[o->node];
    bool there = n->kind == N_INPUT || gr->store[n->id];
    return there && dtype_class(n->type) == DC_REAL ? dtype_bits(n->type) : 0;
}

typedef struct Shape {         /* of the products of a loop */
    int inner, outer;          /* inside; of the loop itself */
    int inner_m, outer_m;      /* that have rows of their own in one factor */
    int batches, frames, open; /* open: outer ones with columns that are not known */
    int64_t depth, columns;    /* elements that inner ones sum, columns of outer ones, if known */
    int64_t widest;            /* columns of one of them */
    bool *seen;                /* inner ones */
    bool fast;
} Shape;

/* What n is made of down to what is stored: a product behind that is of another kernel. */
static void mark_made(const Group *gr, const Node *n, bool *made) {
    for (int k = 0; k < n->nin; k++) {
        const Node *x = gr->g->nodes.v[n->in[k].node];
        if (made[x->id] || gr->store[x->id]) continue;
        made[x->id] = true;
        mark_made(gr, x, made);
    }
}

static bool *made_of(const Group *gr, const Node *n) {
    bool *made = ARENA_ARRAY(gr->g->arena, bool, gr->g->nodes.n);
    mark_made(gr, n, made);
    return made;
}

static bool is_inner(const Node *n, const bool *made) {
    return made[n->id] && n->kind == N_REDUCE && n->red == RED_contract && n->loop < 0;
}

/* Of n's axes [from, to) with this role, or all of them: elements, as far as they are known. */
static int64_t elements(const Node *n, int from, int to, char role) {
    int64_t all = 1, extent;
    for (int d = from; d < to; d++)
        if ((!role || n->roles[d] == role) && ix_is_const(n->axes[d].extent, &extent) && extent > 0)
            all *= extent;
    return all;
}

/* Bytes of shared memory that the smallest shape of schedule_online.c takes: factors of 64 rows,
 * two blocks of 32 of those over j, or one; and what stands beside them. */
static bool too_large(const Group *gr, const Shape *s) {
    enum { REST = 4096 };
    int blocks = gr->target->has & TGT_W ? 2 : 1;
    return (64 + blocks * 32) * 2 * s->depth + blocks * 32 * 2 * s->columns + REST >
           gr->target->smem;
}

/* Is a factor in pages, or where data say? mma.sync has its factors from threads that know. */
static bool is_copied(const Group *gr, const Node *n) {
    bool known = true;
    for (int k = 0; k < n->nin && !(gr->target->has & TGT_W); k++) {
        const Node *x = gr->g->nodes.v[n->in[k].node];
        for (int d = 0; d < x->rank; d++)
            known &= !n->in[k].map[d]->has_value && n->in[k].map[d]->kind != IX_MOD;
    }
    return known;
}

static void note_outer(const Group *gr, Shape *s, const Node *n) {
    int a = width(gr, &n->in[0]), b = width(gr, &n->in[1]);
    if (!a && !b && !strchr(n->roles, 'm') && !strchr(n->roles, 'n')) return; /* of each row */
    s->fast &= n->nin - n->where == 2 && (a == 16 || b == 16) && is_copied(gr, n);
    s->outer++;
    s->outer_m += strchr(n->roles, 'm') && strchr(n->roles, 'n');
    s->batches += strchr(n->roles, 'b') != NULL;
    int64_t columns = strchr(n->roles, 'n') ? elements(n, 0, n->rank, 'n') : 0;
    s->columns += columns;
    if (columns > s->widest) s->widest = columns;
    for (int d = 0; d < n->rank; d++)
        s->open += n->roles[d] != 'b' && !ix_is_const(n->axes[d].extent, NULL);
}

static void note_inner(const Group *gr, Shape *s, const Node *n) {
    s->fast &= n->nin - n->where == 2 && width(gr, &n->in[0]) == 16 && width(gr, &n->in[1]) == 16;
    s->fast &= is_copied(gr, n);
    s->inner++;
    s->inner_m += group_is_product(n);
    if (!s->seen[n->id]) s->depth += elements(n, n->rank, n->naxes, 0);
    s->seen[n->id] = true;
}

/* Inner products of two 16-bit factors; outer ones of what is computed and a 16-bit factor. Of both
 * or none the rows share a factor. (q k^T) v is told from two linear layers, whose second has too
 * many columns to be held, by its batches. */
bool group_online_fast(const Group *gr, int loop) {
    Shape s = {.fast = (gr->target->has & (TGT_W | TGT_M)) && !gr->strict};
    s.seen = ARENA_ARRAY(gr->g->arena, bool, gr->g->nodes.n);
    for (int i = 0; i < gr->g->nodes.n && s.fast; i++) {
        const Node *n = gr->g->nodes.v[i];
        OnlinePairs pairs = {0};
        if (n->loop != loop) continue;
        s.frames += n->frame >= 0;
        if (n->red == RED_contract) note_outer(gr, &s, n);
        online_pairs(gr->g, n, &pairs);
        const bool *made = made_of(gr, n);
        for (int k = 0; k < pairs.n; k++) {
            const Node *x = gr->g->nodes.v[pairs.v[k].node];
            if (is_inner(x, made)) note_inner(gr, &s, x);
            s.fast &= x->loop < 0 || x->loop == loop || gr->store[x->id]; /* one loop */
        }
    }
    if (s.outer && !s.frames && s.open && !s.batches) return false;
    if (too_large(gr, &s)) return false;
    return s.fast && s.inner && (!s.outer || !s.inner_m == !s.outer_m);
}

uint64_t group_online_columns(const Group *gr, const Node *n) {
    OnlinePairs pairs = {0};
    uint64_t columns = n->rank < 64 ? ((uint64_t)1 << n->rank) - 1 : 0;
    const bool *made = made_of(gr, n);
    online_pairs(gr->g, n, &pairs);
    for (int i = 0; i < pairs.n; i++) {
        const Node *x = gr->g->nodes.v[pairs.v[i].node];
        if (!is_inner(x, made)) continue;
        for (int a = 0; a < n->rank; a++)
            for (int d = 0; d < x->rank; d++)
                if (ix_uses_axis(pairs.v[i].map[d], a)) columns &= ~((uint64_t)1 << a);
    }
    return columns;
}
