// What changes no value: policies and hints for caches, prefetches, waits for other launches. Loads
// and copies behind them give what they give without.
#include <string.h>

#include "tests/gpu/emu_agrees/makers.h"

static const Range any = {0};

// A load under the policy.
void make_policy(Make *m, int arg) {
    (void)arg;
    begin(m, 64, 32);
    uint32_t at = input(m, KIND_RANDOM, 8, 64);
    say(m, "%s %%d12%s;", m->name, m->form->operands[1] ? ", 0f3f000000" : "");
    say(m, "mul.wide.u32 %%d8, %%r0, 8;\nadd.u64 %%d8, %%d8, %%d0;");
    say(m, "ld.global.L2::cache_hint.b64 %%d9, [%%d8+%u], %%d12;", at);
    give(m, TYPE_EXACT, 'l', 9);
    end(m, "%s", "");
}

// The instruction in front of a load of what it names, if it names anything.
void make_hint(Make *m, int arg) {
    char text[64] = "";
    (void)arg;
    begin(m, 64, 32);
    for (const char *s = m->form->operands; *s; s++)
        strcat(strcat(text, *text ? ", " : " "), *s == 'a'   ? "[%d0]"
                                                 : *s == 'i' ? "128"
                                                 : *s == 'r' ? "%r9"
                                                             : "%d12");
    say(m, "mov.u64 %%d12, 0x1000000000000000;\nmov.u32 %%r9, 64;\n%s%s;", m->name, text);
    take(m, KIND_INT, 'r', 8, 0, 1, any);
    give(m, TYPE_EXACT, 'r', 8);
    end(m, "%s", "");
}
