// Size expressions: the check that makes evaluation safe, and evaluation.
#include "runtime/fkm.h"

static const struct {
    uint8_t pops, pushes;
} info[FKM_OPS] = {
#define OP(name, operands, pops, pushes, formula) {pops, pushes},
#include "runtime/expr.def"
#undef OP
};

static const char *check_operand(const FkmInsn *in, const FkmScope *s) {
    bool on_tensor = in->op == FKM_OP_EXTENT || in->op == FKM_OP_STRIDE || in->op == FKM_OP_ALIGN;
    if (in->op == FKM_OP_SIZE) {
        if (in->a >= s->fn->n_sizes) return "a size that does not exist";
        if (s->known && !s->known[in->a]) return "a size that is not solved yet";
    }
    if (on_tensor && in->a >= s->fn->n_tensors) return "a tensor that does not exist";
    if (on_tensor && in->op != FKM_OP_ALIGN && in->b >= s->fn->tensors[in->a].rank)
        return "a dimension that does not exist";
    if (in->op == FKM_OP_EXTENT && !s->extents) return "an extent where none is known";
    if ((in->op == FKM_OP_STRIDE || in->op == FKM_OP_ALIGN || in->op == FKM_OP_SM_COUNT) &&
        !s->layout)
        return "a stride, alignment or SM count where none is known";
    return NULL;
}

int fkm_expr_depth(const FkmExpr *e) {
    int depth = 0, most = 0;
    for (uint32_t i = 0; i < e->n; i++) {
        depth += info[e->code[i].op].pushes - info[e->code[i].op].pops;
        if (depth > most) most = depth;
    }
    return most;
}

const char *fkm_expr_check(const FkmExpr *e, const FkmScope *scope) {
    int depth = 0;
    if (e->n > FKM_MAX_CODE) return "an expression that is too long";
    for (uint32_t i = 0; i < e->n; i++) {
        const FkmInsn *in = &e->code[i];
        if (in->op >= FKM_OPS) return "an unknown operation";
        const char *wrong = check_operand(in, scope);
        if (wrong) return wrong;
        if (depth < info[in->op].pops) return "an expression that pops an empty stack";
        depth += info[in->op].pushes - info[in->op].pops;
        if (depth > FKM_MAX_STACK) return "an expression that is nested too deeply";
    }
    return e->n && depth != 1 ? "an expression without exactly one result" : NULL;
}

// A value, or "failed". Failing is carried along instead of stopping, so that the arm of a select
// that is not taken may divide by a size that is 0.
typedef struct {
    int64_t v;
    bool failed;
} Value;

static Value floor_div(int64_t x, int64_t y, bool remainder) {
    if (y <= 0) return (Value){0, true};
    int64_t q = x / y, r = x % y;
    if (r < 0) q--, r += y;
    return (Value){remainder ? r : q, false};
}

static Value binary(FkmOp op, Value a, Value b) {
    int64_t x = a.v, y = b.v;
    Value r = {0, false};
    // A definite answer of one side makes the other side not needed.
    if (op == FKM_OP_AND && ((!a.failed && !x) || (!b.failed && !y))) return r;
    if (op == FKM_OP_OR && ((!a.failed && x) || (!b.failed && y))) return (Value){1, false};
    if (a.failed || b.failed) return (Value){0, true};
    switch (op) {
    case FKM_OP_ADD: r.failed = __builtin_add_overflow(x, y, &r.v); break;
    case FKM_OP_SUB: r.failed = __builtin_sub_overflow(x, y, &r.v); break;
    case FKM_OP_MUL: r.failed = __builtin_mul_overflow(x, y, &r.v); break;
    case FKM_OP_DIV: return floor_div(x, y, false);
    case FKM_OP_MOD: return floor_div(x, y, true);
    case FKM_OP_MIN: r.v = x < y ? x : y; break;
    case FKM_OP_MAX: r.v = x > y ? x : y; break;
    case FKM_OP_EQ: r.v = x == y; break;
    case FKM_OP_NE: r.v = x != y; break;
    case FKM_OP_LT: r.v = x < y; break;
    case FKM_OP_LE: r.v = x <= y; break;
    case FKM_OP_AND: r.v = x && y; break;
    default: r.v = x || y; break; // FKM_OP_OR
    }
    return r;
}

static int64_t variable(const FkmInsn *in, const FkmEnv *env) {
    switch (in->op) {
    case FKM_OP_CONST: return in->k;
    case FKM_OP_SIZE: return env->size[in->a];
    case FKM_OP_EXTENT: return env->extent[env->tensors[in->a].first_dim + in->b];
    case FKM_OP_STRIDE: return env->stride[env->tensors[in->a].first_dim + in->b];
    case FKM_OP_ALIGN: return env->align[in->a];
    default: return env->sm_count;
    }
}

bool fkm_eval(const FkmExpr *e, const FkmEnv *env, int64_t *value) {
    Value stack[FKM_MAX_STACK];
    int top = 0;
    for (uint32_t i = 0; i < e->n; i++) {
        const FkmInsn *in = &e->code[i];
        if (in->op <= FKM_OP_SM_COUNT) {
            stack[top++] = (Value){variable(in, env), false};
        } else if (in->op == FKM_OP_NOT) {
            stack[top - 1].v = !stack[top - 1].v;
        } else if (in->op == FKM_OP_SELECT) {
            Value c = stack[top - 3], r = stack[c.v ? top - 2 : top - 1];
            r.failed |= c.failed;
            stack[top - 3] = r;
            top -= 2;
        } else {
            stack[top - 2] = binary((FkmOp)in->op, stack[top - 2], stack[top - 1]);
            top--;
        }
    }
    if (!top) return *value = 0, true;
    *value = stack[0].v;
    return !stack[0].failed;
}
