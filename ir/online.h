/* online.h - tile programs with a loop over blocks of j in which matrices are multiplied, worked on
 * where they lie, folded along j, and multiplied again: found once for all who ask.
 *
 * Such a program has one loop at its top level. Its body is
 *     scores    loops over k, each from 0 to its end, that sum the product of two loads of one
 *               16-bit type: one over rows (a grid axis) and k, one over j and k
 *     pointwise ops, indices, loads and constants, over rows and j
 *     steps     of carries over rows: any reduction of what was computed; and of products: sums of
 *               something over rows and j times a load over j and columns (a grid axis)
 * Rows are a grid axis that the first factor of every score has and the second has not; of several
 * one that bounds j, is as long as j, is not known to be short, is the last.
 * A factor over j may lie in pages: j stands in it as j % P in one dimension, which has P elements,
 * and else as its quotient by P or a multiple alone; that quotient, and what does not move with j,
 * may be looked up in tensors (a gather).
 * All may stand in guards; what does is computed for all elements, and stepped for some. Carries
 * may have frames (tile.h). Before and after the loop everything is pointwise, as in mma.h; stores
 * are over rows and columns, or over rows alone.
 */
#ifndef FK_IR_ONLINE_H
#define FK_IR_ONLINE_H

#include "ir/mma.h"

enum {
    ONLINE_SCORES = 4,
    ONLINE_PRODUCTS = MMA_SUMS,
    ONLINE_ROWS = 16,
    ONLINE_USED = 2,
    ONLINE_BROUGHT = 2,
    ONLINE_BATCHES = 64,
    ONLINE_PICKS = 16,
    ONLINE_DEPTH = 1024,   /* elements of k that a tile holds, at most */
    ONLINE_PARTS_MOST = 64 /* of the blocks of a tile that is cut (mma_parts.c) */
};

/* Where a factor over j is read. */
typedef struct OnlineWhere {
    int page;      /* elements of j side by side; 0: all */
    uint32_t dims; /* bit d: dimension d is read where the page's number or data say */
} OnlineWhere;

typedef struct OnlineScore {
    const TInst *loop;
    int carry, k;   /* the value, the axis that it sums over */
    MmaFactor a, b; /* over rows; over j */
    OnlineWhere where;
} OnlineScore;

typedef struct OnlineProduct {
    const TCarry *c;
    const TInst *step, *mul;
    int element; /* value over rows and j */
    MmaFactor b; /* over columns, k is j */
    OnlineWhere where;
    int factor; /* number of its element among those of all products, equal ones once */
    bool holes; /* between the bounds of j, no row at all may have an element */
} OnlineProduct;

typedef struct OnlineRow { /* a carry over rows */
    const TCarry *c;
    const TInst *step;
} OnlineRow;

/* An instruction of the loop's body, or of a guard in it. */
typedef struct OnlineInst {
    const TInst *i;
    VEC(int) guards; /* values that must hold, no conjunctions */
    bool framed;     /* depends on a frame */
    bool early;      /* depends on no score */
    bool factor;     /* belongs to a product: its load, the multiplication, its step */
} OnlineInst;

typedef struct Online {
    const TProg *t;
    const TInst *loop;
    int at;            /* its place in the program's body */
    int rows, j, cols; /* axes; cols -1: nothing has columns */
    OnlineScore score[ONLINE_SCORES];
    OnlineProduct product[ONLINE_PRODUCTS];
    OnlineRow row[ONLINE_ROWS];
    int nscores, nproducts, nrows, nfactors;
    VEC(OnlineInst) body; /* in order, without scores and what only says where factors are */
    const uint64_t *deps; /* tile_deps */
    bool picks;           /* data may say of a block that no row of a tile has anything in it */
    VEC(int) skips;       /* conditions of all steps: of a block where one fails nothing is taken */
} Online;

/* False with a reason when the program is not of this shape. What mma.h takes is not. */
bool online_find(Arena *a, const TProg *t, Online *o, Str *why);

/* May the step of a product, between the bounds of j, leave out an element for every row? */
bool online_leaves_out(Arena *a, const Online *o, const OnlineInst *step);

/* A factor over j, and row or k (the other of the two is j). False with a reason. */
bool online_factor(const Online *o, const uint64_t *deps, const TInst *load, int row, int k,
                   MmaFactor *f, OnlineWhere *w, Str *why);

