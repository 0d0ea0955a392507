/* schedule_wgmma_price.c - what a tile of the wgmma tier is predicted to take: cycles of a CTA
 * (start + rounds * (main loop + epilogue)) and of memory, fitted to measurements on the H200,
 * written as an expression of the sizes.
 */
#include "passes/cost_int.h"
#include "passes/schedule_wgmma_int.h"

int gemm_stage_k(const Gemm *g) {
    return STAGE_BYTES / g->m.size;
}

int tile_groups(const Tile *c) {
    if (c->kind == DEAL) return c->groups;
    return c->kind == THIN || c->kind == SWAP ? 1 : 2;
}

bool tile_swaps(const Gemm *g, const Tile *c) {
    return c->regs ? g->m.b.made : c->kind == SWAP;
}

int tile_k(const Gemm *g, const Tile *c) {
    return gemm_stage_k(g) * (c->regs ? c->regs : 1);
}

int tile_loaders(const Tile *c) {
    return c->loaders > 1 ? c->loaders : 1;
}

int tile_pair_rows(const Tile *c) {
    return c->pair_rows > 1 ? c->pair_rows : 1;
}

int tile_pair_cols(const Tile *c) {
    return c->pair_cols > 1 ? c->pair_cols : 1;
}

int gemm_rows(const Gemm *g, const Tile *c) {
    return tile_swaps(g, c) ? g->m.cols : g->m.rows;
}

int gemm_cols(const Gemm *g, const Tile *c) {
    return tile_swaps(g, c) ? g->m.rows : g->m.cols;
}

int gemm_sums(const Gemm *g, const Tile *c) {
    return c->grouped ? 1 : g->m.sums;
}

/* Factors of the accumulator's rows, of its columns. */
static int parts(const Gemm *g, const Tile *c, bool rows) {
    if (c->grouped) return 1;
    return mma_factors(&g->m, rows != tile_swaps(g, c));
}

int gemm_height(const Gemm *g, const Tile *c) {
    return c->bm * parts(g, c, true);
}

int gemm_width(const Gemm *g, const Tile *c) {
    return c->bn * parts(g, c, false);
}

/* Sums that a CTA makes. */
static int64_t tile_area(const Gemm *g, const Tile *c) {
    return (int64_t)gemm_height(g, c) * gemm_width(g, c);
}

static const Ix *ceil_div(IxPool *p, const Ix *x, int64_t by) {
    return ix_div(p, ix_add(p, x, ix_const(p, by - 1)), ix_const(p, by));
}

static const Ix *times(IxPool *p, const Ix *x, int64_t c) {
    return ix_mul(p, x, ix_const(p, c));
}

static const Ix *plus(IxPool *p, const Ix *x, int64_t c) {
    return ix_add(p, x, ix_const(p, c));
}

static const Ix *least(IxPool *p, const Ix *x, int64_t c) {
    return ix_min(p, x, ix_const(p, c));
}

static const Ix *most(IxPool *p, const Ix *x, int64_t c) {
    return ix_max(p, x, ix_const(p, c));
}

static const Ix *scaled(IxPool *p, const Ix *x, int64_t num, int64_t den) {
    return ix_div(p, times(p, x, num), ix_const(p, den));
}

static const Ix *extent(const Gemm *g, int axis) {
    return g->t->axes.v[axis].extent;
}

/* Most tiles of a block of columns, which a CTA walks. */
static int walk(const Gemm *g, const Tile *c) {
    const MmaBlock *b = tile_swaps(g, c) ? &g->m.row_block : &g->m.col_block;
    return b->size > c->bn ? (b->size + c->bn - 1) / c->bn : 1;
}

/* Tiles that a CTA works on one after the other. */
static const Ix *walked(const Gemm *g, const Tile *c) {
    return least(g->t->ix, ceil_div(g->t->ix, extent(g, gemm_cols(g, c)), c->bn), walk(g, c));
}

static const Ix *count_clusters(const Gemm *g, const Tile *c) {
    IxPool *p = g->t->ix;
    const Ix *count = ix_const(p, c->grouped ? g->m.sums : 1);
    for (int x = 0; x < g->t->ngrid; x++) {
        int64_t tile = x == gemm_rows(g, c)   ? c->bm * tile_pair_rows(c)
                       : x == gemm_cols(g, c) ? c->bn * tile_pair_cols(c) * walk(g, c)
                                              : 1;
        count = ix_mul(p, count, ceil_div(p, extent(g, x), tile));
    }
    return count;
}

