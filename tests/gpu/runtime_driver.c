// libfk on a real driver, with a hand-written kernel: values, threads, capture, streams, refusals,
// and memory that stays flat over 10 000 loads. Skipped (77) where there is no GPU.
//
//   scale(x: f32[N], s: f32) -> (y: f32[N])    y = s * x
//   tall, future, lying: the same with a grid y of N; with PTX of ISA 9.9; with such PTX that the
//   module says is 7.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/fk.h"
#include "runtime/fkm.h"

#define ENTRY                                                                                      \
    ".target sm_80\n.address_size 64\n"                                                            \
    ".visible .entry scale(.param .u64 x, .param .u64 y, .param .u64 sp, .param .u64 sv,\n"        \
    "                      .param .u64 n)\n"                                                       \
    "{\n"                                                                                          \
    "    .reg .pred %p<3>; .reg .f32 %f<4>; .reg .b32 %r<4>; .reg .b64 %d<11>;\n"                  \
    "    ld.param.u64 %d1, [x]; ld.param.u64 %d2, [y]; ld.param.u64 %d3, [sp];\n"                  \
    "    ld.param.u64 %d4, [sv]; ld.param.u64 %d5, [n];\n"                                         \
    "    mov.u32 %r1, %ctaid.x; mov.u32 %r2, %tid.x;\n"                                            \
    "    mul.wide.u32 %d6, %r1, 128; cvt.u64.u32 %d7, %r2; add.u64 %d6, %d6, %d7;\n"               \
    "    setp.ge.s64 %p1, %d6, %d5;\n"                                                             \
    "    @%p1 bra done;\n"                                                                         \
    "    cvt.u32.u64 %r3, %d4; mov.b32 %f1, %r3;\n"                                                \
    "    setp.eq.u64 %p2, %d3, 0;\n"                                                               \
    "    @%p2 bra have;\n"                                                                         \
    "    ld.global.f32 %f1, [%d3];\n"                                                              \
    "have:\n"                                                                                      \
    "    shl.b64 %d8, %d6, 2; add.u64 %d9, %d1, %d8; ld.global.f32 %f2, [%d9];\n"                  \
    "    mul.f32 %f3, %f1, %f2; add.u64 %d10, %d2, %d8; st.global.f32 [%d10], %f3;\n"              \
    "done:\n"                                                                                      \
    "    ret;\n"                                                                                   \
    "}\n"

static FkmInsn size_n[] = {{FKM_OP_SIZE, 0, 0, 0}}, extent_n[] = {{FKM_OP_EXTENT, 0, 0, 0}};
static FkmInsn one[] = {{FKM_OP_CONST, 0, 0, 1}};
static FkmInsn blocks[] = {{FKM_OP_SIZE, 0, 0, 0},
                           {FKM_OP_CONST, 0, 0, 127},
                           {FKM_OP_ADD, 0, 0, 0},
                           {FKM_OP_CONST, 0, 0, 128},
                           {FKM_OP_DIV, 0, 0, 0}};
static FkmDim dim_n[] = {{"N", {size_n, 1}}};
static FkmTensor tensors[] = {{"x", FKM_F32, false, dim_n, 1, 0},
                              {"s", FKM_F32, false, NULL, 0, 0},
                              {"y", FKM_F32, true, dim_n, 1, 0}};
static FkmSize sizes[] = {{"N", -1}};
static FkmSolve solves[] = {{0, 0, 0, {extent_n, 1}, {NULL, 0}}};
static FkmParam params[] = {{FKM_PARAM_TENSOR, 0, {NULL, 0}, {0}},
                            {FKM_PARAM_TENSOR, 2, {NULL, 0}, {0}},
                            {FKM_PARAM_SCALAR, 1, {NULL, 0}, {0}},
                            {FKM_PARAM_VALUE, 0, {size_n, 1}, {0}}};

static FkmLaunch launches[4];
static FkmVariant variants[4];
static FkmStep steps[4];
static FkmFn fns[4];
static FkmImage cubin;
static FkmKernel kernels[] = {{"scale", ".version 7.0\n" ENTRY, 7, 0, "sm_80", false, NULL, 0},
                              {"scale", ".version 9.9\n" ENTRY, 9, 9, "sm_80", false, NULL, 0},
                              {"scale", ".version 9.9\n" ENTRY, 7, 0, "sm_80", false, NULL, 0}};
static FkmModule tree = {
    .producer = "test", .fns = fns, .n_fns = 4, .kernels = kernels, .n_kernels = 3};

static void *bytes; // the module
static size_t n_bytes;

