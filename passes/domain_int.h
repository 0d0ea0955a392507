/* domain_int.h - the domain of a reduction as bounds; for domain.c and linear.c. */
#ifndef FK_PASSES_DOMAIN_INT_H
#define FK_PASSES_DOMAIN_INT_H

#include "passes/passes.h"

/* Element (axes) is in the domain implies lo <= axis < hi for each reduced axis (NULL: the end of
 * its range) and each of `rows` >= 0, conditions on the value axes alone. Bounds of an axis are
 * over the value axes and the reduced axes before it, and within [0, extent]. */
typedef struct Domain {
    const Ix **lo, **hi;
    IxVec rows;
    bool some;  /* a bound that is not NULL */
    bool exact; /* inside all bounds implies in the domain, given `rows` */
    bool box;   /* no bound is over a reduced axis */
} Domain;
Domain domain_of(Graph *g, const Node *n);

/* Conditions over the value axes that hold (each >= 0) iff the domain has an element, but for those
 * that always do; false when they cannot be said so (not exact, no box). */
bool domain_nonempty(Graph *g, const Node *n, const Domain *d, IxVec *conds);

#endif
