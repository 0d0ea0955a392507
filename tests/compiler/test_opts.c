/* test_opts.c - command lines from a table: every kind of option, every way to be wrong. */
#include "compiler/opts_int.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

typedef struct Options {
    bool loud;
    const char *out;
    int count;
    OptMany bind;
    int color;
    unsigned emit;
} Options;

static const OptRow rows[] = {
    {OPT_HEAD, 0, "Things", 0, NULL, NULL},
    {OPT_FLAG, offsetof(Options, loud), "loud", 'l', NULL, "say more"},
    {OPT_TEXT, offsetof(Options, out), "output", 'o', "FILE", "where to"},
    {OPT_INT, offsetof(Options, count), "count", 0, "N", "how many"},
    {OPT_MANY, offsetof(Options, bind), "bind", 0, "NAME=VALUE", "give a value"},
    {OPT_ONE, offsetof(Options, color), "color", 0, "auto|always|never", "colour"},
    {OPT_SET, offsetof(Options, emit), "emit", 0, "graph|ptx|report",
     "what to write, in so many words that the line has to be broken somewhere before its end"},
};
static const OptTable table = {"t", "t [options]", "A test.", rows, 7};

static Arena arena;
static Options o;
static OptMany inputs, rest;
static char why[256];

static bool parse(const char *line, bool with_rest) {
    OptMany words = {0};
    Str error = {0};
    opts_split(&arena, line, ' ', &words);
    memset(&o, 0, sizeof o);
    inputs = rest = (OptMany){0};
    bool ok = opts_parse(&arena, &table, words.n, (char **)(void *)words.v, &o, &inputs,
                         with_rest ? &rest : NULL, &error);
    snprintf(why, sizeof why, "%s", str_get(&error));
    str_free(&error);
    return ok;
}

static void every_kind(void **state) {
    (void)state;
    assert_true(
        parse("t -l a.fk --output=x --bind A=1 --bind=B=2 --color never --emit=ptx,graph", false));
    assert_true(o.loud);
    assert_string_equal(o.out, "x");
    assert_int_equal(o.count, -1);
    assert_int_equal(o.bind.n, 2);
    assert_string_equal(o.bind.v[1], "B=2");
    assert_int_equal(o.color, 2);
    assert_int_equal(o.emit, 3);
    assert_int_equal(inputs.n, 1);
    assert_true(parse("t -ofile --count=7 -", false));
    assert_string_equal(o.out, "file");
    assert_int_equal(o.count, 7);
    assert_int_equal(o.color, -1);
    assert_string_equal(inputs.v[0], "-");
}

static void two_dashes(void **state) {
    (void)state;
    assert_true(parse("t a -- -l b", false));
    assert_int_equal(inputs.n, 3);
    assert_false(o.loud);
    assert_true(parse("t a -- -l b", true));
    assert_int_equal(inputs.n, 1);
    assert_int_equal(rest.n, 2);
}

static void wrong(const char *line, const char *message) {
    assert_false(parse(line, false));
    assert_string_equal(why, message);
}

static void every_mistake(void **state) {
    (void)state;
    wrong("t --emti=ptx", "unknown option '--emti=ptx'; did you mean '--emit'?");
    wrong("t --zzzzzz", "unknown option '--zzzzzz'");
    wrong("t -x", "unknown option '-x'");
    wrong("t -lx", "unknown option '-lx'");
    wrong("t --loud=1", "--loud takes no value");
    wrong("t --output", "--output needs a value: --output=FILE");
    wrong("t --count=x", "--count=x: needs a number from 0 to 2147483647");
    wrong("t --count=99999999999", "--count=99999999999: needs a number from 0 to 2147483647");
    wrong("t --color=nevr", "--color=nevr: not one of auto|always|never; did you mean 'never'?");
    wrong("t --emit=ptx,,graph", "--emit=: not one of graph|ptx|report");
}

static void nearest(void **state) {
    (void)state;
    static const char *const words[] = {"fold", "contract", "cse"};
    assert_string_equal(opts_nearest("contarct", words, 3), "contract");
    assert_string_equal(opts_nearest("flod", words, 3), "fold");
    assert_null(opts_nearest("schedule", words, 3));
    assert_null(opts_nearest("a-word-much-longer-than-thirty-two-letters", words, 3));
}

static void help(void **state) {
    (void)state;
    Str s = {0};
    opts_help(&s, &table);
    assert_string_equal(
        str_get(&s),
        "usage: t [options]\n\nA test.\n\nThings:\n"
        "  -l, --loud              say more\n"
        "  -o, --output=FILE       where to\n"
        "  --count=N               how many\n"
        "  --bind=NAME=VALUE       give a value\n"
        "  --color=auto|always|never\n"
        "                          colour\n"
        "  --emit=graph|ptx|report what to write, in so many words that the line has to be broken\n"
        "                          somewhere before its end\n");
    str_free(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind), cmocka_unit_test(two_dashes), cmocka_unit_test(every_mistake),
        cmocka_unit_test(nearest),    cmocka_unit_test(help),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    arena_free(&arena);
    return failed;
}
