/* merge.c - joins the lanes' parts of a loop's carried values.
 *
 * First inside warps, by butterflies of shuffles over the largest power of two of neighbouring
 * lanes; then the groups that are left through shared memory, read back and folded in order by
 * every thread. The order depends on the schedule alone, and every lane ends with the same bits
 * (the joins commute and are not contracted).
 *
 * Carries that move with a frame are joined in the joint frame: m = combine(m1, m2), then
 * s = combine(s1 * rescale(m1, m), s2 * rescale(m2, m)).
 */
#include "backend/nvptx/merge_int.h"
#include "backend/nvptx/ptx_int.h"

enum { SHARED_LIMIT = 32768 };

/* One scalar to join: element `elem` of carry `c`, or its "stepped" flag. `frame` is the part that
 * is its frame, earlier in the list; -1. */
typedef struct Part {
    const CarryState *c;
    int elem, frame;
    bool flag, settled;
    Val v;
} Part;

typedef VEC(Part) Parts;

static bool flagged_frame(const Part *p) {
    return !p->flag && !p->settled && p->c->c->frame >= 0;
}

static int part_of(const Parts *ps, const CarryState *c, int elem) {
    for (int i = 0; i < ps->n; i++)
        if (ps->v[i].c == c && ps->v[i].elem == elem && !ps->v[i].flag) return i;
    return -1;
}

/* Frames before what follows them. */
static void collect(Lower *l, const TInst *loop, enum Merge which, Parts *ps) {
    for (int turn = 0; turn < 2; turn++)
        for (int k = 0; k < loop->carries.n; k++) {
            const CarryState *c = l->carry[loop->carries.v[k].id];
            bool follows = c->c->frame >= 0;
            if (follows != (turn == 1) ||
                (which != MERGE_ALL && follows != (which == MERGE_SETTLED)))
                continue;
            for (int e = 0; e < c->n; e++) {
                Part p = {c, e, -1, false, which == MERGE_SETTLED, NULL};
                if (follows && !p.settled) {
                    const CarryState *f = l->carry[c->c->frame];
                    p.frame = part_of(ps, f, frag_at(l, c->mask, e, f->mask));
                    if (p.frame < 0) FK_BUG("a frame that is no carry of the same loop");
                }
                vec_push(l->arena, ps, p);
                if (!c->stepped || c->whole) continue;
                Part flag = {c, e, -1, true, false, NULL};
                vec_push(l->arena, ps, flag);
            }
        }
}

static void parts_load(Lower *l, Part *p, int n) {
    for (int i = 0; i < n; i++) {
        const CarryState *c = p[i].c;
        if (p[i].flag) {
            Val v = LLVMBuildLoad2(l->b, l->i1, c->stepped[p[i].elem], "");
            p[i].v = LLVMBuildZExt(l->b, v, l->i32, "");
        } else {
            p[i].v = LLVMBuildLoad2(l->b, reg_type(l, c->c->type), c->slot[p[i].elem], "");
        }
    }
}

static void parts_store(Lower *l, const Part *p, int n) {
    for (int i = 0; i < n; i++) {
        Val v = p[i].v;
        if (!p[i].flag)
            LLVMBuildStore(l->b, v, p[i].c->slot[p[i].elem]);
        else
            LLVMBuildStore(l->b, LLVMBuildTrunc(l->b, v, l->i1, ""), p[i].c->stepped[p[i].elem]);
    }
}

/* v = v joined with the values `w` of another lane. `base` is the index of p[0] in the list. */
static void parts_join(Lower *l, Part *p, const Val *w, int n, int base) {
    Val *old = ARENA_ARRAY(l->arena, Val, n);
    for (int i = 0; i < n; i++) {
        old[i] = p[i].v;
        const TCarry *c = p[i].c->c;
        if (p[i].flag) {
            p[i].v = LLVMBuildOr(l->b, p[i].v, w[i], "");
            continue;
        }
        Val a = p[i].v, b = w[i];
        if (flagged_frame(&p[i])) {
            int f = p[i].frame - base;
            int e = p[i].elem;
            a = LLVMBuildFMul(l->b, a, rescale_factor(l, p[i].c, e, old[f], p[f].v), "");
            b = LLVMBuildFMul(l->b, b, rescale_factor(l, p[i].c, e, w[f], p[f].v), "");
        }
        p[i].v = op_emit_exact(l, reduce_combine(c->red), c->type, a, b);
    }
}

