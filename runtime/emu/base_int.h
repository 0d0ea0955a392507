// Memory of a parsed module: an arena whose failures, like those of the text itself, end the parse
// by a jump to its start, where everything is freed at once.
#ifndef RUNTIME_EMU_BASE_INT_H
#define RUNTIME_EMU_BASE_INT_H

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "runtime/device.h"

typedef struct EmuArena {
    struct EmuChunk *top;
    jmp_buf *out;
    FkError *error;
    fk_status status;
} EmuArena;

void *emu_alloc(EmuArena *a, size_t bytes); // zeroed, aligned to 64
void emu_arena_free(EmuArena *a);
#define EMU_NEW(a, type, n) ((type *)emu_alloc(a, sizeof(type) * (size_t)(n)))

// Ends the parse: a text that names the PTX line (0: none).
__attribute__((noreturn, format(printf, 3, 4))) void emu_fail(EmuArena *a, uint32_t line,
                                                              const char *format, ...);

// A growing array in an arena: room doubles, old room is left behind.
#define EMU_VEC(type)                                                                              \
    struct {                                                                                       \
        type *v;                                                                                   \
        uint32_t n, room;                                                                          \
    }
#define EMU_PUSH(a, vec, x)                                                                        \
    do {                                                                                           \
        if ((vec)->n == (vec)->room) {                                                             \
            (vec)->room = (vec)->room ? 2 * (vec)->room : 16;                                      \
            void *grown_ = emu_alloc(a, sizeof *(vec)->v * (vec)->room);                           \
            if ((vec)->n) memcpy(grown_, (vec)->v, sizeof *(vec)->v *(vec)->n);                    \
            (vec)->v = grown_;                                                                     \
        }                                                                                          \
        (vec)->v[(vec)->n++] = (x);                                                                \
    } while (0)

// A map from names to numbers.
typedef struct EmuNames {
    struct EmuName *slot;
    uint32_t n, room; // room: a power of two, or 0
} EmuNames;
// The number of a name, or `none`.
uint32_t emu_name_get(const EmuNames *m, const char *at, size_t n, uint32_t none);
void emu_name_put(EmuArena *a, EmuNames *m, const char *at, size_t n, uint32_t number);

#endif
