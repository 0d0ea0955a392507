/* online_stream.c - tiles of a persistent CTA that run into one another: while the products of a
 * tile's last block are made, the scores of the next tile's first one are, before them, and what
 * follows from these is computed; then what is left of the tile before is stored. So the tensor
 * core does not wait while a tile ends and another begins. It takes two buffers of the rows'
 * factors, and turns, or windows, whose tiles are short: other groups were slower so, as measured.
 *
 *     head:  a tile; if the group needs none of its blocks: finish it
 *            its first block
 *     inner: its other blocks; the next tile
 *     join:  is there one, of which the group needs a block: that block, with the products of this
 *            tile's last one; store this tile; to inner
 *     last:  else: these products; store this tile; to head
 */
#include "backend/nvptx/online_int.h"

bool on_streams(const On *on) {
    bool window = on->lo_moves && on->hi_moves;
    return (on->l->s->pingpong || window) && on->l->s->persistent && on->t.ahead > 1 &&
           on->t.stages > 1 && !on->t.out.over && on->o.nproducts && !on->t.out.picked &&
           !on->t.nbrought && on->t.out.split == 1;
}

/* What goes from tile to tile: places in rings, of K and V the same one. */
typedef struct OnFlow {
    Val item;
    Ring k, q, next;
} OnFlow;

static OnFlow flow_phis(On *on, const OnFlow *from, LLVMBasicBlockRef before) {
    Lower *l = on->l;
    OnFlow f;
    f.item = wg_phi(l, l->i32, from->item, before);
    const Ring *r[3] = {&from->k, &from->q, &from->next};
    Ring *to[3] = {&f.k, &f.q, &f.next};
    for (int i = 0; i < 3; i++)
        *to[i] =
            (Ring){wg_phi(l, l->i32, r[i]->stage, before), wg_phi(l, l->i32, r[i]->phase, before)};
    return f;
}

static void flow_add(const OnFlow *phis, const OnFlow *to, LLVMBasicBlockRef from) {
    const Ring *phi[3] = {&phis->k, &phis->q, &phis->next}, *r[3] = {&to->k, &to->q, &to->next};
    Val item = to->item;
    LLVMAddIncoming(phis->item, &item, &from, 1);
    for (int i = 0; i < 3; i++) {
        Val v[2] = {r[i]->stage, r[i]->phase};
        LLVMAddIncoming(phi[i]->stage, &v[0], &from, 1);
        LLVMAddIncoming(phi[i]->phase, &v[1], &from, 1);
    }
}

static void flow_next(On *on, const OnFlow *phis, const OnFlow *to) {
    flow_add(phis, to, LLVMGetInsertBlock(on->l->b));
}

static OnFlow flow_start(On *on) {
    Ring r = {i32c(on->l, 0), i32c(on->l, 0)};
    return (OnFlow){.item = on->w.first, .k = r, .q = r, .next = r};
}

static void wait_rows(On *on, Ring q) {
    ptx_mbar_wait(on->l, on_full(on, BAR_Q, q.stage), q.phase);
}

/* Where two ways meet: what each brings. */
typedef struct Meet {
    OnState s;
    OnFlow f;
    LLVMBasicBlockRef from;
} Meet;

static Meet leave(On *on, const OnState *s, const OnFlow *f, LLVMBasicBlockRef to) {
    LLVMBuildBr(on->l->b, to);
    return (Meet){*s, *f, LLVMGetInsertBlock(on->l->b)};
}

/* Stores the tile; to `head` with the next one. */
static void finish(On *on, Meet none, Meet last, Val none_next, Val last_next,
                   const OnFlow *head_phis, LLVMBasicBlockRef head) {
    Lower *l = on->l;
    Val **phi;
    int n;
    OnState s = on_state_phis(on, &none.s, none.from, &phi, &n);
    Val **at = ARENA_ARRAY(l->arena, Val *, n);
    on_state_list(on, &last.s, at);
    for (int i = 0; i < n; i++) LLVMAddIncoming(*phi[i], at[i], &last.from, 1);
    OnFlow f = flow_phis(on, &none.f, none.from);
    Val next = wg_phi(l, l->i32, none_next, none.from);
    LLVMAddIncoming(next, &last_next, &last.from, 1);
    flow_add(&f, &last.f, last.from);
    on_release(on, BAR_Q, f.q.stage);
    on_finish(on, &s, f.item);
    OnFlow to = {next, s.k, on_next(on, f.q, on->t.ahead), f.next};
    flow_add(head_phis, &to, LLVMGetInsertBlock(l->b));
    LLVMBuildBr(l->b, head);
}

