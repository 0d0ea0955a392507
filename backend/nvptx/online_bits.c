/* online_bits.c - conditions on data along j, made for a block by the lanes of a warp together,
 * each for other columns, and told to all as bits (votes), which go where those of the bounds are
 * (online_mask.c): a thread need not read and compare what belongs to each of its elements.
 *
 *     keep[b, j]               a vote for each 32 columns
 *     id[b, i] == id[b, j]     the same for each number that the warp's rows have, one after the
 *                              other; most often all have the same
 *
 * Column 8 (L / 2) + 2 q + L % 2 is lane L's in vote q: so vote q has the bits of the threads with
 * quarter q of the columns, in their order.
 */
#include "backend/nvptx/online_int.h"

#include <string.h>

enum { LANES = 32, QUARTERS = 4 };

/* ---- which ---- */

static bool along(const On *on, int id, int axis) {
    return on->l->deps[id] >> axis & 1;
}

/* Of two sides, that of the rows: the other is along j. */
static int side_of_rows(const On *on, const TInst *i) {
    return i->args[along(on, i->args[0], on->o.j) ? 1 : 0];
}

static bool is_told(const On *on, int id) {
    const TInst *i = on->l->def[id];
    OnlineSays says = online_says(&on->o, id);
    if (says == SAYS_BOOL) return along(on, id, on->o.j);
    if (says != SAYS_SIDES || (i->op != OP_eq && i->op != OP_ne)) return false;
    return along(on, i->args[0], on->o.j) != along(on, i->args[1], on->o.j);
}

void on_bits_facts(On *on) {
    Lower *l = on->l;
    int n = l->t->nvalues + 1;
    on->told = ARENA_ARRAY(l->arena, bool, n);
    on->told_only = ARENA_ARRAY(l->arena, bool, n);
    for (int k = 0; k < on->o.body.n; k++) {
        const OnlineInst *x = &on->o.body.v[k];
        for (int g = 0; x->i->kind == T_STEP && g < x->guards.n; g++) {
            int id = x->guards.v[g];
            if (on->told[id] || !is_told(on, id) || !online_in_all_steps(&on->o, id)) continue;
            on->told[id] = true;
            vec_push(l->arena, &on->votes, id);
        }
    }
    for (int k = 0; k < n; k++) on->told_only[k] = on->votes.n > 0;
    for (int k = 0; k < on->o.body.n; k++) {
        const OnlineInst *x = &on->o.body.v[k];
        if (x->i->kind != T_STEP) continue;
        for (int a = 0; a < x->i->nargs; a++) on_keep(on, on->told_only, x->i->args[a]);
        for (int g = 0; g < x->guards.n; g++)
            if (!on->told[x->guards.v[g]]) on_keep(on, on->told_only, x->guards.v[g]);
    }
}

/* ---- votes ---- */

/* Opens j: of lane L, its columns of all votes. */
static void open_lanes(On *on, const OnBlock *b) {
    Lower *l = on->l;
    int words = (on->t.j / QUARTERS + LANES - 1) / LANES, n = QUARTERS * words;
    int64_t *step = ARENA_ARRAY(l->arena, int64_t, n);
    AxisState s = {.open = true, .count = n, .raw = true, .step = step};
    s.e = ARENA_ARRAY(l->arena, Val, n);
    s.in = ARENA_ARRAY(l->arena, Val, n);
    Val lane = LLVMBuildAnd(l->b, on->w.tid, i32c(l, LANES - 1), "");
    Val from = LLVMBuildSub(l->b, b->at, on->w.col, ""), end = i32c(l, on->t.j);
    Val left = uniform_ix(l, l->t->axes.v[on->o.j].extent);
    left = LLVMBuildSub(l->b, left, LLVMBuildZExt(l->b, from, l->i64, ""), "");
    left = on_clamp32(on, left);
    left = LLVMBuildSelect(l->b, LLVMBuildICmp(l->b, LLVMIntSLT, left, end, ""), left, end, "");
    Val col = LLVMBuildShl(l->b, LLVMBuildLShr(l->b, lane, i32c(l, 1), ""), i32c(l, 3), "");
    col = LLVMBuildOr(l->b, col, LLVMBuildAnd(l->b, lane, i32c(l, 1), ""), "");
    Val first = LLVMBuildZExt(l->b, LLVMBuildAdd(l->b, from, col, ""), l->i64, "");
    for (int k = 0; k < n; k++) {
        step[k] = k / QUARTERS * LANES * QUARTERS + k % QUARTERS * 2;
        s.e[k] = LLVMBuildAdd(l->b, first, LLVMConstInt(l->i64, (uint64_t)step[k], 0), "");
        Val at = LLVMBuildAdd(l->b, col, i32c(l, (int)step[k]), "");
        s.in[k] = LLVMBuildICmp(l->b, LLVMIntSLT, at, left, "");
    }
    l->axis[on->o.j] = s;
}

