// The CUDA driver as a device. libcuda.so.1 is opened when the first device is, from cuda.def, so
// nothing here needs CUDA to build. Every call finds our context: the thread's own if it is
// current, else ours is pushed and popped again, so threads that never saw CUDA may call, and
// others keep what they had.
#include "runtime/cuda_int.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

CudaCalls fk_cu;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static fk_status opened;
static FkError opened_error;

static void open_driver(void) {
    void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!lib) {
        opened = FK_FAIL(&opened_error, FK_ERROR_DRIVER_MISSING,
                         "the CUDA driver is not on this machine (%s); install it", dlerror());
        return;
    }
    enum { OPT, MUST };
    const char *missing = NULL;
#define CU(name, version, need, args)                                                              \
    *(void **)&fk_cu.name = dlsym(lib, #name version);                                             \
    if (!fk_cu.name && need && !missing) missing = #name;
#include "runtime/cuda.def"
#undef CU
    if (missing)
        opened = FK_FAIL(&opened_error, FK_ERROR_DRIVER_TOO_OLD,
                         "the CUDA driver is too old: it has no %s; libfk needs CUDA 11.0 or later",
                         missing);
}

// ---- errors ----

static fk_status status_of(CUresult r) {
    if (r >= ERROR_CAPTURE_FIRST && r <= ERROR_CAPTURE_LAST) return FK_ERROR_CAPTURE;
    switch (r) {
    case ERROR_MEMORY: return FK_ERROR_MEMORY;
    case ERROR_STUB: return FK_ERROR_DRIVER_MISSING;
    case ERROR_NO_DEVICE:
    case ERROR_INVALID_DEVICE: return FK_ERROR_NO_DEVICE;
    case ERROR_INVALID_IMAGE:
    case ERROR_NO_BINARY: return FK_ERROR_ARCH;
    case ERROR_INVALID_PTX:
    case ERROR_INVALID_SOURCE: return FK_ERROR_PTX;
    case ERROR_UNSUPPORTED_PTX: return FK_ERROR_DRIVER_TOO_OLD;
    default: return FK_ERROR_DRIVER;
    }
}

fk_status fk_cuda_check(CUresult r, const char *call, FkError *error) {
    const char *name = NULL, *text = NULL;
    if (!r) return FK_OK;
    fk_cu.cuGetErrorName(r, &name);
    fk_cu.cuGetErrorString(r, &text);
    return FK_FAIL(error, status_of(r), "%s: %s, %s (%d)", call, name ? name : "an unknown error",
                   text ? text : "no text", r);
}

// ---- contexts ----

fk_status fk_cuda_enter(const Cuda *c, bool *pushed, FkError *error) {
    CUcontext now = NULL;
    *pushed = false;
    fk_status s = fk_cuda_check(fk_cu.cuCtxGetCurrent(&now), "cuCtxGetCurrent", error);
    if (s || now == c->context) return s;
    s = fk_cuda_check(fk_cu.cuCtxPushCurrent(c->context), "cuCtxPushCurrent", error);
    *pushed = !s;
    return s;
}

void fk_cuda_leave(bool pushed) {
    CUcontext ours;
    if (pushed) fk_cu.cuCtxPopCurrent(&ours);
}

// ---- opening ----

// The newest PTX ISA that the driver of a CUDA version takes. From CUDA 13 on they advance
// together.
static int ptx_of(int driver) {
    static const struct {
        int driver, ptx;
    } known[] = {{11000, 70}, {11010, 71}, {11020, 72}, {11030, 73}, {11040, 74}, {11050, 75},
                 {11060, 76}, {11070, 77}, {11080, 78}, {12000, 80}, {12010, 81}, {12020, 82},
                 {12030, 83}, {12040, 84}, {12050, 85}, {12070, 86}, {12080, 87}, {12090, 88}};
    int ptx = 0;
    if (driver >= 13000) return (driver / 1000 - 4) * 10 + driver % 1000 / 10;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (driver >= known[i].driver) ptx = known[i].ptx;
    return ptx;
}

