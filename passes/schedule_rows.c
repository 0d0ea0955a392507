/* schedule_rows.c - schedules for programs that memory decides: pointwise work, and loops over
 * rows.
 *
 * Neighbours along the axis that walks memory are moved `vec` at once, 16 bytes where all is
 * aligned. Loops over a row: threads hold it whole where registers allow, a warp for a short row,
 * up to a CTA's 1024 threads for a long one; longer ones are read once a loop. A row whose length
 * is not known gets a ladder, of which the launch takes the shortest that holds it. Without
 * alignment: element by element.
 */
#include "passes/cost_int.h"
#include "passes/schedule_int.h"

enum { THREADS = 128, MANY = 1024 };
/* Elements of a thread; of a row that is held; of rows that are held as memory has them. */
enum { EACH = 16, MOST_EACH = 32, LONGEST = 32768, PACKED_EACH = 64, PACKED_LONGEST = 65536 };
enum { LAUNCHES = 3, PARTS = 1056 }; /* most launches of rows in parts; CTAs of them */

typedef struct RowFacts {
    const TProg *t;
    int axis;   /* that walks memory: of loops, or of the grid */
    int loop;   /* of the loops; -1: there are none */
    int vec;    /* neighbours at once; 1: none */
    int widest; /* bytes of an element that is loaded along the axis, most */
    int across; /* another axis of the grid, that other accesses walk; -1: none */
} RowFacts;

/* ---- what a program is ---- */

static bool is_plain(const TProg *t, const TBlock *b) {
    for (int k = 0; k < b->inst.n; k++) {
        const TInst *i = b->inst.v[k];
        int64_t zero;
        if (i->kind == T_GUARD) return false;
        if (i->kind == T_STORE && dtype_bits(t->tensors.v[i->tensor].type) == 4) return false;
        if (i->kind != T_LOOP) continue;
        if (b != &t->body || !ix_is_const(i->lo, &zero) || zero) return false;
        if (i->hi != t->axes.v[i->axis].extent || !is_plain(t, &i->body)) return false;
    }
    return true;
}

/* Axes of the grid that some load in a loop lacks and another has: with two of them it is a product
 * of matrices. */
typedef struct Reuse {
    const uint64_t *deps;
    uint64_t lacks, has;
    int loads;
} Reuse;

static void see_reuse(Reuse *r, const TBlock *b, uint64_t open) {
    for (int k = 0; k < b->inst.n; k++) {
        const TInst *i = b->inst.v[k];
        if (i->kind == T_LOOP) see_reuse(r, &i->body, open | (uint64_t)1 << i->axis);
        if (i->kind == T_GUARD) see_reuse(r, &i->body, open);
        if (i->kind != T_LOAD || !(r->deps[i->id] & open)) continue;
        r->lacks |= ~r->deps[i->id];
        r->has |= r->deps[i->id];
        r->loads++;
    }
}

int rows_reused(Arena *a, const TProg *t, int *loads) {
    Reuse r = {.deps = tile_deps(a, t)};
    see_reuse(&r, &t->body, 0);
    *loads = r.loads;
    uint64_t grid = ((uint64_t)1 << t->ngrid) - 1;
    return __builtin_popcountll(r.lacks & r.has & grid);
}

/* The axis of all loops; -1: there are none; -2: there are several. */
static int loop_axis(const TProg *t) {
    int axis = -1;
    for (int k = 0; k < t->body.inst.n; k++) {
        const TInst *i = t->body.inst.v[k];
        if (i->kind != T_LOOP) continue;
        if (axis >= 0 && axis != i->axis) return -2;
        axis = i->axis;
    }
    return axis;
}

typedef struct Seen {
    const TProg *t;
    int axis, streams, least, widest, others;
} Seen;

/* Accesses that walk the axis, and those that move with it otherwise. */
static void see(void *ctx, TInst *i, int depth) {
    Seen *s = ctx;
    (void)depth;
    if ((i->kind != T_LOAD && i->kind != T_STORE) || !i->nix) return;
    TRun r;
    bool walks = tile_run(s->t, i, i->nix - 1, &r) && r.axis == s->axis, uses = false;
    for (int d = 0; d < (walks ? r.from : i->nix); d++)
        uses |= !tile_by_blocks(i->ix[d], s->axis, NULL, NULL);
    int bits = dtype_bits(s->t->tensors.v[i->tensor].type);
    if (walks && !uses && bits >= 8) {
        s->streams++;
        if (bits / 8 < s->least) s->least = bits / 8;
        if (i->kind == T_LOAD && bits / 8 > s->widest) s->widest = bits / 8;
    } else {
        s->others += uses || walks;
    }
}

