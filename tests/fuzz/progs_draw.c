/* progs_draw.c - draws a program: sizes, then statements. */
#include "tests/fuzz/progs_gen.h"

#include <string.h>

/* ---- contractions ---- */

/* A factor over the indices, in any order; sometimes computed, sometimes an earlier statement. */
static int factor(Gen *g, const int *index, int n, Type type) {
    int order[MAX_DIMS], known;
    Scope s = {.n = n};
    memcpy(order, index, sizeof *order * (size_t)n);
    memcpy(s.index, index, sizeof *order * (size_t)n);
    if (gen_chance(g, 25) && (known = gen_read_known(g, &s, REAL, index[n - 1])) >= 0) return known;
    if (gen_chance(g, 75)) gen_shuffle(g, order, n);
    Input x = {.type = type, .rank = n};
    PNode node = {.kind = P_READ, .value = type_kind(type), .rank = n, .where = -1};
    bool fancy = gen_chance(g, 10);
    for (int d = 0; d < n; d++) {
        node.sub[d] = (Sub){.kind = S_BARE, .i = order[d]};
        x.dim[d] = (Dim){D_SIZE, g->p->index_size[order[d]], 0, 0};
        if (fancy) node.sub[d] = gen_sub(g, &s, order[d], &x.dim[d]);
    }
    gen_one_guard(&node);
    node.tensor = gen_input(g, x);
    int read = node.tensor < 0 ? gen_number(g, REAL) : gen_node(g, node);
    if (node.value == INT) read = gen_call(g, REAL, "f32(%a)", read, 0);
    return gen_chance(g, 15)
               ? gen_call(g, REAL, gen_chance(g, 50) ? "relu(%a)" : "(0.5 * %a)", read, 0)
               : read;
}

/* The indices of sums of products: those of the left factor, of the right one, of both. */
typedef struct Free {
    int index[3][2], n[3]; /* batch, left, right */
} Free;

static Free draw_free(Gen *g, Scope *s) {
    Program *p = g->p;
    static const int most[3] = {1, 2, 1}, percent[3] = {30, 50, 92};
    Free f = {0};
    for (int k = 0; k < 3; k++)
        for (int q = 0; q < most[k]; q++)
            f.n[k] += gen_chance(g, k == 1 && !q ? 92 : percent[k] / most[k]);
    *s = (Scope){0};
    for (int k = 0; k < 3; k++)
        for (int q = 0; q < f.n[k]; q++) {
            int i = gen_index(g, gen_below(g, p->n_sizes));
            if (i < 0) f.n[k] = q;
            if (i < 0) break;
            p->wide[p->index_size[i]] = true;
            f.index[k][q] = s->index[s->n++] = i;
        }
    if (gen_chance(g, 70)) gen_shuffle(g, s->index, s->n);
    return f;
}

/* sum[k] x[b, m, k] * w[b, n, k], each in any order, with what is missing. */
static int contraction(Gen *g, const Free *f, const Scope *s) {
    Program *p = g->p;
    int x[MAX_DIMS], w[MAX_DIMS], nx = 0, nw = 0;
    PNode sum = {.kind = P_REDUCTION, .value = REAL, .op = RED_SUM, .n_kids = 1, .where = -1};
    for (int k = 0; k < 3; k++)
        for (int q = 0; q < f->n[k]; q++) {
            if (k != 2) x[nx++] = f->index[k][q];
            if (k != 1) w[nw++] = f->index[k][q];
        }
    for (int want = gen_chance(g, 12) ? 2 : 1;
         sum.n_indices < want && nx < MAX_DIMS && nw < MAX_DIMS;) {
        int i = gen_index(g, gen_below(g, p->n_sizes));
        if (i < 0) return gen_number(g, REAL);
        p->wide[p->index_size[i]] = true;
        sum.indices[sum.n_indices++] = x[nx++] = w[nw++] = i;
    }
    Type tx = gen_real_type(g), tw = gen_chance(g, 80)   ? tx
                                     : gen_chance(g, 50) ? gen_real_type(g)
                                                         : gen_int_type(g);
    if (tx == T_F32 && gen_chance(g, 60)) tx = tw = gen_chance(g, 50) ? T_BF16 : T_F16;
    p->contraction = true;
    int left = factor(g, x, nx, tx);
    sum.kid[0] = gen_call(g, REAL, "(%a * %b)", left, factor(g, w, nw, tw));
    if (gen_chance(g, 6)) {
        Scope inner = *s;
        for (int q = 0; q < sum.n_indices; q++) inner.index[inner.n++] = sum.indices[q];
        sum.where = gen_expression(g, &inner, COND, 1);
    }
    return gen_node(g, sum);
}

