/* wgmma_vector_test.c - products of a matrix and a vector on the wgmma tier: how the factors are
 * found, what is brought of a vector, what a launch must bring, what is refused; and from where on
 * TMA may read at all.
 */
#include "backend/backend.h"
#include "ir/mma.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static Arena arena;

/* row: its extent; dims: of x; x, w: what is read. */
static TProg *program(const char *row, const char *dims, const char *x, const char *w) {
    Diags d = {.arena = &arena};
    Str why = {0};
    bool rows = strstr(x, "row");
    const char *text = arena_printf(
        &arena,
        "tile t.0 {\n  size B, N, K\n  in x: bf16[%s] = 0\n  in w: bf16[B, N, K] = 1\n"
        "  out y: f32[%sB, N] = 2\n  grid row: %s\n  grid b: B\n  grid n: N\n  axis k: K\n"
        "  loop k from 0 to K {\n    carry %%1: f32 = sum\n    %%2: bf16 = load x[%s]\n"
        "    %%3: bf16 = load w[%s]\n    %%4: f32 = mul %%2, %%3\n    step %%1, %%4\n  }\n"
        "  store y[%sb, n], %%1\n}\n",
        dims, rows ? "1, " : "", row, x, w, rows ? "row, " : "");
    TProg *t = tile_parse(&arena, source_new(&arena, "t", text, strlen(text)), &d);
    assert_non_null(t);
    if (!tile_verify(t, &why)) fail_msg("%s", str_get(&why));
    return t;
}

static Schedule *schedule(const TProg *t, const char *axes, const char *kind, const char *more) {
    Diags d = {.arena = &arena};
    const char *text = arena_printf(
        &arena,
        "schedule s for t.0 target sm_90a {\n  move tma\n  mul wgmma\n  threads 256\n%s"
        "  axis k tile 64\n  value %%2 place smem buffers 8 swizzle 128%s\n"
        "  value %%3 place smem buffers 8 swizzle 128%s\n  role load warps 4 regs 152\n"
        "  role mma warps 4 regs 232\n%s  persistent\n}\n",
        axes, kind, kind, more);
    Schedule *s = schedule_parse(&arena, source_new(&arena, "s", text, strlen(text)), t, &d);
    assert_non_null(s);
    return s;
}

#define ROW_N "  axis row tile 64\n  axis n tile 64\n"
#define N_ROW "  axis n tile 64\n  axis row tile 64\n"

/* ---- factors -------------------------------------------------------------------------------- */

static Mma found(const TProg *t) {
    Mma m;
    Str why = {0};
    if (!mma_find(t, -1, -1, &m, &why)) fail_msg("%s", str_get(&why));
    return m;
}

static void k_last(void **state) {
    (void)state;
    Mma m = found(program("1", "B, K", "b, k", "b, n, k"));
    assert_int_equal(m.rows, 0);
    assert_int_equal(m.cols, 2);
    assert_true(m.a.vector && m.a.k_major);
    assert_int_equal(m.a.row, -1);
    assert_int_equal(m.a.depth, 1);
    assert_false(m.b.vector);
    assert_int_equal(m.b.row, 1);
    m = found(program("1", "K", "k", "0, n, k"));
    assert_int_equal(m.a.row, -1);
    assert_int_equal(m.a.depth, 0);
}

static void k_not_last(void **state) {
    (void)state;
    Mma m = found(program("1", "K, B", "k, b", "b, n, k"));
    assert_true(m.a.vector && !m.a.k_major);
    assert_int_equal(m.a.row, 1);
}

static void not_found(const TProg *t, const char *reason) {
    Mma m;
    Str why = {0};
    if (mma_find(t, -1, -1, &m, &why)) fail_msg("found, but: %s", reason);
    if (!strstr(str_get(&why), reason)) fail_msg("%s\nnot: %s", str_get(&why), reason);
    str_free(&why);
}

static void others(void **state) {
    (void)state;
    not_found(program("1", "B, K", "b, k", "b, 0, k"), "both factors are vectors");
    not_found(program("2", "B, K", "b, k", "b, n, k"), "a factor has no axis of its own");
}

/* ---- kernels -------------------------------------------------------------------------------- */

static Kernel lowered(TProg *t, const Schedule *s) {
    Str why = {0};
    if (!schedule_verify(s, t, &why)) fail_msg("%s", str_get(&why));
    Step step = {.name = t->name, .tile = t};
    BackendOptions o = {.target = target_named("sm_90a")};
    Diags d = {.arena = &arena};
    Kernel k = {0};
    assert_true(backend_lower(&arena, NULL, &step, s, &o, &d, &k, NULL));
    return k;
}

