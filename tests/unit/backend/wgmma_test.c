/* wgmma_test.c - the tier of TMA and wgmma: ptxas must keep wgmma asynchronous and spill nothing;
 * the machine code must have its multiplications and tile loads, and no local memory. What kernels
 * compute is seen on the emulated device and on a GPU.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <elf.h>
#include <cmocka.h>

#include "tests/unit/backend/wgmma_cases.h"

static const char *ptxas;

static int setup(void **state) {
    (void)state;
    ptxas = ptxas_find(&case_arena, NULL);
    if (!ptxas) printf("SKIP: no ptxas here, the PTX is not assembled\n");
    return 0;
}

static int teardown(void **state) {
    (void)state;
    arena_free(&case_arena);
    return 0;
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

static void check_code(const Run *r, const Case *c) {
    Code code = find_code(&r->k.cubins.v[0]);
    int blocks = c->m < 64 ? 1 : c->m / 64 / (strstr(c->more, "pingpong") ? 1 : c->groups);
    int mma = count(&code, 0, code.n, HGMMA) ? HGMMA : QGMMA;
    if (r->tiles.promote) blocks = r->tiles.pieces * r->tiles.piece_blocks;
    assert_int_equal(count(&code, 0, code.n, mma), 4 * blocks);
    /* no fence or wait but those written */
    assert_int_equal(count(&code, 0, code.n, WARPGROUP),
                     case_texts(r->k.ptx, "wgmma.fence.sync") +
                         case_texts(r->k.ptx, "wgmma.wait_group"));
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
    case_lower(&r, c);
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
    case_swap = true;
    check(&(Case){gelu, 64, 8, 16, 1, "", 0});
    check(&(Case){gelu, 64, 16, 20, 1, "", 0});
    check(&(Case){gelu, 64, 64, 12, 1, "", 0});
    check(&(Case){gelu, 128, 32, 8, 2, "", 0});
    check(&(Case){two_outputs, 64, 24, 8, 1, "", 0});
    check(&(Case){batched, 64, 16, 8, 1, "", 0});
    check(&(Case){plain, 64, 32, 8, 1, "", 0});
    check(&(Case){whole, 64, 16, 8, 1, "", 0});
    case_swap = false;
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
    case_lower(&r, &c);
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
    case_lower(&r, &(Case){gated, 128, 256, 4, 2, SLABS("%7", "%10", "4", "64", "64"), 0});
    assert_int_equal(case_texts(r.k.ptx, "ldmatrix.sync.aligned.m8n8.x4"), 16);
    assert_int_equal(case_texts(r.k.ptx, "stmatrix.sync.aligned.m8n8.x4"), 16);
    assert_int_equal(case_texts(r.k.ptx, "bar.warp.sync"), 8);
    assert_int_equal(case_texts(r.k.ptx, "bar.sync"), 1);
    assert_int_equal(case_texts(r.k.ptx, "ld.global"), 0);
    assert_int_equal(r.k.smem->num, 4 * (384 * 128 + 16) + 2 * 4 * (64 * 32 * 2 + 16 + 8) +
                                        16); /* 16: where a slab is, its product too */
    const KTmap *in = &r.k.params.v[3].map;
    assert_true(r.k.params.v[3].kind == KP_TMAP && r.k.params.v[3].index == 2);
    assert_true(in->box[0] == 32 && in->box[1] == 64 && in->swizzle == 64);
    assert_int_equal(case_guards(&r.k, KG_ALIGN, 2, 0), 1);
    assert_int_equal(case_guards(&r.k, KG_STRIDE, 2, 0), 1);
    arena_free(&r.a);
    case_lower(&r, &(Case){gated_f32, 128, 256, 4, 2, SLABS("%7", "%10", "4", "64", "32"), 0});
    assert_int_equal(case_texts(r.k.ptx, "bar.sync"),
                     1 + 16); /* the store lies over another's rows */
    assert_int_equal(r.k.smem->num, 4 * (384 * 128 + 16) + 2 * 4 * (64 * 16 * 4 + 16 + 8) + 16);
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

static void orders(void **state) {
    (void)state;
    const char *slabs = "  raster 16\n  value %16 place smem buffers 2 swizzle 128\n";
    const char *pair = "  raster 16\n  value %16 place smem buffers 2 swizzle 32\n  pingpong\n";
    for (int o = 1; o < 4; o++) {
        check(&(Case){case_ordered(o & 1, o >> 1), 128, 256, 4, 2, slabs, 0});
        check(&(Case){case_ordered(o & 1, o >> 1), 192, 128, 5, 2, pair, 0});
    }
    check(&(Case){case_ordered(true, true), 256, 128, 3, 2, slabs, 0});
    check(&(Case){case_ordered(true, false), 64, 128, 8, 1, "", 0});
    check(&(Case){batched_mn, 128, 256, 4, 2, "  value %7 place smem buffers 2 swizzle 128\n", 0});
    check(&(Case){case_ordered(true, true), 64, 32, 8, 2, "  pingpong\n", 0});
}

/* Any address and pitch: loads by threads, of one factor or both. */
static void check_plain(int which, const Case *c) {
    case_plain = which;
    check(c);
    case_plain = 0;
}

static void plain_factors(void **state) {
    (void)state;
    const char *slabs = "  raster 16\n  value %16 place smem buffers 2 swizzle 128\n";
    for (int o = 0; o < 4; o++)
        check_plain(3, &(Case){case_ordered(o & 1, o >> 1), 128, 256, 4, 2, "  raster 16\n", 0});
    check_plain(3, &(Case){case_ordered(true, true), 64, 128, 8, 2, "  pingpong\n", 0});
    check_plain(1, &(Case){gelu, 128, 256, 4, 2, slabs, 0});
    check_plain(2, &(Case){gelu, 128, 256, 4, 2, slabs, 0});
    check_plain(1, &(Case){case_ordered(true, false), 128, 128, 6, 2, slabs, 0});
    check_plain(2, &(Case){case_ordered(true, false), 192, 96, 5, 2, "  pingpong\n", 0});
    check_plain(3, &(Case){batched, 128, 192, 5, 2, "  raster 8\n", 0});
    check_plain(3, &(Case){plain, 64, 64, 8, 1, "", 0});
    check_plain(3, &(Case){whole, 128, 160, 5, 2, "", 0});
}

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
        const char *more = arena_printf(&case_arena, "%s%s", slabs, which[i].lines);
        check(&(Case){scaled, which[i].m, which[i].n, which[i].stages, 2, more, 0});
    }
    check(&(Case){scaled, 128, 96, 6, 2, "  promote 128 pieces 2 sets 2\n  pingpong\n", 0});
    check(&(Case){scaled, 64, 32, 8, 2, "  promote 128\n  pingpong\n", 0});
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cooperative), cmocka_unit_test(thin),     cmocka_unit_test(clusters),
        cmocka_unit_test(pingpong),    cmocka_unit_test(staged),   cmocka_unit_test(brought),
        cmocka_unit_test(epilogues),   cmocka_unit_test(orders),   cmocka_unit_test(plain_factors),
        cmocka_unit_test(fp8),         cmocka_unit_test(promoted),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
