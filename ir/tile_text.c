/* tile_text.c - the text form of a tile program and its printer; the reader is tile_parse.c.
 *
 *     tile    := "tile" NAME "{" head... inst... "}"        one a line; "#" comments
 *     head    := "size" NAME {"," NAME}
 *              | ("in" | "out" | "temp") NAME ":" DTYPE ["[" ix {"," ix} "]"] "=" INT
 *                                      INT: the parameter's number, or the temporary's
 *              | ("grid" | "axis") NAME ":" ix ["tile" INT]   grid axes first, outermost first;
 *                                                             an axis is for loops
 *     inst    := VALUE ":" DTYPE "=" value note
 *              | "loop" NAME "from" ix "to" ix note "{" carry... inst... "}"
 *              | "guard" VALUE note "{" inst... "}"
 *              | "step" VALUE "," VALUE note                  carry, element
 *              | "store" NAME at "," VALUE note
 *     value   := "const" NUMBER | "index" ix | "load" NAME at | OP VALUE {"," VALUE}
 *     at      := ["[" ix ["?"] {"," ix ["?"]} "]"]            "?": 0 where it is outside
 *     carry   := "carry" VALUE [NAME] ":" DTYPE "=" REDUCE
 *                ["frame" VALUE] ["rescale" "(" {"old" | "new" | NUMBER | VALUE | OP} ")"]
 *                ["finish" NUMBER] ["lag" INT] ["bound" NUMBER]
 *     note    := ["@" INT]                                    the graph's node that it computes
 *     VALUE   := "%" INT
 *
 * Index expressions are those of text_int.h, over axes, sizes and values. An example:
 *
 *     tile rowsum.0 {
 *       size M, K
 *       in x: bf16[M, K] = 0
 *       out y: f32[M] = 1
 *       grid m: M
 *       axis k: K
 *       loop k from 0 to K @ 1 {
 *         carry %0 acc: f32 = sum
 *         %1: bf16 = load x[m, k]
 *         step %0, %1
 *       }
 *       store y[m], %0
 *     }
 */
#include "ir/tile_int.h"
#include "ir/text_int.h"

IxNames tile_names(const TProg *t) {
    Arena *a = t->arena;
    const char **axes = ARENA_ARRAY(a, const char *, t->axes.n);
    for (int i = 0; i < t->axes.n; i++) axes[i] = t->axes.v[i].name;
    const char *const *sizes = text_unique(a, t->sizes, t->nsizes, NULL, 0);
    return (IxNames){.size = sizes, .axis = text_unique(a, axes, t->axes.n, sizes, t->nsizes)};
}

typedef struct Print {
    Str *out;
    const TProg *t;
    IxNames names;
    const char *const *tensor;
    int depth;
} Print;

static void put_line(Print *p) {
    for (int i = 0; i < p->depth; i++) str_add(p->out, "  ");
}

static void put_ix(Print *p, const Ix *x) {
    ix_print(p->out, x, &p->names);
}

static void put_number(Print *p, DType type, double num, int64_t inum) {
    if (type != DT_none && dtype_class(type) == DC_REAL)
        str_real(p->out, num);
    else
        str_printf(p->out, "%lld", (long long)inum);
}

static void put_at(Print *p, const TInst *i) {
    str_add(p->out, p->tensor[i->tensor]);
    for (int d = 0; d < i->nix; d++) {
        str_add(p->out, d ? ", " : "[");
        put_ix(p, i->ix[d]);
        if (i->checked >> d & 1) str_addc(p->out, '?');
    }
    if (i->nix) str_addc(p->out, ']');
}

static void put_value(Print *p, const TInst *i) {
    str_printf(p->out, "%%%d: %s = ", i->id, dtype_name(i->type));
    if (i->kind == T_CONST) {
        str_add(p->out, "const ");
        put_number(p, i->type, i->num, i->inum);
    } else if (i->kind == T_INDEX) {
        str_add(p->out, "index ");
        put_ix(p, i->ix[0]);
    } else if (i->kind == T_LOAD) {
        str_add(p->out, "load ");
        put_at(p, i);
    } else {
        str_add(p->out, op_name(i->op));
        for (int k = 0; k < i->nargs; k++) str_printf(p->out, "%s%%%d", k ? ", " : " ", i->args[k]);
    }
}

