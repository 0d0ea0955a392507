// A libcuda.so.1 for tests: two devices, contexts kept per thread as the driver does, and what the
// test wants to see or to fail. runtime/cuda.def gives its functions their names and types.
#ifndef TESTS_FAKE_CUDA_H
#define TESTS_FAKE_CUDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef int CUresult, CUdevice, CUdevice_attribute, CUfunction_attribute, CUjit_option;
typedef int CUstreamCaptureStatus, CUstreamCaptureMode;
typedef int CUtensorMapDataType, CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion;
typedef int CUtensorMapFloatOOBfill;
typedef uint32_t cuuint32_t;
typedef uint64_t cuuint64_t;
typedef struct CUtensorMap_st CUtensorMap;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;

typedef struct {
    CUresult fail_init, fail_load, fail_launch, fail_capturing, fail_alloc, fail_record, fail_map;
    int devices, driver, active[2]; // active: the primary context is, without us
    const char *jit_log;
    int retained[2], pushed, popped, loaded, unloaded, synced, launched, early, stream_synced;
    int mode_at_capture, graphs, captures, graph_launched;
    int mode_at_load;         // capture mode in which the module was loaded
    CUcontext context_at_use; // the one current at the last launch, load, or copy
    int max_dynamic;          // as set
    unsigned grid[3];
    CUstream stream;
    // The last tensor map asked for.
    int map_type, map_interleave, map_swizzle, map_promotion, map_fill;
    unsigned map_rank, map_box[5], map_steps[5];
    uint64_t map_address, map_extent[5], map_stride[5];
    bool map_aligned;
} FakeCuda;

// The library exports its state, `FakeCuda fake_cuda`, and where the calling thread's current
// context is, `CUcontext *fake_cuda_current(void)`.

// Contexts: primary ones are 0x100 + device; any other of device d is 0x200 + d.
#define CONTEXT(n) ((CUcontext)(uintptr_t)(n))

#endif
