/* schedule_wgmma.c - schedules for programs whose one loop sums products of two 16-bit loads: TMA
 * into shared memory, wgmma, warp roles (ir/schedule.h says what such a schedule means).
 *
 * The shape is told by the loop and its loads alone: what comes after the loop may be anything that
 * stands outside of loops and guards. Which tiles are worth making is a rule fitted to measurements
 * on the H200 (cycles of a CTA: start + rounds * (main loop + epilogue)), written as an expression
 * of the sizes, so that the runtime takes the cheapest for the sizes at hand; with bound sizes
 * only the best few are made.
 */
#include "passes/cost_int.h"
#include "passes/schedule_int.h"

#include <string.h>

typedef struct Gemm {
    const TProg *t;
    Mma m;
} Gemm;

/* ---- tiles and their price ---- */

/* A candidate. */
typedef struct Tile {
    int bm, bn;
    bool pingpong;
    int groups;  /* consumer warpgroups */
    bool direct; /* stores from registers: any pitch and alignment */
    bool always; /* also kept when sizes are known and others are cheaper: for layouts */
} Tile;

/* Without known sizes the first KEPT that fit are made: large, small and thin problems, any layout.
 */
static const Tile tiles[] = {
    {.bm = 128, .bn = 256, .groups = 2},
    {.bm = 192, .bn = 128, .groups = 2, .pingpong = true},
    {.bm = 128, .bn = 128, .groups = 2, .pingpong = true},
    {.bm = 64, .bn = 128, .groups = 2, .pingpong = true},
    {.bm = 64, .bn = 32, .groups = 2, .pingpong = true},
    {.bm = 128, .bn = 256, .groups = 2, .direct = true, .always = true},
    {.bm = 256, .bn = 128, .groups = 2},
    {.bm = 128, .bn = 128, .groups = 2},
};
enum { TILES = sizeof tiles / sizeof *tiles, KEPT = 8, BEST = 2, STAGE_K = 64, SMS = 132 };

static const Ix *ceil_div(IxPool *p, const Ix *x, int64_t by) {
    return ix_div(p, ix_add(p, x, ix_const(p, by - 1)), ix_const(p, by));
}

static const Ix *times(IxPool *p, const Ix *x, int64_t c) {
    return ix_mul(p, x, ix_const(p, c));
}

static const Ix *plus(IxPool *p, const Ix *x, int64_t c) {
    return ix_add(p, x, ix_const(p, c));
}

/* Small tiles move more bytes for a product, which costs clock where the chip is at the limit of
 * its power: long problems of long sums. In thousandths. */
static const Ix *power(IxPool *p, const Tile *c, const Ix *k, const Ix *cycles) {
    int area = c->bm * c->bn;
    int more = !c->pingpong || area < 128 * 128 ? 0 : area == 128 * 128 ? 50 : 15;
    const Ix *deep = ix_min(p, ix_div(p, k, ix_const(p, 2048)), ix_const(p, 1));
    const Ix *lasts = ix_min(p, ix_div(p, cycles, ix_const(p, 28000)), ix_const(p, 1));
    return plus(p, times(p, ix_mul(p, deep, lasts), more), 1000);
}

/* Nanoseconds at 1.7 GHz, 132 multiprocessors. A multiprocessor issues 4096 bf16 multiply-adds a
 * cycle and takes in 72 bytes; 5000 cycles go into start and exit. With ping-pong one group's
 * epilogue hides behind the other's main loop. Constants fitted on nine shapes, H200, 2026-11. */
static const Ix *price(const Gemm *g, const Tile *c) {
    IxPool *p = g->t->ix;
    int64_t area = (int64_t)c->bm * c->bn, in = (int64_t)(c->bm + c->bn) * 128 / 72;
    int64_t kt = area / 32 > in ? area / 32 : in;
    const Ix *count = ix_const(p, 1);
    for (int x = 0; x < g->t->ngrid; x++) {
        int64_t tile = x == g->m.rows ? c->bm : x == g->m.cols ? c->bn : 1;
        count = ix_mul(p, count, ceil_div(p, g->t->axes.v[x].extent, tile));
    }
    const Ix *rounds = ceil_div(p, count, SMS);
    const Ix *main = times(p, ceil_div(p, g->t->axes.v[g->m.k].extent, STAGE_K), kt);
    const Ix *cycles;
    if (c->pingpong) {
        int64_t out = area * (area >= 192 * 128 ? 44 : 37) / 100;
        const Ix *hidden =
            ix_max(p, plus(p, main, 850), ix_div(p, plus(p, main, out), ix_const(p, 2)));
        cycles = ix_add(p, ix_mul(p, plus(p, rounds, -1), hidden),
                        plus(p, main, 5000 + area * 19 / 100));
    } else {
        cycles = plus(p, ix_mul(p, rounds, plus(p, main, 1000 + area / 10)), 5000);
    }
    cycles = ix_div(p, ix_mul(p, cycles, power(p, c, g->t->axes.v[g->m.k].extent, cycles)),
                    ix_const(p, 1000));
    if (c->direct) cycles = ix_add(p, cycles, times(p, rounds, area / 10));
    return ix_div(p, times(p, cycles, 10), ix_const(p, 17));
}

/* ---- schedules ---- */

static void lay(Arena *a, Schedule *s, int axis, int tile) {
    SAxis x = {.axis = axis, .lanes = 1, .regs = 1, .vec = 1, .tile = tile};
    vec_push(a, &s->axes, x);
}

