/* online_page.c - where the loader finds factors that lie in pages, or are read where data say
 * (ir/online.h).
 *
 * The loader is a warp then. Of each block every lane has a page, and computes where it is, once
 * for all factors that it is the same for: reads of a table are one access of the warp, issued
 * while the block before is loaded. What the copies of a page need comes from its lane by a
 * shuffle.
 *
 * A page that data put outside of its tensor reads 0, which is what TMA makes of a coordinate of
 * -1; so do pages that lie wholly beyond the bounds of j, whatever their table has: nobody reads
 * them.
 */
#include "backend/nvptx/online_int.h"

/* ---- what there is ---- */

static void note_values(On *on, const Ix *x) {
    Lower *l = on->l;
    if (x->kind == IX_VALUE && !on->by_page[x->num] && (l->deps[x->num] >> on->o.j & 1)) {
        const TInst *i = l->def[x->num];
        on->by_page[x->num] = true;
        for (int d = 0; d < i->nix; d++) note_values(on, i->ix[d]);
        for (int a = 0; a < i->nargs; a++) note_values(on, ix_value(l->t->ix, i->args[a], NULL, 0));
    }
    for (int k = 0; k < x->n; k++) note_values(on, x->arg[k]);
}

static bool moves(const On *on, const Ix *x) {
    return tile_ix_deps(on->l->deps, x) >> on->o.j & 1;
}

/* Warps at most. Measured: two groups wait where one warp loads (prefill takes 1.2 times as long);
 * one group waits for memory, which likes few boxes at a time (2 %). */
enum { LOADERS = 4, FEW = 8 };

static int gcd(int a, int b) {
    return b ? gcd(b, a % b) : a;
}

static int place_of(const On *on, const Ix *x, const Ix *extent) {
    for (int p = 0; p < on->places.n; p++)
        if (on->places.v[p].x == x && on->places.v[p].extent == extent) return p;
    return -1;
}

static void note(On *on, const MmaFactor *f, const OnlineWhere *w) {
    const TTensor *of = &on->l->t->tensors.v[f->load->tensor];
    for (int d = 0; d < of->rank; d++) {
        OnPlace at = {f->load->ix[d], of->dims[d]};
        if (!(w->dims >> d & 1) || !moves(on, at.x)) continue;
        if (place_of(on, at.x, at.extent) < 0) vec_push(on->l->arena, &on->places, at);
        note_values(on, at.x);
    }
    if (!w->page) return;
    int boxes = w->page < on->t.j ? on->t.j / w->page : 1, warps = boxes;
    on->page_lines = gcd(w->page, on->page_lines);
    if (on->t.out.groups == 1) warps = boxes / FEW > 1 ? boxes / FEW : 1;
    if (warps > LOADERS) warps = LOADERS;
    if (on->loaders < warps) on->loaders = warps;
}

void on_page_facts(On *on) {
    on->page_lines = on->t.j;
    on->by_page = ARENA_ARRAY(on->l->arena, bool, on->l->t->nvalues + 1);
    for (int k = 0; k < on->o.nscores; k++) note(on, &on->o.score[k].b, &on->o.score[k].where);
    for (int p = 0; p < on->o.nproducts; p++)
        note(on, &on->o.product[p].b, &on->o.product[p].where);
}

/* ---- a tile ---- */

static void values_apart(On *on, const Ix *x) {
    Lower *l = on->l;
    if (x->kind == IX_VALUE) {
        const TInst *i = l->def[x->num];
        if (!on->by_page[x->num]) {
            on_emit_value(on, (int)x->num);
            return;
        }
        for (int d = 0; d < i->nix; d++) values_apart(on, i->ix[d]);
        for (int a = 0; a < i->nargs; a++)
            values_apart(on, ix_value(l->t->ix, i->args[a], NULL, 0));
    }
    for (int k = 0; k < x->n; k++) values_apart(on, x->arg[k]);
}

static void apart(On *on, const MmaFactor *f, const OnlineWhere *w) {
    for (int d = 0; d < f->load->nix; d++)
        if (w->dims >> d & 1) values_apart(on, f->load->ix[d]);
}

void on_page_tile(On *on) {
    for (int k = 0; k < on->o.nscores; k++) apart(on, &on->o.score[k].b, &on->o.score[k].where);
    for (int p = 0; p < on->o.nproducts; p++)
        apart(on, &on->o.product[p].b, &on->o.product[p].where);
}

/* ---- a block ---- */

