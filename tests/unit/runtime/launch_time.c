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

// The median of launches with w so many bytes off its place.
static int64_t measure(Case *c, const char *what, int off) {
    static int64_t ns[LAUNCHES];
    c->w.data = c->memory + 8192 + off;
    for (int i = 0; i < LAUNCHES; i++) {
        int64_t start = now();
        if (launch(c)) return printf("%s\n", fk_last_error()), INT64_MAX;
        ns[i] = now() - start;
    }
    qsort(ns, LAUNCHES, sizeof *ns, by_value);
    printf("%s: median %lld ns, p99 %lld ns\n", what, (long long)ns[LAUNCHES / 2],
           (long long)ns[LAUNCHES * 99 / 100]);
    return ns[LAUNCHES / 2];
}

int main(void) {
    void *state;
    if (case_open(&state)) return 1;
    Case *c = state;
    c->fake.record = false;
    int64_t general = measure(c, "one launch of ten parameters", 2);
    int64_t fast = measure(c, "two launches, two tensor maps", 0);
    bool gated = false;
#if defined(NDEBUG) && !defined(__SANITIZE_ADDRESS__)
    gated = true;
#endif
    printf("bar %d ns%s\n", BAR_NS, gated ? "" : " (not applied to this build)");
    bool slow = general > BAR_NS || fast > BAR_NS;
    return case_close(&state) || (gated && slow);
}
