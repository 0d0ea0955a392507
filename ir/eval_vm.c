/* eval_vm.c - runs the code of eval_code.c. */
#include "ir/eval_int.h"

#include <stdlib.h>
#include <string.h>

/* ---- memo --------------------------------------------------------------------------------- */

static bool memo_get(const Fn *fn, uint64_t key, EvalVal *out) {
    MemoSlot *s = &fn->memo[key & fn->mask];
    uint32_t seq = atomic_load_explicit(&s->seq, memory_order_acquire);
    if (seq & 1) return false;
    uint64_t have = atomic_load_explicit(&s->key, memory_order_relaxed);
    uint64_t bits = atomic_load_explicit(&s->bits, memory_order_relaxed);
    uint32_t flags = atomic_load_explicit(&s->flags, memory_order_relaxed);
    atomic_thread_fence(memory_order_acquire);
    if (have != key + 1 || atomic_load_explicit(&s->seq, memory_order_relaxed) != seq) return false;
    *out = (EvalVal){.unsure = flags & 1, .exact = flags >> 1 & 1};
    if (fn->real)
        memcpy(&out->r, &bits, sizeof bits);
    else
        out->i = (int64_t)bits;
    return true;
}

static void memo_put(const Fn *fn, uint64_t key, EvalVal v) {
    MemoSlot *s = &fn->memo[key & fn->mask];
    uint32_t seq = atomic_load_explicit(&s->seq, memory_order_relaxed);
    if (seq & 1 || !atomic_compare_exchange_strong_explicit(
                       &s->seq, &seq, seq + 1, memory_order_acquire, memory_order_relaxed))
        return; /* another thread is at it: its value serves as well */
    atomic_thread_fence(memory_order_release);
    uint64_t bits = (uint64_t)v.i;
    if (fn->real) memcpy(&bits, &v.r, sizeof bits);
    atomic_store_explicit(&s->key, key + 1, memory_order_relaxed);
    atomic_store_explicit(&s->bits, bits, memory_order_relaxed);
    atomic_store_explicit(&s->flags, (uint32_t)v.unsure | (uint32_t)v.exact << 1,
                          memory_order_relaxed);
    atomic_store_explicit(&s->seq, seq + 2, memory_order_release);
}

static uint64_t memo_key(const Fn *fn, const int64_t *index) {
    uint64_t key = 0;
    for (int i = 0; i < fn->rank; i++) key += (uint64_t)index[i] * (uint64_t)fn->pitch[i];
    return key;
}

/* ---- stacks ------------------------------------------------------------------------------- */

static void *grow(void *p, size_t *cap, size_t need, size_t elem) {
    if (need <= *cap) return p;
    *cap = need * 2;
    p = realloc(p, *cap * elem);
    if (!p) fk_no_memory();
    return p;
}

/* A frame above `below` (NULL: the first). */
static void push(EThread *t, size_t depth, const Fn *fn, uint64_t key, const int64_t *index) {
    t->frame = grow(t->frame, &t->fcap, depth + 1, sizeof *t->frame);
    EFrame *f = &t->frame[depth];
    *f = (EFrame){.fn = fn, .key = key};
    if (depth) {
        f->v = f[-1].v + (size_t)f[-1].fn->nv;
        f->x = f[-1].x + (size_t)f[-1].fn->nx;
    }
    t->v = grow(t->v, &t->vcap, f->v + (size_t)fn->nv + 1, sizeof *t->v); /* never NULL */
    t->x = grow(t->x, &t->xcap, f->x + (size_t)fn->nx + 1, sizeof *t->x);
    for (int i = 0; i < fn->rank; i++) t->x[f->x + (size_t)i] = index[i];
}

/* ---- the machine -------------------------------------------------------------------------- */

static int64_t madd(int64_t a, int64_t b, int64_t c) { /* index expressions do not overflow */
    return (int64_t)((uint64_t)a + (uint64_t)b * (uint64_t)c);
}

static bool inside(int64_t x, int64_t extent) {
    return x >= 0 && x < extent;
}

static void integer_op(const EIns *i, int64_t *x) {
    int64_t a = x[i->a], b = x[i->b];
    switch (i->code) {
    case E_MUL: x[i->d] = madd(0, a, b); return;
    case E_DIV: x[i->d] = b > 0 ? floor_div(a, b) : 0; return;
    case E_MOD: x[i->d] = b > 0 ? floor_mod(a, b) : 0; return;
    case E_MIN: x[i->d] = a < b ? a : b; return;
    case E_MAX: x[i->d] = a > b ? a : b; return;
    default: FK_BUG("evaluator code %d", i->code);
    }
}

static void value_op(const EIns *i, EvalVal *v) {
    const EvalVal in[3] = {v[i->a], v[i->b], v[i->c]};
    v[i->d] = i->u.fn((DType)i->type, (DType)i->vt, in);
}

/* The types that are read most, without a call. */
static double load_real(DType type, const void *base, int64_t at) {
    const unsigned char *p = base;
    uint16_t half;
    uint32_t word = 0;
    float f;
    double r = 0;
    int64_t none;
    switch (type) {
    case DT_f32: memcpy(&f, p + 4 * at, sizeof f); return (double)f;
    case DT_bf16:
        memcpy(&half, p + 2 * at, sizeof half);
        word = (uint32_t)half << 16;
        memcpy(&f, &word, sizeof f);
        return (double)f;
    case DT_f16: /* as dtype_load has it */
        memcpy(&half, p + 2 * at, sizeof half);
        word = (uint32_t)(half & 0x7fff) << 13;
        if (word >= 0x7c00 << 13) break;
        memcpy(&f, &word, sizeof f);
        return (half >> 15 ? -0x1p112 : 0x1p112) * (double)f;
    default: break;
    }
    dtype_load(type, base, at, &r, &none);
    return r;
}

