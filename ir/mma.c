/* mma.c - what a schedule makes of a product (mma_find.c): see mma.h. */
#include "ir/mma_int.h"
#include "ir/target.h"

#include <string.h>

bool mma_no(Str *why, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    str_vprintf(why, fmt, ap);
    va_end(ap);
    return false;
}
#define no mma_no

static bool read_axes(const TProg *of, const Schedule *s, const MmaNest *nest, int *rows, int *cols,
                      MmaTiles *w, Str *why) {
    *rows = *cols = -1;
    for (int i = 0; i < s->axes.n; i++) {
        const SAxis *x = &s->axes.v[i];
        int axis = nest->axis[x->axis];
        bool warps = s->mul == MUL_mma && x->tile > 1 && axis < nest->t->ngrid; /* side by side */
        if ((x->lanes != 1 && !warps) || x->regs != 1 || x->vec != 1)
            return no(why, "axis %s: a wgmma schedule has tiles, not lanes",
                      of->axes.v[x->axis].name);
        if (x->tile <= 1) continue;
        if (axis >= nest->t->ngrid) {
            if (w->k) return no(why, "two loop axes have tiles");
            w->k = x->tile;
        } else if (*rows < 0) {
            *rows = axis, w->m = x->tile, w->warp_rows = warps ? x->lanes : 0;
        } else if (*cols < 0) {
            *cols = axis, w->n = x->tile, w->warp_cols = warps ? x->lanes : 0;
        } else {
            return no(why, "three grid axes have tiles");
        }
    }
    if (*rows < 0 || *cols < 0 || !w->k) return no(why, "rows, columns and k need tiles");
    return true;
}

static const SRole *role(const Schedule *s, const char *name) {
    for (int i = 0; i < s->roles.n; i++)
        if (!strcmp(s->roles.v[i].name, name)) return &s->roles.v[i];
    return NULL;
}

static bool legal_regs(int n) {
    return n >= 24 && n <= 256 && n % 8 == 0;
}

/* The warps of load and slab, or load and pick, are one warpgroup. */
bool mma_read_roles(const Schedule *s, int most, MmaTiles *w, Str *why) {
    enum { LOADERS = 3 };
    const SRole *load = role(s, "load"), *mma = role(s, "mma"), *slab = role(s, "slab");
    const SRole *pick = role(s, "pick");
    int others = (slab ? slab->warps : 0) + (pick ? pick->warps : 0);
    w->carried = slab != NULL;
    w->picked = pick != NULL;
    int warps = load ? load->warps + others : 0;
    w->loaders = w->made && !others ? warps / 4 : 1;
    if (!load || !mma || s->roles.n != 2 + w->carried + w->picked || warps != 4 * w->loaders ||
        w->loaders < 1 || w->loaders > LOADERS || mma->warps % 4)
        return no(why, "the roles are not load with 4 warps (those of slab or pick among them; 8 "
                       "or 12 where factors are made) and "
                       "mma with a multiple of 4");
    w->groups = mma->warps / 4;
    if (w->groups > most)
        return no(why, "%d groups multiply, at most %d are built", w->groups, most);
    if (slab && (slab->warps != w->groups || slab->regs != load->regs))
        return no(why, "slab needs a warp a group and the registers of load");
    if (pick && (pick->warps != 1 || pick->regs != load->regs))
        return no(why, "pick needs one warp and the registers of load");
    w->load_regs = load->regs, w->mma_regs = mma->regs;
    if (!legal_regs(load->regs) || !legal_regs(mma->regs))
        return no(why, "registers are multiples of 8 from 24 to 256");
    /* Registers that the CTA owns at its start: what setmaxnreg hands round. */
    int all = w->loaders + w->groups, threads = 128 * all, entry = 65536 / threads / 8 * 8;
    if (entry > 255) entry = 248;
    w->entry_regs = entry;
    int regs = w->loaders * load->regs + w->groups * mma->regs;
    if (regs > entry * all) return no(why, "the roles need %d registers of %d", regs, entry * all);
    if (mma->regs <= entry) w->load_regs = 0; /* all have enough as they are */
    if (s->threads != threads) return no(why, "%d threads, not %d", s->threads, threads);
    return true;
}

static const SValue *placed(const Schedule *s, int value) {
    for (int i = 0; i < s->values.n; i++)
        if (s->values.v[i].value == value) return &s->values.v[i];
    return NULL;
}

