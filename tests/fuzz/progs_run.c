/* progs_run.c - compiles a program in this process, runs it on the emulated device, every variant
 * by force, and compares its outputs with the reference as fkrun --check does. */
#include "tests/fuzz/progs.h"

#include "compiler/fkc.h"
#include "compiler/run_int.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

const char *const outcome_names[] = {"passed",  "refused by the compiler", "wrong", "launch failed",
                                     "crashed", "took too long",           "broken"};

enum { SECONDS = 120 }; /* of a program */

static void fail(Result *r, Outcome o, Which at, const char *text) {
    r->outcome = o;
    r->at = at;
    snprintf(r->text, sizeof r->text, "%.*s", (int)sizeof r->text - 1, text);
}

/* ---- one launch ---- */

typedef struct Job {
    const Program *p;
    Arena arena; /* of the options */
    RunOptions opt;
    const FkmFn *fn;
    const void *bytes;
    size_t size;
    Which at;
    Result *result;
} Job;

static void add(Job *j, OptMany *to, const char *format, ...) {
    va_list args;
    char text[64];
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    vec_push(&j->arena, to, arena_strdup(&j->arena, text));
}

/* Inputs that lie in memory as dense ones do not. */
static void draw_layout(Job *j) {
    uint64_t r = (uint64_t)j->p->layout;
    for (uint32_t t = 0; t < j->fn->n_tensors && j->p->layout;
         t++, r = r * 6364136223846793005u + 1) {
        const FkmTensor *x = &j->fn->tensors[t];
        int bits = fkm_dtype_bits(x->dtype);
        uint64_t what = r >> 33;
        if (bits < 8 || !x->rank || what % 2) continue;
        if (what >> 1 & 1)
            add(j, &j->opt.offset, "%s=%d", x->name, bits / 8 * (int)(what >> 2 & 7));
        if (what >> 5 & 1) add(j, &j->opt.pad, "%s=%d", x->name, 1 + (int)(what >> 6 & 15));
        if (x->rank >= 2 && (what >> 10 & 1)) add(j, &j->opt.transpose, "%s", x->name);
    }
}

static void put_layout(const Job *j, char *to, size_t room) {
    static const char *const names[] = {"offset", "pad", "transpose"};
    const OptMany *lists[] = {&j->opt.offset, &j->opt.pad, &j->opt.transpose};
    size_t n = 0;
    to[0] = 0;
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < lists[k]->n && n < room; i++)
            n += (size_t)snprintf(to + n, room - n, " --%s %s", names[k], lists[k]->v[i]);
}

static void set_options(Job *j) {
    j->opt = (RunOptions){.check = true, .check_seconds = 5, .seed = 1, .most = -1};
    j->opt.fast_accum = (j->at.config & FAST_ACCUM) != 0;
    j->opt.scalars = j->p->layout & 1;
    for (uint32_t k = 0; k < j->fn->n_sizes; k++)
        add(j, &j->opt.size, "%s=%lld", j->fn->sizes[k].name,
            (long long)j->p->size[j->at.set][atoi(j->fn->sizes[k].name + 1)]);
    for (uint32_t t = 0; t < j->fn->n_tensors; t++)
        if (j->fn->tensors[t].is_output) add(j, &j->opt.zero, "%s", j->fn->tensors[t].name);
    draw_layout(j);
}

static bool ready(Run *r) {
    Diags d = {.arena = r->arena};
    const char *text = r->fn->graph;
    r->graph = graph_parse(r->arena, source_new(r->arena, r->fn->name, text, strlen(text)), &d);
    if (!r->graph) str_add(&r->why, "the graph in the module is not understood");
    return r->graph && run_sizes(r) && run_tensors(r) && run_fill(r);
}

static void run_once(Job *j) {
    Arena arena = {0};
    RunDevice d = {0};
    Launch l = {0};
    Verdict v = {0};
    set_options(j);
    Run r = {.arena = &arena, .opt = &j->opt, .fn = j->fn};
    bool forced = strcmp(j->at.variant, "*") != 0;
    bool ok = ready(&r) && device_open(&d, "emu", j->bytes, j->size, &r.why) &&
              device_alloc(&d, &r) && device_prepare(&d, &r, &l) && device_launch(&d, &r, &l);
    if (ok) {
        check_guards(&r, &v);
        ok = device_inputs_intact(&d, &r, &v.details);
        check_run(&r, &v);
        if (v.details.n) fail(j->result, WRONG, j->at, str_get(&v.details));
        j->result->runs++;
    }
    if (!ok && forced && strstr(str_get(&r.why), "FK_ERROR_UNSUPPORTED"))
        j->result->skipped++;
    else if (!ok)
        fail(j->result, LAUNCH_FAILED, j->at, str_get(&r.why));
    if (j->result->outcome != PASSED) put_layout(j, j->result->layout, sizeof j->result->layout);
    if (d.device) {
        device_release(&d, &r, &l);
        device_close(&d);
    }
    for (int t = 0; r.tensors && t < r.n; t++) free(r.tensors[t].host);
    str_free(&v.details);
    str_free(&r.why);
    arena_free(&arena);
    arena_free(&j->arena);
    j->arena = (Arena){0};
}

/* ---- a module ---- */

