/* The graph verifier: every rule broken once, with the whole message. */
#include "graph_test.h"

/* Sound, with something of everything; faults are put into it. */
static const char good[] =
    "graph f {\n"
    "  size M, K\n"
    "  in x: bf16[M, K] = %0\n"
    "  in id: i32[M] = %1\n"
    "  %2: f32 = const 2\n"
    "  %3: i64[m: M, k: K] = index m - k\n"
    "  %4: i64 = const 0\n"
    "  %5: bool[m: M, k: K] = ge %3[m, k], %4\n"
    "  %6: f32[m: M; k: K] = contract x[m, k], x[id[m]?, k] where %5[m, k] "
    "@ roles mk store step 0 bound k to min(K, m + 1) exact\n"
    "  %7: bf16[m: M] = cast %6[m]\n"
    "  out y: bf16[M] = %7\n"
    "  check M - K >= 0: \"M is at least K\", needed K, found M, unless M*K\n"
    "  solve M from x[0] = %0\n"
    "  solve K from x[1] = %0\n"
    "  expect kernels == 1\n"
    "  edge %5 -> %6 join \"reads it\"\n"
    "}\n";

static void test_good(void **state) {
    (void)state;
    assert_string_equal(faults(parse(good)), "");
}

/* good with `from` replaced by `to`; the only fault must be `want`. */
static void text_fault(const char *from, const char *to, const char *want) {
    const char *at = strstr(good, from);
    assert_non_null(at);
    const char *text =
        arena_printf(&arena, "%.*s%s%s", (int)(at - good), good, to, at + strlen(from));
    assert_string_equal(faults(parse(text)), arena_printf(&arena, "graph f%s\n", want));
}

/* Reads as real programs have them: grouped heads, pages, rotation, a guarded convolution. */
static const char attention[] =
    "graph attention {\n"
    "  size B, S, H, E, T\n"
    "  in q: bf16[B, S, H, E] = %0\n"
    "  in k: bf16[B, T, H/8, E] = %1\n"
    "  %2: f32[b: B, h: H, i: S, j: T; e: E] = contract q[b, i, h, e], k[b, j, h/8, e]\n"
    "  %3: i64[j: T] = index j\n"
    "  %4: i64[i: S] = index i - S + T\n"
    "  %5: bool[i: S, j: T] = le %3[j], %4[i]\n"
    "  %6: f32[b: B, h: H, i: S; j: T] = max %2[b, h, i, j] where %5[i, j] "
    "@ bound j to i - S + T + 1 exact\n"
    "  out l: f32[B, H, S] = %6\n"
    "  check -(H%8) >= 0: \"8 divides H\", needed 8, found H\n"
    "  solve B from q[0] = %0\n"
    "  solve S from q[1] = %0\n"
    "  solve H from q[2] = %0\n"
    "  solve E from q[3] = %0\n"
    "  solve T from k[1] = %0\n"
    "}\n";

static const char paged[] = "graph paged {\n"
                            "  size B, H, E, P, T\n"
                            "  in q: bf16[B, H, E] = %0\n"
                            "  in kc: bf16[P, 16, H/8, E] = %1\n"
                            "  in tab: i32[B, T/16] = %2\n"
                            "  %3: f32[b: B, h: H, j: T; e: E] = contract q[b, h, e], "
                            "kc[tab[b, j/16]?, j%16, h/8, e]\n"
                            "  out s: f32[B, H, T] = %3\n"
                            "}\n";

static const char rotated[] = "graph rotated {\n"
                              "  size S, E\n"
                              "  in q: bf16[S, E] = %0\n"
                              "  in x: f32[S] = %1\n"
                              "  %2: f32[i: S, e: E] = mul q[i, (e + E/2)%E], q[i, e]\n"
                              "  %3: i64[t: S, r: 4] = index t - r\n"
                              "  %4: i64 = const 0\n"
                              "  %5: bool[t: S, r: 4] = ge %3[t, r], %4\n"
                              "  %6: f32[t: S; r: 4] = sum x[t - r?] where %5[t, r]\n"
                              "  out y: f32[S, E] = %2\n"
                              "  out z: f32[S] = %6\n"
                              "}\n";

