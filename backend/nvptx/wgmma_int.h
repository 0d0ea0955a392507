/* wgmma_int.h - what the files of the wgmma tier share: wgmma.c (the kernel, who multiplies),
 * wgmma_promote.c (with partial sums), wgmma_strips.c (scales of those), wgmma_ring.c (stages),
 * wgmma_load.c (who loads), wgmma_load_plain.c and wgmma_plain_edge.c (the same without TMA),
 * wgmma_make.c (where threads make factors), wgmma_regs.c (where those who multiply do, in
 * registers), wgmma_out.c (after the loop), wgmma_reduce.c, wgmma_reduce_rows.c (reductions of it),
 * wgmma_store.c and wgmma_bring.c (stores and loads there through shared memory), wgmma_slab.c (who
 * copies those), wgmma_split.c (parts of a tile), wgmma_tile.c (which tile, where its elements
 * lie), wgmma_guard.c (launch), wgmma_grouped.c (products with tiles of their own). */
#ifndef FK_NVPTX_WGMMA_INT_H
#define FK_NVPTX_WGMMA_INT_H

#include "backend/nvptx/hopper_int.h"
#include "ir/mma.h"

typedef struct Wg {
    Lower *l;
    const char *kernel; /* entry point */
    Mma m;
    MmaTiles t;
    int map_a[MMA_SUMS], map_b[MMA_SUMS]; /* places of their tensor maps among the parameters */
    int map_raw[MMA_RAW];
    int map_out[MMA_STAGED], map_in[MMA_STAGED];
    Val *pairs[MMA_STAGED]; /* of a chunk: bits of two neighbours, by row held and 8 columns */
    Val tid;                /* in the CTA */
    Val role;               /* uniform: warpgroup, 0 loads */
    Val smem;               /* i32: first stage */
    Val slabs;              /* i32: chunks of staged stores, by group and place in the ring */
    Val bars;               /* i32: full[stages], empty[stages] */
    Val slab_bars;          /* i32: what the role slab shares (wgmma_slab.c) */
    Val first, stride;      /* i32: the CTA's first tile, and from one to its next */
    Val rank;               /* uniform: of the CTA in its cluster; NULL without one */
    Val walk, walked;       /* i32, i1: which tile of a block of columns, and is it the last; where
                               a block has several, else NULL */
    /* of a consumer group, or of the thread that copies its slabs */
    Val group;                            /* uniform, from 0 */
    Val slab_slot, slab_phase, slab_used; /* pointers to i32: the next place in the ring of slabs */
    Val slab;                             /* i32: the slab at hand */
    /* of a consumer group */
    Val leader;         /* i1: its first thread */
    Val releases;       /* i1: its threads that say so when a stage is read, one for each CTA.. */
    Val empties;        /* i32: ..where: the first of the barriers `empty` */
    Val lane0;          /* i1: first of a warp */
    Val desc_a, desc_b; /* of stage 0: low words */
    Val row, col;       /* i32: of the thread's first element in the tile */
    Val turn;           /* uniform: of a tile's dealt stages the group has every so many-th from
                           this one on; who has the first does what follows the loop */
    Val *set[2];        /* partial sums of a piece */
    int strip_rows, strip_cols; /* rows, columns or groups of them that are scaled, of a thread */
    Val *scales;                /* of the stage whose last piece is pending after the loop */
    bool direct;        /* what is emitted now stores from registers whatever the schedule says */
    bool inside;        /* all columns of what is emitted now are there */
    Val product;        /* with `grouped`, uniform, i32: which one the tile is of */
    unsigned only, *of; /* sums for which code is emitted now, as bits; per instruction of the body
                           for which it is. NULL: all are of one tile */
    struct WgReduce *reduce; /* wgmma_reduce.c */
    struct WgPlain
        *plain; /* of the loading group, if TMA does not bring all (wgmma_load_plain.c) */
} Wg;

/* A place in the ring: i32 stage, i32 phase bit (wgmma_ring.c). */
typedef struct Ring {
    Val stage, phase;
} Ring;

