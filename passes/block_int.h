/* block_int.h - which cuts block.c makes, and taking them back. */
#ifndef FK_PASSES_BLOCK_INT_H
#define FK_PASSES_BLOCK_INT_H

#include "passes/passes.h"

/* Can the wgmma tier make this product of two matrices (ir/mma.h)? They are in memory: inputs,
 * outputs, and what is `stored`, by node; NULL: nothing else. */
bool block_is_fast(const Graph *g, const Node *product, const bool *stored);

/* A contraction of two matrices. Is it read at every axis of p, each bare and once? */
bool block_is_product(const Node *n);
bool block_covers(const Node *p, const Node *z, const Operand *o);
int block_last_role(const Node *z, char role); /* its last axis of that role; -1 */

/* What becomes of one axis of a reduction. */
typedef enum CutKind { CUT_value, CUT_part, CUT_whole, CUT_blocks } CutKind;
typedef struct BlockCut {
    CutKind kind;
    int block;    /* blocks: elements of one */
    int at;       /* its place among the axes of the parts: value axis, or first reduced one */
    int inner_at; /* blocks: place of the axis inside of a block */
} BlockCut;

/* Axes of the parts: pieces, the value's, then those that are still reduced. The parts of p; and p
 * becomes what joins them, in the order of their numbers. */
void block_place_axes(const Node *p, BlockCut *cut, int *rank, int *naxes);
Node *block_parts(Graph *g, const Node *p, const BlockCut *cut, int rank, int naxes);
void block_join(Graph *g, Node *p, const Node *part);

/* The same of all reductions of a product that share a loop with a frame (block_online.c). */
bool block_online(Graph *g, int sms);

/* Parts that are not stored become one with what joins them: one loop reads memory better than a
 * loop over blocks. For group, when it has decided. */
bool block_undo(Graph *g);

#endif
