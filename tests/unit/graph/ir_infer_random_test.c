/* Judgements of infer_bound against every point of small domains: a proof holds everywhere, a
 * launch check passes exactly where all reads are inside, "never" is never right.
 */
#include "graph_test.h"

static const char signature[] = "graph f {\n"
                                "  size S, T, H, K\n"
                                "  in a: f32[S, T, H, K] = %0\n"
                                "  in b: f32[H/4] = %1\n"
                                "  in c: f32[K/6, K/4] = %2\n"
                                "  %3: f32[s: S, t: T, h: H, k: K] = copy a[s, t, h, k]\n"
                                "  out y: f32[S, T, H, K] = %3\n"
                                "}\n";
enum { S, T, H, K, AXES };

static uint64_t seed = 1;

static int pick(int n) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (int)((seed >> 33) % (unsigned)n);
}

static Graph *g;

#define C(v)  ix_const(g->ix, v)
#define SZ(s) ix_size(g->ix, s)

typedef struct Case {
    bool axis[AXES]; /* in the domain */
    const Ix *extents[AXES], *index, *dim, *guard[2];
    int nguards;
} Case;

static const Ix *leaf(const Case *c) {
    int a = pick(AXES);
    if (c->axis[a] && pick(4)) return ix_axis(g->ix, a);
    return pick(2) ? SZ(pick(AXES)) : C(pick(9) - 2);
}

static const Ix *expr(const Case *c, int depth) {
    static const int divisor[] = {2, 3, 4, 6};
    if (!depth) return leaf(c);
    const Ix *x = expr(c, depth - 1);
    switch (pick(8)) {
    case 0: return ix_div(g->ix, x, C(divisor[pick(4)]));
    case 1: return ix_mod(g->ix, x, pick(2) ? SZ(pick(AXES)) : C(divisor[pick(4)]));
    case 2: return ix_mul(g->ix, x, C(pick(4) + 1));
    case 3: return ix_min(g->ix, x, leaf(c));
    case 4: return ix_max(g->ix, x, leaf(c));
    case 5: return ix_sub(g->ix, x, leaf(c));
    default: return ix_add(g->ix, x, leaf(c));
    }
}

static const Ix *dimension(void) {
    int s = pick(AXES);
    switch (pick(7)) {
    case 0: return ix_add(g->ix, SZ(S), SZ(T));
    case 1: return ix_div(g->ix, SZ(H), C(4));
    case 2: return ix_div(g->ix, SZ(K), C(pick(2) ? 4 : 6));
    case 3: return ix_mul(g->ix, SZ(s), C(2));
    case 4: return C(pick(4) + 1);
    case 5: return ix_div(g->ix, ix_add(g->ix, SZ(s), C(3)), C(4));
    default: return SZ(s);
    }
}

static Case random_case(void) {
    Case c = {.nguards = pick(3)};
    for (int a = 0; a < AXES; a++) c.axis[a] = pick(AXES) < 2;
    for (int a = 0; a < AXES; a++) c.extents[a] = c.axis[a] ? SZ(a) : NULL;
    c.index = expr(&c, pick(4));
    c.dim = dimension();
    for (int i = 0; i < c.nguards; i++) c.guard[i] = expr(&c, pick(3));
    return c;
}

/* What is seen of a case at one choice of sizes. */
typedef struct Seen {
    bool empty, defined;
    bool inside, inside_guarded; /* at every point; at those where the guards hold */
} Seen;

static void see_point(const Case *c, const IxEnv *env, int64_t dim, Seen *seen) {
    bool ok = true, hold = true;
    int64_t x = ix_eval(c->index, env, &ok);
    for (int i = 0; i < c->nguards; i++) hold &= ix_eval(c->guard[i], env, &ok) >= 0;
    bool in = x >= 0 && x < dim;
    seen->defined &= ok;
    seen->inside &= in;
    seen->inside_guarded &= in || !hold;
    seen->empty = false;
}

static Seen see(const Case *c, const int64_t *size) {
    Seen seen = {true, true, true, true};
    int64_t at[AXES], end[AXES];
    for (int a = 0; a < AXES; a++) end[a] = c->axis[a] ? size[a] : 1;
    IxEnv env = {.size = size, .axis = at};
    int64_t dim = ix_eval(c->dim, &env, &seen.defined);
    for (at[S] = 0; at[S] < end[S]; at[S]++)
        for (at[T] = 0; at[T] < end[T]; at[T]++)
            for (at[H] = 0; at[H] < end[H]; at[H]++)
                for (at[K] = 0; at[K] < end[K]; at[K]++) see_point(c, &env, dim, &seen);
    return seen;
}

static void agrees(const Case *c, const BoundResult *b, bool guards, const int64_t *size) {
    Seen seen = see(c, size);
    if (seen.empty || !seen.defined) return;
    bool all = guards && b->guarded ? seen.inside_guarded : seen.inside;
    bool positive = size[S] && size[T] && size[H] && size[K], ok = true;
    if (b->bound == BOUND_PROVED) ok = all;
    if (b->bound == BOUND_NEVER && !b->guarded) ok = !positive || !seen.inside;
    if (b->bound == BOUND_LAUNCH) {
        IxEnv env = {.size = size};
        bool defined = true;
        bool pass = ix_eval(b->lo, &env, &defined) >= 0 &&
                    ix_eval(b->hi, &env, &defined) < ix_eval(c->dim, &env, &defined);
        if (!defined) return;
        ok = b->guarded ? !pass || all : pass == all;
    }
    if (!ok)
        fail_msg("%s over %s, bound %d%s, lo %s hi %s, guards %s and %s, S %d T %d H %d K %d",
                 ix_text(g, 3, c->index), ix_text(g, 3, c->dim), (int)b->bound,
                 b->guarded ? " guarded" : "", ix_text(g, 3, b->lo), ix_text(g, 3, b->hi),
                 ix_text(g, 3, c->nguards > 0 ? c->guard[0] : NULL),
                 ix_text(g, 3, c->nguards > 1 ? c->guard[1] : NULL), (int)size[S], (int)size[T],
                 (int)size[H], (int)size[K]);
}

static void at_all_sizes(const Case *c, const BoundResult *b, bool guards) {
    static const int64_t small[] = {0, 1, 2, 5}, fours[] = {0, 4, 8}, twelves[] = {0, 12};
    for (int s = 0; s < 4; s++)
        for (int t = 0; t < 4; t++)
            for (int h = 0; h < 3; h++)
                for (int k = 0; k < 2; k++)
                    agrees(c, b, guards, (int64_t[]){small[s], small[t], fours[h], twelves[k]});
}

static void test_bounds(void **state) {
    (void)state;
    int count[4] = {0};
    for (int round = 0; round < 1000; round++) {
        if (round % 50 == 0) {
            arena_free(&arena);
            g = parse(signature);
        }
        Case c = random_case();
        BoundResult b = infer_bound(g, c.index, c.dim, c.extents, AXES, NULL, 0);
        at_all_sizes(&c, &b, false);
        count[b.bound]++;
        if (!c.nguards) continue;
        b = infer_bound(g, c.index, c.dim, c.extents, AXES, c.guard, c.nguards);
        at_all_sizes(&c, &b, true);
    }
    /* the test sees something of each */
    for (int i = 0; i < 4; i++)
        if (count[i] < 20) fail_msg("only %d of bound %d", count[i], i);
}

int main(void) {
    const struct CMUnitTest tests[] = {TEST(test_bounds)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
