/* mma_factor.c - how a factor of a product lies in its tensor: see mma.h. */
#include "ir/mma_int.h"

#define no mma_no

bool mma_is_lone(const TProg *t, int axis) {
    int64_t n;
    return ix_is_const(t->axes.v[axis].extent, &n) && n == 1;
}

/* k/c or k%c in dimension d, which takes all of its extent; c elements are whole stages. */
static bool is_piece(const TProg *t, const TTensor *x, int d, const Ix *ix, int k) {
    int axis;
    int64_t c;
    if ((ix->kind != IX_DIV && ix->kind != IX_MOD) || !ix_is_axis(ix->arg[0], &axis) || axis != k)
        return false;
    if (!ix_is_const(ix->arg[1], &c) || c < 1 || c * dtype_bits(x->type) % (8 * MMA_LINE))
        return false;
    if (ix->kind == IX_MOD) return x->dims[d] == ix->arg[1];
    return ix_mul(t->ix, x->dims[d], ix->arg[1]) == t->axes.v[k].extent;
}

bool mma_factor(const TProg *t, const TInst *load, int row, int k, int part, MmaFactor *f,
                Str *why) {
    const TTensor *x = &t->tensors.v[load->tensor];
    int pieces = 0;
    *f = (MmaFactor){.value = load->id, .load = load, .type = x->type};
    f->row = f->depth = f->outer = -1;
    if (x->rank > 5) return no(why, "%s has rank %d, above 5", x->name, x->rank);
    if (load->checked) return no(why, "%s is read outside its domain", x->name);
    for (int d = 0; d < load->nix; d++) {
        const Ix *ix = load->ix[d], *rest;
        int64_t coef;
        int axis;
        if (ix->has_value) return no(why, "%s is gathered", x->name);
        if (ix_uses_axis(ix, k)) {
            int *to = ix->kind == IX_DIV ? &f->outer : &f->depth;
            bool bare = ix_is_axis(ix, &axis);
            if (*to >= 0 || (!bare && !is_piece(t, x, d, ix, k)))
                return no(why, "%s does not read k bare and once", x->name);
            pieces += !bare;
            *to = d;
        } else if (ix_uses_axis(ix, row)) {
            if (f->row >= 0 || !ix_linear_in(t->ix, ix, row, &coef, &rest) || coef != 1)
                return no(why, "%s does not read its rows one after the other", x->name);
            f->row = d;
        }
    }
    f->vector = f->row < 0 && mma_is_lone(t, row);
    if (f->depth < 0 || (f->row < 0 && !f->vector))
        return no(why, "%s does not use both its axes", x->name);
    if (pieces != (f->outer >= 0 ? 2 : 0) ||
        (pieces && load->ix[f->depth]->arg[1] != load->ix[f->outer]->arg[1]))
        return no(why, "%s does not read k bare and once", x->name);
    if (!pieces && f->depth != part && x->dims[f->depth] != t->axes.v[k].extent)
        return no(why, "the loop covers a part of a dimension of %s", x->name);
    f->k_major = f->depth == x->rank - 1;
    if (f->vector && !f->k_major) f->row = x->rank - 1;
    if (!f->k_major && f->row != x->rank - 1)
        return no(why, "neither k nor the rows are the last dimension of %s", x->name);
    if (!f->k_major && dtype_bits(x->type) == 8)
        return no(why, "k is not the last dimension of %s, as fp8 needs it", x->name);
    return true;
}
