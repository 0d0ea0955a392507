/* run_tune.c - fkrun --tune: times every variant of each step at the sizes at hand, and makes what
 * was measured the cost of each at just these sizes, so that a launch takes the fastest there and
 * goes by the prediction everywhere else. fkrun --list: the variants, their predictions and their
 * machine code, as ptxas described it: registers of a thread, shared bytes ("+": and some by the
 * sizes), stack bytes of a thread, bytes that move because of spilt registers, bytes of code.
 *
 * A variant is timed in a module whose step has no other; the rest of the fn runs with it. The
 * variants take turns, so that a clock that drifts meets all of them.
 */
#include "compiler/run_int.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PASSES = 3, LEAST_ROUNDS = 3, MOST_ROUNDS = 64 };
static const double PASS_MS = 150, HOPELESS = 2; /* slower than that by the best: timed once */

/* ---- costs -------------------------------------------------------------------------------------
 */

typedef VEC(FkmInsn) Code;

/* 1 at these sizes, else 0. Bound sizes are what they are. */
static void push_here(Arena *a, const FkmFn *f, const int64_t *sizes, Code *c) {
    bool first = true;
    for (uint32_t i = 0; i < f->n_sizes; i++) {
        if (f->sizes[i].bound >= 0) continue;
        vec_push(a, c, FKM_SIZE(i));
        vec_push(a, c, FKM_CONST(sizes[i]));
        vec_push(a, c, FKM_DO(EQ));
        if (!first) vec_push(a, c, FKM_DO(AND));
        first = false;
    }
    if (first) vec_push(a, c, FKM_CONST(1));
}

static bool same_code(const FkmInsn *x, const FkmInsn *y, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        if (x[i].op != y[i].op || x[i].a != y[i].a || x[i].b != y[i].b || x[i].k != y[i].k)
            return false;
    return true;
}

/* before * !here + ns * here. Not a select: its condition would lie below `before` on the stack,
 * which would grow with every size that is tuned. */
void tune_cost(Arena *a, const FkmFn *f, const int64_t *sizes, int64_t ns, FkmExpr *cost) {
    Code tail = {0}, all = {0};
    push_here(a, f, sizes, &tail);
    vec_push(a, &tail, FKM_DO(NOT));
    vec_push(a, &tail, FKM_DO(MUL));
    push_here(a, f, sizes, &tail);
    int at = tail.n;
    vec_push(a, &tail, FKM_CONST(ns));
    vec_push(a, &tail, FKM_DO(MUL));
    vec_push(a, &tail, FKM_DO(ADD));
    uint32_t before = cost->n, n = (uint32_t)tail.n;
    if (before > n) { /* tuned at these sizes before: the new figure takes the place of the old */
        FkmInsn *end = cost->code + before - n;
        tail.v[at].k = end[at].k;
        if (same_code(end, tail.v, n)) before -= n;
        tail.v[at].k = ns;
    }
    for (uint32_t i = 0; i < before; i++) vec_push(a, &all, cost->code[i]);
    if (!before) vec_push(a, &all, FKM_CONST(0));
    for (int i = 0; i < tail.n; i++) vec_push(a, &all, tail.v[i]);
    *cost = (FkmExpr){all.v, (uint32_t)all.n};
}

/* ---- predictions -------------------------------------------------------------------------------
 */

static void put_head(const Run *r, const char *word, uint32_t step) {
    const char *name = r->fn->steps[step].name;
    printf("%s %s", word, r->fn->name);
    for (uint32_t i = 0; i < r->fn->n_sizes; i++)
        printf(" %s=%lld", r->fn->sizes[i].name, (long long)r->sizes[i]);
    printf(" step=%u%s%s\n", step, name && *name ? " " : "", name ? name : "");
}

static void put_variant(const FkmVariant *v, const FkmEnv *env) {
    int64_t ns;
    printf("  variant=%s predicted=", v->name ? v->name : "");
    if (v->cost.n && fkm_eval(&v->cost, env, &ns) && ns < INT64_MAX)
        printf("%.2fus", (double)ns * 1e-3);
    else
        printf("?");
}

static void put_code(const FkmKernel *k, const FkmExpr *dynamic) {
    bool same = !dynamic->n || (dynamic->n == 1 && dynamic->code[0].op == FKM_OP_CONST);
    int64_t more = same && dynamic->n ? dynamic->code[0].k : 0;
    if (!k->n_cubins) printf(" %s: not assembled", k->arch);
    for (uint32_t i = 0; i < k->n_cubins; i++) {
        const FkmImage *c = &k->cubins[i];
        printf(" %s: registers=%u shared=%lld%s stack=%u spilt=%u code=%zu", c->arch, c->regs,
               (long long)c->shared + more, same ? "" : "+", c->stack, c->spills, c->size);
    }
}

