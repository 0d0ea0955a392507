// A program outside of this tree: links, and gets an answer.
#include <fk.h>
#include <stdio.h>

int main(void) {
    fk_device *device;
    fk_status s = fk_device_open("abacus", &device);
    printf("%d: %s: %s\n", fk_version(), fk_status_name(s), fk_last_error());
    return s != FK_ERROR_ARGUMENT || fk_version() != FK_VERSION;
}
