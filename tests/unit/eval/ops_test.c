/* ops_test.c - scalar ops: integers, NaN, sureness, random numbers. */
#include "test.h"

#include <math.h>
#include <stdlib.h>

#include "ir/eval.h"

static EvalVal R(double r) { /* inexact */
    return (EvalVal){.r = r};
}

static EvalVal X(double r) { /* exact */
    return (EvalVal){.r = r, .exact = true};
}

static EvalVal I(int64_t i) {
    return (EvalVal){.i = i, .exact = true};
}

static EvalVal op1(Op op, DType type, DType vt, EvalVal a) {
    return eval_op(op, type, vt, &a);
}

static EvalVal op2(Op op, DType type, DType vt, EvalVal a, EvalVal b) {
    EvalVal in[2] = {a, b};
    return eval_op(op, type, vt, in);
}

static int64_t i32op(Op op, int64_t a, int64_t b) {
    return op2(op, DT_i32, DT_i32, I(a), I(b)).i;
}

static double real2(Op op, double a, double b) {
    return op2(op, DT_f32, DT_f32, R(a), R(b)).r;
}

static double real1(Op op, double a) {
    return op1(op, DT_f32, DT_f32, R(a)).r;
}

static bool compare(Op op, double a, double b) {
    return op2(op, DT_bool, DT_f32, R(a), R(b)).i != 0;
}

static void integers_wrap(void **st) {
    (void)st;
    assert_int_equal(i32op(OP_add, INT32_MAX, 1), INT32_MIN);
    assert_int_equal(i32op(OP_sub, INT32_MIN, 1), INT32_MAX);
    assert_int_equal(i32op(OP_mul, 65536, 65536), 0);
    assert_int_equal(i32op(OP_mul, 46341, 46341), -2147479015);
    assert_int_equal(op1(OP_neg, DT_i32, DT_i32, I(INT32_MIN)).i, INT32_MIN);
    assert_int_equal(op1(OP_abs, DT_i32, DT_i32, I(INT32_MIN)).i, INT32_MIN);
    assert_true(op2(OP_add, DT_i64, DT_i64, I(INT64_MAX), I(1)).i == INT64_MIN);
    assert_true(op2(OP_mul, DT_i64, DT_i64, I(INT64_MAX), I(2)).i == -2);
    assert_true(op1(OP_neg, DT_i64, DT_i64, I(INT64_MIN)).i == INT64_MIN);
}

static void integer_division_is_floor(void **st) {
    (void)st;
    for (int64_t a = -9; a <= 9; a++)
        for (int64_t b = 1; b <= 4; b++) {
            assert_int_equal(i32op(OP_idiv, a, b), (int64_t)floor((double)a / (double)b));
            assert_int_equal(i32op(OP_imod, a, b), a - b * (int64_t)floor((double)a / (double)b));
        }
    assert_int_equal(i32op(OP_idiv, 5, 0), 0); /* refused at launch; no trap here */
    assert_int_equal(i32op(OP_imod, 5, -2), 0);
    assert_int_equal(i32op(OP_max, -3, 2), 2);
    assert_int_equal(i32op(OP_min, -3, 2), -3);
    assert_int_equal(op1(OP_sign, DT_i32, DT_i32, I(-7)).i, -1);
}

static void nan_goes_through(void **st) { /* rule 6, CASES A55 */
    (void)st;
    static const Op both[] = {OP_add, OP_sub, OP_mul, OP_div, OP_min, OP_max};
    for (int k = 0; k < 6; k++) {
        assert_true(isnan(real2(both[k], NAN, 1)));
        assert_true(isnan(real2(both[k], 1, NAN)));
    }
    static const Op one[] = {OP_neg, OP_abs,  OP_sign, OP_floor,   OP_ceil, OP_round, OP_sqrt,
                             OP_exp, OP_tanh, OP_log,  OP_sigmoid, OP_erf,  OP_erfc};
    for (int k = 0; k < 13; k++) assert_true(isnan(real1(one[k], NAN)));
    static const Op cmp[] = {OP_eq, OP_lt, OP_le, OP_gt, OP_ge};
    for (int k = 0; k < 5; k++)
        assert_true(!compare(cmp[k], NAN, 1) && !compare(cmp[k], 1, NAN) &&
                    !compare(cmp[k], NAN, NAN));
    assert_true(compare(OP_ne, NAN, 1) && compare(OP_ne, NAN, NAN));
    EvalVal relu[3] = {I(compare(OP_lt, NAN, 0)), X(0), R(NAN)};
    assert_true(isnan(eval_op(OP_select, DT_f32, DT_f32, relu).r));
}

