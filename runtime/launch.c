// Launching a fn. Everything that can fail without the device is evaluated for all steps before the
// first kernel is enqueued, so an error leaves the outputs untouched. Nothing here allocates.
#include "runtime/runtime_int.h"

#include <string.h>

typedef struct {
    uint8_t variant[FKM_MAX_STEPS]; // the one chosen
    uint64_t head, bytes;           // of the head; of everything
} Plan;

// ---- choosing variants ----

// No variant of a step has an image: because the driver is old, or the module is for other chips.
static fk_status no_image(const fk_fn *fn, const FkmStep *s) {
    const fk_module *m = fn->module;
    const fk_device_info *info = &m->device->facts.info;
    char archs[256] = "";
    size_t n = 0;
    bool maps = false;
    for (uint32_t v = 0; v < s->n_variants; v++) {
        const FkmVariant *var = &s->variants[v];
        for (uint32_t l = 0; l < var->n_launches; l++) {
            const FkmKernel *k = &m->tree->kernels[var->launches[l].kernel];
            maps |= !m->device->facts.tensor_maps && fk_tmap_count(&var->launches[l]);
            if (!m->kernels[var->launches[l].kernel].ptx_too_new) continue;
            return fk_fail(
                FK_ERROR_DRIVER_TOO_OLD,
                "fn '%s', kernel '%s': its PTX is ISA %u.%u, but the driver, for CUDA %d.%d, takes "
                "at most %d.%d; update the driver, or compile with --ptx-version=%d.%d or to a "
                "cubin (--arch=sm_%d, with ptxas)",
                fn->fn->name, k->name, k->major, k->minor, info->driver_version / 1000,
                info->driver_version % 1000 / 10, info->ptx_version / 10, info->ptx_version % 10,
                info->ptx_version / 10, info->ptx_version % 10, info->arch);
        }
        if (n < sizeof archs && !strstr(archs, var->arch))
            n += (size_t)snprintf(archs + n, sizeof archs - n, "%s%s", n ? ", " : "", var->arch);
    }
    return fk_fail(
        FK_ERROR_ARCH,
        "fn '%s', step '%s': the module has code for %s%s, and the device is sm_%d; compile "
        "with --arch=sm_%d",
        fn->fn->name, s->name ? s->name : "", archs,
        maps ? " with tensor maps, which need a driver for CUDA 12" : "", info->arch, info->arch);
}

// The guard holds, and the hardware can express the tensor maps.
static bool holds(const FkBound *b, const FkmVariant *v) {
    int64_t guard;
    FkTmap map;
    if (v->guard.n && !(fkm_eval(&v->guard, &b->env, &guard) && guard)) return false;
    for (uint32_t l = 0; l < v->n_launches; l++)
        for (uint32_t i = 0; i < v->launches[l].n_params; i++) {
            const FkmParam *p = &v->launches[l].params[i];
            if (p->kind == FKM_PARAM_TMAP && !fk_tmap_describe(b, p, 0, &map)) return false;
        }
    return true;
}

static bool bytes_of(const FkBound *b, const FkmExpr *e, uint64_t *bytes) {
    int64_t n;
    if (!fkm_eval(e, &b->env, &n) || n < 0) return false;
    *bytes = (uint64_t)n;
    return true;
}

static fk_status too_large(const FkBound *b) {
    return fk_fail(FK_ERROR_OVERFLOW, "fn '%s': the bytes of its workspace leave 64 bits",
                   b->fn->fn->name);
}

// The cheapest usable variant whose guard holds. If addresses are missing, scratch is the most that
// any variant which may be chosen asks for: a better alignment only ever makes more guards hold,
// and missing addresses count as best aligned.
static fk_status choose(const FkBound *b, uint32_t step, Plan *p) {
    const FkmStep *s = &b->fn->fn->steps[step];
    int64_t best = 0, cost;
    uint64_t scratch = 0, most = 0;
    bool found = false, ok = true, fits;
    for (uint32_t v = 0; v < s->n_variants; v++) {
        const FkmVariant *var = &s->variants[v];
        if (!(b->fn->usable[step] >> v & 1)) continue;
        if (!holds(b, var)) continue;
        if (!fkm_eval(&var->cost, &b->env, &cost)) cost = INT64_MAX;
        fits = bytes_of(b, &var->scratch, &scratch);
        if (fits && scratch > most) most = scratch;
        if (found && cost >= best) continue;
        found = true;
        ok = fits;
        best = cost;
        b->scratch_bytes[step] = scratch;
        p->variant[step] = (uint8_t)v;
    }
    if (!b->addresses) b->scratch_bytes[step] = most;
    if (found && !ok) return too_large(b);
    if (found) return FK_OK;
    if (!b->fn->usable[step]) return no_image(b->fn, s);
    return fk_fail(FK_ERROR_UNSUPPORTED,
                   "fn '%s', step '%s': no variant takes these sizes and strides", b->fn->fn->name,
                   s->name ? s->name : "");
}

