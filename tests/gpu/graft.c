// Puts the graphs of one module, which are what fkrun --check compares with, into another: a module
// whose kernels compute something else than its reference says, to show that the check finds it.
//
//     gpu_graft KERNELS.fkm GRAPHS.fkm OUT.fkm       the fns of both have the same names
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/fkm.h"

static FkmModule *load(const char *path) {
    FkmError error;
    FILE *f = fopen(path, "rb");
    if (!f || fseek(f, 0, SEEK_END)) return NULL;
    long size = ftell(f);
    rewind(f);
    void *bytes = malloc((size_t)size + 1); // aligned to 16; the tree's texts lie in it
    if (!bytes || fread(bytes, 1, (size_t)size, f) != (size_t)size) return NULL;
    fclose(f);
    FkmModule *m = fkm_decode(bytes, (size_t)size, &error);
    if (!m) fprintf(stderr, "%s: %s\n", path, error.text);
    return m;
}

static bool save(const FkmModule *m, const char *path) {
    FkmError error;
    size_t size;
    void *bytes = fkm_encode(m, &size, &error);
    FILE *f = bytes ? fopen(path, "wb") : NULL;
    bool ok = f && fwrite(bytes, 1, size, f) == size;
    if (f) ok &= !fclose(f);
    free(bytes);
    return ok;
}

int main(int argc, char **argv) {
    FkmModule *kernels = argc == 4 ? load(argv[1]) : NULL;
    FkmModule *graphs = kernels ? load(argv[2]) : NULL;
    bool ok = graphs && kernels->n_fns == graphs->n_fns;
    for (uint32_t i = 0; ok && i < kernels->n_fns; i++) {
        ok = !strcmp(kernels->fns[i].name, graphs->fns[i].name) && graphs->fns[i].graph &&
             kernels->fns[i].n_tensors == graphs->fns[i].n_tensors;
        kernels->fns[i].graph = graphs->fns[i].graph;
    }
    ok = ok && save(kernels, argv[3]);
    if (!ok) fprintf(stderr, "gpu_graft: failed\n");
    return !ok;
}
