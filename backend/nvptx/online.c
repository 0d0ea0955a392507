/* online.c - a tile program whose loop multiplies, works on and multiplies again (ir/online.h), on
 * TMA and wgmma (sm_90a), or on cp.async and mma.sync (sm_80): the kernel and its roles (which
 * tile: online_where.c). What follows is about the first; of the second all warps do the same
 * (online_copy.c, online_mma.c).
 *
 * Roles. Warpgroup 0 loads (online_load.c); each of the others has 64 rows of the tile
 * (online_tile.c). Three rings of buffers in shared memory, each with a barrier `full` (the bytes
 * that TMA brings) and one `empty` (an arrival of each group, or of each
 * warp that reads by itself) a buffer:
 *     Q    what a tile needs of its rows
 *     K    what makes the scores of a block
 *     V    what its products need
 *     E    what is read for each element, if it is brought (online_bring.c)
 * and, where tiles are handed out as CTAs become free, one of numbers of tiles: the loader takes
 * the next from a counter in global memory while the groups work on the one before. The counter
 * wraps to 0 by itself: it counts to the number of tiles, and each tile takes one.
 * A tile without blocks touches neither K nor V nor E, on either side. Where data say which blocks
 * there are, a warp of warpgroup 0 picks them (online_pick.c), and takes the numbers of tiles.
 */
#include "backend/nvptx/online_int.h"
#include "backend/nvptx/approx_int.h"

#include <string.h>

/* ---- barriers and places ---- */

static int count_of(const On *on, enum OnBar what) {
    const int n[] = {on->t.stages, on->t.stages, on->t.ahead, on->t.bring, ON_NEXT};
    return n[what];
}

static int bars_before(const On *on, enum OnBar what) {
    int n = 0;
    for (enum OnBar b = BAR_K; b < what; b++) n += 2 * count_of(on, b);
    return n;
}

Val on_past_bars(On *on) {
    return LLVMBuildAdd(on->l->b, on->w.bars, i32c(on->l, 8 * bars_before(on, BAR_NEXT + 1)), "");
}

static Val bar(On *on, int number, Val stage) {
    Lower *l = on->l;
    Val at = LLVMBuildAdd(l->b, on->w.bars, i32c(l, 8 * number), "");
    return wg_at_stage(&on->w, at, stage, 8);
}

Val on_full(On *on, enum OnBar what, Val stage) {
    return bar(on, bars_before(on, what), stage);
}

Val on_empty(On *on, enum OnBar what, Val stage) {
    return bar(on, bars_before(on, what) + count_of(on, what), stage);
}

Ring on_next(On *on, Ring r, int count) {
    Lower *l = on->l;
    Val next = LLVMBuildAdd(l->b, r.stage, i32c(l, 1), "");
    Val wraps = LLVMBuildICmp(l->b, LLVMIntEQ, next, i32c(l, count), "");
    next = LLVMBuildSelect(l->b, wraps, i32c(l, 0), next, "");
    return (Ring){next, LLVMBuildXor(l->b, r.phase, LLVMBuildZExt(l->b, wraps, l->i32, ""), "")};
}

Val on_buffer(On *on, const OnlineSmem *m, Val stage) {
    Val at = LLVMBuildAdd(on->l->b, on->w.smem, i32c(on->l, m->at), "");
    return wg_at_stage(&on->w, at, stage, m->bytes);
}

Val on_clamp32(On *on, Val v) {
    Lower *l = on->l;
    Val most = LLVMConstInt(l->i64, 1 << 30, 0);
    Val least = LLVMConstInt(l->i64, (uint64_t)(int64_t)-(1 << 30), 1);
    v = LLVMBuildSelect(l->b, LLVMBuildICmp(l->b, LLVMIntSGT, v, most, ""), most, v, "");
    v = LLVMBuildSelect(l->b, LLVMBuildICmp(l->b, LLVMIntSLT, v, least, ""), least, v, "");
    return LLVMBuildTrunc(l->b, v, l->i32, "");
}

/* ---- roles ---- */

