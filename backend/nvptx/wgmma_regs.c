/* wgmma_regs.c - the factor of rows is made by the groups that multiply it, in the registers that
 * wgmma reads (ir/mma_regs.c). TMA brings the loads that it is a function of, as they lie in
 * memory; what is the same for some k (a group's scale) is loaded from global memory once for
 * those, a stage ahead of its use.
 *
 * Of every 16 k, thread 4 g + q of a warp has k = 2 q, 2 q + 1, 8 + 2 q, 9 + 2 q of the warp's rows
 * g and g + 8, a word for each two. Of 4-bit loads these are bytes q of two words, of 8-bit loads
 * half words, of 16-bit loads whole words; lines are swizzled, so that the rows of a warp do not
 * meet in a bank. From there on it is pointwise code at those k, by pairs where that can be.
 *
 * A stage is two batches of wgmmas. While one runs, the words of the next are made in another set
 * of registers; then it is issued, and the first is waited for, after which its registers may be
 * written again. What of the stage before is still read ends with that wait too, so it is released
 * after the first batch: by each warp, since all threads have read it, and behind a fence, since
 * TMA writes there next.
 *
 * Dealt stages: n groups have the same rows, and each every n-th stage of a tile. There are n, 2 n,
 * .. buffers, and group g has the buffers g, g + n, .. of all tiles: so it has seen each phase of
 * those that it waits for. Which of a tile's first stages is its own, its turn, differs from tile
 * to tile. Behind the loop all but the first turn leave their sums in shared memory, and that one
 * adds them up in the order of turns.
 */
#include "backend/nvptx/wgmma_made_int.h"

enum { BATCHES = 2, K = 16, DEAL_BAR = 5 };

typedef struct Regs {
    const MmaFactor *f;
    int steady;  /* elements of k for which what is not brought is the same */
    int unit;    /* that are made together */
    int of_line; /* held values of a row and `steady` of k */
    int held;    /* of a stage */
    bool paired; /* made by pairs */
    Pairs pairs;
    Val row, k;        /* i64: the first of the thread's rows; i32: the stage's first k */
    Val quad;          /* i32: thread % 4 */
    Val pick[2];       /* i32: of 4-bit loads; of 8-bit ones */
    Val line[MMA_RAW]; /* i32: from a stage's start to the thread's line of each, swizzled */
} Regs;

/* ---- what is made of what ---- */

static bool is_run(const Wg *w, const TInst *i) {
    return mma_is_run(w->l->t, i, w->m.k);
}

static bool is_held(const Wg *w, const TInst *i) {
    return i->kind == T_LOAD && i->nix && !is_run(w, i);
}

static void find_pairs(Wg *w, Regs *x) {
    const MmaFactor *f = x->f;
    Arena *a = w->l->arena;
    bool *run = ARENA_ARRAY(a, bool, f->nparts), *steady = ARENA_ARRAY(a, bool, f->nparts);
    for (int i = 0; i < f->nparts; i++) {
        run[i] = is_run(w, f->part[i]);
        steady[i] = f->part[i]->kind == T_LOAD && !run[i];
    }
    x->paired = pairs_find(w->l, &x->pairs, f->type, f->value, f->part, f->nparts, run, steady);
}

static void find_steady(Wg *w, Regs *x) {
    x->steady = mma_steady(&w->m, w->t.k, &x->of_line);
    x->unit = x->steady < w->t.k / BATCHES ? x->steady : w->t.k / BATCHES;
    x->held = 2 * x->of_line * (w->t.k / x->steady);
}

/* ---- where a thread reads ---- */

static void find_lines(Wg *w, Regs *x) {
    Lower *l = w->l;
    for (int n = 0; n < w->t.nraw; n++) {
        const MmaRaw *r = &w->t.raw[n];
        int line = r->s.swizzle;
        Val at = LLVMBuildMul(l->b, w->row, i32c(l, line), "");
        Val chunk =
            LLVMBuildAnd(l->b, LLVMBuildLShr(l->b, at, i32c(l, 7), ""), i32c(l, line / 16 - 1), "");
        at = LLVMBuildAdd(l->b, at, LLVMBuildShl(l->b, chunk, i32c(l, 4), ""), "");
        x->line[n] = LLVMBuildAdd(l->b, at, i32c(l, r->at), "");
    }
}

