/* online.c - see online.h: what a program is. */
#include "ir/online.h"
#include "ir/mma_int.h"

#include <string.h>

#define no mma_no

typedef struct Find {
    Arena *a;
    const TProg *t;
    Online *o;
    const uint64_t *deps;
    bool *framed, *late; /* per value: depends on a frame, on a score */
    Str *why;
} Find;

static uint64_t bit(int axis) {
    return axis < 0 ? 0 : axis < 64 ? (uint64_t)1 << axis : UINT64_MAX;
}

static uint64_t load_axes(const Find *f, const TInst *i) {
    uint64_t d = 0;
    for (int k = 0; k < i->nix; k++) d |= tile_ix_deps(f->deps, i->ix[k]);
    return d;
}

/* ---- the body, flat ---- */

/* A condition's conjuncts, without those that the bounds of j say already. */
static void push_guard(Find *f, OnlineInst *x, int id) {
    const TInst *i = online_def(&f->t->body, id);
    if (i && i->kind == T_OP && i->op == OP_and) {
        push_guard(f, x, i->args[0]);
        push_guard(f, x, i->args[1]);
    } else if (!online_bounds_say(f->o, id)) {
        vec_push(f->a, &x->guards, id);
    }
}

static bool flatten(Find *f, const TBlock *b, const OnlineInst *around) {
    for (int k = 0; k < b->inst.n; k++) {
        OnlineInst x = {.i = b->inst.v[k]};
        for (int g = 0; around && g < around->guards.n; g++)
            vec_push(f->a, &x.guards, around->guards.v[g]);
        if (x.i->kind == T_GUARD) {
            push_guard(f, &x, x.i->args[0]);
            if (!flatten(f, &x.i->body, &x)) return false;
            continue;
        }
        if (x.i->kind == T_STORE) return no(f->why, "a store in the loop");
        vec_push(f->a, &f->o->body, x);
    }
    return true;
}

static const TInst *made_by(const Find *f, int id) {
    for (int k = 0; k < f->o->body.n; k++)
        if (f->o->body.v[k].i->id == id) return f->o->body.v[k].i;
    return NULL;
}

/* ---- scores ---- */

/* How much speaks for an axis as that of rows: j is bounded by it, by data of it; j is as long; it
 * may have many positions. */
static int worth(const Find *f, int axis) {
    const TInst *loop = f->o->loop;
    const Ix *extent = f->t->axes.v[axis].extent;
    uint64_t bounds = tile_ix_deps(f->deps, loop->lo) | tile_ix_deps(f->deps, loop->hi);
    int64_t n;
    int w = !ix_is_const(extent, &n) || n >= 64 ? 1 : 0;
    if (extent == f->t->axes.v[f->o->j].extent) w += 2;
    if (bounds & bit(axis)) w += 4;
    return w + (ix_uses_axis(loop->lo, axis) || ix_uses_axis(loop->hi, axis) ? 8 : 0);
}

/* Of the grid axes that one load has and the other has not, the most worth, later ones first. */
static int own_axis(const Find *f, const TInst *load, const TInst *other) {
    uint64_t own = load_axes(f, load) & ~load_axes(f, other);
    int best = -1;
    for (int a = f->t->ngrid - 1; a >= 0; a--)
        if (own & bit(a) && (best < 0 || worth(f, a) > worth(f, best))) best = a;
    return best;
}

