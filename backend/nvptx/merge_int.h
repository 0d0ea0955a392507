/* merge_int.h - joining the parts of carried values that the lanes of a loop hold. */
#ifndef FK_NVPTX_MERGE_INT_H
#define FK_NVPTX_MERGE_INT_H

#include "backend/nvptx/nvptx_int.h"

/* After the loop: the carries of all lanes along lane dimension `dim` are joined in a fixed order
 * and every lane holds the result. All threads of the CTA are here. */
void merge_lanes(Lower *l, const TInst *loop, int dim);

/* The same of some: those without a frame; those with one that all lanes have already. */
enum Merge { MERGE_ALL, MERGE_FREE, MERGE_SETTLED };
void merge_lanes_of(Lower *l, const TInst *loop, int dim, enum Merge which);

/* rescale(old, new) of element `elem` of a carry; 1 where the frame did not move, or was at its
 * identity. */
Val rescale_factor(Lower *l, const CarryState *s, int elem, Val old, Val new);

/* The scalars that a loop's carried values are in a thread: how many; joined with those that
 * `read` gives; handed to `write`. */
typedef Val MergeRead(Lower *l, Val from, int k, Ty type);
typedef void MergeWrite(Lower *l, Val to, int k, Val v);
int merge_scalars(Lower *l, const TInst *loop);
void merge_with(Lower *l, const TInst *loop, MergeRead *read, Val from);
void merge_each(Lower *l, const TInst *loop, MergeWrite *write, Val to);
/* i32: which of the threads that share a lane of dimension `dim` (-1: of none) this is. */
Val merge_other(Lower *l, int dim);

#endif
