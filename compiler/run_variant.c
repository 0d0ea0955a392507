/* run_variant.c - fkrun --variant: a module whose steps have no choice. */
#include "compiler/run_int.h"

#include <string.h>

static const char *name_of(const FkmVariant *v) {
    return v->name ? v->name : "";
}

/* Moves the variants of this name to the front, and lets the others go; false: there is none. */
static bool force_step(FkmStep *s, const char *name) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n_variants; i++)
        if (!strcmp(name_of(&s->variants[i]), name)) s->variants[n++] = s->variants[i];
    if (n) s->n_variants = n;
    return n > 0;
}

/* Every name once. */
static void list_names(const FkmModule *m, Str *out) {
    const char *before = "";
    Str seen = {0};
    str_add(&seen, ",");
    for (uint32_t f = 0; f < m->n_fns; f++)
        for (uint32_t s = 0; s < m->fns[f].n_steps; s++) {
            const FkmStep *step = &m->fns[f].steps[s];
            for (uint32_t v = 0; v < step->n_variants; v++) {
                Str key = {0};
                str_printf(&key, ",%s,", name_of(&step->variants[v]));
                if (!strstr(str_get(&seen), str_get(&key))) {
                    str_printf(&seen, "%s,", name_of(&step->variants[v]));
                    str_printf(out, "%s%s", before, name_of(&step->variants[v]));
                    before = ", ";
                }
                str_free(&key);
            }
        }
    str_free(&seen);
}

bool variant_force(FkmModule *m, const char *name, Str *why) {
    bool found = false;
    for (uint32_t f = 0; f < m->n_fns; f++)
        for (uint32_t s = 0; s < m->fns[f].n_steps; s++)
            found |= force_step(&m->fns[f].steps[s], name);
    if (found) return true;
    str_printf(why, "no step has a variant '%s'; there are: ", name);
    list_names(m, why);
    return false;
}
