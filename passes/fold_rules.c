/* fold_rules.c - the laws of pointwise ops. Each function is one law; the table is at the end. */
#include "passes/fold_int.h"

#include <math.h>

static const Node *node_of(const Fold *f, const Operand *o) {
    return f->g->nodes.v[o->node];
}

/* Operand 0 of the `op` that operand i of n reads, where both compute in the same type. Not behind
 * a checked read: outside, that gives +0 and not op(0). */
static bool below(Fold *f, const Node *n, int i, Op op, Operand *x) {
    const Operand *o = &n->in[i];
    return !o->checked && rb_is_op(f->g, o, op) && node_of(f, o)->type == n->type &&
           rb_through(f->g, o, 0, x);
}

static bool is_real(const Node *n) {
    return dtype_class(n->type) == DC_REAL;
}

static bool real_is(const Fold *f, const Operand *o, double want) {
    double v;
    return fold_real(f->g, o, &v) && v == want && signbit(v) == signbit(want);
}

/* A real -0, or an integer 0 in integer arithmetic: what can be added and not be seen. */
static bool adds_nothing(const Fold *f, const Node *n, const Operand *o) {
    return is_real(n) ? real_is(f, o, -0.0) : real_is(f, o, 0.0);
}

/* Whether a term vanishes: x may stand alone in the place of n. */
static Fate alone(Fold *f, Operand x) {
    return fold_plain(f, &x) ? fold_out(f, x) : FOLD_NOT;
}

/* ---- constants ---- */

static Fate constants(Fold *f, Node *n) {
    EvalVal v[8];
    DType type[8];
    if (n->op == OP_copy || n->op == OP_within) return FOLD_NOT;
    for (int i = 0; i < n->nin; i++) type[i] = node_of(f, &n->in[i])->type;
    for (int i = 0; i < n->nin; i++) {
        Num c;
        if (!fold_const(f->g, &n->in[i], &c)) return FOLD_NOT;
        v[i] = eval_widen(c.type, dtype_value(op_operand(n->op, type, i)), c.v);
    }
    int last = n->nin - 1;
    DType value = dtype_value(n->type);
    EvalVal r = eval_op(n->op, n->type, dtype_value(op_operand(n->op, type, last)), v);
    if (dtype_class(value) == DC_REAL) r.r = dtype_round(DT_f32, r.r);
    if (n->type == value) return fold_out_num(f, value, r.r, r.i);
    const Node *arg = node_of(f, &n->in[0]); /* a cast to a storage type: keep it, round below */
    bool same = arg->kind == N_CONST && arg->type == value &&
                (is_real(arg) ? arg->num == r.r || isnan(r.r) : arg->inum == r.i);
    if (same) return FOLD_NOT;
    n->in[0] = rb_const(f->g, value, r.r, r.i);
    return FOLD_EDIT;
}

/* ---- sums ---- */

static Fate add_zero(Fold *f, Node *n) {
    if (adds_nothing(f, n, &n->in[1])) return alone(f, n->in[0]);
    if (adds_nothing(f, n, &n->in[0])) return alone(f, n->in[1]);
    return FOLD_NOT;
}

static Fate add_neg(Fold *f, Node *n) {
    Operand x;
    if (below(f, n, 1, OP_neg, &x)) return fold_to(n, OP_sub, 2, n->in[0], x);
    if (below(f, n, 0, OP_neg, &x)) return fold_to(n, OP_sub, 2, n->in[1], x);
    return FOLD_NOT;
}

static Fate sub_zero(Fold *f, Node *n) {
    return real_is(f, &n->in[1], 0.0) ? alone(f, n->in[0]) : FOLD_NOT;
}

static Fate sub_neg(Fold *f, Node *n) {
    Operand x;
    return below(f, n, 1, OP_neg, &x) ? fold_to(n, OP_add, 2, n->in[0], x) : FOLD_NOT;
}

static Fate sub_self(Fold *f, Node *n) {
    if (is_real(n) || !rb_same(f->g, &n->in[0], &n->in[1])) return FOLD_NOT;
    return fold_out_num(f, n->type, 0, 0);
}

static Fate neg_neg(Fold *f, Node *n) {
    Operand x;
    return below(f, n, 0, OP_neg, &x) ? fold_out(f, x) : FOLD_NOT;
}

/* ---- products ---- */

