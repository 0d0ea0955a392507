/* online_merge.c - the parts of a tile, merged by the group that was the last to write one.
 *
 * A unit, of a warp, is 4 rows by a few times 32 columns: a thread has one row, and of each 32
 * columns 4 neighbours, which it loads at once of as many parts as it has registers for. The frames
 * of those parts and of the parts before are joined, and all sums are moved there (tile.h: parts of
 * a loop). A part's frame that nothing has moved leaves its sums as they are.
 *
 * It takes as long as memory answers, so many times: where rows are few, all warps have one unit,
 * and many parts at once; where they are not, units are wide.
 */
#include "backend/nvptx/online_split_int.h"

#include <string.h>

enum {
    ROWS = 4, /* of a unit */
    COLS = 32,
    NEXT = 4,           /* neighbours of a thread, of COLS columns */
    WIDE = 4,           /* times COLS, at most */
    EACH = NEXT * WIDE, /* columns of a thread, at most */
    REGS = 144,         /* of parts that are loaded together */
    MANY = 16,          /* of those parts, at most: where rows are few; */
    SOME = 8,           /* where they may be few; */
    FEW = 4             /* where they are not, and parts are not many either */
};

static Val from_words(On *on, const OnSlot *x, const Val *word) {
    Lower *l = on->l;
    DType type = on->o.row[x->row].c->type;
    if (x->what == REF || (x->what == VALUE && type == DT_f32)) return word[x->at];
    Val lo = LLVMBuildBitCast(l->b, word[x->at], l->i32, "");
    if (x->what == ANY) return LLVMBuildICmp(l->b, LLVMIntNE, lo, i32c(l, 0), "");
    if (type == DT_i32) return lo;
    Val hi = LLVMBuildBitCast(l->b, word[x->at + 1], l->i32, "");
    hi = LLVMBuildShl(l->b, LLVMBuildZExt(l->b, hi, l->i64, ""), LLVMConstInt(l->i64, 32, 0), "");
    return LLVMBuildOr(l->b, LLVMBuildZExt(l->b, lo, l->i64, ""), hi, "");
}

/* What a thread has of a part. */
typedef struct Piece {
    Val in; /* i1: there is such a part */
    OnState s;
    Val sum[ONLINE_PRODUCTS][EACH];
} Piece;

/* Where a thread's share of a unit begins in a part: i64. */
typedef struct Place {
    Val first; /* part 0 */
    Val sums[WIDE], record;
} Place;

/* Registers that a thread's share of a part takes where units are so wide. */
static int piece_regs(const On *on, int wide) {
    return NEXT * wide * on->o.nproducts + on_record(on).words;
}

/* How wide a unit is, times COLS. */
static int wide(const On *on) {
    int all = on->o.cols < 0 ? 1 : (on->t.out.n + COLS - 1) / COLS, n = all < WIDE ? all : WIDE;
    if (on_part_rows(on) < 64) return 1;
    while (n > 1 && REGS / piece_regs(on, n) < FEW) n--;
    return n;
}

static int columns(const On *on) { /* of a thread */
    return NEXT * wide(on);
}

static int together(const On *on) {
    int n = REGS / piece_regs(on, wide(on));
    int most = on_part_rows(on) < 64 ? MANY : on->t.out.groups == 1 ? SOME : FEW;
    return n < 1 ? 1 : n > most ? most : n;
}

static void load_piece(On *on, const Place *at, Val part, Piece *x) {
    Lower *l = on->l;
    OnRecord rec = on_record(on);
    Val from = on_ahead(l, at->first, on_times(l, part, on_part_bytes(on))), word[ON_WORDS];
    Val record = on_ahead(l, from, at->record);
    for (int k = 0; k < rec.words; k += ON_FLOATS) ptx_load_floats(l, record, 4 * k, word + k);
    for (int w = 0; w < wide(on); w++) {
        Val sums = on_ahead(l, from, at->sums[w]);
        for (int p = 0; p < on->o.nproducts; p++)
            ptx_load_floats(l, sums, p * on_part_rows(on) * 4 * on->t.out.n, x->sum[p] + NEXT * w);
    }
    for (int k = 0; k < rec.slots; k++)
        *on_slot(&rec.slot[k], &x->s, 0) = from_words(on, &rec.slot[k], word);
}

