/* eval_tile_test.c - tile programs written by hand against plain loops: matrix products in several
 * steps, online softmax attention with moving frames, and what the evaluator must refuse.
 */
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "case.h"

typedef struct Hand { /* a plan around hand-made tile texts */
    Case c;
    Plan plan;
} Hand;

static void hand_open(Hand *h, const char *graph, const int64_t *sizes) {
    memset(h, 0, sizeof *h);
    case_open(&h->c, graph, sizes);
    h->plan.graph = h->c.g;
}

static void hand_step(Hand *h, const char *text) {
    Arena *a = &h->c.arena;
    Step s = {.name = "hand"};
    s.tile = tile_parse(a, source_new(a, "hand", text, strlen(text)), &h->c.diags);
    if (!s.tile) fail_msg("%s\n%s", h->c.diags.list.v[0].text, text);
    Str why = {0};
    if (!tile_verify(s.tile, &why)) fail_msg("%s", str_get(&why));
    vec_push(a, &h->plan.steps, s);
}

static void hand_temp(Hand *h, DType type, const Ix *dim) {
    Arena *a = &h->c.arena;
    Temp t = {.name = "t", .type = type, .rank = 1, .dims = ARENA_ARRAY(a, const Ix *, 1)};
    t.dims[0] = dim;
    vec_push(a, &h->plan.temps, t);
}

static void hand_run(Hand *h, int split) {
    Str why = {0};
    if (!eval_plan(&h->plan, h->c.sizes, h->c.t, split, &why)) fail_msg("%s", str_get(&why));
}

/* ---- two steps
 * ----------------------------------------------------------------------------------- */

static const char scaled_graph[] = "graph scaled {\n"
                                   "  size M, K\n"
                                   "  in x: bf16[M, K] = %0\n"
                                   "  %1: f32[m: M; k: K] = sum x[m, k]\n"
                                   "  %2: f32[m: M, k: K] = mul x[m, k], %1[m]\n"
                                   "  %3: u4[m: M, k: K] = cast %2[m, k]\n"
                                   "  out y: u4[M, K] = %3\n"
                                   "  out s: f32[M] = %1\n"
                                   "}\n";
static const char scaled_sum[] = "tile sum {\n"
                                 "  size M, K\n"
                                 "  in x: bf16[M, K] = 0\n"
                                 "  temp t: f32[M] = 0\n"
                                 "  out s: f32[M] = 2\n"
                                 "  grid m: M\n"
                                 "  axis k: K\n"
                                 "  loop k from 0 to K {\n"
                                 "    carry %0: f32 = sum\n"
                                 "    %1: bf16 = load x[m, k]\n"
                                 "    step %0, %1\n"
                                 "  }\n"
                                 "  store t[m], %0\n"
                                 "  store s[m], %0\n"
                                 "}\n";
static const char scaled_apply[] = "tile apply {\n"
                                   "  size M, K\n"
                                   "  in x: bf16[M, K] = 0\n"
                                   "  temp t: f32[M] = 0\n"
                                   "  out y: u4[M, K] = 1\n"
                                   "  grid m: M\n"
                                   "  grid k: K\n"
                                   "  %0: bf16 = load x[m, k]\n"
                                   "  %1: f32 = load t[m]\n"
                                   "  %2: f32 = mul %0, %1\n"
                                   "  %3: u4 = cast %2\n"
                                   "  store y[m, k], %3\n"
                                   "}\n";

