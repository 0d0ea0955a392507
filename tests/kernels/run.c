/* run.c - for each fn of the files given, at random small sizes: all passes, tile programs,
 * schedules, then the kernels of the backend, run on the CPU (tests/unit/backend/cpu.h). The
 * outputs must be those of the evaluator of graphs; where there is a ptxas it must take every
 * kernel.
 *
 *     kernels_run [-v] [-s SEED] [-n ROUNDS] [-p: with ptxas] FILE.fk|FILE.fkg...
 *
 * A .fkg holds one graph, up to the end or a line of dashes. A .fk that the front end refuses is
 * left out. The last line is "N passed, N failed".
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "frontend/frontend.h"
#include "ir/ir.h"
#include "ir/sample.h"
#include "passes/passes.h"
#include "tests/unit/backend/cpu.h"

enum { BAND = 64 }; /* guard bytes on both sides of every buffer */

typedef struct Run {
    Arena *a;
    const char *file;
    const Graph *g;
    const int64_t *sizes;
    EvalTensor *tensors;
    size_t *bytes;
    void **want;
    void **temp;
    size_t *temp_bytes;
    bool failed;
} Run;

static int passed, failed;
static bool verbose;
static const char *ptxas;

static void fail(Run *r, const char *where, const char *what) {
    printf("FAIL %s: fn %s: %s: %s\n", r->file, r->g->name, where, what);
    r->failed = true;
}

static void *banded(Arena *a, size_t bytes) {
    unsigned char *p = arena_alloc(a, bytes + 2 * BAND);
    memset(p, 0xA5, bytes + 2 * BAND);
    memset(p + BAND, 0xFF, bytes); /* NaN in every real type */
    return p + BAND;
}

static bool bands_hold(const void *data, size_t bytes) {
    const unsigned char *p = data;
    for (int i = 1; i <= BAND; i++)
        if (p[-i] != 0xA5 || p[bytes + (size_t)i - 1] != 0xA5) return false;
    return true;
}

/* ---- comparing: the accuracy table of DESIGN.md, by element -------------------------------------
 */

static double bound(DType t) {
    switch (t) {
    case DT_f32: return 0x1p-13;
    case DT_f16: return 0x1p-9;
    case DT_bf16: return 0x1p-6;
    case DT_e4m3: return 0x1p-3;
    case DT_e5m2: return 0x1p-2;
    default: return 0;
    }
}

static void element(const EvalTensor *t, const void *data, int64_t e, double *r, int64_t *i) {
    int64_t off = 0;
    for (int d = t->rank - 1; d >= 0; d--) {
        off += e % t->extent[d] * t->stride[d];
        e /= t->extent[d];
    }
    *r = 0, *i = 0;
    dtype_load(t->type, data, off, r, i);
}

static void compare(Run *r, int p, const char *where) {
    const EvalTensor *t = &r->tensors[p];
    bool real = dtype_class(t->type) == DC_REAL;
    int64_t n = 1, bad = 0;
    double sum = 0, a, b;
    int64_t ia, ib;
    for (int d = 0; d < t->rank; d++) n *= t->extent[d];
    for (int64_t e = 0; e < n; e++) {
        element(t, r->want[p], e, &a, &ia);
        if (isfinite(a)) sum += a * a;
    }
    double rms = n ? sqrt(sum / (double)n) : 0;
    for (int64_t e = 0; e < n; e++) {
        element(t, r->want[p], e, &a, &ia);
        element(t, t->data, e, &b, &ib);
        bool same = real ? (isnan(a) && isnan(b)) || a == b ||
                               fabs(a - b) <= bound(t->type) * fmax(fabs(a), rms)
                         : llabs(ia - ib) <= dtype_is_int(t->type);
        if (same || bad++) continue;
        char text[160];
        snprintf(text, sizeof text, "output %s, element %lld of %lld: %.9g, not %.9g",
                 r->g->params.v[p].name, (long long)e, (long long)n, real ? b : (double)ib,
                 real ? a : (double)ia);
        fail(r, where, text);
    }
}

/* ---- launching ----------------------------------------------------------------------------------
 */

static int arguments(Run *r, const Kernel *k, uint64_t *arg) {
    IxEnv env = {.size = r->sizes};
    bool ok = true;
    int n = 0;
    for (int i = 0; i < k->params.n; i++) {
        const KParam *p = &k->params.v[i];
        switch (p->kind) {
        case KP_TENSOR: arg[n++] = (uint64_t)r->tensors[p->index].data; break;
        case KP_TEMP: arg[n++] = (uint64_t)r->temp[p->index]; break;
        case KP_STRIDE: arg[n++] = (uint64_t)r->tensors[p->index].stride[p->dim]; break;
        case KP_VALUE: arg[n++] = (uint64_t)ix_eval(p->ix, &env, &ok); break;
        case KP_SCALAR: /* by turns from the device and from the host */
            arg[n++] = p->index % 2 ? (uint64_t)r->tensors[p->index].data : 0;
            memcpy(&arg[n++], r->tensors[p->index].data, 8);
            break;
        case KP_SCRATCH:
        case KP_HEAD:
        case KP_LAUNCH:
        case KP_TMAP: return -1; /* not of general kernels */
        }
    }
    return ok ? n : -1;
}

