/* online_copy.c - how tiles come where warps do all of it (cp.async, sm_80): all threads copy, 16
 * bytes each, 8 of them a line of 128 bytes.
 *
 * K and V have rings of `stages` buffers. What is copied at once is a group of cp.async, an empty
 * one too, so that who waits for all but the last so many has his:
 *     a tile begins: rows and K of its first block; V, K of the blocks that there are buffers for
 *     K of a block is there (wait, all threads meet): V of the first block that has none goes where
 *         all have multiplied by the block before; scores
 *     V of the block is there (wait, meet): K of the next block that has none goes where all have
 *         made the scores of this one; products
 * Where products are late there is one such point a block, at its scores, and one group: K and V
 * one block behind. Elements beyond the tensor are 0. Of V, so is what no row has by the bounds of
 * j: it is multiplied by 0, and may be anything in memory.
 */
#include "backend/nvptx/online_int.h"

enum { LINE = 128, UNITS = LINE / 16, UNIT = 8 /* elements of 16 bytes */ };

static int lines_at_once(const On *on) {
    return on->l->s->threads / UNITS;
}

static int line_dim(const MmaFactor *f) {
    return f->k_major ? f->row : f->depth;
}

static const TTensor *tensor_of(const On *on, const MmaFactor *f) {
    return &on->l->t->tensors.v[f->load->tensor];
}

static Val i64c(const Lower *l, int64_t v) {
    return LLVMConstInt(l->i64, (uint64_t)v, 1);
}

static Val bytes_of_line(On *on, const MmaFactor *f) {
    Lower *l = on->l;
    Val n = param_stride(l, tensor_of(on, f), line_dim(f));
    return LLVMBuildMul(l->b, n, i64c(l, 2), "");
}

/* What a thread copies first of a tile: a line, 16 bytes of it; where they go in a buffer. Made
 * where it is used, from the thread's number: registers are short. */
typedef struct Place {
    Val line, unit, to; /* i32 */
} Place;

static Place place(On *on) {
    Lower *l = on->l;
    LLVMBuilderRef b = l->b;
    Val tid = ptx_tid_now(l);
    Place p = {LLVMBuildLShr(b, tid, i32c(l, 3), ""), LLVMBuildAnd(b, tid, i32c(l, 7), ""), NULL};
    Val unit = LLVMBuildXor(b, LLVMBuildAnd(b, p.line, i32c(l, 7), ""), p.unit, "");
    unit = LLVMBuildShl(b, unit, i32c(l, 4), "");
    p.to = LLVMBuildOr(b, LLVMBuildShl(b, p.line, i32c(l, 7), ""), unit, "");
    return p;
}

/* The first element of the line that the open axes have; which line that is. */
static OnFrom from_open(On *on, const MmaFactor *f) {
    Lower *l = on->l;
    Val at = i64c(l, 0), coord[5];
    int rank = f->load->nix;
    wg_coords(&on->w, f->load, coord);
    for (int d = 0; d < rank; d++) {
        Val x = LLVMBuildSExt(l->b, coord[rank - 1 - d], l->i64, "");
        Val by = LLVMBuildMul(l->b, x, param_stride(l, tensor_of(on, f), d), "");
        at = LLVMBuildAdd(l->b, at, by, "");
    }
    at = LLVMBuildShl(l->b, at, i64c(l, 1), "");
    Val base = param_pointer(l, tensor_of(on, f));
    return (OnFrom){LLVMBuildGEP2(l->b, l->i8, base, &at, 1, ""), coord[rank - 1 - line_dim(f)]};
}

