/* eval_tile_int.h - private to the evaluator of tile programs. */
#ifndef FK_IR_EVAL_TILE_INT_H
#define FK_IR_EVAL_TILE_INT_H

#include "ir/eval_int.h"
#include "ir/tile_int.h"

/* A whole tensor of the plan: what is in it, and how often each element was written. */
typedef struct Cell {
    union {
        double r;
        int64_t i;
    } u;
    _Atomic unsigned char written;
} Cell;

typedef struct Store {
    Cell *cell; /* NULL: an input */
    int64_t count;
    const EvalTensor *in;
} Store;

/* ---- a program, prepared: sizes put in, types looked up -------------------------------------- */

typedef struct Lin { /* c + sum coef * axis, or any expression x */
    int64_t c;
    int n;
    struct LinTerm {
        int axis;
        int64_t coef;
    } *term;
    const Ix *x;
} Lin;

typedef struct PInst {
    const TInst *i;
    Lin *ix; /* of loads, stores, index; a loop's lo and hi */
    DType vt, in[8], from[8];
    EvalVal constant;
    struct PInst *body;
    int nbody;
    bool split;    /* an outermost loop with carries */
    bool empty;    /* its place is on an axis that has a point and no elements */
    uint64_t once; /* of a store: grid axes of which it is done at element 0 */
    int frames;    /* carries of it that have a frame */
} PInst;

typedef struct PTensor {
    Store *store;
    DType type;
    int rank;
    int64_t extent[32], stride[32];
    const char *name;
} PTensor;

typedef struct EvalProg { /* one step */
    const TProg *t;
    Arena *arena;
    IxPool ix;
    const Ix **sizes;
    int nsizes;
    PInst *body;
    int nbody;
    PTensor *tensor;
    int64_t *extent;      /* per axis */
    DType *type;          /* per value */
    const TCarry **carry; /* per value */
    int split;
    int64_t points, *span; /* of the grid; span: of a grid axis */
    uint64_t *deps, empty;
    _Atomic int64_t next;
    _Atomic bool failed;
    pthread_mutex_t lock;
    Str *why;
} EvalProg;

bool eval_tile_prepare(EvalProg *p); /* fills it for p->t; false with a reason in p->why */
void *eval_tile_run(void *prog);     /* points until none is left; for several threads */

#endif
