/* online_lag.c - branches of a warp in a block: nothing in them may issue or wait for products.
 *
 * A frame may lag (tile.h): the block is computed in the frame that stood before it, which is known
 * early, so that its exponentials need not wait for its maximum: those of the first slab come
 * before what makes that of the others. Where it is too far ahead for any row of the warp, which is
 * rare, the frame moves after all and the first slab, all that has been computed by then, is
 * computed again.
 *
 * Functions near 0 (online_near.c) are computed in one of two ways. Where reductions without a
 * frame see no more of them than their maxima, which are those of their arguments, that branch is
 * the only one: all that follows from them goes its way too, and where a frame must move after all
 * it is the way for all arguments. Else the functions alone are there.
 */
#include "backend/nvptx/online_int.h"

#include <string.h>

/* A block in one of two ways of code that meet again. */
typedef struct Way {
    OnBlock b;
    OnState s;
    Val now[ONLINE_ROWS][ROWS_HELD], part[ONLINE_ROWS][ROWS_HELD];
    LLVMBasicBlockRef end;
} Way;

static Way *way_new(On *on, const OnBlock *b, const OnState *s, Val (*now)[ROWS_HELD]) {
    Way *w = ARENA_NEW(on->l->arena, Way);
    size_t n = (size_t)on->l->t->nvalues + 1;
    w->b = *b;
    if (s) w->s = *s, memcpy(w->now, now, sizeof w->now);
    for (int p = 0; p < b->slabs; p++) {
        w->b.slab[p].value = ARENA_ARRAY(on->l->arena, Frag, n);
        memcpy(w->b.slab[p].value, b->slab[p].value, n * sizeof(Frag));
    }
    w->end = LLVMGetInsertBlock(on->l->b);
    return w;
}

static void way_enter(On *on, LLVMBasicBlockRef code) {
    block_enter(on->l, code);
    on->l->narrow = on->l->wide = (Map){.arena = on->l->arena};
}

/* Where the ways meet, values that one of them made are not there. */
static Frag *values_keep(On *on) {
    Frag *kept = ARENA_ARRAY(on->l->arena, Frag, on->l->t->nvalues + 1);
    memcpy(kept, on->l->value, (size_t)(on->l->t->nvalues + 1) * sizeof *kept);
    return kept;
}

static void ways_end(On *on, LLVMBasicBlockRef after, const Frag *kept) {
    block_enter(on->l, after);
    memcpy(on->l->value, kept, (size_t)(on->l->t->nvalues + 1) * sizeof *kept);
}

static void way_leave(On *on, Way *w, LLVMBasicBlockRef after) {
    w->end = LLVMGetInsertBlock(on->l->b);
    LLVMBuildBr(on->l->b, after);
}

static Val meet(Lower *l, const Way *hot, const Way *cold, Val was, Val is) {
    if (was == is) return was;
    Val phi = wg_phi(l, LLVMTypeOf(is), was, hot->end);
    LLVMBasicBlockRef from = cold->end;
    LLVMAddIncoming(phi, &is, &from, 1);
    return phi;
}

/* Slab p has a value from the way that was taken. */
static void meet_value(On *on, OnBlock *b, int p, const Way *hot, const Way *cold, int id) {
    Frag was = hot->b.slab[p].value[id], is = cold->b.slab[p].value[id], both = is;
    both.v = ARENA_ARRAY(on->l->arena, Val, is.n);
    for (int e = 0; e < is.n; e++) both.v[e] = meet(on->l, hot, cold, was.v[e], is.v[e]);
    b->slab[p].value[id] = both;
}

/* The first slab. */
static void meet_once(On *on, OnBlock *b, const Way *hot, const Way *cold, Map *done, int id) {
    intptr_t *seen = map_put(done, &id, sizeof id);
    if (!*seen) meet_value(on, b, 0, hot, cold, id);
    *seen = 1;
}

static void meet_factors(On *on, const Way *hot, const Way *cold, OnState *s) {
    for (int f = 0; f < on->o.nfactors; f++) {
        Val *was = hot->s.factor[f], *is = cold->s.factor[f];
        s->factor[f] = ARENA_ARRAY(on->l->arena, Val, on->nelems);
        for (int e = 0; e < on->nelems; e++)
            s->factor[f][e] = meet(on->l, hot, cold, was[e], is[e]);
    }
}

