/* param.c - kernel parameters, and what a launch must bring.
 *
 * What a kernel needs from the host is known only when its body is made, and a function's type is
 * fixed when the function is made. So a parameter is a placeholder first (a freeze of undef, which
 * nothing folds); at the end the real body is made and takes the blocks over. The body has one
 * parameter more than the kernel: the tile.
 */
#include "backend/nvptx/nvptx_int.h"

#include <stdlib.h>

enum {
    VALUES = 1 << 20,
    MAPS = 1 << 20,
    MEMORY = 1 << 28
}; /* order of parameters: values after all tensors */

static Val placeholder(Lower *l, Ty t) {
    return LLVMBuildFreeze(l->frame, LLVMGetUndef(t), "");
}

static Arg *param_find(Lower *l, KParam kp, int order, Ty t) {
    for (int i = 0; i < l->args.n; i++) {
        KParam *p = &l->args.v[i].kp;
        if (p->kind == kp.kind && p->index == kp.index && p->dim == kp.dim && p->ix == kp.ix)
            return &l->args.v[i];
    }
    Arg p = {.kp = kp, .order = order, .type = t};
    p.use[0] = placeholder(l, t);
    if (kp.kind == KP_SCALAR) p.use[1] = placeholder(l, l->i64);
    vec_push(l->arena, &l->args, p);
    return &l->args.v[l->args.n - 1];
}

/* Tensors come first, as the tile program lists them, each with its strides. */
static int tensor_order(const Lower *l, const TTensor *t, int dim) {
    return (int)(t - l->t->tensors.v) * 64 + dim;
}

Val param_value(Lower *l, const Ix *x) {
    KParam kp = {.kind = KP_VALUE, .ix = x};
    return param_find(l, kp, VALUES, l->i64)->use[0];
}

Val param_pointer(Lower *l, const TTensor *t) {
    KParam kp = {.kind = t->mem == TM_TEMP ? KP_TEMP : KP_TENSOR, .index = t->id};
    return param_find(l, kp, tensor_order(l, t, 0), l->gptr)->use[0];
}

/* Tensor maps come before all: their alignment costs nothing, and PTX names them by place. */
int param_map(Lower *l, KTmap map, int index) {
    int n = 0;
    for (int i = 0; i < l->args.n; i++) n += l->args.v[i].kp.kind == KP_TMAP;
    Arg p = {
        .kp = {.kind = KP_TMAP, .index = index, .map = map}, .order = n - MAPS, .type = l->ptr};
    p.use[0] = placeholder(l, l->ptr);
    vec_push(l->arena, &l->args, p);
    return n;
}

const Ix *dense_stride(const TProg *t, const TTensor *x, int dim) {
    IxPool *p = t->ix;
    const Ix *s = ix_const(p, 1);
    for (int d = x->rank - 1; d > dim; d--) {
        const Ix *n = x->dims[d];
        if (d == x->rank - 1 && dtype_bits(x->type) == 4) { /* rows start on a byte */
            const Ix *two = ix_const(p, 2);
            n = ix_mul(p, ix_div(p, ix_add(p, n, ix_const(p, 1)), two), two);
        }
        s = ix_mul(p, s, n);
    }
    return s;
}

Val param_stride(Lower *l, const TTensor *t, int dim) {
    if (l->unit_last && dim == t->rank - 1) return LLVMConstInt(l->i64, 1, 0);
    if (t->mem != TM_TEMP) {
        KParam kp = {.kind = KP_STRIDE, .index = t->id, .dim = dim};
        return param_find(l, kp, tensor_order(l, t, dim + 1), l->i64)->use[0];
    }
    return uniform_ix(l, dense_stride(l->t, t, dim));
}

/* After all tensors and values. */
Val param_memory(Lower *l, KParamKind kind) {
    return param_find(l, (KParam){.kind = kind}, MEMORY + (int)kind, l->gptr)->use[0];
}

Val param_launch(Lower *l) {
    return param_find(l, (KParam){.kind = KP_LAUNCH}, MEMORY - 1, l->i64)->use[0];
}

void param_scalar(Lower *l, const TTensor *t, Val *pointer, Val *bits) {
    KParam kp = {.kind = KP_SCALAR, .index = t->id};
    Arg *p = param_find(l, kp, tensor_order(l, t, 0), l->gptr);
    *pointer = p->use[0];
    *bits = p->use[1];
}

