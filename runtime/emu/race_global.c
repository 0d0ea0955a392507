// Accesses to global memory that nothing orders. Bytes that a launch may write have a cell each:
// who wrote it last, and who read it last. CTAs on other host threads look at the same cells: words
// are read and written whole, and what two of them do at the same time is a race in the program,
// too.
#include <stdlib.h>

#include "runtime/emu/meet_int.h"
#include "runtime/emu/memory_int.h"
#include "runtime/emu/race_int.h"

// An access. who: the warp in its cluster + 1; fields too small for what they hold have all bits
// set, and such an access is before all others.
typedef union Far {
    struct {
        uint64_t linear : 18, who : 9, lane : 6, tick : 16, ins : 14, atomic : 1;
    };
    uint64_t bits;
} Far;
_Static_assert(sizeof(Far) == 8, "a mark is a word");
#define MOST_LINEAR 0x3ffffu
#define MOST_WHO    0x1ffu
#define MOST_FAR    0xffffu
#define MOST_INS    0x3fffu

typedef struct FarCell {
    _Atomic uint64_t write, read;
} FarCell;

// Cells take 16 times the memory: larger regions go without.
enum { MOST_BYTES = 1 << 24 };

void race_global_new(Region *r) {
    r->cells = !r->input && r->bytes <= MOST_BYTES ? calloc(r->bytes, sizeof(FarCell)) : NULL;
}

void race_global_free(Region *r) {
    free(r->cells);
    r->cells = NULL;
}

static Far far_mark(const Warp *w, const Ins *i, int lane, bool atomic) {
    Mark m = order_mark(w, i, lane);
    Far f = {.bits = 0};
    uint64_t linear = w->cta->cluster->linear;
    f.linear = (linear < MOST_LINEAR ? linear : MOST_LINEAR) & MOST_LINEAR;
    f.who = (m.who < MOST_WHO ? m.who : MOST_WHO) & MOST_WHO;
    f.lane = m.lane;
    f.tick = (m.tick < MOST_FAR ? m.tick : MOST_FAR) & MOST_FAR;
    f.ins = (m.ins < MOST_INS ? m.ins : MOST_INS) & MOST_INS;
    f.atomic = atomic;
    return f;
}

static bool is_before(const Warp *w, int lane, Far f) {
    const Cluster *c = w->cta->cluster;
    if (f.linear == MOST_LINEAR || f.who == MOST_WHO || f.tick == MOST_FAR) return true;
    Mark m = order_mark_later(w, w->func->code, (uint32_t)f.who - 1,
                              f.lane < LANES ? (int)f.lane : -1, f.tick);
    if (f.linear == c->linear) return order_before(w, lane, m);
    return meet_before(c, f.linear, (uint32_t)f.who - 1, m);
}

static void name_of(const Warp *w, Far f, char *out, size_t room) {
    const Grid *g = w->cta->cluster->grid;
    uint32_t warps = g->n_warps, warp = (uint32_t)f.who - 1, ctas = w->cta->cluster->n_ctas;
    uint64_t cta = f.linear * ctas + warp / warps;
    uint32_t at = f.ins < MOST_INS ? w->func->code[f.ins].line : 0;
    char line[100];
    int n = f.lane < LANES
                ? snprintf(out, room, "thread %u", warp % warps * LANES + (uint32_t)f.lane)
                : snprintf(out, room, "warp %u", warp % warps);
    n += snprintf(out + n, room - (size_t)n, " of CTA %llu", (unsigned long long)cta);
    if (at)
        snprintf(out + n, room - (size_t)n, ", PTX line %u '%s',", at,
                 emu_line(w->func->module, at, line, sizeof line));
}

static Step tell(Warp *w, const Ins *i, int lane, const Region *r, uint64_t a, uint32_t bytes,
                 const char *verb, Far other, bool wrote) {
    char who[256];
    uint64_t v = 0;
    if (report_known(w->cta->cluster->grid->reports, REPORT_RACE, i->line)) return NEXT;
    memcpy(&v, (const void *)(uintptr_t)a, bytes < 8 ? bytes : 8);
    name_of(w, other, who, sizeof who);
    return report(
        w, i, lane, REPORT_RACE,
        "it %s %u bytes at byte %llu of %s (0x%llx there), which %s %s, and nothing orders "
        "the two",
        verb, bytes, (unsigned long long)(a - r->at), r->name, (unsigned long long)v, who,
        wrote ? "writes" : "reads");
}

static uint64_t get(const _Atomic uint64_t *p) {
    return atomic_load_explicit(p, memory_order_relaxed);
}

static void put(_Atomic uint64_t *p, uint64_t v) {
    atomic_store_explicit(p, v, memory_order_relaxed);
}

// One byte: false, if it races with *other.
static bool visit(const Warp *w, int lane, FarCell *c, Far mine, bool writes, Far *other,
                  bool *wrote) {
    Far write = {.bits = get(&c->write)}, read = {.bits = get(&c->read)};
    bool ok = true;
    if (write.bits && write.bits != mine.bits && !(write.atomic && mine.atomic) &&
        !is_before(w, lane, write)) {
        *other = write, *wrote = true;
        ok = false;
    }
    if (writes && read.bits && read.bits != mine.bits && !(read.atomic && mine.atomic) &&
        !is_before(w, lane, read)) {
        *other = read, *wrote = false;
        ok = false;
    }
    if (writes) put(&c->write, mine.bits);
    if (writes)
        put(&c->read, 0);
    else if (!read.bits || is_before(w, lane, read)) // else the earlier one is kept
        put(&c->read, mine.bits);
    return ok;
}

Step race_global(Warp *w, const Ins *i, int lane, const Region *r, uint64_t a, uint64_t bytes,
                 bool writes, bool atomic) {
    FarCell *cells = r->cells;
    if (!cells) return NEXT;
    Far mine = far_mark(w, i, lane, atomic), other = {.bits = 0};
    bool wrote = false, ok = true;
    for (uint64_t k = 0; k < bytes; k++)
        ok &= visit(w, lane, &cells[a - r->at + k], mine, writes, &other, &wrote);
    if (ok) return NEXT;
    return tell(w, i, lane, r, a, (uint32_t)bytes, writes ? "writes" : "reads", other, wrote);
}
