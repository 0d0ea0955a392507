/* loop.c - loops and carried values.
 *
 * A carried value is an alloca for each element a thread holds (promoted to registers later). A
 * loop over an axis with registers runs whole blocks unguarded, then the rest one element a thread;
 * with lanes each thread takes its share, and merge.c joins the parts.
 *
 * When the frame of a carried value moves from old to new, the value is multiplied by
 * rescale(old, new): after each step of the frame, before anything else reads either. (A frame that
 * lags is a choice of schedules; here it never does.) A frame still at its identity reads as 0, and
 * what was stepped by it stays as it is, or after the loop becomes what the identity itself makes
 * of it.
 */
#include "backend/nvptx/approx_int.h"
#include "backend/nvptx/merge_int.h"
#include "backend/nvptx/ptx_int.h"
#include "backend/nvptx/rows_int.h"

/* Types of values; on which axes they depend. */
static void types_block(Lower *l, const TBlock *b) {
    for (int k = 0; k < b->inst.n; k++) {
        const TInst *i = b->inst.v[k];
        if (i->id >= 0) l->type[i->id] = i->type;
        for (int c = 0; c < i->carries.n; c++) l->type[i->carries.v[c].id] = i->carries.v[c].type;
        types_block(l, &i->body);
    }
}

void values_find(Lower *l) {
    l->deps = tile_deps(l->arena, l->t);
    types_block(l, &l->t->body);
    approx_find(l);
}

/* ---- carried values
 * ---------------------------------------------------------------------------------- */

Frag carry_now(Lower *l, int id) {
    const CarryState *c = l->carry[id];
    Frag f = frag_new(l, c->mask);
    FK_ASSERT(f.n == c->n);
    Ty t = reg_type(l, c->c->type);
    for (int i = 0; i < c->n; i++) f.v[i] = LLVMBuildLoad2(l->b, t, c->slot[i], "");
    return f;
}

static Val is_still(Lower *l, const TCarry *frame, Val v) {
    return LLVMBuildFCmp(l->b, LLVMRealOEQ, v, identity(l, frame->red, frame->type), "");
}

static Val as_frame(Lower *l, const TCarry *frame, Val v) {
    return LLVMBuildSelect(l->b, is_still(l, frame, v), const_real(l, 0), v, "");
}

Frag carry_read(Lower *l, int id) {
    const CarryState *c = l->carry[id];
    Frag f = carry_now(l, id);
    for (int i = 0; i < f.n && c->open && c->is_frame; i++) f.v[i] = as_frame(l, c->c, f.v[i]);
    return f;
}

static AxisSet inner_axes(const TBlock *b) {
    AxisSet m = 0;
    for (int k = 0; k < b->inst.n; k++) {
        const TInst *i = b->inst.v[k];
        if (i->kind == T_LOOP) m |= axis_bit(i->axis);
        m |= inner_axes(&i->body);
    }
    return m;
}

static void carry_open(Lower *l, const TInst *loop, const TCarry *c) {
    CarryState *s = ARENA_NEW(l->arena, CarryState);
    s->c = c;
    s->mask = frag_live(l, l->deps[c->id]);
    s->inner = axis_bit(loop->axis) | inner_axes(&loop->body);
    Frag shape = frag_new(l, s->mask);
    s->n = shape.n;
    s->slot = ARENA_ARRAY(l->arena, Val, s->n);
    for (int k = 0; k < loop->carries.n; k++) s->is_frame |= loop->carries.v[k].frame == c->id;
    s->open = true;
    if (c->has_finish || c->frame >= 0) s->stepped = ARENA_ARRAY(l->arena, Val, s->n);
    for (int i = 0; i < s->n; i++) {
        s->slot[i] = LLVMBuildAlloca(l->frame, reg_type(l, c->type), c->name ? c->name : "carry");
        LLVMBuildStore(l->b, identity(l, c->red, c->type), s->slot[i]);
        if (!s->stepped) continue;
        s->stepped[i] = LLVMBuildAlloca(l->frame, l->i1, "stepped");
        LLVMBuildStore(l->b, LLVMConstInt(l->i1, 0, 0), s->stepped[i]);
    }
    l->carry[c->id] = s;
}