static void reals(void **st) {
    (void)st;
    assert_true(real1(OP_round, 2.5) == 2 && real1(OP_round, 3.5) == 4);
    assert_true(real1(OP_floor, -0.5) == -1 && signbit(real1(OP_ceil, -0.5)));
    assert_true(real1(OP_rsqrt, 4) == 0.5 && real1(OP_rsqrt, 0) == (double)INFINITY);
    assert_true(real1(OP_sign, -2.5) == -1 && real1(OP_sign, 0) == 0);
    assert_true(real1(OP_sigmoid, 0) == 0.5 && real1(OP_sigmoid, -800) == 0);
    assert_true(real1(OP_exp2, 10) == 1024 && real1(OP_log2, 8) == 3);
    assert_true(fabs(real1(OP_erfc, 5) - 1.5374597944280349e-12) < 1e-24);
    assert_true(real2(OP_pow, 2, 0.5) == sqrt(2.0));
    assert_true(real2(OP_div, 1, 3) == 1.0 / 3);
    assert_true(real2(OP_max, -INFINITY, 3) == 3);
    /* no rounding to f32 between ops: the reference is f64 */
    assert_true(real2(OP_add, 1, 0x1p-40) == 1 + 0x1p-40);
}

static void casts(void **st) {
    (void)st;
    assert_true(op1(OP_cast, DT_bf16, DT_f32, R(257)).r == 256);
    assert_true(op1(OP_cast, DT_e4m3, DT_f32, R(INFINITY)).r == 448);
    assert_int_equal(op1(OP_cast, DT_i8, DT_f32, R(300)).i, 127);
    assert_int_equal(op1(OP_cast, DT_i8, DT_i32, I(-300)).i, -128);
    assert_int_equal(op1(OP_cast, DT_u4, DT_f32, R(2.5)).i, 2);
    assert_int_equal(op1(OP_cast, DT_i32, DT_i64, I((int64_t)1 << 40)).i, INT32_MAX);
    assert_int_equal(op1(OP_cast, DT_i32, DT_bool, I(1)).i, 1);
    assert_true(op1(OP_cast, DT_f32, DT_bool, I(1)).r == 1);
    assert_int_equal(op1(OP_cast, DT_bool, DT_f32, R(NAN)).i, 1);
    assert_int_equal(op1(OP_cast, DT_bool, DT_f32, R(0.25)).i, 1);
    assert_true(op1(OP_cast, DT_f32, DT_i64, I(16777217)).r == 16777216); /* to nearest even */
    assert_true(eval_widen(DT_i32, DT_f32, I(16777219)).r == 16777220);
    assert_true(eval_const(DT_f32, 0.1, 0).r == (double)0.1f);
}

static bool unsure2(Op op, EvalVal a, EvalVal b) {
    return op2(op, DT_bool, DT_f32, a, b).unsure;
}