static void load(const EIns *i, EvalVal *v, const int64_t *x) {
    EvalVal *d = &v[i->d];
    d->r = load_real((DType)i->type, i->u.ptr, x[i->a]);
    d->unsure = false;
    d->exact = true;
}

static void times(const EIns *i, EvalVal *v) {
    const EvalVal *a = &v[i->a], *b = &v[i->b];
    double r = a->r * b->r;
    bool unsure = a->unsure || b->unsure, exact = a->exact && b->exact;
    v[i->d].r = r;
    v[i->d].unsure = unsure;
    v[i->d].exact = exact && (double)(float)r == r;
}

static void join(const EIns *i, EvalVal *v) {
    const EvalVal in[2] = {v[i->d], v[i->a]};
    v[i->d] = i->u.fn((DType)i->type, (DType)i->type, in);
    if (i->vt) v[i->d].exact = false; /* the order of a sum or product is free */
}

/* Runs from the current pc of the top frame to its next call or return; gives that instruction. */
static const EIns *run_frame(EThread *t, EFrame *f) {
    const EIns *code = f->fn->code, *i = code + f->pc;
    EvalVal *v = t->v + f->v;
    int64_t *x = t->x + f->x;
    for (;; i++) {
        switch ((ECode)i->code) {
        case E_SET: x[i->d] = i->u.imm; break;
        case E_MADD: x[i->d] = madd(x[i->a], x[i->b], i->u.imm); break;
        case E_SCALE: x[i->d] = madd(0, x[i->a], i->u.imm); break;
        case E_MUL:
        case E_DIV:
        case E_MOD:
        case E_MIN:
        case E_MAX: integer_op(i, x); break;
        case E_INT: x[i->d] = v[i->a].i; break;
        case E_CONST: v[i->d] = *i->w.val; break;
        case E_INDEX: v[i->d] = (EvalVal){.i = x[i->a], .exact = true}; break;
        case E_LOAD: v[i->d] = eval_load((DType)i->type, i->u.ptr, x[i->a]); break;
        case E_LOADR: load(i, v, x); break;
        case E_OP: value_op(i, v); break;
        case E_OPN: v[i->d] = i->u.fn((DType)i->type, (DType)i->vt, v + i->a); break;
        case E_MULR:
            v[i->d].r = v[i->a].r * v[i->b].r;
            v[i->d].unsure = v[i->a].unsure || v[i->b].unsure;
            v[i->d].exact = false;
            break;
        case E_TIMES: times(i, v); break;
        case E_JOIN: join(i, v); break;
        case E_JOINR:
            v[i->d].r += v[i->a].r;
            v[i->d].unsure = v[i->d].unsure || v[i->a].unsure;
            v[i->d].exact = false;
            break;
        case E_WIDEN: v[i->d] = eval_widen((DType)i->type, DT_f32, v[i->a]); break;
        case E_MOVE: v[i->d] = v[i->a]; break;
        case E_LEAN:
            v[i->d] = v[i->a];
            if (!v[i->d].exact) v[i->d].r *= i->w.scale;
            break;
        case E_TAINT: v[i->d].unsure = v[i->d].unsure || v[i->a].unsure; break;
        case E_FALSE:
            if (!v[i->a].i) i = code + i->to - 1;
            break;
        case E_FALSE1:
            if (!v[i->a].i && !v[i->a].unsure) i = code + i->to - 1;
            break;
        case E_TRUE1:
            if (v[i->a].i && !v[i->a].unsure) i = code + i->to - 1;
            break;
        case E_OUT:
            if (!inside(x[i->a], i->u.imm)) i = code + i->to - 1;
            break;
        case E_INSIDE:
            if (!inside(x[i->a], i->u.imm))
                FK_BUG("node %%%d is read at %lld, outside of its extent %lld, and nothing checks "
                       "that (reader: %%%d)",
                       i->b, (long long)x[i->a], (long long)i->u.imm, f->fn->node);
            break;
        case E_LOOP:
            x[i->d] = 0;
            if (i->u.imm <= 0) i = code + i->to - 1;
            break;
        case E_NEXT:
            if (++x[i->d] < i->u.imm) i = code + i->to - 1;
            break;
        case E_CALL:
        case E_RET: f->pc = (int)(i - code) + 1; return i;
        }
    }
}

EvalVal eval_run(EThread *t, const Fn *fn, const int64_t *index) {
    EvalVal got;
    uint64_t key = fn->memo ? memo_key(fn, index) : 0;
    if (fn->memo && memo_get(fn, key, &got)) return got;
    push(t, 0, fn, key, index);
    for (size_t depth = 0;;) {
        EFrame *f = &t->frame[depth];
        const EIns *i = run_frame(t, f);
        if (i->code == E_RET) {
            got = t->v[f->v + (size_t)i->a];
            if (f->fn->memo) memo_put(f->fn, f->key, got);
            if (!depth) return got;
            f = &t->frame[--depth];
            t->v[f->v + (size_t)f->fn->code[f->pc - 1].d] = got;
            continue;
        }
        const Fn *to = i->u.call;
        int64_t at[EVAL_AXES_MAX];
        for (int k = 0; k < to->rank; k++) at[k] = t->x[f->x + (size_t)i->w.args[k]];
        key = to->memo ? memo_key(to, at) : 0;
        if (to->memo && memo_get(to, key, &got))
            t->v[f->v + (size_t)i->d] = got;
        else
            push(t, ++depth, to, key, at);
    }
}
