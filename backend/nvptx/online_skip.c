/* online_skip.c - blocks that other groups of the tile need, and this one does not: their buffers
 * are released as they come, their turns passed on.
 *
 * While the last products of a tile are still to be made, one such block may be passed over at the
 * end of that tile and one at the beginning of the next, of the ring of K alone: the loader brings
 * so much without another buffer of V. More of them, or such as the groups meet at, are passed over
 * when the products are made.
 */
#include "backend/nvptx/online_int.h"

static void pass_over(On *on, OnState *s, enum OnBar what, Val i) {
    Ring *r = what == BAR_K ? &s->k : &s->v;
    if (what == BAR_V && !on->o.nproducts) return;
    if (what == BAR_K && on->l->s->pingpong) on_turn_wait(on), on_turn_pass(on);
    ptx_mbar_wait(on->l, on_full(on, what, r->stage), r->phase);
    if (what == BAR_V) on_scrub_skipped(on, s, i);
    wg_meet(&on->w); /* as products do: no warp still waits for what is released now */
    on_release(on, what, r->stage);
    *r = on_next(on, *r, on->t.stages);
}

/* for (i = from; i >= last; i--) */
static void skip(On *on, OnState *s, Val from, Val last) {
    Lower *l = on->l;
    LLVMBasicBlockRef before = LLVMGetInsertBlock(l->b), head = block_new(l, "others");
    LLVMBasicBlockRef body = block_new(l, "skip"), exit = block_new(l, "own");
    LLVMBuildBr(l->b, head);
    block_enter(l, head);
    Val i = wg_phi(l, l->i32, from, before);
    Ring *r[2] = {&s->k, &s->v}, at[2];
    for (int k = 0; k < 2; k++) {
        at[k].stage = wg_phi(l, l->i32, r[k]->stage, before);
        at[k].phase = wg_phi(l, l->i32, r[k]->phase, before);
        *r[k] = at[k];
    }
    LLVMBuildCondBr(l->b, LLVMBuildICmp(l->b, LLVMIntSGE, i, last, ""), body, exit);
    block_enter(l, body);
    pass_over(on, s, BAR_K, i);
    pass_over(on, s, BAR_V, i);
    wg_phi_next(l, i, LLVMBuildSub(l->b, i, i32c(l, 1), ""));
    for (int k = 0; k < 2; k++) {
        wg_phi_next(l, at[k].stage, r[k]->stage), wg_phi_next(l, at[k].phase, r[k]->phase);
        *r[k] = at[k];
    }
    LLVMBuildBr(l->b, head);
    block_enter(l, exit);
}

/* The same for one block, if there is one, and one ring. */
static void skip_one(On *on, OnState *s, enum OnBar what, Val i, Val is) {
    Lower *l = on->l;
    Ring *r = what == BAR_K ? &s->k : &s->v, was = *r;
    LLVMBasicBlockRef before = LLVMGetInsertBlock(l->b), body = block_new(l, "skip");
    LLVMBasicBlockRef exit = block_new(l, "own");
    LLVMBuildCondBr(l->b, is, body, exit);
    block_enter(l, body);
    pass_over(on, s, what, i);
    LLVMBuildBr(l->b, exit);
    LLVMBasicBlockRef from = LLVMGetInsertBlock(l->b);
    block_enter(l, exit);
    Val to[2] = {r->stage, r->phase};
    *r = (Ring){wg_phi(l, l->i32, was.stage, before), wg_phi(l, l->i32, was.phase, before)};
    LLVMAddIncoming(r->stage, &to[0], &from, 1), LLVMAddIncoming(r->phase, &to[1], &from, 1);
}

static Val minus_one(On *on, Val i) {
    return LLVMBuildSub(on->l->b, i, i32c(on->l, 1), "");
}

void on_skip(On *on, OnState *s) {
    if (on->by_group) skip(on, s, minus_one(on, on->end), on->first);
}

/* Before the first that the group needs; of a ring, where it is one block at most. */
void on_skip_before(On *on, OnState *s) {
    OnRanges all = on_ranges(on), *x = &all;
    if (on->by_group) skip(on, s, minus_one(on, x->all.end), x->mine.end);
}

void on_skip_one_before(On *on, OnState *s, enum OnBar what) {
    OnRanges all = on_ranges(on), *x = &all;
    Val is = LLVMBuildICmp(on->l->b, LLVMIntSGT, x->all.end, x->mine.end, "");
    if (on->by_group) skip_one(on, s, what, x->mine.end, is);
}

/* After the last, of a tile whose blocks were `was`. */
void on_skip_after(On *on, OnState *s, const OnRanges *was) {
    OnRanges now = on_ranges(on);
    on_set_ranges(on, was);
    if (on->by_group) skip(on, s, minus_one(on, was->mine.first), was->all.first);
    on_set_ranges(on, &now);
}

void on_skip_one_after(On *on, OnState *s, enum OnBar what, const OnRanges *was) {
    OnRanges now = on_ranges(on);
    Val is = LLVMBuildICmp(on->l->b, LLVMIntSGT, was->mine.first, was->all.first, "");
    on_set_ranges(on, was);
    if (on->by_group) skip_one(on, s, what, was->all.first, is);
    on_set_ranges(on, &now);
}

/* i1: nothing of a block is skipped that would make the groups wait for each other: one block at
 * most, whose factors are not scrubbed. */
static Val skips_freely(On *on, Val from, Val to, bool end, Val scrub) {
    Lower *l = on->l;
    Val n = LLVMBuildSub(l->b, to, from, "");
    Val ok = LLVMBuildICmp(l->b, LLVMIntSLE, n, i32c(l, on->t.used_words ? 0 : 1), "");
    if (!(end ? on->scrub_hi : on->scrub_lo)) return ok;
    Val at = LLVMBuildMul(l->b, end ? to : from, i32c(l, on->t.j), "");
    Val whole = LLVMBuildICmp(l->b, end ? LLVMIntSLE : LLVMIntSGE, at, scrub, "");
    whole = LLVMBuildOr(l->b, whole, LLVMBuildICmp(l->b, LLVMIntSLE, n, i32c(l, 0), ""), "");
    return LLVMBuildAnd(l->b, ok, whole, "");
}

Val on_joins(On *on, const OnRanges *was) {
    OnRanges all = on_ranges(on), *x = &all;
    Val some = on_some(on);
    if (!on->by_group) return some;
    Val before = skips_freely(on, x->mine.end, x->all.end, true, x->hi_most);
    Val after = skips_freely(on, was->all.first, was->mine.first, false, was->lo_least);
    return LLVMBuildAnd(on->l->b, some, LLVMBuildAnd(on->l->b, before, after, ""), "");
}
