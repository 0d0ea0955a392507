/* online_wgmma.c - what the tensor core does for a group, by wgmma: issued here, waited for where
 * it is used. Of a block of which the group's rows need a part of the columns (online_part.c), it
 * is that part.
 */
#include "backend/nvptx/online_step_int.h"

enum { UNITS = 128 / 16 /* of a descriptor, to the next line of 128 bytes */ };

/* What wgmma has read, all warps of a group have; words that lie beside it, each for itself. */
void on_release(On *on, enum OnBar what, Val stage) {
    if (on->t.sync) return;
    bool words = on->t.out.picked && what != BAR_V;
    if (words) ptx_sync_warp(on->l);
    ptx_mbar_arrive(on->l, on_empty(on, what, stage), words ? on->w.lane0 : on->w.leader);
}

/* From line `line` of a buffer on. */
static Val at_stage(On *on, Val desc, const OnlineSmem *m, Val stage, int line) {
    Val at = wg_at_stage(&on->w, desc, stage, m->bytes / 16);
    return line ? LLVMBuildAdd(on->l->b, at, i32c(on->l, line * UNITS), "") : at;
}

void on_issue_scores(On *on, OnBlock *b, OnState *s, Val q) {
    Lower *l = on->l;
    ptx_mbar_wait(l, on_full(on, BAR_K, s->k.stage), s->k.phase);
    if (on->t.out.picked) b->next = on_pick_hear_block(on, s->k.stage);
    for (int k = 0; k < on->o.nscores; k++) {
        const OnlineSmem *mq = &on->t.q[k], *mk = &on->t.k[k];
        WgmmaPieces w = {.type = on->o.score[k].a.type,
                         .n = b->part.cols,
                         .steps = (on->t.depth[k] + 15) / 16,
                         .per_piece = 4,
                         .a_step = 2,
                         .a_piece = mq->lines * 8,
                         .b_step = 2,
                         .b_piece = mk->lines * 8,
                         .high = 64 | 1u << 30};
        b->score[k] = ARENA_ARRAY(l->arena, Val, on->t.j / 2);
        ptx_wgmma_scores(l, &w, at_stage(on, on->desc_q[k], mq, q, 0),
                         at_stage(on, on->desc_k[k], mk, s->k.stage, b->part.from),
                         b->score[k] + b->part.from / 2);
    }
}

void on_issue_products(On *on, OnState *s, OnPart part) {
    Lower *l = on->l;
    if (!on->o.nproducts) return;
    ptx_mbar_wait(l, on_full(on, BAR_V, s->v.stage), s->v.phase);
    for (int p = 0; p < on->o.nproducts; p++) {
        const OnlineProduct *x = &on->o.product[p];
        WgmmaPieces w = {.type = x->b.type,
                         .n = on->t.out.n,
                         .steps = part.cols / 16,
                         .per_piece = on->t.j / 16,
                         .b_step = 128,
                         .high = 64 | 1u << 30};
        ptx_wgmma_rows(l, &w, s->factor[x->factor] + part.from / 4,
                       at_stage(on, on->desc_v[p], &on->t.v[p], s->v.stage, part.from), s->acc[p],
                       p == 0, p == on->o.nproducts - 1);
    }
}

void on_wait_scores(On *on, OnBlock *b, int pending) {
    int from = b->part.from / 2, n = b->part.cols / 2, all = n * on->o.nscores;
    Val *v = ARENA_ARRAY(on->l->arena, Val, all);
    for (int k = 0; k < on->o.nscores; k++)
        for (int i = 0; i < n; i++) v[k * n + i] = b->score[k][from + i];
    ptx_wgmma_wait_group(on->l, pending);
    ptx_hold(on->l, all, v);
    for (int k = 0; k < on->o.nscores; k++)
        for (int i = 0; i < n; i++) b->score[k][from + i] = v[k * n + i];
}

void on_wait_products(On *on, OnState *s) {
    if (!on->o.nproducts) return;
    ptx_wgmma_wait_group(on->l, 0);
    for (int p = 0; p < on->o.nproducts; p++) ptx_hold(on->l, on->nsums, s->acc[p]);
    on_release(on, BAR_V, s->v.stage);
    s->v = on_next(on, s->v, on->t.stages);
}

void on_products(On *on, OnState *s) {
    on_issue_products(on, s, on_all(on));
    on_wait_products(on, s);
}
