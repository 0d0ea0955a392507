/* mma_grouped.c - sums of a loop that do not meet after it: each can have tiles of its own. */
#include "ir/mma_int.h"

#define no mma_no

/* What an instruction reads, also in its indices. */
typedef void ReadFn(unsigned *of, int value, unsigned *bits);

static void from_value(unsigned *of, int value, unsigned *bits) {
    *bits |= of[value];
}

static void to_value(unsigned *of, int value, unsigned *bits) {
    of[value] |= *bits;
}

static void each_in(const Ix *x, ReadFn *f, unsigned *of, unsigned *bits) {
    if (x->kind == IX_VALUE) f(of, (int)x->num, bits);
    for (int i = 0; i < x->n && x->has_value; i++) each_in(x->arg[i], f, of, bits);
}

static void each_read(const TInst *i, ReadFn *f, unsigned *of, unsigned *bits) {
    for (int a = 0; a < i->nargs; a++) f(of, i->args[a], bits);
    for (int d = 0; d < i->nix; d++) each_in(i->ix[d], f, of, bits);
}

/* Forwards: of which sums a store is; backwards: for which stores all else is. */
bool mma_apart(const Mma *m, unsigned *of, Str *why) {
    const TProg *t = m->t;
    unsigned *made = ARENA_ARRAY(t->arena, unsigned, t->nvalues);
    unsigned *used = ARENA_ARRAY(t->arena, unsigned, t->nvalues);
    for (int n = 0; n < m->sums; n++) made[m->carry[n]] = 1u << n;
    for (int n = 0; n < m->turns; n++) made[m->turn[n].carry] = 1u << m->turn[n].sum;
    for (int k = 0; k < t->body.inst.n; k++) {
        const TInst *i = t->body.inst.v[k];
        of[k] = 0;
        if (i->kind == T_LOOP) continue;
        each_read(i, from_value, made, &of[k]);
        if (i->id >= 0) made[i->id] = of[k];
        if (i->kind == T_STORE && of[k] & (of[k] - 1))
            return no(why, "%s is made of two sums", t->tensors.v[i->tensor].name);
    }
    for (int k = t->body.inst.n - 1; k >= 0; k--) {
        const TInst *i = t->body.inst.v[k];
        if (i->kind == T_LOOP) continue;
        if (i->kind != T_STORE)
            of[k] = i->id >= 0 ? used[i->id] : 0;
        else if (!of[k])
            of[k] = 1;
        each_read(i, to_value, used, &of[k]);
    }
    return true;
}

/* One after the other may be brought to the same place by the same thread. */
static bool same_way(const Mma *m, const MmaFactor *f, const MmaFactor *g) {
    const TInst *x = f->load, *y = g->load;
    bool same =
        x->nix == y->nix && f->row == g->row && f->depth == g->depth && f->outer == g->outer;
    for (int d = 0; d < x->nix && same; d++) same = x->ix[d] == y->ix[d];
    return same && m->t->tensors.v[x->tensor].rank == m->t->tensors.v[y->tensor].rank;
}

bool mma_read_grouped(const Schedule *s, const Mma *m, MmaTiles *w, Str *why) {
    unsigned *of = ARENA_ARRAY(m->t->arena, unsigned, m->t->body.inst.n);
    if (m->sums == 1) return no(why, "one product is not grouped");
    if (s->mul != MUL_wgmma || s->promote || w->made || m->nest.blocks)
        return no(why, "grouped are products by wgmma alone, of which nothing is reduced");
    for (int n = 1; n < m->sums; n++)
        if (!same_way(m, mma_factor_at(m, m->of_rows, 0), mma_factor_at(m, m->of_rows, n)))
            return no(why, "grouped products read their factors alike");
    if (!mma_apart(m, of, why)) return false;
    w->products = m->sums;
    return true;
}
