/* rows_join.c - see rows.c: one program of several over the same rows.
 *
 * Members' bodies are copied one after the other. What a member without loops does at points inside
 * of the rows goes into a nest of loops; what does not depend on those axes stands before it. A
 * load of what a member stores becomes that value: copied once more, with all it is made of, where
 * it depends on axes of a loop. At the end what nothing uses is taken out.
 */
#include "passes/rows_int.h"

#include <string.h>

typedef struct Made { /* a value that a member stores */
    const TTensor *t;
    int member, value;
} Made;

typedef struct Again { /* a value of an element that was copied once more */
    const TBlock *to;
    int member, value, as;
} Again;

typedef struct Join {
    const Rows *r;
    TProg *t;
    int **map;           /* by member, value: its number in the whole; -1 */
    const TInst ***def;  /* by member, value: what defines it; NULL: a carry */
    uint64_t **deps;     /* by member, value: the member's axes */
    const Ix ***axis_ix; /* by member, axis */
    VEC(Made) made;
    VEC(Again) again;
    bool fails;
} Join;

/* ---- tensors, index expressions ---- */

static int tensor(Join *j, const TTensor *x) {
    for (int k = 0; k < j->t->tensors.n; k++)
        if (j->t->tensors.v[k].mem == x->mem && j->t->tensors.v[k].id == x->id) return k;
    vec_push(j->r->arena, &j->t->tensors, *x);
    return j->t->tensors.n - 1;
}

typedef struct IxJoin {
    Join *j;
    int member;
    TBlock *to;
} IxJoin;

static int value_in(Join *j, int member, int value, TBlock *to);

static const Ix *value_ix(void *ctx, IxPool *p, int value, const Ix *const *args, int n) {
    IxJoin *x = ctx;
    (void)args;
    (void)n;
    return ix_value(p, value_in(x->j, x->member, value, x->to), NULL, 0);
}

static const Ix *joint_ix(Join *j, int member, const Ix *x, TBlock *to) {
    IxJoin ctx = {j, member, to};
    const RowMember *m = &j->r->members.v[member];
    IxSubst s = {.axes = j->axis_ix[member], .nax = m->t->axes.n, .value = value_ix, .ctx = &ctx};
    return x && (x->has_axis || x->has_value) ? ix_subst(j->t->ix, x, &s) : x;
}

/* ---- values ---- */

static TInst *copy_of(Join *j, int member, const TInst *i, TBlock *to) {
    TInst *c = ARENA_NEW(j->r->arena, TInst);
    *c = *i;
    memset(&c->body, 0, sizeof c->body);
    memset(&c->carries, 0, sizeof c->carries);
    if (i->kind == T_LOAD || i->kind == T_STORE)
        c->tensor = tensor(j, &j->r->members.v[member].t->tensors.v[i->tensor]);
    c->args = ARENA_ARRAY(j->r->arena, int, i->nargs + 1);
    c->ix = ARENA_ARRAY(j->r->arena, const Ix *, i->nix + 1);
    for (int k = 0; k < i->nargs; k++) c->args[k] = value_in(j, member, i->args[k], to);
    for (int k = 0; k < i->nix; k++) c->ix[k] = joint_ix(j, member, i->ix[k], to);
    if (i->id >= 0) c->id = j->t->nvalues++;
    return c;
}

static const Made *made_of(const Join *j, int member, const TInst *load) {
    const TTensor *x = &j->r->members.v[member].t->tensors.v[load->tensor];
    for (int k = 0; k < j->made.n; k++)
        if (x->mem != TM_IN && j->made.v[k].t->mem == x->mem && j->made.v[k].t->id == x->id)
            return &j->made.v[k];
    return NULL;
}

/* A member's value where it is read: as it is where it can be seen, else made again in `to`. */
static int value_in(Join *j, int member, int value, TBlock *to) {
    if (j->map[member][value] >= 0) return j->map[member][value];
    for (int k = 0; k < j->again.n; k++) {
        const Again *a = &j->again.v[k];
        if (a->to == to && a->member == member && a->value == value) return a->as;
    }
    const TInst *i = j->def[member][value];
    if (!i) { /* a carry of a loop that is over, inside of another */
        j->fails = true;
        return 0;
    }
    const Made *m = i->kind == T_LOAD ? made_of(j, member, i) : NULL;
    int as;
    if (m) {
        as = value_in(j, m->member, m->value, to);
    } else {
        TInst *c = copy_of(j, member, i, to);
        vec_push(j->r->arena, &to->inst, c);
        as = c->id;
    }
    Again a = {to, member, value, as};
    vec_push(j->r->arena, &j->again, a);
    return as;
}

