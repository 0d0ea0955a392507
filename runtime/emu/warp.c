// A warp's instructions, one after the other, each for all lanes that are at it.
//
// Lanes that went different ways wait at their pcs (Warp.away) while those with the lowest pc run;
// as flow.c ordered the code, lanes meet where their ways join.
#include "runtime/emu/mma_int.h"
#include "runtime/emu/stats_int.h"

static void set_stop(Warp *w) {
    w->stop = w->n_away ? w->away[0].pc : UINT32_MAX;
}

static void put_away(Warp *w, uint32_t pc, uint32_t mask) {
    uint32_t k = 0;
    while (k < w->n_away && w->away[k].pc < pc) k++;
    if (k < w->n_away && w->away[k].pc == pc) {
        w->away[k].mask |= mask;
        return;
    }
    memmove(w->away + k + 1, w->away + k, sizeof *w->away * (w->n_away++ - k));
    w->away[k] = (Lanes){pc, mask};
}

static void take_lowest(Warp *w) {
    w->pc = w->away[0].pc;
    w->mask = w->away[0].mask;
    memmove(w->away, w->away + 1, sizeof *w->away * --w->n_away);
}

// The lanes that run have reached or passed the next ones.
static void regroup(Warp *w) {
    put_away(w, w->pc, w->mask);
    take_lowest(w);
    set_stop(w);
}

void warp_branch(Warp *w, uint32_t taken, uint32_t target) {
    put_away(w, target, taken);
    w->mask &= ~taken;
    w->pc++;
    regroup(w);
}

void warp_end(Warp *w, uint32_t ended) {
    w->live &= ~ended;
    w->mask &= ~ended;
    w->pc++;
    if (!w->mask && w->n_away) {
        take_lowest(w);
        set_stop(w);
    }
    if (w->live) return;
    w->wait = WAIT_DONE;
    w->pc--;
}

static bool partial(Warp *w, const Ins *i, uint32_t m) {
    return report(w, i, __builtin_ctz(m), REPORT_PARTIAL,
                  "lanes 0x%08x execute it, and 0x%08x of the warp are there to", m,
                  w->live) == STOP;
}

Step warp_run(Warp *w, uint32_t quantum) {
    Cluster *c = w->cta->cluster;
    const Ins *code = w->func->code;
    for (; quantum; quantum--) {
        const Ins *i = &code[w->pc];
        uint32_t m = w->mask & (w->pred[i->pred] ^ i->flip);
        if (c->hits) stats_executed(c, w->pc, m);
        c->executed++;
        if (m) {
            if (i->together && m != w->live && partial(w, i, m)) return STOP;
            if (i->pinned && mma_touch(w, i) == STOP) return STOP;
            if (w->poisoned && poison_step(w, i, m) == STOP) return STOP;
            Step s = i->run(w, i, m);
            if (w->loaded) poison_loaded(w, i, m);
            if (s == BLOCK || s == STOP) return s;
            if (s == JUMP) {
                if (w->wait == WAIT_DONE) return NEXT;
            } else {
                w->pc++;
            }
            if (s == YIELD) quantum = 1;
        } else {
            w->pc++;
        }
        if (w->pc >= w->stop) regroup(w);
    }
    return NEXT;
}
