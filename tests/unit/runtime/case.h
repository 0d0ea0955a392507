// A case: the sample module on a fake device, and valid arguments of `linear` with M=4, N=8, K=64,
// for a test to spoil.
#ifndef TESTS_CASE_H
#define TESTS_CASE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "fake.h"
#include "sample.h"

typedef struct {
    Fake fake;
    fk_device *device;
    fk_module *module;
    fk_fn *fn;
    DLTensor x, w, s, y, *args[4];
    int64_t shape[3][2];
    float scalar;
    char *memory; // x, w, y are in it
    void *workspace;
    size_t bytes;
} Case;

#define STREAM ((void *)(uintptr_t)0x57)

static inline DLTensor dense(void *data, uint8_t code, uint8_t bits, int64_t *shape) {
    return (DLTensor){
        .data = data, .device = {kDLCUDA, 0}, .ndim = 2, .dtype = {code, bits, 1}, .shape = shape};
}

static inline fk_status launch(Case *c) {
    return fk_launch(c->fn, c->args, 4, c->workspace, c->bytes, STREAM);
}

static inline int case_open(void **state) {
    Case *c = calloc(1, sizeof *c);
    size_t n;
    FkmError error = {""};
    void *bytes = fkm_encode(&sample, &n, &error);
    c->device = fake_open(&c->fake);
    if (!bytes || !c->device || fk_module_load(c->device, bytes, n, &c->module)) return -1;
    free(bytes);
    int64_t shape[3][2] = {{4, 64}, {8, 64}, {4, 8}};
    memcpy(c->shape, shape, sizeof shape);
    c->memory = aligned_alloc(256, 1 << 20);
    c->x = dense(c->memory + 1024, kDLBfloat, 16, c->shape[0]);
    c->w = dense(c->memory + 8192, kDLBfloat, 16, c->shape[1]);
    c->y = dense(c->memory + 16384, kDLBfloat, 16, c->shape[2]);
    c->scalar = 0.5f;
    c->s = (DLTensor){.data = &c->scalar, .device = {kDLCPU, 0}, .dtype = {kDLFloat, 32, 1}};
    DLTensor *args[4] = {&c->x, &c->w, &c->s, &c->y};
    memcpy(c->args, args, sizeof args);
    c->bytes = 65536;
    c->workspace = aligned_alloc(256, c->bytes);
    *state = c;
    return fk_module_fn(c->module, "linear", &c->fn);
}

static inline int case_close(void **state) {
    Case *c = *state;
    fk_module_unload(c->module);
    fk_device_close(c->device);
    int bad = c->fake.closed != 1 || c->fake.loaded != c->fake.unloaded;
    free(c->memory);
    free(c->workspace);
    free(c);
    return bad;
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, case_open, case_close)

// The call fails with this status and exactly this text.
#define FAILS_WITH(call, status, text)                                                             \
    do {                                                                                           \
        fk_status got_ = call;                                                                     \
        if (got_ != (status)) fail_msg("%s: %s", fk_status_name(got_), fk_last_error());           \
        assert_string_equal(fk_last_error(), text);                                                \
    } while (0)

#endif
