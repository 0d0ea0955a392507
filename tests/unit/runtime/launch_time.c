// Host time of a warm launch of a one-step fn, the driver's part excluded: the median of 10 000.
// The bar is 5 us in an optimised build without sanitizers; others print only.
#include "case.h"

#include <time.h>

enum { LAUNCHES = 10000, BAR_NS = 5000 };

static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int by_value(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

int main(void) {
    static int64_t ns[LAUNCHES];
    void *state;
    if (case_open(&state)) return 1;
    Case *c = state;
    c->fake.record = false;
    c->w.data = (char *)c->w.data + 2; // the general variant: one launch, ten parameters
    for (int i = 0; i < LAUNCHES; i++) {
        int64_t start = now();
        if (launch(c)) return printf("%s\n", fk_last_error()), 1;
        ns[i] = now() - start;
    }
    qsort(ns, LAUNCHES, sizeof *ns, by_value);
    int64_t median = ns[LAUNCHES / 2];
    bool gated = false;
#if defined(NDEBUG) && !defined(__SANITIZE_ADDRESS__)
    gated = true;
#endif
    printf("launch: median %lld ns, p99 %lld ns; bar %d ns%s\n", (long long)median,
           (long long)ns[LAUNCHES * 99 / 100], BAR_NS, gated ? "" : " (not applied to this build)");
    return case_close(&state) || (gated && median > BAR_NS);
}
