/* check.c - the rules of a fn that need no ranges and no types: its names, its statements, its
 * outputs and its expectations. */
#include "frontend/check_int.h"

#include <string.h>

Sym *fn_sym(const FnInfo *f, const char *name) {
    intptr_t *s = map_gets(&f->names, name);
    return s ? (Sym *)*s : NULL;
}

/* ---- fns
 * ------------------------------------------------------------------------------------------ */

static Sym *add_sym(Checker *c, SymKind kind, Name name, int rank) {
    intptr_t *slot = map_puts(&c->fn->names, name.s);
    if (*slot) {
        diag_error(c->diags, name.span, "defined-twice", "'%s' is defined twice", name.s);
        diag_note(c->diags, ((Sym *)*slot)->name.span, "it is defined here");
        return NULL;
    }
    const Decl *d = unit_find(c->u, name.s);
    if (kind != SYM_SIZE && prim_named(name.s) != OP_COUNT)
        diag_error(c->diags, name.span, "primitive", "'%s' is a primitive and cannot be hidden",
                   name.s);
    if (kind != SYM_SIZE && d && d->kind == DECL_DEF) {
        diag_error(c->diags, name.span, "defined-twice", "'%s' is defined twice", name.s);
        diag_note(c->diags, d->name.span, "it is a def here");
    }
    Sym *s = ARENA_NEW(c->u->arena, Sym);
    *s = (Sym){.kind = kind, .name = name, .rank = rank};
    *slot = (intptr_t)s;
    vec_push(c->u->arena, &c->fn->syms, s);
    return s;
}

/* Upper-case names in dimensions that are no consts are sizes. */
static void find_sizes(Checker *c, const Expr *x) {
    if (x->kind == E_NAME && is_upper(x->name.s)) {
        const Decl *d = unit_find(c->u, x->name.s);
        bool known = (d && d->kind == DECL_CONST) || fn_sym(c->fn, x->name.s);
        if (!known) add_sym(c, SYM_SIZE, x->name, 0);
    }
    for (int i = 0; i < x->args.n; i++) find_sizes(c, x->args.v[i]);
}

static void too_many(Checker *c, Span sp, int n) {
    if (n > RANK_MAX)
        diag_error(c->diags, sp, "rank-limit", "a tensor has at most %d dimensions, found %d",
                   RANK_MAX, n);
}

static void add_params(Checker *c, const AstParams *list, SymKind kind) {
    for (int i = 0; i < list->n; i++) {
        const AstParam *p = &list->v[i];
        check_lower(c, &p->name, p->dims.n ? "a tensor" : "a scalar");
        too_many(c, p->span, p->dims.n);
        Sym *s = add_sym(c, kind, p->name, p->dims.n);
        if (s) s->param = p;
        for (int d = 0; d < p->dims.n; d++) find_sizes(c, p->dims.v[d]);
    }
}

static void check_dims(Checker *c, const AstParams *list) {
    for (int i = 0; i < list->n; i++)
        for (int d = 0; d < list->v[i].dims.n; d++)
            check_size_expr(c, list->v[i].dims.v[d], "a dimension");
}

static void add_output(Checker *c, Sym *s, const Stmt *st) {
    if (s->stmt) {
        diag_error(c->diags, st->name.span, "defined-twice", "'%s' is defined twice", st->name.s);
        diag_note(c->diags, s->stmt->name.span, "it is defined here");
        return;
    }
    s->stmt = st;
}

static void check_rank(Checker *c, const Stmt *st) {
    const Sym *s = fn_sym(c->fn, st->name.s);
    if (!s || s->kind != SYM_OUTPUT || s->stmt != st || st->axes.n == s->rank) return;
    diag_error(c->diags, st->head, "rank", "'%s' takes %s, found %d", st->name.s,
               check_dims_of(c->u->arena, s), st->axes.n);
    diag_note(c->diags, s->param->span, "it is defined here");
}

