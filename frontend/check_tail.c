/* check_tail.c - rule 3: a reduction takes the product term after it, and the last factor that it
 * takes must use a reduced index; else the reader and the compiler may see two programs.
 *
 * The check is on the text. In a def, parameters and locals count as using its axes. A def call
 * over an axis binds an index of its own; the outer index is used only if the def's value still
 * depends on its axis.
 */
#include "frontend/sem_int.h"

#include <string.h>

typedef struct Uses {
    Unit *u;
    const Decl *owner; /* whose text it is */
    const char *const *names;
    int n;
    bool in_def_axis; /* one of the names is an axis of the def */
} Uses;

DefRole def_role(const Decl *def, const char *name, int *at) {
    const Names *lists[] = {&def->axes, &def->names};
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < lists[k]->n; i++)
            if (!strcmp(lists[k]->v[i].s, name)) {
                *at = i;
                return k ? IN_DEF_PARAM : IN_DEF_AXIS;
            }
    for (int i = 0; i < def->body.n; i++)
        if (!strcmp(def->body.v[i].name.s, name)) {
            *at = i;
            return IN_DEF_LOCAL;
        }
    return IN_DEF_NONE;
}

static bool named(const Uses *w, const char *name) {
    for (int i = 0; i < w->n; i++)
        if (!strcmp(w->names[i], name)) return true;
    return false;
}

static bool uses(const Uses *w, const Expr *x);

static bool uses_any(const Uses *w, const Expr *x) {
    if (x->where && uses(w, x->where)) return true;
    for (int i = 0; i < x->axes.n; i++)
        if (x->axes.v[i].range && uses(w, x->axes.v[i].range)) return true;
    for (int i = 0; i < x->args.n; i++)
        if (uses(w, x->args.v[i])) return true;
    return false;
}

static bool binds_all_of(const Uses *w, const Expr *x) {
    for (int i = 0; i < w->n; i++) {
        bool bound = false;
        for (int k = 0; k < x->axes.n; k++) bound |= !strcmp(w->names[i], x->axes.v[k].name.s);
        if (!bound) return false;
    }
    return true;
}

/* Does the value of a def call depend on the axes, or are they bound inside only? */
static bool over_keeps(const Uses *w, const Expr *x) {
    Decl *d = unit_def(w->u, w->owner, x->name.s);
    if (!d || !d->keeps) return true; /* an error elsewhere, or being found out */
    for (int i = 0; i < d->axes.n; i++)
        if (d->keeps[i]) return true;
    return false;
}

static bool uses(const Uses *w, const Expr *x) {
    int at;
    switch (x->kind) {
    case E_NAME:
        if (named(w, x->name.s)) return true;
        if (!w->in_def_axis) return false;
        DefRole role = def_role(w->owner, x->name.s, &at);
        return role == IN_DEF_PARAM || role == IN_DEF_LOCAL;
    case E_REDUCE: return !binds_all_of(w, x) && uses_any(w, x);
    case E_OVER: return (!binds_all_of(w, x) || over_keeps(w, x)) && uses_any(w, x);
    default: return uses_any(w, x);
    }
}

bool uses_index(Unit *u, const Decl *owner, const Expr *x, const char *const *names, int n) {
    Uses w = {u, owner, names, n, false};
    int at;
    for (int i = 0; owner->kind == DECL_DEF && i < n; i++)
        w.in_def_axis |= def_role(owner, names[i], &at) == IN_DEF_AXIS;
    return uses(&w, x);
}

/* ---- the check
 * ------------------------------------------------------------------------------------ */

static bool is_number(const Expr *x) {
    while (x->kind == E_OP && x->op == AST_NEG) x = x->args.v[0];
    return x->kind == E_INT || x->kind == E_REAL || (x->kind == E_NAME && is_upper(x->name.s));
}

/* The reduction's head "sum[k where c] ", for the two readings. */
static void put_head(Str *s, const Expr *r) {
    str_printf(s, "%s[", r->name.s);
    for (int i = 0; i < r->axes.n; i++) {
        str_printf(s, "%s%s", i ? ", " : "", r->axes.v[i].name.s);
        if (!r->axes.v[i].range) continue;
        str_add(s, " in ");
        ast_print_expr(s, r->axes.v[i].range);
    }
    if (r->where) {
        str_add(s, " where ");
        ast_print_expr(s, r->where);
    }
    str_add(s, "] ");
}

/* "(sum[k] a) * b" and "sum[k] b * a", or for a quotient "sum[k] (a / b)". */
static void two_readings(Unit *u, const Expr *r, const Expr *product) {
    const Expr *a = product->args.v[0], *b = product->args.v[1];
    const char *op = ast_op_text[product->op];
    Str outer = {0}, inner = {0};
    str_add(&outer, "(");
    put_head(&outer, r);
    ast_print_expr(&outer, a);
    str_printf(&outer, ") %s ", op);
    ast_print_expr(&outer, b);
    put_head(&inner, r);
    bool swap = product->op == AST_MUL;
    str_add(&inner, swap ? "" : "(");
    bool closed = swap && b->kind == E_REDUCE && !b->paren; /* it must not take what follows */
    if (closed) str_add(&inner, "(");
    ast_print_expr(&inner, swap ? b : a);
    if (closed) str_add(&inner, ")");
    str_printf(&inner, " %s ", op);
    ast_print_expr(&inner, swap ? a : b);
    str_add(&inner, swap ? "" : ")");
    diag_note(u->diags, r->span, "write '%s' or '%s'", str_get(&outer), str_get(&inner));
    str_free(&outer);
    str_free(&inner);
}

static const char *index_list(Unit *u, const Expr *r) {
    const char *s = r->axes.n == 1 ? "the reduced index " : "a reduced index (";
    for (int i = 0; i < r->axes.n; i++)
        s = arena_printf(u->arena, "%s%s%s", s, i ? ", " : "", r->axes.v[i].name.s);
    return r->axes.n == 1 ? s : arena_printf(u->arena, "%s)", s);
}

void check_tail(Unit *u, const Decl *owner, const Expr *r) {
    const Expr *x = r->args.v[0], *last = x;
    bool product = x->kind == E_OP && !x->paren && x->op >= AST_MUL && x->op <= AST_MOD;
    if (product) last = x->args.v[1];
    if (!product && is_number(x)) return; /* a lone number counts the domain */
    const char **names = ARENA_ARRAY(u->arena, const char *, r->axes.n);
    for (int i = 0; i < r->axes.n; i++) names[i] = r->axes.v[i].name.s;
    if (uses_index(u, owner, last, names, r->axes.n)) return;
    if (!product) {
        diag_error(u->diags, last->span, "reduction-tail",
                   "what is reduced does not use %s; a lone number, as in %s[%s] 1, counts the "
                   "domain",
                   index_list(u, r), ast_reduce_text[r->reduce], names[0]);
        return;
    }
    diag_error(u->diags, last->span, "reduction-tail",
               "the last factor that '%s' takes does not use %s", ast_reduce_text[r->reduce],
               index_list(u, r));
    two_readings(u, r, x);
}
