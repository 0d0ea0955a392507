// Puts the graphs of one module, which are what fkrun --check compares with, into another: a module
// whose kernels compute something else than its reference says, to show that the check finds it.
//
//     gpu_graft KERNELS.fkm GRAPHS.fkm OUT.fkm       the fns of both have the same names
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/fkm.h"
#include "tests/fkm_file.h"

typedef struct {
    void *bytes; // in which the tree's texts lie
    FkmModule *tree;
} Module;

static Module load(const char *path) {
    FkmError error = {"it cannot be read"};
    Module m = {0};
    FILE *f = fopen(path, "rb");
    long size = f && !fseek(f, 0, SEEK_END) ? ftell(f) : -1;
    if (size >= 0) m.bytes = malloc((size_t)size + 1);
    if (m.bytes) {
        rewind(f);
        size_t n = fread(m.bytes, 1, (size_t)size, f);
        m.tree = fkm_decode(m.bytes, n, &error);
    }
    if (f) fclose(f);
    if (!m.tree) fprintf(stderr, "%s: %s\n", path, error.text);
    return m;
}

static void unload(Module *m) {
    if (m->tree) fkm_free(m->tree);
    free(m->bytes);
}

// False: the fns are not the same.
static bool graft(const FkmModule *kernels, const FkmModule *graphs) {
    if (kernels->n_fns != graphs->n_fns) return false;
    for (uint32_t i = 0; i < kernels->n_fns; i++) {
        FkmFn *to = &kernels->fns[i];
        const FkmFn *from = &graphs->fns[i];
        if (strcmp(to->name, from->name) != 0 || to->n_tensors != from->n_tensors || !from->graph)
            return false;
        to->graph = from->graph;
    }
    return true;
}

int main(int argc, char **argv) {
    if (argc != 4) return fprintf(stderr, "gpu_graft KERNELS.fkm GRAPHS.fkm OUT.fkm\n"), 2;
    Module kernels = load(argv[1]), graphs = load(argv[2]);
    bool ok = kernels.tree && graphs.tree && graft(kernels.tree, graphs.tree) &&
              fkm_save_file(kernels.tree, argv[3]);
    if (!ok) fprintf(stderr, "gpu_graft: failed\n");
    unload(&kernels);
    unload(&graphs);
    return !ok;
}
