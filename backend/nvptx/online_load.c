/* online_load.c - the warpgroup that loads, of which one thread works: of a tile the rows' factors,
 * then for each block, from the last to the first, what makes its scores and what is read of its
 * elements, and what its products need one block later. It runs as far ahead as there are buffers,
 * across tiles. Where a warp picks blocks, it has them from there. Where factors lie in pages,
 * several warps share those of a block (online_page.c), of each warp one thread copies, and the
 * first warp does what is done once.
 */
#include "backend/nvptx/online_int.h"

/* Lines of a box. */
static int lines_of(const OnlineSmem *m, int page) {
    return page && page < m->lines ? page : m->lines;
}

KTmap on_map(const On *on, const MmaFactor *f, const OnlineSmem *m, int page) {
    const TTensor *x = &on->o.t->tensors.v[f->load->tensor];
    KTmap map = {.temp = x->mem == TM_TEMP, .rank = x->rank, .swizzle = 128};
    int lines = f->k_major ? f->row : f->depth;
    for (int i = 0; i < x->rank; i++) {
        map.dim[i] = x->rank - 1 - i;
        map.box[i] = i == 0 ? 64 : map.dim[i] == lines ? lines_of(m, page) : 1;
    }
    return map;
}

/* All pieces of a box from coord on. pred: i1, by whom; NULL: by who is here. */
static void load(On *on, const MmaFactor *f, const OnlineSmem *m, int map, Val *coord, Val to,
                 Val bar, Val pred) {
    Lower *l = on->l;
    Val first = coord[0];
    for (int p = 0; p < m->pieces; p++) {
        Val at = LLVMBuildAdd(l->b, to, i32c(l, p * m->lines * 128), "");
        coord[0] = LLVMBuildAdd(l->b, first, i32c(l, 64 * p), "");
        ptx_tma_load(l, ptx_map_address(l, on->w.kernel, map), f->load->nix, coord, at, bar,
                     m->evict, 0, pred);
    }
}

static void wait_empty(On *on, enum OnBar what, Ring at) {
    Lower *l = on->l;
    Val free = LLVMBuildXor(l->b, at.phase, i32c(l, 1), "");
    ptx_mbar_wait(l, on_empty(on, what, at.stage), free);
}

static void expect(On *on, enum OnBar what, Ring at, Val bytes) {
    ptx_mbar_expect(on->l, on_full(on, what, at.stage), bytes, on->lead);
}

void on_load_begin(On *on, enum OnBar what, Ring at, Val bytes) {
    wait_empty(on, what, at);
    expect(on, what, at, bytes);
}

/* p: what was picked; NULL: nothing is. */
static void load_rows(On *on, Ring at, const OnPicked *p) {
    int bytes = 0;
    Val coord[5];
    for (int k = 0; k < on->o.nscores; k++) bytes += on->t.q[k].bytes;
    LLVMBasicBlockRef after = on_once_begin(on);
    wait_empty(on, BAR_Q, at);
    if (p) on_pick_tell_rows(on, at.stage, p);
    expect(on, BAR_Q, at, i32c(on->l, bytes));
    for (int k = 0; k < on->o.nscores; k++) {
        const MmaFactor *f = &on->o.score[k].a;
        wg_coords(&on->w, f->load, coord);
        load(on, f, &on->t.q[k], on->map_q[k], coord, on_buffer(on, &on->t.q[k], at.stage),
             on_full(on, BAR_Q, at.stage), on->lead);
    }
    on_once_end(on, after);
}

static void open_block(On *on, Val i) {
    Lower *l = on->l;
    Val j = LLVMBuildMul(l->b, i, i32c(l, on->t.j), "");
    wg_open_one(&on->w, on->o.j, LLVMBuildZExt(l->b, j, l->i64, ""));
}

/* Of n boxes, those of this warp: every loaders-th from its own number on. */
static Val share(On *on, int n) {
    Lower *l = on->l;
    if (n % on->loaders == 0) return i32c(l, n / on->loaders);
    Val left = LLVMBuildSub(l->b, i32c(l, n + on->loaders - 1), on->loader, "");
    return LLVMBuildUDiv(l->b, left, i32c(l, on->loaders), "");
}

