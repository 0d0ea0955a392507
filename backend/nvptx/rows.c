/* rows.c - loops over a row that the threads hold whole (schedules with `held`), or block by block.
 *
 * A held row: its loops are not loops. Each does what it does for all elements at once, and what it
 * computed is there still for those after it: an instruction that is like one before it is not done
 * again. Carries that are frames of others are joined across lanes first; what moves with them is
 * computed when they have settled, so nothing is rescaled.
 *
 * Block by block: of the elements at hand those that make frames are joined first, states move once
 * a block.
 */
#include "backend/nvptx/rows_int.h"
#include "backend/nvptx/merge_int.h"

#include <string.h>

/* ---- what was computed already ---- */

static const TInst *same_as(const Lower *l, int id) {
    return l->same && l->same[id] ? l->same[id] : l->def[id];
}

static int canonical(const Lower *l, int id) {
    const TInst *i = same_as(l, id);
    return i ? i->id : id;
}

static bool alike(const Lower *l, const TInst *a, const TInst *b) {
    if (a->kind != b->kind || a->type != b->type || a->nargs != b->nargs || a->nix != b->nix)
        return false;
    if (a->kind == T_OP && a->op != b->op) return false;
    if (a->kind == T_LOAD && (a->tensor != b->tensor || a->checked != b->checked)) return false;
    if (a->kind == T_CONST && (a->inum != b->inum || memcmp(&a->num, &b->num, sizeof a->num)))
        return false;
    for (int k = 0; k < a->nix; k++)
        if (a->ix[k] != b->ix[k]) return false;
    for (int k = 0; k < a->nargs; k++)
        if (canonical(l, a->args[k]) != canonical(l, b->args[k])) return false;
    return l->approx[b->id] <= l->approx[a->id]; /* b is as exact as a has to be */
}

/* ---- a body ---- */

/* Which values depend on a frame that this loop moves. */
static bool by_frame(const Lower *l, const TInst *loop, const TInst *i) {
    for (int k = 0; k < i->nargs; k++) {
        int arg = i->args[k];
        if (i->kind == T_STEP && k == 0) continue;
        for (int c = 0; c < loop->carries.n; c++)
            if (loop->carries.v[c].id == arg) return true;
        const TInst *d = l->def[arg];
        if (!d) continue;
        for (int n = 0; n < loop->body.inst.n; n++)
            if (loop->body.inst.v[n] == d && by_frame(l, loop, d)) return true;
    }
    return false;
}

static bool has_frames(const TInst *loop) {
    for (int c = 0; c < loop->carries.n; c++)
        if (loop->carries.v[c].frame >= 0) return true;
    return false;
}

/* The only value among its operands that differs along the row, if little is done with it; NULL. */
static const TInst *little(const Lower *l, const TInst *i) {
    const TInst *of = NULL;
    if (i->kind != T_OP || (i->op != OP_add && i->op != OP_sub && i->op != OP_mul)) return NULL;
    for (int k = 0; k < i->nargs; k++) {
        const TInst *d = l->def[i->args[k]];
        if (!frag_live(l, l->deps[i->args[k]])) continue;
        if (!d || (of && of != d)) return NULL;
        of = d;
    }
    return of;
}

static bool same_place(const TInst *a, const TInst *b) {
    if (!b || b->kind != T_LOAD || a->tensor != b->tensor || a->nix != b->nix) return false;
    for (int d = 0; d < a->nix; d++)
        if (a->ix[d] != b->ix[d]) return false;
    return true;
}

/* Is more than that done with a load's elements, in some loop? */
static bool used_otherwise(const Lower *l, const TInst *load, const TBlock *b) {
    for (int k = 0; k < b->inst.n; k++) {
        const TInst *i = b->inst.v[k];
        if (used_otherwise(l, load, &i->body)) return true;
        for (int a = 0; a < i->nargs && i->kind == T_OP; a++)
            if (same_place(load, l->def[i->args[a]]) && !little(l, i)) return true;
    }
    return false;
}

/* Is it soon made again of one load? That is kept as memory has it, and takes half the registers of
 * a row's elements, or fewer. */
static bool is_cheap(const Lower *l, const TInst *i) {
    if (i->kind == T_LOAD)
        return l->packed[same_as(l, i->id)->id] && !used_otherwise(l, i, &l->t->body);
    const TInst *of = little(l, i);
    return of && is_cheap(l, of);
}