static int part_bytes(const Part *p) {
    return !p->flag && dtype_value(p->c->c->type) == DT_i64 ? 8 : 4;
}

/* Kernels of rows have room of their own for each exchange: who writes there next is in the next
 * tile (kernel_loop), or behind a barrier since there is no more room. */
static int64_t room_for(Lower *l, int64_t bytes) {
    int64_t at = (l->exchanged + 15) / 16 * 16;
    if (l->s->wide && at + bytes <= SHARED_LIMIT) {
        l->exchanged = (int)(at + bytes);
        return at;
    }
    ptx_barrier(l); /* the last readers are done */
    return 0;
}

static Val slot(Lower *l, int64_t offset, Val index, int bytes) {
    Val at = LLVMBuildMul(l->b, index, LLVMConstInt(l->i32, (unsigned)bytes, 0), "");
    at = LLVMBuildAdd(l->b, at, LLVMConstInt(l->i32, (uint64_t)offset, 0), "");
    return LLVMBuildGEP2(l->b, l->i8, l->shared, &at, 1, "");
}

typedef struct Shape {        /* of the exchange */
    int groups, others, warp; /* groups of `warp` lanes; threads beside the lanes */
    Val group, other, leader; /* i32, i32, i1 */
} Shape;

static Shape shape_of(Lower *l, int dim) {
    const LaneDim *d = &l->dims.v[dim];
    Shape s = {.warp = 1, .others = l->s->threads / d->lanes};
    bool power = !(d->stride & (d->stride - 1)) && l->s->threads % 32 == 0;
    while (power && d->lanes % (2 * s.warp) == 0 && d->stride * 2 * s.warp <= 32) s.warp *= 2;
    s.groups = d->lanes / s.warp;
    LLVMBuilderRef b = l->entry;
    Val stride = LLVMConstInt(l->i32, (unsigned)d->stride, 0);
    Val warp = LLVMConstInt(l->i32, (unsigned)s.warp, 0);
    s.group = LLVMBuildUDiv(b, d->lane, warp, "");
    Val rest = LLVMBuildURem(b, d->lane, warp, "");
    s.leader = LLVMBuildICmp(b, LLVMIntEQ, rest, LLVMConstInt(l->i32, 0, 0), "");
    Val whole = LLVMConstInt(l->i32, (unsigned)(d->stride * d->lanes), 0);
    Val high = LLVMBuildMul(b, LLVMBuildUDiv(b, l->tid, whole, ""), stride, "");
    s.other = LLVMBuildAdd(b, high, LLVMBuildURem(b, l->tid, stride, ""), "");
    return s;
}

static void shared_use(Lower *l, int bytes) {
    if (!l->shared) l->shared = LLVMBuildFreeze(l->entry, LLVMGetUndef(l->sptr), "");
    if (bytes > l->shared_bytes) l->shared_bytes = bytes;
}

