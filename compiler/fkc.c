/* fkc.c - the entry points of libfkc: checks the options, takes the lock, runs the pipeline. */
#include "compiler/compiler_int.h"

#include "backend/backend.h"
#include "compiler/opts_int.h"
#include "passes/passes.h"
#include "runtime/fk.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct fkc_result {
    Arena arena;
    Job job;
    char *messages;
    void *module;
    size_t module_size;
};

/* LLVM's options and its fatal-error handler belong to the process. */
static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;

fkc_options fkc_defaults(void) {
    return (fkc_options){.error_limit = -1};
}

const char *fkc_version(void) {
    return FKC_VERSION;
}

const char *fkc_llvm_version(void) {
    return backend_llvm_version();
}

bool job_wants(const Job *j, fkc_output what) {
    return (j->opt->outputs >> what) & 1u;
}

void job_log(const Job *j, const char *fmt, ...) {
    if (!j->opt->log) return;
    Str s = {0};
    va_list ap;
    va_start(ap, fmt);
    str_vprintf(&s, fmt, ap);
    va_end(ap);
    j->opt->log(j->opt->log_ctx, str_get(&s));
    str_free(&s);
}

/* ---- options -----------------------------------------------------------------------------------
 */

static void option_error(Job *j, const char *text, const char *near) {
    j->bad_option = true;
    if (near)
        diag_error(j->diags, (Span){0}, "option", "%s; did you mean '%s'?", text, near);
    else
        diag_error(j->diags, (Span){0}, "option", "%s", text);
}

static void add_arch(Job *j, const char *name) {
    OptMany known = {0};
    for (int i = 0; target_at(i); i++) vec_push(j->arena, &known, target_at(i)->name);
    const Target *t = target_named(name);
    if (!t) {
        const char *text = arena_printf(j->arena, "unknown chip '%s' (fkc --list-archs)", name);
        option_error(j, text, opts_nearest(name, known.v, known.n));
        return;
    }
    for (int i = 0; i < j->archs.n; i++)
        if (j->archs.v[i] == t) return;
    vec_push(j->arena, &j->archs, t);
}

/* The chip of this machine: the row of target.def with its compute capability, else the newest of
 * its generation that it can run. */
static void native_arch(Job *j) {
    fk_device *device;
    fk_device_info info;
    if (fk_device_open("cuda", &device)) {
        j->outside = true;
        diag_error(j->diags, (Span){0}, "native", "--arch=native: %s", fk_last_error());
        return;
    }
    fk_status status = fk_device_describe(device, &info);
    fk_device_close(device);
    const Target *best = NULL;
    for (int i = 0; !status && target_at(i); i++) {
        const Target *t = target_at(i);
        if (t->major == info.arch / 10 && t->minor <= info.arch % 10) best = t;
    }
    if (best) {
        vec_push(j->arena, &j->archs, best);
        return;
    }
    j->outside = true;
    diag_error(j->diags, (Span){0}, "native", "--arch=native: fkc does not know this GPU (sm_%d)",
               status ? 0 : info.arch);
}

static void read_archs(Job *j) {
    OptMany names = {0};
    opts_split(j->arena, j->opt->arch ? j->opt->arch : "sm_90a", ',', &names);
    for (int i = 0; i < names.n; i++) {
        if (!strcmp(names.v[i], "native"))
            native_arch(j);
        else
            add_arch(j, names.v[i]);
    }
}

static void read_ptx_version(Job *j) {
    const char *s = j->opt->ptx_version;
    int major, minor, end = 0, v = 0;
    if (!s) return;
    if (sscanf(s, "%2d.%1d%n", &major, &minor, &end) == 2 && !s[end]) v = major * 10 + minor;
    if (v >= PTX_OLDEST && v <= PTX_NEWEST)
        j->ptx_version = v;
    else
        option_error(j,
                     arena_printf(j->arena, "--ptx-version=%s: needs one from %d.%d to %d.%d", s,
                                  PTX_OLDEST / 10, PTX_OLDEST % 10, PTX_NEWEST / 10,
                                  PTX_NEWEST % 10),
                     NULL);
}

static void check_pass(Job *j, const char *name, bool all) {
    OptMany known = {0};
    if (!name || pass_named(name) || (all && !strcmp(name, "all"))) return;
    for (int i = 0; pass_at(i); i++) vec_push(j->arena, &known, pass_at(i)->name);
    option_error(j, arena_printf(j->arena, "unknown pass '%s' (fkc --list-passes)", name),
                 opts_nearest(name, known.v, known.n));
}

static void find_ptxas(Job *j) {
    const char *path = j->opt->ptxas;
    unsigned compiled = 1u << FKC_CUBIN | 1u << FKC_MODULE | 1u << FKC_REPORT;
    if (!(j->opt->outputs & compiled) || j->opt->n_run_pass || j->opt->stop_after) return;
    if (path && !strcmp(path, "none")) return;
    if (!path || !strchr(path, '/') || !access(path, X_OK)) j->ptxas = ptxas_find(j->arena, path);
    if (j->ptxas) {
        if (j->opt->verbose) job_log(j, "fkc: assembling with %s\n", j->ptxas);
    } else if (path || job_wants(j, FKC_CUBIN)) {
        j->outside = true;
        diag_error(j->diags, (Span){0}, "ptxas",
                   path ? "no ptxas at '%s'"
                        : "no ptxas found, and machine code was asked for: put it in PATH, or "
                          "--ptxas=PATH%s",
                   path ? path : "");
    } else {
        diag_note(j->diags, (Span){0},
                  "no ptxas found: the module holds PTX alone, which the driver compiles when it "
                  "loads it; registers and spills were not checked (--ptxas=PATH)");
    }
}

