/* wgmma_store.c - stores through shared memory: wide, asynchronous, cut at edges by TMA.
 *
 * A chunk is some columns of all rows of a group, for every staged store. Its values are made first
 * and held as packed pairs of neighbours; then
 *     the leader waits until the chunk's place in the ring is no longer read (its bulk groups),
 *     barrier; all write, swizzled as TMA wants it; each fences its writes for the async proxy,
 *     barrier; the leader copies box by box and commits them as one group.
 * Nobody waits for the copies but the next user of the place, and the end of the kernel.
 *
 * In a box, rows have `swizzle` bytes; bits 4.. of an address are xored with bits 7.. as far as the
 * swizzle goes (3 bits for 128 bytes, 2 for 64, 1 for 32). What is xored depends on the row modulo
 * 8 alone, so a thread's place is P ^ (bytes of 8 columns * j) for the j-th 8 columns of a box.
 * 16-bit pairs go by stmatrix: of four 8 x 8 matrices (rows h = 0, 1 x 8 columns j, j + 1), lane t
 * names row t % 8 of matrix t / 8. Others are stored by the thread that holds them.
 */
#include "backend/nvptx/wgmma_int.h"

enum { GROUP_BAR = 3, GROUP = 128 }; /* named barrier of group 0, its threads */

const MmaStaged *wg_staged(const Wg *w, const TInst *i) {
    for (int k = 0; k < w->t.nstaged; k++)
        if (w->t.staged[k].inst == i) return &w->t.staged[k];
    return NULL;
}

static int index_of(const Wg *w, const MmaStaged *s) {
    return (int)(s - w->t.staged);
}

static Val *pair_at(Wg *w, int staged, int row, int j) {
    return &w->pairs[staged][row * (w->t.chunk / 8) + j];
}

void wg_hold(Wg *w, const MmaStaged *s, int from) {
    Lower *l = w->l;
    const TTensor *t = &l->t->tensors.v[s->inst->tensor];
    Frag v = value_of(l, s->inst->args[0]);
    int rows = l->axis[w->m.rows].count, cols = l->axis[w->m.cols].count;
    int inner = w->m.cols < w->m.rows ? rows : 1; /* from a column to the next */
    AxisSet mask = axis_bit(w->m.rows) | axis_bit(w->m.cols);
    for (int k = 0; k < rows * cols; k++) {
        int c = frag_coord(l, mask, k, w->m.cols);
        if (c % 2) continue;
        Val lo = stored_bits(l, s->inst, t, v.v[frag_at(l, mask, k, v.mask)]);
        Val hi = stored_bits(l, s->inst, t, v.v[frag_at(l, mask, k + inner, v.mask)]);
        *pair_at(w, index_of(w, s), frag_coord(l, mask, k, w->m.rows), from / 8 + c / 2) =
            type_bits_pair(l, t->type, lo, hi);
    }
}

Val wg_place_in_box(Wg *w, const MmaStaged *s) {
    Lower *l = w->l;
    LLVMBuilderRef b = l->b;
    Val lane = LLVMBuildAnd(b, w->tid, i32c(l, 31), ""), row, byte;
    if (s->size == 2) { /* stmatrix, ldmatrix */
        row = LLVMBuildAnd(b, lane, i32c(l, 15), "");
        byte = LLVMBuildShl(b, LLVMBuildLShr(b, lane, i32c(l, 4), ""), i32c(l, 4), "");
    } else {
        row = LLVMBuildLShr(b, lane, i32c(l, 2), "");
        byte = LLVMBuildMul(b, w->col, i32c(l, s->size), "");
    }
    int rows_log = s->swizzle == 128 ? 0 : s->swizzle == 64 ? 1 : 2; /* rows in 128 bytes */
    Val x = LLVMBuildLShr(b, LLVMBuildAnd(b, row, i32c(l, 7), ""), i32c(l, rows_log), "");
    x = LLVMBuildShl(b, x, i32c(l, 4), "");
    Val warp = LLVMBuildAnd(b, LLVMBuildLShr(b, w->tid, i32c(l, 5), ""), i32c(l, 3), "");
    row = LLVMBuildAdd(b, LLVMBuildShl(b, warp, i32c(l, 4), ""), row, "");
    Val at = LLVMBuildMul(b, row, i32c(l, s->swizzle), "");
    return LLVMBuildAdd(b, at, LLVMBuildXor(b, byte, x, ""), "");
}

