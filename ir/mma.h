/* mma.h - tile programs that tensor cores can do, found once for all who ask: the pass that
 * proposes schedules, their verifier, and the backend.
 *
 * Such a program has one loop from 0 to K with carried f32 sums, each of the product of two loads,
 * of one 16-bit type or of fp8 types, `a` over the axis of rows and `b` over the axis of columns.
 * Several sums have one factor in common, and all their others are alike: of one type and memory
 * order. A sum may stand there once more, turned: its factor of columns read at (n + c) % N, of all
 * N columns, which is the sum itself c columns further, in another place of the tile. Everything
 * else at its top level is pointwise: what comes after the sums may be any DAG of constants,
 * indices, loads and ops, with any number of stores, each over rows and columns.
 *
 * Each factor reads k bare in one dimension, whose whole extent the loop covers (what the hardware
 * reads beyond the end of a tensor is 0, so no end of k needs a mask), or in two: one at k/c, one
 * at k%c, where c elements are whole stages; and its row axis in another, once and with
 * coefficient 1. One of the two is its last dimension: k (the factor is K-major) or the rows
 * (MN-major, which fp8 cannot be). Its other dimensions are read at what further grid axes
 * (batches) and sizes say.
 *
 * A factor may also be made, of 16 bits: any pointwise function of loads over its own axis, k and
 * batches, with one type of the two factors that it is rounded to (mma_made.c). Threads compute it
 * into the stage, K-major.
 *
 * The sum over k may be a sum over blocks of k, whole stages, of what is made of the sum over one:
 * scaled by factors that are the same for all of a block (mma_strips.c).
 *
 * One of the factors may be a vector. Where k is its last dimension it has no dimension of rows;
 * else the last takes their place.
 */
#ifndef FK_IR_MMA_H
#define FK_IR_MMA_H

#include "ir/schedule.h"

typedef struct MmaFactor {
    int value;          /* in the loop: of the load, or of what is made */
    const TInst *load;  /* NULL: it is made.. */
    const TInst **part; /* ..of these, in their order; the last is `value` */
    int nparts;
    bool made;
    const char *why; /* why a load is made */
    uint64_t axes;   /* of what is made: along which it differs */
    DType type;
    int row, depth; /* dimensions of the row axis (-1: none) and of k, or of k%c */
    int outer;      /* that of k/c; -1: k is read bare */
    bool k_major;   /* k is the last dimension; else the row axis is */
    bool vector;    /* the row axis has one position, and it does not read it */
} MmaFactor;

enum { MMA_BLOCK_MOST = 1024, MMA_SUMS = 4, MMA_TURNS = 4 }; /* most sums; turned ones */

/* A carry that is sum `sum` at column (n + by) % size. */
typedef struct MmaTurn {
    int carry, sum, axis, by, size;
} MmaTurn;
/* Is x (axis + by) % size, in eights, which threads find in registers of their own? */
bool mma_turned(const Ix *x, int *axis, int *by, int *size);

/* Of rows or columns that are reduced: elements of a block, the axis of positions, and the one that
 * numbers the blocks; -1: there is one, and all fits in it. */
typedef struct MmaBlock {
    int size, axis, number; /* size 0: there is no such block */
} MmaBlock;

/* Sums over blocks of k (mma_strips.c): of each sum, what is carried, what is stepped, and the sum
 * over a block that this is made of. */
typedef struct MmaStrips {
    const TInst *loop; /* over blocks, the one over k stands before it; NULL: there are none */
    int axis;          /* numbers the blocks */
    int64_t size;      /* elements of k of one */
    int carry[MMA_SUMS], step[MMA_SUMS], partial[MMA_SUMS];
    VEC(const TInst *) free;   /* what steps need that is made of no sum, in its order */
    VEC(const TInst *) scaled; /* and ops on what is made of one */
} MmaStrips;

/* The program, or the view of it that has a loop over k; NULL with a reason. */
const TProg *mma_strips(const TProg *t, MmaStrips *strips, Str *why);

/* A view of a program (mma_nest.c): itself where it has no loops around that over k. */
typedef struct MmaNest {
    const TProg *t;
    int *axis;           /* per axis of the program given, of this one */
    const TInst *blocks; /* a loop with what is carried and its steps alone, at `rest` of the body:
                            what follows is done once a block; NULL: none */
    int before, rest;    /* body: so many instructions stood before the loops; before `blocks` */
    MmaBlock block[2];
    MmaStrips strips;
} MmaNest;

bool mma_nest(const TProg *t, MmaNest *nest, Str *why);
bool mma_has_frames(const TInst *blocks); /* are some of its carries in moving frames? */

