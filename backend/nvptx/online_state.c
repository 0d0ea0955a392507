/* online_state.c - what goes from block to block (OnState) and what is known of a tile (OnKnown),
 * as lists of values: so that a loop may have phis of all of them.
 */
#include "backend/nvptx/online_int.h"

#include <string.h>

/* ---- the state, as a list ---- */

int on_row_held(int i, int columns) {
    return i / (columns / 2) * 2 + i / 2 % 2;
}

static void put(Val **list, int *n, Val *v) {
    if (list) list[*n] = v;
    ++*n;
}

/* list NULL: how many */
int on_state_list(const On *on, OnState *s, Val **list) {
    int n = 0;
    for (int p = 0; p < on->o.nproducts; p++)
        for (int i = 0; i < on->nsums; i++) put(list, &n, &s->acc[p][i]);
    for (int f = 0; f < on->o.nfactors && (!on->t.sync || on->t.late); f++)
        for (int i = 0; i < on->nelems / 2; i++) put(list, &n, &s->factor[f][i]);
    for (int k = 0; k < on->o.nrows; k++)
        for (int r = 0; r < on->held; r++) {
            put(list, &n, &s->row[k][r]);
            if ((on->lags || on->still[k]) && on_is_frame(on, k)) put(list, &n, &s->ref[k][r]);
            if (on_tracks(on, k)) put(list, &n, &s->any[k][r]);
        }
    if (on->t.sync) { /* one ring; online_scrub.c alone asks for its phase */
        if (on->t.stages > 1) put(list, &n, &s->k.stage);
        if (on->t.used_words && on->t.stages == 1) put(list, &n, &s->k.phase);
        return n;
    }
    put(list, &n, &s->k.stage), put(list, &n, &s->k.phase);
    put(list, &n, &s->v.stage), put(list, &n, &s->v.phase);
    if (on->t.nbrought) put(list, &n, &s->e.stage), put(list, &n, &s->e.phase);
    return n;
}

OnState on_state_new(On *on) {
    OnState s = {0};
    Arena *a = on->l->arena;
    for (int p = 0; p < on->o.nproducts; p++) s.acc[p] = ARENA_ARRAY(a, Val, on->nsums);
    for (int f = 0; f < on->o.nfactors; f++) s.factor[f] = ARENA_ARRAY(a, Val, on->nelems / 2);
    return s;
}

OnState on_state_copy(On *on, const OnState *from) {
    OnState s = on_state_new(on), f = *from;
    s.k = from->k;
    int n = on_state_list(on, &s, NULL);
    Val **to = ARENA_ARRAY(on->l->arena, Val *, n), **of = ARENA_ARRAY(on->l->arena, Val *, n);
    on_state_list(on, &s, to);
    on_state_list(on, &f, of);
    for (int i = 0; i < n; i++) *to[i] = *of[i];
    return s;
}

/* Phis of all of s, from `before`; list is of their places. */
OnState on_state_phis(On *on, const OnState *from, LLVMBasicBlockRef before, Val ***list, int *n) {
    OnState s = on_state_copy(on, from);
    *n = on_state_list(on, &s, NULL);
    *list = ARENA_ARRAY(on->l->arena, Val *, *n);
    Val **at = ARENA_ARRAY(on->l->arena, Val *, *n);
    on_state_list(on, &s, at);
    for (int i = 0; i < *n; i++) {
        *at[i] = wg_phi(on->l, LLVMTypeOf(*at[i]), *at[i], before);
        (*list)[i] = ARENA_NEW(on->l->arena, Val);
        *(*list)[i] = *at[i];
    }
    return s;
}

void on_state_next(On *on, Val **phi, OnState *s) {
    int n = on_state_list(on, s, NULL);
    Val **at = ARENA_ARRAY(on->l->arena, Val *, n);
    on_state_list(on, s, at);
    for (int i = 0; i < n; i++) wg_phi_next(on->l, *phi[i], *at[i]);
}

/* Where several ways of code meet, the state that each brings. */
OnState on_state_join(On *on, int ways, OnState *end, const LLVMBasicBlockRef *from) {
    Val **phi;
    int n;
    OnState all = on_state_phis(on, &end[0], from[0], &phi, &n);
    Val **list = ARENA_ARRAY(on->l->arena, Val *, n);
    for (int w = 1; w < ways; w++) {
        LLVMBasicBlockRef of = from[w];
        on_state_list(on, &end[w], list);
        for (int k = 0; k < n; k++) LLVMAddIncoming(*phi[k], list[k], &of, 1);
    }
    return all;
}

