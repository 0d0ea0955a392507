/* mma_parts.c - how the loop of products, or that over blocks of ir/online.h, is split over CTAs.
 * Tiles that fill whole rounds of the multiprocessors are made whole. What is left, the last round,
 * would keep only some of them busy: its tiles are cut along k into equal parts, as many as there
 * is room for, each of PART_LEAST stages at least. All of it follows from sizes and the target, so
 * the sums of a tile are the same wherever and whenever they are made.
 */
#include "ir/mma.h"

enum { PART_LEAST = 4 };

MmaParts mma_parts(IxPool *p, const Ix *tiles, const Ix *k_tiles, int slots, int most) {
    const Ix *one = ix_const(p, 1), *n = ix_const(p, slots);
    const Ix *left = ix_mod(p, tiles, n);
    const Ix *room = ix_div(p, n, ix_max(p, left, one));
    const Ix *deep = ix_max(p, ix_div(p, k_tiles, ix_const(p, PART_LEAST)), one);
    const Ix *parts = ix_min(p, ix_min(p, room, deep), ix_const(p, most));
    MmaParts x = {.parts = parts};
    x.cut = ix_mul(p, left, ix_min(p, ix_sub(p, parts, one), one));
    x.whole = ix_sub(p, tiles, x.cut);
    x.items = ix_add(p, x.whole, ix_mul(p, x.cut, parts));
    return x;
}
