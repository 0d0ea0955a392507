/* eval_tile_prep.c - sets up the evaluation of a plan: tensors of every step, sizes put into index
 * expressions, types looked up; then runs the steps in order and hands out the outputs.
 */
#include "ir/eval_tile_int.h"

#include <stdlib.h>

/* ---- programs ------------------------------------------------------------------------------- */

static bool number(const EvalProg *p, const Ix *x, int64_t *out) {
    bool ok = true;
    int64_t *size = ARENA_ARRAY(p->arena, int64_t, p->nsizes);
    for (int i = 0; i < p->nsizes; i++) ix_is_const(p->sizes[i], &size[i]);
    IxEnv env = {.size = size};
    *out = ix_eval(x, &env, &ok);
    return ok;
}

static Lin lin_make(EvalProg *p, const Ix *x) {
    IxSubst s = {.sizes = p->sizes, .nsz = p->nsizes};
    IxTerm *t;
    x = ix_subst(&p->ix, x, &s);
    Lin l = {0};
    int n = ix_terms(&p->ix, x, &t);
    l.term = ARENA_ARRAY(p->arena, struct LinTerm, n);
    for (int k = 0; k < n; k++) {
        if (!t[k].atom) {
            l.c = t[k].coef;
        } else if (t[k].atom->kind == IX_AXIS) {
            l.term[l.n++] = (struct LinTerm){(int)t[k].atom->num, t[k].coef};
        } else {
            return (Lin){.x = x};
        }
    }
    return l;
}

static void prepare_block(EvalProg *p, const TBlock *b, PInst **body, int *n, int depth);

static void prepare_carries(EvalProg *p, const TInst *i, PInst *to) {
    for (int k = 0; k < i->carries.n; k++) {
        const TCarry *c = &i->carries.v[k];
        p->carry[c->id] = c;
        p->type[c->id] = c->type;
        to->frames += c->frame >= 0;
    }
}

static void prepare_inst(EvalProg *p, const TInst *i, PInst *to, int depth) {
    *to = (PInst){.i = i};
    int nix = i->kind == T_LOOP ? 2 : i->nix;
    to->ix = ARENA_ARRAY(p->arena, Lin, nix);
    for (int d = 0; d < nix; d++)
        to->ix[d] = lin_make(p, i->kind != T_LOOP ? i->ix[d] : d ? i->hi : i->lo);
    if (i->kind == T_LOOP) {
        prepare_carries(p, i, to);
        to->split = !depth && i->carries.n;
        depth++;
    }
    for (int d = 0; d < i->nix && i->kind != T_INDEX; d++)
        to->empty |= (tile_ix_deps(p->deps, i->ix[d]) & p->empty) != 0;
    if (i->kind == T_STORE) to->once = tile_once(p->t, p->deps, i);
    if (i->kind == T_CONST) to->constant = eval_const(i->type, i->num, i->inum);
    if (i->kind == T_OP) {
        for (int k = 0; k < i->nargs; k++) to->from[k] = p->type[i->args[k]];
        for (int k = 0; k < i->nargs; k++) to->in[k] = op_operand(i->op, to->from, k);
        to->vt = to->in[i->nargs - 1];
    }
    if (i->id >= 0) p->type[i->id] = i->type;
    prepare_block(p, &i->body, &to->body, &to->nbody, depth);
}

static void prepare_block(EvalProg *p, const TBlock *b, PInst **body, int *n, int depth) {
    *n = b->inst.n;
    *body = ARENA_ARRAY(p->arena, PInst, *n);
    for (int k = 0; k < *n; k++) prepare_inst(p, b->inst.v[k], &(*body)[k], depth);
}

/* Extents and strides of tensor k, which must be those of what it stands for. */
static bool prepare_tensor(EvalProg *p, int k) {
    const TTensor *x = &p->t->tensors.v[k];
    PTensor *t = &p->tensor[k];
    int64_t count = 1;
    t->type = x->type;
    t->rank = x->rank;
    t->name = x->name;
    for (int d = x->rank - 1; d >= 0; d--) {
        bool ok = number(p, x->dims[d], &t->extent[d]);
        if (ok && x->mem == TM_IN) ok = t->extent[d] == t->store->in->extent[d];
        if (!ok) {
            str_printf(p->why, "tile %s: dimension %d of %s is wrong\n", p->t->name, d, x->name);
            return false;
        }
        t->stride[d] = x->mem == TM_IN ? t->store->in->stride[d] : count;
        count *= t->extent[d];
    }
    if (t->store->cell && count != t->store->count) {
        str_printf(p->why, "tile %s: %s has %lld elements, expected %lld\n", p->t->name, x->name,
                   (long long)count, (long long)t->store->count);
        return false;
    }
    return true;
}

bool eval_tile_prepare(EvalProg *p) {
    const TProg *t = p->t;
    p->type = ARENA_ARRAY(p->arena, DType, t->nvalues);
    p->carry = ARENA_ARRAY(p->arena, const TCarry *, t->nvalues);
    p->extent = ARENA_ARRAY(p->arena, int64_t, t->axes.n);
    p->span = ARENA_ARRAY(p->arena, int64_t, t->axes.n);
    p->deps = tile_deps(p->arena, t);
    uint64_t once = tile_all_once(t, p->deps);
    p->points = 1;
    for (int k = 0; k < t->axes.n; k++) {
        if (!number(p, t->axes.v[k].extent, &p->extent[k])) p->extent[k] = 0;
        if (p->extent[k] < 0) p->extent[k] = 0;
        if (k >= t->ngrid) continue;
        p->span[k] = p->extent[k];
        if (k < 63 && once >> k & 1 && !p->span[k]) {
            p->empty |= (uint64_t)1 << k;
            p->span[k] = 1;
        }
        p->points *= p->span[k];
    }
    for (int k = 0; k < t->tensors.n; k++)
        if (!prepare_tensor(p, k)) return false;
    prepare_block(p, &t->body, &p->body, &p->nbody, 0);
    return true;
}

