// A libfkemu.so for tests: the fake device behind the emulator's entry. FAKE_EMU says how it fails.
#include "fake.h"

#include <stdlib.h>
#include <string.h>

__attribute__((visibility("default"))) FkDeviceOpen fk_emu_device;

fk_status fk_emu_device(int index, const FkDeviceOps **ops, void **self, FkError *error) {
    static Fake fake;
    static FkDeviceOps table;
    const char *how = getenv("FAKE_EMU");
    if (index != -1 || (how && !strcmp(how, "fail")))
        return FK_FAIL(error, FK_ERROR_UNSUPPORTED, "fake: the emulator does not start");
    table = *fake_ops();
    if (how && !strcmp(how, "old")) table.abi = FK_DEVICE_ABI - 1;
    fake_facts_of(&fake);
    *ops = &table;
    *self = &fake;
    return FK_OK;
}
