/* online_next.c - tile after tile, by all roles: those from the CTA's number on at the distance of
 * all CTAs, or, where they are handed out, what the loader takes from a counter in global memory
 * and tells the groups, and its other warps, through a ring of numbers. Where a warp picks blocks,
 * it takes them and puts them among its words for the loader.
 */
#include "backend/nvptx/online_int.h"

static Val next_slot(On *on, Val stage) {
    return wg_at_stage(&on->w, on_past_bars(on), stage, 4);
}

static LLVMBasicBlockRef only(On *on, Val cond) {
    Lower *l = on->l;
    LLVMBasicBlockRef those = block_new(l, "those"), after = block_new(l, "all");
    LLVMBuildCondBr(l->b, cond, those, after);
    block_enter(l, those);
    return after;
}

LLVMBasicBlockRef on_once_begin(On *on) {
    Lower *l = on->l;
    if (!on->loaders) return NULL;
    return only(on, LLVMBuildICmp(l->b, LLVMIntEQ, on->loader, i32c(l, 0), ""));
}

void on_once_end(On *on, LLVMBasicBlockRef after) {
    if (!after) return;
    LLVMBuildBr(on->l->b, after);
    block_enter(on->l, after);
}

/* For who tells it. */
static Val next_take(On *on) {
    Lower *l = on->l;
    Val last = LLVMBuildSub(l->b, uniform32(&on->w, on_work_all(on)), i32c(l, 1), "");
    LLVMBasicBlockRef before = LLVMGetInsertBlock(l->b);
    Val one = on->chief ? on->chief : on->lead; /* NULL: it is one thread */
    LLVMBasicBlockRef after = one ? only(on, one) : NULL;
    LLVMBasicBlockRef from = LLVMGetInsertBlock(l->b);
    Val mine = ptx_atomic_wrap(l, param_memory(l, KP_HEAD), last), taken = mine;
    on_once_end(on, after);
    if (after) {
        taken = wg_phi(l, l->i32, i32c(l, 0), before);
        LLVMAddIncoming(taken, &mine, &from, 1);
    }
    return LLVMBuildAdd(l->b, taken, on->w.stride, "");
}

static void next_tell(On *on, Ring at, Val item) {
    Lower *l = on->l;
    LLVMBasicBlockRef after = on_once_begin(on);
    ptx_mbar_wait(l, on_empty(on, BAR_NEXT, at.stage),
                  LLVMBuildXor(l->b, at.phase, i32c(l, 1), ""));
    LLVMBasicBlockRef together = on->loaders ? only(on, on->chief) : NULL;
    ptx_store_shared(l, 4, next_slot(on, at.stage), item);
    ptx_mbar_arrive(l, on_full(on, BAR_NEXT, at.stage), NULL);
    on_once_end(on, together);
    on_once_end(on, after);
}

static Val next_hear(On *on, Ring at) {
    Lower *l = on->l;
    ptx_mbar_wait(l, on_full(on, BAR_NEXT, at.stage), at.phase);
    Val item = ptx_load_shared(l, 4, next_slot(on, at.stage));
    ptx_mbar_arrive(l, on_empty(on, BAR_NEXT, at.stage), NULL);
    return ptx_shfl_first(l, item); /* ptxas then knows that it is uniform */
}

Val on_hear(On *on, Val item, Ring *next) {
    Ring at = *next;
    if (!on->l->s->dynamic) return LLVMBuildAdd(on->l->b, item, on->w.stride, "");
    *next = on_next(on, at, ON_NEXT);
    return next_hear(on, at);
}

Val on_is_tile(On *on, Val item) {
    Val all = uniform32(&on->w, on_tiles_all(on));
    return LLVMBuildICmp(on->l->b, LLVMIntULT, item, all, "");
}

/* for (item = ctaid; item < tiles; item += nctaid), or the next that nobody has */
void on_tiles(On *on, OnTileFn *fn, OnRole role) {
    Lower *l = on->l;
    bool counts = l->s->dynamic;
    OnRole taker = on->t.out.picked ? ON_PICKS : ON_LOADS;
    LLVMBasicBlockRef before = LLVMGetInsertBlock(l->b), head = block_new(l, "tile");
    LLVMBasicBlockRef body = block_new(l, "work"), exit = block_new(l, "done");
    LLVMBuildBr(l->b, head);
    block_enter(l, head);
    Val item = wg_phi(l, l->i32, on->w.first, before), zero = i32c(l, 0);
    OnRings r = {{wg_phi(l, l->i32, zero, before), wg_phi(l, l->i32, zero, before)},
                 {wg_phi(l, l->i32, zero, before), wg_phi(l, l->i32, zero, before)},
                 {wg_phi(l, l->i32, zero, before), wg_phi(l, l->i32, zero, before)},
                 {wg_phi(l, l->i32, zero, before), wg_phi(l, l->i32, zero, before)}};
    Val more = LLVMBuildICmp(l->b, LLVMIntULT, item, uniform32(&on->w, on_work_all(on)), "");
    LLVMBuildCondBr(l->b, more, body, exit);
    block_enter(l, body);
    Ring at = {zero, zero};
    if (counts)
        at = (Ring){wg_phi_first(l, head, zero, before), wg_phi_first(l, head, zero, before)};
    Val next = counts && role == taker ? next_take(on) : NULL;
    OnRings e = fn(on, item, r);
    if (!counts)
        next = LLVMBuildAdd(l->b, item, on->w.stride, "");
    else if (role == ON_PICKS)
        e.p = on_pick_put(on, e.p, next = ptx_shfl_first(l, next));
    else if (role == ON_LOADS)
        next_tell(on, at, next = role == taker ? next : on_pick_take(on, &e.p));
    if (counts && (role == ON_WORKS || (role == ON_LOADS && on->loaders))) next = next_hear(on, at);
    if (counts) {
        Ring after = on_next(on, at, ON_NEXT);
        wg_phi_next(l, at.stage, after.stage), wg_phi_next(l, at.phase, after.phase);
    }
    wg_phi_next(l, item, next);
    wg_phi_next(l, r.k.stage, e.k.stage), wg_phi_next(l, r.k.phase, e.k.phase);
    wg_phi_next(l, r.q.stage, e.q.stage), wg_phi_next(l, r.q.phase, e.q.phase);
    wg_phi_next(l, r.e.stage, e.e.stage), wg_phi_next(l, r.e.phase, e.e.phase);
    wg_phi_next(l, r.p.stage, e.p.stage), wg_phi_next(l, r.p.phase, e.p.phase);
    LLVMBuildBr(l->b, head);
    block_enter(l, exit);
}
