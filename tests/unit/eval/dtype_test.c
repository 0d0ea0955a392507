/* dtype_test.c - element types against definitions written out again here, and the op tables. */
#include "test.h"

#include <math.h>
#include <string.h>

#include "ir/eval.h"
#include "ir/op.h"
#include "ir/target.h"

/* The value of a bit pattern, from the format's definition. NaN where it is none. */
static double decode(DType t, unsigned b) {
    int bits = t == DT_f16 || t == DT_bf16 ? 16 : 8;
    int mant = t == DT_f16 ? 10 : t == DT_bf16 ? 7 : t == DT_e4m3 ? 3 : 2;
    int ebits = bits - 1 - mant, bias = (1 << (ebits - 1)) - 1;
    int e = (int)(b >> mant) & ((1 << ebits) - 1);
    int m = (int)b & ((1 << mant) - 1);
    double s = b >> (bits - 1) ? -1 : 1;
    if (t == DT_e4m3) {
        if (e == 15 && m == 7) return (double)NAN;
    } else if (e == (1 << ebits) - 1) {
        return m ? (double)NAN : s * (double)INFINITY;
    }
    if (e == 0) return s * m * pow(2, 1 - bias - mant);
    return s * (1 + m * pow(2, -mant)) * pow(2, e - bias);
}

static void every_pattern_loads_and_stores(void **st) {
    (void)st;
    static const DType types[] = {DT_f16, DT_bf16, DT_e4m3, DT_e5m2};
    for (int k = 0; k < 4; k++) {
        DType t = types[k];
        for (unsigned b = 0; b < 1u << dtype_bits(t); b++) {
            unsigned char mem[2] = {(unsigned char)b, (unsigned char)(b >> 8)}, out[2] = {0, 0};
            double v = 7, want = decode(t, b);
            dtype_load(t, mem, 0, &v, NULL);
            if (isnan(want)) {
                assert_true(isnan(v));
                dtype_store(t, out, 0, v, 0);
                dtype_load(t, out, 0, &v, NULL);
                assert_true(isnan(v));
                continue;
            }
            assert_true(v == want && !signbit(v) == !signbit(want));
            assert_true(isinf(v) || dtype_round(t, v) == v);
            dtype_store(t, out, 0, v, 0);
            unsigned again = out[0] | (dtype_bits(t) == 16 ? (unsigned)out[1] << 8 : 0);
            if (t == DT_e5m2 && isinf(v))
                assert_int_equal(again & 0x7F, 0x7B); /* saturates */
            else
                assert_int_equal(again, b);
        }
    }
}

/* Nearest representable by search over all patterns; a tie goes to the even pattern. */
static double nearest(DType t, double v) {
    unsigned best = 0;
    double dist = (double)INFINITY;
    for (unsigned b = 0; b < 1u << (dtype_bits(t) - 1); b++) {
        double x = decode(t, b);
        if (isnan(x) || isinf(x)) continue;
        double d = fabs(x - fabs(v));
        if (d < dist || (d == dist && b % 2 == 0)) best = b, dist = d;
    }
    return copysign(decode(t, best), v);
}

static void rounds_to_nearest_even(void **st) {
    (void)st;
    static const DType types[] = {DT_f16, DT_bf16, DT_e4m3, DT_e5m2};
    for (int k = 0; k < 4; k++) {
        DType t = types[k];
        unsigned top = 1u << (dtype_bits(t) - 1), step = dtype_bits(t) == 16 ? 389 : 1;
        for (unsigned b = 0; b + 1 < top; b += step) {
            double lo = decode(t, b), hi = decode(t, b + 1), mid = lo + (hi - lo) / 2;
            if (isnan(lo) || isnan(hi) || isinf(lo) || isinf(hi)) continue;
            double try[] = {mid, nextafter(mid, 0), nextafter(mid, 1e300), lo + (hi - lo) / 3};
            for (int i = 0; i < 4; i++)
                for (int s = -1; s <= 1; s += 2)
                    assert_true(dtype_round(t, s * try[i]) == nearest(t, s * try[i]));
        }
    }
    for (double v = 1e-45; v < 1e39; v *= 1.37)
        assert_true(dtype_round(DT_f32, v) == (double)(float)v);
    assert_true(dtype_round(DT_f32, 0x1p-149 * 1.5) == 0x1p-148);
    assert_true(dtype_round(DT_f32, 0x1p-150) == 0);
    assert_true(signbit(dtype_round(DT_f32, -0x1p-160)));
}

static void overflow(void **st) { /* CASES A46, A57 */
    (void)st;
    assert_true(dtype_round(DT_f16, 65519) == 65504);
    assert_true(isinf(dtype_round(DT_f16, 65520)));
    assert_true(isinf(dtype_round(DT_f16, 1e300)) && dtype_round(DT_f16, -1e300) < 0);
    assert_true(isinf(dtype_round(DT_bf16, 3.4e38)));
    assert_true(isinf(dtype_round(DT_f32, 3.5e38)));
    static const double in[] = {448, 464, 465, 1e3, -1e3, INFINITY, -INFINITY, 1e300};
    static const double out[] = {448, 448, 448, 448, -448, 448, -448, 448};
    for (int i = 0; i < 8; i++) {
        assert_true(dtype_round(DT_e4m3, in[i]) == out[i]);
        unsigned char b;
        dtype_store(DT_e4m3, &b, 0, in[i], 0);
        assert_int_equal(b, out[i] < 0 ? 0xFE : 0x7E);
    }
    unsigned char b;
    dtype_store(DT_e4m3, &b, 0, NAN, 0);
    assert_int_equal(b, 0x7F);
    assert_true(isnan(dtype_round(DT_e4m3, NAN)) && isnan(dtype_round(DT_e5m2, NAN)));
    assert_true(dtype_round(DT_e5m2, INFINITY) == 57344 && dtype_round(DT_e5m2, 6e4) == 57344);
}

