/* tile.c - writes each step of the grouped graph as a tile program.
 *
 * The grid is the domain of the step's stored values. A value is emitted on demand, keyed by (node,
 * index map over the program's axes), into the outermost block where all axes of its map are open,
 * so that what does not change in a loop stands before it. A reduction opens a loop there, one
 * nested loop per further reduced axis; reductions of the step at the same place over the same
 * range that do not read one another share the loop. Conditions of a reduction become a guard
 * around its step, unless the bounds that `domain` found say it all.
 */
#include "passes/passes.h"
#include "passes/group_int.h"

#include <string.h>

typedef struct Scope { /* an open block */
    struct Scope *up;
    TBlock *block;
    Map values; /* (node, map) -> value id + 1 */
    int depth;
    bool guard; /* what needs no more axes than the block around it stays inside all the same */
} Scope;

typedef struct Want { /* a reduction that the step will need */
    int node;
    const Ix **map;
} Want;

typedef struct Build {
    Arena *arena;
    Graph *g;
    Plan *plan;
    int step;
    TProg *t;
    Scope *top;
    VEC(int) axis_depth;  /* per axis of the program: depth of the scope that opens it */
    VEC(int) value_depth; /* per value */
    VEC(DType) value_type;
    VEC(Want) wants;
    Map wanted, started; /* seen by want(); reductions whose loop is open or done */
    int wary;            /* inside reductions that were moved out of a loop */
    bool **reach;        /* per node, lazily: which nodes depend on it */
} Build;

static int value_of(Build *b, int node, const Ix *const *map);

/* ---- scopes
 * ------------------------------------------------------------------------------------------ */

static void open_scope(Build *b, TBlock *block, bool guard) {
    Scope *s = ARENA_NEW(b->arena, Scope);
    *s = (Scope){b->top, block, {.arena = b->arena}, b->top ? b->top->depth + 1 : 0, guard};
    b->top = s;
}

static void close_scope(Build *b) {
    b->top = b->top->up;
}

static int depth_of(const Build *b, const Ix *x) {
    if (x->kind == IX_AXIS) return b->axis_depth.v[x->num];
    if (x->kind == IX_VALUE) return b->value_depth.v[x->num];
    int d = 0;
    for (int i = 0; i < x->n; i++) {
        int k = depth_of(b, x->arg[i]);
        if (k > d) d = k;
    }
    return d;
}

static int depth_of_map(const Build *b, const Ix *const *map, int n) {
    int d = 0;
    for (int i = 0; i < n; i++) {
        int k = depth_of(b, map[i]);
        if (k > d) d = k;
    }
    return d;
}

static Scope *scope_at(Build *b, int depth) {
    Scope *s = b->top;
    while (s->depth > depth && !(s->guard && s->up->depth == depth)) s = s->up;
    return s;
}

static void *key_of(Build *b, int node, const Ix *const *map, int n, size_t *len) {
    int64_t *key = ARENA_ARRAY(b->arena, int64_t, n + 1);
    key[0] = node;
    for (int i = 0; i < n; i++) key[i + 1] = map[i]->id;
    *len = sizeof *key * (size_t)(n + 1);
    return key;
}

static TInst *emit(Build *b, Scope *at, TKind kind, DType type, int nargs, int nix, int node) {
    TInst *i = tile_inst(b->t, at->block, kind, type, nargs, nix);
    i->node = node;
    if (i->id >= 0) {
        while (b->value_depth.n <= i->id) {
            vec_push(b->arena, &b->value_depth, 0);
            vec_push(b->arena, &b->value_type, DT_none);
        }
        b->value_depth.v[i->id] = at->depth;
        b->value_type.v[i->id] = type;
    }
    return i;
}

/* A carry's value number: defined by the loop, seen in the block around it. */
static int new_value(Build *b, DType type, int depth) {
    int id = b->t->nvalues++;
    while (b->value_depth.n <= id) {
        vec_push(b->arena, &b->value_depth, 0);
        vec_push(b->arena, &b->value_type, DT_none);
    }
    b->value_depth.v[id] = depth;
    b->value_type.v[id] = type;
    return id;
}