/* What stands around a sum of products; sometimes another one. */
static int epilogue(Gen *g, const Free *f, const Scope *s, int sum) {
    static const char *const unary[] = {"relu(%a)", "tanh(%a)", "(0.5 * %a)", "sigmoid(%a)",
                                        "abs(%a)"};
    static const char *const binary[] = {"(%a + %b)", "(%a * %b)", "(%a - 0.75 * %b)",
                                         "max(%a, %b)"};
    for (int k = gen_below(g, 4); k > 0; k--) {
        if (gen_chance(g, 40)) {
            sum = gen_call(g, REAL, unary[gen_below(g, 5)], sum, 0);
            continue;
        }
        int other = gen_chance(g, 15) ? contraction(g, f, s) : gen_read_some(g, s, REAL, -1);
        sum = gen_call(g, REAL, binary[gen_below(g, 4)], sum, other);
    }
    return sum;
}

/* ---- statements ---- */

static Statement *add_statement(Gen *g, const Scope *s, int root) {
    Program *p = g->p;
    Statement *t = &p->statement[p->n_statements];
    *t = (Statement){.rank = s->n, .type = T_NONE, .root = root, .value = p->node[root].value};
    memcpy(t->index, s->index, sizeof *t->index * (size_t)s->n);
    t->grain = gen_grain(p, root);
    return t;
}

static Scope draw_scope(Gen *g) {
    Scope s = {.n = gen_chance(g, 8) ? 0 : 1 + gen_below(g, 3)};
    if (gen_chance(g, 10)) s.n = 4;
    for (int k = 0; k < s.n; k++) s.index[k] = gen_index(g, gen_below(g, g->p->n_sizes));
    for (int k = 0; k < s.n; k++)
        if (s.index[k] < 0) s.n = k;
    return s;
}

static Type rounding(Gen *g, Grain least) {
    Type t = gen_real_type(g);
    while (type_grain(t) < least || (type_grain(t) == G_FP8 && gen_chance(g, 60)))
        t = gen_real_type(g);
    return t;
}

/* An output that may be read on has no fp8: one rounding on the other side shows. */
static void finish_statement(Gen *g, Statement *t, bool last) {
    Program *p = g->p;
    t->out = last || gen_chance(g, 50);
    if (t->value == INT) {
        t->type = t->out ? gen_type(g, INT, t->rank) : T_NONE;
    } else if (t->value == COND) {
        t->type = t->out ? T_BOOL : T_NONE;
    } else if (t->out || gen_chance(g, 35)) {
        do t->type = rounding(g, t->grain);
        while (!last && type_grain(t->type) == G_FP8);
        Grain of = type_grain(t->type);
        if (of > t->grain) t->grain = of;
    }
    p->n_statements++;
}

/* A read of a tensor at these indices as they stand. */
static int read_bare(Gen *g, bool stored, int tensor, Kind value, const int *index, int n) {
    PNode x = {.kind = P_READ, .value = value, .stored = stored, .tensor = tensor, .rank = n};
    for (int d = 0; d < n; d++) x.sub[d] = (Sub){.kind = S_BARE, .i = index[d]};
    x.where = -1;
    return gen_node(g, x);
}

static int input_at(Gen *g, Type type, const int *index, int n) {
    Input x = {.type = type, .rank = n};
    for (int d = 0; d < n; d++) x.dim[d] = (Dim){D_SIZE, g->p->index_size[index[d]], 0, 0};
    int tensor = gen_input(g, x);
    return tensor < 0 ? gen_number(g, REAL) : read_bare(g, false, tensor, REAL, index, n);
}

static int sum_over(Gen *g, int index, int body) {
    return gen_node(g, (PNode){.kind = P_REDUCTION,
                               .value = REAL,
                               .op = RED_SUM,
                               .indices = {index},
                               .n_indices = 1,
                               .kid = {body},
                               .n_kids = 1,
                               .where = -1});
}

/* s[b, i, j] = sum[e] q k; p = softmax[j](s); o[b, i, f] = sum[j] p v; three statements, p and s
 * of which may be outputs. */
