// See cluster_int.h.
#include "runtime/emu/cluster_int.h"

#include <stdlib.h>

#include "runtime/emu/async_int.h"
#include "runtime/emu/copy_int.h"
#include "runtime/emu/meet_int.h"
#include "runtime/emu/mma_int.h"
#include "runtime/emu/race_int.h"
#include "runtime/emu/stats_int.h"
#include "runtime/emu/sync_int.h"

enum { MAX_MBARRIERS = 256, QUANTUM = 1024, POLLS = 64 };

uint64_t emu_random(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

// ---- memory: one piece, cut twice in the same way, first to measure it ----

typedef struct Cut {
    uint8_t *base;
    size_t used;
} Cut;

static void *cut(Cut *c, size_t bytes) {
    void *p = c->base ? c->base + c->used : NULL;
    c->used += (bytes + 63) & ~(size_t)63;
    return p;
}

static void cut_warp(Cut *m, const Func *f, uint8_t *consts, Warp *w, MmaQueue *queue) {
    Warp x = {.bank = {cut(m, f->reg_bytes), consts},
              .pred = cut(m, f->n_preds * sizeof(uint32_t)),
              .local = cut(m, (size_t)f->local_bytes * LANES),
              .bulk = cut(m, sizeof(Bulk)),
              .async = f->copies ? cut(m, sizeof(Async)) : NULL,
              .mma = f->pinned_bytes ? cut(m, sizeof(Mma)) : NULL,
              .poison = f->pinned_bytes ? cut(m, f->reg_bytes / LANES) : NULL,
              .lists = f->lists,
              .func = f};
    if (!w) return;
    *w = x;
    if (w->mma) w->mma->queue = queue;
}

// The bank of immediates of a CTA that is not its cluster's first: addresses have its rank.
static void copy_consts(const Func *f, uint8_t *to, uint32_t rank) {
    memcpy(to, f->consts, f->const_bytes);
    for (uint32_t k = 0; k < f->n_addresses; k++)
        for (uint32_t l = 0; l < LANES; l++)
            to[f->addresses[k].at + l * (f->addresses[k].wide ? 8 : 4) + RANK_SHIFT / 8] =
                (uint8_t)rank;
}

static Cluster *cut_cluster(Cut *m, Grid *g) {
    const Func *f = g->f;
    uint32_t n = f->cluster ? f->cluster : 1;
    Cluster *c = cut(m, sizeof *c);
    Cta *ctas = cut(m, n * sizeof *ctas);
    Warp *warps = cut(m, (size_t)n * g->n_warps * sizeof *warps);
    uint32_t groups = (g->n_warps + GROUP_WARPS - 1) / GROUP_WARPS;
    MmaQueue *queues = cut(m, (size_t)n * groups * sizeof *queues);
    void *hot = cut(m, f->n * sizeof(Region *));
    void *hits = g->stats ? cut(m, f->n * sizeof(Hits)) : NULL;
    void *traffic = g->stats ? cut(m, g->n_regions * sizeof(Traffic)) : NULL;
    if (c) {
        *c = (Cluster){.grid = g, .ctas = ctas, .warps = warps, .n_ctas = n, .hot = hot};
        c->hits = hits, c->traffic = traffic;
        c->n_warps = n * g->n_warps;
    }
    for (uint32_t k = 0; k < n; k++) {
        Cta x = {.cluster = c,
                 .rank = k,
                 .shared = cut(m, g->shared_bytes),
                 .written = cut(m, g->shared_bytes),
                 .mbar = cut(m, MAX_MBARRIERS * sizeof(Mbar)),
                 .room_mbar = MAX_MBARRIERS,
                 .remote = cut(m, (size_t)n * g->n_warps * sizeof(uint64_t)),
                 .warps = c ? warps + k * g->n_warps : NULL};
        uint8_t *consts = k ? cut(m, f->const_bytes) : f->consts;
        if (c) ctas[k] = x;
        if (c && k) copy_consts(f, consts, k);
        for (uint32_t q = 0; q < g->n_warps; q++) {
            Warp *w = c ? &x.warps[q] : NULL;
            cut_warp(m, f, consts, w, queues ? &queues[k * groups + q / GROUP_WARPS] : NULL);
            if (w) w->cta = &ctas[k], w->id = q;
        }
    }
    return c;
}

Cluster *cluster_new(Grid *g) {
    Cut m = {0};
    cut_cluster(&m, g);
    m.base = aligned_alloc(64, m.used);
    if (!m.base) return NULL;
    memset(m.base, 0, m.used);
    m.used = 0;
    Cluster *c = cut_cluster(&m, g);
    c->memory = m.base;
    if (order_new(c) && race_new(c)) return c;
    cluster_free(c);
    return NULL;
}

void cluster_free(Cluster *c) {
    if (!c) return;
    if (c->hits) stats_add(c);
    copy_free(c);
    async_free(c);
    free(c->copies);
    for (uint32_t k = 0; k < c->n_warps; k++) {
        free(c->warps[k].bulk->copy);
        if (c->warps[k].mma && k % GROUP_WARPS == 0) free(c->warps[k].mma->queue->op);
    }
    order_free(c);
    race_free(c);
    meet_forget(c);
    free(c->memory);
}

// ---- the start ----

static void set(Warp *w, Special s, uint32_t first, uint32_t step) {
    int32_t at = w->func->special[s];
    if (at < 0) return;
    uint32_t *v = (uint32_t *)(void *)(w->bank[0] + at);
    for (uint32_t l = 0; l < LANES; l++) v[l] = first + l * step;
}

static void set_threads(Warp *w, const Grid *g) {
    for (uint32_t l = 0; l < LANES; l++) {
        uint32_t t = w->id * LANES + l, v[3] = {t % g->block[0], t / g->block[0] % g->block[1],
                                                t / g->block[0] / g->block[1]};
        uint32_t masks[5] = {1u << l, (1u << l) - 1, 0, 0, 0};
        masks[2] = masks[1] | masks[0], masks[3] = ~masks[2], masks[4] = ~masks[1];
        for (int k = 0; k < 8; k++) {
            int32_t at = w->func->special[k < 3 ? SPECIAL_TID_X + k : SPECIAL_LANEMASK_EQ + k - 3];
            if (at >= 0) ((uint32_t *)(void *)(w->bank[0] + at))[l] = k < 3 ? v[k] : masks[k - 3];
        }
    }
}

static void start_warp(Warp *w) {
    const Cluster *c = w->cta->cluster;
    const Grid *g = c->grid;
    uint32_t left = g->n_threads - w->id * LANES;
    memset(w->bank[0], 0xff, w->func->reg_bytes); // NaNs, and addresses that nobody has
    memset(w->pred, c->linear & 1 ? 0xff : 0, w->func->n_preds * sizeof *w->pred);
    w->pred[PRED_FALSE] = 0, w->pred[PRED_TRUE] = ALL_LANES;
    w->live = w->mask = left >= LANES ? ALL_LANES : (1u << left) - 1;
    w->pc = 0, w->stop = w->tried = UINT32_MAX;
    w->n_away = 0, w->wait = WAIT_NOTHING, w->passed = w->arrived = false;
    if (w->mma) mma_reset(w);
    if (w->mma) memset(w->poison, 0, w->func->reg_bytes / LANES);
    w->poisoned = false, w->spoilt = w->loaded = 0;
    if (w->async) async_start(w);
    set_threads(w, g);
    for (int k = 0; k < 3; k++) {
        set(w, (Special)(SPECIAL_NTID_X + k), g->block[k], 0);
        set(w, (Special)(SPECIAL_CTAID_X + k), w->cta->id[k], 0);
        set(w, (Special)(SPECIAL_NCTAID_X + k), g->dim[k], 0);
    }
    set(w, SPECIAL_LANEID, 0, 1);
    set(w, SPECIAL_CLUSTER_CTARANK, w->cta->rank, 0);
    set(w, SPECIAL_CLUSTER_NCTARANK, c->n_ctas, 0);
    set(w, SPECIAL_CLUSTER_CTAID_X, w->cta->rank, 0);
    set(w, SPECIAL_CLUSTER_NCTAID_X, c->n_ctas, 0);
    set(w, SPECIAL_CLUSTERID_X, w->cta->id[0] / c->n_ctas, 0);
    set(w, SPECIAL_NCLUSTERID_X, g->dim[0] / c->n_ctas, 0);
}

static void start_cta(Cta *c) {
    const Grid *g = c->cluster->grid;
    uint64_t n = c->cluster->linear * c->cluster->n_ctas + c->rank;
    c->id[0] = (uint32_t)(n % g->dim[0]);
    c->id[1] = (uint32_t)(n / g->dim[0] % g->dim[1]);
    c->id[2] = (uint32_t)(n / g->dim[0] / g->dim[1]);
    memset(c->shared, 0xff, g->shared_bytes);
    memset(c->written, 0, g->shared_bytes);
    memset(c->barrier, 0, sizeof c->barrier);
    memset(c->remote, 0, c->cluster->n_warps * sizeof *c->remote);
    c->n_mbar = 0;
    c->spoilt = NULL;
    c->live = g->n_warps;
    c->regs_free = 0;
    uint32_t regs = (1u << 16) / (g->n_warps * LANES) / 8 * 8;
    for (uint32_t k = 0; k < g->n_warps; k++) {
        c->regs[k] = regs < 256 ? regs : 256;
        start_warp(&c->warps[k]);
    }
}

void cluster_start(Cluster *c, uint64_t linear) {
    c->linear = linear;
    c->random = c->grid->seed * 0x2545f4914f6cdd1du + linear;
    c->executed = 0, c->polls = 0, c->next_warp = 0, c->phase = 0, c->came = 0;
    c->n_arrivals = 0;
    for (uint32_t k = 0; k < c->n_ctas; k++) start_cta(&c->ctas[k]);
    order_start(c);
    race_start(c);
    meet_forget(c);
}

// ---- turns ----

// Seed 0: one after the other, long turns, loads as late as can be. Others: at random.
static Warp *next_warp(Cluster *c, uint32_t *quantum) {
    uint64_t r = c->grid->seed ? emu_random(&c->random) : 0;
    uint32_t from = c->grid->seed ? (uint32_t)(r % c->n_warps) : c->next_warp;
    *quantum = c->grid->seed ? 1 + (uint32_t)(r >> 40 & 511) : QUANTUM;
    for (uint32_t k = 0; k < c->n_warps; k++) {
        uint32_t n = (from + k) % c->n_warps;
        if (c->warps[n].wait != WAIT_NOTHING) continue;
        c->next_warp = (n + 1) % c->n_warps;
        return &c->warps[n];
    }
    return NULL;
}

// What a warp waits for, and how far that is.
static void put_wait(Warp *w, char *out, size_t room) {
    static const char *const texts[] = {
#define WAIT(name, text) text,
#include "runtime/emu/wait.def"
#undef WAIT
    };
    const Barrier *b = &w->cta->barrier[w->wait_at % BARRIERS];
    const Mbar *m = w->wait == WAIT_MBARRIER ? sync_mbar_find(w->cta, w->wait_at) : NULL;
    uint32_t at = w->wait_at + (m ? SHARED_BASE : 0);
    int n = snprintf(out, room, texts[w->wait], at, w->wait_parity);
    if (m)
        snprintf(out + n, room - (size_t)n, ", which lacks %lld of %u arrivals and %lld bytes",
                 (long long)m->pending, m->count, (long long)m->tx);
    else if (w->wait == WAIT_BARRIER)
        snprintf(out + n, room - (size_t)n, ", where %d of %u threads are",
                 __builtin_popcount(b->came) * LANES, b->expected);
}

// An mbarrier that has all its arrivals, and no copy is under way to bring it to 0 bytes.
static void check_bytes(Warp *w) {
    const Mbar *m = w->wait == WAIT_MBARRIER ? sync_mbar_find(w->cta, w->wait_at) : NULL;
    if (m && !m->pending && m->tx)
        report(w, &w->func->code[w->pc], -1, REPORT_EXPECT_TX,
               "the mbarrier at shared address %u has all arrivals, %lld bytes too %s, and no copy "
               "is under way",
               m->at + SHARED_BASE, (long long)(m->tx > 0 ? m->tx : -m->tx),
               m->tx > 0 ? "few" : "many");
}

static Step deadlock(Cluster *c) {
    char all[1400];
    size_t n = 0;
    Warp *first = NULL;
    for (uint32_t k = 0; k < c->n_warps && n < sizeof all - 200; k++) {
        Warp *w = &c->warps[k];
        char what[192], line[60];
        uint32_t to = k;
        if (w->wait == WAIT_DONE) continue;
        if (!first) first = w;
        while (to + 1 < c->n_warps && c->warps[to + 1].wait == w->wait &&
               c->warps[to + 1].pc == w->pc && c->warps[to + 1].wait_at == w->wait_at &&
               c->warps[to + 1].cta == w->cta)
            to++;
        put_wait(w, what, sizeof what);
        check_bytes(w);
        const Ins *i = &w->func->code[w->pc];
        n += (size_t)snprintf(all + n, sizeof all - n, "%swarp%s %u", n ? "; " : "",
                              to > k ? "s" : "", w->id);
        if (to > k) n += (size_t)snprintf(all + n, sizeof all - n, " to %u", c->warps[to].id);
        if (c->n_ctas > 1)
            n += (size_t)snprintf(all + n, sizeof all - n, " of CTA %u", w->cta->id[0]);
        n += (size_t)snprintf(all + n, sizeof all - n, " %s (PTX line %u '%s')", what, i->line,
                              emu_line(w->func->module, i->line, line, sizeof line));
        k = to;
    }
    return report(first, NULL, -1, REPORT_DEADLOCK, "%s", all);
}

static Step finish(Cluster *c) {
    Step s = copy_finish(c);
    async_finish(c);
    for (uint32_t k = 0; k < c->n_ctas && s != STOP; k++) sync_leftovers(&c->ctas[k]);
    for (uint32_t k = 0; k < c->n_warps && s != STOP; k++)
        if (c->warps[k].mma && c->warps[k].mma->pending)
            report(&c->warps[k], NULL, -1, REPORT_WGMMA, "warp %u ended with wgmma not waited for",
                   c->warps[k].id);
    copy_free(c);
    return s;
}

static uint32_t under_way(const Cluster *c) {
    return c->n_copies + c->n_arrivals;
}

// One thing that is asynchronous comes to its end.
static Step asynchronous(Cluster *c) {
    bool load = !c->n_arrivals || (c->n_copies && emu_random(&c->random) & 1);
    return load ? copy_some_load(c) : async_some_arrival(c);
}

Step cluster_run(Cluster *c) {
    Reports *r = c->grid->reports;
    for (;;) {
        uint32_t quantum;
        if (atomic_load_explicit(&r->ended, memory_order_relaxed)) return STOP;
        if (under_way(c) && c->grid->seed && emu_random(&c->random) % 8 == 0 &&
            asynchronous(c) == STOP)
            return STOP;
        Warp *w = next_warp(c, &quantum);
        if (!w) {
            bool done = true;
            for (uint32_t k = 0; k < c->n_warps; k++) done &= c->warps[k].wait == WAIT_DONE;
            if (done) return finish(c);
            if (!under_way(c)) return deadlock(c);
            if (asynchronous(c) == STOP) return STOP;
            continue;
        }
        if (warp_run(w, quantum) == STOP) return STOP;
        if (w->wait == WAIT_DONE) {
            w->cta->live--;
            sync_ended(w);
        }
        if (c->executed > c->grid->limit)
            return report(w, &w->func->code[w->pc], -1, REPORT_WATCHDOG,
                          "the cluster has executed %llu instructions",
                          (unsigned long long)c->executed);
        if (c->polls > POLLS) {
            c->polls = 0;
            return YIELD;
        }
    }
}