// ---- the workspace ----

static fk_status lay_out(const FkBound *b, Plan *p) {
    const FkmFn *f = b->fn->fn;
    FkmPlaces places = {.n_temps = f->n_temps,
                        .n_steps = f->n_steps,
                        .life = b->fn->life,
                        .order = b->fn->order,
                        .bytes = b->temp_bytes,
                        .at = b->temp,
                        .scratch = b->scratch_bytes,
                        .scratch_at = b->scratch,
                        .live = (uint32_t *)b->live};
    bool ok = bytes_of(b, &f->head, &places.head);
    for (uint32_t i = 0; i < f->n_temps && ok; i++)
        ok = bytes_of(b, &f->temps[i].bytes, &b->temp_bytes[i]);
    ok = ok && fkm_place(&places);
    p->head = places.head;
    p->bytes = places.total;
    return ok ? FK_OK : too_large(b);
}

static fk_status make_plan(const FkBound *b, Plan *p) {
    fk_status s = FK_OK;
    p->bytes = 0;
    for (uint32_t i = 0; i < b->fn->fn->n_steps && !s; i++) s = choose(b, i, p);
    return s ? s : lay_out(b, p);
}

static fk_status check_workspace(const FkBound *b, const Plan *p, const void *workspace,
                                 size_t bytes) {
    const char *fn = b->fn->fn->name;
    if (!p->bytes) return FK_OK;
    if (bytes < p->bytes || !workspace)
        return fk_fail(FK_ERROR_WORKSPACE_SIZE,
                       "fn '%s': the workspace must have %llu bytes, found %llu%s", fn,
                       (unsigned long long)p->bytes, (unsigned long long)bytes,
                       workspace ? "" : " at a null address");
    if ((uintptr_t)workspace % FKM_ALIGN)
        return fk_fail(FK_ERROR_WORKSPACE_ALIGNMENT,
                       "fn '%s': the workspace must be aligned to %d bytes, found %p", fn,
                       FKM_ALIGN, workspace);
    return FK_OK;
}

// ---- one launch ----

typedef struct {
    const FkBound *b;
    const Plan *plan;
    uint64_t workspace;
    void *stream, *call; // call: of the device's begin
    bool enqueue;        // else only prove that it can be
    uint32_t step, launched;
} Run;

static fk_status failed(const Run *r, const FkmLaunch *l, const char *what) {
    return fk_fail(FK_ERROR_OVERFLOW,
                   "fn '%s', kernel '%s': %s leaves 64 bits or divides by a number that is not "
                   "positive",
                   r->b->fn->fn->name, r->b->fn->module->tree->kernels[l->kernel].name, what);
}

// *skip: the grid has a 0.
static fk_status eval_grid(const Run *r, const FkmLaunch *l, FkGrid *g, bool *skip) {
    const int64_t *most = r->b->fn->module->device->facts.max_grid;
    int64_t v[3];
    bool ok = true;
    for (int i = 0; i < 3; i++) {
        bool known = fkm_eval(&l->grid[i], &r->b->env, &v[i]);
        if (known && !v[i]) return *skip = true, FK_OK;
        ok &= known;
    }
    *skip = false;
    if (!ok) return failed(r, l, "its grid");
    for (int i = 0; i < 3; i++) {
        if (v[i] < 0 || v[i] > most[i])
            return fk_fail(FK_ERROR_LAUNCH,
                           "fn '%s', kernel '%s': the grid's %c must be in 0 .. %lld, found %lld",
                           r->b->fn->fn->name, r->b->fn->module->tree->kernels[l->kernel].name,
                           'x' + i, (long long)most[i], (long long)v[i]);
        g->grid[i] = (uint32_t)v[i];
        g->block[i] = l->block[i];
    }
    return FK_OK;
}