/* Low words of descriptors: leading offset 1 (K-major, unused), or from 64 columns to the next. */
static void descriptors(On *on) {
    Lower *l = on->l;
    Val at = LLVMBuildAnd(l->b, on->w.smem, i32c(l, 0x3ffff), "");
    at = LLVMBuildLShr(l->b, at, i32c(l, 4), "");
    Val rows = on_rows_by(on, 64 * 128 / 16);
    for (int k = 0; k < on->o.nscores; k++) {
        Val q = LLVMBuildAdd(l->b, at, i32c(l, on->t.q[k].at / 16 + (1 << 16)), "");
        on->desc_q[k] = LLVMBuildAdd(l->b, q, rows, "");
        on->desc_k[k] = LLVMBuildAdd(l->b, at, i32c(l, on->t.k[k].at / 16 + (1 << 16)), "");
    }
    for (int p = 0; p < on->o.nproducts; p++) {
        int lead = on->t.v[p].lines * 128 / 16;
        Val v = LLVMBuildAdd(l->b, at, i32c(l, on->t.v[p].at / 16 + (lead << 16)), "");
        on->desc_v[p] = LLVMBuildAdd(l->b, v, on_cols_by(on, on->t.out.n / 64 * lead), "");
    }
}

static void consumer(On *on) {
    Lower *l = on->l;
    LLVMBuilderRef b = l->b;
    Wg *w = &on->w;
    bool sync = on->t.sync;
    if (w->t.load_regs) ptx_setmaxnreg(l, w->t.mma_regs, true);
    w->group = !sync             ? LLVMBuildSub(b, w->role, i32c(l, 1), "")
               : w->t.groups > 1 ? w->role
                                 : i32c(l, 0);
    Val t = LLVMBuildAnd(b, w->tid, i32c(l, 127), "");
    w->leader = LLVMBuildICmp(b, LLVMIntEQ, t, i32c(l, 0), "");
    w->lane0 =
        LLVMBuildICmp(b, LLVMIntEQ, LLVMBuildAnd(b, w->tid, i32c(l, 31), ""), i32c(l, 0), "");
    if (!sync) descriptors(on);
    Val g = LLVMBuildAnd(b, LLVMBuildLShr(b, t, i32c(l, 2), ""), i32c(l, 7), "");
    Val warp = LLVMBuildShl(b, LLVMBuildLShr(b, t, i32c(l, 5), ""), i32c(l, 4), "");
    w->row = LLVMBuildAdd(b, warp, g, "");
    w->col = LLVMBuildShl(b, LLVMBuildAnd(b, t, i32c(l, 3), ""), i32c(l, 1), "");
    on_bring_places(on);
    if (l->s->pingpong) on_first_turn(on);
    if (on_streams(on))
        on_stream(on);
    else
        on_tiles(on, on_consume, ON_WORKS);
    if (w->t.nstaged) ptx_bulk_wait_read(l, 0, w->leader);
    LLVMBuildRetVoid(b);
}

static void barriers(On *on) {
    Lower *l = on->l;
    LLVMBasicBlockRef init = block_new(l, "init"), after = block_new(l, "roles");
    Val first = LLVMBuildICmp(l->b, LLVMIntEQ, on->w.tid, i32c(l, 0), "");
    LLVMBuildCondBr(l->b, first, init, after);
    block_enter(l, init);
    for (enum OnBar what = BAR_K; what <= BAR_NEXT; what++)
        for (int s = 0; s < count_of(on, what); s++) {
            bool words = on->t.out.picked && (what == BAR_K || what == BAR_Q);
            bool shared = on->loaders && (what == BAR_K || what == BAR_V);
            int each = what == BAR_NEXT ? 128 : what == BAR_E || words ? 4 : 1;
            int all = each * on->t.out.groups + (what == BAR_NEXT ? 32 * on->loaders : 0);
            ptx_mbar_init(l, on_full(on, what, i32c(l, s)), shared ? on->loaders : 1);
            ptx_mbar_init(l, on_empty(on, what, i32c(l, s)), all);
        }
    on_pick_init(on);
    ptx_mbar_init_done(l);
    LLVMBuildBr(l->b, after);
    block_enter(l, after);
    ptx_barrier(l);
}

