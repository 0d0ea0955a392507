/* wgmma.c - a tile program whose loop sums products of two matrices, on TMA and wgmma (sm_90a).
 * Several sums of one loop have a factor in common; their others lie one behind the other in shared
 * memory, so that to wgmma they are one, of as many columns (rows) as all have.
 *
 * Roles. Warpgroup 0 loads: one thread of it copies boxes of both factors into a ring of stages in
 * shared memory, 64 elements of k each, and runs across tiles without draining, as far ahead as
 * the ring allows. The other warpgroups multiply what arrives, each its rows of the tile, and then
 * do all that follows the loop on the accumulator where it lies, in registers (wgmma_tile.c).
 *
 * The ring. Stage s has two barriers:
 *     full[s]    1 arrival (the loader's, which also announces the bytes of all boxes) and those
 *                bytes: the stage can be read. Where TMA does not bring all, all four warps load,
 *                and each arrives too (wgmma_load_plain.c)
 *     empty[s]   one arrival of each group that multiplies it: the stage can be written
 * Both sides count stages alike, s = 0, 1, .., stages - 1, 0, .. through all tiles of the CTA, with
 * a phase bit that flips when s wraps to 0; it starts at 0. A consumer waits for full[s] with
 * parity `phase`: the phase-th completion. The loader waits for empty[s] with parity `phase ^ 1`:
 * in the first round that passes at once (a fresh barrier counts its preceding phase as complete),
 * from then on it is the completion of the round before.
 * A group arrives on empty[s] when its wgmmas that read s are done: after issuing the next stage's
 * it waits until at most one batch is pending, which retires the previous one (wait_group 1); at
 * the end of a tile wait_group 0 retires the last. So each stage is released once by each group.
 * One thread's arrival stands for the group's: nothing but wgmma reads the stage.
 *
 * Ping-pong. Each of two groups has whole tiles of its own, every second one of the CTA's, so that
 * one does what follows the loop while the other multiplies. Both count stages through all tiles of
 * the CTA: over the other's tiles they skip. Named barriers TURN + g give turns at issuing: group g
 * waits on its own before its main loop (its 128 threads and 128 arrivals of the other) and
 * arrives on the other's after its last issue; group 1 arrives once at the start, so group 0 is
 * first. An arrival comes only after the sync that the one before it let pass: none is early.
 *
 * Clusters. Two CTAs whose tiles are neighbours read the same columns (or rows): each loads one
 * half of that factor into the shared memory of both, at the same place, and counts on the same
 * barrier of both. So a stage can be written when the groups of both CTAs have released it, and
 * `empty` has an arrival of each; a CTA's loader stays until the last of them.
 *
 * A tile that hangs over an edge is loaded whole: outside a tensor TMA writes 0 and counts the
 * bytes all the same. K >= 1 is guarded, so every tile has a first k tile, whose first step
 * overwrites the accumulator instead of adding to it.
 */
#include "backend/nvptx/wgmma_int.h"

#include <string.h>

enum { TURN = 1, PAIR = 256 }; /* named barriers of the two groups; threads of both */

void wg_turn_wait(Wg *w) {
    Lower *l = w->l;
    ptx_bar_sync(l, LLVMBuildAdd(l->b, w->group, i32c(l, TURN), ""), PAIR);
}

void wg_turn_pass(Wg *w) {
    Lower *l = w->l;
    ptx_bar_arrive(l, LLVMBuildSub(l->b, i32c(l, TURN + 1), w->group, ""), PAIR);
}

/* ---- those who multiply --------------------------------------------------------------------- */

/* What a stage gives a group to do. */
Wgmma wg_batch(const Wg *w) {
    return (Wgmma){.a_type = w->m.a.type,
                   .b_type = w->m.b.type,
                   .blocks = w->t.blocks,
                   .of_part = w->t.group_rows / 64,
                   .n = w->t.width,
                   .steps = w->t.k * w->m.size / 32,
                   .a = wgmma_operand(&w->t.a),
                   .b = wgmma_operand(&w->t.b)};
}

/* Sums differ in the columns of the accumulator, or in its rows. */
Acc wg_acc(const Wg *w) {
    int line = w->t.width / 2, n = w->t.blocks * line;
    int cols = w->t.group_cols, blocks = w->t.group_rows / w->t.block_rows;
    int next = w->m.of_rows ? blocks * line : cols / 2;
    return (Acc){n, ARENA_ARRAY(w->l->arena, Val, n), cols, line, next};
}

