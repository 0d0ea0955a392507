/* mma_sums.c - the products that a loop sums: of each carry load, load, mul, step, and no more. A
 * load that several multiply is there once. A sum whose factor of columns is that of another one,
 * at (n + c) % N, is that sum further on: it is not made again. */
#include "ir/mma_int.h"

enum { MMA_TURN_MOST = 256 }; /* columns of a tile */

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

bool mma_turned(const Ix *x, int *axis, int *by, int *size) {
    int64_t n, c;
    if (x->kind != IX_MOD || !ix_is_const(x->arg[1], &n) || x->arg[0]->kind != IX_ADD) return false;
    const Ix *sum = x->arg[0];
    if (sum->n != 2 || !ix_is_axis(sum->arg[0], axis) || !ix_is_const(sum->arg[1], &c))
        return false;
    if (c <= 0 || c >= n || c % 8 || n % 8 || n > MMA_TURN_MOST) return false;
    *by = (int)c, *size = (int)n;
    return true;
}

/* Is q what `of` is, along one axis, all of which it takes, turned? */
static bool is_turn(const TProg *t, const TInst *q, const TInst *of, MmaTurn *turn) {
    int64_t extent;
    bool some = false;
    if (q->tensor != of->tensor || q->checked || of->checked) return false;
    for (int d = 0; d < q->nix; d++) {
        int axis;
        if (q->ix[d] == of->ix[d]) continue;
        if (some || !mma_turned(q->ix[d], &turn->axis, &turn->by, &turn->size)) return false;
        some = ix_is_axis(of->ix[d], &axis) && axis == turn->axis &&
               ix_is_const(t->axes.v[axis].extent, &extent) && extent == turn->size;
        if (!some) return false;
    }
    return some;
}

/* Sums, and those that are turned ones: of each first what it is a turn of. */
static bool part(const TProg *t, const TInst *loop, const MmaProduct *all, int n, MmaProducts *x,
                 Str *why) {
    int sum[MMA_SUMS + MMA_TURNS];
    for (int turn = 0; turn < 2; turn++)
        for (int k = 0; k < n; k++) {
            MmaTurn is = {.carry = loop->carries.v[k].id, .sum = -1};
            for (int i = 0; i < n; i++)
                if (is.sum < 0 && is_turn(t, all[k].q, all[i].q, &is)) is.sum = i;
            if ((is.sum >= 0) != (turn == 1)) continue;
            if (turn) is.sum = sum[is.sum];
            if ((turn ? x->turns : x->n) == (turn ? (int)MMA_TURNS : (int)MMA_SUMS))
                return no(why, "more than %d sums of a kind", MMA_SUMS);
            if (turn) {
                x->turn[x->turns++] = is;
            } else {
                sum[k] = x->n;
                x->carry[x->n] = is.carry;
                x->of[x->n++] = all[k];
            }
        }
    return true;
}

bool mma_products(const TProg *t, const TInst *loop, MmaProducts *out, Str *why) {
    MmaProduct x[MMA_SUMS + MMA_TURNS];
    int n = loop->carries.n, most = MMA_SUMS + MMA_TURNS;
    *out = (MmaProducts){0};
    if (n < 1 || n > most) return no(why, "%d carried values, not 1 to %d", n, most);
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
    return part(t, loop, x, n, out, why);
}

bool mma_product(const TProg *t, const TInst *loop, const TInst **p, const TInst **q, Str *why) {
    MmaProducts x;
    if (loop->carries.n != 1) return no(why, "%d carried values, not one", loop->carries.n);
    if (!mma_products(t, loop, &x, why)) return false;
    *p = x.of[0].p, *q = x.of[0].q;
    return true;
}
