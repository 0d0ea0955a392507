/* workspace.c - how much memory temporaries take, as the runtime lays them out (runtime/place.c):
 * what does not live at the same time may share a place.
 */
#include "compiler/compiler_int.h"

typedef struct Lives {
    FkmLife *life;
    uint32_t *order;
} Lives;

/* The steps that load or store a temporary. */
static Lives lives_of(Arena *a, const Plan *p) {
    Lives l = {ARENA_ARRAY(a, FkmLife, p->temps.n + 1), ARENA_ARRAY(a, uint32_t, p->temps.n + 1)};
    for (int i = 0; i < p->temps.n; i++) l.life[i] = (FkmLife){1, 0};
    for (int s = 0; s < p->steps.n; s++) {
        const TProg *t = p->steps.v[s].tile;
        for (int i = 0; i < t->tensors.n; i++) {
            if (t->tensors.v[i].mem != TM_TEMP) continue;
            FkmLife *x = &l.life[t->tensors.v[i].id];
            if (x->first > x->last) x->first = (uint32_t)s;
            x->last = (uint32_t)s;
        }
    }
    fkm_order(l.life, (uint32_t)p->temps.n, (uint32_t)p->steps.n, l.order);
    return l;
}

static const Ix *bytes_of(const Plan *p, int temp) {
    IxPool *ix = p->graph->ix;
    const Temp *t = &p->temps.v[temp];
    const Ix *bytes = expect_bytes(ix, t->type, t->rank, t->dims), *align = ix_const(ix, FKM_ALIGN);
    const Ix *blocks = ix_div(ix, ix_add(ix, bytes, ix_const(ix, FKM_ALIGN - 1)), align);
    return ix_mul(ix, blocks, align);
}

const Ix *workspace_apart(const Plan *p) {
    IxPool *ix = p->graph->ix;
    const Ix *sum = ix_const(ix, 0);
    for (int i = 0; i < p->temps.n; i++) sum = ix_add(ix, sum, bytes_of(p, i));
    return sum;
}

const Ix *workspace_least(const Plan *p) {
    enum { LONG = 64 }; /* temporaries: an expression of more is nobody's */
    IxPool *ix = p->graph->ix;
    Arena scratch = {0};
    const Ix *most = ix_const(ix, 0);
    Lives l = lives_of(&scratch, p);
    for (int s = 0; s < p->steps.n && p->temps.n <= LONG; s++) {
        const Ix *sum = ix_const(ix, 0);
        for (int i = 0; i < p->temps.n; i++)
            if (l.life[i].first <= (uint32_t)s && (uint32_t)s <= l.life[i].last)
                sum = ix_add(ix, sum, bytes_of(p, i));
        most = ix_max(ix, most, sum);
    }
    arena_free(&scratch);
    return most;
}

bool workspace_at(const Plan *p, const int64_t *sizes, int64_t *bytes) {
    Arena a = {0};
    Lives l = lives_of(&a, p);
    FkmPlaces places = {.n_temps = (uint32_t)p->temps.n,
                        .n_steps = (uint32_t)p->steps.n,
                        .life = l.life,
                        .order = l.order,
                        .bytes = ARENA_ARRAY(&a, uint64_t, p->temps.n + 1),
                        .at = ARENA_ARRAY(&a, uint64_t, p->temps.n + 1),
                        .scratch = ARENA_ARRAY(&a, uint64_t, p->steps.n + 1),
                        .scratch_at = ARENA_ARRAY(&a, uint64_t, p->steps.n + 1),
                        .live = ARENA_ARRAY(&a, uint32_t, p->temps.n + 1)};
    bool ok = true;
    for (int i = 0; i < p->temps.n && ok; i++) {
        int64_t n = ix_eval(bytes_of(p, i), &(IxEnv){.size = sizes}, &ok);
        ok = ok && n >= 0;
        places.bytes[i] = (uint64_t)n;
    }
    ok = ok && fkm_place(&places);
    *bytes = (int64_t)places.total;
    arena_free(&a);
    return ok;
}
