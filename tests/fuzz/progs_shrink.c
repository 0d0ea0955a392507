/* progs_shrink.c - makes a program that fails smaller, as long as it fails in the same way: without
 * a statement, with an operand in place of an operation, a number in place of a tree, without a
 * condition, with one size set, smaller sizes, plainer types and dense inputs. */
#include "tests/fuzz/progs.h"

#include <string.h>
#include <time.h>

typedef struct Shrink {
    Program *p;
    Result *r;
    time_t end;
    int tries;
} Shrink;

/* Up to the first digit or quote, behind which names stand. */
static bool same_message(const char *a, const char *b) {
    a = strstr(a, "error: "), b = strstr(b, "error: ");
    size_t n = a ? strcspn(a, "0123456789'") : 0;
    return a && b && !strncmp(a, b, n);
}

static bool keeps(Shrink *s, const Program *smaller) {
    Result r;
    Which at = s->r->at;
    if (time(NULL) >= s->end) return false;
    s->tries++;
    program_try(smaller, at, &r);
    if (r.outcome != s->r->outcome) return false;
    if (r.outcome == REFUSED && !same_message(r.text, s->r->text)) return false;
    *s->p = *smaller;
    *s->r = r;
    s->r->at = at;
    return true;
}

static bool drop_statements(Shrink *s) {
    bool any = false;
    for (int k = 0; k < s->p->n_statements; k++) {
        Program q = *s->p;
        if (q.statement[k].dropped || !q.statement[k].out) continue;
        q.statement[k].dropped = true;
        Needed n = program_needs(&q);
        bool left = false;
        for (int j = 0; j < q.n_statements; j++) left |= n.statement[j] && q.statement[j].out;
        if (left) any |= keeps(s, &q);
    }
    return any;
}

static void number(PNode *x) {
    *x = (PNode){
        .kind = P_NUMBER, .value = x->value, .number = x->value == INT ? 1 : 0.5, .where = -1};
}

static bool simpler_nodes(Shrink *s) {
    bool any = false;
    for (int k = s->p->n_nodes - 1; k >= 0; k--) {
        for (int kid = 0; kid < s->p->node[k].n_kids; kid++) {
            Program q = *s->p;
            PNode *x = &q.node[k];
            if (q.node[x->kid[kid]].value != x->value) continue;
            *x = q.node[x->kid[kid]];
            any |= keeps(s, &q);
        }
        Program q = *s->p;
        PNode *x = &q.node[k];
        if (x->where >= 0) {
            x->where = -1;
            any |= keeps(s, &q);
            q = *s->p;
        }
        if (x->kind == P_NUMBER || x->value == COND) continue;
        number(x);
        any |= keeps(s, &q);
    }
    return any;
}

static bool simpler_reads(Shrink *s) {
    bool any = false;
    for (int k = 0; k < s->p->n_nodes; k++)
        for (int d = 0; d < s->p->node[k].rank; d++) {
            Program q = *s->p;
            PNode *x = &q.node[k];
            if (x->kind != P_READ || x->sub[d].kind == S_BARE) continue;
            x->sub[d].kind = S_BARE;
            if (!x->stored)
                q.input[x->tensor].dim[d] = (Dim){D_SIZE, q.index_size[x->sub[d].i], 0, 0};
            any |= keeps(s, &q);
        }
    return any;
}

static bool simpler_types(Shrink *s) {
    bool any = false;
    for (int k = 0; k < s->p->n_inputs; k++) {
        Program q = *s->p;
        if (q.input[k].type == T_F32 || q.input[k].type > T_E5M2) continue;
        q.input[k].type = T_F32;
        any |= keeps(s, &q);
    }
    for (int k = 0; k < s->p->n_statements; k++) {
        Program q = *s->p;
        if (q.statement[k].type == T_NONE || q.statement[k].out) continue;
        q.statement[k].type = T_NONE;
        any |= keeps(s, &q);
    }
    for (int k = 0; k < s->p->n_sizes; k++) {
        Program q = *s->p;
        if (!q.bound[k]) continue;
        q.bound[k] = false;
        any |= keeps(s, &q);
    }
    Program q = *s->p;
    q.layout = 0;
    if (s->p->layout) any |= keeps(s, &q);
    return any;
}

static bool smaller_sizes(Shrink *s) {
    bool any = false;
    int set = s->r->at.set < 0 ? 0 : s->r->at.set;
    for (int k = 0; k < s->p->n_sizes; k++) {
        const int64_t now = s->p->size[set][k], less[] = {1, now / 2, now - now / 4, now - 1};
        for (int t = 0; t < 4; t++) {
            Program q = *s->p;
            if (less[t] < 1 || less[t] >= q.size[set][k]) continue;
            for (int other = 0; other < q.n_sets; other++)
                if (other == set || q.bound[k]) q.size[other][k] = less[t];
            if (keeps(s, &q)) {
                any = true;
                break;
            }
        }
    }
    return any;
}

void program_shrink(Program *p, Result *r, int seconds) {
    Shrink s = {.p = p, .r = r, .end = time(NULL) + seconds};
    bool any = true;
    while (any && time(NULL) < s.end) {
        any = drop_statements(&s);
        any |= simpler_nodes(&s);
        any |= simpler_reads(&s);
        any |= simpler_types(&s);
        any |= smaller_sizes(&s);
    }
}
