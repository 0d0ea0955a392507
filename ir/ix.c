/* ix.c - integer expressions in normal form, shared within a pool.
 *
 * The normal form is a sum of terms, each a constant times a product of atoms; atoms are sizes,
 * axes, values, quotients, remainders, minima and maxima. Terms and factors are kept in a
 * structural order (never in order of creation), so that printing and reading back gives the same
 * expression.
 */
#include "ir/ix.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_TERMS = 64 }; /* a product that would expand beyond this stays a product */

int64_t floor_div(int64_t a, int64_t b) {
    return a / b - (a % b < 0);
}

int64_t floor_mod(int64_t a, int64_t b) {
    int64_t r = a % b;
    return r < 0 ? r + b : r;
}

void ix_pool_init(IxPool *p, Arena *a) {
    *p = (IxPool){.arena = a, .map = {.arena = a}};
}

/* ---- making and ordering ---- */

static const Ix *make(IxPool *p, IxKind kind, int64_t num, const Ix *const *arg, int n) {
    int64_t small[10];
    int64_t *key = n + 2 <= 10 ? small : malloc(sizeof(int64_t) * (size_t)(n + 2));
    FK_ASSERT(key);
    key[0] = kind;
    key[1] = num;
    for (int i = 0; i < n; i++) key[i + 2] = arg[i]->id;
    intptr_t *slot = map_put(&p->map, key, sizeof(int64_t) * (size_t)(n + 2));
    if (key != small) free(key);
    if (*slot) return (const Ix *)*slot;
    Ix *x = ARENA_NEW(p->arena, Ix);
    const Ix **own = ARENA_ARRAY(p->arena, const Ix *, n);
    x->kind = kind;
    x->num = num;
    x->n = n;
    x->arg = own;
    x->id = ++p->count;
    x->has_axis = kind == IX_AXIS;
    x->has_value = kind == IX_VALUE;
    for (int i = 0; i < n; i++) {
        own[i] = arg[i];
        x->has_axis |= arg[i]->has_axis;
        x->has_value |= arg[i]->has_value;
    }
    *slot = (intptr_t)x;
    return x;
}

/* Axes first, then data, then sizes, then what is built from them: the order people write. */
static int kind_rank(IxKind k) {
    static const int rank[] = {
        [IX_AXIS] = 0, [IX_VALUE] = 1, [IX_SIZE] = 2, [IX_MUL] = 3, [IX_DIV] = 4,
        [IX_MOD] = 5,  [IX_MIN] = 6,   [IX_MAX] = 7,  [IX_ADD] = 8, [IX_CONST] = 9};
    return rank[k];
}

static int compare(const Ix *a, const Ix *b) {
    if (a == b) return 0;
    if (!a || !b) return a ? -1 : 1; /* the constant term last */
    if (a->kind != b->kind) return kind_rank(a->kind) < kind_rank(b->kind) ? -1 : 1;
    if (a->num != b->num) return a->num < b->num ? -1 : 1;
    for (int i = 0; i < a->n && i < b->n; i++) {
        int c = compare(a->arg[i], b->arg[i]);
        if (c) return c;
    }
    return (a->n > b->n) - (a->n < b->n);
}

static int compare_args(const void *a, const void *b) {
    return compare(*(const Ix *const *)a, *(const Ix *const *)b);
}

static int compare_terms(const void *a, const void *b) {
    return compare(((const IxTerm *)a)->atom, ((const IxTerm *)b)->atom);
}

const Ix *ix_const(IxPool *p, int64_t v) {
    return make(p, IX_CONST, v, NULL, 0);
}

const Ix *ix_size(IxPool *p, int size) {
    return make(p, IX_SIZE, size, NULL, 0);
}

const Ix *ix_axis(IxPool *p, int axis) {
    return make(p, IX_AXIS, axis, NULL, 0);
}

const Ix *ix_value(IxPool *p, int value, const Ix *const *args, int n) {
    return make(p, IX_VALUE, value, args, n);
}

