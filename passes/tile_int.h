/* tile_int.h - a tile program while it is written: open blocks, known values, where each belongs.
 */
#ifndef FK_PASSES_TILE_INT_H
#define FK_PASSES_TILE_INT_H

#include "passes/passes.h"

typedef struct TileScope { /* an open block */
    struct TileScope *up;
    TBlock *block;
    Map values; /* (node, map) -> value id + 1 */
    int depth;
    bool guard; /* what needs no more axes than the block around it stays inside all the same */
} TileScope;

typedef struct TileWant { /* a reduction that the step will need */
    int node;
    const Ix **map;
} TileWant;

typedef struct TileBuild {
    Arena *arena;
    Graph *g;
    Plan *plan;
    int step;
    bool strict; /* sums keep the order of their indices */
    /* The reduction in whose loop some of the step's values are computed and stored, and where,
     * over its axes (group_block.c); NULL. */
    const Node *outer;
    const Ix *const *cover;
    TProg *t;
    TileScope *top;
    VEC(int) axis_depth;  /* per axis of the program: depth of the scope that opens it */
    VEC(int) value_depth; /* per value */
    VEC(DType) value_type;
    VEC(TileWant) wants;
    Map wanted, started; /* seen by want(); reductions whose loop is open or done */
    int wary;            /* inside reductions that were moved out of a loop */
    /* Per stored node of the step, where it stands in the grid; NULL: not in this step. */
    const Ix *const **place;
    bool **reach; /* per node, lazily: which nodes depend on it */
} TileBuild;

/* scopes */
void tb_open_scope(TileBuild *b, TBlock *block, bool guard);
void tb_close_scope(TileBuild *b);
TileScope *tb_scope_at(TileBuild *b, int depth); /* the open scope where such a value belongs */
int tb_depth_of(const TileBuild *b, const Ix *x);
int tb_depth_of_map(const TileBuild *b, const Ix *const *map, int n);
bool tb_leaves_loop(const TileScope *from, const TileScope *to);
void *tb_key_of(TileBuild *b, int node, const Ix *const *map, int n, size_t *len);
TInst *tb_emit(TileBuild *b, TileScope *at, TKind kind, DType type, int nargs, int nix, int node);
int tb_new_value(TileBuild *b, DType type, int depth);

/* values: each gives the number of a value of the program */
int tb_value_of(TileBuild *b, int node, const Ix *const *map);
int tb_operand(TileBuild *b, const Operand *o, const Ix *const *axes, int nax);
int tb_reduction(TileBuild *b, int node, const Ix *const *map);
/* Reductions on the way to it may share loops from now on. */
void tb_want(TileBuild *b, int node, const Ix *const *map);
void tb_store(TileBuild *b, const Node *n, int value, const Ix *const *map);
bool tb_is_loaded(const TileBuild *b, const Node *n, const Ix *const *map);
/* Reductions that share a loop; false: this one shares none (tile_online.c). */
bool tb_online(TileBuild *b, int node, const Ix *const *map, int *value);
/* Of a reduction: a loop over axis k from lo to hi (of the program), then axes[k] is its axis; not
 * in its block yet. */
TInst *tb_loop(TileBuild *b, const Node *n, int k, const Ix *lo, const Ix *hi, const Ix **axes);
/* Steps of a loop, each behind a guard unless all of the loop is in its domain. */
typedef struct TileStep {
    const Node *n;
    bool guard;
    int carry;
    const Ix *const *axes;
} TileStep;
void tb_steps(TileBuild *b, const TileStep *s, int n);
bool tb_is_inside(const TileBuild *b, const Node *n); /* of the loop of b->outer */
const Ix *tb_map_in(TileBuild *b, const Ix *x, const Ix *const *axes, int nax);

#endif
