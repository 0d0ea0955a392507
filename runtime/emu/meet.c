// See meet_int.h.
#include "runtime/emu/meet_int.h"

#include <stdlib.h>

enum { BUCKETS = 256 };

// What is known of a cluster's warps.
typedef struct Known {
    uint64_t linear;
    Seen *seen; // by warp of it
    struct Known *next;
} Known;

typedef struct Meet { // a place where clusters meet
    uint64_t key;
    Known *known;
    struct Meet *next;
} Meet;

struct Meets { // of a launch
    pthread_mutex_t lock;
    _Atomic uint32_t n;
    Meet *bucket[BUCKETS];
};

Meets *meets_new(void) {
    Meets *m = calloc(1, sizeof *m);
    if (m) pthread_mutex_init(&m->lock, NULL);
    return m;
}

static void free_known(Known *k) {
    while (k) {
        Known *next = k->next;
        free(k->seen);
        free(k);
        k = next;
    }
}

void meets_free(Meets *m) {
    for (uint32_t b = 0; m && b < BUCKETS; b++)
        for (Meet *at = m->bucket[b], *next; at; at = next) {
            next = at->next;
            free_known(at->known);
            free(at);
        }
    if (m) pthread_mutex_destroy(&m->lock);
    free(m);
}

void meet_forget(Cluster *c) {
    free_known(c->known);
    c->known = NULL;
}

// Without memory nothing is noted, and a race that is none may be reported; the launch will not get
// far then.
static Known *known_of(Known **list, uint64_t linear, uint32_t n_warps) {
    Known *k = *list;
    while (k && k->linear != linear) k = k->next;
    if (k) return k;
    k = calloc(1, sizeof *k);
    if (k && !(k->seen = calloc(n_warps, sizeof *k->seen))) {
        free(k);
        k = NULL;
    }
    if (!k) return NULL;
    *k = (Known){linear, k->seen, *list};
    return *list = k;
}

static void merge(Known **to, const Known *from, uint32_t n_warps) {
    for (; from; from = from->next) {
        Known *k = known_of(to, from->linear, n_warps);
        for (uint32_t w = 0; k && w < n_warps; w++) order_join(&k->seen[w], &from->seen[w]);
    }
}

static Meet *meet_at(Meets *m, uint64_t key, bool make) {
    Meet **bucket = &m->bucket[(key >> 2) % BUCKETS], *at = *bucket;
    while (at && at->key != key) at = at->next;
    if (at || !make || !(at = calloc(1, sizeof *at))) return at;
    at->key = key;
    at->next = *bucket;
    m->n++;
    return *bucket = at;
}

static uint64_t key_of(const Warp *w, bool shared, uint64_t a) {
    return shared ? (uint64_t)1 << 63 | w->cta->cluster->linear << 32 | a : a;
}

void meet_release(Warp *w, uint32_t lanes, bool shared, uint64_t a, bool strong) {
    Cluster *c = w->cta->cluster;
    Meets *m = c->grid->meets;
    Seen mine = strong ? order_own(w, lanes) : w->fenced;
    if (!mine.all && !mine.some) return;
    pthread_mutex_lock(&m->lock);
    Meet *at = meet_at(m, key_of(w, shared, a), true);
    Known *k = at ? known_of(&at->known, c->linear, c->n_warps) : NULL;
    for (uint32_t v = 0; k && v < c->n_warps; v++)
        order_join(&k->seen[v], &c->warps[v] == w ? &mine : &w->seen[v]);
    if (at) merge(&at->known, c->known, c->n_warps);
    pthread_mutex_unlock(&m->lock);
    order_tick(w);
}

void meet_see(Warp *w, bool shared, uint64_t a) {
    Cluster *c = w->cta->cluster;
    Meets *m = c->grid->meets;
    if (!m->n) return;
    pthread_mutex_lock(&m->lock);
    Meet *at = meet_at(m, key_of(w, shared, a), false);
    for (const Known *k = at ? at->known : NULL; k; k = k->next)
        for (uint32_t v = 0; k->linear == c->linear && v < c->n_warps; v++)
            if (&c->warps[v] != w) order_join(&w->seen[v], &k->seen[v]);
    if (at) merge(&c->known, at->known, c->n_warps);
    pthread_mutex_unlock(&m->lock);
}

bool meet_before(const Cluster *c, uint64_t linear, uint32_t warp, Mark m) {
    const Known *k = c->known;
    while (k && k->linear != linear) k = k->next;
    return k && order_covers(&k->seen[warp], m);
}
