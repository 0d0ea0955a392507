// The .fkm format: bytes that read back, bytes that must be refused, expressions.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "sample.h"

static unsigned char *encode(const FkmModule *m, size_t *n) {
    FkmError error = {""};
    unsigned char *bytes = fkm_encode(m, n, &error);
    if (!bytes) fail_msg("%s", error.text);
    return bytes;
}

static FkmModule *decode(const unsigned char *bytes, size_t n, FkmError *error) {
    // A copy of exactly n bytes, so that the sanitizer sees a read beyond; it lives as long as the
    // tree.
    static void *copy;
    free(copy);
    copy = malloc(n ? n : 1);
    memcpy(copy, bytes, n);
    return fkm_decode(copy, n, error);
}

static void reads_back(void **state) {
    (void)state;
    size_t n, again;
    FkmError error;
    unsigned char *bytes = encode(&sample, &n);
    FkmModule *m = decode(bytes, n, &error);
    assert_non_null(m);
    assert_int_equal(m->n_fns, 3);
    assert_string_equal(m->fns[0].tensors[1].name, "w");
    assert_int_equal(m->fns[0].tensors[3].first_dim, 4);
    assert_string_equal(m->fns[1].tensors[2].dims[0].text, "S + T");
    assert_null(m->fns[1].graph);
    assert_memory_equal(m->kernels[0].cubins[0].bytes, "CUBIN90", 7);
    assert_int_equal(m->kernels[0].cubins[0].regs, 168);
    assert_int_equal(m->kernels[0].cubins[0].shared, 1024);
    assert_int_equal(m->kernels[0].cubins[0].stack, 16);
    assert_int_equal(m->kernels[0].cubins[0].spills, 24);
    unsigned char *bytes2 = encode(m, &again); // equal bytes: equal trees
    assert_int_equal(n, again);
    assert_memory_equal(bytes, bytes2, n);
    fkm_free(m);
    free(bytes);
    free(bytes2);
}

static void refuses_truncated(void **state) {
    (void)state;
    size_t n;
    FkmError error;
    unsigned char *bytes = encode(&sample, &n);
    for (size_t k = 0; k < n; k++) {
        assert_null(decode(bytes, k, &error));
        if (k < 32) continue;
        unsigned char *part = malloc(k);
        memcpy(part, bytes, k);
        fkm_seal(part, k); // as if it had been written so
        assert_null(decode(part, k, &error));
        free(part);
    }
    free(bytes);
}