/* ---- memory
 * ------------------------------------------------------------------------------------------- */

static int out_param(const Graph *g, int node) {
    for (int i = 0; i < g->params.n; i++)
        if (g->params.v[i].out && g->params.v[i].node == node) return i;
    return -1;
}

static int tensor_param(Build *b, int param) {
    const Param *p = &b->g->params.v[param];
    TMem mem = p->out ? TM_OUT : TM_IN;
    for (int i = 0; i < b->t->tensors.n; i++)
        if (b->t->tensors.v[i].mem == mem && b->t->tensors.v[i].id == param) return i;
    TTensor t = {mem, p->name, p->type, p->rank, p->dims, param};
    vec_push(b->arena, &b->t->tensors, t);
    return b->t->tensors.n - 1;
}

static int tensor_temp(Build *b, int node) {
    Plan *p = b->plan;
    int id = -1;
    for (int i = 0; i < p->temps.n; i++)
        if (p->temps.v[i].node == node) id = i;
    FK_ASSERT(id >= 0);
    for (int i = 0; i < b->t->tensors.n; i++)
        if (b->t->tensors.v[i].mem == TM_TEMP && b->t->tensors.v[i].id == id) return i;
    const Temp *m = &p->temps.v[id];
    TTensor t = {TM_TEMP, m->name, m->type, m->rank, m->dims, id};
    vec_push(b->arena, &b->t->tensors, t);
    return b->t->tensors.n - 1;
}

static int tensor_of(Build *b, const Node *n) {
    if (n->kind == N_INPUT) return tensor_param(b, n->param);
    int param = out_param(b->g, n->id);
    return param >= 0 ? tensor_param(b, param) : tensor_temp(b, n->id);
}

/* ---- index maps
 * ------------------------------------------------------------------------------------------ */

static const Ix *gather(void *ctx, IxPool *p, int node, const Ix *const *args, int n) {
    (void)n;
    return ix_value(p, value_of(ctx, node, args), NULL, 0);
}

/* x of a node over `axes`, with gathers turned into values of the program. */
static const Ix *map_in(Build *b, const Ix *x, const Ix *const *axes, int nax) {
    if (!x->has_axis && !x->has_value) return x;
    return ix_subst(b->g->ix, x, &(IxSubst){.axes = axes, .nax = nax, .value = gather, .ctx = b});
}

static int operand(Build *b, const Operand *o, const Ix *const *axes, int nax);

static bool leaves_loop(const Scope *from, const Scope *to) {
    for (; from != to; from = from->up)
        if (!from->guard) return true;
    return false;
}

/* A load moved out of a loop is executed even where the loop is empty, and then its index was not
 * proved inside: positions other than an axis over its own extent are checked. */
static uint32_t hoisted(Build *b, const Scope *at, const Node *n, const Ix *const *map) {
    bool out = b->wary || leaves_loop(b->top, at);
    uint32_t checked = 0;
    for (int k = 0; k < n->rank && out; k++) {
        int axis;
        bool whole = ix_is_axis(map[k], &axis) && b->t->axes.v[axis].extent == n->axes[k].extent;
        if (!whole) checked |= 1u << k;
    }
    return checked;
}

static int load(Build *b, const Node *n, const Ix *const *map, uint32_t checked) {
    Scope *at = scope_at(b, depth_of_map(b, map, n->rank));
    checked |= hoisted(b, at, n, map);
    TInst *i = emit(b, at, T_LOAD, n->type, 0, n->rank, n->id);
    i->tensor = tensor_of(b, n);
    i->checked = checked;
    for (int k = 0; k < n->rank; k++) {
        i->ix[k] = map[k];
        if (map[k]->has_value) i->checked |= 1u << k;
    }
    return i->id;
}

static bool is_loaded(const Build *b, const Node *n, const Ix *const *map) {
    if (n->kind == N_INPUT) return true;
    return n->store && (n->step != b->step || !group_identity(map, n->rank));
}

/* ---- reductions
 * ------------------------------------------------------------------------------------------- */

