/* build_range.c - sizes, ranges of indices, and reads (rules 1 and 2). What follows from what is
 * decided in ir/infer; here the text is looked through for its places, and the answers become
 * errors, launch checks, or `checked` reads. */
#include "frontend/build_int.h"

#include <string.h>

const char *ix_text(Build *b, const Ix *x) {
    const char **size = ARENA_ARRAY(b->arena, const char *, b->g->sizes.n);
    const char **axis = ARENA_ARRAY(b->arena, const char *, b->vars.n);
    int nvalue = x->has_value ? b->g->nodes.n : 0;
    const char **value = ARENA_ARRAY(b->arena, const char *, nvalue);
    for (int i = 0; i < b->g->sizes.n; i++) size[i] = b->g->sizes.v[i].name;
    for (int i = 0; i < b->vars.n; i++) axis[i] = b->vars.v[i].name;
    for (int i = 0; i < nvalue; i++) {
        const Node *n = b->g->nodes.v[i];
        value[i] = n->kind == N_INPUT ? b->g->params.v[n->param].name : n->name;
    }
    IxNames names = {size, axis, value, nvalue};
    Str s = {0};
    ix_print(&s, x, &names);
    const char *text = arena_strdup(b->arena, str_get(&s));
    str_free(&s);
    return text;
}

static const char *expr_text(Build *b, const Expr *x) {
    Str s = {0};
    ast_print_expr(&s, x);
    const char *text = arena_strdup(b->arena, str_get(&s));
    str_free(&s);
    return text;
}

static const Ix *const *bound_extents(Build *b, const Env *env) {
    const Ix **e = ARENA_ARRAY(b->arena, const Ix *, b->vars.n);
    for (int i = 0; i < b->nleft; i++) e[i] = b->vars.v[i].extent;
    for (const Bind *k = env->binds; k; k = k->next)
        for (int i = 0; i < k->n; i++) e[k->var[i]] = b->vars.v[k->var[i]].extent;
    return e;
}

/* An expression that is 0 where an index that is bound here has no element, so that there is
 * nothing to do; NULL: there always is. Known factors say nothing, and might not fit 64 bits. */
static const Ix *domain_of(Build *b, const Env *env) {
    const Ix *const *ext = bound_extents(b, env), *r = NULL;
    for (int i = 0; i < b->vars.n; i++) {
        IxTerm *t;
        int64_t c;
        if (!ext[i]) continue;
        if (ix_is_const(ext[i], &c)) {
            if (c <= 0) return ix_const(b->p, 0);
            continue;
        }
        bool one = ix_terms(b->p, ext[i], &t) == 1 && t[0].coef > 0;
        const Ix *factor = one ? t[0].atom : ext[i];
        r = r ? ix_mul(b->p, r, factor) : factor;
    }
    return r;
}

static bool is_nothing(const Ix *domain) {
    int64_t c;
    return domain && ix_is_const(domain, &c) && c <= 0;
}

void add_check(Build *b, const Ix *e, const Ix *unless, const Ix *needed, const Ix *found,
               const char *text, Span sp) {
    if (is_nothing(unless)) return;
    for (int i = 0; i < b->g->checks.n; i++) {
        Check *c = &b->g->checks.v[i];
        if (c->e == e && (c->unless == unless || !c->unless)) return;
    }
    vec_push(b->arena, &b->g->checks, ((Check){e, unless, needed, found, text, sp}));
}

/* ---- sizes
 * ---------------------------------------------------------------------------------------- */

void check_divisor(Build *b, const Env *env, const Ix *divisor, Span sp) {
    int64_t c;
    const Ix *domain = env ? domain_of(b, env) : NULL;
    if (is_nothing(domain)) return;
    if (ix_is_const(divisor, &c)) {
        if (c <= 0) build_error(b, sp, "divisor", "the divisor of an integer must be positive");
        return;
    }
    const Ix *one = ix_const(b->p, 1);
    const char *text =
        arena_printf(b->arena, "the divisor %s must be positive", ix_text(b, divisor));
    add_check(b, ix_sub(b->p, divisor, one), domain, one, divisor, text, sp);
}

static const Ix *size_name(Build *b, const Expr *x) {
    intptr_t *known = map_gets(&b->sizes, x->name.s);
    if (known) return (const Ix *)*known;
    Number n;
    if (!unit_number(b->u, x, &n, true)) return NULL;
    if (!n.real) return ix_const(b->p, n.i);
    build_error(b, x->span, "size-form", "'%s' is not an integer", x->name.s);
    return NULL;
}

