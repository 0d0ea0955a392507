// Arguments: each rule has its own status, and a message with the argument, the rule and both
// values.
#include "case.h"

// A launch of the case as it now is.
#define REFUSED(status, why) FAILS_WITH(launch(c), status, why)

static void wrong_count(void **state) {
    Case *c = *state;
    FAILS_WITH(fk_launch(c->fn, c->args, 3, NULL, 0, NULL), FK_ERROR_COUNT,
               "fn 'linear' takes 4 tensors (inputs, then outputs), found 3");
    FAILS_WITH(fk_launch(c->fn, NULL, 4, NULL, 0, NULL), FK_ERROR_ARGUMENT,
               "fn 'linear': the list of arguments is null");
    FAILS_WITH(fk_launch(NULL, c->args, 4, NULL, 0, NULL), FK_ERROR_ARGUMENT,
               "fk_launch: fn is null");
    c->args[1] = NULL;
    REFUSED(FK_ERROR_ARGUMENT, "fn 'linear', argument 1 'w': the tensor is null");
}

static void wrong_rank(void **state) {
    Case *c = *state;
    c->w.ndim = 3;
    REFUSED(FK_ERROR_RANK, "fn 'linear', argument 1 'w': the rank must be 2, found 3");
}

static void wrong_type(void **state) {
    Case *c = *state;
    c->x.dtype = (DLDataType){kDLFloat, 16, 1};
    REFUSED(FK_ERROR_DTYPE,
            "fn 'linear', argument 0 'x': the element type must be bf16, found f16");
    c->x.dtype = (DLDataType){5, 64, 1};
    REFUSED(FK_ERROR_DTYPE, "fn 'linear', argument 0 'x': the element type must be bf16, found "
                            "DLPack code 5 with 64 bits");
    c->x.dtype = (DLDataType){kDLBfloat, 16, 2};
    REFUSED(FK_ERROR_LANES, "fn 'linear', argument 0 'x': lanes must be 1, found 2");
}

static void wrong_device(void **state) {
    Case *c = *state;
    c->x.device = (DLDevice){kDLCPU, 0};
    REFUSED(FK_ERROR_DEVICE,
            "fn 'linear', argument 0 'x': the data must be on cuda:0, found on cpu:0");
    c->x.device = (DLDevice){kDLCUDA, 1};
    REFUSED(FK_ERROR_DEVICE,
            "fn 'linear', argument 0 'x': the data must be on cuda:0, found on cuda:1");
    c->x.device = (DLDevice){kDLCUDAManaged, 0};
    assert_int_equal(launch(c), FK_OK);
    c->s.device = (DLDevice){(DLDeviceType)7, 0};
    REFUSED(FK_ERROR_DEVICE, "fn 'linear', argument 2 's': the data must be on cuda:0 or the CPU, "
                             "found on DLPack device type 7");
}

static void wrong_shape(void **state) {
    Case *c = *state;
    c->shape[0][0] = -1;
    REFUSED(FK_ERROR_SHAPE,
            "fn 'linear', argument 0 'x': dimension 0 must not be negative, found -1");
    c->x.shape = NULL;
    REFUSED(FK_ERROR_SHAPE, "fn 'linear', argument 0 'x': the shape of 2 extents is null");
}

static void extents_that_differ(void **state) {
    Case *c = *state;
    c->shape[1][1] = 72;
    REFUSED(FK_ERROR_SIZE,
            "fn 'linear', argument 1 'w': dimension 1 (K) is 72, but K is 64 (from argument 0 'x', "
            "dimension 1)");
    c->shape[1][1] = 64;
    c->shape[2][0] = 5;
    REFUSED(FK_ERROR_SIZE,
            "fn 'linear', argument 3 'y': dimension 0 (M) is 5, but M is 4 (from argument 0 'x', "
            "dimension 0)");
}

static void a_check_that_fails(void **state) {
    Case *c = *state;
    c->shape[0][1] = c->shape[1][1] = 60;
    REFUSED(FK_ERROR_CHECK, "fn 'linear': K must be a multiple of 8, found 60");
    c->shape[0][0] = c->shape[2][0] = 0; // on an empty domain it holds
    assert_int_equal(launch(c), FK_OK);
}