/* Sums the tile's products into `acc`; the last batch is still pending. *last: its stage. */
static Ring multiply(Wg *w, const Work *k, Ring r, Acc *acc, Val *last) {
    Lower *l = w->l;
    int units = w->t.stage_bytes / 16;
    Wgmma op = wg_batch(w);
    LLVMBasicBlockRef before = LLVMGetInsertBlock(l->b);
    LLVMBasicBlockRef body = block_new(l, "mma"), exit = block_new(l, "summed");
    LLVMBuildBr(l->b, body);
    block_enter(l, body);
    Val kt = wg_phi(l, l->i32, i32c(l, 0), before);
    Ring at = {wg_phi(l, l->i32, r.stage, before), wg_phi(l, l->i32, r.phase, before)};
    Val *sum = ARENA_ARRAY(l->arena, Val, acc->n);
    for (int i = 0; i < acc->n; i++)
        acc->v[i] = sum[i] = wg_phi(l, l->f32, LLVMGetUndef(l->f32), before);
    ptx_mbar_wait(l, wg_full_bar(w, at.stage), at.phase);
    ptx_wgmma(l, &op, wg_at_stage(w, w->desc_a, at.stage, units),
              wg_at_stage(w, w->desc_b, at.stage, units), kt, acc->v);
    ptx_wgmma_wait_group(l, 1);
    Val had = LLVMBuildICmp(l->b, LLVMIntNE, kt, i32c(l, 0), "");
    wg_release(w, ring_before(w, at.stage), had);
    Val next = LLVMBuildAdd(l->b, kt, i32c(l, 1), "");
    Ring end = ring_next(w, at);
    wg_phi_next(l, kt, next);
    wg_phi_next(l, at.stage, end.stage);
    wg_phi_next(l, at.phase, end.phase);
    for (int i = 0; i < acc->n; i++) wg_phi_next(l, sum[i], acc->v[i]);
    Val more = LLVMBuildICmp(l->b, LLVMIntULT, next, k->len, "");
    LLVMBuildCondBr(l->b, more, body, exit);
    block_enter(l, exit);
    *last = at.stage;
    return end;
}

typedef struct Rest {
    const Acc *acc;
    Val row, col0;
} Rest;

static void emit_product(Wg *w, void *ctx) {
    const Rest *x = ctx;
    wg_emit_rows(w);
    wg_emit_out(w, x->acc, x->row, x->col0);
}

void wg_emit_rest(Wg *w, const Work *k, const Acc *acc, Val row, Val col0) {
    Lower *l = w->l;
    if (w->of) {
        wg_each_product(w, emit_product, &(Rest){acc, row, col0});
        return;
    }
    if (!k->cut) {
        wg_emit_out(w, acc, row, col0);
        return;
    }
    LLVMBasicBlockRef part = block_new(l, "join"), whole = block_new(l, "whole");
    LLVMBasicBlockRef after = block_new(l, "stored");
    LLVMBuildCondBr(l->b, k->cut, part, whole);
    block_enter(l, part);
    Map narrow = l->narrow, wide = l->wide; /* what is known in one branch only */
    l->narrow = l->wide = (Map){.arena = l->arena};
    wg_join(w, k, acc, col0);
    LLVMBuildBr(l->b, after);
    block_enter(l, whole);
    l->narrow = l->wide = (Map){.arena = l->arena};
    wg_emit_out(w, acc, row, col0);
    LLVMBuildBr(l->b, after);
    block_enter(l, after);
    l->narrow = narrow, l->wide = wide;
}

/* Accumulators that leave no registers for finding the tile meanwhile. */
enum { FULL_HOUSE = 192 };

/* By the group with the first turn. */
static void by_first(Wg *w, const Work *k, const Acc *acc, Val row, Val col0) {
    Lower *l = w->l;
    LLVMBasicBlockRef rest = block_new(l, "first.group"), after = block_new(l, "tile.done");
    Val first = LLVMBuildICmp(l->b, LLVMIntEQ, w->turn, i32c(l, 0), "");
    LLVMBuildCondBr(l->b, first, rest, after);
    block_enter(l, rest);
    Map narrow = l->narrow, wide = l->wide; /* what is known in one branch only */
    l->narrow = l->wide = (Map){.arena = l->arena};
    wg_emit_rest(w, k, acc, row, col0);
    LLVMBuildBr(l->b, after);
    block_enter(l, after);
    l->narrow = narrow, l->wide = wide;
}

