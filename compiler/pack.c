/* pack.c - plans and kernels as the tree of a module (runtime/fkm.h), which fkm_encode writes.
 *
 * One FkmFn a fn: its signature, how sizes follow from extents, launch checks, temporaries, and for
 * each step its variants in order of preference; the last has no guard. Kernels stand in one list.
 */
#include "compiler/compiler_int.h"

#include <string.h>

typedef struct Packer {
    Arena *arena;
    const Job *job;
    VEC(FkmKernel) kernels;
} Packer;

static char *text(Packer *p, const char *s) {
    return arena_strdup(p->arena, s);
}

/* ---- signature ---------------------------------------------------------------------------------
 */

static uint8_t dtype(DType t) {
    int code = fkm_dtype_named(dtype_name(t));
    FK_ASSERT(code >= 0);
    return (uint8_t)code;
}

static const char *ix_text(Packer *p, const Graph *g, const Ix *x) {
    IxNames names = size_names(p->arena, g);
    Str s = {0};
    ix_print(&s, x, &names);
    char *copy = text(p, str_get(&s));
    str_free(&s);
    return copy;
}

static void pack_signature(Packer *p, const Graph *g, FkmFn *f) {
    f->tensors = ARENA_ARRAY(p->arena, FkmTensor, g->params.n);
    f->n_tensors = (uint32_t)g->params.n;
    for (int i = 0; i < g->params.n; i++) {
        const Param *from = &g->params.v[i];
        FkmTensor *to = &f->tensors[i];
        *to = (FkmTensor){.name = text(p, from->name),
                          .dtype = dtype(from->type),
                          .is_output = from->out,
                          .dims = ARENA_ARRAY(p->arena, FkmDim, from->rank),
                          .rank = (uint32_t)from->rank};
        for (int d = 0; d < from->rank; d++)
            to->dims[d] = (FkmDim){(char *)ix_text(p, g, from->dims[d]),
                                   pack_ix(p->arena, from->dims[d], -1, -1)};
    }
    f->sizes = ARENA_ARRAY(p->arena, FkmSize, g->sizes.n);
    f->n_sizes = (uint32_t)g->sizes.n;
    for (int i = 0; i < g->sizes.n; i++) f->sizes[i] = (FkmSize){text(p, g->sizes.v[i].name), -1};
}

static void pack_solves(Packer *p, const Graph *g, FkmFn *f) {
    f->solves = ARENA_ARRAY(p->arena, FkmSolve, g->solve.n);
    f->n_solves = (uint32_t)g->solve.n;
    for (int i = 0; i < g->solve.n; i++) {
        const Solve *s = &g->solve.v[i];
        FkmSolve *to = &f->solves[i];
        *to = (FkmSolve){.size = (uint32_t)s->size,
                         .tensor = (uint32_t)s->param,
                         .dim = (uint32_t)s->dim,
                         .number = pack_ix(p->arena, s->num, s->param, s->dim)};
        if (s->div != 1) to->divisor = pack_ix(p->arena, ix_const(g->ix, s->div), -1, -1);
    }
}

/* The message of a check: where, what, and the two numbers the runtime puts in. */
static char *check_text(Packer *p, const Check *c) {
    Str s = {0};
    int line, col;
    if (c->span.src) {
        source_place(c->span, &line, &col);
        str_printf(&s, "line %d: ", line);
    }
    str_add(&s, c->text);
    if (c->needed && c->found) str_add(&s, ": needs {needed}, found {found}");
    char *copy = text(p, str_get(&s));
    str_free(&s);
    return copy;
}

static void pack_checks(Packer *p, const Graph *g, FkmFn *f) {
    f->checks = ARENA_ARRAY(p->arena, FkmCheck, g->checks.n);
    f->n_checks = (uint32_t)g->checks.n;
    for (int i = 0; i < g->checks.n; i++) {
        const Check *c = &g->checks.v[i];
        FkmCheck *to = &f->checks[i];
        *to = (FkmCheck){.value = pack_ix(p->arena, c->e, -1, -1),
                         .needed = pack_ix(p->arena, c->needed, -1, -1),
                         .found = pack_ix(p->arena, c->found, -1, -1),
                         .text = check_text(p, c)};
        if (!c->unless) continue;
        FkmExpr extent = pack_ix(p->arena, c->unless, -1, -1); /* holds when it is 0 */
        FkmInsn *code = ARENA_ARRAY(p->arena, FkmInsn, extent.n + 1);
        memcpy(code, extent.code, extent.n * sizeof *code);
        code[extent.n] = FKM_DO(NOT);
        to->unless = (FkmExpr){code, extent.n + 1};
    }
}