static fk_status eval_shared(const Run *r, const FkmLaunch *l, const FkFunction *f, FkGrid *g) {
    int64_t v;
    if (!fkm_eval(&l->shared, &r->b->env, &v)) return failed(r, l, "its shared memory");
    if (v < 0 || v > f->max_dynamic)
        return fk_fail(FK_ERROR_LAUNCH,
                       "fn '%s', kernel '%s': shared memory must be in 0 .. %lld bytes, found %lld",
                       r->b->fn->fn->name, r->b->fn->module->tree->kernels[l->kernel].name,
                       (long long)f->max_dynamic, (long long)v);
    g->shared = (uint32_t)v;
    return FK_OK;
}

// The bytes of a rank-0 tensor on the CPU; 0 for one on the device.
static uint64_t scalar_value(const FkBound *b, uint32_t tensor) {
    uint64_t v = 0;
    const DLTensor *t = b->args[tensor];
    size_t n = (size_t)(fkm_dtype_bits((FkmDtype)b->fn->fn->tensors[tensor].dtype) + 7) / 8;
    if (!b->address[tensor]) memcpy(&v, (const char *)t->data + t->byte_offset, n);
    return v;
}

// The parameters of a launch: param[i] points into value or map.
typedef struct {
    _Alignas(FKM_MAP_ALIGN) unsigned char map[FKM_MAX_MAPS][FKM_MAP_BYTES];
    uint64_t *value; // room for two a parameter
    void **param;
    int n, n_maps, n_values;
} Params;

static void push_value(Params *to, uint64_t v) {
    to->param[to->n++] = &to->value[to->n_values];
    to->value[to->n_values++] = v;
}

static fk_status push_map(const Run *r, const FkmLaunch *l, const FkmParam *p, Params *to) {
    const FkmFn *f = r->b->fn->fn;
    FkTmap map;
    uint64_t base = p->map.temp ? r->workspace + r->b->temp[p->index] : r->b->address[p->index];
    if (!fk_tmap_describe(r->b, p, base, &map)) return failed(r, l, "a tensor map");
    void *out = to->map[to->n_maps++];
    to->param[to->n++] = out;
    fk_status s = fk_tmap_get(r->b->fn, &map, out);
    if (!s) return FK_OK;
    char why[sizeof(FkError)];
    snprintf(why, sizeof why, "%s", fk_last_error());
    const char *quote = p->map.temp ? "" : "'",
               *name = p->map.temp ? "" : f->tensors[p->index].name;
    return fk_fail(s, "fn '%s', kernel '%s', the tensor map of %s %u%s%s%s%s: %.3700s", f->name,
                   r->b->fn->module->tree->kernels[l->kernel].name,
                   p->map.temp ? "temporary" : "argument", p->index, p->map.temp ? "" : " ", quote,
                   name, quote, why);
}

static fk_status eval_params(const Run *r, const FkmLaunch *l, Params *to) {
    to->n = to->n_maps = to->n_values = 0;
    for (uint32_t i = 0; i < l->n_params; i++) {
        const FkmParam *p = &l->params[i];
        int64_t v;
        uint64_t base = 0;
        fk_status s;
        if (!fkm_eval(&p->value, &r->b->env, &v)) return failed(r, l, "a parameter");
        switch ((FkmParamKind)p->kind) {
        case FKM_PARAM_TENSOR:
        case FKM_PARAM_SCALAR: base = r->b->address[p->index]; break;
        case FKM_PARAM_TEMP: base = r->workspace + r->b->temp[p->index]; break;
        case FKM_PARAM_SCRATCH: base = r->workspace + r->b->scratch[r->step]; break;
        case FKM_PARAM_HEAD: base = r->workspace; break;
        case FKM_PARAM_TMAP:
            if ((s = push_map(r, l, p, to))) return s;
            continue;
        default: break;
        }
        push_value(to, base + (uint64_t)v);
        if (p->kind == FKM_PARAM_SCALAR) push_value(to, scalar_value(r->b, p->index));
    }
    return FK_OK;
}

