/* online_exp.c - an exponential of a sum, as one multiply-add and one instruction: exp(s * c - m)
 * is ex2(s * (c log2 e) - m log2 e), of which all but s and the multiply-add is the same along a
 * row. Sums, differences and products by what is the same along a row are multiplied out down to
 * values that are there anyway, or to functions near 0 (online_near.c), whose last multiplication
 * is then that multiply-add.
 */
#include "backend/nvptx/approx_int.h"
#include "backend/nvptx/frame_int.h"
#include "backend/nvptx/online_int.h"

enum { TERMS = 8, FACTORS = 4 };

typedef struct Exp {
    Lower *l;
    int j;              /* the axis along a row */
    const bool *needed; /* per value: it is there anyway; NULL: none is known to be */
    const On *near;     /* whose functions near 0 are opened; NULL: none */
} Exp;

typedef struct Term { /* by * factors * value; value -1: 1 */
    int value;
    const OnNear *near; /* of value, but for what it is at 0 */
    double by;
    int factor[FACTORS], n;
} Term;

typedef struct Sum {
    Term term[TERMS];
    int n;
} Sum;

static bool along(const Exp *on, int id) {
    return on->l->deps[id] >> on->j & 1;
}

static bool is_const(const Lower *l, int id, double *v) {
    const TInst *d = l->def[id];
    if (!d || d->kind != T_CONST || dtype_value(d->type) != DT_f32) return false;
    *v = dtype_round(d->type, d->num);
    return true;
}

static bool add_term(Sum *s, Term t) {
    if (s->n == TERMS) return false;
    s->term[s->n++] = t;
    return true;
}

static bool multiply_out(const Exp *on, int id, Term t, Sum *s);

static bool times(const Exp *on, const TInst *d, Term t, Sum *s) {
    double c;
    for (int k = 0; k < 2; k++)
        if (is_const(on->l, d->args[k], &c)) {
            t.by *= c;
            return multiply_out(on, d->args[1 - k], t, s);
        }
    for (int k = 0; k < 2; k++)
        if (!along(on, d->args[k]) && t.n < FACTORS) {
            t.factor[t.n++] = d->args[k];
            return multiply_out(on, d->args[1 - k], t, s);
        }
    t.value = d->id;
    return add_term(s, t);
}

static bool multiply_out(const Exp *on, int id, Term t, Sum *s) {
    const TInst *d = on->l->def[id];
    const OnNear *near = on->near && !t.n && !on->needed[id] ? on_near(on->near, id) : NULL;
    double c;
    if (near) {
        Term at0 = {.value = -1, .by = t.by * fast_near_shift(near->i->op)};
        t.value = near->base, t.near = near;
        return add_term(s, t) && (at0.by == 0 || add_term(s, at0));
    }
    if (is_const(on->l, id, &c)) {
        t.by *= c;
        t.value = -1;
        return add_term(s, t);
    }
    bool open = d && d->kind == T_OP && d->type == DT_f32 && along(on, id) &&
                !(on->needed && on->needed[id]);
    for (int k = 0; open && k < d->nargs; k++)
        open = dtype_value(on->l->type[d->args[k]]) == DT_f32;
    Term minus = t;
    minus.by = -t.by;
    if (open) switch (d->op) {
        case OP_add:
            return multiply_out(on, d->args[0], t, s) && multiply_out(on, d->args[1], t, s);
        case OP_sub:
            return multiply_out(on, d->args[0], t, s) && multiply_out(on, d->args[1], minus, s);
        case OP_neg: return multiply_out(on, d->args[0], minus, s);
        case OP_mul: return times(on, d, t, s);
        default: break;
        }
    t.value = id;
    return add_term(s, t);
}

static Val mul_element(Lower *l, const void *ctx, const Val *in) {
    (void)ctx;
    return LLVMBuildFMul(l->b, in[0], in[1], "");
}

static Val add_element(Lower *l, const void *ctx, const Val *in) {
    (void)ctx;
    return LLVMBuildFAdd(l->b, in[0], in[1], "");
}

static Val fma_element(Lower *l, const void *ctx, const Val *in) {
    (void)ctx;
    Val arg[3] = {in[0], in[1], in[2]};
    return ptx_intrinsic(l, l->b, "llvm.fma", &l->f32, 1, arg, 3);
}