/* A quotient of one size or const must be exact (rule 1). */
static bool exact_quotient(Build *b, const Expr *x, const Ix *p, const Ix *q) {
    int64_t m, n;
    if (x->args.v[0]->kind != E_NAME) return true;
    if (ix_is_const(p, &m) && ix_is_const(q, &n)) {
        if (n <= 0 || m % n == 0) return true;
        build_error(b, x->span, "exact-quotient",
                    "%s is %lld, which is not a multiple of %lld: a quotient of one size or const "
                    "must be exact",
                    x->args.v[0]->name.s, (long long)m, (long long)n);
        return false;
    }
    const Ix *rest = ix_mod(b->p, p, q);
    const char *text =
        arena_printf(b->arena, "%s must be a multiple of %s", ix_text(b, p), ix_text(b, q));
    add_check(b, ix_neg(b->p, rest), NULL, q, p, text, x->span);
    return true;
}

/* A size has more than 62 factors only where it is 0 or 1. */
static const Ix *size_power(Build *b, const Expr *x, bool exact) {
    enum { FACTORS = 62 };
    const Ix *p = size_of(b, x->args.v[0], exact), *r = ix_const(b->p, 1);
    Number n;
    if (!p) return NULL;
    if (!unit_number(b->u, x->args.v[1], &n, true) || n.real || n.i < 0) {
        build_error(b, x->args.v[1]->span, "power",
                    "in a dimension or a range the right side of '^' is a constant integer that "
                    "is not negative");
        return NULL;
    }
    if (n.i > FACTORS && !ix_is_const(p, NULL)) {
        build_error(b, x->args.v[1]->span, "power",
                    "a size to the power of %lld does not fit 64 bits (at most %d)", (long long)n.i,
                    FACTORS);
        return NULL;
    }
    for (int64_t e = n.i; e; e >>= 1) {
        if (e & 1) r = ix_mul(b->p, r, p);
        if (e > 1) p = ix_mul(b->p, p, p);
    }
    return r;
}

static const Ix *size_op(Build *b, const Expr *x, bool exact) {
    if (x->kind == E_OP && x->op == AST_POW) return size_power(b, x, exact);
    const Ix *p = size_of(b, x->args.v[0], exact), *q = NULL;
    if (x->args.n > 1) q = size_of(b, x->args.v[1], exact);
    if (!p || (x->args.n > 1 && !q)) return NULL;
    if (x->kind == E_CALL) return x->name.s[1] == 'a' ? ix_max(b->p, p, q) : ix_min(b->p, p, q);
    int before = b->diags->errors;
    if (x->op == AST_DIV || x->op == AST_MOD) check_divisor(b, NULL, q, x->args.v[1]->span);
    if (b->diags->errors > before) return NULL;
    if (x->op == AST_DIV && exact && !exact_quotient(b, x, p, q)) return NULL;
    switch (x->op) {
    case AST_NEG: return ix_neg(b->p, p);
    case AST_ADD: return ix_add(b->p, p, q);
    case AST_SUB: return ix_sub(b->p, p, q);
    case AST_MUL: return ix_mul(b->p, p, q);
    case AST_DIV: return ix_div(b->p, p, q);
    default: return ix_mod(b->p, p, q);
    }
}

const Ix *size_of(Build *b, const Expr *x, bool exact) {
    if (x->kind == E_INT) return ix_const(b->p, x->i);
    if (x->kind == E_NAME) return size_name(b, x);
    const Ix *r = size_op(b, x, exact);
    return overflowed(b, x->span, "an extent is at most 9223372036854775807") ? NULL : r;
}

/* ---- ranges
 * --------------------------------------------------------------------------------------- */

typedef struct Places {
    Build *b;
    const char *name;
    VEC(RangeUse) uses;
    bool broken; /* a tensor with an error stands in the way: say nothing */
} Places;

static void look(Places *w, const Expr *x);

/* Is it the index itself (c == 1), or index/c with a constant c? */
static bool index_over(Places *w, const Expr *x, int64_t *c) {
    Number n;
    *c = 1;
    if (x->kind == E_NAME) return !strcmp(x->name.s, w->name);
    if (x->kind != E_OP || x->op != AST_DIV || x->args.v[0]->kind != E_NAME) return false;
    if (strcmp(x->args.v[0]->name.s, w->name)) return false;
    if (!unit_number(w->b->u, x->args.v[1], &n, true) || n.real || n.i <= 0) return false;
    *c = n.i;
    return true;
}

