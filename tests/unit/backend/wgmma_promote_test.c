/* wgmma_promote_test.c - the main loop with partial sums, run by hand: the PTX of the loop and of
 * what follows it, line by line, on registers that know which products they hold. No register of a
 * batch may be touched before the wait that covers it; every product must be in one sum, once; a
 * stage may be released when all that read it is done, and once; and a sum must be stored where the
 * accumulator of the same tile without partial sums is.
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
#include "ir/mma.h"

/* ---- programs ------------------------------------------------------------------------------- */

typedef struct Case {
    int m, n, stages;
    const char *promote, *more; /* lines of the schedule */
} Case;

typedef struct Made {
    Arena arena;
    MmaTiles w;
    const char *ptx;
} Made;

static const char tile[] = "tile t.0 {\n  size M, N, K\n  in x: e4m3[M, K] = 0\n"
                           "  in w: e5m2[N, K] = 1\n  out y: bf16[M, N] = 2\n"
                           "  grid m: M\n  grid n: N\n  axis k: K\n  loop k from 0 to K {\n"
                           "    carry %1: f32 = sum\n    %2: e4m3 = load x[m, k]\n"
                           "    %3: e5m2 = load w[n, k]\n    %4: f32 = mul %2, %3\n"
                           "    step %1, %4\n  }\n  %5: bf16 = cast %1\n  store y[m, n], %5\n}\n";

static void make(Made *x, const Case *c, bool promoted) {
    memset(x, 0, sizeof *x);
    Arena *a = &x->arena;
    Diags d = {.arena = a};
    Str why = {0};
    const char *text =
        arena_printf(a,
                     "schedule s for t.0 target sm_90a {\n  move tma\n  mul wgmma\n  threads 384\n"
                     "  axis m tile %d\n  axis n tile %d\n  axis k tile 128\n"
                     "  value %%2 place smem buffers %d swizzle 128\n"
                     "  value %%3 place smem buffers %d swizzle 128\n"
                     "  value %%5 place smem buffers 2 swizzle 32\n  role load warps 4 regs 24\n"
                     "  role mma warps 8 regs 240\n%s%s  persistent\n}\n",
                     c->m, c->n, c->stages, c->stages, promoted ? c->promote : "", c->more);
    TProg *t = tile_parse(a, source_new(a, "t", tile, strlen(tile)), &d);
    assert_non_null(t);
    Schedule *s = schedule_parse(a, source_new(a, "s", text, strlen(text)), t, &d);
    assert_non_null(s);
    Mma m;
    if (!mma_schedule(t, s, &m, &x->w, &why)) fail_msg("%s", str_get(&why));
    Step step = {.name = t->name, .tile = t};
    BackendOptions o = {.target = target_named("sm_90a")};
    Kernel k;
    assert_true(backend_lower(a, NULL, &step, s, &o, &d, &k, NULL));
    x->ptx = k.ptx;
}

/* ---- registers ------------------------------------------------------------------------------ */

enum { REGS = 4096, STAGES = 3 };

/* A sum of products: for each stage the number of the accumulator that its product is for, or
 * NONE; and the batch that is making it. */
enum { NONE = -1 };
typedef struct Sum {
    int of[STAGES];
    int batch; /* NONE: done, or no product of a batch */
    bool known;
} Sum;

typedef struct Machine {
    const MmaTiles *w;
    Sum f[REGS];
    int stage, in_stage;    /* being issued: stage, batches of it so far */
    int open, closed, done; /* batches: begun, committed, waited for */
    bool fenced;
    int released;
} Machine;

static const Sum zero = {{NONE, NONE, NONE}, NONE, true};

/* The number after "%f" at *at, which moves past it. */
static int reg(const char **at) {
    const char *p = strstr(*at, "%f");
    if (!p) fail_msg("no register in: %.60s", *at);
    int n = atoi(p + 2);
    assert_true(n < REGS);
    *at = p + 2 + strspn(p + 2, "0123456789");
    return n;
}

static const Sum *read_reg(const Machine *m, int r) {
    const Sum *s = &m->f[r];
    if (!s->known) fail_msg("%%f%d is read before it is written", r);
    if (s->batch != NONE && s->batch >= m->done)
        fail_msg("%%f%d is read while batch %d is pending", r, s->batch);
    return s;
}

static void write_reg(Machine *m, int r, Sum s) {
    const Sum *old = &m->f[r];
    if (old->known && old->batch != NONE && old->batch >= m->done)
        fail_msg("%%f%d is written while batch %d is pending", r, old->batch);
    s.batch = NONE;
    s.known = true;
    m->f[r] = s;
    m->fenced = false; /* a batch must see it */
}

