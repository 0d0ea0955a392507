/* wgmma_make.c - factors that threads make: pointwise functions of loads (ir/mma.h), computed into
 * the stage as wgmma reads it, K-major with a swizzle of 128 bytes. A load that TMA cannot bring is
 * made too, of itself.
 *
 * A unit is `vec` neighbours along k of one row: a thread makes `units` of them of a factor in a
 * stage, thread t the units at k = vec * (t % per), rows t / per + apart * u. Where the schedule is
 * wide, loads whose last index is k come as vectors of up to 16 bytes, which guards promise to be
 * aligned and whole; else element by element. What is the same for all of a unit (a group's scale)
 * is loaded and computed once for it.
 *
 * Several warpgroups may load: stage kt of a tile is made by number kt % loaders, all of it. Loads
 * that are vectors, or one for a unit, run `ahead` stages before they are used, in registers.
 * Within a tile; the first ones of a tile are waited for.
 *
 * What can be made two neighbours at a time is (pairs.c); of the rest, integers of few bits become
 * f32 without conversions.
 *
 * Beyond the end of k a factor is 0, whatever its formula makes of loads that are not there. Rows
 * beyond the last are made of zeros, and what comes of them is not stored.
 */
#include "backend/nvptx/mem_int.h"
#include "backend/nvptx/wgmma_made_int.h"

enum { LINE = 128, CHUNK = 16, PER_CHUNK = 8, PER_LINE = 64, THREADS = 128 };
enum { VEC_MOST = 32, AHEAD_MOST = 4, AHEAD_REGS = 72, STAGE_REGS = 48, WIDEST = 16 };

typedef struct Make {
    const MmaFactor *f;
    const TInst *const *part;
    int nparts;
    int axis, begin; /* of rows; bytes from the start of a stage */
    int vec, units, apart;
    int held;    /* values that a unit's loads are */
    bool ahead;  /* they run ahead.. */
    int batch;   /* ..or those of so many units together */
    bool paired; /* made by pairs */
    Pairs pairs;
    Val line, k, to; /* i32: the thread's first row in the tile, its k, its place, in a stage */
} Make;

typedef struct Maker {
    Make x[2];
    int n, ahead;
} Maker;

/* ---- what is loaded how ---------------------------------------------------------------------- */

/* Its elements of a unit lie side by side. */
static bool is_vector(const Wg *w, const TInst *i) {
    return w->l->s->wide && mma_is_run(w->l->t, i, w->m.k);
}

/* The same for all k of a unit. */
static bool is_steady(const Wg *w, const Make *x, const TInst *i) {
    for (int d = 0; d < i->nix; d++)
        if (!mma_is_steady(i->ix[d], w->m.k, x->vec)) return false;
    return true;
}

static int type_bits_of(const Wg *w, const TInst *load) {
    return dtype_bits(w->l->t->tensors.v[load->tensor].type);
}

static int words_of(const Wg *w, const Make *x, const TInst *load) {
    int bits = x->vec * type_bits_of(w, load);
    return bits < 32 ? 1 : bits / 32;
}

/* Values of a unit that its load, ahead of time, is; 0: it is not loaded ahead. */
static int held_of(const Wg *w, const Make *x, const TInst *i) {
    if (!w->l->s->wide || i->kind != T_LOAD || !i->nix) return 0;
    if (is_vector(w, i)) return words_of(w, x, i);
    return is_steady(w, x, i) ? 1 : 0;
}

/* By pairs, and of which values that can be said. */
static void find_pairs(Wg *w, Make *x) {
    Arena *a = w->l->arena;
    bool *vector = ARENA_ARRAY(a, bool, x->nparts), *steady = ARENA_ARRAY(a, bool, x->nparts);
    for (int i = 0; i < x->nparts; i++) {
        vector[i] = is_vector(w, x->part[i]);
        steady[i] = x->part[i]->kind == T_LOAD && !vector[i] && is_steady(w, x, x->part[i]);
    }
    x->paired =
        pairs_find(w->l, &x->pairs, x->f->type, x->f->value, x->part, x->nparts, vector, steady) &&
        w->l->s->wide;
}

