/* wgmma_test.c - the tier of TMA and wgmma: tile programs with schedules as text are lowered and
 * assembled. ptxas must keep wgmma asynchronous and spill nothing; the machine code must have its
 * multiplications and tile loads, and no local memory. Also what launches it may have, and what
 * the tier refuses. What kernels compute is seen on a GPU. Over 500 lines: programs and the reading
 * of their code, which all cases share.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <elf.h>
#include <cmocka.h>

#include "backend/backend.h"
#include "ir/mma.h"

static const char *ptxas;
static Arena forever;

static int setup(void **state) {
    (void)state;
    ptxas = ptxas_find(&forever, NULL);
    if (!ptxas) printf("SKIP: no ptxas here, the PTX is not assembled\n");
    return 0;
}

static int teardown(void **state) {
    (void)state;
    arena_free(&forever);
    return 0;
}

/* ---- programs ------------------------------------------------------------------------------- */

/* y[m, n] = gelu_tanh(x w^T + b) */
static const char gelu[] = "tile t.0 {\n"
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
static const char two_outputs[] =
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
static const char batched[] =
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
static const char batched_mn[] =
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
static const char plain[] = "tile t.0 {\n"
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
static const char whole[] = "tile t.0 {\n"
                            "  in x: f16[4096, 1024] = 0\n  in w: f16[512, 1024] = 1\n"
                            "  out y: e4m3[4096, 512] = 2\n"
                            "  grid m: 4096\n  grid n: 512\n  axis k: 1024\n"
                            "  loop k from 0 to 1024 {\n"
                            "    carry %1: f32 = sum\n"
                            "    %2: f16 = load x[m, k]\n    %3: f16 = load w[n, k]\n"
                            "    %4: f32 = mul %2, %3\n    step %1, %4\n  }\n"
                            "  %5: e4m3 = cast %1\n  store y[m, n], %5\n}\n";