static Sum plus(const Sum *a, const Sum *b) {
    Sum s = *a;
    for (int i = 0; i < STAGES; i++) {
        if (a->of[i] != NONE && b->of[i] != NONE) fail_msg("stage %d is added twice", i);
        if (b->of[i] != NONE) s.of[i] = b->of[i];
    }
    return s;
}

/* One instruction: the first of a batch overwrites. */
static void multiply(Machine *m, const char *line, int step) {
    int per = m->w->piece_n / 2, block = step % m->w->piece_blocks, piece = m->in_stage;
    bool first = step < m->w->piece_blocks;
    const char *scale = strstr(line, "}, da, db, ");
    assert_non_null(scale);
    assert_int_equal(scale[11], first ? '0' : '1');
    if (!m->fenced) fail_msg("no fence before a batch");
    for (int i = 0; i < per; i++) {
        int r = reg(&line);
        Sum *s = &m->f[r];
        if (!first) {
            assert_int_equal(s->batch, m->open);
            continue;
        }
        if (s->known && s->batch != NONE && s->batch >= m->done)
            fail_msg("%%f%d is overwritten while batch %d is pending", r, s->batch);
        *s = zero;
        s->batch = m->open;
        int acc = piece * m->w->piece_blocks * per + block * per + i;
        if (m->stage < STAGES) s->of[m->stage] = acc;
    }
}

/* A stage is done when its last batch is. */
static void release(Machine *m) {
    m->released++;
    if (m->done < m->released * m->w->pieces)
        fail_msg("stage %d is released when %d batches are done", m->released - 1, m->done);
}

/* Lines [from, end). */
static void run(Machine *m, const char *from, const char *end, bool first_stage) {
    int step = 0, per_batch = 4 * m->w->piece_blocks;
    char text[2048];
    const char *at;
    for (const char *line = from; line < end; line = strchr(line, '\n') + 1) {
        size_t n = strcspn(line, "\n");
        if (n >= sizeof text) n = sizeof text - 1;
        memcpy(text, line, n);
        text[n] = 0;
        if (strstr(text, "wgmma.fence")) {
            m->fenced = true;
            step = 0;
        } else if (strstr(text, "wgmma.mma_async")) {
            multiply(m, line, step++);
        } else if (strstr(text, "wgmma.commit_group")) {
            assert_int_equal(step, per_batch);
            m->open++;
            m->closed = m->open;
            m->in_stage++;
        } else if ((at = strstr(text, "wgmma.wait_group.sync.aligned "))) {
            int done = m->closed - atoi(at + 30);
            if (done > m->done) m->done = done;
        } else if (strstr(text, "mbarrier.arrive.shared::cta")) {
            if (!first_stage || m->w->sets == 1) release(m); /* else its predicate is false */
        } else if (strstr(text, "add.rn.f32")) {
            at = text;
            int d = reg(&at), a = reg(&at), b = reg(&at);
            write_reg(m, d, plus(read_reg(m, a), read_reg(m, b)));
        } else if (strstr(text, "mov.f32")) {
            at = text;
            int d = reg(&at);
            write_reg(m, d, strstr(at, "%f") ? *read_reg(m, reg(&at)) : zero);
        }
    }
}

/* ---- the parts of a kernel ------------------------------------------------------------------ */

typedef struct Parts {
    const char *before, *loop, *after, *end; /* zeros, the loop, what follows it */
} Parts;

static const char *line_of(const char *start, const char *at) {
    while (at > start && at[-1] != '\n') at--;
    return at;
}

static Parts find_parts(const char *ptx) {
    Parts p;
    char label[32];
    const char *mma = strstr(ptx, "wgmma.mma_async"), *head = mma;
    assert_non_null(mma);
    do head = line_of(ptx, head - 1);
    while (strncmp(head, "$L__BB", 6) != 0);
    snprintf(label, sizeof label, "bra \t%.*s;", (int)strcspn(head, ":"), head);
    p.loop = head;
    p.before = head;
    do p.before = line_of(ptx, p.before - 1);
    while (strncmp(p.before, "$L__BB", 6) != 0);
    const char *back = strstr(mma, label);
    assert_non_null(back);
    p.after = strchr(back, '\n') + 1;
    p.end = strstr(p.after, "\n$L__BB");
    assert_non_null(p.end);
    return p;
}

/* The pairs that stmatrix stores from `at` on, each the registers of two neighbours: "%r84" is
 * looked up among the conversions. Their count. */
