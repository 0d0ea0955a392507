/* sem - does every pass keep the meaning? For each fn of the files given, at random small sizes:
 * the graph is evaluated as the front end built it; then after every pass, and as tile programs
 * (whole, and with loops split and merged), and the outputs must agree. Every graph and program on
 * the way is verified and read back from its own text.
 *
 *     sem [-v] [-s SEED] [-n ROUNDS] FILE.fk|FILE.fkg...
 *
 * The last line is "N passed, N failed".
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/frontend.h"
#include "ir/ir.h"
#include "passes/passes.h"

typedef struct Run {
    const char *file, *fn;
    const Graph *g; /* as built */
    const int64_t *sizes;
    EvalTensor *tensors; /* inputs filled; outputs with data */
    size_t *bytes;       /* per parameter */
    void **want;         /* per output: the reference */
    int failed;
} Run;

static int passed, failed;
static bool verbose;

static void fail(Run *r, const char *where, const char *what) {
    printf("FAIL %s: fn %s: %s: %s\n", r->file, r->fn, where, what);
    r->failed++;
}

/* ---- comparing ---- */

static double tolerance(DType t) {
    switch (t) {
    case DT_f32: return 2e-5;
    case DT_f16: return 2e-3;
    case DT_bf16: return 1.6e-2;
    case DT_e4m3: return 0.13;
    case DT_e5m2: return 0.26;
    default: return 0;
    }
}

static int64_t count_of(const EvalTensor *t) {
    int64_t n = 1;
    for (int d = 0; d < t->rank; d++) n *= t->extent[d];
    return n;
}

static int64_t offset_of(const EvalTensor *t, int64_t e) {
    int64_t off = 0;
    for (int d = t->rank - 1; d >= 0; d--) {
        off += e % t->extent[d] * t->stride[d];
        e /= t->extent[d];
    }
    return off;
}

static void compare_output(Run *r, int p, const char *where) {
    const EvalTensor *t = &r->tensors[p];
    bool real = dtype_class(t->type) == DC_REAL;
    int64_t n = count_of(t), bad = 0, first = -1;
    double sum = 0, fa = 0, fb = 0;
    for (int64_t e = 0; e < n; e++) {
        double a = 0;
        int64_t i = 0;
        dtype_load(t->type, r->want[p], offset_of(t, e), &a, &i);
        if (isfinite(a)) sum += a * a;
    }
    double rms = n ? sqrt(sum / (double)n) : 0;
    for (int64_t e = 0; e < n; e++) {
        double a = 0, b = 0;
        int64_t ia = 0, ib = 0;
        dtype_load(t->type, r->want[p], offset_of(t, e), &a, &ia);
        dtype_load(t->type, t->data, offset_of(t, e), &b, &ib);
        bool same = real ? (isnan(a) && isnan(b)) || a == b ||
                               fabs(a - b) <= tolerance(t->type) * fmax(fabs(a), rms)
                         : llabs(ia - ib) <= (dtype_is_int(t->type) ? 1 : 0);
        if (same) continue;
        if (!bad++) first = e, fa = real ? a : (double)ia, fb = real ? b : (double)ib;
    }
    if (!bad) return;
    char text[200];
    snprintf(text, sizeof text, "output %s: %lld of %lld differ, first element %lld: %g, was %g",
             r->g->params.v[p].name, (long long)bad, (long long)n, (long long)first, fb, fa);
    fail(r, where, text);
}

static void poison(Run *r) {
    for (int p = 0; p < r->g->params.n; p++)
        if (r->g->params.v[p].out) memset(r->tensors[p].data, 0xFF, r->bytes[p]);
}

static void compare_all(Run *r, const char *where) {
    for (int p = 0; p < r->g->params.n; p++)
        if (r->g->params.v[p].out) compare_output(r, p, where);
}

/* ---- levels ---- */

static bool check_graph(Run *r, const Graph *g, const char *where) {
    Str why = {0}, text = {0}, again = {0};
    Arena a = {0};
    Diags d = {.arena = &a};
    bool ok = graph_verify(g, &why);
    if (!ok) fail(r, where, str_get(&why));
    graph_print(&text, g);
    Graph *back = ok ? graph_parse(&a, source_new(&a, where, str_get(&text), text.n), &d) : NULL;
    if (ok && !back) {
        diag_print(&d, &again, false);
        fail(r, where, str_get(&again));
    } else if (ok) {
        graph_print(&again, back);
        if (strcmp(str_get(&text), str_get(&again))) fail(r, where, "the text reads back changed");
    }
    if (!ok && verbose) fputs(str_get(&text), stdout);
    str_free(&why), str_free(&text), str_free(&again);
    arena_free(&a);
    return ok;
}