/* ---- units ----------------------------------------------------------------------------------- */

/* Of a line; neighbours that a thread has, as the narrowest vectors fill 16 bytes. */
static int vector_length(const Wg *w, const Make *x, int rows) {
    int vec = PER_CHUNK;
    for (int i = 0; i < x->nparts; i++)
        while (is_vector(w, x->part[i]) && vec < VEC_MOST && 2 * vec <= rows / 2 &&
               vec * type_bits_of(w, x->part[i]) < 8 * WIDEST)
            vec *= 2;
    return vec;
}

static Make make_of(Wg *w, const MmaFactor *f, int axis, int rows, int begin) {
    Make x = {.f = f, .part = f->part, .nparts = f->nparts, .axis = axis, .begin = begin};
    if (!f->made) {
        const TInst **one = ARENA_NEW(w->l->arena, const TInst *);
        *one = f->load;
        x.part = one, x.nparts = 1;
    }
    x.vec = vector_length(w, &x, rows);
    x.apart = THREADS / (PER_LINE / x.vec);
    x.units = rows / x.apart;
    find_pairs(w, &x);
    for (int i = 0; i < x.nparts; i++) x.held += held_of(w, &x, x.part[i]);
    x.ahead = x.held && x.held * x.units <= STAGE_REGS;
    x.batch = 1;
    while (x.held && x.units % (2 * x.batch) == 0 && 2 * x.batch * x.held <= STAGE_REGS)
        x.batch *= 2;
    return x;
}

static int held_ahead(const Make *x) {
    return x->ahead ? x->held * x->units : 0;
}

static Maker maker_of(Wg *w) {
    Maker all = {.ahead = 0};
    if (w->t.a.plain) all.x[all.n++] = make_of(w, &w->m.a, w->m.rows, w->t.m, 0);
    if (w->t.b.plain) all.x[all.n++] = make_of(w, &w->m.b, w->m.cols, w->t.n, w->t.a.bytes);
    int held = 0;
    for (int i = 0; i < all.n; i++) held += held_ahead(&all.x[i]);
    while (held && all.ahead < AHEAD_MOST && (all.ahead + 2) * held <= AHEAD_REGS) all.ahead++;
    return all;
}

static void find_thread(Wg *w, Make *x) {
    Lower *l = w->l;
    Val t = LLVMBuildAnd(l->b, w->tid, i32c(l, THREADS - 1), "");
    int per = PER_LINE / x->vec, chunks = x->vec / PER_CHUNK;
    x->line = LLVMBuildUDiv(l->b, t, i32c(l, per), "");
    Val c = LLVMBuildAnd(l->b, t, i32c(l, per - 1), "");
    x->k = LLVMBuildMul(l->b, c, i32c(l, x->vec), "");
    Val swizzled = LLVMBuildAnd(l->b, x->line, i32c(l, 7), "");
    swizzled = LLVMBuildXor(l->b, swizzled, LLVMBuildMul(l->b, c, i32c(l, chunks), ""), "");
    Val at = LLVMBuildMul(l->b, x->line, i32c(l, LINE), "");
    at = LLVMBuildAdd(l->b, at, LLVMBuildMul(l->b, swizzled, i32c(l, CHUNK), ""), "");
    x->to = LLVMBuildAdd(l->b, at, i32c(l, x->begin), "");
}

/* ---- the open tile --------------------------------------------------------------------------- */

typedef struct Place {
    Val rows, cols; /* i64: where the tile begins */
    Val k0;         /* i32: where the stage does */
} Place;

