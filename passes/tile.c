/* tile.c - writes each step of the grouped graph as a tile program.
 *
 * The grid is the domain of the step's stored values, or of the one of most axes; but for those
 * that are computed and stored inside of the loop of a reduction of the step. A value is emitted on
 * demand, keyed by (node, index map over the program's axes), into the outermost block where all
 * axes of its map are open, so that what does not change in a loop stands before it. A reduction
 * opens a loop there, one nested loop per further reduced axis; reductions of the step at the same
 * place over the same range that do not read one another share the loop. Conditions of a reduction
 * become a guard around its step, unless the bounds that `domain` found say it all.
 */
#include "passes/tile_int.h"
#include "passes/group_int.h"
#include "passes/online_int.h"

#include <string.h>

/* ---- memory ---- */

static int out_param(const Graph *g, int node) {
    for (int i = 0; i < g->params.n; i++)
        if (g->params.v[i].out && g->params.v[i].node == node) return i;
    return -1;
}

static int tensor_param(TileBuild *b, int param) {
    const Param *p = &b->g->params.v[param];
    TMem mem = p->out ? TM_OUT : TM_IN;
    for (int i = 0; i < b->t->tensors.n; i++)
        if (b->t->tensors.v[i].mem == mem && b->t->tensors.v[i].id == param) return i;
    TTensor t = {mem, p->name, p->type, p->rank, p->dims, param};
    vec_push(b->arena, &b->t->tensors, t);
    return b->t->tensors.n - 1;
}

