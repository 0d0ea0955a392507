/* build.c - what programs mean, by evaluating the graphs that they become; and --bind. Expected
 * numbers are worked out by hand. */
#include "frontend/frontend.h"
#include "ir/ir.h"
#include "ir/sample.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

static Arena arena;
static Diags diags;

static int setup(void **state) {
    (void)state;
    diags = (Diags){.arena = &arena};
    return 0;
}

static int teardown(void **state) {
    (void)state;
    arena_free(&arena);
    return 0;
}

static void show_diags(void) {
    Str s = {0};
    diag_print(&diags, &s, false);
    print_message("%s", str_get(&s));
    str_free(&s);
}

static const char *no_files(void *ctx, Arena *a, const char *path, size_t *len, const char **why) {
    (void)ctx, (void)a, (void)path, (void)len;
    *why = "there are no files";
    return NULL;
}

static FrontendFns *build_bound(const char *text, FrontendBinds binds) {
    FrontendReader none = {no_files, NULL};
    Ast *ast = frontend_parse(&arena, &diags, &none, "t.fk", text, strlen(text));
    return frontend_build(ast, &arena, &diags, &binds);
}

static Graph *build(const char *text) {
    FrontendFns *r = build_bound(text, (FrontendBinds){NULL, 0});
    if (diags.errors) show_diags();
    assert_int_equal(diags.errors, 0);
    assert_int_equal(r->fns.n, 1);
    Str why = {0};
    if (!graph_verify(r->fns.v[0], &why)) fail_msg("%s", str_get(&why));
    str_free(&why);
    return r->fns.v[0];
}

/* One run: sizes in the order in which the text names them, inputs as doubles. */
typedef struct Run {
    Graph *g;
    EvalTensor t[16];
    double in[16][16];
    int nsizes;
    int64_t sizes[8];
} Run;

static double at(Run *r, const char *out, int64_t i, int64_t j) {
    for (int p = 0; p < r->g->params.n; p++) {
        size_t bytes = sample_shape(r->g, p, r->sizes, &r->t[p]);
        r->t[p].data = arena_alloc(&arena, bytes + 1);
        int64_t n = 1;
        for (int d = 0; d < r->t[p].rank; d++) n *= r->t[p].extent[d];
        for (int64_t k = 0; !r->g->params.v[p].out && k < n; k++)
            dtype_store(r->t[p].type, r->t[p].data, k, r->in[p][k], (int64_t)r->in[p][k]);
    }
    for (int p = 0; p < r->g->params.n; p++) {
        const Param *q = &r->g->params.v[p];
        if (!q->out || strcmp(q->name, out)) continue;
        Eval *e = eval_new(r->g, r->sizes, r->t);
        EvalVal v = eval_at(e, q->node, (int64_t[]){i, j});
        eval_free(e);
        return dtype_class(q->type) == DC_REAL ? v.r : (double)v.i;
    }
    fail_msg("no output %s", out);
    return 0;
}

#define NEAR(x, y) assert_true(fabs((x) - (y)) < 1e-6)

static void reduction_takes_products(void **state) {
    (void)state;
    Run r = {build("fn f(x: f32[M, K], b: f32[M]) -> (y: f32[M], z: f32[M])\n{\n"
                   "    y[m] = sum[k] x[m, k] * x[m, k] + b[m]\n"
                   "    z[m] = 2 - max[k] -x[m, k]\n}\n"),
             .sizes = {1, 3}, .in = {{1, 2, 3}, {100}}};
    NEAR(at(&r, "y", 0, 0), 114);
    NEAR(at(&r, "z", 0, 0), 3);
}

static void empty_domains(void **state) {
    (void)state;
    Run r = {build("fn f(x: f32[M], n: i32) -> (p: f32[M], l: f32, s: f32, d: f32, a: f32, i: f32, "
                   "u: i32)\n{\n"
                   "    p[m] = softmax[m where m < n](x[m])\n"
                   "    l = logsumexp[m where m < n](x[m])\n"
                   "    s = sum[m where m < n] x[m]\n"
                   "    d = prod[m where m < n] x[m]\n"
                   "    a = mean[m where m < n] x[m]\n"
                   "    i = min[m where m < n] x[m]\n"
                   "    u = max[m where m < n] i32(x[m])\n}\n"),
             .sizes = {2}, .in = {{1, 2}, {0}}};
    NEAR(at(&r, "p", 0, 0), 0);
    NEAR(at(&r, "s", 0, 0), 0);
    NEAR(at(&r, "d", 0, 0), 1);
    assert_true(isnan(at(&r, "a", 0, 0)));
    assert_true(at(&r, "l", 0, 0) < 0 && isinf(at(&r, "l", 0, 0)));
    assert_true(at(&r, "i", 0, 0) > 0 && isinf(at(&r, "i", 0, 0)));
    NEAR(at(&r, "u", 0, 0), INT32_MIN);
    r.in[1][0] = 1;
    NEAR(at(&r, "p", 0, 0), 1);
    NEAR(at(&r, "p", 1, 0), 0);
    NEAR(at(&r, "a", 0, 0), 1);
}

