/* eval_rules_test.c - the rules of the language in the graph evaluator, against plain loops. Over
 * 500 lines: small cases, each whole in one place.
 */
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "case.h"

static double *array(Case *c, int64_t n) {
    return ARENA_ARRAY(&c->arena, double, n + 1);
}

/* ---- rule 4: what is outside of a domain
 * --------------------------------------------------------- */

static const char softmax[] =
    "graph softmax {\n"
    "  size N\n"
    "  in x: f32[N] = %0\n"
    "  in len: i32 = %1\n"
    "  in v: f32[N] = %2\n"
    "  in ok: bool[N] = %3\n"
    "  %4: i64[j: N] = index j\n"
    "  %5: bool[j: N] = lt %4[j], len\n"
    "  %6: f32[; j: N] = max x[j] where %5[j]\n"
    "  %7: f32[j: N] = sub x[j], %6\n"
    "  %8: f32[j: N] = exp %7[j]\n"
    "  %9: f32[; j: N] = sum %8[j] where %5[j]\n"
    "  %10: f32[j: N] = div %8[j], %9\n"
    "  %11: f32[j: N] = within %5[j], %10[j]\n"
    "  %12: f32[j: N] = mul %11[j], v[j]\n" /* 0 * NaN is 0 outside */
    "  %13: f32[j: N] = div %11[j], v[j]\n" /* 0 / 0 too */
    "  %14: f32[; j: N] = contract %11[j], v[j]\n"
    "  %15: bf16[j: N] = cast %11[j]\n"
    "  %16: f32[j: N] = neg %15[j]\n"
    "  %17: f32 = const 0\n"
    "  %18: f32[j: N] = select ok[j], %16[j], %17\n" /* zero outside, whatever ok says */
    "  %19: f32[j: N] = mul v[j], %18[j]\n"
    "  %20: f32[; j: N] = sum %19[j]\n"
    "  %21: f32 = const 1\n"
    "  %22: f32[j: N] = select ok[j], %11[j], %21\n" /* not zero outside */
    "  %23: f32[j: N] = mul %22[j], v[j]\n"
    "  out p: f32[N] = %11\n"
    "  out y: f32[N] = %12\n"
    "  out d: f32[N] = %13\n"
    "  out o: f32 = %14\n"
    "  out s: f32 = %20\n"
    "  out n: f32[N] = %23\n"
    "}\n";

static void nothing_outside_is_seen(void **st) {
    (void)st;
    Case c;
    const int64_t z[] = {5};
    case_open(&c, softmax, z);
    const double inf = (double)INFINITY, nan = (double)NAN;
    case_set(&c, "x", (double[]){1, 1, nan, inf, nan});
    case_set(&c, "v", (double[]){3, 5, nan, 0, inf});
    case_set(&c, "ok", (double[]){1, 1, 0, 1, 0});
    case_set(&c, "len", (double[]){2});
    case_eval(&c);
    case_expect(&c, "p", (double[]){0.5, 0.5, 0, 0, 0}, 0);
    case_expect(&c, "y", (double[]){1.5, 2.5, 0, 0, 0}, 0);
    case_expect(&c, "d", (double[]){0.5 / 3, 0.1, 0, 0, 0}, 1e-7);
    case_expect(&c, "o", (double[]){4}, 0);
    case_expect(&c, "s", (double[]){-4}, 0);
    case_expect(&c, "n", (double[]){1.5, 2.5, nan, 0, inf}, 0);
    case_set(&c, "len", (double[]){0}); /* an empty domain */
    case_eval(&c);
    case_expect(&c, "p", (double[]){0, 0, 0, 0, 0}, 0);
    case_expect(&c, "o", (double[]){0}, 0);
    case_set(&c, "x", (double[]){-inf, -inf, 0, 0, 0}); /* a row of -inf values is NaN */
    case_set(&c, "len", (double[]){2});
    case_eval(&c);
    case_expect(&c, "p", (double[]){nan, nan, 0, 0, 0}, 0);
    case_set(&c, "x", (double[]){inf, 1, nan, 0, 0}); /* A34 */
    case_eval(&c);
    case_expect(&c, "p", (double[]){nan, nan, 0, 0, 0}, 0);
    case_set(&c, "x", (double[]){-65536, -65536, 0, 0, 0}); /* A29 */
    case_eval(&c);
    case_expect(&c, "p", (double[]){0.5, 0.5, 0, 0, 0}, 0);
    case_close(&c);
}

