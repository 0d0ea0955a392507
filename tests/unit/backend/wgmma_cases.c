/* wgmma_cases.c - see wgmma_cases.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/unit/backend/wgmma_cases.h"

Arena case_arena;

/* ---- programs ------------------------------------------------------------------------------- */

/* y[m, n] = gelu_tanh(x w^T + b) */
const char gelu[] = "tile t.0 {\n"
                    "  size M, K, N\n"
                    "  in x: bf16[M, K] = 0\n  in w: bf16[N, K] = 1\n"
                    "  in b: bf16[N] = 2\n  out y: bf16[M, N] = 3\n"
                    "  grid m: M\n  grid n: N\n  axis k: K\n"
                    "  loop k from 0 to K {\n"
                    "    carry %1: f32 = sum\n"
                    "    %2: bf16 = load x[m, k]\n    %3: bf16 = load w[n, k]\n"
                    "    %4: f32 = mul %2, %3\n    step %1, %4\n  }\n"
                    "  %5: bf16 = load b[n]\n  %6: f32 = add %1, %5\n"
                    "  %7: f32 = const 0.044715\n  %8: f32 = mul %6, %6\n"
                    "  %9: f32 = mul %8, %6\n  %10: f32 = mul %7, %9\n"
                    "  %11: f32 = add %6, %10\n  %12: f32 = const 1.5957691669464111\n"
                    "  %13: f32 = mul %12, %11\n  %14: f32 = sigmoid %13\n"
                    "  %15: f32 = mul %6, %14\n  %16: bf16 = cast %15\n"
                    "  store y[m, n], %16\n}\n";

/* Row and column vectors, a transposed matrix, index values, a choice, two outputs of two types. */
const char two_outputs[] =
    "tile t.0 {\n"
    "  size M, K, N\n"
    "  in a: bf16[M, K] = 0\n  in w: bf16[N, K] = 1\n  in r: f32[M] = 2\n  in c: bf16[N] = 3\n"
    "  in s: f32 = 4\n  out pre: f32[M, N] = 6\n  in t: bf16[N, M] = 7\n  out y: bf16[M, N] = 5\n"
    "  grid m: M\n  grid n: N\n  axis k: K\n"
    "  loop k from 0 to K {\n"
    "    carry %1: f32 = sum\n"
    "    %2: bf16 = load a[m, k]\n    %3: bf16 = load w[n, k]\n"
    "    %4: f32 = mul %2, %3\n    step %1, %4\n  }\n"
    "  %5: f32 = load r[m]\n  %6: f32 = mul %1, %5\n  %7: bf16 = load c[n]\n"
    "  %8: f32 = add %6, %7\n  store pre[m, n], %8\n"
    "  %9: i64 = index n\n  %10: i64 = index m\n  %11: bool = le %9, %10\n"
    "  %12: f32 = sigmoid %8\n  %13: bf16 = load t[n, m]\n  %14: f32 = select %11, %12, %13\n"
    "  %15: i64 = index m - n\n  %16: f32 = load s\n  %17: f32 = mul %15, %16\n"
    "  %18: f32 = add %14, %17\n  %19: bf16 = cast %18\n  store y[m, n], %19\n}\n";

/* Two batch axes, one of which the second factor shares among 4. */
const char batched[] =
    "tile t.0 {\n"
    "  size B, H, M, K, N\n"
    "  in a: f16[B, H, M, K] = 0\n  in w: f16[H/4, N, K] = 1\n  in bias: f32[1, H, 1, N] = 2\n"
    "  out y: f16[B, H, M, N] = 3\n"
    "  grid b: B\n  grid h: H\n  grid m: M\n  grid n: N\n  axis k: K\n"
    "  loop k from 0 to K {\n"
    "    carry %1: f32 = sum\n"
    "    %2: f16 = load a[b, h, m, k]\n    %3: f16 = load w[h/4, n, k]\n"
    "    %4: f32 = mul %2, %3\n    step %1, %4\n  }\n"
    "  %5: f32 = load bias[0, h, 0, n]\n  %6: f32 = add %1, %5\n  %7: f16 = cast %6\n"
    "  store y[b, h, m, n], %7\n}\n";

/* Both factors MN-major; a batch axis between k and the rows, one that only a factor has. */
const char batched_mn[] =
    "tile t.0 {\n"
    "  size B, H, M, K, N\n"
    "  in a: f16[B, K, H, M] = 0\n  in w: f16[H/4, K, N] = 1\n  out y: f16[B, H, M, N] = 2\n"
    "  grid b: B\n  grid h: H\n  grid m: M\n  grid n: N\n  axis k: K\n"
    "  loop k from 0 to K {\n"
    "    carry %1: f32 = sum\n"
    "    %2: f16 = load a[b, k, h, m]\n    %3: f16 = load w[h/4, k, n]\n"
    "    %4: f32 = mul %2, %3\n    step %1, %4\n  }\n"
    "  %7: f16 = cast %1\n  store y[b, h, m, n], %7\n}\n";

