/* tile_test.c - texts and verifiers of tile programs and schedules. */
#include "test.h"

#include <stdlib.h>
#include <string.h>

#include "ir/ir.h"

static const char full[] =
    "tile \"odd name\" {\n"
    "  size S, T, E\n"
    "  in q: bf16[S, E] = 0\n"
    "  in k: bf16[T, E] = 1\n"
    "  in v: u4[T, 2*E] = 2\n"
    "  in len: i32 = 3\n"
    "  out o: f32[S, E] = 4\n"
    "  temp t0: f32[S] = 0\n"
    "  grid i: S\n"
    "  grid e: E tile 64\n"
    "  axis j: T tile 32\n"
    "  axis c: E\n"
    "  %0: i32 = load len\n"
    "  %1: f32 = const -0.5\n"
    "  %2: i64 = const -3\n"
    "  %3: f32 = const -inf\n"
    "  loop j from 0 to min(%0, i + 1) @ 7 {\n"
    "    carry %4 m: f32 = max\n"
    "    carry %5 l: f32 = sum frame %4 rescale (old new sub exp)\n"
    "    carry %6: f32 = sum frame %4 rescale (old new sub %1 mul exp) finish 0 lag 1 "
    "bound 8\n"
    "    loop c from 0 to E {\n"
    "      carry %7: f32 = sum\n"
    "      %8: bf16 = load q[i, c]\n"
    "      %9: bf16 = load k[j, c]\n"
    "      %10: f32 = mul %8, %9 @ 12\n"
    "      step %7, %10\n"
    "    }\n"
    "    step %4, %7\n"
    "    %11: f32 = sub %7, %4\n"
    "    %12: f32 = exp %11\n"
    "    step %5, %12\n"
    "    %13: i64 = index e - j\n"
    "    %14: bool = lt %13, %2\n"
    "    guard %14 @ 3 {\n"
    "      %15: u4 = load v[j - 1?, e + %0?]\n"
    "      %16: f32 = mul %12, %15\n"
    "      step %6, %16\n"
    "    }\n"
    "  }\n"
    "  %17: f32 = div %6, %5\n"
    "  store o[i, e], %17 @ 5\n"
    "  store t0[i], %4\n"
    "}\n";

typedef struct Ctx {
    Arena a;
    Diags d;
} Ctx;

static TProg *parse(Ctx *c, const char *text) {
    c->d.arena = &c->a;
    return tile_parse(&c->a, source_new(&c->a, "t", text, strlen(text)), &c->d);
}

static Schedule *parse_schedule(Ctx *c, const TProg *t, const char *text) {
    c->d.arena = &c->a;
    return schedule_parse(&c->a, source_new(&c->a, "s", text, strlen(text)), t, &c->d);
}

static void close(Ctx *c) {
    arena_free(&c->a);
    *c = (Ctx){0};
}

static void tile_text_reads_back(void **st) {
    (void)st;
    Ctx c = {0};
    TProg *t = parse(&c, full);
    if (!t) fail_msg("%s", c.d.list.v[0].text);
    Str out = {0}, why = {0};
    tile_print(&out, t);
    assert_string_equal(str_get(&out), full);
    if (!tile_verify(t, &why)) fail_msg("%s", str_get(&why));
    assert_int_equal(t->ngrid, 2);
    assert_int_equal(t->axes.v[2].tile, 32);
    const TInst *loop = t->body.inst.v[4];
    assert_int_equal(loop->kind, T_LOOP);
    assert_int_equal(loop->carries.n, 3);
    assert_int_equal(loop->carries.v[2].lag, 1);
    assert_true(loop->carries.v[2].bound == 8 && loop->carries.v[2].has_finish);
    assert_int_equal(loop->carries.v[1].rescale.n, 4);
    str_free(&out);
    close(&c);
}

/* `full` with one piece of text replaced: what the verifier, or the reader, says of it. */
static void refuse(const char *from, const char *to, const char *message) {
    Ctx c = {0};
    const char *at = strstr(full, from);
    assert_non_null(at);
    Str text = {0}, why = {0};
    str_addn(&text, full, (size_t)(at - full));
    str_add(&text, to);
    str_add(&text, at + strlen(from));
    TProg *t = parse(&c, str_get(&text));
    if (t && tile_verify(t, &why)) fail_msg("accepted: %s", to);
    const char *said = t ? str_get(&why) : c.d.list.v[0].text;
    if (!strstr(said, message)) fail_msg("'%s' became: %s", to, said);
    str_free(&text);
    str_free(&why);
    close(&c);
}

