/* mma_find.c - the product of a program's loop, its factors and axes: see mma.h. */
#include "ir/mma_int.h"

#include <string.h>

#define no mma_no

static bool uses_axis(const TInst *load, int axis) {
    for (int d = 0; d < load->nix; d++)
        if (ix_uses_axis(load->ix[d], axis)) return true;
    return false;
}

static bool is_over(const TProg *t, const TInst *i, int axis) {
    return uses_axis(i, axis) || mma_is_lone(t, axis);
}

static int own_axis(const TProg *t, const TInst *load, const TInst *other) {
    int own = -1;
    for (int a = t->ngrid - 1; a >= 0; a--) {
        if (!uses_axis(load, a) || uses_axis(other, a)) continue;
        if (ix_uses_axis(load->ix[load->nix - 1], a)) return a;
        if (own < 0) own = a;
    }
    return own;
}

/* Of one position, that neither uses. */
static int spare_axis(const TProg *t, const TInst *p, const TInst *q) {
    for (int a = 0; a < t->ngrid; a++)
        if (mma_is_lone(t, a) && !uses_axis(p, a) && !uses_axis(q, a)) return a;
    return -1;
}

static bool find_axes(const TProg *t, const TInst *p, const TInst *q, int *rows, int *cols,
                      Str *why) {
    int only_p = own_axis(t, p, q), only_q = own_axis(t, q, p);
    if (only_p < 0 && only_q < 0) return no(why, "both factors are vectors");
    if (only_p < 0) only_p = spare_axis(t, p, q);
    if (only_q < 0) only_q = spare_axis(t, p, q);
    if (only_p < 0 || only_q < 0) return no(why, "a factor has no axis of its own");
    *rows = only_p < only_q ? only_p : only_q;
    *cols = only_p < only_q ? only_q : only_p;
    return true;
}

static bool pointwise(const TProg *t, const Mma *m, Str *why) {
    for (int k = 0; k < t->body.inst.n; k++) {
        const TInst *i = t->body.inst.v[k];
        if (i->kind == T_GUARD) return no(why, "a guard");
        if (i->kind == T_LOOP && i != m->loop && i != m->nest.blocks && i != m->nest.strips.loop)
            return no(why, "a second loop");
        if (i->kind != T_STORE) continue;
        const TTensor *x = &t->tensors.v[i->tensor];
        if (dtype_bits(x->type) == 4) return no(why, "%s has a 4-bit type", x->name);
        if (k < m->nest.rest && (!is_over(t, i, m->rows) || !is_over(t, i, m->cols)))
            return no(why, "%s is not stored over rows and columns", x->name);
    }
    return true;
}

/* Bytes of an element, 0: the two do not go together. */
int mma_pair_size(DType p, DType q) {
    if (p == q && (p == DT_bf16 || p == DT_f16)) return 2;
    bool fp8 = (p == DT_e4m3 || p == DT_e5m2) && (q == DT_e4m3 || q == DT_e5m2);
    return fp8 ? 1 : 0;
}

/* Blocks are of rows or columns of the product. */
static bool find_blocks(Mma *m, Str *why) {
    for (int k = 0; k < 2; k++) {
        const MmaBlock *b = &m->nest.block[k];
        if (!b->size) continue;
        if (b->axis != m->rows && b->axis != m->cols)
            return no(why, "%s is reduced, which is neither rows nor columns",
                      m->t->axes.v[b->axis].name);
        *(b->axis == m->rows ? &m->row_block : &m->col_block) = *b;
    }
    return true;
}

static bool factor_uses(const MmaFactor *f, int axis) {
    return f->made ? axis < 64 && (f->axes >> axis & 1) : uses_axis(f->load, axis);
}

/* What is carried in frames is of the product's own elements: a loop whose values differ along an
 * axis that no factor has would be made again for each position of it. */
static bool of_factors(const TProg *t, const Mma *m, Str *why) {
    bool framed = m->nest.blocks && mma_has_frames(m->nest.blocks);
    if (framed && m->sums > 1) return no(why, "frames of several products");
    if (m->nest.blocks && m->turns) return no(why, "what is turned is reduced");
    for (int a = 0; a < t->ngrid && framed; a++)
        if (!factor_uses(&m->a, a) && !factor_uses(&m->b, a) && !mma_is_lone(t, a))
            return no(why, "no factor has %s", t->axes.v[a].name);
    return true;
}

int mma_factors(const Mma *m, bool rows) {
    return m->of_rows == rows ? m->sums : 1;
}

const MmaFactor *mma_factor_at(const Mma *m, bool rows, int n) {
    if (n) return &m->more[n - 1];
    return rows ? &m->a : &m->b;
}

