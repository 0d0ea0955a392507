/* graph_test.h - an arena a test, and graphs from text. */
#ifndef FK_TESTS_GRAPH_TEST_H
#define FK_TESTS_GRAPH_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "ir/graph.h"
#include "ir/infer.h"

static Arena arena;

static inline int teardown(void **state) {
    (void)state;
    arena_free(&arena);
    return 0;
}

#define TEST(f) cmocka_unit_test_teardown(f, teardown)

/* Text to graph; the test fails with the diagnostics when it does not read. */
static inline Graph *parse(const char *text) {
    Diags d = {.arena = &arena};
    Graph *g = graph_parse(&arena, source_new(&arena, "test", text, strlen(text)), &d);
    if (!g) {
        Str out = {0};
        diag_print(&d, &out, false);
        print_error("%s", str_get(&out));
        str_free(&out);
        fail();
    }
    return g;
}

static inline const char *printed(const Graph *g) {
    Str out = {0};
    graph_print(&out, g);
    const char *text = arena_strdup(&arena, str_get(&out));
    str_free(&out);
    return text;
}

static inline const char *faults(const Graph *g) {
    Str why = {0};
    bool ok = graph_verify(g, &why);
    assert_int_equal(ok, why.n == 0);
    const char *text = arena_strdup(&arena, str_get(&why));
    str_free(&why);
    return text;
}

/* An index expression over the axes and sizes of node n of g. */
static inline const char *ix_text(const Graph *g, int n, const Ix *x) {
    if (!x) return "none";
    Str out = {0};
    IxNames names = graph_names(g, g->nodes.v[n]);
    ix_print(&out, x, &names);
    const char *text = arena_strdup(&arena, str_get(&out));
    str_free(&out);
    return text;
}

#endif
