// See copy_int.h.
#include "runtime/emu/copy_int.h"

#include <stdlib.h>

#include "runtime/emu/memory_int.h"
#include "runtime/emu/race_int.h"
#include "runtime/emu/stats_int.h"
#include "runtime/emu/sync_int.h"

// ---- rows ----

static uint32_t rows(const Copy *c) {
    return c->map ? tmap_rows(c->map) : 1;
}

static uint32_t row_bytes(const Copy *c) {
    return c->map ? tmap_row_bytes(c->map) : c->bytes;
}

static BoxRow row_of(const Copy *c, uint32_t row) {
    if (c->map) return tmap_row(c->map, c->at, row);
    return (BoxRow){.global = c->global, .count = c->bytes};
}

// Where byte `at` of the box lies in shared memory; the 16 bytes from a multiple of 16 lie
// together.
static uint32_t place(const Copy *c, uint32_t at) {
    uint32_t a = c->shared + SHARED_BASE + at;
    return (c->map ? tmap_swizzle(a, c->map->swizzle) : a) - SHARED_BASE;
}

// The written flags of a row's global bytes, if there are any; *ok: they are in a region.
static uint8_t *flags(const Copy *c, const BoxRow *r, bool store, bool *ok) {
    const Grid *g = c->warp->cta->cluster->grid;
    const Region *to = memory_region(g, r->global, r->count);
    char where[512];
    *ok = to && !(store && to->input);
    if (*ok && store &&
        race_global(c->warp, c->i, c->lane, to, r->global, r->count,
                    FAR_WRITES | FAR_ASYNC | (c->add ? FAR_ATOMIC : 0)) == STOP)
        *ok = false;
    if (!to)
        report(c->warp, c->i, c->lane, REPORT_BOUNDS, "%s %u bytes at 0x%llx: %s",
               store ? "writes" : "reads", r->count, (unsigned long long)r->global,
               memory_where(g, r->global, where, sizeof where));
    else if (store && to->input)
        report(c->warp, c->i, c->lane, REPORT_READ_ONLY, "writes to %s", to->name);
    return *ok && to->written ? to->written + (r->global - to->at) : NULL;
}

// ---- loads ----

// By the mbarrier's agent, in the phase at hand.
static Step mark_loads(const Copy *c, Mbar *b) {
    Mark m = order_mark_later(c->warp, c->i, b->agent, -1, b->phase + 1);
    m.swizzle = c->map ? tmap_swizzle_code(c->map->swizzle) & 3 : 0;
    b->load = m.bits;
    for (uint32_t row = 0; row < rows(c); row++) {
        BoxRow r = row_of(c, row);
        const Region *from =
            r.count ? memory_region(c->warp->cta->cluster->grid, r.global, r.count) : NULL;
        if (from && race_global(c->warp, c->i, c->lane, from, r.global, r.count, FAR_ASYNC) == STOP)
            return STOP;
    }
    return race_shared(c->warp, c->i, c->lane, c->cta, c->shared, c->bytes, DEED_LOAD, m);
}

Step copy_load(Cluster *c, const Copy *copy, Mbar *b) {
    if (c->n_copies == c->room_copies) {
        uint32_t room = c->room_copies ? 2 * c->room_copies : 64;
        Copy *grown = realloc(c->copies, room * sizeof *grown);
        if (!grown) return report(copy->warp, copy->i, -1, REPORT_HOST, "out of memory for copies");
        c->copies = grown;
        c->room_copies = room;
    }
    if (mark_loads(copy, b) == STOP) return STOP;
    c->copies[c->n_copies] = *copy;
    c->copies[c->n_copies++].phase = b->phase;
    memset(copy->cta->written + copy->shared, ON_THE_WAY, copy->bytes);
    return NEXT;
}

static Step load_row(const Copy *c, uint32_t row) {
    uint8_t zero[16] = {0};
    uint32_t bytes = row_bytes(c);
    BoxRow r = row_of(c, row);
    bool ok = true;
    const uint8_t *written = r.count ? flags(c, &r, false, &ok) : NULL;
    if (!ok) return STOP;
    if (!memory_has(written, r.count) && report(c->warp, c->i, c->lane, REPORT_UNWRITTEN,
                                                "reads %u bytes at 0x%llx, which nothing "
                                                "wrote",
                                                r.count, (unsigned long long)r.global) == STOP)
        return STOP;
    if (c->warp->cta->cluster->hits && r.count && !c->again)
        stats_row(c->warp, r.global, r.count, READ);
    for (uint32_t x = 0; x < bytes; x += 16) {
        uint8_t *to = c->cta->shared + place(c, r.shared + x);
        uint32_t low = r.first > x ? r.first - x : 0;
        uint32_t high = r.first + r.count > x ? r.first + r.count - x : 0;
        if (high > 16) high = 16;
        memcpy(to, zero, 16);
        if (low < high)
            memcpy(to + low, (const uint8_t *)(uintptr_t)r.global + (x + low - r.first),
                   high - low);
    }
    return NEXT;
}

