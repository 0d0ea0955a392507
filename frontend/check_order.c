/* check_order.c - rule 8: statements stand in any order, and none may need itself. Orders them by
 * what they read; the walk keeps its own stack, since a chain may be as long as the file. */
#include "frontend/sem_int.h"

#include <string.h>

typedef struct Frame {
    Sym *sym;
    VEC(Sym *) reads;
    int next;
} Frame;

typedef struct Order {
    Unit *u;
    FnInfo *f;
    VEC(Frame) stack;
    bool ok;
} Order;

static void find_reads(Order *o, Frame *to, const Expr *x) {
    if (x->kind == E_NAME || x->kind == E_READ) {
        Sym *s = fn_sym(o->f, x->name.s);
        if (s && s->stmt) vec_push(o->u->arena, &to->reads, s);
    }
    if (x->where) find_reads(o, to, x->where);
    for (int i = 0; i < x->args.n; i++) find_reads(o, to, x->args.v[i]);
}

static void push(Order *o, Sym *s) {
    Frame f = {.sym = s};
    s->state = 1;
    find_reads(o, &f, s->stmt->value);
    vec_push(o->u->arena, &o->stack, f);
}

static void report(Order *o, const Sym *s) {
    Diags *d = o->u->diags;
    o->ok = false;
    diag_error(d, s->name.span, "recurrence",
               "'%s' is defined by itself: there are no recurrences; a prefix sum is "
               "sum[u where u <= t] x[u]",
               s->name.s);
    int i = o->stack.n;
    while (o->stack.v[i - 1].sym != s) i--;
    for (int shown = 0; i < o->stack.n; i++, shown++) {
        if (shown == 4) {
            diag_note(d, s->name.span, "and so on, back to '%s'", s->name.s);
            return;
        }
        diag_note(d, o->stack.v[i].sym->name.span, "it needs '%s'", o->stack.v[i].sym->name.s);
    }
}

static void visit(Order *o, Sym *root) {
    if (root->state) return;
    push(o, root);
    while (o->stack.n) {
        Frame *f = &o->stack.v[o->stack.n - 1];
        if (f->next == f->reads.n) {
            f->sym->state = 2;
            vec_push(o->u->arena, &o->f->order, f->sym);
            o->stack.n--;
            continue;
        }
        Sym *s = f->reads.v[f->next++];
        if (s->state == 1) report(o, s);
        if (!s->state) push(o, s);
    }
}

bool order_fn(Unit *u, FnInfo *f) {
    Order o = {.u = u, .f = f, .ok = true};
    for (int i = 0; i < f->syms.n; i++)
        if (f->syms.v[i]->stmt) visit(&o, f->syms.v[i]);
    return o.ok;
}
