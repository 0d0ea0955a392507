/* online_part.c - a block of which a group's rows need the first columns alone: at upper bounds of
 * j that move with the rows. That part is multiplied and computed, the rest is not touched.
 *
 * It is the group's first block (they come from the last to the first), and half of it at most; the
 * way with the part is code of its own, as is that of the block after it, with which its products
 * are made: nothing that is multiplied may be conditional while something else is. The same for
 * lower bounds, at the group's last block, gained nothing (tests/bench/RESULTS.md).
 */
#include "backend/nvptx/online_step_int.h"

enum { STEP = 16 /* of k, in products */ };

OnPart on_all(const On *on) {
    return (OnPart){0, on->t.j};
}

static int half(const On *on) {
    return (on->t.j / 2 + STEP - 1) / STEP * STEP;
}

OnPart on_low_part(const On *on) {
    return (OnPart){0, half(on)};
}

/* Is x the row plus c, or the least of that and what is the same for all rows? */
static bool is_row_plus(const On *on, const Ix *x, int64_t *c) {
    const Ix *moves = NULL;
    int axis;
    if (x->kind == IX_MIN) {
        for (int k = 0; k < x->n; k++) {
            if (!online_moves(on->l->deps, x->arg[k], on->o.rows)) continue;
            if (moves) return false;
            moves = x->arg[k];
        }
        return moves && is_row_plus(on, moves, c);
    }
    *c = 0;
    if (ix_is_axis(x, &axis)) return axis == on->o.rows;
    return x->kind == IX_ADD && x->n == 2 && ix_is_const(x->arg[1], c) &&
           ix_is_axis(x->arg[0], &axis) && axis == on->o.rows;
}

bool on_hangs_once(const On *on) {
    int rows = on->by_group ? 64 : on->t.out.m;
    int64_t c;
    return is_row_plus(on, on->o.loop->hi, &c) && on->t.j % rows == 0 && (c - 1) % rows == 0;
}

void on_part_facts(On *on) {
    bool one = on->t.out.groups == 1 || on->t.beside; /* bounds of a tile are those of its rows */
    on->part_hi = (one || on->by_group) && !on->t.sync && !on->t.out.picked && !on->t.nbrought &&
                  on->t.out.split == 1 && half(on) < on->t.j && on_hangs_once(on);
}

void on_part_bounds(On *on, OnRange *x, Val hi) {
    Lower *l = on->l;
    if (!on->part_hi) return;
    Val last = LLVMBuildSub(l->b, x->end, i32c(l, 1), "");
    Val used = LLVMBuildSub(l->b, hi, LLVMBuildMul(l->b, last, i32c(l, on->t.j), ""), "");
    x->low = LLVMBuildICmp(l->b, LLVMIntSLE, used, i32c(l, half(on)), "");
}