static void masked_stays_zero(void **state) {
    (void)state;
    Run r = {
        build("fn f(x: f32[M], v: f32[M], n: i32) -> (o: f32, q: f32[M], e: f32[M], t: f32)\n{\n"
              "    p[m] = softmax[m where m < n](x[m])\n"
              "    w[m] = p[m] * v[m]\n"
              "    o = sum[m] p[m] * v[m]\n"
              "    q[m] = select(x[m] < 0, 0, -w[m] / v[m])\n"
              "    e[m] = exp(w[m])\n"
              "    t = sum[m] (1 + p[m] * v[m])\n}\n"),
        .sizes = {3}, .in = {{5, 5, 5}, {1, 3, (double)NAN}, {2}}};
    NEAR(at(&r, "o", 0, 0), 2);
    NEAR(at(&r, "q", 2, 0), 0);
    NEAR(at(&r, "q", 0, 0), -0.5);
    NEAR(at(&r, "e", 2, 0), 1);
    NEAR(at(&r, "t", 0, 0), 5);
}

static void defs_are_hygienic(void **state) {
    (void)state;
    Run r = {build("const C = 10\n"
                   "def total[j](x) = sum[j] x\n"
                   "def twice(m) = m + m\n"
                   "def mix[i](j, m) = { k = twice(j)\n  k * total[i](m) + C }\n"
                   "fn f(x: f32[M, K]) -> (y: f32[M, K], z: f32)\n{\n"
                   "    k[m] = total[i](x[m, i])\n"
                   "    y[m, j] = mix[j](x[m, j], twice(k[m]) * x[m, j])\n"
                   "    z = total[i](total[j](x[i, j]))\n}\n"),
             .sizes = {1, 2}, .in = {{1, 2}}};
    NEAR(at(&r, "y", 0, 0), 2 * 18 + 10); /* total of 6*x is 18 */
    NEAR(at(&r, "y", 0, 1), 4 * 18 + 10);
    NEAR(at(&r, "z", 0, 0), 3);
}

static void lists_and_nested_conditions(void **state) {
    (void)state;
    Run r = {build("def tempered[j](x, t) = softmax[j](x / t)\n"
                   "fn f(x: f32[M, K]) -> (y: f32[M, K], p: f32[M, K], n: f32[M, K])\n{\n"
                   "    y[m, k] = softmax[m, k](x[m, k])\n"
                   "    p[m, k] = tempered[k where k <= m](x[m, k], 2.0)\n"
                   "    n[m, k] = layernorm[m, k](x[m, k], 0)\n}\n"),
             .sizes = {2, 2}, .in = {{0, 0, 0, 0}}};
    NEAR(at(&r, "y", 1, 1), 0.25);
    NEAR(at(&r, "p", 0, 0), 1);
    NEAR(at(&r, "p", 0, 1), 0);
    NEAR(at(&r, "p", 1, 1), 0.5);
    for (int i = 0; i < 4; i++) r.in[0][i] = i;
    NEAR(at(&r, "n", 1, 1), 1.5 / sqrt(1.25));
}

static void two_axes(void **state) {
    (void)state;
    Run r = {build("def rows[i, j](x) = sum[j] x\n"
                   "def share[i, j](x) = x / sum[j] x\n"
                   "fn f(x: f32[M, K]) -> (y: f32[M], p: f32[M, K])\n{\n"
                   "    y[m] = rows[m, k where k <= m](x[m, k])\n"
                   "    p[m, k] = share[m, k where k <= m](x[m, k])\n}\n"),
             .sizes = {2, 2}, .in = {{1, 2, 3, 5}}};
    NEAR(at(&r, "y", 0, 0), 1);
    NEAR(at(&r, "y", 1, 0), 8);
    NEAR(at(&r, "p", 0, 0), 1);
    NEAR(at(&r, "p", 0, 1), 0);
    NEAR(at(&r, "p", 1, 1), 0.625);
}

