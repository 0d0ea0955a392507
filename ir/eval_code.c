/* eval_code.c - compiles a node into the code that eval_vm.c runs.
 *
 * All sizes are numbers by now, so an offset is a sum of axes times constants: each integer is
 * computed before the innermost loop that changes it (it has no effects, so computing it in vain
 * is harmless). Values are computed where they are used, under the conditions that guard them; one
 * that was computed is reused in the scope where it stands and in those inside.
 */
#include "ir/eval_int.h"

#include <stdlib.h>

enum { MEMO_MAX = 1 << 20 };

typedef VEC(EIns) Code;
typedef VEC(int) Ints;

typedef struct Known {
    int reg, scope;
} Known;

typedef struct Comp {
    Eval *e;
    Arena *a; /* scratch */
    const Node *n;
    Code pre[EVAL_AXES_MAX + 1]; /* before loop 0, and at the head of loop k - 1's body */
    Code body;                   /* of the innermost loop, after its integers */
    int loops;
    int nv;
    Ints level;  /* per x: the loop that changes it; loops + 1: computed in the body */
    Ints source; /* per x: the value it came from; -1 */
    VEC(Known) known;
    Map ints, values; /* to known, + 1 */
    VEC(bool) open;   /* per scope */
    int scope;
    const Ix *const *extents; /* of n's axes, constants */
    Ints *todo;               /* functions called, not yet compiled */
} Comp;

static int value(Comp *c, int node, const Ix *const *map);
static int node_value(Comp *c, const Node *n, const Ix *const *map);

static const Node *node_at(const Comp *c, int node) {
    return c->e->g->nodes.v[node];
}

/* ---- emitting ----------------------------------------------------------------------------- */

static int new_x(Comp *c, int level, int source) {
    vec_push(c->a, &c->level, level);
    vec_push(c->a, &c->source, source);
    return c->level.n - 1;
}

static int emit(Comp *c, EIns i) { /* gives its place, for patch */
    vec_push(c->a, &c->body, i);
    return c->body.n - 1;
}

static void patch(Comp *c, int at) {
    c->body.v[at].to = c->body.n;
}

static void emit_x(Comp *c, EIns i) {
    int level = c->level.v[i.d];
    vec_push(c->a, level > c->loops ? &c->body : &c->pre[level], i);
}

static int open_scope(Comp *c) {
    int outer = c->scope;
    c->scope = c->open.n;
    vec_push(c->a, &c->open, true);
    return outer;
}

static void close_scope(Comp *c, int outer) {
    c->open.v[c->scope] = false;
    c->scope = outer;
}

static int lookup(const Comp *c, const Map *m, const void *key, size_t n) {
    const intptr_t *at = map_get(m, key, n);
    if (!at) return -1;
    Known k = c->known.v[*at - 1];
    return c->open.v[k.scope] ? k.reg : -1;
}

static int learn(Comp *c, Map *m, const void *key, size_t n, int reg, int scope) {
    vec_push(c->a, &c->known, ((Known){reg, scope}));
    *map_put(m, key, n) = c->known.n;
    return reg;
}

static EIns constant(Comp *c, int d, EvalVal v) {
    EvalVal *own = ARENA_NEW(&c->e->arena, EvalVal);
    *own = v;
    return (EIns){.code = E_CONST, .d = d, .w.val = own};
}

static int emit_zero(Comp *c) {
    int d = c->nv++;
    emit(c, constant(c, d, (EvalVal){.exact = true}));
    return d;
}

static void move(Comp *c, int d, int a) {
    emit(c, (EIns){.code = E_MOVE, .d = d, .a = a});
}

static void taint(Comp *c, int d, int a) {
    if (d != a) emit(c, (EIns){.code = E_TAINT, .d = d, .a = a});
}

/* ---- integers ----------------------------------------------------------------------------- */

static int ix_reg(Comp *c, const Ix *x);

/* Marks v[d] unsure where a gather inside x is. */
static void taint_by(Comp *c, int d, const Ix *x) {
    if (!x->has_value) return;
    if (x->kind == IX_VALUE)
        taint(c, d, c->source.v[ix_reg(c, x)]);
    else
        for (int i = 0; i < x->n; i++) taint_by(c, d, x->arg[i]);
}

