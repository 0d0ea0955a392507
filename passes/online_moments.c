/* online_moments.c - sums of products of differences from a value of their own loop:
 *
 *     m = (sum[j] x[j]) / n      v = sum[j] (x[j] - m)^2
 *
 * do not separate into one product g(x) h(m), but into few: with any reference r, y = x - r, d = r
 * - m,
 *
 *     (x - m)^2 = y^2 + 2 d y + d^2        v = sum y^2 + 2 d sum y + d^2 n
 *
 * and so on for more factors, by the binomial identity, and for factors of several differences.
 * What is summed does not depend on m, so all of it and m have one loop; a state in the frame r
 * moves to the frame m when that is known, after the loop.
 *
 * Which r is safe: y must not be much larger than x less its mean is. The frame is the mean of the
 * first SAMPLES elements, which costs no pass over the row and takes away large common offsets.
 * Whether it was a good one is known after the loop: if the square of the mean of y is more than
 * some times its variance, or anything is not finite, the plain sum is taken in a loop of its own,
 * which has no elements for all other rows. An empty domain gives 0.
 *
 * A row is worth it that is known to be longer than registers hold (schedule_rows.c: those are read
 * once anyway). A short one comes out of the cache the second time, for less than what is added
 * here (measured on an H200, general kernels, variances of bf16 rows of 1024, 4096 and 16384
 * elements, 2 loops and 1: 43 and 55 us, 41 and 45, 36 and 33).
 *
 * Elements that are sums of products themselves are left to the passes that have these in tiles.
 */
#include "passes/online_int.h"

#include <string.h>

enum { SAMPLES = 4, LONG = 32769, FACTORS = 4, VISITS = 200 };

/* By the number of factors: how many times its variance the squared mean of y may be. A sum of so
 * many loses at most five bits to cancellation. */
static const double far_off[FACTORS + 1] = {0, 0, 16, 4, 2};

typedef struct Factor { /* (x - m)^power, over the axes of the sum */
    Operand whole, x, m;
    int power;
    Node *y, *d; /* x - r, with the reduced axis; r - m, without */
} Factor;

typedef struct Moments {
    Graph *g;
    Node *sum;
    Factor factor[FACTORS];
    bool any_row;
    int n, all, visits; /* all: with their powers */
    const Node *count;  /* of the domain */
    const Node **made;  /* the moments, by their powers */
} Moments;

/* ---- what it is ---- */

/* Is there a reduction over the same range in it? */
static bool is_of_loop(Moments *s, const Operand *o) {
    const Node *n = s->g->nodes.v[o->node];
    if (++s->visits > VISITS || (n->kind == N_REDUCE && online_same_range(n, s->sum))) return true;
    for (int k = 0; k < n->nin; k++)
        if (is_of_loop(s, &n->in[k])) return true;
    return false;
}

/* May it be computed for each element where it is used? */
static bool is_light(Moments *s, const Operand *o) {
    const Node *n = s->g->nodes.v[o->node];
    if (++s->visits > VISITS) return false;
    if (n->kind == N_REDUCE) return !rb_uses(s->g, o, s->sum->rank) && !is_of_loop(s, o);
    for (int k = 0; k < n->nin; k++) {
        Operand in;
        if (!rb_through(s->g, o, k, &in) || !is_light(s, &in)) return false;
    }
    return true;
}

static bool add_factor(Moments *s, const Operand *o) {
    Graph *g = s->g;
    Operand a, b;
    if (rb_is_op(g, o, OP_mul))
        return rb_through(g, o, 0, &a) && rb_through(g, o, 1, &b) && add_factor(s, &a) &&
               add_factor(s, &b);
    for (int k = 0; k < s->n; k++)
        if (rb_same(g, &s->factor[k].whole, o)) return ++s->factor[k].power <= FACTORS;
    if (s->n == FACTORS || !rb_is_op(g, o, OP_sub)) return false;
    if (!rb_through(g, o, 0, &a) || !rb_through(g, o, 1, &b)) return false;
    if (rb_uses(g, &b, s->sum->rank) || !is_light(s, &a) || !is_of_loop(s, &b)) return false;
    s->factor[s->n++] = (Factor){.whole = *o, .x = a, .m = b, .power = 1};
    return true;
}

