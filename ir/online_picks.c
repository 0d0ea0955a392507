/* online_picks.c - see online.h: which conditions the least and the greatest of their sides decide
 * for a whole block of j and all rows of a tile at once.
 *
 * A side is an integer that differs along rows or along j, not along both, and is made of indices,
 * loads and operations alone. Two indices may differ along both: their distance has its extremes
 * at the corners of the block.
 */
#include "ir/online.h"

static uint64_t bit(int axis) {
    return axis < 0 ? 0 : (uint64_t)1 << axis;
}

const TInst *online_def(const TBlock *b, int id) {
    for (int k = 0; k < b->inst.n; k++) {
        const TInst *i = b->inst.v[k], *in;
        if (i->id == id) return i;
        if ((in = online_def(&i->body, id))) return in;
    }
    return NULL;
}

static const TInst *def(const Online *o, int id) {
    return online_def(&o->t->body, id);
}

static bool is_pure(const Online *o, int id);

static bool is_pure_ix(const Online *o, const Ix *x) {
    if (x->kind == IX_VALUE && !is_pure(o, (int)x->num)) return false;
    for (int k = 0; k < x->n; k++)
        if (!is_pure_ix(o, x->arg[k])) return false;
    return true;
}

static bool is_pure(const Online *o, int id) {
    const TInst *i = def(o, id);
    if (!i) return false; /* carried */
    if (i->kind != T_CONST && i->kind != T_INDEX && i->kind != T_LOAD && i->kind != T_OP)
        return false;
    for (int k = 0; k < i->nargs; k++)
        if (!is_pure(o, i->args[k])) return false;
    for (int k = 0; k < i->nix; k++)
        if (!is_pure_ix(o, i->ix[k])) return false;
    return true;
}

static bool has_load(const Online *o, int id) {
    const TInst *i = def(o, id);
    if (i->kind == T_LOAD) return true;
    for (int k = 0; k < i->nargs; k++)
        if (has_load(o, i->args[k])) return true;
    for (int k = 0; k < i->nix; k++)
        if (i->ix[k]->has_value) return true;
    return false;
}

static bool is_side(const Online *o, int id) {
    uint64_t d = o->deps[id];
    if (d & bit(o->cols) || (d & bit(o->rows) && d & bit(o->j))) return false;
    return is_pure(o, id);
}

static bool is_whole_number(const Online *o, int id) {
    const TInst *i = def(o, id);
    return i && dtype_class(dtype_value(i->type)) == DC_INT;
}

const Ix *online_index(const Online *o, int id) {
    const TInst *i = def(o, id);
    if (i && i->kind == T_INDEX && !i->ix[0]->has_value) return i->ix[0];
    if (!i || i->kind != T_CONST || dtype_class(i->type) != DC_INT) return NULL;
    return ix_const(o->t->ix, i->inum);
}

static bool compares(Op op) {
    return op == OP_eq || op == OP_ne || op == OP_lt || op == OP_le || op == OP_gt || op == OP_ge;
}

OnlineSays online_says(const Online *o, int id) {
    const TInst *i = def(o, id);
    if (!i || dtype_class(dtype_value(i->type)) != DC_BOOL) return SAYS_NOTHING;
    if (i->kind == T_OP && i->op == OP_and) return SAYS_BOTH;
    if (i->kind == T_OP && i->op == OP_or) return SAYS_EITHER;
    if (i->kind == T_OP && i->op == OP_not) return SAYS_NOT;
    if (i->kind == T_OP && compares(i->op)) {
        int a = i->args[0], b = i->args[1];
        const Ix *x = online_index(o, a), *y = online_index(o, b);
        if (x && y) {
            const Ix *d = ix_sub(o->t->ix, x, y);
            bool known = online_moves(o->deps, d, o->rows) != ONLINE_ANY &&
                         online_moves(o->deps, d, o->j) != ONLINE_ANY;
            if (known && !(o->deps[id] & bit(o->cols))) return SAYS_DISTANCE;
        }
        if (is_whole_number(o, a) && is_whole_number(o, b) && is_side(o, a) && is_side(o, b))
            return SAYS_SIDES;
    }
    return is_side(o, id) ? SAYS_BOOL : SAYS_NOTHING;
}