static bool proved_inside(Comp *c, const Ix *x, int64_t extent) {
    const Ix *lo = NULL, *hi = NULL;
    int64_t a, b;
    if (x->has_value) return false;
    ix_range(&c->e->ix, x, c->extents, c->n->naxes, &lo, &hi);
    return lo && hi && ix_is_const(lo, &a) && ix_is_const(hi, &b) && a >= 0 && b < extent;
}

/* Node `node` at map, 0 where a position of `checked` is outside. */
static int read_at(Comp *c, int node, const Ix *const *map, uint32_t checked) {
    const int64_t *extent = c->e->extent[node];
    int rank = node_at(c, node)->rank, jumps = 0, at[EVAL_AXES_MAX], reg[EVAL_AXES_MAX];
    bool gather = false;
    for (int d = 0; d < rank; d++) {
        gather |= map[d]->has_value;
        reg[d] = proved_inside(c, map[d], extent[d]) ? -1 : ix_reg(c, map[d]);
    }
    for (int d = 0; d < rank; d++) {
        EIns i = {.code = E_INSIDE, .a = reg[d], .b = node, .u.imm = extent[d]};
        if (reg[d] >= 0 && !(checked >> d & 1)) emit(c, i);
    }
    int v = -1;
    for (int d = 0; d < rank; d++) {
        if (reg[d] < 0 || !(checked >> d & 1)) continue;
        if (v < 0) v = emit_zero(c);
        at[jumps++] = emit(c, (EIns){.code = E_OUT, .a = reg[d], .u.imm = extent[d]});
    }
    if (v < 0) {
        v = value(c, node, map);
    } else {
        int outer = open_scope(c);
        move(c, v, value(c, node, map));
        close_scope(c, outer);
        for (int i = 0; i < jumps; i++) patch(c, at[i]);
    }
    for (int d = 0; d < rank && gather; d++) taint_by(c, v, map[d]);
    return v;
}

static int operand(Comp *c, const Operand *o, const Ix *const *map, int nmap) {
    int rank = node_at(c, o->node)->rank;
    const Ix **at = ARENA_ARRAY(c->a, const Ix *, rank);
    for (int d = 0; d < rank; d++) at[d] = eval_ix(c->e, o->map[d], map, nmap);
    return read_at(c, o->node, at, o->checked);
}

static int max_int(int a, int b) {
    return a > b ? a : b;
}

static int binary_x(Comp *c, ECode code, int a, int b) {
    int d = new_x(c, max_int(c->level.v[a], c->level.v[b]), -1);
    emit_x(c, (EIns){.code = (unsigned char)code, .d = d, .a = a, .b = b});
    return d;
}

/* a + b * k, or b * k for a < 0 */
static int madd_x(Comp *c, int a, int b, int64_t k) {
    if (a < 0 && k == 1) return b;
    int level = a < 0 ? c->level.v[b] : max_int(c->level.v[a], c->level.v[b]);
    int d = new_x(c, level, -1);
    EIns i = {.code = a < 0 ? E_SCALE : E_MADD, .d = d, .a = a < 0 ? b : a, .b = b, .u.imm = k};
    emit_x(c, i);
    return d;
}

static int atom_x(Comp *c, const IxTerm *t) {
    if (t->atom->kind != IX_MUL) return ix_reg(c, t->atom);
    int r = ix_reg(c, t->atom->arg[0]);
    for (int i = 1; i < t->atom->n; i++) r = binary_x(c, E_MUL, r, ix_reg(c, t->atom->arg[i]));
    return r;
}

/* Terms that change least often are added first, so that their sum leaves the loop. */
static int sum_x(Comp *c, const Ix *x) {
    IxTerm *t;
    int n = ix_terms(&c->e->ix, x, &t), r = -1;
    int *reg = ARENA_ARRAY(c->a, int, n);
    for (int i = 0; i < n; i++) {
        if (t[i].atom)
            reg[i] = atom_x(c, &t[i]);
        else
            r = ix_reg(c, ix_const(&c->e->ix, t[i].coef));
    }
    for (int level = 0; level <= c->loops + 1; level++)
        for (int i = 0; i < n; i++)
            if (t[i].atom && c->level.v[reg[i]] == level) r = madd_x(c, r, reg[i], t[i].coef);
    return r;
}

