/* collapse.c - axes that lie in memory one after the other as one axis.
 *
 * Nests of loops over all of the same axes (a sum over two axes), and axes of the grid where
 * nothing is summed, become one axis, as long as all of them; what was one of them is a digit of
 * it. So schedules see a row, or a list of elements, of which ordinary tensors are one piece: the
 * backend finds the digits (ir/tile_run.c), and the launch brings strides that make them one.
 */
#include "passes/schedule_int.h"

#include <string.h>

enum { MOST = 6 };

typedef struct Digits {
    TProg *t;
    int n;          /* digits of the new axis, as memory has them, outermost first */
    int axis[MOST]; /* those of the first nest */
    int *digit;     /* per axis of the program: which it is; -1: none */
} Digits;

static bool among(const Digits *d, int axis) {
    return d->digit[axis] >= 0;
}

/* ---- nests of loops ---- */

/* The only instruction of a loop's body that is one; NULL: there are others beside it. */
static TInst *inside(const TInst *loop) {
    TInst *in = loop->body.inst.n == 1 ? loop->body.inst.v[0] : NULL;
    return in && in->kind == T_LOOP && !in->carries.n ? in : NULL;
}

static bool whole(const TProg *t, const TInst *loop) {
    int64_t zero;
    return ix_is_const(loop->lo, &zero) && !zero && loop->hi == t->axes.v[loop->axis].extent;
}

static bool flat(const TBlock *b) {
    for (int k = 0; k < b->inst.n; k++)
        if (b->inst.v[k]->kind == T_LOOP || b->inst.v[k]->kind == T_GUARD) return false;
    return true;
}

/* Axes of a nest, as they are nested; 0: it is none, or not over all of them. */
static int nest(const TProg *t, TInst *loop, int *axis, TInst **innermost) {
    int n = 0;
    for (TInst *i = loop; i; i = inside(i)) {
        if (n == MOST || !whole(t, i)) return 0;
        axis[n++] = i->axis;
        *innermost = i;
    }
    return flat(&(*innermost)->body) ? n : 0;
}

/* The axes as an access of the nest's body has them that has all; false: there is none. */
static bool order(const TInst *innermost, int *axis, int n) {
    for (int k = 0; k < innermost->body.inst.n; k++) {
        const TInst *i = innermost->body.inst.v[k];
        int found[MOST], at = 0;
        if (i->kind != T_LOAD && i->kind != T_STORE) continue;
        for (int d = 0; d < i->nix && at < n; d++) {
            int a;
            if (!ix_is_axis(i->ix[d], &a)) continue;
            for (int m = 0; m < n; m++)
                if (axis[m] == a) found[at++] = a;
        }
        if (at < n) continue;
        for (int m = 0; m < n; m++)
            for (int o = 0; o < m; o++)
                if (found[o] == found[m]) return false;
        memcpy(axis, found, sizeof *axis * (size_t)n);
        return true;
    }
    return false;
}

/* A nest's axes are the digits, as long as those of the first nest. */
static bool join_nest(Digits *d, const int *axis, int n) {
    const TProg *t = d->t;
    if (d->n && n != d->n) return false;
    for (int k = 0; k < n; k++) {
        if (!d->n) d->axis[k] = axis[k];
        if (t->axes.v[axis[k]].extent != t->axes.v[d->axis[k]].extent) return false;
        if (d->digit[axis[k]] >= 0 && d->digit[axis[k]] != k) return false;
        d->digit[axis[k]] = k;
    }
    d->n = n;
    return true;
}

static bool in_nests(Digits *d) {
    for (int k = 0; k < d->t->body.inst.n; k++) {
        TInst *i = d->t->body.inst.v[k], *innermost;
        int axis[MOST];
        if (i->kind == T_GUARD) return false;
        if (i->kind != T_LOOP) continue;
        int n = nest(d->t, i, axis, &innermost);
        if (n < 2 || !order(innermost, axis, n) || !join_nest(d, axis, n)) return false;
    }
    return d->n > 0;
}

/* ---- axes of the grid ---- */

typedef struct Alike {
    const Digits *d;
    bool ok, some;
} Alike;

static int used(const Digits *d, const Ix *x) {
    int n = 0;
    for (int k = 0; k < d->n; k++) n += ix_uses_axis(x, d->axis[k]);
    return n;
}

/* An access has all of them side by side, last, or none; nothing else has any. */
static void note_alike(void *ctx, TInst *i, int depth) {
    Alike *x = ctx;
    int any = 0, n = x->d->n;
    (void)depth;
    for (int k = 0; k < i->nix; k++) any += used(x->d, i->ix[k]);
    if (!any) return;
    x->ok &= any == n && i->nix >= n && (i->kind == T_LOAD || i->kind == T_STORE);
    for (int k = 0; k < n && x->ok; k++) {
        int axis;
        x->ok &= ix_is_axis(i->ix[i->nix - n + k], &axis) && axis == x->d->axis[k] &&
                 !(i->checked >> (i->nix - n + k) & 1);
    }
    x->some = true;
}