/* ---- what is known of a tile ---- */

/* Arrays of their own for what is known of the tile: others may have copies of it. */
static void own(On *on) {
    Lower *l = on->l;
    for (int a = 0; a < l->t->ngrid; a++) {
        AxisState *x = &l->axis[a];
        if (!x->open) continue;
        Val *e = ARENA_ARRAY(l->arena, Val, x->count), *in = ARENA_ARRAY(l->arena, Val, x->count);
        memcpy(e, x->e, sizeof *e * (size_t)x->count);
        memcpy(in, x->in, sizeof *in * (size_t)x->count);
        x->e = e, x->in = in;
    }
    for (int id = 0; id <= l->t->nvalues; id++) {
        Frag *f = &l->value[id];
        if (!f->n) continue;
        Val *v = ARENA_ARRAY(l->arena, Val, f->n);
        memcpy(v, f->v, sizeof *v * (size_t)f->n);
        f->v = v;
    }
}

/* list NULL: how many */
static int list_known(On *on, Val **list) {
    Lower *l = on->l;
    Val *known[] = {&on->row0,     &on->lo_least,   &on->hi_most,    &on->first,
                    &on->end,      &on->whole,      &on->beyond,     &on->mine.first,
                    &on->mine.end, &on->mine.whole, &on->mine.beyond};
    int n = 0;
    for (size_t k = 0; k < sizeof known / sizeof *known; k++) put(list, &n, known[k]);
    if (on->part_hi) put(list, &n, &on->mine.low);
    for (int r = 0; r < on->held; r++) put(list, &n, &on->lo[r]), put(list, &n, &on->hi[r]);
    for (int a = 0; a < l->t->ngrid; a++)
        for (int k = 0; l->axis[a].open && k < l->axis[a].count; k++) {
            put(list, &n, &l->axis[a].e[k]);
            if (l->axis[a].in[k]) put(list, &n, &l->axis[a].in[k]);
        }
    for (int id = 0; id <= l->t->nvalues; id++)
        for (int k = 0; k < l->value[id].n; k++) put(list, &n, &l->value[id].v[k]);
    return n;
}

OnKnown on_known_take(On *on) {
    Lower *l = on->l;
    own(on);
    OnKnown p = {.n = list_known(on, NULL)};
    Val **at = ARENA_ARRAY(l->arena, Val *, p.n);
    p.v = ARENA_ARRAY(l->arena, Val, p.n);
    list_known(on, at);
    for (int k = 0; k < p.n; k++) p.v[k] = *at[k];
    p.axis = ARENA_ARRAY(l->arena, AxisState, l->t->ngrid);
    p.value = ARENA_ARRAY(l->arena, Frag, l->t->nvalues + 1);
    memcpy(p.axis, l->axis, sizeof *p.axis * (size_t)l->t->ngrid);
    memcpy(p.value, l->value, sizeof *p.value * (size_t)(l->t->nvalues + 1));
    return p;
}

void on_known_put(On *on, const OnKnown *p) {
    Lower *l = on->l;
    memcpy(l->axis, p->axis, sizeof *p->axis * (size_t)l->t->ngrid);
    memcpy(l->value, p->value, sizeof *p->value * (size_t)(l->t->nvalues + 1));
    own(on);
    Val **at = ARENA_ARRAY(l->arena, Val *, p->n);
    FK_ASSERT(list_known(on, NULL) == p->n);
    list_known(on, at);
    for (int k = 0; k < p->n; k++) *at[k] = p->v[k];
}

OnKnown on_known_phis(On *on, const OnKnown *from, LLVMBasicBlockRef before) {
    OnKnown p = *from;
    p.v = ARENA_ARRAY(on->l->arena, Val, p.n);
    for (int k = 0; k < p.n; k++)
        p.v[k] = wg_phi(on->l, LLVMTypeOf(from->v[k]), from->v[k], before);
    return p;
}

void on_known_next(On *on, const OnKnown *phis, const OnKnown *to) {
    FK_ASSERT(phis->n == to->n);
    for (int k = 0; k < to->n; k++) wg_phi_next(on->l, phis->v[k], to->v[k]);
}
