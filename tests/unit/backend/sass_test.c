/* sass_test.c - what is read from machine code against what PTX was written to make of it: spills
 * inside and outside of the main loop. Without ptxas there is nothing to read.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "backend/nvptx/sass_int.h"
#include "tests/unit/backend/build.h"

static Arena arena;
static const char *ptxas;

static int setup(void **state) {
    (void)state;
    ptxas = ptxas_find(&arena, NULL);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    arena_free(&arena);
    return 0;
}

/* ---- kernels: of so many registers a thread, so that what is live must be spilt ---- */

enum { LIVE = 64 };

static void begin(Str *s) {
    str_add(s, ".version 8.0\n.target sm_90a\n.address_size 64\n"
               ".visible .entry k(.param .u64 p, .param .u32 n)\n.maxnreg 32\n{\n"
               ".reg .b64 %p; .reg .b32 %n, %i, %j, %a<4>, %b<2>; .reg .pred %q;\n");
    str_printf(s, ".reg .f32 %%c<%d>, %%e<%d>;\n", LIVE, LIVE);
    str_add(s, "ld.param.u64 %p, [p];\nld.param.u32 %n, [n];\n"
               "ld.volatile.global.u32 %a0, [%p];\nmov.b32 %a1, %a0;\nmov.b32 %a2, %a0;\n"
               "mov.b32 %a3, %a0;\nmov.b32 %b0, %a0;\nmov.b32 %b1, %a0;\n");
    for (int i = 0; i < LIVE; i++) str_printf(s, "mov.f32 %%c%d, 0f00000000;\n", i);
}

/* n turns of a loop that multiplies into `tiles` tiles of 4 registers. */
static void main_loop(Str *s, int tiles, bool mma) {
    str_add(s, "mov.u32 %i, 0;\nMAIN:\n");
    for (int t = 0; t < tiles; t++) {
        int c = 4 * t;
        if (mma) {
            str_printf(s,
                       "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                       "{%%c%d, %%c%d, %%c%d, %%c%d}, {%%a0, %%a1, %%a2, %%a3}, {%%b0, %%b1}, "
                       "{%%c%d, %%c%d, %%c%d, %%c%d};\n",
                       c, c + 1, c + 2, c + 3, c, c + 1, c + 2, c + 3);
            continue;
        }
        for (int k = 0; k < 4; k++) {
            str_printf(s, "ld.volatile.global.f32 %%e0, [%%p+%d];\n", 4 * (c + k));
            str_printf(s, "fma.rn.f32 %%c%d, %%c%d, %%e0, %%e0;\n", c + k, c + k);
        }
    }
    str_add(s, "ld.volatile.global.u32 %a0, [%p+64];\nld.volatile.global.u32 %b0, [%p+68];\n"
               "add.u32 %i, %i, 1;\nsetp.lt.u32 %q, %i, %n;\n@%q bra MAIN;\n");
    for (int c = 0; c < 4 * tiles; c++)
        str_printf(s, "st.volatile.global.f32 [%%p+%d], %%c%d;\n", 4 * c, c);
}

/* More live values than there are registers, outside of the main loop. */
static void epilogue(Str *s) {
    for (int i = 0; i < LIVE; i++)
        str_printf(s, "ld.volatile.global.f32 %%e%d, [%%p+%d];\n", i, 4 * i);
    for (int i = LIVE; i-- > 0;)
        str_printf(s, "st.volatile.global.f32 [%%p+%d], %%e%d;\n", 4 * (LIVE - i), i);
}

static Kernel assembled(Str *s) {
    str_add(s, "ret;\n}\n");
    Kernel k = {.name = "k", .ptx = str_get(s)};
    const char *message;
    if (ptxas_run(&arena, ptxas, &k, "sm_90a", &message) != PTXAS_OK) fail_msg("%s", message);
    str_free(s);
    return k;
}

#define NEEDS_PTXAS                                                                                \
    if (!ptxas) skip()

static void in_the_main_loop(void **state) {
    (void)state;
    NEEDS_PTXAS;
    Str s = {0};
    begin(&s);
    main_loop(&s, LIVE / 4, true);
    Kernel k = assembled(&s);
    assert_true(k.stats.spill_bytes > 0);
    /* at least what 32 registers cannot hold of 64, out and in again */
    assert_in_range(k.stats.loop_spills, 2 * 4 * 32, k.stats.spill_bytes);
}

