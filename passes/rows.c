/* rows.c - steps that work on the same rows become one: a row's statistics, and what is made of the
 * row with them.
 *
 * A step with loops over the domain of the values that it stores (rows: its grid) takes in others:
 *     before it   without loops, whose values it or what it took reads at their own places
 *     behind it   without loops, or with loops over the same rows, that read its values so
 * Their programs stand one after the other in one program over the rows; what is not a row of the
 * others' grids becomes a loop. A value that a member reads of another is at hand: a row's own
 * value as it is, one of a row's elements computed again (a schedule that holds a row in registers
 * has it still). What nobody else reads is no longer stored.
 *
 * No axes at all are one row, of one axis; only where schedules may cut it into parts.
 *
 * Not taken: programs that a tensor core could have, reads at other places, and what would walk
 * memory across the rows where the loops walk along them, or the other way round.
 */
#include "passes/rows_int.h"

#include <string.h>

/* ---- which steps may be joined ---- */

static bool has_loops(const TProg *t) {
    for (int k = 0; k < t->body.inst.n; k++)
        if (t->body.inst.v[k]->kind == T_LOOP || t->body.inst.v[k]->kind == T_GUARD) return true;
    return false;
}

static bool stores_nibbles(const TProg *t) {
    for (int k = 0; k < t->tensors.n; k++)
        if (t->tensors.v[k].mem != TM_IN && dtype_bits(t->tensors.v[k].type) == 4) return true;
    return false;
}

/* Stores at the level of the grid alone, each at bare axes. */
static bool stores_plainly(const TProg *t, const TBlock *b, bool top) {
    for (int k = 0; k < b->inst.n; k++) {
        const TInst *i = b->inst.v[k];
        if (i->kind == T_STORE) {
            if (!top) return false;
            for (int d = 0; d < i->nix; d++)
                if (!ix_is_axis(i->ix[d], &(int){0})) return false;
        } else if (!stores_plainly(t, &i->body, false)) {
            return false;
        }
    }
    return true;
}

static bool is_fast(PassCtx *cx, const Step *s) {
    Step copy = *s;
    memset(&copy.schedules, 0, sizeof copy.schedules);
    schedule_wgmma(cx, &copy);
    schedule_online(cx, &copy);
    return copy.schedules.n > 0;
}

/* Loops inside of loops are products of matrices as often as not: left as they are. */
static bool simple_loops(const TProg *t) {
    for (int k = 0; k < t->body.inst.n; k++) {
        const TInst *i = t->body.inst.v[k];
        for (int n = 0; i->kind == T_LOOP && n < i->body.inst.n; n++)
            if (i->body.inst.v[n]->kind == T_LOOP && i->body.inst.n > 1) return false;
    }
    return true;
}

static bool joinable(PassCtx *cx, const Step *s) {
    const TProg *t = s->tile;
    int loads;
    if ((t->ngrid < 1 && (cx->strict || cx->invariant)) || t->axes.n > 32 || stores_nibbles(t) ||
        !stores_plainly(t, &t->body, true) || !simple_loops(t) ||
        rows_reused(cx->arena, t, &loads) > 1)
        return false;
    return loads < 2 || !is_fast(cx, s);
}

/* ---- what they read of one another ---- */

typedef struct Access {
    const TTensor *t;
    const TInst *i;
} Access;

typedef struct Accesses {
    Arena *arena;
    const TProg *t;
    TKind kind;
    VEC(Access) list;
} Accesses;

static void note(void *ctx, TInst *i, int depth) {
    Accesses *a = ctx;
    (void)depth;
    if (i->kind != a->kind) return;
    Access x = {&a->t->tensors.v[i->tensor], i};
    vec_push(a->arena, &a->list, x);
}

static Accesses accesses(Arena *a, const TProg *t, TKind kind) {
    Accesses x = {.arena = a, .t = t, .kind = kind};
    tile_walk(&t->body, note, &x);
    return x;
}

static bool same_memory(const TTensor *a, const TTensor *b) {
    return a->mem != TM_IN && a->mem == b->mem && a->id == b->id;
}

/* Does `to` read what `from` stores? */
static bool reads(Arena *a, const TProg *to, const TProg *from) {
    Accesses l = accesses(a, to, T_LOAD), s = accesses(a, from, T_STORE);
    for (int k = 0; k < l.list.n; k++)
        for (int n = 0; n < s.list.n; n++)
            if (same_memory(l.list.v[k].t, s.list.v[n].t)) return true;
    return false;
}

/* ---- a group ---- */

