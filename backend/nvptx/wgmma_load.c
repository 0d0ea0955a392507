/* wgmma_load.c - the warpgroup that loads: one thread copies boxes of all factors into the ring.
 */
#include "backend/nvptx/wgmma_int.h"

/* How many boxes of a factor there are from row `first` on, i32; NULL: all. */
static Val boxes_from(Wg *w, int axis, int tile, const MmaSmem *s, Val first, int boxes) {
    Lower *l = w->l;
    const Ix *extent = l->t->axes.v[axis].extent;
    int64_t c;
    if (ix_is_const(extent, &c) && c % tile == 0) return NULL;
    Val left = LLVMBuildSub(l->b, uniform32(w, extent), first, "");
    Val none = LLVMBuildICmp(l->b, LLVMIntSLE, left, i32c(l, 0), "");
    left = LLVMBuildAdd(l->b, left, i32c(l, s->box - 1), "");
    Val n = LLVMBuildUDiv(l->b, left, i32c(l, s->box), "");
    Val more = LLVMBuildICmp(l->b, LLVMIntUGT, n, i32c(l, boxes), "");
    n = LLVMBuildSelect(l->b, more, i32c(l, boxes), n, "");
    return LLVMBuildSelect(l->b, none, i32c(l, 0), n, "");
}

static Present present_of(Wg *w, const MmaFactor *f, int axis, int tile, const MmaSmem *s,
                          bool shared) {
    Lower *l = w->l;
    Present p = {.bytes = i32c(l, s->plain ? 0 : s->bytes)};
    if (s->plain) return p;
    if (f->row < 0) { /* one line, of one box */
        p.bytes = i32c(l, s->parts * s->deep * s->swizzle);
        return p;
    }
    Val first = LLVMBuildTrunc(l->b, l->axis[axis].e[0], l->i32, "");
    Val all = boxes_from(w, axis, tile, s, first, s->boxes);
    if (all) p.bytes = LLVMBuildMul(l->b, all, i32c(l, s->parts * s->deep * s->box_bytes), "");
    p.boxes = all;
    if (!shared || !all) return p;
    first = wg_at_stage(w, first, w->rank, s->boxes / 2 * s->box);
    p.boxes = boxes_from(w, axis, tile, s, first, s->boxes / 2);
    return p;
}

Presents wg_presents(Wg *w) {
    Presents p;
    if (w->t.regs) {
        p.a = p.b = present_of(w, &w->m.b, w->m.cols, w->t.n, &w->t.b, false);
        p.bytes = p.b.bytes;
        for (int n = 0; n < w->t.nraw; n++) {
            p.raw[n] = (Present){.bytes = i32c(w->l, w->t.raw[n].s.bytes)}; /* threads read all */
            p.bytes = LLVMBuildAdd(w->l->b, p.bytes, p.raw[n].bytes, "");
        }
        return p;
    }
    p.a = present_of(w, &w->m.a, w->m.rows, w->t.m, &w->t.a, w->t.pair_cols > 1);
    p.b = present_of(w, &w->m.b, w->m.cols, w->t.n, &w->t.b, w->t.pair_rows > 1);
    p.bytes = LLVMBuildAdd(w->l->b, p.a.bytes, p.b.bytes, "");
    return p;
}

/* The boxes of a factor from the open axes on, which hold one element each, and the deep-th line of
 * k. Of a shared factor each CTA of a pair loads half of the boxes, for both. */
