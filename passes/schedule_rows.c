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

enum { THREADS = 128, MANY = 1024, EACH = 16, MOST_EACH = 32, LONGEST = 32768 };

typedef struct RowFacts {
    const TProg *t;
    int axis; /* that walks memory: of loops, or of the grid */
    bool loops;
    int vec; /* neighbours at once; 1: none */
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
    int axis, streams, least, others;
} Seen;

/* Accesses that walk the axis, and those that move with it otherwise. */
static void see(void *ctx, TInst *i, int depth) {
    Seen *s = ctx;
    int axis;
    (void)depth;
    if ((i->kind != T_LOAD && i->kind != T_STORE) || !i->nix) return;
    bool uses = false;
    for (int d = 0; d + 1 < i->nix; d++) uses |= ix_uses_axis(i->ix[d], s->axis);
    int bits = dtype_bits(s->t->tensors.v[i->tensor].type);
    if (!uses && ix_is_axis(i->ix[i->nix - 1], &axis) && axis == s->axis && bits >= 8) {
        s->streams++;
        if (bits / 8 < s->least) s->least = bits / 8;
    } else {
        s->others += uses || ix_uses_axis(i->ix[i->nix - 1], s->axis);
    }
}

static Seen seen(const TProg *t, int axis) {
    Seen s = {.t = t, .axis = axis, .least = 8};
    tile_walk(&t->body, see, &s);
    return s;
}

static bool find(Arena *a, const TProg *t, RowFacts *f) {
    int loads;
    *f = (RowFacts){.t = t};
    if (!t->ngrid || t->axes.n > 32 || !is_plain(t, &t->body)) return false;
    if (rows_reused(a, t, &loads) > 1) return false;
    if (tile_all_once(t, tile_deps(a, t))) return false; /* stores of fewer axes than the grid's */
    f->axis = loop_axis(t);
    if (f->axis == -2) return false;
    f->loops = f->axis >= 0;
    Seen best = {0};
    if (f->loops) {
        best = seen(t, f->axis);
    } else {
        for (int x = t->ngrid - 1; x >= 0; x--) {
            Seen s = seen(t, x);
            if (best.streams && s.streams <= best.streams) continue;
            best = s;
            f->axis = x;
        }
    }
    if (!best.streams || best.others > best.streams) return false;
    f->vec = 16 / best.least > 8 ? (best.others ? 8 : 16) : 16 / best.least;
    return true;
}

/* ---- prices ---- */

static const Ix *points(const TProg *t, int without) {
    const Ix *n = ix_const(t->ix, 1);
    for (int a = 0; a < t->ngrid; a++)
        if (a != without) n = ix_mul(t->ix, n, t->axes.v[a].extent);
    return n;
}