static int gather_x(Comp *c, const Ix *x) {
    int v = read_at(c, (int)x->num, x->arg, ~(uint32_t)0);
    int d = new_x(c, c->loops + 1, v);
    emit_x(c, (EIns){.code = E_INT, .d = d, .a = v});
    return d;
}

static int make_x(Comp *c, const Ix *x) {
    int d;
    switch (x->kind) {
    case IX_CONST:
        d = new_x(c, 0, -1);
        emit_x(c, (EIns){.code = E_SET, .d = d, .u.imm = x->num});
        return d;
    case IX_AXIS: return (int)x->num; /* the first registers */
    case IX_VALUE: return gather_x(c, x);
    case IX_ADD:
    case IX_MUL: return sum_x(c, x);
    case IX_DIV: return binary_x(c, E_DIV, ix_reg(c, x->arg[0]), ix_reg(c, x->arg[1]));
    case IX_MOD: return binary_x(c, E_MOD, ix_reg(c, x->arg[0]), ix_reg(c, x->arg[1]));
    case IX_MIN: return binary_x(c, E_MIN, ix_reg(c, x->arg[0]), ix_reg(c, x->arg[1]));
    case IX_MAX: return binary_x(c, E_MAX, ix_reg(c, x->arg[0]), ix_reg(c, x->arg[1]));
    case IX_SIZE: break;
    }
    FK_BUG("size %lld has no number", (long long)x->num);
}

static int ix_reg(Comp *c, const Ix *x) {
    int r = lookup(c, &c->ints, &x, sizeof x);
    if (r >= 0) return r;
    r = make_x(c, x);
    return learn(c, &c->ints, &x, sizeof x, r, x->has_value ? c->scope : 0);
}

/* ---- values ------------------------------------------------------------------------------- */

static int widened(Comp *c, int v, DType from, DType to) {
    if (dtype_class(to) != DC_REAL || dtype_class(from) == DC_REAL) return v;
    int d = c->nv++;
    emit(c, (EIns){.code = E_WIDEN, .type = (unsigned char)from, .d = d, .a = v});
    return d;
}

/* Operand i of the op n, as the op takes it. */
static int arg_value(Comp *c, const Node *n, int i, const Ix *const *map) {
    DType in[8];
    FK_ASSERT(n->nin <= 8);
    for (int k = 0; k < n->nin; k++) in[k] = node_at(c, n->in[k].node)->type;
    return widened(c, operand(c, &n->in[i], map, n->naxes), in[i], op_operand(n->op, in, i));
}

static DType op_vt(const Comp *c, const Node *n) {
    DType in[8];
    for (int k = 0; k < n->nin; k++) in[k] = node_at(c, n->in[k].node)->type;
    return op_operand(n->op, in, n->nin - 1);
}

static EIns op_ins(const Comp *c, const Node *n, int d) {
    DType type = n->op == OP_cast ? n->type : dtype_value(n->type);
    return (EIns){.code = E_OP,
                  .type = (unsigned char)type,
                  .vt = (unsigned char)op_vt(c, n),
                  .d = d,
                  .u.fn = eval_fn(n->op)};
}

static int plain_op(Comp *c, const Node *n, const Ix *const *map) {
    int arg[3] = {0};
    FK_ASSERT(n->nin <= 3);
    for (int i = 0; i < n->nin; i++) arg[i] = arg_value(c, n, i, map);
    EIns i = op_ins(c, n, c->nv++);
    i.a = arg[0];
    i.b = arg[n->nin > 1 ? 1 : 0]; /* any register for what is not there */
    i.c = arg[n->nin > 2 ? 2 : 0];
    emit(c, i);
    return i.d;
}

/* seed and four indices: too many for three registers; the row is called with five in a row. */
static int rand_op(Comp *c, const Node *n, const Ix *const *map) {
    int arg[5];
    for (int i = 0; i < 5; i++) arg[i] = arg_value(c, n, i, map);
    int first = c->nv;
    c->nv += 5;
    for (int i = 0; i < 5; i++) move(c, first + i, arg[i]);
    EIns ins = op_ins(c, n, c->nv++);
    ins.code = E_OPN;
    ins.a = first;
    emit(c, ins);
    return ins.d;
}

