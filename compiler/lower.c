/* lower.c - a plan's steps to kernels: lowers the schedules of each step in order of preference,
 * assembles them, and drops those that the assembler shows to be slow. The last schedule of a step
 * is the general kernel, which is always kept and never fails for the chip's sake; the others are
 * for the architectures of --arch alone.
 *
 * Assembling takes longest, so two assemblers run while the next schedule is lowered. They are
 * judged in the order in which they began: what comes out never depends on which was faster.
 */
#include "compiler/compiler_int.h"

#include "backend/backend.h"

#include <string.h>

enum {
    MAX_FAST = 20, /* variants of a step and target besides the general one and held rows */
    MAX_SLOW = 3,  /* schedules of a step and target that ptxas may spoil before the rest is left */
    MAX_HELD = 64, /* bytes of spills of a row that is held */
    MAX_TIGHT = 16,   /* the same where registers were kept to what more CTAs need */
    MAX_SPILLS = 160, /* bytes of local memory that do no harm outside the main loop */
};

enum { AT_ONCE = 2 }; /* assemblers */

/* A cubin in the making, of variant `variant` of step `step`. */
typedef struct Flight {
    int step, variant;
    PtxasJob *job;
} Flight;

typedef struct Lowering {
    Job *j;
    BuiltFn *fn;
    VEC(Flight) flights; /* from `landed` on they are in the air */
    int landed;
} Lowering;

/* What ptxas says that it had to do, by the number of its message. */
static const char *complaint(int warning) {
    if (warning == 7508) return "ptxas ignored setmaxnreg";
    if (warning == 7517) return "ptxas added waits for tensor-core instructions";
    return "ptxas had to serialise its tensor-core instructions";
}

/* A spill counts in the main loop, or if its stack is large. What holds a row goes round its loop
 * once: a little does less harm than to read the row again. */
static const char *too_slow(const Job *j, const Variant *v) {
    const KStats *s = &v->kernel.stats;
    int allowed = !v->schedule->held ? 0 : v->kernel.tight ? MAX_TIGHT : MAX_HELD;
    if (s->warning > 0)
        return arena_printf(j->arena, "%s (C%d)", complaint(s->warning), s->warning);
    if (s->loop_spills > allowed)
        return arena_printf(j->arena, "moves %d bytes of spilt registers in its main loop",
                            s->loop_spills);
    if (s->loop_spills < 0 && s->spill_bytes > 0)
        return arena_printf(j->arena, "moves %d bytes of spilt registers, perhaps in its main loop",
                            s->spill_bytes);
    if (s->stack > MAX_SPILLS)
        return arena_printf(j->arena, "spills registers to %d bytes of local memory, allowed %d",
                            s->stack, MAX_SPILLS);
    return NULL;
}

/* A fast variant goes if it is slow. If ptxas refuses it, the program still runs, slower than it
 * might: a warning. */
static bool judge_fast(Job *j, Variant *v, PtxasStatus status, const char *message) {
    if (status == PTXAS_OK) {
        v->dropped = too_slow(j, v);
    } else if (status == PTXAS_REFUSED) {
        v->dropped = arena_printf(j->arena, "refused by ptxas: %s", message);
        diag_warn(j->diags, (Span){0}, "ptxas", "schedule %s of kernel %s is left out: %s",
                  v->schedule->name, v->kernel.name, message);
    } else {
        return false;
    }
    v->slow = v->dropped != NULL;
    return true;
}

static bool lower_variant(Job *j, const BuiltFn *fn, int step, Variant *v, bool roomy);

/* Once more, without what made ptxas spill. */
static PtxasStatus again(Lowering *l, const Flight *f, Variant *v, const char **message) {
    v->dropped = NULL;
    v->slow = false;
    if (!lower_variant(l->j, l->fn, f->step, v, true) || v->dropped) return PTXAS_CRASHED;
    return ptxas_run(l->j->arena, l->j->ptxas, &v->kernel, v->kernel.arch, message);
}

/* Waits for the oldest. That ptxas is missing or dies, or refuses a general kernel (whose PTX is
 * checked by tests, so it is too old for it or broken), is a failure of the outside world. */
static bool land(Lowering *l) {
    Job *j = l->j;
    const Flight *f = &l->flights.v[l->landed++];
    Variant *v = &l->fn->variants[f->step].v[f->variant];
    const char *message = "";
    PtxasStatus status = ptxas_finish(j->arena, f->job, &v->kernel, &message);
    if (!v->general && status == PTXAS_OK && v->kernel.tight && too_slow(j, v))
        status = again(l, f, v, &message);
    if (v->general ? status == PTXAS_OK : judge_fast(j, v, status, message)) return true;
    if (j->outside) return false; /* one message is enough */
    j->outside = true;
    diag_error(j->diags, (Span){0}, "ptxas", "%s: kernel %s: %s", j->ptxas, v->kernel.name,
               *message ? message : "failed");
    diag_note(j->diags, (Span){0}, "--ptxas=PATH names another, --ptxas=none makes PTX alone");
    return false;
}

