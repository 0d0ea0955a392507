/* online_where.c - which tile a CTA works on, and which blocks of j it has.
 *
 * Batches are walked in sections of `raster`, within one tile of rows by tile of rows, those with
 * most blocks first, batches fastest: what a section loads stays in the cache, and the last tiles
 * to begin are short.
 */
#include "backend/nvptx/online_int.h"

#include <string.h>

static const Ix *row_tiles(const On *on) {
    IxPool *p = on->o.t->ix;
    const Ix *n = ix_add(p, on->o.t->axes.v[on->o.rows].extent, ix_const(p, on->t.out.m - 1));
    return ix_div(p, n, ix_const(p, on->t.out.m));
}

static const Ix *batches(const On *on) {
    IxPool *p = on->o.t->ix;
    const Ix *n = ix_const(p, 1);
    for (int k = 0; k < on->t.nbatches; k++)
        n = ix_mul(p, n, on->o.t->axes.v[on->t.batch[k]].extent);
    return n;
}

const Ix *on_tiles_all(const On *on) {
    return ix_mul(on->o.t->ix, row_tiles(on), batches(on));
}

/* A divisor that is the same for all tiles, and floor((2^32 - 1) / it), which the host computes: a
 * tile is decoded while nothing is multiplied, and a division takes long. NULL where bounds of j
 * do not move with the rows: these kernels lost by it (tests/bench/RESULTS.md). */
typedef struct Divisor {
    Val n, inverse; /* i32 */
} Divisor;

static Divisor divisor(On *on, const Ix *n) {
    IxPool *p = on->o.t->ix;
    if (on->t.sync || !(on->lo_moves || on->hi_moves)) return (Divisor){uniform32(&on->w, n), NULL};
    const Ix *one = ix_max(p, n, ix_const(p, 1)); /* where there is none, there are no tiles */
    const Ix *inverse = ix_div(p, ix_const(p, UINT32_MAX), one);
    return (Divisor){uniform32(&on->w, n), uniform32(&on->w, inverse)};
}

/* *at / n of what is below 2^31; *at: what is left. The first quotient is right, or 1 too small. */
static Val cut(On *on, Val *at, Divisor d) {
    Lower *l = on->l;
    if (!d.inverse) {
        Val all = LLVMBuildUDiv(l->b, *at, d.n, "");
        *at = LLVMBuildSub(l->b, *at, LLVMBuildMul(l->b, all, d.n, ""), "");
        return all;
    }
    Val wide = LLVMBuildMul(l->b, LLVMBuildZExt(l->b, *at, l->i64, ""),
                            LLVMBuildZExt(l->b, d.inverse, l->i64, ""), "");
    wide = LLVMBuildLShr(l->b, wide, LLVMConstInt(l->i64, 32, 0), "");
    Val q = LLVMBuildTrunc(l->b, wide, l->i32, "");
    Val left = LLVMBuildSub(l->b, *at, LLVMBuildMul(l->b, q, d.n, ""), "");
    Val more = LLVMBuildICmp(l->b, LLVMIntUGE, left, d.n, "");
    *at = LLVMBuildSelect(l->b, more, LLVMBuildSub(l->b, left, d.n, ""), left, "");
    return LLVMBuildAdd(l->b, q, LLVMBuildZExt(l->b, more, l->i32, ""), "");
}

/* Of the batches of a section: its raster, or what is left of them. */
static Divisor section_divisor(On *on, Val batch, int raster) {
    Lower *l = on->l;
    IxPool *p = on->o.t->ix;
    Val left = LLVMBuildSub(l->b, uniform32(&on->w, batches(on)), batch, "");
    Val few = LLVMBuildICmp(l->b, LLVMIntULT, left, i32c(l, raster), "");
    Divisor all = divisor(on, ix_const(p, raster));
    all.n = LLVMBuildSelect(l->b, few, left, all.n, "");
    if (!all.inverse) return all;
    Divisor rest = divisor(on, ix_mod(p, batches(on), ix_const(p, raster)));
    all.inverse = LLVMBuildSelect(l->b, few, rest.inverse, all.inverse, "");
    return all;
}

/* A bound of j at a row, i64. */
static Val bound_at(On *on, const Ix *x, Val row) {
    AxisState saved = on->l->axis[on->o.rows];
    wg_open_one(&on->w, on->o.rows, row);
    Frag f = frag_ix(on->l, x);
    on->l->axis[on->o.rows] = saved;
    return frag_only(&f, "a bound");
}

static Val pick(On *on, bool greater, Val a, Val b) {
    Lower *l = on->l;
    Val is = LLVMBuildICmp(l->b, greater ? LLVMIntSGT : LLVMIntSLT, a, b, "");
    return LLVMBuildSelect(l->b, is, a, b, "");
}

