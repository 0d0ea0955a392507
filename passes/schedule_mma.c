/* schedule_mma.c - schedules on cp.async and mma.sync (ir/schedule.h), for targets that have these
 * and no wgmma: the same programs as schedule_wgmma.c takes, as far as nothing is reduced of them.
 *
 * A tile's price, in nanoseconds, follows from the target's numbers: a stage takes as long as its
 * products, what passes through shared memory, or what comes from the second-level cache, whichever
 * is slowest. Two CTAs that share a multiprocessor take twice as long each, but one's stores go on
 * beside the other's products. The constants are such that with the numbers of an H200, which runs
 * the PTX for sm_80 too, the price is what was measured there (tests/bench/RESULTS.md); on sm_80
 * and its kin itself nothing was.
 */
#include "passes/schedule_wgmma_int.h"

typedef struct MmaTile {
    int bm, bn, warp_rows, warp_cols;
    int ctas;    /* of a multiprocessor */
    int percent; /* of the peak that products reach */
    int split;   /* most parts along k of the last round's tiles; 1: they are whole */
    bool swap;   /* rows of the tile are the program's columns */
    bool plain;  /* factors of any pitch and address */
} MmaTile;

/* Warps of 64 x 64 read least of shared memory for what they multiply. */
static const MmaTile tiles[] = {
    {128, 256, 2, 4, 1, 85, 1, false, false}, {256, 128, 4, 2, 1, 85, 1, false, false},
    {128, 128, 2, 2, 2, 76, 1, false, false}, {64, 128, 2, 2, 2, 85, 1, false, false},
    {64, 64, 2, 2, 2, 85, 1, false, false},   {64, 16, 4, 1, 2, 85, 1, true, false},
    {16, 64, 1, 4, 2, 85, 1, false, false},   {128, 128, 4, 2, 1, 85, 1, false, true},
    {64, 64, 4, 2, 1, 85, 1, false, true},    {128, 256, 2, 4, 1, 85, 16, false, false},
    {64, 64, 2, 2, 1, 85, 16, false, false},  {64, 16, 4, 1, 1, 85, 16, true, false},
};
enum { TILES = sizeof tiles / sizeof *tiles, BEST = 2 };

enum { SIZE = 2, STAGES_MOST = 8, STAGES_WANTED = 3, RESERVED = 1024 };

static int threads_of(const MmaTile *c) {
    return 32 * c->warp_rows * c->warp_cols;
}

/* Rows and columns that all sums have together. */
static int height(const Gemm *g, const MmaTile *c) {
    return c->bm * mma_factors(&g->m, !c->swap);
}

static int width(const Gemm *g, const MmaTile *c) {
    return c->bn * mma_factors(&g->m, c->swap);
}

static int stages_of(const Gemm *g, const Target *t, const MmaTile *c, int k) {
    int smem = c->ctas > 1 ? (t->smem + RESERVED) / c->ctas - RESERVED : t->smem;
    int n = smem / ((height(g, c) + width(g, c)) * k * SIZE);
    int most = c->plain ? STAGES_WANTED : STAGES_MOST;
    return n < most ? n : most;
}

/* Deep stages have fewer barriers, but three of them must fit. */
static int stage_k(const Gemm *g, const Target *t, const MmaTile *c) {
    return !c->plain && stages_of(g, t, c, 64) >= STAGES_WANTED ? 64 : 32;
}

/* ---- price ---------------------------------------------------------------------------------- */

/* Bytes a nanosecond: a multiprocessor's shared memory at 1.4 GHz, and its part of what the cache
 * gives; picoseconds that an element takes after the loop; nanoseconds of start and exit. */
enum { SHARED_RATE = 180, CACHE_RATE = 45, OUT_PS = 100, START_NS = 3300 };
/* Picoseconds that a stage takes besides, the warps' meeting most of all; where elements are read
 * one by one, what the slowest of them takes, and each. As measured, for 1.4 GHz. */
enum { STAGE_PS = 130000, PLAIN_STAGE_PS = 430000, PLAIN_PS = 90 };
/* What four warps alone on a multiprocessor wait for in a stage; what parts take to meet, and an
 * element of theirs to be written and read. */
enum { LONE_PS = 170000, JOIN_PS = 8800000, JOIN_EACH_PS = 260 };

static const Ix *ceil_div(IxPool *p, const Ix *x, int64_t by) {
    return ix_div(p, ix_add(p, x, ix_const(p, by - 1)), ix_const(p, by));
}

