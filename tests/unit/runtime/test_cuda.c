// The driver device over a fake libcuda.so.1: contexts, statuses, texts, captures.
#include "case.h"

#include <dlfcn.h>
#include <pthread.h>

#include "fake_cuda.h"

static FakeCuda *cu;
static CUcontext *(*current)(void);
static void *bytes; // the sample module
static size_t n_bytes;

static int find_fake(void **state) {
    (void)state;
    FkmError error;
    void *lib = dlopen("libcuda.so.1", RTLD_NOW);
    if (!lib) return -1;
    cu = dlsym(lib, "fake_cuda");
    *(void **)&current = dlsym(lib, "fake_cuda_current");
    bytes = fkm_encode(&sample, &n_bytes, &error);
    return cu && current && bytes ? 0 : -1; // no fake: LD_LIBRARY_PATH is not the test's
}

static int reset(void **state) {
    (void)state;
    *cu = (FakeCuda){.devices = 2, .driver = 12040};
    *current() = NULL;
    return 0;
}

// Every push has had its pop, and the primary contexts are given back.
static int balanced(void **state) {
    (void)state;
    return cu->pushed != cu->popped || cu->retained[0] || cu->retained[1] ||
           cu->loaded != cu->unloaded;
}

static fk_device *open_device(const char *name) {
    fk_device *d = NULL;
    if (fk_device_open(name, &d)) fail_msg("%s", fk_last_error());
    return d;
}

static void describes_the_device(void **state) {
    (void)state;
    fk_device *d = open_device("cuda:1");
    fk_device_info info;
    assert_int_equal(fk_device_describe(d, &info), FK_OK);
    assert_string_equal(info.name, "Fake 1");
    assert_true(info.dl.device_type == kDLCUDA && info.dl.device_id == 1);
    assert_true(info.arch == 90 && info.sm_count == 132 && info.driver_version == 12040 &&
                info.ptx_version == 84);
    assert_int_equal(cu->retained[1], 1);
    fk_device_close(d);
}

static void knows_what_ptx_a_driver_takes(void **state) {
    (void)state;
    const int known[][2] = {{11000, 70}, {11080, 78}, {12000, 80}, {12060, 85}, {12080, 87},
                            {12090, 88}, {13000, 90}, {13010, 91}, {14000, 100}};
    for (size_t i = 0; i < N_OF(known); i++) {
        cu->driver = known[i][0];
        fk_device *d = open_device("cuda");
        fk_device_info info;
        fk_device_describe(d, &info);
        assert_int_equal(info.ptx_version, known[i][1]);
        fk_device_close(d);
    }
}

static void uses_the_current_context(void **state) {
    (void)state;
    void *p;
    *current() = CONTEXT(0x201); // the program's own, on device 1
    fk_device *d = open_device("cuda");
    assert_int_equal(fk_alloc(d, 8, &p), FK_OK);
    assert_ptr_equal(cu->context_at_use, CONTEXT(0x201));
    assert_int_equal(cu->pushed, 0);
    assert_int_equal(cu->retained[1], 0);
    fk_device_close(d);

    d = open_device("cuda:0"); // another device than the current context's
    assert_int_equal(fk_alloc(d, 8, &p), FK_OK);
    assert_ptr_equal(cu->context_at_use, CONTEXT(0x100));
    assert_ptr_equal(*current(), CONTEXT(0x201));
    fk_device_close(d);

    cu->active[0] = 1;
    *current() = CONTEXT(0x100); // the primary one: kept alive by us as well
    d = open_device("cuda");
    assert_int_equal(cu->retained[0], 1);
    assert_int_equal(fk_alloc(d, 8, &p), FK_OK);
    fk_device_close(d);
    assert_int_equal(cu->retained[0], 0);

    cu->active[1] = 1; // the program's own, beside a primary one that is not ours to use
    *current() = CONTEXT(0x201);
    d = open_device("cuda:1");
    assert_int_equal(cu->retained[1], 0);
    fk_device_close(d);
}

static fk_status launch_on(fk_fn *fn, void *stream) {
    static _Alignas(256) char memory[32768], workspace[1024];
    int64_t shape[3][2] = {{4, 64}, {8, 64}, {4, 8}};
    float scalar = 1;
    DLTensor x = dense(memory, kDLBfloat, 16, shape[0]),
             w = dense(memory + 8192, kDLBfloat, 16, shape[1]);
    DLTensor y = dense(memory + 16384, kDLBfloat, 16, shape[2]);
    DLTensor s = {.data = &scalar, .device = {kDLCPU, 0}, .dtype = {kDLFloat, 32, 1}};
    DLTensor *args[] = {&x, &w, &s, &y};
    return fk_launch(fn, args, 4, workspace, sizeof workspace, stream);
}

