/* wgmma_reduce_rows.c - reductions of a block of rows, alone or together with a block of columns.
 *
 * Rows alone, of one part of the columns after the other. A thread joins the rows that it holds of
 * a column. Eight threads of a warp have rows of the same columns: they join them by butterflies
 * over 16, 8 and 4 lanes, in which each gives away one half of its columns as long as it has more
 * than one. What a warp has goes to shared memory; the group meets; a thread for each column joins
 * the four warps' in their order, and does what follows.
 *
 * Rows and columns. A thread joins what it has of every 8 columns, one after the other; at the end
 * of the block all lanes join theirs by butterflies, and the four warps through shared memory; one
 * thread does what follows.
 *
 * A line of shared memory is of one carry, one block of rows and one warp. It is written again when
 * the group has met once more.
 */
#include "backend/nvptx/wgmma_reduce_int.h"

enum { WARPS = 4 };

static int blocks_held(const Wg *w) {
    return w->t.group_rows / mma_block_rows(&w->m, &w->t);
}

static int bytes_of(const TCarry *y) {
    return dtype_value(y->type) == DT_i64 ? 8 : 4;
}

/* Where the lines of a carry and a block begin, i32, and how long they are. */
static Val lines_at(Wg *w, int c, int block, int *line) {
    Lower *l = w->l;
    int at = 0;
    for (int i = 0; i < c; i++)
        at += bytes_of(reduce_carry(w, i)) * w->t.reduce_cols * WARPS * blocks_held(w);
    *line = bytes_of(reduce_carry(w, c)) * w->t.reduce_cols;
    Val base =
        LLVMBuildAdd(l->b, w->smem, i32c(l, w->t.reduce_at + at + block * WARPS * *line), "");
    return wg_at_stage(w, base, w->group, w->t.reduce_bytes);
}

static Val warp_of(Wg *w) {
    Lower *l = w->l;
    return LLVMBuildAnd(l->b, LLVMBuildLShr(l->b, w->tid, i32c(l, 5), ""), i32c(l, WARPS - 1), "");
}

static void put(Wg *w, const TCarry *y, Val to, Val v) {
    Lower *l = w->l;
    int bytes = bytes_of(y);
    ptx_store_shared(l, bytes, to, LLVMBuildBitCast(l->b, v, bytes == 8 ? l->i64 : l->i32, ""));
}

/* Of the four warps, in their order, at `by` bytes of their lines. */
static Val join_warps(Wg *w, int c, int block, Val by) {
    Lower *l = w->l;
    const TCarry *y = reduce_carry(w, c);
    int line;
    Val at = LLVMBuildAdd(l->b, lines_at(w, c, block, &line), by, ""), all = NULL;
    for (int k = 0; k < WARPS; k++) {
        Val v = ptx_load_shared(l, bytes_of(y), LLVMBuildAdd(l->b, at, i32c(l, k * line), ""));
        v = LLVMBuildBitCast(l->b, v, reg_type(l, y->type), "");
        all = k ? reduce_join(w, y, all, v) : v;
    }
    return all;
}

/* The number of a block of the group's rows, from row on; whether there is one. */
static Val open_rows_number(Wg *w, Val row, int block) {
    Lower *l = w->l;
    const MmaBlock *b = &w->m.row_block;
    if (b->number < 0) return LLVMBuildICmp(l->b, LLVMIntEQ, row, LLVMConstInt(l->i64, 0, 0), "");
    Val at = LLVMBuildUDiv(l->b, row, LLVMConstInt(l->i64, (unsigned)b->size, 0), "");
    at = LLVMBuildAdd(l->b, at, LLVMConstInt(l->i64, (unsigned)block, 0), "");
    return reduce_open_number(w, b, at);
}

static void close_number(Wg *w, const MmaBlock *b) {
    if (b->size && b->number >= 0) w->l->axis[b->number].open = false;
}

static void set_value(Wg *w, int c, Val v) {
    w->l->value[reduce_carry(w, c)->id] = frag_one(w->l, v);
}

static void rest(Wg *w, void *ctx) {
    (void)ctx;
    const TBlock *b = &w->l->t->body;
    for (int k = 0; k < w->m.nest.before && !reduces_cols(w); k++)
        if (w->reduce->again[k]) emit_inst(w->l, b->inst.v[k]);
    reduce_emit_rest(w);
}