static void reads_outside_give_zero(void **state) {
    (void)state;
    Run r = {
        build("fn f(x: f32[M], id: i32[M]) -> (y: f32[M], z: f32[M], u: f32[M], w: f32[M])\n{\n"
              "    y[m] = x[id[m]]\n"
              "    z[m] = select(m > 0, x[m - 1], 7)\n"
              "    u[m] = f32(i32(m == 0 or x[m - 1] < x[m]))\n"
              "    w[m] = x[id[id[m]] + 1]\n}\n"),
        .sizes = {3}, .in = {{10, 20, 30}, {2, -1, 3}}};
    NEAR(at(&r, "y", 0, 0), 30);
    NEAR(at(&r, "y", 1, 0), 0);
    NEAR(at(&r, "y", 2, 0), 0);
    NEAR(at(&r, "z", 0, 0), 7);
    NEAR(at(&r, "z", 2, 0), 20);
    NEAR(at(&r, "u", 0, 0), 1);
    NEAR(at(&r, "u", 1, 0), 1);
    NEAR(at(&r, "w", 0, 0), 0);  /* id[2] + 1 is 4 */
    NEAR(at(&r, "w", 1, 0), 20); /* id[-1] is 0 */
}

static void integers(void **state) {
    (void)state;
    Run r = {
        build("const N = 7\n"
              "fn f(n: i32[M]) -> (q: i32[M], r: i32[M], p: i32[M], s: f32[M], i: i32[M], c: i32, "
              "w: i32[M], h: f32)\n{\n"
              "    q[m] = n[m]/2\n"
              "    r[m] = n[m] % 3\n"
              "    p[m] = n[m]^3\n"
              "    s[m] = n[m]^-2 + 2^-1\n"
              "    i[m] = (m - 2)/2 + N/2 * 10 - N % 4\n"
              "    c = sum[m where n[m] < 0] 1\n"
              "    w[m] = n[m] * 2147483647\n"
              "    h = 1.0/M + M^0.5\n}\n"),
        .sizes = {4}, .in = {{-7, 7, 2, -1}}};
    NEAR(at(&r, "q", 0, 0), -4);
    NEAR(at(&r, "r", 0, 0), 2);
    NEAR(at(&r, "p", 0, 0), -343);
    NEAR(at(&r, "s", 2, 0), 0.75);
    NEAR(at(&r, "i", 0, 0), -1 + 30 - 3);
    NEAR(at(&r, "c", 0, 0), 2);
    NEAR(at(&r, "w", 2, 0), -2);
    NEAR(at(&r, "h", 0, 0), 2.25);
}

static void roundings(void **state) {
    (void)state;
    Run r = {
        build("fn f(x: f32[M]) -> (a: bf16[M], b: f32[M], c: f32[M], d: i32[M], e: f32[M])\n{\n"
              "    a[m] = x[m] + 1\n"
              "    b[m] = a[m]\n" /* every reader sees the rounding */
              "    t[m]: bf16 = x[m]\n"
              "    c[m] = t[m] - 256\n"
              "    d[m] = x[m]\n"
              "    e[m] = e4m3(x[m] * 1000)\n}\n"),
        .sizes = {2}, .in = {{257, 2.5}}};
    NEAR(at(&r, "a", 0, 0), 258);
    NEAR(at(&r, "b", 0, 0), 258);
    NEAR(at(&r, "c", 0, 0), 0);
    NEAR(at(&r, "d", 1, 0), 2);
    NEAR(at(&r, "e", 0, 0), 448);
}

static void conditions_on_sizes(void **state) {
    (void)state;
    Graph *g = build("fn f(x: f32[M, K/4], n: i32) -> (y: f32[M], z: f32[M], w: f32[K])\n{\n"
                     "    y[m] = x[m, 5]\n"
                     "    z[m] = sum[k in M - 3] x[k + 3, 0] / (1 + f32(k))\n"
                     "    w[k] = x[0, k/4]\n}\n");
    Str s = {0};
    for (int i = 0; i < g->checks.n; i++) str_printf(&s, "%s\n", g->checks.v[i].text);
    assert_string_equal(str_get(&s), "K must be a multiple of 4\n"
                                     "index 5 in dimension 2 of x must not be negative\n"
                                     "index 5 in dimension 2 of x must be inside\n"
                                     "the range M - 3 must not be negative\n"
                                     "index 0 in dimension 2 of x must not be negative\n"
                                     "index 0 in dimension 2 of x must be inside\n"
                                     "index 0 in dimension 1 of x must not be negative\n"
                                     "index 0 in dimension 1 of x must be inside\n");
    str_free(&s);
}

