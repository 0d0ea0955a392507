/* build_int.h - from the tree of one fn to its graph (private to build*.c).
 *
 * An expression becomes a Val over *variables*: one variable for every index that is bound while a
 * statement is built (left side, reduction, axis of a def call), numbered in order of binding. A
 * Val that is a node reads it at a map over variables; making a node of Vals collects the variables
 * they use, and these become its axes, in that order. So no name is ever captured, and a node never
 * has an axis that it does not depend on.
 *
 * Arguments and locals of a def are built once per call, over variables made for the call's axes,
 * and moved to another variable (the one a reduction runs over) by substitution.
 */
#ifndef FK_FRONTEND_BUILD_INT_H
#define FK_FRONTEND_BUILD_INT_H

#include "frontend/sem_int.h"

enum { NODES_MAX = 100000 }; /* of one fn, once defs are expanded */

typedef enum ValKind {
    VAL_BAD,  /* after an error: what uses it says nothing */
    VAL_INT,  /* a known integer (i) */
    VAL_REAL, /* a known real (r) */
    VAL_IX,   /* an integer of indices and sizes; gathers in it only where an index is wanted */
    VAL_NODE  /* op.node read at op.map */
} ValKind;

typedef VEC(Operand) Conds;

typedef struct Val {
    ValKind kind;
    DType type;
    int64_t i;
    double r;
    const Ix *ix;
    Operand op;
    bool quotient; /* an integer that came from a division */
    Span span;     /* the text it came from */
    Conds zero;    /* it is 0 where one of these is false (rule 4) */
    bool masked;   /* the node's value really is 0 there; else val_masked makes it so */
} Val;

typedef struct Var {
    const char *name;
    const Ix *extent;
} Var;

/* A name that stands for indices here: one, or several for a def axis that was given a list. */
typedef struct Bind {
    const char *name;
    const int *var;
    int n;
    const struct Bind *next;
} Bind;

/* Facts e >= 0 about variables that hold here, a list to which guards are added in front. */
typedef struct Guard {
    const Ix *fact;
    const struct Guard *next;
} Guard;

/* Where an expression is built: whose text it is, what its indices are, what is known to hold. */
typedef struct Env {
    const struct Call *call; /* NULL: the text of the fn */
    const Bind *binds;
    const Guard *guards;
    bool index; /* the value will be an index: 64-bit arithmetic, gathers allowed */
} Env;

/* One use of a def. Arguments and locals are built on demand, [0] as values, [1] as indices. */
typedef struct Call {
    const Decl *def;
    const Expr *at;
    Env outer;         /* where the arguments are built: the caller's names of the axes rebound */
    const Bind *canon; /* def axis -> its variables in arguments and locals */
    const Guard *guards;
    const Val *cond; /* over canon; NULL: the whole domain */
    const Val **args[2], **locals[2];
} Call;

/* A statement or parameter whose value can be read. */
typedef struct Tensor {
    int node;   /* -1: it has an error */
    Conds zero; /* over the node's axes */
} Tensor;

typedef struct Build {
    Unit *u;
    Arena *arena;
    Diags *diags;
    FnInfo *f;
    Graph *g;
    IxPool *p;
    Map tensors;   /* name -> Tensor* */
    Map sizes;     /* name -> Ix* */
    Map consts;    /* N_CONST nodes + 1, by type and value */
    VEC(Var) vars; /* of the statement at hand; the first `nleft` are its left side */
    int nleft;
    int depth;        /* of build_expr */
    const Call *call; /* whose text is being built, for messages */
    bool full;        /* too many nodes: said once */
} Build;

/* build_val.c: values and nodes. A bad operand makes a bad result. */
const Val *val_bad(Build *b, Span sp);
const Val *val_int(Build *b, int64_t i, Span sp);
const Val *val_real(Build *b, double r, Span sp);
const Val *val_ix(Build *b, const Ix *ix, Span sp);
const Val *val_node(Build *b, Operand op, Span sp);
const Val *val_with(Build *b, const Val *v, bool quotient, Span sp);
bool val_is_int(const Val *v);
const Ix *val_index(Build *b, const Val *v); /* an integer as an index, gathers allowed */
const Val *val_masked(Build *b, const Val *v);
const Val *val_move(Build *b, const Val *v, const int *from, const int *to, int n);
bool val_uses(Build *b, const Val *v, const int *vars, int n);
Operand val_operand(Build *b, const Val *v); /* over variables; makes a node of a number */
int var_new(Build *b, const char *name, const Ix *extent);
const Val *make_op(Build *b, Op op, DType type, const Val *const *in, int n, Span sp);
const Val *make_reduce(Build *b, Reduce r, const Val *x, const Val *where, const int *vars, int n,
                       Span sp);
int make_named(Build *b, const Val *v, const int *vars, int n, const char *name, Span sp);
void conds_add(Build *b, Conds *to, Operand cond);

/* build_op.c: operators and functions with their type rules. */
const Val *op_apply(Build *b, Op op, const Val *const *in, int n, const char *what, Span sp);
const Val *op_arith(Build *b, const Env *env, AstOp op, const Val *x, const Val *y, Span sp);
const Val *op_cast(Build *b, DType type, const Val *v, Span sp);
const Val *op_power(Build *b, const Env *env, const Val *x, const Expr *exponent, Span sp);
const Val *op_and(Build *b, const Val *x, const Val *y, Span sp); /* either may be NULL */
bool op_real_quotient(Build *b, const Val *v);                    /* rule 7's error was made */

/* build_range.c: sizes, ranges of indices, reads. */
const Ix *size_of(Build *b, const Expr *x, bool exact); /* NULL after an error */
const char *ix_text(Build *b, const Ix *x);
void add_check(Build *b, const Ix *e, const Ix *unless, const Ix *needed, const Ix *found,
               const char *text, Span sp);
const Ix *range_of(Build *b, const AstAxis *a, const Expr *const *texts, int n,
                   const RangeUse *left); /* NULL after an error */
const Val *build_read(Build *b, const Env *env, const Expr *x);
void check_divisor(Build *b, const Env *env, const Ix *divisor, Span sp);

/* build_expr.c */
FK_PRINTF(4, 5) void build_error(Build *b, Span sp, const char *rule, const char *fmt, ...);
bool overflowed(Build *b, Span sp, const char *cure); /* an integer was; reported, once */
const Val *build_expr(Build *b, const Env *env, const Expr *x);
const Bind *find_bind(const Bind *list, const char *name);
const Guard *guards_of(Build *b, const Guard *before, const Val *cond, bool negated);

/* build_call.c */
const Val *build_call(Build *b, const Env *env, const Expr *x, const Decl *def);
const Val *call_name(Build *b, const Env *env, const Expr *x);      /* a name in a def's text */
const Val *call_cond(Build *b, const Env *env, const Expr *reduce); /* what the call hands on */

#endif
