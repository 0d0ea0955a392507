/* Random sizes and inputs: legal, in range, repeatable. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "ir/ir.h"

static const char text[] = "graph g {\n"
                           "  size M, T, H\n"
                           "  in x: f32[M, T] = %0\n"
                           "  in id: i32[M] = %1\n"
                           "  in len: i32[M] = %2\n"
                           "  in q: u4[M, H/8] = %3\n"
                           "  in other: i32[M] = %4\n"
                           "  in keep: f32 = %5\n"
                           "  %6: f32[i: M] = copy x[i, %1[i]?]\n"
                           "  %7: i64[t: T] = index t\n"
                           "  %8: bool[i: M, t: T] = lt %7[t], len[i]\n"
                           "  %9: f32[i: M, t: T] = within %8[i, t], %6[i]\n"
                           "  out y: f32[M, T] = %9\n"
                           "  check T - 3 >= 0: \"T is at least 3\"\n"
                           "}\n";

static void test_draws(void **state) {
    (void)state;
    Arena a = {0};
    Diags d = {.arena = &a};
    Graph *g = graph_parse(&a, source_new(&a, "g", text, strlen(text)), &d);
    assert_non_null(g);
    int64_t sizes[3] = {7, -1, -1}, again[3] = {7, -1, -1};
    assert_true(sample_sizes(g, 1, 40, sizes));
    assert_true(sample_sizes(g, 1, 40, again));
    assert_memory_equal(sizes, again, sizeof sizes);
    assert_int_equal(sizes[0], 7);
    assert_in_range(sizes[1], 3, 40);
    assert_int_equal(sizes[2] % 8, 0);
    int64_t none[3] = {7, 2, -1};
    assert_false(sample_sizes(g, 1, 40, none)); /* the check fails for T = 2 */
    int32_t v[7];
    EvalTensor t = {.data = v};
    int least[5] = {99, 99, 99, 99, 99}, most[5] = {-99, -99, -99, -99, -99};
    for (int seed = 0; seed < 400; seed++)
        for (int p = 1; p <= 4; p++) {
            if (p == 3) continue;
            assert_int_equal(sample_shape(g, p, sizes, &t), sizeof v);
            sample_fill(g, p, sizes, (uint64_t)seed, &t);
            for (int i = 0; i < 7; i++) {
                if (v[i] < least[p]) least[p] = v[i];
                if (v[i] > most[p]) most[p] = v[i];
            }
        }
    assert_int_equal(least[1], -1); /* indexes T */
    assert_int_equal(most[1], sizes[1]);
    assert_int_equal(least[2], 0); /* compared with t */
    assert_int_equal(most[2], sizes[1]);
    assert_int_equal(least[4], -8);
    assert_int_equal(most[4], 8);
    assert_int_equal(sample_shape(g, 3, (int64_t[]){3, 3, 24}, &t), 6); /* 3 nibbles in 2 bytes */
    assert_int_equal(t.stride[0], 4);
    float keep;
    t = (EvalTensor){.data = &keep};
    assert_int_equal(sample_shape(g, 5, sizes, &t), 4);
    sample_fill(g, 5, sizes, 3, &t);
    assert_true(keep > 0.1f && keep < 0.9f);
    arena_free(&a);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_draws)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
