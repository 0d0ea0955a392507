/* mma_nest.c - a program that loops over a block of a contraction's result, seen as one that does
 * not:
 *
 *     grid nb, m                                  grid m, n
 *     loop ni from 0 to min(N - 128*nb, 128) {    loop k { .. w[n, k] .. }
 *       carry s = sum                             store y[m, n]
 *       loop k { .. w[128*nb + ni, k] .. }        loop: carry s = sum, step s     (`blocks`)
 *       store y[m, 128*nb + ni]               ->  store p[nb, m], s
 *       step s
 *     }
 *     store p[nb, m], s
 *
 * The position 128*nb + ni becomes an axis of the grid. Values keep their numbers. What follows the
 * loop is done once a block, and nb is an axis beside the grid then. Two loops, one in the other,
 * are of blocks of rows and of columns.
 *
 * What is carried may be in a frame (tile.h), which moves once a block or more often.
 *
 * Everything in the loops must be a function of positions: nb and ni stand nowhere else.
 */
#include "ir/mma_int.h"

#include <string.h>

#define no mma_no

enum { LOOPS = 2 };

typedef struct Nest {
    const TProg *from;
    TProg *t; /* the view */
    MmaNest *to;
    const TInst *loop[LOOPS]; /* outermost first */
    int n;
    int size[LOOPS], number[LOOPS]; /* of a block; the axis of `from` that numbers them, -1 */
    const Ix *extent[LOOPS];        /* of what is cut */
    const Ix **in, **after;         /* per axis of `from`: in the loops, behind them */
} Nest;

/* ---- the loops ------------------------------------------------------------------------------- */

static const TInst *loop_in(const TBlock *b) {
    for (int k = 0; k < b->inst.n; k++)
        if (b->inst.v[k]->kind == T_LOOP) return b->inst.v[k];
    return NULL;
}

/* False: the outermost loop holds no other. */
static bool find_loops(Nest *x) {
    const TInst *loop = loop_in(&x->from->body), *inner;
    for (; loop && (inner = loop_in(&loop->body)); loop = inner) {
        if (x->n < LOOPS) x->loop[x->n] = loop;
        x->n++;
    }
    return x->n > 0;
}

static bool numbers(const TProg *t, const Ix *x, int inner, int64_t size, int *number) {
    const Ix *rest;
    int64_t coef;
    if (!ix_linear_in(t->ix, x, inner, &coef, &rest) || coef != 1) return false;
    for (int a = 0; a < t->ngrid; a++)
        if (ix_linear_in(t->ix, rest, a, &coef, &rest) && coef == size) {
            *number = a;
            return true;
        }
    return false;
}

/* The grid axis that numbers the blocks of `inner`, as the first index says that is linear in it;
 * -1: none, the loop is over all there is. */
static int find_number(const TProg *t, const TBlock *b, int inner, int64_t size) {
    int number = -1;
    for (int k = 0; k < b->inst.n && number < 0; k++) {
        const TInst *i = b->inst.v[k];
        for (int d = 0; d < i->nix && number < 0; d++)
            if (ix_uses_axis(i->ix[d], inner)) numbers(t, i->ix[d], inner, size, &number);
        if (number < 0) number = find_number(t, &i->body, inner, size);
    }
    return number;
}

/* What there are of elements, told by the end of the loop: min(E - size*number, size), or size. */
const Ix *mma_cut_extent(const TProg *t, const TInst *loop, int64_t elements, int number) {
    IxPool *p = t->ix;
    const Ix *size = ix_const(p, elements), *e = NULL;
    if (number < 0) return loop->hi == size ? size : NULL;
    const Ix *blocks = t->axes.v[number].extent, *of = ix_mul(p, ix_axis(p, number), size);
    if (loop->hi == size) e = ix_mul(p, blocks, size);
    for (int i = 0; i < loop->hi->n && loop->hi->kind == IX_MIN && !e; i++) {
        const Ix *sum = ix_add(p, loop->hi->arg[i], of);
        if (!sum->has_axis && !sum->has_value && ix_min(p, ix_sub(p, sum, of), size) == loop->hi)
            e = sum;
    }
    if (!e || blocks != ix_div(p, ix_add(p, e, ix_const(p, elements - 1)), size)) return NULL;
    return e;
}

