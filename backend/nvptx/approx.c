/* approx.c - which values may be approximate: decided from what they end in, backwards.
 *
 * A value that only ends in 16-bit or smaller stores need not be exact to the last of an f32's 24
 * bits. The grades:
 *     exact    nothing is known, or it is compared, indexes, or goes into a function
 *     f32      the same, but only since it is stored as an f32
 *     fine     a relative error of some 2^-19 drowns in the rounding of the store: f16, and all
 *              that goes into sums
 *     bf16     fine, for stores of bf16 and fp8 (8 bits and less) that are reached without a sum: a
 *              relative error of 2^-11 drowns
 *     factor   bf16, and the value is a factor of a product: an error of 2^-12 against the largest
 *              value of a bounded function does, too, beside the other factor
 * A value with several uses has the strictest. What another step reads was rounded when it was
 * stored, and an error moves some elements by a whole unit of the stored type: no harm to what ends
 * in such types again, too much for anything else, which wants the value exact.
 */
#include "backend/nvptx/approx_int.h"

#include <math.h>
#include <string.h>

static Approx stored_as(DType t) {
    switch (t) {
    case DT_f16: return APPROX_FINE;
    case DT_bf16:
    case DT_e4m3:
    case DT_e5m2: return APPROX_BF16;
    case DT_f32: return APPROX_F32;
    default: return APPROX_NONE;
    }
}

static void need(Lower *l, int id, Approx a) {
    if (a < l->approx[id]) l->approx[id] = a;
}

static void need_not(Lower *l, int id, Approx a) {
    if (a > l->approx[id]) l->approx[id] = a;
}

static bool is_const(const Lower *l, int id) {
    return l->def[id] && l->def[id]->kind == T_CONST;
}

/* What the operands of an op may be when its value may be `a`. */
static void through(Lower *l, const TInst *i, Approx a) {
    Approx fine = a < APPROX_FINE ? a : APPROX_FINE;
    const int *arg = i->args;
    switch (i->op) {
    case OP_mul: {
        bool product = a == APPROX_BF16 && !is_const(l, arg[0]) && !is_const(l, arg[1]);
        Approx of = product ? APPROX_FACTOR : a;
        need(l, arg[0], of);
        need(l, arg[1], of);
        return;
    }
    case OP_add:
    case OP_sub: { /* 1 - x may be small where x is not: only beside a factor */
        Approx of = a == APPROX_FACTOR ? a : fine;
        need(l, arg[0], of);
        need(l, arg[1], of);
        return;
    }
    case OP_div: need(l, arg[0], a), need(l, arg[1], fine); return;
    case OP_neg:
    case OP_abs:
    case OP_copy: need(l, arg[0], a); return;
    case OP_cast: need(l, arg[0], dtype_class(i->type) == DC_REAL ? a : APPROX_NONE); return;
    case OP_min:
    case OP_max: need(l, arg[0], a), need(l, arg[1], a); return;
    case OP_select: need(l, arg[0], APPROX_NONE), need(l, arg[1], a), need(l, arg[2], a); return;
    case OP_exp:
    case OP_exp2: /* of what a product rounds to 16 bits */
        need(l, arg[0], l->online && a >= APPROX_FINE ? APPROX_FINE : APPROX_NONE);
        return;
    case OP_tanh:
    case OP_erf: need(l, arg[0], fine); return; /* no error grows in them */
    case OP_within: need(l, arg[0], APPROX_NONE), need(l, arg[1], a); return;
    default:
        for (int k = 0; k < i->nargs; k++) need(l, arg[k], APPROX_NONE);
    }
}

static void exact_index(Lower *l, const Ix *x) {
    if (x->kind == IX_VALUE) need(l, (int)x->num, APPROX_NONE);
    for (int i = 0; i < x->n; i++) exact_index(l, x->arg[i]);
}

/* What a store allows. */
static Approx stored(const Lower *l, const TTensor *x) {
    for (const ExactTensor *e = l->exact; e; e = e->next)
        if (e->mem == x->mem && e->id == x->id) return APPROX_NONE;
    return stored_as(x->type);
}

/* Uses come after definitions, so the last instruction is looked at first. Inside of its loop a
 * carried value is used as its frame, in exponents: exact. */
static void block(Lower *l, const TBlock *b) {
    for (int k = b->inst.n - 1; k >= 0; k--) {
        const TInst *i = b->inst.v[k];
        for (int d = 0; d < i->nix; d++) exact_index(l, i->ix[d]);
        switch (i->kind) {
        case T_STORE: need(l, i->args[0], stored(l, &l->t->tensors.v[i->tensor])); break;
        case T_OP: through(l, i, l->approx[i->id]); break;
        case T_STEP: {
            Approx a = l->approx[i->args[0]];
            need(l, i->args[1], a < APPROX_FINE ? a : APPROX_FINE);
            break;
        }
        case T_GUARD:
            need(l, i->args[0], APPROX_NONE);
            block(l, &i->body);
            break;
        case T_LOOP:
            for (int c = 0; c < i->carries.n; c++) {
                const TCarry *y = &i->carries.v[c];
                /* Of what is as good as a tensor core's own sums; those that are compared later are
                 * compared with what is computed elsewhere. */
                Approx least = y->frame >= 0 ? APPROX_NONE : APPROX_F32;
                if (l->online && !l->o->strict && l->approx[y->id] >= least)
                    need_not(l, y->id, APPROX_FINE);
                if (y->frame >= 0) need(l, y->frame, l->online ? APPROX_FINE : APPROX_NONE);
                if (dtype_class(y->type) != DC_REAL) need(l, y->id, APPROX_NONE);
            }
            block(l, &i->body);
            break;
        default: break;
        }
    }
}

