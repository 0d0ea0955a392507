/* online_row.c - what is carried over rows from block to block, and the frames it is in.
 *
 * A thread has two of a group's 64 rows, and of each a quarter of the columns; four threads share a
 * row. A reduction is each thread's own until the end, but for one that is a frame: that is joined
 * after each block. Followers of a frame are in `ref`, the frame of the block that was last taken
 * in; before they take in the next, they are moved to its frame.
 */
#include "backend/nvptx/frame_int.h"
#include "backend/nvptx/online_int.h"
#include "ir/eval.h"

#include <math.h>

int on_row_of(const On *on, int id) {
    for (int k = 0; k < on->o.nrows; k++)
        if (on->o.row[k].c->id == id) return k;
    return -1;
}

bool on_is_frame(const On *on, int row) {
    int id = on->o.row[row].c->id;
    for (int c = 0; c < on->o.loop->carries.n; c++)
        if (on->o.loop->carries.v[c].frame == id) return true;
    return false;
}

const OnlineInst *on_step(const On *on, const TInst *step) {
    for (int k = 0; k < on->o.body.n; k++)
        if (on->o.body.v[k].i == step) return &on->o.body.v[k];
    FK_BUG("a step that is not in the loop");
}

/* Whether something came has to be known where nothing leaves another value than the state. */
bool on_tracks(const On *on, int row) {
    const OnlineRow *x = &on->o.row[row];
    return (x->c->frame >= 0 || x->c->has_finish) && on_step(on, x->step)->guards.n > 0;
}

void on_rows_init(On *on, OnState *s) {
    Lower *l = on->l;
    for (int k = 0; k < on->o.nrows; k++)
        for (int r = 0; r < on->held; r++) {
            const TCarry *c = on->o.row[k].c;
            s->row[k][r] = s->ref[k][r] = identity(l, c->red, c->type);
            s->any[k][r] = LLVMConstInt(l->i1, 0, 0);
        }
}

Val on_join(On *on, const TCarry *c, Val a, Val b) {
    DType from[2] = {c->type, c->type};
    Val in[2] = {a, b};
    return op_emit(on->l, reduce_combine(c->red), c->type, from, in);
}

Val on_quad(On *on, const TCarry *c, Val v) {
    for (int d = 1; d < 4; d *= 2) v = on_join(on, c, v, ptx_shfl_xor(on->l, v, d));
    return v;
}

Val on_usable(On *on, const TCarry *frame, Val v) {
    return frame_usable(on->l, frame, v);
}

Val on_frame_left(On *on, int row, Val joined, Val frame) {
    Lower *l = on->l;
    Val first = identity(l, on->o.row[row].c->red, DT_f32);
    Val none = LLVMBuildFCmp(l->b, LLVMRealOEQ, joined, first, "");
    return LLVMBuildSelect(l->b, none, first, frame, "");
}

Val on_rescale(On *on, const TCarry *c, Val from, Val to, int r) {
    return frame_rescale(on->l, c, on->o.row[on_row_of(on, c->frame)].c, from, to, r);
}

Val on_moves_far(On *on, const TCarry *c, Val from, Val to, int r) {
    Lower *l = on->l;
    const TFactor *last = &c->rescale.v[c->rescale.n - 1];
    bool power = last->kind == TF_OP && op_sep(last->op) == SEP_hom; /* its argument tells */
    Val v = frame_factor(l, c, c->rescale.n - power, from, to, r);
    if (power) {
        double unit = log(eval_op(last->op, DT_f32, DT_f32, &(EvalVal){.r = 1}).r);
        v = ptx_intrinsic(l, l->b, "llvm.fabs", &l->f32, 1, &v, 1);
        return LLVMBuildFCmp(l->b, LLVMRealOGT, v, const_real(l, c->bound / unit), "");
    }
    Val low = LLVMBuildFCmp(l->b, LLVMRealOLT, v, const_real(l, exp(-c->bound)), "");
    Val high = LLVMBuildFCmp(l->b, LLVMRealOGT, v, const_real(l, exp(c->bound)), "");
    return LLVMBuildOr(l->b, low, high, "");
}

/* ---- steps ---- */

/* Of what is the same along j, where one element is as good as many: that, if any is in the domain.
 */
static void fold_same(On *on, OnBlock *b, const OnSlab *p, const OnlineRow *x, int r, Val *chain) {
    Lower *l = on->l;
    const OnlineInst *step = on_step(on, x->step);
    Val v = on_element(on, x->step->args[1], x->c->type, r, 0), any = LLVMConstInt(l->i1, 0, 0);
    for (int c = 0; c < p->cols / 4 && any; c++) {
        Val in = on_condition(on, b, p, step, r, c);
        any = in ? LLVMBuildOr(l->b, any, in, "") : NULL;
    }
    if (any) v = LLVMBuildSelect(l->b, any, v, identity(l, x->c->red, x->c->type), "");
    *chain = *chain ? on_join(on, x->c, *chain, v) : v;
}

static void fold_row(On *on, OnBlock *b, const OnSlab *p, const OnlineRow *x, int r, Val *chain) {
    Lower *l = on->l;
    const OnlineInst *step = on_step(on, x->step);
    const OnNear *near = b->bases ? on_near(on, x->step->args[1]) : NULL;
    int id = near ? near->base : x->step->args[1];
    bool same = !(l->deps[id] >> on->o.j & 1);
    if (same && op_traits(reduce_combine(x->c->red)) & OPT_I) {
        fold_same(on, b, p, x, r, chain);
        return;
    }
    for (int c = 0; c < p->cols / 4; c++) {
        Val v = on_element(on, id, x->c->type, r, c);
        v = on_taken(on, b, p, step, x->c, id, v, r, c);
        Val *to = &chain[c % CHAINS];
        *to = *to ? on_join(on, x->c, *to, v) : v;
    }
}

