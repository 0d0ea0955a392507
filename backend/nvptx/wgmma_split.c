/* wgmma_split.c - which part of a tile a CTA works on, and how the parts' sums come together.
 *
 * Work is numbered: whole tiles first, then the parts of the others, tile by tile (ir/mma_parts.c).
 *
 * A warp's place in a tile decides what it holds of the accumulator, so the warps at the same place
 * in the parts of a tile need only each other. Each writes its registers to scratch memory as they
 * lie (16 bytes a thread side by side: two rows of two columns of every 8) and arrives at the
 * place's word. Then each does all that follows the loop for a share of the columns: it adds up the
 * parts, in their order, and goes on from there.
 *
 * Nobody has to wait for warps that may not be running: who has seen too many polls leaves the
 * share behind, and whoever arrives last does it. The word, 0 at launch:
 *     bits 0..7    parts that have arrived
 *     bits 8..23   part a's share was left behind: bit 8 + a
 *     bits 24..31  parts that need the word no more; the last of them clears it
 * The atomic that leaves a share behind tells whether all had arrived meanwhile: then the last of
 * them has not seen it, and it stays with who wanted to leave. So each share is done once.
 */
#include "backend/nvptx/wgmma_int.h"

enum {
    LEFT = 8,
    THROUGH = 24,
    POLLS = 64,             /* some 20 microseconds */
    VECTOR = 32 * 16,       /* bytes of a warp's four registers */
    CHUNK = 4 * MMA_JOINED, /* most sums of a thread that are made together */
    AHEAD = 64              /* registers of parts that are read at once */
};

/* ---- work ---- */

static MmaParts parts_of(const Wg *w) {
    return mma_parts(w->l->t->ix, wg_tile_total(w), wg_k_tiles(w), w->t.slots, w->t.split);
}

const Ix *wg_work_total(const Wg *w) {
    return w->t.split > 1 ? parts_of(w).items : wg_tile_total(w);
}

static Val cut_at(Wg *w, Val part, Val parts, Val k_tiles) {
    Lower *l = w->l;
    return LLVMBuildUDiv(l->b, LLVMBuildMul(l->b, k_tiles, part, ""), parts, "");
}

Work wg_work(Wg *w, Val item) {
    Lower *l = w->l;
    Val k_tiles = uniform32(w, wg_k_tiles(w)), zero = i32c(l, 0);
    Work k = {.tile = item, .first = zero, .len = k_tiles};
    if (w->t.split == 1) return k;
    MmaParts m = parts_of(w);
    Val whole = uniform32(w, m.whole), parts = uniform32(w, m.parts);
    k.cut = LLVMBuildICmp(l->b, LLVMIntUGE, item, whole, "");
    Val at = LLVMBuildSub(l->b, item, whole, "");
    k.number = LLVMBuildUDiv(l->b, at, parts, "");
    k.part = LLVMBuildSub(l->b, at, LLVMBuildMul(l->b, k.number, parts, ""), "");
    Val next = LLVMBuildAdd(l->b, k.part, i32c(l, 1), "");
    Val first = cut_at(w, k.part, parts, k_tiles), end = cut_at(w, next, parts, k_tiles);
    Val tile = LLVMBuildAdd(l->b, whole, k.number, "");
    k.tile = LLVMBuildSelect(l->b, k.cut, tile, item, "");
    k.first = LLVMBuildSelect(l->b, k.cut, first, zero, "");
    k.len = LLVMBuildSelect(l->b, k.cut, LLVMBuildSub(l->b, end, first, ""), k_tiles, "");
    return k;
}

/* ---- memory ---- */

/* Registers of a thread, and warps, that hold a CTA's tile. */
static int regs_of(const Wg *w) {
    return w->t.blocks * w->t.width / 2;
}

static int warps_of(const Wg *w) {
    return w->t.warp_rows ? w->t.warp_rows * w->t.warp_cols : 4 * w->t.groups;
}

static int part_bytes(const Wg *w) {
    return warps_of(w) * regs_of(w) / 4 * VECTOR;
}