static bool find(Moments *s) {
    const Node *n = s->sum;
    int64_t extent;
    bool sums = n->kind == N_REDUCE && (n->red == RED_sum || n->red == RED_contract);
    if (!sums || n->type != DT_f32 || n->naxes != n->rank + 1) return false;
    bool known = ix_is_const(n->axes[n->rank].extent, &extent);
    if (!s->any_row && !(known && extent >= LONG)) return false;
    for (int k = 0; k < n->nin - n->where; k++)
        if (!add_factor(s, &n->in[k])) return false;
    for (int k = 0; k < s->n; k++) s->all += s->factor[k].power;
    if (n->where && is_of_loop(s, &n->in[n->nin - 1])) return false;
    return s->all > 1 && s->all <= FACTORS && s->visits <= VISITS;
}

/* ---- what becomes of it ---- */

static Node *op2(Moments *s, Op op, Operand a, Operand b) {
    Node *n = rb_op(s->g, op, DT_f32, s->sum, s->sum->rank);
    n->in[0] = a;
    n->in[1] = b;
    return n;
}

static Node *times(Moments *s, const Node *a, const Node *b) {
    return op2(s, OP_mul, rb_read(s->g, a), rb_read(s->g, b));
}

static Node *scaled(Moments *s, const Node *a, double by) {
    return op2(s, OP_mul, rb_read(s->g, a), rb_const(s->g, DT_f32, by, 0));
}

static Node *choice(Moments *s, DType type, const Node *c, Operand a, Operand b) {
    Node *n = rb_op(s->g, OP_select, type, s->sum, s->sum->rank);
    n->in[0] = rb_read(s->g, c);
    n->in[1] = a;
    n->in[2] = b;
    return n;
}

/* A sum like ours, of n factors for the caller to fill. */
static Node *sum_like(Moments *s, DType type, int n) {
    Node *of = s->sum, *m = graph_node(s->g, N_REDUCE, type, of->rank, of->naxes, n + of->where);
    memcpy(m->axes, of->axes, sizeof *m->axes * (size_t)of->naxes);
    m->red = n > 1 ? RED_contract : RED_sum;
    m->span = of->span;
    m->where = of->where;
    if (of->where) m->in[n] = of->in[of->nin - 1];
    if (n > 1) memcpy(m->roles, of->roles, sizeof m->roles);
    return m;
}

/* Does n count our domain? */
static bool is_count(Moments *s, const Node *n) {
    Graph *g = s->g;
    const Node *of = s->sum;
    if (n->kind != N_REDUCE || n->red != RED_sum || n->type != DT_i64 || !n->where) return false;
    const Node *one = g->nodes.v[n->in[0].node];
    if (one->kind != N_CONST || one->inum != 1 || n->rank != of->rank || n->naxes != of->naxes)
        return false;
    for (int d = 0; d < n->naxes; d++)
        if (n->axes[d].extent != of->axes[d].extent) return false;
    return rb_same(g, &n->in[1], &of->in[of->nin - 1]);
}

static const Node *count(Moments *s) {
    Graph *g = s->g;
    Node *n;
    for (int i = 0; i < g->nodes.n && s->sum->where; i++)
        if (is_count(s, g->nodes.v[i])) return g->nodes.v[i];
    if (s->sum->where) {
        n = sum_like(s, DT_i64, 1);
        n->in[0] = rb_const(g, DT_i64, 0, 1);
        return n;
    }
    n = graph_node(g, N_INDEX, DT_i64, 0, 0, 0);
    n->ix = s->sum->axes[s->sum->rank].extent;
    return n;
}

