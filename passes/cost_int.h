/* cost_int.h - what values cost, predicted from sizes: the hints of the context, or 1024 each. */
#ifndef FK_PASSES_COST_INT_H
#define FK_PASSES_COST_INT_H

#include "passes/passes.h"

/* An expression over sizes; axes of `at` (may be NULL) count as the middle of their extent, data
 * as unknown. With data inside: `unknown`. Never negative. */
double cost_ix(const PassCtx *cx, const Graph *g, const Node *at, const Ix *x, double unknown);

double cost_count(const PassCtx *cx, const Graph *g, const Node *n);  /* elements of its value */
double cost_points(const PassCtx *cx, const Graph *g, const Node *n); /* times what is reduced */
double cost_bytes(const PassCtx *cx, const Graph *g, const Node *n);  /* of its value, stored */
/* Distinct bytes that reader n touches through operand o: no more than there are, no more than
 * the reader has points. */
double cost_read_bytes(const PassCtx *cx, const Graph *g, const Node *n, const Operand *o);

/* f32 operations, an FMA as two; transcendental functions as what they take of the same pipes. */
double cost_op(Op op);
double cost_flops(const PassCtx *cx, const Graph *g, const Node *n);

/* Microseconds by the roofline of the target; without the launch. */
double cost_time(const Target *t, double flops, double bytes);
#define COST_LAUNCH_US 2.0 /* a dependent launch on one stream; no chip in particular */

#endif
