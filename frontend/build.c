/* build.c - the graph of a fn: its parameters, its statements in the order in which they need each
 * other, and what a launch has to solve and check. */
#include "frontend/build_int.h"

#include <string.h>

/* ---- sizes and parameters
 * ------------------------------------------------------------------------- */

static void add_sizes(Build *b) {
    for (int i = 0; i < b->f->syms.n; i++) {
        const Sym *s = b->f->syms.v[i];
        if (s->kind != SYM_SIZE) continue;
        BindArg *bind = unit_bind(b->u, s->name.s);
        bool fits = bind && !bind->value.real && bind->value.i >= 0;
        if (bind) bind->used = true;
        if (bind && !fits)
            diag_error(b->diags, s->name.span, "bind",
                       "--bind %s: the size '%s' takes " SIZE_VALUES, bind->text, s->name.s);
        const Ix *x = fits ? ix_const(b->p, bind->value.i)
                           : ix_size(b->p, graph_size(b->g, s->name.s, s->name.span));
        *map_puts(&b->sizes, s->name.s) = (intptr_t)x;
    }
}

static Tensor *new_tensor(Build *b, const char *name, int node) {
    Tensor *t = ARENA_NEW(b->arena, Tensor);
    t->node = node;
    *map_puts(&b->tensors, name) = (intptr_t)t;
    return t;
}

static void no_negative_dim(Build *b, const Ix *x, Span sp) {
    int64_t c;
    if (ix_is_const(x, &c) && c < 0)
        build_error(b, sp, "size-form", "this dimension is negative: %lld", (long long)c);
}

static void add_params(Build *b, const AstParams *list, bool out) {
    for (int i = 0; i < list->n; i++) {
        const AstParam *q = &list->v[i];
        Param p = {.name = q->name.s, .type = q->dtype, .rank = q->dims.n, .out = out, .node = -1};
        p.span = q->span;
        p.dims = ARENA_ARRAY(b->arena, const Ix *, p.rank);
        for (int d = 0; d < p.rank; d++) {
            p.dims[d] = size_of(b, q->dims.v[d], true);
            if (!p.dims[d]) p.dims[d] = ix_const(b->p, 1); /* an error was reported */
            no_negative_dim(b, p.dims[d], q->dims.v[d]->span);
        }
        if (!out) {
            Node *n = graph_node(b->g, N_INPUT, p.type, p.rank, p.rank, 0);
            for (int d = 0; d < p.rank; d++)
                n->axes[d] = (Axis){arena_printf(b->arena, "i%d", d), p.dims[d]};
            n->param = b->g->params.n;
            n->span = q->span;
            p.node = n->id;
            new_tensor(b, p.name, n->id);
        }
        vec_push(b->arena, &b->g->params, p);
    }
}

static Param *output_named(Build *b, const char *name) {
    for (int i = 0; i < b->g->params.n; i++)
        if (b->g->params.v[i].out && !strcmp(b->g->params.v[i].name, name))
            return &b->g->params.v[i];
    FK_BUG("no output '%s'", name);
}

/* ---- statements
 * ----------------------------------------------------------------------------------- */

static bool left_side(Build *b, const Stmt *s, const Param *out, Env *env) {
    bool ok = true;
    Bind *binds = ARENA_ARRAY(b->arena, Bind, s->axes.n);
    int *vars = ARENA_ARRAY(b->arena, int, s->axes.n);
    for (int i = 0; i < s->axes.n; i++) {
        const AstAxis *a = &s->axes.v[i];
        const Expr *texts[] = {s->value};
        RangeUse left = {.c = 1, .span = a->name.span};
        if (out) {
            left.dim = out->dims[i];
            left.what = arena_printf(b->arena, "dimension %d of '%s'", i + 1, out->name);
        }
        const Ix *extent = range_of(b, a, texts, 1, out ? &left : NULL);
        ok &= extent != NULL;
        vars[i] = var_new(b, a->name.s, extent ? extent : ix_const(b->p, 1));
        binds[i] = (Bind){a->name.s, &vars[i], 1, i ? &binds[i - 1] : NULL};
        env->binds = &binds[i];
    }
    b->nleft = s->axes.n;
    return ok;
}

/* The roundings that every reader sees: the statement's type, then the output's. */
static const Val *rounded(Build *b, const Val *v, const Stmt *s, const Param *out) {
    DType types[] = {s->dtype, out ? out->type : DT_none};
    Span places[] = {s->dtype_span, out ? out->span : s->span};
    for (int i = 0; i < 2; i++) {
        DType t = types[i];
        if (t == DT_none || v->kind == VAL_BAD) continue;
        if (dtype_class(t) == DC_REAL && op_real_quotient(b, v)) return val_bad(b, v->span);
        if ((t == DT_bool) != (v->type == DT_bool)) {
            build_error(b, s->value->span, "type", "%s is stored as %s%s",
                        v->type == DT_bool ? "a condition" : "a number", dtype_name(t),
                        t == DT_bool ? ": write x != 0" : "; i32(condition) is 0 or 1");
            diag_note(b->diags, places[i], "its type is given here");
            return val_bad(b, v->span);
        }
        v = op_cast(b, t, v, s->value->span);
    }
    return v;
}