static void launch(Run *r, const Step *s, const Kernel *k, const char *ir) {
    Str why = {0};
    uint64_t *arg = ARENA_ARRAY(r->a, uint64_t, 2 * k->params.n + 1);
    IxEnv env = {.size = r->sizes};
    bool ok = true;
    int n = arguments(r, k, arg);
    int64_t grid = ix_eval(k->grid, &env, &ok);
    if (n < 0 || !ok) {
        fail(r, s->name, "a size expression of a parameter or the grid has no value");
        return;
    }
    if (!grid) return;
    CpuKernel *c = cpu_load(ir, k->name, n, &why);
    if (!c || !cpu_launch(c, arg, grid > 5 ? 5 : grid, k->block, &why))
        fail(r, s->name, str_get(&why));
    str_free(&why);
}

static void run_step(Run *r, const Plan *p, const Step *s) {
    Diags d = {.arena = r->a};
    Str ir = {0}, text = {0};
    Kernel k;
    const Schedule *sch = s->schedules.v[s->schedules.n - 1];
    BackendOptions o = {.target = target_named("sm_80")};
    if (verbose) {
        tile_print(&text, s->tile);
        schedule_print(&text, sch, s->tile);
        puts(str_get(&text));
    }
    if (!backend_lower(r->a, p, s, sch, &o, &d, &k, &ir)) {
        diag_print(&d, &text, false);
        fail(r, s->name, str_get(&text));
    } else {
        const char *message;
        if (ptxas && ptxas_run(r->a, ptxas, &k, "sm_90a", &message) != PTXAS_OK)
            fail(r, s->name, message);
        else
            launch(r, s, &k, str_get(&ir));
    }
    str_free(&ir);
    str_free(&text);
}

static size_t temp_size(const Run *r, const Temp *t) {
    IxEnv env = {.size = r->sizes};
    bool ok = true;
    int64_t n = 1;
    for (int d = 0; d < t->rank; d++) {
        int64_t e = ix_eval(t->dims[d], &env, &ok);
        if (d == t->rank - 1 && dtype_bits(t->type) == 4) e = (e + 1) / 2 * 2;
        n *= e;
    }
    return (size_t)((n * dtype_bits(t->type) + 7) / 8);
}

static void run_plan(Run *r, bool fuse) {
    Diags d = {.arena = r->a};
    PassCtx cx = {.arena = r->a,
                  .target = target_named("sm_80"),
                  .diags = &d,
                  .fuse = fuse,
                  .short_rows = true};
    cx.hint = r->sizes;
    Graph *g = graph_clone(r->g, r->a);
    pass_run_all(&cx, g);
    Plan *p = cx.plan;
    r->temp = ARENA_ARRAY(r->a, void *, p->temps.n + 1);
    for (int t = 0; t < p->temps.n; t++) r->temp[t] = banded(r->a, temp_size(r, &p->temps.v[t]));
    for (int i = 0; i < g->params.n; i++)
        if (g->params.v[i].out) memset(r->tensors[i].data, 0xFF, r->bytes[i]);
    for (int i = 0; i < p->steps.n && !r->failed; i++) run_step(r, p, &p->steps.v[i]);
    const char *where = fuse ? "fused" : "not fused";
    for (int t = 0; t < p->temps.n; t++)
        if (!bands_hold(r->temp[t], temp_size(r, &p->temps.v[t])))
            fail(r, where, "a temporary was written outside");
    for (int i = 0; i < g->params.n && !r->failed; i++) {
        if (!g->params.v[i].out) continue;
        compare(r, i, where);
        if (!bands_hold(r->tensors[i].data, r->bytes[i])) fail(r, where, "written outside");
    }
}

/* Sizes up to `most`, less where a fn has many: the work is about their product. */
static bool draw(const Graph *g, uint64_t seed, int64_t most, int64_t *sizes) {
    for (;; most = most * 2 / 3) {
        double work = 1;
        for (int i = 0; i < g->sizes.n; i++) sizes[i] = -1;
        if (!sample_sizes(g, seed, most, sizes)) return false;
        for (int i = 0; i < g->sizes.n; i++) work *= (double)sizes[i];
        if (work < 4e4 || most < 4) return true;
    }
}

