/* group_int.h - the state of the group pass, and what the tile pass asks of its decisions. */
#ifndef FK_PASSES_GROUP_INT_H
#define FK_PASSES_GROUP_INT_H

#include "ir/ir.h"
#include "ir/mma.h"

#define GROUP_SIZE_HINT 1024 /* an unbound size without a hint */

typedef VEC(int) IntList;

typedef struct GroupStep {
    IntList node; /* stored nodes, in order */
    IntList fast; /* contractions computed in it that tensor cores could do */
    bool product; /* a contraction is computed in it, at its points */
    /* With a reduction that has others inside of its loop (group_block.c): it, a node whose domain
     * is that of the points inside, and where they are, over its axes. -1: none. */
    int outer, inner;
    const Ix **cover;
    int joining; /* the last step that reads what its loop leaves; -1 */
    /* Reductions that share a loop are computed in it: their number, and the value of most axes,
     * over which Group.place places all others. -1: none. */
    int loop, wide;
} GroupStep;

/* A value that the walk of a root loads; or a contraction that it computes, here or inside. */
typedef struct GroupRead {
    int node;
    int key;           /* equal for equal reads by roots of one domain */
    bool here;         /* at the root's own point */
    bool product;      /* computed */
    const Ix **map;    /* over the root's axes */
    const Ix **inside; /* where the loop of the root visits all of its domain once; NULL */
} GroupRead;

/* Of a step that is walked, besides its nodes. */
typedef struct GroupAbout {
    int outer, inner, loop, wide;
    bool fast; /* tensor cores make the products of its loop: what other steps store has a say, too
                */
} GroupAbout;

/* What a walk found, and on what that depends: the nodes it starts from, what it is about, and
 * which of the nodes it saw are stored. */
typedef struct GroupMemo {
    IntList root, seen;
    GroupAbout about;
    VEC(char) stored; /* per node seen */
    VEC(GroupRead) reads;
    bool product; /* one of them is computed */
    int block;    /* the first of them that is inside; -1 */
    int loop;     /* of the first reduction computed that has one; -1 */
    double price;
    int used; /* when; 0: never made */
} GroupMemo;
enum { GROUP_MEMOS = 2 }; /* per first root: as it is, and with one candidate the other way */

typedef struct Group {
    Graph *g;
    const Target *target;
    bool fuse, invariant, strict;
    Arena arena;
    const int64_t *sizes;
    bool *store, *candidate, *heavy; /* heavy: reads tensors, or is costly all the same */
    bool *reduced;                   /* made of a reduction, near or far */
    bool *online;                    /* in a shared loop, or read in one: scores of attention */
    bool *slow;                      /* made of a product that wgmma cannot make */
    const char **must;               /* why a node has to be stored */
    int *step;
    const Ix ***place; /* per stored node of a step with a loop: where it stands there */
    GroupStep *steps;
    int nsteps;
    struct GroupPoints *points;                              /* group_walk.c */
    GroupMemo (*reads)[GROUP_MEMOS], (*priced)[GROUP_MEMOS]; /* per node */
    Map read_keys;
    VEC(int) last, last_round; /* per key: the last step that loads so, in which partition */
    int round, clock;
} Group;

enum { GROUP_UNPLACED = -2 }; /* the step of a stored node that has none yet */

double group_number(const Group *gr, const Ix *x);
bool group_same_domain(const Node *a, const Node *b);
bool group_identity(const Ix *const *map, int n); /* map[i] is axis i */
bool group_is_product(const Node *n);             /* a contraction of two matrices */
/* The sum over a block of k that strip.c makes: its last axis numbers the blocks, in a loop. */
bool group_is_block_sum(const Graph *g, const Node *n);

/* Can tensor cores make both products in one loop (ir/mma.h)? They have a factor in common. */
bool group_together(const Graph *g, const Node *a, const Node *b);

/* group_block.c: does the loop of reduction n visit, at `map` over its axes, all of the domain of
 * `to` once?  What is inside, after a walk. May stored node n join a step; with what it has inside
 * of its loop computed there; and it does. */
bool group_covers(const Graph *g, const Node *n, const Node *to, const Ix *const *map);
void group_settle(Group *gr, GroupMemo *m);
bool group_takes(const Group *gr, int step, const Node *n, const GroupMemo *m);
bool group_hosts(const Group *gr, int step, const Node *n, const GroupMemo *m);
void group_enter(Group *gr, int step, const Node *n, const GroupMemo *m);
/* The step that joins blocks whose results n reads, if it may and that is later than `found`. */
int group_joining(const Group *gr, const Node *n, const GroupMemo *m, int earliest, int found);

/* group_online.c: the step with the same loop that n may join, and it does: false, if n cannot be
 * placed there. All candidates that shared loops need not store are not stored. */
int group_online(Group *gr, const Node *n, const GroupMemo *m);
void group_online_enter(Group *gr, int step, const Node *n, const GroupMemo *m);
int group_loops(const Group *gr);
bool group_unstore(Group *gr, int loop);
/* What tensor cores may do of loop `loop`: every product in it. */
bool group_online_fast(const Group *gr, int loop);
/* Axes of a value, as bits, that the products inside of a loop on the way to it do not have. */
uint64_t group_online_columns(const Group *gr, const Node *n);

/* group_walk.c: what is loaded to compute stored node n, and microseconds of step s. */
void group_walk_init(Group *gr);
void group_walk_free(Group *gr);
const GroupMemo *group_reads(Group *gr, const Node *n);
double group_step_price(Group *gr, int s);

/* Of a grouped graph: is a part of these stored values (of one step) computed inside of the loop of
 * one of them? Which, and where, over its axes. */
bool group_inside(const Graph *g, const int *store, int n, const Node **outer,
                  const Ix *const **cover);

#endif