static int by_order(const void *a, const void *b) {
    const Arg *p = a, *q = b;
    return p->order < q->order ? -1 : p->order > q->order;
}

/* Bytes of parameters a kernel may have. */
static int allowed_bytes(const Kernel *k) {
    return k->ptx_version >= 81 ? 32764 : 4096;
}

static void replace(Val from, Val to) {
    LLVMReplaceAllUsesWith(from, to);
    LLVMInstructionEraseFromParent(from);
}

Ty params_type(Lower *l, bool body) {
    int n = l->args.n, total = 0;
    Ty *type = ARENA_ARRAY(l->arena, Ty, 2 * n + 1);
    for (int i = 0; i < n; i++) {
        type[total++] = l->args.v[i].type;
        if (l->args.v[i].kp.kind == KP_SCALAR) type[total++] = l->i64;
    }
    if (body) type[total++] = l->i64;
    return LLVMFunctionType(LLVMVoidTypeInContext(l->cx), type, (unsigned)total, 0);
}

static int place(const Lower *l, int arg) {
    int at = 0;
    for (int i = 0; i < arg; i++) at += l->args.v[i].kp.kind == KP_SCALAR ? 2 : 1;
    return at;
}

Val params_value(Lower *l, Val fn, const Ix *x) {
    for (int i = 0; i < l->args.n; i++) {
        const KParam *p = &l->args.v[i].kp;
        if (p->kind == KP_VALUE && p->ix == x) return LLVMGetParam(fn, (unsigned)place(l, i));
    }
    FK_BUG("no parameter has the value asked for");
}

enum { TMAP_BYTES = 128 };

static bool room_for(Lower *l, Kernel *k, Diags *d) {
    int bytes = 8 * place(l, l->args.n);
    for (int i = 0; i < l->args.n; i++)
        if (l->args.v[i].kp.kind == KP_TMAP) bytes += (int)TMAP_BYTES - 8;
    if (bytes > 4096 && !l->o->ptx_version && k->ptx_version < 81) k->ptx_version = 81;
    if (bytes <= allowed_bytes(k)) return true;
    diag_error(d, (Span){0}, "kernel-parameters",
               "kernel '%s' needs %d bytes of parameters; %s with PTX %d.%d allows %d", k->name,
               bytes, l->o->target->name, k->ptx_version / 10, k->ptx_version % 10,
               allowed_bytes(k));
    diag_note(d, (Span){0}, "bind sizes, or cut the fn into several");
    return false;
}

bool params_finish(Lower *l, Kernel *k, Diags *d) {
    int n = l->args.n;
    for (int i = 0; i < n; i++) /* equal orders keep the order of first use */
        if (l->args.v[i].order == VALUES) l->args.v[i].order += i;
    if (n) qsort(l->args.v, (size_t)n, sizeof(Arg), by_order);
    for (int i = 0; i < n; i++) vec_push(l->arena, &k->params, l->args.v[i].kp);
    if (!room_for(l, k, d)) return false;
    Val old = l->fn;
    l->fn =
        LLVMAddFunction(l->mod, arena_printf(l->arena, "%s.body", k->name), params_type(l, true));
    for (LLVMBasicBlockRef b; (b = LLVMGetFirstBasicBlock(old));) {
        LLVMRemoveBasicBlockFromParent(b);
        LLVMAppendExistingBasicBlock(l->fn, b);
    }
    LLVMDeleteFunction(old);
    for (int i = 0; i < n; i++) {
        Arg *p = &l->args.v[i];
        replace(p->use[0], LLVMGetParam(l->fn, (unsigned)place(l, i)));
        if (p->use[1]) replace(p->use[1], LLVMGetParam(l->fn, (unsigned)place(l, i) + 1));
    }
    replace(l->tile, LLVMGetParam(l->fn, (unsigned)place(l, n)));
    return true;
}

void guard_add(Lower *l, Kernel *k, KGuard g) {
    int64_t c;
    if (g.kind == KG_NONNEG && ix_is_const(g.ix, &c) && c >= 0) return;
    for (int i = 0; i < k->guards.n; i++) {
        const KGuard *h = &k->guards.v[i];
        if (h->kind == g.kind && h->index == g.index && h->dim == g.dim && h->ix == g.ix &&
            h->multiple == g.multiple)
            return;
    }
    vec_push(l->arena, &k->guards, g);
}
