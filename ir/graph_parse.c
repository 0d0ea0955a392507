/* graph_parse.c - reads the text form of a graph; the grammar is at the head of graph_text.c.
 *
 * The reader makes sure of what the structure needs to exist at all (operands before readers, maps
 * of the right length, names that are known); graph_verify checks the rest.
 */
#include "ir/graph.h"
#include "ir/text_int.h"

#include <string.h>

enum { AXES_MAX = 32 };

typedef VEC(const Ix *) IxList;
typedef VEC(Operand) OperandList;

typedef struct Reader {
    Text *t;
    Graph *g;
    const char **sizes; /* names, grown with g->sizes */
    Map inputs;         /* name of an input to its node */
} Reader;

static TextScope scope(const Reader *r, const char *const *axes, int naxes, int nvalues) {
    return (TextScope){.ix = r->g->ix,
                       .size = r->sizes,
                       .nsizes = r->g->sizes.n,
                       .axis = axes,
                       .naxes = naxes,
                       .value = nvalues ? &r->inputs : NULL,
                       .nvalues = nvalues};
}

static const Ix *size_ix(Reader *r) {
    TextScope s = scope(r, NULL, 0, 0);
    return text_ix(r->t, &s);
}

static DType read_dtype(Reader *r) {
    const char *name = text_name(r->t);
    DType type = dtype_named(name, strlen(name));
    if (type == DT_none) text_error(r->t, "'%s' is no type", name);
    return type;
}

static void read_sizes(Reader *r) {
    Graph *g = r->g;
    do {
        const char *name = text_name(r->t);
        int n = g->sizes.n;
        if (!text_is_word(name))
            text_error(r->t, "a size needs a plain word as its name");
        else if (graph_size(g, name, (Span){0}) < n)
            text_error(r->t, "size %s again", name);
    } while (text_accept(r->t, ","));
    r->sizes = ARENA_ARRAY(g->arena, const char *, g->sizes.n);
    for (int i = 0; i < g->sizes.n; i++) r->sizes[i] = g->sizes.v[i].name;
}

/* Inputs stand at the head of the text, but anywhere among the nodes: those whose turn it is. */
static void add_inputs(Reader *r) {
    Graph *g = r->g;
    for (int i = 0; i < g->params.n; i++) {
        const Param *p = &g->params.v[i];
        if (p->out || p->node != g->nodes.n) continue;
        Node *n = graph_node(g, N_INPUT, p->type, p->rank, p->rank, 0);
        n->param = i;
        n->name = p->name;
        for (int d = 0; d < p->rank; d++) n->axes[d].extent = p->dims[d];
        i = -1; /* the next one may stand before it */
    }
}

static void read_param(Reader *r, bool out) {
    Text *t = r->t;
    Param p = {.out = out, .name = text_name(t)};
    text_expect(t, ":");
    p.type = read_dtype(r);
    IxList dims = {0};
    if (text_accept(t, "[")) {
        do vec_push(r->g->arena, &dims, size_ix(r));
        while (text_accept(t, ","));
        text_expect(t, "]");
    }
    if (dims.n > AXES_MAX) text_error(t, "more than %d dimensions", AXES_MAX);
    p.rank = dims.n;
    p.dims = dims.v;
    text_expect(t, "=");
    p.node = text_value(t, out ? r->g->nodes.n : INT32_MAX);
    if (t->failed) return;
    if (!out) *map_puts(&r->inputs, p.name) = p.node;
    vec_push(r->g->arena, &r->g->params, p);
    if (!out) add_inputs(r);
}

/* The axes of a node: names and extents; *reduce when there is a ";", after *rank axes. */
typedef struct AxisList {
    VEC(Axis) axis;
    VEC(const char *) name;
    int rank;
    bool reduce;
} AxisList;

