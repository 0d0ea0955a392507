/* schedule_online.c - schedules for programs whose loop multiplies, works on and multiplies again
 * (ir/online.h): TMA, wgmma, warp roles, as online.c in the backend makes them.
 *
 * What a block and a tile may be follows from registers and shared memory: a group has 64 rows,
 * the sums of its products stay in registers, as do a block's scores. A dimension that a tile holds
 * whole (k, the columns) is that of the program where it is known, else each of a ladder, of which
 * the runtime takes the first that is large enough.
 */
#include "ir/online.h"
#include "passes/cost_int.h"
#include "passes/schedule_int.h"

#include <string.h>

/* By the widest of the dimensions that are held whole: up to 64, 128, more. */
enum { NARROW = 1, MIDDLE = 2, WIDE = 4, ALL = NARROW | MIDDLE | WIDE };

typedef struct Shape { /* a candidate */
    int widths;        /* that it is for */
    int groups, block; /* groups of 64 rows; elements of j in a block */
    int early;         /* columns worked on before the frame is known to hold; 0: no lag */
    int stages, ahead; /* buffers for each block; of the rows' factors */
    int bring;         /* at most so many buffers of matrices that are read element by element */
    bool persistent, pingpong;
    bool over;  /* what is stored goes where the rows' factors were */
    bool few;   /* for few rows: memory decides; what is stored comes from registers */
    bool known; /* only where dimensions are known: a ladder has no place for it */
    int split;  /* most parts of a tile's blocks, of tiles of the last round; 0: none */
    /* Measured (tests/bench/RESULTS.md): of what the tensor core could do in a block, in percent;
     * cycles of a tile beside its blocks, and where blocks are cut by bounds that move. */
    int percent, tile, masked;
} Shape;

static const Shape shapes[] = {
    /* cycles of these: those of the shapes of one group below */
    {NARROW, .groups = 1, .block = 128, .early = 32, .stages = 5, .ahead = 2, .persistent = true,
     .few = true, .percent = 60, .tile = 4400, .masked = 1300},
    {MIDDLE, .groups = 1, .block = 128, .early = 32, .stages = 3, .ahead = 2, .persistent = true,
     .few = true, .percent = 60, .tile = 4400, .masked = 1300},
    {WIDE, .groups = 1, .block = 64, .early = 16, .stages = 3, .ahead = 1, .persistent = true,
     .few = true, .percent = 50, .tile = 4000, .masked = 1300},
    {NARROW, .groups = 1, .block = 128, .early = 32, .stages = 5, .ahead = 2, .persistent = true,
     .few = true, .split = ONLINE_PARTS_MOST, .percent = 60, .tile = 4400, .masked = 1300},
    {MIDDLE, .groups = 1, .block = 128, .early = 32, .stages = 3, .ahead = 2, .persistent = true,
     .few = true, .split = ONLINE_PARTS_MOST, .percent = 60, .tile = 4400, .masked = 1300},
    {ALL, .groups = 1, .block = 64, .early = 16, .stages = 3, .ahead = 1, .persistent = true,
     .few = true, .split = ONLINE_PARTS_MOST, .percent = 50, .tile = 4000, .masked = 1300},
    {NARROW | MIDDLE, .groups = 2, .block = 128, .early = 32, .stages = 2, .ahead = 1,
     .persistent = true, .split = ONLINE_PARTS_MOST, .percent = 83, .tile = 4400, .masked = 1300},
    {NARROW, .groups = 2, .block = 128, .early = 32, .stages = 2, .ahead = 2, .bring = 2,
     .persistent = true, .percent = 50, .tile = 1900, .masked = 900},
    {NARROW, .groups = 3, .block = 128, .stages = 2, .ahead = 2, .bring = 1, .persistent = true,
     .pingpong = true, .known = true, .percent = 55, .tile = 2300, .masked = 3300},
    {NARROW, .groups = 3, .block = 128, .stages = 3, .ahead = 2, .persistent = true,
     .pingpong = true, .percent = 61, .tile = 900, .masked = 500},
    {NARROW, .groups = 2, .block = 128, .early = 32, .stages = 2, .ahead = 2, .persistent = true,
     .percent = 54, .tile = 1900, .masked = 100},
    {MIDDLE, .groups = 2, .block = 128, .early = 16, .stages = 2, .ahead = 1, .bring = 2,
     .persistent = true, .pingpong = true, .over = true, .percent = 68, .tile = 3400,
     .masked = 1300},
    {MIDDLE, .groups = 2, .block = 128, .early = 32, .stages = 2, .ahead = 2, .persistent = true,
     .percent = 88, .tile = 2600, .masked = 900},
    {MIDDLE, .groups = 2, .block = 128, .early = 64, .stages = 2, .ahead = 2, .persistent = true,
     .pingpong = true, .known = true, .percent = 87, .tile = 2600, .masked = 1300},
    {MIDDLE, .groups = 2, .block = 144, .early = 32, .stages = 2, .ahead = 2, .persistent = true,
     .over = true, .known = true, .percent = 87, .tile = 3400, .masked = 2600},
    {NARROW | MIDDLE, .groups = 2, .block = 128, .early = 32, .stages = 2, .ahead = 1,
     .percent = 83, .tile = 4400, .masked = 1300},
    {WIDE, .groups = 2, .block = 64, .early = 16, .stages = 2, .ahead = 1, .bring = 2, .over = true,
     .percent = 68, .tile = 4500, .masked = 2500},
    {WIDE, .groups = 2, .block = 80, .early = 16, .stages = 2, .ahead = 1, .over = true,
     .percent = 86, .tile = 4500, .masked = 2500},
    {ALL, .groups = 2, .block = 80, .early = 16, .stages = 2, .ahead = 1, .percent = 76,
     .tile = 6500, .masked = 2500},
    {ALL, .groups = 1, .block = 128, .early = 32, .stages = 3, .ahead = 1, .percent = 60,
     .tile = 4400, .masked = 1300},
    {ALL, .groups = 1, .block = 64, .early = 16, .stages = 3, .ahead = 1, .percent = 50,
     .tile = 4000, .masked = 1300},
};
enum { SHAPES = sizeof shapes / sizeof *shapes, MOST = 18, LADDER = 3 };
static const int ladder[LADDER] = {64, 128, 256};

