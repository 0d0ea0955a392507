/* online_pages.c - see online.h: factors that lie in pages, or are read where data say.
 *
 * What says where may be computed ahead, and for a page's first element in the place of all of
 * them: it takes loads that are inside of their tensors for any element of j, and moves from page
 * to page alone.
 */
#include "ir/mma_int.h"
#include "ir/online.h"

#define no mma_no

enum { LINES = 8 }; /* that are swizzled together */

typedef struct Where {
    const Online *o;
    const uint64_t *deps;
    uint64_t elements; /* axes that a factor is tiled along, j aside */
    int page;
} Where;

static uint64_t bit(int axis) {
    return axis < 0 ? 0 : axis < 64 ? (uint64_t)1 << axis : UINT64_MAX;
}

static const TInst *defined(const TBlock *b, int id) {
    for (int k = 0; k < b->inst.n; k++) {
        const TInst *i = b->inst.v[k], *in;
        if (i->id == id) return i;
        if ((in = defined(&i->body, id))) return in;
    }
    return NULL;
}

static bool guarded(const Online *o, const TInst *i) {
    for (int k = 0; k < o->body.n; k++)
        if (o->body.v[k].i == i) return o->body.v[k].guards.n > 0;
    return false;
}

/* Is it read by some row at the first and at the last of what all rows read, and moves one way? */
static bool between(const Where *w, const TInst *load, const Ix *x) {
    const Online *o = w->o;
    return !x->has_value && !guarded(o, load) && online_moves(w->deps, x, o->j) != ONLINE_ANY &&
           online_moves(w->deps, o->loop->lo, o->rows) != ONLINE_ANY &&
           online_moves(w->deps, o->loop->hi, o->rows) != ONLINE_ANY;
}

/* j / n, where a parameter has so many n: that they are whole is checked at launch. */
static bool exact(const Online *o, const TTensor *of, const Ix *x, const Ix *dim) {
    int axis;
    if (of->mem == TM_TEMP || x->kind != IX_DIV || !ix_is_axis(x->arg[0], &axis)) return false;
    return dim == ix_div(o->t->ix, o->t->axes.v[axis].extent, x->arg[1]);
}

bool online_inside(const Online *o, const TInst *load, int d) {
    const TProg *t = o->t;
    const TTensor *of = &t->tensors.v[load->tensor];
    const Ix *x = load->ix[d], *dim = of->dims[d], *extent[64];
    int axis;
    if (load->checked >> d & 1) return true;
    if (x->has_value) return false;
    if (ix_is_axis(x, &axis) && dim == t->axes.v[axis].extent) return true;
    if (exact(o, of, x, dim)) return true;
    for (int a = 0; a < t->axes.n; a++) extent[a] = t->axes.v[a].extent;
    const Ix *above = ix_sub(t->ix, ix_sub(t->ix, dim, ix_const(t->ix, 1)), x);
    return ix_prove_nonneg(t->ix, x, extent, t->axes.n, NULL, 0) &&
           ix_prove_nonneg(t->ix, above, extent, t->axes.n, NULL, 0);
}

static bool known_by_page(const Where *w, const Ix *x);

static bool value_by_page(const Where *w, int id) {
    const TInst *i = defined(&w->o->t->body, id);
    if (!i || (i->kind != T_LOAD && i->kind != T_OP && i->kind != T_INDEX && i->kind != T_CONST))
        return false;
    for (int d = 0; d < i->nix; d++) {
        if (!known_by_page(w, i->ix[d])) return false;
        if (i->kind == T_LOAD && !online_inside(w->o, i, d) && !between(w, i, i->ix[d]))
            return false;
    }
    for (int a = 0; a < i->nargs; a++)
        if (!value_by_page(w, i->args[a])) return false;
    return true;
}

/* The same for all elements of a page. */
static bool known_by_page(const Where *w, const Ix *x) {
    int axis;
    int64_t n;
    if (tile_ix_deps(w->deps, x) & w->elements) return false;
    if (ix_is_axis(x, &axis)) return axis != w->o->j;
    if (x->kind == IX_DIV && ix_is_axis(x->arg[0], &axis) && axis == w->o->j)
        return w->page && ix_is_const(x->arg[1], &n) && n % w->page == 0;
    if (x->kind == IX_VALUE) return value_by_page(w, (int)x->num);
    for (int k = 0; k < x->n; k++)
        if (!known_by_page(w, x->arg[k])) return false;
    return true;
}

/* The dimension in which j stands as a remainder; -1: none. */
static int lines(const Online *o, const TInst *load, int *page) {
    const TTensor *x = &o->t->tensors.v[load->tensor];
    for (int d = 0; d < load->nix; d++) {
        const Ix *ix = load->ix[d];
        int axis;
        int64_t n, dim;
        if (ix->kind != IX_MOD || !ix_is_axis(ix->arg[0], &axis) || axis != o->j) continue;
        if (!ix_is_const(ix->arg[1], &n) || !ix_is_const(x->dims[d], &dim) || n != dim) continue;
        *page = n < INT32_MAX ? (int)n : 0;
        return *page ? d : -1;
    }
    return -1;
}

bool online_factor(const Online *o, const uint64_t *deps, const TInst *load, int row, int k,
                   MmaFactor *f, OnlineWhere *at, Str *why) {
    const TProg *t = o->t;
    const char *name = t->tensors.v[load->tensor].name;
    Where w = {o, deps, bit(o->rows) | bit(row) | bit(k), 0};
    w.elements &= ~bit(o->j);
    *at = (OnlineWhere){0};
    int part = lines(o, load, &w.page);
    TInst plain = *load; /* as it were without pages and data */
    plain.ix = ARENA_ARRAY(t->arena, const Ix *, load->nix);
    for (int d = 0; d < load->nix; d++) {
        const Ix *x = load->ix[d];
        plain.ix[d] = d == part ? ix_axis(t->ix, o->j) : x;
        if (d == part || !(x->has_value || (part >= 0 && ix_uses_axis(x, o->j)))) continue;
        if (!known_by_page(&w, x)) return no(why, "%s is gathered element by element", name);
        plain.ix[d] = ix_const(t->ix, 0);
        plain.checked &= ~(1u << d);
        at->dims |= 1u << d;
    }
    if (w.page % LINES) return no(why, "%s has pages of %d", name, w.page);
    at->page = w.page;
    if (!mma_factor(t, &plain, row, k, part, f, why)) return false;
    if (f->outer >= 0) return no(why, "%s has two dimensions of k", name);
    f->load = load;
    return true;
}
