/* graph_text.c - the text form of a graph and its printer; the reader is graph_parse.c.
 *
 *     graph  := "graph" NAME "{" line... "}"              one statement a line; "#" comments
 *     line   := "size" NAME {"," NAME}
 *             | "in" NAME type "=" VALUE                   input parameter and its node
 *             | VALUE [NAME] ":" DTYPE [axes] "=" body ["@" note...]
 *             | "out" NAME type "=" VALUE
 *             | "check" ix ">=" "0" ":" STRING {"," ("needed" | "found" | "unless") ix}
 *             | "solve" NAME "from" NAME "[" INT "]" "=" ix ["div" INT]    %0 in it: that extent
 *             | "expect" NAME ("==" | "<=" | "<") NUMBER ["*" "io"]
 *             | "edge" VALUE "->" VALUE ("cut" | "join") STRING ["price" NUMBER] ["other" NUMBER]
 *     type   := ":" DTYPE ["[" ix {"," ix} "]"]
 *     axes   := "[" [axis {"," axis}] [";" [axis {"," axis}]] "]"    axis := NAME ":" ix
 *     body   := "const" NUMBER | "index" ix
 *             | OP operand {"," operand} | REDUCE operand {"," operand} ["where" operand]
 *     operand:= (VALUE | NAME of an input) ["[" ix ["?"] {"," ix ["?"]} "]"]
 *     note   := "roles" WORD | "store" | "step" INT | "part"
 *             | "bound" AXIS ["from" ix] ["to" ix] | "exact"     of a reduced axis; exclusive
 *             | "loop" INT | "frame" VALUE                 reductions that may share a loop
 *     VALUE  := "%" INT                                    nodes in order, inputs among them
 *
 * ";" before the reduced axes makes a node a reduction (max is an op and a reduction). "?" marks a
 * position that may leave the operand's domain. Index expressions are those of text_int.h; axes
 * are named per node. A name that is no plain word is a string. Spans are not part of the text.
 */
#include "ir/graph.h"
#include "ir/text_int.h"

#include <string.h>

static const Node no_axes;

static void put_ix(Str *out, const char *before, const Ix *x, const IxNames *names) {
    if (!x) return;
    str_add(out, before);
    ix_print(out, x, names);
}

static void put_real(Str *out, const char *before, double v) {
    str_add(out, before);
    str_real(out, v);
}

static void put_param(Str *out, const Param *p, const IxNames *names) {
    str_add(out, p->out ? "  out " : "  in ");
    text_put_name(out, p->name);
    str_printf(out, ": %s", dtype_name(p->type));
    for (int d = 0; d < p->rank; d++) put_ix(out, d ? ", " : "[", p->dims[d], names);
    str_printf(out, "%s = %%%d\n", p->rank ? "]" : "", p->node);
}

static void put_axes(Str *out, const Node *n, const IxNames *names) {
    if (!n->naxes && n->kind != N_REDUCE) return;
    str_add(out, "[");
    for (int i = 0; i < n->naxes; i++) {
        if (i == n->rank)
            str_add(out, "; ");
        else if (i)
            str_add(out, ", ");
        str_printf(out, "%s: ", names->axis[i]);
        ix_print(out, n->axes[i].extent, names);
    }
    if (n->kind == N_REDUCE && n->naxes == n->rank) str_add(out, ";");
    str_add(out, "]");
}

static void put_operand(Str *out, const Graph *g, const Operand *o, const IxNames *names) {
    const Node *r = g->nodes.v[o->node];
    if (r->kind == N_INPUT)
        text_put_name(out, g->params.v[r->param].name);
    else
        str_printf(out, "%%%d", o->node);
    for (int d = 0; d < r->rank; d++) {
        put_ix(out, d ? ", " : "[", o->map[d], names);
        if (o->checked >> d & 1) str_add(out, "?");
    }
    if (r->rank) str_add(out, "]");
}

static void put_const(Str *out, const Node *n) {
    if (dtype_class(n->type) == DC_REAL)
        put_real(out, " ", n->num);
    else
        str_printf(out, " %lld", (long long)n->inum);
}

static void put_body(Str *out, const Graph *g, const Node *n, const IxNames *names) {
    switch (n->kind) {
    case N_INPUT: FK_BUG("an input has no body");
    case N_CONST:
        str_add(out, "const");
        put_const(out, n);
        return;
    case N_INDEX: put_ix(out, "index ", n->ix, names); return;
    case N_OP: str_add(out, op_name(n->op)); break;
    case N_REDUCE: str_add(out, reduce_name(n->red)); break;
    }
    for (int i = 0; i < n->nin; i++) {
        bool last = n->kind == N_REDUCE && n->where && i == n->nin - 1;
        str_add(out, last ? " where " : i ? ", " : " ");
        put_operand(out, g, &n->in[i], names);
    }
}