static bool read_side(const Schedule *s, const Mma *m, bool rows, MmaTiles *w, Str *why) {
    MmaSmem *x = rows ? &w->a : &w->b;
    x->kinds = mma_factors(m, rows);
    x->parts = w->products > 1 ? 1 : x->kinds;
    for (int n = 0; n < x->kinds; n++) {
        const SValue *v = placed(s, mma_factor_at(m, rows, n)->value);
        bool regs = v && rows && m->a.made && v->place == PLACE_reg && !v->plain;
        if (regs) w->regs = true, w->made = false;
        if (!v || (v->place != PLACE_smem && !regs) || (w->stages && v->buffers != w->stages) ||
            v->buffers < 2 || v->buffers > 32)
            return no(why, "all factors need the same number of buffers in smem, 2 to 32");
        w->stages = v->buffers;
        if (n && (v->swizzle != x->swizzle || v->evict != x->evict || v->plain != x->plain))
            return no(why, "the factors of several sums are brought alike");
        x->swizzle = v->swizzle, x->evict = v->evict, x->plain = v->plain;
    }
    return true;
}

static bool read_stages(const Schedule *s, const Mma *m, MmaTiles *w, Str *why) {
    return read_side(s, m, true, w, why) && read_side(s, m, false, w, why);
}

/* ---- factors in shared memory ---- */

enum { STEP = 32 }; /* bytes of k of an instruction */

void mma_lay_k_major(MmaSmem *s, int rows) {
    s->box = rows < MMA_BOX ? rows : MMA_BOX;
    while (rows % s->box) s->box -= 8;
    s->boxes = rows / s->box;
    s->box_bytes = s->box * MMA_LINE;
    s->block = 64 * MMA_LINE;
    s->step = STEP;
    s->lead = 16;
    s->stride = 8 * MMA_LINE;
}

static void lay_mn_major(MmaSmem *s, int rows, int k, int size) {
    s->mn = true;
    s->box = s->swizzle / size, s->boxes = rows / s->box;
    s->box_bytes = k * s->swizzle;
    s->block = 64 / s->box * s->box_bytes;
    s->step = STEP / size * s->swizzle;
    s->lead = s->box_bytes;
    s->stride = 8 * s->swizzle;
}

int mma_smem_row(const MmaSmem *s, int row) {
    return s->mn ? row / s->box * s->box_bytes : row / 8 * s->stride;
}

/* made: threads write what they bring, K-major. */
static bool lay_factor(const TProg *t, const MmaFactor *f, int rows, int k, bool made, bool regs,
                       MmaSmem *s, Str *why) {
    bool k_major = f->k_major || (made && s->plain);
    const char *name = f->made ? "what is made" : t->tensors.v[f->load->tensor].name;
    int size = dtype_bits(f->type) / 8;
    int deep = k * size / MMA_LINE;
    bool several = regs && size == 2 && (deep == 2 || deep == 4);
    if (k * size % MMA_LINE || (deep != 1 && !several))
        return no(why, "a stage has %d elements of k of %s, not %d", MMA_LINE / size, name, k);
    if (f->made && !s->plain)
        return no(why, "threads make a factor, TMA does not%s%s", *f->why ? ": " : "", f->why);
    if (s->swizzle != 128 && (k_major || (s->swizzle != 64 && s->swizzle != 32)))
        return no(why, "%s has a swizzle of %d; K-major 128 is right, MN-major 32, 64 or 128", name,
                  s->swizzle);
    if (k_major) {
        mma_lay_k_major(s, rows);
    } else {
        if (rows % (s->swizzle / size))
            return no(why, "a tile of %d does not cut into boxes of %d of %s", rows,
                      s->swizzle / size, name);
        lay_mn_major(s, rows, k, size);
    }
    s->deep = k_major ? deep : 1;
    s->deep_bytes = s->boxes * s->box_bytes;
    s->part = s->deep * s->deep_bytes;
    s->bytes = s->parts * s->part;
    return true;
}

