/* mem.c - loads and stores.
 *
 * An address is the tensor's pointer, plus what is uniform, plus a term for each axis (one
 * multiplication, then additions: axis_scaled), plus whatever is not linear. All in 64 bits, in
 * bytes (elements for the 4-bit types). Terms are added outer axes first, so that what does not
 * change in a loop is hoisted as one sum.
 */
#include "backend/nvptx/mem_int.h"
#include "backend/nvptx/ptx_int.h"
#include "backend/nvptx/rows_int.h"

static Val add64(Lower *l, const void *ctx, const Val *in) {
    (void)ctx;
    return LLVMBuildAdd(l->b, in[0], in[1], "");
}

static Val mul64(Lower *l, const void *ctx, const Val *in) {
    (void)ctx;
    return LLVMBuildMul(l->b, in[0], in[1], "");
}

static Val and1(Lower *l, const void *ctx, const Val *in) {
    (void)ctx;
    return LLVMBuildAnd(l->b, in[0], in[1], "");
}

/* x in [0, dim), as one unsigned comparison. */
static Val inside(Lower *l, const void *ctx, const Val *in) {
    (void)ctx;
    return LLVMBuildICmp(l->b, LLVMIntULT, in[0], in[1], "");
}

typedef struct Sum { /* of an address */
    Val uniform;
    Val axis[MAX_AXES]; /* NULL: none */
    VEC(Frag) rest;
} Sum;

static Val entry_add(Lower *l, Val a, Val b) {
    return a ? LLVMBuildAdd(l->entry, a, b, "") : b;
}

/* axis * uniform * uniform...: the axis, and the product of the others in *scale. */
static bool axis_product(Lower *l, const Ix *x, int *axis, Val *scale) {
    if (ix_is_axis(x, axis)) return true;
    if (x->kind != IX_MUL) return false;
    *axis = -1;
    for (int i = 0; i < x->n; i++) {
        const Ix *f = x->arg[i];
        if (ix_uniform(f))
            *scale = LLVMBuildMul(l->entry, *scale, uniform_ix(l, f), "");
        else if (*axis >= 0 || !ix_is_axis(f, axis))
            return false;
    }
    return *axis >= 0;
}

static void sum_term(Lower *l, Sum *s, const Ix *x, Val scale) {
    if (ix_uniform(x)) {
        Val v = LLVMBuildMul(l->entry, scale, uniform_ix(l, x), "");
        s->uniform = entry_add(l, s->uniform, v);
        return;
    }
    int a = -1;
    Val by = scale;
    if (axis_product(l, x, &a, &by)) {
        s->axis[a] = entry_add(l, s->axis[a], by);
        return;
    }
    Frag in[2] = {frag_ix(l, x), frag_one(l, scale)};
    vec_push(l->arena, &s->rest, frag_map(l, mul64, NULL, in, 2));
}

static void sum_index(Lower *l, Sum *s, const Ix *x, Val stride) {
    if (x->kind != IX_ADD) {
        sum_term(l, s, x, stride);
        return;
    }
    for (int i = 0; i < x->n; i++) sum_term(l, s, x->arg[i], stride);
}

static Frag sum_total(Lower *l, const Sum *s) {
    Frag total = {0};
    for (int a = 0; a < l->t->axes.n; a++) {
        if (!s->axis[a]) continue;
        Frag in[2] = {total, axis_scaled(l, a, s->axis[a])};
        total = total.n ? frag_map(l, add64, NULL, in, 2) : in[1];
    }
    for (int i = 0; i < s->rest.n; i++) {
        Frag in[2] = {total, s->rest.v[i]};
        total = total.n ? frag_map(l, add64, NULL, in, 2) : in[1];
    }
    return total.n ? total : frag_one(l, LLVMConstInt(l->i64, 0, 0));
}

