/* online_sep.c - does what a sum adds separate from a max or min before it?
 *
 *     f(x, m) = f(x, m0) h(m) / h(m0)
 *
 * Then the sum can be kept in a moving frame: made with any reference value m0 so far, and moved by
 * h(new)/h(old), which is derived here, when the reference changes. Decided by the table of ops
 * alone (its columns type, traits and sep). A value that is read is one of
 *
 *     FREE     of m
 *     PURE     a function of m and of what the loop does not change
 *     SUM      a FREE value + sum of PURE values, times what the loop does not change
 *     PRODUCT  a FREE value * the product of hom(SUM)s
 *     NOT      anything else
 *
 * and for an op whose operands are of these classes:
 *
 *     add      SUMs make a SUM; PRODUCTs that move alike make a PRODUCT
 *     linear   PRODUCTs and FREE values make a PRODUCT (of the second operand, where the op has no
 *              trait Y, 1/h); a SUM times what the loop does not change is a SUM
 *     hom      a SUM becomes a PRODUCT
 *     select, within    with a FREE condition: what both arms agree on; 0 agrees with any PRODUCT,
 *              an infinity with any SUM
 *     cast     a rounding: NOT
 */
#include "passes/online_int.h"

#include "ir/eval.h"

#include <math.h>
#include <string.h>

enum { NODES_MAX = 2000, ITEMS_MAX = 48 };

typedef enum Class { FREE, PURE, SUM, PRODUCT, NOT } Class;

typedef struct Term {
    bool negative;
    SepProg p;
} Term;

typedef struct Scale { /* op(x, by) */
    Op op;
    Operand by;
} Scale;

typedef struct Terms { /* (sum of +-p(m)) scaled in turn */
    VEC(Term) term;
    VEC(Scale) scale;
} Terms;

typedef struct Hom {
    Op op;
    bool inverse;
    Terms of;
} Hom;

typedef struct Part {
    Class is;
    SepProg pure;
    Terms sum;
    VEC(Hom) product;
} Part;

typedef struct Ctx {
    Graph *g;
    const Node *sum;
    int frame;
    const Ix **at; /* where it is read; NULL: not yet */
    const uint64_t *depends;
    uint64_t bit;
    int visited;
    const char *refused;
} Ctx;

/* ---- small things ---- */

static bool uses_reduced(const Ctx *c, const Operand *o) {
    for (int d = c->sum->rank; d < c->sum->naxes; d++)
        if (rb_uses(c->g, o, d)) return true;
    return false;
}

static bool ix_depends(const Ctx *c, const Ix *x) {
    if (!x->has_value) return false;
    if (x->kind == IX_VALUE && c->depends[x->num] & c->bit) return true;
    for (int i = 0; i < x->n; i++)
        if (ix_depends(c, x->arg[i])) return true;
    return false;
}

static bool gathers(const Ctx *c, const Operand *o) {
    for (int d = 0; d < c->g->nodes.v[o->node]->rank; d++)
        if (ix_depends(c, o->map[d])) return true;
    return false;
}

FK_PRINTF(2, 3) static Part not(Ctx * c, const char *fmt, ...) {
    if (!c->refused) {
        Str s = {0};
        va_list ap;
        va_start(ap, fmt);
        str_vprintf(&s, fmt, ap);
        va_end(ap);
        c->refused = arena_strdup(c->g->arena, str_get(&s));
        str_free(&s);
    }
    return (Part){.is = NOT};
}

static Part not_op(Ctx *c, const Node *n) {
    if (op_rule(n->op) == RULE_cast)
        return not(c, "a rounding to %s does not separate", dtype_name(n->type));
    return not(c, "%s does not separate", op_name(n->op));
}

static bool is_number(const Graph *g, const Operand *o, double *v) {
    const Node *n = g->nodes.v[o->node];
    if (n->kind != N_CONST) return false;
    *v = dtype_class(n->type) == DC_REAL ? n->num : (double)n->inum;
    return true;
}

static double apply_to_one(Op op) {
    EvalVal one = {.r = 1};
    return eval_op(op, DT_f32, DT_f32, &one).r;
}

/* ---- programs ---- */

static void put(Ctx *c, SepProg *p, SepItem i) {
    vec_push(c->g->arena, p, i);
}

static void put_op(Ctx *c, SepProg *p, Op op) {
    put(c, p, (SepItem){.kind = SI_OP, .op = op});
}

static void put_read(Ctx *c, SepProg *p, const Operand *o) {
    SepItem i = {.kind = SI_READ, .read = *o};
    if (is_number(c->g, o, &i.num)) i.kind = SI_CONST;
    put(c, p, i);
}

