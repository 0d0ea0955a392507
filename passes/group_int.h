/* group_int.h - the state of the group pass, and what the tile pass asks of its decisions. */
#ifndef FK_PASSES_GROUP_INT_H
#define FK_PASSES_GROUP_INT_H

#include "ir/ir.h"

#define GROUP_SIZE_HINT 1024 /* an unbound size without a hint */

typedef struct GroupStep {
    int *node, n; /* stored nodes, in order */
    void *reads;  /* what they read */
    int nreads;
} GroupStep;

typedef struct Group {
    Graph *g;
    const Target *target;
    bool fuse, invariant;
    Arena arena, scratch; /* of the pass; of one partition */
    const int64_t *sizes;
    bool *store, *candidate, *heavy; /* heavy: reads tensors, or is costly all the same */
    const char **must;               /* why a node has to be stored */
    int *step;
    GroupStep *steps;
    int nsteps;
} Group;

double group_number(const Group *gr, const Ix *x);
bool group_same_domain(const Node *a, const Node *b);
bool group_identity(const Ix *const *map, int n); /* map[i] is axis i */

#endif