static void eval_graph(Run *r, const Graph *g, const char *where) {
    if (!check_graph(r, g, where)) return;
    poison(r);
    Eval *e = eval_new(g, r->sizes, r->tensors);
    for (int p = 0; p < g->params.n; p++)
        if (g->params.v[p].out) eval_output(e, p, &r->tensors[p], 0);
    eval_free(e);
}

static void check_tile(Run *r, const Step *s) {
    Str why = {0}, text = {0}, again = {0};
    Arena a = {0};
    Diags d = {.arena = &a};
    if (!tile_verify(s->tile, &why)) fail(r, s->name, str_get(&why));
    tile_print(&text, s->tile);
    if (verbose) fputs(str_get(&text), stdout);
    TProg *back = tile_parse(&a, source_new(&a, s->name, str_get(&text), text.n), &d);
    if (!back) {
        diag_print(&d, &again, false);
        fail(r, s->name, str_get(&again));
    } else {
        tile_print(&again, back);
        if (strcmp(str_get(&text), str_get(&again))) fail(r, s->name, "the tile text changed");
    }
    for (int i = 0; i < s->schedules.n; i++) {
        Str one = {0};
        const Schedule *sch = s->schedules.v[i];
        if (!schedule_verify(sch, s->tile, &one)) fail(r, s->name, str_get(&one));
        str_free(&one);
        schedule_print(&one, sch, s->tile);
        if (verbose) fputs(str_get(&one), stdout);
        Schedule *got =
            schedule_parse(&a, source_new(&a, s->name, str_get(&one), one.n), s->tile, &d);
        Str two = {0};
        if (got) schedule_print(&two, got, s->tile);
        if (strcmp(str_get(&one), str_get(&two))) fail(r, s->name, "the schedule text changed");
        str_free(&one), str_free(&two);
    }
    str_free(&why), str_free(&text), str_free(&again);
    arena_free(&a);
}

/* Frames move, and stop lagging, as they would over far more elements than there are here. */
static void shrink_blocks(const TBlock *b) {
    for (int i = 0; i < b->inst.n; i++) {
        TInst *x = b->inst.v[i];
        for (int c = 0; c < x->carries.n; c++)
            if (x->carries.v[c].lag) x->carries.v[c].bound = 0.5;
        shrink_blocks(&x->body);
    }
}

static void shrink_frames(Plan *p) {
    for (int i = 0; i < p->steps.n; i++) {
        TProg *t = p->steps.v[i].tile;
        for (int a = 0; a < t->axes.n; a++)
            if (t->axes.v[a].tile > 2) t->axes.v[a].tile = 2;
        shrink_blocks(&t->body);
    }
}

static void eval_steps(Run *r, PassCtx *cx, Graph *g, const char *mode) {
    pass_tile(cx, g);
    pass_schedule(cx, g);
    Plan *p = cx->plan;
    for (int i = 0; i < p->steps.n; i++) check_tile(r, &p->steps.v[i]);
    if (r->failed) return;
    for (int split = 1; split <= 3; split += 2) {
        char where[80];
        if (split > 1) shrink_frames(p);
        Str why = {0};
        snprintf(where, sizeof where, "%s, tile programs, split %d", mode, split);
        poison(r);
        if (!eval_plan(p, r->sizes, r->tensors, split, &why))
            fail(r, where, str_get(&why));
        else
            compare_all(r, where);
        str_free(&why);
    }
}

/* One mode of compilation: every pass in order, each followed by an evaluation. */
static void run_mode(Run *r, const char *mode, bool fuse, bool strict) {
    Arena a = {0};
    Diags d = {.arena = &a};
    PassCtx cx = {.arena = &a,
                  .short_rows = true,
                  .target = target_named("sm_90a"),
                  .diags = &d,
                  .fuse = fuse,
                  .strict = strict,
                  .hint = r->sizes};
    Graph *g = graph_clone(r->g, &a);
    for (int i = 0; pass_at(i) && !r->failed; i++) {
        const Pass *p = pass_at(i);
        if (!pass_wanted(&cx, p) || p->flags & PASS_PLAN) continue;
        char where[80];
        snprintf(where, sizeof where, "%s, after %s", mode, p->name);
        if (!p->run(&cx, g)) continue;
        eval_graph(r, g, where);
        compare_all(r, where);
    }
    if (verbose) {
        Str s = {0};
        graph_print(&s, g);
        fputs(str_get(&s), stdout);
        str_free(&s);
    }
    if (!r->failed) eval_steps(r, &cx, g, mode);
    arena_free(&a);
}

