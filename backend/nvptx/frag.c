/* frag.c - fragments, and how the schedule lays axes on threads and registers. */
#include "backend/nvptx/nvptx_int.h"
#include "backend/nvptx/ptx_int.h"

AxisSet frag_live(const Lower *l, AxisSet axes) {
    AxisSet live = 0;
    for (int a = 0; a < l->t->axes.n; a++)
        if ((axes >> a & 1) && l->axis[a].open && l->axis[a].count > 1) live |= axis_bit(a);
    return live;
}

Frag frag_new(Lower *l, AxisSet mask) {
    Frag f = {mask, 1, NULL};
    for (int a = 0; a < l->t->axes.n; a++)
        if (mask >> a & 1) f.n *= l->axis[a].count;
    f.v = ARENA_ARRAY(l->arena, Val, f.n);
    return f;
}

Frag frag_one(Lower *l, Val v) {
    Frag f = frag_new(l, 0);
    f.v[0] = v;
    return f;
}

int frag_coord(const Lower *l, AxisSet mask, int i, int axis) {
    if (!(mask >> axis & 1)) return 0;
    for (int a = l->t->axes.n - 1; a > axis; a--)
        if (mask >> a & 1) i /= l->axis[a].count;
    return i % l->axis[axis].count;
}

int frag_at(const Lower *l, AxisSet from, int i, AxisSet to) {
    if (from == to) return i;
    int at = 0, scale = 1;
    for (int a = l->t->axes.n - 1; a >= 0; a--) {
        if (!(from >> a & 1)) continue;
        int n = l->axis[a].count;
        if (to >> a & 1) {
            at += scale * (i % n);
            scale *= n;
        }
        i /= n;
    }
    return at;
}

Frag frag_map(Lower *l, MapFn *fn, const void *ctx, const Frag *in, int n) {
    AxisSet mask = 0;
    for (int k = 0; k < n; k++) mask |= in[k].mask;
    Frag out = frag_new(l, mask);
    for (int i = 0; i < out.n; i++) {
        Val arg[8];
        for (int k = 0; k < n; k++) arg[k] = in[k].v[frag_at(l, mask, i, in[k].mask)];
        out.v[i] = fn(l, ctx, arg);
    }
    return out;
}

Val frag_only(const Frag *f, const char *what) {
    if (f->n != 1) FK_BUG("%s differs within a thread: its axes need regs = vec = 1", what);
    return f->v[0];
}

static int positive(int v) {
    return v > 0 ? v : 1;
}

/* The lanes of axes in the order of the schedule's list are the digits of the thread index. */
void axes_layout(Lower *l) {
    const Schedule *s = l->s;
    for (int a = 0; a < l->t->axes.n; a++) l->map[a] = (AxisMap){1, 1, 1, -1};
    int stride = 1;
    for (int k = 0; k < s->axes.n; k++) {
        const SAxis *x = &s->axes.v[k];
        AxisMap *m = &l->map[x->axis];
        *m = (AxisMap){positive(x->lanes), positive(x->regs), positive(x->vec), -1};
        if (m->lanes == 1) continue;
        if (!x->shared) {
            LaneDim d = {m->lanes, stride, NULL};
            vec_push(l->arena, &l->dims, d);
            stride *= m->lanes;
        }
        m->dim = l->dims.n - 1;
        if (m->dim < 0 || l->dims.v[m->dim].lanes != m->lanes)
            FK_BUG("axis %d shares lanes that are not there", x->axis);
    }
    if (stride != positive(s->threads)) FK_BUG("%d lanes on %d threads", stride, s->threads);
    l->tid = ptx_tid(l);
    for (int k = 0; k < l->dims.n; k++) {
        LaneDim *d = &l->dims.v[k];
        Val v = l->tid;
        if (d->stride > 1)
            v = LLVMBuildUDiv(l->entry, v, LLVMConstInt(l->i32, (unsigned)d->stride, 0), "");
        if (d->stride * d->lanes < s->threads)
            v = LLVMBuildURem(l->entry, v, LLVMConstInt(l->i32, (unsigned)d->lanes, 0), "");
        d->lane = v;
    }
}

Val axis_lane(Lower *l, int axis) {
    int d = l->map[axis].dim;
    if (d < 0) return LLVMConstInt(l->i64, 0, 0);
    return LLVMBuildZExt(l->entry, l->dims.v[d].lane, l->i64, "");
}
