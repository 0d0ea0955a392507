/* online_pick.c - which blocks of j a tile works on, where data say so (ir/online.h, picks).
 *
 * A warp of the loading warpgroup (role pick) runs ahead of all others. Of a tile's rows it knows
 * the least and the greatest of every side of a condition, and of the bounds of j; of a block of j
 * too, PICKS blocks at a time. A block where a condition of all steps fails for sure, or that no
 * row's bounds reach, is not picked: nobody hears of it. One where all conditions hold for sure,
 * and no bound cuts, is whole. It puts into a ring of words, of each tile:
 *     the number of the tile, but of a CTA's first
 *     what the bounds of j are for all its rows together, where those vary as data like: two words
 *     blocks, last ones first: 4 * number + (1: cut by bounds) + (2: or by conditions); then NONE
 * The loading thread takes them out, says beside the rows' factors which block is first and beside
 * the K buffer of each block which one follows it: so the groups know the next before they need it.
 */
#include "backend/nvptx/online_int.h"

#include <string.h>

enum { LANES = 32, NARROW = 24, WIDE = 40 /* registers */ };

/* ---- least and greatest ---------------------------------------------------------------------- */

typedef struct Reach { /* i32 or i64, the same in the warp */
    Val lo, hi;
} Reach;

static Val pick(Lower *l, bool greater, Val a, Val b) {
    Val is = LLVMBuildICmp(l->b, greater ? LLVMIntSGT : LLVMIntSLT, a, b, "");
    return LLVMBuildSelect(l->b, is, a, b, "");
}

static Val of_warp(Lower *l, bool greatest, Val v) {
    if (LLVMTypeOf(v) == l->i32) {
        Val arg[2] = {v, LLVMConstInt(l->i32, 0xffffffffu, 0)};
        const char *name = greatest ? "llvm.nvvm.redux.sync.max" : "llvm.nvvm.redux.sync.min";
        return ptx_intrinsic(l, l->b, name, NULL, 0, arg, 2);
    }
    for (int d = 1; d < LANES; d *= 2) v = pick(l, greatest, v, ptx_shfl_xor(l, v, d));
    return v;
}

static Reach range_of(Lower *l, const Frag *f, bool differs) {
    Reach r = {f->v[0], f->v[0]};
    for (int k = 1; k < f->n; k++) {
        r.lo = pick(l, false, r.lo, f->v[k]);
        r.hi = pick(l, true, r.hi, f->v[k]);
    }
    if (differs) r = (Reach){of_warp(l, false, r.lo), of_warp(l, true, r.hi)};
    return r;
}

/* n elements of an axis, a lane apart, from `first` on; beyond `last` that one again. i32. */
static void open(On *on, int axis, Val first, Val last, int n) {
    Lower *l = on->l;
    int64_t *step = ARENA_ARRAY(l->arena, int64_t, n);
    AxisState s = {.open = true, .count = n, .step = step};
    s.e = ARENA_ARRAY(l->arena, Val, n);
    s.in = ARENA_ARRAY(l->arena, Val, n);
    Val lane = LLVMBuildAnd(l->b, on->w.tid, i32c(l, LANES - 1), "");
    Val at = LLVMBuildAdd(l->b, first, lane, "");
    for (int k = 0; k < n; k++) {
        step[k] = LANES * k;
        Val e = LLVMBuildAdd(l->b, at, i32c(l, LANES * k), "");
        s.in[k] = LLVMBuildICmp(l->b, LLVMIntSLE, e, last, "");
        s.e[k] = LLVMBuildZExt(l->b, pick(l, false, e, last), l->i64, "");
    }
    l->axis[axis] = s;
}

/* ---- conditions ------------------------------------------------------------------------------ */

enum { PARTS = 8 };

typedef struct Place { /* where a tile and a block lie; i32 */
    Val row, last_row, j, last_j;
    Frag *part[PARTS]; /* of the block: values of the lane's elements, each by itself */
} Place;

typedef struct Said {
    Val holds, fails; /* i1: for sure */
} Said;

/* A side: what it is made of is emitted; one cast of an integer is looked through. */
static int bare(const On *on, int id) {
    const TInst *i = on->l->def[id];
    bool widens = i->kind == T_OP && i->op == OP_cast && i->type == DT_i64 &&
                  dtype_value(on->l->type[i->args[0]]) == DT_i32;
    return widens ? i->args[0] : id;
}

static bool along_j(const On *on, int id) {
    return on->l->deps[id] >> on->o.j & 1;
}

