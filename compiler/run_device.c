/* run_device.c - the fn at hand on a device, through the public API of libfk alone. */
#include "compiler/run_int.h"

#include <stdlib.h>
#include <string.h>

static bool failed(fk_status s, Str *why) {
    if (s) str_printf(why, "%s (%s)", fk_last_error(), fk_status_name(s));
    return s != FK_OK;
}

bool device_open(RunDevice *d, const char *name, const void *bytes, size_t size, Str *why) {
    *d = (RunDevice){0};
    return !failed(fk_device_open(name, &d->device), why) &&
           !failed(fk_device_describe(d->device, &d->info), why) &&
           !failed(fk_stream_create(d->device, &d->stream), why) &&
           !failed(fk_module_load(d->device, bytes, size, &d->module), why);
}

void device_close(RunDevice *d) {
    fk_module_unload(d->module);
    if (d->stream) fk_stream_destroy(d->device, d->stream);
    fk_device_close(d->device);
    *d = (RunDevice){0};
}

/* The tensor as libfk sees it: data behind the guard, the offset in byte_offset. */
static DLTensor describe(const RunDevice *d, RunTensor *t, void *memory) {
    DLTensor x = {.data = (char *)memory + RUN_GUARD,
                  .device = d->info.dl,
                  .ndim = t->rank,
                  .dtype = t->dl,
                  .shape = t->extent,
                  .strides = t->stride,
                  .byte_offset = t->offset};
    if (!t->device) x.device = (DLDevice){kDLCPU, 0};
    return x;
}

bool device_alloc(RunDevice *d, Run *r) {
    for (int i = 0; i < r->n; i++) {
        RunTensor *t = &r->tensors[i];
        bool stays = t->rank == 0 && !t->out && r->opt->scalars != 1;
        if (!stays && failed(fk_alloc(d->device, t->total, &t->device), &r->why)) return false;
        t->dl_tensor = describe(d, t, stays ? t->host : t->device);
        if (stays || t->out) continue;
        if (failed(fk_copy(d->device, t->device, t->host, t->total, FK_TO_DEVICE), &r->why))
            return false;
    }
    return true;
}

static bool name_variants(Run *r, Launch *l) {
    fk_fn_info info;
    bool same = true;
    const char *first = NULL, *name;
    fk_fn_describe(l->fn, &info);
    l->variants = "";
    for (int i = 0; i < info.n_steps; i++) {
        if (failed(fk_fn_variant(l->fn, l->args, l->n, i, &name), &r->why)) return false;
        l->variants = i ? arena_printf(r->arena, "%s,%s", l->variants, name) : name;
        if (!first) first = name;
        same &= !strcmp(first, name);
    }
    if (first && same) l->variants = first;
    return true;
}

bool device_prepare(RunDevice *d, Run *r, Launch *l) {
    *l = (Launch){.n = r->n, .args = ARENA_ARRAY(r->arena, DLTensor *, r->n)};
    for (int i = 0; i < r->n; i++) l->args[i] = &r->tensors[i].dl_tensor;
    if (failed(fk_module_fn(d->module, r->fn->name, &l->fn), &r->why)) return false;
    fk_status s = fk_fn_workspace_size(l->fn, l->args, l->n, &l->bytes);
    if (failed(s, &r->why)) {
        if (s == FK_ERROR_UNSUPPORTED) guard_explain(r, d->info.sm_count, &r->why);
        return false;
    }
    if (l->bytes &&
        (failed(fk_alloc(d->device, l->bytes, &l->workspace), &r->why) ||
         failed(fk_workspace_init(l->fn, l->args, l->n, l->workspace, l->bytes, d->stream),
                &r->why)))
        return false;
    return !failed(fk_fn_prepare(l->fn, l->args, l->n), &r->why) && name_variants(r, l);
}

void device_drop_workspace(RunDevice *d, Launch *l) {
    if (l->workspace) fk_free(d->device, l->workspace);
    l->workspace = NULL;
}

static bool outputs(RunDevice *d, Run *r, bool to_device) {
    for (int i = 0; i < r->n; i++) {
        RunTensor *t = &r->tensors[i];
        if (!t->out) continue;
        fk_status s = to_device ? fk_copy(d->device, t->device, t->host, t->total, FK_TO_DEVICE)
                                : fk_copy(d->device, t->host, t->device, t->total, FK_FROM_DEVICE);
        if (failed(s, &r->why)) return false;
    }
    return true;
}

bool device_enqueue(RunDevice *d, Run *r, const Launch *l, DLTensor *const *args, void **graph) {
    bool captures = r->opt->graph && !*graph;
    if (captures && failed(fk_graph_begin(d->device, d->stream), &r->why)) return false;
    if (!*graph && failed(fk_launch(l->fn, args, l->n, l->workspace, l->bytes, d->stream), &r->why))
        return false;
    if (captures && failed(fk_graph_end(d->device, d->stream, graph), &r->why)) return false;
    return !*graph || !failed(fk_graph_launch(d->device, *graph, d->stream), &r->why);
}

bool device_launch(RunDevice *d, Run *r, Launch *l) {
    for (int i = 0; i < r->n; i++)
        if (r->tensors[i].out) run_poison(&r->tensors[i]);
    return outputs(d, r, true) && device_enqueue(d, r, l, l->args, &l->graph) &&
           !failed(fk_stream_sync(d->device, d->stream), &r->why) && outputs(d, r, false);
}

/* Nothing but outputs may have changed: reads every input back, guards and padding included. */
bool device_inputs_intact(RunDevice *d, Run *r, Str *details) {
    for (int i = 0; i < r->n; i++) {
        RunTensor *t = &r->tensors[i];
        if (t->out || !t->device) continue;
        unsigned char *back = malloc(t->total);
        if (!back ||
            failed(fk_copy(d->device, back, t->device, t->total, FK_FROM_DEVICE), &r->why)) {
            free(back);
            return false;
        }
        if (memcmp(back, t->host, t->total))
            str_printf(details, "  %s: the launch wrote to an input, or around it\n", t->name);
        free(back);
    }
    return true;
}

void device_release(RunDevice *d, Run *r, Launch *l) {
    for (int i = 0; i < r->n; i++) {
        if (r->tensors[i].device) fk_free(d->device, r->tensors[i].device);
        r->tensors[i].device = NULL;
    }
    fk_graph_free(d->device, l->graph);
    device_drop_workspace(d, l);
    *l = (Launch){0};
}
