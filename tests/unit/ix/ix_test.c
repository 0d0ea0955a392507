/* Integer expressions: the normal form, printing, bounds and proofs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "ir/ix.h"

static Arena arena;
static IxPool pool;
static const char *const size_names[] = {"M", "N", "E", "S", "T", "H"};
static const char *const axis_names[] = {"i", "j", "k"};
enum { M, N, E, S, T, H };

#define C(v)      ix_const(&pool, v)
#define SZ(s)     ix_size(&pool, s)
#define AX(k)     ix_axis(&pool, k)
#define ADD(a, b) ix_add(&pool, a, b)
#define SUB(a, b) ix_sub(&pool, a, b)
#define MUL(a, b) ix_mul(&pool, a, b)
#define DIV(a, b) ix_div(&pool, a, b)
#define MOD(a, b) ix_mod(&pool, a, b)

static int setup(void **state) {
    (void)state;
    ix_pool_init(&pool, &arena);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    arena_free(&arena);
    return 0;
}

static void prints(const Ix *x, const char *want) {
    Str s = {0};
    ix_print(&s, x, &(IxNames){.size = size_names, .axis = axis_names});
    assert_string_equal(str_get(&s), want);
    str_free(&s);
}

static void test_normal_form(void **state) {
    (void)state;
    assert_ptr_equal(ADD(SZ(M), SZ(N)), ADD(SZ(N), SZ(M)));
    assert_ptr_equal(MUL(ADD(SZ(M), C(1)), SUB(SZ(M), C(1))), SUB(MUL(SZ(M), SZ(M)), C(1)));
    assert_ptr_equal(SUB(ADD(AX(0), SZ(T)), AX(0)), SZ(T));
    prints(SUB(ADD(AX(0), SZ(T)), SZ(S)), "i - S + T");
    prints(MUL(C(2), ADD(SZ(M), AX(1))), "2*j + 2*M");
    prints(ix_neg(&pool, SZ(M)), "-M");
    prints(DIV(ADD(SZ(M), C(127)), C(128)), "(M + 127)/128");
}

static void test_quotients(void **state) {
    (void)state;
    assert_ptr_equal(DIV(MUL(C(8), SZ(M)), C(8)), SZ(M));
    assert_ptr_equal(DIV(ADD(MUL(C(8), SZ(M)), C(7)), C(8)), SZ(M));
    assert_ptr_equal(DIV(SUB(MUL(C(8), SZ(M)), C(1)), C(8)), SUB(SZ(M), C(1)));
    assert_ptr_equal(DIV(DIV(SZ(M), C(4)), C(2)), DIV(SZ(M), C(8)));
    assert_ptr_equal(DIV(MUL(SZ(M), SZ(N)), SZ(N)), SZ(M));
    assert_ptr_equal(MOD(ADD(MUL(C(4), SZ(M)), C(3)), C(4)), C(3));
    assert_ptr_equal(MOD(MOD(AX(0), C(12)), C(4)), MOD(AX(0), C(4)));
    prints(MOD(MOD(AX(0), C(10)), C(4)), "(i%10)%4");
}

static void test_never_folds_a_modulo_that_does_not_divide(void **state) {
    (void)state; /* CASES A10 */
    const Ix *x = MOD(MOD(AX(0), C(48)), C(32));
    int64_t axis[] = {50};
    bool ok = true;
    assert_int_equal(ix_eval(x, &(IxEnv){.axis = axis}, &ok), 2);
    assert_ptr_not_equal(x, MOD(AX(0), C(32)));
}

static void test_eval_matches_arithmetic(void **state) {
    (void)state;
    uint64_t seed = 1;
    for (int round = 0; round < 2000; round++) {
        const Ix *x = C(0);
        int64_t want = 0, size[] = {0}, axis[3];
        for (int k = 0; k < 3; k++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            axis[k] = (int64_t)(seed >> 58) - 20;
        }
        for (int step = 0; step < 8; step++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            int op = (int)(seed >> 33) % 5, k = (int)(seed >> 40) % 3;
            int64_t c = (int64_t)(seed >> 50) % 9 + 1;
            if (op == 0) x = ADD(x, AX(k)), want += axis[k];
            if (op == 1) x = MUL(x, C(c)), want *= c;
            if (op == 2) x = DIV(ADD(x, AX(k)), C(c)), want = floor_div(want + axis[k], c);
            if (op == 3) x = MOD(SUB(x, AX(k)), C(c)), want = floor_mod(want - axis[k], c);
            if (op == 4) x = SUB(x, MUL(C(c), AX(k))), want -= c * axis[k];
        }
        bool ok = true;
        assert_int_equal(ix_eval(x, &(IxEnv){.size = size, .axis = axis}, &ok), want);
        assert_true(ok);
    }
}

