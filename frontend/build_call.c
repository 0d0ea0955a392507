/* build_call.c - defs put into the text that uses them (rules 4 and 8).
 *
 * A call makes variables of its own for its axes. Arguments and locals are functions of the axes:
 * each is built once over these variables, and moved to the variable that its reader runs over.
 * The call's condition goes to every reduction over an axis that it names, to nested calls, and
 * makes the value 0 outside if that still depends on an axis.
 */
#include "frontend/build_int.h"

#include <string.h>

const Bind *find_bind(const Bind *list, const char *name) {
    while (list && strcmp(list->name, name)) list = list->next;
    return list;
}

static const Bind *bind_front(Build *b, const Bind *next, const char *name, const int *var, int n) {
    Bind *k = ARENA_NEW(b->arena, Bind);
    *k = (Bind){name, var, n, next};
    return k;
}

/* ---- reading arguments and locals
 * ----------------------------------------------------------------- */

/* From the call's variables to those that its axes stand for in env. */
static const Val *move_to(Build *b, const Env *env, const Val *v) {
    VEC(int) from = {0}, to = {0};
    for (const Bind *k = env->call->canon; k; k = k->next) {
        const Bind *now = find_bind(env->binds, k->name);
        for (int i = 0; i < k->n; i++) {
            if (now->var[i] == k->var[i]) continue;
            vec_push(b->arena, &from, k->var[i]);
            vec_push(b->arena, &to, now->var[i]);
        }
    }
    return from.n ? val_move(b, v, from.v, to.v, from.n) : v;
}

static const Val *argument(Build *b, const Env *env, int i) {
    const Call *c = env->call;
    const Val **memo = &c->args[env->index][i];
    if (!*memo) {
        Env outer = c->outer;
        outer.index = env->index;
        *memo = build_expr(b, &outer, c->at->args.v[i]);
    }
    return *memo;
}

static const Val *local(Build *b, const Env *env, int i) {
    const Call *c = env->call;
    const Val **memo = &c->locals[env->index][i];
    if (!*memo) {
        Env own = {c, c->canon, c->guards, env->index};
        *memo = build_expr(b, &own, c->def->body.v[i].value);
    }
    return *memo;
}

static const Val *axis_value(Build *b, const Env *env, const Expr *x) {
    const Bind *k = find_bind(env->binds, x->name.s);
    FK_ASSERT(k);
    if (k->n == 1) return val_ix(b, ix_axis(b->p, k->var[0]), x->span);
    build_error(b, x->span, "axis-list", "'%s' stands for %d indices here and has no value",
                x->name.s, k->n);
    return val_bad(b, x->span);
}

/* A name in the text of a def; consts are looked up by the caller. */
const Val *call_name(Build *b, const Env *env, const Expr *x) {
    int at;
    if (find_bind(env->binds, x->name.s)) return axis_value(b, env, x);
    switch (def_role(env->call->def, x->name.s, &at)) {
    case IN_DEF_PARAM: return val_with(b, move_to(b, env, argument(b, env, at)), false, x->span);
    case IN_DEF_LOCAL: return val_with(b, move_to(b, env, local(b, env, at)), false, x->span);
    default: FK_BUG("'%s' is nothing in the def '%s'", x->name.s, env->call->def->name.s);
    }
}

/* ---- conditions
 * ----------------------------------------------------------------------------------- */

/* What the call around env hands on to a reduction or a call over these indices. */
const Val *call_cond(Build *b, const Env *env, const Expr *reduce) {
    const Call *c = env->call;
    if (!c || !c->cond) return NULL;
    for (int i = 0; i < reduce->axes.n; i++) {
        const Bind *k = find_bind(c->canon, reduce->axes.v[i].name.s);
        if (k && val_uses(b, c->cond, k->var, k->n)) return move_to(b, env, c->cond);
    }
    return NULL;
}

/* ---- calls
 * ---------------------------------------------------------------------------------------- */

typedef struct Axes {
    VEC(int) outer; /* the caller's variable of each, -1: bound by this call only */
    VEC(int) own;
} Axes;

/* One name in the call's brackets: in a def it may be an axis that stands for several indices. */
static bool add_axis(Build *b, const Env *env, const Expr *x, const AstAxis *a, Axes *to) {
    const Bind *k = find_bind(env->binds, a->name.s);
    int n = k ? k->n : 1;
    for (int i = 0; i < n; i++) {
        const Ix *extent = NULL;
        if (k) {
            extent = b->vars.v[k->var[i]].extent;
        } else if (env->call) {
            build_error(b, a->name.span, "range", "'%s' is no index of this def", a->name.s);
        } else {
            const Expr **texts = ARENA_ARRAY(b->arena, const Expr *, x->args.n + 1);
            int nt = 0;
            if (x->where) texts[nt++] = x->where;
            for (int t = 0; t < x->args.n; t++) texts[nt++] = x->args.v[t];
            extent = range_of(b, a, texts, nt, NULL);
        }
        if (!extent) return false;
        vec_push(b->arena, &to->outer, k ? k->var[i] : -1);
        vec_push(b->arena, &to->own, var_new(b, a->name.s, extent));
    }
    return true;
}