/* Picoseconds that a stage of k takes a multiprocessor. */
static int64_t stage_ps(const Gemm *g, const Target *t, const MmaTile *c, int k) {
    const double size = SIZE, peak = (double)c->percent / 100, shared_rate = SHARED_RATE,
                 rate = CACHE_RATE, meets = STAGE_PS, waits = PLAIN_STAGE_PS, each = PLAIN_PS;
    double flops = 2.0 * height(g, c) * width(g, c) * k;
    double moved = (double)(height(g, c) + width(g, c)) * k * size;
    double mma = flops / (t->bf16_tflops * peak) * t->sms;
    int rows = height(g, c) / c->warp_rows, cols = width(g, c) / c->warp_cols;
    double read = (double)(rows + cols) * k * size * c->warp_rows * c->warp_cols;
    double shared = (read + moved) / shared_rate * 1e3, cache = moved / rate * 1e3;
    double most = mma > shared ? mma : shared;
    if (most < cache) most = cache;
    most += meets / c->ctas;
    return (int64_t)(most + (c->plain ? waits + moved / size * each : 0));
}

static const Ix *count_tiles(const Gemm *g, const MmaTile *c) {
    IxPool *p = g->t->ix;
    const Ix *count = ix_const(p, 1);
    for (int x = 0; x < g->t->ngrid; x++) {
        int tile = x == (c->swap ? g->m.cols : g->m.rows)   ? c->bm
                   : x == (c->swap ? g->m.rows : g->m.cols) ? c->bn
                                                            : 1;
        count = ix_mul(p, count, ceil_div(p, g->t->axes.v[x].extent, tile));
    }
    return count;
}

/* Of a CTA; few tiles do not share multiprocessors. */
static const Ix *stage_of(const Gemm *g, const Target *t, const MmaTile *c, int k) {
    IxPool *p = g->t->ix;
    const Ix *share = ix_max(p, ceil_div(p, count_tiles(g, c), t->sms), ix_const(p, 1));
    share = ix_min(p, share, ix_const(p, c->ctas));
    const Ix *ps = ix_mul(p, share, ix_const(p, stage_ps(g, t, c, k)));
    if (threads_of(c) > 128) return ps;
    return ix_add(p, ps, ix_mul(p, ix_sub(p, ix_const(p, 2), share), ix_const(p, LONE_PS)));
}

/* Parts count where all tiles are cut. Where they fill rounds, the last is short on the target
 * alone: its PTX runs on chips with other numbers of multiprocessors. */
static const Ix *price(const Gemm *g, const Target *t, const MmaTile *c) {
    IxPool *p = g->t->ix;
    int k = stage_k(g, t, c);
    const Ix *stages = ix_max(p, ceil_div(p, g->t->axes.v[g->m.k].extent, k), ix_const(p, 1));
    int64_t out = (int64_t)height(g, c) * width(g, c) * OUT_PS;
    const Ix *loop = ix_mul(p, stages, stage_of(g, t, c, k));
    const Ix *all = count_tiles(g, c), *tile = ix_add(p, loop, ix_const(p, out));
    MmaParts x = {.whole = all};
    if (c->split > 1) x = mma_parts(p, all, stages, t->sms, c->split);
    const Ix *ps = ix_mul(p, ceil_div(p, x.whole, (int64_t)t->sms * c->ctas), tile);
    if (c->split > 1) {
        int64_t join = JOIN_PS + (int64_t)height(g, c) * width(g, c) * JOIN_EACH_PS;
        const Ix *one = ix_const(p, 1), *none = ix_sub(p, one, ix_min(p, x.whole, one));
        const Ix *parts = ix_add(p, ix_mul(p, ix_sub(p, x.parts, one), none), one);
        const Ix *part = ix_add(p, ix_div(p, loop, parts), ix_const(p, join));
        ps = ix_add(p, ps, ix_mul(p, ix_min(p, x.cut, ix_const(p, 1)), part));
    }
    const Ix *ns = ix_div(p, ps, ix_const(p, 1000));
    const Ix *memory = ix_div(p, gemm_bytes(g), ix_const(p, (int64_t)t->gbs));
    return ix_add(p, ix_max(p, ns, memory), ix_const(p, START_NS));
}

/* ---- schedules ------------------------------------------------------------------------------ */

static void lay(Arena *a, Schedule *s, int axis, int tile, int warps) {
    SAxis x = {.axis = axis, .lanes = warps, .regs = 1, .vec = 1, .tile = tile};
    vec_push(a, &s->axes, x);
}

static void in_smem(Arena *a, Schedule *s, const Mma *m, bool of_rows, int rows, int k, int stages,
                    bool plain) {
    for (int n = 0; n < mma_factors(m, of_rows); n++) {
        const MmaFactor *f = mma_factor_at(m, of_rows, n);
        SValue v = {.value = f->load->id, .place = PLACE_smem, .buffers = stages, .plain = plain};
        v.swizzle = f->k_major || plain ? k * SIZE : 128;
        while (!f->k_major && rows % (v.swizzle / SIZE)) v.swizzle /= 2;
        vec_push(a, &s->values, v);
    }
}

