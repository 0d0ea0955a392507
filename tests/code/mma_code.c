/* mma_code.c - the machine code of every variant on mma.sync of a product with an epilogue: for
 * sm_80 nothing is spilt; for sm_90, from the same PTX, what the PTX says is there once, in the
 * main loop (sass.c reads no older code); and code that breaks a rule is found out.
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
#include "backend/nvptx/sass_int.h"
#include "compiler/fkc.h"
#include "runtime/fkm.h"

static Arena arena;
static const char *ptxas;
static FkmModule *module;

enum Opcode { HMMA = 0x23c, LDSM = 0x83b, LDGSTS = 0xfae, BAR = 0xb1d, LDL = 0x983, STL = 0x387 };

typedef struct Subject {
    const char *ptx;
    SassCode code;
    KStats stats;
} Subject;

/* ---- rules ---------------------------------------------------------------------------------- */

static int in_main(const Subject *s, unsigned what) {
    int n = 0;
    for (int i = 0; i < s->code.n; i++)
        n += s->code.v[i].main && (unsigned)(s->code.v[i].lo & 0xfff) == what;
    return n;
}

static int times_in(const char *text, const char *what) {
    int n = 0;
    for (; (text = strstr(text, what)); text++) n++;
    return n;
}

static bool no_local_memory(const Subject *s) {
    return s->stats.stack == 0 && s->stats.spill_bytes == 0 && !in_main(s, LDL) && !in_main(s, STL);
}

static bool products_once(const Subject *s) {
    return in_main(s, HMMA) == times_in(s->ptx, "mma.sync.aligned.m16n8k16");
}

/* Four matrices at once; those of a tile's first step, of 2 or 4, stand before the loop too. */
static bool wide_reads(const Subject *s) {
    int n = times_in(s->ptx, "ldmatrix.sync.aligned.m8n8.x4"), in = in_main(s, LDSM);
    int first = n - in;
    return n == times_in(s->ptx, "ldmatrix") && (in == 2 * first || in == 4 * first);
}

/* 16 bytes; as many again stand before the loop. */
static bool wide_copies(const Subject *s) {
    int n = times_in(s->ptx, "cp.async.cg.shared.global");
    return n == times_in(s->ptx, ", 16, %r") && in_main(s, LDGSTS) * 2 == n;
}

static bool one_barrier(const Subject *s) {
    return in_main(s, BAR) == 1;
}

static const struct Rule {
    const char *name;
    bool (*holds)(const Subject *s);
} rules[] = {{"no local memory", no_local_memory},
             {"products once", products_once},
             {"wide reads", wide_reads},
             {"wide copies", wide_copies},
             {"one barrier a stage", one_barrier}};
enum { RULES = sizeof rules / sizeof *rules };

/* ---- code ----------------------------------------------------------------------------------- */

static const char source[] = "fn f(x: bf16[M, K], w: bf16[N, K], b: bf16[N]) -> (y: bf16[M, N])\n"
                             "{\n    y[m, n] = gelu_tanh(sum[k] x[m, k] * w[n, k] + b[n])\n}\n";

static int compile(void **state) {
    (void)state;
    fkc_options o = fkc_defaults();
    fkc_result *r;
    size_t n;
    FkmError error;
    o.arch = "sm_80";
    o.ptxas = "none";
    o.outputs = 1u << FKC_MODULE;
    if (fkc_compile("f.fk", source, sizeof source - 1, &o, &r) != FKC_OK)
        fail_msg("%s", fkc_messages(r));
    const void *bytes = fkc_output_get(r, FKC_MODULE, &n);
    void *copy = aligned_alloc(16, (n + 15) / 16 * 16);
    memcpy(copy, bytes, n);
    fkc_free(r);
    if (!(module = fkm_decode(copy, n, &error))) fail_msg("%s", error.text);
    return 0;
}

static Subject assembled(const FkmKernel *k, const char *ptx, const char *arch) {
    const char *message;
    Subject s = {.ptx = k->ptx};
    Kernel made = {.name = k->name, .ptx = ptx};
    if (ptxas_run(&arena, ptxas, &made, arch, &message) != PTXAS_OK) fail_msg("%s", message);
    const Cubin *c = &made.cubins.v[0];
    s.stats = made.stats;
    if (!strcmp(arch, "sm_90")) assert_true(sass_read(&arena, c->data, c->size, k->name, &s.code));
    return s;
}

static const FkmKernel *kernel_of(const FkmVariant *v) {
    return &module->kernels[v->launches[0].kernel];
}

static void every_variant(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int rules;
    } archs[] = {{"sm_80", 1}, {"sm_90", RULES}};
    const FkmStep *step = &module->fns[0].steps[0];
    int broken = 0, seen = 0;
    for (uint32_t v = 0; v < step->n_variants; v++) {
        const FkmVariant *x = &step->variants[v];
        if (strncmp(x->name, "mma_", 4) != 0) continue;
        seen++;
        for (size_t a = 0; a < sizeof archs / sizeof *archs; a++) {
            Subject s = assembled(kernel_of(x), kernel_of(x)->ptx, archs[a].name);
            for (int r = 0; r < archs[a].rules; r++) {
                if (rules[r].holds(&s)) continue;
                print_error("%s, %s: '%s' is broken\n", x->name, archs[a].name, rules[r].name);
                broken++;
            }
        }
    }
    assert_true(seen >= 4);
    assert_int_equal(broken, 0);
}

/* The last `from` becomes `to`. */
static const char *spoil(const char *text, const char *from, const char *to) {
    const char *at = NULL;
    for (const char *p = text; (p = strstr(p, from)); p++) at = p;
    if (!at) fail_msg("no '%s' in the PTX to spoil", from);
    return arena_printf(&arena, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
}

static void spoilt_code(void **state) {
    (void)state;
    static const struct {
        int rule;
        const char *from, *to;
    } how[] = {
        {0, ".reqntid 128", ".reqntid 512"}, /* and a fourth of the registers */
        {1, "mma.sync.aligned.m16n8k16", "//"}, {2, "ldmatrix.sync.aligned.m8n8.x4", "//"},
        {3, "cp.async.cg.shared.global", "//"}, {4, "bar.sync", "bar.sync 0;\n\tbar.sync"},
    };
    const FkmStep *step = &module->fns[0].steps[0];
    const FkmVariant *v = step->variants;
    while (strcmp(v->name, "mma_128x128") != 0) v++;
    const FkmKernel *k = kernel_of(v);
    for (size_t i = 0; i < sizeof how / sizeof *how; i++) {
        Subject s = assembled(k, spoil(k->ptx, how[i].from, how[i].to), "sm_90");
        if (rules[how[i].rule].holds(&s))
            fail_msg("'%s' holds although '%s' was spoilt", rules[how[i].rule].name, how[i].from);
    }
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
    int failed = cmocka_run_group_tests(tests, compile, NULL);
    arena_free(&arena);
    return failed;
}
