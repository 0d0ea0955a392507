/* eval.h - the reference: what a graph (and a tile program) means, in f64 with the language's
 * roundings. It defines the ops, checks every pass, folds constants, and is the oracle of fkrun
 * --check. It shares no code with the backend.
 */
#ifndef FK_IR_EVAL_H
#define FK_IR_EVAL_H

#include "ir/plan.h"

/* One value: r for reals, i for integers and bool. `unsure`: a comparison or a rounding to an
 * integer on the way was within 2^-16 of its threshold, so that the device may differ. `exact`:
 * every device holds this very value (ir/eval_ops.c says when), so that comparing it is sure. */
typedef struct EvalVal {
    double r;
    int64_t i;
    bool unsure, exact;
} EvalVal;

/* A tensor of the host: stride in elements (u4/i4: of the last dimension 1, outer ones even). */
typedef struct EvalTensor {
    DType type;
    int rank;
    int64_t extent[8], stride[8];
    void *data;
} EvalTensor;

/* ---- scalar ops: one function a row of op.def --------------------------------------------- */

/* Operands carry their value types (reals in r, the rest in i), widened to op_operand's; `type` is
 * the node's type, `vt` the value type of the operands (select: of the arms). */
EvalVal eval_op(Op op, DType type, DType vt, const EvalVal *in);
EvalVal eval_widen(DType from, DType to, EvalVal v); /* exact, or an integer to f32 */
EvalVal eval_identity(Reduce r, DType type);
EvalVal eval_const(DType type, double num, int64_t inum); /* a real is rounded to its type */
EvalVal eval_load(DType type, const void *base, int64_t index);

/* LANGUAGE.md rule 12. idx[3] is the last index of the call; missing ones are 0 in front of the
 * others. Each is taken mod 2^32 first: counter (idx[3]/4, idx[2], idx[1], idx[0]), word
 * idx[3] % 4. */
float eval_random(uint64_t seed, const int64_t idx[4]);
void eval_philox(uint32_t ctr[4], uint32_t key0, uint32_t key1); /* Philox4x32-10, in place */

/* ---- graphs ------------------------------------------------------------------------------- */

typedef struct Eval Eval;

/* tensors: one per parameter, outputs too (data of outputs may be NULL; NULL when nothing reads an
 * input). sizes: one per size; they satisfy the graph's checks. Sizes and tensors are copied, the
 * graph and the data stay in use until eval_free. Values of inner nodes that reduce or are costly
 * to repeat are memoised point by point, in caches of bounded size. */
Eval *eval_new(const Graph *g, const int64_t *sizes, const EvalTensor *tensors);
/* Before any value is asked for: casts of inexact reals to narrower ones round as if these were
 * larger in magnitude by so much of themselves (or smaller, below 0). A device's sum may lie on the
 * other side of a tie; what it then makes of it lies about where two such evaluators say. */
void eval_lean(Eval *e, double by);
void eval_free(Eval *e);
/* One element of a node's value. Thread-safe. */
EvalVal eval_at(Eval *e, int node, const int64_t *index);
/* One element of an output, as the accuracy table compares it: without its last rounding, unless
 * that saturates or overflows. Thread-safe. */
EvalVal eval_reference(Eval *e, int param, const int64_t *index);
/* A whole output into out->data, rounded to its type; on `threads` threads (0: all cores). Returns
 * the number of unsure elements. */
int64_t eval_output(Eval *e, int param, const EvalTensor *out, int threads);

/* ---- tile programs ------------------------------------------------------------------------ */

/* Runs a whole plan: every step's tile program in order, temporaries in between, into the tensors
 * of the outputs. `split` > 1 cuts each outermost loop with carried values into so many parts and
 * joins them by their merge, as a schedule may. */
bool eval_plan(const Plan *p, const int64_t *sizes, const EvalTensor *tensors, int split, Str *why);

#endif