static void draw_attention(Gen *g) {
    Program *p = g->p;
    int at[5]; /* b, i, j, e, f */
    for (int k = 0; k < 5; k++) {
        at[k] = gen_index(g, gen_below(g, p->n_sizes));
        p->wide[p->index_size[at[k]]] = true;
    }
    enum { B, I, J, E, F };
    int first = gen_chance(g, 50) ? 0 : 1; /* 1: no b */
    Type t = gen_chance(g, 70) ? T_BF16 : gen_real_type(g);
    const int q[] = {at[B], at[I], at[E]}, k[] = {at[B], at[J], at[E]}, v[] = {at[B], at[J], at[F]};
    Scope s = {.index = {at[first ? I : B], at[first ? J : I], at[J]}, .n = 3 - first};
    int n = 3 - first;
    p->contraction = true;
    int left = input_at(g, t, q + first, n), right = input_at(g, t, k + first, n);
    int score = sum_over(g, at[E], gen_call(g, REAL, "(%a * %b)", left, right));
    finish_statement(g, add_statement(g, &s, gen_call(g, REAL, "(0.5 * %a)", score, 0)), false);
    int scores = p->n_statements - 1;
    PNode soft = {.kind = P_AXIS, .value = REAL, .index = at[J], .n_kids = 1, .where = -1};
    if (p->statement[scores].grain)
        p->statement[scores].type = p->statement[scores].out ? T_F32 : T_NONE;
    p->statement[scores].grain = G_F32;
    soft.kid[0] = read_bare(g, true, scores, REAL, s.index, n);
    if (gen_chance(g, 50)) soft.where = gen_expression(g, &s, COND, 1);
    finish_statement(g, add_statement(g, &s, gen_node(g, soft)), false);
    int weights = read_bare(g, true, p->n_statements - 1, REAL, s.index, n);
    right = input_at(g, t, v + first, n);
    int out = sum_over(g, at[J], gen_call(g, REAL, "(%a * %b)", weights, right));
    s.index[n - 1] = at[F];
    Statement *last = add_statement(g, &s, out);
    if (last->grain < G_BF16) last->grain = G_BF16;
    finish_statement(g, last, true);
}

/* A reduction of the statement before over one of its indices, with the rest of them or all. */
static void draw_row_reduction(Gen *g, bool last) {
    Program *p = g->p;
    const int from = p->n_statements - 1;
    const Statement *t = &p->statement[from];
    int d = gen_below(g, t->rank), op = gen_below(g, RED_PROD);
    Scope all = {.n = t->rank}, rest = {0};
    memcpy(all.index, t->index, sizeof *all.index * (size_t)t->rank);
    for (int k = 0; k < t->rank; k++)
        if (k != d) rest.index[rest.n++] = t->index[k];
    int body = read_bare(g, true, from, REAL, all.index, all.n);
    if (gen_chance(g, 40)) body = gen_call(g, REAL, "abs(%a)", body, 0);
    if (gen_chance(g, 30)) body = gen_call(g, REAL, "(%a * %b)", body, body);
    PNode x = {.kind = P_REDUCTION, .value = REAL, .op = op, .n_indices = 1, .n_kids = 1};
    x.indices[0] = t->index[d];
    x.kid[0] = body;
    x.where = gen_chance(g, 15) ? gen_expression(g, &all, COND, 1) : -1;
    finish_statement(g, add_statement(g, &rest, gen_node(g, x)), last);
}

static void draw_statement(Gen *g, bool last) {
    Scope s;
    int root;
    const int n = g->p->n_statements;
    const Statement *before = &g->p->statement[n ? n - 1 : 0];
    if (n && before->rank && before->value == REAL && gen_chance(g, 20)) {
        draw_row_reduction(g, last);
        return;
    }
    if (gen_chance(g, 30)) {
        Free f = draw_free(g, &s);
        root = epilogue(g, &f, &s, contraction(g, &f, &s));
    } else {
        s = draw_scope(g);
        Kind value = gen_chance(g, 78) ? REAL : gen_chance(g, 75) ? INT : COND;
        int depth = 1 + gen_below(g, 4);
        root = gen_expression(g, &s, value, depth);
    }
    finish_statement(g, add_statement(g, &s, root), last);
}

/* ---- sizes ---- */

static int64_t draw_size(Gen *g, bool wide) {
    static const int usual[] = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 40};
    static const int far[] = {48, 56, 63, 64, 65, 72, 96, 120, 127, 128, 129, 136, 200, 257, 300};
    if (gen_chance(g, wide ? 60 : 25)) return far[gen_below(g, sizeof far / sizeof *far)];
    return usual[gen_below(g, sizeof usual / sizeof *usual)];
}

