/* online_bring.c - matrices that the body of the loop reads over rows and j, brought by TMA: of
 * each block a buffer with boxes of 128 bytes of all rows of the tile, side by side, swizzled. What
 * lies beyond the end of a tensor reads as 0.
 *
 * A group reads what it needs as the accumulator lies (wgmma_bring.c), as words of two neighbours,
 * while its scores are made; then each of its warps says so.
 *
 * What a tile stores may go through a buffer, as if it were one more block's.
 */
#include "backend/nvptx/online_int.h"

const MmaStaged *on_brought(const On *on, const TInst *i) {
    for (int k = 0; k < on->t.nbrought; k++)
        if (on->t.brought[k].inst == i) return &on->t.brought[k];
    return NULL;
}

static int number(const On *on, const MmaStaged *s) {
    return (int)(s - on->t.brought);
}

static int box_bytes(const On *on, const MmaStaged *s) {
    return on->t.out.m * s->swizzle;
}

static KTmap map(const On *on, const MmaStaged *s) {
    const TTensor *x = &on->o.t->tensors.v[s->inst->tensor];
    KTmap m = {.temp = x->mem == TM_TEMP, .rank = x->rank, .swizzle = s->swizzle};
    for (int i = 0; i < x->rank; i++) {
        m.dim[i] = x->rank - 1 - i;
        m.box[i] = i == 0 ? s->box : m.dim[i] == s->row ? on->t.out.m : 1;
    }
    return m;
}

void on_bring_maps(On *on) {
    for (int k = 0; k < on->t.nbrought; k++) {
        const MmaStaged *s = &on->t.brought[k];
        on->map_e[k] = param_map(on->l, map(on, s), on->l->t->tensors.v[s->inst->tensor].id);
    }
}

void on_brought_guards(On *on, Kernel *k) {
    Mma m = {.t = on->o.t, .rows = on->o.rows, .cols = on->o.j, .k = -1};
    for (int i = 0; i < on->t.nbrought; i++) wg_guard_map_in(&on->w, k, &m, on->t.brought[i].inst);
}

static Val buffer(On *on, Val stage) {
    Val at = LLVMBuildAdd(on->l->b, on->w.smem, i32c(on->l, on->t.brought_at), "");
    return wg_at_stage(&on->w, at, stage, on->t.brought_bytes);
}

/* ---- the loader ---- */

void on_bring(On *on, Ring at) {
    Lower *l = on->l;
    if (!on->t.nbrought) return;
    LLVMBasicBlockRef after = on_once_begin(on);
    on_load_begin(on, BAR_E, at, i32c(l, on->t.brought_bytes));
    Val to = buffer(on, at.stage), full = on_full(on, BAR_E, at.stage);
    for (int k = 0; k < on->t.nbrought; k++) {
        const MmaStaged *s = &on->t.brought[k];
        Val coord[5], first;
        wg_coords(&on->w, s->inst, coord);
        first = coord[0];
        for (int c = 0; c < on->t.j; c += s->box) {
            Val box = LLVMBuildAdd(l->b, to, i32c(l, s->at + c / s->box * box_bytes(on, s)), "");
            coord[0] = LLVMBuildAdd(l->b, first, i32c(l, c), "");
            ptx_tma_load(l, ptx_map_address(l, on->w.kernel, on->map_e[k]), s->inst->nix, coord,
                         box, full, s->evict, 0, on->lead);
        }
    }
    on_once_end(on, after);
}

/* ---- the groups ---- */

void on_bring_places(On *on) {
    Lower *l = on->l;
    for (int k = 0; k < on->t.nbrought; k++) {
        const MmaStaged *s = &on->t.brought[k];
        Val group = on_rows_by(on, 64 * s->swizzle);
        on->place_e[k] = LLVMBuildAdd(l->b, wg_place_in_box(&on->w, s), group, "");
    }
}

void on_brought_wait(On *on, OnBlock *b, Ring at) {
    if (!on->t.nbrought) return;
    b->stage = at.stage;
    b->brought = buffer(on, at.stage);
    ptx_mbar_wait(on->l, on_full(on, BAR_E, at.stage), at.phase);
}

Frag on_brought_words(On *on, const OnBlock *b, const OnSlab *p, const MmaStaged *s) {
    Lower *l = on->l;
    Frag f = frag_new(l, axis_bit(on->o.rows) | axis_bit(on->o.j));
    Val pair[2 * ROWS_HELD];
    int n;
    for (int j = p->from / 8; j < (p->from + p->cols) / 8; j += n) { /* 2 of every 8 */
        bool two = s->size == 2 && j % 2 == 0 && 8 * (j + 2) <= p->from + p->cols;
        n = two ? 2 : 1;
        int at = s->at + 8 * j / s->box * box_bytes(on, s);
        Val box = LLVMBuildAdd(l->b, b->brought, i32c(l, at), "");
        wg_read_box(&on->w, s, box, on->place_e[number(on, s)], 8 * j % s->box / 8, n, pair);
        for (int k = 0; k < f.n; k++) {
            int r = frag_coord(l, f.mask, k, on->o.rows), c = frag_coord(l, f.mask, k, on->o.j);
            int of = c / 2 + p->from / 8 - j;
            if (c % 2 == 0 && of >= 0 && of < n) f.v[k] = pair[2 * r + of];
        }
    }
    return f;
}

/* The fence: TMA may otherwise overwrite what ldmatrix has yet to read. */
void on_brought_done(On *on, const OnBlock *b) {
    ptx_fence_async(on->l);
    ptx_sync_warp(on->l);
    ptx_mbar_arrive(on->l, on_empty(on, BAR_E, b->stage), on->w.lane0);
}

/* ---- stores ---- */

Ring on_brought_leave(On *on, Ring at) {
    Lower *l = on->l;
    if (!on->t.over_brought) return at;
    Val free = LLVMBuildXor(l->b, at.phase, i32c(l, 1), "");
    ptx_mbar_wait(l, on_empty(on, BAR_E, at.stage), free);
    ptx_mbar_arrive(l, on_full(on, BAR_E, at.stage), on->lead);
    return on_next(on, at, on->t.bring);
}

Val on_brought_lend(On *on, Ring at) {
    ptx_mbar_wait(on->l, on_full(on, BAR_E, at.stage), at.phase);
    return buffer(on, at.stage);
}

/* All have written, fenced that, and met; the leader, who arrives too, waits for the copies. */
Ring on_brought_return(On *on, Ring at) {
    ptx_bulk_wait_read(on->l, 0, on->w.leader);
    ptx_mbar_arrive(on->l, on_empty(on, BAR_E, at.stage), on->w.lane0);
    return on_next(on, at, on->t.bring);
}