static void steps_pass_temporaries(void **st) {
    (void)st;
    static const int64_t z[][2] = {{5, 7}, {1, 1}, {3, 0}, {0, 3}};
    for (int n = 0; n < 4; n++)
        for (int split = 1; split <= 4; split++) {
            Hand h;
            int64_t M = z[n][0], K = z[n][1];
            hand_open(&h, scaled_graph, z[n]);
            hand_temp(&h, DT_f32, ix_size(h.c.g->ix, 0));
            hand_step(&h, scaled_sum);
            hand_step(&h, scaled_apply);
            case_random(&h.c, "x", -1, 3);
            double *x = case_values(&h.c, "x");
            double *y = ARENA_ARRAY(&h.c.arena, double, M *K + 1);
            double *s = ARENA_ARRAY(&h.c.arena, double, M + 1);
            hand_run(&h, split);
            for (int64_t m = 0; m < M; m++) {
                for (int64_t k = 0; k < K; k++) s[m] += x[m * K + k];
                for (int64_t k = 0; k < K; k++)
                    y[m * K + k] = fmin(15, fmax(0, rint(x[m * K + k] * s[m])));
            }
            case_expect(&h.c, "s", s, 1e-7);
            case_expect(&h.c, "y", y, 0);
            case_close(&h.c);
        }
}

/* ---- attention with a moving frame
 * ----------------------------------------------------------------- */

static const char attention_graph[] = "graph attention {\n"
                                      "  size S, T, E\n"
                                      "  in q: bf16[S, E] = %0\n"
                                      "  in k: bf16[T, E] = %1\n"
                                      "  in v: f32[T, E] = %2\n"
                                      "  %3: f32[i: S, j: T; e: E] = contract q[i, e], k[j, e]\n"
                                      "  %4: i64[j: T] = index j\n"
                                      "  %5: i64[i: S] = index i + T - S\n"
                                      "  %6: bool[i: S, j: T] = le %4[j], %5[i]\n"
                                      "  %7: f32[i: S; j: T] = max %3[i, j] where %6[i, j]\n"
                                      "  %8: f32[i: S, j: T] = sub %3[i, j], %7[i]\n"
                                      "  %9: f32[i: S, j: T] = exp %8[i, j]\n"
                                      "  %10: f32[i: S; j: T] = sum %9[i, j] where %6[i, j]\n"
                                      "  %11: f32[i: S, j: T] = div %9[i, j], %10[i]\n"
                                      "  %12: f32[i: S, j: T] = within %6[i, j], %11[i, j]\n"
                                      "  %13: f32[i: S, e: E; j: T] = contract %12[i, j], v[j, e]\n"
                                      "  %14: f32[i: S] = log %10[i]\n"
                                      "  %15: f32[i: S] = add %7[i], %14[i]\n"
                                      "  out o: f32[S, E] = %13\n"
                                      "  out lse: f32[S] = %15\n"
                                      "}\n";

/* %d: the tile of j; %s: lag and bound. The row's empty case divides 0 by 1. */
static const char attention_tile[] =
    "tile online {\n"
    "  size S, T, E\n"
    "  in q: bf16[S, E] = 0\n"
    "  in k: bf16[T, E] = 1\n"
    "  in v: f32[T, E] = 2\n"
    "  out o: f32[S, E] = 3\n"
    "  grid i: S\n"
    "  grid e: E\n"
    "  axis j: T tile %d\n"
    "  axis c: E\n"
    "  loop j from 0 to max(0, i + T - S + 1) {\n"
    "    carry %%0 m: f32 = max\n"
    "    carry %%1 l: f32 = sum frame %%0 rescale (old new sub exp) finish 1 %s\n"
    "    carry %%2 acc: f32 = sum frame %%0 rescale (old new sub exp) %s\n"
    "    loop c from 0 to E {\n"
    "      carry %%3 s: f32 = sum\n"
    "      %%4: bf16 = load q[i, c]\n"
    "      %%5: bf16 = load k[j, c]\n"
    "      %%6: f32 = mul %%4, %%5\n"
    "      step %%3, %%6\n"
    "    }\n"
    "    step %%0, %%3\n"
    "    %%7: f32 = sub %%3, %%0\n"
    "    %%8: f32 = exp %%7\n"
    "    step %%1, %%8\n"
    "    %%9: f32 = load v[j, e]\n"
    "    %%10: f32 = mul %%8, %%9\n"
    "    step %%2, %%10\n"
    "  }\n"
    "  %%11: f32 = div %%2, %%1\n"
    "  store o[i, e], %%11\n"
    "}\n";
