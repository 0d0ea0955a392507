/* eval_index.c - the integers of the graph evaluator's code, and reads by them.
 *
 * All sizes are numbers by now, so an offset is a sum of axes times constants: each integer is
 * computed before the innermost loop that changes it (it has no effects, so computing it in vain
 * is harmless). One that depends on data is computed where it is used, as values are.
 */
#include "ir/eval_code_int.h"

const Node *ec_node_at(const Comp *c, int node) {
    return c->e->g->nodes.v[node];
}

/* ---- emitting ----------------------------------------------------------------------------- */

int ec_new_x(Comp *c, int level, int source) {
    vec_push(c->a, &c->level, level);
    vec_push(c->a, &c->source, source);
    return c->level.n - 1;
}

int ec_emit(Comp *c, EIns i) { /* gives its place, for patch */
    vec_push(c->a, &c->body, i);
    return c->body.n - 1;
}

void ec_patch(Comp *c, int at) {
    c->body.v[at].to = c->body.n;
}

static void emit_x(Comp *c, EIns i) {
    int level = c->level.v[i.d];
    vec_push(c->a, level > c->loops ? &c->body : &c->pre[level], i);
}

int ec_open_scope(Comp *c) {
    int outer = c->scope;
    c->scope = c->open.n;
    vec_push(c->a, &c->open, true);
    return outer;
}

void ec_close_scope(Comp *c, int outer) {
    c->open.v[c->scope] = false;
    c->scope = outer;
}

int ec_lookup(const Comp *c, const Map *m, const void *key, size_t n) {
    const intptr_t *at = map_get(m, key, n);
    if (!at) return -1;
    Known k = c->known.v[*at - 1];
    return c->open.v[k.scope] ? k.reg : -1;
}

int ec_learn(Comp *c, Map *m, const void *key, size_t n, int reg, int scope) {
    vec_push(c->a, &c->known, ((Known){reg, scope}));
    *map_put(m, key, n) = c->known.n;
    return reg;
}

EIns ec_constant(Comp *c, int d, EvalVal v) {
    EvalVal *own = ARENA_NEW(&c->e->arena, EvalVal);
    *own = v;
    return (EIns){.code = E_CONST, .d = d, .w.val = own};
}

int ec_emit_zero(Comp *c) {
    int d = c->nv++;
    ec_emit(c, ec_constant(c, d, (EvalVal){.exact = true}));
    return d;
}

void ec_move(Comp *c, int d, int a) {
    ec_emit(c, (EIns){.code = E_MOVE, .d = d, .a = a});
}

void ec_taint(Comp *c, int d, int a) {
    if (d != a) ec_emit(c, (EIns){.code = E_TAINT, .d = d, .a = a});
}

/* ---- integers ----------------------------------------------------------------------------- */

void ec_taint_by(Comp *c, int d, const Ix *x) {
    if (!x->has_value) return;
    if (x->kind == IX_VALUE)
        ec_taint(c, d, c->source.v[ec_ix_reg(c, x)]);
    else
        for (int i = 0; i < x->n; i++) ec_taint_by(c, d, x->arg[i]);
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
    int rank = ec_node_at(c, node)->rank, jumps = 0, at[EVAL_AXES_MAX], reg[EVAL_AXES_MAX];
    bool gather = false;
    for (int d = 0; d < rank; d++) {
        gather |= map[d]->has_value;
        reg[d] = proved_inside(c, map[d], extent[d]) ? -1 : ec_ix_reg(c, map[d]);
    }
    for (int d = 0; d < rank; d++) {
        EIns i = {.code = E_INSIDE, .a = reg[d], .b = node, .u.imm = extent[d]};
        if (reg[d] >= 0 && !(checked >> d & 1)) ec_emit(c, i);
    }
    int v = -1;
    for (int d = 0; d < rank; d++) {
        if (reg[d] < 0 || !(checked >> d & 1)) continue;
        if (v < 0) v = ec_emit_zero(c);
        at[jumps++] = ec_emit(c, (EIns){.code = E_OUT, .a = reg[d], .u.imm = extent[d]});
    }
    if (v < 0) {
        v = ec_value(c, node, map);
    } else {
        int outer = ec_open_scope(c);
        ec_move(c, v, ec_value(c, node, map));
        ec_close_scope(c, outer);
        for (int i = 0; i < jumps; i++) ec_patch(c, at[i]);
    }
    for (int d = 0; d < rank && gather; d++) ec_taint_by(c, v, map[d]);
    return v;
}

