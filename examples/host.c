/* host.c - a fn of a module from C, whole: open, load, bind, launch, read back, free. Copy it.
 *
 *     fkc linear_gelu.fk -o linear_gelu.fkm
 *     cc host.c -o host $(pkg-config --cflags --libs fk) -lm
 *     ./host linear_gelu.fkm       (libfk elsewhere than the linker looks:
 * LD_LIBRARY_PATH=PREFIX/lib)
 *
 * y = gelu(x wT + b) for bf16 x[M, K], w[N, K], b[N]. The one comparison at the end is no test of
 * the kernel (fkrun --check is), it only shows that the numbers came back.
 */
#include <fk.h>

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { M = 100, N = 48, K = 200 };

/* Every call can fail, and then fk_last_error() says what was wrong with which argument. */
static void need(fk_status status, const char *call) {
    if (!status) return;
    fprintf(stderr, "%s: %s (%s)\n", call, fk_last_error(), fk_status_name(status));
    exit(3);
}
#define NEED(call) need(call, #call)

/* bf16 is the upper half of a float; this rounds to nearest even. */
static uint16_t to_bf16(float f) {
    uint32_t u;
    memcpy(&u, &f, 4);
    return (uint16_t)((u + 0x7FFF + (u >> 16 & 1)) >> 16);
}

static float from_bf16(uint16_t h) {
    uint32_t u = (uint32_t)h << 16;
    float f;
    memcpy(&f, &u, 4);
    return f;
}

/* A matrix of small numbers on the host. */
static uint16_t *fill(size_t n, float scale) {
    uint16_t *p = malloc(n * sizeof *p);
    if (!p) exit(3);
    for (size_t i = 0; i < n; i++) p[i] = to_bf16(scale * (float)((i * 37 + 11) % 41) - scale * 20);
    return p;
}

int main(int argc, char **argv) {
    fk_device *device;
    fk_module *module;
    fk_fn *fn;
    NEED(fk_device_open(argc > 2 ? argv[2] : "cuda", &device));
    NEED(fk_module_load_file(device, argc > 1 ? argv[1] : "linear_gelu.fkm", &module));
    NEED(fk_module_fn(module, "linear_gelu", &fn));
    fk_device_info info;
    NEED(fk_device_describe(device, &info));

    uint16_t *x = fill(M * K, 0.02f), *w = fill(N * K, 0.01f), *b = fill(N, 0.05f);
    uint16_t *y = fill(M * N, 0);
    void *dx, *dw, *db, *dy, *workspace = NULL;
    NEED(fk_alloc(device, M * K * sizeof *x, &dx));
    NEED(fk_alloc(device, N * K * sizeof *w, &dw));
    NEED(fk_alloc(device, N * sizeof *b, &db));
    NEED(fk_alloc(device, M * N * sizeof *y, &dy));
    NEED(fk_copy(device, dx, x, M * K * sizeof *x, FK_TO_DEVICE));
    NEED(fk_copy(device, dw, w, N * K * sizeof *w, FK_TO_DEVICE));
    NEED(fk_copy(device, db, b, N * sizeof *b, FK_TO_DEVICE));

    /* Tensors are DLPack's; NULL strides mean dense. Sizes M, N, K follow from the shapes. */
    int64_t mk[] = {M, K}, nk[] = {N, K}, n[] = {N}, mn[] = {M, N};
    DLDataType bf16 = {kDLBfloat, 16, 1};
    DLTensor tx = {dx, info.dl, 2, bf16, mk, NULL, 0}, tw = {dw, info.dl, 2, bf16, nk, NULL, 0};
    DLTensor tb = {db, info.dl, 1, bf16, n, NULL, 0}, ty = {dy, info.dl, 2, bf16, mn, NULL, 0};
    DLTensor *args[] = {&tx, &tw, &tb, &ty}; /* inputs, then outputs, as declared */

    void *stream; /* yours, or one of your own CUstreams */
    NEED(fk_stream_create(device, &stream));
    size_t bytes;
    NEED(fk_fn_workspace_size(fn, args, 4, &bytes));
    if (bytes) {
        NEED(fk_alloc(device, bytes, &workspace));
        NEED(fk_workspace_init(fn, args, 4, workspace, bytes, stream));
    }
    NEED(fk_launch(fn, args, 4, workspace, bytes, stream));
    NEED(fk_stream_sync(device, stream));
    NEED(fk_copy(device, y, dy, M * N * sizeof *y, FK_FROM_DEVICE));

    double sum = from_bf16(b[1]);
    for (int k = 0; k < K; k++) sum += (double)from_bf16(x[K + k]) * from_bf16(w[K + k]);
    double want = 0.5 * sum * erfc(-sum * 0.7071067811865476);
    printf("%s: y[1, 1] = %g, on the host %g\n", info.name, (double)from_bf16(y[N + 1]), want);
    int right = fabs(from_bf16(y[N + 1]) - want) <= 0.01 * fabs(want) + 1e-4;

    NEED(fk_stream_destroy(device, stream));
    void *memory[] = {dx, dw, db, dy, workspace};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        if (memory[i]) NEED(fk_free(device, memory[i]));
    fk_module_unload(module);
    fk_device_close(device);
    free(x), free(w), free(b), free(y);
    return right ? 0 : 1;
}
