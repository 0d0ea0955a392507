// See lex_int.h.
#include "runtime/emu/lex_int.h"

#include <stdlib.h>

static bool is_word(const char *p) {
    unsigned char c = (unsigned char)*p;
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '$' || c == '%' || c == '.';
}

static void skip_blanks(EmuLexer *l) {
    for (;; l->at++) {
        const char *p = l->at;
        if (*p == '\n') {
            l->line++;
        } else if (p[0] == '/' && p[1] == '/') {
            while (l->at[1] && l->at[1] != '\n') l->at++;
        } else if (p[0] == '/' && p[1] == '*') {
            for (l->at += 2; *l->at && (l->at[0] != '*' || l->at[1] != '/'); l->at++)
                l->line += *l->at == '\n';
            if (!*l->at) emu_fail(l->arena, l->line, "a comment without an end");
            l->at++;
        } else if (*p != ' ' && *p != '\t' && *p != '\r') {
            return;
        }
    }
}

// 0x1F, 017, 12, 12U; 0f3F800000; 0d3FF0000000000000.
static void number(EmuLexer *l) {
    EmuToken *t = &l->token;
    char *end;
    t->kind = TOKEN_NUMBER;
    char kind = l->at[0] == '0' ? (char)(l->at[1] | 32) : 0;
    if (kind == 'f' || kind == 'd') {
        t->bits = kind == 'f' ? 32 : 64;
        t->value = strtoull(l->at + 2, &end, 16);
        if (end - l->at != 2 + t->bits / 4)
            emu_fail(l->arena, l->line, "a float needs %d hexadecimal digits", t->bits / 4);
    } else if (kind == 'b') {
        t->value = strtoull(l->at + 2, &end, 2);
    } else {
        t->value = strtoull(l->at, &end, 0);
    }
    if (*end == 'U') end++;
    if (*end == '.' && l->at[0] != '0')
        strtoull(end + 1, &end, 10); // of .version: what is behind it
    if (is_word(end)) emu_fail(l->arena, l->line, "a number that ends in '%.8s'", end);
    l->at = end;
}

void emu_next(EmuLexer *l) {
    skip_blanks(l);
    const char *p = l->at;
    l->token = (EmuToken){.kind = TOKEN_SIGN, .at = p, .line = l->line};
    if (!*p) {
        l->token.kind = TOKEN_END;
    } else if (*p >= '0' && *p <= '9') {
        number(l);
    } else if (is_word(p)) {
        l->token.kind = TOKEN_WORD;
        for (; is_word(l->at) || (l->at[0] == ':' && l->at[1] == ':'); l->at++)
            l->at += *l->at == ':';
    } else if (*p == '"') {
        l->token.kind = TOKEN_STRING;
        for (l->at++; *l->at && *l->at != '"' && *l->at != '\n'; l->at++) {
        }
        if (*l->at != '"') emu_fail(l->arena, l->line, "a string without an end");
        l->at++;
    } else {
        l->at++;
    }
    l->token.n = (uint32_t)(l->at - p);
}

void emu_lex(EmuLexer *l, EmuArena *arena, const char *text) {
    *l = (EmuLexer){.arena = arena, .at = text, .line = 1};
    emu_next(l);
}

bool emu_is(const EmuLexer *l, const char *text) {
    size_t n = strlen(text);
    return l->token.n == n && !memcmp(l->token.at, text, n);
}

bool emu_take(EmuLexer *l, const char *text) {
    bool is = emu_is(l, text);
    if (is) emu_next(l);
    return is;
}

static void unexpected(const EmuLexer *l, const char *wanted) {
    emu_fail(l->arena, l->token.line, "expected %s, found '%.*s'", wanted,
             l->token.n < 40 ? (int)l->token.n : 40, l->token.at);
}

void emu_expect(EmuLexer *l, const char *text) {
    char wanted[40];
    snprintf(wanted, sizeof wanted, "'%s'", text);
    if (!emu_take(l, text)) unexpected(l, wanted);
}

EmuToken emu_word(EmuLexer *l, const char *what) {
    EmuToken t = l->token;
    if (t.kind != TOKEN_WORD) unexpected(l, what);
    emu_next(l);
    return t;
}

int64_t emu_integer(EmuLexer *l, const char *what) {
    bool minus = emu_take(l, "-");
    EmuToken t = l->token;
    if (t.kind != TOKEN_NUMBER || t.bits) unexpected(l, what);
    emu_next(l);
    return minus ? -(int64_t)t.value : (int64_t)t.value;
}
