/* backend.h - from a tile program and a schedule to PTX and machine code. */
#ifndef FK_BACKEND_H
#define FK_BACKEND_H

#include "ir/ir.h"

enum { PTX_OLDEST = 70, PTX_NEWEST = 85 }; /* what LLVM 19 writes and we have tried */

typedef struct BackendOptions {
    const Target *target;
    int ptx_version; /* 0: the lowest that the instructions need; else the target's to PTX_NEWEST */
    bool roomy;      /* registers as ptxas likes, however few CTAs then fit a multiprocessor */
    bool strict;     /* no contraction of a * b + c, no approximations */
    const char *source; /* path shown in the comments of the PTX; may be NULL */
} BackendOptions;

/* Lowers one kernel to PTX; k->ptx, params, grid, block and smem are filled, cubins stay empty.
 * With `llvm` not NULL the LLVM IR is appended there. False, with diagnostics, when a limit of the
 * machine is passed (the message has the number needed and the number allowed). */
bool backend_lower(Arena *a, const Plan *p, const Step *s, const Schedule *sch,
                   const BackendOptions *o, Diags *d, Kernel *k, Str *llvm);

/* ptxas as a process. `path` NULL: looked for in FKC_PTXAS, PATH, CUDA_HOME, /usr/local/cuda.
 * Returns NULL when there is none. */
const char *ptxas_find(Arena *a, const char *path);

typedef enum PtxasStatus { PTXAS_OK, PTXAS_ABSENT, PTXAS_REFUSED, PTXAS_CRASHED } PtxasStatus;

/* Begins to assemble k->ptx for `arch`; each job must be finished, in any order. */
typedef struct PtxasJob PtxasJob;
PtxasJob *ptxas_start(Arena *a, const char *ptxas, const Kernel *k, const char *arch);

/* Waits, and appends to k->cubins, with k->stats from its -v output and the machine code. On
 * failure *message says what it printed and what to do. */
PtxasStatus ptxas_finish(Arena *a, PtxasJob *j, Kernel *k, const char **message);

/* Both. */
PtxasStatus ptxas_run(Arena *a, const char *ptxas, Kernel *k, const char *arch,
                      const char **message);

/* "19.1.7" */
const char *backend_llvm_version(void);

#endif
