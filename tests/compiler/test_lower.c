/* test_lower.c - which schedules of a step become variants: several fast ones, what ptxas says of
 * them, what the backend refuses, what --arch leaves out. The schedules are copies of the general
 * one for sm_90a, each with another number of threads, by which a shell script that stands in for
 * ptxas knows them.
 */
#include "compiler/compiler_int.h"

#include <elf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "passes/passes.h"

static const char text[] = "graph scale {\n"
                           "  size M\n"
                           "  in x: f32[M] = %0\n"
                           "  %1 y: f32[m: M] = add x[m], x[m]\n"
                           "  out y: f32[M] = %1\n"
                           "  solve M from x[0] = %0\n"
                           "  expect spills == 0\n"
                           "}\n";

static char dir[] = "/tmp/fklower-XXXXXX";

typedef struct Lowered {
    Arena arena;
    fkc_options options;
    Diags diags;
    Job job;
    BuiltFn fn;
} Lowered;

static int make_dir(void **state) {
    (void)state;
    return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state) {
    (void)state;
    return rmdir(dir);
}

/* Through all passes, then `fast` schedules for sm_90a before the general one. */
static int make(void **state) {
    Lowered *l = calloc(1, sizeof *l);
    l->diags.arena = &l->arena;
    l->job = (Job){.arena = &l->arena,
                   .opt = &l->options,
                   .diags = &l->diags,
                   .path = "scale.fk",
                   .producer = "test"};
    vec_push(&l->arena, &l->job.archs, target_named("sm_90a"));
    Graph *g =
        graph_parse(&l->arena, source_new(&l->arena, "scale", text, sizeof text - 1), &l->diags);
    if (!g) return -1;
    PassCtx cx = {
        .arena = &l->arena, .target = target_named("sm_90a"), .diags = &l->diags, .fuse = true};
    pass_run_all(&cx, g);
    l->fn = (BuiltFn){.plan = cx.plan, .source = text};
    *state = l;
    return cx.plan && cx.plan->steps.n == 1 ? 0 : -1;
}

static int unmake(void **state) {
    Lowered *l = *state;
    arena_free(&l->arena);
    free(l);
    return 0;
}

static void add_fast(Lowered *l, int n, const char *target) {
    Step *s = &l->fn.plan->steps.v[0];
    Schedule *general = s->schedules.v[s->schedules.n - 1];
    s->schedules.n = 0;
    for (int i = 0; i < n; i++) {
        Schedule *fast = ARENA_NEW(&l->arena, Schedule);
        *fast = *general;
        fast->name = arena_printf(&l->arena, "fast%d", i);
        fast->target = target;
        fast->axes.v = ARENA_ARRAY(&l->arena, SAxis, general->axes.n);
        memcpy(fast->axes.v, general->axes.v, (size_t)general->axes.n * sizeof *fast->axes.v);
        fast->axes.v[0].lanes = fast->threads = 32 * (i + 1);
        vec_push(&l->arena, &s->schedules, fast);
    }
    vec_push(&l->arena, &s->schedules, general);
}

/* A cubin in which a word goes to local memory, before a loop or inside of it. */
static void write_cubin(const char *path, bool inside) {
    enum { STL = 0x387, NOP = 0x918, BRA = 0x947, EXIT = 0x94d, ALWAYS = 7 << 12 };
    typedef uint64_t Insn[2];
    struct File {
        Elf64_Ehdr head;
        Elf64_Shdr section[2];
        char name[16];
        Insn code[4];
    } file = {
        .head = {.e_shoff = offsetof(struct File, section),
                 .e_shentsize = sizeof *file.section,
                 .e_shnum = 2},
        .section = {{.sh_offset = offsetof(struct File, name), .sh_size = sizeof file.name},
                    {.sh_name = 1,
                     .sh_offset = offsetof(struct File, code),
                     .sh_size = sizeof file.code}},
        .name = "\0.text.scale_0",
        .code = {{NOP | ALWAYS},
                 {NOP | ALWAYS},
                 {BRA | 0xf8 << 16 | ~UINT64_C(0) << 34, 0x3ffff}, /* if P0: to the one before */
                 {EXIT | ALWAYS}},
    };
    memcpy(file.head.e_ident, ELFMAG, SELFMAG);
    memcpy(file.code[inside], (Insn){STL | ALWAYS, 4 << 9}, sizeof(Insn));
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(&file, sizeof file, 1, f), 1);
    fclose(f);
}

/* A ptxas that prints `said[i]` of fast schedule i, and `of_general`; with "!" it refuses. It
 * leaves the file cubins[i]; NULL, and where there is none: one that is no cubin. */
