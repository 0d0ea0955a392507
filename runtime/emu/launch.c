// Calls and launches: what memory there is, and the parameters' bytes.
#include <stdlib.h>

#include "runtime/emu/cluster_int.h"
#include "runtime/emu/device_int.h"
#include "runtime/emu/meet_int.h"
#include "runtime/emu/race_int.h"
#include "runtime/emu/stats_int.h"

// ---- calls: the memory of all launches of one fn ----

typedef struct Call {
    Region *regions, *here; // here: of the launch at hand
    uint32_t n;
} Call;

void emu_call_free(void *call) {
    Call *c = call;
    for (uint32_t k = 0; k < c->n; k++) {
        free(c->regions[k].written);
        free((char *)(uintptr_t)c->regions[k].name);
    }
    free(c->regions);
    free(c->here);
    free(c);
}

void emu_call_fresh(void *call) {
    const Call *c = call;
    for (uint32_t k = 0; k < c->n; k++)
        if (c->regions[k].written) memset(c->regions[k].written, 0, c->regions[k].bytes);
}

void emu_end(void *self, void *call) {
    if (!emu_graph_keep(self, call)) emu_call_free(call);
}

static bool fill(Region *r, const FkRegion *from) {
    static const char *const names[] = {"input", "output", "temporary", "the scratch memory",
                                        "the workspace's head"};
    char name[128];
    if (from->kind == FK_REGION_TEMP)
        snprintf(name, sizeof name, "temporary t%u", from->index);
    else if (from->name)
        snprintf(name, sizeof name, "%s '%.90s'", names[from->kind], from->name);
    else
        snprintf(name, sizeof name, "%s", names[from->kind]);
    *r = (Region){.at = from->address,
                  .bytes = from->bytes,
                  .name = strdup(name),
                  .first = from->first,
                  .last = from->last,
                  .input = from->kind == FK_REGION_INPUT,
                  .scratch = from->kind == FK_REGION_SCRATCH};
    bool fresh = from->kind != FK_REGION_INPUT && from->kind != FK_REGION_HEAD;
    if (fresh) r->written = calloc(1, from->bytes + 1);
    return r->name && (!fresh || r->written);
}

fk_status emu_begin(void *self, const FkRegion *regions, uint32_t n, void **call, FkError *error) {
    Call *c = calloc(1, sizeof *c);
    bool ok = c && (c->regions = calloc(n + 1, sizeof *c->regions)) &&
              (c->here = calloc(n + 1, sizeof *c->here));
    for (uint32_t k = 0; k < n && ok; k++)
        if (regions[k].bytes) ok = fill(&c->regions[c->n++], &regions[k]);
    if (!ok) {
        if (c) emu_call_free(c);
        (void)self;
        return FK_FAIL(error, FK_ERROR_MEMORY, "emu: out of memory for the state of a launch");
    }
    *call = c;
    return FK_OK;
}

// ---- launches ----

// CTAs that are on the GPU at a time.
static uint32_t resident(const Emu *e, const Grid *g) {
    uint32_t by_threads = SM_THREADS / (g->n_warps * LANES);
    uint32_t by_shared = SM_SHARED / (g->shared_bytes + CTA_RESERVED);
    uint32_t n = by_threads < by_shared ? by_threads : by_shared;
    n = n > SM_CTAS ? SM_CTAS : n ? n : 1;
    uint32_t per = g->f->cluster ? g->f->cluster : 1, all = n * e->sms / per;
    return all ? all : 1;
}

// The memory that is there in a step. What was written of it stays with the call.
static uint32_t regions_of(const Call *c, uint32_t step) {
    uint32_t n = 0;
    for (uint32_t k = 0; k < c->n; k++) {
        const Region *r = &c->regions[k];
        if (r->first <= step && step <= r->last) c->here[n++] = *r;
    }
    return n;
}

