/* sample.h - sizes and inputs drawn at random so that they suit a graph: what fkrun feeds a module,
 * and the tests feed the evaluators.
 *
 * An integer tensor that indexes an extent N is uniform in [-1, N] (both ends fall outside), one
 * that is compared with an index in [0, extent of the index], other integers in [-8, 8] cut to
 * their type; 4-bit types use their whole range; reals are uniform in [-1, 1), rank-0 reals in
 * (0.1, 0.9). The same seed gives the same values on every machine.
 */
#ifndef FK_IR_SAMPLE_H
#define FK_IR_SAMPLE_H

#include "ir/eval.h"

/* Draws each size that is -1 from [1, most] (or the nearest multiple that a whole quotient in a
 * dimension asks for); others are kept. False when no draw satisfies the dimensions and checks. */
bool sample_sizes(const Graph *g, uint64_t seed, int64_t most, int64_t *sizes);

/* Type, extents and dense strides of a parameter (4-bit rows padded to whole bytes); returns the
 * bytes to allocate. *t keeps its data. 0 extents give 0 bytes. */
size_t sample_shape(const Graph *g, int param, const int64_t *sizes, EvalTensor *t);

/* Fills t->data, of any strides, with values that suit the parameter. */
void sample_fill(const Graph *g, int param, const int64_t *sizes, uint64_t seed,
                 const EvalTensor *t);

/* Do all dimensions divide and all launch checks hold? */
bool sample_legal(const Graph *g, const int64_t *sizes);

#endif
