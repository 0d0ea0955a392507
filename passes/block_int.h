/* block_int.h - which cuts block.c makes, and taking them back. */
#ifndef FK_PASSES_BLOCK_INT_H
#define FK_PASSES_BLOCK_INT_H

#include "passes/passes.h"

/* Can the wgmma tier make this product of two matrices (ir/mma.h)? */
bool block_is_fast(const Graph *g, const Node *product);

/* Parts that are not stored become one with what joins them: one loop reads memory better than a
 * loop over blocks. For group, when it has decided. */
bool block_undo(Graph *g);

#endif
