/* eval_test.c - the graph evaluator against plain loops written out here. */
#include "test.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "case.h"

#ifdef __SANITIZE_ADDRESS__
enum { SHRINK = 4 }; /* what is timed is slow enough */
#else
enum { SHRINK = 1 };
#endif

static double *array(Case *c, int64_t n) {
    return ARENA_ARRAY(&c->arena, double, n + 1);
}

/* ---- linear ------------------------------------------------------------------------------------
 */

static const char linear_gelu[] = "graph linear_gelu {\n"
                                  "  size M, K, N\n"
                                  "  in x: bf16[M, K] = %0\n"
                                  "  in w: bf16[N, K] = %1\n"
                                  "  in b: bf16[N] = %2\n"
                                  "  %3: f32[m: M, n: N; k: K] = contract x[m, k], w[n, k]\n"
                                  "  %4: f32[m: M, n: N] = add %3[m, n], b[n]\n"
                                  "  %5: f32 = const 0.5\n"
                                  "  %6: f32[m: M, n: N] = mul %4[m, n], %5\n"
                                  "  %7: f32[m: M, n: N] = neg %4[m, n]\n"
                                  "  %8: f32 = const 0.7071067811865476\n"
                                  "  %9: f32[m: M, n: N] = mul %7[m, n], %8\n"
                                  "  %10: f32[m: M, n: N] = erfc %9[m, n]\n"
                                  "  %11: f32[m: M, n: N] = mul %6[m, n], %10[m, n]\n"
                                  "  %12 y: f32[m: M, n: N] = cast %11[m, n]\n"
                                  "  out y: f32[M, N] = %12\n"
                                  "}\n";

static void linear(int64_t M, int64_t K, int64_t N, double *seconds) {
    Case c;
    const int64_t sizes[] = {M, K, N};
    case_open(&c, linear_gelu, sizes);
    case_random(&c, "x", -1, 1);
    case_random(&c, "w", -1, 1);
    case_random(&c, "b", -1, 1);
    double *x = case_values(&c, "x"), *w = case_values(&c, "w"), *b = case_values(&c, "b");
    double *y = array(&c, M * N), t = case_seconds();
    assert_int_equal(case_eval(&c), 0);
    if (seconds) *seconds = case_seconds() - t;
    for (int64_t m = 0; m < M; m++)
        for (int64_t n = 0; n < N; n++) {
            double s = b[n];
            for (int64_t k = 0; k < K; k++) s += x[m * K + k] * w[n * K + k];
            y[m * N + n] = s * 0.5 * (1 + erf(s / sqrt(2.0)));
        }
    case_expect(&c, "y", y, 1e-6);
    case_close(&c);
}

static void linear_gelu_is_right(void **st) {
    (void)st;
    linear(7, 13, 5, NULL);
    linear(1, 1, 1, NULL);
    linear(3, 0, 4, NULL); /* gelu(b) */
    linear(0, 5, 4, NULL);
    double seconds;
    linear(200 / SHRINK, 400 / SHRINK, 300 / SHRINK, &seconds);
    print_message("200x300x400, each / %d: %.2f s\n", SHRINK, seconds);
}

/* ---- attention ---------------------------------------------------------------------------------
 */

