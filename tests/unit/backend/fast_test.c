/* fast_test.c - approximate functions: when they may be used, and how far they are off, run on the
 * CPU, where tanh.approx and the like err by as much as the chip's may (cpu.c).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdlib.h>
#include <cmocka.h>

#include "ir/dtype.h"
#include "tests/unit/backend/exec.h"

static const char *const names[] = {"M"};

/* y[i] = op(x[i]), or op(x[i]) * g[i], or 1 - op(x[i]). */
typedef enum Use { BARE, FACTOR, ONE_LESS } Use;

static void build_use(Build *b, Op op, Use use, DType stored) {
    build_init(b, names, 1);
    int i = build_add_axis(b, "i", build_size(b, 0), true, 32, 1, 1);
    const Ix *at = build_axis(b, i), *m = build_size(b, 0);
    int x = build_tensor(b, TM_IN, "x", DT_f32, 1, m, NULL);
    int g = build_tensor(b, TM_IN, "g", DT_f32, 1, m, NULL);
    int y = build_tensor(b, TM_OUT, "y", stored, 1, m, NULL);
    int v = build_op1(b, op, DT_f32, build_load(b, x, at, NULL, 0));
    if (use == FACTOR) v = build_op2(b, OP_mul, DT_f32, v, build_load(b, g, at, NULL, 0));
    if (use == ONE_LESS) v = build_op2(b, OP_sub, DT_f32, build_load(b, g, at, NULL, 0), v);
    build_store(b, y, at, NULL, v);
}

static void expect(Op op, Use use, DType stored, bool strict, const char *has, const char *lacks) {
    Build b;
    build_use(&b, op, use, stored);
    BackendOptions o = {.target = target_named("sm_80"), .strict = strict};
    Step st = {.name = "test.0", .tile = b.t};
    assert_true(backend_lower(&b.arena, NULL, &st, &b.s, &o, &b.d, &b.k, NULL));
    if (has && !strstr(b.k.ptx, has)) fail_msg("no '%s' in\n%s", has, b.k.ptx);
    if (lacks && strstr(b.k.ptx, lacks)) fail_msg("'%s' in\n%s", lacks, b.k.ptx);
    build_free(&b);
}

static void when(void **state) {
    (void)state;
    const char *unit = "tanh.approx";
    expect(OP_sigmoid, FACTOR, DT_bf16, false, unit, NULL);
    expect(OP_sigmoid, FACTOR, DT_e4m3, false, unit, NULL);
    expect(OP_sigmoid, BARE, DT_bf16, false, "ex2.approx", unit); /* what is tiny stays right */
    expect(OP_sigmoid, FACTOR, DT_f16, false, "ex2.approx", unit);
    expect(OP_sigmoid, FACTOR, DT_f32, false, NULL, "approx.f32");
    expect(OP_sigmoid, FACTOR, DT_bf16, true, NULL, "approx");
    expect(OP_tanh, BARE, DT_bf16, false, unit, NULL);
    expect(OP_tanh, ONE_LESS, DT_bf16, false, "ex2.approx", unit); /* 1 - tanh may be tiny */
    expect(OP_tanh, BARE, DT_f32, false, NULL, "approx");
    expect(OP_exp, BARE, DT_f16, false, "ex2.approx", NULL);
    expect(OP_exp, BARE, DT_f32, false, NULL, "approx");
    expect(OP_exp, BARE, DT_i32, false, NULL, "approx");
    expect(OP_erfc, FACTOR, DT_bf16, false, unit, NULL);
    expect(OP_erfc, BARE, DT_bf16, false, "rcp.approx", unit);
    expect(OP_rsqrt, BARE, DT_bf16, false, "rsqrt.approx", NULL);
}

