// See sync_int.h.
#include "runtime/emu/sync_int.h"

#include <stdlib.h>

#include "runtime/emu/memory_int.h"
#include "runtime/emu/race_int.h"

void sync_wake(Cta *c, WaitKind kind, uint32_t at) {
    for (uint32_t k = 0; k < c->cluster->grid->n_warps; k++) {
        Warp *w = &c->warps[k];
        if (w->wait == kind && w->wait_at == at) w->wait = WAIT_NOTHING;
    }
}

// ---- barriers ----

static void release(Cta *c, Barrier *b) {
    Seen *seen = c->barrier_seen[b - c->barrier];
    for (uint32_t left = b->waiting; left; left &= left - 1) {
        Warp *w = &c->warps[__builtin_ctz(left)];
        w->wait = WAIT_NOTHING;
        w->passed = true;
        order_see(w, seen);
        order_together(w);
    }
    order_clear(c->cluster, seen);
    *b = (Barrier){0};
}

// Threads of warps that ended count as arrived where all of the CTA are waited for.
static bool complete(const Cta *c, const Barrier *b) {
    uint32_t come = b->came;
    if (!b->counted)
        for (uint32_t k = 0; k < c->cluster->grid->n_warps; k++)
            if (!c->warps[k].live) come |= 1u << k;
    return (uint32_t)__builtin_popcount(come) * LANES == b->expected;
}

Step sync_barrier(Warp *w, const Ins *i, uint32_t id, uint32_t threads, bool waits) {
    Cta *c = w->cta;
    if (w->passed) {
        w->passed = false;
        return NEXT;
    }
    if (id >= BARRIERS) return report(w, i, -1, REPORT_BARRIER, "barrier %u; there are 16", id);
    Barrier *b = &c->barrier[id];
    uint32_t expected = threads ? threads : c->cluster->grid->n_warps * LANES;
    if (threads % LANES || expected > c->cluster->grid->n_warps * LANES)
        return report(w, i, -1, REPORT_BARRIER, "barrier %u of %u threads in a CTA of %u", id,
                      threads, c->cluster->grid->n_threads);
    if (b->came && (b->expected != expected || b->counted != (threads != 0)))
        return report(w, i, -1, REPORT_BARRIER,
                      "barrier %u of %u threads, where warps came to it as one of %u", id, expected,
                      b->expected);
    if (b->came >> w->id & 1)
        return report(w, i, -1, REPORT_BARRIER,
                      "the warp comes to barrier %u a second time, and others have not come yet",
                      id);
    b->expected = expected;
    b->counted = threads != 0;
    b->came |= 1u << w->id;
    if (waits) b->waiting |= 1u << w->id;
    order_release(w, w->live, c->barrier_seen[id]);
    if (complete(c, b)) {
        release(c, b);
        w->passed = false;
        return NEXT;
    }
    if (!waits) return NEXT;
    w->wait = WAIT_BARRIER;
    w->wait_at = id;
    return BLOCK;
}

static void cluster_complete(Cluster *c) {
    uint32_t come = c->came;
    for (uint32_t k = 0; k < c->n_warps; k++)
        come += c->warps[k].wait == WAIT_DONE && !c->warps[k].arrived;
    if (!c->came || come < c->n_warps) return;
    c->phase++;
    c->came = 0;
    order_copy(c, c->passed_seen, c->arrived_seen);
    for (uint32_t k = 0; k < c->n_warps; k++)
        if (c->warps[k].wait == WAIT_CLUSTER) c->warps[k].wait = WAIT_NOTHING;
}

Step sync_cluster_arrive(Warp *w, const Ins *i) {
    Cluster *c = w->cta->cluster;
    if (w->arrived)
        return report(w, i, -1, REPORT_BARRIER,
                      "the warp comes to the cluster's barrier again, and did not wait there");
    w->arrived = true;
    w->arrived_at = c->phase;
    c->came++;
    if (i->form->arg)
        order_release_fenced(w, c->arrived_seen);
    else
        order_release(w, w->live, c->arrived_seen);
    cluster_complete(c);
    return NEXT;
}

Step sync_cluster_wait(Warp *w, const Ins *i) {
    Cluster *c = w->cta->cluster;
    if (!w->arrived)
        return report(w, i, -1, REPORT_BARRIER,
                      "the warp waits at the cluster's barrier, and has not come to it");
    if (c->phase == w->arrived_at) {
        w->wait = WAIT_CLUSTER;
        return BLOCK;
    }
    w->arrived = false;
    order_see(w, c->passed_seen);
    order_together(w);
    return NEXT;
}

void sync_ended(Warp *w) {
    Cta *c = w->cta;
    for (int k = 0; k < BARRIERS; k++)
        if (c->barrier[k].came && complete(c, &c->barrier[k])) release(c, &c->barrier[k]);
    cluster_complete(c->cluster);
}