static bool find_score(Find *f, const TInst *loop) {
    Online *o = f->o;
    const TInst *p, *q;
    if (o->nscores == ONLINE_SCORES) return no(f->why, "more than %d products", ONLINE_SCORES);
    if (!mma_product(f->t, loop, &p, &q, f->why)) return false;
    const TInst *a = load_axes(f, p) & bit(o->j) ? q : p, *b = a == p ? q : p;
    if (load_axes(f, a) & bit(o->j) || !(load_axes(f, b) & bit(o->j)))
        return no(f->why, "not one factor of a product alone moves along %s",
                  f->t->axes.v[o->j].name);
    OnlineScore *s = &o->score[o->nscores++];
    *s = (OnlineScore){.loop = loop, .carry = loop->carries.v[0].id, .k = loop->axis};
    int rows = own_axis(f, a, b);
    if (rows < 0 || (o->rows >= 0 && o->rows != rows))
        return no(f->why, "the products do not have rows of their own, the same ones");
    o->rows = rows;
    if (!mma_factor(f->t, a, rows, s->k, -1, &s->a, f->why) ||
        !online_factor(o, f->deps, b, o->j, s->k, &s->b, &s->where, f->why))
        return false;
    if (s->a.outer >= 0) return no(f->why, "a factor has two dimensions of k");
    return !s->a.vector && !s->b.vector ? true : no(f->why, "a factor is a vector");
}

/* ---- products ---- */

/* The last loads that a chain of multiplications ends in: x * load with columns. */
static bool find_product(Find *f, const TCarry *c, const TInst *step) {
    Online *o = f->o;
    const TInst *mul = made_by(f, step->args[1]);
    if (o->nproducts == ONLINE_PRODUCTS)
        return no(f->why, "more than %d sums of products", ONLINE_PRODUCTS);
    bool adds = c->type == DT_f32 && reduce_combine(c->red) == OP_add;
    if (!adds || !mul || mul->kind != T_OP || mul->op != OP_mul)
        return no(f->why, "what is summed over columns is no product");
    int k = f->deps[mul->args[0]] & bit(o->cols) ? 0 : 1;
    const TInst *load = made_by(f, mul->args[k]);
    OnlineProduct *p = &o->product[o->nproducts++];
    *p = (OnlineProduct){.c = c, .step = step, .mul = mul, .element = mul->args[1 - k]};
    if (!load || load->kind != T_LOAD || f->deps[p->element] & bit(o->cols))
        return no(f->why, "what is summed over columns is not a load times something over rows");
    if (load_axes(f, load) & bit(o->rows)) return no(f->why, "a factor over columns has rows too");
    p->factor = o->nfactors;
    for (int q = 0; q + 1 < o->nproducts; q++)
        if (o->product[q].element == p->element) p->factor = o->product[q].factor;
    if (p->factor == o->nfactors) o->nfactors++;
    if (!online_factor(o, f->deps, load, o->cols, o->j, &p->b, &p->where, f->why)) return false;
    return !p->b.vector ? true : no(f->why, "a factor is a vector");
}

/* The columns: of what is stepped, the grid axis that no score has. */
static bool find_columns(Find *f) {
    Online *o = f->o;
    uint64_t grid = bit(f->t->ngrid) - 1, known = bit(o->rows);
    for (int s = 0; s < o->nscores; s++)
        known |= load_axes(f, o->score[s].a.load) | load_axes(f, o->score[s].b.load);
    for (int c = 0; c < o->loop->carries.n; c++) {
        uint64_t more = f->deps[o->loop->carries.v[c].id] & grid & ~known;
        for (int a = 0; a < f->t->ngrid && more; a++) {
            if (!(more & bit(a))) continue;
            if (o->cols >= 0 && o->cols != a) return no(f->why, "sums over two axes of columns");
            o->cols = a;
        }
    }
    return true;
}

static const TCarry *carry_of(const Online *o, int id) {
    for (int c = 0; c < o->loop->carries.n; c++)
        if (o->loop->carries.v[c].id == id) return &o->loop->carries.v[c];
    return NULL;
}

