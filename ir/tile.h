/* tile.h - one kernel: a tree of sequential loops over grid indices, at element granularity.
 *
 * The program is executed for every point of the grid (product of the grid axes' extents); points
 * do not see each other. Values (%0, %1, ...) are scalars; each is defined once, before its uses,
 * in the block where it stands or an enclosing one. How points and iterations are laid on threads
 * and how many are held at once (tiles, fragments) is the schedule's business; only an axis's
 * `tile` is here, because a carried value's frame moves once per tile.
 *
 * A carried value belongs to a loop: it starts at the identity of its reduction, each `step` inside
 * the loop (also in loops and guards below it) joins one element, and after the loop the carry's id
 * names the result: the state, or `finish` when nothing was stepped (without one: the identity).
 *
 * Frames. A sum whose elements are scaled by a running max or min is not right before that has
 * settled: such a carry has a frame, the carry (real max or min, listed before it) that its
 * elements were computed with, and rescale(old, new), the factor that moves its state from one
 * frame to another. Online softmax: l += exp(s - m) with frame m, rescale exp(old - new). A loop
 * with frames runs in blocks of its axis's `tile` iterations, from its first one on. For each block
 * all iterations step the carries without a frame; then, for each carry with one, its frame for
 * this block is chosen, its state is moved there, and all iterations step that carry with the
 * frame's id reading as the frame chosen. lag 0 takes the frame as it is after this block; lag 1
 * keeps the frame of the block before as long as |log rescale(before, new)| <= bound (natural
 * logarithm; a first block has none to keep). A state's frame may be any reference value: these
 * choices differ in rounding only. A frame still at its identity (nothing but -inf came) is used as
 * 0, so that exp(-inf - -inf) does not arise while more may come. After the loop each state is
 * moved to the true frame; if that is still -inf, elements of -inf leave 0 * exp(0 - -inf) = NaN,
 * as the plain formula gives. A loop may be cut into parts, each from nothing: two partial states
 * are merged by moving both to the joint frame (the combine of the two) and combining; a part that
 * stepped nothing drops out. Inside its loop a state is read only as a frame, and what depends on a
 * frame goes nowhere but into steps of carries in that frame (or through inner loops on the way
 * there).
 *
 * Stores. What a store writes may differ along the grid axes on which its place depends, and along
 * no others: of those others it is done at element 0. A grid axis on which the place of some store
 * does not depend has one point even when its extent is 0, and there loads whose place depends on
 * it give 0, and stores whose place does write nothing.
 *
 * IX_AXIS(k) means axes.v[k] of the program; IX_VALUE(v) the integer value %v. Sizes are the
 * graph's.
 *
 * Text form: tile_print / tile_parse; grammar at the head of ir/tile_text.c.
 */
#ifndef FK_IR_TILE_H
#define FK_IR_TILE_H

#include "ir/graph.h"

typedef enum TKind {
    T_CONST, /* num or inum of `type` */
    T_INDEX, /* ix[0] as an i64 */
    T_LOAD,  /* tensor at ix[0..rank); checked bits as in Operand: 0 outside */
    T_OP,    /* op of args */
    T_LOOP,  /* axis from lo to hi (exclusive; both over enclosing axes, hi <= extent, lo >= 0;
                may be empty), with carries; body */
    T_GUARD, /* body only where the bool arg[0] holds */
    T_STEP,  /* carry %args[0] joins element %args[1] */
    T_STORE  /* tensor at ix[0..rank) = arg[0] */
} TKind;

typedef struct TBlock {
    VEC(struct TInst *) inst;
} TBlock;

/* Postfix program over the names old, new (values of the frame), constants and values from outside
 * of the loop (widened): derived from what is summed, e.g. exp(old - new). All of it is f32. */
typedef struct TFactor {
    enum { TF_OLD, TF_NEW, TF_CONST, TF_OP, TF_VALUE } kind;
    Op op;
    int value;
    double num;
} TFactor;

