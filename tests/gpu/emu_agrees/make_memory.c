// Loads, stores and atomics of each space and width, and addresses between spaces.
#include <ctype.h>
#include <string.h>

#include "tests/gpu/emu_agrees/makers.h"

enum {
    SLOT = 32,
    FIRST = 20,
    CASES = 64,
    CONSTANTS = 16
}; // bytes that a thread has; threads; slots

// Which space a load's or store's name says; "" is the generic one.
static const char *space_of(const char *name) {
    static const char *const all[] = {"global", "shared", "shared::cta", "const", "local", "param"};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++)
        if (has(name, all[k])) return k == 2 ? "shared" : all[k];
    return "";
}

// ---- a thread's slot, at %d8 ----

// Copies the slot between the addresses in %d5 and %d8.
static void copy_slot(Make *m, const char *space) {
    for (int k = 0; k < SLOT; k += 8)
        say(m, "ld.global.u64 %%d6, [%%d5+%d];\nst.%s.u64 [%%d8+%d], %%d6;", k, space, k);
}

static void index_slot(Make *m, const char *address, int index, const char *base) {
    say(m, "mul.wide.u32 %s, %%r%d, %d;\nadd.u64 %s, %s, %s;", address, index, SLOT, address,
        address, base);
}

// The bytes of a variable of constant memory.
static const char *constants(void) {
    char *text = text_of("%*s", 4 * CONSTANTS * SLOT + 64, ""), *s = text;
    s += sprintf(s, ".const .align 32 .b8 c$[%d] = {1", CONSTANTS * SLOT);
    for (int k = 1; k < CONSTANTS * SLOT; k++) s += sprintf(s, ",%d", (k * 167 + k / 7 * 13) & 255);
    strcpy(s, "};\n");
    return text;
}

// What the slot holds comes from the input; to be written to, global ones lie in the output.
static void slot(Make *m, const char *space, bool writable) {
    uint32_t in = input(m, KIND_RANDOM, 8, CASES * SLOT / 8);
    say(m, "add.u64 %%d3, %%d0, %u;", in);
    index_slot(m, "%d5", 0, "%d3");
    say(m, "mov.u32 %%r3, %%tid.x;");
    if (!strcmp(space, "global") || !*space) {
        if (writable) {
            say(m, "add.u64 %%d4, %%d1, %u;",
                output(m, TYPE_EXACT, 8, CASES * SLOT / 8)); // holds what it shall, too
            index_slot(m, "%d8", 0, "%d4");
            copy_slot(m, "global");
        } else {
            say(m, "mov.u64 %%d8, %%d5;");
        }
    }
    if (!*space) say(m, "mov.u64 %%d7, %%d8;");
    if (!strcmp(space, "shared") || !*space) {
        declare(m, ".shared .align 32 .b8 place[%d];", SLOT * 32);
        say(m, "mov.u64 %%d4, place;");
        index_slot(m, "%d8", 3, "%d4");
        copy_slot(m, "shared");
    }
    if (!*space) { // every other lane the one and the other
        say(m, "cvta.shared.u64 %%d8, %%d8;\nand.b32 %%r4, %%r3, 1;\nsetp.ne.u32 %%p1, %%r4, 0;");
        say(m, "selp.b64 %%d8, %%d8, %%d7, %%p1;");
    }
    if (!strcmp(space, "local")) {
        declare(m, ".local .align 32 .b8 place[%d];", SLOT);
        say(m, "mov.u64 %%d8, place;");
        copy_slot(m, "local");
    }
    if (!strcmp(space, "const")) {
        m->prefix = constants();
        say(m, "and.b32 %%r3, %%r0, %d;\nmov.u64 %%d4, c$;", CONSTANTS - 1);
        index_slot(m, "%d8", 3, "%d4");
    }
}

// ---- loads and stores ----

static int vector_of(const char *operands) {
    int n = 0;
    for (; *operands; operands++) n += isalpha((unsigned char)*operands) && *operands != 'a';
    return n;
}

