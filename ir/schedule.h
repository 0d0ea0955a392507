/* schedule.h - how a tile program is laid on a GPU. It changes speed only, never meaning.
 *
 * `move` and `mul` choose the tier (DESIGN.md, Backend). The plain/FMA tier, which is the general
 * kernel, uses axes, threads and nothing else; the rest of the fields are for the pipelined
 * tiers and read as absent when zero.
 *
 * Layout of an axis on threads: element = tile_start + vec * (lane + lanes * r) + v for lane in
 * [0, lanes), register r in [0, regs), v in [0, vec): `vec` neighbours side by side in one thread,
 * lanes side by side across threads, regs strided by lanes * vec. A grid axis's CTA tile is
 * lanes * regs * vec elements. A loop axis with lanes > 1 is cut across threads, whose partial
 * carries are merged in a fixed order after the loop; only outermost loops may have lanes.
 * Lanes of the axes in the order of `axes` make up the thread index, first fastest; their product
 * is `threads`. An entry with `shared` is laid on the lanes of the entry before it and adds no
 * factor (same lanes; both are loop axes, of loops that are never open together): a row's
 * statistics and the loop that applies them use the same threads.
 *
 * The wgmma tier (move tma, mul wgmma). The program has one outermost loop (k) whose carry takes
 * in the product of two loads: A uses k and the grid axis m, B uses k and the grid axis n, neither
 * uses the other's; further grid axes are batch (tile 1), used by either load or both. m is the
 * first of the two in the list of axes: listed the other way round, the operands are swapped. Axis
 * m has tile 64 * x, or for a thin program less, in eights (a group's instructions have 64 rows all
 * the same); n a multiple of 8, k the elements of one stage (128 bytes). A value entry for each
 * of the two loads says place smem, buffers: stages, swizzle 128 (64 or 32 too where k is not the
 * load's last dimension: the tile is cut into boxes so wide); with `plain`, which needs 128, all
 * threads that load bring it, from any address and pitch. Roles: "load" (4 warps, of which one
 * thread works unless a load is plain) and "mma" (4 warps a consumer group, registers each; those
 * that have fewer than at the start give them to the others). pingpong: each consumer
 * group has its own tiles of m x n; otherwise the groups split m. persistent: CTAs walk tiles by
 * ctaid + i * nctaid in groups of `raster` tiles of m. Values after the loop live in the
 * accumulator's fragment: a thread knows (row, column) of each of its registers. A store entry:
 * value of the stored value, place smem: staged through shared memory and TMA, `buffers` of
 * `slabs` boxes, each `swizzle` bytes wide; without an entry, stores go from registers. A load
 * after the loop with such an entry is brought there by TMA, without one it is read where it is
 * used. Bringing needs a third role, "slab" (one warp a consumer group, of the four that "load" has
 * otherwise): it brings what is loaded, ahead of time, and takes away what is stored. Without it
 * the groups store themselves. All entries have the same number of buffers, each as wide as the
 * widest.
 * A loop over blocks (ir/online.h) has the roles load and mma too; where data decide which blocks
 * have anything, "pick" (one warp of the four that "load" has otherwise) looks at the data ahead of
 * time and only those blocks are worked on.
 * A value entry that says place reg, of a factor of rows that is a function of loads: the groups
 * make it in the registers that wgmma reads it from; buffers are of the loads, which TMA brings. A
 * stage may have 64, 128 or 256 of k then. deal: groups share a tile of 64 rows, each multiplies
 * every so many-th stage of it, and their sums are added up in shared memory, in the order of the
 * groups. promote: the tensor core sums so many k (a stage's) by itself, and what it has is added
 * to sums in f32 registers. It does so for one of `pieces` parts of a group's rows and columns
 * after the other, in `sets` register sets of partial sums: with one a group waits for each piece,
 * with two it adds one while the next is made. turns: groups that share a tile take turns at
 * issuing pieces.
 *
 * split: where the last round of tiles does not fill the multiprocessors, its tiles are cut into as
 * many parts along k; their sums meet in scratch memory and are added in the order of k, and what
 * follows the loop is done by all parts, each for some columns, from registers to global memory.
 * Of a loop with frames (ir/online.h) the blocks of a tile are cut, all that is carried is merged,
 * and who is last does what follows.
 *
 * A loop that multiplies, works on and multiplies again (ir/online.h). The list of axes has rows,
 * columns, j (the elements of a block), each k, whole but for j; batches that are listed, with a
 * tile of 1, are walked faster than others, the last one fastest. Value entries: of each factor as
 * above; of a load over rows and j, place smem: TMA brings what a block reads of it, `buffers`
 * ahead, without an entry it is read where it is used; of stores as above, from registers or
 * staged. raster: so many batches are walked together. halves: of 8 columns of a block, how many
 * are worked on before the frame is known to hold. A tile of 64 rows and several groups: all of
 * them make the same scores, and each has a part of the columns, in 64s.
 *
 * Where all this stands in loops over blocks that are reduced (ir/mma.h), the axis inside of a
 * block stands for the elements that the blocks cut: its tile is whole blocks, or a part of one:
 * then a CTA walks the tiles of a block, one after the other.
 *
 * The plain tier, with `wide`: split: most CTAs of rows that are cut into parts, of a launch for
 * each loop that carries values and one more (rows_cut.c).
 *
 * The mma.sync tier (move cpasync, mul mma) takes the same programs as far as nothing is reduced of
 * them. All warps are alike: `lanes` of m and n say how many stand side by side along each, and
 * threads is 32 times their product; a warp's part of the tile is a multiple of 16 x 16. k has 32
 * or 64 elements. Of the factors swizzle is the bytes of a line: K-major all k of a stage; MN-major
 * 32, 64 or 128; with `plain` threads bring elements one by one, from any address and pitch. Values
 * after the loop live in the accumulator's fragment, stores go from registers. persistent: as
 * above; without, there is a CTA for each tile, and several may share a multiprocessor.
 *
 * A loop over blocks by mma.sync: one role, "mma", of groups of 4 warps, with the registers of a
 * thread, which say how many CTAs a multiprocessor holds. A warp has 16 of each 64 rows of its
 * group, which has 64 rows, or 128. One buffer of the rows' factors; nothing else is brought,
 * staged or picked.
 *
 * grouped: of several sums none of which meets another after the loop, each has tiles of its own:
 * as many products side by side, which one a tile is of is told by its number, the column of tiles
 * being counted through all of them.
 *
 * cluster 2 1 1: two CTAs work on tiles that are neighbours along rows; each loads its own rows,
 * and half of the columns' factor for both. cluster 1 2 1: neighbours along columns share the
 * rows'.
 *
 * Text form: schedule_print / schedule_parse; grammar at the head of ir/schedule_text.c.
 */
