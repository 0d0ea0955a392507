/* wgmma_out.c - all that follows the loop, on the accumulator where it lies: by parts of its
 * columns, so that what is computed for one part dies before the next; in line, or for long code in
 * a loop. */
#include "backend/nvptx/frame_int.h"
#include "backend/nvptx/wgmma_int.h"

/* A store of columns need not name theirs if there is one (ir/mma.h). */
static bool over_cols(const Wg *w, const TInst *i) {
    int64_t cols;
    if (i->kind != T_STORE) return i->id >= 0 && (w->l->deps[i->id] >> w->m.cols & 1);
    for (int d = 0; d < i->nix; d++)
        if (ix_uses_axis(i->ix[d], w->m.cols)) return true;
    return ix_is_const(w->l->t->axes.v[w->m.cols].extent, &cols) && cols == 1;
}

/* What is the same along columns, beside the loop. */
void wg_emit_rows(Wg *w) {
    const TBlock *b = &w->l->t->body;
    for (int k = 0; k < w->m.nest.rest; k++)
        if (wg_inst_is_for(w, k) && b->inst.v[k]->kind != T_LOOP && !over_cols(w, b->inst.v[k]) &&
            !wg_reduce_framed(w, k))
            emit_inst(w->l, b->inst.v[k]);
}

Acc wg_no_sums(Wg *w, int cols, int regs) {
    w->m.sums = 0;
    return (Acc){0, ARENA_ARRAY(w->l->arena, Val, MMA_SUMS * regs), cols, cols / 2, regs};
}

void wg_add_sum(Wg *w, Acc *acc, int carry, const Val *v) {
    w->m.carry[w->m.sums++] = carry;
    for (int i = 0; i < acc->next; i++) acc->v[acc->n++] = v[i];
}

/* Columns in eights, which a thread has two of each, of which it is turned: those `by` further, of
 * `size`. */
typedef struct Turn {
    int by, size;
} Turn;

/* Registers of a sum, at the open rows and columns, which begin at column `from`. */
static Frag part_of(Wg *w, const Acc *acc, const Val *v, int from, Turn turn) {
    Lower *l = w->l;
    Frag f = frag_new(l, axis_bit(w->m.rows) | axis_bit(w->m.cols));
    for (int i = 0; i < f.n; i++) {
        int r = frag_coord(l, f.mask, i, w->m.rows);
        int c = frag_coord(l, f.mask, i, w->m.cols) + from / 4;
        int at = c / 2, in = at % turn.size;
        at += (in + turn.by) % turn.size - in;
        f.v[i] = v[r / 2 * acc->line + at * 4 + r % 2 * 2 + c % 2];
    }
    return f;
}

/* Where a tile is of one product, the accumulator is. */
static const Val *sum_at(const Wg *w, const Acc *acc, int n) {
    return w->of ? acc->v : acc->v + n * acc->next;
}

/* As other values than those of the sum. Else what is made of an element (rounded to a type) would
 * be made once, where it is needed first, and kept until it is needed where the element itself is:
 * registers of its own, since those of an accumulator are free only when all are. */
static Frag apart(Wg *w, Frag f) {
    Lower *l = w->l;
    Val zero = ptx_zero(l);
    for (int i = 0; i < f.n; i++) {
        Val bits = LLVMBuildBitCast(l->b, f.v[i], l->i32, "");
        f.v[i] = LLVMBuildBitCast(l->b, LLVMBuildOr(l->b, bits, zero, ""), l->f32, "");
    }
    return f;
}

/* The part of each sum at the open rows and columns, which begin at column `from`. */
static void show_acc(Wg *w, const Acc *acc, int from) {
    for (int n = 0; n < w->m.sums; n++)
        if (wg_is_for(w, 1u << n))
            w->l->value[w->m.carry[n]] = part_of(w, acc, sum_at(w, acc, n), from, (Turn){0, 1});
    for (int n = 0; n < w->m.turns; n++) {
        const MmaTurn *x = &w->m.turn[n];
        if (wg_is_for(w, 1u << x->sum))
            w->l->value[x->carry] = apart(
                w, part_of(w, acc, sum_at(w, acc, x->sum), from, (Turn){x->by / 8, x->size / 8}));
    }
}

enum { FRAME_COLS = 32 };