/* ---- rows alone ------------------------------------------------------------------------------ */

void reduce_rows_begin_part(Wg *w) {
    wg_meet(w); /* who reads what the last part left is done */
}

/* What a thread still has of columns: v[i] is the (first + i)-th that it held. */
typedef struct Few {
    Val *v, first;
    int n;
    int same; /* bits of lanes that have the same */
} Few;

static Few join_lanes(Wg *w, const TCarry *y, Val *v, int n) {
    Lower *l = w->l;
    Few f = {v, i32c(l, 0), n, 0};
    for (int d = 16; d >= 4; d /= 2) {
        int half = f.n / 2;
        Val bit = LLVMBuildAnd(l->b, w->tid, i32c(l, d), "");
        Val upper = LLVMBuildICmp(l->b, LLVMIntNE, bit, i32c(l, 0), "");
        if (!half) {
            v[0] = reduce_join(w, y, v[0], ptx_shfl_xor(l, v[0], d));
            f.same |= d;
            continue;
        }
        for (int i = 0; i < half; i++) {
            Val keep = LLVMBuildSelect(l->b, upper, v[half + i], v[i], "");
            Val give = LLVMBuildSelect(l->b, upper, v[i], v[half + i], "");
            v[i] = reduce_join(w, y, keep, ptx_shfl_xor(l, give, d));
        }
        Val by = LLVMBuildSelect(l->b, upper, i32c(l, half), i32c(l, 0), "");
        f.first = LLVMBuildAdd(l->b, f.first, by, "");
        f.n = half;
    }
    return f;
}

typedef struct Put {
    const Few *few;
    const TCarry *y;
    Val line; /* of the warp, i32 */
    int from; /* column of the part */
} Put;

static void put_few(Wg *w, void *ctx) {
    Lower *l = w->l;
    const Put *p = ctx;
    for (int i = 0; i < p->few->n; i++) {
        Val k = LLVMBuildAdd(l->b, p->few->first, i32c(l, i), "");
        Val col = LLVMBuildShl(l->b, LLVMBuildLShr(l->b, k, i32c(l, 1), ""), i32c(l, 3), "");
        col = LLVMBuildAdd(l->b, col, LLVMBuildAnd(l->b, k, i32c(l, 1), ""), "");
        col = LLVMBuildAdd(l->b, col, LLVMBuildAdd(l->b, w->col, i32c(l, p->from), ""), "");
        put(w, p->y, wg_at_stage(w, p->line, col, bytes_of(p->y)), p->few->v[i]);
    }
}

void reduce_rows_take(Wg *w, const TInst *step, int from) {
    Lower *l = w->l;
    int c = reduce_step_carry(w, step), cols = l->axis[w->m.cols].count, line;
    int held = reduce_rows_held(w) / blocks_held(w); /* of a block */
    const TCarry *y = reduce_carry(w, c);
    const Val *all = reduce_elements(w, step);
    for (int b = 0; b < blocks_held(w); b++) {
        Val *v = ARENA_ARRAY(l->arena, Val, cols);
        for (int at = 0; at < cols; at++)
            for (int r = 0; r < held; r++) {
                Val x = all[(b * held + r) * cols + at];
                v[at] = r ? reduce_join(w, y, v[at], x) : x;
            }
        Few f = join_lanes(w, y, v, cols);
        Val lines = lines_at(w, c, b, &line);
        Put p = {&f, y, wg_at_stage(w, lines, warp_of(w), line), from};
        Val same = LLVMBuildAnd(l->b, w->tid, i32c(l, f.same), "");
        if (f.same)
            wg_reduce_branch(w, LLVMBuildICmp(l->b, LLVMIntEQ, same, i32c(l, 0), ""), put_few, &p);
        else
            put_few(w, &p);
    }
}