/* Grouped queries; the condition is %9: causal, or the last three keys up to i. */
static const char attention_text[] =
    "graph attention {\n"
    "  size B, S, T, H, E\n"
    "  in q: bf16[B, S, 2*H, E] = %%0\n"
    "  in k: bf16[B, T, H, E] = %%1\n"
    "  in v: bf16[B, T, H, E] = %%2\n"
    "  %%3: f32[b: B, h: 2*H, i: S, j: T; e: E] = contract q[b, i, h, e], k[b, j, h/2, e]\n"
    "  %%4: f32 = const 0.25\n"
    "  %%5 s: f32[b: B, h: 2*H, i: S, j: T] = mul %%3[b, h, i, j], %%4\n"
    "%s"
    "  %%10 m: f32[b: B, h: 2*H, i: S; j: T] = max %%5[b, h, i, j] where %%9[i, j]\n"
    "  %%11: f32[b: B, h: 2*H, i: S, j: T] = sub %%5[b, h, i, j], %%10[b, h, i]\n"
    "  %%12 e: f32[b: B, h: 2*H, i: S, j: T] = exp %%11[b, h, i, j]\n"
    "  %%13 l: f32[b: B, h: 2*H, i: S; j: T] = sum %%12[b, h, i, j] where %%9[i, j]\n"
    "  %%14: f32[b: B, h: 2*H, i: S, j: T] = div %%12[b, h, i, j], %%13[b, h, i]\n"
    "  %%15 p: f32[b: B, h: 2*H, i: S, j: T] = within %%9[i, j], %%14[b, h, i, j]\n"
    "  %%16 o: f32[b: B, i: S, h: 2*H, e: E; j: T] = contract %%15[b, h, i, j], v[b, j, h/2, e]\n"
    "  %%17: f32[b: B, h: 2*H, i: S] = log %%13[b, h, i]\n"
    "  %%18: f32[b: B, h: 2*H, i: S] = add %%10[b, h, i], %%17[b, h, i]\n"
    "  out o: f32[B, S, 2*H, E] = %%16\n"
    "  out lse: f32[B, 2*H, S] = %%18\n"
    "}\n";
static const char causal[] = "  %6: i64[j: T] = index j\n"
                             "  %7: i64[i: S] = index i + T - S\n"
                             "  %8: bool[i: S, j: T] = gt %6[j], %7[i]\n"
                             "  %9: bool[i: S, j: T] = not %8[i, j]\n";
static const char window[] = "  %6: i64[i: S, j: T] = index i - j - 1\n"
                             "  %7: i64[i: S, j: T] = abs %6[i, j]\n"
                             "  %8: i64 = const 1\n"
                             "  %9: bool[i: S, j: T] = le %7[i, j], %8\n";
enum { NODE_O = 16 };

static void open_attention(Case *c, bool windowed, const int64_t *sizes) {
    char text[4000];
    snprintf(text, sizeof text, attention_text, windowed ? window : causal);
    case_open(c, text, sizes);
}

static bool in_domain(bool windowed, int64_t i, int64_t j, int64_t S, int64_t T) {
    return windowed ? j <= i && i - j < 3 : j <= i + T - S;
}

static void plain_attention(const double *q, const double *k, const double *v, double *o,
                            double *lse, const int64_t *z, bool windowed) {
    int64_t B = z[0], S = z[1], T = z[2], H = z[3], E = z[4];
    double *p = calloc((size_t)T + 1, sizeof *p);
    for (int64_t b = 0; b < B; b++)
        for (int64_t h = 0; h < 2 * H; h++)
            for (int64_t i = 0; i < S; i++) {
                double m = -(double)INFINITY, l = 0;
                for (int64_t j = 0; j < T; j++) {
                    if (!in_domain(windowed, i, j, S, T)) continue;
                    p[j] = 0;
                    for (int64_t e = 0; e < E; e++)
                        p[j] += q[((b * S + i) * 2 * H + h) * E + e] *
                                k[((b * T + j) * H + h / 2) * E + e] / 4;
                    if (p[j] > m) m = p[j];
                }
                for (int64_t j = 0; j < T; j++)
                    if (in_domain(windowed, i, j, S, T)) l += p[j] = exp(p[j] - m);
                lse[(b * 2 * H + h) * S + i] = m + log(l);
                for (int64_t e = 0; e < E; e++) {
                    double s = 0;
                    for (int64_t j = 0; j < T; j++)
                        if (in_domain(windowed, i, j, S, T))
                            s += p[j] / l * v[((b * T + j) * H + h / 2) * E + e];
                    o[((b * S + i) * 2 * H + h) * E + e] = s;
                }
            }
    free(p);
}

