/* build_expr.c - expressions: one function a kind, and the guards that conditions put on reads. */
#include "frontend/build_int.h"

#include <math.h>
#include <string.h>

/* An error in the text of a def is followed by the calls that led there. */
void build_error(Build *b, Span sp, const char *rule, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    const char *text = arena_vprintf(b->arena, fmt, ap);
    va_end(ap);
    diag_error(b->diags, sp, rule, "%s", text);
    int shown = 0;
    for (const Call *c = b->call; c && shown < 3; c = c->outer.call, shown++)
        diag_note(b->diags, c->at->span, "in this use of '%s'", c->def->name.s);
}

bool overflowed(Build *b, Span sp, const char *cure) {
    if (!b->p->overflow) return false;
    b->p->overflow = false;
    build_error(b, sp, "index-overflow", "this integer does not fit 64 bits; %s", cure);
    return true;
}

const Guard *guards_of(Build *b, const Guard *before, const Val *cond, bool negated) {
    IxVec facts = {0};
    bool exact;
    if (cond->kind != VAL_NODE) return before;
    if (negated)
        infer_negated(b->g, &cond->op, &facts, &exact);
    else
        infer_conjuncts(b->g, &cond->op, &facts, &exact);
    for (int i = 0; i < facts.n; i++) {
        Guard *g = ARENA_NEW(b->arena, Guard);
        *g = (Guard){facts.v[i], before};
        before = g;
    }
    return before;
}

/* ---- names and operators
 * -------------------------------------------------------------------------- */

static const Val *from_number(Build *b, const Number *n, Span sp) {
    const Val *v = n->real ? val_real(b, n->r, sp) : val_int(b, n->i, sp);
    return val_with(b, v, n->quotient, sp);
}

static const Val *build_name(Build *b, const Env *env, const Expr *x) {
    Number n;
    if (is_upper(x->name.s)) {
        intptr_t *size = env->call ? NULL : map_gets(&b->sizes, x->name.s);
        if (size) return val_ix(b, (const Ix *)*size, x->span);
        if (unit_number(b->u, x, &n, true)) return from_number(b, &n, x->span);
        return val_bad(b, x->span);
    }
    if (env->call) return call_name(b, env, x);
    const Bind *k = find_bind(env->binds, x->name.s);
    if (k) return val_ix(b, ix_axis(b->p, k->var[0]), x->span);
    return build_read(b, env, x); /* without indices */
}

static Env value_env(const Env *env) {
    Env e = *env;
    e.index = false;
    return e;
}

/* The right side of `and` is built where the left one holds, that of `or` where it does not. */
static const Val *build_logic(Build *b, const Env *env, const Expr *x) {
    Env right = value_env(env);
    const Val *in[2] = {build_expr(b, &right, x->args.v[0])};
    right.guards = guards_of(b, env->guards, in[0], x->op == AST_OR);
    in[1] = build_expr(b, &right, x->args.v[1]);
    return op_arith(b, env, x->op, in[0], in[1], x->span);
}

static const Val *build_op(Build *b, const Env *env, const Expr *x) {
    if (x->op == AST_AND || x->op == AST_OR) return build_logic(b, env, x);
    bool arith = x->op >= AST_ADD;
    Env inner = arith ? *env : value_env(env);
    const Val *p = build_expr(b, &inner, x->args.v[0]);
    if (x->op == AST_POW) return op_power(b, &inner, p, x->args.v[1], x->span);
    const Val *q = x->args.n > 1 ? build_expr(b, &inner, x->args.v[1]) : NULL;
    return op_arith(b, &inner, x->op, p, q, x->span);
}

/* ---- calls
 * ---------------------------------------------------------------------------------------- */

/* The arms of select are guarded by its condition. */
static const Val *build_select(Build *b, const Env *env, const Expr *x) {
    Env arm = value_env(env);
    const Val *in[3] = {build_expr(b, &arm, x->args.v[0])};
    for (int i = 1; i < 3; i++) {
        arm.guards = guards_of(b, env->guards, in[0], i == 2);
        in[i] = build_expr(b, &arm, x->args.v[i]);
    }
    return op_apply(b, OP_select, in, 3, "'select'", x->span);
}