/* ---- instructions ---- */

static void copy_carries(Join *j, int member, const TInst *i, TInst *c, TBlock *to) {
    for (int k = 0; k < i->carries.n; k++) {
        TCarry y = i->carries.v[k];
        j->map[member][y.id] = j->t->nvalues;
        y.id = j->t->nvalues++;
        if (y.frame >= 0) y.frame = j->map[member][y.frame];
        memset(&y.rescale, 0, sizeof y.rescale);
        for (int n = 0; n < i->carries.v[k].rescale.n; n++) {
            TFactor f = i->carries.v[k].rescale.v[n];
            if (f.kind == TF_VALUE) f.value = value_in(j, member, f.value, to);
            vec_push(j->r->arena, &y.rescale, f);
        }
        vec_push(j->r->arena, &c->carries, y);
    }
}

static void forget(Join *j, int member, const TBlock *b) {
    for (int k = 0; k < b->inst.n; k++) {
        const TInst *i = b->inst.v[k];
        if (i->id >= 0) j->map[member][i->id] = -1;
        forget(j, member, &i->body);
    }
}

static void copy_block(Join *j, int member, const TBlock *b, TBlock *to);

static void copy_inst(Join *j, int member, const TInst *i, TBlock *to) {
    const RowMember *m = &j->r->members.v[member];
    if (i->kind == T_LOAD && made_of(j, member, i)) {
        j->map[member][i->id] = value_in(j, member, i->id, to);
        return;
    }
    if (i->kind == T_STORE) {
        Made x = {&m->t->tensors.v[i->tensor], member, i->args[0]};
        vec_push(j->r->arena, &j->made, x);
        if (!rows_keeps(j->r, x.t)) return;
    }
    TInst *c = copy_of(j, member, i, to);
    if (i->id >= 0) j->map[member][i->id] = c->id;
    if (i->kind == T_LOOP) {
        c->axis = m->axis[i->axis];
        c->lo = joint_ix(j, member, i->lo, to);
        c->hi = joint_ix(j, member, i->hi, to);
        copy_carries(j, member, i, c, to);
    }
    vec_push(j->r->arena, &to->inst, c);
    if (i->kind != T_LOOP && i->kind != T_GUARD) return;
    copy_block(j, member, &i->body, &c->body);
    forget(j, member, &i->body);
}

static void copy_block(Join *j, int member, const TBlock *b, TBlock *to) {
    for (int k = 0; k < b->inst.n; k++) copy_inst(j, member, b->inst.v[k], to);
}

/* The member's axes that are loops of the whole, and of its own grid. */
static uint64_t inner_axes(const Join *j, int member) {
    const RowMember *m = &j->r->members.v[member];
    uint64_t set = 0;
    for (int a = 0; a < m->t->ngrid; a++)
        if (m->axis[a] >= j->r->nrows) set |= 1ull << a;
    return set;
}

/* A member without loops: what depends on axes that are loops goes into the innermost of them. */
static void copy_points(Join *j, int member, uint64_t inner) {
    const RowMember *m = &j->r->members.v[member];
    TBlock *to = &j->t->body;
    TInst *first = NULL;
    for (int a = 0; a < m->t->ngrid; a++) {
        if (!(inner >> a & 1)) continue;
        TInst *loop = ARENA_NEW(j->r->arena, TInst);
        *loop = (TInst){.kind = T_LOOP, .id = -1, .node = -1, .axis = m->axis[a]};
        loop->lo = ix_const(j->t->ix, 0);
        loop->hi = m->t->axes.v[a].extent;
        if (first) vec_push(j->r->arena, &to->inst, loop);
        if (!first) first = loop;
        to = &loop->body;
    }
    for (int k = 0; k < m->t->body.inst.n; k++) {
        const TInst *i = m->t->body.inst.v[k];
        uint64_t d = i->id >= 0 ? j->deps[member][i->id] : inner;
        bool before = i->id >= 0 && !(d & inner);
        for (int n = 0; n < i->nix && before; n++)
            before = i->kind != T_LOAD || ix_is_axis(i->ix[n], &(int){0});
        for (int n = 0; n < i->nargs && before; n++) before = j->map[member][i->args[n]] >= 0;
        copy_inst(j, member, i, before ? &j->t->body : to);
        if (!before && i->id >= 0 && j->map[member][i->id] >= 0) {
            Again a = {to, member, i->id, j->map[member][i->id]};
            vec_push(j->r->arena, &j->again, a);
            j->map[member][i->id] = -1;
        }
    }
    vec_push(j->r->arena, &j->t->body.inst, first);
}

