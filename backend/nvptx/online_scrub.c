/* online_scrub.c - what no row of a tile has of a block's factors may be anything in memory, and is
 * multiplied by 0: it is overwritten with zeros before it is.
 *
 * Where bounds of j leave it out it lies at the ends of the first and the last block. Where data
 * do, the groups put together, block by block, which elements of j some row has: each thread that
 * of its rows and columns, a warp by shuffles, the groups through shared memory, of which a buffer
 * of the products' ring has words of its own, so that who is slow still reads what he has to. Most
 * often nothing is left out, or this is not asked for (ir/online_holes.c). Group 0 writes. Where
 * threads copy, they leave out what bounds do (online_copy.c).
 */
#include "backend/nvptx/online_int.h"

enum { MEET = 9, LINES = 16 /* by 128 threads */ };

static void meet(On *on) {
    ptx_bar_sync(on->l, i32c(on->l, MEET), 128 * on->t.out.groups);
}

/* Zeros in line `row` of product p's factor: `unit`, 16 bytes of each 128. */
static void zero_line(On *on, int p, Val stage, Val row, Val unit) {
    Lower *l = on->l;
    Val nothing[4] = {i32c(l, 0), i32c(l, 0), i32c(l, 0), i32c(l, 0)};
    for (int piece = 0; piece < on->t.v[p].pieces; piece++) {
        Val to = on_buffer(on, &on->t.v[p], stage);
        to = wg_at_stage(&on->w, to, row, 128);
        to = wg_at_stage(&on->w, to, unit, 16);
        ptx_store_shared4(l, to, piece * on->t.v[p].lines * 128, nothing);
    }
}

typedef Val IsOut(On *on, const void *ctx, Val row, int line);

/* Lines that are out, of product `only`, or of all of them (-1). Between two barriers of the
 * groups: the branch is theirs together. */
static void zero_lines(On *on, const OnState *s, int only, IsOut *is_out, const void *ctx) {
    Lower *l = on->l;
    Val stage = on->t.sync ? s->k.stage : s->v.stage;
    if (!on->t.sync) ptx_mbar_wait(l, on_full(on, BAR_V, stage), s->v.phase);
    LLVMBasicBlockRef mine = block_new(l, "zeros"), after = block_new(l, "meet");
    Val zero = LLVMBuildICmp(l->b, LLVMIntEQ, on->w.group, i32c(l, 0), "");
    LLVMBuildCondBr(l->b, zero, mine, after);
    block_enter(l, mine);
    Val thread = LLVMBuildAnd(l->b, on->w.tid, i32c(l, 127), "");
    Val unit = LLVMBuildAnd(l->b, thread, i32c(l, 7), "");
    Val row[256 / LINES], out[256 / LINES];
    for (int n = 0; n < on->t.j / LINES; n++) { /* before any branch: by shuffles */
        Val line = i32c(l, n * LINES);
        row[n] = LLVMBuildAdd(l->b, LLVMBuildLShr(l->b, thread, i32c(l, 3), ""), line, "");
        out[n] = is_out(on, ctx, row[n], n * LINES);
    }
    for (int n = 0; n < on->t.j / LINES; n++) {
        LLVMBasicBlockRef store = block_new(l, "line"), next = block_new(l, "next");
        LLVMBuildCondBr(l->b, out[n], store, next);
        block_enter(l, store);
        for (int p = 0; p < on->o.nproducts; p++)
            if (only < 0 || p == only) zero_line(on, p, stage, row[n], unit);
        LLVMBuildBr(l->b, next);
        block_enter(l, next);
    }
    if (!on->t.sync) ptx_fence_async(l);
    LLVMBuildBr(l->b, after);
    block_enter(l, after);
    meet(on);
}

/* ---- by bounds ---- */

typedef struct End {
    Val at;
    bool end;
} End;

static Val out_of_bounds(On *on, const void *ctx, Val row, int line) {
    const End *e = ctx;
    (void)line;
    return LLVMBuildICmp(on->l->b, e->end ? LLVMIntSGE : LLVMIntSLT, row, e->at, "");
}

