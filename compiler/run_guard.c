/* run_guard.c - why a variant does not take the tensors at hand: the conditions of its guard that
 * do not hold, read back from their code and written as formulas.
 */
#include "compiler/run_int.h"

#include <string.h>

FkmEnv run_env(const Run *r, int64_t sms) {
    int64_t *extent = ARENA_ARRAY(r->arena, int64_t, (size_t)r->n *RUN_RANK + 1);
    int64_t *stride = ARENA_ARRAY(r->arena, int64_t, (size_t)r->n *RUN_RANK + 1);
    int64_t *align = ARENA_ARRAY(r->arena, int64_t, (size_t)r->n + 1);
    for (int i = 0; i < r->n; i++) {
        const RunTensor *t = &r->tensors[i];
        uint64_t start = (RUN_GUARD + t->offset) | FKM_ALIGN;
        uint32_t at = r->fn->tensors[i].first_dim;
        align[i] = (int64_t)(start & (~start + 1));
        memcpy(extent + at, t->extent, (size_t)t->rank * sizeof *extent);
        memcpy(stride + at, t->stride, (size_t)t->rank * sizeof *stride);
    }
    return (FkmEnv){r->fn->tensors, r->sizes, extent, stride, align, sms};
}

/* ---- formulas ----------------------------------------------------------------------------------
 */

static const struct {
    int pops;
    const char *formula; /* of an operation on values: x, y, z stand for them */
} ops[FKM_OPS] = {
#define OP(name, operands, pops, pushes, formula) {pops, formula},
#include "runtime/expr.def"
#undef OP
};

static const char *leaf(Arena *a, const FkmFn *f, const FkmInsn *i) {
    switch (i->op) {
    case FKM_OP_CONST: return arena_printf(a, "%lld", (long long)i->k);
    case FKM_OP_SIZE: return f->sizes[i->a].name;
    case FKM_OP_EXTENT: return arena_printf(a, "extent(%s, %d)", f->tensors[i->a].name, i->b);
    case FKM_OP_STRIDE: return arena_printf(a, "stride(%s, %d)", f->tensors[i->a].name, i->b);
    case FKM_OP_ALIGN: return arena_printf(a, "align(%s)", f->tensors[i->a].name);
    default: return "multiprocessors";
    }
}

typedef struct Term {
    const char *text;
    int level; /* how tightly it holds together */
} Term;

static int level_of(FkmOp op) {
    switch (op) {
    case FKM_OP_OR: return 0;
    case FKM_OP_AND: return 1;
    case FKM_OP_EQ:
    case FKM_OP_NE:
    case FKM_OP_LT:
    case FKM_OP_LE:
    case FKM_OP_NOT: return 2;
    case FKM_OP_ADD:
    case FKM_OP_SUB: return 3;
    case FKM_OP_MUL:
    case FKM_OP_DIV:
    case FKM_OP_MOD: return 4;
    default: return 5;
    }
}

static const char *operand(Arena *a, const Term *t, int level) {
    return t->level < level ? arena_printf(a, "(%s)", t->text) : t->text;
}

static const char *compound(Arena *a, FkmOp op, const Term *arg) {
    int level = level_of(op);
    const char *x = operand(a, &arg[0], level);
    const char *y = ops[op].pops > 1 ? operand(a, &arg[1], level + 1) : "";
    switch (op) {
    case FKM_OP_ADD: /* of a negative number */
        return *y == '-' ? arena_printf(a, "%s - %s", x, y + 1) : arena_printf(a, "%s + %s", x, y);
    case FKM_OP_DIV: return arena_printf(a, "%s / %s", x, y);
    case FKM_OP_MOD: return arena_printf(a, "%s %% %s", x, y);
    case FKM_OP_AND: return arena_printf(a, "%s and %s", x, y);
    case FKM_OP_OR: return arena_printf(a, "%s or %s", x, y);
    case FKM_OP_NOT: return arena_printf(a, "%s == 0", x);
    case FKM_OP_MIN: return arena_printf(a, "min(%s, %s)", arg[0].text, arg[1].text);
    case FKM_OP_MAX: return arena_printf(a, "max(%s, %s)", arg[0].text, arg[1].text);
    case FKM_OP_SELECT:
        return arena_printf(a, "select(%s, %s, %s)", arg[0].text, arg[1].text, arg[2].text);
    default: /* "x + y" */
        return arena_printf(a, "%s%.*s%s", x, (int)strlen(ops[op].formula) - 2, ops[op].formula + 1,
                            y);
    }
}

static const char *formula(Arena *a, const FkmFn *f, const FkmInsn *code, uint32_t n) {
    Term *stack = ARENA_ARRAY(a, Term, n + 1);
    uint32_t top = 0;
    for (uint32_t i = 0; i < n; i++) {
        FkmOp op = (FkmOp)code[i].op;
        top -= (uint32_t)ops[op].pops;
        stack[top].text = ops[op].pops ? compound(a, op, stack + top) : leaf(a, f, &code[i]);
        stack[top++].level = level_of(op);
    }
    return stack[0].text;
}

/* ---- conditions --------------------------------------------------------------------------------
 */

/* Where the value begins that the code before `end` leaves. */
static uint32_t begin_of(const FkmInsn *code, uint32_t end) {
    for (int wanted = 1; wanted; wanted += ops[code[--end].op].pops - 1) {
    }
    return end;
}

typedef struct Explain {
    const Run *r;
    const FkmEnv *env;
    int found;
} Explain;

/* Those that do not hold, of what is joined by `and`. */
static void explain(Explain *e, const FkmInsn *code, uint32_t n, Str *out) {
    enum { SHOWN = 3 };
    int64_t holds;
    if (code[n - 1].op == FKM_OP_AND) {
        uint32_t right = begin_of(code, n - 1);
        explain(e, code, right, out);
        explain(e, code + right, n - 1 - right, out);
        return;
    }
    FkmExpr x = {(FkmInsn *)(uintptr_t)code, n};
    if ((fkm_eval(&x, e->env, &holds) && holds) || e->found++ >= SHOWN) return;
    str_printf(out, "%s%s", e->found > 1 ? "; " : "", formula(e->r->arena, e->r->fn, code, n));
}

void guard_explain(const Run *r, int64_t sms, Str *out) {
    FkmEnv env = run_env(r, sms);
    for (uint32_t s = 0; s < r->fn->n_steps; s++) {
        const FkmStep *step = &r->fn->steps[s];
        for (uint32_t v = 0; v < step->n_variants; v++) {
            const FkmVariant *x = &step->variants[v];
            Explain e = {r, &env, 0};
            Str why = {0};
            if (x->guard.n) explain(&e, x->guard.code, x->guard.n, &why);
            if (e.found) str_printf(out, "; %s needs %s", x->name, str_get(&why));
            str_free(&why);
        }
    }
}
