// What comes of bytes that a wgmma should not have read. A tile may be narrower than the 64 rows of
// A, or end beyond a tensor: what its other rows or columns hold is then of no consequence, and
// bytes that nothing wrote, that are under way or of another matrix are no fault there. So such a
// fault is kept, and the sums that it went into are followed through the registers of their lanes
// and through shared memory; it is reported when one of them is stored to a tensor.
//
// Two values in one register are bad if both are. Not followed are scratch memory, where kernels
// that split a sum store whole tiles; what crosses lanes otherwise than by shfl and shared memory
// (ldmatrix); predicates.
#ifndef RUNTIME_EMU_POISON_INT_H
#define RUNTIME_EMU_POISON_INT_H

#include "runtime/emu/race_int.h"

// Of a register, by lanes.
static inline uint32_t *poison_at(const Warp *w, const Opd *o) {
    return &w->poison[o->at / (4 * LANES)];
}

// In front of an instruction of a warp that has some.
Step poison_step(Warp *w, const Ins *i, uint32_t m);
// A shuffle: lanes m have the values of lanes `from` of operand `a`.
void poison_shuffle(Warp *w, uint32_t m, const Opd *to, const Opd *a, const uint8_t *from);
// Behind one that loaded some.
void poison_loaded(Warp *w, const Ins *i, uint32_t m);
void poison_settle(Warp *w); // is any left?

#endif
