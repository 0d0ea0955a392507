/* parse.c - what files in a folder cannot show: depth, size, line ends, files from memory. */
#include "frontend/frontend.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

static Arena arena;
static Diags diags;

static int setup(void **state) {
    (void)state;
    diags = (Diags){.arena = &arena};
    return 0;
}

static int teardown(void **state) {
    (void)state;
    arena_free(&arena);
    return 0;
}

static const char *no_files(void *ctx, Arena *a, const char *path, size_t *len, const char **why) {
    (void)ctx, (void)a, (void)path, (void)len;
    *why = "there are no files";
    return NULL;
}

static const char *parse_n(const char *text, size_t len) {
    FrontendReader none = {no_files, NULL};
    Ast *ast = frontend_parse(&arena, &diags, &none, "t.fk", text, len);
    Str out = {0};
    frontend_print(ast, &out);
    const char *s = arena_strdup(&arena, str_get(&out));
    str_free(&out);
    return s;
}

static const char *parse(const char *text) {
    return parse_n(text, strlen(text));
}

static void repeat(Str *s, const char *text, int n) {
    for (int i = 0; i < n; i++) str_add(s, text);
}

/* `n` times `left`, a name, `n` times `right`, as the value of a const. */
static void nested(const char *left, const char *right, int n) {
    Str s = {0};
    str_add(&s, "const A = ");
    repeat(&s, left, n);
    str_add(&s, "B");
    repeat(&s, right, n);
    parse(str_get(&s));
    str_free(&s);
}

static void too_deep(void) {
    assert_int_equal(diags.errors, 1);
    assert_string_equal(diags.list.v[0].rule, "nesting");
}

static void deep_is_an_error(void **state) {
    (void)state;
    static const struct {
        const char *left, *right;
    } ways[] = {{"(", ")"},
                {"exp(", ")"},
                {"x[", "]"},
                {"-", ""},
                {"not ", ""},
                {"", "^B"},
                {"", " + B"},
                {"", " * B"},
                {"", " and B"},
                {"sum[k] ", ""},
                {"(1 + ", ")"},
                {"softmax[k](", ")"},
                {"f32(", ")"},
                {"select(B, ", ")"},
                {"sum[k where ", "] B"},
                {"max[k in ", "] 1"},
                {"max[k] max(1, ", ")"}};
    static const int sizes[] = {1001, 5000, 100000};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        for (size_t j = 0; j < sizeof sizes / sizeof *sizes; j++) {
            diags = (Diags){.arena = &arena};
            nested(ways[i].left, ways[i].right, sizes[j]);
            too_deep();
            arena_free(&arena);
        }
}

static void not_so_deep_is_none(void **state) {
    (void)state;
    nested("(", ")", 999);
    nested("-", "", 998);
    nested("", " + B", 998);
    nested("", "^B", 998);
    assert_int_equal(diags.errors, 0);
}

static void open_only(void **state) {
    (void)state;
    nested("(", "", 100000);
    too_deep();
}

static void many_statements(void **state) {
    (void)state;
    Str s = {0};
    str_add(&s, "fn f(x: f32[M]) -> (y: f32[M])\n{\n");
    for (int i = 0; i < 20000; i++) str_printf(&s, "    t%d[m] = x[m] * %d\n", i, i);
    str_add(&s, "}\n");
    const char *once = parse(str_get(&s));
    assert_int_equal(diags.errors, 0);
    assert_string_equal(once, str_get(&s));
    str_free(&s);
}

static void too_large(void **state) {
    (void)state;
    Str s = {0};
    repeat(&s, "################\n", (16 << 20) / 17 + 2);
    parse_n(s.s, s.n);
    assert_int_equal(diags.errors, 1);
    assert_string_equal(diags.list.v[0].rule, "file");
    str_free(&s);
}

