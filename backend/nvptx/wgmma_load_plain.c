/* wgmma_load_plain.c - factors that TMA cannot bring: any address, any pitch.
 *
 * A stage of a factor is lines of 128 bytes, neighbours in memory: K-major a line is one row,
 * MN-major one k of a box of 64 rows (MmaSmem). All 128 threads bring them. Thread t is number
 * c = t % 8 of the eight that bring a line, a chunk of 16 bytes each; with g = t % 32 / 8 and
 * w = t / 32 its lines are, of 16-bit elements, 32 j + 8 g + 2 w + b for b = 0, 1 and all j; of
 * 8-bit ones 64 j + 16 g + 4 w + b for b = 0 .. 3. Where chunk c goes is c ^ line % 8: the swizzle
 * of 128 bytes, the same for all j.
 *
 * A chunk lies somewhere in two aligned words of 16 bytes; both are read (neighbours share them in
 * the cache) and the chunk is cut out. 8 lines of 16-bit elements, or 16 of 8-bit ones, are a
 * multiple of 16 bytes, whatever the pitch, so all lines of one b and one warp hang over 16 by the
 * same `off` bytes: the warp branches on its words of four bytes, and a prmt does the odd ones.
 *
 * Loads run ahead of stores. The stage is cut into batches: a factor, a b, up to BATCH lines. There
 * are as many buffers of registers as fit and divide the number of batches, so that a batch has the
 * same buffer in every stage; before a batch is stored, the loads of the batch `buffers - 1` later
 * are issued, of the next stage when this one has no more. Only within a tile: the first loads of a
 * tile are waited for.
 *
 * Nothing outside of the tensor is touched. Lines beyond the last one are read as the last (what
 * comes of them is not stored, or becomes 0). A thread whose words may reach beyond the first or
 * the last byte of the tensor reads nothing: `whole`. wgmma_plain_edge.c mends such stages, and
 * those that reach beyond K.
 *
 * A stage is full when one thread of each warp has arrived, after all of it have fenced what they
 * wrote for the async proxy, and, if the other factor comes by TMA, with its arrival and bytes.
 */
#include "backend/nvptx/wgmma_plain_int.h"

enum { BATCH = 4, WORDS = 8 };      /* lines; registers of a line's two words */
enum { OTHERS = 56, FURTHER = 16 }; /* registers for all but buffers; of a third factor, .. */

typedef struct Batch {
    int x, b, j, n; /* factor, and lines j to j + n - 1 */
} Batch;

enum { BATCHES = 32, BUFFERS = 8 }; /* at the most */

typedef struct Batches {
    Batch v[BATCHES];
    int n, buffers;
} Batches;

/* What is on its way: the lines of the stage at hand, and the buffers. */
typedef struct Loads {
    LinesAt at[FACTORS];
    Val buffer[BUFFERS][BATCH * WORDS];
} Loads;

static void cut_factor(Batches *p, int x, int lines, int series) {
    int parts = (lines + BATCH - 1) / BATCH;
    for (int b = 0; b < series; b++)
        for (int i = 0; i < parts; i++) {
            int from = lines * i / parts, to = lines * (i + 1) / parts;
            p->v[p->n++] = (Batch){x, b, from, to - from};
        }
}

static Batches make_batches(const Wg *w, const WgPlain *p) {
    Batches all = {.buffers = 1};
    int regs = (w->t.load_regs ? w->t.load_regs : w->t.entry_regs) - OTHERS, most = 0;
    if (p->n > 2) regs -= (p->n - 2) * FURTHER;
    for (int i = 0; i < p->n; i++) cut_factor(&all, i, p->x[i].count / p->apart, p->series);
    for (int i = 0; i < all.n; i++)
        if (all.v[i].n > most) most = all.v[i].n;
    for (int r = 2; r <= all.n && r <= BUFFERS; r++)
        if (all.n % r == 0 && r * most * WORDS <= regs) all.buffers = r;
    return all;
}

/* ---- lines ---------------------------------------------------------------------------------- */

static Val bytes_of(Lower *l, const WgPlain *p, Val elements) {
    return LLVMBuildMul(l->entry, elements, LLVMConstInt(l->i64, (unsigned)p->size, 0), "");
}

static const TTensor *tensor_of(const Wg *w, const Lines *x) {
    return &w->l->t->tensors.v[x->f->load->tensor];
}