/* u: i32. */
static void open_unit(Wg *w, const Make *x, const Place *p, Val u) {
    Lower *l = w->l;
    Val row0 = x->axis == w->m.rows ? p->rows : p->cols;
    Val row = LLVMBuildMul(l->b, u, i32c(l, x->apart), "");
    row = LLVMBuildAdd(l->b, row, x->line, "");
    row = LLVMBuildAdd(l->b, row0, LLVMBuildZExt(l->b, row, l->i64, ""), "");
    Val k = LLVMBuildOr(l->b, p->k0, x->k, "");
    wg_open_run(w, x->axis, row, 1, true);
    wg_open_run(w, w->m.k, LLVMBuildZExt(l->b, k, l->i64, ""), x->vec, l->s->wide);
}

/* As if a unit had one k. */
static AxisState shut(Lower *l, int axis) {
    AxisState all = l->axis[axis];
    l->axis[axis].count = 1;
    return all;
}

static void load_vector(Wg *w, const Make *x, const TInst *i, Val *word) {
    Lower *l = w->l;
    const TTensor *t = &l->t->tensors.v[i->tensor];
    int bits = dtype_bits(t->type), bytes = x->vec * bits / 8;
    Val in = mem_in_range(l, l->deps[i->id], 0, 0);
    Address at = mem_address(l, t, i->ix, i->nix, 0);
    Val off = frag_only(&at.off, "a vector's address");
    if (bits == 4) off = LLVMBuildAShr(l->b, off, LLVMConstInt(l->i64, 1, 0), "");
    Val from = LLVMBuildGEP2(l->b, l->i8, at.base, &off, 1, "");
    for (int b = 0; b < bytes; b += WIDEST)
        ptx_load_wide(l, bytes < WIDEST ? bytes : WIDEST, from, b, in, false, word + b / 4);
}

/* Element e of a vector of words, as a value. */
static Val element(Lower *l, DType t, const Val *word, int e) {
    int bits = dtype_bits(t), at = e * bits % 32;
    Val v = word[e * bits / 32];
    if (bits == 4) { /* sign or zeros above */
        Val up = i32c(l, 28 - at), down = i32c(l, 28);
        if (t == DT_u4) {
            v = LLVMBuildLShr(l->b, v, i32c(l, at), "");
            return LLVMBuildAnd(l->b, v, i32c(l, 15), "");
        }
        return LLVMBuildAShr(l->b, LLVMBuildShl(l->b, v, up, ""), down, "");
    }
    if (bits < 32) {
        v = LLVMBuildLShr(l->b, v, i32c(l, at), "");
        v = LLVMBuildTrunc(l->b, v, bits == 8 ? l->i8 : l->i16, "");
    }
    return type_from_bits(l, t, v);
}

/* ---- loads ahead ----------------------------------------------------------------------------- */

/* It is loaded here and not later. */
static Val held_here(Lower *l, Val v) {
    Ty t = LLVMTypeOf(v);
    if (t != l->i32 && t != l->f32) return v;
    Val f = LLVMBuildBitCast(l->b, v, l->f32, "");
    ptx_hold(l, 1, &f);
    return LLVMBuildBitCast(l->b, f, t, "");
}

/* The loads of a unit, to `held`. */
static void begin_unit(Wg *w, const Make *x, const Place *p, Val u, Val *held) {
    Lower *l = w->l;
    open_unit(w, x, p, u);
    AxisState k = shut(l, w->m.k);
    for (int i = 0; i < x->nparts; i++) {
        int count = held_of(w, x, x->part[i]);
        if (!count) continue;
        if (is_vector(w, x->part[i])) {
            load_vector(w, x, x->part[i], held);
        } else {
            Frag one = emit_load(l, x->part[i]);
            *held = frag_only(&one, "a load for a unit");
        }
        for (int v = 0; v < count; v++) held[v] = held_here(l, held[v]);
        held += count;
    }
    l->axis[w->m.k] = k;
}

/* The loads of a stage that run ahead. */
static void begin_stage(Wg *w, const Maker *all, const Place *p, Val *held) {
    for (int n = 0; n < all->n; n++) {
        const Make *x = &all->x[n];
        for (int u = 0; u < x->units && x->ahead; u++, held += x->held)
            begin_unit(w, x, p, i32c(w->l, u), held);
    }
}