/* ---- polynomials ---- */

static Poly itself(int id) {
    return (Poly){.base = id, .c = {0, 1}};
}

static int degree(const Poly *p) {
    int d = POLY_MAX;
    while (d > 0 && p->c[d] == 0) d--;
    return d;
}

static bool monomial(const Poly *p) {
    int n = 0;
    for (int i = 0; i <= POLY_MAX; i++) n += p->c[i] != 0;
    return n <= 1;
}

/* Of one base, which a constant has not. */
static bool joint(const Poly *a, const Poly *b, int *base) {
    int both = a->base < 0 ? b->base : a->base;
    bool are = a->base < 0 || b->base < 0 || a->base == b->base;
    *base = both;
    return are;
}

/* Only products that cancel nothing are multiplied out: c x^n times a sum. */
static bool product(const Poly *a, const Poly *b, Poly *p) {
    if (!joint(a, b, &p->base) || degree(a) + degree(b) > POLY_MAX) return false;
    if (!monomial(a) && !monomial(b)) return false;
    for (int i = 0; i <= degree(a); i++)
        for (int k = 0; k <= degree(b); k++) p->c[i + k] += a->c[i] * b->c[k];
    return true;
}

static bool sum(const Poly *a, const Poly *b, double sign, Poly *p) {
    Poly s = {0};
    if (!joint(a, b, &s.base)) return false;
    for (int i = 0; i <= POLY_MAX; i++) s.c[i] = a->c[i] + sign * b->c[i];
    *p = s;
    return true;
}

/* By a constant: a product with its reciprocal. */
static bool quotient(const Poly *a, const Poly *b, Poly *p) {
    Poly by = {.base = -1, .c = {1 / b->c[0]}};
    if (b->base >= 0 || !(fabs(by.c[0]) > 0x1p-120 && fabs(by.c[0]) < 0x1p120)) return false;
    return product(a, &by, p);
}

/* Of a value, from those of its operands, which came before it. */
static Poly poly_of(const Lower *l, const TInst *i) {
    if (i->kind == T_CONST && dtype_value(i->type) == DT_f32)
        return (Poly){.base = -1, .c = {dtype_round(i->type, i->num)}};
    if (i->kind != T_OP || i->type != DT_f32) return itself(i->id);
    Poly p = {.base = -1};
    const Poly *a = &l->poly[i->args[0]], *b = i->nargs > 1 ? &l->poly[i->args[1]] : NULL;
    bool is = false;
    if (i->op == OP_neg) is = sum(&p, a, -1, &p);
    if (i->op == OP_add) is = sum(a, b, 1, &p);
    if (i->op == OP_sub) is = sum(a, b, -1, &p);
    if (i->op == OP_mul) is = product(a, b, &p);
    if (i->op == OP_div) is = quotient(a, b, &p);
    return is ? p : itself(i->id);
}

static void define(Lower *l, const TBlock *b) {
    for (int k = 0; k < b->inst.n; k++) {
        const TInst *i = b->inst.v[k];
        if (i->id >= 0) l->def[i->id] = i, l->poly[i->id] = poly_of(l, i);
        for (int c = 0; c < i->carries.n; c++)
            l->poly[i->carries.v[c].id] = itself(i->carries.v[c].id);
        define(l, &i->body);
    }
}

static void find_in(Lower *l) {
    int n = l->t->nvalues + 1;
    l->approx = ARENA_ARRAY(l->arena, Approx, n);
    l->def = ARENA_ARRAY(l->arena, const TInst *, n);
    l->poly = ARENA_ARRAY(l->arena, Poly, n);
    define(l, &l->t->body);
    for (int i = 0; i < n; i++) l->approx[i] = l->o->strict ? APPROX_NONE : APPROX_FACTOR;
    if (!l->o->strict) block(l, &l->t->body);
}

/* ---- what later steps want exact ---- */

static void note_loads(Lower *l, const Lower *in, const TBlock *b) {
    for (int k = 0; k < b->inst.n; k++) {
        const TInst *i = b->inst.v[k];
        note_loads(l, in, &i->body);
        if (i->kind != T_LOAD || in->approx[i->id] >= APPROX_FINE) continue;
        const TTensor *x = &in->t->tensors.v[i->tensor];
        ExactTensor *e = ARENA_NEW(l->arena, ExactTensor);
        *e = (ExactTensor){x->mem, x->id, l->exact};
        l->exact = e;
    }
}

void approx_find(Lower *l) {
    for (int i = l->plan && !l->o->strict ? l->plan->steps.n - 1 : -1; i >= 0; i--) {
        const TProg *t = l->plan->steps.v[i].tile;
        if (t == l->step) break;
        Lower in = {.arena = l->arena, .t = t, .o = l->o, .exact = l->exact};
        find_in(&in);
        note_loads(l, &in, &t->body);
    }
    find_in(l);
}
