/* mma_made.c - factors that are no loads of what is multiplied, but pointwise functions of loads:
 * dequantised weights, a mask, a cast. Threads make them (mma.h).
 *
 * What may be rounded to a 16-bit type for the tensor core is the language's rule: a value that was
 * cast to it; a computed one that meets a bf16 tensor; a tensor of 8 bits or less, exactly.
 */
#include "ir/mma_int.h"

#define no mma_no

static bool is_half(DType t) {
    return t == DT_bf16 || t == DT_f16;
}

static const TInst *made_by(const TProg *t, const TInst *loop, int id) {
    for (int k = 0; k < loop->body.inst.n; k++)
        if (loop->body.inst.v[k]->id == id) return loop->body.inst.v[k];
    for (int k = 0; k < t->body.inst.n && t->body.inst.v[k] != loop; k++)
        if (t->body.inst.v[k]->id == id) return t->body.inst.v[k];
    return NULL;
}

/* The two values whose product the loop sums, and all else in it pointwise. */
static bool operands(const TProg *t, const TInst *loop, const TInst **v, Str *why) {
    const TInst *step = NULL;
    for (int k = 0; k < loop->body.inst.n; k++) {
        const TInst *i = loop->body.inst.v[k];
        if (i->kind == T_STEP && step) return no(why, "the loop sums more than one product");
        if (i->kind == T_STEP) step = i;
        if (i->kind == T_LOOP || i->kind == T_GUARD || i->kind == T_STORE)
            return no(why, "the loop does more than to sum a product");
    }
    const TInst *mul = step ? made_by(t, loop, step->args[1]) : NULL;
    if (!mul || mul->kind != T_OP || mul->op != OP_mul || mul->type != DT_f32)
        return no(why, "the loop sums something else than a product");
    for (int i = 0; i < 2; i++) v[i] = made_by(t, loop, mul->args[i]);
    if (!v[0] || !v[1] || v[0] == v[1])
        return no(why, "the loop sums something else than a product of two values");
    return true;
}

/* ---- types ---- */

/* The 16-bit type that a value has already; none. */
static DType half_of(const TProg *t, const TInst *i) {
    DType type = i->kind == T_LOAD ? t->tensors.v[i->tensor].type : i->type;
    bool is = i->kind == T_LOAD || (i->kind == T_OP && i->op == OP_cast);
    return is && is_half(type) ? type : DT_none;
}

static bool may_round(const TProg *t, const TInst *i, DType to) {
    DType type = i->kind == T_LOAD ? t->tensors.v[i->tensor].type : i->type;
    if (half_of(t, i) == to) return true;
    if (dtype_bits(type) <= 8 && type != DT_bool) return true;
    return i->kind == T_OP && to == DT_bf16 && i->type != DT_bool && i->type != DT_i64;
}

static DType type_of(const TProg *t, const TInst *const *v, Str *why) {
    DType p = half_of(t, v[0]), q = half_of(t, v[1]), type = p != DT_none ? p : q;
    if (type == DT_none) no(why, "no factor has a 16-bit float type");
    if (type != DT_none && (!may_round(t, v[0], type) || !may_round(t, v[1], type))) {
        no(why, "a factor may not be rounded to %s", dtype_name(type));
        return DT_none;
    }
    return type;
}

/* ---- what a factor is made of ---- */

typedef struct Parts {
    const TProg *t;
    bool *needed;
} Parts;

static void need_values(Parts *p, const Ix *x) {
    if (x->kind == IX_VALUE) p->needed[x->num] = true;
    for (int i = 0; i < x->n && x->has_value; i++) need_values(p, x->arg[i]);
}

/* From the last to the first: what is needed is known by then. */
static int mark(Parts *p, const TBlock *b, int end) {
    int n = 0;
    for (int k = end - 1; k >= 0; k--) {
        const TInst *i = b->inst.v[k];
        if (i->id < 0 || !p->needed[i->id]) continue;
        for (int a = 0; a < i->nargs; a++) p->needed[i->args[a]] = true;
        for (int d = 0; d < i->nix; d++) need_values(p, i->ix[d]);
        n++;
    }
    return n;
}

static void take(const Parts *p, const TBlock *b, int end, MmaFactor *f) {
    for (int k = 0; k < end; k++)
        if (b->inst.v[k]->id >= 0 && p->needed[b->inst.v[k]->id])
            f->part[f->nparts++] = b->inst.v[k];
}

