/* eval_int.h - private to the evaluators. */
#ifndef FK_IR_EVAL_INT_H
#define FK_IR_EVAL_INT_H

#include "ir/eval.h"

typedef EvalVal EvalFn(DType type, DType vt, const EvalVal *in);
EvalFn *eval_fn(Op op); /* the function of a row of op.def */

#endif