static void look_read(Places *w, const Expr *x) {
    intptr_t *t = map_gets(&w->b->tensors, x->name.s);
    const Tensor *tensor = t ? (const Tensor *)*t : NULL;
    bool broken = !tensor || tensor->node < 0;
    w->broken |= broken;
    for (int d = 0; d < x->args.n; d++) {
        int64_t c;
        if (!index_over(w, x->args.v[d], &c)) {
            look(w, x->args.v[d]);
        } else if (!broken) {
            const Node *n = w->b->g->nodes.v[tensor->node];
            const char *what = arena_printf(w->b->arena, "dimension %d of '%s'", d + 1, x->name.s);
            RangeUse u = {n->axes[d].extent, c, false, x->args.v[d]->span, what};
            vec_push(w->b->arena, &w->uses, u);
        }
    }
}

static void look(Places *w, const Expr *x) {
    if (x->kind == E_READ) {
        look_read(w, x);
        return;
    }
    for (int i = 0; x->kind == E_REDUCE && i < x->axes.n; i++)
        if (!strcmp(x->axes.v[i].name.s, w->name)) return; /* another index of this name */
    if (x->where) look(w, x->where);
    for (int i = 0; i < x->args.n; i++) look(w, x->args.v[i]);
}

static void report_clash(Build *b, const AstAxis *a, const RangeUse *x, const RangeUse *y) {
    build_error(b, a->name.span, "range-clash", "the range of '%s' is both %s and %s", a->name.s,
                ix_text(b, x->dim), ix_text(b, y->dim));
    const RangeUse *both[] = {x, y};
    for (int i = 0; i < 2; i++) {
        const RangeUse *u = both[i];
        if (u->c > 1)
            diag_note(b->diags, u->span, "%lld times %s, %s", (long long)u->c, ix_text(b, u->dim),
                      u->what);
        else
            diag_note(b->diags, u->span, "%s, %s", ix_text(b, u->dim), u->what);
    }
}

/* A range that was written may come out negative; as a dimension it must not. */
static void range_not_negative(Build *b, const Ix *x, Span sp) {
    int64_t c;
    if (ix_is_const(x, &c)) {
        if (c < 0) build_error(b, sp, "range", "this range is negative: %lld", (long long)c);
        return;
    }
    if (infer_nonneg(b->g, x, NULL, 0, NULL, 0)) return;
    const char *text = arena_printf(b->arena, "the range %s must not be negative", ix_text(b, x));
    add_check(b, x, NULL, ix_const(b->p, 0), x, text, sp);
}

const Ix *range_of(Build *b, const AstAxis *a, const Expr *const *texts, int n,
                   const RangeUse *left) {
    Places w = {.b = b, .name = a->name.s};
    if (left) vec_push(b->arena, &w.uses, *left);
    if (a->range) {
        const Ix *x = size_of(b, a->range, true);
        if (!x) return NULL;
        range_not_negative(b, x, a->range->span);
        RangeUse u = {x, 1, true, a->range->span, "the range written here"};
        vec_push(b->arena, &w.uses, u);
    }
    for (int i = 0; i < n; i++) look(&w, texts[i]);
    Range r = infer_range(b->g, w.uses.v, w.uses.n);
    if (r.clash >= 0) {
        report_clash(b, a, &w.uses.v[r.from], &w.uses.v[r.clash]);
        return NULL;
    }
    if (left && r.extent && r.extent != left->dim) { /* written, and not the output's dimension */
        report_clash(b, a, &w.uses.v[r.from], left);
        return NULL;
    }
    if (!r.extent && !w.broken)
        build_error(b, a->name.span, "range",
                    "the range of '%s' is not known: it stands bare in no dimension; write it, as "
                    "in [%s in 4]",
                    a->name.s, a->name.s);
    return r.extent;
}

/* ---- reads
 * ---------------------------------------------------------------------------------------- */

typedef struct Reading {
    Build *b;
    const Env *env;
    const Expr *x;
    const Node *of;
    const Ix *const *extents; /* of the variables bound here */
    const Ix *const *guards;
    int nguards;
} Reading;

