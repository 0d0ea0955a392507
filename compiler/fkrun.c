/* fkrun.c - runs the fns of a module (or of a .fk, through fkc) on made-up or given inputs, checks
 * them against the reference, and times them. One line a fn says how it went:
 *
 *     PASS linear_gelu M=100 N=60 K=33 samples=6000 unsure=0 norm=0.21 max=0.30 variant=general
 *
 * norm and max are shares of what the accuracy table allows: above 1 is a failure.
 */
#include "compiler/run_int.h"
#include "compiler/tool_int.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const OptRow rows[] = {
#define OPT_GROUP(title) {OPT_HEAD, 0, title, 0, NULL, NULL},
#define OPT(kind, field, name, letter, arg, help)                                                  \
    {OPT_##kind, offsetof(RunOptions, field), name, letter, arg, help},
#include "compiler/run_opts.def"
#undef OPT
#undef OPT_GROUP
};

static const OptTable table = {
    "fkrun", "fkrun [options] MODULE.fkm | MODEL.fk [-- options of fkc]",
    "Runs the fns of a module and checks them against a double-precision reference.\n"
    "Exit codes: 0 all is right, 1 an output is wrong or the program is, 2 the command line is\n"
    "wrong, 3 there is no device, or it or a file failed, 70 a bug in fkrun.",
    rows, (int)(sizeof rows / sizeof *rows)};

typedef struct Session {
    Arena arena;
    RunOptions opt;
    FkmModule *module;
    void *bytes;
    size_t size;
    void *forced; /* the module with one variant a step, from malloc; NULL: as it is */
    RunDevice device;
    fk_device **held; /* of --cases: kept open from one command line to the next */
    int code;
} Session;

static void fail(Session *s, int code, Str *why) {
    fflush(stdout);
    fprintf(stderr, "fkrun: error: %s\n", str_get(why));
    str_free(why);
    if (code > s->code) s->code = code;
}

/* ---- one fn -------------------------------------------------------------------------------------
 */

static Graph *read_graph(Arena *a, const FkmFn *f, Str *why) {
    Diags d = {.arena = a};
    Graph *g = graph_parse(a, source_new(a, f->name, f->graph, strlen(f->graph)), &d);
    if (!g)
        str_printf(why, "%s: the graph in the module is not understood: %s", f->name,
                   d.list.n ? d.list.v[0].text : "");
    return g;
}

static void put_line(const Run *r, const char *word) {
    printf("%s %s", word, r->fn->name);
    for (uint32_t i = 0; i < r->fn->n_sizes; i++)
        printf(" %s=%lld", r->fn->sizes[i].name, (long long)r->sizes[i]);
}

static void put_outputs(const Run *r, const char *what) {
    for (int i = 0; i < r->n; i++) {
        const RunTensor *t = &r->tensors[i];
        if (!t->out) {
            if (r->opt->print) run_print(t, "in ");
            continue;
        }
        run_print(t, what);
    }
}

static bool write_outputs(Run *r) {
    for (int i = 0; i < r->n; i++) {
        const char *path = run_lookup(&r->opt->out, r->tensors[i].name);
        if (r->tensors[i].out && path && !npy_write(path, &r->tensors[i], &r->why)) return false;
    }
    return true;
}

/* The outputs as the reference has them, with what a reader can compare. */
static bool run_reference(Run *r) {
    Eval *e = run_eval(r);
    for (int i = 0; i < r->n; i++) {
        EvalTensor t = run_eval_tensor(&r->tensors[i]);
        if (r->tensors[i].out) eval_output(e, i, &t, 0);
    }
    eval_free(e);
    put_line(r, "REFERENCE");
    printf("\n");
    put_outputs(r, "out");
    for (int i = 0; i < r->n; i++) {
        const RunTensor *t = &r->tensors[i];
        double sum = 0, squares = 0, least = INFINITY, most = -INFINITY;
        int64_t index[RUN_RANK];
        if (!t->out || !t->count) continue;
        for (int64_t k = 0; k < t->count; k++) {
            run_unflatten(t, k, index);
            double v = run_get(t, index);
            sum += v, squares += v * v, least = fmin(least, v), most = fmax(most, v);
        }
        printf("      %s: mean %.6g, rms %.6g, least %.6g, greatest %.6g\n", t->name,
               sum / (double)t->count, sqrt(squares / (double)t->count), least, most);
    }
    return write_outputs(r);
}

