/* schedule_wgmma.c - schedules for programs whose one loop sums products of two 16-bit or fp8
 * loads: TMA into shared memory, wgmma, warp roles (ir/schedule.h says what such a schedule means).
 *
 * The shape is told by the loop and its loads alone: what comes after the loop may be anything that
 * stands outside of loops and guards. Which tiles are worth making is a rule fitted to measurements
 * on the H200 (cycles of a CTA: start + rounds * (main loop + epilogue)), written as an expression
 * of the sizes, so that the runtime takes the cheapest for the sizes at hand; with bound sizes
 * only the best few are made.
 */
#include "passes/schedule_int.h"

#include <string.h>

typedef struct Gemm {
    const TProg *step, *t; /* the program; the view of it that m is about */
    Mma m;
    int sums;   /* what it needs of enum Sums */
    bool whole; /* sums of k are made in one go, whatever the other sizes are */
} Gemm;

/* ---- tiles and their price ---- */

typedef enum Kind {
    COOP,     /* the groups share a tile */
    PINGPONG, /* each has tiles of its own */
    DIRECT,   /* as COOP, but stores from registers: any pitch and alignment */
    THIN,     /* one group, deep ring, direct: all that counts is to keep memory busy */
    SWAP,   /* the same with the operands swapped: bm rows of the factor of columns, and bn columns
               for the few rows of the other */
    TURNS,  /* as COOP, and they take turns at issuing (promotion) */
    OVERLAP /* as COOP, and each overlaps adding with what it multiplies (promotion, two sets) */
} Kind;
static const char *const kind_name[] = {"coop", "pingpong", "direct", "thin",
                                        "swap", "turns",    "overlap"};

/* Sums by what they need: of 16-bit products; of fp8 products, that the tensor core may keep to
 * itself (--fast-accum); of fp8 products, promoted to f32 every 128. */
enum Sums { WIDE = 1, FP8 = 2, PROMOTED = 4, ALL = WIDE | FP8 | PROMOTED };

/* A candidate. */
typedef struct Tile {
    int sums; /* that it is for */
    Kind kind;
    int bm, bn;
    SEvict rows, cols;        /* the cache and the factors of the program's rows and columns */
    int pair_rows, pair_cols; /* CTAs of a cluster, 2 in one of them; 0 reads as 1 */
    bool plain;               /* loads by threads, and direct: factors of any pitch and alignment */
    bool always;      /* also kept when sizes are known and others are cheaper: for layouts */
    int pieces, sets; /* of promotion; 0 reads as 1 */
    int split;        /* most parts along k of the last round's tiles; 0 reads as 1 */
    int loop;         /* percent of the ideal that its main loop takes; 0 reads as 100 */
} Tile;

/* Without known sizes the first KEPT that fit are made: large, small and thin problems, any layout.
 * Where there are few tiles of rows, the columns' factor is read about once, and the rows' by all.
 */
