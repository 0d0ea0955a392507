/* group_block.c - values that are computed inside of the loop of a reduction in their own step.
 *
 * A reduction of a tile's block (block.c made it, or its extent is known and small) visits each
 * element of a larger domain once:
 *     part[nb, m] = sum[ni in 128 where 128*nb + ni < N] f(y[m, 128*nb + ni])
 * visits [M, N]. So its step can compute and store y too, there in the loop. Its grid is the domain
 * of the reduction (`outer`), the points inside of the loop are those of `inner`, at `cover`. This
 * is worth while where a contraction is computed at these points: a tile of it holds the block.
 */
#include "passes/block_int.h"
#include "passes/group_int.h"

#include <string.h>

bool group_is_product(const Node *n) {
    return n->kind == N_REDUCE && n->red == RED_contract && strchr(n->roles, 'm') &&
           strchr(n->roles, 'n');
}

enum { LOOP_MAX = 256 }; /* elements of a loop that a tile can hold */

typedef struct Position { /* block * outer + inner, or the axis inner alone */
    int outer, inner;
    int64_t block;
} Position;

static bool position_of(IxPool *p, const Ix *x, const Node *n, Position *out) {
    IxTerm *t;
    *out = (Position){-1, -1, 0};
    if (ix_is_axis(x, &out->inner)) return out->inner < n->naxes;
    if (x->kind != IX_ADD || x->has_value || ix_terms(p, x, &t) != 2) return false;
    for (int i = 0; i < 2; i++) {
        int axis;
        if (!t[i].atom || !ix_is_axis(t[i].atom, &axis) || axis >= n->naxes) return false;
        if (t[i].coef == 1)
            out->inner = axis;
        else
            out->outer = axis, out->block = t[i].coef;
    }
    return out->outer >= 0 && out->inner >= n->rank && out->outer < n->rank && out->block > 1;
}

/* Does the position walk [0, extent) once, where it is below `extent`? *cut: not everywhere. */
static bool walks(IxPool *p, const Node *n, const Position *at, const Ix *extent, bool *cut) {
    const Ix *inner = n->axes[at->inner].extent;
    int64_t size;
    *cut = false;
    if (at->outer < 0) return inner == extent;
    const Ix *blocks =
        ix_div(p, ix_add(p, extent, ix_const(p, at->block - 1)), ix_const(p, at->block));
    *cut = !ix_is_const(extent, &size) || size % at->block;
    return inner == ix_const(p, at->block) && n->axes[at->outer].extent == blocks;
}

/* Does the condition of n say just that the positions in `cut` (x >= 0 each) are inside? */
static bool says_just(const Graph *g, const Node *n, const Ix *const *cut, int ncut) {
    IxVec facts = {0};
    bool exact = true;
    if (!n->where) return !ncut;
    infer_conjuncts(g, &n->in[n->nin - 1], &facts, &exact);
    if (!exact || facts.n != ncut) return false;
    for (int i = 0; i < ncut; i++) {
        bool found = false;
        for (int k = 0; k < facts.n; k++) found |= facts.v[k] == cut[i];
        if (!found) return false;
    }
    return true;
}

bool group_covers(const Graph *g, const Node *n, const Node *to, const Ix *const *map) {
    IxPool *p = g->ix;
    uint64_t seen = 0;
    const Ix *cut[32];
    int ncut = 0, axes = 0;
    if (n->kind != N_REDUCE || n->naxes == n->rank || n->naxes > 60 || to->rank > 32) return false;
    for (int a = n->rank; a < n->naxes; a++) {
        int64_t size;
        if (!ix_is_const(n->axes[a].extent, &size) || size < 1 || size > LOOP_MAX) return false;
    }
    for (int d = 0; d < to->rank; d++) {
        Position at;
        bool some;
        if (!position_of(p, map[d], n, &at)) return false;
        if (!walks(p, n, &at, to->axes[d].extent, &some)) return false;
        uint64_t mine = (uint64_t)1 << at.inner | (at.outer < 0 ? 0 : (uint64_t)1 << at.outer);
        if (seen & mine) return false;
        seen |= mine;
        axes += at.outer < 0 ? 1 : 2;
        if (some) cut[ncut++] = ix_sub(p, ix_sub(p, to->axes[d].extent, map[d]), ix_const(p, 1));
    }
    return axes == n->naxes && says_just(g, n, cut, ncut);
}

static bool same_map(const Ix *const *a, const Ix *const *b, int n) {
    return !n || !memcmp(a, b, sizeof *a * (size_t)n);
}

/* The first contraction inside says at which points, else the first read; what does not agree is
 * a read of memory. */
