// What the files of libfk share: handles, errors, and the stages of a launch.
#ifndef RUNTIME_INT_H
#define RUNTIME_INT_H

#include <pthread.h>
#include <stdatomic.h>

#include "runtime/device.h"
#include "runtime/fkm.h"

struct fk_device {
    const FkDeviceOps *ops;
    void *self;
    FkDeviceFacts facts;
    atomic_int users; // the opener, and each module
};

// A kernel of a module on its device: the images that fit, and the function once it is loaded.
typedef struct FkLoaded {
    _Atomic(FkFunction *) function; // NULL until loaded; then points at `loaded`
    FkFunction loaded;
    void *module;     // of the device; freed at unload
    int cubin;        // index of the cubin that fits, or -1
    bool ptx;         // the PTX fits
    bool ptx_too_new; // it fits, but for its version
} FkLoaded;

struct fk_fn {
    fk_module *module;
    const FkmFn *fn;
    uint64_t *usable;          // by step: bit i is set if variant i has an image for this device
    struct FkTmapCache *tmaps; // NULL: no variant needs tensor maps
    FkmLife *life;             // by temporary
    uint32_t *order;           // of temporaries, by rising first step
};

struct fk_module {
    fk_device *device;
    void *bytes; // our copy; the tree points into it
    FkmModule *tree;
    FkLoaded *kernels; // by kernel
    fk_fn *fns;        // by fn
    pthread_mutex_t loading;
};

// ---- errors (error.c) ----

FkError *fk_error(void); // the calling thread's text
__attribute__((format(printf, 2, 3))) fk_status fk_fail(fk_status status, const char *format, ...);

// ---- images (image.c) ----

void fk_device_release(fk_device *device);
// Decides which image of each kernel fits the device, and which variants are usable.
void fk_choose_images(fk_module *m);
// The function of a kernel, loading it if `may_load`; CAPTURE if it is not loaded and may not be.
fk_status fk_kernel_function(fk_module *m, uint32_t kernel, bool may_load, const FkFunction **f);

// ---- arguments (tensor.c, bind.c) ----

// All that a launch knows after its arguments are proved right. Lives on the stack, its arrays in
// an FK_ROOM beside it, as large as the fn at hand needs.
typedef struct FkBound {
    const fk_fn *fn;
    DLTensor *const *args;
    FkmEnv env;
    bool addresses;           // every tensor with elements has data
    int64_t *size;            // by size
    int64_t *extent, *stride; // by first_dim + dim; canonical
    int64_t *align;           // by tensor, as what follows
    uint64_t *address;        // of element [0, 0, ..]; 0: on the CPU, or empty
    uint64_t *low, *high;     // the bytes [low, high) it spans
    // Of the workspace, once it is laid out: offsets of temporaries, and of the scratch of steps;
    // their bytes; room to lay it out.
    uint64_t *temp, *temp_bytes, *scratch, *scratch_bytes, *live;
} FkBound;

extern const DLDataType fk_dl_types[FKM_DTYPES];

#define FK_ROOM(name, f)                                                                           \
    uint64_t name[1 + (f)->n_sizes + 2 * (f)->n_dims + 4 * (f)->n_tensors + 3 * (f)->n_temps +     \
                  2 * (f)->n_steps]

// Proves arguments `args` against the signature, solves sizes, and runs the checks. With
// need_data, tensors with elements must have data, and overlap is checked. `room`: an FK_ROOM.
fk_status fk_bind(const fk_fn *fn, DLTensor *const *args, int n, bool need_data, uint64_t *room,
                  FkBound *b);
// Proves tensor i alone and fills its part of b.
fk_status fk_bind_tensor(FkBound *b, uint32_t i, bool need_data);
// Proves that outputs share nothing with others, and nobody with the workspace.
fk_status fk_check_overlap(const FkBound *b, const void *workspace, uint64_t bytes);

// ---- tensor maps (tmap.c) ----

uint32_t fk_tmap_count(const FkmLaunch *l);
bool fk_tmap_wanted(const FkmFn *fn);        // by a launch of any variant
struct FkTmapCache *fk_tmap_cache_new(void); // NULL: out of memory
void fk_tmap_cache_free(struct FkTmapCache *c);
// What the device is to be asked for parameter p, a TMAP whose tensor begins at `address` (0: not
// known yet; then as well aligned as b knows). False if the hardware cannot express it.
bool fk_tmap_describe(const FkBound *b, const FkmParam *p, uint64_t address, FkTmap *map);
// The map, from the fn's cache or the device, to `out` (aligned to FKM_MAP_ALIGN).
fk_status fk_tmap_get(const fk_fn *fn, const FkTmap *map, void *out);

#endif
