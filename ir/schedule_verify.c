/* schedule_verify.c - what any schedule must keep, whatever the backend makes of it. */
#include "ir/online.h"
#include "ir/target.h"
#include "ir/tile_int.h"

enum { THREADS_MAX = 1024 };

typedef struct Verify {
    const Schedule *s;
    const TProg *t;
    Str *why;
    bool ok;
} Verify;

FK_PRINTF(3, 4) static bool need(Verify *v, bool cond, const char *fmt, ...) {
    if (cond) return true;
    v->ok = false;
    str_printf(v->why, "schedule %s for %s: ", v->s->name ? v->s->name : "?", v->t->name);
    va_list ap;
    va_start(ap, fmt);
    str_vprintf(v->why, fmt, ap);
    va_end(ap);
    str_add(v->why, "\n");
    return false;
}

/* How loops use each axis: that outermost ones only may have lanes, and which are open together. */
typedef struct Loops {
    bool *inner;    /* per axis: a loop of it stands inside of another loop */
    bool *together; /* axes * axes: open at once */
    int naxes, open[64], depth;
} Loops;

static void find_loops(Loops *l, const TBlock *b) {
    for (int k = 0; k < b->inst.n; k++) {
        const TInst *i = b->inst.v[k];
        if (i->kind == T_LOOP) {
            if (l->depth) l->inner[i->axis] = true;
            for (int d = 0; d < l->depth; d++) {
                l->together[i->axis * l->naxes + l->open[d]] = true;
                l->together[l->open[d] * l->naxes + i->axis] = true;
            }
            FK_ASSERT(l->depth < 64);
            l->open[l->depth++] = i->axis;
            find_loops(l, &i->body);
            l->depth--;
        } else {
            find_loops(l, &i->body);
        }
    }
}

static void verify_axes(Verify *v, const Loops *l) {
    const Schedule *s = v->s;
    int64_t lanes = 1;
    for (int k = 0; k < s->axes.n; k++) {
        const SAxis *a = &s->axes.v[k];
        if (!need(v, a->axis >= 0 && a->axis < v->t->axes.n, "no axis %d", a->axis)) continue;
        const char *name = v->t->axes.v[a->axis].name;
        need(v, a->lanes >= 1 && a->regs >= 1 && a->vec >= 1,
             "axis %s: lanes %d, regs %d, vec %d; each is at least 1", name, a->lanes, a->regs,
             a->vec);
        for (int m = 0; m < k; m++)
            need(v, s->axes.v[m].axis != a->axis, "axis %s is laid twice", name);
        need(v, a->lanes == 1 || !l->inner[a->axis],
             "axis %s is a loop inside of another: it cannot have lanes", name);
        if (!a->shared) {
            lanes *= a->lanes;
        } else if (need(v, k > 0, "axis %s shares lanes with nothing before it", name)) {
            const SAxis *with = &s->axes.v[k - 1];
            need(v, with->lanes == a->lanes, "axis %s shares %d lanes, it has %d", name,
                 with->lanes, a->lanes);
            need(v,
                 a->axis >= v->t->ngrid && with->axis >= v->t->ngrid &&
                     !l->together[a->axis * l->naxes + with->axis],
                 "axis %s shares lanes with %s, but they are open together", name,
                 v->t->axes.v[with->axis].name);
        }
    }
    if (s->mul == MUL_fma)
        need(v, lanes == s->threads, "%d threads, but the axes have %lld lanes", s->threads,
             (long long)lanes);
}

/* ---- what the plain, fma tier asks --------------------------------------------------------------
 */

typedef struct Plain {
    uint64_t *deps;
    const SAxis **axis; /* by axis; NULL: lanes, regs and vec of 1 */
} Plain;

static bool many(const Plain *p, int axis, int n) {
    return p->axis[axis] && p->axis[axis]->regs * p->axis[axis]->vec > n;
}

/* A branch is taken for all that a thread holds: its condition may not differ among them. */
static void verify_branch(Verify *v, const Plain *p, uint64_t deps, const char *what) {
    for (int a = 0; a < v->t->axes.n && a < 64; a++)
        if (deps >> a & 1)
            need(v, !many(p, a, 1), "%s depends on axis %s, which needs regs 1 and vec 1", what,
                 v->t->axes.v[a].name);
}