/* Of the n-th sum: its own factor has to be like the first sum's. */
static bool add_factors(const TProg *t, Mma *m, int n, const TInst *a, const TInst *b, Str *why) {
    if (!n)
        return mma_factor(t, a, m->rows, m->k, -1, &m->a, why) &&
               mma_factor(t, b, m->cols, m->k, -1, &m->b, why);
    MmaFactor *f = &m->more[n - 1], *first = m->of_rows ? &m->a : &m->b;
    int axis = m->of_rows ? m->rows : m->cols;
    if (!mma_factor(t, m->of_rows ? a : b, axis, m->k, -1, f, why)) return false;
    bool alike = f->type == first->type && f->k_major == first->k_major &&
                 f->vector == first->vector && (f->row < 0) == (first->row < 0) &&
                 (f->outer < 0) == (first->outer < 0);
    return alike || no(why, "%s and %s differ in type or memory order",
                       t->tensors.v[first->load->tensor].name, t->tensors.v[f->load->tensor].name);
}

/* Factors as they are loaded. */
static bool find_loaded(const TProg *t, int rows, Mma *m, Str *why) {
    MmaProducts all;
    const MmaProduct *x = all.of;
    if (!mma_products(t, m->loop, &all, why)) return false;
    const TInst *p = x[0].p, *q = x[0].q;
    m->sums = all.n, m->turns = all.turns;
    memcpy(m->carry, all.carry, sizeof m->carry);
    memcpy(m->turn, all.turn, sizeof m->turn);
    m->size = mma_pair_size(t->tensors.v[p->tensor].type, t->tensors.v[q->tensor].type);
    if (!m->size) return no(why, "the factors are neither of one 16-bit float type nor of fp8");
    if (rows < 0 && !find_axes(t, p, q, &m->rows, &m->cols, why)) return false;
    bool p_rows = uses_axis(p, m->rows) || uses_axis(q, m->cols);
    m->of_rows = !p_rows;
    for (int n = 0; n < m->sums; n++) {
        const TInst *a = p_rows ? p : x[n].q, *b = p_rows ? x[n].q : p;
        if (uses_axis(a, m->cols) || uses_axis(b, m->rows) || !is_over(t, a, m->rows) ||
            !is_over(t, b, m->cols))
            return no(why, "a factor has no axis of its own");
        if (!add_factors(t, m, n, a, b, why)) return false;
    }
    for (int n = 0; n < m->turns; n++)
        if (m->turn[n].axis != m->cols)
            return no(why, "what is turned is not turned along columns");
    return true;
}

/* As they are loaded, or else made. */
static bool find_factors(const TProg *t, int rows, Mma *m, Str *why) {
    MmaProducts x;
    Str loads = {0}, made = {0}, other = {0};
    Mma as = *m;
    bool is = find_loaded(t, rows, m, &loads);
    if (!is && m->nest.strips.loop) {
        str_add(why, str_get(&loads));
    } else if (!is) {
        *m = as;
        is = mma_made(t, m, &made);
        bool all = !is && (m->sums > 1 || mma_products(t, m->loop, &x, &other));
        if (!is) str_add(why, str_get(all ? &loads : &made));
    }
    str_free(&other);
    str_free(&loads);
    str_free(&made);
    return is;
}

/* The sums are those over blocks, in the order of the products. */
static bool strips_carry(Mma *m, Str *why) {
    MmaStrips *s = &m->nest.strips, was = *s;
    for (int n = 0; n < m->sums; n++) {
        int at = 0;
        while (at < m->sums && was.partial[at] != m->carry[n]) at++;
        if (at == m->sums) return no(why, "a sum over blocks is of something else");
        s->partial[n] = was.partial[at], s->step[n] = was.step[at], s->carry[n] = was.carry[at];
    }
    for (int n = 0; n < m->sums; n++) m->carry[n] = s->carry[n];
    return true;
}

/* Of the view m->nest. */
bool mma_find_in(const TProg *t, int rows, int cols, Mma *m, Str *why) {
    *m = (Mma){.t = t, .nest = m->nest, .rows = rows, .cols = cols};
    for (int k = 0; k < t->body.inst.n; k++)
        if (!m->loop && t->body.inst.v[k]->kind == T_LOOP) m->loop = t->body.inst.v[k];
    if (!m->loop) return no(why, "no loop");
    m->k = m->loop->axis;
    m->sums = m->loop->carries.n;
    if (m->sums) m->carry[0] = m->loop->carries.v[0].id;
    if (!find_factors(t, rows, m, why)) return false;
    if (m->nest.strips.loop && !strips_carry(m, why)) return false;
    if (m->a.vector && m->b.vector) return no(why, "both factors are vectors");
    return pointwise(t, m, why) && find_blocks(m, why) && of_factors(t, m, why);
}

bool mma_find(const TProg *t, int rows, int cols, Mma *m, Str *why) {
    *m = (Mma){0};
    return mma_nest(t, &m->nest, why) && mma_find_in(m->nest.t, rows, cols, m, why);
}

int mma_axis(const Mma *m, int axis) {
    int a = 0;
    while (m->nest.axis[a] != axis) a++;
    return a;
}