static Reach side(On *on, int id, const Place *p) {
    Lower *l = on->l;
    Val all[PARTS];
    Frag f = {.v = all};
    if (along_j(on, id))
        for (int k = 0; k < PARTS && p->part[k]; k++) all[f.n++] = p->part[k][bare(on, id)].v[0];
    else
        f = value_of(l, bare(on, id));
    FK_ASSERT(f.n <= PARTS);
    for (int k = 0; k < f.n; k++) {
        bool is_bool = LLVMTypeOf(f.v[k]) == l->i1;
        all[k] = is_bool ? LLVMBuildZExt(l->b, f.v[k], l->i32, "") : f.v[k];
    }
    f.v = all;
    return range_of(l, &f, l->deps[id] & (axis_bit(on->o.j) | axis_bit(on->o.rows)));
}

static Val corner(On *on, const Ix *x, const Place *p, bool greatest) {
    Lower *l = on->l;
    AxisState rows = l->axis[on->o.rows], j = l->axis[on->o.j];
    bool last_row = (online_moves(l->deps, x, on->o.rows) > 0) == greatest;
    bool last_j = (online_moves(l->deps, x, on->o.j) > 0) == greatest;
    Val row = last_row ? p->last_row : p->row, at = last_j ? p->last_j : p->j;
    wg_open_one(&on->w, on->o.rows, LLVMBuildZExt(l->b, row, l->i64, ""));
    if (at) wg_open_one(&on->w, on->o.j, LLVMBuildZExt(l->b, at, l->i64, ""));
    Frag f = frag_ix(l, x);
    l->axis[on->o.rows] = rows, l->axis[on->o.j] = j;
    return frag_only(&f, "an index at a corner");
}

/* An index whose least and greatest lie at the corners. */
static const Ix *straight(const On *on, int id) {
    const Ix *x = online_index(&on->o, id);
    bool is = x && online_moves(on->l->deps, x, on->o.rows) != ONLINE_ANY &&
              online_moves(on->l->deps, x, on->o.j) != ONLINE_ANY;
    return is ? x : NULL;
}

/* What is the same along j is known once a tile. */
static Reach any_side(On *on, int id, const Place *p) {
    const Ix *x = straight(on, id);
    Reach r = {on->side_lo[id], on->side_hi[id]};
    if (r.lo) return r;
    r = x ? (Reach){corner(on, x, p, false), corner(on, x, p, true)} : side(on, id, p);
    if (!along_j(on, id)) on->side_lo[id] = r.lo, on->side_hi[id] = r.hi;
    return r;
}

static Val both(Lower *l, LLVMIntPredicate p, Val a, LLVMIntPredicate q, Val b, Val c, Val d,
                bool any) {
    Val x = LLVMBuildICmp(l->b, p, a, b, ""), y = LLVMBuildICmp(l->b, q, c, d, "");
    return any ? LLVMBuildOr(l->b, x, y, "") : LLVMBuildAnd(l->b, x, y, "");
}

static Said compare(Lower *l, Op op, Reach a, Reach b) {
    switch (op) {
    case OP_gt: return compare(l, OP_lt, b, a);
    case OP_ge: return compare(l, OP_le, b, a);
    case OP_lt:
        return (Said){LLVMBuildICmp(l->b, LLVMIntSLT, a.hi, b.lo, ""),
                      LLVMBuildICmp(l->b, LLVMIntSGE, a.lo, b.hi, "")};
    case OP_le:
        return (Said){LLVMBuildICmp(l->b, LLVMIntSLE, a.hi, b.lo, ""),
                      LLVMBuildICmp(l->b, LLVMIntSGT, a.lo, b.hi, "")};
    default: break;
    }
    Said s = {both(l, LLVMIntEQ, a.lo, LLVMIntEQ, b.hi, a.hi, b.lo, false),
              both(l, LLVMIntSGT, a.lo, LLVMIntSGT, b.hi, b.lo, a.hi, true)};
    return op == OP_eq ? s : (Said){s.fails, s.holds};
}

static Reach widened(Lower *l, Reach r) {
    if (LLVMTypeOf(r.lo) == l->i64) return r;
    return (Reach){LLVMBuildSExt(l->b, r.lo, l->i64, ""), LLVMBuildSExt(l->b, r.hi, l->i64, "")};
}

static Said says(On *on, int id, const Place *p);

