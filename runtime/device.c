// Opening devices, and the conveniences of fk.h that only pass through the device's table.
#include "runtime/runtime_int.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

fk_status fk_device_from_table(const FkDeviceOps *ops, void *self, fk_device **device) {
    fk_device *d = calloc(1, sizeof *d);
    fk_status s = d ? FK_OK : fk_fail(FK_ERROR_MEMORY, "out of memory for a device");
    if (!s) s = ops->facts(self, &d->facts, fk_error());
    if (s) {
        ops->close(self);
        free(d);
        return s;
    }
    d->ops = ops;
    d->self = self;
    atomic_init(&d->users, 1);
    *device = d;
    return FK_OK;
}

// libfkemu.so: where FK_EMU says, beside the code you are reading, or where the loader looks.
static void *open_emulator(void) {
    const char *named = getenv("FK_EMU");
    if (named && *named) return dlopen(named, RTLD_NOW | RTLD_LOCAL);
    Dl_info here;
    char path[4096];
    if (dladdr((void *)(uintptr_t)fk_version, &here) && here.dli_fname) {
        const char *slash = strrchr(here.dli_fname, '/');
        int folder = slash ? (int)(slash - here.dli_fname) + 1 : 0;
        snprintf(path, sizeof path, "%.*slibfkemu.so", folder, here.dli_fname);
        void *lib = folder ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
        if (lib) return lib;
    }
    return dlopen("libfkemu.so", RTLD_NOW | RTLD_LOCAL);
}

static fk_status emu_open(int index, const FkDeviceOps **ops, void **self, FkError *error) {
    void *lib = open_emulator(); // stays loaded: code of it may be on some thread's stack
    FkDeviceOpen *entry = NULL;
    if (lib) *(void **)&entry = dlsym(lib, FK_EMU_ENTRY);
    if (!entry) {
        const char *why = dlerror();
        return FK_FAIL(error, FK_ERROR_DRIVER_MISSING,
                       "the emulated device needs libfkemu.so, beside the program or libfk.so, or "
                       "where FK_EMU points: %s",
                       why ? why : "not found");
    }
    fk_status s = entry(index, ops, self, error);
    if (!s && (*ops)->abi != FK_DEVICE_ABI)
        s = FK_FAIL(
            error, FK_ERROR_DRIVER_TOO_OLD,
            "libfkemu.so is of another build than libfk: its table is version %u, needed %d",
            (*ops)->abi, FK_DEVICE_ABI);
    return s;
}

// "cuda:12" as 12; -1 for "cuda"; -2 if it is neither.
static int device_index(const char *name, size_t prefix) {
    if (!name[prefix]) return -1;
    char *end;
    long n = strtol(name + prefix + 1, &end, 10);
    bool digits = name[prefix] == ':' && name[prefix + 1] >= '0' && name[prefix + 1] <= '9';
    return digits && !*end && n < 4096 ? (int)n : -2;
}

fk_status fk_device_open(const char *name, fk_device **device) {
    const FkDeviceOps *ops;
    void *self;
    if (!name || !device)
        return fk_fail(FK_ERROR_ARGUMENT, "fk_device_open: name or device is null");
    FkDeviceOpen *entry = NULL;
    int index = -1;
    if (!strncmp(name, "cuda", 4) && (index = device_index(name, 4)) != -2) entry = fk_cuda_open;
    if (!strcmp(name, "emu")) entry = emu_open;
    if (!entry)
        return fk_fail(FK_ERROR_ARGUMENT,
                       "fk_device_open: unknown device '%s'; there are \"cuda\", "
                       "\"cuda:N\" and \"emu\"",
                       name);
    fk_status s = entry(index, &ops, &self, fk_error());
    if (s == FK_ERROR_DRIVER_MISSING && entry == fk_cuda_open && open_emulator())
        strncat(fk_error()->text, ", or use the device \"emu\"",
                sizeof fk_error()->text - strlen(fk_error()->text) - 1);
    return s ? s : fk_device_from_table(ops, self, device);
}

