/* mma_strips.c - a sum over blocks of k of what is made of the sum of products over one, seen as a
 * sum over k:
 *
 *     loop kb {                                       loop k { .. a[m, k] .. b[n, k] .. }
 *       carry s = sum                                 loop kb {            (`strips.loop`)
 *       loop ki from 0 to min(K - 128*kb, 128) {        carry s = sum
 *         carry p = sum                        ->       x = load sa[m, kb] ..
 *         .. a[m, 128*kb + ki] .. b[n, ..] ..           step s, p * x
 *       }                                             }
 *       x = load sa[m, kb] ..
 *       step s, p * x
 *     }
 *
 * The axis of ki becomes that of k. Both factors read 128*kb + ki in one dimension, or kb and ki
 * in one each. What steps are made of is pointwise: of p, and of loads over rows, columns, batches
 * and kb. passes/strip.c writes such loops.
 */
#include "ir/mma_int.h"

#include <string.h>

#define no mma_no

typedef struct View {
    const TProg *from;
    TProg *t;
    const TInst *outer, *inner;
    int64_t size;
    const Ix *extent; /* of k */
    MmaStrips *to;
} View;

static const TInst *loop_in(const TBlock *b) {
    const TInst *found = NULL;
    for (int k = 0; k < b->inst.n; k++) {
        if (b->inst.v[k]->kind != T_LOOP) continue;
        if (found) return NULL;
        found = b->inst.v[k];
    }
    return found;
}

static bool uses(const TInst *load, int axis) {
    for (int d = 0; d < load->nix; d++)
        if (ix_uses_axis(load->ix[d], axis)) return true;
    return false;
}

/* A loop that carries values, and in it another one in which all loads move with the outer one:
 * that is neither over rows nor over columns. */
static bool find_loops(View *x) {
    x->outer = loop_in(&x->from->body);
    x->inner = x->outer && x->outer->carries.n ? loop_in(&x->outer->body) : NULL;
    if (!x->inner || !x->inner->carries.n) return false;
    for (int k = 0; k < x->inner->body.inst.n; k++) {
        const TInst *i = x->inner->body.inst.v[k];
        if (i->kind == T_LOOP || (i->kind == T_LOAD && !uses(i, x->outer->axis))) return false;
    }
    return true;
}

/* An index of a factor, over k; NULL: it is not so. */
static const Ix *over_k(const View *x, const Ix *ix) {
    const TProg *t = x->from;
    IxPool *p = t->ix;
    int inner = x->inner->axis, outer = x->outer->axis;
    const Ix *size = ix_const(p, x->size), *k = ix_axis(p, inner);
    const Ix **to = ARENA_ARRAY(t->arena, const Ix *, t->axes.n);
    bool in = ix_uses_axis(ix, inner), out = ix_uses_axis(ix, outer);
    if (!in && !out) return ix;
    if (in && out) {
        to[inner] = ix_sub(p, k, ix_mul(p, ix_axis(p, outer), size));
        ix = ix_at(p, ix, to, t->axes.n);
        return ix_uses_axis(ix, outer) ? NULL : ix;
    }
    if (in)
        to[inner] = ix_mod(p, k, size);
    else
        to[outer] = ix_div(p, k, size);
    return ix_at(p, ix, to, t->axes.n);
}

/* The dimension that a factor has along k, where that is as many blocks, all whole. */
static const Ix *whole_dim(const View *x, const Ix *blocks) {
    const TProg *t = x->from;
    IxPool *p = t->ix;
    const Ix *k = ix_axis(p, x->inner->axis), *size = ix_const(p, x->size);
    for (int n = 0; n < x->inner->body.inst.n; n++) {
        const TInst *i = x->inner->body.inst.v[n];
        for (int d = 0; d < i->nix && i->kind == T_LOAD; d++) {
            const Ix *dim = t->tensors.v[i->tensor].dims[d];
            const Ix *up = ix_div(p, ix_add(p, dim, ix_const(p, x->size - 1)), size);
            if (up == blocks && over_k(x, i->ix[d]) == k) return dim;
        }
    }
    return ix_mul(p, blocks, size);
}

/* What there are of k, told by the end of the inner loop. */
static bool find_extent(View *x, Str *why) {
    const TProg *t = x->from;
    IxPool *p = t->ix;
    const Ix *blocks = t->axes.v[x->outer->axis].extent, *zero = ix_const(p, 0);
    if (!ix_is_const(t->axes.v[x->inner->axis].extent, &x->size) || x->size < 1 ||
        x->outer->lo != zero || x->outer->hi != blocks || x->inner->lo != zero)
        return no(why, "a loop in a loop is not over blocks");
    if (x->inner->hi == ix_const(p, x->size))
        x->extent = whole_dim(x, blocks);
    else
        x->extent = mma_cut_extent(t, x->inner, x->size, x->outer->axis);
    return x->extent ||
           no(why, "the loop over %s does not cover its blocks", t->axes.v[x->inner->axis].name);
}