static void never_inside(Reading *r, int d, const BoundResult *at) {
    Build *b = r->b;
    const char *lo = ix_text(b, at->lo), *hi = ix_text(b, at->hi);
    const char *found = at->lo == at->hi ? lo : arena_printf(b->arena, "%s to %s", lo, hi);
    build_error(b, r->x->args.v[d]->span, "bounds",
                "this reads %s outside of its dimension %d: the index is %s, the extent %s",
                r->x->name.s, d + 1, found, ix_text(b, r->of->axes[d].extent));
}

static void check_at_launch(Reading *r, int d, const BoundResult *at) {
    Build *b = r->b;
    IxPool *p = b->p;
    const Expr *arg = r->x->args.v[d];
    const Ix *dim = r->of->axes[d].extent, *one = ix_const(p, 1), *zero = ix_const(p, 0);
    const Ix *unless = domain_of(b, r->env), *need = ix_add(p, at->hi, one);
    const char *read = arena_printf(b->arena, "index %s in dimension %d of %s", expr_text(b, arg),
                                    d + 1, r->x->name.s);
    add_check(b, at->lo, unless, zero, at->lo,
              arena_printf(b->arena, "%s must not be negative", read), arg->span);
    add_check(b, ix_sub(p, dim, need), unless, need, dim,
              arena_printf(b->arena, "%s must be inside", read), arg->span);
}

static bool read_position(Reading *r, int d, Operand *o) {
    Build *b = r->b;
    const Expr *arg = r->x->args.v[d];
    Env env = *r->env;
    env.index = true;
    const Val *v = build_expr(b, &env, arg);
    if (v->kind == VAL_BAD) return false;
    const Ix *x = val_index(b, v);
    if (!x) {
        if (!b->full)
            build_error(b, arg->span, "index-type", "an index is an integer, found %s",
                        dtype_name(v->type));
        return false;
    }
    o->map[d] = x;
    BoundResult at =
        infer_bound(b->g, x, r->of->axes[d].extent, r->extents, b->vars.n, r->guards, r->nguards);
    if (at.guarded || at.bound == BOUND_DATA) o->checked |= 1u << d;
    if (at.bound == BOUND_LAUNCH) check_at_launch(r, d, &at);
    if (at.bound == BOUND_NEVER) never_inside(r, d, &at);
    return at.bound != BOUND_NEVER;
}

/* The domains of what is read, at the place where it is read. */
static void domains_read(Build *b, const Tensor *t, Val *v) {
    v->masked = true; /* what a statement names is masked */
    for (int i = 0; i < t->zero.n; i++) {
        const Operand *c = &t->zero.v[i];
        int rank = b->g->nodes.v[c->node]->rank, outer = b->g->nodes.v[v->op.node]->rank;
        Operand o = {c->node, ARENA_ARRAY(b->arena, const Ix *, rank), c->checked};
        for (int d = 0; d < rank; d++) {
            o.map[d] = ix_at(b->p, c->map[d], v->op.map, outer);
            for (int k = 0; k < outer; k++)
                if (v->op.checked >> k & 1 && ix_uses_axis(c->map[d], k)) o.checked |= 1u << d;
        }
        conds_add(b, &v->zero, o);
    }
}

const Val *build_read(Build *b, const Env *env, const Expr *x) {
    intptr_t *slot = map_gets(&b->tensors, x->name.s);
    const Tensor *t = slot ? (const Tensor *)*slot : NULL;
    if (!t || t->node < 0) return val_bad(b, x->span);
    Reading r = {.b = b, .env = env, .x = x, .of = b->g->nodes.v[t->node]};
    r.extents = bound_extents(b, env);
    IxVec facts = {0};
    for (const Guard *k = env->guards; k; k = k->next) vec_push(b->arena, &facts, k->fact);
    r.guards = facts.v;
    r.nguards = facts.n;
    Operand o;
    graph_map(b->g, &o, t->node);
    bool ok = true;
    for (int d = 0; d < x->args.n; d++) {
        r.extents = bound_extents(b, env); /* an index may have bound more variables */
        ok &= read_position(&r, d, &o);
    }
    if (!ok) return val_bad(b, x->span);
    const Val *v = val_node(b, o, x->span);
    if (!t->zero.n) return v;
    Val *w = ARENA_NEW(b->arena, Val);
    *w = *v;
    domains_read(b, t, w);
    return w;
}
