/* wgmma_launch_test.c - the tier of TMA and wgmma: what launches a kernel may have, what they
 * bring, and what the tier refuses.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/unit/backend/wgmma_cases.h"

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
    case_lower(&r, &(Case){gelu, 128, 256, 4, 2, "  raster 16\n", 0});
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
    assert_int_equal(case_guards(k, KG_ALIGN, 0, 0), 1);
    assert_int_equal(case_guards(k, KG_ALIGN, 1, 0), 1);
    assert_int_equal(case_guards(k, KG_ALIGN, 3, 0), 0);
    assert_int_equal(case_guards(k, KG_STRIDE, 0, 0), 1);
    assert_int_equal(case_guards(k, KG_STRIDE_ONE, 0, 1), 1);
    assert_int_equal(case_guards(k, KG_STRIDE_ONE, 2, 0), 1);
    assert_int_equal(case_guards(k, KG_STRIDE_ONE, 3, 1), 1);
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
    case_lower(&r, &(Case){batched_mn, 128, 192, 4, 2, "", 0});
    const Kernel *k = &r.k;
    const KTmap *a = &k->params.v[0].map, *b = &k->params.v[1].map;
    assert_true(a->rank == 4 && a->dim[0] == 3 && a->dim[1] == 2 && a->dim[2] == 1);
    assert_true(a->box[0] == 64 && a->box[1] == 1 && a->box[2] == 64 && a->box[3] == 1);
    assert_true(b->rank == 3 && b->box[0] == 64 && b->box[1] == 64 && b->box[2] == 1);
    for (int d = 0; d < 3; d++) assert_int_equal(case_guards(k, KG_STRIDE, 0, d), 1);
    assert_int_equal(case_guards(k, KG_STRIDE, 0, 3), 0);
    assert_int_equal(case_guards(k, KG_STRIDE_ONE, 0, 3), 1);
    assert_true(may_launch(k, (int64_t[]){2, 8, 1, 1, 1}));
    assert_false(may_launch(k, (int64_t[]){2, 8, 1, 0}));
    assert_false(may_launch(k, (int64_t[]){2, 0, 1, 1, 1}));
    arena_free(&r.a);
}

/* The factor of the first axis in the list is A; both may have a word for the cache; one group
 * needs no registers of others; a thin tile has shared memory enough for rows that are not there.
 */
static void thin_launches(void **state) {
    (void)state;
    Run r;
    case_swap = true;
    case_lower(&r, &(Case){gelu, 64, 16, 8, 1, "", 0});
    const KTmap *a = &r.k.params.v[0].map, *b = &r.k.params.v[1].map;
    assert_int_equal(r.k.params.v[0].index, 1);
    assert_int_equal(r.k.params.v[1].index, 0);
    assert_true(a->box[0] == 64 && a->box[1] == MMA_BOX && b->box[0] == 64 && b->box[1] == 16);
    bool ok = true;
    IxEnv env = {.size = (int64_t[]){17, 64, 513}};
    assert_int_equal(ix_eval(r.k.tiles, &env, &ok), 9 * 2);
    assert_int_equal(case_texts(r.k.ptx, "setmaxnreg"), 0);
    assert_int_equal(case_texts(r.k.ptx, "cache_hint"), 0);
    arena_free(&r.a);
    case_swap = false;
    case_lower(&r, &(Case){gelu, 8, 8, 2, 1, "", 0});
    assert_int_equal(r.k.smem->num, (8 + 8) * 128 + 64 * 128);
    arena_free(&r.a);
    case_lower(&r, &(Case){gelu, 128, 128, 4, 2, "", 0});
    assert_int_equal(case_texts(r.k.ptx, "setmaxnreg"), 2);
    arena_free(&r.a);
}

static void evicts(void **state) {
    (void)state;
    Run r;
    memset(&r, 0, sizeof r);
    r.t = case_tile(&r.a, gelu);
    Schedule *s = case_schedule(&r.a, r.t, &(Case){gelu, 64, 32, 8, 1, "", 0});
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
    if (!s || !backend_lower(&r.a, NULL, &step, s, &o, &d, &r.k, NULL)) case_fail(&d);
    assert_int_equal(case_texts(r.k.ptx, "complete_tx::bytes.L2::cache_hint"), 3); /* boxes */
    assert_int_equal(case_texts(r.k.ptx, "1508705875169116160"), 1); /* 0x14F0000000000000: last */
    assert_int_equal(case_texts(r.k.ptx, "1364590687093260288"), 1); /* 0x12F0000000000000: first */
    str_free(&text);
    arena_free(&r.a);
}