/* The aligned words that lie whole between the tensor's first and last byte. */
static void find_span(Wg *w, const WgPlain *p, Lines *x) {
    Lower *l = w->l;
    LLVMBuilderRef e = l->entry;
    const TTensor *t = tensor_of(w, x);
    Val zero = LLVMConstInt(l->i64, 0, 0), one = LLVMConstInt(l->i64, 1, 0);
    Val mask = LLVMConstInt(l->i64, (uint64_t)-CHUNK, 1);
    Val lo = LLVMBuildPtrToInt(e, param_pointer(l, t), l->i64, "");
    Val hi = LLVMBuildAdd(e, lo, LLVMConstInt(l->i64, (uint64_t)(p->size - CHUNK), 1), "");
    lo = LLVMBuildAdd(e, lo, LLVMConstInt(l->i64, CHUNK - 1, 0), "");
    for (int d = 0; d < t->rank; d++) {
        Val most = LLVMBuildSub(e, uniform_ix(l, t->dims[d]), one, "");
        Val far = LLVMBuildMul(e, most, bytes_of(l, p, param_stride(l, t, d)), "");
        Val back = LLVMBuildICmp(e, LLVMIntSLT, far, zero, "");
        lo = LLVMBuildAdd(e, lo, LLVMBuildSelect(e, back, far, zero, ""), "");
        hi = LLVMBuildAdd(e, hi, LLVMBuildSelect(e, back, zero, far, ""), "");
    }
    x->low = LLVMBuildAnd(e, lo, mask, "");
    x->high = LLVMBuildAnd(e, hi, mask, "");
}

static void find_lines(Wg *w, Lines *x, const WgPlain *p) {
    Lower *l = w->l;
    int lines = x->mn ? x->f->depth : x->f->row;
    Val pitch = lines < 0 ? LLVMConstInt(l->i64, 0, 0) : param_stride(l, tensor_of(w, x), lines);
    x->pitch = LLVMBuildTrunc(l->entry, bytes_of(l, p, pitch), l->i32, "");
    find_span(w, p, x);
    for (int b = 0; b < p->series; b++) {
        Val swizzled = LLVMBuildAnd(l->b, p->first[b], i32c(l, 7), "");
        swizzled = LLVMBuildXor(l->b, swizzled, p->chunk, "");
        Val at = LLVMBuildMul(l->b, p->first[b], i32c(l, LINE), "");
        at = LLVMBuildAdd(l->b, at, LLVMBuildMul(l->b, swizzled, i32c(l, CHUNK), ""), "");
        x->at[b] = LLVMBuildAdd(l->b, at, i32c(l, x->begin), "");
    }
}

static void add_factors(Wg *w, WgPlain *p, bool rows, const MmaSmem *s, int count, int begin) {
    for (int n = 0; n < s->parts; n++)
        p->x[p->n++] = (Lines){.f = mma_factor_at(&w->m, rows, n),
                               .mn = s->mn,
                               .axis = rows ? w->m.rows : w->m.cols,
                               .begin = begin + n * s->part,
                               .count = count};
}

static void find_threads(Wg *w, WgPlain *p) {
    Lower *l = w->l;
    LLVMBuilderRef b = l->b;
    Val warp = LLVMBuildLShr(b, w->tid, i32c(l, 5), "");
    Val g = LLVMBuildAnd(b, LLVMBuildLShr(b, w->tid, i32c(l, 3), ""), i32c(l, 3), "");
    p->chunk = LLVMBuildAnd(b, w->tid, i32c(l, 7), "");
    p->size = w->m.size;
    p->series = 4 / p->size;
    p->apart = 16 * p->series;
    g = LLVMBuildMul(b, g, i32c(l, 4 * p->series), "");
    Val line = LLVMBuildAdd(b, g, LLVMBuildMul(b, warp, i32c(l, p->series), ""), "");
    for (int i = 0; i < p->series; i++) p->first[i] = LLVMBuildAdd(b, line, i32c(l, i), "");
    if (w->t.a.plain) add_factors(w, p, true, &w->t.a, w->t.m, 0);
    if (w->t.b.plain) add_factors(w, p, false, &w->t.b, w->t.n, w->t.a.bytes);
    for (int i = 0; i < p->n; i++) find_lines(w, &p->x[i], p);
}

