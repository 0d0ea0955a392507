/* test_pack.c - a plan made by hand through the packer, the encoder and the decoder; size
 * expressions against ir/ix; the verdicts of `expect`. With an argument the module is written there
 * as well.
 */
#include "compiler/compiler_int.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char text[] = "graph scale {\n"
                           "  size M, K\n"
                           "  in x: bf16[M, K] = %0\n"
                           "  in s: f32 = %1\n"
                           "  %2: f32[m: M, k: K] = mul x[m, k], s\n"
                           "  %3 t: u4[m: M, k: K] = cast %2[m, k]\n"
                           "  %4 y: f32[m: M] = copy %2[m, 0?]\n"
                           "  out y: f32[M] = %4\n"
                           "  check K - 2 >= 0: \"x[m, 1] is read\", needed 2, found K\n"
                           "  solve M from x[0] = %0\n"
                           "  solve K from x[1] = %0\n"
                           "  expect kernels == 1\n"
                           "  expect kernels < 1\n"
                           "  expect hbm <= 1 * io\n"
                           "  expect hbm < 1 * io\n"
                           "  expect workspace <= 4096\n"
                           "  expect spills == 0\n"
                           "}\n";

static Arena arena;
static fkc_options options;
static Diags diags;
static Job job;
static Plan plan;
static Variants variants;
static Kernel *kernel;

static const Ix *size(int s) {
    return ix_size(plan.graph->ix, s);
}

/* One step that reads x and writes y, of one general kernel; a u4 temporary of odd rows. */
static int make(void **state) {
    (void)state;
    diags.arena = &arena;
    Graph *g = graph_parse(&arena, source_new(&arena, "scale", text, sizeof text - 1), &diags);
    assert_non_null(g);
    plan.graph = g;
    IxPool *ix = g->ix;
    const Ix **dims = ARENA_ARRAY(&arena, const Ix *, 2);
    dims[0] = size(0), dims[1] = size(1);
    Temp temp = {.node = 3, .name = "t", .type = DT_u4, .rank = 2, .dims = dims};
    vec_push(&arena, &plan.temps, temp);

    TProg *t = tile_new(&arena, ix, "scale.0");
    TTensor x = {TM_IN, "x", DT_bf16, 2, g->params.v[0].dims, 0};
    TTensor y = {TM_OUT, "y", DT_f32, 1, g->params.v[2].dims, 2};
    vec_push(&arena, &t->tensors, x);
    vec_push(&arena, &t->tensors, y);
    TInst *load = tile_inst(t, &t->body, T_LOAD, DT_f32, 0, 2);
    load->tensor = 0, load->node = 2;
    TInst *store = tile_inst(t, &t->body, T_STORE, DT_f32, 1, 1);
    store->tensor = 1, store->node = 4;
    Step step = {.name = "scale.0", .tile = t};
    vec_push(&arena, &step.stores, 4);
    g->nodes.v[4]->step = 0;
    vec_push(&arena, &plan.steps, step);

    Schedule *s = ARENA_NEW(&arena, Schedule);
    s->name = "plain", s->target = "sm_80";
    Variant v = {.schedule = s, .general = true};
    v.kernel = (Kernel){.name = "scale_0",
                        .arch = "sm_80",
                        .ptx_version = 71,
                        .ptx = "// none\n",
                        .stats = KSTATS_NONE,
                        .block = 128};
    v.kernel.grid = ix_div(ix, ix_add(ix, size(0), ix_const(ix, 127)), ix_const(ix, 128));
    v.kernel.smem = ix_mul(ix, ix_const(ix, 4), size(1));
    KParam params[] = {
        {.kind = KP_TENSOR, .index = 0}, {.kind = KP_STRIDE, .index = 0, .dim = 1},
        {.kind = KP_TEMP, .index = 0},   {.kind = KP_VALUE, .ix = ix_mul(ix, size(0), size(1))},
        {.kind = KP_SCALAR, .index = 1}, {.kind = KP_TENSOR, .index = 2}};
    for (size_t i = 0; i < sizeof params / sizeof *params; i++)
        vec_push(&arena, &v.kernel.params, params[i]);
    vec_push(&arena, &variants, v);
    kernel = &variants.v[0].kernel;

    job = (Job){
        .arena = &arena, .opt = &options, .diags = &diags, .path = "scale.fk", .producer = "test"};
    vec_push(&arena, &job.archs, target_named("sm_90a"));
    BuiltFn fn = {.plan = &plan, .source = text, .variants = &variants};
    vec_push(&arena, &job.fns, fn);
    LeftOut left = {"scale_bwd", "grad is not built yet"};
    vec_push(&arena, &job.left_out, left);
    return 0;
}