/* Axis `mine` of a member stands for axis `joint` of the whole: false if it already stands for
 * another. */
static bool stands(RowMember *m, int mine, int joint) {
    if (m->axis[mine] >= 0 && m->axis[mine] != joint) return false;
    m->axis[mine] = joint;
    return true;
}

/* What member m reads of x (or x of m) lies at the places where it was made. `x` has its axes. */
static bool meet(Arena *a, RowMember *m, const RowMember *x, bool m_reads) {
    Accesses mine = accesses(a, m->t, m_reads ? T_LOAD : T_STORE);
    Accesses theirs = accesses(a, x->t, m_reads ? T_STORE : T_LOAD);
    for (int k = 0; k < mine.list.n; k++)
        for (int n = 0; n < theirs.list.n; n++) {
            const TInst *p = mine.list.v[k].i, *q = theirs.list.v[n].i;
            if (!same_memory(mine.list.v[k].t, theirs.list.v[n].t)) continue;
            for (int d = 0; d < p->nix; d++) {
                int i, j;
                if (!ix_is_axis(p->ix[d], &i) || !ix_is_axis(q->ix[d], &j)) return false;
                if (!stands(m, i, x->axis[j])) return false;
            }
        }
    return true;
}

/* An axis of the whole for one inside of the rows, at `depth` of a nest; made if there is none. */
static int inner_axis(Rows *r, const TAxis *x, int depth) {
    for (int k = r->nrows; k < r->axes.n; k++)
        if (r->depth.v[k] == depth && r->axes.v[k].extent == x->extent) return k;
    TAxis one = {x->name, x->extent, false, x->grid ? 1 : x->tile};
    vec_push(r->arena, &r->axes, one);
    vec_push(r->arena, &r->depth, depth);
    return r->axes.n - 1;
}

static bool lay_loops(Rows *r, RowMember *m, const TBlock *b, int depth) {
    for (int k = 0; k < b->inst.n; k++) {
        const TInst *i = b->inst.v[k];
        if (i->kind == T_LOOP && m->axis[i->axis] < 0)
            m->axis[i->axis] = inner_axis(r, &m->t->axes.v[i->axis], depth);
        if (i->kind == T_LOOP && r->depth.v[m->axis[i->axis]] != depth) return false;
        if (!lay_loops(r, m, &i->body, depth + (i->kind == T_LOOP))) return false;
    }
    return true;
}

/* All rows are among the member's axes, once each, as long as they are; the rest are loops. */
static bool lay_axes(Rows *r, RowMember *m) {
    bool loops = has_loops(m->t);
    int seen = 0, depth = 0;
    for (int a = 0; a < m->t->axes.n; a++) {
        int x = m->axis[a];
        for (int b = 0; b < a; b++)
            if (x >= 0 && m->axis[b] == x && a < m->t->ngrid) return false;
        if (x >= 0 && m->t->axes.v[a].extent != r->axes.v[x].extent) return false;
        if (a >= m->t->ngrid) continue;
        if (x >= 0 && x < r->nrows) {
            seen++;
            continue;
        }
        if (loops) return false; /* its grid is not the rows */
        if (x < 0) m->axis[a] = inner_axis(r, &m->t->axes.v[a], depth);
        if (r->depth.v[m->axis[a]] != depth++) return false;
    }
    return seen == r->nrows && lay_loops(r, m, &m->t->body, 0);
}

/* Accesses of a row's elements that walk memory along the row, less those that walk it across. */
static int along(const Rows *r, const RowMember *m) {
    int sum = 0;
    for (int kind = 0; kind < 2; kind++) {
        Accesses x = accesses(r->arena, m->t, kind ? T_STORE : T_LOAD);
        for (int k = 0; k < x.list.n; k++) {
            const TInst *i = x.list.v[k].i;
            bool inner = false, last = false;
            for (int a = 0; a < m->t->axes.n; a++) {
                if (m->axis[a] < r->nrows) continue;
                for (int d = 0; d < i->nix; d++) inner |= ix_uses_axis(i->ix[d], a);
                last |= i->nix && ix_uses_axis(i->ix[i->nix - 1], a);
            }
            sum += !inner ? 0 : last ? 1 : -1;
        }
    }
    return sum;
}

static RowMember member(Rows *r, int step) {
    RowMember m = {.step = step, .t = r->plan->steps.v[step].tile};
    m.axis = ARENA_ARRAY(r->arena, int, m.t->axes.n + 1);
    for (int k = 0; k < m.t->axes.n; k++) m.axis[k] = -1;
    return m;
}