static const char lse_tile[] = "tile lse {\n"
                               "  size S, T, E\n"
                               "  in q: bf16[S, E] = 0\n"
                               "  in k: bf16[T, E] = 1\n"
                               "  out lse: f32[S] = 4\n"
                               "  grid i: S\n"
                               "  axis j: T tile %d\n"
                               "  axis c: E\n"
                               "  loop j from 0 to max(0, i + T - S + 1) {\n"
                               "    carry %%0 m: f32 = max\n"
                               "    carry %%1 l: f32 = sum frame %%0 rescale (old new sub exp) %s\n"
                               "    loop c from 0 to E {\n"
                               "      carry %%3 s: f32 = sum\n"
                               "      %%4: bf16 = load q[i, c]\n"
                               "      %%5: bf16 = load k[j, c]\n"
                               "      %%6: f32 = mul %%4, %%5\n"
                               "      step %%3, %%6\n"
                               "    }\n"
                               "    step %%0, %%3\n"
                               "    %%7: f32 = sub %%3, %%0\n"
                               "    %%8: f32 = exp %%7\n"
                               "    step %%1, %%8\n"
                               "  }\n"
                               "  %%11: f32 = log %%1\n"
                               "  %%12: f32 = add %%0, %%11\n"
                               "  store lse[i], %%12\n"
                               "}\n";

static void plain_attention(Hand *h, double *o, double *lse) {
    int64_t S = h->c.sizes[0], T = h->c.sizes[1], E = h->c.sizes[2];
    const double *q = case_values(&h->c, "q"), *k = case_values(&h->c, "k");
    const double *v = case_values(&h->c, "v");
    double *p = ARENA_ARRAY(&h->c.arena, double, T + 1);
    for (int64_t i = 0; i < S; i++) {
        int64_t n = i + T - S + 1;
        double m = -(double)INFINITY, l = 0;
        for (int64_t j = 0; j < n; j++) {
            p[j] = 0;
            for (int64_t e = 0; e < E; e++) p[j] += q[i * E + e] * k[j * E + e];
            m = isnan(p[j]) || isnan(m) ? (double)NAN : fmax(m, p[j]);
        }
        for (int64_t j = 0; j < n; j++) l += p[j] = exp(p[j] - m);
        lse[i] = m + log(l);
        for (int64_t e = 0; e < E; e++) {
            double s = 0;
            for (int64_t j = 0; j < n; j++) s += p[j] / l * v[j * E + e];
            o[i * E + e] = s;
        }
    }
}

/* All blocks, lags and splits give what the plain loops give. */
static void every_way(Hand *h) {
    static const char *const lags[] = {"", "lag 1 bound 8", "lag 1 bound 0.001"};
    double *o = ARENA_ARRAY(&h->c.arena, double, case_count(&h->c, "o") + 1);
    double *lse = ARENA_ARRAY(&h->c.arena, double, case_count(&h->c, "lse") + 1);
    plain_attention(h, o, lse);
    case_eval(&h->c);
    case_expect(&h->c, "o", o, 1e-6);
    case_expect(&h->c, "lse", lse, 1e-6);
    for (int tile = 1; tile <= 9; tile += 4)
        for (int lag = 0; lag < 3; lag++) {
            char text[4000];
            h->plan.steps.n = 0;
            snprintf(text, sizeof text, attention_tile, tile, lags[lag], lags[lag]);
            hand_step(h, text);
            snprintf(text, sizeof text, lse_tile, tile, lags[lag]);
            hand_step(h, text);
            for (int split = 1; split <= 3; split++) {
                for (int k = 3; k < 5; k++)
                    if (case_count(&h->c, h->c.g->params.v[k].name))
                        memset(h->c.t[k].data, 0xFF, 4); /* the first element starts as NaN */
                hand_run(h, split);
                case_expect(&h->c, "o", o, 1e-6);
                case_expect(&h->c, "lse", lse, 1e-6);
            }
        }
}

