/* test_layouts.c - which variant of a matrix product is taken for which layout of its tensors: the
 * compiler's own modules on a device that executes nothing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "compiler/fkc.h"
#include "tests/unit/runtime/fake.h"

static const char program[] = "fn nt(x: bf16[M, K], w: bf16[N, K]) -> (y: bf16[M, N]) "
                              "{ y[m, n] = sum[k] x[m, k] * w[n, k] }\n"
                              "fn nn(x: bf16[M, K], w: bf16[K, N]) -> (y: bf16[M, N]) "
                              "{ y[m, n] = sum[k] x[m, k] * w[k, n] }\n"
                              "fn wide(x: f32[M, K], w: f32[N, K]) -> (y: f32[M, N]) "
                              "{ y[m, n] = sum[k] x[m, k] * w[n, k] }\n";

typedef struct Loaded {
    Fake fake;
    fk_device *device;
    fk_module *module;
    char *memory;
} Loaded;

static void load(Loaded *l, const char *const *bind, int n_bind) {
    memset(l, 0, sizeof *l);
    fkc_options o = fkc_defaults();
    fkc_result *r;
    size_t n;
    o.ptxas = "none", o.bind = bind, o.n_bind = n_bind;
    if (fkc_compile("t.fk", program, strlen(program), &o, &r)) fail_msg("%s", fkc_messages(r));
    const void *bytes = fkc_output_get(r, FKC_MODULE, &n);
    l->device = fake_open(&l->fake);
    assert_int_equal(fk_module_load(l->device, bytes, n, &l->module), FK_OK);
    fkc_free(r);
    l->memory = aligned_alloc(256, 4096);
}

static void unload(Loaded *l) {
    fk_module_unload(l->module);
    fk_device_close(l->device);
    free(l->memory);
}

/* Of x, w, y: bytes past 256-byte alignment, and elements that rows are longer (-1: stride 0). */
typedef struct Layout {
    int m, n, k;
    int offset[3], pad[3];
} Layout;

static const char *variant(Loaded *l, const char *fn_name, const Layout *at) {
    bool nn = !strcmp(fn_name, "nn"), f32 = !strcmp(fn_name, "wide");
    int64_t shape[3][2] = {{at->m, at->k}, {at->n, at->k}, {at->m, at->n}}, stride[3][2];
    if (nn) shape[1][0] = at->k, shape[1][1] = at->n;
    DLTensor t[3], *args[3];
    for (int i = 0; i < 3; i++) {
        stride[i][0] = at->pad[i] < 0 ? 0 : shape[i][1] + at->pad[i];
        stride[i][1] = 1;
        t[i] = (DLTensor){.data = l->memory,
                          .device = {kDLCUDA, 0},
                          .ndim = 2,
                          .dtype = {f32 ? kDLFloat : kDLBfloat, f32 ? 32 : 16, 1},
                          .shape = shape[i],
                          .strides = stride[i],
                          .byte_offset = (uint64_t)at->offset[i]};
        args[i] = &t[i];
    }
    fk_fn *fn;
    const char *name;
    assert_int_equal(fk_module_fn(l->module, fn_name, &fn), FK_OK);
    if (fk_fn_variant(fn, args, 3, 0, &name)) fail_msg("%s", fk_last_error());
    return name;
}

static void takes(Loaded *l, const char *fn, Layout at, const char *start) {
    const char *name = variant(l, fn, &at);
    if (!start ? !strcmp(name, "general") : strncmp(name, start, strlen(start)) != 0)
        fail_msg("%s %d x %d x %d: %s", fn, at.m, at.n, at.k, name);
}

static bool tma(const char *name) {
    return strncmp(name, "plain", 5) != 0 && strcmp(name, "general") != 0;
}

/* Aligned tensors go by TMA both ways; an odd output is stored directly; an odd factor is loaded by
 * threads, whichever factor, and whether it is its address or its pitch. */
