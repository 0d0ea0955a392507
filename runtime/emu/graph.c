// Captured launches: what would have run is written down, with its parameters and the memory of its
// call, and runs when the graph is launched, as often as one likes. As on a GPU nothing runs while
// a stream captures. One stream of a device captures at a time.
#include <stdlib.h>
#include <string.h>

#include "runtime/emu/device_int.h"

typedef struct Launched {
    FkFunction f;
    FkGrid grid;
    void *call;
    int n;
    void **params; // copies
    struct Launched *next;
} Launched;

typedef struct Called {
    void *call;
    struct Called *next;
} Called;

typedef struct EmuGraph {
    Launched *first, **last;
    Called *calls;
} EmuGraph;

fk_status emu_graph_begin(void *self, void *stream, FkError *error) {
    Emu *e = self;
    if (e->graph) return FK_FAIL(error, FK_ERROR_CAPTURE, "emu: a stream is capturing already");
    EmuGraph *g = calloc(1, sizeof *g);
    if (!g) return FK_FAIL(error, FK_ERROR_MEMORY, "emu: out of memory for a graph");
    g->last = &g->first;
    e->graph = g;
    e->capturing = stream;
    return FK_OK;
}

fk_status emu_graph_end(void *self, void *stream, void **graph, FkError *error) {
    Emu *e = self;
    if (!e->graph || e->capturing != stream)
        return FK_FAIL(error, FK_ERROR_CAPTURE, "emu: the stream does not capture");
    *graph = e->graph;
    e->graph = NULL;
    return FK_OK;
}

void emu_graph_free(void *self, void *graph) {
    EmuGraph *g = graph;
    for (Launched *l = g->first, *next; l; l = next) {
        next = l->next;
        for (int k = 0; k < l->n; k++) free(l->params[k]);
        free(l->params);
        free(l);
    }
    for (Called *c = g->calls, *next; c; c = next) {
        next = c->next;
        emu_call_free(c->call);
        free(c);
    }
    free(g);
    (void)self;
}

fk_status emu_graph_launch(void *self, void *graph, void *stream, FkError *error) {
    const EmuGraph *g = graph;
    fk_status s = FK_OK;
    for (const Called *c = g->calls; c; c = c->next) emu_call_fresh(c->call);
    for (const Launched *l = g->first; l && !s; l = l->next)
        s = emu_run(self, &l->f, &l->grid, l->params, l->n, l->call, error);
    (void)stream;
    return s;
}

// ---- while a stream captures ----

fk_status emu_graph_note(Emu *e, const FkFunction *f, const FkGrid *grid, void **params, int n,
                         void *call, FkError *error) {
    EmuGraph *g = e->graph;
    const Func *func = f->handle;
    Launched *l = calloc(1, sizeof *l);
    bool ok = l && (l->params = calloc((size_t)n + 1, sizeof *l->params));
    for (int k = 0; k < n && ok; k++) {
        size_t bytes = func->params.v[k].bytes;
        ok = (l->params[k] = malloc(bytes)) != NULL;
        if (ok) memcpy(l->params[k], params[k], bytes);
        l->n = ok ? k + 1 : k;
    }
    if (!ok) {
        for (int k = 0; l && k < l->n; k++) free(l->params[k]);
        if (l) free(l->params);
        free(l);
        return FK_FAIL(error, FK_ERROR_MEMORY, "emu: out of memory for a graph");
    }
    l->f = *f, l->grid = *grid, l->call = call;
    *g->last = l;
    g->last = &l->next;
    return FK_OK;
}

bool emu_graph_keep(Emu *e, void *call) {
    EmuGraph *g = e->graph;
    Called *c = g ? calloc(1, sizeof *c) : NULL;
    if (!c) return false;
    *c = (Called){call, g->calls};
    g->calls = c;
    return true;
}
