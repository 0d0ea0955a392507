/* online_tiles.c - see online.h: what a schedule makes of such a program.
 *
 * Where the schedule multiplies by mma.sync, all warps do all of it: there is one role, mma, whose
 * registers say how many CTAs a multiprocessor holds.
 *
 * Shared memory: what is loaded once a tile (`ahead` buffers), what is loaded for each block
 * (`stages` buffers), what else the body reads (`bring` buffers), slabs of what is stored,
 * barriers, words.
 */
#include "ir/mma_int.h"
#include "ir/online.h"
#include "ir/target.h"

#include <string.h>

#define no mma_no

enum { PIECE = 64, LINE = 128, BARRIERS = 8 * 32 };

static int tile_of(const Schedule *s, int axis) {
    for (int k = 0; k < s->axes.n; k++)
        if (s->axes.v[k].axis == axis) return s->axes.v[k].tile;
    return 0;
}

static const SValue *placed(const Schedule *s, const TInst *load) {
    for (int k = 0; k < s->values.n; k++)
        if (s->values.v[k].value == load->id) return &s->values.v[k];
    return NULL;
}

/* How a factor lies: `lines` of a tile by `wide` elements. */
static bool lay(const Schedule *s, const MmaFactor *f, int lines, int wide, int buffers, int *at,
                OnlineSmem *m, Str *why) {
    const SValue *v = placed(s, f->load);
    if (!v || v->place != PLACE_smem || v->buffers != buffers || v->swizzle != LINE || v->plain)
        return no(why, "%%%d needs %d buffers in smem, swizzled by 128 bytes", f->load->id,
                  buffers);
    *m = (OnlineSmem){.lines = lines, .pieces = (wide + PIECE - 1) / PIECE, .evict = v->evict};
    m->bytes = m->pieces * lines * LINE;
    m->at = *at;
    *at += buffers * m->bytes;
    return true;
}

/* Blocks are of whole pages, or a page of whole blocks, 8 lines at least: swizzled together. */
static bool pages_fit(const OnlineWhere *x, int j, Str *why) {
    if (!x->page || j % x->page == 0 || x->page % j == 0) return true;
    return no(why, "blocks of %d, pages of %d", j, x->page);
}

static bool buffers_of(const Schedule *s, const TInst *load, int *n, Str *why) {
    const SValue *v = placed(s, load);
    if (!v || v->buffers < 1 || v->buffers > 8)
        return no(why, "%%%d needs 1 to 8 buffers", load->id);
    *n = v->buffers;
    return true;
}

/* The same tensor at the same place is loaded once; not built, and not needed for one score. */
static bool lay_all(const Schedule *s, const Online *o, OnlineTiles *w, Str *why) {
    int at = 0;
    if (!buffers_of(s, o->score[0].a.load, &w->ahead, why) ||
        !buffers_of(s, o->score[0].b.load, &w->stages, why))
        return false;
    for (int k = 0; k < o->nscores; k++) {
        const OnlineScore *x = &o->score[k];
        int64_t n;
        w->depth[k] = tile_of(s, x->k);
        if (w->depth[k] < 1 || w->depth[k] > ONLINE_DEPTH)
            return no(why, "%d elements of k at once", w->depth[k]);
        if (ix_is_const(o->t->axes.v[x->k].extent, &n) && n > w->depth[k])
            return no(why, "k has %lld elements, the tile %d", (long long)n, w->depth[k]);
        if (!x->a.k_major || !x->b.k_major)
            return no(why, "k is not the last dimension of both factors");
        if (!pages_fit(&x->where, w->j, why)) return false;
        if (!lay(s, &x->a, w->out.m, w->depth[k], w->ahead, &at, &w->q[k], why) ||
            !lay(s, &x->b, w->j, w->depth[k], w->stages, &at, &w->k[k], why))
            return false;
    }
    for (int p = 0; p < o->nproducts; p++) {
        const MmaFactor *f = &o->product[p].b;
        if (f->k_major) return no(why, "columns are not the last dimension of a factor");
        if (!pages_fit(&o->product[p].where, w->j, why)) return false;
        if (!lay(s, f, w->j, w->cols, w->stages, &at, &w->v[p], why)) return false;
    }
    w->out.stages = 1;
    w->out.stage_bytes = at;
    return true;
}

static bool is_batch(const Online *o, int axis) {
    return axis < o->t->ngrid && axis != o->rows && axis != o->cols;
}