/* min and max of integers without data are index expressions. */
static const Val *ix_minmax(Build *b, const Env *env, Op op, const Val *const *in, Span sp) {
    bool symbols = in[0]->kind != VAL_NODE && in[1]->kind != VAL_NODE;
    if (!val_is_int(in[0]) || !val_is_int(in[1]) || (!symbols && !env->index)) return NULL;
    const Ix *p = val_index(b, in[0]), *q = val_index(b, in[1]);
    if (!p || !q) return NULL;
    const Ix *r = op == OP_min ? ix_min(b->p, p, q) : ix_max(b->p, p, q);
    return val_with(b, val_ix(b, r, sp), in[0]->quotient || in[1]->quotient, sp);
}

static const Val *build_prim(Build *b, const Env *env, const Expr *x, Op op) {
    if (op == OP_select) return build_select(b, env, x);
    bool minmax = op == OP_min || op == OP_max;
    Env inner = minmax ? *env : value_env(env);
    int n = op_arity(op);
    const Val **in = ARENA_ARRAY(b->arena, const Val *, n);
    int missing = n - x->args.n; /* of rand's indices, the first ones */
    for (int i = 0; i < n; i++) {
        int k = i ? i - missing : 0;
        in[i] = i && k < 1 ? val_int(b, 0, x->span) : build_expr(b, &inner, x->args.v[k]);
    }
    const Val *r = minmax ? ix_minmax(b, env, op, in, x->span) : NULL;
    if (r) return r;
    const char *what = arena_printf(b->arena, "'%s'", x->name.s);
    return op_apply(b, op, in, n, what, x->span);
}

static const Val *build_def_call(Build *b, const Env *env, const Expr *x, const Decl *from) {
    const Decl *def = unit_def(b->u, from, x->name.s);
    return def ? build_call(b, env, x, def) : val_bad(b, x->span); /* check has said so */
}

static const Val *build_named_call(Build *b, const Env *env, const Expr *x) {
    Op op = prim_named(x->name.s);
    if (op != OP_COUNT) return build_prim(b, env, x, op);
    const Decl *from = env->call ? env->call->def : b->f->fn;
    return build_def_call(b, env, x, from);
}

/* ---- reductions
 * ----------------------------------------------------------------------------------- */

typedef struct Reduced {
    VEC(int) vars;
    Env inner;
    const Val *where;
} Reduced;

/* In a def, an axis is reduced over what it stands for; any other index is new. */
static bool reduced_axis(Build *b, const Env *env, const Expr *x, const AstAxis *a, Reduced *r) {
    const Bind *axis = env->call ? find_bind(env->call->canon, a->name.s) : NULL;
    Bind *k = ARENA_NEW(b->arena, Bind);
    int n = axis ? axis->n : 1, *var = ARENA_ARRAY(b->arena, int, n);
    for (int i = 0; i < n; i++) {
        const Ix *extent = axis ? b->vars.v[axis->var[i]].extent : NULL;
        const char *name = axis ? b->vars.v[axis->var[i]].name : a->name.s;
        if (!axis) {
            const Expr *texts[] = {x->args.v[0], x->where};
            extent = range_of(b, a, texts, x->where ? 2 : 1, NULL);
        }
        if (!extent) return false;
        var[i] = var_new(b, name, extent);
        vec_push(b->arena, &r->vars, var[i]);
    }
    *k = (Bind){a->name.s, var, n, r->inner.binds};
    r->inner.binds = k;
    return true;
}

static bool reduced_where(Build *b, const Expr *x, Reduced *r) {
    const Val *own = x->where ? build_expr(b, &r->inner, x->where) : NULL;
    if (own && own->kind == VAL_BAD) return false;
    if (own && own->type != DT_bool) {
        build_error(b, x->where->span, "type", "'where' needs a condition, got %s",
                    dtype_name(own->type));
        return false;
    }
    r->where = op_and(b, call_cond(b, &r->inner, x), own, x->span);
    if (!r->where) return true;
    if (r->where->kind == VAL_BAD) return false;
    r->inner.guards = guards_of(b, r->inner.guards, r->where, false);
    return true;
}

