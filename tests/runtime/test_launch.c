// Launching: which variant, which parameters, what fails and how.
#include "case.h"

static void launches_the_cheapest(void **state) {
    Case *c = *state;
    assert_int_equal(launch(c), FK_OK);
    assert_int_equal(c->fake.n_launches, 2);
    assert_string_equal(c->fake.launches[0].name, "linear_fast");
    assert_int_equal(c->fake.launches[0].grid.grid[0], 4);
    assert_int_equal(c->fake.launches[0].grid.shared, 512);
    assert_int_equal(c->fake.launches[1].grid.block[1], 2);
    assert_ptr_equal(c->fake.launches[1].stream, STREAM);
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

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(launches_the_cheapest),
        CASE(passes_parameters),
        CASE(reads_a_scalar_on_the_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
