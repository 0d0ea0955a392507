/* schedule_wgmma.c - schedules for programs whose one loop sums products of two 16-bit or fp8
 * loads: TMA into shared memory, wgmma, warp roles (ir/schedule.h says what such a schedule means).
 *
 * The shape is told by the loop and its loads alone: what comes after the loop may be anything that
 * stands outside of loops and guards. Each tile has a price, an expression of the sizes
 * (schedule_wgmma_price.c), so that the runtime takes the cheapest for the sizes at hand; with
 * bound sizes only the best few are made.
 */
#include "passes/schedule_wgmma_int.h"

#include <string.h>

static const char *const kind_name[] = {"coop", "pingpong", "direct", "thin",
                                        "swap", "deal",     "turns",  "overlap"};

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
    {WIDE | FP8, .kind = DIRECT, .bm = 128, .bn = 256, .plain = true, .always = true},
    {PROMOTED, .kind = DIRECT, .bm = 128, .bn = 128, .plain = true, .always = true, .loop = 105},
    {WIDE, .kind = THIN, .bm = 64, .bn = 64, .plain = true},
    {WIDE, .kind = COOP, .bm = 128, .bn = 128},
    {WIDE | FP8, .kind = PINGPONG, .bm = 128, .bn = 128, .pair_rows = 2},
    {WIDE | FP8, .kind = COOP, .bm = 256, .bn = 128},
    {WIDE | FP8, .kind = COOP, .bm = 256, .bn = 128, .pair_cols = 2},
    {ALL, .kind = SWAP, .bm = 64, .bn = 64, .rows = EVICT_last, .cols = EVICT_first},
    /* for known sizes, and vectors */
    {PROMOTED, .kind = TURNS, .bm = 256, .bn = 128, .pieces = 2, .loop = 107},
    {FP8 | PROMOTED, .kind = THIN, .bm = 64, .bn = 64, .plain = true},
    {ALL, .kind = SWAP, .bm = 64, .bn = 8, .rows = EVICT_last, .cols = EVICT_first},
    {ALL, .kind = SWAP, .bm = 64, .bn = 32, .rows = EVICT_last, .cols = EVICT_first},
    {ALL, .kind = THIN, .bm = 16, .bn = 32, .rows = EVICT_last, .cols = EVICT_first},
};
/* Of factors that threads make. In registers: few columns, whose stages are as deep as can be, and
 * many. */
static const Tile made_tiles[] = {
    {MADE, .kind = DEAL, .bm = 64, .bn = 16, .regs = 4, .groups = 3, .cols = EVICT_first},
    {MADE, .kind = DEAL, .bm = 64, .bn = 32, .regs = 4, .groups = 3, .cols = EVICT_first},
    {MADE, .kind = DEAL, .bm = 64, .bn = 64, .regs = 4, .groups = 2, .cols = EVICT_first},
    {MADE, .kind = DEAL, .bm = 64, .bn = 16, .regs = 2, .groups = 3, .cols = EVICT_first},
    {MADE, .kind = DIRECT, .bm = 128, .bn = 128, .regs = 2},
    {MADE, .kind = DIRECT, .bm = 128, .bn = 256, .regs = 1},
    {MADE, .kind = DIRECT, .bm = 128, .bn = 256, .plain = true, .wide = true},
    {MADE, .kind = COOP, .bm = 256, .bn = 128, .plain = true, .wide = true},
    {MADE, .kind = DIRECT, .bm = 128, .bn = 128, .plain = true, .wide = true},
    {MADE, .kind = SWAP, .bm = 64, .bn = 16, .plain = true, .wide = true, .loaders = 3},
    {MADE, .kind = THIN, .bm = 64, .bn = 32, .plain = true, .wide = true, .loaders = 3},
    {MADE, .kind = DIRECT, .bm = 128, .bn = 128, .plain = true, .always = true},
    {MADE, .kind = THIN, .bm = 64, .bn = 64, .plain = true, .always = true},
};

enum { MADE_TILES = sizeof made_tiles / sizeof *made_tiles };
enum { TILES = sizeof tiles / sizeof *tiles, KEPT = 16, BEST = 2 };

/* ---- schedules ---- */

static void lay(Arena *a, Schedule *s, int axis, int tile) {
    SAxis x = {.axis = axis, .lanes = 1, .regs = 1, .vec = 1, .tile = tile};
    vec_push(a, &s->axes, x);
}

/* MN-major, the tile is cut into boxes as wide as the swizzle. */
static void in_smem(Arena *a, Schedule *s, const Mma *m, bool of_rows, int rows, int buffers,
                    SEvict evict, bool plain) {
    for (int n = 0; n < mma_factors(m, of_rows); n++) {
        const MmaFactor *f = mma_factor_at(m, of_rows, n);
        SValue v = {.value = f->value,
                    .place = PLACE_smem,
                    .buffers = buffers,
                    .swizzle = 128,
                    .evict = evict,
                    .plain = plain};
        while (!f->k_major && rows % (v.swizzle / 2) && v.swizzle > 32) v.swizzle /= 2;
        vec_push(a, &s->values, v);
    }
}

