// libFuzzer: any bytes load as a module or are refused, and what loads can be described, prepared
// and launched on a device that executes nothing, with arguments that fit or nearly do. What loads
// also writes to bytes that read back to the same bytes.
//
// The header is made right first: its checksum would stop every mutation. The last 64 bytes choose
// sizes and spoil arguments.
#include <stdlib.h>
#include <string.h>

#include "runtime/fkm.h"
#include "tests/unit/runtime/fake.h"
#include "tests/unit/runtime/sample.h"

enum { HEADER = 32, CHOICES = 64 };

static void round_trip(const uint8_t *data, size_t size) {
    FkmError error;
    size_t n, again;
    void *copy = malloc(size);
    memcpy(copy, data, size);
    FkmModule *m = fkm_decode(copy, size, &error);
    void *bytes = m ? fkm_encode(m, &n, &error) : NULL;
    FkmModule *m2 = bytes ? fkm_decode(bytes, n, &error) : NULL;
    void *bytes2 = m2 ? fkm_encode(m2, &again, &error) : NULL;
    if (m && (!bytes2 || n != again || memcmp(bytes, bytes2, n))) abort();
    fkm_free(m);
    fkm_free(m2);
    free(bytes);
    free(bytes2);
    free(copy);
}

typedef struct {
    const uint8_t *at;
    int n;
} Choices;

static int choose(Choices *c) {
    return c->n ? c->n--, *c->at++ : 0;
}

// An argument that fits the sizes, on addresses that nobody reads; now and then spoilt.
static void make_arg(const fk_fn *fn, const int64_t *sizes, int i, Choices *c, DLTensor *t,
                     int64_t *shape, int64_t *strides) {
    static uint64_t scalar;
    fk_param_info p;
    fk_fn_param(fn, i, &p);
    *t = (DLTensor){(void *)(uintptr_t)(0x100000000 * (uint64_t)(i + 1)),
                    {kDLCUDA, 0},
                    p.rank,
                    p.dl,
                    shape,
                    NULL,
                    0};
    if (!p.rank && !p.is_output) t->data = &scalar, t->device.device_type = kDLCPU;
    if (fk_fn_shape(fn, sizes, i, shape)) memset(shape, 0, sizeof *shape * (size_t)p.rank);
    int spoil = choose(c);
    if (spoil & 1 && p.rank) t->byte_offset = 16;
    if (spoil & 2 && p.rank) {
        for (int d = 0; d < p.rank; d++)
            strides[d] = (int64_t)choose(c) * (spoil & 4 ? INT64_MAX / 256 : 1);
        t->strides = strides;
    }
    if ((spoil & 0x18) == 0x18 && p.rank) shape[spoil % p.rank] += choose(c) - 100;
    if ((spoil & 0xe0) == 0xe0) t->data = NULL;
}

static void launch(fk_fn *fn, Choices *c) {
    static DLTensor tensors[FKM_MAX_TENSORS], *args[FKM_MAX_TENSORS];
    static int64_t shapes[FKM_MAX_TENSORS][FKM_MAX_RANK], strides[FKM_MAX_TENSORS][FKM_MAX_RANK];
    int64_t sizes[FKM_MAX_SIZES] = {0};
    fk_fn_info info;
    size_t bytes = 0;
    fk_fn_describe(fn, &info);
    for (int i = 0; i < info.n_sizes; i++) {
        fk_fn_size(fn, i, &sizes[i]);
        if (sizes[i] < 0) sizes[i] = (int64_t)choose(c) * (choose(c) & 1 ? 8 : 1);
    }
    for (int i = 0; i < info.n_params; i++) {
        make_arg(fn, sizes, i, c, &tensors[i], shapes[i], strides[i]);
        args[i] = &tensors[i];
    }
    fk_fn_workspace_size(fn, args, info.n_params, &bytes);
    fk_fn_prepare(fn, args, info.n_params);
    fk_status s = fk_launch(fn, args, info.n_params, (void *)0xff0000000000, bytes, NULL);
    if (s && !*fk_last_error()) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t room); // libFuzzer's own

// Its own seed: what is too short for a module becomes the sample module of tests/unit/runtime,
// with choices that fit and spoil nothing.
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed) {
    static void *bytes;
    static size_t n;
    FkmError error;
    (void)seed;
    if (!bytes && !(bytes = fkm_encode(&sample, &n, &error))) abort();
    if (size >= HEADER + CHOICES || n + CHOICES > room) return LLVMFuzzerMutate(data, size, room);
    memcpy(data, bytes, n);
    for (size_t i = 0; i < CHOICES; i++) data[n + i] = i < 8 ? 16 : 0;
    return n + CHOICES;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static Fake fake;
    static fk_device *device;
    fk_module *m = NULL;
    if (size < HEADER + CHOICES) return 0;
    if (!device) device = fake_open(&fake);
    fake.record = false;
    uint8_t *bytes = malloc(size -= CHOICES);
    memcpy(bytes, data, size);
    fkm_seal(bytes, size);
    round_trip(bytes, size);
    Choices c = {data + size, CHOICES};
    if (!fk_module_load(device, bytes, size, &m))
        for (int i = 0; i < fk_module_fn_count(m); i++) launch(fk_module_fn_at(m, i), &c);
    fk_module_unload(m);
    free(bytes);
    return 0;
}