static void put_bounds(Str *out, const Node *n, const IxNames *names) {
    for (int i = 0; n->lo && i < n->naxes - n->rank; i++) {
        if (!n->lo[i] && !n->hi[i]) continue;
        str_printf(out, " bound %s", names->axis[n->rank + i]);
        put_ix(out, " from ", n->lo[i], names);
        put_ix(out, " to ", n->hi[i], names);
    }
    if (n->exact) str_add(out, " exact");
}

static void put_notes(Str *out, const Node *n, const IxNames *names) {
    Str notes = {0};
    if (n->roles[0]) str_printf(&notes, " roles %s", n->roles);
    if (n->loop >= 0) str_printf(&notes, " loop %d", n->loop);
    if (n->frame >= 0) str_printf(&notes, " frame %%%d", n->frame);
    if (n->part) str_add(&notes, " part");
    if (n->store) str_add(&notes, " store");
    if (n->step >= 0) str_printf(&notes, " step %d", n->step);
    put_bounds(&notes, n, names);
    if (notes.n) str_printf(out, " @%s", str_get(&notes));
    str_free(&notes);
}

static void put_node(Str *out, const Graph *g, const Node *n) {
    IxNames names = graph_names(g, n);
    str_printf(out, "  %%%d", n->id);
    if (n->name) {
        str_add(out, " ");
        text_put_name(out, n->name);
    }
    str_printf(out, ": %s", dtype_name(n->type));
    put_axes(out, n, &names);
    str_add(out, " = ");
    put_body(out, g, n, &names);
    put_notes(out, n, &names);
    str_add(out, "\n");
}

static void put_check(Str *out, const Check *c, const IxNames *names) {
    put_ix(out, "  check ", c->e, names);
    str_add(out, " >= 0: ");
    text_put_string(out, c->text ? c->text : "");
    put_ix(out, ", needed ", c->needed, names);
    put_ix(out, ", found ", c->found, names);
    put_ix(out, ", unless ", c->unless, names);
    str_add(out, "\n");
}

static void put_solve(Str *out, const Graph *g, const Solve *s, IxNames names) {
    names.nvalue = 0; /* IX_VALUE(0) is the extent, not a node */
    str_add(out, "  solve ");
    text_put_name(out, g->sizes.v[s->size].name);
    str_add(out, " from ");
    text_put_name(out, g->params.v[s->param].name);
    str_printf(out, "[%d]", s->dim);
    put_ix(out, " = ", s->num, &names);
    if (s->div != 1) str_printf(out, " div %lld", (long long)s->div);
    str_add(out, "\n");
}

static void put_expect(Str *out, const Expect *e) {
    str_add(out, "  expect ");
    text_put_name(out, e->metric);
    str_printf(out, " %s", e->cmp);
    put_real(out, " ", e->number);
    str_add(out, e->io ? " * io\n" : "\n");
}

static void put_edge(Str *out, const Edge *e) {
    str_printf(out, "  edge %%%d -> %%%d %s ", e->from, e->to, e->cut ? "cut" : "join");
    text_put_string(out, e->reason ? e->reason : "");
    if (e->price >= 0) put_real(out, " price ", e->price);
    if (e->other >= 0) put_real(out, " other ", e->other);
    str_add(out, "\n");
}

void graph_print(Str *out, const Graph *g) {
    IxNames names = graph_names(g, &no_axes);
    str_add(out, "graph ");
    text_put_name(out, g->name);
    str_add(out, " {\n");
    for (int i = 0; i < g->sizes.n; i++) {
        str_add(out, i ? ", " : "  size ");
        text_put_name(out, g->sizes.v[i].name);
    }
    if (g->sizes.n) str_add(out, "\n");
    for (int i = 0; i < g->params.n; i++)
        if (!g->params.v[i].out) put_param(out, &g->params.v[i], &names);
    for (int i = 0; i < g->nodes.n; i++)
        if (g->nodes.v[i]->kind != N_INPUT) put_node(out, g, g->nodes.v[i]);
    for (int i = 0; i < g->params.n; i++)
        if (g->params.v[i].out) put_param(out, &g->params.v[i], &names);
    for (int i = 0; i < g->checks.n; i++) put_check(out, &g->checks.v[i], &names);
    for (int i = 0; i < g->solve.n; i++) put_solve(out, g, &g->solve.v[i], names);
    for (int i = 0; i < g->expect.n; i++) put_expect(out, &g->expect.v[i]);
    for (int i = 0; i < g->edges.n; i++) put_edge(out, &g->edges.v[i]);
    str_add(out, "}\n");
}
