/* online_step.c - one block of a tile, in one of several ways, or not at all: each way is code of
 * its own, in which what is issued is waited for, but for the block's products: those are made with
 * the next block, or at the end.
 */
#include "backend/nvptx/online_step_int.h"

#include <string.h>

/* ---- where warps do all of it ---- */

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

void on_late_products(On *on, OnState *s) {
    if (!on->t.late) return;
    on_copy_last(on);
    on_mma_products(on, s, on_copy_before(on, s->k.stage));
}

/* ---- factors and sums ---- */

/* What a block has no part of is 0. */
static void round_factors(On *on, const OnBlock *b, OnState *s) {
    int from = b->part.from * on->held / 4, n = b->part.cols * on->held / 4;
    for (int f = 0; f < on->o.nfactors; f++) {
        Val *v = s->factor[f];
        bool bf16 = on->factor_type[f] == DT_bf16;
        ptx_hold(on->l, n, v + from);
        Val *words = ARENA_ARRAY(on->l->arena, Val, on->nelems / 2);
        for (int i = 0; i < on->nelems / 2; i++)
            words[i] = i < from / 2 || i >= (from + n) / 2
                           ? i32c(on->l, 0)
                           : ptx_cvt_pair(on->l, bf16, v[2 * i], v[2 * i + 1]);
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

/* next: NULL, or where the word of the next block goes. */
static OnState one_block(On *on, const OnState *before, Val i, OnBlock b, Val q, Val *next,
                         OnBefore k) {
    Lower *l = on->l;
    bool sync = on->t.sync;
    if (!b.part.cols) b.part = on_all(on);
    if (!b.before.cols) b.before = on_all(on);
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
        on_issue_scores(on, &b, &s, q);
        if (sums) on_issue_products(on, sums, b.before);
        if (turns) on_turn_pass(on);
        on_brought_wait(on, &b, s.e);
        on_block_early(on, &b);
        if (on->t.nbrought) s.e = on_next(on, s.e, on->t.bring);
        on_wait_scores(on, &b, sums && on->o.nproducts ? 1 : 0);
    }
    if (next) *next = ptx_shfl_first(l, b.next);
    on_release(on, BAR_K, s.k.stage);
    if (!sync) s.k = on_next(on, s.k, on->t.stages);
    OnState old = s;
    on_block_values(on, &b, &s);
    on_block_factors(on, &b, &s);
    if (sums) on_wait_products(on, sums);
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
    round_factors(on, &b, &s);
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

/* What is known before a block, and so after it, whichever way it was taken. */
static Frag *values_known(On *on) {
    size_t n = (size_t)on->l->t->nvalues + 1;
    Frag *kept = ARENA_ARRAY(on->l->arena, Frag, n);
    memcpy(kept, on->l->value, n * sizeof *kept);
    return kept;
}

static void values_forget(On *on, const Frag *known) { /* all others */
    memcpy(on->l->value, known, ((size_t)on->l->t->nvalues + 1) * sizeof *known);
}

/* next: NULL, or where the word of the next block goes. */
OnState on_block_of(On *on, OnState s, Val i, int n, const OnWay *way, Val q, Val *next,
                    OnBefore k) {
    Lower *l = on->l;
    const Frag *known = values_known(on);
    if (n == 1) {
        OnState end = one_block(on, &s, i, way->b, q, next, k);
        values_forget(on, known);
        return end;
    }
    LLVMBasicBlockRef join = block_new(l, "worked"), from[ON_WAYS];
    OnState end[ON_WAYS], old[ON_WAYS];
    Val after[ON_WAYS];
    for (int w = 0; w < n; w++) {
        LLVMBasicBlockRef body = NULL, rest = NULL;
        if (w + 1 < n) {
            body = block_new(l, "way"), rest = block_new(l, "else");
            LLVMBuildCondBr(l->b, way[w].is, body, rest);
            block_enter(l, body);
        }
        if (k.old) old[w] = on_state_copy(on, k.old);
        end[w] = one_block(on, &s, i, way[w].b, q, next ? &after[w] : NULL,
                           (OnBefore){k.old ? &old[w] : NULL, k.was});
        from[w] = LLVMGetInsertBlock(l->b);
        LLVMBuildBr(l->b, join);
        values_forget(on, known);
        if (rest) block_enter(l, rest);
    }
    block_enter(l, join);
    if (k.old) *k.old = on_state_join(on, n, old, from);
    OnState all = on_state_join(on, n, end, from);
    if (next) *next = wg_phi(l, l->i32, after[0], from[0]);
    for (int w = 1; w < n && next; w++) LLVMAddIncoming(*next, &after[w], &from[w], 1);
    return all;
}

/* if (is) block *i as b, and on to the next */
OnState on_block_if(On *on, OnState s, Val *i, Val is, OnBlock b, Val q) {
    Lower *l = on->l;
    LLVMBasicBlockRef from[2] = {LLVMGetInsertBlock(l->b)}, body = block_new(l, "part");
    LLVMBasicBlockRef exit = block_new(l, "past");
    const Frag *known = values_known(on);
    LLVMBuildCondBr(l->b, is, body, exit);
    block_enter(l, body);
    OnState end[2] = {s, one_block(on, &s, *i, b, q, NULL, (OnBefore){0})};
    Val down = LLVMBuildSub(l->b, *i, i32c(l, 1), "");
    LLVMBuildBr(l->b, exit);
    from[1] = LLVMGetInsertBlock(l->b);
    values_forget(on, known);
    block_enter(l, exit);
    OnState all = on_state_join(on, 2, end, from);
    *i = wg_phi(l, l->i32, *i, from[0]);
    LLVMAddIncoming(*i, &down, &from[1], 1);
    return all;
}
