/* wgmma_ring.c - stages, their barriers, and the loops that both sides of the ring walk: what
 * wgmma.c says about the ring, in code. */
#include "backend/nvptx/wgmma_int.h"

const Ix *wg_k_tiles(const Wg *w) {
    IxPool *p = w->l->t->ix;
    const Ix *n = ix_add(p, w->l->t->axes.v[w->m.k].extent, ix_const(p, w->t.k - 1));
    return ix_div(p, n, ix_const(p, w->t.k));
}

Ring ring_start(const Wg *w) {
    return (Ring){i32c(w->l, 0), i32c(w->l, 0)};
}

Ring ring_next(Wg *w, Ring r) {
    Lower *l = w->l;
    Val next = LLVMBuildAdd(l->b, r.stage, i32c(l, 1), "");
    Val wraps = LLVMBuildICmp(l->b, LLVMIntEQ, next, i32c(l, w->t.stages), "");
    next = LLVMBuildSelect(l->b, wraps, i32c(l, 0), next, "");
    return (Ring){next, LLVMBuildXor(l->b, r.phase, LLVMBuildZExt(l->b, wraps, l->i32, ""), "")};
}

Ring ring_on(Wg *w, Ring r, Val by) {
    Lower *l = w->l;
    Val next = LLVMBuildAdd(l->b, r.stage, by, "");
    Val wraps = LLVMBuildICmp(l->b, LLVMIntUGE, next, i32c(l, w->t.stages), "");
    Val less = LLVMBuildSub(l->b, next, i32c(l, w->t.stages), "");
    return (Ring){LLVMBuildSelect(l->b, wraps, less, next, ""),
                  LLVMBuildXor(l->b, r.phase, LLVMBuildZExt(l->b, wraps, l->i32, ""), "")};
}

Val ring_before(Wg *w, Val stage) {
    Lower *l = w->l;
    Val first = LLVMBuildICmp(l->b, LLVMIntEQ, stage, i32c(l, 0), "");
    Val before = LLVMBuildSub(l->b, stage, i32c(l, 1), "");
    return LLVMBuildSelect(l->b, first, i32c(l, w->t.stages - 1), before, "");
}

/* What the ring is after a whole tile. */
Ring ring_skip(Wg *w, Ring r) {
    Lower *l = w->l;
    IxPool *p = l->t->ix;
    const Ix *n = wg_k_tiles(w), *stages = ix_const(p, w->t.stages);
    Val next = LLVMBuildAdd(l->b, r.stage, uniform32(w, ix_mod(p, n, stages)), "");
    Val wraps = LLVMBuildICmp(l->b, LLVMIntUGE, next, i32c(l, w->t.stages), "");
    Val less = LLVMBuildSub(l->b, next, i32c(l, w->t.stages), "");
    Val flips = uniform32(w, ix_mod(p, ix_div(p, n, stages), ix_const(p, 2)));
    flips = LLVMBuildXor(l->b, flips, LLVMBuildZExt(l->b, wraps, l->i32, ""), "");
    return (Ring){LLVMBuildSelect(l->b, wraps, less, next, ""),
                  LLVMBuildXor(l->b, r.phase, flips, "")};
}

Val wg_at_stage(Wg *w, Val base, Val stage, int size) {
    Lower *l = w->l;
    return LLVMBuildAdd(l->b, base, LLVMBuildMul(l->b, stage, i32c(l, size), ""), "");
}

Val wg_full_bar(Wg *w, Val stage) {
    return wg_at_stage(w, w->bars, stage, 8);
}

Val wg_empty_bar(Wg *w, Val stage) {
    Val first = LLVMBuildAdd(w->l->b, w->bars, i32c(w->l, 8 * w->t.stages), "");
    return wg_at_stage(w, first, stage, 8);
}

int wg_pair(const Wg *w) {
    return w->t.pair_rows * w->t.pair_cols;
}