void on_scrub_end(On *on, const OnState *s, Val i, bool end) {
    Lower *l = on->l;
    if (on->t.sync) return;
    if (!on->o.nproducts || !(end ? on->scrub_hi : on->scrub_lo)) return;
    LLVMBasicBlockRef cut = block_new(l, "scrub"), after = block_new(l, "scrubbed");
    Val from = LLVMBuildMul(l->b, i, i32c(l, on->t.j), ""), n = i32c(l, on->t.j);
    End e = {LLVMBuildSub(l->b, end ? on->hi_most : on->lo_least, from, ""), end};
    Val is = LLVMBuildICmp(l->b, LLVMIntSGT, end ? n : e.at, end ? e.at : i32c(l, 0), "");
    LLVMBuildCondBr(l->b, is, cut, after);
    block_enter(l, cut);
    zero_lines(on, s, -1, out_of_bounds, &e);
    LLVMBuildBr(l->b, after);
    block_enter(l, after);
}

/* ---- by data ---- */

enum { WORD = 32 };

static void note_bits(On *on, OnBlock *b, int p) {
    Lower *l = on->l;
    for (int w = 0; w < on->t.used_words; w++)
        for (int r = 0; r < on->held; r++) {
            Val bits = on_bits_word(on, b, r, w), row = l->axis[on->o.rows].in[r];
            if (row) bits = LLVMBuildSelect(l->b, row, bits, i32c(l, 0), "");
            b->used[p][w] = LLVMBuildOr(l->b, b->used[p][w], bits, "");
        }
}

/* Bits of the thread's columns that its rows have, `words` words. */
void on_scrub_note(On *on, OnBlock *b, int p) {
    Lower *l = on->l;
    if (!on->o.product[p].holes) return;
    const OnlineInst *step = on_step(on, on->o.product[p].step);
    for (int w = 0; w < on->t.used_words; w++) b->used[p][w] = i32c(l, 0);
    if (on_bits_say(on, b, step)) {
        note_bits(on, b, p);
        return;
    }
    for (int k = 0; k < b->slabs; k++) {
        OnSlab *slab = &b->slab[k];
        on_slab_enter(on, slab);
        for (int c = 0; c < slab->cols / 4; c++) {
            Val any = LLVMConstInt(l->i1, 0, 0);
            for (int r = 0; r < on->held; r++) {
                Val in = on_condition(on, b, slab, step, r, c), row = l->axis[on->o.rows].in[r];
                if (row) in = in ? LLVMBuildAnd(l->b, in, row, "") : row;
                any = LLVMBuildOr(l->b, any, in ? in : LLVMConstInt(l->i1, 1, 0), "");
            }
            int at = c + slab->from / 4;
            Val bit = LLVMBuildSelect(l->b, any, LLVMConstInt(l->i32, 1u << at % WORD, 0),
                                      i32c(l, 0), "");
            Val *word = &b->used[p][at / WORD];
            *word = LLVMBuildOr(l->b, *word, bit, "");
        }
    }
}

/* Where the words of product p lie: of each word and quarter of the columns, the warps'. */
static Val words_at(On *on, const OnState *s, int p, int word) {
    Lower *l = on->l;
    int warps = 4 * on->t.out.groups, set = on->t.used_words * 4 * warps * 4;
    Ring ring = on->t.sync ? s->k : s->v;
    Val slot = on->t.stages > 1 ? ring.stage : ring.phase; /* another one for the next block */
    Val at = LLVMBuildAdd(l->b, on->w.smem, i32c(l, on->t.used_at + p * set), "");
    at = wg_at_stage(&on->w, at, slot, on->o.nproducts * set);
    Val quarter = LLVMBuildAnd(l->b, on->w.tid, i32c(l, 3), "");
    return wg_at_stage(&on->w, LLVMBuildAdd(l->b, at, i32c(l, word * 16 * warps), ""), quarter,
                       4 * warps);
}

static Val of_warp(On *on, Val v) {
    for (int d = 4; d < 32; d *= 2) v = LLVMBuildOr(on->l->b, v, ptx_shfl_xor(on->l, v, d), "");
    return v;
}

