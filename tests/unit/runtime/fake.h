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
    unsigned char map[4][FK_TMAP_BYTES]; // those of its parameters that are tensor maps
    int n_maps;
    void *stream;
} FakeLaunch;

// The fake's tensor map: this, then the request.
#define FAKE_MAP 0x70616d2065736166u

typedef struct {
    FkDeviceFacts facts;
    bool record; // keep the launches: one thread only
    FakeLaunch launches[16];
    int n_launches; // kept
    FkTmap map;     // the last request
    atomic_int launched, loaded, unloaded, cleared, closed, encoded;
    bool capturing, misaligned; // a tensor map was
    bool fatal, broken;         // a launch that fails breaks the device; one did
    int64_t max_dynamic;        // of every kernel; 0: 1000 bytes
    // What fails, and how; FK_OK: nothing.
    fk_status fail_launch, fail_load, fail_map, fail_function, fail_cubin, fail_clear,
        fail_capturing;
} Fake;

// As an H200 with a 12.4 driver; `fake` must outlive the device.
fk_device *fake_open(Fake *fake);
// Its parts: the table, and the facts of an H200 where the test set none.
const FkDeviceOps *fake_ops(void);
void fake_facts_of(Fake *fake);

#endif
