/* Rule 2: ranges of indices, and reads inside, guarded, launch-checked, data-dependent or never. */
#include "graph_test.h"
#include "ir/text_int.h"

/* The sizes and dimensions of the programs whose reads are judged below. */
static const char signature[] = "graph f {\n"
                                "  size S, T, H, E, K, N, G, D\n"
                                "  in q: bf16[S, H, E] = %0\n"
                                "  in kc: bf16[T, H/8, E] = %1\n"
                                "  in tab: i32[T/16] = %2\n"
                                "  in sc: f32[N/128, K/64] = %3\n"
                                "  in sk: f32[K/128] = %4\n"
                                "  in gq: f32[D/G] = %5\n"
                                "  %6: f32[s: S, t: T, h: H, e: E, k: K, n: N, d: D, r: 4] = "
                                "copy q[s, h, e]\n"
                                "  out y: f32[S, T, H, E, K, N, D, 4] = %6\n"
                                "}\n";
static Graph *g;
enum { NODE = 6 };

static int setup(void **state) {
    (void)state;
    g = parse(signature);
    return 0;
}

#define WITH_GRAPH(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

static const Ix *ix(const char *text) {
    Diags d = {.arena = &arena};
    Text t;
    text_open(&t, &arena, source_new(&arena, "ix", text, strlen(text)), &d);
    IxNames names = graph_names(g, g->nodes.v[NODE]);
    Map value = {.arena = &arena};
    *map_puts(&value, "tab") = 2;
    TextScope s = {g->ix, names.size, g->sizes.n, names.axis, g->nodes.v[NODE]->naxes, &value, 6};
    const Ix *x = text_ix(&t, &s);
    if (t.failed) fail_msg("%s: %s", text, d.list.v[0].text);
    return x;
}

/* Extents of the axes that occur in the list; the others are not in the domain. */
static const Ix *const *domain(const char *axes) {
    const Node *n = g->nodes.v[NODE];
    const Ix **e = ARENA_ARRAY(&arena, const Ix *, n->naxes);
    for (int i = 0; i < n->naxes; i++)
        if (strstr(axes, n->axes[i].name)) e[i] = n->axes[i].extent;
    return e;
}

static BoundResult bound(const char *index, const char *dim, const char *axes,
                         const char *const *guard, int n) {
    const Ix *facts[4];
    for (int i = 0; i < n; i++) facts[i] = ix(guard[i]);
    return infer_bound(g, ix(index), ix(dim), domain(axes), g->nodes.v[NODE]->naxes, facts, n);
}

static const char *const bound_name[] = {"proved", "data", "launch", "never"};

static void reads(const char *index, const char *dim, const char *axes, const char *want) {
    BoundResult b = bound(index, dim, axes, NULL, 0);
    const char *got = bound_name[b.bound];
    if (b.lo)
        got = arena_printf(&arena, "%s %s .. %s", got, ix_text(g, NODE, b.lo),
                           ix_text(g, NODE, b.hi));
    if (strcmp(got, want)) fail_msg("%s over %s: want %s, got %s", index, dim, want, got);
    assert_false(b.guarded);
}

static void test_plain_reads(void **state) {
    (void)state;
    reads("s", "S", "s", "proved");
    reads("s", "T", "s", "launch 0 .. S - 1");
    reads("s + 1", "S", "s", "never 1 .. S");
    reads("s - 1", "S", "s", "never -1 .. S - 2");
    reads("s + T - 1", "S + T", "s", "launch T - 1 .. S + T - 2"); /* T may be 0 */
    reads("5", "3", "", "never 5 .. 5");
    reads("2", "3", "", "proved");
    reads("2*d + 1", "2*D", "d", "proved");
    reads("2*d + 2", "2*D", "d", "never 2 .. 2*D");
    reads("S - s - 1", "S", "s", "proved");
}

static void test_alignment_of_two_sizes(void **state) {
    (void)state;
    reads("s - t + T - 1", "S + T", "s t", "proved");
    reads("s - t + T", "S + T", "s t", "proved");
    reads("s - t + T - 2", "S + T", "s t", "never -1 .. S + T - 3");
    reads("s + T - S", "T", "s", "launch -S + T .. T - 1");
}

