/* mma_strips_test.c - how a sum over blocks of k of sums over one is seen by the wgmma tier, as
 * text; which is not, and why; and how its tiles are scaled. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "ir/ir.h"
#include "ir/mma.h"

static Arena arena;

static int teardown(void **state) {
    (void)state;
    arena_free(&arena);
    return 0;
}

static TProg *parse(const char *text) {
    Diags d = {.arena = &arena};
    Str s = {0};
    TProg *t = tile_parse(&arena, source_new(&arena, "t", text, strlen(text)), &d);
    if (!t) {
        diag_print(&d, &s, false);
        fail_msg("%s", str_get(&s));
    }
    if (!tile_verify(t, &s)) fail_msg("%s", str_get(&s));
    str_free(&s);
    return t;
}

/* The first `from` of a text replaced. */
static const char *changed(const char *text, const char *from, const char *to) {
    const char *at = strstr(text, from);
    assert_non_null(at);
    return arena_printf(&arena, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
}

#define HEAD                                                                                       \
    "tile t.0 {\n  size M, N, K\n  in x: e4m3[M, K] = 0\n  in w: e4m3[N, K] = 1\n"                 \
    "  in s: f32[M, (K + 127)/128] = 2\n  in u: f32[(N + 127)/128, (K + 127)/128] = 3\n"           \
    "  out y: f32[M, N] = 4\n  grid m: M\n  grid n: N\n  axis kb: (K + 127)/128\n  axis ki: 128\n" \
    "  %9: f32 = const 0.5\n"
#define INNER                                                                                      \
    "    loop ki from 0 to min(K - 128*kb, 128) {\n      carry %1: f32 = sum\n"                    \
    "      %2: e4m3 = load x[m, 128*kb + ki]\n      %3: e4m3 = load w[n, 128*kb + ki]\n"           \
    "      %4: f32 = mul %2, %3\n      step %1, %4\n    }\n"

static const char ragged[] =
    HEAD "  loop kb from 0 to (K + 127)/128 {\n    carry %0: f32 = sum\n" INNER
         "    %5: f32 = load s[m, kb]\n    %6: f32 = load u[n/128, kb]\n    %7: f32 = mul %5, %6\n"
         "    %8: f32 = mul %7, %9\n    %10: f32 = mul %1, %8\n    step %0, %10\n  }\n"
         "  store y[m, n], %0\n}\n";

/* k in two dimensions of one factor. */
static const char apart[] =
    "tile t.0 {\n  size M, N, J\n  in x: e4m3[M, J, 256] = 0\n  in w: e5m2[N, 256*J] = 1\n"
    "  in s: f32[N, J] = 2\n  out y: f32[M, N] = 3\n  grid m: M\n  grid n: N\n  axis j: J\n"
    "  axis e: 256\n  loop j from 0 to J {\n    carry %0: f32 = sum\n"
    "    loop e from 0 to 256 {\n      carry %1: f32 = sum\n      %2: e4m3 = load x[m, j, e]\n"
    "      %3: e5m2 = load w[n, 256*j + e]\n      %4: f32 = mul %2, %3\n      step %1, %4\n    }\n"
    "    %5: f32 = load s[n, j]\n    %6: f32 = mul %1, %5\n    step %0, %6\n  }\n"
    "  store y[m, n], %0\n}\n";

/* ---- what is seen ---- */

static void sees(const char *text, const char *axis, const char *loop, int64_t size) {
    MmaNest n;
    Str why = {0};
    if (!mma_nest(parse(text), &n, &why)) fail_msg("%s", str_get(&why));
    tile_print(&why, n.t);
    const char *seen = str_get(&why);
    if (!strstr(seen, axis)) fail_msg("%s\nlacks\n%s", seen, axis);
    if (!strstr(seen, loop)) fail_msg("%s\nlacks\n%s", seen, loop);
    assert_non_null(n.strips.loop);
    assert_int_equal(n.strips.size, size);
    str_free(&why);
}

static void seen(void **state) {
    (void)state;
    sees(ragged, "  axis ki: K\n",
         "  loop ki from 0 to K {\n    carry %1: f32 = sum\n    %2: e4m3 = load x[m, ki]\n"
         "    %3: e4m3 = load w[n, ki]\n    %4: f32 = mul %2, %3\n    step %1, %4\n  }\n"
         "  loop kb from 0 to (K + 127)/128 {\n    carry %0: f32 = sum\n"
         "    %5: f32 = load s[m, kb]\n",
         128);
    /* all blocks are whole: what there are of k is what a factor has */
    sees(changed(ragged, "min(K - 128*kb, 128)", "128"), "  axis ki: K\n", "load x[m, ki]\n", 128);
    /* inside of the tensor, whatever the loop around said */
    sees(changed(ragged, "x[m, 128*kb + ki]", "x[m, 128*kb + ki?]"), "  axis ki: K\n",
         "load x[m, ki]\n", 128);
    sees(apart, "  axis e: 256*J\n", "load x[m, e/256, e%256]\n    %3: e5m2 = load w[n, e]\n", 256);
}

static void parts(void **state) {
    (void)state;
    Mma m;
    Str why = {0};
    if (!mma_find(parse(ragged), -1, -1, &m, &why)) fail_msg("%s", str_get(&why));
    const MmaStrips *s = &m.nest.strips;
    assert_int_equal(m.sums, 1);
    assert_int_equal(m.carry[0], 0);
    assert_int_equal(s->partial[0], 1);
    assert_int_equal(s->step[0], 10);
    assert_int_equal(s->free.n, 5); /* the constant before the loops, too */
    assert_int_equal(s->free.v[0]->id, 9);
    assert_int_equal(s->scaled.n, 1);
    assert_int_equal(s->scaled.v[0]->id, 10);
    str_free(&why);
}

/* ---- what is not ---- */

/* One factor is the same in all blocks: the loop around is over rows or columns. */
static void others(void **state) {
    (void)state;
    MmaStrips s;
    Str why = {0};
    const TProg *rows = parse(changed(ragged, "w[n, 128*kb + ki]", "w[n, ki]"));
    assert_ptr_equal(mma_strips(rows, &s, &why), rows);
    assert_null(s.loop);
    str_free(&why);
}

static void refuses(const char *text, const char *part) {
    Mma m;
    Str why = {0};
    if (mma_find(parse(text), -1, -1, &m, &why)) fail_msg("taken, but: %s", part);
    if (!strstr(str_get(&why), part)) fail_msg("no '%s' in: %s", part, str_get(&why));
    str_free(&why);
}

static void refused(void **state) {
    (void)state;
    refuses(changed(ragged, "min(K - 128*kb, 128)", "min(K - 128*kb, 100)"),
            "the loop over ki does not cover its blocks");
    refuses(changed(ragged, "loop kb from 0", "loop kb from 1"), "is not over blocks");
    refuses(changed(ragged, "x[m, 128*kb + ki]", "x[m, 64*kb + ki]"), "an index is not one of k");
    refuses(changed(ragged, "step %0, %10", "step %0, %8"),
            "is of something else than a block's sum");
    refuses(changed(ragged, "carry %0: f32 = sum", "carry %0: f32 = max"), "no plain f32 sum");
    refuses(changed(ragged, "step %0, %10", "store y[m, n], %10\n    step %0, %10"),
            "does more than to sum");
    refuses(changed(ragged, "mul %2, %3", "add %2, %3"), "something else than a product");
}

/* ---- tiles ---- */

static bool tiles(const char *text, const char *k, int m, int n, const char *more, MmaTiles *w,
                  Str *why) {
    const TProg *t = parse(text);
    Mma x;
    Diags d = {.arena = &arena};
    const char *said =
        arena_printf(&arena,
                     "schedule s for t.0 target sm_90a {\n  move tma\n  mul wgmma\n  threads 384\n"
                     "  axis m tile %d\n  axis n tile %d\n  axis %s tile 128\n"
                     "  value %%2 place smem buffers 4 swizzle 128\n"
                     "  value %%3 place smem buffers 4 swizzle 128\n  role load warps 4 regs 24\n"
                     "  role mma warps 8 regs 240\n%s}\n",
                     m, n, k, more);
    Schedule *s = schedule_parse(&arena, source_new(&arena, "s", said, strlen(said)), t, &d);
    assert_non_null(s);
    return mma_schedule(t, s, &x, w, why);
}

static void scaled(void **state) {
    (void)state;
    MmaTiles w;
    Str why = {0};
    assert_true(tiles(ragged, "ki", 128, 192, "  promote 128\n", &w, &why));
    assert_int_equal(w.strip_group, 64); /* of 128 columns, and a tile begins at any 192 */
    assert_true(tiles(ragged, "ki", 128, 128, "  promote 128\n", &w, &why));
    assert_int_equal(w.strip_group, 128);
    assert_true(tiles(apart, "e", 128, 96, "  promote 128\n", &w, &why));
    assert_int_equal(w.strip_group, 0); /* each its own */
    assert_false(tiles(apart, "e", 128, 192, "  promote 128\n", &w, &why));
    assert_non_null(strstr(str_get(&why), "accumulators in 240 registers"));
    assert_false(tiles(ragged, "ki", 128, 192, "", &w, &why));
    assert_non_null(strstr(str_get(&why), "are scaled when they are promoted"));
    str_free(&why);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(seen),    cmocka_unit_test(parts),  cmocka_unit_test(others),
        cmocka_unit_test(refused), cmocka_unit_test(scaled),
    };
    return cmocka_run_group_tests(tests, NULL, teardown);
}
