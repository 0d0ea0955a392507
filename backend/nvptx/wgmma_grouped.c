/* wgmma_grouped.c - several products of one kernel, each with tiles of its own. Tiles are numbered
 * as if the products' columns were side by side (wgmma_tile.c), so that those of one group of rows
 * follow each other and find their common factor in the cache. The main loop is the same for all,
 * and takes the tensor map of the tile's product; what follows it is there for each.
 */
#include "backend/nvptx/wgmma_int.h"

void wg_grouped_init(Wg *w) {
    Str why = {0};
    w->only = ~0u;
    if (w->t.products <= 1) return;
    w->of = ARENA_ARRAY(w->l->arena, unsigned, w->l->t->body.inst.n);
    bool apart = mma_apart(&w->m, w->of, &why);
    FK_ASSERT(apart);
    str_free(&why);
}

bool wg_is_for(const Wg *w, unsigned of) {
    return !w->of || (of & w->only);
}

bool wg_inst_is_for(const Wg *w, int k) {
    return !w->of || (w->of[k] & w->only);
}

Val wg_map_of_product(Wg *w, const int *map, int n) {
    Lower *l = w->l;
    Val at = ptx_map_address(l, w->kernel, map[0]);
    for (int p = 1; p < n; p++) {
        Val is = LLVMBuildICmp(l->b, LLVMIntEQ, w->product, i32c(l, p), "");
        at = LLVMBuildSelect(l->b, is, ptx_map_address(l, w->kernel, map[p]), at, "");
    }
    return at;
}

void wg_each_product(Wg *w, void (*emit)(Wg *w, void *ctx), void *ctx) {
    Lower *l = w->l;
    if (!w->of || w->only != ~0u) { /* one, or inside of the code of one */
        emit(w, ctx);
        return;
    }
    LLVMBasicBlockRef after = block_new(l, "product.done");
    Map narrow = l->narrow, wide = l->wide; /* what is known in one branch only */
    for (int p = 0; p < w->t.products; p++) {
        LLVMBasicBlockRef here = block_new(l, "product"), next = after;
        if (p + 1 < w->t.products) {
            next = block_new(l, "another");
            Val is = LLVMBuildICmp(l->b, LLVMIntEQ, w->product, i32c(l, p), "");
            LLVMBuildCondBr(l->b, is, here, next);
        } else {
            LLVMBuildBr(l->b, here);
        }
        block_enter(l, here);
        l->narrow = l->wide = (Map){.arena = l->arena};
        w->only = 1u << p;
        emit(w, ctx);
        LLVMBuildBr(l->b, after);
        block_enter(l, next);
    }
    w->only = ~0u;
    l->narrow = narrow, l->wide = wide;
}