static void test_rotation(void **state) {
    (void)state;
    reads("(e + E/2)%E", "E", "e", "proved");
    reads("(e - 1)%E", "E", "e", "proved");
    reads("t%16", "16", "t", "proved");
    reads("t%17", "16", "t", "launch 0 .. min(T - 1, 16)");
    reads("(s + t)%17", "16", "s t", "data"); /* the greatest index has no closed form */
    reads("(t + 3)%T", "K", "t k", "launch 0 .. T - 1");
    reads("t - t%16", "T", "t", "data");
    reads("t/16*16", "T", "t", "proved");
    reads("e%K", "S", "e k s", "launch 0 .. min(E - 1, K - 1)");
    reads("e%K", "E", "e k", "proved");
}

static void test_exact_quotients(void **state) {
    (void)state;
    reads("h/8", "H/8", "h", "proved");
    reads("t/16", "T/16", "t", "proved");
    reads("k/64", "K/64", "k", "proved"); /* K is divided by 128 and by 64 */
    reads("k/128", "K/128", "k", "proved");
    reads("k/32", "2*(K/64)", "k", "proved");
    reads("n/128", "N/128", "n", "proved");
    reads("d/G", "D/G", "d", "proved");
    reads("8*(h/8) + 7", "H", "h", "proved");
    reads("h/4", "H/8", "h", "never 0 .. (H + 3)/4 - 1");
    reads("h/16", "H/16", "h",
          "launch 0 .. (H + 15)/16 - 1"); /* no dimension says that 16 divides H */
    reads("s/8", "S/8", "s", "launch 0 .. (S + 7)/8 - 1");
    reads("s/128", "(S + 127)/128", "s", "proved");
}

static void test_a_size_outside_the_domain_may_be_0(void **state) {
    (void)state;
    reads("0", "K", "s", "launch 0 .. 0");
    reads("0", "K", "k", "proved");
    reads("K - 1", "K", "s", "launch K - 1 .. K - 1");
    reads("0", "(K + 127)/128", "k", "proved");
    reads("0", "K/128", "s", "launch 0 .. 0");
    reads("0", "K/128", "k", "proved");
    reads("0", "S + 1", "", "proved");
}

static void test_data(void **state) {
    (void)state;
    reads("tab[t/16]", "S", "t", "data");
    reads("tab[t/16]%4", "4", "t", "proved");
    reads("tab[t/16] + s", "S", "s t", "data");
    reads("min(max(tab[0], 0), S - 1)", "S", "s", "proved");
}

static void guarded(const char *index, const char *dim, const char *axes, const char *guard,
                    const char *guard2, const char *want) {
    const char *const list[] = {guard, guard2};
    BoundResult b = bound(index, dim, axes, list, guard2 ? 2 : 1);
    const char *got =
        arena_printf(&arena, "%s%s", b.guarded ? "guarded " : "", bound_name[b.bound]);
    if (b.lo)
        got = arena_printf(&arena, "%s %s .. %s", got, ix_text(g, NODE, b.lo),
                           ix_text(g, NODE, b.hi));
    if (strcmp(got, want)) fail_msg("%s under %s: want %s, got %s", index, guard, want, got);
}

static void test_guards(void **state) {
    (void)state;
    guarded("t - r", "T", "t r", "t - r", NULL, "guarded proved");
    guarded("t - r - 1", "T", "t r", "t - r - 1", NULL, "guarded proved");
    guarded("t", "T", "t", "t - 1", NULL, "proved");
    guarded("t + 1", "T", "t", "T - t - 2", NULL, "guarded proved");
    guarded("t", "S", "t", "S - t - 1", NULL, "guarded proved");
    guarded("s - t", "S", "s t", "s - t", "4095 - s + t", "guarded proved");
    /* a guard that does not suffice still narrows what is checked at launch */
    guarded("s - t", "N", "s t n", "s - t", "4095 - s + t",
            "guarded launch max(-T + 1, 0) .. min(S - 1, 4095)");
    guarded("t - r", "T", "t r", "s - t", NULL, "never -3 .. T - 1");
    guarded("tab[0]", "S", "s t", "tab[0]", "S - tab[0] - 1", "guarded proved");
}

