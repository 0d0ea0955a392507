/* run_sizes.c - the sizes of a run: given by --size, solved from the extents of --in files, else
 * drawn; and the conditions on them, which no evaluation may pass by.
 */
#include "compiler/run_int.h"

#include <string.h>

bool run_npy(Run *r, const char *path, Npy *n) {
    if (npy_read(r->arena, path, n, &r->why)) return true;
    r->outside = !n->read;
    return false;
}

void run_put_sizes(Run *r, const char *before) {
    for (uint32_t i = 0; i < r->fn->n_sizes; i++)
        str_printf(&r->why, "%s %s=%lld", i ? "" : before, r->fn->sizes[i].name,
                   (long long)r->sizes[i]);
}

/* ---- --size ------------------------------------------------------------------------------------
 */

static int size_named(const FkmFn *f, const char *name, size_t n) {
    for (uint32_t i = 0; i < f->n_sizes; i++)
        if (strlen(f->sizes[i].name) == n && !memcmp(f->sizes[i].name, name, n)) return (int)i;
    return -1;
}

static bool sizes_given(Run *r) {
    for (uint32_t i = 0; i < r->fn->n_sizes; i++) r->sizes[i] = r->fn->sizes[i].bound;
    for (int i = 0; i < r->opt->size.n; i++) {
        const char *s = r->opt->size.v[i], *eq = strchr(s, '=');
        int k = eq ? size_named(r->fn, s, (size_t)(eq - s)) : -1;
        int64_t v;
        if (!eq)
            str_printf(&r->why, "--size=%s: needs NAME=VALUE", s);
        else if (!run_number(eq + 1, &v))
            str_printf(&r->why, "--size=%s: '%s' is no size: digits alone, as in %.*s=1000", s,
                       eq + 1, (int)(eq - s), s);
        if (r->why.n) return false;
        if (k >= 0) r->sizes[k] = v; /* else of another fn of the module */
    }
    return true;
}

/* ---- --in --------------------------------------------------------------------------------------
 */

/* By tensor, those that a file gives; the others have data NULL. */
static bool read_files(Run *r, Npy *file) {
    for (uint32_t t = 0; t < r->fn->n_tensors; t++) {
        const FkmTensor *x = &r->fn->tensors[t];
        const char *path = run_lookup(&r->opt->in, x->name);
        if (!path) continue;
        if (!run_npy(r, path, &file[t])) return false;
        if (file[t].rank == (int)x->rank) continue;
        str_printf(&r->why, "%s has %d dimensions, %s has %u", path, file[t].rank, x->name,
                   x->rank);
        return false;
    }
    return true;
}

/* Bare dimensions, which a module without its graph has as well. */
static void solve_bare(Run *r, const Npy *file) {
    for (uint32_t t = 0; t < r->fn->n_tensors; t++) {
        for (uint32_t d = 0; file[t].data && d < r->fn->tensors[t].rank; d++) {
            const FkmExpr *e = &r->fn->tensors[t].dims[d].size;
            if (e->n != 1 || e->code[0].op != FKM_OP_SIZE || r->sizes[e->code[0].a] >= 0) continue;
            r->sizes[e->code[0].a] = file[t].extent[d];
        }
    }
}

static int64_t extent_value(void *ctx, const Ix *x, const int64_t *args) {
    (void)x, (void)args;
    return *(const int64_t *)ctx;
}

static bool solve_one(Run *r, const Solve *s, uint32_t tensor, int64_t extent) {
    bool ok = true;
    const FkmTensor *x = &r->fn->tensors[tensor];
    IxEnv env = {.size = r->sizes, .value = extent_value, .ctx = &extent};
    int64_t number = ix_eval(s->num, &env, &ok);
    if (ok && number >= 0 && number % s->div == 0) {
        r->sizes[s->size] = number / s->div;
        return true;
    }
    str_printf(&r->why, "%s: dimension %d of %s (%s) is %lld, which gives no whole %s",
               run_lookup(&r->opt->in, x->name), s->dim, x->name, x->dims[s->dim].text,
               (long long)extent, r->fn->sizes[s->size].name);
    return false;
}

/* The other dimensions, as a launch solves them, from the tensors that have files alone: with what
 * is known put in, infer_solve finds the equations. */
