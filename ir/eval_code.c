/* eval_code.c - compiles a node into the code that eval_vm.c runs.
 *
 * Values are computed where they are used, under the conditions that guard them; one that was
 * computed is reused in the scope where it stands and in those inside.
 */
#include "ir/eval_code_int.h"

#include <stdlib.h>

enum { MEMO_MAX = 1 << 20 };

static int node_value(Comp *c, const Node *n, const Ix *const *map);

/* ---- values ------------------------------------------------------------------------------- */

static int widened(Comp *c, int v, DType from, DType to) {
    if (dtype_class(to) != DC_REAL || dtype_class(from) == DC_REAL) return v;
    int d = c->nv++;
    ec_emit(c, (EIns){.code = E_WIDEN, .type = (unsigned char)from, .d = d, .a = v});
    return d;
}

/* Operand i of the op n, as the op takes it. */
static int arg_value(Comp *c, const Node *n, int i, const Ix *const *map) {
    DType in[8];
    FK_ASSERT(n->nin <= 8);
    for (int k = 0; k < n->nin; k++) in[k] = ec_node_at(c, n->in[k].node)->type;
    return widened(c, ec_operand(c, &n->in[i], map, n->naxes), in[i], op_operand(n->op, in, i));
}

static DType op_vt(const Comp *c, const Node *n) {
    DType in[8];
    for (int k = 0; k < n->nin; k++) in[k] = ec_node_at(c, n->in[k].node)->type;
    return op_operand(n->op, in, n->nin - 1);
}

/* A cast that eval_lean means. */
static bool leans(const Comp *c, const Node *n, DType vt) {
    return c->e->lean != 0 && n->op == OP_cast && dtype_class(vt) == DC_REAL &&
           dtype_class(n->type) == DC_REAL && dtype_bits(n->type) < 32;
}

static EIns op_ins(const Comp *c, const Node *n, int d) {
    DType type = n->op == OP_cast ? n->type : dtype_value(n->type);
    bool times = n->op == OP_mul && dtype_class(op_vt(c, n)) == DC_REAL;
    return (EIns){.code = times ? E_TIMES : E_OP,
                  .type = (unsigned char)type,
                  .vt = (unsigned char)op_vt(c, n),
                  .d = d,
                  .u.fn = eval_fn(n->op)};
}

static int plain_op(Comp *c, const Node *n, const Ix *const *map) {
    int arg[3] = {0};
    FK_ASSERT(n->nin <= 3);
    for (int i = 0; i < n->nin; i++) arg[i] = arg_value(c, n, i, map);
    if (leans(c, n, op_vt(c, n))) {
        EIns lean = {.code = E_LEAN, .d = c->nv++, .a = arg[0], .w.scale = 1 + c->e->lean};
        ec_emit(c, lean);
        arg[0] = lean.d;
    }
    EIns i = op_ins(c, n, c->nv++);
    i.a = arg[0];
    i.b = arg[n->nin > 1 ? 1 : 0]; /* any register for what is not there */
    i.c = arg[n->nin > 2 ? 2 : 0];
    ec_emit(c, i);
    return i.d;
}

/* seed and four indices: too many for three registers; the row is called with five in a row. */
static int rand_op(Comp *c, const Node *n, const Ix *const *map) {
    int arg[5];
    for (int i = 0; i < 5; i++) arg[i] = arg_value(c, n, i, map);
    int first = c->nv;
    c->nv += 5;
    for (int i = 0; i < 5; i++) ec_move(c, first + i, arg[i]);
    EIns ins = op_ins(c, n, c->nv++);
    ins.code = E_OPN;
    ins.a = first;
    ec_emit(c, ins);
    return ins.d;
}

static int select_op(Comp *c, const Node *n, const Ix *const *map) {
    int cond = arg_value(c, n, 0, map), arm[2];
    arm[0] = ec_emit_zero(c), arm[1] = ec_emit_zero(c);
    for (int k = 0; k < 2; k++) { /* both where the condition is unsure: they may agree */
        int skip = ec_emit(c, (EIns){.code = k ? E_TRUE1 : E_FALSE1, .a = cond});
        int outer = ec_open_scope(c);
        ec_move(c, arm[k], arg_value(c, n, 1 + k, map));
        ec_close_scope(c, outer);
        ec_patch(c, skip);
    }
    EIns i = op_ins(c, n, c->nv++);
    i.a = cond, i.b = arm[0], i.c = arm[1];
    ec_emit(c, i);
    return i.d;
}

static int logic_op(Comp *c, const Node *n, const Ix *const *map) {
    int a = arg_value(c, n, 0, map), d = c->nv++;
    ec_move(c, d, a);
    int skip = ec_emit(c, (EIns){.code = n->op == OP_and ? E_FALSE1 : E_TRUE1, .a = a});
    int outer = ec_open_scope(c);
    EIns i = op_ins(c, n, d);
    i.a = i.c = a;
    i.b = arg_value(c, n, 1, map);
    ec_emit(c, i);
    ec_close_scope(c, outer);
    ec_patch(c, skip);
    return d;
}