static void sureness(void **st) {
    (void)st;
    assert_true(unsure2(OP_lt, R(1e-6), X(0)));
    assert_true(!unsure2(OP_lt, R(1e-3), X(0)));
    assert_true(unsure2(OP_lt, R(1e6), R(1e6 + 1)));
    assert_true(!unsure2(OP_lt, X(0), X(0)) && !unsure2(OP_ge, X(1e-7), X(0)));
    assert_true(!unsure2(OP_eq, R(INFINITY), R(INFINITY)) && !unsure2(OP_lt, R(NAN), X(0)));
    assert_true(!op2(OP_lt, DT_bool, DT_i32, I(3), I(3)).unsure);
    assert_true(op1(OP_floor, DT_f32, DT_f32, R(3 - 1e-7)).unsure);
    assert_true(!op1(OP_floor, DT_f32, DT_f32, X(3)).unsure);
    assert_true(op1(OP_round, DT_f32, DT_f32, R(2.5)).unsure);
    assert_true(!op1(OP_round, DT_f32, DT_f32, R(3.0)).unsure);
    assert_true(op1(OP_cast, DT_i32, DT_f32, R(2.5)).unsure);
    assert_true(!op1(OP_cast, DT_i32, DT_f32, X(2.5)).unsure);
    /* exact goes through what a device computes exactly, and no further */
    assert_true(op2(OP_mul, DT_f32, DT_f32, X(3), X(0.5)).exact);
    assert_true(!op2(OP_mul, DT_f32, DT_f32, X((double)0.1f), X((double)0.1f)).exact);
    assert_true(!op2(OP_add, DT_f32, DT_f32, X(1), R(1)).exact);
    assert_true(!op1(OP_exp, DT_f32, DT_f32, X(0)).exact);
    assert_true(op1(OP_cast, DT_bf16, DT_f32, X(257)).exact);
    /* unsure spreads, but not through a select whose arms agree, nor a decided and/or */
    EvalVal maybe = {.i = 1, .unsure = true, .exact = true};
    EvalVal far[3] = {maybe, X(1), X(2)}, close[3] = {maybe, X(0), R(1e-7)};
    assert_true(eval_op(OP_select, DT_f32, DT_f32, far).unsure);
    assert_true(!eval_op(OP_select, DT_f32, DT_f32, close).unsure);
    assert_true(op2(OP_and, DT_bool, DT_bool, maybe, I(1)).unsure);
    assert_true(!op2(OP_and, DT_bool, DT_bool, maybe, I(0)).unsure);
    assert_true(!op2(OP_or, DT_bool, DT_bool, maybe, I(1)).unsure);
    EvalVal v = {.r = 3, .unsure = true};
    assert_true(op2(OP_mul, DT_f32, DT_f32, v, X(1)).unsure);
}

static void identities(void **st) {
    (void)st;
    assert_true(eval_identity(RED_sum, DT_f32).r == 0 && eval_identity(RED_prod, DT_f32).r == 1);
    assert_true(eval_identity(RED_max, DT_f32).r == -(double)INFINITY);
    assert_true(eval_identity(RED_min, DT_f32).r == (double)INFINITY);
    assert_int_equal(eval_identity(RED_max, DT_i32).i, INT32_MIN);
    assert_true(eval_identity(RED_min, DT_i64).i == INT64_MAX);
    assert_int_equal(eval_identity(RED_prod, DT_i32).i, 1);
}

/* Known answers of Random123's kat_vectors, philox4x32 with 10 rounds. */
static void philox(void **st) {
    (void)st;
    static const uint32_t kat[3][10] = {
        {0, 0, 0, 0, 0, 0, 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
        {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0x408f276d,
         0x41c83b0e, 0xa20bc7c6, 0x6d5451fd},
        {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0, 0xd16cfe09,
         0x94fdcceb, 0x5001e420, 0x24126ea1},
    };
    for (int k = 0; k < 3; k++) {
        uint32_t ctr[4] = {kat[k][0], kat[k][1], kat[k][2], kat[k][3]};
        eval_philox(ctr, kat[k][4], kat[k][5]);
        for (int i = 0; i < 4; i++) assert_int_equal(ctr[i], kat[k][6 + i]);
    }
    const int64_t idx[4] = {0x03707344, 0x13198a2e, 0x85a308d3, 2}; /* rule 12: word in % 4 */
    uint32_t ctr[4] = {0, 0x85a308d3, 0x13198a2e, 0x03707344};
    eval_philox(ctr, 0xa4093822, 0x299f31d0);
    assert_true(eval_random(0x299f31d0a4093822u, idx) == (float)(ctr[2] >> 8) / 16777216.0f);
    int64_t lo = 0;
    for (int64_t i = 0; i < 1 << 16; i++) { /* a uniform rate */
        const int64_t at[4] = {0, 0, 0, i};
        float u = eval_random(7, at);
        assert_true(u >= 0 && u < 1);
        lo += u < 0.25f;
    }
    assert_true(llabs(lo - (1 << 14)) < 450); /* 4 sigma */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers_wrap),
        cmocka_unit_test(integer_division_is_floor),
        cmocka_unit_test(nan_goes_through),
        cmocka_unit_test(reals),
        cmocka_unit_test(casts),
        cmocka_unit_test(sureness),
        cmocka_unit_test(identities),
        cmocka_unit_test(philox),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