static int select_op(Comp *c, const Node *n, const Ix *const *map) {
    int cond = arg_value(c, n, 0, map), arm[2];
    arm[0] = emit_zero(c), arm[1] = emit_zero(c);
    for (int k = 0; k < 2; k++) { /* both where the condition is unsure: they may agree */
        int skip = emit(c, (EIns){.code = k ? E_TRUE1 : E_FALSE1, .a = cond});
        int outer = open_scope(c);
        move(c, arm[k], arg_value(c, n, 1 + k, map));
        close_scope(c, outer);
        patch(c, skip);
    }
    EIns i = op_ins(c, n, c->nv++);
    i.a = cond, i.b = arm[0], i.c = arm[1];
    emit(c, i);
    return i.d;
}

static int logic_op(Comp *c, const Node *n, const Ix *const *map) {
    int a = arg_value(c, n, 0, map), d = c->nv++;
    move(c, d, a);
    int skip = emit(c, (EIns){.code = n->op == OP_and ? E_FALSE1 : E_TRUE1, .a = a});
    int outer = open_scope(c);
    EIns i = op_ins(c, n, d);
    i.a = i.c = a;
    i.b = arg_value(c, n, 1, map);
    emit(c, i);
    close_scope(c, outer);
    patch(c, skip);
    return d;
}

/* Leaves when one of the conditions is false; v[d] is unsure if one of them was. */
static void emit_dom(Comp *c, const Dom *dom, const Ix *const *map, int nmap, int d, Ints *out) {
    for (int k = 0; k < dom->n; k++) {
        int cond = operand(c, &dom->cond[k], map, nmap);
        taint(c, d, cond);
        vec_push(c->a, out, emit(c, (EIns){.code = E_FALSE, .a = cond}));
    }
}

/* 0 outside of dom, without computing anything there. */
static int inside_dom(Comp *c, const Node *n, const Ix *const *map, const Dom *dom) {
    int d = emit_zero(c), outer = open_scope(c);
    Ints out = {0};
    emit_dom(c, dom, map, n->naxes, d, &out);
    int r = n->op == OP_within ? operand(c, &n->in[1], map, n->naxes) : plain_op(c, n, map);
    int keep = c->nv++;
    move(c, keep, r);
    taint(c, keep, d);
    move(c, d, keep);
    close_scope(c, outer);
    for (int i = 0; i < out.n; i++) patch(c, out.v[i]);
    return d;
}

static int op_value(Comp *c, const Node *n, const Ix *const *map) {
    Dom within = {1, n->in}, *dom = &c->e->dom[n->id];
    switch (n->op) {
    case OP_within: return inside_dom(c, n, map, &within);
    case OP_select: return select_op(c, n, map);
    case OP_and:
    case OP_or: return logic_op(c, n, map);
    case OP_rand: return rand_op(c, n, map);
    case OP_mul: /* 0 * NaN and 0 / 0 stay 0 there */
    case OP_div:
        if (dom->n) return inside_dom(c, n, map, dom);
        return plain_op(c, n, map);
    default: return plain_op(c, n, map);
    }
}

static int load_value(Comp *c, const Node *n, const Ix *const *map) {
    const EvalTensor *t = &c->e->tensors[n->param];
    const Ix *at = ix_const(&c->e->ix, 0);
    for (int d = 0; d < n->rank; d++) {
        const Ix *step = ix_const(&c->e->ix, t->stride[d]);
        at = ix_add(&c->e->ix, at, ix_mul(&c->e->ix, map[d], step));
    }
    int a = ix_reg(c, at), d = c->nv++;
    emit(c,
         (EIns){.code = E_LOAD, .type = (unsigned char)n->type, .d = d, .a = a, .u.ptr = t->data});
    return d;
}

static Fn *function(Eval *e, int node) {
    if (e->fn[node]) return e->fn[node];
    Fn *fn = ARENA_NEW(&e->arena, Fn);
    fn->node = node;
    return e->fn[node] = fn;
}

static int call_value(Comp *c, const Node *n, const Ix *const *map) {
    bool is_new = !c->e->fn[n->id];
    Fn *fn = function(c->e, n->id);
    if (is_new) vec_push(&c->e->arena, c->todo, n->id);
    int *args = ARENA_ARRAY(&c->e->arena, int, n->rank);
    for (int d = 0; d < n->rank; d++) args[d] = ix_reg(c, map[d]);
    int d = c->nv++;
    emit(c, (EIns){.code = E_CALL, .d = d, .u.call = fn, .w.args = args});
    return d;
}