static Fate mul_one(Fold *f, Node *n) {
    for (int i = 0; i < 2; i++)
        if (real_is(f, &n->in[i], 1)) return fold_out(f, n->in[1 - i]);
    return FOLD_NOT;
}

static Fate mul_minus_one(Fold *f, Node *n) {
    for (int i = 0; i < 2; i++) {
        Operand x = n->in[1 - i];
        if (!fold_plain(f, &x)) continue; /* outside, a product is 0 and a negation -0 */
        if (real_is(f, &n->in[i], -1) && dtype_value(node_of(f, &x)->type) == n->type)
            return fold_to(n, OP_neg, 1, x, x);
    }
    return FOLD_NOT;
}

static Fate mul_neg_neg(Fold *f, Node *n) {
    Operand x, y;
    if (!below(f, n, 0, OP_neg, &x) || !below(f, n, 1, OP_neg, &y)) return FOLD_NOT;
    return fold_to(n, n->op, 2, x, y);
}

static Fate mul_int_zero(Fold *f, Node *n) {
    for (int i = 0; i < 2 && !is_real(n); i++)
        if (real_is(f, &n->in[i], 0) && fold_plain(f, &n->in[1 - i]))
            return fold_out_num(f, n->type, 0, 0);
    return FOLD_NOT;
}

static Fate div_one(Fold *f, Node *n) {
    return real_is(f, &n->in[1], 1) ? fold_out(f, n->in[0]) : FOLD_NOT;
}

/* x / 2^n has the bits of x * 2^-n: both round the same real number. */
static Fate div_power_of_two(Fold *f, Node *n) {
    double v;
    int e;
    if (!fold_real(f->g, &n->in[1], &v) || !isfinite(v) || fabs(frexp(v, &e)) != 0.5)
        return FOLD_NOT;
    if (e < -124 || e > 126) return FOLD_NOT; /* both v and 1/v are normal */
    return fold_to(n, OP_mul, 2, n->in[0], rb_const(f->g, DT_f32, 1 / v, 0));
}

static Fate idiv_one(Fold *f, Node *n) {
    return real_is(f, &n->in[1], 1) ? fold_out(f, n->in[0]) : FOLD_NOT;
}

static Fate imod_one(Fold *f, Node *n) {
    return real_is(f, &n->in[1], 1) ? fold_out_num(f, n->type, 0, 0) : FOLD_NOT;
}

/* pow agrees with these on every bit but the last, where they are the better rounded; NaN^0 is 1,
 * (-0)^-1 is -inf, and so on. 0.5 is not sqrt: they differ at -0 and -inf. */
static Fate pow_simple(Fold *f, Node *n) {
    Operand x = n->in[0];
    if (real_is(f, &n->in[1], 0) || real_is(f, &n->in[1], -0.0))
        return fold_out_num(f, DT_f32, 1, 0);
    if (real_is(f, &n->in[1], 1)) return alone(f, x);
    if (real_is(f, &n->in[1], -1)) return fold_to(n, OP_div, 2, rb_const(f->g, DT_f32, 1, 0), x);
    bool square = real_is(f, &n->in[1], 2) && dtype_value(node_of(f, &x)->type) == DT_f32;
    return square && fold_plain(f, &x) ? fold_to(n, OP_mul, 2, x, x) : FOLD_NOT;
}

/* ---- rounding, absolute value, extremes ---- */

static Fate abs_abs(Fold *f, Node *n) {
    Operand x;
    if (below(f, n, 0, OP_abs, &x)) return fold_out(f, n->in[0]);
    return below(f, n, 0, OP_neg, &x) ? fold_to(n, OP_abs, 1, x, x) : FOLD_NOT;
}

static Fate round_whole(Fold *f, Node *n) {
    const Node *x = node_of(f, &n->in[0]);
    bool whole = dtype_is_int(x->type) ||
                 (x->kind == N_OP && (x->op == OP_floor || x->op == OP_ceil || x->op == OP_round));
    return whole ? alone(f, n->in[0]) : FOLD_NOT;
}

static Fate extreme_same(Fold *f, Node *n) {
    return rb_same(f->g, &n->in[0], &n->in[1]) ? alone(f, n->in[0]) : FOLD_NOT;
}

static Fate extreme_infinity(Fold *f, Node *n) {
    double none = n->op == OP_max ? -INFINITY : INFINITY;
    for (int i = 0; i < 2; i++)
        if (real_is(f, &n->in[i], none)) return alone(f, n->in[1 - i]);
    return FOLD_NOT;
}

