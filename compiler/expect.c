/* expect.c - what a plan will cost, as expressions of sizes, and the verdicts on `expect` clauses.
 *
 * A metric is an expression; a clause holds when a difference is never negative. That is proved for
 * all sizes where it can be; with every size bound it is arithmetic; else it is said to be open.
 */
#include "compiler/compiler_int.h"

#include <math.h>
#include <string.h>

IxNames size_names(Arena *a, const Graph *g) {
    const char **size = ARENA_ARRAY(a, const char *, g->sizes.n + 1);
    for (int i = 0; i < g->sizes.n; i++) size[i] = g->sizes.v[i].name;
    return (IxNames){.size = size};
}

const Ix *variant_cost(const Variant *v) {
    return v->kernel.cost ? v->kernel.cost : v->schedule->cost;
}

/* ---- metrics -----------------------------------------------------------------------------------
 */

/* Bytes of a dense row-major tensor; of 4-bit types each row starts on a byte. */
const Ix *expect_bytes(IxPool *p, DType type, int rank, const Ix *const *dims) {
    int bits = dtype_bits(type);
    const Ix *n = ix_const(p, bits < 8 ? 1 : bits / 8);
    for (int d = 0; d < rank; d++) {
        const Ix *extent = dims[d];
        if (bits < 8 && d == rank - 1)
            extent = ix_div(p, ix_add(p, extent, ix_const(p, 1)), ix_const(p, 2));
        n = ix_mul(p, n, extent);
    }
    return n;
}

typedef struct Traffic {
    bool *read, *written;
    const TProg *tile;
} Traffic;

static void see(void *ctx, TInst *i, int depth) {
    Traffic *t = ctx;
    (void)depth;
    if (i->kind == T_LOAD) t->read[i->tensor] = true;
    if (i->kind == T_STORE) t->written[i->tensor] = true;
}

/* Every step reads each tensor that it loads once, and writes each that it stores once: caches and
 * tiles are taken to keep up. */
const Ix *expect_step_hbm(const Plan *p, int step) {
    const TProg *tile = p->steps.v[step].tile;
    IxPool *ix = p->graph->ix;
    Arena scratch = {0};
    Traffic t = {ARENA_ARRAY(&scratch, bool, tile->tensors.n),
                 ARENA_ARRAY(&scratch, bool, tile->tensors.n), tile};
    const Ix *sum = ix_const(ix, 0);
    tile_walk(&tile->body, see, &t);
    for (int i = 0; i < tile->tensors.n; i++) {
        const TTensor *x = &tile->tensors.v[i];
        if (!t.read[i] && !t.written[i]) continue;
        const Ix *const *dims;
        int rank = x->rank;
        if (x->mem == TM_TEMP)
            dims = p->temps.v[x->id].dims;
        else
            dims = p->graph->params.v[x->id].dims;
        const Ix *bytes = expect_bytes(ix, x->type, rank, dims);
        if (t.read[i]) sum = ix_add(ix, sum, bytes);
        if (t.written[i]) sum = ix_add(ix, sum, bytes);
    }
    arena_free(&scratch);
    return sum;
}

const Ix *expect_hbm(const Plan *p) {
    const Ix *sum = ix_const(p->graph->ix, 0);
    for (int i = 0; i < p->steps.n; i++) sum = ix_add(p->graph->ix, sum, expect_step_hbm(p, i));
    return sum;
}

const Ix *expect_io(const Plan *p) {
    const Ix *sum = ix_const(p->graph->ix, 0);
    for (int i = 0; i < p->graph->params.n; i++)
        sum = ix_add(p->graph->ix, sum, graph_param_bytes(p->graph, &p->graph->params.v[i]));
    return sum;
}

/* Bytes of spilt registers that the fast variants move in their main loops; -1: not all of them
 * were assembled. */
static int spills(const BuiltFn *fn) {
    int sum = 0;
    for (int s = 0; s < fn->plan->steps.n; s++) {
        for (int i = 0; i < fn->variants[s].n; i++) {
            const Variant *v = &fn->variants[s].v[i];
            if (v->general || v->dropped) continue;
            if (v->kernel.stats.loop_spills < 0) return -1;
            sum += v->kernel.stats.loop_spills;
        }
    }
    return sum;
}

/* Exact where no size counts; else what it is at the most. */
static const Ix *workspace(const Plan *p) {
    int64_t bytes;
    const Ix *most = workspace_apart(p);
    if (!ix_is_const(most, NULL) || !workspace_at(p, NULL, &bytes)) return most;
    return ix_const(p->graph->ix, bytes);
}

/* NULL: not known; *why says why. */
static const Ix *metric(const BuiltFn *fn, const char *name, const char **why) {
    IxPool *ix = fn->plan->graph->ix;
    if (!strcmp(name, "kernels")) return ix_const(ix, plan_kernels(fn->plan));
    if (!strcmp(name, "hbm")) return expect_hbm(fn->plan);
    if (!strcmp(name, "workspace")) return workspace(fn->plan);
    FK_ASSERT(!strcmp(name, "spills"));
    int n = spills(fn);
    if (n >= 0) return ix_const(ix, n);
    *why = "there was no ptxas to count them";
    return NULL;
}

