// See mma_int.h.
#include "runtime/emu/mma_int.h"

#include <stdlib.h>

#include "runtime/emu/sync_int.h"

static uint32_t number(const Opd *o) {
    return o->at / (4 * LANES);
}

#define BIT(set, k) ((set)[(k) / 64] >> (k) % 64 & 1)
#define SET(set, k) ((set)[(k) / 64] |= (uint64_t)1 << (k) % 64)

// ---- registers ----

static Step touch(Warp *w, const Ins *i, const Opd *o) {
    Mma *s = w->mma;
    if (o->bank || o->cls < OPD_16 || o->cls > OPD_64 || o->at >= w->func->pinned_bytes)
        return NEXT;
    uint32_t k = number(o);
    if (BIT(s->writes, k) || (o->writes && BIT(s->reads, k))) {
        Step r = report(w, i, -1, REPORT_IN_FLIGHT,
                        "it %s a register that a wgmma %s, and no wgmma.wait_group has waited for",
                        o->writes ? "writes" : "reads", BIT(s->writes, k) ? "writes" : "reads");
        if (r == STOP) return r;
    }
    SET(s->touched, k);
    return NEXT;
}

Step mma_touch(Warp *w, const Ins *i) {
    for (int k = 0; k < i->n; k++) {
        const Opd *o = &i->o[k];
        if (o->cls != OPD_LIST) {
            if (touch(w, i, o) == STOP) return STOP;
            continue;
        }
        for (int e = 0; e < o->offset; e++)
            if (touch(w, i, element(w, o, e)) == STOP) return STOP;
    }
    return NEXT;
}

Step mma_fence(Warp *w) {
    memset(w->mma->touched, 0, sizeof w->mma->touched);
    return NEXT;
}

static Step check_fenced(Warp *w, const Ins *i, const Opd *list) {
    for (int k = 0; k < list->offset; k++)
        if (BIT(w->mma->touched, number(element(w, list, k))))
            return report(w, i, -1, REPORT_WGMMA_FENCE,
                          "its registers were read or written since the last wgmma.fence");
    return NEXT;
}

// ---- the queue ----

static MmaOp *new_op(MmaQueue *q) {
    if (q->n == q->room) {
        uint32_t room = q->room ? 2 * q->room : 32;
        MmaOp *grown = realloc(q->op, room * sizeof *grown);
        if (!grown) return NULL;
        q->op = grown;
        q->room = room;
    }
    return &q->op[q->n++];
}

static void mark(Warp *w, const MmaOp *op) {
    const Ins *i = op->i;
    for (int k = 0; k < i->o[0].offset; k++) SET(w->mma->writes, number(element(w, &i->o[0], k)));
    for (int k = 0; i->o[1].cls == OPD_LIST && k < i->o[1].offset; k++)
        SET(w->mma->reads, number(element(w, &i->o[1], k)));
    w->mma->pending = true;
}

Step mma_ask(Warp *w, const Ins *i, uint64_t a, uint64_t b, bool add) {
    Mma *s = w->mma;
    MmaQueue *q = s->queue;
    uint64_t at = s->asked - q->first;
    if (w->live != ALL_LANES ||
        w->id / GROUP_WARPS * GROUP_WARPS + GROUP_WARPS > w->cta->cluster->grid->n_warps)
        return report(w, i, -1, REPORT_WGMMA, "its warpgroup is not of 128 threads");
    if (check_fenced(w, i, &i->o[0]) == STOP) return STOP;
    if (i->o[1].cls == OPD_LIST && check_fenced(w, i, &i->o[1]) == STOP) return STOP;
    if (at == q->n) {
        MmaOp *op = new_op(q);
        if (!op) return report(w, i, -1, REPORT_HOST, "out of memory for wgmma");
        *op = (MmaOp){.i = i, .a = a, .b = b, .add = add};
    }
    MmaOp *op = &q->op[at];
    if (op->i != i || op->a != a || op->b != b || op->add != add)
        return report(w, i, -1, REPORT_WGMMA,
                      "another warp of its warpgroup does another wgmma at its place (PTX line %u, "
                      "descriptors 0x%llx 0x%llx, here 0x%llx 0x%llx)",
                      op->i->line, (unsigned long long)op->a, (unsigned long long)op->b,
                      (unsigned long long)a, (unsigned long long)b);
    op->came |= (uint8_t)(1u << w->id % GROUP_WARPS);
    s->asked++;
    mark(w, op);
    if (op->came == (1u << GROUP_WARPS) - 1) sync_wake(w->cta, WAIT_GROUP, w->id / GROUP_WARPS);
    return NEXT;
}

static void spoil(MmaQueue *q, MmaOp *op, uint64_t rows, const Fault *f) {
    op->bad |= rows;
    q->fault = *f;
}

void mma_spoil(Warp *w, uint64_t rows, const Fault *f) {
    MmaQueue *q = w->mma->queue;
    spoil(q, &q->op[w->mma->asked - 1 - q->first], rows, f);
}

void mma_spoil_pending(Cluster *c, Mark m, const Fault *f) {
    uint32_t groups = (c->first_bulk - c->first_mma) / c->n_ctas, group = m.who - 1 - c->first_mma;
    const Warp *w = &c->ctas[group / groups].warps[group % groups * GROUP_WARPS];
    MmaQueue *q = w->mma->queue;
    uint64_t at = m.tick - 1 - q->first;
    if (m.tick > q->first && at < q->n && !q->op[at].done)
        spoil(q, &q->op[at], ~(uint64_t)0 << LEAST_ROWS, f);
}

void mma_commit(Warp *w) {
    Mma *s = w->mma;
    s->commit[s->commits++ % MMA_COMMITS] = s->asked;
}

Step mma_wait(Warp *w, const Ins *i, uint32_t n, uint64_t *until) {
    Mma *s = w->mma;
    MmaQueue *q = s->queue;
    if (n >= MMA_COMMITS - 1)
        return report(w, i, -1, REPORT_WGMMA, "a wait that leaves %u groups", n);
    *until = s->commits > n ? s->commit[(s->commits - 1 - n) % MMA_COMMITS] : 0;
    if (*until <= s->waited) *until = s->waited;
    for (uint64_t k = s->waited; k < *until; k++)
        if (q->op[k - q->first].came != (1u << GROUP_WARPS) - 1) {
            w->wait = WAIT_GROUP;
            w->wait_at = w->id / GROUP_WARPS;
            return BLOCK;
        }
    return NEXT;
}

void mma_waited(Warp *w, uint64_t until) {
    Mma *s = w->mma;
    MmaQueue *q = s->queue;
    s->waited = until;
    order_waited(w, order_mma_agent(w), -1, (uint32_t)until);
    memset(s->writes, 0, sizeof s->writes);
    memset(s->reads, 0, sizeof s->reads);
    s->pending = false;
    for (uint64_t k = until; k < s->asked; k++) mark(w, &q->op[k - q->first]);
    const Warp *group = &w->cta->warps[w->id / GROUP_WARPS * GROUP_WARPS];
    uint64_t least = UINT64_MAX;
    for (int k = 0; k < GROUP_WARPS; k++)
        if (group[k].mma->waited < least) least = group[k].mma->waited;
    uint32_t gone = (uint32_t)(least - q->first);
    memmove(q->op, q->op + gone, sizeof *q->op * (q->n -= gone));
    q->first = least;
}

void mma_reset(Warp *w) {
    MmaQueue *q = w->mma->queue;
    *w->mma = (Mma){.queue = q};
    memset(w->mma->touched, 0xff, sizeof w->mma->touched);
    q->n = 0;
    q->first = 0;
    q->fault.i = NULL;
}
