/* schedule_online_price.c - what a candidate for a loop that multiplies, works on and multiplies
 * again is predicted to take, from what was measured of its shape (schedule_online.c).
 */
#include "passes/schedule_online_int.h"

#include "passes/cost_int.h"

static int up8(int64_t n) {
    return (int)((n + 7) / 8 * 8);
}

int online_rows(const Shape *c) {
    int rows = c->regs ? c->rows : 64;
    return c->beside ? rows : rows * c->groups;
}

/* Elements of a dimension that is held whole; 0: too many. */
int online_held(const Attempt *x, int axis) {
    int64_t n;
    if (!ix_is_const(x->t->axes.v[axis].extent, &n)) return x->wide;
    return n > ONLINE_DEPTH ? 0 : up8(n > 0 ? n : 1);
}

/* Columns of a tile. */
int online_columns(const Attempt *x, const Shape *c) {
    int n = online_held(x, x->o->cols), each = 64 * c->groups;
    return c->beside ? (n + each - 1) / each * each : n;
}

int online_widths(const Attempt *x) {
    int most = x->o->cols < 0 ? 0 : online_held(x, x->o->cols);
    for (int s = 0; s < x->o->nscores; s++)
        if (online_held(x, x->o->score[s].k) > most) most = online_held(x, x->o->score[s].k);
    return most <= 64 ? NARROW : most <= 128 ? MIDDLE : most <= 256 ? WIDE : HUGE;
}

static const Ix *ceil_div(IxPool *p, const Ix *x, int n) {
    return ix_div(p, ix_add(p, x, ix_const(p, n - 1)), ix_const(p, n));
}

/* Bytes of a factor that is loaded for each block: all that there is, or of a pool of pages, or of
 * what data name, what the tiles read. */
static const Ix *bytes_of(const Attempt *x, const TInst *load, const OnlineWhere *w, int wide) {
    IxPool *p = x->t->ix;
    const TTensor *of = &x->t->tensors.v[load->tensor];
    const Ix *n = ix_const(p, dtype_bits(of->type) / 8);
    if (!w->page && !w->dims) {
        for (int d = 0; d < of->rank; d++) n = ix_mul(p, n, of->dims[d]);
        return n;
    }
    uint64_t *deps = tile_deps(x->cx->arena, x->t), along = 0;
    for (int d = 0; d < load->nix; d++) along |= tile_ix_deps(deps, load->ix[d]);
    for (int a = 0; a < x->t->ngrid; a++)
        if (a != x->o->cols && along >> a & 1) n = ix_mul(p, n, x->t->axes.v[a].extent);
    return ix_mul(p, ix_mul(p, n, x->t->axes.v[x->o->j].extent), ix_const(p, wide));
}

/* Nanoseconds that memory takes for what is loaded for each block, once, at 4 TB/s. */
static const Ix *memory(const Attempt *x) {
    const Online *o = x->o;
    IxPool *p = x->t->ix;
    const Ix *bytes = ix_const(p, 0);
    for (int s = 0; s < o->nscores; s++)
        bytes = ix_add(
            p, bytes,
            bytes_of(x, o->score[s].b.load, &o->score[s].where, online_held(x, o->score[s].k)));
    for (int k = 0; k < o->nproducts; k++)
        bytes = ix_add(
            p, bytes,
            bytes_of(x, o->product[k].b.load, &o->product[k].where, online_held(x, o->cols)));
    return ix_div(p, bytes, ix_const(p, 4000));
}

/* Loads of the body over rows and j. */
int online_elementwise(const Attempt *x) {
    const uint64_t *deps = tile_deps(x->cx->arena, x->t);
    int n = 0;
    for (int k = 0; k < x->o->body.n; k++) {
        const OnlineInst *i = &x->o->body.v[k];
        if (i->i->kind != T_LOAD || i->factor) continue;
        n += (int)(deps[i->i->id] >> x->o->rows & deps[i->i->id] >> x->o->j & 1);
    }
    return n;
}

enum { APART = 9 }; /* elements of a matrix that a tile reads from global memory, in a cycle */

/* Cycles from the last block of a part to what the tile stores: parts are written, counted, and
 * read by four warps, each 4 rows by 32 columns of 16 of them at a time. */
static const Ix *join(const Attempt *x, const Ix *parts) {
    enum { COUNT = 3500, UNIT = 1500 };
    IxPool *p = x->t->ix;
    const Ix *rows = ix_min(p, x->t->axes.v[x->o->rows].extent, ix_const(p, 64));
    int across = x->o->cols < 0 ? 1 : (online_held(x, x->o->cols) + 31) / 32;
    const Ix *units = ceil_div(p, ix_mul(p, ceil_div(p, rows, 4), ix_const(p, across)), 4);
    units = ix_mul(p, units, ceil_div(p, parts, 16));
    return ix_add(p, ix_mul(p, units, ix_const(p, UNIT)), ix_const(p, COUNT));
}