/* Tries to take a step in, before or behind what is there. */
static bool take(Rows *r, int step, bool behind) {
    RowMember m = member(r, step);
    bool joined = false;
    int axes = r->axes.n;
    for (int k = 0; k < r->members.n; k++) {
        const RowMember *x = &r->members.v[k];
        if (!reads(r->arena, behind ? m.t : x->t, behind ? x->t : m.t)) continue;
        joined = true;
        if (!meet(r->arena, &m, x, behind)) return false;
    }
    if (!joined || (!behind && has_loops(m.t))) return false;
    bool plain = lay_axes(r, &m) && (r->nrows || r->axes.n == 1); /* one row: may be in parts */
    if (!plain || along(r, &m) * r->along < 0) {
        r->axes.n = r->depth.n = axes;
        return false;
    }
    int at = behind ? r->members.n : 0;
    vec_push(r->arena, &r->members, m);
    for (int k = r->members.n - 1; k > at; k--) r->members.v[k] = r->members.v[k - 1];
    r->members.v[at] = m;
    return true;
}

static bool is_member(const Rows *r, int step) {
    for (int k = 0; k < r->members.n; k++)
        if (r->members.v[k].step == step) return true;
    return false;
}

/* Does a step between that is no member read what a member stores? Then nothing behind it joins. */
static bool barred(const Rows *r, int step) {
    for (int k = 0; k < r->members.n; k++)
        if (reads(r->arena, r->plan->steps.v[step].tile, r->members.v[k].t)) return true;
    return false;
}

/* The whole stands where its last member stood: does another step before that read what `step`
 * stores? */
static bool needed_before(const Rows *r, int step) {
    int last = r->members.v[r->members.n - 1].step;
    for (int s = step + 1; s < last; s++) {
        const TProg *t = r->plan->steps.v[s].tile;
        if (t && !is_member(r, s) && reads(r->arena, t, r->plan->steps.v[step].tile)) return true;
    }
    return false;
}

static void gather(Rows *r, int first, const bool *can, const bool *taken) {
    const TProg *t = r->plan->steps.v[first].tile;
    r->nrows = t->ngrid;
    for (int a = 0; a < t->ngrid; a++) {
        vec_push(r->arena, &r->axes, t->axes.v[a]);
        vec_push(r->arena, &r->depth, -1);
    }
    RowMember m = member(r, first);
    for (int a = 0; a < t->ngrid; a++) m.axis[a] = a;
    if (!lay_loops(r, &m, &t->body, 0)) return;
    r->along = along(r, &m);
    vec_push(r->arena, &r->members, m);
    for (int s = first - 1; s >= 0; s--) {
        if (can[s] && !taken[s] && !needed_before(r, s) && take(r, s, false)) continue;
        if (!r->plan->steps.v[s].tile) continue;
        bool feeds = false; /* what it makes is made before all that a member before it makes? */
        for (int k = 0; k < r->members.n; k++)
            feeds |= reads(r->arena, r->members.v[k].t, r->plan->steps.v[s].tile);
        if (feeds && !taken[s]) break;
    }
    for (int s = first + 1; s < r->plan->steps.n; s++) {
        if (can[s] && !taken[s] && take(r, s, true)) continue;
        if (!r->plan->steps.v[s].tile) continue;
        if (barred(r, s)) break;
    }
}

/* ---- the plan ---- */

static bool read_elsewhere(const Rows *r, const TTensor *x) {
    for (int s = 0; s < r->plan->steps.n; s++) {
        if (is_member(r, s) || !r->plan->steps.v[s].tile) continue;
        Accesses l = accesses(r->arena, r->plan->steps.v[s].tile, T_LOAD);
        for (int k = 0; k < l.list.n; k++)
            if (same_memory(l.list.v[k].t, x)) return true;
    }
    return false;
}

bool rows_keeps(const Rows *r, const TTensor *x) {
    return x->mem == TM_OUT || read_elsewhere(r, x);
}

static void join_edges(const Rows *r, Graph *g) {
    for (int k = 0; k < g->edges.n; k++) {
        Edge *e = &g->edges.v[k];
        if (!e->cut || !is_member(r, g->nodes.v[e->from]->step)) continue;
        const Node *to = g->nodes.v[e->to];
        bool here = false;
        for (int m = 0; m < r->members.n && !here; m++)
            here = rows_computes(r->members.v[m].t, e->to) || (to->store && is_member(r, to->step));
        if (!here) continue;
        e->cut = false;
        e->reason = "the same rows: one kernel has them";
        e->price = e->other = -1;
    }
}