static Val ex2_element(Lower *l, const void *ctx, const Val *in) {
    (void)ctx;
    Val arg = in[0];
    return ptx_intrinsic(l, l->b, "llvm.nvvm.ex2.approx.ftz.f", NULL, 0, &arg, 1);
}

/* What a term is multiplied by. */
static Frag scale_of(Lower *l, const Term *t, double unit) {
    Frag f = frag_one(l, const_real(l, t->by * unit));
    for (int k = 0; k < t->n; k++) {
        Frag in[2] = {value_of(l, t->factor[k]), f};
        f = frag_map(l, mul_element, NULL, in, 2);
    }
    return f;
}

static bool is_number(const Frag *f, double v) {
    LLVMBool lossy;
    return f->n == 1 && LLVMIsAConstantFP(f->v[0]) && LLVMConstRealGetDouble(f->v[0], &lossy) == v;
}

typedef struct NearCtx {
    const OnNear *near;
    double by;
    bool adds, last; /* something before it; it is the last */
} NearCtx;

static Val near_element(Lower *l, const void *ctx, const Val *in) {
    const NearCtx *c = ctx;
    Val x = type_widen(l, l->type[c->near->base], DT_f32, in[0]);
    Val v = fast_near_sum(l, c->near->i->op, &c->near->p, x, c->by, c->adds ? in[1] : NULL);
    return c->last ? ex2_element(l, NULL, &v) : v;
}

static bool terms(const Exp *on, const TInst *i, Sum *s) {
    Lower *l = on->l;
    *s = (Sum){.n = 0};
    if ((i->op != OP_exp && i->op != OP_exp2) || !fast_has(i->op, l->approx[i->id])) return false;
    if (!along(on, i->id) || dtype_value(l->type[i->args[0]]) != DT_f32) return false;
    return multiply_out(on, i->args[0], (Term){.value = -1, .by = 1}, s);
}

/* Where it ends in a function near 0, element by element: the two take turns in the machine. */
static bool emit(const Exp *on, const TInst *i) {
    static const double log2e = 1.4426950408889634;
    Lower *l = on->l;
    Sum s;
    if (!terms(on, i, &s)) return false;
    double unit = i->op == OP_exp ? log2e : 1;
    Frag sum = {0};
    int left = s.n;
    bool done = false;
    for (int pass = 0; pass < 2; pass++) { /* what is the same along a row comes first */
        if (pass && sum.n && is_number(&sum, 0)) sum.n = 0;
        for (int k = 0; k < s.n; k++) {
            const Term *t = &s.term[k];
            bool moves = t->value >= 0 && along(on, t->value);
            if (moves != pass) continue;
            left--;
            if (t->near) {
                NearCtx c = {t->near, t->by * unit, sum.n > 0, left == 0};
                Frag near[2] = {value_of(l, t->value), sum};
                sum = frag_map(l, near_element, &c, near, 1 + c.adds);
                done = c.last;
                continue;
            }
            Frag by = scale_of(l, t, unit);
            Frag in[3] = {t->value < 0 ? by : value_of(l, t->value), by, sum};
            Frag term = in[0];
            if (sum.n && t->value >= 0) {
                sum = frag_map(l, fma_element, NULL, in, 3);
                continue;
            }
            if (t->value >= 0 && !is_number(&by, 1)) term = frag_map(l, mul_element, NULL, in, 2);
            Frag both[2] = {sum, term};
            sum = sum.n ? frag_map(l, add_element, NULL, both, 2) : term;
        }
    }
    l->value[i->id] = done ? sum : frag_map(l, ex2_element, NULL, &sum, 1);
    return true;
}

bool exponential_emit(Lower *l, const TInst *i, int j, const bool *needed) {
    return emit(&(Exp){l, j, needed, NULL}, i);
}

bool on_exponential(On *on, const TInst *i) {
    return emit(&(Exp){on->l, on->o.j, on->needed, on->near_now ? on : NULL}, i);
}

bool on_exponent_opens(On *on, const TInst *i) {
    const Exp e = {on->l, on->o.j, on->needed, on};
    Sum s;
    bool is = i->kind == T_OP && terms(&e, i, &s);
    for (int k = 0; is && k < s.n; k++)
        if (!s.term[k].near && s.term[k].value >= 0 && on->inside[s.term[k].value]) is = false;
    return is;
}
