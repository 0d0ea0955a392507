/* wgmma_strips.c - sums over blocks of k of what is made of the sum over one (ir/mma_strips.c):
 * scaled when partial sums are added up (wgmma_promote.c).
 *
 * What scales a stage is loaded while the stage before it is multiplied, each thread what its own
 * rows and columns need: a column of a group where those of a group are scaled alike (n/128), else
 * each of its columns. Then it is one multiply-add for an element, as the addition alone would be.
 */
#include "backend/nvptx/wgmma_int.h"

#include <string.h>

static const MmaStrips *of(const Wg *w) {
    return &w->m.nest.strips;
}

void wg_strips_open(Wg *w, Val row0, Val col0) {
    const MmaTiles *t = &w->t;
    w->strip_rows = t->group_rows / t->block_rows * 2;
    w->strip_cols = t->strip_group ? t->n / t->strip_group : t->n / 4;
    wg_open_rows(w, row0);
    if (t->strip_group)
        wg_open_col_groups(w, col0, w->strip_cols, t->strip_group);
    else
        wg_open_cols(w, col0, t->n);
}

void wg_strips_close(Wg *w) {
    w->l->axis[w->m.cols].open = false;
    w->l->axis[of(w)->axis].open = false;
}

Val *wg_strips_load(Wg *w, Val stage, int *n) {
    Lower *l = w->l;
    const MmaStrips *s = of(w);
    Val number = LLVMBuildUDiv(l->b, stage, i32c(l, (int)s->size / w->t.k), "");
    wg_open_one(w, s->axis, LLVMBuildZExt(l->b, number, l->i64, ""));
    *n = 0;
    for (int k = 0; k < s->free.n; k++) {
        emit_inst(l, s->free.v[k]);
        if (s->free.v[k]->kind == T_LOAD) *n += l->value[s->free.v[k]->id].n;
    }
    Val *v = ARENA_ARRAY(l->arena, Val, *n + 1);
    for (int k = 0, at = 0; k < s->free.n; k++) {
        const Frag *f = &l->value[s->free.v[k]->id];
        if (s->free.v[k]->kind != T_LOAD) continue;
        memcpy(v + at, f->v, sizeof *v * (size_t)f->n);
        at += f->n;
    }
    return v;
}

void wg_strips_use(Wg *w, Val *v) {
    Lower *l = w->l;
    const MmaStrips *s = of(w);
    for (int k = 0; k < s->free.n; k++) {
        const TInst *i = s->free.v[k];
        if (i->kind != T_LOAD) {
            emit_inst(l, i);
            continue;
        }
        Frag *f = &l->value[i->id];
        *f = (Frag){f->mask, f->n, v};
        v += f->n;
    }
}

/* Element (row, col) of the fragment of a value that is made of no sum. */
static Val element(const Wg *w, const Frag *f, int row, int col) {
    bool rows = f->mask >> w->m.rows & 1, cols = f->mask >> w->m.cols & 1;
    int at = 0;
    if (rows && cols)
        at = w->m.rows < w->m.cols ? row * w->strip_cols + col : col * w->strip_rows + row;
    else
        at = rows ? row : cols ? col : 0;
    return f->v[at];
}

/* Which sum an accumulator's register i is of, and where it lies in it. */
typedef struct Place {
    int sum, row, col;
} Place;

static Place place_of(const Wg *w, int i) {
    const MmaTiles *t = &w->t;
    int line = t->width / 2, block = i / line, r = i % line, eight = r / 4,
        blocks = t->group_rows / 64;
    Place p = {.row = block % blocks * 2 + r % 4 / 2};
    p.sum = w->m.of_rows ? block / blocks : eight / (t->n / 8);
    eight %= t->n / 8;
    p.col = t->strip_group ? eight * 8 / t->strip_group : eight * 2 + r % 2;
    return p;
}

static Val operand(const Wg *w, const Val *made, const Place *p, int id) {
    return made[id] ? made[id] : element(w, &w->l->value[id], p->row, p->col);
}

void wg_strips_add(Wg *w, Val *sum, const Val *set, int first, int n) {
    Lower *l = w->l;
    const MmaStrips *s = of(w);
    const DType real[2] = {DT_f32, DT_f32};
    Val *made = ARENA_ARRAY(l->arena, Val, l->t->nvalues + 1);
    for (int i = 0; i < n; i++) {
        Place p = place_of(w, first + i);
        memset(made, 0, sizeof *made * (size_t)l->t->nvalues);
        made[s->partial[p.sum]] = set[i];
        for (int k = 0; k < s->scaled.n; k++) {
            const TInst *x = s->scaled.v[k];
            DType from[8];
            Val in[8];
            bool mine = false;
            for (int a = 0; a < x->nargs; a++) mine |= made[x->args[a]] != NULL;
            for (int a = 0; a < x->nargs && mine; a++) {
                from[a] = l->type[x->args[a]];
                in[a] = operand(w, made, &p, x->args[a]);
            }
            if (mine) made[x->id] = op_emit(l, x->op, x->type, from, in);
        }
        Val both[2] = {sum[i], made[s->step[p.sum]]};
        sum[i] = op_emit(l, OP_add, DT_f32, real, both);
    }
}