/* What a CTA does at a time (wgmma_split.c): a tile, or a part of it along k. i32. */
typedef struct Work {
    Val tile, first, len; /* stages of k: where it begins, how many */
    /* Where tiles may be split, else NULL. */
    Val cut;          /* i1: it is a part */
    Val number, part; /* which of the tiles that are cut; which of their parts */
} Work;

const Ix *wg_work_total(const Wg *w);
Work wg_work(Wg *w, Val item);
void wg_split_memory(Wg *w, Kernel *k);

typedef Ring TileFn(Wg *w, Val item, Ring r);

Ring ring_start(const Wg *w);
Ring ring_next(Wg *w, Ring r);
Ring ring_skip(Wg *w, Ring r);                         /* past a whole tile */
Ring ring_on(Wg *w, Ring r, Val by);                   /* `by` stages on, at most all of them */
Val ring_before(Wg *w, Val stage);                     /* the stage before it */
const Ix *wg_k_tiles(const Wg *w);                     /* stages that a tile takes */
Val wg_at_stage(Wg *w, Val base, Val stage, int size); /* base + stage * size */
Val wg_full_bar(Wg *w, Val stage);
Val wg_empty_bar(Wg *w, Val stage);
int wg_pair(const Wg *w);                    /* CTAs of a cluster */
void wg_release(Wg *w, Val stage, Val pred); /* by a group: it has read the stage; NULL: always */

Val wg_phi(Lower *l, Ty t, Val from, LLVMBasicBlockRef before);
Val wg_phi_first(Lower *l, LLVMBasicBlockRef at, Val from, LLVMBasicBlockRef before); /* there */
void wg_phi_next(Lower *l, Val p, Val v); /* from where code goes now */
/* for (item = first; item < items of work; item += stride) do_tile, of each tile of its block */
Ring wg_tile_loop(Wg *w, Ring start, TileFn *do_tile);
/* From begin to end, uniform arithmetic goes to a block of its own, before what follows. */
LLVMBasicBlockRef wg_uniform_begin(Wg *w);
void wg_uniform_end(Wg *w, LLVMBasicBlockRef after);

/* The loading role, to its end: by TMA alone, or as threads do it (wgmma_load_plain.c). */
void wg_loader(Wg *w);
void wg_loader_plain(Wg *w);
void wg_loader_make(Wg *w);
void wg_guard_make(Wg *w, Kernel *k, const MmaFactor *f);
/* What threads wrote of a stage is there: a warp's arrival. */
/* Beside what threads load: what TMA brings of a stage, asked for by one thread of a warpgroup. */
void wg_load_other(Wg *w, Val k0, Val stage, Val full);
void wg_publish(Wg *w, Val full);
/* What there is of a tile's factors, at the open axes: boxes that lie wholly beyond the end are not
 * loaded (zeros would take TMA four times as long as rows), and what wgmma reads there instead
 * makes nothing that is stored. */
typedef struct Present {
    Val boxes; /* i32: how many it loads; NULL: all */
    Val bytes; /* i32: of all boxes, the other CTA's too */
} Present;
typedef struct Presents {
    Present a, b; /* of each factor of rows; of columns */
    Present raw[MMA_RAW];
    Val bytes;
} Presents;
Presents wg_presents(Wg *w);
/* What TMA brings of a stage; announces its bytes. By one thread. */
void wg_load_factors(Wg *w, const Presents *p, Val stage, Val full);

/* After the loop (wgmma_out.c). v: as ptx_wgmma has it. */
typedef struct Acc {
    int n; /* of all sums */
    Val *v;
    int cols;       /* of each sum, that it has */
    int line, next; /* registers from 64 rows to the next; from the first of a sum to the next's */
} Acc;

/* Turns at issuing, of two groups: each waits and passes equally often, group 0 first. */
void wg_turn_wait(Wg *w);
void wg_turn_pass(Wg *w);

/* Code for each product, of which the tile's own is run (wgmma_grouped.c); without `grouped` once.
 */
void wg_each_product(Wg *w, void (*emit)(Wg *w, void *ctx), void *ctx);
bool wg_is_for(const Wg *w, unsigned of); /* is it of the products of which code is emitted now? */
bool wg_inst_is_for(const Wg *w, int k);  /* the same of the k-th instruction of the body */
void wg_grouped_init(Wg *w);
Val wg_map_of_product(Wg *w, const int *map, int n); /* address of the tensor map, of n */