/* The number of elements in the domain, as a real. */
static const Val *count_of(Build *b, const Reduced *r, Span sp) {
    if (!r->where) {
        const Ix *n = ix_const(b->p, 1);
        for (int i = 0; i < r->vars.n; i++) n = ix_mul(b->p, n, b->vars.v[r->vars.v[i]].extent);
        if (overflowed(b, sp, "a mean is of at most 9223372036854775807 elements"))
            return val_bad(b, sp);
        return val_ix(b, n, sp);
    }
    Val *one = ARENA_NEW(b->arena, Val);
    *one = *val_int(b, 1, sp);
    one->type = DT_i64;
    return make_reduce(b, RED_sum, one, r->where, r->vars.v, r->vars.n, sp);
}

static const Val *build_mean(Build *b, const Reduced *r, const Val *x, Span sp) {
    if (op_real_quotient(b, x)) return val_bad(b, sp);
    if (x->type != DT_bool && dtype_value(x->type) != DT_f32) x = op_cast(b, DT_f32, x, x->span);
    if (x->kind == VAL_BAD) return x;
    const Val *in[] = {make_reduce(b, RED_sum, x, r->where, r->vars.v, r->vars.n, sp),
                       count_of(b, r, sp)};
    return op_apply(b, OP_div, in, 2, "'mean'", sp);
}

static const Val *build_reduce(Build *b, const Env *env, const Expr *x) {
    static const Reduce ops[] = {
        [AST_SUM] = RED_sum, [AST_PROD] = RED_prod, [AST_MAX] = RED_max, [AST_MIN] = RED_min};
    Reduced r = {.inner = value_env(env)};
    for (int i = 0; i < x->axes.n; i++)
        if (!reduced_axis(b, env, x, &x->axes.v[i], &r)) return val_bad(b, x->span);
    if (!reduced_where(b, x, &r)) return val_bad(b, x->span);
    const Val *v = build_expr(b, &r.inner, x->args.v[0]);
    if (v->kind == VAL_BAD) return v;
    if (v->type == DT_bool) {
        build_error(b, x->args.v[0]->span, "type",
                    "'%s' needs numbers, got a condition; i32(condition) is 0 or 1", x->name.s);
        return val_bad(b, x->span);
    }
    if (x->reduce == AST_MEAN) return build_mean(b, &r, v, x->span);
    const Val *out = make_reduce(b, ops[x->reduce], v, r.where, r.vars.v, r.vars.n, x->span);
    return val_with(b, out, v->quotient && val_is_int(out), x->span);
}

/* ---- all
 * ------------------------------------------------------------------------------------------ */

static const Val *build_kind(Build *b, const Env *env, const Expr *x) {
    Env values;
    switch (x->kind) {
    case E_INT: return val_int(b, x->i, x->span);
    case E_REAL: return val_real(b, x->r, x->span);
    case E_INF: return val_real(b, (double)INFINITY, x->span);
    case E_NAME: return build_name(b, env, x);
    case E_READ: return build_read(b, env, x);
    case E_CALL: return build_named_call(b, env, x);
    case E_OP: return build_op(b, env, x);
    case E_REDUCE: return build_reduce(b, env, x);
    case E_OVER: return build_def_call(b, env, x, env->call ? env->call->def : b->f->fn);
    case E_CAST:
        values = value_env(env);
        return op_cast(b, x->dtype, build_expr(b, &values, x->args.v[0]), x->span);
    }
    FK_BUG("expression of kind %d", (int)x->kind);
}

const Val *build_expr(Build *b, const Env *env, const Expr *x) {
    if (b->full) return val_bad(b, x->span);
    const Call *before = b->call;
    b->call = env->call;
    const Val *v;
    if (++b->depth > DEEP / 2) {
        build_error(b, x->span, "nesting", "nested deeper than %d, once defs are expanded",
                    DEEP / 2);
        b->full = true;
        v = val_bad(b, x->span);
    } else {
        v = build_kind(b, env, x);
        const char *cure = env->index ? "an index is at most 9223372036854775807"
                                      : "for a real number write a factor with '.0'";
        if (overflowed(b, x->span, cure)) v = val_bad(b, x->span);
    }
    b->depth--;
    b->call = before;
    return v;
}
