/* online_still.c - frames that need not move: a frame may be any reference value (tile.h), so where
 * what it is the greatest or least of is bounded, and narrowly enough, it stays what the first
 * block makes it, or where that is far out a constant. Nothing is moved from block to block then,
 * and where only ratios of what is in the frame are looked at, the true frame is not computed.
 */
#include "backend/nvptx/online_int.h"
#include "ir/eval.h"

#include <math.h>
#include <string.h>

typedef struct Between {
    double lo, hi;
} Between;

static const Between any = {-INFINITY, INFINITY};

static Between range_of(const On *on, int id, int deep);

static Between hull(double a, double b, double c, double d) {
    if (isnan(a) || isnan(b) || isnan(c) || isnan(d)) return any;
    return (Between){fmin(fmin(a, b), fmin(c, d)), fmax(fmax(a, b), fmax(c, d))};
}

static Between product(Between a, Between b) {
    return hull(a.lo * b.lo, a.lo * b.hi, a.hi * b.lo, a.hi * b.hi);
}

static Between of_op(const On *on, const TInst *i, int deep) {
    Between r[3] = {any, any, any};
    for (int k = 0; k < i->nargs && k < 3; k++) r[k] = range_of(on, i->args[k], deep - 1);
    switch (i->op) {
    case OP_tanh:
    case OP_erf:
    case OP_sin:
    case OP_cos: return (Between){-1, 1};
    case OP_sigmoid: return (Between){0, 1};
    case OP_erfc: return (Between){0, 2};
    case OP_add: return (Between){r[0].lo + r[1].lo, r[0].hi + r[1].hi};
    case OP_sub: return (Between){r[0].lo - r[1].hi, r[0].hi - r[1].lo};
    case OP_neg: return (Between){-r[0].hi, -r[0].lo};
    case OP_mul: return product(r[0], r[1]);
    case OP_div: /* by a constant */
        if (r[1].lo != r[1].hi || r[1].lo == 0) return any;
        return product(r[0], (Between){1 / r[1].lo, 1 / r[1].lo});
    case OP_min: return (Between){fmin(r[0].lo, r[1].lo), fmin(r[0].hi, r[1].hi)};
    case OP_max: return (Between){fmax(r[0].lo, r[1].lo), fmax(r[0].hi, r[1].hi)};
    case OP_select: return (Between){fmin(r[1].lo, r[2].lo), fmax(r[1].hi, r[2].hi)};
    case OP_within: return (Between){fmin(r[1].lo, 0), fmax(r[1].hi, 0)};
    case OP_copy: return r[0];
    case OP_cast: return (Between){dtype_round(i->type, r[0].lo), dtype_round(i->type, r[0].hi)};
    default: return any;
    }
}

static Between range_of(const On *on, int id, int deep) {
    const TInst *i = on->l->def[id];
    if (!i || deep == 0 || dtype_value(i->type) != DT_f32) return any;
    if (i->kind == T_CONST) {
        double v = dtype_round(i->type, i->num);
        return (Between){v, v};
    }
    return i->kind == T_OP ? of_op(on, i, deep) : any;
}

/* ---- how far followers would be off ---- */

/* Of an element v in frame `at`, the logarithm; NaN: who knows. */
static double height(const TCarry *c, double at, double v) {
    enum { DEEP = 64 };
    EvalVal stack[DEEP + 1];
    int top = 0;
    for (int k = 0; k < c->rescale.n; k++) {
        const TFactor *f = &c->rescale.v[k];
        if (f->kind == TF_VALUE || top == DEEP) return NAN;
        if (f->kind == TF_OP) {
            top -= op_arity(f->op);
            stack[top] = eval_op(f->op, DT_f32, DT_f32, stack + top);
        } else {
            double x = f->kind == TF_OLD ? at : f->kind == TF_NEW ? v : f->num;
            stack[top] = (EvalVal){.r = x};
        }
        top++;
    }
    return -log(stack[0].r);
}

static bool rounds_to_f16(const On *on, int frame) {
    for (int p = 0; p < on->o.nproducts; p++)
        if (on->o.product[p].c->frame == frame && on->o.product[p].b.type == DT_f16) return true;
    return false;
}