static void read_axis(Reader *r, AxisList *l) {
    Axis a = {.name = text_name(r->t)};
    for (int i = 0; i < l->name.n; i++)
        if (!strcmp(l->name.v[i], a.name)) text_error(r->t, "axis %s again", a.name);
    text_expect(r->t, ":");
    a.extent = size_ix(r);
    vec_push(r->g->arena, &l->axis, a);
    vec_push(r->g->arena, &l->name, a.name);
}

static void read_axes(Reader *r, AxisList *l) {
    Text *t = r->t;
    if (!text_accept(t, "[")) return;
    while (!t->failed && !text_is(t, "]")) {
        if (text_accept(t, ";")) {
            if (l->reduce) text_error(t, "a second ';'");
            l->reduce = true;
            l->rank = l->axis.n;
        } else {
            if (l->axis.n && !(l->reduce && l->axis.n == l->rank)) text_expect(t, ",");
            read_axis(r, l);
        }
    }
    text_expect(t, "]");
    if (l->axis.n > AXES_MAX) text_error(t, "more than %d axes", AXES_MAX);
    if (!l->reduce) l->rank = l->axis.n;
}

static int operand_node(Reader *r) {
    Text *t = r->t;
    int n = r->g->nodes.n;
    if (text_is(t, "%")) return text_value(t, n);
    Tok tok = t->tok;
    const char *name = text_name(t);
    const intptr_t *v = map_gets(&r->inputs, name);
    if (v && *v < n) return (int)*v;
    t->tok.span = tok.span;
    text_error(t, v ? "input '%s' is not defined before this line" : "'%s' is no input", name);
    return -1;
}

static Operand read_operand(Reader *r, const TextScope *s) {
    Text *t = r->t;
    Operand o = {0};
    int node = operand_node(r);
    if (t->failed) return o;
    graph_map(r->g, &o, node);
    int rank = r->g->nodes.v[node]->rank;
    for (int d = 0; d < rank && !t->failed; d++) {
        text_expect(t, d ? "," : "[");
        o.map[d] = text_ix(t, s);
        if (text_accept(t, "?")) o.checked |= 1u << d;
    }
    if (rank)
        text_expect(t, "]");
    else if (text_is(t, "["))
        text_error(t, "%%%d has rank 0", node);
    return o;
}

static void read_operands(Reader *r, const TextScope *s, Node *n, OperandList *in) {
    Text *t = r->t;
    do vec_push(r->g->arena, in, read_operand(r, s));
    while (text_accept(t, ","));
    if (n->kind == N_REDUCE && text_accept(t, "where")) {
        n->where = true;
        vec_push(r->g->arena, in, read_operand(r, s));
    } else if (n->kind == N_OP && in->n != op_arity(n->op)) {
        text_error(t, "%s takes %d operands, found %d", op_name(n->op), op_arity(n->op), in->n);
    }
}

static void read_number(Reader *r, Node *n) {
    if (n->type != DT_none && dtype_class(n->type) == DC_REAL)
        n->num = text_real(r->t);
    else
        n->inum = text_int(r->t);
}

static void read_body(Reader *r, const TextScope *s, Node *n, OperandList *in) {
    Text *t = r->t;
    Tok tok = t->tok;
    const char *what = text_name(t);
    size_t len = strlen(what);
    if (n->kind == N_REDUCE) {
        n->red = reduce_named(what, len);
        if (n->red != RED_COUNT) {
            read_operands(r, s, n, in);
            return;
        }
    } else if (!strcmp(what, "const")) {
        n->kind = N_CONST;
        read_number(r, n);
        return;
    } else if (!strcmp(what, "index")) {
        n->kind = N_INDEX;
        n->ix = text_ix(t, s);
        return;
    } else if ((n->op = op_named(what, len)) != OP_COUNT) {
        read_operands(r, s, n, in);
        return;
    }
    t->tok.span = tok.span;
    text_error(t, "'%s' is no %s", what, n->kind == N_REDUCE ? "reduction" : "op");
}

