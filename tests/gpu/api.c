/* api - what only a GPU can show of libfk: cycles of load and unload keep memory flat, threads,
 * graph capture, streams, huge strides.
 *
 *     api CUBIN.fkm PTX.fkm DROPOUT.fkm        modules of tests/cases/a13_grid.fk (with and without
 *                                              machine code) and a59_dropout.fk
 *
 * The last line is "N passed, N failed".
 */
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/fk.h"

static int passed, failed;
static fk_device *dev;
static DLDevice where;

#define MUST(call)                                                                                 \
    do {                                                                                           \
        fk_status s_ = (call);                                                                     \
        if (s_) {                                                                                  \
            printf("FATAL %s:%d: %s: %s: %s\n", __FILE__, __LINE__, #call, fk_status_name(s_),     \
                   fk_last_error());                                                               \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static void verdict(const char *name, int ok, const char *detail) {
    printf("%s %s%s%s\n", ok ? "PASS" : "FAIL", name, *detail ? ": " : "", detail);
    *(ok ? &passed : &failed) += 1;
}

/* ---- tensors ---- */

typedef struct Mat { /* f32[m, n] on the device */
    DLTensor t;
    int64_t shape[2], stride[2];
} Mat;

static void mat(Mat *a, int64_t m, int64_t n) {
    *a = (Mat){.shape = {m, n}};
    void *p;
    MUST(fk_alloc(dev, (size_t)(m * n) * 4, &p));
    a->t = (DLTensor){p, where, 2, {kDLFloat, 32, 1}, a->shape, NULL, 0};
}

static void fill(const Mat *a, float base) {
    size_t n = (size_t)(a->shape[0] * a->shape[1]);
    float *h = malloc(n * 4);
    for (size_t i = 0; i < n; i++) h[i] = base + (float)(i % 1000);
    MUST(fk_copy(dev, a->t.data, h, n * 4, FK_TO_DEVICE));
    free(h);
}

/* Is every element 2 x + 1? */
static int is_right(const Mat *y, float base) {
    size_t n = (size_t)(y->shape[0] * y->shape[1]);
    float *h = malloc(n * 4);
    MUST(fk_copy(dev, h, y->t.data, n * 4, FK_FROM_DEVICE));
    int ok = 1;
    for (size_t i = 0; i < n && ok; i++) ok = h[i] == 2 * (base + (float)(i % 1000)) + 1;
    free(h);
    return ok;
}

static void *slurp(const char *path, size_t *n) {
    FILE *f = fopen(path, "rb");
    if (!f) {
        printf("FATAL cannot read %s\n", path);
        exit(1);
    }
    fseek(f, 0, SEEK_END);
    *n = (size_t)ftell(f);
    rewind(f);
    void *p = malloc(*n);
    if (fread(p, 1, *n, f) != *n) exit(1);
    fclose(f);
    return p;
}

static long resident_kib(void) {
    long pages = 0, skip;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%ld %ld", &skip, &pages) != 2) return 0;
    fclose(f);
    return pages * 4;
}

/* ---- A81: cycles ---- */

static void cycles(const char *name, const char *path, int count) {
    size_t n;
    void *bytes = slurp(path, &n);
    Mat x, y;
    mat(&x, 33, 65), mat(&y, 33, 65);
    fill(&x, 3);
    DLTensor *args[] = {&x.t, &y.t};
    fk_device_info early = {0}, late = {0};
    long rss = 0;
    for (int i = 0; i < count; i++) {
        fk_module *m;
        fk_fn *fn;
        MUST(fk_module_load(dev, bytes, n, &m));
        MUST(fk_module_fn(m, "grid", &fn));
        MUST(fk_launch(fn, args, 2, NULL, 0, NULL));
        fk_module_unload(m);
        if (i == count / 10) {
            MUST(fk_device_describe(dev, &early));
            rss = resident_kib();
        }
    }
    MUST(fk_device_describe(dev, &late));
    long grew = resident_kib() - rss;
    char text[160];
    snprintf(text, sizeof text, "%d cycles, device memory %+ld KiB, host %+ld KiB, results %s",
             count, (long)((int64_t)early.bytes_free - (int64_t)late.bytes_free) / 1024, grew,
             is_right(&y, 3) ? "right" : "WRONG");
    int flat = late.bytes_free + (4u << 20) >= early.bytes_free && grew < 4096;
    verdict(name, flat && is_right(&y, 3), text);
    fk_free(dev, x.t.data), fk_free(dev, y.t.data);
    free(bytes);
}

/* ---- A78, A83: threads ---- */

typedef struct Worker {
    const void *bytes;
    size_t n;
    int id, ok;
} Worker;

static void *work(void *arg) { /* a fresh thread: no context is current */
    Worker *w = arg;
    Mat x, y;
    mat(&x, 17 + w->id, 129), mat(&y, 17 + w->id, 129);
    fill(&x, (float)w->id);
    void *stream;
    MUST(fk_stream_create(dev, &stream));
    w->ok = 1;
    for (int i = 0; i < 100 && w->ok; i++) {
        fk_module *m;
        fk_fn *fn;
        MUST(fk_module_load(dev, w->bytes, w->n, &m));
        MUST(fk_module_fn(m, "grid", &fn));
        for (int k = 0; k < 10; k++)
            MUST(fk_launch(fn, (DLTensor *[]){&x.t, &y.t}, 2, NULL, 0, stream));
        MUST(fk_stream_sync(dev, stream));
        w->ok = is_right(&y, (float)w->id);
        fk_module_unload(m);
    }
    MUST(fk_stream_destroy(dev, stream));
    fk_free(dev, x.t.data), fk_free(dev, y.t.data);
    return NULL;
}

static void threads(const char *path) {
    Worker w[8];
    pthread_t t[8];
    size_t n;
    void *bytes = slurp(path, &n);
    for (int i = 0; i < 8; i++) {
        w[i] = (Worker){bytes, n, i, 0};
        pthread_create(&t[i], NULL, work, &w[i]);
    }
    int ok = 1;
    for (int i = 0; i < 8; i++) pthread_join(t[i], NULL), ok &= w[i].ok;
    verdict("8 threads, each loading, launching, unloading", ok, "");
    free(bytes);
}

/* ---- A80, A59: capture and replay ---- */

static int (*begin_capture)(void *, int), (*end_capture)(void *, void **);
static int (*instantiate)(void **, void *, unsigned long long), (*graph_launch)(void *, void *);
static int (*exec_destroy)(void *), (*graph_destroy)(void *), (*ctx_get)(void **),
    (*ctx_set)(void *);
static int (*retain)(void **, int);

static void driver_symbols(void) {
    void *h = dlopen("libcuda.so.1", RTLD_NOW);
    struct {
        const char *name;
        void *slot;
    } s[] = {{"cuStreamBeginCapture_v2", &begin_capture},
             {"cuStreamEndCapture", &end_capture},
             {"cuGraphInstantiateWithFlags", &instantiate},
             {"cuGraphLaunch", &graph_launch},
             {"cuGraphExecDestroy", &exec_destroy},
             {"cuGraphDestroy", &graph_destroy},
             {"cuCtxGetCurrent", &ctx_get},
             {"cuCtxSetCurrent", &ctx_set},
             {"cuDevicePrimaryCtxRetain", &retain}};
    for (size_t i = 0; i < sizeof s / sizeof *s; i++) {
        void *p = h ? dlsym(h, s[i].name) : NULL;
        if (!p) {
            printf("FATAL no %s\n", s[i].name);
            exit(1);
        }
        memcpy(s[i].slot, &p, sizeof p);
    }
    void *ctx;
    if (retain(&ctx, 0) || ctx_set(ctx)) exit(1);
}

static void capture(const char *path) {
    size_t n;
    void *bytes = slurp(path, &n), *stream, *graph, *exec;
    fk_module *m;
    fk_fn *fn;
    Mat x, y;
    mat(&x, 64, 1000), mat(&y, 64, 1000);
    DLTensor *args[] = {&x.t, &y.t};
    MUST(fk_stream_create(dev, &stream));
    MUST(fk_module_load(dev, bytes, n, &m));
    MUST(fk_module_fn(m, "grid", &fn));
    begin_capture(stream, 2); /* relaxed, so that only our own doings can invalidate it */
    fk_status cold = fk_launch(fn, args, 2, NULL, 0, stream);
    int intact = !end_capture(stream, &graph);
    graph_destroy(graph);
    verdict("capture of a fn that was not prepared",
            intact && (cold == FK_ERROR_CAPTURE || cold == FK_OK), fk_status_name(cold));
    MUST(fk_fn_prepare(fn, args, 2));
    begin_capture(stream, 0); /* global: any unsafe call in the process would invalidate it */
    fk_status warm = fk_launch(fn, args, 2, NULL, 0, stream);
    int ok = !warm && !end_capture(stream, &graph) && !instantiate(&exec, graph, 0);
    for (int i = 0; i < 3 && ok; i++) {
        fill(&x, (float)(10 * i));
        ok = !graph_launch(exec, stream);
        MUST(fk_stream_sync(dev, stream));
        ok = ok && is_right(&y, (float)(10 * i));
    }
    verdict("capture, then three replays on new data", ok, "");
    exec_destroy(exec), graph_destroy(graph);
    MUST(fk_stream_destroy(dev, stream));
    fk_module_unload(m);
    fk_free(dev, x.t.data), fk_free(dev, y.t.data);
    free(bytes);
}

/* The seed is read on the device, so a replay sees the new one; the same seed gives the same mask.
 */
static void dropout_replay(const char *path) {
    enum { M = 64, N = 100 };
    fk_module *m;
    fk_fn *fn;
    MUST(fk_module_load_file(dev, path, &m));
    MUST(fk_module_fn(m, "drop", &fn));
    Mat x, y, all, none, odd;
    mat(&x, M, N), mat(&y, M, N), mat(&all, M, N), mat(&none, M, N), mat(&odd, N, M);
    fill(&x, 1);
    int32_t *seed;
    float keep = 0.5f, *sums;
    int64_t rows = M;
    MUST(fk_alloc(dev, 4, (void **)&seed));
    MUST(fk_alloc(dev, M * 4, (void **)&sums));
    DLTensor ts = {seed, where, 0, {kDLInt, 32, 1}, NULL, NULL, 0};
    DLTensor tk = {&keep, {kDLCPU, 0}, 0, {kDLFloat, 32, 1}, NULL, NULL, 0};
    DLTensor tr = {sums, where, 1, {kDLFloat, 32, 1}, &rows, NULL, 0};
    DLTensor *args[] = {&x.t, &ts, &tk, &y.t, &tr, &all.t, &none.t, &odd.t};
    size_t bytes;
    void *ws = NULL, *stream, *graph, *exec;
    MUST(fk_stream_create(dev, &stream));
    MUST(fk_fn_workspace_size(fn, args, 8, &bytes));
    if (bytes) MUST(fk_alloc(dev, bytes, &ws));
    MUST(fk_workspace_init(fn, args, 8, ws, bytes, stream));
    MUST(fk_fn_prepare(fn, args, 8));
    MUST(fk_stream_sync(dev, stream));
    begin_capture(stream, 0);
    MUST(fk_launch(fn, args, 8, ws, bytes, stream));
    int ok = !end_capture(stream, &graph) && !instantiate(&exec, graph, 0), kept[3] = {0};
    float got[3][M * N];
    for (int r = 0; r < 3 && ok; r++) {
        int32_t s = r == 1 ? 8 : 7;
        MUST(fk_copy(dev, seed, &s, 4, FK_TO_DEVICE));
        ok = !graph_launch(exec, stream);
        MUST(fk_stream_sync(dev, stream));
        MUST(fk_copy(dev, got[r], y.t.data, sizeof got[r], FK_FROM_DEVICE));
        for (int i = 0; i < M * N; i++) kept[r] += got[r][i] != 0;
    }
    char text[120];
    snprintf(text, sizeof text, "kept %d, %d, %d of %d", kept[0], kept[1], kept[2], M * N);
    double sigma = sqrt(M * N * 0.25);
    ok = ok && !memcmp(got[0], got[2], sizeof got[0]) && memcmp(got[0], got[1], sizeof got[0]);
    for (int r = 0; r < 3; r++) ok = ok && fabs(kept[r] - M * N * 0.5) < 4 * sigma;
    verdict("dropout replayed with a new seed on the device", ok, text);
    exec_destroy(exec), graph_destroy(graph);
    fk_stream_destroy(dev, stream);
    fk_module_unload(m);
}

/* ---- A90: streams ---- */

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* A long chain on one stream: each launch reads what the one before wrote; none waits. */
static void streams(const char *path) {
    fk_module *m;
    fk_fn *fn;
    MUST(fk_module_load_file(dev, path, &m));
    MUST(fk_module_fn(m, "grid", &fn));
    Mat a[2], b[2];
    void *s[2];
    for (int i = 0; i < 2; i++) {
        mat(&a[i], 4096, 16384), mat(&b[i], 4096, 16384);
        MUST(fk_stream_create(dev, &s[i]));
        fill(&a[i], 0);
    }
    for (int i = 0; i < 2; i++)
        MUST(fk_launch(fn, (DLTensor *[]){&a[i].t, &b[i].t}, 2, NULL, 0, s[i]));
    MUST(fk_stream_sync(dev, s[0]));
    MUST(fk_stream_sync(dev, s[1]));
    int ok = is_right(&b[0], 0) && is_right(&b[1], 0);
    double t0 = now_ms();
    for (int k = 0; k < 200; k++)
        for (int i = 0; i < 2; i++)
            MUST(fk_launch(fn, (DLTensor *[]){&b[i].t, &a[i].t}, 2, NULL, 0, s[i]));
    double issued = now_ms() - t0;
    MUST(fk_stream_sync(dev, s[0]));
    MUST(fk_stream_sync(dev, s[1]));
    double done = now_ms() - t0;
    float first, want = 3; /* 2 * (2 * 0 + 1) + 1 */
    MUST(fk_copy(dev, &first, a[1].t.data, 4, FK_FROM_DEVICE));
    char text[120];
    snprintf(text, sizeof text, "400 launches issued in %.2f ms, done in %.2f ms", issued, done);
    verdict("two streams, ordered each, launches do not wait",
            ok && first == want && issued < done / 2, text);
    for (int i = 0; i < 2; i++) fk_free(dev, a[i].t.data), fk_free(dev, b[i].t.data);
    fk_module_unload(m);
}

/* ---- A17: strides beyond 2^31 elements ---- */

static void huge_strides(const char *path) {
    fk_module *m;
    fk_fn *fn;
    MUST(fk_module_load_file(dev, path, &m));
    MUST(fk_module_fn(m, "grid", &fn));
    Mat x, y;
    mat(&y, 3, 1000);
    int64_t pitch = 2400000007;
    x = (Mat){.shape = {3, 1000}, .stride = {pitch, 1}};
    MUST(fk_alloc(dev, (size_t)(2 * pitch + 1000) * 4, &x.t.data));
    x.t = (DLTensor){x.t.data, where, 2, {kDLFloat, 32, 1}, x.shape, x.stride, 0};
    float row[1000];
    for (int64_t r = 0; r < 3; r++) {
        for (int i = 0; i < 1000; i++) row[i] = (float)((r * 1000 + i) % 1000);
        MUST(fk_copy(dev, (char *)x.t.data + r * pitch * 4, row, sizeof row, FK_TO_DEVICE));
    }
    MUST(fk_launch(fn, (DLTensor *[]){&x.t, &y.t}, 2, NULL, 0, NULL));
    verdict("a row pitch of 2400000007 elements", is_right(&y, 0), "");
    fk_free(dev, x.t.data), fk_free(dev, y.t.data);
    fk_module_unload(m);
}

int main(int argc, char **argv) {
    if (argc != 4) {
        printf("usage: api CUBIN.fkm PTX.fkm DROPOUT.fkm\n");
        return 2;
    }
    fk_status s = fk_device_open("cuda", &dev);
    if (s == FK_ERROR_DRIVER_MISSING || s == FK_ERROR_NO_DEVICE) {
        printf("SKIP: no GPU: %s\n0 passed, 0 failed, 1 skipped\n", fk_last_error());
        return 0;
    }
    MUST(s);
    fk_device_info info;
    MUST(fk_device_describe(dev, &info));
    where = info.dl;
    driver_symbols();
    capture(argv[1]);
    dropout_replay(argv[3]);
    streams(argv[1]);
    huge_strides(argv[1]);
    threads(argv[1]);
    cycles("load, launch, unload from machine code", argv[1], 10000);
    cycles("load, launch, unload by JIT", argv[2], 100);
    fk_device_close(dev);
    printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}