/* Opens j at the lane's page; i1: it is between the bounds of j, of some row. */
static Val open_page(On *on, Val i) {
    static const int64_t none[1];
    Lower *l = on->l;
    AxisState *s = &l->axis[on->o.j];
    int lines = on->page_lines;
    Val lane = LLVMBuildAnd(l->b, on->w.tid, i32c(l, 31), "");
    Val at = LLVMBuildMul(l->b, i, i32c(l, on->t.j), "");
    at = LLVMBuildAdd(l->b, at, LLVMBuildMul(l->b, lane, i32c(l, lines), ""), "");
    Val past = LLVMBuildAdd(l->b, at, i32c(l, lines), "");
    Val in = LLVMBuildICmp(l->b, LLVMIntULT, lane, i32c(l, on->t.j / lines), "");
    in = LLVMBuildAnd(l->b, in, LLVMBuildICmp(l->b, LLVMIntSLT, at, on->hi_most, ""), "");
    in = LLVMBuildAnd(l->b, in, LLVMBuildICmp(l->b, LLVMIntSGT, past, on->lo_least, ""), "");
    *s = (AxisState){.open = true, .count = 1, .raw = true, .step = none};
    s->e = ARENA_ARRAY(l->arena, Val, 1);
    s->in = ARENA_ARRAY(l->arena, Val, 1);
    s->e[0] = LLVMBuildSExt(l->b, at, l->i64, "");
    s->in[0] = in;
    return in;
}

static void emit_values(On *on, const Ix *x) {
    if (x->kind == IX_VALUE) on_emit_value(on, (int)x->num);
    for (int k = 0; k < x->n; k++) emit_values(on, x->arg[k]);
}

void on_page_begin(On *on, Val i) {
    Lower *l = on->l;
    if (!on->places.n) return;
    open_page(on, i);
    for (int v = 0; v < l->t->nvalues; v++)
        if (on->by_page[v]) l->value[v] = (Frag){0};
    for (int p = 0; p < on->places.n; p++) emit_values(on, on->places.v[p].x);
}

/* x as a coordinate; -1 where it is outside, or not `in` (NULL: it is). */
static Val coordinate(On *on, const Ix *x, const Ix *extent, Val in) {
    Lower *l = on->l;
    Frag f = frag_ix(l, x);
    Val v = frag_only(&f, "a coordinate");
    Val ok = LLVMBuildICmp(l->b, LLVMIntULT, v, uniform_ix(l, extent), "");
    if (in) ok = LLVMBuildAnd(l->b, ok, in, "");
    return LLVMBuildSelect(l->b, ok, LLVMBuildTrunc(l->b, v, l->i32, ""), i32c(l, -1), "");
}

void on_page_end(On *on, Val i, Val *at) {
    if (!on->places.n) return;
    Val in = open_page(on, i);
    for (int p = 0; p < on->places.n; p++)
        at[p] = coordinate(on, on->places.v[p].x, on->places.v[p].extent, in);
}

/* Lines of a page are numbered from its own first on. */
static Val line_in_page(On *on, const OnlineWhere *w, int lines) {
    Lower *l = on->l;
    if (w->page <= lines) return i32c(l, 0);
    Val j = LLVMBuildTrunc(l->b, l->axis[on->o.j].e[0], l->i32, "");
    return LLVMBuildURem(l->b, j, i32c(l, w->page), "");
}

void on_page_coords(On *on, const MmaFactor *f, const OnlineWhere *w, int lines, const Val *at,
                    Val number, Val *coord) {
    Lower *l = on->l;
    const TTensor *of = &l->t->tensors.v[f->load->tensor];
    int lanes = (w->page < lines ? w->page : lines) / on->page_lines;
    Val lane = LLVMBuildMul(l->b, number, i32c(l, lanes), "");
    if (!w->page && !w->dims) {
        wg_coords(&on->w, f->load, coord);
        return;
    }
    for (int d = 0; d < of->rank; d++) {
        const Ix *x = f->load->ix[d];
        Val *to = &coord[of->rank - 1 - d];
        if (w->dims >> d & 1) {
            int p = place_of(on, x, of->dims[d]);
            *to = p < 0 ? coordinate(on, x, of->dims[d], NULL) : ptx_shfl_from(l, at[p], lane);
        } else if (w->page && d == (f->k_major ? f->row : f->depth)) {
            *to = line_in_page(on, w, lines);
        } else {
            Frag one = frag_ix(l, x);
            *to = LLVMBuildTrunc(l->b, frag_only(&one, "a coordinate"), l->i32, "");
        }
    }
}
