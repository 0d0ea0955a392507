// A kernel's PTX out of a module, or another text in its place:
//
//     emu_ptx MODULE.fkm                     the names of the kernels
//     emu_ptx MODULE.fkm KERNEL              its PTX
//     emu_ptx MODULE.fkm KERNEL NEW.ptx OUT.fkm
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/fkm.h"
#include "tests/fkm_file.h"

// The file's bytes with a NUL behind them; NULL: it cannot be read.
static char *load(const char *path, size_t *n) {
    FILE *f = fopen(path, "rb");
    long size = f && !fseek(f, 0, SEEK_END) ? ftell(f) : -1;
    char *bytes = size >= 0 ? malloc((size_t)size + 1) : NULL;
    if (bytes) {
        rewind(f);
        *n = fread(bytes, 1, (size_t)size, f);
        bytes[*n] = 0;
    }
    if (f) fclose(f);
    return bytes;
}

static FkmKernel *named(FkmModule *m, const char *name) {
    for (uint32_t k = 0; k < m->n_kernels; k++)
        if (!strcmp(m->kernels[k].name, name)) return &m->kernels[k];
    return NULL;
}

static bool work(FkmModule *m, int argc, char **argv) {
    FkmKernel *k = argc > 2 ? named(m, argv[2]) : NULL;
    if (argc == 2)
        for (uint32_t i = 0; i < m->n_kernels; i++) puts(m->kernels[i].name);
    if (argc == 2) return true;
    if (!k || !k->ptx) return fprintf(stderr, "emu_ptx: no PTX of %s\n", argv[2]), false;
    if (argc == 3) return fputs(k->ptx, stdout) >= 0;
    size_t n;
    char *was = k->ptx, *text = load(argv[3], &n);
    if (!text) return fprintf(stderr, "emu_ptx: cannot read %s\n", argv[3]), false;
    k->ptx = text;
    bool ok = fkm_save_file(m, argv[4]);
    k->ptx = was;
    free(text);
    if (!ok) fprintf(stderr, "emu_ptx: cannot write %s\n", argv[4]);
    return ok;
}

int main(int argc, char **argv) {
    FkmError error = {"it cannot be read"};
    size_t n = 0;
    if (argc != 2 && argc != 3 && argc != 5)
        return fprintf(stderr, "emu_ptx MODULE.fkm [KERNEL [NEW.ptx OUT.fkm]]\n"), 2;
    char *bytes = load(argv[1], &n);
    FkmModule *m = bytes ? fkm_decode(bytes, n, &error) : NULL;
    bool ok = m && work(m, argc, argv);
    if (!m) fprintf(stderr, "emu_ptx: %s: %s\n", argv[1], error.text);
    if (m) fkm_free(m);
    free(bytes);
    return !ok;
}
