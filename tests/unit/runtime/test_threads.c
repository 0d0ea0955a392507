// Threads (CASES A83): one fn launched by all, loaded once; modules of their own loaded and
// unloaded beside that; error texts kept apart.
#include "case.h"

#include <pthread.h>

enum { THREADS = 8, ROUNDS = 200 };

typedef struct {
    Case *c;
    const void *bytes;
    size_t n;
    int id, bad;
} Worker;

static void *work(void *arg) {
    Worker *w = arg;
    char want[64];
    fk_module *m;
    fk_fn *fn;
    snprintf(want, sizeof want, "the module has no fn 'f%d'; it has: linear, sizes, quads", w->id);
    for (int i = 0; i < ROUNDS; i++) {
        w->bad += launch(w->c) != FK_OK;
        if (fk_module_load(w->c->device, w->bytes, w->n, &m)) return w->bad++, NULL;
        char name[16];
        snprintf(name, sizeof name, "f%d", w->id);
        w->bad +=
            fk_module_fn(m, name, &fn) != FK_ERROR_NO_FN || strcmp(fk_last_error(), want) != 0;
        w->bad += fk_launch(fk_module_fn_at(m, 0), w->c->args, 4, w->c->workspace, w->c->bytes,
                            NULL) != FK_OK;
        fk_module_unload(m);
    }
    return NULL;
}

static void threads_share_a_module(void **state) {
    Case *c = *state;
    Worker workers[THREADS];
    pthread_t threads[THREADS];
    size_t n;
    FkmError error;
    void *bytes = fkm_encode(&sample, &n, &error);
    c->fake.record = false; // launches of all threads at once
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (Worker){c, bytes, n, i, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(workers[i].bad, 0);
    }
    assert_int_equal(c->fake.launched, THREADS * ROUNDS * 4);
    assert_int_equal(c->fake.loaded, 2 + THREADS * ROUNDS * 2); // the shared module's kernels once
    free(bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {CASE(threads_share_a_module)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
