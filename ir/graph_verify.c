/* graph_verify.c - every rule of graph.h, asked again of a finished graph.
 *
 * A fault is one line: the node, what was expected, what was found. Types and bounds come from
 * infer.h, so that the rules exist once. A read that no proof covers needs its `checked` bit or
 * launch checks that imply it. A graph whose `solve` is filled has a finished signature: then each
 * size is solved and each exact quotient has its check. A little over 500 lines: a list of rules.
 */
#include "ir/graph.h"
#include "ir/infer.h"
#include "ir/text_int.h"

#include <math.h>
#include <string.h>

typedef struct Verify {
    const Graph *g;
    Str *why;
    const Node *n;     /* the node at hand; NULL: the signature and the lists */
    const char *where; /* the part at hand: "operand 1" */
    const Ix **facts;  /* what the launch checks say */
    int nfacts;
    IxVec guards; /* what `where` says of the operand at hand */
    bool ok;
} Verify;

static const char *what_is(const Node *n) {
    switch (n->kind) {
    case N_INPUT: return "input";
    case N_CONST: return "const";
    case N_INDEX: return "index";
    case N_OP: return n->op < OP_COUNT ? op_name(n->op) : "op ?";
    case N_REDUCE: return n->red < RED_COUNT ? reduce_name(n->red) : "reduction ?";
    }
    return "?";
}

FK_PRINTF(3, 4) static bool need(Verify *v, bool cond, const char *fmt, ...) {
    if (cond) return true;
    v->ok = false;
    str_printf(v->why, "graph %s", v->g->name ? v->g->name : "?");
    if (v->n) str_printf(v->why, ", %%%d (%s)", v->n->id, what_is(v->n));
    if (v->where) str_printf(v->why, ", %s", v->where);
    str_add(v->why, ": ");
    va_list ap;
    va_start(ap, fmt);
    str_vprintf(v->why, fmt, ap);
    va_end(ap);
    str_add(v->why, "\n");
    return false;
}

static const char *type_name(DType t) {
    return t < DT_COUNT ? dtype_name(t) : "no type";
}

static const char *show(const Verify *v, const Ix *x) {
    static const Node no_axes;
    IxNames names = graph_names(v->g, v->n ? v->n : &no_axes);
    Str s = {0};
    ix_print(&s, x, &names);
    const char *text = arena_strdup(v->g->arena, str_get(&s));
    str_free(&s);
    return text;
}

/* ---- index expressions -------------------------------------------------------------------- */

/* What may occur in one: axes below naxes, sizes, values below nvalues (0: none). */
typedef struct Leaves {
    int naxes, nvalues;
} Leaves;

static const Leaves sizes_only = {0, 0};

static bool value_leaf(Verify *v, const Ix *x, Leaves may) {
    if (!need(v, x->num >= 0 && x->num < may.nvalues, "expected %s, found value %%%lld",
              may.nvalues ? "a value before it" : "no values", (long long)x->num))
        return false;
    const Node *n = v->g->nodes.v[x->num];
    return need(v, dtype_is_int(n->type), "expected an integer to gather by, found %%%d of %s",
                n->id, type_name(n->type)) &&
           need(v, x->n == n->rank, "gather of %%%d: expected %d indices, found %d", n->id, n->rank,
                x->n);
}

static bool ix_ok(Verify *v, const Ix *x, Leaves may) {
    if (!need(v, x != NULL, "expected an index expression, found none")) return false;
    bool ok = true;
    if (x->kind == IX_AXIS)
        ok = need(v, x->num >= 0 && x->num < may.naxes,
                  "expected an axis below %d, found axis %lld", may.naxes, (long long)x->num);
    if (x->kind == IX_SIZE)
        ok = need(v, x->num >= 0 && x->num < v->g->sizes.n,
                  "expected a size below %d, found size %lld", v->g->sizes.n, (long long)x->num);
    if (x->kind == IX_VALUE) ok = value_leaf(v, x, may);
    for (int i = 0; i < x->n && ok; i++) ok = ix_ok(v, x->arg[i], may);
    return ok;
}