static void test_nonneg(void **state) {
    (void)state;
    const Ix *fact = ix("T - S");
    assert_false(infer_nonneg(g, ix("T - s - 1"), domain("s"), 8, NULL, 0));
    assert_true(infer_nonneg(g, ix("T - s - 1"), domain("s"), 8, &fact, 1));
    assert_true(infer_nonneg(g, ix("H - 8"), domain("h"), 8, NULL, 0));
    assert_false(infer_nonneg(g, ix("H - 8"), domain("s"), 8, NULL, 0));
    assert_true(infer_nonneg(g, ix("8*(H/8) - H"), NULL, 0, NULL, 0));
}

static void test_exact_list(void **state) {
    (void)state;
    const Exact *e;
    static const char *const want[] = {"H/8", "T/16", "N/128", "K/64", "K/128", "D/G"};
    static const char *const check[] = {"-(H%8)",  "-(T%16)",  "-(N%128)",
                                        "-(K%64)", "-(K%128)", "-(D%G)"};
    assert_int_equal(infer_exact(g, &e), 6);
    for (int i = 0; i < 6; i++) {
        assert_string_equal(ix_text(g, NODE, e[i].quotient), want[i]);
        assert_string_equal(ix_text(g, NODE, e[i].check), check[i]);
    }
    assert_int_equal(e[3].param, 3);
    assert_int_equal(e[3].dim, 1);
}

/* ---- ranges ------------------------------------------------------------------------------- */

static void range(const RangeUse *uses, int n, const char *want, int from, int clash) {
    Range r = infer_range(g, uses, n);
    assert_string_equal(ix_text(g, NODE, r.extent), want);
    assert_int_equal(r.from, from);
    assert_int_equal(r.clash, clash);
}

#define BARE(text)    {.dim = ix(text), .c = 1}
#define BY(text, k)   {.dim = ix(text), .c = k}
#define WRITTEN(text) {.dim = ix(text), .c = 1, .written = true}
#define USES(...)                                                                                  \
    (RangeUse[]){__VA_ARGS__}, (int)(sizeof(RangeUse[]){__VA_ARGS__} / sizeof(RangeUse))

static void test_ranges(void **state) {
    (void)state;
    range(NULL, 0, "none", -1, -1);
    range(USES(BARE("S")), "S", 0, -1);
    range(USES(BARE("S"), BARE("S")), "S", 0, -1);
    range(USES(BARE("S"), BARE("T")), "S", 0, 1);
    range(USES(BARE("2*D"), BARE("D + D")), "2*D", 0, -1);
    range(USES(BY("S", 4)), "4*S", 0, -1);
    range(USES(BY("K/128", 128)), "K", 0, -1);
    range(USES(BY("K/64", 128)), "2*K", 0, -1);
    range(USES(BY("S/8", 8)), "8*(S/8)", 0, -1); /* no dimension of a parameter: floor */
    range(USES(BY("K/128", 128), BARE("K")), "K", 1, -1);
    range(USES(BY("S", 4), BARE("T")), "T", 1, -1); /* t/4 over S is then a read to be proved */
    range(USES(BY("S", 4), BY("T", 4)), "4*S", 0, 1);
    range(USES(BY("K/128", 128), BY("K/64", 64)), "K", 0, -1);
    range(USES(BARE("S"), WRITTEN("4"), BARE("T")), "4", 1, -1);
    range(USES(WRITTEN("4"), WRITTEN("5")), "4", 0, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_GRAPH(test_plain_reads),
        WITH_GRAPH(test_alignment_of_two_sizes),
        WITH_GRAPH(test_rotation),
        WITH_GRAPH(test_exact_quotients),
        WITH_GRAPH(test_a_size_outside_the_domain_may_be_0),
        WITH_GRAPH(test_data),
        WITH_GRAPH(test_guards),
        WITH_GRAPH(test_nonneg),
        WITH_GRAPH(test_exact_list),
        WITH_GRAPH(test_ranges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
