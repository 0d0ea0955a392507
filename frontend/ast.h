/* ast.h - the source text as a tree, and the constructors that the grammar calls (private).
 *
 * Everything lives in the compilation's arena; every node has the span it was read from. The tree
 * is the text and nothing more: parentheses are kept (rule 3 looks at them), names are unresolved,
 * and `print` gives text that parses back to the same tree. Nothing may be nested deeper than
 * AST_DEPTH, so that every walk over a tree may be recursive.
 */
#ifndef FK_FRONTEND_AST_H
#define FK_FRONTEND_AST_H

#include "ir/dtype.h"

enum { AST_DEPTH = 1000 };

typedef enum AstReduce { AST_SUM, AST_PROD, AST_MAX, AST_MIN, AST_MEAN } AstReduce;

/* Operators, with their text and how tightly they bind. */
#define AST_OPS(X)                                                                                 \
    X(OR, "or")                                                                                    \
    X(AND, "and")                                                                                  \
    X(NOT, "not")                                                                                  \
    X(EQ, "==")                                                                                    \
    X(NE, "!=")                                                                                    \
    X(LT, "<")                                                                                     \
    X(LE, "<=")                                                                                    \
    X(GT, ">")                                                                                     \
    X(GE, ">=")                                                                                    \
    X(ADD, "+")                                                                                    \
    X(SUB, "-")                                                                                    \
    X(MUL, "*")                                                                                    \
    X(DIV, "/")                                                                                    \
    X(MOD, "%")                                                                                    \
    X(NEG, "-")                                                                                    \
    X(POW, "^")
typedef enum AstOp {
#define X(name, text) AST_##name,
    AST_OPS(X)
#undef X
} AstOp;

typedef struct Name {
    const char *s;
    Span span;
} Name;
typedef VEC(Name) Names;

typedef struct Expr Expr;
typedef VEC(Expr *) Exprs;

/* An index of a reduction or of a left side; `range` is NULL when it is not written. */
typedef struct AstAxis {
    Name name;
    Expr *range;
} AstAxis;
typedef VEC(AstAxis) AstAxes;

typedef enum ExprKind {
    E_INT,    /* i */
    E_REAL,   /* r */
    E_INF,    /* */
    E_NAME,   /* name */
    E_READ,   /* name[args] */
    E_CALL,   /* name(args): a primitive, a def, or max and min as functions */
    E_CAST,   /* dtype(args[0]) */
    E_OP,     /* op, one or two args */
    E_REDUCE, /* reduce[axes where cond] args[0] */
    E_OVER,   /* name[axes where cond](args): a def over axes */
} ExprKind;

struct Expr {
    ExprKind kind;
    bool paren; /* written in parentheses */
    int depth;
    Span span; /* without its own parentheses */
    Name name; /* for E_REDUCE and E_CAST the word, for E_OP the operator */
    union {
        AstOp op;
        AstReduce reduce;
        DType dtype;
        int64_t i;
        double r;
    };
    Exprs args;
    AstAxes axes;
    Expr *where;
};

/* "name: dtype[dims]" of a parameter; also "name[axes]: dtype = expr", a statement. */
typedef struct AstParam {
    Name name;
    DType dtype;
    Span dtype_span;
    Exprs dims;
    Span span;
} AstParam;
typedef VEC(AstParam) AstParams;

typedef struct Stmt {
    Name name;
    AstAxes axes;
    DType dtype; /* DT_none: not written */
    Span dtype_span;
    Expr *value;
    Span span;
    Span head; /* name and indices */
} Stmt;
typedef VEC(Stmt) Stmts;

typedef struct Clause {
    Name metric;
    AstOp op; /* AST_EQ, AST_LE or AST_LT */
    Expr *bound;
    Name unit; /* .s is NULL: none */
    Span span;
} Clause;
typedef VEC(Clause) Clauses;

/* A number as a const holds it. */
typedef struct Number {
    bool real;
    int64_t i;
    double r;
    bool quotient; /* an integer that came from a division: no good as a real (rule 7) */
} Number;