/* Columns worked on together after the loop: about 16 elements a thread (fewer where several
 * matrices are read), so that what is computed for one column part dies before the next. Frames
 * move as often in all tiles, for the bits to be the same. */
static int slab_cols(const Wg *w) {
    if (wg_reduce_frames(w)) return FRAME_COLS;
    int blocks = w->t.group_rows / w->t.block_rows, cols = blocks == 1 ? 32 : blocks == 2 ? 16 : 8;
    bool tight = w->t.nbrought > 2 || (w->t.nbrought && w->m.turns); /* sums stay where they are */
    return tight && cols > 8 ? cols / 2 : cols;
}

/* What is done at the open columns, in_chunk of the chunk of staged stores, and reduced of it. */
static void emit_cols(Wg *w, int in_chunk, bool framed) {
    const TBlock *b = &w->l->t->body;
    for (int k = 0; k < w->m.nest.rest; k++) {
        const TInst *i = b->inst.v[k];
        if (!wg_inst_is_for(w, k) || wg_reduce_framed(w, k) != framed) continue;
        if (i->kind == T_LOOP || (!framed && !over_cols(w, i))) continue;
        const MmaStaged *store = !w->direct && i->kind == T_STORE ? wg_staged(w, i) : NULL;
        const MmaStaged *load = i->kind == T_LOAD ? wg_brought(w, i) : NULL;
        if (store)
            wg_hold(w, store, in_chunk);
        else if (load)
            wg_read(w, load, in_chunk);
        else if (!framed || !exponential_emit(w->l, i, w->m.cols, NULL))
            emit_inst(w->l, i);
    }
    wg_reduce_take(w, in_chunk, framed);
}

/* n columns from col0: `from` of the accumulator. */
static void one_slab(Wg *w, const Acc *acc, int from, Val col0, int n, int in_chunk) {
    wg_open_cols(w, col0, n);
    show_acc(w, acc, from);
    emit_cols(w, in_chunk, false);
    if (wg_reduce_frames(w)) emit_cols(w, in_chunk, true);
    w->l->axis[w->m.cols].open = false;
}

void wg_emit_chunk(Wg *w, const Acc *acc, Val col) {
    w->direct = true;
    one_slab(w, acc, 0, col, acc->cols, 0);
    w->direct = false;
}

/* Columns and all that is done for them: a chunk of the staged stores, where there are any. */
typedef struct Part {
    int from, cols; /* of the accumulator as it lies now */
    Val row, col;   /* i64: where it begins */
    Val done;       /* i32: columns of the tile up to its end */
    int slot, pending;
} Part;

static void one_part(Wg *w, const Acc *acc, const Part *p) {
    Lower *l = w->l;
    int step = slab_cols(w);
    if (w->t.carried) wg_slab_take(w);
    wg_reduce_begin_part(w);
    for (int at = 0; at < p->cols; at += step) {
        Val col = LLVMBuildAdd(l->b, p->col, LLVMConstInt(l->i64, (unsigned)at, 0), "");
        one_slab(w, acc, p->from + at, col, p->cols - at < step ? p->cols - at : step, at);
    }
    if (w->t.carried)
        wg_slab_give(w);
    else if (w->t.nstaged)
        wg_flush(w, LLVMBuildTrunc(l->b, p->row, l->i32, ""),
                 LLVMBuildTrunc(l->b, p->col, l->i32, ""), i32c(l, p->slot), p->pending);
    wg_reduce_part(w, p->row, p->col, p->cols, p->done);
}

/* A part's place in the ring is its number in the tile modulo the ring's size. How many of the
 * copies committed last may still go on when it is written: those after its last use, which for
 * the first parts was in the tile before. */
static int pending_of(const Wg *w, int part, int parts) {
    int ring = w->t.ring, last = part;
    if (part >= ring) return ring - 1;
    while (last + ring < parts) last += ring;
    return parts - 1 - last + part;
}

static void parts_in_line(Wg *w, const Acc *acc, Val row, Val col0, int cols) {
    Lower *l = w->l;
    int parts = (w->t.group_cols + cols - 1) / cols;
    for (int i = 0; i < parts; i++) {
        int from = i * cols, left = w->t.group_cols - from;
        Part p = {.from = from, .cols = left < cols ? left : cols, .row = row};
        p.col = LLVMBuildAdd(l->b, col0, LLVMConstInt(l->i64, (unsigned)from, 0), "");
        p.done = i32c(l, from + p.cols);
        if (w->t.nstaged) {
            p.slot = i % w->t.ring;
            p.pending = pending_of(w, i, parts);
        }
        one_part(w, acc, &p);
    }
}

