/* online_index.c - values made of indices, in the loop. An index that is linear in j is, of each
 * row, a base at the first column of the thread and a constant distance: so its f32 is one addition
 * (exact, which a guard on the extents sees to), a comparison of two is one with a constant, and a
 * multiple of it that is added to something is one multiply-add.
 */
#include "backend/nvptx/online_int.h"
#include "backend/nvptx/approx_int.h"

#include <string.h>

enum { EXACT = 1 << 24, NEAR = 1 << 30, STEEP = 64 };

typedef struct Line { /* by * j + what is the same along a row */
    const Ix *x, *lo, *hi;
    int64_t by;
} Line;

static bool is_line(const On *on, const Ix *x, Line *n) {
    const TProg *t = on->o.t;
    const Ix *rest, **extent = ARENA_ARRAY(on->l->arena, const Ix *, t->axes.n);
    if (x->has_value || !ix_linear_in(t->ix, x, on->o.j, &n->by, &rest)) return false;
    if (!n->by || n->by > STEEP || n->by < -STEEP) return false;
    for (int a = 0; a < t->axes.n; a++) extent[a] = t->axes.v[a].extent;
    n->x = x;
    ix_range(t->ix, x, extent, t->axes.n, &n->lo, &n->hi);
    return n->lo && n->hi;
}

static bool *bounded(On *on, const Line *n, int64_t most) {
    OnBound b = {n->lo, n->hi, most, ARENA_NEW(on->l->arena, bool)};
    vec_push(on->l->arena, &on->bounds, b);
    return b.used;
}

/* i32, of each row at the thread's first column: what is beyond the rows may be anything. */
static Frag bases(On *on, const Line *n) {
    Lower *l = on->l;
    AxisState *j = &l->axis[on->o.j], all = *j;
    j->count = 1;
    Frag f = frag_ix(l, n->x);
    *j = all;
    for (int r = 0; r < f.n; r++) f.v[r] = LLVMBuildTrunc(l->b, f.v[r], l->i32, "");
    return f;
}

static Frag real_bases(On *on, const Line *n) {
    Frag f = bases(on, n);
    for (int r = 0; r < f.n; r++) f.v[r] = LLVMBuildSIToFP(on->l->b, f.v[r], on->l->f32, "");
    return f;
}

static Frag like(On *on, const Frag *rows) {
    return frag_new(on->l, rows->mask | frag_live(on->l, axis_bit(on->o.j)));
}

static int64_t distance(const On *on, const Line *n, AxisSet mask, int k) {
    return n->by * on->l->axis[on->o.j].step[frag_coord(on->l, mask, k, on->o.j)];
}

void on_index_emit(On *on, const TInst *i) {
    Lower *l = on->l;
    Line n;
    emit_inst(l, i);
    if (!is_line(on, i->ix[0], &n)) return;
    Frag at = real_bases(on, &n), all = l->value[i->id];
    bool *used = bounded(on, &n, EXACT);
    for (int k = 0; k < all.n; k++) {
        RealOf *r = ARENA_NEW(l->arena, RealOf);
        *r = (RealOf){at.v[frag_at(l, all.mask, k, at.mask)], (double)distance(on, &n, all.mask, k),
                      used};
        *map_put(&l->reals, &all.v[k], sizeof all.v[k]) = (intptr_t)r;
    }
}

/* ---- comparisons ---- */

static const Ix *index_of(const On *on, int id) {
    const TInst *d = on->l->def[id];
    if (d && d->kind == T_INDEX) return d->ix[0];
    bool whole = d && d->kind == T_CONST && dtype_class(d->type) == DC_INT;
    if (!whole || d->inum > NEAR || d->inum < -NEAR) return NULL;
    return ix_const(on->o.t->ix, d->inum);
}

static bool predicate(Op op, LLVMIntPredicate *p) {
    switch (op) {
    case OP_eq: *p = LLVMIntEQ; return true;
    case OP_ne: *p = LLVMIntNE; return true;
    case OP_lt: *p = LLVMIntSLT; return true;
    case OP_le: *p = LLVMIntSLE; return true;
    case OP_gt: *p = LLVMIntSGT; return true;
    case OP_ge: *p = LLVMIntSGE; return true;
    default: return false;
    }
}

static bool comparison(On *on, const TInst *i) {
    Lower *l = on->l;
    LLVMIntPredicate p;
    if (!predicate(i->op, &p)) return false;
    const Ix *a = index_of(on, i->args[0]), *b = index_of(on, i->args[1]);
    Line n;
    if (!a || !b || !is_line(on, ix_sub(on->o.t->ix, a, b), &n)) return false;
    *bounded(on, &n, NEAR) = true;
    Frag at = bases(on, &n), f = like(on, &at);
    for (int k = 0; k < f.n; k++) {
        Val to = LLVMConstInt(l->i32, (uint64_t)-distance(on, &n, f.mask, k), 1);
        f.v[k] = LLVMBuildICmp(l->b, p, at.v[frag_at(l, f.mask, k, at.mask)], to, "");
    }
    l->value[i->id] = f;
    return true;
}

/* ---- sums ---- */

