/* rows_int.h - wide accesses (wide.c) and loops over rows (rows.c) of the plain tier: schedules
 * with `wide`. */
#ifndef FK_NVPTX_ROWS_INT_H
#define FK_NVPTX_ROWS_INT_H

#include "backend/nvptx/nvptx_int.h"

/* The elements of an axis that this thread holds from `first` on: vectors that are there or not.
 * extent NULL: all are there. */
void wide_open(Lower *l, int axis, Val first, Val extent);

/* A load or store whose indices may be those of fewer dimensions. */
TInst wide_access(Lower *l, const TInst *i);

/* Loads and stores of whole vectors; false: not of this access. */
bool wide_load(Lower *l, const TInst *i, Frag *out);
/* What a load of a held row gave, from vector `first` on for the axis as it is open, made again of
 * the words that memory gave; false: it has none. */
bool wide_again(Lower *l, const TInst *load, int first, Frag *out);
bool wide_store(Lower *l, const TInst *i, Val first);

/* What a launch must bring. */
void wide_guards(Lower *l, Kernel *k);

/* Are loads to stay behind the barriers before them? CTAs that a multiprocessor is to have room
 * for; 0: as many as there are. */
bool rows_late(const Lower *l);
int rows_resident(const Lower *l);
/* Shall each loop make the elements again of what memory gave, so that they take no registers from
 * one to the next? */
bool rows_packed(const Lower *l);

/* Is the loop's axis held whole by the threads? */
bool rows_held(const Lower *l, const TInst *loop);
/* A loop over such an axis. */
void rows_loop(Lower *l, const TInst *loop);
/* The body of a loop over blocks, once for the elements at hand: what the frames need comes first,
 * and they move once. */
void rows_block(Lower *l, const TInst *loop);
/* A step joins all elements at hand by a tree. */
void rows_step(Lower *l, const TInst *i);

/* ---- rows_cut.c: rows in parts, a CTA each ---- */

typedef struct Cut Cut;

/* Sets l->cut; the tiles of parts, of so many tiles of rows. */
const Ix *cut_open(Lower *l, Kernel *k, const Ix *tiles);
Val cut_tile(Lower *l, Val tile);                 /* the tile of rows whose part this is */
void cut_memory(Lower *l, Kernel *k);             /* scratch */
void cut_emit(Lower *l);                          /* the program, for each launch */
bool cut_done(const Lower *l, const TInst *loop); /* by an earlier launch? */
void cut_fetch(Lower *l, const TInst *loop);      /* what its parts left, joined */
void cut_bounds(Lower *l, Val *lo, Val *hi);      /* the part's elements */
/* i1: the part that stores what does not move along the row; NULL: each does, it moves. */
Val cut_first(Lower *l);

#endif
