/* group_int.h - the state of the group pass, and what the tile pass asks of its decisions. */
#ifndef FK_PASSES_GROUP_INT_H
#define FK_PASSES_GROUP_INT_H

#include "ir/ir.h"

#define GROUP_SIZE_HINT 1024 /* an unbound size without a hint */

typedef VEC(int) IntList;

typedef struct GroupStep {
    IntList node; /* stored nodes, in order */
} GroupStep;

/* A value that the walk of a root loads. */
typedef struct GroupRead {
    int node;
    int key;   /* equal for equal reads by roots of one domain */
    bool here; /* at the root's own point */
} GroupRead;

/* What a walk found, and on what that depends: the nodes it starts from, and which of the nodes it
 * saw are stored. */
typedef struct GroupMemo {
    IntList root, seen;
    VEC(char) stored; /* per node seen */
    VEC(GroupRead) reads;
    double price;
    int used; /* when; 0: never made */
} GroupMemo;
enum { GROUP_MEMOS = 2 }; /* per first root: as it is, and with one candidate the other way */

typedef struct Group {
    Graph *g;
    const Target *target;
    bool fuse, invariant;
    Arena arena;
    const int64_t *sizes;
    bool *store, *candidate, *heavy; /* heavy: reads tensors, or is costly all the same */
    const char **must;               /* why a node has to be stored */
    int *step;
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

/* group_walk.c: what is loaded to compute stored node n, and microseconds of step s. */
void group_walk_init(Group *gr);
void group_walk_free(Group *gr);
const GroupMemo *group_reads(Group *gr, const Node *n);
double group_step_price(Group *gr, int s);

#endif
