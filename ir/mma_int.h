/* mma_int.h - what the files mma*.c share. */
#ifndef FK_IR_MMA_INT_H
#define FK_IR_MMA_INT_H

#include "ir/mma.h"

/* Says why not; always false. */
FK_PRINTF(2, 3) bool mma_no(Str *why, const char *fmt, ...);

/* The product of each carry of a loop (mma_sums.c); p is the same of all if there are several. */
typedef struct MmaProduct {
    const TInst *p, *q;
} MmaProduct;
typedef struct MmaProducts {
    int n, turns;
    MmaProduct of[MMA_SUMS];
    int carry[MMA_SUMS]; /* values carried */
    MmaTurn turn[MMA_TURNS];
} MmaProducts;
bool mma_products(const TProg *t, const TInst *loop, MmaProducts *x, Str *why);
/* The product that a loop with one carry sums. */
bool mma_product(const TProg *t, const TInst *loop, const TInst **p, const TInst **q, Str *why);
enum { MMA_LINE = 128 }; /* bytes of k of a stage */

/* Has it one position, so that who is over it need not say so? */
bool mma_is_lone(const TProg *t, int axis);
/* part: a dimension that need not be as long as k; -1: none. */
bool mma_factor(const TProg *t, const TInst *load, int row, int k, int part, MmaFactor *f,
                Str *why);
/* Of the loop, k, and rows and columns if they are known: all else where factors are made. */
bool mma_made(const TProg *t, Mma *m, Str *why);
/* Bytes of an element, 0: the two do not go together. */
int mma_pair_size(DType p, DType q);
/* As mma_find, of a program in which the nest was found: m->nest.t. */
bool mma_find_in(const TProg *t, int rows, int cols, Mma *m, Str *why);
/* Of a schedule that says `grouped` (mma_grouped.c). */
bool mma_read_grouped(const Schedule *s, const Mma *m, MmaTiles *w, Str *why);
/* The roles load, mma (at most `most` groups), slab. */
bool mma_read_roles(const Schedule *s, int most, MmaTiles *w, Str *why);

/* Into how many parts tiles may be cut along k (mma_parts.c). */
bool mma_read_split(const Schedule *s, MmaTiles *w, Str *why);

/* The rest of a schedule for mma.sync (mma_sync.c). */
bool mma_sync_fits(const TProg *t, const Schedule *s, const Mma *m, MmaTiles *w, Str *why);

/* What there are of elements that `loop`, over those of a block of so many, and axis `number`, over
 * blocks, walk together; number -1: of one block. NULL: not known. */
const Ix *mma_cut_extent(const TProg *t, const TInst *loop, int64_t elements, int number);

/* How a tile's blocks of k are scaled, and registers for what a thread scales a stage by. */
int mma_strip_regs(const Mma *m, MmaTiles *w);

/* Do tiles hold whole blocks of what is reduced (mma_nest.c)? */
bool mma_fits_blocks(const Mma *m, MmaTiles *w, bool pingpong, Str *why);
/* Shared memory that reductions of rows need, behind all else. */
void mma_lay_blocks(const Mma *m, MmaTiles *w);

/* Of a factor in registers: what comes to shared memory, and whether it can be (mma_regs.c). */
bool mma_lay_raw(const TProg *t, const Mma *m, MmaTiles *w, Str *why);
/* How a K-major factor's rows lie in lines of 128 bytes. */
void mma_lay_k_major(MmaSmem *s, int rows);

/* Entries of the schedule for stores and loads after the loop (mma_slab.c). */
bool mma_read_slabs(const TProg *t, const Schedule *s, const Mma *m, MmaTiles *w, Str *why);

#endif
