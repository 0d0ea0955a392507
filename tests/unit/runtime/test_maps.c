// Tensor maps: what the device is asked for, what the cache saves, how they reach a kernel, and
// which variant is taken when hardware cannot express them.
#include "case.h"

static const FkTmap *asked(const FakeLaunch *l, int map) {
    static FkTmap copy[4];
    memcpy(&copy[map], l->map[map] + 8, sizeof copy[map]);
    return &copy[map];
}

static const char *variant(Case *c) {
    const char *name = NULL;
    if (fk_fn_variant(c->fn, c->args, 4, 0, &name)) fail_msg("%s", fk_last_error());
    return name;
}

static void are_passed_by_value(void **state) {
    Case *c = *state;
    assert_int_equal(launch(c), FK_OK);
    const FakeLaunch *l = &c->fake.launches[0];
    assert_string_equal(l->name, "linear_fast");
    assert_int_equal(l->n, 4);
    assert_int_equal(l->param[0], (uintptr_t)c->x.data); // others keep their 8 bytes
    assert_int_equal(l->n_maps, 2);
    FkTmap w = {(uintptr_t)c->w.data, {64, 8}, {2, 128}, {64, 8}, 2, 128, {kDLBfloat, 16, 1}};
    FkTmap t = {(uintptr_t)c->workspace + 256, {8, 4}, {4, 32}, {4, 256}, 2, 0, {kDLFloat, 32, 1}};
    assert_memory_equal(asked(l, 0), &w, sizeof w);
    assert_memory_equal(asked(l, 1), &t, sizeof t);
    assert_false(c->fake.misaligned);
    assert_int_equal(c->fake.launches[1].n_maps, 0);
}

static void are_cached_by_value(void **state) {
    Case *c = *state;
    int64_t strides[2] = {128, 1};
    assert_int_equal(launch(c), FK_OK);
    assert_int_equal(c->fake.encoded, 2);
    assert_int_equal(launch(c), FK_OK);
    assert_int_equal(c->fake.encoded, 2);
    c->w.strides = strides; // another pitch
    assert_int_equal(launch(c), FK_OK);
    assert_int_equal(c->fake.encoded, 3);
    c->w.byte_offset = 16; // another address
    assert_int_equal(launch(c), FK_OK);
    assert_int_equal(c->fake.encoded, 4);
    assert_int_equal(c->fake.map.address, (uintptr_t)c->w.data + 16);
    c->shape[1][0] = c->shape[2][1] = 12; // another N: of w and of the temporary
    assert_int_equal(launch(c), FK_OK);
    assert_int_equal(c->fake.encoded, 6);
    c->w.strides = NULL; // all of the first once more
    c->w.byte_offset = 0;
    c->shape[1][0] = c->shape[2][1] = 8;
    assert_int_equal(launch(c), FK_OK);
    assert_int_equal(c->fake.encoded, 6);
    const FakeLaunch *l = &c->fake.launches[10];
    assert_int_equal(asked(l, 0)->address, (uintptr_t)c->w.data);
    assert_int_equal(asked(l, 0)->stride[1], 128);
}

// More maps than the cache holds: each launch still gets its own.
static void outgrow_the_cache(void **state) {
    Case *c = *state;
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 300; i++) {
            c->fake.n_launches = 0;
            c->w.byte_offset = 16 * (uint64_t)i;
            assert_int_equal(launch(c), FK_OK);
            assert_int_equal(asked(&c->fake.launches[0], 0)->address,
                             (uintptr_t)c->w.data + 16 * (uint64_t)i);
        }
    assert_in_range(c->fake.encoded, 302, 4 * 301); // a launch may ask twice: to prove, to enqueue
}

static void belong_to_a_size(void **state) {
    Case *c = *state;
    c->shape[0][0] = c->shape[2][0] = 1; // one row: the temporary is f32[1, 8]
    assert_int_equal(launch(c), FK_OK);
    const FkTmap *t = asked(&c->fake.launches[0], 1);
    assert_true(t->extent[1] == 1 && t->stride[1] == 32);

    // One row of N: its stride is never used, and may be what hardware would refuse.
    int64_t strides[2] = {13, 1};
    c->shape[1][0] = c->shape[2][1] = 1;
    c->w.strides = strides;
    c->fake.n_launches = 0;
    assert_string_equal(variant(c), "fast");
    assert_int_equal(launch(c), FK_OK);
    assert_int_equal(asked(&c->fake.launches[0], 0)->stride[1], 128);
    t = asked(&c->fake.launches[0], 1); // f32[1, 1]
    assert_true(t->extent[0] == 1 && t->extent[1] == 1 && t->stride[1] == 16);
}

// ---- variants ----