static fk_status run(const Emu *e, Grid *g, FkError *error) {
    const Func *f = g->f;
    if (f->block[0] && memcmp(f->block, g->block, sizeof f->block))
        return FK_FAIL(error, FK_ERROR_LAUNCH,
                       "emu: a block of %u x %u x %u, and .reqntid says %u "
                       "x %u x %u",
                       g->block[0], g->block[1], g->block[2], f->block[0], f->block[1],
                       f->block[2]);
    if (g->n_threads < 1 || g->n_threads > MAX_WARPS * LANES)
        return FK_FAIL(error, FK_ERROR_LAUNCH, "emu: a block of %u threads", g->n_threads);
    if (f->cluster && g->dim[0] % f->cluster)
        return FK_FAIL(error, FK_ERROR_LAUNCH, "emu: a grid of %u in clusters of %u", g->dim[0],
                       f->cluster);
    return grid_run(g, resident(e, g), error);
}

fk_status emu_launch(void *self, const FkFunction *f, const FkGrid *grid, void **params,
                     int n_params, void *call, void *stream, FkError *error) {
    Emu *e = self;
    if (e->graph && e->capturing == stream)
        return emu_graph_note(e, f, grid, params, n_params, call, error);
    return emu_run(e, f, grid, params, n_params, call, error);
}

fk_status emu_run(const Emu *e, const FkFunction *f, const FkGrid *grid, void **params,
                  int n_params, void *call, FkError *error) {
    const Func *g = f->handle;
    const Call *c = call;
    if (!c) return FK_FAIL(error, FK_ERROR_LAUNCH, "emu: a launch whose memory is not known");
    if ((uint32_t)n_params != g->params.n)
        return FK_FAIL(error, FK_ERROR_LAUNCH, "emu: %d parameters, and the function has %u",
                       n_params, g->params.n);
    uint32_t n_regions = regions_of(c, grid->step);
    Reports *reports = calloc(1, sizeof *reports);
    uint8_t *bytes = aligned_alloc(FK_TMAP_ALIGN, (g->param_bytes + FK_TMAP_ALIGN) / FK_TMAP_ALIGN *
                                                      FK_TMAP_ALIGN);
    fk_status s;
    if (reports && bytes) {
        pthread_mutex_init(&reports->lock, NULL);
        for (int k = 0; k < n_params; k++)
            memcpy(bytes + g->params.v[k].at, params[k], g->params.v[k].bytes);
        Grid launch = {.f = g,
                       .dim = {grid->grid[0], grid->grid[1], grid->grid[2]},
                       .block = {grid->block[0], grid->block[1], grid->block[2]},
                       .n_threads = grid->block[0] * grid->block[1] * grid->block[2],
                       .shared_bytes = g->dynamic_at + grid->shared,
                       .params = bytes,
                       .regions = c->here,
                       .n_regions = n_regions,
                       .seed = e->seed,
                       .limit = e->limit,
                       .lax = e->lax,
                       .early = grid->early,
                       .reports = reports};
        for (uint32_t k = 0; k < n_regions; k++) race_global_new(&c->here[k]);
        launch.n_warps = (launch.n_threads + LANES - 1) / LANES;
        launch.meets = meets_new();
        if (!launch.meets || (e->stats && !(launch.stats = stats_new(&launch))))
            s = FK_FAIL(error, FK_ERROR_MEMORY, "emu: out of memory for a launch");
        else
            s = run(e, &launch, error);
        if (!s && launch.early && !launch.met)
            s = FK_FAIL(error, FK_ERROR_LAUNCH,
                        "emu: %.*s begins before what was launched before it has ended, and no "
                        "thread of it waits",
                        (int)g->name_n, g->name);
        if (!s && launch.stats) stats_put(&launch, stderr);
        stats_free(launch.stats);
        meets_free(launch.meets);
        for (uint32_t k = 0; k < n_regions; k++) race_global_free(&c->here[k]);
        pthread_mutex_destroy(&reports->lock);
    } else {
        s = FK_FAIL(error, FK_ERROR_MEMORY, "emu: out of memory for a launch");
    }
    free(bytes);
    free(reports);
    return s;
}
