/* passes.h - graph to graph, then graph to plan. pass.def is the list. */
#ifndef FK_PASSES_H
#define FK_PASSES_H

#include "ir/ir.h"

typedef struct PassCtx {
    Arena *arena;
    const Target *target;         /* what plans are made for */
    const Target *const *targets; /* what schedules are made for, NULL ends them; NULL: that one */
    Diags *diags;
    bool strict, fuse, invariant;
    bool fast_accum;     /* sums of fp8 products are the tensor core's alone */
    bool short_rows;     /* for tests: what is worth it for long rows is done for short ones, too */
    const int64_t *hint; /* sizes to price with, one per size; NULL: each 1024 */
    Plan *plan;          /* what tile and schedule make */
} PassCtx;

/* Returns true when it changed the graph (or the plan). */
typedef bool PassFn(PassCtx *cx, Graph *g);

typedef struct Pass {
    const char *name, *what, *why;
    int flags;
    PassFn *run;
} Pass;
enum PassFlag { PASS_ALG = 1, PASS_FUSE = 2, PASS_PLAN = 4 };

#define PASS(name, flags, what, why) PassFn pass_##name;
#include "passes/pass.def"
#undef PASS

const Target *pass_target(const PassCtx *cx, int i); /* NULL past the last */

const Pass *pass_at(int i); /* NULL past the end */
const Pass *pass_named(const char *name);

/* What the pass left behind, as text: the graph, or the plan with what it has by then. */
void pass_print(Str *out, const PassCtx *cx, const Graph *g, const Pass *p);

/* All passes that the context wants, in order. */
void pass_run_all(PassCtx *cx, Graph *g);
bool pass_wanted(const PassCtx *cx, const Pass *p);

#endif
