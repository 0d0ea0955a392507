/* crossing.c - a warning for each statement's value that goes from kernel to kernel in f32, where
 * the program's own data have fewer bytes: written with a type, it would be rounded, and half as
 * large. Values of fewer than two indices (statistics of rows) are not worth it.
 */
#include "compiler/compiler_int.h"

/* Some input has reals of 16 bits or fewer: then so may what is between. */
static const char *narrow_type(const Graph *g) {
    for (int i = 0; i < g->params.n; i++) {
        DType t = g->params.v[i].type;
        if (g->params.v[i].out || g->params.v[i].rank < 2 || dtype_class(t) != DC_REAL) continue;
        if (dtype_bits(t) == 16) return dtype_name(t);
        if (dtype_bits(t) < 16) return "bf16";
    }
    return NULL;
}

/* The first step that loads it. */
static int reader_of(const Plan *p, int temp, int after) {
    for (int s = after + 1; s < p->steps.n; s++) {
        const TProg *t = p->steps.v[s].tile;
        for (int i = 0; i < t->tensors.n; i++)
            if (t->tensors.v[i].mem == TM_TEMP && t->tensors.v[i].id == temp) return s;
    }
    return -1;
}

static const char *left_side(Arena *a, const Node *n) {
    Str s = {0};
    str_add(&s, n->name);
    for (int d = 0; d < n->rank; d++)
        str_printf(&s, "%s%s", d ? ", " : "[", n->axes[d].name ? n->axes[d].name : "..");
    if (n->rank) str_add(&s, "]");
    const char *text = arena_strdup(a, str_get(&s));
    str_free(&s);
    return text;
}

void warn_crossings(Job *j, const BuiltFn *fn) {
    const Plan *p = fn->plan;
    const Graph *g = p->graph;
    const char *type = narrow_type(g);
    IxNames names = size_names(j->arena, g);
    for (int i = 0; i < p->temps.n && type && !j->opt->no_fuse; i++) {
        const Temp *t = &p->temps.v[i];
        const Node *n = g->nodes.v[t->node];
        int to = reader_of(p, i, n->step);
        if (t->type != DT_f32 || t->rank < 2 || !n->name || n->part || to < 0) continue;
        Str bytes = {0};
        ix_print(&bytes, expect_bytes(g->ix, t->type, t->rank, t->dims), &names);
        diag_warn(j->diags, n->span, "f32-crosses",
                  "%s: %s goes from step %d to step %d in f32, %s bytes written and read; '%s: %s "
                  "= ..' would round it to half of that",
                  g->name, n->name, n->step, to, str_get(&bytes), left_side(j->arena, n), type);
        str_free(&bytes);
    }
}