/* ---- reads -------------------------------------------------------------------------------- */

static const Ix *const *extents_of(const Verify *v) {
    const Ix **e = ARENA_ARRAY(v->g->arena, const Ix *, v->n->naxes);
    for (int i = 0; i < v->n->naxes; i++) e[i] = v->n->axes[i].extent;
    return e;
}

/* Is a read at x inside [0, dim) by proof or by launch checks? */
static bool is_inside(const Verify *v, const Ix *x, const Ix *dim) {
    const Graph *g = v->g;
    const Ix *const *ext = extents_of(v);
    BoundResult b = infer_bound(g, x, dim, ext, v->n->naxes, v->guards.v, v->guards.n);
    if (b.bound != BOUND_LAUNCH) return b.bound == BOUND_PROVED;
    const Ix *top = ix_sub(g->ix, ix_sub(g->ix, dim, b.hi), ix_const(g->ix, 1));
    return infer_nonneg(g, b.lo, ext, v->n->naxes, v->facts, v->nfacts) &&
           infer_nonneg(g, top, ext, v->n->naxes, v->facts, v->nfacts);
}

static void read_inside(Verify *v, const Ix *x, const Ix *dim) {
    if (is_inside(v, x, dim)) return;
    need(v, false, "expected an index inside [0, %s), or checked, or a launch check; found %s",
         show(v, dim), show(v, x));
}

/* The gathers inside x read inside too: they have no `checked`. */
static void gathers_inside(Verify *v, const Ix *x) {
    if (!x->has_value) return;
    for (int i = 0; i < x->n; i++) {
        if (x->kind == IX_VALUE) read_inside(v, x->arg[i], v->g->nodes.v[x->num]->axes[i].extent);
        gathers_inside(v, x->arg[i]);
    }
}

static bool operand_ok(Verify *v, const Operand *o) {
    const Graph *g = v->g;
    if (!need(v, o->node >= 0 && o->node < v->n->id, "expected a node before it, found %%%d",
              o->node))
        return false;
    const Node *r = g->nodes.v[o->node];
    if (!need(v, o->map || !r->rank, "expected %d indices, found no map", r->rank)) return false;
    need(v, r->rank >= 32 || o->checked >> r->rank == 0,
         "expected checked positions below %d, found mask 0x%x", r->rank, (unsigned)o->checked);
    bool ok = true;
    for (int d = 0; d < r->rank; d++) {
        if (!ix_ok(v, o->map[d], (Leaves){v->n->naxes, v->n->id})) {
            ok = false;
            continue;
        }
        gathers_inside(v, o->map[d]);
        if (!(o->checked >> d & 1)) read_inside(v, o->map[d], r->axes[d].extent);
    }
    return ok;
}

/* A condition comes first: it guards the others. */
static bool operands_ok(Verify *v) {
    const Node *n = v->n;
    bool ok = true, exact;
    for (int k = 0; k < n->nin; k++) {
        int i = !n->where ? k : k ? k - 1 : n->nin - 1;
        v->where = arena_printf(v->g->arena, "operand %d", i);
        ok &= operand_ok(v, &n->in[i]);
        if (ok && v->ok && n->where && !k) infer_conjuncts(v->g, &n->in[i], &v->guards, &exact);
    }
    v->where = NULL;
    v->guards.n = 0;
    return ok;
}

/* ---- nodes -------------------------------------------------------------------------------- */

static void is_type(Verify *v, DType want, const char *why) {
    if (want == DT_none)
        need(v, false, "%s", why ? why : "expected a type");
    else
        need(v, v->n->type == want, "expected type %s, found %s", type_name(want),
             type_name(v->n->type));
}

