/* pairs.c - see pairs_int.h. Integers of 8 bits or less become bf16 or f16 without a conversion.
 * Where bits of an integer n >= 0 stand in the mantissa of a power of two whose last bit counts 1
 * (128 of bf16, 1024 of f16) that is a number: the power plus n. Two nibbles are put into two such
 * numbers by one permutation of bytes and one lop3; the power comes off in the subtraction that
 * there is, or in one of its own.
 *
 * What is exact. Integers whose magnitude the type holds (256, 2048) are, and so are their sums,
 * differences and products as long as all that they may be is no larger. The product of such an
 * integer and a value of the type is not, but an f32 holds it (8 bits and 8, or 11 and 11), so the
 * type's own product, which rounds once, is the f32 one cast to the type: bit for bit. Nothing may
 * follow but that cast. Anything else is not made by pairs.
 */
#include "backend/nvptx/pairs_int.h"

#include <stdlib.h>

typedef struct Half { /* a 16-bit type */
    int64_t whole;    /* integers up to this are exact */
    int64_t power;    /* whose last mantissa bit counts 1.. */
    uint32_t bits;    /* ..as two of them in a word */
    const char *name;
} Half;

static const Half *half_of(DType t) {
    static const Half bf16 = {256, 128, 0x43004300, "bf16x2"},
                      f16 = {2048, 1024, 0x64006400, "f16x2"};
    return t == DT_bf16 ? &bf16 : &f16;
}

static Val word(Lower *l, uint32_t v) {
    return LLVMConstInt(l->i32, v, 0);
}

/* ---- what can be ----------------------------------------------------------------------------- */

static bool is_narrow(DType t) {
    return dtype_is_int(t) && dtype_bits(t) <= 8;
}

static bool whole(const Pairs *p, PairInfo *x, int64_t lo, int64_t hi) {
    int64_t most = half_of(p->type)->whole;
    if (lo < -most || hi > most) return false;
    x->kind = PAIR_WHOLE, x->lo = lo, x->hi = hi;
    return true;
}

static void find_load(const Pairs *p, DType type, PairInfo *x) {
    if (type == p->type) x->kind = PAIR_TYPED;
    if (is_narrow(type)) whole(p, x, dtype_lowest(type), dtype_highest(type));
}

static void find_cast(const Pairs *p, const TInst *i, const PairInfo *a, PairInfo *x) {
    bool typed = i->type == p->type;
    if (a->kind == PAIR_WHOLE && (typed || i->type == DT_f32 || i->type == DT_i32))
        whole(p, x, a->lo, a->hi);
    else if (a->kind != PAIR_NOT && typed)
        x->kind = PAIR_TYPED;
}

static void find_mul(const Pairs *p, const PairInfo *a, const PairInfo *b, PairInfo *x) {
    if (a->kind == PAIR_WHOLE && b->kind == PAIR_WHOLE) {
        int64_t v[4] = {a->lo * b->lo, a->lo * b->hi, a->hi * b->lo, a->hi * b->hi};
        int64_t lo = v[0], hi = v[0];
        for (int k = 1; k < 4; k++) lo = v[k] < lo ? v[k] : lo, hi = v[k] > hi ? v[k] : hi;
        if (!whole(p, x, lo, hi)) x->kind = PAIR_ROUND;
        return;
    }
    bool one = (a->kind == PAIR_WHOLE && b->kind == PAIR_TYPED) ||
               (a->kind == PAIR_TYPED && b->kind == PAIR_WHOLE);
    if (one) x->kind = PAIR_ROUND;
}

static void find_op(const Pairs *p, const TInst *i, PairInfo *x) {
    const PairInfo *a = &p->of[i->args[0]], *b = i->nargs == 2 ? &p->of[i->args[1]] : NULL;
    bool both = b && a->kind == PAIR_WHOLE && b->kind == PAIR_WHOLE;
    bool plain = i->type == DT_i32 || i->type == DT_f32;
    if (i->op == OP_cast) find_cast(p, i, a, x);
    if (i->op == OP_add && both && plain) whole(p, x, a->lo + b->lo, a->hi + b->hi);
    if (i->op == OP_sub && both && plain) whole(p, x, a->lo - b->hi, a->hi - b->lo);
    if (i->op == OP_mul && b && plain) find_mul(p, a, b, x);
    if (x->steady && x->kind == PAIR_ROUND) x->kind = PAIR_NOT; /* a scalar has all its bits */
    if (i->type == DT_i32 && x->kind == PAIR_ROUND) x->kind = PAIR_NOT;
}

static void find_part(Lower *l, const Pairs *p, const TInst *i, bool vector, bool steady) {
    PairInfo *x = &p->of[i->id];
    x->steady = steady;
    if (i->kind == T_LOAD && (vector || steady)) find_load(p, l->t->tensors.v[i->tensor].type, x);
    if (i->kind == T_CONST && dtype_is_int(i->type)) whole(p, x, i->inum, i->inum);
    if (i->kind == T_CONST) x->steady = true;
    if (i->kind != T_OP) return;
    x->steady = true;
    for (int a = 0; a < i->nargs; a++) x->steady &= p->of[i->args[a]].steady;
    find_op(p, i, x);
}

