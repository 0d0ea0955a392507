// A launch: clusters on all cores. One that waits for what another will write is set aside, and the
// worker starts or continues others, as many as would be on the GPU at a time.
#include "runtime/emu/cluster_int.h"

#include <stdlib.h>
#include <unistd.h>

enum { MAX_WORKERS = 64 };

typedef struct Launch {
    Grid *grid;
    uint32_t resident, n_workers; // resident: clusters at a time
    uint64_t n;
    _Atomic uint64_t next, live;
    _Atomic uint64_t progress; // raised whenever a cluster wrote something, or ended
    _Atomic int no_memory;
    struct Worker *workers;
} Launch;

typedef struct Worker {
    Launch *launch;
    pthread_t thread;
    Cluster **aside; // those set aside, oldest first
    uint32_t n, room;
    uint64_t seen, streak; // how often clusters were set aside while progress was `seen`
    // 1 + progress if all of them have only waited since; UINT64_MAX: the worker has gone.
    _Atomic uint64_t idle;
} Worker;

static void out_of_memory(Launch *l) {
    atomic_store(&l->no_memory, 1);
    atomic_store(&l->grid->reports->ended, 1);
}

// The next cluster to be run: a new one, if there may be one more, else the one aside longest.
static Cluster *take(Worker *w, Cluster **spare) {
    Launch *l = w->launch;
    uint64_t live = atomic_fetch_add(&l->live, 1), number;
    if (live < l->resident && (number = atomic_fetch_add(&l->next, 1)) < l->n) {
        Cluster *c = *spare ? *spare : cluster_new(l->grid);
        *spare = NULL;
        if (c)
            cluster_start(c, number);
        else
            out_of_memory(l);
        return c;
    }
    atomic_fetch_sub(&l->live, 1);
    if (!w->n) return NULL;
    Cluster *c = w->aside[0];
    memmove(w->aside, w->aside + 1, sizeof *w->aside * --w->n);
    return c;
}

static bool set_aside(Worker *w, Cluster *c) {
    if (w->n == w->room) {
        uint32_t room = w->room ? 2 * w->room : 16;
        Cluster **grown = realloc(w->aside, room * sizeof *grown);
        if (!grown) return false;
        w->aside = grown, w->room = room;
    }
    w->aside[w->n++] = c;
    return true;
}

enum { PATIENCE = 64 };

// A cluster was set aside. All of them only wait for each other: a deadlock. Not so soon, for a
// kernel may give up waiting after a number of reads.
static void check_progress(Worker *w, Cluster *c, bool changed) {
    Launch *l = w->launch;
    uint64_t now = changed ? atomic_fetch_add(&l->progress, 1) + 1 : atomic_load(&l->progress);
    if (now != w->seen) w->seen = now, w->streak = 0;
    if (++w->streak < PATIENCE * ((uint64_t)w->n + 1)) return;
    atomic_store(&w->idle, now + 1);
    for (uint32_t k = 0; k < l->n_workers; k++) {
        uint64_t idle = atomic_load(&l->workers[k].idle);
        if (idle != now + 1 && idle != UINT64_MAX) return;
    }
    if (atomic_load(&l->live) < l->resident && atomic_load(&l->next) < l->n) return;
    Warp *first = c->warps;
    while (first->wait != WAIT_NOTHING) first++;
    report(first, &first->func->code[first->pc], -1, REPORT_DEADLOCK,
           "all CTAs that run at a time read global memory again and again, and nobody writes");
}

static void *work(void *self) {
    Worker *w = self;
    Launch *l = w->launch;
    Cluster *spare = NULL, *c;
    while (!atomic_load(&l->grid->reports->ended) && (c = take(w, &spare))) {
        uint64_t before = c->changes;
        Step s = cluster_run(c);
        if (s == YIELD) {
            check_progress(w, c, c->changes != before);
            if (!set_aside(w, c)) out_of_memory(l);
            continue;
        }
        atomic_fetch_sub(&l->live, 1);
        atomic_fetch_add(&l->progress, 1);
        cluster_free(spare);
        spare = c;
    }
    atomic_store(&w->idle, UINT64_MAX);
    cluster_free(spare);
    for (uint32_t k = 0; k < w->n; k++) cluster_free(w->aside[k]);
    free(w->aside);
    return NULL;
}

static uint32_t cores(void) {
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : n > MAX_WORKERS ? MAX_WORKERS : (uint32_t)n;
}

fk_status grid_run(Grid *g, uint32_t resident, FkError *error) {
    Worker workers[MAX_WORKERS] = {{0}};
    Launch l = {.grid = g, .resident = resident, .workers = workers, .n_workers = cores()};
    l.n = (uint64_t)g->dim[0] * g->dim[1] * g->dim[2] / (g->f->cluster ? g->f->cluster : 1);
    if (l.n_workers > l.n) l.n_workers = (uint32_t)l.n;
    bool started[MAX_WORKERS] = {false};
    for (uint32_t k = 0; k < l.n_workers; k++) workers[k].launch = &l;
    for (uint32_t k = 1; k < l.n_workers; k++) {
        started[k] = !pthread_create(&workers[k].thread, NULL, work, &workers[k]);
        if (!started[k]) atomic_store(&workers[k].idle, UINT64_MAX);
    }
    work(&workers[0]);
    for (uint32_t k = 1; k < l.n_workers; k++)
        if (started[k]) pthread_join(workers[k].thread, NULL);
    if (l.no_memory) return FK_FAIL(error, FK_ERROR_MEMORY, "emu: out of memory for a launch");
    if (!g->reports->used) return FK_OK;
    report_put_all(g->reports, error->text, sizeof error->text);
    return FK_ERROR_LAUNCH;
}