/* A group has all rows of its tile. */
static bool alone(const Wg *w) {
    return w->l->s->pingpong || w->t.deal;
}

static Ring mma_tile(Wg *w, Val item, Ring r) {
    Lower *l = w->l;
    Work work = wg_work(w, item);
    Val tile = work.tile;
    Acc acc = wg_acc(w);
    Val last, row0 = NULL, col0 = NULL;
    bool full =
        acc.n >= FULL_HOUSE || w->t.regs || w->m.nest.strips.loop; /* these ask for the tile */
    if (full) wg_decode(w, tile, &row0, &col0);
    if (l->s->pingpong) wg_turn_wait(w);
    Ring end = w->t.promote ? wg_promote(w, &work, r, row0, col0, &acc, &last)
               : w->t.regs  ? wg_multiply_regs(w, &work, row0, r, &acc, &last)
                            : multiply(w, &work, r, &acc, &last);
    if (l->s->pingpong) {
        wg_turn_pass(w);
        end = ring_skip(w, end);
    }
    LLVMBasicBlockRef after = wg_uniform_begin(w);
    if (!full) wg_decode(w, tile, &row0, &col0); /* while the last products are made */
    wg_open_rows(w, row0);
    if (!w->of) wg_emit_rows(w);
    if (w->t.promote) {
        wg_promote_rest(w, &acc, last);
    } else {
        ptx_wgmma_wait(l, 0, acc.n, acc.v);
        wg_release(w, last, NULL);
    }
    if (w->t.deal) wg_add_dealt(w, &acc);
    Val row = row0;
    if (!alone(w)) {
        Val of_group = LLVMBuildMul(l->b, w->group, i32c(l, w->t.group_rows), "");
        row = LLVMBuildAdd(l->b, row, LLVMBuildZExt(l->b, of_group, l->i64, ""), "");
    }
    if (w->t.deal)
        by_first(w, &work, &acc, row, col0);
    else
        wg_emit_rest(w, &work, &acc, row, col0);
    wg_uniform_end(w, after);
    return end;
}

/* Low words of the descriptors of stage 0; the groups that share a tile each have their rows. */
static void wg_descriptors(Wg *w) {
    Lower *l = w->l;
    WgmmaOperand a = wgmma_operand(&w->t.a), b = wgmma_operand(&w->t.b);
    Val at = LLVMBuildAnd(l->b, w->smem, i32c(l, 0x3ffff), ""); /* above: which CTA of a cluster */
    at = LLVMBuildLShr(l->b, at, i32c(l, 4), "");
    w->desc_b = LLVMBuildAdd(l->b, at, i32c(l, w->t.a.bytes / 16 + (int)b.low), "");
    w->desc_a = LLVMBuildAdd(l->b, at, i32c(l, (int)a.low), "");
    if (!l->s->pingpong)
        w->desc_a = wg_at_stage(w, w->desc_a, w->group, w->t.group_rows / 64 * a.block);
}

/* Group 0 has the first turn. */
static void first_turn(Wg *w) {
    Lower *l = w->l;
    LLVMBasicBlockRef second = block_new(l, "second"), after = block_new(l, "turns");
    Val is_second = LLVMBuildICmp(l->b, LLVMIntNE, w->group, i32c(l, 0), "");
    LLVMBuildCondBr(l->b, is_second, second, after);
    block_enter(l, second);
    ptx_bar_arrive(l, i32c(l, TURN), PAIR);
    LLVMBuildBr(l->b, after);
    block_enter(l, after);
}

/* Group g begins with the CTA's g-th tile and takes every second one. */
static Ring every_second(Wg *w) {
    Lower *l = w->l;
    Val is_second = LLVMBuildICmp(l->b, LLVMIntNE, w->group, i32c(l, 0), "");
    Val next = LLVMBuildAdd(l->b, w->first, w->stride, "");
    w->first = LLVMBuildSelect(l->b, is_second, next, w->first, "");
    w->stride = LLVMBuildShl(l->b, w->stride, i32c(l, 1), "");
    Ring r = ring_start(w), skipped = ring_skip(w, r);
    return (Ring){LLVMBuildSelect(l->b, is_second, skipped.stage, r.stage, ""),
                  LLVMBuildSelect(l->b, is_second, skipped.phase, r.phase, "")};
}

