/* online_split.c - parts of a tile's blocks on several CTAs.
 *
 * Which tiles are cut, and into how many parts, is as for products (ir/mma_parts.c): whole tiles
 * first, then the parts of those of the last round. A part is a range of the blocks that its tile
 * has, so a tile of few blocks has short or empty parts, which leave what nothing came to.
 *
 * A group writes what it carries of its 64 rows, as it is after the part's last block, to scratch
 * memory: sums row by row, and of each row a record of what is carried over rows and the frames
 * that it is in. Then it counts itself at the tile's word. The last to arrive has all parts there;
 * it merges them in their order, whoever it is, and does all that follows the loop
 * (online_merge.c). The others go on; nobody waits. It leaves the word as it found it, 0.
 */
#include "backend/nvptx/online_split_int.h"

/* ---- work ---- */

static MmaParts parts_of(const On *on) {
    IxPool *p = on->o.t->ix;
    const Ix *n = ix_add(p, on->o.t->axes.v[on->o.j].extent, ix_const(p, on->t.j - 1));
    const Ix *blocks = ix_div(p, n, ix_const(p, on->t.j));
    return mma_parts(p, on_tiles_all(on), blocks, on->t.out.slots, on->t.out.split);
}

const Ix *on_work_all(const On *on) {
    return on->t.out.split > 1 ? parts_of(on).items : on_tiles_all(on);
}

OnWork on_work(On *on, Val item) {
    Lower *l = on->l;
    LLVMBuilderRef b = l->b;
    OnWork k = {.tile = item};
    if (on->t.out.split == 1) return k;
    MmaParts m = parts_of(on);
    Val whole = uniform32(&on->w, m.whole);
    k.parts = uniform32(&on->w, m.parts);
    k.cut = LLVMBuildICmp(b, LLVMIntUGE, item, whole, "");
    Val at = LLVMBuildSub(b, item, whole, "");
    k.number = LLVMBuildUDiv(b, at, k.parts, "");
    k.part = LLVMBuildSub(b, at, LLVMBuildMul(b, k.number, k.parts, ""), "");
    k.tile = LLVMBuildSelect(b, k.cut, LLVMBuildAdd(b, whole, k.number, ""), item, "");
    return k;
}

/* n blocks in equal parts, of which the first have one more. */
void on_work_blocks(On *on, const OnWork *k) {
    Lower *l = on->l;
    LLVMBuilderRef b = l->b;
    if (!k->cut) return;
    Val n = LLVMBuildSub(b, on->end, on->first, ""), zero = i32c(l, 0);
    Val each = LLVMBuildUDiv(b, n, k->parts, "");
    Val more = LLVMBuildSub(b, n, LLVMBuildMul(b, each, k->parts, ""), "");
    Val has = LLVMBuildICmp(b, LLVMIntULT, k->part, more, "");
    Val before = LLVMBuildSelect(b, has, k->part, more, "");
    Val first = LLVMBuildAdd(b, LLVMBuildMul(b, each, k->part, ""), before, "");
    Val len = LLVMBuildAdd(b, each, LLVMBuildZExt(b, has, l->i32, ""), "");
    on->first = LLVMBuildAdd(b, on->first, LLVMBuildSelect(b, k->cut, first, zero, ""), "");
    len = LLVMBuildSelect(b, k->cut, len, n, "");
    on->end = LLVMBuildAdd(b, on->first, len, "");
}

/* ---- what a row's record holds ---- */

static void add_slot(OnRecord *x, int row, int what, int words) {
    x->slot[x->slots++] = (OnSlot){row, what, x->words, words};
    x->words += words;
}

OnRecord on_record(const On *on) {
    OnRecord x = {0};
    for (int k = 0; k < on->o.nrows; k++) {
        add_slot(&x, k, VALUE, on->o.row[k].c->type == DT_i64 ? 2 : 1);
        if (on->lags && on_is_frame(on, k)) add_slot(&x, k, REF, 1);
        if (on_tracks(on, k)) add_slot(&x, k, ANY, 1);
    }
    x.words = (x.words + ON_FLOATS - 1) / ON_FLOATS * ON_FLOATS;
    FK_ASSERT(x.words <= ON_WORDS);
    return x;
}

Val *on_slot(const OnSlot *x, OnState *s, int r) {
    return x->what == VALUE ? &s->row[x->row][r]
           : x->what == REF ? &s->ref[x->row][r]
                            : &s->any[x->row][r];
}

