/* Rule 1: sizes from the extents of parameters. */
#include "graph_test.h"

/* `params` is a list of parameter dims, e.g. "M, K; 2*D"; the solving is printed line by line. */
static Graph *graph_of(const char *sizes, const char *params) {
    Str s = {0};
    str_printf(&s, "graph f {\n  size %s\n", sizes);
    int id = 0;
    for (const char *p = params; p;) {
        const char *end = strchr(p, ';');
        int n = end ? (int)(end - p) : (int)strlen(p);
        str_printf(&s, "  in p%d: f32[%.*s] = %%%d\n", id, n, p, id);
        id++;
        p = end ? end + 1 : NULL;
    }
    str_add(&s, "}\n");
    Graph *g = parse(str_get(&s));
    str_free(&s);
    return g;
}

static void solves(const char *sizes, const char *params, const char *want) {
    Graph *g = graph_of(sizes, params);
    int unsolved = -1;
    bool ok = infer_solve(g, &unsolved);
    const char *text = strstr(printed(g), "  solve");
    const char *got = text ? text : "}\n";
    if (!ok) got = arena_printf(&arena, "unsolved %s", g->sizes.v[unsolved].name);
    if (strcmp(got, arena_printf(&arena, ok ? "%s}\n" : "%s", want)))
        fail_msg("%s: want\n%s\ngot\n%s", params, want, got);
}

static void test_bare_first(void **state) {
    (void)state;
    solves("M, K", "M, K; K, M",
           "  solve M from p0[0] = %0\n"
           "  solve K from p0[1] = %0\n");
    solves("M, K", "2*M, K; M",
           "  solve K from p0[1] = %0\n"
           "  solve M from p1[0] = %0\n");
}

static void test_linear(void **state) {
    (void)state;
    solves("D", "2*D", "  solve D from p0[0] = %0 div 2\n");
    solves("D", "3 - D", "  solve D from p0[0] = -%0 + 3\n");
    solves("D", "2*D - 1", "  solve D from p0[0] = %0 + 1 div 2\n");
    solves("S, T", "S + T; T",
           "  solve T from p1[0] = %0\n"
           "  solve S from p0[0] = %0 - T\n");
    solves("A, B, C", "A + B; B + C; 2*C",
           "  solve C from p2[0] = %0 div 2\n"
           "  solve B from p1[0] = %0 - C\n"
           "  solve A from p0[0] = %0 - B\n");
    solves("H, E", "H*E; H",
           "  solve H from p1[0] = %0\n"
           "  solve E from p0[0] = %0/H\n");
}

static void test_quotients(void **state) {
    (void)state;
    solves("T", "T/16", "  solve T from p0[0] = 16*%0\n");
    solves("H, G", "H/G; G",
           "  solve G from p1[0] = %0\n"
           "  solve H from p0[0] = %0*G\n");
    solves("T", "T/16 + 1", "  solve T from p0[0] = 16*%0 - 16\n");
    solves("T", "2*(T/16)", "  solve T from p0[0] = 16*%0 div 2\n");
}

static void test_unsolved(void **state) {
    (void)state;
    solves("K", "(K + 127)/128", "unsolved K"); /* floor: many K */
    solves("S, T", "S + T", "unsolved S");
    solves("M, N", "M", "unsolved N");
    solves("M", "M*M", "unsolved M");
    solves("M", "M%4", "unsolved M");
    solves("M, N", "min(M, N); N", "unsolved M");
    solves("M", "M + M/2", "unsolved M");
    solves("H, G", "H/G; H", "unsolved G");
}

static void test_again_is_the_same(void **state) {
    (void)state;
    Graph *g = graph_of("S, T", "S + T; T");
    int unsolved;
    assert_true(infer_solve(g, &unsolved));
    const char *once = printed(g);
    assert_true(infer_solve(g, &unsolved));
    assert_string_equal(printed(g), once);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_bare_first),        TEST(test_linear), TEST(test_quotients), TEST(test_unsolved),
        TEST(test_again_is_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