static void add_stmt(Checker *c, const Stmt *st) {
    Sym *s = fn_sym(c->fn, st->name.s);
    if (s && s->kind == SYM_OUTPUT) {
        add_output(c, s, st);
        return;
    }
    check_lower(c, &st->name, st->axes.n ? "a tensor" : "a scalar");
    too_many(c, st->head, st->axes.n);
    if (s && s->kind == SYM_INPUT) {
        diag_error(c->diags, st->name.span, "input-assigned",
                   "'%s' is an input and cannot be defined again", st->name.s);
        diag_note(c->diags, s->param->span, "it is an input here");
        return;
    }
    s = add_sym(c, SYM_LOCAL, st->name, st->axes.n);
    if (s) s->stmt = st;
}

static void check_stmt(Checker *c, const Stmt *st) {
    c->bound.n = 0;
    for (int i = 0; i < st->axes.n; i++) {
        const AstAxis *a = &st->axes.v[i];
        const Scoped *b = check_bound(c, a->name.s);
        check_new_index(c, &a->name);
        if (b) {
            diag_error(c->diags, a->name.span, "index-twice", "'%s' stands twice on the left side",
                       a->name.s);
            diag_note(c->diags, b->name.span, "it is bound here");
        }
        if (a->range) check_size_expr(c, a->range, "a range");
        vec_push(c->u->arena, &c->bound, ((Scoped){a->name, false}));
    }
    int before = c->diags->errors;
    check_expr(c, st->value);
    if (c->diags->errors == before) check_rank(c, st);
}

static void check_expect(Checker *c, const Clauses *list) {
    static const char *const metrics[] = {"kernels", "spills", "hbm", "workspace"};
    for (int i = 0; i < list->n; i++) {
        const Clause *k = &list->v[i];
        Suggest s = {k->metric.s, NULL, 0};
        bool known = false;
        for (int m = 0; m < 4; m++) {
            known |= !strcmp(metrics[m], k->metric.s);
            suggest(&s, metrics[m]);
        }
        if (!known)
            diag_error(c->diags, k->metric.span, "expect", "there is no metric '%s'%s", k->metric.s,
                       s.best ? suggest_text(c->u->arena, &s)
                              : "; they are kernels, spills, hbm and workspace");
        else if (k->unit.s && (strcmp(k->unit.s, "io") || strcmp(k->metric.s, "hbm")))
            diag_error(
                c->diags, k->unit.span, "expect",
                "the only unit is 'io', the bytes of all parameters, and it goes with 'hbm'");
    }
}

FnInfo *check_fn(Unit *u, Decl *fn) {
    Diags *d = u->diags;
    int before = d->errors;
    FnInfo *f = ARENA_NEW(u->arena, FnInfo);
    f->fn = fn;
    f->names.arena = u->arena;
    Checker c = {.u = u, .diags = d, .owner = fn, .fn = f, .told = {.arena = u->arena}};
    add_params(&c, &fn->in, SYM_INPUT);
    add_params(&c, &fn->out, SYM_OUTPUT);
    check_dims(&c, &fn->in);
    check_dims(&c, &fn->out);
    for (int i = 0; i < fn->body.n; i++) add_stmt(&c, &fn->body.v[i]);
    f->broken = d->errors > before;
    for (int i = 0; i < fn->body.n; i++) {
        int so_far = d->errors;
        check_stmt(&c, &fn->body.v[i]);
        Sym *s = fn_sym(f, fn->body.v[i].name.s);
        if (s && d->errors > so_far) s->bad = true;
    }
    for (int i = 0; i < f->syms.n; i++)
        if (f->syms.v[i]->kind == SYM_OUTPUT && !f->syms.v[i]->stmt)
            diag_error(d, f->syms.v[i]->param->span, "output-undefined",
                       "the output '%s' is never defined", f->syms.v[i]->name.s);
    check_expect(&c, &fn->expect);
    f->broken |= !order_fn(u, f);
    f->wrong = d->errors > before;
    return f;
}