static void after_the_main_loop(void **state) {
    (void)state;
    NEEDS_PTXAS;
    Str s = {0};
    begin(&s);
    main_loop(&s, 1, true);
    epilogue(&s);
    Kernel k = assembled(&s);
    assert_true(k.stats.spill_bytes >= 2 * 4 * 32);
    assert_int_equal(k.stats.loop_spills, 0);
}

/* A persistent kernel: the epilogue is in a loop too, but the main loop is inside of that. */
static void in_an_outer_loop(void **state) {
    (void)state;
    NEEDS_PTXAS;
    Str s = {0};
    begin(&s);
    str_add(&s, "mov.u32 %j, 0;\nTILES:\n");
    main_loop(&s, 1, true);
    epilogue(&s);
    str_add(&s, "add.u32 %j, %j, 1;\nsetp.lt.u32 %q, %j, %n;\n@%q bra TILES;\n");
    Kernel k = assembled(&s);
    assert_true(k.stats.spill_bytes >= 2 * 4 * 32);
    assert_int_equal(k.stats.loop_spills, 0);
}

/* Without tensor cores every innermost loop counts, and a loop that waits is one. */
static void without_tensor_cores(void **state) {
    (void)state;
    NEEDS_PTXAS;
    Str s = {0};
    begin(&s);
    main_loop(&s, LIVE / 4, false);
    Kernel k = assembled(&s);
    assert_in_range(k.stats.loop_spills, 2 * 4 * 8, k.stats.spill_bytes);
}

static void none_at_all(void **state) {
    (void)state;
    NEEDS_PTXAS;
    Str s = {0};
    begin(&s);
    main_loop(&s, 1, true);
    Kernel k = assembled(&s);
    assert_int_equal(k.stats.spill_bytes, 0);
    assert_int_equal(k.stats.loop_spills, 0);
    assert_int_equal(sass_loop_spills(&arena, k.cubins.v[0].data, k.cubins.v[0].size, "other"), -1);
    /* multiplications are in the main loop; how the kernel is to be launched is not said */
    SassCode c;
    int mma = 0, in = 0;
    assert_false(sass_read(&arena, k.cubins.v[0].data, k.cubins.v[0].size, "other", &c));
    assert_true(sass_read(&arena, k.cubins.v[0].data, k.cubins.v[0].size, "k", &c));
    for (int i = 0; i < c.n; i++) {
        mma += (c.v[i].lo & 0xfff) == 0x23c;
        in += (c.v[i].lo & 0xfff) == 0x23c && c.v[i].main;
    }
    assert_true(in > 0 && in <= mma); /* an unrolled loop leaves some beside it */
    assert_false(c.v[0].main || c.v[c.n - 1].main);
    assert_int_equal(c.threads, 0);
    assert_in_range(c.regs, 8, 32);
}

/* Any bytes are read or refused. */
static void damaged(void **state) {
    (void)state;
    assert_int_equal(sass_loop_spills(&arena, "", 0, "k"), -1);
    NEEDS_PTXAS;
    Str s = {0};
    begin(&s);
    main_loop(&s, LIVE / 4, true);
    Kernel k = assembled(&s);
    SassCode code;
    size_t n = k.cubins.v[0].size;
    unsigned char *copy = malloc(n);
    for (size_t cut = 0; cut < n; cut += 97) {
        unsigned char *part = malloc(cut + 1);
        memcpy(part, k.cubins.v[0].data, cut);
        sass_loop_spills(&arena, part, cut, "k");
        sass_read(&arena, part, cut, "k", &code);
        free(part);
    }
    for (size_t at = 0; at < n; at += 3) {
        Arena own = {0};
        memcpy(copy, k.cubins.v[0].data, n);
        copy[at] ^= 0xff;
        sass_loop_spills(&own, copy, n, "k");
        sass_read(&own, copy, n, "k", &code);
        arena_free(&own);
    }
    free(copy);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_the_main_loop), cmocka_unit_test(after_the_main_loop),
        cmocka_unit_test(in_an_outer_loop), cmocka_unit_test(without_tensor_cores),
        cmocka_unit_test(none_at_all),      cmocka_unit_test(damaged),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