// ---- mbarriers ----

Mbar *sync_mbar_find(Cta *c, uint32_t at) {
    for (uint32_t k = 0; k < c->n_mbar; k++)
        if (c->mbar[k].at == at) return c->mbar[k].count ? &c->mbar[k] : NULL;
    return NULL;
}

static Cta *owner(Warp *w, const Ins *i, int lane, uint32_t a, uint32_t *at) {
    if (a % 8) {
        report(w, i, lane, REPORT_MISALIGNED, "an mbarrier at shared address %u", a);
        return NULL;
    }
    return memory_shared(w, i, lane, a, 8, at);
}

Mbar *sync_mbar(Warp *w, const Ins *i, int lane, uint32_t a, Cta **cta) {
    uint32_t at;
    *cta = owner(w, i, lane, a, &at);
    Mbar *b = *cta ? sync_mbar_find(*cta, at) : NULL;
    if (*cta && !b)
        report(w, i, lane, REPORT_MBARRIER, "there is no mbarrier at shared address %u", a);
    return b && race_mbar_used(w, i, lane, b, false) == STOP ? NULL : b;
}

Step sync_mbar_init(Warp *w, const Ins *i, int lane, uint32_t a, uint32_t count) {
    uint32_t at;
    Cta *c = owner(w, i, lane, a, &at);
    if (!c) return STOP;
    if (sync_mbar_find(c, at))
        return report(w, i, lane, REPORT_MBARRIER, "there is an mbarrier at %u already", a);
    if (!count || count >= 1u << 20)
        return report(w, i, lane, REPORT_MBARRIER, "a count of %u", count);
    Mbar *b = c->mbar;
    while (b < c->mbar + c->n_mbar && b->at != at) b++; // one that was here before
    if (b == c->mbar + c->room_mbar)
        return report(w, i, lane, REPORT_HOST, "more than %u mbarriers", c->room_mbar);
    if (b == c->mbar + c->n_mbar) c->n_mbar++;
    Mark mark = order_mark(w, i, lane);
    if (race_shared(w, i, lane, c, at, 8, DEED_WRITE, mark) == STOP) return STOP;
    *b = (Mbar){.at = at, .count = count, .pending = count, .init = mark.bits, .seen = b->seen};
    if (!order_mbar(c->cluster, b))
        return report(w, i, lane, REPORT_HOST, "too many mbarriers, or out of memory");
    race_mbar(c, at, true);
    memset(c->written + at, 1, 8);
    return NEXT;
}

Step sync_mbar_inval(Warp *w, const Ins *i, int lane, uint32_t a) {
    Cta *c;
    Mbar *b = sync_mbar(w, i, lane, a, &c);
    if (!b) return STOP;
    memset(c->written + b->at, 0, 8);
    race_mbar(c, b->at, false);
    b->count = 0;
    return NEXT;
}

static void settle(Cta *c, Mbar *b) {
    if (b->pending || b->tx) return;
    b->phase++;
    b->pending = b->count;
    b->seen[b->agent].all = (uint32_t)b->phase;
    order_copy(c->cluster, b->done, b->seen);
    sync_wake(c, WAIT_MBARRIER, b->at);
}

enum { MOST_PENDING = (1 << 20) - 1 }; // arrivals, or bytes
static Step moved(Warp *w, const Ins *i, int lane, Cta *c, Mbar *b) {
    if (b->pending < 0)
        return report(w, i, lane, REPORT_MBARRIER,
                      "more arrivals at the mbarrier at %u than its count, %u", b->at + SHARED_BASE,
                      b->count);
    if (b->tx > MOST_PENDING || b->tx < -MOST_PENDING)
        return report(w, i, lane, REPORT_MBARRIER,
                      "%lld bytes are pending at the mbarrier at %u; the most is %d",
                      (long long)b->tx, b->at + SHARED_BASE, MOST_PENDING);
    settle(c, b);
    return NEXT;
}

Step sync_mbar_arrive(Warp *w, const Ins *i, int lane, uint32_t a, uint32_t arrivals,
                      int64_t expect) {
    Cta *c;
    Mbar *b = sync_mbar(w, i, lane, a, &c);
    if (!b) return STOP;
    if (!c->live)
        return report(w, i, lane, REPORT_MBARRIER,
                      "the mbarrier is in CTA %u of the cluster, which has ended", c->rank);
    if (c != w->cta) c->remote[w - c->cluster->warps] = order_mark(w, i, lane).bits;
    if (arrivals) order_release(w, 1u << lane, b->seen);
    b->tx += expect;
    b->pending -= arrivals;
    return moved(w, i, lane, c, b);
}

