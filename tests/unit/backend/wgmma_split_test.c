/* wgmma_split_test.c - tiles of the last round in parts along k: how many, that they are all of the
 * work once, what memory a launch brings for them, which schedules cannot have them. What the
 * kernels compute is seen on the emulated device (emu_gemm) and on a GPU.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "backend/backend.h"
#include "ir/mma.h"

typedef struct Parts {
    int64_t whole, cut, parts, items;
} Parts;

static Parts parts(int64_t tiles, int64_t k_tiles, int slots, int most) {
    Arena a = {0};
    IxPool pool, *p = &pool;
    ix_pool_init(p, &a);
    IxEnv env = {.size = (int64_t[]){tiles, k_tiles}};
    bool ok = true;
    MmaParts x = mma_parts(p, ix_size(p, 0), ix_size(p, 1), slots, most);
    Parts n = {ix_eval(x.whole, &env, &ok), ix_eval(x.cut, &env, &ok), ix_eval(x.parts, &env, &ok),
               ix_eval(x.items, &env, &ok)};
    assert_true(ok);
    arena_free(&a);
    return n;
}

static void expect(Parts got, Parts want) {
    assert_int_equal(got.whole, want.whole);
    assert_int_equal(got.cut, want.cut);
    assert_int_equal(got.items, want.items);
    if (want.cut) assert_int_equal(got.parts, want.parts);
}

static void how_many(void **state) {
    (void)state;
    expect(parts(16, 256, 132, 16), (Parts){0, 16, 8, 128});
    expect(parts(132, 256, 132, 16), (Parts){132, 0, 0, 132});  /* a full round */
    expect(parts(133, 256, 132, 16), (Parts){132, 1, 16, 148}); /* and one more */
    expect(parts(264 + 60, 40, 132, 16), (Parts){264, 60, 2, 384});
    expect(parts(100, 256, 132, 16), (Parts){100, 0, 0, 100}); /* no room for two parts of each */
    expect(parts(16, 7, 132, 16), (Parts){16, 0, 0, 16});      /* too few stages */
    expect(parts(16, 12, 132, 16), (Parts){0, 16, 3, 48});
    expect(parts(1, 1000, 132, 4), (Parts){0, 1, 4, 4});
    expect(parts(0, 1, 66, 16), (Parts){0, 0, 0, 0});
}

/* No round is longer for a split, and parts are no shorter than four stages. */
static void never_worse(void **state) {
    (void)state;
    for (int64_t tiles = 1; tiles < 500; tiles += 7)
        for (int64_t k = 1; k < 300; k += 13) {
            Parts n = parts(tiles, k, 66, 16);
            assert_int_equal(n.whole + n.cut, tiles);
            assert_int_equal(n.items, n.whole + n.cut * n.parts);
            assert_true((n.items + 65) / 66 == (tiles + 65) / 66);
            assert_true(!n.cut || (n.parts > 1 && n.parts <= 16 && k / n.parts >= 4));
        }
}

/* ---- schedules ---- */

static const char tile[] = "tile t.0 {\n  size M, N, K\n  in x: bf16[M, K] = 0\n"
                           "  in w: bf16[N, K] = 1\n  out y: bf16[M, N] = 2\n"
                           "  grid m: M\n  grid n: N\n  axis k: K\n  loop k from 0 to K {\n"
                           "    carry %1: f32 = sum\n    %2: bf16 = load x[m, k]\n"
                           "    %3: bf16 = load w[n, k]\n    %4: f32 = mul %2, %3\n"
                           "    step %1, %4\n  }\n  %5: bf16 = cast %1\n  store y[m, n], %5\n}\n";

static const Schedule *schedule(Arena *a, TProg **t, const char *load, const char *more) {
    Diags d = {.arena = a};
    const char *text =
        arena_printf(a,
                     "schedule s for t.0 target sm_90a {\n  move tma\n  mul wgmma\n  threads 384\n"
                     "  axis m tile 128\n  axis n tile 64\n  axis k tile 64\n"
                     "  value %%2 place smem buffers 4 swizzle 128%s\n"
                     "  value %%3 place smem buffers 4 swizzle 128\n%s%s}\n",
                     load,
                     *load ? "  role load warps 4 regs 152\n  role mma warps 8 regs 176\n"
                           : "  role load warps 4 regs 24\n  role mma warps 8 regs 240\n",
                     more);
    *t = tile_parse(a, source_new(a, "t", tile, strlen(tile)), &d);
    assert_non_null(*t);
    Schedule *s = schedule_parse(a, source_new(a, "s", text, strlen(text)), *t, &d);
    assert_non_null(s);
    return s;
}

static void refuses(const char *load, const char *more, const char *part) {
    Arena a = {0};
    TProg *t;
    Str why = {0};
    const Schedule *s = schedule(&a, &t, load, more);
    if (schedule_verify(s, t, &why)) fail_msg("taken, but: %s", part);
    if (!strstr(str_get(&why), part)) fail_msg("no '%s' in: %s", part, str_get(&why));
    str_free(&why);
    arena_free(&a);
}

static void refused(void **state) {
    (void)state;
    refuses("", "  split 2\n", "need a persistent kernel");
    refuses("", "  split 17\n  persistent\n", "split in at most 16 parts");
    refuses("", "  split 2\n  pingpong\n  persistent\n", "with pingpong nothing is split");
    refuses(" plain", "  split 2\n  persistent\n", "with plain loads nothing is split");
}

static int64_t at(const Ix *x, int64_t m, int64_t n, int64_t k) {
    IxEnv env = {.size = (int64_t[]){m, n, k}};
    bool ok = true;
    int64_t v = ix_eval(x, &env, &ok);
    assert_true(ok);
    return v;
}

/* 512 x 512: 4 x 8 tiles of 128 x 64 in 4 parts, 8 warps of 32 registers a tile. */
static void memory(void **state) {
    (void)state;
    Arena a = {0};
    TProg *t;
    Diags d = {.arena = &a};
    const Schedule *s = schedule(&a, &t, "", "  split 16\n  persistent\n");
    Step step = {.name = t->name, .tile = t};
    BackendOptions o = {.target = target_named("sm_90a")};
    Kernel k;
    assert_true(backend_lower(&a, NULL, &step, s, &o, &d, &k, NULL));
    assert_int_equal(at(k.tiles, 512, 512, 16384), 32 * 4);
    assert_int_equal(at(k.scratch, 512, 512, 16384), 32 * 4 * 128 * 64 * 4);
    assert_int_equal(at(k.scratch, 512, 512, 256), 0);
    assert_int_equal(at(k.head, 512, 512, 16384), 132 * 8 * 4);
    assert_int_equal(at(k.head, 1, 1, 1), 132 * 8 * 4); /* where sizes change, it stays in place */
    int scratch = 0, head = 0;
    for (int i = 0; i < k.params.n; i++) {
        scratch += k.params.v[i].kind == KP_SCRATCH;
        head += k.params.v[i].kind == KP_HEAD;
    }
    assert_true(scratch == 1 && head == 1);
    s = schedule(&a, &t, "", "  persistent\n");
    step.tile = t;
    assert_true(backend_lower(&a, NULL, &step, s, &o, &d, &k, NULL));
    assert_true(!k.scratch && !k.head);
    arena_free(&a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(how_many),
        cmocka_unit_test(never_worse),
        cmocka_unit_test(refused),
        cmocka_unit_test(memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