static void emit_consumer(Wg *w) {
    Lower *l = w->l;
    LLVMBuilderRef b = l->b;
    if (w->t.load_regs) ptx_setmaxnreg(l, w->t.mma_regs, true);
    w->group = LLVMBuildSub(b, w->role, i32c(l, w->t.loaders), "");
    Val t = LLVMBuildAnd(b, w->tid, i32c(l, 127), "");
    w->leader = LLVMBuildICmp(b, LLVMIntEQ, t, i32c(l, 0), "");
    w->lane0 = LLVMBuildAnd(b, w->tid, i32c(l, 31), "");
    w->lane0 = LLVMBuildICmp(b, LLVMIntEQ, w->lane0, i32c(l, 0), "");
    if (w->t.carried) wg_slab_consumer(w);
    wg_descriptors(w);
    w->releases = LLVMBuildICmp(b, LLVMIntULT, t, i32c(l, wg_pair(w)), "");
    if (w->t.regs) w->releases = w->lane0; /* a warp's threads have read it, too */
    w->empties = wg_empty_bar(w, i32c(l, 0));
    if (wg_pair(w) > 1)
        w->empties = ptx_cluster_map(l, w->empties, LLVMBuildAnd(b, t, i32c(l, 1), ""));
    Val warp = LLVMBuildLShr(b, t, i32c(l, 5), "");
    Val g = LLVMBuildAnd(b, LLVMBuildLShr(b, t, i32c(l, 2), ""), i32c(l, 7), "");
    Val row = LLVMBuildAdd(b, LLVMBuildShl(b, warp, i32c(l, 4), ""), g, "");
    w->row = alone(w) ? row : wg_at_stage(w, row, w->group, w->t.group_rows);
    w->col = LLVMBuildShl(b, LLVMBuildAnd(b, t, i32c(l, 3), ""), i32c(l, 1), "");
    if (l->s->pingpong || l->s->turns) first_turn(w);
    wg_tile_loop(w, l->s->pingpong ? every_second(w) : ring_start(w), mma_tile);
    if (w->t.nstaged && !w->t.carried)
        ptx_bulk_wait_read(l, 0, w->leader); /* then the CTA's memory may go */
    LLVMBuildRetVoid(b);
}

/* ---- the kernel ----------------------------------------------------------------------------- */

Val wg_shared_base(Wg *w) {
    Lower *l = w->l;
    Val g = LLVMAddGlobalInAddressSpace(l->mod, LLVMArrayType2(l->i8, 0), "stages", 3);
    LLVMSetLinkage(g, LLVMExternalLinkage);
    LLVMSetAlignment(g, 1024); /* nothing else is in shared memory: it begins at 0 */
    return LLVMBuildPtrToInt(l->b, g, l->i32, "");
}

static void barriers_init(Wg *w) {
    Lower *l = w->l;
    LLVMBasicBlockRef init = block_new(l, "init"), after = block_new(l, "roles");
    Val first = LLVMBuildICmp(l->b, LLVMIntEQ, w->tid, i32c(l, 0), "");
    LLVMBuildCondBr(l->b, first, init, after);
    block_enter(l, init);
    bool tma = !w->t.a.plain || !w->t.b.plain, plain = w->t.a.plain || w->t.b.plain;
    for (int s = 0; s < w->t.stages; s++) {
        ptx_mbar_init(l, wg_full_bar(w, i32c(l, s)), (tma ? 1 : 0) + (plain ? 4 : 0));
        int groups = alone(w) ? 1 : w->t.groups;
        if (w->t.regs) groups *= 4;
        ptx_mbar_init(l, wg_empty_bar(w, i32c(l, s)), groups * wg_pair(w));
    }
    if (w->t.carried) wg_slab_init(w);
    ptx_mbar_init_done(l);
    LLVMBuildBr(l->b, after);
    block_enter(l, after);
    if (wg_pair(w) > 1)
        ptx_cluster_barrier(l);
    else
        ptx_barrier(l);
}

