/* tile_verify.c - every rule of tile.h, asked again of a finished program. A fault is one line. */
#include "ir/tile_int.h"
#include "ir/infer.h"

typedef struct Val {
    DType type;
    bool defined, visible;
    const TCarry *open; /* a carry whose loop is open: for steps, and to be read as a frame */
    bool frame;         /* of another carry of its loop */
    int depth;          /* of a carry's loop */
    int moved;          /* the frame it depends on inside of its loop; -1 */
} Val;

typedef struct Verify {
    const TProg *t;
    Str *why;
    const TInst *i; /* the instruction at hand */
    bool ok;
    Val *value;  /* nvalues */
    bool *open;  /* per axis: the grid's, and of the loops around */
    int depth;   /* loops around */
    int moved;   /* the frame that the operands at hand depend on; -1 */
    int *stored; /* per tensor: bit 0 loaded, bit 1 stored */
} Verify;

static const char *const kind_name[] = {"const", "index", "load", "op",
                                        "loop",  "guard", "step", "store"};

FK_PRINTF(3, 4) static bool need(Verify *v, bool cond, const char *fmt, ...) {
    if (cond) return true;
    v->ok = false;
    str_printf(v->why, "tile %s", v->t->name ? v->t->name : "?");
    if (v->i && v->i->id >= 0) str_printf(v->why, ", %%%d", v->i->id);
    if (v->i)
        str_printf(v->why, " (%s)",
                   v->i->kind == T_OP && v->i->op < OP_COUNT ? op_name(v->i->op)
                                                             : kind_name[v->i->kind]);
    str_add(v->why, ": ");
    va_list ap;
    va_start(ap, fmt);
    str_vprintf(v->why, fmt, ap);
    va_end(ap);
    str_add(v->why, "\n");
    return false;
}

static bool is_real(DType type) {
    return type < DT_COUNT && dtype_class(type) == DC_REAL;
}

/* ---- values and index expressions ---------------------------------------------------------- */

static bool usable(Verify *v, int id) {
    if (!need(v, id >= 0 && id < v->t->nvalues, "value %%%d is out of range", id)) return false;
    return need(v, v->value[id].visible, "%%%d is not visible here", id);
}

/* Reads a value; the state of an open loop may be read only where it is a frame. */
static DType type_of(Verify *v, int id) {
    if (!usable(v, id)) return DT_none;
    const Val *x = &v->value[id];
    need(v, !x->open || x->frame, "%%%d is a state inside of its loop, and frame of no other", id);
    int moved = x->open ? id : x->moved;
    need(v, moved < 0 || v->moved < 0 || moved == v->moved, "depends on two frames");
    if (moved >= 0) v->moved = moved;
    return x->type;
}

static void define(Verify *v, int id, DType type) {
    if (!need(v, id >= 0 && id < v->t->nvalues, "value %%%d is out of range", id)) return;
    need(v, !v->value[id].defined, "%%%d is defined twice", id);
    need(v, type < DT_COUNT, "%%%d has no type", id);
    v->value[id] = (Val){.type = type, .defined = true, .visible = true, .moved = v->moved};
}

static bool ix_fine(Verify *v, const Ix *x, bool sizes_only) {
    if (!need(v, x, "an index expression is missing")) return false;
    bool ok = true;
    if (x->kind == IX_SIZE) {
        ok = need(v, x->num >= 0 && x->num < v->t->nsizes, "size %lld is unknown",
                  (long long)x->num);
    } else if (x->kind == IX_AXIS) {
        ok = need(v, !sizes_only, "an axis in an expression of sizes") &&
             need(v, x->num >= 0 && x->num < v->t->axes.n && v->open[x->num],
                  "axis %lld is not open here", (long long)x->num);
    } else if (x->kind == IX_VALUE) {
        ok = need(v, !sizes_only, "a value in an expression of sizes") &&
             need(v, x->n == 0, "value %%%lld has arguments", (long long)x->num);
        if (ok) {
            DType type = type_of(v, (int)x->num);
            ok = type < DT_COUNT &&
                 need(v, dtype_is_int(type), "%%%lld is no integer", (long long)x->num);
        }
    }
    for (int i = 0; ok && i < x->n; i++)
        ok = x->kind == IX_VALUE || ix_fine(v, x->arg[i], sizes_only);
    return ok;
}

/* ---- instructions -------------------------------------------------------------------------- */

static void verify_access(Verify *v, const TInst *i, DType type, int how) {
    if (!need(v, i->tensor >= 0 && i->tensor < v->t->tensors.n, "no tensor %d", i->tensor)) return;
    const TTensor *x = &v->t->tensors.v[i->tensor];
    need(v, i->nix == x->rank, "%s has rank %d, found %d indices", x->name, x->rank, i->nix);
    for (int d = 0; d < i->nix; d++) ix_fine(v, i->ix[d], false);
    need(v, type == x->type, "%s is %s, found %s", x->name, dtype_name(x->type), dtype_name(type));
    if (how == 2) need(v, x->mem != TM_IN, "a store to the input %s", x->name);
    if (how == 2) need(v, !i->checked, "a checked store");
    v->stored[i->tensor] |= how;
    need(v, v->stored[i->tensor] != 3, "%s is loaded and stored: points do not see each other",
         x->name);
}

