/* report.c - what was decided and what it will cost, for people: steps and their kernels, where
 * each value lives, every join and cut with its reason and both prices, and the verdicts on
 * `expect`.
 */
#include "compiler/compiler_int.h"
#include "ir/online.h"

#include <math.h>
#include <string.h>

typedef struct Report {
    Str *out;
    Arena *arena; /* of this report */
    const Job *job;
    const BuiltFn *fn;
    const Graph *graph;
    IxNames names;
} Report;

static void put_ix(Report *r, const Ix *x) {
    ix_print(r->out, x, &r->names);
}

/* "%7 h", or "%7" for a value without a name. */
static const char *value_name(Report *r, int node) {
    const Node *n = r->graph->nodes.v[node];
    if (n->kind == N_INPUT) return r->graph->params.v[n->param].name;
    return n->name ? arena_printf(r->arena, "%%%d %s", node, n->name)
                   : arena_printf(r->arena, "%%%d", node);
}

static const char *value_what(const Node *n) {
    switch (n->kind) {
    case N_INPUT: return "input";
    case N_CONST: return "constant";
    case N_INDEX: return "index";
    case N_OP: return op_name(n->op);
    case N_REDUCE: return reduce_name(n->red);
    }
    return "";
}

/* ---- steps -------------------------------------------------------------------------------------
 */

static void put_stats(Report *r, const Kernel *k) {
    for (int i = 0; i < k->cubins.n; i++)
        str_printf(r->out, "      %-8s %zu bytes of machine code\n", k->cubins.v[i].arch,
                   k->cubins.v[i].size);
    if (!k->cubins.n || k->stats.regs < 0)
        str_add(r->out, "      registers, spills: not checked (no ptxas)\n");
    else
        str_printf(r->out, "      registers %d, spilt bytes %d, stack %d, static shared %d\n",
                   k->stats.regs, k->stats.spill_bytes, k->stats.stack, k->stats.smem);
    if (k->stats.loop_spills > 0)
        str_printf(r->out, "      of them in the main loop %d\n", k->stats.loop_spills);
}

/* What a formula gives at sizes that many programs have; with several free ones, where all are
 * alike.
 */
static const int64_t usual[] = {512, 2048, 8192};
enum { USUAL = sizeof usual / sizeof *usual, LONG = 60 };

static bool at_usual(const Report *r, const Ix *x, int k, int64_t *v) {
    int64_t *size = ARENA_ARRAY(r->arena, int64_t, r->graph->sizes.n + 1);
    bool ok = true;
    for (int i = 0; i < r->graph->sizes.n; i++) size[i] = usual[k];
    *v = ix_eval(x, &(IxEnv){.size = size}, &ok);
    return ok;
}

static void put_where(Report *r, int k) {
    for (int i = 0; k == 0 && i < r->graph->sizes.n; i++)
        str_printf(r->out, "%s%s", i ? " = " : " (", r->graph->sizes.v[i].name);
    str_printf(r->out, k ? " (%lld)" : " = %lld)", (long long)usual[k]);
}

static bool is_long(Report *r, const Ix *x) {
    Str s = {0};
    ix_print(&s, x, &r->names);
    bool is = s.n > LONG;
    str_free(&s);
    return is;
}

/* The formula, unless nobody would read it. */
static void put_number(Report *r, const Ix *x) {
    int64_t v;
    if (!is_long(r, x)) {
        put_ix(r, x);
        return;
    }
    for (int k = 0; k < USUAL; k++) {
        if (!at_usual(r, x, k, &v)) continue;
        str_printf(r->out, "%s%lld", k ? ", " : "", (long long)v);
        put_where(r, k);
    }
}

/* Is x >= 0 a bound of one size: "M >= 1", "M <= 2147483647"? */
static bool is_bound(const Ix *x, int *size, bool *below, int64_t *bound) {
    int64_t c;
    if (x->kind != IX_ADD || x->n != 2 || !ix_is_const(x->arg[1], &c)) return false;
    const Ix *t = x->arg[0];
    *below = t->kind == IX_MUL && t->n == 2 && ix_is_const(t->arg[0], bound) && *bound == -1;
    if (*below) t = t->arg[1];
    *size = (int)t->num;
    *bound = *below ? c : -c;
    return t->kind == IX_SIZE;
}

