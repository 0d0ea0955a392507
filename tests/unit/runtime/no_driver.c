// Without a CUDA driver, opening "cuda" says so. Skipped (77) where there is one.
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "runtime/fk.h"

int main(void) {
    fk_device *d = NULL;
    if (dlopen("libcuda.so.1", RTLD_NOW)) {
        puts("skipped: this machine has a CUDA driver");
        return 77;
    }
    fk_status s = fk_device_open("cuda", &d);
    puts(fk_last_error());
    return s != FK_ERROR_DRIVER_MISSING || d ||
           strcmp(fk_last_error(),
                  "the CUDA driver is not on this machine (libcuda.so.1: cannot open shared object "
                  "file: No such file or directory); install it, or use the device \"emu\"");
}
