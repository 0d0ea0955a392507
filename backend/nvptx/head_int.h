/* head_int.h - the comment that heads a kernel's PTX. */
#ifndef FK_NVPTX_HEAD_INT_H
#define FK_NVPTX_HEAD_INT_H

#include "backend/backend.h"

/* `body` (LLVM's text) with its own banner replaced by how to launch the kernel: grid, block,
 * shared bytes, and every parameter in order. */
const char *kernel_head(Arena *a, const Step *s, const Kernel *k, const BackendOptions *o,
                        int shared_bytes, const char *body);

#endif
