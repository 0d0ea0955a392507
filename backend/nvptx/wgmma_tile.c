/* wgmma_tile.c - which tile a CTA works on, and where the elements of its accumulator lie.
 *
 * Tiles are numbered batch by batch; within one, in groups of `raster` tiles of rows, rows fastest:
 * CTAs that run together share a few row tiles and a few column tiles, which stay in the cache.
 * Products with tiles of their own are counted as if their columns were side by side.
 * Where a block of columns that is reduced has several tiles, it is numbered as one, and a CTA
 * walks those of it that there are, from left to right.
 *
 * The accumulator of a warpgroup is blocks of 64 rows. Thread t (warp w = t / 32, g = t % 32 / 4,
 * q = t % 4) holds of each rows 16 w + g and 16 w + g + 8, and of every 8 columns 2 q and 2 q + 1;
 * register 4 j + 2 h + e of a block is row h, column e of the j-th 8. That of a warp with mma.sync
 * is blocks of 16 rows, otherwise the same. That is rows x columns, so
 * rows and columns are two axes of which the thread holds several elements each, and fragments
 * need to know no more.
 */
#include "backend/nvptx/wgmma_int.h"

Val i32c(const Lower *l, int v) {
    return LLVMConstInt(l->i32, (uint64_t)(int64_t)v, 1);
}

static const Ix *tiles_of(const Wg *w, int axis, int size) {
    const TProg *t = w->l->t;
    const Ix *n = ix_add(t->ix, t->axes.v[axis].extent, ix_const(t->ix, size - 1));
    return ix_div(t->ix, n, ix_const(t->ix, size));
}

static bool is_batch(const Wg *w, int axis) {
    return axis < w->l->t->ngrid && axis != w->m.rows && axis != w->m.cols;
}

/* Rows and columns of all CTAs of a cluster. */
static int rows_together(const Wg *w) {
    return w->t.m * w->t.pair_rows;
}

static int cols_together(const Wg *w) {
    return w->t.n * w->t.pair_cols * w->t.walk;
}

/* Tiles of columns, of all products. */
static const Ix *cols_tiles(const Wg *w) {
    IxPool *p = w->l->t->ix;
    return ix_mul(p, tiles_of(w, w->m.cols, cols_together(w)), ix_const(p, w->t.products));
}

const Ix *wg_tile_total(const Wg *w) {
    const TProg *t = w->l->t;
    const Ix *n = ix_mul(t->ix, tiles_of(w, w->m.rows, rows_together(w)), cols_tiles(w));
    for (int a = 0; a < t->ngrid; a++)
        if (is_batch(w, a)) n = ix_mul(t->ix, n, t->axes.v[a].extent);
    return n;
}

Val uniform32(Wg *w, const Ix *x) {
    Lower *l = w->l;
    return LLVMBuildTrunc(l->b, uniform_ix(l, x), l->i32, "");
}

/* *at / n; the remainder in *at. A constant 1 leaves it alone. */
static Val cut(Wg *w, Val *at, Val n) {
    LLVMBuilderRef b = w->l->b;
    Val q = LLVMBuildUDiv(b, *at, n, "");
    *at = LLVMBuildSub(b, *at, LLVMBuildMul(b, q, n, ""), "");
    return q;
}

static AxisState *open_axis(Wg *w, int axis, int n, const int64_t *step) {
    Lower *l = w->l;
    l->axis[axis] = (AxisState){.open = true,
                                .count = n,
                                .e = ARENA_ARRAY(l->arena, Val, n),
                                .in = ARENA_ARRAY(l->arena, Val, n),
                                .step = step};
    return &l->axis[axis];
}

void wg_open_one(Wg *w, int axis, Val at) {
    static const int64_t none[1];
    open_axis(w, axis, 1, none)->e[0] = at;
}

void wg_coords(Wg *w, const TInst *i, Val *coord) {
    Lower *l = w->l;
    for (int d = 0; d < i->nix; d++) {
        Frag x = frag_ix(l, i->ix[d]);
        coord[i->nix - 1 - d] = LLVMBuildTrunc(l->b, frag_only(&x, "a coordinate"), l->i32, "");
    }
    if (i->nix && dtype_bits(l->t->tensors.v[i->tensor].type) == 4) /* TMA takes bytes */
        coord[0] = LLVMBuildLShr(l->b, coord[0], i32c(l, 1), "");
}

