/* case.h - a graph from its text with dense tensors around it. */
#ifndef FK_TEST_CASE_H
#define FK_TEST_CASE_H

#include "ir/ir.h"

typedef struct Case {
    Arena arena;
    Diags diags;
    Graph *g;
    const int64_t *sizes;
    EvalTensor *t; /* per param, dense; outputs filled with NaN bytes */
} Case;

void case_open(Case *c, const char *text, const int64_t *sizes); /* in order of the text */
void case_close(Case *c);
void case_random(Case *c, const char *name, double lo, double hi); /* integers: uniform in it */
double *case_values(Case *c, const char *name); /* row-major, as doubles; in the arena */
void case_set(Case *c, const char *name, const double *row_major);
int64_t case_count(Case *c, const char *name);
int64_t case_eval(Case *c); /* every output; number of unsure elements */
double case_seconds(void);

/* Every element within tol * max(1, |want|), or both NaN, or the same infinity. */
void case_expect(Case *c, const char *name, const double *want, double tol);

#endif