static void give_loaded(Make *m, char letter, int number, int index, int of, void *data) {
    const char *any = data;
    (void)index, (void)of;
    give(m, TYPE_EXACT, toupper((unsigned char)letter) == 'D' ? *any : letter, number);
}

static void take_stored(Make *m, char letter, int number, int index, int of, void *data) {
    const char *any = data;
    take(m, KIND_INT, letter == 'd' ? *any : letter, number, index, of + 2, (Range){0});
}

// Registers wider than the type, where D allows them: one after the other.
static const char *classes_of(const char *operands) {
    return strpbrk(operands, "Dd") ? "hrl" : "-";
}

// A cache policy is the last operand of a row, behind those of the data.
#define SET_POLICY "mov.u64 %%d12, 0x1000000000000000;"
static const char *policy_of(const Make *m) {
    return has(m->name, "L2::cache_hint") ? ", %d12" : "";
}

static const char *data_of(const Make *m) {
    const char *all = m->form->operands;
    return text_of("%.*s", (int)strlen(all) - (*policy_of(m) != 0), all);
}

void make_load(Make *m, int arg) {
    const char *space = space_of(m->name), *policy = policy_of(m), *operands = data_of(m);
    uint32_t bytes = type_bytes(m->name) * (uint32_t)vector_of(operands);
    bool param = !strcmp(space, "param");
    (void)arg;
    if (param && bytes > 8) return; // parameters have 8 bytes
    begin(m, CASES, 32);
    if (!param) slot(m, space, false);
    if (*policy) say(m, SET_POLICY);
    for (const char *any = classes_of(operands); *any; any++) {
        char address[32], text[256];
        if (param)
            snprintf(address, sizeof address, "[word+%u]", bytes < 8 ? bytes : 0);
        else
            snprintf(address, sizeof address, "[%%d8+%u]", bytes * (*any == 'r' ? 0 : 1));
        operands_text(operands, &(Parts){.address = address, .first = FIRST, .any = *any}, text,
                      sizeof text);
        say(m, "%s %s%s;", m->name, text, policy);
        each_operand(m, operands, FIRST, give_loaded, (void *)(uintptr_t)any);
    }
    end(m, "%s", "");
}

void make_store(Make *m, int arg) {
    const char *space = space_of(m->name), *policy = policy_of(m), *operands = data_of(m);
    uint32_t bytes = type_bytes(m->name) * (uint32_t)vector_of(operands), at = bytes % SLOT;
    (void)arg;
    begin(m, CASES, 32);
    slot(m, space, true);
    if (*policy) say(m, SET_POLICY);
    for (const char *any = classes_of(operands); *any; any++) {
        char address[32], text[256];
        snprintf(address, sizeof address, "[%%d8+%u]", at);
        each_operand(m, operands, FIRST, take_stored, (void *)(uintptr_t)any);
        operands_text(operands, &(Parts){.address = address, .first = FIRST, .any = *any}, text,
                      sizeof text);
        say(m, "%s %s%s;", m->name, text, policy);
        at += bytes;
    }
    for (int k = 0; k < SLOT; k += 8) {
        say(m, "ld%s%s.u64 %%d6, [%%d8+%d];", *space ? "." : "", space, k);
        give(m, TYPE_EXACT, 'l', 6);
    }
    end(m, "%s", "");
}

// ---- atomics ----

static bool is_any(const char *name, const char *parts) {
    char part[16];
    for (int n; sscanf(parts, "%15s%n", part, &n) == 1; parts += n)
        if (has(name, part)) return true;
    return false;
}

enum { BEFORE = 16, AFTER = 17 }; // registers

