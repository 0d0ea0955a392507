// What computes lane by lane: operands from the input, results to the output. And what lanes do
// together: votes, shuffles.
#include <ctype.h>
#include <string.h>

#include "tests/gpu/emu_agrees/makers.h"

// ---- what a name says ----

bool has(const char *name, const char *part) {
    size_t n = strlen(part);
    for (const char *s = name; (s = strstr(s, part)); s++)
        if ((s == name || s[-1] == '.') && (!s[n] || s[n] == '.')) return true;
    return false;
}

static const char *last_part(const char *name) {
    const char *dot = strrchr(name, '.');
    return dot ? dot + 1 : name;
}

uint32_t type_bytes(const char *name) {
    const char *t = last_part(name) + strcspn(last_part(name), "0123456789");
    uint32_t bits = 0;
    for (; isdigit((unsigned char)*t); t++) bits = bits * 10 + (uint32_t)(*t - '0');
    return *t == 'x' ? bits / 4 : bits / 8;
}

Kind kind_of(const char *name, char letter) {
    static const struct {
        const char *type;
        char letter;
        Kind kind;
    } floats[] = {{"f32", 'r', KIND_F32},
                  {"f16", 'h', KIND_F16},
                  {"bf16", 'h', KIND_BF16},
                  {"f16x2", 'r', KIND_F16X2},
                  {"bf16x2", 'r', KIND_BF16X2}};
    if (letter == 'p') return KIND_PRED;
    for (size_t k = 0; k < sizeof floats / sizeof *floats; k++)
        if (letter == floats[k].letter && !strcmp(last_part(name), floats[k].type))
            return floats[k].kind;
    return KIND_INT;
}

typedef struct Approximation {
    const char *name;
    Type type;
    Bound bound;
    Range range;
} Approximation;