Address mem_address(Lower *l, const TTensor *t, const Ix **ix, int nix, uint32_t checked) {
    Address at = {.base = param_pointer(l, t)};
    int bits = dtype_bits(t->type);
    Sum *sum = ARENA_NEW(l->arena, Sum);
    for (int d = 0; d < nix; d++) {
        Val stride = param_stride(l, t, d);
        if (bits > 8)
            stride =
                LLVMBuildMul(l->entry, stride, LLVMConstInt(l->i64, (unsigned)bits / 8, 0), "");
        sum_index(l, sum, ix[d], stride);
        if (!(checked >> d & 1)) continue;
        Frag in[2] = {frag_ix(l, ix[d]), frag_one(l, uniform_ix(l, t->dims[d]))};
        Frag ok[2] = {at.ok, frag_map(l, inside, NULL, in, 2)};
        at.ok = at.ok.n ? frag_map(l, and1, NULL, ok, 2) : ok[1];
    }
    at.off = sum_total(l, sum);
    if (sum->uniform && bits >= 8) {
        at.base = LLVMBuildGEP2(l->entry, l->i8, at.base, &sum->uniform, 1, "");
    } else if (sum->uniform) {
        Frag in[2] = {at.off, frag_one(l, sum->uniform)};
        at.off = frag_map(l, add64, NULL, in, 2);
    }
    return at;
}

/* The byte of an element; *nibble is which half of it for a 4-bit type. */
static Val element_ptr(Lower *l, DType t, Val base, Val off, Val *nibble) {
    *nibble = NULL;
    if (dtype_bits(t) == 4) {
        Val one = LLVMConstInt(l->i64, 1, 0);
        *nibble = LLVMBuildTrunc(l->b, LLVMBuildAnd(l->b, off, one, ""), l->i32, "");
        off = LLVMBuildAShr(l->b, off, one, "");
    }
    return LLVMBuildGEP2(l->b, l->i8, base, &off, 1, "");
}

/* A rank-0 input lies on the device, or its value came with the launch. */
static Val load_scalar(Lower *l, const TTensor *t) {
    Val ptr, raw;
    param_scalar(l, t, &ptr, &raw);
    Val there = LLVMBuildICmp(l->b, LLVMIntNE, ptr, LLVMConstNull(l->gptr), "");
    Val zero = LLVMConstInt(l->i32, 0, 0);
    Val mem = type_load(l, t->type, ptr, zero, there);
    Val bits = raw;
    int width = dtype_bits(t->type);
    Val host;
    if (width == 4) {
        bool sign = t->type == DT_i4;
        Val w = LLVMBuildShl(l->b, LLVMBuildTrunc(l->b, raw, l->i32, ""),
                             LLVMConstInt(l->i32, 28, 0), "");
        Val by = LLVMConstInt(l->i32, 28, 0);
        host = sign ? LLVMBuildAShr(l->b, w, by, "") : LLVMBuildLShr(l->b, w, by, "");
    } else {
        if (width < 64)
            bits = LLVMBuildTrunc(l->b, raw, LLVMIntTypeInContext(l->cx, (unsigned)width), "");
        host = type_from_bits(l, t->type, bits);
    }
    return LLVMBuildSelect(l->b, there, mem, host, "");
}

Val mem_and(Lower *l, Val a, Val b) {
    if (!a || !b) return a ? a : b;
    return LLVMBuildAnd(l->b, a, b, "");
}

#define EVERY_AXIS (~(AxisSet)0)

Val mem_in_range(Lower *l, AxisSet axes, AxisSet mask, int k) {
    Val p = NULL;
    for (int a = 0; a < l->t->axes.n; a++) {
        const AxisState *s = &l->axis[a];
        if (s->open && (axes >> a & 1)) p = mem_and(l, p, s->in[frag_coord(l, mask, k, a)]);
    }
    return p;
}

/* Elements of raw axes may be outside: nothing is read there. */
static void in_range_too(Lower *l, AxisSet deps, Address *at) {
    AxisSet raw = 0;
    for (int a = 0; a < l->t->axes.n; a++)
        if (l->axis[a].open && l->axis[a].raw) raw |= deps & axis_bit(a);
    if (!raw) return;
    Frag all = frag_new(l, frag_live(l, raw) | at->ok.mask);
    for (int k = 0; k < all.n; k++) {
        Val ok = at->ok.n ? at->ok.v[frag_at(l, all.mask, k, at->ok.mask)] : NULL;
        all.v[k] = mem_and(l, ok, mem_in_range(l, raw, all.mask, k));
    }
    if (all.v[0]) at->ok = all; /* in is there for all elements of an axis or for none */
}