static bool read_loop(Nest *x, int k, Str *why) {
    const TProg *t = x->from;
    const TInst *loop = x->loop[k];
    const char *name = t->axes.v[loop->axis].name;
    int64_t size;
    if (!ix_is_const(t->axes.v[loop->axis].extent, &size) || size < 1 || size > MMA_BLOCK_MOST ||
        !ix_is_const(loop->lo, NULL) || loop->lo->num != 0)
        return no(why, "the loop over %s is not of a block", name);
    x->size[k] = (int)size;
    x->number[k] = find_number(t, &loop->body, loop->axis, size);
    x->extent[k] = mma_cut_extent(t, loop, size, x->number[k]);
    if (!x->extent[k]) return no(why, "the loop over %s does not cover its block", name);
    if (k && loop->carries.n) return no(why, "the loop over %s carries values", name);
    return true;
}

/* ---- axes ------------------------------------------------------------------------------------ */

static int add_axis(Nest *x, TAxis a) {
    vec_push(x->from->arena, &x->t->axes, a);
    return x->t->axes.n - 1;
}

static void add_elements(Nest *x, int k) {
    TAxis a = {x->from->axes.v[x->loop[k]->axis].name, x->extent[k], true, 1};
    x->to->block[k] = (MmaBlock){.axis = add_axis(x, a), .size = x->size[k], .number = -1};
    x->to->axis[x->loop[k]->axis] = x->to->block[k].axis;
}

/* The loop whose blocks axis `a` of `from` numbers; -1. */
static int numbered(const Nest *x, int a) {
    for (int k = 0; k < x->n; k++)
        if (x->number[k] == a) return k;
    return -1;
}

enum { ROWS_MOST = 64 }; /* blocks of rows, as passes/block.c cuts them */

/* Elements of rows go where their numbers were, of columns last, so that rows are the earlier axis;
 * of what is not cut, the smaller first. */
static void add_grid(Nest *x) {
    const TProg *t = x->from;
    for (int a = 0; a < t->ngrid; a++) {
        int k = numbered(x, a);
        if (k < 0) x->to->axis[a] = add_axis(x, t->axes.v[a]);
        if (k >= 0 && x->size[k] <= ROWS_MOST) add_elements(x, k);
    }
    for (int turn = 0; turn < x->n; turn++) {
        int next = -1;
        for (int k = 0; k < x->n; k++)
            if (!x->to->block[k].size && (next < 0 || x->size[k] < x->size[next])) next = k;
        if (next >= 0) add_elements(x, next);
    }
    x->t->ngrid = x->t->axes.n;
}

static void map_axes(Nest *x) {
    const TProg *t = x->from;
    IxPool *p = t->ix;
    memset(&x->t->axes, 0, sizeof x->t->axes);
    for (int a = 0; a < t->axes.n; a++) x->to->axis[a] = -1;
    add_grid(x);
    for (int a = 0; a < t->axes.n; a++) {
        int k = numbered(x, a);
        if (x->to->axis[a] < 0) {
            TAxis axis = t->axes.v[a];
            axis.grid = false;
            x->to->axis[a] = add_axis(x, axis);
            if (k >= 0) x->to->block[k].number = x->to->axis[a];
        }
        x->after[a] = ix_axis(p, x->to->axis[a]);
        x->in[a] = k >= 0 ? ix_const(p, 0) : x->after[a];
    }
}

/* ---- instructions ---------------------------------------------------------------------------- */

/* Is x a function of positions: the same when 0 stands for the number of a block, and the position
 * for what is inside? */
static bool only_positions(const Nest *x, const Ix *ix) {
    IxPool *p = x->from->ix;
    const Ix **same = ARENA_ARRAY(x->from->arena, const Ix *, x->from->axes.n);
    for (int k = 0; k < x->n; k++) {
        int number = x->number[k];
        if (number < 0) continue;
        const Ix *inner = ix_axis(p, x->loop[k]->axis);
        same[number] = ix_const(p, 0);
        same[x->loop[k]->axis] =
            ix_add(p, ix_mul(p, ix_axis(p, number), ix_const(p, x->size[k])), inner);
    }
    return ix_at(p, ix, same, x->from->axes.n) == ix;
}

