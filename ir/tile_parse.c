/* tile_parse.c - reads the text form of a tile program; the grammar is at the head of tile_text.c.
 *
 * The reader makes sure of what the structure needs to exist at all; tile_verify checks the rest.
 */
#include "ir/tile_int.h"
#include "ir/text_int.h"

#include <string.h>

enum { DIMS_MAX = 32, VALUES_MAX = 1 << 24, NEST_MAX = 100 };

typedef VEC(const Ix *) IxList;
typedef VEC(const char *) Names;

typedef struct Reader {
    Text *t;
    TProg *p;
    Names sizes, axes, tensors;
    int depth;
} Reader;

static const Ix *read_ix(Reader *r) {
    TextScope s = {.ix = r->p->ix,
                   .size = r->sizes.v,
                   .nsizes = r->sizes.n,
                   .axis = r->axes.v,
                   .naxes = r->axes.n,
                   .nvalues = VALUES_MAX};
    return text_ix(r->t, &s);
}

static int find(Reader *r, const Names *names, const char *name, const char *what) {
    for (int i = 0; i < names->n; i++)
        if (!strcmp(names->v[i], name)) return i;
    text_error(r->t, "'%s' is no %s", name, what);
    return -1;
}

static void add_name(Reader *r, Names *names, const char *name, bool word) {
    for (int i = 0; i < names->n; i++)
        if (!strcmp(names->v[i], name)) text_error(r->t, "%s again", name);
    if (word && !text_is_word(name)) text_error(r->t, "expected a plain word as a name");
    vec_push(r->p->arena, names, name);
}

static DType read_dtype(Reader *r) {
    text_expect(r->t, ":");
    const char *name = text_name(r->t);
    DType type = dtype_named(name, strlen(name));
    if (type == DT_none) text_error(r->t, "'%s' is no type", name);
    return type;
}

static bool is_real(DType type) {
    return type != DT_none && dtype_class(type) == DC_REAL;
}

static int read_value(Reader *r) {
    int v = text_value(r->t, VALUES_MAX);
    if (r->p->nvalues <= v) r->p->nvalues = v + 1;
    return v;
}

/* ---- head --------------------------------------------------------------------------------- */

static void read_sizes(Reader *r) {
    do add_name(r, &r->sizes, text_name(r->t), true);
    while (text_accept(r->t, ","));
    r->p->sizes = r->sizes.v;
    r->p->nsizes = r->sizes.n;
}

static void read_tensor(Reader *r, TMem mem) {
    Text *t = r->t;
    TTensor x = {.mem = mem, .name = text_name(t)};
    add_name(r, &r->tensors, x.name, false);
    x.type = read_dtype(r);
    IxList dims = {0};
    if (text_accept(t, "[")) {
        do vec_push(r->p->arena, &dims, read_ix(r));
        while (text_accept(t, ","));
        text_expect(t, "]");
    }
    if (dims.n > DIMS_MAX) text_error(t, "more than %d dimensions", DIMS_MAX);
    x.rank = dims.n;
    x.dims = dims.v;
    text_expect(t, "=");
    x.id = text_count(t, INT32_MAX);
    vec_push(r->p->arena, &r->p->tensors, x);
}

static void read_axis(Reader *r, bool grid) {
    Text *t = r->t;
    TAxis a = {.name = text_name(t), .grid = grid, .tile = 1};
    text_expect(t, ":");
    a.extent = read_ix(r);
    add_name(r, &r->axes, a.name, true);
    if (text_accept(t, "tile")) a.tile = text_count(t, INT32_MAX);
    if (grid && r->p->ngrid != r->p->axes.n) text_error(t, "a grid axis behind others");
    if (grid) r->p->ngrid++;
    vec_push(r->p->arena, &r->p->axes, a);
}

static bool read_head(Reader *r) {
    Text *t = r->t;
    if (text_accept(t, "size"))
        read_sizes(r);
    else if (text_accept(t, "in"))
        read_tensor(r, TM_IN);
    else if (text_accept(t, "out"))
        read_tensor(r, TM_OUT);
    else if (text_accept(t, "temp"))
        read_tensor(r, TM_TEMP);
    else if (text_accept(t, "grid"))
        read_axis(r, true);
    else if (text_accept(t, "axis"))
        read_axis(r, false);
    else
        return false;
    text_end_line(t);
    return true;
}

/* ---- instructions ------------------------------------------------------------------------- */

static void set_args(Reader *r, TInst *i, const int *args, int n) {
    i->args = ARENA_ARRAY(r->p->arena, int, n);
    i->nargs = n;
    if (n) memcpy(i->args, args, sizeof *args * (size_t)n);
}

static void read_at(Reader *r, TInst *i) {
    Text *t = r->t;
    i->tensor = find(r, &r->tensors, text_name(t), "tensor");
    if (t->failed) return;
    int rank = r->p->tensors.v[i->tensor].rank;
    i->ix = ARENA_ARRAY(r->p->arena, const Ix *, rank);
    i->nix = rank;
    for (int d = 0; d < rank; d++) {
        text_expect(t, d ? "," : "[");
        i->ix[d] = read_ix(r);
        if (text_accept(t, "?")) i->checked |= 1u << d;
    }
    if (rank) text_expect(t, "]");
}

static void read_op(Reader *r, TInst *i, const char *name) {
    int args[8], n = 0;
    i->op = op_named(name, strlen(name));
    i->kind = T_OP;
    if (i->op == OP_COUNT) {
        text_error(r->t, "'%s' is no op", name);
        return;
    }
    for (; n < op_arity(i->op) && !r->t->failed; n++) {
        if (n) text_expect(r->t, ",");
        args[n] = read_value(r);
    }
    set_args(r, i, args, n);
}