/* The program of c's rescale, for element `elem` of it. */
static Val factor(Lower *l, const CarryState *s, int elem, Val old, Val new) {
    const TCarry *c = s->c;
    Val stack[64];
    int n = 0;
    for (int i = 0; i < c->rescale.n; i++) {
        const TFactor *f = &c->rescale.v[i];
        if (f->kind == TF_OP) {
            int arity = op_arity(f->op);
            DType from[8] = {DT_f32, DT_f32, DT_f32, DT_f32, DT_f32, DT_f32, DT_f32, DT_f32};
            FK_ASSERT(n >= arity);
            n -= arity;
            stack[n] = op_emit(l, f->op, DT_f32, from, stack + n);
        } else if (f->kind == TF_VALUE) {
            Frag v = value_of(l, f->value);
            Val x = v.v[frag_at(l, s->mask, elem, v.mask)];
            stack[n] = type_widen(l, l->type[f->value], DT_f32, x);
        } else {
            FK_ASSERT(n < 64);
            stack[n] = f->kind == TF_OLD ? old : f->kind == TF_NEW ? new : const_real(l, f->num);
        }
        n++;
    }
    FK_ASSERT(n == 1);
    return stack[0];
}

Val rescale_factor(Lower *l, const CarryState *s, int elem, Val old, Val new) {
    const TCarry *frame = l->carry[s->c->frame]->c;
    Val f = factor(l, s, elem, old, new), one = const_real(l, 1);
    Val same = LLVMBuildFCmp(l->b, LLVMRealOEQ, old, new, "");
    same = LLVMBuildOr(l->b, same, is_still(l, frame, old), "");
    return LLVMBuildSelect(l->b, same, one, f, "");
}

/* Where it hardly ever happens: s is moved from frame 0 to m in a branch. */
static void move_apart(Lower *l, const CarryState *s, int elem, Val moves, Val m) {
    Map narrow = l->narrow, wide = l->wide, reals = l->reals;
    LLVMBasicBlockRef apart = block_new(l, "moves"), after = block_new(l, "moved");
    LLVMBuildCondBr(l->b, moves, apart, after);
    block_enter(l, apart);
    l->narrow = l->wide = l->reals = (Map){.arena = l->arena};
    Val v = LLVMBuildLoad2(l->b, l->f32, s->slot[elem], "");
    v = LLVMBuildFMul(l->b, v, factor(l, s, elem, const_real(l, 0), m), "");
    LLVMBuildStore(l->b, v, s->slot[elem]);
    LLVMBuildBr(l->b, after);
    block_enter(l, after);
    l->narrow = narrow, l->wide = wide, l->reals = reals;
}

/* After the loop: states under a frame at its identity are what that makes of them. */
static void carry_to_true_frame(Lower *l, const CarryState *s) {
    const CarryState *frame = l->carry[s->c->frame];
    Frag now = carry_now(l, frame->c->id);
    for (int i = 0; i < s->n; i++) {
        Val m = now.v[frag_at(l, s->mask, i, frame->mask)];
        Val any = LLVMBuildLoad2(l->b, l->i1, s->stepped[i], "");
        Val moves = LLVMBuildAnd(l->b, any, is_still(l, frame->c, m), "");
        if (l->s->wide) {
            move_apart(l, s, i, moves, m);
            continue;
        }
        Val f = factor(l, s, i, const_real(l, 0), m);
        f = LLVMBuildSelect(l->b, moves, f, const_real(l, 1), "");
        Val v = LLVMBuildLoad2(l->b, l->f32, s->slot[i], "");
        LLVMBuildStore(l->b, LLVMBuildFMul(l->b, v, f, ""), s->slot[i]);
    }
}

