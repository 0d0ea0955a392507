/* infer.c - the type rules: one function a token of op.def's `type` column.
 *
 * A rule sees the stored types of the operands and gives the type of the result, or DT_none and a
 * reason that fits behind the op's name: "needs conditions, got f32".
 */
#include "ir/infer.h"

/* Reasons by the type that was found, so that no arena is needed. */
#define DTYPE(name, bits, cls, value) "needs numbers, got " #name,
static const char *const needs_numbers[] = {
#include "ir/dtype.def"
};
#undef DTYPE
#define DTYPE(name, bits, cls, value) "needs integers, got " #name,
static const char *const needs_integers[] = {
#include "ir/dtype.def"
};
#undef DTYPE
#define DTYPE(name, bits, cls, value) "needs conditions, got " #name,
static const char *const needs_conditions[] = {
#include "ir/dtype.def"
};
#undef DTYPE

/* The value type that all operands meet in: f32 if any is real, else i64 if any is, else i32. */
static DType common(const DType *in, int n, const char **why) {
    DType t = DT_i32;
    for (int i = 0; i < n; i++) {
        DType v = dtype_value(in[i]);
        if (v == DT_bool) {
            *why = needs_numbers[in[i]];
            return DT_none;
        }
        if (v == DT_f32 || (v == DT_i64 && t == DT_i32)) t = v;
    }
    return t;
}

static DType type_arith(const DType *in, int n, const char **why) {
    return common(in, n, why);
}

static DType type_real(const DType *in, int n, const char **why) {
    return common(in, n, why) == DT_none ? DT_none : DT_f32;
}

static DType type_int(const DType *in, int n, const char **why) {
    for (int i = 0; i < n; i++) {
        if (dtype_is_int(in[i])) continue;
        *why = needs_integers[in[i]];
        return DT_none;
    }
    return common(in, n, why);
}

static DType type_cmp(const DType *in, int n, const char **why) {
    return common(in, n, why) == DT_none ? DT_none : DT_bool;
}

static DType type_logic(const DType *in, int n, const char **why) {
    for (int i = 0; i < n; i++) {
        if (in[i] == DT_bool) continue;
        *why = needs_conditions[in[i]];
        return DT_none;
    }
    return DT_bool;
}

static DType type_select(const DType *in, int n, const char **why) {
    if (type_logic(in, 1, why) == DT_none) return DT_none;
    if (in[1] == DT_bool && in[2] == DT_bool) return DT_bool;
    return common(in + 1, n - 1, why);
}

static DType type_within(const DType *in, int n, const char **why) {
    (void)n;
    return type_logic(in, 1, why) == DT_none ? DT_none : in[1];
}

static DType type_same(const DType *in, int n, const char **why) {
    (void)n;
    (void)why;
    return in[0];
}

static DType type_cast(const DType *in, int n, const char **why) {
    (void)in;
    (void)n;
    (void)why;
    FK_BUG("the type of a cast is given");
}

static DType type_rand(const DType *in, int n, const char **why) {
    return type_int(in, n, why) == DT_none ? DT_none : DT_f32;
}

DType infer_op(Op op, const DType *in, int n, const char **why) {
    typedef DType Rule(const DType *in, int n, const char **why);
#define OP(name, arity, type, traits, sep, grad, eval, lower, formula) [OP_##name] = type_##type,
    static Rule *const rule[] = {
#include "ir/op.def"
    };
#undef OP
    FK_ASSERT(op < OP_COUNT && n == op_arity(op));
    *why = NULL;
    return rule[op](in, n, why);
}

DType infer_reduce(Reduce r, const DType *in, int n, const char **why) {
    FK_ASSERT(r < RED_COUNT && n >= 1);
    *why = NULL;
    return common(in, n, why);
}
