// What parse.c, decode.c and flow.c share while a module is read.
#ifndef RUNTIME_EMU_PARSE_INT_H
#define RUNTIME_EMU_PARSE_INT_H

#include "runtime/emu/lex_int.h"
#include "runtime/emu/ptx_int.h"

// An operand as it is written. An address is its base with `address` set.
typedef enum RawKind {
    RAW_REGISTER,
    RAW_NUMBER,
    RAW_SYMBOL,
    RAW_SINK,
    RAW_WORD,
    RAW_LIST,
    RAW_BAR
} RawKind;

typedef struct Raw {
    RawKind kind;
    bool address;
    EmuToken token; // for messages; a label's name
    uint32_t index; // of the register or symbol
    uint64_t value; // NUMBER
    uint8_t bits;   // NUMBER: as in EmuToken
    int64_t offset; // of an address
    struct Raw *list;
    uint32_t n;
} Raw;

enum { MAX_RAW = 24 };

// A block in braces: names of its own.
typedef struct Scope {
    EmuNames registers, symbols, labels;
    uint32_t first_fix;
} Scope;

typedef struct Fix { // a branch whose label is not seen yet
    uint32_t ins;
    EmuToken label;
} Fix;

typedef struct Parser {
    EmuLexer lex;
    EmuArena *arena;
    EmuModule *m;
    const Form *forms;
    uint32_t n_forms, *next_form; // the next of the same name, or n_forms
    EmuNames form_names;
    EMU_VEC(uint8_t) constants;
    EMU_VEC(Symbol) symbols;
    EMU_VEC(Scope) scopes; // [0]: the module's
    // of the function at hand
    Func *f;
    EMU_VEC(Register) registers;
    EMU_VEC(Ins) code;
    EMU_VEC(Opd) lists;
    EMU_VEC(Fix) fixes;
    EMU_VEC(uint8_t) bank;          // of immediates
    EMU_VEC(BankAddress) addresses; // of the bank's entries, those of shared memory
    uint32_t dynamic_align;         // the most that an .extern .shared asks for
    EmuNames bank_names;
} Parser;

// parse.c
bool emu_named(const EmuToken *t, const char *name);
Scope *emu_scope(Parser *p); // the innermost

// declare.c, each behind its directive
void emu_memory(Parser *p, bool external); // in front of .shared, .local, .const
void emu_registers(Parser *p);
void emu_special_registers(Parser *p);
void emu_parameters(Parser *p);
void emu_place_shared(Parser *p); // the module's, for the function at hand

// decode.c: the instruction whose opcode and operands these are.
void emu_decode(Parser *p, const EmuToken *opcode, Raw *raw, uint32_t n, Ins *out);
// flow.c: orders blocks, decides places, and leaves the code in p->f.
void emu_flow(Parser *p);

#endif