/* What they are about alone sets these two apart. */
static bool same_need(const KGuard *a, const KGuard *b) {
    int i, k;
    bool below[2];
    int64_t bound[2];
    if (a->kind != b->kind) return false;
    if (a->kind != KG_NONNEG) return a->multiple == b->multiple && a->dim == b->dim;
    return is_bound(a->ix, &i, &below[0], &bound[0]) && is_bound(b->ix, &k, &below[1], &bound[1]) &&
           below[0] == below[1] && bound[0] == bound[1];
}

static void put_about(Report *r, const KGuard *g) {
    int size;
    bool below;
    int64_t bound;
    if (g->kind != KG_NONNEG)
        str_add(r->out, r->graph->params.v[g->index].name);
    else if (is_bound(g->ix, &size, &below, &bound))
        str_add(r->out, r->graph->sizes.v[size].name);
    else
        put_ix(r, g->ix);
}

static void put_need(Report *r, const KGuard *g) {
    int size;
    bool below;
    int64_t bound;
    switch (g->kind) {
    case KG_ALIGN: str_printf(r->out, " aligned to %lld bytes", (long long)g->multiple); return;
    case KG_STRIDE: str_printf(r->out, " a multiple of %lld bytes", (long long)g->multiple); return;
    case KG_STRIDE_ONE: str_add(r->out, " one element"); return;
    case KG_STRIDE_IS:
        str_add(r->out, " ");
        put_ix(r, g->ix);
        if (g->multiple >= 0)
            str_printf(r->out, " times stride %d", (int)g->multiple);
        else
            str_add(r->out, " elements");
        return;
    case KG_STRIDE_NEAR: str_add(r->out, " below 2^31 bytes"); return;
    case KG_NONNEG:
        if (is_bound(g->ix, &size, &below, &bound))
            str_printf(r->out, " %s %lld", below ? "<=" : ">=", (long long)bound);
        else
            str_add(r->out, " >= 0");
        return;
    }
}

/* Alike ones together: "x, w aligned to 16 bytes; M, N >= 1". */
static void put_guards(Report *r, const Kernel *k) {
    bool *done = ARENA_ARRAY(r->arena, bool, k->guards.n);
    int left_out = 0, shown = 0;
    for (int i = 0; i < k->guards.n; i++) {
        const KGuard *g = &k->guards.v[i];
        if (done[i]) continue;
        if (g->kind == KG_NONNEG && is_long(r, g->ix)) {
            left_out++;
            continue;
        }
        str_add(r->out, shown++ ? "; " : "      needs ");
        if (g->kind == KG_STRIDE || g->kind == KG_STRIDE_ONE || g->kind == KG_STRIDE_IS ||
            g->kind == KG_STRIDE_NEAR)
            str_printf(r->out, "stride %d of ", g->dim);
        put_about(r, g);
        for (int j = i + 1; j < k->guards.n; j++) {
            if (done[j] || !same_need(g, &k->guards.v[j])) continue;
            done[j] = true;
            str_add(r->out, ", ");
            put_about(r, &k->guards.v[j]);
        }
        put_need(r, g);
    }
    if (left_out)
        str_printf(r->out, "%s%d longer condition%s on sizes", shown ? "; " : "      needs ",
                   left_out, left_out > 1 ? "s" : "");
    if (shown || left_out) str_add(r->out, "\n");
}

static void put_cost(Report *r, const Ix *cost) {
    int64_t ns;
    str_add(r->out, "      predicted ");
    if (ix_is_const(cost, &ns)) {
        str_printf(r->out, "%.3g us\n", (double)ns / 1000);
        return;
    }
    for (int k = 0; k < USUAL; k++) {
        if (!at_usual(r, cost, k, &ns)) continue;
        str_printf(r->out, "%s%.*f us", k ? ", " : "", ns < 100000 ? 1 : 0, (double)ns / 1000);
        put_where(r, k);
    }
    str_add(r->out, "; --bind sets sizes\n");
}

static void put_choice(Report *r, const Variant *v) {
    const Ix *cost = variant_cost(v);
    put_guards(r, &v->kernel);
    if (cost) put_cost(r, cost);
}