/* Launches again and compares every byte of every output with the first time. */
static bool run_again(Session *s, Run *r, Launch *l, Verdict *v) {
    size_t total = 0;
    for (int i = 0; i < r->n; i++) total += r->tensors[i].out ? r->tensors[i].total : 0;
    unsigned char *first = malloc(total + 1);
    if (!first) {
        str_printf(&r->why, "no memory to compare launches, %zu bytes", total);
        return false;
    }
    bool ok = true;
    for (int k = 0; ok && k < r->opt->repeat; k++) {
        size_t at = 0;
        if (k) ok = device_launch(&s->device, r, l);
        for (int i = 0; ok && i < r->n; i++) {
            const RunTensor *t = &r->tensors[i];
            if (!t->out) continue;
            if (k == 0)
                memcpy(first + at, t->host, t->total);
            else if (memcmp(first + at, t->host, t->total) && !v->details.n)
                str_printf(&v->details, "  %s: launch %d gave other bits than the first\n", t->name,
                           k + 1);
            at += t->total;
        }
    }
    free(first);
    return ok;
}

static void put_verdict(Session *s, const Run *r, const Launch *l, Verdict *v) {
    put_line(r, v->details.n ? "FAIL" : r->opt->check ? "PASS" : "DONE");
    if (r->opt->check)
        printf(" samples=%lld unsure=%lld norm=%.3g max=%.3g", (long long)v->samples,
               (long long)v->unsure, v->norm, v->max);
    if (*l->variants) printf(" variant=%s", l->variants);
    printf("\n%s", str_get(&v->details));
    if (v->details.n && s->code < EXIT_PROGRAM) s->code = EXIT_PROGRAM;
    str_free(&v->details);
}

static bool run_on_device(Session *s, Run *r) {
    Launch l = {0};
    Verdict v = {0};
    bool ok = device_alloc(&s->device, r) && device_prepare(&s->device, r, &l) &&
              device_launch(&s->device, r, &l);
    if (ok && r->opt->check) {
        check_guards(r, &v);
        ok = device_inputs_intact(&s->device, r, &v.details);
        if (ok) check_run(r, &v);
    }
    if (ok && r->opt->repeat > 0) ok = run_again(s, r, &l, &v);
    if (ok) {
        put_verdict(s, r, &l, &v);
        if ((!r->opt->check && !r->opt->tune) || r->opt->print) put_outputs(r, "out");
        ok = write_outputs(r);
    }
    if (ok && r->opt->bench) ok = bench_run(&s->device, r, &l);
    if (ok && r->opt->tune) ok = tune_run(&s->device, r, &s->arena, s->module, &l);
    device_release(&s->device, r, &l);
    str_free(&v.details);
    return ok;
}

static void run_fn(Session *s, const FkmFn *f) {
    Arena arena = {0};
    Run r = {.arena = &arena, .opt = &s->opt, .fn = f};
    int code = EXIT_USAGE;
    bool ok = true;
    if (f->graph)
        ok = (r.graph = read_graph(&arena, f, &r.why)) != NULL;
    else if (s->opt.check || s->opt.reference) {
        str_printf(&r.why,
                   "%s: the module was stripped of its graph, which says what is right; run the "
                   "program itself (fkrun %s MODEL.fk), or compile it without --strip",
                   f->name, s->opt.check ? "--check" : "--reference");
        ok = false;
    }
    ok = ok && run_sizes(&r) && run_tensors(&r);
    if (ok && s->opt.list) {
        tune_list(&r, s->module);
    } else if (ok && run_fill(&r)) {
        code = EXIT_OUTSIDE;
        ok = s->opt.reference ? run_reference(&r) : run_on_device(s, &r);
    } else {
        ok = false;
    }
    if (!ok) fail(s, r.outside ? EXIT_OUTSIDE : code, &r.why);
    for (int i = 0; r.tensors && i < r.n; i++) free(r.tensors[i].host);
    arena_free(&arena);
    fflush(stdout);
}

/* ---- the session --------------------------------------------------------------------------------
 */

static bool ends_in(const char *s, const char *tail) {
    size_t n = strlen(s), m = strlen(tail);
    return n >= m && !strcmp(s + n - m, tail);
}