bool ix_is_const(const Ix *x, int64_t *v) {
    if (x->kind != IX_CONST) return false;
    if (v) *v = x->num;
    return true;
}

bool ix_is_axis(const Ix *x, int *axis) {
    if (x->kind != IX_AXIS) return false;
    if (axis) *axis = (int)x->num;
    return true;
}

/* ---- sums of products ---- */

static int64_t add64(IxPool *p, int64_t a, int64_t b) {
    int64_t r;
    if (__builtin_add_overflow(a, b, &r)) p->overflow = true;
    return r;
}

static int64_t mul64(IxPool *p, int64_t a, int64_t b) {
    int64_t r;
    if (__builtin_mul_overflow(a, b, &r)) p->overflow = true;
    return r;
}

static IxTerm term_of(IxPool *p, const Ix *x) {
    if (x->kind == IX_CONST) return (IxTerm){x->num, NULL};
    if (x->kind != IX_MUL || x->arg[0]->kind != IX_CONST) return (IxTerm){1, x};
    const Ix *rest = x->n == 2 ? x->arg[1] : make(p, IX_MUL, 0, x->arg + 1, x->n - 1);
    return (IxTerm){x->arg[0]->num, rest};
}

int ix_terms(IxPool *p, const Ix *x, IxTerm **out) {
    int n = x->kind == IX_ADD ? x->n : 1;
    *out = ARENA_ARRAY(p->arena, IxTerm, n);
    for (int i = 0; i < n; i++) (*out)[i] = term_of(p, x->kind == IX_ADD ? x->arg[i] : x);
    return n;
}

/* Flattens into a sorted list of atoms: a product times a product. Neither has a constant. */
static const Ix *join_atoms(IxPool *p, const Ix *a, const Ix *b) {
    if (!a) return b;
    if (!b) return a;
    int na = a->kind == IX_MUL ? a->n : 1, nb = b->kind == IX_MUL ? b->n : 1;
    const Ix **all = ARENA_ARRAY(p->arena, const Ix *, na + nb);
    for (int i = 0; i < na; i++) all[i] = a->kind == IX_MUL ? a->arg[i] : a;
    for (int i = 0; i < nb; i++) all[na + i] = b->kind == IX_MUL ? b->arg[i] : b;
    qsort(all, (size_t)(na + nb), sizeof *all, compare_args);
    return make(p, IX_MUL, 0, all, na + nb);
}

static const Ix *term_ix(IxPool *p, IxTerm t) {
    if (!t.atom) return ix_const(p, t.coef);
    if (t.coef == 1) return t.atom;
    int n = t.atom->kind == IX_MUL ? t.atom->n : 1;
    const Ix **all = ARENA_ARRAY(p->arena, const Ix *, n + 1);
    all[0] = ix_const(p, t.coef);
    for (int i = 0; i < n; i++) all[i + 1] = t.atom->kind == IX_MUL ? t.atom->arg[i] : t.atom;
    return make(p, IX_MUL, 0, all, n + 1);
}

/* Sorts, merges and drops; the array is the caller's to lose. */
static const Ix *sum_of(IxPool *p, IxTerm *t, int n) {
    qsort(t, (size_t)n, sizeof *t, compare_terms);
    int m = 0;
    for (int i = 0; i < n; i++) {
        if (m && t[m - 1].atom == t[i].atom)
            t[m - 1].coef = add64(p, t[m - 1].coef, t[i].coef);
        else
            t[m++] = t[i];
        if (t[m - 1].coef == 0) m--;
    }
    if (m == 0) return ix_const(p, 0);
    if (m == 1) return term_ix(p, t[0]);
    const Ix **all = ARENA_ARRAY(p->arena, const Ix *, m);
    for (int i = 0; i < m; i++) all[i] = term_ix(p, t[i]);
    return make(p, IX_ADD, 0, all, m);
}