/* Of the open columns, the bits of the thread's elements, in words. */
static void vote(On *on, const Frag *f, Val *word) {
    Lower *l = on->l;
    Val quarter[2];
    for (int k = 0; k < 2; k++) {
        Val bit = LLVMBuildAnd(l->b, on->w.tid, i32c(l, k + 1), "");
        quarter[k] = LLVMBuildICmp(l->b, LLVMIntNE, bit, i32c(l, 0), "");
    }
    for (int w = 0; w < l->axis[on->o.j].count / QUARTERS; w++) {
        Val all[QUARTERS];
        for (int q = 0; q < QUARTERS; q++)
            all[q] = ptx_vote_ballot(l, f->v[f->n > 1 ? w * QUARTERS + q : 0]);
        Val low = LLVMBuildSelect(l->b, quarter[0], all[1], all[0], "");
        Val high = LLVMBuildSelect(l->b, quarter[0], all[3], all[2], "");
        word[w] = LLVMBuildSelect(l->b, quarter[1], high, low, "");
    }
}

static void narrow(On *on, OnBlock *b, int row, const Val *word) {
    Lower *l = on->l;
    for (int w = 0; w < l->axis[on->o.j].count / QUARTERS; w++)
        b->in[row][w] = LLVMBuildAnd(l->b, b->in[row][w], word[w], "");
}

/* ---- a condition ---- */

static Val from_lane(Lower *l, Val v, Val lane) {
    Ty type = LLVMTypeOf(v);
    if (type != l->i64) {
        Val wide = type == l->i32 ? v : LLVMBuildZExt(l->b, v, l->i32, "");
        wide = ptx_shfl_from(l, wide, lane);
        return type == l->i32 ? wide : LLVMBuildTrunc(l->b, wide, type, "");
    }
    Val half = LLVMConstInt(l->i64, 32, 0);
    Val low = ptx_shfl_from(l, LLVMBuildTrunc(l->b, v, l->i32, ""), lane);
    Val high = LLVMBuildTrunc(l->b, LLVMBuildLShr(l->b, v, half, ""), l->i32, "");
    high = LLVMBuildZExt(l->b, ptx_shfl_from(l, high, lane), l->i64, "");
    high = LLVMBuildShl(l->b, high, half, "");
    return LLVMBuildOr(l->b, high, LLVMBuildZExt(l->b, low, l->i64, ""), "");
}

static Val any_of(Lower *l, const Val *v, int n) {
    Val any = v[0];
    for (int k = 1; k < n; k++) any = LLVMBuildOr(l->b, any, v[k], "");
    return any;
}

/* The condition where the side of the rows is v, everywhere. */
static void vote_of(On *on, const TInst *i, Val v, Val *word) {
    Lower *l = on->l;
    Map narrow_map = l->narrow, wide = l->wide, reals = l->reals;
    on_forget(on);
    l->value[side_of_rows(on, i)] = frag_one(l, v);
    l->value[i->id].n = 0;
    emit_inst(l, i);
    vote(on, &l->value[i->id], word);
    l->narrow = narrow_map, l->wide = wide, l->reals = reals;
}

