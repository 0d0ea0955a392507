/* desc_int.h - descriptors: how wgmma is told where an operand lies in shared memory. */
#ifndef FK_NVPTX_DESC_INT_H
#define FK_NVPTX_DESC_INT_H

#include "ir/mma.h"

/* The low word of a descriptor is the address / 16 of the operand's first element plus `low`, and
 * what is added to it moves the operand by so many times 16 bytes. */
typedef struct WgmmaOperand {
    uint32_t low, high;
    int step, block; /* from k to k of the next instruction; from 64 rows to the next */
    int deep;        /* from 64 elements of k to the next, K-major */
    int part;        /* from a factor to the next behind it */
    bool mn;         /* MN-major: a flag of the instruction */
} WgmmaOperand;

/* A descriptor has 14 bits each of: address / 16 (from bit 0), leading offset / 16 (16), stride
 * offset / 16 (32); and from bit 62 on the swizzle: 1, 2, 3 are 128, 64, 32 bytes. */
static inline WgmmaOperand wgmma_operand(const MmaSmem *s) {
    uint32_t swizzle = s->swizzle == 128 ? 1 : s->swizzle == 64 ? 2 : 3;
    return (WgmmaOperand){.low = (uint32_t)s->lead / 16 << 16,
                          .high = (uint32_t)s->stride / 16 | swizzle << 30,
                          .step = s->step / 16,
                          .block = s->block / 16,
                          .deep = s->deep_bytes / 16,
                          .part = s->part / 16,
                          .mn = s->mn};
}

#endif
