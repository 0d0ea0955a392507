// cp.async of single threads, and what only makes copies faster: prefetches, policies of the
// caches.
#include "runtime/emu/async_int.h"
#include "runtime/emu/memory_int.h"
#include "runtime/emu/ops_int.h"
#include "runtime/emu/stats_int.h"
#include "runtime/emu/tmap_int.h"

// The arg of a row: whether it is .cg; what the operand behind the size is.
enum { COPY_CG = 16, COPY_ALL = 0, COPY_GIVEN = 1, COPY_IGNORE = 2 };

// How many bytes a lane reads, of those that it writes.
static Step given(Warp *w, const Ins *i, int l, uint32_t size, uint32_t *bytes) {
    uint32_t what = i->form->arg & 15;
    *bytes = size;
    if (what == COPY_IGNORE && w->pred[i->o[3].at] >> l & 1) *bytes = 0;
    if (what == COPY_GIVEN) *bytes = LANES_OF(u32, 3)[l];
    if (*bytes <= size) return NEXT;
    return report(w, i, l, REPORT_BOUNDS, "it reads %u bytes for %u", *bytes, size);
}

// Where the lanes' bytes come from. Lanes that read nothing need no valid address.
static Step sources(Warp *w, const Ins *i, uint32_t m, uint32_t size, uint32_t *bytes,
                    uint8_t **from) {
    uint64_t a[LANES] = {0};
    uint32_t whole = 0;
    EACH_LANE(m) {
        int l = LANE;
        if (given(w, i, l, size, &bytes[l]) == STOP) return STOP;
        a[l] = address_in(w, &i->o[1], l);
        if (bytes[l] == size)
            whole |= 1u << l;
        else if (bytes[l] &&
                 !(from[l] = memory_at(w, i, l, SPACE_GLOBAL, a[l], bytes[l], size, READ)))
            return STOP;
    }
    if (whole && !memory_lanes(w, i, whole, SPACE_GLOBAL, a, size, READ, from)) return STOP;
    return NEXT;
}

static Step target(Warp *w, const Ins *i, int l, AsyncCopy *c) {
    uint32_t a = shared_address(w, &i->o[0], l);
    if (a % c->bytes)
        return report(w, i, l, REPORT_MISALIGNED, "copies to shared address %u, no multiple of %u",
                      a, c->bytes);
    c->cta = memory_shared(w, i, l, a, c->bytes, &c->at);
    if (!c->cta) return STOP;
    if (c->cta == w->cta) return NEXT;
    return report(w, i, l, REPORT_BOUNDS, "shared address %u is of CTA %u of the cluster", a,
                  c->cta->rank);
}

// [to], [from], size (, bytes to read | p: read nothing) (, cache policy)
RUN(cp_async) {
    uint32_t size = (uint32_t)i->o[2].offset, bytes[LANES] = {0};
    uint8_t *from[LANES] = {0};
    bool cg = i->form->arg & COPY_CG;
    if (size != 16 && (cg || (size != 4 && size != 8)))
        return report(w, i, -1, REPORT_MISALIGNED, "a copy of %u bytes; %s", size,
                      cg ? "16" : "4, 8 or 16");
    if (sources(w, i, m, size, bytes, from) == STOP) return STOP;
    uint64_t to[LANES] = {0};
    EACH_LANE(m) {
        int l = LANE;
        AsyncCopy c = {.i = i, .from = from[l], .bytes = size, .given = bytes[l], .lane = l};
        if (target(w, i, l, &c) == STOP || async_copy(w, &c) == STOP) return STOP;
        to[l] = c.at + SHARED_BASE;
    }
    if (w->cta->cluster->hits) stats_shared(w, i, m, to, size);
    return NEXT;
}

RUN(async_commit) {
    (void)i;
    async_commit(w, m);
    return NEXT;
}

// arg: 1 all of them, in a group or not
RUN(async_wait) {
    if (i->form->arg) async_commit(w, m);
    return async_wait(w, i, m, i->form->arg ? 0 : (uint32_t)i->o[0].offset);
}

// arg: 1 for .noinc, whose arrival the mbarrier's count knows
RUN(async_track) {
    uint32_t a[LANES] = {0};
    EACH_LANE(m) a[LANE] = shared_address(w, &i->o[0], LANE);
    return async_track(w, i, m, a, i->form->arg);
}

// ---- caches ----

// A policy is a word that only the hardware knows the bits of. arg: its upper half
RUN(createpolicy) {
    uint64_t *d = LANES_OF(u64, 0);
    EACH(m, d[l] = (uint64_t)i->form->arg << 32);
    return NEXT;
}

// What changes nothing here: hints, which take any address, and waits for what is done.
RUN(hint) {
    (void)w, (void)i, (void)m;
    return NEXT;
}

// [a], bytes (, cache policy)
RUN(prefetch_row) {
    EACH_LANE(m) {
        uint64_t a = address_in(w, &i->o[0], LANE);
        uint32_t bytes = LANES_OF(u32, 1)[LANE];
        if (bytes % 16 || a % 16)
            return report(w, i, LANE, REPORT_MISALIGNED,
                          "%u bytes at 0x%llx, both must be multiples of 16", bytes,
                          (unsigned long long)a);
    }
    return NEXT;
}

// [map, {coordinates}] (, cache policy)
RUN(prefetch_box) {
    EACH_LANE(m) {
        const Tmap *t = tmap_at(w, i, LANE, address_in(w, &i->o[0], LANE));
        if (!t) return STOP;
        if (t->rank != i->o[1].offset || t->rank != i->number)
            return report(w, i, LANE, REPORT_TMAP, "%d coordinates for a tensor map of rank %u",
                          i->o[1].offset, t->rank);
    }
    return NEXT;
}
