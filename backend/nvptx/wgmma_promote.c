/* wgmma_promote.c - the main loop of sums that the tensor core may not keep to itself: fp8, whose
 * products it adds with some 14 bits. It sums one stage of k, and ordinary instructions add that to
 * sums in f32 registers.
 *
 * A group's accumulator is cut into pieces (schedule.h), a batch of wgmmas each: piece 0 of a
 * stage, piece 1, .., piece 0 of the next stage. A batch overwrites one of `sets` register sets.
 *     one set     issue, wait, add; the next. The tensor core is kept busy by the other group,
 * which issues while this one adds. With `turns` they alternate batch by batch, so that they never
 * wait and add at the same time. two sets    while a batch goes on, the one before it is added: a
 * group overlaps with itself. ptxas takes no register of a batch that is pending from one iteration
 * to the next but after a wait for all; so a stage begins with one, and at once issues its first
 * piece and then adds what it waited for, the last piece of the stage before. A tile's first stage
 * has none before it and adds zeros. A stage is released when its last piece is done.
 *
 * Where blocks of k are scaled (wgmma_strips.c), what is added is made of the partial sum and of
 * what was loaded for its stage, one ahead.
 */
#include "backend/nvptx/wgmma_int.h"

/* What scales a stage; NULL: there is no such thing. */
typedef struct Scales {
    int n;
    Val *ahead, *now, *before; /* of the next stage, this one, the one before */
    LLVMBasicBlockRef after;   /* of uniform arithmetic */
} Scales;

static int piece_regs(const Wg *w) {
    return w->t.piece_blocks * w->t.piece_n / 2;
}

static Val *set_of(const Wg *w, int piece) {
    return w->set[piece % w->t.sets];
}

/* a, b: low words of the stage. */
static void issue(Wg *w, int piece, Val a, Val b) {
    Lower *l = w->l;
    Wgmma op = wg_batch(w);
    int per_block = op.n / 2, at = piece * piece_regs(w); /* registers before it */
    int block = at / per_block, col = at % per_block * 2;
    a = LLVMBuildAdd(l->b, a, i32c(l, wgmma_block(&op, block)), "");
    b = LLVMBuildAdd(l->b, b, i32c(l, mma_smem_row(&w->t.b, col) / 16), "");
    op.blocks = w->t.piece_blocks;
    op.n = w->t.piece_n;
    if (l->s->turns) wg_turn_wait(w);
    ptx_wgmma(l, &op, a, b, NULL, set_of(w, piece));
    if (l->s->turns) wg_turn_pass(w);
}

static void wait_for(Wg *w, int piece, int pending) {
    ptx_wgmma_wait(w->l, pending, piece_regs(w), set_of(w, piece));
}

static void add(Wg *w, Acc *acc, int piece) {
    int n = piece_regs(w);
    Val *sum = acc->v + piece * n, *set = set_of(w, piece);
    if (w->m.nest.strips.loop) {
        wg_strips_add(w, sum, set, piece * n, n);
        return;
    }
    for (int i = 0; i < n; i++) sum[i] = LLVMBuildFAdd(w->l->b, sum[i], set[i], "");
}

static void use(Wg *w, Val *scales) {
    if (scales) wg_strips_use(w, scales);
}

static void one_set(Wg *w, Acc *acc, Val stage, Val a, Val b, const Scales *s) {
    for (int i = 0; i < w->t.pieces; i++) {
        issue(w, i, a, b);
        if (!i) use(w, s->now);
        wait_for(w, i, 0);
        if (i == w->t.pieces - 1) wg_release(w, stage, NULL);
        add(w, acc, i);
    }
}

/* had: i1, there is a stage before this one. */
static void two_sets(Wg *w, Acc *acc, Val stage, Val had, Val a, Val b, const Scales *s) {
    int last = w->t.pieces - 1;
    wait_for(w, last, 0);
    wg_release(w, ring_before(w, stage), had);
    issue(w, 0, a, b);
    use(w, s->before);
    add(w, acc, last);
    use(w, s->now);
    for (int i = 1; i <= last; i++) {
        issue(w, i, a, b);
        wait_for(w, i - 1, 1);
        add(w, acc, i - 1);
    }
}

/* ---- what scales the stages ---- */

/* For the first stage, before the loop. */
static Scales scales_first(Wg *w, const Work *k, Val row0, Val col0) {
    Scales s = {0};
    if (!w->m.nest.strips.loop) return s;
    s.after = wg_uniform_begin(w);
    wg_strips_open(w, row0, col0);
    s.ahead = wg_strips_load(w, k->first, &s.n);
    return s;
}

