/* online_split_test.c - loops over blocks of j that are cut into parts: what memory a launch brings
 * for them, that it stays where it is when sizes change, which schedules cannot have them. What the
 * kernels compute is seen on the emulated device (emu_split) and on a GPU.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "backend/backend.h"
#include "ir/online.h"

/* rows: extent of the axis of rows; lag: of the frame's followers. */
static const char tile[] =
    "tile t.0 {\n  size B, T\n  in q: bf16[B, %s, 64] = 0\n  in k: bf16[B, T, 64] = 1\n"
    "  in v: bf16[B, T, 64] = 2\n  out o: bf16[B, %s, 64] = 3\n"
    "  grid b: B\n  grid r: %s\n  grid e: 64\n  axis j: T tile 128\n  axis e_1: 64\n"
    "  loop j from 0 to T {\n    carry %%0: f32 = max\n"
    "    carry %%1: f32 = sum frame %%0 rescale (old new sub exp) lag 1 bound 44\n"
    "    carry %%2: f32 = sum frame %%0 rescale (old new sub exp) lag 1 bound 44\n"
    "    loop e_1 from 0 to 64 {\n      carry %%3: f32 = sum\n"
    "      %%4: bf16 = load q[b, r, e_1]\n      %%5: bf16 = load k[b, j, e_1]\n"
    "      %%6: f32 = mul %%4, %%5\n      step %%3, %%6\n    }\n    step %%0, %%3\n"
    "    %%7: f32 = sub %%3, %%0\n    %%8: f32 = exp %%7\n    step %%1, %%8\n"
    "    %%9: bf16 = load v[b, j, e]\n    %%10: f32 = mul %%8, %%9\n    step %%2, %%10\n  }\n"
    "  %%11: f32 = div %%2, %%1\n  %%12: bf16 = cast %%11\n  store o[b, r, e], %%12\n}\n";

static const Schedule *schedule(Arena *a, TProg **t, const char *rows, int groups,
                                const char *more) {
    Diags d = {.arena = a};
    const char *in = arena_printf(a, tile, rows, rows, rows);
    const char *text =
        arena_printf(a,
                     "schedule s for t.0 target sm_90a {\n  move tma\n  mul wgmma\n  threads %d\n"
                     "  axis r tile %d\n  axis e tile 64\n  axis j tile 128\n  axis e_1 tile 64\n"
                     "  value %%4 place smem buffers 2 swizzle 128\n"
                     "  value %%5 place smem buffers 3 swizzle 128\n"
                     "  value %%9 place smem buffers 3 swizzle 128\n"
                     "  role load warps 4 regs %d\n  role mma warps %d regs %d\n%s}\n",
                     128 * (1 + groups), 64 * groups, groups == 1 ? 40 : 24, 4 * groups,
                     groups == 1 ? 232 : 240, more);
    *t = tile_parse(a, source_new(a, "t", in, strlen(in)), &d);
    assert_non_null(*t);
    Schedule *s = schedule_parse(a, source_new(a, "s", text, strlen(text)), *t, &d);
    assert_non_null(s);
    return s;
}

static void refuses(const char *more, const char *part) {
    Arena a = {0};
    TProg *t;
    Str why = {0};
    const Schedule *s = schedule(&a, &t, "4", 1, more);
    if (schedule_verify(s, t, &why)) fail_msg("taken, but: %s", part);
    if (!strstr(str_get(&why), part)) fail_msg("no '%s' in: %s", part, str_get(&why));
    str_free(&why);
    arena_free(&a);
}

static void refused(void **state) {
    (void)state;
    refuses("  split 2\n", "split needs persistent");
    refuses("  split 65\n  persistent\n", "split in at most 64 parts");
}

static Kernel kernel(Arena *a, const char *rows, int groups, const char *more) {
    TProg *t;
    Diags d = {.arena = a};
    const Schedule *s = schedule(a, &t, rows, groups, more);
    Step step = {.name = t->name, .tile = t};
    BackendOptions o = {.target = target_named("sm_90a")};
    Kernel k;
    assert_true(backend_lower(a, NULL, &step, s, &o, &d, &k, NULL));
    return k;
}

static int64_t at(const Ix *x, int64_t b, int64_t n) {
    IxEnv env = {.size = (int64_t[]){b, n}};
    bool ok = true;
    int64_t v = ix_eval(x, &env, &ok);
    assert_true(ok);
    return v;
}

/* A tile of 4 rows: 64 sums of each, and maximum, frame and sum of a row in 4 words. */
static void memory(void **state) {
    (void)state;
    Arena a = {0};
    Kernel k = kernel(&a, "4", 1, "  split 64\n  persistent\n");
    assert_int_equal(at(k.tiles, 8, 131072), 8 * 16);
    assert_int_equal(at(k.tiles, 1, 131072), 64); /* no more than the schedule says */
    assert_int_equal(at(k.tiles, 100, 131072), 100);
    assert_int_equal(at(k.tiles, 134, 1024), 132 + 2 * 2); /* parts of four blocks */
    assert_int_equal(at(k.tiles, 8, 0), 8);
    assert_int_equal(at(k.scratch, 8, 131072), 8 * 16 * 4 * 4 * (64 + 4));
    assert_int_equal(at(k.scratch, 100, 131072), 0);
    assert_int_equal(at(k.head, 8, 131072), 4 + 132 * 4);
    assert_int_equal(at(k.head, 1, 1), 4 + 132 * 4); /* where sizes change, it stays in place */
    k = kernel(&a, "130", 2, "  split 64\n  persistent\n"); /* of 64 rows, twice, in two tiles */
    assert_int_equal(at(k.scratch, 4, 131072), 4 * 2 * 16 * 2 * 64 * 4 * (64 + 4));
    assert_int_equal(at(k.head, 4, 131072), 4 + 2 * 132 * 4);
    k = kernel(&a, "4", 1, "  persistent\n");
    assert_int_equal(at(k.tiles, 8, 131072), 8);
    assert_true(!k.scratch && !k.head);
    arena_free(&a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refused),
        cmocka_unit_test(memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
