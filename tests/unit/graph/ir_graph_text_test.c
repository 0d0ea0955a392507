/* The text form of graphs: what is printed reads back to the same text; errors have places. */
#include "graph_test.h"

#include <math.h>

/* Every kind of line, node and note; names that are keywords, no words, or taken. */
static const char everything[] =
    "graph \"a graph\" {\n"
    "  size M, K, size, min\n"
    "  in x: bf16[M, K] = %0\n"
    "  in where: f32 = %3\n"
    "  in \"odd name\": i32[M] = %2\n"
    "  in id: i32[M] = %5\n"
    "  in q: u4[min, 8*size] = %7\n"
    "  %1: f32 = const 0.1\n"
    "  %4 const: bool = const 1\n"
    "  %6 z: f32[in: M, x_1: K] = mul x[in, x_1], where @ store step 0\n"
    "  %8: i64[i: M] = index -2*size + (i%16)/4 + min(i, 3)\n"
    "  %9: f32[m: M; k: K] = contract x[m, k], x[id[m]?, k] where %4 @ roles mk store\n"
    "  %10: f32[; m: M, k: K] = max %6[m, k]\n"
    "  %11: f32[m: M;] = prod %9[m]\n"
    "  %12 \"two words\": bool[m: M] = lt %8[m], \"odd name\"[m]\n"
    "  %13: f32[m: M; k: K, j: K] = sum x[m, k] where %12[m] @ bound k from m to min(K, m + 1) "
    "bound j to id[m] exact\n"
    "  %14: bf16[m: M] = cast %9[m]\n"
    "  %15: f32[m: M] = select %12[m], %13[m - 1?], %14[m]\n"
    "  %16: i64 = const -9223372036854775808\n"
    "  %17: f32 = const -inf\n"
    "  %18: f32 = const nan\n"
    "  %19: f32 = const -0\n"
    "  out y: bf16[M] = %14\n"
    "  out out: f32 = %10\n"
    "  check M - 1 >= 0: \"the read \\\"x[m - 1]\\\" starts below 0\", needed 1, found M, unless "
    "M*K\n"
    "  check -(K%128) >= 0: \"bare\"\n"
    "  solve M from x[0] = %0\n"
    "  solve size from q[1] = %0 - 3*K div 8\n"
    "  expect kernels == 1\n"
    "  expect hbm <= 1.05 * io\n"
    "  expect spills < 2\n"
    "  edge %6 -> %9 cut \"needs online\" price 1.5 other 2.25\n"
    "  edge %9 -> %11 join \"\"\n"
    "}\n";

static void test_everything_reads_back(void **state) {
    (void)state;
    const char *text = printed(parse(everything));
    assert_string_equal(text, everything);
    assert_string_equal(printed(parse(text)), text);
}

static void test_fields_are_read(void **state) {
    (void)state;
    Graph *g = parse(everything);
    assert_string_equal(g->name, "a graph");
    assert_int_equal(g->sizes.n, 4);
    assert_int_equal(g->nodes.v[2]->kind, N_INPUT);
    assert_int_equal(g->nodes.v[2]->param, 2);
    assert_string_equal(g->nodes.v[6]->name, "z");
    assert_true(g->nodes.v[6]->store);
    assert_int_equal(g->nodes.v[6]->step, 0);
    assert_int_equal(g->nodes.v[9]->in[1].checked, 1);
    assert_true(g->nodes.v[9]->where);
    assert_string_equal(g->nodes.v[9]->roles, "mk");
    assert_int_equal(g->nodes.v[9]->step, -1);
    assert_int_equal(g->nodes.v[10]->rank, 0);
    assert_int_equal(g->nodes.v[10]->red, RED_max);
    assert_int_equal(g->nodes.v[11]->naxes, 1);
    assert_true(g->nodes.v[13]->exact);
    assert_null(g->nodes.v[13]->lo[1]);
    assert_true(g->nodes.v[16]->inum == INT64_MIN);
    assert_true(signbit(g->nodes.v[19]->num));
    assert_int_equal(g->params.n, 7);
    assert_true(g->params.v[6].out);
    assert_string_equal(g->checks.v[0].text, "the read \"x[m - 1]\" starts below 0");
    assert_null(g->checks.v[1].unless);
    assert_true(g->solve.v[1].div == 8);
    assert_true(g->expect.v[1].io && g->expect.v[1].number == 1.05);
    assert_true(g->edges.v[0].cut && g->edges.v[0].other == 2.25);
    assert_true(g->edges.v[1].price < 0);
}

