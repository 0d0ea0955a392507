// Texts, kernels as text, and the memory that both lie in.
#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "tests/gpu/emu_agrees/agrees.h"

// ---- memory ----

typedef struct Piece {
    struct Piece *before;
    _Alignas(16) char bytes[];
} Piece;
static Piece *pieces;

void *keep_alloc(size_t bytes) {
    Piece *p = calloc(1, sizeof *p + bytes);
    if (!p) {
        fprintf(stderr, "emu_agrees: out of memory\n");
        exit(3);
    }
    p->before = pieces;
    pieces = p;
    return p->bytes;
}

void keep_free(void) {
    while (pieces) {
        Piece *p = pieces;
        pieces = p->before;
        free(p);
    }
}

static char *text_list(const char *format, va_list args) {
    va_list again;
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, again);
    va_end(again);
    char *s = keep_alloc((size_t)n + 1);
    vsnprintf(s, (size_t)n + 1, format, args);
    return s;
}

char *text_of(const char *format, ...) {
    va_list args;
    va_start(args, format);
    char *s = text_list(format, args);
    va_end(args);
    return s;
}

// ---- the kernel at hand ----

void say(Make *m, const char *format, ...) {
    va_list args;
    for (;;) {
        va_start(args, format);
        int n = vsnprintf(m->text + m->n, m->room - m->n, format, args);
        va_end(args);
        if (m->n + (size_t)n + 2 < m->room) {
            m->n += (size_t)n;
            m->text[m->n++] = '\n';
            m->text[m->n] = 0;
            return;
        }
        size_t room = 2 * m->room + (size_t)n + 64;
        char *grown = keep_alloc(room);
        memcpy(grown, m->text, m->n);
        m->text = grown;
        m->room = room;
    }
}

void declare(Make *m, const char *format, ...) {
    size_t n = strlen(m->more);
    va_list args;
    va_start(args, format);
    vsnprintf(m->more + n, sizeof m->more - n, format, args);
    va_end(args);
    strcat(m->more, "\n");
}

void begin(Make *m, uint32_t cases, uint32_t block) {
    m->t = keep_alloc(sizeof *m->t);
    m->n = 0;
    m->room = 4096;
    m->text = keep_alloc(m->room);
    m->cases = cases;
    *m->more = *m->directives = 0;
    m->prefix = "";
    m->t->row = m->row;
    m->t->number = m->number;
    m->t->grid = cases / block;
    m->t->block = block;
}

static void add_test(Tests *all, Test *t) {
    if (all->n == all->room) {
        Test **grown = keep_alloc((2 * all->room + 256) * sizeof *grown);
        if (all->n) memcpy(grown, all->v, all->n * sizeof *grown);
        all->v = grown;
        all->room = 2 * all->room + 256;
    }
    all->v[all->n++] = t;
}

void end(Make *m, const char *variant, ...) {
    static const char map[] = ", .param .align 64 .b8 map_%s[128]";
    char in[64] = "", out[64] = "", cluster[64] = "";
    Test *t = m->t;
    va_list args;
    va_start(args, variant);
    char *more = text_list(variant, args);
    va_end(args);
    if (t->map_in.rank) snprintf(in, sizeof in, map, "in");
    if (t->map_out.rank) snprintf(out, sizeof out, map, "out");
    if (t->cluster) snprintf(cluster, sizeof cluster, ".reqnctapercluster %u, 1, 1\n", t->cluster);
    t->id = text_of("%s %s%s%s", m->name, *m->form->operands ? m->form->operands : "-",
                    *more ? " " : "", more);
    t->ptx =
        text_of("%s.visible .entry k$(.param .u64 in, .param .u64 out, .param .u64 word%s%s)\n"
                "%s.reqntid %u, 1, 1\n%s{\n"
                ".reg .pred %%p<64>;\n.reg .b16 %%h<64>;\n.reg .b32 %%r<96>;\n"
                ".reg .b64 %%d<64>;\n%s"
                "ld.param.u64 %%d0, [in];\nld.param.u64 %%d1, [out];\n"
                "mov.u32 %%r0, %%tid.x;\nmov.u32 %%r1, %%ctaid.x;\n"
                "mad.lo.u32 %%r0, %%r1, %u, %%r0;\n%sret;\n}\n",
                m->prefix, in, out, cluster, t->block, m->directives, m->more, t->block, m->text);
    add_test(m->all, t);
}

// ---- registers, arrays ----

static const struct {
    char letter, prefix, bytes;
    const char *type;
} classes[] = {{'p', 'p', 4, "u32"}, {'h', 'h', 2, "u16"}, {'r', 'r', 4, "u32"},
               {'l', 'd', 8, "u64"}, {'x', 'd', 8, "u64"}, {'y', 'r', 4, "u32"},
               {'w', 'w', 4, "u32"}};

static int class_at(char letter) {
    for (int k = 0; k < (int)(sizeof classes / sizeof *classes); k++)
        if (classes[k].letter == tolower((unsigned char)letter)) return k;
    fprintf(stderr, "emu_agrees: no register for operand '%c'\n", letter);
    abort();
}