/* Bytes of the temporaries, sharing places and not. */
static void list_workspace(const Run *r, const FkmEnv *env) {
    const FkmFn *f = r->fn;
    uint32_t n = f->n_temps, steps = f->n_steps;
    uint64_t apart = 0, *room = ARENA_ARRAY(r->arena, uint64_t, 2 * n + 2 * steps + 1);
    FkmLife *life = ARENA_ARRAY(r->arena, FkmLife, n + 1);
    uint32_t *order = ARENA_ARRAY(r->arena, uint32_t, n + 1);
    FkmPlaces p = {n,
                   steps,
                   life,
                   order,
                   0,
                   room,
                   room + n,
                   room + 2 * n,
                   room + 2 * n + steps,
                   ARENA_ARRAY(r->arena, uint32_t, n + 1),
                   0};
    fkm_lives(f, life);
    fkm_order(life, n, steps, order);
    for (uint32_t i = 0; i < n; i++) {
        int64_t bytes = 0;
        fkm_eval(&f->temps[i].bytes, env, &bytes);
        p.bytes[i] = (uint64_t)bytes;
    }
    if (!n || !fkm_place(&p)) return;
    for (uint32_t i = 0; i < n; i++) apart += p.bytes[i]; /* whole pieces now */
    printf("  temporaries=%u bytes=%llu unshared=%llu\n", n, (unsigned long long)p.total,
           (unsigned long long)apart);
}

void tune_list(Run *r, const FkmModule *m) {
    FkmEnv env = run_env(r, 132);
    for (uint32_t s = 0; s < r->fn->n_steps; s++) {
        put_head(r, "LIST", s);
        for (uint32_t k = 0; k < r->fn->steps[s].n_variants; k++) {
            const FkmVariant *v = &r->fn->steps[s].variants[k];
            int64_t holds = 1;
            put_variant(v, &env);
            if (v->guard.n && !(fkm_eval(&v->guard, &env, &holds) && holds))
                printf(" not for these sizes and layouts");
            for (uint32_t i = 0; i < v->n_launches; i++)
                put_code(&m->kernels[v->launches[i].kernel], &v->launches[i].shared);
            printf("\n");
        }
    }
    list_workspace(r, &env);
}

/* ---- measuring ---------------------------------------------------------------------------------
 */

/* A variant on trial: a module in which its step has no other. */
typedef struct Trial {
    fk_module *module;
    Launch launch;
    int rounds, n;
    double ms[PASSES]; /* ascending after the last pass */
    Str why;           /* not empty: it cannot be taken here */
} Trial;

typedef struct Tune {
    RunDevice *d;
    Run *run;
    Arena *arena; /* of the costs */
    FkmModule *tree;
    FkmStep *step;
    uint32_t index;
    RunBench *bench;
    Trial *trial;
} Tune;

static bool failed(Tune *t, fk_status s) {
    if (s) str_printf(&t->run->why, "%s (%s)", fk_last_error(), fk_status_name(s));
    return s != FK_OK;
}

/* The bytes of the module in which variant v of the step stands alone, from malloc. */
static void *alone(Tune *t, uint32_t v, size_t *size) {
    FkmStep all = *t->step;
    FkmError error;
    t->step->variants = &all.variants[v];
    t->step->n_variants = 1;
    void *bytes = fkm_encode(t->tree, size, &error);
    *t->step = all;
    if (!bytes) str_printf(&t->run->why, "--tune: %s", error.text);
    return bytes;
}

/* False: something failed. A variant that does not take the sizes, or has no code for the device,
 * is no failure. */
static bool open_trial(Tune *t, uint32_t v) {
    Trial *x = &t->trial[v];
    Run *r = t->run;
    size_t size, need;
    fk_fn *fn;
    void *bytes = alone(t, v, &size);
    if (!bytes) return false;
    fk_status s = fk_module_load(t->d->device, bytes, size, &x->module);
    free(bytes);
    DLTensor **args = ARENA_ARRAY(r->arena, DLTensor *, r->n);
    for (int i = 0; i < r->n; i++) args[i] = &r->tensors[i].dl_tensor;
    if (!s) s = fk_module_fn(x->module, r->fn->name, &fn);
    if (!s) s = fk_fn_workspace_size(fn, args, r->n, &need);
    if (s == FK_ERROR_UNSUPPORTED) str_add(&x->why, "not for these sizes and layouts");
    if (s == FK_ERROR_ARCH) str_add(&x->why, "no code for this device");
    if (x->why.n) return true;
    if (failed(t, s)) return false;
    RunDevice with = *t->d;
    with.module = x->module;
    if (!device_prepare(&with, r, &x->launch)) return false;
    s = fk_launch(fn, args, r->n, x->launch.workspace, x->launch.bytes, t->d->stream);
    if (s == FK_ERROR_LAUNCH) str_add(&x->why, fk_last_error()); /* more than the device has */
    return s == FK_ERROR_LAUNCH || !failed(t, s);
}

