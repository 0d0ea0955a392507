// Copies that threads ask for one by one: cp.async, its groups, and mbarriers that track them.
#include <string.h>

#include "tests/gpu/emu_agrees/makers.h"

enum { THREADS = 64, PLACES = 3, PLACE = 16 * THREADS }; // bytes: a place has 16 a thread

static const char copy[] = "cp.async.ca.shared.global", commit[] = "cp.async.commit_group",
                  wait_group[] = "cp.async.wait_group";

// Shared memory at %d7 that holds what the copies shall replace; %d8, %d9: in the input and there,
// what each thread copies, 16 bytes apart.
static void start(Make *m) {
    begin(m, THREADS, THREADS);
    declare(m, ".shared .align 128 .b8 place[%d];\n.shared .align 8 .b8 bar[8];", PLACES * PLACE);
    uint32_t before = input(m, KIND_RANDOM, 8, PLACES * PLACE / 8);
    uint32_t in = input(m, KIND_RANDOM, 8, PLACES * PLACE / 8);
    say(m, "mov.u64 %%d7, place;\nadd.u64 %%d8, %%d0, %u;", before);
    copy_bytes(m, "%d7", "shared", "%d8", "global", PLACES * PLACE);
    say(m, "bar.sync 0;\nmov.u32 %%r3, %%tid.x;\nmad.lo.u32 %%r4, %%r3, 11, 5;");
    say(m, "and.b32 %%r4, %%r4, %d;\nmul.wide.u32 %%d8, %%r4, 16;", THREADS - 1);
    say(m, "add.u64 %%d8, %%d8, %u;\nadd.u64 %%d8, %%d8, %%d0;\nxor.b32 %%r5, %%r3, 21;", in);
    say(m, "mul.wide.u32 %%d9, %%r5, 16;\nadd.u64 %%d9, %%d9, %%d7;");
}

static void give_places(Make *m, uint32_t first, uint32_t n) {
    say(m, "bar.sync 0;\nadd.u64 %%d10, %%d1, %u;", output(m, TYPE_EXACT, 8, n * PLACE / 8));
    say(m, "add.u64 %%d11, %%d7, %u;", first * PLACE);
    copy_bytes(m, "%d10", "global", "%d11", "shared", n * PLACE);
}

// The copies at three places: of some of the bytes, by a size or by a predicate, if the row says
// so.
static void copy_test(Make *m, uint32_t bytes) {
    const char *operands = m->form->operands;
    const char *policy = has(m->name, "L2::cache_hint") ? ", %d12" : "";
    bool given = operands[3] == 'r', ignore = operands[3] == 'p';
    start(m);
    if (*policy) say(m, "mov.u64 %%d12, 0x1000000000000000;");
    for (uint32_t k = 0; k < PLACES; k++) {
        uint32_t to = k * PLACE, from = to + (16 - bytes) / 4 * (k & 1);
        from -= from % bytes;
        if (given) say(m, "add.u32 %%r6, %%r3, %u;\nrem.u32 %%r6, %%r6, %u;", k, bytes + 1);
        if (ignore)
            say(m, "add.u32 %%r6, %%r3, %u;\nand.b32 %%r6, %%r6, 3;\nsetp.eq.u32 %%p1, %%r6, 0;",
                k);
        say(m, "%s [%%d9+%u], [%%d8+%u], %u%s%s;", m->name, to, from, bytes,
            given    ? ", %r6"
            : ignore ? ", %p1"
                     : "",
            policy);
    }
    say(m, "%s;\n%s 0;", commit, wait_group);
    give_places(m, 0, PLACES);
    end(m, "bytes-%u", bytes);
}

void make_async(Make *m, int arg) {
    (void)arg;
    for (uint32_t bytes = strstr(m->name, ".cg") ? 16 : 4; bytes <= 16; bytes *= 2)
        copy_test(m, bytes);
}

// Groups one after the other; arg: which instruction is under test: commit, wait, wait for all.
void make_async_group(Make *m, int arg) {
    start(m);
    for (uint32_t k = 0; k < PLACES; k++) {
        say(m, "%s [%%d9+%u], [%%d8+%u], 16;", copy, k * PLACE, k * PLACE);
        if (arg < 2 || k < PLACES - 1) say(m, "%s;", arg ? commit : m->name);
    }
    for (uint32_t k = 0; k < PLACES && arg < 2; k++) {
        say(m, "%s %u;", arg ? m->name : wait_group, PLACES - 1 - k);
        give_places(m, k, 1);
    }
    if (arg == 2) say(m, "%s;", m->name);
    give_places(m, 0, PLACES);
    end(m, "%s", "");
}

// Three phases of an mbarrier, each with the copies of a place. arg: 1 its count knows the
// arrivals; else every thread arrives beside them.
void make_async_arrive(Make *m, int arg) {
    start(m);
    say(m, "setp.eq.u32 %%p1, %%r3, 0;\nmov.u64 %%d4, bar;");
    say(m, "@%%p1 mbarrier.init.shared::cta.b64 [%%d4], %d;\nbar.sync 0;", THREADS);
    for (uint32_t k = 0; k < PLACES; k++) {
        say(m, "%s [%%d9+%u], [%%d8+%u], 16;\n%s [%%d4];", copy, k * PLACE, k * PLACE, m->name);
        if (!arg) say(m, "mbarrier.arrive.shared::cta.b64 _, [%%d4];");
        say(m, "WAIT%u: mbarrier.try_wait.parity.shared::cta.b64 %%p2, [%%d4], %u;", k, k & 1);
        say(m, "@!%%p2 bra WAIT%u;\nxor.b32 %%r6, %%r3, 37;\nmul.wide.u32 %%d10, %%r6, 16;", k);
        say(m, "add.u64 %%d10, %%d10, %%d7;\nld.shared.u64 %%d11, [%%d10+%u];", k * PLACE + 8);
        give(m, TYPE_EXACT, 'l', 11);
    }
    say(m, "%s 0;", wait_group);
    end(m, "%s", "");
}
