/* unit.c - the names of all files, and the values of consts. */
#include "frontend/sem_int.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

bool is_upper(const char *name) {
    return name[0] >= 'A' && name[0] <= 'Z';
}

/* ---- primitives ---------------------------------------------------------------------------------
 */

/* Every op is a function of the language, but for those that are operators or the compiler's own.
 */
Op prim_named(const char *name) {
    static const Op not_functions[] = {OP_add, OP_sub, OP_mul,  OP_div,  OP_idiv,  OP_imod, OP_neg,
                                       OP_eq,  OP_ne,  OP_lt,   OP_le,   OP_gt,    OP_ge,   OP_and,
                                       OP_or,  OP_not, OP_copy, OP_cast, OP_within};
    Op op = op_named(name, strlen(name));
    for (size_t i = 0; i < sizeof not_functions / sizeof *not_functions; i++)
        if (op == not_functions[i]) return OP_COUNT;
    return op;
}

int prim_least(Op op) {
    return op == OP_rand ? 2 : op_arity(op);
}

/* ---- names --------------------------------------------------------------------------------------
 */

Decl *unit_find(const Unit *u, const char *name) {
    intptr_t *d = map_gets(&u->names, name);
    return d ? (Decl *)*d : NULL;
}

/* A text of the prelude means the prelude's defs, whatever the file hides. */
Decl *unit_def(const Unit *u, const Decl *from, const char *name) {
    Decl *d = from->prelude ? NULL : unit_find(u, name);
    if (d && d->kind == DECL_DEF) return d;
    intptr_t *p = map_gets(&u->prelude, name);
    return p ? (Decl *)*p : NULL;
}

BindArg *unit_bind(Unit *u, const char *name) {
    for (int i = 0; i < u->binds.n; i++)
        if (!strcmp(u->binds.v[i].name, name)) return &u->binds.v[i];
    return NULL;
}

static const char *kind_name(DeclKind k) {
    static const char *const name[] = {"a const", "a use", "a def", "a fn", "a grad"};
    return name[k];
}

static void add_decl(Unit *u, Decl *d) {
    const char *name = d->name.s;
    if (d->kind == DECL_CONST && !is_upper(name))
        diag_error(u->diags, d->name.span, "name-case",
                   "'%s' is a const, so its first letter must be upper case", name);
    if (d->kind == DECL_DEF && prim_named(name) != OP_COUNT) {
        diag_error(u->diags, d->name.span, "primitive", "'%s' is a primitive and cannot be hidden",
                   name);
        return;
    }
    intptr_t *slot = map_puts(&u->names, name);
    if (*slot) {
        const Decl *first = (const Decl *)*slot;
        diag_error(u->diags, d->name.span, "defined-twice", "'%s' is defined twice", name);
        diag_note(u->diags, first->name.span, "it is %s here", kind_name(first->kind));
        return;
    }
    *slot = (intptr_t)d;
}

/* ---- numbers ------------------------------------------------------------------------------------
 */

static double as_real(const Number *n) {
    return n->real ? n->r : (double)n->i;
}

static const char too_large[] =
    "this integer does not fit 64 bits; for a real number write a factor with '.0'";

static bool fail(Unit *u, bool quiet, Span sp, const char *text) {
    if (!quiet) diag_error(u->diags, sp, "const-value", "%s", text);
    return false;
}

static bool power(Number *out, const Number *a, const Number *b) {
    if (a->real || b->real || b->i < 0) {
        *out = (Number){.real = true, .r = pow(as_real(a), as_real(b))};
        return true;
    }
    int64_t r = 1, base = a->i;
    for (int64_t e = b->i; e; e >>= 1) {
        if (e & 1 && __builtin_mul_overflow(r, base, &r)) return false;
        if (e > 1 && __builtin_mul_overflow(base, base, &base)) return false;
    }
    *out = (Number){.i = r};
    return true;
}

static bool int_arith(AstOp op, int64_t a, int64_t b, int64_t *r) {
    switch (op) {
    case AST_ADD: return !__builtin_add_overflow(a, b, r);
    case AST_SUB: return !__builtin_sub_overflow(a, b, r);
    case AST_MUL: return !__builtin_mul_overflow(a, b, r);
    case AST_DIV: *r = floor_div(a, b); return true;
    default: *r = floor_mod(a, b); return true;
    }
}

static bool arith(Unit *u, const Expr *x, const Number *a, const Number *b, Number *out,
                  bool quiet) {
    if (x->op == AST_POW) return power(out, a, b) || fail(u, quiet, x->span, too_large);
    if (x->op < AST_ADD || x->op > AST_MOD)
        return fail(u, quiet, x->span, "a const is a number: conditions have no place in it");
    bool quotient = a->quotient || b->quotient;
    if (!a->real && !b->real) {
        if ((x->op == AST_DIV || x->op == AST_MOD) && b->i <= 0)
            return fail(u, quiet, x->span, "the divisor of an integer must be positive");
        *out = (Number){.quotient = quotient || x->op == AST_DIV};
        return int_arith(x->op, a->i, b->i, &out->i) || fail(u, quiet, x->span, too_large);
    }
    if (quotient) {
        if (quiet) return false;
        diag_error(u->diags, x->span, "quotient",
                   "an integer quotient (rounded down) is used as a real; write 1.0/3 for a real "
                   "quotient");
        return false;
    }
    double p = as_real(a), q = as_real(b);
    if (x->op == AST_MOD) return fail(u, quiet, x->span, "'%' is a remainder of integers");
    *out = (Number){.real = true,
                    .r = x->op == AST_ADD   ? p + q
                         : x->op == AST_SUB ? p - q
                         : x->op == AST_MUL ? p * q
                                            : p / q};
    return true;
}