void wg_split_memory(Wg *w, Kernel *k) {
    IxPool *p = w->l->t->ix;
    if (w->t.split == 1) return;
    MmaParts m = parts_of(w);
    int64_t bytes = (int64_t)wg_pair(w) * part_bytes(w);
    k->scratch = ix_mul(p, ix_mul(p, m.cut, m.parts), ix_const(p, bytes));
    k->head = ix_const(p, (int64_t)w->t.slots * wg_pair(w) * warps_of(w) * 4);
}

static Val address(Lower *l, Val base, Val offset) {
    return LLVMBuildGEP2(l->b, l->i8, base, &offset, 1, "");
}

/* What a warp needs to know of its place. */
typedef struct Place {
    Val word;    /* global: the place's */
    Val scratch; /* global */
    Val at;      /* i64: from there to the thread's first 16 bytes of part 0 */
    Val stride;  /* i64: from part to part */
    Val parts;   /* i32 */
} Place;

static Place place_of(Wg *w, const Work *k) {
    Lower *l = w->l;
    LLVMBuilderRef b = l->b;
    int warps = warps_of(w);
    Val number = k->number;
    if (wg_pair(w) > 1)
        number = LLVMBuildAdd(b, LLVMBuildMul(b, number, i32c(l, wg_pair(w)), ""), w->rank, "");
    Val warp = ptx_shfl_first(l, LLVMBuildLShr(b, w->tid, i32c(l, 5), ""));
    if (!w->t.warp_rows) warp = LLVMBuildSub(b, warp, i32c(l, 4), "");
    Val lane = LLVMBuildAnd(b, w->tid, i32c(l, 31), "");
    Place p = {.parts = uniform32(w, parts_of(w).parts)};
    Val word = LLVMBuildAdd(b, LLVMBuildMul(b, number, i32c(l, warps), ""), warp, "");
    word = LLVMBuildShl(b, LLVMBuildZExt(b, word, l->i64, ""), LLVMConstInt(l->i64, 2, 0), "");
    p.word = address(l, param_memory(l, KP_HEAD), word);
    p.scratch = param_memory(l, KP_SCRATCH);
    p.stride = LLVMConstInt(l->i64, (unsigned)part_bytes(w), 0);
    Val first = LLVMBuildZExt(b, LLVMBuildMul(b, number, p.parts, ""), l->i64, "");
    Val in = LLVMBuildMul(b, warp, i32c(l, regs_of(w) / 4 * VECTOR), "");
    in = LLVMBuildAdd(b, in, LLVMBuildShl(b, lane, i32c(l, 4), ""), "");
    p.at =
        LLVMBuildAdd(b, LLVMBuildMul(b, first, p.stride, ""), LLVMBuildZExt(b, in, l->i64, ""), "");
    return p;
}

static Val of_part(Wg *w, const Place *p, Val part) {
    Lower *l = w->l;
    Val by = LLVMBuildMul(l->b, LLVMBuildZExt(l->b, part, l->i64, ""), p->stride, "");
    return LLVMBuildAdd(l->b, p->at, by, "");
}

/* Blocks of rows, of each sum. */
static int blocks_of(const Wg *w) {
    return w->t.group_rows / w->t.block_rows * w->m.sums;
}

/* The vectors of 8 columns of all blocks come one after the other. */
static void put(Wg *w, const Place *p, const Acc *acc, Val part) {
    Lower *l = w->l;
    int blocks = blocks_of(w), each = w->t.group_rows / w->t.block_rows;
    Val to = address(l, p->scratch, of_part(w, p, part));
    for (int j = 0; j < w->t.group_cols / 8; j++)
        for (int k = 0; k < blocks; k++) {
            const Val *v = acc->v + k / each * acc->next + k % each * acc->line;
            ptx_store_floats(l, to, (j * blocks + k) * VECTOR, &v[j * 4]);
        }
}

/* ---- the word ---- */

static Val low_bits(Lower *l, Val v) {
    return LLVMBuildAnd(l->b, v, i32c(l, (1 << LEFT) - 1), "");
}

