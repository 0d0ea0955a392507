/* run.c - text in, text out: run [--update] FOLDER. The folder's name is the pass.
 *
 * A test NN_fire_what.fkg or NN_keep_what.fkg is a graph, a line "----", and the graph that must
 * come out, or "(unchanged)" for keep. Comment lines "# strict", "# invariant", "# fast-accum" and
 * "# sm_NN" set options and the target (sm_80); "# short-rows" does what is worth it for long rows.
 * For each test: the input verifies, the output verifies, reads back as itself, is what is
 * expected, means the same (check.h), and the pass finds nothing more to do in it.
 */
#include "passes/passes.h"
#include "tests/passes/check.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

typedef struct Test {
    Arena arena;
    const char *path;
    char *input, *expected; /* expected: NULL when the file has no line "----" */
    Str why;
} Test;

static bool fail(Test *t, const char *what, const char *detail) {
    str_printf(&t->why, "%s: %s\n%s", t->path, what, detail);
    return false;
}

static char *read_file(Arena *a, const char *path) {
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    Str s = {0};
    char buf[4096];
    for (size_t n; (n = fread(buf, 1, sizeof buf, f));) str_addn(&s, buf, n);
    fclose(f);
    char *text = arena_strdup(a, str_get(&s));
    str_free(&s);
    return text;
}

static Graph *parse(Test *t, const char *what, const char *text) {
    Diags d = {.arena = &t->arena};
    Source *src = source_new(&t->arena, t->path, text, strlen(text));
    Graph *g = graph_parse(&t->arena, src, &d);
    Str s = {0};
    if (!g) {
        diag_print(&d, &s, false);
        fail(t, what, str_get(&s));
    } else if (!graph_verify(g, &s)) {
        fail(t, what, str_get(&s));
        g = NULL;
    }
    str_free(&s);
    return g;
}

static char *print_after(Test *t, const PassCtx *cx, const Graph *g, const Pass *p) {
    Str s = {0};
    pass_print(&s, cx, g, p);
    char *text = arena_strdup(&t->arena, str_get(&s));
    str_free(&s);
    return text;
}

static char *print(Test *t, const Graph *g) {
    Str s = {0};
    graph_print(&s, g);
    char *text = arena_strdup(&t->arena, str_get(&s));
    str_free(&s);
    return text;
}

static bool round_trip(Test *t, const char *text) {
    Graph *g = parse(t, "the output does not read back", text);
    return g &&
           (!strcmp(print(t, g), text) || fail(t, "the output reads back as another", print(t, g)));
}

/* Frames move, and stop lagging, as they would over far more elements than there are here. */
static void shrink_bounds(const TBlock *b) {
    for (int i = 0; i < b->inst.n; i++) {
        TInst *x = b->inst.v[i];
        for (int c = 0; c < x->carries.n; c++)
            if (x->carries.v[c].lag) x->carries.v[c].bound = 0.5;
        shrink_bounds(&x->body);
    }
}

static void shrink_frames(Plan *p) {
    for (int i = 0; i < p->steps.n; i++) {
        TProg *t = p->steps.v[i].tile;
        for (int a = 0; a < t->axes.n; a++)
            if (t->axes.v[a].tile > 1) t->axes.v[a].tile = t->axes.v[a].tile > 2 ? 2 : 1;
        shrink_bounds(&t->body);
    }
}

static PassCtx context(Test *t) {
    PassCtx cx = {.arena = &t->arena, .target = target_at(0), .fuse = true};
    for (int i = 1; target_at(i); i++)
        if (strstr(t->input, arena_printf(&t->arena, "# %s\n", target_at(i)->name)))
            cx.target = target_at(i);
    cx.strict = strstr(t->input, "# strict") != NULL;
    return cx;
}

