/* tile.c - building and walking tile programs. */
#include "ir/tile.h"

TProg *tile_new(Arena *a, IxPool *ix, const char *name) {
    TProg *t = ARENA_NEW(a, TProg);
    t->arena = a;
    t->ix = ix;
    t->name = name;
    return t;
}

static bool defines(TKind kind) {
    return kind == T_CONST || kind == T_INDEX || kind == T_LOAD || kind == T_OP;
}

TInst *tile_inst(TProg *t, TBlock *b, TKind kind, DType type, int nargs, int nix) {
    TInst *i = ARENA_NEW(t->arena, TInst);
    i->kind = kind;
    i->type = type;
    i->id = defines(kind) ? t->nvalues++ : -1;
    i->args = ARENA_ARRAY(t->arena, int, nargs);
    i->nargs = nargs;
    i->ix = ARENA_ARRAY(t->arena, const Ix *, nix);
    i->nix = nix;
    i->tensor = -1;
    i->axis = -1;
    i->node = -1;
    vec_push(t->arena, &b->inst, i);
    return i;
}

static void walk(const TBlock *b, void (*visit)(void *ctx, TInst *i, int depth), void *ctx,
                 int depth) {
    for (int k = 0; k < b->inst.n; k++) {
        visit(ctx, b->inst.v[k], depth);
        walk(&b->inst.v[k]->body, visit, ctx, depth + 1);
    }
}

void tile_walk(const TBlock *b, void (*visit)(void *ctx, TInst *i, int depth), void *ctx) {
    walk(b, visit, ctx, 0);
}