static bool encode(void) {
    static char *const names[] = {"scale", "tall", "future", "lying"};
    FkmError error;
    for (int i = 0; i < 4; i++) {
        launches[i] = (FkmLaunch){.kernel = i < 2 ? 0 : (uint32_t)i - 1,
                                  .block = {128, 1, 1},
                                  .grid = {{blocks, 5}, {i == 1 ? size_n : one, 1}, {one, 1}},
                                  .params = params,
                                  .n_params = 4};
        variants[i] = (FkmVariant){
            .name = "general", .arch = "sm_80", .launches = &launches[i], .n_launches = 1};
        steps[i] = (FkmStep){names[i], &variants[i], 1};
        fns[i] = (FkmFn){.name = names[i],
                         .tensors = tensors,
                         .n_tensors = 3,
                         .sizes = sizes,
                         .n_sizes = 1,
                         .solves = solves,
                         .n_solves = 1,
                         .steps = &steps[i],
                         .n_steps = 1};
    }
    free(bytes);
    bytes = fkm_encode(&tree, &n_bytes, &error);
    return bytes != NULL;
}

#define OK(call)                                                                                   \
    do {                                                                                           \
        fk_status got_ = call;                                                                     \
        if (got_) fail_msg("%s: %s: %s", #call, fk_status_name(got_), fk_last_error());            \
    } while (0)

enum { N = 1000 };
static fk_device *device;
static fk_device_info info;
static float host[N];
static void *x, *y;

// One launch of a fn; s on the CPU.
static fk_status launch(fk_module *m, const char *name, int64_t n, float s, void *out, void *stream,
                        bool prepare) {
    DLTensor a = {x, info.dl, 1, {kDLFloat, 32, 1}, &n, NULL, 0}, b = a;
    DLTensor c = {&s, {kDLCPU, 0}, 0, {kDLFloat, 32, 1}, NULL, NULL, 0};
    DLTensor *args[] = {&a, &c, &b};
    fk_fn *fn = NULL;
    b.data = out;
    fk_status status = fk_module_fn(m, name, &fn);
    if (!status && prepare) return fk_fn_prepare(fn, args, 3);
    return status ? status : fk_launch(fn, args, 3, NULL, 0, stream);
}

static void check(void *out, float s, int n) {
    float got[N];
    OK(fk_copy(device, got, out, sizeof got, FK_FROM_DEVICE));
    for (int i = 0; i < N; i++) {
        float want = i < n ? s * host[i] : -1;
        if (got[i] != want) fail_msg("element %d is %g, should be %g", i, got[i], want);
    }
}

static void clear(void *out) {
    float minus[N];
    for (int i = 0; i < N; i++) minus[i] = -1;
    OK(fk_copy(device, out, minus, sizeof minus, FK_TO_DEVICE));
}

static fk_module *load(void) {
    fk_module *m = NULL;
    OK(fk_module_load(device, bytes, n_bytes, &m));
    return m;
}

static void gives_the_right_values(void **state) {
    (void)state;
    fk_module *m = load();
    clear(y);
    OK(launch(m, "scale", 777, 3, y, NULL, false));
    OK(fk_stream_sync(device, NULL));
    check(y, 3, 777);
    OK(launch(m, "scale", 0, 3, y, NULL, false));
    OK(fk_stream_sync(device, NULL));
    check(y, 3, 777);
    fk_module_unload(m);
}

static void reads_a_scalar_on_the_device(void **state) {
    (void)state;
    int64_t n = N;
    fk_module *m = load();
    fk_fn *fn;
    DLTensor a = {x, info.dl, 1, {kDLFloat, 32, 1}, &n, NULL, 0}, b = a, c = a;
    DLTensor *args[] = {&a, &c, &b};
    b.data = y;
    c.ndim = 0, c.byte_offset = 4 * 5; // x[5]
    OK(fk_module_fn(m, "scale", &fn));
    OK(fk_launch(fn, args, 3, NULL, 0, NULL));
    OK(fk_stream_sync(device, NULL));
    check(y, host[5], N);
    fk_module_unload(m);
}

typedef struct {
    fk_module *m;
    void *out;
    int bad;
} Worker;

static void *work(void *arg) { // in a thread that never saw CUDA
    Worker *w = arg;
    for (int i = 0; i < 100; i++)
        w->bad += launch(w->m, "scale", N, 7, w->out, NULL, false) != FK_OK;
    return NULL;
}

static void eight_threads_launch(void **state) {
    (void)state;
    pthread_t thread[8];
    Worker w[8];
    fk_module *m = load();
    for (int i = 0; i < 8; i++) {
        w[i] = (Worker){m, NULL, 0};
        OK(fk_alloc(device, sizeof host, &w[i].out));
        pthread_create(&thread[i], NULL, work, &w[i]);
    }
    for (int i = 0; i < 8; i++) pthread_join(thread[i], NULL);
    OK(fk_stream_sync(device, NULL));
    for (int i = 0; i < 8; i++) {
        assert_int_equal(w[i].bad, 0);
        check(w[i].out, 7, N);
        OK(fk_free(device, w[i].out));
    }
    fk_module_unload(m);
}

static void two_streams_are_ordered_by_sync(void **state) {
    (void)state;
    void *s[2];
    float ms;
    void *event[2];
    fk_module *m = load();
    for (int i = 0; i < 2; i++) {
        OK(fk_stream_create(device, &s[i]));
        OK(fk_event_create(device, &event[i]));
    }
    OK(fk_event_record(device, event[0], s[0]));
    OK(launch(m, "scale", N, 2, y, s[0], false));
    OK(fk_event_record(device, event[1], s[0]));
    OK(fk_event_elapsed(device, event[0], event[1], &ms));
    assert_true(ms > 0);
    OK(launch(m, "scale", N, 4, y, s[1], false));
    OK(fk_stream_sync(device, s[1]));
    check(y, 4, N);
    for (int i = 0; i < 2; i++) {
        OK(fk_stream_destroy(device, s[i]));
        OK(fk_event_destroy(device, event[i]));
    }
    fk_module_unload(m);
}

// ---- capture, through the driver's own calls ----

static int (*begin_capture)(void *, int), (*end_capture)(void *, void **);
static int (*instantiate)(void **, void *, unsigned long long), (*graph_launch)(void *, void *);
static int (*exec_destroy)(void *), (*graph_destroy)(void *);

static void find_capture(void) {
    void *lib = dlopen("libcuda.so.1", RTLD_NOW);
    *(void **)&begin_capture = dlsym(lib, "cuStreamBeginCapture_v2");
    *(void **)&end_capture = dlsym(lib, "cuStreamEndCapture");
    *(void **)&instantiate = dlsym(lib, "cuGraphInstantiateWithFlags");
    *(void **)&graph_launch = dlsym(lib, "cuGraphLaunch");
    *(void **)&exec_destroy = dlsym(lib, "cuGraphExecDestroy");
    *(void **)&graph_destroy = dlsym(lib, "cuGraphDestroy");
    // libfk leaves no context current behind, and these calls need one
    int (*retain)(void **, int), (*set)(void *);
    void *context;
    *(void **)&retain = dlsym(lib, "cuDevicePrimaryCtxRetain");
    *(void **)&set = dlsym(lib, "cuCtxSetCurrent");
    assert_int_equal(retain(&context, 0), 0);
    assert_int_equal(set(context), 0);
}

// Captures one launch; what it returned. *graph is NULL if the capture was broken.
static fk_status capture(fk_module *m, void *stream, void **graph) {
    *graph = NULL;
    assert_int_equal(begin_capture(stream, 0), 0);
    fk_status s = launch(m, "scale", N, 9, y, stream, false);
    assert_int_equal(end_capture(stream, graph), 0);
    return s;
}

static void captures_and_replays(void **state) {
    (void)state;
    void *stream, *graph, *exec;
    fk_module *m = load();
    find_capture();
    OK(fk_stream_create(device, &stream));
    assert_int_equal(capture(m, stream, &graph), FK_ERROR_CAPTURE); // not prepared; not broken
    graph_destroy(graph);
    OK(launch(m, "scale", N, 9, y, stream, true));
    OK(capture(m, stream, &graph));
    assert_int_equal(instantiate(&exec, graph, 0), 0);
    for (int i = 0; i < 3; i++) {
        clear(y);
        assert_int_equal(graph_launch(exec, stream), 0);
        OK(fk_stream_sync(device, stream));
        check(y, 9, N);
    }
    exec_destroy(exec);
    graph_destroy(graph);
    OK(fk_stream_destroy(device, stream));
    fk_module_unload(m);
}

// ---- refusals ----

static void refuses_a_grid_that_is_too_large(void **state) {
    (void)state;
    fk_module *m = load();
    int64_t n = 70000, zero = 0;
    float s = 1;
    DLTensor a = {x, info.dl, 1, {kDLFloat, 32, 1}, &n, &zero, 0}, b = a;
    DLTensor c = {&s, {kDLCPU, 0}, 0, {kDLFloat, 32, 1}, NULL, NULL, 0};
    DLTensor *args[] = {&a, &c, &b};
    fk_fn *fn;
    OK(fk_alloc(device, 280000, &b.data));
    b.strides = NULL;
    OK(fk_module_fn(m, "tall", &fn));
    assert_int_equal(fk_launch(fn, args, 3, NULL, 0, NULL), FK_ERROR_LAUNCH);
    print_message("%s\n", fk_last_error());
    OK(fk_free(device, b.data));
    fk_module_unload(m);
}

static void refuses_ptx_of_the_future(void **state) {
    (void)state;
    fk_module *m = load();
    assert_int_equal(launch(m, "future", N, 1, y, NULL, false), FK_ERROR_DRIVER_TOO_OLD);
    print_message("%s\n", fk_last_error());
    assert_int_equal(launch(m, "lying", N, 1, y, NULL, false), FK_ERROR_DRIVER_TOO_OLD);
    print_message("%s\n", fk_last_error());
    fk_module_unload(m);
}

// ---- memory ----

static void cycles(int n, size_t *bytes_free) {
    for (int i = 0; i < n; i++) {
        fk_module *m = load();
        OK(launch(m, "scale", N, 5, y, NULL, false));
        fk_module_unload(m);
    }
    OK(fk_device_describe(device, &info));
    *bytes_free = info.bytes_free;
}

// The kernel as a cubin by ptxas, for the cycles that do not want to wait for the JIT.
static bool make_cubin(void) {
    char ptx[] = "/tmp/fkXXXXXX", command[256], out[64];
    int fd = mkstemp(ptx);
    if (fd < 0 || write(fd, kernels[0].ptx, strlen(kernels[0].ptx)) < 0) return false;
    close(fd);
    snprintf(out, sizeof out, "%s.cubin", ptx);
    snprintf(command, sizeof command, "ptxas -arch=sm_%d %s -o %s 2>&1", info.arch, ptx, out);
    FILE *f = system(command) ? NULL : fopen(out, "rb");
    static char code[1 << 16], arch[16];
    snprintf(arch, sizeof arch, "sm_%d", info.arch);
    cubin = (FkmImage){.arch = arch, .bytes = code, .size = f ? fread(code, 1, sizeof code, f) : 0};
    if (f) fclose(f);
    unlink(ptx);
    unlink(out);
    kernels[0].cubins = &cubin;
    kernels[0].n_cubins = cubin.size > 0;
    return cubin.size > 0;
}

static void memory_stays_flat(void **state) {
    (void)state;
    size_t before, after;
    bool by_cubin = kernels[0].n_cubins > 0;
    if (!by_cubin) print_message("skipped: no ptxas, so 100 cycles by JIT only\n");
    cycles(by_cubin ? 1000 : 10, &before);
    cycles(by_cubin ? 9000 : 90, &after);
    print_message("free memory: %zu, then %zu\n", before, after);
    assert_true(after + (2 << 20) >= before);
    OK(fk_stream_sync(device, NULL));
    check(y, 5, N);
}

int main(void) {
    fk_status s = fk_device_open("cuda", &device);
    if (s == FK_ERROR_DRIVER_MISSING || s == FK_ERROR_NO_DEVICE)
        return printf("skipped: %s\n", fk_last_error()), 77;
    if (s || fk_device_describe(device, &info)) return printf("%s\n", fk_last_error()), 1;
    printf("%s, sm_%d, driver %d, PTX %d\n", info.name, info.arch, info.driver_version,
           info.ptx_version);
    for (int i = 0; i < N; i++) host[i] = (float)(i % 97) - 40;
    if (fk_alloc(device, sizeof host, &x) || fk_alloc(device, sizeof host, &y)) return 1;
    if (fk_copy(device, x, host, sizeof host, FK_TO_DEVICE)) return 1;
    const struct CMUnitTest by_jit[] = {
        cmocka_unit_test(gives_the_right_values),
        cmocka_unit_test(reads_a_scalar_on_the_device),
        cmocka_unit_test(eight_threads_launch),
        cmocka_unit_test(two_streams_are_ordered_by_sync),
        cmocka_unit_test(captures_and_replays),
        cmocka_unit_test(refuses_a_grid_that_is_too_large),
        cmocka_unit_test(refuses_ptx_of_the_future),
    };
    const struct CMUnitTest by_cubin[] = {
        cmocka_unit_test(gives_the_right_values),
        cmocka_unit_test(captures_and_replays),
        cmocka_unit_test(memory_stays_flat),
    };
    if (!encode()) return 1;
    int failed = cmocka_run_group_tests(by_jit, NULL, NULL);
    if (!make_cubin()) puts("skipped: no ptxas, so no cubin");
    if (!encode()) return 1;
    failed += cmocka_run_group_tests(by_cubin, NULL, NULL);
    fk_free(device, x);
    fk_free(device, y);
    fk_device_close(device);
    free(bytes);
    return failed;
}
