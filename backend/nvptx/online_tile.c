/* online_tile.c - a tile of rows, by the group that multiplies it: its blocks (online_step.c), and
 * what follows them.
 *
 * Blocks of j are worked on from the last to the first. While the tensor core makes the scores of a
 * block and, behind them, the products of the block before, the group works on what is there:
 *     wait for the block's scores' factors; issue its scores
 *     wait for the products' factors of the block before; issue its products
 *     wait until the scores are made; compute all that follows (online_block.c)
 *     wait until the products are made; move their sums to the block's frame; round its factors
 * Where warps do all of it (online_mma.c) they make the block's scores and then its own products.
 * The first block has no products before it, and takes its own frame. Blocks that hang over a bound
 * of j are masked, in loops of their own. Where blocks are picked, each says which is next, and
 * whether it is masked.
 */
#include "backend/nvptx/online_step_int.h"

/* for (; *i >= last; --*i) */
static OnState blocks(On *on, OnState start, Val *i, Val last, bool masked, Val q) {
    Lower *l = on->l;
    LLVMBasicBlockRef before = LLVMGetInsertBlock(l->b), head = block_new(l, "blocks");
    LLVMBasicBlockRef body = block_new(l, masked ? "masked" : "block"), exit = block_new(l, "past");
    LLVMBuildBr(l->b, head);
    block_enter(l, head);
    Val **phi, at = wg_phi(l, l->i32, *i, before);
    int n;
    OnState s = on_state_phis(on, &start, before, &phi, &n);
    LLVMBuildCondBr(l->b, LLVMBuildICmp(l->b, LLVMIntSGE, at, last, ""), body, exit);
    block_enter(l, body);
    OnState end =
        on_block_of(on, s, at, 1, &(OnWay){.b = {.masked = masked}}, q, NULL, (OnBefore){0});
    wg_phi_next(l, at, LLVMBuildSub(l->b, at, i32c(l, 1), ""));
    on_state_next(on, phi, &end);
    LLVMBuildBr(l->b, head);
    block_enter(l, exit);
    *i = at;
    return s;
}

static Val greater(Lower *l, Val a, Val b) {
    return LLVMBuildSelect(l->b, LLVMBuildICmp(l->b, LLVMIntSGT, a, b, ""), a, b, "");
}

OnState on_first_block(On *on, const OnState *s, Val q, OnState *old, const OnRanges *was) {
    OnBlock b = {.masked = on->cut_lo || on->cut_hi, .first = true}, low = b;
    Val i = LLVMBuildSub(on->l->b, on->mine.end, i32c(on->l, 1), "");
    low.part = on_low_part(on);
    OnWay way[ON_WAYS] = {{on->mine.low, low}, {NULL, b}};
    int one = !on->part_hi;
    return on_block_of(on, *s, i, ON_WAYS - one, way + one, q, NULL, (OnBefore){old, was});
}

/* The second block, if it is whole and that before it had a part. */
static OnState after_low_part(On *on, OnState s, Val *i, Val q) {
    Lower *l = on->l;
    const OnRange *x = &on->mine;
    Val from = LLVMBuildICmp(l->b, LLVMIntSGE, *i, greater(l, x->whole, x->first), "");
    Val to = LLVMBuildICmp(l->b, LLVMIntSLT, *i, x->beyond, "");
    Val is = LLVMBuildAnd(l->b, x->low, LLVMBuildAnd(l->b, from, to, ""), "");
    return on_block_if(on, s, i, is, (OnBlock){.before = on_low_part(on)}, q);
}

OnState on_blocks(On *on, const OnState *first, Val q) {
    Lower *l = on->l;
    const OnRange *x = &on->mine;
    Val i = LLVMBuildSub(l->b, x->end, i32c(l, 2), "");
    OnState s = *first;
    /* over the end, besides the first; with wgmma their code stays where bounds do not move, as
     * measured */
    bool some_hang = on->cut_hi && (on->t.sync ? on->hi_moves != 0 : !on_hangs_once(on));
    if (on->part_hi) s = after_low_part(on, s, &i, q);
    if (some_hang) s = blocks(on, s, &i, greater(l, x->beyond, x->first), true, q);
    s = blocks(on, s, &i, greater(l, x->whole, x->first), false, q);
    if (on->cut_lo) s = blocks(on, s, &i, x->first, true, q);
    on_scrub_end(on, &s, x->first, false);
    return s;
}

void on_last_products(On *on, OnState *s, const OnRanges *was) {
    if (on->t.sync) {
        on_late_products(on, s);
        return;
    }
    on_products(on, s);
    on_skip_after(on, s, was);
}