static Said leaf(On *on, const TInst *i, OnlineSays what, const Place *p) {
    Lower *l = on->l;
    Val no = LLVMConstInt(l->i1, 0, 0);
    if (what == SAYS_DISTANCE) {
        const Ix *a = online_index(&on->o, i->args[0]), *b = online_index(&on->o, i->args[1]);
        const Ix *x = ix_sub(on->o.t->ix, a, b);
        Val zero = LLVMConstInt(l->i64, 0, 0);
        return compare(l, i->op, (Reach){corner(on, x, p, false), corner(on, x, p, true)},
                       (Reach){zero, zero});
    }
    if (what == SAYS_SIDES) {
        Reach a = any_side(on, i->args[0], p), b = any_side(on, i->args[1], p);
        bool same = LLVMTypeOf(a.lo) == LLVMTypeOf(b.lo);
        return compare(l, i->op, same ? a : widened(l, a), same ? b : widened(l, b));
    }
    if (what == SAYS_BOOL) {
        Reach r = any_side(on, i->id, p);
        Val zero = i32c(l, 0);
        return (Said){LLVMBuildICmp(l->b, LLVMIntNE, r.lo, zero, ""),
                      LLVMBuildICmp(l->b, LLVMIntEQ, r.hi, zero, "")};
    }
    return (Said){no, no};
}

static Said says(On *on, int id, const Place *p) {
    Lower *l = on->l;
    const TInst *i = l->def[id];
    OnlineSays what = online_says(&on->o, id);
    if (what != SAYS_BOTH && what != SAYS_EITHER && what != SAYS_NOT) return leaf(on, i, what, p);
    Said a = says(on, i->args[0], p);
    if (what == SAYS_NOT) return (Said){a.fails, a.holds};
    Said b = says(on, i->args[1], p);
    if (what == SAYS_BOTH)
        return (Said){LLVMBuildAnd(l->b, a.holds, b.holds, ""),
                      LLVMBuildOr(l->b, a.fails, b.fails, "")};
    return (Said){LLVMBuildOr(l->b, a.holds, b.holds, ""),
                  LLVMBuildAnd(l->b, a.fails, b.fails, "")};
}

/* ---- what sides are made of ------------------------------------------------------------------ */

/* Makes the sides of a condition that differ along j, or the others. */
static void make_sides(On *on, int id, bool j) {
    const TInst *i = on->l->def[id];
    OnlineSays what = online_says(&on->o, id);
    if (what == SAYS_BOOL && along_j(on, id) == j) on_make(on, id);
    bool deeper = what == SAYS_BOTH || what == SAYS_EITHER || what == SAYS_NOT;
    for (int k = 0; k < i->nargs && (deeper || what == SAYS_SIDES); k++) {
        if (deeper)
            make_sides(on, i->args[k], j);
        else if (along_j(on, i->args[k]) == j && !straight(on, i->args[k]))
            on_make(on, bare(on, i->args[k]));
    }
}

/* The least and greatest of the sides along rows, once a tile. */
static void know_rows(On *on, int id, const Place *p) {
    const TInst *i = on->l->def[id];
    OnlineSays what = online_says(&on->o, id);
    if (what == SAYS_BOOL && !along_j(on, id)) any_side(on, id, p);
    bool deeper = what == SAYS_BOTH || what == SAYS_EITHER || what == SAYS_NOT;
    for (int k = 0; k < i->nargs && (deeper || what == SAYS_SIDES); k++) {
        if (deeper)
            know_rows(on, i->args[k], p);
        else if (!along_j(on, i->args[k]))
            any_side(on, i->args[k], p);
    }
}

/* ---- a tile ---------------------------------------------------------------------------------- */

/* Conditions that need not be looked at in a whole block. */
bool on_pick_drops(const On *on, int guard) {
    return on->t.out.picked && online_can(&on->o, guard).hold;
}

/* What guards of steps are made of, along j or else; p: and what is known of it for the tile. */
static void make_guards(On *on, bool j, const Place *p) {
    for (int k = 0; k < on->o.body.n; k++) {
        const OnlineInst *x = &on->o.body.v[k];
        for (int g = 0; x->i->kind == T_STEP && g < x->guards.n; g++) {
            OnlineCan can = online_can(&on->o, x->guards.v[g]);
            if (!can.fail && !can.hold) continue;
            make_sides(on, x->guards.v[g], j);
            if (p) know_rows(on, x->guards.v[g], p);
        }
    }
}

/* Bounds that data of rows are: of all rows. */
static void bounds_of_data(On *on) {
    Lower *l = on->l;
    if (!on->varies) return;
    on_make_ix(on, on->o.loop->lo);
    on_make_ix(on, on->o.loop->hi);
    Frag f[2] = {frag_ix(l, on->o.loop->lo), frag_ix(l, on->o.loop->hi)};
    Reach r[2];
    for (int e = 0; e < 2; e++) {
        bool moves = online_moves(l->deps, e ? on->o.loop->hi : on->o.loop->lo, on->o.rows);
        Frag v = frag_new(l, f[e].mask);
        for (int k = 0; k < v.n; k++) v.v[k] = pick(l, true, on_clamp32(on, f[e].v[k]), i32c(l, 0));
        r[e] = range_of(l, &v, moves);
    }
    on_set_bounds(on, r[0].lo, r[0].hi, r[1].lo, r[1].hi);
}

