/* rows_int.h - steps over the same rows (rows.c), and the program that they become (rows_join.c).
 */
#ifndef FK_PASSES_ROWS_INT_H
#define FK_PASSES_ROWS_INT_H

#include "passes/schedule_int.h"

typedef struct RowMember {
    int step;
    const TProg *t;
    int *axis; /* per axis of t: that of the whole */
} RowMember;

typedef struct Rows {
    Arena *arena;
    Plan *plan;
    int nrows;       /* the first axes: the grid */
    int along;       /* > 0: the rows lie along memory, < 0: across */
    VEC(TAxis) axes; /* of the whole */
    VEC(int) depth;  /* by axis: in a nest of loops; -1: a row */
    VEC(RowMember) members;
} Rows;

/* Is the tensor still to be stored? */
bool rows_keeps(const Rows *r, const TTensor *x);

/* One program of all; NULL: a value of a row's element cannot be computed where it is read. */
TProg *rows_join(const Rows *r);

/* Does the program compute the node (rather than load it)? */
bool rows_computes(const TProg *t, int node);

#endif
