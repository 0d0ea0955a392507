/* build.c - every program is accepted or refused as its first line says. What is accepted has
 * graphs that the verifier passes and whose text reads back. --print shows the graphs. */
#include "frontend/frontend.h"
#include "ir/ir.h"

#include <string.h>

static bool graph_ok(Arena *a, Diags *d, const Graph *g, bool print) {
    Str text = {0}, again = {0}, why = {0};
    graph_print(&text, g);
    if (print) printf("%s", str_get(&text));
    bool ok = graph_verify(g, &why);
    if (!ok) printf("%s%s", str_get(&text), str_get(&why));
    Graph *back = graph_parse(a, source_new(a, g->name, str_get(&text), text.n), d);
    if (back) graph_print(&again, back);
    if (ok && strcmp(str_get(&text), str_get(&again))) {
        printf("%s reads back as\n%s", str_get(&text), str_get(&again));
        ok = false;
    }
    str_free(&text);
    str_free(&again);
    str_free(&why);
    return ok;
}

static bool check(const char *path, bool print) {
    Arena a = {0};
    Diags d = {.arena = &a};
    size_t len = 0;
    const char *why = "", *text = frontend_disk.read(NULL, &a, path, &len, &why);
    if (!text) {
        printf("FAIL %s: %s\n", path, why);
        return false;
    }
    bool refused = !strncmp(text, "# refused", 9);
    Ast *ast = frontend_parse(&a, &d, &frontend_disk, path, text, len);
    FrontendFns *r = frontend_build(ast, &a, &d, NULL);
    bool ok = refused == (d.errors > 0) && (refused || r->fns.n + r->left.n > 0);
    for (int i = 0; i < r->fns.n; i++) ok &= graph_ok(&a, &d, r->fns.v[i], print);
    if (!ok || print) {
        Str s = {0};
        diag_print(&d, &s, false);
        printf("%s %s%s\n%s", ok ? "ok" : "FAIL", path, refused ? " (refused)" : "", str_get(&s));
        str_free(&s);
    }
    arena_free(&a);
    return ok;
}

int main(int argc, char **argv) {
    bool print = argc > 1 && !strcmp(argv[1], "--print");
    int failed = argc < 2 + print, n = 0;
    for (int i = 1 + print; i < argc; i++, n++) failed += !check(argv[i], print);
    printf("%d programs, %d failed\n", n, failed);
    return failed != 0;
}