/* z[i] = y[i] of the step before. */
static void build_reader(Build *b, DType stored, DType type) {
    build_init(b, names, 1);
    int i = build_add_axis(b, "i", build_size(b, 0), true, 32, 1, 1);
    const Ix *at = build_axis(b, i), *m = build_size(b, 0);
    int y = build_tensor(b, TM_OUT, "y", stored, 1, m, NULL);
    int z = build_tensor(b, TM_OUT, "z", type, 1, m, NULL);
    b->t->tensors.v[y].id = 2; /* as build_use numbers it */
    b->t->tensors.v[z].id = 3;
    build_store(b, z, at, NULL, build_load(b, y, at, NULL, 0));
}

/* What another step takes to more bits has to be rounded right. */
static void read_later(void **state) {
    (void)state;
    static const struct {
        DType type;
        const char *has, *lacks;
    } row[] = {{DT_bf16, "tanh.approx", NULL}, {DT_f32, NULL, "approx"}, {DT_i32, NULL, "approx"}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        Build b, r;
        build_use(&b, OP_tanh, BARE, DT_bf16);
        build_reader(&r, DT_bf16, row[i].type);
        Step steps[2] = {{.name = "test.0", .tile = b.t}, {.name = "test.1", .tile = r.t}};
        Plan plan = {.steps = {steps, 2, 2}};
        BackendOptions o = {.target = target_named("sm_80")};
        assert_true(backend_lower(&b.arena, &plan, &steps[0], &b.s, &o, &b.d, &b.k, NULL));
        if (row[i].has) assert_non_null(strstr(b.k.ptx, row[i].has));
        if (row[i].lacks) assert_null(strstr(b.k.ptx, row[i].lacks));
        build_free(&b);
        build_free(&r);
    }
}

/* exp(tanh(x)) is exact inside; tanh(x) > 0.5 too. */
static void not_inside(void **state) {
    (void)state;
    for (int which = 0; which < 2; which++) {
        Build b;
        build_init(&b, names, 1);
        int i = build_add_axis(&b, "i", build_size(&b, 0), true, 32, 1, 1);
        const Ix *at = build_axis(&b, i), *m = build_size(&b, 0);
        int x = build_tensor(&b, TM_IN, "x", DT_f32, 1, m, NULL);
        int y = build_tensor(&b, TM_OUT, "y", DT_bf16, 1, m, NULL);
        int l = build_load(&b, x, at, NULL, 0), v = build_op1(&b, OP_tanh, DT_f32, l);
        if (which == 0) {
            v = build_op1(&b, OP_exp, DT_f32, v);
        } else {
            int args[3] = {build_op2(&b, OP_gt, DT_bool, v, l), l, l};
            v = build_op(&b, OP_select, DT_f32, 3, args);
        }
        build_store(&b, y, at, NULL, v);
        assert_true(build_lower(&b, "sm_80", 0, NULL));
        assert_null(strstr(b.k.ptx, "tanh.approx"));
        build_free(&b);
    }
}

/* x * sigmoid(c (x + d x^3)): one polynomial of x, with the half in its coefficients. */
static void polynomials(void **state) {
    (void)state;
    Build b;
    build_init(&b, names, 1);
    int i = build_add_axis(&b, "i", build_size(&b, 0), true, 32, 1, 1);
    const Ix *at = build_axis(&b, i), *m = build_size(&b, 0);
    int x = build_tensor(&b, TM_IN, "x", DT_f32, 1, m, NULL);
    int y = build_tensor(&b, TM_OUT, "y", DT_bf16, 1, m, NULL);
    int v = build_load(&b, x, at, NULL, 0), d = build_real(&b, 0.044715);
    int cube = build_op2(&b, OP_mul, DT_f32, build_op2(&b, OP_mul, DT_f32, v, v), v);
    int sum = build_op2(&b, OP_add, DT_f32, v, build_op2(&b, OP_mul, DT_f32, d, cube));
    int u = build_op2(&b, OP_mul, DT_f32, build_real(&b, 1.5957691216057308), sum);
    build_store(&b, y, at, NULL,
                build_op2(&b, OP_mul, DT_f32, v, build_op1(&b, OP_sigmoid, DT_f32, u)));
    assert_true(build_lower(&b, "sm_80", 0, NULL));
    int n = 0;
    for (const char *p = b.k.ptx; (p = strstr(p, ".rn.f32")); p++) n++;
    assert_int_equal(n, 5); /* x^2, fma, times x, the fma after tanh, times x */
    build_free(&b);
}

