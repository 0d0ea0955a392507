/* wide.c - loads and stores of `vec` neighbours at once, up to 16 bytes an access: where the last
 * index is an axis of which the thread holds vectors, and the launch brings rows that are aligned
 * (wide_guards says so of each tensor that was accessed so). A vector is there whole or not at all:
 * the extent is a multiple of vec.
 */
#include "backend/nvptx/mem_int.h"
#include "backend/nvptx/ptx_int.h"
#include "backend/nvptx/rows_int.h"

#include <string.h>

enum { WIDEST = 16, MOST = 64 }; /* bytes of an access; elements of a vector */

void wide_open(Lower *l, int axis, Val first, Val extent) {
    AxisState *s = &l->axis[axis];
    const AxisMap *m = &l->map[axis];
    int n = m->regs * m->vec;
    int64_t *step = ARENA_ARRAY(l->arena, int64_t, n);
    *s = (AxisState){.open = true, .count = n, .raw = true, .step = step};
    s->e = ARENA_ARRAY(l->arena, Val, n);
    s->in = ARENA_ARRAY(l->arena, Val, n);
    for (int i = 0; i < n; i++) {
        step[i] = (int64_t)m->lanes * m->vec * (i / m->vec) + i % m->vec;
        Val by = LLVMConstInt(l->i64, (uint64_t)step[i], 0);
        s->e[i] = i ? LLVMBuildAdd(l->b, first, by, "") : first;
        if (!extent) continue;
        bool begins = i % m->vec == 0;
        s->in[i] = begins ? LLVMBuildICmp(l->b, LLVMIntSLT, s->e[i], extent, "")
                          : s->in[i / m->vec * m->vec];
    }
}

/* Indices that together are one axis, as the last of them alone: what a launch must bring for it is
 * noted (wide_guards). */
TInst wide_access(Lower *l, const TInst *i) {
    TInst one = *i;
    for (int to = i->nix - 1; to > 0 && l->s->wide && !i->checked; to--) {
        TRun r;
        if (!tile_run(l->t, i, to, &r) || r.from == to) continue;
        const TTensor *x = &l->t->tensors.v[i->tensor];
        if (one.ix == i->ix) {
            one.ix = ARENA_ARRAY(l->arena, const Ix *, i->nix);
            memcpy(one.ix, i->ix, sizeof *i->ix * (size_t)i->nix);
        }
        for (int d = r.from; d <= to; d++)
            one.ix[d] = d == to ? tile_run_index(l->t, &r) : ix_const(l->t->ix, 0);
        for (int d = r.from; d < to && x->mem != TM_TEMP; d++) {
            KGuard g = {.kind = KG_STRIDE_IS, .index = x->id, .dim = d};
            g.multiple = to == x->rank - 1 ? -1 : to;
            g.ix = tile_run_stride(l->t, x, &r, d);
            vec_push(l->arena, &l->runs, g);
        }
        to = r.from;
    }
    return one;
}

typedef struct Divisors {
    Lower *l;
    int vec;
} Divisors;

/* A divisor that vectors divide. */
static void note_divisor(void *ctx, const Ix *x) {
    const Divisors *d = ctx;
    IxPool *p = d->l->t->ix;
    const Ix *rest = ix_neg(p, ix_mod(p, x, ix_const(p, d->vec)));
    vec_push(d->l->arena, &d->l->runs, ((KGuard){.kind = KG_NONNEG, .ix = rest}));
}

/* Does x move from vector to vector only? */
static bool by_vectors(Lower *l, const Ix *x, int axis, bool note) {
    Divisors d = {l, l->map[axis].vec};
    return tile_by_blocks(x, axis, note ? note_divisor : NULL, &d);
}

/* The axis whose vectors lie side by side in memory; -1. */
static int vector_axis(Lower *l, const TInst *i, const TTensor *t) {
    TRun r;
    if (!l->s->wide || !i->nix || i->checked || dtype_bits(t->type) < 8) return -1;
    const Ix *last = i->ix[i->nix - 1];
    r.axis = -1, r.period = NULL;
    if (!ix_is_axis(last, &r.axis)) {
        if (last->kind != IX_MOD || !ix_is_axis(last->arg[0], &r.axis) || !ix_uniform(last->arg[1]))
            return -1;
        r.period = last->arg[1];
    }
    if (!l->axis[r.axis].open || l->map[r.axis].vec < 2) return -1;
    for (int d = 0; d + 1 < i->nix; d++)
        if (!by_vectors(l, i->ix[d], r.axis, false)) return -1;
    for (int d = 0; d + 1 < i->nix; d++) by_vectors(l, i->ix[d], r.axis, true);
    if (r.period) note_divisor(&(Divisors){l, l->map[r.axis].vec}, r.period);
    return r.axis;
}