/* What this warp brings of a block. */
static Val bytes_of(On *on, const OnlineWhere *w, const OnlineSmem *m) {
    Lower *l = on->l;
    int lines = lines_of(m, w->page);
    if (!on->loaders) return i32c(l, m->bytes);
    if (lines < m->lines)
        return LLVMBuildMul(l->b, share(on, m->lines / lines), i32c(l, lines * m->pieces * 128),
                            "");
    Val first = LLVMBuildICmp(l->b, LLVMIntEQ, on->loader, i32c(l, 0), "");
    return LLVMBuildSelect(l->b, first, i32c(l, m->bytes), i32c(l, 0), "");
}

/* What a block has of a factor, at places `at` of the lanes: box by box, by a loop, in which a
 * loader has registers enough. */
static void load_block(On *on, const MmaFactor *f, const OnlineWhere *w, const OnlineSmem *m,
                       int map, const Val *at, Val to, Val bar) {
    Lower *l = on->l;
    Val coord[5];
    int lines = lines_of(m, w->page), boxes = m->lines / lines;
    if (boxes == 1) {
        on_page_coords(on, f, w, m->lines, at, i32c(l, 0), coord);
        load(on, f, m, map, coord, to, bar, on->chief);
        return;
    }
    LLVMBasicBlockRef before = LLVMGetInsertBlock(l->b), head = block_new(l, "pages");
    LLVMBasicBlockRef body = block_new(l, "page"), exit = block_new(l, "brought");
    LLVMBuildBr(l->b, head);
    block_enter(l, head);
    Val n = wg_phi(l, l->i32, on->loader, before);
    ptx_rolled(l);
    LLVMBuildCondBr(l->b, LLVMBuildICmp(l->b, LLVMIntULT, n, i32c(l, boxes), ""), body, exit);
    block_enter(l, body);
    on_page_coords(on, f, w, m->lines, at, n, coord);
    load(on, f, m, map, coord, wg_at_stage(&on->w, to, n, lines * 128), bar, on->lead);
    wg_phi_next(l, n, LLVMBuildAdd(l->b, n, i32c(l, on->loaders), ""));
    LLVMBuildBr(l->b, head);
    block_enter(l, exit);
}

/* next: the block picked after it; NULL: nothing is picked. */
static void load_scores(On *on, Val i, Ring at, const Val *places, Val next) {
    Val bytes = i32c(on->l, 0);
    open_block(on, i);
    for (int k = 0; k < on->o.nscores; k++)
        bytes = LLVMBuildAdd(on->l->b, bytes, bytes_of(on, &on->o.score[k].where, &on->t.k[k]), "");
    wait_empty(on, BAR_K, at);
    if (next) on_pick_tell_block(on, at.stage, next);
    expect(on, BAR_K, at, bytes);
    for (int k = 0; k < on->o.nscores; k++)
        load_block(on, &on->o.score[k].b, &on->o.score[k].where, &on->t.k[k], on->map_k[k], places,
                   on_buffer(on, &on->t.k[k], at.stage), on_full(on, BAR_K, at.stage));
}

static void load_products(On *on, Val i, Ring at, const Val *places) {
    Val bytes = i32c(on->l, 0);
    if (!on->o.nproducts) return;
    open_block(on, i);
    for (int p = 0; p < on->o.nproducts; p++)
        bytes =
            LLVMBuildAdd(on->l->b, bytes, bytes_of(on, &on->o.product[p].where, &on->t.v[p]), "");
    on_load_begin(on, BAR_V, at, bytes);
    for (int p = 0; p < on->o.nproducts; p++)
        load_block(on, &on->o.product[p].b, &on->o.product[p].where, &on->t.v[p], on->map_v[p],
                   places, on_buffer(on, &on->t.v[p], at.stage), on_full(on, BAR_V, at.stage));
}

static Val *places_new(On *on) {
    return ARENA_ARRAY(on->l->arena, Val, on->places.n + 1);
}

static void places_of(On *on, Val i, Val *at) {
    on_page_begin(on, i);
    on_page_end(on, i, at);
}

static Ring ring_phi(On *on, Ring r, LLVMBasicBlockRef before) {
    Lower *l = on->l;
    return (Ring){wg_phi(l, l->i32, r.stage, before), wg_phi(l, l->i32, r.phase, before)};
}

static void ring_phi_next(On *on, Ring phi, Ring next) {
    wg_phi_next(on->l, phi.stage, next.stage);
    wg_phi_next(on->l, phi.phase, next.phase);
}