/* At the loop's head; then those of the next stage are on their way. */
static void scales_enter(Wg *w, const Work *k, Val kt, LLVMBasicBlockRef before, Scales *s) {
    Lower *l = w->l;
    if (!s->ahead) return;
    s->now = ARENA_ARRAY(l->arena, Val, s->n + 1);
    for (int i = 0; i < s->n; i++)
        s->now[i] = wg_phi(l, LLVMTypeOf(s->ahead[i]), s->ahead[i], before);
    if (w->t.sets == 2) s->before = ARENA_ARRAY(l->arena, Val, s->n + 1);
    for (int i = 0; i < s->n && s->before; i++) {
        Ty type = LLVMTypeOf(s->ahead[i]);
        s->before[i] = wg_phi(l, type, LLVMConstNull(type), before);
    }
    Val next = LLVMBuildAdd(l->b, kt, i32c(l, 1), "");
    Val more = LLVMBuildICmp(l->b, LLVMIntULT, next, k->len, "");
    Val at = LLVMBuildSelect(l->b, more, next, kt, ""); /* what is there */
    s->ahead = wg_strips_load(w, LLVMBuildAdd(l->b, k->first, at, ""), &s->n);
}

static void scales_next(Wg *w, Scales *s) {
    for (int i = 0; i < s->n; i++) wg_phi_next(w->l, s->now[i], s->ahead[i]);
    for (int i = 0; i < s->n && s->before; i++) wg_phi_next(w->l, s->before[i], s->now[i]);
    w->scales = s->now;
    if (!s->ahead) return;
    wg_strips_close(w);
    wg_uniform_end(w, s->after);
}

/* v becomes n values that are 0 at first. */
static Val *carried(Lower *l, Val *v, int n, LLVMBasicBlockRef before) {
    Val *phi = ARENA_ARRAY(l->arena, Val, n);
    for (int i = 0; i < n; i++) v[i] = phi[i] = wg_phi(l, l->f32, const_real(l, 0), before);
    return phi;
}

Ring wg_promote(Wg *w, const Work *k, Ring r, Val row0, Val col0, Acc *acc, Val *last) {
    Lower *l = w->l;
    int n = piece_regs(w), units = w->t.stage_bytes / 16;
    bool two = w->t.sets == 2;
    for (int s = 0; s < w->t.sets; s++) w->set[s] = ARENA_ARRAY(l->arena, Val, n);
    Scales scales = scales_first(w, k, row0, col0);
    LLVMBasicBlockRef before = LLVMGetInsertBlock(l->b);
    LLVMBasicBlockRef body = block_new(l, "mma"), exit = block_new(l, "summed");
    LLVMBuildBr(l->b, body);
    block_enter(l, body);
    Val kt = wg_phi(l, l->i32, i32c(l, 0), before);
    Ring at = {wg_phi(l, l->i32, r.stage, before), wg_phi(l, l->i32, r.phase, before)};
    Val *sum = carried(l, acc->v, acc->n, before);
    Val *pending = two ? carried(l, w->set[1], n, before) : NULL;
    scales_enter(w, k, kt, before, &scales);
    Val had = LLVMBuildICmp(l->b, LLVMIntNE, kt, i32c(l, 0), "");
    ptx_mbar_wait(l, wg_full_bar(w, at.stage), at.phase);
    Val a = wg_at_stage(w, w->desc_a, at.stage, units);
    Val b = wg_at_stage(w, w->desc_b, at.stage, units);
    if (two)
        two_sets(w, acc, at.stage, had, a, b, &scales);
    else
        one_set(w, acc, at.stage, a, b, &scales);
    Val next = LLVMBuildAdd(l->b, kt, i32c(l, 1), "");
    Ring end = ring_next(w, at);
    wg_phi_next(l, kt, next);
    wg_phi_next(l, at.stage, end.stage);
    wg_phi_next(l, at.phase, end.phase);
    for (int i = 0; i < acc->n; i++) wg_phi_next(l, sum[i], acc->v[i]);
    for (int i = 0; two && i < n; i++) wg_phi_next(l, pending[i], w->set[1][i]);
    scales_next(w, &scales);
    Val more = LLVMBuildICmp(l->b, LLVMIntULT, next, k->len, "");
    LLVMBuildCondBr(l->b, more, body, exit);
    block_enter(l, exit);
    *last = at.stage;
    return end;
}

void wg_promote_rest(Wg *w, Acc *acc, Val last) {
    if (w->t.sets == 1) return;
    wait_for(w, w->t.pieces - 1, 0);
    wg_release(w, last, NULL);
    if (w->scales) wg_strips_use(w, w->scales);
    add(w, acc, w->t.pieces - 1);
}