/* What is rounded may be used only where the same rounding follows; what is needed is made. */
static bool fits(const Pairs *p, const TInst *const *part, int nparts) {
    for (int k = 0; k < nparts; k++) {
        const TInst *i = part[k];
        const PairInfo *x = &p->of[i->id];
        if (!x->steady && x->kind == PAIR_NOT) return false;
        for (int a = 0; a < i->nargs; a++) {
            const PairInfo *of = &p->of[i->args[a]];
            if (of->kind == PAIR_ROUND && (i->op != OP_cast || i->type != p->type)) return false;
            if (!x->steady && of->kind == PAIR_NOT) return false;
        }
    }
    return !p->of[p->value].steady;
}

bool pairs_find(Lower *l, Pairs *p, DType type, int value, const TInst *const *part, int nparts,
                const bool *vector, const bool *steady) {
    *p = (Pairs){.type = type, .value = value};
    p->of = ARENA_ARRAY(l->arena, PairInfo, l->t->nvalues);
    for (int k = 0; k < nparts; k++) find_part(l, p, part[k], vector[k], steady[k]);
    return fits(p, part, nparts);
}

bool pairs_has(const Pairs *p, const TInst *i) {
    return !p->of[i->id].steady;
}

/* ---- what is made ---------------------------------------------------------------------------- */

static Val half_op(Lower *l, const Pairs *p, const char *op, Val a, Val b) {
    const char *text = arena_printf(l->arena, "%s.rn.%s $0, $1, $2;", op, half_of(p->type)->name);
    Val arg[2] = {a, b};
    return ptx_asm(l, text, "=r,r,r", ASM_PURE, l->i32, arg, 2);
}

static Val both(Lower *l, Val bits) {
    Val v = LLVMBuildZExt(l->b, bits, l->i32, "");
    return LLVMBuildOr(l->b, v, LLVMBuildShl(l->b, v, word(l, 16), ""), "");
}

static Val both_of(Lower *l, const Pairs *p, int64_t v) {
    return both(l, type_bits(l, p->type, const_real(l, (double)v)));
}

/* v & mask ^ flip, as one instruction. */
static Val masked(Lower *l, Val v, uint32_t mask, uint32_t flip) {
    Val arg[3] = {v, word(l, mask), word(l, flip)};
    return ptx_asm(l, "lop3.b32 $0, $1, $2, $3, 0x6a;", "=r,r,r,r", ASM_PURE, l->i32, arg, 3);
}

Val pairs_pick(Lower *l, const Pairs *p, const TInst *i, Val apart) {
    DType type = l->t->tensors.v[i->tensor].type;
    const Half *h = half_of(p->type);
    bool sign = dtype_class(type) == DC_INT;
    if (type == p->type) return apart;
    if (dtype_bits(type) == 4)
        return masked(l, apart, 0x000f000f, h->bits | (sign ? 0x00080008 : 0));
    if (p->type == DT_f16) return masked(l, apart, 0x00ff00ff, h->bits | (sign ? 0x00800080 : 0));
    /* bf16 has 7 bits: the eighth, flipped of what has no sign, takes 128 off */
    Val low = masked(l, apart, 0x007f007f, h->bits);
    return half_op(l, p, "sub", low,
                   masked(l, apart, 0x00800080, h->bits | (sign ? 0 : 0x00800080)));
}

/* What pairs_pick adds. */
static int64_t picked_less(const Pairs *p, DType type) {
    const Half *h = half_of(p->type);
    bool sign = dtype_class(type) == DC_INT;
    if (type == p->type) return 0;
    if (dtype_bits(type) == 8 && p->type == DT_bf16) return sign ? 0 : -128;
    return h->power + (sign ? dtype_highest(type) + 1 : 0);
}

void pairs_picked(Lower *l, Pairs *p, const TInst *i, Val *v, int n) {
    PairInfo *x = &p->of[i->id];
    x->word = v;
    x->less = picked_less(p, l->t->tensors.v[i->tensor].type);
    p->n = n;
}

void pairs_load(Lower *l, Pairs *p, const TInst *i, const Val *in, int n) {
    static const unsigned nibble[] = {0x4400, 0x5511, 0x6622, 0x7733}, byte[] = {0x5150, 0x7372};
    int bits = dtype_bits(l->t->tensors.v[i->tensor].type), each = 16 / bits; /* pairs of a word */
    Val *v = ARENA_ARRAY(l->arena, Val, n);
    for (int k = 0; k < n; k++) {
        unsigned at = bits == 4 ? nibble[k % each] : byte[k % each];
        Val from = in[k / each], high = from;
        if (bits == 4) high = LLVMBuildLShr(l->b, from, word(l, 4), "");
        Val arg[3] = {from, high, word(l, at)};
        if (bits < 16) from = ptx_intrinsic(l, l->b, "llvm.nvvm.prmt", NULL, 0, arg, 3);
        v[k] = pairs_pick(l, p, i, from);
    }
    pairs_picked(l, p, i, v, n);
}

