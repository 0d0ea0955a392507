/* online_holes.c - see online.h: may a product's sum leave out an element of j for every row?
 *
 * Not if row j itself, which is there when rows and j have one extent, is in the domain of the step
 * whatever the data: bounds and conditions are looked at with the row in the place of j.
 */
#include "ir/online.h"

typedef struct Own {
    const Online *o;
    const Ix **axes; /* the rows' is j */
} Own;

static const Ix *own(const Own *w, const Ix *x) {
    return ix_at(w->o->t->ix, x, w->axes, w->o->t->axes.n);
}

static bool same(const Own *w, int p, int q) {
    if (p == q) return true;
    const TInst *a = online_def(&w->o->t->body, p), *b = online_def(&w->o->t->body, q);
    if (!a || !b || a->kind != b->kind || a->type != b->type) return false;
    if (a->kind == T_CONST) return a->num == b->num && a->inum == b->inum;
    if (a->kind != T_INDEX && a->kind != T_LOAD && a->kind != T_OP) return false;
    if (a->kind == T_LOAD && (a->tensor != b->tensor || a->checked != b->checked)) return false;
    if (a->kind == T_OP && a->op != b->op) return false;
    for (int k = 0; k < a->nix; k++)
        if (a->ix[k]->has_value || own(w, a->ix[k]) != own(w, b->ix[k])) return false;
    for (int k = 0; k < a->nargs; k++)
        if (!same(w, a->args[k], b->args[k])) return false;
    return true;
}

static bool holds(const Own *w, int id) {
    const TInst *i = online_def(&w->o->t->body, id);
    if (!i || i->kind != T_OP) return false;
    if (i->op == OP_and) return holds(w, i->args[0]) && holds(w, i->args[1]);
    if (i->op == OP_or) return holds(w, i->args[0]) || holds(w, i->args[1]);
    if (i->op != OP_eq && i->op != OP_le && i->op != OP_ge) return false;
    const TInst *a = online_def(&w->o->t->body, i->args[0]);
    return a && dtype_class(a->type) != DC_REAL && same(w, i->args[0], i->args[1]);
}

/* Is every part of the bound on the right side of j, a constant on that of all of it? */
static bool bound_holds(const Own *w, const Ix *x, bool end) {
    const Online *o = w->o;
    int64_t coef, c;
    const Ix *rest;
    if (x == o->t->axes.v[o->j].extent) return end;
    if (ix_is_const(x, &c)) return !end && c <= 0;
    if (x->kind == (end ? IX_MIN : IX_MAX)) {
        for (int k = 0; k < x->n; k++)
            if (!bound_holds(w, x->arg[k], end)) return false;
        return true;
    }
    if (!ix_linear_in(o->t->ix, x, o->j, &coef, &rest) || coef != 1) return false;
    return ix_is_const(rest, &c) && (end ? c > 0 : c <= 0);
}

bool online_leaves_out(Arena *a, const Online *o, const OnlineInst *step) {
    const TProg *t = o->t;
    if (!step->guards.n) return false; /* what bounds leave out lies before or behind */
    Own w = {.o = o, .axes = ARENA_ARRAY(a, const Ix *, t->axes.n)};
    for (int k = 0; k < t->axes.n; k++) w.axes[k] = ix_axis(t->ix, k == o->rows ? o->j : k);
    if (t->axes.v[o->rows].extent != t->axes.v[o->j].extent) return true;
    if (!bound_holds(&w, own(&w, o->loop->lo), false) ||
        !bound_holds(&w, own(&w, o->loop->hi), true))
        return true;
    for (int g = 0; g < step->guards.n; g++)
        if (!holds(&w, step->guards.v[g])) return true;
    return false;
}
