/* mma.c - a tile program whose loop sums products of two 16-bit matrices, on cp.async, ldmatrix and
 * mma.sync: every chip from sm_80 on.
 *
 * All warps are alike: each copies its share of every stage, and multiplies its rows and columns of
 * the tile. Of `stages` slots in shared memory one is read and the others are on their way, the
 * next tile's too, when this one's end. A stage of k takes k / 16 steps. In step s a warp
 *     reads the pairs of step s + 1, while
 *     the products of step s are made, and
 *     issues its share of the copies, to the slot that was read in the stage before.
 * In the last step it commits the copies, a group, waits until at most stages - 2 groups go on
 * (its part of the next stage is there), makes half of the products, and meets the others: so the
 * next stage is whole, and none reads this one any more. It reads the next stage's first pairs, and
 * makes the other half.
 *
 * Factors that cp.async cannot take (plain) are read in the first step and written before the warps
 * meet.
 *
 * A tile has a stage at least: of a sum of nothing all is beyond the end, and 0. After the loop the
 * sums lie as those of wgmma do (wgmma_tile.c), and what follows is the same code.
 */
#include "backend/nvptx/mma_int.h"

enum { STEP = 16 };

/* Columns from..to - 1 of a warp's, in units of 8; back and forth, since a pair that was used last
 * need not be fetched again. */
static void products(Mm *m, const MmPairs *p, Val *sum, int from, int to) {
    Wg *w = &m->w;
    int blocks = w->t.blocks, per_block = w->t.width / 2;
    for (int j = from; j < to; j++)
        for (int n = 0; n < blocks; n++) {
            int i = j % 2 ? blocks - 1 - n : n;
            ptx_mma(w->l, w->m.a.type, p->a[i], &p->b[j / 2][j % 2 * 2],
                    &sum[i * per_block + j * 4]);
        }
}

/* Slots, as bytes: of the stage that is read, and of the one before. */
typedef struct Slots {
    Val read, write;
} Slots;

static Slots next_slot(Mm *m, Slots s) {
    Lower *l = m->w.l;
    Val next = LLVMBuildAdd(l->b, s.read, i32c(l, m->w.t.stage_bytes), "");
    Val end = LLVMBuildICmp(l->b, LLVMIntEQ, next, i32c(l, m->w.t.smem), "");
    return (Slots){LLVMBuildSelect(l->b, end, i32c(l, 0), next, ""), s.read};
}

static void wait_stage(Mm *m) {
    ptx_copy_wait(m->w.l, m->w.t.stages - 2);
}

/* One stage; p: its first pairs, then the next one's. */
static Slots stage(Mm *m, const MmNext *n, Slots at, MmPairs *p, Val *sum) {
    Wg *w = &m->w;
    int steps = w->t.k / STEP, cols = w->t.width / 8;
    Slots next = next_slot(m, at);
    MmPairs now = *p;
    for (int s = 0; s < steps; s++) {
        bool last = s == steps - 1;
        if (!last) mm_read(m, at.read, s + 1, p);
        mm_copy(m, n, at.write, s, steps);
        if (last) {
            ptx_copy_commit(w->l);
            wait_stage(m);
            products(m, &now, sum, 0, cols / 2);
            mm_put(m);
            ptx_barrier(w->l);
            mm_read(m, next.read, 0, p);
        }
        products(m, &now, sum, last ? cols / 2 : 0, cols);
        now = *p;
    }
    return next;
}

/* ---- the main loop -------------------------------------------------------------------------- */

static int rows_words(const Mm *m) {
    return m->w.t.blocks;
}

static int cols_words(const Mm *m) {
    return m->w.t.width / STEP;
}

static void phi_pairs(Mm *m, MmPairs *p, LLVMBasicBlockRef before) {
    Lower *l = m->w.l;
    for (int k = 0; k < 4; k++) {
        for (int i = 0; i < rows_words(m); i++) p->a[i][k] = wg_phi(l, l->i32, p->a[i][k], before);
        for (int i = 0; i < cols_words(m); i++) p->b[i][k] = wg_phi(l, l->i32, p->b[i][k], before);
    }
}

