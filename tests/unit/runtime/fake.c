#include "fake.h"

#include <stdlib.h>
#include <string.h>

static void fake_close(void *self) {
    ((Fake *)self)->closed++;
}

static fk_status fake_facts(void *self, FkDeviceFacts *facts, FkError *error) {
    (void)error;
    *facts = ((Fake *)self)->facts;
    return FK_OK;
}

static fk_status fake_memory(void *self, size_t *bytes_free, size_t *bytes_total, FkError *error) {
    (void)self, (void)error;
    *bytes_free = 1000, *bytes_total = 2000;
    return FK_OK;
}

static fk_status fake_alloc(void *self, size_t bytes, void **ptr, FkError *error) {
    if (((Fake *)self)->broken) return FK_FAIL(error, FK_ERROR_LAUNCH, "fake: a launch broke it");
    if (bytes > (size_t)1 << 40)
        return FK_FAIL(error, FK_ERROR_MEMORY, "fake: %zu bytes are too many", bytes);
    *ptr = aligned_alloc(256, (bytes + 255) & ~(size_t)255);
    return FK_OK;
}

static fk_status fake_free(void *self, void *ptr, FkError *error) {
    (void)self, (void)error;
    free(ptr);
    return FK_OK;
}

static fk_status fake_copy(void *self, void *dst, const void *src, size_t n, fk_copy_kind kind,
                           FkError *error) {
    (void)self, (void)error, (void)kind;
    memcpy(dst, src, n);
    return FK_OK;
}

static fk_status fake_clear(void *self, void *ptr, size_t bytes, void *stream, FkError *error) {
    Fake *f = self;
    (void)stream;
    if (f->fail_clear) return FK_FAIL(error, f->fail_clear, "fake: clearing failed");
    memset(ptr, 0, bytes);
    f->cleared++;
    return FK_OK;
}

static fk_status fake_make(void *self, void **made, FkError *error) {
    (void)self, (void)error;
    *made = malloc(1);
    return FK_OK;
}

static fk_status fake_sync(void *self, void *stream, FkError *error) {
    (void)self, (void)stream, (void)error;
    return FK_OK;
}

static fk_status fake_capturing(void *self, void *stream, bool *capturing, FkError *error) {
    Fake *f = self;
    (void)stream;
    *capturing = f->capturing;
    return f->fail_capturing ? FK_FAIL(error, f->fail_capturing, "fake: no stream") : FK_OK;
}

static fk_status fake_record(void *self, void *event, void *stream, FkError *error) {
    (void)self, (void)event, (void)stream, (void)error;
    return FK_OK;
}

static fk_status fake_elapsed(void *self, void *start, void *stop, float *ms, FkError *error) {
    (void)self, (void)start, (void)stop, (void)error;
    *ms = 1.5f;
    return FK_OK;
}

// A module is a copy of its image, a function a copy of its name.
static fk_status fake_load(void *self, const void *image, size_t size, bool is_ptx, void **module,
                           FkError *error) {
    Fake *f = self;
    if (!is_ptx && f->fail_cubin) return FK_FAIL(error, f->fail_cubin, "fake: cubin refused");
    if (f->fail_load) return FK_FAIL(error, f->fail_load, "fake: image refused");
    *module = malloc(size + 1);
    memcpy(*module, image, size);
    f->loaded++;
    return FK_OK;
}

static void fake_unload(void *self, void *module) {
    ((Fake *)self)->unloaded++;
    free(module);
}

static fk_status fake_function(void *self, void *module, const char *name, FkFunction *out,
                               FkError *error) {
    Fake *f = self;
    (void)module;
    if (f->fail_function) return FK_FAIL(error, f->fail_function, "fake: no function");
    *out = (FkFunction){(void *)(uintptr_t)name, f->max_dynamic ? f->max_dynamic : 1000};
    return FK_OK;
}

// The bytes begin with a mark that fake_launch knows a map by.
static fk_status fake_tensor_map(void *self, const FkTmap *map, void *out, FkError *error) {
    Fake *f = self;
    const uint64_t mark = FAKE_MAP;
    if ((uintptr_t)out % FK_TMAP_ALIGN) f->misaligned = true;
    if (f->fail_map) return FK_FAIL(error, f->fail_map, "fake: no map");
    f->encoded++;
    memcpy(out, &mark, 8);
    memcpy((char *)out + 8, map, FK_TMAP_BYTES - 8);
    if (f->record) f->map = *map;
    return FK_OK;
}
_Static_assert(sizeof(FkTmap) == FK_TMAP_BYTES - 8, "a fake map holds its request");

static fk_status fake_launch(void *self, const FkFunction *f, const FkGrid *grid, void **params,
                             int n, void *call, void *stream, FkError *error) {
    (void)call;
    Fake *fake = self;
    fake->broken |= fake->fail_launch && fake->fatal;
    if (fake->fail_launch) return FK_FAIL(error, fake->fail_launch, "fake: launch refused");
    fake->launched++;
    if (!fake->record || fake->n_launches == 16) return FK_OK;
    FakeLaunch *l = &fake->launches[fake->n_launches++];
    *l = (FakeLaunch){.f = f, .grid = *grid, .n = n, .stream = stream};
    snprintf(l->name, sizeof l->name, "%s", (const char *)f->handle);
    for (int i = 0; i < n && i < 64; i++) {
        memcpy(&l->param[i], params[i], 8);
        if (l->param[i] != FAKE_MAP || l->n_maps == 4) continue;
        if ((uintptr_t)params[i] % FK_TMAP_ALIGN) fake->misaligned = true;
        memcpy(l->map[l->n_maps++], params[i], FK_TMAP_BYTES);
    }
    return FK_OK;
}

static const FkDeviceOps ops = {
    .abi = FK_DEVICE_ABI,
    .close = fake_close,
    .facts = fake_facts,
    .memory = fake_memory,
    .alloc = fake_alloc,
    .free = fake_free,
    .copy = fake_copy,
    .clear = fake_clear,
    .stream_create = fake_make,
    .stream_destroy = fake_free,
    .stream_sync = fake_sync,
    .stream_capturing = fake_capturing,
    .event_create = fake_make,
    .event_destroy = fake_free,
    .event_record = fake_record,
    .event_elapsed = fake_elapsed,
    .module_load = fake_load,
    .module_unload = fake_unload,
    .function = fake_function,
    .tensor_map = fake_tensor_map,
    .launch = fake_launch,
};

const FkDeviceOps *fake_ops(void) {
    return &ops;
}

void fake_facts_of(Fake *f) {
    if (f->facts.info.arch) return;
    f->facts.info = (fk_device_info){.name = "Fake",
                                     .dl = {kDLCUDA, 0},
                                     .arch = 90,
                                     .sm_count = 132,
                                     .driver_version = 12040,
                                     .ptx_version = 84};
    f->facts.max_grid[0] = 0x7fffffff;
    f->facts.max_grid[1] = f->facts.max_grid[2] = 65535;
    f->facts.max_shared = 232448;
    f->facts.tensor_maps = true;
}

fk_device *fake_open(Fake *f) {
    fk_device *d = NULL;
    fake_facts_of(f);
    f->record = true;
    return fk_device_from_table(&ops, f, &d) ? NULL : d;
}