static void close_trial(Tune *t, Trial *x) {
    device_drop_workspace(t->d, &x->launch);
    fk_module_unload(x->module);
    str_free(&x->why);
}

static double least(const Tune *t) {
    double best = -1;
    for (uint32_t v = 0; v < t->step->n_variants; v++)
        if (t->trial[v].n && (best < 0 || t->trial[v].ms[0] < best)) best = t->trial[v].ms[0];
    return best;
}

static bool time_trial(Tune *t, Trial *x) {
    if (!x->rounds) { /* the first time: how many take a pass's time */
        double once = bench_time(t->bench, &x->launch, 1);
        if (once < 0) return false;
        double rounds = once > 0 ? PASS_MS / once : (double)MOST_ROUNDS;
        rounds = fmin(fmax(rounds, (double)LEAST_ROUNDS), (double)MOST_ROUNDS);
        x->rounds = (int)rounds;
    }
    double ms = bench_time(t->bench, &x->launch, x->rounds);
    if (ms < 0) return false;
    int at = x->n++;
    for (; at && x->ms[at - 1] > ms; at--) x->ms[at] = x->ms[at - 1];
    x->ms[at] = ms;
    return true;
}

static bool time_all(Tune *t) {
    for (int pass = 0; pass < PASSES; pass++) {
        double best = least(t);
        for (uint32_t v = 0; v < t->step->n_variants; v++) {
            Trial *x = &t->trial[v];
            if (x->why.n || (pass && x->ms[0] > HOPELESS * best)) continue;
            if (!time_trial(t, x)) return false;
        }
    }
    return true;
}

static double measured(const Trial *x) {
    return x->ms[x->n / 2];
}

/* Prints the table and, with rivals, writes the costs. */
static bool conclude(Tune *t, const Launch *usual) {
    const FkmStep *step = t->step;
    FkmEnv env = run_env(t->run, t->d->info.sm_count);
    const char *chosen;
    uint32_t best = 0, timed = 0;
    if (failed(t, fk_fn_variant(usual->fn, usual->args, usual->n, (int)t->index, &chosen)))
        return false;
    for (uint32_t v = 0; v < step->n_variants; v++) {
        if (!t->trial[v].n) continue;
        if (!timed++ || measured(&t->trial[v]) < measured(&t->trial[best])) best = v;
    }
    put_head(t->run, "TUNE", t->index);
    for (uint32_t v = 0; v < step->n_variants; v++) {
        const Trial *x = &t->trial[v];
        put_variant(&step->variants[v], &env);
        if (x->n) printf(" measured=%.2fus", measured(x) * 1e3);
        if (x->n && v != best && measured(&t->trial[best]) > 0)
            printf(" %+.1f%%", 100 * (measured(x) / measured(&t->trial[best]) - 1));
        if (x->n && v == best) printf(" best");
        if (step->variants[v].name && !strcmp(step->variants[v].name, chosen)) printf(" chosen");
        printf("%s%s\n", x->why.n ? " " : "", str_get(&x->why));
    }
    for (uint32_t v = 0; timed > 1 && v < step->n_variants; v++)
        if (t->trial[v].n)
            tune_cost(t->arena, t->run->fn, t->run->sizes, (int64_t)(measured(&t->trial[v]) * 1e6),
                      &step->variants[v].cost);
    return true;
}

static bool tune_step(Tune *t, const Launch *usual) {
    bool ok = true;
    t->trial = ARENA_ARRAY(t->run->arena, Trial, t->step->n_variants);
    for (uint32_t v = 0; ok && v < t->step->n_variants; v++) ok = open_trial(t, v);
    ok = ok && time_all(t) && conclude(t, usual);
    for (uint32_t v = 0; v < t->step->n_variants; v++) close_trial(t, &t->trial[v]);
    return ok;
}

bool tune_run(RunDevice *d, Run *r, Arena *a, FkmModule *tree, const Launch *usual) {
    Tune t = {.d = d, .run = r, .arena = a, .tree = tree};
    t.bench = bench_open(d, r);
    bool ok = t.bench != NULL;
    for (t.index = 0; ok && t.index < r->fn->n_steps; t.index++) {
        t.step = &r->fn->steps[t.index]; /* the fn is const, its steps are the module's */
        ok = tune_step(&t, usual);
    }
    bench_close(t.bench);
    return ok;
}
