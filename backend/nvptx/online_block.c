/* online_block.c - a block of j, from its scores to what goes on.
 *
 * Elements lie as the accumulator does (wgmma_tile.c): a thread has two rows, and of every 8
 * columns two. The body of the loop is worked on by slabs of columns, each an open axis j, in two
 * turns: what no frame is needed for, which gives the reductions that frames are; then the rest.
 * Where a warp may do so in one of two ways: online_lag.c.
 *
 * Elements of tensors that the body reads are loaded while the scores are made, as many as there
 * are registers for; the others when those of a slab before have been used.
 */
#include "backend/nvptx/online_int.h"

#include <string.h>

/* ---- places ---- */

static void lay_slab(On *on, OnBlock *b, OnSlab *p, int from, int cols) {
    Lower *l = on->l;
    int n = cols / 4;
    int64_t *step = ARENA_ARRAY(l->arena, int64_t, n), extent;
    const Ix *x = l->t->axes.v[on->o.j].extent;
    *p = (OnSlab){.from = from, .cols = cols};
    p->value = ARENA_ARRAY(l->arena, Frag, l->t->nvalues + 1);
    p->j = (AxisState){.open = true, .count = n, .raw = true, .pairs = true, .step = step};
    p->j.e = ARENA_ARRAY(l->arena, Val, n);
    p->j.in = ARENA_ARRAY(l->arena, Val, n);
    bool whole = !b->masked || (ix_is_const(x, &extent) && extent % on->t.j == 0);
    Val left = NULL;
    if (!whole) left = on_clamp32(on, LLVMBuildSub(l->b, uniform_ix(l, x), b->col, ""));
    Val first = LLVMBuildAdd(l->b, b->col, LLVMConstInt(l->i64, (unsigned)from, 0), "");
    for (int i = 0; i < n; i++) {
        step[i] = i / 2 * 8 + i % 2;
        Val by = LLVMConstInt(l->i64, (uint64_t)step[i], 0);
        p->j.e[i] = i ? LLVMBuildAdd(l->b, first, by, "") : first;
        if (left)
            p->j.in[i] = LLVMBuildICmp(l->b, LLVMIntSGT, left, i32c(l, from + (int)step[i]), "");
    }
}

void on_slab_enter(On *on, const OnSlab *p) {
    Lower *l = on->l;
    l->axis[on->o.j] = p->j;
    memcpy(l->value, p->value, sizeof *p->value * (size_t)(l->t->nvalues + 1));
}

void on_slab_leave(On *on, OnSlab *p) {
    Lower *l = on->l;
    memcpy(p->value, l->value, sizeof *p->value * (size_t)(l->t->nvalues + 1));
    l->axis[on->o.j].open = false;
}

enum { WORDS = 36, OTHERS = 44, CHUNK = 32 }; /* columns */

/* Registers of what is loaded ahead, at most. */
static int most_words(const On *on) {
    return on->t.spare - OTHERS < WORDS ? on->t.spare - OTHERS : WORDS;
}

static int word_regs(const On *on, int cols) {
    return on->word_regs * cols / 8;
}

void on_block_open(On *on, OnBlock *b, Val i) {
    Lower *l = on->l;
    b->at = LLVMBuildMul(l->b, i, i32c(l, on->t.j), "");
    b->at = LLVMBuildAdd(l->b, b->at, on->w.col, "");
    b->col = LLVMBuildZExt(l->b, b->at, l->i64, "");
    on_mask_open(on, b);
    b->bases = on->near_passes;
    int early = on->lags && !b->first && !b->bases ? on->t.early : 0;
    int from = b->part.from, end = from + b->part.cols;
    if (early >= b->part.cols) early = b->part.cols / 16 * 8;
    bool many = word_regs(on, on->t.j) > most_words(on);
    for (int at = from, n; at < end; at += n) {
        OnSlab *p = &b->slab[b->slabs++];
        n = early && at == from ? early : end - at;
        if (many && n > CHUNK && b->slabs < SLABS) n = CHUNK;
        lay_slab(on, b, p, at, n);
        p->waits = at > from && word_regs(on, at + n) > most_words(on);
        memcpy(p->value, l->value, sizeof(Frag) * (size_t)(l->t->nvalues + 1));
    }
}

/* ---- elements ---- */