/* The sum itself, in two types. */
const char plain[] = "tile t.0 {\n"
                     "  size M, K, N\n"
                     "  in x: bf16[M, K] = 0\n  in w: bf16[N, K] = 1\n"
                     "  out y: bf16[M, N] = 2\n  out z: f32[M, N] = 3\n"
                     "  grid m: M\n  grid n: N\n  axis k: K\n"
                     "  loop k from 0 to K {\n"
                     "    carry %1: f32 = sum\n"
                     "    %2: bf16 = load x[m, k]\n    %3: bf16 = load w[n, k]\n"
                     "    %4: f32 = mul %2, %3\n    step %1, %4\n  }\n"
                     "  store z[m, n], %1\n"
                     "  %5: bf16 = cast %1\n  store y[m, n], %5\n}\n";

/* Sizes known, nothing hangs over. */
const char whole[] = "tile t.0 {\n"
                     "  in x: f16[4096, 1024] = 0\n  in w: f16[512, 1024] = 1\n"
                     "  out y: e4m3[4096, 512] = 2\n"
                     "  grid m: 4096\n  grid n: 512\n  axis k: 1024\n"
                     "  loop k from 0 to 1024 {\n"
                     "    carry %1: f32 = sum\n"
                     "    %2: f16 = load x[m, k]\n    %3: f16 = load w[n, k]\n"
                     "    %4: f32 = mul %2, %3\n    step %1, %4\n  }\n"
                     "  %5: e4m3 = cast %1\n  store y[m, n], %5\n}\n";