static void *launch_in_thread(void *fn) {
    fk_status s = launch_on(fn, (void *)0x33);
    return s || *current() ? fn : NULL;
}

// CASES A78: a thread that never saw CUDA launches, and is left as it was.
static void launches_from_a_fresh_thread(void **state) {
    (void)state;
    pthread_t thread;
    void *bad;
    fk_module *m;
    fk_device *d = open_device("cuda");
    assert_int_equal(fk_module_load(d, bytes, n_bytes, &m), FK_OK);
    pthread_create(&thread, NULL, launch_in_thread, fk_module_fn_at(m, 0));
    pthread_join(thread, &bad);
    assert_null(bad);
    assert_int_equal(cu->launched, 2);
    assert_int_equal(cu->early, 1); // the second
    assert_ptr_equal(cu->stream, 0x33);
    assert_int_equal(cu->max_dynamic, 232448 - 448);
    assert_int_equal(cu->mode_at_load, 2); // relaxed: a capture elsewhere survives
    fk_module_unload(m);
    assert_true(cu->synced > 0); // before the code goes
    fk_device_close(d);
}

static void asks_for_tensor_maps(void **state) {
    (void)state;
    fk_module *m;
    fk_device *d = open_device("cuda");
    assert_int_equal(fk_module_load(d, bytes, n_bytes, &m), FK_OK);
    assert_int_equal(launch_on(fk_module_fn_at(m, 0), NULL), FK_OK);
    // the last one asked for is that of the temporary, f32[4, 8] behind the head
    assert_int_equal(cu->map_type, 7);
    assert_int_equal(cu->map_rank, 2);
    assert_int_equal(cu->map_address % 256, 0);
    assert_true(cu->map_extent[0] == 8 && cu->map_extent[1] == 4);
    assert_int_equal(cu->map_stride[1], 32);
    assert_true(cu->map_box[0] == 4 && cu->map_box[1] == 256);
    assert_true(cu->map_steps[0] == 1 && cu->map_steps[1] == 1);
    assert_int_equal(cu->map_interleave, 0);
    assert_int_equal(cu->map_swizzle, 0);
    assert_int_equal(cu->map_promotion, 2);
    assert_int_equal(cu->map_fill, 0);
    assert_true(cu->map_aligned);
    fk_module_unload(m);

    cu->map_rank = 0;
    assert_int_equal(fk_module_load(d, bytes, n_bytes, &m), FK_OK);
    cu->fail_map = 1;
    FAILS_WITH(launch_on(fk_module_fn_at(m, 0), NULL), FK_ERROR_DRIVER,
               "fn 'linear', kernel 'linear_fast', the tensor map of argument 1 'w': "
               "cuTensorMapEncodeTiled: CUDA_ERROR_1, the driver's text (1)");
    assert_true(cu->map_type == 9 && cu->map_swizzle == 3 && cu->map_box[0] == 64);
    fk_module_unload(m);
    fk_device_close(d);
}

// Element types and swizzles as CUDA numbers them, by the device's own table.
static void numbers_types_and_swizzles(void **state) {
    (void)state;
    static const struct {
        DLDataType type;
        int number;
    } known[] = {{{kDLFloat, 16, 1}, 6},  {{kDLBfloat, 16, 1}, 9}, {{kDLFloat, 32, 1}, 7},
                 {{FK_DL_E4M3, 8, 1}, 0}, {{FK_DL_E5M2, 8, 1}, 0}, {{kDLInt, 8, 1}, 0},
                 {{kDLUInt, 8, 1}, 0},    {{FK_DL_BOOL, 8, 1}, 0}, {{kDLInt, 32, 1}, 3},
                 {{kDLInt, 64, 1}, 5}};
    const FkDeviceOps *ops;
    void *self;
    FkError error;
    _Alignas(64) char out[128];
    assert_int_equal(fk_cuda_open(-1, &ops, &self, &error), FK_OK);
    FkTmap map = {.address = 4096,
                  .extent = {64, 2, 3},
                  .stride = {2, 128, 512},
                  .box = {8, 2, 1},
                  .rank = 3};
    for (size_t i = 0; i < N_OF(known); i++) {
        map.dtype = known[i].type;
        assert_int_equal(ops->tensor_map(self, &map, out, &error), FK_OK);
        assert_int_equal(cu->map_type, known[i].number);
    }
    for (uint32_t i = 0; i < 4; i++) {
        map.swizzle = i ? 16u << i : 0;
        assert_int_equal(ops->tensor_map(self, &map, out, &error), FK_OK);
        assert_int_equal(cu->map_swizzle, i);
    }
    assert_true(cu->map_stride[1] == 128 && cu->map_stride[2] == 512 && cu->map_address == 4096);
    map.dtype = (DLDataType){kDLUInt, 4, 1};
    assert_int_equal(ops->tensor_map(self, &map, out, &error), FK_ERROR_UNSUPPORTED);
    assert_string_equal(error.text, "no tensor map of DLPack code 1 with 4 bits");
    ops->close(self);
}