/* A plan: its programs verify and mean what the graph means. The text is expected as it is. */
static char *transform_plan(Test *t, const Pass *pass) {
    PassCtx cx = context(t);
    cx.fast_accum = strstr(t->input, "# fast-accum") != NULL;
    cx.invariant = strstr(t->input, "# invariant") != NULL;
    Graph *g = parse(t, "bad input", t->input);
    if (!g) return NULL;
    for (int i = 0; pass_at(i) && pass_at(i) != pass; i++)
        if (pass_at(i)->flags & PASS_PLAN) pass_at(i)->run(&cx, g);
    pass->run(&cx, g);
    Str why = {0};
    bool ok = true;
    for (int i = 0; i < cx.plan->steps.n && ok; i++) {
        const Step *s = &cx.plan->steps.v[i];
        ok = tile_verify(s->tile, &why);
        for (int k = 0; k < s->schedules.n; k++)
            ok = ok && schedule_verify(s->schedules.v[k], s->tile, &why);
    }
    Check1 c = {.algebra = true, .rounds = 30, .seed = 1, .near = 1e-4};
    char *text = print_after(t, &cx, g, pass);
    for (int split = 1; split <= 3 && ok; split++) {
        ok = check_plan(g, cx.plan, split, &c, &why);
        shrink_frames(cx.plan);
    }
    if (!ok) fail(t, "the plan is wrong", str_get(&why));
    str_free(&why);
    return ok ? text : NULL;
}

/* The output of the pass, or "(unchanged)"; NULL on a fault. */
static char *transform(Test *t, const Pass *pass, bool keep) {
    PassCtx cx = context(t);
    cx.short_rows = strstr(t->input, "# short-rows") != NULL;
    Graph *g = parse(t, "bad input", t->input), *before;
    if (!g) return NULL;
    before = graph_clone(g, &t->arena);
    char *text = print(t, g);
    bool changed = pass->run(&cx, g);
    char *out = print(t, g);
    Str why = {0};
    bool ok = graph_verify(g, &why) || fail(t, "the output is not right", str_get(&why));
    ok = ok && round_trip(t, out);
    if (ok && changed == keep) ok = fail(t, keep ? "must not fire, but gave" : "must fire", out);
    if (ok && !changed && strcmp(text, out)) ok = fail(t, "says unchanged, but gave", out);
    Check1 c = {.algebra = pass->flags & PASS_ALG, .rounds = 30, .seed = 1};
    if (ok && !check_same(before, g, &c, &why)) ok = fail(t, "means something else", str_get(&why));
    if (ok && !c.elements) ok = fail(t, "no element was compared", "");
    if (ok && pass->run(&cx, g)) ok = fail(t, "fires again, giving", print(t, g));
    str_free(&why);
    return !ok ? NULL : changed ? out : arena_strdup(&t->arena, "(unchanged)\n");
}

static void split(Test *t, char *text) {
    char *line = strstr(text, "\n----\n");
    t->input = text;
    if (!line) return;
    line[1] = 0;
    t->expected = line + 6;
}

static bool update(const Test *t, const char *out) {
    FILE *f = fopen(t->path, "wb");
    if (!f) return false;
    fprintf(f, "%s----\n%s", t->input, out);
    return fclose(f) == 0;
}

static bool run_file(const Pass *pass, const char *path, bool updating) {
    Test t = {.path = path};
    char *text = read_file(&t.arena, path), *out = NULL;
    bool ok = text != NULL;
    if (ok) {
        split(&t, text);
        out = pass->flags & PASS_PLAN ? transform_plan(&t, pass)
                                      : transform(&t, pass, strstr(path, "_keep_") != NULL);
        ok = out != NULL;
    }
    if (ok && updating && (!t.expected || strcmp(out, t.expected)))
        ok = update(&t, out);
    else if (ok && (!t.expected || strcmp(out, t.expected)))
        ok = fail(&t, "expected otherwise; it gave", out);
    if (!ok) fprintf(stderr, "%s\n", str_get(&t.why));
    str_free(&t.why);
    arena_free(&t.arena);
    return ok;
}

static int is_test(const struct dirent *e) {
    size_t n = strlen(e->d_name);
    return n > 4 && !strcmp(e->d_name + n - 4, ".fkg");
}

int main(int argc, char **argv) {
    bool updating = argc > 2 && !strcmp(argv[1], "--update");
    const char *dir = argv[argc - 1], *name = argc > 1 ? strrchr(dir, '/') : NULL;
    const Pass *pass = name ? pass_named(name + 1) : NULL;
    struct dirent **list;
    int n = pass ? scandir(dir, &list, is_test, alphasort) : -1, failed = 0;
    if (n <= 0) {
        fprintf(stderr, "usage: run [--update] FOLDER, the name of a pass with tests in it\n");
        return 2;
    }
    for (int i = 0; i < n; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", dir, list[i]->d_name);
        failed += !run_file(pass, path, updating);
        free(list[i]);
    }
    free(list);
    printf("%s: %d tests, %d failed\n", pass->name, n, failed);
    return failed != 0;
}