/* Bytes of the thread's unit of a piece that there are. */
static Val unit_bytes(On *on, const MmaFactor *f, const Place *me, int piece) {
    Lower *l = on->l;
    const TTensor *x = tensor_of(on, f);
    const Ix *wide = x->dims[x->rank - 1];
    int64_t n;
    if (ix_is_const(wide, &n) && n >= 64 * (piece + 1)) return i32c(l, 16);
    Val left = LLVMBuildSub(l->b, uniform32(&on->w, wide), i32c(l, 64 * piece), "");
    left = LLVMBuildSub(l->b, left, LLVMBuildMul(l->b, me->unit, i32c(l, UNIT), ""), "");
    left = LLVMBuildShl(l->b, left, i32c(l, 1), "");
    Val some = LLVMBuildICmp(l->b, LLVMIntSGT, left, i32c(l, 0), "");
    left = LLVMBuildSelect(l->b, some, left, i32c(l, 0), "");
    Val all = LLVMBuildICmp(l->b, LLVMIntSGT, left, i32c(l, 16), "");
    return LLVMBuildSelect(l->b, all, i32c(l, 16), left, "");
}

/* i1: is a line of the tile, which begins at `first`, in the tensor, and within [lo, hi) of the
 * tile's lines (i32; NULL: no matter)? NULL: it is. */
static Val is_line(On *on, const MmaFactor *f, Val first, Val line, Val lo, Val hi, bool whole) {
    Lower *l = on->l;
    Val is = NULL;
    if (!whole) {
        Val at = LLVMBuildAdd(l->b, first, line, "");
        Val end = uniform32(&on->w, tensor_of(on, f)->dims[line_dim(f)]);
        is = LLVMBuildICmp(l->b, LLVMIntULT, at, end, "");
    }
    for (int k = 0; k < 2; k++) {
        Val bound = k ? hi : lo;
        if (!bound) continue;
        Val in = LLVMBuildICmp(l->b, k ? LLVMIntSLT : LLVMIntSGE, line, bound, "");
        is = is ? LLVMBuildAnd(l->b, is, in, "") : in;
    }
    return is;
}

/* Lines of a tensor that a multiple of `tile` lines has, whose axis is read bare. */
static bool whole_tiles(const On *on, const MmaFactor *f, int axis, int tile) {
    int64_t n;
    int a;
    const Ix *dim = tensor_of(on, f)->dims[line_dim(f)];
    return ix_is_axis(f->load->ix[line_dim(f)], &a) && a == axis && ix_is_const(dim, &n) &&
           n % tile == 0 && dim == on->l->t->axes.v[axis].extent;
}

/* from: the tile's first line. */
static void copy(On *on, const MmaFactor *f, const OnlineSmem *m, OnFrom from, Val to, Val lo,
                 Val hi, bool whole) {
    Lower *l = on->l;
    Place me = place(on);
    Val line = bytes_of_line(on, f), bytes[8];
    Val step = LLVMBuildMul(l->b, line, i64c(l, lines_at_once(on)), "");
    Val by = LLVMBuildMul(l->b, line, LLVMBuildZExt(l->b, me.line, l->i64, ""), "");
    Val unit = LLVMBuildZExt(l->b, LLVMBuildShl(l->b, me.unit, i32c(l, 4), ""), l->i64, "");
    by = LLVMBuildAdd(l->b, by, unit, "");
    Val at = LLVMBuildGEP2(l->b, l->i8, from.at, &by, 1, "");
    FK_ASSERT(m->pieces <= 8);
    to = LLVMBuildAdd(l->b, to, me.to, "");
    for (int p = 0; p < m->pieces; p++) bytes[p] = unit_bytes(on, f, &me, p);
    for (int n = 0; n < m->lines; n += lines_at_once(on)) {
        Val here = LLVMBuildAdd(l->b, me.line, i32c(l, n), "");
        Val is = is_line(on, f, from.line, here, lo, hi, whole);
        for (int p = 0; p < m->pieces; p++) {
            Val some = bytes[p];
            if (is) some = LLVMBuildSelect(l->b, is, some, i32c(l, 0), "");
            bool all = LLVMIsConstant(some);
            ptx_copy16(l, to, (p * m->lines + n) * LINE, at, p * LINE, all ? NULL : some, 0);
        }
        at = LLVMBuildGEP2(l->b, l->i8, at, &step, 1, "");
    }
}