static bool ix_reaches(const Ix *x, const bool *reach) {
    if (x->kind == IX_VALUE && reach[x->num]) return true;
    for (int i = 0; i < x->n && x->has_value; i++)
        if (ix_reaches(x->arg[i], reach)) return true;
    return false;
}

static bool depends(Build *b, int on, int node) {
    if (!b->reach[on]) {
        bool *r = b->reach[on] = ARENA_ARRAY(b->arena, bool, b->g->nodes.n);
        r[on] = true;
        for (int i = on + 1; i < b->g->nodes.n; i++) {
            const Node *n = b->g->nodes.v[i];
            if (n->kind == N_INDEX) r[i] = ix_reaches(n->ix, r);
            for (int k = 0; k < n->nin && !r[i]; k++) {
                r[i] = r[n->in[k].node];
                for (int d = 0; d < b->g->nodes.v[n->in[k].node]->rank; d++)
                    r[i] |= ix_reaches(n->in[k].map[d], r);
            }
        }
    }
    return b->reach[on][node];
}

static bool same_range(const Node *a, const Node *c) {
    if (a->naxes - a->rank != c->naxes - c->rank) return false;
    for (int i = 0; i < a->naxes - a->rank; i++) {
        int ka = a->rank + i, kc = c->rank + i;
        if (a->axes[ka].extent != c->axes[kc].extent) return false;
        const Ix *la = a->lo ? a->lo[i] : NULL, *lc = c->lo ? c->lo[i] : NULL;
        const Ix *ha = a->hi ? a->hi[i] : NULL, *hc = c->hi ? c->hi[i] : NULL;
        if (la != lc || ha != hc) return false;
        if ((la || ha) && a->rank != c->rank) return false;
    }
    return true;
}

/* The wanted reductions that can share the loop of `node` at `map`, itself first. */
static int share_loop(Build *b, int node, const Ix *const *map, int *member) {
    const Node *n = b->g->nodes.v[node];
    int count = 0;
    member[count++] = node;
    for (int i = 0; i < b->wants.n; i++) {
        const Want *w = &b->wants.v[i];
        const Node *c = b->g->nodes.v[w->node];
        if (c->rank != n->rank || !same_range(n, c)) continue;
        if (n->rank && memcmp(w->map, map, sizeof *map * (size_t)n->rank)) continue;
        bool free = true;
        for (int k = 0; k < count && free; k++)
            free = !depends(b, member[k], w->node) && !depends(b, w->node, member[k]);
        size_t len;
        void *key = key_of(b, w->node, map, c->rank, &len);
        if (free && !map_get(&b->started, key, len)) member[count++] = w->node;
    }
    return count;
}

static int product(Build *b, const Node *n, const Ix *const *axes) {
    int factors = n->nin - (n->where ? 1 : 0);
    int v = operand(b, &n->in[0], axes, n->naxes);
    for (int k = 1; k < factors; k++) {
        int f = operand(b, &n->in[k], axes, n->naxes);
        int dv = b->value_depth.v[v], df = b->value_depth.v[f];
        TInst *m = emit(b, scope_at(b, dv > df ? dv : df), T_OP, n->type, 2, 0, n->id);
        m->op = OP_mul;
        m->args[0] = v;
        m->args[1] = f;
        v = m->id;
    }
    return v;
}

static void emit_step(Build *b, const Node *n, int carry, const Ix *const *axes) {
    Scope *outer = b->top;
    if (n->where && !n->exact) {
        int cond = operand(b, &n->in[n->nin - 1], axes, n->naxes);
        TInst *gd = emit(b, b->top, T_GUARD, DT_none, 1, 0, n->id);
        gd->args[0] = cond;
        outer->block->inst.n--; /* hoisted values may still come before it */
        open_scope(b, &gd->body, true);
        int v = product(b, n, axes);
        TInst *st = emit(b, b->top, T_STEP, DT_none, 2, 0, n->id);
        st->args[0] = carry;
        st->args[1] = v;
        close_scope(b);
        vec_push(b->arena, &outer->block->inst, gd);
        return;
    }
    int v = product(b, n, axes);
    TInst *st = emit(b, b->top, T_STEP, DT_none, 2, 0, n->id);
    st->args[0] = carry;
    st->args[1] = v;
}