static void line_ends(void **state) {
    (void)state;
    const char *want = "const A = 3\nfn f(x: f32[M]) -> (y: f32[M])\n{\n    t[m] = x[m] + 1\n"
                       "    y[m] = t[m]\n}\n";
    static const char *const same[] = {
        "const A = 3\r\nfn f(x: f32[M])\r\n -> (y: f32[M])\r\n{\r\n t[m] = x[m] +\r\n 1\r\n"
        "\r\n y[m] = t[m]\r\n}\r\n",
        "\xEF\xBB\xBF"
        "const A = 3 # \xCE\xB1 \xFF\n\n\n# c\nfn f(x: f32[M]) -> (y: f32[M]) { "
        "t[m] = x[m] + 1 # c\n # c\n y[m] = t[m] }",
        "const A = 3\nfn f(\nx: f32[\nM]\n) ->\n(y: f32[M])\n\n{\n\n t[m]\n= x[m] + 1\n"};
    for (int i = 0; i < 2; i++) assert_string_equal(parse(same[i]), want);
    assert_int_equal(diags.errors, 0);
    parse(same[2]); /* a line that starts with '=' */
    assert_string_equal(diags.list.v[0].rule, "line-complete");
}

static void no_text(void **state) {
    (void)state;
    assert_string_equal(parse(""), "");
    assert_string_equal(parse("\n\n  # nothing"), "");
    assert_string_equal(parse_n("# a NUL \0 in a comment\n", 23), "");
    assert_int_equal(diags.errors, 0);
    parse_n("const A = 1 \0 + 2\n", 18);
    assert_int_equal(diags.errors, 1);
    assert_string_equal(diags.list.v[0].rule, "bad-character");
}

static const char *two_files(void *ctx, Arena *a, const char *path, size_t *len, const char **why) {
    static const char *const files[][2] = {
        {"lib/one.fk", "use \"../two.fk\"\nconst A = 1\n"},
        {"two.fk", "const B = 2\n"},
    };
    for (int i = 0; i < 2; i++)
        if (!strcmp(files[i][0], path)) {
            ++*(int *)ctx;
            *len = strlen(files[i][1]);
            return arena_strdup(a, files[i][1]);
        }
    *why = "it is not one of two";
    return NULL;
}

static void files_from_memory(void **state) {
    (void)state;
    int reads = 0;
    FrontendReader reader = {two_files, &reads};
    const char *text = "use \"lib/one.fk\"\nuse \"./lib/../two.fk\"\nuse \"lib/x/../one.fk\"\n";
    frontend_parse(&arena, &diags, &reader, "main.fk", text, strlen(text));
    assert_int_equal(diags.errors, 0);
    assert_int_equal(reads, 2);
    frontend_parse(&arena, &diags, &reader, "absent.fk", NULL, 0);
    assert_int_equal(diags.errors, 1);
    assert_string_equal(diags.list.v[0].text, "cannot read 'absent.fk': it is not one of two");
}

/* Every file uses the next one. */
static const char *endless(void *ctx, Arena *a, const char *path, size_t *len, const char **why) {
    (void)why;
    const char *text = arena_printf(a, "use \"%d.fk\"\n", ++*(int *)ctx);
    assert_non_null(path);
    *len = strlen(text);
    return text;
}

static void deep_use(void **state) {
    (void)state;
    int reads = 0;
    FrontendReader reader = {endless, &reads};
    frontend_parse(&arena, &diags, &reader, "main.fk", NULL, 0);
    assert_int_equal(diags.errors, 1);
    assert_string_equal(diags.list.v[0].rule, "use-depth");
}

static void disk(void **state) {
    (void)state;
    frontend_parse(&arena, &diags, &frontend_disk, ".", NULL, 0);
    assert_string_equal(diags.list.v[0].text, "cannot read '.': it is a directory");
    frontend_parse(&arena, &diags, &frontend_disk, "no/such.fk", NULL, 0);
    assert_string_equal(diags.list.v[1].text,
                        "cannot read 'no/such.fk': No such file or directory");
}

int main(void) {
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(deep_is_an_error), T(not_so_deep_is_none),
        T(open_only),        T(many_statements),
        T(too_large),        T(line_ends),
        T(no_text),          T(files_from_memory),
        T(deep_use),         T(disk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