static void put_all(Ctx *c, SepProg *p, const SepProg *more, int frame) {
    for (int i = 0; i < more->n; i++) {
        SepItem item = more->v[i];
        if (item.kind == SI_FRAME) item.kind = frame;
        put(c, p, item);
    }
}

/* The sum at new minus the sum at old. */
static void put_difference(Ctx *c, SepProg *p, const Terms *t, bool inverse) {
    for (int i = 0; i < t->term.n; i++) {
        bool negative = t->term.v[i].negative != inverse;
        put_all(c, p, &t->term.v[i].p, negative ? SI_OLD : SI_NEW);
        put_all(c, p, &t->term.v[i].p, negative ? SI_NEW : SI_OLD);
        put_op(c, p, OP_sub);
        if (i) put_op(c, p, OP_add);
    }
    for (int i = 0; i < t->scale.n; i++) {
        put_read(c, p, &t->scale.v[i].by);
        put_op(c, p, t->scale.v[i].op);
    }
}

static SepProg difference(Ctx *c, const Terms *t) {
    SepProg p = {0};
    put_difference(c, &p, t, false);
    return p;
}

static SepProg quotient(Ctx *c, const Part *x) {
    SepProg p = {0};
    for (int i = 0; i < x->product.n; i++) {
        const Hom *h = &x->product.v[i];
        put_difference(c, &p, &h->of, h->inverse);
        put_op(c, &p, h->op);
        if (i) put_op(c, &p, OP_mul);
    }
    return p;
}

static bool same_prog(const Graph *g, const SepProg *a, const SepProg *b) {
    if (a->n != b->n) return false;
    for (int i = 0; i < a->n; i++) {
        const SepItem *x = &a->v[i], *y = &b->v[i];
        if (x->kind != y->kind) return false;
        if (x->kind == SI_OP && x->op != y->op) return false;
        if (x->kind == SI_CONST && x->num != y->num) return false;
        if (x->kind == SI_READ && !rb_same(g, &x->read, &y->read)) return false;
    }
    return true;
}

/* ---- classes ---- */

static bool is_number_type(const Ctx *c, const Operand *o) {
    return dtype_class(c->g->nodes.v[o->node]->type) != DC_BOOL;
}

static Part as_sum(Ctx *c, Part x) {
    if (x.is == PURE && !x.sum.term.n) {
        Term t = {false, x.pure};
        vec_push(c->g->arena, &x.sum.term, t);
    }
    x.is = SUM;
    return x;
}

/* op of what the loop does not change, and m: a program. */
static Part pure(Ctx *c, const Node *n, const Operand *in, const Part *part) {
    Part x = {.is = PURE};
    for (int k = 0; k < n->nin; k++) {
        if (part[k].is == PURE)
            put_all(c, &x.pure, &part[k].pure, SI_FRAME);
        else if (is_number_type(c, &in[k]))
            put_read(c, &x.pure, &in[k]);
        else
            return not_op(c, n);
    }
    if (n->type != DT_f32 || op_rule(n->op) == RULE_cast || x.pure.n > ITEMS_MAX)
        return not_op(c, n);
    put_op(c, &x.pure, n->op);
    return x;
}

/* Scales become part of the terms, so that sums can be added. */
static void spread(Ctx *c, Terms *t) {
    for (int i = 0; i < t->term.n; i++)
        for (int k = 0; k < t->scale.n; k++) {
            put_read(c, &t->term.v[i].p, &t->scale.v[k].by);
            put_op(c, &t->term.v[i].p, t->scale.v[k].op);
        }
    t->scale.n = 0;
}

static Part add(Ctx *c, const Node *n, Part *a, Part *b) {
    bool minus = !(op_traits(n->op) & OPT_C);
    if (a->is == PRODUCT && b->is == PRODUCT) {
        SepProg qa = quotient(c, a), qb = quotient(c, b);
        return same_prog(c->g, &qa, &qb) ? *a : not_op(c, n);
    }
    if (a->is == PRODUCT || b->is == PRODUCT) return not_op(c, n);
    Part x = as_sum(c, *a), y = as_sum(c, *b);
    if (x.sum.term.n && y.sum.term.n) spread(c, &x.sum), spread(c, &y.sum);
    if (!x.sum.term.n) x.sum.scale = y.sum.scale;
    for (int i = 0; i < y.sum.term.n; i++) {
        Term t = y.sum.term.v[i];
        t.negative ^= minus;
        vec_push(c->g->arena, &x.sum.term, t);
    }
    return x;
}

static Part scaled(Ctx *c, const Node *n, Part x, const Operand *by) {
    double v;
    if (uses_reduced(c, by) || !is_number_type(c, by)) return not_op(c, n);
    x = as_sum(c, x);
    if (is_number(c->g, by, &v) && v == 1) return x;
    Scale s = {n->op, *by};
    vec_push(c->g->arena, &x.sum.scale, s);
    return x;
}