static Val or_none(On *on, const Piece *x, Val v, const TCarry *c) {
    return LLVMBuildSelect(on->l->b, x->in, v, identity(on->l, c->red, c->type), "");
}

/* The frame that a state's followers are in; identity: in none yet. */
static Val frame_of(On *on, const OnState *s, int f) {
    return on->lags ? s->ref[f][0] : s->row[f][0];
}

/* What moves c from the frame of s to that of `to`; NULL: it has none. */
static Val factor(On *on, const TCarry *c, const OnState *s, const OnState *to) {
    if (c->frame < 0) return NULL;
    int f = on_row_of(on, c->frame);
    Val frame = on_usable(on, on->o.row[f].c, to->row[f][0]);
    return on_rescale(on, c, frame_of(on, s, f), frame, 0);
}

static Val times(On *on, Val v, Val by) {
    return by ? LLVMBuildFMul(on->l->b, v, by, "") : v;
}

static void merge_row(On *on, int k, const OnState *old, const Piece *x, int n, OnState *s) {
    const TCarry *c = on->o.row[k].c;
    s->row[k][0] = times(on, old->row[k][0], factor(on, c, old, s));
    for (int i = 0; i < n; i++) {
        Val v = times(on, x[i].s.row[k][0], factor(on, c, &x[i].s, s));
        s->row[k][0] = on_join(on, c, s->row[k][0], or_none(on, &x[i], v, c));
        if (!on_tracks(on, k)) continue;
        Val any = LLVMBuildAnd(on->l->b, x[i].in, x[i].s.any[k][0], "");
        s->any[k][0] = LLVMBuildOr(on->l->b, s->any[k][0], any, "");
    }
}

static void merge_sums(On *on, int p, const OnState *old, const Piece *x, int n, OnState *s) {
    Lower *l = on->l;
    const TCarry *c = on->o.product[p].c;
    Val before = factor(on, c, old, s), by[MANY];
    for (int i = 0; i < n; i++) by[i] = factor(on, c, &x[i].s, s);
    for (int e = 0; e < columns(on); e++) {
        Val sum = times(on, old->acc[p][e], before);
        for (int i = 0; i < n; i++) {
            Val v = or_none(on, &x[i], times(on, x[i].sum[p][e], by[i]), c);
            sum = LLVMBuildFAdd(l->b, sum, v, "");
        }
        s->acc[p][e] = sum;
    }
}

/* Joins n parts, in order, to s. */
static void merge_pieces(On *on, const Piece *x, int n, OnState *s) {
    OnState old = *s;
    for (int p = 0; p < on->o.nproducts; p++) s->acc[p] = ARENA_ARRAY(on->l->arena, Val, EACH);
    for (int k = 0; k < on->o.nrows; k++)
        if (on->o.row[k].c->frame < 0) merge_row(on, k, &old, x, n, s);
    for (int k = 0; k < on->o.nrows; k++)
        if (on->o.row[k].c->frame >= 0) merge_row(on, k, &old, x, n, s);
    for (int p = 0; p < on->o.nproducts; p++) merge_sums(on, p, &old, x, n, s);
    for (int k = 0; k < on->o.nrows; k++) s->ref[k][0] = s->row[k][0]; /* of frames */
}

static int state_list(const On *on, OnState *s, Val **v) {
    int n = 0;
    for (int k = 0; k < on->o.nrows; k++) {
        v[n++] = &s->row[k][0], v[n++] = &s->any[k][0];
        if (on_is_frame(on, k)) v[n++] = &s->ref[k][0];
    }
    for (int p = 0; p < on->o.nproducts; p++)
        for (int e = 0; e < columns(on); e++) v[n++] = &s->acc[p][e];
    return n;
}