static void run_fn(const char *file, const Graph *g, uint64_t seed, int64_t most) {
    Arena a = {0};
    Run r = {.a = &a, .file = file, .g = g};
    int64_t *sizes = ARENA_ARRAY(&a, int64_t, g->sizes.n + 1);
    r.sizes = sizes;
    if (!draw(g, seed, most, sizes)) {
        fail(&r, "sizes", "no legal draw");
    } else {
        int n = g->params.n;
        r.tensors = ARENA_ARRAY(&a, EvalTensor, n);
        r.bytes = ARENA_ARRAY(&a, size_t, n);
        r.want = ARENA_ARRAY(&a, void *, n);
        for (int p = 0; p < n; p++) {
            r.bytes[p] = sample_shape(g, p, sizes, &r.tensors[p]);
            r.tensors[p].data = banded(&a, r.bytes[p]);
            if (!g->params.v[p].out) sample_fill(g, p, sizes, seed, &r.tensors[p]);
        }
        Eval *e = eval_new(g, sizes, r.tensors);
        for (int p = 0; p < n; p++) {
            if (!g->params.v[p].out) continue;
            eval_output(e, p, &r.tensors[p], 0);
            r.want[p] = arena_alloc(&a, r.bytes[p] + 8);
            memcpy(r.want[p], r.tensors[p].data, r.bytes[p]);
        }
        eval_free(e);
        run_plan(&r, true);
        if (!r.failed) run_plan(&r, false);
    }
    printf("%s %s: fn %s at", r.failed ? "FAIL" : "ok  ", file, g->name);
    for (int i = 0; i < g->sizes.n; i++)
        printf(" %s=%lld", g->sizes.v[i].name, (long long)sizes[i]);
    printf("\n");
    fflush(stdout);
    *(r.failed ? &failed : &passed) += 1;
    arena_free(&a);
}

/* ---- files
 * ----------------------------------------------------------------------------------------- */

typedef VEC(Graph *) Graphs;

static void read_graph(Arena *a, Diags *d, const char *path, Graphs *fns) {
    size_t n = 0;
    const char *why, *text = frontend_disk.read(NULL, a, path, &n, &why);
    if (!text) {
        printf("FAIL %s: %s\n", path, why);
        failed++;
        return;
    }
    const char *end = strstr(text, "\n----");
    if (end) n = (size_t)(end - text) + 1;
    Graph *g = graph_parse(a, source_new(a, path, text, n), d);
    if (g) vec_push(a, fns, g);
}

static void read_program(Arena *a, Diags *d, const char *path, Graphs *fns) {
#ifdef HAVE_FRONTEND_BUILD
    Ast *ast = frontend_parse(a, d, &frontend_disk, path, NULL, 0);
    FrontendFns *built = d->errors ? NULL : frontend_build(ast, a, d, &(FrontendBinds){0});
    for (int i = 0; built && i < built->fns.n; i++) vec_push(a, fns, built->fns.v[i]);
    if (d->errors) printf("left out %s\n", path);
    d->errors = 0;
#else
    (void)a, (void)d, (void)fns;
    printf("left out %s: no front end yet\n", path);
#endif
}

static void run_file(const char *path, uint64_t seed, int rounds) {
    Arena a = {0};
    Diags d = {.arena = &a};
    Graphs fns = {0};
    size_t len = strlen(path);
    if (len > 4 && !strcmp(path + len - 4, ".fkg"))
        read_graph(&a, &d, path, &fns);
    else
        read_program(&a, &d, path, &fns);
    if (d.errors) {
        Str s = {0};
        diag_print(&d, &s, false);
        printf("FAIL %s:\n%s", path, str_get(&s));
        str_free(&s);
        failed++;
    }
    static const int64_t most[] = {9, 70, 33, 3, 150};
    for (int i = 0; i < fns.n && !d.errors; i++)
        for (int k = 0; k < rounds; k++) run_fn(path, fns.v[i], seed + (uint64_t)k, most[k % 5]);
    arena_free(&a);
}

int main(int argc, char **argv) {
    uint64_t seed = 1;
    int rounds = 2;
    Arena a = {0};
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "-v"))
            verbose = true;
        else if (!strcmp(argv[i], "-p"))
            ptxas = ptxas_find(&a, NULL);
        else if (!strcmp(argv[i], "-s") && i + 1 < argc)
            seed = strtoull(argv[++i], NULL, 10);
        else if (!strcmp(argv[i], "-n") && i + 1 < argc)
            rounds = atoi(argv[++i]);
        else
            run_file(argv[i], seed, rounds);
    }
    arena_free(&a);
    printf("%d passed, %d failed\n", passed, failed);
    return failed || !passed;
}