/* What prmt picks: byte q of a word, and zeros; bytes 2 q and 2 q + 1 of two words. */
static void find_picks(Wg *w, Regs *x) {
    Lower *l = w->l;
    x->quad = LLVMBuildAnd(l->b, w->tid, i32c(l, 3), "");
    Val twice = LLVMBuildShl(l->b, x->quad, i32c(l, 1), "");
    x->pick[0] = LLVMBuildAdd(l->b, x->quad, i32c(l, 0x4440), "");
    x->pick[1] =
        LLVMBuildAdd(l->b, LLVMBuildMul(l->b, twice, i32c(l, 0x1111), ""), i32c(l, 0x1100), "");
}

static Regs regs_of(Wg *w, Val row0) {
    Lower *l = w->l;
    Regs x = {.f = &w->m.a};
    find_pairs(w, &x);
    find_steady(w, &x);
    find_lines(w, &x);
    find_picks(w, &x);
    x.row = LLVMBuildAdd(l->b, row0, LLVMBuildZExt(l->b, w->row, l->i64, ""), "");
    return x;
}

/* ---- loads ---- */

static void open_row(Wg *w, const Regs *x, int h) {
    Val row = LLVMBuildAdd(w->l->b, x->row, LLVMConstInt(w->l->i64, (unsigned)(8 * h), 0), "");
    wg_open_run(w, w->m.rows, row, 1, true);
}

static Val k_at(Wg *w, const Regs *x, int at) {
    return LLVMBuildZExt(w->l->b, LLVMBuildAdd(w->l->b, x->k, i32c(w->l, at), ""), w->l->i64, "");
}

/* Of the stage at x->k; its own k may be beyond the end. */
static void begin_stage(Wg *w, const Regs *x, Val *held) {
    Lower *l = w->l;
    l->kept = true; /* ptxas would have them right in front of the next stage */
    for (int s = 0; s < w->t.k; s += x->steady)
        for (int h = 0; h < 2; h++) {
            open_row(w, x, h);
            wg_open_run(w, w->m.k, k_at(w, x, s), 1, true);
            for (int i = 0; i < x->f->nparts; i++) {
                if (!is_held(w, x->f->part[i])) continue;
                Frag one = emit_load(l, x->f->part[i]);
                *held++ = frag_only(&one, "a load for a stage's k");
            }
        }
    l->kept = false;
}

/* Words of pairs of a load, of `unit` k from `at` of the stage on, as they were brought: two of
 * each 16, for row h. */
typedef struct Raw {
    const MmaRaw *r;
    const TInst *i;
    Val line; /* of row 0 */
    int bits;
} Raw;

static Raw raw_of(Wg *w, const Regs *x, const TInst *i, Val stage) {
    int n = 0;
    while (w->t.raw[n].f.load != i) n++;
    return (Raw){&w->t.raw[n], i, LLVMBuildAdd(w->l->b, stage, x->line[n], ""),
                 dtype_bits(w->l->t->tensors.v[i->tensor].type)};
}

static Val chunk_at(Wg *w, const Raw *r, int chunk) {
    return LLVMBuildXor(w->l->b, r->line, i32c(w->l, 16 * chunk), "");
}

static Val permuted(Wg *w, Val a, Val b, Val at) {
    Val arg[3] = {a, b, at};
    return ptx_intrinsic(w->l, w->l->b, "llvm.nvvm.prmt", NULL, 0, arg, 3);
}

/* The pairs at k = 0 and at 8 of the step-th 16, each with its values apart (pairs_int.h). Half
 * bytes move by a product: shifts are for the pipe that has most to do. */
static void read_step(Wg *w, const Regs *x, const Raw *r, int h, int step, Val pair[2]) {
    Lower *l = w->l;
    int by = 8 * h * r->r->s.swizzle;
    Val word[4];
    for (int half = 0; half < 2 && r->bits == 16; half++) {
        Val at = LLVMBuildAdd(l->b, chunk_at(w, r, 2 * step + half),
                              LLVMBuildShl(l->b, x->quad, i32c(l, 2), ""), "");
        pair[half] = ptx_load_shared(l, 4, LLVMBuildAdd(l->b, at, i32c(l, by), ""));
    }
    if (r->bits == 16) return;
    ptx_load_shared4(l, chunk_at(w, r, r->bits == 8 ? step : step / 2), by, word);
    for (int half = 0; half < 2; half++) {
        const Val *from = r->bits == 8 ? word + 2 * half : word + step % 2 * 2 + half;
        if (r->bits == 8) {
            pair[half] = permuted(w, from[0], from[1], x->pick[1]);
        } else {
            Val byte = permuted(w, from[0], i32c(l, 0), x->pick[0]);
            pair[half] = LLVMBuildMul(l->b, byte, i32c(l, 0x1001), "");
        }
    }
}