Val on_element(On *on, int id, DType as, int r, int c) {
    Lower *l = on->l;
    AxisSet all = axis_bit(on->o.rows) | axis_bit(on->o.j);
    Frag f = value_of(l, id);
    int n = l->axis[on->o.j].count;
    Val v = f.v[frag_at(l, frag_live(l, all), r * n + c, f.mask)];
    return type_widen(l, l->type[id], as, v);
}

int on_element_at(const On *on, int r, int c) {
    return r / 2 * on->t.j / 2 + c / 2 * 4 + r % 2 * 2 + c % 2;
}

/* ---- the body ---- */

static bool is_words(const On *on, const TInst *i) {
    return i->kind == T_LOAD && on->words[i->id];
}

static void emit(On *on, const OnBlock *b, const OnSlab *p, const TInst *i) {
    const MmaStaged *brought = on_brought(on, i);
    if (brought) {
        Frag words = on_brought_words(on, b, p, brought);
        on->l->value[i->id] = load_of_words(on->l, i, &words);
    } else if (i->kind == T_INDEX)
        on_index_emit(on, i);
    else if (i->kind != T_OP || !(on_exponential(on, i) || on_index_op(on, i)))
        emit_inst(on->l, i);
}

/* Not needed in a block: votes tell it, or all conditions that could be known hold. */
static bool left_out(const On *on, const OnBlock *b, const TInst *i) {
    return i->id >= 0 && (on->told_only[i->id] || (b->held && on->dropped[i->id]));
}

static void load_words(On *on, OnBlock *b, OnSlab *p) {
    Lower *l = on->l;
    on_slab_enter(on, p);
    for (int k = 0; k < on->o.body.n; k++) {
        const TInst *i = on->o.body.v[k].i;
        const MmaStaged *brought = on_brought(on, i);
        if (!is_words(on, i) || left_out(on, b, i)) continue;
        l->value[i->id] = brought ? on_brought_words(on, b, p, brought) : emit_load_words(on->l, i);
    }
    on_slab_leave(on, p);
    if (++b->loaded == b->slabs && on->t.nbrought) on_brought_done(on, b);
}

/* What was loaded as words is looked at when it is used, so that it stays words until then. */
static void open_words(On *on, const OnBlock *b) {
    Lower *l = on->l;
    for (int k = 0; k < on->o.body.n; k++) {
        const TInst *i = on->o.body.v[k].i;
        if (is_words(on, i) && !left_out(on, b, i))
            l->value[i->id] = load_of_words(l, i, &l->value[i->id]);
    }
}

/* Before the scores; what is stepped without a frame; the rest without; of that, what depends on
 * functions near 0; what depends on a frame. */
enum Turn { EARLY, NEEDED, UNFRAMED, BEYOND, FRAMED };

static void emit_turn(On *on, const OnBlock *b, const OnSlab *p, enum Turn turn) {
    for (int k = 0; k < on->o.body.n; k++) {
        const OnlineInst *x = &on->o.body.v[k];
        if (x->factor || x->i->kind == T_STEP || is_words(on, x->i)) continue;
        if (left_out(on, b, x->i)) continue;
        if (on_near(on, x->i->id) || (on->skips && on->inside[x->i->id])) continue;
        bool early = x->early && !on->deferred[x->i->id];
        enum Turn its = x->framed                  ? FRAMED
                        : early                    ? EARLY
                        : on->after_near[x->i->id] ? BEYOND
                        : on->needed[x->i->id]     ? NEEDED
                                                   : UNFRAMED;
        if (its == turn) emit(on, b, p, x->i);
    }
}

void on_block_early(On *on, OnBlock *b) {
    on_bits_open(on, b);
    for (int p = 0; p < b->slabs; p++) {
        on_slab_enter(on, &b->slab[p]);
        emit_turn(on, b, &b->slab[p], EARLY);
        on_slab_leave(on, &b->slab[p]);
    }
    for (int p = 0; p < b->slabs; p++)
        if (!b->slab[p].waits) load_words(on, b, &b->slab[p]);
}

static void show_scores(On *on, const OnBlock *b, const OnSlab *p) {
    Lower *l = on->l;
    for (int s = 0; s < on->o.nscores; s++) {
        Frag f = frag_new(l, frag_live(l, axis_bit(on->o.rows) | axis_bit(on->o.j)));
        for (int i = 0; i < f.n; i++) {
            int r = frag_coord(l, f.mask, i, on->o.rows);
            int c = frag_coord(l, f.mask, i, on->o.j) + p->from / 4;
            f.v[i] = b->score[s][on_element_at(on, r, c)];
        }
        l->value[on->o.score[s].carry] = f;
    }
}

