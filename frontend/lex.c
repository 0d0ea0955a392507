/* lex.c - between the scanner and the grammar: words, numbers, and the NL rule.
 *
 * A newline ends a statement only after a token that can end one, outside ( ) [ ] and expect { },
 * and only if the next token does not carry the statement on; that takes one token of lookahead,
 * which is held here. Brackets are matched here as well, so that a message can show the partner,
 * and their depth is bounded before the parser's stack can grow.
 */
#include "frontend/lex_int.h"

#include "frontend/fk.tab.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- words and numbers -------------------------------------------------------------------------
 */

static const struct Keyword {
    const char *text;
    int token, value;
} keywords[] = {
#define X(text, token, value) {text, token, value},
#include "frontend/keyword.def"
#undef X
#define DTYPE(name, bits, cls, value) {#name, TYPE, DT_##name},
#include "ir/dtype.def"
#undef DTYPE
};

int lex_word(Parse *p, const char *text, int len, FK_YYSTYPE *value) {
    for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++) {
        const struct Keyword *k = &keywords[i];
        if (k->text[0] == text[0] && !strcmp(k->text, text)) {
            value->word = k->value;
            return k->token;
        }
    }
    value->text = arena_strndup(p->arena, text, (size_t)len);
    return NAME;
}

bool lex_is_keyword(const char *text, size_t len) {
    for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++)
        if (strlen(keywords[i].text) == len && !memcmp(keywords[i].text, text, len)) return true;
    return false;
}

int lex_number(Parse *p, const char *text, Span sp, bool real, FK_YYSTYPE *value) {
    errno = 0;
    if (real) {
        value->r = strtod(text, NULL);
        if (isinf(value->r))
            diag_error(p->diags, sp, "number-range",
                       "this number is too large (the largest is 1.8e308); infinity is 'inf'");
        return REAL;
    }
    value->i = strtoll(text, NULL, 10);
    if (errno == ERANGE)
        diag_error(p->diags, sp, "number-range",
                   "this integer does not fit 64 bits; as a real number, write it with '.0'");
    return INT;
}

/* ---- what is no token ---------------------------------------------------------------------------
 */

/* Spellings of other languages, and what to write here. */
static const struct {
    const char *text, *cure;
} foreign[] = {
    {"**", "a power is written '^'"},
    {"//", "'/' of two integers is the floor; a comment starts with '#'"},
    {"&&", "write 'and'"},
    {"&", "write 'and'"},
    {"||", "write 'or'"},
    {"|", "write 'or'"},
    {"!", "write 'not'"},
    {"<-", "a value is defined with '='; for 'less than minus', put a space between"},
    {"=>", "write '>=' to compare, '->' before the outputs"},
    {"<>", "write '!='"},
    {"+=", "nothing is updated in place; a sum is written sum[k] ..."},
    {"-=", "nothing is updated in place"},
    {"*=", "nothing is updated in place; a product is written prod[k] ..."},
    {"/=", "nothing is updated in place"},
    {";", "a statement ends with its line"},
    {"@", "a matrix product is written sum[k] a[m, k] * b[k, n]"},
    {"?", "write select(condition, a, b)"},
    {"'", "strings are written \"...\""},
    {".", "a name has no parts, and a number has digits on both sides of its point"},
};

static void bad_number(Parse *p, const char *text, Span sp) {
    size_t digits = strspn(text, "0123456789"), n = strlen(text);
    if (text[0] == '.') {
        diag_error(p->diags, sp, "number-form",
                   "a number has a digit before its point: write '0%s'", text);
        return;
    }
    if (text[digits] == '.' && digits + 1 == n) {
        diag_error(p->diags, sp, "number-form", "a number has a digit after its point: write '%s0'",
                   text);
        return;
    }
    if (text[0] == '0' && (text[1] == 'x' || text[1] == 'b' || text[1] == 'o')) {
        diag_error(p->diags, sp, "number-form", "'%s' is no number: integers are decimal", text);
        return;
    }
    size_t head = strspn(text, "0123456789.");
    if (strchr(text, '_') || strchr(text + digits + 1, '.') || !text[head]) {
        diag_error(p->diags, sp, "number-form", "'%s' is no number", text);
        return;
    }
    diag_error(p->diags, sp, "number-form",
               "a number runs into a name: a product is written '%.*s * %s'", (int)head, text,
               text + head);
}

/* The first character of `s` as UTF-8; 0 when it is not well formed. */
static uint32_t utf8_first(const unsigned char *s, int n, int *len) {
    int more = s[0] >= 0xF0 ? 3 : s[0] >= 0xE0 ? 2 : 1;
    if (s[0] < 0xC2 || s[0] > 0xF4 || n <= more) return 0;
    uint32_t c = s[0] & (0x3Fu >> more);
    for (int i = 1; i <= more; i++) {
        if ((s[i] & 0xC0) != 0x80) return 0;
        c = c << 6 | (s[i] & 0x3Fu);
    }
    *len = more + 1;
    return c;
}

static void bad_byte(Parse *p, const char *text, int len, Span sp) {
    const unsigned char *s = (const unsigned char *)text;
    int n = 1;
    uint32_t c = s[0] >= 0x80 ? utf8_first(s, len, &n) : 0;
    if (c)
        diag_error(p->diags, (Span){sp.src, sp.off, (uint32_t)n}, "bad-character",
                   "'%.*s' (U+%04X) can only stand in a comment; names are ASCII letters, digits "
                   "and '_'",
                   n, text, c);
    else if (s[0] >= 0x20 && s[0] < 0x7F)
        diag_error(p->diags, sp, "bad-character", "'%c' has no meaning here", s[0]);
    else
        diag_error(p->diags, (Span){sp.src, sp.off, 1}, "bad-character",
                   "stray byte 0x%02X: this is not text of a program", s[0]);
    if (!s[0]) p->stop = true; /* a file of another kind: one message is enough */
}

