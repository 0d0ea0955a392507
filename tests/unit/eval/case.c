/* case.c - see case.h. */
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "case.h"

static uint64_t state = 88172645463325252u;

static double uniform(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (double)(state >> 11) * 0x1p-53;
}

static void make_tensor(Case *c, const Param *p, EvalTensor *t) {
    IxEnv env = {.size = c->sizes};
    bool ok = true;
    t->type = p->type;
    t->rank = p->rank;
    int64_t n = 1;
    for (int d = p->rank - 1; d >= 0; d--) {
        t->extent[d] = ix_eval(p->dims[d], &env, &ok);
        t->stride[d] = n;
        n *= t->extent[d];
        if (dtype_bits(p->type) == 4 && d == p->rank - 1) n += n % 2;
    }
    assert_true(ok);
    size_t bytes = (size_t)n * (size_t)dtype_bits(p->type) / 8 + 8;
    t->data = arena_alloc(&c->arena, bytes);
    memset(t->data, 0xFF, bytes);
}

void case_open(Case *c, const char *text, const int64_t *sizes) {
    *c = (Case){.sizes = sizes};
    c->diags.arena = &c->arena;
    Source *src = source_new(&c->arena, "case.graph", text, strlen(text));
    c->g = graph_parse(&c->arena, src, &c->diags);
    if (!c->g) {
        Str out = {0};
        diag_print(&c->diags, &out, false);
        fail_msg("%s", str_get(&out));
    }
    Str why = {0};
    if (!graph_verify(c->g, &why)) fail_msg("%s\n%s", str_get(&why), text);
    str_free(&why);
    c->t = ARENA_ARRAY(&c->arena, EvalTensor, c->g->params.n);
    for (int i = 0; i < c->g->params.n; i++) make_tensor(c, &c->g->params.v[i], &c->t[i]);
}

void case_close(Case *c) {
    arena_free(&c->arena);
}

static int param_of(Case *c, const char *name) {
    for (int i = 0; i < c->g->params.n; i++)
        if (!strcmp(c->g->params.v[i].name, name)) return i;
    fail_msg("no parameter %s", name);
    return -1;
}

static int64_t count(const EvalTensor *t) {
    int64_t n = 1;
    for (int d = 0; d < t->rank; d++) n *= t->extent[d];
    return n;
}

int64_t case_count(Case *c, const char *name) {
    return count(&c->t[param_of(c, name)]);
}

static int64_t offset(const EvalTensor *t, int64_t at) {
    int64_t o = 0;
    for (int d = t->rank - 1; d >= 0; d--) {
        o += at % t->extent[d] * t->stride[d];
        at /= t->extent[d];
    }
    return o;
}

void case_random(Case *c, const char *name, double lo, double hi) {
    EvalTensor *t = &c->t[param_of(c, name)];
    for (int64_t k = 0; k < count(t); k++) {
        double r = lo + (hi - lo) * uniform();
        int64_t i = (int64_t)floor(lo + (hi - lo + 1) * uniform());
        dtype_store(t->type, t->data, offset(t, k), r, i);
    }
}

double *case_values(Case *c, const char *name) {
    EvalTensor *t = &c->t[param_of(c, name)];
    double *v = ARENA_ARRAY(&c->arena, double, count(t) + 1);
    for (int64_t k = 0; k < count(t); k++) {
        int64_t i = 0;
        dtype_load(t->type, t->data, offset(t, k), &v[k], &i);
        if (dtype_class(t->type) != DC_REAL) v[k] = (double)i;
    }
    return v;
}

void case_set(Case *c, const char *name, const double *v) {
    EvalTensor *t = &c->t[param_of(c, name)];
    for (int64_t k = 0; k < count(t); k++)
        dtype_store(t->type, t->data, offset(t, k), v[k], (int64_t)v[k]);
}

int64_t case_eval(Case *c) {
    Eval *e = eval_new(c->g, c->sizes, c->t);
    int64_t unsure = 0;
    for (int i = 0; i < c->g->params.n; i++)
        if (c->g->params.v[i].out) unsure += eval_output(e, i, &c->t[i], 0);
    eval_free(e);
    return unsure;
}

double case_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bool agree(double a, double b, double tol) {
    if (isnan(a) || isnan(b)) return isnan(a) && isnan(b);
    if (isinf(a) || isinf(b)) return a == b;
    return fabs(a - b) <= tol * fmax(1, fabs(b));
}

void case_expect(Case *c, const char *name, const double *want, double tol) {
    double *got = case_values(c, name);
    for (int64_t k = 0; k < case_count(c, name); k++)
        if (!agree(got[k], want[k], tol))
            fail_msg("%s[%lld]: got %.17g, want %.17g", name, (long long)k, got[k], want[k]);
}
