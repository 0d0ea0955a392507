// Modules: loading from memory and files, finding and describing fns, lifetimes, statuses.
#include "case.h"

#include <stdio.h>
#include <unistd.h>

static void finds_fns(void **state) {
    Case *c = *state;
    fk_fn *fn;
    assert_int_equal(fk_module_fn_count(c->module), 3);
    assert_int_equal(fk_module_fn(c->module, "quads", &fn), FK_OK);
    assert_ptr_equal(fn, fk_module_fn_at(c->module, 2));
    assert_null(fk_module_fn_at(c->module, 3));
    assert_null(fk_module_fn_at(c->module, -1));
    FAILS_WITH(fk_module_fn(c->module, "lineal", &fn), FK_ERROR_NO_FN,
               "the module has no fn 'lineal'; it has: linear, sizes, quads");
    FAILS_WITH(fk_module_fn(c->module, "linear_bwd", &fn), FK_ERROR_NOT_BUILT,
               "fn 'linear_bwd' was left out when the module was compiled: grad is not built yet");
    FAILS_WITH(fk_module_fn(c->module, NULL, &fn), FK_ERROR_ARGUMENT,
               "fk_module_fn: a null argument");
}

static void describes_fns(void **state) {
    Case *c = *state;
    fk_fn_info f;
    fk_param_info p;
    int64_t bound;
    fk_fn_describe(c->fn, &f);
    assert_string_equal(f.name, "linear");
    assert_string_equal(f.graph, "graph linear");
    assert_true(f.n_params == 4 && f.n_inputs == 3 && f.n_sizes == 3 && f.n_steps == 1);
    assert_int_equal(fk_fn_param(c->fn, 1, &p), FK_OK);
    assert_string_equal(p.name, "w");
    assert_string_equal(p.dtype, "bf16");
    assert_true(p.dl.code == kDLBfloat && p.dl.bits == 16 && p.dl.lanes == 1 && p.rank == 2 &&
                !p.is_output);
    assert_int_equal(fk_fn_param(c->fn, 3, &p), FK_OK);
    assert_true(p.is_output);
    FAILS_WITH(fk_fn_param(c->fn, 4, &p), FK_ERROR_ARGUMENT,
               "fk_fn_param: a null argument, or no parameter 4");
    assert_string_equal(fk_fn_dim(fk_module_fn_at(c->module, 1), 0, 0), "2*D");
    assert_null(fk_fn_dim(c->fn, 0, 2));
    assert_string_equal(fk_fn_size(c->fn, 2, &bound), "K");
    assert_int_equal(bound, -1);
    assert_null(fk_fn_size(c->fn, 3, &bound));
}

static void computes_shapes(void **state) {
    Case *c = *state;
    fk_fn *fn = fk_module_fn_at(c->module, 1);
    int64_t sizes[3] = {5, 48, 2}, shape[1];
    const int64_t want[4] = {10, 3, 50, 5};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(fk_fn_shape(fn, sizes, i, shape), FK_OK);
        assert_int_equal(shape[0], want[i]);
    }
    sizes[2] = -60;
    FAILS_WITH(fk_fn_shape(fn, sizes, 2, shape), FK_ERROR_SHAPE,
               "fn 'sizes': dimension 0 of 'c' (S + T) would be -12");
    sizes[0] = INT64_MAX;
    FAILS_WITH(fk_fn_shape(fn, sizes, 0, shape), FK_ERROR_OVERFLOW,
               "fn 'sizes': dimension 0 of 'a' (2*D) leaves 64 bits or divides by a number that is "
               "not positive");
}

static void refuses_bad_modules(void **state) {
    Case *c = *state;
    fk_module *m;
    FAILS_WITH(fk_module_load(c->device, "hello", 5, &m), FK_ERROR_BAD_MODULE,
               "the buffer is not a module that libfk 0.1.0 can read: the file is truncated");
    FAILS_WITH(fk_module_load(c->device, NULL, 0, &m), FK_ERROR_BAD_MODULE,
               "the buffer is not a module that libfk 0.1.0 can read: the file is truncated");
    FAILS_WITH(fk_module_load(c->device, NULL, 5, &m), FK_ERROR_ARGUMENT,
               "fk_module_load: a null argument");
    FAILS_WITH(fk_module_load_file(c->device, "/no/such.fkm", &m), FK_ERROR_IO,
               "/no/such.fkm: No such file or directory");
    FAILS_WITH(fk_module_load_file(c->device, "/", &m), FK_ERROR_IO, "/: Is a directory");
    FAILS_WITH(fk_module_load_file(c->device, "/dev/null", &m), FK_ERROR_BAD_MODULE,
               "/dev/null is not a module that libfk 0.1.0 can read: the file is truncated");
}

static void loads_files(void **state) {
    Case *c = *state;
    char path[] = "/tmp/fkmXXXXXX";
    size_t n;
    FkmError error;
    fk_module *m;
    void *bytes = fkm_encode(&sample, &n, &error);
    int fd = mkstemp(path);
    assert_int_equal(write(fd, bytes, n), n);
    close(fd);
    assert_int_equal(fk_module_load_file(c->device, path, &m), FK_OK);
    assert_int_equal(fk_module_fn_count(m), 3);
    fk_module_unload(m);
    unlink(path);
    free(bytes);
}

