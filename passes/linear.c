/* linear.c - factors that do not use the summed index leave the sum.
 *
 *     sum[j] (e[i, j] / l[i]) * v[j]    ->    select(l's domain is not empty,
 *                                                    (sum[j] e[i, j] * v[j]) / l[i], 0)
 *
 * Factors are found below products, quotients and negations that compute in the sum's own type;
 * casts are roundings and end the search. A divisor leaves as a divisor, a sign as a negation. A
 * factor that uses the index at all (s[k/128]) stays. They are found in a mask, too, that is below
 * a select whose other arm is 0 (dropout):
 *
 *     sum[j] select(c[i, j], e[i, j] / l[i], 0) * v[j]
 *         ->    select(sum[j] d[i, j] != 0, (sum[j] d[i, j] * v[j]) / l[i], 0),  d = select(c, e,
 * 0)
 *
 * What rule 5 promises, and how it is kept (f leaves, t stays, y = f * sum t):
 *   1. The domain is empty: the plain sum is 0, but f * 0 is NaN for f infinite or NaN (or a
 * divisor 0). Then y is select(not empty, .., 0), unless f is a finite constant or an integer, or
 * the domain always has an element where y has one. "Not empty" is said by bounds on the indices
 *      (domain.h) where these are exact, else by a reduction of its own: max[where] 1 > 0. It is a
 *      select, as `within` would make y "0 outside" to the sums that read it.
 *   2. f is NaN, or t has a NaN or infinity: as in the plain program. f is infinite (a divisor 0):
 *      the plain sum is inf or NaN, and so is y, but not always the same of the two: the plain
 *      program's products were not finite, they left f32's range.
 *   3. f that may be "0 outside its domain" stays: leaving, it would no longer skip terms. Where a
 *      factor that stays is so, the domain is more than `where` says, and only finite constants
 *      leave; fold has moved such conditions into `where` long before.
 *   4. f was read only where the domain has elements. A read that was inside by that alone becomes
 *      a checked one.
 *   5. What a mask keeps nothing of is 0, whatever f is. Whether it keeps something is told by the
 *      sum of what stays under the mask, which is 0 or more there (an exp); else only finite
 *      constants leave. Where all that is kept underflows, y is 0 as well. One mask a sum.
 *   6. A factor of a max or min leaves it if it is positive and finite: the products are in the
 * order of what is multiplied, rounded or not, and -inf stays what it is. Known to be so are
 * numbers, sizes and indices from 1 on, and products, quotients, roots and powers of such (unless
 * they leave f32's range).
 */
#include "passes/contract_int.h"
#include "passes/linear_int.h"

#include <math.h>

enum { FACTORS = 16 };

typedef struct Leaving { /* over the value axes of the sum */
    Operand mul[FACTORS], div[FACTORS];
    int nmul, ndiv;
    bool negative;
} Leaving;

typedef struct Split {
    Rebuild *r;
    Graph *g;
    const Node *sum;
    Leaving out;
    bool masked; /* a factor left `mask`, over the sum's axes, that is finite for sure only outside
                  */
    Operand mask;
} Split;

typedef enum What {
    STAYS, /* as it is */
    PART,  /* something else stays */
    GONE   /* nothing stays: 1 */
} What;

/* ---- taking factors out ---- */

static bool uses_reduced(const Split *s, const Operand *o) {
    for (int d = s->sum->rank; d < s->sum->naxes; d++)
        if (rb_uses(s->g, o, d)) return true;
    return false;
}

static bool is_one(const Graph *g, const Operand *o) {
    const Node *n = g->nodes.v[o->node];
    return n->kind == N_CONST && (dtype_class(n->type) == DC_REAL ? n->num : (double)n->inum) == 1;
}

static What leave(Split *s, const Operand *o) {
    if (is_one(s->g, o)) return GONE;
    if (s->out.nmul == FACTORS || rb_outside(s->r, o->node)) return STAYS;
    s->out.mul[s->out.nmul++] = *o;
    return GONE;
}

static What split(Split *s, const Operand *at, const Operand *here, Operand *stays);

