/* graph.c - making graphs: nodes, sweeping out the dead, cloning, names for printing, counts. */
#include "ir/graph.h"
#include "ir/text_int.h"

#include <string.h>

Graph *graph_new(Arena *a, const char *name) {
    Graph *g = ARENA_NEW(a, Graph);
    g->arena = a;
    g->name = arena_strdup(a, name);
    g->ix = ARENA_NEW(a, IxPool);
    ix_pool_init(g->ix, a);
    return g;
}

int graph_size(Graph *g, const char *name, Span sp) {
    for (int i = 0; i < g->sizes.n; i++)
        if (!strcmp(g->sizes.v[i].name, name)) return i;
    SizeSym s = {arena_strdup(g->arena, name), sp};
    vec_push(g->arena, &g->sizes, s);
    return g->sizes.n - 1;
}

Node *graph_node(Graph *g, NodeKind kind, DType type, int rank, int naxes, int nin) {
    Node *n = ARENA_NEW(g->arena, Node);
    n->id = g->nodes.n;
    n->kind = kind;
    n->type = type;
    n->rank = rank;
    n->naxes = naxes;
    n->nin = nin;
    n->axes = ARENA_ARRAY(g->arena, Axis, naxes);
    n->in = ARENA_ARRAY(g->arena, Operand, nin);
    n->param = n->step = n->loop = n->frame = -1;
    vec_push(g->arena, &g->nodes, n);
    return n;
}

void graph_map(Graph *g, Operand *o, int node) {
    o->node = node;
    o->map = ARENA_ARRAY(g->arena, const Ix *, g->nodes.v[node]->rank);
    o->checked = 0;
}

/* ---- sweep -------------------------------------------------------------------------------- */

/* Nodes in post order of a depth-first walk that starts from the nodes in their old order, so that
 * a graph that is already in order keeps it. The walk has a stack of its own: a chain of nodes may
 * be as long as memory. */
typedef struct Sweep {
    Graph *g;
    Arena scratch;
    char *state;    /* 0 unseen, 1 on the stack, 2 done */
    int *renumber;  /* old id to new; -1 */
    VEC(int) stack; /* open nodes */
    VEC(int) todo;  /* nodes to visit before the top of the stack closes */
    VEC(Node *) order;
} Sweep;

static void want(Sweep *s, int node) {
    if (node < 0 || node >= s->g->nodes.n) FK_BUG("graph %s: no node %%%d", s->g->name, node);
    if (s->state[node] == 1) FK_BUG("graph %s: %%%d reads itself", s->g->name, node);
    if (!s->state[node]) vec_push(&s->scratch, &s->todo, node);
}

static void want_values(Sweep *s, const Ix *x) {
    if (!x->has_value) return;
    if (x->kind == IX_VALUE) want(s, (int)x->num);
    for (int i = 0; i < x->n; i++) want_values(s, x->arg[i]);
}

/* Queues what node n reads, last first, so that the first operand is visited first. */
static void want_operands(Sweep *s, const Node *n) {
    if (n->ix) want_values(s, n->ix);
    for (int i = 0; n->lo && i < n->naxes - n->rank; i++) {
        if (n->lo[i]) want_values(s, n->lo[i]);
        if (n->hi[i]) want_values(s, n->hi[i]);
    }
    for (int i = n->nin - 1; i >= 0; i--) {
        const Operand *o = &n->in[i];
        want(s, o->node);
        for (int d = s->g->nodes.v[o->node]->rank - 1; d >= 0; d--) want_values(s, o->map[d]);
    }
}

static void visit(Sweep *s, int root) {
    if (s->state[root]) return;
    vec_push(&s->scratch, &s->todo, root);
    while (s->todo.n) {
        int id = s->todo.v[s->todo.n - 1];
        Node *n = s->g->nodes.v[id];
        if (s->state[id] == 0) {
            s->state[id] = 1;
            want_operands(s, n);
        } else {
            if (s->state[id] == 1) {
                s->state[id] = 2;
                s->renumber[id] = s->order.n;
                vec_push(&s->scratch, &s->order, n);
            }
            s->todo.n--;
        }
    }
}

static void reach(Sweep *s, bool *live) {
    Graph *g = s->g;
    for (int i = 0; i < g->params.n; i++) visit(s, g->params.v[i].node);
    for (int i = 0; i < g->nodes.n; i++) live[i] = s->state[i] == 2;
}

