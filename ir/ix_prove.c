/* ix_prove.c - bounds of integer expressions, and proofs that one is never negative.
 *
 * Bounds replace each axis by the end of its range that the sign of its coefficient asks for.
 * A proof takes the lower bound, which has only sizes, puts every size as 1 + s with s >= 0, and
 * succeeds when no coefficient is negative. Sound, far from complete; every caller has a dynamic
 * check for the rest.
 */
#include "ir/ix.h"

typedef struct Box {
    const Ix *const *extents;
    int n;
} Box;

static const Ix *bound(IxPool *p, const Ix *x, const Box *box, bool upper);
static bool sizes_nonneg(IxPool *p, const Ix *x, int depth);

/* x % m lies in [0, m - 1], and below x where x is never negative. */
static const Ix *bound_mod(IxPool *p, const Ix *x, const Box *box, bool upper) {
    if (x->arg[1]->has_axis || x->arg[1]->has_value) return NULL;
    if (!upper) return ix_const(p, 0);
    const Ix *top = ix_sub(p, x->arg[1], ix_const(p, 1));
    const Ix *lo = bound(p, x->arg[0], box, false), *hi = bound(p, x->arg[0], box, true);
    if (!lo || !hi || !sizes_nonneg(p, lo, 6)) return top;
    if (sizes_nonneg(p, ix_sub(p, hi, top), 6)) return top;
    return sizes_nonneg(p, ix_sub(p, top, hi), 6) ? hi : ix_min(p, top, hi);
}

static const Ix *bound_div(IxPool *p, const Ix *x, const Box *box, bool upper) {
    if (x->arg[1]->has_axis || x->arg[1]->has_value) return NULL;
    const Ix *a = bound(p, x->arg[0], box, upper);
    return a ? ix_div(p, a, x->arg[1]) : NULL;
}

static const Ix *bound_atom(IxPool *p, const Ix *x, const Box *box, bool upper) {
    if (!x->has_axis && !x->has_value) return x;
    switch (x->kind) {
    case IX_AXIS:
        if (x->num >= box->n || !box->extents[x->num]) return NULL;
        return upper ? ix_sub(p, box->extents[x->num], ix_const(p, 1)) : ix_const(p, 0);
    case IX_DIV: return bound_div(p, x, box, upper);
    case IX_MOD: return bound_mod(p, x, box, upper);
    case IX_MIN:
    case IX_MAX: {
        const Ix *a = bound(p, x->arg[0], box, upper), *b = bound(p, x->arg[1], box, upper);
        if (x->kind == IX_MIN && upper && (!a || !b)) return a ? a : b; /* below either */
        if (x->kind == IX_MAX && !upper && (!a || !b)) return a ? a : b;
        if (!a || !b) return NULL;
        return x->kind == IX_MIN ? ix_min(p, a, b) : ix_max(p, a, b);
    }
    case IX_ADD: return bound(p, x, box, upper); /* a sum kept as a factor */
    default: return NULL;
    }
}

/* A product of atoms that are all >= 0 lies between the products of their bounds. */
static const Ix *bound_product(IxPool *p, const Ix *x, const Box *box, bool upper) {
    if (!x->has_axis && !x->has_value) return x;
    if (x->kind != IX_MUL) return bound_atom(p, x, box, upper);
    const Ix *r = ix_const(p, 1);
    for (int i = 0; i < x->n; i++) {
        const Ix *lo = bound_atom(p, x->arg[i], box, false);
        const Ix *b = upper ? bound_atom(p, x->arg[i], box, true) : lo;
        if (!lo || !b || !sizes_nonneg(p, lo, 6)) return NULL;
        r = ix_mul(p, r, b);
    }
    return r;
}

static const Ix *bound(IxPool *p, const Ix *x, const Box *box, bool upper) {
    IxTerm *t;
    int n = ix_terms(p, x, &t);
    const Ix *sum = ix_const(p, 0);
    for (int i = 0; i < n; i++) {
        const Ix *b = ix_const(p, 1);
        if (t[i].atom) b = bound_product(p, t[i].atom, box, (t[i].coef > 0) == upper);
        if (!b) return NULL;
        sum = ix_add(p, sum, ix_mul(p, ix_const(p, t[i].coef), b));
    }
    return sum;
}

