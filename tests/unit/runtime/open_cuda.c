// open_cuda STATUS TEXT: opening "cuda" fails so. Without a library path of its own it is the test
// of a machine that has no driver, and skipped (77) where there is one.
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "runtime/fk.h"

int main(int argc, char **argv) {
    fk_device *d = NULL;
    if (argc != 3) return 2;
    if (!strcmp(argv[1], "FK_ERROR_DRIVER_MISSING") && dlopen("libcuda.so.1", RTLD_NOW)) {
        puts("skipped: this machine has a CUDA driver");
        return 77;
    }
    fk_status s = fk_device_open("cuda", &d);
    printf("%s: %s\n", fk_status_name(s), fk_last_error());
    return d || strcmp(fk_status_name(s), argv[1]) || strcmp(fk_last_error(), argv[2]);
}
