// What flow.c and place.c share: a function's code in blocks.
#ifndef RUNTIME_EMU_FLOW_INT_H
#define RUNTIME_EMU_FLOW_INT_H

#include "runtime/emu/parse_int.h"

enum { FLOW_NOT, FLOW_BRANCH, FLOW_END }; // Form.arg of KIND_FLOW

typedef struct Block {
    uint32_t first, end;      // of the code as parsed
    uint32_t next[2], n_next; // blocks
    uint32_t number;          // of the order's depth-first search; 0: not seen
    uint64_t *in, *out, *reads, *writes;
    uint32_t at, at_end; // in the final code
} Block;

typedef struct Flow {
    Parser *p;
    EmuArena *arena;
    Block *block;
    uint32_t n, *of;                                // of: the block that begins at an instruction
    uint32_t *order, n_order, *stack, depth, count; // order is filled from its end
    const Form *jump, *ret;
    EMU_VEC(Ins) code;
    uint32_t words;         // of a set of registers
    uint32_t *first, *last; // life of a register: instructions of the final code
} Flow;

void emu_place(Flow *w); // place.c: registers and shared memory get their places

#endif