void on_stream(On *on) {
    Lower *l = on->l;
    LLVMBasicBlockRef before = LLVMGetInsertBlock(l->b), head = block_new(l, "tile");
    LLVMBasicBlockRef open = block_new(l, "open"), exit = block_new(l, "done");
    LLVMBasicBlockRef none = block_new(l, "none"), some = block_new(l, "some");
    LLVMBasicBlockRef inner = block_new(l, "inner"), look = block_new(l, "look");
    LLVMBasicBlockRef join = block_new(l, "join"), last = block_new(l, "last");
    LLVMBasicBlockRef end = block_new(l, "finish");
    LLVMBuildBr(l->b, head);
    block_enter(l, head);
    OnFlow start = flow_start(on), f = flow_phis(on, &start, before);
    LLVMBuildCondBr(l->b, on_is_tile(on, f.item), open, exit);

    block_enter(l, open);
    LLVMBasicBlockRef uniform = wg_uniform_begin(&on->w);
    on_forget(on);
    on_begin(on, f.item);
    OnState s = on_nothing(on, f.k);
    wait_rows(on, f.q);
    LLVMBuildCondBr(l->b, on_some(on), some, none);

    block_enter(l, none);
    OnState skipped = s;
    on_skip(on, &skipped);
    wg_meet(&on->w); /* as products do: no warp still waits for what is released now */
    OnFlow f_none = f;
    Val none_next = on_hear(on, f.item, &f_none.next);
    Meet from_none = leave(on, &skipped, &f_none, end);

    block_enter(l, some);
    s = on_first_block(on, &s, f.q.stage, NULL, NULL);
    OnKnown place = on_known_take(on);
    Meet from_some = leave(on, &s, &f, inner);

    block_enter(l, inner);
    Val **phi;
    int n;
    s = on_state_phis(on, &from_some.s, from_some.from, &phi, &n);
    OnFlow g_phis = flow_phis(on, &from_some.f, from_some.from), g = g_phis;
    OnKnown phis = on_known_phis(on, &place, from_some.from);
    on_known_put(on, &phis);
    on_forget(on);
    OnRanges was = on_ranges(on);
    s = on_blocks(on, &s, g.q.stage);
    Val next = on_hear(on, g.item, &g.next);
    LLVMBuildCondBr(l->b, on_is_tile(on, next), look, last);

    block_enter(l, look);
    on_forget(on);
    on_begin(on, next);
    LLVMBuildCondBr(l->b, on_joins(on, &was), join, last);

    block_enter(l, join);
    OnState old = on_state_copy(on, &s), fresh = on_nothing(on, s.k);
    on_release(on, BAR_Q, g.q.stage);
    Ring q = on_next(on, g.q, on->t.ahead);
    wait_rows(on, q);
    fresh = on_first_block(on, &fresh, q.stage, &old, &was);
    place = on_known_take(on);
    on_forget(on);
    on_finish(on, &old, g.item);
    on_known_put(on, &place);
    place = on_known_take(on);
    OnFlow to = {next, fresh.k, q, g.next};
    on_state_next(on, phi, &fresh);
    flow_next(on, &g_phis, &to);
    on_known_next(on, &phis, &place);
    LLVMBuildBr(l->b, inner);

    block_enter(l, last);
    on_last_products(on, &s, &was);
    Meet from_last = leave(on, &s, &g, end);

    block_enter(l, end);
    on_forget(on);
    finish(on, from_none, from_last, none_next, next, &f, head);
    wg_uniform_end(&on->w, uniform);
    block_enter(l, exit);
}