/* The k-th reduced axis that the loops nest at level `level`, outermost first. A fold walks its
 * last, contiguous axis outermost, where it can be cut across threads; a contraction keeps the
 * order. */
static int nest_order(const Node *n, int level) {
    int count = n->naxes - n->rank;
    bool reverse = n->red != RED_contract;
    for (int i = 0; i < count && n->lo; i++) reverse &= !n->lo[i] && !n->hi[i];
    return n->rank + (reverse ? count - 1 - level : level);
}

static const Ix *bound_in(Build *b, const Ix *x, const Ix *otherwise, const Ix *const *axes,
                          int nax) {
    return x ? map_in(b, x, axes, nax) : otherwise;
}

static TInst *emit_loop(Build *b, const Node *n, int k, const Ix **axes) {
    const Ix *extent = n->axes[k].extent;
    TAxis ax = {n->axes[k].name, extent, false, 1};
    int axis = b->t->axes.n;
    vec_push(b->arena, &b->t->axes, ax);
    vec_push(b->arena, &b->axis_depth, b->top->depth + 1);
    const Ix *zero = ix_const(b->g->ix, 0);
    const Ix *lo = n->lo ? n->lo[k - n->rank] : NULL, *hi = n->hi ? n->hi[k - n->rank] : NULL;
    lo = bound_in(b, lo, zero, axes, n->naxes);
    hi = bound_in(b, hi, extent, axes, n->naxes);
    TInst *loop = emit(b, b->top, T_LOOP, DT_none, 0, 0, n->id);
    b->top->block->inst.n--; /* pushed when its body is done: hoisted values come first */
    loop->axis = axis;
    loop->lo = lo == zero ? lo : ix_max(b->g->ix, lo, zero);
    loop->hi = hi == extent ? hi : ix_min(b->g->ix, hi, extent);
    axes[k] = ix_axis(b->g->ix, axis);
    return loop;
}

static int reduction(Build *b, int node, const Ix *const *map) {
    Graph *g = b->g;
    const Node *n = g->nodes.v[node];
    Scope *saved = b->top, *at = scope_at(b, depth_of_map(b, map, n->rank));
    bool moved = leaves_loop(saved, at);
    b->wary += moved;
    b->top = at;
    int *member = ARENA_ARRAY(b->arena, int, g->nodes.n);
    int count = share_loop(b, node, map, member);
    const Ix **axes = ARENA_ARRAY(b->arena, const Ix *, n->naxes);
    if (n->rank) memcpy(axes, map, sizeof *map * (size_t)n->rank);
    VEC(TInst *) nest = {0};
    int levels = n->naxes - n->rank;
    for (int l = 0; l < levels; l++) {
        TInst *loop = emit_loop(b, n, nest_order(n, l), axes);
        vec_push(b->arena, &nest, loop);
        open_scope(b, &loop->body, false);
    }
    FK_ASSERT(levels > 0);
    int *carry = ARENA_ARRAY(b->arena, int, count);
    for (int i = 0; i < count; i++) {
        const Node *m = g->nodes.v[member[i]];
        size_t len;
        void *key = key_of(b, member[i], map, n->rank, &len);
        *map_put(&b->started, key, len) = 1;
        Reduce red = m->red == RED_contract ? RED_sum : m->red;
        carry[i] = new_value(b, m->type, at->depth + 1);
        TCarry c = {.id = carry[i], .type = m->type, .red = red, .frame = -1, .name = m->name};
        vec_push(b->arena, &nest.v[0]->carries, c);
    }
    for (int i = 0; i < count; i++) {
        const Node *m = g->nodes.v[member[i]];
        const Ix **own = ARENA_ARRAY(b->arena, const Ix *, m->naxes);
        for (int a = 0; a < m->naxes; a++) own[a] = axes[a];
        emit_step(b, m, carry[i], own);
    }
    for (int l = levels - 1; l >= 0; l--) {
        close_scope(b);
        vec_push(b->arena, &b->top->block->inst, nest.v[l]);
    }
    for (int i = 0; i < count; i++) {
        size_t len;
        void *key = key_of(b, member[i], map, n->rank, &len);
        *map_put(&at->values, key, len) = carry[i] + 1;
        b->value_depth.v[carry[i]] = at->depth;
    }
    b->top = saved;
    b->wary -= moved;
    return carry[0];
}

