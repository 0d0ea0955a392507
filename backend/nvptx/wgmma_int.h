/* wgmma_int.h - what the files of the wgmma tier share: wgmma.c (the kernel, who multiplies),
 * wgmma_promote.c (with partial sums), wgmma_ring.c (stages), wgmma_load.c (who loads),
 * wgmma_load_plain.c and wgmma_plain_edge.c (the same without TMA), wgmma_out.c (after the loop),
 * wgmma_store.c (stores through shared memory), wgmma_tile.c (which tile, where its elements lie),
 * wgmma_guard.c (launch). */
#ifndef FK_NVPTX_WGMMA_INT_H
#define FK_NVPTX_WGMMA_INT_H

#include "backend/nvptx/hopper_int.h"
#include "ir/mma.h"

typedef struct Wg {
    Lower *l;
    const char *kernel; /* entry point */
    Mma m;
    MmaTiles t;
    int map_a, map_b; /* places of their tensor maps among the parameters */
    int map_out[MMA_STAGED];
    Val *pairs[MMA_STAGED]; /* of a chunk: bits of two neighbours, by row held and 8 columns */
    Val tid;                /* in the CTA */
    Val role;               /* uniform: warpgroup, 0 loads */
    Val smem;               /* i32: first stage */
    Val slabs;              /* i32: chunks of staged stores, by group and place in the ring */
    Val bars;               /* i32: full[stages], empty[stages] */
    Val first, stride;      /* i32: the CTA's first tile, and from one to its next */
    Val rank;               /* uniform: of the CTA in its cluster; NULL without one */
    /* of a consumer group */
    Val group;          /* uniform, from 0 */
    Val leader;         /* i1: its first thread */
    Val releases;       /* i1: its threads that say so when a stage is read, one for each CTA.. */
    Val empties;        /* i32: ..where: the first of the barriers `empty` */
    Val desc_a, desc_b; /* of stage 0: low words */
    Val row, col;       /* i32: of the thread's first element in the tile */
    Val *set[2];        /* partial sums of a piece */
    struct WgPlain
        *plain; /* of the loading group, if TMA does not bring all (wgmma_load_plain.c) */
} Wg;

/* A place in the ring: i32 stage, i32 phase bit (wgmma_ring.c). */
typedef struct Ring {
    Val stage, phase;
} Ring;

typedef Ring TileFn(Wg *w, Val tile, Ring r);

Ring ring_start(const Wg *w);
Ring ring_next(Wg *w, Ring r);
Ring ring_skip(Wg *w, Ring r);                         /* past a whole tile */
Val ring_before(Wg *w, Val stage);                     /* the stage before it */
const Ix *wg_k_tiles(const Wg *w);                     /* stages that a tile takes */
Val wg_at_stage(Wg *w, Val base, Val stage, int size); /* base + stage * size */
Val wg_full_bar(Wg *w, Val stage);
Val wg_empty_bar(Wg *w, Val stage);
int wg_pair(const Wg *w);                    /* CTAs of a cluster */
void wg_release(Wg *w, Val stage, Val pred); /* by a group: it has read the stage; NULL: always */

Val wg_phi(Lower *l, Ty t, Val from, LLVMBasicBlockRef before);
void wg_phi_next(Lower *l, Val p, Val v); /* from where code goes now */
/* for (tile = first; tile < tiles; tile += stride) do_tile */
Ring wg_tile_loop(Wg *w, Ring start, TileFn *do_tile);
/* From begin to end, uniform arithmetic goes to a block of its own, before what follows. */
LLVMBasicBlockRef wg_uniform_begin(Wg *w);
void wg_uniform_end(Wg *w, LLVMBasicBlockRef after);

/* The loading role, to its end: by TMA alone, or as threads do it (wgmma_load_plain.c). */
void wg_loader(Wg *w);
void wg_loader_plain(Wg *w);
/* What TMA brings of a stage at the open axes; announces its bytes. By one thread. */
void wg_load_factors(Wg *w, Val stage, Val full);

/* After the loop (wgmma_out.c). acc: as ptx_wgmma has it. */
typedef struct Acc {
    int n;
    Val *v;
} Acc;

/* Turns at issuing, of two groups: each waits and passes equally often, group 0 first. */
void wg_turn_wait(Wg *w);
void wg_turn_pass(Wg *w);

Wgmma wg_batch(const Wg *w); /* all that a group does with a stage */
/* The main loop with partial sums (wgmma_promote.c), as multiply in wgmma.c; and what is pending
 * after it. */
Ring wg_promote(Wg *w, Ring r, Acc *acc, Val *last);
void wg_promote_rest(Wg *w, Acc *acc, Val last);

void wg_emit_rows(Wg *w); /* what is the same along columns */
/* All the rest, and the stores; row: i64, of the group's first row; col0: i64, of the tile. */
void wg_emit_out(Wg *w, const Acc *acc, Val row, Val col0);

/* Where a tile begins: sets the batch axes, returns rows and columns as i64. */
void wg_decode(Wg *w, Val tile, Val *row0, Val *col0);
Val wg_tiles(Wg *w); /* i32 */
const Ix *wg_tile_total(const Wg *w);
void wg_open_one(Wg *w, int axis, Val at); /* one element, in range or harmless */

/* The elements of the accumulator that a thread holds: group rows; n columns from col0 on. */
void wg_open_rows(Wg *w, Val row0);
void wg_open_cols(Wg *w, Val col0, int n);

/* Staged stores (wgmma_store.c). hold: keeps what one writes, of the open columns, which begin at
 * `from` of the chunk; flush: writes the chunk, which begins at column `col`; slot: i32, of the
 * ring; pending: copies committed last that may go on meanwhile. */
const MmaStaged *wg_staged(const Wg *w, const TInst *i);
void wg_hold(Wg *w, const MmaStaged *s, int from);
void wg_flush(Wg *w, Val row, Val col, Val slot, int pending);
KTmap wg_map_out(const Wg *w, const MmaStaged *s);

void wg_guards(Wg *w, Kernel *k);
KTmap wg_map(const Wg *w, const MmaFactor *f, const MmaSmem *s); /* of one box */

Val uniform32(Wg *w, const Ix *x); /* of sizes, below 2^31 */
Val i32c(const Lower *l, int v);

#endif
