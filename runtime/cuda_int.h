// What the files of the CUDA device share.
#ifndef RUNTIME_CUDA_INT_H
#define RUNTIME_CUDA_INT_H

#include "runtime/device.h"

// cuda.h's types, as far as the calls pass them; enums are ints in the ABI.
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
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;

typedef struct CUlaunchAttribute {
    int id, pad;
    union {
        char room[64];
        int value;
    };
} CUlaunchAttribute;
typedef struct CUlaunchConfig {
    unsigned grid[3], block[3], shared;
    CUstream stream;
    CUlaunchAttribute *attributes;
    unsigned n;
} CUlaunchConfig;

enum { // their values, from cuda.h
    ERROR_MEMORY = 2,
    ERROR_STUB = 34,
    ERROR_NO_DEVICE = 100,
    ERROR_INVALID_DEVICE = 101,
    ERROR_INVALID_IMAGE = 200,
    ERROR_NO_BINARY = 209,
    ERROR_INVALID_PTX = 218,
    ERROR_UNSUPPORTED_PTX = 222,
    ERROR_INVALID_SOURCE = 300,
    ERROR_CAPTURE_FIRST = 900,
    ERROR_CAPTURE_LAST = 908,

    ATTRIBUTE_GRID_X = 5,
    ATTRIBUTE_SM_COUNT = 16,
    ATTRIBUTE_MAJOR = 75,
    ATTRIBUTE_MINOR = 76,
    ATTRIBUTE_SHARED = 97, // per block, opted in
    FUNCTION_SHARED = 1,   // static
    FUNCTION_MAX_DYNAMIC = 8,

    JIT_ERROR_LOG = 5,
    JIT_ERROR_LOG_SIZE = 6,
    CAPTURE_THREAD = 1, // what other threads do is no matter
    CAPTURE_RELAXED = 2,
    STREAM_NON_BLOCKING = 1,

    ATTRIBUTE_EARLY = 6, // programmatic stream serialization

    MAP_INTERLEAVE_NONE = 0,
    MAP_PROMOTION_128B = 2, // how much the second-level cache fetches
    MAP_FILL_ZEROS = 0,
    FIRST_TENSOR_MAPS = 90, // architecture
};

#define CU(name, version, need, args) CUresult(*name) args;
typedef struct CudaCalls {
#include "runtime/cuda.def"
} CudaCalls;
#undef CU
extern CudaCalls fk_cu; // once fk_cuda_open has opened the driver

typedef struct {
    CUcontext context;
    CUdevice device;
    bool primary; // retained by us
    int64_t max_shared;
    int driver, ptx; // versions: 12040, 84
} Cuda;

// FK_OK for 0, else the status and a text that names the call.
fk_status fk_cuda_check(CUresult r, const char *call, FkError *error);
// Every call finds our context: the thread's own if it is current, else ours until it leaves.
fk_status fk_cuda_enter(const Cuda *c, bool *pushed, FkError *error);
void fk_cuda_leave(bool pushed);

// Runs one driver call in our context, as the body of a table function: its status.
#define CALL(name, ...)                                                                            \
    do {                                                                                           \
        bool pushed_;                                                                              \
        fk_status s_ = fk_cuda_enter(self, &pushed_, error);                                       \
        if (s_) return s_;                                                                         \
        s_ = fk_cuda_check(fk_cu.name(__VA_ARGS__), #name, error);                                 \
        fk_cuda_leave(pushed_);                                                                    \
        return s_;                                                                                 \
    } while (0)

// ---- cuda_stream.c: memory, streams, events, graphs ----

fk_status fk_cuda_memory(void *self, size_t *bytes_free, size_t *bytes_total, FkError *error);
fk_status fk_cuda_alloc(void *self, size_t bytes, void **ptr, FkError *error);
fk_status fk_cuda_free(void *self, void *ptr, FkError *error);
fk_status fk_cuda_copy(void *self, void *dst, const void *src, size_t n, fk_copy_kind kind,
                       FkError *error);
fk_status fk_cuda_clear(void *self, void *ptr, size_t bytes, void *stream, FkError *error);
fk_status fk_cuda_stream_create(void *self, void **stream, FkError *error);
fk_status fk_cuda_stream_destroy(void *self, void *stream, FkError *error);
fk_status fk_cuda_stream_sync(void *self, void *stream, FkError *error);
fk_status fk_cuda_stream_capturing(void *self, void *stream, bool *capturing, FkError *error);
fk_status fk_cuda_graph_begin(void *self, void *stream, FkError *error);
fk_status fk_cuda_graph_end(void *self, void *stream, void **graph, FkError *error);
fk_status fk_cuda_graph_launch(void *self, void *graph, void *stream, FkError *error);
void fk_cuda_graph_free(void *self, void *graph);
fk_status fk_cuda_event_create(void *self, void **event, FkError *error);
fk_status fk_cuda_event_destroy(void *self, void *event, FkError *error);
fk_status fk_cuda_event_record(void *self, void *event, void *stream, FkError *error);
fk_status fk_cuda_event_elapsed(void *self, void *start, void *stop, float *ms, FkError *error);

#endif
