/* infer.h - the rules of types and ranges, in one place (LANGUAGE.md rules 1, 2, 5, 7). The front
 * end asks; the graph verifier asks again.
 */
#ifndef FK_IR_INFER_H
#define FK_IR_INFER_H

#include "ir/graph.h"

/* Result type of an op on operands of these (stored) types; DT_none and a reason in *why ("needs
 * conditions, got f32") when the operands are wrong. A cast has no rule here: its type is given. */
DType infer_op(Op op, const DType *in, int n, const char **why);
DType infer_reduce(Reduce r, const DType *in, int n, const char **why);

/* Rule 2, range of an index. One use is a place where the index stands: bare in a dimension
 * (c == 1), as k/c in a dimension (c > 1), or a written range (`in expr`). */
typedef struct RangeUse {
    const Ix *dim;
    int64_t c;
    bool written;
    Span span;
    const char *what; /* "dimension 1 of x", "the range written here" */
} RangeUse;

typedef struct Range {
    const Ix *extent; /* NULL: undecided */
    int from, clash;  /* uses that decided / disagree; -1 */
} Range;
Range infer_range(IxPool *p, const RangeUse *uses, int n);

/* Rule 2, is a read inside [0, dim)? Axes are positional; guards[] are facts e >= 0 that hold where
 * the read happens. */
typedef enum Bound {
    BOUND_PROVED, /* inside for all sizes >= 1 (under the guards, if `guarded`) */
    BOUND_DATA,   /* depends on tensor values: the load checks, outside gives 0 */
    BOUND_LAUNCH, /* inside iff lo >= 0 and hi <= dim - 1: conditions on sizes, for a Check */
    BOUND_NEVER   /* outside for all sizes >= 1: an error */
} Bound;

typedef struct BoundResult {
    Bound bound;
    bool guarded;      /* not proved without the guards: the operand must be `checked` */
    const Ix *lo, *hi; /* least and greatest index, of sizes (LAUNCH, NEVER) */
} BoundResult;
BoundResult infer_bound(IxPool *p, const Ix *index, const Ix *dim, const Ix *const *extents,
                        int nax, const Ix *const *guards, int nguards);

/* The affine conjuncts of a bool node read at `map` over the reader's axes: each e >= 0 that
 * follows from the condition being true. Comparisons of N_INDEX nodes, `and` of those; what cannot
 * be said is left out (*exact becomes false then). Appends to a VEC in the pool's arena. */
typedef VEC(const Ix *) IxVec;
void infer_conjuncts(const Graph *g, const Operand *cond, IxVec *facts, bool *exact);

/* Rule 1: fills g->solve so that every size follows from the extents of the parameters; false and
 * the first size that does not in *unsolved. */
bool infer_solve(Graph *g, int *unsolved);

#endif
