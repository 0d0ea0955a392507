/* test_online.c - what the PTX of attention holds where its scores go through functions that are
 * short near 0, or are bounded (backend/nvptx/online_near.c, online_still.c): counts of
 * instructions that tell, in one variant.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "compiler/fkc.h"

/* Of scores z[i, j] and softmax's argument. */
static char *ptx_of(const char *type, const char *argument, bool log_sum) {
    char text[2048];
    snprintf(text, sizeof text,
             "const E = 128\n"
             "fn f(q: %s[S, E], k: %s[S, E], v: %s[S, E]) -> (o: %s[S, E]%s)\n{\n"
             "z[i, j] = E^-0.5 * sum[e] q[i, e] * k[j, e]\n"
             "p[i, j] = softmax[j where j <= i](%s)\n"
             "o[i, e] = sum[j] p[i, j] * v[j, e]\n%s%s%s}\n",
             type, type, type, type, log_sum ? ", l: f32[S]" : "", argument,
             log_sum ? "l[i] = logsumexp[j where j <= i](" : "", log_sum ? argument : "",
             log_sum ? ")\n" : "");
    fkc_options o = fkc_defaults();
    fkc_result *r;
    size_t n;
    o.ptxas = "none";
    o.outputs = 1u << FKC_PTX;
    if (fkc_compile("t.fk", text, strlen(text), &o, &r)) fail_msg("%s", fkc_messages(r));
    const char *all = fkc_output_get(r, FKC_PTX, &n);
    const char *first = strstr(all, ".entry f_0_online_128x128_lag32("); /* one tile a CTA */
    if (!first) first = strstr(all, ".entry f_0_online_128x128_lag16("); /* computed scores */
    if (!first) fail_msg("%s: no such variant", argument);
    const char *end = strstr(first, "\n}\n");
    assert_non_null(end);
    char *copy = strndup(first, (size_t)(end - first));
    fkc_free(r);
    return copy;
}

static int count(const char *text, const char *what) {
    int n = 0;
    for (const char *p = text; (p = strstr(p, what)); p++) n++;
    return n;
}

/* A thread has 64 elements of a block; code is made for a first block, half of one, the block after
 * that, and others. */
enum { ELEMENTS = 64, BLOCKS = 4, FIRST = 2, HALF = ELEMENTS / 2 };

typedef struct Row {
    const char *argument;
    const char *type;
    bool log_sum;
    int votes;       /* a branch of the warp: of functions near 0, else where a frame moves */
    bool moves;      /* frames move from block to block */
    int own, maxima; /* written in the argument; taken of an element, in how many blocks */
} Row;

static const Row rows[] = {
    {"z[i, j]", "bf16", false, BLOCKS - FIRST, true, 0, BLOCKS},
    {"30 * tanh(z[i, j] / 30)", "bf16", false, BLOCKS, false, 0, 1},
    {"30 * tanh(z[i, j] / 30)", "bf16", true, BLOCKS, false, 0, BLOCKS}, /* its maximum is seen */
    {"50 * tanh(z[i, j] / 50)", "bf16", false, BLOCKS, false, 0, 1},
    {"90 * tanh(z[i, j] / 90)", "bf16", false, BLOCKS, true, 0, BLOCKS}, /* too wide */
    {"30 * tanh(z[i, j] / 30)", "f16", false, BLOCKS, true, 0, BLOCKS},
    {"4 * tanh(z[i, j] / 4)", "f16", false, BLOCKS, false, 0, 1},
    {"5 * sigmoid(z[i, j])", "bf16", false, BLOCKS, false, 0, 1},
    {"5 * erf(z[i, j])", "bf16", false, BLOCKS, false, 0, 1},
    /* the functions alone branch, and frames besides */
    {"30 * tanh(z[i, j] / 30) - 0.1 * (i - j)", "bf16", false, 2 * BLOCKS - FIRST, true, 0, BLOCKS},
    {"max(min(z[i, j], 9), -9)", "bf16", false, 0, false, 1, 1},
    {"max(min(z[i, j], 90), -90)", "bf16", false, BLOCKS - FIRST, true, 1, BLOCKS},
    /* exact where it is compared */
    {"select(tanh(z[i, j]) > 0.5, z[i, j], 0)", "bf16", false, BLOCKS - FIRST, true, 0, BLOCKS},
};

/* Shuffles join the four threads of each of two rows: of sums at the end, of frames that stay in
 * first blocks (in either way of functions near 0), of others after every block. */
enum { SHUFFLES = 4 * (2 + 2 * FIRST) };

static void instructions(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        const Row *x = &rows[k];
        char *ptx = ptx_of(x->type, x->argument, x->log_sum);
        int votes = count(ptx, "vote.sync.any"), shuffles = count(ptx, "shfl.sync.bfly");
        int maxima = count(ptx, "max.NaN.f32") - x->own * (BLOCKS * ELEMENTS - HALF);
        if (votes != x->votes) fail_msg("%s: %d votes", x->argument, votes);
        if ((shuffles > SHUFFLES) != x->moves) fail_msg("%s: %d shuffles", x->argument, shuffles);
        /* in the first block also in the other way */
        if ((maxima < 4 * ELEMENTS - HALF) != (x->maxima == 1))
            fail_msg("%s: %d maxima", x->argument, maxima);
        free(ptx);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(instructions)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
