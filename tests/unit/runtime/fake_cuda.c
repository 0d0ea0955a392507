#include "fake_cuda.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct {
    unsigned grid[3], block[3], shared;
    CUstream stream;
    const int *attributes; // the first: its id, nothing, its value
    unsigned n;
} CUlaunchConfig;

#define CU(name, version, need, args) EXPORT CUresult name args __asm__(#name version);
#include "runtime/cuda.def"
#undef CU

EXPORT CUcontext *fake_cuda_current(void);
extern EXPORT FakeCuda fake_cuda;
FakeCuda fake_cuda = {.devices = 2, .driver = 12040};

static _Thread_local CUcontext stack[8]; // stack[depth] is current
static _Thread_local int depth;
static _Thread_local int mode; // of stream capture; the driver begins with 0, global

CUcontext *fake_cuda_current(void) {
    return &stack[depth];
}

static CUresult use(CUresult r) {
    fake_cuda.context_at_use = stack[depth];
    return stack[depth] ? r : 201; // CUDA_ERROR_INVALID_CONTEXT
}

CUresult cuInit(unsigned flags) {
    (void)flags;
    return fake_cuda.fail_init;
}

CUresult cuDriverGetVersion(int *v) {
    *v = fake_cuda.driver;
    return 0;
}

CUresult cuGetErrorName(CUresult r, const char **name) {
    static _Thread_local char text[32];
    snprintf(text, sizeof text, "CUDA_ERROR_%d", r);
    *name = text;
    return 0;
}

CUresult cuGetErrorString(CUresult r, const char **text) {
    (void)r;
    *text = "the driver's text";
    return 0;
}

CUresult cuDeviceGet(CUdevice *d, int i) {
    *d = i;
    return 0;
}

CUresult cuDeviceGetCount(int *n) {
    *n = fake_cuda.devices;
    return 0;
}

CUresult cuDeviceGetName(char *name, int room, CUdevice d) {
    snprintf(name, (size_t)room, "Fake %d", d);
    return 0;
}

CUresult cuDeviceGetAttribute(int *v, CUdevice_attribute a, CUdevice d) {
    (void)d;
    *v = a == 75 ? 9 : a == 76 ? 0 : a == 16 ? 132 : a == 97 ? 232448 : a == 5 ? 2147483647 : 65535;
    return 0;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice d, unsigned *flags, int *active) {
    *flags = 0;
    *active = fake_cuda.active[d] || fake_cuda.retained[d];
    return 0;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *c, CUdevice d) {
    fake_cuda.retained[d]++;
    *c = CONTEXT(0x100 + d);
    return 0;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice d) {
    fake_cuda.retained[d]--;
    return 0;
}

CUresult cuCtxGetCurrent(CUcontext *c) {
    *c = stack[depth];
    return 0;
}

CUresult cuCtxGetDevice(CUdevice *d) {
    *d = (int)((uintptr_t)stack[depth] & 0xff);
    return stack[depth] ? 0 : 201;
}

CUresult cuCtxPushCurrent(CUcontext c) {
    fake_cuda.pushed++;
    stack[++depth] = c;
    return 0;
}

CUresult cuCtxPopCurrent(CUcontext *c) {
    fake_cuda.popped++;
    *c = stack[depth--];
    return 0;
}

CUresult cuCtxSynchronize(void) {
    fake_cuda.synced++;
    return use(0);
}

CUresult cuMemGetInfo(size_t *f, size_t *total) {
    *f = 1, *total = 2;
    return use(0);
}

CUresult cuMemAlloc(CUdeviceptr *p, size_t n) {
    (void)n;
    *p = 0x1000;
    return use(fake_cuda.fail_alloc);
}

CUresult cuMemFree(CUdeviceptr p) {
    return use(p == 0x1000 ? 0 : 1);
}

CUresult cuMemcpyHtoD(CUdeviceptr d, const void *s, size_t n) {
    memcpy((void *)(uintptr_t)d, s, n);
    return use(0);
}

CUresult cuMemcpyDtoH(void *d, CUdeviceptr s, size_t n) {
    memcpy(d, (void *)(uintptr_t)s, n);
    return use(0);
}

CUresult cuMemcpyDtoD(CUdeviceptr d, CUdeviceptr s, size_t n) {
    memcpy((void *)(uintptr_t)d, (void *)(uintptr_t)s, n);
    return use(0);
}

CUresult cuMemsetD8Async(CUdeviceptr d, unsigned char v, size_t n, CUstream s) {
    memset((void *)(uintptr_t)d, v, n);
    fake_cuda.stream = s;
    return use(0);
}

CUresult cuStreamCreate(CUstream *s, unsigned flags) {
    *s = (CUstream)(uintptr_t)(0x500 + flags);
    return use(0);
}

CUresult cuStreamDestroy(CUstream s) {
    (void)s;
    return use(0);
}

CUresult cuStreamSynchronize(CUstream s) {
    fake_cuda.stream = s;
    fake_cuda.stream_synced++;
    return use(0);
}

#ifndef OLD_DRIVER
CUresult cuStreamIsCapturing(CUstream s, CUstreamCaptureStatus *status) {
    *status = s == (CUstream)0xca;
    return use(fake_cuda.fail_capturing);
}
#endif

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *m) {
    int was = mode;
    mode = *m;
    *m = was;
    return 0;
}