static const Tile tiles[] = {
    {FP8, .kind = PINGPONG, .bm = 128, .bn = 192},
    {WIDE | FP8, .kind = COOP, .bm = 128, .bn = 256, .pair_rows = 2},
    {WIDE | FP8, .kind = PINGPONG, .bm = 192, .bn = 128, .pair_cols = 2},
    {WIDE | FP8, .kind = PINGPONG, .bm = 128, .bn = 128},
    {PROMOTED, .kind = COOP, .bm = 128, .bn = 192},
    {PROMOTED, .kind = COOP, .bm = 128, .bn = 192, .pair_rows = 2},
    {PROMOTED, .kind = OVERLAP, .bm = 128, .bn = 192, .pieces = 2, .sets = 2, .loop = 101},
    {PROMOTED, .kind = TURNS, .bm = 128, .bn = 192, .loop = 102},
    {PROMOTED, .kind = COOP, .bm = 128, .bn = 256, .pieces = 2, .loop = 103},
    {PROMOTED, .kind = TURNS, .bm = 128, .bn = 256, .pieces = 2, .pair_rows = 2, .loop = 107},
    {PROMOTED, .kind = PINGPONG, .bm = 128, .bn = 96, .pieces = 2, .sets = 2, .loop = 110},
    {WIDE | FP8, .kind = PINGPONG, .bm = 64, .bn = 128, .rows = EVICT_last, .cols = EVICT_first},
    {PROMOTED, .kind = PINGPONG, .bm = 64, .bn = 128, .rows = EVICT_last, .cols = EVICT_first,
     .pieces = 2, .sets = 2, .loop = 120},
    {ALL, .kind = THIN, .bm = 64, .bn = 32, .rows = EVICT_last, .cols = EVICT_first},
    {ALL, .kind = SWAP, .bm = 64, .bn = 16, .rows = EVICT_last, .cols = EVICT_first},
    {ALL, .kind = SWAP, .bm = 64, .bn = 16, .rows = EVICT_last, .cols = EVICT_first, .split = 16},
    {WIDE | FP8, .kind = DIRECT, .bm = 128, .bn = 128, .pair_rows = 2, .split = 16},
    {WIDE | FP8, .kind = COOP, .bm = 128, .bn = 256, .pair_rows = 2, .split = 16},
    {PROMOTED, .kind = DIRECT, .bm = 128, .bn = 128, .split = 16, .loop = 105},
    {WIDE | FP8, .kind = DIRECT, .bm = 128, .bn = 256, .always = true},
    {PROMOTED, .kind = DIRECT, .bm = 128, .bn = 192, .always = true, .loop = 105},
    {WIDE, .kind = DIRECT, .bm = 128, .bn = 256, .plain = true, .always = true},
    {WIDE, .kind = THIN, .bm = 64, .bn = 64, .plain = true},
    {WIDE, .kind = COOP, .bm = 128, .bn = 128},
    {WIDE | FP8, .kind = PINGPONG, .bm = 128, .bn = 128, .pair_rows = 2},
    {WIDE | FP8, .kind = COOP, .bm = 256, .bn = 128},
    {WIDE | FP8, .kind = COOP, .bm = 256, .bn = 128, .pair_cols = 2},
    {ALL, .kind = SWAP, .bm = 64, .bn = 64, .rows = EVICT_last, .cols = EVICT_first},
    /* for known sizes */
    {PROMOTED, .kind = TURNS, .bm = 256, .bn = 128, .pieces = 2, .loop = 107},
    {ALL, .kind = SWAP, .bm = 64, .bn = 8, .rows = EVICT_last, .cols = EVICT_first},
    {ALL, .kind = SWAP, .bm = 64, .bn = 32, .rows = EVICT_last, .cols = EVICT_first},
    {ALL, .kind = THIN, .bm = 16, .bn = 32, .rows = EVICT_last, .cols = EVICT_first},
};
enum { TILES = sizeof tiles / sizeof *tiles, KEPT = 16, BEST = 2, STAGE_BYTES = 128, SMS = 132 };

static int stage_k(const Gemm *g) {
    return STAGE_BYTES / g->m.size;
}

static int groups(const Tile *c) {
    return c->kind == THIN || c->kind == SWAP ? 1 : 2;
}

static int pair_rows(const Tile *c) {
    return c->pair_rows > 1 ? c->pair_rows : 1;
}

static int pair_cols(const Tile *c) {
    return c->pair_cols > 1 ? c->pair_cols : 1;
}

/* The axes of the accumulator. */
static int rows_of(const Gemm *g, const Tile *c) {
    return c->kind == SWAP ? g->m.cols : g->m.rows;
}

