/* pairs_int.h - a factor that is made of narrow integers, two neighbours at a time (pairs.c). */
#ifndef FK_NVPTX_PAIRS_INT_H
#define FK_NVPTX_PAIRS_INT_H

#include "backend/nvptx/ptx_int.h"

/* How a part of the factor has its values. */
typedef enum PairKind {
    PAIR_NOT,   /* something else */
    PAIR_WHOLE, /* integers from lo to hi, which the type holds exactly */
    PAIR_TYPED, /* of the type already */
    PAIR_ROUND  /* rounded to the type, once: what all its uses ask for */
} PairKind;

typedef struct PairInfo {
    PairKind kind;
    bool steady; /* the same for all neighbours: a scalar */
    int64_t lo, hi;
    Val *word;    /* of two neighbours each, the first in the low half; the value is that.. */
    int64_t less; /* ..less this, which is exact too */
} PairInfo;

typedef struct Pairs {
    DType type;   /* bf16 or f16 */
    int value;    /* of the factor */
    int n;        /* words */
    PairInfo *of; /* by value */
} Pairs;

/* What `part` computes, of which the loads with `vector` come as words of neighbours, and those
 * with `steady` as one value. False: not by pairs. */
bool pairs_find(Lower *l, Pairs *p, DType type, int value, const TInst *const *part, int nparts,
                const bool *vector, const bool *steady);
/* Is this part made of pairs? If not, it is steady: a scalar, to be emitted before its uses. */
bool pairs_has(const Pairs *p, const TInst *i);
/* A load, by the words that hold n * 2 neighbours. */
void pairs_load(Lower *l, Pairs *p, const TInst *i, const Val *in, int n);
/* One pair of a load. apart: a word with the bits of the first value from bit 0 on, those of the
 * second from bit 16 on, and anything else between and above. */
Val pairs_pick(Lower *l, const Pairs *p, const TInst *i, Val apart);
/* Words of a load that were picked. */
void pairs_picked(Lower *l, Pairs *p, const TInst *i, Val *word, int n);
void pairs_op(Lower *l, Pairs *p, const TInst *i);
/* The factor's words. */
const Val *pairs_words(Lower *l, Pairs *p);

/* An i32 from lo to hi: its f32 is made without a conversion, which takes long. */
void narrow_real(Lower *l, Val v, int64_t lo, int64_t hi);

#endif