/* Nothing is read at axes of no elements that have a point all the same. */
static void in_some_too(Lower *l, AxisSet deps, Address *at) {
    for (int a = 0; a < l->t->ngrid; a++) {
        if (!(deps >> a & 1) || !l->axis[a].some) continue;
        Frag in[2] = {at->ok, frag_one(l, l->axis[a].some)};
        at->ok = at->ok.n ? frag_map(l, and1, NULL, in, 2) : in[1];
    }
}

Frag mem_load(Lower *l, const TInst *i) {
    const TTensor *t = &l->t->tensors.v[i->tensor];
    Address at = mem_address(l, t, i->ix, i->nix, i->checked);
    in_range_too(l, l->deps[i->id], &at);
    in_some_too(l, l->deps[i->id], &at);
    Frag out = frag_new(l, at.off.mask | at.ok.mask);
    for (int k = 0; k < out.n; k++) {
        Val off = at.off.v[frag_at(l, out.mask, k, at.off.mask)];
        Val ok = at.ok.n ? at.ok.v[frag_at(l, out.mask, k, at.ok.mask)] : NULL;
        Val nibble, ptr = element_ptr(l, t->type, at.base, off, &nibble);
        out.v[k] = type_load(l, t->type, ptr, nibble, ok);
    }
    return out;
}

Frag emit_load(Lower *l, const TInst *i) {
    TInst one = wide_access(l, i);
    const TTensor *t = &l->t->tensors.v[i->tensor];
    if (t->rank == 0 && t->mem == TM_IN) return frag_one(l, load_scalar(l, t));
    Frag wide;
    if (wide_load(l, &one, &wide)) return wide;
    return mem_load(l, &one);
}

Val mem_rows_aligned(Lower *l, const TTensor *t, Val base, int bytes) {
    LLVMBuilderRef e = l->entry;
    Val all = LLVMBuildPtrToInt(e, base, l->i64, "");
    Val size = LLVMConstInt(l->i64, (unsigned)dtype_bits(t->type) / 8, 0);
    for (int d = 0; d + 1 < t->rank; d++)
        all = LLVMBuildOr(e, all, LLVMBuildMul(e, param_stride(l, t, d), size, ""), "");
    Val low = LLVMBuildAnd(e, all, LLVMConstInt(l->i64, (unsigned)bytes - 1, 0), "");
    return LLVMBuildICmp(e, LLVMIntEQ, low, LLVMConstInt(l->i64, 0, 0), "");
}

int mem_paired_axis(const Lower *l, const TInst *i, const TTensor *t) {
    int axis;
    if (!l->unit_last || !i->nix || !ix_is_axis(i->ix[i->nix - 1], &axis)) return -1;
    return l->axis[axis].open && l->axis[axis].pairs && dtype_bits(t->type) <= 32 ? axis : -1;
}

int mem_neighbour(const Lower *l, AxisSet mask, int axis) {
    int inner = 1;
    for (int a = axis + 1; a < l->t->axes.n; a++)
        if (mask >> a & 1) inner *= l->axis[a].count;
    return inner;
}

/* ---- stores
 * -------------------------------------------------------------------------------------- */

/* Lane dimensions that no open axis uses hold copies: their first lane stores. */
static Val first_copy(Lower *l) {
    Val p = NULL;
    for (int d = 0; d < l->dims.n; d++) {
        bool used = false;
        for (int a = 0; a < l->t->axes.n; a++) used |= l->axis[a].open && l->map[a].dim == d;
        if (used) continue;
        Val zero = LLVMConstInt(l->i32, 0, 0);
        p = mem_and(l, p, LLVMBuildICmp(l->b, LLVMIntEQ, l->dims.v[d].lane, zero, ""));
    }
    if (l->cut) p = mem_and(l, p, cut_first(l));
    return p;
}

Val stored_bits(Lower *l, const TInst *i, const TTensor *t, Val v) {
    DType from = l->type[i->args[0]];
    return type_bits(l, t->type, type_convert(l, from, t->type, v));
}

/* Two neighbours along the last dimension make a byte, both held by this thread: the schedule gives
 * that axis vec = 2. Beyond an odd end the high half is 0. */
