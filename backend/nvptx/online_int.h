/* online_int.h - what the files of the online kernel share: online.c (the kernel, its roles, which
 * tile), online_next.c (tile after tile), online_load.c (who loads), online_page.c (where, if data
 * say), online_tile.c (who multiplies: the blocks of a tile, and what follows them), online_state.c
 * (what goes from block to block), online_wgmma.c (what the tensor core is given), online_skip.c
 * (blocks of which a group needs none), online_part.c (of which it needs a part), online_stream.c
 * (tiles that run into one another), online_split.c and online_merge.c (parts of a tile),
 * online_block.c (a block: what is computed of its elements), online_row.c (what is carried over
 * rows, and frames), online_mask.c (elements that are out), online_exp.c (exponentials of sums),
 * online_index.c (what is made of indices), online_near.c (functions near 0), online_still.c
 * (frames that need not move), online_lag.c (branches of a warp in a block), online_bring.c (what
 * else is read, by TMA), online_scrub.c (factors that no row has), online_pick.c (which blocks),
 * online_words.c (who says so), online_bits.c (conditions that votes tell), online_turn.c (groups
 * that take turns); without TMA and wgmma: online_copy.c, online_mma.c. */
#ifndef FK_NVPTX_ONLINE_INT_H
#define FK_NVPTX_ONLINE_INT_H

#include "backend/nvptx/approx_int.h"
#include "backend/nvptx/wgmma_int.h"
#include "ir/online.h"

enum {
    ROWS_HELD = 4, /* at most, by a thread: 2 of every 64 */
    ON_BITS = 2    /* of bits of a thread's elements of a block's row */
};

/* What an element that is out is, or is not; see online_mask.c. */
typedef struct OnOut {
    enum { OUT_ANY, OUT_IS, OUT_ISNT } kind;
    double v;
} OnOut;

/* Where it is used, an index is taken for no further from 0 than `most`. */
typedef struct OnBound {
    const Ix *lo, *hi;
    int64_t most;
    bool *used;
} OnBound;

/* A function of elements that has a form of its own where it is near 0. */
enum { ON_NEAR = 4 };
typedef struct OnNear {
    const TInst *i;
    int base; /* value that its argument is computed from: p of it */
    Poly p;
    double most; /* magnitude of the base where the form is right */
} OnNear;

/* A coordinate of a page, of which each lane of the loader has one a block. */
typedef struct OnPlace {
    const Ix *x, *extent;
} OnPlace;

typedef struct OnRange { /* i32, uniform */
    Val first, end;      /* blocks [first, end) */
    Val whole, beyond;   /* those of [whole, beyond) hang over no bound */
    Val low; /* i1, of a group's blocks: it needs no more than the low part of the last, end - 1;
              * NULL: that is not asked */
} OnRange;

typedef struct OnPart { /* of a block's columns */
    int from, cols;
} OnPart;

typedef struct OnRanges {
    OnRange all, mine;     /* blocks of a tile; of these, those that the consumer group needs */
    Val lo_least, hi_most; /* i32: bounds of j of all rows that there are; of picked blocks: of the
                            * tile's */
} OnRanges;

/* Where a factor's tile lies in global memory: its first line, and which line that is. */
typedef struct OnFrom {
    Val at, line; /* pointer, i32 */
} OnFrom;