/* Values of a pair, one at a time. */
static void split(Wg *w, const Raw *r, Val both, Val *v) {
    Lower *l = w->l;
    DType type = l->t->tensors.v[r->i->tensor].type;
    for (int e = 0; e < 2; e++) {
        Val one = e ? LLVMBuildLShr(l->b, both, i32c(l, 16), "") : both;
        if (r->bits == 4 && type == DT_u4) {
            v[e] = LLVMBuildAnd(l->b, one, i32c(l, 15), "");
        } else if (r->bits == 4) {
            one = LLVMBuildShl(l->b, one, i32c(l, 28), "");
            v[e] = LLVMBuildAShr(l->b, one, i32c(l, 28), "");
        } else {
            one = LLVMBuildTrunc(l->b, one, r->bits == 8 ? l->i8 : l->i16, "");
            v[e] = type_from_bits(l, type, one);
        }
    }
}

static void take_run(Wg *w, Regs *x, const TInst *i, Val stage, int h, int at) {
    Lower *l = w->l;
    Raw r = raw_of(w, x, i, stage);
    int words = x->unit / 8;
    Val *pair = ARENA_ARRAY(l->arena, Val, words);
    Frag f = frag_new(l, axis_bit(w->m.k));
    for (int s = 0; s < words / 2; s++) {
        Val two[2];
        read_step(w, x, &r, h, at / K + s, two);
        for (int half = 0; half < 2; half++) {
            int n = 2 * s + half;
            if (x->paired)
                pair[n] = pairs_pick(l, &x->pairs, i, two[half]);
            else
                split(w, &r, two[half], f.v + 2 * n);
        }
    }
    if (x->paired)
        pairs_picked(l, &x->pairs, i, pair, words);
    else
        l->value[i->id] = f;
}

/* ---- making ---- */

static void make_part(Wg *w, Regs *x, const TInst *i, Val stage, const Val **held, int h, int at) {
    Lower *l = w->l;
    if (is_run(w, i)) {
        take_run(w, x, i, stage, h, at);
        if (x->paired) return;
    } else if (is_held(w, i)) {
        l->value[i->id] = frag_one(l, *(*held)++);
    } else if (x->paired && pairs_has(&x->pairs, i)) {
        pairs_op(l, &x->pairs, i);
        return;
    } else {
        emit_inst(l, i);
    }
    wg_say_narrow(w, &x->pairs, i);
}

/* `unit` k of row h, from `at` of the stage on: a word for each two of the thread's. */
static const Val *make_unit(Wg *w, Regs *x, Val stage, const Val *held, int h, int at) {
    enum { MOST = 256 / 4 };
    Lower *l = w->l;
    static int64_t step[MOST];
    for (int n = 0; n < MOST; n++) step[n] = n / 4 * K + n % 4 / 2 * 8 + n % 2;
    Val first = LLVMBuildAdd(l->b, x->k, LLVMBuildShl(l->b, x->quad, i32c(l, 1), ""), "");
    first = LLVMBuildZExt(l->b, LLVMBuildAdd(l->b, first, i32c(l, at), ""), l->i64, "");
    open_row(w, x, h);
    wg_open_steps(w, w->m.k, first, x->unit / 4, step);
    held += (at / x->steady * 2 + h) * x->of_line;
    for (int i = 0; i < x->f->nparts; i++) make_part(w, x, x->f->part[i], stage, &held, h, at);
    return x->paired ? pairs_words(l, &x->pairs) : wg_made_words(w, x->f, x->unit / 8);
}

/* Of a step: rows g and g + 8 at k = 0, then at 8. */
static void make_batch(Wg *w, Regs *x, Val stage, const Val *held, int batch, Val *word) {
    int each = w->t.k / BATCHES;
    for (int u = 0; u < each; u += x->unit)
        for (int h = 0; h < 2; h++) {
            const Val *made = make_unit(w, x, stage, held, h, batch * each + u);
            for (int n = 0; n < x->unit / 8; n++)
                word[(u / K + n / 2) * 4 + n % 2 * 2 + h] = made[n];
        }
}

/* ---- the loop ---- */

static WgmmaPieces pieces_of(const Wg *w) {
    WgmmaOperand b = wgmma_operand(&w->t.b);
    bool lines = w->t.b.deep > 1;
    return (WgmmaPieces){.type = w->m.a.type,
                         .n = w->t.width,
                         .steps = w->t.k / BATCHES / K,
                         .per_piece = lines ? 4 : w->t.k / K,
                         .b_step = b.step,
                         .b_piece = lines ? b.deep : 0,
                         .high = b.high,
                         .k_major = !b.mn};
}

