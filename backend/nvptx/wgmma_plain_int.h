/* wgmma_plain_int.h - what wgmma_load_plain.c and wgmma_plain_edge.c share: the lines of a stage.
 */
#ifndef FK_NVPTX_WGMMA_PLAIN_INT_H
#define FK_NVPTX_WGMMA_PLAIN_INT_H

#include "backend/nvptx/wgmma_int.h"

enum { LINE = 128, CHUNK = 16 };             /* bytes */
enum { SERIES = 4, FACTORS = 1 + MMA_SUMS }; /* at most */

/* A factor that the threads bring. Every thread has one chunk each of the lines first[b] + apart *
 * j of a stage, b = 0 .. series - 1: its own number of the line, the same in every stage and tile.
 */
typedef struct Lines {
    const MmaFactor *f;
    bool mn;         /* MN-major: a line is one k, not one row */
    int axis;        /* of the rows */
    int begin;       /* bytes from the start of a stage */
    int count;       /* of a stage; MN-major 64 for each box */
    Val pitch;       /* i32: bytes from a line to the next */
    Val low;         /* i64: the first address of 16 aligned bytes inside of the tensor */
    Val high;        /* i64: the last one's, less 16 */
    Val at[SERIES];  /* i32: the chunk of line first[b] in a stage */
    Val base;        /* i64: address of the chunk of line 0, of the open tile at k = 0 */
    Val left;        /* i32: rows from the tile's first on */
    Val off[SERIES]; /* i32, the same in a warp: bytes by which the lines hang over 16 */
} Lines;

/* The lines in one stage of the tile. */
typedef struct LinesAt {
    Val base;  /* i64: address of the chunk of line 0 */
    Val last;  /* i32: the last line that there is */
    Val whole; /* i1: all that the thread reads for them lies in the tensor */
} LinesAt;

typedef struct WgPlain {
    Lines x[FACTORS];
    int n;
    int size;   /* bytes of an element */
    int series; /* of lines of a thread */
    int apart;  /* from one of them to its next of a series */
    Val chunk;  /* i32: c */
    Val first[SERIES];
} WgPlain;

/* Of line first[b] + apart * j, j an i32: its number as `last` counts (MN-major: in its box), and
 * where the thread's chunk of it begins; of the last line if there is no such. */
Val plain_line(Wg *w, const WgPlain *p, const Lines *x, int b, Val j);
Val plain_address(Wg *w, const WgPlain *p, const Lines *x, const LinesAt *at, int b, Val j);

/* What the stores of a stage left wrong: chunks that reach beyond K become 0 there, and those of
 * threads that could not read whole words are written (wgmma_plain_edge.c). */
void plain_mend(Wg *w, const WgPlain *p, const LinesAt *at, Val stage, Val kt);

#endif