typedef struct Attempt {
    const PassCtx *cx;
    const TProg *t;
    const Online *o;
    int wide;                            /* of a dimension that is not known; 0: all are */
    const TInst *matrix[ONLINE_BROUGHT]; /* read element by element, that TMA can bring */
    int matrices;
} Attempt;

static void lay(Arena *a, Schedule *s, int axis, int tile) {
    SAxis x = {.axis = axis, .lanes = 1, .regs = 1, .vec = 1, .tile = tile};
    vec_push(a, &s->axes, x);
}

static int up8(int64_t n) {
    return (int)((n + 7) / 8 * 8);
}

/* Elements of a dimension that is held whole; 0: too many. */
static int held(const Attempt *x, int axis) {
    int64_t n;
    if (!ix_is_const(x->t->axes.v[axis].extent, &n)) return x->wide;
    return n > 512 ? 0 : up8(n > 0 ? n : 1);
}

static void in_smem(Arena *a, Schedule *s, const TInst *load, int buffers, SEvict evict) {
    SValue v = {.value = load->id, .place = PLACE_smem, .buffers = buffers, .swizzle = 128};
    v.evict = evict;
    for (int k = 0; k < s->values.n; k++)
        if (s->values.v[k].value == load->id) return;
    vec_push(a, &s->values, v);
}

static bool fits(const Attempt *x, const Schedule *s) {
    Online o;
    OnlineTiles w;
    Str why = {0};
    bool fit = online_schedule(x->cx->arena, x->t, s, &o, &w, &why);
    str_free(&why);
    return fit;
}

/* ---- price ---- */

static int widths(const Attempt *x) {
    int most = x->o->cols < 0 ? 0 : held(x, x->o->cols);
    for (int s = 0; s < x->o->nscores; s++)
        if (held(x, x->o->score[s].k) > most) most = held(x, x->o->score[s].k);
    return most <= 64 ? NARROW : most <= 128 ? MIDDLE : WIDE;
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
        bytes = ix_add(p, bytes,
                       bytes_of(x, o->score[s].b.load, &o->score[s].where, held(x, o->score[s].k)));
    for (int k = 0; k < o->nproducts; k++)
        bytes = ix_add(p, bytes,
                       bytes_of(x, o->product[k].b.load, &o->product[k].where, held(x, o->cols)));
    return ix_div(p, bytes, ix_const(p, 4000));
}