typedef struct On {
    Wg w; /* the tile after the loop, and what all roles know */
    Lower *l;
    Online o;
    OnlineTiles t;
    int held;          /* rows that a thread has */
    int nsums, nelems; /* registers of a product's sums, of a block's elements */
    int map_q[ONLINE_SCORES], map_k[ONLINE_SCORES], map_v[ONLINE_PRODUCTS];
    int map_e[ONLINE_BROUGHT];
    VEC(OnPlace) places;     /* of pages */
    int page_lines;          /* from lane to lane; a page has a multiple of it, or a block has */
    int loaders;             /* warps that share the pages; 0: one thread loads */
    bool *by_page;           /* per value: says where a page is */
    bool scrub_lo, scrub_hi; /* what lies beyond the bounds may be in a tensor all the same */
    bool cut_lo, cut_hi;     /* a block may hang over the bounds of j */
    int lo_moves, hi_moves;  /* with the rows (online_moves) */
    bool *needed;            /* per value: what is stepped without a frame needs it */
    bool *late;              /* per value: depends on a score or a frame */
    bool *words;             /* per value: loaded as words of two neighbours */
    int word_regs;           /* of 8 columns */
    bool *deferred;          /* per value: needs no score, waits for them all the same */
    OnOut *out;              /* per value: in the loop, of elements that are out */
    int masks[ONLINE_ROWS], nmasks; /* rows: frames, what they fold is masked where it is made */
    bool masks_guards;              /* by guards, too, which all steps have */
    VEC(OnBound) bounds;
    int factor_value[ONLINE_PRODUCTS]; /* per factor: what is rounded to make it */
    DType factor_type[ONLINE_PRODUCTS];
    bool lags;              /* all frames do */
    bool varies;            /* blocks are picked, and bounds of j vary along rows as data like */
    bool *told;             /* per value: a condition that votes tell (online_bits.c), */
    VEC(int) votes;         /* these; */
    bool *told_only;        /* per value: only such need it */
    bool *dropped;          /* per value: only conditions need it that hold in whole blocks */
    Val *side_lo, *side_hi; /* per value: of who picks, least and greatest in the tile */
    OnNear near[ON_NEAR];
    int nnear;
    bool *after_near; /* per value: is one of these or depends on one */
    bool near_passes; /* reductions without a frame see them only through maxima of themselves */
    bool closed;      /* and all else only in exponents */
    bool *inside;     /* per value: is one of these or lies between one and such an exponential */
    bool still[ONLINE_ROWS];        /* per row: a frame that stays what the first block makes it, */
    double still_from[ONLINE_ROWS]; /* but this at least (or most) */
    bool idle[ONLINE_ROWS];         /* one that is not needed itself */
    /* what code is made for at the moment */
    bool near_now; /* arguments are near */
    bool skips;    /* what is inside is not made */
    bool by_group; /* groups of a tile need different blocks */
    bool part_hi;  /* and of the block at upper bounds of j a part, perhaps */
    /* of a tile, uniform */
    Val row0;              /* i64 */
    Val first, end;        /* i32: blocks [first, end) */
    Val lo_least, hi_most; /* i32: as OnRanges has them */
    Val hi_rows;           /* i32: the greatest bound of j of the rows that were asked for last */
    Val whole, beyond;     /* i32: those of [whole, beyond) hang over no bound */
    OnRange mine;          /* of a consumer group: its blocks of these */
    /* of the loading warps, if there are such; else NULL */
    Val loader;      /* i32: which */
    Val lead, chief; /* i1: its thread that copies; of the first warp, what is done once */
    /* of a consumer group */
    Val place_e[ONLINE_BROUGHT]; /* i32: of the thread in a box */
    Val desc_q[ONLINE_SCORES], desc_k[ONLINE_SCORES], desc_v[ONLINE_PRODUCTS];
    Val lo[ROWS_HELD], hi[ROWS_HELD]; /* i32: bounds of j, by row held */
    /* where warps do all of it (online_mma.c, online_copy.c), of a thread, i32 */
    Val place_rows, place_cols, first_line; /* in a buffer, where ldmatrix reads */
    Val copy_line, copy_unit, copy_to;      /* what it copies; where that goes in a buffer */
    bool copies_later;                      /* than the tile begins */
    OnFrom from_k[ONLINE_SCORES], from_v[ONLINE_PRODUCTS]; /* of the open tile, block 0 */
} On;

/* What goes from block to block. */
typedef struct OnState {
    Val *acc[ONLINE_PRODUCTS];
    Val *factor[ONLINE_PRODUCTS];    /* words: rounded, of the block before */
    Val row[ONLINE_ROWS][ROWS_HELD]; /* of a frame: the same in the four threads of a row */
    Val ref[ONLINE_ROWS][ROWS_HELD]; /* of a frame: that its followers are in */
    Val any[ONLINE_ROWS][ROWS_HELD]; /* i1: an element was stepped; where guards may say no */
    Ring k, v, e;
} OnState;

/* What is known of the tile at hand. */
typedef struct OnKnown {
    int n;
    Val *v;
    AxisState *axis;
    Frag *value;
} OnKnown;

/* A part of the columns of a block, and what is known of its elements. */
typedef struct OnSlab {
    int from, cols;
    AxisState j;
    Frag *value;
    bool waits; /* for registers: its words are loaded when those of a slab before were used */
} OnSlab;

enum { SLABS = 8 };