/* Frames from `at` on, where elements end at `near` on their side and at `far` on the other: no
 * element may be too large, nor all of a row so small that bits are lost. */
static bool suits(const On *on, int frame, double at, double near, double far) {
    static const double UP = 88, DOWN = 96, DOWN_F16 = 12, ln2 = 0.6931471805599453;
    bool f16 = rounds_to_f16(on, frame);
    for (int c = 0; c < on->o.loop->carries.n; c++) {
        const TCarry *y = &on->o.loop->carries.v[c];
        if (y->frame != frame) continue;
        double up = f16 ? y->bound : UP * ln2, down = (f16 ? DOWN_F16 : DOWN) * ln2;
        if (!(y->lag > 0 && height(y, at, far) <= up && height(y, at, near) >= -down)) return false;
    }
    return true;
}

static bool find_still(On *on, int row) {
    enum { DEEP = 8, PLACES = 16 };
    const OnlineRow *x = &on->o.row[row];
    Between r = range_of(on, x->step->args[1], DEEP);
    if (!isfinite(r.lo) || !isfinite(r.hi)) return false;
    const EvalVal ends[2] = {{.r = r.lo}, {.r = r.hi}};
    double far = eval_op(reduce_combine(x->c->red), DT_f32, DT_f32, ends).r; /* where it goes */
    double near = far == r.hi ? r.lo : r.hi;
    for (int k = 0; k <= PLACES; k++) {
        on->still_from[row] = near + (far - near) * k / (double)PLACES;
        if (suits(on, x->c->id, on->still_from[row], near, far)) return true;
    }
    return false;
}

/* ---- who looks at the true frame ---- */

static const TCarry *follower(const On *on, int id, int frame) {
    for (int c = 0; c < on->o.loop->carries.n; c++) {
        const TCarry *y = &on->o.loop->carries.v[c];
        if (y->id == id && y->frame == frame) return y;
    }
    return NULL;
}

static bool same_rescale(const TCarry *a, const TCarry *b) {
    if (a->rescale.n != b->rescale.n || a->has_finish || b->has_finish) return false;
    for (int k = 0; k < a->rescale.n; k++) {
        const TFactor *x = &a->rescale.v[k], *y = &b->rescale.v[k];
        if (x->kind != y->kind || x->op != y->op || x->value != y->value || x->num != y->num)
            return false;
    }
    return true;
}

static bool ix_reads(const Ix *x, int id) {
    bool reads = x->kind == IX_VALUE && x->num == id;
    for (int k = 0; k < x->n; k++) reads |= ix_reads(x->arg[k], id);
    return reads;
}

/* Neither the frame nor, but for their ratios, what follows it. */
static bool looked_at(const On *on, int frame) {
    const TBlock *b = &on->l->t->body;
    for (int k = on->o.at + 1; k < b->inst.n; k++) {
        const TInst *i = b->inst.v[k];
        if (i->body.inst.n) return true;
        const TCarry *of[2] = {NULL, NULL};
        for (int a = 0; a < i->nargs && a < 2; a++) of[a] = follower(on, i->args[a], frame);
        bool ratio = i->kind == T_OP && i->op == OP_div && of[0] && of[1];
        if (ratio && same_rescale(of[0], of[1])) continue;
        for (int a = 0; a < i->nargs; a++)
            if (i->args[a] == frame || follower(on, i->args[a], frame)) return true;
        for (int d = 0; d < i->nix; d++)
            if (ix_reads(i->ix[d], frame)) return true;
    }
    return false;
}

void on_still_facts(On *on) {
    if (on->t.out.split > 1) return; /* parts of a tile have frames of their own */
    for (int k = 0; k < on->o.nrows; k++) {
        int id = on->o.row[k].c->id;
        bool frame = false;
        for (int c = 0; c < on->o.loop->carries.n; c++)
            frame |= on->o.loop->carries.v[c].frame == id;
        if (!frame || on->o.row[k].c->frame >= 0) continue;
        on->still[k] = find_still(on, k);
        on->idle[k] = on->still[k] && !looked_at(on, id);
    }
}

bool on_is_still(const On *on, const TCarry *follower) {
    return follower->frame >= 0 && on->still[on_row_of(on, follower->frame)];
}