static const KTmap *map_of(const Kernel *k, int tensor) {
    for (int i = 0; i < k->params.n; i++)
        if (k->params.v[i].kind == KP_TMAP && k->params.v[i].index == tensor)
            return &k->params.v[i].map;
    return NULL;
}

static int guards(const Kernel *k, KGuardKind kind, int tensor) {
    int n = 0;
    for (int i = 0; i < k->guards.n; i++)
        n += k->guards.v[i].kind == kind && k->guards.v[i].index == tensor;
    return n;
}

/* One line of a vector is brought, of the matrix boxes. */
static void lines(void **state) {
    (void)state;
    static const char *const order[] = {ROW_N, N_ROW};
    for (int i = 0; i < 2; i++) {
        TProg *t = program("1", "B, K", "b, k", "b, n, k");
        Kernel k = lowered(t, schedule(t, order[i], "", ""));
        const KTmap *x = map_of(&k, 0), *w = map_of(&k, 1);
        assert_int_equal(x->rank, 2);
        assert_int_equal(x->box[0], 64);
        assert_int_equal(x->box[1], 1);
        assert_int_equal(w->box[1], 32);
        assert_non_null(strstr(k.ptx, "cp.async.bulk.tensor.2d"));
        assert_int_equal(guards(&k, KG_ALIGN, 0), 1);
        assert_int_equal(guards(&k, KG_STRIDE, 0), 1);
    }
    TProg *t = program("1", "K", "k", "0, n, k");
    Kernel k = lowered(t, schedule(t, N_ROW, "", ""));
    assert_int_equal(map_of(&k, 0)->rank, 1);
    assert_non_null(strstr(k.ptx, "cp.async.bulk.tensor.1d"));
    assert_int_equal(guards(&k, KG_STRIDE, 0), 0);
    k = lowered(t, schedule(t, ROW_N, " plain", ""));
    assert_null(map_of(&k, 0));
    assert_int_equal(guards(&k, KG_ALIGN, 0), 0);
    assert_int_equal(guards(&k, KG_STRIDE_NEAR, 0), 0); /* there is no next line */
    assert_int_equal(guards(&k, KG_STRIDE_NEAR, 1), 1);
}

static void refuses(const TProg *t, const Schedule *s, const char *part) {
    Str why = {0};
    if (schedule_verify(s, t, &why)) fail_msg("taken, but: %s", part);
    if (!strstr(str_get(&why), part)) fail_msg("no '%s' in: %s", part, str_get(&why));
    str_free(&why);
}

static void refused(void **state) {
    (void)state;
    TProg *t = program("1", "B, K", "b, k", "b, n, k");
    refuses(t, schedule(t, ROW_N, "", "  cluster 1 2 1\n"), "two CTAs share a factor of one row");
    refuses(t, schedule(t, "  axis b tile 64\n  axis n tile 64\n", "", ""),
            "a factor has no axis of its own");
    t = program("1", "K, B", "k, b", "b, n, k");
    refuses(t, schedule(t, ROW_N, "", ""), "x begins at no multiple of 16 bytes");
    lowered(t, schedule(t, ROW_N, " plain", ""));
}

/* ---- where boxes begin ---------------------------------------------------------------------- */

/* Of a matrix x of bf16 whose last index is `last`, as text of what must be a multiple of 8; NULL.
 */
static const char *begins(const char *last) {
    TProg *t = program("1", "K, 8*B + 8*N", arena_printf(&arena, "k, %s", last), "b, n, k");
    Mma m = found(t);
    int unit;
    const Ix *x = mma_begins(&m, m.a.load, &unit);
    assert_int_equal(unit, 8);
    if (!x) return NULL;
    static const char *const size[] = {"B", "N", "K"};
    Str s = {0};
    ix_print(&s, x, &(IxNames){.size = size});
    const char *text = arena_strdup(&arena, str_get(&s));
    str_free(&s);
    return text;
}

static void boxes(void **state) {
    (void)state;
    assert_string_equal(begins("0"), "0");
    assert_string_equal(begins("row"), "0");
    assert_string_equal(begins("row + 16"), "16");
    assert_string_equal(begins("8*b"), "0");
    assert_string_equal(begins("8*b + N"), "N");
    assert_null(begins("b"));
    assert_null(begins("row + 1"));
    assert_null(begins("row + 12"));
    assert_null(begins("4*b"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(k_last), cmocka_unit_test(k_not_last), cmocka_unit_test(others),
        cmocka_unit_test(lines),  cmocka_unit_test(refused),    cmocka_unit_test(boxes),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    arena_free(&arena);
    return failed;
}