static void pack_temps(Packer *p, const Plan *plan, FkmFn *f) {
    f->temps = ARENA_ARRAY(p->arena, FkmTemp, plan->temps.n);
    f->n_temps = (uint32_t)plan->temps.n;
    for (int i = 0; i < plan->temps.n; i++) {
        const Temp *t = &plan->temps.v[i];
        const Ix *bytes = expect_bytes(plan->graph->ix, t->type, t->rank, t->dims);
        f->temps[i] = (FkmTemp){.bytes = pack_ix(p->arena, bytes, -1, -1),
                                .dtype = dtype(t->type),
                                .dims = ARENA_ARRAY(p->arena, FkmExpr, t->rank),
                                .rank = (uint32_t)t->rank};
        for (int d = 0; d < t->rank; d++)
            f->temps[i].dims[d] = pack_ix(p->arena, t->dims[d], -1, -1);
    }
}

/* ---- steps -------------------------------------------------------------------------------------
 */

static FkmExpr one(Packer *p, FkmInsn insn) {
    FkmInsn *code = ARENA_NEW(p->arena, FkmInsn);
    *code = insn;
    return (FkmExpr){code, 1};
}

static FkmMap pack_map(const KTmap *k) {
    FkmMap to = {.temp = k->temp, .rank = (uint8_t)k->rank, .swizzle = (uint8_t)k->swizzle};
    FK_ASSERT(k->rank > 0 && k->rank <= FKM_MAP_RANK);
    for (int i = 0; i < k->rank; i++) {
        to.dim[i] = (uint8_t)k->dim[i];
        to.box[i] = (uint16_t)k->box[i];
    }
    return to;
}

static FkmParam pack_param(Packer *p, const KParam *k) {
    FkmParam to = {.index = (uint32_t)k->index};
    switch (k->kind) {
    case KP_TENSOR: to.kind = FKM_PARAM_TENSOR; return to;
    case KP_TEMP: to.kind = FKM_PARAM_TEMP; return to;
    case KP_SCALAR: to.kind = FKM_PARAM_SCALAR; return to;
    case KP_SCRATCH: to.kind = FKM_PARAM_SCRATCH; return to;
    case KP_HEAD: to.kind = FKM_PARAM_HEAD; return to;
    case KP_STRIDE:
        return (FkmParam){.kind = FKM_PARAM_VALUE, .value = one(p, FKM_STRIDE(k->index, k->dim))};
    case KP_VALUE:
        return (FkmParam){.kind = FKM_PARAM_VALUE, .value = pack_ix(p->arena, k->ix, -1, -1)};
    case KP_LAUNCH: break; /* pack_launch */
    case KP_TMAP:
        to.kind = FKM_PARAM_TMAP;
        to.map = pack_map(&k->map);
        return to;
    }
    FK_BUG("kernel parameter of kind %d", (int)k->kind);
}

/* A persistent kernel has as many CTAs as run at once: one a multiprocessor, in whole clusters. At
 * least one cluster: an empty grid would leave the outputs as they were. */
static FkmExpr pack_grid(Packer *p, const Variant *v) {
    FkmExpr tiles = pack_ix(p->arena, v->kernel.grid, -1, -1);
    int64_t cluster = 1;
    for (int i = 0; i < 3; i++)
        if (v->schedule->cluster[i] > 1) cluster *= v->schedule->cluster[i];
    const FkmInsn most[] = {FKM_DO(SM_COUNT), FKM_CONST(cluster), FKM_DO(MAX), FKM_CONST(cluster),
                            FKM_DO(DIV),      FKM_CONST(cluster), FKM_DO(MUL), FKM_DO(MIN)};
    const uint32_t n = sizeof most / sizeof *most;
    if (!v->kernel.persistent) return tiles;
    FkmInsn *code = ARENA_ARRAY(p->arena, FkmInsn, tiles.n + n);
    memcpy(code, tiles.code, tiles.n * sizeof *code);
    memcpy(code + tiles.n, most, sizeof most);
    return (FkmExpr){code, tiles.n + n};
}

static FkmLaunch pack_launch(Packer *p, const Variant *v, int which) {
    const Kernel *k = &v->kernel;
    FkmLaunch l = {.kernel = (uint32_t)p->kernels.n,
                   .grid = {pack_grid(p, v), one(p, FKM_CONST(1)), one(p, FKM_CONST(1))},
                   .block = {(uint32_t)k->block, 1, 1},
                   .shared = pack_ix(p->arena, k->smem, -1, -1),
                   .params = ARENA_ARRAY(p->arena, FkmParam, k->params.n),
                   .n_params = (uint32_t)k->params.n};
    for (int i = 0; i < k->params.n; i++) {
        if (k->params.v[i].kind == KP_LAUNCH)
            l.params[i] = (FkmParam){.kind = FKM_PARAM_VALUE, .value = one(p, FKM_CONST(which))};
        else
            l.params[i] = pack_param(p, &k->params.v[i]);
    }
    return l;
}

static uint32_t stat(int n) { /* a kernel that has a cubin has them */
    return n < 0 ? 0 : (uint32_t)n;
}

