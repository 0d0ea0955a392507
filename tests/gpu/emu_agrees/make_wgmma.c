// wgmma: matrices that lie in shared memory in every way that descriptors can say, or in registers.
//
// Shared memory is filled with elements and the descriptor only says which of them are multiplied,
// so that a layout understood otherwise gives other sums.
#include <string.h>

#include "tests/gpu/emu_agrees/makers.h"

enum { PLACE_B = 16384, PLACE = 49152, REG_A = 128 }; // bytes of shared memory; registers

typedef struct Way {
    bool trans_a, trans_b, keep; // keep: add to the accumulators
    uint32_t swizzle;
    int scale_a, scale_b;
    Fill fill;
} Way;

// The descriptor but for the address: rows of k, or, transposed, k of rows, lie together.
static uint64_t layout(uint32_t swizzle, bool transposed, uint32_t outer) {
    static const uint64_t code[] = {[0] = 0, [32] = 3, [64] = 2, [128] = 1};
    uint64_t lead = 16, stride = 8 * swizzle;
    if (swizzle && transposed) lead = 16 * swizzle;
    if (!swizzle) lead = transposed ? 128 : 16 * outer, stride = transposed ? 256 : 128;
    return code[swizzle] << 62 | (stride >> 4) << 32 | (lead >> 4) << 16;
}

// Of the matrix at a byte of shared memory; k may begin within a row of the swizzle.
static void descriptor(Make *m, const char *to, uint32_t at, const Way *w, bool transposed,
                       uint32_t outer) {
    uint32_t within = w->swizzle >= 64 && !transposed && at ? 32 : 0;
    say(m, "add.u64 %s, %%d7, %u;\nand.b64 %s, %s, 0x3ffff;\nshr.u64 %s, %s, 4;", to, at + within,
        to, to, to, to);
    say(m, "or.b64 %s, %s, 0x%llx;", to, to,
        (unsigned long long)layout(w->swizzle, transposed, outer));
}

static const char *list(int first, int n) {
    char *text = text_of("%*s", 8 * n + 2, ""), *s = text;
    for (int k = 0; k < n; k++) s += sprintf(s, "%s%%w%d", k ? ", " : "{", first + k);
    strcpy(s, "}");
    return text;
}

typedef struct Wgmma {
    MmaType type[3];
    int sums;          // registers of them
    bool registers;    // A is there
    const char *flags; // the operands behind the predicate
    uint32_t at_sums, at_a, per_sum;
    bool whole;
} Wgmma;

static Wgmma describe(const Make *m) {
    Wgmma g = {.flags = strrchr(m->form->operands, 'p') + 1};
    mma_types(m->name, g.type);
    g.registers = strstr(m->form->operands, "{w*}");
    g.per_sum = g.type[0].element == EL_F16 ? 2 : 1;
    g.sums = (int)(m->number / 2 / g.per_sum);
    g.whole = g.type[1].element == EL_S8 || g.type[1].element == EL_U8;
    return g;
}

// Accumulators and registers of A from the input: thread t's k-th is word t + k.
static void load_registers(Make *m, const Wgmma *g, bool magnitudes) {
    say(m, "add.u64 %%d10, %%d3, %u;\nadd.u64 %%d11, %%d3, %u;", g->at_sums, g->at_a);
    for (int k = 0; k < g->sums; k++) {
        say(m, "ld.global.u32 %%w%d, [%%d10+%d];", k, 4 * k);
        if (magnitudes) say(m, "and.b32 %%w%d, %%w%d, 0x%x;", k, k, g->type[0].magnitude);
    }
    for (int k = 0; k < 4 && g->registers; k++) {
        int r = REG_A + k;
        say(m, "ld.global.u32 %%w%d, [%%d11+%d];", r, 4 * k);
        if (magnitudes) say(m, "and.b32 %%w%d, %%w%d, 0x%x;", r, r, g->type[1].magnitude);
    }
}

