// A device is a table of functions. The CUDA driver is one (cuda.c), the emulator another
// (emu/, loaded as a library of its own), tests make others. Private to runtime.
//
// Every function may be called from any thread, at the same time as any other, and leaves the
// thread's CUDA context as it was. A failing function says what to do about it in `error`, which
// the caller shows as it is. `stream` is the caller's; NULL is the device's default stream.
#ifndef RUNTIME_DEVICE_H
#define RUNTIME_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "runtime/fk.h"

typedef struct FkError {
    char text[4096];
} FkError;

// In a header so that a device in another library needs nothing of libfk.
#define FK_FAIL(error, status, ...)                                                                \
    (snprintf((error)->text, sizeof(error)->text, __VA_ARGS__), (status))

typedef struct FkDeviceFacts {
    fk_device_info info; // but for the free memory
    int64_t max_grid[3];
    int64_t max_shared; // bytes a block may have, static and dynamic
    bool ptx_only;      // takes no cubins: the emulator
    bool tensor_maps;   // it has tensor_map, and the chip uses them
} FkDeviceFacts;

typedef struct FkFunction {
    void *handle;
    int64_t max_dynamic; // dynamic shared bytes a launch may ask for
} FkFunction;

typedef struct FkGrid {
    uint32_t grid[3], block[3], shared;
    uint32_t step; // of the fn
    bool early;    // may begin before the launch before it has ended: it waits for that itself
} FkGrid;

// A tensor map wanted: dimensions innermost first, the tile that a copy moves, and how its rows are
// permuted in shared memory. Elements outside of the tensor read as 0.
enum { FK_TMAP_RANK = 5, FK_TMAP_BYTES = 128, FK_TMAP_ALIGN = 64 };
typedef struct FkTmap {
    uint64_t address;
    uint64_t extent[FK_TMAP_RANK]; // elements
    uint64_t stride[FK_TMAP_RANK]; // bytes; of dimension 0: one element
    uint32_t box[FK_TMAP_RANK];    // elements
    uint32_t rank;
    uint32_t swizzle; // bytes: 0, 32, 64, 128
    DLDataType dtype;
} FkTmap;

// Memory that the launches of one call of a fn may touch.
typedef enum FkRegionKind {
    FK_REGION_INPUT,
    FK_REGION_OUTPUT,
    FK_REGION_TEMP,    // from one step to a later one; nothing in it when the call begins
    FK_REGION_SCRATCH, // within a step
    FK_REGION_HEAD     // the workspace's state, all 0 when the call begins
} FkRegionKind;
typedef struct FkRegion {
    uint64_t address, bytes;
    FkRegionKind kind;
    uint32_t index; // of the argument or temporary
    uint32_t first,
        last;         // steps in which it is there; before and after, others may be in its place
    const char *name; // the argument's; else NULL
} FkRegion;

// First member of the table, raised by any change of it: libfkemu.so may be of another build.
enum { FK_DEVICE_ABI = 5 };

typedef struct FkDeviceOps {
    uint32_t abi; // FK_DEVICE_ABI
    void (*close)(void *self);
    fk_status (*facts)(void *self, FkDeviceFacts *facts, FkError *error);
    fk_status (*memory)(void *self, size_t *bytes_free, size_t *bytes_total, FkError *error);

    fk_status (*alloc)(void *self, size_t bytes, void **ptr, FkError *error);
    fk_status (*free)(void *self, void *ptr, FkError *error);
    fk_status (*copy)(void *self, void *dst, const void *src, size_t bytes, fk_copy_kind kind,
                      FkError *error);
    fk_status (*clear)(void *self, void *ptr, size_t bytes, void *stream, FkError *error);

    fk_status (*stream_create)(void *self, void **stream, FkError *error);
    fk_status (*stream_destroy)(void *self, void *stream, FkError *error);
    fk_status (*stream_sync)(void *self, void *stream, FkError *error);
    fk_status (*stream_capturing)(void *self, void *stream, bool *capturing, FkError *error);
    // Launches on the stream from begin to end, and nothing else, become a graph; NULL: it has
    // none.
    fk_status (*graph_begin)(void *self, void *stream, FkError *error);
    fk_status (*graph_end)(void *self, void *stream, void **graph, FkError *error);
    fk_status (*graph_launch)(void *self, void *graph, void *stream, FkError *error);
    void (*graph_free)(void *self, void *graph);

    fk_status (*event_create)(void *self, void **event, FkError *error);
    fk_status (*event_destroy)(void *self, void *event, FkError *error);
    fk_status (*event_record)(void *self, void *event, void *stream, FkError *error);
    fk_status (*event_elapsed)(void *self, void *start, void *stop, float *ms, FkError *error);

    // `image` is a cubin of `size` bytes, or PTX with `size` counting its NUL. ERROR_ARCH and
    // ERROR_DRIVER_TOO_OLD mean that another image may do. Loading is allowed while any stream of
    // the process captures. Unloading waits for pending work.
    fk_status (*module_load)(void *self, const void *image, size_t size, bool is_ptx, void **module,
                             FkError *error);
    void (*module_unload)(void *self, void *module);
    fk_status (*function)(void *self, void *module, const char *name, FkFunction *f,
                          FkError *error);
    // Writes the FK_TMAP_BYTES of a tensor map to `out`, aligned to FK_TMAP_ALIGN.
    fk_status (*tensor_map)(void *self, const FkTmap *map, void *out, FkError *error);
    // For devices that check what kernels touch; NULL in others: all launches from begin to end are
    // one call of a fn, with this memory. `end` frees *call.
    fk_status (*begin)(void *self, const FkRegion *regions, uint32_t n, void **call,
                       FkError *error);
    void (*end)(void *self, void *call);
    // params[i] points at the i-th parameter's bytes: 8, or those of a tensor map. call: of begin,
    // or NULL.
    fk_status (*launch)(void *self, const FkFunction *f, const FkGrid *grid, void **params,
                        int n_params, void *call, void *stream, FkError *error);
} FkDeviceOps;

// The table and self of a device.
typedef fk_status FkDeviceOpen(int index, const FkDeviceOps **ops, void **self, FkError *error);
FkDeviceOpen fk_cuda_open; // index -1: the current context's device, else 0

// What libfkemu.so exports.
#define FK_EMU_ENTRY "fk_emu_device"

// A device from any table; `self` is closed with it. How tests get theirs.
fk_status fk_device_from_table(const FkDeviceOps *ops, void *self, fk_device **device);

#endif
