/* run_bench.c - fkrun --bench: the median time of many launches, between events on one stream.
 *
 * Launches take turns over several copies of the tensors, together larger than the second-level
 * cache, so that each finds its inputs cold; all are enqueued before the first is waited for, so
 * that the host's time stays out. The yardstick is a device-to-device copy timed the same way.
 */
#include "compiler/run_int.h"

#include <stdlib.h>
#include <string.h>

enum { COLD = 512 << 20, MAX_SETS = 256, MAX_ROUNDS = 256 };

typedef struct Bench {
    RunDevice *d;
    Run *run;
    Launch *launch;
    int sets, rounds;
    void **memory;     /* sets * n */
    DLTensor *tensors; /* sets * n */
    void **events;     /* rounds + 1 */
} Bench;

static bool failed(Bench *b, fk_status s) {
    if (s) str_printf(&b->run->why, "%s (%s)", fk_last_error(), fk_status_name(s));
    return s != FK_OK;
}

static int ascending(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static bool make_sets(Bench *b) {
    Run *r = b->run;
    size_t total = 1;
    for (int i = 0; i < r->n; i++) total += r->tensors[i].total;
    size_t room = b->d->info.bytes_free / 2, want = COLD / total + 2;
    b->sets = want > MAX_SETS ? MAX_SETS : (int)want;
    while (b->sets > 1 && (size_t)b->sets * total > room) b->sets--;
    b->memory = ARENA_ARRAY(r->arena, void *, b->sets * r->n);
    b->tensors = ARENA_ARRAY(r->arena, DLTensor, b->sets * r->n);
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

static bool launch_set(Bench *b, int set) {
    Run *r = b->run;
    DLTensor *args[FKM_MAX_TENSORS];
    for (int i = 0; i < r->n; i++) args[i] = &b->tensors[set * r->n + i];
    return !failed(b, fk_launch(b->launch->fn, args, r->n, b->launch->workspace, b->launch->bytes,
                                b->d->stream));
}

/* Median milliseconds of a launch; < 0 when something failed. */
static double time_launches(Bench *b) {
    float ms[MAX_ROUNDS];
    for (int i = 0; i < b->sets && i < 8; i++)
        if (!launch_set(b, i)) return -1;
    if (failed(b, fk_stream_sync(b->d->device, b->d->stream))) return -1;
    for (int i = 0; i <= b->rounds; i++) {
        if (failed(b, fk_event_record(b->d->device, b->events[i], b->d->stream))) return -1;
        if (i < b->rounds && !launch_set(b, i % b->sets)) return -1;
    }
    for (int i = 0; i < b->rounds; i++)
        if (failed(b, fk_event_elapsed(b->d->device, b->events[i], b->events[i + 1], &ms[i])))
            return -1;
    qsort(ms, (size_t)b->rounds, sizeof *ms, ascending);
    return ms[b->rounds / 2];
}

/* Bytes a second of a large device-to-device copy, read and written bytes both counted. */
static double copy_limit(Bench *b) {
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

static bool measure(Bench *b) {
    Run *r = b->run;
    for (int i = 0; i <= b->rounds; i++)
        if (failed(b, fk_event_create(b->d->device, &b->events[i]))) return false;
    double limit = copy_limit(b);
    if (limit < 0 || !make_sets(b)) return false;
    double ms = time_launches(b);
    if (ms < 0) return false;
    double bytes = io_bytes(r), flops = r->graph ? run_flops(r->graph, r->sizes) : 0;
    printf("BENCH %s", r->fn->name);
    for (uint32_t i = 0; i < r->fn->n_sizes; i++)
        printf(" %s=%lld", r->fn->sizes[i].name, (long long)r->sizes[i]);
    printf(" us=%.2f", ms * 1e3);
    if (ms > 0) printf(" TB/s=%.3f", bytes / ms * 1e-9);
    if (ms > 0 && flops > 0) printf(" TFLOP/s=%.2f", flops / ms * 1e-9);
    if (limit > 0 && ms > 0) printf(" copy=%.0f%%", 100 * bytes / (ms * 1e-3) / limit);
    printf(" copy-limit=%.2fTB/s rounds=%d sets=%d device=\"%s\"\n", limit * 1e-12, b->rounds,
           b->sets, b->d->info.name);
    return true;
}

bool bench_run(RunDevice *d, Run *r, Launch *l) {
    Bench b = {.d = d, .run = r, .launch = l, .rounds = MAX_ROUNDS};
    b.events = ARENA_ARRAY(r->arena, void *, MAX_ROUNDS + 1);
    bool ok = measure(&b);
    for (int k = 0; b.memory && k < b.sets * r->n; k++)
        if (b.memory[k]) fk_free(d->device, b.memory[k]);
    for (int i = 0; i <= MAX_ROUNDS; i++)
        if (b.events[i]) fk_event_destroy(d->device, b.events[i]);
    return ok;
}
