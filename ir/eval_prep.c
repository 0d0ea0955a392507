/* eval_prep.c - what the graph evaluator knows before it compiles anything: extents as numbers,
 * the domains outside of which a node is 0 (LANGUAGE.md rule 4), and which nodes are functions of
 * their own.
 *
 * A node is compiled into its readers unless that could blow up: a reduction never is; nor a node
 * that several readers would repeat at some cost; nor one whose code got long or deep (so compiling
 * needs little stack, however long a chain is). Reductions and repeated nodes are memoised.
 */
#include "ir/eval_int.h"

#include <string.h>

enum {
    COST_REPEAT = 6, /* repeated by every reader rather than looked up */
    SIZE_MAX_INLINE = 400,
    DEPTH_MAX_INLINE = 150,
    DOM_MAX = 64 /* conditions a node hands on; those beyond it only lose 0 * NaN = 0 */
};

const Ix *eval_ix(Eval *e, const Ix *x, const Ix *const *axes, int nax) {
    IxSubst s = {.axes = axes, .nax = nax, .sizes = e->size_ix, .nsz = e->g->sizes.n};
    return ix_subst(&e->ix, x, &s);
}

static void find_extents(Eval *e) {
    const Graph *g = e->g;
    e->extent = ARENA_ARRAY(&e->arena, int64_t *, g->nodes.n);
    IxEnv env = {.size = e->sizes};
    for (int k = 0; k < g->nodes.n; k++) {
        const Node *n = g->nodes.v[k];
        e->extent[k] = ARENA_ARRAY(&e->arena, int64_t, n->naxes);
        for (int a = 0; a < n->naxes; a++) {
            bool ok = true;
            int64_t x = ix_eval(n->axes[a].extent, &env, &ok);
            e->extent[k][a] = ok && x > 0 ? x : 0;
        }
    }
}

/* ---- domains ------------------------------------------------------------------------------ */

static bool is_zero(const Graph *g, const Operand *o) {
    const Node *n = g->nodes.v[o->node];
    if (n->kind != N_CONST) return false;
    return dtype_class(n->type) == DC_REAL ? n->num == 0 : n->inum == 0;
}

static bool is_identity(const Node *n, const Node *of, const Operand *o) {
    if (n->rank != of->rank) return false;
    for (int d = 0; d < of->rank; d++) {
        int axis;
        if (!ix_is_axis(o->map[d], &axis) || axis != d) return false;
    }
    return true;
}

static bool same_cond(const Eval *e, const Operand *a, const Operand *b) {
    if (a->node != b->node) return false;
    for (int d = 0; d < e->g->nodes.v[a->node]->rank; d++)
        if (a->map[d] != b->map[d]) return false;
    return true;
}

static Dom dom_add(Eval *e, Dom to, Operand cond) {
    for (int i = 0; i < to.n; i++)
        if (same_cond(e, &to.cond[i], &cond)) return to;
    if (to.n >= DOM_MAX) return to;
    Operand *all = ARENA_ARRAY(&e->arena, Operand, to.n + 1);
    if (to.n) memcpy(all, to.cond, sizeof *all * (size_t)to.n);
    all[to.n] = cond;
    return (Dom){to.n + 1, all};
}

static Operand composed(Eval *e, const Operand *o, const Ix *const *map, int nmap) {
    Operand at = {.node = o->node, .checked = o->checked};
    int rank = e->g->nodes.v[o->node]->rank;
    at.map = ARENA_ARRAY(&e->arena, const Ix *, rank);
    for (int d = 0; d < rank; d++) at.map[d] = eval_ix(e, o->map[d], map, nmap);
    return at;
}

/* Adds the domain of operand o of n. A checked read hands none on. */
static Dom dom_of_operand(Eval *e, const Node *n, const Operand *o, Dom to) {
    const Node *of = e->g->nodes.v[o->node];
    Dom from = e->dom[o->node];
    if (o->checked || !from.n) return to;
    if (!to.n && is_identity(n, of, o)) return from;
    Operand own = composed(e, o, NULL, 0); /* expressions of one pool, or sharing mixes them up */
    for (int i = 0; i < from.n; i++)
        to = dom_add(e, to, composed(e, &from.cond[i], own.map, of->rank));
    return to;
}