static void test_reads_of_programs(void **state) {
    (void)state;
    const char *const text[] = {attention, paged, rotated};
    for (int i = 0; i < 3; i++) {
        assert_string_equal(faults(parse(text[i])), "");
        assert_string_equal(printed(parse(text[i])), text[i]);
    }
    /* 16 divides T only because a dimension says so */
    Graph *g = parse(paged);
    g->params.v[2].dims[1] = g->nodes.v[2]->axes[1].extent = ix_size(g->ix, 0);
    assert_non_null(strstr(faults(g), "expected an index inside [0, B)"));
}

static void test_names(void **state) {
    (void)state;
    text_fault("out y:", "out x:", ": expected one size or parameter x, found two");
    text_fault("out y:", "out M:", ": expected one size or parameter M, found two");
}

static void test_params(void **state) {
    (void)state;
    text_fault("out y: bf16", "out y: f16", ", parameter y: expected %7 to be f16, found bf16");
    text_fault("out y: bf16[M]", "out y: bf16[K]",
               ", parameter y: expected extent 0 of %7 to be K, found M");
    text_fault("out y: bf16[M]", "out y: bf16[M, K]",
               ", parameter y: expected rank 2 of %7, found 1");
    text_fault("out y: bf16[M] = %7\n", "out y: bf16[M] = %7\n  in z: f32 = %2\n",
               ", parameter z: expected inputs first, found it behind an output\n"
               "graph f, parameter z: expected an input node, found %2 (const)");
}

static void test_nodes(void **state) {
    (void)state;
    text_fault("%2: f32 = const 2", "%2: bf16 = const 2",
               ", %2 (const): expected f32, i32, i64 or bool, found bf16");
    text_fault("%2: f32 = const 2", "%2: f32[m: M] = const 2",
               ", %2 (const): expected rank 0, found 1");
    text_fault("%2: f32 = const 2", "%2: bool = const 2", ", %2 (const): expected 0 or 1, found 2");
    text_fault("%2: f32 = const 2", "%2: i32 = const 2147483648",
               ", %2 (const): expected 32 bits, found 2147483648");
    text_fault("%3: i64", "%3: i32", ", %3 (index): expected type i64, found i32");
    text_fault("index m - k", "index id[m] - k",
               ", %3 (index): expected no values, found value %1");
    text_fault("ge %3[m, k]", "and %3[m, k]", ", %5 (and): needs conditions, got i64");
    text_fault("%5: bool", "%5: i32",
               ", %5 (ge): expected type bool, found i32\n"
               "graph f, %6 (contract): expected a bool condition, found i32");
    text_fault("%6: f32", "%6: bf16", ", %6 (contract): expected type f32, found bf16");
    text_fault("@ roles mk store step 0", "@ roles mk step 0",
               ", %6 (contract): expected step 0 to store it, found no store");
}

static void test_loops(void **state) {
    (void)state;
    text_fault("cast %6[m]", "cast %6[m] @ loop 0", ", %7 (cast): expected no loop 0, found one");
    text_fault("roles mk", "roles mk frame %2",
               ", %6 (contract): expected the loop of its frame, found none");
    text_fault("roles mk", "roles mk loop 0 frame %2",
               ", %6 (contract): expected a max or min of its loop as its frame, found %2\n"
               "graph f, %6 (contract): expected a frame over the same extents, found %2");
}