Wgmma wg_batch(const Wg *w); /* all that a group does with a stage */
/* All that follows the loop, of a whole tile or of a part. */
void wg_emit_rest(Wg *w, const Work *k, const Acc *acc, Val row, Val col0);
Acc wg_acc(const Wg *w); /* with memory for what it makes */
/* Sums made elsewhere, of so many columns and registers: none yet, and one more. */
Acc wg_no_sums(Wg *w, int cols, int regs);
void wg_add_sum(Wg *w, Acc *acc, int carry, const Val *v);
/* The main loop with partial sums (wgmma_promote.c), as multiply in wgmma.c; and what is pending
 * after it. */
Ring wg_promote(Wg *w, const Work *k, Ring r, Val row0, Val col0, Acc *acc, Val *last);
void wg_promote_rest(Wg *w, Acc *acc, Val last);
/* The main loop where the factor of rows is made in registers (wgmma_regs.c), from row0 on; and,
 * where groups have dealt a tile's stages, their sums come together in the first turn's. */
Ring wg_multiply_regs(Wg *w, const Work *k, Val row0, Ring r, Acc *acc, Val *last);
void wg_add_dealt(Wg *w, Acc *acc);
void wg_guard_regs(Wg *w, Kernel *k);

/* Blocks of k that are scaled (wgmma_strips.c), between open and close, at a tile's rows and
 * columns. load: what scales a stage (i32), n values of any type; use: it is what scales now; add:
 * what is made of the accumulator's registers from `first` on. */
void wg_strips_open(Wg *w, Val row0, Val col0);
void wg_strips_close(Wg *w);
Val *wg_strips_load(Wg *w, Val stage, int *n);
void wg_strips_use(Wg *w, Val *v);
void wg_strips_add(Wg *w, Val *sum, const Val *set, int first, int n);

void wg_emit_rows(Wg *w); /* what is the same along columns */
/* All the rest, and the stores; row: i64, of the group's first row; col0: i64, of the tile. */
void wg_emit_out(Wg *w, const Acc *acc, Val row, Val col0);
/* The same for the few columns that acc has, from col on, stored from registers. */
void wg_emit_chunk(Wg *w, const Acc *acc, Val col);
/* Of a part: the sums of all parts come together, and are worked on (wgmma_split.c). */
void wg_join(Wg *w, const Work *k, const Acc *acc, Val col0);

/* Reductions of blocks (wgmma_reduce.c); nothing where the program has none. init: for the whole
 * kernel; begin: of a tile, of a part of its columns; take: the elements of the open rows and
 * columns, which begin at column `from` of the part, first those that depend on no frame (then
 * frames move, and the values of frames are there), then those that do; part: of `cols` columns
 * from `col` on, up to the tile's `done`-th (i32), is taken, of the group's rows from `row` on: a
 * block may be whole. branch: if (cond) then(w, ctx). */
void wg_reduce_init(Wg *w);
void wg_reduce_begin(Wg *w);
void wg_reduce_begin_part(Wg *w);
void wg_reduce_take(Wg *w, int from, bool framed);
bool wg_reduce_framed(const Wg *w, int k); /* the k-th instruction depends on a moving frame */
bool wg_reduce_frames(const Wg *w);        /* some do */
void wg_reduce_part(Wg *w, Val row, Val col, int cols, Val done);
void wg_reduce_branch(Wg *w, Val cond, void (*then)(Wg *w, void *ctx), void *ctx);

/* Where a tile begins: sets the batch axes (and walked), returns rows and columns as i64. */
void wg_decode(Wg *w, Val tile, Val *row0, Val *col0);
const Ix *wg_tile_total(const Wg *w);
void wg_open_one(Wg *w, int axis, Val at);   /* one element, in range or harmless */
Val wg_factor_at(Wg *w, const MmaFactor *f); /* i64: an address, at the open axes and k = 0 */
/* What TMA wants, i32, innermost first: an access at the open axes, which hold one element each. */
void wg_coords(Wg *w, const TInst *i, Val *coord);