Dom eval_dom(Eval *e, const Node *n) {
    const Graph *g = e->g;
    Dom d = {0};
    if (n->kind == N_REDUCE && (n->red == RED_sum || n->red == RED_contract)) {
        for (int i = 0; i < n->nin - n->where; i++) d = dom_of_operand(e, n, &n->in[i], d);
    } else if (n->kind == N_OP && n->op == OP_within) {
        d = dom_of_operand(e, n, &n->in[1], d);
        d = dom_add(e, d, composed(e, &n->in[0], NULL, 0));
    } else if (n->kind == N_OP && n->op == OP_select) {
        if (is_zero(g, &n->in[2])) d = dom_of_operand(e, n, &n->in[1], d);
        if (is_zero(g, &n->in[1])) d = dom_of_operand(e, n, &n->in[2], d);
    } else if (n->kind == N_OP) {
        if (op_traits(n->op) & OPT_Z) d = dom_of_operand(e, n, &n->in[0], d);
        if (op_traits(n->op) & OPT_Y) d = dom_of_operand(e, n, &n->in[1], d);
    }
    return d;
}

/* ---- functions ---------------------------------------------------------------------------- */

static void count_values(const Ix *x, int *uses) {
    if (!x->has_value) return;
    if (x->kind == IX_VALUE) uses[x->num]++;
    for (int i = 0; i < x->n; i++) count_values(x->arg[i], uses);
}

static void count_uses(const Graph *g, int *uses) {
    for (int k = 0; k < g->nodes.n; k++) {
        const Node *n = g->nodes.v[k];
        if (n->kind == N_INDEX) count_values(n->ix, uses);
        for (int i = 0; i < n->nin; i++) {
            const Operand *o = &n->in[i];
            uses[o->node]++;
            for (int d = 0; d < g->nodes.v[o->node]->rank; d++) count_values(o->map[d], uses);
        }
    }
}

typedef struct Weight {
    int cost, size, depth;
} Weight;

static int op_cost(Op op) {
    switch (op_rule(op)) {
    case RULE_real: return op == OP_div ? 1 : 4;
    case RULE_rand: return 8;
    default: return 1;
    }
}

static void add_weight(Weight *to, Weight o) {
    to->cost += o.cost;
    to->size += o.size;
    if (to->depth <= o.depth) to->depth = o.depth + 1;
}

static void add_gathers(Weight *to, const Ix *x, const Weight *w) {
    if (!x->has_value) return;
    if (x->kind == IX_VALUE) add_weight(to, w[x->num]);
    for (int i = 0; i < x->n; i++) add_gathers(to, x->arg[i], w);
}

static void find_functions(Eval *e) {
    const Graph *g = e->g;
    Arena scratch = {0};
    int *uses = ARENA_ARRAY(&scratch, int, g->nodes.n);
    Weight *w = ARENA_ARRAY(&scratch, Weight, g->nodes.n);
    count_uses(g, uses);
    for (int k = 0; k < g->nodes.n; k++) {
        const Node *n = g->nodes.v[k];
        w[k] = (Weight){1, 1, 1};
        if (n->kind == N_OP) {
            w[k].cost = op_cost(n->op);
            for (int i = 0; i < n->nin; i++) {
                const Operand *o = &n->in[i];
                add_weight(&w[k], w[o->node]);
                for (int d = 0; d < g->nodes.v[o->node]->rank; d++)
                    add_gathers(&w[k], o->map[d], w);
            }
            e->memo[k] = uses[k] > 1 && w[k].cost > COST_REPEAT;
            e->own[k] = e->memo[k] || w[k].size > SIZE_MAX_INLINE || w[k].depth > DEPTH_MAX_INLINE;
        } else if (n->kind == N_REDUCE) {
            e->own[k] = e->memo[k] = true;
        }
        if (e->own[k]) w[k] = (Weight){2, 1, 1};
    }
    arena_free(&scratch);
}

void eval_analyse(Eval *e) {
    const Graph *g = e->g;
    e->dom = ARENA_ARRAY(&e->arena, Dom, g->nodes.n);
    e->own = ARENA_ARRAY(&e->arena, bool, g->nodes.n);
    e->memo = ARENA_ARRAY(&e->arena, bool, g->nodes.n);
    find_extents(e);
    for (int k = 0; k < g->nodes.n; k++) /* a reduction's own domain is not its readers' */
        if (g->nodes.v[k]->kind == N_OP) e->dom[k] = eval_dom(e, g->nodes.v[k]);
    find_functions(e);
}
