/* infer_solve.c - rule 1: how each size follows from the extents that a launch brings.
 *
 * First sizes that are a dimension by themselves, in signature order, so that errors name the
 * first place where a user sees the size; then any dimension that is linear in one unknown.
 */
#include "ir/infer.h"

typedef struct Solver {
    Graph *g;
    IxPool *p;
    bool *known;
} Solver;

static void solved(Solver *s, Solve one) {
    vec_push(s->g->arena, &s->g->solve, one);
    s->known[one.size] = true;
}

/* The only unknown size in x: its number; -1 for none, -2 for several. */
static int unknown_in(const Solver *s, const Ix *x) {
    int found = -1;
    if (x->kind == IX_SIZE) return s->known[x->num] ? -1 : (int)x->num;
    for (int i = 0; i < x->n; i++) {
        int u = unknown_in(s, x->arg[i]);
        if (u == -1 || u == found) continue;
        if (u == -2 || found != -1) return -2;
        found = u;
    }
    return found;
}

/* Is the atom the unknown itself, times known atoms (then *factor is their product), or an exact
 * quotient of it (then *times is the divisor)? */
static bool splits(const Solver *s, const Ix *atom, int size, const Ix **factor, const Ix **times) {
    *factor = *times = ix_const(s->p, 1);
    if (atom->kind == IX_SIZE) return true;
    if (atom->kind == IX_DIV) {
        *times = atom->arg[1];
        return atom->arg[0] == ix_size(s->p, size) && unknown_in(s, atom->arg[1]) == -1;
    }
    if (atom->kind != IX_MUL) return false;
    int hits = 0;
    for (int i = 0; i < atom->n; i++) {
        if (unknown_in(s, atom->arg[i]) == -1)
            *factor = ix_mul(s->p, *factor, atom->arg[i]);
        else if (atom->arg[i]->kind == IX_SIZE)
            hits++;
        else
            return false;
    }
    return hits == 1;
}

/* Solves dimension = coef * factor * size / times + rest; false when it has another form. */
static bool solve_dim(Solver *s, int param, int dim) {
    IxPool *p = s->p;
    const Ix *x = s->g->params.v[param].dims[dim], *factor, *times;
    int size = unknown_in(s, x), at = -1;
    if (size < 0) return false;
    IxTerm *t;
    int n = ix_terms(p, x, &t);
    for (int i = 0; i < n; i++) {
        if (!t[i].atom || unknown_in(s, t[i].atom) == -1) continue;
        if (at >= 0) return false;
        at = i;
    }
    int64_t coef = t[at].coef;
    if (!splits(s, t[at].atom, size, &factor, &times) || coef == INT64_MIN) return false;
    const Ix *rest = ix_sub(p, x, ix_mul(p, ix_const(p, coef), t[at].atom));
    const Ix *num = ix_sub(p, ix_value(p, 0, NULL, 0), rest);
    if (coef < 0) num = ix_neg(p, num);
    num = ix_mul(p, times, num);
    if (!ix_is_const(factor, NULL)) num = ix_div(p, num, factor); /* the dimension is compared */
    solved(s, (Solve){size, param, dim, num, coef < 0 ? -coef : coef});
    return true;
}

static bool sweep(Solver *s, bool bare) {
    bool any = false;
    for (int i = 0; i < s->g->params.n; i++) {
        const Param *q = &s->g->params.v[i];
        for (int d = 0; d < q->rank; d++)
            if (!bare || q->dims[d]->kind == IX_SIZE) any |= solve_dim(s, i, d);
    }
    return any;
}

bool infer_solve(Graph *g, int *unsolved) {
    Solver s = {g, g->ix, ARENA_ARRAY(g->arena, bool, g->sizes.n)};
    g->solve.n = 0;
    sweep(&s, true);
    while (sweep(&s, false)) continue;
    for (int i = 0; i < g->sizes.n; i++)
        if (!s.known[i]) {
            *unsolved = i;
            return false;
        }
    return true;
}
