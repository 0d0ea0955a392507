/* online_code.c - the machine code of the chosen attention kernel on mma.sync (128 rows, blocks of
 * 64): for sm_80 nothing is spilt; the PTX has as many bodies of blocks as bounds of j ask for; for
 * sm_90, from the same PTX (sass.c reads no older code), the loop multiplies, reads and meets as
 * often as it must; and code that breaks a rule is found out.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend/backend.h"
#include "backend/nvptx/sass_int.h"
#include "compiler/fkc.h"
#include "runtime/fkm.h"

static Arena arena;
static const char *ptxas;
static FkmModule *module;

/* 64 x 128 multiplied with 128 columns, and back, in products of 16 x 8 x 16, by a warp of four. */
enum { PRODUCTS = 2 * 128 * 64 * 128 / (16 * 8 * 16) / 4 };

/* Reads of 16 x 16 elements: rows and keys once for each step of 16 of 128, values once. */
enum { READS = 128 / 16 * (2 + 64 / 16) + 64 / 16 * 128 / 16, MEETINGS = 2 };
enum Opcode { HMMA = 0x23c, LDSM = 0x83b, BAR = 0xb1d };

static const char source[] =
    "fn full(q: bf16[B, S, H, 128], k: bf16[B, S, H, 128], v: bf16[B, S, H, 128]) -> "
    "(o: bf16[B, S, H, 128])\n{\n"
    "    s[b, h, i, j] = sum[e] q[b, i, h, e] * k[b, j, h, e]\n"
    "    p[b, h, i, j] = softmax[j](s[b, h, i, j])\n"
    "    o[b, i, h, e] = sum[j] p[b, h, i, j] * v[b, j, h, e]\n}\n"
    "fn causal(q: bf16[B, S, H, 128], k: bf16[B, S, H, 128], v: bf16[B, S, H, 128]) -> "
    "(o: bf16[B, S, H, 128])\n{\n"
    "    s[b, h, i, j] = sum[e] q[b, i, h, e] * k[b, j, h, e]\n"
    "    p[b, h, i, j] = softmax[j where j <= i](s[b, h, i, j])\n"
    "    o[b, i, h, e] = sum[j] p[b, h, i, j] * v[b, j, h, e]\n}\n";

static int compile(void **state) {
    (void)state;
    fkc_options o = fkc_defaults();
    fkc_result *r;
    size_t n;
    FkmError error;
    o.arch = "sm_80";
    o.ptxas = "none";
    o.outputs = 1u << FKC_MODULE;
    if (fkc_compile("a.fk", source, sizeof source - 1, &o, &r) != FKC_OK)
        fail_msg("%s", fkc_messages(r));
    const void *bytes = fkc_output_get(r, FKC_MODULE, &n);
    void *copy = aligned_alloc(16, (n + 15) / 16 * 16);
    memcpy(copy, bytes, n);
    fkc_free(r);
    if (!(module = fkm_decode(copy, n, &error))) fail_msg("%s", error.text);
    return 0;
}

static const FkmKernel *kernel_of(int fn) {
    const FkmStep *step = &module->fns[fn].steps[0];
    for (uint32_t v = 0; v < step->n_variants; v++)
        if (!strcmp(step->variants[v].name, "online_mma_128x64_w4_s2"))
            return &module->kernels[step->variants[v].launches[0].kernel];
    fail_msg("fn %d has no such variant", fn);
    return NULL;
}

static Kernel assembled(const FkmKernel *k, const char *ptx, const char *arch) {
    const char *message;
    Kernel made = {.name = k->name, .ptx = ptx};
    if (ptxas_run(&arena, ptxas, &made, arch, &message) != PTXAS_OK) fail_msg("%s", message);
    return made;
}

static int times_in(const char *text, const char *what) {
    int n = 0;
    for (; (text = strstr(text, what)); text++) n++;
    return n;
}

/* The first block, and a loop of whole ones; where bounds move with the rows, one of masked ones
 * too. */
static void bodies_of_blocks(void **state) {
    (void)state;
    assert_int_equal(times_in(kernel_of(0)->ptx, "mma.sync.aligned.m16n8k16"), 2 * PRODUCTS);
    assert_int_equal(times_in(kernel_of(1)->ptx, "mma.sync.aligned.m16n8k16"), 3 * PRODUCTS);
}

static bool spills(const Kernel *k) {
    return k->stats.stack || k->stats.spill_bytes;
}

static void no_local_memory(void **state) {
    (void)state;
    for (int fn = 0; fn < 2; fn++) {
        const FkmKernel *k = kernel_of(fn);
        Kernel made = assembled(k, k->ptx, "sm_80");
        assert_false(spills(&made));
    }
}

/* Half of the registers. */
static void spills_are_seen(void **state) {
    (void)state;
    const FkmKernel *k = kernel_of(0);
    const char *at = strstr(k->ptx, ".reqntid 128");
    assert_non_null(at);
    const char *spoilt = arena_printf(&arena, "%.*s.reqntid 512%s", (int)(at - k->ptx), k->ptx,
                                      at + strlen(".reqntid 128"));
    Kernel made = assembled(k, spoilt, "sm_80");
    assert_true(spills(&made));
}

static int in_loop(const SassCode *c, unsigned what) {
    int n = 0;
    for (int i = 0; i < c->n; i++) n += c->v[i].main && (unsigned)(c->v[i].lo & 0xfff) == what;
    return n;
}

static SassCode code_of(const FkmKernel *k, const char *ptx) {
    SassCode code;
    Kernel made = assembled(k, ptx, "sm_90");
    const Cubin *c = &made.cubins.v[0];
    assert_true(sass_read(&arena, c->data, c->size, k->name, &code));
    return code;
}

static void loop_of_blocks(void **state) {
    (void)state;
    const FkmKernel *k = kernel_of(0);
    SassCode c = code_of(k, k->ptx);
    assert_int_equal(in_loop(&c, HMMA), PRODUCTS);
    assert_int_equal(in_loop(&c, LDSM), READS);
    assert_int_equal(in_loop(&c, BAR), MEETINGS);
    Str twice = {0};
    const char *from = k->ptx;
    for (const char *at; (at = strstr(from, "bar.sync")); from = at + strlen("bar.sync"))
        str_printf(&twice, "%.*sbar.sync 0;\n\tbar.sync", (int)(at - from), from);
    str_printf(&twice, "%s", from);
    c = code_of(k, str_get(&twice));
    str_free(&twice);
    assert_int_not_equal(in_loop(&c, BAR), MEETINGS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bodies_of_blocks),
        cmocka_unit_test(no_local_memory),
        cmocka_unit_test(spills_are_seen),
        cmocka_unit_test(loop_of_blocks),
    };
    ptxas = ptxas_find(&arena, NULL);
    if (!ptxas) {
        printf("skipped: no ptxas here, so no machine code to look at\n");
        return 77;
    }
    int failed = cmocka_run_group_tests(tests, compile, NULL);
    arena_free(&arena);
    return failed;
}