typedef struct Mma {
    const TProg *t; /* what all axes here are of: the program, or a view of it */
    MmaNest nest;
    MmaBlock row_block, col_block;
    const TInst *loop;
    int sums, carry[MMA_SUMS]; /* values carried */
    int size;                  /* bytes of an element of either factor */
    MmaFactor a, b;            /* of the first sum */
    bool of_rows; /* sums have b in common, and each its own factor of rows; else a, and columns */
    MmaFactor more[MMA_SUMS - 1]; /* of the second sum, .. */
    int rows, cols, k;            /* axes */
    int turns;
    MmaTurn turn[MMA_TURNS];
} Mma;

/* Which sums each instruction of the view's body is for, as bits (none: nothing that is stored
 * needs it). False: some store is of two sums. */
bool mma_apart(const Mma *m, unsigned *of, Str *why);

/* How many factors of rows (or of columns) there are, and the n-th. */
int mma_factors(const Mma *m, bool rows);
const MmaFactor *mma_factor_at(const Mma *m, bool rows, int n);

/* rows, cols: grid axes of the view; both -1: of each factor the axis that it alone uses, that of
 * its last dimension before others, later ones before earlier ones; the earlier of the two as rows.
 * False with a reason when the program is not of this shape. */
bool mma_find(const TProg *t, int rows, int cols, Mma *m, Str *why);

/* A store or load after the loop that goes through shared memory: boxes of group rows x `box`
 * columns, `swizzle` bytes a row, copied by TMA. Columns are the last index. A store writes rows
 * and columns bare, whole extents; a load reads both one after the other. */
typedef struct MmaStaged {
    const TInst *inst;
    int row; /* dimension of the rows */
    int size, box, swizzle;
    SEvict evict;
    int at;      /* bytes from the start of a chunk */
    unsigned of; /* with `grouped`: the sums that it is for, as bits */
} MmaStaged;

enum { MMA_STAGED = 4 };

/* How a stage of a factor lies in shared memory, in bytes. It is cut into boxes of `box` rows of
 * the tile, one TMA copy each, which begin at multiples of 1024 where that matters (any box is a
 * multiple of 8 lines). A line of a box has `swizzle` bytes: K-major all k of one row, 128 bytes,
 * so the boxes are one after the other as if they were one: their size, at most MMA_BOX, is how
 * many rows may be beyond the end and loaded all the same; MN-major `box` rows side by side at one
 * k. An address has its bits 4.. xored with its bits 7.., 3 of them for 128 bytes, 2 for 64, 1
 * for 32. */
enum { MMA_BOX = 32 };
typedef struct MmaSmem {
    bool mn;    /* MN-major */
    bool plain; /* brought (or made) by all threads that load, not by TMA */
    int swizzle, box, boxes;
    SEvict evict;
    int box_bytes;        /* of one */
    int parts;            /* factors, one behind the other: to wgmma they are one */
    int kinds;            /* factors that there are: as many, or with `grouped` one at a time */
    int part, bytes;      /* of one, of all */
    int block;            /* from 64 rows to the next 64 */
    int step;             /* from what one instruction takes of k to the next */
    int deep, deep_bytes; /* K-major stages of several lines: pieces of 64 elements of k, one behind
                             the other, and from one to the next; else 1 */
    int lead, stride;     /* what wgmma calls the leading and the stride offset: MN-major from box
                             to box, and from 8 k to the next; K-major unused, and from 8 rows */
} MmaSmem;

/* Bytes from the first of its rows to `row`, the first of a box or of 8. */
int mma_smem_row(const MmaSmem *s, int row);

/* A load of k and rows that the factor in registers is made of (mma_regs.c): TMA brings what a
 * stage reads of it as it lies in memory. */
enum { MMA_RAW = 4 };
typedef struct MmaRaw {
    MmaFactor f; /* as if it were a factor itself */
    MmaSmem s;
    int at; /* bytes from the start of a stage */
} MmaRaw;

