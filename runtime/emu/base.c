// See base_int.h.
#include "runtime/emu/base_int.h"

#include <stdarg.h>
#include <stdlib.h>

enum { CHUNK = 1 << 18, ALIGN = 64 };

typedef struct EmuChunk {
    struct EmuChunk *next;
    size_t used, size; // of the bytes behind this struct, which is ALIGN bytes long
} EmuChunk;
_Static_assert(sizeof(EmuChunk) <= ALIGN, "a chunk's bytes start at ALIGN");

void *emu_alloc(EmuArena *a, size_t bytes) {
    EmuChunk *c = a->top;
    bytes = (bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    if (!c || c->size - c->used < bytes) {
        size_t size = bytes > CHUNK ? bytes : CHUNK;
        c = aligned_alloc(ALIGN, ALIGN + size);
        if (!c) {
            a->status = FK_ERROR_MEMORY;
            emu_fail(a, 0, "out of memory for a module of the emulated device");
        }
        memset(c, 0, ALIGN + size);
        *c = (EmuChunk){.next = a->top, .size = size};
        a->top = c;
    }
    void *p = (char *)c + ALIGN + c->used;
    c->used += bytes;
    return p;
}

void emu_arena_free(EmuArena *a) {
    for (EmuChunk *c = a->top, *next; c; c = next) {
        next = c->next;
        free(c);
    }
    a->top = NULL;
}

void emu_fail(EmuArena *a, uint32_t line, const char *format, ...) {
    va_list args;
    size_t n = 0, room = sizeof a->error->text;
    if (line) n = (size_t)snprintf(a->error->text, room, "PTX line %u: ", line);
    va_start(args, format);
    vsnprintf(a->error->text + n, room - n, format, args);
    va_end(args);
    if (!a->status) a->status = FK_ERROR_PTX;
    longjmp(*a->out, 1);
}

// ---- names ----

typedef struct EmuName {
    const char *at;
    uint32_t n, number;
} EmuName;

static uint32_t hash(const char *at, size_t n) {
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < n; i++) h = (h ^ (unsigned char)at[i]) * 16777619u;
    return h;
}

// The slot of a name, or the empty one where it belongs.
static EmuName *find(const EmuNames *m, const char *at, size_t n) {
    for (uint32_t i = hash(at, n);; i++) {
        EmuName *s = &m->slot[i & (m->room - 1)];
        if (!s->at || (s->n == n && !memcmp(s->at, at, n))) return s;
    }
}

uint32_t emu_name_get(const EmuNames *m, const char *at, size_t n, uint32_t none) {
    if (!m->room) return none;
    const EmuName *s = find(m, at, n);
    return s->at ? s->number : none;
}

void emu_name_put(EmuArena *a, EmuNames *m, const char *at, size_t n, uint32_t number) {
    if (2 * (m->n + 1) > m->room) {
        EmuNames grown = {.room = m->room ? 2 * m->room : 32};
        grown.slot = EMU_NEW(a, EmuName, grown.room);
        for (uint32_t i = 0; i < m->room; i++)
            if (m->slot[i].at) {
                *find(&grown, m->slot[i].at, m->slot[i].n) = m->slot[i];
                grown.n++;
            }
        *m = grown;
    }
    EmuName *s = find(m, at, n);
    m->n += !s->at;
    *s = (EmuName){at, (uint32_t)n, number};
}
