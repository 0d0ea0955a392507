/* online_int.h - which reductions may share a loop, and how a sum moves with its frame. */
#ifndef FK_PASSES_ONLINE_INT_H
#define FK_PASSES_ONLINE_INT_H

#include "passes/rebuild_int.h"

/* Postfix program over the frame: before the values old and new are put in, the frame itself. */
typedef struct SepItem {
    enum { SI_FRAME, SI_OLD, SI_NEW, SI_CONST, SI_OP, SI_READ } kind;
    Op op;
    double num;
    Operand read; /* over the value axes of the sum; does not depend on the frame */
} SepItem;
typedef VEC(SepItem) SepProg;

/* f(x, m) = f(x, m0) h(m) / h(m0) */
typedef struct Sep {
    int frame;
    const Ix **at;   /* where it is read, over the value axes of the sum */
    SepProg rescale; /* h(new) / h(old) */
    const char *refused;
} Sep;

/* depends[i] & bit: node i depends on the frame, or on what may not be read in its loop. False with
 * the reason. */
bool online_separate(Graph *g, const Node *sum, int frame, const uint64_t *depends, uint64_t bit,
                     Sep *out);
/* The same of a sum that has a frame, as step `step` computes it: what other steps store is read as
 * it is. frame -1: nothing that is left depends on it. */
bool online_sep(Graph *g, const Node *sum, int step, Sep *out);
/* Per node: does it depend on node `on`? In step `step`; -1: at all. */
uint64_t *online_depends(Arena *a, const Graph *g, int on, int step);

bool online_same_range(const Node *a, const Node *b); /* equal extents are reduced */

/* Says of every reduction which loop and frame it has; true when that changed. */
bool online_number(Graph *g);

/* Sums of products of differences from means of their own loop become sums that need no mean; where
 * rows are known to be long, or any_row. */
bool online_moments(Graph *g, bool any_row);

/* Reads at an index of data of what a loop reduces become sums in it. */
bool online_select(Graph *g);

/* Why a later reduction over the same range, which `reader` is or feeds, cannot follow n in its
 * loop; NULL: there is none. */
const char *online_refusal(Graph *g, const Node *n, const Node *reader);

/* How far a frame may be behind for the sum n, in bits of the exponent. */
double online_bits(const Graph *g, const Node *n);

/* What a value is made of, near enough to compare two: nodes and where they are read, over its own
 * axes and those of the first reductions on the way, which are numbered from ONLINE_INNER. */
enum { ONLINE_INNER = 1 << 20 };
typedef struct OnlinePair {
    int node;
    const Ix **map;
} OnlinePair;
typedef VEC(OnlinePair) OnlinePairs;
void online_pairs(Graph *g, const Node *n, OnlinePairs *out);

/* Values of one step: the one of most axes, over which all others are placed, each axis at one of
 * its own; false when that cannot be. maps[i] is of node[i]. */
/* Of a grouped graph: does a step that stores these have reductions that share a loop? Then its
 * values are placed so. */
bool online_placed(Graph *g, const int *node, int n);
bool online_place(Graph *g, const int *node, int n, int *wide, const Ix ***maps);

#endif