static void load_line(Wg *w, const MmaFactor *f, const MmaSmem *s, Val map, bool shared,
                      const Present *p, int deep, Val to, Val bar) {
    Lower *l = w->l;
    const TInst *i = f->load;
    Val coord[5], *row = &coord[f->row < 0 ? 0 : i->nix - 1 - f->row];
    wg_coords(w, i, coord);
    if (deep) coord[0] = LLVMBuildAdd(l->b, coord[0], i32c(l, deep * w->t.k / s->deep), "");
    if (deep) to = LLVMBuildAdd(l->b, to, i32c(l, deep * s->deep_bytes), "");
    int boxes = f->row < 0 ? 1 : shared ? s->boxes / 2 : s->boxes;
    Val first = *row; /* not that of the axis: rows may be read from any on */
    if (shared) first = wg_at_stage(w, first, w->rank, boxes * s->box);
    if (shared) to = wg_at_stage(w, to, w->rank, boxes * s->box_bytes);
    for (int n = 0; n < boxes; n++) {
        *row = LLVMBuildAdd(l->b, first, i32c(l, n * s->box), "");
        Val box = LLVMBuildAdd(l->b, to, i32c(l, n * s->box_bytes), ""), there = NULL;
        if (p->boxes && (n || wg_pair(w) > 1)) /* without a pair, a tile has a row at least */
            there = LLVMBuildICmp(l->b, LLVMIntUGT, p->boxes, i32c(l, n), "");
        ptx_tma_load(l, map, i->nix, coord, box, bar, s->evict, shared ? 3 : 0, there);
    }
}

static void load_factor(Wg *w, const MmaFactor *f, const MmaSmem *s, Val map, bool shared,
                        const Present *p, Val to, Val bar) {
    for (int n = 0; n < s->deep; n++) load_line(w, f, s, map, shared, p, n, to, bar);
}

static void load_factors(Wg *w, bool rows, const MmaSmem *s, const int *map, const Present *p,
                         Val to, Val bar) {
    bool shared = (rows ? w->t.pair_cols : w->t.pair_rows) > 1;
    for (int n = 0; n < s->parts && !s->plain; n++) {
        Val at = LLVMBuildAdd(w->l->b, to, i32c(w->l, n * s->part), "");
        int kinds = s->kinds > s->parts ? s->kinds : 1; /* of which the tile has one */
        load_factor(w, mma_factor_at(&w->m, rows, n), s, wg_map_of_product(w, map + n, kinds),
                    shared, p, at, bar);
    }
}

void wg_load_factors(Wg *w, const Presents *p, Val stage, Val full) {
    Lower *l = w->l;
    ptx_mbar_expect(l, full, p->bytes, NULL);
    for (int n = 0; n < w->t.nraw; n++) {
        const MmaRaw *r = &w->t.raw[n];
        Val to = LLVMBuildAdd(l->b, stage, i32c(l, r->at), "");
        load_factor(w, &r->f, &r->s, ptx_map_address(l, w->kernel, w->map_raw[n]), false,
                    &p->raw[n], to, full);
    }
    if (!w->t.regs) load_factors(w, true, &w->t.a, w->map_a, &p->a, stage, full);
    stage = LLVMBuildAdd(l->b, stage, i32c(l, w->t.a.bytes), "");
    load_factors(w, false, &w->t.b, w->map_b, &p->b, stage, full);
}

static Ring load_tile(Wg *w, Val item, Ring r) {
    Lower *l = w->l;
    Val row0, col0;
    Work work = wg_work(w, item);
    wg_decode(w, work.tile, &row0, &col0);
    wg_open_one(w, w->m.rows, row0);
    wg_open_one(w, w->m.cols, col0);
    Presents present = wg_presents(w);
    LLVMBasicBlockRef before = LLVMGetInsertBlock(l->b);
    LLVMBasicBlockRef body = block_new(l, "load"), exit = block_new(l, "loaded");
    LLVMBuildBr(l->b, body);
    block_enter(l, body);
    Val kt = wg_phi(l, l->i32, i32c(l, 0), before);
    Ring at = {wg_phi(l, l->i32, r.stage, before), wg_phi(l, l->i32, r.phase, before)};
    Val k0 = LLVMBuildAdd(l->b, work.first, kt, "");
    k0 = LLVMBuildMul(l->b, k0, i32c(l, w->t.k), "");
    wg_open_one(w, w->m.k, LLVMBuildZExt(l->b, k0, l->i64, ""));
    ptx_mbar_wait(l, wg_empty_bar(w, at.stage), LLVMBuildXor(l->b, at.phase, i32c(l, 1), ""));
    Val to = wg_at_stage(w, w->smem, at.stage, w->t.stage_bytes);
    wg_load_factors(w, &present, to, wg_full_bar(w, at.stage));
    Val next = LLVMBuildAdd(l->b, kt, i32c(l, 1), "");
    Ring end = ring_next(w, at);
    wg_phi_next(l, kt, next);
    wg_phi_next(l, at.stage, end.stage);
    wg_phi_next(l, at.phase, end.phase);
    Val more = LLVMBuildICmp(l->b, LLVMIntULT, next, work.len, "");
    LLVMBuildCondBr(l->b, more, body, exit);
    block_enter(l, exit);
    if (w->t.nbrought) { /* of the first tile all */
        Val first = LLVMBuildICmp(l->b, LLVMIntEQ, item, w->first, "");
        if (w->walk) {
            Val start = LLVMBuildICmp(l->b, LLVMIntEQ, w->walk, i32c(l, 0), "");
            first = LLVMBuildAnd(l->b, first, start, "");
        }
        wg_slab_ready(w, first);
    }
    return end;
}

