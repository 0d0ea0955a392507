/* passes.c - the table of pass.def. */
#include "passes/passes.h"

#include <string.h>

enum { ALG = PASS_ALG, FUSE = PASS_FUSE };

static const Pass table[] = {
#define PASS(name, flags, what, why) {#name, what, why, flags, pass_##name},
#include "passes/pass.def"
#undef PASS
};

const Pass *pass_at(int i) {
    int n = (int)(sizeof table / sizeof *table);
    return i >= 0 && i < n ? &table[i] : NULL;
}

const Pass *pass_named(const char *name) {
    for (int i = 0; pass_at(i); i++)
        if (!strcmp(table[i].name, name)) return &table[i];
    return NULL;
}