/* ---- what nothing uses ---- */

static void uses(const Ix *x, bool *used) {
    if (!x || !x->has_value) return;
    if (x->kind == IX_VALUE) used[x->num] = true;
    for (int k = 0; k < x->n; k++) uses(x->arg[k], used);
}

/* Backwards: a value that is used keeps what it is made of. */
static bool prune(TBlock *b, bool *used) {
    int n = 0;
    for (int k = b->inst.n - 1; k >= 0; k--) {
        TInst *i = b->inst.v[k];
        bool keep = i->kind == T_STORE || (i->id >= 0 && used[i->id]);
        if (i->kind == T_STEP) keep = used[i->args[0]];
        if (i->kind == T_LOOP || i->kind == T_GUARD) {
            for (int c = 0; c < i->carries.n; c++)
                if (used[i->carries.v[c].id] && i->carries.v[c].frame >= 0)
                    used[i->carries.v[c].frame] = true;
            keep = prune(&i->body, used);
            for (int c = 0; c < i->carries.n && keep; c++)
                for (int f = 0; f < i->carries.v[c].rescale.n; f++)
                    if (i->carries.v[c].rescale.v[f].kind == TF_VALUE)
                        used[i->carries.v[c].rescale.v[f].value] = true;
        }
        if (!keep) {
            b->inst.v[k] = NULL;
            continue;
        }
        n++;
        for (int a = 0; a < i->nargs; a++) used[i->args[a]] = true;
        for (int a = 0; a < i->nix; a++) uses(i->ix[a], used);
        uses(i->lo, used), uses(i->hi, used);
    }
    int at = 0;
    for (int k = 0; k < b->inst.n; k++)
        if (b->inst.v[k]) b->inst.v[at++] = b->inst.v[k];
    b->inst.n = at;
    return n > 0;
}

static void prune_carries(TBlock *b, const bool *used) {
    for (int k = 0; k < b->inst.n; k++) {
        TInst *i = b->inst.v[k];
        int n = 0;
        for (int c = 0; c < i->carries.n; c++)
            if (used[i->carries.v[c].id]) i->carries.v[n++] = i->carries.v[c];
        i->carries.n = n;
        prune_carries(&i->body, used);
    }
}

/* Values are numbered in the order in which they stand. */
typedef struct Renumber {
    TProg *t;
    int *now, n;
} Renumber;

static void number(Renumber *r, TBlock *b) {
    for (int k = 0; k < b->inst.n; k++) {
        TInst *i = b->inst.v[k];
        for (int c = 0; c < i->carries.n; c++) r->now[i->carries.v[c].id] = r->n++;
        if (i->id >= 0) r->now[i->id] = r->n++;
        number(r, &i->body);
    }
}

static const Ix *renumbered_value(void *ctx, IxPool *p, int value, const Ix *const *args, int n) {
    const Renumber *r = ctx;
    (void)args;
    (void)n;
    return ix_value(p, r->now[value], NULL, 0);
}

static const Ix *renumbered(Renumber *r, const Ix *x) {
    IxSubst s = {.value = renumbered_value, .ctx = r};
    return x && x->has_value ? ix_subst(r->t->ix, x, &s) : x;
}

static void renumber(Renumber *r, TBlock *b) {
    for (int k = 0; k < b->inst.n; k++) {
        TInst *i = b->inst.v[k];
        if (i->id >= 0) i->id = r->now[i->id];
        for (int a = 0; a < i->nargs; a++) i->args[a] = r->now[i->args[a]];
        for (int a = 0; a < i->nix; a++) i->ix[a] = renumbered(r, i->ix[a]);
        i->lo = renumbered(r, i->lo), i->hi = renumbered(r, i->hi);
        for (int c = 0; c < i->carries.n; c++) {
            TCarry *y = &i->carries.v[c];
            y->id = r->now[y->id];
            if (y->frame >= 0) y->frame = r->now[y->frame];
            for (int f = 0; f < y->rescale.n; f++)
                if (y->rescale.v[f].kind == TF_VALUE)
                    y->rescale.v[f].value = r->now[y->rescale.v[f].value];
        }
        renumber(r, &i->body);
    }
}