static void one_finite_among_minus_inf(void **st) { /* A31 */
    (void)st;
    static const int64_t where[] = {0, 50000, 99999};
    for (int k = 0; k < 3; k++) {
        Case c;
        const int64_t z[] = {100000};
        case_open(&c, softmax, z);
        double *x = array(&c, z[0]), *ones = array(&c, z[0]), *want = array(&c, z[0]);
        for (int64_t j = 0; j < z[0]; j++) x[j] = -(double)INFINITY, ones[j] = 1;
        x[where[k]] = 10;
        want[where[k]] = 1;
        case_set(&c, "x", x);
        case_set(&c, "v", ones);
        case_set(&c, "ok", ones);
        case_set(&c, "len", (double[]){100000});
        case_eval(&c);
        case_expect(&c, "p", want, 0);
        case_expect(&c, "o", (double[]){1}, 0);
        case_close(&c);
    }
}

/* More points than a memo has slots: they are computed again. */
static void caches_are_bounded(void **st) {
    (void)st;
    Case c;
    enum { N = (1 << 20) + 4000 };
    const int64_t z[] = {N};
    case_open(&c, softmax, z);
    double *x = array(&c, N), *want = array(&c, N), sum = 0;
    for (int j = 0; j < N; j++) x[j] = j % 7;
    case_set(&c, "x", x);
    case_set(&c, "v", x);
    case_set(&c, "ok", x);
    case_set(&c, "len", (double[]){N});
    for (int j = 0; j < N; j++) sum += exp(x[j] - 6);
    for (int j = 0; j < N; j++) want[j] = (double)(float)(exp(x[j] - 6) / sum);
    Eval *e = eval_new(c.g, z, c.t);
    eval_output(e, 4, &c.t[4], 0);
    eval_free(e);
    case_expect(&c, "p", want, 1e-12);
    case_close(&c);
}

/* ---- norms, quantisation, gathers
 * ------------------------------------------------------------------ */

static const char layernorm_fp8[] = "graph layernorm_fp8 {\n"
                                    "  size M, K\n"
                                    "  in x: f16[M, K] = %0\n"
                                    "  %1: f32[m: M; k: K] = sum x[m, k]\n"
                                    "  %2: i64 = index K\n"
                                    "  %3: f32[m: M] = div %1[m], %2\n"
                                    "  %4: f32[m: M, k: K] = sub x[m, k], %3[m]\n"
                                    "  %5: f32[m: M; k: K] = contract %4[m, k], %4[m, k]\n"
                                    "  %6: f32[m: M] = div %5[m], %2\n"
                                    "  %7: f32 = const 1e-05\n"
                                    "  %8: f32[m: M] = add %6[m], %7\n"
                                    "  %9: f32[m: M] = rsqrt %8[m]\n"
                                    "  %10: f32[m: M, k: K] = mul %4[m, k], %9[m]\n"
                                    "  %11: f32[m: M, k: K] = abs %10[m, k]\n"
                                    "  %12: f32[m: M; k: K] = max %11[m, k]\n"
                                    "  %13: f32 = const 448\n"
                                    "  %14: f32[m: M] = div %12[m], %13\n"
                                    "  %15: f32[m: M, k: K] = div %10[m, k], %14[m]\n"
                                    "  %16: e4m3[m: M, k: K] = cast %15[m, k]\n"
                                    "  out q: e4m3[M, K] = %16\n"
                                    "  out scale: f32[M] = %14\n"
                                    "}\n";

/* Nearest e4m3 by spacing: 2^(e-3), and 2^-9 below 2^-6. */
static double to_e4m3(double v) {
    double step = fabs(v) < 0x1p-6 ? 0x1p-9 : exp2(floor(log2(fabs(v))) - 3);
    double r = rint(v / step) * step;
    return r > 448 ? 448 : r < -448 ? -448 : r;
}

