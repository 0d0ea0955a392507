// Writes the sample module of tests/runtime, with choices behind it, as a seed for fuzz_fkm_load.
#include <stdio.h>
#include <stdlib.h>

#include "tests/runtime/sample.h"

int main(int argc, char **argv) {
    size_t n;
    FkmError error;
    void *bytes = argc == 2 ? fkm_encode(&sample, &n, &error) : NULL;
    FILE *f = bytes ? fopen(argv[1], "wb") : NULL;
    char choices[64];
    for (int i = 0; i < 64; i++)
        choices[i] = (char)(i < 8 ? 16 : 0); // sizes that fit, nothing spoilt
    bool ok = f && fwrite(bytes, n, 1, f) == 1 && fwrite(choices, 64, 1, f) == 1 && !fclose(f);
    free(bytes);
    return !ok;
}