/* The product of an index and what is the same along a row; *by: that. */
static bool is_multiple(const On *on, int id, int *by, Line *n) {
    const Lower *l = on->l;
    const TInst *d = l->def[id];
    if (!d || d->kind != T_OP || d->op != OP_mul || d->type != DT_f32) return false;
    for (int k = 0; k < 2; k++) {
        const TInst *x = l->def[d->args[k]];
        *by = d->args[1 - k];
        if (!x || x->kind != T_INDEX || l->deps[*by] >> on->o.j & 1) continue;
        if (dtype_value(l->type[*by]) == DT_f32) return is_line(on, x->ix[0], n);
    }
    return false;
}

static Val fma3(Lower *l, Val a, Val b, Val c) {
    Val arg[3] = {a, b, c};
    return ptx_intrinsic(l, l->b, "llvm.fma", &l->f32, 1, arg, 3);
}

static Frag multiple(On *on, int by, const Line *n) {
    Lower *l = on->l;
    Frag slope = value_of(l, by), at = real_bases(on, n);
    *bounded(on, n, EXACT) = true;
    Frag rows = frag_new(l, slope.mask | at.mask), f = like(on, &rows);
    for (int r = 0; r < rows.n; r++)
        rows.v[r] = LLVMBuildFMul(l->b, at.v[frag_at(l, rows.mask, r, at.mask)],
                                  slope.v[frag_at(l, rows.mask, r, slope.mask)], "");
    for (int k = 0; k < f.n; k++) {
        Val step = const_real(l, (double)distance(on, n, f.mask, k));
        f.v[k] = fma3(l, slope.v[frag_at(l, f.mask, k, slope.mask)], step,
                      rows.v[frag_at(l, f.mask, k, rows.mask)]);
    }
    return f;
}

static Val add_element(Lower *l, const void *ctx, const Val *in) {
    const TInst *i = ctx;
    DType from[2] = {DT_f32, DT_f32};
    return op_emit(l, i->op, DT_f32, from, in);
}

/* Where something computed is added: a sum of rounded values, which need not be exact at 0. */
static bool sum(On *on, const TInst *i) {
    Lower *l = on->l;
    if ((i->op != OP_add && i->op != OP_sub) || i->type != DT_f32) return false;
    for (int k = 0; k < 2; k++) {
        int by, other = i->args[1 - k];
        Line n;
        if (dtype_value(l->type[other]) != DT_f32 || !on->late[other]) continue;
        if (!is_multiple(on, i->args[k], &by, &n)) continue;
        Frag in[2];
        in[k] = multiple(on, by, &n);
        in[1 - k] = value_of(l, other);
        l->value[i->id] = frag_map(l, add_element, i, in, 2);
        return true;
    }
    return false;
}

bool on_index_op(On *on, const TInst *i) {
    return comparison(on, i) || sum(on, i);
}

/* ---- when ---- */

static void at_once(On *on, int id);

static void ix_at_once(On *on, const Ix *x) {
    if (x->kind == IX_VALUE) at_once(on, (int)x->num);
    for (int k = 0; k < x->n; k++) ix_at_once(on, x->arg[k]);
}

static void at_once(On *on, int id) {
    const TInst *i = on->l->def[id];
    on->deferred[id] = on->words[id] = false;
    for (int k = 0; i && k < i->nargs; k++) at_once(on, i->args[k]);
    for (int k = 0; i && k < i->nix; k++) ix_at_once(on, i->ix[k]);
}

/* What needs no score is loaded before the wait for them. What follows from it, and from indices,
 * is computed after that all the same, unless that is long: it would take registers. */
void on_index_facts(On *on) {
    Lower *l = on->l;
    int n = l->t->nvalues + 1;
    on->late = ARENA_ARRAY(l->arena, bool, n);
    on->words = ARENA_ARRAY(l->arena, bool, n);
    on->deferred = ARENA_ARRAY(l->arena, bool, n);
    for (int s = 0; s < on->o.nscores; s++) on->late[on->o.score[s].carry] = true;
    l->axis[on->o.j] = (AxisState){.open = true, .pairs = true}; /* as they will be */
    for (int k = 0; k < on->o.body.n; k++) {
        const OnlineInst *x = &on->o.body.v[k];
        if (x->i->id < 0) continue;
        if (!x->early) on->late[x->i->id] = true;
        if (!x->early || x->factor) continue;
        if (x->i->kind == T_LOAD) on->words[x->i->id] = load_is_paired(l, x->i);
        if (x->i->kind != T_OP || op_is_long(l, x->i)) continue;
        for (int a = 0; a < x->i->nargs; a++) {
            int id = x->i->args[a];
            const TInst *d = l->def[id];
            if (on->words[id] || on->deferred[id] || (d && d->kind == T_INDEX))
                on->deferred[x->i->id] = true;
        }
    }
    l->axis[on->o.j].open = false;
    for (int k = 0; k < on->o.body.n; k++) {
        const OnlineInst *x = &on->o.body.v[k];
        bool now =
            x->early && (x->i->kind == T_LOAD || (x->i->kind == T_OP && !on->deferred[x->i->id]));
        if (!now) continue;
        for (int a = 0; a < x->i->nargs; a++) at_once(on, x->i->args[a]);
        for (int d = 0; d < x->i->nix; d++) ix_at_once(on, x->i->ix[d]);
    }
    for (int k = 0; k < on->o.body.n; k++) {
        const TInst *i = on->o.body.v[k].i;
        if (i->kind != T_LOAD || !on->words[i->id] || on->told_only[i->id]) continue;
        int rows = l->deps[i->id] >> on->o.rows & 1 ? on->held : 1;
        on->word_regs += rows * dtype_bits(l->t->tensors.v[i->tensor].type) / 16;
    }
}