/* All but the stages of the factors and what is done with shared memory after the loop. */
static Schedule *begin(const PassCtx *cx, const Gemm *g, const Tile *c) {
    Arena *a = cx->arena;
    Schedule *s = ARENA_NEW(a, Schedule);
    const char *kind = c->plain ? "plain" : kind_name[c->kind];
    if (g->made) kind = arena_printf(a, "made_%s", c->wide ? kind_name[c->kind] : "plain");
    s->name = arena_printf(a, "%s_%dx%d", kind, c->bm, c->bn);
    if (c->regs)
        s->name =
            arena_printf(a, "regs_%s_%dx%dx%d", kind_name[c->kind], c->bm, c->bn, tile_k(g, c));
    s->target = cx->target->name;
    s->move = MOVE_tma;
    s->mul = MUL_wgmma;
    s->threads = 128 * (tile_loaders(c) + tile_groups(c));
    s->wide = c->wide;
    s->pingpong = c->kind == PINGPONG;
    s->persistent = true;
    s->raster = tile_groups(c) == 1 ? 1 : (c->kind == PINGPONG ? 12 : 16) / tile_pair_rows(c);
    if (tile_pair_rows(c) * tile_pair_cols(c) > 1) {
        s->cluster[0] = tile_pair_rows(c), s->cluster[1] = tile_pair_cols(c), s->cluster[2] = 1;
        s->name = arena_printf(a, "%s_%dx%d", s->name, s->cluster[0], s->cluster[1]);
    }
    if (c->split > 1) {
        s->split = c->split;
        s->name = arena_printf(a, "%s_split", s->name);
    }
    s->grouped = c->grouped;
    if (c->grouped) s->name = arena_printf(a, "%s_grouped", s->name);
    lay(a, s, mma_axis(&g->m, gemm_rows(g, c)), c->bm);
    lay(a, s, mma_axis(&g->m, gemm_cols(g, c)), c->bn);
    lay(a, s, mma_axis(&g->m, g->m.k), tile_k(g, c));
    s->deal = c->kind == DEAL;
    if (g->sums == PROMOTED) {
        s->promote = gemm_stage_k(g);
        s->pieces = c->pieces, s->sets = c->sets;
        s->turns = c->kind == TURNS;
    }
    s->cost = gemm_price(g, c);
    return s;
}

/* slabs: warps that copy them. */
static void end(const PassCtx *cx, const Gemm *g, const Tile *c, int stages, int slabs,
                Schedule *s) {
    Arena *a = cx->arena;
    bool small = tile_groups(c) == 1, swap = tile_swaps(g, c);
    bool all = c->plain && !c->wide; /* by threads, what TMA could bring too */
    bool plain = c->plain && !g->made;
    bool threads = !c->regs && !plain && !all;
    in_smem(a, s, &g->m, true, swap ? c->bn : c->bm, stages, c->rows,
            plain || all || (threads && g->m.a.made));
    in_smem(a, s, &g->m, false, swap ? c->bm : c->bn, stages, c->cols,
            plain || all || (threads && g->m.b.made));
    for (int i = 0; i < s->values.n && c->regs; i++)
        if (s->values.v[i].value == (swap ? g->m.b : g->m.a).value)
            s->values.v[i].place = PLACE_reg;
    SRole load = {"load", 4 * tile_loaders(c) - slabs, small ? 40 : 24},
          slab = {"slab", slabs, load.regs};
    SRole mma = {"mma", 4 * tile_groups(c), small ? 232 : 240};
    if (slabs && c->grouped) load.regs = slab.regs = 40, mma.regs = 232; /* three kinds of tiles */
    if (c->plain) load.regs = 152, mma.regs = small ? 232 : 176;
    if (c->kind == DEAL)
        mma.regs = c->groups == 3 ? 160 : 232, load.regs = c->groups == 3 ? 24 : 40;
    if (tile_loaders(c) > 1) load.regs = mma.regs = 65536 / s->threads / 8 * 8;
    vec_push(a, &s->roles, load);
    if (slabs) vec_push(a, &s->roles, slab);
    vec_push(a, &s->roles, mma);
}

/* What the tier does not make yet, or cannot, is not proposed; nor what could run only if tensors
 * had padded rows, for which there are the schedules for any pitch. */
bool gemm_fits_tier(const TProg *t, const Schedule *s) {
    Mma m;
    MmaTiles w;
    Str why = {0};
    bool fits = mma_schedule(t, s, &m, &w, &why) && mma_takes_dense(&m, &w);
    str_free(&why);
    return fits;
}