/* The least and greatest value of a bound over rows [a, b]; where it moves as it likes: any. */
static void bound_range(On *on, const Ix *x, int moves, Val a, Val b, Val *least, Val *most) {
    Lower *l = on->l;
    if (moves == ONLINE_ANY) {
        *least = LLVMConstInt(l->i64, 0, 0);
        *most = uniform_ix(l, l->t->axes.v[on->o.j].extent);
        return;
    }
    Val at_a = bound_at(on, x, a), at_b = moves ? bound_at(on, x, b) : at_a;
    *least = moves < 0 ? at_b : at_a;
    *most = moves < 0 ? at_a : at_b;
}

static Val in_j(On *on, Val v) {
    return on_clamp32(on, pick(on, true, v, LLVMConstInt(on->l->i64, 0, 0)));
}

static Val last_row(On *on) {
    return LLVMBuildSub(on->l->b, uniform_ix(on->l, on->l->t->axes.v[on->o.rows].extent),
                        LLVMConstInt(on->l->i64, 1, 0), "");
}

/* The bounds of rows [a, a + n) that there are. */
static void bounds_of(On *on, Val a, int n) {
    Lower *l = on->l;
    Val last = LLVMBuildAdd(l->b, a, LLVMConstInt(l->i64, (unsigned)n - 1, 0), "");
    last = pick(on, false, last, last_row(on));
    Val lo, lo_most, hi_least, hi;
    bound_range(on, on->o.loop->lo, on->lo_moves, a, last, &lo, &lo_most);
    bound_range(on, on->o.loop->hi, on->hi_moves, a, last, &hi_least, &hi);
    on_set_bounds(on, in_j(on, lo), in_j(on, lo_most), in_j(on, hi_least), in_j(on, hi));
}

void on_bounds_of_group(On *on) {
    Lower *l = on->l;
    OnRange all = {.first = on->first, .end = on->end, .whole = on->whole, .beyond = on->beyond};
    Val least = on->lo_least, most = on->hi_most;
    on->mine = all;
    if (!on->by_group) {
        on_part_bounds(on, &on->mine, on->hi_rows);
        return;
    }
    Val row = on_rows_by(on, 64);
    row = LLVMBuildAdd(l->b, on->row0, LLVMBuildZExt(l->b, row, l->i64, ""), "");
    bounds_of(on, row, 64);
    Val none = LLVMBuildICmp(l->b, LLVMIntSLT, last_row(on), row, "");
    on->mine =
        (OnRange){.first = on->first, .end = on->end, .whole = on->whole, .beyond = on->beyond};
    on->mine.end = LLVMBuildSelect(l->b, none, on->first, on->end, "");
    on_part_bounds(on, &on->mine, on->hi_rows);
    on->first = all.first, on->end = all.end, on->whole = all.whole, on->beyond = all.beyond;
    on->lo_least = least, on->hi_most = most;
}

OnRanges on_ranges(const On *on) {
    OnRange all = {.first = on->first, .end = on->end, .whole = on->whole, .beyond = on->beyond};
    return (OnRanges){all, on->mine, on->lo_least, on->hi_most};
}

void on_set_ranges(On *on, const OnRanges *r) {
    on->first = r->all.first, on->end = r->all.end;
    on->whole = r->all.whole, on->beyond = r->all.beyond;
    on->mine = r->mine;
    on->lo_least = r->lo_least, on->hi_most = r->hi_most;
}

void on_set_bounds(On *on, Val lo, Val lo_most, Val hi_least, Val hi) {
    Lower *l = on->l;
    Val n = i32c(l, on->t.j), up = i32c(l, on->t.j - 1);
    on->lo_least = lo, on->hi_most = on->hi_rows = hi;
    on->first = LLVMBuildUDiv(l->b, lo, n, "");
    on->end = LLVMBuildUDiv(l->b, LLVMBuildAdd(l->b, hi, up, ""), n, "");
    on->whole = LLVMBuildUDiv(l->b, LLVMBuildAdd(l->b, lo_most, up, ""), n, "");
    on->beyond = LLVMBuildUDiv(l->b, hi_least, n, "");
    /* beyond: the first block that may hang over the end; it is whole as far as it begins below */
    Val none = LLVMBuildICmp(l->b, LLVMIntSLE, hi, lo, "");
    on->end = LLVMBuildSelect(l->b, none, on->first, on->end, "");
}