/* As many of the last axes as all accesses have side by side. */
static bool in_grid(Digits *d) {
    const TProg *t = d->t;
    if (!flat(&t->body)) return false;
    for (int k = 0; k < t->tensors.n; k++)
        if (dtype_bits(t->tensors.v[k].type) < 8) return false;
    for (d->n = t->ngrid < MOST ? t->ngrid : MOST; d->n > 1; d->n--) {
        for (int k = 0; k < d->n; k++) d->axis[k] = t->ngrid - d->n + k;
        Alike x = {d, true, false};
        tile_walk(&t->body, note_alike, &x);
        if (!x.ok || !x.some) continue;
        for (int k = 0; k < d->n; k++) d->digit[d->axis[k]] = k;
        return true;
    }
    return false;
}

/* ---- the program of one axis ---- */

typedef struct View {
    TProg *t;
    const Ix **axis; /* of old ones */
    const int *now;  /* numbers of those that are left */
    const Digits *d;
    int one; /* the new axis */
} View;

static void rewrite(const View *v, TBlock *b) {
    for (int k = 0; k < b->inst.n; k++) {
        TInst *i = b->inst.v[k];
        for (int n = 0; n < i->nix; n++)
            i->ix[n] = ix_at(v->t->ix, i->ix[n], v->axis, v->t->axes.n);
        if (i->kind == T_LOOP && among(v->d, i->axis)) {
            TInst *last = i;
            while (inside(last) && among(v->d, inside(last)->axis)) last = inside(last);
            i->axis = v->one;
            i->body = last->body;
            i->hi = NULL;
        } else if (i->kind == T_LOOP) {
            i->axis = v->now[i->axis];
        }
        if (i->lo) i->lo = ix_at(v->t->ix, i->lo, v->axis, v->t->axes.n);
        if (i->hi) i->hi = ix_at(v->t->ix, i->hi, v->axis, v->t->axes.n);
        rewrite(v, &i->body);
    }
}

static void set_bounds(TBlock *b, int axis, const Ix *extent) {
    for (int k = 0; k < b->inst.n; k++) {
        if (b->inst.v[k]->kind != T_LOOP) continue;
        if (b->inst.v[k]->axis == axis && !b->inst.v[k]->hi) b->inst.v[k]->hi = extent;
        set_bounds(&b->inst.v[k]->body, axis, extent);
    }
}

static void collapse(PassCtx *cx, Digits *d) {
    TProg *t = d->t;
    IxPool *p = t->ix;
    int n = t->axes.n, *now = ARENA_ARRAY(cx->arena, int, n), at = 0, one = -1;
    const Ix *extent = ix_const(p, 1);
    bool grid = d->axis[0] < t->ngrid;
    TAxis whole_axis = t->axes.v[d->axis[0]];
    for (int k = 0; k < d->n; k++) {
        const TAxis *x = &t->axes.v[d->axis[k]];
        extent = ix_mul(p, extent, x->extent);
        if (k) whole_axis.name = arena_printf(t->arena, "%s_%s", whole_axis.name, x->name);
        if (x->tile > whole_axis.tile) whole_axis.tile = x->tile;
    }
    whole_axis.extent = extent;
    TProg old = *t;
    memset(&t->axes, 0, sizeof t->axes);
    for (int a = 0; a < n; a++) {
        bool in = among(d, a);
        now[a] = in ? -1 : at;
        if (in && one >= 0) continue;
        if (in) one = at;
        vec_push(t->arena, &t->axes, in ? whole_axis : old.axes.v[a]);
        at++;
    }
    if (grid) t->ngrid -= d->n - 1;
    const Ix **axis = ARENA_ARRAY(cx->arena, const Ix *, n), *below = ix_const(p, 1);
    for (int a = 0; a < n; a++) axis[a] = now[a] >= 0 ? ix_axis(p, now[a]) : NULL;
    for (int k = d->n - 1; k >= 0; k--) {
        const Ix *e = old.axes.v[d->axis[k]].extent, *x = ix_div(p, ix_axis(p, one), below);
        for (int a = 0; a < n; a++)
            if (d->digit[a] == k) axis[a] = k ? ix_mod(p, x, e) : x;
        below = ix_mul(p, below, e);
    }
    TProg view = *t;
    view.axes.n = n; /* as ix_at is to see them */
    View v = {&view, axis, now, d, one};
    rewrite(&v, &t->body);
    set_bounds(&t->body, one, extent);
}

bool pass_collapse(PassCtx *cx, Graph *g) {
    bool changed = false;
    if (!cx->plan || cx->plan->graph != g) pass_tile(cx, g);
    if (cx->invariant) return false;
    for (int s = 0; s < cx->plan->steps.n; s++) {
        Step *step = &cx->plan->steps.v[s];
        int loads;
        Digits d = {.t = step->tile};
        d.digit = ARENA_ARRAY(cx->arena, int, step->tile->axes.n + 1);
        for (int a = 0; a < step->tile->axes.n; a++) d.digit[a] = -1;
        if (step->tile->axes.n > 32 || rows_reused(cx->arena, step->tile, &loads) > 1) continue;
        if (tile_all_once(step->tile, tile_deps(cx->arena, step->tile))) continue;
        if (!in_nests(&d) && (d.n || !in_grid(&d))) continue;
        collapse(cx, &d);
        changed = true;
    }
    return changed;
}
