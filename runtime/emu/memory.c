// See memory_int.h.
#include "runtime/emu/memory_int.h"

#include <stdlib.h>

#include "runtime/emu/race_int.h"
#include "runtime/emu/stats_int.h"

static const char *const verbs[] = {"reads", "writes", "updates"};

// ---- global memory ----

const Region *memory_region(const Grid *g, uint64_t a, uint64_t bytes) {
    for (uint32_t k = 0; k < g->n_regions; k++) {
        const Region *r = &g->regions[k];
        if (a - r->at < r->bytes && bytes <= r->bytes - (a - r->at)) return r;
    }
    return NULL;
}

const char *memory_where(const Grid *g, uint64_t a, char *out, size_t room) {
    const Region *best = NULL;
    uint64_t distance = UINT64_MAX;
    for (uint32_t k = 0; k < g->n_regions; k++) {
        const Region *r = &g->regions[k];
        uint64_t d = a < r->at ? r->at - a : a - r->at < r->bytes ? 0 : a - r->at - r->bytes;
        if (d < distance) distance = d, best = r;
    }
    if (!best)
        snprintf(out, room, "and the launch has no memory");
    else if (a < best->at)
        snprintf(out, room, "%llu bytes before %s", (unsigned long long)(best->at - a), best->name);
    else if (a - best->at < best->bytes)
        snprintf(out, room, "at byte %llu of %s, which has %llu",
                 (unsigned long long)(a - best->at), best->name, (unsigned long long)best->bytes);
    else
        snprintf(out, room, "%llu bytes behind the end of %s (%llu bytes)",
                 (unsigned long long)distance, best->name, (unsigned long long)best->bytes);
    return out;
}

static bool unwritten(Warp *w, const Ins *i, int lane, uint64_t a, uint32_t bytes,
                      const char *what) {
    return report(w, i, lane, REPORT_UNWRITTEN, "reads %u bytes at 0x%llx%s, which nothing wrote",
                  bytes, (unsigned long long)a, what) != STOP;
}

static bool global_in(Warp *w, const Ins *i, int lane, const Region *r, uint64_t a, uint32_t bytes,
                      Access access) {
    char where[160];
    uint32_t how =
        (access != READ ? FAR_WRITES : 0) | (access == UPDATE || i->strong ? FAR_ATOMIC : 0);
    if (r->input) return true;
    if (race_global(w, i, lane, r, a, bytes, how) == STOP) return false;
    if (!r->written) return true;
    uint8_t *written = r->written + (a - r->at);
    if (access == WRITE) {
        memset(written, WRITTEN, bytes);
    } else if (!memory_has(written, bytes)) {
        snprintf(where, sizeof where, ", byte %llu of %s", (unsigned long long)(a - r->at),
                 r->name);
        memset(written, WRITTEN, bytes);
        return unwritten(w, i, lane, a, bytes, where);
    }
    return true;
}

static bool global_one(Warp *w, const Ins *i, int lane, uint64_t a, uint32_t bytes, Access access) {
    const Grid *g = w->cta->cluster->grid;
    const Region *r = memory_region(g, a, bytes);
    char where[512];
    if (!r) {
        report(w, i, lane, REPORT_BOUNDS, "%s %u bytes at 0x%llx: %s", verbs[access], bytes,
               (unsigned long long)a, memory_where(g, a, where, sizeof where));
        return false;
    }
    if (access != READ && r->input) {
        report(w, i, lane, REPORT_READ_ONLY, "%s %u bytes at byte %llu of %s", verbs[access], bytes,
               (unsigned long long)(a - r->at), r->name);
        return false;
    }
    return global_in(w, i, lane, r, a, bytes, access);
}

static bool misaligned(Warp *w, const Ins *i, int lane, uint64_t a, uint32_t align, Access access) {
    report(w, i, lane, REPORT_MISALIGNED, "%s at 0x%llx, which is no multiple of %u", verbs[access],
           (unsigned long long)a, align);
    return false;
}

