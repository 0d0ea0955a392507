/* test_run.c - the parts of fkrun: layouts, .npy files, tolerances, and that --check finds every
 * kind of wrong output.
 */
#include "compiler/run_int.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* A graph of two matrices and one that comes of them. */
#define GRAPH(name)                                                                                \
    "graph " name " {\n  size M, K, N\n  in x: bf16[M, K] = %0\n  in w: bf16[N, K] = %1\n"

static const char linear[] =
    GRAPH("linear") "  %2: f32[m: M, n: N; k: K] = contract x[m, k], w[n, k]\n"
                    "  %3 y: bf16[m: M, n: N] = cast %2[m, n]\n"
                    "  out y: bf16[M, N] = %3\n"
                    "}\n";

/* ---- tolerances ---- */

static Graph *graph(Arena *a, const char *text) {
    Diags d = {.arena = a};
    Graph *g = graph_parse(a, source_new(a, "test", text, strlen(text)), &d);
    if (!g) fail_msg("%s", d.list.v[0].text);
    return g;
}

/* One sum over k of `product`, stored as `type`; xb, xh, x8 are tensors, %4 a computed f32. */
static Tolerance tolerance_of(const char *type, const char *product, const int64_t *fast_accum) {
    Arena a = {0};
    const char *text =
        arena_printf(&a,
                     "graph t {\n  size K\n"
                     "  in xb: bf16[K] = %%0\n  in xh: f16[K] = %%1\n  in x8: e4m3[K] = %%2\n"
                     "  in xf: f32[K] = %%3\n"
                     "  %%4: f32[k: K] = exp xf[k]\n"
                     "  %%5: f32[k: K] = %s\n"
                     "  %%6: f32[; k: K] = sum %%5[k]\n"
                     "  %%7: %s = cast %%6\n"
                     "  out y: %s = %%7\n}\n",
                     product, type, type);
    Graph *g = graph(&a, text);
    Tolerance t = run_tolerance(g, 4, fast_accum);
    arena_free(&a);
    return t;
}

static Tolerance tolerance(const char *type, const char *product) {
    return tolerance_of(type, product, NULL);
}

static void tolerances(void **state) {
    (void)state;
    assert_true(tolerance("f32", "mul xf[k], xf[k]").norm == 1e-5);
    assert_true(tolerance("f32", "mul xb[k], xb[k]").norm == 2e-5);
    assert_true(tolerance("f32", "mul xb[k], xb[k]").element == 0x1p-13);
    assert_true(tolerance("f16", "mul xb[k], xb[k]").norm == 4e-4);
    assert_true(tolerance("bf16", "mul xf[k], xf[k]").norm == 3e-3);
    assert_true(tolerance("e4m3", "mul xf[k], xf[k]").element == 0x1p-3);
    assert_true(tolerance("e5m2", "mul xf[k], xf[k]").norm == 7e-2);
    /* the tensor-core rule: a computed factor that meets a tensor of fewer bits */
    assert_true(tolerance("f32", "mul %4[k], xb[k]").norm == 3e-3);
    assert_true(tolerance("f32", "mul %4[k], xh[k]").norm == 4e-4);
    assert_true(tolerance("f32", "mul %4[k], x8[k]").norm == 3e-3);
    assert_true(tolerance("f32", "mul %4[k], xf[k]").norm == 1e-5);
    assert_true(tolerance("f32", "mul %4[k], %4[k]").norm == 1e-5);
    assert_true(tolerance("f16", "mul %4[k], xb[k]").element == 0x1p-6);
    /* fp8 products: the tensor core's own sums, of 128 and, as --fast-accum lets it, of K */
    const int64_t k[] = {8192};
    assert_true(tolerance("f32", "mul x8[k], x8[k]").norm == 5e-4);
    assert_true(tolerance("f32", "mul x8[k], x8[k]").element == 0x1p-9);
    assert_true(tolerance("bf16", "mul x8[k], x8[k]").norm == 3e-3);
    assert_true(tolerance("f32", "mul x8[k], xf[k]").norm == 2e-5);
    assert_true(fabs(tolerance_of("f32", "mul x8[k], x8[k]", k).norm - 2.9576e-3) < 1e-7);
    assert_true(tolerance_of("bf16", "mul x8[k], x8[k]", k).norm > 5e-3);
    assert_true(tolerance_of("bf16", "mul xb[k], xb[k]", k).norm == 3e-3);
    /* integers: exact, or one off where a real was rounded */
    assert_int_equal(tolerance("i32", "mul xf[k], xf[k]").integer, 1);
}

/* ---- a run without a device ---- */

typedef struct Bench {
    Arena arena;
    RunOptions opt;
    FkmFn fn;
    Run run;
} Bench;