/* x at the k-th element; 0 where there is none. */
static Operand sample(Moments *s, const Factor *f, int k) {
    Graph *g = s->g;
    const Node *of = s->sum;
    Operand o = f->x;
    int rank = g->nodes.v[o.node]->rank;
    const Ix **axes = ARENA_ARRAY(g->arena, const Ix *, of->naxes);
    for (int d = 0; d < of->rank; d++) axes[d] = ix_axis(g->ix, d);
    axes[of->rank] = ix_const(g->ix, k);
    o.map = ARENA_ARRAY(g->arena, const Ix *, rank);
    for (int d = 0; d < rank; d++) o.map[d] = ix_at(g->ix, f->x.map[d], axes, of->naxes);
    rb_check_reads(g, of, of->rank, &o);
    return o;
}

static void take_frame(Moments *s, Factor *f) {
    Graph *g = s->g;
    Operand r = sample(s, f, 0);
    for (int k = 1; k < SAMPLES; k++) r = rb_read(g, op2(s, OP_add, r, sample(s, f, k)));
    r = rb_read(g, op2(s, OP_mul, r, rb_const(g, DT_f32, 1.0 / (double)SAMPLES, 0)));
    f->d = op2(s, OP_sub, r, f->m);
    f->y = rb_op(g, OP_sub, DT_f32, s->sum, s->sum->naxes);
    f->y->in[0] = f->x;
    f->y->in[1] = r;
}

/* The sum over the domain of the product of y^e; made once. */
static const Node *moment(Moments *s, const int *e) {
    int n = 0, k = 0, at = 0;
    for (int f = 0; f < s->n; f++) n += e[f], at = at * (FACTORS + 1) + e[f];
    if (!n) return s->count;
    if (s->made[at]) return s->made[at];
    Node *m = sum_like(s, DT_f32, n);
    for (int f = 0; f < s->n; f++)
        for (int i = 0; i < e[f]; i++) m->in[k++] = rb_read(s->g, s->factor[f].y);
    return s->made[at] = m;
}

static double choose(int n, int k) {
    double c = 1;
    for (int i = 0; i < k; i++) c = c * (n - i) / (i + 1);
    return c;
}

/* The term of these powers: the moment, times what d^(power - e) has, as often as it occurs. */
static const Node *term(Moments *s, const int *e) {
    const Node *t = moment(s, e);
    double often = 1;
    for (int f = 0; f < s->n; f++) {
        often *= choose(s->factor[f].power, e[f]);
        for (int i = e[f]; i < s->factor[f].power; i++) t = times(s, t, s->factor[f].d);
    }
    return often == 1 ? t : scaled(s, t, often);
}

/* All of them added, those of the highest moments first. */
static const Node *expand(Moments *s) {
    const Node *all = NULL;
    int e[FACTORS];
    for (int f = 0; f < s->n; f++) e[f] = s->factor[f].power;
    for (int f = 0; f < s->n;) {
        const Node *t = term(s, e);
        all = all ? op2(s, OP_add, rb_read(s->g, all), rb_read(s->g, t)) : t;
        for (f = 0; f < s->n && --e[f] < 0; f++) e[f] = s->factor[f].power;
    }
    return all;
}

/* (sum y)^2 + 0 d <= far / (1 + far) n sum y^2, which nothing does that is not finite. */
static const Node *is_near(Moments *s, int f) {
    int one[FACTORS] = {0}, two[FACTORS] = {0};
    one[f] = 1, two[f] = 2;
    const Node *sum = moment(s, one), *all = times(s, s->count, moment(s, two));
    double far = far_off[s->all];
    Node *d = scaled(s, s->factor[f].d, 0),
         *left = op2(s, OP_add, rb_read(s->g, times(s, sum, sum)), rb_read(s->g, d));
    Node *n = op2(s, OP_le, rb_read(s->g, left), rb_read(s->g, scaled(s, all, far / (1 + far))));
    n->type = DT_bool;
    return n;
}