// Lanes to be looked at: where all read the same, the first and the last, as one of them is not who
// wrote it.
static uint32_t telling(uint32_t m, const uint64_t *a, Access access) {
    uint32_t first = (uint32_t)__builtin_ctz(m), last = 31 - (uint32_t)__builtin_clz(m);
    if (access != READ) return m;
    for (uint32_t l = first; l <= last; l++)
        if (m >> l & 1 && a[l] != a[first]) return m;
    return 1u << first | 1u << last;
}

static bool global_lanes(Warp *w, const Ins *i, uint32_t m, const uint64_t *a, uint32_t bytes,
                         Access access, uint8_t **p) {
    Cluster *c = w->cta->cluster;
    const Region **hot = &c->hot[i - c->grid->f->code];
    uint64_t first = a[__builtin_ctz(m)];
    if (!*hot || first - (*hot)->at >= (*hot)->bytes) *hot = memory_region(c->grid, first, bytes);
    const Region *r = *hot;
    c->changes += access != READ;
    bool easy = r && r->bytes >= bytes && (access == READ || !r->input);
    uint32_t look = r && !r->input ? telling(m, a, access) : 0;
    for (uint32_t left = m; left; left &= left - 1) {
        int l = __builtin_ctz(left);
        if (a[l] & (bytes - 1)) return misaligned(w, i, l, a[l], bytes, access);
        p[l] = (uint8_t *)(uintptr_t)a[l];
        if (!easy || a[l] - r->at > r->bytes - bytes) {
            if (!global_one(w, i, l, a[l], bytes, access)) return false;
        } else if (look >> l & 1 && !global_in(w, i, l, r, a[l], bytes, access)) {
            return false;
        }
    }
    if (c->hits) stats_global(w, m, a, bytes, access);
    return true;
}

// ---- shared memory ----

Cta *memory_shared(Warp *w, const Ins *i, int lane, uint32_t a, uint32_t bytes, uint32_t *at) {
    Cluster *c = w->cta->cluster;
    uint32_t rank = a >> RANK_SHIFT, size = c->grid->shared_bytes;
    *at = (a & ((1u << RANK_SHIFT) - 1)) - SHARED_BASE;
    if (rank >= c->n_ctas || *at > size || bytes > size - *at) {
        report(w, i, lane, REPORT_BOUNDS, "%u bytes at shared address %u; the CTA's are %d to %u",
               bytes, a, SHARED_BASE, SHARED_BASE + size);
        return NULL;
    }
    return &c->ctas[rank];
}

Step memory_missing(Warp *w, const Ins *i, int lane, const Cta *c, uint32_t at, uint32_t bytes,
                    const char *verb) {
    bool comes = memchr(c->written + at, ON_THE_WAY, bytes);
    return report(w, i, lane, comes ? REPORT_NO_WAIT : REPORT_UNWRITTEN,
                  "it %s %u bytes at shared address %u, which %s", verb, bytes, at + SHARED_BASE,
                  comes ? "an asynchronous load has yet to bring" : "nothing wrote");
}

static Deed deed_of(const Ins *i, Access access) {
    if (i->together) return access == READ ? DEED_MATRIX_READ : DEED_MATRIX_WRITE;
    if (access == UPDATE) return DEED_UPDATE;
    if (access == READ) return i->strong ? DEED_SYNC_READ : DEED_READ;
    return i->strong ? DEED_SYNC_WRITE : DEED_WRITE;
}

static uint8_t *shared_one(Warp *w, const Ins *i, int lane, uint64_t a, uint32_t bytes,
                           Access access) {
    uint32_t at;
    Cta *c = memory_shared(w, i, lane, a > UINT32_MAX ? UINT32_MAX : (uint32_t)a, bytes, &at);
    if (!c) return NULL;
    if (c != w->cta) {
        report(w, i, lane, REPORT_BOUNDS, "shared address %llu is of CTA %u of the cluster",
               (unsigned long long)a, c->rank);
        return NULL;
    }
    if (race_shared(w, i, lane, c, at, bytes, deed_of(i, access), order_mark(w, i, lane)) == STOP)
        return NULL;
    bool spoilt = lane >= 0 && w->spoilt >> lane & 1 && access != READ;
    if (spoilt || access == WRITE) {
        memset(c->written + at, spoilt ? SPOILT : WRITTEN, bytes);
    } else if (memory_spoilt(c, at, bytes)) {
        if (lane >= 0) w->loaded |= 1u << lane;
    } else if (!memory_has(c->written + at, bytes)) {
        if (memory_missing(w, i, lane, c, at, bytes, verbs[access]) == STOP) return NULL;
        memset(c->written + at, WRITTEN, bytes);
    }
    return c->shared + at;
}

