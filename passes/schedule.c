/* schedule.c - the general schedule of a tile program: plain loads, multiply-adds, any target.
 *
 * Four shapes, told by how the outermost loops use memory and never by what they compute:
 *   tile     loads in the loop each lack one of two grid axes: 16 x 16 lanes over those axes,
 *            4 x 4 registers a thread, so that every loaded element is used four times
 *   block    the same where one of the two is the axis of the outermost loop, with loops inside
 *   fold     the loop walks memory contiguously: the lanes lie along the loop, merged after it
 *   map      otherwise: lanes along the grid axis that walks memory contiguously
 * Which shape it is decides the order of the sums, so under --invariant only reduced extents have a
 * say in it. Axes that a guard or a loop bound depends on keep one element a thread, so that a
 * branch is a branch.
 */
#include "passes/schedule_int.h"

#include <string.h>

enum { THREADS = 256, BIG = 1 << 20 };

typedef struct Facts {
    const TProg *t;
    bool invariant;
    uint64_t *deps;      /* per value: axes it depends on, as bits */
    uint64_t fixed;      /* axes that keep one element a thread */
    int *contiguous;     /* per axis: accesses whose last index moves with it, by weight */
    VEC(TInst *) loops;  /* outermost, with carries */
    uint64_t lacks, has; /* axes that some load in a loop lacks / has */
    uint64_t *with;      /* per axis: those that loads in a loop have with it */
    bool nibbles;        /* stores a 4-bit type */
    int bytes;           /* of the widest element loaded */
} Facts;

static uint64_t axis_bit(int axis) {
    return axis < 64 ? 1ull << axis : ~0ull; /* beyond 64 axes: as if on all */
}

static uint64_t ix_deps(const Facts *f, const Ix *x) {
    if (x->kind == IX_AXIS) return axis_bit((int)x->num);
    if (x->kind == IX_VALUE) return f->deps[x->num];
    uint64_t d = 0;
    for (int i = 0; i < x->n; i++) d |= ix_deps(f, x->arg[i]);
    return d;
}

/* ---- facts ---- */

static void note_access(Facts *f, const TInst *i, uint64_t open, int weight) {
    if (!i->nix) return;
    const Ix *last = i->ix[i->nix - 1];
    for (int a = 0; a < f->t->axes.n; a++) {
        int64_t coef;
        const Ix *rest;
        if (ix_linear_in(f->t->ix, last, a, &coef, &rest) && (coef == 1 || coef == -1))
            f->contiguous[a] += weight;
    }
    if (i->kind != T_LOAD || !open) return;
    uint64_t d = 0;
    for (int k = 0; k < i->nix; k++) d |= ix_deps(f, i->ix[k]);
    if (!(d & open)) return; /* does not move in the loop */
    f->has |= d;
    f->lacks |= ~d;
    for (int a = 0; a < f->t->axes.n; a++)
        if (d & axis_bit(a)) f->with[a] |= d;
}

static void note_block(Facts *f, const TBlock *b, uint64_t open, uint64_t guards, int weight,
                       uint64_t *steps);

static void note_loop(Facts *f, TInst *i, uint64_t open, uint64_t guards, int weight) {
    uint64_t bounds = ix_deps(f, i->lo) | ix_deps(f, i->hi);
    f->fixed |= bounds;
    uint64_t steps = 0;
    note_block(f, &i->body, open | axis_bit(i->axis), guards | bounds, weight * 64, &steps);
    for (int c = 0; c < i->carries.n; c++)
        f->deps[i->carries.v[c].id] = (steps | bounds | guards) & ~axis_bit(i->axis);
}

static void note_block(Facts *f, const TBlock *b, uint64_t open, uint64_t guards, int weight,
                       uint64_t *steps) {
    if (weight > BIG) weight = BIG;
    for (int k = 0; k < b->inst.n; k++) {
        TInst *i = b->inst.v[k];
        uint64_t d = 0;
        for (int a = 0; a < i->nargs; a++) d |= f->deps[i->args[a]];
        for (int a = 0; a < i->nix; a++) d |= ix_deps(f, i->ix[a]);
        if (i->id >= 0) f->deps[i->id] = d;
        switch (i->kind) {
        case T_LOAD:
        case T_STORE:
            note_access(f, i, open, weight);
            if (i->kind == T_STORE && dtype_bits(f->t->tensors.v[i->tensor].type) == 4)
                f->nibbles = true;
            if (i->kind == T_LOAD) {
                int bytes = (dtype_bits(i->type) + 7) / 8;
                if (bytes > f->bytes) f->bytes = bytes;
            }
            break;
        case T_GUARD:
            f->fixed |= d;
            note_block(f, &i->body, open, guards | d, weight, steps);
            break;
        case T_LOOP: note_loop(f, i, open, guards, weight); break;
        case T_STEP: *steps |= d | guards; break;
        default: break;
        }
    }
}

