/* linear.c - factors that do not use the summed index leave the sum.
 *
 *     sum[j] (e[i, j] / l[i]) * v[j]    ->    select(l's domain is not empty,
 *                                                    (sum[j] e[i, j] * v[j]) / l[i], 0)
 *
 * Factors are found below products, quotients and negations that compute in the sum's own type;
 * casts are roundings and end the search. A divisor leaves as a divisor, a sign as a negation. A
 * factor that uses the index at all (s[k/128]) stays.
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
 *   5. A factor of a max or min leaves it if it is positive and finite: the products are in the
 * order of what is multiplied, rounded or not, and -inf stays what it is. Known to be so are
 * numbers, sizes and indices from 1 on, and products, quotients, roots and powers of such (unless
 * they leave f32's range).
 */
#include "passes/contract_int.h"
#include "passes/domain_int.h"
#include "passes/rebuild_int.h"

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
    default: break;
    }
    if (w != PART) return w;
    inner = widened(s, inner);
    *stays = rb_inline(s->g, here, &inner);
    return w;
}

/* ---- the empty domain ---- */

static bool finite_factor(const Graph *g, const Operand *o, bool divisor) {
    const Node *n = g->nodes.v[o->node];
    if (n->kind == N_CONST && dtype_class(n->type) == DC_REAL)
        return isfinite(n->num) && (!divisor || isfinite(1 / n->num));
    return !divisor && dtype_class(n->type) != DC_REAL;
}

static bool all_finite(const Graph *g, const Leaving *out) {
    for (int i = 0; i < out->nmul; i++)
        if (!finite_factor(g, &out->mul[i], false)) return false;
    for (int i = 0; i < out->ndiv; i++)
        if (!finite_factor(g, &out->div[i], true)) return false;
    return true;
}

static Operand op2(Graph *g, Op op, DType type, const Node *like, Operand a, Operand b) {
    Node *n = rb_op(g, op, type, like, like->rank);
    n->in[0] = a;
    n->in[1] = b;
    return rb_read(g, n);
}

/* The integer x over the value axes of n, data in it read by an op's operand. */
static Operand integer(Graph *g, const Node *n, const Ix *x);

/* Sums of data and indices become ops; the part without data is one index. */
static Operand sum_terms(Graph *g, const Node *n, const Ix *x) {
    IxTerm *t;
    IxPool *p = g->ix;
    int terms = ix_terms(p, x, &t);
    const Ix *plain = ix_const(p, 0);
    Operand sum;
    bool some = false;
    for (int i = 0; i < terms; i++) {
        const Ix *c = ix_const(p, t[i].coef), *atom = t[i].atom ? t[i].atom : ix_const(p, 1);
        if (!atom->has_value) {
            plain = ix_add(p, plain, ix_mul(p, c, atom));
            continue;
        }
        Operand term = integer(g, n, atom);
        if (t[i].coef != 1) term = op2(g, OP_mul, DT_i64, n, integer(g, n, c), term);
        sum = some ? op2(g, OP_add, DT_i64, n, sum, term) : term;
        some = true;
    }
    Operand rest = integer(g, n, plain);
    return some ? op2(g, OP_add, DT_i64, n, sum, rest) : rest;
}

static Operand integer(Graph *g, const Node *n, const Ix *x) {
    static const Op op[] = {[IX_DIV] = OP_idiv,
                            [IX_MOD] = OP_imod,
                            [IX_MIN] = OP_min,
                            [IX_MAX] = OP_max,
                            [IX_MUL] = OP_mul};
    int64_t v;
    if (ix_is_const(x, &v)) return rb_const(g, DT_i64, 0, v);
    if (!x->has_value) {
        Node *m = graph_node(g, N_INDEX, DT_i64, n->rank, n->rank, 0);
        for (int d = 0; d < n->rank; d++) m->axes[d] = n->axes[d];
        m->ix = x;
        return rb_read(g, m);
    }
    if (x->kind == IX_VALUE) {
        Operand o;
        graph_map(g, &o, (int)x->num);
        for (int i = 0; i < x->n; i++) o.map[i] = x->arg[i];
        Node *m = rb_op(g, OP_cast, DT_i64, n, n->rank);
        m->in[0] = o;
        return rb_read(g, m);
    }
    if (x->kind == IX_ADD || (x->kind == IX_MUL && x->arg[0]->kind == IX_CONST))
        return sum_terms(g, n, x);
    Operand r = integer(g, n, x->arg[0]);
    for (int i = 1; i < x->n; i++) r = op2(g, op[x->kind], DT_i64, n, r, integer(g, n, x->arg[i]));
    return r;
}