Val wg_factor_at(Wg *w, const MmaFactor *f) {
    Lower *l = w->l;
    const TTensor *t = &l->t->tensors.v[f->load->tensor];
    Val base = LLVMBuildPtrToInt(l->b, param_pointer(l, t), l->i64, "");
    for (int d = 0; d < t->rank; d++) {
        if (d == f->depth) continue;
        Frag at = frag_ix(l, f->load->ix[d]);
        Val size = LLVMConstInt(l->i64, (unsigned)w->m.size, 0);
        Val bytes = LLVMBuildMul(l->entry, param_stride(l, t, d), size, "");
        base =
            LLVMBuildAdd(l->b, base, LLVMBuildMul(l->b, frag_only(&at, "a line"), bytes, ""), "");
    }
    return base;
}

static void decode_batch(Wg *w, Val batch) {
    const TProg *t = w->l->t;
    int first = 0;
    while (!is_batch(w, first)) first++;
    for (int a = t->ngrid - 1; a >= 0; a--) {
        if (!is_batch(w, a)) continue;
        Val at = batch;
        if (a != first) {
            Val n = uniform32(w, t->axes.v[a].extent);
            Val q = cut(w, &at, n);
            batch = q;
        }
        wg_open_one(w, a, LLVMBuildZExt(w->l->b, at, w->l->i64, ""));
    }
}

/* From the block's first column to that of the tile. */
static Val walk_to(Wg *w, Val n) {
    Lower *l = w->l;
    n = wg_at_stage(w, n, w->walk, w->t.n);
    Val after = LLVMBuildAdd(l->b, w->walk, i32c(l, 1), "");
    Val all = LLVMBuildICmp(l->b, LLVMIntEQ, after, i32c(l, w->t.walk), "");
    Val end = LLVMBuildAdd(l->b, n, i32c(l, w->t.n), "");
    Val cols = uniform32(w, l->t->axes.v[w->m.cols].extent);
    Val past = LLVMBuildICmp(l->b, LLVMIntSGE, end, cols, "");
    w->walked = LLVMBuildOr(l->b, all, past, "");
    return n;
}

void wg_decode(Wg *w, Val tile, Val *row0, Val *col0) {
    Lower *l = w->l;
    IxPool *p = l->t->ix;
    const Ix *mt = tiles_of(w, w->m.rows, rows_together(w));
    const Ix *nt = cols_tiles(w);
    Val at = tile, m, n;
    if (l->t->ngrid > 2) decode_batch(w, cut(w, &at, uniform32(w, ix_mul(p, mt, nt))));
    int raster = l->s->raster > 1 ? l->s->raster : 1;
    Val first = cut(w, &at, uniform32(w, ix_mul(p, nt, ix_const(p, raster))));
    if (raster == 1) {
        m = first;
        n = at;
    } else { /* the last group has what is left of the rows */
        first = LLVMBuildMul(l->b, first, i32c(l, raster), "");
        Val left = LLVMBuildSub(l->b, uniform32(w, mt), first, "");
        Val few = LLVMBuildICmp(l->b, LLVMIntULT, left, i32c(l, raster), "");
        Val rows = LLVMBuildSelect(l->b, few, left, i32c(l, raster), "");
        n = cut(w, &at, rows);
        m = LLVMBuildAdd(l->b, first, at, "");
    }
    if (w->t.products > 1)
        w->product = cut(w, &n, uniform32(w, tiles_of(w, w->m.cols, cols_together(w))));
    m = LLVMBuildMul(l->b, m, i32c(l, rows_together(w)), "");
    n = LLVMBuildMul(l->b, n, i32c(l, cols_together(w)), "");
    if (w->t.pair_rows > 1) m = wg_at_stage(w, m, w->rank, w->t.m);
    if (w->t.pair_cols > 1) n = wg_at_stage(w, n, w->rank, w->t.n);
    if (w->walk) n = walk_to(w, n);
    *row0 = LLVMBuildZExt(l->b, m, l->i64, "");
    *col0 = LLVMBuildZExt(l->b, n, l->i64, "");
}