/* By one thread: the shares that are left to it, a bit each. Ends in a block of its own. */
static Val arrive(Wg *w, const Place *p, Val part) {
    Lower *l = w->l;
    LLVMBuilderRef b = l->b;
    Val mine = LLVMBuildShl(b, i32c(l, 1), part, "");
    Val old = ptx_atomic_add(l, p->word, i32c(l, 1));
    Val seen0 = LLVMBuildAdd(b, low_bits(l, old), i32c(l, 1), "");
    Val last = LLVMBuildICmp(b, LLVMIntEQ, seen0, p->parts, "");
    Val left = LLVMBuildLShr(b, old, i32c(l, LEFT), "");
    left = LLVMBuildAnd(b, left, i32c(l, (1 << MMA_PARTS_MOST) - 1), "");
    left = LLVMBuildSelect(b, last, left, i32c(l, 0), "");
    Val shares = LLVMBuildOr(b, left, mine, "");
    LLVMBasicBlockRef before = LLVMGetInsertBlock(b), poll = block_new(l, "poll");
    LLVMBasicBlockRef patient = block_new(l, "patient"), leave = block_new(l, "leave.share");
    LLVMBasicBlockRef done = block_new(l, "met");
    LLVMBuildCondBr(b, last, done, poll);
    block_enter(l, poll);
    Val n = wg_phi(l, l->i32, i32c(l, 0), before);
    Val now = low_bits(l, ptx_load_acquire(l, p->word));
    Val all = LLVMBuildICmp(b, LLVMIntEQ, now, p->parts, "");
    LLVMBasicBlockRef polled = LLVMGetInsertBlock(b);
    LLVMBuildCondBr(b, all, done, patient);
    block_enter(l, patient);
    Val next = LLVMBuildAdd(b, n, i32c(l, 1), "");
    wg_phi_next(l, n, next);
    Val more = LLVMBuildICmp(b, LLVMIntULT, next, i32c(l, POLLS), "");
    LLVMBuildCondBr(b, more, poll, leave);
    block_enter(l, leave);
    Val bit = LLVMBuildShl(b, mine, i32c(l, LEFT), "");
    Val met = low_bits(l, ptx_atomic_add(l, p->word, bit));
    Val stay = LLVMBuildICmp(b, LLVMIntEQ, met, p->parts, "");
    Val kept = LLVMBuildSelect(b, stay, mine, i32c(l, 0), "");
    LLVMBasicBlockRef left_it = LLVMGetInsertBlock(b);
    LLVMBuildBr(b, done);
    block_enter(l, done);
    Val out = wg_phi(l, l->i32, shares, before);
    LLVMAddIncoming(out, &shares, &polled, 1);
    LLVMAddIncoming(out, &kept, &left_it, 1);
    return out;
}

/* For all threads of the warp. */
static Val meet(Wg *w, const Place *p, Val part) {
    Lower *l = w->l;
    ptx_sync_warp(l);
    LLVMBasicBlockRef before = LLVMGetInsertBlock(l->b);
    LLVMBasicBlockRef one = block_new(l, "arrive"), after = block_new(l, "arrived");
    LLVMBuildCondBr(l->b, w->lane0, one, after);
    block_enter(l, one);
    Val shares = arrive(w, p, part);
    LLVMBasicBlockRef from = LLVMGetInsertBlock(l->b);
    LLVMBuildBr(l->b, after);
    block_enter(l, after);
    Val all = wg_phi(l, l->i32, i32c(l, 0), before);
    LLVMAddIncoming(all, &shares, &from, 1);
    all = ptx_shfl_first(l, all);
    ptx_sync_warp(l); /* what the one acquired, all may read */
    return all;
}