static Ring ring_join(On *on, Ring a, LLVMBasicBlockRef from_a, Ring b, LLVMBasicBlockRef from_b) {
    Ring r = ring_phi(on, a, from_a);
    LLVMAddIncoming(r.stage, &b.stage, &from_b, 1);
    LLVMAddIncoming(r.phase, &b.phase, &from_b, 1);
    return r;
}

/* What a block's scores and its elements need; where the next block's lie. follows: the block that
 * is picked after it, or NULL. */
static OnRings load_first(On *on, Val i, OnRings at, const Val *places, Val follows) {
    load_scores(on, i, at.k, places, follows);
    on_bring(on, at.e);
    at.k = on_next(on, at.k, on->t.stages);
    if (on->t.nbrought) at.e = on_next(on, at.e, on->t.bring);
    return at;
}

/* Those of blocks that are not loaded yet are made one block ahead, while others are waited for. */
static OnRings load_blocks(On *on, OnRings start) {
    Lower *l = on->l;
    int n = on->places.n;
    Val *of_k = places_new(on), *of_v = places_new(on), *next_k = places_new(on), *first = of_v;
    Val last = LLVMBuildSub(l->b, on->end, i32c(l, 1), "");
    Val second = LLVMBuildSub(l->b, on->end, i32c(l, 2), "");
    places_of(on, last, first);
    on_page_begin(on, second);
    OnRings next = load_first(on, last, start, first, NULL);
    on_page_end(on, second, of_k);
    LLVMBasicBlockRef before = LLVMGetInsertBlock(l->b), head = block_new(l, "ahead");
    LLVMBasicBlockRef body = block_new(l, "load"), exit = block_new(l, "loaded");
    LLVMBuildBr(l->b, head);
    block_enter(l, head);
    Val i = wg_phi(l, l->i32, last, before);
    Ring k = ring_phi(on, next.k, before), e = ring_phi(on, next.e, before);
    Ring v = ring_phi(on, start.k, before);
    for (int p = 0; p < n; p++) {
        of_k[p] = wg_phi(l, l->i32, of_k[p], before);
        of_v[p] = wg_phi(l, l->i32, of_v[p], before);
    }
    LLVMBuildCondBr(l->b, LLVMBuildICmp(l->b, LLVMIntSGT, i, on->first, ""), body, exit);
    block_enter(l, body);
    Val down = LLVMBuildSub(l->b, i, i32c(l, 1), ""), then = LLVMBuildSub(l->b, i, i32c(l, 2), "");
    on_page_begin(on, then);
    next = load_first(on, down, (OnRings){.k = k, .e = e}, of_k, NULL);
    load_products(on, i, v, of_v);
    on_page_end(on, then, next_k);
    wg_phi_next(l, i, down);
    ring_phi_next(on, k, next.k);
    ring_phi_next(on, e, next.e);
    ring_phi_next(on, v, k);
    for (int p = 0; p < n; p++)
        wg_phi_next(l, of_k[p], next_k[p]), wg_phi_next(l, of_v[p], of_k[p]);
    LLVMBuildBr(l->b, head);
    block_enter(l, exit);
    load_products(on, i, v, of_v);
    return (OnRings){.k = k, .e = e};
}

static Val number(On *on, Val picked) {
    return LLVMBuildLShr(on->l->b, picked, i32c(on->l, PICK_SHIFT), "");
}

/* The same of blocks that are picked; *p: where they come from. */
static OnRings load_picked(On *on, Val picked, OnRings start, Ring *p) {
    Lower *l = on->l;
    Val second = on_pick_take(on, p), none = i32c(l, 0);
    OnRings next = load_first(on, number(on, picked), start, NULL, second);
    LLVMBasicBlockRef before = LLVMGetInsertBlock(l->b), head = block_new(l, "ahead");
    LLVMBasicBlockRef body = block_new(l, "load"), exit = block_new(l, "loaded");
    LLVMBuildBr(l->b, head);
    block_enter(l, head);
    Val i = wg_phi(l, l->i32, picked, before), down = wg_phi(l, l->i32, second, before);
    Ring k = ring_phi(on, next.k, before), e = ring_phi(on, next.e, before);
    Ring v = ring_phi(on, start.k, before), at = ring_phi(on, *p, before);
    LLVMBuildCondBr(l->b, LLVMBuildICmp(l->b, LLVMIntSGE, down, none, ""), body, exit);
    block_enter(l, body);
    *p = at;
    Val after = on_pick_take(on, p);
    next = load_first(on, number(on, down), (OnRings){.k = k, .e = e}, NULL, after);
    load_products(on, number(on, i), v, NULL);
    wg_phi_next(l, i, down), wg_phi_next(l, down, after);
    ring_phi_next(on, k, next.k);
    ring_phi_next(on, e, next.e);
    ring_phi_next(on, v, k);
    ring_phi_next(on, at, *p);
    LLVMBuildBr(l->b, head);
    block_enter(l, exit);
    *p = at;
    load_products(on, number(on, i), v, NULL);
    return (OnRings){.k = k, .e = e};
}

