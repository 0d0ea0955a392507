/* choice.c - which schedule the rule takes for a product of matrices with an epilogue, at shapes
 * that were measured: the one that was best on the GPU, or one that came close.
 *
 *     passes_choice [-v]        -v: every schedule's prediction, in microseconds
 */
#include "passes/passes.h"

#include <string.h>

static const char text[] = "graph linear {\n"
                           "  size M, N, K\n"
                           "  in x: bf16[M, K] = %0\n  in w: bf16[N, K] = %1\n"
                           "  in b: bf16[N] = %2\n"
                           "  %3: f32[m: M, n: N; k: K] = contract x[m, k], w[n, k] @ roles mnk\n"
                           "  %4: f32[m: M, n: N] = add %3[m, n], b[n]\n"
                           "  %5: bf16[m: M, n: N] = cast %4[m, n] @ store step 0\n"
                           "  out y: bf16[M, N] = %5\n}\n";

typedef struct Shape {
    int64_t m, n, k;
    const char *good; /* any of these */
} Shape;

static const Shape shapes[] = {
    {4096, 4096, 4096, "coop_128x256_2x1 coop_256x128_1x2"},
    {8192, 8192, 8192, "pingpong_192x128_1x2"},
    {8192, 8192, 1024, "pingpong_192x128_1x2"},
    {8192, 8192, 512, "pingpong_128x128"},
    /* rows that do not begin at cache lines: pairs of CTAs read less */
    {15000, 3000, 12008, "coop_128x256_2x1 coop_256x128_1x2"},
    {6000, 12000, 8008, "pingpong_192x128_1x2"},
    {10339, 9360, 4616, "pingpong_192x128_1x2"},
    {2331, 2848, 1704, "coop_128x256_2x1 coop_256x128_1x2"},
    {16384, 4096, 4096, "pingpong_192x128_1x2"},
    {1000, 4104, 4096, "coop_256x128"},
    {512, 4096, 4096, "coop_128x128"},
    {256, 4096, 4096, "pingpong_64x128"},
    {64, 4096, 4096, "thin_64x32"},
    {16, 4096, 4096, "swap_64x16"},
    {1, 8192, 8192, "swap_64x16"},
    {8, 14336, 4096, "swap_64x16 thin_64x32"},
    {33, 8192, 8192, "pingpong_64x128"},
    {64, 8192, 8192, "pingpong_64x128"},
    {33, 4096, 4096, "thin_64x32 swap_64x16_split"},
    {40, 2048, 8192, "swap_64x16 swap_64x16_split"},
    {16, 512, 16384, "swap_64x16_split"},
    {64, 512, 8192, "swap_64x16_split"},
    {512, 512, 16384, "direct_128x128_2x1_split"},
    {512, 512, 4096, "thin_64x32"},
};

static const Schedule *cheapest(const Step *s, const Shape *at, bool verbose) {
    const Schedule *best = NULL;
    int64_t least = 0;
    IxEnv env = {.size = (int64_t[]){at->m, at->n, at->k}};
    for (int i = 0; i < s->schedules.n; i++) {
        const Schedule *c = s->schedules.v[i];
        bool ok = true;
        if (!c->cost) continue;
        int64_t ns = ix_eval(c->cost, &env, &ok);
        if (verbose) printf("  %-20s %9.2f\n", c->name, (double)ns / 1000);
        if (!ok || (best && ns >= least)) continue;
        best = c, least = ns;
    }
    return best;
}

static bool listed(const char *list, const char *name) {
    size_t n = strlen(name);
    for (const char *at = list; (at = strstr(at, name)); at += n)
        if ((at == list || at[-1] == ' ') && (at[n] == ' ' || !at[n])) return true;
    return false;
}

int main(int argc, char **argv) {
    bool verbose = argc > 1 && !strcmp(argv[1], "-v");
    Arena arena = {0};
    Diags d = {.arena = &arena};
    PassCtx cx = {.arena = &arena, .target = target_named("sm_90a"), .diags = &d, .fuse = true};
    Graph *g = graph_parse(&arena, source_new(&arena, "linear", text, strlen(text)), &d);
    if (!g) return 1;
    pass_named("schedule")->run(&cx, g);
    int failed = 0;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const Shape *s = &shapes[i];
        if (verbose) printf("%lldx%lldx%lld\n", (long long)s->m, (long long)s->n, (long long)s->k);
        const Schedule *c = cheapest(&cx.plan->steps.v[0], s, verbose);
        bool ok = c && listed(s->good, c->name);
        printf("%s %lldx%lldx%lld: %s, one of: %s\n", ok ? "ok" : "FAIL", (long long)s->m,
               (long long)s->n, (long long)s->k, c ? c->name : "none", s->good);
        failed += !ok;
    }
    arena_free(&arena);
    return failed > 0;
}
