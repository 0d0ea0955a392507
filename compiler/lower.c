/* lower.c - a plan's steps to kernels: lowers the schedules of each step in order of preference,
 * assembles them, and drops those that the assembler shows to be slow. The last schedule of a step
 * is the general kernel, which is always kept and never fails for the chip's sake; the others are
 * for the architectures of --arch alone.
 */
#include "compiler/compiler_int.h"

#include "backend/backend.h"

#include <string.h>

enum {
    MAX_FAST = 5, /* variants of a step and target besides the general one */
    MAX_SLOW = 3, /* schedules of a step and target that ptxas may spoil before the rest is left */
    MAX_SPILLS = 160, /* bytes of local memory that do no harm outside the main loop */
};

/* A failure of the outside world. */
static bool no_ptxas(Job *j, const Kernel *k, const char *arch, const char *message) {
    j->outside = true;
    diag_error(j->diags, (Span){0}, "ptxas", "%s: kernel %s for %s: %s", j->ptxas, k->name, arch,
               message ? message : "failed");
    diag_note(j->diags, (Span){0}, "--ptxas=PATH names another, --ptxas=none makes PTX alone");
    return false;
}

/* A cubin for each --arch. A refusal is the outside world's failure: our PTX is checked by tests,
 * so either ptxas is too old for it or it is broken. */
static bool assemble_general(Job *j, Variant *v) {
    const char *message = NULL;
    for (int i = 0; i < j->archs.n; i++) {
        const char *arch = j->archs.v[i]->name;
        if (ptxas_run(j->arena, j->ptxas, &v->kernel, arch, &message) != PTXAS_OK)
            return no_ptxas(j, &v->kernel, arch, message);
    }
    return true;
}

static const char *too_slow(const Job *j, const KStats *s) {
    if (s->warnings > 0) return "ptxas had to serialise its tensor-core instructions";
    if (s->loop_spills > 0)
        return arena_printf(j->arena, "moves %d bytes of spilt registers in its main loop",
                            s->loop_spills);
    if (s->stack > MAX_SPILLS)
        return arena_printf(j->arena, "spills registers to %d bytes of local memory, allowed %d",
                            s->stack, MAX_SPILLS);
    return NULL;
}

/* A fast variant has a cubin for its own architecture, and goes if it is slow. If ptxas refuses it
 * the program still runs, slower than it might: a warning. */
static bool assemble_fast(Job *j, Variant *v) {
    const char *message = NULL;
    PtxasStatus status = ptxas_run(j->arena, j->ptxas, &v->kernel, v->kernel.arch, &message);
    if (status == PTXAS_OK) {
        v->dropped = too_slow(j, &v->kernel.stats);
    } else if (status == PTXAS_REFUSED) {
        v->dropped = arena_printf(j->arena, "refused by ptxas: %s", message);
        diag_warn(j->diags, (Span){0}, "ptxas", "schedule %s of kernel %s is left out: %s",
                  v->schedule->name, v->kernel.name, message);
    } else {
        return no_ptxas(j, &v->kernel, v->kernel.arch, message);
    }
    v->slow = v->dropped != NULL;
    return true;
}

/* The module is the same wherever its source lies. */
static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* One schedule to one variant. A fast one that the backend does not take is only dropped. */
static bool lower_variant(Job *j, const BuiltFn *fn, int step, Variant *v) {
    Diags own = {.arena = j->arena};
    const Schedule *s = v->schedule;
    BackendOptions o = {.target = target_named(s->target),
                        .ptx_version = j->ptx_version,
                        .strict = j->opt->strict,
                        .source = base_name(j->path)};
    FK_ASSERT(o.target);
    v->kernel.stats = KSTATS_NONE;
    Str *llvm = job_wants(j, FKC_LLVM) ? &j->text[FKC_LLVM] : NULL;
    if (!backend_lower(j->arena, fn->plan, &fn->plan->steps.v[step], s, &o,
                       v->general ? j->diags : &own, &v->kernel, llvm)) {
        if (v->general) return false;
        v->dropped = own.list.n ? own.list.v[0].text : "passes a limit of the chip";
        return true;
    }
    if (!j->ptxas) return true;
    return v->general ? assemble_general(j, v) : assemble_fast(j, v);
}

static bool arch_wanted(const Job *j, const char *target) {
    for (int i = 0; i < j->archs.n; i++)
        if (!strcmp(j->archs.v[i]->name, target)) return true;
    return false;
}

/* May one more fast schedule for `target` be tried? */
static bool try_more(const Variants *variants, const char *target) {
    int fast = 0, slow = 0;
    for (int i = 0; i < variants->n; i++) {
        const Variant *v = &variants->v[i];
        if (strcmp(v->schedule->target, target) != 0) continue;
        fast += !v->dropped;
        slow += v->slow;
    }
    return fast < MAX_FAST && slow < MAX_SLOW;
}

static bool lower_step(Job *j, BuiltFn *fn, int step) {
    const Step *s = &fn->plan->steps.v[step];
    Variants *variants = &fn->variants[step];
    FK_ASSERT(s->schedules.n > 0);
    for (int i = 0; i < s->schedules.n; i++) {
        Variant v = {.schedule = s->schedules.v[i], .general = i == s->schedules.n - 1};
        const char *target = v.schedule->target;
        if (!v.general && !arch_wanted(j, target)) continue;
        if (!v.general && !try_more(variants, target)) {
            v.dropped = "not tried: there are enough, or too many were slow";
        } else if (!lower_variant(j, fn, step, &v)) {
            return false;
        }
        vec_push(j->arena, variants, v);
    }
    return true;
}

bool lower_fn(Job *j, BuiltFn *fn) {
    fn->variants = ARENA_ARRAY(j->arena, Variants, fn->plan->steps.n);
    for (int i = 0; i < fn->plan->steps.n; i++)
        if (!lower_step(j, fn, i)) return false;
    return true;
}