static void layernorm_to_fp8(void **st) {
    (void)st;
    Case c;
    enum { M = 5, K = 37 };
    const int64_t z[] = {M, K};
    case_open(&c, layernorm_fp8, z);
    case_random(&c, "x", -3, 5);
    double *x = case_values(&c, "x"), want[M * K], scale[M];
    case_eval(&c);
    for (int m = 0; m < M; m++) {
        double mean = 0, var = 0, most = 0;
        for (int k = 0; k < K; k++) mean += x[m * K + k] / (double)K;
        for (int k = 0; k < K; k++) var += pow(x[m * K + k] - mean, 2) / (double)K;
        for (int k = 0; k < K; k++)
            most = fmax(most, fabs((x[m * K + k] - mean) / sqrt(var + 1e-5)));
        scale[m] = most / 448;
        for (int k = 0; k < K; k++)
            want[m * K + k] = to_e4m3((x[m * K + k] - mean) / sqrt(var + 1e-5) / scale[m]);
    }
    case_expect(&c, "q", want, 1e-9);
    case_expect(&c, "scale", scale, 1e-7);
    Eval *e = eval_new(c.g, z, c.t); /* the reference is not rounded to e4m3 */
    int64_t at[] = {0, 0}, off = 0;
    for (at[1] = 0; at[1] < K; at[1]++) {
        double r = eval_reference(e, 1, at).r;
        assert_true(fabs(r - want[at[1]]) <= fabs(r) * 0x1p-4 + 0x1p-10);
        off += r != want[at[1]];
    }
    assert_true(off > K / 2);
    eval_free(e);
    case_close(&c);
}

/* A quotient half way between two bf16 goes to the even one, to the larger or to the smaller; an
 * input that lies there is no matter of doubt. */
static const char beside_tie[] = "graph g {\n  size N\n  in x: f32[N] = %0\n  in w: f32[N] = %1\n"
                                 "  %2: f32[n: N] = div x[n], w[n]\n"
                                 "  %3: bf16[n: N] = cast %2[n]\n  %4: bf16[n: N] = cast x[n]\n"
                                 "  %5: f32[; n: N] = sum %3[n]\n  %6: f32[; n: N] = sum %4[n]\n"
                                 "  out s: f32 = %5\n  out t: f32 = %6\n}\n";

static void leaning(void **st) {
    (void)st;
    Case c;
    const int64_t z[] = {2}, at[1] = {0};
    case_open(&c, beside_tie, z);
    double *x = case_values(&c, "x"), *w = case_values(&c, "w"), tie = 1 + 0x1p-8, step = 0x1p-7;
    x[0] = tie, x[1] = -3, w[0] = 1, w[1] = 1;
    case_set(&c, "x", x);
    case_set(&c, "w", w);
    for (int direction = -1; direction <= 1; direction++) {
        Eval *e = eval_new(c.g, z, c.t);
        eval_lean(e, direction * 0x1p-16);
        double up = direction > 0 ? step : 0;
        assert_true(eval_reference(e, 2, at).r == 1 + up - 3);
        assert_true(eval_reference(e, 3, at).r == 1.0 - 3);
        eval_free(e);
    }
    case_close(&c);
}

static const char int4_linear[] = "graph int4_linear {\n"
                                  "  size M, K, N\n"
                                  "  in x: bf16[M, K] = %0\n"
                                  "  in qw: u4[N, K] = %1\n"
                                  "  in zero: i4[N, (K + 3)/4] = %2\n"
                                  "  in scale: f16[N, (K + 3)/4] = %3\n"
                                  "  %4: i32[n: N, k: K] = sub qw[n, k], zero[n, k/4]\n"
                                  "  %5: f32[n: N, k: K] = mul %4[n, k], scale[n, k/4]\n"
                                  "  %6 wt: bf16[n: N, k: K] = cast %5[n, k]\n"
                                  "  %7: f32[m: M, n: N; k: K] = contract x[m, k], %6[n, k]\n"
                                  "  %8: u4[n: N, k: K] = cast %5[n, k]\n"
                                  "  out y: f32[M, N] = %7\n"
                                  "  out r: u4[N, K] = %8\n"
                                  "}\n";

static double to_bf16(double v) {
    if (v == 0) return 0;
    double step = exp2(floor(log2(fabs(v))) - 7);
    return rint(v / step) * step;
}