static void test_reductions(void **state) {
    (void)state;
    text_fault("contract x[m, k], x[id[m]?, k] where %5[m, k] @ roles mk ",
               "sum x[m, k], x[id[m]?, k] where %5[m, k] @ ",
               ", %6 (sum): expected one argument and a condition, found 3 operands");
    text_fault(" where %5[m, k]", "",
               ", %6 (contract): expected exact bounds of a condition, found no condition");
    text_fault("contract x[m, k], x[id[m]?, k] where", "max x[m, k] where",
               ", %6 (max): expected roles of a contraction only, found mk");
    text_fault("cast %6[m]", "cast %6[m] @ roles m", ", %7 (cast): expected no roles, found m");
    text_fault("roles mk", "roles m", ", %6 (contract): expected 2 roles, found m");
    text_fault("roles mk", "roles km",
               ", %6 (contract): axis 0: expected role b, m or n, found k\n"
               "graph f, %6 (contract): axis 1: expected role k, found m");
    text_fault("min(K, m + 1)", "k + 1",
               ", %6 (contract), bounds of axis 1: expected an axis below 1, found axis 1");
}

static void test_reads(void **state) {
    (void)state;
    text_fault("contract x[m, k]", "contract x[m + 1, k]",
               ", %6 (contract), operand 0: expected an index inside [0, M), or checked, or a "
               "launch check; found m + 1");
    text_fault("x[id[m]?, k]", "x[id[m], k]",
               ", %6 (contract), operand 1: expected an index inside [0, M), or checked, or a "
               "launch check; found id[m]");
    text_fault("x[id[m]?, k]", "x[id[k + m]?, k]",
               ", %6 (contract), operand 1: expected an index inside [0, M), or checked, or a "
               "launch check; found m + k");
    text_fault("x[id[m]?, k]", "x[%2?, k]",
               ", %6 (contract), operand 1: expected an integer to gather by, found %2 of f32");
    text_fault("x[id[m]?, k]", "x[id?, k]",
               ", %6 (contract), operand 1: gather of %1: expected 1 indices, found 0");
}

static void test_a_launch_check_covers_a_read(void **state) {
    (void)state;
    static const char text[] = "graph f {\n"
                               "  size M, K\n"
                               "  in x: bf16[M, K] = %0\n"
                               "  %1: f32[m: M; k: K] = contract x[k, k], x[m, k] @ roles mk\n"
                               "  out y: f32[M] = %1\n"
                               "  check M - K >= 0: \"M is at least K\", needed K, found M\n"
                               "  solve M from x[0] = %0\n"
                               "  solve K from x[1] = %0\n"
                               "}\n";
    assert_string_equal(faults(parse(text)), "");
    Graph *g = parse(text);
    g->checks.n = 0;
    assert_string_equal(faults(g), "graph f, %1 (contract), operand 0: expected an index inside "
                                   "[0, M), or checked, or a launch check; found k\n");
}

static void test_lists(void **state) {
    (void)state;
    text_fault("solve M from x[0] = %0", "solve M from x[0] = %0 - K",
               ", solve 0: expected sizes solved before it, found K");
    text_fault("solve K from x[1] = %0", "solve M from x[1] = %0",
               ", solve 1: expected each size once, found M again\n"
               "graph f: expected every size solved, found K unsolved");
    text_fault("  solve K from x[1] = %0\n", "", ": expected every size solved, found K unsolved");
    text_fault("in id: i32[M]", "in id: i32[K/8]",
               ": expected a check -(K%8) >= 0 for the exact quotient K/8, found none\n"
               "graph f, %6 (contract), operand 1: expected an index inside [0, K/8), or checked, "
               "or a launch check; found m");
    text_fault("\"M is at least K\"", "\"\"", ", check 0: expected a text, found none");
    text_fault("kernels", "ponies",
               ", expect 0: expected kernels, spills, hbm or workspace, found ponies");
    text_fault("== 1", "== inf", ", expect 0: expected a finite number, found inf");
}

/* ---- what the text cannot say ------------------------------------------------------------- */

typedef void Spoil(Graph *g);