/* Values are kept for loops to come unless a frame may read otherwise then (one still at its
 * identity reads as 0 inside of its loop). Keeping exponentials too, beside what they are made of,
 * took more registers than it saved time: measured, RESULTS.md. */
static void emit_known(Lower *l, const TInst *loop, const TInst *i) {
    bool value = i->id >= 0 && !by_frame(l, loop, i);
    for (int k = 0; value && l->s->held && k < l->known.n; k++) {
        const TInst *b = l->known.v[k];
        if (!alike(l, i, b)) continue;
        l->same[i->id] = same_as(l, b->id);
        bool again = i->kind == T_LOAD && is_cheap(l, i);
        if (!again || !wide_again(l, b, &l->value[i->id])) l->value[i->id] = l->value[b->id];
        return;
    }
    if (i->kind == T_STEP)
        rows_step(l, i);
    else
        emit_inst(l, i);
    if (value && l->s->held && (i->kind != T_OP || !is_cheap(l, i)))
        vec_push(l->arena, &l->known, i);
}

enum Part { BEFORE_FRAMES, BEHIND_FRAMES };

static void emit_part(Lower *l, const TInst *loop, enum Part part) {
    for (int k = 0; k < loop->body.inst.n; k++) {
        const TInst *i = loop->body.inst.v[k];
        if (by_frame(l, loop, i) == (part == BEHIND_FRAMES)) emit_known(l, loop, i);
    }
}

/* ---- steps ---- */

/* Neighbours first: a chain of additions as long as a row would take its time, and be less exact.
 */
static Val tree(Lower *l, const TCarry *c, Val *v, int n) {
    for (; n > 1; n = (n + 1) / 2)
        for (int k = 0; k < n; k += 2)
            v[k / 2] = k + 1 < n ? op_emit_exact(l, reduce_combine(c->red), c->type, v[k], v[k + 1])
                                 : v[k];
    return v[0];
}

static Val in_row(Lower *l, AxisSet inner, AxisSet mask, int k) {
    Val there = NULL;
    for (int a = 0; a < l->t->axes.n; a++) {
        if (!(inner >> a & 1) || !l->axis[a].open) continue;
        Val p = l->axis[a].in[frag_coord(l, mask, k, a)];
        if (p) there = there ? LLVMBuildAnd(l->b, there, p, "") : p;
    }
    return there;
}

void rows_step(Lower *l, const TInst *i) {
    CarryState *s = l->carry[i->args[0]];
    Frag elem = value_of(l, i->args[1]);
    DType from = l->type[i->args[1]];
    Frag all = frag_new(l, s->mask | frag_live(l, s->inner));
    Val *list = ARENA_ARRAY(l->arena, Val, all.n + 1);
    for (int c = 0; c < s->n; c++) {
        int n = 0;
        Val any = NULL;
        bool always = false;
        for (int k = 0; k < all.n; k++) {
            if (frag_at(l, all.mask, k, s->mask) != c) continue;
            Val v = type_widen(l, from, dtype_value(s->c->type),
                               elem.v[frag_at(l, all.mask, k, elem.mask)]);
            Val there = in_row(l, s->inner, all.mask, k);
            if (there) v = LLVMBuildSelect(l->b, there, v, identity(l, s->c->red, s->c->type), "");
            list[n++] = v;
            always |= !there;
            if (there && any != there) any = any ? LLVMBuildOr(l->b, any, there, "") : there;
        }
        Val now = LLVMBuildLoad2(l->b, reg_type(l, s->c->type), s->slot[c], "");
        list[n++] = now;
        for (int k = n - 1; k > 0; k--) list[k] = list[k - 1];
        list[0] = now;
        LLVMBuildStore(l->b, tree(l, s->c, list, n), s->slot[c]);
        if (!s->stepped) continue;
        Val yes = always || !any ? LLVMConstInt(l->i1, 1, 0) : any;
        Val was = LLVMBuildLoad2(l->b, l->i1, s->stepped[c], "");
        LLVMBuildStore(l->b, LLVMBuildOr(l->b, was, yes, ""), s->stepped[c]);
    }
}

/* ---- loops ---- */

bool rows_held(const Lower *l, const TInst *loop) {
    int64_t zero;
    return l->s->held && ix_is_const(loop->lo, &zero) && zero == 0 &&
           loop->hi == l->t->axes.v[loop->axis].extent;
}

enum { FEW = 16, LEAN = 3, LEAN_REGS = 32, REGS = 40, FILE_REGS = 65536 };