static void multiply(Make *m, const Wgmma *g, const Way *w) {
    char flags[64] = "";
    if (g->flags[0])
        snprintf(flags, sizeof flags, ", %d, %d%s%s%s%s", w->scale_a, w->scale_b,
                 !g->flags[2]  ? ""
                 : g->flags[3] ? ", "
                               : "",
                 g->flags[2] && g->flags[3] ? (w->trans_a ? "1" : "0") : "",
                 g->flags[2] ? ", " : "", g->flags[2] ? (w->trans_b ? "1" : "0") : "");
    say(m, "fence.proxy.async;\nbar.sync 0;\nwgmma.fence.sync.aligned;");
    say(m, "%s %s, %s, %%d9, %%p8%s;", m->name, list(0, g->sums),
        g->registers ? list(REG_A, 4) : "%d8", flags);
    say(m, "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;");
}

// Elements of shared memory without their signs.
static void magnitudes(Make *m, uint32_t mask) {
    say(m, "mul.wide.u32 %%d12, %%r0, 4;\nadd.u64 %%d12, %%d12, %%d7;\nmov.u32 %%r8, 0;");
    say(m, "bar.sync 0;\nNEXT: ld.shared.u32 %%r9, [%%d12];\nand.b32 %%r9, %%r9, 0x%x;", mask);
    say(m, "st.shared.u32 [%%d12], %%r9;\nadd.u64 %%d12, %%d12, 512;\nadd.u32 %%r8, %%r8, 512;");
    say(m, "setp.lt.u32 %%p9, %%r8, %d;\n@%%p9 bra NEXT;", PLACE);
}

// All accumulators; of a bounded test those of every fourth thread.
static void give_sums(Make *m, const Wgmma *g, Type type, uint32_t every) {
    uint32_t at = output(m, type, 4, (uint32_t)g->sums * 128 / every);
    say(m, "and.b32 %%r8, %%r0, %u;\nsetp.eq.u32 %%p9, %%r8, 0;\ndiv.u32 %%r9, %%r0, %u;",
        every - 1, every);
    say(m, "mul.wide.u32 %%d12, %%r9, 4;\nadd.u64 %%d12, %%d12, %%d1;");
    for (int k = 0; k < g->sums; k++)
        say(m, "@%%p9 st.global.u32 [%%d12+%u], %%w%d;", at + 512 / every * (uint32_t)k, k);
}

static void wgmma_test(Make *m, const Way *way, const char *variant) {
    static const uint32_t bytes[] = {2, 2, 4, 1, 1, 1, 1};
    Wgmma g = describe(m);
    Way w = *way;
    Type type = TYPE_EXACT;
    Bound bound = {0};
    Range range;
    bool bounded = w.fill == FILL_NORMAL || w.fill == FILL_TINY;
    if (bounded) bound = *bound_of(m->name, &type, &range);
    begin(m, 128, 128);
    m->t->bound = bound;
    declare(m, ".reg .b32 %%w<132>;\n.shared .align 1024 .b8 place[%d];", PLACE);
    uint32_t unit = bytes[g.type[1].element];
    uint32_t at_a = matrix(m, g.type[1].element, w.fill, PLACE_B / unit);
    uint32_t at_b = matrix(m, g.type[2].element, w.fill, (PLACE - PLACE_B) / unit);
    g.at_a = matrix(m, g.type[1].element, w.fill, 132 * 4 / unit);
    g.at_sums = g.whole ? input(m, KIND_RANDOM, 4, 256)
                        : matrix(m, g.type[0].element, w.fill, 256 * g.per_sum);
    say(m, "mov.u64 %%d7, place;\nadd.u64 %%d4, %%d0, %u;\nadd.u64 %%d5, %%d0, %u;", at_a, at_b);
    copy_bytes(m, "%d7", "shared", "%d4", "global", PLACE_B);
    say(m, "add.u64 %%d6, %%d7, %d;", PLACE_B);
    copy_bytes(m, "%d6", "shared", "%d5", "global", PLACE - PLACE_B);
    say(m, "mul.wide.u32 %%d3, %%r0, 4;\nadd.u64 %%d3, %%d3, %%d0;");
    say(m, "setp.%s.u32 %%p8, %%r0, %%r0;", w.keep ? "eq" : "ne");
    descriptor(m, "%d8", 0, &w, w.trans_a, 64);
    descriptor(m, "%d9", PLACE_B, &w, w.trans_b, m->number);
    load_registers(m, &g, false);
    multiply(m, &g, &w);
    give_sums(m, &g, type, bounded ? 4 : 1);
    if (bounded) { // again, with magnitudes: what the bound is relative to
        w.scale_a = w.scale_b = 1;
        magnitudes(m, g.type[1].magnitude);
        load_registers(m, &g, true);
        multiply(m, &g, &w);
        give_sums(m, &g, TYPE_SCALE, 4);
    }
    end(m, "%s", variant);
}

