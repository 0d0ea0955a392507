// Who has seen what: the order that barriers, mbarriers, fences and waits make, as vector clocks.
//
// An agent does things in an order of its own: a warp; the cp.async of a warp's lanes, as they are
// committed; the wgmma of a warpgroup, as they were asked for; the bulk stores of a warp, by group;
// the loads that count on an mbarrier, by phase. Each
// warp and each barrier keeps, for every agent, up to which of its ticks all was done before. An
// access is behind another one if that lies in what its warp has seen.
//
// Lanes of a warp are ordered with each other where an instruction brought the warp together that
// orders memory (bar.warp.sync, bar.sync, ..). Which lanes waited for a load is kept; what else one
// lane learns is taken as known to all. Where the exact answer would need a clock for every lane,
// "ordered" is answered.
#ifndef RUNTIME_EMU_ORDER_INT_H
#define RUNTIME_EMU_ORDER_INT_H

#include "runtime/emu/machine_int.h"

// An access and when it was; all zeros: none. who: its agent + 1, or MARK_MBARRIER.
typedef union Mark {
    struct {
        uint64_t who : 12, lane : 6, tick : 22, ins : 20, atomic : 1, swizzle : 2, idle : 1;
    };
    uint64_t bits;
} Mark;
_Static_assert(sizeof(Mark) == 8, "a mark is a word");
// idle: a read that may be of no consequence (poison_int.h).
// lane: LANE_SEVERAL, some of the warp's; LANE_ALL, an instruction of all of them together.
enum { MARK_MBARRIER = 0xfff, LANE_SEVERAL = LANES, LANE_ALL, MOST_TICK = (1 << 22) - 1 };

bool order_new(Cluster *c); // false: out of memory
void order_free(Cluster *c);
void order_start(Cluster *c);

// What the lanes of a warp did so far, and all that it has seen, is seen by who sees `to`.
void order_release(Warp *w, uint32_t lanes, Seen *to);
// By a relaxed arrival: only what the last fence of memory stands behind.
void order_release_fenced(Warp *w, Seen *to);
void order_see(Warp *w, const Seen *from);
// The same by lanes that waited for the loads of an agent.
void order_see_loads(Warp *w, uint32_t lanes, uint32_t agent, const Seen *from);
void order_together(Warp *w); // its lanes see each other's accesses
// A fence.proxy.async of these kinds of memory (bits).
enum { PROXY_SHARED = 1, PROXY_GLOBAL = 2, PROXIES = 2 };
void order_proxy_fence(Warp *w, uint32_t lanes, uint32_t memory);
void order_fence(Warp *w, uint32_t lanes); // of memory, for relaxed accesses behind it
void order_copy(const Cluster *c, Seen *to, const Seen *from);
void order_clear(const Cluster *c, Seen *s);
// Room for an mbarrier's: what arrivals released, and what those who wait will see. False: out of
// memory, or of agents.
bool order_mbar(Cluster *c, Mbar *b);
// The warp waited for an agent's ticks up to this one; lane -1: all of them, else that lane's.
void order_waited(Warp *w, uint32_t agent, int lane, uint32_t tick);

// The parts: what the lanes have done, as others see it; the next tick; one entry.
Seen order_own(const Warp *w, uint32_t lanes);
void order_tick(Warp *w);
void order_join(Seen *to, const Seen *from);
bool order_covers(const Seen *s, Mark m);

uint32_t order_async_agent(const Warp *w);
uint32_t order_mma_agent(const Warp *w);
uint32_t order_bulk_agent(const Warp *w);

Mark order_mark(const Warp *w, const Ins *i, int lane); // of an access right now
// Of one that an agent will have done at that tick.
Mark order_mark_later(const Warp *w, const Ins *i, uint32_t agent, int lane, uint64_t tick);
// Is what was marked before what the lane (-1: the warp as a whole) does now; and is there a fence
// between the proxies on the way?
bool order_before(const Warp *w, int lane, Mark m);
bool order_fenced(const Warp *w, Mark m, uint32_t memory);

// Has the thread that asked for a cp.async waited for it?
bool order_copied(const Cluster *c, Mark m);

bool order_before_end(const Cta *c, Mark m); // has a warp of the CTA seen it when it ended?

typedef enum AgentKind { AGENT_WARP, AGENT_ASYNC, AGENT_MMA, AGENT_BULK, AGENT_LOAD } AgentKind;
static inline AgentKind mark_kind(const Cluster *c, Mark m) {
    return m.who <= c->n_warps      ? AGENT_WARP
           : m.who <= c->first_mma  ? AGENT_ASYNC
           : m.who <= c->first_bulk ? AGENT_MMA
           : m.who <= c->first_mbar ? AGENT_BULK
                                    : AGENT_LOAD;
}

#endif