/* In the open tile. */
static void open_lines(Wg *w, const WgPlain *p, Lines *x) {
    Lower *l = w->l;
    Val chunk = LLVMBuildMul(l->b, p->chunk, i32c(l, CHUNK), "");
    x->base = LLVMBuildAdd(l->b, wg_factor_at(w, x->f), LLVMBuildZExt(l->b, chunk, l->i64, ""), "");
    Val left =
        LLVMBuildSub(l->b, uniform_ix(l, l->t->axes.v[x->axis].extent), l->axis[x->axis].e[0], "");
    x->left = LLVMBuildTrunc(l->b, left, l->i32, "");
    Val low = LLVMBuildTrunc(l->b, x->base, l->i32, "");
    for (int b = 0; b < p->series; b++) {
        Val off = LLVMBuildAdd(l->b, low, LLVMBuildMul(l->b, p->first[b], x->pitch, ""), "");
        off = LLVMBuildAnd(l->b, off, i32c(l, CHUNK - p->size), "");
        x->off[b] = ptx_shfl_first(l, off);
    }
}

static Val least(Lower *l, Val a, Val b) {
    return LLVMBuildSelect(l->b, LLVMBuildICmp(l->b, LLVMIntSLT, a, b, ""), a, b, "");
}

/* In stage kt of the tile, if `there`. */
static LinesAt at_stage(Wg *w, const Lines *x, Val kt, Val there) {
    Lower *l = w->l;
    LinesAt at = {.last = LLVMBuildSub(l->b, x->left, i32c(l, 1), "")};
    int lines = x->mn ? w->t.k : x->count, boxes = x->count / lines;
    if (x->mn) {
        Val k0 = LLVMBuildMul(l->b, kt, i32c(l, w->t.k), "");
        at.base = ptx_mad_wide(l, k0, x->pitch, x->base);
        at.last = LLVMBuildSub(l->b, uniform32(w, l->t->axes.v[w->m.k].extent), k0, "");
        at.last = LLVMBuildSub(l->b, at.last, i32c(l, 1), "");
    } else {
        at.base = ptx_mad_wide(l, kt, i32c(l, LINE), x->base);
    }
    Val far = ptx_mad_wide(l, least(l, at.last, i32c(l, lines - 1)), x->pitch, at.base);
    Val back = LLVMBuildICmp(l->b, LLVMIntULT, far, at.base, "");
    Val from = LLVMBuildSelect(l->b, back, far, at.base, "");
    Val to = LLVMBuildSelect(l->b, back, at.base, far, "");
    to = LLVMBuildAdd(l->b, to, LLVMConstInt(l->i64, (unsigned)(boxes - 1) * LINE, 0), "");
    from = LLVMBuildICmp(l->b, LLVMIntUGE, from, x->low, "");
    to = LLVMBuildICmp(l->b, LLVMIntULT, to, x->high, "");
    at.whole = LLVMBuildAnd(l->b, LLVMBuildAnd(l->b, from, to, ""), there, "");
    return at;
}

Val plain_line(Wg *w, const WgPlain *p, const Lines *x, int b, Val j) {
    Lower *l = w->l;
    if (x->mn) j = LLVMBuildAnd(l->b, j, i32c(l, LINE / p->size / p->apart - 1), "");
    return LLVMBuildAdd(l->b, p->first[b], LLVMBuildMul(l->b, j, i32c(l, p->apart), ""), "");
}

Val plain_address(Wg *w, const WgPlain *p, const Lines *x, const LinesAt *at, int b, Val j) {
    Lower *l = w->l;
    Val base = at->base, line = least(l, plain_line(w, p, x, b, j), at->last);
    if (x->mn) { /* the box */
        Val box = LLVMBuildUDiv(l->b, j, i32c(l, LINE / p->size / p->apart), "");
        box = LLVMBuildMul(l->b, box, i32c(l, LINE), "");
        base = LLVMBuildAdd(l->b, base, LLVMBuildZExt(l->b, box, l->i64, ""), "");
    }
    return ptx_mad_wide(l, line, x->pitch, base);
}

/* ---- a stage -------------------------------------------------------------------------------- */

static void issue(Wg *w, const WgPlain *p, const Batch *c, const LinesAt *at, Val *to) {
    Lower *l = w->l;
    for (int i = 0; i < c->n; i++) {
        Val from = plain_address(w, p, &p->x[c->x], &at[c->x], c->b, i32c(l, c->j + i));
        from = LLVMBuildAnd(l->b, from, LLVMConstInt(l->i64, (uint64_t)-CHUNK, 1), "");
        for (int k = 0; k < 2; k++)
            ptx_load_words(l, from, k * CHUNK, at[c->x].whole, &to[i * WORDS + 4 * k]);
    }
}