/* ---- conditions ---- */

static Fate and_or(Fold *f, Node *n) {
    bool v, neutral = n->op == OP_and;
    for (int i = 0; i < 2; i++) {
        if (!fold_bool(f->g, &n->in[i], &v)) continue;
        return v == neutral ? alone(f, n->in[1 - i]) : fold_out_num(f, DT_bool, 0, v);
    }
    return rb_same(f->g, &n->in[0], &n->in[1]) ? alone(f, n->in[0]) : FOLD_NOT;
}

static Fate not_not(Fold *f, Node *n) {
    Operand x;
    return below(f, n, 0, OP_not, &x) ? alone(f, x) : FOLD_NOT;
}

static Op opposite(Op op) {
    switch (op) {
    case OP_eq: return OP_ne;
    case OP_ne: return OP_eq;
    case OP_lt: return OP_ge;
    case OP_ge: return OP_lt;
    case OP_le: return OP_gt;
    case OP_gt: return OP_le;
    default: return OP_COUNT;
    }
}

/* Integers only, but for == and !=: a NaN makes both x < y and x >= y false. */
static Fate not_compare(Fold *f, Node *n) {
    const Node *c = node_of(f, &n->in[0]);
    if (c->kind != N_OP || opposite(c->op) == OP_COUNT) return FOLD_NOT;
    bool ints =
        dtype_is_int(node_of(f, &c->in[0])->type) && dtype_is_int(node_of(f, &c->in[1])->type);
    Operand a, b;
    if (!ints && c->op != OP_eq && c->op != OP_ne) return FOLD_NOT;
    if (n->in[0].checked) return FOLD_NOT; /* outside, `not` gives true */
    if (!rb_through(f->g, &n->in[0], 0, &a) || !rb_through(f->g, &n->in[0], 1, &b)) return FOLD_NOT;
    n->in = ARENA_ARRAY(f->g->arena, Operand, 2);
    return fold_to(n, opposite(c->op), 2, a, b);
}

static Fate select_constant(Fold *f, Node *n) {
    bool v;
    return fold_bool(f->g, &n->in[0], &v) ? alone(f, n->in[v ? 1 : 2]) : FOLD_NOT;
}

static Fate select_same(Fold *f, Node *n) {
    return rb_same(f->g, &n->in[1], &n->in[2]) ? alone(f, n->in[1]) : FOLD_NOT;
}

static Fate select_not(Fold *f, Node *n) {
    Operand c, a = n->in[1];
    if (!rb_is_op(f->g, &n->in[0], OP_not) || n->in[0].checked) return FOLD_NOT;
    if (!rb_through(f->g, &n->in[0], 0, &c)) return FOLD_NOT;
    n->in[0] = c;
    n->in[1] = n->in[2];
    n->in[2] = a;
    return FOLD_EDIT;
}

/* ---- domains ---- */

static Fate within_true(Fold *f, Node *n) {
    bool v;
    return fold_bool(f->g, &n->in[0], &v) && v ? fold_out(f, n->in[1]) : FOLD_NOT;
}

static Operand both(Fold *f, const Node *n, int rank, Operand a, Operand b) {
    Node *c = rb_op(f->g, OP_and, DT_bool, n, rank);
    c->in[0] = a;
    c->in[1] = b;
    return fold_new(f, c);
}

static bool read_within(Fold *f, const Operand *o, Operand *c, Operand *x) {
    return rb_is_op(f->g, o, OP_within) && !o->checked && rb_through(f->g, o, 0, c) &&
           rb_through(f->g, o, 1, x);
}

static Fate within_within(Fold *f, Node *n) {
    Operand c, x;
    if (!read_within(f, &n->in[1], &c, &x)) return FOLD_NOT;
    return fold_to(n, OP_within, 2, both(f, n, n->rank, n->in[0], c), x);
}

/* What a sum reads, without the conditions that its terms are skipped by (or a within, without
 * those it repeats). */
typedef struct Strip {
    Fold *f;
    const Node *reader;
    Operand where; /* of what was found, over the reader's axes */
    bool found;
    int steps;
} Strip;

static bool strip(Strip *s, const Operand *at, const Operand *here, Operand *out);