/* Rule 7: '^' with a constant keeps an integer an integer, also where sizes are written. */
static void powers_of_sizes(void **state) {
    (void)state;
    Run r = {build("const K = 2^2\nconst E = 2\n"
                   "fn f(x: f32[N^E, N], k: f32[K^2], t: f32[2*T^1], o: f32[N^0]) -> (y: f32, z: "
                   "f32, l: f32)\n{\n"
                   "    y = sum[i] x[i, 0] + sum[j in 2^2] x[j, 1]\n"
                   "    z = sum[j in (N + 1)^2] 1\n"
                   "    l = sum[i] o[0] * t[i]\n}\n"),
             .sizes = {2, 1}, .in = {{1, 10, 2, 20, 3, 30, 4, 40}, {0}, {3, 4}, {1}}};
    NEAR(at(&r, "y", 0, 0), 10 + 100);
    NEAR(at(&r, "l", 0, 0), 7);
    NEAR(at(&r, "z", 0, 0), 9);
    EvalTensor t;
    sample_shape(r.g, 1, r.sizes, &t);
    assert_int_equal(t.extent[0], 16);
}

static FrontendBinds binds_of(const char *const *v, int n) {
    return (FrontendBinds){v, n};
}

static void bind(void **state) {
    (void)state;
    const char *text = "const C = 3\nconst D = 2 * C\nfn f(x: f32[M, K]) -> (y: f32[M])\n{\n"
                       "    y[m] = sum[k] D * x[m, k]\n}\n";
    const char *good[] = {"C=1.5", "M=16"};
    FrontendFns *r = build_bound(text, binds_of(good, 2));
    assert_int_equal(diags.errors, 0);
    Str s = {0};
    graph_print(&s, r->fns.v[0]);
    assert_non_null(strstr(str_get(&s), "in x: f32[16, K]"));
    assert_non_null(strstr(str_get(&s), "const 3\n"));
    str_free(&s);
    static const char *const bad[] = {"Z=1",   "M",    "=3",     "M=",   "M=x",  "M=1e999",
                                      "M=2.5", "M=-1", "M=0x10", "M= 3", "C=inf"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        diags = (Diags){.arena = &arena};
        build_bound(text, binds_of(&bad[i], 1));
        assert_int_equal(diags.errors, 1);
        assert_string_equal(diags.list.v[0].rule, "bind");
    }
    const char *twice[] = {"M=1", "M=2"};
    diags = (Diags){.arena = &arena};
    build_bound(text, binds_of(twice, 2));
    assert_string_equal(diags.list.v[0].text,
                        "--bind M=2: 'M' is bound already, by --bind M=1; a name takes one value");
}

/* Rules 1 and 7: on an empty domain every check holds, also when sizes are bound. */
static void bound_empty_domains(void **state) {
    (void)state;
    static const char *const body[] = {
        "y[i] = x[max(i - 1, 0)]",
        "y[i] = f32(a[i] % N)",
        "y[i] = f32(5 % N + 7/N + a[i]/N)",
        "y[i] = x[a[a[i] % N]] + x[N - 3]",
        "y[i] = z[0] + x[i]",
        "y[i] = exp(z[0] + z[7]) + x[i]",
        "y[i] = x[i] + sum[j] z[0] * x[j]",
        "y[i] = sum[j in M] x[i] * z[j + 3]",
    };
    const char *empty[] = {"N=0", "M=0"}, *one[] = {"N=1", "M=0"};
    for (size_t i = 0; i < sizeof body / sizeof *body; i++) {
        const char *text = arena_printf(&arena,
                                        "fn f(x: f32[N], a: i32[N], z: f32[M]) -> (y: f32[N])\n{\n"
                                        "    %s\n}\n",
                                        body[i]);
        Str why = {0};
        FrontendFns *r = build_bound(text, binds_of(empty, 2));
        if (diags.errors) show_diags();
        assert_int_equal(r->fns.n, 1);
        assert_int_equal(r->fns.v[0]->checks.n, 0);
        if (!graph_verify(r->fns.v[0], &why)) fail_msg("%s: %s", body[i], str_get(&why));
        str_free(&why);
        build_bound(text, binds_of(one, 2));
        bool reads_z0 = strstr(body[i], "z[0]"), reads_x = strstr(body[i], "N - 3");
        assert_int_equal(diags.errors > 0, reads_z0 || reads_x);
        diags = (Diags){.arena = &arena};
    }
}