typedef struct OnBlock {
    bool masked, first;
    OnPart part, before; /* what it is of the block; and of the block before, whose products are
                          * made meanwhile */
    bool bases;  /* functions near 0 wait for the vote; maxima of them are those of their bases */
    bool told;   /* bits say what votes tell, too */
    bool held;   /* conditions that can be known (online_pick.c) hold */
    Val next;    /* i32: where blocks are picked, the word of the next */
    Val at, col; /* i32, i64: the thread's first column */
    Val in[ROWS_HELD][ON_BITS]; /* bits: elements within the bounds, told; where masked or told */
    Val *score[ONLINE_SCORES];
    OnSlab slab[SLABS];
    int slabs, loaded;                      /* loaded: of how many all words were */
    Val frame[ONLINE_ROWS][ROWS_HELD];      /* of a frame: that which the block is computed in */
    Val used[ONLINE_PRODUCTS][ONLINE_USED]; /* bits: columns that some row of the thread has */
    Val brought, stage;                     /* i32: its buffer, and the number of that */
} OnBlock;

/* What a CTA does at a time (online_split.c): a tile, or a part of its blocks. i32. */
typedef struct OnWork {
    Val tile;
    /* Where tiles may be cut, else NULL. */
    Val cut;                 /* i1: it is a part */
    Val number, part, parts; /* which of the tiles that are cut; which of its parts */
} OnWork;

/* ---- online.c: barriers and places ---- */

enum OnBar { BAR_K, BAR_V, BAR_Q, BAR_E, BAR_NEXT };
Val on_full(On *on, enum OnBar what, Val stage);
Val on_empty(On *on, enum OnBar what, Val stage);
Ring on_next(On *on, Ring r, int count);
Val on_buffer(On *on, const OnlineSmem *m, Val stage); /* i32 */
const Ix *on_tiles_all(const On *on);
/* Opens the batches of a tile, sets where its rows begin; decode: of a tile or part, and its bounds
 * of j, of which set_bounds is given the least and the greatest, i32, and its blocks. */
void on_place(On *on, Val tile);
void on_open(On *on, Val tile);  /* and makes what its bounds need; forgets all of another tile */
void on_bounds_of_group(On *on); /* after decode */
OnRanges on_ranges(const On *on);
void on_set_ranges(On *on, const OnRanges *r);
void on_decode(On *on, Val item);
void on_set_bounds(On *on, Val lo, Val lo_most, Val hi_least, Val hi);
Val on_clamp32(On *on, Val v); /* i64 to i32, of what is nearly in range */
Val on_past_bars(On *on);      /* i32: behind all barriers */
/* Clears marks of a value, and of what it needs. */
void on_keep(On *on, bool *drops, int id);
void on_need(On *on, int id);         /* marks what a step without a frame needs */
void on_make(On *on, int id);         /* makes a value and what it needs, unless they are there */
void on_make_ix(On *on, const Ix *x); /* the values that it reads */
void on_emit_value(On *on, int id);   /* and what it needs, unless it is there */

/* ---- online_next.c ---- */
enum { ON_NEXT = 2 }; /* buffers of numbers of tiles */
typedef struct OnRings {
    Ring k, q, e, p;
} OnRings;
typedef OnRings OnTileFn(On *on, Val item, OnRings r);
typedef enum OnRole { ON_PICKS, ON_LOADS, ON_WORKS } OnRole;
void on_tiles(On *on, OnTileFn *fn, OnRole role);
Val on_is_tile(On *on, Val item);          /* i1 */
Val on_hear(On *on, Val item, Ring *next); /* a consumer: which tile is next */
/* From begin to end, what one warp of those that load does; NULL: one thread loads. */
LLVMBasicBlockRef on_once_begin(On *on);
void on_once_end(On *on, LLVMBasicBlockRef after);

/* ---- online_load.c ---- */
void on_loader(On *on);
KTmap on_map(const On *on, const MmaFactor *f, const OnlineSmem *m, int page);

/* ---- online_page.c ---- */
void on_page_facts(On *on); /* fills places, by_page */
void on_page_tile(On *on);  /* of the open tile: what no page changes */
/* Of block i (i32, any), the lane's places: begin loads what says them, end makes them, i32. */
void on_page_begin(On *on, Val i);
void on_page_end(On *on, Val i, Val *at);
/* The coordinates of the first piece of the open block's part `number` (i32), by pages; lines:
 * the block's. */
void on_page_coords(On *on, const MmaFactor *f, const OnlineWhere *w, int lines, const Val *at,
                    Val number, Val *coord);