/* Of all tensors, each once. */
const Ix *gemm_bytes(const Gemm *g) {
    IxPool *p = g->t->ix;
    const Ix *sum = ix_const(p, 0);
    for (int i = 0; i < g->t->tensors.n; i++) {
        const TTensor *x = &g->t->tensors.v[i];
        const Ix *n = ix_const(p, dtype_bits(x->type));
        for (int d = 0; d < x->rank; d++) n = ix_mul(p, n, x->dims[d]);
        sum = ix_add(p, sum, n);
    }
    return ix_div(p, sum, ix_const(p, 8));
}

/* Bytes of a row of a stage, as they are loaded. */
static int row_bytes(const Gemm *g, const MmaFactor *f) {
    int bytes = 0;
    if (!f->made) return STAGE_BYTES;
    for (int i = 0; i < f->nparts; i++) {
        const TInst *x = f->part[i];
        int axis;
        bool along = x->kind == T_LOAD && x->nix && ix_is_axis(x->ix[x->nix - 1], &axis);
        if (along && axis == g->m.k)
            bytes += gemm_stage_k(g) * dtype_bits(g->t->tensors.v[x->tensor].type) / 8;
    }
    return bytes ? bytes : STAGE_BYTES;
}

enum { EACH_LOAD = 12, EACH_STORE = 2 };

/* Hundredths of a cycle in which threads make a row of a stage: instructions of its elements, of
 * which a warp a scheduler issues 2 in 5 cycles, and several 3 in 5: fitted to 4-bit weights on the
 * H200, 2026-12. */
static int made_time(const Gemm *g, const Tile *c, const MmaFactor *f) {
    double work = EACH_STORE, load = EACH_LOAD;
    for (int i = 0; i < f->nparts; i++) {
        const TInst *x = f->part[i];
        if (x->kind == T_OP) work += cost_op(x->op);
        if (x->kind == T_LOAD) work += c->wide ? 1 : load;
    }
    if (!f->made) work += load;
    return (int)(gemm_stage_k(g) * work * 100 / (tile_loaders(c) > 1 ? 75 : 52));
}

/* Hundredths of a cycle in which a multiprocessor takes in 128 bytes of a row: at 72 bytes a cycle,
 * 45 where rows do not begin at cache lines, 38 where not even at sectors. Threads need 5 cycles:
 * not measured, a sum over their instructions. */
static const Ix *row_time(const Gemm *g, const Tile *c, const MmaFactor *f) {
    IxPool *p = g->t->ix;
    if (f->made || (g->made && !c->wide)) return ix_const(p, made_time(g, c, f));
    if (c->plain && !g->made) return ix_const(p, 500);
    const TTensor *x = &g->t->tensors.v[f->load->tensor];
    const Ix *pitch = times(p, x->dims[x->rank - 1], dtype_bits(x->type) / 8);
    const Ix *lines = least(p, ix_mod(p, pitch, ix_const(p, 128)), 1);
    const Ix *sectors = least(p, ix_mod(p, pitch, ix_const(p, 32)), 1);
    return plus(p, ix_add(p, times(p, lines, 284 - 178), times(p, sectors, 337 - 284)), 178);
}

/* Rows of a factor's part of a stage that there are, and those of zeros that its boxes bring. */
static const Ix *rows_there(const Gemm *g, int axis, int rows) {
    return least(g->t->ix, extent(g, axis), rows);
}

static const Ix *rows_zero(const Gemm *g, int axis, int rows) {
    IxPool *p = g->t->ix;
    if ((axis == g->m.rows ? &g->m.a : &g->m.b)->row < 0) return ix_const(p, 0);
    const Ix *boxes = least(p, times(p, ceil_div(p, extent(g, axis), MMA_BOX), MMA_BOX), rows);
    return ix_sub(p, boxes, rows_there(g, axis, rows));
}

/* The same where groups make a factor in registers, 4-bit weights, H200, 2026-12: of groups that
 * deal stages, making it; else making it is hidden behind products all but for this. */
