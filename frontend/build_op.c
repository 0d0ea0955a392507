/* build_op.c - operators and functions: literals and quotients meet their types here (rules 5, 7),
 * ir/infer says what fits. */
#include "frontend/build_int.h"

#include <math.h>
#include <string.h>

/* How many parts an index expression may have, written out: as a value, beyond which it is computed
 * by nodes; as an index, beyond which it is refused. */
enum { VALUE_PARTS = 64, INDEX_PARTS = 2000 };

/* ---- types
 * ---------------------------------------------------------------------------------------- */

bool op_real_quotient(Build *b, const Val *v) {
    if (!v->quotient) return false;
    build_error(b, v->span, "quotient",
                "an integer quotient (rounded down) is used as a real; write 1.0/E for a real "
                "quotient, f32(i/2) for a rounded one");
    return true;
}

/* Known integers become reals where the op computes in reals. */
static const Val *as_operand(Build *b, const Val *v, DType inside) {
    if (inside != DT_f32) return v;
    if (v->kind == VAL_INT) return val_real(b, (double)v->i, v->span);
    return v;
}

static const char *kind_of(const Val *v) {
    return v->type == DT_bool ? "a condition" : dtype_name(v->type);
}

/* infer's reason, with the operand that it is about underlined. */
static const Val *type_error(Build *b, Op op, const Val *const *in, int n, const char *what,
                             const char *why, Span sp) {
    const Val *worst = NULL;
    for (int i = 0; i < n; i++) {
        bool cond = in[i]->type == DT_bool;
        bool want_cond = op_rule(op) == RULE_logic ||
                         ((op_rule(op) == RULE_select || op_rule(op) == RULE_within) && i == 0);
        bool want_int = op_rule(op) == RULE_int || op_rule(op) == RULE_rand;
        if (!worst && (cond != want_cond || (want_int && !dtype_is_int(in[i]->type))))
            worst = in[i];
    }
    if (!worst) {
        build_error(b, sp, "type", "%s %s", what, why);
        return val_bad(b, sp);
    }
    bool counts = worst->type == DT_bool;
    build_error(b, worst->span, "type", "%s %s%s", what, why,
                counts ? "; i32(condition) is 0 or 1" : "");
    return val_bad(b, sp);
}

const Val *op_apply(Build *b, Op op, const Val *const *in, int n, const char *what, Span sp) {
    DType *t = ARENA_ARRAY(b->arena, DType, n);
    const Val **v = ARENA_ARRAY(b->arena, const Val *, n);
    for (int i = 0; i < n; i++) {
        if (in[i]->kind == VAL_BAD) return val_bad(b, sp);
        t[i] = in[i]->type;
    }
    const char *why = NULL;
    DType type = infer_op(op, t, n, &why);
    if (type == DT_none) return type_error(b, op, in, n, what, why, sp);
    bool quotient = false;
    for (int i = 0; i < n; i++) {
        DType inside = op_operand(op, t, i);
        if (inside == DT_f32 && op_real_quotient(b, in[i])) return val_bad(b, sp);
        v[i] = as_operand(b, in[i], inside);
        if (v[i]->kind == VAL_BAD) return v[i];
        quotient |= in[i]->quotient && !(op == OP_select && i == 0);
    }
    bool carries = dtype_is_int(type) && op_rule(op) != RULE_rand;
    const Val *r = make_op(b, op, type, v, n, sp);
    return val_with(b, r, carries && quotient, sp);
}

const Val *op_and(Build *b, const Val *x, const Val *y, Span sp) {
    if (!x || !y) return x ? x : y;
    const Val *in[] = {x, y};
    return op_apply(b, OP_and, in, 2, "'and'", sp);
}

/* ---- arithmetic
 * ----------------------------------------------------------------------------------- */

