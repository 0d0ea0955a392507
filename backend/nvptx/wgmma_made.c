/* wgmma_made.c - see wgmma_made_int.h. */
#include "backend/nvptx/wgmma_made_int.h"

const Val *wg_made_words(Wg *w, const MmaFactor *f, int n) {
    Lower *l = w->l;
    Frag v = value_of(l, f->value);
    DType from = l->type[f->value], type = f->type;
    Val *word = ARENA_ARRAY(l->arena, Val, n);
    for (int i = 0; i < n; i++) {
        Val half[2];
        for (int h = 0; h < 2; h++) {
            Val one = v.v[frag_at(l, axis_bit(w->m.k), 2 * i + h, v.mask)];
            half[h] = type_bits(l, type, type_convert(l, from, type, one));
        }
        word[i] = type_bits_pair(l, type, half[0], half[1]);
    }
    return word;
}

void wg_say_narrow(Wg *w, const Pairs *p, const TInst *i) {
    const PairInfo *x = &p->of[i->id];
    if (x->kind != PAIR_WHOLE || i->kind == T_CONST) return;
    Frag f = value_of(w->l, i->id);
    for (int e = 0; e < f.n; e++) narrow_real(w->l, f.v[e], x->lo, x->hi);
}