/* Those that the schedule lists are walked fastest. */
static bool read_batches(const Schedule *s, const Online *o, OnlineTiles *w, Str *why) {
    for (int a = 0; a < o->t->ngrid; a++)
        if (is_batch(o, a) && !tile_of(s, a)) w->batch[w->nbatches++] = a;
    for (int k = 0; k < s->axes.n; k++) {
        const SAxis *x = &s->axes.v[k];
        if (!is_batch(o, x->axis)) continue;
        if (x->tile != 1)
            return no(why, "axis %s: batches have a tile of 1", o->t->axes.v[x->axis].name);
        w->batch[w->nbatches++] = x->axis;
    }
    return true;
}

static const TInst *body_load(const Online *o, int value) {
    for (int k = 0; k < o->body.n; k++)
        if (o->body.v[k].i->kind == T_LOAD && o->body.v[k].i->id == value)
            return o->body.v[k].factor ? NULL : o->body.v[k].i;
    return NULL;
}

/* Boxes of 128 bytes of all rows, as many as a block takes. */
static bool lay_brought(const Online *o, const SValue *v, const TInst *load, OnlineTiles *w,
                        Str *why) {
    const TTensor *x = &o->t->tensors.v[load->tensor];
    if (v->place != PLACE_smem || v->swizzle != LINE || v->plain || v->buffers < 1 ||
        v->buffers > 8 || (w->bring && w->bring != v->buffers))
        return no(why,
                  "%%%d needs 1 to 8 buffers in smem, as many as others, swizzled by 128 bytes",
                  load->id);
    if (w->nbrought == ONLINE_BROUGHT) return no(why, "more than %d are brought", ONLINE_BROUGHT);
    MmaStaged *s = &w->brought[w->nbrought++];
    *s = (MmaStaged){.inst = load, .size = dtype_bits(x->type) / 8, .swizzle = LINE};
    s->box = LINE / s->size;
    s->evict = v->evict;
    s->at = w->brought_bytes;
    for (int d = 0; d < load->nix; d++)
        if (ix_uses_axis(load->ix[d], o->rows)) s->row = d;
    w->bring = v->buffers;
    w->brought_bytes += (w->j + s->box - 1) / s->box * w->out.m * LINE;
    return true;
}

static bool read_brought(const Schedule *s, const Online *o, OnlineTiles *w, Str *why) {
    for (int k = 0; k < o->body.n; k++) {
        const TInst *load = body_load(o, o->body.v[k].i->id);
        const SValue *v = load ? placed(s, load) : NULL;
        if (!v) continue;
        if (!online_can_bring(o, &o->body.v[k]))
            return no(why, "%%%d cannot be brought by TMA", load->id);
        if (!lay_brought(o, v, load, w, why)) return false;
    }
    w->brought_at = w->out.stage_bytes;
    w->out.stage_bytes += w->bring * w->brought_bytes;
    return true;
}

static bool read_tiles(const Schedule *s, const Online *o, OnlineTiles *w, Str *why) {
    int64_t n;
    for (int k = 0; k < s->axes.n; k++)
        if (s->axes.v[k].lanes != 1 || s->axes.v[k].regs != 1 || s->axes.v[k].vec != 1)
            return no(why, "axis %s: a wgmma schedule has tiles, not lanes",
                      o->t->axes.v[s->axes.v[k].axis].name);
    w->out.m = tile_of(s, o->rows);
    w->j = tile_of(s, o->j);
    w->cols = o->cols < 0 ? 8 : tile_of(s, o->cols);
    w->out.group_rows = w->sync && w->out.m == 128 * w->out.groups && s->split <= 1 ? 128 : 64;
    w->out.block_rows = 64;
    w->beside = w->out.groups > 1 && w->out.m == 64;
    w->out.n = w->out.group_cols = w->beside ? w->cols / w->out.groups : w->cols;
    if (w->out.m != (w->beside ? 64 : w->out.group_rows * w->out.groups))
        return no(why, "%d groups of 64 rows, a tile of %d", w->out.groups, w->out.m);
    if (w->beside && w->cols % (PIECE * w->out.groups))
        return no(why, "%d columns for %d groups beside each other", w->cols, w->out.groups);
    if (w->j < 16 || w->j > 256 || w->j % 16)
        return no(why, "blocks of %d; multiples of 16 up to 256 are right", w->j);
    if (w->out.n < 8 || w->out.n > 256 || w->out.n % 8)
        return no(why, "%d columns; multiples of 8 up to 256 are right", w->out.n);
    if (o->cols >= 0 && ix_is_const(o->t->axes.v[o->cols].extent, &n) && n > w->cols)
        return no(why, "%lld columns, the tile has %d", (long long)n, w->cols);
    return true;
}