static FkmModule *packed(void **bytes, size_t *n) {
    FkmError error;
    *bytes = fkm_encode(pack_module(&arena, &job), n, &error);
    if (!*bytes) fail_msg("%s", error.text);
    FkmModule *m = fkm_decode(*bytes, *n, &error);
    if (!m) fail_msg("%s", error.text);
    return m;
}

static int64_t value(const FkmFn *f, const FkmExpr *e) {
    int64_t sizes[] = {300, 7}, extents[] = {300, 7, 300}, strides[] = {9, 1, 1}, v;
    FkmEnv env = {f->tensors, sizes, extents, strides, (int64_t[]){256, 256, 256}, 132};
    assert_true(fkm_eval(e, &env, &v));
    return v;
}

static void reads_back(void **state) {
    (void)state;
    void *bytes;
    size_t n;
    FkmModule *m = packed(&bytes, &n);
    assert_int_equal(m->n_fns, 1);
    assert_string_equal(m->producer, "test");
    const FkmFn *f = &m->fns[0];
    assert_string_equal(f->name, "scale");
    assert_string_equal(f->graph, text);
    assert_int_equal(f->n_tensors, 3);
    assert_string_equal(f->tensors[0].dims[1].text, "K");
    assert_string_equal(fkm_dtype_name(f->tensors[0].dtype), "bf16");
    assert_true(f->tensors[2].is_output);
    assert_int_equal(f->tensors[1].rank, 0);
    assert_int_equal(f->n_solves, 2);
    assert_int_equal(value(f, &f->solves[1].number), 7);
    assert_string_equal(f->checks[0].text, "x[m, 1] is read: needs {needed}, found {found}");
    assert_int_equal(value(f, &f->checks[0].value), 5);
    assert_int_equal(value(f, &f->checks[0].needed), 2);
    assert_int_equal(value(f, &f->temps[0].bytes), 300 * 4); /* 7 nibbles are 4 bytes */
    assert_string_equal(m->left_out[0].name, "scale_bwd");

    const FkmVariant *v = &f->steps[0].variants[0];
    assert_string_equal(v->name, "general");
    assert_string_equal(v->arch, "sm_80");
    assert_int_equal(v->guard.n, 0);
    const FkmLaunch *l = &v->launches[0];
    assert_int_equal(value(f, &l->grid[0]), 3);
    assert_int_equal(value(f, &l->grid[1]), 1);
    assert_int_equal(value(f, &l->shared), 28);
    assert_int_equal(l->block[0], 128);
    assert_int_equal(l->params[0].kind, FKM_PARAM_TENSOR);
    assert_int_equal(value(f, &l->params[1].value), 1);
    assert_int_equal(l->params[2].kind, FKM_PARAM_TEMP);
    assert_int_equal(value(f, &l->params[3].value), 2100);
    assert_int_equal(l->params[4].kind, FKM_PARAM_SCALAR);
    assert_string_equal(m->kernels[l->kernel].name, "scale_0");
    assert_int_equal(m->kernels[0].major, 7);
    assert_int_equal(m->kernels[0].minor, 1);
    fkm_free(m);
    free(bytes);
}