/* Tiles and stages begin at multiples of 16 bytes themselves. */
const Ix *mma_begins(const Mma *m, const TInst *i, int *unit) {
    IxPool *p = m->t->ix;
    const Ix *sum = ix_const(p, 0), *x = i->ix[i->nix - 1];
    *unit = 128 / dtype_bits(m->t->tensors.v[i->tensor].type);
    IxTerm *term;
    int n = ix_terms(p, x, &term);
    for (int k = 0; k < n; k++) {
        const Ix *atom = term[k].atom ? term[k].atom : ix_const(p, 1);
        int axis;
        bool of_tile =
            ix_is_axis(atom, &axis) && (axis == m->rows || axis == m->cols || axis == m->k);
        if (of_tile && term[k].coef == 1) continue;
        if (atom->kind == IX_MOD && ix_is_axis(atom->arg[0], &axis) && axis == m->k) continue;
        if (!atom->has_axis && !atom->has_value)
            sum = ix_add(p, sum, ix_mul(p, ix_const(p, term[k].coef), atom));
        else if (term[k].coef % *unit)
            return NULL;
    }
    int64_t c;
    return ix_is_const(sum, &c) && c % *unit ? NULL : sum;
}

static bool tma_begins(const Mma *m, bool rows, const MmaSmem *s, Str *why) {
    int unit;
    for (int n = 0; n < s->kinds; n++) {
        const TInst *load = mma_factor_at(m, rows, n)->load;
        if (!s->plain && !mma_begins(m, load, &unit))
            return no(why, "%s begins at no multiple of 16 bytes",
                      m->t->tensors.v[load->tensor].name);
    }
    return true;
}

/* ---- partial sums ---- */

static bool cut_pieces(const Schedule *s, MmaTiles *w, Str *why) {
    int blocks = w->blocks, pieces = s->pieces ? s->pieces : 1;
    w->pieces = pieces;
    w->piece_blocks = blocks % pieces ? 1 : blocks / pieces;
    w->piece_n = blocks % pieces ? w->width * blocks / pieces : w->width;
    bool whole =
        blocks % pieces == 0 || (pieces % blocks == 0 && w->width * blocks % (8 * pieces) == 0);
    if (w->b.mn && w->piece_n % w->b.box) whole = false;
    if (!whole)
        return no(why, "%d rows and %d columns do not cut into %d pieces", 64 * blocks, w->width,
                  pieces);
    w->sets = s->sets ? s->sets : 1;
    if (w->sets > 2 || pieces % w->sets)
        return no(why, "%d sets of partial sums for %d pieces", w->sets, pieces);
    return true;
}

static bool read_promote(const Schedule *s, const Mma *m, MmaTiles *w, Str *why) {
    int acc = w->blocks * w->width / 2, partial = 0;
    if (!s->promote && (s->pieces || s->sets || s->turns))
        return no(why, "pieces, sets and turns are for promotion");
    if (s->promote) {
        if (s->promote != w->k)
            return no(why, "promotion after %d of k; only a stage, %d, is built", s->promote, w->k);
        if (!cut_pieces(s, w, why)) return false;
        if (s->turns && (s->pingpong || w->groups != 2))
            return no(why, "turns are for two groups that share a tile");
        partial = w->sets * w->piece_blocks * w->piece_n / 2;
    }
    w->promote = s->promote > 0;
    if (m->nest.strips.loop && (!w->promote || m->nest.strips.size % s->promote))
        return no(why,
                  "blocks of %lld of k are scaled when they are promoted, whole stages of them",
                  (long long)m->nest.strips.size);
    if (m->nest.strips.loop) partial += mma_strip_regs(m, w) * (1 + w->sets);
    if (acc + partial > w->mma_regs - 24)
        return no(why, "%d accumulators in %d registers", acc + partial, w->mma_regs);
    return true;
}

int mma_note_bytes(const Mma *m, const MmaTiles *w) {
    return 4 * (m->t->ngrid + (w->products > 1));
}

enum { BARRIER_BYTES = 16 }; /* of a stage: full and empty; of a slab: ready and done */

/* The factor that two CTAs share is cut into an even number of boxes. */
static bool halve(const MmaFactor *f, MmaSmem *s, int rows, Str *why) {
    if (f->row < 0) return no(why, "two CTAs share a factor of one row");
    if (s->boxes % 2 && s->box % 16)
        return no(why, "a tile of %d does not cut into two boxes", rows);
    if (s->boxes % 2 && s->mn) return no(why, "%d boxes are shared by two CTAs", s->boxes);
    if (s->boxes % 2) s->boxes *= 2, s->box /= 2, s->box_bytes /= 2;
    return true;
}

