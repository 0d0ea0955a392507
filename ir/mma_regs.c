/* mma_regs.c - a factor that is made in the registers of who multiplies (mma.h, schedule.h): what
 * of its loads comes to shared memory, as it lies in memory.
 *
 * Loads along k and the rows are brought by TMA, a line of each row: 32, 64 or 128 bytes, which is
 * its swizzle. All other loads must be the same for some k side by side (a group's scale, a value
 * of a row): they are read where they are used. Pieces of a stage along k have 64 elements, since
 * lines of the other factor have 128 bytes.
 */
#include "ir/mma_int.h"

#define no mma_no

enum {
    STEADY = 16,
    HELD = 32
}; /* elements of k of an instruction; values of a stage, of a thread */

bool mma_is_run(const TProg *t, const TInst *i, int k) {
    int axis;
    if (i->kind != T_LOAD || !i->nix || i->checked || !ix_is_axis(i->ix[i->nix - 1], &axis) ||
        axis != k || dtype_bits(t->tensors.v[i->tensor].type) > 32)
        return false;
    for (int d = 0; d + 1 < i->nix; d++)
        if (ix_uses_axis(i->ix[d], k)) return false;
    return true;
}

bool mma_is_steady(const Ix *x, int k, int n) {
    int axis;
    int64_t by;
    if (!ix_uses_axis(x, k)) return true;
    if (x->kind == IX_AXIS || x->has_value) return false;
    if (x->kind == IX_DIV && ix_is_axis(x->arg[0], &axis) && axis == k &&
        ix_is_const(x->arg[1], &by))
        return by > 0 && by % n == 0;
    for (int i = 0; i < x->n; i++)
        if (x->kind == IX_DIV || x->kind == IX_MOD || !mma_is_steady(x->arg[i], k, n)) return false;
    return true;
}

static bool steady_load(const TInst *i, int k, int n) {
    for (int d = 0; d < i->nix; d++)
        if (!mma_is_steady(i->ix[d], k, n)) return false;
    return true;
}

int mma_steady(const Mma *m, int k, int *loads) {
    *loads = 0;
    int n = k;
    for (int i = 0; i < m->a.nparts; i++) {
        const TInst *part = m->a.part[i];
        if (part->kind != T_LOAD || !part->nix || mma_is_run(m->t, part, m->k)) continue;
        while (n > STEADY && !steady_load(part, m->k, n)) n /= 2;
        ++*loads;
    }
    return n;
}

static bool add(const TProg *t, const Mma *m, const TInst *i, MmaTiles *w, Str *why) {
    const TTensor *x = &t->tensors.v[i->tensor];
    int bits = dtype_bits(x->type), line = w->k * bits / 8;
    if (w->nraw == MMA_RAW) return no(why, "more than %d loads of a factor in registers", MMA_RAW);
    MmaRaw *r = &w->raw[w->nraw++];
    if (!mma_factor(t, i, m->rows, m->k, -1, &r->f, why)) return false;
    if (!r->f.k_major || r->f.outer >= 0 || r->f.row < 0)
        return no(why, "%s is not read along k and rows", x->name);
    if (bits > 16 || (line != 32 && line != 64 && line != 128))
        return no(why, "a stage has %d bytes of a row of %s; 32, 64 and 128 are right", line,
                  x->name);
    mma_lay_k_major(&r->s, w->m);
    r->s.evict = w->a.evict;
    r->s.swizzle = line;
    r->s.box_bytes = r->s.box * line;
    r->s.parts = r->s.kinds = r->s.deep = 1;
    r->s.part = r->s.bytes = r->s.boxes * r->s.box_bytes;
    r->at = w->a.bytes;
    w->a.bytes += r->s.bytes;
    return true;
}

bool mma_lay_raw(const TProg *t, const Mma *m, MmaTiles *w, Str *why) {
    const MmaFactor *f = &m->a;
    if (m->b.made) return no(why, "one factor is made in registers, the other by nobody");
    if (m->b.vector) return no(why, "a factor in registers, and the other is a vector");
    if (w->thin) return no(why, "a factor in registers has 64 rows for each group");
    if (w->pair_rows * w->pair_cols > 1) return no(why, "no clusters with a factor in registers");
    if (w->group_rows != 64) return no(why, "a factor in registers has 64 rows for each group");
    int64_t deep;
    int least = w->k * (w->deal ? w->groups : 1);
    if (ix_is_const(t->axes.v[m->k].extent, &deep) && (deep < least || deep % w->k))
        return no(why, "%lld of k are not whole stages of %d, or too few", (long long)deep, w->k);
    w->a.bytes = 0;
    for (int i = 0; i < f->nparts; i++) {
        const TInst *part = f->part[i];
        if (part->kind != T_LOAD) continue;
        bool run = mma_is_run(t, part, m->k);
        if (!run && !steady_load(part, m->k, STEADY))
            return no(why, "%s is neither read along k nor the same for %d of it",
                      t->tensors.v[part->tensor].name, STEADY);
        if (run && !add(t, m, part, w, why)) return false;
    }
    w->a.part = w->a.bytes;
    w->a.parts = w->a.kinds = w->a.deep = 1;
    int loads, steady = mma_steady(m, w->k, &loads), held = 2 * loads * w->k / steady;
    if (held > HELD) return no(why, "%d values held of a stage, above %d", held, HELD);
    return w->nraw || no(why, "nothing of a factor in registers comes to shared memory");
}
