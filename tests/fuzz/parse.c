/* parse.c - libFuzzer: any bytes give a tree or errors; a tree that had no errors prints to text
 * that parses to the same text again, and gives graphs that the verifier passes, or errors. */
#include "frontend/frontend.h"
#include "ir/ir.h"

#include <string.h>

static const char *no_files(void *ctx, Arena *a, const char *path, size_t *len, const char **why) {
    (void)ctx, (void)a, (void)path, (void)len;
    *why = "there are no files";
    return NULL;
}

static Ast *parse(Arena *a, Diags *d, const char *text, size_t len, Str *out) {
    FrontendReader none = {no_files, NULL};
    Ast *ast = frontend_parse(a, d, &none, "fuzz.fk", text, len);
    frontend_print(ast, out);
    return ast;
}

static void check_graphs(const FrontendFns *r) {
    for (int i = 0; i < r->fns.n; i++) {
        Str why = {0};
        if (!graph_verify(r->fns.v[i], &why)) FK_BUG("%s", str_get(&why));
        str_free(&why);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Arena a = {0};
    Diags d = {.arena = &a};
    Str once = {0}, twice = {0}, text = {0};
    Ast *ast = parse(&a, &d, (const char *)data, size, &once);
    if (!d.errors) {
        parse(&a, &d, str_get(&once), once.n, &twice);
        if (d.errors || strcmp(str_get(&once), str_get(&twice)))
            FK_BUG("the printed tree reads back as another");
        check_graphs(frontend_build(ast, &a, &d, NULL));
    }
    diag_print(&d, &text, true);
    str_free(&once);
    str_free(&twice);
    str_free(&text);
    arena_free(&a);
    return 0;
}
