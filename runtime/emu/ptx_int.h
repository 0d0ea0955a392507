// A module's PTX, decoded: what parse.c, decode.c and flow.c make, and the machine runs.
//
// A register's value is an array of 32 lanes; where it lies is decided once, by flow.c. 16-bit
// values stand in 32 bits, the upper half 0. A predicate is one word with a bit a lane.
// Immediates and addresses of variables stand in a second bank, already spread over the lanes, so
// that handlers need not ask which of the two an operand is.
#ifndef RUNTIME_EMU_PTX_INT_H
#define RUNTIME_EMU_PTX_INT_H

#include "runtime/emu/base_int.h"

enum { LANES = 32, MAX_OPERANDS = 10, SHARED_BASE = 1024 };
#define ALL_LANES 0xffffffffu

typedef struct Warp Warp;
typedef struct Ins Ins;

// What a handler says: go on behind the instruction; the pc is set; try again when woken; go on,
// but let others run first; a fault that ends the launch.
typedef enum Step { NEXT, JUMP, BLOCK, YIELD, STOP } Step;
typedef Step Run(Warp *w, const Ins *i, uint32_t m); // m: the lanes that execute it, never 0

// An instruction form: a row of forms.def.
typedef struct Form {
    const char *name, *operands;
    Run *run;
    uint32_t arg;
    uint8_t kind; // FormKind
} Form;

typedef enum FormKind {
#define FORM_KIND(name, text) KIND_##name,
#include "runtime/emu/kind.def"
#undef FORM_KIND
    FORM_KINDS
} FormKind;

typedef enum OpdClass {
    OPD_NONE,
    OPD_PRED,
    OPD_16,
    OPD_32,
    OPD_64,
    OPD_LIST,
    OPD_NUMBER,
    OPD_LABEL
} OpdClass;

typedef struct Opd {
    uint32_t at; // register: its number, then its byte in the bank; list: its first in Func.lists
    int32_t offset; // of an address; the value of a NUMBER; the list's length
    uint8_t cls, bank;
    bool writes, address;
} Opd;

struct Ins {
    Run *run;
    const Form *form;
    uint32_t line;
    uint32_t pred, flip;      // runs in lanes where the predicate, xor flip, is set
    uint32_t number, number2; // what '#' stood for
    uint32_t target;          // of a branch
    uint8_t n;
    bool together; // all live lanes of the warp must execute it
    bool pinned;   // no wgmma, and touches a register that one uses
    bool constant; // a load with .nc: of what the launch does not write
    bool releases; // with .release or .acq_rel
    bool strong;   // accesses memory that others may access at the same time
    Opd o[MAX_OPERANDS];
};

enum { PRED_FALSE, PRED_TRUE, FIRST_PRED }; // predicates that are constants

typedef enum Space {
    SPACE_GLOBAL,
    SPACE_SHARED,
    SPACE_PARAM,
    SPACE_CONST,
    SPACE_LOCAL,
    SPACE_GENERIC,
    SPACES
} Space;
extern const char *const space_names[SPACES];

// A generic address of what is not global has its space above this bit.
enum { WINDOW_SHIFT = 56 };

typedef struct Symbol {
    const char *name;
    uint32_t n;
    Space space;
    uint32_t at, bytes, align; // at: its address in its space
    bool dynamic;              // behind all static shared memory
} Symbol;

typedef struct Register {
    const char *name;
    uint32_t n;
    uint8_t cls;     // OPD_PRED to OPD_64
    bool pinned;     // an accumulator or a fragment of wgmma: never shares its place
    int16_t special; // a Special, or -1
    uint32_t at;     // its place
} Register;

typedef enum Special {
#define SPECIAL(name, text, cls) SPECIAL_##name,
#include "runtime/emu/special.def"
#undef SPECIAL
    SPECIALS
} Special;

// An entry of the bank of immediates that is an address of shared memory.
typedef struct BankAddress {
    uint32_t at;        // bytes
    bool wide, dynamic; // 64 bits; behind all static shared memory, whose size the end tells
} BankAddress;

typedef struct Param {
    uint32_t at, bytes;
} Param;

typedef struct Func {
    const char *name;
    uint32_t name_n;
    Ins *code;
    uint32_t n; // the last one ends the thread
    const Opd *lists;
    EMU_VEC(Param) params;
    uint32_t param_bytes;
    uint32_t shared_bytes, local_bytes; // static
    uint32_t dynamic_at;                // where dynamic shared memory begins, from SHARED_BASE
    uint32_t block[3], cluster;         // .reqntid, .reqnctapercluster; 0: any, none
    bool copies;                        // has cp.async
    uint32_t reg_bytes, pinned_bytes, n_preds; // of a warp; pinned registers come first
    uint8_t *consts;                           // the bank of immediates
    uint32_t const_bytes;
    const BankAddress *addresses; // of shared memory, in it
    uint32_t n_addresses;
    int32_t special[SPECIALS]; // place, or -1
    const struct EmuModule *module;
} Func;

typedef struct EmuModule {
    EmuArena arena;
    const char *text;
    EMU_VEC(Func *) funcs;
    uint8_t *constants; // the bytes of .const variables
    uint32_t constant_bytes;
} EmuModule;

// The PTX line, without blanks around it and at most `room` - 1 characters, to out.
const char *emu_line(const EmuModule *m, uint32_t line, char *out, size_t room);

fk_status emu_module_parse(const char *ptx, const Form *forms, uint32_t n_forms, EmuModule **module,
                           FkError *error);
void emu_module_free(EmuModule *m);

#endif
