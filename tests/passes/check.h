/* check.h - two graphs of one signature mean the same: evaluated at random sizes and inputs. */
#ifndef FK_TESTS_PASSES_CHECK_H
#define FK_TESTS_PASSES_CHECK_H

#include "ir/ir.h"

typedef struct Check1 {
    bool algebra; /* rule 5's algebra was applied: rounding may differ, and inf from NaN */
    double near;  /* two reals this near, times what is larger of them and 1, are equal; 0: 2e-6 */
    int rounds;   /* draws of sizes and inputs */
    uint64_t seed;
    int64_t elements; /* out: compared */
} Check1;

/* False and a text in `why`. Extents 0 and 1, NaN, infinities and -0 are among the draws. */
bool check_same(const Graph *before, const Graph *after, Check1 *c, Str *why);

/* The same of a graph and the plan made of it, run as tile programs whose loops are cut in `split`
 * parts. Outputs are compared as they were stored. */
bool check_plan(const Graph *before, const Plan *plan, int split, Check1 *c, Str *why);

#endif