void ix_range(IxPool *p, const Ix *x, const Ix *const *extents, int nax, const Ix **lo,
              const Ix **hi) {
    Box box = {extents, extents ? nax : 0};
    if (lo) *lo = bound(p, x, &box, false);
    if (hi) *hi = bound(p, x, &box, true);
}

/* ---- expressions of sizes only ---- */

static bool is_size_atom(const Ix *x) {
    return x->kind == IX_SIZE;
}

/* The first atom of t that is neither a size nor a product of sizes; NULL when there is none. */
static const Ix *odd_atom(const Ix *t) {
    if (!t || is_size_atom(t)) return NULL;
    if (t->kind != IX_MUL) return t;
    for (int i = 0; i < t->n; i++)
        if (!is_size_atom(t->arg[i])) return t->arg[i];
    return NULL;
}

static const Ix *replace_atom(IxPool *p, const Ix *x, const Ix *atom, const Ix *by) {
    if (x == atom) return by;
    if (x->kind != IX_MUL) return x;
    const Ix *r = ix_const(p, 1);
    bool done = false;
    for (int i = 0; i < x->n; i++) {
        bool hit = !done && x->arg[i] == atom;
        done |= hit;
        r = ix_mul(p, r, hit ? by : x->arg[i]);
    }
    return r;
}

/* x with one odd atom of term t replaced by what bounds it from the side that makes x smaller;
 * x may be scaled by a positive constant on the way (floor(a/c) >= (a - c + 1) / c). */
static bool try_atom(IxPool *p, const Ix *x, IxTerm t, const Ix *atom, int depth) {
    bool positive = t.coef > 0;
    const Ix *rest = ix_sub(p, x, ix_mul(p, ix_const(p, t.coef), t.atom));
    const Ix *others = replace_atom(p, t.atom, atom, ix_const(p, 1));
    if (!sizes_nonneg(p, others, depth - 1)) return false;
    const Ix *scaled = ix_mul(p, ix_const(p, t.coef), others), *one = ix_const(p, 1);
    switch (atom->kind) {
    case IX_MOD:
        if (positive) return sizes_nonneg(p, rest, depth - 1);
        return sizes_nonneg(p, ix_add(p, rest, ix_mul(p, scaled, ix_sub(p, atom->arg[1], one))),
                            depth - 1);
    case IX_DIV: {
        if (positive && sizes_nonneg(p, atom->arg[0], depth - 1) &&
            sizes_nonneg(p, rest, depth - 1))
            return true;
        /* q = floor(a/c) lies in [(a - c + 1)/c, a/c]. r + q >= 0 over integers is r + a/c >= 0,
         * and r - q >= 0 is r - (a - c + 1)/c >= 0: a unit coefficient loses nothing. */
        const Ix *num = atom->arg[0], *c = atom->arg[1];
        bool unit = scaled->kind == IX_CONST && (scaled->num == 1 || scaled->num == -1);
        if (positive != unit) num = ix_add(p, ix_sub(p, num, c), one);
        return sizes_nonneg(p, ix_add(p, ix_mul(p, c, rest), ix_mul(p, scaled, num)), depth - 1);
    }
    case IX_MIN:
    case IX_MAX: {
        bool a = sizes_nonneg(p, ix_add(p, rest, ix_mul(p, scaled, atom->arg[0])), depth - 1);
        bool both = (atom->kind == IX_MIN) == positive;
        if (a != both) return a;
        return sizes_nonneg(p, ix_add(p, rest, ix_mul(p, scaled, atom->arg[1])), depth - 1);
    }
    default: return false;
    }
}