static void store_nibbles(Lower *l, const TInst *i, const TTensor *t, const Address *at,
                          const Frag *v, Val first) {
    int axis = -1;
    bool pair = i->nix && ix_is_axis(i->ix[i->nix - 1], &axis);
    if (pair && (l->map[axis].vec != 2 || l->axis[axis].count < 2))
        FK_BUG("a 4-bit store needs vec = 2 on the axis of its last dimension");
    if (!pair && i->nix && !ix_is_const(i->ix[i->nix - 1], NULL))
        FK_BUG("a 4-bit store needs a bare axis in its last dimension");
    AxisSet mask = at->off.mask | v->mask | (pair ? frag_live(l, axis_bit(axis)) : 0);
    Val four = LLVMConstInt(l->i8, 4, 0), low = LLVMConstInt(l->i8, 15, 0);
    int inner = 1; /* distance of a neighbour in the fragment */
    for (int a = l->t->axes.n - 1; a > axis && pair; a--)
        if (mask >> a & 1) inner *= l->axis[a].count;
    int n = 1;
    for (int a = 0; a < l->t->axes.n; a++)
        if (mask >> a & 1) n *= l->axis[a].count;
    for (int k = 0; k < n; k++) {
        if (pair && frag_coord(l, mask, k, axis) % 2) continue;
        Val nib, ptr = element_ptr(l, t->type, at->base,
                                   at->off.v[frag_at(l, mask, k, at->off.mask)], &nib);
        Val byte =
            LLVMBuildAnd(l->b, stored_bits(l, i, t, v->v[frag_at(l, mask, k, v->mask)]), low, "");
        if (pair) {
            int k1 = k + inner;
            Val hi = stored_bits(l, i, t, v->v[frag_at(l, mask, k1, v->mask)]);
            hi = LLVMBuildShl(l->b, hi, four, "");
            Val in = l->axis[axis].in[frag_coord(l, mask, k1, axis)];
            if (in) hi = LLVMBuildSelect(l->b, in, hi, LLVMConstInt(l->i8, 0, 0), "");
            byte = LLVMBuildOr(l->b, byte, hi, "");
        }
        ptx_store(l, 1, ptr, byte, mem_and(l, first, mem_in_range(l, EVERY_AXIS, mask, k)));
    }
}

/* Two values of 16 or 8 bits rounded together: *lo and *hi become the halves of one. */
static Val round_together(Lower *l, const TTensor *t, Val *lo, Val *hi) {
    Val pair = type_bits_pair(l, t->type, *lo, *hi);
    Ty half = LLVMTypeOf(*lo), whole = LLVMTypeOf(pair);
    *lo = LLVMBuildTrunc(l->b, pair, half, "");
    *hi = LLVMBuildLShr(l->b, pair, LLVMConstInt(whole, LLVMGetIntTypeWidth(half), 0), "");
    *hi = LLVMBuildTrunc(l->b, *hi, half, "");
    return pair;
}

typedef struct PairStore {
    const TInst *i;
    const TTensor *t;
    Val aligned, ptr;
    int64_t offset; /* bytes */
} PairStore;

/* Two neighbours: in one where they are aligned and both are there, else one by one. */
static void store_pair(Lower *l, const PairStore *p, Val lo, Val hi, Val in_lo, Val in_hi) {
    int size = dtype_bits(p->t->type) / 8;
    Val a = stored_bits(l, p->i, p->t, lo), b = stored_bits(l, p->i, p->t, hi);
    Val two = mem_and(l, p->aligned, in_hi), apart = LLVMBuildNot(l->b, p->aligned, "");
    Val pair = size <= 2 ? round_together(l, p->t, &a, &b) : type_bits_pair(l, p->t->type, a, b);
    ptx_store_at(l, 2 * size, p->ptr, p->offset, pair, two);
    Val one = mem_and(l, in_lo, LLVMBuildNot(l->b, two, ""));
    ptx_store_at(l, size, p->ptr, p->offset, a, one);
    ptx_store_at(l, size, p->ptr, p->offset + size, b, mem_and(l, in_hi, apart));
}

