/* mem_int.h - what loads and stores (mem.c) share with loads of pairs (mem_pairs.c). */
#ifndef FK_NVPTX_MEM_INT_H
#define FK_NVPTX_MEM_INT_H

#include "backend/nvptx/nvptx_int.h"

typedef struct Address {
    Frag off; /* i64 */
    Frag ok;  /* i1; n == 0: always inside */
    Val base;
} Address;

Address mem_address(Lower *l, const TTensor *t, const Ix **ix, int nix, uint32_t checked);
Frag mem_load(Lower *l, const TInst *i); /* element by element */
Val mem_and(Lower *l, Val a, Val b);     /* NULL: true */
/* Is element k of a fragment in range, on those axes? NULL: yes. */
Val mem_in_range(Lower *l, AxisSet axes, AxisSet mask, int k);
/* Uniform: whether every row of the last dimension starts on a multiple of `bytes`. */
Val mem_rows_aligned(Lower *l, const TTensor *t, Val base, int bytes);
/* Of the last index, when neighbours of it lie side by side here and in memory; else -1. */
int mem_paired_axis(const Lower *l, const TInst *i, const TTensor *t);
/* How far the next element along an axis is in a fragment. */
int mem_neighbour(const Lower *l, AxisSet mask, int axis);

#endif
