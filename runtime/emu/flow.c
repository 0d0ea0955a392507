// The order of a function's blocks.
//
// Lanes of a warp that went different ways are brought together by running those with the lowest
// pc first (warp.c). For that a join must stand behind all ways that lead to it, and what follows a
// loop behind the loop: the weak topological order of Bourdoncle, in which a loop's blocks stand
// together behind its head. The text's own order does not do, as LLVM places blocks for speed.
#include "runtime/emu/flow_int.h"

static uint32_t flow_of(const Ins *i) {
    return i->form->kind == KIND_FLOW ? i->form->arg : FLOW_NOT;
}

// ---- blocks ----

static const Form *form_named(const Parser *p, const char *name) {
    return &p->forms[emu_name_get(&p->form_names, name, strlen(name), 0)];
}

static void find_blocks(Flow *w) {
    Parser *p = w->p;
    Ins last = {.form = w->ret, .run = w->ret->run, .pred = PRED_TRUE, .line = p->lex.token.line};
    EMU_PUSH(w->arena, &p->code, last); // for code that would run off the end
    uint32_t n = p->code.n;
    bool *leads = EMU_NEW(w->arena, bool, n + 1);
    leads[0] = true;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t flow = flow_of(&p->code.v[i]);
        if (flow) leads[i + 1] = true;
        if (flow == FLOW_BRANCH) leads[p->code.v[i].target] = true;
    }
    w->of = EMU_NEW(w->arena, uint32_t, n);
    w->block = EMU_NEW(w->arena, Block, n);
    for (uint32_t i = 0; i < n; i++) {
        if (leads[i]) w->block[w->n++].first = i;
        w->block[w->n - 1].end = i + 1;
        w->of[i] = w->n - 1;
    }
}

static void link_blocks(Flow *w) {
    for (uint32_t b = 0; b < w->n; b++) {
        Block *k = &w->block[b];
        const Ins *i = &w->p->code.v[k->end - 1];
        uint32_t flow = flow_of(i);
        if (!flow || i->pred != PRED_TRUE)
            if (b + 1 < w->n) k->next[k->n_next++] = b + 1;
        if (flow == FLOW_BRANCH) k->next[k->n_next++] = w->of[i->target];
    }
}

// ---- the order ----

static uint32_t visit(Flow *w, uint32_t v);

static void component(Flow *w, uint32_t v) {
    for (uint32_t k = 0; k < w->block[v].n_next; k++)
        if (!w->block[w->block[v].next[k]].number) visit(w, w->block[v].next[k]);
    w->order[--w->n_order] = v;
}

static uint32_t visit(Flow *w, uint32_t v) {
    Block *b = &w->block[v];
    bool loop = false;
    w->stack[w->depth++] = v;
    uint32_t head = b->number = ++w->count;
    for (uint32_t k = 0; k < b->n_next; k++) {
        uint32_t to = b->next[k];
        uint32_t least = w->block[to].number ? w->block[to].number : visit(w, to);
        if (least <= head) head = least, loop = true;
    }
    if (head != b->number) return head;
    b->number = UINT32_MAX;
    uint32_t e = w->stack[--w->depth];
    if (!loop) return w->order[--w->n_order] = v, head;
    for (; e != v; e = w->stack[--w->depth]) w->block[e].number = 0;
    component(w, v);
    return head;
}

static void order_blocks(Flow *w) {
    w->order = EMU_NEW(w->arena, uint32_t, w->n);
    w->stack = EMU_NEW(w->arena, uint32_t, w->n);
    w->n_order = w->n;
    visit(w, 0);
    w->order += w->n_order;
    w->n_order = w->n - w->n_order;
}

// The code in that order; a block that another one follows than before ends with a jump.
static void emit(Flow *w) {
    for (uint32_t k = 0; k < w->n_order; k++) {
        Block *b = &w->block[w->order[k]];
        b->at = w->code.n;
        for (uint32_t i = b->first; i < b->end; i++) EMU_PUSH(w->arena, &w->code, w->p->code.v[i]);
        const Ins *last = &w->code.v[w->code.n - 1];
        uint32_t flow = flow_of(last), follows = w->order[k] + 1;
        bool falls = !flow || last->pred != PRED_TRUE;
        if (falls && (k + 1 == w->n_order || w->order[k + 1] != follows)) {
            Ins jump = {
                .form = w->jump, .run = w->jump->run, .pred = PRED_TRUE, .line = last->line};
            jump.target = w->block[follows].first;
            EMU_PUSH(w->arena, &w->code, jump);
        }
        b->at_end = w->code.n;
    }
    for (uint32_t i = 0; i < w->code.n; i++)
        if (flow_of(&w->code.v[i]) == FLOW_BRANCH)
            w->code.v[i].target = w->block[w->of[w->code.v[i].target]].at;
}

// ---- all of it ----

void emu_flow(Parser *p) {
    Func *f = p->f;
    Flow w = {.p = p, .arena = p->arena, .jump = form_named(p, "bra"), .ret = form_named(p, "ret")};
    find_blocks(&w);
    link_blocks(&w);
    order_blocks(&w);
    emit(&w);
    emu_place(&w);
    f->code = w.code.v, f->n = w.code.n;
    f->lists = EMU_NEW(p->arena, Opd, p->lists.n + 1);
    if (p->lists.n) memcpy((void *)f->lists, p->lists.v, sizeof(Opd) * p->lists.n);
    f->consts = EMU_NEW(p->arena, uint8_t, p->bank.n + 1);
    if (p->bank.n) memcpy(f->consts, p->bank.v, p->bank.n);
    f->const_bytes = p->bank.n;
    f->n_addresses = p->addresses.n;
    BankAddress *a = EMU_NEW(p->arena, BankAddress, p->addresses.n + 1);
    for (uint32_t k = 0; k < p->addresses.n; k++) a[k] = p->addresses.v[k];
    f->addresses = a;
}