static bool read_cluster(const Schedule *s, const Mma *m, MmaTiles *w, Str *why) {
    w->pair_rows = s->cluster[0] > 1 ? s->cluster[0] : 1;
    w->pair_cols = s->cluster[1] > 1 ? s->cluster[1] : 1;
    if (s->cluster[2] > 1 || w->pair_rows * w->pair_cols > 2)
        return no(why, "clusters have two CTAs, along rows or columns");
    if (w->pair_rows == 2) return halve(&m->b, &w->b, w->n, why);
    return w->pair_cols == 1 || halve(&m->a, &w->a, w->m, why);
}

enum { PLAIN_REGS = 120 };

/* All threads that load hold pieces of a stage in registers while they come. */
static bool fits_plain(const MmaTiles *w, const MmaFactor *f, const MmaSmem *s, int size, int rows,
                       Str *why) {
    int regs = w->load_regs ? w->load_regs : w->entry_regs;
    if (!s->plain) return true;
    if (w->products > 1) return no(why, "grouped products come by TMA");
    if (f->outer >= 0 && !w->made) return no(why, "plain loads bring one dimension of k");
    int lines = w->made ? 16 : 64 / size;
    if (s->swizzle != MMA_LINE || rows % lines)
        return no(why, "plain loads bring %d lines of 128 bytes", lines);
    if (regs < PLAIN_REGS)
        return no(why, "plain loads need %d registers, not %d", PLAIN_REGS, regs);
    if (w->pair_rows * w->pair_cols > 1) return no(why, "plain loads are not shared in a cluster");
    return true;
}

bool mma_read_split(const Schedule *s, MmaTiles *w, Str *why) {
    const Target *target = target_named(s->target);
    w->split = s->split ? s->split : 1;
    w->slots = target ? target->sms / (w->pair_rows * w->pair_cols) : 1;
    if (w->split == 1) return true;
    if (w->split > MMA_PARTS_MOST) return no(why, "split in at most %d parts", MMA_PARTS_MOST);
    if (s->pingpong) return no(why, "with pingpong nothing is split");
    if (w->a.plain || w->b.plain) return no(why, "with plain loads nothing is split");
    if (w->products > 1) return no(why, "nothing is split that is grouped");
    if (w->carried) return no(why, "with the role slab nothing is split");
    if (!s->persistent) return no(why, "parts of the last round need a persistent kernel");
    return true;
}

static bool fits(const TProg *t, const Schedule *s, const Mma *m, MmaTiles *w, Str *why) {
    int shares = s->pingpong || s->deal ? 1 : w->groups;
    w->deal = s->deal;
    w->thin = w->m < 64 && w->m % 8 == 0 && shares == 1;
    w->group_rows = w->thin ? 64 : w->m / shares;
    w->group_cols = w->n, w->block_rows = 64;
    if (w->m > 256 || w->group_rows % 64 || w->m % (w->thin ? 8 : shares))
        return no(why, "a tile of %d rows does not cut into blocks of 64", w->m);
    if (w->n < 8 || w->n > 256 || w->n % 8)
        return no(why, "a tile of %d columns; multiples of 8 up to 256 are right", w->n);
    w->blocks = w->group_rows / 64 * w->a.parts, w->width = w->n * w->b.parts;
    if (w->width > 256) return no(why, "%d columns of all sums, above 256", w->width);
    if (s->pingpong && w->groups != 2) return no(why, "pingpong needs two groups");
    if (s->deal && (w->groups < 2 || s->pingpong || !w->regs || s->split > 1 || m->nest.blocks))
        return no(why,
                  "stages are dealt to several groups of a factor in registers, of whole tiles");
    if (s->deal && w->stages % w->groups)
        return no(why, "%d stages cannot be dealt to %d groups", w->stages, w->groups);
    bool laid = w->regs ? mma_lay_raw(t, m, w, why)
                        : lay_factor(t, &m->a, w->m, w->k, w->made, false, &w->a, why);
    if (!laid || !lay_factor(t, &m->b, w->n, w->k, w->made, w->regs, &w->b, why) ||
        !read_cluster(s, m, w, why) || !fits_plain(w, &m->a, &w->a, m->size, w->m, why) ||
        !fits_plain(w, &m->b, &w->b, m->size, w->n, why) ||
        (!w->regs && !tma_begins(m, true, &w->a, why)) || !tma_begins(m, false, &w->b, why))
        return false;
    w->stage_bytes = w->a.bytes + w->b.bytes;
    if (!read_promote(s, m, w, why)) return false;
    if (!mma_read_slabs(t, s, m, w, why)) return false;
    if (s->dynamic) return no(why, "tiles are not handed out here");
    if (w->over) return no(why, "slabs over factors are not built here");
    w->smem = w->stages * (w->stage_bytes + BARRIER_BYTES) + w->groups * w->ring * w->chunk_bytes;
    if (w->carried)
        w->smem += w->groups * w->ring * (BARRIER_BYTES + mma_note_bytes(m, w)) + BARRIER_BYTES / 2;
    int read = (w->stages - 1) * w->stage_bytes + w->a.bytes - w->a.part + w->a.block;
    if (w->smem < read) w->smem = read; /* of a thin tile in the last stage */
    w->deal_at = w->smem = (w->smem + 15) / 16 * 16;
    if (w->deal) w->smem += (w->groups - 1) * 64 * w->n * 4;
    mma_lay_blocks(m, w);
    const Target *target = target_named(s->target);
    if (target && w->smem > target->smem)
        return no(why, "%d bytes of shared memory, %s has %d", w->smem, s->target, target->smem);
    return mma_read_split(s, w, why);
}