void on_load_begin(On *on, enum OnBar what, Ring at, Val bytes); /* waits until it is free */

/* ---- online_bring.c: matrices that the body reads, brought by TMA ---- */
const MmaStaged *on_brought(const On *on, const TInst *i);
void on_bring_maps(On *on);
void on_bring_places(On *on);
void on_bring(On *on, Ring at); /* of the open block, by the loader */
void on_brought_wait(On *on, OnBlock *b, Ring at);
Frag on_brought_words(On *on, const OnBlock *b, const OnSlab *p, const MmaStaged *s);
void on_brought_done(On *on, const OnBlock *b); /* all of it is read */
/* A buffer's turn that nothing is loaded for: the loader leaves it out, groups write to it what
 * they store, and give it back. */
Ring on_brought_leave(On *on, Ring at);
Val on_brought_lend(On *on, Ring at); /* i32 */
Ring on_brought_return(On *on, Ring at);
void on_brought_guards(On *on, Kernel *k);

/* ---- online_state.c ---- */
/* The row held that register i belongs to, of a block or sums with so many columns. */
int on_row_held(int i, int columns);
OnState on_state_new(On *on);
OnState on_state_copy(On *on, const OnState *from);
int on_state_list(const On *on, OnState *s, Val **list); /* list NULL: how many */
/* Phis of all of s, from `before`; list is of their places. */
OnState on_state_phis(On *on, const OnState *from, LLVMBasicBlockRef before, Val ***list, int *n);
void on_state_next(On *on, Val **phi, OnState *s);
OnState on_state_join(On *on, int ways, OnState *end, const LLVMBasicBlockRef *from);
OnKnown on_known_take(On *on);
void on_known_put(On *on, const OnKnown *p);
OnKnown on_known_phis(On *on, const OnKnown *from, LLVMBasicBlockRef before);
void on_known_next(On *on, const OnKnown *phis, const OnKnown *to);

/* ---- online_tile.c ---- */
void on_first_turn(On *on);
void on_turn_wait(On *on);
void on_turn_pass(On *on);
void on_forget(On *on); /* values that do not reach what follows */
OnRings on_consume(On *on, Val item, OnRings r);
Val on_row_at(On *on);    /* i64: of the thread's first row */
Val on_row_first(On *on); /* i64: the first row of the group */
Val on_rows_left(On *on); /* i32: rows that the group has */
/* i32: n for each 64 rows of the tile that stand before the group's; for each part of its columns.
 */
Val on_rows_by(On *on, int n);
Val on_cols_by(On *on, int n);
/* What stands before the loop, at the open rows; after it: of s with n registers of each sum, what
 * is the same along columns; then, at the open columns, all that is not. */
void on_before(On *on, bool store); /* what the loop needs; what is stored of rows there, too */
void on_after_rows(On *on, OnState *s, int n);
void on_after_columns(On *on);

/* ---- online_split.c ---- */
const Ix *on_work_all(const On *on); /* tiles and parts */
OnWork on_work(On *on, Val item);
void on_work_blocks(On *on, const OnWork *k); /* of those of the tile, the part's */
void on_split_memory(On *on, Kernel *k);
void on_join_parts(On *on, const OnWork *k, OnState *s);

/* The parts of it: opens a tile and its group's bounds; nothing summed yet; the first block, while
 * the last products of `old`, whose blocks were `was`, are made (NULL: there is none); the others,
 * but for their last products; these; what follows. */
void on_begin(On *on, Val item);
OnState on_nothing(On *on, Ring k);
OnState on_first_block(On *on, const OnState *s, Val q, OnState *old, const OnRanges *was);
OnState on_blocks(On *on, const OnState *s, Val q);
void on_last_products(On *on, OnState *s, const OnRanges *was);
void on_finish(On *on, OnState *s, Val item);
Val on_some(On *on); /* i1: the group needs a block */
void on_release(On *on, enum OnBar what, Val stage);

/* ---- online_mma.c: scores of a block, which replace b's; its products, added to s ---- */
void on_mma_scores(On *on, OnBlock *b, const OnState *s);
void on_mma_products(On *on, OnState *s, Val stage);

