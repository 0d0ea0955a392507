// See race_int.h.
//
// Bytes have a cell each: who wrote it last, and who has read it since. 16 bytes that were always
// accessed as one share a cell; the first access to a part of them splits it. A reader that is
// before a new one is forgotten, as who is behind the new one is behind it, too; of more readers
// than a cell has room for, some are forgotten, and what they would tell with them.
#include "runtime/emu/race_int.h"

#include "runtime/emu/mma_int.h"

#include <stdlib.h>

enum { READERS = 7, UNIT = 16, FINE = -1 };
typedef struct Cell {
    Mark write, read[READERS];
} Cell;

typedef struct Shadow { // of a CTA
    Cell *unit, *byte;  // by 16 bytes; by byte, of those that are split
    uint8_t *split;     // by 16 bytes
} Shadow;

static const struct {
    const char *verb;
    bool writes, async, atomic;
} deeds[] = {
#define DEED(name, verb, writes, async, atomic) {verb, writes, async, atomic},
#include "runtime/emu/deed.def"
#undef DEED
};

static uint32_t units(const Grid *g) {
    return (g->shared_bytes + UNIT - 1) / UNIT;
}

bool race_new(Cluster *c) {
    uint32_t n = units(c->grid);
    if (!(c->shadows = calloc(c->n_ctas, sizeof *c->shadows))) return false;
    for (uint32_t k = 0; k < c->n_ctas; k++) {
        Shadow *s = c->ctas[k].shadow = &c->shadows[k];
        s->unit = calloc(n + 1, sizeof *s->unit);
        s->byte = calloc((size_t)n * UNIT + 1, sizeof *s->byte);
        s->split = calloc(n + 1, 1);
        if (!s->unit || !s->byte || !s->split) return false;
    }
    return true;
}

void race_free(Cluster *c) {
    for (uint32_t k = 0; c->shadows && k < c->n_ctas; k++) {
        free(c->shadows[k].unit);
        free(c->shadows[k].byte);
        free(c->shadows[k].split);
    }
    free(c->shadows);
}

void race_start(Cluster *c) {
    uint32_t n = units(c->grid);
    for (uint32_t k = 0; k < c->n_ctas; k++) {
        memset(c->shadows[k].unit, 0, n * sizeof(Cell));
        memset(c->shadows[k].split, 0, n);
    }
}

// ---- judgement ----

// An access.
typedef struct Act {
    Warp *w;
    const Ins *i;
    int lane;
    Cta *cta;
    uint32_t at, bytes;
    Deed deed;
    Mark mark;
    Fault *fault; // where to keep what is wrong; NULL: it is reported
} Act;

static bool is_matrix(Deed deed) {
    return deed == DEED_MATRIX_READ || deed == DEED_MATRIX_WRITE;
}

static bool is_before(const Act *a, Mark m) {
    if (is_matrix(a->deed) && m.who == a->mark.who && m.lane == LANE_ALL) return true;
    return order_before(
        a->w, is_matrix(a->deed) && mark_kind(a->w->cta->cluster, m) != AGENT_WARP ? -1 : a->lane,
        m);
}

// What is wrong with it behind a write of its bytes; FINE: nothing.
static int behind_write(const Act *a, Mark m) {
    const Cluster *c = a->w->cta->cluster;
    bool writes = deeds[a->deed].writes;
    if (!m.bits || m.bits == a->mark.bits) return FINE;
    if (m.who == MARK_MBARRIER) return REPORT_MBARRIER;
    bool before = is_before(a, m);
    if (mark_kind(c, m) == AGENT_LOAD) {
        if (!before) return writes ? REPORT_STAGE : REPORT_NO_WAIT;
        return a->deed == DEED_MMA && m.swizzle != a->mark.swizzle ? REPORT_DESCRIPTOR : FINE;
    }
    if (!before && mark_kind(c, m) == AGENT_ASYNC && !order_copied(c, m))
        return writes ? REPORT_STAGE : REPORT_NO_WAIT;
    if (!before) return m.atomic && deeds[a->deed].atomic ? FINE : REPORT_RACE;
    return deeds[a->deed].async && !order_fenced(a->w, m, PROXY_SHARED) ? REPORT_PROXY : FINE;
}

