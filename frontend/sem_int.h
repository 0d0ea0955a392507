/* sem_int.h - what names mean: shared by unit.c, check*.c and build*.c (private).
 *
 * unit.c   consts, defs and fns of all files; the values of consts; --bind
 * check.c  every rule about names and the form of the text, one fn or def at a time
 * build.c  the graph; ranges, types and bounds are asked of ir/infer there
 */
#ifndef FK_FRONTEND_SEM_INT_H
#define FK_FRONTEND_SEM_INT_H

#include "frontend/frontend.h"
#include "frontend/ast.h"
#include "ir/ir.h"

enum {
    RANK_MAX = 8,
    AXES_MAX = 16,
    DEEP = 3 * AST_DEPTH /* how deep a walk goes that follows names into other texts */
};

#define SIZE_VALUES "a whole number from 0 to 9223372036854775807"

typedef struct BindArg {
    const char *name, *text; /* of "M=16": M, and all of it */
    Number value;
    bool used;
} BindArg;

typedef struct Unit {
    Arena *arena;
    Diags *diags;
    const Ast *ast;
    Map names;   /* Decl*: consts and defs of all files, fns and grads of the main one */
    Map prelude; /* Decl*: its defs */
    VEC(BindArg) binds;
} Unit;

/* Collects the names, evaluates the consts. */
void unit_init(Unit *u, const FrontendBinds *binds);
Decl *unit_find(const Unit *u, const char *name);                  /* NULL: none */
Decl *unit_def(const Unit *u, const Decl *from, const char *name); /* as seen from a decl's text */
BindArg *unit_bind(Unit *u, const char *name);
/* The number that an expression of numbers and consts is; false after an error. With `quiet` it
 * only asks. */
bool unit_number(Unit *u, const Expr *x, Number *out, bool quiet);
void unit_unused_binds(Unit *u);

bool is_upper(const char *name);
Op prim_named(const char *name); /* functions that are primitives; OP_COUNT: none */
int prim_least(Op op);           /* arguments it needs at least; op_arity is the most */

/* "; did you mean 'softmax'?" or "": the nearest of the candidates seen. */
typedef struct Suggest {
    const char *word, *best;
    int distance;
} Suggest;
void suggest(Suggest *s, const char *candidate);
bool suggest_pays(const Unit *u);
void suggest_decls(Suggest *s, const Unit *u, DeclKind kind);
void suggest_prims(Suggest *s);
const char *suggest_text(Arena *a, const Suggest *s);

/* ---- names of a fn -----------------------------------------------------------------------------
 */

typedef enum SymKind { SYM_SIZE, SYM_INPUT, SYM_OUTPUT, SYM_LOCAL } SymKind;

typedef struct Sym {
    SymKind kind;
    Name name;
    int rank;
    const AstParam *param; /* input, output */
    const Stmt *stmt;      /* output, local: what defines it */
    int state;             /* of the walk for cycles */
    bool bad;              /* the statement has an error, so its value is not built */
} Sym;

typedef struct FnInfo {
    Decl *fn;
    Map names; /* Sym* */
    VEC(Sym *) syms;
    VEC(Sym *) order; /* outputs and locals, each after those it reads */
    bool broken;      /* its names or their order have errors: nothing of it can be built */
    bool wrong;       /* it has errors, but the statements that have none can be looked at */
} FnInfo;

Sym *fn_sym(const FnInfo *f, const char *name);

/* check.c: all rules for one item. */
FnInfo *check_fn(Unit *u, Decl *fn);
void check_defs(Unit *u);
void check_grad(Unit *u, Decl *grad);

/* Rule 3, check_tail.c. `reduced` are the indices that the reduction binds. */
void check_tail(Unit *u, const Decl *owner, const Expr *reduce);
bool uses_index(Unit *u, const Decl *owner, const Expr *x, const char *const *names, int n);

/* check_order.c: fills f->order, or reports a recurrence. */
bool order_fn(Unit *u, FnInfo *f);

/* Where in a def's text is a name? */
typedef enum DefRole { IN_DEF_NONE, IN_DEF_AXIS, IN_DEF_PARAM, IN_DEF_LOCAL } DefRole;
DefRole def_role(const Decl *def, const char *name, int *at);

void deep_error(Diags *d, Span sp);

/* build.c; NULL after an error */
Graph *build_fn(Unit *u, FnInfo *f, Arena *a);

#endif