static void verify_op(Verify *v, const TInst *i) {
    DType in[8];
    const char *why = NULL;
    if (!need(v, i->op < OP_COUNT, "no such op")) return;
    if (!need(v, i->nargs == op_arity(i->op), "takes %d operands, found %d", op_arity(i->op),
              i->nargs))
        return;
    for (int k = 0; k < i->nargs; k++)
        if ((in[k] = type_of(v, i->args[k])) == DT_none) return;
    if (i->op == OP_cast) return;
    DType type = infer_op(i->op, in, i->nargs, &why);
    if (need(v, type != DT_none, "%s", why ? why : "the operands are wrong"))
        need(v, type == i->type, "gives %s, found %s", dtype_name(type), dtype_name(i->type));
}

static void verify_step(Verify *v, const TInst *i) {
    if (!need(v, i->nargs == 2, "takes a carry and an element")) return;
    if (!usable(v, i->args[0])) return;
    DType type = type_of(v, i->args[1]);
    const TCarry *c = v->value[i->args[0]].open;
    if (!need(v, c, "%%%d is no carry of a loop around", i->args[0]) || type == DT_none) return;
    need(v, dtype_class(type) != DC_BOOL && (is_real(c->type) || dtype_is_int(type)),
         "%s cannot join %s", dtype_name(type), dtype_name(c->type));
    if (v->moved < 0) return;
    Val *x = &v->value[i->args[0]];
    if (c->frame < 0 && x->depth > v->value[v->moved].depth)
        x->moved = v->moved; /* a loop inside of the frame's */
    else
        need(v, c->frame == v->moved, "%%%d steps by frame %%%d, which is not its own", c->id,
             v->moved);
}

static void verify_rescale(Verify *v, const TCarry *c) {
    int depth = 0;
    for (int k = 0; k < c->rescale.n; k++) {
        const TFactor *f = &c->rescale.v[k];
        if (f->kind == TF_OP) {
            if (!need(v, f->op < OP_COUNT, "%%%d: no such op in its rescale", c->id)) return;
            depth -= op_arity(f->op);
            need(v, depth >= 0, "%%%d: its rescale lacks operands", c->id);
        }
        if (f->kind == TF_VALUE) {
            DType type = type_of(v, f->value);
            for (int n = 0; n < v->i->carries.n; n++)
                need(v, v->i->carries.v[n].id != f->value, "%%%d: its rescale reads a carry",
                     c->id);
            need(v, type < DT_COUNT && dtype_class(type) != DC_BOOL, "%%%d: its rescale reads %%%d",
                 c->id, f->value);
            need(v, v->moved < 0, "%%%d: its rescale depends on a frame", c->id);
        }
        depth++;
        need(v, depth <= TILE_RESCALE_MAX, "%%%d: its rescale is too deep", c->id);
    }
    need(v, depth == 1, "%%%d: its rescale leaves %d values, expected 1", c->id, depth);
}

/* Carry k of a loop; those before it are known. */
static void verify_carry(Verify *v, const TInst *i, int k) {
    const TCarry *c = &i->carries.v[k], *frame = NULL;
    define(v, c->id, c->type);
    if (!v->ok) return;
    v->value[c->id].depth = v->depth;
    need(v, c->red < RED_COUNT && c->red != RED_contract, "%%%d: no reduction of elements", c->id);
    need(v, c->type == DT_f32 || c->type == DT_i32 || c->type == DT_i64,
         "%%%d: a state of no value type", c->id);
    for (int n = 0; n < k; n++)
        if (i->carries.v[n].id == c->frame) frame = &i->carries.v[n];
    if (c->frame < 0) {
        need(v, !c->rescale.n && !c->lag, "%%%d: rescale or lag without a frame", c->id);
        return;
    }
    if (!need(v, frame, "%%%d: its frame %%%d is no carry before it", c->id, c->frame)) return;
    need(v, is_real(frame->type) && (frame->red == RED_max || frame->red == RED_min),
         "%%%d: its frame %%%d is no real max or min", c->id, c->frame);
    need(v, is_real(c->type) && c->red == RED_sum, "%%%d: only a real sum has a frame", c->id);
    need(v, c->lag == 0 || (c->lag == 1 && c->bound > 0), "%%%d: lag %d needs a bound", c->id,
         c->lag);
    verify_rescale(v, c);
    v->value[c->frame].frame = true;
}

static void verify_block(Verify *v, const TBlock *b);

