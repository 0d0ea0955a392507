/* gemm_code.c - the machine code of every fast variant of some products of matrices keeps the rules
 * of gemm_rules.c; and code that breaks a rule is found out, each rule by a kernel that was spoilt
 * in just that way.
 */
#include "tests/code/gemm_rules.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend/backend.h"
#include "compiler/fkc.h"

static Arena arena;
static const char *ptxas;

static const struct {
    const char *path;
    int fast_accum;
} programs[] = {
    {ROOT "/tests/bench/gemm.fk", 0},      {ROOT "/tests/bench/gemm_gated.fk", 0},
    {ROOT "/tests/bench/mm_orders.fk", 0}, {ROOT "/tests/bench/gemm_fp8.fk", 0},
    {ROOT "/tests/bench/gemm_fp8.fk", 1},  {ROOT "/tests/bench/mm_sums.fk", 0},
};
enum { PROGRAMS = sizeof programs / sizeof *programs };
static FkmModule *modules[PROGRAMS];

/* ---- modules ---- */

static char *read_text(const char *path, size_t *n) {
    FILE *f = fopen(path, "rb");
    if (!f) fail_msg("cannot read %s", path);
    char *text = arena_alloc(&arena, 1 << 16);
    *n = fread(text, 1, (1 << 16) - 1, f);
    fclose(f);
    return text;
}

/* Stays until the end. */
static FkmModule *compile(const char *path, int fast_accum) {
    fkc_options o = fkc_defaults();
    fkc_result *r;
    size_t n;
    FkmError error;
    const char *text = read_text(path, &n);
    o.ptxas = ptxas;
    o.no_expect = 1;
    o.fast_accum = fast_accum;
    o.outputs = 1u << FKC_MODULE | 1u << FKC_REPORT;
    if (fkc_compile(path, text, n, &o, &r) != FKC_OK) fail_msg("%s", fkc_messages(r));
    const char *report = fkc_output_get(r, FKC_REPORT, &n), *bad = strstr(report, "dropped");
    if (bad) {
        while (bad > report && bad[-1] != '\n') bad--;
        fail_msg("%s: %.*s", path, (int)strcspn(bad, "\n"), bad);
    }
    const void *bytes = fkc_output_get(r, FKC_MODULE, &n);
    void *copy = aligned_alloc(16, (n + 15) / 16 * 16);
    memcpy(copy, bytes, n);
    fkc_free(r);
    FkmModule *m = fkm_decode(copy, n, &error);
    if (!m) fail_msg("%s", error.text);
    return m;
}

static bool is_fast(const FkmVariant *v) {
    return !strcmp(v->arch, "sm_90a") && strcmp(v->name, "general") != 0;
}

/* ---- every variant keeps every rule ---- */

static int check_variant(const FkmModule *m, const FkmFn *f, const FkmVariant *v) {
    Subject s;
    int broken = 0;
    if (!subject_of(&s, f, v, &m->kernels[v->launches[0].kernel], &arena))
        fail_msg("%s, %s: its code is not understood", f->name, v->name);
    for (const Rule *r = gemm_rules; r->name; r++) {
        Str why = {0};
        if (!r->check(&s, &why)) {
            print_error("%s, %s breaks '%s': %s\n", f->name, v->name, r->name, str_get(&why));
            broken++;
        }
        str_free(&why);
    }
    return broken;
}

/* How many variants of a kind each fn must have at the least. */
static const struct {
    const char *start;
    int least;
} kinds[] = {{"coop_", 1}, {"pingpong_", 2}, {"direct_", 1}};

static int check_fn(const FkmModule *m, const FkmFn *f) {
    int broken = 0, n[sizeof kinds / sizeof *kinds] = {0};
    for (uint32_t s = 0; s < f->n_steps; s++)
        for (uint32_t v = 0; v < f->steps[s].n_variants; v++) {
            const FkmVariant *x = &f->steps[s].variants[v];
            if (!is_fast(x)) continue;
            broken += check_variant(m, f, x);
            for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
                n[k] += !strncmp(x->name, kinds[k].start, strlen(kinds[k].start));
        }
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        if (n[k] < kinds[k].least) {
            print_error("%s has %d variants %s*\n", f->name, n[k], kinds[k].start);
            broken++;
        }
    return broken;
}

static void every_variant(void **state) {
    (void)state;
    int broken = 0;
    for (int i = 0; i < PROGRAMS; i++)
        for (uint32_t f = 0; f < modules[i]->n_fns; f++)
            broken += check_fn(modules[i], &modules[i]->fns[f]);
    assert_int_equal(broken, 0);
}

/* ---- spoilt code is found out ---- */

/* Every `from` becomes `to`; if `to` is NULL the first line with it comes twice. */
static const char *spoil(const char *text, const char *from, const char *to) {
    Str s = {0};
    const char *at = strstr(text, from);
    if (!at) fail_msg("no '%s' in the PTX to spoil", from);
    if (!to) {
        while (at[-1] != '\n') at--;
        str_addn(&s, text, (size_t)(at - text));
        str_addn(&s, at, strcspn(at, "\n") + 1);
        text = at;
    }
    for (; to && (at = strstr(text, from)); text = at + strlen(from)) {
        str_addn(&s, text, (size_t)(at - text));
        str_add(&s, to);
    }
    str_add(&s, text);
    const char *copy = arena_strdup(&arena, str_get(&s));
    str_free(&s);
    return copy;
}