/* A step in a nested loop joins a carry of an outer one: its dependence reaches out. */
static void note_nested(Facts *f, const TBlock *b, uint64_t *steps) {
    for (int k = 0; k < b->inst.n; k++) {
        const TInst *i = b->inst.v[k];
        if (i->kind == T_STEP) *steps |= f->deps[i->args[1]];
        if (i->kind == T_LOOP || i->kind == T_GUARD) note_nested(f, &i->body, steps);
        if (i->kind == T_GUARD) *steps |= f->deps[i->args[0]];
        if (i->kind == T_LOOP) *steps |= ix_deps(f, i->lo) | ix_deps(f, i->hi);
    }
}

static void inner_axes(const TBlock *b, uint64_t *axes) {
    for (int k = 0; k < b->inst.n; k++) {
        const TInst *i = b->inst.v[k];
        if (i->kind == T_LOOP) *axes |= axis_bit(i->axis);
        if (i->kind == T_LOOP || i->kind == T_GUARD) inner_axes(&i->body, axes);
    }
}

/* Carries of nested loops are settled by going over the program until nothing changes. */
static void settle(Facts *f) {
    for (int round = 0; round < 4; round++) {
        uint64_t steps = 0;
        memset(f->contiguous, 0, sizeof(int) * (size_t)f->t->axes.n);
        note_block(f, &f->t->body, 0, 0, 1, &steps);
        for (int k = 0; k < f->t->body.inst.n; k++) {
            TInst *i = f->t->body.inst.v[k];
            if (i->kind != T_LOOP) continue;
            uint64_t own = axis_bit(i->axis), deep = 0;
            inner_axes(&i->body, &own);
            note_nested(f, &i->body, &deep);
            for (int c = 0; c < i->carries.n; c++) f->deps[i->carries.v[c].id] |= deep & ~own;
        }
    }
}

static void gather_facts(Facts *f, Arena *a, const TProg *t, bool invariant) {
    *f = (Facts){.t = t, .invariant = invariant, .bytes = 1};
    f->deps = ARENA_ARRAY(a, uint64_t, t->nvalues + 1);
    f->contiguous = ARENA_ARRAY(a, int, t->axes.n + 1);
    f->with = ARENA_ARRAY(a, uint64_t, t->axes.n + 1);
    settle(f);
    for (int k = 0; k < t->body.inst.n; k++)
        if (t->body.inst.v[k]->kind == T_LOOP) vec_push(a, &f->loops, t->body.inst.v[k]);
}

/* ---- choices ---- */

static int64_t extent_of(const TProg *t, int axis) {
    int64_t v;
    return ix_is_const(t->axes.v[axis].extent, &v) ? v : BIG;
}

/* The power of two that covers the extent of the axis, at most `most`. */
static int lanes_for(const TProg *t, int axis, int most) {
    int l = 1;
    while (l < most && l < extent_of(t, axis)) l *= 2;
    return l;
}

static SAxis *layout(Arena *a, Schedule *s, int axis, int lanes, int regs) {
    SAxis x = {.axis = axis, .lanes = lanes, .regs = regs, .vec = 1};
    vec_push(a, &s->axes, x);
    return &s->axes.v[s->axes.n - 1];
}

static int regs_for(const Facts *f, int axis, int regs) {
    if (f->fixed & axis_bit(axis)) return 1;
    while (regs > 1 && extent_of(f->t, axis) < regs) regs /= 2;
    return regs;
}

static int best_grid_axis(const Facts *f) {
    int best = f->t->ngrid - 1;
    for (int a = f->t->ngrid - 1; a >= 0; a--)
        if (f->contiguous[a] > f->contiguous[best]) best = a;
    return best;
}

static bool laid(const Schedule *s, int axis) {
    for (int i = 0; i < s->axes.n; i++)
        if (s->axes.v[i].axis == axis) return true;
    return false;
}