static void wrong_strides(void **state) {
    Case *c = *state;
    int64_t strides[2] = {0, 1};
    c->y.strides = strides;
    REFUSED(FK_ERROR_STRIDE,
            "fn 'linear', argument 3 'y': stride 0 of an output must be positive, found 0");
    strides[0] = 8, strides[1] = -1;
    REFUSED(FK_ERROR_STRIDE,
            "fn 'linear', argument 3 'y': stride 1 of an output must be positive, found -1");
    strides[0] = 7, strides[1] = 1;
    REFUSED(FK_ERROR_STRIDE,
            "fn 'linear', argument 3 'y': stride 0 of an output must be at least 8, so that no two "
            "elements share an address, found 7");
    strides[0] = 1, strides[1] = 4; // column major
    assert_int_equal(launch(c), FK_OK);
    c->y.strides = NULL;
    c->x.strides = strides;
    strides[0] = INT64_MAX / 2;
    REFUSED(
        FK_ERROR_STRIDE,
        "fn 'linear', argument 0 'x': dimension 0 of 4 elements with stride 4611686018427387903 "
        "leaves 64 bits");
    strides[0] = INT64_MAX / 16;
    REFUSED(FK_ERROR_STRIDE,
            "fn 'linear', argument 0 'x': dimension 0 of 4 elements with stride 576460752303423487 "
            "reaches beyond 2^57 elements");
    strides[0] = -((int64_t)1 << 48);
    REFUSED(FK_ERROR_STRIDE, "fn 'linear', argument 0 'x': the strides reach below address 0");
}

static void inputs_may_broadcast_and_reverse(void **state) {
    Case *c = *state;
    int64_t strides[2] = {0, 1};
    c->w.strides = strides;
    assert_int_equal(launch(c), FK_OK);
    strides[0] = -64;
    c->w.byte_offset = 7 * 64 * 2;
    assert_int_equal(launch(c), FK_OK);
}

static void wrong_data(void **state) {
    Case *c = *state;
    c->x.byte_offset = 1;
    char want[128];
    snprintf(want, sizeof want,
             "fn 'linear', argument 0 'x': the address must be a multiple of 2, found 0x%llx",
             (unsigned long long)(uintptr_t)c->x.data + 1);
    REFUSED(FK_ERROR_ALIGNMENT, want);
    c->x.data = NULL;
    REFUSED(FK_ERROR_DATA, "fn 'linear', argument 0 'x': the data is null, and the tensor has "
                           "elements (first extent 4)");
}

static void outputs_overlap_nothing(void **state) {
    Case *c = *state;
    char want[256];
    c->y.data = (char *)c->x.data + 510; // x has bytes 0 .. 511
    unsigned long long x = (uintptr_t)c->x.data, y = (uintptr_t)c->y.data;
    snprintf(want, sizeof want,
             "fn 'linear', argument 3 'y': bytes [0x%llx, 0x%llx) share memory with argument 0 'x' "
             "at [0x%llx, 0x%llx); an output may overlap nothing",
             y, y + 64, x, x + 512);
    REFUSED(FK_ERROR_OVERLAP, want);
    c->y.data = (char *)c->x.data + 512;
    assert_int_equal(launch(c), FK_OK);
    c->w.data = c->x.data; // inputs may
    c->y.data = (char *)c->x.data + 1024;
    assert_int_equal(launch(c), FK_OK);
    c->y.data = (char *)c->workspace + 704;
    y = (uintptr_t)c->y.data;
    unsigned long long ws = (uintptr_t)c->workspace;
    snprintf(want, sizeof want,
             "fn 'linear', argument 3 'y': bytes [0x%llx, 0x%llx) share memory with the workspace "
             "at [0x%llx, 0x%llx); an output may overlap nothing",
             y, y + 64, ws, ws + 768);
    REFUSED(FK_ERROR_OVERLAP, want);
    c->y.data = (char *)c->workspace + 768; // behind what is used
    assert_int_equal(launch(c), FK_OK);
}