void group_settle(Group *gr, GroupMemo *m) {
    m->block = -1;
    for (int turn = 0; turn < 2; turn++)
        for (int i = 0; i < m->reads.n && m->block < 0; i++)
            if (m->reads.v[i].inside && (turn || m->reads.v[i].product)) m->block = i;
    m->product = false;
    for (int i = 0; i < m->reads.n; i++) {
        GroupRead *r = &m->reads.v[i];
        if (r->inside) {
            const GroupRead *b = &m->reads.v[m->block];
            const Node *x = gr->g->nodes.v[r->node], *y = gr->g->nodes.v[b->node];
            bool agrees = group_same_domain(x, y) && same_map(r->inside, b->inside, x->rank);
            if (!agrees) r->inside = NULL;
        }
        m->product |= r->product && (r->here || r->inside);
    }
}

static bool has_nibbles(const Group *gr, const GroupStep *s) {
    for (int i = 0; i < s->node.n; i++)
        if (dtype_bits(gr->g->nodes.v[s->node.v[i]]->type) == 4) return true;
    return false;
}

/* Where its factors are in memory, or are stored there. */
static bool is_fast(const Group *gr, const GroupRead *r) {
    int cores = gr->target->has & (TGT_W | TGT_M);
    if (!r->product || !cores || gr->strict) return false;
    const Node *n = gr->g->nodes.v[r->node];
    bool half = dtype_bits(gr->g->nodes.v[n->in[0].node]->type) == 16;
    if (!(cores & TGT_W) && (!half || !r->here)) return false; /* fp8 and blocks are wgmma's */
    return block_is_fast(gr->g, n, gr->store);
}

static bool has(const IntList *list, int x) {
    for (int i = 0; i < list->n; i++)
        if (list->v[i] == x) return true;
    return false;
}

/* The one matrix that both products read alike; -1: none, or more. */
static int in_common(const Graph *g, const Node *a, const Node *b) {
    int found = -1;
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 2; k++) {
            const Operand *x = &a->in[i], *y = &b->in[k];
            bool same = x->node == y->node && same_map(x->map, y->map, g->nodes.v[x->node]->rank);
            if (same && found >= 0) return -1;
            if (same) found = 2 * i + k;
        }
    return found;
}

/* The memory order of a factor: bit 0, the last dimension is read at k (or k%c); bit 1, k is read
 * at two dimensions. */
static int order_of(const Graph *g, const Node *n, const Operand *o) {
    int order = 0, rank = g->nodes.v[o->node]->rank;
    for (int d = 0; d < rank; d++) {
        const Ix *x = o->map[d];
        if (!ix_uses_axis(x, n->rank)) continue;
        if (d == rank - 1) order |= 1;
        if (x->kind == IX_MOD) order |= 2;
    }
    return order;
}

bool group_together(const Graph *g, const Node *a, const Node *b) {
    if (a->nin != 2 || b->nin != 2 || a->where || b->where || a->naxes != a->rank + 1) return false;
    if (!group_same_domain(a, b) || b->naxes != a->naxes || a->type != b->type) return false;
    if (a->axes[a->rank].extent != b->axes[b->rank].extent) return false;
    if (a->loop != b->loop || a->frame >= 0 || b->frame >= 0) return false;
    if (a->lo || a->hi || b->lo || b->hi) return false;
    int both = in_common(g, a, b);
    if (both < 0) return false;
    const Operand *x = &a->in[1 - both / 2], *y = &b->in[1 - both % 2];
    return g->nodes.v[x->node]->type == g->nodes.v[y->node]->type &&
           order_of(g, a, x) == order_of(g, b, y);
}

/* Tensor cores take a kernel with one contraction, or some that go together: another one would cost
 * all of them those. */
static bool another_product(const Group *gr, const GroupStep *s, const GroupMemo *m) {
    Node *const *v = gr->g->nodes.v;
    int more = s->fast.n;
    for (int i = 0; i < m->reads.n && s->fast.n; i++) {
        const GroupRead *r = &m->reads.v[i];
        if (!is_fast(gr, r) || has(&s->fast, r->node)) continue;
        for (int k = 0; k < s->fast.n; k++)
            if (!group_together(gr->g, v[s->fast.v[k]], v[r->node])) return true;
        if (++more > MMA_SUMS) return true;
    }
    return false;
}

bool group_takes(const Group *gr, int step, const Node *n, const GroupMemo *m) {
    const GroupStep *s = &gr->steps[step];
    Node *const *v = gr->g->nodes.v;
    const GroupRead *b = m->block >= 0 ? &m->reads.v[m->block] : NULL;
    if (s->loop >= 0 || has_nibbles(gr, s) || another_product(gr, s, m)) return false;
    if (s->outer < 0 && group_same_domain(n, v[s->node.v[0]])) return true;
    if (s->outer < 0)
        return b && (m->product || s->product) && group_same_domain(v[b->node], v[s->node.v[0]]);
    if (b && group_same_domain(v[b->node], v[s->inner]))
        return group_same_domain(n, v[s->outer]) && same_map(b->inside, s->cover, v[b->node]->rank);
    return group_same_domain(n, v[s->outer]) || group_same_domain(n, v[s->inner]);
}

