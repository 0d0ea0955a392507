// A libfkemu.so for tests: the fake device behind the emulator's entry. FAKE_EMU says how it fails.
// FAKE_FAST=TEXT: its clock reads 0.5 ms after a kernel with TEXT in its name, 1.5 ms after any
// other. It has the shared memory of an H200.
#include "fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__attribute__((visibility("default"))) FkDeviceOpen fk_emu_device;

static char last[256]; // kernel that was launched

static fk_status named_launch(void *self, const FkFunction *f, const FkGrid *grid, void **params,
                              int n, void *call, void *stream, FkError *error) {
    snprintf(last, sizeof last, "%s", (const char *)f->handle);
    return fake_ops()->launch(self, f, grid, params, n, call, stream, error);
}

static fk_status named_elapsed(void *self, void *start, void *stop, float *ms, FkError *error) {
    (void)self, (void)start, (void)stop, (void)error;
    *ms = strstr(last, getenv("FAKE_FAST")) ? 0.5f : 1.5f;
    return FK_OK;
}

fk_status fk_emu_device(int index, const FkDeviceOps **ops, void **self, FkError *error) {
    static Fake fake;
    static FkDeviceOps table;
    const char *how = getenv("FAKE_EMU");
    if (index != -1 || (how && !strcmp(how, "fail")))
        return FK_FAIL(error, FK_ERROR_UNSUPPORTED, "fake: the emulator does not start");
    table = *fake_ops();
    if (how && !strcmp(how, "old")) table.abi = FK_DEVICE_ABI - 1;
    if (getenv("FAKE_FAST")) {
        table.launch = named_launch;
        table.event_elapsed = named_elapsed;
    }
    if (how && !strcmp(how, "fatal")) fake.fail_launch = FK_ERROR_DRIVER, fake.fatal = true;
    fake_facts_of(&fake);
    fake.max_dynamic = fake.facts.max_shared;
    *ops = &table;
    *self = &fake;
    return FK_OK;
}
