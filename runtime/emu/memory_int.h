// Addresses to bytes, with every check on the way.
#ifndef RUNTIME_EMU_MEMORY_INT_H
#define RUNTIME_EMU_MEMORY_INT_H

#include "runtime/emu/machine_int.h"

typedef enum Access { READ, WRITE, UPDATE } Access;

// The bytes at each lane's address, for lanes m of an instruction: `bytes` a lane, a power of two.
// False: a report ended the launch.
bool memory_lanes(Warp *w, const Ins *i, uint32_t m, Space space, const uint64_t *a, uint32_t bytes,
                  Access access, uint8_t **p);
// Those of one lane (-1: of the warp), any number of them, aligned to `align`. NULL: a report.
uint8_t *memory_at(Warp *w, const Ins *i, int lane, Space space, uint64_t a, uint32_t bytes,
                   uint32_t align, Access access);

// Shared memory of the cluster: the CTA that an address belongs to, and the place in it. NULL after
// a report, if it leaves the CTA's memory.
Cta *memory_shared(Warp *w, const Ins *i, int lane, uint32_t a, uint32_t bytes, uint32_t *at);

// The region that holds all of the bytes, or NULL.
const Region *memory_region(const Grid *g, uint64_t a, uint64_t bytes);
// Says where an address is: "12 bytes after the end of 'x'".
const char *memory_where(const Grid *g, uint64_t a, char *out, size_t room);

// Says that the CTA's shared bytes from `at` have no value, and why.
Step memory_missing(Warp *w, const Ins *i, int lane, const Cta *c, uint32_t at, uint32_t bytes,
                    const char *verb);
// Values of Cta.written; SPOILT: with what is of no worth (poison_int.h).
enum { WRITTEN = 1, ON_THE_WAY = 2, SPOILT = 3 };

// Whether all n bytes have a value; and that they have one now. `written`: NULL, or a byte each.
static inline bool memory_has(const uint8_t *written, uint64_t n) {
    uint64_t v = 0;
    if (!written) return true;
    if (n <= 8) {
        memcpy(&v, written, n);
        return v == (0x0101010101010101u >> 8 * (8 - n));
    }
    return !memchr(written, 0, n);
}

static inline bool memory_spoilt(const Cta *c, uint32_t at, uint32_t n) {
    return c->spoilt && memchr(c->written + at, SPOILT, n);
}

#endif