static void draw_sizes(Gen *g) {
    Program *p = g->p;
    p->n_sets = 3;
    for (int set = 0; set < p->n_sets; set++) {
        for (int k = 0; k < p->n_sizes; k++) p->size[set][k] = draw_size(g, p->wide[k]);
        if (set == 1) p->size[set][gen_below(g, p->n_sizes)] = 1;
        if (set == 2) p->size[set][gen_below(g, p->n_sizes)] = gen_chance(g, 60) ? 0 : 1;
    }
    for (int k = 0; k < p->n_sizes; k++) p->bound[k] = gen_chance(g, 12);
}

/* Bound sizes are the same in all sets: the least of them, but not 0. */
static void bind_sizes(Program *p) {
    for (int k = 0; k < p->n_sizes; k++) {
        int64_t least = p->size[0][k];
        for (int set = 1; set < p->n_sets; set++)
            if (p->size[set][k] && p->size[set][k] < least) least = p->size[set][k];
        for (int set = 0; set < p->n_sets && p->bound[k]; set++)
            p->size[set][k] = least ? least : 1;
    }
}

/* The steps that a tree takes for each element. */
static double steps(const Program *p, int node, int set) {
    const PNode *x = &p->node[node];
    double n = 1, times = 1;
    for (int k = 0; k < x->n_kids; k++) n += steps(p, x->kid[k], set);
    if (x->where >= 0) n += steps(p, x->where, set);
    for (int k = 0; x->kind == P_REDUCTION && k < x->n_indices; k++)
        times *= (double)p->size[set][p->index_size[x->indices[k]]];
    if (x->kind == P_AXIS) times = 2 * (double)p->size[set][p->index_size[x->index]];
    if (x->kind == P_READ && x->stored) n += steps(p, p->statement[x->tensor].root, set);
    return n * (times > 1 ? times : 1);
}

/* And the elements of inputs, which are drawn. */
static double elements(const Program *p, int set) {
    double all = 0;
    for (int k = 0; k < p->n_inputs; k++) {
        double n = 1;
        for (int d = 0; d < p->input[k].rank; d++) {
            const Dim *x = &p->input[k].dim[d];
            double a = x->kind == D_CONST ? 1 : (double)p->size[set][x->a];
            n *= x->kind == D_TIMES || x->kind == D_CONST ? a * x->c
                 : x->kind == D_SUM                       ? a + (double)p->size[set][x->b]
                                                          : a;
        }
        all += n;
    }
    return all;
}

void program_limit(Program *p, int64_t limit) {
    for (int set = 0; set < p->n_sets; set++)
        for (;;) {
            double all = elements(p, set);
            int largest = 0;
            for (int s = 0; s < p->n_statements; s++) {
                double n = steps(p, p->statement[s].root, set);
                for (int d = 0; d < p->statement[s].rank; d++)
                    n *= (double)p->size[set][p->index_size[p->statement[s].index[d]]];
                all += n;
            }
            if (all <= (double)limit) break;
            for (int k = 0; k < p->n_sizes; k++)
                if (p->size[set][k] > p->size[set][largest]) largest = k;
            p->size[set][largest] = p->size[set][largest] * 2 / 3;
        }
}

void program_draw(Program *p, uint64_t seed, uint64_t n) {
    memset(p, 0, sizeof *p);
    p->seed = seed, p->number = n;
    Gen g = {.p = p, .random = seed * 0x2545f4914f6cdd1du + n};
    p->node[MAX_NODES - 1] = (PNode){.kind = P_NUMBER, .value = REAL, .number = 0.5, .where = -1};
    p->n_sizes = 1 + gen_below(&g, 5);
    if (gen_chance(&g, 7))
        draw_attention(&g);
    else
        for (int left = 1 + gen_below(&g, 3); left > 0; left--) draw_statement(&g, left == 1);
    draw_sizes(&g);
    p->general = p->contraction && !gen_chance(&g, 15);
    p->configs = 1u | 1u << gen_below(&g, CONFIGS);
    if (p->contraction && !p->general) /* dozens of kernels */
        p->configs = 1u << gen_below(&g, CONFIGS);
    p->emu_seed = gen_chance(&g, 50) ? 0 : 1 + gen_below(&g, 1000);
    p->sms = gen_chance(&g, 50) ? 132 : 1 + gen_below(&g, 4);
    if (gen_chance(&g, 30)) p->layout = 1 + gen_below(&g, 1000000);
    program_limit(p, p->contraction && !p->general ? 1000000 : 80000);
    bind_sizes(p);
}