static void put_rescale(Print *p, const TCarry *c) {
    str_add(p->out, " rescale (");
    for (int k = 0; k < c->rescale.n; k++) {
        const TFactor *f = &c->rescale.v[k];
        if (k) str_addc(p->out, ' ');
        if (f->kind == TF_CONST)
            str_real(p->out, f->num);
        else if (f->kind == TF_VALUE)
            str_printf(p->out, "%%%d", f->value);
        else
            str_add(p->out, f->kind == TF_OLD ? "old" : f->kind == TF_NEW ? "new" : op_name(f->op));
    }
    str_addc(p->out, ')');
}

static void put_carry(Print *p, const TCarry *c) {
    put_line(p);
    str_printf(p->out, "carry %%%d", c->id);
    if (c->name) {
        str_addc(p->out, ' ');
        text_put_name(p->out, c->name);
    }
    str_printf(p->out, ": %s = %s", dtype_name(c->type), reduce_name(c->red));
    if (c->frame >= 0) str_printf(p->out, " frame %%%d", c->frame);
    if (c->rescale.n) put_rescale(p, c);
    if (c->has_finish) {
        str_add(p->out, " finish ");
        str_real(p->out, c->finish);
    }
    if (c->lag) {
        str_printf(p->out, " lag %d bound ", c->lag);
        str_real(p->out, c->bound);
    }
    str_addc(p->out, '\n');
}

static void put_block(Print *p, const TBlock *b);

static void put_inst(Print *p, const TInst *i) {
    put_line(p);
    switch (i->kind) {
    case T_CONST:
    case T_INDEX:
    case T_LOAD:
    case T_OP: put_value(p, i); break;
    case T_LOOP:
        str_printf(p->out, "loop %s from ", p->names.axis[i->axis]);
        put_ix(p, i->lo);
        str_add(p->out, " to ");
        put_ix(p, i->hi);
        break;
    case T_GUARD: str_printf(p->out, "guard %%%d", i->args[0]); break;
    case T_STEP: str_printf(p->out, "step %%%d, %%%d", i->args[0], i->args[1]); break;
    case T_STORE:
        str_add(p->out, "store ");
        put_at(p, i);
        str_printf(p->out, ", %%%d", i->args[0]);
        break;
    }
    if (i->node >= 0) str_printf(p->out, " @ %d", i->node);
    if (i->kind == T_LOOP || i->kind == T_GUARD) {
        str_add(p->out, " {\n");
        p->depth++;
        for (int k = 0; k < i->carries.n; k++) put_carry(p, &i->carries.v[k]);
        put_block(p, &i->body);
        p->depth--;
        put_line(p);
        str_addc(p->out, '}');
    }
    str_addc(p->out, '\n');
}

static void put_block(Print *p, const TBlock *b) {
    for (int k = 0; k < b->inst.n; k++) put_inst(p, b->inst.v[k]);
}

static void put_tensor(Print *p, int k) {
    static const char *const mem[] = {"in", "out", "temp"};
    const TTensor *x = &p->t->tensors.v[k];
    str_printf(p->out, "  %s %s: %s", mem[x->mem], p->tensor[k], dtype_name(x->type));
    for (int d = 0; d < x->rank; d++) {
        str_add(p->out, d ? ", " : "[");
        put_ix(p, x->dims[d]);
    }
    str_printf(p->out, "%s = %d\n", x->rank ? "]" : "", x->id);
}

void tile_print(Str *out, const TProg *t) {
    Print p = {.out = out, .t = t, .names = tile_names(t), .depth = 1};
    const char **tensors = ARENA_ARRAY(t->arena, const char *, t->tensors.n);
    for (int i = 0; i < t->tensors.n; i++) tensors[i] = t->tensors.v[i].name;
    p.tensor = text_unique(t->arena, tensors, t->tensors.n, NULL, 0);
    str_add(out, "tile ");
    text_put_name(out, t->name);
    str_add(out, " {\n");
    for (int i = 0; i < t->nsizes; i++)
        str_printf(out, "%s%s", i ? ", " : "  size ", p.names.size[i]);
    if (t->nsizes) str_addc(out, '\n');
    for (int i = 0; i < t->tensors.n; i++) put_tensor(&p, i);
    for (int i = 0; i < t->axes.n; i++) {
        const TAxis *a = &t->axes.v[i];
        str_printf(out, "  %s %s: ", a->grid ? "grid" : "axis", p.names.axis[i]);
        put_ix(&p, a->extent);
        if (a->tile != 1) str_printf(out, " tile %d", a->tile);
        str_addc(out, '\n');
    }
    put_block(&p, &t->body);
    str_add(out, "}\n");
}