/* ---- variants ---- */

/* What the runtime makes of an expression for x[300, 7] at an alignment, with strides. */
static int64_t value_at(const FkmFn *f, const FkmExpr *e, int64_t align, int64_t stride0,
                        int64_t stride1, const int64_t *sizes) {
    int64_t extents[] = {sizes[0], sizes[1], sizes[0]}, strides[] = {stride0, stride1, 1}, v;
    FkmEnv env = {f->tensors, sizes, extents, strides, (int64_t[]){align, 256, 256}, 132};
    assert_true(fkm_eval(e, &env, &v));
    return v;
}

static Schedule *fast_schedule(const char *name, const Ix *cost, int cluster) {
    Schedule *s = ARENA_NEW(&arena, Schedule);
    s->name = name, s->target = "sm_90a", s->cost = cost, s->cluster[0] = cluster;
    return s;
}

static Variant fast_variant(Schedule *s) {
    IxPool *ix = plan.graph->ix;
    Variant v = {.schedule = s};
    v.kernel = (Kernel){.name = s->name,
                        .arch = "sm_90a",
                        .ptx_version = 80,
                        .ptx = "// none\n",
                        .stats = KSTATS_NONE,
                        .block = 384,
                        .grid = ix_mul(ix, size(0), size(1)),
                        .persistent = true};
    KParam map = {.kind = KP_TMAP, .index = 0};
    map.map = (KTmap){.rank = 2, .dim = {1, 0}, .box = {64, 128}, .swizzle = 128};
    vec_push(&arena, &v.kernel.params, map);
    KGuard guards[] = {{.kind = KG_ALIGN, .index = 0, .multiple = 16},
                       {.kind = KG_STRIDE, .index = 0, .dim = 0, .multiple = 16},
                       {.kind = KG_STRIDE_ONE, .index = 0, .dim = 1},
                       {.kind = KG_NONNEG, .ix = ix_sub(ix, size(1), ix_const(ix, 4))}};
    for (size_t i = 0; i < sizeof guards / sizeof *guards; i++)
        vec_push(&arena, &v.kernel.guards, guards[i]);
    return v;
}

/* Two fast variants (one says its cost by its kernel) and one that was dropped, then the general
 * one: their order, guards, costs, grids, maps. */