static const Approximation approximations[] = {
#define BOUND(name, type, relative, absolute, low, high)                                           \
    {name, TYPE_##type, {relative, absolute}, {low, high}},
#include "tests/gpu/emu_agrees/bounds.def"
#undef BOUND
};

const Bound *bound_of(const char *name, Type *type, Range *range) {
    for (size_t k = 0; k < sizeof approximations / sizeof *approximations; k++) {
        if (!like(approximations[k].name, name)) continue;
        *type = approximations[k].type;
        *range = approximations[k].range;
        return &approximations[k].bound;
    }
    return NULL;
}

// ---- lane by lane ----

enum { FIRST = 20 }; // registers of operands

typedef struct Alu {
    Range range;
    Type type;
    int written;
} Alu;

static bool is_read(char letter) {
    return islower((unsigned char)letter) && letter != 'x' && letter != 'y';
}

static void take_operand(Make *m, char letter, int number, int index, int of, void *data) {
    const Alu *a = data;
    if (!is_read(letter)) return;
    Kind kind = kind_of(m->name, letter);
    if (letter == 'r' && like("bf?.?64", m->name)) kind = KIND_BYTE;
    take(m, kind, letter, number, index, of, kind == KIND_F32 ? a->range : (Range){0});
}

static void give_operand(Make *m, char letter, int number, int index, int of, void *data) {
    Alu *a = data;
    (void)index, (void)of;
    if (is_read(letter)) return;
    give(m, a->type, letter, number);
    a->written++;
}

static uint32_t cases_of(const Make *m, const Bound *bound) {
    int reads = 0, halves = 0;
    for (const char *s = m->form->operands; *s; s++) {
        reads += is_read(*s) && *s != 'i';
        halves += *s == 'h';
    }
    if (bound) return 256;
    return reads == 1 && halves ? 65536 : reads > 2 ? 8192 : 4096;
}

void make_alu(Make *m, int arg) {
    static const char *const numbers[] = {"0xd2", "0xe8", "0x01", "0x96"};
    const char *operands = m->form->operands;
    Alu a = {0};
    (void)arg;
    const Bound *bound = bound_of(m->name, &a.type, &a.range);
    if (!strpbrk(operands, "PHRLxy") || strpbrk(operands, "astDdWw")) return; // not for it
    begin(m, cases_of(m, bound), 128);
    if (bound) m->t->bound = *bound;
    each_operand(m, operands, FIRST, take_operand, &a);
    for (int k = 0; k < (strchr(operands, 'i') ? 4 : 1); k++) {
        char text[256];
        operands_text(operands, &(Parts){.number = numbers[k], .first = FIRST}, text, sizeof text);
        say(m, "%s %s;", m->name, text);
        each_operand(m, operands, FIRST, give_operand, &a);
    }
    end(m, "%s", "");
}

// The address of a variable as a value.
void make_symbol(Make *m, int arg) {
    (void)arg;
    begin(m, 32, 32);
    declare(m, ".shared .align 8 .b8 other[24];\n.shared .align 8 .b8 place[128];");
    take(m, KIND_INT, 'r', 8, 0, 1, (Range){0});
    say(m, "%s %%d8, place;", m->name);
    say(m, "mul.wide.u32 %%d9, %%r0, 4;\nadd.u64 %%d9, %%d9, %%d8;");
    say(m, "st.shared.u32 [%%d9], %%r8;\nbar.warp.sync 0xffffffff;");
    say(m, "ld.shared.u32 %%r9, [place+20];");
    give(m, TYPE_EXACT, 'r', 9);
    end(m, "%s", "");
}

// arg: 1 if all lanes must go the same way
void make_branch(Make *m, int arg) {
    begin(m, 128, 32);
    take(m, KIND_PRED, 'p', 8, 0, 1, (Range){0});
    if (arg) say(m, "vote.sync.any.pred %%p8, %%p8, 0xffffffff;");
    say(m, "mov.u32 %%r8, 1;");
    say(m, "@%%p8 %s BEHIND;", m->name);
    say(m, "add.u32 %%r8, %%r8, 2;\n%s JOIN;", arg ? "bra" : m->name);
    say(m, "BEHIND: add.u32 %%r8, %%r8, 4;\nJOIN: add.u32 %%r8, %%r8, 16;");
    give(m, TYPE_EXACT, 'r', 8);
    end(m, "%s", "");
}

void make_end(Make *m, int arg) {
    (void)arg;
    begin(m, 128, 32);
    take(m, KIND_PRED, 'p', 8, 0, 1, (Range){0});
    say(m, "add.u32 %%r8, %%r0, 1;");
    give(m, TYPE_EXACT, 'r', 8);
    say(m, "@%%p8 %s;", m->name);
    give(m, TYPE_EXACT, 'r', 8);
    end(m, "%s", "");
}

// ---- lanes with each other ----

enum { ALL = -1, SOME = 0x0ff60ff0, TWO = 0x00100004 };

static void clear_operand(Make *m, char letter, int number, int index, int of, void *data) {
    (void)index, (void)of, (void)data;
    if (is_read(letter)) return;
    if (letter == 'P')
        say(m, "setp.ne.u32 %s, %%r0, %%r0;", reg(letter, number));
    else
        say(m, "mov.u32 %s, 77;", reg(letter, number));
}

// The last read operand is the membermask.
static void take_warp_operand(Make *m, char letter, int number, int index, int of, void *data) {
    const int *mask = data;
    bool shuffle = has(m->name, "shfl"), match = has(m->name, "match");
    if (!is_read(letter)) return;
    if (index == of - 1)
        say(m, "mov.u32 %s, 0x%x;", reg(letter, number), (unsigned)*mask);
    else
        take(m,
             letter == 'p'                      ? KIND_PRED
             : match || (shuffle && index == 1) ? KIND_LOW
             : shuffle && index == 2            ? KIND_MASK
                                                : KIND_INT,
             letter, number, index, shuffle && index ? 3 : 1, (Range){0});
}

static void warp_test(Make *m, int mask, const char *variant) {
    char text[256];
    Alu a = {0};
    begin(m, 4096, 32);
    each_operand(m, m->form->operands, FIRST, take_warp_operand, &mask);
    each_operand(m, m->form->operands, FIRST, clear_operand, NULL);
    operands_text(m->form->operands, &(Parts){.first = FIRST}, text, sizeof text);
    if (mask != ALL) {
        say(m, "mov.u32 %%r3, %%laneid;\nmov.u32 %%r4, 0x%x;\nshr.u32 %%r3, %%r4, %%r3;", mask);
        say(m, "and.b32 %%r3, %%r3, 1;\nsetp.ne.u32 %%p1, %%r3, 0;");
    }
    say(m, "%s%s %s;", mask == ALL ? "" : "@%p1 ", m->name, text);
    each_operand(m, m->form->operands, FIRST, give_operand, &a);
    end(m, "%s", variant);
}

// arg: 1 if part of the warp may do it
void make_warp(Make *m, int arg) {
    warp_test(m, ALL, "");
    if (arg) warp_test(m, SOME, "some-lanes");
    if (arg) warp_test(m, TWO, "two-lanes");
}

void make_warp_barrier(Make *m, int arg) {
    (void)arg;
    begin(m, 1024, 32);
    declare(m, ".shared .align 4 .b8 place[128];");
    take(m, KIND_INT, 'r', 8, 0, 1, (Range){0});
    say(m, "mov.u32 %%r9, %%laneid;\nxor.b32 %%r10, %%r9, 13;\nmov.u64 %%d8, place;");
    say(m, "mul.wide.u32 %%d9, %%r9, 4;\nadd.u64 %%d9, %%d9, %%d8;");
    say(m, "mul.wide.u32 %%d10, %%r10, 4;\nadd.u64 %%d10, %%d10, %%d8;");
    say(m, "st.shared.u32 [%%d9], %%r8;\n%s 0xffffffff;", m->name);
    say(m, "ld.shared.u32 %%r11, [%%d10];");
    give(m, TYPE_EXACT, 'r', 11);
    end(m, "%s", "");
}
