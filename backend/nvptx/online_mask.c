/* online_mask.c - elements of a block that no step takes in: beyond the bounds of j, or by guards.
 *
 * Which elements of a thread lie within the bounds of its rows is a word of bits for each row: a
 * test of a bit is cheap, and so are two bounds. What a frame is made of is masked where it is
 * made: an element that is out is what changes no frame, most often -inf. What follows from it is
 * then known (exp(-inf - frame) is 0, as a frame in use is not -inf), so the steps that follow need
 * no mask of their own. A frame of NaN makes NaN of these too; its row has that everywhere.
 */
#include "backend/nvptx/online_int.h"
#include "ir/eval.h"

#include <math.h>

enum { WORD = 32 };

/* ---- what is known of elements that are out ---- */

static OnOut is_value(double v) {
    return (OnOut){OUT_IS, v};
}

static bool infinite(OnOut x) {
    return x.kind == OUT_IS && isinf(x.v);
}

static OnOut scaled(OnOut x, OnOut by) {
    if (by.kind != OUT_IS || by.v == 0 || !isfinite(by.v)) return (OnOut){.kind = OUT_ANY};
    if (x.kind == OUT_ISNT || infinite(x)) x.v = by.v < 0 ? -x.v : x.v;
    return x.kind == OUT_ISNT || infinite(x) ? x : (OnOut){.kind = OUT_ANY};
}

/* a + b: an infinity stays, unless the other may be the opposite one. */
static OnOut added(OnOut a, OnOut b) {
    if (!infinite(a)) return (OnOut){.kind = OUT_ANY};
    bool stays = b.kind == OUT_ISNT ? b.v == -a.v : b.kind == OUT_IS && b.v != -a.v && !isnan(b.v);
    return stays ? a : (OnOut){.kind = OUT_ANY};
}

static OnOut minus(OnOut x) {
    x.v = -x.v;
    return x;
}

static bool same(OnOut a, OnOut b) {
    return a.kind == OUT_IS && b.kind == OUT_IS && a.v == b.v;
}

static OnOut of_op(const TInst *i, const OnOut *in) {
    OnOut x = {.kind = OUT_ANY};
    EvalVal v[2] = {{0}};
    bool all = i->nargs <= 2;
    for (int k = 0; k < i->nargs && all; k++) {
        all = in[k].kind == OUT_IS;
        v[k].r = in[k].v;
    }
    switch (i->op) {
    case OP_exp:
    case OP_exp2:
    case OP_cast:
    case OP_copy: return all ? is_value(eval_op(i->op, i->type, DT_f32, v).r) : x;
    case OP_select: return same(in[1], in[2]) ? in[1] : x;
    case OP_neg: return minus(in[0]);
    case OP_mul: x = scaled(in[0], in[1]); return x.kind != OUT_ANY ? x : scaled(in[1], in[0]);
    case OP_add: x = added(in[0], in[1]); return x.kind != OUT_ANY ? x : added(in[1], in[0]);
    case OP_sub:
        x = added(in[0], minus(in[1]));
        return x.kind != OUT_ANY ? x : added(minus(in[1]), in[0]);
    default: return x;
    }
}

static bool is_real(DType t) {
    return dtype_class(t) == DC_REAL && dtype_value(t) == DT_f32;
}

static OnOut out_of(const On *on, int id) {
    const TInst *d = on->l->def[id];
    if (on->out[id].kind != OUT_ANY || !d || d->kind != T_CONST || !is_real(d->type))
        return on->out[id];
    return is_value(dtype_round(d->type, d->num));
}

static bool same_guards(const OnlineInst *a, const OnlineInst *b) {
    bool same = a->guards.n == b->guards.n;
    for (int k = 0; k < a->guards.n && same; k++) same = a->guards.v[k] == b->guards.v[k];
    return same;
}

/* Do all steps have the guards of this one? Then it is masked by them, too. */
static bool common(const On *on, const OnlineInst *step) {
    for (int k = 0; k < on->o.body.n; k++) {
        const OnlineInst *x = &on->o.body.v[k];
        if (x->i->kind == T_STEP && !same_guards(x, step)) return false;
    }
    return true;
}

/* Row k is a frame: is what it folds masked where it is made? */
static void mask_frame(On *on, int k) {
    Lower *l = on->l;
    const TCarry *c = on->o.row[k].c;
    const OnlineInst *step = on_step(on, on->o.row[k].step);
    int id = step->i->args[1];
    AxisSet both = axis_bit(on->o.rows) | axis_bit(on->o.j);
    if (c->frame >= 0 || (l->deps[id] & both) != both || !is_real(l->type[id])) return;
    on->out[c->id] = (OnOut){OUT_ISNT, eval_identity(c->red, c->type).r};
    if (on->out[id].kind != OUT_ANY || (step->guards.n && !common(on, step))) return;
    on->out[id] = is_value(eval_identity(c->red, c->type).r);
    on->masks[on->nmasks++] = k;
    on->masks_guards |= step->guards.n > 0;
}

static void guards_needed(On *on, const OnlineInst *step) {
    for (int g = 0; g < step->guards.n; g++) on_need(on, step->guards.v[g]);
}

void on_mask_facts(On *on) {
    Lower *l = on->l;
    on->out = ARENA_ARRAY(l->arena, OnOut, l->t->nvalues + 1);
    if (on->nnear) return; /* what frames are made of is not there yet */
    for (int k = 0; k < on->o.nrows; k++)
        if (on_is_frame(on, k)) mask_frame(on, k);
    for (int k = 0; k < on->nmasks; k++)
        guards_needed(on, on_step(on, on->o.row[on->masks[k]].step));
    for (int k = 0; k < on->o.body.n; k++) {
        const TInst *i = on->o.body.v[k].i;
        OnOut in[3];
        if (i->kind != T_OP || on->needed[i->id] || i->nargs > 3) continue;
        for (int a = 0; a < i->nargs; a++) in[a] = out_of(on, i->args[a]);
        if (is_real(i->type)) on->out[i->id] = of_op(i, in);
    }
}