/* What the wgmma tier makes of a schedule (schedule.h). */
typedef struct MmaTiles {
    int m, n, k;         /* elements of a CTA's tile; k: of a stage */
    int stages;          /* buffers of the factors */
    int groups;          /* warpgroups that multiply */
    int loaders;         /* warpgroups that load: where factors are made there may be several */
    bool made;           /* some factor is, by those who load: then all that is plain is */
    bool regs;           /* the factor of rows is made by those who multiply, in registers.. */
    MmaRaw raw[MMA_RAW]; /* ..of what comes to its place in a stage */
    int nraw;
    bool deal;      /* groups share a tile, and each has every so many-th stage of it.. */
    int deal_at;    /* ..where they leave their sums, bytes from the start */
    int group_rows; /* rows of one's sum: of a thin tile, more than there are */
    int group_cols; /* its columns: n */
    /* A thread holds two rows, 8 apart, of every block_rows of those, and of every 8 columns two
     * side by side. wgmma: 64, of which each warp has 16. mma.sync: 16; a group is a warp, of which
     * there are warp_rows x warp_cols in a tile. */
    int block_rows, warp_rows, warp_cols;
    int spare;    /* registers, of mma.sync, for what is on its way */
    int products; /* with tiles of their own; 1: all sums are of one tile */
    bool thin;    /* m < 64: what wgmma reads as further rows is whatever lies behind them */
    int load_regs, mma_regs; /* load_regs 0: all have enough, nothing is handed round */
    int entry_regs;          /* that a thread has at the start */
    /* With promote: the accumulator of a group is cut into pieces of piece_blocks x 64 rows and
     * piece_n columns, of which `sets` partial sums have registers. */
    bool promote;
    int pieces, sets, piece_blocks, piece_n;
    int strip_group;   /* of blocks of k: columns side by side that are scaled alike; 0: none are */
    MmaSmem a, b;      /* the factors in a stage, a before b */
    int blocks, width; /* of a group's accumulator: blocks of 64 rows, and columns: those of
                          each sum one after the other */
    int stage_bytes;   /* of both */
    int pair_rows, pair_cols; /* CTAs of a cluster along each: 1, or 2 in one of them */
    /* What goes through shared memory after the loop: `chunk` columns of all stores and loads are
     * worked on together; a group has `ring` chunks. Stores lie over loads. */
    MmaStaged staged[MMA_STAGED], brought[MMA_STAGED]; /* stores, loads */
    int nstaged, nbrought, chunk, ring;
    int chunk_bytes; /* of a group */
    bool over;       /* slabs lie over what was loaded for the tile (online.h) */
    bool carried;    /* warps of their own (role slab) issue the copies, bring the loads */
    bool picked;     /* a warp (role pick) says which blocks are worked on (ir/online.h) */
    bool meet;       /* a store lies over what is read by other threads than write it */
    int split;       /* most parts along k of the tiles of the last round; 1: all are whole */
    int slots;       /* CTAs, or clusters, that work at a time */
    int walk;        /* tiles of a block of columns, one after the other: what is carried of their
                        rows stays in registers */
    /* Where warps leave what they have of reduced rows, bytes from the start, and so many of a
     * group: lines of reduce_cols columns. */
    int reduce_at, reduce_bytes, reduce_cols;
    int smem; /* bytes in all */
} MmaTiles;

/* Of a slab, where the role slab notes where it goes: each grid axis, and with `grouped` of which
 * product it is. */
int mma_note_bytes(const Mma *m, const MmaTiles *w);

/* Rows of a block that is reduced; of one that is whole, all of a group. */
int mma_block_rows(const Mma *m, const MmaTiles *w);

/* TMA copies boxes that begin at multiples of 16 bytes, and no others. Those of an access do if
 * this, of sizes alone, is a multiple of *unit elements; NULL: they do not, whatever the sizes are.
 */
const Ix *mma_begins(const Mma *m, const TInst *i, int *unit);

/* A load whose last index is k, and that has k nowhere else: neighbours along k lie side by side.
 */
bool mma_is_run(const TProg *t, const TInst *load, int k);
/* Elements of k, of a stage's `k`, for which what else the factor of rows in registers loads is the
 * same; how many loads those are. */
int mma_steady(const Mma *m, int k, int *loads);
/* Is an index the same for `n` elements of k that begin at a multiple of n? */
bool mma_is_steady(const Ix *x, int k, int n);

bool mma_can_stage(const TProg *t, const Mma *m, const TInst *store);
bool mma_can_bring(const TProg *t, const Mma *m, const TInst *load);

/* The axis of the program that stands for axis `axis` of the view in a schedule. */
int mma_axis(const Mma *m, int axis);

/* The first axis of the schedule's list with a tile that is a grid axis (of the view) is rows, the
 * second columns: the accumulator's. False with a reason. */
bool mma_schedule(const TProg *t, const Schedule *s, Mma *m, MmaTiles *tiles, Str *why);

/* Who copies what of a factor's stage (mma_sync.c): lines have per_line chunks of 16 bytes
 * or, of a plain one, of an element; a thread copies one of each `apart`-th line, n in all. */
typedef struct MmaCopies {
    int chunk, per_line, apart, n;
} MmaCopies;
MmaCopies mma_copies(const MmaSmem *s, int threads);

/* Can TMA take what this schedule moves by it, if all tensors are dense and aligned? False only
 * where rows are known to be no multiple of 16 bytes. */
bool mma_takes_dense(const Mma *m, const MmaTiles *tiles);

enum {
    MMA_PARTS_MOST = 16,
    MMA_JOINED = 8 /* blocks of rows, of all sums, of mma.sync at most, whose parts come together */
};

/* Tiles by how they are made (mma_parts.c): the first `whole` in one go, each of the `cut` others
 * in `parts` parts along k, numbered tile by tile after the whole ones: `items` in all. */
typedef struct MmaParts {
    const Ix *whole, *cut, *parts, *items;
} MmaParts;

MmaParts mma_parts(IxPool *p, const Ix *tiles, const Ix *k_tiles, int slots, int most);

#endif