static bool lower_to(Lowered *l, const char *const *cubins, const char *const *said, int n,
                     const char *of_general) {
    const char *path = arena_printf(&l->arena, "%s/ptxas", dir);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "#!/bin/sh\nfor last; do :; done\ncp \"$3\" \"$last\"\n"
               "echo 'ptxas info    : Used 40 registers' >&2\n"
               "case $(grep -o 'reqntid [0-9]*' \"$3\") in\n");
    for (int i = 0; i < n; i++)
        fprintf(f, "'reqntid %d') echo '%s' >&2; cp %s \"$last\"; %s;;\n", 32 * (i + 1), said[i],
                cubins ? cubins[i] : "\"$3\"", said[i][0] == '!' ? "exit 1" : "");
    fprintf(f, "'reqntid 256') echo '%s' >&2; %s;;\n", of_general,
            of_general[0] == '!' ? "exit 1" : "");
    fprintf(f, "esac\n");
    fclose(f);
    assert_int_equal(chmod(path, 0755), 0);
    l->job.ptxas = path;
    bool ok = lower_fn(&l->job, &l->fn);
    unlink(path);
    return ok;
}

static bool lower_with(Lowered *l, const char *const *said, int n, const char *of_general) {
    return lower_to(l, NULL, said, n, of_general);
}

static const Variant *variant(const Lowered *l, int i) {
    assert_true(i < l->fn.variants[0].n);
    return &l->fn.variants[0].v[i];
}

static const char *dropped(const Lowered *l, int i) {
    return variant(l, i)->dropped ? variant(l, i)->dropped : "";
}

static void clean_ones_are_kept(void **state) {
    Lowered *l = *state;
    add_fast(l, 2, "sm_90a");
    assert_true(lower_with(l, NULL, 0, ""));
    assert_int_equal(l->fn.variants[0].n, 3);
    for (int i = 0; i < 3; i++) {
        const Variant *v = variant(l, i);
        assert_null(v->dropped);
        assert_int_equal(v->general, i == 2);
        assert_string_equal(v->kernel.arch, i == 2 ? "sm_80" : "sm_90a");
        assert_int_equal(v->kernel.cubins.n, 1);
        assert_string_equal(v->kernel.cubins.v[0].arch, "sm_90a");
        assert_int_equal(v->kernel.stats.regs, 40);
    }
}

static void slow_ones_are_dropped(void **state) {
    Lowered *l = *state;
    static const char *const said[] = {
        "(C7519) Potential Performance Loss: fence added\n(C7510) wgmma are serialized",
        "(C7508) setmaxnreg ignored",
        "(C7519) Potential Performance Loss: fence added",
    };
    add_fast(l, 3, "sm_90a");
    assert_true(lower_with(l, said, 3, "(C7510)"));
    assert_int_equal(l->fn.variants[0].n, 4);
    assert_string_equal(dropped(l, 0),
                        "ptxas had to serialise its tensor-core instructions (C7510)");
    assert_string_equal(dropped(l, 1), "ptxas ignored setmaxnreg (C7508)");
    assert_string_equal(dropped(l, 2), "");
    assert_string_equal(dropped(l, 3), "");
    Str s = {0};
    report_fn(&s, &l->job, &l->fn);
    assert_non_null(strstr(str_get(&s), "fast0: dropped, ptxas had to serialise"));
    assert_non_null(strstr(str_get(&s), "fast1: dropped, ptxas ignored setmaxnreg (C7508)"));
    str_free(&s);
}

/* A spill counts in the main loop, or above 160 bytes in all. */
static void those_that_spill_are_dropped(void **state) {
    Lowered *l = *state;
    static const char *const said[] = {
        "160 bytes stack frame, 160 bytes spill stores, 160 bytes spill loads",
        "164 bytes stack frame, 164 bytes spill stores, 164 bytes spill loads",
        "4 bytes stack frame, 4 bytes spill stores, 0 bytes spill loads",
    };
    const char *before = arena_printf(&l->arena, "%s/before", dir),
               *inside = arena_printf(&l->arena, "%s/inside", dir);
    const char *const cubins[] = {before, before, inside};
    add_fast(l, 3, "sm_90a");
    write_cubin(before, false);
    write_cubin(inside, true);
    assert_true(lower_to(l, cubins, said, 3, said[1]));
    unlink(before);
    unlink(inside);
    assert_string_equal(dropped(l, 0), "");
    assert_int_equal(variant(l, 0)->kernel.stats.spill_bytes, 320);
    assert_int_equal(variant(l, 0)->kernel.stats.loop_spills, 0);
    assert_string_equal(dropped(l, 1),
                        "spills registers to 164 bytes of local memory, allowed 160");
    assert_string_equal(dropped(l, 2), "moves 4 bytes of spilt registers in its main loop");
    assert_true(variant(l, 1)->slow && variant(l, 2)->slow);
    assert_true(variant(l, 3)->general && !variant(l, 3)->dropped);
    /* expect counts what is kept */
    check_expects(&l->job, &l->fn);
    assert_int_equal(l->diags.list.n, 0);
    Str s = {0};
    report_fn(&s, &l->job, &l->fn);
    assert_non_null(strstr(str_get(&s), "registers 40, spilt bytes 320, stack 160"));
    assert_non_null(strstr(str_get(&s), "fast1: dropped, spills registers to 164 bytes"));
    assert_non_null(strstr(str_get(&s), "fast2: dropped, moves 4 bytes of spilt registers in"));
    assert_non_null(strstr(str_get(&s), "spills == 0          met, found 0"));
    str_free(&s);
    /* where they are is not known */
    add_fast(l, 3, "sm_90a");
    assert_true(lower_with(l, said, 1, ""));
    assert_string_equal(dropped(l, 0),
                        "moves 320 bytes of spilt registers, perhaps in its main loop");
    assert_string_equal(dropped(l, 1), "");
}