static void strip_condition(Strip *s, Operand c) {
    s->where = s->found ? both(s->f, s->reader, s->reader->naxes, s->where, c) : c;
    s->found = true;
}

/* n, with its operands stripped where a 0 outside passes through n; read as `here` reads it. */
static bool strip_op(Strip *s, const Operand *at, const Operand *here, Operand *out) {
    Graph *g = s->f->g;
    Node *n = g->nodes.v[at->node], *m = rb_op(g, n->op, n->type, n, n->rank);
    int traits = op_traits(n->op), pass = traits & OPT_Y ? 2 : traits & OPT_Z ? 1 : 0;
    bool changed = false;
    for (int i = 0; i < n->nin; i++) {
        Operand o;
        m->in[i] = n->in[i];
        if (i < pass && rb_compose(g, at, &n->in[i], &o))
            changed |= strip(s, &o, &n->in[i], &m->in[i]);
    }
    if (!changed) return false;
    if (!rb_is_output(g, n)) m->name = n->name;
    Operand inner = fold_new(s->f, m);
    *out = rb_inline(g, here, &inner);
    return true;
}

/* `at`: the read over the reader's axes; `here`: the same over the axes of whoever asks, over
 * which *out is, too. */
static bool strip(Strip *s, const Operand *at, const Operand *here, Operand *out) {
    if (here->checked || !rb_outside(s->f->r, at->node) || s->steps++ > 64) return false;
    if (s->f->g->nodes.v[at->node]->op != OP_within) return strip_op(s, at, here, out);
    Operand c, x, y;
    if (!read_within(s->f, at, &c, &x) || !read_within(s->f, here, &y, out)) return false;
    strip_condition(s, c);
    y = *out;
    strip(s, &x, &y, out);
    return true;
}

/* sum within(c, x) = sum[where c] x, also where the sum reads within(c, x) through products, casts
 * and the like: the terms that a sum skips are outside its domain, and inside c is true. */
static Fate sum_within(Fold *f, Node *n) {
    int terms = n->nin - n->where;
    Strip s = {.f = f, .reader = n};
    Operand *in = ARENA_ARRAY(f->g->arena, Operand, terms + 1);
    for (int i = 0; i < terms; i++)
        if (!strip(&s, &n->in[i], &n->in[i], &in[i])) in[i] = n->in[i];
    if (!s.found) return FOLD_NOT;
    in[terms] = n->where ? both(f, n, n->naxes, n->in[terms], s.where) : s.where;
    n->in = in;
    n->nin = terms + 1;
    n->where = true;
    return FOLD_EDIT;
}

/* Inside within(c, ..) c is true: what is below needs not ask again. */
static Fate within_again(Fold *f, Node *n) {
    Strip s = {.f = f, .reader = n};
    Operand x;
    if (!strip(&s, &n->in[1], &n->in[1], &x) || !rb_same(f->g, &s.where, &n->in[0]))
        return FOLD_NOT;
    n->in[1] = x;
    return FOLD_EDIT;
}

/* ---- casts ---- */

static Fate cast_same(Fold *f, Node *n) {
    return node_of(f, &n->in[0])->type == n->type ? fold_out(f, n->in[0]) : FOLD_NOT;
}

/* Every value of `from` is one of `to`. */
static bool holds(DType to, DType from) {
    if (to == from) return true;
    bool real_to = dtype_class(to) == DC_REAL, real_from = dtype_class(from) == DC_REAL;
    if (real_to && real_from)
        return to == DT_f32 || ((to == DT_f16 || to == DT_bf16) && dtype_bits(from) == 8);
    if (from == DT_bool) return true; /* 0 and 1 */
    if (!dtype_is_int(from) || to == DT_bool) return false;
    int64_t lo = dtype_lowest(from), hi = dtype_highest(from);
    if (dtype_is_int(to)) return dtype_lowest(to) <= lo && hi <= dtype_highest(to);
    int bits = to == DT_f32 ? 24 : to == DT_f16 ? 11 : to == DT_bf16 ? 8 : 0;
    return bits && lo >= -(1ll << bits) && hi <= 1ll << bits;
}

static Fate cast_exact(Fold *f, Node *n) {
    const Node *mid = node_of(f, &n->in[0]);
    Operand x;
    if (mid->kind != N_OP || mid->op != OP_cast || !holds(mid->type, node_of(f, &mid->in[0])->type))
        return FOLD_NOT;
    return rb_through(f->g, &n->in[0], 0, &x) ? fold_to(n, OP_cast, 1, x, x) : FOLD_NOT;
}