static bool open_module(Session *s, const char *path, const OptMany *more) {
    Str why = {0};
    FkmError error;
    int code = EXIT_OUTSIDE;
    if (ends_in(path, ".fk")) {
        s->bytes = compile_with_fkc(&s->arena, &s->opt, more, path, &s->size, &code, &why);
    } else {
        s->bytes = tool_read(&s->arena, path, &s->size, &why);
    }
    if (!s->bytes) {
        if (why.n) fail(s, code, &why);
        s->code = code;
        return false;
    }
    /* Decoding leaves texts in the bytes; the device gets a copy of its own. */
    s->module = fkm_decode(s->bytes, s->size, &error);
    if (s->module) return true;
    str_printf(&why, "%s: %s", path, error.text);
    fail(s, EXIT_OUTSIDE, &why);
    return false;
}

/* --variant: the device gets a module that has no other. */
static bool force_variant(Session *s) {
    Str why = {0};
    FkmError error;
    if (!s->opt.variant) return true;
    if (!variant_force(s->module, s->opt.variant, &why)) {
        fail(s, EXIT_USAGE, &why);
        return false;
    }
    s->forced = fkm_encode(s->module, &s->size, &error);
    if (s->forced) return true;
    str_printf(&why, "--variant: %s", error.text);
    fail(s, EXIT_OUTSIDE, &why);
    return false;
}

/* The fn that --fn names must be there, and built. */
static bool fn_exists(Session *s) {
    Str why = {0};
    if (!s->opt.fn) return true;
    for (uint32_t i = 0; i < s->module->n_fns; i++)
        if (!strcmp(s->module->fns[i].name, s->opt.fn)) return true;
    str_printf(&why, "no fn '%s' in the module", s->opt.fn);
    for (uint32_t i = 0; i < s->module->n_left_out; i++)
        if (!strcmp(s->module->left_out[i].name, s->opt.fn)) {
            why.n = 0;
            str_printf(&why, "fn '%s' was left out: %s", s->opt.fn, s->module->left_out[i].reason);
        }
    fail(s, EXIT_PROGRAM, &why);
    return false;
}

/* What a "NAME=.." of an option may name, in a fn that will run. */
typedef enum Named { A_SIZE, A_TENSOR, AN_INPUT, AN_OUTPUT } Named;

static bool names_something(const Session *s, const char *text, Named what) {
    size_t n = strcspn(text, "=");
    for (uint32_t i = 0; i < s->module->n_fns; i++) {
        const FkmFn *f = &s->module->fns[i];
        if (s->opt.fn && strcmp(f->name, s->opt.fn) != 0) continue;
        uint32_t count = what == A_SIZE ? f->n_sizes : f->n_tensors;
        for (uint32_t k = 0; k < count; k++) {
            const char *name = what == A_SIZE ? f->sizes[k].name : f->tensors[k].name;
            if (what == AN_INPUT && f->tensors[k].is_output) continue;
            if (what == AN_OUTPUT && !f->tensors[k].is_output) continue;
            if (strlen(name) == n && !memcmp(name, text, n)) return true;
        }
    }
    return false;
}

/* A slip in a name must not be a run with other inputs than were meant. */
static bool names_exist(Session *s) {
    static const char *const called[] = {"size", "tensor", "input", "output"};
    const struct {
        const OptMany *list;
        const char *option;
        Named what;
    } all[] = {{&s->opt.size, "size", A_SIZE},
               {&s->opt.in, "in", AN_INPUT},
               {&s->opt.out, "out", AN_OUTPUT},
               {&s->opt.zero, "zero", AN_OUTPUT},
               {&s->opt.offset, "offset", A_TENSOR},
               {&s->opt.pad, "pad", A_TENSOR},
               {&s->opt.transpose, "transpose", A_TENSOR}};
    Str why = {0};
    for (size_t k = 0; s->module->n_fns && k < sizeof all / sizeof *all; k++)
        for (int i = 0; i < all[k].list->n && !why.n; i++)
            if (!names_something(s, all[k].list->v[i], all[k].what))
                str_printf(&why, "--%s=%s: no fn that runs has such %s %s", all[k].option,
                           all[k].list->v[i], all[k].what >= AN_INPUT ? "an" : "a",
                           called[all[k].what]);
    if (!why.n) return true;
    fail(s, EXIT_USAGE, &why);
    return false;
}