static void emit_body(On *on, Kernel *k) {
    Lower *l = on->l;
    Wg *w = &on->w;
    w->tid = ptx_tid(l);
    w->first = ptx_ctaid(l);
    w->stride = ptx_nctaid(l);
    w->role = ptx_shfl_first(l, LLVMBuildLShr(l->b, w->tid, i32c(l, 7), ""));
    w->smem = wg_shared_base(w);
    w->slabs = LLVMBuildAdd(l->b, w->smem, i32c(l, on->t.out.stage_bytes), "");
    w->bars = LLVMBuildAdd(l->b, w->smem, i32c(l, on->t.bars_at), "");
    if (on->t.sync) {
        chain_here(l, k, l->b);
        consumer(on);
        return;
    }
    barriers(on);
    chain_here(l, k, l->b);
    LLVMBasicBlockRef load = block_new(l, "load.role"), mma = block_new(l, "mma.role");
    Val loads = LLVMBuildICmp(l->b, LLVMIntEQ, w->role, i32c(l, 0), "");
    LLVMBuildCondBr(l->b, loads, load, mma);
    block_enter(l, load);
    if (w->t.load_regs) ptx_setmaxnreg(l, w->t.load_regs, false);
    on_loader(on);
    block_enter(l, mma);
    consumer(on);
}

/* ---- the kernel ---- */

void on_need(On *on, int id) {
    const TInst *i = on->l->def[id];
    if (on->needed[id]) return;
    on->needed[id] = true;
    for (int k = 0; i && k < i->nargs; k++) on_need(on, i->args[k]);
}

/* Everything but what leads to a step or to a condition that is looked at in whole blocks. */
static void keep_ix(On *on, bool *drops, const Ix *x) {
    if (x->kind == IX_VALUE) on_keep(on, drops, (int)x->num);
    for (int k = 0; k < x->n; k++) keep_ix(on, drops, x->arg[k]);
}

void on_keep(On *on, bool *drops, int id) {
    const TInst *i = on->l->def[id];
    if (!drops[id]) return;
    drops[id] = false;
    for (int k = 0; i && k < i->nargs; k++) on_keep(on, drops, i->args[k]);
    for (int k = 0; i && k < i->nix; k++) keep_ix(on, drops, i->ix[k]);
}

static void find_dropped(On *on) {
    int n = on->l->t->nvalues + 1;
    on->dropped = ARENA_ARRAY(on->l->arena, bool, n);
    for (int k = 0; k < n; k++) on->dropped[k] = on->t.out.picked;
    for (int k = 0; k < on->o.body.n; k++) {
        const OnlineInst *x = &on->o.body.v[k];
        if (x->i->kind != T_STEP) continue;
        on_keep(on, on->dropped, x->i->args[1]);
        for (int g = 0; g < x->guards.n; g++)
            if (!on_pick_drops(on, x->guards.v[g])) on_keep(on, on->dropped, x->guards.v[g]);
    }
}

static bool cuts(const On *on, const Ix *bound, bool end) {
    int64_t c;
    if (!ix_is_const(bound, &c)) return true;
    return end ? c % on->t.j != 0 : c != 0;
}

/* A bound at the first row, or at the last. */
static const Ix *extreme(On *on, const Ix *bound, bool last) {
    const TProg *t = on->o.t;
    IxPool *p = t->ix;
    const Ix **axis = ARENA_ARRAY(on->l->arena, const Ix *, t->axes.n);
    for (int a = 0; a < t->axes.n; a++) axis[a] = ix_axis(p, a);
    const Ix *end = ix_sub(p, t->axes.v[on->o.rows].extent, ix_const(p, 1));
    axis[on->o.rows] = last ? end : ix_const(p, 0);
    return ix_at(p, bound, axis, t->axes.n);
}