static void drop_tensors(Arena *a, TProg *t) {
    bool *used = ARENA_ARRAY(a, bool, t->tensors.n + 1);
    int *now = ARENA_ARRAY(a, int, t->tensors.n + 1), n = 0;
    for (int turn = 0; turn < 2; turn++) {
        VEC(TBlock *) todo = {0};
        vec_push(a, &todo, &t->body);
        while (todo.n) {
            TBlock *b = todo.v[--todo.n];
            for (int k = 0; k < b->inst.n; k++) {
                TInst *i = b->inst.v[k];
                if (i->kind == T_LOAD || i->kind == T_STORE) {
                    used[i->tensor] = true;
                    if (turn) i->tensor = now[i->tensor];
                }
                if (i->body.inst.n) vec_push(a, &todo, &i->body);
            }
        }
        for (int k = 0; k < t->tensors.n && !turn; k++)
            if (used[k]) now[k] = n, t->tensors.v[n++] = t->tensors.v[k];
        t->tensors.n = n;
    }
}

static void tidy(Join *j) {
    TProg *t = j->t;
    bool *used = ARENA_ARRAY(j->r->arena, bool, t->nvalues + 1);
    prune(&t->body, used);
    prune_carries(&t->body, used);
    Renumber r = {t, ARENA_ARRAY(j->r->arena, int, t->nvalues + 1), 0};
    number(&r, &t->body);
    renumber(&r, &t->body);
    t->nvalues = r.n;
    drop_tensors(j->r->arena, t);
}

/* ---- the whole ---- */

static void define(Join *j, int member, const TBlock *b) {
    for (int k = 0; k < b->inst.n; k++) {
        if (b->inst.v[k]->id >= 0) j->def[member][b->inst.v[k]->id] = b->inst.v[k];
        define(j, member, &b->inst.v[k]->body);
    }
}

static void begin(Join *j, int member) {
    const RowMember *m = &j->r->members.v[member];
    Arena *a = j->r->arena;
    j->map[member] = ARENA_ARRAY(a, int, m->t->nvalues + 1);
    for (int v = 0; v < m->t->nvalues; v++) j->map[member][v] = -1;
    j->def[member] = ARENA_ARRAY(a, const TInst *, m->t->nvalues + 1);
    define(j, member, &m->t->body);
    j->deps[member] = tile_deps(a, m->t);
    j->axis_ix[member] = ARENA_ARRAY(a, const Ix *, m->t->axes.n + 1);
    for (int x = 0; x < m->t->axes.n; x++) j->axis_ix[member][x] = ix_axis(j->t->ix, m->axis[x]);
}

TProg *rows_join(const Rows *r) {
    Arena *a = r->arena;
    const TProg *first = r->members.v[0].t;
    int n = r->members.n;
    Join j = {.r = r};
    j.t = tile_new(first->arena, first->ix, first->name);
    j.t->sizes = first->sizes, j.t->nsizes = first->nsizes;
    for (int k = 0; k < r->axes.n; k++) {
        vec_push(first->arena, &j.t->axes, r->axes.v[k]);
        j.t->axes.v[k].grid = k < r->nrows;
    }
    j.t->ngrid = r->nrows;
    j.map = ARENA_ARRAY(a, int *, n);
    j.def = ARENA_ARRAY(a, const TInst **, n);
    j.deps = ARENA_ARRAY(a, uint64_t *, n);
    j.axis_ix = ARENA_ARRAY(a, const Ix **, n);
    for (int k = 0; k < n; k++) begin(&j, k);
    for (int k = 0; k < n && !j.fails; k++) {
        uint64_t inner = inner_axes(&j, k);
        if (inner)
            copy_points(&j, k, inner);
        else
            copy_block(&j, k, &r->members.v[k].t->body, &j.t->body);
    }
    if (j.fails) return NULL;
    tidy(&j);
    return j.t;
}

static bool computes(const TBlock *b, int node) {
    for (int k = 0; k < b->inst.n; k++) {
        const TInst *i = b->inst.v[k];
        if (i->node == node && i->kind != T_LOAD && i->kind != T_STORE) return true;
        if (computes(&i->body, node)) return true;
    }
    return false;
}

bool rows_computes(const TProg *t, int node) {
    return computes(&t->body, node);
}