static void api_fault(Spoil *spoil, const char *want) {
    Graph *g = parse(good);
    spoil(g);
    assert_string_equal(faults(g), arena_printf(&arena, "graph f%s\n", want));
}

static void spoil_id(Graph *g) {
    g->nodes.v[3]->id = 4;
}
static void spoil_type(Graph *g) {
    g->nodes.v[3]->type = DT_none;
}
static void spoil_rank(Graph *g) {
    g->nodes.v[7]->rank = 0;
}
static void spoil_reduce_rank(Graph *g) {
    g->nodes.v[6]->rank = 3;
}
static void spoil_extent(Graph *g) {
    g->nodes.v[3]->axes[1].extent = NULL;
}
static void spoil_extent_axis(Graph *g) {
    g->nodes.v[3]->axes[1].extent = ix_axis(g->ix, 0);
}
static void spoil_size(Graph *g) {
    g->nodes.v[3]->ix = ix_size(g->ix, 2);
}
static void spoil_index(Graph *g) {
    g->nodes.v[3]->ix = NULL;
}
static void spoil_order(Graph *g) {
    g->nodes.v[5]->in[0].node = 6;
}
static void spoil_map(Graph *g) {
    g->nodes.v[5]->in[0].map = NULL;
}
static void spoil_checked(Graph *g) {
    g->nodes.v[7]->in[0].checked = 2;
}
static void spoil_arity(Graph *g) {
    g->nodes.v[5]->nin = 1;
}
static void spoil_op(Graph *g) {
    g->nodes.v[5]->op = OP_COUNT;
}
static void spoil_red(Graph *g) {
    g->nodes.v[6]->red = RED_COUNT;
}
static void spoil_const_operands(Graph *g) {
    g->nodes.v[2]->nin = 1;
}
static void spoil_where(Graph *g) {
    g->nodes.v[7]->where = true;
}
static void spoil_bounds(Graph *g) {
    g->nodes.v[6]->lo = NULL;
}
static void spoil_gather(Graph *g) {
    g->nodes.v[6]->in[1].map[0] = ix_value(g->ix, 6, NULL, 0);
}
static void spoil_input_param(Graph *g) {
    g->nodes.v[1]->param = 7;
}
static void spoil_input_node(Graph *g) {
    g->nodes.v[1]->param = 2;
}
static void spoil_input_type(Graph *g) {
    g->nodes.v[1]->type = DT_i8;
}
static void spoil_input_extent(Graph *g) {
    g->nodes.v[1]->axes[0].extent = ix_size(g->ix, 1);
}
static void spoil_size_name(Graph *g) {
    g->sizes.v[1].name = "a b";
}
static void spoil_param_name(Graph *g) {
    g->params.v[2].name = NULL;
}
static void spoil_param_node(Graph *g) {
    g->params.v[2].node = 8;
}
static void spoil_param_type(Graph *g) {
    g->params.v[2].type = DT_none;
}
static void spoil_check(Graph *g) {
    g->checks.v[0].found = ix_axis(g->ix, 0);
}
static void spoil_check_e(Graph *g) {
    g->checks.v[0].e = NULL;
}
static void spoil_solve_size(Graph *g) {
    g->solve.v[1].size = 2;
}
static void spoil_solve_param(Graph *g) {
    g->solve.v[0].param = 3;
}
static void spoil_solve_dim(Graph *g) {
    g->solve.v[0].dim = 2;
    g->solve.v[1].div = 0;
}
static void spoil_solve_num(Graph *g) {
    g->solve.v[0].num = NULL;
    g->solve.v[1].num = ix_value(g->ix, 1, NULL, 0);
}
static void spoil_expect(Graph *g) {
    g->expect.v[0].cmp = ">";
}
static void spoil_edge(Graph *g) {
    g->edges.v[0].to = 8;
}

