/* ast_print.c - the tree as .fk text that parses back to the same tree. Comments are gone, the
 * parentheses are those of the source. */
#include "frontend/ast.h"

#include <string.h>

static void print_exprs(Str *out, const Exprs *list) {
    for (int i = 0; i < list->n; i++) {
        if (i) str_add(out, ", ");
        ast_print_expr(out, list->v[i]);
    }
}

static void print_axes(Str *out, const AstAxes *axes, const Expr *where) {
    str_add(out, "[");
    for (int i = 0; i < axes->n; i++) {
        str_printf(out, "%s%s", i ? ", " : "", axes->v[i].name.s);
        if (!axes->v[i].range) continue;
        str_add(out, " in ");
        ast_print_expr(out, axes->v[i].range);
    }
    if (where) {
        str_add(out, " where ");
        ast_print_expr(out, where);
    }
    str_add(out, "]");
}

/* A real stays a real when read back. */
static void print_real(Str *out, double r) {
    size_t from = out->n;
    str_real(out, r);
    if (!strpbrk(out->s + from, ".e")) str_add(out, ".0");
}

static void print_op(Str *out, const Expr *x) {
    const char *op = ast_op_text[x->op];
    if (x->args.n == 1) {
        str_printf(out, "%s%s", op, x->op == AST_NOT ? " " : "");
        ast_print_expr(out, x->args.v[0]);
        return;
    }
    ast_print_expr(out, x->args.v[0]);
    str_printf(out, x->op == AST_POW ? "%s" : " %s ", op);
    ast_print_expr(out, x->args.v[1]);
}

static void print_bare(Str *out, const Expr *x) {
    switch (x->kind) {
    case E_INT: str_printf(out, "%lld", (long long)x->i); break;
    case E_REAL: print_real(out, x->r); break;
    case E_INF: str_add(out, "inf"); break;
    case E_NAME: str_add(out, x->name.s); break;
    case E_OP: print_op(out, x); break;
    case E_READ:
        str_printf(out, "%s[", x->name.s);
        print_exprs(out, &x->args);
        str_add(out, "]");
        break;
    case E_CALL:
    case E_CAST:
    case E_OVER:
        str_add(out, x->name.s);
        if (x->kind == E_OVER) print_axes(out, &x->axes, x->where);
        str_add(out, "(");
        print_exprs(out, &x->args);
        str_add(out, ")");
        break;
    case E_REDUCE:
        str_add(out, x->name.s);
        print_axes(out, &x->axes, x->where);
        str_add(out, " ");
        ast_print_expr(out, x->args.v[0]);
        break;
    }
}

void ast_print_expr(Str *out, const Expr *x) {
    if (x->paren) str_add(out, "(");
    print_bare(out, x);
    if (x->paren) str_add(out, ")");
}

static void print_names(Str *out, const Names *names) {
    for (int i = 0; i < names->n; i++) str_printf(out, "%s%s", i ? ", " : "", names->v[i].s);
}

static void print_params(Str *out, const AstParams *params) {
    str_add(out, "(");
    for (int i = 0; i < params->n; i++) {
        const AstParam *q = &params->v[i];
        str_printf(out, "%s%s: %s", i ? ", " : "", q->name.s, dtype_name(q->dtype));
        if (!q->dims.n) continue;
        str_add(out, "[");
        print_exprs(out, &q->dims);
        str_add(out, "]");
    }
    str_add(out, ")");
}

static void print_stmts(Str *out, const Stmts *body) {
    for (int i = 0; i < body->n; i++) {
        const Stmt *s = &body->v[i];
        str_printf(out, "    %s", s->name.s);
        if (s->axes.n) print_axes(out, &s->axes, NULL);
        if (s->dtype != DT_none) str_printf(out, ": %s", dtype_name(s->dtype));
        str_add(out, " = ");
        ast_print_expr(out, s->value);
        str_add(out, "\n");
    }
}

static void print_def(Str *out, const Decl *d) {
    str_printf(out, "def %s", d->name.s);
    if (d->axes.n) {
        str_add(out, "[");
        print_names(out, &d->axes);
        str_add(out, "]");
    }
    str_add(out, "(");
    print_names(out, &d->names);
    str_add(out, d->block ? ") = {\n" : ") = ");
    print_stmts(out, &d->body);
    if (d->block) str_add(out, "    ");
    ast_print_expr(out, d->value);
    str_add(out, d->block ? "\n}\n" : "\n");
}

static void print_fn(Str *out, const Decl *d) {
    str_printf(out, "fn %s", d->name.s);
    print_params(out, &d->in);
    str_add(out, " -> ");
    print_params(out, &d->out);
    str_add(out, "\n");
    if (d->has_expect) {
        str_add(out, "expect {");
        for (int i = 0; i < d->expect.n; i++) {
            const Clause *c = &d->expect.v[i];
            str_printf(out, " %s %s ", c->metric.s, ast_op_text[c->op]);
            ast_print_expr(out, c->bound);
            if (c->unit.s) str_printf(out, " * %s", c->unit.s);
        }
        str_add(out, " }\n");
    }
    str_add(out, "{\n");
    print_stmts(out, &d->body);
    str_add(out, "}\n");
}

void ast_print_file(Str *out, const AstFile *f) {
    for (int i = 0; i < f->decls.n; i++) {
        const Decl *d = f->decls.v[i];
        switch (d->kind) {
        case DECL_USE: str_printf(out, "use \"%s\"\n", d->name.s); break;
        case DECL_DEF: print_def(out, d); break;
        case DECL_FN: print_fn(out, d); break;
        case DECL_CONST:
            str_printf(out, "const %s = ", d->name.s);
            ast_print_expr(out, d->value);
            str_add(out, "\n");
            break;
        case DECL_GRAD:
            str_printf(out, "grad %s = d %s / d (", d->name.s, d->of.s);
            print_names(out, &d->names);
            str_add(out, ")\n");
            break;
        }
    }
}