static const Ix *renumbered(void *ctx, IxPool *p, int value, const Ix *const *args, int n) {
    const Sweep *s = ctx;
    return ix_value(p, s->renumber[value], args, n);
}

static const Ix *renumber_ix(Sweep *s, const Ix *x) {
    if (!x || !x->has_value) return x;
    return ix_subst(s->g->ix, x, &(IxSubst){.value = renumbered, .ctx = s});
}

static void renumber_node(Sweep *s, Node *n) {
    n->ix = renumber_ix(s, n->ix);
    for (int i = 0; n->lo && i < n->naxes - n->rank; i++) {
        n->lo[i] = renumber_ix(s, n->lo[i]);
        n->hi[i] = renumber_ix(s, n->hi[i]);
    }
    for (int i = 0; i < n->nin; i++) {
        Operand *o = &n->in[i];
        int rank = s->g->nodes.v[o->node]->rank;
        const Ix **map = ARENA_ARRAY(s->g->arena, const Ix *, rank); /* operands may share theirs */
        for (int d = 0; d < rank; d++) map[d] = renumber_ix(s, o->map[d]);
        o->map = map;
    }
    for (int i = 0; i < n->nin; i++) n->in[i].node = s->renumber[n->in[i].node];
    if (n->frame >= 0) n->frame = s->renumber[n->frame];
}

static void renumber_rest(Sweep *s) {
    Graph *g = s->g;
    for (int i = 0; i < g->params.n; i++) g->params.v[i].node = s->renumber[g->params.v[i].node];
    int kept = 0;
    for (int i = 0; i < g->edges.n; i++) {
        Edge e = g->edges.v[i];
        e.from = s->renumber[e.from];
        e.to = s->renumber[e.to];
        if (e.from >= 0 && e.to >= 0) g->edges.v[kept++] = e;
    }
    g->edges.n = kept;
}

void graph_sweep(Graph *g) {
    int n = g->nodes.n;
    Sweep s = {.g = g};
    bool *live = ARENA_ARRAY(&s.scratch, bool, n);
    s.state = arena_alloc(&s.scratch, (size_t)n);
    s.renumber = ARENA_ARRAY(&s.scratch, int, n);
    reach(&s, live);
    memset(s.state, 0, (size_t)n);
    s.order.n = 0;
    for (int i = 0; i < n; i++) s.renumber[i] = -1;
    for (int i = 0; i < n; i++)
        if (live[i]) visit(&s, i);
    for (int i = 0; i < s.order.n; i++) renumber_node(&s, s.order.v[i]);
    renumber_rest(&s);
    for (int i = 0; i < s.order.n; i++) {
        g->nodes.v[i] = s.order.v[i];
        g->nodes.v[i]->id = i;
    }
    g->nodes.n = s.order.n;
    arena_free(&s.scratch);
}

/* ---- clone -------------------------------------------------------------------------------- */

static const Ix *ix_in(Graph *c, const Ix *x) {
    return x ? ix_copy(c->ix, x) : NULL;
}

static const char *str_in(Graph *c, const char *s) {
    return s ? arena_strdup(c->arena, s) : NULL;
}

static void clone_node(Graph *c, const Graph *g, const Node *n) {
    Node *m = graph_node(c, n->kind, n->type, n->rank, n->naxes, n->nin);
    Axis *axes = m->axes;
    Operand *in = m->in;
    *m = *n;
    m->axes = axes;
    m->in = in;
    m->name = str_in(c, n->name);
    m->ix = ix_in(c, n->ix);
    if (n->lo) {
        int reduced = n->naxes - n->rank;
        m->lo = ARENA_ARRAY(c->arena, const Ix *, reduced);
        m->hi = ARENA_ARRAY(c->arena, const Ix *, reduced);
        for (int i = 0; i < reduced; i++) {
            m->lo[i] = ix_in(c, n->lo[i]);
            m->hi[i] = ix_in(c, n->hi[i]);
        }
    }
    for (int i = 0; i < n->naxes; i++)
        axes[i] = (Axis){str_in(c, n->axes[i].name), ix_in(c, n->axes[i].extent)};
    for (int i = 0; i < n->nin; i++) {
        int rank = g->nodes.v[n->in[i].node]->rank;
        in[i] = n->in[i];
        in[i].map = ARENA_ARRAY(c->arena, const Ix *, rank);
        for (int d = 0; d < rank; d++) in[i].map[d] = ix_in(c, n->in[i].map[d]);
    }
}