static Seen seen(const TProg *t, int axis) {
    Seen s = {.t = t, .axis = axis, .least = 8};
    tile_walk(&t->body, see, &s);
    return s;
}

/* The grid's axis that most accesses walk. */
static Seen best_of_grid(const TProg *t, int *axis) {
    Seen best = {0};
    for (int x = t->ngrid - 1; x >= 0; x--) {
        Seen s = seen(t, x);
        if (best.streams && s.streams <= best.streams) continue;
        best = s;
        *axis = x;
    }
    return best;
}

static bool find(Arena *a, const TProg *t, RowFacts *f) {
    int loads;
    *f = (RowFacts){.t = t};
    if (t->axes.n > 32 || !is_plain(t, &t->body)) return false;
    if (rows_reused(a, t, &loads) > 1) return false;
    if (tile_all_once(t, tile_deps(a, t))) return false; /* stores of fewer axes than the grid's */
    f->axis = f->loop = loop_axis(t);
    if (f->axis == -2) return false;
    Seen best = {0};
    if (f->loop >= 0) best = seen(t, f->axis);
    if (!best.streams || best.others > best.streams) best = best_of_grid(t, &f->axis);
    if (!best.streams || best.others > best.streams) return false;
    f->vec = 16 / best.least > 8 ? (best.others ? 8 : 16) : 16 / best.least;
    f->widest = best.widest;
    f->across = -1;
    for (int x = 0; x < t->ngrid && f->loop < 0; x++)
        if (x != f->axis && seen(t, x).streams) f->across = x;
    return true;
}

/* Do the loops go across memory? */
static bool columns(const RowFacts *f) {
    return f->loop >= 0 && f->loop != f->axis;
}

static int loops(const TProg *t) {
    int n = 0;
    for (int k = 0; k < t->body.inst.n; k++) n += t->body.inst.v[k]->kind == T_LOOP;
    return n;
}

/* Launches that rows in parts take. */
static int launches(const TProg *t) {
    int n = 1;
    for (int k = 0; k < t->body.inst.n; k++)
        n += t->body.inst.v[k]->kind == T_LOOP && t->body.inst.v[k]->carries.n;
    return n;
}

/* ---- prices ---- */

static const Ix *up_div(IxPool *p, const Ix *n, int64_t by) {
    return ix_div(p, ix_add(p, n, ix_const(p, by - 1)), ix_const(p, by));
}

/* Tiles of `cols` along the axis that walks memory, of one along the others. */
static const Ix *tiles(const RowFacts *f, int64_t cols) {
    IxPool *p = f->t->ix;
    const Ix *n = ix_const(p, 1);
    for (int a = 0; a < f->t->ngrid; a++) {
        const Ix *extent = f->t->axes.v[a].extent;
        n = ix_mul(p, n, a == f->axis ? up_div(p, extent, cols) : extent);
    }
    return n;
}

/* Nanoseconds of all bytes at 4 TB/s, `times` hundredths of them; and of a launch. */
static const Ix *moved(const RowFacts *f, int times) {
    IxPool *p = f->t->ix;
    const Ix *bytes = ix_const(p, 0);
    for (int k = 0; k < f->t->tensors.n; k++) {
        const TTensor *x = &f->t->tensors.v[k];
        const Ix *n = ix_const(p, dtype_bits(x->type));
        for (int d = 0; d < x->rank; d++) n = ix_mul(p, n, x->dims[d]);
        bytes = ix_add(p, bytes, n);
    }
    const Ix *ns = ix_div(p, ix_mul(p, bytes, ix_const(p, times)), ix_const(p, 3200000));
    return ix_add(p, ns, ix_const(p, 2000));
}

/* A multiprocessor's share of tiles, one after the other: `each` elements at `ps` picoseconds. */
static const Ix *shared_out(const PassCtx *cx, const RowFacts *f, const Ix *n, const Ix *each,
                            int ps) {
    IxPool *p = f->t->ix;
    const Ix *work = ix_mul(p, ix_mul(p, up_div(p, n, cx->target->sms), each), ix_const(p, ps));
    return ix_div(p, work, ix_const(p, 1000));
}

