/* eval_code_int.h - private to the compiler of the graph evaluator: a function being compiled. */
#ifndef FK_IR_EVAL_CODE_INT_H
#define FK_IR_EVAL_CODE_INT_H

#include "ir/eval_int.h"

typedef VEC(EIns) Code;
typedef VEC(int) Ints;

typedef struct Known {
    int reg, scope;
} Known;

typedef struct Comp {
    Eval *e;
    Arena *a; /* scratch */
    const Node *n;
    Code pre[EVAL_AXES_MAX + 1]; /* before loop 0, and at the head of loop k - 1's body */
    Code body;                   /* of the innermost loop, after its integers */
    int loops;
    int nv;
    Ints level;  /* per x: the loop that changes it; loops + 1: computed in the body */
    Ints source; /* per x: the value it came from; -1 */
    VEC(Known) known;
    Map ints, values; /* to known, + 1 */
    VEC(bool) open;   /* per scope */
    int scope;
    const Ix *const *extents; /* of n's axes, constants */
    Ints *todo;               /* functions called, not yet compiled */
} Comp;

/* ---- eval_index.c: code, scopes, integers, reads ------------------------------------------- */

const Node *ec_node_at(const Comp *c, int node);
int ec_new_x(Comp *c, int level, int source);
int ec_emit(Comp *c, EIns i);   /* into the body; gives its place */
void ec_patch(Comp *c, int at); /* the jump there comes here */
int ec_open_scope(Comp *c);     /* gives the outer one, for closing */
void ec_close_scope(Comp *c, int outer);
int ec_lookup(const Comp *c, const Map *m, const void *key, size_t n); /* -1: not known here */
int ec_learn(Comp *c, Map *m, const void *key, size_t n, int reg, int scope);
EIns ec_constant(Comp *c, int d, EvalVal v);
int ec_emit_zero(Comp *c);
void ec_move(Comp *c, int d, int a);
void ec_taint(Comp *c, int d, int a);
int ec_ix_reg(Comp *c, const Ix *x);
void ec_taint_by(Comp *c, int d, const Ix *x); /* v[d] is unsure where a gather inside x is */
/* What an operand reads, of its stored type, for a reader at `map`. */
int ec_operand(Comp *c, const Operand *o, const Ix *const *map, int nmap);

/* ---- eval_code.c: values ------------------------------------------------------------------- */

int ec_value(Comp *c, int node, const Ix *const *map);

#endif