/* Operand i of node n, which the sum reads at `at`: what of it stays, over n's axes. */
static What split_operand(Split *s, const Operand *at, const Node *n, int i, Operand *stays) {
    Operand o;
    *stays = n->in[i];
    return rb_compose(s->g, at, &n->in[i], &o) ? split(s, &o, &n->in[i], stays) : STAYS;
}

static Operand like(Split *s, const Node *n, Operand a, Operand b) {
    Node *m = rb_op(s->g, n->op, n->type, n, n->rank);
    m->in[0] = a;
    m->in[1] = b;
    return rb_read(s->g, m);
}

/* A value of the sum's type where what it was multiplied with gave it that: f32(n) * 0.5 -> f32(n).
 */
static Operand widened(Split *s, Operand o) {
    const Node *n = s->g->nodes.v[o.node];
    if (dtype_value(n->type) == s->sum->type) return o;
    Node *m = rb_op(s->g, OP_cast, s->sum->type, n, n->rank);
    m->in[0] = rb_read(s->g, n);
    o.node = m->id;
    return o;
}

static What split_mul(Split *s, const Operand *at, const Node *n, Operand *stays) {
    Operand a, b;
    What wa = split_operand(s, at, n, 0, &a), wb = split_operand(s, at, n, 1, &b);
    if (wa == STAYS && wb == STAYS) return STAYS;
    if (wa == GONE && wb == GONE) return GONE;
    *stays = wa == GONE ? b : wb == GONE ? a : like(s, n, a, b);
    return PART;
}

static What split_div(Split *s, const Operand *at, const Node *n, Operand *stays) {
    Operand num, den = n->in[1], out;
    bool free = rb_compose(s->g, at, &den, &out) && !uses_reduced(s, &out) && s->out.ndiv < FACTORS;
    if (!free) { /* 1 / b would be no less work than a / b */
        Operand a;
        if (!rb_compose(s->g, at, &n->in[0], &a) || !uses_reduced(s, &a)) return STAYS;
    } else {
        s->out.div[s->out.ndiv++] = out;
    }
    What w = split_operand(s, at, n, 0, &num);
    if (free) {
        *stays = num;
        return w == GONE ? GONE : PART;
    }
    if (w == STAYS) return STAYS;
    if (w == GONE) num = rb_const(s->g, DT_f32, 1, 0);
    *stays = like(s, n, num, den);
    return PART;
}

static bool is_zero(const Graph *g, const Operand *o) {
    const Node *n = g->nodes.v[o->node];
    return n->kind == N_CONST && n->num == 0 && n->inum == 0;
}

static bool all_finite(const Graph *g, const Leaving *out, const Leaving *before);

static What split_select(Split *s, const Operand *at, const Node *n, Operand *stays) {
    const Leaving before = s->out;
    int arm = is_zero(s->g, &n->in[2]) ? 1 : 2;
    Operand a;
    if (!is_zero(s->g, &n->in[3 - arm])) return STAYS;
    What w = split_operand(s, at, n, arm, &a);
    if (w == STAYS) return STAYS;
    if (w == GONE) a = rb_const(s->g, n->type, 1, 1);
    bool finite = all_finite(s->g, &s->out, &before);
    if (!finite && (s->masked || at->checked || !linear_nonneg(s->g, s->g->nodes.v[a.node]))) {
        s->out = before;
        return STAYS;
    }
    Node *m = rb_op(s->g, OP_select, n->type, n, n->rank);
    m->in[0] = n->in[0];
    m->in[arm] = a;
    m->in[3 - arm] = n->in[3 - arm];
    *stays = rb_read(s->g, m);
    if (finite) return PART;
    s->masked = true;
    s->mask = *at;
    s->mask.node = m->id;
    return PART;
}

static What split_neg(Split *s, const Operand *at, const Node *n, Operand *stays) {
    s->out.negative = !s->out.negative;
    return split_operand(s, at, n, 0, stays) == GONE ? GONE : PART;
}

/* `at`: the read over the sum's axes; `here`: the same read over the axes of whoever asks, over
 * which *stays is, too. */