// Loading is allowed unless the stream captures: then the driver may refuse, and break the capture.
static fk_status function_of(const Run *r, const FkmLaunch *l, const FkFunction **f) {
    fk_module *m = r->b->fn->module;
    bool capturing = false;
    *f = atomic_load_explicit(&m->kernels[l->kernel].function, memory_order_acquire);
    if (*f) return FK_OK;
    fk_status s =
        m->device->ops->stream_capturing(m->device->self, r->stream, &capturing, fk_error());
    return s ? s : fk_kernel_function(m, l->kernel, !capturing, f);
}

static fk_status launch_one(Run *r, const FkmLaunch *l) {
    uint64_t value[2 * l->n_params + 1];
    void *param[2 * l->n_params + 1];
    Params params;
    params.value = value;
    params.param = param;
    params.n = params.n_maps = params.n_values = 0;
    const fk_device *d = r->b->fn->module->device;
    const FkFunction *f;
    FkGrid g;
    bool skip;
    fk_status s = eval_grid(r, l, &g, &skip);
    if (s || skip) return s;
    if ((s = function_of(r, l, &f)) || (s = eval_shared(r, l, f, &g))) return s;
    if ((s = eval_params(r, l, &params)) || !r->enqueue) return s;
    g.step = r->step;
    g.early = r->launched > 0 && r->b->fn->module->tree->kernels[l->kernel].waits;
    r->launched++;
    s = d->ops->launch(d->self, f, &g, params.param, params.n, r->call, r->stream, fk_error());
    if (!s) return FK_OK;
    char why[sizeof(FkError)];
    snprintf(why, sizeof why, "%s", fk_last_error());
    return fk_fail(s, "fn '%s', kernel '%s', grid %u x %u x %u: %.3700s", r->b->fn->fn->name,
                   r->b->fn->module->tree->kernels[l->kernel].name, g.grid[0], g.grid[1], g.grid[2],
                   why);
}

static fk_status run(Run *r) {
    const FkmFn *f = r->b->fn->fn;
    fk_status s = FK_OK;
    for (uint32_t i = 0; i < f->n_steps; i++) {
        const FkmVariant *v = &f->steps[i].variants[r->plan->variant[i]];
        r->step = i;
        for (uint32_t k = 0; k < v->n_launches && !s; k++) s = launch_one(r, &v->launches[k]);
    }
    return s;
}

// ---- what a call may touch, for devices that check it ----

static void add_region(FkRegion *to, uint32_t *n, FkRegion r) {
    if (r.bytes) to[(*n)++] = r;
}

// All tensors on the device, and the parts of the workspace.
static fk_status begin(Run *r) {
    const FkBound *b = r->b;
    const FkmFn *f = b->fn->fn;
    const Plan *p = r->plan;
    const uint32_t last = UINT32_MAX;
    FkRegion regions[f->n_tensors + f->n_temps + f->n_steps + 1];
    uint32_t n = 0;
    for (uint32_t i = 0; i < f->n_tensors; i++) {
        FkRegionKind kind = f->tensors[i].is_output ? FK_REGION_OUTPUT : FK_REGION_INPUT;
        uint64_t bytes = b->address[i] ? b->high[i] - b->low[i] : 0;
        add_region(regions, &n, (FkRegion){b->low[i], bytes, kind, i, 0, last, f->tensors[i].name});
    }
    for (uint32_t i = 0; i < f->n_temps; i++) {
        const FkmLife *life = &b->fn->life[i];
        int64_t bytes = 0;
        fkm_eval(&f->temps[i].bytes, &b->env, &bytes); // lay_out has
        if (life->first > life->last) continue;
        add_region(regions, &n,
                   (FkRegion){r->workspace + b->temp[i], (uint64_t)bytes, FK_REGION_TEMP, i,
                              life->first, life->last, NULL});
    }
    for (uint32_t i = 0; i < f->n_steps; i++)
        add_region(regions, &n,
                   (FkRegion){r->workspace + b->scratch[i], b->scratch_bytes[i], FK_REGION_SCRATCH,
                              0, i, i, NULL});
    add_region(regions, &n, (FkRegion){r->workspace, p->head, FK_REGION_HEAD, 0, 0, last, NULL});
    const fk_device *d = b->fn->module->device;
    return d->ops->begin(d->self, regions, n, &r->call, fk_error());
}

// ---- the API ----