static int node_value(Comp *c, const Node *n, const Ix *const *map) {
    int d;
    switch (n->kind) {
    case N_INPUT: return load_value(c, n, map);
    case N_CONST:
        d = c->nv++;
        vec_push(c->a, &c->pre[0], constant(c, d, eval_const(n->type, n->num, n->inum)));
        return d;
    case N_INDEX: {
        const Ix *x = eval_ix(c->e, n->ix, map, n->rank);
        int a = ix_reg(c, x);
        d = c->nv++;
        emit(c, (EIns){.code = E_INDEX, .d = d, .a = a});
        taint_by(c, d, x);
        return d;
    }
    case N_OP: return op_value(c, n, map);
    case N_REDUCE: break;
    }
    FK_BUG("a reduction inside of its reader");
}

static int value(Comp *c, int node, const Ix *const *map) {
    const Node *n = node_at(c, node);
    const void *key[EVAL_AXES_MAX + 1] = {n};
    size_t size = sizeof *key * (size_t)(n->rank + 1);
    for (int d = 0; d < n->rank; d++) key[d + 1] = map[d];
    int r = lookup(c, &c->values, key, size);
    if (r >= 0) return r;
    r = c->e->own[node] ? call_value(c, n, map) : node_value(c, n, map);
    return learn(c, &c->values, key, size, r, n->kind == N_CONST ? 0 : c->scope);
}

/* ---- functions ---------------------------------------------------------------------------- */

/* Registers and expressions of the axes themselves. */
static const Ix *const *own_axes(Comp *c) {
    const Ix **map = ARENA_ARRAY(c->a, const Ix *, c->n->naxes);
    const Ix **extent = ARENA_ARRAY(c->a, const Ix *, c->n->naxes);
    for (int d = 0; d < c->n->naxes; d++) {
        new_x(c, d < c->n->rank ? 0 : d - c->n->rank + 1, -1);
        map[d] = ix_axis(&c->e->ix, d);
        extent[d] = ix_const(&c->e->ix, c->e->extent[c->n->id][d]);
    }
    c->extents = extent;
    return map;
}

static int reduction(Comp *c, const Ix *const *map) {
    const Node *n = c->n;
    DType type = dtype_value(n->type);
    bool real = dtype_class(type) == DC_REAL;
    bool sum = n->red == RED_sum || n->red == RED_contract, extremum;
    extremum = n->red == RED_max || n->red == RED_min;
    int acc = c->nv++, v = -1, factors = n->nin - n->where;
    vec_push(c->a, &c->pre[0], constant(c, acc, eval_identity(n->red, type)));
    Ints out = {0};
    Dom where = {n->where, &n->in[factors]}, dom = eval_dom(c->e, n);
    emit_dom(c, &where, map, n->naxes, acc, &out);
    emit_dom(c, &dom, map, n->naxes, acc, &out);
    for (int k = 0; k < factors; k++) {
        DType from = node_at(c, n->in[k].node)->type;
        int f = widened(c, operand(c, &n->in[k], map, n->naxes), from, type), p = f;
        if (v >= 0) {
            p = c->nv++;
            emit(c, (EIns){.code = real ? E_MULR : E_OP,
                           .type = (unsigned char)type,
                           .vt = (unsigned char)type,
                           .d = p,
                           .a = v,
                           .b = f,
                           .c = f,
                           .u.fn = eval_fn(OP_mul)});
        }
        v = p;
    }
    emit(c, (EIns){.code = real && sum ? E_JOINR : E_JOIN,
                   .type = (unsigned char)type,
                   .vt = real && !extremum,
                   .d = acc,
                   .a = v,
                   .u.fn = eval_fn(reduce_combine(n->red))});
    for (int i = 0; i < out.n; i++) patch(c, out.v[i]);
    return acc;
}

static bool jumps(const EIns *i) {
    return i->code >= E_FALSE && i->code <= E_OUT;
}

