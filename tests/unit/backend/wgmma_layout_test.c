/* wgmma_layout_test.c - where a factor lies in shared memory, seen from both sides. One side is
 * TMA: boxes line by line, each address with its bits swizzled. The other is wgmma: from a
 * descriptor, the instruction's flags and the canonical layouts, which address holds (row, k) of an
 * operand. Every element that every group multiplies must be the one that TMA put there, for all
 * orders and types of both factors, all tiles and all pieces of them. The offsets and flags in the
 * PTX must be those of this model.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "backend/backend.h"
#include "backend/nvptx/desc_int.h"

/* ---- programs ------------------------------------------------------------------------------- */

typedef struct Case {
    const char *a, *b, *type; /* indices of the factors, their type */
    int m, n, k, groups;
    bool pingpong;
    int a_swizzle, b_swizzle, pieces;
} Case;

typedef struct Made {
    Arena arena;
    TProg *t;
    Schedule *s;
    Mma m;
    MmaTiles w;
} Made;

/* "b, m, k" -> "B, M, K" */
static const char *dims(Arena *a, const char *index) {
    char *up = arena_strdup(a, index);
    for (char *c = up; *c; c++)
        if (*c >= 'a' && *c <= 'z') *c = (char)(*c - 'a' + 'A');
    return up;
}

static bool make(Made *x, const Case *c, Str *why) {
    memset(x, 0, sizeof *x);
    Arena *a = &x->arena;
    Diags d = {.arena = a};
    bool batch = strchr(c->a, 'b') || strchr(c->b, 'b');
    const char *tile = arena_printf(
        a,
        "tile t.0 {\n  size B, M, N, K\n  in x: %s[%s] = 0\n  in w: %s[%s] = 1\n"
        "  out y: f32[%sM, N] = 2\n%s  grid m: M\n  grid n: N\n  axis k: K\n"
        "  loop k from 0 to K {\n    carry %%1: f32 = sum\n    %%2: %s = load x[%s]\n"
        "    %%3: %s = load w[%s]\n    %%4: f32 = mul %%2, %%3\n    step %%1, %%4\n  }\n"
        "  store y[%sm, n], %%1\n}\n",
        c->type, dims(a, c->a), c->type, dims(a, c->b), batch ? "B, " : "",
        batch ? "  grid b: B\n" : "", c->type, c->a, c->type, c->b, batch ? "b, " : "");
    const char *sch =
        arena_printf(a,
                     "schedule s for t.0 target sm_90a {\n  move tma\n  mul wgmma\n  threads %d\n"
                     "  axis m tile %d\n  axis n tile %d\n  axis k tile %d\n"
                     "  value %%2 place smem buffers 2 swizzle %d\n"
                     "  value %%3 place smem buffers 2 swizzle %d\n  role load warps 4 regs 24\n"
                     "  role mma warps %d regs %d\n%s%s  persistent\n}\n",
                     128 * (1 + c->groups), c->m, c->n, c->k, c->a_swizzle, c->b_swizzle,
                     4 * c->groups, c->groups == 1 ? 232 : 240,
                     c->pieces ? arena_printf(a, "  promote %d pieces %d\n", c->k, c->pieces) : "",
                     c->pingpong ? "  pingpong\n" : "");
    x->t = tile_parse(a, source_new(a, "t", tile, strlen(tile)), &d);
    if (x->t) x->s = schedule_parse(a, source_new(a, "s", sch, strlen(sch)), x->t, &d);
    if (!x->s) {
        Str s = {0};
        diag_print(&d, &s, false);
        fail_msg("%s", str_get(&s));
    }
    return mma_schedule(x->t, x->s, &x->m, &x->w, why);
}

/* ---- TMA: what lies where ------------------------------------------------------------------- */

enum { BASE = 8192, MEMORY = BASE + 65536, NOTHING = -1 };

static uint32_t swizzled(uint32_t address, int bytes) {
    uint32_t mask = bytes == 128 ? 7 : bytes == 64 ? 3 : 1;
    return address ^ (address >> 7 & mask) << 4;
}

/* memory[address / size] becomes row * k + k of the element there. */
static void copy_boxes(int *memory, const MmaSmem *s, int k, int size, uint32_t to) {
    for (int box = 0; box < s->boxes; box++)
        for (int r = 0; r < s->box; r++)
            for (int i = 0; i < k; i++) {
                int line = s->mn ? i : r, in_line = s->mn ? r : i;
                uint32_t at = to + (uint32_t)(box * s->box_bytes + line * s->swizzle);
                at = swizzled(at + (uint32_t)(in_line * size), s->swizzle);
                int *element = &memory[at / (uint32_t)size];
                assert_int_equal(*element, NOTHING); /* no two in one place */
                *element = (box * s->box + r) * k + i;
            }
}

