/* online_load.c - the warpgroup that loads, of which one thread works: of a tile the rows' factors,
 * then for each block, from the last to the first, what makes its scores, and what its products
 * need one block later. It runs as far ahead as there are buffers, across tiles.
 */
#include "backend/nvptx/online_int.h"

KTmap on_map(const On *on, const MmaFactor *f, const OnlineSmem *m) {
    const TTensor *x = &on->o.t->tensors.v[f->load->tensor];
    KTmap map = {.temp = x->mem == TM_TEMP, .rank = x->rank, .swizzle = 128};
    int lines = f->k_major ? f->row : f->depth;
    for (int i = 0; i < x->rank; i++) {
        map.dim[i] = x->rank - 1 - i;
        map.box[i] = i == 0 ? 64 : map.dim[i] == lines ? m->lines : 1;
    }
    return map;
}

/* All pieces of a factor, at the open axes. */
static void load(On *on, const MmaFactor *f, const OnlineSmem *m, int map, Val to, Val bar) {
    Lower *l = on->l;
    Val coord[5], first;
    wg_coords(&on->w, f->load, coord);
    first = coord[0];
    for (int p = 0; p < m->pieces; p++) {
        Val at = LLVMBuildAdd(l->b, to, i32c(l, p * m->lines * 128), "");
        coord[0] = LLVMBuildAdd(l->b, first, i32c(l, 64 * p), "");
        ptx_tma_load(l, ptx_map_address(l, on->w.kernel, map), f->load->nix, coord, at, bar,
                     m->evict, 0, NULL);
    }
}

static void begin(On *on, enum OnBar what, Ring at, int bytes) {
    Lower *l = on->l;
    Val free = LLVMBuildXor(l->b, at.phase, i32c(l, 1), "");
    ptx_mbar_wait(l, on_empty(on, what, at.stage), free);
    ptx_mbar_expect(l, on_full(on, what, at.stage), i32c(l, bytes));
}

static void load_rows(On *on, Ring at) {
    int bytes = 0;
    for (int k = 0; k < on->o.nscores; k++) bytes += on->t.q[k].bytes;
    begin(on, BAR_Q, at, bytes);
    for (int k = 0; k < on->o.nscores; k++)
        load(on, &on->o.score[k].a, &on->t.q[k], on->map_q[k], on_buffer(on, &on->t.q[k], at.stage),
             on_full(on, BAR_Q, at.stage));
}

static void open_block(On *on, Val i) {
    Lower *l = on->l;
    Val j = LLVMBuildMul(l->b, i, i32c(l, on->t.j), "");
    wg_open_one(&on->w, on->o.j, LLVMBuildZExt(l->b, j, l->i64, ""));
}

static void load_scores(On *on, Val i, Ring at) {
    int bytes = 0;
    open_block(on, i);
    for (int k = 0; k < on->o.nscores; k++) bytes += on->t.k[k].bytes;
    begin(on, BAR_K, at, bytes);
    for (int k = 0; k < on->o.nscores; k++)
        load(on, &on->o.score[k].b, &on->t.k[k], on->map_k[k], on_buffer(on, &on->t.k[k], at.stage),
             on_full(on, BAR_K, at.stage));
}

static void load_products(On *on, Val i, Ring at) {
    int bytes = 0;
    if (!on->o.nproducts) return;
    open_block(on, i);
    for (int p = 0; p < on->o.nproducts; p++) bytes += on->t.v[p].bytes;
    begin(on, BAR_V, at, bytes);
    for (int p = 0; p < on->o.nproducts; p++)
        load(on, &on->o.product[p].b, &on->t.v[p], on->map_v[p],
             on_buffer(on, &on->t.v[p], at.stage), on_full(on, BAR_V, at.stage));
}

static Ring load_blocks(On *on, Ring start) {
    Lower *l = on->l;
    Val last = LLVMBuildSub(l->b, on->end, i32c(l, 1), "");
    load_scores(on, last, start);
    LLVMBasicBlockRef before = LLVMGetInsertBlock(l->b), head = block_new(l, "ahead");
    LLVMBasicBlockRef body = block_new(l, "load"), exit = block_new(l, "loaded");
    Ring next = on_next(on, start, on->t.stages);
    LLVMBuildBr(l->b, head);
    block_enter(l, head);
    Val i = wg_phi(l, l->i32, last, before);
    Ring k = {wg_phi(l, l->i32, next.stage, before), wg_phi(l, l->i32, next.phase, before)};
    Ring v = {wg_phi(l, l->i32, start.stage, before), wg_phi(l, l->i32, start.phase, before)};
    LLVMBuildCondBr(l->b, LLVMBuildICmp(l->b, LLVMIntSGT, i, on->first, ""), body, exit);
    block_enter(l, body);
    Val down = LLVMBuildSub(l->b, i, i32c(l, 1), "");
    load_scores(on, down, k);
    load_products(on, i, v);
    Ring k_next = on_next(on, k, on->t.stages);
    wg_phi_next(l, i, down);
    wg_phi_next(l, k.stage, k_next.stage), wg_phi_next(l, k.phase, k_next.phase);
    wg_phi_next(l, v.stage, k.stage), wg_phi_next(l, v.phase, k.phase);
    LLVMBuildBr(l->b, head);
    block_enter(l, exit);
    load_products(on, i, v);
    return k;
}

static OnRings load_tile(On *on, Val item, OnRings r) {
    Lower *l = on->l;
    on_decode(on, item);
    wg_open_one(&on->w, on->o.rows, on->row0);
    if (on->o.cols >= 0) wg_open_one(&on->w, on->o.cols, LLVMConstInt(l->i64, 0, 0));
    for (int k = 0; k < on->o.nscores; k++)
        wg_open_one(&on->w, on->o.score[k].k, LLVMConstInt(l->i64, 0, 0));
    load_rows(on, r.q);
    LLVMBasicBlockRef none = LLVMGetInsertBlock(l->b);
    LLVMBasicBlockRef some = block_new(l, "some"), done = block_new(l, "next");
    LLVMBuildCondBr(l->b, LLVMBuildICmp(l->b, LLVMIntSGT, on->end, on->first, ""), some, done);
    block_enter(l, some);
    Ring e = load_blocks(on, r.k);
    LLVMBuildBr(l->b, done);
    LLVMBasicBlockRef from = LLVMGetInsertBlock(l->b);
    block_enter(l, done);
    Ring k = {wg_phi(l, l->i32, r.k.stage, none), wg_phi(l, l->i32, r.k.phase, none)};
    LLVMAddIncoming(k.stage, &e.stage, &from, 1);
    LLVMAddIncoming(k.phase, &e.phase, &from, 1);
    return (OnRings){k, on_next(on, r.q, on->t.ahead)};
}

void on_loader(On *on) {
    Lower *l = on->l;
    LLVMBasicBlockRef one = block_new(l, "loader"), rest = block_new(l, "leave");
    Val first = LLVMBuildICmp(l->b, LLVMIntEQ, on->w.tid, i32c(l, 0), "");
    LLVMBuildCondBr(l->b, first, one, rest);
    block_enter(l, one);
    LLVMBasicBlockRef after = wg_uniform_begin(&on->w);
    on_tiles(on, load_tile, true);
    wg_uniform_end(&on->w, after);
    LLVMBuildBr(l->b, rest);
    block_enter(l, rest);
    LLVMBuildRetVoid(l->b);
}