/* The names of variants that some step has beside another, each once. */
static int choices(const FkmFn *f, char names[][sizeof((Which *)0)->variant], int room) {
    int n = 0;
    for (uint32_t s = 0; s < f->n_steps; s++)
        for (uint32_t v = 0; f->steps[s].n_variants > 1 && v < f->steps[s].n_variants; v++) {
            int k = 0;
            const char *name = f->steps[s].variants[v].name;
            while (k < n && strcmp(names[k], name) != 0) k++;
            if (k == n && n < room) snprintf(names[n++], sizeof *names, "%s", name);
        }
    return n;
}

/* The module's bytes, aligned as fkm_decode wants them. */
static void *copy_of(const void *from, size_t size) {
    void *to = aligned_alloc(64, (size + 63) & ~(size_t)63);
    if (!to) abort();
    return memcpy(to, from, size);
}

/* A module with one variant, from malloc. */
static void *only_variant(const void *from, size_t size, const char *variant, size_t *n) {
    FkmError error;
    Str why = {0};
    void *copy = copy_of(from, size), *bytes = NULL;
    FkmModule *m = fkm_decode(copy, size, &error);
    if (m && variant_force(m, variant, &why)) bytes = fkm_encode(m, n, &error);
    str_free(&why);
    if (m) fkm_free(m);
    free(copy);
    return bytes;
}

static void run_module(const Program *p, const void *bytes, size_t size, Which which, int config,
                       Result *result) {
    enum { ROOM = 64 };
    static char names[ROOM + 1][sizeof which.variant];
    FkmError error;
    void *copy = copy_of(bytes, size);
    FkmModule *m = fkm_decode(copy, size, &error);
    if (!m || m->n_fns != 1) {
        fail(result, BROKEN, which, m ? "no fn in the module" : error.text);
        return;
    }
    int n = choices(&m->fns[0], names + 1, ROOM);
    snprintf(names[0], sizeof *names, "*");
    for (int k = 0; k <= n && result->outcome == PASSED; k++) {
        if (*which.variant && strcmp(which.variant, names[k]) != 0) continue;
        void *only = NULL;
        size_t only_size = size;
        if (k && !(only = only_variant(bytes, size, names[k], &only_size))) {
            fail(result, BROKEN, which, names[k]);
            break;
        }
        for (int set = 0; set < p->n_sets && result->outcome == PASSED; set++) {
            if (which.set >= 0 && which.set != set) continue;
            Job j = {.p = p,
                     .fn = &m->fns[0],
                     .bytes = only ? only : bytes,
                     .size = only_size,
                     .result = result};
            j.at = (Which){.config = config, .set = set};
            memcpy(j.at.variant, names[k], sizeof *names);
            run_once(&j);
        }
        free(only);
    }
    fkm_free(m);
    free(copy);
}

/* ---- a program ---- */

static void run_config(const Program *p, const char *text, Which which, int config, Result *r) {
    fkc_options o = fkc_defaults();
    fkc_result *made;
    size_t size;
    o.ptxas = "none";
    o.no_expect = 1;
    o.no_fuse = (config & NO_FUSE) != 0;
    o.strict = (config & STRICT) != 0;
    o.invariant = (config & INVARIANT) != 0;
    o.fast_accum = (config & FAST_ACCUM) != 0;
    o.arch = p->general ? "sm_80" : "sm_90a";
    which.config = config;
    if (fkc_compile("f.fk", text, strlen(text), &o, &made) != FKC_OK) {
        fail(r, REFUSED, which, fkc_messages(made));
    } else {
        const void *bytes = fkc_output_get(made, FKC_MODULE, &size);
        run_module(p, bytes, size, which, config, r);
    }
    fkc_free(made);
}

static void set_number(const char *name, int value) {
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    setenv(name, text, 1);
}

void program_run(const Program *p, Which which, Result *r) {
    char *text = program_text(p);
    memset(r, 0, sizeof *r);
    set_number("FK_EMU_SEED", p->emu_seed);
    set_number("FK_EMU_SMS", p->sms);
    for (int c = 0; c < CONFIGS && r->outcome == PASSED; c++) {
        if (which.config >= 0 ? which.config != c : !(p->configs >> c & 1)) continue;
        r->at = (Which){.config = c, .set = -1}; /* for who finds us dead */
        run_config(p, text, which, c, r);
    }
    free(text);
}

/* How a process that ran it ended. */
void program_ended(int status, Result *r) {
    if (WIFEXITED(status) && !WEXITSTATUS(status)) return;
    r->outcome = WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM ? HUNG : CRASHED;
    if (WIFSIGNALED(status))
        snprintf(r->text, sizeof r->text, "signal %d", WTERMSIG(status));
    else
        snprintf(r->text, sizeof r->text, "exit code %d", WEXITSTATUS(status));
}

void program_try(const Program *p, Which which, Result *r) {
    int status;
    Result *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) abort();
    fflush(stdout);
    pid_t pid = fork();
    if (pid < 0) abort();
    if (!pid) {
        alarm(SECONDS);
        program_run(p, which, shared);
        _exit(0);
    }
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR) abort();
    *r = *shared;
    munmap(shared, sizeof *shared);
    program_ended(status, r);
}