/* Lands until `left` are in the air. */
static bool land_until(Lowering *l, int left) {
    bool ok = true;
    while (l->flights.n - l->landed > left) ok &= land(l);
    return ok;
}

static bool take_off(Lowering *l, int step, int variant, const char *arch) {
    Flight f = {step, variant, NULL};
    if (!land_until(l, AT_ONCE - 1)) return false;
    f.job = ptxas_start(l->j->arena, l->j->ptxas, &l->fn->variants[step].v[variant].kernel, arch);
    vec_push(l->j->arena, &l->flights, f);
    return true;
}

/* The general kernel gets a cubin for each --arch, a fast one for its own. */
static bool assemble(Lowering *l, int step, int variant) {
    const Variant *v = &l->fn->variants[step].v[variant];
    if (!l->j->ptxas || v->dropped) return true;
    if (!v->general) return take_off(l, step, variant, v->kernel.arch);
    for (int i = 0; i < l->j->archs.n; i++)
        if (!take_off(l, step, variant, l->j->archs.v[i]->name)) return false;
    return true;
}

/* The module is the same wherever its source lies. */
static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* One schedule to one variant. A fast one that the backend does not take is only dropped. */
static bool lower_variant(Job *j, const BuiltFn *fn, int step, Variant *v, bool roomy) {
    Diags own = {.arena = j->arena};
    const Schedule *s = v->schedule;
    BackendOptions o = {.target = target_named(s->target),
                        .ptx_version = j->ptx_version,
                        .roomy = roomy,
                        .strict = j->opt->strict,
                        .source = base_name(j->path)};
    FK_ASSERT(o.target);
    v->kernel.stats = KSTATS_NONE;
    Str *llvm = job_wants(j, FKC_LLVM) ? &j->text[FKC_LLVM] : NULL;
    if (!backend_lower(j->arena, fn->plan, &fn->plan->steps.v[step], s, &o,
                       v->general ? j->diags : &own, &v->kernel, llvm)) {
        if (v->general) return false;
        v->dropped = own.list.n ? own.list.v[0].text : "passes a limit of the chip";
    }
    return true;
}

static bool arch_wanted(const Job *j, const char *target) {
    for (int i = 0; i < j->archs.n; i++)
        if (!strcmp(j->archs.v[i]->name, target)) return true;
    return false;
}

/* Do the variants so far leave room for one more fast schedule for `target`? */
static bool room(const Variants *variants, const char *target) {
    int fast = 0, slow = 0;
    for (int i = 0; i < variants->n; i++) {
        const Variant *v = &variants->v[i];
        if (v->general || strcmp(v->schedule->target, target) != 0) continue;
        if (v->schedule->held) continue; /* each of those is for rows of its length */
        fast += !v->dropped;
        slow += v->slow;
    }
    return fast < MAX_FAST && slow < MAX_SLOW;
}

static bool lower_step(Lowering *l, int step) {
    const Step *s = &l->fn->plan->steps.v[step];
    Variants *variants = &l->fn->variants[step];
    FK_ASSERT(s->schedules.n > 0);
    for (int i = 0; i < s->schedules.n; i++) {
        Variant v = {.schedule = s->schedules.v[i], .general = i == s->schedules.n - 1};
        const char *target = v.schedule->target;
        if (!v.general && !arch_wanted(l->j, target)) continue;
        /* Those in the air count as kept: judge them before saying no. */
        if (!v.general && !room(variants, target) && !land_until(l, 0)) return false;
        if (!v.general && !room(variants, target)) {
            v.dropped = "not tried: there are enough, or too many were slow";
        } else if (!lower_variant(l->j, l->fn, step, &v, false)) {
            return false;
        }
        vec_push(l->j->arena, variants, v);
        if (!assemble(l, step, variants->n - 1)) return false;
    }
    return true;
}

bool lower_fn(Job *j, BuiltFn *fn) {
    Lowering l = {.j = j, .fn = fn};
    fn->variants = ARENA_ARRAY(j->arena, Variants, fn->plan->steps.n);
    bool ok = true;
    for (int i = 0; i < fn->plan->steps.n && ok; i++) ok = lower_step(&l, i);
    return land_until(&l, 0) && ok;
}