static void attend(const int64_t *z, bool windowed) {
    Case c;
    open_attention(&c, windowed, z);
    case_random(&c, "q", -1, 1);
    case_random(&c, "k", -1, 1);
    case_random(&c, "v", -1, 1);
    double *o = array(&c, case_count(&c, "o")), *lse = array(&c, case_count(&c, "lse"));
    assert_int_equal(case_eval(&c), 0);
    plain_attention(case_values(&c, "q"), case_values(&c, "k"), case_values(&c, "v"), o, lse, z,
                    windowed);
    case_expect(&c, "o", o, 1e-6);
    case_expect(&c, "lse", lse, 1e-6); /* -inf for an empty row */
    case_close(&c);
}

static void attention_is_right(void **st) { /* CASES A28, A35, A37, A39, A43 */
    (void)st;
    static const int64_t z[][5] = {{2, 5, 7, 2, 3}, {1, 5, 2, 1, 4}, {1, 1, 0, 3, 4},
                                   {1, 1, 5, 3, 2}, {2, 3, 3, 1, 1}, {1, 9, 4, 1, 48}};
    for (int k = 0; k < 6; k++) {
        attend(z[k], false);
        attend(z[k], true);
    }
}

/* Zero scores, V = 1.. by key: the averages that the reports of A35 and A37 ask for. */
static void masks_count_keys(void **st) {
    (void)st;
    static const struct {
        bool windowed;
        int64_t z[5];
        double want[6];
    } rows[] = {{false, {1, 2, 5, 1, 1}, {2.5, 3}},
                {false, {1, 5, 2, 1, 1}, {0, 0, 0, 1, 1.5}},
                {true, {1, 6, 6, 1, 1}, {1, 1.5, 2, 3, 4, 5}}};
    for (int r = 0; r < 3; r++) {
        Case c;
        open_attention(&c, rows[r].windowed, rows[r].z);
        double *q = array(&c, 64), *v = array(&c, 64), want[12];
        for (int j = 0; j < 6; j++) v[j] = j + 1;
        case_set(&c, "q", q);
        case_set(&c, "k", q);
        case_set(&c, "v", v);
        case_eval(&c);
        for (int i = 0; i < 12; i++) want[i] = rows[r].want[i / 2];
        case_expect(&c, "o", want, 0);
        case_close(&c);
    }
}

static void attention_samples_are_quick(void **st) {
    (void)st;
    Case c;
    const int64_t z[] = {1, 300 / SHRINK, 300 / SHRINK, 4, 64};
    open_attention(&c, false, z);
    case_random(&c, "q", -1, 1);
    case_random(&c, "k", -1, 1);
    case_random(&c, "v", -1, 1);
    double *o = array(&c, case_count(&c, "o")), *lse = array(&c, case_count(&c, "lse"));
    plain_attention(case_values(&c, "q"), case_values(&c, "k"), case_values(&c, "v"), o, lse, z,
                    false);
    Eval *e = eval_new(c.g, z, c.t);
    double t = case_seconds();
    for (int64_t k = 0; k < 4096; k++) {
        int64_t at = k * 7919 % case_count(&c, "o");
        const int64_t idx[] = {0, at / 64 / 8, at / 64 % 8, at % 64};
        assert_true(fabs(eval_reference(e, 3, idx).r - o[at]) < 1e-9);
    }
    print_message("4096 samples of attention: %.2f s\n", case_seconds() - t);
    eval_free(e);
    case_close(&c);
}

/* ---- structure
 * ----------------------------------------------------------------------------------- */

static void chains_need_no_stack(void **st) {
    (void)st;
    enum { DEEP = 100000 };
    Str text = {0};
    str_add(&text, "graph deep {\n  size N\n  in x: f32[N] = %0\n  %1: f32 = const 1\n");
    for (int k = 2; k < DEEP; k++)
        str_printf(&text, "  %%%d: f32[i: N] = %s %%%d[i], %%%d%s\n", k, k % 3 ? "add" : "mul",
                   k == 2 ? 0 : k - 1, k % 5000 ? 1 : k - 2, k % 5000 ? "" : "[i]");
    str_printf(&text, "  out y: f32[N] = %%%d\n}\n", DEEP - 1);
    Case c;
    const int64_t z[] = {3};
    case_open(&c, str_get(&text), z);
    case_set(&c, "x", (double[]){0, 1e-30, -1e-30});
    double y[3] = {0, 1e-30, -1e-30}, before[3];
    for (int i = 0; i < 3; i++) {
        y[i] = (double)(float)y[i];
        for (int k = 2; k < DEEP; k++) {
            double other = k % 5000 ? 1 : before[i], now = y[i];
            y[i] = k % 3 ? now + other : now * other;
            before[i] = now;
        }
    }
    case_eval(&c);
    case_expect(&c, "y", y, 1e-6);
    str_free(&text);
    case_close(&c);
}