/* --write: the module as --variant and --tune left it. */
static void write_module(Session *s) {
    Str why = {0};
    FkmError error;
    size_t size;
    void *bytes = fkm_encode(s->module, &size, &error);
    if (!bytes) str_printf(&why, "--write: %s", error.text);
    if (bytes) tool_publish(s->opt.write, bytes, size, true, &why);
    free(bytes);
    if (why.n) fail(s, EXIT_OUTSIDE, &why);
}

static bool options_agree(Session *s) {
    const RunOptions *o = &s->opt;
    Str why = {0};
    if (o->repeat == 0 || o->most == 0)
        str_printf(&why, "--%s=0: needs a number from 1 on", o->repeat ? "most" : "repeat");
    else if (o->write && !o->variant && !o->tune)
        str_add(&why, "--write needs --variant or --tune, whose choice it writes");
    else if (o->tune && (o->reference || o->list))
        str_printf(&why, "--tune needs a device, --%s uses none", o->list ? "list" : "reference");
    else if (o->list && o->reference)
        str_add(&why, "--list runs nothing; --reference runs the fn on the CPU");
    if (!why.n) return true;
    fail(s, EXIT_USAGE, &why);
    return false;
}

static bool open_device(Session *s) {
    static const char *const devices[] = {"cuda", "emu"};
    const char *name = devices[s->opt.device == 1];
    Str why = {0};
    if (device_open(&s->device, name, s->forced ? s->forced : s->bytes, s->size, &why)) {
        if (s->held && !*s->held && fk_device_open(name, s->held)) *s->held = NULL;
        return true;
    }
    fail(s, EXIT_OUTSIDE, &why);
    device_close(&s->device);
    return false;
}

static void run_all(Session *s) {
    if (!s->module->n_fns && !s->module->n_left_out)
        fprintf(stderr, "fkrun: note: no fn here: the module is empty\n");
    if (s->module->n_fns && !s->opt.reference && !s->opt.list && !open_device(s)) return;
    for (uint32_t i = 0; i < s->module->n_fns; i++) {
        const FkmFn *f = &s->module->fns[i];
        if (!s->opt.fn || !strcmp(f->name, s->opt.fn)) run_fn(s, f);
    }
    for (uint32_t i = 0; i < s->module->n_left_out; i++)
        fprintf(stderr, "fkrun: note: fn '%s' was left out: %s\n", s->module->left_out[i].name,
                s->module->left_out[i].reason);
    if (s->device.device) device_close(&s->device);
}

static void put_version(void) {
    int v = fk_version();
    printf("fkrun %d.%d.%d\n", v / 10000, v / 100 % 100, v % 100);
}

static int command(fk_device **held, int argc, char **argv) {
    Session s = {.held = held};
    OptMany inputs = {0}, more = {0};
    Str why = {0};
    if (!opts_parse(&s.arena, &table, argc, argv, &s.opt, &inputs, &more, &why)) {
        fail(&s, EXIT_USAGE, &why);
    } else if (s.opt.help) {
        opts_help(&why, &table);
        fputs(str_get(&why), stdout);
        str_free(&why);
    } else if (s.opt.version) {
        put_version();
    } else if (s.opt.cases && (held || inputs.n)) {
        str_printf(&why, "--cases=%s: %s", s.opt.cases,
                   held ? "within --cases" : "its lines name the modules");
        fail(&s, EXIT_USAGE, &why);
    } else if (s.opt.cases) {
        s.code = run_cases(s.opt.cases, s.opt.case_seconds, command);
    } else if (inputs.n != 1) {
        str_add(&why, inputs.n ? "one module at a time" : "no module; fkrun --help shows how");
        fail(&s, EXIT_USAGE, &why);
    } else if (options_agree(&s) && open_module(&s, inputs.v[0], &more) && fn_exists(&s) &&
               names_exist(&s) && force_variant(&s)) {
        run_all(&s);
        if (s.opt.write && !s.code) write_module(&s);
    }
    if (s.module) fkm_free(s.module);
    free(s.forced);
    arena_free(&s.arena);
    return s.code;
}

int main(int argc, char **argv) {
    tool_last_words("fkrun", argc, argv);
    return command(NULL, argc, argv);
}