static Step do_load(Copy *c) {
    Mbar *b = sync_mbar_find(c->cta, c->bar);
    if (b && b->phase != c->phase)
        report(c->warp, c->i, c->lane, REPORT_EXPECT_TX,
               "%u bytes come to the mbarrier at shared address %u when the phase that they were "
               "asked for in has ended: it expected less",
               c->bytes, c->bar + SHARED_BASE);
    if (!c->cta->live)
        return report(c->warp, c->i, c->lane, REPORT_NO_WAIT,
                      "CTA %u ended, and nobody waited for these bytes", c->cta->id[0]);
    for (uint32_t row = 0; row < rows(c); row++)
        if (load_row(c, row) == STOP) return STOP;
    memset(c->cta->written + c->shared, 1, c->bytes);
    return sync_mbar_complete(c->warp, c->i, c->lane, c->cta, c->bar, c->bytes);
}

Step copy_some_load(Cluster *c) {
    uint32_t k = (uint32_t)(emu_random(&c->random) % c->n_copies);
    Copy copy = c->copies[k];
    c->copies[k] = c->copies[--c->n_copies];
    return do_load(&copy);
}

// ---- stores ----

// Reads of the boxes' parts inside of the tensor.
static Step mark_stores(const Copy *c, uint32_t group) {
    Mark m = order_mark_later(c->warp, c->i, order_bulk_agent(c->warp), c->lane, group + 1);
    uint32_t bytes = row_bytes(c);
    for (uint32_t row = 0; row < rows(c); row++) {
        BoxRow r = row_of(c, row);
        for (uint32_t x = 0; x < bytes; x += 16) {
            uint32_t low = r.first > x ? r.first - x : 0;
            uint32_t high = r.first + r.count > x ? r.first + r.count - x : 0;
            if (high > 16) high = 16;
            if (low < high &&
                race_shared(c->warp, c->i, c->lane, c->cta, place(c, r.shared + x) + low,
                            high - low, DEED_STORE, m) == STOP)
                return STOP;
        }
    }
    return NEXT;
}

Step copy_store(Warp *w, const Copy *copy) {
    Bulk *b = w->bulk;
    if (b->n == b->room) {
        uint32_t room = b->room ? 2 * b->room : 16;
        Copy *grown = realloc(b->copy, room * sizeof *grown);
        if (!grown) return report(w, copy->i, -1, REPORT_HOST, "out of memory for copies");
        b->copy = grown;
        b->room = room;
    }
    if (mark_stores(copy, b->groups[copy->lane]) == STOP) return STOP;
    b->copy[b->n] = *copy;
    b->copy[b->n++].group = b->groups[copy->lane];
    b->open[copy->lane]++;
    return NEXT;
}

void copy_commit(Warp *w, int lane) {
    w->bulk->open[lane] = 0;
    w->bulk->groups[lane]++;
}

static Step check_source(const Copy *c, uint32_t at, uint32_t bytes) {
    if (memory_spoilt(c->cta, at, bytes)) return race_report(c->cta->spoilt);
    if (memory_has(c->cta->written + at, bytes)) return NEXT;
    return memory_missing(c->warp, c->i, c->lane, c->cta, at, bytes, "stores");
}

// What lies inside of the tensor must have values: the rest of a box is dropped.
static Step read_source(Copy *c) {
    uint32_t bytes = row_bytes(c);
    if (c->read) return NEXT;
    if (!(c->read = malloc(c->bytes)))
        return report(c->warp, c->i, -1, REPORT_HOST, "out of memory for a copy");
    for (uint32_t row = 0; row < rows(c); row++) {
        BoxRow r = row_of(c, row);
        for (uint32_t x = 0; x < bytes; x += 16) {
            uint32_t at = place(c, r.shared + x);
            memcpy(c->read + r.shared + x, c->cta->shared + at, 16);
            uint32_t low = r.first > x ? r.first - x : 0;
            uint32_t high = r.first + r.count > x ? r.first + r.count - x : 0;
            if (high > 16) high = 16;
            if (low < high && check_source(c, at + low, high - low) == STOP) return STOP;
        }
    }
    return NEXT;
}