enum { SPARE = 2048, LEAST_AHEAD = 144 * 1024 };

/* Of a line of k, where it is made in registers: those of its loads. */
static int raw_bytes(const Gemm *g, const Tile *c) {
    const MmaFactor *f = tile_swaps(g, c) ? &g->m.b : &g->m.a;
    int bits = 0;
    for (int i = 0; i < f->nparts; i++)
        if (mma_is_run(g->t, f->part[i], g->m.k))
            bits += dtype_bits(g->t->tensors.v[f->part[i]->tensor].type);
    return tile_k(g, c) * bits / 8;
}

static int stage_bytes(const Gemm *g, const Tile *c) {
    if (c->regs) return c->bm * raw_bytes(g, c) + c->bn * STAGE_BYTES * c->regs;
    return (gemm_height(g, c) + gemm_width(g, c)) * STAGE_BYTES;
}

/* Small tiles: as deep a ring as fits. */
static int stages_in(int bytes, const Gemm *g, const Tile *c) {
    int n = bytes / stage_bytes(g, c), most = tile_groups(c) == 1 || c->regs ? 32 : 8;
    if (n > most) n = most;
    return c->kind == DEAL ? n / c->groups * c->groups : n;
}

/* With matrices that are loaded after the loop brought to slabs; NULL: there are none, or no room.
 * For them there may be fewer stages, as few as without them, or LEAST_AHEAD bytes of them. */
static Schedule *bringing(const PassCtx *cx, const Gemm *g, const Tile *c, const SlabShape *x,
                          int without, bool last) {
    for (int n = stages_in(cx->target->smem, g, c);; n--) {
        for (int way = 0;; way++) {
            Schedule *s = begin(cx, g, c);
            if (!slabs_bring(cx->arena, x, way, last, s)) break;
            end(cx, g, c, n, tile_groups(c), s);
            if (gemm_fits_tier(g->step, s)) return s;
        }
        if (n <= without && (n - 1) * stage_bytes(g, c) < LEAST_AHEAD) return NULL;
    }
}

enum { LESS = 2 };

/* Reduced rows need memory too: a stage or two less where that is short. */
static Schedule *make(const PassCtx *cx, const Gemm *g, const Tile *c) {
    bool pingpong = c->kind == PINGPONG,
         staged = tile_groups(c) > 1 && c->kind != DIRECT && !c->regs;
    SlabShape x = {g->t,           &g->m, pingpong ? c->bm : c->bm / tile_groups(c),
                   tile_groups(c), c->bn, pingpong,
                   c->grouped,     false};
    Schedule *s;
    int stages, less = 0;
    do {
        s = begin(cx, g, c);
        int slabs = staged ? slabs_store(cx->arena, &x, s) : 0;
        if (c->kind == DEAL) slabs += (c->groups - 1) * c->bm * c->bn * 4;
        stages = stages_in(cx->target->smem - SPARE - slabs, g, c) - less;
        end(cx, g, c, stages, 0, s);
    } while (g->m.row_block.size && !gemm_fits_tier(g->step, s) && less++ < LESS);
    if (c->split > 1) return s;
    if (g->made) return s;
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
    g->vector = g->m.a.vector || g->m.b.vector;
    g->made = g->m.a.made || g->m.b.made;
    g->apart = is && g->m.sums > 1 && !g->m.nest.blocks &&
               mma_apart(&g->m, ARENA_ARRAY(t->arena, unsigned, g->t->body.inst.n), &why);
    str_free(&why);
    return is;
}

/* The step's program, or else it with an axis more. */
bool gemm_find(Step *step, Gemm *g) {
    if (is_gemm(step->tile, g)) return true;
    TProg *t = schedule_with_row(step->tile);
    bool is = is_gemm(t, g);
    if (is) step->tile = t;
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
    list[*n] = (Candidate){t, gemm_price(g, &t)};
    ++*n;
}

enum {
    SHARE = 16,
    SHARE_LINES = 32,
    SHARE_BOX = 64
}; /* columns: of the narrowest
boxes; of what threads bring, K-major and MN-major */

/* Sums that do not meet have large tiles of their own: side by side in one they took 5 % longer
 * than one product of as many columns (H200, 2026-12-01). Else what the table has of columns is for
 * all sums together; where the operands are swapped columns are few, and each sum has them. */
static Tile shared(const Gemm *g, Tile t) {
    if (g->m.sums == 1 || t.kind == SWAP) return t;
    int unit = !t.plain ? SHARE : g->m.b.k_major ? SHARE_LINES : SHARE_BOX;
    t.grouped = g->apart && tile_groups(&t) > 1 && t.bm >= 128 && !t.plain && t.split <= 1;
    t.bn = t.bn / gemm_sums(g, &t) / unit * unit;
    if (!t.bn) t.bn = unit;
    return t;
}

