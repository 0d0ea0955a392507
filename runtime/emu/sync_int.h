// Barriers, mbarriers and registers of a CTA, as handlers and copies use them.
#ifndef RUNTIME_EMU_SYNC_INT_H
#define RUNTIME_EMU_SYNC_INT_H

#include "runtime/emu/machine_int.h"

// The warp comes to barrier `id` of `threads` (0: all of the CTA), and waits if told so.
Step sync_barrier(Warp *w, const Ins *i, uint32_t id, uint32_t threads, bool waits);
// A warp has ended: barriers of all threads no longer wait for it.
void sync_ended(Warp *w);

Mbar *sync_mbar_find(Cta *c, uint32_t at); // from SHARED_BASE; or NULL
// The mbarrier at a shared address; NULL after a report.
Mbar *sync_mbar(Warp *w, const Ins *i, int lane, uint32_t a, Cta **cta);
Step sync_mbar_init(Warp *w, const Ins *i, int lane, uint32_t a, uint32_t count);
Step sync_mbar_inval(Warp *w, const Ins *i, int lane, uint32_t a);
Step sync_mbar_arrive(Warp *w, const Ins *i, int lane, uint32_t a, uint32_t arrivals,
                      int64_t expect);
// Lanes found its last phase ended.
void sync_mbar_waited(Warp *w, uint32_t lanes, const Mbar *b);
// fence.mbarrier_init: for asynchronous copies, too, the inits so far are done.
void sync_fence_inits(Warp *w);
// Bytes that instruction i asked for have come to the mbarrier `at` (from SHARED_BASE) of a CTA.
Step sync_mbar_complete(Warp *w, const Ins *i, int lane, Cta *c, uint32_t at, int64_t bytes);

// For cp.async.mbarrier.arrive: the phase expects so many arrivals more; and one of them has come,
// with the copies of a lane up to a tick.
Step sync_mbar_pend(Warp *w, const Ins *i, int lane, Mbar *b, uint32_t arrivals);
Step sync_mbar_copied(Warp *w, const Ins *i, int lane, Cta *c, uint32_t at, uint32_t tick);

// The cluster's barrier.
Step sync_cluster_arrive(Warp *w, const Ins *i);
Step sync_cluster_wait(Warp *w, const Ins *i);

Step sync_registers(Warp *w, const Ins *i, uint32_t regs, bool more);

// Warps of the CTA that wait for this go on.
void sync_wake(Cta *c, WaitKind kind, uint32_t at);
// What is wrong with a CTA that has ended.
void sync_leftovers(Cta *c);

#endif