/* MN-major, the tile is cut into boxes as wide as the swizzle. */
static void in_smem(Arena *a, Schedule *s, const MmaFactor *f, int rows, int buffers) {
    SValue v = {.value = f->load->id, .place = PLACE_smem, .buffers = buffers, .swizzle = 128};
    while (!f->k_major && rows % (v.swizzle / 2) && v.swizzle > 32) v.swizzle /= 2;
    vec_push(a, &s->values, v);
}

/* Stores go through two slabs each of shared memory where they can. Returns the bytes of all. */
static int stage_stores(Arena *a, const Gemm *g, const Tile *c, Schedule *s) {
    VEC(const TInst *) list = {0};
    double work = 0; /* of an element, after the loop */
    int size = 0, rows = c->pingpong ? c->bm : c->bm / c->groups;
    for (int i = 0; i < g->t->body.inst.n; i++) {
        const TInst *x = g->t->body.inst.v[i];
        if (x->kind == T_OP) work += cost_op(x->op);
        if (x->kind != T_STORE || list.n == MMA_STAGED || !mma_can_stage(g->t, &g->m, x)) continue;
        vec_push(a, &list, x);
        size += dtype_bits(g->t->tensors.v[x->tensor].type) / 8;
    }
    int cols = rows == 64 && size <= 2 ? 64 : 32, slabs = 1, buffers = 2;
    if (work > 40) cols = size == 1 || rows == 64 ? 32 : 16; /* long code: less of it */
    if (cols == 64 && c->bn == 256) slabs = 2, buffers = 1;  /* fewer barriers on the way out */
    if (rows > 128 && size > 1) cols = 16; /* few registers are left to hold them */
    while (c->bn % cols) cols /= 2;
    for (int i = 0; i < list.n; i++) {
        int bytes = cols * dtype_bits(g->t->tensors.v[list.v[i]->tensor].type) / 8;
        bool again = false; /* a value that two stores share */
        for (int k = 0; k < i; k++) again |= list.v[k]->args[0] == list.v[i]->args[0];
        SValue v = {list.v[i]->args[0], PLACE_smem, buffers, bytes < 128 ? bytes : 128, slabs};
        if (!again) vec_push(a, &s->values, v);
    }
    return 2 * c->groups * rows * cols * size;
}

static Schedule *make(const PassCtx *cx, const Gemm *g, const Tile *c) {
    Arena *a = cx->arena;
    Schedule *s = ARENA_NEW(a, Schedule);
    const char *kind = c->direct ? "direct" : c->pingpong ? "pingpong" : "coop";
    s->name = arena_printf(a, "%s_%dx%d", kind, c->bm, c->bn);
    s->target = cx->target->name;
    s->move = MOVE_tma;
    s->mul = MUL_wgmma;
    s->threads = 128 * (1 + c->groups);
    s->pingpong = c->pingpong;
    s->persistent = true;
    s->raster = 16;
    lay(a, s, g->m.rows, c->bm);
    lay(a, s, g->m.cols, c->bn);
    lay(a, s, g->m.k, STAGE_K);
    int slabs = c->direct ? 0 : stage_stores(a, g, c, s), stage = (c->bm + c->bn) * STAGE_K * 2;
    int stages = (cx->target->smem - 2048 - slabs) / stage;
    if (stages > 8) stages = 8;
    in_smem(a, s, &g->m.a, c->bm, stages);
    in_smem(a, s, &g->m.b, c->bn, stages);
    SRole load = {"load", 4, 24}, mma = {"mma", 4 * c->groups, 240};
    vec_push(a, &s->roles, load);
    vec_push(a, &s->roles, mma);
    s->cost = price(g, c);
    return s;
}

/* What the tier does not make yet, or cannot, is not proposed. */
static bool fits_tier(const TProg *t, const Schedule *s) {
    Mma m;
    MmaTiles w;
    Str why = {0};
    bool fits = mma_schedule(t, s, &m, &w, &why);
    str_free(&why);
    return fits;
}

/* Is the program of this shape? */
static bool is_gemm(const TProg *t, Gemm *g) {
    Str why = {0};
    g->t = t;
    bool is = mma_find(t, -1, -1, &g->m, &why);
    str_free(&why);
    return is;
}

typedef struct Candidate {
    Schedule *s;
    bool always;
} Candidate;

/* Cheapest first, if the costs are constants. Insertion: stable, few. */
static void sort(Candidate *c, int n) {
    for (int i = 1; i < n; i++)
        for (int k = i; k > 0; k--) {
            int64_t before, after;
            if (!ix_is_const(c[k - 1].s->cost, &before) || !ix_is_const(c[k].s->cost, &after))
                break;
            if (before <= after) break;
            Candidate swap = c[k];
            c[k] = c[k - 1];
            c[k - 1] = swap;
        }
}

/* Adds what suits, cheapest first if the sizes are known; nothing when the program has another
 * shape or the target no wgmma. Under --strict factors stay as they are: 16-bit products are
 * exact in f32, so only the order of the sum is the tensor core's, which strict refuses. */
void schedule_wgmma(PassCtx *cx, Step *step) {
    Gemm g;
    if (!(cx->target->has & TGT_W) || cx->strict || !is_gemm(step->tile, &g)) return;
    Candidate c[TILES];
    int n = 0;
    for (int i = 0; i < TILES; i++) {
        Candidate new = {make(cx, &g, &tiles[i]), tiles[i].always};
        if (fits_tier(step->tile, new.s)) c[n++] = new;
    }
    sort(c, n);
    bool known = n && ix_is_const(c[0].s->cost, NULL);
    int best = known ? BEST : KEPT;
    for (int i = 0, kept = 0; i < n; i++) {
        if (!(known && c[i].always) && kept >= best) continue;
        vec_push(cx->arena, &step->schedules, c[i].s);
        kept++;
    }
}
