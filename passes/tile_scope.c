/* tile_scope.c - the open blocks of a tile program, and in which of them a value belongs. */
#include "passes/tile_int.h"

#include <string.h>

void tb_open_scope(TileBuild *b, TBlock *block, bool guard) {
    TileScope *s = ARENA_NEW(b->arena, TileScope);
    *s = (TileScope){b->top, block, {.arena = b->arena}, b->top ? b->top->depth + 1 : 0, guard};
    b->top = s;
}

void tb_close_scope(TileBuild *b) {
    b->top = b->top->up;
}

int tb_depth_of(const TileBuild *b, const Ix *x) {
    if (x->kind == IX_AXIS) return b->axis_depth.v[x->num];
    if (x->kind == IX_VALUE) return b->value_depth.v[x->num];
    int d = 0;
    for (int i = 0; i < x->n; i++) {
        int k = tb_depth_of(b, x->arg[i]);
        if (k > d) d = k;
    }
    return d;
}

int tb_depth_of_map(const TileBuild *b, const Ix *const *map, int n) {
    int d = 0;
    for (int i = 0; i < n; i++) {
        int k = tb_depth_of(b, map[i]);
        if (k > d) d = k;
    }
    return d;
}

TileScope *tb_scope_at(TileBuild *b, int depth) {
    TileScope *s = b->top;
    while (s->depth > depth && !(s->guard && s->up->depth == depth)) s = s->up;
    return s;
}

void *tb_key_of(TileBuild *b, int node, const Ix *const *map, int n, size_t *len) {
    int64_t *key = ARENA_ARRAY(b->arena, int64_t, n + 1);
    key[0] = node;
    for (int i = 0; i < n; i++) key[i + 1] = map[i]->id;
    *len = sizeof *key * (size_t)(n + 1);
    return key;
}

TInst *tb_emit(TileBuild *b, TileScope *at, TKind kind, DType type, int nargs, int nix, int node) {
    TInst *i = tile_inst(b->t, at->block, kind, type, nargs, nix);
    i->node = node;
    if (i->id >= 0) {
        while (b->value_depth.n <= i->id) {
            vec_push(b->arena, &b->value_depth, 0);
            vec_push(b->arena, &b->value_type, DT_none);
        }
        b->value_depth.v[i->id] = at->depth;
        b->value_type.v[i->id] = type;
    }
    return i;
}

/* A carry's value number: defined by the loop, seen in the block around it. */
int tb_new_value(TileBuild *b, DType type, int depth) {
    int id = b->t->nvalues++;
    while (b->value_depth.n <= id) {
        vec_push(b->arena, &b->value_depth, 0);
        vec_push(b->arena, &b->value_type, DT_none);
    }
    b->value_depth.v[id] = depth;
    b->value_type.v[id] = type;
    return id;
}

bool tb_leaves_loop(const TileScope *from, const TileScope *to) {
    for (; from != to; from = from->up)
        if (!from->guard) return true;
    return false;
}