/* Leaves when one of the conditions is false; v[d] is unsure if one of them was. */
static void emit_dom(Comp *c, const Dom *dom, const Ix *const *map, int nmap, int d, Ints *out) {
    for (int k = 0; k < dom->n; k++) {
        int cond = ec_operand(c, &dom->cond[k], map, nmap);
        ec_taint(c, d, cond);
        vec_push(c->a, out, ec_emit(c, (EIns){.code = E_FALSE, .a = cond}));
    }
}

/* 0 outside of dom, without computing anything there. */
static int inside_dom(Comp *c, const Node *n, const Ix *const *map, const Dom *dom) {
    int d = ec_emit_zero(c), outer = ec_open_scope(c);
    Ints out = {0};
    emit_dom(c, dom, map, n->naxes, d, &out);
    int r = n->op == OP_within ? ec_operand(c, &n->in[1], map, n->naxes) : plain_op(c, n, map);
    int keep = c->nv++;
    ec_move(c, keep, r);
    ec_taint(c, keep, d);
    ec_move(c, d, keep);
    ec_close_scope(c, outer);
    for (int i = 0; i < out.n; i++) ec_patch(c, out.v[i]);
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
    int a = ec_ix_reg(c, at), d = c->nv++;
    ec_emit(c, (EIns){.code = dtype_class(n->type) == DC_REAL ? E_LOADR : E_LOAD,
                      .type = (unsigned char)n->type,
                      .d = d,
                      .a = a,
                      .u.ptr = t->data});
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
    for (int d = 0; d < n->rank; d++) args[d] = ec_ix_reg(c, map[d]);
    int d = c->nv++;
    ec_emit(c, (EIns){.code = E_CALL, .d = d, .u.call = fn, .w.args = args});
    return d;
}

static int node_value(Comp *c, const Node *n, const Ix *const *map) {
    int d;
    switch (n->kind) {
    case N_INPUT: return load_value(c, n, map);
    case N_CONST:
        d = c->nv++;
        vec_push(c->a, &c->pre[0], ec_constant(c, d, eval_const(n->type, n->num, n->inum)));
        return d;
    case N_INDEX: {
        const Ix *x = eval_ix(c->e, n->ix, map, n->rank);
        int a = ec_ix_reg(c, x);
        d = c->nv++;
        ec_emit(c, (EIns){.code = E_INDEX, .d = d, .a = a});
        ec_taint_by(c, d, x);
        return d;
    }
    case N_OP: return op_value(c, n, map);
    case N_REDUCE: break;
    }
    FK_BUG("a reduction inside of its reader");
}

int ec_value(Comp *c, int node, const Ix *const *map) {
    const Node *n = ec_node_at(c, node);
    const void *key[EVAL_AXES_MAX + 1] = {n};
    size_t size = sizeof *key * (size_t)(n->rank + 1);
    for (int d = 0; d < n->rank; d++) key[d + 1] = map[d];
    int r = ec_lookup(c, &c->values, key, size);
    if (r >= 0) return r;
    r = c->e->own[node] ? call_value(c, n, map) : node_value(c, n, map);
    return ec_learn(c, &c->values, key, size, r, n->kind == N_CONST ? 0 : c->scope);
}

/* ---- functions ---------------------------------------------------------------------------- */

/* Registers and expressions of the axes themselves. */
static const Ix *const *own_axes(Comp *c) {
    const Ix **map = ARENA_ARRAY(c->a, const Ix *, c->n->naxes);
    const Ix **extent = ARENA_ARRAY(c->a, const Ix *, c->n->naxes);
    for (int d = 0; d < c->n->naxes; d++) {
        ec_new_x(c, d < c->n->rank ? 0 : d - c->n->rank + 1, -1);
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
    vec_push(c->a, &c->pre[0], ec_constant(c, acc, eval_identity(n->red, type)));
    Ints out = {0};
    Dom where = {n->where, &n->in[factors]}, dom = eval_dom(c->e, n);
    emit_dom(c, &where, map, n->naxes, acc, &out);
    emit_dom(c, &dom, map, n->naxes, acc, &out);
    for (int k = 0; k < factors; k++) {
        DType from = ec_node_at(c, n->in[k].node)->type;
        int f = widened(c, ec_operand(c, &n->in[k], map, n->naxes), from, type), p = f;
        if (v >= 0) {
            p = c->nv++;
            ec_emit(c, (EIns){.code = real ? E_MULR : E_OP,
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
    ec_emit(c, (EIns){.code = real && sum ? E_JOINR : E_JOIN,
                      .type = (unsigned char)type,
                      .vt = real && !extremum,
                      .d = acc,
                      .a = v,
                      .u.fn = eval_fn(reduce_combine(n->red))});
    for (int i = 0; i < out.n; i++) ec_patch(c, out.v[i]);
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
        r = ec_operand(c, instead, map, n->naxes);
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
