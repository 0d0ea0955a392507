/* tile_int.h - shared by the texts, verifiers and evaluator of tile programs and schedules. */
#ifndef FK_IR_TILE_INT_H
#define FK_IR_TILE_INT_H

#include "ir/tile.h"

enum {
    TILE_RESCALE_MAX = 16, /* values on the stack of a rescale */
    TILE_CARRIES_MAX = 64  /* of one loop */
};

IxNames tile_names(const TProg *t); /* unique words for sizes and axes, in t->arena */

#endif
