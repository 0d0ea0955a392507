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

typedef struct Shift {
    const TProg *from;
    const Ix **axis; /* per axis of `from`, the same one now */
} Shift;

static const Ix *shifted(const void *view, const Ix *x) {
    const Shift *s = view;
    return ix_at(s->from->ix, x, s->axis, s->from->axes.n);
}

TProg *schedule_with_row(const TProg *t) {
    TAxis row = {"row", ix_const(t->ix, 1), true, 1};
    Shift s = {t, ARENA_ARRAY(t->arena, const Ix *, t->axes.n)};
    for (int k = 0; k < t->axes.n; k++) s.axis[k] = ix_axis(t->ix, k + 1);
    return schedule_view(t, 0, row, shifted, &s);
}
