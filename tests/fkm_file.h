/* fkm_file.h - a module as a file, for the programs here that change modules. */
#ifndef FK_TESTS_FKM_FILE_H
#define FK_TESTS_FKM_FILE_H

#include <stdio.h>
#include <stdlib.h>

#include "runtime/fkm.h"

static inline bool fkm_save_file(const FkmModule *m, const char *path) {
    FkmError error;
    size_t size;
    void *bytes = fkm_encode(m, &size, &error);
    FILE *f = bytes ? fopen(path, "wb") : NULL;
    bool ok = f && fwrite(bytes, 1, size, f) == size;
    if (f) ok &= !fclose(f);
    free(bytes);
    return ok;
}

#endif
