/* graph.c - a fn in a graph, launched again with what its tensors hold then: a new seed of dropout
 * gives a new mask, the one that a launch outside of the graph gives.
 *
 *     emu_graph DEVICE dropout_residual_layernorm.fkm
 *
 * Exit code 77 where there is no such device.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/fk.h"

enum { M = 5, N = 96, BYTES = M * N * 2, TENSORS = 8 };

static void need(fk_status status, const char *call) {
    if (!status) return;
    printf("FAIL %s: %s (%s)\n", call, fk_last_error(), fk_status_name(status));
    exit(1);
}
#define NEED(call) need(call, #call)

static fk_device *device;
static fk_fn *fn;
static void *stream, *workspace, *memory[TENSORS];
static size_t room;
static DLTensor tensor[TENSORS], *args[TENSORS];

static void make(int i, DLDataType type, int rank, int64_t *shape, const void *from, size_t bytes) {
    fk_device_info info;
    NEED(fk_device_describe(device, &info));
    NEED(fk_alloc(device, bytes, &memory[i]));
    if (from) NEED(fk_copy(device, memory[i], from, bytes, FK_TO_DEVICE));
    tensor[i] = (DLTensor){memory[i], info.dl, rank, type, shape, NULL, 0};
    args[i] = &tensor[i];
}

/* z, which is r + dropout(x). */
static void result(uint16_t *z) {
    NEED(fk_stream_sync(device, stream));
    NEED(fk_copy(device, z, memory[7], BYTES, FK_FROM_DEVICE));
}

static void set_seed(int64_t seed) {
    NEED(fk_copy(device, memory[4], &seed, sizeof seed, FK_TO_DEVICE));
}

static void launch(void) {
    NEED(fk_launch(fn, args, TENSORS, workspace, room, stream));
}

static void make_tensors(void) {
    static int64_t whole[2] = {M, N}, row[1] = {N};
    static uint16_t x[M * N], ones[N];
    const DLDataType bf16 = {kDLBfloat, 16, 1}, i64 = {kDLInt, 64, 1}, f32 = {kDLFloat, 32, 1};
    const float keep = 0.5f;
    const int64_t seed = 1;
    for (int i = 0; i < M * N; i++) x[i] = (uint16_t)(0x3f80 + i % 64); /* 1 to 1.5 */
    for (int i = 0; i < N; i++) ones[i] = 0x3f80;
    make(0, bf16, 2, whole, x, BYTES);
    make(1, bf16, 2, whole, x, BYTES);
    make(2, bf16, 1, row, ones, sizeof ones);
    make(3, bf16, 1, row, ones, sizeof ones);
    make(4, i64, 0, NULL, &seed, sizeof seed);
    make(5, f32, 0, NULL, &keep, sizeof keep);
    make(6, bf16, 2, whole, NULL, BYTES);
    make(7, bf16, 2, whole, NULL, BYTES);
}

int main(int argc, char **argv) {
    static uint16_t first[M * N], inside[M * N], outside[M * N];
    fk_module *module;
    void *graph;
    int failed = 0;
    if (argc < 3) return 2;
    if (fk_device_open(argv[1], &device)) return printf("SKIP: %s\n", fk_last_error()), 77;
    NEED(fk_module_load_file(device, argv[2], &module));
    NEED(fk_module_fn(module, "dropout_residual_layernorm", &fn));
    NEED(fk_stream_create(device, &stream));
    make_tensors();
    NEED(fk_fn_workspace_size(fn, args, TENSORS, &room));
    NEED(fk_alloc(device, room, &workspace));
    NEED(fk_workspace_init(fn, args, TENSORS, workspace, room, stream));
    NEED(fk_fn_prepare(fn, args, TENSORS));
    launch();
    result(first);

    NEED(fk_graph_begin(device, stream));
    launch();
    NEED(fk_graph_end(device, stream, &graph));
    for (int64_t seed = 2; seed < 5; seed++) {
        set_seed(seed);
        NEED(fk_graph_launch(device, graph, stream));
        result(inside);
        launch();
        result(outside);
        if (memcmp(inside, outside, BYTES))
            failed++, printf("FAIL: seed %d: a graph's mask is another\n", (int)seed);
        if (!memcmp(inside, first, BYTES))
            failed++, printf("FAIL: seed %d has the mask of seed 1\n", (int)seed);
    }
    fk_graph_free(device, graph);
    for (int i = 0; i < TENSORS; i++) fk_free(device, memory[i]);
    fk_free(device, workspace);
    fk_module_unload(module);
    fk_stream_destroy(device, stream);
    fk_device_close(device);
    printf("%d failed\n", failed);
    return failed > 0;
}
