/* group_walk_int.h - what group_walk.c and group_tensor.c share. */
#ifndef FK_PASSES_GROUP_WALK_INT_H
#define FK_PASSES_GROUP_WALK_INT_H

#include "passes/group_int.h"

typedef struct Point {
    const Node *node;
    const Ix **map;
    struct Point **in; /* per operand; NULL before the first walk through */
    int base;          /* the number of axes when `in` was made (a reduction adds its own) */
    int walk;          /* the last walk that saw it */
    bool checked;      /* some read of it may be outside */
} Point;

typedef struct GroupPoints {
    Arena arena;
    Map map; /* node and ids of its map -> Point */
    int walk;
    int *seen;                 /* per node: the last walk that saw it */
    double *touched;           /* per node: elements loaded in this walk */
    VEC(double) iters, extent; /* per axis of the walk */
    IntList loads;             /* nodes with touched > 0 */
} Points;

typedef struct Walk {
    Group *gr;
    Points *pt;
    GroupMemo *memo;
    int step;               /* of the root; nodes of it are computed at their own point */
    const GroupStep *block; /* the step, if some of it is inside of a loop; NULL */
    int domain;
    double grid, flops, tensor, online; /* tensor: those that tensor cores can do; in a loop */
    double again; /* microseconds of the longest sum that readers make again, one by one */
    int products; /* contractions, by where they are read: tensor cores take a step with one.. */
    const Point *product[MMA_SUMS]; /* ..or with some */
    bool apart;                     /* that go together: these do not */
    const Node *turned[MMA_TURNS];  /* that are read at columns of their own tile, turned.. */
    int turns;
    bool stray;           /* ..too many, or one that is not made there */
    double share, making; /* elements of a tile for which a factor is made once; products of such */
    int loop_base;        /* the first axis of the step's shared loop; -1: it is not open yet */
    bool fast;            /* whose products tensor cores make */
    const Node *first;    /* its domain is the grid */
    uint64_t covered;     /* its axes that some reduction of the loop has */
    uint64_t columns;     /* with `fast`: axes of the grid that the products inside do not have */
    int instances;
} Walk;

bool group_same_map(const Ix *const *a, const Ix *const *b, int n);
bool group_walk_loaded(const Walk *w, const Point *p); /* from memory: the step does not make it */
double group_value_extent(const Group *gr, const Node *n, int axis);

/* ---- group_tensor.c ---- */

/* Of a product: two matrices of one 16-bit type, stored or made by threads (bits of made),
 * multiplied at the points of the step or of its loop, each a tile's element. */
bool group_on_tensor_cores(const Walk *w, const Point *p, int *made);
/* For so many elements along the other factor's own axis factor k is made once: a tile's. */
double group_share_of(const Walk *w, const Node *n, int k);
void group_count_product(Walk *w, const Point *p);
/* Is it a product at (n + c) % N for its last axis n (ir/mma.h), else at the root's own point? Then
 * it is in the accumulator, if the product is. Notes that; after a walk: find those without one. */
bool group_turned(Walk *w, const Point *p);
void group_find_strays(Walk *w);

#endif
