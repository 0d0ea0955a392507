// The functions that rules.def names: each makes the tests of a row.
#ifndef EMU_AGREES_MAKERS_H
#define EMU_AGREES_MAKERS_H

#include "tests/gpu/emu_agrees/agrees.h"

// make_alu.c: all that computes lane by lane; branches; lanes with each other
Maker make_alu, make_symbol, make_branch, make_end, make_warp, make_warp_barrier;
// make_memory.c
Maker make_load, make_store, make_atomic, make_cvta, make_cvta_to;
// make_sync.c
Maker make_barrier, make_fence, make_setmaxnreg, make_cluster, make_mbarrier, make_remote;
// make_async.c: cp.async of threads
Maker make_async, make_async_group, make_async_arrive;
// make_cache.c: what changes no value
Maker make_policy, make_hint;
// make_copy.c
Maker make_bulk_load, make_bulk_store, make_bulk_group, make_proxy, make_tensor_load,
    make_tensor_store, make_prefetch;
// make_matrix.c
Maker make_ldmatrix, make_stmatrix, make_mma;
// make_wgmma.c
Maker make_wgmma, make_wgmma_sync;

// What a row's name says.
Kind kind_of(const char *name, char letter); // of an operand
uint32_t type_bytes(const char *name);       // of its last part, ".u16"
const Bound *bound_of(const char *name, Type *type, Range *range);
// A part of a name, between dots.
bool has(const char *name, const char *part);

// Of a product of matrices: sums, A, B. magnitude: the bits of a register without the signs.
typedef struct MmaType {
    Element element;
    uint32_t magnitude;
} MmaType;
void mma_types(const char *name, MmaType type[3]);

// All threads of the block copy `bytes`, a multiple of 16, between addresses ("global"
// or "shared"); clobbers %d40 to %d44, %r40, %p40.
void copy_bytes(Make *m, const char *to, const char *to_space, const char *from,
                const char *from_space, uint32_t bytes);

#endif
