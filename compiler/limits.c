/* limits.c - what a module cannot hold (runtime/fkm.h) is the user's to know, not a bug of ours:
 * each limit that a fn passes is an error at the fn, with the number needed and the number allowed.
 */
#include "compiler/compiler_int.h"

typedef struct Limits {
    Job *job;
    Span span;
    const char *fn;
} Limits;

static void most(const Limits *l, const char *what, int64_t n, int64_t allowed) {
    if (n > allowed)
        diag_error(l->job->diags, l->span, "module-limit",
                   "%s: it needs %lld %s, a module holds %lld", l->fn, (long long)n, what,
                   (long long)allowed);
}

typedef struct Deepest {
    int64_t depth, length;
} Deepest;

static void see(Deepest *d, const FkmExpr *e) {
    int depth = fkm_expr_depth(e);
    if (depth > d->depth) d->depth = depth;
    if (e->n > d->length) d->length = e->n;
}

static void see_launch(const Limits *l, Deepest *d, const FkmLaunch *k) {
    int64_t n = k->n_params;
    for (int i = 0; i < 3; i++) see(d, &k->grid[i]);
    see(d, &k->shared);
    for (uint32_t i = 0; i < k->n_params; i++) {
        see(d, &k->params[i].value);
        n += k->params[i].kind == FKM_PARAM_SCALAR;
    }
    most(l, "parameters of one kernel", n, FKM_MAX_PARAMS);
}

static void see_steps(const Limits *l, Deepest *d, const FkmFn *f) {
    for (uint32_t s = 0; s < f->n_steps; s++) {
        most(l, "variants of one step", f->steps[s].n_variants, FKM_MAX_VARIANTS);
        for (uint32_t v = 0; v < f->steps[s].n_variants; v++) {
            const FkmVariant *x = &f->steps[s].variants[v];
            see(d, &x->guard), see(d, &x->cost), see(d, &x->scratch);
            for (uint32_t i = 0; i < x->n_launches; i++) see_launch(l, d, &x->launches[i]);
        }
    }
}

static void see_signature(const Limits *l, Deepest *d, const FkmFn *f) {
    int64_t dims = 0;
    for (uint32_t i = 0; i < f->n_tensors; i++) {
        most(l, "dimensions of one tensor", f->tensors[i].rank, FKM_MAX_RANK);
        dims += f->tensors[i].rank;
        for (uint32_t k = 0; k < f->tensors[i].rank; k++) see(d, &f->tensors[i].dims[k].size);
    }
    most(l, "dimensions of all tensors", dims, FKM_MAX_DIMS);
    for (uint32_t i = 0; i < f->n_solves; i++)
        see(d, &f->solves[i].number), see(d, &f->solves[i].divisor);
    for (uint32_t i = 0; i < f->n_checks; i++) {
        const FkmCheck *c = &f->checks[i];
        see(d, &c->value), see(d, &c->unless), see(d, &c->needed), see(d, &c->found);
    }
}

void check_limits(Job *j, const BuiltFn *fn, const FkmFn *f) {
    Limits l = {j, fn->plan->graph->span, f->name};
    Deepest d = {0};
    most(&l, "tensors", f->n_tensors, FKM_MAX_TENSORS);
    most(&l, "sizes", f->n_sizes, FKM_MAX_SIZES);
    most(&l, "temporaries", f->n_temps, FKM_MAX_TEMPS);
    most(&l, "steps", f->n_steps, FKM_MAX_STEPS);
    see_signature(&l, &d, f);
    see(&d, &f->head);
    for (uint32_t i = 0; i < f->n_temps; i++) see(&d, &f->temps[i].bytes);
    see_steps(&l, &d, f);
    most(&l, "levels in an expression of sizes", d.depth, FKM_MAX_STACK);
    most(&l, "operations in an expression of sizes", d.length, FKM_MAX_CODE);
}

/* ---- bytes -------------------------------------------------------------------------------------
 */

/* Did making x leave 64 bits? Its constants are wrapped then. */
#define WRAPS(pool, x) ((pool)->overflow = false, (void)(x), (pool)->overflow)

bool check_bytes(Job *j, const Graph *g, const Plan *p) {
    bool kept = g->ix->overflow, fits = true;
    for (int i = 0; i < g->params.n && !p; i++) {
        const Param *q = &g->params.v[i];
        if (!WRAPS(g->ix, graph_param_bytes(g, q))) continue;
        fits = false;
        diag_error(j->diags, q->span, "bytes-limit",
                   "%s: the bytes of %s do not fit 64 bits with these sizes", g->name, q->name);
    }
    if (p && (WRAPS(g->ix, expect_hbm(p)) || WRAPS(g->ix, expect_io(p)) ||
              WRAPS(g->ix, workspace_apart(p)))) {
        fits = false;
        diag_error(j->diags, g->span, "bytes-limit",
                   "%s: the bytes that it moves and keeps do not fit 64 bits with these sizes",
                   g->name);
    }
    g->ix->overflow = kept;
    return fits;
}
