/* schedule_online_int.h - candidates for loops that multiply, work on and multiply again, and their
 * price (schedule_online.c, schedule_online_price.c). */
#ifndef FK_PASSES_SCHEDULE_ONLINE_INT_H
#define FK_PASSES_SCHEDULE_ONLINE_INT_H

#include "ir/online.h"
#include "passes/schedule_int.h"

/* By the widest of the dimensions that are held whole: up to 64, 128, 256, more. */
enum { NARROW = 1, MIDDLE = 2, WIDE = 4, HUGE = 8, ALL = NARROW | MIDDLE | WIDE | HUGE };

typedef struct Shape { /* a candidate */
    int widths;        /* that it is for */
    int groups, block; /* groups of 64 rows; elements of j in a block */
    int early;         /* columns worked on before the frame is known to hold; 0: no lag */
    int stages, ahead; /* buffers for each block; of the rows' factors */
    int bring;         /* at most so many buffers of matrices that are read element by element */
    int regs, rows;    /* mma.sync: registers of a thread; of a group's rows, 64 or 128. 0: wgmma */
    bool late;         /* products are made after the scores of the next block */
    bool persistent, pingpong;
    bool beside; /* the groups have the same rows, and columns beside each other */
    bool over;   /* what is stored goes where the rows' factors were */
    bool few;    /* for few rows: memory decides; what is stored comes from registers */
    bool known;  /* only where dimensions are known: a ladder has no place for it */
    int split;   /* most parts of a tile's blocks, of tiles of the last round; 0: none */
    /* Measured (tests/bench/RESULTS.md; of mma.sync nothing is): of what the tensor core could do
     * in a block, in percent; cycles of a tile beside its blocks, and where blocks are cut by
     * bounds that move. */
    int percent, tile, masked;
} Shape;

typedef struct Attempt {
    const PassCtx *cx;
    const Target *target;
    const TProg *t;
    const Online *o;
    int wide;                            /* of a dimension that is not known; 0: all are */
    const TInst *matrix[ONLINE_BROUGHT]; /* read element by element, that TMA can bring */
    int matrices;
} Attempt;

/* Elements of a dimension that is held whole; 0: too many. */
int online_held(const Attempt *x, int axis);
int online_rows(const Shape *c);                      /* of a tile */
int online_columns(const Attempt *x, const Shape *c); /* of a tile */
int online_widths(const Attempt *x);                  /* NARROW, ... */
int online_elementwise(const Attempt *x);             /* loads of the body over rows and j */

/* Nanoseconds. brought: of those loads, how many come through shared memory. */
const Ix *online_price(const Attempt *x, const Shape *c, int brought);

#endif