static void read_bound(Reader *r, Node *n, const TextScope *s, const AxisList *axes) {
    Text *t = r->t;
    const char *name = text_name(t);
    int k = axes->rank, reduced = axes->axis.n - axes->rank;
    while (k < axes->axis.n && strcmp(axes->name.v[k], name)) k++;
    if (k == axes->axis.n) text_error(t, "%s is no reduced axis", name);
    if (t->failed) return;
    if (!n->lo) n->lo = ARENA_ARRAY(r->g->arena, const Ix *, reduced);
    if (!n->hi) n->hi = ARENA_ARRAY(r->g->arena, const Ix *, reduced);
    if (text_accept(t, "from")) n->lo[k - axes->rank] = text_ix(t, s);
    if (text_accept(t, "to")) n->hi[k - axes->rank] = text_ix(t, s);
}

static void read_notes(Reader *r, Node *n, const TextScope *s, const AxisList *axes) {
    Text *t = r->t;
    if (!text_accept(t, "@")) return;
    while (!t->failed && t->tok.kind == TOK_NAME) {
        if (text_accept(t, "roles")) {
            const char *roles = text_name(t);
            size_t len = strlen(roles);
            if (len >= sizeof n->roles)
                text_error(t, "more roles than axes");
            else
                memcpy(n->roles, roles, len);
        } else if (text_accept(t, "part")) {
            n->part = true;
        } else if (text_accept(t, "store")) {
            n->store = true;
        } else if (text_accept(t, "step")) {
            n->step = text_count(t, INT32_MAX);
        } else if (text_accept(t, "bound")) {
            read_bound(r, n, s, axes);
        } else if (text_accept(t, "exact")) {
            n->exact = true;
        } else if (text_accept(t, "loop")) {
            n->loop = text_count(t, INT32_MAX);
        } else if (text_accept(t, "frame")) {
            n->frame = text_value(t, r->g->nodes.n);
        } else {
            text_error(t,
                       "expected roles, loop, frame, part, store, step, bound or exact, found '%s'",
                       t->tok.text);
        }
    }
}

/* The node enters the graph only when its line was read, so that its operands are all before it.
 */
static void read_node(Reader *r) {
    Text *t = r->t;
    Graph *g = r->g;
    int id = text_value(t, INT32_MAX);
    if (id != g->nodes.n) text_error(t, "expected %%%d, found %%%d", g->nodes.n, id);
    Node n = {.step = -1, .param = -1, .loop = -1, .frame = -1};
    if (!text_is(t, ":")) n.name = text_name(t);
    text_expect(t, ":");
    n.type = read_dtype(r);
    AxisList axes = {0};
    OperandList in = {0};
    read_axes(r, &axes);
    text_expect(t, "=");
    n.kind = axes.reduce ? N_REDUCE : N_OP;
    TextScope s = scope(r, axes.name.v, axes.axis.n, g->nodes.n);
    read_body(r, &s, &n, &in);
    read_notes(r, &n, &s, &axes);
    if (t->failed) return;
    Node *m = graph_node(g, n.kind, n.type, axes.rank, axes.axis.n, in.n);
    n.id = m->id;
    n.rank = m->rank;
    n.naxes = m->naxes;
    n.nin = m->nin;
    n.axes = axes.axis.v;
    n.in = in.v;
    *m = n;
    add_inputs(r);
}

static void read_check(Reader *r) {
    Text *t = r->t;
    Check c = {.e = size_ix(r)};
    text_expect(t, ">=");
    text_count(t, 1);
    text_expect(t, ":");
    c.text = text_string(t);
    while (text_accept(t, ",")) {
        if (text_accept(t, "needed"))
            c.needed = size_ix(r);
        else if (text_accept(t, "found"))
            c.found = size_ix(r);
        else if (text_expect(t, "unless"))
            c.unless = size_ix(r);
    }
    vec_push(r->g->arena, &r->g->checks, c);
}