/* A program with one part of its text replaced. */
const char *case_changed(const char *text, const char *from, const char *to) {
    const char *at = strstr(text, from);
    assert_non_null(at);
    return arena_printf(&case_arena, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
}

/* y[m, n] = silu(x w^T) * r + r, with r of some type. */
#define GATED(type)                                                                                \
    "tile t.0 {\n"                                                                                 \
    "  size M, K, N\n"                                                                             \
    "  in x: bf16[M, K] = 0\n  in w: bf16[N, K] = 1\n"                                             \
    "  in r: " type "[M, N] = 2\n  out y: bf16[M, N] = 3\n"                                        \
    "  grid m: M\n  grid n: N\n  axis k: K\n"                                                      \
    "  loop k from 0 to K {\n"                                                                     \
    "    carry %1: f32 = sum\n"                                                                    \
    "    %2: bf16 = load x[m, k]\n    %3: bf16 = load w[n, k]\n"                                   \
    "    %4: f32 = mul %2, %3\n    step %1, %4\n  }\n"                                             \
    "  %5: f32 = sigmoid %1\n  %6: f32 = mul %1, %5\n  %7: " type " = load r[m, n]\n"              \
    "  %8: f32 = mul %6, %7\n  %9: f32 = add %8, %7\n  %10: bf16 = cast %9\n"                      \
    "  store y[m, n], %10\n}\n"
const char gated[] = GATED("bf16"), gated_f32[] = GATED("f32"), gated_e4m3[] = GATED("e4m3");

/* Matrices of several types and batches, one a window of a wider one; nothing is stored whole. */
const char matrices[] =
    "tile t.0 {\n"
    "  size B, M, K, N\n"
    "  in a: f16[B, M, K] = 0\n  in w: f16[B, N, K] = 1\n  in r: f32[M, N] = 2\n"
    "  in g: f16[B/2, M, 2*N] = 3\n  out y: f16[M, N, B] = 4\n"
    "  grid b: B\n  grid m: M\n  grid n: N\n  axis k: K\n"
    "  loop k from 0 to K {\n"
    "    carry %1: f32 = sum\n"
    "    %2: f16 = load a[b, m, k]\n    %3: f16 = load w[b, n, k]\n"
    "    %4: f32 = mul %2, %3\n    step %1, %4\n  }\n"
    "  %5: f32 = load r[m, n]\n  %6: f32 = add %1, %5\n  %7: f16 = load g[b/2, m, N + n]\n"
    "  %8: f32 = mul %6, %7\n  %9: f16 = cast %8\n  store y[m, n, b], %9\n}\n";

/* gelu with its factors in other memory orders. */
const char *case_ordered(bool a_mn, bool b_mn) {
    const char *x[2] = {"x: bf16[M, K]", "load x[m, k]"}, *w[2] = {"w: bf16[N, K]", "load w[n, k]"};
    if (a_mn) x[0] = "x: bf16[K, M]", x[1] = "load x[k, m]";
    if (b_mn) w[0] = "w: bf16[K, N]", w[1] = "load w[k, n]";
    const char *text = case_changed(gelu, "x: bf16[M, K]", x[0]);
    text = case_changed(text, "load x[m, k]", x[1]);
    text = case_changed(text, "w: bf16[N, K]", w[0]);
    return case_changed(text, "load w[n, k]", w[1]);
}

/* x with row scales; e4m3 times e5m2. */
const char scaled[] = "tile t.0 {\n"
                      "  size M, K, N\n"
                      "  in x: e4m3[M, K] = 0\n  in w: e5m2[N, K] = 1\n"
                      "  in sx: f32[M] = 2\n  in sw: f32[N] = 3\n  out y: bf16[M, N] = 4\n"
                      "  grid m: M\n  grid n: N\n  axis k: K\n"
                      "  loop k from 0 to K {\n"
                      "    carry %1: f32 = sum\n"
                      "    %2: e4m3 = load x[m, k]\n    %3: e5m2 = load w[n, k]\n"
                      "    %4: f32 = mul %2, %3\n    step %1, %4\n  }\n"
                      "  %5: f32 = load sx[m]\n  %6: f32 = load sw[n]\n"
                      "  %7: f32 = mul %5, %6\n  %8: f32 = mul %7, %1\n"
                      "  %9: bf16 = cast %8\n  store y[m, n], %9\n}\n";

/* ---- lowering ------------------------------------------------------------------------------- */

bool case_swap;
int case_plain;

void case_fail(const Diags *d) {
    Str s = {0};
    diag_print(d, &s, false);
    fail_msg("%s", str_get(&s));
}

TProg *case_tile(Arena *a, const char *text) {
    Diags d = {.arena = a};
    Str why = {0};
    TProg *t = tile_parse(a, source_new(a, "t", text, strlen(text)), &d);
    if (!t) case_fail(&d);
    if (!tile_verify(t, &why)) fail_msg("%s", str_get(&why));
    return t;
}

Schedule *case_schedule(Arena *a, const TProg *t, const Case *c) {
    Diags d = {.arena = a};
    bool narrow = c->n % 64 && strstr(c->tile, "load w[k, n]"); /* boxes of 32 columns */
    int load = c->groups == 2 ? 24 : 40, mma = c->groups == 2 ? 240 : 232;
    if (case_plain) load = 152, mma = c->groups == 2 ? 176 : 232;
    char *text = arena_printf(
        a,
        "schedule s for t.0 target sm_90a {\n  move tma\n  mul wgmma\n  threads %d\n"
        "  axis %s tile %d\n  axis %s tile %d\n  axis k tile %d\n"
        "  value %%2 place smem buffers %d swizzle 128%s\n"
        "  value %%3 place smem buffers %d swizzle %d%s\n"
        "  role load warps %d regs %d\n  role mma warps %d regs %d\n%s  persistent\n}\n",
        128 * (1 + c->groups), case_swap ? "n" : "m", c->m, case_swap ? "m" : "n", c->n,
        strstr(c->tile, "%2: e") ? 128 : 64, c->stages, case_plain & 1 ? " plain" : "", c->stages,
        narrow ? 64 : 128, case_plain & 2 ? " plain" : "",
        strstr(c->more, "role slab") ? 4 - c->groups : 4, load, 4 * c->groups, mma, c->more);
    Schedule *s = schedule_parse(a, source_new(a, "s", text, strlen(text)), t, &d);
    if (!s) case_fail(&d);
    return s;
}

void case_lower(Run *r, const Case *c) {
    memset(r, 0, sizeof *r);
    r->t = case_tile(&r->a, c->tile);
    Schedule *s = case_schedule(&r->a, r->t, c);
    Str why = {0};
    if (!schedule_verify(s, r->t, &why)) fail_msg("%s", str_get(&why));
    Mma m;
    assert_true(mma_schedule(r->t, s, &m, &r->tiles, &why));
    Step step = {.name = r->t->name, .tile = r->t};
    BackendOptions o = {.target = target_named("sm_90a")};
    Diags d = {.arena = &r->a};
    if (!backend_lower(&r->a, NULL, &step, s, &o, &d, &r->k, NULL)) case_fail(&d);
}

int case_guards(const Kernel *k, KGuardKind kind, int index, int dim) {
    int n = 0;
    for (int i = 0; i < k->guards.n; i++) {
        const KGuard *g = &k->guards.v[i];
        n += g->kind == kind && g->index == index && g->dim == dim;
    }
    return n;
}

/* Places where a PTX text has `what`. */
int case_texts(const char *ptx, const char *what) {
    int n = 0;
    for (const char *at = ptx; (at = strstr(at, what)); at += strlen(what)) n++;
    return n;
}
