/* online_tile.c - a tile of rows, by the group that multiplies it.
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
#include "backend/nvptx/online_int.h"

/* ---- what the tensor core does ---- */

/* What wgmma has read, all warps of a group have; words that lie beside it, each for itself. */
void on_release(On *on, enum OnBar what, Val stage) {
    if (on->t.sync) return;
    bool words = on->t.out.picked && what != BAR_V;
    if (words) ptx_sync_warp(on->l);
    ptx_mbar_arrive(on->l, on_empty(on, what, stage), words ? on->w.lane0 : on->w.leader);
}

static Val at_stage(On *on, Val desc, const OnlineSmem *m, Val stage) {
    return wg_at_stage(&on->w, desc, stage, m->bytes / 16);
}

static void issue_scores(On *on, OnBlock *b, OnState *s, Val q) {
    Lower *l = on->l;
    ptx_mbar_wait(l, on_full(on, BAR_K, s->k.stage), s->k.phase);
    if (on->t.out.picked) b->next = on_pick_hear_block(on, s->k.stage);
    for (int k = 0; k < on->o.nscores; k++) {
        const OnlineSmem *mq = &on->t.q[k], *mk = &on->t.k[k];
        WgmmaPieces w = {.type = on->o.score[k].a.type,
                         .n = on->t.j,
                         .steps = (on->t.depth[k] + 15) / 16,
                         .per_piece = 4,
                         .a_step = 2,
                         .a_piece = mq->lines * 8,
                         .b_step = 2,
                         .b_piece = mk->lines * 8,
                         .high = 64 | 1u << 30};
        b->score[k] = ARENA_ARRAY(l->arena, Val, on->t.j / 2);
        ptx_wgmma_scores(l, &w, at_stage(on, on->desc_q[k], mq, q),
                         at_stage(on, on->desc_k[k], mk, s->k.stage), b->score[k]);
    }
}

static void issue_products(On *on, OnState *s) {
    Lower *l = on->l;
    if (!on->o.nproducts) return;
    ptx_mbar_wait(l, on_full(on, BAR_V, s->v.stage), s->v.phase);
    for (int p = 0; p < on->o.nproducts; p++) {
        const OnlineProduct *x = &on->o.product[p];
        WgmmaPieces w = {.type = x->b.type,
                         .n = on->t.out.n,
                         .steps = on->t.j / 16,
                         .per_piece = on->t.j / 16,
                         .b_step = 128,
                         .high = 64 | 1u << 30};
        ptx_wgmma_rows(l, &w, s->factor[x->factor],
                       at_stage(on, on->desc_v[p], &on->t.v[p], s->v.stage), s->acc[p], p == 0,
                       p == on->o.nproducts - 1);
    }
}

static void wait_scores(On *on, OnBlock *b, int pending) {
    int n = on->nelems, all = n * on->o.nscores;
    Val *v = ARENA_ARRAY(on->l->arena, Val, all);
    for (int k = 0; k < on->o.nscores; k++)
        for (int i = 0; i < n; i++) v[k * n + i] = b->score[k][i];
    ptx_wgmma_wait_group(on->l, pending);
    ptx_hold(on->l, all, v);
    for (int k = 0; k < on->o.nscores; k++)
        for (int i = 0; i < n; i++) b->score[k][i] = v[k * n + i];
}

static void wait_products(On *on, OnState *s) {
    if (!on->o.nproducts) return;
    ptx_wgmma_wait_group(on->l, 0);
    for (int p = 0; p < on->o.nproducts; p++) ptx_hold(on->l, on->nsums, s->acc[p]);
    on_release(on, BAR_V, s->v.stage);
    s->v = on_next(on, s->v, on->t.stages);
}

/* ---- the same where warps do all of it ---- */

/* And the products of the block before, if they are late. */
static void make_scores(On *on, OnBlock *b, OnState *s, Val i) {
    on_block_early(on, b);
    on_copy_scores(on, i, s);
    on_mma_scores(on, b, s);
    if (on->t.late && !b->first) on_mma_products(on, s, on_copy_before(on, s->k.stage));
}

