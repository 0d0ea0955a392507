/* online_select.c - an element that is read at an index of data is picked in the loop that makes
 * it.
 *
 *     a[m, label[m]]    ->    sum[v where v == label[m]] a[m, v]
 *
 * where a is made of an inner product and a loop over v reduces it all the same (online.c): so the
 * logits of a cross-entropy need no memory. Where nothing is picked the sum is 0, as the read is
 * outside of a.
 */
#include "passes/online_int.h"

#include <string.h>

/* Does a loop over one axis reduce node `node` along its axis d? */
static bool is_reduced(Graph *g, int node, int d) {
    for (int i = node + 1; i < g->nodes.n; i++) {
        const Node *n = g->nodes.v[i];
        OnlinePairs pairs = {0};
        if (n->loop < 0 || n->naxes != n->rank + 1) continue;
        online_pairs(g, n, &pairs);
        for (int k = 0; k < pairs.n; k++) {
            int axis;
            if (pairs.v[k].node != node || !ix_is_axis(pairs.v[k].map[d], &axis)) continue;
            if (axis == ONLINE_INNER) return true;
        }
    }
    return false;
}

/* The one position of the read that is a value of data; -1. */
static int picked(const Graph *g, const Operand *o) {
    const Node *n = g->nodes.v[o->node];
    int at = -1;
    if ((n->kind != N_OP && n->kind != N_REDUCE) || n->type != DT_f32) return -1;
    for (int d = 0; d < n->rank; d++) {
        if (!o->map[d]->has_value) continue;
        if (at >= 0 || o->map[d]->kind != IX_VALUE) return -1;
        at = d;
    }
    return at;
}

/* axis == value, over the axes of the sum. */
static Operand is_picked(Graph *g, const Node *sum, const Ix *value) {
    Node *index = graph_node(g, N_INDEX, DT_i64, 1, 1, 0), *c;
    index->axes[0] = sum->axes[sum->rank];
    index->ix = ix_axis(g->ix, 0);
    c = rb_op(g, OP_eq, DT_bool, sum, sum->naxes);
    c->in[0] = rb_read(g, index);
    c->in[0].map[0] = ix_axis(g->ix, sum->rank);
    graph_map(g, &c->in[1], (int)value->num);
    for (int k = 0; k < value->n; k++) c->in[1].map[k] = value->arg[k];
    return rb_read(g, c);
}

static void pick(Graph *g, const Node *reader, Operand *o, int d) {
    const Node *from = g->nodes.v[o->node];
    Node *sum = graph_node(g, N_REDUCE, DT_f32, reader->rank, reader->rank + 1, 2);
    for (int a = 0; a < reader->rank; a++) sum->axes[a] = reader->axes[a];
    sum->axes[reader->rank] = from->axes[d];
    sum->red = RED_sum;
    sum->where = true;
    sum->span = reader->span;
    graph_map(g, &sum->in[0], o->node);
    if (from->rank) memcpy(sum->in[0].map, o->map, sizeof *o->map * (size_t)from->rank);
    sum->in[0].map[d] = ix_axis(g->ix, reader->rank);
    sum->in[0].checked = o->checked & ~(1u << d);
    sum->in[1] = is_picked(g, sum, o->map[d]);
    *o = rb_read(g, sum);
}

bool online_select(Graph *g) {
    bool changed = false;
    int old = g->nodes.n;
    for (int i = 0; i < old; i++) {
        Node *n = g->nodes.v[i];
        for (int k = 0; k < n->nin && n->kind == N_OP; k++) {
            int d = picked(g, &n->in[k]);
            if (d < 0 || !is_reduced(g, n->in[k].node, d)) continue;
            pick(g, n, &n->in[k], d);
            changed = true;
        }
    }
    if (changed) graph_sweep(g);
    return changed;
}