/* From a stage's first step to the batch's, in units of a descriptor. */
static int batch_at(const WgmmaPieces *op, int batch) {
    int step = batch * op->steps;
    return step / op->per_piece * op->b_piece + step % op->per_piece * op->b_step;
}

static void multiply_stage(Wg *w, Regs *x, Ring at, Val before, Val had, const Val *held,
                           Acc *acc) {
    Lower *l = w->l;
    WgmmaPieces op = pieces_of(w);
    Val word[256 / BATCHES / K * 4];
    Val stage = wg_at_stage(w, w->smem, at.stage, w->t.stage_bytes);
    Val b = wg_at_stage(w, w->desc_b, at.stage, w->t.stage_bytes / 16);
    for (int n = 0; n < BATCHES; n++) {
        make_batch(w, x, stage, held, n, word);
        Val add = n ? NULL : LLVMBuildZExt(l->b, had, l->i32, "");
        ptx_wgmma_made(l, &op, word, LLVMBuildAdd(l->b, b, i32c(l, batch_at(&op, n)), ""), add,
                       acc->v);
        ptx_wgmma_wait_group(l, 1);
        if (!n) wg_release(w, before, had);
    }
}

/* Of the tile that begins at r: the group's number less that of its first buffer, modulo groups. */
static Val turn_of(Wg *w, Ring r) {
    Lower *l = w->l;
    Val groups = i32c(l, w->t.groups);
    Val by = LLVMBuildURem(l->b, r.stage, groups, "");
    Val turn = LLVMBuildSub(l->b, LLVMBuildAdd(l->b, w->group, groups, ""), by, "");
    return LLVMBuildURem(l->b, turn, groups, "");
}

Ring wg_multiply_regs(Wg *w, const Work *k, Val row0, Ring r, Acc *acc, Val *last) {
    Lower *l = w->l;
    LLVMBasicBlockRef after = wg_uniform_begin(w);
    Regs x = regs_of(w, row0);
    int by = w->t.deal ? w->t.groups : 1;
    w->turn = w->t.deal ? turn_of(w, r) : i32c(l, 0);
    Val kt0 = w->turn;
    Ring start = w->t.deal ? ring_on(w, r, kt0) : r;
    Val *held = ARENA_ARRAY(l->arena, Val, x.held + 1),
        *phi = ARENA_ARRAY(l->arena, Val, x.held + 1);
    Val first_k = LLVMBuildMul(l->b, k->first, i32c(l, w->t.k), "");
    x.k = wg_at_stage(w, first_k, kt0, w->t.k);
    begin_stage(w, &x, held);
    LLVMBasicBlockRef before = LLVMGetInsertBlock(l->b);
    LLVMBasicBlockRef body = block_new(l, "mma"), exit = block_new(l, "summed");
    LLVMBuildBr(l->b, body);
    block_enter(l, body);
    Val kt = wg_phi(l, l->i32, kt0, before);
    Ring at = {wg_phi(l, l->i32, start.stage, before), wg_phi(l, l->i32, start.phase, before)};
    Val old = wg_phi(l, l->i32, start.stage, before);
    for (int i = 0; i < x.held; i++) phi[i] = wg_phi(l, LLVMTypeOf(held[i]), held[i], before);
    Val *sum = ARENA_ARRAY(l->arena, Val, acc->n);
    for (int i = 0; i < acc->n; i++)
        acc->v[i] = sum[i] = wg_phi(l, l->f32, LLVMGetUndef(l->f32), before);
    Val next = LLVMBuildAdd(l->b, kt, i32c(l, by), "");
    x.k = wg_at_stage(w, first_k, next, w->t.k);
    ptx_mbar_wait(l, wg_full_bar(w, at.stage), at.phase);
    ptx_fence_async(l); /* for the release; what it waits for besides is needed now */
    ptx_sync_warp(l);
    begin_stage(w, &x, held);
    x.k = wg_at_stage(w, first_k, kt, w->t.k);
    Val had = LLVMBuildICmp(l->b, LLVMIntNE, kt, kt0, "");
    multiply_stage(w, &x, at, old, had, phi, acc);
    Ring end = by > 1 ? ring_on(w, at, i32c(l, by)) : ring_next(w, at);
    wg_phi_next(l, kt, next);
    wg_phi_next(l, at.stage, end.stage);
    wg_phi_next(l, at.phase, end.phase);
    wg_phi_next(l, old, at.stage);
    for (int i = 0; i < x.held; i++) wg_phi_next(l, phi[i], held[i]);
    for (int i = 0; i < acc->n; i++) wg_phi_next(l, sum[i], acc->v[i]);
    Val more = LLVMBuildICmp(l->b, LLVMIntULT, next, k->len, "");
    LLVMBuildCondBr(l->b, more, body, exit);
    block_enter(l, exit);
    *last = at.stage;
    l->axis[w->m.k].open = false;
    ptx_fence_async(l); /* with the last release, which follows */
    ptx_sync_warp(l);
    wg_uniform_end(w, after);
    return w->t.deal ? ring_skip(w, r) : end;
}