static void tile_faults(void **st) {
    (void)st;
    refuse("step %5, %12", "step %5, %16", "%16 is not visible here");
    refuse("%17: f32 = div", "%16: f32 = div", "%16 is defined twice");
    refuse("store o[i, e], %17", "store q[i, e], %17", "a store to the input q");
    refuse("store o[i, e]", "store o[i, c]", "axis 3 is not open here");
    refuse("store o[i, e], %17", "store o[i], %17", "expected ','");
    refuse("%10: f32 = mul", "%10: i32 = mul", "gives f32, found i32");
    refuse("%15: u4 = load", "%15: i4 = load", "v is u4, found i4");
    refuse("guard %14", "guard %12", "%12 is no condition");
    refuse("step %4, %7", "step %3, %7", "%3 is no carry of a loop around");
    refuse("%11: f32 = sub %7, %4", "%11: f32 = sub %7, %5", "is a state inside of its loop");
    refuse("l: f32 = sum frame %4", "l: f32 = sum frame %6", "its frame %6 is no carry before it");
    refuse("l: f32 = sum frame", "l: f32 = prod frame", "only a real sum has a frame");
    refuse("(old new sub exp)", "(old new exp)", "its rescale leaves 2 values");
    refuse("(old new sub exp)", "(old sub exp)", "its rescale lacks operands");
    refuse("sub %1 mul", "sub %14 mul", "%14 is not visible here");
    refuse("sub %1 mul", "sub %5 mul", "its rescale reads a carry");
    refuse("sub %1 mul", "sub %12 mul", "%12 is not visible here");
    refuse("store t0[i], %4", "store t0[i], %6", "differs along an axis of the grid");
    refuse("step %5, %12", "step %5, %12\n store t0[i], %12",
           "depends on a frame that still moves");
    refuse("step %5, %12", "%18: bool = lt %12, %1\n guard %18 {\n step %5, %12\n }",
           "its condition depends on a frame");
    refuse("step %4, %7", "%18: f32 = sub %7, %4\n step %4, %18", "which is not its own");
    refuse("lag 1 bound 8", "lag 1 bound 0", "lag 1 needs a bound");
    refuse("lag 1 bound 8", "lag 2 bound 8", "expected a number below 2");
    refuse("m: f32 = max", "m: bf16 = max", "a state of no value type");
    refuse("loop c from 0 to E", "loop j from 0 to E", "axis j is open already");
    refuse("loop c from 0 to E", "loop e from 0 to E", "no axis of loops");
    refuse("loop c from 0 to E", "loop c from 0 to %1", "%1 is no integer");
    refuse("axis j: T tile 32", "axis j: T tile 0", "axis 2 has tile 0");
    refuse("axis j: T", "axis j: T + i", "an axis in an expression of sizes");
    refuse("store t0[i], %4", "%18: f32 = load t0[i]\n store t0[i], %4", "loaded and stored");
    refuse("  axis c: E\n", "  axis c: E\n  grid x: S\n", "a grid axis behind others");
    refuse("store t0[i], %4", "stone t0[i], %4", "expected an instruction, found 'stone'");
    refuse("= exp %11", "= gelu %11", "'gelu' is no op");
    refuse("v[j - 1?", "v[w - 1?", "'w' is no axis, size or value here");
}

/* No schedule of the program: no tier takes all fields. */
static const char every_field[] = "schedule fast for \"odd name\" target sm_90a {\n"
                                  "  move tma\n"
                                  "  mul mma\n"
                                  "  threads 384\n"
                                  "  axis i lanes 32 regs 4 vec 8\n"
                                  "  axis e\n"
                                  "  axis j lanes 2\n"
                                  "  value %8 place smem buffers 4 swizzle 128\n"
                                  "  value %9 place reg\n"
                                  "  op %12 stage 1 order 3 wait %8 release %9\n"
                                  "  op %10\n"
                                  "  role producer warps 4 regs 40\n"
                                  "  role consumer warps 8 regs 232\n"
                                  "  cluster 2 1 1\n"
                                  "  raster 8\n"
                                  "  split 4\n"
                                  "  halves 2\n"
                                  "  pingpong\n"
                                  "  persistent\n"
                                  "}\n";
static const char general[] = "schedule general for \"odd name\" target sm_80 {\n"
                              "  move plain\n"
                              "  mul fma\n"
                              "  threads 256\n"
                              "  axis i lanes 32\n"
                              "  axis j lanes 8\n"
                              "}\n";

static void schedule_text_reads_back(void **st) {
    (void)st;
    const char *const texts[] = {every_field, general};
    for (int k = 0; k < 2; k++) {
        Ctx c = {0};
        TProg *t = parse(&c, full);
        Schedule *s = parse_schedule(&c, t, texts[k]);
        if (!s) fail_msg("%s", c.d.list.v[0].text);
        Str out = {0}, why = {0};
        schedule_print(&out, s, t);
        assert_string_equal(str_get(&out), texts[k]);
        if (texts[k] != every_field && !schedule_verify(s, t, &why)) fail_msg("%s", str_get(&why));
        str_free(&out);
        close(&c);
    }
}

