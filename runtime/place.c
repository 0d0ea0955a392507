// Where temporaries and scratch lie in the workspace: what does not live at the same time may share
// a place. Each takes the first gap, from the head on, that it fits in between those that live with
// it: temporaries in the order of their first steps, whatever the scratch is; so more scratch never
// makes less of a workspace.
#include <string.h>

#include "runtime/fkm.h"

static void see(const FkmParam *p, uint32_t step, FkmLife *life) {
    bool temp = p->kind == FKM_PARAM_TEMP || (p->kind == FKM_PARAM_TMAP && p->map.temp);
    if (!temp) return;
    FkmLife *l = &life[p->index];
    if (l->first > l->last) l->first = step;
    l->last = step;
}

void fkm_lives(const FkmFn *f, FkmLife *life) {
    for (uint32_t i = 0; i < f->n_temps; i++) life[i] = (FkmLife){1, 0};
    for (uint32_t s = 0; s < f->n_steps; s++)
        for (uint32_t v = 0; v < f->steps[s].n_variants; v++)
            for (uint32_t l = 0; l < f->steps[s].variants[v].n_launches; l++) {
                const FkmLaunch *x = &f->steps[s].variants[v].launches[l];
                for (uint32_t i = 0; i < x->n_params; i++) see(&x->params[i], s, life);
            }
}

void fkm_order(const FkmLife *life, uint32_t n, uint32_t n_steps, uint32_t *order) {
    uint32_t at = 0;
    for (uint32_t s = 0; s < n_steps && at < n; s++)
        for (uint32_t i = 0; i < n; i++)
            if (life[i].first == s && life[i].last >= s) order[at++] = i;
    for (uint32_t i = 0; i < n; i++)
        if (life[i].first > life[i].last) order[at++] = i;
}

static uint64_t end_of(const FkmPlaces *p, uint32_t temp) {
    return p->at[temp] + p->bytes[temp];
}

// The first gap of so many bytes; *before: the number of those that live below it.
static uint64_t gap(const FkmPlaces *p, uint32_t n_live, uint64_t bytes, uint32_t *before) {
    uint64_t from = p->head;
    uint32_t k = 0;
    while (k < n_live && p->at[p->live[k]] - from < bytes) from = end_of(p, p->live[k++]);
    *before = k;
    return from;
}

// To whole pieces of ALIGN; false: that leaves what a workspace may have.
static bool round_up(uint64_t *bytes) {
    if (*bytes > (uint64_t)INT64_MAX / 2) return false;
    *bytes = (*bytes + FKM_ALIGN - 1) & ~(uint64_t)(FKM_ALIGN - 1);
    return true;
}

static bool grow(FkmPlaces *p, uint64_t from, uint64_t bytes) {
    if (from > (uint64_t)INT64_MAX / 2) return false;
    if (from + bytes > p->total) p->total = from + bytes;
    return true;
}

static bool place_temp(FkmPlaces *p, uint32_t temp, uint32_t *n_live) {
    uint32_t k;
    p->at[temp] = p->head;
    if (!round_up(&p->bytes[temp])) return false;
    if (!p->bytes[temp]) return true;
    p->at[temp] = gap(p, *n_live, p->bytes[temp], &k);
    memmove(p->live + k + 1, p->live + k, (*n_live - k) * sizeof *p->live);
    p->live[k] = temp;
    ++*n_live;
    return grow(p, p->at[temp], p->bytes[temp]);
}

bool fkm_place(FkmPlaces *p) {
    uint32_t next = 0, n_live = 0, before;
    if (!round_up(&p->head)) return false;
    p->total = p->head;
    for (uint32_t s = 0; s < p->n_steps; s++) {
        uint32_t kept = 0;
        for (uint32_t k = 0; k < n_live; k++)
            if (p->life[p->live[k]].last >= s) p->live[kept++] = p->live[k];
        n_live = kept;
        for (; next < p->n_temps && p->life[p->order[next]].first == s; next++)
            if (!place_temp(p, p->order[next], &n_live)) return false;
        p->scratch_at[s] = p->head;
        if (!round_up(&p->scratch[s])) return false;
        if (!p->scratch[s]) continue;
        p->scratch_at[s] = gap(p, n_live, p->scratch[s], &before);
        if (!grow(p, p->scratch_at[s], p->scratch[s])) return false;
    }
    for (; next < p->n_temps; next++) p->at[p->order[next]] = p->head; // nobody names them
    return true;
}
