/* kernel.h - what a backend makes of one (tile, schedule): text, images and how to launch it. The
 * packer writes it into a module; the report quotes it.
 */
#ifndef FK_IR_KERNEL_H
#define FK_IR_KERNEL_H

#include "ir/plan.h"

typedef enum KParamKind {
    KP_TENSOR, /* pointer to parameter `index` of the fn (data + byte offset) */
    KP_TEMP,   /* pointer to temporary `index` in the workspace */
    KP_STRIDE, /* i64: stride in elements of parameter `index`, dimension `dim` */
    KP_VALUE,  /* i64: the value of `ix` (sizes only) */
    KP_SCALAR  /* rank-0 input `index`: two parameters, a device pointer (null when the value
                  came from the host) and its 8 raw bytes */
} KParamKind;

typedef struct KParam {
    KParamKind kind;
    int index, dim;
    const Ix *ix;
} KParam;

typedef struct Cubin {
    const char *arch;
    const void *data;
    size_t size;
} Cubin;

typedef struct KStats { /* of ptxas, or -1: not checked */
    int regs, spill_bytes, smem, stack;
    int warnings; /* C75xx that serialise wgmma */
} KStats;

typedef struct Kernel {
    const char *name; /* entry point */
    const char *arch; /* PTX target */
    int ptx_version;  /* 80 is 8.0 */
    const char *ptx;
    VEC(Cubin) cubins;
    KStats stats;
    VEC(KParam) params;
    const Ix *tiles; /* CTA tiles of work; the kernel strides over them */
    const Ix *grid;  /* CTAs in x (at most 2^31 - 1); y and z are 1 */
    int block;       /* threads */
    const Ix *smem;  /* dynamic shared bytes; NULL: 0 */
} Kernel;

#endif