static void clone_signature(Graph *c, const Graph *g) {
    for (int i = 0; i < g->sizes.n; i++) graph_size(c, g->sizes.v[i].name, g->sizes.v[i].span);
    for (int i = 0; i < g->params.n; i++) {
        Param p = g->params.v[i];
        p.name = str_in(c, p.name);
        p.dims = ARENA_ARRAY(c->arena, const Ix *, p.rank);
        for (int d = 0; d < p.rank; d++) p.dims[d] = ix_in(c, g->params.v[i].dims[d]);
        vec_push(c->arena, &c->params, p);
    }
    for (int i = 0; i < g->solve.n; i++) {
        Solve s = g->solve.v[i];
        s.num = ix_in(c, s.num);
        vec_push(c->arena, &c->solve, s);
    }
}

Graph *graph_clone(const Graph *g, Arena *a) {
    Graph *c = graph_new(a, g->name);
    c->span = g->span;
    clone_signature(c, g);
    for (int i = 0; i < g->nodes.n; i++) clone_node(c, g, g->nodes.v[i]);
    for (int i = 0; i < g->checks.n; i++) {
        Check k = g->checks.v[i];
        k = (Check){ix_in(c, k.e),     ix_in(c, k.unless), ix_in(c, k.needed),
                    ix_in(c, k.found), str_in(c, k.text),  k.span};
        vec_push(a, &c->checks, k);
    }
    for (int i = 0; i < g->expect.n; i++) {
        Expect e = g->expect.v[i];
        e.metric = str_in(c, e.metric);
        e.cmp = str_in(c, e.cmp);
        vec_push(a, &c->expect, e);
    }
    for (int i = 0; i < g->edges.n; i++) {
        Edge e = g->edges.v[i];
        e.reason = str_in(c, e.reason);
        vec_push(a, &c->edges, e);
    }
    return c;
}

/* ---- names and counts --------------------------------------------------------------------- */

/* Sizes keep their names; inputs that are plain words name their node; axes give way to both. The
 * array of value names ends with the last input: printing a graph makes one a node. */
IxNames graph_names(const Graph *g, const Node *n) {
    Arena *a = g->arena;
    int taken = 0, nvalue = 0;
    for (int i = 0; i < g->params.n; i++) {
        const Param *p = &g->params.v[i];
        if (!p->out && p->node >= nvalue && p->node < g->nodes.n) nvalue = p->node + 1;
    }
    const char **names = ARENA_ARRAY(a, const char *, g->sizes.n + g->params.n);
    const char **value = ARENA_ARRAY(a, const char *, nvalue);
    for (int i = 0; i < g->sizes.n; i++) names[taken++] = g->sizes.v[i].name;
    for (int i = 0; i < g->params.n; i++) {
        const Param *p = &g->params.v[i];
        if (p->out || p->node < 0 || p->node >= nvalue || !text_is_word(p->name)) continue;
        names[taken++] = value[p->node] = p->name;
    }
    const char **axes = ARENA_ARRAY(a, const char *, n->naxes);
    for (int i = 0; i < n->naxes; i++) axes[i] = n->axes[i].name;
    return (IxNames){names, text_unique(a, axes, n->naxes, names, taken), value, nvalue};
}

static const Ix *product(IxPool *p, const Axis *axes, int n) {
    const Ix *x = ix_const(p, 1);
    for (int i = 0; i < n; i++) x = ix_mul(p, x, axes[i].extent);
    return x;
}

const Ix *graph_count(const Graph *g, const Node *n) {
    return product(g->ix, n->axes, n->rank);
}

const Ix *graph_param_bytes(const Graph *g, const Param *p) {
    IxPool *ix = g->ix;
    int per_byte = dtype_bits(p->type) < 8 ? 8 / dtype_bits(p->type) : 1;
    const Ix *x = ix_const(ix, dtype_bits(p->type) < 8 ? 1 : dtype_bits(p->type) / 8);
    for (int d = 0; d < p->rank; d++) {
        const Ix *dim = p->dims[d];
        if (d == p->rank - 1 && per_byte > 1) /* an odd last extent pads its last byte */
            dim = ix_div(ix, ix_add(ix, dim, ix_const(ix, per_byte - 1)), ix_const(ix, per_byte));
        x = ix_mul(ix, x, dim);
    }
    return x;
}