/* The pairs of all rows in 8 columns (16 with stmatrix), the j-th 8 of a box. */
static void write_columns(Wg *w, const MmaStaged *s, Val box, Val p, int j, int first) {
    Lower *l = w->l;
    int k = index_of(w, s), blocks = w->t.group_rows / 64, at8 = first + j;
    Val at = LLVMBuildXor(l->b, p, i32c(l, 8 * s->size * j), "");
    at = LLVMBuildAdd(l->b, box, at, "");
    for (int m = 0; m < blocks; m++) {
        Val to = LLVMBuildAdd(l->b, at, i32c(l, m * 64 * s->swizzle), "");
        if (s->size == 2) {
            Val v[4] = {*pair_at(w, k, 2 * m, at8), *pair_at(w, k, 2 * m + 1, at8),
                        *pair_at(w, k, 2 * m, at8 + 1), *pair_at(w, k, 2 * m + 1, at8 + 1)};
            ptx_stmatrix4(l, to, v);
            continue;
        }
        for (int h = 0; h < 2; h++) {
            Val row = LLVMBuildAdd(l->b, to, i32c(l, h * 8 * s->swizzle), "");
            ptx_store_shared(l, 2 * s->size, row, *pair_at(w, k, 2 * m + h, at8));
        }
    }
}

int wg_box_bytes(const Wg *w, const MmaStaged *s) {
    return w->t.group_rows * s->swizzle;
}

static void write_chunk(Wg *w, const MmaStaged *s, Val slab) {
    Lower *l = w->l;
    Val p = wg_place_in_box(w, s);
    for (int c = 0; c < w->t.chunk; c += s->box) {
        Val box = LLVMBuildAdd(l->b, slab, i32c(l, s->at + c / s->box * wg_box_bytes(w, s)), "");
        for (int j = 0; j < s->box / 8; j += s->size == 2 ? 2 : 1)
            write_columns(w, s, box, p, j, c / 8);
    }
}

static void copy_chunk(Wg *w, const MmaStaged *s, Val slab, Val row, Val col, Val pred) {
    Lower *l = w->l;
    const TInst *i = s->inst;
    Val map = ptx_map_address(l, w->kernel, w->map_out[index_of(w, s)]), coord[5];
    for (int d = 0; d + 1 < i->nix; d++) {
        Val *to = &coord[i->nix - 1 - d];
        *to = row;
        if (d == s->row) continue;
        Frag x = frag_ix(l, i->ix[d]);
        *to = LLVMBuildTrunc(l->b, frag_only(&x, "a coordinate"), l->i32, "");
    }
    for (int c = 0; c < w->t.chunk; c += s->box) {
        Val from = LLVMBuildAdd(l->b, slab, i32c(l, s->at + c / s->box * wg_box_bytes(w, s)), "");
        coord[0] = LLVMBuildAdd(l->b, col, i32c(l, c), "");
        ptx_tma_store(l, map, i->nix, coord, from, pred);
    }
}

void wg_meet(Wg *w) {
    ptx_bar_sync(w->l, LLVMBuildAdd(w->l->b, w->group, i32c(w->l, GROUP_BAR), ""), GROUP);
}

void wg_write(Wg *w, Val slab) {
    for (int k = 0; k < w->t.nstaged; k++)
        if (wg_is_for(w, w->t.staged[k].of)) write_chunk(w, &w->t.staged[k], slab);
    ptx_fence_async(w->l);
}

void wg_copy(Wg *w, Val slab, Val row, Val col, Val pred) {
    for (int k = 0; k < w->t.nstaged; k++)
        if (wg_is_for(w, w->t.staged[k].of)) copy_chunk(w, &w->t.staged[k], slab, row, col, pred);
    ptx_bulk_commit(w->l, pred);
}

void wg_flush(Wg *w, Val row, Val col, Val slot, int pending) {
    Lower *l = w->l;
    Val place; /* over a factor, that of all groups comes piece by piece */
    if (w->t.over)
        place = wg_at_stage(w, w->group, slot, w->t.groups);
    else
        place = wg_at_stage(w, slot, w->group, w->t.ring);
    place = LLVMBuildMul(l->b, place, i32c(l, w->t.chunk_bytes), "");
    Val slab = LLVMBuildAdd(l->b, w->slabs, place, "");
    ptx_bulk_wait_read(l, pending, w->leader);
    wg_meet(w);
    wg_write(w, slab);
    wg_meet(w);
    wg_copy(w, slab, row, col, w->leader);
}