/* ---- making ---------------------------------------------------------------------------------- */

static void take_held(Wg *w, const TInst *i, const Val *held) {
    Lower *l = w->l;
    if (!is_vector(w, i)) {
        l->value[i->id] = frag_one(l, *held);
        return;
    }
    Frag f = frag_new(l, axis_bit(w->m.k));
    for (int e = 0; e < f.n; e++) f.v[e] = element(l, l->t->tensors.v[i->tensor].type, held, e);
    l->value[i->id] = f;
}

/* A word, 0 where k is beyond the end. */
static Val cut_word(Wg *w, Val word, Val const *in) {
    Lower *l = w->l;
    if (l->s->wide) return LLVMBuildSelect(l->b, in[0], word, i32c(l, 0), "");
    for (int h = 0; h < 2; h++) {
        Val cut = LLVMBuildAnd(l->b, word, i32c(l, h ? 0xffff : -65536), "");
        word = LLVMBuildSelect(l->b, in[h], word, cut, "");
    }
    return word;
}

static void write_unit(Wg *w, Make *x, Val to) {
    Lower *l = w->l;
    const Val *made = x->paired ? pairs_words(l, &x->pairs) : wg_made_words(w, x->f, x->vec / 2);
    const AxisState *k = &l->axis[w->m.k];
    for (int c = 0; c < x->vec / PER_CHUNK; c++) {
        Val word[4];
        for (int i = 0; i < 4; i++) {
            int e = PER_CHUNK * c + 2 * i;
            word[i] = cut_word(w, made[e / 2], &k->in[e]);
        }
        ptx_store_shared4(l, LLVMBuildXor(l->b, to, i32c(l, c * CHUNK), ""), 0, word);
    }
}

static void make_part(Wg *w, Make *x, const TInst *part, const Val *held) {
    Lower *l = w->l;
    if (x->paired && pairs_has(&x->pairs, part)) {
        if (part->kind == T_LOAD)
            pairs_load(l, &x->pairs, part, held, x->vec / 2);
        else
            pairs_op(l, &x->pairs, part);
        return;
    }
    if (held) {
        take_held(w, part, held);
    } else {
        AxisState k = l->axis[w->m.k];
        if (part->nix && is_steady(w, x, part)) shut(l, w->m.k);
        emit_inst(l, part);
        l->axis[w->m.k] = k;
    }
    wg_say_narrow(w, &x->pairs, part);
}

/* *held goes on to the next unit's. */
static void make_unit(Wg *w, Make *x, const Place *p, Val u, Val stage, const Val **held) {
    Lower *l = w->l;
    open_unit(w, x, p, u);
    for (int i = 0; i < x->nparts; i++) {
        int count = held_of(w, x, x->part[i]);
        make_part(w, x, x->part[i], count ? *held : NULL);
        *held += count;
    }
    Val to = LLVMBuildAdd(l->b, stage, x->to, "");
    Val by = LLVMBuildMul(l->b, u, i32c(l, x->apart * LINE), "");
    write_unit(w, x, LLVMBuildAdd(l->b, to, by, ""));
}

/* Units of which nothing was loaded before, a few at a time. */
static void make_each(Wg *w, Make *x, const Place *p, Val stage) {
    Lower *l = w->l;
    Val *held = ARENA_ARRAY(l->arena, Val, x->batch * x->held + 1);
    const Val *from = held;
    LLVMBasicBlockRef before = LLVMGetInsertBlock(l->b);
    LLVMBasicBlockRef body = block_new(l, "unit"), exit = block_new(l, "made");
    LLVMBuildBr(l->b, body);
    block_enter(l, body);
    Val u = wg_phi(l, l->i32, i32c(l, 0), before);
    for (int i = 0; i < x->batch; i++) {
        Val at = LLVMBuildAdd(l->b, u, i32c(l, i), "");
        begin_unit(w, x, p, at, held + i * x->held);
    }
    for (int i = 0; i < x->batch; i++)
        make_unit(w, x, p, LLVMBuildAdd(l->b, u, i32c(l, i), ""), stage, &from);
    Val next = LLVMBuildAdd(l->b, u, i32c(l, x->batch), "");
    wg_phi_next(l, u, next);
    Val more = LLVMBuildICmp(l->b, LLVMIntULT, next, i32c(l, x->units), "");
    LLVMBuildCondBr(l->b, more, body, exit);
    block_enter(l, exit);
}

