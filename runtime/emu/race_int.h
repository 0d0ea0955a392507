// Accesses to shared memory that nothing orders, and asynchronous ones without the fence or the
// wait that they need: what race.c keeps for every byte, and reports.
#ifndef RUNTIME_EMU_RACE_INT_H
#define RUNTIME_EMU_RACE_INT_H

#include "runtime/emu/order_int.h"

// How memory is accessed. DEED(name, verb, writes, asynchronous, atomic).
typedef enum Deed {
#define DEED(name, verb, writes, async, atomic) DEED_##name,
#include "runtime/emu/deed.def"
#undef DEED
    DEEDS
} Deed;

// What is wrong with an access, for a report.
typedef struct Fault {
    Warp *w;
    const Ins *i; // NULL: nothing
    int lane;
    ReportKind kind;
    Deed deed;
    const Cta *cta;
    uint32_t at, bytes;
    Mark mark;  // of the other access; 0: nothing wrote the bytes, or they are under way
    bool wrote; // so did the other
} Fault;
Step race_report(const Fault *f);

bool race_new(Cluster *c); // false: out of memory
void race_free(Cluster *c);
void race_start(Cluster *c);

// Lane `lane` of the warp (-1: all of it) does so to bytes of a CTA's shared memory, at `at` from
// SHARED_BASE; afterwards they bear the mark.
Step race_shared(Warp *w, const Ins *i, int lane, Cta *c, uint32_t at, uint32_t bytes, Deed deed,
                 Mark mark);

// The same of a read that may be of no consequence: what is wrong with it is kept, not reported.
void race_shared_idle(Warp *w, const Ins *i, Cta *c, uint32_t at, uint32_t bytes, Mark mark,
                      Fault *fault);

// An mbarrier is made, or gone.
void race_mbar(Cta *c, uint32_t at, bool is);
// One is used: is its init before, and, where copies count on it (async), fenced?
Step race_mbar_used(Warp *w, const Ins *i, int lane, const Mbar *b, bool async);

// Bytes in a row of a region of global memory, at address a.
enum { FAR_WRITES = 1, FAR_ATOMIC = 2, FAR_ASYNC = 4 };
Step race_global(Warp *w, const Ins *i, int lane, const Region *r, uint64_t a, uint64_t bytes,
                 uint32_t how);
void race_global_new(Region *r); // at a launch; without memory for it nothing is looked for
void race_global_free(Region *r);

#endif
