// Order between clusters, and between threads that meet in memory: an update of a flag after a
// fence, or with .release, and a later read of it.
//
// What any warp of a cluster learns of other clusters is taken as known to all its warps, and a
// relaxed read as if a fence followed.
#ifndef RUNTIME_EMU_MEET_INT_H
#define RUNTIME_EMU_MEET_INT_H

#include "runtime/emu/order_int.h"

typedef struct Meets Meets;
Meets *meets_new(void); // NULL: out of memory
void meets_free(Meets *m);

// Lanes write to an address where others may look; strong: with .release, else what the last fence
// of the warp stands behind is released.
void meet_release(Warp *w, uint32_t lanes, bool shared, uint64_t a, bool strong);
void meet_see(Warp *w, bool shared, uint64_t a); // they look there
// Is what was marked in another cluster before what this one does now?
bool meet_before(const Cluster *c, uint64_t linear, uint32_t warp, Mark m);
void meet_forget(Cluster *c);

#endif