int ec_operand(Comp *c, const Operand *o, const Ix *const *map, int nmap) {
    int rank = ec_node_at(c, o->node)->rank;
    const Ix **at = ARENA_ARRAY(c->a, const Ix *, rank);
    for (int d = 0; d < rank; d++) at[d] = eval_ix(c->e, o->map[d], map, nmap);
    return read_at(c, o->node, at, o->checked);
}

static int max_int(int a, int b) {
    return a > b ? a : b;
}

static int binary_x(Comp *c, ECode code, int a, int b) {
    int d = ec_new_x(c, max_int(c->level.v[a], c->level.v[b]), -1);
    emit_x(c, (EIns){.code = (unsigned char)code, .d = d, .a = a, .b = b});
    return d;
}

/* a + b * k, or b * k for a < 0 */
static int madd_x(Comp *c, int a, int b, int64_t k) {
    if (a < 0 && k == 1) return b;
    int level = a < 0 ? c->level.v[b] : max_int(c->level.v[a], c->level.v[b]);
    int d = ec_new_x(c, level, -1);
    EIns i = {.code = a < 0 ? E_SCALE : E_MADD, .d = d, .a = a < 0 ? b : a, .b = b, .u.imm = k};
    emit_x(c, i);
    return d;
}

static int atom_x(Comp *c, const IxTerm *t) {
    if (t->atom->kind != IX_MUL) return ec_ix_reg(c, t->atom);
    int r = ec_ix_reg(c, t->atom->arg[0]);
    for (int i = 1; i < t->atom->n; i++) r = binary_x(c, E_MUL, r, ec_ix_reg(c, t->atom->arg[i]));
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
            r = ec_ix_reg(c, ix_const(&c->e->ix, t[i].coef));
    }
    for (int level = 0; level <= c->loops + 1; level++)
        for (int i = 0; i < n; i++)
            if (t[i].atom && c->level.v[reg[i]] == level) r = madd_x(c, r, reg[i], t[i].coef);
    return r;
}

static int gather_x(Comp *c, const Ix *x) {
    int v = read_at(c, (int)x->num, x->arg, ~(uint32_t)0);
    int d = ec_new_x(c, c->loops + 1, v);
    emit_x(c, (EIns){.code = E_INT, .d = d, .a = v});
    return d;
}

static int make_x(Comp *c, const Ix *x) {
    int d;
    switch (x->kind) {
    case IX_CONST:
        d = ec_new_x(c, 0, -1);
        emit_x(c, (EIns){.code = E_SET, .d = d, .u.imm = x->num});
        return d;
    case IX_AXIS: return (int)x->num; /* the first registers */
    case IX_VALUE: return gather_x(c, x);
    case IX_ADD:
    case IX_MUL: return sum_x(c, x);
    case IX_DIV: return binary_x(c, E_DIV, ec_ix_reg(c, x->arg[0]), ec_ix_reg(c, x->arg[1]));
    case IX_MOD: return binary_x(c, E_MOD, ec_ix_reg(c, x->arg[0]), ec_ix_reg(c, x->arg[1]));
    case IX_MIN: return binary_x(c, E_MIN, ec_ix_reg(c, x->arg[0]), ec_ix_reg(c, x->arg[1]));
    case IX_MAX: return binary_x(c, E_MAX, ec_ix_reg(c, x->arg[0]), ec_ix_reg(c, x->arg[1]));
    case IX_SIZE: break;
    }
    FK_BUG("size %lld has no number", (long long)x->num);
}

int ec_ix_reg(Comp *c, const Ix *x) {
    int r = ec_lookup(c, &c->ints, &x, sizeof x);
    if (r >= 0) return r;
    r = make_x(c, x);
    return ec_learn(c, &c->ints, &x, sizeof x, r, x->has_value ? c->scope : 0);
}