/* Nanoseconds: bytes at 4 TB/s, `times` hundredths of them, a row's elements through the SMs. */
static const Ix *price(const PassCtx *cx, const RowFacts *f, int64_t held, int times) {
    IxPool *p = f->t->ix;
    const Ix *bytes = ix_const(p, 0);
    for (int k = 0; k < f->t->tensors.n; k++) {
        const TTensor *x = &f->t->tensors.v[k];
        const Ix *n = ix_const(p, dtype_bits(x->type));
        for (int d = 0; d < x->rank; d++) n = ix_mul(p, n, x->dims[d]);
        bytes = ix_add(p, bytes, n);
    }
    const Ix *ns = ix_div(p, ix_mul(p, bytes, ix_const(p, times)), ix_const(p, 3200000));
    if (!held && f->loops) { /* a row's loops and joins, a block of threads after the other */
        const Ix *rows = ix_mul(p, points(f->t, f->axis), ix_const(p, 4));
        ns = ix_add(p, ix_add(p, ns, rows), ix_const(p, 1000));
    }
    if (held) {
        const Ix *work = ix_mul(p, points(f->t, f->axis), ix_const(p, held * 6));
        ns = ix_add(p, ns, ix_div(p, work, ix_const(p, (int64_t)cx->target->sms * 100)));
    }
    return ix_add(p, ns, ix_const(p, 2000 + held / 32));
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

/* The other axes of the grid: rows of a CTA side by side, the rest one by one. */
static void lay_rows(PassCtx *cx, const RowFacts *f, Schedule *s, int rows) {
    for (int a = f->t->ngrid - 1; a >= 0; a--) {
        if (a == f->axis) continue;
        int64_t n;
        int here = rows;
        if (ix_is_const(f->t->axes.v[a].extent, &n))
            while (here > 1 && here > n) here /= 2;
        lay(cx->arena, s, a, here, 1, 1);
        rows /= here;
    }
}

static void add(PassCtx *cx, const RowFacts *f, Step *step, Schedule *s, int lanes) {
    lay_rows(cx, f, s, lanes < THREADS ? THREADS / lanes : 1);
    vec_push(cx->arena, &step->schedules, s);
}

static void add_held(PassCtx *cx, const RowFacts *f, Step *step, int lanes, int regs, int vec) {
    int64_t most = (int64_t)lanes * regs * vec;
    Schedule *s =
        begin(cx, arena_printf(cx->arena, "row_%lld%s", (long long)most, vec > 1 ? "" : "_single"));
    s->held = true;
    lay(cx->arena, s, f->axis, lanes, regs, vec);
    s->cost = price(cx, f, most, vec > 1 ? 100 : 125);
    add(cx, f, step, s, lanes);
}

static void add_streamed(PassCtx *cx, const RowFacts *f, Step *step, int lanes, int regs, int vec) {
    Schedule *s = begin(
        cx, arena_printf(cx->arena, "rows_%d%s", lanes * regs * vec, vec > 1 ? "" : "_single"));
    lay(cx->arena, s, f->axis, lanes, regs, vec);
    s->cost = price(cx, f, 0, vec > 1 ? 170 : 210);
    add(cx, f, step, s, lanes);
}

static int up(int64_t n, int to) {
    return (int)((n + to - 1) / to * to);
}

/* A row of n elements, or up to n: elements a thread, then threads. */
static void held_for(PassCtx *cx, const RowFacts *f, Step *step, int64_t n, int vec) {
    if (n > LONGEST) return;
    int each = n <= 32 * EACH ? (int)((n + 31) / 32) : n <= MANY ? MOST_EACH : EACH;
    if (n > (int64_t)EACH * MANY / 2 || (vec == 1 && n > MANY)) each = MOST_EACH;
    int regs = (each + vec - 1) / vec;
    int lanes = up((n + (int64_t)regs * vec - 1) / ((int64_t)regs * vec), 32);
    if (lanes <= MANY) add_held(cx, f, step, lanes, regs, vec);
}

static void add_rows(PassCtx *cx, const RowFacts *f, Step *step, int vec) {
    int64_t n;
    bool known = ix_is_const(f->t->axes.v[f->axis].extent, &n);
    if (known && n % vec) return;
    int64_t smallest = vec > 1 ? 32 * vec : MANY, times = vec > 1 ? 2 : 8;
    if (known)
        held_for(cx, f, step, n, vec);
    else
        for (int64_t most = smallest; most <= LONGEST; most *= times)
            held_for(cx, f, step, most, vec);
    if (!known || n > LONGEST)
        add_streamed(cx, f, step, vec > 1 ? 512 : 1024, vec > 1 ? 4 : 8, vec);
}

static void add_map(PassCtx *cx, const RowFacts *f, Step *step, int vec) {
    int64_t n;
    int lanes = 256, regs = vec > 1 ? 2 : 8;
    if (ix_is_const(f->t->axes.v[f->axis].extent, &n)) {
        if (n % vec) return;
        while (regs > 1 && (int64_t)lanes * regs * vec > n) regs /= 2;
        while (lanes > 32 && (int64_t)lanes * vec >= 2 * n) lanes /= 2;
    }
    Schedule *s = begin(
        cx, arena_printf(cx->arena, "map_%d%s", lanes * regs * vec, vec > 1 ? "" : "_single"));
    lay(cx->arena, s, f->axis, lanes, regs, vec);
    s->cost = price(cx, f, 0, vec > 1 ? 100 : 125);
    add(cx, f, step, s, lanes);
}

void schedule_rows(PassCtx *cx, Step *step) {
    RowFacts f;
    if (cx->strict || cx->invariant || step->schedules.n || !find(cx->arena, step->tile, &f))
        return;
    for (int vec = f.vec;; vec = 1) {
        if (f.loops)
            add_rows(cx, &f, step, vec);
        else
            add_map(cx, &f, step, vec);
        if (vec == 1) return;
    }
}
