/* schedule_wgmma_int.h - a product to be scheduled on wgmma, tiles that it may have, and their
 * price: schedule_wgmma.c chooses among tiles, schedule_wgmma_price.c predicts.
 */
#ifndef FK_PASSES_SCHEDULE_WGMMA_INT_H
#define FK_PASSES_SCHEDULE_WGMMA_INT_H

#include "passes/schedule_int.h"

typedef struct Gemm {
    const TProg *step, *t; /* the program; the view of it that m is about */
    Mma m;
    int sms;     /* of the target */
    int sums;    /* what it needs of enum Sums */
    bool whole;  /* sums of k are made in one go, whatever the other sizes are */
    bool vector; /* one of the factors is one */
    bool made;   /* threads make a factor */
    bool apart;  /* sums of which no two meet: each may have tiles of its own */
} Gemm;

typedef enum Kind {
    COOP,     /* the groups share a tile */
    PINGPONG, /* each has tiles of its own */
    DIRECT,   /* as COOP, but stores from registers: any pitch and alignment */
    THIN,     /* one group, deep ring, direct: all that counts is to keep memory busy */
    SWAP,   /* the same with the operands swapped: bm rows of the factor of columns, and bn columns
               for the few rows of the other */
    DEAL,   /* the groups share rows, and deal the stages of a tile (made factors in registers) */
    TURNS,  /* as COOP, and they take turns at issuing (promotion) */
    OVERLAP /* as COOP, and each overlaps adding with what it multiplies (promotion, two sets) */
} Kind;

/* Sums by what they need: of 16-bit products; of fp8 products, that the tensor core may keep to
 * itself (--fast-accum); of fp8 products, promoted to f32 every 128; of factors that
 * threads make. */
enum Sums { WIDE = 1, FP8 = 2, PROMOTED = 4, ALL = WIDE | FP8 | PROMOTED, MADE = 8 };

/* A candidate. */
typedef struct Tile {
    int sums; /* that it is for */
    Kind kind;
    int bm, bn;               /* of each sum */
    SEvict rows, cols;        /* the cache and the factors of the program's rows and columns */
    int pair_rows, pair_cols; /* CTAs of a cluster, 2 in one of them; 0 reads as 1 */
    bool plain;               /* loads by threads, and direct: factors of any pitch and alignment */
    bool always;      /* also kept when sizes are known and others are cheaper: for layouts */
    int pieces, sets; /* of promotion; 0 reads as 1 */
    int split;        /* most parts along k of the last round's tiles; 0 reads as 1 */
    bool wide;        /* of factors that are made: loads as vectors; else nothing comes by TMA */
    bool grouped;     /* each of several sums has such tiles */
    int loaders;      /* warpgroups that make them; 0 reads as 1 */
    int regs;         /* they are made in registers, of the accumulator's rows; 64 of k of a stage,
                         times this. 0: in shared memory */
    int groups;       /* of DEAL */
    int loop;         /* percent of the ideal that its main loop takes; 0 reads as 100 */
} Tile;

enum { STAGE_BYTES = 128 };

/* The step's program, or else it with an axis more; false: it is of another shape. */
bool gemm_find(Step *step, Gemm *g);
/* What the tier does not make yet, or cannot, is not proposed; nor what could run only if tensors
 * had padded rows, for which there are the schedules for any pitch. */
bool gemm_fits_tier(const TProg *t, const Schedule *s);
const Ix *gemm_bytes(const Gemm *g); /* of all tensors, each once */
int gemm_stage_k(const Gemm *g);     /* elements of k of a stage */
int tile_groups(const Tile *c);
int tile_loaders(const Tile *c);
int tile_pair_rows(const Tile *c);
int tile_pair_cols(const Tile *c);
/* Elements of k of a tile's stage. */
int tile_k(const Gemm *g, const Tile *c);
/* The accumulator's rows are the program's columns. */
bool tile_swaps(const Gemm *g, const Tile *c);
/* The axes of the accumulator. */
int gemm_rows(const Gemm *g, const Tile *c);
int gemm_cols(const Gemm *g, const Tile *c);
/* Sums that share a tile. */
int gemm_sums(const Gemm *g, const Tile *c);
/* Rows and columns of a tile that all its sums have together. */
int gemm_height(const Gemm *g, const Tile *c);
int gemm_width(const Gemm *g, const Tile *c);
/* Predicted nanoseconds, of sizes. */
const Ix *gemm_price(const Gemm *g, const Tile *c);
/* The same of the general kernel, for a product with a vector. */
const Ix *gemm_price_general(const Gemm *g);
/* Is there nothing to split at these sizes, or may nothing be? */
bool gemm_splits_in_vain(const Gemm *g, const Tile *t);

#endif