static FkmExpr size_of(Bench *b, int s) {
    FkmInsn *i = ARENA_NEW(&b->arena, FkmInsn);
    *i = FKM_SIZE(s);
    return (FkmExpr){i, 1};
}

static void open_graph(Bench *b, const char *text, const char *option_pad,
                       const char *option_transpose) {
    static char *const names[] = {"x", "w", "y"};
    static const int dims[3][2] = {{0, 1}, {2, 1}, {0, 2}};
    *b = (Bench){0};
    b->opt.seed = b->opt.scalars = b->opt.check_seconds = -1;
    if (option_pad) vec_push(&b->arena, &b->opt.pad, option_pad);
    if (option_transpose) vec_push(&b->arena, &b->opt.transpose, option_transpose);
    vec_push(&b->arena, &b->opt.size, "M=37");
    vec_push(&b->arena, &b->opt.size, "K=21");
    vec_push(&b->arena, &b->opt.size, "N=300");
    b->fn = (FkmFn){.name = "linear", .n_tensors = 3, .n_sizes = 3};
    b->fn.tensors = ARENA_ARRAY(&b->arena, FkmTensor, 3);
    b->fn.sizes = ARENA_ARRAY(&b->arena, FkmSize, 3);
    for (int i = 0; i < 3; i++) {
        static char *const sizes[] = {"M", "K", "N"};
        b->fn.sizes[i] = (FkmSize){sizes[i], -1};
        FkmTensor *t = &b->fn.tensors[i];
        *t = (FkmTensor){.name = names[i],
                         .dtype = FKM_BF16,
                         .is_output = i == 2,
                         .rank = 2,
                         .dims = ARENA_ARRAY(&b->arena, FkmDim, 2)};
        for (int d = 0; d < 2; d++) t->dims[d] = (FkmDim){"", size_of(b, dims[i][d])};
    }
    b->run =
        (Run){.arena = &b->arena, .opt = &b->opt, .fn = &b->fn, .graph = graph(&b->arena, text)};
    if (!run_sizes(&b->run) || !run_tensors(&b->run) || !run_fill(&b->run))
        fail_msg("%s", str_get(&b->run.why));
    Eval *e = run_eval(&b->run); /* what a right device would have left */
    EvalTensor y = run_eval_tensor(&b->run.tensors[2]);
    eval_output(e, 2, &y, 0);
    eval_free(e);
}

static void open_run(Bench *b, const char *option_pad, const char *option_transpose) {
    open_graph(b, linear, option_pad, option_transpose);
}

static void close_run(Bench *b) {
    for (int i = 0; i < b->run.n; i++) free(b->run.tensors[i].host);
    str_free(&b->run.why);
    arena_free(&b->arena);
}

static void set(Bench *b, int64_t m, int64_t n, double v) {
    RunTensor *y = &b->run.tensors[2];
    dtype_store(DT_bf16, run_base(y), run_offset(y, (int64_t[]){m, n}), v, 0);
}

/* Checks; true when the verdict is as wanted and, if wrong, says `text`. */
static void judged(Bench *b, const char *text) {
    Verdict v = {0};
    check_guards(&b->run, &v);
    check_run(&b->run, &v);
    if (!text && v.details.n) fail_msg("%s", str_get(&v.details));
    if (text && !strstr(str_get(&v.details), text)) fail_msg("no '%s'", text);
    assert_true(v.samples >= 4096);
    str_free(&v.details);
}

static void right_outputs(void **state) {
    (void)state;
    Bench b;
    open_run(&b, NULL, NULL);
    judged(&b, NULL);
    close_run(&b);
    open_run(&b, "y=5", "x");
    assert_int_equal(b.run.tensors[2].stride[0], 305);
    assert_int_equal(b.run.tensors[0].stride[0], 1);
    judged(&b, NULL);
    close_run(&b);
}

static void wrong_outputs(void **state) {
    (void)state;
    Bench b;
    open_run(&b, "y=5", NULL);
    RunTensor *y = &b.run.tensors[2];
    double corner = run_get(y, (int64_t[]){36, 299});
    set(&b, 36, 299, corner + 1);
    judged(&b, "y[36, 299]: got ");
    set(&b, 36, 299, NAN);
    judged(&b, "got nan");
    set(&b, 36, 299, INFINITY);
    judged(&b, "got inf");
    set(&b, 36, 299, corner);
    judged(&b, NULL);
    /* every element a little off: each within its bound, together not */
    for (int64_t i = 0; i < y->count; i++) {
        int64_t at[2];
        run_unflatten(y, i, at);
        set(&b, at[0], at[1], run_get(y, at) * 1.0078125);
    }
    judged(&b, "norm of the error");
    close_run(&b);
}

