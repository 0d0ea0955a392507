// See tmap_int.h.
#include "runtime/emu/tmap_int.h"

#include "runtime/emu/memory_int.h"

#define MAGIC 0x706d74206d652046u

// What the driver refuses is refused here, too.
fk_status emu_tensor_map(void *self, const FkTmap *m, void *out, FkError *error) {
    (void)self;
    uint32_t unit = m->dtype.bits / 8;
    const char *why = NULL;
    if (m->rank < 1 || m->rank > FK_TMAP_RANK) why = "its rank";
    if (m->address % 16) why = "its address, which must be a multiple of 16";
    if (unit != 1 && unit != 2 && unit != 4 && unit != 8) why = "its element type";
    if (m->swizzle != 0 && m->swizzle != 32 && m->swizzle != 64 && m->swizzle != 128)
        why = "its swizzle";
    for (uint32_t d = 0; d < m->rank && !why; d++) {
        if (m->extent[d] < 1 || m->extent[d] > (uint64_t)1 << 32) why = "an extent";
        if (m->box[d] < 1 || m->box[d] > 256) why = "a box";
        if (d && (m->stride[d] % 16 || m->stride[d] >= (uint64_t)1 << 40)) why = "a stride";
    }
    if (!why && m->box[0] * unit % 16) why = "its box's rows, which must be multiples of 16 bytes";
    if (!why && m->swizzle && m->box[0] * unit > m->swizzle)
        why = "its box's rows, which are longer than the swizzle";
    if (why) return FK_FAIL(error, FK_ERROR_DRIVER, "emu: no tensor map, because of %s", why);
    Tmap t = {.magic = MAGIC,
              .address = m->address,
              .rank = (uint8_t)m->rank,
              .swizzle = (uint8_t)m->swizzle,
              .unit = (uint8_t)unit,
              .code = m->dtype.code};
    for (uint32_t d = 0; d < m->rank; d++) {
        t.extent[d] = m->extent[d];
        t.stride[d] = d ? m->stride[d] : unit;
        t.box[d] = (uint16_t)m->box[d];
    }
    memset(out, 0, FK_TMAP_BYTES);
    memcpy(out, &t, sizeof t);
    return FK_OK;
}

const Tmap *tmap_at(Warp *w, const Ins *i, int lane, uint64_t a) {
    const Tmap *t = (const Tmap *)(void *)memory_at(w, i, lane, SPACE_GENERIC, a, FK_TMAP_BYTES,
                                                    FK_TMAP_ALIGN, READ);
    if (t && t->magic != MAGIC) {
        report(w, i, lane, REPORT_TMAP, "there is no tensor map at 0x%llx", (unsigned long long)a);
        return NULL;
    }
    return t;
}

uint32_t tmap_rows(const Tmap *t) {
    uint32_t n = 1;
    for (uint32_t d = 1; d < t->rank; d++) n *= t->box[d];
    return n;
}

uint32_t tmap_row_bytes(const Tmap *t) {
    return (uint32_t)t->box[0] * t->unit;
}

BoxRow tmap_row(const Tmap *t, const int32_t *at, uint32_t row) {
    BoxRow r = {.global = t->address, .shared = row * tmap_row_bytes(t)};
    for (uint32_t d = 1; d < t->rank; d++) {
        int64_t x = (int64_t)at[d] + row % t->box[d];
        row /= t->box[d];
        if (x < 0 || x >= (int64_t)t->extent[d]) return r;
        r.global += (uint64_t)x * t->stride[d];
    }
    int64_t low = at[0] < 0 ? -(int64_t)at[0] : 0, high = (int64_t)t->extent[0] - at[0];
    if (high > t->box[0]) high = t->box[0];
    if (low >= high) return r;
    r.global += (uint64_t)(at[0] + low) * t->unit;
    r.first = (uint32_t)low * t->unit;
    r.count = (uint32_t)(high - low) * t->unit;
    return r;
}
