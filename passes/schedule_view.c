/* schedule_view.c - a copy of a tile program with an axis of the grid more, which its index
 * expressions know by what the caller makes of them. */
#include "passes/schedule_int.h"

#include <string.h>

typedef struct Copy {
    const TProg *from;
    int at;
    ViewIx *ix;
    const void *view;
} Copy;

static const Ix *rewritten(const Copy *c, const Ix *x) {
    return x ? c->ix(c->view, x) : NULL;
}

static TBlock copied(const Copy *v, const TBlock *b) {
    Arena *a = v->from->arena;
    TBlock to = {0};
    for (int k = 0; k < b->inst.n; k++) {
        const TInst *i = b->inst.v[k];
        TInst *c = ARENA_NEW(a, TInst);
        *c = *i;
        c->ix = ARENA_ARRAY(a, const Ix *, i->nix);
        for (int d = 0; d < i->nix; d++) c->ix[d] = rewritten(v, i->ix[d]);
        if (i->kind == T_LOOP) c->axis = i->axis + (i->axis >= v->at);
        c->lo = rewritten(v, i->lo), c->hi = rewritten(v, i->hi);
        c->body = copied(v, &i->body);
        vec_push(a, &to.inst, c);
    }
    return to;
}

TProg *schedule_view(const TProg *t, int at, TAxis more, ViewIx *ix, const void *view) {
    Arena *a = t->arena;
    Copy c = {t, at, ix, view};
    TProg *to = ARENA_NEW(a, TProg);
    *to = *t;
    memset(&to->axes, 0, sizeof to->axes);
    for (int k = 0; k <= t->axes.n; k++) {
        if (k == at) vec_push(a, &to->axes, more);
        if (k < t->axes.n) vec_push(a, &to->axes, t->axes.v[k]);
    }
    to->ngrid++;
    to->body = copied(&c, &t->body);
    return to;
}