/* n[k+1] = t[n[k]]: a walk through a table. */
static void gather_chains_need_no_stack(void **st) {
    (void)st;
    enum { STEPS = 20000, N = 7 };
    Str text = {0};
    str_add(&text, "graph walk {\n  size N\n  in t: i32[N] = %0\n  %1: i32[i: N] = copy t[i]\n");
    for (int k = 2; k <= STEPS; k++)
        str_printf(&text, "  %%%d: i32[i: N] = copy t[%%%d[i]?]\n", k, k - 1);
    str_printf(&text, "  out y: i32[N] = %%%d\n}\n", STEPS);
    Case c;
    const int64_t z[] = {N};
    case_open(&c, str_get(&text), z);
    case_set(&c, "t", (double[]){3, 0, 6, 5, 1, 2, 4});
    double *t = case_values(&c, "t"), y[N];
    for (int i = 0; i < N; i++) {
        y[i] = i;
        for (int k = 0; k < STEPS; k++) y[i] = t[(int)y[i]];
    }
    case_eval(&c);
    case_expect(&c, "y", y, 0);
    str_free(&text);
    case_close(&c);
}

/* x[k+1] = x[k] + x[k]: readers must not repeat each other's work. */
static void sharing_stays_linear(void **st) {
    (void)st;
    Str text = {0};
    str_add(&text, "graph twice {\n  size N\n  in x: f32[N] = %0\n");
    for (int k = 1; k <= 100; k++)
        str_printf(&text, "  %%%d: f32[i: N] = add %%%d[i], %%%d[N - 1 - i]\n", k, k - 1, k - 1);
    str_add(&text, "  out y: f32[N] = %100\n}\n");
    Case c;
    const int64_t z[] = {2};
    case_open(&c, str_get(&text), z);
    case_set(&c, "x", (double[]){1, 3});
    case_eval(&c);
    case_expect(&c, "y", (double[]){0x1p101, 0x1p101}, 0);
    str_free(&text);
    case_close(&c);
}

static const char unsure_text[] = "graph unsure {\n"
                                  "  size N\n"
                                  "  in x: f32[N] = %0\n"
                                  "  %1: f32[i: N] = exp x[i]\n"
                                  "  %2: f32 = const 1\n"
                                  "  %3: bool[i: N] = lt %1[i], %2\n"
                                  "  %4: bool[i: N] = lt x[i], %2\n"
                                  "  %5: i32[i: N] = cast %3[i]\n"
                                  "  %6: i32[i: N] = cast %4[i]\n"
                                  "  %7: f32[i: N] = sub %1[i], %2\n"
                                  "  %8: f32 = const 0\n"
                                  "  %9: bool[i: N] = lt %7[i], %8\n"
                                  "  %10: f32[i: N] = select %9[i], %8, %7[i]\n"
                                  "  out a: i32[N] = %5\n"
                                  "  out b: i32[N] = %6\n"
                                  "  out c: f32[N] = %10\n"
                                  "}\n";

static void unsure_elements_are_counted(void **st) {
    (void)st;
    Case c;
    const int64_t z[] = {4};
    case_open(&c, unsure_text, z);
    case_set(&c, "x", (double[]){0, 1e-7, 1, -1});
    Eval *e = eval_new(c.g, z, c.t);
    assert_int_equal(eval_output(e, 1, &c.t[1], 0), 2); /* exp(0) < 1, exp(1e-7) < 1 */
    assert_int_equal(eval_output(e, 2, &c.t[2], 0), 0); /* a loaded value is exact */
    assert_int_equal(eval_output(e, 3, &c.t[3], 0), 0); /* relu does not care */
    eval_free(e);
    case_close(&c);
}