static bool copy_inner(View *x, Str *why) {
    const TProg *t = x->from;
    TInst *loop = ARENA_NEW(t->arena, TInst);
    *loop = *x->inner;
    loop->hi = x->extent;
    loop->body = (TBlock){0};
    for (int k = 0; k < x->inner->body.inst.n; k++) {
        TInst *i = ARENA_NEW(t->arena, TInst);
        *i = *x->inner->body.inst.v[k];
        i->ix = ARENA_ARRAY(t->arena, const Ix *, i->nix);
        for (int d = 0; d < i->nix; d++) {
            if (!(i->ix[d] = over_k(x, x->inner->body.inst.v[k]->ix[d])))
                return no(why, "an index is not one of k");
            bool all = i->kind == T_LOAD && t->tensors.v[i->tensor].dims[d] == x->extent;
            if (all && i->ix[d] == ix_axis(t->ix, x->inner->axis)) i->checked &= ~(1u << d);
        }
        vec_push(t->arena, &loop->body.inst, i);
    }
    vec_push(t->arena, &x->t->body.inst, loop);
    return true;
}

static bool copy_outer(View *x, Str *why) {
    const TProg *t = x->from;
    TInst *loop = ARENA_NEW(t->arena, TInst);
    *loop = *x->outer;
    loop->body = (TBlock){0};
    for (int k = 0; k < x->outer->body.inst.n; k++) {
        TInst *i = x->outer->body.inst.v[k];
        if (i == x->inner) continue;
        if (i->kind == T_GUARD || i->kind == T_STORE)
            return no(why, "the loop over blocks does more than to sum");
        vec_push(t->arena, &loop->body.inst, i);
    }
    vec_push(t->arena, &x->t->body.inst, loop);
    x->to->loop = loop;
    return true;
}

/* ---- what steps are made of ---- */

static void need_values(bool *needed, const Ix *ix) {
    if (ix->kind == IX_VALUE) needed[ix->num] = true;
    for (int i = 0; i < ix->n && ix->has_value; i++) need_values(needed, ix->arg[i]);
}

static void mark(bool *needed, const TBlock *b, int end) {
    for (int k = end - 1; k >= 0; k--) {
        const TInst *i = b->inst.v[k];
        if (i->kind == T_STEP || i->id < 0 || !needed[i->id]) continue;
        for (int a = 0; a < i->nargs; a++) needed[i->args[a]] = true;
        for (int d = 0; d < i->nix; d++) need_values(needed, i->ix[d]);
    }
}

static bool pointwise(const TInst *i) {
    return i->kind == T_LOAD || i->kind == T_OP || i->kind == T_CONST || i->kind == T_INDEX;
}

/* of[v]: the inner carry that value v is made of, by its place; -1: of none; -2: of several. */
static int made_of(const TInst *i, const int *of) {
    int all = -1;
    for (int a = 0; a < i->nargs; a++) {
        int one = of[i->args[a]];
        if (one != -1) all = all == -1 || all == one ? one : -2;
    }
    return all;
}

static bool take(View *x, const TBlock *b, int end, const bool *needed, int *of, Str *why) {
    const TProg *t = x->from;
    for (int k = 0; k < end; k++) {
        const TInst *i = b->inst.v[k];
        if (i->kind == T_STEP || i->id < 0 || !needed[i->id]) continue;
        of[i->id] = made_of(i, of);
        bool free = of[i->id] == -1;
        if (!pointwise(i) || (!free && i->kind != T_OP) || of[i->id] == -2)
            return no(why, "what is made of a block's sum is not pointwise");
        if (free)
            vec_push(t->arena, &x->to->free, i);
        else
            vec_push(t->arena, &x->to->scaled, i);
    }
    return true;
}

static const TInst *step_of(const TInst *loop, int carry) {
    const TInst *found = NULL;
    for (int k = 0; k < loop->body.inst.n; k++) {
        const TInst *i = loop->body.inst.v[k];
        if (i->kind != T_STEP || i->args[0] != carry) continue;
        if (found) return NULL;
        found = i;
    }
    return found;
}

