/* eval_tile.c - the evaluator of tile programs: every step of a plan over all points of its grid,
 * in f64, with the block semantics of tile.h.
 *
 * A plain walk over instructions, sharing only the scalar ops with the graph evaluator, so that the
 * two check each other. It is strict: a read or store outside of its tensor that nothing checks, a
 * read of a temporary that was not written, and an element written twice or never, are faults and
 * end the run with a message. What is stored is kept as a value (an f32 unrounded) and reaches the
 * outputs at the end.
 */
#include "ir/eval_tile_int.h"

#include <math.h>
#include <string.h>

/* ---- one thread --------------------------------------------------------------------------------
 */

typedef struct State { /* of a carry, by value number */
    EvalVal v;
    double ref; /* the frame that v is in */
    bool stepped;
} State;

typedef struct Run {
    EvalProg *p;
    EvalVal *v;
    State *s;
    int64_t *axis;
    const TCarry **pass; /* per value: the carry whose pass this is; NULL: it may step */
} Run;

FK_PRINTF(2, 3) static void fault(EvalProg *p, const char *fmt, ...) {
    pthread_mutex_lock(&p->lock);
    if (!atomic_exchange(&p->failed, true)) {
        va_list ap;
        va_start(ap, fmt);
        str_printf(p->why, "tile %s: ", p->t->name);
        str_vprintf(p->why, fmt, ap);
        str_addc(p->why, '\n');
        va_end(ap);
    }
    pthread_mutex_unlock(&p->lock);
}

static int64_t ix_value_of(void *ctx, const Ix *x, const int64_t *args) {
    (void)args;
    return ((Run *)ctx)->v[x->num].i;
}

/* checked: an index of data that leaves 64 bits is outside of every extent. */
static int64_t lin_eval(Run *r, const Lin *l, bool checked) {
    int64_t at = l->c;
    if (l->x) {
        IxEnv env = {.axis = r->axis, .value = ix_value_of, .ctx = r};
        bool ok = true;
        at = ix_eval(l->x, &env, &ok);
        if (!ok && checked) return -1;
        if (!ok) fault(r->p, "an index expression divides by 0, or overflows");
        return at;
    }
    for (int k = 0; k < l->n; k++) at += l->term[k].coef * r->axis[l->term[k].axis];
    return at;
}

/* The place of a load or store in its tensor; -1: outside, where that is allowed. */
static int64_t place(Run *r, const PInst *p, const PTensor *t) {
    int64_t at = 0;
    for (int d = 0; d < t->rank; d++) {
        int64_t x = lin_eval(r, &p->ix[d], p->i->checked >> d & 1);
        if (x < 0 || x >= t->extent[d]) {
            if (!(p->i->checked >> d & 1))
                fault(r->p, "%s of %s at %lld in dimension %d, outside of its extent %lld",
                      p->i->kind == T_LOAD ? "load" : "store", t->name, (long long)x, d,
                      (long long)t->extent[d]);
            return -1;
        }
        at += x * t->stride[d];
    }
    return at;
}

static EvalVal load(Run *r, const PInst *p) {
    const PTensor *t = &r->p->tensor[p->i->tensor];
    EvalVal v = {.exact = true};
    int64_t at = p->empty ? -1 : place(r, p, t);
    if (at < 0) return v;
    if (!t->store->cell) return eval_load(t->type, t->store->in->data, at);
    const Cell *c = &t->store->cell[at];
    if (!atomic_load_explicit(&c->written, memory_order_relaxed))
        fault(r->p, "element %lld of %s is read before it was written", (long long)at, t->name);
    if (dtype_class(t->type) == DC_REAL)
        v.r = c->u.r;
    else
        v.i = c->u.i;
    v.exact = false;
    return v;
}

/* Is this not the one point of the axes on which its place does not depend? */
static bool done_elsewhere(const Run *r, const PInst *p) {
    for (int k = 0; k < 63 && p->once >> k; k++)
        if (p->once >> k & 1 && r->axis[k]) return true;
    return false;
}

static void store(Run *r, const PInst *p) {
    const PTensor *t = &r->p->tensor[p->i->tensor];
    if (p->empty || done_elsewhere(r, p)) return;
    int64_t at = place(r, p, t);
    if (at < 0) return;
    Cell *c = &t->store->cell[at];
    if (atomic_fetch_add_explicit(&c->written, 1, memory_order_relaxed))
        fault(r->p, "element %lld of %s is written twice", (long long)at, t->name);
    EvalVal v = r->v[p->i->args[0]];
    if (dtype_class(t->type) == DC_REAL)
        c->u.r = v.r;
    else
        c->u.i = v.i;
}

static EvalVal apply(Run *r, const PInst *p) {
    EvalVal in[8];
    for (int k = 0; k < p->i->nargs; k++) {
        in[k] = r->v[p->i->args[k]];
        if (p->from[k] != p->in[k]) in[k] = eval_widen(p->from[k], p->in[k], in[k]);
    }
    return eval_op(p->i->op, p->i->op == OP_cast ? p->i->type : dtype_value(p->i->type), p->vt, in);
}