// Guards and what hardware can express decide together; the sample's guard asks for w's alignment
// and pitch only.
static void choose_the_variant(void **state) {
    Case *c = *state;
    assert_string_equal(variant(c), "fast");
    c->w.byte_offset = 8; // base
    assert_string_equal(variant(c), "general");
    c->w.byte_offset = 16;
    assert_string_equal(variant(c), "fast");
    c->w.byte_offset = 0;

    int64_t odd[2] = {65, 1}, wide[2] = {72, 1}, apart[2] = {128, 2}, still[2] = {0, 1},
            back[2] = {-64, 1};
    c->w.strides = odd;
    assert_string_equal(variant(c), "general");
    c->w.strides = wide;
    assert_string_equal(variant(c), "fast");
    c->w.strides = apart; // the guard holds, but the innermost stride is not 1
    assert_string_equal(variant(c), "general");
    c->w.strides = still; // the guard holds for 0
    assert_string_equal(variant(c), "general");
    c->w.strides = back;
    assert_string_equal(variant(c), "general");
    c->w.strides = NULL;

    c->shape[1][0] = c->shape[2][1] = 7; // the temporary's rows of 28 bytes
    assert_string_equal(variant(c), "general");
    c->shape[0][0] = c->shape[2][0] = 1; // a single one may have them
    assert_string_equal(variant(c), "fast");
    c->shape[1][0] = c->shape[2][1] = 0; // nothing to map
    assert_string_equal(variant(c), "general");
    assert_int_equal(launch(c), FK_OK);
}

// What no address is known of counts as aligned, so the answers hold for every address.
static void workspace_without_addresses(void **state) {
    Case *c = *state;
    size_t bytes;
    c->w.data = NULL;
    assert_string_equal(variant(c), "fast");
    assert_int_equal(fk_fn_workspace_size(c->fn, c->args, 4, &bytes), FK_OK);
    assert_int_equal(bytes, 768);
    assert_int_equal(c->fake.encoded, 0);
}

static void a_stride_beyond_hardware(void **state) {
    Case *c = *state;
    int64_t far[2] = {(int64_t)1 << 39, 1};
    c->w.strides = far; // 2^40 bytes
    assert_string_equal(variant(c), "general");
    far[0] -= 8;
    assert_string_equal(variant(c), "fast");
}

static void a_device_without_tensor_maps(void **state) {
    Case *c = *state;
    size_t n;
    FkmError error = {""};
    void *bytes = fkm_encode(&sample, &n, &error);
    fk_module_unload(c->module);
    fk_device_close(c->device);
    c->fake.closed = 0;
    c->fake.facts.tensor_maps = false;
    c->device = fake_open(&c->fake);
    assert_int_equal(fk_module_load(c->device, bytes, n, &c->module), FK_OK);
    assert_int_equal(fk_module_fn(c->module, "linear", &c->fn), FK_OK);
    free(bytes);
    assert_string_equal(variant(c), "general");
}

static void a_map_that_fails(void **state) {
    Case *c = *state;
    c->fake.fail_map = FK_ERROR_DRIVER;
    FAILS_WITH(launch(c), FK_ERROR_DRIVER,
               "fn 'linear', kernel 'linear_fast', the tensor map of argument 1 'w': fake: no map");
    assert_int_equal(c->fake.launched, 0);
    c->fake.fail_map = FK_OK;
    assert_int_equal(launch(c), FK_OK); // a failure is not remembered
    c->fake.fail_map = FK_ERROR_DRIVER;
    assert_int_equal(launch(c), FK_OK); // nor is the device asked again
    c->bytes -= 1024;
    c->workspace = (char *)c->workspace + 1024;
    FAILS_WITH(launch(c), FK_ERROR_DRIVER,
               "fn 'linear', kernel 'linear_fast', the tensor map of temporary 0: fake: no map");
    c->workspace = (char *)c->workspace - 1024;
}

static void variant_errors(void **state) {
    Case *c = *state;
    const char *name;
    FAILS_WITH(fk_fn_variant(c->fn, c->args, 4, 1, &name), FK_ERROR_ARGUMENT,
               "fk_fn_variant: fn 'linear' has no step 1");
    FAILS_WITH(fk_fn_variant(c->fn, c->args, 4, 0, NULL), FK_ERROR_ARGUMENT,
               "fk_fn_variant: fn or name is null");
    assert_int_equal(fk_fn_variant(c->fn, c->args, 3, 0, &name), FK_ERROR_COUNT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(are_passed_by_value),      CASE(are_cached_by_value),
        CASE(outgrow_the_cache),        CASE(belong_to_a_size),
        CASE(choose_the_variant),       CASE(workspace_without_addresses),
        CASE(a_stride_beyond_hardware), CASE(a_device_without_tensor_maps),
        CASE(a_map_that_fails),         CASE(variant_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
