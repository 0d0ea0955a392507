/* wgmma_bring.c - loads after the loop whose elements TMA brought into the slab at hand: read as
 * the accumulator lies, pairs of neighbours at once, the way wgmma_store.c writes them: 16-bit ones
 * by ldmatrix, others by the thread that wants them. */
#include "backend/nvptx/wgmma_int.h"

const MmaStaged *wg_brought(const Wg *w, const TInst *i) {
    for (int k = 0; k < w->t.nbrought; k++)
        if (w->t.brought[k].inst == i) return &w->t.brought[k];
    return NULL;
}

void wg_read_box(Wg *w, const MmaStaged *s, Val box, Val p, int j, int n, Val *pair) {
    Lower *l = w->l;
    int blocks = w->t.group_rows / 64;
    Val at = LLVMBuildXor(l->b, p, i32c(l, 8 * s->size * j), "");
    at = LLVMBuildAdd(l->b, box, at, "");
    for (int m = 0; m < blocks; m++) {
        Val from = LLVMBuildAdd(l->b, at, i32c(l, m * 64 * s->swizzle), "");
        if (s->size == 2) {
            Val v[4];
            ptx_ldmatrix(l, 2 * n, false, from, 0, v);
            for (int k = 0; k < n; k++)
                for (int h = 0; h < 2; h++) pair[2 * (2 * m + h) + k] = v[2 * k + h];
            continue;
        }
        for (int h = 0; h < 2; h++) {
            Val row = LLVMBuildAdd(l->b, from, i32c(l, h * 8 * s->swizzle), "");
            pair[2 * (2 * m + h)] = ptx_load_shared(l, 2 * s->size, row);
        }
    }
}

/* The same from column c of the slab at hand. */
static void read_columns(Wg *w, const MmaStaged *s, Val p, int c, int n, Val *pair) {
    Lower *l = w->l;
    Val box = LLVMBuildAdd(l->b, w->slab, i32c(l, s->at + c / s->box * wg_box_bytes(w, s)), "");
    wg_read_box(w, s, box, p, c % s->box / 8, n, pair);
}

/* One of a pair. */
static Val half(Lower *l, const MmaStaged *s, Val pair, int which) {
    Ty one = LLVMIntTypeInContext(l->cx, 8 * (unsigned)s->size);
    if (which)
        pair =
            LLVMBuildLShr(l->b, pair, LLVMConstInt(LLVMTypeOf(pair), 8 * (unsigned)s->size, 0), "");
    Val bits = LLVMBuildTrunc(l->b, pair, one, "");
    return type_from_bits(l, l->t->tensors.v[s->inst->tensor].type, bits);
}

void wg_read(Wg *w, const MmaStaged *s, int from) {
    Lower *l = w->l;
    AxisSet mask = axis_bit(w->m.rows) | axis_bit(w->m.cols);
    int rows = l->axis[w->m.rows].count, cols = l->axis[w->m.cols].count;
    Frag f = frag_new(l, mask);
    Val p = wg_place_in_box(w, s);
    Val *pair = ARENA_ARRAY(l->arena, Val, 2 * rows);
    for (int j = 0, n; j < cols / 2; j += n) { /* 2 of every 8 */
        n = s->size == 2 && j + 1 < cols / 2 && (from / 8 + j) % 2 == 0 ? 2 : 1;
        read_columns(w, s, p, from + 8 * j, n, pair);
        for (int k = 0; k < f.n; k++) {
            int r = frag_coord(l, mask, k, w->m.rows), c = frag_coord(l, mask, k, w->m.cols);
            if (c / 2 >= j && c / 2 < j + n) f.v[k] = half(l, s, pair[2 * r + c / 2 - j], c % 2);
        }
    }
    l->value[s->inst->id] = f;
}