static OnState all_blocks(On *on, const OnState *start, Val q) {
    OnRanges was = on_ranges(on);
    if (on->t.sync) on_copy_begin(on);
    OnState s = on_first_block(on, start, q, NULL, NULL);
    s = on_blocks(on, &s, q);
    on_last_products(on, &s, &was);
    return s;
}

static Val number_of(On *on, Val word) {
    return LLVMBuildLShr(on->l->b, word, i32c(on->l, PICK_SHIFT), "");
}

static Val is_not(On *on, Val word, int kinds) {
    Lower *l = on->l;
    Val of = LLVMBuildAnd(l->b, word, i32c(l, kinds), "");
    return LLVMBuildICmp(l->b, LLVMIntEQ, of, i32c(l, 0), "");
}

static bool drops_any(const On *on) {
    for (int k = 0; k < on->o.body.n; k++)
        for (int g = 0; g < on->o.body.v[k].guards.n; g++)
            if (on_pick_drops(on, on->o.body.v[k].guards.v[g])) return true;
    return false;
}

/* Blocks that are picked, from the word of the first. That one is most often cut by bounds alone;
 * of others those are few. */
static OnState picked_blocks(On *on, OnState s, Val q, Val word) {
    Lower *l = on->l;
    OnBlock first = {.masked = true, .first = true}, held = first;
    Val next, i = number_of(on, word);
    held.held = true;
    OnWay ways[2] = {{is_not(on, word, PICK_CONDITIONS), held}, {NULL, first}};
    int one = !drops_any(on);
    s = on_block_of(on, s, i, 2 - one, ways + one, q, &next, (OnBefore){0});
    LLVMBasicBlockRef before = LLVMGetInsertBlock(l->b), head = block_new(l, "blocks");
    LLVMBasicBlockRef body = block_new(l, "a.block"), exit = block_new(l, "past");
    LLVMBuildBr(l->b, head);
    block_enter(l, head);
    Val **phi, at = wg_phi(l, l->i32, next, before), last = wg_phi(l, l->i32, i, before);
    int n;
    s = on_state_phis(on, &s, before, &phi, &n);
    LLVMBuildCondBr(l->b, LLVMBuildICmp(l->b, LLVMIntSGE, at, i32c(l, 0), ""), body, exit);
    block_enter(l, body);
    Val now = number_of(on, at), following;
    OnWay way[2] = {{is_not(on, at, PICK_BOUNDS | PICK_CONDITIONS), {.held = true}},
                    {NULL, {.masked = true}}};
    OnState all = on_block_of(on, s, now, 2, way, q, &following, (OnBefore){0});
    wg_phi_next(l, at, following), wg_phi_next(l, last, now);
    on_state_next(on, phi, &all);
    LLVMBuildBr(l->b, head);
    block_enter(l, exit);
    on_scrub_end(on, &s, last, false);
    on_products(on, &s);
    return s;
}

/* ---- the tile ---- */

static void emit_after(On *on, OnState *s, Val row) {
    Lower *l = on->l;
    on_rows_quad(on, s);
    on_after_rows(on, s, on->nsums);
    if (on->o.cols < 0) return;
    Acc acc = wg_no_sums(&on->w, on->t.out.n, on->nsums);
    for (int p = 0; p < on->o.nproducts; p++)
        wg_add_sum(&on->w, &acc, on->o.product[p].c->id, s->acc[p]);
    Val col = LLVMBuildZExt(l->b, on_cols_by(on, on->t.out.n), l->i64, "");
    wg_emit_out(&on->w, &acc, row, col);
}

/* The group's first row, and opens its rows. */
static Val open_rows(On *on) {
    Val row = on_row_first(on);
    wg_open_rows(&on->w, row);
    return row;
}

/* A whole tile, or a part of one. */
static void finish(On *on, const OnWork *k, OnState *s) {
    Lower *l = on->l;
    Val row = open_rows(on);
    if (!k->cut) {
        emit_after(on, s, row);
        return;
    }
    LLVMBasicBlockRef whole = block_new(l, "whole"), part = block_new(l, "part");
    LLVMBasicBlockRef after = block_new(l, "written");
    LLVMBuildCondBr(l->b, k->cut, part, whole);
    block_enter(l, whole);
    OnState copy = on_state_copy(on, s);
    Map narrow = l->narrow, wide = l->wide, reals = l->reals;
    l->narrow = l->wide = l->reals = (Map){.arena = l->arena};
    emit_after(on, &copy, row);
    l->narrow = narrow, l->wide = wide, l->reals = reals;
    LLVMBuildBr(l->b, after);
    block_enter(l, part);
    open_rows(on);
    on_join_parts(on, k, s);
    LLVMBuildBr(l->b, after);
    block_enter(l, after);
}

