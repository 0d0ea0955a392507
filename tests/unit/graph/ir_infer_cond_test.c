/* What a condition says about indices: the affine conjuncts, plain and negated. */
#include "graph_test.h"

static const char nodes[] = "graph f {\n"
                            "  size S, T\n"
                            "  in len: i32[S] = %0\n"
                            "  in x: f32[S] = %1\n"
                            "  in big: i64 = %2\n"
                            "  in m: bool[S] = %3\n"
                            "  %4: i64[i: S, j: T] = index j\n"
                            "  %5: i64[i: S, j: T] = index i + T - S\n"
                            "  %6: i32 = const 7\n"
                            "  %7: f32 = const 0\n"
                            "  %8: bool[i: S, j: T] = le %4[i, j], %5[i, j]\n"
                            "  %9: bool[i: S, j: T] = lt %4[i, j], len[i]\n"
                            "  %10: bool[i: S, j: T] = and %8[i, j], %9[i, j]\n"
                            "  %11: bool[i: S] = gt x[i], %7\n"
                            "  %12: bool[i: S, j: T] = and %8[i, j], %11[i]\n"
                            "  %13: bool[i: S, j: T] = or %8[i, j], %9[i, j]\n"
                            "  %14: bool[i: S, j: T] = not %13[i, j]\n"
                            "  %15: bool[i: S, j: T] = eq %4[i, j], %6\n"
                            "  %16: bool[i: S, j: T] = ne %4[i, j], %6\n"
                            "  %17: i64[i: S, j: T] = mul %4[i, j], %6\n"
                            "  %18: i64[i: S, j: T] = sub %17[i, j], len[i]\n"
                            "  %19: bool[i: S, j: T] = gt %18[i, j], %6\n"
                            "  %20: bool[i: S, j: T] = lt %4[i, j], big\n"
                            "  %21: bool = const 0\n"
                            "  %22: bool[i: S] = copy m[i]\n"
                            "  %23: bool[i: S, j: T] = copy %8[i, j]\n"
                            "  %24: bool[i: S, j: T] = lt %4[i, j], len[i + 1?]\n"
                            "  %25: i64[i: S, j: T] = idiv %4[i, j], %6\n"
                            "  %26: bool[i: S, j: T] = ge %25[i, j], %6\n"
                            "  %27: bool[i: S, j: T] = le %4[i, j], len[len[i]?]\n"
                            "  %28: bool[i: S, j: T] = le %4[j, i], %5[i, j]\n"
                            "  %29: i32[i: S] = add len[i], %6\n"
                            "  %30: bool[i: S, j: T] = ge %29[i], %4[i, j]\n"
                            "  %31: f32[i: S, j: T] = const 0\n"
                            "  out y: f32[S, T] = %31\n"
                            "}\n";

typedef void Infer(const Graph *g, const Operand *cond, IxVec *facts, bool *exact);

/* The facts of node n read at (i, j), or at (i) when it has one axis, joined by "; "; a "?" in
 * front when something was left out. */
static void facts(Infer *infer, int n, const char *want) {
    Graph *g = parse(nodes);
    Operand o;
    graph_map(g, &o, n);
    for (int d = 0; d < g->nodes.v[n]->rank; d++) o.map[d] = ix_axis(g->ix, d);
    IxVec v = {0};
    bool exact = true;
    infer(g, &o, &v, &exact);
    Str s = {0};
    if (!exact) str_add(&s, "?");
    for (int i = 0; i < v.n; i++) str_printf(&s, "%s%s", i ? "; " : "", ix_text(g, 4, v.v[i]));
    if (strcmp(str_get(&s), want)) fail_msg("%%%d: want %s, got %s", n, want, str_get(&s));
    str_free(&s);
}

static void test_conjuncts(void **state) {
    (void)state;
    facts(infer_conjuncts, 8, "i - j - S + T");
    facts(infer_conjuncts, 9, "-j + len[i] - 1");
    facts(infer_conjuncts, 10, "i - j - S + T; -j + len[i] - 1");
    facts(infer_conjuncts, 11, "?");
    facts(infer_conjuncts, 12, "?i - j - S + T");
    facts(infer_conjuncts, 13, "?");
    facts(infer_conjuncts, 15, "j - 7; -j + 7");
    facts(infer_conjuncts, 16, "?");
    facts(infer_conjuncts, 21, "-1"); /* never true */
    facts(infer_conjuncts, 22, "?");
    facts(infer_conjuncts, 23, "i - j - S + T");
}

static void test_integers(void **state) {
    (void)state;
    facts(infer_conjuncts, 19, "7*j - len[i] - 8");
    facts(infer_conjuncts, 26, "j/7 - 7");
    facts(infer_conjuncts, 20, "?");           /* 64-bit data */
    facts(infer_conjuncts, 24, "?");           /* a read that may be outside is 0 */
    facts(infer_conjuncts, 27, "?");           /* the same */
    facts(infer_conjuncts, 30, "-j + %29[i]"); /* i32 arithmetic wraps: a value of its own */
}

static void test_negated(void **state) {
    (void)state;
    facts(infer_negated, 8, "-i + j + S - T - 1");
    facts(infer_negated, 13, "-i + j + S - T - 1; j - len[i]");
    facts(infer_conjuncts, 14, "-i + j + S - T - 1; j - len[i]");
    facts(infer_negated, 14, "?");
    facts(infer_negated, 10, "?");
    facts(infer_negated, 16, "j - 7; -j + 7");
    facts(infer_negated, 21, "");
}

/* The condition is read at a map of the reader: facts are over the reader's axes. */
static void test_composition(void **state) {
    (void)state;
    Graph *g = parse(nodes);
    Operand o;
    graph_map(g, &o, 10);
    o.map[0] = ix_add(g->ix, ix_axis(g->ix, 1), ix_const(g->ix, 2));
    o.map[1] = ix_const(g->ix, 5);
    IxVec v = {0};
    bool exact = true;
    infer_conjuncts(g, &o, &v, &exact);
    assert_true(exact);
    assert_string_equal(ix_text(g, 4, v.v[0]), "j - S + T - 3");
    assert_string_equal(ix_text(g, 4, v.v[1]), "len[j + 2] - 6");
    o.checked = 1;
    infer_conjuncts(g, &o, &v, &exact);
    assert_false(exact);
    assert_int_equal(v.n, 2);
}

/* Sharing makes a small graph a huge tree: the walk ends, and says that it left something out. */
static void test_sharing(void **state) {
    (void)state;
    Graph *g = parse(nodes);
    int top = 8;
    for (int i = 0; i < 60; i++) {
        Node *n = graph_node(g, N_OP, DT_bool, 2, 2, 2);
        n->op = OP_and;
        for (int k = 0; k < 2; k++) {
            n->axes[k] = g->nodes.v[8]->axes[k];
            graph_map(g, &n->in[k], top);
            for (int d = 0; d < 2; d++) n->in[k].map[d] = ix_axis(g->ix, d);
        }
        top = n->id;
    }
    Operand o;
    graph_map(g, &o, top);
    for (int d = 0; d < 2; d++) o.map[d] = ix_axis(g->ix, d);
    IxVec v = {0};
    bool exact = true;
    infer_conjuncts(g, &o, &v, &exact);
    assert_false(exact);
    assert_true(v.n < 10000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_conjuncts),   TEST(test_integers), TEST(test_negated),
        TEST(test_composition), TEST(test_sharing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