static void put_picks(Report *r, const Step *s, const Variant *v) {
    Str text = {0};
    if (!v->general && online_picks_text(r->arena, s->tile, v->schedule, &text))
        str_printf(r->out, "      %s\n", str_get(&text));
    str_free(&text);
}

static void put_variant(Report *r, const Step *s, const Variant *v) {
    const Kernel *k = &v->kernel;
    str_printf(r->out, "    %s", v->general ? "general kernel" : v->schedule->name);
    if (v->dropped) {
        str_printf(r->out, ": dropped, %s\n", v->dropped);
        return;
    }
    str_printf(r->out, " %s: PTX %d.%d for %s, %d threads, grid ", k->name, k->ptx_version / 10,
               k->ptx_version % 10, k->arch, k->block);
    put_number(r, k->grid);
    if (k->launches > 1) str_printf(r->out, ", %d launches", k->launches);
    if (k->persistent) str_add(r->out, ", at most one CTA a multiprocessor");
    if (k->smem) {
        str_add(r->out, ", shared bytes ");
        put_number(r, k->smem);
    }
    str_add(r->out, "\n");
    put_choice(r, v);
    put_picks(r, s, v);
    put_stats(r, k);
}

static void put_step(Report *r, int index) {
    const Step *s = &r->fn->plan->steps.v[index];
    const Variants *variants = &r->fn->variants[index];
    str_printf(r->out, "  step %d, %s\n    stores", index, s->name);
    for (int i = 0; i < s->stores.n; i++)
        str_printf(r->out, "%s %s", i ? "," : "", value_name(r, s->stores.v[i]));
    if (s->joins) str_add(r->out, "\n    joins parts");
    str_add(r->out, "\n    moves ");
    put_ix(r, expect_step_hbm(r->fn->plan, index));
    str_add(r->out, " bytes\n");
    for (int i = 0; i < variants->n; i++) put_variant(r, s, &variants->v[i]);
    if (variants->n == 1)
        str_printf(r->out,
                   "      the only variant: plain loads and FMA, for any sizes and strides%s%s\n",
                   s->why ? "; tensor cores: " : "", s->why ? s->why : "");
}

/* ---- values ------------------------------------------------------------------------------------
 */

typedef struct Where {
    bool *computed; /* by node: in the step at hand */
} Where;

static void see_node(void *ctx, TInst *i, int depth) {
    Where *w = ctx;
    (void)depth;
    if (i->node >= 0 && i->kind != T_LOAD && i->kind != T_STORE) w->computed[i->node] = true;
    if (i->kind != T_LOOP) return;
    if (i->node >= 0) w->computed[i->node] = true;
}

static const char *stored_as(const Report *r, int node) {
    for (int i = 0; i < r->graph->params.n; i++)
        if (r->graph->params.v[i].out && r->graph->params.v[i].node == node)
            return arena_printf(r->arena, "output %s", r->graph->params.v[i].name);
    for (int i = 0; i < r->fn->plan->temps.n; i++)
        if (r->fn->plan->temps.v[i].node == node) return "a temporary";
    return NULL;
}

static void put_value(Report *r, int node, bool *const *computed) {
    const Node *n = r->graph->nodes.v[node];
    const char *stored = stored_as(r, node);
    if (n->kind == N_INPUT || (n->kind == N_CONST && !stored)) return;
    str_printf(r->out, "    %-14s %-5s %-9s", value_name(r, node), dtype_name(n->type),
               value_what(n));
    if (stored) str_printf(r->out, " stored as %s by step %d", stored, n->step);
    int found = 0;
    for (int s = 0; s < r->fn->plan->steps.n; s++) {
        if (!computed[s][node] || (stored && s == n->step)) continue;
        if (!found++)
            str_add(r->out, stored ? "; computed again in step" : " in registers of step");
        else
            str_add(r->out, ",");
        str_printf(r->out, " %d", s);
    }
    if (!stored && !found) str_add(r->out, " folded into its readers");
    str_add(r->out, "\n");
}

