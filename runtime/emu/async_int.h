// cp.async: copies of 4, 8 or 16 bytes to shared memory that threads ask for one by one.
//
// A copy is done when its thread waits for the group that it is in, or when an mbarrier that tracks
// it gets its arrival, and not before. The bytes are written by the generic proxy: who has waited
// sees them, and others behind a barrier after that wait, or behind the mbarrier.
#ifndef RUNTIME_EMU_ASYNC_INT_H
#define RUNTIME_EMU_ASYNC_INT_H

#include "runtime/emu/machine_int.h"

typedef struct AsyncCopy {
    const Ins *i;
    const uint8_t *from;
    Cta *cta;
    uint32_t at, bytes, given; // at: from SHARED_BASE; given: read, the rest is zeros
    uint32_t tick, group;      // group: how many of its thread's came before
    int lane;
} AsyncCopy;

// An arrival that an mbarrier gets when its thread's copies up to a tick are done.
typedef struct AsyncArrival {
    const Ins *i;
    Cta *cta;
    uint32_t at, tick; // at: the mbarrier, from SHARED_BASE
    int lane;
} AsyncArrival;

enum { ASYNC_GROUPS = 64 };

// Of a warp. Copies have the tick that the clock shows; it moves on when lanes commit, or ask for
// an arrival.
typedef struct Async {
    AsyncCopy *copy;
    uint32_t n, room;
    AsyncArrival *arrival;
    uint32_t n_arrivals, room_arrivals;
    uint32_t clock;
    uint32_t groups[LANES], ends[LANES][ASYNC_GROUPS]; // committed; the clock at the last of them
    uint32_t waited[LANES];                            // a lane's copies up to this tick are done
} Async;

Step async_copy(Warp *w, const AsyncCopy *copy);
void async_commit(Warp *w, uint32_t lanes);
// Until at most n groups of each of the lanes are left; what is not in one is not waited for.
Step async_wait(Warp *w, const Ins *i, uint32_t lanes, uint32_t n);
// The arrivals of lanes at mbarriers, each at an address of its own.
Step async_track(Warp *w, const Ins *i, uint32_t lanes, const uint32_t *a, bool counts);
Step async_some_arrival(Cluster *c); // does one of them, drawn

void async_start(Warp *w);
void async_finish(Cluster *c); // at the end: what was not waited for
void async_free(Cluster *c);

#endif
