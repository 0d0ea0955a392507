/* mma_copy.c - stages of all factors, from global to shared memory by cp.async. Each thread has
 * its share of every stage (ir/mma_sync.c) and runs ahead of the products across tiles: after a
 * tile's last stage, or a part's, comes the first of the CTA's next.
 *
 * What lies beyond rows or k is not read, and 0 in shared memory. The guards see to it that lines
 * begin at, and are, multiples of 16 bytes, so a copy is whole or nothing. Behind the last tile all
 * copies are nothing. Elements of plain factors are held until the stage before is read.
 */
#include "backend/nvptx/mma_int.h"

enum { SIZE = 2 };

static Val add32(Lower *l, Val a, int by) {
    return by ? LLVMBuildAdd(l->b, a, i32c(l, by), "") : a;
}

static Val wide(Lower *l, Val v) {
    return LLVMBuildSExt(l->b, v, l->i64, "");
}

/* ---- what a thread has to do ---------------------------------------------------------------- */

static void find_copy(Mm *m, MmCopy *x, int begin) {
    Wg *w = &m->w;
    Lower *l = w->l;
    const MmaSmem *s = x->s;
    const TTensor *t = &l->t->tensors.v[x->f->load->tensor];
    x->c = mma_copies(s, l->s->threads);
    Val number = LLVMBuildURem(l->b, w->tid, i32c(l, x->c.per_line), "");
    x->chunk = LLVMBuildMul(l->b, number, i32c(l, x->c.chunk), "");
    x->line = LLVMBuildUDiv(l->b, w->tid, i32c(l, x->c.per_line), "");
    x->box = i32c(l, 0);
    if (s->mn && x->c.apart > w->t.k) {
        x->box = LLVMBuildUDiv(l->b, x->line, i32c(l, w->t.k), "");
        x->line = LLVMBuildURem(l->b, x->line, i32c(l, w->t.k), "");
    }
    Val at = LLVMBuildXor(l->b, x->chunk, mm_swizzle(l, s, x->line), "");
    at = LLVMBuildAdd(l->b, at, LLVMBuildMul(l->b, x->line, i32c(l, s->swizzle), ""), "");
    at = LLVMBuildAdd(l->b, at, LLVMBuildMul(l->b, x->box, i32c(l, s->box_bytes), ""), "");
    x->to = LLVMBuildAdd(l->b, add32(l, at, begin), w->smem, "");
    int lines = s->mn ? x->f->depth : x->f->row;
    Val pitch = lines < 0 ? LLVMConstInt(l->i64, 0, 0) : param_stride(l, t, lines);
    x->pitch = LLVMBuildMul(l->entry, pitch, LLVMConstInt(l->i64, SIZE, 0), "");
}

static void add_factors(Mm *m, bool rows, const MmaSmem *s, int begin) {
    const Mma *of = &m->w.m;
    for (int n = 0; n < s->parts; n++) {
        MmCopy *x = &m->x[m->factors++];
        *x = (MmCopy){.f = mma_factor_at(of, rows, n), .s = s, .axis = rows ? of->rows : of->cols};
        find_copy(m, x, begin + n * s->part);
    }
}

void mm_find_copies(Mm *m) {
    Wg *w = &m->w;
    add_factors(m, true, &w->t.a, 0);
    add_factors(m, false, &w->t.b, w->t.a.bytes);
}

/* ---- where ---------------------------------------------------------------------------------- */

/* At the open tile's first stage. there: is it a tile? */
static MmAt at_tile(Mm *m, const MmCopy *x, Val there) {
    Wg *w = &m->w;
    Lower *l = w->l;
    Val line = LLVMBuildMul(l->b, wide(l, x->line), x->pitch, "");
    Val box = LLVMBuildMul(l->b, x->box, i32c(l, x->s->swizzle), "");
    Val in = LLVMBuildAdd(l->b, x->chunk, box, "");
    MmAt at = {.from = LLVMBuildAdd(l->b, wg_factor_at(w, x->f), line, "")};
    at.from = LLVMBuildAdd(l->b, at.from, wide(l, in), "");
    Val left = uniform_ix(l, l->t->axes.v[x->axis].extent);
    left = LLVMBuildTrunc(l->b, LLVMBuildSub(l->b, left, l->axis[x->axis].e[0], ""), l->i32, "");
    if (x->s->mn)
        left = LLVMBuildSub(l->b, LLVMBuildMul(l->b, left, i32c(l, SIZE), ""), in, "");
    else
        left = LLVMBuildSub(l->b, left, x->line, "");
    at.left = LLVMBuildSelect(l->b, there, left, i32c(l, 0), "");
    return at;
}