/* Reports what the scanner could not read. The token it gives makes the parser recover without
 * another message. */
int lex_bad(Parse *p, const char *text, int len, Span sp) {
    if (p->stop) return FK_YYerror;
    if (text[0] == '"') {
        size_t n = strlen(text);
        sp.len = (uint32_t)(n && text[n - 1] == '\r' ? n - 1 : n);
        diag_error(p->diags, sp, "string-end",
                   "this string does not end on its line: it lacks the closing '\"'");
        return FK_YYerror;
    }
    if (text[0] == '_') {
        diag_error(p->diags, sp, "name-form", "a name starts with a letter");
        return FK_YYerror;
    }
    if ((text[0] >= '0' && text[0] <= '9') || (text[0] == '.' && len > 1)) {
        bad_number(p, text, sp);
        return FK_YYerror;
    }
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
        if (!strcmp(foreign[i].text, text) && (int)strlen(foreign[i].text) == len) {
            diag_error(p->diags, sp, "bad-character", "'%s' has no meaning here: %s", text,
                       foreign[i].cure);
            return FK_YYerror;
        }
    bad_byte(p, text, len, sp);
    return FK_YYerror;
}

/* ---- brackets ----------------------------------------------------------------------------------
 */

void lex_too_deep(Parse *p, Span sp) {
    if (p->stop) return;
    diag_error(p->diags, sp, "nesting",
               "nested deeper than %d; give a part of it a name in a statement of its own",
               AST_DEPTH);
    p->stop = true;
}

void lex_long_chain(Parse *p, Span sp, int terms) {
    if (p->stop) return;
    diag_error(p->diags, sp, "nesting",
               "a chain of %d terms or more is nested too deep: each counts as a level, of which "
               "there are at most %d; split it into statements",
               terms, AST_DEPTH);
    p->stop = true;
}

static bool is_round(const Bracket *b) {
    return b->close != '}';
}

static void drop_round(Parse *p) {
    while (p->open.n && is_round(&p->open.v[p->open.n - 1])) p->open.n--;
    p->round = 0;
}

/* After an error the newlines count again, whatever was left open. */
void lex_recover(Parse *p) {
    drop_round(p);
    p->in_expect = false;
}

static void track_brackets(Parse *p, int tok, Span sp) {
    static const char pairs[] = "()[]{}";
    const char *at = tok > 0 && tok < 128 ? strchr(pairs, tok) : NULL;
    p->partner = (Bracket){0};
    p->stray = false;
    if (tok == END && p->open.n) p->partner = p->open.v[p->open.n - 1];
    if (!at) return;
    if ((at - pairs) % 2 == 0) {
        Bracket b = {at[1], sp};
        if (p->open.n >= AST_DEPTH) lex_too_deep(p, sp);
        vec_push(p->arena, &p->open, b);
        p->round += is_round(&b);
        return;
    }
    p->stray = !p->open.n;
    if (p->stray) return;
    Bracket top = p->open.v[p->open.n - 1];
    if (top.close != tok) p->partner = top;
    if (tok == '}') drop_round(p);
    if (p->open.n && p->open.v[p->open.n - 1].close == tok) {
        p->open.n--;
        p->round -= is_round(&top) && tok != '}';
    }
}

/* ---- the NL rule --------------------------------------------------------------------------------
 */

static bool ends_statement(int tok) {
    return tok == NAME || tok == INT || tok == REAL || tok == INF || tok == STRING || tok == TYPE ||
           tok == ')' || tok == ']' || tok == FK_YYerror;
}

static bool carries_on(int tok) {
    return tok == ARROW || tok == EXPECT || tok == '{' || tok == '}';
}

/* Words that only stand at the head of an item: a bracket left open before them is a mistake of
 * the item above. */
static bool heads_item(int tok) {
    return tok == CONST || tok == DEF || tok == FN || tok == GRAD || tok == USE;
}

int fk_yylex(FK_YYSTYPE *value, Span *span, Parse *p) {
    int tok = p->held;
    if (tok >= 0) {
        *value = *p->held_value;
        *span = p->held_span;
        p->held = -1;
    } else {
        Span nl = {0};
        while ((tok = p->stop ? END : lex_raw(value, span, p->scanner)) == LEX_NEWLINE)
            if (!nl.src) nl = *span;
        if (tok == END) *span = (Span){p->src, p->off, 0};
        if (tok == END) nl = p->open.n ? (Span){0} : nl.src ? nl : *span;
        if (heads_item(tok)) lex_recover(p);
        if (nl.src && ends_statement(p->tok) && !p->round && !p->in_expect && !carries_on(tok)) {
            p->held = tok;
            *p->held_value = *value;
            p->held_span = *span;
            tok = NL;
            *span = nl;
        }
    }
    track_brackets(p, tok, *span);
    if (tok == EXPECT) p->in_expect = true;
    if (tok == '}') p->in_expect = false;
    p->before = p->tok;
    p->before_span = p->tok_span;
    p->tok = tok;
    p->tok_span = *span;
    return tok;
}
