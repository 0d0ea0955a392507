/* dce.c - drops what no output reads. Inputs stay: they are the signature. */
#include "passes/passes.h"

bool pass_dce(PassCtx *cx, Graph *g) {
    (void)cx;
    int before = g->nodes.n;
    graph_sweep(g);
    return g->nodes.n != before;
}