/* ---- values
 * ------------------------------------------------------------------------------------------------
 */

static int operand(Build *b, const Operand *o, const Ix *const *axes, int nax) {
    const Node *n = b->g->nodes.v[o->node];
    const Ix **map = ARENA_ARRAY(b->arena, const Ix *, n->rank);
    for (int i = 0; i < n->rank; i++) map[i] = map_in(b, o->map[i], axes, nax);
    if (o->checked && is_loaded(b, n, map)) return load(b, n, map, o->checked);
    FK_ASSERT(!o->checked || n->rank == 0);
    return value_of(b, o->node, map);
}

static int compute(Build *b, const Node *n, const Ix *const *map) {
    if (n->kind == N_REDUCE) return reduction(b, n->id, map);
    if (n->kind == N_OP) {
        int *args = ARENA_ARRAY(b->arena, int, n->nin), depth = 0;
        for (int k = 0; k < n->nin; k++) {
            args[k] = operand(b, &n->in[k], map, n->rank);
            int d = b->value_depth.v[args[k]];
            if (d > depth) depth = d;
        }
        TInst *i = emit(b, scope_at(b, depth), T_OP, n->type, n->nin, 0, n->id);
        i->op = n->op;
        if (n->nin) memcpy(i->args, args, sizeof *args * (size_t)n->nin);
        return i->id;
    }
    if (n->kind == N_INDEX) {
        const Ix *x = map_in(b, n->ix, map, n->rank);
        TInst *i = emit(b, scope_at(b, depth_of(b, x)), T_INDEX, n->type, 0, 1, n->id);
        i->ix[0] = x;
        return i->id;
    }
    FK_ASSERT(n->kind == N_CONST);
    TInst *i = emit(b, scope_at(b, 0), T_CONST, n->type, 0, 0, n->id);
    i->num = n->num;
    i->inum = n->inum;
    return i->id;
}

static int value_of(Build *b, int node, const Ix *const *map) {
    const Node *n = b->g->nodes.v[node];
    size_t len;
    void *key = key_of(b, node, map, n->rank, &len);
    for (Scope *s = b->top; s; s = s->up) {
        intptr_t *known = map_get(&s->values, key, len);
        if (known) return (int)*known - 1;
    }
    int id = is_loaded(b, n, map) ? load(b, n, map, 0) : compute(b, n, map);
    int depth = b->value_depth.v[id];
    *map_put(&scope_at(b, depth)->values, key, len) = id + 1;
    return id;
}

/* ---- what the step will need: reductions at the level of the grid
 * ------------------------------------------- */

static void want(Build *b, int node, const Ix *const *map) {
    const Node *n = b->g->nodes.v[node];
    size_t len;
    void *key = key_of(b, node, map, n->rank, &len);
    intptr_t *seen = map_put(&b->wanted, key, len);
    if (*seen || is_loaded(b, n, map)) return;
    *seen = 1;
    for (int k = 0; k < n->nin && n->kind == N_OP; k++) {
        const Operand *o = &n->in[k];
        int rank = b->g->nodes.v[o->node]->rank;
        const Ix **sub = ARENA_ARRAY(b->arena, const Ix *, rank);
        bool gathers = false;
        for (int i = 0; i < rank; i++) {
            sub[i] = ix_at(b->g->ix, o->map[i], map, n->rank);
            gathers |= sub[i]->has_value;
        }
        if (!gathers) want(b, o->node, sub);
    }
    if (n->kind != N_REDUCE) return;
    Want w = {node, ARENA_ARRAY(b->arena, const Ix *, n->rank)};
    if (n->rank) memcpy(w.map, map, sizeof *map * (size_t)n->rank);
    vec_push(b->arena, &b->wants, w);
}