static void several_variants(void **state) {
    (void)state;
    IxPool *ix = plan.graph->ix;
    void *bytes;
    size_t n;
    Variants kept = variants;
    variants = (Variants){0};
    Variant a = fast_variant(fast_schedule("a", ix_const(ix, 700), 2));
    Variant b = fast_variant(fast_schedule("b", ix_const(ix, 800), 0));
    Variant c = fast_variant(fast_schedule("c", NULL, 0));
    b.kernel.cost = ix_mul(ix, size(0), ix_const(ix, 2));
    c.dropped = "it is slow";
    vec_push(&arena, &variants, a);
    vec_push(&arena, &variants, b);
    vec_push(&arena, &variants, c);
    vec_push(&arena, &variants, kept.v[0]);
    job.fns.v[0].variants = &variants;
    FkmModule *m = packed(&bytes, &n);
    const FkmFn *f = &m->fns[0];
    const FkmStep *step = &f->steps[0];
    assert_int_equal(step->n_variants, 3);
    assert_string_equal(step->variants[0].name, "a");
    assert_string_equal(step->variants[1].name, "b");
    assert_string_equal(step->variants[2].name, "general");
    assert_string_equal(step->variants[0].arch, "sm_90a");

    const int64_t sizes[] = {300, 7};
    assert_int_equal(value(f, &step->variants[0].cost), 700);
    assert_int_equal(value(f, &step->variants[1].cost), 600);
    assert_true(value(f, &step->variants[2].cost) == INT64_MAX);
    const FkmExpr *grid = &step->variants[0].launches[0].grid[0];
    assert_int_equal(value(f, grid), 132);
    assert_int_equal(value_at(f, grid, 16, 8, 1, (int64_t[]){3, 7}), 21);
    const FkmMap *map = &step->variants[0].launches[0].params[0].map;
    assert_int_equal(step->variants[0].launches[0].params[0].kind, FKM_PARAM_TMAP);
    assert_true(!map->temp && map->rank == 2 && map->swizzle == 128);
    assert_true(map->dim[0] == 1 && map->dim[1] == 0 && map->box[0] == 64 && map->box[1] == 128);
    assert_int_equal(f->temps[0].rank, 2);
    assert_string_equal(fkm_dtype_name((FkmDtype)f->temps[0].dtype), "u4");

    const FkmExpr *g = &step->variants[0].guard; /* bf16: 8 elements are 16 bytes */
    assert_int_equal(value_at(f, g, 16, 8, 1, sizes), 1);
    assert_int_equal(value_at(f, g, 256, 4096, 1, sizes), 1);
    assert_int_equal(value_at(f, g, 8, 8, 1, sizes), 0);   /* base */
    assert_int_equal(value_at(f, g, 16, 12, 1, sizes), 0); /* pitch */
    assert_int_equal(value_at(f, g, 16, 0, 1, sizes), 0);  /* not positive */
    assert_int_equal(value_at(f, g, 16, -8, 1, sizes), 0);
    assert_int_equal(value_at(f, g, 16, 8, 2, sizes), 0);               /* not one */
    assert_int_equal(value_at(f, g, 16, 9, 1, (int64_t[]){1, 7}), 1);   /* one row */
    assert_int_equal(value_at(f, g, 16, 8, 5, (int64_t[]){300, 1}), 0); /* one column, K < 4 */
    assert_int_equal(value_at(f, g, 16, 8, 1, (int64_t[]){300, 3}), 0);
    assert_int_equal(value_at(f, g, 16, 8, 1, (int64_t[]){300, 4}), 1);
    assert_int_equal(step->variants[2].guard.n, 0);
    fkm_free(m);
    free(bytes);

    Str text_of = {0}; /* the report names them in this order */
    report_fn(&text_of, &job, &job.fns.v[0]);
    const char *at = str_get(&text_of);
    static const char *const parts[] = {
        "\n    a a: PTX 8.0 for sm_90a, 384 threads, grid M*K, at most one CTA a multiprocessor\n",
        "      needs x aligned to 16 bytes; stride 0 of x a multiple of 16 bytes; stride 1",
        " of x one element; K >= 4\n",
        "      predicted 0.7 us\n",
        "\n    b b: ",
        "      predicted 1.0 us (M = K = 512), 4.1 us (2048), 16.4 us (8192); --bind sets sizes\n",
        "\n    c: dropped, it is slow\n",
        "\n    general kernel scale_0: ",
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const char *found = strstr(at, parts[i]);
        if (!found) fail_msg("no '%s' in: %s", parts[i], at);
        at = found + 1;
    }
    str_free(&text_of);
    variants = kept;
    job.fns.v[0].variants = &variants;
}

static void odd_multiprocessors_and_clusters(void **state) {
    (void)state;
    void *bytes;
    size_t n;
    Variants kept = variants;
    variants = (Variants){0};
    Variant a = fast_variant(fast_schedule("a", NULL, 2));
    vec_push(&arena, &variants, a);
    vec_push(&arena, &variants, kept.v[0]);
    job.fns.v[0].variants = &variants;
    FkmModule *m = packed(&bytes, &n);
    const FkmFn *f = &m->fns[0];
    int64_t sizes[] = {300, 7}, extents[] = {300, 7, 300}, strides[] = {9, 1, 1}, v;
    FkmEnv env = {f->tensors, sizes, extents, strides, (int64_t[]){256, 256, 256}, 113};
    assert_true(fkm_eval(&f->steps[0].variants[0].launches[0].grid[0], &env, &v));
    assert_int_equal(v, 112);
    env.sm_count = 1; /* a grid of none would leave the outputs as they were */
    assert_true(fkm_eval(&f->steps[0].variants[0].launches[0].grid[0], &env, &v));
    assert_int_equal(v, 2);
    fkm_free(m);
    free(bytes);
    variants = kept;
    job.fns.v[0].variants = &variants;
}