static void online_softmax_is_softmax(void **st) {
    (void)st;
    static const int64_t z[][3] = {{4, 9, 3}, {5, 2, 2}, {1, 1, 1},
                                   {3, 0, 2}, {7, 7, 4}, {1, 40, 2}};
    for (int n = 0; n < 6; n++) {
        Hand h;
        hand_open(&h, attention_graph, z[n]);
        case_random(&h.c, "q", -3, 3);
        case_random(&h.c, "k", -3, 3);
        case_random(&h.c, "v", -1, 1);
        every_way(&h);
        case_close(&h.c);
    }
}

/* Scores that grow, fall, start with -inf, hold +inf or NaN: E = 1, q = 1, so that k is the score.
 */
static void frames_meet_infinities(void **st) { /* A29, A31, A34, A91 */
    (void)st;
    const double inf = (double)INFINITY, nan = (double)NAN;
    const double rows[][10] = {
        {-inf, -inf, -inf, -inf, -inf, -inf, 10, -inf, -inf, -inf},
        {10, -inf, -inf, -inf, -inf, -inf, -inf, -inf, -inf, -inf},
        {-inf, -inf, -inf, -inf, -inf, -inf, -inf, -inf, -inf, -inf},
        {-65536, -65536, -65536, -65536, -65536, -65536, -65536, -65536, -65536, -65536},
        {1000, 992, 1008, 1016, 1024, 1040, 1072, 1104, 1168, 1200},
        {1200, 1168, 1104, 1072, 1040, 1024, 1016, 1008, 992, 1000},
        {1, 2, 3, 4, inf, 5, 6, 7, 8, 9},
        {1, 2, 3, nan, 5, 6, 7, 8, 9, 10},
        {nan, -inf, -inf, 2, 5, 6, 7, 8, 9, 10},
        {0, 7, 14, 21, 28, 35, 42, 49, 56, 63},
    };
    for (int n = 0; n < 10; n++) {
        Hand h;
        const int64_t z[] = {1, 10, 1};
        hand_open(&h, attention_graph, z);
        case_set(&h.c, "q", (double[]){1});
        case_set(&h.c, "k", rows[n]);
        case_random(&h.c, "v", 1, 2);
        every_way(&h);
        case_close(&h.c);
    }
}

/* ---- what it refuses
 * ------------------------------------------------------------------------------- */

static void refuse(const char *from, const char *to, const char *message) {
    Hand h;
    const int64_t z[] = {3, 4};
    hand_open(&h, scaled_graph, z);
    hand_temp(&h, DT_f32, ix_size(h.c.g->ix, 0));
    case_random(&h.c, "x", -1, 1);
    Str text = {0}, why = {0};
    const char *at = strstr(scaled_sum, from);
    assert_non_null(at);
    str_addn(&text, scaled_sum, (size_t)(at - scaled_sum));
    str_add(&text, to);
    str_add(&text, at + strlen(from));
    hand_step(&h, str_get(&text));
    hand_step(&h, scaled_apply);
    if (eval_plan(&h.plan, z, h.c.t, 1, &why)) fail_msg("accepted: %s", to);
    if (!strstr(str_get(&why), message)) fail_msg("'%s' became: %s", to, str_get(&why));
    str_free(&text);
    str_free(&why);
    case_close(&h.c);
}

