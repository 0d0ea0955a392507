/* sass_int.h - what can be read from machine code without a disassembler. */
#ifndef FK_BACKEND_SASS_INT_H
#define FK_BACKEND_SASS_INT_H

#include "ir/base/base.h"

/* Bytes that a thread moves between registers and local memory in one turn of the main loop of a
 * kernel: of its innermost loops that use tensor cores, or of all innermost loops when none does.
 * -1: the code was not understood. */
int sass_loop_spills(Arena *a, const void *cubin, size_t size, const char *kernel);

#endif