static void sizes_unknown(void **state) {
    (void)state;
    Loaded l;
    load(&l, NULL, 0);
    Layout even = {.m = 4096, .n = 4096, .k = 4096};
    assert_true(tma(variant(&l, "nt", &even)));
    assert_true(tma(variant(&l, "nn", &even)));
    for (int i = 0; i < 2; i++) {
        const char *fn = i ? "nn" : "nt";
        for (int x = 0; x < 3; x++) {
            const char *want = x < 2 ? "plain_128x256" : "direct_";
            Layout at = even;
            at.offset[x] = 2;
            takes(&l, fn, at, want);
            at.offset[x] = 8;
            takes(&l, fn, at, want);
            at.offset[x] = 16;
            assert_true(tma(variant(&l, fn, &at)));
            at = even;
            at.pad[x] = 1;
            takes(&l, fn, at, want);
            at.pad[x] = 4;
            takes(&l, fn, at, want);
            at.pad[x] = 8;
            assert_true(tma(variant(&l, fn, &at)));
        }
    }
    takes(&l, "nt", (Layout){.m = 4096, .n = 4096, .k = 4095}, "plain_128x256");
    takes(&l, "nt", (Layout){.m = 4095, .n = 4097, .k = 4096}, "direct_");
    takes(&l, "nn", (Layout){.m = 4096, .n = 4097, .k = 4096}, "plain_128x256");
    takes(&l, "nt", (Layout){.m = 256, .n = 256, .k = 511}, "plain_64x64");
    for (int k = 1; k < 16; k++) /* CASES A19: K = 12 */
        if (k % 8) takes(&l, "nt", (Layout){.m = 300, .n = 200, .k = k}, "plain_");
    Layout still = {.m = 512, .n = 512, .k = 512, .pad = {-1, 0, 0}}; /* every row the same */
    takes(&l, "nt", still, "plain_");
    takes(&l, "nt", (Layout){.m = 512, .n = 512, .k = 0}, "general");
    takes(&l, "wide", even, "general");
    unload(&l);
}

/* A stride beyond 32 bits is the general kernel's. */
static void far_rows(void **state) {
    (void)state;
    Loaded l;
    load(&l, NULL, 0);
    Layout at = {.m = 2, .n = 64, .k = 64, .pad = {(1 << 30) - 1 - 64, 0, 0}};
    takes(&l, "nt", at, "plain_");
    at.pad[0]++;
    assert_true(tma(variant(&l, "nt", &at))); /* a multiple of 16 bytes: TMA's reach is 2^40 */
    at.pad[0]++;
    takes(&l, "nt", at, "general");
    at.m = 1; /* no row is ever that far */
    takes(&l, "nt", at, NULL);
    unload(&l);
}

/* Sizes that TMA can never take: what it would bring is not made, and every layout still runs. */
static void sizes_known(void **state) {
    (void)state;
    const char *const odd[] = {"M=512", "N=512", "K=511"};
    Loaded l;
    load(&l, odd, 3);
    takes(&l, "nt", (Layout){.m = 512, .n = 512, .k = 511}, "plain_");
    takes(&l, "nt", (Layout){.m = 512, .n = 512, .k = 511, .offset = {2, 0, 2}}, "plain_");
    takes(&l, "nt", (Layout){.m = 512, .n = 512, .k = 511, .pad = {1, 1, 1}}, "plain_");
    takes(&l, "nn", (Layout){.m = 512, .n = 512, .k = 511}, "plain_"); /* x is K-major */
    unload(&l);
    const char *const even[] = {"M=512", "N=512", "K=512"};
    load(&l, even, 3);
    Layout at = {.m = 512, .n = 512, .k = 512};
    assert_true(tma(variant(&l, "nt", &at)));
    at.offset[1] = 2;
    takes(&l, "nt", at, "plain_");
    at = (Layout){.m = 512, .n = 512, .k = 512, .offset = {0, 0, 2}};
    assert_true(tma(variant(&l, "nt", &at)));
    unload(&l);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_unknown),
        cmocka_unit_test(far_rows),
        cmocka_unit_test(sizes_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
