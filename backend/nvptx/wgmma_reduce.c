/* wgmma_reduce.c - reductions of what was computed after the loop, of a block of rows or columns at
 * a time; here of columns.
 *
 * A thread joins the two elements that it holds of every 8 columns of a row, and such pairs one
 * after the other. At the end of a block the four threads that have a row of it join what they
 * have, by two butterflies, so that all hold the same bits; what follows is done by all, and stored
 * by the first. The order is the same in all schedules. Elements beyond the end count as the
 * identity.
 */
#include "backend/nvptx/wgmma_reduce_int.h"

const TCarry *reduce_carry(const Wg *w, int c) {
    return &reduce_loop(w)->carries.v[c];
}

int reduce_step_carry(const Wg *w, const TInst *step) {
    int c = 0;
    while (reduce_carry(w, c)->id != step->args[0]) c++;
    return c;
}

static int carries(const Wg *w) {
    return reduce_loop(w) ? reduce_loop(w)->carries.n : 0;
}

/* ---- before all ------------------------------------------------------------------------------ */

/* What follows the blocks does not depend on what they reduce. */
static void settle_deps(Wg *w) {
    Lower *l = w->l;
    const TBlock *b = &l->t->body;
    AxisSet reduced = 0;
    if (reduces_cols(w)) reduced |= axis_bit(w->m.cols);
    if (reduces_rows(w)) reduced |= axis_bit(w->m.rows);
    for (int c = 0; c < carries(w); c++) l->deps[reduce_carry(w, c)->id] &= ~reduced;
    for (int k = w->m.nest.rest + 1; k < b->inst.n; k++) {
        const TInst *i = b->inst.v[k];
        AxisSet d = 0;
        for (int a = 0; a < i->nargs; a++) d |= l->deps[i->args[a]];
        for (int a = 0; a < i->nix; a++) d |= tile_ix_deps(l->deps, i->ix[a]);
        if (i->id >= 0) l->deps[i->id] = d;
    }
}

static void mark_ix(const Ix *x, bool *needed) {
    if (x->kind == IX_VALUE) needed[x->num] = true;
    for (int i = 0; i < x->n && x->has_value; i++) mark_ix(x->arg[i], needed);
}

static void mark(const TInst *i, bool *needed) {
    for (int a = 0; a < i->nargs; a++) needed[i->args[a]] = true;
    for (int d = 0; d < i->nix; d++) mark_ix(i->ix[d], needed);
}

static bool *find_again(Wg *w) {
    Lower *l = w->l;
    const TBlock *b = &l->t->body;
    bool *needed = ARENA_ARRAY(l->arena, bool, l->t->nvalues + 1);
    bool *again = ARENA_ARRAY(l->arena, bool, w->m.nest.before + 1);
    for (int k = w->m.nest.rest + 1; k < b->inst.n; k++) mark(b->inst.v[k], needed);
    for (int k = w->m.nest.before - 1; k >= 0; k--) {
        const TInst *i = b->inst.v[k];
        again[k] = i->id >= 0 && needed[i->id] && (l->deps[i->id] >> w->m.cols & 1);
        if (again[k]) mark(i, needed);
    }
    return again;
}

void wg_reduce_init(Wg *w) {
    Lower *l = w->l;
    if (!reduce_loop(w)) return;
    settle_deps(w);
    WgReduce *r = w->reduce = ARENA_NEW(l->arena, WgReduce);
    r->again = find_again(w);
    reduce_frames_find(w);
    r->slots = !reduces_cols(w)  ? 0
               : reduces_rows(w) ? w->t.group_rows / mma_block_rows(&w->m, &w->t)
                                 : reduce_rows_held(w);
    r->slot = ARENA_ARRAY(l->arena, Val *, carries(w));
    for (int c = 0; c < carries(w); c++) {
        Ty type = reg_type(l, reduce_carry(w, c)->type);
        r->slot[c] = ARENA_ARRAY(l->arena, Val, r->slots + 1);
        for (int k = 0; k < r->slots; k++) r->slot[c][k] = LLVMBuildAlloca(l->frame, type, "part");
    }
}

static void reset(Wg *w, int c) {
    Lower *l = w->l;
    const TCarry *y = reduce_carry(w, c);
    for (int k = 0; k < w->reduce->slots; k++)
        LLVMBuildStore(l->b, identity(l, y->red, y->type), w->reduce->slot[c][k]);
}

