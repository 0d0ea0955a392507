/* fuzz.c - random graphs mean the same after every pass, and after all of them:
 *     fuzz [GRAPHS [SECONDS [SEED]]]
 * A failure prints the graph before and after, and the seed that makes it again.
 */
#include "passes/rebuild_int.h"
#include "tests/passes/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct Fuzz {
    Arena arena;
    Graph *g;
    uint64_t state;
    const Ix *extent[7];
} Fuzz;

static int pick(Fuzz *f, int n) { /* [0, n) */
    uint64_t z = f->state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (int)((z ^ (z >> 31)) % (uint64_t)n);
}

static bool one_in(Fuzz *f, int n) {
    return pick(f, n) == 0;
}

static const Ix *extent(Fuzz *f) {
    return f->extent[pick(f, 7)];
}

/* ---- reads ---- */

static const Ix *bare_axis(Fuzz *f, const Node *n, const Ix *dim) {
    int first = n->naxes ? pick(f, n->naxes) : 0;
    for (int i = 0; i < n->naxes; i++) {
        int d = (first + i) % n->naxes;
        if (n->axes[d].extent == dim) return ix_axis(f->g->ix, d);
    }
    return NULL;
}

static const Ix *gather(Fuzz *f, const Node *n) {
    Graph *g = f->g;
    const Node *t = g->nodes.v[pick(f, g->nodes.n)];
    if (t == n || t->rank > 1 || !dtype_is_int(t->type)) return NULL;
    const Ix *at = t->rank ? bare_axis(f, n, t->axes[0].extent) : NULL;
    if (t->rank && !at) return NULL;
    return ix_value(g->ix, t->id, &at, t->rank);
}

static const Ix *position(Fuzz *f, const Node *n, const Ix *dim) {
    IxPool *p = f->g->ix;
    const Ix *x = one_in(f, 8) ? gather(f, n) : NULL;
    if (!x) x = bare_axis(f, n, dim);
    if (!x || one_in(f, 12)) x = n->naxes ? ix_axis(p, pick(f, n->naxes)) : ix_const(p, 0);
    switch (pick(f, 14)) {
    case 0: return ix_sub(p, ix_sub(p, dim, ix_const(p, 1)), x);
    case 1: return ix_add(p, x, ix_const(p, pick(f, 5) - 2));
    case 2: return ix_div(p, x, ix_const(p, 2));
    case 3: return ix_mod(p, x, ix_const(p, 2));
    case 4: return n->naxes ? ix_sub(p, x, ix_axis(p, pick(f, n->naxes))) : x;
    default: return x;
    }
}

static Operand read_node(Fuzz *f, const Node *n, int node) {
    Graph *g = f->g;
    Operand o;
    graph_map(g, &o, node);
    for (int d = 0; d < g->nodes.v[node]->rank; d++)
        o.map[d] = position(f, n, g->nodes.v[node]->axes[d].extent);
    rb_check_reads(g, n, n->naxes, &o);
    if (one_in(f, 30) && g->nodes.v[node]->rank) o.checked |= 1;
    return o;
}

static bool suits(DType t, char want) {
    if (want == 'b') return t == DT_bool;
    if (want == 'i') return dtype_is_int(t);
    if (want == 'n') return t != DT_bool;
    return true;
}

/* A late node is more likely: graphs are deep rather than wide. -1: none suits. */
static int choose(Fuzz *f, char want, const Node *reader) {
    Graph *g = f->g;
    for (int i = 0; i < 40; i++) {
        int a = pick(f, g->nodes.n), b = pick(f, g->nodes.n), id = a > b ? a : b;
        if (g->nodes.v[id] != reader && suits(g->nodes.v[id]->type, want)) return id;
    }
    return -1;
}

/* ---- nodes ---- */

static void set_axes(Fuzz *f, Node *n) {
    static const char *const name[] = {"i", "j", "k", "l", "m"};
    for (int d = 0; d < n->naxes; d++) n->axes[d] = (Axis){name[d], extent(f)};
}