typedef struct Spoilt {
    const char *rule, *from, *to;
} Spoilt;
static const Spoilt spoilt[] = {
    {"launch", ".reqntid 384", ".reqntid 256"},
    {"launch", "setmaxnreg.inc.sync.aligned.u32 240", "setmaxnreg.inc.sync.aligned.u32 248"},
    {"setmaxnreg", ".reqntid 384, 1, 1\n.minnctapersm 1", ""}, /* C7508 */
    {"no local memory", "mov.b64 da, {",
     "{\n.local .align 4 .b32 zz[32];\n.reg .b32 zt;\n.reg .b64 za, zb;\nmov.u32 zt, %laneid;\n"
     "shl.b32 zt, zt, 2;\ncvt.u64.u32 zb, zt;\nmov.u64 za, zz;\nadd.u64 za, za, zb;\n"
     "st.local.b32 [za], lo;\nld.local.b32 lo, [zz];\n}\nmov.b64 da, {"},
    {"products once", ", da, db, 1, 1, 1, 0, 0;", NULL},
    {"one batch", ", da, db, 1, 1, 1, 0, 0;",
     ", da, db, 1, 1, 1, 0, 0;\nwgmma.commit_group.sync.aligned;"},
    {"one batch", ", da, db, p, 1, 1, 0, 0;", ", da, db, p, 1, 1, 0, 0;\nmembar.cta;"}, /* C7519 */
    {"one batch", "wgmma.wait_group.sync.aligned 1;", "wgmma.wait_group.sync.aligned 0;"},
    {"products alone", ", da, db, p, 1, 1, 0, 0;", ", da, db, p, 1, 1, 0, 0;\nmembar.cta;"},
    {"uniform registers", "mov.b64 da, {",
     "{\n.reg .b32 zt;\nmov.u32 zt, %laneid;\nadd.u32 lo, lo, zt;\n}\nmov.b64 da, {"},
    {"wide accesses", "stmatrix.sync.aligned.m8n8.x4.shared.b16", "st.shared.v4.b32"},
};

/* Of a kernel with promotion. */
static const Spoilt spoilt_promoted[] = {
    {"one batch", ", da, db, 0, 1, 1;", ", da, db, 0, 1, 1;\nmembar.cta;"},
    {"one batch", "wgmma.wait_group.sync.aligned 0;", "wgmma.wait_group.sync.aligned 1;"},
    {"products alone", ", da, db, 0, 1, 1;", ", da, db, 0, 1, 1;\nmembar.cta;"},
};

static const FkmVariant *variant_named(const FkmFn *f, const char *name) {
    for (uint32_t v = 0; v < f->steps[0].n_variants; v++)
        if (!strcmp(f->steps[0].variants[v].name, name)) return &f->steps[0].variants[v];
    fail_msg("%s has no variant %s", f->name, name);
    return NULL;
}

/* Assembled anew from `ptx`; does it break the rule? */
static bool breaks(const FkmFn *f, const FkmVariant *v, const FkmKernel *k, const char *ptx,
                   const char *rule) {
    const char *message;
    Subject s;
    Kernel made = {.name = k->name, .ptx = ptx};
    if (ptxas_run(&arena, ptxas, &made, "sm_90a", &message) != PTXAS_OK) fail_msg("%s", message);
    FkmImage image = {
        .arch = "sm_90a", .bytes = (void *)made.cubins.v[0].data, .size = made.cubins.v[0].size};
    FkmKernel again = {.name = k->name, .ptx = k->ptx, .cubins = &image, .n_cubins = 1};
    assert_true(subject_of(&s, f, v, &again, &arena));
    s.ptx = strstr(rule, "launch") ? ptx : k->ptx;
    for (const Rule *r = gemm_rules; r->name; r++) {
        Str why = {0};
        if (strcmp(r->name, rule) != 0) continue;
        bool kept = r->check(&s, &why);
        str_free(&why);
        return !kept;
    }
    fail_msg("no rule '%s'", rule);
    return false;
}

/* Each of `how` breaks its rule in a variant of module `program`, which keeps all as it is. *n:
 * rules that were broken. */
static void spoil_kernel(int program, const char *variant, const Spoilt *how, int n, int *broken) {
    const FkmModule *m = modules[program];
    const FkmFn *f = &m->fns[0];
    const FkmVariant *v = variant_named(f, variant);
    const FkmKernel *k = &m->kernels[v->launches[0].kernel];
    for (int r = 0; gemm_rules[r].name; r++) {
        const char *rule = gemm_rules[r].name;
        for (int i = 0; i < n; i++) {
            if (strcmp(how[i].rule, rule) != 0) continue;
            broken[r]++;
            if (!breaks(f, v, k, spoil(k->ptx, how[i].from, how[i].to), rule))
                fail_msg("'%s' holds although '%s' was spoilt", rule, how[i].from);
        }
        if (breaks(f, v, k, k->ptx, rule)) fail_msg("'%s' is broken by good code", rule);
    }
}

static void spoilt_code(void **state) {
    (void)state;
    int broken[32] = {0};
    spoil_kernel(0, "coop_256x128", spoilt, sizeof spoilt / sizeof *spoilt, broken);
    spoil_kernel(3, "coop_128x192", spoilt_promoted,
                 sizeof spoilt_promoted / sizeof *spoilt_promoted, broken);
    for (int r = 0; gemm_rules[r].name; r++)
        if (!broken[r]) fail_msg("nothing breaks '%s'", gemm_rules[r].name);
}

static int compile_all(void **state) {
    (void)state;
    for (int i = 0; i < PROGRAMS; i++)
        modules[i] = compile(programs[i].path, programs[i].fast_accum);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_variant),
        cmocka_unit_test(spoilt_code),
    };
    ptxas = ptxas_find(&arena, NULL);
    if (!ptxas) {
        printf("skipped: no ptxas here, so no machine code to look at\n");
        return 77;
    }
    int failed = cmocka_run_group_tests(tests, compile_all, NULL);
    arena_free(&arena);
    return failed;
}