static void emit_body(Wg *w, Kernel *k) {
    Lower *l = w->l;
    w->tid = ptx_tid(l);
    w->first = ptx_ctaid(l);
    w->stride = ptx_nctaid(l);
    if (wg_pair(w) > 1) {
        w->rank = ptx_cluster_rank(l);
        w->first = LLVMBuildLShr(l->b, w->first, i32c(l, 1), "");
        w->stride = LLVMBuildLShr(l->b, w->stride, i32c(l, 1), "");
    }
    w->role = ptx_shfl_first(l, LLVMBuildLShr(l->b, w->tid, i32c(l, 7), ""));
    w->smem = wg_shared_base(w);
    w->slabs = LLVMBuildAdd(l->b, w->smem, i32c(l, w->t.stages * w->t.stage_bytes), "");
    int slab_bytes = w->t.groups * w->t.ring * w->t.chunk_bytes;
    w->bars = LLVMBuildAdd(l->b, w->slabs, i32c(l, slab_bytes), "");
    w->slab_bars = LLVMBuildAdd(l->b, w->bars, i32c(l, 16 * w->t.stages), "");
    if (w->t.carried) {
        w->slab_slot = LLVMBuildAlloca(l->frame, l->i32, "slab");
        w->slab_phase = LLVMBuildAlloca(l->frame, l->i32, "slab.phase");
        w->slab_used = LLVMBuildAlloca(l->frame, l->i32, "slab.used");
    }
    barriers_init(w);
    chain_here(l, k, l->b);
    LLVMBasicBlockRef load = block_new(l, "load.role"), mma = block_new(l, "mma.role");
    Val loads = LLVMBuildICmp(l->b, LLVMIntULT, w->role, i32c(l, w->t.loaders), "");
    LLVMBuildCondBr(l->b, loads, load, mma);
    block_enter(l, load);
    if (w->t.load_regs) ptx_setmaxnreg(l, w->t.load_regs, false);
    if (w->t.made)
        wg_loader_make(w);
    else if (w->t.a.plain || w->t.b.plain)
        wg_loader_plain(w);
    else
        wg_loader(w);
    block_enter(l, mma);
    emit_consumer(w);
}

/* The kernel: its body, once. Tensor maps are its own, by value; the body names them in PTX. */
void wg_make_kernel(Wg *w) {
    Lower *l = w->l;
    Val body = l->fn, fn = LLVMAddFunction(l->mod, w->kernel, params_type(l, false));
    unsigned n = LLVMCountParams(fn);
    Val *arg = ARENA_ARRAY(l->arena, Val, n + 1);
    LLVMGetParams(fn, arg);
    arg[n] = LLVMConstInt(l->i64, 0, 0);
    unsigned byval = LLVMGetEnumAttributeKindForName("byval", 5);
    unsigned align = LLVMGetEnumAttributeKindForName("align", 5);
    for (int i = 0; i < l->args.n && l->args.v[i].kp.kind == KP_TMAP; i++) {
        unsigned at = (unsigned)i + 1;
        Ty map = LLVMArrayType2(l->i8, 128);
        LLVMAddAttributeAtIndex(fn, at, LLVMCreateTypeAttribute(l->cx, byval, map));
        LLVMAddAttributeAtIndex(fn, at, LLVMCreateEnumAttribute(l->cx, align, 64));
    }
    l->fn = fn;
    LLVMPositionBuilderAtEnd(l->b, block_new(l, "entry"));
    LLVMBuildCall2(l->b, params_type(l, true), body, arg, n + 1, "");
    LLVMBuildRetVoid(l->b);
    LLVMSetLinkage(body, LLVMInternalLinkage);
    l->body = body;
}

void wg_builders(Lower *l) {
    Ty ft = LLVMFunctionType(LLVMVoidTypeInContext(l->cx), NULL, 0, 0);
    l->fn = LLVMAddFunction(l->mod, "fk_body", ft);
    LLVMBasicBlockRef frame = block_new(l, "frame"), entry = block_new(l, "entry");
    l->frame = LLVMCreateBuilderInContext(l->cx);
    l->entry = LLVMCreateBuilderInContext(l->cx);
    l->b = LLVMCreateBuilderInContext(l->cx);
    LLVMPositionBuilderAtEnd(l->frame, frame);
    LLVMPositionBuilderAtEnd(l->entry, entry);
    LLVMPositionBuilderAtEnd(l->b, entry);
}

