/* ix.h - integer expressions: sizes, extents, index maps, loop bounds, launch checks.
 *
 * An Ix is built only through these functions, which bring it to a normal form (a sum of products
 * with merged coefficients; floor division and remainder by constants split where exact) and share
 * equal ones, so within one pool two expressions that the normal form knows to be equal are the
 * same pointer. Values are 64-bit; division is floor division and its remainder.
 */
#ifndef FK_IR_IX_H
#define FK_IR_IX_H

#include "ir/base/base.h"

typedef enum IxKind {
    IX_CONST, /* num */
    IX_SIZE,  /* num: index into the fn's sizes */
    IX_AXIS,  /* num: axis of the node that owns the map (graph), or of the tile program */
    IX_VALUE, /* num: node (graph; args: its index, one per axis) or value (tile; no args) */
    IX_ADD,   /* args: terms, the constant last */
    IX_MUL,   /* args: the constant first, then atoms */
    IX_DIV,   /* floor(arg0 / arg1), arg1 > 0 */
    IX_MOD,   /* arg0 - arg1 * floor(arg0 / arg1), arg1 > 0 */
    IX_MIN,
    IX_MAX
} IxKind;

typedef struct Ix Ix;
struct Ix {
    IxKind kind;
    int n; /* number of args */
    int64_t num;
    const Ix *const *arg;
    int id;         /* order of creation in the pool: a stable sort key */
    bool has_axis;  /* an IX_AXIS inside (also below IX_VALUE) */
    bool has_value; /* an IX_VALUE inside: depends on data */
};

typedef struct IxPool {
    Arena *arena;
    Map map;
    int count;
    bool overflow; /* a constant left 64 bits (the result wrapped): the caller reports it */
} IxPool;

void ix_pool_init(IxPool *p, Arena *a);

const Ix *ix_const(IxPool *p, int64_t v);
const Ix *ix_size(IxPool *p, int size);
const Ix *ix_axis(IxPool *p, int axis);
const Ix *ix_value(IxPool *p, int value, const Ix *const *args, int n);
const Ix *ix_add(IxPool *p, const Ix *a, const Ix *b);
const Ix *ix_sub(IxPool *p, const Ix *a, const Ix *b);
const Ix *ix_neg(IxPool *p, const Ix *a);
const Ix *ix_mul(IxPool *p, const Ix *a, const Ix *b);
const Ix *ix_div(IxPool *p, const Ix *a, const Ix *b);
const Ix *ix_mod(IxPool *p, const Ix *a, const Ix *b);
const Ix *ix_min(IxPool *p, const Ix *a, const Ix *b);
const Ix *ix_max(IxPool *p, const Ix *a, const Ix *b);

bool ix_is_const(const Ix *x, int64_t *v); /* v may be NULL */
bool ix_is_axis(const Ix *x, int *axis);   /* a bare axis */

/* The linear view: x = sum coef[i] * term[i] + rest, one entry per term of the sum. Returns the
 * number of terms (a constant term has term NULL). Arrays live in the pool's arena. */
typedef struct IxTerm {
    int64_t coef;
    const Ix *atom; /* product of atoms, coefficient 1; NULL for the constant */
} IxTerm;
int ix_terms(IxPool *p, const Ix *x, IxTerm **out);

/* The coefficient of axis `axis` in x if x is linear in it with a constant coefficient and the
 * axis occurs nowhere else; false otherwise. *rest is x without that term. */
bool ix_linear_in(IxPool *p, const Ix *x, int axis, int64_t *coef, const Ix **rest);
bool ix_uses_axis(const Ix *x, int axis);

/* Rewrites leaves: axis k becomes axes[k] (NULL: kept), size s becomes sizes[s] (NULL: kept),
 * value v becomes values(ctx, v, its already rewritten args) (NULL function: kept with the
 * rewritten args). Arrays may be NULL; nax/nsz are their lengths. */
typedef struct IxSubst {
    const Ix *const *axes;
    int nax;
    const Ix *const *sizes;
    int nsz;
    const Ix *(*value)(void *ctx, IxPool *p, int value, const Ix *const *args, int n);
    void *ctx;
} IxSubst;
const Ix *ix_subst(IxPool *p, const Ix *x, const IxSubst *s);
const Ix *ix_at(IxPool *p, const Ix *x, const Ix *const *axes, int nax); /* axes only */

/* The same expression in another pool (leaves keep their numbers). */
const Ix *ix_copy(IxPool *to, const Ix *x);

/* Evaluates. ok becomes false (never true) on a divisor <= 0 or overflow. `value` may be NULL when
 * no IX_VALUE occurs. */
typedef struct IxEnv {
    const int64_t *size;
    const int64_t *axis;
    int64_t (*value)(void *ctx, const Ix *x, const int64_t *args);
    void *ctx;
} IxEnv;
int64_t ix_eval(const Ix *x, const IxEnv *env, bool *ok);

/* Proves x >= 0 for all sizes >= 1 (and axes inside [0, extent - 1] where extents is given, one
 * per axis, NULL: axes must not occur), given that each of facts[] >= 0. Sound, not complete. */
bool ix_prove_nonneg(IxPool *p, const Ix *x, const Ix *const *extents, int nax,
                     const Ix *const *facts, int nfacts);

/* Of facts that differ by a constant, keeps the two strongest: a proof uses two at most, and tries
 * all pairs. In place; returns how many are left. */
int ix_strongest(const Ix **facts, int n);

/* Least and greatest value of x over axes in [0, extent - 1], as expressions of sizes; NULL where
 * none is known (non-affine, data dependent). Extents >= 1 is assumed. */
void ix_range(IxPool *p, const Ix *x, const Ix *const *extents, int nax, const Ix **lo,
              const Ix **hi);

/* Prints with names: size[i], axis[i]; value i as value[i] where i < nvalue and that is not NULL,
 * else as %i; with [args] when it has any. Reads back with text_ix of ir/text_int.h. */
typedef struct IxNames {
    const char *const *size;
    const char *const *axis;
    const char *const *value;
    int nvalue;
} IxNames;
void ix_print(Str *out, const Ix *x, const IxNames *names);

int64_t floor_div(int64_t a, int64_t b); /* b > 0 */
int64_t floor_mod(int64_t a, int64_t b);
int64_t ix_gcd(int64_t a, int64_t b); /* both >= 0; that of 0 and b is b */

#endif