static void int4_weights(void **st) {
    (void)st;
    Case c;
    enum { M = 3, K = 11, N = 5, G = (K + 3) / 4 };
    const int64_t z[] = {M, K, N};
    case_open(&c, int4_linear, z);
    case_random(&c, "x", -1, 1);
    case_random(&c, "qw", 0, 15);
    case_random(&c, "zero", -8, 7);
    case_random(&c, "scale", 0.1, 0.9);
    double *x = case_values(&c, "x"), *q = case_values(&c, "qw"), *o = case_values(&c, "zero");
    double *s = case_values(&c, "scale"), y[M * N] = {0}, r[N * K];
    case_eval(&c);
    for (int n = 0; n < N; n++)
        for (int k = 0; k < K; k++) {
            double w = (q[n * K + k] - o[n * G + k / 4]) * s[n * G + k / 4];
            for (int m = 0; m < M; m++) y[m * N + n] += x[m * K + k] * to_bf16(w);
            r[n * K + k] = fmin(15, fmax(0, rint(w)));
        }
    case_expect(&c, "y", y, 1e-6);
    case_expect(&c, "r", r, 0); /* nibbles, written by several threads */
    case_close(&c);
}

static const char gathers[] = "graph gathers {\n"
                              "  size N, V, D\n"
                              "  in idx: i32[N] = %0\n"
                              "  in hop: i32[V] = %1\n"
                              "  in table: f32[V, D] = %2\n"
                              "  %3: f32[n: N, d: D] = copy table[%0[n]?, d]\n"
                              "  %4: i32[n: N] = copy hop[%0[n]?]\n"
                              "  %5: f32[n: N, d: D] = copy table[%4[n]?, d]\n"
                              "  %6: f32[n: N] = copy table[2*%0[n] - n?, n - 1?]\n"
                              "  %7: i64[n: N] = index n\n"
                              "  %8: bool[n: N] = lt %7[n], idx[n]\n"
                              "  %9: bool[n: N] = lt idx[n], %7[n]\n"
                              "  %10: bool[n: N] = or %8[n], %9[n]\n"
                              "  %11: bool[n: N] = and %10[n], %9[n]\n"
                              "  out one: f32[N, D] = %3\n"
                              "  out two: f32[N, D] = %5\n"
                              "  out edge: f32[N] = %6\n"
                              "  out both: bool[N] = %11\n"
                              "}\n";

static void gathers_outside_are_zero(void **st) {
    (void)st;
    Case c;
    enum { N = 6, V = 4, D = 3 };
    const int64_t z[] = {N, V, D};
    case_open(&c, gathers, z);
    static const double idx[N] = {0, 3, -1, 4, 2000000000, 1}, hop[V] = {2, -5, 0, 3};
    case_set(&c, "idx", idx);
    case_set(&c, "hop", hop);
    case_random(&c, "table", -1, 1);
    double *t = case_values(&c, "table"), one[N * D], two[N * D], edge[N], both[N];
    case_eval(&c);
    for (int n = 0; n < N; n++) {
        int i = idx[n] >= 0 && idx[n] < (double)V ? (int)idx[n] : -1;
        int h = i < 0 ? 0 : (int)hop[i]; /* an index read from outside is 0 */
        for (int d = 0; d < D; d++) {
            one[n * D + d] = i < 0 ? 0 : t[i * D + d];
            two[n * D + d] = h < 0 || h >= V ? 0 : t[h * D + d];
        }
        double row = 2 * idx[n] - n;
        edge[n] = row < 0 || row >= (double)V || n < 1 || n - 1 >= D ? 0 : t[(int)row * D + n - 1];
        both[n] = idx[n] < n;
    }
    case_expect(&c, "one", one, 0);
    case_expect(&c, "two", two, 0);
    case_expect(&c, "edge", edge, 0);
    case_expect(&c, "both", both, 0);
    case_close(&c);
}

