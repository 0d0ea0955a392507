/* lower.c - a plan's steps to kernels: lowers the schedules of each step in order of preference,
 * assembles them, and drops those that the assembler shows to be slow. The last schedule of a step
 * is the general kernel, which is always kept.
 */
#include "compiler/compiler_int.h"

#include "backend/backend.h"

#include <string.h>

enum { MAX_FAST = 5 }; /* variants of a step besides the general one */

/* Assembles for `arch`. A refusal is the outside world's: our PTX is checked by tests, so either
 * ptxas is too old for it or it is broken. */
static bool assemble(Job *j, Kernel *k, const char *arch) {
    const char *message = NULL;
    switch (ptxas_run(j->arena, j->ptxas, k, arch, &message)) {
    case PTXAS_OK: return true;
    case PTXAS_ABSENT:
    case PTXAS_REFUSED:
    case PTXAS_CRASHED: break;
    }
    j->outside = true;
    diag_error(j->diags, (Span){0}, "ptxas", "%s: kernel %s for %s: %s", j->ptxas, k->name, arch,
               message ? message : "failed");
    diag_note(j->diags, (Span){0}, "--ptxas=PATH names another, --ptxas=none makes PTX alone");
    return false;
}

static bool assemble_all(Job *j, Variant *v) {
    if (!j->ptxas) return true;
    if (!v->general) return assemble(j, &v->kernel, v->kernel.arch);
    for (int i = 0; i < j->archs.n; i++)
        if (!assemble(j, &v->kernel, j->archs.v[i]->name)) return false;
    return true;
}

static const char *too_slow(const Job *j, const Kernel *k) {
    if (k->stats.spill_bytes > 0)
        return arena_printf(j->arena, "spills %d bytes of registers", k->stats.spill_bytes);
    if (k->stats.warnings > 0) return "ptxas had to serialise its tensor-core instructions";
    return NULL;
}

/* The module is the same wherever its source lies. */
static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* One schedule to one variant. A fast one that passes a limit of the machine is only dropped. */
static bool lower_variant(Job *j, const BuiltFn *fn, int step, const Schedule *s, Variant *v) {
    Diags own = {.arena = j->arena};
    BackendOptions o = {.target = target_named(s->target),
                        .ptx_version = j->ptx_version,
                        .strict = j->opt->strict,
                        .source = base_name(j->path)};
    FK_ASSERT(o.target);
    v->schedule = s;
    v->kernel.stats = (KStats){-1, -1, -1, -1, 0};
    Str *llvm = job_wants(j, FKC_LLVM) ? &j->text[FKC_LLVM] : NULL;
    if (!backend_lower(j->arena, fn->plan, &fn->plan->steps.v[step], s, &o,
                       v->general ? j->diags : &own, &v->kernel, llvm)) {
        if (v->general) return false;
        v->dropped = own.list.n ? own.list.v[0].text : "passes a limit of the chip";
        return true;
    }
    if (!assemble_all(j, v)) return false;
    if (!v->general) v->dropped = too_slow(j, &v->kernel);
    return true;
}

static bool lower_step(Job *j, BuiltFn *fn, int step) {
    const Step *s = &fn->plan->steps.v[step];
    int fast = 0;
    FK_ASSERT(s->schedules.n > 0);
    for (int i = 0; i < s->schedules.n; i++) {
        Variant v = {.general = i == s->schedules.n - 1};
        if (!v.general && fast == MAX_FAST) continue;
        if (!lower_variant(j, fn, step, s->schedules.v[i], &v)) return false;
        fast += !v.general && !v.dropped;
        vec_push(j->arena, &fn->variants[step], v);
    }
    return true;
}

bool lower_fn(Job *j, BuiltFn *fn) {
    fn->variants = ARENA_ARRAY(j->arena, Variants, fn->plan->steps.n);
    for (int i = 0; i < fn->plan->steps.n; i++)
        if (!lower_step(j, fn, i)) return false;
    return true;
}