/* Names a user or a pass may leave: equal, missing, taken, no words. */
static void test_axis_names_are_made_unique(void **state) {
    (void)state;
    Graph *g = parse("graph f {\n"
                     "  size M\n"
                     "  in x: f32[M, M, M, M] = %0\n"
                     "  %1: f32[a: M, b: M, c: M, d: M] = copy x[d, c, b, a]\n"
                     "  out y: f32[M, M, M, M] = %1\n"
                     "}\n");
    static const char *const names[] = {"m", "m", NULL, "M"};
    for (int i = 0; i < 4; i++) g->nodes.v[1]->axes[i].name = names[i];
    assert_non_null(strstr(printed(g), "%1: f32[m: M, m_1: M, i: M, M_1: M] = "
                                       "copy x[M_1, i, m_1, m]\n"));
    assert_string_equal(printed(parse(printed(g))), printed(g));
}

static void test_empty_bounds_print_nothing(void **state) {
    (void)state;
    Graph *g = parse("graph f {\n"
                     "  in x: f32[4] = %0\n"
                     "  %1: f32[; m: 4] = sum x[m] @ bound m\n"
                     "  out y: f32 = %1\n"
                     "}\n");
    assert_non_null(strstr(printed(g), "= sum x[m]\n"));
}

static void test_layout_is_free(void **state) {
    (void)state;
    Graph *g = parse("# comments and line ends in brackets\n"
                     "graph f { size M, N # two\n"
                     "in x: f32[M,\n  N] = %0\n\n\n"
                     "%1: f32[m:M;n:N]=sum x[m,n]\n"
                     "out y: f32[M] = %1 }");
    assert_string_equal(printed(g), "graph f {\n"
                                    "  size M, N\n"
                                    "  in x: f32[M, N] = %0\n"
                                    "  %1: f32[m: M; n: N] = sum x[m, n]\n"
                                    "  out y: f32[M] = %1\n"
                                    "}\n");
}

/* ---- errors ------------------------------------------------------------------------------- */

static const char head[] = "graph f {\n  size M, K\n  in x: f32[M, K] = %0\n";

static void bad(const char *lines, int line, int col, const char *want) {
    Diags d = {.arena = &arena};
    const char *text = arena_printf(&arena, "%s  %s\n}\n", head, lines);
    assert_null(graph_parse(&arena, source_new(&arena, "test", text, strlen(text)), &d));
    assert_int_equal(d.list.n, 1);
    assert_string_equal(d.list.v[0].text, want);
    int l, c;
    source_place(d.list.v[0].span, &l, &c);
    if (l != line || c != col) fail_msg("%s: at %d:%d", lines, l, c);
}