void reduce_rows_part(Wg *w, Val row, Val col, int cols) {
    Lower *l = w->l;
    AxisState rows = l->axis[w->m.rows];
    wg_meet(w);
    Val t = LLVMBuildAnd(l->b, w->tid, i32c(l, 127), "");
    Val there = LLVMBuildICmp(l->b, LLVMIntULT, t, i32c(l, cols), "");
    t = LLVMBuildSelect(l->b, there, t, i32c(l, 0), "");
    Val at = LLVMBuildAdd(l->b, col, LLVMBuildZExt(l->b, t, l->i64, ""), "");
    Val n = uniform_ix(l, l->t->axes.v[w->m.cols].extent);
    there = LLVMBuildAnd(l->b, there, LLVMBuildICmp(l->b, LLVMIntSLT, at, n, ""), "");
    l->axis[w->m.rows].open = false;
    wg_open_one(w, w->m.cols, at);
    for (int b = 0; b < blocks_held(w); b++) {
        for (int c = 0; c < reduce_loop(w)->carries.n; c++) {
            Val by = LLVMBuildMul(l->b, t, i32c(l, bytes_of(reduce_carry(w, c))), "");
            set_value(w, c, join_warps(w, c, b, by));
        }
        Val is = LLVMBuildAnd(l->b, there, open_rows_number(w, row, b), "");
        wg_reduce_branch(w, is, rest, NULL);
    }
    close_number(w, &w->m.row_block);
    l->axis[w->m.cols].open = false;
    l->axis[w->m.rows] = rows;
}

/* ---- rows and columns ------------------------------------------------------------------------ */

void reduce_both_take(Wg *w, const TInst *step) {
    Lower *l = w->l;
    int c = reduce_step_carry(w, step), cols = l->axis[w->m.cols].count;
    int held = reduce_rows_held(w) / blocks_held(w);
    const TCarry *y = reduce_carry(w, c);
    const Val *all = reduce_elements(w, step);
    for (int b = 0; b < blocks_held(w); b++) {
        Val slot = w->reduce->slot[c][b],
            sum = LLVMBuildLoad2(l->b, reg_type(l, y->type), slot, "");
        for (int at = 0; at < cols; at += 2)
            for (int r = 0; r < held; r += 2) {
                const Val *v = &all[(b * held + r) * cols + at];
                Val one = reduce_join(w, y, v[0], v[1]);
                sum = reduce_join(w, y, sum,
                                  reduce_join(w, y, one, reduce_join(w, y, v[cols], v[cols + 1])));
            }
        LLVMBuildStore(l->b, sum, slot);
    }
}

static void put_warps(Wg *w, void *ctx) {
    Val *const *v = ctx;
    for (int c = 0; c < reduce_loop(w)->carries.n; c++)
        for (int b = 0; b < blocks_held(w); b++) {
            int line;
            Val lines = lines_at(w, c, b, &line);
            put(w, reduce_carry(w, c), wg_at_stage(w, lines, warp_of(w), line), v[c][b]);
        }
}

void reduce_both_block(Wg *w, Val row, Val end) {
    Lower *l = w->l;
    int carries = reduce_loop(w)->carries.n;
    Val **v = ARENA_ARRAY(l->arena, Val *, carries);
    for (int c = 0; c < carries; c++) {
        const TCarry *y = reduce_carry(w, c);
        v[c] = ARENA_ARRAY(l->arena, Val, blocks_held(w));
        for (int b = 0; b < blocks_held(w); b++) {
            v[c][b] = LLVMBuildLoad2(l->b, reg_type(l, y->type), w->reduce->slot[c][b], "");
            for (int d = 1; d < 32; d *= 2)
                v[c][b] = reduce_join(w, y, v[c][b], ptx_shfl_xor(l, v[c][b], d));
        }
    }
    wg_meet(w);
    wg_reduce_branch(w, w->lane0, put_warps, v);
    wg_meet(w);
    AxisState rows = l->axis[w->m.rows];
    l->axis[w->m.rows].open = false;
    const MmaBlock *b = &w->m.col_block;
    Val mine = w->leader;
    if (b->number >= 0) {
        Val size = LLVMConstInt(l->i64, (unsigned)b->size, 0), one = LLVMConstInt(l->i64, 1, 0);
        Val at = LLVMBuildSub(l->b, LLVMBuildUDiv(l->b, end, size, ""), one, "");
        mine = LLVMBuildAnd(l->b, mine, reduce_open_number(w, b, at), "");
    }
    for (int k = 0; k < blocks_held(w); k++) {
        for (int c = 0; c < carries; c++) set_value(w, c, join_warps(w, c, k, i32c(l, 0)));
        wg_reduce_branch(w, LLVMBuildAnd(l->b, mine, open_rows_number(w, row, k), ""), rest, NULL);
    }
    close_number(w, b);
    close_number(w, &w->m.row_block);
    l->axis[w->m.rows] = rows;
}
