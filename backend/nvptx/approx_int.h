/* approx_int.h - functions that may be computed approximately, since what they end in is stored in
 * few bits: which (approx.c), and how (fast.c). */
#ifndef FK_NVPTX_APPROX_INT_H
#define FK_NVPTX_APPROX_INT_H

#include "backend/nvptx/nvptx_int.h"

void approx_find(Lower *l); /* fills def, poly and approx */

bool fast_has(Op op, Approx how); /* is there a fast form under that freedom? */
/* An op of one operand, which is p of x; or a / b. */
Val fast_emit(Lower *l, Op op, Approx how, const Poly *p, Val x);
Val fast_div(Lower *l, Val a, Val b);

#endif
