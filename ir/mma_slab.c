/* mma_slab.c - stores and loads after the loop that go through shared memory: which can, and how a
 * schedule lays them.
 *
 * A chunk is some columns of a group's rows, of every one of them. Stores lie over loads: one with
 * the layout of a load takes its place, so that a thread (a warp, with ldmatrix and stmatrix)
 * writes where it alone has read; what is left over lies behind those pairs, loads and stores over
 * each other, and then the group must meet between reading and writing.
 */
#include "ir/mma_int.h"

#define no mma_no

static bool of_tile(const Mma *m, const Ix *x) {
    return ix_uses_axis(x, m->rows) || ix_uses_axis(x, m->cols);
}

static bool shape(const TProg *t, const Mma *m, const TInst *i, MmaStaged *s, Str *why) {
    const TTensor *x = &t->tensors.v[i->tensor];
    *s = (MmaStaged){.inst = i, .row = -1, .size = dtype_bits(x->type) / 8};
    if (x->rank > 5 || x->rank < 2 || !ix_uses_axis(i->ix[x->rank - 1], m->cols))
        return no(why, "columns are not the last of at most 5 dimensions of %s", x->name);
    if (s->size < 1 || s->size > 4)
        return no(why, "%s has elements of %d bits, not 8 to 32", x->name, dtype_bits(x->type));
    for (int d = 0; d < i->nix; d++) {
        const Ix *ix = i->ix[d];
        bool row = ix_uses_axis(ix, m->rows), last = d == x->rank - 1;
        if (ix->has_value) return no(why, "%s is gathered", x->name);
        if (ix_uses_axis(ix, m->cols) != last || (row && (last || s->row >= 0)))
            return no(why, "%s does not have rows and columns in one dimension each", x->name);
        if (row) s->row = d;
    }
    if (s->row < 0) return no(why, "%s has no rows", x->name);
    return true;
}

/* Beyond the end of a tensor, where no tile has elements that matter, 0 is read. */
static bool can_bring(const TProg *t, const Mma *m, const TInst *i, MmaStaged *s, Str *why) {
    const TTensor *x = &t->tensors.v[i->tensor];
    if (!shape(t, m, i, s, why)) return false;
    if (i->checked) return no(why, "%s is read outside its domain", x->name);
    for (int d = 0; d < i->nix; d++) {
        const Ix *rest;
        int64_t coef;
        int axis = d == s->row ? m->rows : m->cols;
        if (of_tile(m, i->ix[d]) &&
            (!ix_linear_in(t->ix, i->ix[d], axis, &coef, &rest) || coef != 1))
            return no(why, "%s is not read one row or column after the other", x->name);
    }
    int unit;
    if (!mma_begins(m, i, &unit)) return no(why, "%s begins at no multiple of 16 bytes", x->name);
    return true;
}

static bool can_stage(const TProg *t, const Mma *m, const TInst *i, MmaStaged *s, Str *why) {
    const TTensor *x = &t->tensors.v[i->tensor];
    if (!shape(t, m, i, s, why)) return false;
    for (int d = 0; d < i->nix; d++) {
        int axis;
        if (of_tile(m, i->ix[d]) &&
            (!ix_is_axis(i->ix[d], &axis) || x->dims[d] != t->axes.v[axis].extent))
            return no(why, "%s is not written over whole rows and columns", x->name);
    }
    return true;
}

bool mma_can_stage(const TProg *t, const Mma *m, const TInst *store) {
    MmaStaged s;
    Str why = {0};
    bool can = can_stage(t, m, store, &s, &why);
    str_free(&why);
    return can;
}

bool mma_can_bring(const TProg *t, const Mma *m, const TInst *load) {
    MmaStaged s;
    Str why = {0};
    bool can = can_bring(t, m, load, &s, &why);
    str_free(&why);
    return can;
}

/* ---- the schedule ---------------------------------------------------------------------------- */

static bool add(const SValue *v, MmaStaged s, MmaTiles *w, Str *why) {
    bool load = s.inst->kind == T_LOAD;
    int *n = load ? &w->nbrought : &w->nstaged;
    if (v->swizzle != 32 && v->swizzle != 64 && v->swizzle != 128)
        return no(why, "a slab needs a swizzle of 32, 64 or 128");
    if (v->buffers < 1 || v->buffers > 8) return no(why, "%d slabs; 1 to 8 are right", v->buffers);
    if (v->plain) return no(why, "a slab is not plain");
    w->over |= v->over;
    if (*n == MMA_STAGED) return no(why, "more than %d slabs of one kind", MMA_STAGED);
    s.swizzle = v->swizzle;
    s.evict = v->evict;
    s.box = v->swizzle / s.size;
    int cols = s.box * (v->slabs ? v->slabs : 1);
    if (w->ring && w->ring != v->buffers)
        return no(why, "%d buffers and %d: all have the same number", w->ring, v->buffers);
    w->ring = v->buffers;
    if (cols > w->chunk) w->chunk = cols;
    (load ? w->brought : w->staged)[(*n)++] = s;
    return true;
}