static void carry_close(Lower *l, CarryState *s) {
    const TCarry *c = s->c;
    s->open = false;
    if (c->frame >= 0) carry_to_true_frame(l, s);
    if (!c->has_finish) return;
    bool is_real = dtype_value(c->type) == DT_f32;
    Val empty = is_real ? const_real(l, c->finish) : const_int(l, c->type, (int64_t)c->finish);
    for (int i = 0; i < s->n; i++) {
        Val v = LLVMBuildLoad2(l->b, reg_type(l, c->type), s->slot[i], "");
        Val any = LLVMBuildLoad2(l->b, l->i1, s->stepped[i], "");
        LLVMBuildStore(l->b, LLVMBuildSelect(l->b, any, v, empty, ""), s->slot[i]);
    }
}

/* The states in the frame of `moved` follow it from `old` (a fragment of its mask). */
void carry_moved(Lower *l, const CarryState *moved, const Frag *old) {
    Frag now = carry_now(l, moved->c->id);
    for (int id = 0; id < l->t->nvalues; id++) {
        CarryState *s = l->carry[id];
        if (!s || s->c->frame != moved->c->id) continue;
        for (int i = 0; i < s->n; i++) {
            int m = frag_at(l, s->mask, i, moved->mask);
            Val f = rescale_factor(l, s, i, old->v[m], now.v[m]);
            Val v = LLVMBuildLoad2(l->b, l->f32, s->slot[i], "");
            LLVMBuildStore(l->b, LLVMBuildFMul(l->b, v, f, ""), s->slot[i]);
        }
    }
}

void emit_step(Lower *l, const TInst *i) {
    CarryState *s = l->carry[i->args[0]];
    Frag elem = value_of(l, i->args[1]);
    DType from[2] = {s->c->type, l->type[i->args[1]]};
    Frag old = {0};
    if (s->is_frame) old = carry_now(l, s->c->id);
    /* Every element of the loop's axes joins, whether or not its value differs. */
    AxisSet folded = frag_live(l, s->inner);
    Frag all = frag_new(l, s->mask | folded);
    Ty t = reg_type(l, s->c->type);
    for (int k = 0; k < all.n; k++) {
        int c = frag_at(l, all.mask, k, s->mask);
        Val in[2] = {LLVMBuildLoad2(l->b, t, s->slot[c], ""),
                     elem.v[frag_at(l, all.mask, k, elem.mask)]};
        Val v = op_emit(l, reduce_combine(s->c->red), s->c->type, from, in);
        Val there = NULL; /* the rest of a loop with vec > 1 */
        for (int a = 0; a < l->t->axes.n; a++) {
            if (!(s->inner >> a & 1) || !l->axis[a].open) continue;
            Val p = l->axis[a].in[frag_coord(l, all.mask, k, a)];
            if (p) there = there ? LLVMBuildAnd(l->b, there, p, "") : p;
        }
        if (there) v = LLVMBuildSelect(l->b, there, v, in[0], "");
        LLVMBuildStore(l->b, v, s->slot[c]);
        if (!s->stepped) continue;
        Val yes = there ? there : LLVMConstInt(l->i1, 1, 0);
        Val any = LLVMBuildLoad2(l->b, l->i1, s->stepped[c], "");
        LLVMBuildStore(l->b, LLVMBuildOr(l->b, any, yes, ""), s->stepped[c]);
    }
    if (s->is_frame) carry_moved(l, s, &old);
}

/* ---- loops
 * -------------------------------------------------------------------------------------------- */

static Val i64c(const Lower *l, int64_t v) {
    return LLVMConstInt(l->i64, (uint64_t)v, 1);
}

/* Opens the axis with regs * vec elements from `first`. With `end` (the rest of a loop with
 * vec > 1) elements past it are marked and moved back. */
static void axis_open(Lower *l, int a, Val first, int regs, int vec, Val end) {
    AxisState *s = &l->axis[a];
    int n = regs * vec;
    int64_t *step = ARENA_ARRAY(l->arena, int64_t, n);
    *s = (AxisState){.open = true,
                     .count = n,
                     .e = ARENA_ARRAY(l->arena, Val, n),
                     .in = ARENA_ARRAY(l->arena, Val, n),
                     .step = step};
    for (int i = 0; i < n; i++) {
        step[i] = (int64_t)l->map[a].lanes * vec * (i / vec) + i % vec;
        s->e[i] = i ? LLVMBuildAdd(l->b, first, i64c(l, step[i]), "") : first;
        if (!end || !i) continue;
        s->in[i] = LLVMBuildICmp(l->b, LLVMIntSLT, s->e[i], end, "");
        s->e[i] = LLVMBuildSelect(l->b, s->in[i], s->e[i], first, "");
    }
}