/* ---- dealt stages ---- */

/* Of turn `of`, not 0: where the thread leaves four sums, and others behind them. */
static Val left_at(Wg *w, Val of) {
    Lower *l = w->l;
    int bytes = 64 * w->t.n * 4;
    Val t = LLVMBuildAnd(l->b, w->tid, i32c(l, 127), "");
    Val at = wg_at_stage(w, w->smem, LLVMBuildSub(l->b, of, i32c(l, 1), ""), bytes);
    at = wg_at_stage(w, at, t, 16);
    return LLVMBuildAdd(l->b, at, i32c(l, w->t.deal_at), "");
}

enum { FOUR = 128 * 16 }; /* bytes from four sums to the next four */

static void leave(Wg *w, const Acc *acc) {
    Lower *l = w->l;
    Val to = left_at(w, w->turn);
    for (int i = 0; i < acc->n; i += 4) {
        Val word[4];
        for (int e = 0; e < 4; e++) word[e] = LLVMBuildBitCast(l->b, acc->v[i + e], l->i32, "");
        ptx_store_shared4(l, to, i / 4 * FOUR, word);
    }
}

static void add_left(Wg *w, int of, Val *v, int n) {
    Lower *l = w->l;
    Val from = left_at(w, i32c(l, of));
    for (int i = 0; i < n; i += 4) {
        Val word[4];
        ptx_load_shared4(l, from, i / 4 * FOUR, word);
        for (int e = 0; e < 4; e++)
            v[i + e] =
                LLVMBuildFAdd(l->b, v[i + e], LLVMBuildBitCast(l->b, word[e], l->f32, ""), "");
    }
}

void wg_add_dealt(Wg *w, Acc *acc) {
    Lower *l = w->l;
    int threads = 128 * w->t.groups;
    LLVMBasicBlockRef other = block_new(l, "leave.sums"), met = block_new(l, "dealt");
    LLVMBasicBlockRef add = block_new(l, "add.sums"), after = block_new(l, "all.summed");
    Val first = LLVMBuildICmp(l->b, LLVMIntEQ, w->turn, i32c(l, 0), "");
    LLVMBuildCondBr(l->b, first, met, other);
    block_enter(l, other);
    leave(w, acc);
    LLVMBuildBr(l->b, met);
    block_enter(l, met);
    ptx_bar_sync(l, i32c(l, DEAL_BAR), threads);
    LLVMBuildCondBr(l->b, first, add, after);
    LLVMBasicBlockRef from = LLVMGetInsertBlock(l->b);
    block_enter(l, add);
    Val *sum = ARENA_ARRAY(l->arena, Val, acc->n);
    for (int i = 0; i < acc->n; i++) sum[i] = acc->v[i];
    for (int g = 1; g < w->t.groups; g++) add_left(w, g, sum, acc->n);
    LLVMBuildBr(l->b, after);
    LLVMBasicBlockRef added = LLVMGetInsertBlock(l->b);
    block_enter(l, after);
    for (int i = 0; i < acc->n; i++) {
        Val v = wg_phi(l, l->f32, acc->v[i], from);
        LLVMAddIncoming(v, &sum[i], &added, 1);
        acc->v[i] = v;
    }
    ptx_bar_sync(l, i32c(l, DEAL_BAR), threads); /* it has been read */
}

/* ---- guards ---- */

void wg_guard_regs(Wg *w, Kernel *k) {
    Lower *l = w->l;
    IxPool *p = l->t->ix;
    const Ix *deep = l->t->axes.v[w->m.k].extent;
    int least = w->t.k * (w->t.deal ? w->t.groups : 1);
    guard_add(l, k, (KGuard){.kind = KG_NONNEG, .ix = ix_sub(p, deep, ix_const(p, least))});
    guard_add(l, k,
              (KGuard){.kind = KG_NONNEG, .ix = ix_neg(p, ix_mod(p, deep, ix_const(p, w->t.k)))});
    guard_add(l, k,
              (KGuard){.kind = KG_NONNEG, .ix = ix_sub(p, ix_const(p, INT32_MAX - 1024), deep)});
    for (int n = 0; n < w->t.nraw; n++) wg_guard_map_in(w, k, &w->m, w->t.raw[n].f.load);
}
