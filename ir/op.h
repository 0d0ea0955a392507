/* op.h - the ops of op.def and reduce.def as enums, with their facts. */
#ifndef FK_IR_OP_H
#define FK_IR_OP_H

#include "ir/dtype.h"

typedef enum Op {
#define OP(name, arity, type, traits, sep, grad, eval, lower, formula) OP_##name,
#include "ir/op.def"
#undef OP
    OP_COUNT
} Op;

typedef enum Reduce {
#define REDUCE(name, combine, identity, nan, factors, formula) RED_##name,
#include "ir/reduce.def"
#undef REDUCE
    RED_COUNT
} Reduce;

enum OpTrait { OPT_C = 1, OPT_A = 2, OPT_Z = 4, OPT_Y = 8, OPT_I = 16 };
typedef enum OpRule { /* the `type` column */
                      RULE_arith,
                      RULE_real,
                      RULE_int,
                      RULE_cmp,
                      RULE_logic,
                      RULE_select,
                      RULE_within,
                      RULE_same,
                      RULE_cast,
                      RULE_rand
} OpRule;
typedef enum OpSep { SEP_none, SEP_add, SEP_linear, SEP_hom } OpSep;

const char *op_name(Op op);
int op_arity(Op op);
OpRule op_rule(Op op);
int op_traits(Op op);
OpSep op_sep(Op op);
const char *op_formula(Op op);
/* The type operand i has inside the op, given the (stored) types of all operands: where it is not
 * in[i] itself, the reader widens it (exact, or an integer to f32). One definition for the
 * evaluators and the backend; whether the types are right at all is infer.h's. */
DType op_operand(Op op, const DType *in, int i);
Op op_named(const char *name, size_t n); /* OP_COUNT when there is none */

const char *reduce_name(Reduce r);
Op reduce_combine(Reduce r);
Reduce reduce_named(const char *name, size_t n); /* RED_COUNT when there is none */

#endif