static const DType *types_in(Verify *v) {
    DType *t = ARENA_ARRAY(v->g->arena, DType, v->n->nin);
    for (int i = 0; i < v->n->nin; i++) t[i] = v->g->nodes.v[v->n->in[i].node]->type;
    return t;
}

static void verify_input(Verify *v) {
    const Node *n = v->n;
    const Graph *g = v->g;
    if (!need(v, n->param >= 0 && n->param < g->params.n, "expected a parameter, found number %d",
              n->param))
        return;
    const Param *p = &g->params.v[n->param];
    need(v, !p->out && p->node == n->id, "expected an input whose node is %%%d, found %s of %%%d",
         n->id, p->out ? "an output" : "an input", p->node);
    is_type(v, p->type, NULL);
    if (!need(v, n->rank == p->rank, "expected rank %d, found %d", p->rank, n->rank)) return;
    for (int d = 0; d < n->rank; d++)
        need(v, n->axes[d].extent == p->dims[d], "expected extent %d to be %s, found %s", d,
             show(v, p->dims[d]), show(v, n->axes[d].extent));
}

static void verify_const(Verify *v) {
    const Node *n = v->n;
    need(v, n->rank == 0, "expected rank 0, found %d", n->rank);
    need(v, n->type < DT_COUNT && dtype_value(n->type) == n->type,
         "expected f32, i32, i64 or bool, found %s", type_name(n->type));
    if (n->type == DT_bool)
        need(v, n->inum == 0 || n->inum == 1, "expected 0 or 1, found %lld", (long long)n->inum);
    if (n->type == DT_i32)
        need(v, n->inum == (int32_t)n->inum, "expected 32 bits, found %lld", (long long)n->inum);
}

static void verify_index(Verify *v) {
    is_type(v, DT_i64, NULL);
    ix_ok(v, v->n->ix, (Leaves){v->n->naxes, 0});
}

static void verify_op(Verify *v) {
    const Node *n = v->n;
    const char *why = NULL;
    if (!need(v, n->op < OP_COUNT, "expected an op, found number %d", (int)n->op)) return;
    if (!need(v, n->nin == op_arity(n->op), "expected %d operands, found %d", op_arity(n->op),
              n->nin))
        return;
    if (operands_ok(v) && n->op != OP_cast) {
        DType want = infer_op(n->op, types_in(v), n->nin, &why);
        is_type(v, want, why);
    }
}

static void verify_roles(Verify *v) {
    const Node *n = v->n;
    size_t len = strnlen(n->roles, sizeof n->roles);
    if (!need(v, len == 0 || n->kind == N_REDUCE, "expected no roles, found %.*s", (int)len,
              n->roles) ||
        !len)
        return;
    need(v, n->red == RED_contract, "expected roles of a contraction only, found %.*s", (int)len,
         n->roles);
    if (!need(v, len == (size_t)n->naxes, "expected %d roles, found %.*s", n->naxes, (int)len,
              n->roles))
        return;
    for (int i = 0; i < n->naxes; i++)
        need(v, n->roles[i] && strchr(i < n->rank ? "bmn" : "k", n->roles[i]),
             "axis %d: expected role %s, found %c", i, i < n->rank ? "b, m or n" : "k",
             n->roles[i]);
}

static void verify_bounds(Verify *v) {
    const Node *n = v->n;
    need(v, !n->exact || n->where, "expected exact bounds of a condition, found no condition");
    if (!need(v, !n->lo == !n->hi, "expected both bounds or none, found one array")) return;
    for (int i = 0; n->lo && i < n->naxes - n->rank; i++) {
        v->where = arena_printf(v->g->arena, "bounds of axis %d", n->rank + i);
        Leaves may = {n->rank + i, n->id};
        if (n->lo[i] && ix_ok(v, n->lo[i], may)) gathers_inside(v, n->lo[i]);
        if (n->hi[i] && ix_ok(v, n->hi[i], may)) gathers_inside(v, n->hi[i]);
    }
    v->where = NULL;
}

