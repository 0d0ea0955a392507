/* mma_sums.c - the products that a loop sums: of each carry load, load, mul, step, and no more. A
 * load that several multiply is there once. */
#include "ir/mma_int.h"

#define no mma_no

static const TInst *made_by(const TBlock *b, int id) {
    for (int k = 0; k < b->inst.n; k++)
        if (b->inst.v[k]->id == id) return b->inst.v[k];
    return NULL;
}

static const TInst *step_of(const TInst *loop, int carry) {
    for (int k = 0; k < loop->body.inst.n; k++) {
        const TInst *i = loop->body.inst.v[k];
        if (i->kind == T_STEP && i->args[0] == carry) return i;
    }
    return NULL;
}

static bool product(const TInst *loop, const TCarry *c, MmaProduct *x, Str *why) {
    if (c->type != DT_f32 || c->red != RED_sum || c->frame >= 0 || c->has_finish)
        return no(why, "the carried value is no plain f32 sum");
    const TInst *step = step_of(loop, c->id);
    const TInst *mul = step ? made_by(&loop->body, step->args[1]) : NULL;
    *x = (MmaProduct){0};
    if (mul && mul->kind == T_OP && mul->op == OP_mul && mul->type == DT_f32) {
        x->p = made_by(&loop->body, mul->args[0]);
        x->q = made_by(&loop->body, mul->args[1]);
    }
    if (!x->p || !x->q || x->p == x->q || x->p->kind != T_LOAD || x->q->kind != T_LOAD)
        return no(why, "the loop sums something else than a product of two loads");
    return true;
}

/* Makes p what all have in common, if something is. */
static bool share(MmaProduct *x, int n) {
    for (int turn = 0; turn < 2; turn++) {
        const TInst *common = turn ? x[0].q : x[0].p;
        bool all = true;
        for (int k = 0; k < n; k++) all &= x[k].p == common || x[k].q == common;
        if (!all) continue;
        for (int k = 0; k < n; k++)
            if (x[k].p != common) x[k] = (MmaProduct){x[k].q, x[k].p};
        return true;
    }
    return false;
}

bool mma_products(const TProg *t, const TInst *loop, MmaProduct *x, Str *why) {
    int n = loop->carries.n;
    if (n < 1 || n > MMA_SUMS) return no(why, "%d carried values, not 1 to %d", n, MMA_SUMS);
    if (!ix_is_const(loop->lo, NULL) || loop->lo->num != 0 ||
        loop->hi != t->axes.v[loop->axis].extent)
        return no(why, "the loop does not cover its axis");
    for (int k = 0; k < n; k++)
        if (!product(loop, &loop->carries.v[k], &x[k], why)) return false;
    if (n > 1 && !share(x, n)) return no(why, "the sums have no factor in common");
    for (int k = 0; k < n; k++)
        for (int i = 0; i < k; i++)
            if (x[i].q == x[k].q) return no(why, "two sums of one product");
    if (loop->body.inst.n != 3 * n + 1) /* n + 1 loads, n products and n steps */
        return no(why, "the loop sums something else than a product of two loads");
    return true;
}

bool mma_product(const TProg *t, const TInst *loop, const TInst **p, const TInst **q, Str *why) {
    MmaProduct x[MMA_SUMS];
    if (loop->carries.n != 1) return no(why, "%d carried values, not one", loop->carries.n);
    if (!mma_products(t, loop, x, why)) return false;
    *p = x[0].p, *q = x[0].q;
    return true;
}
