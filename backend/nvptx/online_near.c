/* online_near.c - functions that are short where their argument is near 0 (fast.c), of elements of
 * a block: which, how far the arguments of a warp's elements go, and both ways to compute them.
 *
 * A warp whose arguments are all near takes the short way, any other the way for all: a branch,
 * decided by one vote on the greatest magnitude. NaN is near: it stays NaN in either way.
 */
#include "backend/nvptx/online_int.h"

#include <math.h>
#include <string.h>

static bool depends_on_near(const On *on, const TInst *i) {
    for (int k = 0; k < i->nargs; k++)
        if (on->after_near[i->args[k]]) return true;
    return false;
}

/* Of its argument as a polynomial of something: that, if it is no more than a factor. */
static OnNear near_of(const On *on, const TInst *i) {
    const Lower *l = on->l;
    int at = i->args[0];
    OnNear n = {.i = i, .base = at, .p = {.base = at, .c = {0, 1}}};
    double k = l->poly[at].base >= 0 ? poly_slope(&l->poly[at]) : 0;
    if (k != 0) n.p = l->poly[at], n.base = n.p.base;
    n.most = fast_near(i->op, l->approx[i->id]) / (k != 0 ? fabs(k) : 1);
    return n;
}

static bool may_be_near(const On *on, const OnlineInst *x) {
    const Lower *l = on->l;
    const TInst *i = x->i;
    bool is = i->kind == T_OP && i->nargs == 1 && !x->early && !x->framed && !x->factor &&
              i->type == DT_f32 && (l->deps[i->id] >> on->o.j & 1) && !depends_on_near(on, i);
    if (!is || fast_near(i->op, l->approx[i->id]) == 0) return false;
    return dtype_value(l->type[near_of(on, i).base]) == DT_f32;
}

/* Conditions must be known before. */
static bool guards_wait(const On *on) {
    for (int k = 0; k < on->o.body.n; k++)
        for (int g = 0; g < on->o.body.v[k].guards.n; g++)
            if (on->after_near[on->o.body.v[k].guards.v[g]]) return true;
    return false;
}

const OnNear *on_near(const On *on, int id) {
    for (int k = 0; k < on->nnear; k++)
        if (on->near[k].i->id == id) return &on->near[k];
    return NULL;
}

/* Is the greatest of a function that of the greatest argument? */
bool on_near_passes(const On *on, const OnlineRow *x) {
    const OnNear *n = on_near(on, x->step->args[1]);
    return n && op_traits(reduce_combine(x->c->red)) & OPT_I && n->p.c[1] > 0;
}

void on_near_facts(On *on) {
    on->after_near = ARENA_ARRAY(on->l->arena, bool, on->l->t->nvalues + 1);
    for (int k = 0; k < on->o.body.n; k++) {
        const OnlineInst *x = &on->o.body.v[k];
        if (x->i->id < 0) continue;
        bool is = on->nnear < ON_NEAR && may_be_near(on, x);
        if (is) on->near[on->nnear++] = near_of(on, x->i);
        on->after_near[x->i->id] = is || depends_on_near(on, x->i);
    }
    if (guards_wait(on)) on->nnear = 0;
    if (!on->nnear) memset(on->after_near, 0, sizeof(bool) * (size_t)(on->l->t->nvalues + 1));
    on->near_passes = on->nnear > 0;
    for (int k = 0; k < on->o.nrows; k++) {
        const OnlineRow *x = &on->o.row[k];
        if (x->c->frame >= 0 || on->idle[k] || !on->after_near[x->step->args[1]]) continue;
        on->near_passes &= on_near_passes(on, x);
    }
}

static bool has_inside(const On *on, const TInst *i) {
    for (int k = i->kind == T_STEP; k < i->nargs; k++)
        if (on->inside[i->args[k]]) return true;
    return false;
}

void on_near_close(On *on) {
    int n = on->l->t->nvalues + 1;
    on->inside = ARENA_ARRAY(on->l->arena, bool, n);
    on->closed = on->near_passes;
    for (int k = 0; k < on->o.body.n && on->closed; k++) {
        const OnlineInst *x = &on->o.body.v[k];
        const TInst *i = x->i;
        for (int d = 0; d < i->nix; d++) on->closed &= !i->ix[d]->has_value;
        if (i->id >= 0 && on_near(on, i->id)) {
            on->inside[i->id] = true;
        } else if (has_inside(on, i)) {
            int row = i->kind == T_STEP ? on_row_of(on, i->args[0]) : -1;
            bool row_ok = row >= 0 && on->o.row[row].c->frame < 0; /* or near_passes would not be */
            if (x->factor || (i->kind == T_STEP && !row_ok)) on->closed = false;
            if (i->id < 0) continue;
            on->inside[i->id] = !on_exponent_opens(on, i);
        }
    }
    for (int f = 0; f < on->o.nfactors; f++) on->closed &= !on->inside[on->factor_value[f]];
}

/* ---- of elements ---- */

static Val near_element(Lower *l, const void *ctx, const Val *in) {
    const OnNear *n = ctx;
    return fast_emit_near(l, n->i->op, &n->p, type_widen(l, l->type[n->base], DT_f32, in[0]));
}

void on_near_emit(On *on, bool near) {
    Lower *l = on->l;
    for (int k = 0; k < on->nnear; k++) {
        const OnNear *n = &on->near[k];
        Frag in = near ? value_of(l, n->base) : (Frag){0};
        if (near)
            l->value[n->i->id] = frag_map(l, near_element, n, &in, 1);
        else
            emit_inst(l, n->i);
    }
}

Val on_near_row(On *on, int row, Val v) {
    Lower *l = on->l;
    const OnlineRow *x = &on->o.row[row];
    const OnNear *n = on_near(on, x->step->args[1]);
    Val none = identity(l, x->c->red, DT_f32);
    Val is = LLVMBuildFCmp(l->b, LLVMRealOEQ, v, none, "");
    return LLVMBuildSelect(l->b, is, none, near_element(l, n, &v), "");
}

/* ---- how far ---- */

static Val magnitude(Lower *l, Val v) {
    return ptx_intrinsic(l, l->b, "llvm.fabs", &l->f32, 1, &v, 1);
}

void on_near_measure(On *on, OnReach *reach) {
    Lower *l = on->l;
    for (int k = 0; k < on->nnear; k++) {
        Frag f = value_of(l, on->near[k].base);
        for (int e = 0; e < f.n; e++) {
            Val *to = &reach->most[k][e % CHAINS];
            Val v = magnitude(l, type_widen(l, l->type[on->near[k].base], DT_f32, f.v[e]));
            Val arg[2] = {*to, v};
            *to = *to ? ptx_intrinsic(l, l->b, "llvm.maxnum", &l->f32, 1, arg, 2) : v;
        }
    }
}

Val on_near_left(On *on, const OnReach *reach) {
    Lower *l = on->l;
    Val left = LLVMConstInt(l->i1, 0, 0);
    for (int k = 0; k < on->nnear; k++)
        for (int c = 0; c < CHAINS; c++) {
            Val v = reach->most[k][c];
            if (!v) continue;
            v = LLVMBuildFCmp(l->b, LLVMRealOGT, v, const_real(l, on->near[k].most), "");
            left = LLVMBuildOr(l->b, left, v, "");
        }
    return left;
}