static bool check_positions(const Nest *x, const TBlock *b, Str *why) {
    for (int k = 0; k < b->inst.n; k++) {
        const TInst *i = b->inst.v[k];
        bool of_blocks = i == x->loop[0] || i == x->loop[1];
        bool fine = of_blocks || i->kind != T_LOOP ||
                    (only_positions(x, i->lo) && only_positions(x, i->hi));
        for (int d = 0; d < i->nix; d++) fine &= only_positions(x, i->ix[d]);
        if (!fine) return no(why, "an index in the loops depends on the number of a block");
        if (!check_positions(x, &i->body, why)) return false;
    }
    return true;
}

static TInst *copied(const Nest *x, const TInst *i, const Ix *const *map) {
    const TProg *t = x->from;
    TInst *c = ARENA_NEW(t->arena, TInst);
    *c = *i;
    c->ix = ARENA_ARRAY(t->arena, const Ix *, i->nix);
    for (int d = 0; d < i->nix; d++) c->ix[d] = ix_at(t->ix, i->ix[d], map, t->axes.n);
    if (i->kind != T_LOOP) return c;
    c->axis = x->to->axis[i->axis];
    c->lo = ix_at(t->ix, i->lo, map, t->axes.n), c->hi = ix_at(t->ix, i->hi, map, t->axes.n);
    c->body = (TBlock){0};
    for (int k = 0; k < i->body.inst.n; k++)
        vec_push(t->arena, &c->body.inst, copied(x, i->body.inst.v[k], map));
    return c;
}

static bool uses_number(const Nest *x, const TInst *i) {
    for (int d = 0; d < i->nix; d++)
        for (int k = 0; k < x->n; k++)
            if (x->number[k] >= 0 && ix_uses_axis(i->ix[d], x->number[k])) return true;
    return false;
}

/* What stands in the loops around the innermost; steps go to `blocks`. */
static bool copy_loop(const Nest *x, int k, TInst *blocks, Str *why) {
    const TProg *t = x->from;
    const TBlock *b = &x->loop[k]->body;
    for (int n = 0; n < b->inst.n; n++) {
        const TInst *i = b->inst.v[n];
        bool deeper = k + 1 < LOOPS && i == x->loop[k + 1];
        if (i->kind == T_GUARD) return no(why, "a guard");
        if (deeper && !copy_loop(x, k + 1, blocks, why)) return false;
        if (deeper) continue;
        TBlock *to = i->kind == T_STEP ? &blocks->body : &x->t->body;
        vec_push(t->arena, &to->inst, copied(x, i, x->in));
    }
    return true;
}

static bool copy_all(const Nest *x, Str *why) {
    const TProg *t = x->from;
    TProg *to = x->t;
    TInst *blocks = ARENA_NEW(t->arena, TInst);
    *blocks = *x->loop[0];
    blocks->axis = x->to->block[0].axis;
    blocks->lo = blocks->hi = ix_const(t->ix, 0);
    blocks->body = to->body = (TBlock){0};
    for (int k = 0; k < t->body.inst.n; k++) {
        const TInst *i = t->body.inst.v[k];
        if (i == x->loop[0]) {
            x->to->before = to->body.inst.n;
            if (!copy_loop(x, 0, blocks, why)) return false;
            x->to->rest = to->body.inst.n;
            vec_push(t->arena, &to->body.inst, blocks);
            x->to->blocks = blocks;
            continue;
        }
        if (i->kind == T_GUARD) return no(why, "a guard");
        if (i->kind == T_LOOP) return no(why, "a second loop");
        if (!x->to->blocks && (i->kind == T_STORE || uses_number(x, i)))
            return no(why, "something is done for each block before its loop");
        vec_push(t->arena, &to->body.inst, copied(x, i, x->after));
    }
    return true;
}