CUresult cuEventCreate(CUevent *e, unsigned flags) {
    *e = (CUevent)(uintptr_t)(0x600 + flags);
    return use(0);
}

CUresult cuEventDestroy(CUevent e) {
    (void)e;
    return use(0);
}

CUresult cuEventRecord(CUevent e, CUstream s) {
    (void)e, (void)s;
    return use(fake_cuda.fail_record);
}

CUresult cuEventSynchronize(CUevent e) {
    (void)e;
    return use(0);
}

CUresult cuEventElapsedTime(float *ms, CUevent a, CUevent b) {
    (void)a, (void)b;
    *ms = 2.5f;
    return use(0);
}

// Options: the error log and its size, in this order.
CUresult cuModuleLoadDataEx(CUmodule *m, const void *image, unsigned n, CUjit_option *option,
                            void **value) {
    (void)image;
    fake_cuda.mode_at_load = mode;
    if (fake_cuda.jit_log && n == 2 && option[0] == 5 && option[1] == 6)
        snprintf(value[0], (size_t)(uintptr_t)value[1], "%s", fake_cuda.jit_log);
    if (fake_cuda.fail_load) return fake_cuda.fail_load;
    fake_cuda.loaded++;
    *m = (CUmodule)0x700;
    return use(0);
}

CUresult cuModuleUnload(CUmodule m) {
    (void)m;
    fake_cuda.unloaded++;
    return use(0);
}

CUresult cuModuleGetFunction(CUfunction *f, CUmodule m, const char *name) {
    (void)m;
    *f = (CUfunction)0x800;
    return use(!strcmp(name, "missing") ? 500 : 0);
}

CUresult cuFuncGetAttribute(int *v, CUfunction_attribute a, CUfunction f) {
    (void)f;
    *v = a == 1 ? 448 : -1;
    return use(0);
}

CUresult cuFuncSetAttribute(CUfunction f, CUfunction_attribute a, int v) {
    (void)f;
    if (a == 8) fake_cuda.max_dynamic = v;
    return use(0);
}

CUresult cuFuncLoad(CUfunction f) {
    (void)f;
    return use(0);
}

#ifndef NO_TENSOR_MAPS
CUresult cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank,
                                void *address, const cuuint64_t *extent, const cuuint64_t *stride,
                                const cuuint32_t *box, const cuuint32_t *steps,
                                CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
    fake_cuda.map_type = type;
    fake_cuda.map_interleave = interleave;
    fake_cuda.map_swizzle = swizzle;
    fake_cuda.map_promotion = promotion;
    fake_cuda.map_fill = fill;
    fake_cuda.map_rank = rank;
    fake_cuda.map_address = (uintptr_t)address;
    for (unsigned i = 0; i < rank; i++) {
        fake_cuda.map_extent[i] = extent[i];
        fake_cuda.map_stride[i] = i ? stride[i - 1] : 0;
        fake_cuda.map_box[i] = box[i];
        fake_cuda.map_steps[i] = steps[i];
    }
    fake_cuda.map_aligned = (uintptr_t)map % 64 == 0;
    if (!fake_cuda.fail_map) memset(map, 0x5a, 128);
    return use(fake_cuda.fail_map);
}
#endif

CUresult cuStreamBeginCapture(CUstream s, CUstreamCaptureMode how) {
    fake_cuda.stream = s;
    fake_cuda.mode_at_capture = how;
    return use(0);
}

CUresult cuStreamEndCapture(CUstream s, CUgraph *g) {
    static int graph;
    *g = s == fake_cuda.stream ? (CUgraph)(void *)&graph : NULL;
    return use(*g ? 0 : 901);
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph g, unsigned long long flags) {
    *exec = (CUgraphExec)(void *)g;
    fake_cuda.graphs += flags == 0;
    return use(0);
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream s) {
    fake_cuda.stream = s;
    fake_cuda.graph_launched += exec != NULL;
    return use(0);
}

CUresult cuGraphExecDestroy(CUgraphExec exec) {
    fake_cuda.graphs -= exec != NULL;
    return use(0);
}

CUresult cuGraphDestroy(CUgraph g) {
    fake_cuda.captures += g != NULL;
    return use(0);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *c, CUfunction f, void **params, void **extra) {
    (void)f, (void)params, (void)extra;
    fake_cuda.launched++;
    fake_cuda.early += c->n == 1 && c->attributes[0] == 6 && c->attributes[2] == 1;
    fake_cuda.stream = c->stream;
    return use(fake_cuda.fail_launch);
}

CUresult cuLaunchKernel(CUfunction f, unsigned x, unsigned y, unsigned z, unsigned bx, unsigned by,
                        unsigned bz, unsigned shared, CUstream s, void **params, void **extra) {
    (void)f, (void)bx, (void)by, (void)bz, (void)shared, (void)params, (void)extra;
    fake_cuda.launched++;
    fake_cuda.grid[0] = x, fake_cuda.grid[1] = y, fake_cuda.grid[2] = z;
    fake_cuda.stream = s;
    return use(fake_cuda.fail_launch);
}
