/* mma_nest_test.c - how programs that loop over blocks of a product are seen by the wgmma tier, as
 * text; which are not, and why; and which tiles hold their blocks. */
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

#define PRODUCT(row, col)                                                                          \
    "loop k from 0 to K {\n"                                                                       \
    "      carry %1: f32 = sum\n"                                                                  \
    "      %2: bf16 = load x[" row ", k]\n      %3: bf16 = load w[" col ", k]\n"                   \
    "      %4: f32 = mul %2, %3\n      step %1, %4\n    }\n"

/* A row's maximum and sum of y = z + b[n] + c[m], with y stored. */
static const char rows[] = "tile t.0 {\n"
                           "  size M, N, K\n"
                           "  in x: bf16[M, K] = 0\n  in w: bf16[N, K] = 1\n  in b: f32[N] = 2\n"
                           "  in c: f32[M] = 3\n  out y: f32[M, N] = 4\n"
                           "  temp p: f32[(N + 127)/128, M] = 0\n"
                           "  temp q: f32[(N + 127)/128, M] = 1\n"
                           "  grid nb: (N + 127)/128\n  grid m: M\n  axis ni: 128\n  axis k: K\n"
                           "  %5: f32 = load c[m]\n"
                           "  loop ni from 0 to min(N - 128*nb, 128) {\n"
                           "    carry %0: f32 = max\n    carry %9: f32 = sum\n"
                           "    " PRODUCT("m", "128*nb + ni") //
    "    %6: f32 = load b[128*nb + ni]\n    %7: f32 = add %1, %6\n    %8: f32 = add %7, %5\n"
    "    store y[m, 128*nb + ni], %8\n    step %0, %8\n    step %9, %1\n  }\n"
    "  store p[nb, m], %0\n  %10: f32 = add %9, %5\n  store q[nb, m], %10\n}\n";

/* Of blocks of rows and of columns, in batches. */
static const char both[] =
    "tile t.0 {\n"
    "  size B, M, K\n"
    "  in x: bf16[B, M, K] = 0\n  in w: bf16[512, K] = 1\n"
    "  temp p: f32[(M + 63)/64, B, 4] = 0\n"
    "  grid mb: (M + 63)/64\n  grid b: B\n  grid nb: 4\n  axis ni: 128\n  axis mi: 64\n"
    "  axis k: K\n"
    "  loop ni from 0 to 128 {\n    carry %0: f32 = max\n"
    "    loop mi from 0 to min(M - 64*mb, 64) {\n    " PRODUCT("b, 64*mb + mi", "128*nb + ni") //
    "    step %0, %1\n    }\n  }\n"
    "  store p[mb, b, nb], %0\n}\n";

/* Rows that are whole. */
static const char whole[] = "tile t.0 {\n"
                            "  size M, K\n"
                            "  in x: bf16[M, K] = 0\n  in w: bf16[200, K] = 1\n"
                            "  out s: f32[M] = 2\n"
                            "  grid m: M\n  axis n: 200\n  axis k: K\n"
                            "  loop n from 0 to 200 {\n    carry %0: f32 = sum\n    " //
    PRODUCT("m", "n") "    step %0, %1\n  }\n  store s[m], %0\n}\n";

/* ---- what is seen ---------------------------------------------------------------------------- */

static const char *view(const MmaNest *n) {
    Str s = {0};
    tile_print(&s, n->t);
    const char *text = arena_strdup(&arena, str_get(&s));
    str_free(&s);
    return text;
}

static void sees(const char *text, const char *grid, const char *body) {
    MmaNest n;
    Str why = {0};
    if (!mma_nest(parse(text), &n, &why)) fail_msg("%s", str_get(&why));
    const char *seen = view(&n);
    if (!strstr(seen, grid)) fail_msg("%s\nlacks\n%s", seen, grid);
    if (!strstr(seen, body)) fail_msg("%s\nlacks\n%s", seen, body);
}

static void test_rows(void **state) {
    (void)state;
    sees(rows, "  grid m: M\n  grid ni: N\n  axis nb: (N + 127)/128\n  axis k: K\n",
         "  %5: f32 = load c[m]\n"
         "  loop k from 0 to K {\n    carry %1: f32 = sum\n    %2: bf16 = load x[m, k]\n"
         "    %3: bf16 = load w[ni, k]\n    %4: f32 = mul %2, %3\n    step %1, %4\n  }\n"
         "  %6: f32 = load b[ni]\n  %7: f32 = add %1, %6\n  %8: f32 = add %7, %5\n"
         "  store y[m, ni], %8\n"
         "  loop ni from 0 to 0 {\n    carry %0: f32 = max\n    carry %9: f32 = sum\n"
         "    step %0, %8\n    step %9, %1\n  }\n"
         "  store p[nb, m], %0\n  %10: f32 = add %9, %5\n  store q[nb, m], %10\n");
}