static const Op node_op[] = {
    [AST_OR] = OP_or,   [AST_AND] = OP_and,  [AST_NOT] = OP_not, [AST_EQ] = OP_eq,
    [AST_NE] = OP_ne,   [AST_LT] = OP_lt,    [AST_LE] = OP_le,   [AST_GT] = OP_gt,
    [AST_GE] = OP_ge,   [AST_ADD] = OP_add,  [AST_SUB] = OP_sub, [AST_MUL] = OP_mul,
    [AST_DIV] = OP_div, [AST_MOD] = OP_imod, [AST_NEG] = OP_neg};

static const Ix *ix_op(IxPool *p, AstOp op, const Ix *x, const Ix *y) {
    switch (op) {
    case AST_ADD: return ix_add(p, x, y);
    case AST_SUB: return ix_sub(p, x, y);
    case AST_MUL: return ix_mul(p, x, y);
    case AST_DIV: return ix_div(p, x, y);
    case AST_MOD: return ix_mod(p, x, y);
    default: return ix_neg(p, x);
    }
}

/* Index expressions share their parts but are walked as trees; `left` is what may be visited. */
static bool fits(const Ix *x, int *left) {
    if (--*left < 0) return false;
    for (int i = 0; i < x->n; i++)
        if (!fits(x->arg[i], left)) return false;
    return true;
}

/* As an index expression; NULL if it is too large for one and may be computed by nodes instead. */
static const Val *ix_arith(Build *b, const Env *env, AstOp op, const Val *x, const Val *y,
                           Span sp) {
    const Ix *p = val_index(b, x), *q = y ? val_index(b, y) : NULL;
    if (!p || (y && !q)) return val_bad(b, sp);
    const Ix *r = ix_op(b->p, op, p, q);
    int64_t i;
    int left = env->index ? INDEX_PARTS : VALUE_PARTS;
    bool known = x->kind == VAL_INT && (!y || y->kind == VAL_INT);
    if (known && ix_is_const(r, &i)) return val_int(b, i, sp);
    if (fits(r, &left)) return val_ix(b, r, sp);
    if (!env->index) return NULL;
    build_error(b, sp, "index-size", "this index has more than %d parts once it is written out",
                INDEX_PARTS);
    return val_bad(b, sp);
}

/* Rule 7: the divisor of integers is made of constants and sizes, and positive. */
static bool divisor_ok(Build *b, const Env *env, const Val *y) {
    int before = b->diags->errors;
    bool known = y->kind == VAL_INT || (y->kind == VAL_IX && !y->ix->has_axis && !y->ix->has_value);
    if (!known)
        build_error(b, y->span, "divisor",
                    "the divisor of integers is made of constants and sizes; f32(...) makes a real "
                    "quotient");
    else
        check_divisor(b, env, val_index(b, y), y->span);
    return b->diags->errors == before;
}

static const Val *int_arith(Build *b, const Env *env, AstOp op, const Val *x, const Val *y,
                            Span sp) {
    bool divides = op == AST_DIV || op == AST_MOD;
    if (divides && !divisor_ok(b, env, y)) return val_bad(b, sp);
    if (divides && y->kind == VAL_INT && y->i <= 0) y = val_int(b, 1, y->span); /* empty domain */
    bool quotient = op != AST_MOD && (op == AST_DIV || x->quotient || (y && y->quotient));
    if ((x->kind != VAL_NODE && (!y || y->kind != VAL_NODE)) || env->index) {
        const Val *v = ix_arith(b, env, op, x, y, sp);
        if (v) return val_with(b, v, quotient, sp);
    }
    const Val *in[] = {x, y};
    Op node = op == AST_DIV ? OP_idiv : node_op[op];
    const char *what = arena_printf(b->arena, "'%s'", ast_op_text[op]);
    return val_with(b, op_apply(b, node, in, y ? 2 : 1, what, sp), quotient, sp);
}