fk_status fk_fn_workspace_size(fk_fn *fn, DLTensor *const *args, int n, size_t *bytes) {
    FkBound b;
    Plan p;
    if (!fn || !bytes)
        return fk_fail(FK_ERROR_ARGUMENT, "fk_fn_workspace_size: fn or bytes is null");
    FK_ROOM(room, fn->fn);
    fk_status s = fk_bind(fn, args, n, false, room, &b);
    if (!s) s = make_plan(&b, &p);
    if (!s) *bytes = (size_t)p.bytes;
    return s;
}

fk_status fk_workspace_init(fk_fn *fn, DLTensor *const *args, int n, void *workspace, size_t bytes,
                            void *stream) {
    FkBound b;
    Plan p;
    if (!fn) return fk_fail(FK_ERROR_ARGUMENT, "fk_workspace_init: fn is null");
    FK_ROOM(room, fn->fn);
    fk_status s = fk_bind(fn, args, n, false, room, &b);
    if (!s) s = make_plan(&b, &p);
    if (!s) s = check_workspace(&b, &p, workspace, bytes);
    if (s || !p.head) return s;
    const fk_device *d = fn->module->device;
    return d->ops->clear(d->self, workspace, (size_t)p.head, stream, fk_error());
}

// Loads what the variant launches.
static fk_status load_variant(const FkBound *b, const FkmVariant *v) {
    const FkFunction *f;
    fk_status s = FK_OK;
    for (uint32_t i = 0; i < v->n_launches && !s; i++)
        s = fk_kernel_function(b->fn->module, v->launches[i].kernel, true, &f);
    return s;
}

// With addresses, what is chosen; without, every variant that may be.
fk_status fk_fn_prepare(fk_fn *fn, DLTensor *const *args, int n) {
    FkBound b;
    Plan p;
    if (!fn) return fk_fail(FK_ERROR_ARGUMENT, "fk_fn_prepare: fn is null");
    FK_ROOM(room, fn->fn);
    fk_status s = fk_bind(fn, args, n, false, room, &b);
    if (!s) s = make_plan(&b, &p);
    for (uint32_t i = 0; i < fn->fn->n_steps && !s; i++) {
        const FkmStep *step = &fn->fn->steps[i];
        s = load_variant(&b, &step->variants[p.variant[i]]);
        for (uint32_t v = 0; v < step->n_variants && !s && !b.addresses; v++)
            if (fn->usable[i] >> v & 1 && holds(&b, &step->variants[v]))
                s = load_variant(&b, &step->variants[v]);
    }
    return s;
}

fk_status fk_fn_variant(fk_fn *fn, DLTensor *const *args, int n, int step, const char **name) {
    FkBound b;
    Plan p;
    if (!fn || !name) return fk_fail(FK_ERROR_ARGUMENT, "fk_fn_variant: fn or name is null");
    if (step < 0 || (uint32_t)step >= fn->fn->n_steps)
        return fk_fail(FK_ERROR_ARGUMENT, "fk_fn_variant: fn '%s' has no step %d", fn->fn->name,
                       step);
    FK_ROOM(room, fn->fn);
    fk_status s = fk_bind(fn, args, n, false, room, &b);
    if (!s) s = make_plan(&b, &p);
    if (s) return s;
    const char *text = fn->fn->steps[step].variants[p.variant[step]].name;
    *name = text ? text : "";
    return FK_OK;
}

fk_status fk_launch(fk_fn *fn, DLTensor *const *args, int n, void *workspace, size_t bytes,
                    void *stream) {
    FkBound b;
    Plan p;
    if (!fn) return fk_fail(FK_ERROR_ARGUMENT, "fk_launch: fn is null");
    FK_ROOM(room, fn->fn);
    fk_status s = fk_bind(fn, args, n, true, room, &b);
    if (!s) s = make_plan(&b, &p);
    if (!s) s = check_workspace(&b, &p, workspace, bytes);
    if (!s) s = fk_check_overlap(&b, workspace, p.bytes);
    Run r = {&b, &p, (uint64_t)(uintptr_t)workspace, stream, NULL, false, 0, 0};
    if (!s) s = run(&r);
    const fk_device *d = fn->module->device;
    if (!s && d->ops->begin) s = begin(&r);
    if (s) return s;
    r.enqueue = true;
    s = run(&r);
    if (r.call) d->ops->end(d->self, r.call);
    return s;
}
