/* contract_int.h - what linear.c needs of contract.c. */
#ifndef FK_PASSES_CONTRACT_INT_H
#define FK_PASSES_CONTRACT_INT_H

#include "passes/passes.h"

/* Brings the factors of contraction n in order (the two largest first, unless strict) and sets its
 * roles. False: fewer than two factors use a reduced axis, so it is no contraction. */
bool contract_arrange(const PassCtx *cx, Graph *g, Node *n);

#endif
