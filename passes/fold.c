/* fold.c - constants and laws of algebra that keep every bit, NaN, infinities and -0 included.
 *
 * The laws for whoever adds a rule (one line in a table over a small function):
 *   1. The value at every point stays the same bits, and so does what a sum skips: a rule that
 *      puts x in the place of an op that does not pass "0 outside its domain" on asks fold_plain.
 *   2. The type stays: the engine adds a cast where x has another type than its reader.
 *   3. Nothing is computed twice: a rule may drop reads or move them, never double a reduction or
 *      a transcendental.
 *   4. It ends: the node becomes one of its operands, a constant, or an op that is lighter in the
 *      order pow > div > reduce > select > sub > add > other ops > mul > neg > within > cast, or
 *      the same op over fewer or narrower reads, or a sum with one `within` less below it.
 *   5. Constants go through eval_op, the evaluator's own functions, then to f32.
 *
 * What a size is stays open: a proof may use sizes >= 1 only for sizes of the node's own extents
 * (rb_nonneg).
 */
#include "passes/fold_int.h"

/* ---- constants ---- */

bool fold_const(const Graph *g, const Operand *o, Num *out) {
    const Node *n = g->nodes.v[o->node];
    if (n->kind == N_CONST) {
        *out = (Num){{.r = n->num, .i = n->inum}, n->type};
        return true;
    }
    if (n->kind != N_OP || n->op != OP_cast || !fold_const(g, &n->in[0], out)) return false;
    out->v = eval_op(OP_cast, n->type, out->type, &out->v);
    out->type = dtype_value(n->type);
    return true;
}

bool fold_real(const Graph *g, const Operand *o, double *v) {
    Num c;
    if (!fold_const(g, o, &c) || c.type == DT_bool) return false;
    *v = eval_widen(c.type, DT_f32, c.v).r;
    return true;
}

bool fold_bool(const Graph *g, const Operand *o, bool *v) {
    Num c;
    if (!fold_const(g, o, &c) || c.type != DT_bool) return false;
    *v = c.v.i != 0;
    return true;
}

/* ---- what rules end with ---- */

Fate fold_out(Fold *f, Operand by) {
    f->out = by;
    return FOLD_OUT;
}

Fate fold_out_num(Fold *f, DType type, double num, int64_t inum) {
    return fold_out(f, rb_const(f->g, type, num, inum));
}

Fate fold_to(Node *n, Op op, int nin, Operand a, Operand b) {
    n->kind = N_OP;
    n->op = op;
    n->naxes = n->rank;
    n->where = false;
    n->ix = NULL;
    n->nin = nin; /* never more than it had, see law 4 */
    n->in[0] = a;
    if (nin > 1) n->in[1] = b;
    return FOLD_EDIT;
}

bool fold_plain(Fold *f, const Operand *x) {
    return !rb_outside(f->r, x->node);
}

/* ---- the engine ---- */

static Fate try_table(Fold *f, Node *n, const FoldRule *rules) {
    for (const FoldRule *r = rules; r->fn; r++) {
        if (r->kind != (int)n->kind) continue;
        int op = n->kind == N_OP ? (int)n->op : n->kind == N_REDUCE ? (int)n->red : FOLD_ANY;
        if (r->op != FOLD_ANY && r->op != op) continue;
        Fate fate = r->fn(f, n);
        if (fate != FOLD_NOT) return fate;
    }
    return FOLD_NOT;
}

/* All rules until none fires. True: the node is f->out, which has its type. */
static bool fold_node(Fold *f, Node *n, bool *changed) {
    for (int guard = 0; guard < 10000; guard++) {
        Fate fate = try_table(f, n, fold_index_rules);
        if (fate == FOLD_NOT) fate = try_table(f, n, fold_rules);
        if (fate == FOLD_NOT) return false;
        *changed = true;
        if (fate == FOLD_EDIT) continue;
        if (f->g->nodes.v[f->out.node]->type == n->type) return true;
        FK_ASSERT(n->kind != N_OP || n->op != OP_cast);
        if (!n->nin) n->in = ARENA_ARRAY(f->g->arena, Operand, 1);
        fold_to(n, OP_cast, 1, f->out, f->out);
    }
    FK_BUG("fold does not end at %%%d", n->id);
}

Operand fold_new(Fold *f, Node *n) {
    bool changed = false;
    return fold_node(f, n, &changed) ? f->out : rb_read(f->g, n);
}

static bool visit(Rebuild *r, Node *n, void *ctx) {
    (void)ctx;
    Fold f = {.r = r, .g = r->g};
    bool changed = false;
    if (fold_node(&f, n, &changed)) rb_replace(r, n, f.out);
    return changed;
}

/* Again for the copies that a walk leaves at outputs; the walk that finds nothing is cheap. */
bool pass_fold(PassCtx *cx, Graph *g) {
    int walks = 0;
    while (walks < 8 && rebuild(cx, g, visit, NULL)) walks++;
    return walks > 0;
}
