/* linear_int.h - what linear.c asks of linear_empty.c. */
#ifndef FK_PASSES_LINEAR_INT_H
#define FK_PASSES_LINEAR_INT_H

#include "passes/rebuild_int.h"

/* A node `op` of a and b over the value axes of `like`, read there. */
Operand linear_op2(Graph *g, Op op, DType type, const Node *like, Operand a, Operand b);

/* False: the domain of reduction n always has an element where n has one; else *cond, over n's
 * value axes, says whether it has. */
bool linear_nonempty(Graph *g, const Node *n, Operand *cond);

/* `mask` is 0 or more wherever reduction n, over whose axes it is read, has an element: is the sum
 * of it not 0? NaN counts as not 0. */
Operand linear_kept(Graph *g, const Node *n, const Operand *mask);

/* Is every element of node n 0 or more, or NaN? */
bool linear_nonneg(const Graph *g, const Node *n);

#endif
