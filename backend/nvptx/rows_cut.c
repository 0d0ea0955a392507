/* rows_cut.c - few long rows (or columns, or one sum of all): each cut into parts, of which every
 * one is a CTA's.
 *
 * The kernel is launched once a loop with carried values, and once for what follows them all; a
 * parameter says which launch it is. In each, loops that earlier launches did are not done again:
 * what their parts left in scratch memory is joined, by all CTAs in the same order. The loop that
 * is this launch's own is done for the part's elements, and its states left there. In the last
 * launch loops without carried values go over the part's elements, and what is stored once a row is
 * stored by the first part. How many parts there are follows from sizes alone, so the bits do.
 */
#include "backend/nvptx/rows_int.h"
#include "backend/nvptx/merge_int.h"
#include "backend/nvptx/ptx_int.h"

enum { SLOT = 8 }; /* bytes of a scalar in scratch memory */

struct Cut {
    int axis;          /* of the loops */
    int stages, stage; /* launches; the one at hand */
    bool applies;      /* some loop has no carried values */
    const Ix *tiles, *parts;
    Val tile, part; /* i64 */
};

static bool carries(const TInst *i) {
    return i->kind == T_LOOP && i->carries.n;
}

static int64_t block_of(const Lower *l) {
    const AxisMap *m = &l->map[l->cut->axis];
    return (int64_t)m->lanes * m->regs * m->vec;
}

static const Ix *blocks(const Lower *l) {
    IxPool *p = l->t->ix;
    int64_t n = block_of(l);
    return ix_div(p, ix_add(p, l->t->axes.v[l->cut->axis].extent, ix_const(p, n - 1)),
                  ix_const(p, n));
}

const Ix *cut_open(Lower *l, Kernel *k, const Ix *tiles) {
    IxPool *p = l->t->ix;
    const Ix *one = ix_const(p, 1);
    Cut *c = l->cut = ARENA_NEW(l->arena, Cut);
    c->stages = 1;
    for (int n = 0; n < l->t->body.inst.n; n++) {
        const TInst *i = l->t->body.inst.v[n];
        if (i->kind == T_LOOP) c->axis = i->axis;
        c->stages += carries(i);
        c->applies |= i->kind == T_LOOP && !i->carries.n;
    }
    c->tiles = tiles;
    const Ix *most = ix_div(p, ix_const(p, l->s->split), ix_max(p, tiles, one));
    c->parts = ix_max(p, ix_min(p, most, blocks(l)), one);
    k->launches = c->stages;
    return ix_mul(p, tiles, c->parts);
}

Val cut_tile(Lower *l, Val tile) {
    Cut *c = l->cut;
    Val parts = uniform_ix(l, c->parts);
    c->tile = LLVMBuildUDiv(l->b, tile, parts, "");
    c->part = LLVMBuildSub(l->b, tile, LLVMBuildMul(l->b, c->tile, parts, ""), "");
    return c->tile;
}

/* ---- parts in memory ---- */

/* Scalars of a loop's states that a thread has; threads beside the loop's lanes. */
static int others(const Lower *l) {
    return l->s->threads / l->map[l->cut->axis].lanes;
}

/* The states of loop `loop` of a part: scalars of all threads beside the lanes side by side. */
static Val place_of(Lower *l, const TInst *loop, Val part) {
    const Cut *c = l->cut;
    LLVMBuilderRef b = l->b;
    int64_t before = 0, each = (int64_t)SLOT * others(l);
    for (int n = 0; l->t->body.inst.v[n] != loop; n++)
        if (carries(l->t->body.inst.v[n])) before += merge_scalars(l, l->t->body.inst.v[n]) * each;
    int64_t bytes = merge_scalars(l, loop) * each;
    Val parts = uniform_ix(l, c->parts), all = uniform_ix(l, ix_mul(l->t->ix, c->tiles, c->parts));
    Val at = LLVMBuildAdd(b, LLVMBuildMul(b, c->tile, parts, ""), part, "");
    at = LLVMBuildMul(b, at, LLVMConstInt(l->i64, (uint64_t)bytes, 0), "");
    Val skip = LLVMBuildMul(l->entry, all, LLVMConstInt(l->i64, (uint64_t)before, 0), "");
    Val other = LLVMBuildZExt(b, merge_other(l, l->map[c->axis].dim), l->i64, "");
    other = LLVMBuildMul(b, other, LLVMConstInt(l->i64, SLOT, 0), "");
    at = LLVMBuildAdd(b, LLVMBuildAdd(b, at, skip, ""), other, "");
    return LLVMBuildGEP2(b, l->i8, param_memory(l, KP_SCRATCH), &at, 1, "");
}

static Val scalar_at(Lower *l, Val base, int k) {
    Val by = LLVMConstInt(l->i64, (uint64_t)k * SLOT * (unsigned)others(l), 0);
    return LLVMBuildGEP2(l->b, l->i8, base, &by, 1, "");
}

static Val read_scalar(Lower *l, Val base, int k, Ty type) {
    return LLVMBuildLoad2(l->b, type, scalar_at(l, base, k), "");
}

static void write_scalar(Lower *l, Val base, int k, Val v) {
    LLVMBuildStore(l->b, v, scalar_at(l, base, k));
}

void cut_memory(Lower *l, Kernel *k) {
    IxPool *p = l->t->ix;
    int64_t bytes = 0;
    for (int n = 0; n < l->t->body.inst.n; n++)
        if (carries(l->t->body.inst.v[n]))
            bytes += (int64_t)SLOT * others(l) * merge_scalars(l, l->t->body.inst.v[n]);
    k->scratch = ix_mul(p, k->tiles, ix_const(p, bytes));
}