/* ---- carried values
 * ------------------------------------------------------------------------------ */

static EvalVal joined(const TCarry *c, EvalVal a, EvalVal b) {
    const EvalVal in[2] = {a, b};
    return eval_op(reduce_combine(c->red), c->type, c->type, in);
}

static void step(Run *r, const PInst *p) {
    int id = p->i->args[0];
    const TCarry *c = r->p->carry[id], *pass = r->pass[id];
    if (pass != c) return; /* not its turn */
    DType from = r->p->type[p->i->args[1]];
    EvalVal e = eval_widen(dtype_value(from), c->type, r->v[p->i->args[1]]);
    State *s = &r->s[id];
    s->v = joined(c, s->v, e);
    s->stepped = true;
}

static double rescale(const Run *r, const TCarry *c, double old, double new) {
    EvalVal stack[TILE_RESCALE_MAX + 1];
    int n = 0;
    for (int k = 0; k < c->rescale.n; k++) {
        const TFactor *f = &c->rescale.v[k];
        if (f->kind == TF_OP) {
            n -= op_arity(f->op);
            stack[n] = eval_op(f->op, DT_f32, DT_f32, stack + n);
        } else {
            double x = f->kind == TF_OLD ? old : f->kind == TF_NEW ? new : f->num;
            stack[n] = (EvalVal){.r = x};
            if (f->kind == TF_VALUE)
                stack[n] = eval_widen(dtype_value(r->p->type[f->value]), DT_f32, r->v[f->value]);
        }
        n++;
    }
    return stack[0].r;
}

static bool is_still(const TCarry *frame, double f) {
    return f == eval_identity(frame->red, DT_f32).r;
}

/* A frame that no element has moved yet is used as 0: exp(-inf - -inf) must not arise from a block
 * of -inf when a later block has more. */
static double usable(const TCarry *frame, double f) {
    return is_still(frame, f) ? 0 : f;
}

/* What came under a frame that is still at its identity stays as it is: exp(-inf - 0) = 0, which
 * exp(0 - new) might turn into a NaN. */
static void move_frame(const Run *r, const TCarry *c, State *s, double to) {
    const TCarry *f = r->p->carry[c->frame];
    bool free = is_still(f, s->ref) || is_still(f, to);
    if (s->stepped && s->ref != to && !free) s->v.r *= rescale(r, c, s->ref, to);
    s->ref = to;
}

/* The frame of c for the block whose elements its frame has seen already. */
static double block_frame(const Run *r, const TCarry *c) {
    const TCarry *f = r->p->carry[c->frame];
    double now = r->s[c->frame].v.r, before = r->s[c->id].ref;
    if (!c->lag || is_still(f, before)) return now;
    double by = fabs(log(rescale(r, c, before, now)));
    return before == now || by <= c->bound ? before : now;
}

static void run_block(Run *r, const PInst *body, int n);

static void iterate(Run *r, const PInst *loop, int64_t from, int64_t to) {
    for (int64_t x = from; x < to && !atomic_load_explicit(&r->p->failed, memory_order_relaxed);
         x++) {
        r->axis[loop->i->axis] = x;
        run_block(r, loop->body, loop->nbody);
    }
}

static void set_pass(Run *r, const TInst *loop, const TCarry *only) {
    for (int k = 0; k < loop->carries.n; k++) {
        const TCarry *c = &loop->carries.v[k];
        bool turn = only ? c == only : c->frame < 0;
        r->pass[c->id] = turn ? c : NULL;
    }
}

static void framed_blocks(Run *r, const PInst *p, int64_t from, int64_t to) {
    const TInst *loop = p->i;
    int64_t tile = r->p->t->axes.v[loop->axis].tile;
    for (int64_t at = from; at < to; at += tile) {
        int64_t end = at + tile < to ? at + tile : to;
        set_pass(r, loop, NULL);
        iterate(r, p, at, end);
        for (int k = 0; k < loop->carries.n; k++) {
            const TCarry *c = &loop->carries.v[k];
            if (c->frame < 0) continue;
            move_frame(r, c, &r->s[c->id], block_frame(r, c));
            r->v[c->frame].r = usable(r->p->carry[c->frame], r->s[c->id].ref);
            set_pass(r, loop, c);
            iterate(r, p, at, end);
        }
    }
}

/* States of [from, to) from nothing. */
static void run_part(Run *r, const PInst *p, int64_t from, int64_t to) {
    const TInst *loop = p->i;
    for (int k = 0; k < loop->carries.n; k++) {
        const TCarry *c = &loop->carries.v[k];
        r->s[c->id] = (State){.v = eval_identity(c->red, c->type)};
        if (c->frame >= 0) r->s[c->id].ref = r->s[c->frame].v.r;
    }
    set_pass(r, loop, NULL);
    if (p->frames)
        framed_blocks(r, p, from, to);
    else
        iterate(r, p, from, to);
}

