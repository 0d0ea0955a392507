// A driver without cuTensorMapEncodeTiled: variants with tensor maps are not for it.
#include "case.h"

// Reads `linear` of the sample through the driver device.
static void takes_the_general_one(void **state) {
    (void)state;
    static _Alignas(256) char memory[32768];
    int64_t shape[3][2] = {{4, 64}, {8, 64}, {4, 8}};
    float scalar = 1;
    size_t n;
    FkmError error = {""};
    const char *name = NULL;
    fk_device *d;
    fk_module *m;
    void *bytes = fkm_encode(&sample, &n, &error);
    DLTensor x = dense(memory, kDLBfloat, 16, shape[0]),
             w = dense(memory + 8192, kDLBfloat, 16, shape[1]);
    DLTensor y = dense(memory + 16384, kDLBfloat, 16, shape[2]);
    DLTensor s = {.data = &scalar, .device = {kDLCPU, 0}, .dtype = {kDLFloat, 32, 1}};
    DLTensor *args[] = {&x, &w, &s, &y};
    assert_int_equal(fk_device_open("cuda", &d), FK_OK);
    assert_int_equal(fk_module_load(d, bytes, n, &m), FK_OK);
    assert_int_equal(fk_fn_variant(fk_module_fn_at(m, 0), args, 4, 0, &name), FK_OK);
    assert_string_equal(name, "general");
    fk_module_unload(m);
    free(bytes);

    sample_fns[0].steps[0].n_variants = 1; // the fast one alone
    bytes = fkm_encode(&sample, &n, &error);
    sample_fns[0].steps[0].n_variants = 2;
    assert_int_equal(fk_module_load(d, bytes, n, &m), FK_OK);
    FAILS_WITH(fk_fn_variant(fk_module_fn_at(m, 0), args, 4, 0, &name), FK_ERROR_ARCH,
               "fn 'linear', step 'y': the module has code for sm_90a with tensor maps, which need "
               "a driver for CUDA 12, and the device is sm_90; compile with --arch=sm_90");
    fk_module_unload(m);
    fk_device_close(d);
    free(bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(takes_the_general_one)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