/* a + scale * b */
static const Ix *add_scaled(IxPool *p, const Ix *a, const Ix *b, int64_t scale) {
    IxTerm *ta, *tb;
    int na = ix_terms(p, a, &ta), nb = ix_terms(p, b, &tb);
    IxTerm *all = ARENA_ARRAY(p->arena, IxTerm, na + nb);
    memcpy(all, ta, sizeof *all * (size_t)na);
    for (int i = 0; i < nb; i++) all[na + i] = (IxTerm){mul64(p, tb[i].coef, scale), tb[i].atom};
    return sum_of(p, all, na + nb);
}

const Ix *ix_add(IxPool *p, const Ix *a, const Ix *b) {
    return add_scaled(p, a, b, 1);
}

const Ix *ix_sub(IxPool *p, const Ix *a, const Ix *b) {
    return add_scaled(p, a, b, -1);
}

const Ix *ix_neg(IxPool *p, const Ix *a) {
    return add_scaled(p, ix_const(p, 0), a, -1);
}

const Ix *ix_mul(IxPool *p, const Ix *a, const Ix *b) {
    IxTerm *ta, *tb;
    int na = ix_terms(p, a, &ta), nb = ix_terms(p, b, &tb);
    if (na > 1 && nb > 1 && na * nb > MAX_TERMS) return join_atoms(p, a, b);
    IxTerm *all = ARENA_ARRAY(p->arena, IxTerm, na * nb);
    for (int i = 0; i < na; i++)
        for (int j = 0; j < nb; j++)
            all[i * nb + j] =
                (IxTerm){mul64(p, ta[i].coef, tb[j].coef), join_atoms(p, ta[i].atom, tb[j].atom)};
    return sum_of(p, all, na * nb);
}

/* ---- quotients ---- */

/* x / b where every term of x has the atom b as a factor; NULL otherwise. */
static const Ix *exact_quotient(IxPool *p, const Ix *x, const Ix *b) {
    IxTerm *t;
    int n = ix_terms(p, x, &t);
    for (int i = 0; i < n; i++) {
        if (!t[i].atom) return NULL;
        if (t[i].atom == b) {
            t[i].atom = NULL;
            continue;
        }
        if (t[i].atom->kind != IX_MUL) return NULL;
        int at = -1, m = t[i].atom->n;
        for (int k = 0; k < m; k++)
            if (t[i].atom->arg[k] == b) at = k;
        if (at < 0) return NULL;
        const Ix **rest = ARENA_ARRAY(p->arena, const Ix *, m - 1);
        for (int k = 0, j = 0; k < m; k++)
            if (k != at) rest[j++] = t[i].atom->arg[k];
        t[i].atom = m == 2 ? rest[0] : make(p, IX_MUL, 0, rest, m - 1);
    }
    return sum_of(p, t, n);
}

/* Splits x = b * whole + rest, 0 <= constant of rest < b, coefficients of rest in (-b, b). */
static void split_by(IxPool *p, const Ix *x, int64_t b, const Ix **whole, const Ix **rest) {
    IxTerm *t;
    int n = ix_terms(p, x, &t);
    IxTerm *w = ARENA_ARRAY(p->arena, IxTerm, n), *r = ARENA_ARRAY(p->arena, IxTerm, n);
    int nw = 0, nr = 0;
    for (int i = 0; i < n; i++) {
        if (t[i].coef % b == 0) {
            w[nw++] = (IxTerm){t[i].coef / b, t[i].atom};
        } else if (!t[i].atom) {
            w[nw++] = (IxTerm){floor_div(t[i].coef, b), NULL};
            r[nr++] = (IxTerm){floor_mod(t[i].coef, b), NULL};
        } else {
            r[nr++] = t[i];
        }
    }
    *whole = sum_of(p, w, nw);
    *rest = sum_of(p, r, nr);
}

int64_t ix_gcd(int64_t a, int64_t b) {
    while (b) {
        int64_t t = a % b;
        a = b;
        b = t;
    }
    return a < 0 ? -a : a;
}

