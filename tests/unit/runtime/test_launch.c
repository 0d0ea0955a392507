// Launching: which variant, which parameters, what fails and how.
#include "case.h"

static void launches_the_cheapest(void **state) {
    Case *c = *state;
    assert_int_equal(launch(c), FK_OK);
    assert_int_equal(c->fake.n_launches, 2);
    assert_string_equal(c->fake.launches[0].name, "linear_fast");
    assert_int_equal(c->fake.launches[0].grid.grid[0], 4);
    assert_int_equal(c->fake.launches[0].grid.shared, 512);
    assert_string_equal(c->fake.launches[1].name, "linear_merge");
    assert_int_equal(c->fake.launches[1].grid.block[1], 2);
    assert_ptr_equal(c->fake.launches[1].stream, STREAM);
    assert_false(c->fake.launches[0].grid.early); // nothing of the fn is before it
    assert_true(c->fake.launches[1].grid.early);
    // scratch lies behind head (256) and the temporary (4*8*4 rounded up to 256), plus its offset
    assert_int_equal(c->fake.launches[0].param[1], (uintptr_t)c->workspace + 512 + 16);
}

static void passes_parameters(void **state) {
    Case *c = *state;
    c->w.data = (char *)c->w.data + 2; // not 16-byte aligned: the general kernel
    assert_int_equal(launch(c), FK_OK);
    FakeLaunch *l = &c->fake.launches[0];
    assert_string_equal(l->name, "general");
    assert_int_equal(l->n, 10);
    float s = 0.5f;
    uint32_t bits;
    memcpy(&bits, &s, 4);
    uint64_t want[] = {(uintptr_t)c->x.data,
                       (uintptr_t)c->w.data,
                       (uintptr_t)c->y.data,
                       0,
                       bits,
                       64,
                       64,
                       (uintptr_t)c->workspace + 256,
                       (uintptr_t)c->workspace,
                       132};
    for (int i = 0; i < 10; i++) assert_int_equal(l->param[i], want[i]);
}

static void reads_a_scalar_on_the_device(void **state) {
    Case *c = *state;
    c->w.data = (char *)c->w.data + 2;
    c->s.device = (DLDevice){kDLCUDA, 0};
    c->s.data = c->memory;
    assert_int_equal(launch(c), FK_OK);
    assert_int_equal(c->fake.launches[0].param[3], (uintptr_t)c->memory);
    assert_int_equal(c->fake.launches[0].param[4], 0);
}

// ---- choosing ----

static void takes_the_general_one_if_a_guard_fails(void **state) {
    Case *c = *state;
    int64_t strides[2] = {68, 1}; // 136 bytes: not a multiple of 16
    c->w.strides = strides;
    assert_int_equal(launch(c), FK_OK);
    assert_string_equal(c->fake.launches[0].name, "general");
    assert_int_equal(c->fake.n_launches, 1);
    assert_int_equal(c->fake.launches[0].grid.grid[0], 1);
    assert_int_equal(c->fake.launches[0].grid.grid[1], 8);
}

// The sample reopened on another chip or driver.
static void reopen(Case *c, int arch, int ptx) {
    size_t n;
    FkmError error = {""};
    void *bytes = fkm_encode(&sample, &n, &error);
    fk_module_unload(c->module);
    fk_device_close(c->device);
    c->fake.closed = 0;
    c->fake.facts.info.arch = arch;
    c->fake.facts.info.ptx_version = ptx;
    c->device = fake_open(&c->fake);
    assert_int_equal(fk_module_load(c->device, bytes, n, &c->module), FK_OK);
    assert_int_equal(fk_module_fn(c->module, "linear", &c->fn), FK_OK);
    free(bytes);
}

static void takes_what_fits_the_chip(void **state) {
    Case *c = *state;
    const int later[] = {80, 86, 89, 100, 120};
    for (size_t i = 0; i < N_OF(later); i++) {
        reopen(c, later[i], 84);
        c->fake.n_launches = 0;
        assert_int_equal(launch(c), FK_OK);
        assert_string_equal(c->fake.launches[0].name, "general");
        // sm_80's cubin does for sm_8x; others compile the PTX
        bool cubin = later[i] / 10 == 8;
        c->fake.fail_cubin = FK_ERROR_LAUNCH;
        reopen(c, later[i], 84);
        assert_int_equal(launch(c), cubin ? FK_ERROR_LAUNCH : FK_OK);
        c->fake.fail_cubin = FK_OK;
    }
}