bool mma_nest(const TProg *t, MmaNest *to, Str *why) {
    Arena *a = t->arena;
    MmaStrips strips;
    if (!(t = mma_strips(t, &strips, why))) return false;
    Nest x = {.from = t, .to = to};
    *to = (MmaNest){
        .t = t, .rest = t->body.inst.n, .axis = ARENA_ARRAY(a, int, t->axes.n), .strips = strips};
    for (int k = 0; k < t->axes.n; k++) to->axis[k] = k;
    if (!find_loops(&x)) return true;
    if (x.n > LOOPS) return no(why, "%d loops in one another", x.n + 1);
    for (int k = 0; k < x.n; k++)
        if (!read_loop(&x, k, why)) return false;
    if (x.n == 2 && x.number[0] >= 0 && x.number[0] == x.number[1])
        return no(why, "two loops over blocks of one axis");
    if (!check_positions(&x, &x.loop[0]->body, why)) return false;
    x.t = ARENA_NEW(a, TProg);
    *x.t = *t;
    x.in = ARENA_ARRAY(a, const Ix *, t->axes.n);
    x.after = ARENA_ARRAY(a, const Ix *, t->axes.n);
    map_axes(&x);
    to->t = x.t;
    return copy_all(&x, why);
}

/* ---- tiles ----------------------------------------------------------------------------------- */

int mma_block_rows(const Mma *m, const MmaTiles *w) {
    return m->row_block.number < 0 ? w->group_rows : m->row_block.size;
}

enum { WARPS = 4, PART_COLS = 32 }; /* of a group; most columns worked on together without slabs */

void mma_lay_blocks(const Mma *m, MmaTiles *w) {
    if (!m->row_block.size || mma_block_rows(m, w) > w->group_rows) return;
    int lines = WARPS * w->group_rows / mma_block_rows(m, w), bytes = 0;
    w->reduce_cols = m->col_block.size ? 1 : w->chunk ? w->chunk : PART_COLS;
    for (int c = 0; c < m->nest.blocks->carries.n; c++) {
        bool wide = dtype_value(m->nest.blocks->carries.v[c].type) == DT_i64;
        bytes += lines * w->reduce_cols * (wide ? 8 : 4);
    }
    w->reduce_bytes = bytes;
    w->reduce_at = (w->smem + 15) / 16 * 16;
    w->smem = w->reduce_at + w->groups * bytes;
}

/* Registers that hold a group's partial sums. */
static int held(const Mma *m, const MmaTiles *w) {
    int each = !m->col_block.size  ? 0
               : m->row_block.size ? w->group_rows / mma_block_rows(m, w)
                                   : w->group_rows / 32;
    return each * m->nest.blocks->carries.n;
}

static bool fits_rows(const MmaBlock *b, const MmaTiles *w) {
    if (!b->size) return true;
    if (b->number < 0) return b->size <= w->m && b->size <= w->group_rows && w->pair_rows == 1;
    return !w->thin && b->size % 64 == 0 && w->group_rows % b->size == 0;
}

/* Sets w->walk. */
static bool fits_cols(const MmaBlock *b, MmaTiles *w) {
    if (!b->size) return true;
    bool whole = b->number < 0;
    if (whole || b->size > w->n) {
        w->walk = (b->size + w->n - 1) / w->n;
        return w->pair_cols == 1 && (whole || b->size % w->n == 0);
    }
    return w->n % b->size == 0 && (!w->chunk || b->size % w->chunk == 0);
}

bool mma_has_frames(const TInst *loop) {
    for (int c = 0; c < loop->carries.n; c++)
        if (loop->carries.v[c].frame >= 0) return true;
    return false;
}

bool mma_fits_blocks(const Mma *m, MmaTiles *w, bool pingpong, Str *why) {
    w->walk = 1;
    if (!m->nest.blocks) return true;
    if (w->split > 1) return no(why, "with reductions nothing is split");
    if (!fits_rows(&m->row_block, w))
        return no(why, "tiles of %d rows, of which %d are reduced together", w->m,
                  m->row_block.size);
    if (!fits_cols(&m->col_block, w))
        return no(why, "tiles of %d columns, of which %d are reduced together", w->n,
                  m->col_block.size);
    if (mma_has_frames(m->nest.blocks) && (!m->col_block.size || m->row_block.size))
        return no(why, "frames are of columns that are reduced, alone");
    if (w->walk > 1 && (pingpong || m->row_block.size))
        return no(why, "a block of %d columns is walked by all groups, for its rows",
                  m->col_block.size);
    int sums = w->blocks * w->width / 2;
    if (w->promote) sums += w->sets * w->piece_blocks * w->piece_n / 2;
    if (sums + held(m, w) > w->mma_regs - 24)
        return no(why, "%d accumulators and %d sums of them in %d registers", sums, held(m, w),
                  w->mma_regs);
    return true;
}
