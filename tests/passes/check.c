/* check.c - see check.h. */
#include "tests/passes/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PARAMS = 24, MOST = 4, ELEMENTS = 4096 };

typedef struct Inputs {
    int64_t sizes[32];
    EvalTensor t[PARAMS];
} Inputs;

static uint64_t next(uint64_t *s) {
    uint64_t z = *s += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Round 0: all sizes as small as they can be; odd rounds: one of them 0; else any. */
static bool draw_sizes(const Graph *g, int round, uint64_t seed, int64_t *sizes) {
    for (int i = 0; i < g->sizes.n; i++) sizes[i] = -1;
    if (round % 2 && g->sizes.n) sizes[next(&seed) % (uint64_t)g->sizes.n] = 0;
    return sample_sizes(g, seed, round ? MOST : 1, sizes) ||
           (round == 0 && sample_sizes(g, seed, 64, sizes));
}

/* A third of the rounds has plain numbers only; the others mix in what breaks laws. */
static void spoil(const EvalTensor *t, int64_t count, uint64_t seed) {
    static const double odd[] = {NAN, INFINITY, -INFINITY, 0.0, -0.0, 1.0, -1.0, 2.0, 0.5, -3.0};
    if (dtype_class(t->type) != DC_REAL) return;
    for (int64_t i = 0; i < count; i++) {
        uint64_t r = next(&seed);
        if (r % 4 == 0) dtype_store(t->type, t->data, i, odd[(r >> 8) % 10], 0);
    }
}

static bool draw(const Graph *g, int round, uint64_t seed, Inputs *in) {
    if (g->params.n > PARAMS || g->sizes.n > 32 || !draw_sizes(g, round, seed, in->sizes))
        return false;
    for (int i = 0; i < g->params.n; i++) {
        size_t bytes = sample_shape(g, i, in->sizes, &in->t[i]);
        in->t[i].data = g->params.v[i].out ? NULL : calloc(bytes + 8, 1);
        if (g->params.v[i].out) continue;
        sample_fill(g, i, in->sizes, seed, &in->t[i]);
        int64_t count = (int64_t)(bytes * 8) / dtype_bits(in->t[i].type);
        if (round % 3) spoil(&in->t[i], count, seed + (uint64_t)i);
    }
    return true;
}

static bool same_real(double a, double b, bool algebra, double near) {
    if (isnan(a) && isnan(b)) return true;
    if (algebra && !isfinite(a) && !isfinite(b)) return true;
    if (isnan(a) || isnan(b) || isinf(a) || isinf(b)) return a == b;
    if (a == 0 && b == 0 && !algebra) return signbit(a) == signbit(b);
    return fabs(a - b) <= near * fmax(fmax(fabs(a), fabs(b)), 1);
}

static bool same_value(DType type, EvalVal a, EvalVal b, const Check1 *c) {
    if (a.unsure || b.unsure) return true;
    return dtype_class(type) == DC_REAL
               ? same_real(a.r, b.r, c->algebra, c->near > 0 ? c->near : 2e-6)
               : a.i == b.i;
}

static void explain(const Graph *g, const Param *p, const Inputs *in, const int64_t *at, EvalVal a,
                    EvalVal b, Str *why) {
    str_printf(why, "%s[", p->name);
    for (int d = 0; d < p->rank; d++) str_printf(why, d ? ", %lld" : "%lld", (long long)at[d]);
    str_add(why, "] is ");
    if (dtype_class(p->type) == DC_REAL)
        str_printf(why, "%.17g before, %.17g after", a.r, b.r);
    else
        str_printf(why, "%lld before, %lld after", (long long)a.i, (long long)b.i);
    str_add(why, ", at");
    for (int i = 0; i < g->sizes.n; i++)
        str_printf(why, " %s=%lld", g->sizes.v[i].name, (long long)in->sizes[i]);
    str_add(why, "\n");
}

static EvalVal stored(const EvalTensor *t, const int64_t *at) {
    EvalVal v = {0};
    int64_t offset = 0;
    for (int d = 0; d < t->rank; d++) offset += at[d] * t->stride[d];
    dtype_load(t->type, t->data, offset, &v.r, &v.i);
    return v;
}

/* As it comes back from memory. */
static EvalVal through_memory(DType type, EvalVal v) {
    if (dtype_class(type) == DC_REAL) v.r = dtype_round(type, v.r);
    return v;
}

/* With a == NULL the outputs of `in` are what is compared. */
static bool compare(const Graph *b, const Graph *a, const Inputs *in, Check1 *c, Str *why) {
    Eval *eb = eval_new(b, in->sizes, in->t), *ea = a ? eval_new(a, in->sizes, in->t) : NULL;
    bool ok = true;
    for (int i = 0; i < b->params.n && ok; i++) {
        const Param *p = &b->params.v[i];
        int64_t at[8] = {0}, count = p->out;
        for (int d = 0; d < p->rank; d++) count *= in->t[i].extent[d];
        for (int64_t k = 0; k < count && k < ELEMENTS && ok; k++) {
            EvalVal vb = eval_at(eb, p->node, at);
            EvalVal va = a ? eval_at(ea, a->params.v[i].node, at) : stored(&in->t[i], at);
            if (!a) vb = through_memory(p->type, vb);
            ok = same_value(p->type, vb, va, c);
            if (!ok) explain(b, p, in, at, vb, va, why);
            c->elements++;
            for (int d = p->rank - 1; d >= 0 && ++at[d] == in->t[i].extent[d]; d--) at[d] = 0;
        }
    }
    eval_free(eb);
    if (ea) eval_free(ea);
    return ok;
}

bool check_same(const Graph *before, const Graph *after, Check1 *c, Str *why) {
    bool ok = true;
    for (int round = 0; round < c->rounds && ok; round++) {
        Inputs in = {0};
        if (!draw(before, round, c->seed * 1000 + (uint64_t)round, &in)) continue;
        ok = compare(before, after, &in, c, why);
        for (int i = 0; i < before->params.n; i++) free(in.t[i].data);
    }
    return ok;
}

bool check_plan(const Graph *before, const Plan *plan, int split, Check1 *c, Str *why) {
    bool ok = true;
    for (int round = 0; round < c->rounds && ok; round++) {
        Inputs in = {0};
        if (!draw(before, round, c->seed * 1000 + (uint64_t)round, &in)) continue;
        for (int i = 0; i < before->params.n; i++) {
            if (!before->params.v[i].out) continue;
            size_t bytes = sample_shape(before, i, in.sizes, &in.t[i]);
            in.t[i].data = malloc(bytes + 8);
            memset(in.t[i].data, 0xFF, bytes + 8);
        }
        ok = eval_plan(plan, in.sizes, in.t, split, why) && compare(before, NULL, &in, c, why);
        for (int i = 0; i < before->params.n; i++) free(in.t[i].data);
    }
    return ok;
}