void on_rows_fold(On *on, OnBlock *b, const OnSlab *p, bool framed, OnChains chain) {
    on_slab_enter(on, p);
    for (int k = 0; k < on->o.nrows; k++)
        for (int r = 0; r < on->held && (on->o.row[k].c->frame >= 0) == framed; r++)
            if (b->first || !on->idle[k]) fold_row(on, b, p, &on->o.row[k], r, chain[k][r]);
}

void on_rows_join(On *on, bool framed, OnChains chain, Val (*out)[ROWS_HELD]) {
    for (int k = 0; k < on->o.nrows; k++) {
        const TCarry *c = on->o.row[k].c;
        for (int r = 0; r < on->held && (c->frame >= 0) == framed; r++) {
            out[k][r] = chain[k][r][0];
            for (int n = 1; n < CHAINS; n++)
                if (chain[k][r][n]) out[k][r] = on_join(on, c, out[k][r], chain[k][r][n]);
        }
    }
}

/* ---- after the loop ---- */

Val on_any_of_row(On *on, Val any) {
    Lower *l = on->l;
    any = LLVMBuildZExt(l->b, any, l->i32, "");
    for (int d = 1; d < 4; d *= 2) any = LLVMBuildOr(l->b, any, ptx_shfl_xor(l, any, d), "");
    return LLVMBuildICmp(l->b, LLVMIntNE, any, i32c(l, 0), "");
}

/* Did anything come? i1, NULL: for sure. */
static Val came(On *on, OnState *s, int row, int r) {
    Lower *l = on->l;
    Val some = NULL;
    if (on->cut_lo || on->cut_hi) some = LLVMBuildICmp(l->b, LLVMIntSLT, on->lo[r], on->hi[r], "");
    if (row >= 0 && on_tracks(on, row)) {
        some = on_any_of_row(on, s->any[row][r]);
    } else if (!some) {
        const Ix *n = l->t->axes.v[on->o.j].extent;
        int64_t c;
        if (ix_is_const(n, &c) && c > 0) return NULL;
        some = LLVMBuildICmp(l->b, LLVMIntSGT, uniform_ix(l, n), LLVMConstInt(l->i64, 0, 0), "");
    }
    return some;
}

/* What moves a state to the true frame: where nothing came it stays what it is. */
static Val to_true(On *on, OnState *s, const TCarry *c, int row, int r) {
    Lower *l = on->l;
    int f = on_row_of(on, c->frame);
    if (on->idle[f]) return const_real(l, 1);
    Val from = on_usable(on, on->o.row[f].c, s->ref[f][r]);
    Val by = on_rescale(on, c, from, s->row[f][r], r), some = came(on, s, row, r);
    return some ? LLVMBuildSelect(l->b, some, by, const_real(l, 1), "") : by;
}

static int tracked_like(const On *on, const TCarry *c) {
    for (int k = 0; k < on->o.nrows; k++)
        if (on->o.row[k].c->frame == c->frame && on_tracks(on, k)) return k;
    return -1;
}

void on_rows_ref(On *on, OnState *s) {
    for (int k = 0; k < on->o.nrows && !on->lags; k++)
        for (int r = 0; r < on->held && on_is_frame(on, k) && !on->still[k]; r++)
            s->ref[k][r] = s->row[k][r];
}

void on_rows_quad(On *on, OnState *s) {
    for (int k = 0; k < on->o.nrows; k++) /* frames that move are joined already */
        for (int r = 0; r < on->held && (!on_is_frame(on, k) || on->still[k]) && !on->idle[k]; r++)
            s->row[k][r] = on_quad(on, on->o.row[k].c, s->row[k][r]);
}

void on_rows_finish(On *on, OnState *s, int n) {
    Lower *l = on->l;
    on_rows_ref(on, s);
    for (int p = 0; p < on->o.nproducts; p++) {
        const TCarry *c = on->o.product[p].c;
        if (c->frame < 0) continue;
        Val by[ROWS_HELD];
        for (int r = 0; r < on->held; r++) by[r] = to_true(on, s, c, tracked_like(on, c), r);
        for (int i = 0; i < n; i++)
            s->acc[p][i] = LLVMBuildFMul(l->b, s->acc[p][i], by[on_row_held(i, on->t.out.n)], "");
    }
    for (int k = 0; k < on->o.nrows; k++) {
        const TCarry *c = on->o.row[k].c;
        for (int r = 0; r < on->held && c->frame >= 0; r++)
            s->row[k][r] = LLVMBuildFMul(l->b, s->row[k][r], to_true(on, s, c, k, r), "");
    }
    for (int k = 0; k < on->o.nrows; k++) {
        const TCarry *c = on->o.row[k].c;
        for (int r = 0; r < on->held && c->has_finish; r++) {
            Val some = came(on, s, k, r);
            if (!some) continue;
            Val empty = c->type == DT_f32 ? const_real(l, c->finish)
                                          : const_int(l, c->type, (int64_t)c->finish);
            s->row[k][r] = LLVMBuildSelect(l->b, some, s->row[k][r], empty, "");
        }
    }
}