/* for (part = 0; part < parts; part += n) n parts */
static OnState merge_all(On *on, const OnWork *k, const Place *at) {
    Lower *l = on->l;
    int n = together(on);
    OnState s = {0};
    on_rows_init(on, &s);
    for (int p = 0; p < on->o.nproducts; p++) {
        s.acc[p] = ARENA_ARRAY(l->arena, Val, EACH);
        for (int e = 0; e < columns(on); e++) s.acc[p][e] = const_real(l, 0);
    }
    Val *list[3 * ONLINE_ROWS + EACH * ONLINE_PRODUCTS], *phi[sizeof list / sizeof *list];
    int values = state_list(on, &s, list);
    LLVMBasicBlockRef before = LLVMGetInsertBlock(l->b), body = block_new(l, "merge");
    LLVMBasicBlockRef exit = block_new(l, "merged");
    LLVMBuildBr(l->b, body);
    block_enter(l, body);
    Val part = wg_phi(l, l->i32, i32c(l, 0), before), last = NULL;
    for (int i = 0; i < values; i++) {
        phi[i] = ARENA_NEW(l->arena, Val);
        *phi[i] = *list[i] = wg_phi(l, LLVMTypeOf(*list[i]), *list[i], before);
    }
    Piece *x = ARENA_ARRAY(l->arena, Piece, n);
    last = LLVMBuildSub(l->b, k->parts, i32c(l, 1), "");
    for (int i = 0; i < n; i++) {
        Val it = LLVMBuildAdd(l->b, part, i32c(l, i), "");
        x[i].in = LLVMBuildICmp(l->b, LLVMIntULE, it, last, "");
        load_piece(on, at, LLVMBuildSelect(l->b, x[i].in, it, last, ""), &x[i]);
    }
    merge_pieces(on, x, n, &s);
    Val next = LLVMBuildAdd(l->b, part, i32c(l, n), "");
    wg_phi_next(l, part, next);
    state_list(on, &s, list);
    for (int i = 0; i < values; i++) wg_phi_next(l, *phi[i], *list[i]);
    LLVMBuildCondBr(l->b, LLVMBuildICmp(l->b, LLVMIntULT, next, k->parts, ""), body, exit);
    block_enter(l, exit);
    for (int i = 0; i < on->o.nrows; i++)
        s.row[i][1] = s.row[i][0], s.ref[i][1] = s.ref[i][0], s.any[i][1] = s.any[i][0];
    return s;
}

/* ---- a unit ---- */

/* n elements from `first` on, as a thread has columns; whole: all are there. */
static void open_axis(On *on, int axis, Val first, int n, bool whole) {
    Lower *l = on->l;
    int64_t *step = ARENA_ARRAY(l->arena, int64_t, n);
    for (int i = 0; i < n; i++) step[i] = i / NEXT * COLS + i % NEXT;
    AxisState s = {.open = true, .count = n, .raw = true, .pairs = n > 1, .step = step};
    s.e = ARENA_ARRAY(l->arena, Val, n);
    s.in = ARENA_ARRAY(l->arena, Val, n);
    Val end = uniform_ix(l, l->t->axes.v[axis].extent);
    for (int i = 0; i < n; i++) {
        s.e[i] = LLVMBuildAdd(l->b, first, LLVMConstInt(l->i64, (uint64_t)step[i], 0), "");
        if (!whole) s.in[i] = LLVMBuildICmp(l->b, LLVMIntSLT, s.e[i], end, "");
    }
    l->axis[axis] = s;
}

static void emit_columns(On *on, const OnState *s) {
    Lower *l = on->l;
    int64_t n;
    if (on->o.cols < 0) return;
    const Ix *extent = l->t->axes.v[on->o.cols].extent;
    bool whole = ix_is_const(extent, &n) && n == on->t.out.n && n % (COLS * wide(on)) == 0;
    open_axis(on, on->o.cols, LLVMBuildZExt(l->b, on->w.col, l->i64, ""), columns(on), whole);
    for (int p = 0; p < on->o.nproducts; p++) {
        Frag f = frag_new(l, axis_bit(on->o.cols));
        for (int e = 0; e < f.n; e++) f.v[e] = s->acc[p][e];
        l->value[on->o.product[p].c->id] = f;
    }
    on_after_columns(on);
    l->axis[on->o.cols].open = false;
}