static void read_options(Job *j) {
    int limit = j->opt->error_limit;
    if (limit >= 0) j->diags->limit = limit ? limit : INT32_MAX;
    read_archs(j);
    read_ptx_version(j);
    check_pass(j, j->opt->dump_after, true);
    check_pass(j, j->opt->stop_after, false);
    for (int i = 0; i < j->opt->n_run_pass; i++) check_pass(j, j->opt->run_pass[i], false);
    if (!j->diags->errors) find_ptxas(j);
}

/* ---- compile -----------------------------------------------------------------------------------
 */

static fkc_status status_of(const Job *j) {
    if (!j->diags->errors) return FKC_OK;
    bool binds = true; /* nothing but what --bind says is wrong */
    for (int i = 0; i < j->diags->list.n; i++) {
        const Diag *d = &j->diags->list.v[i];
        if (d->level == DIAG_ERROR) binds &= !strcmp(d->rule, "bind");
    }
    if (j->bad_option || binds) return FKC_ERROR_OPTION;
    return j->outside ? FKC_ERROR_OUTSIDE : FKC_ERROR_PROGRAM;
}

static void encode(fkc_result *r) {
    Job *j = &r->job;
    FkmError error;
    FkmModule *m = pack_module(j->arena, j);
    for (int i = 0; i < j->fns.n; i++) check_limits(j, &j->fns.v[i], &m->fns[i]);
    if (j->diags->errors) return;
    r->module = fkm_encode(m, &r->module_size, &error);
    if (!r->module) FK_BUG("the module cannot be written: %s", error.text);
}

static fkc_status compile(fkc_result *r, const char *text, size_t size) {
    Job *j = &r->job;
    read_options(j);
    if (!j->diags->errors) pipeline_run(j, text, size);
    if (!j->diags->errors && job_wants(j, FKC_MODULE) && !j->opt->stop_after) encode(r);
    Str s = {0};
    diag_print(j->diags, &s, j->opt->color);
    r->messages = arena_strdup(&r->arena, str_get(&s));
    str_free(&s);
    return status_of(j);
}

fkc_status fkc_compile(const char *path, const char *text, size_t size, const fkc_options *options,
                       fkc_result **result) {
    fkc_result *r = calloc(1, sizeof *r);
    if (!r) fk_no_memory();
    fkc_options *o = ARENA_NEW(&r->arena, fkc_options);
    *o = *options;
    if (!o->outputs) o->outputs = 1u << FKC_MODULE;
    if (o->stop_after || o->n_run_pass) o->outputs = 1u << FKC_GRAPH;
    Diags *d = ARENA_NEW(&r->arena, Diags);
    d->arena = &r->arena;
    r->job = (Job){.arena = &r->arena, .opt = o, .diags = d, .path = path};
    r->job.producer = arena_printf(&r->arena, "fkc %s, LLVM %s", fkc_version(), fkc_llvm_version());
    pthread_mutex_lock(&one_at_a_time);
    fkc_status status = compile(r, text, size);
    pthread_mutex_unlock(&one_at_a_time);
    *result = r;
    return status;
}

const char *fkc_messages(const fkc_result *r) {
    return r->messages;
}

const void *fkc_output_get(const fkc_result *r, fkc_output what, size_t *size) {
    *size = 0;
    if (what < 0 || what >= FKC_OUTPUTS || !job_wants(&r->job, what)) return NULL;
    if (r->job.diags->errors && (what != FKC_REPORT || !r->job.text[what].n)) return NULL;
    if (what == FKC_MODULE) {
        *size = r->module_size;
        return r->module;
    }
    *size = r->job.text[what].n;
    return str_get(&r->job.text[what]);
}

int fkc_cubin_get(const fkc_result *r, int index, fkc_cubin *cubin) {
    if (index < 0 || r->job.diags->errors) return 0;
    for (int f = 0; f < r->job.fns.n; f++) {
        const BuiltFn *fn = &r->job.fns.v[f];
        for (int s = 0; s < fn->plan->steps.n; s++) {
            for (int v = 0; v < fn->variants[s].n; v++) {
                const Variant *one = &fn->variants[s].v[v];
                if (one->dropped || index >= one->kernel.cubins.n) {
                    index -= one->dropped ? 0 : one->kernel.cubins.n;
                    continue;
                }
                const Cubin *c = &one->kernel.cubins.v[index];
                *cubin = (fkc_cubin){one->kernel.name, c->arch, c->data, c->size};
                return 1;
            }
        }
    }
    return 0;
}

void fkc_free(fkc_result *r) {
    if (!r) return;
    for (int i = 0; i < FKC_OUTPUTS; i++) str_free(&r->job.text[i]);
    free(r->module);
    arena_free(&r->arena);
    free(r);
}