static bool find_step(Find *f, const TInst *i) {
    Online *o = f->o;
    const TCarry *c = carry_of(o, i->args[0]);
    if (!c) return no(f->why, "a step of a value carried elsewhere");
    for (int k = 0; k < o->nrows; k++)
        if (o->row[k].c == c) return no(f->why, "a carried value is stepped twice");
    if (f->deps[c->id] & bit(o->cols)) return find_product(f, c, i);
    if (o->nrows == ONLINE_ROWS) return no(f->why, "more than %d values over rows", ONLINE_ROWS);
    if (c->type != DT_f32 && c->type != DT_i32 && c->type != DT_i64)
        return no(f->why, "%s is no number", c->name ? c->name : "a value");
    o->row[o->nrows++] = (OnlineRow){c, i};
    return true;
}

/* ---- the rest ---- */

static void mark(Find *f) {
    Online *o = f->o;
    f->framed = ARENA_ARRAY(f->a, bool, f->t->nvalues + 1);
    f->late = ARENA_ARRAY(f->a, bool, f->t->nvalues + 1);
    for (int c = 0; c < o->loop->carries.n; c++)
        if (o->loop->carries.v[c].frame >= 0) f->framed[o->loop->carries.v[c].frame] = true;
    for (int s = 0; s < o->nscores; s++) f->late[o->score[s].carry] = true;
    for (int k = 0; k < o->body.n; k++) {
        OnlineInst *x = &o->body.v[k];
        int n = x->i->kind == T_STEP ? 2 : x->i->nargs;
        for (int a = x->i->kind == T_STEP ? 1 : 0; a < n; a++) {
            x->framed |= f->framed[x->i->args[a]];
            x->early |= f->late[x->i->args[a]];
        }
        x->early = !x->early && !x->framed;
        if (x->i->kind == T_STEP) x->framed |= carry_of(o, x->i->args[0])->frame >= 0;
        if (x->i->id < 0) continue;
        f->framed[x->i->id] = x->framed;
        f->late[x->i->id] = !x->early;
    }
    for (int p = 0; p < o->nproducts; p++)
        for (int k = 0; k < o->body.n; k++) {
            const TInst *i = o->body.v[k].i;
            const OnlineProduct *q = &o->product[p];
            o->body.v[k].factor |= i == q->step || i == q->mul || i == q->b.load;
        }
}

static void need_ix(bool *needed, const Ix *x) {
    if (x->kind == IX_VALUE) needed[x->num] = true;
    for (int k = 0; k < x->n; k++) need_ix(needed, x->arg[k]);
}

/* What elements do not need, and no step does, says where factors are read. */
static void drop_places(Find *f) {
    Online *o = f->o;
    bool *needed = ARENA_ARRAY(f->a, bool, f->t->nvalues + 1);
    int left = o->body.n;
    for (int k = o->body.n - 1; k >= 0; k--) {
        OnlineInst *x = &o->body.v[k];
        for (int g = 0; g < x->guards.n; g++) needed[x->guards.v[g]] = true;
        if (x->i->kind != T_STEP && !x->factor && !needed[x->i->id]) continue;
        for (int a = 0; a < x->i->nargs; a++) needed[x->i->args[a]] = true;
        for (int d = 0; d < x->i->nix && !x->factor; d++) need_ix(needed, x->i->ix[d]);
        o->body.v[--left] = *x;
    }
    o->body.n -= left;
    memmove(o->body.v, o->body.v + left, sizeof *o->body.v * (size_t)o->body.n);
}

/* What is loaded for each element is inside of the tensor at any row and any j. */
static bool check_load(Find *f, const TInst *i) {
    uint64_t elements = bit(f->o->rows) | bit(f->o->j);
    for (int d = 0; d < i->nix; d++)
        if (tile_ix_deps(f->deps, i->ix[d]) & elements && !online_inside(f->o, i, d))
            return no(f->why, "%s is read at an index of its own", f->t->tensors.v[i->tensor].name);
    return true;
}