/* Of a consumer thread: sums of products, a block, its rounded factors, which are used while the
 * next block is made, or at once; some more. */
static int registers(const Online *o, const OnlineTiles *w) {
    int sums = o->nproducts * w->out.n / 2;
    int each = w->out.group_rows / 64;
    if (w->sync && !w->late)
        return (sums + (o->nscores + o->nfactors) * w->j / 2 - w->j / 2) * each;
    return (sums + o->nscores * w->j / 2 + o->nfactors * w->j / 4) * each;
}

/* Stores through shared memory, as in mma.h. */
static bool read_slabs(Arena *a, const Schedule *s, const Online *o, OnlineTiles *w, Str *why) {
    Schedule rest = *s;
    Mma m = {.t = o->t, .rows = o->rows, .cols = o->cols};
    m.nest.rest = o->t->body.inst.n;
    m.a.load = o->score[0].a.load, m.b.load = o->score[0].b.load;
    rest.values.v = NULL;
    rest.values.n = rest.values.cap = 0;
    for (int k = 0; k < s->values.n; k++) {
        bool factor = body_load(o, s->values.v[k].value);
        for (int x = 0; x < o->nscores; x++)
            factor |= s->values.v[k].value == o->score[x].a.load->id ||
                      s->values.v[k].value == o->score[x].b.load->id;
        for (int p = 0; p < o->nproducts; p++)
            factor |= s->values.v[k].value == o->product[p].b.load->id;
        if (!factor) vec_push(a, &rest.values, s->values.v[k]);
    }
    return mma_read_slabs(o->t, &rest, &m, &w->out, why);
}

/* Slabs of 64 columns, over a buffer of matrices if there are some and they are large enough; else
 * a group's slab is as large as its rows' part of a piece of 64 of k. */
static bool fits_over(const Online *o, OnlineTiles *w, Str *why) {
    const MmaTiles *out = &w->out;
    int all = out->groups * out->ring * out->chunk_bytes;
    if (!out->over) return true;
    w->over_brought = w->nbrought && out->nstaged == 1 && all <= w->brought_bytes &&
                      out->ring * out->chunk >= out->n;
    if (w->over_brought) return true;
    if (o->nscores != 1 || out->nstaged != 1 || out->chunk_bytes != PIECE * LINE ||
        out->ring > w->q[0].pieces || out->ring * out->chunk < out->n)
        return no(why, "%d slabs of %d bytes do not lie over the factor of the rows", out->ring,
                  out->chunk_bytes);
    return true;
}

/* Words for each product, in two places at least; bytes. */
static int lay_used(const Online *o, OnlineTiles *w) {
    int slots = w->stages > 1 ? w->stages : 2;
    for (int p = 0; p < o->nproducts; p++)
        if (o->product[p].holes) w->used_words = (w->j / 4 + 31) / 32;
    return slots * o->nproducts * w->used_words * 4 * 4 * w->out.groups * 4;
}

/* A ring of words with two barriers each; a word beside each buffer of blocks, 16 bytes beside
 * those of a tile. */
static int lay_picks(const OnlineTiles *w) {
    return w->out.picked ? ONLINE_PICKS * (4 + 2 * 8) + w->stages * 4 + w->ahead * 16 : 0;
}

/* The role mma alone: groups of 4 warps, each with 16 rows. */
static bool read_warps(const Schedule *s, MmaTiles *w, Str *why) {
    enum { GROUPS = 4, MOST = 255, ALL = 65536 };
    const SRole *r = s->roles.n == 1 ? &s->roles.v[0] : NULL;
    if (!r || strcmp(r->name, "mma") != 0 || r->warps % 4 || r->warps > 4 * GROUPS)
        return no(why, "the one role is mma, with a multiple of 4 warps, at most %d", 4 * GROUPS);
    if (r->regs < 64 || r->regs > MOST || r->regs * s->threads > ALL)
        return no(why, "%d registers of a thread; 64 to %d, and no more than %d in all are there",
                  r->regs, MOST, ALL);
    w->groups = r->warps / 4;
    w->mma_regs = w->entry_regs = r->regs;
    return true;
}

static bool looked_up(const Online *o, const MmaFactor *f, const OnlineWhere *w, Str *why) {
    if (!w->page && !w->dims) return false;
    no(why, "where %s is read is looked up, which needs TMA",
       o->t->tensors.v[f->load->tensor].name);
    return true;
}