const char *reg(char class, int number) {
    static char text[8][16];
    static int next;
    char *s = text[next++ % 8];
    snprintf(s, sizeof text[0], "%%%c%d", classes[class_at(class)].prefix, number);
    return s;
}

uint32_t class_bytes(char class) {
    return (uint32_t)classes[class_at(class)].bytes;
}

static Input *add_input(Make *m, uint32_t unit, uint32_t count) {
    Test *t = m->t;
    if (t->n_in == MAX_ARRAYS) abort();
    Input *in = &t->in[t->n_in++];
    *in = (Input){.unit = unit, .count = count, .at = t->in_bytes};
    t->in_bytes = (t->in_bytes + unit * count + 31) & ~31u;
    return in;
}

uint32_t input(Make *m, Kind kind, uint32_t unit, uint32_t count) {
    Input *in = add_input(m, unit, count);
    in->kind = (uint8_t)kind;
    in->index = (uint8_t)(m->t->n_in - 1);
    in->of = 1;
    return in->at;
}

uint32_t matrix(Make *m, Element e, Fill fill, uint32_t count) {
    static const uint8_t bytes[] = {2, 2, 4, 1, 1, 1, 1, 4};
    Input *in = add_input(m, bytes[e], count);
    in->kind = (uint8_t)e;
    in->fill = (uint8_t)fill;
    in->index = (uint8_t)(m->t->n_in - 1);
    return in->at;
}

void take(Make *m, Kind kind, char class, int number, int index, int of, Range range) {
    int c = class_at(class);
    Input *in = add_input(m, (uint32_t)classes[c].bytes, m->cases);
    in->kind = (uint8_t)kind;
    in->index = (uint8_t)index;
    in->of = (uint8_t)of;
    in->range = range;
    say(m, "mul.wide.u32 %%d2, %%r0, %u;\nadd.u64 %%d2, %%d2, %%d0;", in->unit);
    bool pred = classes[c].prefix == 'p';
    say(m, "ld.global.%s %s, [%%d2+%u];", classes[c].type, pred ? "%r2" : reg(class, number),
        in->at);
    if (pred) say(m, "setp.ne.u32 %s, %%r2, 0;", reg(class, number));
}

uint32_t output(Make *m, Type type, uint32_t unit, uint32_t count) {
    Test *t = m->t;
    if (t->n_out == MAX_ARRAYS) abort();
    Output *out = &t->out[t->n_out++];
    *out = (Output){.unit = unit, .count = count, .at = t->out_bytes, .type = (uint8_t)type};
    t->out_bytes = (t->out_bytes + unit * count + 31) & ~31u;
    return out->at;
}

void give(Make *m, Type type, char class, int number) {
    int c = class_at(class);
    uint32_t unit = (uint32_t)classes[c].bytes, at = output(m, type, unit, m->cases);
    bool pred = classes[c].prefix == 'p';
    if (pred) say(m, "selp.u32 %%r2, 1, 0, %s;", reg(class, number));
    say(m, "mul.wide.u32 %%d2, %%r0, %u;\nadd.u64 %%d2, %%d2, %%d1;", unit);
    say(m, "st.global.%s [%%d2+%u], %s;", classes[c].type, at, pred ? "%r2" : reg(class, number));
}

// ---- operands ----

static bool is_register(char letter) {
    return isalpha((unsigned char)letter) && !strchr("aist", letter);
}

static bool is_written(char letter) {
    return isupper((unsigned char)letter) || letter == 'x' || letter == 'y';
}

void operands_text(const char *s, const Parts *p, char *out, size_t room) {
    size_t n = 0;
    int number = p->first;
    bool first = true;
    *out = 0;
    for (; *s; s++) {
        const char *text = NULL;
        if (*s == '}' || *s == '|') {
            n += (size_t)snprintf(out + n, room - n, "%c", *s);
            first = *s == '|';
            continue;
        }
        if (!first) n += (size_t)snprintf(out + n, room - n, ", ");
        first = *s == '{';
        if (first) text = "{";
        if (*s == 'a') text = p->address;
        if (*s == 'i') text = p->number;
        if (*s == 't') text = p->label;
        char letter = *s == 'D' || *s == 'd' ? p->any : *s;
        if (is_register(*s)) text = reg(letter, number++);
        if (!text) {
            fprintf(stderr, "emu_agrees: no operand for '%c'\n", *s);
            abort();
        }
        n += (size_t)snprintf(out + n, room - n, "%s", text);
    }
}

void each_operand(Make *m, const char *operands, int first, OperandFn *fn, void *data) {
    int of = 0, index = 0;
    for (const char *s = operands; *s; s++) of += is_register(*s) && !is_written(*s);
    for (const char *s = operands; *s; s++) {
        if (!is_register(*s)) continue;
        fn(m, *s, first++, index, of, data);
        index += !is_written(*s);
    }
}