/* Tiles hold all columns of what is turned, from the first on. */
static bool holds_turns(const Mma *m, const MmaTiles *w, Str *why) {
    if (m->turns && w->split > 1) return no(why, "nothing is split that is turned");
    for (int n = 0; n < m->turns; n++)
        if (w->group_cols % m->turn[n].size)
            return no(why, "%d columns are not all that is turned, %d", w->group_cols,
                      m->turn[n].size);
    return true;
}

bool mma_schedule(const TProg *t, const Schedule *s, Mma *m, MmaTiles *w, Str *why) {
    int rows, cols;
    *w = (MmaTiles){.products = 1};
    *m = (Mma){0};
    if (!mma_nest(t, &m->nest, why) || !read_axes(t, s, &m->nest, &rows, &cols, w, why))
        return false;
    t = m->nest.t;
    if (!mma_find_in(t, rows, cols, m, why)) return false;
    w->made = m->a.made || m->b.made;
    if (s->grouped && m->nest.strips.loop) return no(why, "blocks of k are scaled in one tile");
    if (s->grouped && !mma_read_grouped(s, m, w, why)) return false;
    if (s->mul == MUL_mma)
        return (!w->made || no(why, "factors are made for wgmma alone")) &&
               (!m->nest.strips.loop || no(why, "blocks of k are scaled with wgmma alone")) &&
               read_stages(s, m, w, why) && mma_sync_fits(t, s, m, w, why) &&
               holds_turns(m, w, why);
    return read_stages(s, m, w, why) && mma_read_roles(s, s->deal ? 3 : 2, w, why) &&
           (!w->picked || no(why, "the role pick is for loops over blocks")) &&
           fits(t, s, m, w, why) && holds_turns(m, w, why) &&
           mma_fits_blocks(m, w, s->pingpong, why);
}

static bool whole_pieces(const TProg *t, const TInst *i) {
    const TTensor *x = &t->tensors.v[i->tensor];
    int64_t n;
    return !ix_is_const(x->dims[x->rank - 1], &n) || n * dtype_bits(x->type) % 128 == 0;
}

static bool one_row(const TProg *t, const TInst *i) {
    const TTensor *x = &t->tensors.v[i->tensor];
    int64_t n;
    for (int d = 0; d + 1 < x->rank; d++)
        if (!ix_is_const(x->dims[d], &n) || n != 1) return false;
    return true;
}

static bool loads_dense(const TProg *t, const TInst *load) {
    return whole_pieces(t, load) || one_row(t, load);
}

bool mma_takes_dense(const Mma *m, const MmaTiles *w) {
    const TProg *t = m->t;
    bool dense = true;
    for (int n = 0; n < w->nraw; n++) dense &= loads_dense(t, w->raw[n].f.load);
    for (int n = 0; n < w->a.kinds && !w->a.plain && !w->regs; n++)
        dense &= loads_dense(t, mma_factor_at(m, true, n)->load);
    for (int n = 0; n < w->b.kinds && !w->b.plain; n++)
        dense &= loads_dense(t, mma_factor_at(m, false, n)->load);
    for (int i = 0; i < w->nstaged; i++) dense &= whole_pieces(t, w->staged[i].inst);
    for (int i = 0; i < w->nbrought; i++) dense &= loads_dense(t, w->brought[i].inst);
    return dense;
}
