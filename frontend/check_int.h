/* check_int.h - one walk over a text: shared by check.c (fns), check_def.c and check_expr.c. */
#ifndef FK_FRONTEND_CHECK_INT_H
#define FK_FRONTEND_CHECK_INT_H

#include "frontend/sem_int.h"

typedef struct Scoped {
    Name name;
    bool reduced; /* by a reduction, not by the left side or a call */
} Scoped;

typedef struct Checker {
    Unit *u;
    Diags *diags;
    Decl *owner;
    FnInfo *fn; /* NULL in a def */
    VEC(Scoped) bound;
    Map told;      /* names reported as unknown: once is enough */
    int twice;     /* reductions over an index that is already reduced */
    bool in_index; /* between the brackets of a read */
} Checker;

void check_expr(Checker *c, const Expr *x);
void check_size_expr(Checker *c, const Expr *x, const char *what); /* a range or a dimension */
void check_new_index(Checker *c, const Name *n); /* that a left side or a reduction makes */
void check_lower(Checker *c, const Name *n, const char *what);
const Scoped *check_bound(const Checker *c, const char *name); /* the index; NULL: none */
const char *check_dims_of(Arena *a, const Sym *s);             /* "2 indices" */

#endif
