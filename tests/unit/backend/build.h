/* build.h - tile programs in a few lines of C, for the tests of the backend. */
#ifndef FK_TESTS_BACKEND_BUILD_H
#define FK_TESTS_BACKEND_BUILD_H

#include <string.h>

#include "backend/backend.h"

typedef struct Build {
    Arena arena;
    IxPool ix;
    TProg *t;
    TBlock *at; /* where instructions go */
    Schedule s;
    Kernel k;
    Diags d;
} Build;

static inline void build_init(Build *b, const char *const *sizes, int nsizes) {
    memset(b, 0, sizeof *b);
    ix_pool_init(&b->ix, &b->arena);
    b->t = tile_new(&b->arena, &b->ix, "test");
    b->t->sizes = sizes;
    b->t->nsizes = nsizes;
    b->at = &b->t->body;
    b->d.arena = &b->arena;
    b->s.name = "general";
    b->s.threads = 1;
}

static inline const Ix *build_size(Build *b, int i) {
    return ix_size(&b->ix, i);
}

static inline const Ix *build_axis(Build *b, int i) {
    return ix_axis(&b->ix, i);
}

/* An axis and its place in the schedule. */
static inline int build_add_axis(Build *b, const char *name, const Ix *extent, bool grid, int lanes,
                                 int regs, int vec) {
    TAxis a = {name, extent, grid, 1};
    vec_push(&b->arena, &b->t->axes, a);
    int n = b->t->axes.n - 1;
    if (grid) b->t->ngrid++;
    SAxis s = {.axis = n, .lanes = lanes, .regs = regs, .vec = vec};
    vec_push(&b->arena, &b->s.axes, s);
    b->s.threads *= lanes;
    return n;
}

static inline int build_tensor(Build *b, TMem mem, const char *name, DType type, int rank,
                               const Ix *d0, const Ix *d1) {
    TTensor x = {mem, name, type, rank, ARENA_ARRAY(&b->arena, const Ix *, 2), b->t->tensors.n};
    x.dims[0] = d0;
    x.dims[1] = d1;
    vec_push(&b->arena, &b->t->tensors, x);
    return b->t->tensors.n - 1;
}

static inline int build_load(Build *b, int tensor, const Ix *i0, const Ix *i1, uint32_t checked) {
    const TTensor *x = &b->t->tensors.v[tensor];
    TInst *i = tile_inst(b->t, b->at, T_LOAD, x->type, 0, x->rank);
    i->tensor = tensor;
    i->checked = checked;
    if (x->rank > 0) i->ix[0] = i0;
    if (x->rank > 1) i->ix[1] = i1;
    return i->id;
}

static inline void build_store(Build *b, int tensor, const Ix *i0, const Ix *i1, int value) {
    const TTensor *x = &b->t->tensors.v[tensor];
    TInst *i = tile_inst(b->t, b->at, T_STORE, x->type, 1, x->rank);
    i->tensor = tensor;
    i->args[0] = value;
    if (x->rank > 0) i->ix[0] = i0;
    if (x->rank > 1) i->ix[1] = i1;
}

static inline int build_op(Build *b, Op op, DType type, int n, const int *args) {
    TInst *i = tile_inst(b->t, b->at, T_OP, type, n, 0);
    i->op = op;
    for (int k = 0; k < n; k++) i->args[k] = args[k];
    return i->id;
}

static inline int build_op1(Build *b, Op op, DType type, int a) {
    return build_op(b, op, type, 1, &a);
}

static inline int build_op2(Build *b, Op op, DType type, int a, int c) {
    int args[2] = {a, c};
    return build_op(b, op, type, 2, args);
}

static inline int build_index(Build *b, const Ix *x) {
    TInst *i = tile_inst(b->t, b->at, T_INDEX, DT_i64, 0, 1);
    i->ix[0] = x;
    return i->id;
}

static inline int build_real(Build *b, double v) {
    TInst *i = tile_inst(b->t, b->at, T_CONST, DT_f32, 0, 0);
    i->num = v;
    return i->id;
}

/* A loop with one carried value; its body is current until build_end. */
typedef struct BuildLoop {
    TBlock *outer;
    int carry;
} BuildLoop;

static inline BuildLoop build_loop(Build *b, int axis, Reduce red, DType type) {
    TInst *i = tile_inst(b->t, b->at, T_LOOP, DT_none, 0, 0);
    i->axis = axis;
    i->lo = ix_const(&b->ix, 0);
    i->hi = b->t->axes.v[axis].extent;
    TCarry c = {.id = b->t->nvalues++, .type = type, .red = red, .frame = -1};
    vec_push(&b->arena, &i->carries, c);
    BuildLoop l = {b->at, c.id};
    b->at = &i->body;
    return l;
}

static inline TBlock *build_guard(Build *b, int cond) {
    TInst *i = tile_inst(b->t, b->at, T_GUARD, DT_none, 1, 0);
    i->args[0] = cond;
    TBlock *outer = b->at;
    b->at = &i->body;
    return outer;
}

static inline void build_step(Build *b, int carry, int value) {
    TInst *i = tile_inst(b->t, b->at, T_STEP, DT_none, 2, 0);
    i->args[0] = carry;
    i->args[1] = value;
}

static inline bool build_lower(Build *b, const char *target, int ptx, Str *llvm) {
    BackendOptions o = {.target = target_named(target), .ptx_version = ptx};
    Step st = {.name = "test.0", .tile = b->t};
    return backend_lower(&b->arena, NULL, &st, &b->s, &o, &b->d, &b->k, llvm);
}

static inline void build_free(Build *b) {
    arena_free(&b->arena);
}

#endif
