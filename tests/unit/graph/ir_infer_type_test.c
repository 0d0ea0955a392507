/* The type column of op.def, rule by rule, over every type. */
#include "graph_test.h"

static const char *why;

static DType of1(Op op, DType a) {
    return infer_op(op, &a, 1, &why);
}

static DType of2(Op op, DType a, DType b) {
    return infer_op(op, (DType[]){a, b}, 2, &why);
}

static DType of3(Op op, DType a, DType b, DType c) {
    return infer_op(op, (DType[]){a, b, c}, 3, &why);
}

#define TYPES(t) for (DType t = 0; t < DT_COUNT; t++)

/* Rule 5, said another way than infer.c says it. */
static DType meets(DType a, DType b) {
    if (a == DT_bool || b == DT_bool) return DT_none;
    if (dtype_class(a) == DC_REAL || dtype_class(b) == DC_REAL) return DT_f32;
    return a == DT_i64 || b == DT_i64 ? DT_i64 : DT_i32;
}

static void test_arith(void **state) {
    (void)state;
    TYPES(a) TYPES(b) {
        assert_int_equal(of2(OP_add, a, b), meets(a, b));
        assert_int_equal(of2(OP_max, a, b), meets(a, b));
    }
    TYPES(a) assert_int_equal(of1(OP_neg, a), meets(a, a));
    assert_int_equal(of2(OP_mul, DT_u4, DT_e4m3), DT_f32);
    assert_int_equal(of2(OP_mul, DT_u8, DT_i4), DT_i32);
    assert_int_equal(of2(OP_mul, DT_bf16, DT_bool), DT_none);
    assert_string_equal(why, "needs numbers, got bool");
}

static void test_real(void **state) {
    (void)state;
    TYPES(a)
    TYPES(b) assert_int_equal(of2(OP_div, a, b), meets(a, b) == DT_none ? DT_none : DT_f32);
    assert_int_equal(of1(OP_exp, DT_i64), DT_f32);
    assert_int_equal(of1(OP_exp, DT_bool), DT_none);
    assert_string_equal(why, "needs numbers, got bool");
}

static void test_int(void **state) {
    (void)state;
    TYPES(a) TYPES(b) {
        DType want = dtype_is_int(a) && dtype_is_int(b) ? meets(a, b) : DT_none;
        assert_int_equal(of2(OP_idiv, a, b), want);
        assert_int_equal(of2(OP_imod, a, b), want);
    }
    of2(OP_idiv, DT_i32, DT_f16);
    assert_string_equal(why, "needs integers, got f16");
}

static void test_cmp(void **state) {
    (void)state;
    TYPES(a)
    TYPES(b) assert_int_equal(of2(OP_le, a, b), meets(a, b) == DT_none ? DT_none : DT_bool);
    of2(OP_eq, DT_f32, DT_bool);
    assert_string_equal(why, "needs numbers, got bool");
}

static void test_logic(void **state) {
    (void)state;
    TYPES(a)
    TYPES(b) assert_int_equal(of2(OP_and, a, b), a == DT_bool && b == DT_bool ? DT_bool : DT_none);
    assert_int_equal(of1(OP_not, DT_bool), DT_bool);
    of2(OP_or, DT_bool, DT_f32);
    assert_string_equal(why, "needs conditions, got f32");
}

static void test_select(void **state) {
    (void)state;
    TYPES(a) TYPES(b) {
        DType both = a == DT_bool && b == DT_bool ? DT_bool : meets(a, b);
        assert_int_equal(of3(OP_select, DT_bool, a, b), both);
    }
    assert_int_equal(of3(OP_select, DT_i32, DT_f32, DT_f32), DT_none);
    assert_string_equal(why, "needs conditions, got i32");
    assert_int_equal(of3(OP_select, DT_bool, DT_bool, DT_f32), DT_none);
    assert_string_equal(why, "needs numbers, got bool");
}

static void test_within_and_same_keep_the_type(void **state) {
    (void)state;
    TYPES(a) {
        assert_int_equal(of2(OP_within, DT_bool, a), a);
        assert_int_equal(of1(OP_copy, a), a);
    }
    assert_int_equal(of2(OP_within, DT_f32, DT_f32), DT_none);
    assert_string_equal(why, "needs conditions, got f32");
}

static void test_rand(void **state) {
    (void)state;
    DType in[] = {DT_i32, DT_i64, DT_i64, DT_i64, DT_i64};
    assert_int_equal(infer_op(OP_rand, in, 5, &why), DT_f32);
    in[0] = DT_f32;
    assert_int_equal(infer_op(OP_rand, in, 5, &why), DT_none);
    assert_string_equal(why, "needs integers, got f32");
}

static void test_reductions(void **state) {
    (void)state;
    for (Reduce r = 0; r < RED_COUNT; r++)
        TYPES(a) assert_int_equal(infer_reduce(r, &a, 1, &why), meets(a, a));
    DType factors[] = {DT_u4, DT_i64, DT_bf16};
    assert_int_equal(infer_reduce(RED_contract, factors, 3, &why), DT_f32);
    assert_int_equal(infer_reduce(RED_contract, factors, 2, &why), DT_i64);
    factors[1] = DT_bool;
    assert_int_equal(infer_reduce(RED_contract, factors, 2, &why), DT_none);
    assert_string_equal(why, "needs numbers, got bool");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_arith),
        TEST(test_real),
        TEST(test_int),
        TEST(test_cmp),
        TEST(test_logic),
        TEST(test_select),
        TEST(test_within_and_same_keep_the_type),
        TEST(test_rand),
        TEST(test_reductions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