/* Nobody arrives at a barrier of a CTA that is gone: it stays until all its stages are released. */
static void see_out(Wg *w, Ring at) {
    Lower *l = w->l;
    for (int i = 0; i < w->t.stages; i++) {
        ptx_mbar_wait(l, wg_empty_bar(w, at.stage), LLVMBuildXor(l->b, at.phase, i32c(l, 1), ""));
        at = ring_next(w, at);
    }
}

/* One thread of each of the last warps, one a group. */
static void branch_to_slabs(Wg *w, LLVMBasicBlockRef rest) {
    Lower *l = w->l;
    int warps = 4 - w->t.groups;
    LLVMBasicBlockRef slabs = block_new(l, "slab.role"), idle = block_new(l, "idle");
    Val warp = ptx_shfl_first(l, LLVMBuildLShr(l->b, w->tid, i32c(l, 5), ""));
    Val lane = LLVMBuildAnd(l->b, w->tid, i32c(l, 31), "");
    Val is = LLVMBuildICmp(l->b, LLVMIntUGE, warp, i32c(l, warps), "");
    is = LLVMBuildAnd(l->b, is, LLVMBuildICmp(l->b, LLVMIntEQ, lane, i32c(l, 0), ""), "");
    LLVMBuildCondBr(l->b, is, slabs, idle);
    block_enter(l, slabs);
    w->group = LLVMBuildSub(l->b, warp, i32c(l, warps), "");
    wg_slab_role(w);
    LLVMBuildBr(l->b, rest);
    block_enter(l, idle);
}

void wg_loader(Wg *w) {
    Lower *l = w->l;
    LLVMBasicBlockRef one = block_new(l, "loader"), rest = block_new(l, "leave");
    if (w->t.carried) branch_to_slabs(w, rest);
    Val first = LLVMBuildICmp(l->b, LLVMIntEQ, w->tid, i32c(l, 0), "");
    LLVMBuildCondBr(l->b, first, one, rest);
    block_enter(l, one);
    for (int n = 0; n < w->t.nraw; n++)
        ptx_map_prefetch(l, ptx_map_address(l, w->kernel, w->map_raw[n]));
    for (int n = 0; n < w->t.a.kinds && !w->t.regs; n++)
        ptx_map_prefetch(l, ptx_map_address(l, w->kernel, w->map_a[n]));
    for (int n = 0; n < w->t.b.kinds; n++)
        ptx_map_prefetch(l, ptx_map_address(l, w->kernel, w->map_b[n]));
    LLVMBasicBlockRef after = wg_uniform_begin(w);
    Ring end = wg_tile_loop(w, ring_start(w), load_tile);
    wg_uniform_end(w, after);
    if (wg_pair(w) > 1) see_out(w, end);
    LLVMBuildBr(l->b, rest);
    block_enter(l, rest);
    LLVMBuildRetVoid(l->b);
}