static int64_t regs_cycles(const Gemm *g, const Tile *c) {
    if (c->kind == DEAL) return 240 + c->bn * 13 / 10 + (4 - c->regs) * 16;
    return tile_area(g, c) / 32 + 180;
}

/* Cycles that a stage takes, 128 bytes of k: a multiprocessor issues 4096 16-bit or 8192 fp8
 * multiply-adds a cycle; of a pair's common factor it loads half; a lone group cannot hide all of
 * its turns around the ring. TMA itself brings a row a cycle, but takes 7 for one of zeros. */
static const Ix *stage_cycles(const Gemm *g, const Tile *c) {
    IxPool *p = g->t->ix;
    if (c->regs) return ix_const(p, regs_cycles(g, c));
    bool swap = tile_swaps(g, c);
    int a_axis = gemm_rows(g, c), a_rows = c->bm / tile_pair_cols(c);
    int b_axis = gemm_cols(g, c), b_rows = c->bn / tile_pair_rows(c);
    int a_parts = parts(g, c, true), b_parts = parts(g, c, false);
    const Ix *a = times(p, rows_there(g, a_axis, a_rows), a_parts);
    const Ix *b = times(p, rows_there(g, b_axis, b_rows), b_parts);
    const Ix *zeros = ix_add(p, times(p, rows_zero(g, a_axis, a_rows), a_parts),
                             times(p, rows_zero(g, b_axis, b_rows), b_parts));
    if (g->made) zeros = ix_const(p, 0);
    const Ix *tma = ix_add(p, ix_add(p, a, b), times(p, zeros, c->plain ? 0 : 7));
    a = ix_mul(p, a, row_time(g, c, swap ? &g->m.b : &g->m.a));
    b = ix_mul(p, b, row_time(g, c, swap ? &g->m.a : &g->m.b));
    const Ix *loads = ix_max(p, ix_div(p, ix_add(p, a, b), ix_const(p, 100)), tma);
    int64_t area = c->bm < 64 ? tile_area(g, c) / c->bm * 64 : tile_area(g, c);
    int64_t least_time = area / 32;
    if (tile_groups(c) == 1 && least_time < 110) least_time = 110;
    return most(p, loads, least_time);
}

/* Cycles that memory takes: 2529 bytes of all tensors in one (4.3 TB/s). Narrow tiles read the
 * large factor again and again; the second-level cache gives 6200. */
static const Ix *memory_cycles(const Gemm *g, const Tile *c) {
    IxPool *p = g->t->ix;
    const Ix *memory = scaled(p, gemm_bytes(g), 1, 2529);
    if (tile_groups(c) > 1 && c->kind != DEAL) return memory;
    const Ix *stages =
        ix_mul(p, count_clusters(g, c), ceil_div(p, extent(g, g->m.k), gemm_stage_k(g)));
    if (walk(g, c) > 1) stages = ix_mul(p, stages, walked(g, c));
    bool swap = tile_swaps(g, c);
    int a = row_bytes(g, swap ? &g->m.b : &g->m.a), b = row_bytes(g, swap ? &g->m.a : &g->m.b);
    return ix_max(p, memory, scaled(p, stages, gemm_height(g, c) * a + gemm_width(g, c) * b, 6200));
}

/* Small tiles move more bytes for a product, which costs clock where the chip is at the limit of
 * its power: long problems of long sums. In thousandths. */
static const Ix *power(const Gemm *g, const Tile *c, const Ix *k, const Ix *cycles) {
    IxPool *p = g->t->ix;
    int64_t less = 128 * 256 - tile_area(g, c), more = 0;
    if (tile_groups(c) > 1 && less > 0) more = 50 * less * less / (16384 * 16384);
    if (tile_pair_rows(c) * tile_pair_cols(c) == 1) more += 8;
    const Ix *deep = least(p, ix_div(p, k, ix_const(p, 2048)), 1);
    const Ix *lasts = least(p, ix_div(p, cycles, ix_const(p, 28000)), 1);
    return plus(p, times(p, ix_mul(p, deep, lasts), more), 1000);
}

/* Of a CTA, when the last round's tiles are split. *join: what follows its loop: writing and adding
 * up the parts is bound by the second-level cache. */
