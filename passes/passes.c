/* passes.c - the table of pass.def. */
#include "passes/passes.h"

#include <string.h>

enum { ALG = PASS_ALG, FUSE = PASS_FUSE, PLAN = PASS_PLAN };

static const Pass table[] = {
#define PASS(name, flags, what, why) {#name, what, why, flags, pass_##name},
#include "passes/pass.def"
#undef PASS
};

const Target *pass_target(const PassCtx *cx, int i) {
    if (!cx->targets) return i ? NULL : cx->target;
    return cx->targets[i];
}

const Pass *pass_at(int i) {
    int n = (int)(sizeof table / sizeof *table);
    return i >= 0 && i < n ? &table[i] : NULL;
}

const Pass *pass_named(const char *name) {
    for (int i = 0; pass_at(i); i++)
        if (!strcmp(table[i].name, name)) return &table[i];
    return NULL;
}

bool pass_wanted(const PassCtx *cx, const Pass *p) {
    return !(p->flags & PASS_ALG && cx->strict) && !(p->flags & PASS_FUSE && !cx->fuse);
}

void pass_run_all(PassCtx *cx, Graph *g) {
    for (int i = 0; pass_at(i); i++)
        if (pass_wanted(cx, pass_at(i))) pass_at(i)->run(cx, g);
}

void pass_print(Str *out, const PassCtx *cx, const Graph *g, const Pass *p) {
    if (!(p->flags & PASS_PLAN)) {
        graph_print(out, g);
        return;
    }
    bool scheduled = cx->plan->steps.n && cx->plan->steps.v[0].schedules.n;
    plan_print(out, cx->plan, true, scheduled);
}