static void test_eval_reports(void **state) {
    (void)state;
    int64_t size[] = {0, INT64_MAX};
    bool ok = true;
    ix_eval(DIV(AX(0), SZ(M)), &(IxEnv){size, (int64_t[]){4}, NULL, NULL}, &ok);
    assert_false(ok);
    ok = true;
    ix_eval(ADD(SZ(N), C(1)), &(IxEnv){.size = size}, &ok);
    assert_false(ok);
}

static bool inside(const Ix *x, const Ix *dim, const Ix *const *facts, int n) {
    const Ix *ext[] = {SZ(S), SZ(T), SZ(E)};
    return ix_prove_nonneg(&pool, x, ext, 3, facts, n) &&
           ix_prove_nonneg(&pool, SUB(SUB(dim, C(1)), x), ext, 3, facts, n);
}

static void test_proofs(void **state) {
    (void)state;
    const Ix *i = AX(0), *j = AX(1), *e = AX(2);
    assert_true(inside(i, SZ(S), NULL, 0));
    assert_false(inside(i, SZ(T), NULL, 0));
    assert_true(inside(SUB(ADD(SUB(i, j), SZ(T)), C(1)), ADD(SZ(S), SZ(T)), NULL, 0));
    assert_true(inside(ADD(MUL(C(2), e), C(1)), MUL(C(2), SZ(E)), NULL, 0));
    assert_false(inside(ADD(MUL(C(2), e), C(2)), MUL(C(2), SZ(E)), NULL, 0));
    assert_true(inside(MOD(ADD(e, DIV(SZ(E), C(2))), SZ(E)), SZ(E), NULL, 0));
    assert_true(inside(MOD(j, C(16)), C(16), NULL, 0));
    assert_true(inside(DIV(i, C(128)), DIV(ADD(SZ(S), C(127)), C(128)), NULL, 0));
    assert_false(inside(SUB(i, C(1)), SZ(S), NULL, 0));
    assert_true(inside(SUB(i, C(1)), SZ(S), (const Ix *[]){SUB(i, C(1))}, 1));
    assert_true(inside(SUB(i, j), SZ(S), (const Ix *[]){SUB(i, j)}, 1));
    assert_true(ix_prove_nonneg(&pool, SUB(SZ(E), DIV(SZ(E), C(2))), NULL, 0, NULL, 0));
    assert_true(ix_prove_nonneg(&pool, SUB(SZ(E), C(1)), NULL, 0, NULL, 0));
    assert_false(ix_prove_nonneg(&pool, SUB(SZ(E), C(2)), NULL, 0, NULL, 0));
    assert_false(ix_prove_nonneg(&pool, SUB(SZ(S), SZ(T)), NULL, 0, NULL, 0));
}

static void test_keeps_the_two_strongest_facts(void **state) {
    (void)state;
    const Ix *weak = SUB(SZ(S), C(2)), *strong = SUB(SZ(S), C(5)), *next = SUB(SZ(S), C(4));
    const Ix *fact[] = {weak, SZ(T), strong, C(1), next};
    assert_int_equal(ix_strongest(fact, 5), 4);
    assert_ptr_equal(fact[0], strong);
    assert_ptr_equal(fact[1], next);
    assert_ptr_equal(fact[2], SZ(T));
    assert_ptr_equal(fact[3], C(1));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_normal_form, setup, teardown),
        cmocka_unit_test_setup_teardown(test_quotients, setup, teardown),
        cmocka_unit_test_setup_teardown(test_never_folds_a_modulo_that_does_not_divide, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_eval_matches_arithmetic, setup, teardown),
        cmocka_unit_test_setup_teardown(test_eval_reports, setup, teardown),
        cmocka_unit_test_setup_teardown(test_proofs, setup, teardown),
        cmocka_unit_test_setup_teardown(test_keeps_the_two_strongest_facts, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
