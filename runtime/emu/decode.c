// The row of forms.def for an instruction, and its operands as the row wants them.
//
// A row's operands are letters: P p a predicate written, read; H h, R r, L l a register of 16, 32,
// 64 bits; D d one of any of these; W w one of 32 that wgmma uses; a an address; s a variable's
// address as a value; i a number; t a label; x y a register of 64, 32 bits written, or _; | the bar
// of "p|q"; {..} a list, where * behind a letter stands for any number of it. Small letters but x
// and y are read, and numbers fit there, too.
#include "runtime/emu/parse_int.h"

// Does the opcode match the name, in which '#' stands for digits?
static bool name_matches(const char *name, const EmuToken *t, uint32_t number[2]) {
    const char *s = t->at, *end = t->at + t->n;
    int k = 0;
    for (; *name; name++) {
        if (*name != '#') {
            if (s == end || *s++ != *name) return false;
            continue;
        }
        if (s == end || *s < '0' || *s > '9' || k == 2) return false;
        uint32_t n = 0;
        for (; s < end && *s >= '0' && *s <= '9'; s++) n = n * 10 + (uint32_t)(*s - '0');
        number[k++] = n;
    }
    return s == end;
}

static bool is_read(char letter) {
    return letter >= 'a' && letter != 'x' && letter != 'y';
}

static int class_of(char letter) {
    switch (letter | 32) {
    case 'p': return OPD_PRED;
    case 'h': return OPD_16;
    case 'r':
    case 'w':
    case 'y': return OPD_32;
    case 'l':
    case 'x': return OPD_64;
    default: return OPD_NONE;
    }
}

// ---- the bank of immediates ----

static uint32_t bank_add(Parser *p, uint64_t value, int cls) {
    uint32_t unit = cls == OPD_64 ? 8 : 4, at = p->bank.n;
    for (uint32_t l = 0; l < LANES * unit; l++)
        EMU_PUSH(p->arena, &p->bank, (uint8_t)(value >> 8 * (l % unit)));
    return at;
}

// Equal values share a place.
static Opd bank_value(Parser *p, uint64_t value, int cls) {
    char *key = emu_alloc(p->arena, 24);
    int n = snprintf(key, 24, "%d %llx", cls == OPD_64, (unsigned long long)value);
    uint32_t at = emu_name_get(&p->bank_names, key, (size_t)n, UINT32_MAX);
    if (at == UINT32_MAX) {
        at = bank_add(p, value, cls);
        emu_name_put(p->arena, &p->bank_names, key, (size_t)n, at);
    }
    return (Opd){.at = at, .cls = (uint8_t)cls, .bank = 1};
}

static Opd symbol_address(Parser *p, const Symbol *s, int cls) {
    if (s->space != SPACE_SHARED) return bank_value(p, s->at, cls);
    Opd o = {.at = bank_add(p, s->at + SHARED_BASE, cls), .cls = (uint8_t)cls, .bank = 1};
    BankAddress a = {o.at, cls == OPD_64, s->dynamic};
    EMU_PUSH(p->arena, &p->addresses, a);
    return o;
}

// ---- operands ----

static bool number_fits(const Raw *r, int cls) {
    int64_t v = (int64_t)r->value;
    if (r->bits) return (r->bits == 32) == (cls == OPD_32);
    if (cls == OPD_16) return v >= INT16_MIN && v <= UINT16_MAX;
    if (cls == OPD_32) return v >= INT32_MIN && v <= UINT32_MAX;
    return true;
}

static Opd register_operand(Parser *p, const Raw *r, char letter) {
    Register *g = &p->registers.v[r->index];
    if ((letter | 32) == 'w') g->pinned = true;
    return (Opd){.at = r->index + (g->cls == OPD_PRED ? FIRST_PRED : 0),
                 .cls = g->cls,
                 .writes = !is_read(letter)};
}

static bool address(Parser *p, const Raw *r, Opd *o) {
    if (!r->address || r->offset < INT32_MIN || r->offset > INT32_MAX) return false;
    if (r->kind == RAW_REGISTER && p->registers.v[r->index].cls >= OPD_32)
        *o = register_operand(p, r, 'a');
    else if (r->kind == RAW_SYMBOL)
        *o = symbol_address(p, &p->symbols.v[r->index], OPD_64);
    else if (r->kind == RAW_NUMBER && !r->bits)
        *o = bank_value(p, r->value, OPD_64);
    else
        return false;
    o->offset = (int32_t)r->offset;
    o->address = true;
    return true;
}