static void make_products(On *on, const OnBlock *b, OnState *s, Val i) {
    if (!on->t.late) {
        on_copy_products(on, i, s);
        on_scrub_holes(on, b, s);
        on_mma_products(on, s, s->k.stage);
    }
    s->k = on_next(on, s->k, on->t.stages);
}

static void make_last_products(On *on, OnState *s) {
    if (!on->t.late) return;
    on_copy_last(on);
    on_mma_products(on, s, on_copy_before(on, s->k.stage));
}

/* ---- factors and sums ---- */

static void round_factors(On *on, OnState *s) {
    for (int f = 0; f < on->o.nfactors; f++) {
        Val *v = s->factor[f];
        bool bf16 = on->factor_type[f] == DT_bf16;
        ptx_hold(on->l, on->nelems, v);
        Val *words = ARENA_ARRAY(on->l->arena, Val, on->nelems / 2);
        for (int i = 0; i < on->nelems / 2; i++)
            words[i] = ptx_cvt_pair(on->l, bf16, v[2 * i], v[2 * i + 1]);
        s->factor[f] = words;
    }
}

static void move_sums(On *on, const OnBlock *b, OnState *s) {
    for (int p = 0; p < on->o.nproducts; p++) {
        const TCarry *c = on->o.product[p].c;
        if (c->frame < 0 || on_is_still(on, c)) continue;
        int f = on_row_of(on, c->frame);
        Val by[ROWS_HELD];
        for (int r = 0; r < on->held; r++)
            by[r] = on_rescale(on, c, s->ref[f][r], b->frame[f][r], r);
        for (int i = 0; i < on->nsums; i++) {
            Val move = by[on_row_held(i, on->t.out.n)];
            s->acc[p][i] = LLVMBuildFMul(on->l->b, s->acc[p][i], move, "");
        }
    }
}

/* ---- a block ---- */

void on_forget(On *on) {
    Lower *l = on->l;
    l->narrow = l->wide = l->reals = (Map){.arena = l->arena};
}

/* The tile before, if the last products of its blocks `was` are made with a first block. */
typedef struct Before {
    OnState *old;
    const OnRanges *was;
} Before;

/* next: NULL, or where the word of the next block goes. */
static OnState one_block(On *on, const OnState *before, Val i, OnBlock b, Val q, Val *next,
                         Before k) {
    Lower *l = on->l;
    bool sync = on->t.sync;
    OnState s = on_state_copy(on, before), *sums = k.old ? k.old : b.first || sync ? NULL : &s;
    Map narrow = l->narrow, wide = l->wide, reals = l->reals;
    on_forget(on);
    bool turns = l->s->pingpong;
    on_rows_ref(on, &s);
    if (k.old) {
        on_skip_one_after(on, &s, BAR_K, k.was);
        on_skip_one_before(on, &s, BAR_K);
    } else if (b.first) {
        on_skip_before(on, &s);
    }
    on_block_open(on, &b, i);
    if (sync)
        make_scores(on, &b, &s, i);
    else {
        if (turns) on_turn_wait(on);
        issue_scores(on, &b, &s, q);
        if (sums) issue_products(on, sums);
        if (turns) on_turn_pass(on);
        on_brought_wait(on, &b, s.e);
        on_block_early(on, &b);
        if (on->t.nbrought) s.e = on_next(on, s.e, on->t.bring);
        wait_scores(on, &b, sums && on->o.nproducts ? 1 : 0);
    }
    if (next) *next = ptx_shfl_first(l, b.next);
    on_release(on, BAR_K, s.k.stage);
    if (!sync) s.k = on_next(on, s.k, on->t.stages);
    OnState old = s;
    on_block_values(on, &b, &s);
    on_block_factors(on, &b, &s);
    if (sums) wait_products(on, sums);
    if (k.old) {
        on_skip_one_after(on, k.old, BAR_V, k.was);
        s.v = k.old->v;
        on_skip_one_before(on, &s, BAR_V);
    }
    if (!b.first) {
        OnState in = s; /* the frames that the sums are in */
        for (int f = 0; f < on->o.nrows; f++)
            for (int r = 0; r < on->held; r++) in.ref[f][r] = old.ref[f][r];
        move_sums(on, &b, &in);
    }
    round_factors(on, &s);
    if (sync)
        make_products(on, &b, &s, i);
    else
        on_scrub_holes(on, &b, &s);
    if (b.first) on_scrub_end(on, &s, i, true);
    for (int f = 0; f < on->o.nrows; f++)
        for (int r = 0; r < on->held && on_is_frame(on, f); r++)
            s.ref[f][r] =
                on->still[f] ? b.frame[f][r] : on_frame_left(on, f, s.row[f][r], b.frame[f][r]);
    l->narrow = narrow, l->wide = wide, l->reals = reals;
    return s;
}

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
    OnState end = one_block(on, &s, at, (OnBlock){.masked = masked}, q, NULL, (Before){0});
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
    OnBlock b = {.masked = on->cut_lo || on->cut_hi, .first = true};
    Val i = LLVMBuildSub(on->l->b, on->mine.end, i32c(on->l, 1), "");
    return one_block(on, s, i, b, q, NULL, (Before){old, was});
}