/* Through shared memory, all of p at once: slots are [part][group][other]. */
static void exchange(Lower *l, const Shape *s, Part *p, int n, int base) {
    int64_t *at = ARENA_ARRAY(l->arena, int64_t, n);
    int64_t bytes = 0;
    for (int turn = 8; turn >= 4; turn -= 4) /* the wide ones first keep all aligned */
        for (int i = 0; i < n; i++) {
            if (part_bytes(&p[i]) != turn) continue;
            at[i] = bytes;
            bytes += (int64_t)turn * s->groups * s->others;
        }
    int64_t from = room_for(l, bytes);
    for (int i = 0; i < n; i++) at[i] += from;
    shared_use(l, (int)(from + bytes));
    Val others = LLVMConstInt(l->i32, (unsigned)s->others, 0);
    LLVMBasicBlockRef write = block_new(l, "leader"), read = block_new(l, "join");
    LLVMBuildCondBr(l->b, s->leader, write, read);
    block_enter(l, write);
    Val mine = LLVMBuildAdd(l->b, LLVMBuildMul(l->b, s->group, others, ""), s->other, "");
    for (int i = 0; i < n; i++)
        LLVMBuildStore(l->b, p[i].v, slot(l, at[i], mine, part_bytes(&p[i])));
    LLVMBuildBr(l->b, read);
    block_enter(l, read);
    ptx_barrier(l);
    Val *w = ARENA_ARRAY(l->arena, Val, n);
    for (int g = 0; g < s->groups; g++) {
        Val index =
            LLVMBuildAdd(l->b, s->other, LLVMConstInt(l->i32, (unsigned)(g * s->others), 0), "");
        for (int i = 0; i < n; i++) {
            Val ptr = slot(l, at[i], index, part_bytes(&p[i]));
            w[i] = LLVMBuildLoad2(l->b, LLVMTypeOf(p[i].v), ptr, "");
            if (!g) p[i].v = w[i];
        }
        if (g) parts_join(l, p, w, n, base);
    }
}

static void join_some(Lower *l, const Shape *s, int stride, Part *p, int n, int base) {
    parts_load(l, p, n);
    Val *w = ARENA_ARRAY(l->arena, Val, n);
    for (int d = s->warp / 2; d >= 1; d /= 2) {
        for (int i = 0; i < n; i++) w[i] = ptx_shfl_xor(l, p[i].v, d * stride);
        parts_join(l, p, w, n, base);
    }
    if (s->groups > 1) exchange(l, s, p, n, base);
    parts_store(l, p, n);
}

void merge_lanes(Lower *l, const TInst *loop, int dim) {
    merge_lanes_of(l, loop, dim, MERGE_ALL);
}

void merge_lanes_of(Lower *l, const TInst *loop, int dim, enum Merge which) {
    Parts ps = {0};
    collect(l, loop, which, &ps);
    Shape s = shape_of(l, dim);
    bool framed = false;
    for (int i = 0; i < ps.n; i++) framed |= flagged_frame(&ps.v[i]);
    int each = 8 * s.groups * s.others; /* at most */
    int round = SHARED_LIMIT / each > 0 ? SHARED_LIMIT / each : 1;
    if (framed) round = ps.n;
    for (int i = 0; i < ps.n; i += round) {
        int n = ps.n - i < round ? ps.n - i : round;
        join_some(l, &s, l->dims.v[dim].stride, ps.v + i, n, i);
    }
}

/* ---- the scalars themselves ---- */

Val merge_other(Lower *l, int dim) {
    return dim < 0 ? l->tid : shape_of(l, dim).other;
}

int merge_scalars(Lower *l, const TInst *loop) {
    Parts ps = {0};
    collect(l, loop, MERGE_ALL, &ps);
    return ps.n;
}

void merge_with(Lower *l, const TInst *loop, MergeRead *read, Val from) {
    Parts ps = {0};
    collect(l, loop, MERGE_ALL, &ps);
    parts_load(l, ps.v, ps.n);
    Val *w = ARENA_ARRAY(l->arena, Val, ps.n + 1);
    for (int k = 0; k < ps.n; k++) w[k] = read(l, from, k, LLVMTypeOf(ps.v[k].v));
    parts_join(l, ps.v, w, ps.n, 0);
    parts_store(l, ps.v, ps.n);
}

void merge_each(Lower *l, const TInst *loop, MergeWrite *write, Val to) {
    Parts ps = {0};
    collect(l, loop, MERGE_ALL, &ps);
    parts_load(l, ps.v, ps.n);
    for (int k = 0; k < ps.n; k++) write(l, to, k, ps.v[k].v);
}