static bool find_parts(const TProg *t, const TInst *loop, const TInst *v, MmaFactor *f, Str *why) {
    Parts p = {t, ARENA_ARRAY(t->arena, bool, t->nvalues)};
    int before = 0, all;
    while (t->body.inst.v[before] != loop) before++;
    p.needed[v->id] = true;
    all = mark(&p, &loop->body, loop->body.inst.n);
    all += mark(&p, &t->body, before);
    f->part = ARENA_ARRAY(t->arena, const TInst *, all);
    take(&p, &t->body, before, f);
    take(&p, &loop->body, loop->body.inst.n, f);
    for (int i = 0; i < f->nparts; i++) {
        TKind kind = f->part[i]->kind;
        if (kind != T_LOAD && kind != T_OP && kind != T_CONST && kind != T_INDEX)
            return no(why, "a factor is not pointwise");
    }
    for (int i = 0; i < loop->carries.n; i++)
        if (p.needed[loop->carries.v[i].id]) return no(why, "a factor depends on the sum");
    return true;
}

/* ---- axes ---- */

static bool has(uint64_t axes, int axis) {
    return axis < 64 && (axes >> axis & 1);
}

static int own_axis(const TProg *t, uint64_t mine, uint64_t other) {
    for (int a = t->ngrid - 1; a >= 0; a--)
        if (has(mine & ~other, a)) return a;
    for (int a = 0; a < t->ngrid; a++)
        if (mma_is_lone(t, a) && !has(mine | other, a)) return a;
    return -1;
}

static bool find_axes(const TProg *t, const uint64_t *axes, Mma *m, Str *why) {
    int p = own_axis(t, axes[0], axes[1]), q = own_axis(t, axes[1], axes[0]);
    if (p < 0 || q < 0 || p == q) return no(why, "a factor has no axis of its own");
    m->rows = p < q ? p : q;
    m->cols = p < q ? q : p;
    return true;
}

/* A load that TMA can bring stays one; another is made, too. */
static bool find_factor(const TProg *t, const Mma *m, const TInst *v, uint64_t axes, int row,
                        DType type, MmaFactor *f, Str *why) {
    Str no_load = {0};
    bool loaded = v->kind == T_LOAD && t->tensors.v[v->tensor].type == type &&
                  mma_factor(t, v, row, m->k, -1, f, &no_load);
    const char *reason = arena_strdup(t->arena, str_get(&no_load));
    str_free(&no_load);
    if (loaded) return true;
    *f = (MmaFactor){.value = v->id, .type = type, .k_major = true};
    f->row = f->depth = f->outer = -1;
    f->made = true;
    f->why = reason;
    f->axes = axes;
    f->vector = mma_is_lone(t, row) && !has(axes, row);
    return find_parts(t, m->loop, v, f, why);
}

bool mma_made(const TProg *t, Mma *m, Str *why) {
    const TInst *v[2];
    const TCarry *c = &m->loop->carries.v[0];
    if (m->sums != 1) return no(why, "%d carried values, not one", m->sums);
    if (c->type != DT_f32 || c->red != RED_sum || c->frame >= 0 || c->has_finish)
        return no(why, "the carried value is no plain f32 sum");
    if (!ix_is_const(m->loop->lo, NULL) || m->loop->lo->num != 0 ||
        m->loop->hi != t->axes.v[m->k].extent)
        return no(why, "the loop does not cover its axis");
    if (!operands(t, m->loop, v, why)) return false;
    DType type = type_of(t, v, why);
    if (type == DT_none) return false;
    const uint64_t *deps = tile_deps(t->arena, t);
    uint64_t axes[2] = {deps[v[0]->id], deps[v[1]->id]};
    if (m->k >= 64 || !has(axes[0], m->k) || !has(axes[1], m->k))
        return no(why, "a factor is the same for all of k");
    if (m->rows < 0 && !find_axes(t, axes, m, why)) return false;
    int a = has(axes[0], m->rows) || has(axes[1], m->cols) ? 0 : 1, b = !a;
    if (has(axes[a], m->cols) || has(axes[b], m->rows) ||
        (!has(axes[a], m->rows) && !mma_is_lone(t, m->rows)) ||
        (!has(axes[b], m->cols) && !mma_is_lone(t, m->cols)))
        return no(why, "a factor has no axis of its own");
    m->size = 2;
    return find_factor(t, m, v[a], axes[a], m->rows, type, &m->a, why) &&
           find_factor(t, m, v[b], axes[b], m->cols, type, &m->b, why);
}
