/* choice_online.c - where the rule cuts the loop over j of attention with few rows: one query of
 * each sequence, four heads of queries to a head of keys, 128 wide. It does where tiles are fewer
 * than multiprocessors and j is long, or where few are left for a last round; not elsewhere.
 *
 *     passes_choice_online [-v]        -v: every schedule's prediction, in microseconds
 */
#include "passes/passes.h"

#include <string.h>

static const char text[] =
    "graph decode {\n  size B, H, T\n"
    "  in q: bf16[B, H, 128] = %0\n  in k: bf16[B, T, H/4, 128] = %1\n"
    "  in v: bf16[B, T, H/4, 128] = %2\n"
    "  %3: f32[b: B, h: H, j: T; e: 128] = contract q[b, h, e], k[b, j, h/4, e] @ roles bbnk\n"
    "  %4: f32[b: B, h: H; j: T] = max %3[b, h, j] @ loop 0\n"
    "  %5: f32[b: B, h: H, j: T] = sub %3[b, h, j], %4[b, h]\n"
    "  %6: f32[b: B, h: H, j: T] = exp %5[b, h, j]\n"
    "  %7: f32[b: B, h: H; j: T] = sum %6[b, h, j] @ loop 0 frame %4\n"
    "  %8: f32[b: B, h: H, e: 128; j: T] = contract %6[b, h, j], v[b, j, h/4, e]"
    " @ roles bbnk loop 0 frame %4\n"
    "  %9: f32[b: B, h: H, e: 128] = div %8[b, h, e], %7[b, h]\n"
    "  %10 o: bf16[b: B, h: H, e: 128] = cast %9[b, h, e] @ store step 0\n"
    "  out o: bf16[B, H, 128] = %10\n"
    "  check -(H%4) >= 0: \"H must be a multiple of 4\", needed 4, found H\n"
    "  solve B from q[0] = %0\n  solve H from q[1] = %0\n  solve T from k[1] = %0\n}\n";

typedef struct Shape {
    int64_t b, h, t;
    bool split;
} Shape;

static const Shape shapes[] = {
    {1, 32, 131072, true}, {1, 32, 8192, true},
    {2, 32, 32768, true},  {1, 4, 131072, true}, /* one tile */
    {8, 32, 4096, true},                         /* 64 tiles: two parts of each */
    {9, 32, 4096, false},                        /* 72: no room for two */
    {16, 32, 8192, false},                       /* 128 */
    {33, 16, 4096, false},                       /* a full round */
    {17, 32, 8192, true},                        /* 4 more than that */
    {64, 32, 4096, false}, {1, 32, 512, false},  /* too short */
    {1, 32, 1, false},
};

static const Schedule *cheapest(const Step *s, const Shape *at, bool verbose) {
    const Schedule *best = NULL;
    int64_t least = 0;
    IxEnv env = {.size = (int64_t[]){at->b, at->h, at->t}};
    for (int i = 0; i < s->schedules.n; i++) {
        const Schedule *c = s->schedules.v[i];
        bool ok = true;
        if (!c->cost) continue;
        int64_t ns = ix_eval(c->cost, &env, &ok);
        if (verbose) printf("  %-40s %9.2f\n", c->name, (double)ns / 1000);
        if (!ok || (best && ns >= least)) continue;
        best = c, least = ns;
    }
    return best;
}

int main(int argc, char **argv) {
    bool verbose = argc > 1 && !strcmp(argv[1], "-v");
    Arena arena = {0};
    Diags d = {.arena = &arena};
    PassCtx cx = {.arena = &arena, .target = target_named("sm_90a"), .diags = &d, .fuse = true};
    Graph *g = graph_parse(&arena, source_new(&arena, "decode", text, strlen(text)), &d);
    if (!g) return 1;
    pass_named("schedule")->run(&cx, g);
    int failed = 0;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const Shape *s = &shapes[i];
        if (verbose)
            printf("B %lld H %lld T %lld\n", (long long)s->b, (long long)s->h, (long long)s->t);
        const Schedule *c = cheapest(&cx.plan->steps.v[0], s, verbose);
        bool ok = c && (c->split > 1) == s->split;
        printf("%s B %lld H %lld T %lld: %s\n", ok ? "ok" : "FAIL", (long long)s->b,
               (long long)s->h, (long long)s->t, c ? c->name : "none");
        failed += !ok;
    }
    arena_free(&arena);
    return failed > 0;
}