void make_wgmma(Make *m, int arg) {
    static const uint32_t swizzles[] = {128, 64, 32, 0};
    Wgmma g = describe(m);
    uint32_t n = m->number;
    bool trans_a = strlen(g.flags) == 4, trans_b = strlen(g.flags) > 2, scales = *g.flags;
    (void)arg;
    for (int k = 0; k < 16; k++) {
        Way w = {k >> 2 & 1, k >> 3, n != 24, swizzles[k & 3], 1, 1, FILL_SMALL};
        if ((w.trans_a && !trans_a) || (w.trans_b && !trans_b)) continue;
        if (n != 64 && k % 5 != (n == 24 || n == 128)) continue; // two or four ways of other sizes
        if (n == 24 && scales) w.scale_a = -1;
        if (n == 128 && scales) w.scale_b = -1;
        wgmma_test(m, &w,
                   text_of("swizzle-%u%s%s%s%s%s", w.swizzle, w.trans_a ? " trans-a" : "",
                           w.trans_b ? " trans-b" : "", w.keep ? "" : " zeroed",
                           w.scale_a < 0 ? " minus-a" : "", w.scale_b < 0 ? " minus-b" : ""));
    }
    if (n != 8 || g.whole) return;
    Way w = {.keep = true, .swizzle = 128, .scale_a = 1, .scale_b = 1, .fill = FILL_NORMAL};
    wgmma_test(m, &w, "normal");
    w.fill = FILL_TINY;
    wgmma_test(m, &w, "subnormal");
    w.fill = FILL_SPECIAL;
    wgmma_test(m, &w, "inf-nan");
}

// Two groups of products, waited for one after the other; the instruction of the row is among what
// orders them.
void make_wgmma_sync(Make *m, int arg) {
    static const char product[] = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16";
    static const char fence[] = "wgmma.fence.sync.aligned",
                      commit[] = "wgmma.commit_group.sync.aligned",
                      wait[] = "wgmma.wait_group.sync.aligned";
    Way w = {.swizzle = 128};
    begin(m, 128, 128);
    declare(m, ".reg .b32 %%w<132>;\n.shared .align 1024 .b8 place[%d];", PLACE_B + 4096);
    uint32_t at = matrix(m, EL_F16, FILL_SMALL, (PLACE_B + 4096) / 2);
    say(m, "mov.u64 %%d7, place;\nadd.u64 %%d4, %%d0, %u;\nsetp.ne.u32 %%p8, %%r0, %%r0;", at);
    copy_bytes(m, "%d7", "shared", "%d4", "global", PLACE_B + 4096);
    descriptor(m, "%d8", 0, &w, false, 64);
    descriptor(m, "%d9", PLACE_B, &w, false, 8);
    say(m, "fence.proxy.async;\nbar.sync 0;\n%s;", arg == 0 ? m->name : fence);
    for (int k = 0; k < 2; k++) {
        say(m, "%s %s, %%d8, %%d9, %%p8, 1, %d, 0, 0;\n%s;", product, list(8 * k, 4), k ? -1 : 1,
            arg == 1 ? m->name : commit);
    }
    for (int k = 0; k < 2; k++) {
        say(m, "%s %d;", arg == 2 ? m->name : wait, 1 - k);
        uint32_t out = output(m, TYPE_EXACT, 4, 512);
        say(m, "mul.wide.u32 %%d12, %%r0, 4;\nadd.u64 %%d12, %%d12, %%d1;");
        for (int c = 0; c < 4; c++)
            say(m, "st.global.u32 [%%d12+%u], %%w%d;", out + 512 * (uint32_t)c, 8 * k + c);
    }
    end(m, "%s", "");
}