static bool read_entry(const TProg *t, const Mma *m, const SValue *v, MmaTiles *w, Str *why) {
    int before = w->nstaged + w->nbrought;
    for (int n = 0; n < t->body.inst.n; n++) {
        const TInst *i = t->body.inst.v[n];
        bool store = i->kind == T_STORE && i->args[0] == v->value;
        bool load = i->kind == T_LOAD && i->id == v->value;
        MmaStaged s;
        if (load && !w->carried) return no(why, "%%%d is brought, but no role is slab", v->value);
        if ((store && !can_stage(t, m, i, &s, why)) || (load && !can_bring(t, m, i, &s, why)))
            return false;
        if ((store || load) && !add(v, s, w, why)) return false;
    }
    if (v->place != PLACE_smem || w->nstaged + w->nbrought == before)
        return no(why, "%%%d is neither a factor nor stored nor loaded after the loop", v->value);
    return true;
}

static int region(const MmaTiles *w, const MmaStaged *s) {
    return w->group_rows * w->chunk * s->size;
}

static MmaStaged *like(MmaTiles *w, const MmaStaged *load) {
    for (int i = 0; i < w->nstaged; i++) {
        MmaStaged *s = &w->staged[i];
        if (s->at < 0 && s->size == load->size && s->swizzle == load->swizzle) return s;
    }
    return NULL;
}

static int after(const MmaTiles *w, MmaStaged *list, int n, int at) {
    for (int i = 0; i < n; i++) {
        if (list[i].at >= 0) continue;
        list[i].at = at;
        at += region(w, &list[i]);
    }
    return at;
}

/* Of products with tiles of their own, one at a time has its stores over all that is loaded. */
static void lay_grouped(MmaTiles *w) {
    int loads = after(w, w->brought, w->nbrought, 0);
    w->chunk_bytes = loads;
    for (int p = 0; p < w->products; p++) {
        int at = 0;
        for (int i = 0; i < w->nstaged; i++) {
            if (!(w->staged[i].of >> p & 1)) continue;
            w->staged[i].at = at;
            at += region(w, &w->staged[i]);
        }
        w->meet |= at && loads;
        if (at > w->chunk_bytes) w->chunk_bytes = at;
    }
}

static void lay(MmaTiles *w) {
    int at = 0;
    for (int i = 0; i < w->nstaged; i++) w->staged[i].at = -1;
    for (int i = 0; i < w->nbrought; i++) w->brought[i].at = -1;
    if (w->products > 1) {
        lay_grouped(w);
        return;
    }
    for (int i = 0; i < w->nbrought; i++) {
        MmaStaged *store = like(w, &w->brought[i]);
        w->brought[i].at = store ? at : -1;
        if (!store) continue;
        store->at = at;
        at += region(w, store);
    }
    int loads = after(w, w->brought, w->nbrought, at), stores = after(w, w->staged, w->nstaged, at);
    w->meet = loads > at && stores > at;
    w->chunk_bytes = loads > stores ? loads : stores;
}

static bool is_factor(const Mma *m, int value) {
    bool is = value == m->a.value || value == m->b.value;
    for (int n = 1; n < m->sums; n++) is |= value == m->more[n - 1].value;
    return is;
}

static void find_sums(const Mma *m, MmaTiles *w) {
    Str why = {0};
    unsigned *of = ARENA_ARRAY(m->t->arena, unsigned, m->t->body.inst.n);
    bool apart = w->products > 1 && mma_apart(m, of, &why);
    for (int i = 0; i < w->nstaged + w->nbrought && apart; i++) {
        MmaStaged *x = i < w->nstaged ? &w->staged[i] : &w->brought[i - w->nstaged];
        for (int k = 0; k < m->t->body.inst.n; k++)
            if (m->t->body.inst.v[k] == x->inst) x->of = of[k];
    }
    str_free(&why);
}

bool mma_read_slabs(const TProg *t, const Schedule *s, const Mma *m, MmaTiles *w, Str *why) {
    for (int k = 0; k < s->values.n; k++) {
        const SValue *v = &s->values.v[k];
        if (is_factor(m, v->value)) continue;
        if (!read_entry(t, m, v, w, why)) return false;
    }
    if (w->thin && w->ring) return no(why, "slabs of a tile of %d rows, below 64", w->m);
    if (w->carried && (w->a.plain || w->b.plain))
        return no(why, "plain loads need the warps of slab");
    if (w->carried && !w->ring) return no(why, "a role slab, but no slabs");
    for (int i = 0; i < w->nstaged + w->nbrought; i++) {
        const MmaStaged *x = i < w->nstaged ? &w->staged[i] : &w->brought[i - w->nstaged];
        if (w->chunk % x->box || w->chunk % 16 || w->n % w->chunk)
            return no(why, "%d columns do not cut into slabs of %d", w->n, w->chunk);
    }
    find_sums(m, w);
    lay(w);
    return true;
}
