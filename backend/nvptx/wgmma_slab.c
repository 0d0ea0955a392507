/* wgmma_slab.c - the role slab: for each consumer group one thread that brings slabs of what is
 * loaded after the loop, ahead of time, and takes away what is stored.
 *
 * Slab s of group g has two barriers:
 *     ready[g][s]  1 arrival (this role's, which also announces the bytes that it brings) and those
 *                  bytes: the group may read the slab and write to it
 *     done[g][s]   one arrival of each of the group's 4 warps: they have read and written it
 * Both sides count slabs alike, s = 0, 1, .., ring - 1, 0, .. through all parts of all tiles of the
 * group, with a phase bit that flips when s wraps to 0; it starts at 0. A group waits for ready
 * with parity `phase`. This role, before it brings to a slab that was used, waits for done with
 * parity `phase ^ 1`, the round before, copies what the group wrote there, and waits until that is
 * read. So it runs `ring` parts ahead, into the next tile. Where a used slab's columns go it noted
 * in shared memory when it brought them. In the end the last `ring` parts are taken.
 *
 * A warp arrives when each of its threads has fenced its writes for the async proxy and all have
 * met (bar.warp.sync orders them before the arrival of one).
 *
 * Nothing is brought before the loader has asked for the first tile whole (started): its products
 * come first.
 */
#include "backend/nvptx/wgmma_int.h"

enum { WARPS = 4 }; /* of a group */

/* ---- what both sides share ------------------------------------------------------------------ */

static Val get(Wg *w, Val p) {
    return LLVMBuildLoad2(w->l->b, w->l->i32, p, "");
}

static void set(Wg *w, Val p, Val v) {
    LLVMBuildStore(w->l->b, v, p);
}

static Val slab_number(Wg *w, Val slot) {
    return wg_at_stage(w, slot, w->group, w->t.ring);
}

static Val ready_bar(Wg *w, Val slot) {
    return wg_at_stage(w, w->slab_bars, slab_number(w, slot), 8);
}

static int slabs(const Wg *w) {
    return w->t.groups * w->t.ring;
}

static Val done_bar(Wg *w, Val slot) {
    return LLVMBuildAdd(w->l->b, ready_bar(w, slot), i32c(w->l, 8 * slabs(w)), "");
}

static Val started_bar(Wg *w) {
    return LLVMBuildAdd(w->l->b, w->slab_bars, i32c(w->l, 16 * slabs(w)), "");
}

void wg_slab_init(Wg *w) {
    Lower *l = w->l;
    for (int i = 0; i < slabs(w); i++) {
        Val ready = LLVMBuildAdd(l->b, w->slab_bars, i32c(l, 8 * i), "");
        ptx_mbar_init(l, ready, 1);
        ptx_mbar_init(l, LLVMBuildAdd(l->b, ready, i32c(l, 8 * slabs(w)), ""), WARPS);
    }
    ptx_mbar_init(l, started_bar(w), 1);
}

static void ring_of_slabs(Wg *w) {
    set(w, w->slab_slot, i32c(w->l, 0));
    set(w, w->slab_phase, i32c(w->l, 0));
    set(w, w->slab_used, i32c(w->l, 0));
}

static void next_slab(Wg *w) {
    Lower *l = w->l;
    Val next = LLVMBuildAdd(l->b, get(w, w->slab_slot), i32c(l, 1), "");
    Val wraps = LLVMBuildICmp(l->b, LLVMIntEQ, next, i32c(l, w->t.ring), "");
    Val flip = LLVMBuildZExt(l->b, wraps, l->i32, "");
    set(w, w->slab_slot, LLVMBuildSelect(l->b, wraps, i32c(l, 0), next, ""));
    set(w, w->slab_phase, LLVMBuildXor(l->b, get(w, w->slab_phase), flip, ""));
    set(w, w->slab_used, LLVMBuildOr(l->b, get(w, w->slab_used), flip, ""));
}

static Val slab_at(Wg *w, Val slot) {
    return wg_at_stage(w, w->slabs, slab_number(w, slot), w->t.chunk_bytes);
}

/* ---- the groups ----------------------------------------------------------------------------- */

void wg_slab_consumer(Wg *w) {
    ring_of_slabs(w);
}

void wg_slab_take(Wg *w) {
    Val slot = get(w, w->slab_slot);
    ptx_mbar_wait(w->l, ready_bar(w, slot), get(w, w->slab_phase));
    w->slab = slab_at(w, slot);
}

