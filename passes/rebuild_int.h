/* rebuild_int.h - what passes share that rebuild a graph bottom-up.
 *
 * rebuild() walks the nodes in topological order. Before `visit` sees a node, everything the node
 * reads (operands, gathers) already reads what earlier visits put in the place of the old nodes.
 * `visit` may edit the node in place, append nodes, and name a replacement: an operand over the
 * node's value axes that has the same value at every point. Readers then read through it, their
 * maps composed; where a composition would change what a read outside the domain gives, and at
 * outputs, a copy node is made instead. Names and spans of statements go along. At the end the
 * graph is swept.
 */
#ifndef FK_PASSES_REBUILD_INT_H
#define FK_PASSES_REBUILD_INT_H

#include "passes/passes.h"

typedef struct Rebuild {
    PassCtx *cx;
    Graph *g;
    int old;      /* nodes before the pass; those behind it were appended */
    Operand **to; /* per old node: its replacement, or NULL */
    int *copy;    /* per old node: the copy node of its replacement, or -1 */
    bool changed;
    VEC(char) outside; /* memo of rb_outside */
} Rebuild;

/* Returns true when it changed something that `rebuild` itself cannot see (the node in place). */
typedef bool RebuildFn(Rebuild *r, Node *n, void *ctx);
bool rebuild(PassCtx *cx, Graph *g, RebuildFn *visit, void *ctx);

/* Readers of n read `by` (over n's value axes) from now on. Types must be equal. */
void rb_replace(Rebuild *r, Node *n, Operand by);

/* ---- operands ---- */

/* A new pointwise node over the first `rank` axes of `like`, operands for the caller to fill. */
Node *rb_op(Graph *g, Op op, DType type, const Node *like, int rank);
Operand rb_read(Graph *g, const Node *n); /* n at its own axes */
Operand rb_const(Graph *g, DType type, double num, int64_t inum);

/* Reading `inner` (an operand of node mid) by way of `outer` (a read of mid). False when the read
 * gives 0 outside mid's domain and the composition would not, or when a gather in it would move to
 * where it is not known to be inside. */
bool rb_compose(Graph *g, const Operand *outer, const Operand *inner, Operand *out);
/* The same, by way of a copy node where it has to be. */
Operand rb_inline(Graph *g, const Operand *outer, const Operand *inner);
/* The i-th operand of what `o` reads, as o's reader would read it. */
bool rb_through(Graph *g, const Operand *o, int i, Operand *out);

bool rb_same(const Graph *g, const Operand *a, const Operand *b);
bool rb_identity(const Graph *g, const Node *reader, const Operand *o); /* every axis in place */
bool rb_uses(const Graph *g, const Operand *o, int axis); /* in the map or a gather there */
bool rb_is_op(const Graph *g, const Operand *o, Op op);
bool rb_is_output(const Graph *g, const Node *n);

/* Is this value possibly "0 outside its domain" (LANGUAGE.md rule 4), so that the terms of a sum
 * with it as a factor are skipped? A law that exposes such a value, or hides it, changes what a
 * NaN in the other factor does. */
bool rb_outside(Rebuild *r, int node);

/* ---- proofs ---- */

/* x >= 0 wherever node `at` has an element, over its first nax axes. */
bool rb_nonneg(Graph *g, const Ix *x, const Node *at, int nax);
const Ix **rb_extents(Graph *g, const Node *n, int nax);

/* An operand that moves to where an axis is missing: the read may have been inside only because
 * that axis had elements. What is not inside by the axes that are left becomes a checked read. */
void rb_check_reads(Graph *g, const Node *at, int nax, Operand *o);

/* The integer value that an operand reads, as an expression over the reader's axes: an index, a
 * constant, or with `data` any integer node as an IX_VALUE. NULL when it has none. */
const Ix *rb_integer(Graph *g, const Operand *o, bool data);

#endif