static void add_const(Fuzz *f) {
    static const double real[] = {0, -0.0, 1, -1, 2, 0.5, -4, 3, 0.25, INFINITY, -INFINITY, NAN};
    static const DType type[] = {DT_f32, DT_f32, DT_i32, DT_i64, DT_bool};
    DType t = type[pick(f, 5)];
    Node *n = graph_node(f->g, N_CONST, t, 0, 0, 0);
    if (t == DT_f32)
        n->num = real[pick(f, 12)];
    else
        n->inum = t == DT_bool ? pick(f, 2) : pick(f, 6) - 2;
}

static void add_index(Fuzz *f) {
    IxPool *p = f->g->ix;
    Node *n = graph_node(f->g, N_INDEX, DT_i64, 0, 0, 0);
    n->rank = n->naxes = pick(f, 3);
    n->axes = ARENA_ARRAY(&f->arena, Axis, n->naxes);
    set_axes(f, n);
    n->ix = ix_const(p, pick(f, 4) - 1);
    for (int d = 0; d < n->naxes; d++)
        n->ix = ix_add(p, n->ix, ix_mul(p, ix_const(p, pick(f, 4) - 1), ix_axis(p, d)));
    if (one_in(f, 3)) n->ix = ix_add(p, n->ix, ix_size(p, pick(f, 3)));
}

static DType any_type(Fuzz *f) {
    static const DType t[] = {DT_f32, DT_f32, DT_bf16, DT_f16, DT_e4m3, DT_i32, DT_i8, DT_i64};
    return t[pick(f, 8)];
}

/* What an operand must be for the op's rule. */
static char wanted(Op op, int i) {
    switch (op_rule(op)) {
    case RULE_logic: return 'b';
    case RULE_select:
    case RULE_within: return i == 0 ? 'b' : 'n';
    case RULE_int:
    case RULE_rand: return 'i';
    case RULE_cast:
    case RULE_same: return '?';
    default: return 'n';
    }
}

static int divisor(Fuzz *f) {
    Node *n = graph_node(f->g, N_CONST, DT_i32, 0, 0, 0);
    n->inum = 1 + pick(f, 3);
    return n->id;
}

static Op any_op(Fuzz *f) {
    static const Op often[] = {OP_mul, OP_mul, OP_add, OP_div,    OP_within, OP_within, OP_neg,
                               OP_lt,  OP_ge,  OP_and, OP_select, OP_cast,   OP_copy};
    return one_in(f, 3) ? (Op)pick(f, OP_COUNT) : often[pick(f, 13)];
}

static void add_op(Fuzz *f) {
    Graph *g = f->g;
    Op op = any_op(f);
    int n_in = op_arity(op), in[5], before = g->nodes.n;
    DType type[5];
    for (int i = 0; i < n_in; i++) {
        in[i] = op_rule(op) == RULE_int && i ? divisor(f) : choose(f, wanted(op, i), NULL);
        if (in[i] < 0) return;
        type[i] = g->nodes.v[in[i]]->type;
    }
    const char *why;
    DType t = op == OP_cast ? any_type(f) : infer_op(op, type, n_in, &why);
    if (t == DT_none) {
        g->nodes.n = before;
        return;
    }
    int rank = pick(f, 4);
    Node *n = graph_node(g, N_OP, t, rank, rank, n_in);
    n->op = op;
    set_axes(f, n);
    for (int d = 0; d < rank && one_in(f, 2); d++) /* the axes of what it reads */
        if (d < g->nodes.v[in[0]]->rank) n->axes[d].extent = g->nodes.v[in[0]]->axes[d].extent;
    for (int i = 0; i < n_in; i++) n->in[i] = read_node(f, n, in[i]);
}