/* Names are bound once the list of variables no longer grows. */
static const Bind *bind_axes(Build *b, const Env *env, const Expr *x, Axes *to) {
    const Bind *binds = env->binds;
    for (int i = 0; i < x->axes.n; i++)
        if (!add_axis(b, env, x, &x->axes.v[i], to)) return NULL;
    int at = 0;
    for (int i = 0; i < x->axes.n; i++) {
        const Bind *k = find_bind(env->binds, x->axes.v[i].name.s);
        int n = k ? k->n : 1;
        binds = bind_front(b, binds, x->axes.v[i].name.s, to->own.v + at, n);
        at += n;
    }
    return binds;
}

/* The def's axes: one takes all indices; several take one name each. */
static const Bind *canon_of(Build *b, const Decl *def, const Expr *x, const Env *env,
                            const Axes *own) {
    const Bind *r = NULL;
    if (def->axes.n == 1) return bind_front(b, NULL, def->axes.v[0].s, own->own.v, own->own.n);
    for (int i = 0, at = 0; i < def->axes.n; i++) {
        const Bind *k = find_bind(env->binds, x->axes.v[i].name.s);
        int n = k ? k->n : 1;
        r = bind_front(b, r, def->axes.v[i].s, own->own.v + at, n);
        at += n;
    }
    return r;
}

/* What holds of the domain, from the text of the call and from the call around it. */
static const Val *domain_of_call(Build *b, const Env *outer, const Expr *x) {
    const Val *own = x->where ? build_expr(b, outer, x->where) : NULL;
    if (own && own->kind != VAL_BAD && own->type != DT_bool) {
        build_error(b, x->where->span, "type", "'where' needs a condition, got %s",
                    dtype_name(own->type));
        return val_bad(b, x->span);
    }
    return op_and(b, call_cond(b, outer, x), own, x->span);
}

/* A value that depends on an axis is 0 outside the domain; but an axis that it was reduced over
 * does not come back in with the condition. */
static bool is_masked(Build *b, const Call *c, const Val *v, const Axes *axes) {
    for (int i = 0; i < axes->own.n; i++)
        if (val_uses(b, c->cond, &axes->own.v[i], 1) && !val_uses(b, v, &axes->own.v[i], 1))
            return false;
    return val_uses(b, v, axes->own.v, axes->own.n);
}

static const Val *result(Build *b, const Call *c, const Expr *x, const Axes *axes) {
    Env env = {c, c->canon, c->guards, c->outer.index && !c->cond};
    const Val *v = build_expr(b, &env, c->def->value);
    if (v->kind == VAL_BAD) return v;
    if (c->cond && is_masked(b, c, v, axes)) {
        const Val *in[] = {c->cond, v};
        v = op_apply(b, OP_within, in, 2, "'where'", x->span);
        if (v->kind == VAL_BAD) return v;
        Val *w = ARENA_NEW(b->arena, Val);
        *w = *v;
        conds_add(b, &w->zero, val_operand(b, c->cond));
        v = w;
    }
    VEC(int) from = {0}, to = {0};
    for (int i = 0; i < axes->own.n; i++) {
        if (axes->outer.v[i] < 0) {
            if (!val_uses(b, v, &axes->own.v[i], 1)) continue;
            build_error(b, x->span, "axis-left",
                        "the value of '%s' depends on '%s', which is bound inside it only",
                        c->def->name.s, b->vars.v[axes->own.v[i]].name);
            return val_bad(b, x->span);
        }
        vec_push(b->arena, &from, axes->own.v[i]);
        vec_push(b->arena, &to, axes->outer.v[i]);
    }
    return val_with(b, val_move(b, v, from.v, to.v, from.n), false, x->span);
}

static void new_memo(Build *b, Call *c) {
    for (int i = 0; i < 2; i++) {
        c->args[i] = ARENA_ARRAY(b->arena, const Val *, c->def->names.n);
        c->locals[i] = ARENA_ARRAY(b->arena, const Val *, c->def->body.n);
    }
}

const Val *build_call(Build *b, const Env *env, const Expr *x, const Decl *def) {
    Axes axes = {0};
    Call *c = ARENA_NEW(b->arena, Call);
    *c = (Call){.def = def, .at = x, .outer = *env, .guards = env->guards};
    new_memo(b, c);
    if (x->kind == E_OVER) {
        c->outer.binds = bind_axes(b, env, x, &axes);
        if (!c->outer.binds) return val_bad(b, x->span);
        c->canon = canon_of(b, def, x, env, &axes);
        Env where = c->outer;
        where.index = false;
        c->cond = domain_of_call(b, &where, x);
        if (c->cond && c->cond->kind == VAL_BAD) return c->cond;
        if (c->cond) c->guards = guards_of(b, env->guards, c->cond, false);
        c->outer.guards = c->guards;
    }
    return result(b, c, x, &axes);
}