typedef struct Shared {
    Eval *e;
    int64_t total;
    double *want;
    bool bad;
} Shared;

static void *sampler(void *arg) {
    Shared *s = arg;
    for (int64_t k = 0; k < 20000; k++) {
        int64_t at = k * 7919 % s->total;
        const int64_t idx[] = {0, at / 8, at / 4 % 2, at % 4};
        if (fabs(eval_at(s->e, NODE_O, idx).r - s->want[at]) > 1e-9) s->bad = true;
    }
    return NULL;
}

static void elements_from_many_threads(void **st) {
    (void)st;
    Case c;
    const int64_t z[] = {1, 20, 30, 1, 4};
    open_attention(&c, false, z);
    case_random(&c, "q", -1, 1);
    case_random(&c, "k", -1, 1);
    case_random(&c, "v", -1, 1);
    double *o = array(&c, case_count(&c, "o")), *lse = array(&c, case_count(&c, "lse"));
    plain_attention(case_values(&c, "q"), case_values(&c, "k"), case_values(&c, "v"), o, lse, z,
                    false);
    Shared s = {eval_new(c.g, z, c.t), case_count(&c, "o"), o, false};
    pthread_t id[4];
    for (int i = 0; i < 4; i++) pthread_create(&id[i], NULL, sampler, &s);
    for (int i = 0; i < 4; i++) pthread_join(id[i], NULL);
    assert_false(s.bad);
    eval_free(s.e);
    case_close(&c);
}

/* ---- reads and products
 * --------------------------------------------------------------------------
 */

static void same_value(EvalVal got, EvalVal want) {
    assert_true(isnan(want.r) ? isnan(got.r)
                              : got.r == want.r && !signbit(got.r) == !signbit(want.r));
    assert_int_equal(got.unsure, want.unsure);
    assert_int_equal(got.exact, want.exact);
}

/* What the machine does without a call is what the ops' functions do, for every pattern of bits. */
static void squares_of(const char *type, int bytes) {
    enum { N = 1 << 16 };
    const int64_t sizes[] = {N};
    Case c;
    Str text = {0};
    str_printf(&text, "graph g {\n  size N\n  in x: %s[N] = %%0\n", type);
    str_add(&text, "  %1: f32[i: N] = mul x[i], x[i]\n  out y: f32[N] = %1\n}\n");
    case_open(&c, str_get(&text), sizes);
    for (uint32_t k = 0; k < N; k++) { /* of f32: the upper half */
        unsigned char *p = (unsigned char *)c.t[0].data + (size_t)bytes * k;
        uint32_t bits = bytes == 4 ? k << 16 : k;
        memcpy(p, &bits, (size_t)bytes);
    }
    Eval *e = eval_new(c.g, sizes, c.t);
    DType t = c.t[0].type;
    for (int64_t k = 0; k < N; k++) {
        EvalVal x = eval_load(t, c.t[0].data, k), in[2] = {x, x};
        same_value(eval_at(e, 0, &k), x);
        same_value(eval_at(e, 1, &k), eval_op(OP_mul, DT_f32, DT_f32, in));
    }
    eval_free(e);
    case_close(&c);
    str_free(&text);
}

static void squares_are_products(void **st) {
    (void)st;
    squares_of("f32", 4);
    squares_of("f16", 2);
    squares_of("bf16", 2);
    squares_of("e4m3", 1);
    squares_of("e5m2", 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(linear_gelu_is_right),       cmocka_unit_test(attention_is_right),
        cmocka_unit_test(masks_count_keys),           cmocka_unit_test(attention_samples_are_quick),
        cmocka_unit_test(chains_need_no_stack),       cmocka_unit_test(gather_chains_need_no_stack),
        cmocka_unit_test(sharing_stays_linear),       cmocka_unit_test(unsure_elements_are_counted),
        cmocka_unit_test(elements_from_many_threads), cmocka_unit_test(squares_are_products),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