/* The members' last place is that of the whole; the others are left empty. */
static void replace(Rows *r, Graph *g, TProg *t) {
    Plan *p = r->plan;
    int last = r->members.v[r->members.n - 1].step;
    join_edges(r, g);
    VEC(int) stores = {0};
    for (int k = 0; k < r->members.n; k++) {
        Step *s = &p->steps.v[r->members.v[k].step];
        for (int n = 0; n < s->stores.n; n++) {
            Node *x = g->nodes.v[s->stores.v[n]];
            x->step = last;
            bool kept = false;
            for (int d = 0; d < p->temps.n; d++) {
                TTensor of = {.mem = TM_TEMP, .id = d};
                kept |= p->temps.v[d].node == x->id && read_elsewhere(r, &of);
            }
            for (int d = 0; d < g->params.n; d++)
                kept |= g->params.v[d].out && g->params.v[d].node == x->id;
            if (kept) vec_push(r->arena, &stores, x->id);
            x->store = kept;
        }
        if (r->members.v[k].step != last) s->tile = NULL;
    }
    p->steps.v[last].tile = t;
    p->steps.v[last].stores.n = 0;
    for (int k = 0; k < stores.n; k++)
        vec_push(p->graph->arena, &p->steps.v[last].stores, stores.v[k]);
}

static void renumber_temps(Plan *p) {
    int n = 0;
    for (int d = 0; d < p->temps.n; d++) {
        bool used = false;
        for (int s = 0; s < p->steps.n; s++) {
            TProg *t = p->steps.v[s].tile;
            for (int k = 0; k < t->tensors.n; k++)
                if (t->tensors.v[k].mem == TM_TEMP && t->tensors.v[k].id == d) {
                    used = true;
                    t->tensors.v[k].id = n;
                }
        }
        if (used) p->temps.v[n++] = p->temps.v[d];
    }
    p->temps.n = n;
}

/* Takes the empty places out. */
static void renumber_steps(PassCtx *cx, Graph *g, Plan *p) {
    int n = 0, *now = ARENA_ARRAY(cx->arena, int, p->steps.n);
    for (int s = 0; s < p->steps.n; s++) {
        now[s] = n;
        if (!p->steps.v[s].tile) continue;
        p->steps.v[n] = p->steps.v[s];
        p->steps.v[n].name = arena_printf(cx->arena, "%s.%d", g->name, n);
        p->steps.v[n].tile->name = p->steps.v[n].name;
        n++;
    }
    for (int k = 0; k < g->nodes.n; k++)
        if (g->nodes.v[k]->step >= 0) g->nodes.v[k]->step = now[g->nodes.v[k]->step];
    p->steps.n = n;
}

/* Loops over the same extent by different axes: one axis will do, and schedules can see it. */
static bool parted(const TProg *t) {
    int axis = -1;
    for (int k = 0; k < t->body.inst.n; k++) {
        const TInst *i = t->body.inst.v[k];
        if (i->kind != T_LOOP) continue;
        if (axis >= 0 && axis != i->axis && t->axes.v[axis].extent == t->axes.v[i->axis].extent)
            return true;
        axis = i->axis;
    }
    return false;
}

bool pass_rows(PassCtx *cx, Graph *g) {
    if (!cx->plan || cx->plan->graph != g) pass_tile(cx, g);
    Plan *p = cx->plan;
    int n = p->steps.n;
    bool *can = ARENA_ARRAY(cx->arena, bool, n + 1), *taken = ARENA_ARRAY(cx->arena, bool, n + 1);
    bool changed = false;
    for (int s = 0; s < n; s++) can[s] = joinable(cx, &p->steps.v[s]);
    for (int s = 0; s < n; s++) {
        if (!can[s] || taken[s] || !has_loops(p->steps.v[s].tile)) continue;
        Rows r = {.arena = cx->arena, .plan = p};
        gather(&r, s, can, taken);
        if (r.members.n < 2 && (r.members.n < 1 || !parted(p->steps.v[s].tile))) continue;
        TProg *t = rows_join(&r);
        if (!t) continue;
        replace(&r, g, t);
        for (int k = 0; k < r.members.n; k++) taken[r.members.v[k].step] = true;
        changed = true;
        for (int k = 0; k < n; k++)
            if (!p->steps.v[k].tile) taken[k] = true;
    }
    if (!changed) return false;
    renumber_steps(cx, g, p);
    renumber_temps(p);
    return true;
}