static void strip_and_bytes(void **state) {
    (void)state;
    void *a, *b;
    size_t na, nb;
    fkm_free(packed(&a, &na));
    fkm_free(packed(&b, &nb));
    assert_int_equal(na, nb);
    assert_memory_equal(a, b, na);
    options.strip = 1;
    free(b);
    FkmModule *m = packed(&b, &nb);
    assert_null(m->fns[0].graph);
    assert_true(nb < na);
    options.strip = 0;
    fkm_free(m);
    free(a), free(b);
}

/* Expressions mean the same to ir/ix and to the runtime. */
static void expressions(void **state) {
    (void)state;
    IxPool *p = plan.graph->ix;
    const Ix *M = size(0), *K = size(1), *c = ix_const(p, 5);
    const Ix *list[] = {ix_add(p, ix_mul(p, M, K), c),
                        ix_sub(p, c, ix_mul(p, M, ix_const(p, 3))),
                        ix_div(p, ix_sub(p, K, M), ix_const(p, 4)),
                        ix_mod(p, ix_sub(p, K, M), ix_const(p, 4)),
                        ix_div(p, M, K),
                        ix_mod(p, M, K),
                        ix_min(p, ix_max(p, M, c), ix_mul(p, K, K)),
                        ix_const(p, -7)};
    int64_t sizes[] = {300, 7};
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        bool ok = true;
        int64_t want = ix_eval(list[i], &(IxEnv){.size = sizes}, &ok), got;
        FkmExpr e = pack_ix(&arena, list[i], -1, -1);
        assert_true(fkm_eval(&e, &(FkmEnv){.size = sizes}, &got));
        assert_int_equal(got, want);
    }
}

static void verdicts(void **state) {
    (void)state;
    /* hbm leaves out the 4 bytes of s, so it is less than io; a workspace depends on M and K */
    static const int want[] = {1, -1, 1, 1, 0, 1};
    static const char *const found[] = {"1", "1"};
    for (int i = 0; i < 6; i++) {
        ExpectVerdict v = expect_verdict(&arena, &job.fns.v[0], &plan.graph->expect.v[i]);
        assert_int_equal(v.verdict, want[i]);
        if (i < 2) assert_string_equal(v.found, found[i]);
    }
    check_expects(&job, &job.fns.v[0]);
    assert_int_equal(diags.errors, 1);
    assert_int_equal(diags.warnings, 1);
    assert_string_equal(diags.list.v[0].text, "scale: expected kernels < 1, found 1");
    options.no_expect = 1;
    check_expects(&job, &job.fns.v[0]);
    assert_int_equal(diags.errors, 1);
    assert_int_equal(diags.warnings, 3);
    options.no_expect = 0;
    assert_string_equal(diags.list.v[1].text, "with --no-expect this is a warning");
    assert_non_null(strstr(diags.list.v[2].text, "cannot check workspace <= 4096"));
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_back),
        cmocka_unit_test(several_variants),
        cmocka_unit_test(odd_multiprocessors_and_clusters),
        cmocka_unit_test(strip_and_bytes),
        cmocka_unit_test(expressions),
        cmocka_unit_test(verdicts),
    };
    int failed = cmocka_run_group_tests(tests, make, NULL);
    if (argc > 1) {
        size_t n;
        FkmError error;
        void *bytes = fkm_encode(pack_module(&arena, &job), &n, &error);
        FILE *f = fopen(argv[1], "wb");
        if (f && bytes) fwrite(bytes, 1, n, f);
        if (f) fclose(f);
        free(bytes);
    }
    arena_free(&arena);
    return failed;
}