/* A value of 1 or 32 bits, or half `word` of one of 64, as f32. */
static Val to_word(On *on, Val v, int word) {
    Lower *l = on->l;
    Ty t = LLVMTypeOf(v);
    if (t == l->f32) return v;
    if (t == l->i1) v = LLVMBuildZExt(l->b, v, l->i32, "");
    if (t == l->i64) {
        if (word) v = LLVMBuildLShr(l->b, v, LLVMConstInt(l->i64, 32, 0), "");
        v = LLVMBuildTrunc(l->b, v, l->i32, "");
    }
    return LLVMBuildBitCast(l->b, v, l->f32, "");
}

/* ---- memory ---- */

/* Rows that a group may have. */
int64_t on_part_rows(const On *on) {
    int64_t n;
    return ix_is_const(on->o.t->axes.v[on->o.rows].extent, &n) && n < 64 ? (n > 0 ? n : 1) : 64;
}

int on_part_sums(const On *on) {
    return on->o.nproducts * on->t.out.n;
}

/* A part: the sums of product 0, row by row, of the next, ..; the records. */
int64_t on_part_bytes(const On *on) {
    return on_part_rows(on) * 4 * (on_part_sums(on) + on_record(on).words);
}

void on_split_memory(On *on, Kernel *k) {
    IxPool *p = on->o.t->ix;
    int groups = on->t.out.groups;
    if (on->t.out.split == 1) return;
    MmaParts m = parts_of(on);
    k->scratch = ix_mul(p, ix_mul(p, m.cut, m.parts), ix_const(p, groups * on_part_bytes(on)));
    k->head = ix_const(p, 4 + 4 * (int64_t)on->t.out.slots * groups);
}

Val on_ahead(Lower *l, Val base, Val by) {
    return LLVMBuildGEP2(l->b, l->i8, base, &by, 1, "");
}

Val on_times(Lower *l, Val v, int64_t n) {
    v = LLVMBuildZExt(l->b, v, l->i64, "");
    return LLVMBuildMul(l->b, v, LLVMConstInt(l->i64, (uint64_t)n, 0), "");
}

/* The group's number among those of all tiles that are cut. */
static Val group_number(On *on, const OnWork *k) {
    Lower *l = on->l;
    Val n = LLVMBuildMul(l->b, k->number, i32c(l, on->t.out.groups), "");
    return LLVMBuildAdd(l->b, n, on->w.group, "");
}

Val on_first_part(On *on, const OnWork *k) {
    Lower *l = on->l;
    Val n = LLVMBuildMul(l->b, group_number(on, k), k->parts, "");
    return on_ahead(l, param_memory(l, KP_SCRATCH), on_times(l, n, on_part_bytes(on)));
}

/* ---- a part is written ---- */

/* i1: has the group this of the rows that a thread holds? NULL: yes. */
static Val there(On *on, int r) {
    return on->l->axis[on->o.rows].in[r];
}

static void write_sums(On *on, Val to, const OnState *s) {
    Lower *l = on->l;
    int n = on->t.out.n;
    Val yes = LLVMConstInt(l->i1, 1, 0);
    Val at = on_ahead(l, to, on_times(l, on->w.row, 4 * n));
    at = on_ahead(l, at, on_times(l, on->w.col, 4));
    for (int p = 0; p < on->o.nproducts; p++)
        for (int i = 0; i < n / 2; i += 2) {
            int r = i / 2 % 2, col = i / 4 * 8;
            Val lo = type_bits(l, DT_f32, s->acc[p][i]),
                hi = type_bits(l, DT_f32, s->acc[p][i + 1]);
            Val two = type_bits_pair(l, DT_f32, lo, hi);
            int64_t by = 4 * (n * (p * on_part_rows(on) + 8 * r) + col);
            ptx_store_at(l, 8, at, by, two, there(on, r) ? there(on, r) : yes);
        }
}