// The current context if it is on the wanted device (-1: any), else the device's primary one.
static fk_status find_context(Cuda *c, int index, FkError *error) {
    CUcontext now = NULL;
    CUdevice device = -1;
    unsigned flags;
    int active = 0;
    if (fk_cu.cuCtxGetCurrent(&now) || (now && fk_cu.cuCtxGetDevice(&device))) now = NULL;
    if (now && index < 0) c->device = device;
    if (now && device == c->device) {
        fk_cu.cuDevicePrimaryCtxGetState(device, &flags, &active);
        c->context = now;
        if (!active) return FK_OK;
    }
    CUcontext primary;
    fk_status s = fk_cuda_check(fk_cu.cuDevicePrimaryCtxRetain(&primary, c->device),
                                "cuDevicePrimaryCtxRetain", error);
    if (s) return s;
    c->primary = !c->context || c->context == primary;
    if (!c->primary) fk_cu.cuDevicePrimaryCtxRelease(c->device);
    if (c->primary) c->context = primary;
    return FK_OK;
}

static fk_status find_device(Cuda *c, int index, FkError *error) {
    int count = 0;
    fk_status s = fk_cuda_check(fk_cu.cuInit(0), "cuInit", error);
    if (!s) s = fk_cuda_check(fk_cu.cuDriverGetVersion(&c->driver), "cuDriverGetVersion", error);
    if (!s) s = fk_cuda_check(fk_cu.cuDeviceGetCount(&count), "cuDeviceGetCount", error);
    if (s) return s;
    if (!count || index >= count)
        return FK_FAIL(error, FK_ERROR_NO_DEVICE, "there is no device cuda:%d: the machine has %d",
                       index < 0 ? 0 : index, count);
    s = fk_cuda_check(fk_cu.cuDeviceGet(&c->device, index < 0 ? 0 : index), "cuDeviceGet", error);
    if (!s) s = find_context(c, index, error);
    c->ptx = ptx_of(c->driver);
    return s;
}

static void cuda_close(void *self) {
    Cuda *c = self;
    if (c->primary) fk_cu.cuDevicePrimaryCtxRelease(c->device);
    free(c);
}

static fk_status cuda_facts(void *self, FkDeviceFacts *f, FkError *error) {
    Cuda *c = self;
    int v[7] = {0};
    static const int which[7] = {ATTRIBUTE_MAJOR,     ATTRIBUTE_MINOR,  ATTRIBUTE_SM_COUNT,
                                 ATTRIBUTE_SHARED,    ATTRIBUTE_GRID_X, ATTRIBUTE_GRID_X + 1,
                                 ATTRIBUTE_GRID_X + 2};
    fk_status s = fk_cuda_check(fk_cu.cuDeviceGetName(f->info.name, sizeof f->info.name, c->device),
                                "cuDeviceGetName", error);
    for (int i = 0; i < 7 && !s; i++)
        s = fk_cuda_check(fk_cu.cuDeviceGetAttribute(&v[i], which[i], c->device),
                          "cuDeviceGetAttribute", error);
    f->info.dl = (DLDevice){kDLCUDA, c->device}; // a CUdevice is its ordinal
    f->info.arch = v[0] * 10 + v[1];
    f->info.sm_count = v[2];
    f->info.driver_version = c->driver;
    f->info.ptx_version = c->ptx;
    f->max_shared = c->max_shared = v[3];
    f->tensor_maps = fk_cu.cuTensorMapEncodeTiled && f->info.arch >= FIRST_TENSOR_MAPS;
    for (int i = 0; i < 3; i++) f->max_grid[i] = v[4 + i];
    return s;
}

// ---- modules ----

// Loading and unloading are "unsafe" calls that would break a capture anywhere in the process;
// in relaxed mode they are not. Returns the thread's mode, to be exchanged back.
static CUstreamCaptureMode relax(CUstreamCaptureMode mode) {
    fk_cu.cuThreadExchangeStreamCaptureMode(&mode);
    return mode;
}

