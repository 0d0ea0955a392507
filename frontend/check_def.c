/* check_def.c - the rules of a def: its names, its calls, no recursion; and of a grad. */
#include "frontend/check_int.h"

#include <string.h>

/* ---- defs
 * ----------------------------------------------------------------------------------------- */

static void def_names(Checker *c, const Decl *d) {
    Map seen = {.arena = c->u->arena};
    const Names *lists[] = {&d->axes, &d->names};
    VEC(const Name *) all = {0};
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < lists[k]->n; i++) vec_push(c->u->arena, &all, &lists[k]->v[i]);
    for (int i = 0; i < d->body.n; i++) vec_push(c->u->arena, &all, &d->body.v[i].name);
    for (int i = 0; i < all.n; i++) {
        const Name *n = all.v[i];
        check_lower(c, n, i < d->axes.n ? "an index" : "a value");
        intptr_t *slot = map_puts(&seen, n->s);
        if (*slot) {
            diag_error(c->diags, n->span, "defined-twice", "'%s' is defined twice", n->s);
            diag_note(c->diags, ((const Name *)*slot)->span, "it is defined here");
        } else if (prim_named(n->s) != OP_COUNT) {
            diag_error(c->diags, n->span, "primitive", "'%s' is a primitive and cannot be hidden",
                       n->s);
        }
        *slot = (intptr_t)n;
    }
}

/* Locals in an order in which none is read before it is found; a cycle is an error. */
typedef struct LocalWalk {
    Checker *c;
    const Decl *d;
    int *state;
} LocalWalk;

static void visit_local(LocalWalk *w, int i, int depth);

static void visit_locals_in(LocalWalk *w, const Expr *x, int depth) {
    int at;
    if (x->kind == E_NAME && def_role(w->d, x->name.s, &at) == IN_DEF_LOCAL)
        visit_local(w, at, depth);
    if (x->where) visit_locals_in(w, x->where, depth + 1);
    for (int i = 0; i < x->args.n; i++) visit_locals_in(w, x->args.v[i], depth + 1);
}

static void visit_local(LocalWalk *w, int i, int depth) {
    const Stmt *s = &w->d->body.v[i];
    if (w->state[i] == 2) return;
    if (w->state[i] == 1) {
        diag_error(w->c->diags, s->name.span, "recurrence", "'%s' is defined by itself", s->name.s);
        w->state[i] = 2;
        return;
    }
    if (depth > DEEP) {
        deep_error(w->c->diags, s->name.span);
        return;
    }
    w->state[i] = 1;
    visit_locals_in(w, s->value, depth + 1);
    w->state[i] = 2;
}

/* Does x, in the def's text, use an axis outside of reductions over it? */
typedef struct Keeps {
    Unit *u;
    const Decl *d;
    int axis;
    char *local; /* of each local: 0 not asked, 1 no, 2 yes */
} Keeps;

static bool keeps(Keeps *k, const Expr *x);

static bool keeps_local(Keeps *k, int i) {
    if (!k->local[i]) {
        k->local[i] = 1;
        k->local[i] = keeps(k, k->d->body.v[i].value) ? 2 : 1;
    }
    return k->local[i] == 2;
}

static bool keeps(Keeps *k, const Expr *x) {
    int at;
    if (x->kind == E_NAME) {
        DefRole r = def_role(k->d, x->name.s, &at);
        if (r == IN_DEF_LOCAL) return keeps_local(k, at);
        return r == IN_DEF_PARAM || (r == IN_DEF_AXIS && at == k->axis);
    }
    bool bound = false;
    for (int i = 0; i < x->axes.n; i++)
        bound |= !strcmp(x->axes.v[i].name.s, k->d->axes.v[k->axis].s);
    if (bound && x->kind == E_REDUCE) return false;
    if (bound && x->kind == E_OVER) {
        const Decl *inner = unit_def(k->u, k->d, x->name.s);
        bool any = !inner || !inner->keeps;
        for (int i = 0; !any && i < inner->axes.n; i++) any = inner->keeps[i];
        if (!any) return false;
    }
    if (x->where && keeps(k, x->where)) return true;
    for (int i = 0; i < x->args.n; i++)
        if (keeps(k, x->args.v[i])) return true;
    return false;
}

static void check_def(Unit *u, Decl *d, int depth);

