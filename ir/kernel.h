/* kernel.h - what a backend makes of one (tile, schedule): text, images and how to launch it. The
 * packer writes it into a module; the report quotes it.
 */
#ifndef FK_IR_KERNEL_H
#define FK_IR_KERNEL_H

#include "ir/plan.h"

typedef enum KParamKind {
    KP_TENSOR,  /* pointer to parameter `index` of the fn (data + byte offset) */
    KP_TEMP,    /* pointer to temporary `index` in the workspace */
    KP_STRIDE,  /* i64: stride in elements of parameter `index`, dimension `dim` */
    KP_VALUE,   /* i64: the value of `ix` (sizes only) */
    KP_SCALAR,  /* rank-0 input `index`: two parameters, a device pointer (null when the value
                   came from the host) and its 8 raw bytes */
    KP_SCRATCH, /* pointer to the kernel's scratch memory, 256-aligned */
    KP_HEAD,    /* pointer to its words that are 0 at launch and left 0, 256-aligned */
    KP_LAUNCH,  /* i64: which launch of the variant it is, from 0 */
    KP_TMAP     /* 128-byte tensor map, 64-byte aligned, by value, made at launch from `map` */
} KParamKind;

/* A tensor map (cuTensorMapEncodeTiled) of parameter or temporary `index`: its dimensions,
 * innermost first, are dims dim[0..rank) of the tensor; extents and strides come with the launch
 * (of a temporary: dense). Outside elements load as 0 and are not stored. Of a 4-bit type, whose
 * last dimension comes first, it is a map of bytes: coordinates there are half of an element's. */
typedef struct KTmap {
    bool temp;
    int rank; /* 1 to 5 */
    int dim[5];
    int box[5];  /* elements; box[0] * size of the type is at most 128 bytes when swizzled */
    int swizzle; /* 0, 32, 64, 128 bytes */
} KTmap;

/* A condition at launch for a variant to be chosen; all must hold. */
typedef enum KGuardKind {
    KG_ALIGN,       /* base of parameter `index` is a multiple of `multiple` bytes (a power of 2) */
    KG_STRIDE,      /* stride of parameter `index`, dimension `dim`, in bytes, is a multiple of
                       `multiple` and positive (a dimension of extent 1: always) */
    KG_STRIDE_ONE,  /* that stride is one element (a dimension of extent 1: always) */
    KG_STRIDE_IS,   /* that stride is `ix` times that of dimension `multiple` (-1: elements), or the
                       extent is 1 */
    KG_STRIDE_NEAR, /* that stride, in bytes, fits 32 bits (a dimension of extent 1: always) */
    KG_NONNEG       /* `ix` >= 0, of sizes */
} KGuardKind;

typedef struct KGuard {
    KGuardKind kind;
    int index, dim;
    int64_t multiple;
    const Ix *ix;
} KGuard;

typedef struct KParam {
    KParamKind kind;
    int index, dim;
    const Ix *ix;
    KTmap map;
} KParam;

typedef struct KStats { /* of ptxas, or -1: not checked */
    int regs, spill_bytes, smem, stack;
    int warning;     /* the first C75xx that costs speed, 7510 is C7510; 0: none */
    int loop_spills; /* bytes moved to and from local memory in the main loop; -1: not known */
} KStats;
#define KSTATS_NONE ((KStats){-1, -1, -1, -1, -1, -1})

typedef struct Cubin {
    const char *arch;
    const void *data;
    size_t size;
    KStats stats;
} Cubin;

typedef struct Kernel {
    const char *name; /* entry point */
    const char *arch; /* PTX target */
    int ptx_version;  /* 80 is 8.0 */
    const char *ptx;
    VEC(Cubin) cubins;
    KStats stats; /* of the last cubin */
    VEC(KParam) params;
    const Ix *tiles; /* CTA tiles of work; the kernel strides over them */
    const Ix *grid;  /* CTAs in x (at most 2^31 - 1); y and z are 1 */
    int block;       /* threads */
    bool waits;      /* begins before the one before it in its plan has ended, and waits for that */
    int launches;    /* of the kernel, one after the other; 0 reads as 1 */
    int cluster;     /* CTAs in x that make a cluster; 0: there are none */
    const Ix *smem;  /* dynamic shared bytes; NULL: 0 */
    VEC(KGuard) guards; /* none: always */
    const Ix *scratch;  /* bytes; NULL: 0 */
    const Ix *head;     /* bytes; NULL: 0 */
    const Ix *cost;     /* predicted nanoseconds; NULL: after all that have one */
    bool tight;         /* registers are kept to what lets more CTAs run at once */
    bool persistent;    /* the grid is also cut to the number of multiprocessors */
} Kernel;

#endif