/* Where threads load, launches need no alignment; 32 bits take the pitch. */
static void plain_launches(void **state) {
    (void)state;
    Run r;
    case_plain = 3;
    case_lower(&r, &(Case){case_ordered(false, true), 128, 256, 4, 2, "", 0});
    const Kernel *k = &r.k;
    for (int i = 0; i < k->params.n; i++) assert_int_not_equal(k->params.v[i].kind, KP_TMAP);
    for (int x = 0; x < 4; x++) {
        assert_int_equal(case_guards(k, KG_ALIGN, x, 0), 0);
        assert_int_equal(case_guards(k, KG_STRIDE, x, 0), 0);
        assert_int_equal(case_guards(k, KG_STRIDE_ONE, x, x == 2 ? 0 : 1), 1);
        assert_int_equal(case_guards(k, KG_STRIDE_NEAR, x, 0), x < 2);
    }
    assert_true(may_launch(k, (int64_t[]){1, 1, 1}));
    assert_true(may_launch(k, (int64_t[]){4095, 4095, 4097}));
    assert_false(may_launch(k, (int64_t[]){4096, 0, 4096})); /* M, K, N: no k tile */
    assert_false(may_launch(k, (int64_t[]){64, (int64_t)1 << 31, 64}));
    arena_free(&r.a);
    case_plain = 2;
    case_lower(&r, &(Case){gelu, 128, 256, 4, 2, "", 0});
    case_plain = 0;
    assert_int_equal(case_guards(&r.k, KG_ALIGN, 0, 0), 1);
    assert_int_equal(case_guards(&r.k, KG_STRIDE, 0, 0), 1);
    assert_int_equal(case_guards(&r.k, KG_ALIGN, 1, 0), 0);
    assert_int_equal(case_guards(&r.k, KG_STRIDE_NEAR, 1, 0), 1);
    arena_free(&r.a);
}

/* ---- refusals ------------------------------------------------------------------------------- */

static void refuses(const Case *c, const char *part) {
    Arena a = {0};
    Str why = {0};
    TProg *t = case_tile(&a, c->tile);
    if (schedule_verify(case_schedule(&a, t, c), t, &why)) fail_msg("taken, but: %s", part);
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
    case_plain = 2;
    refuses(&(Case){gelu, 128, 24, 4, 2, "", 0}, "plain loads bring 32 lines of 128 bytes");
    refuses(&(Case){scaled, 128, 96, 4, 2, "", 0}, "plain loads bring 64 lines of 128 bytes");
    case_plain = 0;
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
    c.tile = case_changed(gelu, "w: bf16[N, K]", "w: f16[N, K]");
    c.tile = case_changed(c.tile, "%3: bf16", "%3: f16");
    refuses(&c, "neither of one 16-bit float type nor of fp8");
    c.tile = case_changed(gelu, "x: bf16[M, K]", "x: bf16[M, K + 1]");
    refuses(&c, "the loop covers a part of a dimension of x");
    c.tile = case_changed(gelu, "load x[m, k]", "load x[m?, k]");
    refuses(&c, "x is read outside its domain");
    c.tile = case_changed(gelu, "mul %2, %3", "add %2, %3");
    refuses(&c, "the loop sums something else than a product");
    c.tile = case_changed(gelu, "load w[n, k]", "load w[0, k]");
    refuses(&c, "a factor has no axis of its own");
}

static int teardown(void **state) {
    (void)state;
    arena_free(&case_arena);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(launches),       cmocka_unit_test(launches_mn),
        cmocka_unit_test(thin_launches),  cmocka_unit_test(evicts),
        cmocka_unit_test(plain_launches), cmocka_unit_test(refused),
    };
    return cmocka_run_group_tests(tests, NULL, teardown);
}