// What to do about an image that the driver refused, after what the driver said.
static fk_status explain(const Cuda *c, fk_status s, const void *image, bool is_ptx,
                         const char *log, FkError *error) {
    char said[512];
    unsigned major = 0, minor = 0;
    snprintf(said, sizeof said, "%.500s", error->text);
    const char *version = is_ptx ? strstr(image, ".version") : NULL;
    if (version) sscanf(version, ".version %u.%u", &major, &minor);
    if (s == FK_ERROR_DRIVER_TOO_OLD)
        return FK_FAIL(
            error, s,
            "%s: the PTX is ISA %u.%u, but the driver, for CUDA %d.%d, takes at most %d.%d; update "
            "the driver, or compile with --ptx-version=%d.%d or to a cubin (--arch, with ptxas)",
            said, major, minor, c->driver / 1000, c->driver % 1000 / 10, c->ptx / 10, c->ptx % 10,
            c->ptx / 10, c->ptx % 10);
    return FK_FAIL(error, s, "%s%s%s", said, *log ? "\n" : "", log);
}

static fk_status cuda_module_load(void *self, const void *image, size_t size, bool is_ptx,
                                  void **module, FkError *error) {
    char log[3072] = "";
    CUjit_option options[] = {JIT_ERROR_LOG, JIT_ERROR_LOG_SIZE};
    void *values[] = {log, (void *)(uintptr_t)sizeof log};
    CUmodule m = NULL;
    bool pushed;
    (void)size; // both kinds of image know their own length
    fk_status s = fk_cuda_enter(self, &pushed, error);
    if (s) return s;
    CUstreamCaptureMode mode = relax(CAPTURE_RELAXED);
    s = fk_cuda_check(fk_cu.cuModuleLoadDataEx(&m, image, 2, options, values), "cuModuleLoadDataEx",
                      error);
    relax(mode);
    fk_cuda_leave(pushed);
    log[sizeof log - 1] = 0;
    if (s) return explain(self, s, image, is_ptx, log, error);
    *module = m;
    return FK_OK;
}

static void cuda_module_unload(void *self, void *module) {
    FkError error;
    bool pushed;
    if (fk_cuda_enter(self, &pushed, &error)) return;
    CUstreamCaptureMode mode = relax(CAPTURE_RELAXED);
    fk_cu.cuCtxSynchronize(); // pending launches still read the code
    fk_cu.cuModuleUnload(module);
    relax(mode);
    fk_cuda_leave(pushed);
}

// The function, and all the dynamic shared memory that its static part leaves, opted in once.
static fk_status get_function(const Cuda *c, CUmodule m, const char *name, FkFunction *f,
                              FkError *error) {
    CUfunction handle = NULL;
    int fixed = 0;
    fk_status s =
        fk_cuda_check(fk_cu.cuModuleGetFunction(&handle, m, name), "cuModuleGetFunction", error);
    if (!s)
        s = fk_cuda_check(fk_cu.cuFuncGetAttribute(&fixed, FUNCTION_SHARED, handle),
                          "cuFuncGetAttribute", error);
    int dynamic = (int)c->max_shared - fixed;
    if (!s)
        s = fk_cuda_check(fk_cu.cuFuncSetAttribute(handle, FUNCTION_MAX_DYNAMIC, dynamic),
                          "cuFuncSetAttribute", error);
    if (!s && fk_cu.cuFuncLoad)
        s = fk_cuda_check(fk_cu.cuFuncLoad(handle), "cuFuncLoad", error); // not at first launch
    *f = (FkFunction){handle, dynamic};
    return s;
}

static fk_status cuda_function(void *self, void *module, const char *name, FkFunction *f,
                               FkError *error) {
    bool pushed;
    fk_status s = fk_cuda_enter(self, &pushed, error);
    if (s) return s;
    CUstreamCaptureMode mode = relax(CAPTURE_RELAXED);
    s = get_function(self, module, name, f, error);
    relax(mode);
    fk_cuda_leave(pushed);
    return s;
}

// CUtensorMapDataType of an element type, or -1. Bytes are bytes, whatever they mean.
static int map_type(DLDataType t) {
    enum { U8 = 0, I32 = 3, I64 = 5, F16 = 6, F32 = 7, BF16 = 9 };
    if (t.bits == 8) return U8;
    if (t.code == kDLBfloat && t.bits == 16) return BF16;
    if (t.code == kDLFloat) return t.bits == 16 ? F16 : t.bits == 32 ? F32 : -1;
    if (t.code == kDLInt) return t.bits == 32 ? I32 : t.bits == 64 ? I64 : -1;
    return -1;
}

