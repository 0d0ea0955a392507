/* backend_test.c - every op and every type is lowered and, where ptxas is there, assembled for the
 * general target and for sm_90a; what the PTX must and must not contain.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "tests/unit/backend/build.h"

static const char *const sizes[] = {"M", "N", "K"};
static const char *ptxas;
static Arena forever;

static int setup(void **state) {
    (void)state;
    ptxas = ptxas_find(&forever, NULL);
    if (!ptxas) printf("SKIP: no ptxas here, the PTX is not assembled\n");
    return 0;
}

static int teardown(void **state) {
    (void)state;
    arena_free(&forever);
    return 0;
}

static void must_lower(Build *b, const char *target) {
    bool ok = build_lower(b, target, 0, NULL);
    if (!ok) {
        Str s = {0};
        diag_print(&b->d, &s, false);
        fail_msg("%s", str_get(&s));
    }
    if (!ptxas) return;
    const char *message;
    PtxasStatus st = ptxas_run(&b->arena, ptxas, &b->k, target, &message);
    if (st != PTXAS_OK) fail_msg("%s\n%s", message, b->k.ptx);
    assert_true(b->k.stats.regs > 0);
    assert_int_equal(b->k.cubins.n, 1);
}

static void must_contain(const Build *b, const char *text) {
    if (!strstr(b->k.ptx, text)) fail_msg("no '%s' in\n%s", text, b->k.ptx);
}

static void must_not_contain(const Build *b, const char *text) {
    if (strstr(b->k.ptx, text)) fail_msg("'%s' in\n%s", text, b->k.ptx);
}

/* y[i] = op(operands of the rule's types, loaded from inputs). */
static void build_one_op(Build *b, Op op, DType operand, DType result) {
    build_init(b, sizes, 3);
    int i = build_add_axis(b, "i", build_size(b, 0), true, 32, 2, 1);
    const Ix *at = build_axis(b, i);
    int args[8];
    for (int k = 0; k < op_arity(op); k++) {
        DType t = operand;
        if (op == OP_rand) t = k ? DT_i32 : DT_i64;
        if ((op == OP_select || op == OP_within) && !k) t = DT_bool;
        int x =
            build_tensor(b, TM_IN, arena_printf(&b->arena, "x%d", k), t, 1, build_size(b, 0), NULL);
        args[k] = build_load(b, x, at, NULL, 0);
    }
    int v = build_op(b, op, result, op_arity(op), args);
    int y = build_tensor(b, TM_OUT, "y", result, 1, build_size(b, 0), NULL);
    build_store(b, y, at, NULL, v);
}

static void one_op(Op op, DType operand, DType result, const char *target) {
    Build b;
    build_one_op(&b, op, operand, result);
    must_lower(&b, target);
    must_not_contain(&b, "call");
    must_not_contain(&b, ".local");
    must_not_contain(&b, ".f64");
    build_free(&b);
}

static void every_op(void **state) {
    (void)state;
    for (int op = 0; op < OP_COUNT; op++) {
        switch (op_rule((Op)op)) {
        case RULE_arith:
        case RULE_select:
        case RULE_within:
        case RULE_same:
            one_op((Op)op, DT_f32, DT_f32, "sm_80");
            one_op((Op)op, DT_i32, DT_i32, "sm_80");
            one_op((Op)op, DT_i64, DT_i64, "sm_90a");
            break;
        case RULE_real: one_op((Op)op, DT_f32, DT_f32, "sm_80"); break;
        case RULE_int:
            one_op((Op)op, DT_i32, DT_i32, "sm_80");
            one_op((Op)op, DT_i64, DT_i64, "sm_90a");
            break;
        case RULE_cmp:
            one_op((Op)op, DT_f32, DT_bool, "sm_80");
            one_op((Op)op, DT_i32, DT_bool, "sm_80");
            one_op((Op)op, DT_i64, DT_bool, "sm_90a");
            break;
        case RULE_logic: one_op((Op)op, DT_bool, DT_bool, "sm_80"); break;
        case RULE_cast: break; /* every_cast */
        case RULE_rand: one_op((Op)op, DT_i64, DT_f32, "sm_80"); break;
        }
    }
}