/* What no row at all has is what factors are scrubbed of: bounds of all rows, not of the tile's. */
static void bounds_of_all(On *on) {
    Val lo, hi, rest, zero = LLVMConstInt(on->l->i64, 0, 0);
    if (on->t.out.picked) return;
    bound_range(on, on->o.loop->lo, on->lo_moves, zero, last_row(on), &lo, &rest);
    bound_range(on, on->o.loop->hi, on->hi_moves, zero, last_row(on), &rest, &hi);
    on->lo_least = in_j(on, lo), on->hi_most = in_j(on, hi);
}

/* The values that x reads, by `emit`. */
static void emit_values(On *on, const Ix *x, void (*emit)(On *, int)) {
    if (x->kind == IX_VALUE) emit(on, (int)x->num);
    for (int k = 0; k < x->n; k++) emit_values(on, x->arg[k], emit);
}

void on_make(On *on, int id) {
    const TInst *i = on->l->def[id];
    if (!i || on->l->value[id].n) return;
    for (int k = 0; k < i->nargs; k++) on_make(on, i->args[k]);
    for (int k = 0; k < i->nix; k++) on_make_ix(on, i->ix[k]);
    emit_inst(on->l, i);
}

void on_make_ix(On *on, const Ix *x) {
    emit_values(on, x, on_make);
}

void on_emit_value(On *on, int id) {
    if (!(on->l->deps[id] >> on->o.rows & 1)) on_make(on, id); /* of rows: later */
}

void on_place(On *on, Val tile) {
    Lower *l = on->l;
    IxPool *p = l->t->ix;
    int raster = l->s->raster > 1 ? l->s->raster : 1;
    Val at = tile, tiles = uniform32(&on->w, row_tiles(on));
    Val section = cut(on, &at, divisor(on, ix_mul(p, row_tiles(on), ix_const(p, raster))));
    Val batch = LLVMBuildMul(l->b, section, i32c(l, raster), "");
    Val m = at;
    if (raster > 1) {
        m = cut(on, &at, section_divisor(on, batch, raster));
        batch = LLVMBuildAdd(l->b, batch, at, "");
    }
    if (on->hi_moves == 1) m = LLVMBuildSub(l->b, LLVMBuildSub(l->b, tiles, i32c(l, 1), ""), m, "");
    for (int k = on->t.nbatches - 1; k >= 0; k--) {
        int a = on->t.batch[k];
        Val rest = batch;
        if (k) batch = cut(on, &rest, divisor(on, l->t->axes.v[a].extent));
        wg_open_one(&on->w, a, LLVMBuildZExt(l->b, rest, l->i64, ""));
    }
    on->row0 = LLVMBuildZExt(l->b, LLVMBuildMul(l->b, m, i32c(l, on->t.out.m), ""), l->i64, "");
}

void on_open(On *on, Val tile) {
    Lower *l = on->l;
    memset(l->value, 0, sizeof *l->value * (size_t)(l->t->nvalues + 1));
    on_place(on, tile);
    emit_values(on, on->o.loop->lo, on_emit_value); /* what the bounds need that stands before */
    emit_values(on, on->o.loop->hi, on_emit_value);
}

void on_decode(On *on, Val item) {
    OnWork k = on_work(on, item);
    on_open(on, k.tile);
    bounds_of(on, on->row0, on->t.out.m);
    bounds_of_all(on);
    on_work_blocks(on, &k);
}

/* ---- rows and columns of a group ---- */

Val on_rows_by(On *on, int n) {
    Lower *l = on->l;
    return on->t.beside ? i32c(l, 0) : LLVMBuildMul(l->b, on->w.group, i32c(l, n), "");
}

Val on_cols_by(On *on, int n) {
    Lower *l = on->l;
    return on->t.beside ? LLVMBuildMul(l->b, on->w.group, i32c(l, n), "") : i32c(l, 0);
}

Val on_row_first(On *on) {
    Lower *l = on->l;
    Val row = LLVMBuildZExt(l->b, on_rows_by(on, on->t.out.group_rows), l->i64, "");
    return LLVMBuildAdd(l->b, on->row0, row, "");
}

Val on_row_at(On *on) {
    Lower *l = on->l;
    return LLVMBuildAdd(l->b, on_row_first(on), LLVMBuildZExt(l->b, on->w.row, l->i64, ""), "");
}

Val on_rows_left(On *on) {
    Lower *l = on->l;
    Val n = uniform_ix(l, l->t->axes.v[on->o.rows].extent), zero = i32c(l, 0), all = i32c(l, 64);
    n = on_clamp32(on, LLVMBuildSub(l->b, n, on_row_first(on), ""));
    n = LLVMBuildSelect(l->b, LLVMBuildICmp(l->b, LLVMIntSGT, n, all, ""), all, n, "");
    return LLVMBuildSelect(l->b, LLVMBuildICmp(l->b, LLVMIntSGT, n, zero, ""), n, zero, "");
}