static void meet_rows(On *on, const Way *hot, const Way *cold, Val (*to)[ROWS_HELD],
                      Val (*was)[ROWS_HELD], Val (*is)[ROWS_HELD]) {
    for (int k = 0; k < on->o.nrows; k++)
        for (int r = 0; r < on->held; r++)
            if (is[k][r]) to[k][r] = meet(on->l, hot, cold, was[k][r], is[k][r]);
}

/* ---- a frame that lags ---- */

/* The reduction that a frame is, with what this block adds to it: as the thread knows it. */
static Val joined(On *on, const OnState *s, int row, int r, Val now) {
    return on_join(on, on->o.row[row].c, s->row[row][r], now);
}

Val on_moved(On *on, const OnState *s, int row, int r, Val now) {
    return on_quad(on, on->o.row[row].c, joined(on, s, row, r, now));
}

/* i1: does a frame have to move now? */
static Val must_move(On *on, const OnBlock *b, const OnState *s, Val (*now)[ROWS_HELD]) {
    Lower *l = on->l;
    Val must = LLVMConstInt(l->i1, 0, 0);
    for (int c = 0; c < on->o.loop->carries.n; c++) {
        const TCarry *y = &on->o.loop->carries.v[c];
        if (y->frame < 0 || on_is_still(on, y)) continue;
        int f = on_row_of(on, y->frame);
        for (int r = 0; r < on->held; r++) {
            Val to = on_usable(on, on->o.row[f].c, joined(on, s, f, r, now[f][r]));
            must = LLVMBuildOr(l->b, must, on_moves_far(on, y, b->frame[f][r], to, r), "");
        }
    }
    return must;
}

/* The values of a slab that are used after it: what is stepped in a frame, and factors. */
static void meet_used(On *on, OnBlock *b, const Way *hot, const Way *cold) {
    Map done = {.arena = on->l->arena};
    for (int k = 0; k < on->o.nrows; k++)
        if (on->o.row[k].c->frame >= 0)
            meet_once(on, b, hot, cold, &done, on->o.row[k].step->args[1]);
    for (int f = 0; f < on->o.nfactors; f++)
        meet_once(on, b, hot, cold, &done, on->factor_value[f]);
}

static void move_frames(On *on, OnBlock *b, const OnState *s, Val (*now)[ROWS_HELD]) {
    for (int k = 0; k < on->o.nrows; k++)
        for (int r = 0; r < on->held && on_is_frame(on, k) && !on->still[k]; r++)
            b->frame[k][r] = on_usable(on, on->o.row[k].c, on_moved(on, s, k, r, now[k][r]));
}

void on_lag(On *on, OnBlock *b, OnState *s, Val (*now)[ROWS_HELD]) {
    Lower *l = on->l;
    Val must = ptx_vote_any(l, must_move(on, b, s, now));
    Way *hot = way_new(on, b, s, now), *cold = way_new(on, b, s, now);
    LLVMBasicBlockRef move = block_new(l, "move"), after = block_new(l, "moved");
    Map narrow = l->narrow, wide = l->wide;
    LLVMBuildCondBr(l->b, must, move, after);
    way_enter(on, move);
    move_frames(on, &cold->b, s, now);
    on_framed(on, &cold->b, &cold->b.slab[0]);
    way_leave(on, cold, after);
    block_enter(l, after);
    l->narrow = narrow, l->wide = wide;
    meet_used(on, b, hot, cold);
    meet_rows(on, hot, cold, b->frame, hot->b.frame, cold->b.frame);
}

/* ---- functions near 0 ---- */

static void near_slab(On *on, OnSlab *p, bool near) {
    on_slab_enter(on, p);
    on_near_emit(on, near);
    on_slab_leave(on, p);
}

void on_near_all(On *on, OnBlock *b, const OnReach *reach) {
    Lower *l = on->l;
    Val left = ptx_vote_any(l, on_near_left(on, reach));
    LLVMBasicBlockRef near = block_new(l, "near"), far = block_new(l, "far");
    LLVMBasicBlockRef after = block_new(l, "known");
    Way *hot = way_new(on, b, NULL, NULL), *cold = way_new(on, b, NULL, NULL);
    Map narrow = l->narrow, wide = l->wide;
    Frag *kept = values_keep(on);
    LLVMBuildCondBr(l->b, left, far, near);
    for (int cool = 0; cool < 2; cool++) {
        Way *w = cool ? cold : hot;
        way_enter(on, cool ? far : near);
        for (int p = 0; p < b->slabs; p++) near_slab(on, &w->b.slab[p], !cool);
        way_leave(on, w, after);
    }
    ways_end(on, after, kept);
    l->narrow = narrow, l->wide = wide;
    for (int p = 0; p < b->slabs; p++)
        for (int k = 0; k < on->nnear; k++) meet_value(on, b, p, hot, cold, on->near[k].i->id);
}