/* Every type is loaded, cast to every type, and stored; also with the pairs of a 4-bit row. */
static void every_cast(void **state) {
    (void)state;
    for (int from = 0; from < DT_COUNT; from++)
        for (int to = 0; to < DT_COUNT; to++) {
            Build b;
            build_init(&b, sizes, 3);
            int m = build_add_axis(&b, "m", build_size(&b, 0), true, 1, 1, 1);
            int n = build_add_axis(&b, "n", build_size(&b, 1), true, 32, 2, 2);
            const Ix *i = build_axis(&b, m), *j = build_axis(&b, n);
            const Ix *rows = build_size(&b, 0), *cols = build_size(&b, 1);
            int x = build_tensor(&b, TM_IN, "x", (DType)from, 2, rows, cols);
            int y = build_tensor(&b, TM_OUT, "y", (DType)to, 2, rows, cols);
            int v = build_op1(&b, OP_cast, (DType)to, build_load(&b, x, i, j, 0));
            build_store(&b, y, i, j, v);
            must_lower(&b, to % 2 ? "sm_90a" : "sm_80");
            must_not_contain(&b, ".f64");
            build_free(&b);
        }
}

static void ieee(void **state) {
    (void)state;
    struct {
        Op op;
        const char *text;
    } want[] = {{OP_div, "div.rn.f32"},    {OP_sqrt, "sqrt.rn.f32"}, {OP_rsqrt, "sqrt.rn.f32"},
                {OP_rsqrt, "rcp.rn.f32"},  {OP_max, "max.NaN.f32"},  {OP_min, "min.NaN.f32"},
                {OP_round, "cvt.rni.f32"}, {OP_floor, "cvt.rmi.f32"}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        Build b;
        build_one_op(&b, want[i].op, DT_f32, DT_f32);
        must_lower(&b, "sm_80");
        must_contain(&b, want[i].text);
        must_not_contain(&b, "approx");
        must_not_contain(&b, ".ftz");
        build_free(&b);
    }
}

/* y[m, n] = sum[k] x[m, k] * w[n, k] on registers of 8 x 4 */
static void build_contraction(Build *b, DType t, int lanes_k) {
    build_init(b, sizes, 3);
    const Ix *M = build_size(b, 0), *N = build_size(b, 1), *K = build_size(b, 2);
    int m = build_add_axis(b, "m", M, true, 4, 8, 1), n = build_add_axis(b, "n", N, true, 16, 4, 1);
    int k = build_add_axis(b, "k", K, false, lanes_k, 2, 1);
    int x = build_tensor(b, TM_IN, "x", t, 2, M, K), w = build_tensor(b, TM_IN, "w", t, 2, N, K);
    int y = build_tensor(b, TM_OUT, "y", DT_f32, 2, M, N);
    BuildLoop l = build_loop(b, k, RED_sum, DT_f32);
    int p = build_load(b, x, build_axis(b, m), build_axis(b, k), 0);
    int q = build_load(b, w, build_axis(b, n), build_axis(b, k), 0);
    build_step(b, l.carry, build_op2(b, OP_mul, DT_f32, p, q));
    b->at = l.outer;
    build_store(b, y, build_axis(b, m), build_axis(b, n), l.carry);
}

static void contraction(void **state) {
    (void)state;
    Build b;
    build_contraction(&b, DT_f32, 1);
    must_lower(&b, "sm_90a");
    must_contain(&b, "fma.rn.f32");
    must_contain(&b, ".reqntid 64, 1, 1");
    must_not_contain(&b, ".local");
    must_not_contain(&b, "bar.sync");
    if (ptxas) {
        assert_int_equal(b.k.stats.spill_bytes, 0);
        assert_int_equal(b.k.stats.stack, 0);
    }
    build_free(&b);
    build_contraction(&b, DT_bf16, 4); /* lanes on k: warps meet in shared memory */
    must_lower(&b, "sm_80");
    must_contain(&b, "bar.sync");
    if (ptxas) assert_true(b.k.stats.smem > 0);
    build_free(&b);
}