static void verify_loop(Verify *v, const TInst *i) {
    if (!need(v, i->axis >= v->t->ngrid && i->axis < v->t->axes.n, "no axis of loops")) return;
    need(v, !v->open[i->axis], "axis %s is open already", v->t->axes.v[i->axis].name);
    ix_fine(v, i->lo, false);
    ix_fine(v, i->hi, false);
    need(v, v->moved < 0, "its bounds depend on a frame");
    need(v, i->carries.n <= TILE_CARRIES_MAX, "more than %d carries", TILE_CARRIES_MAX);
    for (int k = 0; k < i->carries.n; k++) verify_carry(v, i, k);
    if (!v->ok) return;
    for (int k = 0; k < i->carries.n; k++) v->value[i->carries.v[k].id].open = &i->carries.v[k];
    v->open[i->axis] = true;
    v->depth++;
    verify_block(v, &i->body);
    v->depth--;
    v->open[i->axis] = false;
    for (int k = 0; k < i->carries.n; k++) v->value[i->carries.v[k].id].open = NULL;
}

static void verify_inst(Verify *v, const TInst *i) {
    v->i = i;
    v->moved = -1;
    switch (i->kind) {
    case T_CONST: break;
    case T_INDEX:
        need(v, i->nix == 1 && i->type == DT_i64, "is one expression, an i64");
        if (i->nix == 1) ix_fine(v, i->ix[0], false);
        break;
    case T_LOAD: verify_access(v, i, i->type, 1); break;
    case T_OP: verify_op(v, i); break;
    case T_LOOP: verify_loop(v, i); break;
    case T_GUARD:
        if (need(v, i->nargs == 1, "takes a condition"))
            need(v, type_of(v, i->args[0]) == DT_bool, "%%%d is no condition", i->args[0]);
        need(v, v->moved < 0, "its condition depends on a frame");
        verify_block(v, &i->body);
        break;
    case T_STEP: verify_step(v, i); break;
    case T_STORE:
        if (need(v, i->nargs == 1, "takes a value")) verify_access(v, i, type_of(v, i->args[0]), 2);
        need(v, v->moved < 0, "stores what depends on a frame that still moves");
        break;
    }
    v->i = i;
    if (i->kind <= T_OP)
        define(v, i->id, i->type);
    else
        need(v, i->id < 0, "defines %%%d", i->id);
}

/* What a block defines ends with it; the carries of its loops too. */
static void hide(Verify *v, int id) {
    if (id >= 0 && id < v->t->nvalues) v->value[id].visible = false;
}

static void verify_block(Verify *v, const TBlock *b) {
    for (int k = 0; k < b->inst.n; k++) verify_inst(v, b->inst.v[k]);
    for (int k = 0; k < b->inst.n; k++) {
        const TInst *i = b->inst.v[k];
        hide(v, i->id);
        for (int c = 0; c < i->carries.n; c++) hide(v, i->carries.v[c].id);
    }
}

static void verify_head(Verify *v) {
    const TProg *t = v->t;
    need(v, t->ngrid >= 0 && t->ngrid <= t->axes.n, "%d grid axes of %d", t->ngrid, t->axes.n);
    for (int k = 0; k < t->axes.n; k++) {
        const TAxis *a = &t->axes.v[k];
        ix_fine(v, a->extent, true);
        need(v, a->grid == (k < t->ngrid), "axis %d is not in its place: grid axes first", k);
        need(v, a->tile >= 1, "axis %d has tile %d", k, a->tile);
        v->open[k] = a->grid;
    }
    for (int k = 0; k < t->tensors.n; k++) {
        const TTensor *x = &t->tensors.v[k];
        need(v, x->type < DT_COUNT && x->rank >= 0 && x->rank <= 32 && x->id >= 0,
             "tensor %d has no type, rank or number", k);
        for (int d = 0; d < x->rank; d++) ix_fine(v, x->dims[d], true);
    }
}

/* A store depends along no grid axis on which its place does not. decided: axes of the guards and
 * bounds around it. */
static void verify_once(Verify *v, const uint64_t *deps, const TBlock *b, uint64_t decided) {
    for (int k = 0; k < b->inst.n; k++) {
        const TInst *i = b->inst.v[k];
        uint64_t d = decided;
        v->i = i;
        if (i->kind == T_STORE)
            need(v, !((d | deps[i->args[0]]) & tile_once(v->t, deps, i)),
                 "differs along an axis of the grid on which its place does not depend");
        if (i->kind == T_GUARD) d |= deps[i->args[0]];
        if (i->kind == T_LOOP) d |= tile_ix_deps(deps, i->lo) | tile_ix_deps(deps, i->hi);
        verify_once(v, deps, &i->body, d);
    }
}

bool tile_verify(const TProg *t, Str *why) {
    Arena a = {0};
    Verify v = {.t = t, .why = why, .ok = true, .moved = -1};
    v.value = ARENA_ARRAY(&a, Val, t->nvalues);
    for (int i = 0; i < t->nvalues; i++) v.value[i].type = DT_none;
    v.open = ARENA_ARRAY(&a, bool, t->axes.n);
    v.stored = ARENA_ARRAY(&a, int, t->tensors.n);
    verify_head(&v);
    if (v.ok) verify_block(&v, &t->body);
    if (v.ok) verify_once(&v, tile_deps(&a, t), &t->body, 0);
    arena_free(&a);
    return v.ok;
}
