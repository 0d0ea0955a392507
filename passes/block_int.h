/* block_int.h - taking back the cuts of block.c. */
#ifndef FK_PASSES_BLOCK_INT_H
#define FK_PASSES_BLOCK_INT_H

#include "passes/passes.h"

/* Parts that are not stored become one with what joins them: one loop reads memory better than a
 * loop over blocks. For group, when it has decided. */
bool block_undo(Graph *g);

#endif
