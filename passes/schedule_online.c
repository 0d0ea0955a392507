/* schedule_online.c - schedules for programs whose loop multiplies, works on and multiplies again
 * (ir/online.h): TMA, wgmma, warp roles, or cp.async and mma.sync by all warps, as online.c in the
 * backend makes them.
 *
 * What a block and a tile may be follows from registers and shared memory: a group has 64 rows,
 * the sums of its products stay in registers, as do a block's scores. A dimension that a tile holds
 * whole (k, the columns) is that of the program where it is known, else each of a ladder, of which
 * the runtime takes the first that is large enough.
 */
#include "passes/schedule_online_int.h"

#include <string.h>

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
    {MIDDLE, .groups = 2, .block = 128, .early = 64, .stages = 2, .ahead = 1, .bring = 2,
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
    /* not measured: as the one above */
    {HUGE, .groups = 2, .block = 64, .early = 16, .stages = 2, .ahead = 1, .beside = true,
     .percent = 50, .tile = 4000, .masked = 1300},
    {HUGE, .groups = 2, .block = 48, .early = 16, .stages = 2, .ahead = 1, .beside = true,
     .percent = 45, .tile = 4000, .masked = 1300},
    {HUGE, .groups = 2, .block = 32, .early = 16, .stages = 2, .ahead = 1, .beside = true,
     .percent = 40, .tile = 4000, .masked = 1300},
};
enum { SHAPES = sizeof shapes / sizeof *shapes, MOST = 18, LADDER = 4 };
static const int ladder[LADDER] = {64, 128, 256, 512};

/* By mma.sync and cp.async. What a warp reads of shared memory for each of its rows halves where it
 * has 32 of them: that, not the tensor core, is what 16 rows wait for (a block of 16 by 16 elements
 * is 4 cycles to read, and 2 or 4 instructions of 1.6 to 2 cycles). Registers: as many CTAs of a
 * multiprocessor as those leave, 65536 in all. percent, tile: as measured on an H200, of what
 * mma.sync makes there (tests/bench/RESULTS.md); of those beside each other and those that split,
 * from the above alone. Those that ptxas may spoil (192 registers of sums and a block, or 176 and a
 * block's factors) come after some that it does not: few of them are tried. */
static const Shape sync_shapes[] = {
    {NARROW, .groups = 1, .rows = 128, .block = 64, .stages = 2, .regs = 255, .percent = 50,
     .tile = 7000, .masked = 900},
    {NARROW, .groups = 1, .rows = 64, .block = 64, .stages = 2, .regs = 128, .percent = 45,
     .tile = 7000, .masked = 900},
    {MIDDLE, .groups = 2, .rows = 64, .block = 64, .stages = 2, .regs = 255, .percent = 42,
     .tile = 7000, .masked = 900},
    {NARROW | MIDDLE, .groups = 1, .rows = 64, .block = 64, .stages = 2, .regs = 168, .late = true,
     .percent = 50, .tile = 7000, .masked = 900},
    {MIDDLE, .groups = 1, .rows = 128, .block = 64, .stages = 2, .regs = 255, .percent = 61,
     .tile = 7000, .masked = 900},
    {MIDDLE, .groups = 1, .rows = 128, .block = 32, .stages = 2, .regs = 255, .late = true,
     .percent = 54, .tile = 7000, .masked = 900},
    {MIDDLE, .groups = 1, .rows = 128, .block = 32, .stages = 2, .regs = 255, .percent = 52,
     .tile = 7000, .masked = 900},
    {ALL, .groups = 1, .rows = 64, .block = 64, .stages = 1, .regs = 168, .percent = 54,
     .tile = 7000, .masked = 900},
    {WIDE, .groups = 2, .rows = 64, .block = 64, .stages = 1, .regs = 255, .percent = 55,
     .tile = 7000, .masked = 900},
    {WIDE, .groups = 1, .rows = 64, .block = 64, .stages = 1, .regs = 255, .percent = 56,
     .tile = 7000, .masked = 900},
    {ALL, .groups = 1, .rows = 64, .block = 32, .stages = 1, .regs = 255, .percent = 46,
     .tile = 7000, .masked = 900},
    {HUGE, .groups = 2, .rows = 64, .block = 32, .stages = 1, .regs = 255, .beside = true,
     .percent = 30, .tile = 3000, .masked = 900},
    {HUGE, .groups = 4, .rows = 64, .block = 32, .stages = 1, .regs = 128, .beside = true,
     .percent = 25, .tile = 3000, .masked = 900},
    {NARROW | MIDDLE, .groups = 1, .rows = 64, .block = 64, .stages = 3, .regs = 255,
     .persistent = true, .few = true, .split = ONLINE_PARTS_MOST, .percent = 40, .tile = 3000,
     .masked = 900},
    {ALL, .groups = 1, .rows = 64, .block = 32, .stages = 2, .regs = 255, .persistent = true,
     .few = true, .split = ONLINE_PARTS_MOST, .percent = 35, .tile = 3000, .masked = 900},
};
enum { SYNC_SHAPES = sizeof sync_shapes / sizeof *sync_shapes };