/* What is known of the program for all blocks. */
static void facts(On *on) {
    Lower *l = on->l;
    Online *o = &on->o;
    on->lo_moves = online_moves(l->deps, o->loop->lo, o->rows);
    on->hi_moves = online_moves(l->deps, o->loop->hi, o->rows);
    on->cut_lo = cuts(on, o->loop->lo, false);
    on->cut_hi = cuts(on, o->loop->hi, true);
    bool by_lo = on->lo_moves == 1 || on->lo_moves == -1;
    bool by_hi = on->hi_moves == 1 || on->hi_moves == -1;
    on->by_group = on->t.out.groups > 1 && !on->t.sync && !on->t.beside && (by_lo || by_hi) &&
                   !on->t.out.picked && !on->t.nbrought && on->t.out.split == 1;
    on_part_facts(on);
    const Ix *lo = on->t.out.picked ? o->loop->lo : extreme(on, o->loop->lo, on->lo_moves < 0);
    const Ix *hi = on->t.out.picked ? o->loop->hi : extreme(on, o->loop->hi, on->hi_moves > 0);
    on->scrub_lo = lo != ix_const(l->t->ix, 0);
    on->scrub_hi = hi != l->t->axes.v[o->j].extent;
    for (int p = 0; p < o->nproducts; p++) on->scrub_hi |= o->product[p].where.page > 0;
    on_page_facts(on);
    on_bits_facts(on);
    on_index_facts(on);
    on->varies = on->t.out.picked && online_bounds_vary(o);
    find_dropped(on);
    on_still_facts(on);
    on_near_facts(on);
    on->needed = ARENA_ARRAY(l->arena, bool, l->t->nvalues + 1);
    bool frames = on->nnear > 0;
    on->lags = on->t.early > 0;
    for (int c = 0; c < o->loop->carries.n; c++) {
        const TCarry *y = &o->loop->carries.v[c];
        frames |= y->frame >= 0 && !on_is_still(on, y);
        on->lags &= y->frame < 0 || y->lag > 0;
    }
    on->lags &= frames;
    for (int k = 0; k < o->nrows; k++)
        if (o->row[k].c->frame < 0 &&
            !(on->near_passes && (on->idle[k] || on_near_passes(on, &o->row[k]))))
            on_need(on, o->row[k].step->args[1]);
    on_mask_facts(on);
    for (int p = 0; p < o->nproducts; p++) {
        int f = o->product[p].factor, id = o->product[p].element;
        const TInst *i = l->def[id];
        on->factor_type[f] = o->product[p].b.type;
        bool rounds = i && i->kind == T_OP && i->op == OP_cast && i->type == on->factor_type[f];
        on->factor_value[f] = rounds ? i->args[0] : id;
    }
    on_near_close(on);
}

static int map_of(On *on, const MmaFactor *f, const OnlineSmem *m, int page) {
    return param_map(on->l, on_map(on, f, m, page), on->l->t->tensors.v[f->load->tensor].id);
}

static void maps(On *on) {
    Lower *l = on->l;
    Wg *w = &on->w;
    for (int k = 0; k < on->o.nscores; k++) {
        on->map_q[k] = map_of(on, &on->o.score[k].a, &on->t.q[k], 0);
        on->map_k[k] = map_of(on, &on->o.score[k].b, &on->t.k[k], on->o.score[k].where.page);
    }
    for (int p = 0; p < on->o.nproducts; p++)
        on->map_v[p] = map_of(on, &on->o.product[p].b, &on->t.v[p], on->o.product[p].where.page);
    on_bring_maps(on);
    for (int i = 0; i < w->t.nstaged; i++) {
        const MmaStaged *s = &w->t.staged[i];
        w->map_out[i] = param_map(l, wg_map_slab(w, s), l->t->tensors.v[s->inst->tensor].id);
        w->pairs[i] = ARENA_ARRAY(l->arena, Val, w->t.group_rows / 32 * w->t.chunk / 8);
    }
}

/* ---- guards ---- */

static void at_most(On *on, Kernel *k, const Ix *x, int64_t n) {
    IxPool *p = on->o.t->ix;
    KGuard g = {.kind = KG_NONNEG, .ix = ix_sub(p, ix_const(p, n), x)};
    int64_t c;
    if (ix_is_const(g.ix, &c) && c >= 0) return;
    for (int i = 0; i < k->guards.n; i++)
        if (k->guards.v[i].kind == KG_NONNEG && k->guards.v[i].ix == g.ix) return;
    vec_push(on->l->arena, &k->guards, g);
}