/* Of what is held, in order. */
static void make_stage(Wg *w, Maker *all, const Place *p, Val stage, const Val *held) {
    for (int n = 0; n < all->n; n++) {
        Make *x = &all->x[n];
        if (!x->ahead) make_each(w, x, p, stage);
        for (int u = 0; u < x->units && x->ahead; u++)
            make_unit(w, x, p, i32c(w->l, u), stage, &held);
    }
}

/* ---- a tile ---------------------------------------------------------------------------------- */

typedef struct Tile {
    Maker *all;
    Place at;
    Val *held; /* of `ahead` stages */
    int n;     /* of one */
} Tile;

static Place stage_place(Wg *w, const Tile *t, Val kt) {
    Place p = t->at;
    p.k0 = LLVMBuildMul(w->l->b, kt, i32c(w->l, w->t.k), "");
    return p;
}

/* Stage kt, and the loads of the one that comes `ahead` turns later: t->held moves on. */
static void load_stage(Wg *w, Tile *t, Val kt, Ring ring) {
    Lower *l = w->l;
    int ahead = t->all->ahead;
    Val *next = ARENA_ARRAY(l->arena, Val, (ahead + 1) * t->n);
    for (int i = 0; i < ahead * t->n; i++) next[i] = t->held[i];
    Place now = stage_place(w, t, kt);
    Place later = stage_place(w, t, LLVMBuildAdd(l->b, kt, i32c(l, ahead * w->t.loaders), ""));
    if (t->n) begin_stage(w, t->all, &later, next + ahead * t->n);
    Val full = wg_full_bar(w, ring.stage);
    Val stage = wg_at_stage(w, w->smem, ring.stage, w->t.stage_bytes);
    ptx_mbar_wait(l, wg_empty_bar(w, ring.stage), LLVMBuildXor(l->b, ring.phase, i32c(l, 1), ""));
    wg_open_one(w, w->m.rows, t->at.rows);
    wg_open_one(w, w->m.cols, t->at.cols);
    wg_load_other(w, now.k0, stage, full);
    make_stage(w, t->all, &now, stage, next);
    wg_publish(w, full);
    t->held = next + t->n;
}

