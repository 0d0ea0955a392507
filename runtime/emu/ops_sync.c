// Barriers, mbarriers, fences, setmaxnreg.
#include "runtime/emu/ops_int.h"
#include "runtime/emu/order_int.h"
#include "runtime/emu/sync_int.h"

// ---- barriers ----

static uint32_t uniform(const Warp *w, const Opd *o, uint32_t m) {
    return ((const uint32_t *)operand(w, o))[__builtin_ctz(m)];
}

// Operands: the barrier, and maybe the count of threads.
RUN(bar_sync) {
    return sync_barrier(w, i, uniform(w, &i->o[0], m), i->n > 1 ? uniform(w, &i->o[1], m) : 0,
                        true);
}

RUN(bar_arrive) {
    return sync_barrier(w, i, uniform(w, &i->o[0], m), uniform(w, &i->o[1], m), false);
}

RUN(setmaxnreg) {
    (void)m;
    return sync_registers(w, i, (uint32_t)i->o[0].offset, i->form->arg);
}

// Launches come one after the other; but who does not wait is told.
RUN(grid_wait) {
    (void)i, (void)m;
    w->met = true;
    atomic_store_explicit(&w->cta->cluster->grid->met, true, memory_order_relaxed);
    return NEXT;
}

// ---- mbarriers ----

RUN(mbar_init) {
    const uint32_t *count = LANES_OF(u32, 1);
    EACH_LANE(m)
    if (sync_mbar_init(w, i, LANE, shared_address(w, &i->o[0], LANE), count[LANE]) == STOP)
        return STOP;
    return NEXT;
}

RUN(mbar_inval) {
    EACH_LANE(m)
    if (sync_mbar_inval(w, i, LANE, shared_address(w, &i->o[0], LANE)) == STOP) return STOP;
    return NEXT;
}

// arg: 0 an arrival; 1 an arrival that expects bytes; 2 bytes without an arrival; 3 arrivals; 4
// such as may not end the phase. The state that it gives is the phase.
enum { ARRIVE, ARRIVE_EXPECT, EXPECT, ARRIVE_COUNT, ARRIVE_NOT_LAST };
RUN(mbar_arrive) {
    uint32_t what = i->form->arg;
    int at = what == EXPECT ? 0 : 1;
    EACH_LANE(m) {
        int l = LANE;
        uint32_t n = i->n > at + 1 ? ((const uint32_t *)operand(w, &i->o[at + 1]))[l] : 0;
        uint32_t a = shared_address(w, &i->o[at], l);
        Cta *c;
        Mbar *b = sync_mbar(w, i, l, a, &c);
        if (!b) return STOP;
        if (at && i->o[0].cls == OPD_64) LANES_OF(u64, 0)[l] = b->phase;
        if (what == ARRIVE_NOT_LAST && b->pending <= n)
            return report(w, i, l, REPORT_MBARRIER,
                          "%u arrivals that may not end the phase, which lacks %lld", n,
                          (long long)b->pending);
        if (sync_mbar_arrive(w, i, l, a,
                             what == EXPECT         ? 0
                             : what >= ARRIVE_COUNT ? n
                                                    : 1,
                             what == ARRIVE_EXPECT || what == EXPECT ? n : 0) == STOP)
            return STOP;
    }
    return NEXT;
}

// Which lanes' phases have ended. arg: 0 the operand is a parity, 1 a state.
static Step ended(Warp *w, const Ins *i, uint32_t m, uint32_t *yes, Mbar **pending) {
    const Mbar *passed = NULL;
    *yes = 0;
    *pending = NULL;
    EACH_LANE(m) {
        int l = LANE;
        Cta *c;
        Mbar *b = sync_mbar(w, i, l, shared_address(w, &i->o[1], l), &c);
        if (!b) return STOP;
        if (c != w->cta)
            return report(w, i, l, REPORT_MBARRIER, "it waits for an mbarrier of another CTA");
        bool done;
        if (i->form->arg) {
            done = b->phase > LANES_OF(u64, 2)[l];
        } else {
            uint32_t parity = LANES_OF(u32, 2)[l];
            if (parity > 1) return report(w, i, l, REPORT_MBARRIER, "a parity of %u", parity);
            done = (b->phase & 1) != parity;
        }
        if (done) {
            *yes |= 1u << l;
            if (b != passed) sync_mbar_waited(w, m, b);
            passed = b;
        } else {
            *pending = b;
        }
    }
    return NEXT;
}

static void answer(Warp *w, const Ins *i, uint32_t m, uint32_t yes) {
    uint32_t *p = &w->pred[i->o[0].at];
    *p = (*p & ~m) | yes;
}

// Says no once, as it may, and waits when it is asked again.
RUN(mbar_try_wait) {
    uint32_t yes;
    Mbar *b;
    if (ended(w, i, m, &yes, &b) == STOP) return STOP;
    if (b && w->tried == w->pc) {
        w->wait = WAIT_MBARRIER;
        w->wait_at = b->at;
        w->wait_parity = (uint32_t)b->phase & 1;
        return BLOCK;
    }
    w->tried = b ? w->pc : UINT32_MAX;
    answer(w, i, m, yes);
    return b ? YIELD : NEXT;
}

RUN(mbar_test_wait) {
    uint32_t yes;
    Mbar *b;
    if (ended(w, i, m, &yes, &b) == STOP) return STOP;
    answer(w, i, m, yes);
    return b ? YIELD : NEXT;
}

// ---- clusters ----

RUN(cluster_arrive) {
    (void)m;
    return sync_cluster_arrive(w, i);
}

RUN(cluster_wait) {
    (void)m;
    return sync_cluster_wait(w, i);
}

// The same place in the CTA of a rank.
RUN(mapa) {
    uint32_t *d = LANES_OF(u32, 0);
    const uint32_t *a = LANES_OF(u32, 1), *rank = LANES_OF(u32, 2);
    EACH(m, d[l] = (a[l] & ((1u << RANK_SHIFT) - 1)) | rank[l] << RANK_SHIFT);
    return NEXT;
}

// ---- fences ----

RUN(fence) {
    (void)i;
    order_fence(w, m);
    atomic_thread_fence(memory_order_seq_cst);
    return NEXT;
}

// arg: the kinds of memory
RUN(fence_async) {
    order_proxy_fence(w, m, i->form->arg);
    return NEXT;
}

RUN(fence_inits) {
    (void)i, (void)m;
    sync_fence_inits(w);
    return NEXT;
}
