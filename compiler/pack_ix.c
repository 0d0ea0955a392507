/* pack_ix.c - size expressions, and the guards of kernels, as the postfix code of
 * runtime/expr.def.
 */
#include "compiler/compiler_int.h"

typedef struct Code {
    Arena *arena;
    VEC(FkmInsn) insn;
    int param, dim;
} Code;

static void push(Code *c, FkmInsn i) {
    vec_push(c->arena, &c->insn, i);
}

static void emit(Code *c, const Ix *x);

/* Folded from the left, so that the stack grows with the nesting alone. */
static void emit_chain(Code *c, const Ix *x, FkmInsn join) {
    emit(c, x->arg[0]);
    for (int i = 1; i < x->n; i++) {
        emit(c, x->arg[i]);
        push(c, join);
    }
}

static void emit(Code *c, const Ix *x) {
    switch (x->kind) {
    case IX_CONST: push(c, FKM_CONST(x->num)); return;
    case IX_SIZE: push(c, FKM_SIZE(x->num)); return;
    case IX_ADD: emit_chain(c, x, FKM_DO(ADD)); return;
    case IX_MUL: emit_chain(c, x, FKM_DO(MUL)); return;
    case IX_DIV: emit_chain(c, x, FKM_DO(DIV)); return;
    case IX_MOD: emit_chain(c, x, FKM_DO(MOD)); return;
    case IX_MIN: emit_chain(c, x, FKM_DO(MIN)); return;
    case IX_MAX: emit_chain(c, x, FKM_DO(MAX)); return;
    case IX_VALUE:
        FK_ASSERT(c->param >= 0 && x->num == 0 && x->n == 0);
        push(c, FKM_EXTENT(c->param, c->dim));
        return;
    case IX_AXIS: break;
    }
    FK_BUG("an index in an expression of sizes (kind %d)", (int)x->kind);
}

FkmExpr pack_ix(Arena *a, const Ix *x, int param, int dim) {
    if (!x) return (FkmExpr){0};
    Code c = {.arena = a, .param = param, .dim = dim};
    emit(&c, x);
    return (FkmExpr){c.insn.v, (uint32_t)c.insn.n};
}

/* ---- guards ------------------------------------------------------------------------------------
 */

static void emit_nonneg(Code *c, const Ix *x) {
    push(c, FKM_CONST(0));
    emit(c, x);
    push(c, FKM_DO(LE));
}

/* The runtime knows alignments up to FKM_ALIGN. */
static void emit_align(Code *c, const KGuard *g) {
    FK_ASSERT(g->multiple >= 1 && g->multiple <= FKM_ALIGN);
    push(c, FKM_CONST(g->multiple));
    push(c, FKM_ALIGNOF(g->index));
    push(c, FKM_DO(LE));
}

/* stride == 1; -2^31 < stride * bits / 8 < 2^31; or stride > 0 and stride * bits % (8 * multiple)
 * == 0. Or the extent is 1, and nothing is ever a stride away. */
static void emit_stride(Code *c, const KGuard *g, int bits) {
    FkmInsn stride = FKM_STRIDE(g->index, g->dim);
    if (g->kind == KG_STRIDE_ONE) {
        push(c, stride);
        push(c, FKM_CONST(1));
        push(c, FKM_DO(EQ));
    } else if (g->kind == KG_STRIDE_IS) {
        push(c, stride);
        emit(c, g->ix);
        if (g->multiple >= 0) {
            push(c, FKM_STRIDE(g->index, (int)g->multiple));
            push(c, FKM_DO(MUL));
        }
        push(c, FKM_DO(EQ));
    } else if (g->kind == KG_STRIDE_NEAR) {
        int64_t end = ((int64_t)1 << 34) / bits;
        push(c, FKM_CONST(-end));
        push(c, stride);
        push(c, FKM_DO(LT));
        push(c, stride);
        push(c, FKM_CONST(end));
        push(c, FKM_DO(LT));
        push(c, FKM_DO(AND));
    } else {
        FK_ASSERT(g->multiple >= 1);
        push(c, stride);
        push(c, FKM_CONST(bits));
        push(c, FKM_DO(MUL));
        push(c, FKM_CONST(8 * g->multiple));
        push(c, FKM_DO(MOD));
        push(c, FKM_DO(NOT));
        push(c, FKM_CONST(0));
        push(c, stride);
        push(c, FKM_DO(LT));
        push(c, FKM_DO(AND));
    }
    push(c, FKM_EXTENT(g->index, g->dim));
    push(c, FKM_CONST(1));
    push(c, FKM_DO(EQ));
    push(c, FKM_DO(OR));
}

FkmExpr pack_guards(Arena *a, const Graph *g, const Kernel *k) {
    Code c = {.arena = a, .param = -1, .dim = -1};
    for (int i = 0; i < k->guards.n; i++) {
        const KGuard *guard = &k->guards.v[i];
        switch (guard->kind) {
        case KG_ALIGN: emit_align(&c, guard); break;
        case KG_STRIDE:
        case KG_STRIDE_ONE:
        case KG_STRIDE_IS:
        case KG_STRIDE_NEAR:
            emit_stride(&c, guard, dtype_bits(g->params.v[guard->index].type));
            break;
        case KG_NONNEG: emit_nonneg(&c, guard->ix); break;
        }
        if (i) push(&c, FKM_DO(AND));
    }
    return (FkmExpr){c.insn.v, (uint32_t)c.insn.n};
}