static void verify_reduce(Verify *v) {
    const Node *n = v->n;
    const char *why = NULL;
    if (!need(v, n->red < RED_COUNT, "expected a reduction, found number %d", (int)n->red)) return;
    int args = n->nin - n->where;
    if (!need(v, args >= 1 && (args == 1 || n->red == RED_contract),
              "expected %s and %s condition, found %d operands",
              n->red == RED_contract ? "factors" : "one argument", n->where ? "a" : "no", n->nin))
        return;
    if (operands_ok(v)) {
        const DType *in = types_in(v);
        DType want = infer_reduce(n->red, in, args, &why);
        is_type(v, want, why);
        if (n->where)
            need(v, in[args] == DT_bool, "expected a bool condition, found %s",
                 type_name(in[args]));
    }
    verify_bounds(v);
}

static bool same_reduced(const Node *a, const Node *b) {
    if (a->naxes - a->rank != b->naxes - b->rank) return false;
    for (int k = 0; k < a->naxes - a->rank; k++)
        if (a->axes[a->rank + k].extent != b->axes[b->rank + k].extent) return false;
    return true;
}

static void verify_loop(Verify *v) {
    const Node *n = v->n;
    need(v, n->loop < 0 || n->kind == N_REDUCE, "expected no loop %d, found one", n->loop);
    if (n->frame < 0 || !need(v, n->loop >= 0, "expected the loop of its frame, found none"))
        return;
    if (!need(v, n->frame < n->id, "expected a frame before it, found %%%d", n->frame)) return;
    const Node *f = v->g->nodes.v[n->frame];
    need(v, f->kind == N_REDUCE && f->loop == n->loop && (f->red == RED_max || f->red == RED_min),
         "expected a max or min of its loop as its frame, found %%%d", n->frame);
    need(v, f->type == DT_f32 && n->type == DT_f32, "expected f32 with a frame, found %s in %s",
         type_name(n->type), type_name(f->type));
    need(v, same_reduced(n, f), "expected a frame over the same extents, found %%%d", n->frame);
}

static void axes_ok(Verify *v) {
    const Node *n = v->n;
    if (n->kind == N_REDUCE)
        need(v, n->rank <= n->naxes, "expected rank <= %d, found %d", n->naxes, n->rank);
    else
        need(v, n->rank == n->naxes, "expected no reduced axes, found rank %d of %d axes", n->rank,
             n->naxes);
    for (int i = 0; i < n->naxes; i++) {
        v->where = arena_printf(v->g->arena, "extent %d", i);
        ix_ok(v, n->axes[i].extent, sizes_only);
    }
    v->where = NULL;
}

static void verify_node(Verify *v) {
    const Node *n = v->n;
    if (n->kind != N_OP && n->kind != N_REDUCE)
        need(v, n->nin == 0, "expected no operands, found %d", n->nin);
    need(v, !n->where || n->kind == N_REDUCE, "expected no condition, found one");
    need(v, n->step < 0 || n->store, "expected step %d to store it, found no store", n->step);
    switch (n->kind) {
    case N_INPUT: verify_input(v); break;
    case N_CONST: verify_const(v); break;
    case N_INDEX: verify_index(v); break;
    case N_OP: verify_op(v); break;
    case N_REDUCE: verify_reduce(v); break;
    }
    verify_roles(v);
    verify_loop(v);
}

/* ---- signature and lists ------------------------------------------------------------------ */

static void verify_names(Verify *v) {
    Map seen = {.arena = v->g->arena};
    need(v, v->g->name != NULL, "expected a name, found none");
    for (int i = 0; i < v->g->sizes.n; i++) {
        const char *name = v->g->sizes.v[i].name;
        if (!need(v, text_is_word(name), "size %d: expected a plain word, found '%s'", i,
                  name ? name : ""))
            continue;
        need(v, !(*map_puts(&seen, name))++, "expected one size or parameter %s, found two", name);
    }
    for (int i = 0; i < v->g->params.n; i++) {
        const char *name = v->g->params.v[i].name;
        if (need(v, name != NULL, "parameter %d: expected a name, found none", i))
            need(v, !(*map_puts(&seen, name))++, "expected one size or parameter %s, found two",
                 name);
    }
}