// CUtensorMapSwizzle of 0, 32, 64, 128 bytes.
static int map_swizzle(uint32_t bytes) {
    return bytes == 128 ? 3 : (int)(bytes / 32);
}

static fk_status cuda_tensor_map(void *self, const FkTmap *m, void *out, FkError *error) {
    static const cuuint32_t steps[FK_TMAP_RANK] = {1, 1, 1, 1, 1};
    int type = map_type(m->dtype);
    if (!fk_cu.cuTensorMapEncodeTiled || type < 0)
        return FK_FAIL(error, FK_ERROR_UNSUPPORTED, "no tensor map of DLPack code %u with %u bits",
                       m->dtype.code, m->dtype.bits);
    CALL(cuTensorMapEncodeTiled, out, type, m->rank, (void *)(uintptr_t)m->address, m->extent,
         m->stride + 1, m->box, steps, MAP_INTERLEAVE_NONE, map_swizzle(m->swizzle),
         MAP_PROMOTION_128B, MAP_FILL_ZEROS);
}

// May begin before what is on the stream has ended.
static CUresult launch_early(const FkFunction *f, const FkGrid *g, void **params, void *stream) {
    CUlaunchAttribute early = {.id = ATTRIBUTE_EARLY};
    CUlaunchConfig c = {.shared = g->shared, .stream = stream, .attributes = &early, .n = 1};
    early.value = 1;
    memcpy(c.grid, g->grid, sizeof c.grid);
    memcpy(c.block, g->block, sizeof c.block);
    return fk_cu.cuLaunchKernelEx(&c, f->handle, params, NULL);
}

static fk_status cuda_launch(void *self, const FkFunction *f, const FkGrid *g, void **params,
                             int n_params, void *call, void *stream, FkError *error) {
    bool pushed;
    (void)n_params, (void)call;
    fk_status s = fk_cuda_enter(self, &pushed, error);
    if (s) return s;
    if (g->early && fk_cu.cuLaunchKernelEx)
        s = fk_cuda_check(launch_early(f, g, params, stream), "cuLaunchKernelEx", error);
    else
        s = fk_cuda_check(fk_cu.cuLaunchKernel(f->handle, g->grid[0], g->grid[1], g->grid[2],
                                               g->block[0], g->block[1], g->block[2], g->shared,
                                               stream, params, NULL),
                          "cuLaunchKernel", error);
    fk_cuda_leave(pushed);
    return s == FK_ERROR_DRIVER ? FK_ERROR_LAUNCH : s;
}

static const FkDeviceOps cuda_ops = {
    .abi = FK_DEVICE_ABI,
    .close = cuda_close,
    .facts = cuda_facts,
    .memory = fk_cuda_memory,
    .alloc = fk_cuda_alloc,
    .free = fk_cuda_free,
    .copy = fk_cuda_copy,
    .clear = fk_cuda_clear,
    .stream_create = fk_cuda_stream_create,
    .stream_destroy = fk_cuda_stream_destroy,
    .stream_sync = fk_cuda_stream_sync,
    .stream_capturing = fk_cuda_stream_capturing,
    .graph_begin = fk_cuda_graph_begin,
    .graph_end = fk_cuda_graph_end,
    .graph_launch = fk_cuda_graph_launch,
    .graph_free = fk_cuda_graph_free,
    .event_create = fk_cuda_event_create,
    .event_destroy = fk_cuda_event_destroy,
    .event_record = fk_cuda_event_record,
    .event_elapsed = fk_cuda_event_elapsed,
    .module_load = cuda_module_load,
    .module_unload = cuda_module_unload,
    .function = cuda_function,
    .tensor_map = cuda_tensor_map,
    .launch = cuda_launch,
};

fk_status fk_cuda_open(int index, const FkDeviceOps **ops, void **self, FkError *error) {
    pthread_once(&once, open_driver);
    if (opened) return FK_FAIL(error, opened, "%s", opened_error.text);
    Cuda *c = calloc(1, sizeof *c);
    if (!c) return FK_FAIL(error, FK_ERROR_MEMORY, "out of memory for a device");
    fk_status s = find_device(c, index, error);
    if (s) {
        free(c);
        return s;
    }
    *ops = &cuda_ops;
    *self = c;
    return FK_OK;
}