/* Registers cannot be indexed: the first part is worked on, then the accumulator moves up by one.
 * Staged stores use one place of the ring. */
static void parts_in_loop(Wg *w, const Acc *acc, Val row, Val col0, int cols) {
    Lower *l = w->l;
    while (w->t.group_cols % cols) cols /= 2;
    LLVMBasicBlockRef before = LLVMGetInsertBlock(l->b);
    LLVMBasicBlockRef body = block_new(l, "part"), exit = block_new(l, "parts");
    LLVMBuildBr(l->b, body);
    block_enter(l, body);
    Val from = wg_phi(l, l->i32, i32c(l, 0), before);
    Acc now = *acc;
    now.v = ARENA_ARRAY(l->arena, Val, acc->n);
    for (int i = 0; i < acc->n; i++) now.v[i] = wg_phi(l, l->f32, acc->v[i], before);
    Part p = {.cols = cols, .row = row};
    p.col = LLVMBuildAdd(l->b, col0, LLVMBuildZExt(l->b, from, l->i64, ""), "");
    Val next = p.done = LLVMBuildAdd(l->b, from, i32c(l, cols), "");
    one_part(w, &now, &p);
    wg_phi_next(l, from, next);
    int each = w->t.group_cols / 2; /* registers that are neighbours: of 64 rows of a sum */
    for (int i = 0; i < acc->n; i++) {
        bool last = i % each + cols / 2 >= each;
        wg_phi_next(l, now.v[i], last ? now.v[i] : now.v[i + cols / 2]);
    }
    Val more = LLVMBuildICmp(l->b, LLVMIntULT, next, i32c(l, w->t.group_cols), "");
    LLVMBuildCondBr(l->b, more, body, exit);
    block_enter(l, exit);
}

/* So long for one element that a copy for each would be slow to assemble, and to fetch. */
static bool is_heavy(const Wg *w) {
    const TBlock *b = &w->l->t->body;
    for (int k = 0; k < w->m.nest.rest; k++) {
        const TInst *i = b->inst.v[k];
        if (wg_inst_is_for(w, k) && i->kind == T_OP && over_cols(w, i) && op_is_long(w->l, i))
            return true;
    }
    return false;
}

/* All columns there are: without masks, which cost as much as a sum does. */
static void whole_or_not(Wg *w, const Acc *acc, Val row, Val col0, int cols) {
    Lower *l = w->l;
    LLVMBasicBlockRef whole = block_new(l, "inside"), edge = block_new(l, "edge");
    LLVMBasicBlockRef after = block_new(l, "reduced");
    Val end = LLVMBuildAdd(l->b, col0, LLVMConstInt(l->i64, (unsigned)w->t.n, 0), "");
    Val n = uniform_ix(l, l->t->axes.v[w->m.cols].extent);
    LLVMBuildCondBr(l->b, LLVMBuildICmp(l->b, LLVMIntSLE, end, n, ""), whole, edge);
    block_enter(l, whole);
    Map narrow = l->narrow, wide = l->wide; /* what is known in one branch only */
    l->narrow = l->wide = (Map){.arena = l->arena};
    w->inside = true;
    parts_in_line(w, acc, row, col0, cols);
    w->inside = false;
    LLVMBuildBr(l->b, after);
    block_enter(l, edge);
    l->narrow = l->wide = (Map){.arena = l->arena};
    parts_in_loop(w, acc, row, col0, cols);
    LLVMBuildBr(l->b, after);
    block_enter(l, after);
    l->narrow = narrow, l->wide = wide;
}

void wg_emit_out(Wg *w, const Acc *acc, Val row, Val col0) {
    int cols = w->t.chunk ? w->t.chunk : slab_cols(w);
    wg_reduce_begin(w);
    if (is_heavy(w) && !w->m.turns) /* which takes all registers in their places */
        parts_in_loop(w, acc, row, col0, cols);
    else if (wg_reduce_frames(w) && !w->t.chunk)
        whole_or_not(w, acc, row, col0, cols);
    else
        parts_in_line(w, acc, row, col0, cols);
}
