// Asynchronous copies. A load to shared memory is kept until a warp that waits needs it, or the
// seed draws it; a store is kept until its thread waits for it, first for what it reads.
#ifndef RUNTIME_EMU_COPY_INT_H
#define RUNTIME_EMU_COPY_INT_H

#include "runtime/emu/atomic_int.h"
#include "runtime/emu/tmap_int.h"

typedef struct Copy {
    const Ins *i;
    Warp *warp;
    int lane;
    const Tmap *map; // NULL: so many bytes in a row
    int32_t at[FK_TMAP_RANK];
    uint64_t global;        // of a row
    uint32_t shared, bytes; // shared: from SHARED_BASE; bytes: of the whole box
    Cta *cta;               // of the shared memory
    uint32_t bar;           // of a load: its mbarrier, from SHARED_BASE
    uint64_t phase;         // and the phase that is to end with it
    uint32_t group;         // of a store: how many of its thread's came before
    uint8_t *read;          // of a store: what it has read
    bool add;               // of a store: adds,
    AtomicType type;        // without a map: elements of this type
    bool again;             // of a multicast: what it reads goes to another CTA, too
} Copy;

// The stores of a warp's lanes.
typedef struct Bulk {
    Copy *copy;
    uint32_t n, room;
    uint32_t open[LANES], groups[LANES]; // stores since the last commit; groups committed
} Bulk;

// Takes note of one, which counts on the mbarrier; its bytes are not there yet.
Step copy_load(Cluster *c, const Copy *copy, Mbar *b);
Step copy_some_load(Cluster *c); // does one of them, drawn
Step copy_store(Warp *w, const Copy *copy);
void copy_commit(Warp *w, int lane);
// Until at most n groups of the lane are still to be read from shared memory, or to be written.
Step copy_wait(Warp *w, const Ins *i, int lane, uint32_t n, bool reads_only);
Step copy_finish(Cluster *c); // at the end
void copy_free(Cluster *c);

#endif
