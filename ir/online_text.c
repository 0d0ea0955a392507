/* online_text.c - see online.h: by what blocks are picked, for people. */
#include "ir/online.h"

#include <string.h>

typedef struct Text {
    Arena *a;
    const Online *o;
    IxNames names;
    const char **value;
} Text;

static const char *value_text(Text *x, int id);

static void name_values(Text *x, const Ix *i) {
    if (i->kind == IX_VALUE) x->value[i->num] = value_text(x, (int)i->num);
    for (int k = 0; k < i->n; k++) name_values(x, i->arg[k]);
}

static void put_ix(Text *x, Str *s, const Ix *i) {
    name_values(x, i);
    ix_print(s, i, &x->names);
}

static void put_load(Text *x, Str *s, const TInst *i) {
    str_add(s, x->o->t->tensors.v[i->tensor].name);
    for (int d = 0; d < i->nix; d++) {
        str_add(s, d ? ", " : "[");
        put_ix(x, s, i->ix[d]);
    }
    if (i->nix) str_add(s, "]");
}

static bool is_loose(Op op) {
    return op == OP_and || op == OP_or;
}

/* The formula's letters are its operands: "a <= b". */
static bool is_infix(Op op) {
    const char *f = op_formula(op);
    size_t n = strlen(f);
    return n > 4 && !strncmp(f, "a ", 2) && !strcmp(f + n - 2, " b");
}

/* Does an operand need parentheses? */
static bool apart(const Text *x, const TInst *i, int id) {
    const TInst *d = online_def(&x->o->t->body, id);
    if (!d || d->kind != T_OP || !is_infix(d->op)) return false;
    if (d->op == i->op && op_traits(i->op) & OPT_A) return false;
    return !is_loose(i->op) || is_loose(d->op);
}

static void put_operand(Text *x, Str *s, const TInst *i, int k) {
    bool in = apart(x, i, i->args[k]);
    str_printf(s, "%s%s%s", in ? "(" : "", value_text(x, i->args[k]), in ? ")" : "");
}

static void put_op(Text *x, Str *s, const TInst *i) {
    const char *f = op_formula(i->op);
    if (i->op == OP_cast) {
        str_add(s, value_text(x, i->args[0]));
    } else if (is_infix(i->op)) {
        put_operand(x, s, i, 0);
        str_addn(s, f + 1, strlen(f) - 2);
        put_operand(x, s, i, 1);
    } else {
        str_printf(s, "%s(", op_name(i->op));
        for (int k = 0; k < i->nargs; k++)
            str_printf(s, "%s%s", k ? ", " : "", value_text(x, i->args[k]));
        str_add(s, ")");
    }
}

static const char *value_text(Text *x, int id) {
    const TInst *i = online_def(&x->o->t->body, id);
    Str s = {0};
    switch (i ? i->kind : T_LOOP) {
    case T_CONST: str_printf(&s, "%lld", (long long)i->inum); break;
    case T_INDEX: put_ix(x, &s, i->ix[0]); break;
    case T_LOAD: put_load(x, &s, i); break;
    case T_OP: put_op(x, &s, i); break;
    default: str_printf(&s, "%%%d", id); break;
    }
    const char *text = arena_strdup(x->a, str_get(&s));
    str_free(&s);
    return text;
}

static bool has_role(const Schedule *s, const char *name) {
    for (int k = 0; k < s->roles.n; k++)
        if (!strcmp(s->roles.v[k].name, name)) return true;
    return false;
}

bool online_picks_text(Arena *a, const TProg *t, const Schedule *s, Str *out) {
    Online o;
    Str why = {0};
    bool is = has_role(s, "pick") && online_find(a, t, &o, &why);
    str_free(&why);
    if (!is) return false;
    Text x = {.a = a, .o = &o, .value = ARENA_ARRAY(a, const char *, t->nvalues + 1)};
    const char **axis = ARENA_ARRAY(a, const char *, t->axes.n + 1);
    for (int k = 0; k < t->axes.n; k++) axis[k] = t->axes.v[k].name;
    x.names = (IxNames){.size = t->sizes, .axis = axis, .value = x.value, .nvalue = t->nvalues};
    const char *j = axis[o.j];
    str_printf(out, "picks blocks of %s by least and greatest of", j);
    if (online_bounds_vary(&o)) {
        str_printf(out, " its bounds, ");
        put_ix(&x, out, o.loop->lo);
        str_add(out, " and ");
        put_ix(&x, out, o.loop->hi);
    }
    for (int k = 0; k < o.skips.n; k++)
        str_printf(out, "%s %s", k || online_bounds_vary(&o) ? "; of" : "",
                   value_text(&x, o.skips.v[k]));
    return true;
}
