// The machine: a launch (Grid) of clusters of CTAs of warps, each with its lanes' registers.
//
// A cluster is run by one host thread from its first instruction to its last; its warps take turns,
// in an order drawn from the seed. What is asynchronous is done as late as the program's own waits
// allow, in an order drawn from the seed, too, so that a wait that is missing shows.
#ifndef RUNTIME_EMU_MACHINE_INT_H
#define RUNTIME_EMU_MACHINE_INT_H

#include <stdatomic.h>

#include "runtime/emu/ptx_int.h"
#include "runtime/emu/report_int.h"

typedef struct Cta Cta;
typedef struct Cluster Cluster;
typedef struct Grid Grid;

enum { MAX_WARPS = 32, BARRIERS = 16, GROUP_WARPS = 4 };
enum {
    RANK_SHIFT = 24
}; // addresses of shared memory: the CTA's rank in its cluster, from this bit

// What a warp waits for.
typedef enum WaitKind {
#define WAIT(name, text) WAIT_##name,
#include "runtime/emu/wait.def"
#undef WAIT
} WaitKind;

// Of an agent, what is done (order_int.h).
typedef struct Seen {
    uint32_t all; // ticks up to this one, whatever the lane
    uint32_t some,
        lanes; // and up to this one, of these lanes; of loads: for these lanes of who sees
} Seen;

typedef struct Lanes { // lanes of a warp that are elsewhere
    uint32_t pc, mask;
} Lanes;

struct Warp {
    uint8_t *bank[2]; // registers, immediates
    uint32_t *pred;
    const Opd *lists;
    uint32_t pc, mask; // of the lanes that run: those with the lowest pc
    uint32_t stop;     // pc of the next lanes to join them
    uint32_t live;     // lanes that have not ended
    Cta *cta;
    const Func *func;
    uint32_t id, n_away; // id: in the CTA
    Lanes away[LANES];   // by rising pc
    WaitKind wait;
    uint32_t wait_at, wait_parity; // a barrier's number or address; an mbarrier's parity
    bool passed;                   // what it waited for has come
    bool met;                      // it has waited for the launches before
    uint32_t tried;                // pc of a try_wait that said no once
    bool arrived;                  // at the cluster's barrier, when its phase was arrived_at
    uint64_t arrived_at;
    uint8_t *local;      // local_bytes a lane
    struct Mma *mma;     // state of wgmma (wgmma.c)
    struct Bulk *bulk;   // its lanes' bulk stores (copy.c)
    struct Async *async; // their cp.async, if there are any (async.c)
    uint32_t *poison;    // by register, lanes whose sums are of no worth (poison_int.h)
    bool poisoned;       // some are
    uint32_t loaded;     // lanes that have loaded such
    uint32_t spoilt;     // lanes that store such
    // What it has seen (order.c); its clock, and up to which tick its lanes saw each other's.
    Seen *seen, fenced; // fenced: what its last fence stands behind
    uint32_t tick, synced;
};

// A barrier of bar.sync and bar.arrive.
typedef struct Barrier {
    uint32_t came, waiting; // warps
    uint32_t expected;      // threads
    bool counted;           // of a number of threads; else all of the CTA
} Barrier;

typedef struct Mbar {
    uint32_t at, count;
    int64_t pending, tx;
    uint64_t phase;
    Seen *seen, *done; // released by arrivals; of the phases that have ended (order.c)
    uint32_t agent;    // its loads, as order.c counts
    uint64_t init;     // a Mark
    bool fenced;       // its init, for asynchronous copies
    uint64_t load;     // the Mark of the last load that counts on it
} Mbar;

struct Cta {
    Cluster *cluster;
    uint32_t rank, id[3], live; // rank: in the cluster; live: warps that have not ended
    uint8_t *shared;            // the first byte has the address SHARED_BASE
    uint8_t *written;           // a byte for each of them: 1 once it has a value
    Warp *warps;
    Barrier barrier[BARRIERS];
    Seen *barrier_seen[BARRIERS];
    struct Shadow *shadow;      // who accessed which byte of it (race.c)
    const struct Fault *spoilt; // its last store of what is of no worth (poison_int.h)
    uint64_t *remote; // by warp of the cluster: the Mark of its last arrival from another CTA
    Mbar *mbar;
    uint32_t n_mbar, room_mbar;
    uint32_t regs_free, regs[MAX_WARPS]; // setmaxnreg: of a warp's lane
};

struct Cluster {
    Grid *grid;
    Cta *ctas;
    Warp *warps; // of all its CTAs
    uint32_t n_ctas, n_warps, next_warp;
    uint64_t linear; // number in the grid
    uint64_t phase;  // of the cluster's barrier
    uint32_t came;   // warps that have come to it
    Seen *seen, *arrived_seen,
        *passed_seen; // all vectors; the cluster's barrier's (order.c)
    uint32_t n_agents, room_agents, first_mma, first_bulk, first_mbar;
    struct Shadow *shadows; // of its CTAs (race.c)
    uint64_t random, executed;
    struct Copy *copies; // asynchronous loads that are under way (tma.c)
    uint32_t n_copies, room_copies;
    uint32_t n_arrivals;       // that wait for cp.async (async.c)
    uint8_t *memory;           // all of the above's
    const struct Region **hot; // by instruction: the region it touched last
    struct Hits *hits;         // by instruction; NULL: nobody asked (stats.c)
    struct Traffic *traffic;   // by region
    uint32_t polls;            // reads of what another cluster may write, since it was set aside
    uint64_t changes;          // writes to global memory
    struct Known *known;       // of other clusters (meet.c)
};

// Memory that the launch may touch.
typedef struct Region {
    uint64_t at, bytes;
    const char *name;
    bool input, scratch;
    uint32_t first, last;  // steps in which it is there
    uint8_t *written;      // a byte for each; NULL: all had values before
    struct FarCell *cells; // of a launch: who accessed them; or NULL (race_global.c)
} Region;

struct Grid {
    const Func *f;
    uint32_t dim[3], block[3], n_threads, n_warps; // the latter of a CTA
    uint32_t shared_bytes;
    uint8_t *params;
    Region *regions;
    uint32_t n_regions;
    uint64_t seed, limit; // limit: instructions of a cluster's warps
    Reports *reports;
    bool early;          // launches before it may still run
    _Atomic bool met;    // some warp has waited for them
    bool lax;            // a copy may write where threads have read without a proxy fence
    struct Stats *stats; // NULL: nobody asked
    struct Meets *meets; // where clusters meet in memory
};

static inline void *operand(const Warp *w, const Opd *o) {
    return w->bank[o->bank] + o->at;
}

static inline const Opd *element(const Warp *w, const Opd *list, int k) {
    return &w->lists[list->at + (uint32_t)k];
}

// ---- warp.c ----

// Runs until it must wait, has run `quantum` instructions or is done; STOP: a fault.
Step warp_run(Warp *w, uint32_t quantum);
// Lanes `taken` of those that run go to `target`, the others behind the instruction.
void warp_branch(Warp *w, uint32_t taken, uint32_t target);
void warp_end(Warp *w, uint32_t ended);

// A number of `state`'s sequence.
uint64_t emu_random(uint64_t *state);

#endif
