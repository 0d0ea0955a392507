/* libfk: load a module that fkc made, and launch its fns on tensors.
 *
 *     fk_device *dev;  fk_module *mod;  fk_fn *fn;  size_t bytes;
 *     fk_device_open("cuda", &dev);
 *     fk_module_load_file(dev, "model.fkm", &mod);
 *     fk_module_fn(mod, "linear_gelu", &fn);
 *     DLTensor *args[] = {&x, &w, &b, &y};            (inputs, then outputs, as declared)
 *     fk_fn_workspace_size(fn, args, 4, &bytes);      (then allocate, and fk_workspace_init once)
 *     fk_launch(fn, args, 4, workspace, bytes, stream);
 *
 * Every function that can fail returns an fk_status; FK_OK is 0. fk_last_error() then says, for the
 * calling thread, which argument broke which rule, and both values. The library never exits and
 * never prints. fk_launch does not allocate, does not synchronise, and touches no stream but the
 * one it is given.
 *
 * Threads: any function may be called from any thread, with any CUDA context or none current; the
 * thread's context is restored. One module or fn may be used by several threads at once. What must
 * not race: closing or unloading a handle while another thread is inside a call with it, and two
 * launches that share a workspace and are not ordered by a stream.
 *
 * Tensors are DLPack's. Strides count elements; NULL strides mean dense; byte_offset is honoured;
 * the stride of a dimension of extent 1 is ignored; a tensor of 0 elements may have NULL data.
 * Inputs may have any stride, 0 and negative included (data + byte_offset is element [0, 0, ..]);
 * outputs need positive strides, no two elements at one address, and share no byte with any other
 * tensor. u4/i4 are kDLUInt/kDLInt with bits = 4: two per byte along the last dimension, low half
 * first; an odd last extent pads its last byte; the last stride is 1, the others are even.
 * A rank-0 input on kDLCPU or kDLCUDAHost is copied into the launch; every other tensor must be on
 * the device.
 */
#ifndef FK_H
#define FK_H

#include <stddef.h>
#include <stdint.h>

#if !defined(DLPACK_DLPACK_H_) && defined(__has_include)
#if __has_include(<dlpack/dlpack.h>)
#include <dlpack/dlpack.h>
#endif
#endif