/* Where in a product's sums of a part the thread's w-th 4 columns are; those that no row has read
 * the last. */
static Val sums_at(On *on, Val row, int w) {
    Lower *l = on->l;
    Val col = LLVMBuildAdd(l->b, on->w.col, i32c(l, w * COLS), "");
    Val last = i32c(l, on->t.out.n - NEXT);
    Val is = LLVMBuildICmp(l->b, LLVMIntSLE, col, last, "");
    col = LLVMBuildSelect(l->b, is, col, last, "");
    return LLVMBuildAdd(l->b, on_times(l, row, 4 * on->t.out.n), on_times(l, col, 4), "");
}

/* rows: i32, that the group has. */
static void unit(On *on, const OnWork *k, Val first, Val rows, Val row0, Val col0) {
    Lower *l = on->l;
    Val lane = LLVMBuildAnd(l->b, on->w.tid, i32c(l, 31), "");
    on->w.row = LLVMBuildAdd(l->b, row0, LLVMBuildLShr(l->b, lane, i32c(l, 3), ""), "");
    Val col = LLVMBuildMul(l->b, LLVMBuildAnd(l->b, lane, i32c(l, 7), ""), i32c(l, NEXT), "");
    on->w.col = LLVMBuildAdd(l->b, col0, col, "");
    Val is = LLVMBuildICmp(l->b, LLVMIntSLT, on->w.row, rows, "");
    Val row = LLVMBuildSub(l->b, rows, i32c(l, 1), "");
    row = LLVMBuildSelect(l->b, is, on->w.row, row, "");
    Place at = {.first = first};
    for (int w = 0; w < wide(on); w++) at.sums[w] = sums_at(on, row, w);
    Val records = LLVMConstInt(l->i64, (uint64_t)(on_part_rows(on) * 4 * on_part_sums(on)), 0);
    at.record = LLVMBuildAdd(l->b, on_times(l, row, 4 * on_record(on).words), records, "");
    memset(l->value, 0, sizeof *l->value * (size_t)(l->t->nvalues + 1));
    open_axis(on, on->o.rows, on_row_at(on), 1, false);
    on_before(on, true);
    OnState s = merge_all(on, k, &at);
    on_after_rows(on, &s, columns(on));
    emit_columns(on, &s);
}

/* for (unit = warp; unit < units; unit += 4); of a row of units those of its columns first */
void on_merge(On *on, const OnWork *k) {
    Lower *l = on->l;
    LLVMBuilderRef b = l->b;
    int cols = COLS * wide(on), across = on->o.cols < 0 ? 1 : (on->t.out.n + cols - 1) / cols;
    Val rows = on_rows_left(on), warp = LLVMBuildLShr(b, on->w.tid, i32c(l, 5), "");
    warp = ptx_shfl_first(l, LLVMBuildAnd(b, warp, i32c(l, 3), ""));
    Val down = LLVMBuildAdd(b, rows, i32c(l, ROWS - 1), "");
    down = LLVMBuildLShr(b, down, i32c(l, 2), "");
    Val n = LLVMBuildMul(b, down, i32c(l, across), ""), first = on_first_part(on, k);
    LLVMBasicBlockRef before = LLVMGetInsertBlock(b), head = block_new(l, "units");
    LLVMBasicBlockRef body = block_new(l, "unit"), exit = block_new(l, "all.units");
    LLVMBuildBr(b, head);
    block_enter(l, head);
    Val u = wg_phi(l, l->i32, warp, before);
    LLVMBuildCondBr(b, LLVMBuildICmp(b, LLVMIntULT, u, n, ""), body, exit);
    block_enter(l, body);
    Val r = LLVMBuildUDiv(b, u, i32c(l, across), "");
    Val c = LLVMBuildSub(b, u, LLVMBuildMul(b, r, i32c(l, across), ""), "");
    unit(on, k, first, rows, LLVMBuildMul(b, r, i32c(l, ROWS), ""),
         LLVMBuildMul(b, c, i32c(l, cols), ""));
    wg_phi_next(l, u, LLVMBuildAdd(b, u, i32c(l, 4), ""));
    LLVMBuildBr(b, head);
    block_enter(l, exit);
}