/* From a part's first stage on: what the part has of k, from where on. */
static void to_part(Mm *m, const Work *k, MmNext *n) {
    Wg *w = &m->w;
    Lower *l = w->l;
    Val first = LLVMBuildMul(l->b, k->first, i32c(l, w->t.k), "");
    Val most = LLVMBuildMul(l->b, k->len, i32c(l, w->t.k), "");
    Val left = LLVMBuildSub(l->b, n->k_left, first, "");
    Val less = LLVMBuildICmp(l->b, LLVMIntSLT, left, most, "");
    n->k_left = LLVMBuildSelect(l->b, less, left, most, "");
    for (int i = 0; i < m->factors; i++) {
        Val each = m->x[i].s->mn ? m->x[i].pitch : LLVMConstInt(l->i64, SIZE, 0);
        Val by = LLVMBuildMul(l->b, wide(l, first), each, "");
        n->x[i].from = LLVMBuildAdd(l->b, n->x[i].from, by, "");
    }
}

MmNext mm_first(Mm *m, Val item) {
    Wg *w = &m->w;
    Lower *l = w->l;
    MmNext n = {.item = item, .k_left = uniform32(w, l->t->axes.v[w->m.k].extent)};
    Val row0, col0;
    Val there = LLVMBuildICmp(l->b, LLVMIntULT, item, uniform32(w, wg_work_total(w)), "");
    Work k = wg_work(w, item);
    wg_decode(w, k.tile, &row0, &col0);
    wg_open_one(w, w->m.rows, row0);
    wg_open_one(w, w->m.cols, col0);
    for (int i = 0; i < m->factors; i++) n.x[i] = at_tile(m, &m->x[i], there);
    if (k.cut) to_part(m, &k, &n);
    return n;
}

MmNext mm_phi(Mm *m, const MmNext *n, LLVMBasicBlockRef before) {
    Lower *l = m->w.l;
    MmNext p = {wg_phi(l, l->i32, n->item, before), wg_phi(l, l->i32, n->k_left, before), {{0}}};
    for (int i = 0; i < m->factors; i++)
        p.x[i] = (MmAt){wg_phi(l, l->i64, n->x[i].from, before),
                        wg_phi(l, l->i32, n->x[i].left, before)};
    return p;
}

void mm_phi_next(Mm *m, const MmNext *phi, const MmNext *n) {
    Lower *l = m->w.l;
    wg_phi_next(l, phi->item, n->item);
    wg_phi_next(l, phi->k_left, n->k_left);
    for (int i = 0; i < m->factors; i++) {
        wg_phi_next(l, phi->x[i].from, n->x[i].from);
        wg_phi_next(l, phi->x[i].left, n->x[i].left);
    }
}

MmNext mm_after(Mm *m, const MmNext *n) {
    Wg *w = &m->w;
    Lower *l = w->l;
    MmNext go = *n;
    go.k_left = add32(l, n->k_left, -w->t.k);
    for (int i = 0; i < m->factors; i++) {
        const MmCopy *x = &m->x[i];
        Val by = LLVMConstInt(l->i64, (unsigned)(w->t.k * SIZE), 0);
        if (x->s->mn)
            by = LLVMBuildMul(l->entry, x->pitch, LLVMConstInt(l->i64, (unsigned)w->t.k, 0), "");
        go.x[i].from = LLVMBuildAdd(l->b, n->x[i].from, by, "");
    }
    LLVMBasicBlockRef here = LLVMGetInsertBlock(l->b);
    LLVMBasicBlockRef other = block_new(l, "next.tile"), after = block_new(l, "next.stage");
    Val more = LLVMBuildICmp(l->b, LLVMIntSGT, go.k_left, i32c(l, 0), "");
    LLVMBuildCondBr(l->b, more, after, other);
    block_enter(l, other);
    MmNext first = mm_first(m, LLVMBuildAdd(l->b, n->item, w->stride, ""));
    LLVMBasicBlockRef end = LLVMGetInsertBlock(l->b);
    LLVMBuildBr(l->b, after);
    block_enter(l, after);
    MmNext p = mm_phi(m, &go, here);
    LLVMPositionBuilderAtEnd(l->b, end); /* phis take what comes from there */
    LLVMPositionBuilderBefore(l->b, LLVMGetBasicBlockTerminator(end));
    mm_phi_next(m, &p, &first);
    LLVMPositionBuilderAtEnd(l->b, after);
    return p;
}