/* Conditions over variables become conditions over the axes of the named node. */
static void keep_domains(Build *b, Tensor *t, const Val *v) {
    const Ix **axes = ARENA_ARRAY(b->arena, const Ix *, b->vars.n);
    for (int i = 0; i < b->nleft; i++) axes[i] = ix_axis(b->p, i);
    for (int i = 0; i < v->zero.n; i++) {
        Operand o = v->zero.v[i];
        int rank = b->g->nodes.v[o.node]->rank;
        const Ix **map = ARENA_ARRAY(b->arena, const Ix *, rank);
        for (int d = 0; d < rank; d++) map[d] = ix_at(b->p, o.map[d], axes, b->vars.n);
        o.map = map;
        conds_add(b, &t->zero, o);
    }
}

static void build_stmt(Build *b, const Sym *sym) {
    const Stmt *s = sym->stmt;
    Tensor *t = new_tensor(b, s->name.s, -1);
    if (sym->bad) return;
    Param *out = sym->kind == SYM_OUTPUT ? output_named(b, s->name.s) : NULL;
    Env env = {0};
    b->vars.n = b->nleft = 0;
    if (!left_side(b, s, out, &env)) return;
    if (overflowed(b, s->head, "a range is at most 9223372036854775807")) return;
    const Val *v = rounded(b, build_expr(b, &env, s->value), s, out);
    v = val_masked(b, v);
    if (v->kind == VAL_BAD) return;
    int *vars = ARENA_ARRAY(b->arena, int, s->axes.n);
    for (int i = 0; i < s->axes.n; i++) vars[i] = i;
    t->node = make_named(b, v, vars, s->axes.n, s->name.s, s->span);
    if (t->node < 0) return;
    keep_domains(b, t, v);
    if (out) out->node = t->node;
}

/* ---- launch
 * --------------------------------------------------------------------------------------- */

static void add_exact_checks(Build *b) {
    const Exact *e;
    int n = infer_exact(b->g, &e);
    for (int i = 0; i < n; i++) {
        const char *text = arena_printf(b->arena, "%s must be a multiple of %s",
                                        b->g->sizes.v[e[i].size].name, ix_text(b, e[i].div));
        const Param *p = &b->g->params.v[e[i].param];
        add_check(b, e[i].check, NULL, e[i].div, ix_size(b->p, e[i].size), text, p->span);
    }
}

static void add_expects(Build *b) {
    const Clauses *list = &b->f->fn->expect;
    for (int i = 0; i < list->n; i++) {
        const Clause *c = &list->v[i];
        double number = c->bound->kind == E_INT ? (double)c->bound->i : c->bound->r;
        Expect e = {c->metric.s, ast_op_text[c->op], number, c->unit.s != NULL, c->span};
        vec_push(b->arena, &b->g->expect, e);
    }
}

static void solve_sizes(Build *b) {
    int unsolved;
    if (infer_solve(b->g, &unsolved)) return;
    const SizeSym *s = &b->g->sizes.v[unsolved];
    diag_error(
        b->diags, s->span, "size-unsolved",
        "the size '%s' does not follow from the extents of the tensors: it needs a dimension "
        "that is linear in it alone",
        s->name);
}

Graph *build_fn(Unit *u, FnInfo *f, Arena *a) {
    int before = u->diags->errors;
    Graph *g = graph_new(a, f->fn->name.s);
    g->span = f->fn->name.span;
    Build b = {.u = u, .arena = a, .diags = u->diags, .f = f, .g = g, .p = g->ix};
    b.tensors.arena = b.sizes.arena = b.consts.arena = a;
    add_sizes(&b);
    add_params(&b, &f->fn->in, false);
    add_params(&b, &f->fn->out, true);
    if (u->diags->errors > before) return NULL;
    add_exact_checks(&b);
    solve_sizes(&b);
    overflowed(&b, f->fn->name.span, "sizes are to be solved from smaller multiples");
    for (int i = 0; i < f->order.n && !b.full; i++) build_stmt(&b, f->order.v[i]);
    add_expects(&b);
    if (u->diags->errors > before || f->wrong) return NULL;
    graph_sweep(g);
    return g;
}

/* ---- the whole file
 * ------------------------------------------------------------------------------- */

FrontendFns *frontend_build(Ast *ast, Arena *a, Diags *d, const FrontendBinds *binds) {
    FrontendFns *r = ARENA_NEW(a, FrontendFns);
    if (!ast->main || d->errors) return r; /* half a tree would give false errors */
    Unit u = {.arena = a, .diags = d, .ast = ast};
    unit_init(&u, binds);
    check_defs(&u);
    bool defs_ok = !d->errors;
    for (int i = 0; i < ast->main->decls.n; i++) {
        Decl *decl = ast->main->decls.v[i];
        if (decl->kind == DECL_GRAD) {
            check_grad(&u, decl);
            FrontendLeft left = {decl->name.s, "grad is not built yet", decl->span};
            vec_push(a, &r->left, left);
        }
        if (decl->kind != DECL_FN) continue;
        FnInfo *f = check_fn(&u, decl);
        Graph *g = defs_ok && !f->broken ? build_fn(&u, f, a) : NULL;
        if (g) vec_push(a, &r->fns, g);
    }
    if (!d->errors) unit_unused_binds(&u);
    return r;
}