typedef enum DeclKind { DECL_CONST, DECL_USE, DECL_DEF, DECL_FN, DECL_GRAD } DeclKind;

typedef struct Decl {
    DeclKind kind;
    Name name;         /* DECL_USE: the path as written */
    Expr *value;       /* DECL_CONST; DECL_DEF: the last expression */
    Names axes;        /* DECL_DEF */
    Names names;       /* DECL_DEF: parameters; DECL_GRAD: with respect to these */
    bool block;        /* DECL_DEF: written with braces */
    Stmts body;        /* DECL_FN; DECL_DEF: locals, whose axes are empty */
    AstParams in, out; /* DECL_FN */
    bool has_expect;
    Clauses expect;
    Name of; /* DECL_GRAD: the fn */
    Span span;

    /* What unit.c and check.c find out. */
    bool prelude;
    int state;       /* walks for cycles: 0 not seen, 1 being looked at, 2 done */
    Number value_of; /* DECL_CONST */
    bool known;      /* DECL_CONST: value_of is there */
    bool *keeps;     /* DECL_DEF: does its value use the axis outside of reductions over it? */
} Decl;
typedef VEC(Decl *) Decls;

typedef struct AstFile {
    const Source *src;
    Decls decls;
} AstFile;

/* Everything that one compilation read: the prelude, used files before the files that use them,
 * and the main file last. */
struct Ast {
    AstFile *prelude, *main;
    VEC(AstFile *) files;
};

/* ---- constructors ------------------------------------------------------------------------------
 * They take the parser's state for its arena and diagnostics. */

typedef struct Parse Parse;
Expr *ast_int(Parse *p, Span sp, int64_t v);
Expr *ast_real(Parse *p, Span sp, double v);
Expr *ast_inf(Parse *p, Span sp);
Expr *ast_name(Parse *p, Name name);
Expr *ast_read(Parse *p, Span sp, Name name, Exprs *args);
Expr *ast_call(Parse *p, Span sp, Name name, Exprs *args);
Expr *ast_cast(Parse *p, Span sp, Name word, DType dtype, Expr *x);
Expr *ast_unary(Parse *p, Span sp, AstOp op, Span op_span, Expr *x);
Expr *ast_binary(Parse *p, Span sp, AstOp op, Span op_span, Expr *x, Expr *y);
Expr *ast_reduce(Parse *p, Span sp, AstReduce r, Name word, AstAxes *axes, Expr *where, Expr *x);
Expr *ast_over(Parse *p, Span sp, Name name, Exprs *axes, Expr *where, Exprs *args);
Expr *ast_paren(Expr *x);
Exprs *ast_exprs(Parse *p, Exprs *list, Expr *x); /* list == NULL: a new one */
Names *ast_names(Parse *p, Names *list, Name name);
AstAxes *ast_axes(Parse *p, AstAxes *list, Name name, Expr *range);
AstParams *ast_params(Parse *p, AstParams *list, Name name, DType dtype, Span dtype_span,
                      Exprs *dims);
Clauses *ast_clauses(Parse *p, Clauses *list, Name metric, AstOp op, Expr *bound, Name unit);
Stmts *ast_stmts(Parse *p, Stmts *list, const Stmt *s); /* s == NULL: only a list */
Stmt *ast_stmt(Parse *p, Span sp, Span head, Name name, AstAxes *axes, DType dtype, Span dtype_span,
               Expr *value);
void ast_const(Parse *p, Span sp, Name name, Expr *value);
void ast_use(Parse *p, Span sp, Name path);
void ast_def(Parse *p, Span sp, Name name, Names *axes, Names *names, Stmts *locals, Expr *value);
void ast_fn(Parse *p, Span sp, Name name, AstParams *in, AstParams *out, Clauses *expect,
            Stmts *body);
void ast_grad(Parse *p, Span sp, Name name, Name d1, Name of, Name d2, Names *wrt);

/* ---- text --------------------------------------------------------------------------------------
 */

extern const char *const ast_op_text[], *const ast_reduce_text[];
void ast_print_expr(Str *out, const Expr *x); /* with its parentheses */
void ast_print_file(Str *out, const AstFile *f);

#endif
