/* schedule_int.h - the makers of schedules, one a tier; schedule.c asks them in turn. */
#ifndef FK_PASSES_SCHEDULE_INT_H
#define FK_PASSES_SCHEDULE_INT_H

#include "ir/mma.h"
#include "passes/passes.h"

/* May give the step's program an axis more: before others make schedules for it. Returns what the
 * general kernel is predicted to take; NULL: more than what was added, or nothing is known. */
const Ix *schedule_wgmma(PassCtx *cx, Step *step);

/* The same for the targets that have mma.sync and no wgmma. */
void schedule_mma(PassCtx *cx, Step *step);

/* May cut an axis of the step's program in two. */
void schedule_online(PassCtx *cx, Step *step);

/* Why a program that multiplies matrices has no schedule yet; NULL: it does not, or the target has
 * no tensor cores that are used. */
const char *schedule_why(const PassCtx *cx, const Step *step);
/* Of pointwise work and of rows. */
void schedule_rows(PassCtx *cx, Step *step);
/* How many axes of the grid some load in a loop lacks and another has; loads that move in loops. */
int rows_reused(Arena *a, const TProg *t, int *loads);

/* The program with one more axis of the grid, at `at` among all (schedule_view.c). ix makes of an
 * index expression of the program one of the copy. */
typedef const Ix *ViewIx(const void *view, const Ix *x);
TProg *schedule_view(const TProg *t, int at, TAxis more, ViewIx *ix, const void *view);

/* The program with an axis of one position before all others (schedule_vector.c). */
TProg *schedule_with_row(const TProg *t);
/* The program with an axis in two, the second of which are rows of what online.h takes; NULL: there
 * is none such (schedule_group.c), or one that is refused for the reason in why (NULL: not asked).
 */
TProg *schedule_with_group(const TProg *t, Str *why);

/* Slabs of what follows the loop (schedule_slab.c). */
typedef struct SlabShape {
    const TProg *t;
    const Mma *m;
    int rows, groups, cols; /* rows of a group; groups; columns of a tile */
    bool pingpong;
    bool grouped;  /* stores of each sum in tiles of its own */
    bool together; /* 128 columns too are stored at once, where that is possible */
} SlabShape;

/* Entries for stores, which the groups copy; returns the bytes of all slabs. */
int slabs_store(Arena *a, const SlabShape *x, Schedule *s);
/* Entries for stores and loads, which the role slab copies, in one of several ways, best first, or
 * in one of those when nothing else fits; false: no loads, or no such way. */
bool slabs_bring(Arena *a, const SlabShape *x, int way, bool last, Schedule *s);

#endif
