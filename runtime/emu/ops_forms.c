// The table of instruction forms, with this compilation's handlers.
#include "runtime/emu/ops_int.h"
#include "runtime/emu/order_int.h"

extern const Form EMU_NAME(emu_forms)[];
extern const uint32_t EMU_NAME(emu_n_forms);

const Form EMU_NAME(emu_forms)[] = {
#define FORM(name, operands, handler, arg, kind)                                                   \
    {name, operands, EMU_NAME(run_##handler), (uint32_t)(arg), kind},
#include "runtime/emu/forms.def"
#undef FORM
};
const uint32_t EMU_NAME(emu_n_forms) = sizeof EMU_NAME(emu_forms) / sizeof *EMU_NAME(emu_forms);