/* Each outer carry sums what is made of one inner one. */
static bool match(View *x, const int *of, const DType *type, Str *why) {
    const TInst *outer = x->to->loop;
    if (outer->carries.n != x->inner->carries.n || outer->carries.n > MMA_SUMS)
        return no(why, "%d sums of %d sums", outer->carries.n, x->inner->carries.n);
    for (int n = 0; n < MMA_SUMS; n++) x->to->carry[n] = -1;
    for (int c = 0; c < outer->carries.n; c++) {
        const TCarry *y = &outer->carries.v[c];
        const TInst *s = step_of(outer, y->id);
        if (!s || y->type != DT_f32 || y->red != RED_sum || y->frame >= 0 || y->has_finish)
            return no(why, "the carried value is no plain f32 sum");
        int n = of[s->args[1]];
        if (n < 0 || x->to->carry[n] >= 0 || type[s->args[1]] != DT_f32)
            return no(why, "a sum over blocks is of something else than a block's sum");
        x->to->carry[n] = y->id;
        x->to->partial[n] = x->inner->carries.v[n].id;
        x->to->step[n] = s->args[1];
    }
    return true;
}

static bool find_parts(View *x, Str *why) {
    const TProg *t = x->from;
    Arena *a = t->arena;
    bool *needed = ARENA_ARRAY(a, bool, t->nvalues + 1);
    int *of = ARENA_ARRAY(a, int, t->nvalues + 1), before = 0;
    DType *type = ARENA_ARRAY(a, DType, t->nvalues + 1);
    const TBlock *b = &x->to->loop->body;
    while (t->body.inst.v[before] != x->outer) before++;
    for (int v = 0; v < t->nvalues; v++) of[v] = -1;
    for (int c = 0; c < x->inner->carries.n; c++) {
        of[x->inner->carries.v[c].id] = c;
        type[x->inner->carries.v[c].id] = x->inner->carries.v[c].type;
    }
    for (int k = 0; k < b->inst.n; k++) {
        const TInst *i = b->inst.v[k];
        if (i->kind == T_STEP) needed[i->args[1]] = true;
        if (i->id >= 0) type[i->id] = i->type;
    }
    mark(needed, b, b->inst.n);
    mark(needed, &t->body, before);
    return take(x, &t->body, before, needed, of, why) && take(x, b, b->inst.n, needed, of, why) &&
           match(x, of, type, why);
}

/* ---- the view ---- */

static TProg *begin(const TProg *from) {
    TProg *t = ARENA_NEW(from->arena, TProg);
    *t = *from;
    memset(&t->axes, 0, sizeof t->axes);
    for (int a = 0; a < from->axes.n; a++) vec_push(from->arena, &t->axes, from->axes.v[a]);
    t->body = (TBlock){0};
    return t;
}

const TProg *mma_strips(const TProg *t, MmaStrips *to, Str *why) {
    View x = {.from = t, .to = to};
    *to = (MmaStrips){0};
    if (!find_loops(&x)) return t;
    if (!find_extent(&x, why)) return NULL;
    x.t = begin(t);
    x.t->axes.v[x.inner->axis].extent = x.extent;
    to->axis = x.outer->axis;
    to->size = x.size;
    for (int k = 0; k < t->body.inst.n; k++) {
        TInst *i = t->body.inst.v[k];
        if (i != x.outer)
            vec_push(t->arena, &x.t->body.inst, i);
        else if (!copy_inner(&x, why) || !copy_outer(&x, why))
            return NULL;
    }
    return find_parts(&x, why) ? x.t : NULL;
}

/* ---- how a tile is scaled ---- */

static void note(void *ctx, const Ix *divisor) {
    int64_t *c = ctx, d;
    *c = ix_is_const(divisor, &d) ? ix_gcd(*c, d) : 1;
}

/* Columns that an index of anything free is the same for; 1: not of several. */
static int alike(const Mma *m, const MmaTiles *w) {
    const MmaStrips *s = &m->nest.strips;
    int64_t c = w->n;
    for (int k = 0; k < s->free.n; k++)
        for (int d = 0; d < s->free.v[k]->nix; d++)
            if (!tile_by_blocks(s->free.v[k]->ix[d], m->cols, note, &c)) return 1;
    return (int)c;
}

int mma_strip_regs(const Mma *m, MmaTiles *w) {
    enum { EIGHT = 8 }; /* columns, of which a thread has two */
    const MmaStrips *s = &m->nest.strips;
    int group = alike(m, w), regs = 0;
    w->strip_group = group % EIGHT ? 0 : group;
    int rows = w->group_rows / 32, cols = w->strip_group ? w->n / group : w->n / 4;
    const uint64_t *deps = tile_deps(m->t->arena, m->t);
    for (int k = 0; k < s->free.n; k++) {
        const TInst *i = s->free.v[k];
        if (i->kind != T_LOAD) continue;
        regs += (deps[i->id] >> m->rows & 1 ? rows : 1) * (deps[i->id] >> m->cols & 1 ? cols : 1);
    }
    return regs;
}
