/* wgmma_reduce.c - reductions of what was computed after the loop, of a block of columns at a time.
 *
 * A thread joins the two elements that it holds of every 8 columns of a row, and such pairs one
 * after the other. At the end of a block the four threads that have a row of it join what they
 * have, by two butterflies, so that all hold the same bits; what follows is done by all, and stored
 * by the first. The order is the same in all schedules. Elements beyond the end count as the
 * identity.
 */
#include "backend/nvptx/wgmma_int.h"

typedef struct WgReduce {
    Val **slot; /* by carry and row held: pointer to what is joined so far */
} WgReduce;

static const TInst *blocks(const Wg *w) {
    return w->m.nest.blocks;
}

static int carry_at(const Wg *w, int id) {
    int c = 0;
    while (blocks(w)->carries.v[c].id != id) c++;
    return c;
}

/* What follows the blocks does not depend on what they reduce. */
static void settle_deps(Wg *w) {
    Lower *l = w->l;
    const TBlock *b = &l->t->body;
    for (int c = 0; c < blocks(w)->carries.n; c++)
        l->deps[blocks(w)->carries.v[c].id] &= ~axis_bit(w->m.col_block.axis);
    for (int k = w->m.nest.rest + 1; k < b->inst.n; k++) {
        const TInst *i = b->inst.v[k];
        AxisSet d = 0;
        for (int a = 0; a < i->nargs; a++) d |= l->deps[i->args[a]];
        for (int a = 0; a < i->nix; a++) d |= tile_ix_deps(l->deps, i->ix[a]);
        if (i->id >= 0) l->deps[i->id] = d;
    }
}

static int rows_held(const Wg *w) {
    return w->t.group_rows / 32;
}

void wg_reduce_init(Wg *w) {
    Lower *l = w->l;
    if (!blocks(w)) return;
    settle_deps(w);
    int n = blocks(w)->carries.n;
    w->reduce = ARENA_NEW(l->arena, WgReduce);
    w->reduce->slot = ARENA_ARRAY(l->arena, Val *, n);
    for (int c = 0; c < n; c++) {
        Val *slot = w->reduce->slot[c] = ARENA_ARRAY(l->arena, Val, rows_held(w));
        Ty type = reg_type(l, blocks(w)->carries.v[c].type);
        for (int r = 0; r < rows_held(w); r++) slot[r] = LLVMBuildAlloca(l->frame, type, "part");
    }
}

static void reset(Wg *w, int c) {
    Lower *l = w->l;
    const TCarry *y = &blocks(w)->carries.v[c];
    for (int r = 0; r < rows_held(w); r++)
        LLVMBuildStore(l->b, identity(l, y->red, y->type), w->reduce->slot[c][r]);
}

void wg_reduce_begin(Wg *w) {
    for (int c = 0; blocks(w) && c < blocks(w)->carries.n; c++) reset(w, c);
}

/* ---- elements -------------------------------------------------------------------------------- */

static Val join(Wg *w, const TCarry *y, Val a, Val b) {
    return op_emit_exact(w->l, reduce_combine(y->red), y->type, a, b);
}

/* The identity where the element is beyond the end. */
static Val element(Wg *w, const TInst *step, const TCarry *y, Val v, int col) {
    Lower *l = w->l;
    Val in = l->axis[w->m.cols].in[col];
    v = type_widen(l, l->type[step->args[1]], y->type, v);
    return in ? LLVMBuildSelect(l->b, in, v, identity(l, y->red, y->type), "") : v;
}

static void take(Wg *w, const TInst *step) {
    Lower *l = w->l;
    int c = carry_at(w, step->args[0]), cols = l->axis[w->m.cols].count;
    const TCarry *y = &blocks(w)->carries.v[c];
    Frag elem = value_of(l, step->args[1]);
    Frag all = frag_new(l, axis_bit(w->m.rows) | axis_bit(w->m.cols));
    for (int k = 0; k < all.n; k++) { /* as rows x columns */
        int r = frag_coord(l, all.mask, k, w->m.rows), at = frag_coord(l, all.mask, k, w->m.cols);
        Val v = elem.v[frag_at(l, all.mask, k, elem.mask)];
        all.v[r * cols + at] = element(w, step, y, v, at);
    }
    Ty type = reg_type(l, y->type);
    for (int r = 0; r < rows_held(w); r++) {
        Val slot = w->reduce->slot[c][r], sum = LLVMBuildLoad2(l->b, type, slot, "");
        for (int at = 0; at < cols; at += 2) {
            const Val *pair = &all.v[r * cols + at];
            sum = join(w, y, sum, join(w, y, pair[0], pair[1]));
        }
        LLVMBuildStore(l->b, sum, slot);
    }
}