/* Is what a load reads in dimension d inside of the tensor, at any elements of all axes? */
bool online_inside(const Online *o, const TInst *load, int d);
/* Conditions on data (online_picks.c). What is known of one for all rows of a tile and all j of a
 * block: that it holds, that it fails, or neither. How, by its value:
 *     both, either, not   from its arguments
 *     distance            two indices: by the corners
 *     sides               two integers that differ along rows or j alone: by least and greatest
 *     bool                one that differs along rows or j alone: is there any that holds, fails?
 */
typedef enum OnlineSays {
    SAYS_NOTHING,
    SAYS_BOTH,
    SAYS_EITHER,
    SAYS_NOT,
    SAYS_DISTANCE,
    SAYS_SIDES,
    SAYS_BOOL
} OnlineSays;
OnlineSays online_says(const Online *o, int id);

/* Can it be known to hold, to fail; is data needed to know that it fails? */
typedef struct OnlineCan {
    bool hold, fail, data;
} OnlineCan;
OnlineCan online_can(const Online *o, int id);
const Ix *online_index(const Online *o, int id);  /* of an index or a constant; else NULL */
const TInst *online_def(const TBlock *b, int id); /* what makes a value; NULL: a loop carries it */
bool online_in_all_steps(const Online *o, int guard);
bool online_bounds_say(const Online *o, int id); /* between the bounds of j it holds */
bool online_bounds_vary(const Online *o);        /* along rows, as data likes */
void online_find_picks(Arena *a, Online *o);     /* fills picks, skips */
/* By what a schedule's role pick picks, for people; false: it has none. */
bool online_picks_text(Arena *a, const TProg *t, const Schedule *s, Str *out);

/* A score as mma.h has it: its rows, j, k. */
Mma online_score_view(const Online *o, int score);

/* Can TMA bring what this load of the body reads over rows and j, block by block? */
bool online_can_bring(const Online *o, const OnlineInst *load);

/* Moves x one way when the axis moves: 1 up, -1 down, 0 not at all; ONLINE_ANY: who knows. */
enum { ONLINE_ANY = 2 };
int online_moves(const uint64_t *deps, const Ix *x, int axis);

/* How factors lie in shared memory: pieces of 64 elements (128 bytes, swizzled) of the last
 * dimension, of each all lines. */
typedef struct OnlineSmem {
    int lines, pieces, bytes; /* bytes: of one buffer */
    int at;                   /* bytes from the start */
    SEvict evict;
} OnlineSmem;

typedef struct OnlineTiles {
    MmaTiles out; /* the tile after the loop: m rows, of each group 64, and n columns of a group */
    bool beside;  /* all groups have the same 64 rows, and columns beside each other */
    int cols;     /* columns of a tile */
    bool sync;    /* mma.sync and cp.async, by all warps (sm_80): no loader, no barriers of bytes */
    bool late;    /* with sync: a block's products are made after the next one's scores */
    int j;        /* elements of a block */
    int stages;   /* buffers of what is loaded for each block */
    int ahead;    /* buffers of what is loaded for a tile */
    int depth[ONLINE_SCORES]; /* elements of k */
    OnlineSmem q[ONLINE_SCORES], k[ONLINE_SCORES], v[ONLINE_PRODUCTS];
    /* What the body reads over rows and j that comes through shared memory: boxes of all rows of a
     * tile, side by side, `bring` buffers from brought_at on, in which all lie. */
    MmaStaged brought[ONLINE_BROUGHT];
    int nbrought, bring, brought_at, brought_bytes;
    bool over_brought; /* slabs that lie over something (out.over) lie there, in a buffer's turn */
    int batch[ONLINE_BATCHES], nbatches; /* axes, the one walked fastest last */
    int spare; /* registers of a thread beside sums, a block and its factors */
    int early; /* columns of j that are worked on before a frame is known to hold */
    int bars_at;
    int used_at, used_words; /* bits of a block's elements that some row has; 0: not needed */
    int picks_at;            /* where a warp picks blocks (role pick): what it says of them */
} OnlineTiles;

/* Do threads know by themselves where all factors lie (mma.sync, cp.async)? */
bool online_copies(const Online *o, Str *why);

bool online_schedule(Arena *a, const TProg *t, const Schedule *s, Online *o, OnlineTiles *w,
                     Str *why);

#endif