// Which type of element a map's is, as sums know them; false: none.
static bool sum_type(const Tmap *t, AtomicType *type) {
    bool is_float = t->code == kDLFloat, is_signed = t->code == kDLInt;
    if (t->code == kDLBfloat)
        *type = TYPE_BF16;
    else if (is_float)
        *type = t->unit == 2 ? TYPE_F16 : TYPE_F32;
    else
        *type =
            t->unit == 8 ? (is_signed ? TYPE_S64 : TYPE_U64) : (is_signed ? TYPE_S32 : TYPE_U32);
    return is_float ? t->unit == 2 || t->unit == 4
                    : t->unit == 4 || t->unit == 8 || t->code == kDLBfloat;
}

static Step add_row(const Copy *c, uint8_t *to, const uint8_t *from, uint32_t bytes) {
    AtomicType type = c->type;
    if (c->map && !sum_type(c->map, &type))
        return report(c->warp, c->i, c->lane, REPORT_TMAP, "sums of such elements are not known");
    uint32_t unit = atomic_bytes(type);
    for (uint32_t x = 0; x < bytes; x += unit)
        atomic_update(ATOMIC_ADD, type, to + x, atomic_get(from + x, unit), 0);
    return NEXT;
}

static Step write_target(Copy *c) {
    if (read_source(c) == STOP) return STOP;
    for (uint32_t row = 0; row < rows(c); row++) {
        BoxRow r = row_of(c, row);
        bool ok = true;
        if (!r.count) continue;
        uint8_t *written = flags(c, &r, true, &ok), *from = c->read + r.shared + r.first;
        if (!ok) return STOP;
        if (written) memset(written, 1, r.count);
        if (c->warp->cta->cluster->hits)
            stats_row(c->warp, r.global, r.count, c->add ? UPDATE : WRITE);
        if (!c->add)
            memcpy((uint8_t *)(uintptr_t)r.global, from, r.count);
        else if (add_row(c, (uint8_t *)(uintptr_t)r.global, from, r.count) == STOP)
            return STOP;
    }
    return NEXT;
}

static void drop(Bulk *b, uint32_t k) {
    free(b->copy[k].read);
    memmove(b->copy + k, b->copy + k + 1, sizeof *b->copy * (--b->n - k));
}

Step copy_wait(Warp *w, const Ins *i, int lane, uint32_t n, bool reads_only) {
    Bulk *b = w->bulk;
    uint32_t most =
        b->groups[lane] > n ? b->groups[lane] - n : 0; // groups before it are waited for
    (void)i;
    order_waited(w, order_bulk_agent(w), lane, most);
    for (uint32_t k = 0; k < b->n;) {
        Copy *c = &b->copy[k];
        if (c->lane != lane || c->group >= most) {
            k++;
            continue;
        }
        if ((reads_only ? read_source(c) : write_target(c)) == STOP) return STOP;
        if (reads_only)
            k++;
        else
            drop(b, k);
    }
    return NEXT;
}

// ---- the end ----

Step copy_finish(Cluster *c) {
    while (c->n_copies) {
        if (copy_some_load(c) == STOP) return STOP;
    }
    for (uint32_t k = 0; k < c->n_warps; k++)
        for (Bulk *b = c->warps[k].bulk; b && b->n; drop(b, 0)) {
            Copy *q = &b->copy[0];
            if (q->group == b->groups[q->lane])
                report(q->warp, q->i, q->lane, REPORT_BULK, "its group is never committed");
            else if (!q->read)
                report(q->warp, q->i, q->lane, REPORT_BULK,
                       "the CTA ended while it may still read shared memory");
            if (write_target(q) == STOP) return STOP;
        }
    return NEXT;
}

void copy_free(Cluster *c) {
    for (uint32_t k = 0; k < c->n_warps; k++) {
        Bulk *b = c->warps[k].bulk;
        while (b->n) drop(b, 0);
        memset(b->open, 0, sizeof b->open);
        memset(b->groups, 0, sizeof b->groups);
    }
    c->n_copies = 0;
}