/* What depends on a result of the step's loop, at its own point, needs a second loop. */
bool group_hosts(const Group *gr, int step, const Node *n, const GroupMemo *m) {
    if (m->block < 0 || !(m->product || gr->steps[step].product)) return false;
    for (int i = 0; i < m->reads.n; i++) {
        const GroupRead *r = &m->reads.v[i];
        if (r->here && !r->product && gr->step[r->node] == step) return false;
    }
    return group_takes(gr, step, n, m);
}

/* The step whose loop leaves the value that r reads; NULL: none has it so. */
static GroupStep *left_by(const Group *gr, const GroupRead *r) {
    const Node *n = gr->g->nodes.v[r->node];
    if (n->kind == N_INPUT || r->product) return NULL;
    GroupStep *s = &gr->steps[gr->step[r->node]];
    return s->outer >= 0 && group_same_domain(n, gr->g->nodes.v[s->outer]) ? s : NULL;
}

int group_joining(const Group *gr, const Node *n, const GroupMemo *m, int earliest, int found) {
    for (int i = 0; i < m->reads.n; i++) {
        const GroupStep *s = left_by(gr, &m->reads.v[i]);
        if (!s || s->joining <= found || s->joining < earliest) continue;
        if (group_takes(gr, s->joining, n, m)) found = s->joining;
    }
    return found;
}

void group_enter(Group *gr, int step, const Node *n, const GroupMemo *m) {
    GroupStep *s = &gr->steps[step];
    for (int i = 0; i < m->reads.n; i++) {
        GroupStep *from = left_by(gr, &m->reads.v[i]);
        if (from && from != s) from->joining = step;
    }
    vec_push(&gr->arena, &s->node, n->id);
    s->product |= m->product;
    for (int i = 0; i < m->reads.n; i++) {
        const GroupRead *r = &m->reads.v[i];
        if (is_fast(gr, r) && !has(&s->fast, r->node)) vec_push(&gr->arena, &s->fast, r->node);
    }
    if (m->block < 0 || s->outer >= 0 || !s->product) return;
    s->outer = n->id;
    s->inner = m->reads.v[m->block].node;
    s->cover = m->reads.v[m->block].inside;
}

/* ---- of a grouped graph ---- */

enum { ELSEWHERE = 1 << 20 }; /* axes of other reductions */

typedef struct Find {
    const Graph *g;
    const Node *n;
    Map seen;
    bool product; /* look for a contraction, else for a stored value of the step */
    const Ix *const *map;
} Find;

static bool find(Find *f, const Node *n, const Ix *const *map);

static bool find_in(Find *f, const Node *n, const Ix *const *axes, int nax) {
    for (int k = 0; k < n->nin; k++) {
        const Operand *o = &n->in[k];
        const Node *to = f->g->nodes.v[o->node];
        if (o->checked) continue;
        const Ix **map = ARENA_ARRAY(f->g->arena, const Ix *, to->rank);
        for (int d = 0; d < to->rank; d++) map[d] = ix_at(f->g->ix, o->map[d], axes, nax);
        if (find(f, to, map)) return true;
    }
    return false;
}

static bool find(Find *f, const Node *n, const Ix *const *map) {
    int64_t *key = ARENA_ARRAY(f->g->arena, int64_t, n->rank + 1);
    key[0] = n->id;
    for (int d = 0; d < n->rank; d++) key[d + 1] = map[d]->id;
    intptr_t *seen = map_put(&f->seen, key, sizeof *key * (size_t)(n->rank + 1));
    if (*seen || n->kind == N_INPUT) return false;
    *seen = 1;
    bool mine = n->store && n->step == f->n->step;
    if ((f->product ? group_is_product(n) && (mine || !n->store) : mine) &&
        group_covers(f->g, f->n, n, map)) {
        f->map = map;
        return true;
    }
    if ((n->store && !mine) || (n->kind != N_OP && n->kind != N_REDUCE)) return false;
    const Ix **axes = ARENA_ARRAY(f->g->arena, const Ix *, n->naxes);
    for (int a = 0; a < n->naxes; a++)
        axes[a] = a < n->rank ? map[a] : ix_axis(f->g->ix, ELSEWHERE + a);
    return find_in(f, n, axes, n->naxes);
}

bool group_inside(const Graph *g, const int *store, int n, const Node **outer,
                  const Ix *const **cover) {
    bool one = true;
    for (int i = 1; i < n; i++)
        one &= group_same_domain(g->nodes.v[store[i]], g->nodes.v[store[0]]);
    for (int i = 0; i < 2 * n && !one; i++) {
        const Node *x = g->nodes.v[store[i / 2]];
        Find f = {.g = g, .n = x, .product = i % 2 == 0, .seen = {.arena = g->arena}};
        const Ix **self = ARENA_ARRAY(g->arena, const Ix *, x->naxes);
        for (int a = 0; a < x->naxes; a++) self[a] = ix_axis(g->ix, a);
        if (x->kind != N_REDUCE || !find_in(&f, x, self, x->naxes)) continue;
        *outer = x;
        *cover = f.map;
        return true;
    }
    return false;
}
