// Accesses to global memory that nothing orders. A cell says who wrote last, and who read: words of
// 4 bytes have one each, and their bytes, once a part of the word was accessed. CTAs on other host
// threads look at the same cells: each half of one is read and written whole, and what two of them
// do at the same time is a race in the program, too.
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

#define SPLIT UINT64_MAX // a word's `write`: its bytes have cells

// Cells take up to 20 times the memory: larger regions go without.
enum { MOST_BYTES = 1 << 24, WORD = 4 };

// Those of words, then those of bytes, from the word that the region begins in.
static size_t words_of(const Region *r) {
    return (r->at % WORD + r->bytes + WORD - 1) / WORD;
}

void race_global_new(Region *r) {
    bool small = !r->input && r->bytes <= MOST_BYTES;
    r->cells = small ? calloc(words_of(r) * (1 + WORD), sizeof(FarCell)) : NULL;
}

void race_global_free(Region *r) {
    free(r->cells);
    r->cells = NULL;
}

#define CLAMP(x, most) ((x) < (most) ? (x) : (most))
static Far far_mark(const Warp *w, const Ins *i, int lane, bool atomic) {
    Far f = {.bits = 0};
    const Cluster *c = w->cta->cluster;
    uint64_t ins = (uint64_t)(i - w->func->code), who = (uint64_t)(w - c->warps) + 1;
    f.linear = CLAMP(c->linear, MOST_LINEAR) & MOST_LINEAR;
    f.who = CLAMP(who, MOST_WHO) & MOST_WHO;
    f.lane = lane < 0 ? LANE_ALL : lane & 31;
    f.tick = CLAMP(w->tick, MOST_FAR) & MOST_FAR;
    f.ins = CLAMP(ins, MOST_INS) & MOST_INS;
    f.atomic = atomic;
    return f;
}

static bool is_before(const Warp *w, int lane, Far f) {
    const Cluster *c = w->cta->cluster;
    uint32_t agent = (uint32_t)f.who - 1;
    if (f.linear == MOST_LINEAR || f.who == MOST_WHO || f.tick == MOST_FAR) return true;
    if (f.linear == c->linear) {
        if (f.tick <= (&c->warps[agent] == w ? w->synced : w->seen[agent].all)) return true;
        if (&c->warps[agent] == w && (int)f.lane == lane) return true;
    }
    Mark m = {.bits = 0};
    m.who = f.who, m.lane = f.lane, m.tick = f.tick;
    return f.linear == c->linear ? order_before(w, lane, m) : meet_before(c, f.linear, agent, m);
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

static uint64_t get(const _Atomic uint64_t *p) {
    return atomic_load_explicit(p, memory_order_relaxed);
}

static void put(_Atomic uint64_t *p, uint64_t v) {
    atomic_store_explicit(p, v, memory_order_relaxed);
}

// An access under judgement, and what it races with.
typedef struct FarAct {
    Warp *w;
    int lane;
    Far mine, other;
    bool writes, constant, async;
    bool wrote, unfenced; // what it races with is a write; there is an order, but no fence
} FarAct;

static bool races(const FarAct *a, Far m) {
    if (!m.bits || m.bits == a->mine.bits || (m.atomic && a->mine.atomic)) return false;
    return a->constant || !is_before(a->w, a->lane, m);
}

// Written by a thread of the cluster, and read by a copy.
static bool lacks_fence(const FarAct *a, Far m) {
    const Cluster *c = a->w->cta->cluster;
    if (!a->async || a->writes || !m.bits || m.linear != c->linear || m.tick == MOST_FAR)
        return false;
    Mark mark = {.bits = 0};
    mark.who = m.who, mark.lane = m.lane, mark.tick = m.tick;
    return m.who != MOST_WHO && !order_fenced(a->w, mark, PROXY_GLOBAL);
}

// Of two readers in no order the earlier one is kept; of loads with .nc, which are many, the last.
// False: it is a word that another host thread has just split.
static bool visit(FarAct *a, FarCell *c) {
    Far write = {.bits = get(&c->write)}, read = {.bits = get(&c->read)};
    if (write.bits == SPLIT) return false;
    if (races(a, write))
        a->other = write, a->wrote = true;
    else if (lacks_fence(a, write))
        a->other = write, a->wrote = a->unfenced = true;
    if (!a->writes) {
        if (a->constant || !read.bits || is_before(a->w, a->lane, read))
            put(&c->read, a->mine.bits);
        return true;
    }
    if (races(a, read)) a->other = read, a->wrote = false;
    put(&c->write, a->mine.bits);
    put(&c->read, 0);
    return true;
}

static void visit_bytes(FarAct *a, FarCell *word, FarCell *bytes, uint32_t from, uint32_t to) {
    uint64_t write = get(&word->write), read = get(&word->read);
    for (uint32_t k = 0; k < WORD && write != SPLIT; k++) {
        put(&bytes[k].write, write);
        put(&bytes[k].read, read);
    }
    put(&word->write, SPLIT);
    for (uint32_t k = from; k < to; k++) visit(a, &bytes[k]);
    if (!a->writes || to - from < WORD) return;
    put(&word->read, 0);
    put(&word->write, a->mine.bits);
}

static Step tell(const FarAct *act, const Ins *i, const Region *r, uint64_t a, uint32_t bytes) {
    const char *why = act->unfenced   ? "there is no fence.proxy.async between the two"
                      : act->constant ? "a load with .nc is of what no thread of the launch writes"
                                      : "nothing orders the two";
    ReportKind kind = act->unfenced ? REPORT_PROXY : REPORT_RACE;
    char who[256];
    uint64_t v = 0;
    if (report_known(act->w->cta->cluster->grid->reports, kind, i->line)) return NEXT;
    memcpy(&v, (const void *)(uintptr_t)a, bytes < 8 ? bytes : 8);
    name_of(act->w, act->other, who, sizeof who);
    return report(act->w, i, act->lane, kind,
                  "it %s %u bytes at byte %llu of %s (0x%llx there), which %s %s, and %s",
                  act->writes ? "writes" : "reads", bytes, (unsigned long long)(a - r->at), r->name,
                  (unsigned long long)v, who, act->wrote ? "writes" : "reads", why);
}

Step race_global(Warp *w, const Ins *i, int lane, const Region *r, uint64_t a, uint64_t bytes,
                 uint32_t how) {
    if (w->cta->cluster->grid->early && !w->met && !r->input)
        return report(w, i, lane, REPORT_EARLY, "it %s %llu bytes at byte %llu of %s",
                      how & FAR_WRITES ? "writes" : "reads", (unsigned long long)bytes,
                      (unsigned long long)(a - r->at), r->name);
    if (!r->cells) return NEXT;
    FarAct act = {.w = w,
                  .lane = lane,
                  .mine = far_mark(w, i, lane, how & FAR_ATOMIC),
                  .writes = how & FAR_WRITES,
                  .constant = i->constant,
                  .async = how & FAR_ASYNC};
    FarCell *all_bytes = r->cells + words_of(r);
    uint64_t at = a - r->at + r->at % WORD, end = at + bytes;
    while (at < end) {
        uint32_t from = at % WORD, to = end - at < WORD - from ? from + (uint32_t)(end - at) : WORD;
        FarCell *word = &r->cells[at / WORD];
        if (to - from < WORD || !visit(&act, word))
            visit_bytes(&act, word, &all_bytes[at - from], from, to);
        at += to - from;
    }
    if (!act.other.bits) return NEXT;
    return tell(&act, i, r, a, (uint32_t)bytes);
}
