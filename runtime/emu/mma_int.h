// wgmma: what is asked for, by warp and by warpgroup, until it is waited for.
//
// A warpgroup's operations are one queue; each of its four warps appends to it, or agrees with what
// is there. They are done when a warp waits for them, all of them at once, and not before: until
// then the accumulators hold what they held, and shared memory may be overwritten.
#ifndef RUNTIME_EMU_MMA_INT_H
#define RUNTIME_EMU_MMA_INT_H

#include "runtime/emu/poison_int.h"

typedef struct MmaOp {
    const Ins *i;
    uint64_t a, b;  // descriptors; a: 0 if A is in registers
    bool add, done; // add: to the accumulators, else instead of them
    uint8_t came;   // warps
    uint64_t bad;   // rows of A that hold what they should not
} MmaOp;

// Of a warpgroup. Operations are counted from the beginning; op[k] is number first + k.
typedef struct MmaQueue {
    MmaOp *op;
    uint32_t n, room;
    uint64_t first;
    Fault fault; // the last one
} MmaQueue;

// Rows of A that every tile has.
enum { LEAST_ROWS = 16 };

enum { MMA_REGISTERS = 1024, MMA_COMMITS = 64 };

typedef struct Mma { // of a warp
    MmaQueue *queue;
    uint64_t asked, waited;       // operations
    uint64_t commit[MMA_COMMITS]; // asked at the last commits; the newest at (commits - 1) % 64
    uint64_t commits;
    // By register (its place / 128): one that a pending operation writes, or reads; one touched
    // since the last wgmma.fence.
    uint64_t writes[MMA_REGISTERS / 64], reads[MMA_REGISTERS / 64], touched[MMA_REGISTERS / 64];
    bool pending;
} Mma;

// Rows of A of the warp's last operation are bad; rows that narrow tiles have not of one that a
// mark is of, if it is still to be done.
void mma_spoil(Warp *w, uint64_t rows, const Fault *f);
void mma_spoil_pending(Cluster *c, Mark m, const Fault *f);

// An instruction of the warp touches registers of wgmma: are they free?
Step mma_touch(Warp *w, const Ins *i);
Step mma_fence(Warp *w);
Step mma_ask(Warp *w, const Ins *i, uint64_t a, uint64_t b, bool add);
void mma_commit(Warp *w);
// The operations that a wait for all but n groups needs: numbers below *until. BLOCK: other warps
// have not asked for them yet.
Step mma_wait(Warp *w, const Ins *i, uint32_t n, uint64_t *until);
// They were done, and the warp has waited for them.
void mma_waited(Warp *w, uint64_t until);
void mma_reset(Warp *w);

#endif