static int tensor_temp(TileBuild *b, int node) {
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

static int tensor_of(TileBuild *b, const Node *n) {
    if (n->kind == N_INPUT) return tensor_param(b, n->param);
    int param = out_param(b->g, n->id);
    return param >= 0 ? tensor_param(b, param) : tensor_temp(b, n->id);
}

/* ---- index maps ---- */

static const Ix *gather(void *ctx, IxPool *p, int node, const Ix *const *args, int n) {
    (void)n;
    return ix_value(p, tb_value_of(ctx, node, args), NULL, 0);
}

/* x of a node over `axes`, with gathers turned into values of the program. */
const Ix *tb_map_in(TileBuild *b, const Ix *x, const Ix *const *axes, int nax) {
    if (!x->has_axis && !x->has_value) return x;
    return ix_subst(b->g->ix, x, &(IxSubst){.axes = axes, .nax = nax, .value = gather, .ctx = b});
}

/* A load moved out of a loop is executed even where the loop is empty, and then its index was not
 * proved inside: positions other than an axis over its own extent are checked. */
static uint32_t hoisted(TileBuild *b, const TileScope *at, const Node *n, const Ix *const *map) {
    bool out = b->wary || tb_leaves_loop(b->top, at);
    uint32_t checked = 0;
    for (int k = 0; k < n->rank && out; k++) {
        int axis;
        bool whole = ix_is_axis(map[k], &axis) && b->t->axes.v[axis].extent == n->axes[k].extent;
        if (!whole) checked |= 1u << k;
    }
    return checked;
}

static int load(TileBuild *b, const Node *n, const Ix *const *map, uint32_t checked) {
    TileScope *at = tb_scope_at(b, tb_depth_of_map(b, map, n->rank));
    checked |= hoisted(b, at, n, map);
    TInst *i = tb_emit(b, at, T_LOAD, n->type, 0, n->rank, n->id);
    i->tensor = tensor_of(b, n);
    i->checked = checked;
    for (int k = 0; k < n->rank; k++) {
        i->ix[k] = map[k];
        if (map[k]->has_value) i->checked |= 1u << k;
    }
    return i->id;
}

bool tb_is_inside(const TileBuild *b, const Node *n) {
    return b->outer && n->store && n->step == b->step && !group_same_domain(n, b->outer);
}

bool tb_is_loaded(const TileBuild *b, const Node *n, const Ix *const *map) {
    if (n->kind == N_INPUT) return true;
    if (tb_is_inside(b, n)) return false;
    if (!n->store || n->step != b->step || !b->place[n->id]) return n->store;
    return n->rank && memcmp(map, b->place[n->id], sizeof *map * (size_t)n->rank);
}

/* ---- values ---- */

int tb_operand(TileBuild *b, const Operand *o, const Ix *const *axes, int nax) {
    const Node *n = b->g->nodes.v[o->node];
    const Ix **map = ARENA_ARRAY(b->arena, const Ix *, n->rank);
    for (int i = 0; i < n->rank; i++) map[i] = tb_map_in(b, o->map[i], axes, nax);
    if (o->checked && tb_is_loaded(b, n, map)) return load(b, n, map, o->checked);
    FK_ASSERT(!o->checked || n->rank == 0);
    return tb_value_of(b, o->node, map);
}

typedef VEC(int) IntVec;

static bool is_zero(const Node *n) {
    return n->kind == N_CONST && n->num == 0 && n->inum == 0;
}

static int op_of(TileBuild *b, Op op, DType type, int x, int y, int node) {
    int dx = b->value_depth.v[x], dy = b->value_depth.v[y];
    TInst *i = tb_emit(b, tb_scope_at(b, dx > dy ? dx : dy), T_OP, type, 2, 0, node);
    i->op = op;
    i->args[0] = x;
    i->args[1] = y;
    return i->id;
}

/* The conditions outside which the value is 0 (LANGUAGE.md rule 4): those of the `within`s that it
 * is made of through products, quotients, casts and selects of 0, as values of the program. */
static void conditions(TileBuild *b, int node, const Ix *const *map, Map *seen, IntVec *out) {
    const Node *n = b->g->nodes.v[node];
    size_t len;
    void *key = tb_key_of(b, node, map, n->rank, &len);
    intptr_t *known = map_put(seen, key, len);
    if (n->kind != N_OP || *known) return;
    *known = 1;
    for (int k = 0; k < n->nin; k++) {
        const Operand *o = &n->in[k];
        const Node *src = b->g->nodes.v[o->node];
        bool passes = (k == 0 && op_traits(n->op) & OPT_Z) || (k == 1 && op_traits(n->op) & OPT_Y);
        if (n->op == OP_within) passes = k == 1;
        if (n->op == OP_select && k) passes = is_zero(b->g->nodes.v[n->in[3 - k].node]);
        if (n->op == OP_within && k == 0) vec_push(b->arena, out, tb_operand(b, o, map, n->rank));
        if (!passes || o->checked) continue;
        const Ix **sub = ARENA_ARRAY(b->arena, const Ix *, src->rank);
        for (int d = 0; d < src->rank; d++) sub[d] = tb_map_in(b, o->map[d], map, n->rank);
        conditions(b, o->node, sub, seen, out);
    }
}

/* A product or quotient of a value that is 0 outside a domain is 0 there, whatever it meets. */
static int keep_zero(TileBuild *b, const Node *n, const Ix *const *map, int value) {
    if (n->op != OP_mul && n->op != OP_div) return value;
    Map seen = {.arena = b->arena};
    IntVec conds = {0};
    conditions(b, n->id, map, &seen, &conds);
    if (!conds.n) return value;
    int all = conds.v[0];
    for (int i = 1; i < conds.n; i++)
        if (conds.v[i] != all) all = op_of(b, OP_and, DT_bool, all, conds.v[i], n->id);
    return op_of(b, OP_within, n->type, all, value, n->id);
}

static int compute(TileBuild *b, const Node *n, const Ix *const *map) {
    if (n->kind == N_REDUCE) return tb_reduction(b, n->id, map);
    if (n->kind == N_OP) {
        int *args = ARENA_ARRAY(b->arena, int, n->nin), depth = 0;
        for (int k = 0; k < n->nin; k++) {
            args[k] = tb_operand(b, &n->in[k], map, n->rank);
            int d = b->value_depth.v[args[k]];
            if (d > depth) depth = d;
        }
        TInst *i = tb_emit(b, tb_scope_at(b, depth), T_OP, n->type, n->nin, 0, n->id);
        i->op = n->op;
        if (n->nin) memcpy(i->args, args, sizeof *args * (size_t)n->nin);
        return keep_zero(b, n, map, i->id);
    }
    if (n->kind == N_INDEX) {
        const Ix *x = tb_map_in(b, n->ix, map, n->rank);
        TInst *i = tb_emit(b, tb_scope_at(b, tb_depth_of(b, x)), T_INDEX, n->type, 0, 1, n->id);
        i->ix[0] = x;
        return i->id;
    }
    FK_ASSERT(n->kind == N_CONST);
    TInst *i = tb_emit(b, tb_scope_at(b, 0), T_CONST, n->type, 0, 0, n->id);
    i->num = n->num;
    i->inum = n->inum;
    return i->id;
}

int tb_value_of(TileBuild *b, int node, const Ix *const *map) {
    const Node *n = b->g->nodes.v[node];
    size_t len;
    void *key = tb_key_of(b, node, map, n->rank, &len);
    for (TileScope *s = b->top; s; s = s->up) {
        intptr_t *known = map_get(&s->values, key, len);
        if (known) return (int)*known - 1;
    }
    int id = tb_is_loaded(b, n, map) ? load(b, n, map, 0) : compute(b, n, map);
    int depth = b->value_depth.v[id];
    *map_put(&tb_scope_at(b, depth)->values, key, len) = id + 1;
    return id;
}

/* ---- what the step will need: reductions at the level of the grid, and inside of a block ---- */

void tb_want(TileBuild *b, int node, const Ix *const *map) {
    const Node *n = b->g->nodes.v[node];
    size_t len;
    void *key = tb_key_of(b, node, map, n->rank, &len);
    intptr_t *seen = map_put(&b->wanted, key, len);
    if (*seen || tb_is_loaded(b, n, map)) return;
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
        if (!gathers) tb_want(b, o->node, sub);
    }
    if (n->kind != N_REDUCE) return;
    TileWant w = {node, ARENA_ARRAY(b->arena, const Ix *, n->rank)};
    if (n->rank) memcpy(w.map, map, sizeof *map * (size_t)n->rank);
    vec_push(b->arena, &b->wants, w);
}

