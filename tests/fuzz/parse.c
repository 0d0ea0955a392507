/* parse.c - libFuzzer: any bytes give a tree or errors, and a tree that had no errors prints to
 * text that parses to the same text again. */
#include "frontend/frontend.h"

#include <stdlib.h>
#include <string.h>

static const char *no_files(void *ctx, Arena *a, const char *path, size_t *len, const char **why) {
    (void)ctx, (void)a, (void)path, (void)len;
    *why = "there are no files";
    return NULL;
}

static void print(Arena *a, Diags *d, const char *text, size_t len, Str *out) {
    FrontendReader none = {no_files, NULL};
    frontend_print(frontend_parse(a, d, &none, "fuzz.fk", text, len), out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Arena a = {0};
    Diags d = {.arena = &a};
    Str once = {0}, twice = {0}, text = {0};
    print(&a, &d, (const char *)data, size, &once);
    diag_print(&d, &text, true);
    if (!d.errors) {
        print(&a, &d, str_get(&once), once.n, &twice);
        if (d.errors || strcmp(str_get(&once), str_get(&twice))) abort();
    }
    str_free(&once);
    str_free(&twice);
    str_free(&text);
    arena_free(&a);
    return 0;
}
