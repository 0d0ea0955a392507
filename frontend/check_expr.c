/* check_expr.c - names and the form of expressions: everything that needs no ranges and no types.
 *
 * One walk serves fns and defs; they differ in what a name may be. A name that was reported once
 * in a text is not reported there again.
 */
#include "frontend/check_int.h"

#include <string.h>

static void walk_all(Checker *c, const Exprs *list) {
    for (int i = 0; i < list->n; i++) check_expr(c, list->v[i]);
}

/* ---- names
 * ---------------------------------------------------------------------------------------- */

const Scoped *check_bound(const Checker *c, const char *name) {
    for (int i = c->bound.n - 1; i >= 0; i--)
        if (!strcmp(c->bound.v[i].name.s, name)) return &c->bound.v[i];
    return NULL;
}

static void suggest_names(const Checker *c, Suggest *s) {
    if (!suggest_pays(c->u)) return;
    for (int i = 0; i < c->bound.n; i++) suggest(s, c->bound.v[i].name.s);
    for (int i = 0; c->fn && i < c->fn->syms.n; i++) suggest(s, c->fn->syms.v[i]->name.s);
    for (int i = 0; !c->fn && i < c->owner->names.n; i++) suggest(s, c->owner->names.v[i].s);
    for (int i = 0; !c->fn && i < c->owner->body.n; i++) suggest(s, c->owner->body.v[i].name.s);
    suggest_decls(s, c->u, DECL_CONST);
}

static bool first_time(Checker *c, const char *name) {
    intptr_t *told = map_puts(&c->told, name);
    return !(*told)++;
}

static bool binds(const AstAxes *axes, const char *name) {
    for (int i = 0; i < axes->n; i++)
        if (!strcmp(axes->v[i].name.s, name)) return true;
    return false;
}

static bool binds_inside(const Expr *x, const char *name) {
    if (binds(&x->axes, name) || (x->where && binds_inside(x->where, name))) return true;
    for (int i = 0; i < x->args.n; i++)
        if (binds_inside(x->args.v[i], name)) return true;
    return false;
}

/* Was it meant as an index: does it stand where one stands, or is it one elsewhere in the fn? */
static bool meant_index(const Checker *c, const char *name) {
    if (!c->fn || c->in_index) return c->in_index;
    const Stmts *body = &c->owner->body;
    for (int i = 0; i < body->n && suggest_pays(c->u); i++)
        if (binds(&body->v[i].axes, name) || binds_inside(body->v[i].value, name)) return true;
    return false;
}

static void unknown(Checker *c, const Name *n) {
    if (!first_time(c, n->s)) return;
    Suggest s = {n->s, NULL, 0};
    suggest_names(c, &s);
    const char *hint = suggest_text(c->u->arena, &s);
    if (is_upper(n->s) && !c->fn)
        diag_error(c->diags, n->span, "size-in-def",
                   "there is no const '%s'%s; a def sees no sizes: give it a parameter", n->s,
                   hint);
    else if (is_upper(n->s))
        diag_error(c->diags, n->span, "unknown-name", "there is no size or const '%s'%s", n->s,
                   hint);
    else if (!*hint && meant_index(c, n->s))
        diag_error(c->diags, n->span, "unknown-name",
                   "'%s' is not defined here: an index stands on the left side of its statement or "
                   "in a reduction, as in sum[%s]",
                   n->s, n->s);
    else
        diag_error(c->diags, n->span, "unknown-name", "'%s' is not defined%s", n->s, hint);
}

void check_lower(Checker *c, const Name *n, const char *what) {
    if (is_upper(n->s))
        diag_error(c->diags, n->span, "name-case",
                   "'%s' is %s, so its first letter must be lower case", n->s, what);
}

static const char *times(Arena *a, int n, const char *what) {
    return arena_printf(a, "%d %s%s", n, what, n == 1 ? "" : "s");
}

/* ---- leaves
 * --------------------------------------------------------------------------------------- */