// Each thread its own place; then, for sums and the like, all lanes of a warp one.
void make_atomic(Make *m, int arg) {
    const char *space = space_of(m->name), *operands = m->form->operands;
    char class = operands[strlen(operands) - 1], text[256];
    bool shared = !strcmp(space, "shared");
    Kind kind = kind_of(m->name, class);
    uint32_t bytes = class_bytes(class), cases = 4096;
    const char *type = bytes == 2 ? "b16" : bytes == 4 ? "b32" : "b64";
    (void)arg;
    begin(m, cases, 32);
    declare(m, ".shared .align 8 .b8 place[%u];", 33 * 8);
    take(m, kind, class, BEFORE, 0, 2, (Range){0}); // what is there before
    take(m, kind, class, FIRST + 1, 1, 2, (Range){0});
    if (has(m->name, "cas")) { // half of them meet what they expect
        take(m, kind, class, FIRST + 2, 2, 3, (Range){0});
        say(m, "and.b32 %%r3, %%r0, 1;\nsetp.ne.u32 %%p1, %%r3, 0;");
        say(m, "selp.%s %s, %s, %s, %%p1;", type, reg(class, FIRST + 1), reg(class, BEFORE),
            reg(class, FIRST + 1));
    }
    say(m, "mov.u32 %%r3, %%tid.x;\nmov.u32 %%r4, %%ctaid.x;");
    say(m, "mul.wide.u32 %%d8, %s, %u;", shared ? "%r3" : "%r0", bytes);
    if (shared)
        say(m, "mov.u64 %%d7, place;");
    else
        say(m, "add.u64 %%d7, %%d1, %u;", output(m, TYPE_EXACT, bytes, cases));
    say(m, "add.u64 %%d8, %%d8, %%d7;\nst.%s.%s [%%d8], %s;", space, type, reg(class, BEFORE));
    bool red = has(m->name, "red");
    operands_text(operands, &(Parts){.address = "[%d8]", .first = FIRST + red}, text, sizeof text);
    say(m, "%s %s;", m->name, text);
    if (!red) give(m, TYPE_EXACT, class, FIRST);
    say(m, "ld.%s.%s %s, [%%d8];", space, type, reg(class, AFTER));
    give(m, TYPE_EXACT, class, AFTER);
    if (kind == KIND_INT && is_any(m->name, "add min max and or xor")) {
        if (shared)
            say(m, "add.u64 %%d8, %%d7, 256;");
        else
            say(m,
                "mul.wide.u32 %%d8, %%r4, %u;\nadd.u64 %%d7, %%d1, %u;\n"
                "add.u64 %%d8, %%d8, %%d7;",
                bytes, output(m, TYPE_EXACT, bytes, cases / 32));
        say(m, "setp.eq.u32 %%p1, %%r3, 0;\n@%%p1 st.%s.%s [%%d8], %s;", space, type,
            reg(class, BEFORE));
        say(m, "bar.warp.sync 0xffffffff;\n%s %s;\nbar.warp.sync 0xffffffff;", m->name, text);
        say(m, "ld.%s.%s %s, [%%d8];", space, type, reg(class, AFTER));
        give(m, TYPE_EXACT, class, AFTER);
    }
    end(m, "%s", "");
}

// ---- addresses ----

// From a space to the generic one.
void make_cvta(Make *m, int arg) {
    const char *space = space_of(m->name);
    (void)arg;
    begin(m, CASES, 32);
    if (!strcmp(space, "param"))
        say(m, "mov.b64 %%d8, word;");
    else
        slot(m, space, false);
    say(m, "%s %%d9, %%d8;\nld.u64 %%d10, [%%d9];", m->name);
    give(m, TYPE_EXACT, 'l', 10);
    end(m, "%s", "");
}

// And back.
void make_cvta_to(Make *m, int arg) {
    const char *space = space_of(m->name);
    (void)arg;
    begin(m, CASES, 32);
    slot(m, space, false);
    if (strcmp(space, "global")) say(m, "cvta.%s.u64 %%d8, %%d8;", space);
    say(m, "%s %%d9, %%d8;\nld.%s.u64 %%d10, [%%d9+8];", m->name, space);
    give(m, TYPE_EXACT, 'l', 10);
    end(m, "%s", "");
}
