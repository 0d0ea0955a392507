/* tile_deps.c - which values of a tile program differ along which axes. A fixed point, because a
 * carry depends on what is stepped, which may depend on other carries.
 */
#include "ir/tile.h"

typedef struct Walk {
    uint64_t *deps;
    uint64_t *outer; /* by carry: the axes open outside its loop */
    uint64_t open;
    bool changed;
} Walk;

static uint64_t axis_bit(int64_t axis) {
    return axis < 64 ? (uint64_t)1 << axis : UINT64_MAX;
}

uint64_t tile_ix_deps(const uint64_t *deps, const Ix *x) {
    if (!x->has_axis && !x->has_value) return 0;
    if (x->kind == IX_AXIS) return axis_bit(x->num);
    uint64_t d = x->kind == IX_VALUE ? deps[x->num] : 0;
    for (int i = 0; i < x->n; i++) d |= tile_ix_deps(deps, x->arg[i]);
    return d;
}

static void add(Walk *w, int id, uint64_t d) {
    if (!(d & ~w->deps[id])) return;
    w->deps[id] |= d;
    w->changed = true;
}

static void walk(Walk *w, const TBlock *b, uint64_t decided);

static void walk_loop(Walk *w, const TInst *i, uint64_t decided) {
    uint64_t before = w->open;
    decided |= tile_ix_deps(w->deps, i->lo) | tile_ix_deps(w->deps, i->hi);
    for (int c = 0; c < i->carries.n; c++) {
        const TCarry *y = &i->carries.v[c];
        w->outer[y->id] = before;
        if (y->frame >= 0) add(w, y->id, w->deps[y->frame] & before);
        for (int k = 0; k < y->rescale.n; k++)
            if (y->rescale.v[k].kind == TF_VALUE)
                add(w, y->id, w->deps[y->rescale.v[k].value] & before);
    }
    w->open |= axis_bit(i->axis);
    walk(w, &i->body, decided);
    w->open = before;
}

/* decided: what the guards and bounds around depend on. */
static void walk(Walk *w, const TBlock *b, uint64_t decided) {
    for (int k = 0; k < b->inst.n; k++) {
        const TInst *i = b->inst.v[k];
        uint64_t d = 0;
        for (int a = 0; a < i->nargs; a++) d |= w->deps[i->args[a]];
        for (int a = 0; a < i->nix; a++) d |= tile_ix_deps(w->deps, i->ix[a]);
        if (i->id >= 0) add(w, i->id, d);
        if (i->kind == T_STEP) add(w, i->args[0], (d | decided) & w->outer[i->args[0]]);
        if (i->kind == T_LOOP) walk_loop(w, i, decided);
        if (i->kind == T_GUARD) walk(w, &i->body, decided | d);
    }
}

uint64_t *tile_deps(Arena *a, const TProg *t) {
    Walk w = {.deps = ARENA_ARRAY(a, uint64_t, t->nvalues + 1),
              .outer = ARENA_ARRAY(a, uint64_t, t->nvalues + 1)};
    do {
        w.changed = false;
        w.open = 0;
        for (int k = 0; k < t->ngrid; k++) w.open |= axis_bit(k);
        walk(&w, &t->body, 0);
    } while (w.changed);
    return w.deps;
}

uint64_t tile_once(const TProg *t, const uint64_t *deps, const TInst *store) {
    uint64_t grid = 0, used = 0;
    for (int k = 0; k < t->ngrid && k < 63; k++) grid |= axis_bit(k);
    for (int d = 0; d < store->nix; d++) used |= tile_ix_deps(deps, store->ix[d]);
    return grid & ~used;
}

static uint64_t once_in(const TProg *t, const uint64_t *deps, const TBlock *b) {
    uint64_t once = 0;
    for (int k = 0; k < b->inst.n; k++) {
        const TInst *i = b->inst.v[k];
        once |= i->kind == T_STORE ? tile_once(t, deps, i) : once_in(t, deps, &i->body);
    }
    return once;
}

uint64_t tile_all_once(const TProg *t, const uint64_t *deps) {
    return once_in(t, deps, &t->body);
}