bool online_copies(const Online *o, Str *why) {
    for (int k = 0; k < o->nscores; k++)
        if (looked_up(o, &o->score[k].b, &o->score[k].where, why)) return false;
    for (int p = 0; p < o->nproducts; p++)
        if (looked_up(o, &o->product[p].b, &o->product[p].where, why)) return false;
    return true;
}

/* Are products a stage behind scores? All of them, or none. */
static bool read_late(const Schedule *s, const Online *o, OnlineTiles *w, Str *why) {
    if (!w->sync || !s->ops.n) return true;
    for (int k = 0; k < s->ops.n; k++)
        for (int p = 0; p < o->nproducts; p++)
            w->late |= s->ops.v[k].value == o->product[p].mul->id && s->ops.v[k].stage == 1;
    if (!w->late || w->stages < 2)
        return no(why, "products are a stage behind, with two buffers of a block at least");
    for (int p = 0; p < o->nproducts; p++)
        if (o->product[p].holes) return no(why, "products with holes are made at once");
    return true;
}

/* What is built for TMA and mbarriers alone. */
static bool fits_sync(const Schedule *s, const Online *o, const OnlineTiles *w, Str *why) {
    int lines = s->threads / (LINE / 16); /* that threads copy together */
    if (!w->sync) return true;
    if (w->ahead != 1) return no(why, "one buffer of the rows' factors");
    if (w->j % lines || w->out.m % lines)
        return no(why, "%d threads copy %d lines at once, of %d and %d", s->threads, lines, w->j,
                  w->out.m);
    if (!online_copies(o, why)) return false;
    if (w->nbrought || w->out.nstaged || s->pingpong || s->dynamic)
        return no(why, "matrices brought, staged stores, pingpong and dynamic need TMA");
    return true;
}

bool online_schedule(Arena *a, const TProg *t, const Schedule *s, Online *o, OnlineTiles *w,
                     Str *why) {
    *w = (OnlineTiles){.sync = s->mul == MUL_mma};
    MmaTiles *out = &w->out;
    const Target *target = target_named(s->target);
    if (!online_find(a, t, o, why) ||
        !(w->sync ? read_warps(s, out, why) : mma_read_roles(s, 3, out, why)) ||
        !read_tiles(s, o, w, why) || !lay_all(s, o, w, why) || !read_brought(s, o, w, why) ||
        !read_slabs(a, s, o, w, why) || !read_batches(s, o, w, why))
        return false;
    if (!fits_over(o, w, why) || !fits_sync(s, o, w, why)) return false;
    if (out->carried) return no(why, "the role slab is not built here");
    if (out->picked && !o->picks) return no(why, "no data for the role pick to pick blocks by");
    if (out->picked && s->split > 1) return no(why, "blocks that are picked are not split");
    if (s->cluster[0] > 1 || s->cluster[1] > 1 || s->promote)
        return no(why, "clusters and promotion are not built here");
    if (!read_late(s, o, w, why)) return false;
    w->spare = out->mma_regs - registers(o, w);
    if (w->spare < (w->sync ? 40 : 24))
        return no(why, "%d registers of %d for sums and a block", registers(o, w), out->mma_regs);
    w->early = s->halves * 8;
    if (w->early >= w->j) return no(why, "%d columns worked on early of %d", w->early, w->j);
    out->pair_rows = out->pair_cols = 1;
    out->split = s->split ? s->split : 1;
    out->slots = target ? target->sms : 1;
    if (out->split > ONLINE_PARTS_MOST)
        return no(why, "split in at most %d parts", ONLINE_PARTS_MOST);
    if (w->beside && (out->split > 1 || out->over))
        return no(why, "groups beside each other: no split, no slabs over factors");
    if (out->split > 1 && (out->over || !s->persistent))
        return no(why, "split needs persistent, and slabs of their own");
    int slabs = out->over ? 0 : out->groups * out->ring * out->chunk_bytes;
    w->bars_at = out->stage_bytes + slabs;
    w->used_at = w->bars_at + BARRIERS;
    w->picks_at = w->used_at + lay_used(o, w);
    out->smem = w->picks_at + lay_picks(w);
    if (s->dynamic && !s->persistent) return no(why, "dynamic is for persistent kernels");
    if (8 * (2 * w->ahead + 4 * w->stages + 2 * w->bring + 5) + 4 * out->groups > BARRIERS)
        return no(why, "too many buffers");
    if (target && out->smem > target->smem)
        return no(why, "%d bytes of shared memory, %s has %d", out->smem, s->target, target->smem);
    return true;
}
