// PTX text to functions: directives, declarations, and statements, whose instructions decode.c
// looks up. A fault ends the parse with a text that names its line.
#include "runtime/emu/parse_int.h"

#include <stdlib.h>

const char *const space_names[SPACES] = {"global", "shared", "param", "const", "local", "generic"};

#define FAIL(p, ...) emu_fail((p)->arena, (p)->lex.token.line, __VA_ARGS__)

bool emu_named(const EmuToken *t, const char *name) {
    return t->n == strlen(name) && !memcmp(t->at, name, t->n);
}

Scope *emu_scope(Parser *p) {
    return &p->scopes.v[p->scopes.n - 1];
}

// ---- operands ----

static uint32_t look_up(const Parser *p, const EmuToken *t, bool symbol) {
    for (uint32_t i = p->scopes.n; i--;) {
        const Scope *s = &p->scopes.v[i];
        uint32_t found =
            emu_name_get(symbol ? &s->symbols : &s->registers, t->at, t->n, UINT32_MAX);
        if (found != UINT32_MAX) return found;
    }
    return UINT32_MAX;
}

static void simple(Parser *p, Raw *r) {
    bool minus = emu_take(&p->lex, "-");
    EmuToken t = p->lex.token;
    *r = (Raw){.token = t};
    if (t.kind == TOKEN_NUMBER) {
        r->kind = RAW_NUMBER;
        r->value = minus ? -t.value : t.value;
        r->bits = t.bits;
        if (minus && t.bits) FAIL(p, "a sign before the bits of a float");
    } else if (t.kind != TOKEN_WORD || minus) {
        FAIL(p, "an operand that begins with '%.*s'", (int)t.n, t.at);
    } else if (t.n == 1 && *t.at == '_') {
        r->kind = RAW_SINK;
    } else if ((r->index = look_up(p, &t, false)) != UINT32_MAX) {
        r->kind = RAW_REGISTER;
    } else if ((r->index = look_up(p, &t, true)) != UINT32_MAX) {
        r->kind = RAW_SYMBOL;
    } else {
        r->kind = RAW_WORD;
    }
    emu_next(&p->lex);
}

static void list(Parser *p, Raw *r) {
    EMU_VEC(Raw) all = {0};
    *r = (Raw){.kind = RAW_LIST, .token = p->lex.token};
    do {
        Raw e;
        simple(p, &e);
        EMU_PUSH(p->arena, &all, e);
    } while (emu_take(&p->lex, ","));
    emu_expect(&p->lex, "}");
    r->list = all.v;
    r->n = all.n;
}

// All up to the semicolon: "[a+4, {x, y}]" is an address and a list, "p|q" has its bar between.
static uint32_t operands(Parser *p, Raw *raw) {
    uint32_t n = 0;
    while (!emu_is(&p->lex, ";")) {
        if (n + 3 > MAX_RAW) FAIL(p, "more operands than any instruction has");
        if (emu_take(&p->lex, "{")) {
            list(p, &raw[n++]);
        } else if (emu_take(&p->lex, "[")) {
            Raw *a = &raw[n++];
            simple(p, a);
            a->address = true;
            bool plus = emu_take(&p->lex, "+");
            if (plus || emu_is(&p->lex, "-")) a->offset = emu_integer(&p->lex, "an offset");
            if (emu_take(&p->lex, ",")) {
                emu_expect(&p->lex, "{");
                list(p, &raw[n++]);
            }
            emu_expect(&p->lex, "]");
        } else {
            simple(p, &raw[n++]);
        }
        if (emu_take(&p->lex, "|"))
            raw[n++] = (Raw){.kind = RAW_BAR};
        else if (!emu_take(&p->lex, ","))
            break;
    }
    emu_expect(&p->lex, ";");
    return n;
}

// ---- statements ----

static void instruction(Parser *p) {
    Raw raw[MAX_RAW];
    Ins i = {.pred = PRED_TRUE};
    if (emu_take(&p->lex, "@")) {
        if (emu_take(&p->lex, "!")) i.flip = ALL_LANES;
        Raw guard;
        simple(p, &guard);
        if (guard.kind != RAW_REGISTER || p->registers.v[guard.index].cls != OPD_PRED)
            FAIL(p, "the guard '%.*s' is no predicate", (int)guard.token.n, guard.token.at);
        i.pred = FIRST_PRED + guard.index;
    }
    EmuToken opcode = emu_word(&p->lex, "an instruction");
    i.line = opcode.line;
    uint32_t n = operands(p, raw);
    emu_decode(p, &opcode, raw, n, &i);
    EMU_PUSH(p->arena, &p->code, i);
}

static void open_scope(Parser *p) {
    Scope s = {.first_fix = p->fixes.n};
    EMU_PUSH(p->arena, &p->scopes, s);
}

// Branches to labels of this scope find them; others are left to the scope around it.
static void close_scope(Parser *p) {
    Scope *s = emu_scope(p);
    uint32_t kept = s->first_fix;
    for (uint32_t k = s->first_fix; k < p->fixes.n; k++) {
        Fix x = p->fixes.v[k];
        uint32_t to = emu_name_get(&s->labels, x.label.at, x.label.n, UINT32_MAX);
        if (to == UINT32_MAX)
            p->fixes.v[kept++] = x;
        else
            p->code.v[x.ins].target = to;
    }
    p->fixes.n = kept;
    p->scopes.n--;
}

static void label(Parser *p) {
    EmuToken t = emu_word(&p->lex, "a label");
    emu_expect(&p->lex, ":");
    if (emu_name_get(&emu_scope(p)->labels, t.at, t.n, UINT32_MAX) != UINT32_MAX)
        FAIL(p, "the label '%.*s' is there twice", (int)t.n, t.at);
    emu_name_put(p->arena, &emu_scope(p)->labels, t.at, t.n, p->code.n);
}

