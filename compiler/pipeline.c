/* pipeline.c - the whole compiler on one screen: source -> graphs -> passes -> plan -> kernels,
 * with the dumps, stops, times and (in the hard build) checks that hang on it.
 */
#include "compiler/compiler_int.h"

#include "frontend/frontend.h"
#include "passes/passes.h"

#include <string.h>
#include <time.h>

/* ---- what happens between stages ---------------------------------------------------------------
 */

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* Prints what the stage that began at *start took, and starts the next. */
static void timed(const Job *j, const char *stage, const char *of, double *start) {
    double end = now();
    if (j->opt->time_passes) job_log(j, "%8.2f ms  %-9s %s\n", end - *start, stage, of);
    *start = now();
}

static void dump(const Job *j, const PassCtx *cx, const Graph *g, const Pass *p, bool changed) {
    const char *want = j->opt->dump_after;
    if (!want || (strcmp(want, "all") && strcmp(want, p->name))) return;
    Str s = {0};
    str_printf(&s, "# after %s%s\n", p->name, changed ? "" : " (unchanged)");
    if (changed || strcmp(want, "all")) pass_print(&s, cx, g, p);
    job_log(j, "%s", str_get(&s));
    str_free(&s);
}

static void run_pass(Job *j, PassCtx *cx, const Pass *p, Graph *g) {
    double start = now();
    bool changed = p->run(cx, g);
    timed(j, p->name, g->name, &start);
    if (p->flags & PASS_PLAN)
        hard_check_plan(j, cx->plan, p->name);
    else
        hard_check(j, g, p->name);
    dump(j, cx, g, p, changed);
}

/* The passes of pass.def in order; false when --stop-after ended it. */
static bool run_passes(Job *j, PassCtx *cx, Graph *g) {
    hard_check(j, g, "frontend");
    for (int i = 0; pass_at(i); i++) {
        const Pass *p = pass_at(i);
        if (pass_wanted(cx, p)) run_pass(j, cx, p, g);
        if (!j->opt->stop_after || strcmp(j->opt->stop_after, p->name)) continue;
        pass_print(&j->text[FKC_GRAPH], cx, g, p);
        return false;
    }
    return true;
}

/* Plans are made for the newest of the chips. */
static PassCtx pass_context(const Job *j) {
    const Target *newest = j->archs.v[0];
    const Target **all = ARENA_ARRAY(j->arena, const Target *, j->archs.n + 1);
    for (int i = 0; i < j->archs.n; i++) {
        const Target *t = all[i] = j->archs.v[i];
        if (10 * t->major + t->minor > 10 * newest->major + newest->minor) newest = t;
    }
    return (PassCtx){.arena = j->arena,
                     .target = newest,
                     .targets = all,
                     .diags = j->diags,
                     .strict = j->opt->strict,
                     .fuse = !j->opt->no_fuse,
                     .invariant = j->opt->invariant,
                     .fast_accum = j->opt->fast_accum};
}

/* ---- the stages --------------------------------------------------------------------------------
 */

static const char *print_graph(Job *j, const Graph *g) {
    Str s = {0};
    graph_print(&s, g);
    const char *text = arena_strdup(j->arena, str_get(&s));
    str_free(&s);
    return text;
}

static void emit_texts(Job *j, const BuiltFn *fn) {
    if (job_wants(j, FKC_GRAPH)) graph_print(&j->text[FKC_GRAPH], fn->plan->graph);
    if (job_wants(j, FKC_TILE)) plan_print(&j->text[FKC_TILE], fn->plan, true, false);
    if (job_wants(j, FKC_SCHEDULE)) plan_print(&j->text[FKC_SCHEDULE], fn->plan, true, true);
}

static void emit_ptx(Job *j, const BuiltFn *fn) {
    for (int s = 0; s < fn->plan->steps.n; s++) {
        for (int i = 0; i < fn->variants[s].n; i++) {
            const Variant *v = &fn->variants[s].v[i];
            if (v->dropped) continue;
            str_add(&j->text[FKC_PTX], v->kernel.ptx);
        }
    }
}

/* One fn, all the way down. */
static void compile_fn(Job *j, Graph *g) {
    PassCtx cx = pass_context(j);
    BuiltFn fn = {.source = print_graph(j, g)};
    double start;
    int errors = j->diags->errors; /* of other fns: every fn gets its own */
    if (!check_bytes(j, g, NULL)) return;
    if (!run_passes(j, &cx, g) || j->diags->errors > errors) return;
    if (!check_bytes(j, cx.plan->graph, cx.plan)) return;
    start = now();
    fn.plan = cx.plan;
    emit_texts(j, &fn);
    unsigned lowered =
        1u << FKC_LLVM | 1u << FKC_PTX | 1u << FKC_CUBIN | 1u << FKC_REPORT | 1u << FKC_MODULE;
    if (!(j->opt->outputs & lowered) || !lower_fn(j, &fn)) return;
    timed(j, "lower", g->name, &start);
    if (job_wants(j, FKC_PTX)) emit_ptx(j, &fn);
    check_expects(j, &fn);
    warn_crossings(j, &fn);
    if (job_wants(j, FKC_REPORT)) report_fn(&j->text[FKC_REPORT], j, &fn);
    vec_push(j->arena, &j->fns, fn);
}

/* A graph given as text, through chosen passes: the tests of passes, and bug reports. */
static void run_on_graph(Job *j, const char *text, size_t size) {
    PassCtx cx = pass_context(j);
    Str why = {0};
    Graph *g = graph_parse(j->arena, source_new(j->arena, j->path, text, size), j->diags);
    if (!g) return;
    if (!graph_verify(g, &why))
        diag_error(j->diags, (Span){0}, "graph", "%s: %s", j->path, str_get(&why));
    str_free(&why);
    for (int i = 0; i < j->opt->n_run_pass && !j->diags->errors; i++)
        run_pass(j, &cx, pass_named(j->opt->run_pass[i]), g);
    const Pass *last = pass_named(j->opt->run_pass[j->opt->n_run_pass - 1]);
    if (!j->diags->errors) pass_print(&j->text[FKC_GRAPH], &cx, g, last);
}

void pipeline_run(Job *j, const char *text, size_t size) {
    if (j->opt->n_run_pass) {
        run_on_graph(j, text, size);
        return;
    }
    double start = now();
    Ast *ast = frontend_parse(j->arena, j->diags, &frontend_disk, j->path, text, size);
    timed(j, "parse", j->path, &start);
    if (j->diags->errors) return;
    if (job_wants(j, FKC_AST)) frontend_print(ast, &j->text[FKC_AST]);
    FrontendBinds binds = {j->opt->bind, j->opt->n_bind};
    FrontendFns *fns = frontend_build(ast, j->arena, j->diags, &binds);
    timed(j, "build", j->path, &start);
    if (j->diags->errors || j->opt->outputs == 1u << FKC_AST) return;
    for (int i = 0; i < fns->left.n; i++) {
        LeftOut l = {fns->left.v[i].name, fns->left.v[i].why};
        vec_push(j->arena, &j->left_out, l);
    }
    if (!fns->fns.n && !fns->left.n)
        diag_warn(j->diags, (Span){0}, "no-fn", "%s: no fn here: the module is empty", j->path);
    for (int i = 0; i < fns->fns.n; i++) compile_fn(j, fns->fns.v[i]);
    if (job_wants(j, FKC_REPORT)) report_left_out(&j->text[FKC_REPORT], j);
}
