/* mma_int.h - what the files of the tier of cp.async and mma.sync share: mma.c (the kernel),
 * mma_copy.c (stages), mma_read.c (from there to registers). What is done after the loop, and which
 * tile it is, the tier of wgmma knows (wgmma_int.h), of which a Wg is all that it asks for. */
#ifndef FK_NVPTX_MMA_INT_H
#define FK_NVPTX_MMA_INT_H

#include "backend/nvptx/wgmma_int.h"

enum { MM_FACTORS = 1 + MMA_SUMS };

/* What a thread copies of a factor (ir/mma_sync.c). i32 but for the pitch. */
typedef struct MmCopy {
    const MmaFactor *f;
    const MmaSmem *s;
    int axis;
    MmaCopies c;
    Val chunk; /* bytes from the start of a line */
    Val line;  /* the first: K-major a row, MN-major a k.. */
    Val box;   /* ..of this box */
    Val to;    /* where it goes in the first stage */
    Val pitch; /* i64, bytes */
} MmCopy;

/* Copies of the next stage, which may be of a later tile. */
typedef struct MmAt {
    Val from; /* i64: the first */
    Val left; /* i32: K-major rows of the tensor from the first line on, MN-major bytes */
} MmAt;
typedef struct MmNext {
    Val item;   /* i32: a tile, or a part of one (wgmma_split.c) */
    Val k_left; /* i32: its elements from the stage on */
    MmAt x[MM_FACTORS];
} MmNext;

/* Pairs of 16-bit elements that a step of 16 k multiplies, as ptx_mma has them: of each 16 rows 4
 * words, of each 16 columns 4. */
enum { MM_BLOCKS = 16 };
typedef struct MmPairs {
    Val a[MM_BLOCKS][4], b[MM_BLOCKS][4];
} MmPairs;

/* An element of a plain factor, and where it goes. */
typedef struct MmHeld {
    Val to, v;
} MmHeld;

typedef struct Mm {
    Wg w;
    VEC(MmHeld) held;
    MmCopy x[MM_FACTORS];
    int factors;
    Val lane_a, lane_b; /* i32: what the lane names of a warp's first rows, in the first stage */
    Val warp_row, warp_col; /* i32: which of the tile's warps it is */
} Mm;

/* mma_copy.c */
void mm_find_copies(Mm *m);
MmNext mm_first(Mm *m, Val item); /* copies of its first stage */
MmNext mm_phi(Mm *m, const MmNext *n, LLVMBasicBlockRef before);
void mm_phi_next(Mm *m, const MmNext *phi, const MmNext *n);
MmNext mm_after(Mm *m, const MmNext *n); /* of the stage after it */
/* The part-th of `parts` parts of a thread's copies, to the stage at byte `slot`, i32. */
void mm_copy(Mm *m, const MmNext *n, Val slot, int part, int parts);
void mm_put(Mm *m); /* what is held since, to where it goes */

/* mma_read.c: pairs of step `step` of the stage at byte `slot`. */
Val mm_swizzle(Lower *l, const MmaSmem *s, Val line); /* i32: what is xored in a line */
void mm_find_lanes(Mm *m);
void mm_read(Mm *m, Val slot, int step, MmPairs *to);

#endif