/* ---- wgmma: what it reads ------------------------------------------------------------------- */

static uint32_t field(uint64_t desc, int at) {
    return (uint32_t)(desc >> at & 0x3fff) * 16;
}

/* The canonical layouts: 16 bytes are a unit; 8 units, 4 or 2 a line of the swizzle. */
static uint32_t address(uint64_t desc, bool mn, int row, int k, int size) {
    uint32_t start = field(desc, 0), lead = field(desc, 16), stride = field(desc, 32), at;
    int bytes = (int[]){0, 128, 64, 32}[desc >> 62];
    int line = bytes / size; /* elements */
    if (mn)
        at = start + (uint32_t)(row / line) * lead + (uint32_t)(row % line * size) +
             (uint32_t)(k / 8) * stride + (uint32_t)(k % 8 * bytes);
    else
        at = start + (uint32_t)(row / 8) * stride + (uint32_t)(row % 8 * bytes + k * size);
    return swizzled(at, bytes);
}

/* An operand of one instruction: rows [0, rows) from row0 on, k from k0 on. */
static void read_operand(const int *memory, uint64_t desc, bool mn, int rows, int row0, int k0,
                         int depth, int size) {
    for (int r = 0; r < rows; r++)
        for (int i = 0; i < 32 / size; i++) {
            uint32_t at = address(desc, mn, r, i, size);
            assert_true(at < MEMORY);
            assert_int_equal(memory[at / (uint32_t)size], (row0 + r) * depth + k0 + i);
        }
}

static uint64_t descriptor(const WgmmaOperand *o, uint32_t start, int offset) {
    return (uint64_t)o->high << 32 | (start / 16 + o->low + (uint32_t)offset);
}

static void check(const Case *c) {
    Made x;
    Str why = {0};
    if (!make(&x, c, &why)) fail_msg("%s", str_get(&why));
    int size = x.m.size, *memory = malloc(MEMORY * sizeof *memory);
    for (int i = 0; i < MEMORY; i++) memory[i] = NOTHING;
    const MmaTiles *w = &x.w;
    uint32_t at_b = BASE + (uint32_t)w->a.bytes;
    assert_int_equal(w->stage_bytes % 1024, 0);
    assert_int_equal(w->a.boxes * w->a.box, c->m);
    assert_int_equal(w->b.boxes * w->b.box, c->n);
    assert_true(w->a.box <= 256 && w->b.box <= 256); /* as TMA has it */
    WgmmaOperand a = wgmma_operand(&w->a), b = wgmma_operand(&w->b);
    for (int factor = 0; factor < 2; factor++) {
        const MmaSmem *s = factor ? &w->b : &w->a;
        copy_boxes(memory, s, c->k, size, factor ? at_b : BASE);
        int groups = c->pingpong || factor ? 1 : c->groups;
        int blocks = factor ? 1 : w->group_rows / 64;
        for (int step = 0; step < c->k * size / 32; step++) {
            int k0 = step * 32 / size;
            int n = c->pieces ? w->piece_n : c->n;
            for (int col = 0; factor && col < c->n; col += n) {
                int offset = step * b.step + mma_smem_row(s, col) / 16;
                read_operand(memory, descriptor(&b, at_b, offset), b.mn, n, col, k0, c->k, size);
            }
            if (factor) continue;
            for (int g = 0; g < groups; g++)
                for (int m = 0; m < blocks; m++) {
                    int offset = g * (w->group_rows / 64) * a.block + m * a.block + step * a.step;
                    read_operand(memory, descriptor(&a, BASE, offset), a.mn, 64,
                                 g * w->group_rows + m * 64, k0, c->k, size);
                }
        }
        for (int i = 0; i < MEMORY; i++) memory[i] = NOTHING;
    }
    free(memory);
    str_free(&why);
    arena_free(&x.arena);
}

static void k_major(void **state) {
    (void)state;
    check(&(Case){"m, k", "n, k", "bf16", 128, 256, 64, 2, false, 128, 128, 0});
    check(&(Case){"m, k", "n, k", "f16", 256, 128, 64, 2, false, 128, 128, 0});
    check(&(Case){"m, k", "n, k", "bf16", 192, 128, 64, 2, true, 128, 128, 0});
    check(&(Case){"m, k", "n, k", "bf16", 64, 24, 64, 1, false, 128, 128, 0});
}

