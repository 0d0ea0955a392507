/* run_check.c - fkrun --check: samples of every output against the reference of ir/eval.
 *
 * The samples are the corners, elements at edges and at the borders of tiles, and random ones, in
 * this order, each once; they are evaluated on all cores until the time is up. An output is right
 * when the norm of the error and every element's error are within the bounds of its types, the
 * latter by the size of the element, of all elements or of its row.
 */
#include "compiler/run_int.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { RANDOM = 4096, BORDER = 1024, CORNERS = 256, WHOLE = 16384 };

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- which elements -----------------------------------------------------------------------------
 */

typedef VEC(int64_t) Points; /* row-major numbers of elements */

typedef struct Chooser {
    Arena *arena;
    const RunTensor *t;
    Map seen;
    Points points;
} Chooser;

static void add_point(Chooser *c, const int64_t *index) {
    int64_t at = 0;
    for (int d = 0; d < c->t->rank; d++) at = at * c->t->extent[d] + index[d];
    intptr_t *slot = map_put(&c->seen, &at, sizeof at);
    if (*slot) return;
    *slot = 1;
    vec_push(c->arena, &c->points, at);
}

static uint64_t next(uint64_t *s) {
    *s += 0x9e3779b97f4a7c15u;
    uint64_t z = (*s ^ (*s >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Near an end, or on either side of a multiple of a power of two: where tiles meet. */
static int64_t border(uint64_t *s, int64_t extent) {
    static const int64_t tile[] = {8, 16, 32, 64, 128, 256};
    uint64_t r = next(s);
    int64_t t = tile[r % 6], at = (int64_t)(r >> 16 & 0x7fffffff) % (extent / t + 1) * t;
    switch (r >> 8 & 7) {
    case 0: return 0;
    case 1: return extent - 1;
    case 2: return extent > 1;
    case 3: return extent > 1 ? extent - 2 : 0;
    case 4: return (int64_t)(next(s) % (uint64_t)extent);
    case 5: return at > 0 ? at - 1 : 0;
    default: return at < extent ? at : extent - 1;
    }
}

/* In the order in which the time may run out. */
static Points choose(Arena *a, const RunTensor *t, uint64_t seed) {
    Chooser c = {.arena = a, .t = t, .seen = {.arena = a}};
    int64_t index[RUN_RANK];
    if (!t->count) return c.points;
    for (int corner = 0; corner < 1 << t->rank && corner < CORNERS; corner++) {
        for (int d = 0; d < t->rank; d++) index[d] = corner >> d & 1 ? t->extent[d] - 1 : 0;
        add_point(&c, index);
    }
    for (int i = 0; i < BORDER; i++) {
        for (int d = 0; d < t->rank; d++) index[d] = border(&seed, t->extent[d]);
        add_point(&c, index);
    }
    int64_t want = c.points.n + RANDOM;
    if (t->count <= WHOLE) want = 0; /* all of them, below */
    while (c.points.n < want) {
        for (int d = 0; d < t->rank; d++)
            index[d] = (int64_t)(next(&seed) % (uint64_t)t->extent[d]);
        add_point(&c, index);
    }
    for (int64_t i = 0; t->count <= WHOLE && i < t->count; i++) {
        run_unflatten(t, i, index);
        add_point(&c, index);
    }
    return c.points;
}

/* ---- the reference at those ---------------------------------------------------------------------
 */

typedef struct Sample {
    double want, got;
    bool done, unsure;
    bool exact; /* a constant, or a copy: it says nothing about the size of what is computed */
    double row; /* the root mean square of its row, where that was asked for */
} Sample;

typedef struct Work {
    Eval *eval;
    const Run *run;
    const Graph *graph;
    int param, node;
    const Operand *inner; /* what the output rounds, to compare with before that; NULL */
    const Points *points;
    Sample *samples;
    int next; /* atomic */
    double deadline;
} Work;

/* Can the operand be followed: a value that is there at every index? */
static bool plain(const Graph *g, const Operand *o) {
    for (int d = 0; d < g->nodes.v[o->node]->rank; d++)
        if (o->map[d]->has_value) return false;
    return !o->checked;
}

/* The operand that a node copies as it is (a broadcast behind the rounding); NULL. */
static const Operand *copied(const Graph *g, int node) {
    const Node *n = g->nodes.v[node];
    return n->kind == N_OP && n->op == OP_copy && plain(g, &n->in[0]) ? &n->in[0] : NULL;
}

/* The language's inner roundings are kept, the last one is not: it is the device's own error. */
static const Operand *before_rounding(const Graph *g, int node) {
    for (const Operand *o; (o = copied(g, node));) node = o->node;
    const Node *n = g->nodes.v[node];
    if (n->kind != N_OP || n->op != OP_cast || dtype_class(n->type) != DC_REAL) return NULL;
    bool real = dtype_class(g->nodes.v[n->in[0].node]->type) == DC_REAL;
    return real && plain(g, &n->in[0]) ? &n->in[0] : NULL;
}

/* at[], a place in what reads operand o, becomes the one in what is read. */
static bool follow(const Work *w, const Operand *o, int64_t *at) {
    int64_t from[RUN_RANK];
    IxEnv env = {.size = w->run->sizes, .axis = from};
    bool ok = true;
    memcpy(from, at, sizeof from);
    for (int d = 0; d < w->graph->nodes.v[o->node]->rank; d++)
        at[d] = ix_eval(o->map[d], &env, &ok);
    return ok;
}

static double reference(const Work *w, const int64_t *index, bool *unsure, bool *exact_value) {
    EvalVal v = eval_at(w->eval, w->node, index);
    const RunTensor *t = &w->run->tensors[w->param];
    *unsure = v.unsure;
    *exact_value = v.exact;
    if (dtype_class(t->type) != DC_REAL) return (double)v.i;
    if (isinf(dtype_round(t->type, v.r))) v.r = dtype_round(t->type, v.r); /* out of its range */
    if (!w->inner || !isfinite(v.r)) return v.r;
    int64_t at[RUN_RANK] = {0};
    bool ok = true;
    memcpy(at, index, sizeof *at * (size_t)t->rank);
    for (const Operand *o = copied(w->graph, w->node); o; o = copied(w->graph, o->node))
        ok = follow(w, o, at) && ok;
    ok = follow(w, w->inner, at) && ok;
    EvalVal exact = eval_at(w->eval, w->inner->node, at);
    /* Where the type saturates or flushes, its own value is what must come out. */
    double largest = dtype_round(t->type, INFINITY);
    bool near = fabs(exact.r - v.r) <= 0.125 * fabs(exact.r) && fabs(exact.r) <= largest;
    return ok && near && isfinite(exact.r) ? exact.r : v.r;
}

static void *worker(void *arg) {
    Work *w = arg;
    const RunTensor *t = &w->run->tensors[w->param];
    int64_t index[RUN_RANK];
    for (;;) {
        int i = __atomic_fetch_add(&w->next, 1, __ATOMIC_RELAXED);
        if (i >= w->points->n || (i > 0 && now() > w->deadline)) return NULL;
        Sample *s = &w->samples[i];
        run_unflatten(t, w->points->v[i], index);
        s->want = reference(w, index, &s->unsure, &s->exact);
        s->got = run_get(t, index);
        s->done = true;
    }
}

static void evaluate(Work *w) {
    enum { MAX_THREADS = 64 };
    pthread_t thread[MAX_THREADS];
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    int n = cores < 1 ? 1 : cores > MAX_THREADS ? MAX_THREADS : (int)cores, started = 0;
    while (started < n && !pthread_create(&thread[started], NULL, worker, w)) started++;
    if (!started) worker(w);
    for (int i = 0; i < started; i++) pthread_join(thread[i], NULL);
}

/* ---- the verdict --------------------------------------------------------------------------------
 */

static void complain(Verdict *v, const Run *r, int param, int64_t at, const Sample *s,
                     const char *what) {
    const RunTensor *t = &r->tensors[param];
    int64_t index[RUN_RANK];
    run_unflatten(t, at, index);
    str_printf(&v->details, "  %s[", t->name);
    for (int d = 0; d < t->rank; d++)
        str_printf(&v->details, "%s%lld", d ? ", " : "", (long long)index[d]);
    str_printf(&v->details, "]: got %.9g, reference %.9g%s\n", s->got, s->want, what);
}

/* Same NaN, same infinity; anything else is for the norms. */
static bool special(const Sample *s, bool *right) {
    if (isfinite(s->want) && isfinite(s->got)) return false;
    *right = isnan(s->want) ? isnan(s->got) : s->want == s->got;
    return true;
}

typedef struct Sums {
    double error, ref, max_ref;
    double rounding; /* the error of the reference itself, rounded once to the output's type */
    int64_t n, unsure, finite;
} Sums;

static void add_up(Sums *u, const Sample *s, DType type) {
    u->error += (s->got - s->want) * (s->got - s->want);
    u->ref += s->want * s->want;
    u->finite++;
    if (dtype_class(type) != DC_REAL) return;
    double rounded = dtype_round(type, s->want) - s->want;
    if (isfinite(rounded)) u->rounding += rounded * rounded;
}

static double rms_of(const Sums *u) {
    return u->finite ? sqrt(u->ref) / sqrt((double)u->finite) : 0;
}

#define FAR 1000.0

/* Exact values count where they are not far larger than all that is computed: beside a mask's -1e30
 * no error would be seen. */
static Sums sum_up(const Work *w, DType type) {
    Sums u = {0};
    double most = INFINITY;
    for (int turn = 0; turn < 2; turn++) {
        for (int i = 0; i < w->points->n; i++) {
            const Sample *s = &w->samples[i];
            bool right;
            if (!s->done || s->unsure || special(s, &right) || s->exact != turn) continue;
            if (fabs(s->want) <= most) add_up(&u, s, type);
        }
        if (u.finite && u.ref > 0) most = FAR * rms_of(&u);
    }
    for (int i = 0; i < w->points->n; i++) {
        const Sample *s = &w->samples[i];
        if (!s->done) continue;
        u.n++;
        u.unsure += s->unsure;
        u.max_ref = fmax(u.max_ref, fabs(s->want));
        if (isnan(s->want)) u.max_ref = INFINITY;
    }
    return u;
}

/* How far a sample may be off. */
static double limit_of(const Tolerance *tol, const Sums *u, const Sample *s, bool integer) {
    double rms = rms_of(u);
    return integer ? (double)tol->integer : tol->element * fmax(fabs(s->want), fmax(rms, s->row));
}

/* Rows may differ in size: under a causal mask the first are averages of few, the last of many, and
 * some are 0. So what is off by more than all elements together allow is held against its row. */
static void size_rows(Run *r, Work *w, const Tolerance *tol) {
    enum { MOST = 64, OF_ROW = 16 };
    const RunTensor *t = &r->tensors[w->param];
    bool right, unsure, exact;
    Sums u = sum_up(w, t->type);
    double rms = rms_of(&u);
    int64_t index[RUN_RANK];
    if (!t->rank || dtype_class(t->type) != DC_REAL) return;
    for (int i = 0, n = 0; i < w->points->n && n < MOST; i++) {
        Sample *s = &w->samples[i];
        if (!s->done || s->unsure || special(s, &right)) continue;
        if (fabs(s->got - s->want) <= limit_of(tol, &u, s, false)) continue;
        int64_t extent = t->extent[t->rank - 1], few = extent < OF_ROW ? extent : OF_ROW;
        double sum = 0;
        run_unflatten(t, w->points->v[i], index);
        for (int64_t k = 0; k < few; k++) {
            index[t->rank - 1] = k * extent / few;
            double v = reference(w, index, &unsure, &exact);
            if (isfinite(v) && !(exact && fabs(v) > FAR * rms)) sum += v * v;
        }
        s->row = sqrt(sum / (double)few);
        n++;
    }
}

static bool has_fp8(const Run *r) {
    bool has = false;
    for (int i = 0; i < r->n; i++)
        has |= dtype_bits(r->tensors[i].type) == 8 && dtype_class(r->tensors[i].type) == DC_REAL;
    return has;
}

/* Where an output is made of rounded values and a sum came out beside a tie, the reference may be
 * what the other rounding makes: the nearest between the two. Sums are good to some 2^-16, of fp8
 * products to 2^-12. */
static void lean(Run *r, Work *w, const Tolerance *tol) {
    enum { MOST = 200 };
    const RunTensor *t = &r->tensors[w->param];
    bool integer = dtype_class(t->type) != DC_REAL, right, unsure, exact;
    Sums u = sum_up(w, t->type);
    Eval *sure = w->eval, *to[2] = {NULL, NULL};
    int64_t index[RUN_RANK];
    double by = has_fp8(r) ? 0x1p-12 : 0x1p-16;
    for (int i = 0, n = 0; i < w->points->n && n < MOST && !integer; i++) {
        Sample *s = &w->samples[i];
        if (!s->done || s->unsure || special(s, &right)) continue;
        if (fabs(s->got - s->want) <= limit_of(tol, &u, s, false)) continue;
        double least = s->want, most = s->want;
        run_unflatten(t, w->points->v[i], index);
        for (int k = 0; k < 2; k++) {
            if (!to[k]) eval_lean(to[k] = run_eval(r), k ? by : -by);
            w->eval = to[k];
            double v = reference(w, index, &unsure, &exact);
            least = fmin(least, v), most = fmax(most, v);
        }
        s->want = fmin(fmax(s->got, least), most);
        n++;
    }
    w->eval = sure;
    for (int k = 0; k < 2; k++) eval_free(to[k]);
}

static bool expected_zero(const Run *r, const char *name) {
    for (int i = 0; i < r->opt->zero.n; i++)
        if (!strcmp(r->opt->zero.v[i], name)) return true;
    return false;
}

/* Of n values the norm may be above what it is of many: by three deviations of a chi-square. */
static double of_few(int64_t n) {
    enum { MANY = 64 };
    return n > 0 && n < MANY ? sqrt(1 + 3 * sqrt(2.0 / (double)n)) : 1;
}

static void judge(Verdict *v, const Run *r, const Work *w, const Tolerance *tol) {
    enum { SHOWN = 5 };
    Sums u = sum_up(w, r->tensors[w->param].type);
    double norm = sqrt(u.error), ref = sqrt(u.ref), allowed = tol->norm * of_few(u.finite);
    /* Few values, or all half way between two (odd integers), may round worse than most do. */
    if (ref > 0) allowed = fmax(allowed, 1.05 * sqrt(u.rounding) / ref);
    bool integer = dtype_class(r->tensors[w->param].type) != DC_REAL;
    int wrong = 0;
    for (int i = 0; i < w->points->n; i++) {
        const Sample *s = &w->samples[i];
        bool right = true;
        if (!s->done || s->unsure) continue;
        if (!special(s, &right)) {
            double off = fabs(s->got - s->want);
            double limit = limit_of(tol, &u, s, integer);
            right = off <= limit;
            if (limit > 0) v->max = fmax(v->max, off / limit);
        }
        if (right) continue;
        if (wrong++ < SHOWN) complain(v, r, w->param, w->points->v[i], s, "");
    }
    if (wrong > SHOWN) str_printf(&v->details, "  and %d more\n", wrong - SHOWN);
    double relative = ref > 0 ? norm / ref : norm;
    if (!integer && relative > allowed)
        str_printf(&v->details, "  %s: norm of the error %.3g, allowed %.3g\n",
                   r->tensors[w->param].name, relative, allowed);
    if (!integer) v->norm = fmax(v->norm, relative / allowed);
    if (u.n && u.max_ref == 0 && !expected_zero(r, r->tensors[w->param].name))
        str_printf(&v->details,
                   "  %s: the reference is 0 everywhere: these inputs test nothing (--zero=%s if "
                   "it shall be)\n",
                   r->tensors[w->param].name, r->tensors[w->param].name);
    v->samples += u.n;
    v->unsure += u.unsure;
}

static void check_output(Run *r, Eval *e, int param, double deadline, Verdict *v) {
    Arena scratch = {0};
    const RunTensor *t = &r->tensors[param];
    Points points = choose(&scratch, t, (uint64_t)param + 1);
    int node = r->graph->params.v[param].node;
    Work w = {.eval = e,
              .run = r,
              .graph = r->graph,
              .param = param,
              .node = node,
              .inner = before_rounding(r->graph, node),
              .points = &points,
              .samples = ARENA_ARRAY(&scratch, Sample, points.n),
              .deadline = deadline};
    Tolerance tol = run_tolerance(r->graph, param, r->opt->fast_accum ? r->sizes : NULL);
    evaluate(&w);
    size_rows(r, &w, &tol);
    lean(r, &w, &tol);
    judge(v, r, &w, &tol);
    arena_free(&scratch);
}

Eval *run_eval(Run *r) {
    EvalTensor *tensors = ARENA_ARRAY(r->arena, EvalTensor, r->n);
    for (int i = 0; i < r->n; i++) {
        tensors[i] = run_eval_tensor(&r->tensors[i]);
        if (r->tensors[i].out) tensors[i].data = NULL;
    }
    return eval_new(r->graph, r->sizes, tensors);
}

void check_run(Run *r, Verdict *v) {
    int seconds = r->opt->check_seconds < 0 ? 20 : r->opt->check_seconds, outs = 0;
    Eval *e = run_eval(r);
    double start = now();
    for (int i = 0; i < r->n; i++) outs += r->tensors[i].out;
    for (int i = 0, k = 0; i < r->n; i++)
        if (r->tensors[i].out) check_output(r, e, i, start + (double)seconds * ++k / outs, v);
    eval_free(e);
}

/* ---- guards -------------------------------------------------------------------------------------
 */

static void mark_elements(const RunTensor *t, unsigned char *covered) {
    int64_t index[RUN_RANK];
    int bits = dtype_bits(t->type);
    for (int64_t i = 0; i < t->count; i++) {
        run_unflatten(t, i, index);
        size_t first = RUN_GUARD + t->offset + (size_t)(run_offset(t, index) * bits / 8);
        memset(covered + first, 1, bits < 8 ? 1 : (size_t)bits / 8);
    }
}

void check_guards(Run *r, Verdict *v) {
    for (int i = 0; i < r->n; i++) {
        const RunTensor *t = &r->tensors[i];
        if (!t->out) continue;
        unsigned char *covered = calloc(t->total, 1);
        unsigned char poison = dtype_class(t->type) == DC_REAL ? 0xFF : 0xA5;
        if (!covered) {
            str_printf(&v->details, "  %s: no memory to check its guards\n", t->name);
            continue;
        }
        mark_elements(t, covered);
        for (size_t b = 0; b < t->total; b++) {
            if (covered[b] || t->host[b] == poison) continue;
            str_printf(&v->details,
                       "  %s: a write outside its elements, %lld bytes from its start\n", t->name,
                       (long long)b - (long long)(RUN_GUARD + t->offset));
            break;
        }
        free(covered);
    }
}
