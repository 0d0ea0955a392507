// What FK_EMU_STATS counts, of a kernel whose accesses are known: each store and load of it is one
// warp's, at addresses lane * stride.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime/device.h"

extern FkDeviceOpen fk_emu_device;

static const char head[] = ".version 8.0\n.target sm_90a\n.address_size 64\n"
                           ".visible .entry k(.param .u64 in, .param .u64 out)\n"
                           ".reqntid 32, 1, 1\n"
                           "{\n"
                           ".reg .pred %p<2>;\n.reg .b32 %r<8>;\n.reg .b64 %d<8>;\n"
                           ".shared .align 128 .b8 mem[8192];\n"
                           "mov.u32 %r1, %tid.x;\n"
                           "mov.u64 %d0, mem;\n"
                           "cvt.u32.u64 %r2, %d0;\n"
                           "ld.param.u64 %d1, [in];\nld.param.u64 %d2, [out];\n";

// Everything the launch printed, in static memory.
static const char *stats_of(const char *body, uint64_t in_bytes) {
    static char text[8192];
    static uint8_t in[8192] __attribute__((aligned(128))), out[8192] __attribute__((aligned(128)));
    const FkDeviceOps *ops;
    FkError error = {{0}};
    FkFunction f;
    void *self, *module, *call, *a = in, *b = out, *params[] = {&a, &b};
    char ptx[4096];
    snprintf(ptx, sizeof ptx, "%s%sret;\n}\n", head, body);
    setenv("FK_EMU_STATS", "1", 1);
    assert_int_equal(fk_emu_device(0, &ops, &self, &error), FK_OK);
    if (ops->module_load(self, ptx, strlen(ptx) + 1, true, &module, &error))
        fail_msg("%s", error.text);
    assert_int_equal(ops->function(self, module, "k", &f, &error), FK_OK);
    FkRegion regions[] = {{(uint64_t)(uintptr_t)in, in_bytes, FK_REGION_INPUT, 0, 0, 0, "x"},
                          {(uint64_t)(uintptr_t)out, sizeof out, FK_REGION_OUTPUT, 1, 0, 0, "y"}};
    assert_int_equal(ops->begin(self, regions, 2, &call, &error), FK_OK);
    FkGrid grid = {{1, 1, 1}, {32, 1, 1}, 0, 0, false};

    FILE *file = tmpfile();
    assert_non_null(file);
    fflush(stderr);
    int before = dup(2);
    dup2(fileno(file), 2);
    fk_status s = ops->launch(self, &f, &grid, params, 2, call, NULL, &error);
    fflush(stderr);
    dup2(before, 2);
    close(before);
    if (s) fail_msg("%s", error.text);
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    ops->end(self, call);
    ops->module_unload(self, module);
    ops->close(self);
    return text;
}

static void has(const char *text, const char *line) {
    const char *at = strstr(text, line);
    if (!at || (at > text && at[-1] != '\n')) fail_msg("no line '%s' in\n%s", line, text);
}

static void conflicts_of_banks(void **state) {
    (void)state;
    static const struct {
        unsigned stride, bytes, wavefronts, extra;
    } cases[] = {{4, 4, 1, 0}, {8, 4, 2, 1},  {128, 4, 32, 31}, {0, 4, 1, 0},  {132, 4, 1, 0},
                 {8, 8, 2, 0}, {16, 8, 4, 2}, {16, 16, 4, 0},   {32, 16, 8, 4}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        char body[512], line[128];
        const char *type = cases[k].bytes == 4 ? "b32" : cases[k].bytes == 8 ? "v2.b32" : "v4.b32";
        const char *value = cases[k].bytes == 4   ? "%r1"
                            : cases[k].bytes == 8 ? "{%r1, %r1}"
                                                  : "{%r1, %r1, %r1, %r1}";
        if (!cases[k].stride) type = "u32"; // volatile: else they race
        snprintf(body, sizeof body,
                 "mad.lo.u32 %%r3, %%r1, %u, %%r2;\nst.%sshared.%s [%%r3], %s;\n", cases[k].stride,
                 cases[k].stride ? "" : "volatile.", type, value);
        snprintf(line, sizeof line, "emu: shared op=st warps=1 wavefronts=%u extra=%u\n",
                 cases[k].wavefronts, cases[k].extra);
        const char *text = stats_of(body, 4096);
        has(text, line);
        if (!cases[k].extra == (strstr(text, "emu: conflicts") != NULL))
            fail_msg("the conflicts of\n%s", text);
    }
}

static void the_line_of_a_conflict(void **state) {
    (void)state;
    has(stats_of("mad.lo.u32 %r3, %r1, 64, %r2;\nst.shared.b32 [%r3], %r1;\n", 4096),
        "emu: conflicts line=17 extra=15 'st.shared.b32 [%r3], %r1;'\n");
}

// Lanes read 4 bytes, 8 apart, twice; all of them write the same 4.
static void global_bytes_and_sectors(void **state) {
    (void)state;
    const char *text = stats_of("mul.wide.u32 %d3, %r1, 8;\nadd.s64 %d3, %d3, %d1;\n"
                                "ld.global.u32 %r3, [%d3];\nld.global.u32 %r3, [%d3];\n"
                                "st.volatile.global.u32 [%d2], %r3;\n",
                                4096);
    has(text, "emu: read of=\"input 'x'\" bytes=128 total=256 sectors=16\n");
    has(text, "emu: written of=\"output 'y'\" bytes=4 total=128 sectors=1\n");
    has(text, "emu: instructions kind=\"global memory\" warps=3 lanes=96\n");
}

// Lanes copy 16 bytes each, the odd ones 4 of them, to places 32 bytes apart.
static void copies_of_threads(void **state) {
    (void)state;
    const char *text = stats_of("mul.wide.u32 %d3, %r1, 16;\nadd.s64 %d3, %d3, %d1;\n"
                                "mad.lo.u32 %r3, %r1, 32, %r2;\nand.b32 %r4, %r1, 1;\n"
                                "mul.lo.u32 %r4, %r4, 12;\nsub.u32 %r4, 16, %r4;\n"
                                "cp.async.cg.shared.global [%r3], [%d3], 16, %r4;\n"
                                "cp.async.wait_all;\n",
                                4096);
    has(text, "emu: read of=\"input 'x'\" bytes=320 total=320 sectors=32\n");
    has(text, "emu: shared op=cp.async warps=1 wavefronts=8 extra=4\n");
    has(text, "emu: instructions kind=\"asynchronous copies\" warps=2 lanes=64\n");
}

static void instructions_by_kind(void **state) {
    (void)state;
    const char *text = stats_of("setp.lt.u32 %p1, %r1, 5;\n@%p1 add.s32 %r3, %r1, 1;\n", 16);
    has(text, "emu: kernel k grid=1x1x1 block=32x1x1 cluster=1 shared=8192\n");
    has(text, "emu: instructions kind=\"integer\" warps=2 lanes=37\n");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conflicts_of_banks), cmocka_unit_test(the_line_of_a_conflict),
        cmocka_unit_test(global_bytes_and_sectors), cmocka_unit_test(instructions_by_kind),
        cmocka_unit_test(copies_of_threads)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
