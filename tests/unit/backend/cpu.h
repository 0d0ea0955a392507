/* cpu.h - runs a kernel's LLVM IR on the CPU: the backend's own output against the evaluators, with
 * no GPU. Every GPU thread is a coroutine, so that barriers and shuffles are
 * met by all or the run says who is missing.
 */
#ifndef FK_TESTS_CPU_H
#define FK_TESTS_CPU_H

#include <stdbool.h>
#include <stdint.h>

#include "ir/base/base.h"

typedef struct CpuKernel CpuKernel;

/* `ir` as backend_lower prints it; `nargs` parameters of 8 bytes. NULL and a reason in *why. It
 * stays until the process ends. */
CpuKernel *cpu_load(const char *ir, const char *entry, int nargs, Str *why);
bool cpu_launch(CpuKernel *k, const uint64_t *args, int64_t grid, int block, Str *why);

#endif