static const Ix *split_cycles(const Gemm *g, const Tile *c, int slots, const Ix *main, int64_t out,
                              const Ix **join) {
    IxPool *p = g->t->ix;
    const Ix *k_tiles = ceil_div(p, extent(g, g->m.k), gemm_stage_k(g));
    MmaParts x = mma_parts(p, count_clusters(g, c), k_tiles, slots, c->split);
    const Ix *any = ceil_div(p, x.cut, slots);
    *join = times(p, any, 4000 + tile_area(g, c) * 3 / 4);
    const Ix *whole = ix_mul(p, ceil_div(p, x.whole, slots), plus(p, main, out));
    return ix_add(p, whole, ix_mul(p, any, ix_div(p, main, x.parts)));
}

/* Nanoseconds at 1.7 GHz. 5000 cycles go into start and exit, of pairs 6500.
 * With ping-pong one group's epilogue hides behind the other's main loop. Of arithmetic and memory
 * the lower bound counts a little too, since neither hides the other
 * wholly. Constants fitted on nine shapes, and on some of misaligned rows, H200, 2026-11. */
const Ix *gemm_price(const Gemm *g, const Tile *c) {
    IxPool *p = g->t->ix;
    int64_t area = tile_area(g, c);
    int slots = g->sms / (tile_pair_rows(c) * tile_pair_cols(c));
    const Ix *rounds = ceil_div(p, count_clusters(g, c), slots);
    const Ix *main = ix_mul(p, ceil_div(p, extent(g, g->m.k), gemm_stage_k(g)), stage_cycles(g, c));
    if (c->loop) main = scaled(p, main, c->loop, 100);
    const Ix *cycles, *join = ix_const(p, 0);
    if (c->kind == PINGPONG) {
        int64_t out = area * (area >= 192 * 128 ? 44 : 37) / 100;
        const Ix *hidden =
            ix_max(p, plus(p, main, 850), ix_div(p, plus(p, main, out), ix_const(p, 2)));
        cycles = ix_add(p, ix_mul(p, plus(p, rounds, -1), hidden), plus(p, main, area * 19 / 100));
    } else {
        int64_t out = 1000 + area / (c->kind == DIRECT ? 5 : 10);
        cycles = ix_mul(p, rounds, plus(p, main, out));
        if (walk(g, c) > 1) cycles = ix_mul(p, cycles, walked(g, c));
        if (c->split > 1) cycles = split_cycles(g, c, slots, main, out, &join);
    }
    cycles =
        ix_div(p, ix_mul(p, cycles, power(g, c, extent(g, g->m.k), cycles)), ix_const(p, 1000));
    const Ix *memory = memory_cycles(g, c);
    cycles = ix_add(p, ix_max(p, cycles, memory), scaled(p, ix_min(p, cycles, memory), 1, 8));
    int start = tile_pair_rows(c) * tile_pair_cols(c) > 1 ? 6500 : 5000;
    return scaled(p, plus(p, ix_add(p, cycles, join), start), 10, 17);
}

/* For a vector, the general kernel has threads for each sum, and no tile to fill: where there are
 * many small matrices it is faster. It reads a matrix for each of its sums: at 1.05 TB/s on the
 * H200 (8192 x 8192, bf16); that few sums go at a byte in a nanosecond each is not measured. */
const Ix *gemm_price_general(const Gemm *g) {
    IxPool *p = g->t->ix;
    const Ix *sums = ix_const(p, 1);
    for (int x = 0; x < g->t->ngrid; x++) sums = ix_mul(p, sums, extent(g, x));
    const Ix *bytes_ns = most(p, least(p, sums, 1050), 1);
    const Ix *bytes = times(p, ix_mul(p, sums, extent(g, g->m.k)), g->m.sums * g->m.size);
    return plus(p, ix_div(p, bytes, bytes_ns), 5000 * 10 / 17);
}

bool gemm_splits_in_vain(const Gemm *g, const Tile *t) {
    IxPool *p = g->t->ix;
    int64_t cut;
    if (t->split <= 1) return false;
    int slots = g->sms / (tile_pair_rows(t) * tile_pair_cols(t));
    const Ix *k_tiles = ceil_div(p, extent(g, g->m.k), gemm_stage_k(g));
    const Ix *x = mma_parts(p, count_clusters(g, t), k_tiles, slots, t->split).cut;
    return g->whole || (ix_is_const(x, &cut) && !cut);
}