/* What of a warp's rows is not done yet: the first row's number, who has it, until all are done. */
static void by_numbers(On *on, OnBlock *b, const TInst *i, const Frag *side) {
    Lower *l = on->l;
    int n = on->held, words = l->axis[on->o.j].count / QUARTERS;
    LLVMBasicBlockRef before = LLVMGetInsertBlock(l->b), body = block_new(l, "number");
    LLVMBasicBlockRef exit = block_new(l, "told");
    Val left[ROWS_HELD], got[ROWS_HELD][ON_BITS], still[ROWS_HELD] = {0};
    LLVMBuildBr(l->b, body);
    block_enter(l, body);
    for (int r = 0; r < n; r++) {
        left[r] = wg_phi(l, l->i1, LLVMConstInt(l->i1, 1, 0), before);
        for (int w = 0; w < words; w++) got[r][w] = wg_phi(l, l->i32, i32c(l, 0), before);
    }
    Val v = side->v[n - 1], word[ON_BITS];
    for (int r = n - 2; r >= 0; r--) v = LLVMBuildSelect(l->b, left[r], side->v[r], v, "");
    v = from_lane(l, v, ptx_first_lane(l, ptx_vote_ballot(l, any_of(l, left, n))));
    vote_of(on, i, v, word);
    Val now[ROWS_HELD][ON_BITS];
    for (int r = 0; r < n; r++) {
        Val is = LLVMBuildICmp(l->b, LLVMIntEQ, side->v[r], v, "");
        for (int w = 0; w < words; w++)
            now[r][w] = LLVMBuildSelect(l->b, is, word[w], got[r][w], "");
        still[r] = LLVMBuildAnd(l->b, left[r], LLVMBuildNot(l->b, is, ""), "");
        wg_phi_next(l, left[r], still[r]);
        for (int w = 0; w < words; w++) wg_phi_next(l, got[r][w], now[r][w]);
    }
    LLVMBuildCondBr(l->b, ptx_vote_any(l, any_of(l, still, n)), body, exit);
    block_enter(l, exit);
    for (int r = 0; r < n; r++) narrow(on, b, r, now[r]);
}

static void condition(On *on, OnBlock *b, const TInst *i) {
    Lower *l = on->l;
    Val word[ON_BITS];
    for (int k = 0; k < i->nargs; k++) on_make(on, i->args[k]);
    Frag side = {0};
    if (online_says(&on->o, i->id) == SAYS_SIDES) side = value_of(l, side_of_rows(on, i));
    if (side.n > 1) {
        by_numbers(on, b, i, &side);
        return;
    }
    on_make(on, i->id);
    vote(on, &l->value[i->id], word);
    for (int r = 0; r < on->held; r++) narrow(on, b, r, word);
}

/* ---- a block ---- */

bool on_bits_say(const On *on, const OnBlock *b, const OnlineInst *x) {
    bool all = b->masked || b->told;
    for (int g = 0; g < x->guards.n; g++) {
        bool dropped = b->held && on_pick_drops(on, x->guards.v[g]);
        all &= dropped || on->told[x->guards.v[g]];
    }
    return all;
}

Val on_bits_word(On *on, const OnBlock *b, int row, int word) {
    int bits = on->t.j / QUARTERS - word * LANES;
    if (bits >= LANES) return b->in[row][word];
    return LLVMBuildAnd(on->l->b, b->in[row][word], i32c(on->l, (1u << bits) - 1), "");
}

void on_bits_open(On *on, OnBlock *b) {
    Lower *l = on->l;
    size_t bytes = sizeof *l->value * (size_t)(l->t->nvalues + 1);
    Frag *was = ARENA_ARRAY(l->arena, Frag, l->t->nvalues + 1);
    AxisState j = l->axis[on->o.j];
    memcpy(was, l->value, bytes);
    for (int k = 0; k < on->votes.n; k++) {
        if (b->held && on_pick_drops(on, on->votes.v[k])) continue;
        if (!b->told) open_lanes(on, b);
        for (int r = 0; r < on->held && !b->told && !b->masked; r++)
            for (int w = 0; w < ON_BITS; w++) b->in[r][w] = i32c(l, -1);
        b->told = true;
        condition(on, b, l->def[on->votes.v[k]]);
    }
    memcpy(l->value, was, bytes);
    l->axis[on->o.j] = j;
}