/* Sums differ along rows and columns, also those beyond a vector's one row, which it does not read;
 * and so does what is made of them. Definitions stand before uses. */
static void sums_differ(Wg *w) {
    Lower *l = w->l;
    const TBlock *b = &l->t->body;
    for (int n = 0; n < w->m.sums; n++)
        l->deps[w->m.carry[n]] |= axis_bit(w->m.rows) | axis_bit(w->m.cols);
    for (int n = 0; n < w->m.turns; n++)
        l->deps[w->m.turn[n].carry] |= axis_bit(w->m.rows) | axis_bit(w->m.cols);
    for (int k = 0; k < w->m.nest.rest; k++) {
        const TInst *i = b->inst.v[k];
        if (i->id < 0) continue;
        for (int a = 0; a < i->nargs; a++) l->deps[i->id] |= l->deps[i->args[a]];
        for (int d = 0; d < i->nix; d++) l->deps[i->id] |= tile_ix_deps(l->deps, i->ix[d]);
    }
}

static void factor_maps(Wg *w, bool rows, const MmaSmem *s, int *map) {
    for (int n = 0; n < s->kinds && !s->plain; n++) {
        const MmaFactor *f = mma_factor_at(&w->m, rows, n);
        map[n] = param_map(w->l, wg_map(w, f, s), w->l->t->tensors.v[f->load->tensor].id);
    }
}

LLVMBasicBlockRef wg_begin(Wg *w, Lower *l, Kernel *k, Diags *d) {
    Str why = {0};
    *w = (Wg){.l = l, .kernel = k->name};
    if (!mma_schedule(l->t, l->s, &w->m, &w->t, &why)) {
        diag_error(d, (Span){0}, "schedule", "schedule %s of %s: %s", l->s->name, l->t->name,
                   str_get(&why));
        str_free(&why);
        return NULL;
    }
    l->t = w->m.t;
    l->unit_last = l->roles = true;
    l->online = w->m.nest.blocks && mma_has_frames(w->m.nest.blocks);
    wg_builders(l);
    values_find(l);
    sums_differ(w);
    wg_grouped_init(w);
    l->tile = LLVMBuildFreeze(l->frame, LLVMGetUndef(l->i64), "");
    return LLVMGetInsertBlock(l->b);
}

bool wg_end(Wg *w, LLVMBasicBlockRef entry, Kernel *k, Diags *d) {
    Lower *l = w->l;
    LLVMBuildBr(l->frame, entry);
    wg_guards(w, k);
    bool ok = params_finish(l, k, d);
    if (ok) wg_make_kernel(w);
    LLVMDisposeBuilder(l->frame);
    LLVMDisposeBuilder(l->entry);
    LLVMDisposeBuilder(l->b);
    return ok;
}

static void find_maps(Wg *w) {
    Lower *l = w->l;
    for (int n = 0; n < w->t.nraw; n++) {
        const MmaRaw *r = &w->t.raw[n];
        w->map_raw[n] =
            param_map(l, wg_map(w, &r->f, &r->s), l->t->tensors.v[r->f.load->tensor].id);
    }
    if (!w->t.regs) factor_maps(w, true, &w->t.a, w->map_a);
    factor_maps(w, false, &w->t.b, w->map_b);
    for (int i = 0; i < w->t.nstaged; i++) {
        const MmaStaged *s = &w->t.staged[i];
        w->map_out[i] = param_map(l, wg_map_slab(w, s), l->t->tensors.v[s->inst->tensor].id);
        w->pairs[i] = ARENA_ARRAY(l->arena, Val, w->t.group_rows / 32 * w->t.chunk / 8);
    }
    for (int i = 0; i < w->t.nbrought; i++) {
        const MmaStaged *s = &w->t.brought[i];
        w->map_in[i] = param_map(l, wg_map_slab(w, s), l->t->tensors.v[s->inst->tensor].id);
    }
}

bool wgmma_emit(Lower *l, Kernel *k, Diags *d) {
    Wg w;
    LLVMBasicBlockRef entry = wg_begin(&w, l, k, d);
    if (!entry) return false;
    find_maps(&w);
    wg_reduce_init(&w);
    emit_body(&w, k);
    return wg_end(&w, entry, k, d);
}
