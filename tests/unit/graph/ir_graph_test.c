/* Building graphs: sizes, sweeping, cloning, names, counts. */
#include "graph_test.h"

static const char chain[] = "graph f {\n"
                            "  size M, T\n"
                            "  in x: f32[M] = %0\n"
                            "  in id: i32[M] = %1\n"
                            "  in unused: f32 = %2\n"
                            "  %3: f32[m: M] = copy x[m]\n"
                            "  %4: f32[m: M] = exp x[m]\n"
                            "  %5: i64[m: M] = index m\n"
                            "  %6: i32[m: M] = copy id[m]\n"
                            "  %7: f32[m: M] = copy %4[%6[m]?]\n"
                            "  out y: f32[M] = %7\n"
                            "  edge %3 -> %4 cut \"dead\"\n"
                            "  edge %4 -> %7 join \"alive\"\n"
                            "}\n";

static void test_sizes_are_found_or_added(void **state) {
    (void)state;
    Graph *g = graph_new(&arena, "f");
    assert_int_equal(graph_size(g, "M", (Span){0}), 0);
    assert_int_equal(graph_size(g, "N", (Span){0}), 1);
    assert_int_equal(graph_size(g, "M", (Span){0}), 0);
    assert_int_equal(g->sizes.n, 2);
}

static void test_a_node_starts_without_a_step(void **state) {
    (void)state;
    Graph *g = graph_new(&arena, "f");
    Node *n = graph_node(g, N_CONST, DT_f32, 0, 0, 0);
    assert_int_equal(n->id, 0);
    assert_int_equal(n->step, -1);
    assert_int_equal(n->param, -1);
    assert_false(n->store);
}

static void test_sweep_drops_what_nobody_reads(void **state) {
    (void)state;
    Graph *g = parse(chain);
    graph_sweep(g);
    assert_string_equal(printed(g), "graph f {\n"
                                    "  size M, T\n"
                                    "  in x: f32[M] = %0\n"
                                    "  in id: i32[M] = %1\n"
                                    "  in unused: f32 = %2\n"
                                    "  %3: f32[m: M] = exp x[m]\n"
                                    "  %4: i32[m: M] = copy id[m]\n"
                                    "  %5: f32[m: M] = copy %3[%4[m]?]\n"
                                    "  out y: f32[M] = %5\n"
                                    "  edge %3 -> %5 join \"alive\"\n"
                                    "}\n");
    assert_string_equal(faults(g), "");
    const char *once = printed(g);
    graph_sweep(g);
    assert_string_equal(printed(g), once);
}

/* A pass appends a node and redirects earlier readers to it. */
static void test_sweep_restores_order(void **state) {
    (void)state;
    Graph *g = parse(chain);
    Node *n = graph_node(g, N_OP, DT_f32, 1, 1, 1);
    n->op = OP_tanh;
    n->axes[0] = (Axis){"m", ix_size(g->ix, 0)};
    graph_map(g, &n->in[0], 0);
    n->in[0].map[0] = ix_axis(g->ix, 0);
    g->nodes.v[7]->in[0].node = n->id;
    assert_string_not_equal(faults(g), "");
    graph_sweep(g);
    assert_string_equal(faults(g), "");
    assert_non_null(strstr(printed(g), "%4: f32[m: M] = tanh x[m]\n"
                                       "  %5: f32[m: M] = copy %4[%3[m]?]\n"));
}

static void test_sweep_of_a_long_chain(void **state) {
    (void)state;
    Graph *g = parse("graph f {\n  in x: f32 = %0\n  out y: f32 = %0\n}\n");
    for (int i = 0; i < 200000; i++) {
        Node *n = graph_node(g, N_OP, DT_f32, 0, 0, 1);
        n->op = OP_neg;
        graph_map(g, &n->in[0], i);
    }
    g->params.v[1].node = 200000;
    graph_sweep(g);
    assert_int_equal(g->nodes.n, 200001);
    assert_int_equal(g->params.v[1].node, 200000);
}

static void test_sweep_follows_bounds(void **state) {
    (void)state;
    Graph *g = parse("graph f {\n"
                     "  size B, T\n"
                     "  in x: f32[B, T] = %0\n"
                     "  in len: i32[B] = %1\n"
                     "  %2: f32 = const 1\n"
                     "  %3: i32[b: B] = copy len[b]\n"
                     "  %4: bool = const 1\n"
                     "  %5: f32[b: B; t: T] = sum x[b, t] where %4 @ bound t to %3[b]\n"
                     "  out y: f32[B] = %5\n"
                     "}\n");
    graph_sweep(g);
    assert_non_null(strstr(printed(g), "where %3 @ bound t to %2[b]\n"));
    assert_string_equal(faults(g), "");
}

static void test_clone_is_the_same_in_another_arena(void **state) {
    (void)state;
    Arena other = {0};
    Graph *g = parse(chain);
    Graph *c = graph_clone(g, &other);
    arena_free(&arena); /* nothing of the first is left */
    Str s = {0};
    graph_print(&s, c);
    Graph *again = parse(chain);
    assert_string_equal(str_get(&s), printed(again));
    str_free(&s);
    arena_free(&other);
}

static void test_names_give_way(void **state) {
    (void)state;
    Graph *g = parse("graph f {\n"
                     "  size M\n"
                     "  in x: f32[M, M] = %0\n"
                     "  %1: f32[a: M, b: M] = copy x[a, b]\n"
                     "  out y: f32[M, M] = %1\n"
                     "}\n");
    Node *n = g->nodes.v[1];
    n->axes[0].name = "M";
    n->axes[1].name = "x";
    IxNames names = graph_names(g, n);
    assert_string_equal(names.size[0], "M");
    assert_string_equal(names.axis[0], "M_1");
    assert_string_equal(names.axis[1], "x_1");
    assert_string_equal(names.value[0], "x");
    assert_int_equal(names.nvalue, 1);
    n->axes[0].name = n->axes[1].name = NULL;
    names = graph_names(g, n);
    assert_string_equal(names.axis[0], "i");
    assert_string_equal(names.axis[1], "i_1");
}

static void test_counts(void **state) {
    (void)state;
    Graph *g = parse("graph f {\n"
                     "  size M, K\n"
                     "  in x: bf16[M, K] = %0\n"
                     "  in q: u4[M, K] = %1\n"
                     "  in s: u4 = %2\n"
                     "  in c: bool[M] = %3\n"
                     "  %4: f32[m: M; k: K] = sum x[m, k]\n"
                     "  out y: f32[M] = %4\n"
                     "}\n");
    static const char *const bytes[] = {"2*M*K", "M*((K + 1)/2)", "1", "M", "4*M"};
    for (int i = 0; i < 5; i++)
        assert_string_equal(ix_text(g, 4, graph_param_bytes(g, &g->params.v[i])), bytes[i]);
    assert_string_equal(ix_text(g, 4, graph_count(g, g->nodes.v[4])), "M");
    assert_string_equal(ix_text(g, 4, graph_count(g, g->nodes.v[0])), "M*K");
    assert_string_equal(ix_text(g, 4, graph_count(g, g->nodes.v[2])), "1");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_sizes_are_found_or_added),
        TEST(test_a_node_starts_without_a_step),
        TEST(test_sweep_drops_what_nobody_reads),
        TEST(test_sweep_restores_order),
        TEST(test_sweep_of_a_long_chain),
        TEST(test_sweep_follows_bounds),
        TEST(test_clone_is_the_same_in_another_arena),
        TEST(test_names_give_way),
        TEST(test_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
