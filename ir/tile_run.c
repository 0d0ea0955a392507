/* tile_run.c - indices of an access that together are one axis, as one number is its digits.
 *
 * Axis f stands for axes of extents e0, e1, .. en (passes/collapse.c): index d of the first is
 * f / (e1 .. en), of the last f % en, of those between f / .. % ed. Where the tensor has those
 * dimensions one after the other, and its strides are as if they were one, they are one. Without
 * the first of them they are f % period.
 */
#include "ir/tile.h"

static const Ix *digit(IxPool *p, const Ix *f, const Ix *below, const Ix *extent) {
    const Ix *x = ix_div(p, f, below);
    return extent ? ix_mod(p, x, extent) : x;
}

/* The only axis in x; -1. */
static int axis_in(const TProg *t, const Ix *x) {
    int axis = -1;
    for (int a = 0; a < t->axes.n; a++) {
        if (!ix_uses_axis(x, a)) continue;
        if (axis >= 0) return -1;
        axis = a;
    }
    return axis;
}

bool tile_run(const TProg *t, const TInst *i, int to, TRun *r) {
    IxPool *p = t->ix;
    *r = (TRun){.from = to, .to = to, .axis = -1};
    if (to < 0 || to >= i->nix) return false;
    if (ix_is_axis(i->ix[to], &r->axis)) return true;
    const TTensor *x = &t->tensors.v[i->tensor];
    const Ix *below = ix_const(p, 1);
    r->axis = axis_in(t, i->ix[to]);
    if (r->axis < 0 || i->ix[to]->has_value) return false;
    const Ix *f = ix_axis(p, r->axis);
    for (int d = to; d >= 0; d--) {
        bool head = d < to && i->ix[d] == digit(p, f, below, NULL);
        if (!head && i->ix[d] != digit(p, f, below, x->dims[d])) break;
        r->from = d;
        below = ix_mul(p, below, x->dims[d]);
        r->period = head ? NULL : below;
        if (head) break;
    }
    return r->from < to || r->period;
}

const Ix *tile_run_index(const TProg *t, const TRun *r) {
    const Ix *f = ix_axis(t->ix, r->axis);
    return r->period ? ix_mod(t->ix, f, r->period) : f;
}

/* Steps of one at the bottom: x is the same for all of a block of neighbours if block divides what
 * the axis is divided by, which is noted. */
bool tile_by_blocks(const Ix *x, int axis, void (*note)(void *ctx, const Ix *divisor), void *ctx) {
    int a;
    if (!ix_uses_axis(x, axis)) return true;
    if (x->kind == IX_DIV && ix_is_axis(x->arg[0], &a) && !x->arg[1]->has_axis &&
        !x->arg[1]->has_value) {
        if (note) note(ctx, x->arg[1]);
        return true;
    }
    if (x->kind == IX_AXIS || x->kind == IX_VALUE) return false;
    for (int k = 0; k < x->n; k++)
        if (!tile_by_blocks(x->arg[k], axis, note, ctx)) return false;
    return true;
}

const Ix *tile_run_stride(const TProg *t, const TTensor *x, const TRun *r, int d) {
    const Ix *n = ix_const(t->ix, 1);
    for (int k = d + 1; k <= r->to; k++) n = ix_mul(t->ix, n, x->dims[k]);
    return n;
}
