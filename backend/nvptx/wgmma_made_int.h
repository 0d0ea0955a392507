/* wgmma_made_int.h - factors that are made: what those who make them into shared memory
 * (wgmma_make.c) and those who do in registers (wgmma_regs.c) have in common (wgmma_made.c). */
#ifndef FK_NVPTX_WGMMA_MADE_INT_H
#define FK_NVPTX_WGMMA_MADE_INT_H

#include "backend/nvptx/pairs_int.h"
#include "backend/nvptx/wgmma_int.h"

/* Words of two values of a factor, side by side on the open k axis, from one for each. */
const Val *wg_made_words(Wg *w, const MmaFactor *f, int n);
/* Of integers of few bits: f32 may be made of them in a fast way. */
void wg_say_narrow(Wg *w, const Pairs *p, const TInst *i);

#endif