/* ---- one fn ---- */

static void run_fn(const char *file, const Graph *g, uint64_t seed, int64_t most) {
    Arena a = {0};
    Run r = {.file = file, .fn = g->name, .g = g};
    int64_t *sizes = ARENA_ARRAY(&a, int64_t, g->sizes.n + 1);
    for (int i = 0; i < g->sizes.n; i++) sizes[i] = -1;
    if (!sample_sizes(g, seed, most, sizes)) {
        fail(&r, "sizes", "no legal draw");
    } else {
        int n = g->params.n;
        r.sizes = sizes;
        r.tensors = ARENA_ARRAY(&a, EvalTensor, n);
        r.bytes = ARENA_ARRAY(&a, size_t, n);
        r.want = ARENA_ARRAY(&a, void *, n);
        for (int p = 0; p < n; p++) {
            r.bytes[p] = sample_shape(g, p, sizes, &r.tensors[p]);
            r.tensors[p].data = arena_alloc(&a, r.bytes[p] + 8);
            if (!g->params.v[p].out) sample_fill(g, p, sizes, seed, &r.tensors[p]);
        }
        eval_graph(&r, g, "as built");
        for (int p = 0; p < n; p++) {
            r.want[p] = arena_alloc(&a, r.bytes[p] + 8);
            memcpy(r.want[p], r.tensors[p].data, r.bytes[p]);
        }
        if (!r.failed) run_mode(&r, "fused", true, false);
        if (!r.failed) run_mode(&r, "not fused", false, false);
        if (!r.failed) run_mode(&r, "strict", true, true);
    }
    printf("%s %s: fn %s at", r.failed ? "FAIL" : "ok  ", file, g->name);
    for (int i = 0; i < g->sizes.n; i++)
        printf(" %s=%lld", g->sizes.v[i].name, (long long)sizes[i]);
    printf("\n");
    *(r.failed ? &failed : &passed) += 1;
    arena_free(&a);
}

/* ---- files ---- */

static void run_file(const char *path, uint64_t seed, int rounds) {
    Arena a = {0};
    Diags d = {.arena = &a};
    VEC(Graph *) fns = {0};
    size_t len = strlen(path);
    const char *why = NULL;
    if (len > 4 && !strcmp(path + len - 4, ".fkg")) {
        size_t n = 0;
        const char *text = frontend_disk.read(NULL, &a, path, &n, &why);
        Graph *g = text ? graph_parse(&a, source_new(&a, path, text, n), &d) : NULL;
        if (g) vec_push(&a, &fns, g);
    } else {
        Ast *ast = frontend_parse(&a, &d, &frontend_disk, path, NULL, 0);
        FrontendFns *built = d.errors ? NULL : frontend_build(ast, &a, &d, &(FrontendBinds){0});
        for (int i = 0; built && i < built->fns.n; i++) vec_push(&a, &fns, built->fns.v[i]);
    }
    if (d.errors || why) {
        Str s = {0};
        diag_print(&d, &s, false);
        printf("FAIL %s: %s\n%s", path, why ? why : "does not compile", str_get(&s));
        str_free(&s);
        failed++;
    }
    for (int i = 0; i < fns.n && !d.errors; i++)
        for (int k = 0; k < rounds; k++)
            run_fn(path, fns.v[i], seed + (uint64_t)k, k == 0 ? 3 : 9 + 4 * k);
    arena_free(&a);
}

int main(int argc, char **argv) {
    uint64_t seed = 1;
    int rounds = 3;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "-v"))
            verbose = true;
        else if (!strcmp(argv[i], "-s") && i + 1 < argc)
            seed = strtoull(argv[++i], NULL, 10);
        else if (!strcmp(argv[i], "-n") && i + 1 < argc)
            rounds = atoi(argv[++i]);
        else
            run_file(argv[i], seed, rounds);
    }
    printf("%d passed, %d failed\n", passed, failed);
    return failed || !passed;
}
