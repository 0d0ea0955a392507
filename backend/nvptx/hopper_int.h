/* hopper_int.h - the instructions of sm_90a that LLVM 19 has no intrinsics for, as typed functions
 * (ptx_hopper.c). Shared addresses and barriers are i32 (shared::cta), maps are generic i64.
 */
#ifndef FK_NVPTX_HOPPER_INT_H
#define FK_NVPTX_HOPPER_INT_H

#include "backend/nvptx/desc_int.h"
#include "backend/nvptx/ptx_int.h"

Val ptx_map_address(Lower *l, const char *kernel, int param); /* of a by-value parameter */
void ptx_map_prefetch(Lower *l, Val map);
Val ptx_opaque(Lower *l, Val v);          /* i32; as it is, but LLVM does not know that */
Val ptx_vote_any(Lower *l, Val v);        /* i1: of a warp */
Val ptx_vote_ballot(Lower *l, Val v);     /* i32: bits of a warp's lanes */
Val ptx_first_lane(Lower *l, Val ballot); /* i32: of its bits, of which there are some */
Val ptx_elected(Lower *l);                /* i1: one thread of a warp, and ptxas knows it */
void ptx_rolled(Lower *l);                /* first in a loop: ptxas does not unroll it */
Val ptx_shfl_first(Lower *l, Val v);      /* i32 of lane 0: uniform in a warp, and ptxas knows it */
Val ptx_shfl_from(Lower *l, Val v, Val lane); /* the same of another lane */
void ptx_setmaxnreg(Lower *l, int regs, bool more);

/* Named barriers: id 1 to 15, n threads. */
void ptx_bar_sync(Lower *l, Val id, int n);
void ptx_bar_arrive(Lower *l, Val id, int n);

/* mbarriers. A phase ends when `count` arrivals and all expected bytes have come; wait returns once
 * the phase of that parity (i32, 0 or 1) has ended: parity 1 at once on a fresh barrier. */
void ptx_mbar_init(Lower *l, Val bar, int count);
void ptx_mbar_init_done(Lower *l); /* makes them known to the async proxy; a CTA barrier follows */
void ptx_mbar_expect(Lower *l, Val bar, Val bytes, Val pred); /* i32; and arrives */
void ptx_mbar_arrive(Lower *l, Val bar, Val pred);            /* pred NULL: always */
void ptx_mbar_wait(Lower *l, Val bar, Val parity);

/* Clusters of CTAs. In a cluster an address of shared memory also is one of shared::cluster, of the
 * CTA's own. map: that of the same place in CTA `rank`. arrive_at: on a barrier at such an address.
 */
Val ptx_cluster_rank(Lower *l); /* i32, of this CTA */
Val ptx_cluster_map(Lower *l, Val a, Val rank);
void ptx_mbar_arrive_at(Lower *l, Val bar, Val pred);
void ptx_cluster_barrier(Lower *l); /* all threads of all CTAs; what they wrote is seen after it */

/* One box at coord[0..rank), innermost first, to shared memory, counted on `bar`. */
/* mask: CTAs of the cluster that get it, at the same places of `to` and `bar`; 0: this one. pred
 * NULL: always. */
void ptx_tma_load(Lower *l, Val map, int rank, const Val *coord, Val to, Val bar, SEvict evict,
                  unsigned mask, Val pred);

/* One box from shared memory to global, where pred holds (NULL: always): boxes of a thread between
 * two commits are a group; wait_read until at most n of its groups are still being read from shared
 * memory. */
void ptx_tma_store(Lower *l, Val map, int rank, const Val *coord, Val from, Val pred);
void ptx_bulk_commit(Lower *l, Val pred);
void ptx_bulk_wait_read(Lower *l, int n, Val pred);
void ptx_fence_async(Lower *l); /* what was written to shared memory, for TMA */

/* Shared memory: four 8 x 8 matrices of 16 bits, each thread's pairs in v, rows at each thread's
 * address (ptx_ldmatrix reads them); or 2, 4, 8 bytes. */
void ptx_stmatrix4(Lower *l, Val to, const Val *v);
void ptx_store_shared(Lower *l, int bytes, Val to, Val v);
Val ptx_load_shared(Lower *l, int bytes, Val from);
void ptx_sync_warp(Lower *l); /* and what its threads did to memory is known to each other */

void ptx_store_shared4(Lower *l, Val to, int offset, const Val *v); /* four words, i32 */
void ptx_load_shared4(Lower *l, Val from, int offset, Val *v);
/* Bytes 4 i + 0..3 or (select: 0x3210 or 0x5432) 4 i + 2..5 of the words v[0..4], i below 4. */
void ptx_store_shifted(Lower *l, Val to, int offset, Val select, const Val *v);
/* Four words of global memory, kept as they are where pred does not hold; in order with others. */
void ptx_load_words(Lower *l, Val from, int offset, Val pred, Val *v);
Val ptx_mad_wide(Lower *l, Val a, Val b, Val c); /* i32 * i32 + i64, signed */

/* wgmma: a batch. acc: (blocks of 64 rows) x n / 2 f32, block by block; replaced by the new values,
 * which may not be touched before ptx_wgmma_wait has them too. */
typedef struct Wgmma {
    DType a_type, b_type; /* bf16 or f16, both; or fp8 */
    int blocks, n, steps; /* steps: of 32 bytes along k */
    int of_part;          /* blocks of each factor of rows */
    WgmmaOperand a, b;
} Wgmma;
/* What is added to a's low word for a block of 64 rows. */
int wgmma_block(const Wgmma *w, int block);
/* a, b: i32, low words. add: i32, 0: overwrites acc, else adds to it; NULL: overwrites. */
void ptx_wgmma(Lower *l, const Wgmma *w, Val a, Val b, Val add, Val *acc);
/* Until at most `pending` of the batches issued last go on: no accumulator is read after it; or
 * acc, of a batch that is done then, may be read. */
void ptx_wgmma_wait_group(Lower *l, int pending);
void ptx_wgmma_wait(Lower *l, int pending, int n, Val *acc);

/* The same where operands are cut into pieces (ptx_wgmma.c): 64 rows x n, k16 a step, descriptors
 * with one high word. In units of 16 bytes: from a step to the next in a piece, from a piece to the
 * next, which come every per_piece steps. scores: both in shared memory, K-major; overwrites acc.
 * rows: a in registers, four words a step; b MN-major; adds to acc; several with one group: the
 * first makes the fence, the last commits. */
typedef struct WgmmaPieces {
    DType type;
    int n, steps, per_piece;
    int a_step, a_piece, b_step, b_piece;
    uint32_t high;
    bool k_major; /* b, of made */
} WgmmaPieces;
void ptx_wgmma_scores(Lower *l, const WgmmaPieces *w, Val a, Val b, Val *acc);
void ptx_wgmma_rows(Lower *l, const WgmmaPieces *w, const Val *a, Val b, Val *acc, bool first,
                    bool last);
/* As rows, a group of its own; b as w->k_major says. add: i32, 0: overwrites acc; NULL: adds. */
void ptx_wgmma_made(Lower *l, const WgmmaPieces *w, const Val *a, Val b, Val add, Val *acc);
/* Floats that are made before this are not made later, nor what uses them earlier. */
void ptx_hold(Lower *l, int n, Val *v);

#endif