/* Of a tile that is not the first of its block, what was carried goes on. */
static void reset_first(Wg *w, int c) {
    Lower *l = w->l;
    const TCarry *y = reduce_carry(w, c);
    Val first = LLVMBuildICmp(l->b, LLVMIntEQ, w->walk, i32c(l, 0), "");
    for (int k = 0; k < w->reduce->slots; k++) {
        Val slot = w->reduce->slot[c][k], v = LLVMBuildLoad2(l->b, reg_type(l, y->type), slot, "");
        v = LLVMBuildSelect(l->b, first, identity(l, y->red, y->type), v, "");
        LLVMBuildStore(l->b, v, slot);
    }
}

void wg_reduce_begin(Wg *w) {
    for (int c = 0; c < carries(w); c++)
        if (w->walk)
            reset_first(w, c);
        else
            reset(w, c);
}

void wg_reduce_begin_part(Wg *w) {
    if (carries(w) && !reduces_cols(w)) reduce_rows_begin_part(w);
}

/* ---- elements -------------------------------------------------------------------------------- */

Val reduce_join(Wg *w, const TCarry *y, Val a, Val b) {
    return op_emit_exact(w->l, reduce_combine(y->red), y->type, a, b);
}

static Val or_identity(Wg *w, const TCarry *y, Val v, Val in) {
    return in ? LLVMBuildSelect(w->l->b, in, v, identity(w->l, y->red, y->type), "") : v;
}

Val *reduce_elements(Wg *w, const TInst *step) {
    Lower *l = w->l;
    const AxisState *rows = &l->axis[w->m.rows], *cols = &l->axis[w->m.cols];
    const TCarry *y = reduce_carry(w, reduce_step_carry(w, step));
    Frag elem = value_of(l, step->args[1]);
    Frag all = frag_new(l, axis_bit(w->m.rows) | axis_bit(w->m.cols));
    Val *out = ARENA_ARRAY(l->arena, Val, all.n);
    for (int k = 0; k < all.n; k++) {
        int r = frag_coord(l, all.mask, k, w->m.rows), at = frag_coord(l, all.mask, k, w->m.cols);
        Val v = elem.v[frag_at(l, all.mask, k, elem.mask)];
        v = type_widen(l, l->type[step->args[1]], y->type, v);
        if (reduces_cols(w)) v = or_identity(w, y, v, cols->in[at]);
        if (reduces_rows(w)) v = or_identity(w, y, v, rows->in[r]);
        out[r * cols->count + at] = v;
    }
    return out;
}

static void take_cols(Wg *w, const TInst *step) {
    Lower *l = w->l;
    int c = reduce_step_carry(w, step), cols = l->axis[w->m.cols].count;
    const TCarry *y = reduce_carry(w, c);
    const Val *v = reduce_elements(w, step);
    for (int r = 0; r < reduce_rows_held(w); r++) {
        Val slot = w->reduce->slot[c][r],
            sum = LLVMBuildLoad2(l->b, reg_type(l, y->type), slot, "");
        for (int at = 0; at < cols; at += 2, v += 2)
            sum = reduce_join(w, y, sum, reduce_join(w, y, v[0], v[1]));
        LLVMBuildStore(l->b, sum, slot);
    }
}

static void take(Wg *w, int from, bool framed) {
    for (int k = 0; k < reduce_loop(w)->body.inst.n; k++) {
        const TInst *step = reduce_loop(w)->body.inst.v[k];
        if ((reduce_carry(w, reduce_step_carry(w, step))->frame >= 0) != framed) continue;
        if (!reduces_cols(w))
            reduce_rows_take(w, step, from);
        else if (reduces_rows(w))
            reduce_both_take(w, step);
        else
            take_cols(w, step);
    }
}

void wg_reduce_take(Wg *w, int from, bool framed) {
    if (!carries(w)) return;
    Val **held = !framed && wg_reduce_frames(w) ? reduce_frames_held(w) : NULL;
    take(w, from, framed);
    if (held) reduce_frames_move(w, held);
}

bool wg_reduce_frames(const Wg *w) {
    return w->reduce && w->reduce->framed;
}

bool wg_reduce_framed(const Wg *w, int k) {
    return wg_reduce_frames(w) && w->reduce->framed[k];
}

/* ---- the end of a block ---------------------------------------------------------------------- */

void reduce_join_lanes(Wg *w, int c) {
    Lower *l = w->l;
    const TCarry *y = reduce_carry(w, c);
    Frag f = frag_new(l, frag_live(l, axis_bit(w->m.rows)));
    for (int r = 0; r < reduce_rows_held(w); r++) {
        Val v = LLVMBuildLoad2(l->b, reg_type(l, y->type), w->reduce->slot[c][r], "");
        for (int d = 1; d < 4; d *= 2) v = reduce_join(w, y, v, ptx_shfl_xor(l, v, d));
        f.v[r] = v;
    }
    l->value[y->id] = f;
}