/* The two halves of a byte are stored by one thread. */
static void verify_nibbles(Verify *v, const Plain *p, const TInst *i) {
    int a;
    if (dtype_bits(v->t->tensors.v[i->tensor].type) != 4 || !i->nix) return;
    const Ix *last = i->ix[i->nix - 1];
    if (ix_is_axis(last, &a))
        need(v, p->axis[a] && p->axis[a]->vec == 2,
             "axis %s is the last of a 4-bit store, which needs vec 2", v->t->axes.v[a].name);
    else
        need(v, ix_is_const(last, NULL), "a 4-bit store whose last index is no bare axis");
}

static void verify_plain(Verify *v, const Plain *p, const TBlock *b, bool guarded) {
    for (int k = 0; k < b->inst.n; k++) {
        const TInst *i = b->inst.v[k];
        if (i->kind == T_GUARD) verify_branch(v, p, p->deps[i->args[0]], "a guard");
        if (i->kind == T_STORE) verify_nibbles(v, p, i);
        if (i->kind == T_LOOP) {
            verify_branch(v, p, tile_ix_deps(p->deps, i->lo) | tile_ix_deps(p->deps, i->hi),
                          "a loop's bound");
            need(v, !guarded || !p->axis[i->axis] || p->axis[i->axis]->lanes == 1,
                 "axis %s is a loop inside of a guard: it cannot have lanes",
                 v->t->axes.v[i->axis].name);
        }
        verify_plain(v, p, &i->body, guarded || i->kind == T_GUARD);
    }
}

/* A row that is held has no other loop than whole ones over it, each once. */
static void verify_held(Verify *v) {
    for (int k = 0; k < v->t->body.inst.n; k++) {
        const TInst *i = v->t->body.inst.v[k];
        int64_t zero;
        need(v, i->kind != T_GUARD, "a guard where a row is held");
        if (i->kind != T_LOOP) continue;
        need(v, ix_is_const(i->lo, &zero) && !zero && i->hi == v->t->axes.v[i->axis].extent,
             "axis %s is not held whole by this loop", v->t->axes.v[i->axis].name);
        for (int n = 0; n < i->body.inst.n; n++)
            need(v, i->body.inst.v[n]->kind != T_LOOP && i->body.inst.v[n]->kind != T_GUARD,
                 "a loop or guard in a row that is held");
    }
}

/* Rows in parts: all loops go over one axis, whole. */
static void verify_parts(Verify *v) {
    enum { LAUNCHES = 3 };
    int axis = -1, launches = 1;
    need(v, v->s->wide && !v->s->held, "in parts, and not block by block");
    for (int k = 0; k < v->t->body.inst.n; k++) {
        const TInst *i = v->t->body.inst.v[k];
        int64_t zero;
        if (i->kind != T_LOOP) continue;
        need(v, axis < 0 || axis == i->axis, "loops over several axes, in parts");
        need(v, ix_is_const(i->lo, &zero) && !zero && i->hi == v->t->axes.v[i->axis].extent,
             "axis %s in parts, of a loop that is not over all of it", v->t->axes.v[i->axis].name);
        axis = i->axis;
        launches += i->carries.n > 0;
    }
    need(v, axis >= 0 && launches > 1, "in parts, and no loop carries values");
    need(v, launches <= LAUNCHES, "%d launches, %d are allowed", launches, LAUNCHES);
}

static void verify_plain_tier(Verify *v, Arena *a) {
    Plain p = {tile_deps(a, v->t), ARENA_ARRAY(a, const SAxis *, v->t->axes.n + 1)};
    for (int k = 0; k < v->s->axes.n; k++) p.axis[v->s->axes.v[k].axis] = &v->s->axes.v[k];
    verify_plain(v, &p, &v->t->body, false);
    need(v, !v->s->held || v->s->wide, "held, and not wide");
    if (v->s->held) verify_held(v);
    if (v->s->split > 1) verify_parts(v);
}