static void read_definition(Reader *r, TInst *i) {
    Text *t = r->t;
    i->id = read_value(r);
    i->type = read_dtype(r);
    text_expect(t, "=");
    if (text_accept(t, "const")) {
        i->kind = T_CONST;
        if (is_real(i->type))
            i->num = text_real(t);
        else
            i->inum = text_int(t);
    } else if (text_accept(t, "index")) {
        i->kind = T_INDEX;
        i->ix = ARENA_ARRAY(r->p->arena, const Ix *, 1);
        i->nix = 1;
        i->ix[0] = read_ix(r);
    } else if (text_accept(t, "load")) {
        i->kind = T_LOAD;
        read_at(r, i);
    } else {
        read_op(r, i, text_name(t));
    }
}

static void read_rescale(Reader *r, TCarry *c) {
    Text *t = r->t;
    text_expect(t, "(");
    while (!t->failed && !text_accept(t, ")")) {
        TFactor f = {.kind = TF_OP, .op = OP_COUNT};
        if (text_accept(t, "old"))
            f.kind = TF_OLD;
        else if (text_accept(t, "new"))
            f.kind = TF_NEW;
        else if (text_is(t, "%"))
            f = (TFactor){.kind = TF_VALUE, .value = read_value(r)};
        else if (t->tok.kind == TOK_NAME)
            f.op = op_named(t->tok.text, strlen(t->tok.text));
        if (f.kind == TF_OP && f.op != OP_COUNT) {
            text_next(t);
        } else if (f.kind == TF_OP) {
            f.kind = TF_CONST;
            f.num = text_real(t);
        }
        vec_push(r->p->arena, &c->rescale, f);
    }
}

static void read_carry(Reader *r, TInst *loop) {
    Text *t = r->t;
    TCarry c = {.id = read_value(r), .frame = -1};
    if (!text_is(t, ":")) c.name = text_name(t);
    c.type = read_dtype(r);
    text_expect(t, "=");
    const char *red = text_name(t);
    c.red = reduce_named(red, strlen(red));
    if (c.red == RED_COUNT) text_error(t, "'%s' is no reduction", red);
    if (text_accept(t, "frame")) c.frame = read_value(r);
    if (text_accept(t, "rescale")) read_rescale(r, &c);
    if (text_accept(t, "finish")) {
        c.has_finish = true;
        c.finish = text_real(t);
    }
    if (text_accept(t, "lag")) c.lag = text_count(t, 2);
    if (text_accept(t, "bound")) c.bound = text_real(t);
    text_end_line(t);
    vec_push(r->p->arena, &loop->carries, c);
}

static void read_note(Reader *r, TInst *i) {
    if (text_accept(r->t, "@")) i->node = text_count(r->t, INT32_MAX);
}

static void read_block(Reader *r, TBlock *b);

static void read_body(Reader *r, TInst *i) {
    Text *t = r->t;
    read_note(r, i);
    text_expect(t, "{");
    text_skip_lines(t);
    if (++r->depth > NEST_MAX) text_error(t, "nested deeper than %d", NEST_MAX);
    while (i->kind == T_LOOP && text_accept(t, "carry")) read_carry(r, i);
    read_block(r, &i->body);
    text_expect(t, "}");
    r->depth--;
}

static void read_inst(Reader *r, TInst *i) {
    Text *t = r->t;
    int args[2] = {0};
    if (text_is(t, "%")) {
        read_definition(r, i);
    } else if (text_accept(t, "loop")) {
        i->kind = T_LOOP;
        i->axis = find(r, &r->axes, text_name(t), "axis");
        text_expect(t, "from");
        i->lo = read_ix(r);
        text_expect(t, "to");
        i->hi = read_ix(r);
        read_body(r, i);
    } else if (text_accept(t, "guard")) {
        i->kind = T_GUARD;
        args[0] = read_value(r);
        set_args(r, i, args, 1);
        read_body(r, i);
    } else if (text_accept(t, "step")) {
        i->kind = T_STEP;
        args[0] = read_value(r);
        text_expect(t, ",");
        args[1] = read_value(r);
        set_args(r, i, args, 2);
    } else if (text_accept(t, "store")) {
        i->kind = T_STORE;
        read_at(r, i);
        text_expect(t, ",");
        args[0] = read_value(r);
        set_args(r, i, args, 1);
    } else {
        text_error(t, "expected an instruction, found '%s'", t->tok.text);
    }
    if (i->kind != T_LOOP && i->kind != T_GUARD) read_note(r, i);
    text_end_line(t);
}

static void read_block(Reader *r, TBlock *b) {
    while (!r->t->failed && !text_is(r->t, "}") && r->t->tok.kind != TOK_END) {
        TInst *i = ARENA_NEW(r->p->arena, TInst);
        i->id = i->tensor = i->axis = i->node = -1;
        i->type = DT_none;
        read_inst(r, i);
        vec_push(r->p->arena, &b->inst, i);
    }
}

TProg *tile_parse(Arena *a, const Source *src, Diags *d) {
    Text t;
    text_open(&t, a, src, d);
    IxPool *ix = ARENA_NEW(a, IxPool);
    ix_pool_init(ix, a);
    text_expect(&t, "tile");
    Reader r = {.t = &t, .p = tile_new(a, ix, text_name(&t))};
    text_expect(&t, "{");
    text_skip_lines(&t);
    while (!t.failed && read_head(&r)) {
    }
    read_block(&r, &r.p->body);
    text_expect(&t, "}");
    text_skip_lines(&t);
    if (!t.failed && t.tok.kind != TOK_END) text_error(&t, "text behind the program");
    return t.failed ? NULL : r.p;
}