static void refuses_the_wrong_chip(void **state) {
    Case *c = *state;
    reopen(c, 75, 84);
    FAILS_WITH(launch(c), FK_ERROR_ARCH,
               "fn 'linear', step 'y': the module has code for sm_90a, sm_80, and the device "
               "is sm_75; compile with --arch=sm_75");
}

static void refuses_newer_ptx(void **state) {
    Case *c = *state;
    sample_kernels[1].major = 9, sample_kernels[1].minor = 9;
    reopen(c, 120, 84);
    sample_kernels[1].major = 7, sample_kernels[1].minor = 0;
    FAILS_WITH(launch(c), FK_ERROR_DRIVER_TOO_OLD,
               "fn 'linear', kernel 'general': its PTX is ISA 9.9, but the driver, for CUDA 12.4, "
               "takes at most 8.4; "
               "update the driver, or compile with --ptx-version=8.4 or to a cubin (--arch=sm_120, "
               "with ptxas)");
}

static void falls_back_from_a_cubin_to_ptx(void **state) {
    Case *c = *state;
    c->fake.fail_cubin = FK_ERROR_ARCH;
    assert_int_equal(launch(c), FK_OK);
    c->fake.fail_cubin = FK_OK;
}

// The emulator runs PTX.
static void takes_ptx_where_cubins_do_not_run(void **state) {
    Case *c = *state;
    c->fake.facts.ptx_only = true;
    reopen(c, 90, 84);
    c->fake.fail_cubin = FK_ERROR_DRIVER;
    assert_int_equal(launch(c), FK_OK);
    assert_string_equal(c->fake.launches[0].name, "linear_fast");
    c->fake.fail_cubin = FK_OK;
}

// ---- grids ----

static fk_status launch_sizes(Case *c, int64_t d, int64_t s) {
    int64_t shape[4] = {2 * d, 1, 16 + s, d}, zero = 0;
    DLTensor v[4], *args[4];
    for (int i = 0; i < 4; i++) {
        v[i] = dense(c->memory + i * 262144, kDLFloat, 32, &shape[i]);
        v[i].ndim = 1;
        args[i] = &v[i];
    }
    v[0].strides = v[2].strides = &zero;
    return fk_launch(fk_module_fn_at(c->module, 1), args, 4, NULL, 0, NULL);
}

static void grids_have_limits(void **state) {
    Case *c = *state;
    assert_int_equal(launch_sizes(c, 65535, 65535), FK_OK);
    assert_int_equal(c->fake.launches[0].grid.grid[1], 65535);
    FAILS_WITH(launch_sizes(c, 65536, 1), FK_ERROR_LAUNCH,
               "fn 'sizes', kernel 'general': the grid's y must be in 0 .. 65535, found 65536");
    FAILS_WITH(launch_sizes(c, 1, 65536), FK_ERROR_LAUNCH,
               "fn 'sizes', kernel 'general': the grid's z must be in 0 .. 65535, found 65536");
    assert_int_equal(c->fake.n_launches, 1);
}

// CASES A06: a grid of 0 is success, and nothing is launched, or even loaded.
static void an_empty_grid_is_skipped(void **state) {
    Case *c = *state;
    c->shape[0][0] = c->shape[2][0] = 0;
    assert_int_equal(launch(c), FK_OK);
    assert_int_equal(c->fake.launched, 0);
    assert_int_equal(c->fake.loaded, 0);
}

// ---- failures of the device (CASES A18) ----

static void a_failed_launch_is_an_error(void **state) {
    Case *c = *state;
    c->fake.fail_launch = FK_ERROR_LAUNCH;
    FAILS_WITH(launch(c), FK_ERROR_LAUNCH,
               "fn 'linear', kernel 'linear_fast', grid 4 x 1 x 1: fake: launch refused");
    c->fake.fail_launch = FK_ERROR_MEMORY;
    FAILS_WITH(launch(c), FK_ERROR_MEMORY,
               "fn 'linear', kernel 'linear_fast', grid 4 x 1 x 1: fake: launch refused");
}