/* Where block b lies, as far as the bounds of any row reach. */
static Place place_of(On *on, Val b, Place p) {
    Lower *l = on->l;
    Val from = LLVMBuildMul(l->b, b, i32c(l, on->t.j), "");
    Val to = LLVMBuildAdd(l->b, from, i32c(l, on->t.j - 1), "");
    from = pick(l, true, from, on->lo_least);
    to = pick(l, false, to, LLVMBuildSub(l->b, on->hi_most, i32c(l, 1), ""));
    to = pick(l, true, to, from);
    p.j = from, p.last_j = to;
    return p;
}

static Ring put_if(On *on, Val is, Ring at, Val word) {
    Lower *l = on->l;
    LLVMBasicBlockRef before = LLVMGetInsertBlock(l->b);
    LLVMBasicBlockRef yes = block_new(l, "picked"), after = block_new(l, "passed");
    LLVMBuildCondBr(l->b, is, yes, after);
    block_enter(l, yes);
    Ring next = on_pick_put(on, at, word);
    LLVMBasicBlockRef from = LLVMGetInsertBlock(l->b);
    LLVMBuildBr(l->b, after);
    block_enter(l, after);
    Ring r = {wg_phi(l, l->i32, at.stage, before), wg_phi(l, l->i32, at.phase, before)};
    LLVMAddIncoming(r.stage, &next.stage, &from, 1);
    LLVMAddIncoming(r.phase, &next.phase, &from, 1);
    return r;
}

enum { MANY = 4 };

/* Loads the lane's elements of a block. */
static void load_parts(On *on, Place *p) {
    Lower *l = on->l;
    size_t size = sizeof(Frag) * (size_t)(l->t->nvalues + 1);
    Frag *rows = ARENA_ARRAY(l->arena, Frag, l->t->nvalues + 1);
    Val lane = LLVMBuildAnd(l->b, on->w.tid, i32c(l, LANES - 1), "");
    Val first = LLVMBuildAdd(l->b, p->j, lane, "");
    memcpy(rows, l->value, size);
    for (int k = 0; k < (on->t.j + LANES - 1) / LANES; k++) {
        Val e = LLVMBuildAdd(l->b, first, i32c(l, LANES * k), "");
        e = pick(l, false, e, p->last_j); /* beyond the last: that one again */
        wg_open_one(&on->w, on->o.j, LLVMBuildZExt(l->b, e, l->i64, ""));
        make_guards(on, true, NULL);
        p->part[k] = ARENA_ARRAY(l->arena, Frag, l->t->nvalues + 1);
        memcpy(p->part[k], l->value, size);
        memcpy(l->value, rows, size);
    }
    l->axis[on->o.j].open = false;
}

/* What is known of the block by a condition; of those of all steps, that one fails. */
static void look_at(On *on, int guard, const Place *p, Val *held, Val *is) {
    Lower *l = on->l;
    OnlineCan can = online_can(&on->o, guard);
    if (!can.hold && !can.fail) return;
    Said s = says(on, guard, p);
    if (on_pick_drops(on, guard)) *held = LLVMBuildAnd(l->b, *held, s.holds, "");
    for (int k = 0; k < on->o.skips.n; k++)
        if (on->o.skips.v[k] == guard)
            *is = LLVMBuildAnd(l->b, *is, LLVMBuildNot(l->b, s.fails, ""), "");
}

static Ring one_block(On *on, Val number, const Place *p, Ring at) {
    Lower *l = on->l;
    Map done = {.arena = l->arena};
    Val whole = both(l, LLVMIntSGE, number, LLVMIntSLT, on->whole, number, on->beyond, false);
    Val is = LLVMBuildICmp(l->b, LLVMIntSGE, number, on->first, "");
    Val held = LLVMConstInt(l->i1, 1, 0);
    for (int k = 0; k < on->o.body.n; k++) {
        const OnlineInst *x = &on->o.body.v[k];
        for (int g = 0; x->i->kind == T_STEP && g < x->guards.n; g++) {
            intptr_t *seen = map_put(&done, &x->guards.v[g], sizeof x->guards.v[g]);
            if (!*seen) look_at(on, x->guards.v[g], p, &held, &is);
            *seen = 1;
        }
    }
    Val none = i32c(l, 0), word = LLVMBuildShl(l->b, number, i32c(l, PICK_SHIFT), "");
    Val kind = LLVMBuildSelect(l->b, whole, none, i32c(l, PICK_BOUNDS), "");
    word = LLVMBuildOr(l->b, word, kind, "");
    kind = LLVMBuildSelect(l->b, held, none, i32c(l, PICK_CONDITIONS), "");
    return put_if(on, is, at, LLVMBuildOr(l->b, word, kind, ""));
}

