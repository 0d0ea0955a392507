/* wgmma_reduce_frames.c - reductions of columns in moving frames (ir/tile.h).
 *
 * Each thread has frames of its own: the greatest or least that it has seen of a row. Before it
 * takes in what is computed in a frame of some columns, it joins the frame with them, and moves the
 * states that follow to the new one. At the end of a block the four threads of a row move theirs to
 * the joint frame and join them. A frame that is still at its identity is used as 0; a state whose
 * frame never moved is moved to what the identity makes of it, as the plain formula gives.
 */
#include "backend/nvptx/frame_int.h"
#include "backend/nvptx/wgmma_reduce_int.h"

bool reduce_is_frame(const Wg *w, int c) {
    const TInst *loop = reduce_loop(w);
    for (int k = 0; k < loop->carries.n; k++)
        if (loop->carries.v[k].frame == loop->carries.v[c].id) return true;
    return false;
}

static int carry_of(const Wg *w, int id) {
    int c = 0;
    while (reduce_carry(w, c)->id != id) c++;
    return c;
}

/* ---- what depends on a frame ----------------------------------------------------------------- */

static bool ix_moves(const Ix *x, const bool *moves) {
    if (x->kind == IX_VALUE && moves[x->num]) return true;
    for (int i = 0; i < x->n && x->has_value; i++)
        if (ix_moves(x->arg[i], moves)) return true;
    return false;
}

static bool inst_moves(const TInst *i, const bool *moves) {
    bool is = false;
    for (int a = 0; a < i->nargs; a++) is |= moves[i->args[a]];
    for (int d = 0; d < i->nix; d++) is |= ix_moves(i->ix[d], moves);
    return is;
}

void reduce_frames_find(Wg *w) {
    Lower *l = w->l;
    const TBlock *b = &l->t->body;
    bool *moves = ARENA_ARRAY(l->arena, bool, l->t->nvalues + 1), any = false;
    for (int c = 0; c < reduce_loop(w)->carries.n; c++)
        if (reduce_is_frame(w, c)) any = moves[reduce_carry(w, c)->id] = true;
    if (!any) return;
    bool *framed = w->reduce->framed = ARENA_ARRAY(l->arena, bool, w->m.nest.rest + 1);
    for (int k = 0; k < w->m.nest.rest; k++) {
        const TInst *i = b->inst.v[k];
        if (i->kind == T_LOOP || !inst_moves(i, moves)) continue;
        AxisSet d = 0;
        for (int a = 0; a < i->nargs; a++) d |= l->deps[i->args[a]];
        for (int a = 0; a < i->nix; a++) d |= tile_ix_deps(l->deps, i->ix[a]);
        framed[k] = true;
        if (i->id >= 0) moves[i->id] = true, l->deps[i->id] = d;
    }
}

/* ---- moving ---------------------------------------------------------------------------------- */

static Val state(Wg *w, int c, int r) {
    Lower *l = w->l;
    return LLVMBuildLoad2(l->b, reg_type(l, reduce_carry(w, c)->type), w->reduce->slot[c][r], "");
}

Val **reduce_frames_held(Wg *w) {
    int rows = reduce_rows_held(w), n = reduce_loop(w)->carries.n;
    Val **held = ARENA_ARRAY(w->l->arena, Val *, n);
    for (int c = 0; c < n; c++) {
        if (!reduce_is_frame(w, c)) continue;
        held[c] = ARENA_ARRAY(w->l->arena, Val, rows);
        for (int r = 0; r < rows; r++) held[c][r] = state(w, c, r);
    }
    return held;
}

void reduce_frames_move(Wg *w, Val *const *held) {
    Lower *l = w->l;
    const TInst *loop = reduce_loop(w);
    for (int c = 0; c < loop->carries.n; c++) {
        const TCarry *y = reduce_carry(w, c);
        if (!held[c]) continue;
        Frag now = frag_new(l, frag_live(l, axis_bit(w->m.rows)));
        for (int r = 0; r < reduce_rows_held(w); r++) now.v[r] = frame_usable(l, y, state(w, c, r));
        l->value[y->id] = now;
    }
    for (int c = 0; c < loop->carries.n; c++) {
        const TCarry *y = reduce_carry(w, c);
        int f = y->frame < 0 ? -1 : carry_of(w, y->frame);
        for (int r = 0; r < reduce_rows_held(w) && f >= 0; r++) {
            Val by = frame_rescale(l, y, reduce_carry(w, f), held[f][r], state(w, f, r), r);
            LLVMBuildStore(l->b, LLVMBuildFMul(l->b, state(w, c, r), by, ""),
                           w->reduce->slot[c][r]);
        }
    }
}

/* ---- the end of a block ---------------------------------------------------------------------- */

/* Of one row, from the thread's frame to the joint one. */
static Val joined(Wg *w, int c, int f, int r) {
    Lower *l = w->l;
    const TCarry *y = reduce_carry(w, c), *frame = reduce_carry(w, f);
    Val to = l->value[frame->id].v[r], mine = state(w, f, r);
    Val v = LLVMBuildFMul(l->b, state(w, c, r), frame_rescale(l, y, frame, mine, to, r), "");
    for (int d = 1; d < 4; d *= 2) v = reduce_join(w, y, v, ptx_shfl_xor(l, v, d));
    Val still = LLVMBuildFCmp(l->b, LLVMRealOEQ, to, identity(l, frame->red, DT_f32), "");
    Val by = frame_factor(l, y, y->rescale.n, const_real(l, 0), to, r);
    return LLVMBuildSelect(l->b, still, LLVMBuildFMul(l->b, v, by, ""), v, "");
}

void reduce_frames_join(Wg *w) {
    Lower *l = w->l;
    const TInst *loop = reduce_loop(w);
    for (int c = 0; c < loop->carries.n; c++)
        if (reduce_carry(w, c)->frame < 0) reduce_join_lanes(w, c);
    for (int c = 0; c < loop->carries.n; c++) {
        const TCarry *y = reduce_carry(w, c);
        if (y->frame < 0) continue;
        Frag f = frag_new(l, frag_live(l, axis_bit(w->m.rows)));
        for (int r = 0; r < reduce_rows_held(w); r++)
            f.v[r] = joined(w, c, carry_of(w, y->frame), r);
        l->value[y->id] = f;
    }
}
