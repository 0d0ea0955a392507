/* progs.c - random programs, compiled and run on the emulated device, against the reference.
 *
 *     progs [--seconds=N] [--programs=N] [--seed=S] [--jobs=N] [--failures=N]
 *     progs --seed=S --only=K [--text]        the K-th program of a seed; or its text alone
 *
 * A program is drawn from the seed and its number alone. Of one that fails, and of the smallest
 * found that fails like it, the text, and the command lines that repeat it. Exit code 1 if any
 * failed.
 */
#include "tests/fuzz/progs.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MAX_JOBS = 64, SECONDS = 120, SHRINK_SECONDS = 60 };

/* What a worker is at, shared with the process that waits for it. */
typedef struct Slot {
    bool found; /* a failure is in `result` */
    uint64_t number;
    Result result;
    int64_t programs, runs, skipped;
} Slot;

typedef struct Shared {
    _Atomic uint64_t next;
    Slot slot[MAX_JOBS];
} Shared;

static uint64_t seed = 1, only = UINT64_MAX, programs = UINT64_MAX;
static int seconds = 60, jobs, most_failures = 5, failures;
static bool text_only;

static void put_command(const Program *p, const Result *r) {
    static const char *const names[] = {"no-fuse", "strict", "invariant", "fast-accum"};
    const Which *w = &r->at;
    int set = w->set < 0 ? 0 : w->set;
    Needed n = program_needs(p);
    printf("FK_EMU_SEED=%d FK_EMU_SMS=%d fkrun --device=emu --check", p->emu_seed, p->sms);
    for (int k = 0; k < p->n_sizes; k++)
        if (n.size[k] && !p->bound[k]) printf(" -s N%d=%lld", k, (long long)p->size[set][k]);
    printf("%s", r->layout);
    if (*w->variant && strcmp(w->variant, "*") != 0) printf(" --variant=%s", w->variant);
    printf("%s F.fk -- --ptxas=none", w->config & FAST_ACCUM ? " --fast-accum" : "");
    for (int k = 0; k < 4; k++)
        if (w->config >> k & 1) printf(" --%s", names[k]);
    printf("%s\n", p->general ? " --arch=sm_80" : "");
}

static void report(uint64_t number, Result *r) {
    static Program p;
    failures++;
    program_draw(&p, seed, number);
    printf("FAIL progs --seed=%llu --only=%llu: %s\n%s\n", (unsigned long long)seed,
           (unsigned long long)number, outcome_names[r->outcome], r->text);
    program_print(&p, stdout);
    fflush(stdout);
    program_shrink(&p, r, SHRINK_SECONDS);
    printf("--- smaller:\n%s\n", r->text);
    program_print(&p, stdout);
    put_command(&p, r);
    fflush(stdout);
}

static void work(Shared *all, Slot *s, time_t end) {
    static Program p;
    const Which everything = {.config = -1, .set = -1};
    while (time(NULL) < end) {
        s->number = atomic_fetch_add(&all->next, 1);
        if (s->number >= programs) break;
        alarm(SECONDS);
        program_draw(&p, seed, s->number);
        program_run(&p, everything, &s->result);
        s->programs++, s->runs += s->result.runs, s->skipped += s->result.skipped;
        if (s->result.outcome == PASSED) continue;
        s->found = true;
        _exit(0);
    }
    _exit(0);
}

static pid_t start(Shared *all, Slot *s, time_t end) {
    s->found = false;
    fflush(stdout);
    pid_t pid = fork();
    if (pid < 0) abort();
    if (!pid) work(all, s, end);
    return pid;
}

static void run_all(Shared *all) {
    time_t end = time(NULL) + seconds;
    pid_t pids[MAX_JOBS];
    int running = jobs, status;
    for (int k = 0; k < jobs; k++) pids[k] = start(all, &all->slot[k], end);
    while (running) {
        pid_t pid = wait(&status);
        int k = 0;
        if (pid < 0 && errno == EINTR) continue;
        while (k < jobs && pids[k] != pid) k++;
        if (k == jobs) abort();
        Slot *s = &all->slot[k];
        running--;
        program_ended(status, &s->result);
        if ((s->found || status) && failures < most_failures) report(s->number, &s->result);
        if (failures >= most_failures || time(NULL) >= end || all->next >= programs) continue;
        pids[k] = start(all, s, end);
        running++;
    }
}

static void run_one(void) {
    static Program p;
    Result r;
    program_draw(&p, seed, only);
    if (text_only) {
        program_print(&p, stdout);
        return;
    }
    program_try(&p, (Which){.config = -1, .set = -1}, &r);
    if (r.outcome != PASSED)
        report(only, &r);
    else
        printf("passed: %lld launches, %lld variants left out\n", (long long)r.runs,
               (long long)r.skipped);
}

static bool option(const char *arg, const char *name, uint64_t *to) {
    size_t n = strlen(name);
    if (strncmp(arg, name, n) != 0 || arg[n] != '=') return false;
    *to = strtoull(arg + n + 1, NULL, 0);
    return true;
}

static bool options(int argc, char **argv) {
    uint64_t v;
    for (int k = 1; k < argc; k++)
        if (option(argv[k], "--seconds", &v))
            seconds = (int)v;
        else if (option(argv[k], "--jobs", &v))
            jobs = (int)v;
        else if (option(argv[k], "--failures", &v))
            most_failures = (int)v;
        else if (!strcmp(argv[k], "--text"))
            text_only = true;
        else if (!option(argv[k], "--seed", &seed) && !option(argv[k], "--only", &only) &&
                 !option(argv[k], "--programs", &programs))
            return false;
    if (!jobs) jobs = (int)sysconf(_SC_NPROCESSORS_ONLN);
    if (jobs > MAX_JOBS) jobs = MAX_JOBS;
    return jobs > 0;
}

int main(int argc, char **argv) {
    if (!options(argc, argv)) {
        fputs("progs [--seconds=N] [--programs=N] [--seed=S] [--jobs=N] [--failures=N] "
              "[--only=K [--text]]\n",
              stderr);
        return 2;
    }
    setenv("FK_EMU", FK_EMU_PATH, 0);
    if (only != UINT64_MAX) {
        run_one();
        return failures != 0;
    }
    Shared *all =
        mmap(NULL, sizeof *all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED) abort();
    run_all(all);
    int64_t done = 0, runs = 0, skipped = 0;
    for (int k = 0; k < jobs; k++)
        done += all->slot[k].programs, runs += all->slot[k].runs, skipped += all->slot[k].skipped;
    printf("seed %llu: %lld programs, %lld launches, %lld variants left out, %d failures\n",
           (unsigned long long)seed, (long long)done, (long long)runs, (long long)skipped,
           failures);
    return failures != 0;
}