static int find_param(Reader *r, const char *name) {
    for (int i = 0; i < r->g->params.n; i++)
        if (!strcmp(r->g->params.v[i].name, name)) return i;
    text_error(r->t, "no parameter is called %s", name);
    return 0;
}

static int find_size(Reader *r, const char *name) {
    for (int i = 0; i < r->g->sizes.n; i++)
        if (!strcmp(r->g->sizes.v[i].name, name)) return i;
    text_error(r->t, "no size is called %s", name);
    return 0;
}

static void read_solve(Reader *r) {
    Text *t = r->t;
    Solve s = {.div = 1, .size = find_size(r, text_name(t))};
    text_expect(t, "from");
    s.param = find_param(r, text_name(t));
    text_expect(t, "[");
    s.dim = t->failed ? 0 : text_count(t, r->g->params.v[s.param].rank);
    text_expect(t, "]");
    text_expect(t, "=");
    TextScope sc = scope(r, NULL, 0, 1);
    sc.value = NULL;
    s.num = text_ix(t, &sc);
    if (text_accept(t, "div")) s.div = text_int(t);
    if (s.div <= 0) text_error(t, "a divisor must be positive");
    vec_push(r->g->arena, &r->g->solve, s);
}

static void read_expect(Reader *r) {
    Text *t = r->t;
    Expect e = {.metric = text_name(t), .cmp = t->tok.text};
    if (!text_accept(t, "==") && !text_accept(t, "<=")) text_expect(t, "<");
    e.number = text_real(t);
    if (text_accept(t, "*")) e.io = text_expect(t, "io");
    vec_push(r->g->arena, &r->g->expect, e);
}

static void read_edge(Reader *r) {
    Text *t = r->t;
    Edge e = {.from = text_value(t, r->g->nodes.n), .price = -1, .other = -1};
    text_expect(t, "->");
    e.to = text_value(t, r->g->nodes.n);
    e.cut = text_accept(t, "cut");
    if (!e.cut) text_expect(t, "join");
    e.reason = text_string(t);
    if (text_accept(t, "price")) e.price = text_real(t);
    if (text_accept(t, "other")) e.other = text_real(t);
    vec_push(r->g->arena, &r->g->edges, e);
}

static void read_line(Reader *r) {
    Text *t = r->t;
    if (text_is(t, "%"))
        read_node(r);
    else if (text_accept(t, "size"))
        read_sizes(r);
    else if (text_accept(t, "in"))
        read_param(r, false);
    else if (text_accept(t, "out"))
        read_param(r, true);
    else if (text_accept(t, "check"))
        read_check(r);
    else if (text_accept(t, "solve"))
        read_solve(r);
    else if (text_accept(t, "expect"))
        read_expect(r);
    else if (text_accept(t, "edge"))
        read_edge(r);
    else
        text_error(t, "expected a line of a graph, found '%s'", t->tok.text);
    text_end_line(t);
}

Graph *graph_parse(Arena *a, const Source *src, Diags *d) {
    Text t;
    text_open(&t, a, src, d);
    text_expect(&t, "graph");
    Reader r = {.t = &t, .g = graph_new(a, text_name(&t)), .inputs = {.arena = a}};
    text_expect(&t, "{");
    text_skip_lines(&t);
    while (!t.failed && !text_is(&t, "}") && t.tok.kind != TOK_END) read_line(&r);
    text_expect(&t, "}");
    text_skip_lines(&t);
    if (t.tok.kind != TOK_END) text_error(&t, "text after the graph");
    for (int i = 0; i < r.g->params.n; i++)
        if (r.g->params.v[i].node >= r.g->nodes.n)
            text_error(&t, "input %s is %%%d, but there are only %d nodes", r.g->params.v[i].name,
                       r.g->params.v[i].node, r.g->nodes.n);
    return t.failed ? NULL : r.g;
}
