/* progs_text.c - a program as the text of a .fk, and the tables of forms that texts are made of. */
#include "tests/fuzz/progs.h"

#include <stdlib.h>

/* Nothing here loses more digits than the accuracy table allows: functions are given arguments
 * where they are not steep, quotients and roots are kept away from 0. */
const Form forms[] = {
    {"(%a + %b)", "RR", REAL, false, G_F32},
    {"(%a - 0.75 * %b)", "RR", REAL, false, G_F32},
    {"(%a * %b)", "RR", REAL, false, G_F32},
    {"(0.5 * %a)", "R", REAL, false, G_F32},
    {"(%a + 0.25)", "R", REAL, false, G_F32},
    {"(-%a)", "R", REAL, false, G_F32},
    {"abs(%a)", "R", REAL, false, G_F32},
    {"relu(%a)", "R", REAL, false, G_F32},
    {"max(%a, %b)", "RR", REAL, false, G_F32},
    {"min(%a, %b)", "RR", REAL, false, G_F32},
    {"tanh(%a)", "R", REAL, false, G_F32},
    {"sigmoid(%a)", "R", REAL, false, G_F32},
    {"select(%a, %b, %c)", "CRR", REAL, false, G_F32},
    {"f32(%a)", "I", REAL, false, G_F32},
    {"exp(min(%a, 2.0))", "R", REAL, true, G_F32},
    {"exp2(min(%a, 2.0))", "R", REAL, true, G_F32},
    {"sqrt(abs(%a) + 0.5)", "R", REAL, true, G_F32},
    {"rsqrt(abs(%a) + 0.5)", "R", REAL, true, G_F32},
    {"log(abs(%a) + 1.5)", "R", REAL, true, G_F32},
    {"log2(abs(%a) + 1.5)", "R", REAL, true, G_F32},
    {"gelu(%a)", "R", REAL, true, G_F32},
    {"gelu_tanh(%a)", "R", REAL, true, G_F32},
    {"silu(%a)", "R", REAL, true, G_F32},
    {"erf(%a)", "R", REAL, true, G_F32},
    {"erfc(min(%a, 1.0))", "R", REAL, true, G_F32},
    {"(sin(%a) + 1.5)", "R", REAL, true, G_F32},
    {"(cos(%a) + 1.5)", "R", REAL, true, G_F32},
    {"(%a)^2", "R", REAL, true, G_F32},
    {"(%a)^3", "R", REAL, true, G_F32},
    {"(abs(%a) + 0.5)^1.5", "R", REAL, true, G_F32},
    {"(abs(%a) + 0.5)^-2", "R", REAL, true, G_F32},
    {"pow(abs(%a) + 0.5, %b)", "RR", REAL, true, G_F32},
    {"(%a / (abs(%b) + 0.5))", "RR", REAL, true, G_F32},
    {"sign(%a)", "R", REAL, true, G_F32},
    {"floor(3.0 * %a)", "R", REAL, true, G_F32},
    {"ceil(3.0 * %a)", "R", REAL, true, G_F32},
    {"round(3.0 * %a)", "R", REAL, true, G_F32},
    {"f16(%a)", "R", REAL, false, G_F16},
    {"bf16(%a)", "R", REAL, false, G_BF16},
    {"dropout(%a, 0.75, rand(7, %i))", "RI", REAL, false, G_F32},

    {"(%a + %b)", "II", INT, false, G_F32},
    {"(%a - %b)", "II", INT, false, G_F32},
    {"(%a * %b)", "II", INT, false, G_F32},
    {"max(%a, %b)", "II", INT, false, G_F32},
    {"min(%a, %b)", "II", INT, false, G_F32},
    {"abs(%a)", "I", INT, false, G_F32},
    {"(-%a)", "I", INT, false, G_F32},
    {"(%a / 3)", "I", INT, false, G_F32},
    {"(%a % 5)", "I", INT, false, G_F32},
    {"i8(%a)", "I", INT, false, G_F32},
    {"u4(%a)", "I", INT, false, G_F32},
    {"select(%a, %b, %c)", "CII", INT, false, G_F32},
    {"i32(%a)", "C", INT, false, G_F32},
    {"i32(4.0 * %a)", "R", INT, true, G_F32},

    {"(%a < %b)", "II", COND, false, G_F32},
    {"(%a <= %b)", "II", COND, false, G_F32},
    {"(%a != %b)", "II", COND, false, G_F32},
    {"(%a == %b)", "II", COND, false, G_F32},
    {"(%a > 0.125)", "R", COND, true, G_F32},
    {"(%a < %b)", "RR", COND, true, G_F32},
    {"(%a and %b)", "CC", COND, false, G_F32},
    {"(%a or %b)", "CC", COND, false, G_F32},
    {"(not %a)", "C", COND, false, G_F32},
};
const int n_forms = sizeof forms / sizeof *forms;