/* A store whose last index is an axis of which the thread holds pairs of neighbours. */
static void store_pairs(Lower *l, const TInst *i, const TTensor *t, int axis) {
    Frag v = value_of(l, i->args[0]);
    AxisState all = l->axis[axis];
    l->axis[axis].count = 1; /* of the first element; the rest are at constant distances */
    Address at = mem_address(l, t, i->ix, i->nix, 0);
    l->axis[axis] = all;
    int size = dtype_bits(t->type) / 8;
    PairStore p = {i, t, mem_rows_aligned(l, t, at.base, 2 * size), NULL, 0};
    AxisSet mask = v.mask | at.off.mask | axis_bit(axis);
    int inner = mem_neighbour(l, mask, axis);
    Frag shape = frag_new(l, mask);
    for (int k = 0; k < shape.n; k++) {
        int c = frag_coord(l, mask, k, axis), k1 = k + inner;
        if (c % 2) continue;
        Val off = at.off.v[frag_at(l, mask, k, at.off.mask)];
        p.ptr = LLVMBuildGEP2(l->b, l->i8, at.base, &off, 1, "");
        p.offset = all.step[c] * size;
        store_pair(l, &p, v.v[frag_at(l, mask, k, v.mask)], v.v[frag_at(l, mask, k1, v.mask)],
                   mem_in_range(l, EVERY_AXIS, mask, k), mem_in_range(l, EVERY_AXIS, mask, k1));
    }
}

/* What a store writes of each element. Neighbours of 16 or 8 bits that the thread holds are rounded
 * together even when they do not lie side by side in memory: it is one instruction, and ptxas,
 * which packs lone ones itself, then moves them among the wgmmas and serialises those (C7514).
 * NULL: there are no such neighbours. */
static Val *rounded_pairs(Lower *l, const TInst *i, const TTensor *t, const Frag *v,
                          const Frag *all) {
    int axis = -1;
    for (int a = 0; a < l->t->axes.n; a++)
        if ((all->mask >> a & 1) && l->axis[a].pairs) axis = a;
    if (axis < 0 || dtype_class(t->type) != DC_REAL || dtype_bits(t->type) > 16) return NULL;
    int inner = mem_neighbour(l, all->mask, axis);
    Val *raw = ARENA_ARRAY(l->arena, Val, all->n);
    for (int k = 0; k < all->n; k++)
        raw[k] = stored_bits(l, i, t, v->v[frag_at(l, all->mask, k, v->mask)]);
    for (int k = 0; k < all->n; k++)
        if (frag_coord(l, all->mask, k, axis) % 2 == 0)
            round_together(l, t, &raw[k], &raw[k + inner]);
    return raw;
}

/* Which elements are there: of axes on which the place does not depend, element 0. */
static Val stored(Lower *l, AxisSet once, AxisSet mask, int k) {
    Val p = mem_in_range(l, ~once, mask, k);
    for (int a = 0; a < l->t->ngrid && once >> a; a++)
        if (once >> a & 1) p = mem_and(l, p, l->axis[a].first);
    return p;
}

void emit_store(Lower *l, const TInst *store) {
    TInst one = wide_access(l, store), *i = &one;
    const TTensor *t = &l->t->tensors.v[i->tensor];
    int pairs = mem_paired_axis(l, i, t);
    AxisSet once = l->once ? tile_once(l->t, l->deps, i) : 0;
    if (pairs >= 0 && !once) {
        store_pairs(l, i, t, pairs);
        return;
    }
    Val first = first_copy(l);
    if (!once && wide_store(l, i, first)) return;
    Address at = mem_address(l, t, i->ix, i->nix, 0);
    Frag v = value_of(l, i->args[0]);
    int bits = dtype_bits(t->type);
    if (bits == 4) {
        store_nibbles(l, i, t, &at, &v, first);
        return;
    }
    Frag all = frag_new(l, at.off.mask | v.mask);
    Val *raw = rounded_pairs(l, i, t, &v, &all);
    for (int k = 0; k < all.n; k++) {
        Val off = at.off.v[frag_at(l, all.mask, k, at.off.mask)];
        Val ptr = LLVMBuildGEP2(l->b, l->i8, at.base, &off, 1, "");
        Val x = raw ? raw[k] : stored_bits(l, i, t, v.v[frag_at(l, all.mask, k, v.mask)]);
        ptx_store(l, bits / 8, ptr, x, mem_and(l, first, stored(l, once, all.mask, k)));
    }
}