/* ---- a step ---- */

void tb_store(TileBuild *b, const Node *n, int value, const Ix *const *map) {
    for (int p = -1; p < b->g->params.n; p++) {
        bool temp = p < 0 && out_param(b->g, n->id) < 0;
        bool out = p >= 0 && b->g->params.v[p].out && b->g->params.v[p].node == n->id;
        if (!temp && !out) continue;
        TInst *i = tb_emit(b, b->top, T_STORE, n->type, 1, n->rank, n->id);
        i->tensor = temp ? tensor_temp(b, n->id) : tensor_param(b, p);
        i->args[0] = value;
        for (int k = 0; k < n->rank; k++) i->ix[k] = map[k];
    }
}

static const Ix *const *identity(TileBuild *b, int rank) {
    const Ix **self = ARENA_ARRAY(b->arena, const Ix *, rank);
    for (int i = 0; i < rank; i++) self[i] = ix_axis(b->g->ix, i);
    return self;
}

/* The value whose domain is the grid, and where the stored values stand in it. */
static const Node *place_stores(TileBuild *b, const Step *s) {
    Graph *g = b->g;
    int wide, n = s->stores.n;
    const Ix ***maps = ARENA_ARRAY(b->arena, const Ix **, n);
    const Node *root = g->nodes.v[s->stores.v[0]];
    b->place = ARENA_ARRAY(b->arena, const Ix *const *, g->nodes.n);
    if (online_placed(g, s->stores.v, n) && online_place(g, s->stores.v, n, &wide, maps)) {
        for (int i = 0; i < n; i++) b->place[s->stores.v[i]] = maps[i];
        return g->nodes.v[wide];
    }
    if (group_inside(g, s->stores.v, n, &b->outer, &b->cover)) root = b->outer;
    for (int i = 0; i < n; i++) {
        const Node *x = g->nodes.v[s->stores.v[i]];
        if (!tb_is_inside(b, x)) b->place[x->id] = identity(b, root->rank);
    }
    return root;
}

