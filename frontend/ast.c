/* ast.c - constructors of the tree. They bound its depth, and otherwise only put things together;
 * what a construct means is looked at in check.c. */
#include "frontend/lex_int.h"

#include <string.h>

const char *const ast_op_text[] = {
#define X(name, text) text,
    AST_OPS(X)
#undef X
};
const char *const ast_reduce_text[] = {"sum", "prod", "max", "min", "mean"};

/* ---- expressions --------------------------------------------------------------------------------
 */

static Expr *new_expr(Parse *p, ExprKind kind, Span sp, Name name) {
    Expr *x = ARENA_NEW(p->arena, Expr);
    x->kind = kind;
    x->span = sp;
    x->name = name;
    x->depth = 1;
    return x;
}

/* The terms of a chain a + b + c: every operator of it is a level. */
static int chain_terms(const Expr *x) {
    int n = 1;
    for (; x->kind == E_OP && x->args.n == 2 && !x->paren; x = x->args.v[0]) n++;
    return n;
}

/* Too deep is an error once; the part below is then cut off, so that what is kept can be walked. */
static void child(Parse *p, Expr *x, Expr *part) {
    if (!part) return;
    if (part->depth >= AST_DEPTH) {
        int terms = chain_terms(part);
        if (terms > AST_DEPTH / 2)
            lex_long_chain(p, x->kind == E_OP ? x->name.span : part->span, terms + 1);
        else
            lex_too_deep(p, part->span);
        part->kind = E_INF;
        part->depth = 1;
    }
    if (x->depth <= part->depth) x->depth = part->depth + 1;
}

static void children(Parse *p, Expr *x, const Exprs *list) {
    if (!list) return;
    x->args = *list;
    for (int i = 0; i < list->n; i++) child(p, x, list->v[i]);
}

Expr *ast_int(Parse *p, Span sp, int64_t v) {
    Expr *x = new_expr(p, E_INT, sp, (Name){0});
    x->i = v;
    return x;
}

Expr *ast_real(Parse *p, Span sp, double v) {
    Expr *x = new_expr(p, E_REAL, sp, (Name){0});
    x->r = v;
    return x;
}

Expr *ast_inf(Parse *p, Span sp) {
    return new_expr(p, E_INF, sp, (Name){0});
}

Expr *ast_name(Parse *p, Name name) {
    return new_expr(p, E_NAME, name.span, name);
}

Expr *ast_read(Parse *p, Span sp, Name name, Exprs *args) {
    Expr *x = new_expr(p, E_READ, sp, name);
    children(p, x, args);
    return x;
}

Expr *ast_call(Parse *p, Span sp, Name name, Exprs *args) {
    Expr *x = new_expr(p, E_CALL, sp, name);
    children(p, x, args);
    return x;
}

static Expr *with_arg(Parse *p, Expr *x, Expr *arg) {
    vec_push(p->arena, &x->args, arg);
    child(p, x, arg);
    return x;
}

Expr *ast_cast(Parse *p, Span sp, Name word, DType dtype, Expr *arg) {
    Expr *x = new_expr(p, E_CAST, sp, word);
    x->dtype = dtype;
    return with_arg(p, x, arg);
}

Expr *ast_unary(Parse *p, Span sp, AstOp op, Span op_span, Expr *arg) {
    Expr *x = new_expr(p, E_OP, sp, (Name){ast_op_text[op], op_span});
    x->op = op;
    return with_arg(p, x, arg);
}

Expr *ast_binary(Parse *p, Span sp, AstOp op, Span op_span, Expr *a, Expr *b) {
    return with_arg(p, ast_unary(p, sp, op, op_span, a), b);
}

Expr *ast_reduce(Parse *p, Span sp, AstReduce r, Name word, AstAxes *axes, Expr *where, Expr *arg) {
    Expr *x = new_expr(p, E_REDUCE, sp, word);
    x->reduce = r;
    x->axes = *axes;
    x->where = where;
    for (int i = 0; i < axes->n; i++) child(p, x, axes->v[i].range);
    child(p, x, where);
    return with_arg(p, x, arg);
}

/* The axes were read as expressions, because a read t[i, j] starts the same way. */
Expr *ast_over(Parse *p, Span sp, Name name, Exprs *axes, Expr *where, Exprs *args) {
    Expr *x = new_expr(p, E_OVER, sp, name);
    for (int i = 0; i < axes->n; i++) {
        Expr *a = axes->v[i];
        if (a->kind != E_NAME || a->paren) {
            diag_error(p->diags, a->span, "def-axis",
                       "an axis of a def is the name of an index, not an expression");
            continue;
        }
        AstAxis axis = {a->name, NULL};
        vec_push(p->arena, &x->axes, axis);
    }
    x->where = where;
    child(p, x, where);
    children(p, x, args);
    return x;
}