/* The axis of vectors all elements of which are at one place; -1. */
static int alike_axis(Lower *l, const TInst *i) {
    int axis = -1;
    for (int a = 0; a < l->t->axes.n && !i->checked; a++) {
        bool uses = false;
        for (int d = 0; d < i->nix; d++) uses |= ix_uses_axis(i->ix[d], a);
        if (uses && l->axis[a].open && l->map[a].vec > 1 && l->s->wide) axis = a;
    }
    for (int d = 0; d < i->nix && axis >= 0; d++)
        if (!by_vectors(l, i->ix[d], axis, false)) return -1;
    for (int d = 0; d < i->nix && axis >= 0; d++) by_vectors(l, i->ix[d], axis, true);
    return axis;
}

/* The same axis, of which only the first of each vector is held. */
static AxisState firsts(Lower *l, int axis) {
    AxisState all = l->axis[axis], some = all;
    int vec = l->map[axis].vec;
    int64_t *step = ARENA_ARRAY(l->arena, int64_t, all.count);
    some.count = all.count / vec;
    some.e = ARENA_ARRAY(l->arena, Val, some.count);
    some.in = ARENA_ARRAY(l->arena, Val, some.count);
    for (int k = 0; k < some.count; k++) {
        some.e[k] = all.e[k * vec];
        some.in[k] = all.in[k * vec];
        step[k] = all.step[k * vec];
    }
    some.step = step;
    return some;
}

/* Element k of a fragment over `from`, all elements held, in one over `to` made of the firsts. */
static int first_at(const Lower *l, AxisSet from, int k, AxisSet to, int axis) {
    int at = 0, scale = 1;
    for (int a = l->t->axes.n - 1; a >= 0; a--) {
        if (!(from >> a & 1)) continue;
        int n = l->axis[a].count, x = k % n;
        k /= n;
        if (a == axis) n /= l->map[a].vec, x /= l->map[a].vec;
        if (!(to >> a & 1)) continue;
        at += scale * x;
        scale *= n;
    }
    return at;
}

static Val address_at(Lower *l, const Address *at, AxisSet mask, int k, int axis) {
    Val off = at->off.v[first_at(l, mask, k, at->off.mask, axis)];
    return LLVMBuildGEP2(l->b, l->i8, at->base, &off, 1, "");
}

typedef struct Vector { /* an access of vectors */
    const TTensor *t;
    int axis, vec;
    int bytes, each; /* of a vector; of an access to memory */
    Address at;      /* of the firsts */
    Val *word;       /* room for one */
} Vector;

static bool vector_of(Lower *l, const TInst *i, Vector *v) {
    const TTensor *t = &l->t->tensors.v[i->tensor];
    int axis = vector_axis(l, i, t), k = i->tensor;
    if (axis < 0) return false;
    *v = (Vector){.t = t, .axis = axis, .vec = l->map[axis].vec};
    v->bytes = v->vec * dtype_bits(t->type) / 8;
    v->each = v->bytes < WIDEST ? v->bytes : WIDEST;
    v->word = ARENA_ARRAY(l->arena, Val, v->bytes);
    if (!l->wide_bytes) l->wide_bytes = ARENA_ARRAY(l->arena, int, l->t->tensors.n);
    if (v->each > l->wide_bytes[k]) l->wide_bytes[k] = v->each;
    AxisState all = l->axis[axis];
    l->axis[axis] = firsts(l, axis);
    v->at = mem_address(l, t, i->ix, i->nix, 0);
    l->axis[axis] = all;
    return true;
}

/* Where the words of an access at byte `b` of a vector stand. */
static Val *words_at(const Vector *v, int b) {
    return v->word + b / v->each * (v->each >= 4 ? v->each / 4 : 1);
}

/* The bits of element v of a vector of words. */
static Val bits_of(Lower *l, const Val *word, int bits, int v) {
    if (bits == 64) {
        Val lo = LLVMBuildZExt(l->b, word[2 * v], l->i64, "");
        Val hi = LLVMBuildZExt(l->b, word[2 * v + 1], l->i64, "");
        hi = LLVMBuildShl(l->b, hi, LLVMConstInt(l->i64, 32, 0), "");
        return LLVMBuildOr(l->b, lo, hi, "");
    }
    if (bits == 32) return word[v];
    int each = 32 / bits;
    Val w = word[v / each];
    unsigned by = (unsigned)(v % each * bits);
    if (by) w = LLVMBuildLShr(l->b, w, LLVMConstInt(l->i32, by, 0), "");
    return LLVMBuildTrunc(l->b, w, LLVMIntTypeInContext(l->cx, (unsigned)bits), "");
}