static bool const_value(Unit *u, Decl *d, int depth);

void deep_error(Diags *d, Span sp) {
    diag_error(d, sp, "nesting", "nested deeper than %d, counting through the names used", DEEP);
}

static bool number(Unit *u, const Expr *x, Number *out, bool quiet, int depth) {
    Number a, b;
    if (depth > DEEP) {
        deep_error(u->diags, x->span);
        return false;
    }
    switch (x->kind) {
    case E_INT: *out = (Number){.i = x->i}; return true;
    case E_REAL: *out = (Number){.real = true, .r = x->r}; return true;
    case E_INF: *out = (Number){.real = true, .r = (double)INFINITY}; return true;
    case E_NAME: {
        Decl *d = unit_find(u, x->name.s);
        if (d && d->kind == DECL_CONST) {
            if (!const_value(u, d, depth + 1)) return false;
            *out = d->value_of;
            return true;
        }
        if (quiet) return false;
        Suggest s = {x->name.s, NULL, 0};
        suggest_decls(&s, u, DECL_CONST);
        diag_error(u->diags, x->span, "unknown-name", "there is no const '%s'%s", x->name.s,
                   suggest_text(u->arena, &s));
        return false;
    }
    case E_OP:
        if (!number(u, x->args.v[0], &a, quiet, depth + 1)) return false;
        if (x->args.n == 2)
            return number(u, x->args.v[1], &b, quiet, depth + 1) && arith(u, x, &a, &b, out, quiet);
        if (x->op != AST_NEG) break;
        *out = (Number){a.real, 0, -a.r, a.quotient};
        return !__builtin_sub_overflow(0, a.i, &out->i) || fail(u, quiet, x->span, too_large);
    default: break;
    }
    return fail(u, quiet, x->span,
                "a const is made of numbers, other consts and + - * / % ^ alone");
}

bool unit_number(Unit *u, const Expr *x, Number *out, bool quiet) {
    return number(u, x, out, quiet, 0);
}

static bool const_value(Unit *u, Decl *d, int depth) {
    if (d->state == 2) return d->known;
    if (d->state == 1) {
        diag_error(u->diags, d->name.span, "const-cycle", "the const '%s' is made of itself",
                   d->name.s);
        return false;
    }
    BindArg *bind = unit_bind(u, d->name.s);
    d->state = 1;
    bool ok = true;
    if (bind) {
        bind->used = true;
        d->value_of = bind->value;
    } else {
        ok = number(u, d->value, &d->value_of, false, depth);
    }
    d->state = 2;
    d->known = ok;
    return ok;
}

/* ---- --bind
 * --------------------------------------------------------------------------------------- */

static bool parse_value(const char *text, Number *out) {
    char *end;
    if (text[strspn(text, "0123456789+-.eE")]) return false; /* strtod reads more than numbers */
    errno = 0;
    out->i = strtoll(text, &end, 10);
    if (end != text && !*end) return !errno;
    errno = 0;
    out->real = true;
    out->r = strtod(text, &end);
    return end != text && !*end && isfinite(out->r);
}

static void add_bind(Unit *u, const char *text) {
    const char *eq = strchr(text, '=');
    BindArg b = {.text = text};
    if (!eq || eq == text || !parse_value(eq + 1, &b.value)) {
        diag_error(u->diags, (Span){0}, "bind",
                   "--bind %s: expected NAME=NUMBER; a size takes " SIZE_VALUES
                   ", a const any number that fits 64 bits",
                   text);
        return;
    }
    b.name = arena_strndup(u->arena, text, (size_t)(eq - text));
    const BindArg *first = unit_bind(u, b.name);
    if (first) {
        diag_error(u->diags, (Span){0}, "bind",
                   "--bind %s: '%s' is bound already, by --bind %s; a name takes one value", text,
                   b.name, first->text);
        return;
    }
    vec_push(u->arena, &u->binds, b);
}

/* What can be bound, for a message: the first few names. */
typedef struct Known {
    Unit *u;
    Map seen;
    int n;
    const char *list;
    Suggest near;
} Known;

static void know(Known *k, const char *name) {
    enum { SHOWN = 12 };
    intptr_t *seen = map_puts(&k->seen, name);
    if (*seen) return;
    *seen = 1;
    suggest(&k->near, name);
    if (k->n++ < SHOWN)
        k->list = arena_printf(k->u->arena, "%s%s%s", k->list, *k->list ? ", " : "", name);
    else if (k->n == SHOWN + 1)
        k->list = arena_printf(k->u->arena, "%s, ...", k->list);
}

