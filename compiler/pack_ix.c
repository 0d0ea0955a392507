/* pack_ix.c - size expressions as the postfix code of runtime/expr.def. */
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