/* The plain sum, over the rows alone that are not near. */
static const Node *plain(Moments *s, const Node *near) {
    Graph *g = s->g;
    Node *of = s->sum, *extent = graph_node(g, N_INDEX, DT_i64, 0, 0, 0);
    Node *at = graph_node(g, N_INDEX, DT_i64, 1, 1, 0),
         *in = rb_op(g, OP_lt, DT_bool, of, of->naxes);
    extent->ix = of->axes[of->rank].extent;
    at->axes[0] = of->axes[of->rank];
    at->ix = ix_axis(g->ix, 0);
    in->in[0] = rb_read(g, at);
    in->in[0].map[0] = ix_axis(g->ix, of->rank);
    Node *far = choice(s, DT_i32, near, rb_const(g, DT_i32, 0, 0), rb_const(g, DT_i32, 0, 1));
    Node *end = times(s, far, extent); /* domain makes a bound of it */
    end->type = DT_i64;
    in->in[1] = rb_read(g, end);
    if (of->where) {
        Node *both = rb_op(g, OP_and, DT_bool, of, of->naxes);
        both->in[0] = rb_read(g, in);
        both->in[1] = of->in[of->nin - 1];
        in = both;
    }
    int n = of->nin - of->where;
    Node *m = graph_node(g, N_REDUCE, DT_f32, of->rank, of->naxes, n + 1);
    memcpy(m->axes, of->axes, sizeof *m->axes * (size_t)of->naxes);
    memcpy(m->in, of->in, sizeof *m->in * (size_t)n);
    memcpy(m->roles, of->roles, sizeof m->roles);
    m->red = of->red;
    m->span = of->span;
    m->where = true;
    m->in[n] = rb_read(g, in);
    return m;
}

static Node *rewrite(Moments *s) {
    Graph *g = s->g;
    const Node *near = NULL;
    s->count = count(s);
    s->made = ARENA_ARRAY(g->arena, const Node *,
                          (FACTORS + 1) * (FACTORS + 1) * (FACTORS + 1) * (FACTORS + 1));
    for (int f = 0; f < s->n; f++) take_frame(s, &s->factor[f]);
    for (int f = 0; f < s->n; f++) {
        const Node *one = is_near(s, f);
        Node *both = near ? op2(s, OP_and, rb_read(g, near), rb_read(g, one)) : NULL;
        if (both) both->type = DT_bool;
        near = both ? both : one;
    }
    Node *fast = choice(s, DT_f32, near, rb_read(g, expand(s)), rb_read(g, plain(s, near)));
    Node *some = rb_op(g, OP_ge, DT_bool, s->sum, s->sum->rank);
    some->in[0] = rb_read(g, s->count);
    some->in[1] = rb_const(g, DT_i64, 0, 1);
    return choice(s, DT_f32, some, rb_read(g, fast), rb_const(g, DT_f32, 0, 0));
}

static void replace(Graph *g, int old, Node *by, int nodes) {
    Node *n = g->nodes.v[old];
    by->name = n->name;
    by->span = n->span;
    for (int i = 0; i < nodes; i++)
        for (int k = 0; k < g->nodes.v[i]->nin; k++)
            if (g->nodes.v[i]->in[k].node == old) g->nodes.v[i]->in[k].node = by->id;
    for (int p = 0; p < g->params.n; p++)
        if (g->params.v[p].out && g->params.v[p].node == old) g->params.v[p].node = by->id;
}

bool online_moments(Graph *g, bool any_row) {
    bool changed = false;
    int old = g->nodes.n;
    for (int i = 0; i < old; i++) {
        Moments s = {.g = g, .sum = g->nodes.v[i], .any_row = any_row};
        if (!find(&s)) continue;
        replace(g, i, rewrite(&s), old);
        changed = true;
    }
    if (changed) graph_sweep(g);
    return changed;
}