const Val *op_arith(Build *b, const Env *env, AstOp op, const Val *x, const Val *y, Span sp) {
    if (x->kind == VAL_BAD || (y && y->kind == VAL_BAD)) return val_bad(b, sp);
    bool ints = val_is_int(x) && (!y || val_is_int(y));
    bool arith = op >= AST_ADD && op <= AST_NEG;
    if (arith && ints) return int_arith(b, env, op, x, y, sp);
    if (op == AST_NEG && x->kind == VAL_REAL) return val_real(b, -x->r, sp);
    const char *what = arena_printf(b->arena, "'%s'", ast_op_text[op]);
    const Val *in[] = {x, y};
    if (op == AST_MOD) {
        const Val *real = val_is_int(x) ? y : x;
        build_error(b, real->span, "type", "'%%' is a remainder of integers, got %s",
                    kind_of(real));
        return val_bad(b, sp);
    }
    return op_apply(b, node_op[op], in, y ? 2 : 1, what, sp);
}

/* ---- casts
 * ---------------------------------------------------------------------------------------- */

const Val *op_cast(Build *b, DType type, const Val *v, Span sp) {
    if (v->kind == VAL_BAD || v->type == type) return val_with(b, v, false, sp);
    if (type == DT_bool) {
        build_error(b, v->span, "type", "a condition is made by a comparison: write x != 0");
        return val_bad(b, sp);
    }
    if (v->kind == VAL_INT && type == DT_f32) return val_real(b, (double)v->i, sp);
    if (v->kind == VAL_INT && type == DT_i32 && v->i == (int32_t)v->i) {
        return val_int(b, v->i, sp);
    }
    if (v->kind == VAL_INT && dtype_class(type) == DC_REAL) v = val_real(b, (double)v->i, v->span);
    const Val *in[] = {v};
    return make_op(b, OP_cast, type, in, 1, sp);
}

/* ---- powers
 * --------------------------------------------------------------------------------------- */

static const Val *product(Build *b, const Env *env, const Val *x, const Val *y, Span sp) {
    return op_arith(b, env, AST_MUL, x, y, sp);
}

/* x^n by squaring; an integer stays one. */
static const Val *int_power(Build *b, const Env *env, const Val *x, int64_t n, Span sp) {
    if (n == 0) return val_is_int(x) ? val_int(b, 1, sp) : val_real(b, 1, sp);
    const Val *r = NULL;
    for (const Val *square = x; n; n >>= 1) {
        if (n & 1) r = r ? product(b, env, r, square, sp) : square;
        if (n > 1) square = product(b, env, square, square, sp);
    }
    return r;
}

const Val *op_power(Build *b, const Env *env, const Val *x, const Expr *exponent, Span sp) {
    Number n;
    if (!unit_number(b->u, exponent, &n, true)) {
        build_error(b, exponent->span, "power",
                    "the right side of '^' is a constant; pow(x, y) takes any");
        return val_bad(b, sp);
    }
    if (x->kind == VAL_BAD) return x;
    if (x->type == DT_bool) {
        build_error(b, x->span, "type", "'^' needs numbers, got a condition");
        return val_bad(b, sp);
    }
    if (!n.real && n.i >= 0) return int_power(b, env, x, n.i, sp);
    if (op_real_quotient(b, x)) return val_bad(b, sp);
    const Val *real = x->kind == VAL_INT ? val_real(b, (double)x->i, x->span) : x;
    if (!n.real) {
        if (n.i < -INT32_MAX) n.i = -INT32_MAX;
        if (val_is_int(real)) real = op_cast(b, DT_f32, real, x->span);
        const Val *in[] = {val_real(b, 1, sp), int_power(b, env, real, -n.i, sp)};
        return op_apply(b, OP_div, in, 2, "'^'", sp);
    }
    if (real->kind == VAL_REAL) return val_real(b, pow(real->r, n.r), sp);
    const Val *in[] = {real, val_real(b, n.r, exponent->span)};
    return op_apply(b, OP_pow, in, 2, "'^'", sp);
}