/* ---- bits ---- */

/* Bits of the thread's elements before column `end`, which counts from its first: words of 32. */
static void bits_before(On *on, Val end, Val *word) {
    Lower *l = on->l;
    Val two = i32c(l, 2), part = LLVMBuildAnd(l->b, end, i32c(l, 7), "");
    Val few = LLVMBuildICmp(l->b, LLVMIntSLT, part, two, "");
    part = LLVMBuildSelect(l->b, few, part, two, "");
    Val n = LLVMBuildAShr(l->b, end, i32c(l, 3), "");
    n = LLVMBuildAdd(l->b, LLVMBuildShl(l->b, n, i32c(l, 1), ""), part, "");
    for (int w = 0; w * WORD < on->t.j / 4; w++) {
        Val here = LLVMBuildSub(l->b, n, i32c(l, w * WORD), ""), none = i32c(l, 0);
        Val all = LLVMBuildICmp(l->b, LLVMIntSGE, here, i32c(l, WORD), "");
        here =
            LLVMBuildSelect(l->b, LLVMBuildICmp(l->b, LLVMIntSGT, here, none, ""), here, none, "");
        Val low = LLVMBuildAnd(l->b, here, i32c(l, WORD - 1), "");
        low = LLVMBuildSub(l->b, LLVMBuildShl(l->b, i32c(l, 1), low, ""), i32c(l, 1), "");
        word[w] = LLVMBuildSelect(l->b, all, i32c(l, -1), low, "");
    }
}

void on_mask_open(On *on, OnBlock *b) {
    Lower *l = on->l;
    for (int r = 0; r < on->held && b->masked; r++) {
        Val lo[ON_BITS], hi[ON_BITS];
        if (on->cut_hi) bits_before(on, LLVMBuildSub(l->b, on->hi[r], b->at, ""), hi);
        if (on->cut_lo) bits_before(on, LLVMBuildSub(l->b, on->lo[r], b->at, ""), lo);
        for (int w = 0; w * WORD < on->t.j / 4; w++) {
            Val in = on->cut_hi ? hi[w] : i32c(l, -1);
            if (on->cut_lo) in = LLVMBuildAnd(l->b, in, LLVMBuildNot(l->b, lo[w], ""), "");
            b->in[r][w] = in;
        }
    }
}

/* ---- conditions ---- */

static Val within(On *on, const OnBlock *b, const OnSlab *p, int r, int c) {
    Lower *l = on->l;
    int at = p->from / 4 + c;
    if (!b->masked && !b->told) return NULL;
    Val bit = LLVMConstInt(l->i32, (uint64_t)1 << at % WORD, 0);
    bit = LLVMBuildAnd(l->b, b->in[r][at / WORD], bit, "");
    return LLVMBuildICmp(l->b, LLVMIntNE, bit, i32c(l, 0), "");
}

Val on_condition(On *on, const OnBlock *b, const OnSlab *p, const OnlineInst *x, int r, int c) {
    Lower *l = on->l;
    Val all = within(on, b, p, r, c);
    AxisSet mask = frag_live(l, axis_bit(on->o.rows) | axis_bit(on->o.j));
    int n = l->axis[on->o.j].count;
    for (int g = 0; g < x->guards.n; g++) {
        if (on->told[x->guards.v[g]]) continue;
        if (b->held && on_pick_drops(on, x->guards.v[g])) continue;
        Frag f = value_of(l, x->guards.v[g]);
        Val in = f.v[frag_at(l, mask, r * n + c, f.mask)];
        all = all ? LLVMBuildAnd(l->b, all, in, "") : in;
    }
    return all;
}

void on_mask(On *on, const OnBlock *b, const OnSlab *p) {
    Lower *l = on->l;
    for (int k = 0; k < on->nmasks; k++) {
        const OnlineRow *x = &on->o.row[on->masks[k]];
        const OnlineInst *step = on_step(on, x->step);
        int id = x->step->args[1], n = l->axis[on->o.j].count;
        if (!b->masked && !step->guards.n) continue;
        Frag is = value_of(l, id), f = frag_new(l, is.mask);
        Val none = identity(l, x->c->red, l->type[id]);
        for (int e = 0; e < f.n; e++) {
            Val in = on_condition(on, b, p, step, e / n, e % n);
            f.v[e] = in ? LLVMBuildSelect(l->b, in, is.v[e], none, "") : is.v[e];
        }
        l->value[id] = f;
    }
}

/* Is an element of value `id` that step x leaves out what changes no state of c? */
static bool harmless(const On *on, const OnlineInst *x, const TCarry *c, int id) {
    OnOut is = on->out[id];
    if (x->guards.n && !on->masks_guards) return false;
    return is.kind == OUT_IS && is.v == eval_identity(c->red, c->type).r;
}

Val on_taken(On *on, const OnBlock *b, const OnSlab *p, const OnlineInst *x, const TCarry *c,
             int id, Val v, int r, int col) {
    Lower *l = on->l;
    Val in = harmless(on, x, c, id) ? NULL : on_condition(on, b, p, x, r, col);
    return in ? LLVMBuildSelect(l->b, in, v, identity(l, c->red, c->type), "") : v;
}