static const char scans[] = "graph scans {\n"
                            "  size N\n"
                            "  in x: f32[N] = %0\n"
                            "  in a: i32[N] = %1\n"
                            "  %2: i64[t: N, u: N] = index t - u\n"
                            "  %3: i64 = const 0\n"
                            "  %4: bool[t: N, u: N] = ge %2[t, u], %3\n"
                            "  %5: f32[t: N; u: N] = sum x[u] where %4[t, u]\n"
                            "  %6: i32[t: N; u: N] = prod a[u] where %4[t, u]\n"
                            "  %7: bool[t: N, u: N] = gt %2[t, u], %3\n"
                            "  %8: i32[t: N; u: N] = max a[u] where %7[t, u]\n"
                            "  %9: f32[t: N; u: N] = min x[u] where %7[t, u]\n"
                            "  %10: f32[t: N] = copy x[t - 1?]\n"
                            "  %11: f32[t: N; u: 3, w: 2] = sum x[t + u - w?]\n"
                            "  out s: f32[N] = %5\n"
                            "  out p: i32[N] = %6\n"
                            "  out m: i32[N] = %8\n"
                            "  out least: f32[N] = %9\n"
                            "  out back: f32[N] = %10\n"
                            "  out conv: f32[N] = %11\n"
                            "}\n";

static void prefix_reductions(void **st) {
    (void)st;
    Case c;
    enum { N = 40 };
    const int64_t z[] = {N};
    case_open(&c, scans, z);
    case_random(&c, "x", -1, 1);
    case_random(&c, "a", -9, 9);
    double *x = case_values(&c, "x"), *a = case_values(&c, "a");
    double s[N], p[N], m[N], least[N], back[N], conv[N] = {0}, run = 0;
    uint32_t prod = 1;
    double most = INT32_MIN, low = (double)INFINITY;
    for (int t = 0; t < N; t++) {
        s[t] = run += x[t];
        prod *= (uint32_t)(int32_t)a[t];
        p[t] = (int32_t)prod;
        m[t] = most, least[t] = low;
        most = fmax(most, a[t]), low = fmin(low, x[t]);
        back[t] = t ? x[t - 1] : 0;
        for (int u = 0; u < 3; u++)
            for (int w = 0; w < 2; w++)
                if (t + u - w >= 0 && t + u - w < N) conv[t] += x[t + u - w];
    }
    case_eval(&c);
    case_expect(&c, "s", s, 1e-6);
    case_expect(&c, "p", p, 0);
    case_expect(&c, "m", m, 0); /* the smallest integer for the empty prefix */
    case_expect(&c, "least", least, 0);
    case_expect(&c, "back", back, 0);
    case_expect(&c, "conv", conv, 1e-6);
    case_close(&c);
}

static const char dropout[] = "graph dropout {\n"
                              "  size M, N\n"
                              "  in x: f32[M, N] = %0\n"
                              "  in keep: f32 = %1\n"
                              "  in seed: i64 = %2\n"
                              "  %3: i64 = const 0\n"
                              "  %4: i64[m: M] = index m\n"
                              "  %5: i64[n: N] = index n\n"
                              "  %6: f32[m: M, n: N] = rand seed, %3, %3, %4[m], %5[n]\n"
                              "  %7: bool[m: M, n: N] = lt %6[m, n], keep\n"
                              "  %8: f32[m: M, n: N] = div x[m, n], keep\n"
                              "  %9: f32 = const 0\n"
                              "  %10: f32[m: M, n: N] = select %7[m, n], %8[m, n], %9\n"
                              "  out y: f32[M, N] = %10\n"
                              "  out u: f32[M, N] = %6\n"
                              "}\n";

static void dropout_is_keyed_by_index(void **st) { /* A59, A60, rule 12 */
    (void)st;
    Case c;
    enum { M = 9, N = 13 };
    const int64_t z[] = {M, N};
    case_open(&c, dropout, z);
    case_random(&c, "x", 1, 2);
    double *x = case_values(&c, "x"), want[M * N], u[M * N];
    const uint64_t seed = 81985529216486895u;
    for (int round = 0; round < 3; round++) {
        double keep = round * 0.5;
        int64_t unsure;
        dtype_store(DT_i64, c.t[2].data, 0, 0, (int64_t)seed);
        dtype_store(DT_f32, c.t[1].data, 0, keep, 0);
        unsure = case_eval(&c);
        assert_int_equal(unsure, 0);
        for (int m = 0; m < M; m++)
            for (int n = 0; n < N; n++) {
                uint32_t ctr[4] = {(uint32_t)n / 4, (uint32_t)m, 0, 0};
                eval_philox(ctr, (uint32_t)seed, (uint32_t)(seed >> 32));
                u[m * N + n] = (double)(ctr[n % 4] >> 8) / 16777216;
                want[m * N + n] = u[m * N + n] < keep ? x[m * N + n] / keep : 0;
            }
        case_expect(&c, "u", u, 0);
        case_expect(&c, "y", want, 1e-6); /* keep 0: all 0; keep 1: the identity */
    }
    case_close(&c);
}

