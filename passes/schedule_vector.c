/* schedule_vector.c - a program whose loop sums products of a matrix and a vector, as one whose
 * vector is a matrix of one row:
 *
 *     grid n                                        grid row: 1, n
 *     loop k { carry s; step s, w[n, k] * x[k] }    loop k { .. the same .. }
 *     store y[n], s                                 store y[n], s
 *
 * The first axis of the grid, of one position, is new, and nothing reads it: what was axis a is
 * a + 1. The wgmma tier asks for it (ir/mma.h); to all others it means nothing.
 */
#include "passes/schedule_int.h"

#include <string.h>

typedef struct Shift {
    const TProg *from;
    const Ix **axis; /* per axis of `from`, the same one now */
} Shift;

static const Ix *shifted(const Shift *s, const Ix *x) {
    return x ? ix_at(s->from->ix, x, s->axis, s->from->axes.n) : NULL;
}

static TBlock copied(const Shift *s, const TBlock *b) {
    Arena *a = s->from->arena;
    TBlock to = {0};
    for (int k = 0; k < b->inst.n; k++) {
        const TInst *i = b->inst.v[k];
        TInst *c = ARENA_NEW(a, TInst);
        *c = *i;
        c->ix = ARENA_ARRAY(a, const Ix *, i->nix);
        for (int d = 0; d < i->nix; d++) c->ix[d] = shifted(s, i->ix[d]);
        if (i->kind == T_LOOP) c->axis = i->axis + 1;
        c->lo = shifted(s, i->lo), c->hi = shifted(s, i->hi);
        c->body = copied(s, &i->body);
        vec_push(a, &to.inst, c);
    }
    return to;
}

TProg *schedule_with_row(const TProg *t) {
    Arena *a = t->arena;
    TAxis row = {"row", ix_const(t->ix, 1), true, 1};
    Shift s = {t, ARENA_ARRAY(a, const Ix *, t->axes.n)};
    TProg *to = ARENA_NEW(a, TProg);
    *to = *t;
    memset(&to->axes, 0, sizeof to->axes);
    vec_push(a, &to->axes, row);
    to->ngrid++;
    for (int k = 0; k < t->axes.n; k++) {
        s.axis[k] = ix_axis(t->ix, k + 1);
        vec_push(a, &to->axes, t->axes.v[k]);
    }
    to->body = copied(&s, &t->body);
    return to;
}
