// See async_int.h.
#include "runtime/emu/async_int.h"

#include <stdlib.h>

#include "runtime/emu/memory_int.h"
#include "runtime/emu/race_int.h"
#include "runtime/emu/sync_int.h"

// ---- copies ----

// One more element of a growing array; NULL: out of memory.
static void *grow(void *array, size_t unit, uint32_t n, uint32_t *room) {
    if (n < *room) return array;
    uint32_t more = *room ? 2 * *room : 64;
    void *grown = realloc(array, more * unit);
    if (grown) *room = more;
    return grown;
}

Step async_copy(Warp *w, const AsyncCopy *copy) {
    Async *a = w->async;
    AsyncCopy c = *copy;
    AsyncCopy *grown = grow(a->copy, sizeof *grown, a->n, &a->room);
    if (!grown) return report(w, c.i, -1, REPORT_HOST, "out of memory for copies");
    a->copy = grown;
    c.tick = a->clock;
    c.group = a->groups[c.lane];
    Mark m = order_mark_later(w, c.i, order_async_agent(w), c.lane, c.tick);
    if (race_shared(w, c.i, c.lane, c.cta, c.at, c.bytes, DEED_COPY, m) == STOP) return STOP;
    memset(c.cta->written + c.at, ON_THE_WAY, c.bytes);
    a->copy[a->n++] = c;
    return NEXT;
}

static void perform(const AsyncCopy *c) {
    uint8_t *to = c->cta->shared + c->at;
    if (c->given) memcpy(to, c->from, c->given);
    memset(to + c->given, 0, c->bytes - c->given);
    memset(c->cta->written + c->at, WRITTEN, c->bytes);
}

// Copies of the lanes whose group, or tick, is below a lane's limit are done.
static void perform_all(Async *a, uint32_t lanes, const uint32_t *groups, uint32_t tick) {
    uint32_t left = 0;
    for (uint32_t k = 0; k < a->n; k++) {
        const AsyncCopy *c = &a->copy[k];
        if (lanes >> c->lane & 1 && (groups ? c->group < groups[c->lane] : c->tick <= tick))
            perform(c);
        else
            a->copy[left++] = *c;
    }
    a->n = left;
}

void async_commit(Warp *w, uint32_t lanes) {
    Async *a = w->async;
    for (uint32_t left = lanes; left; left &= left - 1) {
        int l = __builtin_ctz(left);
        a->ends[l][a->groups[l]++ % ASYNC_GROUPS] = a->clock;
    }
    a->clock++;
}

Step async_wait(Warp *w, const Ins *i, uint32_t lanes, uint32_t n) {
    Async *a = w->async;
    uint32_t most[LANES] = {0};
    if (n >= ASYNC_GROUPS)
        return report(w, i, -1, REPORT_HOST, "a wait that leaves %u groups; %d are known", n,
                      ASYNC_GROUPS - 1);
    for (uint32_t left = lanes; left; left &= left - 1) {
        int l = __builtin_ctz(left);
        if (a->groups[l] <= n) continue;
        most[l] = a->groups[l] - n;
        uint32_t end = a->ends[l][(most[l] - 1) % ASYNC_GROUPS];
        if (end > a->waited[l]) a->waited[l] = end;
    }
    perform_all(a, lanes, most, 0);
    return NEXT;
}

// ---- arrivals ----

static Step track(Warp *w, const Ins *i, int lane, uint32_t address, bool counts) {
    Async *a = w->async;
    Cta *c;
    Mbar *b = sync_mbar(w, i, lane, address, &c);
    if (!b) return STOP;
    if (c != w->cta) return report(w, i, lane, REPORT_MBARRIER, "the mbarrier is in another CTA");
    AsyncArrival *grown = grow(a->arrival, sizeof *grown, a->n_arrivals, &a->room_arrivals);
    if (!grown) return report(w, i, -1, REPORT_HOST, "out of memory for copies");
    a->arrival = grown;
    a->arrival[a->n_arrivals++] = (AsyncArrival){i, c, b->at, a->clock, lane};
    w->cta->cluster->n_arrivals++;
    return sync_mbar_pend(w, i, lane, b, counts ? 0 : 1);
}

Step async_track(Warp *w, const Ins *i, uint32_t lanes, const uint32_t *a, bool counts) {
    for (uint32_t left = lanes; left; left &= left - 1) {
        int l = __builtin_ctz(left);
        if (track(w, i, l, a[l], counts) == STOP) return STOP;
    }
    w->async->clock++;
    return NEXT;
}

static Step arrive(Warp *w, uint32_t k) {
    Async *a = w->async;
    AsyncArrival x = a->arrival[k];
    a->arrival[k] = a->arrival[--a->n_arrivals];
    w->cta->cluster->n_arrivals--;
    perform_all(a, 1u << x.lane, NULL, x.tick);
    return sync_mbar_copied(w, x.i, x.lane, x.cta, x.at, x.tick);
}

Step async_some_arrival(Cluster *c) {
    uint32_t k = (uint32_t)(emu_random(&c->random) % c->n_arrivals);
    Warp *w = c->warps;
    for (; k >= w->async->n_arrivals; w++) k -= w->async->n_arrivals;
    return arrive(w, k);
}

// ---- the start and the end ----

void async_start(Warp *w) {
    Async *a = w->async;
    a->n = a->n_arrivals = 0;
    a->clock = 1;
    memset(a->groups, 0, sizeof a->groups);
    memset(a->waited, 0, sizeof a->waited);
}

void async_finish(Cluster *c) {
    for (uint32_t k = 0; k < c->n_warps; k++) {
        Warp *w = &c->warps[k];
        for (uint32_t n = 0; w->async && n < w->async->n; n++)
            report(w, w->async->copy[n].i, w->async->copy[n].lane, REPORT_NO_WAIT,
                   "CTA %u ended, and nobody waited for these bytes", w->cta->id[0]);
    }
}

void async_free(Cluster *c) {
    for (uint32_t k = 0; k < c->n_warps; k++) {
        if (!c->warps[k].async) continue;
        free(c->warps[k].async->copy);
        free(c->warps[k].async->arrival);
    }
}