/* ---- plans ---------------------------------------------------------------------------------- */

typedef struct Ctx {
    const Plan *plan;
    Arena arena;
    const int64_t *sizes;
    Store *param, *temp;
    Str *why;
} Ctx;

static Store new_store(Ctx *c, int64_t count) {
    Store s = {.count = count};
    s.cell = ARENA_ARRAY(&c->arena, Cell, count > 0 ? count : 1);
    return s;
}

static bool make_stores(Ctx *c, const EvalTensor *tensors) {
    const Graph *g = c->plan->graph;
    IxEnv env = {.size = c->sizes};
    c->param = ARENA_ARRAY(&c->arena, Store, g->params.n);
    c->temp = ARENA_ARRAY(&c->arena, Store, c->plan->temps.n);
    for (int k = 0; k < g->params.n; k++) {
        int64_t count = 1;
        for (int d = 0; d < tensors[k].rank; d++) count *= tensors[k].extent[d];
        if (g->params.v[k].out)
            c->param[k] = new_store(c, count);
        else
            c->param[k] = (Store){.in = &tensors[k], .count = count};
    }
    for (int k = 0; k < c->plan->temps.n; k++) {
        const Temp *t = &c->plan->temps.v[k];
        int64_t count = 1;
        bool ok = true;
        for (int d = 0; d < t->rank; d++) count *= ix_eval(t->dims[d], &env, &ok);
        if (!ok) {
            str_printf(c->why, "temporary %s has no extents\n", t->name);
            return false;
        }
        c->temp[k] = new_store(c, count);
    }
    return true;
}

static bool find_store(Ctx *c, const TTensor *x, Store **out) {
    const Graph *g = c->plan->graph;
    int n = x->mem == TM_TEMP ? c->plan->temps.n : g->params.n;
    bool ok = x->id < n;
    if (ok && x->mem != TM_TEMP) ok = g->params.v[x->id].out == (x->mem == TM_OUT);
    if (ok && x->mem != TM_TEMP) ok = g->params.v[x->id].rank == x->rank;
    if (!ok) str_printf(c->why, "tensor %s stands for nothing of the plan\n", x->name);
    *out = ok ? &(x->mem == TM_TEMP ? c->temp : c->param)[x->id] : NULL;
    return ok;
}

static bool run_step(Ctx *c, const Step *s, int split) {
    Arena a = {0};
    EvalProg p = {.t = s->tile, .arena = &a, .split = split, .why = c->why};
    bool ok = tile_verify(s->tile, c->why);
    ix_pool_init(&p.ix, &a);
    p.nsizes = s->tile->nsizes;
    p.sizes = ARENA_ARRAY(&a, const Ix *, p.nsizes);
    for (int i = 0; i < p.nsizes; i++) p.sizes[i] = ix_const(&p.ix, c->sizes[i]);
    p.tensor = ARENA_ARRAY(&a, PTensor, s->tile->tensors.n);
    for (int k = 0; ok && k < s->tile->tensors.n; k++)
        ok = find_store(c, &s->tile->tensors.v[k], &p.tensor[k].store);
    if (ok && eval_tile_prepare(&p)) {
        pthread_mutex_init(&p.lock, NULL);
        eval_parallel(eval_threads(0, p.points / 16), eval_tile_run, &p);
        pthread_mutex_destroy(&p.lock);
        ok = !atomic_load(&p.failed);
    } else {
        ok = false;
    }
    arena_free(&a);
    return ok;
}

static bool write_output(Ctx *c, int param, const EvalTensor *out) {
    const Store *s = &c->param[param];
    bool real = dtype_class(out->type) == DC_REAL;
    for (int64_t k = 0; k < s->count; k++) {
        int64_t rest = k, at = 0;
        for (int d = out->rank - 1; d >= 0; d--) {
            at += rest % out->extent[d] * out->stride[d];
            rest /= out->extent[d];
        }
        const Cell *cell = &s->cell[k];
        if (!cell->written) {
            str_printf(c->why, "element %lld of %s is never written\n", (long long)k,
                       c->plan->graph->params.v[param].name);
            return false;
        }
        dtype_store(out->type, out->data, at, real ? cell->u.r : 0, real ? 0 : cell->u.i);
    }
    return true;
}

bool eval_plan(const Plan *p, const int64_t *sizes, const EvalTensor *tensors, int split,
               Str *why) {
    Ctx c = {.plan = p, .sizes = sizes, .why = why};
    bool ok = make_stores(&c, tensors);
    for (int k = 0; ok && k < p->steps.n; k++)
        ok = run_step(&c, &p->steps.v[k], split < 1 ? 1 : split);
    for (int k = 0; ok && k < p->graph->params.n; k++)
        if (p->graph->params.v[k].out) ok = write_output(&c, k, &tensors[k]);
    arena_free(&c.arena);
    return ok;
}