/* Of rows that leave a multiprocessor room for one CTA nothing covers the joins. */
static const Ix *price_held(const PassCtx *cx, const RowFacts *f, int64_t held, int vec) {
    IxPool *p = f->t->ix;
    int times = vec == f->vec ? 100 : vec > 1 ? 104 : 125;
    if (held > LONGEST) times = times * 16 / 10;
    const Ix *ns = shared_out(cx, f, tiles(f, 1), ix_const(p, held), vec > 1 ? 20 : 60);
    return ix_add(p, ix_add(p, moved(f, times), ns), ix_const(p, held / 12));
}

/* Rows (or `cols` columns) block by block: loops and joins, a block of threads after the other. */
static const Ix *price_streamed(const PassCtx *cx, const RowFacts *f, int64_t cols, int times,
                                int vec) {
    IxPool *p = f->t->ix;
    const Ix *n = ix_mul(p, f->t->axes.v[f->loop].extent, ix_const(p, cols));
    n = ix_add(p, n, ix_const(p, 8192));
    const Ix *ns = shared_out(cx, f, tiles(f, cols), n, vec > 1 ? 80 : 200);
    return ix_add(p, ix_add(p, moved(f, times), ns), ix_const(p, 1000));
}

/* The same in parts of at least a block. */
static const Ix *price_cut(const PassCtx *cx, const RowFacts *f, int64_t cols, int64_t block,
                           int vec) {
    IxPool *p = f->t->ix;
    const Ix *extent = f->t->axes.v[f->loop].extent;
    const Ix *n = ix_mul(p, tiles(f, cols), up_div(p, extent, block));
    const Ix *ns = shared_out(cx, f, n, ix_const(p, block * cols), vec > 1 ? 80 : 200);
    int more = 2000 + 1800 * (launches(f->t) - 1);
    int times =
        50 * (loops(f->t) + 1) * (vec > 1 ? 4 : 5) / 4; /* each reads, the last one writes */
    return ix_add(p, ix_add(p, moved(f, times), ns), ix_const(p, more));
}

/* ---- schedules ---- */

static void lay(Arena *a, Schedule *s, int axis, int lanes, int regs, int vec) {
    SAxis x = {.axis = axis, .lanes = lanes, .regs = regs, .vec = vec};
    vec_push(a, &s->axes, x);
    s->threads *= lanes;
}

static Schedule *begin(PassCtx *cx, const char *name) {
    Schedule *s = ARENA_NEW(cx->arena, Schedule);
    s->name = name;
    s->target = cx->target->name;
    s->threads = 1;
    s->wide = true;
    return s;
}

/* The other axes of the grid: rows of a CTA side by side, `regs` of a thread, the rest one by one.
 */
static void lay_rows(PassCtx *cx, const RowFacts *f, Schedule *s, int rows, int regs) {
    for (int a = f->t->ngrid - 1; a >= 0; a--) {
        if (a == f->axis) continue;
        int64_t n;
        int here = rows;
        if (ix_is_const(f->t->axes.v[a].extent, &n))
            while (here > 1 && here > n) here /= 2;
        lay(cx->arena, s, a, here, regs, 1);
        rows /= here, regs = 1;
    }
}

static void add(PassCtx *cx, const RowFacts *f, Step *step, Schedule *s, int lanes) {
    lay_rows(cx, f, s, lanes < THREADS ? THREADS / lanes : 1, 1);
    vec_push(cx->arena, &step->schedules, s);
}

/* full: neighbours at once where all is aligned. */
static const char *named(PassCtx *cx, const char *what, int64_t n, int vec, int full) {
    const char *by = vec == full || vec == 1 ? "" : arena_printf(cx->arena, "_by%d", vec);
    return arena_printf(cx->arena, "%s_%lld%s%s", what, (long long)n, by, vec > 1 ? "" : "_single");
}

static void add_held(PassCtx *cx, const RowFacts *f, Step *step, int lanes, int regs, int vec) {
    int64_t most = (int64_t)lanes * regs * vec;
    Schedule *s = begin(cx, named(cx, "row", most, vec, f->vec));
    s->held = true;
    lay(cx->arena, s, f->axis, lanes, regs, vec);
    s->cost = price_held(cx, f, most, vec);
    add(cx, f, step, s, lanes);
}

static void add_streamed(PassCtx *cx, const RowFacts *f, Step *step, int lanes, int regs, int vec) {
    Schedule *s = begin(cx, named(cx, "rows", lanes * regs * vec, vec, f->vec));
    lay(cx->arena, s, f->axis, lanes, regs, vec);
    int times = loops(f->t) > 1 ? 170 : 120; /* the second loop finds some in L2 */
    s->cost = price_streamed(cx, f, 1, vec > 1 ? times : times * 5 / 4, vec);
    add(cx, f, step, s, lanes);
}