/* Opens an axis at n elements one after the other, which may lie beyond its end: all or none of
 * them if together. */
void wg_open_run(Wg *w, int axis, Val first, int n, bool together);
/* At `first` and so many elements after it; all are there. */
void wg_open_steps(Wg *w, int axis, Val first, int n, const int64_t *step);

/* The elements of the accumulator that a thread holds: group rows; n columns from col0 on. */
void wg_open_rows(Wg *w, Val row0);
void wg_open_cols(Wg *w, Val col0, int n);
/* The first columns of n groups of `size`, the same for all threads. */
void wg_open_col_groups(Wg *w, Val col0, int n, int size);

/* Staged stores (wgmma_store.c). hold: keeps what one writes, of the open columns, which begin at
 * `from` of the chunk; flush: writes the chunk, which begins at column `col`; slot: i32, of the
 * ring; pending: copies committed last that may go on meanwhile. write: writes what is held to a
 * slab; copy: all of them from a slab to global memory, by who is where pred holds (NULL: here). */
const MmaStaged *wg_staged(const Wg *w, const TInst *i);
void wg_hold(Wg *w, const MmaStaged *s, int from);
void wg_flush(Wg *w, Val row, Val col, Val slot, int pending);
void wg_write(Wg *w, Val slab);
void wg_copy(Wg *w, Val slab, Val row, Val col, Val pred);
void wg_meet(Wg *w); /* all threads of a group */
KTmap wg_map_slab(const Wg *w, const MmaStaged *s);

/* A box in shared memory: its bytes; the thread's place P in it, its row and first bytes, swizzled:
 * the j-th 8 columns are at P ^ (bytes of 8 columns * j), rows 64 further at + 64 * swizzle. */
int wg_box_bytes(const Wg *w, const MmaStaged *s);
Val wg_place_in_box(Wg *w, const MmaStaged *s);

/* Loads that were brought (wgmma_bring.c): of the open rows and columns, which begin at `from` of
 * the slab at hand. */
const MmaStaged *wg_brought(const Wg *w, const TInst *i);
void wg_read(Wg *w, const MmaStaged *s, int from);
/* Pairs of `n` times 8 columns (2 only with ldmatrix) from the j-th 8 of a box on, of all rows
 * held; p: wg_place_in_box; pair[2 * row + k]: of the k-th 8 columns. */
void wg_read_box(Wg *w, const MmaStaged *s, Val box, Val p, int j, int n, Val *pair);

/* The role slab (wgmma_slab.c). */
void wg_slab_init(Wg *w);            /* its barriers; before all */
void wg_slab_ready(Wg *w, Val pred); /* one thread: the first tile is on its way */
void wg_slab_role(Wg *w);            /* of one thread a group, to its end */
void wg_slab_consumer(Wg *w);        /* start of a consumer group */
void wg_slab_take(Wg *w);            /* waits for the next slab, sets w->slab */
void wg_slab_give(Wg *w);            /* it was read and written */

/* Of a kernel with this accumulator: what is known of program and schedule, builders (NULL, and a
 * diagnostic: they do not fit); then, when its body is made, guards and all around it. */
LLVMBasicBlockRef wg_begin(Wg *w, Lower *l, Kernel *k, Diags *d);
bool wg_end(Wg *w, LLVMBasicBlockRef entry, Kernel *k, Diags *d);
void wg_guards(Wg *w, Kernel *k);
void wg_guard_map_in(Wg *w, Kernel *k, const Mma *m, const TInst *load); /* that TMA brings */
void wg_guard_map_out(Wg *w, Kernel *k, const TTensor *x); /* the same, to store through */
void wg_builders(Lower *l); /* the body, with a builder for each of its parts */
Val wg_shared_base(Wg *w);  /* i32 */
void wg_make_kernel(Wg *w); /* around the body */
KTmap wg_map(const Wg *w, const MmaFactor *f, const MmaSmem *s); /* of one box */

Val uniform32(Wg *w, const Ix *x); /* of sizes, below 2^31 */
Val i32c(const Lower *l, int v);

#endif