/* ---- loops ---- */

bool cut_done(const Lower *l, const TInst *loop) {
    int at = 0;
    for (int n = 0; l->t->body.inst.v[n] != loop; n++) at += carries(l->t->body.inst.v[n]);
    return carries(loop) && at < l->cut->stage;
}

/* Each lane joins every lanes'th part, then the lanes are joined. */
void cut_fetch(Lower *l, const TInst *loop) {
    const Cut *c = l->cut;
    const AxisMap *m = &l->map[c->axis];
    Val parts = uniform_ix(l, c->parts), first = axis_lane(l, c->axis);
    LLVMBasicBlockRef before = LLVMGetInsertBlock(l->b);
    LLVMBasicBlockRef body = block_new(l, "part"), exit = block_new(l, "parts.end");
    LLVMBuildCondBr(l->b, LLVMBuildICmp(l->b, LLVMIntSLT, first, parts, ""), body, exit);
    block_enter(l, body);
    Val at = LLVMBuildPhi(l->b, l->i64, "part");
    Val from = place_of(l, loop, at);
    merge_with(l, loop, read_scalar, from);
    Val next = LLVMBuildAdd(l->b, at, LLVMConstInt(l->i64, (unsigned)m->lanes, 0), "");
    Val in[2] = {first, next};
    LLVMBasicBlockRef where[2] = {before, LLVMGetInsertBlock(l->b)};
    LLVMAddIncoming(at, in, where, 2);
    LLVMBuildCondBr(l->b, LLVMBuildICmp(l->b, LLVMIntSLT, next, parts, ""), body, exit);
    block_enter(l, exit);
    if (m->lanes > 1) merge_lanes(l, loop, m->dim);
}

/* Blocks [part * blocks / parts, (part + 1) * blocks / parts), no further than the extent. */
void cut_bounds(Lower *l, Val *lo, Val *hi) {
    const Cut *c = l->cut;
    LLVMBuilderRef b = l->b;
    Val n = uniform_ix(l, blocks(l)), parts = uniform_ix(l, c->parts);
    Val extent = uniform_ix(l, l->t->axes.v[c->axis].extent);
    Val block = LLVMConstInt(l->i64, (uint64_t)block_of(l), 0);
    for (int k = 0; k < 2; k++) {
        Val at = k ? LLVMBuildAdd(b, c->part, LLVMConstInt(l->i64, 1, 0), "") : c->part;
        at = LLVMBuildUDiv(b, LLVMBuildMul(b, at, n, ""), parts, "");
        at = LLVMBuildMul(b, at, block, "");
        Val in = LLVMBuildICmp(b, LLVMIntSLT, at, extent, "");
        *(k ? hi : lo) = LLVMBuildSelect(b, in, at, extent, "");
    }
}

Val cut_first(Lower *l) {
    const Cut *c = l->cut;
    if (l->axis[c->axis].open) return NULL;
    return LLVMBuildICmp(l->b, LLVMIntEQ, c->part, LLVMConstInt(l->i64, 0, 0), "");
}

/* By one lane, as they are before what follows the loop makes of them. */
static void leave(Lower *l, const TInst *loop) {
    const Cut *c = l->cut;
    int dim = l->map[c->axis].dim;
    LLVMBasicBlockRef write = block_new(l, "leave"), after = block_new(l, "left");
    Val zero = LLVMConstInt(l->i64, 0, 0), yes = LLVMConstInt(l->i1, 1, 0);
    Val one = dim < 0 ? yes : LLVMBuildICmp(l->b, LLVMIntEQ, axis_lane(l, c->axis), zero, "");
    LLVMBuildCondBr(l->b, one, write, after);
    block_enter(l, write);
    Val to = place_of(l, loop, c->part);
    merge_each(l, loop, write_scalar, to);
    LLVMBuildBr(l->b, after);
    block_enter(l, after);
}

/* ---- launches ---- */

static void emit_launch(Lower *l) {
    const Cut *c = l->cut;
    bool last = c->stage == c->stages - 1;
    for (int n = 0, at = 0; n < l->t->body.inst.n; n++) {
        const TInst *i = l->t->body.inst.v[n];
        bool loop = i->kind == T_LOOP;
        if (!last && (i->kind == T_STORE || (loop && !i->carries.n))) continue;
        emit_inst(l, i);
        if (!carries(i) || at++ < c->stage) continue;
        leave(l, i);
        return;
    }
}

void cut_emit(Lower *l) {
    Cut *c = l->cut;
    Map narrow = l->narrow, wide = l->wide, reals = l->reals;
    Val which = param_launch(l);
    LLVMBasicBlockRef done = block_new(l, "done");
    for (c->stage = 0; c->stage < c->stages; c->stage++) {
        bool last = c->stage == c->stages - 1;
        LLVMBasicBlockRef mine = block_new(l, "launch"), next = last ? done : block_new(l, "else");
        Val is =
            LLVMBuildICmp(l->b, LLVMIntEQ, which, LLVMConstInt(l->i64, (unsigned)c->stage, 0), "");
        if (last && !c->applies) /* the row is one CTA's */
            is = LLVMBuildAnd(l->b, is, cut_first(l), "");
        LLVMBuildCondBr(l->b, is, mine, next);
        block_enter(l, mine);
        l->narrow = l->wide = l->reals = (Map){.arena = l->arena};
        emit_launch(l);
        LLVMBuildBr(l->b, done);
        block_enter(l, next);
    }
    l->narrow = narrow, l->wide = wide, l->reals = reals;
}