static bool shifted_nonneg(IxPool *p, const Ix *x) {
    int top = 0;
    IxTerm *t;
    int n = ix_terms(p, x, &t);
    for (int i = 0; i < n; i++) {
        const Ix *a = t[i].atom;
        for (int k = 0; a && k < (a->kind == IX_MUL ? a->n : 1); k++) {
            const Ix *s = a->kind == IX_MUL ? a->arg[k] : a;
            if (s->num >= top) top = (int)s->num + 1;
        }
    }
    const Ix **by = ARENA_ARRAY(p->arena, const Ix *, top);
    for (int s = 0; s < top; s++) by[s] = ix_add(p, ix_size(p, s), ix_const(p, 1));
    n = ix_terms(p, ix_subst(p, x, &(IxSubst){.sizes = by, .nsz = top}), &t);
    for (int i = 0; i < n; i++)
        if (t[i].coef < 0) return false;
    return true;
}

static bool sizes_nonneg(IxPool *p, const Ix *x, int depth) {
    if (x->has_axis || x->has_value || depth < 0) return false;
    IxTerm *t;
    int n = ix_terms(p, x, &t);
    for (int i = 0; i < n; i++) {
        const Ix *atom = odd_atom(t[i].atom);
        if (atom) return try_atom(p, x, t[i], atom, depth);
    }
    return shifted_nonneg(p, x);
}

bool ix_prove_nonneg(IxPool *p, const Ix *x, const Ix *const *extents, int nax,
                     const Ix *const *facts, int nfacts) {
    bool overflow = p->overflow; /* of the user's constants, not of what is tried here */
    Box box = {extents, extents ? nax : 0};
    bool proved = false;
    for (int i = -1; i < nfacts && !proved; i++) /* none, one, or two of the facts */
        for (int j = i; j < nfacts && !proved; j++) {
            const Ix *y = i >= 0 ? ix_sub(p, x, facts[i]) : x;
            if (j > i && i >= 0) y = ix_sub(p, y, facts[j]);
            if (i < 0 && j >= 0) break;
            const Ix *lo = bound(p, y, &box, false);
            proved = lo && sizes_nonneg(p, lo, 6);
        }
    bool sound = !p->overflow || overflow;
    p->overflow = overflow;
    return proved && sound;
}

/* ---- facts ---- */

typedef struct Alike {
    int64_t c[2];
    const Ix *fact[2]; /* the strongest, the next */
} Alike;

/* Writes the ids of x's terms but for the constant to key; returns how many. */
static int key_but_constant(const Ix *x, int64_t *key, int64_t *c) {
    int n = 0;
    *c = 0;
    if (x->kind != IX_ADD && !ix_is_const(x, c)) key[n++] = x->id;
    for (int i = 0; x->kind == IX_ADD && i < x->n; i++)
        if (!ix_is_const(x->arg[i], c)) key[n++] = x->arg[i]->id;
    return n;
}

static void add_alike(Alike *a, const Ix *fact, int64_t c) {
    int at = !a->fact[0] || c < a->c[0] ? 0 : 1;
    if (at == 1 && a->fact[1] && c >= a->c[1]) return;
    if (at == 0) {
        a->c[1] = a->c[0];
        a->fact[1] = a->fact[0];
    }
    a->c[at] = c;
    a->fact[at] = fact;
}

int ix_strongest(const Ix **facts, int n) {
    Arena scratch = {0};
    Map map = {.arena = &scratch};
    Alike **all = ARENA_ARRAY(&scratch, Alike *, n);
    int groups = 0, kept = 0;
    for (int i = 0; i < n; i++) {
        int64_t *key = ARENA_ARRAY(&scratch, int64_t, facts[i]->n + 1), c;
        int len = key_but_constant(facts[i], key, &c);
        intptr_t *slot = map_put(&map, key, sizeof *key * (size_t)len);
        if (!*slot) *slot = (intptr_t)(all[groups++] = ARENA_NEW(&scratch, Alike));
        add_alike((Alike *)*slot, facts[i], c);
    }
    for (int i = 0; i < groups; i++)
        for (int k = 0; k < 2; k++)
            if (all[i]->fact[k]) facts[kept++] = all[i]->fact[k];
    arena_free(&scratch);
    return kept;
}