/* n blocks from b down. What all of them need of memory comes first; what is computed of b is
 * computed again after that, as it would take registers meanwhile. */
static Ring some_blocks(On *on, Val b, int n, const Place *tile, Ring at) {
    Lower *l = on->l;
    Place place[MANY];
    for (int u = 0; u < n; u++) {
        place[u] = place_of(on, LLVMBuildSub(l->b, b, i32c(l, u), ""), *tile);
        load_parts(on, &place[u]);
    }
    b = ptx_opaque(l, b);
    for (int u = 0; u < n; u++) {
        Val number = LLVMBuildSub(l->b, b, i32c(l, u), "");
        place[u] = place_of(on, number, place[u]);
        at = one_block(on, number, &place[u], at);
    }
    return at;
}

static Ring all_blocks(On *on, const Place *tile, Ring start) {
    Lower *l = on->l;
    int regs = on->t.out.load_regs, n = !regs || regs >= WIDE ? MANY : regs > NARROW ? 2 : 1;
    Val last = LLVMBuildSub(l->b, on->end, i32c(l, 1), "");
    LLVMBasicBlockRef before = LLVMGetInsertBlock(l->b), head = block_new(l, "look");
    LLVMBasicBlockRef body = block_new(l, "at.blocks"), exit = block_new(l, "seen");
    LLVMBuildBr(l->b, head);
    block_enter(l, head);
    Val b = wg_phi(l, l->i32, last, before);
    Ring r = {wg_phi(l, l->i32, start.stage, before), wg_phi(l, l->i32, start.phase, before)};
    LLVMBuildCondBr(l->b, LLVMBuildICmp(l->b, LLVMIntSGE, b, on->first, ""), body, exit);
    block_enter(l, body);
    Ring e = some_blocks(on, b, n, tile, r);
    wg_phi_next(l, b, LLVMBuildSub(l->b, b, i32c(l, n), ""));
    wg_phi_next(l, r.stage, e.stage), wg_phi_next(l, r.phase, e.phase);
    LLVMBuildBr(l->b, head);
    block_enter(l, exit);
    return r;
}

static OnRings pick_tile(On *on, Val item, OnRings r) {
    Lower *l = on->l;
    const Ix *rows = l->t->axes.v[on->o.rows].extent;
    l->narrow = l->wide = l->reals = (Map){.arena = l->arena};
    memset(on->side_lo, 0, sizeof *on->side_lo * (size_t)(l->t->nvalues + 1));
    on_decode(on, item);
    Place p = {.row = LLVMBuildTrunc(l->b, on->row0, l->i32, "")};
    Val end = LLVMBuildSub(l->b, uniform32(&on->w, rows), i32c(l, 1), "");
    p.last_row = LLVMBuildAdd(l->b, p.row, i32c(l, on->t.out.m - 1), "");
    p.last_row = pick(l, false, p.last_row, end);
    open(on, on->o.rows, p.row, p.last_row, on->t.out.m / LANES);
    bounds_of_data(on);
    make_guards(on, false, &p);
    if (on->varies) {
        r.p = on_pick_put(on, r.p, on->lo_least);
        r.p = on_pick_put(on, r.p, on->hi_most);
    }
    r.p = all_blocks(on, &p, r.p);
    r.p = on_pick_put(on, r.p, i32c(l, PICK_NONE));
    return r;
}

void on_picker(On *on) {
    Lower *l = on->l;
    on->side_lo = ARENA_ARRAY(l->arena, Val, l->t->nvalues + 1);
    on->side_hi = ARENA_ARRAY(l->arena, Val, l->t->nvalues + 1);
    Val lane = LLVMBuildAnd(l->b, on->w.tid, i32c(l, LANES - 1), "");
    on->lead = LLVMBuildICmp(l->b, LLVMIntEQ, lane, i32c(l, 0), "");
    LLVMBasicBlockRef after = wg_uniform_begin(&on->w);
    on_tiles(on, pick_tile, ON_PICKS);
    wg_uniform_end(&on->w, after);
    on->lead = NULL;
}
