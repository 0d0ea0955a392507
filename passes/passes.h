/* passes.h - graph to graph, then graph to plan. pass.def is the list. */
#ifndef FK_PASSES_H
#define FK_PASSES_H

#include "ir/ir.h"

typedef struct PassCtx {
    Arena *arena;
    const Target *target;
    Diags *diags;
    bool strict, fuse, invariant;
    const int64_t *hint; /* sizes to price with, one per size; NULL: each 1024 */
} PassCtx;

/* Returns true when it changed the graph. */
typedef bool PassFn(PassCtx *cx, Graph *g);

typedef struct Pass {
    const char *name, *what, *why;
    int flags;
    PassFn *run;
} Pass;
enum PassFlag { PASS_ALG = 1, PASS_FUSE = 2 };

#define PASS(name, flags, what, why) PassFn pass_##name;
#include "passes/pass.def"
#undef PASS

const Pass *pass_at(int i); /* NULL past the end */
const Pass *pass_named(const char *name);

/* The last two stages change the level: a tile program a step, then schedules for each. */
Plan *pass_tile(PassCtx *cx, Graph *g);
void pass_schedule(PassCtx *cx, Plan *p);

#endif