// The same of a write behind a read. Seen on an H200: a TMA load that waited for the mbarrier on
// which readers arrived, without a fence, overwrote what their ldmatrix had yet to read.
static int behind_read(const Act *a, Mark m) {
    const Cluster *c = a->w->cta->cluster;
    if (is_before(a, m)) {
        bool apart = deeds[a->deed].async && mark_kind(c, m) == AGENT_WARP;
        bool asks = apart && !c->grid->lax;
        return asks && !order_fenced(a->w, m, PROXY_SHARED) ? REPORT_PROXY : FINE;
    }
    if (deeds[a->deed].async || a->deed == DEED_COPY || mark_kind(c, m) != AGENT_WARP)
        return REPORT_STAGE;
    return m.atomic && deeds[a->deed].atomic ? FINE : REPORT_RACE;
}

static const char *whom(const Warp *w, Mark m, char *out, size_t room) {
    static const char *const others[] = {"", "", "a wgmma", "a bulk store", "an asynchronous load"};
    const Cluster *c = w->cta->cluster;
    AgentKind kind = mark_kind(c, m);
    if (kind > AGENT_ASYNC) return others[kind];
    const Warp *by = &c->warps[(m.who - 1) % c->n_warps];
    bool several = m.lane >= LANES;
    int n =
        snprintf(out, room, "%s%s %u", kind == AGENT_ASYNC ? "a cp.async of " : "",
                 several ? "warp" : "thread", several ? by->id : by->id * LANES + (uint32_t)m.lane);
    if (by->cta != w->cta)
        snprintf(out + n, room - (size_t)n, " of CTA %u of the cluster", by->cta->rank);
    return out;
}

static const char *reason(ReportKind kind) {
    switch (kind) {
    case REPORT_PROXY: return "and there is no fence.proxy.async between the two";
    case REPORT_NO_WAIT: return "and nothing on the way here waited for that";
    case REPORT_STAGE: return "and this does not wait until that is done";
    case REPORT_DESCRIPTOR: return "with another swizzle";
    default: return "and nothing orders the two";
    }
}

static Step report_missing(const Fault *f) {
    return report(f->w, f->i, f->lane, f->kind, "it %s %u bytes at shared address %u, which %s",
                  deeds[f->deed].verb, f->bytes, f->at + SHARED_BASE,
                  f->kind == REPORT_NO_WAIT ? "an asynchronous load has yet to bring"
                                            : "nothing wrote");
}

Step race_report(const Fault *f) {
    const Func *func = f->w->func;
    char name[64], line[100], value[32] = "";
    uint64_t v = 0;
    Mark m = f->mark;
    if (report_known(f->w->cta->cluster->grid->reports, f->kind, f->i->line)) return NEXT;
    if (!m.bits) return report_missing(f);
    memcpy(&v, f->cta->shared + f->at, f->bytes < 8 ? f->bytes : 8);
    if (f->bytes <= 8)
        snprintf(value, sizeof value, " (0x%0*llx)", (int)f->bytes * 2, (unsigned long long)v);
    if (m.who == MARK_MBARRIER)
        return report(f->w, f->i, f->lane, f->kind,
                      "it %s %u bytes at shared address %u, an mbarrier", deeds[f->deed].verb,
                      f->bytes, f->at + SHARED_BASE);
    uint32_t by = func->code[m.ins].line;
    return report(f->w, f->i, f->lane, f->kind,
                  "it %s %u bytes at shared address %u%s, which %s %s at PTX line %u '%s', %s",
                  deeds[f->deed].verb, f->bytes, f->at + SHARED_BASE, value,
                  whom(f->w, m, name, sizeof name), f->wrote ? "writes" : "reads", by,
                  emu_line(func->module, by, line, sizeof line), reason(f->kind));
}

// What is wrong with reads that may be of no consequence is kept until that shows.
static Step tell(const Act *a, ReportKind kind, uint32_t at, uint32_t bytes, Mark m, bool wrote) {
    Fault f = {a->w, a->i, a->lane, kind, a->deed, a->cta, at, bytes, m, wrote};
    if (m.idle)
        mma_spoil_pending(a->w->cta->cluster, m, &f);
    else if (!a->fault)
        return race_report(&f);
    else if (!a->fault->i)
        *a->fault = f;
    return NEXT;
}

// ---- cells ----

static void add_reader(const Act *a, Cell *c) {
    Mark mine = a->mark;
    uint32_t n = 0;
    for (uint32_t k = 0; k < READERS && c->read[k].bits; k++) {
        Mark r = c->read[k];
        if (is_before(a, r)) continue;
        if (r.who == mine.who && r.lane == mine.lane) {
            if (mine.idle && !r.idle) mine = r; // which tells more
            continue;
        }
        if (r.who == mine.who && mark_kind(a->w->cta->cluster, r) == AGENT_WARP)
            mine.lane = LANE_SEVERAL; // of a warp, at about the same time
        else
            c->read[n++] = r;
    }
    if (n == READERS) n--;
    c->read[n] = mine;
    for (n++; n < READERS && c->read[n].bits; n++) c->read[n].bits = 0;
}