static void name_in_def(Checker *c, const Expr *x) {
    int at;
    const Decl *d;
    if (def_role(c->owner, x->name.s, &at) != IN_DEF_NONE) return;
    if (is_upper(x->name.s) && (d = unit_find(c->u, x->name.s)) && d->kind == DECL_CONST) return;
    unknown(c, &x->name);
}

const char *check_dims_of(Arena *a, const Sym *s) {
    if (!s->rank) return "no indices";
    return s->rank == 1 ? "1 index" : arena_printf(a, "%d indices", s->rank);
}

static bool callable(const Checker *c, const char *name) {
    return prim_named(name) != OP_COUNT || unit_def(c->u, c->owner, name);
}

static void walk_name(Checker *c, const Expr *x) {
    if (check_bound(c, x->name.s)) return;
    if (!c->fn) {
        name_in_def(c, x);
        return;
    }
    Sym *s = fn_sym(c->fn, x->name.s);
    if (s && s->rank) {
        diag_error(c->diags, x->span, "rank", "'%s' takes %s: %s[...]", s->name.s,
                   check_dims_of(c->u->arena, s), s->name.s);
        diag_note(c->diags, s->name.span, "it is defined here");
        return;
    }
    const Decl *d = unit_find(c->u, x->name.s);
    if (s || (d && d->kind == DECL_CONST)) return;
    if (callable(c, x->name.s) && first_time(c, x->name.s))
        diag_error(c->diags, x->span, "function-value", "'%s' is a function: it needs arguments",
                   x->name.s);
    else
        unknown(c, &x->name);
}

static void not_a_tensor(Checker *c, const Expr *x) {
    int at;
    const char *name = x->name.s;
    if (check_bound(c, name) || (!c->fn && def_role(c->owner, name, &at) == IN_DEF_AXIS))
        diag_error(c->diags, x->span, "index-read", "'%s' is an index, not a tensor", name);
    else if (!c->fn && def_role(c->owner, name, &at) != IN_DEF_NONE)
        diag_error(c->diags, x->span, "def-read",
                   "'%s' has no indices here: in a def, parameters and locals are values that "
                   "follow its axes by themselves",
                   name);
    else if (unit_def(c->u, c->owner, name))
        diag_error(c->diags, x->span, "function-value",
                   "'%s' is a def: after its axes it needs arguments in parentheses", name);
    else if (prim_named(name) != OP_COUNT)
        diag_error(c->diags, x->span, "function-value",
                   "'%s' is a function: its arguments stand in parentheses", name);
    else
        unknown(c, &x->name);
}

static void walk_read(Checker *c, const Expr *x) {
    bool around = c->in_index;
    c->in_index = true;
    walk_all(c, &x->args);
    c->in_index = around;
    Sym *s = c->fn && !check_bound(c, x->name.s) ? fn_sym(c->fn, x->name.s) : NULL;
    if (!s || s->kind == SYM_SIZE) {
        not_a_tensor(c, x);
        return;
    }
    if (s->rank == x->args.n) return;
    diag_error(c->diags, x->span, "rank", "'%s' takes %s, found %d", s->name.s,
               check_dims_of(c->u->arena, s), x->args.n);
    diag_note(c->diags, s->param ? s->param->span : s->stmt->head, "it is defined here");
}

/* ---- calls
 * ---------------------------------------------------------------------------------------- */

static void argument_count(Checker *c, const Expr *x, int least, int most, const Decl *def) {
    if (x->args.n >= least && x->args.n <= most) return;
    const char *want = times(c->u->arena, most, "argument");
    if (least != most) want = arena_printf(c->u->arena, "%d to %d arguments", least, most);
    diag_error(c->diags, x->span, "arguments", "'%s' takes %s, found %d", x->name.s, want,
               x->args.n);
    if (def && !def->prelude) diag_note(c->diags, def->name.span, "it is defined here");
}

