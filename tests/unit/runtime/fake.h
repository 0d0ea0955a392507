// A device for tests: it hands out host memory, records launches, executes nothing, and fails where
// it is told to.
#ifndef TESTS_FAKE_H
#define TESTS_FAKE_H

#include <stdatomic.h>

#include "runtime/device.h"

typedef struct {
    const FkFunction *f;
    char name[64]; // of the kernel
    FkGrid grid;
    int n;
    uint64_t param[64];
    void *stream;
} FakeLaunch;

typedef struct {
    FkDeviceFacts facts;
    bool record; // keep the launches: one thread only
    FakeLaunch launches[16];
    int n_launches; // kept
    atomic_int launched, loaded, unloaded, cleared, closed;
    bool capturing;
    // What fails, and how; FK_OK: nothing.
    fk_status fail_launch, fail_load, fail_function, fail_cubin, fail_clear, fail_capturing;
} Fake;

// As an H200 with a 12.4 driver; `fake` must outlive the device.
fk_device *fake_open(Fake *fake);
// Its parts: the table, and the facts of an H200 where the test set none.
const FkDeviceOps *fake_ops(void);
void fake_facts_of(Fake *fake);

#endif