static void faults_are_found(void **st) {
    (void)st;
    refuse("load x[m, k]", "load x[m, k + 1]", "load of x at 4 in dimension 1");
    refuse("load x[m, k]", "load x[m - 1, k]", "load of x at -1 in dimension 0");
    refuse("to K", "to K + 1", "loop k from 0 to 5, outside of its extent 4");
    refuse("from 0", "from m - 2", "loop k from -2 to 4");
    refuse("store t[m], %0", "store t[m/2], %0", "element 0 of t is written twice");
    refuse("store t[m], %0", "store t[m + 1], %0", "store of t at 3");
    refuse("  store s[m], %0\n", "", "element 0 of s is never written");
    refuse("  store t[m], %0\n", "", "element 0 of t is read before it was written");
    refuse("temp t: f32[M]", "temp t: f32[K]", "t has 4 elements, expected 3");
    refuse("in x: bf16[M, K] = 0", "in x: bf16[M, K] = 1", "stands for nothing");
}

/* A checked load outside is 0; guards, integers, min frames. */
static const char mixed_graph[] = "graph mixed {\n"
                                  "  size N\n"
                                  "  in a: i32[N] = %0\n"
                                  "  in x: f32[N] = %1\n"
                                  "  %2: i32[n: N] = copy a[n]\n"
                                  "  %3: f32[n: N] = copy x[n]\n"
                                  "  out p: i32[N] = %2\n"
                                  "  out y: f32[N] = %3\n"
                                  "}\n";
static const char mixed_tile[] = "tile mixed {\n"
                                 "  size N\n"
                                 "  in a: i32[N] = 0\n"
                                 "  in x: f32[N] = 1\n"
                                 "  out p: i32[N] = 2\n"
                                 "  out y: f32[N] = 3\n"
                                 "  grid n: N\n"
                                 "  axis u: N tile 3\n"
                                 "  %0: i32 = load a[n]\n"
                                 "  %1: f32 = load x[%0?]\n"
                                 "  loop u from 0 to N {\n"
                                 "    carry %2: i32 = prod\n"
                                 "    carry %3 low: f32 = min\n"
                                 "    carry %4: f32 = sum frame %3 rescale (new old sub exp) lag 1 "
                                 "bound 2\n"
                                 "    %5: i32 = load a[u]\n"
                                 "    %6: i64 = index n - u\n"
                                 "    %7: i64 = const 0\n"
                                 "    %8: bool = ge %6, %7\n"
                                 "    guard %8 {\n"
                                 "      step %2, %5\n"
                                 "      step %3, %5\n"
                                 "      %9: f32 = sub %3, %5\n"
                                 "      %10: f32 = exp %9\n"
                                 "      step %4, %10\n"
                                 "    }\n"
                                 "  }\n"
                                 "  store p[n], %2\n"
                                 "  %11: f32 = log %4\n"
                                 "  %12: f32 = sub %3, %11\n"
                                 "  %13: f32 = add %12, %1\n"
                                 "  store y[n], %13\n"
                                 "}\n";

static void guards_integers_and_min_frames(void **st) {
    (void)st;
    enum { N = 11 };
    const int64_t z[] = {N};
    Hand h;
    hand_open(&h, mixed_graph, z);
    hand_step(&h, mixed_tile);
    case_random(&h.c, "a", -20, 20);
    case_random(&h.c, "x", -1, 1);
    double *a = case_values(&h.c, "a"), *x = case_values(&h.c, "x"), p[N], y[N], sum = 0;
    uint32_t prod = 1;
    for (int n = 0; n < N; n++) { /* y = -log sum exp(-a) + x[a] */
        prod *= (uint32_t)(int32_t)a[n];
        p[n] = (int32_t)prod;
        sum += exp(-a[n]);
        y[n] = -log(sum) + (a[n] >= 0 && a[n] < (double)N ? x[(int)a[n]] : 0);
    }
    for (int split = 1; split <= 5; split++) {
        hand_run(&h, split);
        case_expect(&h.c, "p", p, 0);
        case_expect(&h.c, "y", y, 1e-6);
    }
    case_close(&h.c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_pass_temporaries),
        cmocka_unit_test(online_softmax_is_softmax),
        cmocka_unit_test(frames_meet_infinities),
        cmocka_unit_test(faults_are_found),
        cmocka_unit_test(guards_integers_and_min_frames),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
