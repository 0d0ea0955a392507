/* online.c - which reductions can share one loop over what they reduce.
 *
 *     m = max[j] s[j]      l = sum[j] exp(s[j] - m)      o = sum[j] exp(s[j] - m) * v[j, e]
 *
 * A sum that depends on an earlier max or min over the same range joins its loop if what it adds
 * separates from it (online_sep.c): that one becomes its frame. So does a reduction that depends on
 * nothing of the loop but is made of the same product that is summed inside of it. Nodes get the
 * number of their loop; the graph stays as it is otherwise, and so does what it means: `group` may
 * still part them.
 *
 * A loop is kept if one of its reductions has a frame, or is made of an inner product and is itself
 * a product with another factor, (q k^T) v, or masked: what else is reduced of a product is
 * block's.
 */
#include "passes/online_int.h"

enum { LOOPS_MAX = 64, VISITS_MAX = 2000, PRODUCTS_MAX = 8 };

typedef struct Loop {
    VEC(int) member;
    int product[PRODUCTS_MAX], nproducts; /* inside */
    bool kept;
} Loop;

typedef struct Online {
    Graph *g;
    Arena arena;
    uint64_t *depends; /* per node: on members of which loops */
    Loop loop[LOOPS_MAX];
    int nloops;
    int *of, *frame; /* per node: its loop, its frame; -1 */
    int *seen, walk; /* per node: the last walk that visited it */
} Online;

bool online_same_range(const Node *a, const Node *b) {
    int reduced = a->naxes - a->rank;
    if (reduced != b->naxes - b->rank || !reduced) return false;
    for (int k = 0; k < reduced; k++)
        if (a->axes[a->rank + k].extent != b->axes[b->rank + k].extent) return false;
    return true;
}

/* ---- what a reduction depends on ---- */

static uint64_t of_ix(const Online *on, const Ix *x) {
    uint64_t d = 0;
    if (!x || !x->has_value) return 0;
    if (x->kind == IX_VALUE) d = on->depends[x->num];
    for (int i = 0; i < x->n; i++) d |= of_ix(on, x->arg[i]);
    return d;
}

static uint64_t depends_on(const Online *on, const Node *n) {
    uint64_t d = of_ix(on, n->ix);
    for (int k = 0; k < n->nin; k++) {
        const Operand *o = &n->in[k];
        d |= on->depends[o->node];
        for (int r = 0; r < on->g->nodes.v[o->node]->rank; r++) d |= of_ix(on, o->map[r]);
    }
    return d;
}

/* ---- products inside ---- */

typedef struct Find {
    Online *on;
    const Node *n;
    int visits;
    int product[PRODUCTS_MAX], nproducts;
    int plain; /* factors without */
} Find;

static bool uses_reduced(const Graph *g, const Node *n, const Operand *o) {
    for (int d = n->rank; d < n->naxes; d++)
        if (rb_uses(g, o, d)) return true;
    return false;
}

static void find_products(Find *f, const Operand *o) {
    Graph *g = f->on->g;
    const Node *n = g->nodes.v[o->node];
    int *seen = &f->on->seen[n->id];
    if (*seen == f->on->walk || ++f->visits > VISITS_MAX || !uses_reduced(g, f->n, o)) return;
    *seen = f->on->walk;
    if (n->kind == N_REDUCE && n->red == RED_contract && f->nproducts < PRODUCTS_MAX)
        f->product[f->nproducts++] = n->id;
    for (int k = 0; k < n->nin && n->kind == N_OP; k++) {
        Operand in;
        if (rb_compose(g, o, &n->in[k], &in)) find_products(f, &in);
    }
}

static Find products_in(Online *on, const Node *n) {
    Find f = {.on = on, .n = n};
    for (int k = 0; k < n->nin - n->where; k++) {
        int before = f.nproducts;
        on->walk++;
        find_products(&f, &n->in[k]);
        f.plain += f.nproducts == before && uses_reduced(on->g, n, &n->in[k]);
    }
    return f;
}

static bool shares_product(const Loop *l, const Find *f) {
    for (int i = 0; i < l->nproducts; i++)
        for (int k = 0; k < f->nproducts; k++)
            if (l->product[i] == f->product[k]) return true;
    return false;
}

/* ---- joining ---- */

/* Whether the domain has an element (linear.c counts it) is told where its elements are met. */
static bool shares_condition(const Online *on, const Loop *l, const Node *n) {
    for (int i = 0; i < l->member.n && n->where; i++) {
        const Node *m = on->g->nodes.v[l->member.v[i]];
        if (!m->where || m->in[m->nin - 1].node != n->in[n->nin - 1].node) continue;
        if (on->g->nodes.v[n->in[0].node]->kind == N_CONST) return true;
    }
    return false;
}