static void guards(On *on, Kernel *k) {
    const TProg *t = on->o.t;
    IxPool *p = t->ix;
    Wg *w = &on->w;
    enum { MOST = 1 << 30 };
    k->tiles = k->grid = on_work_all(on);
    k->block = on->l->s->threads;
    k->smem = ix_const(p, on->t.out.smem);
    k->persistent = on->l->s->persistent;
    if (on->l->s->dynamic) k->head = ix_const(p, 4);
    on_split_memory(on, k);
    k->cost = on->l->s->cost;
    for (int s = 0; s < on->o.nscores; s++) {
        Mma m = online_score_view(&on->o, s);
        wg_guard_map_in(w, k, &m, on->o.score[s].a.load);
        wg_guard_map_in(w, k, &m, on->o.score[s].b.load);
        at_most(on, k, t->axes.v[on->o.score[s].k].extent, on->t.depth[s]);
    }
    for (int n = 0; n < on->o.nproducts; n++) wg_guard_map_in(w, k, &w->m, on->o.product[n].b.load);
    on_brought_guards(on, k);
    if (on->o.cols >= 0) at_most(on, k, t->axes.v[on->o.cols].extent, on->t.cols);
    for (int i = 0; i < w->t.nstaged; i++)
        wg_guard_map_out(w, k, &t->tensors.v[w->t.staged[i].inst->tensor]);
    for (int i = 0; i < t->tensors.n; i++) {
        const TTensor *x = &t->tensors.v[i];
        KGuard g = {.kind = KG_STRIDE_ONE, .index = x->id, .dim = x->rank - 1};
        if (x->mem != TM_TEMP && x->rank) vec_push(on->l->arena, &k->guards, g);
    }
    for (int a = 0; a < t->ngrid; a++) at_most(on, k, t->axes.v[a].extent, MOST);
    at_most(on, k, t->axes.v[on->o.j].extent, MOST);
    at_most(on, k, k->tiles, MOST);
    for (int i = 0; i < on->bounds.n; i++) {
        const OnBound *x = &on->bounds.v[i];
        if (!*x->used) continue;
        at_most(on, k, x->hi, x->most);
        at_most(on, k, ix_neg(p, x->lo), x->most);
    }
}

bool online_emit(Lower *l, Kernel *k, Diags *d) {
    Str why = {0};
    On *on = ARENA_NEW(l->arena, On);
    *on = (On){.l = l, .w = {.l = l, .kernel = k->name}};
    if (!online_schedule(l->arena, l->t, l->s, &on->o, &on->t, &why)) {
        diag_error(d, (Span){0}, "schedule", "schedule %s of %s: %s", l->s->name, l->t->name,
                   str_get(&why));
        str_free(&why);
        return false;
    }
    on->w.t = on->t.out;
    on->held = on->t.out.group_rows / 32;
    on->nsums = on->held * on->t.out.n / 4;
    on->nelems = on->held * on->t.j / 4;
    if (on->t.sync) l->ctas = 65536 / (l->s->threads * on->t.out.mma_regs);
    on->w.m = (Mma){.t = l->t, .rows = on->o.rows, .cols = on->o.cols, .k = on->o.j};
    on->w.m.nest.t = l->t;
    on->w.m.nest.rest = l->t->body.inst.n;
    l->unit_last = l->roles = l->online = true;
    wg_builders(l);
    LLVMBasicBlockRef entry = LLVMGetInsertBlock(l->b);
    values_find(l);
    l->tile = LLVMBuildFreeze(l->frame, LLVMGetUndef(l->i64), "");
    facts(on);
    if (!on->t.sync) maps(on);
    emit_body(on, k);
    LLVMBuildBr(l->frame, entry);
    guards(on, k);
    bool ok = params_finish(l, k, d);
    if (ok) wg_make_kernel(&on->w);
    LLVMDisposeBuilder(l->frame);
    LLVMDisposeBuilder(l->entry);
    LLVMDisposeBuilder(l->b);
    return ok;
}