static void verify_pipeline(Verify *v) {
    const Schedule *s = v->s;
    int n = v->t->nvalues, warps = 0;
    for (int k = 0; k < s->values.n; k++) {
        const SValue *x = &s->values.v[k];
        need(v, x->value >= 0 && x->value < n, "no value %%%d to place", x->value);
        need(v,
             x->buffers >= 0 && x->slabs >= 0 && x->swizzle >= 0 &&
                 (x->swizzle & (x->swizzle - 1)) == 0,
             "%%%d: buffers %d, swizzle %d", x->value, x->buffers, x->swizzle);
        need(v, !x->plain || (s->mul != MUL_fma && x->place == PLACE_smem),
             "%%%d is plain, but not in smem for tensor cores", x->value);
    }
    for (int k = 0; k < s->ops.n; k++) {
        const SOp *o = &s->ops.v[k];
        need(v,
             o->value >= 0 && o->value < n && o->wait >= -1 && o->wait < n && o->release >= -1 &&
                 o->release < n,
             "op %%%d waits for or releases an unknown value", o->value);
        need(v, o->stage >= 0 && o->order >= 0, "op %%%d: stage %d, order %d", o->value, o->stage,
             o->order);
    }
    for (int k = 0; k < s->roles.n; k++) {
        need(v, s->roles.v[k].warps >= 1 && s->roles.v[k].regs >= 0, "role %s has no warps",
             s->roles.v[k].name);
        warps += s->roles.v[k].warps;
    }
    if (s->roles.n)
        need(v, warps * 32 == s->threads, "%d threads, but the roles have %d warps", s->threads,
             warps);
}

static void verify_mma_tier(Verify *v) {
    Mma m;
    MmaTiles tiles;
    Str why = {0};
    Arena a = {0};
    Online o;
    OnlineTiles blocks;
    Str other = {0};
    bool ok = online_find(&a, v->t, &o, &other) ? online_schedule(&a, v->t, v->s, &o, &blocks, &why)
                                                : mma_schedule(v->t, v->s, &m, &tiles, &why);
    need(v, ok, "%s", ok ? "" : str_get(&why));
    str_free(&other);
    str_free(&why);
    arena_free(&a);
}

bool schedule_verify(const Schedule *s, const TProg *t, Str *why) {
    Arena a = {0};
    Verify v = {s, t, why, true};
    Loops l = {.naxes = t->axes.n};
    l.inner = ARENA_ARRAY(&a, bool, l.naxes);
    l.together = ARENA_ARRAY(&a, bool, l.naxes *l.naxes);
    find_loops(&l, &t->body);
    const Target *target = s->target ? target_named(s->target) : NULL;
    if (need(&v, target, "target %s is unknown", s->target ? s->target : "?")) {
        need(&v, s->move != MOVE_tma || target->has & TGT_T, "%s has no TMA", s->target);
        need(&v, s->mul != MUL_wgmma || target->has & TGT_W, "%s has no wgmma", s->target);
        need(&v, s->mul != MUL_mma || target->has & TGT_M, "%s has no mma.sync", s->target);
    }
    need(&v, s->threads >= 1 && s->threads <= THREADS_MAX, "%d threads", s->threads);
    verify_axes(&v, &l);
    if (v.ok && s->move == MOVE_plain && s->mul == MUL_fma) verify_plain_tier(&v, &a);
    if (v.ok && s->mul == MUL_wgmma) {
        need(&v, s->move == MOVE_tma, "wgmma takes what TMA brings");
        verify_mma_tier(&v);
    }
    if (v.ok && s->mul == MUL_mma) {
        need(&v, s->move == MOVE_cpasync, "mma.sync takes what cp.async brings");
        verify_mma_tier(&v);
    }
    verify_pipeline(&v);
    for (int k = 0; k < 3; k++) need(&v, s->cluster[k] >= 0, "cluster of %d", s->cluster[k]);
    need(&v,
         s->raster >= 0 && s->split >= 0 && s->halves >= 0 && s->promote >= 0 && s->pieces >= 0 &&
             s->sets >= 0,
         "a count below 0");
    arena_free(&a);
    return v.ok;
}