static void tell(On *on, const OnBlock *b, const OnState *s) {
    Lower *l = on->l;
    LLVMBasicBlockRef store = block_new(l, "used"), after = block_new(l, "told");
    Val word[ONLINE_PRODUCTS][ONLINE_USED];
    for (int p = 0; p < on->o.nproducts; p++)
        for (int w = 0; w < on->t.used_words && on->o.product[p].holes; w++)
            word[p][w] = of_warp(on, b->used[p][w]);
    Val lane = LLVMBuildAnd(l->b, on->w.tid, i32c(l, 31), "");
    LLVMBuildCondBr(l->b, LLVMBuildICmp(l->b, LLVMIntULT, lane, i32c(l, 4), ""), store, after);
    block_enter(l, store);
    Val warp = LLVMBuildLShr(l->b, on->w.tid, i32c(l, 5), "");
    if (!on->t.sync) warp = LLVMBuildSub(l->b, warp, i32c(l, 4), ""); /* those that load */
    for (int p = 0; p < on->o.nproducts; p++)
        for (int w = 0; w < on->t.used_words && on->o.product[p].holes; w++)
            ptx_store_shared(l, 4, wg_at_stage(&on->w, words_at(on, s, p, w), warp, 4), word[p][w]);
    LLVMBuildBr(l->b, after);
    block_enter(l, after);
}

static Val heard(On *on, const OnState *s, int p, int word) {
    Lower *l = on->l;
    Val at = words_at(on, s, p, word), all = NULL;
    for (int g = 0; g < on->t.out.groups; g++) {
        Val v[4];
        ptx_load_shared4(l, at, 16 * g, v);
        for (int k = 0; k < 4; k++) all = all ? LLVMBuildOr(l->b, all, v[k], "") : v[k];
    }
    return all;
}

static Val not_used(On *on, const void *ctx, Val row, int line) {
    Lower *l = on->l;
    const Val *word = ctx;
    Val quarter = LLVMBuildLShr(l->b, LLVMBuildAnd(l->b, row, i32c(l, 7), ""), i32c(l, 1), "");
    int at = line / 8 * 2; /* of 16 lines: 4 bits, of which one is the row's */
    Val bit = LLVMBuildAnd(l->b, LLVMBuildLShr(l->b, row, i32c(l, 2), ""), i32c(l, 2), "");
    bit = LLVMBuildOr(l->b, bit, LLVMBuildAnd(l->b, row, i32c(l, 1), ""), "");
    Val arg[4] = {LLVMConstInt(l->i32, 0xffffffffu, 0), word[at / WORD], quarter, i32c(l, 31)};
    Val v = ptx_intrinsic(l, l->b, "llvm.nvvm.shfl.sync.idx.i32", NULL, 0, arg, 4);
    v = LLVMBuildLShr(l->b, v, LLVMBuildAdd(l->b, bit, i32c(l, at % WORD), ""), "");
    v = LLVMBuildAnd(l->b, v, i32c(l, 1), "");
    return LLVMBuildICmp(l->b, LLVMIntEQ, v, i32c(l, 0), "");
}

void on_scrub_holes(On *on, const OnBlock *b, const OnState *s) {
    Lower *l = on->l;
    if (!on->t.used_words) return;
    tell(on, b, s);
    meet(on);
    for (int p = 0; p < on->o.nproducts; p++) {
        if (!on->o.product[p].holes) continue;
        Val word[ONLINE_USED], out = LLVMConstInt(l->i1, 0, 0);
        for (int w = 0; w < on->t.used_words; w++) {
            int bits = on->t.j / 4 - w * WORD;
            Val full = LLVMConstInt(l->i32, bits < WORD ? (1u << bits) - 1 : 0xffffffffu, 0);
            word[w] = heard(on, s, p, w);
            out = LLVMBuildOr(l->b, out, LLVMBuildICmp(l->b, LLVMIntNE, word[w], full, ""), "");
        }
        LLVMBasicBlockRef cut = block_new(l, "holes"), after = block_new(l, "filled");
        LLVMBuildCondBr(l->b, ptx_vote_any(l, out), cut, after);
        block_enter(l, cut);
        zero_lines(on, s, p, not_used, word);
        LLVMBuildBr(l->b, after);
        block_enter(l, after);
    }
}

void on_scrub_skipped(On *on, const OnState *s, Val i) {
    OnBlock nothing = {0};
    for (int p = 0; p < ONLINE_PRODUCTS; p++)
        for (int w = 0; w < ONLINE_USED; w++) nothing.used[p][w] = i32c(on->l, 0);
    on_scrub_holes(on, &nothing, s);
    on_scrub_end(on, s, i, true);
    on_scrub_end(on, s, i, false);
}
