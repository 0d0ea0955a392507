// ldmatrix, stmatrix, mma.sync.
#include <ctype.h>
#include <string.h>

#include "tests/gpu/emu_agrees/makers.h"

enum { FIRST = 20 };

// A warp's matrices in shared memory, its rows of 16 bytes in no order: the address at %d9.
static void warp_rows(Make *m) {
    begin(m, 32, 32);
    declare(m, ".shared .align 128 .b8 place[1024];");
    uint32_t in = input(m, KIND_RANDOM, 8, 128);
    say(m, "mov.u64 %%d7, place;\nadd.u64 %%d8, %%d0, %u;", in);
    copy_bytes(m, "%d7", "shared", "%d8", "global", 1024);
    say(m, "bar.warp.sync 0xffffffff;\nmul.lo.u32 %%r3, %%r0, 11;\nadd.u32 %%r3, %%r3, 5;");
    say(m, "and.b32 %%r3, %%r3, 31;\nmul.wide.u32 %%d9, %%r3, 16;\nadd.u64 %%d9, %%d9, %%d7;");
}

static void give_one(Make *m, char letter, int number, int index, int of, void *data) {
    (void)index, (void)of, (void)data;
    if (isupper((unsigned char)letter)) give(m, TYPE_EXACT, letter, number);
}

static void take_one(Make *m, char letter, int number, int index, int of, void *data) {
    (void)data, (void)of;
    if (islower((unsigned char)letter)) take(m, KIND_RANDOM, letter, number, index, 5, (Range){0});
}

void make_ldmatrix(Make *m, int arg) {
    char text[128];
    (void)arg;
    warp_rows(m);
    operands_text(m->form->operands, &(Parts){.address = "[%d9+512]", .first = FIRST}, text,
                  sizeof text);
    say(m, "%s %s;", m->name, text);
    each_operand(m, m->form->operands, FIRST, give_one, NULL);
    end(m, "%s", "");
}

void make_stmatrix(Make *m, int arg) {
    char text[128];
    (void)arg;
    warp_rows(m);
    each_operand(m, m->form->operands, FIRST, take_one, NULL);
    operands_text(m->form->operands, &(Parts){.address = "[%d9+512]", .first = FIRST}, text,
                  sizeof text);
    say(m, "%s %s;\nbar.warp.sync 0xffffffff;", m->name, text);
    say(m, "add.u64 %%d8, %%d1, %u;", output(m, TYPE_EXACT, 8, 128));
    copy_bytes(m, "%d8", "global", "%d7", "shared", 1024);
    end(m, "%s", "");
}

// ---- mma.sync ----

static const struct {
    const char *name;
    Element element;
    uint32_t magnitude; // of the elements in a register
} element_types[] = {{"f16", EL_F16, 0x7fff7fff},
                     {"bf16", EL_BF16, 0x7fff7fff},
                     {"tf32", EL_TF32, 0x7fffffff},
                     {"e4m3", EL_E4M3, 0x7f7f7f7f},
                     {"e5m2", EL_E5M2, 0x7f7f7f7f},
                     {"s8", EL_S8, 0},
                     {"u8", EL_U8, 0},
                     {"f32", EL_F32, 0x7fffffff},
                     {"s32", EL_F32, 0}};

void mma_types(const char *name, MmaType type[3]) {
    // the last three, or four, parts of the name are types; the first of them is the sums'
    static const char *const where[] = {"k8.", "k16.", "k32.", "col."};
    const char *s = name;
    for (int k = 3; k >= 0; k--)
        if (strstr(name, where[k])) {
            s = strstr(name, where[k]) + strlen(where[k]);
            break;
        }
    for (int k = 0; k < 3; k++) {
        size_t n = strcspn(s, ".");
        for (size_t e = 0; e < sizeof element_types / sizeof *element_types; e++)
            if (strlen(element_types[e].name) == n && !strncmp(s, element_types[e].name, n))
                type[k] = (MmaType){element_types[e].element, element_types[e].magnitude};
        s += n + (s[n] == '.');
    }
}

// Registers of the elements, `n` a thread, from number `first` on.
static void take_matrix(Make *m, MmaType t, Fill fill, int first, int n) {
    static const uint32_t per[] = {2, 2, 1, 4, 4, 4, 4, 1};
    uint32_t at = matrix(m, t.element, fill, m->cases * (uint32_t)n * per[t.element]);
    say(m, "mul.wide.u32 %%d2, %%r0, %d;\nadd.u64 %%d2, %%d2, %%d0;", 4 * n);
    for (int k = 0; k < n; k++)
        say(m, "ld.global.u32 %%r%d, [%%d2+%u];", first + k, at + 4 * (uint32_t)k);
}

static void mma_test(Make *m, Fill fill, const char *variant) {
    int n[4] = {0}, list = -1, first = FIRST;
    MmaType type[3];
    Bound bound = {0};
    char text[256];
    Range range;
    Type exact = TYPE_EXACT;
    for (const char *s = m->form->operands; *s; s++) {
        list += *s == '{';
        n[list] += isalpha((unsigned char)*s) != 0;
    }
    mma_types(m->name, type);
    bool whole = type[1].element == EL_S8 || type[1].element == EL_U8;
    if (fill == FILL_NORMAL || fill == FILL_TINY) bound = *bound_of(m->name, &exact, &range);
    begin(m, fill == FILL_SMALL ? 128 : 32, 32);
    m->t->bound = bound;
    first += n[0];
    for (int k = 1; k < 4; k++) {
        MmaType t = type[k % 3];
        if (k == 3 && whole)
            for (int c = 0; c < n[k]; c++) take(m, KIND_RANDOM, 'r', first + c, c, 5, (Range){0});
        else
            take_matrix(m, t, fill, first, n[k]);
        first += n[k];
    }
    operands_text(m->form->operands, &(Parts){.first = FIRST}, text, sizeof text);
    say(m, "%s %s;", m->name, text);
    for (int k = 0; k < n[0]; k++) give(m, exact, 'r', FIRST + k);
    if (exact != TYPE_EXACT) { // again, with magnitudes: what the bound is relative to
        first = FIRST + n[0];
        for (int k = 1; k < 4; k++)
            for (int c = 0; c < n[k]; c++, first++)
                say(m, "and.b32 %%r%d, %%r%d, 0x%x;", first, first, type[k % 3].magnitude);
        say(m, "%s %s;", m->name, text);
        for (int k = 0; k < n[0]; k++) give(m, TYPE_SCALE, 'r', FIRST + k);
    }
    end(m, "%s", variant);
}

void make_mma(Make *m, int arg) {
    MmaType type[3];
    (void)arg;
    mma_types(m->name, type);
    mma_test(m, FILL_SMALL, "");
    if (type[1].element == EL_S8 || type[1].element == EL_U8) return;
    mma_test(m, FILL_NORMAL, "normal");
    mma_test(m, FILL_TINY, "subnormal");
    mma_test(m, FILL_SPECIAL, "inf-nan");
}