/* ---- online_copy.c ---- */
void on_copy_begin(On *on); /* of the open tile, which has blocks */
/* Before the scores and the products of block i: what they need is there, copies go on. */
void on_copy_scores(On *on, Val i, const OnState *s);
void on_copy_products(On *on, Val i, const OnState *s);
void on_copy_last(On *on);             /* what is late is there */
Val on_copy_before(On *on, Val stage); /* the stage of the block before */

/* ---- online_skip.c: blocks of which the group needs none ---- */
void on_skip(On *on, OnState *s);                             /* all of a tile */
void on_skip_before(On *on, OnState *s);                      /* those before its first */
void on_skip_after(On *on, OnState *s, const OnRanges *was);  /* after its last */
void on_skip_one_before(On *on, OnState *s, enum OnBar what); /* one at most, of a ring */
void on_skip_one_after(On *on, OnState *s, enum OnBar what, const OnRanges *was);
/* i1: does the group need blocks, and may its first one be made with the last products of a tile
 * whose blocks were `was`? */
Val on_joins(On *on, const OnRanges *was);

/* ---- online_part.c: parts of blocks ---- */
void on_part_facts(On *on);                      /* fills part_hi */
void on_part_bounds(On *on, OnRange *x, Val hi); /* fills low, by the greatest bound of the rows */

/* ---- online_stream.c: tiles that run into one another ---- */
bool on_streams(const On *on);
void on_stream(On *on);

/* ---- online_block.c: scores are made, what follows from them goes into the state ---- */
void on_block_open(On *on, OnBlock *b, Val i);
void on_block_early(On *on, OnBlock *b);              /* what needs no score */
void on_block_values(On *on, OnBlock *b, OnState *s); /* all but the products */
void on_make_factors(On *on, OnBlock *b, OnState *s);
void on_block_factors(On *on, OnBlock *b, OnState *s); /* if they are not made */
void on_slab_enter(On *on, const OnSlab *p);
void on_slab_leave(On *on, OnSlab *p);
void on_choose_frames(On *on, OnBlock *b, OnState *s, Val (*now)[ROWS_HELD]);
void on_framed(On *on, OnBlock *b, OnSlab *p);          /* what follows in the block's frames */
Val on_element(On *on, int id, DType as, int r, int c); /* at the open slab */
int on_element_at(const On *on, int r, int c);          /* its register, of those of a block */
const OnlineInst *on_step(const On *on, const TInst *step);

/* ---- online_mask.c ---- */
void on_mask_facts(On *on);
void on_mask_open(On *on, OnBlock *b);

/* ---- online_bits.c: conditions that votes tell ---- */
void on_bits_facts(On *on);
void on_bits_open(On *on, OnBlock *b);
/* Do bits say it all, of a step? Those of a row, and no others. */
bool on_bits_say(const On *on, const OnBlock *b, const OnlineInst *x);
Val on_bits_word(On *on, const OnBlock *b, int row, int word);

void on_mask(On *on, const OnBlock *b, const OnSlab *p); /* in the open slab: frames' elements */
/* i1: is an element in the domain of a step? NULL: yes. */
Val on_condition(On *on, const OnBlock *b, const OnSlab *p, const OnlineInst *x, int r, int c);
/* v, an element of value `id`, for step x of c: what changes nothing where it is not in. */
Val on_taken(On *on, const OnBlock *b, const OnSlab *p, const OnlineInst *x, const TCarry *c,
             int id, Val v, int r, int col);

/* ---- online_row.c ---- */
void on_rows_init(On *on, OnState *s);
bool on_is_frame(const On *on, int row);
int on_row_of(const On *on, int id);
/* Of each row and reduction several sums, so that they do not wait for each other. */
enum { CHAINS = 2 };
typedef Val OnChains[ONLINE_ROWS][ROWS_HELD][CHAINS];
void on_rows_fold(On *on, OnBlock *b, const OnSlab *p, bool framed, OnChains chain);
void on_rows_join(On *on, bool framed, OnChains chain, Val (*out)[ROWS_HELD]);
Val on_join(On *on, const TCarry *c, Val a, Val b); /* two parts of a carry over rows */
Val on_quad(On *on, const TCarry *c, Val v);        /* joins the four threads of a row */
Val on_usable(On *on, const TCarry *frame, Val v);  /* a frame that nothing has moved is 0 */
/* The frame that a block leaves: none while nothing has moved it. */
Val on_frame_left(On *on, int row, Val joined, Val frame);
/* The factor that moves c from its frame's `from` to `to`. */
Val on_rescale(On *on, const TCarry *c, Val from, Val to, int r);
/* i1: is the logarithm of that factor beyond the bound of c? */
Val on_moves_far(On *on, const TCarry *c, Val from, Val to, int r);
void on_rows_quad(On *on, OnState *s);          /* after the loop: of all four threads of a row */
void on_rows_finish(On *on, OnState *s, int n); /* results, of rows and of n registers of sums */
bool on_tracks(const On *on, int row);
Val on_any_of_row(On *on, Val any); /* i1 */
/* Where frames do not lag, the one that followers are in is what it is after the
 * block before. */