static void test_structure(void **state) {
    (void)state;
    api_fault(spoil_id, ": expected %3 in its place, found %4");
    api_fault(spoil_type, ", %3 (index): expected a type, found none");
    api_fault(spoil_rank, ", %7 (cast): expected no reduced axes, found rank 0 of 1 axes");
    api_fault(spoil_reduce_rank, ", %6 (contract): expected rank <= 2, found 3");
    api_fault(spoil_extent, ", %3 (index), extent 1: expected an index expression, found none");
    api_fault(spoil_extent_axis, ", %3 (index), extent 1: expected an axis below 0, found axis 0");
    api_fault(spoil_size, ", %3 (index): expected a size below 2, found size 2");
    api_fault(spoil_index, ", %3 (index): expected an index expression, found none");
    api_fault(spoil_order, ", %5 (ge), operand 0: expected a node before it, found %6");
    api_fault(spoil_map, ", %5 (ge), operand 0: expected 2 indices, found no map");
    api_fault(spoil_checked,
              ", %7 (cast), operand 0: expected checked positions below 1, found mask 0x2");
    api_fault(spoil_arity, ", %5 (ge): expected 2 operands, found 1");
    api_fault(spoil_op, ", %5 (op ?): expected an op, found number 41");
    api_fault(spoil_red,
              ", %6 (reduction ?): expected a reduction, found number 5\n"
              "graph f, %6 (reduction ?): expected roles of a contraction only, found mk");
    api_fault(spoil_const_operands, ", %2 (const): expected no operands, found 1");
    api_fault(spoil_where, ", %7 (cast): expected no condition, found one");
    api_fault(spoil_bounds, ", %6 (contract): expected both bounds or none, found one array");
    api_fault(spoil_gather,
              ", %6 (contract), operand 1: expected a value before it, found value %6");
}

static void test_signature(void **state) {
    (void)state;
    api_fault(spoil_input_param, ", %1 (input): expected a parameter, found number 7");
    api_fault(spoil_input_node,
              ", %1 (input): expected an input whose node is %1, found an output of %7\n"
              "graph f, %1 (input): expected type bf16, found i32");
    api_fault(spoil_input_type, ", %1 (input): expected type i32, found i8");
    api_fault(spoil_input_extent, ", %1 (input): expected extent 0 to be M, found K\n"
                                  "graph f, %6 (contract), operand 1: expected an index inside "
                                  "[0, K), or checked, or a launch check; found m");
    api_fault(spoil_size_name, ": size 1: expected a plain word, found 'a b'");
    api_fault(spoil_param_name, ": parameter 2: expected a name, found none");
    api_fault(spoil_param_node, ", parameter y: expected a node below 8, found %8");
    api_fault(spoil_param_type, ", parameter y: expected a type, found none");
    api_fault(spoil_check, ", check 0: expected an axis below 0, found axis 0");
    api_fault(spoil_check_e, ", check 0: expected an index expression, found none");
    api_fault(spoil_solve_size, ", solve 1: expected a size, found number 2\n"
                                "graph f: expected every size solved, found K unsolved");
    api_fault(spoil_solve_param, ", solve 0: expected a parameter, found number 3\n"
                                 "graph f: expected every size solved, found M unsolved");
    api_fault(spoil_solve_dim, ", solve 0: expected a dimension below 2, found 2\n"
                               "graph f, solve 1: expected a divisor > 0, found 0");
    api_fault(spoil_solve_num, ", solve 0: expected an expression, found none\n"
                               "graph f, solve 1: expected the extent %0, found %1");
    api_fault(spoil_expect, ", expect 0: expected ==, <= or <, found >");
    api_fault(spoil_edge, ", edge 0: expected nodes below 8, found %5 and %8");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_good),
        TEST(test_reads_of_programs),
        TEST(test_names),
        TEST(test_params),
        TEST(test_nodes),
        TEST(test_reductions),
        TEST(test_loops),
        TEST(test_reads),
        TEST(test_a_launch_check_covers_a_read),
        TEST(test_lists),
        TEST(test_structure),
        TEST(test_signature),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
