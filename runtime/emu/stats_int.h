// What a launch executed and moved, for FK_EMU_STATS. Clusters count for themselves; when they are
// freed their counts are added to the launch's.
#ifndef RUNTIME_EMU_STATS_INT_H
#define RUNTIME_EMU_STATS_INT_H

#include <stdio.h>

#include "runtime/emu/memory_int.h"

// Of an instruction. A wavefront is what shared memory serves at a time: a word of each bank.
typedef struct Hits {
    uint64_t warps, lanes;
    uint64_t wavefronts, extra; // extra: those that conflicts of banks add
} Hits;

// Of a region: [0] read, [1] written. Sectors are of 32 bytes, each once an instruction of a warp
// or a row of a box: what goes between the multiprocessors and the second-level cache if the first
// level keeps nothing.
typedef struct Traffic {
    uint64_t bytes[2], sectors[2];
} Traffic;

typedef struct Stats Stats;

Stats *stats_new(const Grid *g); // NULL: out of memory
void stats_free(Stats *s);       // NULL is allowed
void stats_add(const Cluster *c);
void stats_put(const Grid *g, FILE *to);

static inline void stats_executed(Cluster *c, uint32_t pc, uint32_t m) {
    c->hits[pc].warps++;
    c->hits[pc].lanes += (uint32_t)__builtin_popcount(m);
}

// Accesses of the lanes m, which were found to be in order.
void stats_global(Warp *w, uint32_t m, const uint64_t *a, uint32_t bytes, Access access);
void stats_shared(Warp *w, const Ins *i, uint32_t m, const uint64_t *a, uint32_t bytes);
// Bytes in a row.
void stats_row(Warp *w, uint64_t a, uint32_t bytes, Access access);

#endif