static void statement(Parser *p) {
    EmuLexer *l = &p->lex;
    if (l->token.kind == TOKEN_END)
        FAIL(p, "the text ends inside of a function");
    else if (emu_take(l, "{"))
        open_scope(p);
    else if (emu_take(l, "}"))
        close_scope(p);
    else if (emu_take(l, ".reg"))
        emu_registers(p);
    else if (emu_is(l, ".shared") || emu_is(l, ".local"))
        emu_memory(p, false);
    else if (emu_take(l, ".pragma"))
        while (!emu_take(l, ";")) emu_next(l);
    else if (l->token.kind == TOKEN_WORD && *l->token.at != '.' && *l->at == ':')
        label(p);
    else
        instruction(p);
}

// ---- functions ----

static void directives(Parser *p) {
    Func *f = p->f;
    while (!emu_take(&p->lex, "{")) {
        EmuToken t = emu_word(&p->lex, "a directive or '{'");
        uint32_t v[3] = {1, 1, 1}, n = 0;
        do {
            if (n == 3) FAIL(p, "more than three numbers");
            v[n++] = (uint32_t)emu_integer(&p->lex, "a number");
        } while (emu_take(&p->lex, ","));
        if (emu_named(&t, ".reqntid"))
            memcpy(f->block, v, sizeof v);
        else if (emu_named(&t, ".reqnctapercluster"))
            f->cluster = v[0] * v[1] * v[2];
        else if (!emu_named(&t, ".maxntid") && !emu_named(&t, ".maxnreg") &&
                 !emu_named(&t, ".minnctapersm"))
            emu_fail(p->arena, t.line, "unknown directive '%.*s'", (int)t.n, t.at);
    }
}

static void function(Parser *p) {
    EmuToken name = emu_word(&p->lex, "a name");
    Func *f = p->f = EMU_NEW(p->arena, Func, 1);
    uint32_t symbols = p->symbols.n;
    f->name = name.at, f->name_n = name.n, f->module = p->m;
    p->registers.n = p->code.n = p->lists.n = p->fixes.n = p->bank.n = p->addresses.n = 0;
    p->bank_names = (EmuNames){0};
    emu_place_shared(p);
    open_scope(p);
    emu_special_registers(p);
    emu_parameters(p);
    directives(p);
    while (p->scopes.n > 1) statement(p);
    if (p->fixes.n)
        emu_fail(p->arena, p->fixes.v[0].label.line, "no label '%.*s'", (int)p->fixes.v[0].label.n,
                 p->fixes.v[0].label.at);
    emu_flow(p);
    EMU_PUSH(p->arena, &p->m->funcs, f);
    p->f = NULL;
    p->symbols.n = symbols;
}

static void module(Parser *p) {
    EmuLexer *l = &p->lex;
    open_scope(p);
    while (l->token.kind != TOKEN_END) {
        if (emu_take(l, ".version") || emu_take(l, ".target") || emu_take(l, ".address_size")) {
            do emu_next(l);
            while (emu_take(l, ","));
            if (emu_take(l, ".")) emu_next(l);
            continue;
        }
        bool external = emu_take(l, ".extern");
        if (!external && !emu_take(l, ".visible")) emu_take(l, ".weak");
        if (!external && emu_take(l, ".entry"))
            function(p);
        else if (emu_is(l, ".shared") || emu_is(l, ".const"))
            emu_memory(p, external);
        else
            FAIL(p, "'%.*s' is not known between functions", (int)l->token.n, l->token.at);
    }
}

static void index_forms(Parser *p) {
    p->next_form = EMU_NEW(p->arena, uint32_t, p->n_forms);
    for (uint32_t i = p->n_forms; i--;) { // backwards: the first row is tried first
        const char *name = p->forms[i].name;
        p->next_form[i] = emu_name_get(&p->form_names, name, strlen(name), p->n_forms);
        emu_name_put(p->arena, &p->form_names, name, strlen(name), i);
    }
}

fk_status emu_module_parse(const char *ptx, const Form *forms, uint32_t n_forms,
                           EmuModule **module_, FkError *error) {
    EmuModule *m = calloc(1, sizeof *m);
    if (!m) return FK_FAIL(error, FK_ERROR_MEMORY, "out of memory for a module");
    jmp_buf out;
    m->arena = (EmuArena){.out = &out, .error = error};
    if (setjmp(out)) {
        fk_status s = m->arena.status;
        emu_module_free(m);
        return s;
    }
    char *text = emu_alloc(&m->arena, strlen(ptx) + 1);
    m->text = strcpy(text, ptx);
    Parser *p = EMU_NEW(&m->arena, Parser, 1);
    p->arena = &m->arena, p->m = m, p->forms = forms, p->n_forms = n_forms;
    index_forms(p);
    emu_lex(&p->lex, &m->arena, m->text);
    module(p);
    m->constants = p->constants.v;
    m->constant_bytes = p->constants.n;
    m->arena.out = NULL;
    *module_ = m;
    return FK_OK;
}

void emu_module_free(EmuModule *m) {
    if (!m) return;
    emu_arena_free(&m->arena);
    free(m);
}

const char *emu_line(const EmuModule *m, uint32_t line, char *out, size_t room) {
    const char *p = m->text;
    while (line > 1 && *p) line -= *p++ == '\n';
    while (*p == ' ' || *p == '\t') p++;
    size_t n = strcspn(p, "\n");
    if (n > room - 1) n = room - 1;
    for (size_t i = 0; i < n; i++) out[i] = p[i] == '\t' ? ' ' : p[i];
    out[n] = 0;
    return out;
}