static bool check_outside(Find *f) {
    const TProg *t = f->t;
    Online *o = f->o;
    for (int k = 0; k < t->body.inst.n; k++) {
        const TInst *i = t->body.inst.v[k];
        if (i->kind == T_GUARD) return no(f->why, "a guard");
        if (i->kind == T_LOOP && i != o->loop) return no(f->why, "a second loop");
        if (i->kind != T_STORE) continue;
        const TTensor *x = &t->tensors.v[i->tensor];
        if (dtype_bits(x->type) == 4) return no(f->why, "%s has a 4-bit type", x->name);
        if (!(load_axes(f, i) & bit(o->rows)))
            return no(f->why, "%s is not stored over rows", x->name);
        if (f->deps[i->args[0]] & bit(o->cols) && !(load_axes(f, i) & bit(o->cols)))
            return no(f->why, "%s is not stored over columns", x->name);
    }
    return true;
}

static bool frames_known(Find *f) {
    const Online *o = f->o;
    for (int c = 0; c < o->loop->carries.n; c++) {
        int frame = o->loop->carries.v[c].frame;
        bool row = frame < 0;
        for (int k = 0; k < o->nrows; k++) row |= o->row[k].c->id == frame;
        if (!row) return no(f->why, "a frame is not over rows");
    }
    return true;
}

static const OnlineInst *inst_of(const Online *o, const TInst *i) {
    for (int k = 0; k < o->body.n; k++)
        if (o->body.v[k].i == i) return &o->body.v[k];
    return NULL;
}

/* Whether anything came to a row is counted beside sums over rows, and products have it from one of
 * their frame and condition: without it an empty row would be NaN. */
static bool counted(Find *f) {
    const Online *o = f->o;
    for (int p = 0; p < o->nproducts; p++) {
        const OnlineInst *x = inst_of(o, o->product[p].step);
        bool known = !x->guards.n || o->product[p].c->frame < 0;
        for (int k = 0; k < o->nrows && !known; k++) {
            const OnlineInst *y = inst_of(o, o->row[k].step);
            known = o->row[k].c->frame == o->product[p].c->frame && y->guards.n == x->guards.n;
            for (int g = 0; known && g < x->guards.n; g++) known = x->guards.v[g] == y->guards.v[g];
        }
        if (!known) return no(f->why, "a masked sum of products has no sum over rows beside it");
    }
    return true;
}

static bool find_body(Find *f) {
    Online *o = f->o;
    for (int k = 0; k < o->body.n; k++)
        if (o->body.v[k].i->kind == T_LOOP && !find_score(f, o->body.v[k].i)) return false;
    if (!o->nscores) return no(f->why, "no product of matrices in the loop");
    if (!find_columns(f)) return false;
    int n = 0;
    for (int k = 0; k < o->body.n; k++)
        if (o->body.v[k].i->kind != T_LOOP) o->body.v[n++] = o->body.v[k];
    o->body.n = n;
    for (int k = 0; k < n; k++)
        if (o->body.v[k].i->kind == T_STEP && !find_step(f, o->body.v[k].i)) return false;
    mark(f);
    drop_places(f);
    for (int k = 0; k < o->body.n; k++) {
        const OnlineInst *x = &o->body.v[k];
        uint64_t d = x->i->id >= 0 ? f->deps[x->i->id] : 0;
        if (!x->factor && d & bit(o->cols)) return no(f->why, "columns in the loop");
        if (!x->factor && x->i->kind == T_LOAD && !check_load(f, x->i)) return false;
    }
    return frames_known(f) && counted(f);
}

static bool is_mma(const TProg *t) {
    Mma m;
    Str why = {0};
    bool is = mma_find(t, -1, -1, &m, &why);
    str_free(&why);
    return is;
}

Mma online_score_view(const Online *o, int score) {
    return (Mma){.t = o->t, .rows = o->rows, .cols = o->j, .k = o->score[score].k};
}