/* By one thread of a row. */
static void write_record(On *on, Val to, OnState *s, int r) {
    Lower *l = on->l;
    OnRecord x = on_record(on);
    LLVMBasicBlockRef one = block_new(l, "record"), after = block_new(l, "recorded");
    Val is = LLVMBuildICmp(l->b, LLVMIntEQ, on->w.col, i32c(l, 0), "");
    if (there(on, r)) is = LLVMBuildAnd(l->b, is, there(on, r), "");
    LLVMBuildCondBr(l->b, is, one, after);
    block_enter(l, one);
    Val word[ON_WORDS], row = LLVMBuildAdd(l->b, on->w.row, i32c(l, 8 * r), "");
    for (int k = 0; k < x.words; k++) word[k] = const_real(l, 0);
    for (int k = 0; k < x.slots; k++)
        for (int h = 0; h < x.slot[k].words; h++)
            word[x.slot[k].at + h] = to_word(on, *on_slot(&x.slot[k], s, r), h);
    Val at = on_ahead(l, to, on_times(l, row, 4 * x.words));
    for (int k = 0; k < x.words; k += ON_FLOATS)
        ptx_store_floats(l, at, on_part_rows(on) * 4 * on_part_sums(on) + 4 * k, word + k);
    LLVMBuildBr(l->b, after);
    block_enter(l, after);
}

/* The four threads of a row know whether something came to it. */
static void join_any(On *on, OnState *s) {
    for (int k = 0; k < on->o.nrows; k++)
        for (int r = 0; r < on->held && on_tracks(on, k); r++)
            s->any[k][r] = on_any_of_row(on, s->any[k][r]);
}

static void write_part(On *on, const OnWork *k, OnState *s) {
    Lower *l = on->l;
    Val to = on_ahead(l, on_first_part(on, k), on_times(l, k->part, on_part_bytes(on)));
    on_rows_quad(on, s);
    join_any(on, s);
    write_sums(on, to, s);
    for (int r = 0; r < on->held; r++) write_record(on, to, s, r);
}

/* ---- who is last ---- */

static Val told(On *on) { /* shared memory: what the group's first thread has seen */
    Val at = LLVMBuildAdd(on->l->b, on_past_bars(on), i32c(on->l, 4 * ON_NEXT), "");
    return wg_at_stage(&on->w, at, on->w.group, 4);
}

/* i1, the same in the group: all parts are there. */
static Val arrive(On *on, const OnWork *k) {
    Lower *l = on->l;
    LLVMBuilderRef b = l->b;
    LLVMBasicBlockRef one = block_new(l, "count"), clear = block_new(l, "clear");
    LLVMBasicBlockRef tell = block_new(l, "tell"), after = block_new(l, "counted");
    wg_meet(&on->w);
    LLVMBuildCondBr(b, on->w.leader, one, after);
    block_enter(l, one);
    Val by = LLVMBuildAdd(b, on_times(l, group_number(on, k), 4), LLVMConstInt(l->i64, 4, 0), "");
    Val word = on_ahead(l, param_memory(l, KP_HEAD), by);
    Val n = LLVMBuildAdd(b, ptx_atomic_add(l, word, i32c(l, 1)), i32c(l, 1), "");
    Val last = LLVMBuildICmp(b, LLVMIntEQ, n, k->parts, "");
    LLVMBuildCondBr(b, last, clear, tell);
    block_enter(l, clear);
    ptx_store_relaxed(l, word, i32c(l, 0));
    LLVMBuildBr(b, tell);
    block_enter(l, tell);
    ptx_store_shared(l, 4, told(on), LLVMBuildZExt(b, last, l->i32, ""));
    LLVMBuildBr(b, after);
    block_enter(l, after);
    wg_meet(&on->w);
    Val v = ptx_shfl_first(l, ptx_load_shared(l, 4, told(on)));
    return LLVMBuildICmp(b, LLVMIntNE, v, i32c(l, 0), "");
}

/* Rows of the thread are open; those after it are not. */
void on_join_parts(On *on, const OnWork *k, OnState *s) {
    Lower *l = on->l;
    Map narrow = l->narrow, wide = l->wide, reals = l->reals;
    Val row = on->w.row, col = on->w.col;
    LLVMBasicBlockRef all = block_new(l, "all.parts"), after = block_new(l, "part.done");
    l->narrow = l->wide = l->reals = (Map){.arena = l->arena};
    write_part(on, k, s);
    LLVMBuildCondBr(l->b, arrive(on, k), all, after);
    block_enter(l, all);
    on_merge(on, k);
    LLVMBuildBr(l->b, after);
    block_enter(l, after);
    on->w.row = row, on->w.col = col;
    l->narrow = narrow, l->wide = wide, l->reals = reals;
}