static bool one(Parser *p, char letter, const Raw *r, Opd *o) {
    int cls = class_of(letter);
    if (letter == 'a') return address(p, r, o);
    if (r->address) return false;
    switch (r->kind) {
    case RAW_REGISTER: {
        uint8_t found = p->registers.v[r->index].cls;
        if ((letter | 32) == 'd' ? found == OPD_PRED : found != cls) return false;
        *o = register_operand(p, r, letter);
        return true;
    }
    case RAW_NUMBER:
        if (letter == 'i') {
            if (r->bits || (int64_t)r->value < INT32_MIN || (int64_t)r->value > UINT32_MAX)
                return false;
            *o = (Opd){.offset = (int32_t)r->value, .cls = OPD_NUMBER};
            return true;
        }
        bool all = r->value == UINT64_MAX; /* LLVM's way to write true */
        if (letter == 'p' && (r->value < 2 || all) && !r->bits) {
            *o = (Opd){.at = r->value ? PRED_TRUE : PRED_FALSE, .cls = OPD_PRED};
            return true;
        }
        if (!is_read(letter) || letter == 'p' || letter == 'w' || letter == 's' || letter == 't')
            return false;
        if (letter == 'd') cls = r->bits == 32 ? OPD_32 : OPD_64;
        if (!number_fits(r, cls)) return false;
        *o = bank_value(p,
                        cls == OPD_64   ? r->value
                        : cls == OPD_32 ? (uint32_t)r->value
                                        : (uint16_t)r->value,
                        cls);
        return true;
    case RAW_SYMBOL:
        if (letter != 's') return false;
        *o = symbol_address(p, &p->symbols.v[r->index], OPD_64);
        return true;
    case RAW_SINK: *o = (Opd){.cls = OPD_NONE}; return letter == 'x' || letter == 'y';
    case RAW_WORD: *o = (Opd){.cls = OPD_LABEL}; return letter == 't';
    default: return false;
    }
}

// The letters of a list, from behind its brace; *end: behind the closing one.
static bool list(Parser *p, const char *s, const Raw *r, Opd *o, const char **end) {
    if (r->kind != RAW_LIST || r->address) return false;
    *o = (Opd){.at = p->lists.n, .offset = (int32_t)r->n, .cls = OPD_LIST};
    uint32_t k = 0;
    while (*s != '}') {
        bool many = s[1] == '*';
        do {
            Opd e;
            if (k == r->n) {
                if (many && k) break;
                return false;
            }
            if (!one(p, *s, &r->list[k], &e)) return false;
            EMU_PUSH(p->arena, &p->lists, e);
            k++;
        } while (many);
        s += many ? 2 : 1;
    }
    *end = s + 1;
    return k == r->n;
}

static bool operands_match(Parser *p, const char *s, const Raw *raw, uint32_t n, Ins *out) {
    uint32_t k = 0;
    out->n = 0;
    for (; *s && k < n; k++) {
        Opd *o = &out->o[out->n];
        if (*s == '|') {
            if (raw[k].kind != RAW_BAR) return false;
            s++;
            continue;
        }
        if (out->n++ == MAX_OPERANDS) return false;
        if (*s == '{') {
            if (!list(p, s + 1, &raw[k], o, &s)) return false;
        } else if (!one(p, *s++, &raw[k], o)) {
            return false;
        } else if (o->cls == OPD_LABEL) {
            Fix x = {p->code.n, raw[k].token};
            EMU_PUSH(p->arena, &p->fixes, x);
        }
    }
    return !*s && k == n;
}

// ---- the row ----

static bool matches(Parser *p, const Form *f, const EmuToken *opcode, const Raw *raw, uint32_t n,
                    Ins *out) {
    uint32_t number[2] = {0}, lists = p->lists.n, fixes = p->fixes.n;
    if (!name_matches(f->name, opcode, number)) return false;
    if (!operands_match(p, f->operands, raw, n, out)) {
        p->lists.n = lists, p->fixes.n = fixes;
        return false;
    }
    out->form = f;
    out->run = f->run;
    out->number = number[0], out->number2 = number[1];
    return true;
}

// Whether PTX wants all threads of the warp to execute it together.
static bool together(const char *name) {
    return strstr(name, ".aligned") || (!strncmp(name, "bar.", 4) && strncmp(name, "bar.warp", 8));
}

static bool strong(const char *name) {
    static const char *const orders[] = {".volatile", ".relaxed", ".acquire", ".release"};
    if (strncmp(name, "ld.", 3) && strncmp(name, "st.", 3)) return false;
    for (size_t k = 0; k < sizeof orders / sizeof *orders; k++)
        if (strstr(name, orders[k])) return true;
    return false;
}

// cp.async of single threads.
static bool is_copy(const char *name) {
    return !strncmp(name, "cp.async.", 9) && strncmp(name, "cp.async.bulk", 13);
}

// bra.uni is like bra: whether all lanes go the same way is seen when it runs.
void emu_decode(Parser *p, const EmuToken *opcode, Raw *raw, uint32_t n, Ins *out) {
    EmuToken name = *opcode;
    bool known = false;
    uint32_t number[2];
    uint32_t i = emu_name_get(&p->form_names, name.at, name.n, p->n_forms);
    for (; i < p->n_forms; i = p->next_form[i]) {
        known = true;
        if (matches(p, &p->forms[i], &name, raw, n, out)) break;
    }
    for (uint32_t k = 0; k < p->n_forms && i == p->n_forms; k++) { // rows with '#'
        if (!strchr(p->forms[k].name, '#')) continue;
        known = known || name_matches(p->forms[k].name, &name, number);
        if (matches(p, &p->forms[k], &name, raw, n, out)) i = k;
    }
    if (i == p->n_forms)
        emu_fail(p->arena, opcode->line, "the emulated device does not know %s'%.*s'",
                 known ? "these operands of " : "the instruction ", (int)opcode->n, opcode->at);
    out->together = together(out->form->name);
    out->strong = strong(out->form->name);
    out->constant = strstr(out->form->name, ".global.nc") != NULL;
    out->releases = strstr(out->form->name, ".release") || strstr(out->form->name, ".acq_rel");
    p->f->copies |= is_copy(out->form->name);
}
