/* progs_gen.c - draws expressions: trees that read inputs, which are added as they are wanted, and
 * earlier statements. */
#include "tests/fuzz/progs_gen.h"

#include <string.h>

static uint64_t next(uint64_t *s) { /* splitmix64 */
    uint64_t z = *s += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

int gen_below(Gen *g, int n) {
    return (int)(next(&g->random) % (uint64_t)n);
}

bool gen_chance(Gen *g, int percent) {
    return gen_below(g, 100) < percent;
}

void gen_shuffle(Gen *g, int *v, int n) {
    for (int k = n - 1; k > 0; k--) {
        int j = gen_below(g, k + 1), t = v[k];
        v[k] = v[j], v[j] = t;
    }
}

/* ---- nodes ---- */

int gen_node(Gen *g, PNode x) {
    Program *p = g->p;
    if (p->n_nodes == MAX_NODES - 1) return p->n_nodes; /* the leaf that program_draw puts there */
    p->node[p->n_nodes] = x;
    return p->n_nodes++;
}

int gen_number(Gen *g, Kind value) {
    double v = value == INT ? gen_below(g, 7) - 1 : (gen_below(g, 17) - 8) / 8.0 + 0.0625;
    return gen_node(g, (PNode){.kind = P_NUMBER, .value = value, .number = v, .where = -1});
}

int gen_call(Gen *g, Kind value, const char *text, int a, int b) {
    int op = 0;
    while (forms[op].value != value || strcmp(forms[op].text, text) != 0) op++;
    PNode x = {.kind = P_CALL, .value = forms[op].value, .op = op, .kid = {a, b}, .where = -1};
    x.n_kids = (int)strlen(forms[op].kids);
    return gen_node(g, x);
}

static int index_value(Gen *g, const Scope *s) {
    PNode x = {.kind = P_IX, .value = INT, .index = s->index[gen_below(g, s->n)], .where = -1};
    return gen_node(g, x);
}

int gen_index(Gen *g, int size) {
    Program *p = g->p;
    if (p->n_indices == MAX_INDICES) return -1;
    p->index_size[p->n_indices] = size;
    return p->n_indices++;
}

/* Is it a product with a factor that is computed? */
static bool rounds_factors(const Program *p, int node) {
    const PNode *x = &p->node[node];
    if (x->kind != P_CALL || x->op != FORM_PRODUCT) return false;
    return p->node[x->kid[0]].kind != P_READ || p->node[x->kid[1]].kind != P_READ;
}

/* How coarse what is known of a tree's values is. */
Grain gen_grain(const Program *p, int node) {
    const PNode *x = &p->node[node];
    Grain most = G_F32;
    for (int k = 0; k < x->n_kids; k++) {
        Grain of = gen_grain(p, x->kid[k]);
        if (of > most) most = of;
    }
    if (x->kind == P_READ && x->stored && p->statement[x->tensor].grain > most)
        most = p->statement[x->tensor].grain;
    if (x->kind == P_CALL && forms[x->op].grain > most) most = forms[x->op].grain;
    /* The tensor-core rule: a computed factor of a sum may be rounded. */
    if (most == G_F32 && x->kind == P_REDUCTION && x->op <= RED_MEAN && x->value == REAL &&
        rounds_factors(p, x->kid[0]))
        return G_BF16;
    return most;
}

Grain type_grain(Type t) {
    return t == T_F16 ? G_F16 : t == T_BF16 ? G_BF16 : t == T_E4M3 || t == T_E5M2 ? G_FP8 : G_F32;
}

/* ---- types ---- */

Type gen_real_type(Gen *g) {
    static const Type t[] = {T_F32,  T_F32,  T_F32,  T_F16,  T_F16,  T_BF16,
                             T_BF16, T_BF16, T_E4M3, T_E5M2, T_E4M3, T_F32};
    return t[gen_below(g, sizeof t / sizeof *t)];
}

Type gen_int_type(Gen *g) {
    static const Type t[] = {T_I32, T_I8, T_U8, T_I4, T_U4, T_I64, T_I32, T_I8};
    return t[gen_below(g, sizeof t / sizeof *t)];
}

Kind type_kind(Type t) {
    return t <= T_E5M2 ? REAL : t == T_BOOL ? COND : INT;
}

/* ---- reads ---- */

int gen_input(Gen *g, Input x) {
    Program *p = g->p;
    if (p->n_inputs == MAX_INPUTS) return -1;
    p->input[p->n_inputs] = x;
    return p->n_inputs++;
}

/* A table of indices into something of size `into`, over index i. */
static int add_table(Gen *g, int i) {
    return gen_input(
        g, (Input){.type = T_I32, .rank = 1, .dim = {{D_SIZE, g->p->index_size[i], 0, 0}}});
}

/* How a fresh input is read at index i, and the dimension it needs for that. */
Sub gen_sub(Gen *g, const Scope *s, int i, Dim *d) {
    Program *p = g->p;
    int size = p->index_size[i], c = 2 + gen_below(g, 3), other = s->index[gen_below(g, s->n)];
    Sub x = {.kind = S_BARE, .i = i, .c = c};
    *d = (Dim){D_SIZE, size, 0, c};
    if (gen_chance(g, 75)) return x;
    switch (gen_below(g, 8)) {
    case 0: x.kind = S_PLUS, d->kind = D_PLUS; break;
    case 1: x.kind = S_TIMES, d->kind = D_TIMES; break;
    case 2: x.kind = S_OVER, d->kind = D_CEIL; break;
    case 3: x.kind = S_MOD, d->kind = D_CONST; break;
    case 4:
        if (other == i) break;
        x.kind = S_PAIR, x.j = other;
        *d = (Dim){D_SUM, size, p->index_size[other], 0};
        break;
    case 5: x.kind = S_BACK; break;
    case 6: x.kind = S_GUARDED, x.c = 1 + gen_below(g, 2); break;
    default:
        x.table = add_table(g, i);
        if (x.table < 0) break;
        x.kind = S_GATHER;
        d->a = gen_below(g, p->n_sizes);
    }
    return x;
}

/* One guard for a read; and none where two would be needed. */
void gen_one_guard(PNode *x) {
    bool seen = false;
    for (int d = 0; d < x->rank; d++) {
        if (x->sub[d].kind != S_GUARDED) continue;
        if (seen) x->sub[d].kind = S_BARE;
        seen = true;
    }
}

static int read_fresh(Gen *g, const Scope *s, const int *index, int n, Type type) {
    Input x = {.type = type, .rank = n};
    PNode node = {.kind = P_READ, .value = type_kind(type), .rank = n, .where = -1};
    for (int d = 0; d < n; d++) node.sub[d] = gen_sub(g, s, index[d], &x.dim[d]);
    gen_one_guard(&node);
    node.tensor = gen_input(g, x);
    return node.tensor < 0 ? gen_number(g, type_kind(type)) : gen_node(g, node);
}

/* Nibbles lie along a dimension. */
Type gen_type(Gen *g, Kind value, int rank) {
    if (value != INT) return value == REAL ? gen_real_type(g) : T_BOOL;
    Type t = gen_int_type(g);
    return !rank && (t == T_I4 || t == T_U4) ? T_I32 : t;
}

/* A tensor of this value that is there already, at indices of the scope that suit it. */
int gen_read_known(Gen *g, const Scope *s, Kind value, int must) {
    Program *p = g->p;
    int n = p->n_inputs + p->n_statements, from = n ? gen_below(g, n) : 0;
    for (int k = 0; k < n; k++) {
        int t = (from + k) % n;
        bool stored = t >= p->n_inputs;
        PNode x = {.kind = P_READ, .value = value, .stored = stored, .where = -1};
        x.tensor = stored ? t - p->n_inputs : t;
        const Statement *st = &p->statement[stored ? x.tensor : 0];
        const Input *in = &p->input[stored ? 0 : x.tensor];
        if ((stored ? st->value : type_kind(in->type)) != value) continue;
        bool ok = true, has = must < 0;
        x.rank = stored ? st->rank : in->rank;
        for (int d = 0; d < x.rank && ok; d++) {
            int size = stored ? p->index_size[st->index[d]] : in->dim[d].a, i = -1;
            ok = stored || in->dim[d].kind == D_SIZE;
            for (int q = 0, at = gen_below(g, s->n + 1); q < s->n && i < 0; q++) {
                int candidate = s->index[(at + q) % s->n];
                if (p->index_size[candidate] == size) i = candidate;
            }
            ok = ok && i >= 0;
            x.sub[d] = (Sub){.kind = S_BARE, .i = i};
            if (ok && gen_chance(g, 8)) x.sub[d].kind = S_BACK;
            if (ok && gen_chance(g, 8)) x.sub[d] = (Sub){.kind = S_GUARDED, .i = i, .c = 1};
            has |= i == must;
        }
        gen_one_guard(&x);
        if (ok && has) return gen_node(g, x);
    }
    return -1;
}

int gen_read_some(Gen *g, const Scope *s, Kind value, int must) {
    int index[MAX_INDICES], n = s->n, known;
    if (gen_chance(g, 50) && (known = gen_read_known(g, s, value, must)) >= 0) return known;
    memcpy(index, s->index, sizeof *index * (size_t)n);
    gen_shuffle(g, index, n);
    int most = n < 4 ? n : 4, want = most ? 1 + gen_below(g, most) : 0;
    if (must < 0 && gen_chance(g, 5)) want = 0;
    for (int k = 0; k < n && must >= 0; k++)
        if (index[k] == must) index[k] = index[0], index[0] = must;
    gen_shuffle(g, index, want);
    return read_fresh(g, s, index, want, gen_type(g, value, want));
}

/* ---- expressions ---- */

int gen_expression(Gen *g, const Scope *s, Kind value, int depth);

static int leaf(Gen *g, const Scope *s, Kind value) {
    if (value == REAL)
        return gen_chance(g, 88) ? gen_read_some(g, s, REAL, -1) : gen_number(g, REAL);
    if (value == COND && s->n >= 1 && gen_chance(g, 60)) {
        int a = index_value(g, s);
        int b = gen_chance(g, 60) ? index_value(g, s) : gen_number(g, INT);
        return gen_call(g, COND, gen_chance(g, 50) ? "(%a <= %b)" : "(%a < %b)", a, b);
    }
    if (value == INT && s->n && gen_chance(g, 40)) return index_value(g, s);
    if (value == INT && gen_chance(g, 10))
        return gen_node(g, (PNode){.kind = P_SIZE,
                                   .value = INT,
                                   .index = gen_below(g, g->p->n_sizes),
                                   .where = -1});
    if (value == INT && gen_chance(g, 20)) return gen_number(g, INT);
    return gen_read_some(g, s, value, -1);
}

static bool has_bare(const Program *p, int node, int index) {
    const PNode *x = &p->node[node];
    for (int k = 0; k < x->n_kids; k++)
        if (has_bare(p, x->kid[k], index)) return true;
    for (int d = 0; x->kind == P_READ && d < x->rank; d++)
        if (x->sub[d].i == index && x->sub[d].kind == S_BARE) return true;
    return false;
}

static int reduction(Gen *g, const Scope *s, Kind value, int depth) {
    PNode x = {.kind = P_REDUCTION, .value = value, .where = -1, .n_kids = 1};
    Scope inner = *s;
    x.op = value == INT ? (gen_chance(g, 60)   ? RED_SUM
                           : gen_chance(g, 50) ? RED_MAX
                                               : RED_MIN)
                        : gen_below(g, n_reductions);
    x.n_indices = x.op != RED_LOGSUMEXP && gen_chance(g, 15) ? 2 : 1;
    for (int k = 0; k < x.n_indices; k++) {
        x.indices[k] = gen_index(g, gen_below(g, g->p->n_sizes));
        if (x.indices[k] < 0) return leaf(g, s, value);
        inner.index[inner.n++] = x.indices[k];
    }
    x.kid[0] = gen_expression(g, &inner, value, depth - 1);
    for (int k = 0; k < x.n_indices; k++)
        if (!node_uses(g->p, x.kid[0], x.indices[k]))
            x.kid[0] = gen_call(g, value, "(%a + %b)", x.kid[0],
                                gen_read_some(g, &inner, value, x.indices[k]));
    if (x.op == RED_LOGSUMEXP &&
        (gen_grain(g->p, x.kid[0]) || !has_bare(g->p, x.kid[0], x.indices[0])))
        x.op = RED_MAX;
    if (gen_chance(g, 30)) x.where = gen_expression(g, &inner, COND, 1);
    return gen_node(g, x);
}

static int axis_form(Gen *g, const Scope *s, int depth) {
    PNode x = {
        .kind = P_AXIS, .value = REAL, .op = gen_below(g, n_axis_forms), .where = -1, .n_kids = 1};
    x.index = s->index[gen_below(g, s->n)];
    x.kid[0] = gen_expression(g, s, REAL, depth - 1);
    if (gen_grain(g->p, x.kid[0]) || !has_bare(g->p, x.kid[0], x.index)) return x.kid[0];
    if (gen_chance(g, 25)) x.where = gen_expression(g, s, COND, 1);
    return gen_node(g, x);
}

static int form(Gen *g, const Scope *s, Kind value, int depth) {
    int op = gen_below(g, n_forms);
    while (forms[op].value != value) op = gen_below(g, n_forms);
    PNode x = {.kind = P_CALL, .value = value, .op = op, .where = -1};
    x.n_kids = (int)strlen(forms[op].kids);
    for (int k = 0; k < x.n_kids; k++) {
        char kid = forms[op].kids[k];
        x.kid[k] = gen_expression(g, s, kid == 'R' ? REAL : kid == 'I' ? INT : COND, depth - 1);
    }
    bool coarse = false;
    for (int k = 0; k < x.n_kids; k++) coarse |= gen_grain(g->p, x.kid[k]) > G_F32;
    if (coarse && (forms[op].steep || forms[op].grain)) {
        for (int k = 0; k < x.n_kids; k++)
            if (g->p->node[x.kid[k]].value == value) return x.kid[k];
        return leaf(g, s, value);
    }
    return gen_node(g, x);
}

int gen_expression(Gen *g, const Scope *s, Kind value, int depth) {
    if (depth <= 0 || g->p->n_nodes > MAX_NODES - 60) return leaf(g, s, value);
    if (value != COND && gen_chance(g, 18)) return reduction(g, s, value, depth);
    if (value == REAL && s->n && gen_chance(g, 6)) return axis_form(g, s, depth);
    if (gen_chance(g, 20)) return leaf(g, s, value);
    return form(g, s, value, depth);
}