static void put_values(Report *r) {
    const Plan *p = r->fn->plan;
    bool **computed = ARENA_ARRAY(r->arena, bool *, p->steps.n);
    for (int s = 0; s < p->steps.n; s++) {
        computed[s] = ARENA_ARRAY(r->arena, bool, r->graph->nodes.n);
        Where w = {computed[s]};
        tile_walk(&p->steps.v[s].tile->body, see_node, &w);
    }
    str_add(r->out, "  values\n");
    for (int i = 0; i < r->graph->nodes.n; i++) put_value(r, i, computed);
}

/* ---- joins and cuts ----------------------------------------------------------------------------
 */

static void put_edges(Report *r) {
    if (r->graph->edges.n) str_add(r->out, "  joins and cuts\n");
    for (int i = 0; i < r->graph->edges.n; i++) {
        const Edge *e = &r->graph->edges.v[i];
        str_printf(r->out, "    %s -> %s %s: %s", value_name(r, e->from), value_name(r, e->to),
                   e->cut ? "cut" : "joined", e->reason);
        if (e->price >= 0) str_printf(r->out, "; predicted %.3g us", e->price);
        if (e->other >= 0) str_printf(r->out, ", %s %.3g us", e->cut ? "joined" : "cut", e->other);
        str_add(r->out, "\n");
    }
}

/* ---- the whole ---------------------------------------------------------------------------------
 */

static void put_total(Report *r, const char *what, const Ix *bytes) {
    str_printf(r->out, "  %-11s", what);
    put_ix(r, bytes);
    str_add(r->out, " bytes\n");
}

static void put_workspace(Report *r) {
    const Plan *p = r->fn->plan;
    const Ix *apart = workspace_apart(p);
    int64_t bytes, size[USUAL], *sizes = ARENA_ARRAY(r->arena, int64_t, r->graph->sizes.n + 1);
    if (apart == workspace_least(p)) {
        put_total(r, "workspace", apart);
        return;
    }
    str_add(r->out, "  workspace  ");
    put_ix(r, apart);
    str_add(r->out, " bytes; with places shared ");
    if (ix_is_const(apart, NULL) && workspace_at(p, sizes, &bytes)) {
        str_printf(r->out, "%lld\n", (long long)bytes);
        return;
    }
    for (int k = 0; k < USUAL; k++) {
        for (int i = 0; i < r->graph->sizes.n; i++) sizes[i] = usual[k];
        if (!workspace_at(p, sizes, &size[k])) continue;
        str_printf(r->out, "%s%lld", k ? ", " : "", (long long)size[k]);
        put_where(r, k);
    }
    str_add(r->out, "\n");
}

static void put_expects(Report *r) {
    static const char *const verdict[] = {"failed, found", "not checked,", "met, found"};
    if (r->graph->expect.n) str_add(r->out, "  expect\n");
    for (int i = 0; i < r->graph->expect.n; i++) {
        ExpectVerdict v = expect_verdict(r->arena, r->fn, &r->graph->expect.v[i]);
        str_printf(r->out, "    %-20s %s %s\n", v.clause, verdict[v.verdict + 1], v.found);
    }
}

void report_fn(Str *out, const Job *j, const BuiltFn *fn) {
    Arena scratch = {0};
    const Graph *g = fn->plan->graph;
    Report r = {out, &scratch, j, fn, g, size_names(&scratch, g)};
    int steps = fn->plan->steps.n, kernels = plan_kernels(fn->plan);
    str_printf(out, "fn %s: %d kernel%s", g->name, kernels, kernels == 1 ? "" : "s");
    if (steps > kernels) str_printf(out, ", %d more to join parts", steps - kernels);
    str_printf(out, " for %s", j->archs.v[0]->name);
    for (int i = 1; i < j->archs.n; i++) str_printf(out, ", %s", j->archs.v[i]->name);
    str_add(out, "\n");
    put_total(&r, "hbm", expect_hbm(fn->plan));
    put_total(&r, "io", expect_io(fn->plan));
    put_workspace(&r);
    for (int i = 0; i < steps; i++) put_step(&r, i);
    put_values(&r);
    put_edges(&r);
    put_expects(&r);
    arena_free(&scratch);
}

void report_left_out(Str *out, const Job *j) {
    for (int i = 0; i < j->left_out.n; i++)
        str_printf(out, "fn %s: not built: %s\n", j->left_out.v[i].name, j->left_out.v[i].reason);
}