void wg_slab_give(Wg *w) {
    Lower *l = w->l;
    if (w->t.meet) wg_meet(w);
    wg_write(w, w->slab);
    ptx_sync_warp(l);
    ptx_mbar_arrive(l, done_bar(w, get(w, w->slab_slot)), w->lane0);
    next_slab(w);
}

/* ---- the role ------------------------------------------------------------------------------- */

void wg_slab_ready(Wg *w, Val pred) {
    ptx_mbar_arrive(w->l, started_bar(w), pred);
}

/* Where a slab's coordinates are noted: of each grid axis 4 bytes, and the product's number. */
static Val note_at(Wg *w, Val slot) {
    Val first = LLVMBuildAdd(w->l->b, started_bar(w), i32c(w->l, 8), "");
    return wg_at_stage(w, first, slab_number(w, slot), mma_note_bytes(&w->m, &w->t));
}

static void note(Wg *w, Val slot) {
    Lower *l = w->l;
    Val at = note_at(w, slot);
    for (int a = 0; a < l->t->ngrid; a++) {
        Val v = LLVMBuildTrunc(l->b, l->axis[a].e[0], l->i32, "");
        ptx_store_shared(l, 4, LLVMBuildAdd(l->b, at, i32c(l, 4 * a), ""), v);
    }
    if (w->of)
        ptx_store_shared(l, 4, LLVMBuildAdd(l->b, at, i32c(l, 4 * l->t->ngrid), ""), w->product);
}

typedef struct Taken {
    Val slab, row, col;
} Taken;

static void copy_product(Wg *w, void *ctx) {
    const Taken *x = ctx;
    wg_copy(w, x->slab, x->row, x->col, NULL);
}

/* What the slab held goes; the axes open now stay. */
static void carry_away(Wg *w) {
    Lower *l = w->l;
    Val slot = get(w, w->slab_slot);
    Val parity = LLVMBuildXor(l->b, get(w, w->slab_phase), i32c(l, 1), "");
    ptx_mbar_wait(l, done_bar(w, slot), parity);
    if (!w->t.nstaged) return;
    AxisState *now = ARENA_ARRAY(l->arena, AxisState, l->t->ngrid);
    Val at = note_at(w, slot), *coord = ARENA_ARRAY(l->arena, Val, l->t->ngrid);
    for (int a = 0; a < l->t->ngrid; a++) {
        coord[a] = ptx_load_shared(l, 4, LLVMBuildAdd(l->b, at, i32c(l, 4 * a), ""));
        now[a] = l->axis[a];
        wg_open_one(w, a, LLVMBuildZExt(l->b, coord[a], l->i64, ""));
    }
    Val product = w->product; /* of the tile that is brought for */
    if (w->of)
        w->product = ptx_load_shared(l, 4, LLVMBuildAdd(l->b, at, i32c(l, 4 * l->t->ngrid), ""));
    wg_each_product(w, copy_product,
                    &(Taken){slab_at(w, slot), coord[w->m.rows], coord[w->m.cols]});
    w->product = product;
    ptx_bulk_wait_read(l, 0, NULL);
    for (int a = 0; a < l->t->ngrid; a++) l->axis[a] = now[a];
}

static void carry_away_if_used(Wg *w) {
    Lower *l = w->l;
    LLVMBasicBlockRef used = block_new(l, "used"), free = block_new(l, "free");
    Val is_used = LLVMBuildICmp(l->b, LLVMIntNE, get(w, w->slab_used), i32c(l, 0), "");
    LLVMBuildCondBr(l->b, is_used, used, free);
    block_enter(l, used);
    carry_away(w);
    LLVMBuildBr(l->b, free);
    block_enter(l, free);
}

/* Of one load: the boxes from the open row and column on. */
static void bring_one(Wg *w, const MmaStaged *s, int map, Val slab, Val ready) {
    Lower *l = w->l;
    Val coord[5];
    wg_coords(w, s->inst, coord);
    Val col = coord[0];
    for (int c = 0; c < w->t.chunk; c += s->box) {
        Val to = LLVMBuildAdd(l->b, slab, i32c(l, s->at + c / s->box * wg_box_bytes(w, s)), "");
        coord[0] = LLVMBuildAdd(l->b, col, i32c(l, c), "");
        ptx_tma_load(l, ptx_map_address(l, w->kernel, map), s->inst->nix, coord, to, ready,
                     s->evict, 0, NULL);
    }
}