static void mn_major(void **state) {
    (void)state;
    static const char *const as[] = {"m, k", "k, m"}, *const bs[] = {"n, k", "k, n"};
    static const int tile[][3] = {{128, 256, 0}, {256, 128, 0}, {192, 128, 1}, {128, 128, 1},
                                  {128, 192, 0}, {64, 128, 1},  {64, 64, 1}};
    for (int o = 0; o < 4; o++)
        for (size_t i = 0; i < sizeof tile / sizeof *tile; i++)
            check(&(Case){as[o & 1], bs[o >> 1], "bf16", tile[i][0], tile[i][1], 64, 2, tile[i][2],
                          128, 128, 0});
}

/* Columns that are no multiple of 64 lie in narrower boxes. */
static void narrow(void **state) {
    (void)state;
    check(&(Case){"m, k", "k, n", "bf16", 64, 32, 64, 2, true, 128, 64, 0});
    check(&(Case){"k, m", "k, n", "f16", 128, 160, 64, 2, false, 128, 64, 0});
    check(&(Case){"k, m", "k, n", "f16", 128, 48, 64, 2, false, 128, 32, 0});
    check(&(Case){"k, m", "k, n", "f16", 128, 64, 64, 2, false, 64, 32, 0});
    check(&(Case){"b, k, m", "k, b, n", "bf16", 128, 64, 64, 2, false, 32, 64, 0});
}

/* 128 elements of k a stage, as many bytes as of other types. */
static void fp8(void **state) {
    (void)state;
    check(&(Case){"m, k", "n, k", "e4m3", 128, 192, 128, 2, true, 128, 128, 0});
    check(&(Case){"m, k", "n, k", "e5m2", 128, 256, 128, 2, false, 128, 128, 0});
    check(&(Case){"m, k", "b, n, k", "e4m3", 64, 24, 128, 1, false, 128, 128, 0});
}

static void pieces(void **state) {
    (void)state;
    check(&(Case){"m, k", "n, k", "e4m3", 128, 192, 128, 2, false, 128, 128, 1});
    check(&(Case){"m, k", "n, k", "e4m3", 128, 256, 128, 2, false, 128, 128, 2});
    check(&(Case){"m, k", "n, k", "e4m3", 128, 192, 128, 2, false, 128, 128, 4});
    check(&(Case){"m, k", "n, k", "e4m3", 256, 128, 128, 2, false, 128, 128, 2});
    check(&(Case){"m, k", "n, k", "e4m3", 256, 128, 128, 2, false, 128, 128, 4});
    check(&(Case){"m, k", "n, k", "e4m3", 128, 96, 128, 2, true, 128, 128, 2});
    check(&(Case){"k, m", "k, n", "bf16", 128, 256, 64, 2, false, 128, 128, 2});
    check(&(Case){"m, k", "k, n", "f16", 128, 160, 64, 2, false, 128, 64, 5});
}

static void refuses(const Case *c, const char *part) {
    Made x;
    Str why = {0};
    if (make(&x, c, &why)) fail_msg("taken, but: %s", part);
    if (!strstr(str_get(&why), part)) fail_msg("no '%s' in: %s", part, str_get(&why));
    str_free(&why);
    arena_free(&x.arena);
}

static void refused(void **state) {
    (void)state;
    refuses(&(Case){"m, k", "k, n", "bf16", 128, 32, 64, 2, false, 128, 128, 0},
            "a tile of 32 does not cut into boxes of 64 of w");
    refuses(&(Case){"m, k", "k, n", "bf16", 128, 24, 64, 2, false, 128, 32, 0},
            "a tile of 24 does not cut into boxes of 16 of w");
    refuses(&(Case){"m, k", "n, k", "bf16", 128, 128, 64, 2, false, 128, 64, 0},
            "w has a swizzle of 64");
    refuses(&(Case){"k, m", "n, k", "bf16", 128, 128, 64, 2, false, 16, 128, 0},
            "x has a swizzle of 16");
    refuses(&(Case){"m, k", "n, k", "bf16", 128, 128, 128, 2, false, 128, 128, 0},
            "a stage has 64 elements of k of x, not 128");
    refuses(&(Case){"b, m, k", "k, n, b", "bf16", 128, 128, 64, 2, false, 128, 128, 0},
            "neither k nor the rows are the last dimension of w");
    refuses(&(Case){"m, k", "k, n", "e4m3", 128, 128, 128, 2, false, 128, 128, 0},
            "k is not the last dimension of w, as fp8 needs it");
    refuses(&(Case){"m, k", "n, k", "e4m3", 128, 128, 64, 2, false, 128, 128, 0},
            "a stage has 128 elements of k of x, not 64");
    refuses(&(Case){"m, k", "n, k", "e4m3", 128, 200, 128, 2, false, 128, 128, 2},
            "64 rows and 200 columns do not cut into 2 pieces");
    refuses(&(Case){"m, k", "n, k", "e4m3", 256, 128, 128, 2, false, 128, 128, 3},
            "128 rows and 128 columns do not cut into 3 pieces");
    refuses(&(Case){"m, k", "k, n", "bf16", 128, 192, 64, 2, false, 128, 128, 2},
            "64 rows and 192 columns do not cut into 2 pieces"); /* 96 is no box of 64 */
    refuses(&(Case){"m, k", "n, k", "e4m3", 128, 256, 128, 2, false, 128, 128, 1},
            "256 accumulators in 240 registers");
}