static bool separates(Online *on, const Loop *l, const Node *n, int *frame) {
    uint64_t bit = (uint64_t)1 << (l - on->loop);
    Sep s;
    for (int i = 0; i < l->member.n; i++) {
        const Node *f = on->g->nodes.v[l->member.v[i]];
        bool can = (f->red == RED_max || f->red == RED_min) && f->type == DT_f32;
        if (!can || !online_separate(on->g, n, f->id, on->depends, bit, &s)) continue;
        *frame = f->id;
        return true;
    }
    return false;
}

static void enter(Online *on, Loop *l, const Node *n, int frame, const Find *f) {
    int k = (int)(l - on->loop);
    vec_push(&on->arena, &l->member, n->id);
    on->depends[n->id] |= (uint64_t)1 << k;
    on->of[n->id] = k;
    on->frame[n->id] = frame;
    for (int i = 0; i < f->nproducts && l->nproducts < PRODUCTS_MAX; i++)
        l->product[l->nproducts++] = f->product[i];
    bool outer = n->red == RED_contract && f->plain;
    l->kept |= frame >= 0 || (f->nproducts && (outer || n->where));
}

static bool join(Online *on, const Node *n, const Find *f) {
    for (int k = 0; k < on->nloops; k++) {
        Loop *l = &on->loop[k];
        if (!online_same_range(n, on->g->nodes.v[l->member.v[0]])) continue;
        int frame = -1;
        bool apart = !(on->depends[n->id] >> k & 1);
        if (apart && !shares_product(l, f) && !shares_condition(on, l, n)) continue;
        if (!apart && !separates(on, l, n, &frame)) continue;
        enter(on, l, n, frame, f);
        return true;
    }
    return false;
}

static void visit(Online *on, const Node *n) {
    on->depends[n->id] = depends_on(on, n);
    if (n->kind != N_REDUCE || n->naxes == n->rank) return;
    Find f = products_in(on, n);
    if (join(on, n, &f) || on->nloops == LOOPS_MAX) return;
    enter(on, &on->loop[on->nloops++], n, -1, &f);
}

bool online_number(Graph *g) {
    Online *on = ARENA_NEW(g->arena, Online);
    on->g = g;
    on->depends = ARENA_ARRAY(&on->arena, uint64_t, g->nodes.n);
    on->of = ARENA_ARRAY(&on->arena, int, g->nodes.n);
    on->frame = ARENA_ARRAY(&on->arena, int, g->nodes.n);
    on->seen = ARENA_ARRAY(&on->arena, int, g->nodes.n);
    for (int i = 0; i < g->nodes.n; i++) on->of[i] = on->frame[i] = -1;
    for (int i = 0; i < g->nodes.n; i++) visit(on, g->nodes.v[i]);
    int number[LOOPS_MAX], kept = 0;
    for (int k = 0; k < on->nloops; k++) number[k] = on->loop[k].kept ? kept++ : -1;
    bool changed = false;
    for (int i = 0; i < g->nodes.n; i++) {
        Node *n = g->nodes.v[i];
        int loop = on->of[i] < 0 ? -1 : number[on->of[i]], frame = loop < 0 ? -1 : on->frame[i];
        changed |= n->loop != loop || n->frame != frame;
        n->loop = loop;
        n->frame = frame;
    }
    arena_free(&on->arena);
    return changed;
}

bool pass_online(PassCtx *cx, Graph *g) {
    bool moments = online_moments(g, cx->short_rows), changed = online_number(g) || moments;
    if (!online_select(g)) return changed;
    online_number(g);
    return true;
}

/* ---- why not ---- */

const char *online_refusal(Graph *g, const Node *n, const Node *reader) {
    enum { LARGE = 5000 };
    if (g->nodes.n > LARGE) return NULL;
    Arena a = {0};
    const char *why = NULL;
    const uint64_t *of_n = online_depends(&a, g, n->id, -1),
                   *of_reader = online_depends(&a, g, reader->id, -1);
    for (int i = reader->id; i < g->nodes.n && !why; i++) {
        const Node *r = g->nodes.v[i];
        Sep s;
        if (!of_n[i] || !of_reader[i] || r->kind != N_REDUCE || !online_same_range(r, n)) continue;
        bool can = (n->red == RED_max || n->red == RED_min) && n->type == DT_f32;
        online_separate(g, r, n->id, of_n, 1, &s);
        why = s.refused;
        if (!why && !can)
            why = arena_printf(g->arena, "a %s is no frame that moves", reduce_name(n->red));
        if (!why) break;
    }
    arena_free(&a);
    return why;
}

/* ---- how far a frame may lag ---- */

/* What a computed factor is rounded to bounds it: f16 ends at 2^16. */
double online_bits(const Graph *g, const Node *n) {
    enum { WIDE = 64, NARROW = 15 };
    for (int k = 0; k < n->nin - n->where && n->red == RED_contract; k++)
        if (g->nodes.v[n->in[k].node]->type == DT_f16) return NARROW;
    return WIDE;
}