static void a_module_keeps_its_device(void **state) {
    Case *c = *state;
    fk_device_close(c->device);
    assert_int_equal(c->fake.closed, 0);
    assert_int_equal(launch(c), FK_OK);
    fk_module_unload(c->module);
    assert_int_equal(c->fake.closed, 1);
    fk_module_unload(NULL);
    fk_device_close(NULL);
    c->module = NULL, c->device = NULL;
}

static void helps_host_programs(void **state) {
    Case *c = *state;
    fk_device_info info;
    void *p, *stream, *start;
    float ms;
    char out[4];
    assert_int_equal(fk_device_describe(c->device, &info), FK_OK);
    assert_true(info.arch == 90 && info.dl.device_type == kDLCUDA && info.bytes_free == 1000);
    assert_int_equal(fk_alloc(c->device, 4, &p), FK_OK);
    assert_int_equal(fk_copy(c->device, p, "abc", 4, FK_TO_DEVICE), FK_OK);
    assert_int_equal(fk_copy(c->device, out, p, 4, FK_FROM_DEVICE), FK_OK);
    assert_string_equal(out, "abc");
    FAILS_WITH(fk_copy(c->device, out, p, 4, (fk_copy_kind)7), FK_ERROR_ARGUMENT,
               "fk_copy: kind is 7, which is no fk_copy_kind");
    FAILS_WITH(fk_copy(c->device, NULL, p, 4, FK_FROM_DEVICE), FK_ERROR_ARGUMENT,
               "fk_copy: a null argument");
    FAILS_WITH(fk_alloc(c->device, SIZE_MAX, &p + 0), FK_ERROR_MEMORY,
               "fake: 18446744073709551615 bytes are too many");
    assert_int_equal(fk_free(c->device, p), FK_OK);
    assert_int_equal(fk_free(c->device, NULL), FK_OK);
    assert_int_equal(fk_stream_create(c->device, &stream), FK_OK);
    assert_int_equal(fk_event_create(c->device, &start), FK_OK);
    assert_int_equal(fk_event_record(c->device, start, stream), FK_OK);
    assert_int_equal(fk_event_elapsed(c->device, start, start, &ms), FK_OK);
    assert_true(ms > 1 && ms < 2);
    assert_int_equal(fk_stream_sync(c->device, stream), FK_OK);
    assert_int_equal(fk_event_destroy(c->device, start), FK_OK);
    assert_int_equal(fk_stream_destroy(c->device, stream), FK_OK);
}

static void names_statuses(void **state) {
    (void)state;
    assert_string_equal(fk_status_name(FK_OK), "FK_OK");
    assert_string_equal(fk_status_name(FK_ERROR_DRIVER_TOO_OLD), "FK_ERROR_DRIVER_TOO_OLD");
    assert_string_equal(fk_status_name((fk_status)999), "an unknown status");
    assert_int_equal(fk_version(), FK_VERSION);
}

static void opens_no_strange_devices(void **state) {
    (void)state;
    fk_device *d;
    FAILS_WITH(fk_device_open("tpu", &d), FK_ERROR_ARGUMENT,
               "fk_device_open: unknown device 'tpu'; there are \"cuda\", \"cuda:N\" and \"emu\"");
    FAILS_WITH(
        fk_device_open("cuda:x", &d), FK_ERROR_ARGUMENT,
        "fk_device_open: unknown device 'cuda:x'; there are \"cuda\", \"cuda:N\" and \"emu\"");
    FAILS_WITH(fk_device_open(NULL, &d), FK_ERROR_ARGUMENT,
               "fk_device_open: name or device is null");
    setenv("FK_EMU", "/no/such/libfkemu.so", 1);
    FAILS_WITH(fk_device_open("emu", &d), FK_ERROR_DRIVER_MISSING,
               "the emulated device needs libfkemu.so, beside the program or libfk.so, or where "
               "FK_EMU points: "
               "/no/such/libfkemu.so: cannot open shared object file: No such file or directory");
}

// The library that ctest names: the fake device behind the emulator's entry.
static void opens_the_emulator(void **state) {
    fk_device *d = NULL;
    fk_device_info info;
    (void)state;
    assert_non_null(getenv("FK_FAKE_EMU"));
    setenv("FK_EMU", getenv("FK_FAKE_EMU"), 1);
    if (fk_device_open("emu", &d)) fail_msg("%s", fk_last_error());
    assert_int_equal(fk_device_describe(d, &info), FK_OK);
    assert_string_equal(info.name, "Fake");
    fk_device_close(d);
    setenv("FAKE_EMU", "old", 1);
    FAILS_WITH(fk_device_open("emu", &d), FK_ERROR_DRIVER_TOO_OLD,
               "libfkemu.so is of another build than libfk: its table is version 4, needed 5");
    setenv("FAKE_EMU", "fail", 1);
    FAILS_WITH(fk_device_open("emu", &d), FK_ERROR_UNSUPPORTED,
               "fake: the emulator does not start");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(finds_fns),
        CASE(describes_fns),
        CASE(computes_shapes),
        CASE(refuses_bad_modules),
        CASE(loads_files),
        CASE(a_module_keeps_its_device),
        CASE(helps_host_programs),
        cmocka_unit_test(names_statuses),
        cmocka_unit_test(opens_no_strange_devices),
        cmocka_unit_test(opens_the_emulator),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