// x and y are columns of one buffer with rows of 100 elements: their byte ranges cross, the bytes
// do not.
static void outputs_may_interleave(void **state) {
    Case *c = *state;
    int64_t strides[2] = {100, 1};
    c->x.strides = c->y.strides = strides;
    c->y.data = (char *)c->x.data + 64 * 2;
    assert_int_equal(launch(c), FK_OK);
    c->y.data = (char *)c->x.data + 63 * 2;
    assert_int_equal(launch(c), FK_ERROR_OVERLAP);
    c->y.data = (char *)c->x.data + 92 * 2; // up to the next row of x
    assert_int_equal(launch(c), FK_OK);
    c->y.data = (char *)c->x.data + 93 * 2;
    assert_int_equal(launch(c), FK_ERROR_OVERLAP);
    c->y.data = (char *)c->x.data - 8 * 2; // from before x
    assert_int_equal(launch(c), FK_OK);
    c->y.data = (char *)c->x.data - 7 * 2;
    assert_int_equal(launch(c), FK_ERROR_OVERLAP);
}

// CASES A26: the stride of an extent of 1 means nothing, to kernels and guards alike.
static void strides_of_extent_one(void **state) {
    Case *c = *state;
    int64_t odd[][2] = {{1, 1}, {0, 1}, {(int64_t)1 << 60, 1}, {-3, 1}};
    c->shape[1][0] = c->shape[2][1] = 1; // w: [1, 64], y: [1, 1], and so the temporary
    c->shape[0][0] = c->shape[2][0] = 1;
    for (size_t i = 0; i < N_OF(odd); i++) {
        c->w.strides = odd[i];
        c->fake.n_launches = 0;
        assert_int_equal(launch(c), FK_OK);
        assert_string_equal(c->fake.launches[0].name,
                            "linear_fast"); // its guard asks for w's stride 0
    }
    int64_t y[] = {1, -7};
    c->shape[0][0] = c->shape[2][0] = 4;
    c->y.strides = y;
    assert_int_equal(launch(c), FK_OK);
}

// CASES A87.
static void dlpack(void **state) {
    Case *c = *state;
    c->x.data = (char *)c->x.data - 256, c->x.byte_offset = 256;
    assert_int_equal(launch(c), FK_OK);
    assert_int_equal(c->fake.launches[0].param[0], (uintptr_t)c->x.data + 256);
    c->shape[0][0] = c->shape[2][0] = 0; // no elements: no data
    c->x.data = c->y.data = NULL;
    c->x.byte_offset = 0;
    assert_int_equal(launch(c), FK_OK);
    c->x.strides = (int64_t[]){-99, 5};
    assert_int_equal(launch(c), FK_OK);
    assert_int_equal(c->fake.n_launches, 2); // only the first launch had a grid
    int64_t huge[2] = {0, 8}, nothing[2] = {0, 64};
    c->x.shape = nothing, c->y.shape = huge;
    c->shape[1][0] = huge[1] = INT64_MAX; // no elements, though the other extent is beyond memory
    c->w.strides = (int64_t[]){0, 1};
    assert_int_equal(launch(c), FK_OK);
}

static fk_status launch_sizes(Case *c, int64_t a, int64_t b, int64_t t, int64_t o) {
    int64_t shape[4] = {a, b, t, o};
    DLTensor v[4], *args[4];
    fk_fn *fn;
    assert_int_equal(fk_module_fn(c->module, "sizes", &fn), FK_OK);
    for (int i = 0; i < 4; i++) {
        v[i] = dense(c->memory + i * 65536, kDLFloat, 32, &shape[i]);
        v[i].ndim = 1;
        args[i] = &v[i];
    }
    return fk_launch(fn, args, 4, NULL, 0, NULL);
}

