/* text.c - the tokens, index expressions and names of the IR texts; see text_int.h. */
#include "ir/text_int.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NEST_MAX = 1500 }; /* parentheses deeper than this are an error, not a crash */

/* ---- tokens ------------------------------------------------------------------------------- */

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_word_char(char c) {
    return is_letter(c) || is_digit(c);
}

static Span here(const Text *t, size_t from, size_t to) {
    return (Span){t->src, (uint32_t)from, (uint32_t)(to - from)};
}

void text_error(Text *t, const char *fmt, ...) {
    if (t->failed) return;
    va_list ap;
    va_start(ap, fmt);
    const char *what = arena_vprintf(t->arena, fmt, ap);
    va_end(ap);
    diag_error(t->diags, t->tok.span, "ir-text", "%s", what);
    t->failed = true;
    t->pos = t->src->len;
    t->tok = (Tok){TOK_END, here(t, t->pos, t->pos), "", 0};
}

/* What the current token looks like in "expected ..., found ...". */
static const char *found(const Text *t) {
    switch (t->tok.kind) {
    case TOK_END: return "the end of the text";
    case TOK_LINE: return "the end of the line";
    case TOK_STRING: return "a string";
    default: return arena_printf(t->arena, "'%s'", t->tok.text);
    }
}

/* Skips blanks and comments, and line ends too where they mean nothing; true when a line end that
 * counts was passed. */
static bool skip_blank(Text *t) {
    const char *s = t->src->text;
    bool line = false;
    for (;; t->pos++) {
        char c = s[t->pos];
        if (c == '#')
            while (t->pos < t->src->len && s[t->pos] != '\n') t->pos++;
        if (t->pos >= t->src->len) return line;
        c = s[t->pos];
        if (c == '\n')
            line = true;
        else if (c != ' ' && c != '\t' && c != '\r')
            return line;
    }
}

static void lex_word(Text *t) {
    const char *s = t->src->text;
    size_t from = t->pos;
    while (is_word_char(s[t->pos]) || (s[t->pos] == '.' && is_word_char(s[t->pos + 1]))) t->pos++;
    t->tok.kind = TOK_NAME;
    t->tok.text = arena_strndup(t->arena, s + from, t->pos - from);
}

static void lex_number(Text *t) {
    const char *s = t->src->text;
    size_t from = t->pos;
    uint64_t n = 0, top = (uint64_t)1 << 63;
    for (; is_digit(s[t->pos]); t->pos++) {
        uint64_t digit = (uint64_t)(s[t->pos] - '0');
        n = n > (top - digit) / 10 ? top : n * 10 + digit;
    }
    t->tok.kind = TOK_INT;
    t->tok.num = n;
    if (s[t->pos] == '.' && s[t->pos + 1] != '.') {
        t->tok.kind = TOK_REAL;
        do t->pos++;
        while (is_digit(s[t->pos]));
    }
    if (s[t->pos] == 'e' || s[t->pos] == 'E') {
        size_t e = t->pos + 1;
        if (s[e] == '+' || s[e] == '-') e++;
        if (is_digit(s[e])) {
            t->tok.kind = TOK_REAL;
            while (is_digit(s[e])) e++;
            t->pos = e;
        }
    }
    t->tok.text = arena_strndup(t->arena, s + from, t->pos - from);
}