/* floor((g*x + c) / (g*b)) = floor((x + floor(c/g)) / b) */
static const Ix *div_rest(IxPool *p, const Ix *rest, int64_t b) {
    IxTerm *t;
    int n = ix_terms(p, rest, &t);
    int64_t g = b;
    for (int i = 0; i < n; i++)
        if (t[i].atom) g = ix_gcd(g, t[i].coef);
    if (g > 1) {
        for (int i = 0; i < n; i++) t[i].coef = t[i].atom ? t[i].coef / g : floor_div(t[i].coef, g);
        return ix_div(p, sum_of(p, t, n), ix_const(p, b / g));
    }
    int64_t inner;
    if (rest->kind == IX_DIV && ix_is_const(rest->arg[1], &inner) && inner > 0 &&
        inner < INT64_MAX / b)
        return ix_div(p, rest->arg[0], ix_const(p, inner * b));
    return make(p, IX_DIV, 0, (const Ix *[]){rest, ix_const(p, b)}, 2);
}

const Ix *ix_div(IxPool *p, const Ix *a, const Ix *b) {
    int64_t nb, na;
    if (ix_is_const(a, &na) && na == 0) return a;
    if (!ix_is_const(b, &nb)) {
        const Ix *q = exact_quotient(p, a, b);
        return q ? q : make(p, IX_DIV, 0, (const Ix *[]){a, b}, 2);
    }
    if (nb <= 0) return make(p, IX_DIV, 0, (const Ix *[]){a, b}, 2); /* evaluation reports it */
    if (nb == 1) return a;
    const Ix *whole, *rest;
    split_by(p, a, nb, &whole, &rest);
    if (ix_is_const(rest, &na)) return whole; /* 0 <= na < nb */
    return ix_add(p, whole, div_rest(p, rest, nb));
}

const Ix *ix_mod(IxPool *p, const Ix *a, const Ix *b) {
    int64_t nb, inner;
    if (ix_is_const(a, &nb) && nb == 0) return a;
    if (!ix_is_const(b, &nb)) {
        if (exact_quotient(p, a, b)) return ix_const(p, 0);
        return make(p, IX_MOD, 0, (const Ix *[]){a, b}, 2);
    }
    if (nb <= 0) return make(p, IX_MOD, 0, (const Ix *[]){a, b}, 2);
    IxTerm *t;
    int n = ix_terms(p, a, &t);
    for (int i = 0; i < n; i++) t[i].coef = floor_mod(t[i].coef, nb);
    const Ix *rest = sum_of(p, t, n);
    if (rest->kind == IX_CONST) return ix_const(p, floor_mod(rest->num, nb));
    if (rest->kind == IX_MOD && ix_is_const(rest->arg[1], &inner) && inner > 0) {
        if (inner <= nb) return rest;
        if (inner % nb == 0) return ix_mod(p, rest->arg[0], b);
    }
    return make(p, IX_MOD, 0, (const Ix *[]){rest, b}, 2);
}

static const Ix *extreme(IxPool *p, IxKind kind, const Ix *a, const Ix *b) {
    if (a == b || (a->kind == kind && (a->arg[0] == b || a->arg[1] == b))) return a;
    if (b->kind == kind && (b->arg[0] == a || b->arg[1] == a)) return b;
    int64_t d;
    if (ix_is_const(ix_sub(p, a, b), &d)) return (d < 0) == (kind == IX_MIN) ? a : b;
    if (compare(a, b) > 0) return make(p, kind, 0, (const Ix *[]){b, a}, 2);
    return make(p, kind, 0, (const Ix *[]){a, b}, 2);
}

const Ix *ix_min(IxPool *p, const Ix *a, const Ix *b) {
    return extreme(p, IX_MIN, a, b);
}

const Ix *ix_max(IxPool *p, const Ix *a, const Ix *b) {
    return extreme(p, IX_MAX, a, b);
}

/* ---- rewriting, evaluating ---- */