static void test_errors(void **state) {
    (void)state;
    bad("%2: f32 = const 1", 4, 5, "expected %1, found %2");
    bad("%1: f33 = const 1", 4, 11, "'f33' is no type");
    bad("%1: f32 = relu x[0, 0]", 4, 13, "'relu' is no op");
    bad("%1: f32[m: M; k: K] = softmax x[m, k]", 4, 25, "'softmax' is no reduction");
    bad("%1: f32 = add x[0, 0]", 5, 1, "add takes 2 operands, found 1");
    bad("%1: f32[m: M, m: M] = copy x[m, 0]", 4, 18, "axis m again");
    bad("%1: f32[m: M; ; k: K] = sum x[m, k]", 4, 19, "a second ';'");
    bad("%1: f32 = copy x[0]", 4, 21, "expected ',', found ']'");
    bad("%1: f32 = copy x[0, 0, 0]", 4, 24, "expected ']', found ','");
    bad("%1: f32 = copy y", 4, 18, "'y' is no input");
    bad("%1: f32 = copy %1", 4, 19, "%1 is not defined before this line");
    bad("%1: f32[m: M] = copy x[m, j]", 4, 29, "'j' is no axis, size or value here");
    bad("%1: f32[m: M*m] = copy x[m, 0]", 4, 16, "'m' is no axis, size or value here");
    bad("in z: f32 = %9", 6, 1, "input z is %9, but there are only 1 nodes");
    bad("out y: f32 = %7", 4, 17, "%7 is not defined before this line");
    bad("size M", 5, 1, "size M again");
    bad("size \"a b\"", 5, 1, "a size needs a plain word as its name");
    bad("solve N from x[0] = %0", 4, 11, "no size is called N");
    bad("solve M from z[0] = %0", 4, 17, "no parameter is called z");
    bad("solve M from x[2] = %0", 4, 18, "expected a number below 2, found '2'");
    bad("solve M from x[0] = %0 div 0", 5, 1, "a divisor must be positive");
    bad("check M > 0: \"t\"", 4, 11, "expected '>=', found '>'");
    bad("check M >= 1: \"t\"", 4, 14, "expected a number below 1, found '1'");
    bad("expect kernels > 1", 4, 18, "expected '<', found '>'");
    bad("edge %0 -> %0 split \"t\"", 4, 17, "expected 'join', found 'split'");
    bad("%1: f32 = copy x[0, 0] @ fast", 4, 28,
        "expected roles, loop, frame, part, store, step, bound or exact, found 'fast'");
    bad("%1: f32[m: M; k: K] = sum x[m, k] @ bound m to 3", 4, 47, "m is no reduced axis");
    bad("%1: f32[m: M] = copy x[m, 0] @ roles abcdefghijklmnop", 5, 1, "more roles than axes");
    bad("loop k", 4, 3, "expected a line of a graph, found 'loop'");
    bad("}\n}", 5, 1, "text after the graph");
}

/* Every prefix of a text, and every text with one byte changed, is read or refused, never more. */
static void test_broken_texts(void **state) {
    (void)state;
    static const char bytes[] = {'%', '[', '}', '0', '"', '\n', '/', 'z', ';', '\x80'};
    size_t n = strlen(everything);
    for (size_t i = 0; i < n; i++) {
        for (size_t b = 0; b <= sizeof bytes; b++) {
            Arena scratch = {0};
            Diags d = {.arena = &scratch};
            char *text = arena_strndup(&scratch, everything, n);
            size_t len = b < sizeof bytes ? n : i;
            if (b < sizeof bytes) text[i] = bytes[b];
            Graph *g = graph_parse(&scratch, source_new(&scratch, "test", text, len), &d);
            assert_int_equal(g == NULL, d.errors > 0);
            if (g) {
                Str one = {0}, two = {0};
                graph_print(&one, g);
                Graph *h = graph_parse(&scratch, source_new(&scratch, "t", one.s, one.n), &d);
                if (!h) fail_msg("does not read back:\n%s\n%s", one.s, d.list.v[0].text);
                graph_print(&two, h);
                assert_string_equal(two.s, one.s);
                graph_verify(g, &one);
                str_free(&one);
                str_free(&two);
            }
            arena_free(&scratch);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_everything_reads_back),
        TEST(test_fields_are_read),
        TEST(test_axis_names_are_made_unique),
        TEST(test_empty_bounds_print_nothing),
        TEST(test_layout_is_free),
        TEST(test_errors),
        TEST(test_broken_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
