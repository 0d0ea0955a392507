// Tensor maps of the emulated device: what tmap.c writes into the 128 bytes, and copies of boxes.
#ifndef RUNTIME_EMU_TMAP_INT_H
#define RUNTIME_EMU_TMAP_INT_H

#include "runtime/emu/machine_int.h"

typedef struct Tmap {
    uint64_t magic, address;
    uint64_t extent[FK_TMAP_RANK]; // elements
    uint64_t stride[FK_TMAP_RANK]; // bytes; of dimension 0: one element
    uint16_t box[FK_TMAP_RANK];
    uint8_t rank, swizzle, unit, code; // swizzle: bytes; unit: bytes of an element; code: DLPack's
} Tmap;
_Static_assert(sizeof(Tmap) <= FK_TMAP_BYTES, "a tensor map has 128 bytes");

fk_status emu_tensor_map(void *self, const FkTmap *map, void *out, FkError *error);

// The map at a generic address; NULL after a report.
const Tmap *tmap_at(Warp *w, const Ins *i, int lane, uint64_t a);

// Shared addresses with a swizzle of 0, 32, 64, 128 bytes: 16-byte chunks change places.
static inline uint32_t tmap_swizzle(uint32_t a, uint32_t bytes) {
    return bytes ? a ^ ((a >> 7 & (bytes / 16 - 1)) << 4) : a;
}

// Which of the four.
static inline uint32_t tmap_swizzle_code(uint32_t bytes) {
    return bytes == 128 ? 3 : bytes / 32;
}

// A row of a box: elements of dimension 0 at one place of the others.
typedef struct BoxRow {
    uint64_t global;       // of the first element inside
    uint32_t shared;       // of the row's first byte, from the box's
    uint32_t first, count; // bytes of it that are inside of the tensor; count 0: none
} BoxRow;

uint32_t tmap_rows(const Tmap *t);
uint32_t tmap_row_bytes(const Tmap *t);
BoxRow tmap_row(const Tmap *t, const int32_t *at, uint32_t row);

#endif