/* A load that gives one value for a whole vector. */
static bool alike_load(Lower *l, const TInst *i, Frag *out) {
    int axis = alike_axis(l, i);
    if (axis < 0) return false;
    AxisState all = l->axis[axis];
    l->axis[axis] = firsts(l, axis);
    Frag few = mem_load(l, i);
    l->axis[axis] = all;
    *out = frag_new(l, few.mask | axis_bit(axis));
    for (int k = 0; k < out->n; k++) out->v[k] = few.v[first_at(l, out->mask, k, few.mask, axis)];
    return true;
}

/* Words of a vector: at least one. */
static int words_of(const Vector *v) {
    return v->bytes < 4 ? 1 : v->bytes / 4;
}

static void unpack(Lower *l, const Vector *v, const Val *word, Frag *out, int k) {
    int next = mem_neighbour(l, out->mask, v->axis), bits = dtype_bits(v->t->type);
    for (int n = 0; n < v->vec; n++)
        out->v[k + n * next] = type_from_bits(l, v->t->type, bits_of(l, word, bits, n));
}

bool wide_load(Lower *l, const TInst *i, Frag *out) {
    Vector v;
    if (!vector_of(l, i, &v)) return alike_load(l, i, out);
    AxisSet deps = frag_live(l, l->deps[i->id]) | axis_bit(v.axis);
    *out = frag_new(l, v.at.off.mask | deps);
    int words = words_of(&v), at = 0;
    Val *all = ARENA_ARRAY(l->arena, Val, out->n / v.vec * words);
    for (int k = 0; k < out->n; k++) {
        if (frag_coord(l, out->mask, k, v.axis) % v.vec) continue;
        Val ptr = address_at(l, &v.at, out->mask, k, v.axis);
        Val pred = mem_in_range(l, l->deps[i->id], out->mask, k);
        for (int b = 0; b < v.bytes; b += v.each)
            ptx_load_wide(l, v.each, ptr, b, pred, rows_late(l), words_at(&v, b));
        unpack(l, &v, v.word, out, k);
        memcpy(all + at, v.word, sizeof *all * (size_t)words);
        at += words;
    }
    if (l->packed && dtype_bits(v.t->type) < 32) l->packed[i->id] = all;
    return true;
}

/* ptxas would know that they are what they were, and keep them, which takes twice the registers:
 * here it cannot know by how much words are shifted. */
static void unpack_hidden(Lower *l, const Vector *v, const Val *word, Frag *out, int k) {
    int next = mem_neighbour(l, out->mask, v->axis);
    Val zero = ptx_zeros(l, l->round - 2), i = LLVMConstInt(l->i32, 16, 0);
    if (v->t->type != DT_bf16) {
        for (int n = 0; n < words_of(v); n++)
            v->word[n] = LLVMBuildAdd(l->b, ptx_again(l, word[n], l->round), zero, "");
        unpack(l, v, v->word, out, k);
        return;
    }
    Val by = LLVMBuildAdd(l->b, zero, i, "");
    Val high = LLVMBuildSub(l->b, LLVMConstInt(l->i32, 0xffff0000, 0), zero, "");
    for (int n = 0; n < v->vec; n += 2) {
        Val w = ptx_again(l, word[n / 2], l->round);
        Val pair[2] = {LLVMBuildShl(l->b, w, by, ""), LLVMBuildAnd(l->b, w, high, "")};
        for (int e = 0; e < 2; e++)
            out->v[k + (n + e) * next] = LLVMBuildBitCast(l->b, pair[e], l->f32, "");
    }
}

bool wide_again(Lower *l, const TInst *load, int first, Frag *out) {
    const Val *all = l->packed ? l->packed[load->id] : NULL;
    Vector v = {.t = &l->t->tensors.v[load->tensor]};
    if (!all) return false;
    TInst one = wide_access(l, load);
    v.axis = vector_axis(l, &one, v.t);
    v.vec = l->map[v.axis].vec;
    v.bytes = v.vec * dtype_bits(v.t->type) / 8;
    v.word = ARENA_ARRAY(l->arena, Val, v.bytes);
    *out = frag_new(l, l->value[load->id].mask);
    all += first * words_of(&v);
    for (int k = 0; k < out->n; k++) {
        if (frag_coord(l, out->mask, k, v.axis) % v.vec) continue;
        if (l->round > 1 && rows_packed(l)) {
            unpack_hidden(l, &v, all, out, k);
            all += words_of(&v);
            continue;
        }
        for (int n = 0; n < words_of(&v); n++) v.word[n] = ptx_again(l, *all++, l->round);
        unpack(l, &v, v.word, out, k);
    }
    return true;
}

/* ---- stores ---- */