OnState on_blocks(On *on, const OnState *first, Val q) {
    Lower *l = on->l;
    const OnRange *x = &on->mine;
    Val i = LLVMBuildSub(l->b, x->end, i32c(l, 2), "");
    OnState s = *first;
    bool some_hang = on->cut_hi && on->hi_moves; /* over the end, besides the first */
    if (some_hang) s = blocks(on, s, &i, greater(l, x->beyond, x->first), true, q);
    s = blocks(on, s, &i, greater(l, x->whole, x->first), false, q);
    if (on->cut_lo) s = blocks(on, s, &i, x->first, true, q);
    on_scrub_end(on, &s, x->first, false);
    return s;
}

void on_last_products(On *on, OnState *s, const OnRanges *was) {
    if (on->t.sync) {
        make_last_products(on, s);
        return;
    }
    issue_products(on, s);
    wait_products(on, s);
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

/* if (is) the block as `yes`, else as `no`; *next: the word of the next. */
static OnState either_block(On *on, OnState s, Val i, Val is, OnBlock yes, OnBlock no, Val q,
                            Val *next) {
    Lower *l = on->l;
    LLVMBasicBlockRef kind[2] = {block_new(l, "block"), block_new(l, "masked")}, from[2];
    LLVMBasicBlockRef join = block_new(l, "worked");
    OnState end[2];
    Val after[2], **phi;
    int n;
    LLVMBuildCondBr(l->b, is, kind[0], kind[1]);
    for (int k = 0; k < 2; k++) {
        block_enter(l, kind[k]);
        end[k] = one_block(on, &s, i, k ? no : yes, q, &after[k], (Before){0});
        from[k] = LLVMGetInsertBlock(l->b);
        LLVMBuildBr(l->b, join);
    }
    block_enter(l, join);
    OnState all = on_state_phis(on, &end[0], from[0], &phi, &n);
    Val **list = ARENA_ARRAY(l->arena, Val *, n);
    on_state_list(on, &end[1], list);
    for (int k = 0; k < n; k++) LLVMAddIncoming(*phi[k], list[k], &from[1], 1);
    *next = wg_phi(l, l->i32, after[0], from[0]);
    LLVMAddIncoming(*next, &after[1], &from[1], 1);
    return all;
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
    s = drops_any(on)
            ? either_block(on, s, i, is_not(on, word, PICK_CONDITIONS), held, first, q, &next)
            : one_block(on, &s, i, first, q, &next, (Before){0});
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
    OnState all = either_block(on, s, now, is_not(on, at, PICK_BOUNDS | PICK_CONDITIONS),
                               (OnBlock){.held = true}, (OnBlock){.masked = true}, q, &following);
    wg_phi_next(l, at, following), wg_phi_next(l, last, now);
    on_state_next(on, phi, &all);
    LLVMBuildBr(l->b, head);
    block_enter(l, exit);
    on_scrub_end(on, &s, last, false);
    issue_products(on, &s);
    wait_products(on, &s);
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