/* ---- a step
 * ---------------------------------------------------------------------------------------------------
 */

static void store(Build *b, const Node *n, int value) {
    for (int p = -1; p < b->g->params.n; p++) {
        bool temp = p < 0 && out_param(b->g, n->id) < 0;
        bool out = p >= 0 && b->g->params.v[p].out && b->g->params.v[p].node == n->id;
        if (!temp && !out) continue;
        TInst *i = emit(b, b->top, T_STORE, n->type, 1, n->rank, n->id);
        i->tensor = temp ? tensor_temp(b, n->id) : tensor_param(b, p);
        i->args[0] = value;
        for (int k = 0; k < n->rank; k++) i->ix[k] = ix_axis(b->g->ix, k);
    }
}

static void tile_step(Plan *plan, Arena *arena, int index) {
    Graph *g = plan->graph;
    Step *s = &plan->steps.v[index];
    Build b = {.arena = arena, .g = g, .plan = plan, .step = index};
    b.wanted.arena = b.started.arena = arena;
    b.reach = ARENA_ARRAY(arena, bool *, g->nodes.n);
    b.t = s->tile = tile_new(arena, g->ix, s->name);
    const char **names = ARENA_ARRAY(arena, const char *, g->sizes.n);
    for (int i = 0; i < g->sizes.n; i++) names[i] = g->sizes.v[i].name;
    b.t->sizes = names;
    b.t->nsizes = g->sizes.n;
    const Node *root = g->nodes.v[s->stores.v[0]];
    const Ix **self = ARENA_ARRAY(arena, const Ix *, root->rank);
    for (int i = 0; i < root->rank; i++) {
        TAxis ax = {root->axes[i].name, root->axes[i].extent, true, 1};
        vec_push(arena, &b.t->axes, ax);
        vec_push(arena, &b.axis_depth, 0);
        self[i] = ix_axis(g->ix, i);
    }
    b.t->ngrid = root->rank;
    open_scope(&b, &b.t->body, false);
    for (int i = 0; i < s->stores.n; i++) want(&b, s->stores.v[i], self);
    for (int i = 0; i < s->stores.n; i++) {
        int v = value_of(&b, s->stores.v[i], self);
        store(&b, g->nodes.v[s->stores.v[i]], v);
    }
}

static void make_temps(Plan *plan, Arena *arena) {
    Graph *g = plan->graph;
    for (int i = 0; i < g->nodes.n; i++) {
        const Node *n = g->nodes.v[i];
        if (!n->store || out_param(g, i) >= 0) continue;
        Temp t = {.node = i, .type = n->type, .rank = n->rank};
        t.name = n->name ? n->name : arena_printf(arena, "t%d", plan->temps.n);
        for (int k = 0; k < plan->temps.n; k++)
            if (!strcmp(plan->temps.v[k].name, t.name)) t.name = arena_printf(arena, "t%d", i);
        t.dims = ARENA_ARRAY(arena, const Ix *, n->rank);
        for (int k = 0; k < n->rank; k++) t.dims[k] = n->axes[k].extent;
        vec_push(arena, &plan->temps, t);
    }
}

Plan *pass_tile(PassCtx *cx, Graph *g) {
    Plan *plan = ARENA_NEW(cx->arena, Plan);
    plan->graph = g;
    int nsteps = 0;
    for (int i = 0; i < g->nodes.n; i++)
        if (g->nodes.v[i]->store && g->nodes.v[i]->step >= nsteps) nsteps = g->nodes.v[i]->step + 1;
    for (int i = 0; i < nsteps; i++) {
        Step s = {.name = arena_printf(cx->arena, "%s.%d", g->name, i)};
        vec_push(cx->arena, &plan->steps, s);
    }
    for (int i = 0; i < g->nodes.n; i++)
        if (g->nodes.v[i]->store)
            vec_push(cx->arena, &plan->steps.v[g->nodes.v[i]->step].stores, i);
    make_temps(plan, cx->arena);
    for (int i = 0; i < nsteps; i++) tile_step(plan, cx->arena, i);
    return plan;
}