void on_begin(On *on, Val item) {
    on_decode(on, item);
    on_bounds_of_group(on);
    open_rows(on);
    on_before(on, true);
}

OnState on_nothing(On *on, Ring k) {
    Lower *l = on->l;
    OnState s = on_state_new(on);
    on_rows_init(on, &s);
    for (int p = 0; p < on->o.nproducts; p++)
        for (int i = 0; i < on->nsums; i++) s.acc[p][i] = const_real(l, 0);
    for (int f = 0; f < on->o.nfactors; f++)
        for (int i = 0; i < on->nelems / 2; i++) s.factor[f][i] = i32c(l, 0);
    s.k = s.v = s.e = k; /* e: of who has one */
    return s;
}

Val on_some(On *on) {
    return LLVMBuildICmp(on->l->b, LLVMIntSGT, on->mine.end, on->mine.first, "");
}

/* Opens the tile again, so that the loop has the registers of what is known of it. */
void on_finish(On *on, OnState *s, Val item) {
    on_open(on, ptx_opaque(on->l, item));
    Val row = open_rows(on);
    on_before(on, false);
    emit_after(on, s, row);
}

/* Does what is stored lie over what was loaded of the rows? */
static bool over_rows(const On *on) {
    return on->t.out.over && !on->t.over_brought;
}

OnRings on_consume(On *on, Val item, OnRings r) {
    Lower *l = on->l;
    LLVMBasicBlockRef uniform = wg_uniform_begin(&on->w);
    bool picked = on->t.out.picked;
    on_begin(on, item);
    Ring fresh = {i32c(l, 0), i32c(l, 0)}; /* with mma.sync each tile begins at the first buffer */
    OnState s = on_nothing(on, on->t.sync ? fresh : r.k);
    s.e = r.e;
    if (!on->t.sync) ptx_mbar_wait(l, on_full(on, BAR_Q, r.q.stage), r.q.phase);
    LLVMBasicBlockRef some = block_new(l, "some"), done = block_new(l, "finished");
    LLVMBasicBlockRef none = block_new(l, "none");
    OnPicked p = picked ? on_pick_hear_rows(on, r.q.stage) : (OnPicked){0};
    if (p.lo) on->lo_least = p.lo, on->hi_most = p.hi;
    Val any = picked ? LLVMBuildICmp(l->b, LLVMIntSGE, p.first, i32c(l, 0), "") : on_some(on);
    LLVMBuildCondBr(l->b, any, some, none);
    block_enter(l, none);
    OnState skipped = s;
    on_skip(on, &skipped);
    if (!on->t.sync)
        wg_meet(&on->w); /* as products do: no warp still waits for what is released now */
    LLVMBuildBr(l->b, done);
    none = LLVMGetInsertBlock(l->b);
    block_enter(l, some);
    OnState end = picked ? picked_blocks(on, s, r.q.stage, p.first) : all_blocks(on, &s, r.q.stage);
    LLVMBuildBr(l->b, done);
    LLVMBasicBlockRef from = LLVMGetInsertBlock(l->b);
    block_enter(l, done);
    Val **phi;
    int n;
    OnState all = on_state_phis(on, &skipped, none, &phi, &n);
    Val **at = ARENA_ARRAY(l->arena, Val *, n);
    on_state_list(on, &end, at);
    for (int i = 0; i < n; i++) LLVMAddIncoming(*phi[i], at[i], &from, 1);
    if (!over_rows(on)) on_release(on, BAR_Q, r.q.stage);
    if (on->t.sync && on->t.out.split == 1) {
        on_finish(on, &all, item);
        wg_uniform_end(&on->w, uniform);
        return r;
    }
    OnWork k = on_work(on, ptx_opaque(l, item)); /* again, so that the loop has its registers */
    on_place(on, k.tile);
    OnRings out = {all.k, on_next(on, r.q, on->t.ahead), on->t.nbrought ? all.e : r.e, r.p};
    if (over_rows(on)) on->w.slabs = on_buffer(on, &on->t.q[0], r.q.stage);
    if (on->t.over_brought) on->w.slabs = on_brought_lend(on, out.e);
    finish(on, &k, &all);
    if (over_rows(on)) {
        ptx_bulk_wait_read(l, 0, on->w.leader);
        on_release(on, BAR_Q, r.q.stage);
    }
    if (on->t.over_brought) out.e = on_brought_return(on, out.e);
    wg_uniform_end(&on->w, uniform);
    return out;
}
