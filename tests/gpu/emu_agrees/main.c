// emu_agrees --help says what it does; agrees.h how.
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/fk.h"
#include "tests/gpu/emu_agrees/agrees.h"

static const char help[] =
    "emu_agrees [OPTION...]\n"
    "Runs every instruction form that the emulated device knows, in kernels of its own.\n\n"
    "  --device=NAME   where: emu (the default), cuda, cuda:1\n"
    "  --write=FILE    store the outputs; a file that is there already is gone on with\n"
    "  --compare=FILE  compare the outputs with stored ones\n"
    "  --least=N       it is wrong if fewer than N of the tests have stored ones\n"
    "  --with=NAME     compare the outputs with those of another device, in detail\n"
    "  --only=PATTERN  only tests whose name is like it: 'cvt.*'\n"
    "  --except=PATTERN  no tests whose name is like it\n"
    "  --skip-failed=FILE  leave out tests that failed where these outputs were stored\n"
    "  --ptx=FILE      write all kernels as one text, and run nothing\n"
    "  --list          print the tests' names, and run nothing\n\n"
    "Exit status: 0 all agree, 1 some do not, 2 the command line is wrong, 3 a device failed.\n";

enum { LEAST_FORMS = 250, SECONDS = 30 }; // seconds: the most that a test may take

static void too_long(int signal) {
    (void)signal;
    _exit(3); // a kernel that does not end: its line of --write stays as it is
}

typedef struct Options {
    const char *device, *write, *compare, *with, *only, *except, *ptx, *failed, *least;
    bool list;
} Options;

static bool parse(int argc, char **argv, Options *o) {
    const struct {
        const char *name;
        const char **value;
    } all[] = {{"--device=", &o->device},      {"--write=", &o->write}, {"--compare=", &o->compare},
               {"--with=", &o->with},          {"--only=", &o->only},   {"--ptx=", &o->ptx},
               {"--skip-failed=", &o->failed}, {"--least=", &o->least}, {"--except=", &o->except}};
    for (int k = 1; k < argc; k++) {
        bool known = !strcmp(argv[k], "--list");
        o->list |= known;
        for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
            size_t n = strlen(all[i].name);
            if (strncmp(argv[k], all[i].name, n)) continue;
            *all[i].value = argv[k] + n;
            known = true;
        }
        if (!known) return false;
    }
    return true;
}

// ---- stored outputs: a line a test, "NAME<tab>DIGEST<tab>OUTPUTS" ----

static char *read_all(const char *path) {
    FILE *f = fopen(path, "rb");
    long size = f && !fseek(f, 0, SEEK_END) ? ftell(f) : -1;
    char *text = size >= 0 ? keep_alloc((size_t)size + 1) : NULL;
    if (text) {
        rewind(f);
        text[fread(text, 1, (size_t)size, f)] = 0;
    }
    if (f) fclose(f);
    return text;
}

// Behind the name of the test's line, to its end; NULL if there is none.
static char *find_line(const char *text, const char *id) {
    size_t n = strlen(id);
    for (const char *s = text; s && *s; s = strchr(s, '\n') ? strchr(s, '\n') + 1 : NULL)
        if (!strncmp(s, id, n) && s[n] == '\t')
            return text_of("%.*s", (int)strcspn(s + n + 1, "\n"), s + n + 1);
    return NULL;
}

static bool has_outputs(const char *line) {
    return line && strpbrk(line, "#=");
}

static const char *against_line(const Test *t, const Result *r, const char *line) {
    char *rest;
    if (strtoul(line, &rest, 16) != test_digest(t))
        return "the test has changed since its outputs were stored: tests/gpu/agrees.sh\n";
    return compare_stored(t, r, rest + 1);
}

// ---- the run ----

typedef struct Session {
    Options o;
    fk_device *device, *other;
    char *stored, *before, *failed; // of --compare; what --write found; of --skip-failed
    FILE *out;
    uint32_t run, wrong, compared, missing; // missing: tests that had nothing to compare with
} Session;

static void report(Session *s, const Test *t, const char *what) {
    if (!*what) return;
    s->wrong++;
    printf("%s: %s", t->id, what);
}

static void compare_with_stored(Session *s, const Test *t, const Result *mine) {
    char *line = find_line(s->stored, t->id);
    if (!has_outputs(line)) {
        s->missing++;
        return;
    }
    s->compared++;
    report(s, t, against_line(t, mine, line));
}

