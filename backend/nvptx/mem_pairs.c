/* mem_pairs.c - loads of two neighbours at once, which stay words until they are used. Whether rows
 * are aligned for that is known at the launch: where not, each element is loaded alone, in a branch
 * that is the same for all threads.
 */
#include "backend/nvptx/mem_int.h"
#include "backend/nvptx/ptx_int.h"

bool load_is_paired(const Lower *l, const TInst *i) {
    const TTensor *t = &l->t->tensors.v[i->tensor];
    int bits = dtype_bits(t->type), axis = mem_paired_axis(l, i, t);
    if (axis < 0 || i->checked || (bits != 16 && bits != 32)) return false;
    for (int d = 0; d + 1 < i->nix; d++)
        if (tile_ix_deps(l->deps, i->ix[d]) & axis_bit(axis)) return false;
    return true;
}

typedef struct PairLoad {
    Lower *l;
    int size; /* bytes of an element */
    Val ptr;
    int64_t offset;
    Val in_lo, in_hi; /* NULL: there */
} PairLoad;

static Val wide(const PairLoad *p, Val v) {
    return LLVMBuildZExt(p->l->b, v, p->size == 2 ? p->l->i32 : p->l->i64, "");
}

/* At once, where the second is there; else the first alone. */
static Val load_together(const PairLoad *p) {
    Lower *l = p->l;
    Val word = ptx_load_at(l, 2 * p->size, p->ptr, p->offset, p->in_hi);
    if (p->in_lo == p->in_hi) return word;
    Val lone = mem_and(l, p->in_lo, LLVMBuildNot(l->b, p->in_hi, ""));
    lone = ptx_load_at(l, p->size, p->ptr, p->offset, lone);
    return LLVMBuildOr(l->b, word, wide(p, lone), "");
}

static Val load_apart(const PairLoad *p) {
    Lower *l = p->l;
    Val lo = wide(p, ptx_load_at(l, p->size, p->ptr, p->offset, p->in_lo));
    Val hi = wide(p, ptx_load_at(l, p->size, p->ptr, p->offset + p->size, p->in_hi));
    Val by = LLVMConstInt(LLVMTypeOf(hi), 8 * (unsigned)p->size, 0);
    return LLVMBuildOr(l->b, LLVMBuildShl(l->b, hi, by, ""), lo, "");
}

Frag emit_load_words(Lower *l, const TInst *i) {
    const TTensor *t = &l->t->tensors.v[i->tensor];
    int axis = mem_paired_axis(l, i, t), size = dtype_bits(t->type) / 8;
    AxisState all = l->axis[axis];
    l->axis[axis].count = 1; /* of the first element; the rest are at constant distances */
    Address at = mem_address(l, t, i->ix, i->nix, 0);
    l->axis[axis] = all;
    AxisSet deps = l->deps[i->id], raw = 0;
    for (int a = 0; a < l->t->axes.n; a++)
        if (l->axis[a].open && l->axis[a].raw) raw |= deps & axis_bit(a);
    Frag f = frag_new(l, at.off.mask | axis_bit(axis) | frag_live(l, raw)), apart = f;
    apart.v = ARENA_ARRAY(l->arena, Val, f.n);
    int inner = mem_neighbour(l, f.mask, axis);
    LLVMBasicBlockRef two = block_new(l, "pairs"), one = block_new(l, "apart");
    LLVMBasicBlockRef after = block_new(l, "loaded"), from[2];
    LLVMBuildCondBr(l->b, mem_rows_aligned(l, t, at.base, 2 * size), two, one);
    for (int lone = 0; lone < 2; lone++) {
        block_enter(l, lone ? one : two);
        for (int k = 0; k < f.n; k++) {
            int c = frag_coord(l, f.mask, k, axis);
            if (c % 2) continue;
            Val off = at.off.v[frag_at(l, f.mask, k, at.off.mask)];
            PairLoad p = {l,
                          size,
                          LLVMBuildGEP2(l->b, l->i8, at.base, &off, 1, ""),
                          all.step[c] * size,
                          mem_in_range(l, raw, f.mask, k),
                          mem_in_range(l, raw, f.mask, k + inner)};
            if (lone)
                apart.v[k] = load_apart(&p);
            else
                f.v[k] = load_together(&p);
        }
        from[lone] = LLVMGetInsertBlock(l->b);
        LLVMBuildBr(l->b, after);
    }
    block_enter(l, after);
    for (int k = 0; k < f.n; k++) {
        if (!f.v[k]) continue;
        Val in[2] = {f.v[k], apart.v[k]};
        f.v[k] = LLVMBuildPhi(l->b, LLVMTypeOf(in[0]), "");
        LLVMAddIncoming(f.v[k], in, from, 2);
    }
    return f;
}

Frag load_of_words(Lower *l, const TInst *i, const Frag *words) {
    const TTensor *t = &l->t->tensors.v[i->tensor];
    int axis = mem_paired_axis(l, i, t), bits = dtype_bits(t->type);
    int inner = mem_neighbour(l, words->mask, axis);
    Ty half = LLVMIntTypeInContext(l->cx, (unsigned)bits);
    Frag f = frag_new(l, words->mask);
    for (int k = 0; k < f.n; k++) {
        bool second = frag_coord(l, f.mask, k, axis) % 2;
        Val word = words->v[second ? k - inner : k];
        Val by = LLVMConstInt(LLVMTypeOf(word), (unsigned)bits, 0);
        if (second) word = LLVMBuildLShr(l->b, word, by, "");
        f.v[k] = type_from_bits(l, t->type, LLVMBuildTrunc(l->b, word, half, ""));
    }
    return f;
}