static void add_reduce(Fuzz *f) {
    Graph *g = f->g;
    static const Reduce often[] = {RED_sum, RED_sum, RED_sum, RED_max, RED_min, RED_prod};
    int arg = choose(f, 'n', NULL), cond = one_in(f, 2) ? choose(f, 'b', NULL) : -1;
    if (arg < 0) return;
    DType from = g->nodes.v[arg]->type;
    const char *why;
    Reduce red = often[pick(f, 6)];
    int rank = pick(f, 3), reduced = 1 + pick(f, 2);
    Node *n = graph_node(g, N_REDUCE, infer_reduce(red, &from, 1, &why), rank, rank + reduced,
                         cond >= 0 ? 2 : 1);
    n->red = red;
    set_axes(f, n);
    n->where = cond >= 0;
    for (int d = 0; d < g->nodes.v[arg]->rank && d < n->naxes; d++)
        n->axes[n->naxes - 1 - d].extent = g->nodes.v[arg]->axes[d].extent;
    n->in[0] = read_node(f, n, arg);
    if (n->where) n->in[1] = read_node(f, n, cond);
}

/* ---- graphs ---- */

static void add_param(Fuzz *f, bool out, int node, DType type, int rank, const Axis *axes) {
    static const char *const names[] = {"a", "b", "c", "d", "e", "p", "q", "r", "s", "t"};
    Param p = {.name = names[f->g->params.n], .type = type, .rank = rank, .out = out, .node = node};
    p.dims = ARENA_ARRAY(&f->arena, const Ix *, rank);
    for (int d = 0; d < rank; d++) p.dims[d] = axes[d].extent;
    vec_push(&f->arena, &f->g->params, p);
}

static void add_input(Fuzz *f) {
    DType type = one_in(f, 5) ? DT_bool : any_type(f);
    int rank = pick(f, 4);
    Node *n = graph_node(f->g, N_INPUT, type, rank, rank, 0);
    set_axes(f, n);
    n->param = f->g->params.n;
    add_param(f, false, n->id, type, rank, n->axes);
}

static void build(Fuzz *f, uint64_t seed) {
    Graph *g = f->g = graph_new(&f->arena, "t");
    static const char *const size[] = {"M", "N", "K"};
    f->state = seed;
    for (int i = 0; i < 3; i++)
        f->extent[i] = f->extent[i + 3] = ix_size(g->ix, graph_size(g, size[i], (Span){0}));
    f->extent[6] = ix_const(g->ix, pick(f, 4));
    for (int i = 0; i < 4; i++) add_input(f);
    int want = g->nodes.n + 4 + pick(f, 12);
    for (int i = 0; i < 200 && g->nodes.n < want; i++) {
        int kind = pick(f, 12);
        if (kind < 1)
            add_const(f);
        else if (kind < 2)
            add_index(f);
        else if (kind < 5)
            add_reduce(f);
        else
            add_op(f);
    }
    for (int i = 0, outs = 0; i < g->nodes.n && outs < 4; i++) {
        const Node *n = g->nodes.v[g->nodes.n - 1 - i];
        if (n->kind != N_OP && n->kind != N_REDUCE) continue;
        add_param(f, true, n->id, n->type, n->rank, n->axes);
        outs++;
    }
}

/* ---- checking ---- */

static void show(const char *title, const Graph *g) {
    Str s = {0};
    graph_print(&s, g);
    fprintf(stderr, "%s\n%s", title, str_get(&s));
    str_free(&s);
}

static bool round_trip(Arena *a, const Graph *g, Str *why) {
    Str s = {0}, again = {0};
    graph_print(&s, g);
    Diags d = {.arena = a};
    Graph *r = graph_parse(a, source_new(a, "t", str_get(&s), s.n), &d);
    if (r) graph_print(&again, r);
    bool ok = r && !strcmp(str_get(&s), str_get(&again));
    if (!ok) str_printf(why, "reads back as\n%s", str_get(&again));
    str_free(&s);
    str_free(&again);
    return ok;
}

