/* online_words.c - what is said of the blocks that are picked (online_pick.c), in shared memory:
 * the ring of words between the warp that picks and the thread that loads, each word with two
 * barriers; and words beside the rows' factors and those of a block, which the barrier that says
 * that these have come guards.
 */
#include "backend/nvptx/online_int.h"

/* ---- places ---------------------------------------------------------------------------------- */

static Val place(On *on, int at) {
    return LLVMBuildAdd(on->l->b, on->w.smem, i32c(on->l, on->t.picks_at + at), "");
}

static Val full(On *on, Val stage) {
    return wg_at_stage(&on->w, place(on, 0), stage, 8);
}

static Val empty(On *on, Val stage) {
    return wg_at_stage(&on->w, place(on, 8 * ONLINE_PICKS), stage, 8);
}

static Val word_of_ring(On *on, Val stage) {
    return wg_at_stage(&on->w, place(on, 16 * ONLINE_PICKS), stage, 4);
}

static Val words_of_rows(On *on, Val stage) {
    return wg_at_stage(&on->w, place(on, 20 * ONLINE_PICKS), stage, 16);
}

static Val word_of_block(On *on, Val stage) {
    return wg_at_stage(&on->w, place(on, 20 * ONLINE_PICKS + 16 * on->t.ahead), stage, 4);
}

void on_pick_init(On *on) {
    for (int s = 0; s < ONLINE_PICKS && on->t.out.picked; s++) {
        ptx_mbar_init(on->l, full(on, i32c(on->l, s)), 1);
        ptx_mbar_init(on->l, empty(on, i32c(on->l, s)), 1);
    }
}

/* ---- the ring -------------------------------------------------------------------------------- */

/* By the whole warp. */
Ring on_pick_put(On *on, Ring at, Val word) {
    Lower *l = on->l;
    LLVMBasicBlockRef one = block_new(l, "put"), after = block_new(l, "was.put");
    ptx_mbar_wait(l, empty(on, at.stage), LLVMBuildXor(l->b, at.phase, i32c(l, 1), ""));
    Val lane = LLVMBuildAnd(l->b, on->w.tid, i32c(l, 31), "");
    LLVMBuildCondBr(l->b, LLVMBuildICmp(l->b, LLVMIntEQ, lane, i32c(l, 0), ""), one, after);
    block_enter(l, one);
    ptx_store_shared(l, 4, word_of_ring(on, at.stage), word);
    ptx_mbar_arrive(l, full(on, at.stage), NULL);
    LLVMBuildBr(l->b, after);
    block_enter(l, after);
    return on_next(on, at, ONLINE_PICKS);
}

/* By the loading thread. */
Val on_pick_take(On *on, Ring *at) {
    Lower *l = on->l;
    ptx_mbar_wait(l, full(on, at->stage), at->phase);
    Val word = ptx_load_shared(l, 4, word_of_ring(on, at->stage));
    ptx_mbar_arrive(l, empty(on, at->stage), NULL);
    *at = on_next(on, *at, ONLINE_PICKS);
    return word;
}

/* ---- what the loading thread tells the groups ------------------------------------------------ */

void on_pick_tell_rows(On *on, Val stage, const OnPicked *p) {
    Val at = words_of_rows(on, stage);
    ptx_store_shared(on->l, 4, at, p->first);
    if (!p->lo) return;
    ptx_store_shared(on->l, 4, LLVMBuildAdd(on->l->b, at, i32c(on->l, 4), ""), p->lo);
    ptx_store_shared(on->l, 4, LLVMBuildAdd(on->l->b, at, i32c(on->l, 8), ""), p->hi);
}

static Val uniform(On *on, Val at) {
    return ptx_shfl_first(on->l, ptx_load_shared(on->l, 4, at));
}

OnPicked on_pick_hear_rows(On *on, Val stage) {
    Lower *l = on->l;
    Val at = words_of_rows(on, stage);
    OnPicked p = {.first = uniform(on, at)};
    if (!on->varies) return p;
    p.lo = uniform(on, LLVMBuildAdd(l->b, at, i32c(l, 4), ""));
    p.hi = uniform(on, LLVMBuildAdd(l->b, at, i32c(l, 8), ""));
    return p;
}

void on_pick_tell_block(On *on, Val stage, Val next) {
    ptx_store_shared(on->l, 4, word_of_block(on, stage), next);
}

Val on_pick_hear_block(On *on, Val stage) {
    return ptx_load_shared(on->l, 4, word_of_block(on, stage));
}