static void no_such_function(Checker *c, const Expr *x) {
    const Decl *d = unit_find(c->u, x->name.s);
    if (d && d->kind == DECL_FN) {
        diag_error(c->diags, x->span, "fn-call",
                   "'%s' is a fn, and a fn does not call a fn: a def is the unit of reuse",
                   x->name.s);
        diag_note(c->diags, d->name.span, "it is a fn here");
        return;
    }
    if (!first_time(c, x->name.s)) return;
    Sym *s = c->fn ? fn_sym(c->fn, x->name.s) : NULL;
    int at;
    if (s || check_bound(c, x->name.s) ||
        (!c->fn && def_role(c->owner, x->name.s, &at) != IN_DEF_NONE)) {
        diag_error(c->diags, x->span, "not-a-function",
                   "'%s' is not a function; a product is written with '*', indices stand in [ ]",
                   x->name.s);
        return;
    }
    Suggest g = {x->name.s, NULL, 0};
    suggest_prims(&g);
    suggest_decls(&g, c->u, DECL_DEF);
    diag_error(c->diags, x->span, "unknown-name", "there is no function '%s'%s", x->name.s,
               suggest_text(c->u->arena, &g));
}

static void walk_call(Checker *c, const Expr *x) {
    Op op = prim_named(x->name.s);
    const Decl *named = unit_find(c->u, x->name.s);
    if (!named || named->kind != DECL_FN) walk_all(c, &x->args);
    if (op != OP_COUNT) {
        argument_count(c, x, prim_least(op), op_arity(op), NULL);
        return;
    }
    const Decl *d = unit_def(c->u, c->owner, x->name.s);
    if (!d) {
        no_such_function(c, x);
        return;
    }
    if (d->axes.n) {
        diag_error(c->diags, x->span, "def-axes", "'%s' works over %s: write %s[%s](...)",
                   d->name.s, d->axes.n == 1 ? "an index" : "indices", d->name.s,
                   d->axes.n == 1 ? d->axes.v[0].s : "...");
        return;
    }
    argument_count(c, x, d->names.n, d->names.n, d);
}

static void walk_over(Checker *c, const Expr *x) {
    const Decl *d = unit_def(c->u, c->owner, x->name.s);
    int known = c->bound.n;
    for (int i = 0; i < x->axes.n; i++) {
        const Name *n = &x->axes.v[i].name;
        check_lower(c, n, "an index");
        if (is_upper(n->s)) continue;
        for (int k = 0; k < i; k++)
            if (!strcmp(n->s, x->axes.v[k].name.s))
                diag_error(c->diags, n->span, "index-twice", "'%s' is given twice to '%s'", n->s,
                           x->name.s);
        if (c->fn && fn_sym(c->fn, n->s) && !check_bound(c, n->s)) {
            diag_error(c->diags, n->span, "index-name",
                       "an index cannot bear the name of a tensor, scalar or size: '%s'", n->s);
            diag_note(c->diags, fn_sym(c->fn, n->s)->name.span, "it is defined here");
        }
        Scoped b = {*n, false};
        vec_push(c->u->arena, &c->bound, b);
    }
    if (x->where) check_expr(c, x->where);
    walk_all(c, &x->args);
    c->bound.n = known;
    if (!d) {
        no_such_function(c, x);
        return;
    }
    if (!d->axes.n) {
        diag_error(c->diags, x->span, "def-axes", "'%s' works over no index: write %s(...)",
                   d->name.s, d->name.s);
        if (!d->prelude) diag_note(c->diags, d->name.span, "it is defined here");
        return;
    }
    if (d->axes.n > 1 && d->axes.n != x->axes.n) {
        diag_error(c->diags, x->span, "def-axes", "'%s' works over %d indices, found %d", d->name.s,
                   d->axes.n, x->axes.n);
        if (!d->prelude) diag_note(c->diags, d->name.span, "it is defined here");
        return;
    }
    argument_count(c, x, d->names.n, d->names.n, d);
}