/* Readers that compute widen by themselves: op(f32(x: bf16)) = op(x). */
static Fate read_narrow(Fold *f, Node *n) {
    if (n->kind == N_OP && (n->op == OP_copy || n->op == OP_cast || n->op == OP_within))
        return FOLD_NOT; /* those keep the operand's type */
    for (int i = 0; i < n->nin - (n->kind == N_REDUCE && n->where); i++) {
        const Node *c = node_of(f, &n->in[i]);
        if (c->kind != N_OP || c->op != OP_cast) continue;
        DType stored = node_of(f, &c->in[0])->type;
        Operand x;
        if (stored == DT_bool || dtype_value(stored) != c->type) continue;
        if (!rb_through(f->g, &n->in[i], 0, &x)) continue;
        n->in[i] = x;
        return FOLD_EDIT;
    }
    return FOLD_NOT;
}

#define RULE(op, fn, law)    {law, N_OP, OP_##op, fn}
#define REDUCE(op, fn, law)  {law, N_REDUCE, RED_##op, fn}
#define EVERY(kind, fn, law) {law, kind, FOLD_ANY, fn}

const FoldRule fold_rules[] = {
    EVERY(N_OP, constants, "op of constants is a constant"),
    EVERY(N_OP, read_narrow, "op(f32(x)) = op(x), x of a type that is f32 in arithmetic"),
    EVERY(N_REDUCE, read_narrow, "the same for reductions"),
    REDUCE(sum, sum_within, "sum within(c, x) = sum[where c] x"),
    REDUCE(contract, sum_within, "the same, c of any factor"),
    RULE(add, add_zero, "x + -0 = x; integers: x + 0 = x"),
    RULE(add, add_neg, "x + -y = x - y"),
    RULE(sub, sub_zero, "x - 0 = x"),
    RULE(sub, sub_neg, "x - -y = x + y"),
    RULE(sub, sub_self, "integers: x - x = 0"),
    RULE(neg, neg_neg, "--x = x"),
    RULE(mul, mul_one, "x * 1 = x"),
    RULE(mul, mul_minus_one, "x * -1 = -x"),
    RULE(mul, mul_neg_neg, "-x * -y = x * y"),
    RULE(mul, mul_int_zero, "integers: x * 0 = 0"),
    RULE(div, div_one, "x / 1 = x"),
    RULE(div, mul_neg_neg, "-x / -y = x / y"),
    RULE(div, div_power_of_two, "x / 2^n = x * 2^-n"),
    RULE(idiv, idiv_one, "floor(x / 1) = x"),
    RULE(imod, imod_one, "x mod 1 = 0"),
    RULE(pow, pow_simple, "x^0 = 1, x^1 = x, x^2 = x * x, x^-1 = 1 / x"),
    RULE(abs, abs_abs, "||x|| = |x|, |-x| = |x|"),
    RULE(floor, round_whole, "floor, ceil and round keep whole numbers"),
    RULE(ceil, round_whole, "the same"),
    RULE(round, round_whole, "the same"),
    RULE(min, extreme_same, "min(x, x) = x"),
    RULE(max, extreme_same, "max(x, x) = x"),
    RULE(min, extreme_infinity, "min(x, inf) = x"),
    RULE(max, extreme_infinity, "max(x, -inf) = x"),
    RULE(and, and_or, "true and x = x, false and x = false, x and x = x"),
    RULE(or, and_or, "false or x = x, true or x = true, x or x = x"),
    RULE(not, not_not, "not not x = x"),
    RULE(not, not_compare, "integers: not a < b = a >= b; any: not a == b = a != b"),
    RULE(select, select_constant, "select(true, a, b) = a"),
    RULE(select, select_same, "select(c, a, a) = a"),
    RULE(select, select_not, "select(not c, a, b) = select(c, b, a)"),
    RULE(within, within_true, "within(true, x) = x"),
    RULE(within, within_within, "within(c, within(d, x)) = within(c and d, x)"),
    RULE(within, within_again, "within(c, op(within(c, x))) = within(c, op(x)), op of trait Z"),
    RULE(cast, cast_same, "T(x: T) = x"),
    RULE(cast, cast_exact, "T(U(x: S)) = T(x), every S is a U"),
    {0},
};