static Part linear(Ctx *c, const Node *n, const Operand *in, Part *part) {
    if (n->nin == 1) { /* f(x) = f(1) x */
        double one = apply_to_one(n->op);
        if (part[0].is == PRODUCT || one == 1) return part[0];
        if (one != -1) return not_op(c, n);
        for (int i = 0; i < part[0].sum.term.n; i++) part[0].sum.term.v[i].negative ^= true;
        return part[0];
    }
    bool both = op_traits(n->op) & OPT_Y;
    Part *a = &part[0], *b = &part[1];
    if (a->is == PURE || b->is == PURE) return not_op(c, n);
    if (a->is == SUM) return b->is == FREE ? scaled(c, n, *a, &in[1]) : not_op(c, n);
    if (b->is == SUM) return a->is == FREE && both ? scaled(c, n, *b, &in[0]) : not_op(c, n);
    Part x = *a;
    x.is = PRODUCT;
    for (int i = 0; i < b->product.n; i++) {
        Hom h = b->product.v[i];
        h.inverse ^= !both;
        vec_push(c->g->arena, &x.product, h);
    }
    return x;
}

static Part hom(Ctx *c, const Node *n, Part *a) {
    if (a->is != SUM) return not_op(c, n);
    Part x = {.is = PRODUCT};
    Hom h = {n->op, false, a->sum};
    vec_push(c->g->arena, &x.product, h);
    return x;
}

static bool agrees_with_any(const Ctx *c, const Operand *o, Class with) {
    double v;
    return is_number(c->g, o, &v) && (with == PRODUCT ? v == 0 : with == SUM && isinf(v));
}

static Part choice(Ctx *c, const Node *n, const Operand *in, Part *part) {
    if (part[0].is != FREE) return not_op(c, n);
    if (n->nin == 2) return part[1];
    if (agrees_with_any(c, &in[2], part[1].is)) return part[1];
    if (agrees_with_any(c, &in[1], part[2].is)) return part[2];
    if (part[1].is == PRODUCT && part[2].is == PRODUCT) {
        SepProg a = quotient(c, &part[1]), b = quotient(c, &part[2]);
        return same_prog(c->g, &a, &b) ? part[1] : not_op(c, n);
    }
    if (part[1].is == PRODUCT || part[2].is == PRODUCT) return not_op(c, n);
    Part x = as_sum(c, part[1]), y = as_sum(c, part[2]);
    SepProg a = difference(c, &x.sum), b = difference(c, &y.sum);
    return same_prog(c->g, &a, &b) ? x : not_op(c, n);
}

/* A new array: lists are shared by what was made of them. */
static Part copied(Ctx *c, const Part *x) {
    Part y = *x;
    memset(&y.sum, 0, sizeof y.sum);
    memset(&y.product, 0, sizeof y.product);
    for (int i = 0; i < x->sum.term.n; i++) {
        Term t = {x->sum.term.v[i].negative, {0}};
        put_all(c, &t.p, &x->sum.term.v[i].p, SI_FRAME);
        vec_push(c->g->arena, &y.sum.term, t);
    }
    for (int i = 0; i < x->sum.scale.n; i++) vec_push(c->g->arena, &y.sum.scale, x->sum.scale.v[i]);
    for (int i = 0; i < x->product.n; i++) vec_push(c->g->arena, &y.product, x->product.v[i]);
    return y;
}

/* A program, and a SUM where it is one: c m is m scaled by c. */
static Part pure_op(Ctx *c, const Node *n, const Operand *in, Part *part) {
    Part x = pure(c, n, in, part), y = {.is = NOT};
    bool one = n->nin == 1 || part[0].is == FREE || part[1].is == FREE;
    bool divisor = n->nin > 1 && part[1].is != FREE && !(op_traits(n->op) & OPT_Y);
    if (x.is == NOT) return x;
    for (int k = 0; k < n->nin; k++)
        if (part[k].is == PURE) part[k] = as_sum(c, part[k]);
    if (op_sep(n->op) == SEP_add) y = add(c, n, &part[0], &part[1]);
    if (op_sep(n->op) == SEP_linear && one && !divisor) y = linear(c, n, in, part);
    if (y.is == SUM) x.sum = y.sum;
    return x;
}

static Part part_of(Ctx *c, const Operand *at);