static void test_both(void **state) {
    (void)state;
    sees(both, "  grid mi: M\n  grid b: B\n  grid ni: 512\n", "load x[b, mi, k]");
    sees(both, "  axis mb: (M + 63)/64\n", "  store p[mb, b, nb], %0\n");
}

static void test_whole(void **state) {
    (void)state;
    sees(whole, "  grid m: M\n  grid n: 200\n  axis k: K\n", "  store s[m], %0\n");
}

/* What is carried in a frame is seen like the rest; but no reduction of rows is in one, nor what
 * another axis would make again and again. */
static const char framed[] =
    "tile t.0 {\n"
    "  size D, M, N, K\n"
    "  in x: bf16[M, K] = 0\n  in w: bf16[N, K] = 1\n  in v: f32[N, D] = 2\n"
    "  temp p: f32[(N + 511)/512, M] = 0\n  temp q: f32[(N + 511)/512, M] = 1\n"
    "  grid nb: (N + 511)/512\n  grid m: M\n  axis ni: 512 tile 128\n  axis k: K\n"
    "  loop ni from 0 to min(N - 512*nb, 512) {\n"
    "    carry %0: f32 = max\n"
    "    carry %9: f32 = sum frame %0 rescale (old new sub exp)\n"
    "    " PRODUCT("m", "512*nb + ni") //
    "    step %0, %1\n    %5: f32 = sub %1, %0\n    %6: f32 = exp %5\n    step %9, %6\n  }\n"
    "  store p[nb, m], %0\n  store q[nb, m], %9\n}\n";

static void test_frames(void **state) {
    (void)state;
    sees(framed, "  grid m: M\n  grid ni: N\n  axis nb: (N + 511)/512\n  axis k: K\n",
         "  %5: f32 = sub %1, %0\n  %6: f32 = exp %5\n"
         "  loop ni from 0 to 0 {\n    carry %0: f32 = max\n"
         "    carry %9: f32 = sum frame %0 rescale (old new sub exp)\n"
         "    step %0, %1\n    step %9, %6\n  }\n");
}

/* Positions in other forms than the bare one. */
static void test_positions(void **state) {
    (void)state;
    sees(changed(rows, "load b[128*nb + ni]", "load b[(128*nb + ni)/4]"), "grid ni: N",
         "load b[ni/4]");
}

/* A program without such loops is seen as it is. */
static void test_none(void **state) {
    (void)state;
    MmaNest n;
    Str why = {0};
    TProg *t = parse("tile t.0 {\n  size M\n  in x: f32[M] = 0\n  out y: f32[M] = 1\n"
                     "  grid m: M\n  %0: f32 = load x[m]\n  store y[m], %0\n}\n");
    assert_true(mma_nest(t, &n, &why));
    assert_ptr_equal(n.t, t);
    assert_null(n.blocks);
    assert_int_equal(n.rest, 2);
}

/* ---- what is not ----------------------------------------------------------------------------- */

static void refuses(const char *text, const char *reason) {
    Mma m;
    Str why = {0};
    if (mma_find(parse(text), -1, -1, &m, &why)) fail_msg("found, but: %s", reason);
    if (!strstr(str_get(&why), reason)) fail_msg("%s\nnot: %s", str_get(&why), reason);
    str_free(&why);
}

static void test_refused(void **state) {
    (void)state;
    refuses(changed(rows, "%5: f32 = load c[m]", "%5: i64 = index nb"),
            "something is done for each block before its loop");
    refuses(changed(rows, "%6: f32 = load b[128*nb + ni]", "%6: i64 = index nb"),
            "depends on the number");
    refuses(changed(rows, "load b[128*nb + ni]", "load b[ni]"), "depends on the number");
    refuses(changed(rows, "to min(N - 128*nb, 128)", "to min(N - 128*nb, 127)"),
            "does not cover its block");
    refuses(changed(whole, "from 0 to 200", "from 0 to 199"), "does not cover its block");
    refuses(changed(whole, "from 0 to 200", "from 1 to 200"), "not of a block");
    refuses(changed(changed(changed(whole, "w: bf16[200", "w: bf16[1025"), "n: 200", "n: 1025"),
                    "to 200", "to 1025"),
            "not of a block");
    refuses(changed(whole, "  store s[m], %0\n",
                    "  loop n from 0 to 200 {\n    carry %5: f32 = max\n    step %5, %0\n  }\n"
                    "  store s[m], %5\n"),
            "a second loop");
    refuses(changed(rows, "    step %0, %8\n",
                    "    %11: bool = lt %8, %5\n    guard %11 {\n"
                    "      step %0, %8\n    }\n"),
            "a guard");
    const char *wide = changed(
        changed(framed, "temp q: f32[(N + 511)/512, M]", "temp q: f32[(N + 511)/512, M, D]"),
        "  grid m: M\n", "  grid m: M\n  grid d: D\n");
    wide = changed(
        wide, "    step %9, %6\n",
        "    %7: f32 = load v[512*nb + ni, d]\n    %8: f32 = mul %6, %7\n    step %9, %8\n");
    refuses(changed(wide, "store q[nb, m]", "store q[nb, m, d]"), "no factor has d");
    refuses(changed(changed(whole, "x: bf16[M", "x: f16[M"), "bf16 = load x", "f16 = load x"),
            "neither of one 16-bit float type");
}

