// See order_int.h. Agents: the cluster's warps, then their cp.async, if the kernel has any, the
// wgmma of its warpgroups, the bulk stores of its warps, and its mbarriers as they are made. A
// vector has an entry for each of them, and then, for each kind of memory, more for each warp and
// its cp.async: what a fence.proxy.async of it stands behind.
#include "runtime/emu/order_int.h"

#include <stdlib.h>

#include "runtime/emu/async_int.h"

void order_join(Seen *to, const Seen *from) {
    if (from->all > to->all) to->all = from->all;
    if (from->some > to->some) to->some = from->some;
    to->lanes |= from->lanes;
    if (to->some <= to->all) to->some = to->lanes = 0;
}

static void join_all(const Cluster *c, Seen *to, const Seen *from) {
    for (uint32_t k = 0; k < c->n_agents; k++) order_join(&to[k], &from[k]);
    for (uint32_t k = c->room_agents; k < c->room_agents + PROXIES * c->first_mma; k++)
        order_join(&to[k], &from[k]);
}

static size_t length(const Cluster *c) {
    return c->room_agents + PROXIES * c->first_mma;
}

void order_clear(const Cluster *c, Seen *s) {
    memset(s, 0, length(c) * sizeof(Seen));
}

void order_copy(const Cluster *c, Seen *to, const Seen *from) {
    memcpy(to, from, c->n_agents * sizeof *to);
    memcpy(to + c->room_agents, from + c->room_agents, PROXIES * c->first_mma * sizeof *to);
}

// ---- memory ----

static uint32_t groups(const Cluster *c) {
    return c->n_ctas * ((c->grid->n_warps + GROUP_WARPS - 1) / GROUP_WARPS);
}

bool order_new(Cluster *c) {
    c->first_mma = c->grid->f->copies ? 2 * c->n_warps : c->n_warps;
    c->first_bulk = c->first_mma + groups(c);
    c->first_mbar = c->first_bulk + c->n_warps;
    c->room_agents = c->first_mbar + c->n_ctas * c->ctas[0].room_mbar;
    uint32_t n = c->n_warps + c->n_ctas * BARRIERS + 2; // the last two: of the cluster's barrier
    size_t each = length(c);
    if (!(c->seen = calloc(n, each * sizeof(Seen)))) return false;
    for (uint32_t k = 0; k < c->n_warps; k++) c->warps[k].seen = c->seen + k * each;
    for (uint32_t k = 0; k < c->n_ctas * BARRIERS; k++)
        c->ctas[k / BARRIERS].barrier_seen[k % BARRIERS] = c->seen + (c->n_warps + k) * each;
    c->arrived_seen = c->seen + (n - 2) * each;
    c->passed_seen = c->seen + (n - 1) * each;
    return true;
}

void order_free(Cluster *c) {
    for (uint32_t k = 0; k < c->n_ctas; k++)
        for (uint32_t b = 0; b < c->ctas[k].room_mbar; b++) free(c->ctas[k].mbar[b].seen);
    free(c->seen);
}

void order_start(Cluster *c) {
    c->n_agents = c->first_mbar;
    memset(c->seen, 0, (c->n_warps + c->n_ctas * BARRIERS + 2) * length(c) * sizeof(Seen));
    for (uint32_t k = 0; k < c->n_warps; k++) {
        Warp *w = &c->warps[k];
        w->tick = 1;
        w->synced = 0;
        w->fenced = (Seen){0};
    }
}

bool order_mbar(Cluster *c, Mbar *b) {
    size_t each = length(c);
    if (c->n_agents >= c->room_agents || c->n_agents + 1 >= MARK_MBARRIER) return false;
    if (!b->seen && !(b->seen = malloc(2 * each * sizeof(Seen)))) return false;
    b->done = b->seen + each;
    order_clear(c, b->seen);
    order_clear(c, b->done);
    b->agent = c->n_agents++;
    return true;
}

// ---- what makes order ----

static uint32_t agent_of(const Warp *w) {
    return (uint32_t)(w - w->cta->cluster->warps);
}

uint32_t order_async_agent(const Warp *w) {
    return w->cta->cluster->n_warps + agent_of(w);
}

uint32_t order_mma_agent(const Warp *w) {
    const Cluster *c = w->cta->cluster;
    uint32_t per = groups(c) / c->n_ctas;
    return c->first_mma + w->cta->rank * per + w->id / GROUP_WARPS;
}

uint32_t order_bulk_agent(const Warp *w) {
    const Cluster *c = w->cta->cluster;
    return c->first_bulk + agent_of(w);
}

void order_tick(Warp *w) {
    if (w->tick < MOST_TICK) w->tick++;
}

// What the lanes have done, as others see it.
Seen order_own(const Warp *w, uint32_t lanes) {
    bool all = (lanes & w->live) == w->live;
    return all ? (Seen){w->tick, 0, 0} : (Seen){w->synced, w->tick, lanes};
}

// The cp.async that the lanes have waited for, as others see them.
static void join_copies(const Warp *w, uint32_t lanes, Seen *to) {
    Seen mine = {0};
    uint32_t least = UINT32_MAX;
    if (!w->async) return;
    for (uint32_t left = lanes & w->live; left; left &= left - 1) {
        int l = __builtin_ctz(left);
        uint32_t waited = w->async->waited[l];
        if (waited < least) least = waited;
        if (waited > mine.some) mine.some = waited;
        if (waited) mine.lanes |= 1u << l;
    }
    if ((lanes & w->live) == w->live && least < UINT32_MAX) mine.all = least;
    order_join(&to[order_async_agent(w)], &mine);
}