/* A steady value plus a constant, twice. */
static Val twice(Lower *l, const Pairs *p, int id, int64_t add) {
    Frag f = value_of(l, id);
    Val v = frag_only(&f, "a steady value");
    DType type = l->type[id];
    if (dtype_class(type) != DC_REAL && add)
        v = LLVMBuildAdd(l->b, v, LLVMConstInt(LLVMTypeOf(v), (uint64_t)add, 1), "");
    if (dtype_class(type) != DC_REAL) {
        type = DT_i32;
        narrow_real(l, v, p->of[id].lo + add, p->of[id].hi + add);
    }
    v = type_widen(l, type, DT_f32, v);
    if (dtype_class(l->type[id]) == DC_REAL && add)
        v = LLVMBuildFAdd(l->b, v, const_real(l, (double)add), "");
    if (p->type == DT_f16) return both(l, type_bits(l, p->type, v));
    Val bits = LLVMBuildBitCast(l->b, v, l->i32, ""); /* exact: the low half is 0 */
    Val arg[3] = {bits, bits, word(l, 0x3232)};
    return ptx_intrinsic(l, l->b, "llvm.nvvm.prmt", NULL, 0, arg, 3);
}

/* Its words, with nothing to take off. */
static const Val *plain(Lower *l, Pairs *p, int id) {
    PairInfo *x = &p->of[id];
    if (x->steady) {
        Val *v = ARENA_ARRAY(l->arena, Val, p->n), one = twice(l, p, id, 0);
        for (int k = 0; k < p->n; k++) v[k] = one;
        return v;
    }
    if (x->less) {
        Val *v = ARENA_ARRAY(l->arena, Val, p->n), less = both_of(l, p, x->less);
        for (int k = 0; k < p->n; k++) v[k] = half_op(l, p, "sub", x->word[k], less);
        x->word = v, x->less = 0;
    }
    return x->word;
}

static void emit_two(Lower *l, Pairs *p, const TInst *i, const char *op) {
    PairInfo *x = &p->of[i->id];
    const Val *a = plain(l, p, i->args[0]), *b = plain(l, p, i->args[1]);
    x->word = ARENA_ARRAY(l->arena, Val, p->n);
    for (int k = 0; k < p->n; k++) x->word[k] = half_op(l, p, op, a[k], b[k]);
}

/* What is still to be taken off goes with what is the same for all. */
static void emit_steady(Lower *l, Pairs *p, const TInst *i, const PairInfo *a, int id, bool less) {
    PairInfo *x = &p->of[i->id];
    Val b = twice(l, p, id, less ? a->less : -a->less);
    x->word = ARENA_ARRAY(l->arena, Val, p->n);
    for (int k = 0; k < p->n; k++) x->word[k] = half_op(l, p, less ? "sub" : "add", a->word[k], b);
}

/* Is what they come to together exact as well? */
static bool takes(const Pairs *p, const PairInfo *a, const PairInfo *b, bool less) {
    int64_t most = half_of(p->type)->whole, by = less ? a->less : -a->less;
    return a->less && llabs(b->lo + by) <= most && llabs(b->hi + by) <= most;
}

void pairs_op(Lower *l, Pairs *p, const TInst *i) {
    PairInfo *x = &p->of[i->id];
    const PairInfo *a = &p->of[i->args[0]], *b = i->nargs == 2 ? &p->of[i->args[1]] : NULL;
    if (i->op == OP_cast) {
        x->word = a->word, x->less = a->less;
    } else if (i->op != OP_mul && b->steady && takes(p, a, b, i->op == OP_sub)) {
        emit_steady(l, p, i, a, i->args[1], i->op == OP_sub);
    } else if (i->op == OP_add && a->steady && takes(p, b, a, false)) {
        emit_steady(l, p, i, b, i->args[0], false);
    } else {
        emit_two(l, p, i, i->op == OP_mul ? "mul" : i->op == OP_add ? "add" : "sub");
    }
}

const Val *pairs_words(Lower *l, Pairs *p) {
    return plain(l, p, p->value);
}

/* ---- one at a time --------------------------------------------------------------------------- */

/* The same with 2^23 + 2^22, whose mantissa has room for a sign. */
void narrow_real(Lower *l, Val v, int64_t lo, int64_t hi) {
    enum { POWER = 0x4b400000, ROOM = 1 << 21 };
    if (lo < -ROOM || hi > ROOM || LLVMTypeOf(v) != l->i32) return;
    Val f = LLVMBuildAdd(l->b, v, word(l, POWER), "");
    RealOf *r = ARENA_NEW(l->arena, RealOf);
    *r = (RealOf){LLVMBuildBitCast(l->b, f, l->f32, ""), -12582912.0, ARENA_NEW(l->arena, bool)};
    *map_put(&l->reals, &v, sizeof v) = (intptr_t)r;
}