/* ---- blocks ---- */

/* Where the tile's first lines lie is kept in shared memory where products are late, for which
 * registers are shortest: it would take two of them a factor. */
static Val told(On *on, const OnFrom *x) {
    bool key = x >= on->from_k && x < on->from_k + ONLINE_SCORES;
    int number = (int)(key ? x - on->from_k : ONLINE_SCORES + (x - on->from_v));
    return LLVMBuildAdd(on->l->b, on->w.bars, i32c(on->l, 8 * number), "");
}

static void tell(On *on, const OnFrom *x) {
    Val at = LLVMBuildPtrToInt(on->l->b, x->at, on->l->i64, "");
    ptx_store_shared(on->l, 8, told(on, x), at);
}

static void tell_all(On *on) {
    Lower *l = on->l;
    LLVMBasicBlockRef one = block_new(l, "tell"), after = block_new(l, "told");
    Val is = LLVMBuildICmp(l->b, LLVMIntEQ, on->w.tid, i32c(l, 0), "");
    LLVMBuildCondBr(l->b, is, one, after);
    block_enter(l, one);
    for (int k = 0; k < on->o.nscores; k++) tell(on, &on->from_k[k]);
    for (int p = 0; p < on->o.nproducts; p++) tell(on, &on->from_v[p]);
    LLVMBuildBr(l->b, after);
    block_enter(l, after);
}

static OnFrom of_block(On *on, const MmaFactor *f, const OnFrom *first, Val i) {
    Lower *l = on->l;
    Val at = first->at, j = LLVMBuildMul(l->b, i, i32c(l, on->t.j), "");
    if (on->copies_later) {
        at = ptx_load_shared(l, 8, told(on, first));
        at = LLVMBuildIntToPtr(l->b, at, l->gptr, "");
    }
    Val by = LLVMBuildMul(l->b, LLVMBuildZExt(l->b, j, l->i64, ""), bytes_of_line(on, f), "");
    at = LLVMBuildGEP2(l->b, l->i8, at, &by, 1, "");
    return (OnFrom){at, LLVMBuildAdd(l->b, first->line, j, "")};
}

static void copy_scores(On *on, Val i, Val stage) {
    for (int k = 0; k < on->o.nscores; k++) {
        const MmaFactor *f = &on->o.score[k].b;
        copy(on, f, &on->t.k[k], of_block(on, f, &on->from_k[k], i),
             on_buffer(on, &on->t.k[k], stage), NULL, NULL, whole_tiles(on, f, on->o.j, on->t.j));
    }
}

static void copy_products(On *on, Val i, Val stage) {
    Lower *l = on->l;
    Val j = LLVMBuildMul(l->b, i, i32c(l, on->t.j), "");
    Val lo = on->scrub_lo ? LLVMBuildSub(l->b, on->lo_least, j, "") : NULL;
    Val hi = on->scrub_hi ? LLVMBuildSub(l->b, on->hi_most, j, "") : NULL;
    for (int p = 0; p < on->o.nproducts; p++) {
        const MmaFactor *f = &on->o.product[p].b;
        copy(on, f, &on->t.v[p], of_block(on, f, &on->from_v[p], i),
             on_buffer(on, &on->t.v[p], stage), lo, hi, whole_tiles(on, f, on->o.j, on->t.j));
    }
}

/* What block i needs, if there is such a block. */
static void copy_block(On *on, enum OnBar what, Val i, Val stage) {
    Lower *l = on->l;
    LLVMBasicBlockRef some = block_new(l, "copy"), after = block_new(l, "copied");
    LLVMBuildCondBr(l->b, LLVMBuildICmp(l->b, LLVMIntSGE, i, on->first, ""), some, after);
    block_enter(l, some);
    (what == BAR_K ? copy_scores : copy_products)(on, i, stage);
    LLVMBuildBr(l->b, after);
    block_enter(l, after);
}