static Ring make_tile(Wg *w, Val item, Ring r) {
    Lower *l = w->l;
    Maker all = maker_of(w);
    Tile t = {.all = &all};
    Work work = wg_work(w, item);
    Val stages = uniform32(w, wg_k_tiles(w));
    for (int i = 0; i < all.n; i++) {
        find_thread(w, &all.x[i]);
        t.n += held_ahead(&all.x[i]);
    }
    wg_decode(w, work.tile, &t.at.rows, &t.at.cols);
    int held = all.ahead * t.n;
    t.held = ARENA_ARRAY(l->arena, Val, held + 1);
    for (int i = 0; i < all.ahead; i++) {
        Val kt = LLVMBuildAdd(l->b, w->role, i32c(l, i * w->t.loaders), "");
        Place p = stage_place(w, &t, kt);
        begin_stage(w, &all, &p, t.held + i * t.n);
    }
    Ring at = ring_on(w, r, w->role);
    LLVMBasicBlockRef before = LLVMGetInsertBlock(l->b);
    LLVMBasicBlockRef head = block_new(l, "stages"), body = block_new(l, "make");
    LLVMBasicBlockRef exit = block_new(l, "loaded");
    LLVMBuildBr(l->b, head);
    block_enter(l, head);
    Val kt = wg_phi(l, l->i32, w->role, before);
    at = (Ring){wg_phi(l, l->i32, at.stage, before), wg_phi(l, l->i32, at.phase, before)};
    Val *phi = ARENA_ARRAY(l->arena, Val, held + 1);
    for (int i = 0; i < held; i++) phi[i] = wg_phi(l, LLVMTypeOf(t.held[i]), t.held[i], before);
    LLVMBuildCondBr(l->b, LLVMBuildICmp(l->b, LLVMIntULT, kt, stages, ""), body, exit);
    block_enter(l, body);
    t.held = phi;
    load_stage(w, &t, kt, at);
    Ring next = ring_on(w, at, i32c(l, w->t.loaders));
    wg_phi_next(l, kt, LLVMBuildAdd(l->b, kt, i32c(l, w->t.loaders), ""));
    wg_phi_next(l, at.stage, next.stage);
    wg_phi_next(l, at.phase, next.phase);
    for (int i = 0; i < held; i++) wg_phi_next(l, phi[i], t.held[i]);
    LLVMBuildBr(l->b, head);
    block_enter(l, exit);
    l->axis[w->m.k].open = false; /* who multiplies knows nothing of it */
    return ring_skip(w, r);
}

void wg_loader_make(Wg *w) {
    Lower *l = w->l;
    LLVMBasicBlockRef after = wg_uniform_begin(w);
    wg_tile_loop(w, ring_start(w), make_tile);
    wg_uniform_end(w, after);
    LLVMBuildRetVoid(l->b);
}

/* ---- guards ---------------------------------------------------------------------------------- */

static void guard_vector(Wg *w, Kernel *k, const TTensor *x, int bytes) {
    Lower *l = w->l;
    IxPool *p = l->t->ix;
    if (x->mem != TM_TEMP)
        guard_add(l, k, (KGuard){.kind = KG_ALIGN, .index = x->id, .multiple = bytes});
    for (int d = 0; d + 1 < x->rank; d++) {
        KGuard g = {.kind = KG_STRIDE, .index = x->id, .dim = d, .multiple = bytes};
        if (x->mem == TM_TEMP) {
            const Ix *bits = ix_mul(p, dense_stride(l->t, x, d), ix_const(p, dtype_bits(x->type)));
            bits = ix_mod(p, bits, ix_const(p, 8 * bytes));
            g = (KGuard){.kind = KG_NONNEG, .ix = ix_neg(p, bits)};
        }
        guard_add(l, k, g);
    }
}

void wg_guard_make(Wg *w, Kernel *k, const MmaFactor *f) {
    Lower *l = w->l;
    IxPool *p = l->t->ix;
    const Ix *deep = l->t->axes.v[w->m.k].extent;
    bool rows = f == &w->m.a;
    Make x = make_of(w, f, rows ? w->m.rows : w->m.cols, rows ? w->t.m : w->t.n, 0);
    guard_add(l, k, (KGuard){.kind = KG_NONNEG, .ix = ix_sub(p, deep, ix_const(p, 1))});
    guard_add(l, k,
              (KGuard){.kind = KG_NONNEG, .ix = ix_sub(p, ix_const(p, INT32_MAX - 1024), deep)});
    if (!l->s->wide) return;
    guard_add(l, k,
              (KGuard){.kind = KG_NONNEG, .ix = ix_neg(p, ix_mod(p, deep, ix_const(p, x.vec)))});
    for (int i = 0; i < x.nparts; i++) {
        int bytes = is_vector(w, x.part[i]) ? x.vec * type_bits_of(w, x.part[i]) / 8 : 0;
        if (bytes)
            guard_vector(w, k, &l->t->tensors.v[x.part[i]->tensor],
                         bytes < WIDEST ? bytes : WIDEST);
    }
}