static void know_sizes(Known *k, const Expr *x) {
    if (x->kind == E_NAME && is_upper(x->name.s)) know(k, x->name.s);
    for (int i = 0; i < x->args.n; i++) know_sizes(k, x->args.v[i]);
}

static void know_names(Known *k) {
    const Ast *ast = k->u->ast;
    for (int i = 0; i < ast->files.n; i++)
        for (int j = 0; j < ast->files.v[i]->decls.n; j++) {
            const Decl *d = ast->files.v[i]->decls.v[j];
            if (d->kind == DECL_CONST) know(k, d->name.s);
            if (d->kind != DECL_FN || ast->files.v[i] != ast->main) continue;
            const AstParams *lists[] = {&d->in, &d->out};
            for (int l = 0; l < 2; l++)
                for (int p = 0; p < lists[l]->n; p++)
                    for (int x = 0; x < lists[l]->v[p].dims.n; x++)
                        know_sizes(k, lists[l]->v[p].dims.v[x]);
        }
}

void unit_unused_binds(Unit *u) {
    for (int i = 0; i < u->binds.n; i++) {
        const BindArg *b = &u->binds.v[i];
        if (b->used) continue;
        Known k = {u, {.arena = u->arena}, 0, "", {b->name, NULL, 0}};
        know_names(&k);
        diag_error(u->diags, (Span){0}, "bind", "--bind %s: there is no const or size '%s'%s%s%s",
                   b->text, b->name, suggest_text(u->arena, &k.near),
                   k.n ? "; what can be bound: " : "; nothing here can be bound", k.list);
    }
}

void unit_init(Unit *u, const FrontendBinds *binds) {
    const Ast *ast = u->ast;
    u->names.arena = u->prelude.arena = u->arena;
    for (int i = 0; binds && i < binds->n; i++) add_bind(u, binds->v[i]);
    for (int i = 0; i < ast->prelude->decls.n; i++) {
        Decl *d = ast->prelude->decls.v[i];
        d->prelude = true;
        *map_puts(&u->prelude, d->name.s) = (intptr_t)d;
    }
    for (int i = 0; i < ast->files.n; i++)
        for (int j = 0; j < ast->files.v[i]->decls.n; j++) {
            Decl *d = ast->files.v[i]->decls.v[j];
            bool compiled = ast->files.v[i] == ast->main;
            if (d->kind == DECL_CONST || d->kind == DECL_DEF || (compiled && d->kind != DECL_USE))
                add_decl(u, d);
        }
    for (int i = 0; i < ast->files.n; i++)
        for (int j = 0; j < ast->files.v[i]->decls.n; j++) {
            Decl *d = ast->files.v[i]->decls.v[j];
            if (d->kind == DECL_CONST) const_value(u, d, 0);
        }
}

/* ---- suggestions
 * ---------------------------------------------------------------------------------- */

/* Edit distance with swaps of neighbours; words are short. */
static int distance(const char *a, const char *b) {
    enum { LONGEST = 40 };
    int n = (int)strlen(a), m = (int)strlen(b), row[3][LONGEST + 1];
    if (n > LONGEST || m > LONGEST) return LONGEST;
    for (int i = 0; i <= n; i++) {
        int *now = row[i % 3], *last = row[(i + 2) % 3], *older = row[(i + 1) % 3];
        for (int j = 0; j <= m; j++) {
            int d = i && j ? last[j - 1] + (a[i - 1] != b[j - 1]) : i + j;
            if (i && last[j] + 1 < d) d = last[j] + 1;
            if (j && now[j - 1] + 1 < d) d = now[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                older[j - 2] + 1 < d)
                d = older[j - 2] + 1;
            now[j] = d;
        }
    }
    return row[n % 3][m];
}

void suggest(Suggest *s, const char *candidate) {
    int d = distance(s->word, candidate), most = (int)strlen(s->word) > 5 ? 2 : 1;
    if (strlen(s->word) < 3 || d > most || !d) return;
    if (s->best && s->distance <= d) return;
    s->best = candidate;
    s->distance = d;
}

static void suggest_in(Suggest *s, const AstFile *f, DeclKind kind) {
    for (int i = 0; i < f->decls.n; i++)
        if (f->decls.v[i]->kind == kind) suggest(s, f->decls.v[i]->name.s);
}

bool suggest_pays(const Unit *u) {
    return u->diags->errors < 50; /* a file full of unknown names would wait long for hints */
}

void suggest_decls(Suggest *s, const Unit *u, DeclKind kind) {
    if (!suggest_pays(u)) return;
    for (int i = 0; i < u->ast->files.n; i++) suggest_in(s, u->ast->files.v[i], kind);
    if (kind == DECL_DEF) suggest_in(s, u->ast->prelude, kind);
}

void suggest_prims(Suggest *s) {
    for (int op = 0; op < OP_COUNT; op++)
        if (prim_named(op_name((Op)op)) != OP_COUNT) suggest(s, op_name((Op)op));
}

const char *suggest_text(Arena *a, const Suggest *s) {
    return s->best ? arena_printf(a, "; did you mean '%s'?", s->best) : "";
}