static Val before(On *on, Val i, int n) {
    return LLVMBuildSub(on->l->b, i, i32c(on->l, n), "");
}

Val on_copy_before(On *on, Val stage) {
    Lower *l = on->l;
    Val none = LLVMBuildICmp(l->b, LLVMIntEQ, stage, i32c(l, 0), "");
    return LLVMBuildSelect(l->b, none, i32c(l, on->t.stages - 1), before(on, stage, 1), "");
}

/* Until all but the last n groups are there, of all threads. */
static void wait_and_meet(On *on, int n) {
    ptx_copy_wait(on->l, n);
    ptx_barrier(on->l);
}

/* ---- a tile ---- */

static void copy_rows(On *on) {
    Lower *l = on->l;
    AxisState was = l->axis[on->o.rows];
    wg_open_one(&on->w, on->o.rows, on->row0);
    for (int k = 0; k < on->o.nscores; k++) {
        const MmaFactor *f = &on->o.score[k].a;
        wg_open_one(&on->w, on->o.score[k].k, i64c(l, 0));
        copy(on, f, &on->t.q[k], from_open(on, f), on_buffer(on, &on->t.q[k], i32c(l, 0)), NULL,
             NULL, whole_tiles(on, f, on->o.rows, on->t.out.m));
    }
    l->axis[on->o.rows] = was;
}

/* Where blocks of the open tile come from. */
static void open_blocks(On *on) {
    Lower *l = on->l;
    wg_open_one(&on->w, on->o.j, i64c(l, 0));
    if (on->o.cols >= 0) wg_open_one(&on->w, on->o.cols, i64c(l, 0));
    for (int k = 0; k < on->o.nscores; k++) {
        wg_open_one(&on->w, on->o.score[k].k, i64c(l, 0));
        on->from_k[k] = from_open(on, &on->o.score[k].b);
    }
    for (int p = 0; p < on->o.nproducts; p++) on->from_v[p] = from_open(on, &on->o.product[p].b);
    for (int k = 0; k < on->o.nscores; k++) l->axis[on->o.score[k].k].open = false;
    if (on->o.cols >= 0) l->axis[on->o.cols].open = false;
    l->axis[on->o.j].open = false;
}

/* The first barrier: all have read what the tile before left. */
void on_copy_begin(On *on) {
    Lower *l = on->l;
    int last = on->t.stages - on->t.late;
    open_blocks(on);
    ptx_barrier(l);
    if (on->t.late) tell_all(on);
    on->copies_later = false;
    copy_rows(on);
    for (int n = 0; n < last; n++) {
        if (on->t.late && n) copy_block(on, BAR_V, before(on, on->end, n), i32c(l, n - 1));
        copy_block(on, BAR_K, before(on, on->end, n + 1), i32c(l, n));
        ptx_copy_commit(l);
        if (on->t.late || n + 1 == last) continue;
        copy_block(on, BAR_V, before(on, on->end, n + 1), i32c(l, n));
        ptx_copy_commit(l);
    }
    on->copies_later = on->t.late;
}

/* Late: one group a block. */
void on_copy_scores(On *on, Val i, const OnState *s) {
    int n = on->t.stages;
    Val stage = on_copy_before(on, s->k.stage);
    wait_and_meet(on, on->t.late ? n - 2 : 2 * (n - 1));
    if (on->t.late) {
        copy_block(on, BAR_K, before(on, i, n - 1), stage);
        stage = on_copy_before(on, stage);
    }
    copy_block(on, BAR_V, before(on, i, on->t.late ? n - 2 : n - 1), stage);
    ptx_copy_commit(on->l);
}

void on_copy_products(On *on, Val i, const OnState *s) {
    wait_and_meet(on, 2 * (on->t.stages - 1));
    copy_block(on, BAR_K, before(on, i, on->t.stages), s->k.stage);
    ptx_copy_commit(on->l);
}

void on_copy_last(On *on) {
    wait_and_meet(on, 0);
}