static What split(Split *s, const Operand *at, const Operand *here, Operand *stays) {
    const Node *n = s->g->nodes.v[at->node];
    *stays = *here;
    if (!uses_reduced(s, at)) return leave(s, at);
    if (n->kind != N_OP || n->type != s->sum->type || here->checked) return STAYS;
    Operand inner;
    What w = STAYS;
    switch (n->op) {
    case OP_mul: w = split_mul(s, at, n, &inner); break;
    case OP_div: w = split_div(s, at, n, &inner); break;
    case OP_neg: w = split_neg(s, at, n, &inner); break;
    case OP_select: w = split_select(s, at, n, &inner); break;
    default: break;
    }
    if (w != PART) return w;
    inner = widened(s, inner);
    *stays = rb_inline(s->g, here, &inner);
    return w;
}

/* ---- finite factors ---- */

static bool finite_factor(const Graph *g, const Operand *o, bool divisor) {
    const Node *n = g->nodes.v[o->node];
    if (n->kind == N_CONST && dtype_class(n->type) == DC_REAL)
        return isfinite(n->num) && (!divisor || isfinite(1 / n->num));
    return !divisor && dtype_class(n->type) != DC_REAL;
}

/* Those that are not among `before`. */
static bool all_finite(const Graph *g, const Leaving *out, const Leaving *before) {
    for (int i = before->nmul; i < out->nmul; i++)
        if (!finite_factor(g, &out->mul[i], false)) return false;
    for (int i = before->ndiv; i < out->ndiv; i++)
        if (!finite_factor(g, &out->div[i], true)) return false;
    return true;
}

/* ---- the pass ---- */

/* The sum with the factors that stay. */
static void keep(const PassCtx *cx, Split *s, Node *n, Operand *stays, int count) {
    Graph *g = s->g;
    Operand where = n->in[n->nin - 1];
    if (!count) stays[count++] = rb_const(g, n->type, 1, 1);
    bool typed = false;
    for (int i = 0; i < count; i++)
        typed |= dtype_value(g->nodes.v[stays[i].node]->type) == n->type;
    if (!typed) stays[0] = widened(s, stays[0]);
    n->in = ARENA_ARRAY(g->arena, Operand, count + 1);
    for (int i = 0; i < count; i++) n->in[i] = stays[i];
    if (n->where) n->in[count] = where;
    n->nin = count + n->where;
    n->roles[0] = 0;
    n->red = count > 1 ? RED_contract : RED_sum;
    if (count > 1) contract_arrange(cx, g, n);
}

static Operand apply(Graph *g, const Node *n, const Leaving *out, Operand y) {
    for (int i = 0; i < out->nmul + out->ndiv; i++) {
        Operand f = i < out->nmul ? out->mul[i] : out->div[i - out->nmul];
        rb_check_reads(g, n, n->rank, &f);
        y = linear_op2(g, i < out->nmul ? OP_mul : OP_div, n->type, n, y, f);
    }
    if (!out->negative) return y;
    Node *m = rb_op(g, OP_neg, n->type, n, n->rank);
    m->in[0] = y;
    return rb_read(g, m);
}

/* ---- max and min ---- */

/* below: of what divides, 0 makes an infinity, which is beyond f32's range. */
static bool is_positive(Graph *g, const Node *n, bool below, int depth) {
    enum { DEEP = 16 };
    if (n->kind == N_CONST)
        return dtype_class(n->type) == DC_REAL ? n->num > 0 && isfinite(n->num) : n->inum > 0;
    if (n->kind == N_INDEX) {
        const Ix *x = ix_sub(g->ix, n->ix, ix_const(g->ix, 1)), **e = rb_extents(g, n, n->rank);
        return below ? ix_prove_nonneg(g->ix, x, e, n->rank, NULL, 0) : rb_nonneg(g, x, n, n->rank);
    }
    if (n->kind != N_OP || depth == DEEP) return false;
    bool all = true;
    for (int k = 0; k < n->nin; k++) {
        const Node *in = g->nodes.v[n->in[k].node];
        bool exponent = k && n->op == OP_pow && in->kind == N_CONST, turn = n->op == OP_rsqrt;
        if (n->op == OP_div) turn = k == 1;
        if (n->op == OP_pow && g->nodes.v[n->in[1].node]->kind == N_CONST)
            turn = g->nodes.v[n->in[1].node]->num < 0;
        bool under = turn ? !below : below;
        all &= !n->in[k].checked && (exponent || is_positive(g, in, under, depth + 1));
    }
    switch (n->op) {
    case OP_mul:
    case OP_div:
    case OP_sqrt:
    case OP_rsqrt:
    case OP_pow: return all && n->type == DT_f32;
    case OP_cast: return all && n->type == DT_f32;
    case OP_copy: return all;
    default: return false;
    }
}

