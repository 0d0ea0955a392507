/* run.c - for each NAME.txt of a folder, a tile program and schedules for it: the PTX must be that
 * of NAME.ptx (one kernel after the other), and ptxas, where there is one, must take it without
 * spills. --update writes the .ptx files; review the diff.
 */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/backend.h"

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

static bool fail(const char *name, const char *what) {
    printf("FAIL %s: %s\n", name, what);
    return false;
}

static bool diagnosed(const char *name, const Diags *d) {
    Str s = {0};
    diag_print(d, &s, false);
    fail(name, str_get(&s));
    str_free(&s);
    return false;
}

/* The text of the next schedule; the one before it ends. */
static char *cut(char *text) {
    char *at = strstr(text, "\nschedule ");
    if (!at) return NULL;
    *at = 0;
    return at + 1;
}

static bool lower(Arena *a, const char *name, TProg *t, const char *text, const char *ptxas,
                  Str *out) {
    Diags d = {.arena = a};
    Str why = {0};
    Schedule *s = schedule_parse(a, source_new(a, name, text, strlen(text)), t, &d);
    if (!s) return diagnosed(name, &d);
    if (!schedule_verify(s, t, &why)) return fail(name, str_get(&why));
    const Target *target = target_named(s->target);
    Step step = {.name = t->name, .tile = t};
    BackendOptions o = {.target = target};
    Kernel k;
    if (!backend_lower(a, NULL, &step, s, &o, &d, &k, NULL)) return diagnosed(name, &d);
    str_add(out, k.ptx);
    if (!ptxas) return true;
    const char *message;
    if (ptxas_run(a, ptxas, &k, target->name, &message) != PTXAS_OK) return fail(name, message);
    if (k.stats.spill_bytes || k.stats.stack) return fail(name, "it spills");
    return true;
}

static bool one(const char *name, bool update, const char *ptxas) {
    Arena a = {0};
    Diags d = {.arena = &a};
    Str out = {0}, why = {0};
    char *text = slurp(name), *schedule = cut(text);
    TProg *t = tile_parse(&a, source_new(&a, name, text, strlen(text)), &d);
    bool ok = t ? true : diagnosed(name, &d);
    if (ok && !tile_verify(t, &why)) ok = fail(name, str_get(&why));
    if (ok && !schedule) ok = fail(name, "no schedule");
    while (ok && schedule) {
        char *next = cut(schedule);
        ok = lower(&a, name, t, schedule, ptxas, &out);
        schedule = next;
    }
    char *path = arena_printf(&a, "%.*s.ptx", (int)strlen(name) - 4, name);
    if (ok && update) {
        FILE *f = fopen(path, "wb");
        if (f) fputs(str_get(&out), f);
        if (!f || fclose(f)) ok = fail(name, "cannot write its .ptx");
    } else if (ok) {
        char *want = slurp(path);
        if (!want || strcmp(want, str_get(&out))) {
            ok = fail(name, "the PTX differs; it is now");
            printf("%s", str_get(&out));
        }
        free(want);
    }
    free(text);
    str_free(&out);
    str_free(&why);
    arena_free(&a);
    return ok;
}

static int is_case(const struct dirent *e) {
    size_t n = strlen(e->d_name);
    return n > 4 && !strcmp(e->d_name + n - 4, ".txt") && strcmp(e->d_name, "CMakeLists.txt");
}

int main(int argc, char **argv) {
    bool update = argc > 2 && !strcmp(argv[1], "--update");
    if (argc < 2 || chdir(argv[argc - 1])) {
        fprintf(stderr, "usage: ptx_run [--update] FOLDER\n");
        return 2;
    }
    Arena a = {0};
    const char *ptxas = ptxas_find(&a, NULL);
    if (!ptxas) printf("SKIP: no ptxas here, the PTX is compared but not assembled\n");
    struct dirent **list;
    int n = scandir(".", &list, is_case, alphasort), failed = 0;
    for (int i = 0; i < n; i++) {
        failed += !one(list[i]->d_name, update, ptxas);
        free(list[i]);
    }
    if (n >= 0) free(list);
    arena_free(&a);
    printf("%d passed, %d failed\n", n - failed, failed);
    return failed || n <= 0;
}