static void tile_step(Plan *plan, Arena *arena, int index, bool strict) {
    Graph *g = plan->graph;
    Step *s = &plan->steps.v[index];
    TileBuild b = {.arena = arena, .g = g, .plan = plan, .step = index, .strict = strict};
    b.wanted.arena = b.started.arena = arena;
    b.reach = ARENA_ARRAY(arena, bool *, g->nodes.n);
    b.t = s->tile = tile_new(arena, g->ix, s->name);
    const char **names = ARENA_ARRAY(arena, const char *, g->sizes.n);
    for (int i = 0; i < g->sizes.n; i++) names[i] = g->sizes.v[i].name;
    b.t->sizes = names;
    b.t->nsizes = g->sizes.n;
    const Node *root = place_stores(&b, s);
    for (int i = 0; i < root->rank; i++) {
        TAxis ax = {root->axes[i].name, root->axes[i].extent, true, 1};
        vec_push(arena, &b.t->axes, ax);
        vec_push(arena, &b.axis_depth, 0);
    }
    b.t->ngrid = root->rank;
    tb_open_scope(&b, &b.t->body, false);
    for (int i = 0; i < s->stores.n; i++)
        if (b.place[s->stores.v[i]]) tb_want(&b, s->stores.v[i], b.place[s->stores.v[i]]);
    for (int i = 0; i < s->stores.n; i++) {
        const Node *n = g->nodes.v[s->stores.v[i]];
        if (b.place[n->id]) tb_store(&b, n, tb_value_of(&b, n->id, b.place[n->id]), b.place[n->id]);
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

static bool grouped(const Graph *g) {
    for (int i = 0; i < g->params.n; i++)
        if (g->params.v[i].out && !g->nodes.v[g->params.v[i].node]->store) return false;
    return true;
}

/* What is stored inside of a loop is stored wherever it goes: its bounds have to be known. */
static void find_bounds(PassCtx *cx, Graph *g, const Plan *plan) {
    const Node *outer;
    const Ix *const *cover;
    for (int i = 0; i < plan->steps.n; i++) {
        const Step *s = &plan->steps.v[i];
        bool inside = !online_placed(g, s->stores.v, s->stores.n) &&
                      group_inside(g, s->stores.v, s->stores.n, &outer, &cover);
        if (inside && outer->where && !outer->exact) pass_domain(cx, g);
    }
}

/* Do all loads read parts, or what is the same in all loops? *some: parts. */
static bool reads_parts(const Plan *p, const TProg *t, const TBlock *b, bool *some) {
    for (int k = 0; k < b->inst.n; k++) {
        const TInst *i = b->inst.v[k];
        if (!reads_parts(p, t, &i->body, some)) return false;
        if (i->kind != T_LOAD) continue;
        const TTensor *x = &t->tensors.v[i->tensor];
        bool part = x->mem == TM_TEMP && p->graph->nodes.v[p->temps.v[x->id].node]->part;
        *some |= part;
        for (int d = 0; d < i->nix && !part; d++)
            for (int a = t->ngrid; a < t->axes.n; a++)
                if (ix_uses_axis(i->ix[d], a)) return false;
        if (!part && x->mem == TM_TEMP) return false;
    }
    return true;
}

bool pass_tile(PassCtx *cx, Graph *g) {
    if (!grouped(g)) pass_group(cx, g);
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
    find_bounds(cx, g, plan);
    for (int i = 0; i < nsteps; i++) {
        Step *s = &plan->steps.v[i];
        bool some = false;
        tile_step(plan, cx->arena, i, cx->strict);
        s->joins = reads_parts(plan, s->tile, &s->tile->body, &some) && some;
    }
    cx->plan = plan;
    return true;
}