static void lay(Arena *a, Schedule *s, int axis, int tile) {
    SAxis x = {.axis = axis, .lanes = 1, .regs = 1, .vec = 1, .tile = tile};
    vec_push(a, &s->axes, x);
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

/* ---- a schedule ---- */

/* Batches whose loads for all blocks stay in the cache together. */
static int section(const Attempt *x, const uint64_t *deps) {
    int64_t n, wide = 0;
    if (!online_moves(deps, x->o->loop->hi, x->o->rows)) return 1;
    if (!ix_is_const(x->t->axes.v[x->o->j].extent, &n)) return 8;
    for (int s = 0; s < x->o->nscores; s++) wide += online_held(x, x->o->score[s].k);
    for (int p = 0; p < x->o->nproducts; p++) wide += online_held(x, x->o->cols);
    n = (32 << 20) / (n * wide * 2 + 1);
    return n < 1 ? 1 : n > 64 ? 64 : (int)n;
}

static void slabs(const Attempt *x, const Shape *c, Schedule *s) {
    Mma m = {.t = x->t, .rows = x->o->rows, .cols = x->o->cols};
    m.nest.rest = x->t->body.inst.n;
    int cols = online_columns(x, c) / (c->beside ? c->groups : 1);
    const uint64_t *deps = tile_deps(x->cx->arena, x->t);
    bool moves = online_moves(deps, x->o->loop->hi, x->o->rows) ||
                 online_moves(deps, x->o->loop->lo, x->o->rows); /* many short tiles */
    SlabShape shape = {x->t, &m, 64, c->groups, cols, false, false, moves};
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

/* Elements that are read from global memory, as many ahead as there are registers, want more; so do
 * groups that take turns, where matrices are brought. */
static int early_of(const Attempt *x, const Shape *c, int brought) {
    enum { FEW = 16 };
    if (!has_frames(x->o)) return 0;
    bool few = computes_frames(x->o) && online_elementwise(x) == brought;
    few &= !brought || !c->pingpong;
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

static int threads(const Shape *c) {
    return 128 * (c->groups + !c->regs);
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

static void tiles(const Attempt *x, const Shape *c, Schedule *s) {
    Arena *a = x->cx->arena;
    const Online *o = x->o;
    SEvict evict = c->regs ? EVICT_none : evict_blocks(x);
    lay(a, s, o->rows, online_rows(c));
    if (o->cols >= 0) lay(a, s, o->cols, online_columns(x, c));
    lay(a, s, o->j, c->block);
    for (int k = 0; k < o->nscores; k++) {
        lay(a, s, o->score[k].k, online_held(x, o->score[k].k));
        in_smem(a, s, o->score[k].a.load, c->regs ? 1 : c->ahead,
                c->regs ? EVICT_none : EVICT_first);
        in_smem(a, s, o->score[k].b.load, c->stages, evict);
    }
    for (int p = 0; p < o->nproducts; p++) in_smem(a, s, o->product[p].b.load, c->stages, evict);
}

/* What all of them have. */
static Schedule *begin(const Attempt *x, const Shape *c, const char *name) {
    Arena *a = x->cx->arena;
    Schedule *s = ARENA_NEW(a, Schedule);
    s->name = name;
    if (x->wide) s->name = arena_printf(a, "%s_%d", s->name, x->wide);
    if (c->split) s->name = arena_printf(a, "%s_split", s->name);
    s->target = x->target->name;
    s->threads = threads(c);
    s->persistent = c->persistent;
    s->split = c->split;
    s->raster = section(x, tile_deps(a, x->t));
    tiles(x, c, s);
    return s;
}

static Schedule *make_sync(const Attempt *x, const Shape *c) {
    Arena *a = x->cx->arena;
    SRole mma = {"mma", 4 * c->groups, c->regs};
    Schedule *s = begin(x, c,
                        arena_printf(a, "online_mma_%dx%d%s_w%d_s%d%s%s", online_rows(c), c->block,
                                     c->beside ? "_beside" : "", mma.warps, c->stages,
                                     c->late ? "_late" : "", c->persistent ? "_persistent" : ""));
    s->move = MOVE_cpasync;
    s->mul = MUL_mma;
    vec_push(a, &s->roles, mma);
    for (int p = 0; p < x->o->nproducts && c->late; p++) {
        SOp op = {.value = x->o->product[p].mul->id, .stage = 1, .wait = -1, .release = -1};
        vec_push(a, &s->ops, op);
    }
    s->cost = online_price(x, c, 0);
    return s;
}

static Schedule *make(const Attempt *x, const Shape *c, Fit fit) {
    if (c->regs) return make_sync(x, c);
    Arena *a = x->cx->arena;
    int early = early_of(x, c, fit.count);
    Schedule *s =
        begin(x, c,
              arena_printf(a, "online_%dx%d%s%s%s%s%s%s", online_rows(c), c->block,
                           c->beside ? "_beside" : "",
                           fit.count ? arena_printf(a, "_brought%d", fit.bring) : "",
                           early ? arena_printf(a, "_lag%d", early) : "", c->over ? "_over" : "",
                           c->persistent ? "_persistent" : "", c->pingpong ? "_pingpong" : ""));
    s->move = MOVE_tma;
    s->mul = MUL_wgmma;
    s->dynamic = c->persistent;
    s->pingpong = c->pingpong;
    s->halves = early / 8;
    for (int k = 0; k < fit.count; k++) in_smem(a, s, x->matrix[k], fit.bring, EVICT_none);
    if (fit.count) share(x, &fit, s);
    roles(x, c, s);
    if (fit.stage && x->o->cols >= 0) slabs(x, c, s);
    s->cost = online_price(x, c, fit.count);
    return s;
}

/* One group has all rows that there are; or there may be few of them, and dimensions are known: a
 * ladder has no place for more shapes. Where each element of j may be a row, there are either many
 * rows or few j. */
static bool suits(const Attempt *x, const Shape *c) {
    const Online *o = x->o;
    const Ix *rows = x->t->axes.v[o->rows].extent;
    int64_t n;
    if ((x->wide && c->known) || (c->beside && o->cols < 0)) return false;
    if (ix_is_const(rows, &n)) return n <= 64 ? online_rows(c) == 64 : !c->few && !c->split;
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
static bool has_split(const Attempt *x, const Step *step, int from, const Shape *c) {
    for (int k = from; k < step->schedules.n && !reads_elements(x); k++)
        if (step->schedules.v[k]->split && step->schedules.v[k]->threads == threads(c)) return true;
    return false;
}

/* One shape whose groups lie beside each other is enough. */
static bool has_beside(const Attempt *x, const Step *step, int from) {
    for (int k = from; k < step->schedules.n; k++) {
        const SAxis *rows = &step->schedules.v[k]->axes.v[0];
        if (rows->axis == x->o->rows && rows->tile == 64 &&
            step->schedules.v[k]->threads > (x->target->has & TGT_W ? 256 : 128))
            return true;
    }
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

static int made(const Attempt *x, const Step *step) {
    int n = 0;
    for (int k = 0; k < step->schedules.n; k++)
        n += !strcmp(step->schedules.v[k]->target, x->target->name);
    return n;
}

static void attempt(const Attempt *x, Step *step) {
    int from = step->schedules.n;
    bool sync = !(x->target->has & TGT_W);
    const Shape *c = sync ? sync_shapes : shapes;
    for (const Shape *end = c + (sync ? SYNC_SHAPES : SHAPES); c < end; c++) {
        if (!(c->widths & online_widths(x)) || !suits(x, c)) continue;
        if (c->beside && has_beside(x, step, from)) continue;
        if (c->split && has_split(x, step, from, c)) continue;
        Schedule *s = fitting(x, c);
        if (s && made(x, step) < MOST) vec_push(x->cx->arena, &step->schedules, s);
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

static void for_target(Attempt x, Step *step) {
    if (!(x.target->has & (TGT_W | TGT_M))) return;
    if (all_known(step->tile, x.o)) {
        attempt(&x, step);
        return;
    }
    for (int k = 0; k < LADDER; k++) {
        x.wide = ladder[k];
        attempt(&x, step);
    }
}

/* Adds what suits, for each chip; nothing when the program has another shape, or a chip no tensor
 * cores that are used. */
void schedule_online(PassCtx *cx, Step *step) {
    Online o;
    if (!(cx->target->has & (TGT_W | TGT_M)) || cx->strict || step->schedules.n) return;
    if (!find(cx, step->tile, &o)) {
        TProg *t = schedule_with_group(step->tile, NULL);
        if (!t || !find(cx, t, &o)) return;
        step->tile = t;
    }
    Attempt x = {.cx = cx, .t = step->tile, .o = &o};
    for (int k = 0; k < o.body.n && x.matrices < ONLINE_BROUGHT; k++)
        if (online_can_bring(&o, &o.body.v[k])) x.matrix[x.matrices++] = o.body.v[k].i;
    for (int k = 0; (x.target = pass_target(cx, k)); k++) for_target(x, step);
}
