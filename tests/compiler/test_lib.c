/* test_lib.c - libfkc by its public header alone: results, errors, options, and threads that
 * compile at the same time.
 */
#include "compiler/fkc.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char program[] = "fn f(x: f32[M, K]) -> (y: f32[M]) { y[m] = sum[k] x[m, k] }\n"
                              "fn g(x: f32[M]) -> (y: f32[M]) { y[m] = exp(x[m]) }\n";

static fkc_status compile(const char *text, fkc_options *o, fkc_result **r) {
    if (!o->ptxas) o->ptxas = "none";
    return fkc_compile("test.fk", text, strlen(text), o, r);
}

static void a_module(void **state) {
    (void)state;
    fkc_options o = fkc_defaults();
    fkc_result *r;
    fkc_cubin c;
    size_t n;
    assert_int_equal(compile(program, &o, &r), FKC_OK);
    assert_string_equal(fkc_messages(r), "");
    assert_non_null(fkc_output_get(r, FKC_MODULE, &n));
    assert_true(n > 1000);
    assert_null(fkc_output_get(r, FKC_PTX, &n));
    assert_int_equal(n, 0);
    assert_int_equal(fkc_cubin_get(r, 0, &c), 0);
    fkc_free(r);
    fkc_free(NULL);
}

static void texts(void **state) {
    (void)state;
    fkc_options o = fkc_defaults();
    fkc_result *r;
    size_t n;
    o.outputs = 1u << FKC_GRAPH | 1u << FKC_PTX | 1u << FKC_REPORT;
    assert_int_equal(compile(program, &o, &r), FKC_OK);
    const char *graph = fkc_output_get(r, FKC_GRAPH, &n), *ptx = fkc_output_get(r, FKC_PTX, &n);
    assert_int_equal(strlen(ptx), n);
    assert_non_null(strstr(graph, "graph f {"));
    assert_non_null(strstr(graph, "graph g {"));
    assert_non_null(strstr(ptx, ".visible .entry f_0("));
    assert_non_null(strstr(fkc_output_get(r, FKC_REPORT, &n), "fn g: 1 kernel"));
    assert_null(fkc_output_get(r, FKC_MODULE, &n));
    fkc_free(r);
}

static void wrong(const char *text, fkc_options o, fkc_status want, const char *message) {
    fkc_result *r;
    size_t n;
    assert_int_equal(compile(text, &o, &r), want);
    if (!strstr(fkc_messages(r), message)) fail_msg("%s", fkc_messages(r));
    assert_null(fkc_output_get(r, FKC_MODULE, &n));
    fkc_free(r);
}

static void errors(void **state) {
    (void)state;
    fkc_options o = fkc_defaults();
    wrong("fn f(x: f32[M]) -> (y: f32[M]) { y[m] = q[m] }", o, FKC_ERROR_PROGRAM,
          "test.fk:1:41: error: ");
    wrong("", (fkc_options){.error_limit = -1, .arch = "sm_1"}, FKC_ERROR_OPTION, "unknown chip");
    wrong(program, (fkc_options){.error_limit = -1, .ptxas = "/nonexistent/ptxas"},
          FKC_ERROR_OUTSIDE, "no ptxas at '/nonexistent/ptxas'");
    /* every fn gets its verdict, not only the first */
    fkc_result *r;
    const char *both = "fn f(x: f32[M]) -> (y: f32[M]) expect { kernels == 3 } { y[m] = x[m] }\n"
                       "fn g(x: f32[M]) -> (y: f32[M]) expect { kernels == 4 } { y[m] = x[m] }\n";
    assert_int_equal(compile(both, &o, &r), FKC_ERROR_PROGRAM);
    assert_non_null(strstr(fkc_messages(r), "f: expected kernels == 3, found 1"));
    assert_non_null(strstr(fkc_messages(r), "g: expected kernels == 4, found 1"));
    fkc_free(r);
}

typedef struct Worker {
    int number;
    void *bytes;
    size_t size;
} Worker;

/* Each thread compiles its own program, twice; the bytes must be those of a compiler alone. */
static void *work(void *arg) {
    Worker *w = arg;
    char text[256];
    snprintf(text, sizeof text, "fn f(x: f32[M]) -> (y: f32[M]) { y[m] = exp(x[m]) * %d }",
             w->number);
    for (int i = 0; i < 2; i++) {
        fkc_options o = fkc_defaults();
        fkc_result *r;
        size_t n;
        if (compile(text, &o, &r) == FKC_OK) {
            const void *module = fkc_output_get(r, FKC_MODULE, &n);
            if (w->bytes && (n != w->size || memcmp(module, w->bytes, n))) n = 0;
            free(w->bytes);
            w->bytes = malloc(n + 1);
            if (w->bytes) memcpy(w->bytes, module, n);
            w->size = n;
        } else {
            print_message("%s", fkc_messages(r));
        }
        fkc_free(r);
    }
    return NULL;
}

static void threads(void **state) {
    (void)state;
    enum { N = 8 };
    pthread_t thread[N];
    Worker w[N], alone;
    for (int i = 0; i < N; i++) {
        w[i] = (Worker){.number = i + 2};
        assert_int_equal(pthread_create(&thread[i], NULL, work, &w[i]), 0);
    }
    for (int i = 0; i < N; i++) pthread_join(thread[i], NULL);
    for (int i = 0; i < N; i++) {
        alone = (Worker){.number = i + 2};
        work(&alone);
        assert_true(alone.size > 0);
        assert_int_equal(w[i].size, alone.size);
        assert_memory_equal(w[i].bytes, alone.bytes, alone.size);
        free(alone.bytes);
        free(w[i].bytes);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_module),
        cmocka_unit_test(texts),
        cmocka_unit_test(errors),
        cmocka_unit_test(threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