const Form axis_forms[] = {
    {"softmax[%x](%a)", "R", REAL, true, G_F32},
    {"(layernorm[%x](%a, 0.25) + 0.5)", "R", REAL, true, G_F32},
    {"rmsnorm[%x](%a, 0.25)", "R", REAL, true, G_F32},
};
const int n_axis_forms = sizeof axis_forms / sizeof *axis_forms;

/* By RED_*. */
const Form reductions[] = {
    {"sum[%x] %a", "R", REAL, false, G_F32},
    {"mean[%x] %a", "R", REAL, false, G_F32},
    {"max[%x] %a", "R", REAL, false, G_F32},
    {"min[%x] %a", "R", REAL, false, G_F32},
    {"prod[%x] (1.0 + 0.1 * tanh(%a))", "R", REAL, false, G_F32},
    {"logsumexp[%x](%a)", "R", REAL, true, G_F32},
};
const int n_reductions = sizeof reductions / sizeof *reductions;

const char *const type_names[] = {"f32", "f16", "bf16", "e4m3", "e5m2", "i64", "i32",
                                  "i8",  "u8",  "i4",   "u4",   "bool", ""};

/* ---- what is needed ---- */

static void need_node(const Program *p, Needed *n, int node);

static void need_dims(const Input *x, Needed *n) {
    for (int d = 0; d < x->rank; d++) {
        if (x->dim[d].kind != D_CONST) n->size[x->dim[d].a] = true;
        if (x->dim[d].kind == D_SUM) n->size[x->dim[d].b] = true;
    }
}

static void need_statement(const Program *p, Needed *n, int s) {
    const Statement *t = &p->statement[s];
    if (n->statement[s]) return;
    n->statement[s] = true;
    for (int d = 0; d < t->rank; d++) n->size[p->index_size[t->index[d]]] = true;
    need_node(p, n, t->root);
}

static void need_node(const Program *p, Needed *n, int node) {
    const PNode *x = &p->node[node];
    for (int k = 0; k < x->n_kids; k++) need_node(p, n, x->kid[k]);
    if (x->kind == P_SIZE) n->size[x->index] = true;
    if (x->kind == P_REDUCTION) {
        for (int k = 0; k < x->n_indices; k++) n->size[p->index_size[x->indices[k]]] = true;
    }
    if (x->where >= 0) need_node(p, n, x->where);
    if (x->kind != P_READ) return;
    if (x->stored)
        need_statement(p, n, x->tensor);
    else
        n->input[x->tensor] = true;
    for (int d = 0; d < x->rank; d++)
        if (x->sub[d].kind == S_GATHER) n->input[x->sub[d].table] = true;
}

Needed program_needs(const Program *p) {
    Needed n = {0};
    for (int s = 0; s < p->n_statements; s++)
        if (p->statement[s].out && !p->statement[s].dropped) need_statement(p, &n, s);
    for (int k = 0; k < p->n_inputs; k++)
        if (n.input[k]) need_dims(&p->input[k], &n);
    return n;
}