static Step visit(const Act *a, Cell *c, uint32_t at, uint32_t bytes) {
    bool writes = deeds[a->deed].writes;
    int kind = behind_write(a, c->write);
    if (kind != FINE && tell(a, (ReportKind)kind, at, bytes, c->write, true) == STOP) return STOP;
    if (!writes) {
        if (c->read[0].bits != a->mark.bits) add_reader(a, c);
        return NEXT;
    }
    for (uint32_t k = 0; k < READERS && c->read[k].bits; k++) {
        kind = behind_read(a, c->read[k]);
        if (kind != FINE && tell(a, (ReportKind)kind, at, bytes, c->read[k], false) == STOP)
            return STOP;
    }
    if (c->write.bits != MARK_MBARRIER) c->write = a->mark;
    c->read[0].bits = 0;
    return NEXT;
}

static void split(Shadow *s, uint32_t unit) {
    for (uint32_t k = 0; k < UNIT; k++) s->byte[unit * UNIT + k] = s->unit[unit];
    s->split[unit] = 1;
}

static Step visit_part(const Act *a, Shadow *s, uint32_t from, uint32_t to) {
    uint32_t unit = from / UNIT;
    if (!s->split[unit]) split(s, unit);
    for (uint32_t k = from; k < to; k++)
        if (visit(a, &s->byte[k], a->bytes > 8 ? k : a->at, a->bytes > 8 ? 1 : a->bytes) == STOP)
            return STOP;
    return NEXT;
}

static Step visit_unit(const Act *a, Shadow *s, uint32_t unit) {
    if (!s->split[unit]) return visit(a, &s->unit[unit], unit * UNIT, UNIT);
    if (visit_part(a, s, unit * UNIT, unit * UNIT + UNIT) == STOP) return STOP;
    if (deeds[a->deed].writes) {
        s->split[unit] = 0;
        s->unit[unit] = (Cell){.write = a->mark};
    }
    return NEXT;
}

Step race_shared(Warp *w, const Ins *i, int lane, Cta *c, uint32_t at, uint32_t bytes, Deed deed,
                 Mark mark) {
    Act a = {w, i, lane, c, at, bytes, deed, mark, NULL};
    a.mark.atomic = deeds[deed].atomic;
    if (is_matrix(deed)) a.mark.lane = LANE_ALL;
    for (uint32_t end = at + bytes; at < end;) {
        uint32_t unit = at / UNIT, next = (unit + 1) * UNIT;
        bool whole = at % UNIT == 0 && next <= end;
        if (next > end) next = end;
        if ((whole ? visit_unit(&a, c->shadow, unit) : visit_part(&a, c->shadow, at, next)) == STOP)
            return STOP;
        at = next;
    }
    return NEXT;
}

void race_shared_idle(Warp *w, const Ins *i, Cta *c, uint32_t at, uint32_t bytes, Mark mark,
                      Fault *fault) {
    Act a = {w, i, -1, c, at, bytes, DEED_MMA, mark, fault};
    for (uint32_t end = at + bytes; at < end; at += UNIT) visit_unit(&a, c->shadow, at / UNIT);
}

// ---- mbarriers ----

void race_mbar(Cta *c, uint32_t at, bool is) {
    Shadow *s = c->shadow;
    if (!s->split[at / UNIT]) split(s, at / UNIT);
    for (uint32_t k = 0; k < 8; k++)
        s->byte[at + k] = (Cell){.write = {.who = is ? MARK_MBARRIER : 0}};
}

Step race_mbar_used(Warp *w, const Ins *i, int lane, const Mbar *b, bool async) {
    const Func *f = w->func;
    Mark m = {.bits = b->init};
    char line[100], name[64];
    uint32_t by = f->code[m.ins].line;
    ReportKind kind = REPORT_RACE;
    if (order_before(w, lane, m)) {
        if (!async || b->fenced || order_fenced(w, m, PROXY_SHARED)) return NEXT;
        kind = REPORT_PROXY;
    }
    if (report_known(w->cta->cluster->grid->reports, kind, i->line)) return NEXT;
    return report(w, i, lane, kind,
                  "the mbarrier at shared address %u, which %s initialises at PTX "
                  "line %u '%s', %s",
                  b->at + SHARED_BASE, whom(w, m, name, sizeof name), by,
                  emu_line(f->module, by, line, sizeof line), reason(kind));
}
