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
    const TInst *loop, *a, *b; /* a has axis m and not n, b the other way round */
    int m, n;
} Gemm;

/* ---- the shape ---- */

/* The axis stands bare in exactly one dimension and nowhere else. */
static bool bare_once(const TInst *load, int axis) {
    int bare = 0;
    for (int d = 0; d < load->nix; d++) {
        int is;
        if (ix_is_axis(load->ix[d], &is) && is == axis)
            bare++;
        else if (ix_uses_axis(load->ix[d], axis))
            return false;
    }
    return bare == 1;
}

static bool uses(const TInst *load, int axis) {
    for (int d = 0; d < load->nix; d++)
        if (ix_uses_axis(load->ix[d], axis)) return true;
    return false;
}

static bool plain_load(const TInst *i, int k) {
    if (i->kind != T_LOAD || i->checked || i->nix < 2 || i->nix > 5) return false;
    if (i->type != DT_bf16 && i->type != DT_f16) return false;
    for (int d = 0; d < i->nix; d++)
        if (i->ix[d]->has_value) return false;
    return bare_once(i, k);
}

/* step carry, a * b: the three or four instructions of the loop's body. */
static bool product_body(Gemm *g) {
    const TBlock *b = &g->loop->body;
    if (b->inst.n != 4) return false;
    const TInst *l0 = b->inst.v[0], *l1 = b->inst.v[1], *mul = b->inst.v[2], *step = b->inst.v[3];
    int k = g->loop->axis;
    if (!plain_load(l0, k) || !plain_load(l1, k) || l0->type != l1->type) return false;
    if (mul->kind != T_OP || mul->op != OP_mul || step->kind != T_STEP) return false;
    bool both = (mul->args[0] == l0->id && mul->args[1] == l1->id) ||
                (mul->args[0] == l1->id && mul->args[1] == l0->id);
    g->a = l0;
    g->b = l1;
    return both && step->args[1] == mul->id;
}

/* The last grid axis that one load has bare and the other lacks. */
static int own_axis(const Gemm *g, const TInst *has, const TInst *lacks) {
    for (int x = g->t->ngrid - 1; x >= 0; x--)
        if (!uses(lacks, x) && bare_once(has, x)) return x;
    return -1;
}

/* Is the program of this shape? */
static bool is_gemm(const TProg *t, Gemm *g) {
    *g = (Gemm){.t = t};
    for (int i = 0; i < t->body.inst.n; i++) {
        const TInst *k = t->body.inst.v[i];
        if (k->kind == T_GUARD || (k->kind == T_LOOP && g->loop)) return false;
        if (k->kind == T_LOOP) g->loop = k;
    }
    int64_t lo;
    if (!g->loop || g->loop->carries.n != 1 || !ix_is_const(g->loop->lo, &lo) || lo != 0)
        return false;
    const TCarry *c = &g->loop->carries.v[0];
    if (c->red != RED_sum || c->type != DT_f32 || c->frame >= 0) return false;
    if (g->loop->hi != t->axes.v[g->loop->axis].extent || !product_body(g)) return false;
    /* the last store's last axis is n: rows of the output are contiguous along it */
    int first = own_axis(g, g->a, g->b), second = own_axis(g, g->b, g->a);
    if (first < 0 || second < 0) return false;
    if (first > second) {
        const TInst *swap = g->a;
        g->a = g->b;
        g->b = swap;
        int x = first;
        first = second;
        second = x;
    }
    g->m = first;
    g->n = second;
    return true;
}

/* ---- tiles and their price ---- */

typedef struct Tile {
    int bm, bn;
    bool pingpong;
    int groups;  /* consumer warpgroups */
    bool direct; /* stores from registers: any pitch and alignment */
} Tile;

/* Without known sizes the first KEPT are made: large, small and thin problems. */
static const Tile tiles[] = {
    {128, 256, false, 2, false}, {192, 128, true, 2, false}, {128, 128, true, 2, false},
    {64, 128, true, 2, false},   {64, 32, true, 2, false},   {256, 128, false, 2, false},
    {128, 128, false, 2, false}, {128, 256, false, 2, true},
};
enum { TILES = sizeof tiles / sizeof *tiles, KEPT = 5, STAGE_K = 64, SMS = 132 };

static const Ix *ceil_div(IxPool *p, const Ix *x, int64_t by) {
    return ix_div(p, ix_add(p, x, ix_const(p, by - 1)), ix_const(p, by));
}

static const Ix *times(IxPool *p, const Ix *x, int64_t c) {
    return ix_mul(p, x, ix_const(p, c));
}