static void add_cut(PassCtx *cx, const RowFacts *f, Step *step, int vec) {
    int lanes = 128, regs = vec > 1 ? 4 : 16;
    if (launches(f->t) > LAUNCHES || launches(f->t) < 2) return;
    Schedule *s = begin(cx, named(cx, "cut", lanes * regs * vec, vec, f->vec));
    s->split = PARTS;
    lay(cx->arena, s, f->axis, lanes, regs, vec);
    s->cost = price_cut(cx, f, 1, lanes * regs * vec, vec);
    add(cx, f, step, s, lanes);
}

static int up(int64_t n, int to) {
    return (int)((n + to - 1) / to * to);
}

/* Threads of a row of n elements that hold `each`: whole warps, or a part of one. */
static int lanes_of(int64_t n, int each) {
    int lanes = 1;
    if (n > 32 * each) return up((n + each - 1) / each, 32);
    while ((int64_t)lanes * each < n) lanes *= 2;
    return lanes;
}

/* Threads hold the words that memory gave, which have several elements. */
static bool packed(const RowFacts *f, int vec) {
    return f->widest <= 2 && vec > 1;
}

static int64_t longest(const RowFacts *f, int vec) {
    return packed(f, vec) ? PACKED_LONGEST : LONGEST;
}

/* Elements of a thread, for a row of n. */
static int each_of(const RowFacts *f, int64_t n, int vec) {
    if (n <= 256) return 8;
    if (n <= 32 * EACH) return (int)((n + 31) / 32);
    if (packed(f, vec)) return n > EACH * MANY ? PACKED_EACH : MOST_EACH;
    return n <= MANY || n > EACH * MANY / 2 || vec == 1 ? MOST_EACH : EACH;
}

/* A row of n elements, or up to n: elements a thread, then threads. */
static void held_for(PassCtx *cx, const RowFacts *f, Step *step, int64_t n, int vec) {
    if (n > longest(f, vec)) return;
    int regs = (each_of(f, n, vec) + vec - 1) / vec;
    int lanes = lanes_of(n, regs * vec);
    if (lanes <= MANY) add_held(cx, f, step, lanes, regs, vec);
}

static void add_rows(PassCtx *cx, const RowFacts *f, Step *step, int vec) {
    int64_t n;
    bool known = ix_is_const(f->t->axes.v[f->axis].extent, &n);
    if (known && n % vec) return;
    if (known) {
        held_for(cx, f, step, n, vec);
    } else if (vec == f->vec && vec > 1) {
        held_for(cx, f, step, vec, vec);
        for (int64_t most = 16; most < 256; most *= 4) held_for(cx, f, step, most, vec);
        held_for(cx, f, step, 256, vec);
        for (int64_t most = 1024; most <= longest(f, vec); most *= 2)
            held_for(cx, f, step, most, vec);
    } else if (vec > 1) {
        for (int64_t most = 128; most <= LONGEST; most *= 8) held_for(cx, f, step, most, vec);
        return;
    } else {
        for (int64_t most = 32; most <= LONGEST; most *= 8) held_for(cx, f, step, most, vec);
    }
    if (!known || n > longest(f, vec))
        add_streamed(cx, f, step, vec > 1 ? 256 : 1024, vec > 1 ? 4 : 8, vec);
    if (!known || n > LONGEST / 4) add_cut(cx, f, step, vec);
}

/* Lanes along memory, as many as there are columns; the rest of the threads along the loops. */
static void add_columns(PassCtx *cx, const RowFacts *f, Step *step, int lanes, int vec, bool cut) {
    int64_t n;
    int down = 256 / lanes, regs = 4;
    if (ix_is_const(f->t->axes.v[f->axis].extent, &n)) {
        if (n % vec) return;
        while (lanes > 1 && (lanes / 2) * vec >= n) lanes /= 2, down *= 2;
    }
    if (cut && (launches(f->t) > LAUNCHES || launches(f->t) < 2)) return;
    Schedule *s = begin(cx, named(cx, cut ? "columns_cut" : "columns", lanes * vec, vec, f->vec));
    lay(cx->arena, s, f->axis, lanes, 1, vec);
    lay(cx->arena, s, f->loop, down, regs, 1);
    s->split = cut ? PARTS : 0;
    s->cost = cut ? price_cut(cx, f, lanes * vec, down * regs, vec)
                  : price_streamed(cx, f, lanes * vec, vec > 1 ? 100 : 125, vec);
    add(cx, f, step, s, THREADS);
}

enum { MAP = 256 }; /* threads */

