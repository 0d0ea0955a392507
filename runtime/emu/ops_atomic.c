// atom and red, and loads and stores that other CTAs may race with.
#include "runtime/emu/atomic_int.h"
#include "runtime/emu/meet_int.h"
#include "runtime/emu/memory_int.h"
#include "runtime/emu/ops_int.h"

static void addresses(const Warp *w, const Opd *o, uint64_t *a) {
    for (int l = 0; l < LANES; l++) a[l] = address_in(w, o, l);
}

static uint64_t lane(const Warp *w, const Opd *o, int l) {
    const void *p = operand(w, o);
    return o->cls == OPD_64 ? ((const uint64_t *)p)[l] : ((const uint32_t *)p)[l];
}

static void keep(Warp *w, const Opd *o, int l, uint64_t v) {
    void *p = operand(w, o);
    if (o->cls == OPD_64)
        ((uint64_t *)p)[l] = v;
    else if (o->cls)
        ((uint32_t *)p)[l] = (uint32_t)v;
}

#define SPACE(arg) ((Space)((arg) >> 8 & 15))
#define OP(arg)    ((AtomicOp)((arg) & 15))
#define TYPE(arg)  ((AtomicType)((arg) >> 4 & 15))

// d, [a], b (, c); red: without d. Lanes one after the other.
static Step update(Warp *w, const Ins *i, uint32_t m, const Opd *d, int at) {
    uint64_t a[LANES];
    uint8_t *p[LANES];
    uint32_t arg = i->form->arg;
    addresses(w, &i->o[at], a);
    if (!memory_lanes(w, i, m, SPACE(arg), a, atomic_bytes(TYPE(arg)), UPDATE, p)) return STOP;
    for (uint32_t left = m; left; left &= left - 1) {
        int l = __builtin_ctz(left);
        uint64_t b = lane(w, &i->o[at + 1], l), c = i->n > at + 2 ? lane(w, &i->o[at + 2], l) : 0;
        meet_release(w, 1u << l, SPACE(arg) == SPACE_SHARED, a[l], i->releases);
        uint64_t before = atomic_update(OP(arg), TYPE(arg), p[l], b, c);
        if (d) keep(w, d, l, before);
        if (d) meet_see(w, SPACE(arg) == SPACE_SHARED, a[l]);
    }
    return NEXT;
}

RUN(atom) {
    return update(w, i, m, &i->o[0], 1);
}

RUN(red) {
    return update(w, i, m, NULL, 0);
}

// Loads that wait for another CTA are read again and again: others run in between. arg: bytes.
RUN(ld_sync) {
    uint64_t a[LANES];
    uint8_t *p[LANES];
    uint32_t bytes = i->form->arg & 15;
    Space space = SPACE(i->form->arg);
    addresses(w, &i->o[1], a);
    if (!memory_lanes(w, i, m, space, a, bytes, READ, p)) return STOP;
    for (uint32_t left = m; left; left &= left - 1) {
        int l = __builtin_ctz(left);
        keep(w, &i->o[0], l, atomic_get(p[l], bytes));
        meet_see(w, space == SPACE_SHARED, a[l]);
    }
    if (space != SPACE_SHARED) w->cta->cluster->polls++;
    return YIELD;
}

RUN(st_sync) {
    uint64_t a[LANES];
    uint8_t *p[LANES];
    uint32_t bytes = i->form->arg & 15;
    addresses(w, &i->o[0], a);
    if (!memory_lanes(w, i, m, SPACE(i->form->arg), a, bytes, WRITE, p)) return STOP;
    for (uint32_t left = m; left; left &= left - 1) {
        int l = __builtin_ctz(left);
        meet_release(w, 1u << l, SPACE(i->form->arg) == SPACE_SHARED, a[l], i->releases);
        atomic_set(p[l], bytes, lane(w, &i->o[1], l));
    }
    return NEXT;
}