#ifndef FK_IR_SCHEDULE_H
#define FK_IR_SCHEDULE_H

#include "ir/tile.h"

typedef enum SMove { MOVE_plain, MOVE_cpasync, MOVE_tma } SMove;
typedef enum SMul { MUL_fma, MUL_mma, MUL_wgmma } SMul;
typedef enum SPlace { PLACE_reg, PLACE_smem, PLACE_global } SPlace;
/* What the second-level cache lets go first: what is read once; last: what all CTAs read. */
typedef enum SEvict { EVICT_none, EVICT_first, EVICT_last } SEvict;

typedef struct SAxis {
    int axis, lanes, regs, vec;
    bool shared; /* on the lanes of the entry before it */
    int tile;    /* pipelined tiers: elements of a CTA's tile (grid axis) or of a stage (loop axis);
                    0 reads as 1. lanes, regs and vec are 1 then */
} SAxis;

typedef struct SValue { /* where a value lives between its definition and its uses */
    int value;
    SPlace place;
    int buffers;
    int swizzle; /* bytes; 0 none */
    int slabs;   /* of a staged store: boxes side by side in a buffer; 0 reads as 1 */
    SEvict evict;
    bool plain; /* a load: comes by plain loads, whatever `move` says */
    bool over;  /* a staged store: its slabs lie over what was loaded once for the tile, or take a
                   buffer's turn of what is loaded element by element (ir/online.h) */
} SValue;

typedef struct SOp { /* an instruction of a loop body, by the value it defines */
    int value;
    int stage;         /* software-pipeline skew in iterations */
    int order;         /* issue order within the body */
    int wait, release; /* values waited for before it, buffers handed back after it; -1 none */
} SOp;

typedef struct SRole { /* a group of warps with one job */
    const char *name;
    int warps, regs;
} SRole;

typedef struct Schedule {
    const char *name;
    const char *target; /* row of target.def */
    SMove move;
    SMul mul;
    int threads;
    VEC(SAxis) axes;
    VEC(SValue) values;
    VEC(SOp) ops;
    VEC(SRole) roles;
    int cluster[3];   /* CTAs; 0 reads as 1 */
    int raster;       /* tiles of the second grid axis walked together */
    int split;        /* most parts of the outermost loop, of tiles of the last round (mma_parts.c),
                         on separate CTAs; 0 reads as 1 */
    int halves;       /* a guard's body is issued in so many parts */
    int promote;      /* elements of the outermost loop that the tensor core sums alone; 0: all */
    int pieces, sets; /* with promote; 0 reads as 1 */
    bool pingpong, turns, persistent, grouped;
    bool deal; /* groups share a tile, and each multiplies every so many-th stage of it: buffers are
                  a multiple of the groups */
    bool wide; /* plain tier: accesses along axes with vec > 1 are of whole vectors (guarded), and
                  loops join their blocks by trees */
    bool held; /* loops over whole axes: a tile holds them (guarded), and what one loop computed
                  the next one has */
    bool dynamic;   /* persistent: a CTA takes the next tile that nobody has */
    const Ix *cost; /* predicted nanoseconds, of sizes; NULL: not said. Not in the text. */
} Schedule;

void schedule_print(Str *out, const Schedule *s, const TProg *t);
Schedule *schedule_parse(Arena *a, const Source *src, const TProg *t, Diags *d);
bool schedule_verify(const Schedule *s, const TProg *t, Str *why);

#endif