void order_release(Warp *w, uint32_t lanes, Seen *to) {
    const Cluster *c = w->cta->cluster;
    Seen mine = order_own(w, lanes);
    join_all(c, to, w->seen);
    for (uint32_t k = c->first_mbar; k < c->n_agents; k++) { // what one of the lanes has seen
        if (w->seen[k].lanes & lanes && w->seen[k].some > to[k].all) to[k].all = w->seen[k].some;
        to[k].some = to[k].lanes = 0;
    }
    order_join(&to[agent_of(w)], &mine);
    join_copies(w, lanes, to);
    order_tick(w);
}

void order_see(Warp *w, const Seen *from) {
    join_all(w->cta->cluster, w->seen, from);
}

void order_see_loads(Warp *w, uint32_t lanes, uint32_t agent, const Seen *from) {
    Seen mine = w->seen[agent];
    order_see(w, from);
    if ((lanes & w->live) == w->live) return;
    if (from[agent].all > mine.some) mine.lanes = 0;
    if (from[agent].all > mine.all) mine.some = from[agent].all, mine.lanes |= lanes;
    w->seen[agent] = mine;
}

void order_together(Warp *w) {
    const Cluster *c = w->cta->cluster;
    for (uint32_t k = c->first_mbar; k < c->n_agents; k++)
        if (w->seen[k].some) w->seen[k] = (Seen){.all = w->seen[k].some};
    join_copies(w, w->live, w->seen);
    w->synced = w->tick;
    order_tick(w);
}

void order_proxy_fence(Warp *w, uint32_t lanes, uint32_t memory) {
    const Cluster *c = w->cta->cluster;
    Seen *fenced = w->seen + c->room_agents, mine = order_own(w, lanes);
    for (uint32_t p = 0; p < PROXIES; p++, fenced += c->first_mma) {
        if (!(memory >> p & 1)) continue;
        for (uint32_t k = 0; k < c->first_mma; k++) order_join(&fenced[k], &w->seen[k]);
        order_join(&fenced[agent_of(w)], &mine);
        join_copies(w, lanes, fenced);
    }
    order_tick(w);
}

void order_fence(Warp *w, uint32_t lanes) {
    w->fenced = order_own(w, lanes);
    order_tick(w);
}

void order_release_fenced(Warp *w, Seen *to) {
    const Cluster *c = w->cta->cluster;
    if (!w->fenced.all && !w->fenced.some) return;
    join_all(c, to, w->seen);
    join_copies(w, w->live, to);
    order_join(&to[agent_of(w)], &w->fenced);
}

void order_waited(Warp *w, uint32_t agent, int lane, uint32_t until) {
    Seen s = lane < 0 ? (Seen){until, 0, 0} : (Seen){0, until, 1u << lane};
    order_join(&w->seen[agent], &s);
}

// ---- questions ----

Mark order_mark_later(const Warp *w, const Ins *i, uint32_t agent, int lane, uint64_t tick) {
    Mark m = {.bits = 0};
    m.who = (agent + 1) & 0xfff;
    m.lane = lane < 0 ? LANE_SEVERAL : lane & 31;
    m.tick = (tick < MOST_TICK ? tick : MOST_TICK) & MOST_TICK;
    m.ins = (uint64_t)(i - w->func->code) & 0xfffff;
    return m;
}

Mark order_mark(const Warp *w, const Ins *i, int lane) {
    return order_mark_later(w, i, agent_of(w), lane, w->tick);
}

bool order_covers(const Seen *s, Mark m) {
    if (m.tick <= s->all) return true;
    if (m.tick > s->some) return false;
    return m.lane >= LANES ? s->lanes == ALL_LANES : s->lanes >> m.lane & 1;
}

bool order_before(const Warp *w, int lane, Mark m) {
    uint32_t agent = (uint32_t)m.who - 1;
    const Seen *s = &w->seen[agent];
    if (mark_kind(w->cta->cluster, m) == AGENT_LOAD)
        return m.tick <= s->all ||
               (m.tick <= s->some && (lane < 0 ? s->lanes != 0 : s->lanes >> lane & 1));
    if (mark_kind(w->cta->cluster, m) == AGENT_ASYNC && agent == order_async_agent(w) &&
        (int)m.lane == lane && m.tick <= w->async->waited[lane])
        return true;
    if (agent == agent_of(w) && (lane < 0 || (int)m.lane == lane || m.tick <= w->synced))
        return true;
    return order_covers(s, m);
}

bool order_fenced(const Warp *w, Mark m, uint32_t memory) {
    const Cluster *c = w->cta->cluster;
    uint32_t at = c->room_agents + (memory == PROXY_GLOBAL ? c->first_mma : 0);
    return order_covers(&w->seen[at + m.who - 1], m);
}

bool order_copied(const Cluster *c, Mark m) {
    return m.tick <= c->warps[m.who - 1 - c->n_warps].async->waited[m.lane & 31];
}

bool order_before_end(const Cta *c, Mark m) {
    for (uint32_t k = 0; k < c->cluster->grid->n_warps; k++)
        if (order_before(&c->warps[k], -1, m)) return true;
    return false;
}
