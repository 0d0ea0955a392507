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

typedef struct Shape { /* a candidate */
    int groups, block; /* groups of 64 rows; elements of j in a block */
    int early;         /* columns worked on before the frame is known to hold; 0: no lag */
    int stages, ahead; /* buffers for each block; of the rows' factors */
    bool persistent, pingpong;
    bool over;   /* what is stored goes where the rows' factors were */
    int percent; /* of what the tensor core could do, measured (tests/bench/RESULTS.md) */
} Shape;

static const Shape shapes[] = {
    {.groups = 2,
     .block = 128,
     .early = 32,
     .stages = 2,
     .ahead = 2,
     .persistent = true,
     .percent = 85},
    {.groups = 2,
     .block = 128,
     .early = 64,
     .stages = 2,
     .ahead = 2,
     .persistent = true,
     .pingpong = true,
     .percent = 84},
    {.groups = 3,
     .block = 128,
     .stages = 3,
     .ahead = 2,
     .persistent = true,
     .pingpong = true,
     .percent = 84},
    {.groups = 2, .block = 128, .early = 32, .stages = 2, .ahead = 1, .percent = 83},
    {.groups = 2,
     .block = 144,
     .early = 32,
     .stages = 2,
     .ahead = 2,
     .persistent = true,
     .over = true,
     .percent = 84},
    {.groups = 2, .block = 80, .early = 16, .stages = 2, .ahead = 1, .over = true, .percent = 76},
    {.groups = 2, .block = 80, .early = 16, .stages = 2, .ahead = 1, .percent = 75},
    {.groups = 1, .block = 128, .early = 32, .stages = 3, .ahead = 1, .percent = 60},
    {.groups = 1, .block = 64, .early = 16, .stages = 3, .ahead = 1, .percent = 50},
};
enum { SHAPES = sizeof shapes / sizeof *shapes, MOST = 14, LADDER = 3 };
static const int ladder[LADDER] = {64, 128, 256};

typedef struct Attempt {
    const PassCtx *cx;
    const TProg *t;
    const Online *o;
    int wide; /* of a dimension that is not known; 0: all are */
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

static const Ix *ceil_div(IxPool *p, const Ix *x, int n) {
    return ix_div(p, ix_add(p, x, ix_const(p, n - 1)), ix_const(p, n));
}

/* Nanoseconds: rounds of CTAs, each as long as its blocks; the tensor core's cycles, of which a
 * shape gets `percent`, at 1.7 GHz. Where bounds of j move with the rows, half of the blocks. */
static const Ix *price(const Attempt *x, const Shape *c) {
    const TProg *t = x->t;
    const Online *o = x->o;
    IxPool *p = t->ix;
    const Ix *tiles = ceil_div(p, t->axes.v[o->rows].extent, 64 * c->groups);
    for (int a = 0; a < t->ngrid; a++)
        if (a != o->rows && a != o->cols) tiles = ix_mul(p, tiles, t->axes.v[a].extent);
    int cycles = 0;
    for (int s = 0; s < o->nscores; s++)
        cycles += (held(x, o->score[s].k) + 15) / 16 * c->block / 2;
    for (int n = 0; n < o->nproducts; n++) cycles += c->block / 16 * held(x, o->cols) / 2;
    cycles = cycles * c->groups * 100 / c->percent;
    uint64_t *deps = tile_deps(x->cx->arena, t);
    bool part =
        online_moves(deps, o->loop->hi, o->rows) || online_moves(deps, o->loop->lo, o->rows);
    const Ix *blocks = ceil_div(p, t->axes.v[o->j].extent, c->block);
    /* cycles of a multiprocessor, in all, shared out evenly but for a last tile */
    const Ix *of_tile = ix_mul(p, blocks, ix_const(p, cycles));
    if (part) of_tile = ix_div(p, ix_mul(p, of_tile, ix_const(p, 53)), ix_const(p, 100));
    of_tile = ix_add(p, of_tile, ix_const(p, c->persistent ? 1500 : 2500));
    const Ix *all = ix_mul(p, ceil_div(p, tiles, x->cx->target->sms), of_tile);
    return ix_add(p, ix_const(p, 3000),
                  ix_div(p, ix_mul(p, all, ix_const(p, 10)), ix_const(p, 17)));
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

static Schedule *make(const Attempt *x, const Shape *c, bool stage) {
    Arena *a = x->cx->arena;
    const Online *o = x->o;
    Schedule *s = ARENA_NEW(a, Schedule);
    const uint64_t *deps = tile_deps(a, x->t);
    int early = has_frames(o) ? c->early : 0;
    s->name = arena_printf(a, "online_%dx%d%s%s%s%s", 64 * c->groups, c->block,
                           early ? arena_printf(a, "_lag%d", early) : "", c->over ? "_over" : "",
                           c->persistent ? "_persistent" : "", c->pingpong ? "_pingpong" : "");
    if (x->wide) s->name = arena_printf(a, "%s_%d", s->name, x->wide);
    s->target = x->cx->target->name;
    s->move = MOVE_tma;
    s->mul = MUL_wgmma;
    s->threads = 128 * (1 + c->groups);
    s->persistent = s->dynamic = c->persistent;
    s->pingpong = c->pingpong;
    s->halves = early / 8;
    s->raster = section(x, deps);
    lay(a, s, o->rows, 64 * c->groups);
    if (o->cols >= 0) lay(a, s, o->cols, held(x, o->cols));
    lay(a, s, o->j, c->block);
    for (int k = 0; k < o->nscores; k++) {
        lay(a, s, o->score[k].k, held(x, o->score[k].k));
        in_smem(a, s, o->score[k].a.load, c->ahead, EVICT_first);
        in_smem(a, s, o->score[k].b.load, c->stages, EVICT_last);
    }
    for (int p = 0; p < o->nproducts; p++)
        in_smem(a, s, o->product[p].b.load, c->stages, EVICT_last);
    SRole load = {"load", 4, c->groups == 3 ? 32 : c->groups == 2 ? 24 : 40};
    SRole mma = {"mma", 4 * c->groups, c->groups == 3 ? 160 : c->groups == 2 ? 240 : 232};
    vec_push(a, &s->roles, load);
    vec_push(a, &s->roles, mma);
    if (stage && o->cols >= 0) slabs(x, c, s);
    s->cost = price(x, c);
    return s;
}

static void attempt(const Attempt *x, Step *step) {
    for (int k = 0; k < SHAPES; k++) {
        Schedule *s = make(x, &shapes[k], true);
        if (!fits(x, s)) s = make(x, &shapes[k], false);
        if (fits(x, s) && step->schedules.n < MOST) vec_push(x->cx->arena, &step->schedules, s);
    }
}

static bool all_known(const TProg *t, const Online *o) {
    bool known = o->cols < 0 || ix_is_const(t->axes.v[o->cols].extent, NULL);
    for (int s = 0; s < o->nscores; s++)
        known &= ix_is_const(t->axes.v[o->score[s].k].extent, NULL);
    return known;
}

/* Adds what suits; nothing when the program has another shape or the target no wgmma. */
void schedule_online(PassCtx *cx, Step *step) {
    Online o;
    Str why = {0};
    bool is =
        (cx->target->has & TGT_W) && !cx->strict && online_find(cx->arena, step->tile, &o, &why);
    str_free(&why);
    if (!is) return;
    Attempt x = {cx, step->tile, &o, 0};
    if (all_known(step->tile, &o)) {
        attempt(&x, step);
        return;
    }
    for (int k = 0; k < LADDER; k++) {
        x.wide = ladder[k];
        attempt(&x, step);
    }
}