static void a_failed_load_is_an_error(void **state) {
    Case *c = *state;
    const fk_status every[] = {FK_ERROR_PTX, FK_ERROR_ARCH, FK_ERROR_DRIVER_TOO_OLD,
                               FK_ERROR_MEMORY, FK_ERROR_DRIVER};
    for (size_t i = 0; i < N_OF(every); i++) {
        c->fake.fail_load = every[i];
        FAILS_WITH(launch(c), every[i], "kernel 'linear_fast': fake: image refused");
    }
    c->fake.fail_load = FK_OK;
    c->fake.fail_function = FK_ERROR_DRIVER;
    FAILS_WITH(launch(c), FK_ERROR_DRIVER, "kernel 'linear_fast': fake: no function");
    c->fake.fail_function = FK_OK;
    assert_int_equal(c->fake.launched, 0);
    assert_int_equal(launch(c), FK_OK); // a failure is not remembered
}

static void too_much_shared_memory(void **state) {
    Case *c = *state;
    FkmInsn *shared = sample_fns[0].steps[0].variants[0].launches[0].shared.code;
    shared->k = 1001; // the fake leaves 1000
    reopen(c, 90, 84);
    shared->k = 512;
    FAILS_WITH(
        launch(c), FK_ERROR_LAUNCH,
        "fn 'linear', kernel 'linear_fast': shared memory must be in 0 .. 1000 bytes, found 1001");
}

// An error in the second launch of a fn is found before the first is enqueued.
static void nothing_runs_unless_all_can(void **state) {
    Case *c = *state;
    FkmExpr *grid = &sample_fns[0].steps[0].variants[0].launches[1].grid[1];
    grid->code[0].k = 70000;
    reopen(c, 90, 84);
    grid->code[0].k = 1;
    FAILS_WITH(
        launch(c), FK_ERROR_LAUNCH,
        "fn 'linear', kernel 'linear_merge': the grid's y must be in 0 .. 65535, found 70000");
    assert_int_equal(c->fake.launched, 0);
}

static void no_variant_holds(void **state) {
    Case *c = *state;
    sample_fns[0].steps[0].n_variants = 1;
    reopen(c, 90, 84);
    sample_fns[0].steps[0].n_variants = 2;
    c->w.data = (char *)c->w.data + 2;
    FAILS_WITH(launch(c), FK_ERROR_UNSUPPORTED,
               "fn 'linear', step 'y': no variant takes these sizes and strides");
}

// ---- the workspace ----

static void workspace_sizes(void **state) {
    Case *c = *state;
    size_t bytes;
    assert_int_equal(fk_fn_workspace_size(c->fn, c->args, 4, &bytes), FK_OK);
    assert_int_equal(bytes, 256 + 256 + 256); // head, temporary, scratch of the fast variant
    c->w.data = (char *)c->w.data + 2;
    assert_int_equal(fk_fn_workspace_size(c->fn, c->args, 4, &bytes), FK_OK);
    assert_int_equal(bytes, 512);             // the general one needs no scratch
    c->x.data = c->w.data = c->y.data = NULL; // any address: the worst
    assert_int_equal(fk_fn_workspace_size(c->fn, c->args, 4, &bytes), FK_OK);
    assert_int_equal(bytes, 768);
    FAILS_WITH(fk_fn_workspace_size(c->fn, c->args, 4, NULL), FK_ERROR_ARGUMENT,
               "fk_fn_workspace_size: fn or bytes is null");
}

static void workspace_errors(void **state) {
    Case *c = *state;
    char want[128];
    FAILS_WITH(fk_launch(c->fn, c->args, 4, c->workspace, 767, NULL), FK_ERROR_WORKSPACE_SIZE,
               "fn 'linear': the workspace must have 768 bytes, found 767");
    FAILS_WITH(fk_launch(c->fn, c->args, 4, NULL, 768, NULL), FK_ERROR_WORKSPACE_SIZE,
               "fn 'linear': the workspace must have 768 bytes, found 768 at a null address");
    char *odd = (char *)c->workspace + 128;
    snprintf(want, sizeof want, "fn 'linear': the workspace must be aligned to 256 bytes, found %p",
             (void *)odd);
    FAILS_WITH(fk_launch(c->fn, c->args, 4, odd, 768, NULL), FK_ERROR_WORKSPACE_ALIGNMENT, want);
}