void on_rows_ref(On *on, OnState *s);

/* ---- online_index.c ---- */
void on_index_facts(On *on); /* fills late, words, deferred */
void on_index_emit(On *on, const TInst *i);
bool on_index_op(On *on, const TInst *i); /* true when it made the value */

/* ---- online_near.c ---- */
typedef struct OnReach { /* greatest magnitudes of a thread's bases */
    Val most[ON_NEAR][CHAINS];
} OnReach;
void on_near_facts(On *on);                            /* fills near, after_near, near_passes */
bool on_near_passes(const On *on, const OnlineRow *x); /* is it such a maximum? */
void on_near_close(On *on);                            /* then: fills closed, inside */
const OnNear *on_near(const On *on, int id);           /* NULL: it is none */
void on_near_measure(On *on, OnReach *reach);          /* of the open slab */
Val on_near_left(On *on, const OnReach *reach); /* i1: some argument of the thread is not near */
void on_near_emit(On *on, bool near);           /* at the open slab; else as for all */
Val on_near_row(On *on, int row, Val v);        /* of a row's greatest base, which is near */

/* ---- online_lag.c ---- */

/* The frame where it is after the block. */
Val on_moved(On *on, const OnState *s, int row, int r, Val now);
/* Where the frame must move, in a branch: the first slab again, which is computed. */
void on_lag(On *on, OnBlock *b, OnState *s, Val (*now)[ROWS_HELD]);
/* The functions near 0, of all slabs. */
void on_near_all(On *on, OnBlock *b, const OnReach *reach);
/* All that follows from functions near 0, and frames: what comes of rows in frames goes to part;
 * factors are made. */
void on_near_ways(On *on, OnBlock *b, OnState *s, const OnReach *reach, Val (*now)[ROWS_HELD],
                  Val (*part)[ROWS_HELD]);

/* ---- online_scrub.c: zeros in factors of products where no row has an element of j ---- */
void on_scrub_end(On *on, const OnState *s, Val i, bool end); /* in block i, by the bounds of j */
void on_scrub_note(On *on, OnBlock *b, int p); /* in the open block: what product p has */
void on_scrub_holes(On *on, const OnBlock *b, const OnState *s);
void on_scrub_skipped(On *on, const OnState *s, Val i); /* the same, of a block not worked on */

/* ---- online_pick.c, online_words.c: a warp picks blocks; the loading thread takes what it puts,
 * and tells the groups of it, who hear it when the buffer is full. A block is its number, then
 * whether bounds cut it, and whether conditions may. */
enum { PICK_NONE = -1, PICK_BOUNDS = 1, PICK_CONDITIONS = 2, PICK_SHIFT = 2 };
typedef struct OnPicked { /* of a tile, i32 */
    Val first;            /* block, or PICK_NONE */
    Val lo, hi;           /* bounds of j of all rows together, where they vary; else NULL */
} OnPicked;
void on_pick_init(On *on); /* its barriers */
void on_picker(On *on);
Ring on_pick_put(On *on, Ring at, Val word);
Val on_pick_take(On *on, Ring *at);
void on_pick_tell_rows(On *on, Val stage, const OnPicked *p);
OnPicked on_pick_hear_rows(On *on, Val stage);
void on_pick_tell_block(On *on, Val stage, Val next);
Val on_pick_hear_block(On *on, Val stage);   /* to be made uniform */
bool on_pick_drops(const On *on, int guard); /* in whole blocks it holds */

/* ---- online_exp.c: true when it made the value ---- */
bool on_exponential(On *on, const TInst *i);
/* Would its exponent be made of functions near 0, and of nothing else inside? */
bool on_exponent_opens(On *on, const TInst *i);

/* ---- online_still.c ---- */
void on_still_facts(On *on);                            /* fills still, idle */
bool on_is_still(const On *on, const TCarry *follower); /* is it in such a frame? */

#endif