/* for (e = first; e < limit; e += stride) body. Returns e after the loop. */
static Val emit_range(Lower *l, const TInst *i, Val first, Val limit, int regs, int vec, Val end) {
    const AxisMap *m = &l->map[i->axis];
    const char *name = l->t->axes.v[i->axis].name;
    LLVMBasicBlockRef before = LLVMGetInsertBlock(l->b);
    LLVMBasicBlockRef body = block_new(l, name), exit = block_new(l, "end");
    Val any = LLVMBuildICmp(l->b, LLVMIntSLT, first, limit, "");
    LLVMBuildCondBr(l->b, any, body, exit);
    block_enter(l, body);
    Val e = LLVMBuildPhi(l->b, l->i64, name);
    LLVMAddIncoming(e, &first, &before, 1);
    axis_open(l, i->axis, e, regs, vec, end);
    if (l->s->wide)
        rows_block(l, i);
    else
        emit_block(l, &i->body);
    l->axis[i->axis].open = false;
    Val next = LLVMBuildAdd(l->b, e, i64c(l, (int64_t)m->lanes * regs * vec), "");
    LLVMBasicBlockRef latch = LLVMGetInsertBlock(l->b);
    LLVMAddIncoming(e, &next, &latch, 1);
    Val more = LLVMBuildICmp(l->b, LLVMIntSLT, next, limit, "");
    LLVMBuildCondBr(l->b, more, body, exit);
    block_enter(l, exit);
    Val after = LLVMBuildPhi(l->b, l->i64, "");
    Val from[2] = {first, next};
    LLVMBasicBlockRef where[2] = {before, latch};
    LLVMAddIncoming(after, from, where, 2);
    return after;
}

/* part: what is carried is that of a part of the row, and stays as the loop left it. */
static void close_all(Lower *l, const TInst *i, bool part) {
    for (int c = 0; c < i->carries.n; c++) {
        CarryState *s = l->carry[i->carries.v[c].id];
        if (part)
            s->open = false;
        else
            carry_close(l, s);
    }
}

void emit_loop(Lower *l, const TInst *i) {
    const AxisMap *m = &l->map[i->axis];
    for (int c = 0; c < i->carries.n; c++) carry_open(l, i, &i->carries.v[c]);
    if (rows_held(l, i)) {
        rows_loop(l, i);
        close_all(l, i, false);
        return;
    }
    if (l->cut && cut_done(l, i)) {
        cut_fetch(l, i);
        close_all(l, i, false);
        return;
    }
    Frag lo_f = frag_ix(l, i->lo), hi_f = frag_ix(l, i->hi);
    Val lo = frag_only(&lo_f, "a loop's bound"), hi = frag_only(&hi_f, "a loop's bound");
    if (l->cut) cut_bounds(l, &lo, &hi);
    Val shift = LLVMBuildMul(l->entry, axis_lane(l, i->axis), i64c(l, m->vec), "");
    Val e = LLVMBuildAdd(l->b, lo, shift, "");
    if (m->regs * m->vec > 1) { /* whole blocks: block + lanes * regs * vec <= hi */
        int64_t block = (int64_t)m->lanes * m->regs * m->vec;
        Val limit = LLVMBuildAdd(l->b, LLVMBuildAdd(l->b, hi, shift, ""), i64c(l, 1 - block), "");
        e = emit_range(l, i, e, limit, m->regs, m->vec, NULL);
    }
    emit_range(l, i, e, hi, 1, m->vec, m->vec > 1 && !l->s->wide ? hi : NULL);
    if (m->lanes > 1 && i->carries.n) merge_lanes(l, i, m->dim);
    close_all(l, i, l->cut != NULL);
}
