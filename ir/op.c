/* op.c - facts of op.def and reduce.def. */
#include "ir/op.h"

#include <string.h>

/* The letters of the traits column. */
enum { C = OPT_C, A = OPT_A, Z = OPT_Z, Y = OPT_Y, I = OPT_I };

typedef struct Facts {
    const char *name;
    int arity;
    OpRule rule;
    int traits;
    OpSep sep;
    const char *formula;
} Facts;

static const Facts facts[OP_COUNT] = {
#define OP(name, arity, type, traits, sep, grad, eval, lower, formula)                             \
    {#name, arity, RULE_##type, traits, SEP_##sep, formula},
#include "ir/op.def"
#undef OP
};

static const struct {
    const char *name;
    Op combine;
} reduces[RED_COUNT] = {
#define REDUCE(name, combine, identity, nan, factors, formula) {#name, OP_##combine},
#include "ir/reduce.def"
#undef REDUCE
};

static const Facts *fact(Op op) {
    FK_ASSERT((unsigned)op < OP_COUNT);
    return &facts[op];
}

const char *op_name(Op op) {
    return fact(op)->name;
}

int op_arity(Op op) {
    return fact(op)->arity;
}

OpRule op_rule(Op op) {
    return fact(op)->rule;
}

int op_traits(Op op) {
    return fact(op)->traits;
}

OpSep op_sep(Op op) {
    return fact(op)->sep;
}

const char *op_formula(Op op) {
    return fact(op)->formula;
}

Op op_named(const char *name, size_t n) {
    for (int i = 0; i < OP_COUNT; i++)
        if (strlen(facts[i].name) == n && !memcmp(facts[i].name, name, n)) return (Op)i;
    return OP_COUNT;
}

static DType join(DType a, DType b) {
    a = dtype_value(a), b = dtype_value(b);
    if (a == b) return a;
    if (a == DT_f32 || b == DT_f32) return DT_f32;
    return a == DT_i64 || b == DT_i64 ? DT_i64 : DT_i32;
}

DType op_operand(Op op, const DType *in, int i) {
    switch (fact(op)->rule) {
    case RULE_arith:
    case RULE_int:
    case RULE_cmp: return join(in[0], in[facts[op].arity - 1]);
    case RULE_real: return DT_f32;
    case RULE_logic: return DT_bool;
    case RULE_select: return i == 0 ? DT_bool : join(in[1], in[2]);
    case RULE_within: return i == 0 ? DT_bool : in[1];
    case RULE_same: return in[i];
    case RULE_cast: return dtype_value(in[i]);
    case RULE_rand: return DT_i64;
    }
    FK_BUG("op %s has no type rule", op_name(op));
}

const char *reduce_name(Reduce r) {
    FK_ASSERT((unsigned)r < RED_COUNT);
    return reduces[r].name;
}

Op reduce_combine(Reduce r) {
    FK_ASSERT((unsigned)r < RED_COUNT);
    return reduces[r].combine;
}

Reduce reduce_named(const char *name, size_t n) {
    for (int i = 0; i < RED_COUNT; i++)
        if (strlen(reduces[i].name) == n && !memcmp(reduces[i].name, name, n)) return (Reduce)i;
    return RED_COUNT;
}