/* ---- frames ---- */

static Frag rows_frag(On *on, const Val *v) {
    Frag f = frag_new(on->l, frag_live(on->l, axis_bit(on->o.rows)));
    for (int r = 0; r < on->held; r++) f.v[r] = v[r];
    return f;
}

static void show_frames(On *on, const OnBlock *b) {
    for (int k = 0; k < on->o.nrows; k++)
        if (on_is_frame(on, k)) on->l->value[on->o.row[k].c->id] = rows_frag(on, b->frame[k]);
}

void on_framed(On *on, OnBlock *b, OnSlab *p) {
    on_slab_enter(on, p);
    show_frames(on, b);
    on->skips = b->bases && on->closed;
    if (b->bases) emit_turn(on, b, p, BEYOND);
    emit_turn(on, b, p, FRAMED);
    on->skips = false;
    on_slab_leave(on, p);
}

/* ---- all of it ---- */

static void take_in(On *on, OnState *s, int k, Val (*part)[ROWS_HELD]) {
    for (int r = 0; r < on->held; r++)
        s->row[k][r] = on_join(on, on->o.row[k].c, s->row[k][r], part[k][r]);
}

void on_choose_frames(On *on, OnBlock *b, OnState *s, Val (*now)[ROWS_HELD]) {
    for (int k = 0; k < on->o.nrows; k++)
        for (int r = 0; r < on->held && on_is_frame(on, k); r++) {
            if (on->still[k] && !b->first) {
                b->frame[k][r] = s->ref[k][r];
                continue;
            }
            Val at = s->row[k][r];
            if (!on->lags || b->first) {
                at = on_moved(on, s, k, r, now[k][r]);
                if (!on->idle[k]) s->row[k][r] = now[k][r] = at;
            }
            b->frame[k][r] = on_usable(on, on->o.row[k].c, at);
            Val from = const_real(on->l, on->still_from[k]);
            if (on->still[k]) b->frame[k][r] = on_join(on, on->o.row[k].c, b->frame[k][r], from);
        }
}

static void track(On *on, OnBlock *b, OnState *s) {
    Lower *l = on->l;
    for (int k = 0; k < on->o.nrows; k++) {
        if (!on_tracks(on, k)) continue;
        const OnlineInst *step = on_step(on, on->o.row[k].step);
        bool bits = on_bits_say(on, b, step);
        for (int r = 0; r < on->held && bits; r++)
            for (int w = 0; w * 128 < on->t.j; w++) {
                Val word = on_bits_word(on, b, r, w);
                Val in = LLVMBuildICmp(l->b, LLVMIntNE, word, i32c(l, 0), "");
                s->any[k][r] = LLVMBuildOr(l->b, s->any[k][r], in, "");
            }
        for (int p = 0; p < b->slabs && !bits; p++) {
            on_slab_enter(on, &b->slab[p]);
            for (int r = 0; r < on->held; r++)
                for (int c = 0; c < b->slab[p].cols / 4; c++) {
                    Val in = on_condition(on, b, &b->slab[p], step, r, c);
                    s->any[k][r] =
                        in ? LLVMBuildOr(l->b, s->any[k][r], in, "") : LLVMConstInt(l->i1, 1, 0);
                }
        }
    }
}

/* Loads what the next of the slabs that wait will need. */
static void load_waiting(On *on, OnBlock *b) {
    for (int p = 0; p < b->slabs; p++) {
        if (!b->slab[p].waits) continue;
        b->slab[p].waits = false;
        load_words(on, b, &b->slab[p]);
        return;
    }
}

static void unframed_slab(On *on, OnBlock *b, OnSlab *p, bool waits, OnReach *reach,
                          OnChains chain) {
    on_slab_enter(on, p);
    show_scores(on, b, p);
    open_words(on, b);
    emit_turn(on, b, p, NEEDED);
    on_mask(on, b, p);
    emit_turn(on, b, p, UNFRAMED);
    on_near_measure(on, reach);
    on_slab_leave(on, p);
    load_waiting(on, b);
    if (!waits) on_rows_fold(on, b, p, false, chain);
}