static void refuse_schedule(const char *base, const char *from, const char *to,
                            const char *message) {
    Ctx c = {0};
    TProg *t = parse(&c, full);
    const char *at = strstr(base, from);
    assert_non_null(at);
    Str text = {0}, why = {0};
    str_addn(&text, base, (size_t)(at - base));
    str_add(&text, to);
    str_add(&text, at + strlen(from));
    Schedule *s = parse_schedule(&c, t, str_get(&text));
    if (s && schedule_verify(s, t, &why)) fail_msg("accepted: %s", to);
    const char *said = s ? str_get(&why) : c.d.list.v[0].text;
    if (!strstr(said, message)) fail_msg("'%s' became: %s", to, said);
    str_free(&text);
    str_free(&why);
    close(&c);
}

static void schedule_faults(void **st) {
    (void)st;
    refuse_schedule(general, "threads 256", "threads 128", "128 threads, but the axes have 256");
    refuse_schedule(general, "sm_80", "sm_10", "target sm_10 is unknown");
    refuse_schedule(general, "mul fma", "mul wgmma", "sm_80 has no wgmma");
    refuse_schedule(general, "axis j", "axis c", "it cannot have lanes");
    refuse_schedule(general, "axis j", "axis i", "axis i is laid twice");
    refuse_schedule(general, "lanes 32", "lanes 32 regs 2", "a loop's bound depends on axis i");
    refuse_schedule(general, "lanes 8", "lanes 8 vec 2", "a guard depends on axis j");
    refuse_schedule(general, "axis j", "axis z", "'z' is no axis of odd name");
    refuse_schedule(general, "axis j lanes 8", "axis j lanes 32 shared", "are open together");
    refuse_schedule(general, "axis j lanes 8", "axis j lanes 0", "each is at least 1");
    refuse_schedule(general, "for \"odd name\"", "for other", "a schedule for other, not odd name");
    refuse_schedule(every_field, "warps 8", "warps 9", "384 threads, but the roles have 13 warps");
    refuse_schedule(every_field, "value %8", "value %88", "%88 is not defined");
    refuse_schedule(every_field, "swizzle 128", "swizzle 100", "swizzle 100");
    refuse_schedule(every_field, "place smem", "place moon", "expected reg, smem or global");
}

/* Damaged texts are read or refused, never worse; what is read prints and reads back. */
static void damaged(const char *text, size_t n) {
    Ctx c = {.d = {.arena = &c.a}};
    TProg *t = tile_parse(&c.a, source_new(&c.a, "t", text, n), &c.d);
    assert_true((t == NULL) == (c.d.errors > 0));
    if (t) {
        Str once = {0}, twice = {0}, why = {0};
        bool fine = tile_verify(t, &why);
        assert_true(fine == (why.n == 0));
        tile_print(&once, t);
        TProg *again = parse(&c, str_get(&once));
        if (!again) fail_msg("%s\n%s", c.d.list.v[0].text, str_get(&once));
        tile_print(&twice, again);
        assert_string_equal(str_get(&once), str_get(&twice));
        str_free(&once);
        str_free(&twice);
        str_free(&why);
    }
    close(&c);
}

static void damaged_texts_are_harmless(void **st) {
    (void)st;
    static const char bytes[] = "%0 }x\"-?(";
    char text[sizeof full];
    for (size_t i = 0; i + 1 < sizeof full; i++) {
        memcpy(text, full, sizeof full);
        damaged(text, i);
        text[i] = bytes[i % (sizeof bytes - 1)];
        damaged(text, sizeof full - 1);
    }
}

static void count(void *ctx, TInst *i, int depth) {
    int *n = ctx;
    n[0]++;
    if (depth > n[1]) n[1] = depth;
    if (i->kind == T_STEP) n[2]++;
}

static void building_and_walking(void **st) {
    (void)st;
    Arena a = {0};
    IxPool p;
    ix_pool_init(&p, &a);
    TProg *t = tile_new(&a, &p, "p");
    TInst *x = tile_inst(t, &t->body, T_CONST, DT_f32, 0, 0);
    TInst *loop = tile_inst(t, &t->body, T_LOOP, DT_none, 0, 0);
    TInst *y = tile_inst(t, &loop->body, T_OP, DT_f32, 1, 0);
    TInst *step = tile_inst(t, &loop->body, T_STEP, DT_none, 2, 0);
    assert_int_equal(x->id, 0);
    assert_int_equal(y->id, 1);
    assert_int_equal(loop->id, -1);
    assert_int_equal(step->id, -1);
    assert_int_equal(t->nvalues, 2);
    int n[3] = {0};
    tile_walk(&t->body, count, n);
    assert_int_equal(n[0], 4);
    assert_int_equal(n[1], 1);
    assert_int_equal(n[2], 1);
    arena_free(&a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tile_text_reads_back),       cmocka_unit_test(tile_faults),
        cmocka_unit_test(schedule_text_reads_back),   cmocka_unit_test(schedule_faults),
        cmocka_unit_test(damaged_texts_are_harmless), cmocka_unit_test(building_and_walking),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