/* Does the greatest of a row, for now, stand for that of a function near 0? */
static bool is_base(const On *on, const OnBlock *b, int row) {
    const OnlineRow *x = &on->o.row[row];
    if (on->idle[row] && !b->first) return false;
    return x->c->frame < 0 && on_near(on, x->step->args[1]);
}

/* The functions for all arguments, and the maxima that go with them. */
static void far_functions(On *on, Way *w) {
    OnChains chain = {0};
    Val all[ONLINE_ROWS][ROWS_HELD];
    OnBlock far = w->b;
    far.bases = false;
    for (int p = 0; p < far.slabs; p++) {
        near_slab(on, &w->b.slab[p], false);
        on_rows_fold(on, &far, &w->b.slab[p], false, chain);
    }
    on_rows_join(on, false, chain, all);
    for (int k = 0; k < on->o.nrows; k++)
        if (is_base(on, &far, k)) memcpy(w->now[k], all[k], sizeof all[k]);
}

/* Conditions are short: they are made again, not kept for other code. */
static void conditions_anew(On *on, OnBlock *b) {
    for (int r = 0; r < on->held && b->masked; r++)
        for (int w = 0; w < ON_BITS; w++)
            if (b->in[r][w]) b->in[r][w] = ptx_opaque(on->l, b->in[r][w]);
}

static void one_way(On *on, Way *w, bool near) {
    OnChains chain = {0};
    OnBlock *b = &w->b;
    conditions_anew(on, b);
    if (!near) far_functions(on, w);
    for (int p = 0; p < b->slabs && near && !on->closed; p++) near_slab(on, &b->slab[p], true);
    if (b->first || !on->lags)
        on_choose_frames(on, b, &w->s, w->now);
    else if (!near)
        move_frames(on, b, &w->s, w->now);
    for (int p = 0; p < b->slabs; p++) {
        on->near_now = near;
        on_framed(on, b, &b->slab[p]);
        on->near_now = false;
        on_rows_fold(on, b, &b->slab[p], true, chain);
    }
    on_rows_join(on, true, chain, w->part);
    on_make_factors(on, b, &w->s);
}

void on_near_ways(On *on, OnBlock *b, OnState *s, const OnReach *reach, Val (*now)[ROWS_HELD],
                  Val (*part)[ROWS_HELD]) {
    Lower *l = on->l;
    Val left = on_near_left(on, reach);
    for (int k = 0; k < on->o.nrows; k++)
        for (int r = 0; r < on->held && is_base(on, b, k); r++)
            now[k][r] = on_near_row(on, k, now[k][r]);
    if (on->lags && !b->first) {
        on_choose_frames(on, b, s, now);
        left = LLVMBuildOr(l->b, left, must_move(on, b, s, now), "");
    }
    left = ptx_vote_any(l, left);
    LLVMBasicBlockRef near = block_new(l, "near"), far = block_new(l, "far");
    LLVMBasicBlockRef after = block_new(l, "known");
    Way *hot = way_new(on, b, s, now), *cold = way_new(on, b, s, now);
    Map narrow = l->narrow, wide = l->wide;
    Frag *kept = values_keep(on);
    LLVMBuildCondBr(l->b, left, far, near);
    way_enter(on, near);
    one_way(on, hot, true);
    way_leave(on, hot, after);
    way_enter(on, far);
    one_way(on, cold, false);
    way_leave(on, cold, after);
    ways_end(on, after, kept);
    l->narrow = narrow, l->wide = wide;
    meet_factors(on, hot, cold, s);
    meet_rows(on, hot, cold, b->frame, hot->b.frame, cold->b.frame);
    meet_rows(on, hot, cold, s->row, hot->s.row, cold->s.row);
    meet_rows(on, hot, cold, now, hot->now, cold->now);
    meet_rows(on, hot, cold, part, hot->part, cold->part);
    conditions_anew(on, b);
}