/* The word is needed no more by this warp; by one thread. What was there, in a while. */
static Val through(Wg *w, const Place *p) {
    Lower *l = w->l;
    LLVMBasicBlockRef before = LLVMGetInsertBlock(l->b);
    LLVMBasicBlockRef one = block_new(l, "through"), after = block_new(l, "may.go");
    LLVMBuildCondBr(l->b, w->lane0, one, after);
    block_enter(l, one);
    Val old = ptx_atomic_count(l, p->word, i32c(l, 1 << THROUGH));
    LLVMBuildBr(l->b, after);
    block_enter(l, after);
    Val seen = wg_phi(l, l->i32, i32c(l, 0), before);
    LLVMAddIncoming(seen, &old, &one, 1);
    return seen;
}

/* The last that is through leaves the word as it was. */
static void clear_word(Wg *w, const Place *p, Val seen) {
    Lower *l = w->l;
    LLVMBasicBlockRef clear = block_new(l, "clear"), after = block_new(l, "joined");
    Val n = LLVMBuildAdd(l->b, LLVMBuildLShr(l->b, seen, i32c(l, THROUGH), ""), i32c(l, 1), "");
    Val last = LLVMBuildICmp(l->b, LLVMIntEQ, n, p->parts, "");
    LLVMBuildCondBr(l->b, LLVMBuildAnd(l->b, last, w->lane0, ""), clear, after);
    block_enter(l, clear);
    ptx_store_relaxed(l, p->word, i32c(l, 0));
    LLVMBuildBr(l->b, after);
    block_enter(l, after);
}

/* ---- shares ---- */

/* Groups of 8 columns that are worked on together, and how many such chunks a tile has. */
static int chunk_units(const Wg *w) {
    return w->t.group_cols % 16 || 8 * blocks_of(w) > CHUNK ? 1 : 2;
}

static int chunks_of(const Wg *w) {
    return w->t.group_cols / 8 / chunk_units(w);
}

/* Adds so many parts of a chunk, n registers, whose bytes begin at `from` of a part. A part that is
 * not there adds -0, which changes nothing. */
static void add_parts(Wg *w, const Place *p, Val first, int parts, Val from, int n, Val *sum) {
    Lower *l = w->l;
    LLVMBuilderRef b = l->b;
    Val last = LLVMBuildSub(b, p->parts, i32c(l, 1), ""), none = const_real(l, -0.0);
    Val v[MMA_PARTS_MOST][CHUNK], in[MMA_PARTS_MOST];
    for (int i = 0; i < parts; i++) {
        Val part = LLVMBuildAdd(b, first, i32c(l, i), "");
        in[i] = LLVMBuildICmp(b, LLVMIntULE, part, last, "");
        part = LLVMBuildSelect(b, in[i], part, last, "");
        Val at = address(l, p->scratch, LLVMBuildAdd(b, of_part(w, p, part), from, ""));
        for (int k = 0; k < n; k += 4) ptx_load_floats(l, at, k / 4 * VECTOR, &v[i][k]);
    }
    for (int i = 0; i < parts; i++)
        for (int k = 0; k < n; k++)
            sum[k] = LLVMBuildFAdd(b, sum[k], LLVMBuildSelect(b, in[i], v[i][k], none, ""), "");
}

/* The sums of a chunk, of all parts. */
static void gather(Wg *w, const Place *p, Val chunk, int n, Val *sum) {
    Lower *l = w->l;
    int ahead = AHEAD / n < MMA_PARTS_MOST ? AHEAD / n : MMA_PARTS_MOST;
    Val from = LLVMBuildMul(l->b, chunk, i32c(l, n / 4 * VECTOR), "");
    from = LLVMBuildZExt(l->b, from, l->i64, "");
    LLVMBasicBlockRef before = LLVMGetInsertBlock(l->b), body = block_new(l, "parts");
    LLVMBasicBlockRef exit = block_new(l, "added");
    LLVMBuildBr(l->b, body);
    block_enter(l, body);
    Val part = wg_phi(l, l->i32, i32c(l, 0), before), phi[CHUNK];
    for (int k = 0; k < n; k++) sum[k] = phi[k] = wg_phi(l, l->f32, const_real(l, -0.0), before);
    add_parts(w, p, part, ahead, from, n, sum);
    Val next = LLVMBuildAdd(l->b, part, i32c(l, ahead), "");
    wg_phi_next(l, part, next);
    for (int k = 0; k < n; k++) wg_phi_next(l, phi[k], sum[k]);
    Val more = LLVMBuildICmp(l->b, LLVMIntULT, next, p->parts, "");
    LLVMBuildCondBr(l->b, more, body, exit);
    block_enter(l, exit);
}

