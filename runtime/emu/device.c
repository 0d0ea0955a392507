// The emulated device as a table: memory is the host's, streams do their work at once.
#include <errno.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "runtime/emu/device_int.h"

#define EMU_FORMS(suffix)                                                                          \
    extern const Form emu_forms##suffix[];                                                         \
    extern const uint32_t emu_n_forms##suffix;
EMU_FORMS()
#ifdef EMU_V3
EMU_FORMS(_v3)
#endif

// A number of the environment from `least` to `most`; false: what is there is none.
static bool setting(const char *name, uint64_t least, uint64_t most, uint64_t *to, FkError *error) {
    const char *v = getenv(name);
    char *end;
    if (!v || !*v) return true;
    errno = 0;
    uint64_t n = strtoull(v, &end, 0);
    if (*v >= '0' && *v <= '9' && !*end && !errno && n >= least && n <= most) return *to = n, true;
    (void)FK_FAIL(error, FK_ERROR_ARGUMENT, "emu: %s=%.40s: needs a number from %llu to %llu", name,
                  v, (unsigned long long)least, (unsigned long long)most);
    return false;
}

enum { MOST_SMS = 1 << 16 };

static void emu_close(void *self) {
    free(self);
}

static fk_status emu_facts(void *self, FkDeviceFacts *f, FkError *error) {
    const Emu *e = self;
    (void)error;
    *f = (FkDeviceFacts){.max_grid = {INT32_MAX, 65535, 65535},
                         .max_shared = MAX_SHARED,
                         .ptx_only = true,
                         .tensor_maps = true};
    f->info = (fk_device_info){.dl = {kDLExtDev, 0}, .arch = 90, .ptx_version = 88};
    f->info.sm_count = (int)e->sms;
    snprintf(f->info.name, sizeof f->info.name, "emulated sm_90a");
    return FK_OK;
}

// ---- memory ----

static fk_status emu_memory(void *self, size_t *bytes_free, size_t *bytes_total, FkError *error) {
    long page = sysconf(_SC_PAGESIZE), all = sysconf(_SC_PHYS_PAGES),
         now = sysconf(_SC_AVPHYS_PAGES);
    (void)self, (void)error;
    *bytes_total = (size_t)all * (size_t)page;
    *bytes_free = (size_t)now * (size_t)page;
    return FK_OK;
}

static fk_status emu_alloc_memory(void *self, size_t bytes, void **ptr, FkError *error) {
    enum { ALIGN = 512 };
    (void)self;
    *ptr =
        bytes > SIZE_MAX - ALIGN ? NULL : aligned_alloc(ALIGN, (bytes + ALIGN - 1) / ALIGN * ALIGN);
    if (!*ptr) return FK_FAIL(error, FK_ERROR_MEMORY, "emu: no memory for %zu bytes", bytes);
    return FK_OK;
}

static fk_status emu_free_memory(void *self, void *ptr, FkError *error) {
    (void)self, (void)error;
    free(ptr);
    return FK_OK;
}

static fk_status emu_copy(void *self, void *dst, const void *src, size_t bytes, fk_copy_kind kind,
                          FkError *error) {
    (void)self, (void)kind, (void)error;
    memmove(dst, src, bytes);
    return FK_OK;
}

static fk_status emu_clear(void *self, void *ptr, size_t bytes, void *stream, FkError *error) {
    (void)self, (void)stream, (void)error;
    memset(ptr, 0, bytes);
    return FK_OK;
}

// ---- streams and events ----

static fk_status emu_make(void *self, void **made, FkError *error) {
    (void)self;
    *made = calloc(1, sizeof(struct timespec));
    return *made ? FK_OK : FK_FAIL(error, FK_ERROR_MEMORY, "emu: out of memory");
}

static fk_status emu_sync(void *self, void *stream, FkError *error) {
    (void)self, (void)stream, (void)error;
    return FK_OK;
}

static fk_status emu_capturing(void *self, void *stream, bool *capturing, FkError *error) {
    const Emu *e = self;
    (void)error;
    *capturing = e->graph && e->capturing == stream;
    return FK_OK;
}