Expr *ast_paren(Expr *x) {
    x->paren = true;
    return x;
}

/* ---- lists
 * ---------------------------------------------------------------------------------------- */

Exprs *ast_exprs(Parse *p, Exprs *list, Expr *x) {
    if (!list) list = ARENA_NEW(p->arena, Exprs);
    vec_push(p->arena, list, x);
    return list;
}

Names *ast_names(Parse *p, Names *list, Name name) {
    if (!list) list = ARENA_NEW(p->arena, Names);
    vec_push(p->arena, list, name);
    return list;
}

AstAxes *ast_axes(Parse *p, AstAxes *list, Name name, Expr *range) {
    if (!list) list = ARENA_NEW(p->arena, AstAxes);
    AstAxis axis = {name, range};
    vec_push(p->arena, list, axis);
    return list;
}

AstParams *ast_params(Parse *p, AstParams *list, Name name, DType dtype, Span dtype_span,
                      Exprs *dims) {
    if (!list) list = ARENA_NEW(p->arena, AstParams);
    AstParam one = {name, dtype, dtype_span, {0}, span_join(name.span, dtype_span)};
    if (dims) {
        one.dims = *dims;
        one.span = span_join(one.span, dims->v[dims->n - 1]->span);
    }
    vec_push(p->arena, list, one);
    return list;
}

Clauses *ast_clauses(Parse *p, Clauses *list, Name metric, AstOp op, Expr *bound, Name unit) {
    if (!list) return ARENA_NEW(p->arena, Clauses);
    Clause one = {metric, op, bound, unit, span_join(metric.span, bound->span)};
    if (unit.s) one.span = span_join(one.span, unit.span);
    vec_push(p->arena, list, one);
    return list;
}

Stmts *ast_stmts(Parse *p, Stmts *list, const Stmt *s) {
    if (!list) list = ARENA_NEW(p->arena, Stmts);
    if (s) vec_push(p->arena, list, *s);
    return list;
}

Stmt *ast_stmt(Parse *p, Span sp, Span head, Name name, AstAxes *axes, DType dtype, Span dtype_span,
               Expr *value) {
    Stmt *s = ARENA_NEW(p->arena, Stmt);
    *s = (Stmt){name, {0}, dtype, dtype_span, value, sp, head};
    if (axes) s->axes = *axes;
    return s;
}

/* ---- items
 * ---------------------------------------------------------------------------------------- */

static Decl *new_decl(Parse *p, DeclKind kind, Span sp, Name name) {
    Decl *d = ARENA_NEW(p->arena, Decl);
    d->kind = kind;
    d->span = sp;
    d->name = name;
    vec_push(p->arena, &p->file->decls, d);
    return d;
}

void ast_const(Parse *p, Span sp, Name name, Expr *value) {
    new_decl(p, DECL_CONST, sp, name)->value = value;
}

void ast_use(Parse *p, Span sp, Name path) {
    new_decl(p, DECL_USE, sp, path);
}

void ast_def(Parse *p, Span sp, Name name, Names *axes, Names *names, Stmts *locals, Expr *value) {
    Decl *d = new_decl(p, DECL_DEF, sp, name);
    if (axes) d->axes = *axes;
    d->names = *names;
    d->block = locals != NULL;
    if (locals) d->body = *locals;
    d->value = value;
}

void ast_fn(Parse *p, Span sp, Name name, AstParams *in, AstParams *out, Clauses *expect,
            Stmts *body) {
    Decl *d = new_decl(p, DECL_FN, sp, name);
    if (in) d->in = *in;
    d->out = *out;
    d->has_expect = expect != NULL;
    if (expect) d->expect = *expect;
    d->body = *body;
}

void ast_grad(Parse *p, Span sp, Name name, Name d1, Name of, Name d2, Names *wrt) {
    const Name *wrong = strcmp(d1.s, "d") ? &d1 : strcmp(d2.s, "d") ? &d2 : NULL;
    if (wrong)
        diag_error(p->diags, wrong->span, "grad-form",
                   "expected 'd', found '%s': grad NAME = d FN / d (inputs)", wrong->s);
    Decl *d = new_decl(p, DECL_GRAD, sp, name);
    d->of = of;
    d->names = *wrt;
}