/* ---- how far off ---- */

static const float special[] = {0, -0.0f, 1, -1, 1e-6f, -1e-6f, 1e-30f, 88, -88, 200, -200, 3e38f};
enum { SPECIAL = sizeof special / sizeof *special, MANY = 4096 };

static float input(int i) {
    if (i < SPECIAL) return special[i];
    if (i == SPECIAL) return INFINITY;
    if (i == SPECIAL + 1) return -INFINITY;
    if (i == SPECIAL + 2) return NAN;
    return (float)(i - MANY / 2) / 170; /* -12 to 12 */
}

static double exact(Op op, double x) {
    switch (op) {
    case OP_exp: return exp(x);
    case OP_exp2: return exp2(x);
    case OP_sigmoid: return 1 / (1 + exp(-x));
    case OP_tanh: return tanh(x);
    case OP_erf: return erf(x);
    case OP_erfc: return erfc(x);
    case OP_log: return log(x);
    case OP_log2: return log2(x);
    case OP_sqrt: return sqrt(x);
    case OP_rsqrt: return 1 / sqrt(x);
    default: return NAN;
    }
}

/* Of the value: its rounding and 2^-13; beside a factor of 1 also 1.25 * 2^-11 of 1. */
static void one(Op op, Use use, DType stored, double half_ulp) {
    Build b;
    build_use(&b, op, use, stored);
    Host h = {0};
    float *x = ARENA_ARRAY(&b.arena, float, MANY), *g = ARENA_ARRAY(&b.arena, float, MANY);
    uint16_t *y = ARENA_ARRAY(&b.arena, uint16_t, MANY);
    for (int i = 0; i < MANY; i++) x[i] = input(i), g[i] = 1;
    h.data[0] = x, h.data[1] = g, h.data[2] = y;
    h.stride[0][0] = h.stride[1][0] = h.stride[2][0] = 1;
    run(&b, &h, (int64_t[]){MANY});
    double least = stored == DT_f16 ? 0x1p-25 : 0x1p-126; /* beyond, f32 is subnormal */
    for (int i = 0; i < MANY; i++) {
        double want = exact(op, x[i]), got = 0;
        int64_t none;
        dtype_load(stored, y, i, &got, &none);
        if (isnan(want) || isinf(dtype_round(stored, want))) {
            if (isnan(want) ? !isnan(got) : got != dtype_round(stored, want))
                fail_msg("%s(%g) = %g, not %g", op_name(op), (double)x[i], got, want);
            continue;
        }
        double off = fabs(want) * (half_ulp + 0x1p-13) + least + (use == FACTOR ? 0x1.4p-11 : 0);
        if (!(fabs(got - want) <= off))
            fail_msg("%s(%g) = %g, not %g", op_name(op), (double)x[i], got, want);
    }
    build_free(&b);
}

static void how_far(void **state) {
    (void)state;
    static const Op ops[] = {OP_exp,  OP_exp2, OP_sigmoid, OP_tanh, OP_erf,
                             OP_erfc, OP_log,  OP_log2,    OP_sqrt, OP_rsqrt};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        one(ops[i], BARE, DT_f16, 0x1p-11);
        one(ops[i], BARE, DT_bf16, 0x1p-8 + 0x1p-11); /* tanh.approx: 2^-11 */
        one(ops[i], FACTOR, DT_bf16, 0x1p-8 + 0x1p-11);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(when),        cmocka_unit_test(not_inside), cmocka_unit_test(read_later),
        cmocka_unit_test(polynomials), cmocka_unit_test(how_far),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