/* Elements of a row that a thread holds. */
static int held_elements(const Lower *l) {
    int most = 0;
    for (int a = l->t->ngrid; a < l->t->axes.n && l->s->held; a++) {
        int n = l->map[a].regs * l->map[a].vec;
        if (n > most) most = n;
    }
    return most;
}

/* Where a thread has few elements, what else is loaded would take as many registers as they do, all
 * through the joins. (Where it has more, loads between stores are what registers have room for.) */
bool rows_late(const Lower *l) {
    return l->turn > 1 && !l->keeps && held_elements(l) <= FEW;
}

/* Enough CTAs that their loads fill the time of the others' joins and stores. Rows of which nothing
 * is kept but what memory gave, with few tensors beside them, take fewer registers. */
int rows_resident(const Lower *l) {
    int streams = 0;
    if (!l->packed || held_elements(l) > FEW) return 0;
    for (int k = 0; k < l->t->tensors.n; k++) streams += l->wide_bytes && l->wide_bytes[k];
    int regs = l->keeps || streams > LEAN ? REGS : LEAN_REGS;
    int n = FILE_REGS / (l->s->threads * regs);
    return n > 32 ? 32 : n;
}

/* Have loops before kept more of the row than what memory gave? */
static bool keeps(const Lower *l) {
    uint64_t loops = ~(((uint64_t)1 << l->t->ngrid) - 1);
    for (int k = 0; k < l->known.n; k++) {
        const TInst *i = l->known.v[k];
        bool memory = i->kind == T_LOAD && l->packed[i->id];
        if (i->id >= 0 && !memory && l->deps[i->id] & loops) return true;
    }
    return false;
}

/* Frames as other carries while they are made: what moves with them has not begun. */
static void frames_at_rest(Lower *l, const TInst *loop, bool rest) {
    for (int c = 0; c < loop->carries.n; c++) {
        CarryState *s = l->carry[loop->carries.v[c].id];
        s->is_frame = false;
        for (int k = 0; k < loop->carries.n && !rest; k++)
            s->is_frame |= loop->carries.v[k].frame == s->c->id;
    }
}

void rows_loop(Lower *l, const TInst *loop) {
    const AxisMap *m = &l->map[loop->axis];
    int64_t n, size = (int64_t)m->lanes * m->regs * m->vec;
    const Ix *extent = l->t->axes.v[loop->axis].extent;
    bool whole = ix_is_const(extent, &n) && n == size;
    Val lane = LLVMBuildMul(l->entry, axis_lane(l, loop->axis),
                            LLVMConstInt(l->i64, (unsigned)m->vec, 0), "");
    if (!l->held[loop->axis].count) {
        wide_open(l, loop->axis, lane, whole ? NULL : uniform_ix(l, extent));
        l->held[loop->axis] = l->axis[loop->axis];
    }
    l->axis[loop->axis] = l->held[loop->axis];
    l->turn++;
    l->keeps |= keeps(l);
    if (!l->same) l->same = ARENA_ARRAY(l->arena, const TInst *, l->t->nvalues + 1);
    bool framed = has_frames(loop);
    frames_at_rest(l, loop, true);
    emit_part(l, loop, BEFORE_FRAMES);
    l->axis[loop->axis].open = false;
    if (m->lanes > 1 && loop->carries.n) merge_lanes_of(l, loop, m->dim, MERGE_FREE);
    frames_at_rest(l, loop, false);
    if (!framed) return;
    l->axis[loop->axis].open = true;
    emit_part(l, loop, BEHIND_FRAMES);
    l->axis[loop->axis].open = false;
    if (m->lanes > 1) merge_lanes_of(l, loop, m->dim, MERGE_SETTLED);
}

void rows_block(Lower *l, const TInst *loop) {
    if (!has_frames(loop)) {
        emit_part(l, loop, BEFORE_FRAMES);
        return;
    }
    Frag *old = ARENA_ARRAY(l->arena, Frag, loop->carries.n);
    frames_at_rest(l, loop, true);
    for (int c = 0; c < loop->carries.n; c++) old[c] = carry_now(l, loop->carries.v[c].id);
    emit_part(l, loop, BEFORE_FRAMES);
    frames_at_rest(l, loop, false);
    for (int c = 0; c < loop->carries.n; c++) {
        const CarryState *s = l->carry[loop->carries.v[c].id];
        if (s->is_frame) carry_moved(l, s, &old[c]);
    }
    emit_part(l, loop, BEHIND_FRAMES);
}