// False: the device is of no use any more.
static bool run_one(Session *s, const Test *t) {
    Result mine, other = {0};
    if (s->before && find_line(s->before, t->id)) return true;
    char *line = s->failed ? find_line(s->failed, t->id) : NULL;
    if (line && !has_outputs(line)) return true;
    alarm(SECONDS);
    if (s->out) fprintf(s->out, "%s\t", t->id), fflush(s->out);
    bool ok = test_run(s->device, t, &mine);
    s->run++;
    if (s->out) {
        fprintf(s->out, "%08x\t%s\n", test_digest(t), ok ? result_text(t, &mine) : "failed");
        fflush(s->out);
    }
    if (!ok) report(s, t, text_of("%s\n", mine.why));
    if (ok && s->stored) compare_with_stored(s, t, &mine);
    bool alive = ok || !strncmp(s->o.device, "emu", 3);
    if (ok && s->other) {
        alive = test_run(s->other, t, &other);
        report(s, t, alive ? compare_results(t, &mine, &other) : text_of("%s\n", other.why));
        double worst = alive ? worst_share(t, &mine, &other) : 0;
        if (worst > 0) printf("bound: %s: %.3f\n", t->id, worst);
        alive = alive || !strncmp(s->o.with, "emu", 3);
    }
    alarm(0);
    free(mine.bytes);
    free(other.bytes);
    return alive;
}

// What an earlier run left: all lines that are whole; a test at which it ended counts as failed.
static bool open_output(Session *s) {
    s->before = read_all(s->o.write);
    s->out = fopen(s->o.write, "a");
    if (!s->out) return false;
    size_t n = s->before ? strlen(s->before) : 0;
    if (n && s->before[n - 1] != '\n') {
        fprintf(s->out, "00000000\tfailed, and ended the run\n");
        s->before = text_of("%s\t\n", s->before);
    }
    return true;
}

// False: too few tests have stored outputs.
static bool say_stored(const Session *s) {
    uint32_t least = s->o.least ? (uint32_t)strtoul(s->o.least, NULL, 10) : 0;
    if (!s->stored) return true;
    if (s->missing)
        printf("%u tests have no stored output yet: tests/gpu/agrees.sh makes them\n", s->missing);
    if (s->compared >= least) return true;
    printf("only %u tests have stored outputs; at least %u must\n", s->compared, least);
    return false;
}

static bool is_asked_for(const Options *o, const Test *t) {
    return (!o->only || like(o->only, t->id)) && !(o->except && like(o->except, t->id));
}

static int run_all(Session *s, const Tests *all) {
    fk_status status = fk_device_open(s->o.device, &s->device);
    if (!status && s->o.with) status = fk_device_open(s->o.with, &s->other);
    bool alive = !status;
    if (status) printf("emu_agrees: %s\n", fk_last_error());
    for (uint32_t k = 0; k < all->n && alive; k++)
        if (is_asked_for(&s->o, all->v[k])) alive = run_one(s, all->v[k]);
    bool enough = say_stored(s);
    printf("%u tests of %u forms, %u run, %u do not agree\n", all->n, tests_forms(all), s->run,
           s->wrong);
    fk_device_close(s->device);
    fk_device_close(s->other);
    return !alive ? 3 : s->wrong > 0 || !enough;
}

static int act(Session *s, const Tests *all) {
    if (!tests_make((Tests *)(uintptr_t)all)) return 1;
    if (tests_forms(all) < LEAST_FORMS) {
        printf("emu_agrees: %u forms; there must be %d\n", tests_forms(all), LEAST_FORMS);
        return 1;
    }
    for (uint32_t k = 0; k < all->n && s->o.list; k++) printf("%s\n", all->v[k]->id);
    if (s->o.ptx && !tests_write_ptx(all, s->o.ptx)) return perror(s->o.ptx), 3;
    if (s->o.list || s->o.ptx) return 0;
    if (s->o.compare && !(s->stored = read_all(s->o.compare))) return perror(s->o.compare), 3;
    if (s->o.failed) s->failed = read_all(s->o.failed);
    if (s->o.write && !open_output(s)) return perror(s->o.write), 3;
    int status = run_all(s, all);
    if (s->out && fclose(s->out)) return perror(s->o.write), 3;
    return status;
}

int main(int argc, char **argv) {
    Session s = {.o = {.device = "emu"}};
    Tests all = {0};
    signal(SIGALRM, too_long);
    if (!parse(argc, argv, &s.o)) return fprintf(stderr, "%s", help), 2;
    int status = act(&s, &all);
    keep_free();
    return status;
}