/* CTAs of a multiprocessor. */
static int at_once(const Shape *c) {
    return c->regs && !c->persistent ? 65536 / (128 * c->groups * c->regs) : 1;
}

/* Cycles of wgmma as those of mma.sync, of which a multiprocessor of the target makes so many. */
static int64_t of_target(const Attempt *x, const Shape *c, int64_t cycles) {
    const double wgmma = 2048; /* multiplications in a cycle */
    if (!c->regs) return cycles;
    double rate = x->target->bf16_tflops * 1e12 / 2 / 1.7e9 / x->target->sms;
    return (int64_t)((double)cycles * wgmma / rate) * at_once(c);
}

/* Of a CTA, in cycles, that does `blocks` blocks for each of so many tiles, those of the last round
 * in parts. */
static const Ix *rounds(const Attempt *x, const Shape *c, const Ix *tiles, const Ix *blocks,
                        int cycles) {
    IxPool *p = x->t->ix;
    int sms = x->target->sms * at_once(c);
    const Ix *each = ix_const(p, cycles), *rest = ix_const(p, c->tile);
    const Ix *tile = ix_add(p, ix_mul(p, blocks, each), rest);
    if (!c->split) return ix_mul(p, ceil_div(p, tiles, sms), tile);
    MmaParts m = mma_parts(p, tiles, blocks, sms, c->split);
    const Ix *any = ceil_div(p, m.cut, sms);
    blocks = ix_div(p, ix_sub(p, ix_add(p, blocks, m.parts), ix_const(p, 1)), m.parts);
    rest = ix_add(p, rest, join(x, m.parts));
    const Ix *part = ix_add(p, ix_mul(p, blocks, each), rest);
    const Ix *whole = ix_mul(p, ceil_div(p, m.whole, sms), tile);
    return ix_add(p, whole, ix_mul(p, any, part));
}

/* Nanoseconds, at 1.7 GHz. Blocks of a tile take the tensor core's cycles, of which a shape gets
 * `percent`. Where bounds of j move with the rows, half of the blocks are there, and tiles are
 * handed out longest first: none waits for a round of all, but all for the longest. Memory takes
 * its time meanwhile; an eighth of the shorter of both is not hidden. */
const Ix *online_price(const Attempt *x, const Shape *c, int brought) {
    const TProg *t = x->t;
    const Online *o = x->o;
    IxPool *p = t->ix;
    int rows = online_rows(c), cycles = 0, sms = x->target->sms * at_once(c);
    const Ix *tiles = ceil_div(p, t->axes.v[o->rows].extent, rows);
    for (int a = 0; a < t->ngrid; a++)
        if (a != o->rows && a != o->cols) tiles = ix_mul(p, tiles, t->axes.v[a].extent);
    int each = c->regs ? c->rows / 64 : 1; /* 64 rows of a group */
    for (int s = 0; s < o->nscores; s++)
        cycles += (online_held(x, o->score[s].k) + 15) / 16 * c->block / 2 * c->groups * each;
    for (int n = 0; n < o->nproducts; n++)
        cycles += c->block / 16 * online_columns(x, c) / 2 * (rows / 64);
    /* narrow ones wait for exponentials */
    int percent = c->percent;
    if (online_widths(x) == NARROW && c->widths != NARROW)
        percent = percent * (c->regs ? 7 : 5) / 8;
    cycles = (int)(of_target(x, c, cycles) * 100 / percent);
    cycles += (online_elementwise(x) - brought) * rows * c->block / APART;
    uint64_t *deps = tile_deps(x->cx->arena, t);
    const Ix *j = t->axes.v[o->j].extent, *all;
    int64_t few;
    bool moves =
        online_moves(deps, o->loop->hi, o->rows) || online_moves(deps, o->loop->lo, o->rows);
    if (ix_is_const(t->axes.v[o->rows].extent, &few) && few <= 64) moves = false; /* not far */
    if (moves && !c->split) {
        const Ix *twice =
            ix_mul(p, ix_add(p, j, ix_const(p, rows + c->block)), ix_const(p, cycles));
        const Ix *tile = ix_add(p, ix_div(p, twice, ix_const(p, 2 * c->block)),
                                ix_const(p, c->tile + c->masked));
        all = ix_mul(p, tile, ix_add(p, tiles, ix_const(p, sms / 4)));
        all = ix_max(p, ix_div(p, all, ix_const(p, sms)),
                     rounds(x, c, ix_const(p, 1), ceil_div(p, j, c->block), cycles));
    } else {
        all = rounds(x, c, tiles, ceil_div(p, j, c->block), cycles);
    }
    all = ix_div(p, ix_mul(p, all, ix_const(p, 10)), ix_const(p, 17));
    const Ix *bytes = memory(x), *less = ix_div(p, ix_min(p, all, bytes), ix_const(p, 8));
    return ix_add(p, ix_add(p, ix_max(p, all, bytes), less), ix_const(p, 2000));
}
