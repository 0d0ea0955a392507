/* The tokens, index expressions and names that all IR texts share. */
#include "graph_test.h"
#include "ir/text_int.h"

#include <math.h>

static Diags diags;

static Text open(const char *s) {
    diags = (Diags){.arena = &arena};
    Text t;
    text_open(&t, &arena, source_new(&arena, "test", s, strlen(s)), &diags);
    return t;
}

static const char *error_of(const Text *t) {
    assert_true(t->failed);
    assert_int_equal(diags.list.n, 1); /* the first one only */
    return diags.list.v[0].text;
}

static void test_tokens(void **state) {
    (void)state;
    Text t = open("  # head\n\n loop k.0 -> 12 <= 1.5e-3 0..16 \"a\\\"\\x09\\n\" %3 # tail\n}\n");
    assert_true(text_accept(&t, "loop"));
    assert_string_equal(text_name(&t), "k.0");
    assert_true(text_expect(&t, "->"));
    assert_int_equal(text_int(&t), 12);
    assert_true(text_accept(&t, "<="));
    assert_true(text_real(&t) == 1.5e-3);
    assert_int_equal(text_int(&t), 0);
    assert_true(text_accept(&t, ".."));
    assert_int_equal(text_int(&t), 16);
    assert_string_equal(text_string(&t), "a\"\t\n");
    assert_int_equal(text_value(&t, 4), 3);
    assert_int_equal(t.tok.kind, TOK_LINE);
    text_end_line(&t);
    assert_true(text_accept(&t, "}"));
    text_skip_lines(&t);
    assert_int_equal(t.tok.kind, TOK_END);
    assert_false(t.failed);
}

static void test_lines_do_not_count_in_brackets(void **state) {
    (void)state;
    Text t = open("[\n1,\n2]\n3");
    assert_true(text_accept(&t, "["));
    assert_int_equal(text_int(&t), 1);
    assert_true(text_accept(&t, ","));
    assert_int_equal(text_int(&t), 2);
    assert_true(text_accept(&t, "]"));
    assert_int_equal(t.tok.kind, TOK_LINE);
}

static void test_numbers(void **state) {
    (void)state;
    Text t = open("-9223372036854775808 -inf nan -0 9223372036854775807");
    assert_true(text_int(&t) == INT64_MIN);
    assert_true(text_real(&t) == (double)-INFINITY);
    assert_true(isnan(text_real(&t)));
    assert_true(signbit(text_real(&t)));
    assert_true(text_int(&t) == INT64_MAX);
    t = open("9223372036854775808");
    text_int(&t);
    assert_string_equal(error_of(&t), "an integer of more than 64 bits");
}

static void fails(const char *s, void (*read)(Text *), const char *want) {
    Text t = open(s);
    read(&t);
    assert_string_equal(error_of(&t), want);
    text_error(&t, "a second one is not kept");
    error_of(&t);
    assert_int_equal(text_int(&t), 0); /* neutral from here on */
    assert_string_equal(text_name(&t), "");
}

static void read_name(Text *t) {
    text_name(t);
}
static void read_string(Text *t) {
    text_string(t);
}
static void read_count(Text *t) {
    text_count(t, 4);
}
static void read_value(Text *t) {
    text_value(t, 4);
}
static void read_end(Text *t) {
    text_name(t);
    text_end_line(t);
}

static void test_errors(void **state) {
    (void)state;
    fails("3", read_name, "expected a name, found '3'");
    fails("", read_name, "expected a name, found the end of the text");
    fails("x", read_string, "expected a string, found 'x'");
    fails("4", read_count, "expected a number below 4, found '4'");
    fails("-1", read_count, "expected a number that is not negative");
    fails("%4", read_value, "%4 is not defined before this line");
    fails("x y", read_end, "expected the end of the line, found 'y'");
    fails("\"x\n\"", read_string, "this string does not end on its line, or has a bad escape");
    fails("\"\\q\"", read_string, "this string does not end on its line, or has a bad escape");
    fails("\"\\x00\"", read_string, "this string does not end on its line, or has a bad escape");
    fails("\x01", read_name, "a byte that is no text: 0x01");
}