static int hex(char c) {
    if (is_digit(c)) return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

/* After the opening quote. Gives false at a string that does not end on its line. */
static bool lex_string(Text *t) {
    const char *s = t->src->text;
    size_t from = ++t->pos, n = 0;
    while (t->pos < t->src->len && s[t->pos] != '"' && s[t->pos] != '\n')
        t->pos += s[t->pos] == '\\' && t->pos + 1 < t->src->len ? 2 : 1;
    if (t->pos >= t->src->len || s[t->pos] != '"') return false;
    char *out = arena_alloc(t->arena, t->pos - from + 1);
    for (size_t i = from; i < t->pos; i++) {
        char c = s[i];
        if (c == '\\') {
            c = s[++i];
            if (c == 'n') {
                c = '\n';
            } else if (c == 'x') {
                int hi = hex(s[i + 1]), lo = hi < 0 ? -1 : hex(s[i + 2]);
                if (lo < 0 || hi + lo == 0) return false;
                c = (char)(hi * 16 + lo);
                i += 2;
            } else if (c != '"' && c != '\\') {
                return false;
            }
        }
        if (!c) return false;
        out[n++] = c;
    }
    t->pos++;
    t->tok.kind = TOK_STRING;
    t->tok.text = out;
    return true;
}

static void lex_punct(Text *t) {
    static const char *const two[] = {"->", "..", "==", "!=", "<=", ">="};
    const char *s = t->src->text + t->pos;
    size_t n = 1;
    for (size_t i = 0; i < sizeof two / sizeof *two; i++)
        if (!strncmp(s, two[i], 2)) n = 2;
    if (*s == '(' || *s == '[') t->depth++;
    if ((*s == ')' || *s == ']') && t->depth > 0) t->depth--;
    t->tok.kind = TOK_PUNCT;
    t->tok.text = arena_strndup(t->arena, s, n);
    t->pos += n;
}

void text_next(Text *t) {
    if (t->failed) return;
    bool line = skip_blank(t);
    size_t from = t->pos;
    char c = t->src->text[from];
    t->tok = (Tok){TOK_END, here(t, from, from), "", 0};
    if (line && t->depth == 0) {
        t->tok.kind = TOK_LINE;
        return;
    }
    if (from >= t->src->len) return;
    if (is_letter(c)) {
        lex_word(t);
    } else if (is_digit(c)) {
        lex_number(t);
    } else if (c == '"') {
        if (!lex_string(t)) {
            t->tok.span = here(t, from, from + 1);
            text_error(t, "this string does not end on its line, or has a bad escape");
            return;
        }
    } else if (c > ' ' && c < 127) {
        lex_punct(t);
    } else {
        t->tok.span = here(t, from, from + 1);
        text_error(t, "a byte that is no text: 0x%02x", (unsigned)(unsigned char)c);
        return;
    }
    t->tok.span = here(t, from, t->pos);
}

void text_open(Text *t, Arena *a, const Source *src, Diags *d) {
    *t = (Text){.arena = a, .src = src, .diags = d};
    text_next(t);
    text_skip_lines(t);
}

/* ---- reading ------------------------------------------------------------------------------ */

bool text_is(const Text *t, const char *what) {
    return (t->tok.kind == TOK_NAME || t->tok.kind == TOK_PUNCT) && !strcmp(t->tok.text, what);
}

bool text_accept(Text *t, const char *what) {
    if (!text_is(t, what)) return false;
    text_next(t);
    return true;
}

bool text_expect(Text *t, const char *what) {
    if (text_accept(t, what)) return true;
    text_error(t, "expected '%s', found %s", what, found(t));
    return false;
}

const char *text_name(Text *t) {
    if (t->tok.kind != TOK_NAME && t->tok.kind != TOK_STRING) {
        text_error(t, "expected a name, found %s", found(t));
        return "";
    }
    const char *name = t->tok.text;
    text_next(t);
    return name;
}

const char *text_string(Text *t) {
    if (t->tok.kind != TOK_STRING) {
        text_error(t, "expected a string, found %s", found(t));
        return "";
    }
    return text_name(t);
}

int64_t text_int(Text *t) {
    bool minus = text_accept(t, "-");
    if (t->tok.kind != TOK_INT) {
        text_error(t, "expected an integer, found %s", found(t));
        return 0;
    }
    uint64_t n = t->tok.num;
    if (n > (uint64_t)INT64_MAX + (minus ? 1 : 0)) {
        text_error(t, "an integer of more than 64 bits");
        return 0;
    }
    text_next(t);
    return minus ? (int64_t)(0 - n) : (int64_t)n;
}

int text_count(Text *t, int limit) {
    if (t->tok.kind == TOK_INT && t->tok.num >= (uint64_t)limit) {
        text_error(t, "expected a number below %d, found %s", limit, found(t));
        return 0;
    }
    if (text_is(t, "-")) text_error(t, "expected a number that is not negative");
    return (int)text_int(t);
}

double text_real(Text *t) {
    double sign = text_accept(t, "-") ? -1.0 : 1.0;
    if (text_accept(t, "inf")) return sign * (double)INFINITY;
    if (text_accept(t, "nan")) return (double)NAN;
    if (t->tok.kind != TOK_INT && t->tok.kind != TOK_REAL) {
        text_error(t, "expected a number, found %s", found(t));
        return 0;
    }
    double v = strtod(t->tok.text, NULL);
    text_next(t);
    return sign * v;
}

int text_value(Text *t, int limit) {
    text_expect(t, "%");
    if (t->tok.kind == TOK_INT && t->tok.num >= (uint64_t)limit) {
        text_error(t, "%%%s is not defined before this line", t->tok.text);
        return 0;
    }
    return text_count(t, limit);
}

void text_skip_lines(Text *t) {
    while (t->tok.kind == TOK_LINE) text_next(t);
}

void text_end_line(Text *t) {
    if (t->tok.kind == TOK_LINE)
        text_skip_lines(t);
    else if (t->tok.kind != TOK_END && !text_is(t, "}"))
        text_error(t, "expected the end of the line, found %s", found(t));
}

/* ---- index expressions -------------------------------------------------------------------- */

static int lookup(const char *const *names, int n, const char *name) {
    for (int i = 0; i < n; i++)
        if (names[i] && !strcmp(names[i], name)) return i;
    return -1;
}

static const Ix *read_value(Text *t, const TextScope *s, int value) {
    VEC(const Ix *) args = {0};
    if (text_accept(t, "[")) {
        do vec_push(t->arena, &args, text_ix(t, s));
        while (text_accept(t, ","));
        text_expect(t, "]");
    }
    return ix_value(s->ix, value, args.v, args.n);
}

static const Ix *read_minmax(Text *t, const TextScope *s, bool max) {
    text_expect(t, "(");
    const Ix *a = text_ix(t, s);
    text_expect(t, ",");
    const Ix *b = text_ix(t, s);
    text_expect(t, ")");
    return max ? ix_max(s->ix, a, b) : ix_min(s->ix, a, b);
}

static const Ix *read_named(Text *t, const TextScope *s) {
    Tok name = t->tok;
    text_next(t);
    if (text_is(t, "(")) {
        if (!strcmp(name.text, "min")) return read_minmax(t, s, false);
        if (!strcmp(name.text, "max")) return read_minmax(t, s, true);
    }
    bool indexed = text_is(t, "[");
    int k = indexed ? -1 : lookup(s->axis, s->naxes, name.text);
    if (k >= 0) return ix_axis(s->ix, k);
    k = indexed ? -1 : lookup(s->size, s->nsizes, name.text);
    if (k >= 0) return ix_size(s->ix, k);
    const intptr_t *v = s->value ? map_gets(s->value, name.text) : NULL;
    if (v && *v < s->nvalues) return read_value(t, s, (int)*v);
    t->tok.span = name.span;
    text_error(t, "'%s' is no axis, size or value here", name.text);
    return ix_const(s->ix, 0);
}

static const Ix *read_atom(Text *t, const TextScope *s) {
    const Ix *x = ix_const(s->ix, 0);
    if (++t->nest > NEST_MAX) {
        text_error(t, "nested deeper than %d", NEST_MAX);
    } else if (t->tok.kind == TOK_INT) {
        x = ix_const(s->ix, text_int(t));
    } else if (text_is(t, "%")) {
        x = read_value(t, s, text_value(t, s->nvalues));
    } else if (t->tok.kind == TOK_NAME) {
        x = read_named(t, s);
    } else if (text_accept(t, "-")) {
        if (t->tok.kind == TOK_INT && t->tok.num == (uint64_t)1 << 63) {
            x = ix_const(s->ix, INT64_MIN);
            text_next(t);
        } else {
            x = ix_neg(s->ix, read_atom(t, s));
        }
    } else if (text_accept(t, "(")) {
        x = text_ix(t, s);
        text_expect(t, ")");
    } else {
        text_error(t, "expected an index expression, found %s", found(t));
    }
    t->nest--;
    return x;
}

static const Ix *read_term(Text *t, const TextScope *s) {
    const Ix *x = read_atom(t, s);
    while (text_is(t, "*") || text_is(t, "/") || text_is(t, "%")) {
        char op = t->tok.text[0];
        text_next(t);
        const Ix *y = read_atom(t, s);
        int64_t c;
        if (op != '*' && ix_is_const(y, &c) && c <= 0) {
            text_error(t, "a divisor must be positive");
            return x;
        }
        x = op == '*' ? ix_mul(s->ix, x, y) : op == '/' ? ix_div(s->ix, x, y) : ix_mod(s->ix, x, y);
    }
    return x;
}

const Ix *text_ix(Text *t, const TextScope *s) {
    const Ix *x = read_term(t, s);
    while (text_is(t, "+") || text_is(t, "-")) {
        bool minus = t->tok.text[0] == '-';
        text_next(t);
        const Ix *y = read_term(t, s);
        x = minus ? ix_sub(s->ix, x, y) : ix_add(s->ix, x, y);
    }
    if (s->ix->overflow) {
        s->ix->overflow = false;
        text_error(t, "an integer of more than 64 bits");
    }
    return x;
}

/* ---- printing ----------------------------------------------------------------------------- */

bool text_is_word(const char *name) {
    if (!name || !is_letter(name[0])) return false;
    for (const char *c = name; *c; c++)
        if (!is_word_char(*c) && !(*c == '.' && is_word_char(c[1]))) return false;
    return true;
}

void text_put_string(Str *out, const char *string) {
    str_addc(out, '"');
    for (const char *c = string; *c; c++) {
        unsigned char u = (unsigned char)*c;
        if (u == '\n')
            str_add(out, "\\n");
        else if (u == '"' || u == '\\')
            str_printf(out, "\\%c", u);
        else if (u < 32 || u == 127)
            str_printf(out, "\\x%02x", (unsigned)u);
        else
            str_addc(out, *c);
    }
    str_addc(out, '"');
}

void text_put_name(Str *out, const char *name) {
    if (text_is_word(name))
        str_add(out, name);
    else
        text_put_string(out, name);
}

const char *const *text_unique(Arena *a, const char *const *want, int n, const char *const *taken,
                               int ntaken) {
    const char **got = ARENA_ARRAY(a, const char *, n);
    for (int i = 0; i < n; i++) {
        const char *base = want && text_is_word(want[i]) ? want[i] : "i";
        const char *name = base;
        for (int k = 1; lookup(taken, ntaken, name) >= 0 || lookup(got, i, name) >= 0; k++)
            name = arena_printf(a, "%s_%d", base, k);
        got[i] = name;
    }
    return got;
}