/* A mask's constant is no measure for the values beside it. */
static void beside_a_mask(void **state) {
    static const char text[] =
        GRAPH("masked") "  %2: f32[m: M, n: N; k: K] = contract x[m, k], w[n, k]\n"
                        "  %3: i64[m: M, n: N] = index m\n"
                        "  %4: i64[m: M, n: N] = index n\n"
                        "  %5: bool[m: M, n: N] = le %4[m, n], %3[m, n]\n"
                        "  %6: f32 = const -1e30\n"
                        "  %7: f32[m: M, n: N] = select %5[m, n], %2[m, n], %6\n"
                        "  %8 y: bf16[m: M, n: N] = cast %7[m, n]\n"
                        "  out y: bf16[M, N] = %8\n"
                        "}\n";
    (void)state;
    Bench b;
    open_graph(&b, text, NULL, NULL);
    judged(&b, NULL);
    set(&b, 36, 0, run_get(&b.run.tensors[2], (int64_t[]){36, 0}) + 1);
    judged(&b, "y[36, 0]: got ");
    close_run(&b);
}

static void guards(void **state) {
    (void)state;
    Bench b;
    open_run(&b, "y=5", NULL);
    RunTensor *y = &b.run.tensors[2];
    unsigned char *row_end = run_base(y) + 300 * 2;
    *row_end = 7;
    judged(&b, "y: a write outside its elements, 600 bytes from its start");
    *row_end = 0xFF;
    y->host[RUN_GUARD - 1] = 0;
    judged(&b, "y: a write outside its elements, -1 bytes from its start");
    y->host[RUN_GUARD - 1] = 0xFF;
    y->host[y->total - 1] = 1;
    judged(&b, "y: a write outside");
    close_run(&b);
}

/* A value half way between two of the output's type, broadcast behind its rounding: a device that
 * comes out on the other side is as far off as the reference. */
static void halves(void **state) {
    static const char text[] = GRAPH("halves") "  %2: f32 = const 1.00390625\n"
                                               "  %3: bf16 = cast %2\n"
                                               "  %4 y: bf16[m: M, n: N] = copy %3\n"
                                               "  out y: bf16[M, N] = %4\n"
                                               "}\n";
    (void)state;
    Bench b;
    open_graph(&b, text, NULL, NULL);
    judged(&b, NULL);
    for (int64_t i = 0; i < b.run.tensors[2].count; i++) set(&b, i / 300, i % 300, 1.0078125);
    judged(&b, NULL);
    set(&b, 3, 3, 1.03125);
    judged(&b, "y[3, 3]: got 1.03125");
    close_run(&b);
}

static void zero_reference(void **state) {
    (void)state;
    Bench b;
    open_run(&b, NULL, NULL);
    for (int64_t i = 0; i < b.run.tensors[0].count; i++)
        dtype_store(DT_bf16, run_base(&b.run.tensors[0]), i, 0, 0);
    for (int64_t i = 0; i < b.run.tensors[2].count; i++) set(&b, i / 300, i % 300, 0);
    judged(&b,
           "the reference is 0 everywhere: these inputs test nothing (--zero=y if it shall be)");
    close_run(&b);
}

/* ---- .npy ---- */

static void npy_files(void **state) {
    (void)state;
    Bench b;
    char path[] = "/tmp/fkrun-test-XXXXXX";
    Npy n;
    int64_t integer;
    open_run(&b, NULL, "y");
    close(mkstemp(path));
    RunTensor *y = &b.run.tensors[2];
    assert_true(npy_write(path, y, &b.run.why));
    assert_true(npy_read(&b.arena, path, &n, &b.run.why));
    assert_int_equal(n.rank, 2);
    assert_int_equal(n.extent[1], 300);
    assert_int_equal(n.kind, 'f');
    int64_t at[] = {12, 34};
    assert_true(npy_get(&n, at, &integer) == run_get(y, at));
    /* cut short at every length: an error, never a crash */
    size_t whole = 128 + 37 * 300 * 4;
    assert_int_equal(truncate(path, (off_t)whole - 1), 0);
    assert_false(npy_read(&b.arena, path, &n, &b.run.why));
    for (off_t k = 127; k >= 0; k--) {
        assert_int_equal(truncate(path, k), 0);
        b.run.why.n = 0;
        assert_false(npy_read(&b.arena, path, &n, &b.run.why));
    }
    unlink(path);
    close_run(&b);
}

/* ---- --variant ---- */