static void strict_does_not_contract(void **state) {
    (void)state;
    Build b;
    build_contraction(&b, DT_f32, 1);
    BackendOptions o = {.target = target_named("sm_80"), .strict = true};
    Step st = {.name = "test.0", .tile = b.t};
    assert_true(backend_lower(&b.arena, NULL, &st, &b.s, &o, &b.d, &b.k, NULL));
    must_not_contain(&b, "fma.rn.f32");
    must_contain(&b, "mul.rn.f32");
    must_contain(&b, "add.rn.f32");
    build_free(&b);
}

/* CASES A13, A15: one grid dimension, 64-bit offsets. */
static void large(void **state) {
    (void)state;
    Build b;
    build_one_op(&b, OP_abs, DT_f32, DT_f32);
    must_lower(&b, "sm_80");
    must_contain(&b, "%ctaid.x");
    must_not_contain(&b, "%ctaid.y");
    must_contain(&b, "mul.lo.s64");
    int64_t big = (int64_t)1 << 40, v;
    bool ok = true;
    IxEnv env = {.size = (int64_t[]){big, 1, 1}};
    v = ix_eval(b.k.tiles, &env, &ok);
    assert_true(ok && v == big / 64);
    v = ix_eval(b.k.grid, &env, &ok);
    assert_true(ok && v == INT32_MAX);
    build_free(&b);
}

static void too_many_parameters(void **state) {
    (void)state;
    Build b;
    build_init(&b, sizes, 3);
    int i = build_add_axis(&b, "i", build_size(&b, 0), true, 32, 1, 1);
    const Ix *at = build_axis(&b, i);
    int sum = build_real(&b, 0);
    for (int k = 0; k < 260; k++) {
        const char *name = arena_printf(&b.arena, "x%d", k);
        int x = build_tensor(&b, TM_IN, name, DT_f32, 1, build_size(&b, 0), NULL);
        sum = build_op2(&b, OP_add, DT_f32, sum, build_load(&b, x, at, NULL, 0));
    }
    int y = build_tensor(&b, TM_OUT, "y", DT_f32, 1, build_size(&b, 0), NULL);
    build_store(&b, y, at, NULL, sum);
    assert_false(build_lower(&b, "sm_80", 70, NULL));
    assert_int_equal(b.d.errors, 1);
    assert_string_equal(b.d.list.v[0].rule, "kernel-parameters");
    assert_string_equal(b.d.list.v[0].text, "kernel 'test_0' needs 4192 bytes of parameters; sm_80 "
                                            "with PTX 7.0 allows 4096");
    must_lower(&b, "sm_90a"); /* left to choose, it takes PTX 8.1 */
    assert_int_equal(b.k.ptx_version, 81);
    build_free(&b);
}

static void versions(void **state) {
    (void)state;
    Build b;
    build_one_op(&b, OP_abs, DT_f32, DT_f32);
    assert_false(build_lower(&b, "sm_90a", 78, NULL));
    assert_string_equal(b.d.list.v[0].text, "sm_90a needs PTX 8.0 to 8.5, PTX 7.8 was asked for");
    assert_true(build_lower(&b, "sm_90a", 83, NULL));
    must_contain(&b, ".version 8.3");
    must_contain(&b, ".target sm_90a");
    assert_int_equal(strncmp(backend_llvm_version(), "19.", 3), 0);
    build_free(&b);
}

static void deterministic(void **state) {
    (void)state;
    Build a, b;
    build_contraction(&a, DT_bf16, 4);
    build_contraction(&b, DT_bf16, 4);
    assert_true(build_lower(&a, "sm_80", 0, NULL));
    assert_true(build_lower(&b, "sm_80", 0, NULL));
    assert_string_equal(a.k.ptx, b.k.ptx);
    build_free(&a);
    build_free(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_op),      cmocka_unit_test(every_cast),
        cmocka_unit_test(ieee),          cmocka_unit_test(contraction),
        cmocka_unit_test(large),         cmocka_unit_test(strict_does_not_contract),
        cmocka_unit_test(versions),      cmocka_unit_test(too_many_parameters),
        cmocka_unit_test(deterministic),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