Val reduce_open_number(Wg *w, const MmaBlock *b, Val at) {
    Lower *l = w->l;
    wg_open_one(w, b->number, at);
    Val n = uniform_ix(l, l->t->axes.v[b->number].extent);
    return LLVMBuildICmp(l->b, LLVMIntSLT, at, n, "");
}

void reduce_emit_rest(Wg *w) {
    const TBlock *b = &w->l->t->body;
    for (int k = w->m.nest.rest + 1; k < b->inst.n; k++) emit_inst(w->l, b->inst.v[k]);
}

/* The number of the block that ends before `end`; one that is walked may end before it is full. */
static Val number_of(Wg *w, const MmaBlock *b, Val end) {
    Lower *l = w->l;
    Val size = LLVMConstInt(l->i64, (unsigned)b->size, 0), one = LLVMConstInt(l->i64, 1, 0);
    if (w->walk) return LLVMBuildUDiv(l->b, LLVMBuildSub(l->b, end, one, ""), size, "");
    return LLVMBuildSub(l->b, LLVMBuildUDiv(l->b, end, size, ""), one, "");
}

/* What follows blocks of columns, the last of which ends before `end`; of each row the first thread
 * touches memory. There may be no such block. */
static void rest_of_cols(Wg *w, Val end) {
    Lower *l = w->l;
    const MmaBlock *b = &w->m.col_block;
    AxisState all = l->axis[w->m.rows], *rows = &l->axis[w->m.rows];
    Val mine = LLVMBuildICmp(l->b, LLVMIntEQ, w->col, i32c(l, 0), "");
    if (b->number >= 0) {
        mine = LLVMBuildAnd(l->b, mine, reduce_open_number(w, b, number_of(w, b, end)), "");
    }
    rows->in = ARENA_ARRAY(l->arena, Val, all.count);
    for (int r = 0; r < all.count; r++)
        rows->in[r] = all.in[r] ? LLVMBuildAnd(l->b, all.in[r], mine, "") : mine;
    reduce_emit_rest(w);
    l->axis[w->m.rows] = all;
    if (b->number >= 0) l->axis[b->number].open = false;
}

static void end_block(Wg *w, Val row, Val end) {
    if (reduces_rows(w)) {
        reduce_both_block(w, row, end);
    } else {
        if (wg_reduce_frames(w)) reduce_frames_join(w);
        for (int c = 0; c < carries(w) && !wg_reduce_frames(w); c++) reduce_join_lanes(w, c);
        rest_of_cols(w, end);
    }
    for (int c = 0; c < carries(w); c++) reset(w, c);
}

/* Stored bits that were made in a branch are not there after it. */
static void forget_bits(Lower *l) {
    l->narrow = (Map){.arena = l->arena};
    l->wide = (Map){.arena = l->arena};
}

void wg_reduce_branch(Wg *w, Val cond, void (*then)(Wg *w, void *ctx), void *ctx) {
    Lower *l = w->l;
    LLVMBasicBlockRef block = block_new(l, "block"), after = block_new(l, "blocks");
    LLVMBuildCondBr(l->b, cond, block, after);
    block_enter(l, block);
    then(w, ctx);
    forget_bits(l);
    LLVMBuildBr(l->b, after);
    block_enter(l, after);
}

typedef struct End {
    Val row, col;
} End;

static void end_block_of(Wg *w, void *ctx) {
    const End *e = ctx;
    end_block(w, e->row, e->col);
}

void wg_reduce_part(Wg *w, Val row, Val col, int cols, Val done) {
    Lower *l = w->l;
    const MmaBlock *b = &w->m.col_block;
    if (!carries(w)) return;
    if (!reduces_cols(w)) {
        reduce_rows_part(w, row, col, cols);
        return;
    }
    Val end = LLVMBuildAdd(l->b, col, LLVMConstInt(l->i64, (unsigned)cols, 0), "");
    bool ends = b->number < 0 || w->walk; /* with a tile */
    if (!ends) done = LLVMBuildURem(l->b, done, i32c(l, b->size), "");
    Val is_end = LLVMBuildICmp(l->b, LLVMIntEQ, done, i32c(l, ends ? w->t.n : 0), "");
    bool never = LLVMIsConstant(is_end) && !LLVMConstIntGetZExtValue(is_end);
    if (w->walk && !never) is_end = LLVMBuildAnd(l->b, w->walked, is_end, "");
    if (!LLVMIsConstant(is_end))
        wg_reduce_branch(w, is_end, end_block_of, &(End){row, end});
    else if (LLVMConstIntGetZExtValue(is_end))
        end_block(w, row, end);
}
