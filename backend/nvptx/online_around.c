/* online_around.c - what stands around the loop of a tile: before it, and behind it over rows and
 * over columns.
 */
#include "backend/nvptx/online_int.h"

static bool over_cols(const On *on, const TInst *i) {
    return on->o.cols >= 0 && i->id >= 0 && (on->l->deps[i->id] >> on->o.cols & 1);
}

static bool stores_rows(const On *on, const TInst *i) {
    for (int d = 0; d < i->nix; d++)
        if (on->o.cols >= 0 && ix_uses_axis(i->ix[d], on->o.cols)) return false;
    return i->kind == T_STORE;
}

/* What stands at the top level in [from, to) and is the same along columns; stores, if they are
 * asked for, by one thread of a row. */
static void emit_rows(On *on, int from, int to, bool store) {
    Lower *l = on->l;
    const TBlock *b = &l->t->body;
    bool stores = false;
    for (int k = from; k < to; k++) {
        const TInst *i = b->inst.v[k];
        stores |= store && stores_rows(on, i);
        if (i->kind != T_STORE && i->kind != T_LOOP && !over_cols(on, i)) emit_inst(l, i);
    }
    if (!stores) return;
    LLVMBasicBlockRef one = block_new(l, "row.stores"), after = block_new(l, "rows.stored");
    Val first = LLVMBuildOr(l->b, on->w.col, on_cols_by(on, 1), "");
    Val is = LLVMBuildICmp(l->b, LLVMIntEQ, first, i32c(l, 0), "");
    LLVMBuildCondBr(l->b, is, one, after);
    block_enter(l, one);
    Map narrow = l->narrow, wide = l->wide;
    l->narrow = l->wide = (Map){.arena = l->arena};
    for (int k = from; k < to; k++) {
        const TInst *i = b->inst.v[k];
        if (stores_rows(on, i)) emit_inst(l, i);
    }
    LLVMBuildBr(l->b, after);
    l->narrow = narrow, l->wide = wide;
    block_enter(l, after);
}

void on_after_rows(On *on, OnState *s, int n) {
    Lower *l = on->l;
    on_rows_finish(on, s, n);
    for (int k = 0; k < on->o.nrows; k++) {
        Frag f = frag_new(l, frag_live(l, axis_bit(on->o.rows)));
        for (int r = 0; r < f.n; r++) f.v[r] = s->row[k][r];
        l->value[on->o.row[k].c->id] = f;
    }
    emit_rows(on, on->o.at + 1, l->t->body.inst.n, true);
}

void on_after_columns(On *on) {
    const TBlock *b = &on->l->t->body;
    for (int k = 0; k < b->inst.n; k++) {
        const TInst *i = b->inst.v[k];
        if (i->kind == T_STORE ? !stores_rows(on, i) : over_cols(on, i)) emit_inst(on->l, i);
    }
}

void on_before(On *on, bool store) {
    Lower *l = on->l;
    emit_rows(on, 0, on->o.at, store);
    Frag lo = frag_ix(l, on->o.loop->lo), hi = frag_ix(l, on->o.loop->hi);
    for (int r = 0; r < on->held; r++) {
        on->lo[r] = on_clamp32(on, lo.v[lo.n > 1 ? r : 0]);
        on->hi[r] = on_clamp32(on, hi.v[hi.n > 1 ? r : 0]);
    }
}