void fk_device_release(fk_device *d) {
    if (atomic_fetch_sub(&d->users, 1) != 1) return;
    d->ops->close(d->self);
    free(d);
}

void fk_device_close(fk_device *d) {
    if (d) fk_device_release(d);
}

fk_status fk_device_describe(fk_device *d, fk_device_info *info) {
    if (!d || !info)
        return fk_fail(FK_ERROR_ARGUMENT, "fk_device_describe: device or info is null");
    *info = d->facts.info;
    return d->ops->memory(d->self, &info->bytes_free, &info->bytes_total, fk_error());
}

#define NEED(condition, function)                                                                  \
    do {                                                                                           \
        if (!(condition)) return fk_fail(FK_ERROR_ARGUMENT, function ": a null argument");         \
    } while (0)

fk_status fk_alloc(fk_device *d, size_t bytes, void **ptr) {
    NEED(d && ptr, "fk_alloc");
    return d->ops->alloc(d->self, bytes ? bytes : 1, ptr, fk_error());
}

fk_status fk_free(fk_device *d, void *ptr) {
    NEED(d, "fk_free");
    return ptr ? d->ops->free(d->self, ptr, fk_error()) : FK_OK;
}

fk_status fk_copy(fk_device *d, void *dst, const void *src, size_t bytes, fk_copy_kind kind) {
    NEED(d && ((dst && src) || !bytes), "fk_copy");
    if ((unsigned)kind > FK_ON_DEVICE)
        return fk_fail(FK_ERROR_ARGUMENT, "fk_copy: kind is %d, which is no fk_copy_kind",
                       (int)kind);
    return bytes ? d->ops->copy(d->self, dst, src, bytes, kind, fk_error()) : FK_OK;
}

fk_status fk_stream_create(fk_device *d, void **stream) {
    NEED(d && stream, "fk_stream_create");
    return d->ops->stream_create(d->self, stream, fk_error());
}

fk_status fk_stream_destroy(fk_device *d, void *stream) {
    NEED(d, "fk_stream_destroy");
    return stream ? d->ops->stream_destroy(d->self, stream, fk_error()) : FK_OK;
}

static fk_status no_graphs(void) {
    return fk_fail(FK_ERROR_UNSUPPORTED,
                   "the device has no graphs: they need a driver for CUDA 11.4 or later");
}

fk_status fk_graph_begin(fk_device *d, void *stream) {
    NEED(d && stream, "fk_graph_begin");
    return d->ops->graph_begin ? d->ops->graph_begin(d->self, stream, fk_error()) : no_graphs();
}

fk_status fk_graph_end(fk_device *d, void *stream, void **graph) {
    NEED(d && stream && graph, "fk_graph_end");
    return d->ops->graph_end ? d->ops->graph_end(d->self, stream, graph, fk_error()) : no_graphs();
}

fk_status fk_graph_launch(fk_device *d, void *graph, void *stream) {
    NEED(d && graph, "fk_graph_launch");
    return d->ops->graph_launch(d->self, graph, stream, fk_error());
}

void fk_graph_free(fk_device *d, void *graph) {
    if (d && graph) d->ops->graph_free(d->self, graph);
}

fk_status fk_stream_sync(fk_device *d, void *stream) {
    NEED(d, "fk_stream_sync");
    return d->ops->stream_sync(d->self, stream, fk_error());
}

fk_status fk_event_create(fk_device *d, void **event) {
    NEED(d && event, "fk_event_create");
    return d->ops->event_create(d->self, event, fk_error());
}

fk_status fk_event_destroy(fk_device *d, void *event) {
    NEED(d, "fk_event_destroy");
    return event ? d->ops->event_destroy(d->self, event, fk_error()) : FK_OK;
}

fk_status fk_event_record(fk_device *d, void *event, void *stream) {
    NEED(d && event, "fk_event_record");
    return d->ops->event_record(d->self, event, stream, fk_error());
}

fk_status fk_event_elapsed(fk_device *d, void *start, void *stop, float *ms) {
    NEED(d && start && stop && ms, "fk_event_elapsed");
    return d->ops->event_elapsed(d->self, start, stop, ms, fk_error());
}