static bool solve_rest(Run *r, const Npy *file) {
    const Graph *g = r->graph;
    Graph some = {.arena = r->arena, .ix = g->ix, .sizes = g->sizes};
    VEC(uint32_t) of = {0};
    int unsolved;
    if (g->params.n != (int)r->fn->n_tensors) return true;
    const Ix **known = ARENA_ARRAY(r->arena, const Ix *, g->sizes.n + 1);
    for (int i = 0; i < g->sizes.n; i++)
        if (r->sizes[i] >= 0) known[i] = ix_const(g->ix, r->sizes[i]);
    for (uint32_t t = 0; t < r->fn->n_tensors; t++) {
        if (!file[t].data) continue;
        Param p = g->params.v[t];
        p.dims = ARENA_ARRAY(r->arena, const Ix *, p.rank);
        for (int d = 0; d < p.rank; d++)
            p.dims[d] = ix_subst(g->ix, g->params.v[t].dims[d],
                                 &(IxSubst){.sizes = known, .nsz = g->sizes.n});
        vec_push(r->arena, &some.params, p);
        vec_push(r->arena, &of, t);
    }
    infer_solve(&some, &unsolved); /* what is left is drawn */
    for (int i = 0; i < some.solve.n; i++) {
        const Solve *s = &some.solve.v[i];
        if (!solve_one(r, s, of.v[s->param], file[of.v[s->param]].extent[s->dim])) return false;
    }
    return true;
}

/* ---- conditions --------------------------------------------------------------------------------
 */

static void put_check(Str *out, const char *text, int64_t needed, int64_t found) {
    while (*text) {
        bool is_needed = !strncmp(text, "{needed}", 8), is_found = !strncmp(text, "{found}", 7);
        if (is_needed || is_found) {
            str_printf(out, "%lld", (long long)(is_needed ? needed : found));
            text += is_needed ? 8 : 7;
        } else {
            str_addc(out, *text++);
        }
    }
}

static bool check(Run *r, const FkmCheck *c, const FkmEnv *env) {
    int64_t value, skip = 0, needed = 0, found = 0;
    if (c->unless.n && fkm_eval(&c->unless, env, &skip) && skip) return true;
    bool ok = fkm_eval(&c->value, env, &value);
    if (ok && value >= 0) return true;
    ok = fkm_eval(&c->needed, env, &needed) && fkm_eval(&c->found, env, &found) && ok;
    str_printf(&r->why, "%s: ", r->fn->name);
    put_check(&r->why, c->text, needed, found);
    if (!ok) str_add(&r->why, " (a number here leaves 64 bits)");
    run_put_sizes(r, ", with");
    return false;
}

/* As a launch checks; the sizes are those of dense tensors here. */
static bool checks_hold(Run *r) {
    const FkmFn *f = r->fn;
    int64_t *extent = ARENA_ARRAY(r->arena, int64_t, f->n_dims + 1),
            *align = ARENA_ARRAY(r->arena, int64_t, f->n_tensors + 1);
    FkmEnv env = {f->tensors, r->sizes, extent, extent, align, 1};
    for (uint32_t t = 0; t < f->n_tensors; t++) {
        const FkmTensor *x = &f->tensors[t];
        for (uint32_t d = 0; d < x->rank; d++) {
            int64_t *e = &extent[x->first_dim + d];
            if (fkm_eval(&x->dims[d].size, &env, e) && *e >= 0) continue;
            str_printf(&r->why, "%s: dimension %u of %s, %s, is no number of elements", f->name, d,
                       x->name, x->dims[d].text);
            run_put_sizes(r, " with");
            return false;
        }
    }
    for (uint32_t i = 0; i < f->n_checks; i++)
        if (!check(r, &f->checks[i], &env)) return false;
    return true;
}

static int64_t largest(const Run *r) {
    return r->opt->most > 0 ? r->opt->most : RUN_LARGEST;
}

/* No draw suited. What the largest would have broken says why. */
static bool nothing_suits(Run *r) {
    for (uint32_t i = 0; i < r->fn->n_sizes; i++)
        if (r->sizes[i] < 0) r->sizes[i] = largest(r);
    if (checks_hold(r)) return true;
    str_printf(&r->why, "; no sizes found that suit it, give them all by --size");
    return false;
}

bool run_sizes(Run *r) {
    Npy *file = ARENA_ARRAY(r->arena, Npy, r->fn->n_tensors + 1);
    uint64_t seed = r->opt->seed < 0 ? 1 : (uint64_t)r->opt->seed;
    bool all = true;
    r->sizes = ARENA_ARRAY(r->arena, int64_t, r->fn->n_sizes + 1);
    if (!sizes_given(r) || !read_files(r, file)) return false;
    solve_bare(r, file);
    if (r->graph && !solve_rest(r, file)) return false;
    for (uint32_t i = 0; i < r->fn->n_sizes; i++) all &= r->sizes[i] >= 0;
    if (all) return !r->opt->reference || checks_hold(r); /* a device checks by itself */
    if (r->graph && sample_sizes(r->graph, seed, largest(r), r->sizes)) return true;
    if (r->graph) return nothing_suits(r);
    str_printf(&r->why, "%s: the module was stripped of its graph; give all sizes by --size",
               r->fn->name);
    return false;
}