typedef struct TCarry {
    int id; /* the value's number: inside the loop the state so far, after it the result */
    DType type;
    Reduce red;           /* sum prod max min: a contraction is a sum here */
    int frame;            /* id of the carry that is its frame; -1 */
    VEC(TFactor) rescale; /* of a carry with a frame */
    bool has_finish;
    double finish;    /* value when no element was stepped; else the identity */
    int lag;          /* 0, or 1 block */
    double bound;     /* lag 1: how far the frame may be behind: |log rescale| */
    const char *name; /* for people; may be NULL */
} TCarry;

typedef struct TInst {
    TKind kind;
    int id; /* value number; -1 for loop, guard, step, store */
    DType type;
    Op op;
    int *args;
    int nargs;
    const Ix **ix;
    int nix;
    double num;
    int64_t inum;
    int tensor;
    uint32_t checked;
    int axis;
    const Ix *lo, *hi;
    VEC(TCarry) carries;
    TBlock body;
    int node; /* graph node it computes, for the report and comments; -1 */
} TInst;

typedef struct TAxis {
    const char *name;
    const Ix *extent;
    bool grid;
    int tile; /* elements between frame moves of loops over it; 1 unless a pass says otherwise */
} TAxis;

typedef enum TMem { TM_IN, TM_OUT, TM_TEMP } TMem;

/* A tensor in memory. in/out: strides come with the launch; temp: dense, row-major, in workspace.
 */
typedef struct TTensor {
    TMem mem;
    const char *name;
    DType type;
    int rank;
    const Ix **dims;
    int id; /* index among the graph's params (in, out) or the plan's temps */
} TTensor;

typedef struct TProg {
    Arena *arena;
    IxPool *ix;
    const char *name;
    const char *const *sizes; /* names; nsizes */
    int nsizes;
    VEC(TAxis) axes; /* grid axes first, outermost first */
    int ngrid;
    VEC(TTensor) tensors;
    TBlock body;
    int nvalues;
} TProg;

TProg *tile_new(Arena *a, IxPool *ix, const char *name);
TInst *tile_inst(TProg *t, TBlock *b, TKind kind, DType type, int nargs, int nix);

void tile_print(Str *out, const TProg *t);
TProg *tile_parse(Arena *a, const Source *src, Diags *d);
bool tile_verify(const TProg *t, Str *why);

/* Per value, the axes along which it differs (bit a; an axis beyond 63 sets every bit): those of
 * its index expressions and operands; of a carry, those of what is stepped and outside its loop.
 * What only decides whether something is done (guards, bounds of loops) counts too. */
uint64_t *tile_deps(Arena *a, const TProg *t);
uint64_t tile_ix_deps(const uint64_t *deps, const Ix *x); /* of an index expression */

/* Grid axes on which the place of this store does not depend; of the program, those on which that
 * of some store does not. At most the first 63 axes can be such. */
uint64_t tile_once(const TProg *t, const uint64_t *deps, const TInst *store);
uint64_t tile_all_once(const TProg *t, const uint64_t *deps);

/* Indices from..to of an access that together are axis `axis` (tile_run.c), or its remainder by
 * `period`. */
typedef struct TRun {
    int axis, from, to;
    const Ix *period; /* NULL: the axis itself */
} TRun;

/* The one that ends in index `to`; false: there is none. */
bool tile_run(const TProg *t, const TInst *i, int to, TRun *r);
const Ix *tile_run_index(const TProg *t, const TRun *r);
/* Does x move with the axis only by what that is divided by? Notes the divisors. */
bool tile_by_blocks(const Ix *x, int axis, void (*note)(void *ctx, const Ix *divisor), void *ctx);
/* What the stride of dimension d of the run is, in strides of its last one. */
const Ix *tile_run_stride(const TProg *t, const TTensor *x, const TRun *r, int d);

/* Walks instructions in order, parents before their bodies. */
void tile_walk(const TBlock *b, void (*visit)(void *ctx, TInst *i, int depth), void *ctx);

#endif