/* ---- tiles ----------------------------------------------------------------------------------- */

static const char *tiles(const char *text, const char *axes, const char *more) {
    TProg *t = parse(text);
    Diags d = {.arena = &arena};
    const char *s = arena_printf(&arena,
                                 "schedule s for t.0 target sm_90a {\n  move tma\n  mul wgmma\n"
                                 "  threads 384\n%s  axis k tile 64\n"
                                 "  value %%2 place smem buffers 3 swizzle 128\n"
                                 "  value %%3 place smem buffers 3 swizzle 128\n"
                                 "  role load warps 4 regs 24\n  role mma warps 8 regs 240\n"
                                 "%s  persistent\n}\n",
                                 axes, more);
    Schedule *sc = schedule_parse(&arena, source_new(&arena, "s", s, strlen(s)), t, &d);
    assert_non_null(sc);
    Str why = {0};
    bool ok = schedule_verify(sc, t, &why);
    const char *said = ok ? "" : arena_strdup(&arena, str_get(&why));
    str_free(&why);
    return said;
}

static void test_tiles(void **state) {
    (void)state;
    assert_string_equal(tiles(rows, "  axis m tile 128\n  axis ni tile 128\n", ""), "");
    assert_string_equal(tiles(rows, "  axis m tile 128\n  axis ni tile 256\n", ""), "");
    assert_string_equal(tiles(whole, "  axis m tile 128\n  axis n tile 208\n", ""), "");
    const char *no = "tiles of 192 columns, of which 128 are reduced together";
    assert_non_null(strstr(tiles(rows, "  axis m tile 128\n  axis ni tile 192\n", ""), no));
    assert_string_equal(tiles(whole, "  axis m tile 128\n  axis n tile 192\n", ""), ""); /* two */
    assert_string_equal(tiles(rows, "  axis m tile 128\n  axis ni tile 64\n", ""), "");
    no = "a block of 128 columns is walked by all groups";
    assert_non_null(
        strstr(tiles(rows, "  axis m tile 64\n  axis ni tile 64\n", "  pingpong\n"), no));
    assert_string_equal(tiles(both, "  axis mi tile 128\n  axis ni tile 256\n", ""), "");
    assert_string_equal(tiles(rows, "  axis ni tile 256\n  axis m tile 128\n", ""), "");
    assert_string_equal(tiles(framed, "  axis m tile 128\n  axis ni tile 256\n", ""), "");
    assert_string_equal(tiles(framed, "  axis m tile 128\n  axis ni tile 128\n", ""), "");
    no = "tiles of 192 columns, of which 512 are reduced together";
    assert_non_null(strstr(tiles(framed, "  axis m tile 128\n  axis ni tile 192\n", ""), no));
    no = "tiles of 128 rows, of which 512 are reduced together";
    assert_non_null(strstr(tiles(framed, "  axis ni tile 128\n  axis m tile 128\n", ""), no));
    no = "tiles of 128 rows, of which 128 are reduced together"; /* a group has 64 */
    assert_non_null(strstr(tiles(rows, "  axis ni tile 128\n  axis m tile 128\n", ""), no));
    no = "with reductions nothing is split";
    assert_non_null(
        strstr(tiles(rows, "  axis m tile 128\n  axis ni tile 128\n", "  split 4\n"), no));
    no = "tiles of 256 columns, of which 200 are reduced together"; /* a pair has two tiles */
    assert_non_null(
        strstr(tiles(whole, "  axis m tile 128\n  axis n tile 256\n", "  cluster 1 2 1\n"), no));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),  cmocka_unit_test(test_both),
        cmocka_unit_test(test_whole), cmocka_unit_test(test_positions),
        cmocka_unit_test(test_none),  cmocka_unit_test(test_refused),
        cmocka_unit_test(test_tiles), cmocka_unit_test(test_frames),
    };
    return cmocka_run_group_tests(tests, NULL, teardown);
}