OnlineCan online_can(const Online *o, int id) {
    const TInst *i = def(o, id);
    OnlineSays says = online_says(o, id);
    if (says == SAYS_NOTHING) return (OnlineCan){0};
    if (says == SAYS_DISTANCE) return (OnlineCan){.hold = true, .fail = true};
    if (says == SAYS_SIDES || says == SAYS_BOOL)
        return (OnlineCan){.hold = true, .fail = true, .data = has_load(o, id)};
    OnlineCan a = online_can(o, i->args[0]), b = a;
    if (says == SAYS_NOT) return (OnlineCan){.hold = a.fail, .fail = a.hold, .data = a.data};
    b = online_can(o, i->args[1]);
    if (says == SAYS_BOTH)
        return (OnlineCan){.hold = a.hold && b.hold,
                           .fail = a.fail || b.fail,
                           .data = (a.data && a.fail) || (b.data && b.fail)};
    return (OnlineCan){.hold = a.hold || b.hold,
                       .fail = a.fail && b.fail,
                       .data = (a.data || b.data) && a.fail && b.fail};
}

bool online_in_all_steps(const Online *o, int guard) {
    for (int k = 0; k < o->body.n; k++) {
        const OnlineInst *x = &o->body.v[k];
        bool in = x->i->kind != T_STEP;
        for (int g = 0; g < x->guards.n && !in; g++) in = x->guards.v[g] == guard;
        if (!in) return false;
    }
    return true;
}

/* Is x the bound, or one of those that it is the least or greatest of? */
static bool is_part(const Ix *bound, const Ix *x, IxKind of) {
    if (bound == x) return true;
    for (int k = 0; bound->kind == of && k < bound->n; k++)
        if (is_part(bound->arg[k], x, of)) return true;
    return false;
}

/* An inequality of indices that is the bound itself: j <= r below r + 1. */
bool online_bounds_say(const Online *o, int id) {
    IxPool *p = o->t->ix;
    const TInst *i = def(o, id);
    if (!i || i->kind != T_OP || !compares(i->op) || i->op == OP_eq || i->op == OP_ne) return false;
    const Ix *a = online_index(o, i->args[0]), *b = online_index(o, i->args[1]), *rest;
    int64_t by;
    if (!a || !b) return false;
    bool up = i->op == OP_gt || i->op == OP_ge, strict = i->op == OP_lt || i->op == OP_gt;
    const Ix *x = up ? ix_sub(p, a, b) : ix_sub(p, b, a); /* x >= 0 */
    if (strict) x = ix_sub(p, x, ix_const(p, 1));
    if (!ix_linear_in(p, x, o->j, &by, &rest)) return false;
    if (by == -1) return is_part(o->loop->hi, ix_add(p, rest, ix_const(p, 1)), IX_MIN);
    return by == 1 && is_part(o->loop->lo, ix_neg(p, rest), IX_MAX);
}

bool online_bounds_vary(const Online *o) {
    return online_moves(o->deps, o->loop->lo, o->rows) == ONLINE_ANY ||
           online_moves(o->deps, o->loop->hi, o->rows) == ONLINE_ANY;
}

/* Who loads pages is a warp that walks all blocks. */
static bool has_pages(const Online *o) {
    for (int s = 0; s < o->nscores; s++)
        if (o->score[s].where.page || o->score[s].where.dims) return true;
    for (int p = 0; p < o->nproducts; p++)
        if (o->product[p].where.page || o->product[p].where.dims) return true;
    return false;
}

void online_find_picks(Arena *a, Online *o) {
    if (has_pages(o)) return;
    uint64_t both = tile_ix_deps(o->deps, o->loop->lo) | tile_ix_deps(o->deps, o->loop->hi);
    o->picks = online_bounds_vary(o) && !(both & bit(o->cols));
    for (int k = 0; k < o->body.n; k++) {
        const OnlineInst *x = &o->body.v[k];
        for (int g = 0; x->i->kind == T_STEP && g < x->guards.n; g++) {
            int id = x->guards.v[g];
            bool seen = false;
            for (int s = 0; s < o->skips.n; s++) seen |= o->skips.v[s] == id;
            OnlineCan can = online_can(o, id);
            if (seen || !can.fail || !online_in_all_steps(o, id)) continue;
            vec_push(a, &o->skips, id);
            o->picks |= can.data;
        }
    }
}