/* How many elements of the axis there are from `first` on, i32; NULL: all of the tile's. */
static Val left_of(Wg *w, int axis, int tile, Val first) {
    Lower *l = w->l;
    const Ix *extent = l->t->axes.v[axis].extent;
    int64_t c;
    if (ix_is_const(extent, &c) && c % tile == 0) return NULL;
    Val left = LLVMBuildSub(l->b, uniform_ix(l, extent), first, "");
    return LLVMBuildTrunc(l->b, left, l->i32, ""); /* extents are below 2^31 by the guards */
}

/* The same when the thread's first element is the tile's of_thread-th, and the accumulator has more
 * rows than the tile. */
static Val left_of_thin(Wg *w, int axis, int tile, Val first, Val of_thread) {
    Lower *l = w->l;
    Val here = LLVMBuildSub(l->b, i32c(l, tile), of_thread, ""), left;
    if (!(left = left_of(w, axis, tile, first))) return here;
    Val less = LLVMBuildICmp(l->b, LLVMIntSLT, left, here, "");
    return LLVMBuildSelect(l->b, less, left, here, "");
}

/* Opens an axis at n steps from `first`, which may lie beyond its end. */
static AxisState *place(Wg *w, int axis, Val first, Val left, int n, const int64_t *step) {
    Lower *l = w->l;
    AxisState *s = open_axis(w, axis, n, step);
    s->raw = true;
    for (int i = 0; i < n; i++) {
        Val by = LLVMConstInt(l->i64, (uint64_t)step[i], 1);
        s->e[i] = i ? LLVMBuildAdd(l->b, first, by, "") : first;
        if (left) s->in[i] = LLVMBuildICmp(l->b, LLVMIntSGT, left, i32c(l, (int)step[i]), "");
    }
    return s;
}

void wg_open_run(Wg *w, int axis, Val first, int n, bool together) {
    Lower *l = w->l;
    int64_t *step = ARENA_ARRAY(l->arena, int64_t, n);
    for (int i = 0; i < n; i++) step[i] = i;
    Val left = LLVMBuildSub(l->b, uniform_ix(l, l->t->axes.v[axis].extent), first, "");
    AxisState *s = place(w, axis, first, LLVMBuildTrunc(l->b, left, l->i32, ""), n, step);
    for (int i = 1; i < n && together; i++) s->in[i] = s->in[0];
}

void wg_open_steps(Wg *w, int axis, Val first, int n, const int64_t *step) {
    place(w, axis, first, NULL, n, step);
}

static Val thread_first(Wg *w, Val tile0, Val of_thread) {
    LLVMBuilderRef b = w->l->b;
    return LLVMBuildAdd(b, tile0, LLVMBuildZExt(b, of_thread, w->l->i64, ""), "");
}

void wg_open_rows(Wg *w, Val row0) {
    int block = w->t.block_rows, n = w->t.group_rows / block * 2;
    int64_t *step = ARENA_ARRAY(w->l->arena, int64_t, n);
    for (int i = 0; i < n; i++) step[i] = i / 2 * block + i % 2 * 8;
    int axis = w->m.rows;
    Val first = thread_first(w, row0, w->row);
    Val left =
        w->t.thin ? left_of_thin(w, axis, w->t.m, first, w->row) : left_of(w, axis, w->t.m, first);
    place(w, axis, first, left, n, step);
}

void wg_open_cols(Wg *w, Val col0, int count) {
    int n = count / 4; /* 2 of every 8 */
    int64_t *step = ARENA_ARRAY(w->l->arena, int64_t, n);
    for (int i = 0; i < n; i++) step[i] = i / 2 * 8 + i % 2;
    Val first = thread_first(w, col0, w->col);
    Val left = w->inside ? NULL : left_of(w, w->m.cols, w->t.n, first);
    place(w, w->m.cols, first, left, n, step)->pairs = true;
}

void wg_open_col_groups(Wg *w, Val col0, int n, int size) {
    int64_t *step = ARENA_ARRAY(w->l->arena, int64_t, n);
    for (int i = 0; i < n; i++) step[i] = (int64_t)i * size;
    place(w, w->m.cols, col0, left_of(w, w->m.cols, w->t.n, col0), n, step);
}
