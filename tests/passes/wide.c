/* wide.c - passes take memory in proportion to a wide graph: n filtered sums, a launch check for
 * each, and one output that adds them all up. Counted in bytes of the arena, not in seconds, so
 * that it is the same on any machine; n proofs or walks of n nodes each would show in both.
 */
#include "passes/passes.h"

#include <string.h>

static void put_sum(Str *s, int k, int *id) {
    int v = *id;
    str_printf(s, "  %%%d: i64[j: N] = index j\n", v);
    str_printf(s, "  %%%d: i64 = const %d\n", v + 1, k);
    str_printf(s, "  %%%d: bool[j: N] = ne %%%d[j], %%%d\n", v + 2, v, v + 1);
    str_printf(s, "  %%%d: f32[i: N, j: N] = mul x[i, j], x[j, %d]\n", v + 3, k);
    str_printf(s, "  %%%d: f32[i: N; j: N] = sum %%%d[i, j] where %%%d[j]\n", v + 4, v + 3, v + 2);
    *id += 5;
}

static void put_graph(Str *s, int n) {
    int id = 1;
    str_add(s, "graph wide {\n  size N\n  in x: f32[N, N] = %0\n");
    for (int k = 0; k < n; k++) put_sum(s, k, &id);
    for (int k = 1; k < n; k++, id++)
        str_printf(s, "  %%%d: f32[i: N] = add %%%d[i], %%%d[i]\n", id, k == 1 ? 5 : id - 1,
                   5 * (k + 1));
    str_printf(s, "  out y: f32[N] = %%%d\n", id - 1);
    for (int k = 1; k < n; k++)
        str_printf(s, "  check N - %d >= 0: \"inside\", needed %d, found N, unless N*N\n", k + 1,
                   k + 1);
    str_add(s, "  solve N from x[0] = %0\n}\n");
}

/* Bytes that the passes take for n sums; 0: something is wrong. */
static size_t bytes_for(int n) {
    Arena arena = {0};
    Diags d = {.arena = &arena};
    PassCtx cx = {.arena = &arena, .target = target_at(0), .diags = &d, .fuse = true};
    Str s = {0}, why = {0};
    put_graph(&s, n);
    Graph *g = graph_parse(&arena, source_new(&arena, "wide", str_get(&s), s.n), &d);
    size_t before = arena.total;
    if (g && graph_verify(g, &why)) pass_run_all(&cx, g);
    if (!g) diag_print(&d, &why, false);
    bool fine = g && cx.plan && graph_verify(g, &why);
    if (!fine) fprintf(stderr, "wide %d: %s\n", n, str_get(&why));
    size_t taken = fine ? arena.total - before : 0;
    str_free(&s);
    str_free(&why);
    arena_free(&arena);
    return taken;
}

int main(void) {
    size_t narrow = bytes_for(40), wide = bytes_for(160);
    printf("40 sums: %zu bytes, 160: %zu\n", narrow, wide);
    return !narrow || !wide || wide > 5 * narrow;
}