/* Lanes along memory, what is left of the threads along other axes. */
static void map_with(PassCtx *cx, const RowFacts *f, Step *step, int lanes, int regs, int vec) {
    IxPool *p = f->t->ix;
    int64_t n = (int64_t)lanes * regs * vec;
    Schedule *s = begin(cx, named(cx, "map", n, vec, f->vec));
    lay(cx->arena, s, f->axis, lanes, regs, vec);
    lay_rows(cx, f, s, MAP / lanes, vec > 1 && regs == 1 ? 2 : 1);
    int times = vec > 1 ? 100 : 125; /* what goes across memory moves a sector for each element */
    s->cost = moved(f, f->across >= 0 ? 4 * times : times);
    const Ix *all = ix_mul(p, tiles(f, n), ix_const(p, n));
    s->cost = ix_add(p, s->cost, ix_div(p, all, ix_const(p, 100 * cx->target->sms)));
    vec_push(cx->arena, &step->schedules, s);
}

/* Of a long chain half as much at once, and no more variants: arithmetic covers the loads, and code
 * takes time to make. */
static void add_map(PassCtx *cx, const RowFacts *f, Step *step, int vec) {
    enum { LONG = 100 }; /* instructions */
    int64_t n;
    bool is_long = f->t->body.inst.n > LONG;
    int lanes = MAP, regs = (vec > 1 ? 2 : 8) / (is_long ? 2 : 1);
    if (!ix_is_const(f->t->axes.v[f->axis].extent, &n)) {
        map_with(cx, f, step, lanes, regs, vec);
        if (f->t->ngrid == 1 || is_long || (vec > 1 && vec < f->vec)) return;
        map_with(cx, f, step, 32, 1, vec);
        if (vec > 1) map_with(cx, f, step, 8, 1, vec);
        return;
    }
    if (n % vec) return;
    while (regs > 1 && (int64_t)lanes * regs * vec > n) regs /= 2;
    while (lanes > 1 && (int64_t)lanes * vec >= 2 * n) lanes /= 2;
    map_with(cx, f, step, lanes, regs, vec);
}

/* Some accesses walk one axis, some another: a thread has vectors both ways, a square of elements,
 * and a warp's make whole sectors of each. */
static void add_crossed(PassCtx *cx, const RowFacts *f, Step *step) {
    int lanes = 8, vec = f->vec > 8 ? 8 : f->vec;
    int64_t n;
    for (int k = 0; k < 2; k++)
        if (ix_is_const(f->t->axes.v[k ? f->across : f->axis].extent, &n) && n % vec) return;
    if (vec < 2) return;
    Schedule *s = begin(cx, named(cx, "crossed", lanes * vec, vec, f->vec));
    lay(cx->arena, s, f->axis, lanes, 1, vec);
    lay(cx->arena, s, f->across, MAP / lanes, 1, vec);
    for (int a = f->t->ngrid - 1; a >= 0; a--)
        if (a != f->axis && a != f->across) lay(cx->arena, s, a, 1, 1, 1);
    s->cost = ix_add(f->t->ix, moved(f, 100), ix_const(f->t->ix, 200));
    vec_push(cx->arena, &step->schedules, s);
}

/* Neighbours at once where `vec` do not divide a row: the most that do; of a row whose length is
 * not known, four. */
static int fewer(const RowFacts *f, int vec) {
    int64_t n;
    if (vec <= 4) return 1;
    if (!ix_is_const(f->t->axes.v[f->axis].extent, &n)) return 4;
    if (n % vec == 0) return 1;
    while (vec > 1 && n % vec) vec /= 2;
    return vec;
}

void schedule_rows(PassCtx *cx, Step *step) {
    RowFacts f;
    if (cx->strict || cx->invariant || step->schedules.n || !find(cx->arena, step->tile, &f))
        return;
    for (int vec = f.vec;; vec = fewer(&f, vec)) {
        if (columns(&f)) {
            if (vec < f.vec && vec > 1) continue;
            bool known = ix_is_const(f.t->axes.v[f.axis].extent, &(int64_t){0});
            add_columns(cx, &f, step, 32, vec, false);
            add_columns(cx, &f, step, 32, vec, true);
            if (!known && vec > 1) add_columns(cx, &f, step, 8, vec, true); /* few columns */
        } else if (f.loop >= 0) {
            add_rows(cx, &f, step, vec);
        } else {
            if (vec == f.vec && vec > 1 && f.across >= 0) add_crossed(cx, &f, step);
            add_map(cx, &f, step, vec);
        }
        if (vec == 1) return;
    }
}