static Schedule *make(Arena *a, const Gemm *g, const Target *t, const MmaTile *c) {
    Schedule *s = ARENA_NEW(a, Schedule);
    int k = stage_k(g, t, c), stages = stages_of(g, t, c, k);
    const char *how = c->swap ? "swap_" : c->plain ? "plain_" : "";
    s->name = arena_printf(a, "mma_%s%dx%d%s", how, c->bm, c->bn, c->split > 1 ? "_split" : "");
    s->target = t->name;
    s->move = MOVE_cpasync;
    s->mul = MUL_mma;
    s->threads = threads_of(c);
    s->persistent = c->ctas == 1;
    s->split = c->split > 1 ? c->split : 0;
    s->raster = c->bm >= 64 && !c->swap ? 1024 / c->bm : 1;
    lay(a, s, mma_axis(&g->m, c->swap ? g->m.cols : g->m.rows), c->bm, c->warp_rows);
    lay(a, s, mma_axis(&g->m, c->swap ? g->m.rows : g->m.cols), c->bn, c->warp_cols);
    lay(a, s, mma_axis(&g->m, g->m.k), k, 1);
    in_smem(a, s, &g->m, true, c->swap ? c->bn : c->bm, k, stages, c->plain);
    in_smem(a, s, &g->m, false, c->swap ? c->bm : c->bn, k, stages, c->plain);
    s->cost = price(g, t, c);
    return s;
}

typedef struct Candidate {
    const MmaTile *tile;
    const Ix *cost;
} Candidate;

static bool cheaper(const Candidate *a, const Candidate *b) {
    int64_t x, y;
    return ix_is_const(a->cost, &x) && ix_is_const(b->cost, &y) && x < y;
}

enum { COLS = 16 }; /* of a warp, at the least */

/* Several sums have the columns of the tile together; swapped, each has the few that there are. */
static MmaTile shared(const Gemm *g, MmaTile t) {
    int unit = COLS * t.warp_cols;
    if (g->m.sums > 1 && !t.swap) {
        t.bn = t.bn / g->m.sums / unit * unit;
        if (!t.bn) t.bn = unit;
    }
    return t;
}

static bool among(const Candidate *c, int n, const MmaTile *t) {
    for (int i = 0; i < n; i++)
        if (c[i].tile->bm == t->bm && c[i].tile->bn == t->bn && c[i].tile->swap == t->swap &&
            c[i].tile->plain == t->plain && c[i].tile->split == t->split)
            return true;
    return false;
}

/* All tiles are sure to be whole, or have to be. */
static bool splits_in_vain(const Gemm *g, const Target *t, const MmaTile *c) {
    IxPool *p = g->t->ix;
    int64_t cut;
    if (c->split == 1) return false;
    const Ix *stages = ceil_div(p, g->t->axes.v[g->m.k].extent, stage_k(g, t, c));
    const Ix *x = mma_parts(p, count_tiles(g, c), stages, t->sms, c->split).cut;
    return g->whole || (ix_is_const(x, &cut) && !cut);
}

static void propose(PassCtx *cx, Step *step, const Gemm *g, const Target *t) {
    Candidate c[TILES];
    MmaTile own[TILES];
    int n = 0;
    for (int i = 0; i < TILES; i++) {
        own[i] = shared(g, tiles[i]);
        if (among(c, n, &own[i]) || splits_in_vain(g, t, &own[i])) continue;
        c[n] = (Candidate){&own[i], price(g, t, &own[i])};
        for (int k = n++; k > 0 && cheaper(&c[k], &c[k - 1]); k--) {
            Candidate swap = c[k];
            c[k] = c[k - 1], c[k - 1] = swap;
        }
    }
    bool known = ix_is_const(c[0].cost, NULL);
    for (int i = 0, kept = 0, plain = 0; i < n; i++) {
        int *of = c[i].tile->plain ? &plain : &kept; /* one for all layouts */
        if (g->vector && c[i].tile->bm * c[i].tile->bn > 64 * 64) continue;
        if (known && *of >= (c[i].tile->plain ? 1 : BEST)) continue;
        Schedule *s = make(cx->arena, g, t, c[i].tile);
        if (!gemm_fits_tier(step->tile, s)) continue;
        vec_push(cx->arena, &step->schedules, s);
        ++*of;
    }
}

void schedule_mma(PassCtx *cx, Step *step) {
    Gemm g = {0};
    bool found = false;
    for (int i = 0; pass_target(cx, i) && !cx->strict; i++) {
        const Target *t = pass_target(cx, i);
        if (!(t->has & TGT_M) || t->has & TGT_W) continue;
        if (!found && !gemm_find(step, &g)) return;
        found = true;
        g.whole = cx->invariant;
        if (g.m.size == SIZE && !g.made && !g.m.nest.blocks) propose(cx, step, &g, t);
    }
}