bool node_uses(const Program *p, int node, int index) {
    const PNode *x = &p->node[node];
    if ((x->kind == P_IX || x->kind == P_AXIS) && x->index == index) return true;
    for (int k = 0; k < x->n_kids; k++)
        if (node_uses(p, x->kid[k], index)) return true;
    for (int d = 0; x->kind == P_READ && d < x->rank; d++)
        if (x->sub[d].i == index || (x->sub[d].kind == S_PAIR && x->sub[d].j == index)) return true;
    return false;
}

/* ---- text ---- */

static void put_dim(const Dim *d, FILE *to) {
    switch (d->kind) {
    case D_SIZE: fprintf(to, "N%d", d->a); break;
    case D_PLUS: fprintf(to, "N%d + %d", d->a, d->c); break;
    case D_TIMES: fprintf(to, "%d*N%d", d->c, d->a); break;
    case D_CEIL: fprintf(to, "(N%d + %d)/%d", d->a, d->c - 1, d->c); break;
    case D_CONST: fprintf(to, "%d", d->c); break;
    case D_SUM: fprintf(to, "N%d + N%d", d->a, d->b); break;
    }
}

static void put_sub(const Program *p, const Sub *s, FILE *to) {
    switch (s->kind) {
    case S_BARE: fprintf(to, "j%d", s->i); break;
    case S_PLUS: fprintf(to, "j%d + %d", s->i, s->c); break;
    case S_TIMES: fprintf(to, "%d*j%d", s->c, s->i); break;
    case S_OVER: fprintf(to, "j%d/%d", s->i, s->c); break;
    case S_MOD: fprintf(to, "j%d %% %d", s->i, s->c); break;
    case S_PAIR: fprintf(to, "j%d + j%d", s->i, s->j); break;
    case S_BACK: fprintf(to, "N%d - 1 - j%d", p->index_size[s->i], s->i); break;
    case S_GATHER: fprintf(to, "x%d[j%d]", s->table, s->i); break;
    case S_GUARDED: fprintf(to, "j%d - %d", s->i, s->c); break;
    }
}

static void put_node(const Program *p, int node, FILE *to);

static void put_read(const Program *p, const PNode *x, FILE *to) {
    const Sub *guard = NULL;
    for (int d = 0; d < x->rank && !guard; d++)
        if (x->sub[d].kind == S_GUARDED) guard = &x->sub[d];
    if (guard) fprintf(to, "select(j%d >= %d, ", guard->i, guard->c);
    fprintf(to, "%c%d", x->stored ? 's' : 'x', x->tensor);
    for (int d = 0; d < x->rank; d++) {
        fputs(d ? ", " : "[", to);
        put_sub(p, &x->sub[d], to);
    }
    if (x->rank) fputs("]", to);
    if (guard && x->value == COND)
        fprintf(to, ", j%d < 0)", guard->i);
    else if (guard)
        fputs(x->value == INT ? ", 0)" : ", 0.0)", to);
}

static void put_axes(const Program *p, const PNode *x, FILE *to) {
    if (x->kind != P_REDUCTION) fprintf(to, "j%d", x->index);
    for (int k = 0; k < x->n_indices; k++) {
        fprintf(to, "%sj%d", k ? ", " : "", x->indices[k]);
        if (x->op != RED_LOGSUMEXP) fprintf(to, " in N%d", p->index_size[x->indices[k]]);
    }
    if (x->where < 0) return;
    fputs(" where ", to);
    put_node(p, x->where, to);
}

static void put_form(const Program *p, const PNode *x, const char *text, FILE *to) {
    for (const char *s = text; *s; s++) {
        if (*s != '%' || s[1] == ' ') {
            fputc(*s, to);
            continue;
        }
        s++;
        if (*s == 'x')
            put_axes(p, x, to);
        else if (*s == 'i')
            put_node(p, x->kid[1], to);
        else
            put_node(p, x->kid[*s - 'a'], to);
    }
}

