// Loads and stores of every space, and what the spaces' addresses are. Lanes whose accesses fall
// into one region are checked against its ends at once; the rest goes the slow way (memory.c).
#include "runtime/emu/memory_int.h"
#include "runtime/emu/ops_int.h"

// The arg of a row: bytes of an element, how many, whether it is signed.
#define BYTES(arg)  ((arg) & 15)
#define COUNT(arg)  ((arg) >> 4 & 15)
#define SIGNED(arg) ((arg) >> 8)

static inline void addresses(const Warp *w, const Opd *o, uint64_t *a) {
    uint64_t offset = (uint64_t)(int64_t)o->offset;
    if (o->cls == OPD_64) {
        const uint64_t *base = operand(w, o);
        for (int l = 0; l < LANES; l++) a[l] = base[l] + offset;
    } else {
        const uint32_t *base = operand(w, o);
        for (int l = 0; l < LANES; l++) a[l] = (uint32_t)(base[l] + offset);
    }
}

static inline uint64_t get(const uint8_t *p, uint32_t bytes, bool is_signed) {
    uint64_t v = 0;
    memcpy(&v, p, bytes);
    if (!is_signed) return v;
    uint32_t up = 64 - 8 * bytes;
    return (uint64_t)((int64_t)(v << up) >> up);
}

static inline void put_lane(Warp *w, const Opd *o, int l, uint64_t v) {
    void *p = operand(w, o);
    if (o->cls == OPD_64)
        ((uint64_t *)p)[l] = v;
    else
        ((uint32_t *)p)[l] = o->cls == OPD_16 ? (uint16_t)v : (uint32_t)v;
}

static inline uint64_t get_lane(const Warp *w, const Opd *o, int l) {
    const void *p = operand(w, o);
    return o->cls == OPD_64 ? ((const uint64_t *)p)[l] : ((const uint32_t *)p)[l];
}

static inline const Opd *part(const Warp *w, const Opd *o, uint32_t k) {
    return o->cls == OPD_LIST ? element(w, o, (int)k) : o;
}

static inline Step load(Warp *w, const Ins *i, uint32_t m, Space space, uint32_t bytes) {
    uint64_t a[LANES];
    uint8_t *p[LANES];
    uint32_t count = COUNT(i->form->arg);
    addresses(w, &i->o[1], a);
    if (!memory_lanes(w, i, m, space, a, bytes * count, READ, p)) return STOP;
    for (uint32_t k = 0; k < count; k++) {
        const Opd *d = part(w, &i->o[0], k);
        for (uint32_t left = m; left; left &= left - 1) {
            int l = __builtin_ctz(left);
            put_lane(w, d, l, get(p[l] + k * bytes, bytes, SIGNED(i->form->arg)));
        }
    }
    return NEXT;
}

static inline Step store(Warp *w, const Ins *i, uint32_t m, Space space, uint32_t bytes) {
    uint64_t a[LANES];
    uint8_t *p[LANES];
    uint32_t count = COUNT(i->form->arg);
    addresses(w, &i->o[0], a);
    if (!memory_lanes(w, i, m, space, a, bytes * count, WRITE, p)) return STOP;
    for (uint32_t k = 0; k < count; k++) {
        const Opd *s = part(w, &i->o[1], k);
        for (uint32_t left = m; left; left &= left - 1) {
            int l = __builtin_ctz(left);
            uint64_t v = get_lane(w, s, l);
            memcpy(p[l] + k * bytes, &v, bytes);
        }
    }
    return NEXT;
}

#define BY_SIZE(f, space)                                                                          \
    switch (BYTES(i->form->arg)) {                                                                 \
    case 1: return f(w, i, m, space, 1);                                                           \
    case 2: return f(w, i, m, space, 2);                                                           \
    case 4: return f(w, i, m, space, 4);                                                           \
    default: return f(w, i, m, space, 8);                                                          \
    }

RUN(ld_global){BY_SIZE(load, SPACE_GLOBAL)} RUN(ld_shared){
    BY_SIZE(load, SPACE_SHARED)} RUN(ld_const){BY_SIZE(load, SPACE_CONST)} RUN(ld_local){
    BY_SIZE(load, SPACE_LOCAL)} RUN(ld_param){BY_SIZE(load, SPACE_PARAM)} RUN(ld_generic){
    BY_SIZE(load, SPACE_GENERIC)} RUN(st_global){BY_SIZE(store, SPACE_GLOBAL)} RUN(st_shared){
    BY_SIZE(store, SPACE_SHARED)} RUN(st_local){BY_SIZE(store, SPACE_LOCAL)} RUN(st_generic){
    BY_SIZE(store, SPACE_GENERIC)}

// cvta.SPACE: an address of the space (arg) to a generic one; cvta.to.SPACE: back.
RUN(cvta) {
    uint64_t *d = LANES_OF(u64, 0), window = (uint64_t)i->form->arg << WINDOW_SHIFT;
    const uint64_t *a = LANES_OF(u64, 1);
    EACH(m, d[l] = a[l] | window);
    return NEXT;
}

RUN(cvta_to) {
    uint64_t *d = LANES_OF(u64, 0), window = ((uint64_t)1 << WINDOW_SHIFT) - 1;
    const uint64_t *a = LANES_OF(u64, 1);
    EACH(m, d[l] = a[l] & window);
    return NEXT;
}