static bool param_ok(Verify *v, const Param *p) {
    const Graph *g = v->g;
    bool ok = need(v, p->type < DT_COUNT, "expected a type, found none");
    for (int d = 0; d < p->rank; d++) ok &= ix_ok(v, p->dims[d], sizes_only);
    if (!need(v, p->node >= 0 && p->node < g->nodes.n, "expected a node below %d, found %%%d",
              g->nodes.n, p->node) ||
        !ok)
        return false;
    const Node *n = g->nodes.v[p->node];
    if (!p->out)
        return need(v, n->kind == N_INPUT, "expected an input node, found %%%d (%s)", n->id,
                    what_is(n));
    need(v, n->type == p->type, "expected %%%d to be %s, found %s", n->id, type_name(p->type),
         type_name(n->type));
    if (!need(v, n->rank == p->rank, "expected rank %d of %%%d, found %d", p->rank, n->id, n->rank))
        return false;
    for (int d = 0; d < p->rank; d++)
        need(v, n->axes[d].extent == p->dims[d], "expected extent %d of %%%d to be %s, found %s", d,
             n->id, show(v, p->dims[d]), show(v, n->axes[d].extent));
    return true;
}

static bool verify_params(Verify *v) {
    const Graph *g = v->g;
    bool ok = true;
    for (int i = 0; i < g->params.n; i++) {
        const Param *p = &g->params.v[i];
        v->where = arena_printf(g->arena, "parameter %s", p->name ? p->name : "?");
        need(v, p->out || !i || !g->params.v[i - 1].out,
             "expected inputs first, found it behind an output");
        ok &= param_ok(v, p);
    }
    v->where = NULL;
    return ok;
}

static void verify_checks(Verify *v) {
    const Graph *g = v->g;
    v->facts = ARENA_ARRAY(g->arena, const Ix *, g->checks.n);
    for (int i = 0; i < g->checks.n; i++) {
        const Check *c = &g->checks.v[i];
        v->where = arena_printf(g->arena, "check %d", i);
        if (ix_ok(v, c->e, sizes_only)) v->facts[v->nfacts++] = c->e;
        if (c->unless) ix_ok(v, c->unless, sizes_only);
        if (c->needed) ix_ok(v, c->needed, sizes_only);
        if (c->found) ix_ok(v, c->found, sizes_only);
        need(v, c->text && *c->text, "expected a text, found none");
    }
    v->nfacts = ix_strongest(v->facts, v->nfacts);
    v->where = NULL;
}

/* Only sizes solved before, and %0. */
static void solve_leaves(Verify *v, const Ix *x, const bool *known) {
    if (x->kind == IX_SIZE && x->num >= 0 && x->num < v->g->sizes.n)
        need(v, known[x->num], "expected sizes solved before it, found %s",
             v->g->sizes.v[x->num].name);
    if (x->kind == IX_VALUE)
        need(v, x->num == 0 && x->n == 0, "expected the extent %%0, found %%%lld",
             (long long)x->num);
    need(v, x->kind != IX_AXIS, "expected no axis, found axis %lld", (long long)x->num);
    for (int i = 0; i < x->n; i++) solve_leaves(v, x->arg[i], known);
}