static void put_node(const Program *p, int node, FILE *to) {
    const PNode *x = &p->node[node];
    switch (x->kind) {
    case P_NUMBER: fprintf(to, x->value == INT ? "(%.0f)" : "(%.4f)", x->number); break;
    case P_IX: fprintf(to, "j%d", x->index); break;
    case P_SIZE: fprintf(to, "N%d", x->index); break;
    case P_READ: put_read(p, x, to); break;
    case P_CALL: put_form(p, x, forms[x->op].text, to); break;
    case P_AXIS: put_form(p, x, axis_forms[x->op].text, to); break;
    case P_REDUCTION:
        fputc('(', to);
        put_form(p, x, reductions[x->op].text, to);
        fputc(')', to);
        break;
    }
}

static void put_inputs(const Program *p, const Needed *n, FILE *to) {
    bool bare[MAX_SIZES] = {false};
    const char *before = "";
    for (int s = 0; s < p->n_statements; s++)
        for (int d = 0; p->statement[s].out && n->statement[s] && d < p->statement[s].rank; d++)
            bare[p->index_size[p->statement[s].index[d]]] = true;
    for (int k = 0; k < p->n_inputs; k++) {
        const Input *x = &p->input[k];
        if (!n->input[k]) continue;
        fprintf(to, "%sx%d: %s", before, k, type_names[x->type]);
        before = ", ";
        for (int d = 0; d < x->rank; d++) {
            fputs(d ? ", " : "[", to);
            put_dim(&x->dim[d], to);
            if (x->dim[d].kind == D_SIZE) bare[x->dim[d].a] = true;
        }
        if (x->rank) fputs("]", to);
    }
    for (int k = 0; k < p->n_sizes; k++) { /* a size must be found by itself */
        if (!n->size[k] || bare[k] || p->bound[k]) continue;
        fprintf(to, "%sof%d: u8[N%d]", before, k, k);
        before = ", ";
    }
}

static void put_outputs(const Program *p, const Needed *n, FILE *to) {
    const char *before = "";
    for (int s = 0; s < p->n_statements; s++) {
        const Statement *t = &p->statement[s];
        if (!t->out || !n->statement[s]) continue;
        fprintf(to, "%ss%d: %s", before, s, type_names[t->type]);
        before = ", ";
        for (int d = 0; d < t->rank; d++)
            fprintf(to, "%sN%d", d ? ", " : "[", p->index_size[t->index[d]]);
        if (t->rank) fputs("]", to);
    }
}

void program_print(const Program *p, FILE *to) {
    Needed n = program_needs(p);
    for (int k = 0; k < p->n_sizes; k++)
        if (n.size[k] && p->bound[k])
            fprintf(to, "const N%d = %lld\n", k, (long long)p->size[0][k]);
    fputs("fn f(", to);
    put_inputs(p, &n, to);
    fputs(") -> (", to);
    put_outputs(p, &n, to);
    fputs(")\n{\n", to);
    for (int s = 0; s < p->n_statements; s++) {
        const Statement *t = &p->statement[s];
        if (!n.statement[s]) continue;
        fprintf(to, "    s%d", s);
        for (int d = 0; d < t->rank; d++) {
            fprintf(to, "%sj%d", d ? ", " : "[", t->index[d]);
            if (!t->out) fprintf(to, " in N%d", p->index_size[t->index[d]]);
        }
        if (t->rank) fputs("]", to);
        if (!t->out && t->type != T_NONE) fprintf(to, ": %s", type_names[t->type]);
        fputs(" = ", to);
        put_node(p, t->root, to);
        fputs("\n", to);
    }
    fputs("}\n", to);
}

char *program_text(const Program *p) {
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    if (!f) abort();
    program_print(p, f);
    fclose(f);
    return text;
}