static void phi_pairs_next(Mm *m, const MmPairs *p, const MmPairs *next) {
    Lower *l = m->w.l;
    for (int k = 0; k < 4; k++) {
        for (int i = 0; i < rows_words(m); i++) wg_phi_next(l, p->a[i][k], next->a[i][k]);
        for (int i = 0; i < cols_words(m); i++) wg_phi_next(l, p->b[i][k], next->b[i][k]);
    }
}

/* Sums the products of a tile, or of a part of it. */
static Slots multiply(Mm *m, const Work *k, MmNext *n, Slots at, Acc *acc) {
    Wg *w = &m->w;
    Lower *l = w->l;
    MmPairs pairs, start;
    mm_read(m, at.read, 0, &pairs);
    Val none = LLVMBuildICmp(l->b, LLVMIntEQ, k->len, i32c(l, 0), "");
    Val stages = LLVMBuildSelect(l->b, none, i32c(l, 1), k->len, "");
    LLVMBasicBlockRef before = LLVMGetInsertBlock(l->b);
    LLVMBasicBlockRef body = block_new(l, "mma"), exit = block_new(l, "summed");
    LLVMBuildBr(l->b, body);
    block_enter(l, body);
    Val kt = wg_phi(l, l->i32, stages, before), *sum = ARENA_ARRAY(l->arena, Val, acc->n);
    MmNext copies = *n = mm_phi(m, n, before);
    Slots slots = {wg_phi(l, l->i32, at.read, before), wg_phi(l, l->i32, at.write, before)};
    phi_pairs(m, &pairs, before);
    start = pairs;
    for (int i = 0; i < acc->n; i++)
        acc->v[i] = sum[i] = wg_phi(l, l->f32, LLVMConstReal(l->f32, 0), before);
    Slots next = stage(m, n, slots, &pairs, acc->v);
    *n = mm_after(m, n);
    Val left = LLVMBuildSub(l->b, kt, i32c(l, 1), "");
    wg_phi_next(l, kt, left);
    mm_phi_next(m, &copies, n);
    wg_phi_next(l, slots.read, next.read);
    wg_phi_next(l, slots.write, next.write);
    phi_pairs_next(m, &start, &pairs);
    for (int i = 0; i < acc->n; i++) wg_phi_next(l, sum[i], acc->v[i]);
    Val more = LLVMBuildICmp(l->b, LLVMIntNE, left, i32c(l, 0), "");
    LLVMBuildCondBr(l->b, more, body, exit);
    block_enter(l, exit);
    return next;
}

/* ---- tiles ---------------------------------------------------------------------------------- */

/* All stages but one, of which the first is there in the end. */
static MmNext begin_copies(Mm *m, MmNext first) {
    Wg *w = &m->w;
    Lower *l = w->l;
    LLVMBasicBlockRef before = LLVMGetInsertBlock(l->b);
    LLVMBasicBlockRef body = block_new(l, "ahead"), exit = block_new(l, "first");
    LLVMBuildBr(l->b, body);
    block_enter(l, body);
    Val slot = wg_phi(l, l->i32, i32c(l, 0), before);
    MmNext n = mm_phi(m, &first, before);
    mm_copy(m, &n, slot, 0, 1);
    mm_put(m);
    ptx_copy_commit(l);
    MmNext after = mm_after(m, &n);
    Val next = LLVMBuildAdd(l->b, slot, i32c(l, w->t.stage_bytes), "");
    wg_phi_next(l, slot, next);
    mm_phi_next(m, &n, &after);
    Val last = i32c(l, w->t.smem - w->t.stage_bytes);
    LLVMBuildCondBr(l->b, LLVMBuildICmp(l->b, LLVMIntNE, next, last, ""), body, exit);
    block_enter(l, exit);
    wait_stage(m);
    ptx_barrier(l);
    return after;
}