/* vectors as they came: 8 columns of all blocks one after the other; as wg_emit_chunk has them:
 * block by block. */
static void one_chunk(Wg *w, const Place *p, Val chunk, Val col0) {
    Lower *l = w->l;
    int blocks = blocks_of(w), units = chunk_units(w), n = 4 * blocks * units;
    FK_ASSERT(n <= CHUNK);
    Val sum[CHUNK], v[CHUNK];
    gather(w, p, chunk, n, sum);
    for (int j = 0; j < units; j++)
        for (int k = 0; k < blocks; k++)
            for (int e = 0; e < 4; e++) v[(k * units + j) * 4 + e] = sum[(j * blocks + k) * 4 + e];
    Acc acc = {.n = n, .v = v, .cols = 8 * units, .line = 4 * units};
    acc.next = w->t.group_rows / w->t.block_rows * acc.line;
    Val by = LLVMBuildMul(l->b, chunk, i32c(l, 8 * units), "");
    wg_emit_chunk(w, &acc, LLVMBuildAdd(l->b, col0, LLVMBuildZExt(l->b, by, l->i64, ""), ""));
}

/* for (chunk of the share) one_chunk. Share a of n of c chunks: [c a / n, c (a + 1) / n). */
static void one_share(Wg *w, const Place *p, Val share, Val col0) {
    Lower *l = w->l;
    Val chunks = i32c(l, chunks_of(w));
    Val first = cut_at(w, share, p->parts, chunks);
    Val end = cut_at(w, LLVMBuildAdd(l->b, share, i32c(l, 1), ""), p->parts, chunks);
    LLVMBasicBlockRef before = LLVMGetInsertBlock(l->b), head = block_new(l, "chunk");
    LLVMBasicBlockRef body = block_new(l, "do.chunk"), exit = block_new(l, "chunks");
    LLVMBuildBr(l->b, head);
    block_enter(l, head);
    Val chunk = wg_phi(l, l->i32, first, before);
    LLVMBuildCondBr(l->b, LLVMBuildICmp(l->b, LLVMIntULT, chunk, end, ""), body, exit);
    block_enter(l, body);
    one_chunk(w, p, chunk, col0);
    wg_phi_next(l, chunk, LLVMBuildAdd(l->b, chunk, i32c(l, 1), ""));
    LLVMBuildBr(l->b, head);
    block_enter(l, exit);
}

void wg_join(Wg *w, const Work *k, const Acc *acc, Val col0) {
    Lower *l = w->l;
    Place p = place_of(w, k);
    put(w, &p, acc, k->part);
    Val all = meet(w, &p, k->part);
    Val seen = through(w, &p);
    LLVMBasicBlockRef before = LLVMGetInsertBlock(l->b), head = block_new(l, "shares");
    LLVMBasicBlockRef body = block_new(l, "share"), exit = block_new(l, "shared");
    LLVMBuildBr(l->b, head);
    block_enter(l, head);
    Val mask = wg_phi(l, l->i32, all, before);
    Val any = LLVMBuildICmp(l->b, LLVMIntNE, mask, i32c(l, 0), "");
    LLVMBuildCondBr(l->b, any, body, exit);
    block_enter(l, body);
    Val args[2] = {mask, LLVMConstInt(l->i1, 1, 0)};
    Val share = ptx_intrinsic(l, l->b, "llvm.cttz", &l->i32, 1, args, 2);
    one_share(w, &p, share, col0);
    Val less = LLVMBuildSub(l->b, mask, i32c(l, 1), "");
    wg_phi_next(l, mask, LLVMBuildAnd(l->b, mask, less, ""));
    LLVMBuildBr(l->b, head);
    block_enter(l, exit);
    clear_word(w, &p, seen);
}