static FkmKernel pack_kernel(Packer *p, const Kernel *k) {
    FkmKernel to = {.name = text(p, k->name),
                    .ptx = text(p, k->ptx),
                    .major = (uint16_t)(k->ptx_version / 10),
                    .minor = (uint16_t)(k->ptx_version % 10),
                    .arch = text(p, k->arch),
                    .waits = k->waits,
                    .cubins = ARENA_ARRAY(p->arena, FkmImage, k->cubins.n),
                    .n_cubins = (uint32_t)k->cubins.n};
    for (int i = 0; i < k->cubins.n; i++) {
        const Cubin *c = &k->cubins.v[i];
        to.cubins[i] = (FkmImage){.arch = text(p, c->arch),
                                  .bytes = (void *)c->data,
                                  .size = c->size,
                                  .regs = stat(c->stats.regs),
                                  .shared = stat(c->stats.smem),
                                  .stack = stat(c->stats.stack),
                                  .spills = stat(c->stats.spill_bytes)};
    }
    return to;
}

static int kept(const Variants *variants) {
    int n = 0;
    for (int i = 0; i < variants->n; i++) n += !variants->v[i].dropped;
    return n;
}

/* A variant without a prediction comes after those that have one. */
static FkmExpr pack_cost(Packer *p, const Variant *v, int rivals) {
    const Ix *cost = variant_cost(v);
    if (rivals == 1) return (FkmExpr){0};
    return cost ? pack_ix(p->arena, cost, -1, -1) : one(p, FKM_CONST(INT64_MAX));
}

static FkmExpr pack_optional(Packer *p, const Ix *x) {
    return x ? pack_ix(p->arena, x, -1, -1) : (FkmExpr){0};
}

/* The most that any kernel of the fn keeps there. */
static FkmExpr pack_head(Packer *p, const BuiltFn *fn) {
    const Ix *most = NULL;
    for (int i = 0; i < fn->plan->steps.n; i++)
        for (int k = 0; k < fn->variants[i].n; k++) {
            const Variant *v = &fn->variants[i].v[k];
            if (v->dropped || !v->kernel.head) continue;
            most = most ? ix_max(fn->plan->graph->ix, most, v->kernel.head) : v->kernel.head;
        }
    return pack_optional(p, most);
}

static void pack_step(Packer *p, const Graph *g, const Step *s, const Variants *variants,
                      FkmStep *to) {
    *to = (FkmStep){.name = text(p, s->name),
                    .variants = ARENA_ARRAY(p->arena, FkmVariant, variants->n)};
    for (int i = 0; i < variants->n; i++) {
        const Variant *v = &variants->v[i];
        if (v->dropped) continue;
        int launches = v->kernel.launches ? v->kernel.launches : 1;
        FkmLaunch *launch = ARENA_ARRAY(p->arena, FkmLaunch, launches);
        for (int k = 0; k < launches; k++) launch[k] = pack_launch(p, v, k);
        to->variants[to->n_variants++] =
            (FkmVariant){.name = text(p, v->general ? "general" : v->schedule->name),
                         .arch = text(p, v->kernel.arch),
                         .guard = pack_guards(p->arena, g, &v->kernel),
                         .cost = pack_cost(p, v, kept(variants)),
                         .scratch = pack_optional(p, v->kernel.scratch),
                         .launches = launch,
                         .n_launches = (uint32_t)launches};
        FkmKernel kernel = pack_kernel(p, &v->kernel);
        vec_push(p->arena, &p->kernels, kernel);
    }
    FK_ASSERT(to->n_variants > 0);
}

static FkmFn pack_fn(Packer *p, const BuiltFn *fn) {
    const Graph *g = fn->plan->graph;
    FkmFn f = {.name = text(p, g->name)};
    if (!p->job->opt->strip) f.graph = text(p, fn->source);
    pack_signature(p, g, &f);
    pack_solves(p, g, &f);
    pack_checks(p, g, &f);
    pack_temps(p, fn->plan, &f);
    f.head = pack_head(p, fn);
    f.steps = ARENA_ARRAY(p->arena, FkmStep, fn->plan->steps.n);
    f.n_steps = (uint32_t)fn->plan->steps.n;
    for (int i = 0; i < fn->plan->steps.n; i++)
        pack_step(p, g, &fn->plan->steps.v[i], &fn->variants[i], &f.steps[i]);
    return f;
}

FkmModule *pack_module(Arena *a, const Job *j) {
    Packer p = {.arena = a, .job = j};
    FkmModule *m = ARENA_NEW(a, FkmModule);
    m->producer = arena_strdup(a, j->producer);
    m->fns = ARENA_ARRAY(a, FkmFn, j->fns.n);
    m->n_fns = (uint32_t)j->fns.n;
    for (int i = 0; i < j->fns.n; i++) m->fns[i] = pack_fn(&p, &j->fns.v[i]);
    m->left_out = ARENA_ARRAY(a, FkmLeftOut, j->left_out.n);
    m->n_left_out = (uint32_t)j->left_out.n;
    for (int i = 0; i < j->left_out.n; i++)
        m->left_out[i] =
            (FkmLeftOut){text(&p, j->left_out.v[i].name), text(&p, j->left_out.v[i].reason)};
    m->kernels = p.kernels.v;
    m->n_kernels = (uint32_t)p.kernels.n;
    return m;
}