static bool shared_lanes(Warp *w, const Ins *i, uint32_t m, const uint64_t *a, uint32_t bytes,
                         Access access, uint8_t **p) {
    uint32_t look = telling(m, a, access);
    for (uint32_t left = m; left; left &= left - 1) {
        int l = __builtin_ctz(left);
        if (a[l] & (bytes - 1)) return misaligned(w, i, l, a[l], bytes, access);
        if (!(look >> l & 1)) {
            p[l] = p[__builtin_ctz(m)];
            w->loaded |= (w->loaded >> __builtin_ctz(m) & 1) << l;
        } else if (!(p[l] = shared_one(w, i, l, a[l], bytes, access)))
            return false;
    }
    if (w->cta->cluster->hits) stats_shared(w, i, m, a, bytes);
    return true;
}

// ---- the other spaces ----

// Parameters, constants, and a lane's local memory: read-only bytes of a known number, but for the
// latter.
static uint8_t *small_one(Warp *w, const Ins *i, int lane, Space space, uint64_t a, uint32_t bytes,
                          Access access) {
    const Func *f = w->func;
    const Grid *g = w->cta->cluster->grid;
    uint64_t size = space == SPACE_PARAM   ? f->param_bytes
                    : space == SPACE_CONST ? f->module->constant_bytes
                                           : f->local_bytes;
    uint8_t *base = space == SPACE_PARAM   ? g->params
                    : space == SPACE_CONST ? f->module->constants
                                           : w->local + (uint64_t)(uint32_t)lane * f->local_bytes;
    if (a > size || bytes > size - a || (access != READ && space != SPACE_LOCAL)) {
        report(w, i, lane, REPORT_BOUNDS, "%s %u bytes at byte %lld of %llu of %s memory",
               verbs[access], bytes, (long long)a, (unsigned long long)size, space_names[space]);
        return NULL;
    }
    return base + a;
}

uint8_t *memory_at(Warp *w, const Ins *i, int lane, Space space, uint64_t a, uint32_t bytes,
                   uint32_t align, Access access) {
    if (space == SPACE_GENERIC) {
        space = (Space)(a >> WINDOW_SHIFT);
        if (space > SPACE_LOCAL) space = SPACE_GLOBAL; // out of bounds there
        if (space != SPACE_GLOBAL) a &= ((uint64_t)1 << WINDOW_SHIFT) - 1;
    }
    if (a & (align - 1)) return misaligned(w, i, lane, a, align, access), NULL;
    if (space == SPACE_SHARED) return shared_one(w, i, lane, a, bytes, access);
    if (space != SPACE_GLOBAL) return small_one(w, i, lane, space, a, bytes, access);
    if (!global_one(w, i, lane, a, bytes, access)) return NULL;
    if (w->cta->cluster->hits) stats_row(w, a, bytes, access);
    return (uint8_t *)(uintptr_t)a;
}

bool memory_lanes(Warp *w, const Ins *i, uint32_t m, Space space, const uint64_t *a, uint32_t bytes,
                  Access access, uint8_t **p) {
    if (space == SPACE_GLOBAL) return global_lanes(w, i, m, a, bytes, access, p);
    if (space == SPACE_SHARED) return shared_lanes(w, i, m, a, bytes, access, p);
    for (uint32_t left = m; left; left &= left - 1) {
        int l = __builtin_ctz(left);
        if (!(p[l] = memory_at(w, i, l, space, a[l], bytes, bytes, access))) return false;
    }
    return true;
}