static const Ix *plus(IxPool *p, const Ix *x, int64_t c) {
    return ix_add(p, x, ix_const(p, c));
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
        int64_t tile = x == g->m ? c->bm : x == g->n ? c->bn : 1;
        count = ix_mul(p, count, ceil_div(p, g->t->axes.v[x].extent, tile));
    }
    const Ix *rounds = ceil_div(p, count, SMS);
    const Ix *main = times(p, ceil_div(p, g->t->axes.v[g->loop->axis].extent, STAGE_K), kt);
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
    if (c->direct) cycles = ix_add(p, cycles, times(p, rounds, area / 10));
    return ix_div(p, times(p, cycles, 10), ix_const(p, 17));
}

/* ---- schedules ---- */

static void lay(Arena *a, Schedule *s, int axis, int tile) {
    SAxis x = {.axis = axis, .lanes = 1, .regs = 1, .vec = 1, .tile = tile};
    vec_push(a, &s->axes, x);
}

static void in_smem(Arena *a, Schedule *s, int value, int buffers) {
    SValue v = {.value = value, .place = PLACE_smem, .buffers = buffers, .swizzle = 128};
    vec_push(a, &s->values, v);
}

/* Stores go through two slabs each of shared memory where they can. Returns the bytes of all. */
static int stage_stores(Arena *a, const Gemm *g, const Tile *c, Schedule *s) {
    Mma m;
    Str why = {0};
    bool ok = mma_find(g->t, g->m, g->n, &m, &why);
    str_free(&why);
    if (!ok) return 0;
    VEC(const TInst *) list = {0};
    double work = 0; /* of an element, after the loop */
    int size = 0, rows = c->pingpong ? c->bm : c->bm / c->groups;
    for (int i = 0; i < g->t->body.inst.n; i++) {
        const TInst *x = g->t->body.inst.v[i];
        if (x->kind == T_OP) work += cost_op(x->op);
        if (x->kind != T_STORE || list.n == MMA_STAGED || !mma_can_stage(g->t, &m, x)) continue;
        vec_push(a, &list, x);
        size += dtype_bits(g->t->tensors.v[x->tensor].type) / 8;
    }
    int cols = rows == 64 && size <= 2 ? 64 : 32;
    if (work > 32) cols = size == 1 || rows == 64 ? 32 : 16; /* long code: less of it */
    if (rows > 128 && size > 1) cols = 16; /* few registers are left to hold them */
    while (c->bn % cols) cols /= 2;
    for (int i = 0; i < list.n; i++) {
        int bytes = cols * dtype_bits(g->t->tensors.v[list.v[i]->tensor].type) / 8;
        bool again = false; /* a value that two stores share */
        for (int k = 0; k < i; k++) again |= list.v[k]->args[0] == list.v[i]->args[0];
        SValue v = {list.v[i]->args[0], PLACE_smem, 2, bytes < 128 ? bytes : 128};
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
    lay(a, s, g->m, c->bm);
    lay(a, s, g->n, c->bn);
    lay(a, s, g->loop->axis, STAGE_K);
    int slabs = c->direct ? 0 : stage_stores(a, g, c, s), stage = (c->bm + c->bn) * STAGE_K * 2;
    int stages = (cx->target->smem - 2048 - slabs) / stage;
    if (stages > 8) stages = 8;
    in_smem(a, s, g->a->id, stages);
    in_smem(a, s, g->b->id, stages);
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

/* Adds what suits, cheapest first if the sizes are known; nothing when the program has another
 * shape or the target no wgmma. Under --strict factors stay as they are: 16-bit products are
 * exact in f32, so only the order of the sum is the tensor core's, which strict refuses. */
void schedule_wgmma(PassCtx *cx, Step *step) {
    Gemm g;
    if (!(cx->target->has & TGT_W) || cx->strict || !is_gemm(step->tile, &g)) return;
    Schedule *s[TILES];
    int n = 0;
    for (int i = 0; i < TILES; i++) s[n++] = make(cx, &g, &tiles[i]);
    for (int i = 1; i < n; i++) /* insertion sort: stable, few */
        for (int k = i; k > 0; k--) {
            int64_t before, after;
            if (!ix_is_const(s[k - 1]->cost, &before) || !ix_is_const(s[k]->cost, &after)) break;
            if (before <= after) break;
            Schedule *swap = s[k];
            s[k] = s[k - 1];
            s[k - 1] = swap;
        }
    bool known = ix_is_const(s[0]->cost, NULL); /* then the best two and the one for any layout */
    int keep = known ? 3 : KEPT;
    for (int i = 0, kept = 0; i < n && kept < keep; i++) {
        bool last = kept == keep - 1, direct = !strncmp(s[i]->name, "direct", 6);
        if (!fits_tier(step->tile, s[i]) || (last && !direct)) continue; /* one takes any output */
        vec_push(cx->arena, &step->schedules, s[i]);
        kept++;
    }
}
