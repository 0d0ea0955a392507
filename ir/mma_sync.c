/* mma_sync.c - what the tier of cp.async and mma.sync makes of a schedule (schedule.h): which warp
 * has what of a tile, how a stage lies in shared memory, which thread copies what of it.
 *
 * A stage of a factor is lines side by side: K-major one row's k, as long as the stage is deep;
 * MN-major one k of a box of rows, as wide as the swizzle. A thread copies 16 bytes of each
 * `apart`-th line: all its copies are at constant distances, in memory and in the stage, and have
 * the same place in their lines' swizzle, which repeats every 8 lines. Of a plain factor, which may
 * lie anywhere, it is an element, read to a register a stage ahead and written from there.
 */
#include "ir/mma_int.h"
#include "ir/target.h"

#define no mma_no

enum { CHUNK = 16, SIZE = 2, ROWS = 16, COLS = 16, REGS = 65536, REGS_MOST = 255, OTHERS = 56 };

static bool nothing_else(const Schedule *s, Str *why) {
    if (s->roles.n) return no(why, "with mma.sync all warps do the same: there are no roles");
    if (s->cluster[0] > 1 || s->cluster[1] > 1 || s->cluster[2] > 1)
        return no(why, "cp.async knows no clusters");
    if (s->promote || s->pieces || s->sets || s->pingpong || s->turns || s->dynamic || s->halves)
        return no(why, "mma.sync has neither promotion nor turns");
    return true;
}

/* Registers: the sums, two sets of what a step of 16 k multiplies, and all others. */
static bool share(const Schedule *s, const Mma *m, MmaTiles *w, Str *why) {
    int warps = w->warp_rows * w->warp_cols;
    if (s->threads != 32 * warps || warps < 2 || warps > 16)
        return no(why, "%d threads for %d warps, of which there are 2 to 16", s->threads, warps);
    if (w->m % (w->warp_rows * ROWS) || w->n % (w->warp_cols * COLS))
        return no(why, "a tile of %d x %d does not cut into %d x %d warps of %d x %d each", w->m,
                  w->n, w->warp_rows, w->warp_cols, ROWS, COLS);
    w->groups = 1;
    w->block_rows = ROWS;
    w->group_rows = w->m / w->warp_rows, w->group_cols = w->n / w->warp_cols;
    w->blocks = w->group_rows / ROWS * w->a.parts, w->width = w->group_cols * w->b.parts;
    int sums = w->group_rows * w->group_cols / 32 * m->sums;
    int pairs = 4 * w->blocks + w->width / 4;
    int most = REGS / s->threads / 8 * 8;
    w->mma_regs = most < REGS_MOST ? most : REGS_MOST;
    w->spare = w->mma_regs - sums - 2 * pairs - OTHERS;
    if (w->spare < 0)
        return no(why, "%d sums and %d words of factors in %d registers", sums, 2 * pairs,
                  w->mma_regs);
    return true;
}

MmaCopies mma_copies(const MmaSmem *s, int threads) {
    MmaCopies c = {.chunk = s->plain ? SIZE : CHUNK};
    c.per_line = s->swizzle / c.chunk;
    c.apart = threads / c.per_line;
    c.n = s->part / s->swizzle / c.apart;
    return c;
}

static bool lay(const TProg *t, const Schedule *s, const MmaFactor *f, int rows, int k, MmaSmem *x,
                Str *why) {
    const char *name = t->tensors.v[f->load->tensor].name;
    int size = dtype_bits(f->type) / 8;
    if (f->outer >= 0) return no(why, "%s has k in two dimensions, which only TMA brings", name);
    if (x->swizzle != 32 && x->swizzle != 64 && x->swizzle != 128)
        return no(why, "%s has lines of %d bytes; 32, 64 and 128 are right", name, x->swizzle);
    x->mn = !f->k_major;
    if (!x->mn && x->swizzle != k * size)
        return no(why, "%s has lines of %d bytes for %d k", name, x->swizzle, k);
    x->box = x->mn ? x->swizzle / size : rows;
    if (rows % x->box)
        return no(why, "%d rows of %s do not cut into boxes of %d", rows, name, x->box);
    x->boxes = rows / x->box;
    x->box_bytes = (x->mn ? k : rows) * x->swizzle;
    x->part = x->boxes * x->box_bytes;
    x->bytes = x->parts * x->part;
    MmaCopies c = mma_copies(x, s->threads);
    bool even = c.apart % 8 == 0 && c.n && c.n * c.apart * x->swizzle == x->part;
    if (even && x->mn) even = k % c.apart == 0 || c.apart % k == 0;
    return even ||
           no(why, "%d threads do not share %d bytes of %s evenly", s->threads, x->part, name);
}

/* K-major k is whole chunks and begins at one; MN-major rows. */
static bool begins(const Mma *m, bool rows, const MmaSmem *x, Str *why) {
    int unit;
    for (int n = 0; n < mma_factors(m, rows); n++) {
        const TInst *load = mma_factor_at(m, rows, n)->load;
        if (!x->plain && !mma_begins(m, load, &unit))
            return no(why, "%s begins at no multiple of 16 bytes",
                      m->t->tensors.v[load->tensor].name);
    }
    return true;
}

bool mma_sync_fits(const TProg *t, const Schedule *s, const Mma *m, MmaTiles *w, Str *why) {
    if (!nothing_else(s, why) || !share(s, m, w, why)) return false;
    if (m->size != 2) return no(why, "mma.sync multiplies bf16 and f16 here");
    if (m->nest.blocks) return no(why, "blocks that are reduced are wgmma's");
    if (w->k != 32 && w->k != 64) return no(why, "a stage has 32 or 64 of k, not %d", w->k);
    if (!lay(t, s, &m->a, w->m, w->k, &w->a, why) || !lay(t, s, &m->b, w->n, w->k, &w->b, why) ||
        !begins(m, true, &w->a, why) || !begins(m, false, &w->b, why))
        return false;
    int ahead = (w->a.plain ? w->a.parts * mma_copies(&w->a, s->threads).n : 0) +
                (w->b.plain ? w->b.parts * mma_copies(&w->b, s->threads).n : 0);
    if (ahead > w->spare)
        return no(why, "%d elements on their way in %d registers", ahead, w->spare);
    if (s->values.n != 1 + m->sums) return no(why, "only the factors are in shared memory");
    w->pair_rows = w->pair_cols = w->walk = 1;
    w->stage_bytes = w->a.bytes + w->b.bytes;
    w->smem = w->stages * w->stage_bytes;
    const Target *target = target_named(s->target);
    if (target && w->smem > target->smem)
        return no(why, "%d bytes of shared memory, %s has %d", w->smem, s->target, target->smem);
    if (!mma_read_split(s, w, why)) return false;
    int blocks = w->group_rows / ROWS * m->sums;
    return w->split == 1 || blocks <= MMA_JOINED ||
           no(why, "%d blocks of rows of all sums, of parts at most %d", blocks, MMA_JOINED);
}