static bool run(Fuzz *f, const char *passes, uint64_t seed, bool strict) {
    Graph *g = graph_clone(f->g, &f->arena);
    PassCtx cx = {.arena = &f->arena,
                  .target = target_at(0),
                  .fuse = true,
                  .strict = strict,
                  .short_rows = true};
    Check1 c = {.rounds = 5, .seed = seed, .near = 1e-4};
    Str why = {0};
    bool ok = true;
    for (const char *p = passes; *p && ok; p += strcspn(p, " ") + (p[strcspn(p, " ")] == ' ')) {
        const Pass *pass = pass_named(arena_strndup(&f->arena, p, strcspn(p, " ")));
        FK_ASSERT(pass);
        if (strict && pass->flags & PASS_ALG) continue;
        c.algebra |= (pass->flags & PASS_ALG) != 0;
        pass->run(&cx, g);
        ok = graph_verify(g, &why) && round_trip(&f->arena, g, &why);
        if (ok && pass->run(&cx, g) && !strcmp(pass->name, "fold")) {
            str_add(&why, "fold is not done after one run\n");
            ok = false;
        }
    }
    ok = ok && check_same(f->g, g, &c, &why);
    if (!ok) {
        fprintf(stderr, "seed %llu, %s: %s", (unsigned long long)seed, passes, str_get(&why));
        show("before", f->g);
        show("after", g);
    }
    str_free(&why);
    return ok;
}

/* All passes, down to tile programs: these verify, and mean the same. */
static bool run_down(Fuzz *f, uint64_t seed, bool fuse, bool strict) {
    Graph *g = graph_clone(f->g, &f->arena);
    PassCtx cx = {.arena = &f->arena,
                  .target = target_at(0),
                  .fuse = fuse,
                  .strict = strict,
                  .short_rows = true};
    Check1 c = {.rounds = 3, .seed = seed, .near = 1e-4, .algebra = true};
    Str why = {0};
    pass_run_all(&cx, g);
    bool ok = true;
    for (int i = 0; i < cx.plan->steps.n && ok; i++) {
        const Step *s = &cx.plan->steps.v[i];
        ok = tile_verify(s->tile, &why) && schedule_verify(s->schedules.v[0], s->tile, &why);
    }
    for (int split = 1; split <= 3 && ok; split += 2)
        ok = check_plan(f->g, cx.plan, split, &c, &why);
    if (!ok) {
        fprintf(stderr, "seed %llu, down to tiles%s%s: %s", (unsigned long long)seed,
                fuse ? "" : ", not fused", strict ? ", strict" : "", str_get(&why));
        show("before", f->g);
        show("after", g);
        Str s = {0};
        plan_print(&s, cx.plan, true, true);
        fputs(str_get(&s), stderr);
        str_free(&s);
    }
    str_free(&why);
    return ok;
}

static bool try_seed(uint64_t seed) {
    Fuzz f = {0};
    build(&f, seed);
    Str why = {0};
    bool ok = graph_verify(f.g, &why);
    if (!ok) fprintf(stderr, "seed %llu: %s", (unsigned long long)seed, str_get(&why));
    for (int i = 0; ok && pass_at(i); i++)
        if (!(pass_at(i)->flags & PASS_PLAN)) ok = run(&f, pass_at(i)->name, seed, false);
    ok = ok && run(&f, "fold cse dce contract linear fold cse domain", seed, false);
    ok = ok && run(&f, "fold cse dce contract domain", seed, true);
    ok = ok && run_down(&f, seed, true, false) && run_down(&f, seed, false, true);
    str_free(&why);
    arena_free(&f.arena);
    return ok;
}

int main(int argc, char **argv) {
    long graphs = argc > 1 ? atol(argv[1]) : 1000, seconds = argc > 2 ? atol(argv[2]) : 20;
    uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 0) : 1;
    time_t start = time(NULL);
    long done = 0, failed = 0;
    for (; done < graphs && time(NULL) - start < seconds && failed < 3; done++)
        failed += !try_seed(seed + (uint64_t)done);
    printf("%ld graphs from seed %llu, %ld failed\n", done, (unsigned long long)seed, failed);
    return failed != 0;
}