static int stored(const char *at, const char *end, int *low, int max) {
    int n = 0;
    while ((at = strstr(at, "stmatrix.")) && at < end) {
        const char *regs = strchr(at, '{');
        for (int i = 0; i < 4; i++) {
            char what[64];
            regs = strstr(regs, "%r");
            size_t len = 2 + strspn(regs + 2, "0123456789");
            snprintf(what, sizeof what, "cvt.rn.bf16x2.f32 %.*s, %%f", (int)len, regs);
            const char *found = NULL;
            for (const char *p = at; !found; p--)
                if (!strncmp(p, what, strlen(what))) found = p;
            found += strlen(what) - 2;
            int hi = reg(&found), lo = reg(&found);
            assert_true(n + 2 <= max);
            low[n++] = lo, low[n++] = hi;
            regs += len;
        }
        at = regs;
    }
    return n;
}

/* ---- the test ------------------------------------------------------------------------------- */

enum { ACC_MAX = 512 };

/* Accumulators in the order in which they are stored. */
static int plain_order(const Case *c, int *order) {
    Made x;
    make(&x, c, false);
    int acc[ACC_MAX], place[REGS], n = x.w.group_rows / 64 * x.w.n / 2;
    const char *at = strstr(x.ptx, "wgmma.mma_async");
    for (int b = 0; b < x.w.group_rows / 64; b++) {
        for (int i = 0; i < x.w.n / 2; i++) place[reg(&at)] = b * x.w.n / 2 + i;
        at = strstr(at, "wgmma.mma_async");
    }
    int stores = stored(x.ptx, x.ptx + strlen(x.ptx), acc, ACC_MAX);
    assert_int_equal(stores, n);
    for (int i = 0; i < n; i++) order[i] = place[acc[i]];
    arena_free(&x.arena);
    return n;
}

static void check(const Case *c) {
    Made x;
    int order[ACC_MAX], got[ACC_MAX], n = plain_order(c, order);
    make(&x, c, true);
    Machine *m = calloc(1, sizeof *m);
    m->w = &x.w;
    Parts p = find_parts(x.ptx);
    run(m, p.before, p.loop, false);
    for (m->stage = 0; m->stage < STAGES; m->stage++) {
        m->in_stage = 0;
        run(m, p.loop, p.after, m->stage == 0);
        assert_int_equal(m->in_stage, x.w.pieces);
    }
    run(m, p.after, p.end, false);
    assert_int_equal(m->released, STAGES);
    assert_int_equal(m->done, STAGES * x.w.pieces);
    assert_int_equal(stored(p.after, x.ptx + strlen(x.ptx), got, ACC_MAX), n);
    for (int i = 0; i < n; i++)
        for (int s = 0; s < STAGES; s++) assert_int_equal(read_reg(m, got[i])->of[s], order[i]);
    free(m);
    arena_free(&x.arena);
}

static void one_set(void **state) {
    (void)state;
    check(&(Case){128, 192, 4, "  promote 128\n", ""});
    check(&(Case){128, 192, 4, "  promote 128\n  turns\n", ""});
    check(&(Case){128, 256, 4, "  promote 128 pieces 2\n  turns\n", ""});
    check(&(Case){256, 128, 4, "  promote 128 pieces 2\n", ""});
    check(&(Case){256, 64, 4, "  promote 128 pieces 1\n", ""});
    check(&(Case){256, 64, 4, "  promote 128 pieces 4\n", ""});
    check(&(Case){64, 32, 8, "  promote 128\n", "  pingpong\n"});
}

static void two_sets(void **state) {
    (void)state;
    check(&(Case){128, 192, 4, "  promote 128 pieces 2 sets 2\n", ""});
    check(&(Case){128, 96, 6, "  promote 128 pieces 2 sets 2\n", "  pingpong\n"});
    check(&(Case){64, 128, 8, "  promote 128 pieces 2 sets 2\n", "  pingpong\n"});
    check(&(Case){64, 256, 4, "  promote 128 pieces 8 sets 2\n", "  pingpong\n"});
    check(&(Case){256, 64, 4, "  promote 128 pieces 4 sets 2\n", ""});
}

/* Each group passes its turn as often as it waits for it, in the loop; group 1 once before. */
static void turns(void **state) {
    (void)state;
    Made x;
    make(&x, &(Case){128, 256, 4, "  promote 128 pieces 2\n  turns\n", ""}, true);
    Parts p = find_parts(x.ptx);
    int wait = 0, pass = 0, before = 0;
    for (const char *at = x.ptx; (at = strstr(at, ", 256;")); at++) {
        const char *line = line_of(x.ptx, at);
        bool in = line > p.loop && line < p.after, sync = strstr(line, "bar.sync") == line + 1;
        wait += in && sync;
        pass += in && !sync;
        before += line < p.loop && !sync;
    }
    assert_int_equal(wait, 2);
    assert_int_equal(pass, 2);
    assert_int_equal(before, 1);
    arena_free(&x.arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_set),
        cmocka_unit_test(two_sets),
        cmocka_unit_test(turns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
