/* frame_int.h - frames of carried values (ir/tile.h) on rows that threads hold: what kernels of a
 * fixed layout share. */
#ifndef FK_NVPTX_FRAME_INT_H
#define FK_NVPTX_FRAME_INT_H

#include "backend/nvptx/nvptx_int.h"

/* A frame that nothing has moved is 0. */
Val frame_usable(Lower *l, const TCarry *frame, Val v);
/* rescale(from, to) of c up to its n-th operation, with approximate functions. r: the row held. */
Val frame_factor(Lower *l, const TCarry *c, int n, Val from, Val to, int r);
/* All of it; 1 where the frame did not move, or nothing had moved it. */
Val frame_rescale(Lower *l, const TCarry *c, const TCarry *frame, Val from, Val to, int r);

/* An approximate exponential that differs along axis j, as one multiply-add and one instruction;
 * false: it is none such. needed: per value, it is there anyway; may be NULL (online_exp.c). */
bool exponential_emit(Lower *l, const TInst *i, int j, const bool *needed);

#endif