/* ---- copies --------------------------------------------------------------------------------- */

/* The j-th: how many times `apart` lines it is from the first, and in which box after it. */
static int steps_of(const Mm *m, const MmCopy *x, int j) {
    return !x->s->mn ? j : x->c.apart < m->w.t.k ? j % (m->w.t.k / x->c.apart) : 0;
}

static int box_of(const Mm *m, const MmCopy *x, int j) {
    int k = m->w.t.k, apart = x->c.apart;
    return !x->s->mn ? 0 : apart < k ? j / (k / apart) : j * (apart / k);
}

/* Lines that there are from the first on, if the box is `box` after the first. */
static Val lines_left(Mm *m, const MmCopy *x, const MmNext *n, const MmAt *at, int box) {
    Lower *l = m->w.l;
    Val some, lines = at->left, zero = i32c(l, 0);
    if (x->s->mn) {
        lines = LLVMBuildSub(l->b, n->k_left, x->line, "");
        some = LLVMBuildICmp(l->b, LLVMIntSGT, at->left, i32c(l, box * x->s->swizzle), "");
    } else {
        Val bytes = LLVMBuildMul(l->b, n->k_left, i32c(l, SIZE), "");
        some = LLVMBuildICmp(l->b, LLVMIntSGT, bytes, x->chunk, "");
    }
    return LLVMBuildSelect(l->b, some, lines, zero, "");
}

static void copy_one(Mm *m, const MmCopy *x, const MmNext *n, const MmAt *at, Val slot, int j) {
    Lower *l = m->w.l;
    const MmaSmem *s = x->s;
    int steps = steps_of(m, x, j), box = box_of(m, x, j), lines = steps * x->c.apart;
    Val left = lines_left(m, x, n, at, box), from = at->from;
    Val there = LLVMBuildICmp(l->b, LLVMIntSGT, left, i32c(l, lines), "");
    Val apart = LLVMBuildMul(l->entry, x->pitch, LLVMConstInt(l->i64, (unsigned)x->c.apart, 0), "");
    for (int i = 0; i < steps; i++) from = LLVMBuildAdd(l->b, from, apart, "");
    int far = lines * s->swizzle + box * s->box_bytes;
    int64_t in_line = (int64_t)box * s->swizzle;
    Val to = LLVMBuildAdd(l->b, x->to, slot, "");
    if (s->plain) {
        MmHeld held = {LLVMBuildAdd(l->b, to, i32c(l, far), ""),
                       ptx_load_early(l, from, in_line, there)};
        vec_push(l->arena, &m->held, held);
        return;
    }
    Val bytes = LLVMBuildSelect(l->b, there, i32c(l, x->c.chunk), i32c(l, 0), "");
    ptx_copy16(l, to, far, from, in_line, bytes, 0);
}

void mm_put(Mm *m) {
    for (int i = 0; i < m->held.n; i++)
        ptx_store_shared(m->w.l, SIZE, m->held.v[i].to, m->held.v[i].v);
    m->held.n = 0;
}

void mm_copy(Mm *m, const MmNext *n, Val slot, int part, int parts) {
    int all = 0, before = 0;
    for (int i = 0; i < m->factors; i++) all += m->x[i].c.n;
    if (m->w.t.a.plain || m->w.t.b.plain) { /* the sooner the better */
        if (part) return;
        parts = 1;
    }
    int from = all * part / parts, to = all * (part + 1) / parts;
    for (int i = 0; i < m->factors; before += m->x[i++].c.n)
        for (int j = 0; j < m->x[i].c.n; j++)
            if (before + j >= from && before + j < to) copy_one(m, &m->x[i], n, &n->x[i], slot, j);
}