static void variants_are_forced(void **state) {
    (void)state;
    FkmVariant first[] = {{.name = "wide"}, {.name = "narrow"}, {.name = "general"}},
               second[] = {{.name = "narrow"}, {.name = "general"}},
               third[] = {{.name = "general"}};
    FkmStep steps[] = {{"a", first, 3}, {"b", second, 2}, {"c", third, 1}};
    FkmFn fn = {.steps = steps, .n_steps = 3};
    FkmModule m = {.fns = &fn, .n_fns = 1};
    Str why = {0};
    assert_false(variant_force(&m, "wid", &why));
    assert_string_equal(str_get(&why),
                        "no step has a variant 'wid'; there are: wide, narrow, general");
    assert_true(variant_force(&m, "narrow", &why)); /* where it is; elsewhere all stay */
    assert_true(steps[0].n_variants == 1 && steps[1].n_variants == 1 && steps[2].n_variants == 1);
    assert_string_equal(steps[0].variants[0].name, "narrow");
    assert_string_equal(steps[1].variants[0].name, "narrow");
    assert_string_equal(steps[2].variants[0].name, "general");
    str_free(&why);
}

/* ---- --tune ---- */

static int64_t cost_at(const FkmFn *f, const FkmExpr *cost, int64_t m, int64_t n) {
    const FkmEnv env = {.size = (const int64_t[]){m, n, 7}};
    int64_t v;
    assert_null(fkm_expr_check(cost, &(FkmScope){.fn = f}));
    assert_true(fkm_eval(cost, &env, &v));
    return v;
}

static void tuned_costs(void **state) {
    (void)state;
    Arena a = {0};
    FkmSize sizes[] = {{"M", -1}, {"N", -1}, {"B", 7}};
    FkmFn f = {.sizes = sizes, .n_sizes = 3};
    FkmInsn product[] = {FKM_SIZE(0), FKM_SIZE(1), FKM_DO(MUL)}, most = FKM_CONST(INT64_MAX);
    FkmExpr cost = {product, 3}, none = {0}, unknown = {&most, 1};
    tune_cost(&a, &f, (int64_t[]){10, 20, 7}, 55, &cost);
    assert_int_equal(cost_at(&f, &cost, 10, 20), 55);
    assert_int_equal(cost_at(&f, &cost, 10, 21), 210);
    assert_int_equal(cost_at(&f, &cost, 11, 20), 220);
    /* again at these sizes: the last figure alone */
    uint32_t n = cost.n;
    tune_cost(&a, &f, (int64_t[]){10, 20, 7}, 66, &cost);
    assert_int_equal(cost.n, n);
    assert_int_equal(cost_at(&f, &cost, 10, 20), 66);
    /* elsewhere: both */
    tune_cost(&a, &f, (int64_t[]){10, 30, 7}, 5, &cost);
    assert_true(cost.n > n);
    assert_int_equal(cost_at(&f, &cost, 10, 30), 5);
    assert_int_equal(cost_at(&f, &cost, 10, 20), 66);
    assert_int_equal(cost_at(&f, &cost, 10, 10), 100);
    /* back at the first, which is not the last any more */
    tune_cost(&a, &f, (int64_t[]){10, 20, 7}, 77, &cost);
    assert_int_equal(cost_at(&f, &cost, 10, 20), 77);
    assert_int_equal(cost_at(&f, &cost, 10, 30), 5);
    /* no stack is too small for many of them */
    for (int64_t i = 0; i < 1000; i++) tune_cost(&a, &f, (int64_t[]){i, i, 7}, i + 1, &cost);
    assert_int_equal(cost_at(&f, &cost, 999, 999), 1000);
    assert_int_equal(cost_at(&f, &cost, 0, 0), 1);
    assert_int_equal(cost_at(&f, &cost, 999, 998), 999 * 998);
    /* no cost, and the largest */
    tune_cost(&a, &f, (int64_t[]){1, 2, 7}, 8, &none);
    assert_int_equal(cost_at(&f, &none, 1, 2), 8);
    assert_int_equal(cost_at(&f, &none, 2, 1), 0);
    tune_cost(&a, &f, (int64_t[]){1, 2, 7}, 9, &unknown);
    assert_int_equal(cost_at(&f, &unknown, 1, 2), 9);
    assert_int_equal(cost_at(&f, &unknown, 2, 1), INT64_MAX);
    /* every size bound: one figure */
    sizes[0].bound = 1, sizes[1].bound = 2;
    FkmExpr fixed = {product, 3};
    tune_cost(&a, &f, (int64_t[]){1, 2, 7}, 12, &fixed);
    assert_int_equal(cost_at(&f, &fixed, 1, 2), 12);
    arena_free(&a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tolerances),
        cmocka_unit_test(right_outputs),
        cmocka_unit_test(wrong_outputs),
        cmocka_unit_test(beside_a_mask),
        cmocka_unit_test(guards),
        cmocka_unit_test(halves),
        cmocka_unit_test(zero_reference),
        cmocka_unit_test(npy_files),
        cmocka_unit_test(variants_are_forced),
        cmocka_unit_test(tuned_costs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