/* ---- what the PTX says ---------------------------------------------------------------------- */

static int number_after(const char **at, const char *what) {
    const char *p = strstr(*at, what);
    if (!p) fail_msg("no '%s' in the PTX", what);
    *at = p + strlen(what);
    return (int)strtoll(*at, NULL, 10);
}

/* Past "add.s32 lo, REG, " */
static int offset_after(const char **at) {
    number_after(at, "add.s32 lo, ");
    return number_after(at, ", ");
}

static void same_in_ptx(const Case *c, int copies) {
    Made x;
    Str why = {0};
    Kernel k;
    if (!make(&x, c, &why)) fail_msg("%s", str_get(&why));
    Step step = {.name = x.t->name, .tile = x.t};
    BackendOptions o = {.target = target_named("sm_90a")};
    Diags d = {.arena = &x.arena};
    assert_true(backend_lower(&x.arena, NULL, &step, x.s, &o, &d, &k, NULL));
    WgmmaOperand a = wgmma_operand(&x.w.a), b = wgmma_operand(&x.w.b);
    const char *at = k.ptx, *mma, *flags = ", 1, 1;";
    if (x.m.size == 2) flags = arena_printf(&x.arena, ", 1, 1, %d, %d;", a.mn, b.mn);
    assert_int_equal((uint32_t)number_after(&at, "mov.b32 ha, "), a.high);
    assert_int_equal((uint32_t)number_after(&at, "mov.b32 hb, "), b.high);
    for (int i = 0; i < 4; i++)
        for (int m = 0; m < x.w.group_rows / 64; m++) {
            assert_int_equal(offset_after(&at), m * a.block + i * a.step);
            assert_int_equal(offset_after(&at), i * b.step);
            mma = at = strstr(at, "wgmma.mma_async");
            assert_non_null(mma);
            const char *end = strchr(mma, ';');
            assert_memory_equal(end + 1 - strlen(flags), flags, strlen(flags));
        }
    int n = 0;
    for (const char *p = k.ptx; (p = strstr(p, "global.tile.mbarrier")); p++) n++;
    assert_int_equal(n, copies);
    const KTmap *box = &k.params.v[1].map;
    assert_int_equal(box->swizzle, x.w.b.swizzle);
    assert_int_equal(box->box[0], b.mn ? x.w.b.box : c->k);
    str_free(&why);
    arena_free(&x.arena);
}

static void ptx(void **state) {
    (void)state;
    same_in_ptx(&(Case){"m, k", "n, k", "bf16", 128, 256, 64, 2, false, 128, 128, 0}, 4 + 8);
    same_in_ptx(&(Case){"m, k", "k, n", "bf16", 128, 256, 64, 2, false, 128, 128, 0}, 4 + 4);
    same_in_ptx(&(Case){"k, m", "n, k", "f16", 256, 128, 64, 2, false, 128, 128, 0}, 4 + 4);
    same_in_ptx(&(Case){"k, m", "k, n", "bf16", 192, 128, 64, 2, true, 128, 128, 0}, 3 + 2);
    same_in_ptx(&(Case){"m, k", "k, n", "bf16", 64, 32, 64, 2, true, 128, 64, 0}, 2 + 1);
    same_in_ptx(&(Case){"m, k", "n, k", "e5m2", 128, 192, 128, 2, true, 128, 128, 0}, 4 + 6);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(k_major), cmocka_unit_test(mn_major), cmocka_unit_test(narrow),
        cmocka_unit_test(fp8),     cmocka_unit_test(pieces),   cmocka_unit_test(refused),
        cmocka_unit_test(ptx),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