/* Two partial states become one; states with a frame meet in the joint one. */
static void merge(const Run *r, const TInst *loop, State *a, const State *b) {
    for (int k = 0; k < loop->carries.n; k++) {
        const TCarry *c = &loop->carries.v[k];
        State other = b[k];
        if (c->frame >= 0) {
            int f = 0;
            while (loop->carries.v[f].id != c->frame) f++;
            double joint = a[f].v.r; /* merged before its users */
            move_frame(r, c, &a[k], joint);
            move_frame(r, c, &other, joint);
        }
        if (!other.stepped) continue;
        a[k].v = a[k].stepped ? joined(c, a[k].v, other.v) : other.v;
        a[k].stepped = true;
    }
}

/* If that is still at its identity, what came is as in the plain formula: exp(-inf - -inf). */
static void to_true_frame(const Run *r, const TCarry *c, State *s) {
    double to = r->s[c->frame].v.r;
    move_frame(r, c, s, to);
    if (s->stepped && is_still(r->p->carry[c->frame], to)) s->v.r *= rescale(r, c, 0, to);
}

static void finish(Run *r, const TInst *loop) {
    for (int k = 0; k < loop->carries.n; k++) {
        const TCarry *c = &loop->carries.v[k];
        State *s = &r->s[c->id];
        if (c->frame >= 0) to_true_frame(r, c, s);
        if (!s->stepped && c->has_finish) s->v = eval_const(c->type, c->finish, (int64_t)c->finish);
        r->v[c->id] = s->v;
    }
}

static void run_loop(Run *r, const PInst *p) {
    const TInst *loop = p->i;
    int64_t lo = lin_eval(r, &p->ix[0], false), hi = lin_eval(r, &p->ix[1], false);
    if (lo < hi && (lo < 0 || hi > r->p->extent[loop->axis])) {
        fault(r->p, "loop %s from %lld to %lld, outside of its extent %lld",
              r->p->t->axes.v[loop->axis].name, (long long)lo, (long long)hi,
              (long long)r->p->extent[loop->axis]);
        return;
    }
    int parts = p->split ? r->p->split : 1, n = loop->carries.n;
    int64_t each = lo < hi ? (hi - lo + parts - 1) / parts : 0;
    State sum[TILE_CARRIES_MAX] = {0}, part[TILE_CARRIES_MAX];
    for (int k = 0; k < parts; k++) {
        int64_t from = lo + k * each, to = from + each < hi ? from + each : hi;
        run_part(r, p, from, to);
        for (int c = 0; c < n; c++) part[c] = r->s[loop->carries.v[c].id];
        if (k)
            merge(r, loop, sum, part);
        else
            memcpy(sum, part, sizeof *sum * (size_t)n);
    }
    for (int c = 0; c < n; c++) r->s[loop->carries.v[c].id] = sum[c];
    finish(r, loop);
}

static void run_block(Run *r, const PInst *body, int n) {
    for (const PInst *p = body; p < body + n; p++) {
        const TInst *i = p->i;
        switch (i->kind) {
        case T_CONST: r->v[i->id] = p->constant; break;
        case T_INDEX:
            r->v[i->id] = (EvalVal){.i = lin_eval(r, &p->ix[0], false), .exact = true};
            break;
        case T_LOAD: r->v[i->id] = load(r, p); break;
        case T_OP: r->v[i->id] = apply(r, p); break;
        case T_LOOP: run_loop(r, p); break;
        case T_GUARD:
            if (r->v[i->args[0]].i) run_block(r, p->body, p->nbody);
            break;
        case T_STEP: step(r, p); break;
        case T_STORE: store(r, p); break;
        }
    }
}

void *eval_tile_run(void *arg) {
    EvalProg *p = arg;
    Arena a = {0};
    Run r = {.p = p};
    r.v = ARENA_ARRAY(&a, EvalVal, p->t->nvalues);
    r.s = ARENA_ARRAY(&a, State, p->t->nvalues);
    r.pass = ARENA_ARRAY(&a, const TCarry *, p->t->nvalues);
    r.axis = ARENA_ARRAY(&a, int64_t, p->t->axes.n);
    enum { CHUNK = 16 };
    for (;;) {
        int64_t from = atomic_fetch_add(&p->next, CHUNK);
        if (from >= p->points || atomic_load(&p->failed)) break;
        for (int64_t at = from; at < from + CHUNK && at < p->points; at++) {
            int64_t rest = at;
            for (int k = p->t->ngrid - 1; k >= 0; k--) {
                r.axis[k] = rest % p->span[k];
                rest /= p->span[k];
            }
            run_block(&r, p->body, p->nbody);
        }
    }
    arena_free(&a);
    return NULL;
}