/* Elements side by side in words. */
static void pack(Lower *l, DType type, const Val *raw, int n, Val *word) {
    int bits = dtype_bits(type);
    Val part[MOST];
    if (bits == 64) {
        for (int v = 0; v < n; v++) {
            word[2 * v] = LLVMBuildTrunc(l->b, raw[v], l->i32, "");
            Val hi = LLVMBuildLShr(l->b, raw[v], LLVMConstInt(l->i64, 32, 0), "");
            word[2 * v + 1] = LLVMBuildTrunc(l->b, hi, l->i32, "");
        }
        return;
    }
    for (int v = 0; v < n; v++) part[v] = raw[v];
    for (bool first = true; bits < 32 && n > 1; bits *= 2, n /= 2, first = false)
        for (int v = 0; v < n; v += 2) {
            if (first) {
                part[v / 2] = type_bits_pair(l, type, part[v], part[v + 1]);
                continue;
            }
            Val hi = LLVMBuildZExt(l->b, part[v + 1], l->i32, "");
            hi = LLVMBuildShl(l->b, hi, LLVMConstInt(l->i32, (unsigned)bits, 0), "");
            part[v / 2] = LLVMBuildOr(l->b, hi, LLVMBuildZExt(l->b, part[v], l->i32, ""), "");
        }
    for (int v = 0; v < n; v++) word[v] = part[v];
}

bool wide_store(Lower *l, const TInst *i, Val first) {
    Vector w;
    Val raw[MOST];
    if (!vector_of(l, i, &w)) return false;
    Frag v = value_of(l, i->args[0]);
    Frag shape = frag_new(l, w.at.off.mask | v.mask | axis_bit(w.axis));
    int next = mem_neighbour(l, shape.mask, w.axis);
    FK_ASSERT(w.vec <= MOST);
    for (int k = 0; k < shape.n; k++) {
        if (frag_coord(l, shape.mask, k, w.axis) % w.vec) continue;
        Val ptr = address_at(l, &w.at, shape.mask, k, w.axis);
        Val pred = mem_and(l, first, mem_in_range(l, ~(AxisSet)0, shape.mask, k));
        for (int n = 0; n < w.vec; n++)
            raw[n] = stored_bits(l, i, w.t, v.v[frag_at(l, shape.mask, k + n * next, v.mask)]);
        pack(l, w.t->type, raw, w.vec, w.word);
        for (int b = 0; b < w.bytes; b += w.each)
            ptx_store_wide(l, w.each, ptr, b, words_at(&w, b), pred);
    }
    return true;
}

/* ---- guards ---- */

static void multiple(Lower *l, Kernel *k, const Ix *x, int n) {
    IxPool *p = l->t->ix;
    guard_add(l, k, (KGuard){.kind = KG_NONNEG, .ix = ix_neg(p, ix_mod(p, x, ix_const(p, n)))});
}

static void guard_rows(Lower *l, Kernel *k, const TTensor *x, int bytes) {
    IxPool *p = l->t->ix;
    int size = dtype_bits(x->type) / 8;
    if (bytes <= size) return;
    if (x->mem != TM_TEMP)
        guard_add(l, k, (KGuard){.kind = KG_ALIGN, .index = x->id, .multiple = bytes});
    for (int d = 0; d + 1 < x->rank; d++) {
        if (x->mem == TM_TEMP)
            multiple(l, k, ix_mul(p, dense_stride(l->t, x, d), ix_const(p, size)), bytes);
        else
            guard_add(l, k,
                      (KGuard){.kind = KG_STRIDE, .index = x->id, .dim = d, .multiple = bytes});
    }
}

void wide_guards(Lower *l, Kernel *k) {
    IxPool *p = l->t->ix;
    for (int n = 0; n < l->t->tensors.n; n++) {
        const TTensor *x = &l->t->tensors.v[n];
        if (l->wide_bytes && l->wide_bytes[n]) guard_rows(l, k, x, l->wide_bytes[n]);
        if (x->mem != TM_TEMP && x->rank)
            guard_add(l, k, (KGuard){.kind = KG_STRIDE_ONE, .index = x->id, .dim = x->rank - 1});
    }
    for (int n = 0; n < l->runs.n; n++) guard_add(l, k, l->runs.v[n]);
    for (int a = 0; a < l->t->axes.n; a++) {
        const AxisMap *m = &l->map[a];
        const Ix *extent = l->t->axes.v[a].extent;
        if (m->vec > 1) multiple(l, k, extent, m->vec);
        if (a < l->t->ngrid || !l->s->held) continue;
        const Ix *most = ix_const(p, (int64_t)m->lanes * m->regs * m->vec);
        guard_add(l, k, (KGuard){.kind = KG_NONNEG, .ix = ix_sub(p, most, extent)});
    }
    k->cost = l->s->cost;
}