/* A program with one part of its text replaced. */
static const char *changed(const char *text, const char *from, const char *to) {
    const char *at = strstr(text, from);
    assert_non_null(at);
    return arena_printf(&forever, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
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
static const char gated[] = GATED("bf16"), gated_f32[] = GATED("f32"), gated_e4m3[] = GATED("e4m3");

/* Matrices of several types and batches, one a window of a wider one; nothing is stored whole. */
static const char matrices[] =
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

/* ---- lowering ------------------------------------------------------------------------------- */

typedef struct Case {
    const char *tile;
    int m, n, stages, groups;
    const char *more; /* lines of the schedule */
    int spills;       /* bytes after the loop */
} Case;

static bool swap;       /* schedules list axis n first: it is rows, and m of the tile are its */
static int plain_loads; /* factors that threads bring: 1 the first, 2 the second */

typedef struct Run {
    Arena a;
    TProg *t;
    Kernel k;
    MmaTiles tiles;
} Run;

static void fail_diags(const Diags *d) {
    Str s = {0};
    diag_print(d, &s, false);
    fail_msg("%s", str_get(&s));
}

static TProg *parse_tile(Arena *a, const char *text) {
    Diags d = {.arena = a};
    Str why = {0};
    TProg *t = tile_parse(a, source_new(a, "t", text, strlen(text)), &d);
    if (!t) fail_diags(&d);
    if (!tile_verify(t, &why)) fail_msg("%s", str_get(&why));
    return t;
}

static Schedule *parse_schedule(Arena *a, const TProg *t, const Case *c) {
    Diags d = {.arena = a};
    bool narrow = c->n % 64 && strstr(c->tile, "load w[k, n]"); /* boxes of 32 columns */
    int load = c->groups == 2 ? 24 : 40, mma = c->groups == 2 ? 240 : 232;
    if (plain_loads) load = 152, mma = c->groups == 2 ? 176 : 232;
    char *text = arena_printf(
        a,
        "schedule s for t.0 target sm_90a {\n  move tma\n  mul wgmma\n  threads %d\n"
        "  axis %s tile %d\n  axis %s tile %d\n  axis k tile %d\n"
        "  value %%2 place smem buffers %d swizzle 128%s\n"
        "  value %%3 place smem buffers %d swizzle %d%s\n"
        "  role load warps %d regs %d\n  role mma warps %d regs %d\n%s  persistent\n}\n",
        128 * (1 + c->groups), swap ? "n" : "m", c->m, swap ? "m" : "n", c->n,
        strstr(c->tile, "%2: e") ? 128 : 64, c->stages, plain_loads & 1 ? " plain" : "", c->stages,
        narrow ? 64 : 128, plain_loads & 2 ? " plain" : "",
        strstr(c->more, "role slab") ? 4 - c->groups : 4, load, 4 * c->groups, mma, c->more);
    Schedule *s = schedule_parse(a, source_new(a, "s", text, strlen(text)), t, &d);
    if (!s) fail_diags(&d);
    return s;
}

static void lower(Run *r, const Case *c) {
    memset(r, 0, sizeof *r);
    r->t = parse_tile(&r->a, c->tile);
    Schedule *s = parse_schedule(&r->a, r->t, c);
    Str why = {0};
    if (!schedule_verify(s, r->t, &why)) fail_msg("%s", str_get(&why));
    Mma m;
    assert_true(mma_schedule(r->t, s, &m, &r->tiles, &why));
    Step step = {.name = r->t->name, .tile = r->t};
    BackendOptions o = {.target = target_named("sm_90a")};
    Diags d = {.arena = &r->a};
    if (!backend_lower(&r->a, NULL, &step, s, &o, &d, &r->k, NULL)) fail_diags(&d);
}

/* ---- machine code: the low 12 bits of an instruction are its opcode ------------------------ */

enum {
    HGMMA = 0x9f0,
    QGMMA = 0x9f3,
    UTMALDG = 0x5b4,
    UTMALDG_MULTICAST = 0x3b4,
    WARPGROUP = 0x9c5,
    R2UR = 0x2ca,
    STL = 0x387,
    LDL = 0x983
};

typedef struct Code {
    const uint64_t *word; /* two an instruction */
    int n;
} Code;

static Code find_code(const Cubin *c) {
    const unsigned char *at = c->data;
    Elf64_Ehdr h;
    memcpy(&h, at, sizeof h);
    for (int i = 0; i < h.e_shnum; i++) {
        Elf64_Shdr s, names;
        memcpy(&s, at + h.e_shoff + (size_t)i * sizeof s, sizeof s);
        memcpy(&names, at + h.e_shoff + (size_t)h.e_shstrndx * sizeof s, sizeof s);
        const char *name = (const char *)at + names.sh_offset + s.sh_name;
        if (strncmp(name, ".text.", 6) != 0) continue;
        return (Code){(const uint64_t *)(const void *)(at + s.sh_offset), (int)(s.sh_size / 16)};
    }
    fail_msg("no code in the cubin");
    return (Code){0};
}

static int opcode(const Code *c, int i) {
    return (int)(c->word[2 * i] & 0xfff);
}

static int count(const Code *c, int from, int to, int op) {
    int n = 0;
    for (int i = from < 0 ? 0 : from; i < to && i < c->n; i++) n += opcode(c, i) == op;
    return n;
}

static int times_in(const char *text, const char *what) {
    int n = 0;
    for (; (text = strstr(text, what)); text++) n++;
    return n;
}

static void check_code(const Run *r, const Case *c) {
    Code code = find_code(&r->k.cubins.v[0]);
    int blocks = c->m < 64 ? 1 : c->m / 64 / (strstr(c->more, "pingpong") ? 1 : c->groups);
    int mma = count(&code, 0, code.n, HGMMA) ? HGMMA : QGMMA;
    if (r->tiles.promote) blocks = r->tiles.pieces * r->tiles.piece_blocks;
    assert_int_equal(count(&code, 0, code.n, mma), 4 * blocks);
    /* no fence or wait but those written */
    assert_int_equal(count(&code, 0, code.n, WARPGROUP),
                     times_in(r->k.ptx, "wgmma.fence.sync") +
                         times_in(r->k.ptx, "wgmma.wait_group"));
    const MmaTiles *t = &r->tiles;
    int shared = t->pair_cols > 1 ? t->a.boxes / 2 : t->pair_rows > 1 ? t->b.boxes / 2 : 0;
    int boxes = (t->a.plain ? 0 : t->a.boxes) + (t->b.plain ? 0 : t->b.boxes) - 2 * shared;
    for (int i = 0; i < t->nbrought; i++) boxes += t->chunk / t->brought[i].box;
    assert_int_equal(count(&code, 0, code.n, UTMALDG), boxes);
    assert_int_equal(count(&code, 0, code.n, UTMALDG_MULTICAST), shared);
    if (!c->spills)
        assert_int_equal(count(&code, 0, code.n, LDL) + count(&code, 0, code.n, STL), 0);
    int first = 0, last = 0;
    for (int i = 0; i < code.n; i++) {
        if (opcode(&code, i) != mma) continue;
        if (!first) first = i;
        last = i;
    }
    if (!r->tiles.promote) assert_int_equal(count(&code, first, last, WARPGROUP), 0);
    assert_true(count(&code, first - 60, last + 45, R2UR) <= 6);
}

static void check(const Case *c) {
    Run r;
    lower(&r, c);
    if (ptxas) {
        const char *message;
        PtxasStatus st = ptxas_run(&r.a, ptxas, &r.k, "sm_90a", &message);
        if (st != PTXAS_OK) fail_msg("%s", message);
        assert_int_equal(r.k.stats.warning, 0);
        assert_int_equal(r.k.stats.loop_spills, 0);
        assert_true(r.k.stats.spill_bytes <= c->spills);
        check_code(&r, c);
    }
    arena_free(&r.a);
}

static int guards(const Kernel *k, KGuardKind kind, int index, int dim) {
    int n = 0;
    for (int i = 0; i < k->guards.n; i++) {
        const KGuard *g = &k->guards.v[i];
        n += g->kind == kind && g->index == index && g->dim == dim;
    }
    return n;
}

/* Places where a PTX text has `what`. */
static int texts(const char *ptx, const char *what) {
    int n = 0;
    for (const char *at = ptx; (at = strstr(at, what)); at += strlen(what)) n++;
    return n;
}

static void cooperative(void **state) {
    (void)state;
    check(&(Case){gelu, 128, 256, 4, 2, "  raster 16\n", 0});
    check(&(Case){gelu, 256, 128, 4, 2, "  raster 16\n", 0});
    check(&(Case){gelu, 128, 128, 6, 2, "  raster 8\n", 0});
    check(&(Case){gelu, 128, 192, 5, 2, "", 0});
    check(&(Case){gelu, 64, 128, 8, 1, "", 0});
    check(&(Case){gelu, 64, 24, 8, 1, "", 0});
}

/* Swapped operands: the few rows of x are the columns of the accumulator. And tiles of few rows. */
static void thin(void **state) {
    (void)state;
    swap = true;
    check(&(Case){gelu, 64, 8, 16, 1, "", 0});
    check(&(Case){gelu, 64, 16, 20, 1, "", 0});
    check(&(Case){gelu, 64, 64, 12, 1, "", 0});
    check(&(Case){gelu, 128, 32, 8, 2, "", 0});
    check(&(Case){two_outputs, 64, 24, 8, 1, "", 0});
    check(&(Case){batched, 64, 16, 8, 1, "", 0});
    check(&(Case){plain, 64, 32, 8, 1, "", 0});
    check(&(Case){whole, 64, 16, 8, 1, "", 0});
    swap = false;
    check(&(Case){gelu, 8, 32, 16, 1, "", 0});
    check(&(Case){gelu, 16, 32, 32, 1, "", 0});
    check(&(Case){two_outputs, 48, 64, 8, 1, "", 0});
    check(&(Case){batched, 16, 64, 8, 2, "  pingpong\n", 0});
}

/* Pairs of CTAs: each loads its half of what they share for both, and releases stages in both. */
static void clusters(void **state) {
    (void)state;
    check(&(Case){gelu, 128, 256, 4, 2, "  raster 8\n  cluster 2 1 1\n", 0});
    check(&(Case){gelu, 256, 128, 4, 2, "  raster 16\n  cluster 1 2 1\n", 0});
    check(&(Case){gelu, 192, 128, 5, 2, "  pingpong\n  cluster 1 2 1\n", 0});
    Run r;
    Case c = {gelu, 128, 256, 4, 2, "  cluster 2 1 1\n", 0};
    lower(&r, &c);
    assert_non_null(strstr(r.k.ptx, ".reqnctapercluster 2, 1, 1"));
    assert_non_null(strstr(r.k.ptx, ".multicast::cluster"));
    assert_non_null(strstr(r.k.ptx, "mbarrier.arrive.shared::cluster.b64"));
    assert_null(strstr(r.k.ptx, "arrive.release.cluster.shared"));
    assert_int_equal(r.k.cluster, 2);
    for (int i = 0, seen = 0; i < r.k.params.n && seen < 2; i++) {
        const KParam *p = &r.k.params.v[i];
        if (p->kind != KP_TMAP) continue;
        assert_int_equal(p->map.box[1], MMA_BOX);
        seen++;
    }
    arena_free(&r.a);
}

static void pingpong(void **state) {
    (void)state;
    check(&(Case){gelu, 128, 128, 6, 2, "  raster 16\n  pingpong\n", 0});
    check(&(Case){gelu, 64, 128, 8, 2, "  pingpong\n", 0});
    check(&(Case){gelu, 64, 256, 5, 2, "  pingpong\n", 0});
    check(&(Case){gelu, 64, 32, 8, 2, "  raster 16\n  pingpong\n", 0});
    check(&(Case){two_outputs, 128, 128, 6, 2, "  pingpong\n", 0});
    check(&(Case){whole, 128, 128, 6, 2, "  pingpong\n", 0});
}

static void staged(void **state) {
    (void)state;
    const char *slabs = "  value %16 place smem buffers 2 swizzle 128\n";
    const char *narrow = "  value %16 place smem buffers 2 swizzle 64\n  pingpong\n";
    check(&(Case){gelu, 128, 256, 4, 2, slabs, 0});
    check(&(Case){gelu, 256, 128, 3, 2, slabs, 0});
    check(&(Case){gelu, 128, 128, 6, 2, narrow, 0});
    check(&(Case){gelu, 64, 32, 8, 2, narrow, 0});
    check(
        &(Case){gelu, 64, 128, 7, 1, "  value %16 place smem buffers 2 swizzle 128 slabs 2\n", 0});
    check(&(Case){batched, 128, 256, 4, 2, "  value %7 place smem buffers 2 swizzle 128\n", 0});
    check(&(Case){whole, 128, 256, 4, 2, "  value %5 place smem buffers 2 swizzle 64\n", 0});
    check(&(Case){plain, 128, 256, 3, 2,
                  "  value %1 place smem buffers 2 swizzle 128\n"
                  "  value %5 place smem buffers 2 swizzle 64\n",
                  0});
    check(&(Case){two_outputs, 128, 128, 4, 2,
                  "  value %8 place smem buffers 2 swizzle 128\n"
                  "  value %19 place smem buffers 2 swizzle 128\n",
                  160});
}

/* What is loaded after the loop comes by TMA too; 16-bit elements are read by ldmatrix, where they
 * were read the result is written, and no group of threads meets unless sizes differ. */
static void brought(void **state) {
    (void)state;
#define SLABS(load, store, n, swizzle_load, swizzle_store)                                         \
    "  value " load " place smem buffers " n " swizzle " swizzle_load "\n"                         \
    "  value " store " place smem buffers " n " swizzle " swizzle_store "\n"                       \
    "  role slab warps 2 regs 24\n"
    const char *narrow = SLABS("%7", "%10", "2", "32", "32") "  pingpong\n";
    check(&(Case){gated, 128, 256, 4, 2, SLABS("%7", "%10", "4", "64", "64"), 0});
    check(&(Case){gated, 192, 128, 5, 2, narrow, 0});
    check(&(Case){gated, 128, 128, 6, 2, SLABS("%7", "%10", "2", "64", "64") "  pingpong\n", 0});
    check(&(Case){gated, 64, 128, 8, 2, SLABS("%7", "%10", "2", "128", "128") "  pingpong\n", 0});
    check(&(Case){gated_f32, 128, 256, 4, 2, SLABS("%7", "%10", "4", "64", "32"), 0});
    check(&(Case){gated_e4m3, 128, 256, 4, 2, SLABS("%7", "%10", "3", "32", "64"), 0});
    check(&(Case){matrices, 64, 128, 4, 1,
                  "  value %5 place smem buffers 3 swizzle 128\n"
                  "  value %7 place smem buffers 3 swizzle 64\n  role slab warps 1 regs 40\n",
                  0});
    Run r;
    lower(&r, &(Case){gated, 128, 256, 4, 2, SLABS("%7", "%10", "4", "64", "64"), 0});
    assert_int_equal(texts(r.k.ptx, "ldmatrix.sync.aligned.m8n8.x4"), 16);
    assert_int_equal(texts(r.k.ptx, "stmatrix.sync.aligned.m8n8.x4"), 16);
    assert_int_equal(texts(r.k.ptx, "bar.warp.sync"), 8);
    assert_int_equal(texts(r.k.ptx, "bar.sync"), 1);
    assert_int_equal(texts(r.k.ptx, "ld.global"), 0);
    assert_int_equal(r.k.smem->num, 4 * (384 * 128 + 16) + 2 * 4 * (64 * 32 * 2 + 16 + 8) + 8);
    const KTmap *in = &r.k.params.v[3].map;
    assert_true(r.k.params.v[3].kind == KP_TMAP && r.k.params.v[3].index == 2);
    assert_true(in->box[0] == 32 && in->box[1] == 64 && in->swizzle == 64);
    assert_int_equal(guards(&r.k, KG_ALIGN, 2, 0), 1);
    assert_int_equal(guards(&r.k, KG_STRIDE, 2, 0), 1);
    arena_free(&r.a);
    lower(&r, &(Case){gated_f32, 128, 256, 4, 2, SLABS("%7", "%10", "4", "64", "32"), 0});
    assert_int_equal(texts(r.k.ptx, "bar.sync"), 1 + 16); /* the store lies over another's rows */
    assert_int_equal(r.k.smem->num, 4 * (384 * 128 + 16) + 2 * 4 * (64 * 16 * 4 + 16 + 8) + 8);
    arena_free(&r.a);
}

static void epilogues(void **state) {
    (void)state;
    check(&(Case){two_outputs, 128, 256, 4, 2, "  raster 16\n", 0});
    check(&(Case){two_outputs, 256, 128, 4, 2, "", 0});
    check(&(Case){batched, 128, 256, 4, 2, "  raster 8\n", 0});
    check(&(Case){batched, 64, 64, 4, 1, "", 0});
    check(&(Case){whole, 128, 256, 4, 2, "  raster 4\n", 0});
    check(&(Case){plain, 128, 256, 4, 2, "", 0});
    check(&(Case){plain, 128, 128, 4, 2, "  pingpong\n", 0});
}

/* gelu with its factors in other memory orders. */
static const char *ordered(bool a_mn, bool b_mn) {
    const char *x[2] = {"x: bf16[M, K]", "load x[m, k]"}, *w[2] = {"w: bf16[N, K]", "load w[n, k]"};
    if (a_mn) x[0] = "x: bf16[K, M]", x[1] = "load x[k, m]";
    if (b_mn) w[0] = "w: bf16[K, N]", w[1] = "load w[k, n]";
    const char *text = changed(gelu, "x: bf16[M, K]", x[0]);
    text = changed(text, "load x[m, k]", x[1]);
    text = changed(text, "w: bf16[N, K]", w[0]);
    return changed(text, "load w[n, k]", w[1]);
}

static void orders(void **state) {
    (void)state;
    const char *slabs = "  raster 16\n  value %16 place smem buffers 2 swizzle 128\n";
    const char *pair = "  raster 16\n  value %16 place smem buffers 2 swizzle 32\n  pingpong\n";
    for (int o = 1; o < 4; o++) {
        check(&(Case){ordered(o & 1, o >> 1), 128, 256, 4, 2, slabs, 0});
        check(&(Case){ordered(o & 1, o >> 1), 192, 128, 5, 2, pair, 0});
    }
    check(&(Case){ordered(true, true), 256, 128, 3, 2, slabs, 0});
    check(&(Case){ordered(true, false), 64, 128, 8, 1, "", 0});
    check(&(Case){batched_mn, 128, 256, 4, 2, "  value %7 place smem buffers 2 swizzle 128\n", 0});
    check(&(Case){ordered(true, true), 64, 32, 8, 2, "  pingpong\n", 0});
}

/* Any address and pitch: loads by threads, of one factor or both. */
static void check_plain(int which, const Case *c) {
    plain_loads = which;
    check(c);
    plain_loads = 0;
}

static void plain_factors(void **state) {
    (void)state;
    const char *slabs = "  raster 16\n  value %16 place smem buffers 2 swizzle 128\n";
    for (int o = 0; o < 4; o++)
        check_plain(3, &(Case){ordered(o & 1, o >> 1), 128, 256, 4, 2, "  raster 16\n", 0});
    check_plain(3, &(Case){ordered(true, true), 64, 128, 8, 2, "  pingpong\n", 0});
    check_plain(1, &(Case){gelu, 128, 256, 4, 2, slabs, 0});
    check_plain(2, &(Case){gelu, 128, 256, 4, 2, slabs, 0});
    check_plain(1, &(Case){ordered(true, false), 128, 128, 6, 2, slabs, 0});
    check_plain(2, &(Case){ordered(true, false), 192, 96, 5, 2, "  pingpong\n", 0});
    check_plain(3, &(Case){batched, 128, 192, 5, 2, "  raster 8\n", 0});
    check_plain(3, &(Case){plain, 64, 64, 8, 1, "", 0});
    check_plain(3, &(Case){whole, 128, 160, 5, 2, "", 0});
}

/* x with row scales; e4m3 times e5m2. */
static const char scaled[] = "tile t.0 {\n"
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

/* All that the tensor core is given it keeps to itself. */
static void fp8(void **state) {
    (void)state;
    const char *slabs = "  raster 16\n  value %9 place smem buffers 2 swizzle 128\n";
    const char *pair = "  raster 16\n  value %9 place smem buffers 2 swizzle 64\n  pingpong\n";
    check(&(Case){scaled, 128, 256, 4, 2, slabs, 0});
    check(&(Case){scaled, 128, 192, 4, 2, pair, 0});
    check(&(Case){scaled, 64, 128, 8, 2, pair, 0});
    check(&(Case){scaled, 64, 24, 8, 1, "", 0});
}

static void promoted(void **state) {
    (void)state;
    const char *slabs = "  value %9 place smem buffers 2 swizzle 128\n";
    static const struct {
        int m, n, stages;
        const char *lines;
    } which[] = {
        {128, 192, 4, "  promote 128\n  turns\n"},
        {128, 192, 4, "  promote 128\n"},
        {128, 256, 3, "  promote 128 pieces 2\n  turns\n"},
        {256, 128, 3, "  promote 128 pieces 2\n  turns\n"},
        {128, 192, 4, "  promote 128 pieces 2 sets 2\n"},
        {64, 128, 7, "  promote 128 pieces 2 sets 2\n  pingpong\n"},
    };
    for (size_t i = 0; i < sizeof which / sizeof *which; i++) {
        const char *more = arena_printf(&forever, "%s%s", slabs, which[i].lines);
        check(&(Case){scaled, which[i].m, which[i].n, which[i].stages, 2, more, 0});
    }
    check(&(Case){scaled, 128, 96, 6, 2, "  promote 128 pieces 2 sets 2\n  pingpong\n", 0});
    check(&(Case){scaled, 64, 32, 8, 2, "  promote 128\n  pingpong\n", 0});
}

/* ---- launches ------------------------------------------------------------------------------- */

static bool may_launch(const Kernel *k, const int64_t *sizes) {
    IxEnv env = {.size = sizes};
    for (int i = 0; i < k->guards.n; i++) {
        bool ok = true;
        if (k->guards.v[i].kind != KG_NONNEG) continue;
        if (ix_eval(k->guards.v[i].ix, &env, &ok) < 0 || !ok) return false;
    }
    return true;
}

static void launches(void **state) {
    (void)state;
    Run r;
    lower(&r, &(Case){gelu, 128, 256, 4, 2, "  raster 16\n", 0});
    const Kernel *k = &r.k;
    assert_int_equal(k->block, 384);
    assert_true(k->persistent);
    assert_true(ix_is_const(k->smem, NULL));
    assert_int_equal(k->smem->num, 4 * (384 * 128 + 16));
    assert_int_equal(k->params.v[0].kind, KP_TMAP);
    assert_int_equal(k->params.v[1].kind, KP_TMAP);
    const KTmap *a = &k->params.v[0].map, *b = &k->params.v[1].map;
    assert_true(a->rank == 2 && a->dim[0] == 1 && a->dim[1] == 0 && a->swizzle == 128);
    assert_true(a->box[0] == 64 && a->box[1] == MMA_BOX);
    assert_true(b->box[0] == 64 && b->box[1] == MMA_BOX);
    assert_true(may_launch(k, (int64_t[]){1, 1, 1}));
    assert_true(may_launch(k, (int64_t[]){4095, 4096, 4097}));
    assert_false(may_launch(k, (int64_t[]){4096, 0, 4096})); /* M, K, N: no k tile */
    assert_false(may_launch(k, (int64_t[]){0, 64, 4096}));
    assert_false(may_launch(k, (int64_t[]){64, (int64_t)1 << 31, 64})); /* 32-bit coordinates */
    assert_false(may_launch(k, (int64_t[]){INT32_MAX, 64, INT32_MAX})); /* 32-bit tile numbers */
    assert_int_equal(guards(k, KG_ALIGN, 0, 0), 1);
    assert_int_equal(guards(k, KG_ALIGN, 1, 0), 1);
    assert_int_equal(guards(k, KG_ALIGN, 3, 0), 0);
    assert_int_equal(guards(k, KG_STRIDE, 0, 0), 1);
    assert_int_equal(guards(k, KG_STRIDE_ONE, 0, 1), 1);
    assert_int_equal(guards(k, KG_STRIDE_ONE, 2, 0), 1);
    assert_int_equal(guards(k, KG_STRIDE_ONE, 3, 1), 1);
    bool ok = true;
    IxEnv env = {.size = (int64_t[]){300, 64, 513}};
    assert_int_equal(ix_eval(k->tiles, &env, &ok), 3 * 3);
    assert_int_equal(ix_eval(k->grid, &env, &ok), 9);
    arena_free(&r.a);
}

/* Maps of factors in other orders: every stride but the last one is a matter for TMA. */
static void launches_mn(void **state) {
    (void)state;
    Run r;
    lower(&r, &(Case){batched_mn, 128, 192, 4, 2, "", 0});
    const Kernel *k = &r.k;
    const KTmap *a = &k->params.v[0].map, *b = &k->params.v[1].map;
    assert_true(a->rank == 4 && a->dim[0] == 3 && a->dim[1] == 2 && a->dim[2] == 1);
    assert_true(a->box[0] == 64 && a->box[1] == 1 && a->box[2] == 64 && a->box[3] == 1);
    assert_true(b->rank == 3 && b->box[0] == 64 && b->box[1] == 64 && b->box[2] == 1);
    for (int d = 0; d < 3; d++) assert_int_equal(guards(k, KG_STRIDE, 0, d), 1);
    assert_int_equal(guards(k, KG_STRIDE, 0, 3), 0);
    assert_int_equal(guards(k, KG_STRIDE_ONE, 0, 3), 1);
    assert_true(may_launch(k, (int64_t[]){2, 8, 1, 1, 1}));
    assert_false(may_launch(k, (int64_t[]){2, 8, 1, 0}));
    assert_false(may_launch(k, (int64_t[]){2, 0, 1, 1, 1}));
    arena_free(&r.a);
}

static int occurrences(const char *text, const char *part) {
    int n = 0;
    for (const char *at = text; (at = strstr(at, part)); at++) n++;
    return n;
}

/* The factor of the first axis in the list is A; both may have a word for the cache; one group
 * needs no registers of others; a thin tile has shared memory enough for rows that are not there.
 */
static void thin_launches(void **state) {
    (void)state;
    Run r;
    swap = true;
    lower(&r, &(Case){gelu, 64, 16, 8, 1, "", 0});
    const KTmap *a = &r.k.params.v[0].map, *b = &r.k.params.v[1].map;
    assert_int_equal(r.k.params.v[0].index, 1);
    assert_int_equal(r.k.params.v[1].index, 0);
    assert_true(a->box[0] == 64 && a->box[1] == MMA_BOX && b->box[0] == 64 && b->box[1] == 16);
    bool ok = true;
    IxEnv env = {.size = (int64_t[]){17, 64, 513}};
    assert_int_equal(ix_eval(r.k.tiles, &env, &ok), 9 * 2);
    assert_int_equal(occurrences(r.k.ptx, "setmaxnreg"), 0);
    assert_int_equal(occurrences(r.k.ptx, "cache_hint"), 0);
    arena_free(&r.a);
    swap = false;
    lower(&r, &(Case){gelu, 8, 8, 2, 1, "", 0});
    assert_int_equal(r.k.smem->num, (8 + 8) * 128 + 64 * 128);
    arena_free(&r.a);
    lower(&r, &(Case){gelu, 128, 128, 4, 2, "", 0});
    assert_int_equal(occurrences(r.k.ptx, "setmaxnreg"), 2);
    arena_free(&r.a);
}

static void evicts(void **state) {
    (void)state;
    Run r;
    memset(&r, 0, sizeof r);
    r.t = parse_tile(&r.a, gelu);
    Schedule *s = parse_schedule(&r.a, r.t, &(Case){gelu, 64, 32, 8, 1, "", 0});
    s->values.v[0].evict = EVICT_last;
    s->values.v[1].evict = EVICT_first;
    Str text = {0};
    schedule_print(&text, s, r.t);
    assert_non_null(strstr(str_get(&text), "value %2 place smem buffers 8 swizzle 128 evict last"));
    assert_non_null(
        strstr(str_get(&text), "value %3 place smem buffers 8 swizzle 128 evict first"));
    Step step = {.name = r.t->name, .tile = r.t};
    BackendOptions o = {.target = target_named("sm_90a")};
    Diags d = {.arena = &r.a};
    s = schedule_parse(&r.a, source_new(&r.a, "s", str_get(&text), text.n), r.t, &d);
    if (!s || !backend_lower(&r.a, NULL, &step, s, &o, &d, &r.k, NULL)) fail_diags(&d);
    assert_int_equal(occurrences(r.k.ptx, "complete_tx::bytes.L2::cache_hint"), 3); /* boxes */
    assert_int_equal(occurrences(r.k.ptx, "1508705875169116160"), 1); /* 0x14F0000000000000: last */
    assert_int_equal(occurrences(r.k.ptx, "1364590687093260288"),
                     1); /* 0x12F0000000000000: first */
    str_free(&text);
    arena_free(&r.a);
}

/* Where threads load, launches need no alignment; 32 bits take the pitch. */
static void plain_launches(void **state) {
    (void)state;
    Run r;
    plain_loads = 3;
    lower(&r, &(Case){ordered(false, true), 128, 256, 4, 2, "", 0});
    const Kernel *k = &r.k;
    for (int i = 0; i < k->params.n; i++) assert_int_not_equal(k->params.v[i].kind, KP_TMAP);
    for (int x = 0; x < 4; x++) {
        assert_int_equal(guards(k, KG_ALIGN, x, 0), 0);
        assert_int_equal(guards(k, KG_STRIDE, x, 0), 0);
        assert_int_equal(guards(k, KG_STRIDE_ONE, x, x == 2 ? 0 : 1), 1);
        assert_int_equal(guards(k, KG_STRIDE_NEAR, x, 0), x < 2);
    }
    assert_true(may_launch(k, (int64_t[]){1, 1, 1}));
    assert_true(may_launch(k, (int64_t[]){4095, 4095, 4097}));
    assert_false(may_launch(k, (int64_t[]){4096, 0, 4096})); /* M, K, N: no k tile */
    assert_false(may_launch(k, (int64_t[]){64, (int64_t)1 << 31, 64}));
    arena_free(&r.a);
    plain_loads = 2;
    lower(&r, &(Case){gelu, 128, 256, 4, 2, "", 0});
    plain_loads = 0;
    assert_int_equal(guards(&r.k, KG_ALIGN, 0, 0), 1);
    assert_int_equal(guards(&r.k, KG_STRIDE, 0, 0), 1);
    assert_int_equal(guards(&r.k, KG_ALIGN, 1, 0), 0);
    assert_int_equal(guards(&r.k, KG_STRIDE_NEAR, 1, 0), 1);
    arena_free(&r.a);
}

/* ---- refusals ------------------------------------------------------------------------------- */

static void refuses(const Case *c, const char *part) {
    Arena a = {0};
    Str why = {0};
    TProg *t = parse_tile(&a, c->tile);
    if (schedule_verify(parse_schedule(&a, t, c), t, &why)) fail_msg("taken, but: %s", part);
    if (!strstr(str_get(&why), part)) fail_msg("no '%s' in: %s", part, str_get(&why));
    str_free(&why);
    arena_free(&a);
}

static void refused(void **state) {
    (void)state;
    refuses(&(Case){gelu, 128, 256, 5, 2, "", 0},
            "245840 bytes of shared memory, sm_90a has 232448");
    refuses(&(Case){gelu, 96, 256, 4, 2, "", 0}, "does not cut into blocks of 64");
    refuses(&(Case){gelu, 32, 64, 4, 2, "", 0}, "does not cut into blocks of 64");
    refuses(&(Case){gelu, 12, 64, 4, 1, "", 0}, "does not cut into blocks of 64");
    refuses(&(Case){gelu, 128, 100, 4, 2, "", 0}, "a tile of 100 columns");
    refuses(&(Case){gelu, 256, 256, 3, 2, "", 0}, "256 accumulators in 240 registers");
    refuses(&(Case){gelu, 128, 128, 4, 2, "  cluster 2 2 1\n", 0}, "clusters have two CTAs");
    refuses(&(Case){gelu, 128, 128, 4, 2, "  cluster 4 1 1\n", 0}, "clusters have two CTAs");
    refuses(&(Case){gelu, 128, 24, 4, 2, "  cluster 2 1 1\n", 0}, "does not cut into two boxes");
    plain_loads = 2;
    refuses(&(Case){gelu, 128, 24, 4, 2, "", 0}, "plain loads bring 32 lines of 128 bytes");
    refuses(&(Case){scaled, 128, 96, 4, 2, "", 0}, "plain loads bring 64 lines of 128 bytes");
    plain_loads = 0;
    refuses(
        &(Case){gelu, 128, 128, 4, 2, "  value %16 place smem buffers 2 swizzle 128 plain\n", 0},
        "a slab is not plain");
    const char *in = "  value %7 place smem buffers 2 swizzle 64\n";
    refuses(&(Case){gated, 128, 128, 4, 2, in, 0}, "%7 is brought, but no role is slab");
    refuses(&(Case){gelu, 128, 128, 4, 2, "  role slab warps 2 regs 24\n", 0},
            "a role slab, but no slabs");
    refuses(&(Case){gated, 128, 128, 4, 2, "  role slab warps 2 regs 32\n", 0},
            "slab needs a warp a group and the registers of load");
    Case c = {gelu, 128, 128, 4, 2, "", 0};
    refuses(&(Case){gelu, 128, 128, 4, 2, "  turns\n", 0}, "turns are for promotion");
    refuses(&(Case){scaled, 128, 128, 4, 2, "  promote 64\n", 0}, "only a stage, 128, is built");
    refuses(&(Case){scaled, 128, 256, 4, 2, "  promote 128\n", 0}, "256 accumulators in 240");
    refuses(&(Case){scaled, 128, 96, 4, 2, "  promote 128 pieces 3 sets 2\n", 0},
            "2 sets of partial sums for 3 pieces");
    refuses(&(Case){scaled, 64, 96, 4, 2, "  promote 128\n  turns\n  pingpong\n", 0},
            "turns are for two groups that share a tile");
    c.tile = changed(gelu, "w: bf16[N, K]", "w: f16[N, K]");
    c.tile = changed(c.tile, "%3: bf16", "%3: f16");
    refuses(&c, "neither of one 16-bit float type nor of fp8");
    c.tile = changed(gelu, "x: bf16[M, K]", "x: bf16[M, K + 1]");
    refuses(&c, "the loop covers a part of a dimension of x");
    c.tile = changed(gelu, "load x[m, k]", "load x[m?, k]");
    refuses(&c, "x is read outside its domain");
    c.tile = changed(gelu, "mul %2, %3", "add %2, %3");
    refuses(&c, "the loop sums something else than a product of two loads");
    c.tile = changed(gelu, "load w[n, k]", "load w[0, k]");
    refuses(&c, "a factor has no axis of its own");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cooperative),   cmocka_unit_test(clusters),
        cmocka_unit_test(thin),          cmocka_unit_test(pingpong),
        cmocka_unit_test(epilogues),     cmocka_unit_test(staged),
        cmocka_unit_test(orders),        cmocka_unit_test(launches),
        cmocka_unit_test(launches_mn),   cmocka_unit_test(evicts),
        cmocka_unit_test(thin_launches), cmocka_unit_test(refused),
        cmocka_unit_test(plain_factors), cmocka_unit_test(plain_launches),
        cmocka_unit_test(fp8),           cmocka_unit_test(promoted),
        cmocka_unit_test(brought),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
