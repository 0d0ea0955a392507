/* online_split_int.h - what the parts of a tile leave each other: online_split.c writes it,
 * online_merge.c reads it. */
#ifndef FK_NVPTX_ONLINE_SPLIT_INT_H
#define FK_NVPTX_ONLINE_SPLIT_INT_H

#include "backend/nvptx/online_int.h"

enum { ON_WORDS = 64, ON_FLOATS = 4 }; /* most words of a record; those that are moved at once */

/* What a row's record holds, in words. */
typedef struct OnSlot {
    int row; /* number of the carry */
    enum { VALUE, REF, ANY } what;
    int at, words;
} OnSlot;

typedef struct OnRecord {
    OnSlot slot[3 * ONLINE_ROWS];
    int slots, words;
} OnRecord;

OnRecord on_record(const On *on);
Val *on_slot(const OnSlot *x, OnState *s, int r); /* its place in a state */

/* A part: the sums of product 0, row by row, of the next, ..; the records. */
int64_t on_part_rows(const On *on); /* that a group may have */
int on_part_sums(const On *on);     /* of a row */
int64_t on_part_bytes(const On *on);
Val on_first_part(On *on, const OnWork *k); /* of the group: where its part 0 lies */
Val on_ahead(Lower *l, Val base, Val by);   /* i64 bytes */
Val on_times(Lower *l, Val v, int64_t n);   /* i32 times n, as i64 */

/* Merges all parts of the group's rows, and does what follows the loop. */
void on_merge(On *on, const OnWork *k);

#endif
