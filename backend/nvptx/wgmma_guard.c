/* wgmma_guard.c - what a launch must bring for a kernel of the wgmma tier: the rules of tensor maps
 * (cuTensorMapEncodeTiled), and what the kernel's arithmetic takes for granted. */
#include "backend/nvptx/wgmma_int.h"

enum { MAP_ALIGN = 16, TILES_MAX = 1 << 30 };

static const TTensor *tensor_of(const Wg *w, const TInst *i) {
    return &w->l->t->tensors.v[i->tensor];
}

KTmap wg_map(const Wg *w, const MmaFactor *f, const MmaSmem *s) {
    const TTensor *x = tensor_of(w, f->load);
    KTmap m = {.temp = x->mem == TM_TEMP, .rank = x->rank, .swizzle = s->swizzle};
    for (int i = 0; i < x->rank; i++) {
        m.dim[i] = x->rank - 1 - i;
        m.box[i] = m.dim[i] == f->depth ? w->t.k / (s->deep > 1 ? s->deep : 1)
                   : m.dim[i] == f->row ? s->box
                                        : 1;
    }
    return m;
}

KTmap wg_map_slab(const Wg *w, const MmaStaged *s) {
    const TTensor *x = tensor_of(w, s->inst);
    KTmap m = {.temp = x->mem == TM_TEMP, .rank = x->rank, .swizzle = s->swizzle};
    for (int i = 0; i < x->rank; i++) {
        m.dim[i] = x->rank - 1 - i;
        m.box[i] = i == 0 ? s->box : m.dim[i] == s->row ? w->t.group_rows : 1;
    }
    return m;
}

static void nonneg(Wg *w, Kernel *k, const Ix *x) {
    guard_add(w->l, k, (KGuard){.kind = KG_NONNEG, .ix = x});
}

static void at_most(Wg *w, Kernel *k, const Ix *x, int64_t n) {
    IxPool *p = w->l->t->ix;
    nonneg(w, k, ix_sub(p, ix_const(p, n), x));
}

static void guard_base(Wg *w, Kernel *k, const TTensor *x) {
    if (x->mem != TM_TEMP)
        guard_add(w->l, k, (KGuard){.kind = KG_ALIGN, .index = x->id, .multiple = MAP_ALIGN});
}

/* From a position of dimension d to the next are multiples of 16 bytes. */
static void guard_pitch(Wg *w, Kernel *k, const TTensor *x, int d) {
    IxPool *p = w->l->t->ix;
    if (d == x->rank - 1) return;
    if (x->mem != TM_TEMP) {
        KGuard g = {.kind = KG_STRIDE, .index = x->id, .dim = d, .multiple = MAP_ALIGN};
        guard_add(w->l, k, g);
        return;
    }
    const Ix *bits = ix_mul(p, dense_stride(w->l->t, x, d), ix_const(p, dtype_bits(x->type)));
    nonneg(w, k, ix_neg(p, ix_mod(p, bits, ix_const(p, 8 * MAP_ALIGN))));
}

/* A tensor that a map is made of. */
static void guard_map(Wg *w, Kernel *k, const TTensor *x) {
    IxPool *p = w->l->t->ix;
    guard_base(w, k, x);
    for (int d = 0; d < x->rank; d++) {
        nonneg(w, k, ix_sub(p, x->dims[d], ix_const(p, 1)));
        at_most(w, k, x->dims[d], INT32_MAX);
        guard_pitch(w, k, x, d);
    }
}

/* A factor that threads bring: extents and pitch as their arithmetic has them. */
static void guard_plain(Wg *w, Kernel *k, const MmaFactor *f) {
    IxPool *p = w->l->t->ix;
    const TTensor *x = tensor_of(w, f->load);
    int pitch = f->k_major ? f->row : f->depth;
    for (int d = 0; d < x->rank; d++) {
        nonneg(w, k, ix_sub(p, x->dims[d], ix_const(p, 1)));
        at_most(w, k, x->dims[d], INT32_MAX);
    }
    if (pitch < 0) return;
    if (x->mem == TM_TEMP)
        at_most(w, k, dense_stride(w->l->t, x, pitch), INT32_MAX / 2);
    else
        guard_add(w->l, k, (KGuard){.kind = KG_STRIDE_NEAR, .index = x->id, .dim = pitch});
}

