/* mma_read.c - factors from shared memory to registers, by ldmatrix: four 8 x 8 matrices, which are
 * 16 rows x 16 k of a factor, at a time. In lines of k they lie as mma.sync wants them, in lines of
 * rows transposed.
 *
 * Lane t names line t % 8 of matrix t / 8. Of the rows' factor matrix 2 i + h has k 8 i.. and rows
 * 8 h.., of the columns' matrix 2 h + i. In a line the address has bits 4.. xored with the line's
 * number (by how many lines 128 bytes have), so the 16 bytes of eight lines are in different banks,
 * whatever the lines' length. Distances that are multiples of what is xored are xored too.
 */
#include "backend/nvptx/mma_int.h"

enum { SIZE = 2, STEP = 16, ROWS = 16, CHUNK = 16 }; /* bytes; k, rows of a read; bytes */

static Val bits(Lower *l, Val v, int from, int mask) {
    return LLVMBuildAnd(l->b, LLVMBuildLShr(l->b, v, i32c(l, from), ""), i32c(l, mask), "");
}

static Val times(Lower *l, Val v, int by) {
    return LLVMBuildMul(l->b, v, i32c(l, by), "");
}

static Val plus(Lower *l, Val a, Val b) {
    return LLVMBuildAdd(l->b, a, b, "");
}

Val mm_swizzle(Lower *l, const MmaSmem *s, Val line) {
    int log = s->swizzle == 128 ? 0 : s->swizzle == 64 ? 1 : 2;
    return LLVMBuildShl(l->b, bits(l, line, log, 7 >> log), i32c(l, 4), "");
}

/* From the stage's start. each: rows of a warp, the at-th has its own. */
static Val lane_of(Mm *m, const MmaSmem *s, bool rows, int each, Val at) {
    Lower *l = m->w.l;
    Val in = bits(l, m->w.tid, 0, 7);
    Val half_row = bits(l, m->w.tid, rows ? 3 : 4, 1), half_k = bits(l, m->w.tid, rows ? 4 : 3, 1);
    Val line = plus(l, times(l, s->mn ? half_k : half_row, 8), in);
    Val chunk = times(l, s->mn ? half_row : half_k, CHUNK), first;
    if (!s->mn) {
        first = times(l, at, each * s->swizzle);
    } else if (each >= s->box) {
        first = times(l, at, each / s->box * s->box_bytes);
    } else { /* several warps to a box */
        int per_box = s->box / each;
        Val in_box = LLVMBuildURem(l->b, at, i32c(l, per_box), "");
        chunk = plus(l, chunk, times(l, in_box, each * SIZE));
        first = times(l, LLVMBuildUDiv(l->b, at, i32c(l, per_box), ""), s->box_bytes);
    }
    Val swizzled = LLVMBuildXor(l->b, chunk, mm_swizzle(l, s, in), "");
    return plus(l, plus(l, first, times(l, line, s->swizzle)), swizzled);
}

void mm_find_lanes(Mm *m) {
    Wg *w = &m->w;
    Lower *l = w->l;
    Val a = lane_of(m, &w->t.a, true, w->t.group_rows, m->warp_row);
    Val b = lane_of(m, &w->t.b, false, w->t.group_cols, m->warp_col);
    m->lane_a = plus(l, w->smem, a);
    m->lane_b = plus(l, plus(l, w->smem, b), i32c(l, w->t.a.bytes));
}

static void read_factor(Mm *m, const MmaSmem *s, Val lane, int rows, int step, Val to[][4]) {
    Lower *l = m->w.l;
    for (int i = 0; i < s->parts * rows / ROWS; i++) {
        int r = i * ROWS % rows, part = i * ROWS / rows * s->part;
        int in_line = s->mn ? r % s->box * SIZE : step * STEP * SIZE;
        int far = s->mn ? r / s->box * s->box_bytes + step * STEP * s->swizzle : r * s->swizzle;
        Val from = in_line ? LLVMBuildXor(l->b, lane, i32c(l, in_line), "") : lane;
        ptx_ldmatrix(l, 4, s->mn, from, part + far, to[i]);
    }
}

void mm_read(Mm *m, Val slot, int step, MmPairs *to) {
    Wg *w = &m->w;
    Lower *l = w->l;
    read_factor(m, &w->t.a, plus(l, m->lane_a, slot), w->t.group_rows, step, to->a);
    read_factor(m, &w->t.b, plus(l, m->lane_b, slot), w->t.group_cols, step, to->b);
}
