/* online_mma.c - what multiplies where warps do all of it (mma.sync, sm_80): the tile and its
 * blocks are those of online_tile.c; scores and products are made where they are asked for.
 *
 * Fragments lie as wgmma has them: of each 64 rows of a group a warp has 16, its accumulators are
 * those of m16n8 side by side, and the rounded factors of a block are the products' A operand as
 * they are. What comes from shared memory is read by ldmatrix (a line's 128 bytes are swizzled by
 * its number modulo 8, which is the lane's): for each of the four pairs of 16 bytes of a line one,
 * all others at distances known here.
 */
#include "backend/nvptx/online_int.h"

enum { LINE = 128, PER_PIECE = 4 /* steps of 16 elements of a line */ };

typedef struct Places { /* of a lane, bytes in a buffer, i32 */
    Val rows, cols;
    Val first; /* the warp's first line of rows */
} Places;

/* Where a lane reads: a line and which 16 bytes of a pair, so that what it gets is, of lines of
 * rows or k, a block of 16 by 16 as A or, transposed, as two of B; or, of columns, as two of B. */
static Val lane_place(On *on, Val line, Val half) {
    LLVMBuilderRef b = on->l->b;
    Val low = LLVMBuildAnd(b, line, i32c(on->l, 7), "");
    Val unit = LLVMBuildShl(b, LLVMBuildXor(b, low, half, ""), i32c(on->l, 4), "");
    return LLVMBuildOr(b, LLVMBuildShl(b, line, i32c(on->l, 7), ""), unit, "");
}

/* Made where they are used, from the thread's number: registers are short. */
static Places places(On *on) {
    Lower *l = on->l;
    LLVMBuilderRef b = l->b;
    Places p;
    Val tid = ptx_tid_now(l), lane = LLVMBuildAnd(b, tid, i32c(l, 31), "");
    Val low = LLVMBuildAnd(b, lane, i32c(l, 7), ""), bit3 = LLVMBuildAnd(b, lane, i32c(l, 8), "");
    Val bit4 = LLVMBuildLShr(b, lane, i32c(l, 4), "");
    p.rows = lane_place(on, LLVMBuildOr(b, low, bit3, ""), bit4);
    Val line = LLVMBuildOr(b, low, LLVMBuildShl(b, bit4, i32c(l, 3), ""), "");
    p.cols = lane_place(on, line, LLVMBuildLShr(b, bit3, i32c(l, 3), ""));
    Val warp = LLVMBuildAnd(b, LLVMBuildLShr(b, tid, i32c(l, 5), ""), i32c(l, 3), "");
    Val first = on_rows_by(on, on->t.out.group_rows * LINE);
    p.first = LLVMBuildAdd(b, first, LLVMBuildShl(b, warp, i32c(l, 11), ""), "");
    return p;
}

/* The lane's address for each of the four steps of a line, in a buffer. */
static void addresses(On *on, Val buffer, Val place, Val *at) {
    Lower *l = on->l;
    for (int k = 0; k < PER_PIECE; k++)
        at[k] = LLVMBuildAdd(l->b, buffer, LLVMBuildXor(l->b, place, i32c(l, 32 * k), ""), "");
}

static int blocks_held(const On *on) { /* of 16 rows, by a warp */
    return on->held / 2;
}

/* One k16 step of score k. */
static void score_step(On *on, int k, int step, const Val *q, const Val *keys, Val *acc) {
    Lower *l = on->l;
    const OnlineSmem *mq = &on->t.q[k], *mk = &on->t.k[k];
    int piece = step / PER_PIECE, unit = step % PER_PIECE;
    Val a[ROWS_HELD / 2][4], b[4];
    for (int h = 0; h < blocks_held(on); h++)
        ptx_ldmatrix(l, 4, false, q[unit], (piece * mq->lines + 64 * h) * LINE, a[h]);
    for (int c = 0; c < on->t.j; c += 16) {
        ptx_ldmatrix(l, 4, false, keys[unit], (piece * mk->lines + c) * LINE, b);
        for (int n = 0; n < 2; n++)
            for (int h = 0; h < blocks_held(on); h++)
                ptx_mma(l, on->o.score[k].a.type, a[h], b + 2 * n,
                        acc + (h * on->t.j + c + 8 * n) / 2);
    }
}

void on_mma_scores(On *on, OnBlock *b, const OnState *s) {
    Lower *l = on->l;
    Val q[PER_PIECE], keys[PER_PIECE];
    Places at = places(on);
    for (int k = 0; k < on->o.nscores; k++) {
        Val *acc = b->score[k] = ARENA_ARRAY(l->arena, Val, on->nelems);
        for (int i = 0; i < on->nelems; i++) acc[i] = const_real(l, 0);
        Val rows = on_buffer(on, &on->t.q[k], i32c(l, 0));
        addresses(on, LLVMBuildAdd(l->b, rows, at.first, ""), at.rows, q);
        addresses(on, on_buffer(on, &on->t.k[k], s->k.stage), at.cols, keys);
        for (int step = 0; step < (on->t.depth[k] + 15) / 16; step++)
            score_step(on, k, step, q, keys, acc);
    }
}

/* One k16 step of product p: 16 elements of j. */
static void product_step(On *on, int p, int step, const Val *values, const Val *factor, Val *acc) {
    Lower *l = on->l;
    const OnlineSmem *m = &on->t.v[p];
    int n = on->t.out.n;
    for (int c = 0; c < n; c += 16) {
        int two = n - c < 16 ? 1 : 2, piece = c / 64;
        Val b[4];
        ptx_ldmatrix(l, 2 * two, true, values[c / 16 % PER_PIECE],
                     (piece * m->lines + 16 * step) * LINE, b);
        for (int k = 0; k < two; k++)
            for (int h = 0; h < blocks_held(on); h++)
                ptx_mma(l, on->o.product[p].b.type, factor + h * on->t.j / 4 + 4 * step, b + 2 * k,
                        acc + (h * n + c + 8 * k) / 2);
    }
}

void on_mma_products(On *on, OnState *s, Val stage) {
    Val values[PER_PIECE];
    Places at = places(on);
    for (int p = 0; p < on->o.nproducts; p++) {
        Val cols = on_cols_by(on, on->t.out.n / 64 * on->t.v[p].lines * LINE);
        Val buffer = LLVMBuildAdd(on->l->b, on_buffer(on, &on->t.v[p], stage), cols, "");
        addresses(on, buffer, at.rows, values);
        for (int step = 0; step < on->t.j / 16; step++)
            product_step(on, p, step, values, s->factor[on->o.product[p].factor], s->acc[p]);
    }
}