/* ---- epilogues --------------------------------------------------------------------------- */

static const char epilogues[] = "graph epilogues {\n"
                                "  size M, K, N\n"
                                "  in a: f16[M, K] = %0\n"
                                "  in b: f16[K, N] = %1\n"
                                "  in r: f16[M] = %2\n"
                                "  in c: f16[N] = %3\n"
                                "  %4: f32[m: M, n: N; k: K] = contract a[m, k], b[k, n]\n"
                                "  %5: f32 = const 0.5\n"
                                "  %6: f32[m: M, n: N] = mul %4[m, n], %5\n"
                                "  %7: f16[m: M, n: N] = cast %6[m, n]\n"
                                "  %8: f32 = const 100\n"
                                "  %9: f32[m: M, n: N] = min %4[m, n], %8\n"
                                "  %10: f32[m: M, n: N] = sub %4[m, n], r[m]\n"
                                "  %11: f32[m: M, n: N] = add %10[m, n], c[n]\n"
                                "  %12: f32[m: M, n: N] = sqrt %4[m, n]\n"
                                "  %13: f32[n: N, m: M] = copy %4[m, n]\n"
                                "  %14: bf16[m: M, n: N] = cast %4[m, n]\n"
                                "  %15: f32[m: M, n: N] = sub %14[m, n], r[m]\n"
                                "  out half: f16[M, N] = %7\n"
                                "  out least: f32[M, N] = %9\n"
                                "  out vecs: f32[M, N] = %11\n"
                                "  out root: f32[M, N] = %12\n"
                                "  out tr: f32[N, M] = %13\n"
                                "  out early: f32[M, N] = %15\n"
                                "}\n";

static void epilogues_are_f32(void **st) { /* A04, A45, A46, A47, A49, A51 */
    (void)st;
    Case c;
    const int64_t z[] = {1, 2, 1};
    case_open(&c, epilogues, z);
    case_set(&c, "a", (double[]){1, 1});
    case_set(&c, "b", (double[]){35008, 35008});
    case_set(&c, "r", (double[]){0});
    case_set(&c, "c", (double[]){0});
    case_eval(&c);
    case_expect(&c, "half", (double[]){35008}, 0); /* 70016 was no f16 on the way */
    case_expect(&c, "least", (double[]){100}, 0);
    case_set(&c, "b", (double[]){256, 1});
    case_set(&c, "r", (double[]){256});
    case_eval(&c);
    case_expect(&c, "vecs", (double[]){1}, 0);
    case_expect(&c, "early", (double[]){0}, 0); /* rounded to bf16 where the text says so */
    case_close(&c);
    const int64_t shape[] = {8, 1, 5};
    case_open(&c, epilogues, shape);
    case_random(&c, "a", 0, 4);
    case_random(&c, "b", 0, 4);
    case_random(&c, "r", -4, 4);
    case_random(&c, "c", -4, 4);
    double *a = case_values(&c, "a"), *b = case_values(&c, "b"), *r = case_values(&c, "r");
    double *v = case_values(&c, "c"), vecs[40], root[40], tr[40];
    for (int m = 0; m < 8; m++)
        for (int n = 0; n < 5; n++) {
            vecs[m * 5 + n] = a[m] * b[n] - r[m] + v[n];
            root[m * 5 + n] = sqrt(a[m] * b[n]);
            tr[n * 8 + m] = a[m] * b[n];
        }
    case_eval(&c);
    case_expect(&c, "vecs", vecs, 1e-6);
    case_expect(&c, "root", root, 1e-6);
    case_expect(&c, "tr", tr, 1e-6);
    case_close(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_outside_is_seen),
        cmocka_unit_test(one_finite_among_minus_inf),
        cmocka_unit_test(caches_are_bounded),
        cmocka_unit_test(layernorm_to_fp8),
        cmocka_unit_test(leaning),
        cmocka_unit_test(int4_weights),
        cmocka_unit_test(gathers_outside_are_zero),
        cmocka_unit_test(prefix_reductions),
        cmocka_unit_test(dropout_is_keyed_by_index),
        cmocka_unit_test(epilogues_are_f32),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
