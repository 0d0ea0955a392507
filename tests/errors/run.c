/* run.c - the whole text of every error: for each RULE[.more].fk in a folder, what the front end
 * says about it must be RULE[.more].txt, and must speak of RULE. A first line "# bind: N=0 M=2"
 * stands for --bind N=0 --bind M=2. --update writes the .txt files; review the diff. Files that
 * others use are kept in subfolders, which are not looked at. */
#include "frontend/frontend.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char *slurp(const char *path) {
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    Str s = {0};
    char block[4096];
    size_t n;
    while ((n = fread(block, 1, sizeof block, f)) > 0) str_addn(&s, block, n);
    fclose(f);
    return s.s ? s.s : calloc(1, 1);
}

static bool speaks_of(const Diags *d, const char *rule, size_t len) {
    for (int i = 0; i < d->list.n; i++) {
        const char *r = d->list.v[i].rule;
        if (r && strlen(r) == len && !memcmp(r, rule, len)) return true;
    }
    return false;
}

static FrontendBinds binds_in(Arena *a, const char *path) {
    static const char head[] = "# bind: ";
    VEC(const char *) v = {0};
    char *text = slurp(path);
    bool any = text && !strncmp(text, head, strlen(head));
    char *line = any ? arena_strdup(a, text + strlen(head)) : "";
    free(text);
    if (any) line[strcspn(line, "\n")] = 0;
    for (char *s = any ? strtok(line, " ") : NULL; s; s = strtok(NULL, " ")) vec_push(a, &v, s);
    return (FrontendBinds){v.v, v.n};
}

static bool one(const char *name, bool update) {
    Arena a = {0};
    Diags d = {.arena = &a};
    FrontendBinds binds = binds_in(&a, name);
    Ast *ast = frontend_parse(&a, &d, &frontend_disk, name, NULL, 0);
    frontend_build(ast, &a, &d, &binds);
    Str got = {0};
    diag_print(&d, &got, false);
    char *path = arena_printf(&a, "%.*s.txt", (int)strlen(name) - 3, name);
    bool ok = speaks_of(&d, name, strcspn(name, "."));
    if (!ok) printf("FAIL %s: no message of this rule\n", name);
    if (update) {
        FILE *f = fopen(path, "wb");
        if (f) fputs(str_get(&got), f);
        if (!f || fclose(f)) ok = false;
    } else {
        char *want = slurp(path);
        if (!want || strcmp(want, str_get(&got))) {
            printf("FAIL %s\n--- expected\n%s--- got\n%s", name, want ? want : "(no file)\n",
                   str_get(&got));
            ok = false;
        }
        free(want);
    }
    str_free(&got);
    arena_free(&a);
    return ok;
}

static int is_program(const struct dirent *e) {
    size_t n = strlen(e->d_name);
    return n > 3 && !strcmp(e->d_name + n - 3, ".fk");
}

int main(int argc, char **argv) {
    bool update = argc > 2 && !strcmp(argv[1], "--update");
    if (argc < 2 || chdir(argv[argc - 1])) {
        fprintf(stderr, "usage: errors [--update] FOLDER\n");
        return 2;
    }
    struct dirent **list;
    int n = scandir(".", &list, is_program, alphasort), failed = 0;
    for (int i = 0; i < n; i++) {
        failed += !one(list[i]->d_name, update);
        free(list[i]);
    }
    if (n >= 0) free(list);
    printf("%d programs, %d failed\n", n, failed);
    return failed || n <= 0;
}
