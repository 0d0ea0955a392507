/* run_bench.c - the median time of many launches, between events on one stream; fkrun --bench.
 *
 * Launches take turns over several copies of the tensors, together larger than the second-level
 * cache, so that each finds its inputs cold; all are enqueued before the first is waited for, so
 * that the host's time stays out. The yardstick is a device-to-device copy timed the same way.
 */
#include "compiler/run_int.h"

#include <stdlib.h>
#include <string.h>

enum { COLD = 512 << 20, MAX_SETS = 256, MAX_ROUNDS = 256 };

struct RunBench {
    RunDevice *d;
    Run *run;
    int sets;
    void **memory;     /* sets * n */
    DLTensor *tensors; /* sets * n */
    void **graphs;     /* sets; of the launch `of` */
    const Launch *of;
    void **events; /* MAX_ROUNDS + 1 */
};

static bool failed(RunBench *b, fk_status s) {
    if (s) str_printf(&b->run->why, "%s (%s)", fk_last_error(), fk_status_name(s));
    return s != FK_OK;
}

static int ascending(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static bool make_sets(RunBench *b) {
    Run *r = b->run;
    size_t total = 1;
    for (int i = 0; i < r->n; i++) total += r->tensors[i].total;
    size_t room = b->d->info.bytes_free / 2, want = COLD / total + 2;
    b->sets = want > MAX_SETS ? MAX_SETS : (int)want;
    while (b->sets > 1 && (size_t)b->sets * total > room) b->sets--;
    b->memory = ARENA_ARRAY(r->arena, void *, b->sets * r->n);
    b->tensors = ARENA_ARRAY(r->arena, DLTensor, b->sets * r->n);
    b->graphs = ARENA_ARRAY(r->arena, void *, b->sets);
    for (int k = 0; k < b->sets * r->n; k++) {
        RunTensor *t = &r->tensors[k % r->n];
        b->tensors[k] = t->dl_tensor;
        if (!t->device) continue;
        if (failed(b, fk_alloc(b->d->device, t->total, &b->memory[k])) ||
            failed(b, fk_copy(b->d->device, b->memory[k], t->device, t->total, FK_ON_DEVICE)))
            return false;
        b->tensors[k].data = (char *)b->memory[k] + RUN_GUARD;
    }
    return true;
}

static void drop_graphs(RunBench *b) {
    for (int k = 0; b->graphs && k < b->sets; k++) {
        fk_graph_free(b->d->device, b->graphs[k]);
        b->graphs[k] = NULL;
    }
}

static bool launch_set(RunBench *b, const Launch *l, int set) {
    Run *r = b->run;
    DLTensor *args[FKM_MAX_TENSORS];
    for (int i = 0; i < r->n; i++) args[i] = &b->tensors[set * r->n + i];
    if (b->of != l) drop_graphs(b);
    b->of = l;
    return device_enqueue(b->d, r, l, args, &b->graphs[set]);
}

double bench_time(RunBench *b, const Launch *l, int rounds) {
    float ms[MAX_ROUNDS];
    for (int i = 0; i < b->sets && i < 8 && i < rounds; i++)
        if (!launch_set(b, l, i)) return -1;
    if (failed(b, fk_stream_sync(b->d->device, b->d->stream))) return -1;
    for (int i = 0; i <= rounds; i++) {
        if (failed(b, fk_event_record(b->d->device, b->events[i], b->d->stream))) return -1;
        if (i < rounds && !launch_set(b, l, i % b->sets)) return -1;
    }
    for (int i = 0; i < rounds; i++)
        if (failed(b, fk_event_elapsed(b->d->device, b->events[i], b->events[i + 1], &ms[i])))
            return -1;
    qsort(ms, (size_t)rounds, sizeof *ms, ascending);
    return ms[rounds / 2];
}

/* Bytes a second of a large device-to-device copy, read and written bytes both counted. */
static double copy_limit(RunBench *b) {
    enum { TIMES = 9 };
    float ms[TIMES];
    size_t bytes = COLD;
    void *from = NULL, *to = NULL;
    bool ok = !failed(b, fk_alloc(b->d->device, bytes, &from)) &&
              !failed(b, fk_alloc(b->d->device, bytes, &to));
    for (int i = 0; ok && i < TIMES; i++)
        ok = !failed(b, fk_event_record(b->d->device, b->events[0], NULL)) &&
             !failed(b, fk_copy(b->d->device, to, from, bytes, FK_ON_DEVICE)) &&
             !failed(b, fk_event_record(b->d->device, b->events[1], NULL)) &&
             !failed(b, fk_event_elapsed(b->d->device, b->events[0], b->events[1], &ms[i]));
    if (from) fk_free(b->d->device, from);
    if (to) fk_free(b->d->device, to);
    if (!ok) return -1;
    qsort(ms, TIMES, sizeof *ms, ascending);
    return ms[0] > 0 ? 2e3 * (double)bytes / ms[TIMES / 2] : 0;
}

static double io_bytes(const Run *r) {
    double sum = 0;
    for (int i = 0; i < r->n; i++)
        sum += (double)r->tensors[i].count * dtype_bits(r->tensors[i].type) / 8;
    return sum;
}

RunBench *bench_open(RunDevice *d, Run *r) {
    RunBench *b = ARENA_NEW(r->arena, RunBench);
    *b = (RunBench){.d = d, .run = r, .events = ARENA_ARRAY(r->arena, void *, MAX_ROUNDS + 1)};
    bool ok = true;
    for (int i = 0; ok && i <= MAX_ROUNDS; i++)
        ok = !failed(b, fk_event_create(d->device, &b->events[i]));
    if (ok && make_sets(b)) return b;
    bench_close(b);
    return NULL;
}

void bench_close(RunBench *b) {
    if (!b) return;
    drop_graphs(b);
    for (int k = 0; b->memory && k < b->sets * b->run->n; k++)
        if (b->memory[k]) fk_free(b->d->device, b->memory[k]);
    for (int i = 0; i <= MAX_ROUNDS; i++)
        if (b->events[i]) fk_event_destroy(b->d->device, b->events[i]);
}

static bool measure(RunBench *b, const Launch *l) {
    Run *r = b->run;
    double limit = copy_limit(b), ms = limit < 0 ? -1 : bench_time(b, l, MAX_ROUNDS);
    if (ms < 0) return false;
    double bytes = io_bytes(r), flops = r->graph ? run_flops(r->graph, r->sizes) : 0;
    printf("BENCH %s", r->fn->name);
    for (uint32_t i = 0; i < r->fn->n_sizes; i++)
        printf(" %s=%lld", r->fn->sizes[i].name, (long long)r->sizes[i]);
    printf(" us=%.2f", ms * 1e3);
    if (ms > 0) printf(" TB/s=%.3f", bytes / ms * 1e-9);
    if (ms > 0 && flops > 0) printf(" TFLOP/s=%.2f", flops / ms * 1e-9);
    if (limit > 0 && ms > 0) printf(" copy=%.0f%%", 100 * bytes / (ms * 1e-3) / limit);
    printf(" copy-limit=%.2fTB/s rounds=%d sets=%d device=\"%s\"\n", limit * 1e-12, MAX_ROUNDS,
           b->sets, b->d->info.name);
    return true;
}

bool bench_run(RunDevice *d, Run *r, const Launch *l) {
    RunBench *b = bench_open(d, r);
    bool ok = b && measure(b, l);
    bench_close(b);
    return ok;
}