/* The value axes of n that something uses, as the axes of a smaller node. */
typedef struct Frame {
    Node node;        /* like n, with these value axes and none reduced */
    const Ix **inner; /* per axis of n: in the smaller node */
    const Ix **outer; /* per axis of the smaller node: in n */
} Frame;

static Frame frame_of(Graph *g, const Node *n, const bool *used) {
    Frame f = {.node = {.axes = ARENA_ARRAY(g->arena, Axis, n->naxes), .span = n->span}};
    f.inner = ARENA_ARRAY(g->arena, const Ix *, n->naxes);
    f.outer = ARENA_ARRAY(g->arena, const Ix *, n->naxes);
    for (int d = 0; d < n->rank; d++) {
        if (!used[d]) continue;
        f.node.axes[f.node.rank] = n->axes[d];
        f.outer[f.node.rank] = ix_axis(g->ix, d);
        f.inner[d] = ix_axis(g->ix, f.node.rank++);
    }
    return f;
}

/* x >= 0, as a node over the axes that x uses. */
static Operand nonneg(Graph *g, const Node *n, const Ix *x) {
    bool *used = ARENA_ARRAY(g->arena, bool, n->rank);
    for (int d = 0; d < n->rank; d++) used[d] = ix_uses_axis(x, d);
    Frame f = frame_of(g, n, used);
    Operand index = integer(g, &f.node, ix_at(g->ix, x, f.inner, n->rank));
    Operand c = op2(g, OP_ge, DT_bool, &f.node, index, rb_const(g, DT_i64, 0, 0));
    c.map = f.outer;
    return c;
}

static Operand all_nonneg(Graph *g, const Node *n, const IxVec *conds) {
    Operand all = nonneg(g, n, conds->v[0]);
    for (int i = 1; i < conds->n; i++)
        all = op2(g, OP_and, DT_bool, n, all, nonneg(g, n, conds->v[i]));
    return all;
}

/* max[where] 1 > 0 over the axes that `where` uses: a max of nothing is -inf. */
static Operand counted(Graph *g, const Node *n) {
    const Operand *where = &n->in[n->nin - 1];
    bool *used = ARENA_ARRAY(g->arena, bool, n->rank);
    for (int d = 0; d < n->rank; d++) used[d] = rb_uses(g, where, d);
    Frame f = frame_of(g, n, used);
    int rank = f.node.rank, reduced = n->naxes - n->rank;
    Node *m = graph_node(g, N_REDUCE, DT_f32, rank, rank + reduced, 2);
    for (int d = 0; d < rank; d++) m->axes[d] = f.node.axes[d];
    for (int k = 0; k < reduced; k++) {
        m->axes[rank + k] = n->axes[n->rank + k];
        f.inner[n->rank + k] = ix_axis(g->ix, rank + k);
    }
    m->red = RED_max;
    m->where = true;
    m->span = n->span;
    m->in[0] = rb_const(g, DT_f32, 1, 0);
    graph_map(g, &m->in[1], where->node);
    m->in[1].checked = where->checked;
    for (int d = 0; d < g->nodes.v[where->node]->rank; d++)
        m->in[1].map[d] = ix_at(g->ix, where->map[d], f.inner, n->naxes);
    rb_check_reads(g, m, m->naxes, &m->in[1]);
    Operand any = op2(g, OP_gt, DT_bool, &f.node, rb_read(g, m), rb_const(g, DT_f32, 0, 0));
    any.map = f.outer;
    return any;
}

/* False: the domain always has an element. */
static bool nonempty(Graph *g, const Node *n, Operand *cond) {
    Domain d = domain_of(g, n);
    IxVec conds = {0};
    if (!domain_nonempty(g, n, &d, &conds)) { /* so there is a condition */
        *cond = counted(g, n);
        return true;
    }
    if (conds.n) *cond = all_nonneg(g, n, &conds);
    return conds.n > 0;
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
        y = op2(g, i < out->nmul ? OP_mul : OP_div, n->type, n, y, f);
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
    for (int i = count - 1; i >= 0; i--) y = op2(g, op[i], n->type, n, y, c[i]);
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
    bool finite = all_finite(g, &s.out);
    if (outside && !finite) return false;
    Operand cond, y;
    bool guard = !finite && nonempty(g, n, &cond);
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
