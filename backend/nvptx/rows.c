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
        if (!again || !wide_again(l, b, 0, &l->value[i->id])) l->value[i->id] = l->value[b->id];
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
    l->round++;
    for (int k = 0; k < loop->body.inst.n; k++) {
        const TInst *i = loop->body.inst.v[k];
        if (by_frame(l, loop, i) == (part == BEHIND_FRAMES)) emit_known(l, loop, i);
    }
}

/* ---- steps ---- */

/* Neighbours first: a chain of additions as long as a row would take its time, and be less exact.
 * `leaves`: v is what the row's elements give; products are added without being rounded. */
static Val tree(Lower *l, const TCarry *c, Val *v, int n, bool leaves) {
    Op op = reduce_combine(c->red);
    DType from[2] = {c->type, c->type};
    for (; n > 1; n = (n + 1) / 2, leaves = false)
        for (int k = 0; k < n; k += 2) {
            if (k + 1 == n)
                v[k / 2] = v[k];
            else if (leaves)
                v[k / 2] = op_emit(l, op, c->type, from, v + k);
            else
                v[k / 2] = op_emit_exact(l, op, c->type, v[k], v[k + 1]);
        }
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

/* Elements that are there or not together: joined, then looked at. */
static Val together(Lower *l, const CarryState *s, Val *v, int n, Val there) {
    Val all = tree(l, s->c, v, n, true);
    if (!there) return all;
    return LLVMBuildSelect(l->b, there, all, identity(l, s->c->red, s->c->type), "");
}

void rows_step(Lower *l, const TInst *i) {
    CarryState *s = l->carry[i->args[0]];
    Frag elem = value_of(l, i->args[1]);
    DType from = l->type[i->args[1]];
    Frag all = frag_new(l, s->mask | frag_live(l, s->inner));
    Val *list = ARENA_ARRAY(l->arena, Val, all.n + 1), *run = ARENA_ARRAY(l->arena, Val, all.n);
    for (int c = 0; c < s->n; c++) {
        int n = 0, in_run = 0;
        Val any = NULL, of_run = NULL;
        bool always = false;
        list[n++] = LLVMBuildLoad2(l->b, reg_type(l, s->c->type), s->slot[c], "");
        for (int k = 0; k < all.n; k++) {
            if (frag_at(l, all.mask, k, s->mask) != c) continue;
            Val there = in_row(l, s->inner, all.mask, k);
            if (in_run && there != of_run) {
                list[n++] = together(l, s, run, in_run, of_run);
                in_run = 0;
            }
            of_run = there;
            run[in_run++] = type_widen(l, from, dtype_value(s->c->type),
                                       elem.v[frag_at(l, all.mask, k, elem.mask)]);
            always |= !there;
            if (there && any != there) any = any ? LLVMBuildOr(l->b, any, there, "") : there;
        }
        if (in_run) list[n++] = together(l, s, run, in_run, of_run);
        LLVMBuildStore(l->b, tree(l, s->c, list, n, false), s->slot[c]);
        if (!s->stepped || s->whole) continue;
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

/* Elements of a thread; registers of one that has few (and keeps nothing but what memory gave, with
 * few tensors beside it), some, many. */
enum { FEW = 16, SOME = 32, MANY = 64 };
enum { LEAN = 3, LEAN_REGS = 32, REGS = 40, MANY_REGS = 64, FILE_REGS = 65536 };

/* Elements of a row that a thread holds. */
static int held_elements(const Lower *l) {
    int most = 0;
    for (int a = l->t->ngrid; a < l->t->axes.n && l->s->held; a++) {
        int n = l->map[a].regs * l->map[a].vec;
        if (n > most) most = n;
    }
    return most;
}

static int lanes(const Lower *l) {
    int most = 1;
    for (int a = l->t->ngrid; a < l->t->axes.n; a++)
        if (l->map[a].lanes > most) most = l->map[a].lanes;
    return most;
}

/* Where a thread has few elements, what else is loaded would take as many registers as they do, all
 * through the joins; where loops go vector by vector, more than there are. */
bool rows_late(const Lower *l) {
    if (l->by_vectors) return true;
    return l->turn > 1 && !l->keeps && held_elements(l) <= FEW;
}

bool rows_packed(const Lower *l) {
    return held_elements(l) > FEW;
}

/* Enough CTAs that their loads fill the time of the others' joins and stores. */
int rows_resident(const Lower *l) {
    int streams = 0, held = held_elements(l), regs = REGS;
    bool lean = !l->keeps && !l->whole && lanes(l) > 32;
    if (!l->packed || held > MANY || (held > FEW && !lean)) return 0;
    for (int k = 0; k < l->t->tensors.n; k++) streams += l->wide_bytes && l->wide_bytes[k];
    if (held > SOME)
        regs = MANY_REGS;
    else if (held <= FEW && !l->keeps && streams <= LEAN)
        regs = LEAN_REGS;
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

/* A row of some elements steps all that its loop carries, so lanes need not tell each other. */
static void stepped_whole(Lower *l, const TInst *loop) {
    const Ix *extent = l->t->axes.v[loop->axis].extent;
    for (int c = 0; c < loop->carries.n; c++) {
        CarryState *s = l->carry[loop->carries.v[c].id];
        if (!s->stepped || s->inner != axis_bit(loop->axis)) continue;
        s->whole = true;
        Val zero = LLVMConstInt(l->i64, 0, 0);
        Val some = LLVMBuildICmp(l->b, LLVMIntSGT, uniform_ix(l, extent), zero, "");
        for (int k = 0; k < s->n; k++) LLVMBuildStore(l->b, some, s->stepped[k]);
    }
}

/* ---- what carries nothing, vector by vector ---- */

/* Of the row's elements those of this thread's vector r. */
static void open_vector(Lower *l, int axis, int r) {
    AxisState *s = &l->axis[axis];
    const AxisState *all = &l->held[axis];
    int vec = l->map[axis].vec;
    *s = *all;
    s->count = vec;
    s->e = all->e + r * vec;
    s->in = all->in + r * vec;
    s->step = all->step + r * vec;
    s->base = all->e[0];
}

static const TInst *known_as(const Lower *l, const TInst *i) {
    for (int k = 0; k < l->known.n; k++)
        if (alike(l, i, l->known.v[k])) return l->known.v[k];
    return NULL;
}

static bool along(const Lower *l, const TInst *loop, const TInst *i) {
    return i->id >= 0 && l->deps[i->id] & axis_bit(loop->axis);
}

/* Loads that a loop with carries is the first to have: of all vectors. */
static void load_all(Lower *l, const TInst *loop) {
    for (int k = 0; k < loop->body.inst.n; k++) {
        const TInst *i = loop->body.inst.v[k];
        bool here = i->kind == T_LOAD && loop->carries.n && !known_as(l, i);
        for (int d = 0; d < i->nix && here; d++) here = !i->ix[d]->has_value;
        if (here) emit_known(l, loop, i);
    }
}

/* Is all that the loop has of others the words that memory gave, along the row alone, and nothing
 * that it makes worth keeping? */
static bool by_vectors(const Lower *l, const TInst *loop) {
    AxisSet row = axis_bit(loop->axis);
    if (!l->packed || l->keeps || l->map[loop->axis].regs < 2) return false;
    if (!loop->carries.n && l->turn < 2) return false;
    for (int k = 0; k < loop->body.inst.n; k++) {
        const TInst *i = loop->body.inst.v[k], *b = known_as(l, i);
        if (!along(l, loop, i)) continue;
        if (i->kind == T_LOAD && !b && loop->carries.n) return false;
        if (i->kind == T_LOAD && b && (!l->packed[b->id] || l->value[b->id].mask != row))
            return false;
        if (i->kind == T_OP && loop->carries.n && !is_cheap(l, i) && !by_frame(l, loop, i))
            return false;
    }
    return true;
}

/* Loads of vector r that no loop before had; values, by their place in the body, go to v. */
static void load_vector(Lower *l, const TInst *loop, int r, Frag *v) {
    open_vector(l, loop->axis, r);
    for (int k = 0; k < loop->body.inst.n; k++) {
        const TInst *i = loop->body.inst.v[k];
        if (i->kind != T_LOAD || known_as(l, i)) continue;
        emit_inst(l, i);
        v[k] = l->value[i->id];
    }
}

/* An instruction of the loop for a vector, whose loads are there. */
static void emit_for_vector(Lower *l, const TInst *loop, const TInst *i, int r, const Frag *loaded,
                            enum Part part) {
    const TInst *b = i->kind == T_LOAD ? known_as(l, i) : NULL;
    bool behind = by_frame(l, loop, i);
    if (part == BEFORE_FRAMES && behind) return;
    if (i->kind == T_STEP) {
        if (behind == (part == BEHIND_FRAMES)) rows_step(l, i);
    } else if (i->kind != T_LOAD) {
        emit_inst(l, i);
    } else if (!b) {
        l->value[i->id] = *loaded;
    } else if (!wide_again(l, b, r, &l->value[i->id])) {
        l->value[i->id] = l->value[b->id];
    }
}

/* What is loaded besides comes a vector ahead. */
static void emit_by_vectors(Lower *l, const TInst *loop, enum Part part) {
    int regs = l->map[loop->axis].regs, n = loop->body.inst.n;
    Frag *now = ARENA_ARRAY(l->arena, Frag, n), *next = ARENA_ARRAY(l->arena, Frag, n);
    l->by_vectors = true;
    l->round++;
    load_vector(l, loop, 0, now);
    for (int r = 0; r < regs; r++) {
        if (r + 1 < regs) load_vector(l, loop, r + 1, next);
        open_vector(l, loop->axis, r);
        for (int k = 0; k < n; k++)
            emit_for_vector(l, loop, loop->body.inst.v[k], r, &now[k], part);
        Frag *other = now;
        now = next, next = other;
    }
    l->by_vectors = false;
    l->axis[loop->axis] = l->held[loop->axis];
}

void rows_loop(Lower *l, const TInst *loop) {
    const AxisMap *m = &l->map[loop->axis];
    int64_t n, size = (int64_t)m->lanes * m->regs * m->vec;
    const Ix *extent = l->t->axes.v[loop->axis].extent;
    bool whole = ix_is_const(extent, &n) && n == size;
    stepped_whole(l, loop);
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
    load_all(l, loop);
    bool vectors = by_vectors(l, loop);
    l->whole |= !vectors;
    void (*emit)(Lower *, const TInst *, enum Part) = vectors ? emit_by_vectors : emit_part;
    emit(l, loop, BEFORE_FRAMES);
    l->axis[loop->axis].open = false;
    if (m->lanes > 1 && loop->carries.n) merge_lanes_of(l, loop, m->dim, MERGE_FREE);
    frames_at_rest(l, loop, false);
    if (!framed) return;
    l->axis[loop->axis].open = true;
    emit(l, loop, BEHIND_FRAMES);
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
