// Declarations: variables of shared, local and constant memory, registers, parameters.
#include "runtime/emu/parse_int.h"

#define FAIL(p, ...) emu_fail((p)->arena, (p)->lex.token.line, __VA_ARGS__)

// ---- variables ----

static uint32_t type_bytes(Parser *p, const EmuToken *t) {
    static const struct {
        const char *name;
        uint32_t bytes;
    } types[] = {{".b8", 1},  {".u8", 1},  {".s8", 1},  {".b16", 2}, {".u16", 2},
                 {".s16", 2}, {".f16", 2}, {".b32", 4}, {".u32", 4}, {".s32", 4},
                 {".f32", 4}, {".b64", 8}, {".u64", 8}, {".s64", 8}, {".f64", 8}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (emu_named(t, types[i].name)) return types[i].bytes;
    emu_fail(p->arena, t->line, "unknown type '%.*s'", (int)t->n, t->at);
}

typedef struct Var {
    EmuToken name;
    uint32_t align, unit, count; // count: of units; 0 for "[]"
} Var;

// [.align N] .type name [ '[' count ']' ]
static Var variable(Parser *p) {
    Var v = {.count = 1};
    if (emu_take(&p->lex, ".align")) v.align = (uint32_t)emu_integer(&p->lex, "an alignment");
    EmuToken type = emu_word(&p->lex, "a type");
    v.unit = type_bytes(p, &type);
    if (!v.align) v.align = v.unit;
    v.name = emu_word(&p->lex, "a name");
    if (!v.align || v.align & (v.align - 1) || v.align > 1024)
        FAIL(p, "an alignment of %u", v.align);
    if (!emu_take(&p->lex, "[")) return v;
    int64_t n = emu_is(&p->lex, "]") ? 0 : emu_integer(&p->lex, "a length");
    if (n < 0 || n > 1 << 24) FAIL(p, "a variable of %lld elements", (long long)n);
    v.count = (uint32_t)n;
    emu_expect(&p->lex, "]");
    return v;
}

static uint32_t align_up(uint32_t n, uint32_t to) {
    return (n + to - 1) & ~(to - 1);
}

static void declare(Parser *p, const Var *v, Space space, uint32_t at, bool dynamic) {
    Symbol s = {v->name.at, v->name.n, space, at, v->unit * v->count, v->align, dynamic};
    emu_name_put(p->arena, &emu_scope(p)->symbols, s.name, s.n, p->symbols.n);
    EMU_PUSH(p->arena, &p->symbols, s);
}

// The bytes of a .const variable: zeros, then what the braces say.
static void constant(Parser *p, const Var *v) {
    uint32_t at = align_up(p->constants.n, v->align);
    while (p->constants.n < at + v->unit * v->count) EMU_PUSH(p->arena, &p->constants, 0);
    declare(p, v, SPACE_CONST, at, false);
    if (!emu_take(&p->lex, "=")) return;
    bool braces = emu_take(&p->lex, "{");
    for (uint32_t i = 0; !emu_is(&p->lex, "}") && !emu_is(&p->lex, ";"); i++) {
        bool minus = emu_take(&p->lex, "-");
        EmuToken t = p->lex.token;
        if (t.kind != TOKEN_NUMBER) FAIL(p, "a number is needed here");
        if (i == v->count) FAIL(p, "more than %u values", v->count);
        emu_next(&p->lex);
        uint64_t value = minus ? -t.value : t.value;
        memcpy(p->constants.v + at + i * v->unit, &value, v->unit);
        if (!emu_take(&p->lex, ",")) break;
    }
    if (braces) emu_expect(&p->lex, "}");
}

// .shared, .local, .const; of a module, or of the function at hand.
void emu_memory(Parser *p, bool external) {
    EmuToken space = emu_word(&p->lex, "a space");
    Var v = variable(p);
    uint32_t *used = p->f ? &p->f->local_bytes : NULL;
    if (emu_named(&space, ".const") && !external) {
        constant(p, &v);
    } else if (emu_named(&space, ".shared")) {
        if (!v.count != external) FAIL(p, "shared memory without a length must be .extern");
        declare(p, &v, SPACE_SHARED, 0, external);
        Symbol *s = &p->symbols.v[p->symbols.n - 1];
        if (external && v.align > p->dynamic_align) p->dynamic_align = v.align;
        if (!external && p->f) {
            s->at = align_up(p->f->shared_bytes, v.align);
            p->f->shared_bytes = s->at + s->bytes;
        }
    } else if (emu_named(&space, ".local") && used && !external) {
        uint32_t at = align_up(*used, v.align);
        declare(p, &v, SPACE_LOCAL, at, false);
        *used = at + v.unit * v.count;
    } else {
        FAIL(p, "variables of '%.*s' are not known here", (int)space.n, space.at);
    }
    emu_expect(&p->lex, ";");
}

// ---- registers ----

static void add_register(Parser *p, const char *name, uint32_t n, uint8_t cls) {
    Register r = {.name = name, .n = n, .cls = cls, .special = -1};
    emu_name_put(p->arena, &emu_scope(p)->registers, name, n, p->registers.n);
    EMU_PUSH(p->arena, &p->registers, r);
}

// .reg .type name, name<count>;
void emu_registers(Parser *p) {
    EmuToken type = emu_word(&p->lex, "a type");
    uint8_t cls = OPD_PRED;
    if (!emu_named(&type, ".pred")) {
        uint32_t bytes = type_bytes(p, &type);
        if (bytes == 1) FAIL(p, "registers of 8 bits");
        cls = bytes == 2 ? OPD_16 : bytes == 4 ? OPD_32 : OPD_64;
    }
    do {
        EmuToken name = emu_word(&p->lex, "a register's name");
        if (!emu_take(&p->lex, "<")) {
            add_register(p, name.at, name.n, cls);
            continue;
        }
        int64_t n = emu_integer(&p->lex, "a count");
        emu_expect(&p->lex, ">");
        if (n < 0 || n > 1 << 20) FAIL(p, "%lld registers", (long long)n);
        for (int64_t i = 0; i < n; i++) {
            char *text = emu_alloc(p->arena, name.n + 12);
            int len = snprintf(text, name.n + 12, "%.*s%lld", (int)name.n, name.at, (long long)i);
            add_register(p, text, (uint32_t)len, cls);
        }
    } while (emu_take(&p->lex, ","));
    emu_expect(&p->lex, ";");
}

void emu_special_registers(Parser *p) {
    static const struct {
        const char *name;
        uint8_t cls;
    } all[] = {
#define SPECIAL(name, text, cls) {text, cls},
#include "runtime/emu/special.def"
#undef SPECIAL
    };
    for (int i = 0; i < SPECIALS; i++) {
        add_register(p, all[i].name, (uint32_t)strlen(all[i].name), all[i].cls);
        p->registers.v[p->registers.n - 1].special = (int16_t)i;
    }
}

// ---- parameters ----

void emu_parameters(Parser *p) {
    Func *f = p->f;
    if (!emu_take(&p->lex, "(")) return;
    while (emu_take(&p->lex, ".param")) {
        Var v = variable(p);
        Param q = {align_up(f->param_bytes, v.align), v.unit * v.count};
        declare(p, &v, SPACE_PARAM, q.at, false);
        EMU_PUSH(p->arena, &f->params, q);
        f->param_bytes = q.at + q.bytes;
        if (!emu_take(&p->lex, ",")) break;
    }
    emu_expect(&p->lex, ")");
}

void emu_place_shared(Parser *p) {
    for (uint32_t i = 0; i < p->symbols.n; i++) {
        Symbol *s = &p->symbols.v[i];
        if (s->space != SPACE_SHARED || s->dynamic) continue;
        s->at = align_up(p->f->shared_bytes, s->align);
        p->f->shared_bytes = s->at + s->bytes;
    }
}