#ifdef __cplusplus
extern "C" {
#endif

#ifndef DLPACK_DLPACK_H_
/* DLPack's layout, for programs that do not have dlpack.h. One that does includes it before fk.h.
 */
typedef enum {
    kDLCPU = 1,
    kDLCUDA = 2,
    kDLCUDAHost = 3,
    kDLExtDev = 12,
    kDLCUDAManaged = 13
} DLDeviceType;
typedef enum { kDLInt = 0, kDLUInt = 1, kDLFloat = 2, kDLBfloat = 4 } DLDataTypeCode;
typedef struct {
    DLDeviceType device_type;
    int32_t device_id;
} DLDevice;
typedef struct {
    uint8_t code;
    uint8_t bits;
    uint16_t lanes;
} DLDataType;
typedef struct {
    void *data;
    DLDevice device;
    int32_t ndim;
    DLDataType dtype;
    int64_t *shape;
    int64_t *strides;
    uint64_t byte_offset;
} DLTensor;
#endif

/* Type codes of newer DLPack headers, by our own names so that an old dlpack.h does as well. */
enum { FK_DL_BOOL = 6, FK_DL_E4M3 = 10, FK_DL_E5M2 = 12 };

#if defined(_WIN32)
#define FK_API
#else
#define FK_API __attribute__((visibility("default")))
#endif

typedef enum fk_status {
#define STATUS(name, value, meaning) FK_##name = value,
#include "fk_status.def"
#undef STATUS
    FK_STATUS_MAX = 0x7fffffff
} fk_status;

typedef struct fk_device fk_device;
typedef struct fk_module fk_module;
typedef struct fk_fn fk_fn;

#define FK_VERSION             100 /* major * 10000 + minor * 100 + patch */
#define FK_WORKSPACE_ALIGNMENT 256

/* The version of the library, as FK_VERSION. */
FK_API int fk_version(void);
/* "FK_ERROR_RANK" and the like; never NULL. */
FK_API const char *fk_status_name(fk_status status);
/* The text of this thread's last failure; "" if there was none. Valid until its next failure. */
FK_API const char *fk_last_error(void);

/* ---- devices ---- */

/* "cuda": the device of the current context, else device 0; "cuda:N"; "emu": the emulated device.
 * Uses the thread's current context if it is on that device, else the device's primary context.
 * DRIVER_MISSING, NO_DEVICE, DRIVER_TOO_OLD, ARGUMENT. */
FK_API fk_status fk_device_open(const char *name, fk_device **device);
/* NULL is allowed. Modules still loaded stay usable; the last one unloaded frees the device. */
FK_API void fk_device_close(fk_device *device);

typedef struct fk_device_info {
    char name[128];
    DLDevice dl;        /* what a tensor on this device says of itself */
    int arch;           /* 90 for sm_90 */
    int sm_count;       /* multiprocessors */
    int driver_version; /* 12040 for 12.4; 0 without a driver */
    int ptx_version;    /* highest PTX ISA the driver takes: 84 for 8.4 */
    size_t bytes_free;  /* device memory, now */
    size_t bytes_total;
} fk_device_info;
FK_API fk_status fk_device_describe(fk_device *device, fk_device_info *info);

/* Conveniences for host programs that have no other runtime. fk_copy waits until the copy is done,
 * but not for work on streams that fk_stream_create made: sync those first;
 * `kind` says where the two ends are. A NULL stream is the device's default stream. */
typedef enum fk_copy_kind { FK_TO_DEVICE, FK_FROM_DEVICE, FK_ON_DEVICE } fk_copy_kind;
FK_API fk_status fk_alloc(fk_device *device, size_t bytes, void **ptr);
FK_API fk_status fk_free(fk_device *device, void *ptr);
FK_API fk_status fk_copy(fk_device *device, void *dst, const void *src, size_t bytes,
                         fk_copy_kind kind);
FK_API fk_status fk_stream_create(fk_device *device, void **stream);
FK_API fk_status fk_stream_destroy(fk_device *device, void *stream);
FK_API fk_status fk_stream_sync(fk_device *device, void *stream);
/* What is launched on `stream` from begin to end becomes a graph (CUDA graphs) and does not run;
 * then it is launched as often as one likes, with the same tensors: what they hold is read anew.
 * The fns were prepared before (fk_fn_prepare). A stream that fk_stream_create made. CAPTURE,
 * UNSUPPORTED where the driver is older than CUDA 11.4. */
FK_API fk_status fk_graph_begin(fk_device *device, void *stream);
FK_API fk_status fk_graph_end(fk_device *device, void *stream, void **graph);
FK_API fk_status fk_graph_launch(fk_device *device, void *graph, void *stream);
FK_API void fk_graph_free(fk_device *device, void *graph); /* NULL is allowed */
FK_API fk_status fk_event_create(fk_device *device, void **event);
FK_API fk_status fk_event_destroy(fk_device *device, void *event);
FK_API fk_status fk_event_record(fk_device *device, void *event, void *stream);
/* Milliseconds from `start` to `stop`; waits for `stop`. */
FK_API fk_status fk_event_elapsed(fk_device *device, void *start, void *stop, float *ms);

/* ---- modules ---- */

/* Reads a module; the bytes are copied. Kernels are loaded when first needed.
 * BAD_MODULE, MEMORY; the file form also IO. */
FK_API fk_status fk_module_load(fk_device *device, const void *bytes, size_t size,
                                fk_module **module);
FK_API fk_status fk_module_load_file(fk_device *device, const char *path, fk_module **module);
/* Frees the module and its fns; NULL is allowed. Waits for the device's pending work first, so a
 * launch still running is not cut short. Not while a stream captures, nor before graphs that hold
 * its launches are done with. */
FK_API void fk_module_unload(fk_module *module);

/* NO_FN (the text lists what there is), NOT_BUILT (the text says why). */
FK_API fk_status fk_module_fn(fk_module *module, const char *name, fk_fn **fn);
/* The fns in order of declaration: 0 .. count-1; NULL beyond. */
FK_API int fk_module_fn_count(const fk_module *module);
FK_API fk_fn *fk_module_fn_at(fk_module *module, int index);

/* ---- fns ---- */

/* Texts belong to the module. */
typedef struct fk_fn_info {
    const char *name;
    int n_params; /* inputs, then outputs */
    int n_inputs;
    int n_sizes;
    int n_steps;       /* steps of the plan; a step is one to three kernel launches */
    const char *graph; /* the fn as graph text; NULL if stripped */
} fk_fn_info;

typedef struct fk_param_info {
    const char *name;
    const char *dtype; /* "bf16", as the language writes it */
    DLDataType dl;
    int rank;
    int is_output;
} fk_param_info;

FK_API void fk_fn_describe(const fk_fn *fn, fk_fn_info *info);
/* ARGUMENT if there is no such parameter. */
FK_API fk_status fk_fn_param(const fk_fn *fn, int param, fk_param_info *info);
/* Dimension `dim` of a parameter as the program wrote it ("2*D"); NULL if there is none. */
FK_API const char *fk_fn_dim(const fk_fn *fn, int param, int dim);
/* Name of size symbol `size`, NULL if there is none; *bound is its fixed value, or -1. */
FK_API const char *fk_fn_size(const fk_fn *fn, int size, int64_t *bound);
/* The extents of a parameter for given values of all size symbols, bound ones included: `shape` has
 * room for its rank. SHAPE if one is negative, OVERFLOW. */
FK_API fk_status fk_fn_shape(const fk_fn *fn, const int64_t *sizes, int param, int64_t *shape);

/* ---- launching ----
 * `args` are the n tensors of the signature. All argument errors (COUNT to OVERFLOW) come from here
 * and before anything is launched. */

/* Bytes of workspace for a launch with these tensors. A tensor whose data is NULL stands for any
 * address of such a tensor; otherwise the answer is for that address's alignment. */
FK_API fk_status fk_fn_workspace_size(fk_fn *fn, DLTensor *const *args, int n, size_t *bytes);
/* Makes fresh memory a workspace: clears, on `stream`, the state that kernels keep there. Once is
 * enough; kernels leave it clear. A workspace serves one launch at a time. If fk_launch fails with
 * LAUNCH or DRIVER, init it again. */
FK_API fk_status fk_workspace_init(fk_fn *fn, DLTensor *const *args, int n, void *workspace,
                                   size_t bytes, void *stream);
/* Loads the kernels that such a launch needs, so that the launch can be captured and is not slow
 * the first time. PTX, ARCH, DRIVER_TOO_OLD, MEMORY. */
FK_API fk_status fk_fn_prepare(fk_fn *fn, DLTensor *const *args, int n);
/* The name of the variant ("general") that such a launch takes in step `step` of the plan; the text
 * belongs to the module. */
FK_API fk_status fk_fn_variant(fk_fn *fn, DLTensor *const *args, int n, int step,
                               const char **name);
/* Enqueues the fn on `stream`. `workspace` may be NULL if 0 bytes are needed. On a capturing stream
 * a fn that was not prepared returns CAPTURE and leaves the capture intact. */
FK_API fk_status fk_launch(fk_fn *fn, DLTensor *const *args, int n, void *workspace, size_t bytes,
                           void *stream);

#ifdef __cplusplus
}
#endif
#endif