/* After three that ptxas spoilt the rest is left, but for what had begun by then; so is what is
 * more than twenty variants. */
static void there_are_limits(void **state) {
    Lowered *l = *state;
    static const char *const bad[] = {"(C7510)", "(C7512)", "(C7514)"};
    add_fast(l, 7, "sm_90a");
    assert_true(lower_with(l, bad, 3, ""));
    assert_int_equal(l->fn.variants[0].n, 8);
    for (int i = 0; i < 7; i++) {
        assert_int_equal(variant(l, i)->slow, i < 3);
        assert_int_equal(!strncmp(dropped(l, i), "not tried", 9), i >= 5);
    }
    add_fast(l, 22, "sm_90a");
    assert_true(lower_with(l, NULL, 0, ""));
    assert_int_equal(l->fn.variants[0].n, 23);
    for (int i = 0; i < 22; i++) assert_int_equal(!variant(l, i)->dropped, i < 20);
}

static void others_than_arch_are_left_out(void **state) {
    Lowered *l = *state;
    add_fast(l, 2, "sm_90a");
    l->job.archs.v[0] = target_named("sm_86");
    assert_true(lower_with(l, NULL, 0, ""));
    assert_int_equal(l->fn.variants[0].n, 1);
    assert_true(variant(l, 0)->general);
}

/* A schedule that the backend does not take is a line of the report and nothing more. */
static void a_refusal_of_the_backend(void **state) {
    Lowered *l = *state;
    add_fast(l, 2, "sm_90a");
    l->job.ptx_version = 70; /* sm_90a needs 8.0 */
    assert_true(lower_with(l, NULL, 0, ""));
    assert_int_equal(l->fn.variants[0].n, 3);
    assert_non_null(variant(l, 0)->dropped);
    assert_false(variant(l, 0)->slow);
    assert_null(variant(l, 2)->dropped);
    assert_int_equal(l->diags.list.n, 0);
}

/* If ptxas does, there is a warning; if it does of the general kernel, an error. */
static void a_refusal_of_ptxas(void **state) {
    Lowered *l = *state;
    static const char *const said[] = {"! fatal", ""};
    add_fast(l, 1, "sm_90a");
    assert_true(lower_with(l, said, 1, ""));
    assert_int_equal(strncmp(dropped(l, 0), "refused by ptxas: ", 18), 0);
    assert_true(l->diags.errors == 0 && l->diags.warnings == 1 && !l->job.outside);
    add_fast(l, 2, "sm_90a");
    assert_false(lower_with(l, said, 2, "! fatal"));
    assert_true(l->diags.errors == 1 && l->job.outside);
}

/* Without ptxas they are kept, and `expect spills` cannot be checked. */
static void without_ptxas(void **state) {
    Lowered *l = *state;
    add_fast(l, 2, "sm_90a");
    assert_true(lower_fn(&l->job, &l->fn));
    assert_int_equal(l->fn.variants[0].n, 3);
    assert_null(variant(l, 0)->dropped);
    assert_int_equal(variant(l, 0)->kernel.stats.regs, -1);
    check_expects(&l->job, &l->fn);
    assert_true(l->diags.errors == 0 && l->diags.warnings == 1);
}

/* `expect spills` counts bytes in main loops, of all variants but the general one. */
static void spills_are_expected(void **state) {
    Lowered *l = *state;
    add_fast(l, 2, "sm_90a");
    assert_true(lower_fn(&l->job, &l->fn));
    Variant *v = l->fn.variants[0].v;
    v[0].kernel.stats = (KStats){.spill_bytes = 80};
    v[1].kernel.stats = (KStats){.spill_bytes = 8};
    v[2].kernel.stats = (KStats){.spill_bytes = 800, .loop_spills = 400};
    check_expects(&l->job, &l->fn);
    assert_int_equal(l->diags.list.n, 0);
    v[1].kernel.stats.loop_spills = 8;
    check_expects(&l->job, &l->fn);
    assert_int_equal(l->diags.errors, 1);
    assert_string_equal(l->diags.list.v[0].text, "scale: expected spills == 0, found 8");
}

#define EACH(test) cmocka_unit_test_setup_teardown(test, make, unmake)

int main(void) {
    const struct CMUnitTest tests[] = {
        EACH(clean_ones_are_kept),
        EACH(slow_ones_are_dropped),
        EACH(those_that_spill_are_dropped),
        EACH(there_are_limits),
        EACH(others_than_arch_are_left_out),
        EACH(a_refusal_of_the_backend),
        EACH(a_refusal_of_ptxas),
        EACH(without_ptxas),
        EACH(spills_are_expected),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
