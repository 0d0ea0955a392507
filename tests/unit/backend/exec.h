/* exec.h - lowers a tile program for the general tier and runs the kernel on the CPU. */
#ifndef FK_TESTS_BACKEND_EXEC_H
#define FK_TESTS_BACKEND_EXEC_H

#include <math.h>

#include "tests/unit/backend/build.h"
#include "tests/unit/backend/cpu.h"

typedef struct Host { /* by tensor */
    void *data[16];
    int64_t stride[16][2];
} Host;

/* Inputs in eighths from -4 to 3.875. */
static inline float *exec_floats(Build *b, int n) {
    float *f = ARENA_ARRAY(&b->arena, float, n);
    for (int i = 0; i < n; i++) f[i] = (float)((i * 7919 + 13) % 64 - 32) / 8;
    return f;
}

/* Filled with NaN, with a band of 64 on both sides that must stay. */
static inline float *exec_output(Build *b, int n) {
    float *f = ARENA_ARRAY(&b->arena, float, n + 128);
    for (int i = 0; i < n + 128; i++) f[i] = NAN;
    return f + 64;
}

static inline void run(Build *b, const Host *h, const int64_t *size) {
    Str ir = {0}, why = {0};
    if (!build_lower(b, "sm_80", 0, &ir)) {
        diag_print(&b->d, &why, false);
        fail_msg("%s", str_get(&why));
    }
    uint64_t arg[64];
    int n = 0;
    IxEnv env = {.size = size};
    bool ok = true;
    for (int i = 0; i < b->k.params.n; i++) {
        const KParam *p = &b->k.params.v[i];
        switch (p->kind) {
        case KP_TENSOR:
        case KP_TEMP: arg[n++] = (uint64_t)h->data[p->index]; break;
        case KP_STRIDE: arg[n++] = (uint64_t)h->stride[p->index][p->dim]; break;
        case KP_VALUE: arg[n++] = (uint64_t)ix_eval(p->ix, &env, &ok); break;
        case KP_SCALAR:
            arg[n++] = 0;
            memcpy(&arg[n++], h->data[p->index], 8);
            break;
        case KP_SCRATCH:
        case KP_HEAD:
        case KP_LAUNCH:
        case KP_TMAP: fail_msg("not of a general kernel");
        }
    }
    int64_t grid = ix_eval(b->k.grid, &env, &ok);
    assert_true(ok);
    CpuKernel *k = cpu_load(str_get(&ir), b->k.name, n, &why);
    if (!k) fail_msg("%s", str_get(&why));
    /* Fewer CTAs than tiles: each strides over several. */
    if (!cpu_launch(k, arg, grid > 3 ? 3 : grid, b->k.block, &why))
        fail_msg("%s\n%s", str_get(&why), b->k.ptx);
    str_free(&ir);
    str_free(&why);
}

#endif