static void verify_solve(Verify *v) {
    const Graph *g = v->g;
    bool *known = ARENA_ARRAY(g->arena, bool, g->sizes.n);
    for (int i = 0; i < g->solve.n; i++) {
        const Solve *s = &g->solve.v[i];
        v->where = arena_printf(g->arena, "solve %d", i);
        if (!need(v, s->size >= 0 && s->size < g->sizes.n, "expected a size, found number %d",
                  s->size) ||
            !need(v, s->param >= 0 && s->param < g->params.n,
                  "expected a parameter, found number %d", s->param))
            continue;
        int rank = g->params.v[s->param].rank;
        need(v, s->dim >= 0 && s->dim < rank, "expected a dimension below %d, found %d", rank,
             s->dim);
        need(v, s->div > 0, "expected a divisor > 0, found %lld", (long long)s->div);
        if (need(v, s->num != NULL, "expected an expression, found none"))
            solve_leaves(v, s->num, known);
        need(v, !known[s->size], "expected each size once, found %s again",
             g->sizes.v[s->size].name);
        known[s->size] = true;
    }
    v->where = NULL;
    for (int i = 0; g->solve.n && i < g->sizes.n; i++)
        need(v, known[i], "expected every size solved, found %s unsolved", g->sizes.v[i].name);
}

static void verify_exact(Verify *v) {
    const Exact *e;
    int n = v->g->solve.n ? infer_exact(v->g, &e) : 0;
    for (int i = 0; i < n; i++) {
        bool found = false;
        for (int k = 0; k < v->nfacts; k++) found |= v->facts[k] == e[i].check;
        need(v, found, "expected a check %s >= 0 for the exact quotient %s, found none",
             show(v, e[i].check), show(v, e[i].quotient));
    }
}

static bool one_of(const char *word, const char *const *list, size_t n) {
    for (size_t i = 0; word && i < n; i++)
        if (!strcmp(word, list[i])) return true;
    return false;
}

static void verify_rest(Verify *v) {
    static const char *const metric[] = {"kernels", "spills", "hbm", "workspace"};
    static const char *const cmp[] = {"==", "<=", "<"};
    const Graph *g = v->g;
    for (int i = 0; i < g->expect.n; i++) {
        const Expect *e = &g->expect.v[i];
        v->where = arena_printf(g->arena, "expect %d", i);
        need(v, one_of(e->metric, metric, 4),
             "expected kernels, spills, hbm or workspace, found %s",
             e->metric ? e->metric : "none");
        need(v, one_of(e->cmp, cmp, 3), "expected ==, <= or <, found %s", e->cmp ? e->cmp : "none");
        need(v, isfinite(e->number), "expected a finite number, found %g", e->number);
    }
    for (int i = 0; i < g->edges.n; i++) {
        const Edge *e = &g->edges.v[i];
        v->where = arena_printf(g->arena, "edge %d", i);
        need(v, e->from >= 0 && e->from < g->nodes.n && e->to >= 0 && e->to < g->nodes.n,
             "expected nodes below %d, found %%%d and %%%d", g->nodes.n, e->from, e->to);
    }
    v->where = NULL;
}

/* What everything else looks at in nodes other than the one at hand: numbers, types, extents. */
static bool shapes_ok(Verify *v) {
    const Graph *g = v->g;
    for (int i = 0; i < g->nodes.n; i++)
        need(v, g->nodes.v[i]->id == i, "expected %%%d in its place, found %%%d", i,
             g->nodes.v[i]->id);
    for (int i = 0; i < g->nodes.n; i++) {
        v->n = g->nodes.v[i];
        need(v, v->n->type < DT_COUNT, "expected a type, found none");
        axes_ok(v);
    }
    v->n = NULL;
    return v->ok;
}

bool graph_verify(const Graph *g, Str *why) {
    Verify v = {.g = g, .why = why, .ok = true};
    verify_names(&v);
    if (!shapes_ok(&v) || !verify_params(&v)) return false;
    verify_checks(&v);
    verify_solve(&v);
    verify_exact(&v);
    for (int i = 0; i < g->nodes.n; i++) {
        v.n = g->nodes.v[i];
        verify_node(&v);
    }
    v.n = NULL;
    verify_rest(&v);
    return v.ok;
}