/* pre[0] loop { pre[1] loop { ... pre[loops] body } } ret */
static void assemble(Comp *c, Fn *fn, int result) {
    Code all = {0};
    Arena *a = &c->e->arena;
    int head[EVAL_AXES_MAX];
    const int64_t *extent = c->e->extent[c->n->id];
    for (int k = 0; k <= c->loops; k++) {
        for (int i = 0; i < c->pre[k].n; i++) vec_push(a, &all, c->pre[k].v[i]);
        if (k == c->loops) break;
        int axis = c->n->rank + k;
        head[k] = all.n;
        vec_push(a, &all, ((EIns){.code = E_LOOP, .d = axis, .u.imm = extent[axis]}));
    }
    int base = all.n;
    for (int i = 0; i < c->body.n; i++) {
        EIns ins = c->body.v[i];
        if (jumps(&ins)) ins.to += base;
        vec_push(a, &all, ins);
    }
    for (int k = c->loops - 1; k >= 0; k--) {
        EIns next = {.code = E_NEXT, .d = c->n->rank + k, .u.imm = extent[c->n->rank + k]};
        next.to = head[k] + 1;
        vec_push(a, &all, next);
        all.v[head[k]].to = all.n;
    }
    vec_push(a, &all, ((EIns){.code = E_RET, .a = result}));
    fn->code = all.v;
    fn->nx = c->level.n;
    fn->nv = c->nv;
}

static void compile(Eval *e, Fn *fn, const Node *n, const Operand *instead, Ints *todo) {
    Arena scratch = {0};
    Comp *c = ARENA_NEW(&scratch, Comp);
    *c = (Comp){.e = e, .a = &scratch, .n = n, .loops = n->naxes - n->rank, .todo = todo};
    c->ints.arena = c->values.arena = &scratch;
    if (n->naxes > EVAL_AXES_MAX) FK_BUG("node %%%d has %d axes", n->id, n->naxes);
    vec_push(c->a, &c->open, true);
    const Ix *const *map = own_axes(c);
    int r;
    if (instead)
        r = operand(c, instead, map, n->naxes);
    else
        r = n->kind == N_REDUCE ? reduction(c, map) : node_value(c, n, map);
    fn->rank = n->rank;
    fn->real = dtype_class(n->type) == DC_REAL;
    assemble(c, fn, r);
    arena_free(&scratch);
}

/* Up to MEMO_MAX slots a node, a power of two, while the evaluator has any left. */
static void give_memo(Eval *e, Fn *fn) {
    int64_t *pitch = ARENA_ARRAY(&e->arena, int64_t, fn->rank), points = 1, slots = 1;
    for (int d = fn->rank - 1; d >= 0; d--) {
        pitch[d] = points;
        if (__builtin_mul_overflow(points, e->extent[fn->node][d], &points)) return;
    }
    while (slots < points && slots < MEMO_MAX) slots *= 2;
    while (slots > e->memo_left) slots /= 2;
    if (!slots) return;
    fn->memo = calloc((size_t)slots, sizeof *fn->memo);
    if (!fn->memo) return;
    e->memo_left -= slots;
    fn->mask = (uint64_t)slots - 1;
    fn->pitch = pitch;
}

static void compile_rest(Eval *e, Ints *todo) {
    for (int i = 0; i < todo->n; i++) {
        Fn *fn = e->fn[todo->v[i]];
        compile(e, fn, e->g->nodes.v[fn->node], NULL, todo);
        if (e->memo[fn->node]) give_memo(e, fn);
    }
    for (int i = 0; i < todo->n; i++)
        atomic_store_explicit(&e->fn[todo->v[i]]->ready, true, memory_order_release);
}

Fn *eval_compile(Eval *e, int node) {
    Ints todo = {0};
    if (e->fn[node]) return e->fn[node];
    Fn *fn = function(e, node);
    vec_push(&e->arena, &todo, node);
    compile_rest(e, &todo);
    return fn;
}

Fn *eval_compile_operand(Eval *e, int node) {
    Ints todo = {0};
    const Node *n = e->g->nodes.v[node];
    Fn *fn = ARENA_NEW(&e->arena, Fn);
    fn->node = node;
    compile(e, fn, n, &n->in[0], &todo);
    compile_rest(e, &todo);
    atomic_store_explicit(&fn->ready, true, memory_order_release);
    return fn;
}
