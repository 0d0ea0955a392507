/* wgmma_reduce_int.h - what wgmma_reduce.c (reductions, of columns alone), wgmma_reduce_frames.c
 * (those in moving frames) and wgmma_reduce_rows.c (of rows too) share. */
#ifndef FK_NVPTX_WGMMA_REDUCE_INT_H
#define FK_NVPTX_WGMMA_REDUCE_INT_H

#include "backend/nvptx/wgmma_int.h"

typedef struct WgReduce {
    int slots;    /* a carry */
    Val **slot;   /* by carry: pointers to what is joined so far, by row held or block of rows */
    bool *again;  /* by instruction before the loops: what follows the blocks needs it, and it
                     differs along columns */
    bool *framed; /* by instruction in the loops: it depends on a frame; NULL: there are none */
} WgReduce;

static inline const TInst *reduce_loop(const Wg *w) {
    return w->m.nest.blocks;
}

/* Columns (rows) are reduced. */
static inline bool reduces_cols(const Wg *w) {
    return w->m.col_block.size > 0;
}
static inline bool reduces_rows(const Wg *w) {
    return w->m.row_block.size > 0;
}

static inline int reduce_rows_held(const Wg *w) {
    return w->t.group_rows / 32;
}

const TCarry *reduce_carry(const Wg *w, int c);
Val reduce_join(Wg *w, const TCarry *y, Val a, Val b);
/* What a step joins, of the open rows and columns: rows x columns. */
Val *reduce_elements(Wg *w, const TInst *step);
int reduce_step_carry(const Wg *w, const TInst *step);
/* What follows the blocks. */
void reduce_emit_rest(Wg *w);
/* Opens the axis that numbers blocks, at `at` (i64); whether there is such a block. */
Val reduce_open_number(Wg *w, const MmaBlock *b, Val at);

/* Frames. find: fills `framed`, and says how what depends on a frame differs; held: what a frame is
 * before a part is taken in, by row; move: to what it is then, which others read now; join: of the
 * four threads of a row, all carries. */
bool reduce_is_frame(const Wg *w, int c);
void reduce_frames_find(Wg *w);
Val **reduce_frames_held(Wg *w);
void reduce_frames_move(Wg *w, Val *const *held);
void reduce_frames_join(Wg *w);
void reduce_join_lanes(Wg *w, int c); /* the value of carry c, of the four threads of a row */

/* Of rows, and of rows and columns. take: elements that begin at column `from` of the part; part:
 * of `cols` columns, from `col` on, is taken; block: of rows and columns, ends before `end`. */
void reduce_rows_begin_part(Wg *w);
void reduce_rows_take(Wg *w, const TInst *step, int from);
void reduce_rows_part(Wg *w, Val row, Val col, int cols);
void reduce_both_take(Wg *w, const TInst *step);
void reduce_both_block(Wg *w, Val row, Val end);

#endif