static OnPicked take_rows(On *on, Ring *at) {
    OnPicked p = {0};
    if (on->varies) {
        p.lo = on_pick_take(on, at);
        p.hi = on_pick_take(on, at);
    }
    p.first = on_pick_take(on, at);
    return p;
}

static OnRings load_tile(On *on, Val item, OnRings r) {
    Lower *l = on->l;
    bool picked = on->t.out.picked;
    OnPicked p = picked ? take_rows(on, &r.p) : (OnPicked){0};
    if (picked)
        on_place(on, item);
    else
        on_decode(on, item);
    wg_open_one(&on->w, on->o.rows, on->row0);
    if (on->o.cols >= 0) wg_open_one(&on->w, on->o.cols, LLVMConstInt(l->i64, 0, 0));
    for (int k = 0; k < on->o.nscores; k++)
        wg_open_one(&on->w, on->o.score[k].k, LLVMConstInt(l->i64, 0, 0));
    on_page_tile(on);
    load_rows(on, r.q, picked ? &p : NULL);
    LLVMBasicBlockRef none = LLVMGetInsertBlock(l->b);
    LLVMBasicBlockRef some = block_new(l, "some"), done = block_new(l, "next");
    Val any = picked ? LLVMBuildICmp(l->b, LLVMIntSGE, p.first, i32c(l, 0), "")
                     : LLVMBuildICmp(l->b, LLVMIntSGT, on->end, on->first, "");
    LLVMBuildCondBr(l->b, any, some, done);
    block_enter(l, some);
    Ring from_words = r.p;
    OnRings end = picked ? load_picked(on, p.first, r, &from_words) : load_blocks(on, r);
    LLVMBuildBr(l->b, done);
    LLVMBasicBlockRef from = LLVMGetInsertBlock(l->b);
    block_enter(l, done);
    OnRings out = {.k = ring_join(on, r.k, none, end.k, from)};
    out.e = ring_join(on, r.e, none, end.e, from); /* phis before all */
    out.p = ring_join(on, r.p, none, from_words, from);
    out.q = on_next(on, r.q, on->t.ahead);
    out.e = on_brought_leave(on, out.e);
    return out;
}

void on_loader(On *on) {
    Lower *l = on->l;
    LLVMBasicBlockRef one = block_new(l, "loader"), rest = block_new(l, "leave");
    Val first = LLVMBuildICmp(l->b, LLVMIntEQ, on->w.tid, i32c(l, 0), "");
    if (on->loaders) {
        on->chief = first;
        on->lead = ptx_elected(l);
        on->loader = ptx_shfl_first(l, LLVMBuildLShr(l->b, on->w.tid, i32c(l, 5), ""));
        first = LLVMBuildICmp(l->b, LLVMIntULT, on->loader, i32c(l, on->loaders), "");
    }
    LLVMBuildCondBr(l->b, first, one, rest);
    block_enter(l, one);
    LLVMBasicBlockRef after = wg_uniform_begin(&on->w);
    on_tiles(on, load_tile, ON_LOADS);
    wg_uniform_end(&on->w, after);
    LLVMBuildBr(l->b, rest);
    block_enter(l, rest);
    if (on->t.out.picked) {
        LLVMBasicBlockRef pick = block_new(l, "picker"), leave = block_new(l, "left");
        Val warp = ptx_shfl_first(l, LLVMBuildLShr(l->b, on->w.tid, i32c(l, 5), ""));
        LLVMBuildCondBr(l->b, LLVMBuildICmp(l->b, LLVMIntEQ, warp, i32c(l, 1), ""), pick, leave);
        block_enter(l, pick);
        on_picker(on);
        LLVMBuildBr(l->b, leave);
        block_enter(l, leave);
    }
    LLVMBuildRetVoid(l->b);
}
