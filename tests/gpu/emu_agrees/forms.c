// The rows of forms.def, and the rule of each.
#include <stdlib.h>
#include <string.h>

#include "tests/gpu/emu_agrees/agrees.h"
#include "tests/gpu/emu_agrees/makers.h"

const Row rows[] = {
#define FORM(name, operands, handler, arg, kind) {name, operands},
#include "runtime/emu/forms.def"
#undef FORM
};
const uint32_t n_rows = sizeof rows / sizeof *rows;

typedef struct Rule {
    const char *name, *operands;
    Maker *make; // NULL: exempt
    int arg;
    const char *why, *numbers; // numbers: what '#' shall be
} Rule;

static const Rule rules[] = {
#define RULE(name, operands, make, arg)             {name, operands, make, arg, NULL, NULL},
#define RULE_OF(name, operands, make, arg, numbers) {name, operands, make, arg, NULL, numbers},
#define EXEMPT(name, operands, why)                 {name, operands, NULL, 0, why, NULL},
#include "tests/gpu/emu_agrees/rules.def"
#undef RULE
#undef RULE_OF
#undef EXEMPT
};

bool like(const char *pattern, const char *text) {
    for (; *pattern; pattern++, text++) {
        if (*pattern == '*') {
            while (!like(pattern + 1, text))
                if (!*text++) return false;
            return true;
        }
        if (!*text || (*pattern != '?' && *pattern != *text)) return false;
    }
    return !*text;
}

static const Rule *rule_of(const Row *r) {
    for (size_t k = 0; k < sizeof rules / sizeof *rules; k++)
        if (like(rules[k].name, r->name) && like(rules[k].operands, r->operands)) return &rules[k];
    return NULL;
}

static void make_one(Tests *all, uint32_t row, const Rule *rule, uint32_t number) {
    Make m = {.all = all, .row = row, .number = number, .form = &rows[row], .name = rows[row].name};
    const char *at = strchr(m.name, '#');
    if (at) m.name = text_of("%.*s%u%s", (int)(at - m.name), m.name, number, at + 1);
    rule->make(&m, rule->arg);
}

bool tests_make(Tests *all) {
    bool ok = true;
    for (uint32_t k = 0; k < n_rows; k++) {
        const Rule *rule = rule_of(&rows[k]);
        uint32_t before = all->n;
        if (rule && !rule->make) continue;
        if (rule && rule->numbers)
            for (const char *s = rule->numbers; *s; s += strcspn(s, " "), s += *s == ' ')
                make_one(all, k, rule, (uint32_t)strtoul(s, NULL, 10));
        else if (rule)
            make_one(all, k, rule, 0);
        if (all->n > before) continue;
        fprintf(stderr, "emu_agrees: rules.def has no test for the form '%s' with operands '%s'\n",
                rows[k].name, rows[k].operands);
        ok = false;
    }
    return ok;
}

uint32_t tests_forms(const Tests *all) {
    uint32_t n = 0;
    for (uint32_t k = 0; k < all->n; k++)
        n += !k || all->v[k]->row != all->v[k - 1]->row ||
             all->v[k]->number != all->v[k - 1]->number;
    return n;
}