/* A load that TMA brings. */
void wg_guard_map_in(Wg *w, Kernel *k, const Mma *m, const TInst *load) {
    IxPool *p = w->l->t->ix;
    int unit;
    const Ix *begin = mma_begins(m, load, &unit);
    FK_ASSERT(begin);
    guard_map(w, k, tensor_of(w, load));
    nonneg(w, k, ix_neg(p, ix_mod(p, begin, ix_const(p, unit))));
}

/* A factor that cp.async brings: lines begin at multiples of 16 bytes, and are such. */
static void guard_copied(Wg *w, Kernel *k, const MmaFactor *f) {
    IxPool *p = w->l->t->ix;
    const TTensor *x = tensor_of(w, f->load);
    int unit;
    const Ix *begin = mma_begins(&w->m, f->load, &unit);
    FK_ASSERT(begin);
    nonneg(w, k, ix_neg(p, ix_mod(p, begin, ix_const(p, unit))));
    nonneg(w, k, ix_neg(p, ix_mod(p, x->dims[x->rank - 1], ix_const(p, unit))));
    guard_base(w, k, x);
    for (int d = 0; d < x->rank; d++) guard_pitch(w, k, x, d);
}

static void guard_factors(Wg *w, Kernel *k, bool rows, const MmaSmem *s) {
    for (int n = 0; n < s->kinds; n++) {
        const MmaFactor *f = mma_factor_at(&w->m, rows, n);
        bool copied = w->l->s->move == MOVE_cpasync;
        if (w->t.made && s->plain)
            wg_guard_make(w, k, f);
        else if (copied && !s->plain)
            guard_copied(w, k, f);
        else if (s->plain && !copied)
            guard_plain(w, k, f);
        else if (!copied)
            wg_guard_map_in(w, k, &w->m, f->load);
    }
}

/* A map that is stored through: rows are whole 16-byte pieces. Seen on the H200: a row of one f16
 * was stored as four bytes, into what lies behind it. */
void wg_guard_map_out(Wg *w, Kernel *k, const TTensor *x) {
    IxPool *p = w->l->t->ix;
    guard_map(w, k, x);
    const Ix *bytes = ix_mul(p, x->dims[x->rank - 1], ix_const(p, dtype_bits(x->type) / 8));
    nonneg(w, k, ix_neg(p, ix_mod(p, bytes, ix_const(p, MAP_ALIGN))));
}

void wg_guards(Wg *w, Kernel *k) {
    const TProg *t = w->l->t;
    IxPool *p = t->ix;
    k->tiles = wg_work_total(w);
    k->grid = ix_mul(p, k->tiles, ix_const(p, wg_pair(w)));
    k->block = w->l->s->threads;
    k->cluster = wg_pair(w) > 1 ? wg_pair(w) : 0;
    k->smem = ix_const(p, w->t.smem);
    k->persistent = w->l->s->persistent;
    k->cost = w->l->s->cost;
    wg_split_memory(w, k);
    if (w->t.regs)
        wg_guard_regs(w, k);
    else
        guard_factors(w, k, true, &w->t.a);
    guard_factors(w, k, false, &w->t.b);
    for (int i = 0; i < w->t.nstaged; i++)
        wg_guard_map_out(w, k, tensor_of(w, w->t.staged[i].inst));
    for (int i = 0; i < w->t.nbrought; i++) wg_guard_map_in(w, k, &w->m, w->t.brought[i].inst);
    for (int i = 0; i < t->tensors.n; i++) {
        const TTensor *x = &t->tensors.v[i];
        if (x->mem == TM_TEMP || !x->rank) continue;
        guard_add(w->l, k, (KGuard){.kind = KG_STRIDE_ONE, .index = x->id, .dim = x->rank - 1});
    }
    bool copied =
        w->l->s->move == MOVE_cpasync; /* bytes of a line, and a stage more, fit 31 bits */
    for (int a = 0; a < t->ngrid; a++)
        at_most(w, k, t->axes.v[a].extent, copied ? INT32_MAX / 4 : INT32_MAX);
    if (copied) at_most(w, k, t->axes.v[w->m.k].extent, INT32_MAX / 4);
    at_most(w, k, k->tiles, TILES_MAX);
    if (w->t.split > 1) /* parts times stages fit 31 bits */
        at_most(w, k, t->axes.v[w->m.k].extent, INT32_MAX / 2);
}