/* The defs that a text calls come first: a def must not need itself. */
static void check_callees(Unit *u, const Decl *d, const Expr *x, int depth) {
    Decl *callee = x->kind == E_CALL || x->kind == E_OVER ? unit_def(u, d, x->name.s) : NULL;
    if (callee && callee->state == 1) {
        diag_error(u->diags, x->name.span, "def-recursion", "the def '%s' needs itself",
                   callee->name.s);
        if (callee != d) diag_note(u->diags, callee->name.span, "it is defined here");
    }
    if (callee && callee->state == 0) check_def(u, callee, depth + 1);
    if (x->where) check_callees(u, d, x->where, depth + 1);
    for (int i = 0; i < x->args.n; i++) check_callees(u, d, x->args.v[i], depth + 1);
}

static void check_def(Unit *u, Decl *d, int depth) {
    if (depth > DEEP) {
        deep_error(u->diags, d->name.span);
        return;
    }
    Checker c = {.u = u, .diags = u->diags, .owner = d, .told = {.arena = u->arena}};
    int before = u->diags->errors;
    d->state = 1;
    for (int i = 0; i < d->body.n; i++) check_callees(u, d, d->body.v[i].value, depth);
    check_callees(u, d, d->value, depth);
    def_names(&c, d);
    LocalWalk w = {&c, d, ARENA_ARRAY(u->arena, int, d->body.n)};
    for (int i = 0; i < d->body.n; i++) visit_local(&w, i, 0);
    for (int i = 0; i < d->body.n; i++) check_expr(&c, d->body.v[i].value);
    check_expr(&c, d->value);
    if (u->diags->errors == before) d->keeps = ARENA_ARRAY(u->arena, bool, d->axes.n);
    for (int i = 0; d->keeps && i < d->axes.n; i++) {
        Keeps k = {u, d, i, ARENA_ARRAY(u->arena, char, d->body.n)};
        d->keeps[i] = keeps(&k, d->value);
    }
    d->state = 2;
}

void check_defs(Unit *u) {
    for (int i = 0; i < u->ast->prelude->decls.n; i++)
        if (!u->ast->prelude->decls.v[i]->state) check_def(u, u->ast->prelude->decls.v[i], 0);
    for (int i = 0; i < u->ast->files.n; i++)
        for (int j = 0; j < u->ast->files.v[i]->decls.n; j++) {
            Decl *d = u->ast->files.v[i]->decls.v[j];
            if (d->kind == DECL_DEF && !d->state) check_def(u, d, 0);
        }
}

/* ---- grad
 * ----------------------------------------------------------------------------------------- */

static const AstParam *param_of(const AstParams *list, const char *name) {
    for (int i = 0; i < list->n; i++)
        if (!strcmp(list->v[i].name.s, name)) return &list->v[i];
    return NULL;
}

void check_grad(Unit *u, Decl *g) {
    int before = u->diags->errors;
    const Decl *fn = unit_find(u, g->of.s);
    if (!fn || fn->kind != DECL_FN) {
        Suggest s = {g->of.s, NULL, 0};
        suggest_decls(&s, u, DECL_FN);
        diag_error(u->diags, g->of.span, "grad", "there is no fn '%s' to differentiate%s", g->of.s,
                   suggest_text(u->arena, &s));
        return;
    }
    for (int i = 0; i < g->names.n; i++) {
        const Name *n = &g->names.v[i];
        const AstParam *p = param_of(&fn->in, n->s);
        for (int k = 0; k < i; k++)
            if (!strcmp(g->names.v[k].s, n->s))
                diag_error(u->diags, n->span, "grad", "'%s' is listed twice", n->s);
        if (!p) {
            diag_error(u->diags, n->span, "grad", "'%s' is no input of '%s'", n->s, fn->name.s);
            diag_note(u->diags, fn->name.span, "its inputs are listed here");
        } else if (dtype_class(p->dtype) != DC_REAL) {
            diag_error(u->diags, n->span, "grad",
                       "'%s' is of type %s: only reals have a derivative", n->s,
                       dtype_name(p->dtype));
            diag_note(u->diags, p->span, "it is an input here");
        }
    }
    if (u->diags->errors == before)
        diag_warn(u->diags, g->span, "grad-not-built",
                  "grad is not built yet: the fn '%s' is left out", g->name.s);
}