/* Lanes that are left go to the grid axes not laid out yet, last first; the rest get one element.
 */
static void lay_rest(Facts *f, Arena *a, Schedule *s, int left) {
    for (int x = f->t->ngrid - 1; x >= 0; x--) {
        if (laid(s, x)) continue;
        int l = lanes_for(f->t, x, left);
        layout(a, s, x, l, 1);
        left /= l;
    }
}

/* The loop that stands in a loop, if one more stands in it. */
static const TInst *loop_between(const TInst *loop) {
    for (int k = 0; k < loop->body.inst.n; k++) {
        const TInst *i = loop->body.inst.v[k];
        if (i->kind != T_LOOP) continue;
        for (int n = 0; n < i->body.inst.n; n++)
            if (i->body.inst.v[n]->kind == T_LOOP) return i;
    }
    return NULL;
}

static bool has_loop(const TInst *loop) {
    for (int k = 0; k < loop->body.inst.n; k++)
        if (loop->body.inst.v[k]->kind == T_LOOP) return true;
    return false;
}

/* The only loop inside of the only one, if it holds no further: its loads can be in flight. */
static const TInst *lone_inner(const Facts *f) {
    const TInst *found = NULL, *loop = f->loops.v[0];
    const TBlock *b = &loop->body;
    for (int k = 0; k < loop->body.inst.n; k++)
        if (loop->body.inst.v[k]->kind == T_GUARD) { /* one, around all but its condition */
            if (k + 1 < loop->body.inst.n || has_loop(loop)) return NULL;
            b = &loop->body.inst.v[k]->body;
        }
    for (int k = 0; k < b->inst.n; k++) {
        const TInst *i = b->inst.v[k];
        if (i->kind == T_GUARD || (i->kind == T_LOOP && found)) return NULL;
        if (i->kind == T_LOOP) found = i;
    }
    return f->loops.n == 1 && found && !has_loop(found) ? found : NULL;
}

static void lay_loops(Facts *f, Arena *a, Schedule *s, int lanes, int regs) {
    for (int i = 0; i < f->loops.n; i++) {
        const TInst *loop = f->loops.v[i];
        if (laid(s, loop->axis)) continue;
        SAxis *x = layout(a, s, loop->axis, lanes, regs_for(f, loop->axis, regs));
        x->shared = i > 0;
    }
    const TInst *inner = lone_inner(f);
    if (inner) layout(a, s, inner->axis, 1, regs_for(f, inner->axis, regs));
}

static void map_shape(Facts *f, Arena *a, Schedule *s, int c) {
    int regs = f->bytes >= 4 ? 4 : 8, lanes = lanes_for(f->t, c, THREADS);
    if (lanes < 32 && f->t->ngrid == 1) lanes = 32;
    int used = regs_for(f, c, regs);
    while (used > 1 && extent_of(f->t, c) < (int64_t)lanes * used) used /= 2;
    layout(a, s, c, lanes, used);
    for (int x = f->t->ngrid - 1; x >= 0 && used < regs; x--) { /* loads in flight, elsewhere */
        if (laid(s, x)) continue;
        int more = regs_for(f, x, regs / used), l = lanes_for(f->t, x, THREADS / lanes);
        layout(a, s, x, l, more);
        lanes *= l;
        used *= more;
    }
    lay_rest(f, a, s, THREADS / lanes > 0 ? THREADS / lanes : 1);
}

/* Two grid axes of which loads in the loop have one and lack the other; false: none. */
static bool reuse_axes(const Facts *f, int *m, int *n) {
    *m = *n = -1;
    for (int x = f->t->ngrid - 1; x >= 0; x--) {
        bool thin = !f->invariant && extent_of(f->t, x) < 8;
        if (!(f->lacks & f->has & axis_bit(x)) || thin) continue;
        if (*n < 0)
            *n = x;
        else if (*m < 0)
            *m = x;
    }
    return *m >= 0;
}

enum { BLOCK_MAX = 256 };

/* The axis of a short loop with a loop inside, and a grid axis that loads with it lack. */
static bool block_axes(const Facts *f, int *m, int *n) {
    if (f->loops.n != 1 || !has_loop(f->loops.v[0])) return false;
    int loop = f->loops.v[0]->axis, grid = -1;
    uint64_t reused = f->lacks & f->has;
    for (int x = 0; x < f->t->ngrid; x++)
        if (reused & axis_bit(x) & ~f->with[loop]) grid = x;
    if (grid < 0 || !(reused & axis_bit(loop)) || extent_of(f->t, loop) > BLOCK_MAX) return false;
    bool first = f->contiguous[loop] >= f->contiguous[grid];
    *n = first ? loop : grid;
    *m = first ? grid : loop;
    return true;
}

