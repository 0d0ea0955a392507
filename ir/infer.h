/* infer.h - the rules of types and ranges, in one place (LANGUAGE.md rules 1, 2, 5, 7). The front
 * end asks; the graph verifier asks again.
 */
#ifndef FK_IR_INFER_H
#define FK_IR_INFER_H

#include "ir/graph.h"

/* Result type of an op on operands of these (stored) types; DT_none and a reason in *why ("needs
 * conditions, got f32") when the operands are wrong. A cast has no rule here: its type is given. */
DType infer_op(Op op, const DType *in, int n, const char **why);
/* in[]: the argument, or the factors of a contraction; a `where` is not among them. */
DType infer_reduce(Reduce r, const DType *in, int n, const char **why);

/* Rule 1, quotients of one size in the dimensions of parameters (H/8, T/16, H/G): they are exact.
 * `check` >= 0 says so; the front end makes a Check of it, which proofs rely on. Sorted, each once;
 * the array is in g->arena. */
typedef struct Exact {
    int size;
    const Ix *div;      /* a constant > 1, or a size */
    const Ix *quotient; /* size / div */
    const Ix *check;    /* -(size % div) */
    int param, dim;     /* where it first stands */
} Exact;
int infer_exact(const Graph *g, const Exact **out);

/* ix_prove_nonneg, for graphs: with exact quotients, and only those sizes >= 1 that the domain
 * needs: an axis whose extent is 0 leaves nothing to prove, other sizes may be 0. extents[i] NULL:
 * axis i must not occur. */
bool infer_nonneg(const Graph *g, const Ix *x, const Ix *const *extents, int nax,
                  const Ix *const *facts, int nfacts);

/* Rule 2, range of an index. One use is a place where the index stands: bare in a dimension
 * (c == 1), as k/c in a dimension (c > 1), or a written range (`in expr`). A written range wins,
 * then bare uses, then quotients; the rest are reads that infer_bound must judge. Uses of the
 * winning sort must agree. */
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
Range infer_range(const Graph *g, const RangeUse *uses, int n);

/* Rule 2, is a read inside [0, dim)? Axes are positional; guards[] are facts e >= 0 that hold where
 * the read happens. */
typedef enum Bound {
    BOUND_PROVED, /* inside wherever the domain is not empty (under the guards, if `guarded`); so
                     anything is over an axis of extent 0 */
    BOUND_DATA,   /* depends on tensor values, or least and greatest index have no closed form: the
                     load checks, outside gives 0 */
    BOUND_LAUNCH, /* inside iff lo >= 0 and hi <= dim - 1: conditions on sizes, for a Check. x[0]
                     over K is one: K may be 0 */
    BOUND_NEVER   /* one of the two holds for no sizes >= 1: an error */
} Bound;

typedef struct BoundResult {
    Bound bound;
    bool guarded;      /* not so without the guards: the operand must be `checked` */
    const Ix *lo, *hi; /* least and greatest index, of sizes (LAUNCH, NEVER) */
} BoundResult;
BoundResult infer_bound(const Graph *g, const Ix *index, const Ix *dim, const Ix *const *extents,
                        int nax, const Ix *const *guards, int nguards);

/* The affine conjuncts of a bool node read at `map` over the reader's axes: each e >= 0 that
 * follows from the condition being true. Comparisons of integers that index expressions can say:
 * N_INDEX, constants, i64 arithmetic on them, and narrow integer tensors as IX_VALUE (j < len[b]
 * gives len[b] - j - 1: e->has_value tells); `and` of those, `not` of the opposite. What cannot be
 * said is left out, and *exact becomes false. Appends to a VEC in the graph's arena. */
typedef VEC(const Ix *) IxVec;
void infer_conjuncts(const Graph *g, const Operand *cond, IxVec *facts, bool *exact);
/* The same for the condition being false: what guards the right side of an `or`, or an else arm. */
void infer_negated(const Graph *g, const Operand *cond, IxVec *facts, bool *exact);

/* Rule 1: fills g->solve so that every size follows from the extents of the parameters (bare
 * dimensions first, then whatever is linear in one unknown, exact quotients included); false and
 * the first size that does not in *unsolved. */
bool infer_solve(Graph *g, int *unsolved);

#endif