static void test_names_that_are_no_words(void **state) {
    (void)state;
    const char *const names[] = {"where", "a b", "", "3x", "q\"\\\n\x01", "linear.0"};
    Str s = {0};
    for (int i = 0; i < 6; i++) {
        text_put_name(&s, names[i]);
        str_add(&s, " ");
    }
    assert_string_equal(str_get(&s), "where \"a b\" \"\" \"3x\" \"q\\\"\\\\\\n\\x01\" linear.0 ");
    Text t = open(str_get(&s));
    for (int i = 0; i < 6; i++) assert_string_equal(text_name(&t), names[i]);
    str_free(&s);
}

static void test_unique_names(void **state) {
    (void)state;
    const char *const want[] = {"m", "m", "m_1", NULL, "M", "a b"};
    const char *const taken[] = {"M", "i"};
    const char *const got[] = {"m", "m_1", "m_1_1", "i_1", "M_1", "i_2"};
    const char *const *u = text_unique(&arena, want, 6, taken, 2);
    for (int i = 0; i < 6; i++) assert_string_equal(u[i], got[i]);
    const char *const *again = text_unique(&arena, u, 6, taken, 2);
    for (int i = 0; i < 6; i++) assert_string_equal(again[i], got[i]);
}

/* ---- index expressions -------------------------------------------------------------------- */

static IxPool pool;
static const char *const sizes[] = {"M", "K", "min"};
static const char *const axes[] = {"i", "k"};

static const Ix *read_ix(Text *t) {
    Map named = {.arena = &arena};
    *map_puts(&named, "id") = 1;
    *map_puts(&named, "late") = 7;
    TextScope s = {&pool, sizes, 3, axes, 2, &named, 3};
    return text_ix(t, &s);
}

static void same_ix(const char *s, const char *want) {
    ix_pool_init(&pool, &arena);
    Text t = open(s);
    const Ix *x = read_ix(&t);
    if (t.failed) fail_msg("%s: %s", s, diags.list.v[0].text);
    Str out = {0};
    ix_print(&out, x, &(IxNames){.size = sizes, .axis = axes});
    assert_string_equal(str_get(&out), want);
    t = open(str_get(&out));
    assert_ptr_equal(read_ix(&t), x);
    str_free(&out);
}

static void test_index_expressions(void **state) {
    (void)state;
    same_ix("i + 2*k - 3", "i + 2*k - 3");
    same_ix("(i + k)*4/8", "(i + k)/2");
    same_ix("i%16 + i % %2", "i%%2 + i%16");
    same_ix("-(i + M)", "-i - M");
    same_ix("min(i, K) + max(k, 3) + min", "min + min(i, K) + max(k, 3)");
    same_ix("id[i, 2*k]*4", "4*%1[i, 2*k]");
    same_ix("id", "%1");
    same_ix("%2[id[i]]", "%2[%1[i]]");
    same_ix("-9223372036854775808", "-9223372036854775808");
    same_ix("i - -3", "i + 3");
    same_ix("128*(M/128) + -i*k", "-i*k + 128*(M/128)");
}

static void bad_ix(const char *s, const char *want) {
    ix_pool_init(&pool, &arena);
    Text t = open(s);
    assert_non_null(read_ix(&t));
    assert_string_equal(error_of(&t), want);
    assert_false(pool.overflow);
}

static void test_bad_index_expressions(void **state) {
    (void)state;
    bad_ix("i + j", "'j' is no axis, size or value here");
    bad_ix("late[i]", "'late' is no axis, size or value here");
    bad_ix("i[0]", "'i' is no axis, size or value here");
    bad_ix("%3", "%3 is not defined before this line");
    bad_ix("i/0", "a divisor must be positive");
    bad_ix("i%(2 - 4)", "a divisor must be positive");
    bad_ix("i +", "expected an index expression, found the end of the text");
    bad_ix("(i", "expected ')', found the end of the text");
    bad_ix("min(i)", "expected ',', found ')'");
    bad_ix("4000000000*4000000000*i", "an integer of more than 64 bits");
    char deep[3000];
    memset(deep, (int)40, 2500);
    deep[2500] = 0;
    bad_ix(deep, "nested deeper than 1500");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_tokens),
        TEST(test_lines_do_not_count_in_brackets),
        TEST(test_numbers),
        TEST(test_errors),
        TEST(test_names_that_are_no_words),
        TEST(test_unique_names),
        TEST(test_index_expressions),
        TEST(test_bad_index_expressions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
