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

double poly_slope(const Poly *p); /* of one that is k x; 0: it is another */

/* A form, much shorter than that for all, where |argument| is at most this; 0: there is none. NaN
 * stays NaN. */
double fast_near(Op op, Approx how);
Val fast_emit_near(Lower *l, Op op, const Poly *p, Val x);
/* by * (that - its value at 0) + add (NULL: 0), which is shorter than what it says. */
Val fast_near_sum(Lower *l, Op op, const Poly *p, Val x, double by, Val add);
double fast_near_shift(Op op); /* its value at 0 */

#endif