static void refuses_missing_devices(void **state) {
    (void)state;
    fk_device *d;
    FAILS_WITH(fk_device_open("cuda:5", &d), FK_ERROR_NO_DEVICE,
               "there is no device cuda:5: the machine has 2");
    cu->devices = 0;
    FAILS_WITH(fk_device_open("cuda", &d), FK_ERROR_NO_DEVICE,
               "there is no device cuda:0: the machine has 0");
    cu->fail_init = 100;
    FAILS_WITH(fk_device_open("cuda", &d), FK_ERROR_NO_DEVICE,
               "cuInit: CUDA_ERROR_100, the driver's text (100)");
    cu->fail_init = 34;
    FAILS_WITH(fk_device_open("cuda", &d), FK_ERROR_DRIVER_MISSING,
               "cuInit: CUDA_ERROR_34, the driver's text (34)");
    cu->fail_init = 999;
    FAILS_WITH(fk_device_open("cuda", &d), FK_ERROR_DRIVER,
               "cuInit: CUDA_ERROR_999, the driver's text (999)");
}

static void says_why_an_image_is_refused(void **state) {
    (void)state;
    fk_module *m;
    fk_device *d = open_device("cuda");
    assert_int_equal(fk_module_load(d, bytes, n_bytes, &m), FK_OK);
    cu->fail_load = 218;
    cu->jit_log = "ptxas: line 7; error";
    FAILS_WITH(launch_on(fk_module_fn_at(m, 0), NULL), FK_ERROR_PTX,
               "kernel 'linear_fast': cuModuleLoadDataEx: CUDA_ERROR_218, the driver's text "
               "(218)\nptxas: line 7; error");
    cu->jit_log = NULL;
    cu->fail_load = 209;
    FAILS_WITH(launch_on(fk_module_fn_at(m, 0), NULL), FK_ERROR_ARCH,
               "kernel 'linear_fast': cuModuleLoadDataEx: CUDA_ERROR_209, the driver's text (209)");
    cu->fail_load = 2;
    FAILS_WITH(launch_on(fk_module_fn_at(m, 0), NULL), FK_ERROR_MEMORY,
               "kernel 'linear_fast': cuModuleLoadDataEx: CUDA_ERROR_2, the driver's text (2)");
    cu->fail_load = 222; // CASES A73
    FAILS_WITH(launch_on(fk_module_fn_at(m, 0), NULL), FK_ERROR_DRIVER_TOO_OLD,
               "kernel 'linear_fast': cuModuleLoadDataEx: CUDA_ERROR_222, the driver's text (222): "
               "the PTX is ISA 8.0, "
               "but the driver, for CUDA 12.4, takes at most 8.4; update the driver, or compile "
               "with --ptx-version=8.4 "
               "or to a cubin (--arch, with ptxas)");
    cu->fail_load = 0;
    fk_module_unload(m);
    fk_device_close(d);
}

static void graphs_pass_through(void **state) {
    (void)state;
    void *graph = NULL, *stream = (void *)0x77;
    fk_device *d = open_device("cuda");
    assert_int_equal(fk_graph_begin(d, stream), FK_OK);
    assert_int_equal(cu->mode_at_capture, 1); // other threads go on
    assert_int_equal(fk_graph_end(d, stream, &graph), FK_OK);
    assert_int_equal(cu->captures, 1);
    assert_int_equal(cu->graphs, 1);
    assert_int_equal(fk_graph_launch(d, graph, stream), FK_OK);
    assert_int_equal(fk_graph_launch(d, graph, stream), FK_OK);
    assert_int_equal(cu->graph_launched, 2);
    fk_graph_free(d, graph);
    assert_int_equal(cu->graphs, 0);
    assert_int_equal(fk_graph_begin(d, stream), FK_OK);
    FAILS_WITH(fk_graph_end(d, (void *)0x78, &graph), FK_ERROR_CAPTURE,
               "cuStreamEndCapture: CUDA_ERROR_901, the driver's text (901)");
    FAILS_WITH(fk_graph_begin(d, NULL), FK_ERROR_ARGUMENT, "fk_graph_begin: a null argument");
    fk_device_close(d);
}

