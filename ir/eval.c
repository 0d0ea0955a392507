/* eval.c - the graph evaluator: setting up, single elements, whole outputs. */
#include "ir/eval_int.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

enum { MEMO_TOTAL = 1 << 24, THREADS_MAX = 64 };

Eval *eval_new(const Graph *g, const int64_t *sizes, const EvalTensor *tensors) {
    Eval *e = calloc(1, sizeof *e);
    if (!e) fk_no_memory();
    e->g = g;
    EvalTensor *own_tensors = ARENA_ARRAY(&e->arena, EvalTensor, g->params.n);
    for (int i = 0; tensors && i < g->params.n; i++) own_tensors[i] = tensors[i];
    e->tensors = own_tensors;
    e->memo_left = MEMO_TOTAL;
    ix_pool_init(&e->ix, &e->arena);
    pthread_mutex_init(&e->lock, NULL);
    int64_t *own = ARENA_ARRAY(&e->arena, int64_t, g->sizes.n);
    const Ix **ix = ARENA_ARRAY(&e->arena, const Ix *, g->sizes.n);
    for (int i = 0; i < g->sizes.n; i++) {
        own[i] = sizes[i];
        ix[i] = ix_const(&e->ix, sizes[i]);
    }
    e->sizes = own;
    e->size_ix = ix;
    e->fn = ARENA_ARRAY(&e->arena, Fn *, g->nodes.n);
    e->last = ARENA_ARRAY(&e->arena, Fn *, g->params.n);
    eval_analyse(e);
    return e;
}

void eval_lean(Eval *e, double by) {
    e->lean = by;
}

void eval_free(Eval *e) {
    if (!e) return;
    for (int i = 0; i < e->g->nodes.n; i++)
        if (e->fn[i]) free(e->fn[i]->memo);
    for (EThread *t = e->idle, *next; t; t = next) {
        next = t->next;
        free(t->v);
        free(t->x);
        free(t->frame);
        free(t);
    }
    pthread_mutex_destroy(&e->lock);
    arena_free(&e->arena);
    free(e);
}

/* ---- elements ----------------------------------------------------------------------------- */

static EThread *take_thread(Eval *e) {
    pthread_mutex_lock(&e->lock);
    EThread *t = e->idle;
    if (t) e->idle = t->next;
    pthread_mutex_unlock(&e->lock);
    if (!t) t = calloc(1, sizeof *t);
    if (!t) fk_no_memory();
    return t;
}

static void give_thread(Eval *e, EThread *t) {
    pthread_mutex_lock(&e->lock);
    t->next = e->idle;
    e->idle = t;
    pthread_mutex_unlock(&e->lock);
}

static Fn *ready_fn(Eval *e, int node) {
    pthread_mutex_lock(&e->lock);
    Fn *fn = eval_compile(e, node);
    pthread_mutex_unlock(&e->lock);
    return fn;
}

static EvalVal run_once(Eval *e, const Fn *fn, const int64_t *index) {
    EThread *t = take_thread(e);
    EvalVal v = eval_run(t, fn, index);
    give_thread(e, t);
    return v;
}

EvalVal eval_at(Eval *e, int node, const int64_t *index) {
    return run_once(e, ready_fn(e, node), index);
}

static bool is_real_cast(const Graph *g, const Node *n) {
    return n->kind == N_OP && n->op == OP_cast && dtype_class(n->type) == DC_REAL &&
           dtype_class(g->nodes.v[n->in[0].node]->type) == DC_REAL;
}

EvalVal eval_reference(Eval *e, int param, const int64_t *index) {
    const Param *p = &e->g->params.v[param];
    const Node *n = e->g->nodes.v[p->node];
    if (!is_real_cast(e->g, n)) return eval_at(e, p->node, index);
    pthread_mutex_lock(&e->lock);
    if (!e->last[param]) e->last[param] = eval_compile_operand(e, p->node);
    Fn *fn = e->last[param];
    pthread_mutex_unlock(&e->lock);
    EvalVal v = run_once(e, fn, index);
    double r = dtype_round(n->type, v.r), most = dtype_round(n->type, (double)INFINITY);
    if (isinf(r) || (fabs(r) == most && fabs(v.r) > most)) v.r = r; /* overflowed, saturated */
    return v;
}

/* ---- whole outputs ------------------------------------------------------------------------ */

typedef struct Job {
    Eval *e;
    const Fn *fn;
    const EvalTensor *out;
    const int64_t *extent;
    int rank;
    bool real; /* of the node */
    int64_t total, chunk;
    _Atomic int64_t next, unsure;
} Job;

static void job_range(Job *j, EThread *t, int64_t from, int64_t to) {
    int64_t index[EVAL_AXES_MAX] = {0}, unsure = 0;
    for (int64_t at = from; at < to; at++) {
        int64_t rest = at, offset = 0;
        for (int d = j->rank - 1; d >= 0; d--) {
            index[d] = rest % j->extent[d];
            rest /= j->extent[d];
            offset += index[d] * j->out->stride[d];
        }
        EvalVal v = eval_run(t, j->fn, index);
        dtype_store(j->out->type, j->out->data, offset, v.r, v.i);
        unsure += v.unsure;
    }
    atomic_fetch_add(&j->unsure, unsure);
}

static void *job_thread(void *arg) {
    Job *j = arg;
    EThread *t = take_thread(j->e);
    for (;;) {
        int64_t from = atomic_fetch_add(&j->next, j->chunk);
        if (from >= j->total) break;
        job_range(j, t, from, from + j->chunk < j->total ? from + j->chunk : j->total);
    }
    give_thread(j->e, t);
    return NULL;
}

int eval_threads(int asked, int64_t work) {
    int n = asked > 0 ? asked : (int)sysconf(_SC_NPROCESSORS_ONLN);
    if (n > THREADS_MAX) n = THREADS_MAX;
    if (n > work) n = (int)work;
    return n < 1 ? 1 : n;
}

void eval_parallel(int threads, void *(*run)(void *), void *arg) {
    pthread_t id[THREADS_MAX];
    int started = 0;
    while (started < threads - 1 && !pthread_create(&id[started], NULL, run, arg)) started++;
    run(arg);
    for (int i = 0; i < started; i++) pthread_join(id[i], NULL);
}

int64_t eval_output(Eval *e, int param, const EvalTensor *out, int threads) {
    const Param *p = &e->g->params.v[param];
    const Node *n = e->g->nodes.v[p->node];
    Job j = {.e = e, .out = out, .rank = n->rank, .total = 1};
    FK_ASSERT((dtype_class(out->type) == DC_REAL) == (dtype_class(n->type) == DC_REAL));
    j.extent = e->extent[p->node];
    for (int d = 0; d < n->rank; d++) j.total *= j.extent[d];
    if (j.total <= 0) return 0;
    /* Two elements of a byte are never given to two threads: whole rows. */
    int64_t row = n->rank ? j.extent[n->rank - 1] : 1;
    int count = eval_threads(threads, j.total / row > 1 ? j.total / row : j.total / 64);
    j.chunk = (j.total / row + count * 16 - 1) / (count * 16) * row;
    if (j.total == row && dtype_bits(out->type) >= 8) j.chunk = row / (count * 4) + 1;
    j.fn = ready_fn(e, p->node);
    eval_parallel(count, job_thread, &j);
    return atomic_load(&j.unsure);
}