static void to_integers(void **st) {
    (void)st;
    assert_int_equal(dtype_to_int(DT_i32, 2.5), 2);
    assert_int_equal(dtype_to_int(DT_i32, 3.5), 4);
    assert_int_equal(dtype_to_int(DT_i32, -2.5), -2);
    assert_int_equal(dtype_to_int(DT_i32, NAN), 0);
    assert_int_equal(dtype_to_int(DT_i32, 1e10), INT32_MAX);
    assert_int_equal(dtype_to_int(DT_i64, 1e30), INT64_MAX);
    assert_int_equal(dtype_to_int(DT_i64, -INFINITY), INT64_MIN);
    assert_int_equal(dtype_to_int(DT_i64, 0x1p63), INT64_MAX);
    assert_int_equal(dtype_to_int(DT_u8, -3), 0);
    assert_int_equal(dtype_to_int(DT_u8, 255.5), 255);
    assert_int_equal(dtype_to_int(DT_i4, 9), 7);
    assert_int_equal(dtype_to_int(DT_i4, -9), -8);
    assert_int_equal(dtype_clamp(DT_u4, 100), 15);
    assert_int_equal(dtype_clamp(DT_i8, -1000), -128);
    assert_int_equal(dtype_lowest(DT_i64), INT64_MIN);
    assert_int_equal(dtype_highest(DT_i64), INT64_MAX);
}

static void integer_memory(void **st) {
    (void)st;
    unsigned char mem[32];
    static const DType types[] = {DT_i64, DT_i32, DT_i8, DT_u8, DT_i4, DT_u4, DT_bool};
    for (int k = 0; k < 7; k++) {
        DType t = types[k];
        for (int side = 0; side < 2; side++) {
            memset(mem, 0xA5, sizeof mem);
            int64_t v = side ? dtype_highest(t) : dtype_lowest(t), got = 0;
            dtype_store(t, mem, 1, 0, v);
            dtype_load(t, mem, 1, NULL, &got);
            assert_true(got == v);
            int bytes = dtype_bits(t) == 4 ? 0 : dtype_bits(t) / 8; /* nothing around it moved */
            for (int i = 0; i < 32; i++)
                if (bytes ? i < bytes || i >= 2 * bytes : i > 0) assert_int_equal(mem[i], 0xA5);
            if (!bytes) assert_int_equal(mem[0] & 15, 5);
        }
    }
    int64_t got = 0;
    mem[0] = 0x8F; /* low half first */
    dtype_load(DT_i4, mem, 0, NULL, &got);
    assert_int_equal(got, -1);
    dtype_load(DT_i4, mem, 1, NULL, &got);
    assert_int_equal(got, -8);
    dtype_load(DT_u4, mem, 1, NULL, &got);
    assert_int_equal(got, 8);
    mem[0] = 2;
    dtype_load(DT_bool, mem, 0, NULL, &got);
    assert_int_equal(got, 1);
}

static void tables(void **st) {
    (void)st;
    for (int i = 0; i < OP_COUNT; i++)
        assert_int_equal(op_named(op_name((Op)i), strlen(op_name((Op)i))), i);
    assert_int_equal(op_named("softmax", 7), OP_COUNT);
    assert_int_equal(op_arity(OP_rand), 5);
    assert_int_equal(op_traits(OP_mul), OPT_C | OPT_A | OPT_Z | OPT_Y);
    assert_int_equal(op_traits(OP_max), OPT_C | OPT_A | OPT_I);
    for (int i = 0; i < OP_COUNT; i++) { /* f(a, a) = a */
        EvalVal a[2] = {{.r = -2.5}, {.r = -2.5}};
        bool same = op_rule((Op)i) == RULE_arith && op_arity((Op)i) == 2 &&
                    eval_op((Op)i, DT_f32, DT_f32, a).r == -2.5;
        if (op_rule((Op)i) == RULE_arith) assert_int_equal(same, (op_traits((Op)i) & OPT_I) != 0);
    }
    assert_int_equal(op_sep(OP_exp), SEP_hom);
    assert_int_equal(reduce_combine(RED_contract), OP_add);
    assert_int_equal(reduce_named("max", 3), RED_max);
    assert_int_equal(dtype_named("bf16", 4), DT_bf16);
    assert_int_equal(dtype_named("bf1", 3), DT_none);
    assert_int_equal(dtype_value(DT_u4), DT_i32);
    DType in[3] = {DT_bool, DT_i8, DT_bf16};
    assert_int_equal(op_operand(OP_select, in, 0), DT_bool);
    assert_int_equal(op_operand(OP_select, in, 1), DT_f32);
    assert_int_equal(op_operand(OP_within, in, 1), DT_i8);
    DType ii[2] = {DT_u8, DT_i64};
    assert_int_equal(op_operand(OP_lt, ii, 0), DT_i64);
    assert_int_equal(op_operand(OP_div, ii, 0), DT_f32);
    assert_string_equal(target_named("sm_90a")->part, "H200");
    assert_true(target_named("sm_90a")->has & TGT_W && !(target_named("sm_80")->has & TGT_F));
    assert_null(target_named("sm_10"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pattern_loads_and_stores),
        cmocka_unit_test(rounds_to_nearest_even),
        cmocka_unit_test(overflow),
        cmocka_unit_test(to_integers),
        cmocka_unit_test(integer_memory),
        cmocka_unit_test(tables),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