/* Chunks that begin `word` words of four bytes into their buffer, and perhaps some bytes more. */
static void store_from(Wg *w, const WgPlain *p, const Batch *c, const Val *from, Val to, Val select,
                       int word) {
    for (int i = 0; i < c->n; i++)
        ptx_store_shifted(w->l, to, (c->j + i) * p->apart * LINE, select, &from[i * WORDS + word]);
}

static void store(Wg *w, const WgPlain *p, const Batch *c, const Val *from, Val stage) {
    Lower *l = w->l;
    const Lines *x = &p->x[c->x];
    Val to = LLVMBuildAdd(l->b, stage, x->at[c->b], ""), off = x->off[c->b];
    Val bit[4]; /* of the offset: 4, 8 bytes */
    for (int i = 2; i < 4; i++) {
        bit[i] = LLVMBuildAnd(l->b, off, i32c(l, 1 << i), "");
        bit[i] = LLVMBuildICmp(l->b, LLVMIntNE, bit[i], i32c(l, 0), "");
    }
    Val odd = LLVMBuildAnd(l->b, off, i32c(l, 3), "");
    Val select = LLVMBuildMul(l->b, odd, i32c(l, 0x1111), "");
    select = LLVMBuildAdd(l->b, select, i32c(l, 0x3210), "");
    LLVMBasicBlockRef leaf[4], two[2], after = block_new(l, "stored");
    for (int i = 0; i < 2; i++) two[i] = block_new(l, "words");
    for (int i = 0; i < 4; i++) leaf[i] = block_new(l, "shifted");
    LLVMBuildCondBr(l->b, bit[3], two[1], two[0]);
    for (int i = 0; i < 2; i++) {
        block_enter(l, two[i]);
        LLVMBuildCondBr(l->b, bit[2], leaf[2 * i + 1], leaf[2 * i]);
        for (int k = 2 * i; k < 2 * i + 2; k++) {
            block_enter(l, leaf[k]);
            store_from(w, p, c, from, to, select, k);
            LLVMBuildBr(l->b, after);
        }
    }
    block_enter(l, after);
}

void wg_load_other(Wg *w, Val k0, Val stage, Val full) {
    enum { THREADS = 128 };
    Lower *l = w->l;
    if (w->t.a.plain && w->t.b.plain) return;
    LLVMBasicBlockRef one = block_new(l, "tma"), after = block_new(l, "loading");
    Val first = LLVMBuildAnd(l->b, w->tid, i32c(l, THREADS - 1), "");
    first = LLVMBuildICmp(l->b, LLVMIntEQ, first, i32c(l, 0), "");
    LLVMBuildCondBr(l->b, first, one, after);
    block_enter(l, one);
    wg_open_one(w, w->m.k, LLVMBuildZExt(l->b, k0, l->i64, ""));
    Presents all = wg_presents(w);
    wg_load_factors(w, &all, stage, full);
    LLVMBuildBr(l->b, after);
    block_enter(l, after);
}

void wg_publish(Wg *w, Val full) {
    Lower *l = w->l;
    Val lane = LLVMBuildAnd(l->b, w->tid, i32c(l, 31), "");
    ptx_fence_async(l);
    ptx_sync_warp(l);
    ptx_mbar_arrive(l, full, LLVMBuildICmp(l->b, LLVMIntEQ, lane, i32c(l, 0), ""));
}

/* ---- a tile --------------------------------------------------------------------------------- */

/* The first loads of the open tile. */
static void begin_tile(Wg *w, WgPlain *p, const Batches *all, Loads *x) {
    Lower *l = w->l;
    for (int i = 0; i < p->n; i++) {
        open_lines(w, p, &p->x[i]);
        x->at[i] = at_stage(w, &p->x[i], i32c(l, 0), LLVMConstInt(l->i1, 1, 0));
    }
    for (int i = 0; i < all->buffers; i++)
        for (int k = 0; k < BATCH * WORDS; k++) x->buffer[i][k] = i32c(l, 0);
    for (int i = 0; i + 1 < all->buffers; i++) issue(w, p, &all->v[i], x->at, x->buffer[i]);
}