/* All that follows the loop. */
static void rest(Mm *m, const Work *k, const Acc *acc) {
    Wg *w = &m->w;
    LLVMBuilderRef entry = w->l->entry;
    LLVMBasicBlockRef kernel = LLVMGetInsertBlock(entry), after = wg_uniform_begin(w);
    Val row0, col0;
    wg_decode(w, k->tile, &row0, &col0);
    wg_open_rows(w, row0);
    wg_emit_rows(w);
    wg_emit_rest(w, k, acc, row0, col0);
    wg_uniform_end(w, after);
    LLVMPositionBuilderAtEnd(entry, kernel);
}

static void tiles(Mm *m) {
    Wg *w = &m->w;
    Lower *l = w->l;
    MmNext n = begin_copies(m, mm_first(m, w->first));
    LLVMBasicBlockRef before = LLVMGetInsertBlock(l->b), head = block_new(l, "tile");
    LLVMBasicBlockRef body = block_new(l, "work"), exit = block_new(l, "done");
    LLVMBuildBr(l->b, head);
    block_enter(l, head);
    Val item = wg_phi(l, l->i32, w->first, before);
    MmNext copies = n = mm_phi(m, &n, before);
    Slots at = {wg_phi(l, l->i32, i32c(l, 0), before),
                wg_phi(l, l->i32, i32c(l, w->t.smem - w->t.stage_bytes), before)};
    Val more = LLVMBuildICmp(l->b, LLVMIntULT, item, uniform32(w, wg_work_total(w)), "");
    LLVMBuildCondBr(l->b, more, body, exit);
    block_enter(l, body);
    Acc acc = wg_acc(w);
    Work k = wg_work(w, item);
    Slots next = multiply(m, &k, &n, at, &acc);
    if (k.cut) k = wg_work(w, ptx_opaque(l, item)); /* again: the loop has its registers */
    rest(m, &k, &acc);
    wg_phi_next(l, item, LLVMBuildAdd(l->b, item, w->stride, ""));
    mm_phi_next(m, &copies, &n);
    wg_phi_next(l, at.read, next.read);
    wg_phi_next(l, at.write, next.write);
    LLVMBuildBr(l->b, head);
    block_enter(l, exit);
    ptx_copy_wait(l, 0);
    LLVMBuildRetVoid(l->b);
}

static void emit_body(Mm *m) {
    Wg *w = &m->w;
    Lower *l = w->l;
    w->tid = ptx_tid(l);
    w->first = ptx_ctaid(l);
    w->stride = ptx_nctaid(l);
    w->smem = wg_shared_base(w);
    Val warp = ptx_shfl_first(l, LLVMBuildLShr(l->b, w->tid, i32c(l, 5), ""));
    m->warp_row = LLVMBuildURem(l->b, warp, i32c(l, w->t.warp_rows), "");
    m->warp_col = LLVMBuildUDiv(l->b, warp, i32c(l, w->t.warp_rows), "");
    Val lane = LLVMBuildAnd(l->b, w->tid, i32c(l, 31), "");
    w->lane0 = LLVMBuildICmp(l->b, LLVMIntEQ, lane, i32c(l, 0), "");
    w->row =
        wg_at_stage(w, LLVMBuildLShr(l->b, lane, i32c(l, 2), ""), m->warp_row, w->t.group_rows);
    w->col = LLVMBuildShl(l->b, LLVMBuildAnd(l->b, lane, i32c(l, 3), ""), i32c(l, 1), "");
    w->col = wg_at_stage(w, w->col, m->warp_col, w->t.group_cols);
    LLVMBasicBlockRef after = wg_uniform_begin(w);
    mm_find_copies(m);
    mm_find_lanes(m);
    tiles(m);
    wg_uniform_end(w, after);
}

bool mma_emit(Lower *l, Kernel *k, Diags *d) {
    Mm m = {0};
    LLVMBasicBlockRef entry = wg_begin(&m.w, l, k, d);
    if (!entry) return false;
    emit_body(&m);
    return wg_end(&m.w, entry, k, d);
}