/* known: frames, already; early: the first slab has been computed in them. */
static void framed_slabs(On *on, OnBlock *b, OnState *s, bool known, bool early,
                         Val (*now)[ROWS_HELD], Val (*part)[ROWS_HELD]) {
    OnChains chain = {0};
    if (!known) on_choose_frames(on, b, s, now);
    for (int p = 0; p < b->slabs; p++) {
        if (!early || p) on_framed(on, b, &b->slab[p]);
        if (known && !p) on_lag(on, b, s, now);
        on_rows_fold(on, b, &b->slab[p], true, chain);
    }
    on_rows_join(on, true, chain, part);
}

void on_block_values(On *on, OnBlock *b, OnState *s) {
    Val now[ONLINE_ROWS][ROWS_HELD] = {{0}}, part[ONLINE_ROWS][ROWS_HELD] = {{0}};
    OnChains unframed = {0};
    OnReach reach = {0};
    bool waits = on->nnear && !b->bases; /* for functions near 0 */
    bool known = on->lags && !b->first && !b->bases, early = known && !waits;
    if (known) on_choose_frames(on, b, s, now);
    for (int p = 0; p < b->slabs; p++) {
        unframed_slab(on, b, &b->slab[p], waits, &reach, unframed);
        if (early && !p) on_framed(on, b, &b->slab[p]);
    }
    if (waits) on_near_all(on, b, &reach);
    for (int p = 0; p < b->slabs && waits; p++) {
        on_slab_enter(on, &b->slab[p]);
        emit_turn(on, b, &b->slab[p], BEYOND);
        on_slab_leave(on, &b->slab[p]);
        on_rows_fold(on, b, &b->slab[p], false, unframed);
    }
    on_rows_join(on, false, unframed, now);
    track(on, b, s);
    if (b->bases)
        on_near_ways(on, b, s, &reach, now, part);
    else
        framed_slabs(on, b, s, known, early, now, part);
    for (int k = 0; k < on->o.nrows; k++) {
        const TCarry *c = on->o.row[k].c;
        if (on_is_frame(on, k) || c->frame < 0) continue;
        int f = on_row_of(on, c->frame);
        for (int r = 0; r < on->held && !b->first && !on_is_still(on, c); r++) {
            Val by = on_rescale(on, c, s->ref[f][r], b->frame[f][r], r);
            s->row[k][r] = LLVMBuildFMul(on->l->b, s->row[k][r], by, "");
        }
        take_in(on, s, k, part);
    }
    for (int k = 0; k < on->o.nrows; k++) {
        bool rests = on->still[k] ? !b->first && !on->idle[k] : !on_is_frame(on, k);
        if (on->o.row[k].c->frame < 0 && rests) take_in(on, s, k, now);
        for (int r = 0; r < on->held && on_is_frame(on, k); r++) {
            if (on->lags && !b->first && !on->still[k])
                s->row[k][r] = on_moved(on, s, k, r, now[k][r]);
        }
    }
}

/* ---- factors of the products to come ---- */

static void one_factor(On *on, OnBlock *b, int f, Val *value) {
    const OnlineInst *step = NULL;
    const TCarry *sum = NULL;
    for (int p = 0; p < on->o.nproducts && !step; p++) {
        if (on->o.product[p].factor != f) continue;
        step = on_step(on, on->o.product[p].step);
        sum = on->o.product[p].c;
    }
    for (int p = 0; p < b->slabs; p++) {
        OnSlab *slab = &b->slab[p];
        on_slab_enter(on, slab);
        for (int r = 0; r < on->held; r++)
            for (int c = 0; c < slab->cols / 4; c++) {
                int id = on->factor_value[f];
                Val v = on_element(on, id, DT_f32, r, c);
                v = on_taken(on, b, slab, step, sum, id, v, r, c);
                value[on_element_at(on, r, c + slab->from / 4)] = v;
            }
    }
}

/* Before the wait for the products that still read the words of the block before: values alone. */
void on_make_factors(On *on, OnBlock *b, OnState *s) {
    for (int f = 0; f < on->o.nfactors; f++) {
        s->factor[f] = ARENA_ARRAY(on->l->arena, Val, on->nelems);
        one_factor(on, b, f, s->factor[f]);
    }
}

void on_block_factors(On *on, OnBlock *b, OnState *s) {
    if (!b->bases) on_make_factors(on, b, s);
    for (int p = 0; p < on->o.nproducts; p++) on_scrub_note(on, b, p);
    on->l->axis[on->o.j].open = false;
}