static void phi_loads(Lower *l, const WgPlain *p, const Batches *all, Loads *x,
                      LLVMBasicBlockRef before) {
    for (int i = 0; i < all->buffers; i++)
        for (int k = 0; k < BATCH * WORDS; k++)
            x->buffer[i][k] = wg_phi(l, l->i32, x->buffer[i][k], before);
    for (int i = 0; i < p->n; i++) {
        LinesAt *at = &x->at[i];
        at->base = wg_phi(l, l->i64, at->base, before);
        at->last = wg_phi(l, l->i32, at->last, before);
        at->whole = wg_phi(l, l->i1, at->whole, before);
    }
}

static void phi_loads_next(Lower *l, const WgPlain *p, const Batches *all, const Loads *x,
                           const Loads *next) {
    for (int i = 0; i < all->buffers; i++)
        for (int k = 0; k < BATCH * WORDS; k++) wg_phi_next(l, x->buffer[i][k], next->buffer[i][k]);
    for (int i = 0; i < p->n; i++) {
        wg_phi_next(l, x->at[i].base, next->at[i].base);
        wg_phi_next(l, x->at[i].last, next->at[i].last);
        wg_phi_next(l, x->at[i].whole, next->at[i].whole);
    }
}

/* Stage kt, of which all but the last buffer's batch are coming, and the first loads of the next.
 */
static void load_stage(Wg *w, const WgPlain *p, const Batches *all, Loads *x, Ring ring, Val kt,
                       Val more) {
    Lower *l = w->l;
    LinesAt next[FACTORS];
    Val full = wg_full_bar(w, ring.stage);
    Val stage = wg_at_stage(w, w->smem, ring.stage, w->t.stage_bytes);
    Val after = LLVMBuildAdd(l->b, kt, i32c(l, 1), "");
    for (int i = 0; i < p->n; i++) next[i] = at_stage(w, &p->x[i], after, more);
    for (int i = 0; i < all->n; i++) {
        int soon = i + all->buffers - 1;
        issue(w, p, &all->v[soon % all->n], soon < all->n ? x->at : next,
              x->buffer[soon % all->buffers]);
        if (i == 0) {
            ptx_mbar_wait(l, wg_empty_bar(w, ring.stage),
                          LLVMBuildXor(l->b, ring.phase, i32c(l, 1), ""));
            wg_load_other(w, LLVMBuildMul(l->b, kt, i32c(l, w->t.k), ""), stage, full);
        }
        store(w, p, &all->v[i], x->buffer[i % all->buffers], stage);
    }
    plain_mend(w, p, x->at, stage, kt);
    wg_publish(w, full);
    for (int i = 0; i < p->n; i++) x->at[i] = next[i];
}

static Ring load_tile(Wg *w, Val tile, Ring r) {
    Lower *l = w->l;
    WgPlain *p = w->plain;
    Batches all = make_batches(w, p);
    Loads x = {0}, now;
    Val row0, col0, stages = uniform32(w, wg_k_tiles(w));
    wg_decode(w, tile, &row0, &col0);
    wg_open_one(w, w->m.rows, row0);
    wg_open_one(w, w->m.cols, col0);
    begin_tile(w, p, &all, &x);
    LLVMBasicBlockRef before = LLVMGetInsertBlock(l->b);
    LLVMBasicBlockRef body = block_new(l, "load"), exit = block_new(l, "loaded");
    LLVMBuildBr(l->b, body);
    block_enter(l, body);
    Val kt = wg_phi(l, l->i32, i32c(l, 0), before);
    Ring ring = {wg_phi(l, l->i32, r.stage, before), wg_phi(l, l->i32, r.phase, before)};
    phi_loads(l, p, &all, &x, before);
    now = x;
    Val after = LLVMBuildAdd(l->b, kt, i32c(l, 1), "");
    Val more = LLVMBuildICmp(l->b, LLVMIntULT, after, stages, "");
    load_stage(w, p, &all, &x, ring, kt, more);
    Ring end = ring_next(w, ring);
    wg_phi_next(l, kt, after);
    wg_phi_next(l, ring.stage, end.stage);
    wg_phi_next(l, ring.phase, end.phase);
    phi_loads_next(l, p, &all, &now, &x);
    LLVMBuildCondBr(l->b, more, body, exit);
    block_enter(l, exit);
    return end;
}

void wg_loader_plain(Wg *w) {
    Lower *l = w->l;
    WgPlain p = {0};
    w->plain = &p;
    LLVMBasicBlockRef after = wg_uniform_begin(w);
    find_threads(w, &p);
    wg_tile_loop(w, ring_start(w), load_tile);
    wg_uniform_end(w, after);
    LLVMBuildRetVoid(l->b);
}