static const Ix *apply(IxPool *p, const Ix *x, const Ix *const *arg) {
    const Ix *r;
    switch (x->kind) {
    case IX_CONST: return ix_const(p, x->num);
    case IX_SIZE: return ix_size(p, (int)x->num);
    case IX_AXIS: return ix_axis(p, (int)x->num);
    case IX_VALUE: return ix_value(p, (int)x->num, arg, x->n);
    case IX_DIV: return ix_div(p, arg[0], arg[1]);
    case IX_MOD: return ix_mod(p, arg[0], arg[1]);
    case IX_MIN: return ix_min(p, arg[0], arg[1]);
    case IX_MAX: return ix_max(p, arg[0], arg[1]);
    case IX_ADD:
    case IX_MUL:
        r = arg[0];
        for (int i = 1; i < x->n; i++)
            r = x->kind == IX_ADD ? ix_add(p, r, arg[i]) : ix_mul(p, r, arg[i]);
        return r;
    }
    FK_BUG("ix kind %d", x->kind);
}

const Ix *ix_subst(IxPool *p, const Ix *x, const IxSubst *s) {
    if (x->kind == IX_AXIS && x->num < s->nax && s->axes[x->num]) return s->axes[x->num];
    if (x->kind == IX_SIZE && x->num < s->nsz && s->sizes[x->num]) return s->sizes[x->num];
    const Ix **arg = ARENA_ARRAY(p->arena, const Ix *, x->n);
    for (int i = 0; i < x->n; i++) arg[i] = ix_subst(p, x->arg[i], s);
    if (x->kind == IX_VALUE && s->value) return s->value(s->ctx, p, (int)x->num, arg, x->n);
    return apply(p, x, arg);
}

const Ix *ix_at(IxPool *p, const Ix *x, const Ix *const *axes, int nax) {
    if (!x->has_axis) return x;
    return ix_subst(p, x, &(IxSubst){.axes = axes, .nax = nax});
}

const Ix *ix_copy(IxPool *to, const Ix *x) {
    return ix_subst(to, x, &(IxSubst){0});
}

bool ix_uses_axis(const Ix *x, int axis) {
    if (x->kind == IX_AXIS) return x->num == axis;
    if (!x->has_axis) return false;
    for (int i = 0; i < x->n; i++)
        if (ix_uses_axis(x->arg[i], axis)) return true;
    return false;
}

bool ix_linear_in(IxPool *p, const Ix *x, int axis, int64_t *coef, const Ix **rest) {
    IxTerm *t;
    int n = ix_terms(p, x, &t), at = -1;
    for (int i = 0; i < n; i++) {
        if (!t[i].atom || !ix_uses_axis(t[i].atom, axis)) continue;
        if (t[i].atom->kind != IX_AXIS || at >= 0) return false;
        at = i;
    }
    *coef = at < 0 ? 0 : t[at].coef;
    if (at >= 0) t[at].coef = 0;
    *rest = sum_of(p, t, n);
    return true;
}

int64_t ix_eval(const Ix *x, const IxEnv *env, bool *ok) {
    int64_t a, b, r;
    switch (x->kind) {
    case IX_CONST: return x->num;
    case IX_SIZE: return env->size[x->num];
    case IX_AXIS: return env->axis[x->num];
    case IX_VALUE: {
        int64_t args[16];
        FK_ASSERT(x->n <= 16 && env->value);
        for (int i = 0; i < x->n; i++) args[i] = ix_eval(x->arg[i], env, ok);
        return env->value(env->ctx, x, args);
    }
    case IX_ADD:
    case IX_MUL:
        r = ix_eval(x->arg[0], env, ok);
        for (int i = 1; i < x->n; i++) {
            b = ix_eval(x->arg[i], env, ok);
            if (x->kind == IX_ADD ? __builtin_add_overflow(r, b, &r)
                                  : __builtin_mul_overflow(r, b, &r))
                *ok = false;
        }
        return r;
    default: break;
    }
    a = ix_eval(x->arg[0], env, ok);
    b = ix_eval(x->arg[1], env, ok);
    if (x->kind == IX_MIN) return a < b ? a : b;
    if (x->kind == IX_MAX) return a > b ? a : b;
    if (b <= 0) {
        *ok = false;
        return 0;
    }
    return x->kind == IX_DIV ? floor_div(a, b) : floor_mod(a, b);
}
