/* online_step_int.h - a block of a tile, and parts of it (online_step.c, online_part.c,
 * online_wgmma.c), for who puts blocks together (online_tile.c). */
#ifndef FK_NVPTX_ONLINE_STEP_INT_H
#define FK_NVPTX_ONLINE_STEP_INT_H

#include "backend/nvptx/online_int.h"

/* ---- online_step.c ---- */

/* The tile before, if the last products of its blocks `was` are made with a first block. */
typedef struct OnBefore {
    OnState *old;
    const OnRanges *was;
} OnBefore;

/* A block in one of several ways: the first whose `is` (i1) holds, else the last. */
enum { ON_WAYS = 2 };
typedef struct OnWay {
    Val is;
    OnBlock b;
} OnWay;

/* Block i; next: NULL, or where the word of the next block goes. */
OnState on_block_of(On *on, OnState s, Val i, int n, const OnWay *way, Val q, Val *next,
                    OnBefore k);
/* if (is) block *i, and on to the next */
OnState on_block_if(On *on, OnState s, Val *i, Val is, OnBlock b, Val q);
void on_late_products(On *on, OnState *s); /* of the last block, where warps do all of it */

/* ---- online_wgmma.c: what is issued, of a part of a block, and waits for it ---- */
void on_issue_scores(On *on, OnBlock *b, OnState *s, Val q);
void on_wait_scores(On *on, OnBlock *b, int pending);
void on_issue_products(On *on, OnState *s, OnPart part);
void on_wait_products(On *on, OnState *s);
void on_products(On *on, OnState *s); /* both, of a whole block */

/* ---- online_part.c ---- */
OnPart on_all(const On *on);
OnPart on_low_part(const On *on);
/* Where bounds of j move with the rows: does no block but the last of some rows hang over them, as
 * they end together with it? */
bool on_hangs_once(const On *on);

#endif