static Part part_of_op(Ctx *c, const Operand *at, const Node *n) {
    Operand in[8];
    Part part[8];
    bool fixed = true;
    if (n->nin > 8) return not_op(c, n);
    for (int k = 0; k < n->nin; k++) {
        if (!rb_through(c->g, at, k, &in[k])) return not(c, "a read that may be outside");
        part[k] = part_of(c, &in[k]);
        if (part[k].is == NOT) return part[k];
        part[k] = copied(c, &part[k]);
        fixed &= part[k].is == PURE || (part[k].is == FREE && !uses_reduced(c, &in[k]));
    }
    if (fixed) return pure_op(c, n, in, part);
    if (op_rule(n->op) == RULE_select || op_rule(n->op) == RULE_within)
        return choice(c, n, in, part);
    switch (op_sep(n->op)) {
    case SEP_add: return add(c, n, &part[0], &part[1]);
    case SEP_linear: return linear(c, n, in, part);
    case SEP_hom: return hom(c, n, &part[0]);
    case SEP_none: break;
    }
    return not_op(c, n);
}

static Part the_frame(Ctx *c, const Operand *at) {
    int rank = c->g->nodes.v[c->frame]->rank;
    if (at->checked || uses_reduced(c, at)) return not(c, "it is read at another place");
    if (c->at && rank && memcmp(c->at, at->map, sizeof *at->map * (size_t)rank))
        return not(c, "it is read at two places");
    c->at = at->map;
    Part x = {.is = PURE};
    put(c, &x.pure, (SepItem){.kind = SI_FRAME});
    return x;
}

static Part part_of(Ctx *c, const Operand *at) {
    const Node *n = c->g->nodes.v[at->node];
    if (gathers(c, at)) return not(c, "an index depends on it");
    if (!(c->depends[n->id] & c->bit)) return (Part){.is = FREE};
    if (n->id == c->frame) return the_frame(c, at);
    if (n->kind == N_REDUCE) return not(c, "it depends on another %s, too", reduce_name(n->red));
    if (n->kind != N_OP || ++c->visited > NODES_MAX) return not(c, "it is too large");
    return part_of_op(c, at, n);
}

/* ---- a sum ---- */

static Part product_of_factors(Ctx *c) {
    const Node *n = c->sum;
    Part x = {.is = FREE};
    if (n->type != DT_f32 || (n->red != RED_sum && n->red != RED_contract))
        return not(c, "a %s of it does not separate", reduce_name(n->red));
    if (n->where && part_of(c, &n->in[n->nin - 1]).is != FREE) {
        c->refused = NULL;
        return not(c, "a condition depends on it");
    }
    for (int k = 0; k < n->nin; k++) {
        Part f = part_of(c, &n->in[k]);
        if (f.is == NOT) return f;
        if (f.is == FREE) continue;
        if (f.is != PRODUCT) return not(c, "a sum of terms does not separate");
        f = copied(c, &f);
        for (int i = 0; i < f.product.n; i++) vec_push(c->g->arena, &x.product, f.product.v[i]);
        x.is = PRODUCT;
    }
    return x;
}

bool online_separate(Graph *g, const Node *sum, int frame, const uint64_t *depends, uint64_t bit,
                     Sep *out) {
    Ctx c = {.g = g, .sum = sum, .frame = frame, .depends = depends, .bit = bit};
    Part x = product_of_factors(&c);
    if (x.is == PRODUCT && !c.at) x = not(&c, "it depends on something else");
    SepProg p = quotient(&c, &x);
    if (x.is == PRODUCT && p.n > ITEMS_MAX) x = not(&c, "it is too large");
    *out = (Sep){.frame = frame, .at = c.at, .rescale = p, .refused = c.refused};
    return x.is == PRODUCT;
}

uint64_t *online_depends(Arena *a, const Graph *g, int on, int step) {
    uint64_t *d = ARENA_ARRAY(a, uint64_t, g->nodes.n);
    Ctx c = {.depends = d, .bit = 1};
    for (int i = on + 1; i < g->nodes.n; i++) {
        const Node *n = g->nodes.v[i];
        d[on] = 1;
        if (step >= 0 && n->store && n->step != step) continue;
        if (n->ix && ix_depends(&c, n->ix)) d[i] = 1;
        for (int k = 0; k < n->nin; k++) {
            d[i] |= d[n->in[k].node];
            for (int r = 0; r < g->nodes.v[n->in[k].node]->rank; r++)
                if (ix_depends(&c, n->in[k].map[r])) d[i] = 1;
        }
    }
    return d;
}

bool online_sep(Graph *g, const Node *sum, int step, Sep *out) {
    Arena a = {0};
    const uint64_t *depends = online_depends(&a, g, sum->frame, step);
    bool ok = !depends[sum->id];
    *out = (Sep){.frame = -1};
    if (!ok) ok = online_separate(g, sum, sum->frame, depends, 1, out);
    arena_free(&a);
    return ok;
}