void wg_reduce_take(Wg *w) {
    for (int k = 0; blocks(w) && k < blocks(w)->body.inst.n; k++)
        take(w, blocks(w)->body.inst.v[k]);
}

/* ---- the end of a block ---------------------------------------------------------------------- */

/* Of the four threads of a row. */
static void join_lanes(Wg *w, int c) {
    Lower *l = w->l;
    const TCarry *y = &blocks(w)->carries.v[c];
    Frag f = frag_new(l, frag_live(l, axis_bit(w->m.rows)));
    for (int r = 0; r < rows_held(w); r++) {
        Val v = LLVMBuildLoad2(l->b, reg_type(l, y->type), w->reduce->slot[c][r], "");
        for (int d = 1; d < 4; d *= 2) v = join(w, y, v, ptx_shfl_xor(l, v, d));
        f.v[r] = v;
    }
    l->value[y->id] = f;
}

/* The block that ends before column `end`, of which there may be fewer. */
static void open_number(Wg *w, Val end) {
    Lower *l = w->l;
    const MmaBlock *b = &w->m.col_block;
    if (b->number < 0) return;
    Val size = LLVMConstInt(l->i64, (unsigned)b->size, 0), one = LLVMConstInt(l->i64, 1, 0);
    Val at = LLVMBuildSub(l->b, LLVMBuildUDiv(l->b, end, size, ""), one, "");
    wg_open_one(w, b->number, at);
    Val n = uniform_ix(l, l->t->axes.v[b->number].extent);
    l->axis[b->number].in[0] = LLVMBuildICmp(l->b, LLVMIntSLT, at, n, "");
    l->axis[b->number].raw = true;
}

/* What follows the blocks; of each row the first thread touches memory. */
static void emit_rest(Wg *w) {
    Lower *l = w->l;
    AxisState all = l->axis[w->m.rows], *rows = &l->axis[w->m.rows];
    Val first = LLVMBuildICmp(l->b, LLVMIntEQ, w->col, i32c(l, 0), "");
    rows->in = ARENA_ARRAY(l->arena, Val, all.count);
    for (int r = 0; r < all.count; r++)
        rows->in[r] = all.in[r] ? LLVMBuildAnd(l->b, all.in[r], first, "") : first;
    for (int k = w->m.nest.rest + 1; k < l->t->body.inst.n; k++) emit_inst(l, l->t->body.inst.v[k]);
    l->axis[w->m.rows] = all;
}

static void finish(Wg *w, Val end) {
    Lower *l = w->l;
    for (int c = 0; c < blocks(w)->carries.n; c++) join_lanes(w, c);
    open_number(w, end);
    emit_rest(w);
    for (int c = 0; c < blocks(w)->carries.n; c++) reset(w, c);
    if (w->m.col_block.number >= 0) l->axis[w->m.col_block.number].open = false;
}

void wg_reduce_part(Wg *w, Val done, Val end) {
    Lower *l = w->l;
    const MmaBlock *b = &w->m.col_block;
    if (!blocks(w)) return;
    if (b->number >= 0) done = LLVMBuildURem(l->b, done, i32c(l, b->size), "");
    Val is_end = LLVMBuildICmp(l->b, LLVMIntEQ, done, i32c(l, b->number < 0 ? w->t.n : 0), "");
    if (LLVMIsConstant(is_end)) {
        if (LLVMConstIntGetZExtValue(is_end)) finish(w, end);
        return;
    }
    LLVMBasicBlockRef block = block_new(l, "block"), after = block_new(l, "blocks");
    LLVMBuildCondBr(l->b, is_end, block, after);
    block_enter(l, block);
    finish(w, end);
    LLVMBuildBr(l->b, after);
    block_enter(l, after);
}
