/* sass_int.h - what can be read from machine code without a disassembler. */
#ifndef FK_BACKEND_SASS_INT_H
#define FK_BACKEND_SASS_INT_H

#include "ir/base/base.h"

/* Bytes that a thread moves between registers and local memory in one turn of the main loop of a
 * kernel: of its innermost loops that use tensor cores, or of all innermost loops when none does.
 * -1: the code was not understood. */
int sass_loop_spills(Arena *a, const void *cubin, size_t size, const char *kernel);

/* A kernel's code, and how it is launched, for tests that know what it should be. */
typedef struct SassInsn {
    uint64_t lo, hi; /* the low 12 bits of lo are the opcode */
    bool main;       /* in the main loop */
} SassInsn;

typedef struct SassCode {
    SassInsn *v;
    int n;
    int threads; /* of a CTA, exactly; 0: not said */
    int regs;    /* a thread has at the start */
} SassCode;
bool sass_read(Arena *a, const void *cubin, size_t size, const char *kernel, SassCode *c);

#endif