static void bring(Wg *w, void *ctx) {
    Lower *l = w->l;
    Val slot = *(const Val *)ctx;
    Val ready = ready_bar(w, slot), slab = slab_at(w, slot);
    int bytes = 0;
    for (int i = 0; i < w->t.nbrought; i++)
        if (wg_is_for(w, w->t.brought[i].of))
            bytes += w->t.group_rows * w->t.chunk * w->t.brought[i].size;
    if (bytes)
        ptx_mbar_expect(l, ready, i32c(l, bytes), NULL);
    else
        ptx_mbar_arrive(l, ready, NULL);
    for (int i = 0; i < w->t.nbrought; i++)
        if (wg_is_for(w, w->t.brought[i].of))
            bring_one(w, &w->t.brought[i], w->map_in[i], slab, ready);
}

/* for (i = 0; i < n; i++) of one block, which the caller goes on in until end_loop. */
typedef struct Count {
    LLVMBasicBlockRef body;
    Val i;
} Count;

static Count begin_count(Wg *w) {
    Lower *l = w->l;
    Count c = {.body = block_new(l, "slabs")};
    LLVMBasicBlockRef before = LLVMGetInsertBlock(l->b);
    LLVMBuildBr(l->b, c.body);
    block_enter(l, c.body);
    c.i = wg_phi(l, l->i32, i32c(l, 0), before);
    return c;
}

static void end_count(Wg *w, Count c, int n) {
    Lower *l = w->l;
    LLVMBasicBlockRef exit = block_new(l, "slabs.done");
    Val next = LLVMBuildAdd(l->b, c.i, i32c(l, 1), "");
    wg_phi_next(l, c.i, next);
    Val more = LLVMBuildICmp(l->b, LLVMIntULT, next, i32c(l, n), "");
    LLVMBuildCondBr(l->b, more, c.body, exit);
    block_enter(l, exit);
}

static Ring slab_tile(Wg *w, Val tile, Ring r) {
    Lower *l = w->l;
    Val row0, col0;
    wg_decode(w, tile, &row0, &col0);
    if (!l->s->pingpong) {
        Val of_group = LLVMBuildMul(l->b, w->group, i32c(l, w->t.group_rows), "");
        row0 = LLVMBuildAdd(l->b, row0, LLVMBuildZExt(l->b, of_group, l->i64, ""), "");
    }
    Count part = begin_count(w);
    wg_open_one(w, w->m.rows, row0);
    Val by = LLVMBuildMul(l->b, part.i, i32c(l, w->t.chunk), "");
    by = LLVMBuildZExt(l->b, by, l->i64, "");
    wg_open_one(w, w->m.cols, LLVMBuildAdd(l->b, col0, by, ""));
    carry_away_if_used(w);
    Val slot = get(w, w->slab_slot);
    if (w->t.nstaged) note(w, slot);
    wg_each_product(w, bring, &slot);
    next_slab(w);
    end_count(w, part, w->t.n / w->t.chunk);
    return r;
}

void wg_slab_role(Wg *w) {
    Lower *l = w->l;
    Val first = w->first, stride = w->stride;
    for (int i = 0; i < w->t.nbrought; i++)
        ptx_map_prefetch(l, ptx_map_address(l, w->kernel, w->map_in[i]));
    for (int i = 0; i < w->t.nstaged; i++)
        ptx_map_prefetch(l, ptx_map_address(l, w->kernel, w->map_out[i]));
    if (l->s->pingpong) { /* every second tile, as the group */
        Val by = LLVMBuildMul(l->b, w->group, stride, "");
        w->first = LLVMBuildAdd(l->b, first, by, "");
        w->stride = LLVMBuildShl(l->b, stride, i32c(l, 1), "");
    }
    ring_of_slabs(w);
    if (w->t.nbrought) ptx_mbar_wait(l, started_bar(w), i32c(l, 0));
    LLVMBasicBlockRef after = wg_uniform_begin(w);
    wg_tile_loop(w, ring_start(w), slab_tile);
    wg_uniform_end(w, after);
    Count left = begin_count(w);
    carry_away_if_used(w);
    next_slab(w);
    end_count(w, left, w->t.ring);
    w->first = first, w->stride = stride;
}