/* ---- verdicts ----------------------------------------------------------------------------------
 */

/* Is x >= 0: 1 for all sizes, -1 for none, 0 not known. */
static int never_negative(IxPool *ix, const Ix *x) {
    int64_t v;
    if (ix_is_const(x, &v)) return v >= 0 ? 1 : -1;
    if (ix_prove_nonneg(ix, x, NULL, 0, NULL, 0)) return 1;
    const Ix *negative = ix_sub(ix, ix_neg(ix, x), ix_const(ix, 1));
    return ix_prove_nonneg(ix, negative, NULL, 0, NULL, 0) ? -1 : 0;
}

/* The bound of a clause and what it is compared with, both times 1000 so that 1.05 * io is exact.
 */
static int holds(IxPool *ix, const Expect *e, const Ix *found, const Ix *io) {
    const Ix *k = ix_const(ix, 1000);
    const Ix *bound = ix_const(ix, (int64_t)llround(fmin(e->number, 1e15) * 1000));
    if (e->io) bound = ix_mul(ix, bound, io);
    const Ix *slack = ix_sub(ix, bound, ix_mul(ix, found, k));
    if (!strcmp(e->cmp, "<")) return never_negative(ix, ix_sub(ix, slack, ix_const(ix, 1)));
    int most = never_negative(ix, slack);
    if (!strcmp(e->cmp, "<=")) return most;
    int least = never_negative(ix, ix_neg(ix, slack));
    return most < 0 || least < 0 ? -1 : most && least;
}

/* `most` is the verdict on the workspace if nothing in it is shared; `least` is what it takes at
 * least. */
static int with_sharing(IxPool *ix, const Expect *e, int most, const Ix *least, const Ix *io) {
    int other = holds(ix, e, least, io);
    if (most > 0 && (other > 0 || strcmp(e->cmp, "==") != 0)) return 1;
    return most < 0 && other < 0 ? -1 : 0;
}

static void put_count(Str *s, const Ix *x, const IxNames *names, const char *unit) {
    int64_t v;
    if (ix_is_const(x, &v))
        str_printf(s, "%lld", (long long)v);
    else
        ix_print(s, x, names);
    str_add(s, unit);
}

ExpectVerdict expect_verdict(Arena *a, const BuiltFn *fn, const Expect *e) {
    const Graph *g = fn->plan->graph;
    ExpectVerdict v = {0};
    const char *why = NULL;
    const Ix *found = metric(fn, e->metric, &why), *io = expect_io(fn->plan);
    IxNames names = size_names(a, g);
    bool bytes = !strcmp(e->metric, "hbm") || !strcmp(e->metric, "workspace");
    Str s = {0};

    str_printf(&s, "%s %s ", e->metric, e->cmp);
    str_real(&s, e->number);
    v.clause = arena_strdup(a, str_get(&s));
    if (e->io) v.clause = arena_printf(a, "%s * io", v.clause);
    s.n = 0;
    if (!found) {
        v.found = why;
    } else {
        bool kept = g->ix->overflow;
        g->ix->overflow = false;
        v.verdict = holds(g->ix, e, found, io);
        bool wrapped = g->ix->overflow; /* then the difference says nothing */
        g->ix->overflow = kept;
        if (wrapped) v.verdict = 0;
        if (!wrapped && !strcmp(e->metric, "workspace") && !ix_is_const(found, NULL))
            v.verdict = with_sharing(g->ix, e, v.verdict, workspace_least(fn->plan), io);
        put_count(&s, found, &names, bytes ? " bytes" : "");
        if (e->io) {
            str_add(&s, ", io is ");
            put_count(&s, io, &names, " bytes");
        }
        v.found = arena_strdup(a, str_get(&s));
        if (!v.verdict)
            v.found = arena_printf(a, "%s: %s", v.found,
                                   wrapped ? "too large to compare in 64 bits"
                                           : "depends on sizes that are not bound");
    }
    str_free(&s);
    return v;
}

void check_expects(Job *j, const BuiltFn *fn) {
    const Graph *g = fn->plan->graph;
    for (int i = 0; i < g->expect.n; i++) {
        const Expect *e = &g->expect.v[i];
        ExpectVerdict v = expect_verdict(j->arena, fn, e);
        if (v.verdict > 0) continue;
        if (v.verdict == 0)
            diag_warn(j->diags, e->span, "expect", "%s: cannot check %s (%s)", g->name, v.clause,
                      v.found);
        else if (j->opt->no_expect)
            diag_warn(j->diags, e->span, "expect", "%s: expected %s, found %s", g->name, v.clause,
                      v.found);
        else {
            diag_error(j->diags, e->span, "expect", "%s: expected %s, found %s", g->name, v.clause,
                       v.found);
            diag_note(j->diags, (Span){0}, "with --no-expect this is a warning");
        }
    }
}