/* ---- indices and reductions
 * ------------------------------------------------------------------------ */

/* A range or a dimension: integers made of sizes and consts. */
void check_size_expr(Checker *c, const Expr *x, const char *what) {
    if (x->kind == E_NAME && is_upper(x->name.s)) {
        walk_name(c, x);
        return;
    }
    bool fits = x->kind == E_INT || (x->kind == E_OP && x->op >= AST_ADD && x->op <= AST_POW) ||
                (x->kind == E_CALL && (!strcmp(x->name.s, "min") || !strcmp(x->name.s, "max")));
    if (!fits) {
        diag_error(c->diags, x->span, "size-form", "%s is an integer made of sizes and consts",
                   what);
        return;
    }
    if (x->kind == E_CALL) argument_count(c, x, 2, 2, NULL);
    for (int i = 0; i < x->args.n; i++) check_size_expr(c, x->args.v[i], what);
}

/* An index that a left side or a reduction makes. */
void check_new_index(Checker *c, const Name *n) {
    check_lower(c, n, "an index");
    if (is_upper(n->s)) return;
    Sym *s = c->fn ? fn_sym(c->fn, n->s) : NULL;
    int at;
    DefRole role = c->fn ? IN_DEF_NONE : def_role(c->owner, n->s, &at);
    if (!s && role != IN_DEF_PARAM && role != IN_DEF_LOCAL) return;
    diag_error(c->diags, n->span, "index-name",
               "an index cannot bear the name of a tensor, scalar or size: '%s'", n->s);
    if (s) diag_note(c->diags, s->name.span, "it is defined here");
}

/* Another name inside changes what the reductions around take: their tails are not judged. */
static void reduced_twice(Checker *c, const Name *n, const Name *first, bool outside) {
    c->twice++;
    diag_error(c->diags, n->span, "index-twice",
               "'%s' is already reduced here; take another name%s", n->s,
               outside ? " inside, or put the reduction around it in parentheses of its own" : "");
    diag_note(c->diags, first->span, "it is bound here");
}

static void walk_reduce(Checker *c, const Expr *x) {
    int known = c->bound.n, at, before = c->diags->errors;
    for (int i = 0; i < x->axes.n; i++) {
        const AstAxis *a = &x->axes.v[i];
        const Scoped *b = check_bound(c, a->name.s);
        check_new_index(c, &a->name);
        bool here = b && b >= c->bound.v + known;
        if (here || (b && b->reduced)) reduced_twice(c, &a->name, &b->name, !here);
        bool axis = !c->fn && def_role(c->owner, a->name.s, &at) == IN_DEF_AXIS;
        if (a->range) check_size_expr(c, a->range, "a range");
        if (axis && a->range)
            diag_error(c->diags, a->range->span, "axis-range",
                       "the range of the def's axis '%s' comes from its call", a->name.s);
        if (!c->fn && !axis && !a->range)
            diag_error(c->diags, a->name.span, "range",
                       "'%s' is no axis of the def, so its range must be written: %s[%s in 4]",
                       a->name.s, x->name.s, a->name.s);
        vec_push(c->u->arena, &c->bound, ((Scoped){a->name, true}));
    }
    bool heads_ok = c->diags->errors == before;
    if (x->where) check_expr(c, x->where);
    int twice = c->twice;
    walk_all(c, &x->args);
    c->bound.n = known;
    if (heads_ok && c->twice == twice) check_tail(c->u, c->owner, x);
}

void check_expr(Checker *c, const Expr *x) {
    switch (x->kind) {
    case E_INT:
    case E_REAL:
    case E_INF: break;
    case E_NAME: walk_name(c, x); break;
    case E_READ: walk_read(c, x); break;
    case E_CALL: walk_call(c, x); break;
    case E_CAST:
    case E_OP: walk_all(c, &x->args); break;
    case E_REDUCE: walk_reduce(c, x); break;
    case E_OVER: walk_over(c, x); break;
    }
}
