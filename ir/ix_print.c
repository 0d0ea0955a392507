/* ix_print.c - index expressions as text, with as few parentheses as read back the same. */
#include "ir/ix.h"

static void print_at(Str *out, const Ix *x, const IxNames *names, int tight);

static void print_sum(Str *out, const Ix *x, const IxNames *names) {
    for (int i = 0; i < x->n; i++) {
        const Ix *t = x->arg[i];
        bool minus = (t->kind == IX_CONST && t->num < 0) ||
                     (t->kind == IX_MUL && t->arg[0]->kind == IX_CONST && t->arg[0]->num < 0);
        if (i) str_add(out, minus ? " - " : " + ");
        if (!i || !minus) {
            print_at(out, t, names, 1);
        } else if (t->kind == IX_CONST) { /* -INT64_MIN has no int64 */
            str_printf(out, "%llu", 0ull - (unsigned long long)t->num);
        } else {
            if (t->arg[0]->num != -1)
                str_printf(out, "%llu*", 0ull - (unsigned long long)t->arg[0]->num);
            for (int k = 1; k < t->n; k++) {
                if (k > 1) str_add(out, "*");
                print_at(out, t->arg[k], names, 2);
            }
        }
    }
}

static void print_product(Str *out, const Ix *x, const IxNames *names) {
    int from = 0;
    if (x->arg[0]->kind == IX_CONST && x->arg[0]->num == -1) {
        str_add(out, "-");
        from = 1;
    }
    for (int i = from; i < x->n; i++) {
        if (i > from) str_add(out, "*");
        print_at(out, x->arg[i], names, 2);
    }
}

static void print_list(Str *out, const Ix *x, const IxNames *names, const char *close) {
    for (int i = 0; i < x->n; i++) {
        if (i) str_add(out, ", ");
        print_at(out, x->arg[i], names, 0);
    }
    str_add(out, close);
}

/* tight: 0 anything, 1 term of a sum, 2 factor */
static void print_at(Str *out, const Ix *x, const IxNames *names, int tight) {
    bool paren = (x->kind == IX_ADD && tight >= 1) ||
                 ((x->kind == IX_MUL || x->kind == IX_DIV || x->kind == IX_MOD) && tight >= 2);
    if (paren) str_add(out, "(");
    switch (x->kind) {
    case IX_CONST: str_printf(out, "%lld", (long long)x->num); break;
    case IX_SIZE: str_add(out, names->size[x->num]); break;
    case IX_AXIS: str_add(out, names->axis[x->num]); break;
    case IX_VALUE:
        if (x->num >= 0 && x->num < names->nvalue && names->value[x->num])
            str_add(out, names->value[x->num]);
        else
            str_printf(out, "%%%lld", (long long)x->num);
        if (x->n) {
            str_add(out, "[");
            print_list(out, x, names, "]");
        }
        break;
    case IX_ADD: print_sum(out, x, names); break;
    case IX_MUL: print_product(out, x, names); break;
    case IX_DIV:
    case IX_MOD:
        print_at(out, x->arg[0], names, 2);
        str_add(out, x->kind == IX_DIV ? "/" : "%");
        print_at(out, x->arg[1], names, 2);
        break;
    case IX_MIN:
    case IX_MAX:
        str_add(out, x->kind == IX_MIN ? "min(" : "max(");
        print_list(out, x, names, ")");
        break;
    }
    if (paren) str_add(out, ")");
}

void ix_print(Str *out, const Ix *x, const IxNames *names) {
    print_at(out, x, names, 0);
}