static void survives_flips(void **state) {
    (void)state;
    size_t n;
    FkmError error;
    unsigned char *bytes = encode(&sample, &n);
    for (size_t bit = 0; bit < n * 8; bit++) {
        bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
        assert_null(decode(bytes, n, &error)); // the checksum sees every one
        if (bit >= 32 * 8) {
            unsigned char *copy = malloc(n);
            memcpy(copy, bytes, n);
            fkm_seal(copy, n);
            fkm_free(decode(copy, n, &error)); // valid or not, but no crash
            free(copy);
        }
        bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    free(bytes);
}

static void says_what_is_wrong(void **state) {
    (void)state;
    size_t n;
    FkmError error;
    unsigned char *bytes = encode(&sample, &n);
    assert_null(decode(bytes, n - 1, &error));
    assert_string_equal(error.text, "its length is not what its header says");
    assert_null(decode(bytes, 5, &error));
    assert_string_equal(error.text, "the file is truncated");
    bytes[n - 1] ^= 1;
    assert_null(decode(bytes, n, &error));
    assert_string_equal(error.text, "its checksum is wrong");
    bytes[8] = 99;
    assert_null(decode(bytes, n, &error));
    assert_string_equal(error.text, "its format is version 99, this library reads version 5");
    bytes[0] = 'x';
    assert_null(decode(bytes, n, &error));
    assert_string_equal(error.text, "it does not begin like an fkm module");
    free(bytes);
}

// A change of the sample that fkm_check must refuse with this text.
#define REFUSES(field, value, why)                                                                 \
    do {                                                                                           \
        __typeof__(field) kept_ = field;                                                           \
        FkmError error_ = {""};                                                                    \
        size_t n_;                                                                                 \
        field = value;                                                                             \
        assert_null(fkm_encode(&sample, &n_, &error_));                                            \
        field = kept_;                                                                             \
        assert_string_equal(error_.text, why);                                                     \
    } while (0)

static void checks_the_tree(void **state) {
    (void)state;
    FkmFn *f = sample_fns;
    FkmVariant *v = f->steps[0].variants;
    FkmLaunch *l = v[1].launches;
    REFUSES(f->tensors[0].dtype, 77, "fn 'linear': 'x' has an unknown dtype");
    REFUSES(f->tensors[1].is_output, true, "fn 'linear': an input follows an output");
    REFUSES(f->tensors[0].dims[0].text, NULL, "fn 'linear': a dimension without its text");
    REFUSES(f->tensors[0].dims[0].size.code[0], FKM_SIZE(3),
            "fn 'linear': a dimension has a size that does not exist");
    REFUSES(f->tensors[0].dims[0].size.code[0], FKM_EXTENT(0, 0),
            "fn 'linear': a dimension has an extent where none is known");
    REFUSES(sample.left_out[0].name, "", "a left-out fn without a name");
    REFUSES(sample.left_out[0].reason, NULL, "a left-out fn without a reason");
    REFUSES(f->n_solves, 2, "fn 'linear': no equation solves N");
    REFUSES(f->solves[2].size, 0, "fn 'linear': M is solved twice");
    REFUSES(f->solves[2].dim, 9, "fn 'linear': an equation names what does not exist");
    REFUSES(f->n_temps, 9000, "fn 'linear': it has 9000 temporaries, the most is 8192");
    REFUSES(f->steps[0].n_variants, 0, "fn 'linear': a step without variants");
    REFUSES(v[0].arch, "sm90", "fn 'linear': a variant for no architecture");
    REFUSES(v[0].n_launches, 0, "fn 'linear': a variant that launches nothing");
    REFUSES(l->kernel, 3, "fn 'linear': a launch names no kernel");
    REFUSES(l->block[0], 2048, "fn 'linear': a block of 2048 threads");
    REFUSES(l->params[0].index, 4, "fn 'linear': a parameter names no tensor");
    REFUSES(l->params[0].index, 2, "fn 'linear': 's' may be on the CPU and has no address");
    REFUSES(l->params[3].index, 0, "fn 'linear': a scalar parameter names 'x', which is none");
    REFUSES(l->params[6].index, 1, "fn 'linear': a parameter names no temporary");
    FkmParam *map = &v[0].launches[0].params[2];
    REFUSES(map->index, 4, "fn 'linear': a tensor map of nothing");
    REFUSES(map->map.temp, true, "fn 'linear': a tensor map of nothing");
    REFUSES(map->index, 2,
            "fn 'linear': a tensor map over dimension 1, absent or taken twice"); // s has rank 0
    REFUSES(map->map.rank, 0, "fn 'linear': a tensor map of rank 0");
    REFUSES(map->map.rank, 6, "fn 'linear': a tensor map of rank 6");
    REFUSES(map->map.dim[1], 2,
            "fn 'linear': a tensor map over dimension 2, absent or taken twice");
    REFUSES(map->map.dim[1], 1,
            "fn 'linear': a tensor map over dimension 1, absent or taken twice");
    REFUSES(map->map.box[1], 0, "fn 'linear': a tensor map with a box of 0 elements");
    REFUSES(map->map.box[1], 257, "fn 'linear': a tensor map with a box of 257 elements");
    REFUSES(map->map.swizzle, 96, "fn 'linear': a tensor map with a swizzle of 96 bytes");
    REFUSES(map->map.swizzle, 64, "fn 'linear': a tensor map whose box is 128 bytes wide");
    REFUSES(map->map.box[0], 12, "fn 'linear': a tensor map whose box is 24 bytes wide");
    const uint8_t last = map->map.dim[0], dtype = f->tensors[1].dtype;
    f->tensors[1].dtype = FKM_U4;
    map->map.dim[0] = 0;
    REFUSES(map->map.dim[1], 1,
            "fn 'linear': a tensor map of half bytes that do not lie side by side");
    map->map.dim[0] = last, f->tensors[1].dtype = dtype;
    REFUSES(map->value, ((FkmExpr){f->temps[0].bytes.code, f->temps[0].bytes.n}),
            "fn 'linear': a tensor map with an offset");
    REFUSES(f->temps[0].dtype, 77, "fn 'linear': a temporary has an unknown dtype");
    REFUSES(f->temps[0].rank, 33,
            "fn 'linear': it has 33 dimensions of a temporary, the most is 32");
    REFUSES(f->temps[0].rank, 1,
            "fn 'linear': a tensor map over dimension 1, absent or taken twice");
    REFUSES(f->temps[0].dims[0].code[0], FKM_EXTENT(0, 0),
            "fn 'linear': a dimension of a temporary has an extent where none is known");
    REFUSES(sample_kernels[0].arch, NULL, "PTX of kernel 'linear_fast' has no architecture");
    REFUSES(f->checks[0].value.n, 0, "fn 'linear': a check has no expression");
    REFUSES(f->checks[0].value.n, 2,
            "fn 'linear': a check has an expression without exactly one result");
    REFUSES(f->temps[0].bytes.code[0], FKM_DO(ADD),
            "fn 'linear': a temporary has an expression that pops an empty stack");
    REFUSES(f->temps[0].bytes.code[0], FKM_SIZE(3),
            "fn 'linear': a temporary has a size that does not exist");
    REFUSES(f->temps[0].bytes.code[0], FKM_STRIDE(0, 0),
            "fn 'linear': a temporary has a stride, alignment or SM count where none is known");
    REFUSES(f->solves[0].number.code[0], FKM_SIZE(1),
            "fn 'linear': an equation has a size that is not solved yet");
    REFUSES(f->solves[0].number.code[0], FKM_EXTENT(0, 2),
            "fn 'linear': an equation has a dimension that does not exist");
    REFUSES(f->solves[0].number.code[0], FKM_EXTENT(9, 0),
            "fn 'linear': an equation has a tensor that does not exist");
}

// The value of an expression over no variables; *ok: it has one.
static int64_t value(FkmExpr e, bool *ok) {
    int64_t v;
    FkmFn none = {0};
    assert_null(fkm_expr_check(&e, &(FkmScope){.fn = &none, .extents = true, .layout = true}));
    *ok = fkm_eval(&e, &(FkmEnv){.sm_count = 132}, &v);
    return v;
}

#define GIVES(want, ...)                                                                           \
    do {                                                                                           \
        bool ok_;                                                                                  \
        assert_int_equal(value((FkmExpr)E(__VA_ARGS__), &ok_), want);                              \
        assert_true(ok_);                                                                          \
    } while (0)
#define FAILS(...)                                                                                 \
    do {                                                                                           \
        bool ok_;                                                                                  \
        value((FkmExpr)E(__VA_ARGS__), &ok_);                                                      \
        assert_false(ok_);                                                                         \
    } while (0)

static void evaluates(void **state) {
    (void)state;
    GIVES(132, DO(SM_COUNT));
    GIVES(5, K_(7), K_(2), DO(SUB));
    GIVES(-4, K_(-7), K_(2), DO(DIV));
    GIVES(1, K_(-7), K_(2), DO(MOD));
    GIVES(3, K_(7), K_(2), DO(DIV));
    GIVES(-9, K_(-9), K_(4), DO(MIN));
    GIVES(4, K_(-9), K_(4), DO(MAX));
    GIVES(1, K_(3), K_(3), DO(EQ));
    GIVES(0, K_(3), K_(3), DO(NE));
    GIVES(0, K_(3), K_(3), DO(LT));
    GIVES(1, K_(3), K_(3), DO(LE));
    GIVES(1, K_(5), K_(6), DO(AND));
    GIVES(1, K_(0), K_(6), DO(OR));
    GIVES(1, K_(0), DO(NOT));
    GIVES(20, K_(0), K_(10), K_(20), DO(SELECT));
    GIVES(INT64_MIN, K_(INT64_MIN), K_(1), DO(DIV));
}

static void fails_only_where_needed(void **state) {
    (void)state;
    FAILS(K_(1), K_(0), DO(DIV));
    FAILS(K_(1), K_(-1), DO(MOD));
    FAILS(K_(INT64_MAX), K_(1), DO(ADD));
    FAILS(K_(INT64_MIN), K_(1), DO(SUB));
    FAILS(K_(INT64_MAX), K_(2), DO(MUL));
    FAILS(K_(1), K_(1), K_(0), DO(DIV), DO(AND));
    FAILS(K_(1), K_(1), K_(0), DO(DIV), K_(5), DO(SELECT));
    GIVES(5, K_(0), K_(1), K_(0), DO(DIV), K_(5), DO(SELECT));
    GIVES(0, K_(0), K_(1), K_(0), DO(DIV), DO(AND));
    GIVES(1, K_(1), K_(0), DO(DIV), K_(1), DO(OR));
}

static void bounds_the_stack(void **state) {
    (void)state;
    enum { VALUES = FKM_MAX_STACK + 1, ALL = 2 * VALUES - 1 };
    FkmInsn deep[ALL];
    FkmExpr e = {deep, ALL};
    FkmFn none = {0};
    for (int i = 0; i < ALL; i++) deep[i] = i < VALUES ? FKM_CONST(1) : FKM_DO(ADD);
    assert_int_equal(fkm_expr_depth(&e), VALUES);
    assert_string_equal(fkm_expr_check(&e, &(FkmScope){.fn = &none}),
                        "an expression that is nested too deeply");
    FkmExpr less = {deep + 1, ALL - 2};
    assert_int_equal(fkm_expr_depth(&less), FKM_MAX_STACK);
    assert_null(fkm_expr_check(&less, &(FkmScope){.fn = &none}));
    deep[0].op = 99;
    assert_string_equal(fkm_expr_check(&e, &(FkmScope){.fn = &none}), "an unknown operation");
}

static void knows_architectures(void **state) {
    (void)state;
    FkmArch a;
    assert_true(fkm_arch("sm_90a", &a));
    assert_int_equal(a.number, 90);
    assert_int_equal(a.suffix, 'a');
    assert_true(fkm_arch("sm_120", &a) && a.number == 120 && !a.suffix);
    assert_false(fkm_arch("sm_9", &a) || fkm_arch("sm_90b", &a) || fkm_arch("90", &a) ||
                 fkm_arch("sm_90aa", &a));
    assert_int_equal(fkm_dtype_named("bf16"), FKM_BF16);
    assert_int_equal(fkm_dtype_named("f64"), -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_back),
        cmocka_unit_test(refuses_truncated),
        cmocka_unit_test(survives_flips),
        cmocka_unit_test(says_what_is_wrong),
        cmocka_unit_test(checks_the_tree),
        cmocka_unit_test(evaluates),
        cmocka_unit_test(fails_only_where_needed),
        cmocka_unit_test(bounds_the_stack),
        cmocka_unit_test(knows_architectures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