static int cols_of(const Gemm *g, const Tile *c) {
    return c->kind == SWAP ? g->m.rows : g->m.cols;
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

static const Ix *count_clusters(const Gemm *g, const Tile *c) {
    IxPool *p = g->t->ix;
    const Ix *count = ix_const(p, 1);
    for (int x = 0; x < g->t->ngrid; x++) {
        int64_t tile = x == rows_of(g, c)   ? c->bm * pair_rows(c)
                       : x == cols_of(g, c) ? c->bn * pair_cols(c)
                                            : 1;
        count = ix_mul(p, count, ceil_div(p, extent(g, x), tile));
    }
    return count;
}

/* Of all tensors, each once. */
static const Ix *count_bytes(const Gemm *g) {
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

/* Hundredths of a cycle in which a multiprocessor takes in 128 bytes of a row: at 72 bytes a cycle,
 * 45 where rows do not begin at cache lines, 38 where not even at sectors. Threads need 5 cycles:
 * not measured, a sum over their instructions. */
static const Ix *row_time(const Gemm *g, const Tile *c, const MmaFactor *f) {
    IxPool *p = g->t->ix;
    if (c->plain) return ix_const(p, 500);
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
    const Ix *boxes = least(p, times(p, ceil_div(p, extent(g, axis), MMA_BOX), MMA_BOX), rows);
    return ix_sub(p, boxes, rows_there(g, axis, rows));
}

/* Cycles that a stage takes, 128 bytes of k: a multiprocessor issues 4096 16-bit or 8192 fp8
 * multiply-adds a cycle; of a pair's common factor it loads half; a lone group cannot hide all of
 * its turns around the ring. TMA itself brings a row a cycle, but takes 7 for one of zeros. */
static const Ix *stage_cycles(const Gemm *g, const Tile *c) {
    IxPool *p = g->t->ix;
    bool swap = c->kind == SWAP;
    int a_axis = rows_of(g, c), a_rows = c->bm / pair_cols(c);
    int b_axis = cols_of(g, c), b_rows = c->bn / pair_rows(c);
    const Ix *a = rows_there(g, a_axis, a_rows), *b = rows_there(g, b_axis, b_rows);
    const Ix *zeros = ix_add(p, rows_zero(g, a_axis, a_rows), rows_zero(g, b_axis, b_rows));
    const Ix *tma = ix_add(p, ix_add(p, a, b), times(p, zeros, c->plain ? 0 : 7));
    a = ix_mul(p, a, row_time(g, c, swap ? &g->m.b : &g->m.a));
    b = ix_mul(p, b, row_time(g, c, swap ? &g->m.a : &g->m.b));
    const Ix *loads = ix_max(p, ix_div(p, ix_add(p, a, b), ix_const(p, 100)), tma);
    int64_t area = (int64_t)(c->bm < 64 ? 64 : c->bm) * c->bn, least_time = area / 32;
    if (groups(c) == 1 && least_time < 110) least_time = 110;
    return most(p, loads, least_time);
}

/* Cycles that memory takes: 2529 bytes of all tensors in one (4.3 TB/s). Narrow tiles read the
 * large factor again and again; the second-level cache gives 6200. */
static const Ix *memory_cycles(const Gemm *g, const Tile *c) {
    IxPool *p = g->t->ix;
    const Ix *memory = scaled(p, count_bytes(g), 1, 2529);
    if (groups(c) > 1) return memory;
    const Ix *stages = ix_mul(p, count_clusters(g, c), ceil_div(p, extent(g, g->m.k), stage_k(g)));
    return ix_max(p, memory, scaled(p, stages, (c->bm + c->bn) * STAGE_BYTES, 6200));
}

/* Small tiles move more bytes for a product, which costs clock where the chip is at the limit of
 * its power: long problems of long sums. In thousandths. */
static const Ix *power(IxPool *p, const Tile *c, const Ix *k, const Ix *cycles) {
    int64_t less = 128 * 256 - c->bm * c->bn, more = 0;
    if (groups(c) > 1 && less > 0) more = 50 * less * less / (16384 * 16384);
    if (pair_rows(c) * pair_cols(c) == 1) more += 8;
    const Ix *deep = least(p, ix_div(p, k, ix_const(p, 2048)), 1);
    const Ix *lasts = least(p, ix_div(p, cycles, ix_const(p, 28000)), 1);
    return plus(p, times(p, ix_mul(p, deep, lasts), more), 1000);
}

/* Of a CTA, when the last round's tiles are split. *join: what follows its loop: writing and adding
 * up the parts is bound by the second-level cache. */
static const Ix *split_cycles(const Gemm *g, const Tile *c, int slots, const Ix *main, int64_t out,
                              const Ix **join) {
    IxPool *p = g->t->ix;
    const Ix *k_tiles = ceil_div(p, extent(g, g->m.k), stage_k(g));
    MmaParts x = mma_parts(p, count_clusters(g, c), k_tiles, slots, c->split);
    const Ix *any = ceil_div(p, x.cut, slots);
    *join = times(p, any, 4000 + (int64_t)c->bm * c->bn * 3 / 4);
    const Ix *whole = ix_mul(p, ceil_div(p, x.whole, slots), plus(p, main, out));
    return ix_add(p, whole, ix_mul(p, any, ix_div(p, main, x.parts)));
}

/* Nanoseconds at 1.7 GHz, 132 multiprocessors. 5000 cycles go into start and exit, of pairs 6500.
 * With ping-pong one group's epilogue hides behind the other's main loop. Of arithmetic and memory
 * the lower bound counts a little too, since neither hides the other
 * wholly. Constants fitted on nine shapes, and on some of misaligned rows, H200, 2026-11. */
static const Ix *price(const Gemm *g, const Tile *c) {
    IxPool *p = g->t->ix;
    int64_t area = (int64_t)c->bm * c->bn;
    int slots = SMS / (pair_rows(c) * pair_cols(c));
    const Ix *rounds = ceil_div(p, count_clusters(g, c), slots);
    const Ix *main = ix_mul(p, ceil_div(p, extent(g, g->m.k), stage_k(g)), stage_cycles(g, c));
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
        if (c->split > 1) cycles = split_cycles(g, c, slots, main, out, &join);
    }
    cycles =
        ix_div(p, ix_mul(p, cycles, power(p, c, extent(g, g->m.k), cycles)), ix_const(p, 1000));
    const Ix *memory = memory_cycles(g, c);
    cycles = ix_add(p, ix_max(p, cycles, memory), scaled(p, ix_min(p, cycles, memory), 1, 8));
    int start = pair_rows(c) * pair_cols(c) > 1 ? 6500 : 5000;
    return scaled(p, plus(p, ix_add(p, cycles, join), start), 10, 17);
}

/* ---- schedules ---- */

static void lay(Arena *a, Schedule *s, int axis, int tile) {
    SAxis x = {.axis = axis, .lanes = 1, .regs = 1, .vec = 1, .tile = tile};
    vec_push(a, &s->axes, x);
}

/* MN-major, the tile is cut into boxes as wide as the swizzle. */
static void in_smem(Arena *a, Schedule *s, const MmaFactor *f, int rows, int buffers, SEvict evict,
                    bool plain) {
    SValue v = {.value = f->load->id,
                .place = PLACE_smem,
                .buffers = buffers,
                .swizzle = 128,
                .evict = evict,
                .plain = plain};
    while (!f->k_major && rows % (v.swizzle / 2) && v.swizzle > 32) v.swizzle /= 2;
    vec_push(a, &s->values, v);
}

/* All but the stages of the factors and what is done with shared memory after the loop. */
static Schedule *begin(const PassCtx *cx, const Gemm *g, const Tile *c) {
    Arena *a = cx->arena;
    Schedule *s = ARENA_NEW(a, Schedule);
    s->name = arena_printf(a, "%s_%dx%d", c->plain ? "plain" : kind_name[c->kind], c->bm, c->bn);
    s->target = cx->target->name;
    s->move = MOVE_tma;
    s->mul = MUL_wgmma;
    s->threads = 128 * (1 + groups(c));
    s->pingpong = c->kind == PINGPONG;
    s->persistent = true;
    s->raster = groups(c) == 1 ? 1 : (c->kind == PINGPONG ? 12 : 16) / pair_rows(c);
    if (pair_rows(c) * pair_cols(c) > 1) {
        s->cluster[0] = pair_rows(c), s->cluster[1] = pair_cols(c), s->cluster[2] = 1;
        s->name = arena_printf(a, "%s_%dx%d", s->name, s->cluster[0], s->cluster[1]);
    }
    if (c->split > 1) {
        s->split = c->split;
        s->name = arena_printf(a, "%s_split", s->name);
    }
    lay(a, s, mma_axis(&g->m, rows_of(g, c)), c->bm);
    lay(a, s, mma_axis(&g->m, cols_of(g, c)), c->bn);
    lay(a, s, mma_axis(&g->m, g->m.k), stage_k(g));
    if (g->sums == PROMOTED) {
        s->promote = stage_k(g);
        s->pieces = c->pieces, s->sets = c->sets;
        s->turns = c->kind == TURNS;
    }
    s->cost = price(g, c);
    return s;
}

/* slabs: warps that copy them. */
static void end(const PassCtx *cx, const Gemm *g, const Tile *c, int stages, int slabs,
                Schedule *s) {
    Arena *a = cx->arena;
    bool small = groups(c) == 1, swap = c->kind == SWAP;
    in_smem(a, s, &g->m.a, swap ? c->bn : c->bm, stages, c->rows, c->plain);
    in_smem(a, s, &g->m.b, swap ? c->bm : c->bn, stages, c->cols, c->plain);
    SRole load = {"load", 4 - slabs, small ? 40 : 24}, slab = {"slab", slabs, load.regs};
    SRole mma = {"mma", 4 * groups(c), small ? 232 : 240};
    if (c->plain) load.regs = 152, mma.regs = small ? 232 : 176;
    vec_push(a, &s->roles, load);
    if (slabs) vec_push(a, &s->roles, slab);
    vec_push(a, &s->roles, mma);
}

/* What the tier does not make yet, or cannot, is not proposed; nor what could run only if tensors
 * had padded rows, for which there are the schedules for any pitch. */
static bool fits_tier(const TProg *t, const Schedule *s) {
    Mma m;
    MmaTiles w;
    Str why = {0};
    bool fits = mma_schedule(t, s, &m, &w, &why) && mma_takes_dense(&m, &w);
    str_free(&why);
    return fits;
}

enum { SPARE = 2048, LEAST_AHEAD = 144 * 1024 };

static int stage_bytes(const Tile *c) {
    return (c->bm + c->bn) * STAGE_BYTES;
}

/* Small tiles: as deep a ring as fits. */
static int stages_in(int bytes, const Tile *c) {
    int n = bytes / stage_bytes(c), most = groups(c) == 1 ? 32 : 8;
    return n < most ? n : most;
}

/* With matrices that are loaded after the loop brought to slabs; NULL: there are none, or no room.
 * For them there may be fewer stages, as few as without them, or LEAST_AHEAD bytes of them. */
static Schedule *bringing(const PassCtx *cx, const Gemm *g, const Tile *c, const SlabShape *x,
                          int without, bool last) {
    for (int n = stages_in(cx->target->smem, c);; n--) {
        for (int way = 0;; way++) {
            Schedule *s = begin(cx, g, c);
            if (!slabs_bring(cx->arena, x, way, last, s)) break;
            end(cx, g, c, n, groups(c), s);
            if (fits_tier(g->step, s)) return s;
        }
        if (n <= without && (n - 1) * stage_bytes(c) < LEAST_AHEAD) return NULL;
    }
}

enum { LESS = 2 };

/* Reduced rows need memory too: a stage or two less where that is short. */
static Schedule *make(const PassCtx *cx, const Gemm *g, const Tile *c) {
    bool pingpong = c->kind == PINGPONG, staged = groups(c) > 1 && c->kind != DIRECT;
    SlabShape x = {g->t, &g->m, pingpong ? c->bm : c->bm / groups(c), groups(c), c->bn, pingpong};
    Schedule *s;
    int stages, less = 0;
    do {
        s = begin(cx, g, c);
        int slabs = staged ? slabs_store(cx->arena, &x, s) : 0;
        stages = stages_in(cx->target->smem - SPARE - slabs, c) - less;
        end(cx, g, c, stages, 0, s);
    } while (g->m.row_block.size && !fits_tier(g->step, s) && less++ < LESS);
    if (c->split > 1) return s;
    Schedule *other = staged ? bringing(cx, g, c, &x, stages, false) : NULL;
    if (!other && pingpong) other = bringing(cx, g, c, &x, stages, true);
    return other ? other : s;
}

/* Is the program of this shape? */
static bool is_gemm(const TProg *t, Gemm *g) {
    Str why = {0};
    bool is = mma_find(t, -1, -1, &g->m, &why);
    g->step = t;
    g->t = g->m.t;
    str_free(&why);
    return is;
}

typedef struct Candidate {
    Tile tile;
    const Ix *cost;
} Candidate;

/* Cheapest first, if the costs are constants. Insertion: stable, few. */
static void sort(Candidate *c, int n) {
    for (int i = 1; i < n; i++)
        for (int k = i; k > 0; k--) {
            int64_t before, after;
            if (!ix_is_const(c[k - 1].cost, &before) || !ix_is_const(c[k].cost, &after)) break;
            if (before <= after) break;
            Candidate swap = c[k];
            c[k] = c[k - 1];
            c[k - 1] = swap;
        }
}

static void add(const Gemm *g, Candidate *list, int *n, Tile t) {
    list[*n] = (Candidate){t, price(g, &t)};
    ++*n;
}

static void consider(const Gemm *g, Candidate *list, int *n, Tile t) {
    if ((t.sums & g->sums) && !(t.split > 1 && g->whole)) add(g, list, n, t);
}

static bool in_table(const Gemm *g, const Tile *t) {
    for (int i = 0; i < TILES; i++)
        if ((tiles[i].sums & g->sums) && tiles[i].kind == t->kind && tiles[i].bm == t->bm &&
            tiles[i].bn == t->bn && pair_rows(&tiles[i]) == pair_rows(t) &&
            pair_cols(&tiles[i]) == pair_cols(t) && tiles[i].split == t->split)
            return true;
    return false;
}

enum { COLS_STEP = 16, COLS_LEAST = 96, COLS_MOST = 256, MOST_SUMS = 192, BETWEEN = 320 };

/* For known sizes, tiles between those of the table: which one cuts the columns with little waste
 * is known. */
static void add_between(const Gemm *g, Candidate *list, int *n) {
    static const Tile base[] = {
        {WIDE | FP8, .kind = COOP, .bm = 128},
        {WIDE | FP8, .kind = COOP, .bm = 256},
        {WIDE | FP8, .kind = COOP, .bm = 128, .split = 16},
        {WIDE | FP8, .kind = COOP, .bm = 256, .split = 16},
        {WIDE | FP8, .kind = PINGPONG, .bm = 64},
        {WIDE | FP8, .kind = PINGPONG, .bm = 128},
        {WIDE | FP8, .kind = PINGPONG, .bm = 192},
        {PROMOTED, .kind = COOP, .bm = 128, .pieces = 1, .sets = 1},
        {PROMOTED, .kind = TURNS, .bm = 256, .pieces = 2, .sets = 1, .loop = 107},
        {PROMOTED, .kind = PINGPONG, .bm = 128, .pieces = 2, .sets = 2, .loop = 110},
    };
    for (size_t b = 0; b < sizeof base / sizeof *base; b++)
        for (int bn = COLS_LEAST; bn <= COLS_MOST; bn += COLS_STEP)
            for (int pair = 0; pair < 3; pair++) {
                Tile t = base[b];
                int rows = t.kind == PINGPONG ? t.bm : t.bm / groups(&t);
                int regs = rows / 64 * bn / 2; /* sums, and partial ones */
                if (t.pieces) regs += regs / t.pieces * t.sets;
                t.bn = bn, t.pair_rows = pair == 1 ? 2 : 1, t.pair_cols = pair == 2 ? 2 : 1;
                if (!(t.sums & g->sums) || (t.split > 1 && g->whole) || regs > MOST_SUMS ||
                    in_table(g, &t) || (pair && t.bm < 128))
                    continue;
                add(g, list, n, t);
                Candidate *c = &list[*n - 1];
                c->cost = scaled(g->t->ix, c->cost, 103, 100); /* the table's are proven */
            }
}

/* Adds what suits, cheapest first if the sizes are known; nothing when the program has another
 * shape or the target no wgmma. Under --strict factors stay as they are: 16-bit and fp8 products
 * are exact in f32, so only the sum is the tensor core's, which strict refuses. */
void schedule_wgmma(PassCtx *cx, Step *step) {
    Gemm g;
    if (!(cx->target->has & TGT_W) || cx->strict || !is_gemm(step->tile, &g)) return;
    g.sums = g.m.size == 2 ? WIDE : cx->fast_accum ? FP8 : PROMOTED;
    Candidate *c = ARENA_ARRAY(cx->arena, Candidate, TILES + BETWEEN);
    int n = 0;
    g.whole = cx->invariant;
    for (int i = 0; i < TILES; i++) consider(&g, c, &n, tiles[i]);
    bool known = ix_is_const(c[0].cost, NULL);
    if (known) add_between(&g, c, &n);
    FK_ASSERT(n <= TILES + BETWEEN);
    sort(c, n);
    int best = known ? BEST : KEPT;
    for (int i = 0, kept = 0; i < n; i++) {
        if (!(known && c[i].tile.always) && kept >= best) continue;
        Schedule *s = make(cx, &g, &c[i].tile);
        if (!fits_tier(step->tile, s)) continue;
        vec_push(cx->arena, &step->schedules, s);
        kept++;
    }
}
