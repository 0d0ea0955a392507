// A test as a module of one fn, run on a device through libfk's public functions.
#include <stdlib.h>
#include <string.h>

#include "runtime/fk.h"
#include "tests/gpu/emu_agrees/agrees.h"

#define N_OF(array) ((uint32_t)(sizeof(array) / sizeof *(array)))
#define CONST(v)    {(FkmInsn[]){FKM_CONST(v)}, 1}

static const char heading[] = ".version 8.4\n.target sm_90a\n.address_size 64\n";

// The text with every '$' replaced.
static char *numbered(const char *ptx, const char *number) {
    size_t n = 0, marks = 0;
    for (const char *s = ptx; *s; s++, n++) marks += *s == '$';
    char *text = keep_alloc(n + marks * strlen(number) + 1), *to = text;
    for (const char *s = ptx; *s; s++) {
        if (*s != '$')
            *to++ = *s;
        else
            to += sprintf(to, "%s", number);
    }
    return text;
}

char *test_ptx(const Test *t) {
    return text_of("%s%s", heading, numbered(t->ptx, ""));
}

bool tests_write_ptx(const Tests *all, const char *path) {
    FILE *f = fopen(path, "w");
    if (!f) return false;
    fprintf(f, "%s", heading);
    for (uint32_t k = 0; k < all->n; k++) {
        char number[16];
        snprintf(number, sizeof number, "%u", k);
        fprintf(f, "// %u: %s\n%s", k, all->v[k]->id, numbered(all->v[k]->ptx, number));
    }
    return !fclose(f);
}

// ---- the module ----

// Its bytes, or the dimensions that its map has, outermost first.
static FkmTensor tensor(const char *name, bool is_output, const Mapped *map, uint32_t bytes) {
    FkmTensor t = {.name = (char *)(uintptr_t)name, .is_output = is_output, .dtype = FKM_U8};
    t.rank = map->rank ? map->rank : 1;
    if (map->rank) t.dtype = (uint8_t)map->dtype;
    t.dims = keep_alloc(t.rank * sizeof *t.dims);
    for (uint32_t d = 0; d < t.rank; d++) {
        FkmInsn *size = keep_alloc(sizeof *size);
        *size = FKM_CONST(map->rank ? map->extent[t.rank - 1 - d] : bytes);
        t.dims[d] = (FkmDim){"", {size, 1}};
    }
    return t;
}

static FkmParam map_of(uint32_t index, const Mapped *map) {
    FkmParam p = {.kind = FKM_PARAM_TMAP, .index = index};
    p.map.rank = (uint8_t)map->rank;
    p.map.swizzle = (uint8_t)map->swizzle;
    for (uint32_t d = 0; d < map->rank; d++) {
        p.map.dim[d] = (uint8_t)(map->rank - 1 - d);
        p.map.box[d] = (uint16_t)map->box[d];
    }
    return p;
}

static const uint64_t word = 0x8596e7f871a2b3c4u; // the parameter that is a number

static void *encode(const Test *t, size_t *size, FkmError *error) {
    FkmTensor tensors[] = {tensor("in", false, &t->map_in, t->in_bytes),
                           tensor("out", true, &t->map_out, t->out_bytes)};
    FkmParam params[5] = {{.kind = FKM_PARAM_TENSOR, .index = 0},
                          {.kind = FKM_PARAM_TENSOR, .index = 1},
                          {.kind = FKM_PARAM_VALUE, .value = CONST((int64_t)word)}};
    FkmLaunch launch = {.grid = {CONST(t->grid), CONST(1), CONST(1)},
                        .block = {t->block, 1, 1},
                        .params = params,
                        .n_params = 3};
    if (t->map_in.rank) params[launch.n_params++] = map_of(0, &t->map_in);
    if (t->map_out.rank) params[launch.n_params++] = map_of(1, &t->map_out);
    FkmVariant variant = {.name = "", .arch = "sm_90a", .launches = &launch, .n_launches = 1};
    FkmStep step = {.name = "", .variants = &variant, .n_variants = 1};
    FkmFn fn = {.name = "k", .tensors = tensors, .n_tensors = 2, .steps = &step, .n_steps = 1};
    FkmKernel kernel = {.name = "k", .ptx = test_ptx(t), .major = 8, .minor = 4, .arch = "sm_90a"};
    FkmModule m = {
        .producer = "emu_agrees", .fns = &fn, .n_fns = 1, .kernels = &kernel, .n_kernels = 1};
    return fkm_encode(&m, size, error);
}

// ---- the run ----

typedef struct Run {
    fk_device *device;
    fk_module *module;
    fk_fn *fn;
    void *memory[2];
    fk_status status;
} Run;

static DLTensor argument(const Run *r, int which, const Mapped *map, uint32_t bytes,
                         int64_t shape[5]) {
    fk_device_info info;
    fk_param_info param;
    fk_device_describe(r->device, &info);
    fk_fn_param(r->fn, which, &param);
    DLTensor t = {.data = r->memory[which], .device = info.dl, .dtype = param.dl, .shape = shape};
    t.ndim = map->rank ? (int32_t)map->rank : 1;
    for (int d = 0; d < t.ndim; d++)
        shape[d] = map->rank ? map->extent[map->rank - 1 - (uint32_t)d] : bytes;
    return t;
}

#define TRY(call)                                                                                  \
    do {                                                                                           \
        if (!r->status) r->status = (call);                                                        \
    } while (0)

// Fresh memory, outputs all 0.
static void fill(Run *r, const Test *t, const uint8_t *in, const uint8_t *zeros) {
    TRY(fk_alloc(r->device, t->in_bytes, &r->memory[0]));
    TRY(fk_alloc(r->device, t->out_bytes, &r->memory[1]));
    TRY(fk_copy(r->device, r->memory[0], in, t->in_bytes, FK_TO_DEVICE));
    TRY(fk_copy(r->device, r->memory[1], zeros, t->out_bytes, FK_TO_DEVICE));
}

static void launch(Run *r, const Test *t) {
    int64_t shape[2][5];
    if (r->status) return;
    DLTensor in = argument(r, 0, &t->map_in, t->in_bytes, shape[0]),
             out = argument(r, 1, &t->map_out, t->out_bytes, shape[1]);
    TRY(fk_launch(r->fn, (DLTensor *[]){&in, &out}, 2, NULL, 0, NULL));
    TRY(fk_stream_sync(r->device, NULL));
}

bool test_run(fk_device *device, const Test *t, Result *result) {
    FkmError error;
    size_t size;
    Run all = {.device = device}, *r = &all;
    uint8_t *in = test_input(t), *out = calloc(1, t->out_bytes + 1);
    void *bytes = encode(t, &size, &error);
    *result = (Result){.bytes = out};
    if (!bytes || !in || !out) {
        r->status = FK_ERROR_BAD_MODULE;
        snprintf(result->why, sizeof result->why, "%s", bytes ? "out of memory" : error.text);
    }
    TRY(fk_module_load(device, bytes, size, &r->module));
    TRY(fk_module_fn(r->module, "k", &r->fn));
    if (!r->status) fill(r, t, in, out);
    launch(r, t);
    TRY(fk_copy(device, out, r->memory[1], t->out_bytes, FK_FROM_DEVICE));
    result->failed = r->status;
    if (r->status && !*result->why)
        snprintf(result->why, sizeof result->why, "%.590s", fk_last_error());
    for (int k = 0; k < 2; k++) fk_free(device, r->memory[k]);
    fk_module_unload(r->module);
    free(bytes);
    free(in);
    return !result->failed;
}