static void a_launch_that_fails(void **state) {
    (void)state;
    fk_module *m;
    fk_device *d = open_device("cuda");
    assert_int_equal(fk_module_load(d, bytes, n_bytes, &m), FK_OK);
    cu->fail_launch = 1;
    FAILS_WITH(launch_on(fk_module_fn_at(m, 0), NULL), FK_ERROR_LAUNCH,
               "fn 'linear', kernel 'linear_fast', grid 4 x 1 x 1: cuLaunchKernel: CUDA_ERROR_1, "
               "the driver's text (1)");
    cu->fail_launch = 2;
    assert_int_equal(launch_on(fk_module_fn_at(m, 0), NULL), FK_ERROR_MEMORY);
    cu->fail_launch = 901;
    assert_int_equal(launch_on(fk_module_fn_at(m, 0), NULL), FK_ERROR_CAPTURE);
    fk_module_unload(m);
    fk_device_close(d);
}

static void loads_nothing_while_capturing(void **state) {
    (void)state;
    fk_module *m;
    fk_device *d = open_device("cuda");
    assert_int_equal(fk_module_load(d, bytes, n_bytes, &m), FK_OK);
    assert_int_equal(launch_on(fk_module_fn_at(m, 0), (void *)0xca), FK_ERROR_CAPTURE);
    cu->fail_capturing = 906; // the default stream, while another captures
    assert_int_equal(launch_on(fk_module_fn_at(m, 0), NULL), FK_ERROR_CAPTURE);
    cu->fail_capturing = 400;
    assert_int_equal(launch_on(fk_module_fn_at(m, 0), NULL), FK_ERROR_DRIVER);
    assert_int_equal(cu->loaded, 0);
    fk_module_unload(m);
    fk_device_close(d);
}

static void passes_the_rest_through(void **state) {
    (void)state;
    char a[4] = "abc", b[4] = "", c[4] = "";
    void *p, *stream, *e;
    float ms;
    fk_device *d = open_device("cuda");
    assert_int_equal(fk_copy(d, b, a, 4, FK_TO_DEVICE), FK_OK);
    assert_int_equal(cu->stream_synced, 1);
    assert_int_equal(fk_copy(d, c, b, 4, FK_ON_DEVICE), FK_OK);
    assert_int_equal(fk_copy(d, a, c, 4, FK_FROM_DEVICE), FK_OK);
    assert_string_equal(c, "abc");
    assert_int_equal(fk_stream_create(d, &stream), FK_OK);
    assert_ptr_equal(stream, 0x501); // CU_STREAM_NON_BLOCKING
    assert_int_equal(fk_event_create(d, &e), FK_OK);
    assert_int_equal(fk_event_elapsed(d, e, e, &ms), FK_OK);
    assert_true(ms > 2 && ms < 3);
    assert_int_equal(fk_stream_sync(d, stream), FK_OK);
    assert_int_equal(fk_event_destroy(d, e) | fk_stream_destroy(d, stream), FK_OK);
    cu->fail_record = 400;
    FAILS_WITH(fk_event_record(d, e, stream), FK_ERROR_DRIVER,
               "cuEventRecord: CUDA_ERROR_400, the driver's text (400)");
    cu->fail_alloc = 2;
    FAILS_WITH(fk_alloc(d, 8, &p), FK_ERROR_MEMORY,
               "cuMemAlloc: CUDA_ERROR_2, the driver's text (2)");
    assert_int_equal(fk_free(d, (void *)0x1000), FK_OK);
    fk_device_close(d);
}

#define ON_FAKE(test) cmocka_unit_test_setup_teardown(test, reset, balanced)

int main(void) {
    const struct CMUnitTest tests[] = {
        ON_FAKE(describes_the_device),          ON_FAKE(knows_what_ptx_a_driver_takes),
        ON_FAKE(uses_the_current_context),      ON_FAKE(launches_from_a_fresh_thread),
        ON_FAKE(refuses_missing_devices),       ON_FAKE(says_why_an_image_is_refused),
        ON_FAKE(graphs_pass_through),           ON_FAKE(a_launch_that_fails),
        ON_FAKE(loads_nothing_while_capturing), ON_FAKE(passes_the_rest_through),
        ON_FAKE(asks_for_tensor_maps),          ON_FAKE(numbers_types_and_swizzles),
    };
    int failed = cmocka_run_group_tests(tests, find_fake, NULL);
    free(bytes);
    return failed;
}