/* Loads of the body over rows and j. */
static int elementwise(const Attempt *x) {
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
    int across = x->o->cols < 0 ? 1 : (held(x, x->o->cols) + 31) / 32;
    const Ix *units = ceil_div(p, ix_mul(p, ceil_div(p, rows, 4), ix_const(p, across)), 4);
    units = ix_mul(p, units, ceil_div(p, parts, 16));
    return ix_add(p, ix_mul(p, units, ix_const(p, UNIT)), ix_const(p, COUNT));
}

/* Of a CTA, in cycles, that does `blocks` blocks for each of so many tiles, those of the last round
 * in parts. */
static const Ix *rounds(const Attempt *x, const Shape *c, const Ix *tiles, const Ix *blocks,
                        int cycles) {
    IxPool *p = x->t->ix;
    int sms = x->cx->target->sms;
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
static const Ix *price(const Attempt *x, const Shape *c, int brought) {
    const TProg *t = x->t;
    const Online *o = x->o;
    IxPool *p = t->ix;
    int rows = 64 * c->groups, cycles = 0, sms = x->cx->target->sms;
    const Ix *tiles = ceil_div(p, t->axes.v[o->rows].extent, rows);
    for (int a = 0; a < t->ngrid; a++)
        if (a != o->rows && a != o->cols) tiles = ix_mul(p, tiles, t->axes.v[a].extent);
    for (int s = 0; s < o->nscores; s++)
        cycles += (held(x, o->score[s].k) + 15) / 16 * c->block / 2;
    for (int n = 0; n < o->nproducts; n++) cycles += c->block / 16 * held(x, o->cols) / 2;
    /* narrow ones wait for exponentials */
    int percent = widths(x) == NARROW && c->widths != NARROW ? c->percent * 5 / 8 : c->percent;
    cycles = cycles * c->groups * 100 / percent;
    cycles += (elementwise(x) - brought) * rows * c->block / APART;
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

/* ---- a schedule ---- */

/* Batches whose loads for all blocks stay in the cache together. */
static int section(const Attempt *x, const uint64_t *deps) {
    int64_t n, wide = 0;
    if (!online_moves(deps, x->o->loop->hi, x->o->rows)) return 1;
    if (!ix_is_const(x->t->axes.v[x->o->j].extent, &n)) return 8;
    for (int s = 0; s < x->o->nscores; s++) wide += held(x, x->o->score[s].k);
    for (int p = 0; p < x->o->nproducts; p++) wide += held(x, x->o->cols);
    n = (32 << 20) / (n * wide * 2 + 1);
    return n < 1 ? 1 : n > 64 ? 64 : (int)n;
}

static void slabs(const Attempt *x, const Shape *c, Schedule *s) {
    Mma m = {.t = x->t, .rows = x->o->rows, .cols = x->o->cols};
    m.nest.rest = x->t->body.inst.n;
    SlabShape shape = {x->t, &m, 64, c->groups, held(x, x->o->cols), false};
    if (!c->over) {
        slabs_store(x->cx->arena, &shape, s);
        return;
    }
    for (int k = 0; k < x->t->body.inst.n; k++) {
        const TInst *i = x->t->body.inst.v[k];
        if (i->kind != T_STORE || !mma_can_stage(x->t, &m, i)) continue;
        SValue v = {.value = i->args[0], .place = PLACE_smem, .swizzle = 128, .over = true};
        v.buffers = (shape.cols + 63) / 64;
        v.slabs = 1;
        vec_push(x->cx->arena, &s->values, v);
        return;
    }
}

static bool has_frames(const Online *o) {
    for (int c = 0; c < o->loop->carries.n; c++)
        if (o->loop->carries.v[c].frame >= 0) return true;
    return false;
}

/* Is what a frame is the greatest of computed from scores, more than a score itself? Then a block's
 * maximum takes long, and less is worked on before it is known (tests/bench/RESULTS.md). */
static bool computes_frames(const Online *o) {
    for (int c = 0; c < o->loop->carries.n; c++)
        for (int r = 0; r < o->nrows; r++) {
            bool is = o->row[r].c->id == o->loop->carries.v[c].frame;
            for (int s = 0; s < o->nscores; s++) is &= o->row[r].step->args[1] != o->score[s].carry;
            if (is) return true;
        }
    return false;
}

/* Elements that are read from global memory, as many ahead as there are registers, want more. */
static int early_of(const Attempt *x, const Shape *c, int brought) {
    enum { FEW = 16 };
    if (!has_frames(x->o)) return 0;
    bool few = computes_frames(x->o) && elementwise(x) == brought;
    return few && c->early > FEW ? FEW : c->early;
}

/* What is loaded for each block is read again by the tiles of other rows, if there are others. */
static SEvict evict_blocks(const Attempt *x) {
    int64_t n;
    return ix_is_const(x->t->axes.v[x->o->rows].extent, &n) && n <= 64 ? EVICT_first : EVICT_last;
}

/* Who picks blocks has some more to hold than who loads. */
static void roles(const Attempt *x, const Shape *c, Schedule *s) {
    bool picks = x->o->picks && !c->split;
    bool more = picks && c->block > 80; /* narrow blocks leave the groups no register to give */
    SRole load = {"load", picks ? 3 : 4, c->groups == 3 ? 32 : c->groups == 2 && !more ? 24 : 40};
    SRole pick = {"pick", 1, load.regs};
    SRole mma = {"mma", 4 * c->groups, c->groups == 3 ? 160 : c->groups == 2 && !more ? 240 : 232};
    vec_push(x->cx->arena, &s->roles, load);
    if (picks) vec_push(x->cx->arena, &s->roles, pick);
    vec_push(x->cx->arena, &s->roles, mma);
}

/* What of a shape is as it fits. */
typedef struct Fit {
    bool stage;       /* what is stored */
    int bring, count; /* buffers of matrices, and of how many */
} Fit;

/* Batches that read the same of a matrix are walked together, and one block of rows after the
 * other: it comes from memory once. */
static void share(const Attempt *x, const Fit *fit, Schedule *s) {
    const TProg *t = x->t;
    uint64_t *deps = tile_deps(x->cx->arena, t), used = 0;
    int64_t together = 1, n;
    for (int k = 0; k < fit->count; k++)
        for (int d = 0; d < x->matrix[k]->nix; d++) used |= tile_ix_deps(deps, x->matrix[k]->ix[d]);
    for (int a = 0; a < t->ngrid; a++) {
        if (a == x->o->rows || a == x->o->cols || used >> a & 1) continue;
        lay(x->cx->arena, s, a, 1);
        together *= ix_is_const(t->axes.v[a].extent, &n) && n > 0 ? n : 8;
        if (together > 16) together = 16;
    }
    if (s->raster < together) s->raster = (int)together;
}

static Schedule *make(const Attempt *x, const Shape *c, Fit fit) {
    Arena *a = x->cx->arena;
    const Online *o = x->o;
    Schedule *s = ARENA_NEW(a, Schedule);
    const uint64_t *deps = tile_deps(a, x->t);
    int early = early_of(x, c, fit.count);
    SEvict evict = evict_blocks(x);
    s->name = arena_printf(a, "online_%dx%d%s%s%s%s%s", 64 * c->groups, c->block,
                           fit.count ? arena_printf(a, "_brought%d", fit.bring) : "",
                           early ? arena_printf(a, "_lag%d", early) : "", c->over ? "_over" : "",
                           c->persistent ? "_persistent" : "", c->pingpong ? "_pingpong" : "");
    if (x->wide) s->name = arena_printf(a, "%s_%d", s->name, x->wide);
    if (c->split) s->name = arena_printf(a, "%s_split", s->name);
    s->target = x->cx->target->name;
    s->move = MOVE_tma;
    s->mul = MUL_wgmma;
    s->threads = 128 * (1 + c->groups);
    s->persistent = s->dynamic = c->persistent;
    s->pingpong = c->pingpong;
    s->split = c->split;
    s->halves = early / 8;
    s->raster = section(x, deps);
    lay(a, s, o->rows, 64 * c->groups);
    if (o->cols >= 0) lay(a, s, o->cols, held(x, o->cols));
    lay(a, s, o->j, c->block);
    for (int k = 0; k < o->nscores; k++) {
        lay(a, s, o->score[k].k, held(x, o->score[k].k));
        in_smem(a, s, o->score[k].a.load, c->ahead, EVICT_first);
        in_smem(a, s, o->score[k].b.load, c->stages, evict);
    }
    for (int p = 0; p < o->nproducts; p++) in_smem(a, s, o->product[p].b.load, c->stages, evict);
    for (int k = 0; k < fit.count; k++) in_smem(a, s, x->matrix[k], fit.bring, EVICT_none);
    if (fit.count) share(x, &fit, s);
    roles(x, c, s);
    if (fit.stage && o->cols >= 0) slabs(x, c, s);
    s->cost = price(x, c, fit.count);
    return s;
}

/* One group has all rows that there are; or there may be few of them, and dimensions are known: a
 * ladder has no place for more shapes. Where each element of j may be a row, there are either many
 * rows or few j. */
static bool suits(const Attempt *x, const Shape *c) {
    const Online *o = x->o;
    const Ix *rows = x->t->axes.v[o->rows].extent;
    int64_t n;
    if (x->wide && c->known) return false;
    if (ix_is_const(rows, &n)) return n <= 64 ? c->groups == 1 : !c->few && !c->split;
    if (!c->few && !c->split) return true;
    if (x->wide || rows == x->t->axes.v[o->j].extent) return false;
    return c->split || (!ix_uses_axis(o->loop->lo, o->rows) && !ix_uses_axis(o->loop->hi, o->rows));
}

/* Is something loaded for each element? That takes registers, of which a wide block may have too
 * few. */
static bool reads_elements(const Attempt *x) {
    const uint64_t *deps = tile_deps(x->cx->arena, x->t);
    for (int k = 0; k < x->o->body.n; k++) {
        const OnlineInst *i = &x->o->body.v[k];
        if (i->i->kind == T_LOAD && !i->factor && deps[i->i->id] >> x->o->j & 1) return true;
    }
    return false;
}

/* One shape that splits is enough, where it is sure to be made. from: the attempt's first. */
static bool has_split(const Attempt *x, const Step *step, int from, int groups) {
    int threads = 128 * (1 + groups);
    for (int k = from; k < step->schedules.n && !reads_elements(x); k++)
        if (step->schedules.v[k]->split && step->schedules.v[k]->threads == threads) return true;
    return false;
}

/* As many matrices and buffers as there is room for, or none of the shape's. */
static Schedule *fitting(const Attempt *x, const Shape *c) {
    int least = c->bring ? 1 : 0;
    for (int count = least * x->matrices; count >= least; count--)
        for (int bring = c->bring; bring >= least; bring--)
            for (int stage = !c->few; stage >= 0; stage--) {
                Schedule *s = make(x, c, (Fit){stage, bring, count});
                if (fits(x, s)) return s;
            }
    return NULL;
}

static void attempt(const Attempt *x, Step *step) {
    int from = step->schedules.n;
    for (int k = 0; k < SHAPES; k++) {
        if (!(shapes[k].widths & widths(x)) || !suits(x, &shapes[k])) continue;
        if (shapes[k].split && has_split(x, step, from, shapes[k].groups)) continue;
        Schedule *s = fitting(x, &shapes[k]);
        if (s && step->schedules.n < MOST) vec_push(x->cx->arena, &step->schedules, s);
    }
}

static bool all_known(const TProg *t, const Online *o) {
    bool known = o->cols < 0 || ix_is_const(t->axes.v[o->cols].extent, NULL);
    for (int s = 0; s < o->nscores; s++)
        known &= ix_is_const(t->axes.v[o->score[s].k].extent, NULL);
    return known;
}

static bool find(PassCtx *cx, const TProg *t, Online *o) {
    Str why = {0};
    bool is = online_find(cx->arena, t, o, &why);
    str_free(&why);
    return is;
}

/* Adds what suits; nothing when the program has another shape or the target no wgmma. */
void schedule_online(PassCtx *cx, Step *step) {
    Online o;
    if (!(cx->target->has & TGT_W) || cx->strict || step->schedules.n) return;
    if (!find(cx, step->tile, &o)) {
        TProg *t = schedule_with_group(step->tile, NULL);
        if (!t || !find(cx, t, &o)) return;
        step->tile = t;
    }
    Attempt x = {.cx = cx, .t = step->tile, .o = &o};
    for (int k = 0; k < o.body.n && x.matrices < ONLINE_BROUGHT; k++)
        if (online_can_bring(&o, &o.body.v[k])) x.matrix[x.matrices++] = o.body.v[k].i;
    if (all_known(step->tile, &o)) {
        attempt(&x, step);
        return;
    }
    for (int k = 0; k < LADDER; k++) {
        x.wide = ladder[k];
        attempt(&x, step);
    }
}