/* Operand k of what n takes the max of is positive and leaves. */
static bool leaves_max(Rebuild *r, Node *n, const Node *x, int k, Operand *out) {
    Split s = {.r = r, .g = r->g, .sum = n};
    if (!rb_through(r->g, &n->in[0], k, out) || out->checked || uses_reduced(&s, out)) return false;
    if (!is_positive(r->g, r->g->nodes.v[out->node], k && x->op == OP_div, 0)) return false;
    Operand other;
    if (!rb_through(r->g, &n->in[0], 1 - k, &other) || !uses_reduced(&s, &other)) return false;
    if (dtype_value(r->g->nodes.v[other.node]->type) != DT_f32) return false;
    rb_check_reads(r->g, n, n->rank, out);
    return !out->checked && (k == 1 || x->op == OP_mul);
}

/* The outermost leaves first, and comes back last. */
static bool visit_extreme(Rebuild *r, Node *n) {
    Graph *g = r->g;
    Operand c[FACTORS], rest;
    Op op[FACTORS];
    int count = 0;
    for (; count < FACTORS && n->type == DT_f32; count++) {
        const Node *x = g->nodes.v[n->in[0].node];
        bool product = x->kind == N_OP && (x->op == OP_mul || x->op == OP_div);
        if (!product || x->type != DT_f32 || n->in[0].checked) break;
        int k = leaves_max(r, n, x, 1, &c[count]) ? 1 : 0;
        if (!k && !leaves_max(r, n, x, 0, &c[count])) break;
        if (!rb_through(g, &n->in[0], 1 - k, &rest)) break;
        op[count] = x->op;
        n->in[0] = rest;
    }
    if (!count) return false;
    Operand y = rb_read(g, n);
    for (int i = count - 1; i >= 0; i--) y = linear_op2(g, op[i], n->type, n, y, c[i]);
    g->nodes.v[y.node]->name = n->name;
    n->name = NULL;
    rb_replace(r, n, y);
    return true;
}

/* ---- sums ---- */

static bool visit(Rebuild *r, Node *n, void *ctx) {
    (void)ctx;
    Graph *g = r->g;
    int factors = n->nin - n->where, count = 0;
    if (n->kind == N_REDUCE && (n->red == RED_max || n->red == RED_min)) return visit_extreme(r, n);
    if (n->kind != N_REDUCE || (n->red != RED_sum && n->red != RED_contract)) return false;
    Split s = {.r = r, .g = g, .sum = n};
    Operand *stays = ARENA_ARRAY(g->arena, Operand, factors + 1);
    bool outside = false;
    for (int i = 0; i < factors; i++) {
        outside |= rb_outside(r, n->in[i].node);
        if (split(&s, &n->in[i], &n->in[i], &stays[count]) != GONE) count++;
    }
    if (!s.out.nmul && !s.out.ndiv && !s.out.negative) return false;
    bool finite = all_finite(g, &s.out, &(Leaving){.nmul = 0});
    if (outside && !finite) return false;
    Operand cond, y;
    if (s.masked) cond = linear_kept(g, n, &s.mask);
    bool guard = s.masked || (!finite && linear_nonempty(g, n, &cond));
    keep(r->cx, &s, n, stays, count);
    y = apply(g, n, &s.out, rb_read(g, n));
    if (guard) {
        Node *m = rb_op(g, OP_select, n->type, n, n->rank);
        m->in[0] = cond;
        m->in[1] = y;
        m->in[2] = rb_const(g, n->type, 0, 0);
        y = rb_read(g, m);
    }
    g->nodes.v[y.node]->name = n->name;
    n->name = NULL;
    rb_replace(r, n, y);
    return true;
}

bool pass_linear(PassCtx *cx, Graph *g) {
    return rebuild(cx, g, visit, NULL);
}