/* Would it have the name of the other? */
static bool same_tile(const Tile *a, const Tile *b) {
    return a->kind == b->kind && a->bm == b->bm && a->bn == b->bn && a->plain == b->plain &&
           a->regs == b->regs && tile_pair_rows(a) == tile_pair_rows(b) &&
           tile_pair_cols(a) == tile_pair_cols(b) && a->split == b->split &&
           a->grouped == b->grouped;
}

/* A product with a vector is as narrow as can be, and narrow tiles store from registers: of all
 * layouts, only those of the factors need a tile more. */
static void consider(const Gemm *g, Candidate *list, int *n, Tile t) {
    t = shared(g, t);
    for (int i = 0; i < *n; i++)
        if (same_tile(&list[i].tile, &t)) return;
    if (g->vector && tile_groups(&t) > 1 && t.kind != DEAL) return;
    if (g->vector) t.always = t.plain;
    if ((t.sums & g->sums) && !gemm_splits_in_vain(g, &t)) add(g, list, n, t);
}

static bool in_table(const Gemm *g, const Tile *t) {
    for (int i = 0; i < TILES; i++) {
        Tile x = shared(g, tiles[i]);
        x.plain = t->plain;
        if ((x.sums & g->sums) && same_tile(&x, t)) return true;
    }
    return false;
}

enum { COLS_STEP = 16, COLS_LEAST = 96, COLS_MOST = 256, MOST_SUMS = 192, BETWEEN = 320 };

/* For known sizes, tiles between those of the table: which one cuts the columns with little waste
 * is known. */
static void add_between(const Gemm *g, Candidate *list, int *n) {
    if (g->vector) return;
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
        for (int bn = COLS_LEAST; bn <= COLS_MOST; bn += COLS_STEP * g->m.sums)
            for (int pair = 0; pair < 3; pair++) {
                Tile t = base[b];
                t.grouped = g->apart && t.bm >= 128 && t.split <= 1;
                int rows = t.kind == PINGPONG ? t.bm : t.bm / tile_groups(&t);
                int regs = rows / 64 * bn / 2; /* sums, and partial ones */
                if (t.pieces) regs += regs / t.pieces * t.sets;
                t.bn = bn / gemm_sums(g, &t) / SHARE * SHARE, t.pair_rows = pair == 1 ? 2 : 1,
                t.pair_cols = pair == 2 ? 2 : 1;
                if (!(t.sums & g->sums) || regs > MOST_SUMS || in_table(g, &t) ||
                    (pair && t.bm < 128) || gemm_splits_in_vain(g, &t))
                    continue;
                add(g, list, n, t);
                Candidate *c = &list[*n - 1];
                IxPool *p = g->t->ix; /* the table's are proven */
                c->cost = ix_div(p, ix_mul(p, c->cost, ix_const(p, 103)), ix_const(p, 100));
            }
}

/* Adds what suits, cheapest first if the sizes are known; nothing when the program has another
 * shape or the target no wgmma. Under --strict factors stay as they are: 16-bit and fp8 products
 * are exact in f32, so only the sum is the tensor core's, which strict refuses. */
const Ix *schedule_wgmma(PassCtx *cx, Step *step) {
    Gemm g = {0};
    if (!(cx->target->has & TGT_W) || cx->strict || !gemm_find(step, &g)) return NULL;
    g.sms = cx->target->sms;
    bool strips = g.m.nest.strips.loop, narrow = g.m.size == 1;
    g.sums = g.made ? MADE : strips || (narrow && !cx->fast_accum) ? PROMOTED : narrow ? FP8 : WIDE;
    Candidate *c = ARENA_ARRAY(cx->arena, Candidate, TILES + MADE_TILES + BETWEEN);
    int n = 0;
    g.whole = cx->invariant;
    g.apart &= g.sums != PROMOTED;
    for (int i = 0; i < TILES; i++) consider(&g, c, &n, tiles[i]);
    for (int i = 0; i < MADE_TILES; i++) consider(&g, c, &n, made_tiles[i]);
    bool known = ix_is_const(c[0].cost, NULL);
    if (known && !g.made) add_between(&g, c, &n);
    FK_ASSERT(n <= TILES + MADE_TILES + BETWEEN);
    sort(c, n);
    int best = known ? BEST : KEPT;
    for (int i = 0, kept = 0; i < n; i++) {
        if (!(known && c[i].tile.always) && kept >= best) continue;
        Schedule *s = make(cx, &g, &c[i].tile);
        if (!gemm_fits_tier(step->tile, s)) continue;
        vec_push(cx->arena, &step->schedules, s);
        kept++;
    }
    return g.vector ? gemm_price_general(&g) : NULL;
}