void sync_fence_inits(Warp *w) {
    const Cluster *c = w->cta->cluster;
    for (uint32_t k = 0; k < c->n_ctas; k++)
        for (uint32_t b = 0; b < c->ctas[k].n_mbar; b++) {
            Mbar *m = &c->ctas[k].mbar[b];
            if (m->count && order_before(w, -1, (Mark){.bits = m->init})) m->fenced = true;
        }
}

void sync_mbar_waited(Warp *w, uint32_t lanes, const Mbar *b) {
    order_see_loads(w, lanes, b->agent, b->done);
}

// The mbarrier that a copy counts on; NULL after a report.
static Mbar *counted_on(Warp *w, const Ins *i, int lane, Cta *c, uint32_t at) {
    Mbar *b = sync_mbar_find(c, at);
    if (!b)
        report(w, i, lane, REPORT_MBARRIER, "its mbarrier at shared address %u is gone",
               at + SHARED_BASE);
    return b;
}

Step sync_mbar_complete(Warp *w, const Ins *i, int lane, Cta *c, uint32_t at, int64_t bytes) {
    Mbar *b = counted_on(w, i, lane, c, at);
    if (!b) return STOP;
    b->tx -= bytes;
    return moved(w, i, lane, c, b);
}

Step sync_mbar_pend(Warp *w, const Ins *i, int lane, Mbar *b, uint32_t arrivals) {
    b->pending += arrivals;
    if (b->pending <= MOST_PENDING) return NEXT;
    return report(w, i, lane, REPORT_MBARRIER, "%lld arrivals are pending at the mbarrier at %u",
                  (long long)b->pending, b->at + SHARED_BASE);
}

Step sync_mbar_copied(Warp *w, const Ins *i, int lane, Cta *c, uint32_t at, uint32_t tick) {
    Mbar *b = counted_on(w, i, lane, c, at);
    Seen copies = {0, tick, 1u << lane};
    if (!b) return STOP;
    order_join(&b->seen[order_async_agent(w)], &copies);
    b->pending--;
    return moved(w, i, lane, c, b);
}

// ---- setmaxnreg ----

Step sync_registers(Warp *w, const Ins *i, uint32_t regs, bool more) {
    Cta *c = w->cta;
    uint32_t now = c->regs[w->id];
    if (regs % 8 || regs < 24 || regs > 256)
        return report(w, i, -1, REPORT_REGISTERS, "%u registers; a multiple of 8, 24 to 256", regs);
    if (more ? regs < now : regs > now)
        return report(w, i, -1, REPORT_REGISTERS, "from %u to %u registers", now, regs);
    if (more && regs - now > c->regs_free) {
        w->wait = WAIT_REGISTERS;
        w->wait_at = 0;
        return BLOCK;
    }
    c->regs_free += now - regs;
    c->regs[w->id] = regs;
    if (!more) sync_wake(c, WAIT_REGISTERS, 0);
    return NEXT;
}

// ---- the end: arrivals at a barrier that nobody waits at are no fault ----

// What comes from elsewhere must have come before the CTA ends.
static void check_remote(Cta *c) {
    const Func *f = c->cluster->grid->f;
    for (uint32_t k = 0; k < c->cluster->n_warps; k++) {
        Mark m = {.bits = c->remote[k]};
        if (m.bits && !order_before_end(c, m))
            report(
                &c->cluster->warps[k], &f->code[m.ins], m.lane & 31, REPORT_MBARRIER,
                "the mbarrier is in CTA %u of the cluster, which does not wait for that before it "
                "ends",
                c->rank);
    }
    for (uint32_t k = 0; k < c->n_mbar; k++) {
        Mark m = {.bits = c->mbar[k].load};
        if (m.bits && c->mbar[k].count && !order_before_end(c, m))
            report(c->warps, &f->code[m.ins], -1, REPORT_NO_WAIT,
                   "CTA %u ended, and nobody waited for these bytes", c->id[0]);
    }
}

void sync_leftovers(Cta *c) {
    check_remote(c);
    for (uint32_t k = 0; k < c->n_mbar; k++)
        if (c->mbar[k].tx)
            report(c->warps, NULL, -1, REPORT_EXPECT_TX,
                   "at the end, the mbarrier at shared address %u still expects %lld bytes",
                   c->mbar[k].at + SHARED_BASE, (long long)c->mbar[k].tx);
    for (uint32_t k = 0; k + 1 < c->cluster->grid->n_warps; k++)
        if (k % GROUP_WARPS != GROUP_WARPS - 1 && c->regs[k] != c->regs[k + 1])
            report(c->warps, NULL, -1, REPORT_REGISTERS,
                   "warps %u and %u of one warpgroup ended with %u and %u registers", k, k + 1,
                   c->regs[k], c->regs[k + 1]);
}