static fk_status emu_record(void *self, void *event, void *stream, FkError *error) {
    (void)self, (void)stream, (void)error;
    clock_gettime(CLOCK_MONOTONIC, event);
    return FK_OK;
}

static fk_status emu_elapsed(void *self, void *start, void *stop, float *ms, FkError *error) {
    const struct timespec *a = start, *b = stop;
    (void)self, (void)error;
    *ms = (float)((double)(b->tv_sec - a->tv_sec) * 1e3 + (double)(b->tv_nsec - a->tv_nsec) * 1e-6);
    return FK_OK;
}

// ---- modules ----

static fk_status emu_load(void *self, const void *image, size_t size, bool is_ptx, void **module,
                          FkError *error) {
    const Emu *e = self;
    (void)size;
    if (!is_ptx)
        return FK_FAIL(error, FK_ERROR_ARCH, "the emulated device takes PTX, not machine code");
    EmuModule *m;
    fk_status s = emu_module_parse(image, e->forms, e->n_forms, &m, error);
    if (!s) *module = m;
    return s;
}

static void emu_unload(void *self, void *module) {
    (void)self;
    emu_module_free(module);
}

static fk_status emu_function(void *self, void *module, const char *name, FkFunction *f,
                              FkError *error) {
    const EmuModule *m = module;
    (void)self;
    for (uint32_t k = 0; k < m->funcs.n; k++) {
        Func *g = m->funcs.v[k];
        if (strncmp(g->name, name, g->name_n) || name[g->name_n]) continue;
        *f = (FkFunction){g, MAX_SHARED - (int64_t)g->dynamic_at};
        return FK_OK;
    }
    return FK_FAIL(error, FK_ERROR_PTX, "emu: the module has no function '%s'", name);
}

static const FkDeviceOps ops = {
    .abi = FK_DEVICE_ABI,
    .close = emu_close,
    .facts = emu_facts,
    .memory = emu_memory,
    .alloc = emu_alloc_memory,
    .free = emu_free_memory,
    .copy = emu_copy,
    .clear = emu_clear,
    .stream_create = emu_make,
    .stream_destroy = emu_free_memory,
    .stream_sync = emu_sync,
    .stream_capturing = emu_capturing,
    .graph_begin = emu_graph_begin,
    .graph_end = emu_graph_end,
    .graph_launch = emu_graph_launch,
    .graph_free = emu_graph_free,
    .event_create = emu_make,
    .event_destroy = emu_free_memory,
    .event_record = emu_record,
    .event_elapsed = emu_elapsed,
    .module_load = emu_load,
    .module_unload = emu_unload,
    .function = emu_function,
    .tensor_map = emu_tensor_map,
    .begin = emu_begin,
    .end = emu_end,
    .launch = emu_launch,
};

FK_API FkDeviceOpen fk_emu_device;

fk_status fk_emu_device(int index, const FkDeviceOps **table, void **self, FkError *error) {
    Emu *e = calloc(1, sizeof *e);
    (void)index;
    if (!e) return FK_FAIL(error, FK_ERROR_MEMORY, "emu: out of memory");
    e->forms = emu_forms, e->n_forms = emu_n_forms;
#ifdef EMU_V3
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        e->forms = emu_forms_v3, e->n_forms = emu_n_forms_v3;
#endif
    uint64_t sms = 132, stats = 0, lax = 0;
    e->limit = (uint64_t)1 << 36;
    if (!setting("FK_EMU_SMS", 1, MOST_SMS, &sms, error) ||
        !setting("FK_EMU_SEED", 0, UINT64_MAX, &e->seed, error) ||
        !setting("FK_EMU_LIMIT", 1, UINT64_MAX, &e->limit, error) ||
        !setting("FK_EMU_STATS", 0, 1, &stats, error) ||
        !setting("FK_EMU_LAX", 0, 1, &lax, error)) {
        free(e);
        return FK_ERROR_ARGUMENT;
    }
    e->sms = (uint32_t)sms;
    e->stats = stats;
    e->lax = lax;
    *table = &ops;
    *self = e;
    return FK_OK;
}