bool online_can_bring(const Online *o, const OnlineInst *load) {
    const TInst *i = load->i;
    Mma m = {.t = o->t, .rows = o->rows, .cols = o->j, .k = -1};
    if (i->kind != T_LOAD || load->factor || !load->early) return false;
    int bits = dtype_bits(o->t->tensors.v[i->tensor].type);
    return (bits == 16 || bits == 32) && mma_can_bring(o->t, &m, i);
}

/* TMA brings boxes that begin at multiples of 16 bytes. */
static bool check_begin(Find *f, const Mma *m, const TInst *load) {
    int unit;
    if (mma_begins(m, load, &unit)) return true;
    return no(f->why, "%s begins at no multiple of 16 bytes", f->t->tensors.v[load->tensor].name);
}

static bool check_begins(Find *f) {
    const Online *o = f->o;
    for (int s = 0; s < o->nscores; s++) {
        Mma m = online_score_view(o, s);
        if (!check_begin(f, &m, o->score[s].a.load) || !check_begin(f, &m, o->score[s].b.load))
            return false;
    }
    Mma m = {.t = f->t, .rows = o->rows, .cols = o->cols, .k = o->j};
    for (int p = 0; p < o->nproducts; p++)
        if (!check_begin(f, &m, o->product[p].b.load)) return false;
    return true;
}

bool online_find(Arena *a, const TProg *t, Online *o, Str *why) {
    *o = (Online){.t = t, .rows = -1, .j = -1, .cols = -1};
    Find f = {.a = a, .t = t, .o = o, .why = why};
    if (is_mma(t)) return no(why, "one product of matrices, and its reductions");
    if (t->axes.n >= 64) return no(why, "%d axes", t->axes.n);
    for (int k = 0; k < t->body.inst.n; k++)
        if (t->body.inst.v[k]->kind == T_LOOP && !o->loop) o->loop = t->body.inst.v[k], o->at = k;
    if (!o->loop) return no(why, "no loop");
    o->j = o->loop->axis;
    f.deps = o->deps = tile_deps(a, t);
    if (!flatten(&f, &o->loop->body, NULL) || !find_body(&f) || !check_outside(&f)) return false;
    for (int s = 0; s < o->nscores; s++)
        if (!mma_pair_size(o->score[s].a.type, o->score[s].b.type) ||
            dtype_bits(o->score[s].a.type) != 16)
            return no(why, "the factors are not of one 16-bit float type");
    for (int p = 0; p < o->nproducts; p++)
        if (o->product[p].b.type != DT_bf16 && o->product[p].b.type != DT_f16)
            return no(why, "a factor over columns is not of a 16-bit float type");
    for (int p = 0; p < o->nproducts; p++)
        for (int k = 0; k < o->body.n; k++)
            if (o->body.v[k].i == o->product[p].step)
                o->product[p].holes = online_leaves_out(a, o, &o->body.v[k]);
    online_find_picks(a, o);
    return check_begins(&f);
}

int online_moves(const uint64_t *deps, const Ix *x, int axis) {
    if (!(tile_ix_deps(deps, x) & bit(axis))) return 0;
    int a, b;
    switch (x->kind) {
    case IX_AXIS: return 1;
    case IX_ADD:
    case IX_MIN:
    case IX_MAX:
        a = 0;
        for (int k = 0; k < x->n; k++) {
            b = online_moves(deps, x->arg[k], axis);
            if (b == ONLINE_ANY || a * b < 0) return ONLINE_ANY;
            if (b) a = b;
        }
        return a;
    case IX_MUL:
        if (x->n != 2 || x->arg[0]->kind != IX_CONST) return ONLINE_ANY;
        a = online_moves(deps, x->arg[1], axis);
        return a == ONLINE_ANY ? a : x->arg[0]->num < 0 ? -a : a;
    case IX_DIV:
        if (tile_ix_deps(deps, x->arg[1])) return ONLINE_ANY;
        return online_moves(deps, x->arg[0], axis);
    default: return ONLINE_ANY;
    }
}