static void solves_sizes(void **state) {
    Case *c = *state;
    assert_int_equal(launch_sizes(c, 10, 3, 50, 5), FK_OK); // 2*5, 48/16, 2 + 48
    FakeLaunch *l = &c->fake.launches[0];
    assert_int_equal(l->param[1], 5);
    assert_int_equal(l->param[2], 48);
    assert_int_equal(l->param[3], 2);
    FAILS_WITH(launch_sizes(c, 7, 3, 50, 5), FK_ERROR_DIVISIBLE,
               "fn 'sizes', argument 0 'a': dimension 0 (2*D) is 7, which gives no whole D: 7 must "
               "be divisible by 2");
    FAILS_WITH(
        launch_sizes(c, 10, 3, 40, 5), FK_ERROR_SIZE,
        "fn 'sizes', argument 2 'c': dimension 0 (S + T) is 40, which makes S negative: -8 / 1");
    FAILS_WITH(launch_sizes(c, 10, 3, 50, 6), FK_ERROR_SIZE,
               "fn 'sizes', argument 3 'o': dimension 0 (D) is 6, but D is 5 (from argument 0 'a', "
               "dimension 0)");
    assert_int_equal(launch_sizes(c, 0, 0, 0, 0), FK_OK);
}

static void sizes_beyond_64_bits(void **state) {
    Case *c = *state;
    int64_t big = (int64_t)1 << 60, zero[2] = {0, 0}, shape[4] = {10, big, 50, 5};
    DLTensor v[4], *args[4];
    size_t bytes;
    fk_fn *fn = fk_module_fn_at(c->module, 1);
    for (int i = 0; i < 4; i++) {
        v[i] = dense(c->memory + i * 65536, kDLFloat, 32, &shape[i]);
        v[i].ndim = 1;
        args[i] = &v[i];
    }
    v[1].strides = zero; // broadcast: no memory is reached
    FAILS_WITH(fk_fn_workspace_size(fn, args, 4, &bytes), FK_ERROR_OVERFLOW,
               "fn 'sizes', argument 1 'b': dimension 0 (T/16) is 1152921504606846976, from which "
               "T cannot be computed "
               "in 64 bits");
}

static fk_status launch_quads(Case *c, int64_t *shape, int64_t *in, int64_t *out) {
    DLTensor q = dense(c->memory, kDLUInt, 4, shape),
             o = dense(c->memory + 65536, kDLUInt, 4, shape);
    DLTensor *args[2] = {&q, &o};
    fk_fn *fn = fk_module_fn_at(c->module, 2);
    q.strides = in, o.strides = out;
    c->fake.n_launches = 0;
    return fk_launch(fn, args, 2, NULL, 0, NULL);
}

static void half_bytes(void **state) {
    Case *c = *state;
    int64_t shape[2] = {3, 5};
    assert_int_equal(launch_quads(c, shape, NULL, NULL), FK_OK);
    assert_int_equal(c->fake.launches[0].param[1], 6); // a row of 5 takes 3 bytes
    assert_int_equal(c->fake.launches[0].param[2], 1);
    FAILS_WITH(launch_quads(c, shape, (int64_t[]){5, 1}, NULL), FK_ERROR_STRIDE,
               "fn 'quads', argument 0 'q': stride 0 of a 4-bit tensor must be even (whole bytes), "
               "found 5");
    FAILS_WITH(launch_quads(c, shape, (int64_t[]){2, 6}, NULL), FK_ERROR_STRIDE,
               "fn 'quads', argument 0 'q': the last stride of a 4-bit tensor must be 1, found 6");
    assert_int_equal(launch_quads(c, shape, (int64_t[]){0, 1}, (int64_t[]){8, 1}), FK_OK);
    FAILS_WITH(launch_quads(c, shape, NULL, (int64_t[]){4, 1}), FK_ERROR_STRIDE,
               "fn 'quads', argument 1 'o': stride 0 of an output must be at least 5, so that no "
               "two elements share an "
               "address, found 4");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(wrong_count),
        CASE(wrong_rank),
        CASE(wrong_type),
        CASE(wrong_device),
        CASE(wrong_shape),
        CASE(extents_that_differ),
        CASE(a_check_that_fails),
        CASE(wrong_strides),
        CASE(inputs_may_broadcast_and_reverse),
        CASE(wrong_data),
        CASE(outputs_overlap_nothing),
        CASE(outputs_may_interleave),
        CASE(strides_of_extent_one),
        CASE(dlpack),
        CASE(solves_sizes),
        CASE(sizes_beyond_64_bits),
        CASE(half_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
