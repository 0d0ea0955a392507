/* exec_math_test.c - the mathematical functions of lowered kernels, run on the CPU (cpu.h), against
 * double.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdlib.h>
#include <cmocka.h>

#include "tests/unit/backend/exec.h"

static const char *const names[] = {"M", "N", "K"};

static double ref_sigmoid(double x) {
    return 1 / (1 + exp(-x));
}

static double ref_rsqrt(double x) {
    return 1 / sqrt(x);
}

typedef struct Maths {
    Op op;
    double (*ref)(double);
    double lo, hi;
    double ulp; /* allowed, in units of the last place of an f32 */
} Maths;

static double ulps(float got, double want) {
    if (isnan(want) || isinf((float)want)) {
        bool same = isnan(want) ? isnan(got) : (double)got == (double)(float)want;
        return same ? 0 : INFINITY;
    }
    int e;
    frexp(want, &e);
    if (want == 0 || e < -125) e = -125;
    double unit = ldexp(1, e - 24);
    return fabs((double)got - want) / unit;
}

static void accuracy(void **state) {
    (void)state;
    /* erfc of a large x: libclc rounds x^2 to an f32 before exp(-x^2), so the error grows as x^2;
     * at 11 it is still 2^-17 of a value below 1e-50. */
    static const Maths maths[] = {
        {OP_exp, exp, -110, 100, 2},
        {OP_exp2, exp2, -155, 135, 2},
        {OP_log, log, 0, 100, 3},
        {OP_log, log, 0, 1e38, 3},
        {OP_log2, log2, 0, 4, 3},
        {OP_tanh, tanh, -12, 12, 3},
        {OP_sigmoid, ref_sigmoid, -90, 90, 4},
        {OP_erf, erf, -5, 5, 3},
        {OP_erfc, erfc, -5, 3, 8},
        {OP_erfc, erfc, 3, 9.1, 80},
        {OP_sin, sin, -20, 20, 2},
        {OP_cos, cos, -20, 20, 2},
        {OP_sin, sin, -1e8, 1e8, 2},
        {OP_sqrt, sqrt, 0, 1e10, 0.5},
        {OP_rsqrt, ref_rsqrt, 1e-30, 10, 1.5},
    };
    bool bad = false;
    enum { N = 20000 };
    for (size_t t = 0; t < sizeof maths / sizeof *maths; t++) {
        const Maths *q = &maths[t];
        Build b;
        build_init(&b, names, 3);
        int i = build_add_axis(&b, "i", build_size(&b, 1), true, 128, 1, 1);
        const Ix *at = build_axis(&b, i);
        int x = build_tensor(&b, TM_IN, "x", DT_f32, 1, build_size(&b, 1), NULL);
        int y = build_tensor(&b, TM_OUT, "y", DT_f32, 1, build_size(&b, 1), NULL);
        int v = build_op1(&b, q->op, DT_f32, build_load(&b, x, at, NULL, 0));
        build_store(&b, y, at, NULL, v);
        float *px = exec_floats(&b, N), *py = exec_output(&b, N);
        for (int k = 0; k < N - 10; k++) px[k] = (float)(q->lo + (q->hi - q->lo) * k / (N - 11));
        px[N - 10] = 1e-40f;
        px[N - 9] = -1e-40f;
        px[N - 8] = 1e-30f;
        px[N - 7] = 3e38f;
        px[N - 6] = -3e38f;
        px[N - 5] = 0;
        px[N - 4] = NAN;
        px[N - 3] = INFINITY;
        px[N - 2] = -INFINITY;
        px[N - 1] = -0.0f;
        Host h = {.data = {px, py}, .stride = {{1}, {1}}};
        int64_t size[3] = {1, N, 1};
        run(&b, &h, size);
        double worst = 0;
        float where = 0;
        for (int k = 0; k < N; k++) {
            double u = ulps(py[k], q->ref((double)px[k]));
            if (u > worst) worst = u, where = px[k];
        }
        print_message("%-8s [%g, %g]: %.2f ulp at %g\n", op_name(q->op), q->lo, q->hi, worst,
                      (double)where);
        if (!(worst <= q->ulp)) bad = true;
        build_free(&b);
    }
    assert_false(bad);
}

static void power(void **state) {
    (void)state;
    Build b;
    build_init(&b, names, 3);
    int i = build_add_axis(&b, "i", build_size(&b, 1), true, 128, 1, 1);
    const Ix *at = build_axis(&b, i);
    int x = build_tensor(&b, TM_IN, "x", DT_f32, 1, build_size(&b, 1), NULL);
    int e = build_tensor(&b, TM_IN, "e", DT_f32, 1, build_size(&b, 1), NULL);
    int y = build_tensor(&b, TM_OUT, "y", DT_f32, 1, build_size(&b, 1), NULL);
    int v = build_op2(&b, OP_pow, DT_f32, build_load(&b, x, at, NULL, 0),
                      build_load(&b, e, at, NULL, 0));
    build_store(&b, y, at, NULL, v);
    enum { N = 20000 };
    float *px = exec_floats(&b, N), *pe = exec_floats(&b, N), *py = exec_output(&b, N);
    for (int k = 0; k < N; k++)
        px[k] = (float)((k % 200 - 20) * 0.37), pe[k] = (float)(k / 200 - 50) / 4;
    Host h = {.data = {px, pe, py}, .stride = {{1}, {1}, {1}}};
    int64_t size[3] = {1, N, 1};
    run(&b, &h, size);
    double worst = 0;
    for (int k = 0; k < N; k++) {
        double u = ulps(py[k], pow((double)px[k], (double)pe[k]));
        if (u > worst) worst = u;
    }
    print_message("pow: %.2f ulp\n", worst);
    assert_true(worst <= 3);
    build_free(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(accuracy), cmocka_unit_test(power)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