/* 16 x 16 lanes, 4 x 4 registers. */
static void tile_shape(Facts *f, Arena *a, Schedule *s, int m, int n) {
    layout(a, s, n, lanes_for(f->t, n, 16), regs_for(f, n, 4));
    layout(a, s, m, lanes_for(f->t, m, 16), regs_for(f, m, 4));
    lay_rest(f, a, s, 1);
}

static void fold_shape(Facts *f, Arena *a, Schedule *s) {
    const TProg *t = f->t;
    int loop = f->loops.v[0]->axis, lanes = 32;
    int64_t longest = 0;
    for (int i = 0; i < f->loops.n; i++)
        if (extent_of(t, f->loops.v[i]->axis) > longest)
            longest = extent_of(t, f->loops.v[i]->axis);
    int most = t->ngrid ? THREADS : 1024;
    while (lanes < most && lanes * 8 < longest) lanes *= 2;
    int c = t->ngrid ? best_grid_axis(f) : -1;
    bool columns = c >= 0 && f->contiguous[c] > f->contiguous[loop];
    if (columns) {
        int across = lanes_for(t, c, 32);
        layout(a, s, c, across, 1);
        lay_loops(f, a, s, THREADS / 32, 4);
        lay_rest(f, a, s, 32 / across);
        return;
    }
    lay_loops(f, a, s, lanes, 4);
    lay_rest(f, a, s, lanes < THREADS ? THREADS / lanes : 1);
}

static bool has_store(const TInst *loop) {
    for (int k = 0; k < loop->body.inst.n; k++)
        if (loop->body.inst.v[k]->kind == T_STORE) return true;
    return false;
}

static bool loop_is_cuttable(const Facts *f) {
    for (int i = 0; i < f->loops.n; i++)
        if (f->loops.v[i]->carries.n == 0 && !has_store(f->loops.v[i])) return false;
    return f->loops.n > 0;
}

static Schedule *schedule_general(Arena *a, const TProg *t, const PassCtx *cx) {
    Facts f;
    gather_facts(&f, a, t, cx->invariant);
    Schedule *s = ARENA_NEW(a, Schedule);
    s->name = "general";
    s->target = "sm_80";
    int m, n;
    if (f.nibbles && t->ngrid) { /* a lone nibble has its byte to itself */
        SAxis *x = layout(a, s, t->ngrid - 1, lanes_for(t, t->ngrid - 1, THREADS / 2), 1);
        x->vec = 2;
        lay_rest(&f, a, s, THREADS / x->lanes);
    } else if (!cx->strict && loop_is_cuttable(&f) && block_axes(&f, &m, &n)) {
        tile_shape(&f, a, s, m, n);
        const TInst *between = loop_between(f.loops.v[0]);
        if (between) layout(a, s, between->axis, 1, regs_for(&f, between->axis, 4));
    } else if (f.loops.n && reuse_axes(&f, &m, &n)) {
        tile_shape(&f, a, s, m, n);
    } else if (!cx->strict && loop_is_cuttable(&f)) {
        fold_shape(&f, a, s);
    } else if (t->ngrid) {
        map_shape(&f, a, s, best_grid_axis(&f));
    }
    s->threads = 1;
    for (int i = 0; i < s->axes.n; i++)
        if (!s->axes.v[i].shared) s->threads *= s->axes.v[i].lanes;
    return s;
}

bool pass_schedule(PassCtx *cx, Graph *g) {
    if (!cx->plan || cx->plan->graph != g) pass_tile(cx, g);
    Plan *p = cx->plan;
    for (int i = 0; i < p->steps.n; i++) {
        Step *s = &p->steps.v[i];
        s->schedules.n = 0;
        const Ix *cost = schedule_wgmma(cx, s);
        schedule_mma(cx, s);
        schedule_online(cx, s);
        s->why = s->schedules.n ? NULL : schedule_why(cx, s);
        schedule_rows(cx, s);
        Schedule *general = schedule_general(cx->arena, s->tile, cx);
        general->cost = cost;
        vec_push(cx->arena, &s->schedules, general);
    }
    return true;
}