static void workspace_beyond_64_bits(void **state) {
    Case *c = *state;
    size_t bytes;
    FkmInsn *factor = &sample_fns[0].temps[0].bytes.code[3]; // of M*N
    factor->k = (int64_t)1 << 58;
    reopen(c, 90, 84);
    factor->k = 4;
    FAILS_WITH(fk_fn_workspace_size(c->fn, c->args, 4, &bytes), FK_ERROR_OVERFLOW,
               "fn 'linear': the bytes of its workspace leave 64 bits");
}

static void workspace_is_cleared(void **state) {
    Case *c = *state;
    memset(c->workspace, 0xff, c->bytes);
    assert_int_equal(fk_workspace_init(c->fn, c->args, 4, c->workspace, c->bytes, STREAM), FK_OK);
    for (int i = 0; i < 64; i++) assert_int_equal(((unsigned char *)c->workspace)[i], 0);
    assert_int_equal(((unsigned char *)c->workspace)[256], 0xff);
    assert_int_equal(fk_workspace_init(c->fn, c->args, 4, c->workspace, 8, STREAM),
                     FK_ERROR_WORKSPACE_SIZE);
    c->fake.fail_clear = FK_ERROR_DRIVER;
    FAILS_WITH(fk_workspace_init(c->fn, c->args, 4, c->workspace, c->bytes, STREAM),
               FK_ERROR_DRIVER, "fake: clearing failed");
}

// ---- capture (CASES A80) ----

static void capture_needs_prepare(void **state) {
    Case *c = *state;
    c->fake.capturing = true;
    FAILS_WITH(launch(c), FK_ERROR_CAPTURE,
               "kernel 'linear_fast' is not loaded yet, and the stream is capturing; call "
               "fk_fn_prepare with such "
               "tensors before the capture begins");
    assert_int_equal(c->fake.loaded, 0);
    assert_int_equal(fk_fn_prepare(c->fn, c->args, 4), FK_OK);
    assert_int_equal(c->fake.loaded, 2);
    assert_int_equal(launch(c), FK_OK);
}

static void prepare_without_addresses_loads_what_may_be_chosen(void **state) {
    Case *c = *state;
    c->w.data = NULL;
    assert_int_equal(fk_fn_prepare(c->fn, c->args, 4), FK_OK);
    assert_int_equal(c->fake.loaded, 3);
    c->fake.capturing = true;
    c->w.data = c->memory + 8192;
    assert_int_equal(launch(c), FK_OK);
    c->w.data = c->memory + 8194; // the general one
    assert_int_equal(launch(c), FK_OK);
}

static void a_stream_that_is_none(void **state) {
    Case *c = *state;
    c->fake.fail_capturing = FK_ERROR_DRIVER;
    FAILS_WITH(launch(c), FK_ERROR_DRIVER, "fake: no stream");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(launches_the_cheapest),
        CASE(passes_parameters),
        CASE(reads_a_scalar_on_the_device),
        CASE(takes_the_general_one_if_a_guard_fails),
        CASE(takes_what_fits_the_chip),
        CASE(refuses_the_wrong_chip),
        CASE(refuses_newer_ptx),
        CASE(falls_back_from_a_cubin_to_ptx),
        CASE(takes_ptx_where_cubins_do_not_run),
        CASE(grids_have_limits),
        CASE(an_empty_grid_is_skipped),
        CASE(a_failed_launch_is_an_error),
        CASE(a_failed_load_is_an_error),
        CASE(too_much_shared_memory),
        CASE(nothing_runs_unless_all_can),
        CASE(no_variant_holds),
        CASE(workspace_sizes),
        CASE(workspace_errors),
        CASE(workspace_beyond_64_bits),
        CASE(workspace_is_cleared),
        CASE(capture_needs_prepare),
        CASE(prepare_without_addresses_loads_what_may_be_chosen),
        CASE(a_stream_that_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