static void several_errors(void **state) {
    (void)state;
    build_bound(
        "fn f(x: f32[M]) -> (y: f32[M], z: f32[M])\n{\n    y[m] = q[m]\n    z[m] = x[m, m]\n"
        "}\nfn g(x: f32[M]) -> (y: f32[M])\n{\n    y[m] = (x[m] < 0) + 1\n}\n",
        (FrontendBinds){NULL, 0});
    assert_int_equal(diags.errors, 3);
}

static const char *library(void *ctx, Arena *a, const char *path, size_t *len, const char **why) {
    (void)ctx;
    static const char *const files[][2] = {
        {"lib/act.fk", "use \"num.fk\"\ndef relu(x) = max(x, 0) * SCALE\n"
                       "fn unused(x: f32[M]) -> (y: f32[M])\n{\n    y[m] = nothing[m]\n}\n"},
        {"lib/num.fk", "const SCALE = 4\n"},
        {"again.fk", "const SCALE = 5\n"},
    };
    for (int i = 0; i < 3; i++)
        if (!strcmp(files[i][0], path)) {
            *len = strlen(files[i][1]);
            return arena_strdup(a, files[i][1]);
        }
    *why = "it is not in the library";
    return NULL;
}

/* use brings consts and defs; a def of a file hides one of the prelude; fns there are not built. */
static void used_files(void **state) {
    (void)state;
    FrontendReader reader = {library, NULL};
    const char *text = "use \"lib/act.fk\"\nfn f(x: f32[M]) -> (y: f32[M])\n{\n"
                       "    y[m] = relu(x[m])\n}\n";
    Ast *ast = frontend_parse(&arena, &diags, &reader, "main.fk", text, strlen(text));
    FrontendFns *r = frontend_build(ast, &arena, &diags, NULL);
    assert_int_equal(diags.errors, 0);
    assert_int_equal(r->fns.n, 1);
    Run run = {r->fns.v[0], .sizes = {2}, .in = {{-3, 3}}};
    NEAR(at(&run, "y", 0, 0), 0);
    NEAR(at(&run, "y", 1, 0), 12);
    text = "use \"lib/act.fk\"\nuse \"again.fk\"\n";
    ast = frontend_parse(&arena, &diags, &reader, "main.fk", text, strlen(text));
    frontend_build(ast, &arena, &diags, NULL);
    assert_int_equal(diags.errors, 1);
    assert_string_equal(diags.list.v[0].rule, "defined-twice");
}

static void grad_is_left_out(void **state) {
    (void)state;
    FrontendFns *r = build_bound("fn f(x: f32[M]) -> (y: f32[M])\n{\n    y[m] = x[m]^2\n}\n"
                                 "grad b = d f / d (x)\n",
                                 (FrontendBinds){NULL, 0});
    assert_int_equal(diags.errors, 0);
    assert_int_equal(diags.warnings, 1);
    assert_int_equal(r->fns.n, 1);
    assert_int_equal(r->left.n, 1);
    assert_string_equal(r->left.v[0].name, "b");
}

/* A statement that names the one before, as often as a file may. */
static void long_chain(void **state) {
    (void)state;
    Str s = {0};
    str_add(&s, "fn f(x: f32[M]) -> (y: f32[M])\n{\n    y[m] = t0[m]\n");
    for (int i = 0; i < 20000; i++) str_printf(&s, "    t%d[m] = t%d[m] + 1\n", i, i + 1);
    str_add(&s, "    t20000[m] = x[m]\n}\n");
    Graph *g = build(str_get(&s));
    assert_true(g->nodes.n > 20000);
    str_free(&s);
}

int main(void) {
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(reduction_takes_products),
        T(empty_domains),
        T(masked_stays_zero),
        T(defs_are_hygienic),
        T(lists_and_nested_conditions),
        T(two_axes),
        T(reads_outside_give_zero),
        T(integers),
        T(roundings),
        T(conditions_on_sizes),
        T(powers_of_sizes),
        T(bind),
        T(bound_empty_domains),
        T(several_errors),
        T(used_files),
        T(grad_is_left_out),
        T(long_chain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