void wg_release(Wg *w, Val stage, Val pred) {
    Lower *l = w->l;
    Val who = pred ? LLVMBuildAnd(l->b, pred, w->releases, "") : w->releases;
    Val bar = wg_at_stage(w, w->empties, stage, 8);
    if (wg_pair(w) > 1)
        ptx_mbar_arrive_at(l, bar, who);
    else
        ptx_mbar_arrive(l, bar, who);
}

/* ---- loops ---------------------------------------------------------------------------------- */

Val wg_phi(Lower *l, Ty t, Val from, LLVMBasicBlockRef before) {
    Val p = LLVMBuildPhi(l->b, t, "");
    LLVMAddIncoming(p, &from, &before, 1);
    return p;
}

Val wg_phi_first(Lower *l, LLVMBasicBlockRef at, Val from, LLVMBasicBlockRef before) {
    LLVMBasicBlockRef here = LLVMGetInsertBlock(l->b);
    LLVMPositionBuilderBefore(l->b, LLVMGetFirstInstruction(at));
    Val p = wg_phi(l, LLVMTypeOf(from), from, before);
    LLVMPositionBuilderAtEnd(l->b, here);
    return p;
}

void wg_phi_next(Lower *l, Val p, Val v) {
    LLVMBasicBlockRef here = LLVMGetInsertBlock(l->b);
    LLVMAddIncoming(p, &v, &here, 1);
}

/* What comes after a tile: the next of its block of columns, or the first of the next item. */
static Val next_item(Wg *w, Val item) {
    Lower *l = w->l;
    Val next = LLVMBuildAdd(l->b, item, w->stride, "");
    if (!w->walk) return next;
    Val after = LLVMBuildAdd(l->b, w->walk, i32c(l, 1), "");
    wg_phi_next(l, w->walk, LLVMBuildSelect(l->b, w->walked, i32c(l, 0), after, ""));
    return LLVMBuildSelect(l->b, w->walked, next, item, "");
}

/* for (item = first; item < items of work; item += stride) do_tile */
Ring wg_tile_loop(Wg *w, Ring start, TileFn *do_tile) {
    Lower *l = w->l;
    LLVMBasicBlockRef before = LLVMGetInsertBlock(l->b);
    LLVMBasicBlockRef head = block_new(l, "tile"), body = block_new(l, "work");
    LLVMBasicBlockRef exit = block_new(l, "done");
    LLVMBuildBr(l->b, head);
    block_enter(l, head);
    Val tile = wg_phi(l, l->i32, w->first, before);
    Ring r = {wg_phi(l, l->i32, start.stage, before), wg_phi(l, l->i32, start.phase, before)};
    if (w->t.walk > 1) w->walk = wg_phi(l, l->i32, i32c(l, 0), before);
    Val more = LLVMBuildICmp(l->b, LLVMIntULT, tile, uniform32(w, wg_work_total(w)), "");
    LLVMBuildCondBr(l->b, more, body, exit);
    block_enter(l, body);
    Ring end = do_tile(w, tile, r);
    wg_phi_next(l, tile, next_item(w, tile));
    wg_phi_next(l, r.stage, end.stage);
    wg_phi_next(l, r.phase, end.phase);
    LLVMBuildBr(l->b, head);
    block_enter(l, exit);
    return r;
}

/* From here uniform arithmetic goes to a block of its own, before what follows. */
LLVMBasicBlockRef wg_uniform_begin(Wg *w) {
    Lower *l = w->l;
    LLVMBasicBlockRef uniform = block_new(l, "uniform"), after = block_new(l, "after");
    LLVMBuildBr(l->b, uniform);
    block_enter(l, uniform);
    LLVMPositionBuilderAtEnd(l->entry, uniform);
    block_enter(l, after);
    return after;
}

void wg_uniform_end(Wg *w, LLVMBasicBlockRef after) {
    LLVMBuildBr(w->l->entry, after);
}
