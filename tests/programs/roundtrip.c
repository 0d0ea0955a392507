/* roundtrip.c - every program parses; its printed tree has the tokens of the source, line ends
 * apart, and prints the same again once it is read back. */
#include "frontend/lex_int.h"
#include "frontend/frontend.h"

#include "frontend/fk.tab.h"

#include <string.h>

typedef struct Token {
    int tok;
    FK_YYSTYPE value;
} Token;
typedef VEC(Token) Tokens;

static Tokens tokens_of(Arena *a, Diags *d, const char *text, size_t len) {
    FK_YYSTYPE held, value = {0};
    Parse p = {.arena = a, .diags = d, .held = -1, .held_value = &held};
    p.src = source_new(a, "tokens", text, len);
    Tokens list = {0};
    Span sp;
    lex_open(&p);
    for (int tok; (tok = fk_yylex(&value, &sp, &p)) != END;)
        if (tok != NL) vec_push(a, &list, ((Token){tok, value}));
    lex_close(&p);
    return list;
}

static bool same_token(const Token *x, const Token *y) {
    if (x->tok != y->tok) return false;
    switch (x->tok) {
    case NAME:
    case STRING: return !strcmp(x->value.text, y->value.text);
    case INT: return x->value.i == y->value.i;
    case REAL: return x->value.r >= y->value.r && x->value.r <= y->value.r;
    case TYPE:
    case REDUCE:
    case MAXMIN: return x->value.word == y->value.word;
    default: return true;
    }
}

static const char *print_of(Arena *a, Diags *d, const char *path, const char *text, size_t len) {
    Ast *ast = frontend_parse(a, d, &frontend_disk, path, text, len);
    Str out = {0};
    frontend_print(ast, &out);
    const char *s = arena_strdup(a, str_get(&out));
    str_free(&out);
    return s;
}

static const char *check(Arena *a, Diags *d, const char *path) {
    size_t len = 0;
    const char *why = NULL, *text = frontend_disk.read(NULL, a, path, &len, &why);
    if (!text) return why;
    const char *once = print_of(a, d, path, text, len);
    const char *twice = print_of(a, d, path, once, strlen(once));
    if (d->errors) return "it does not parse";
    if (strcmp(once, twice)) return "the printed tree reads back as another";
    Tokens x = tokens_of(a, d, text, len), y = tokens_of(a, d, once, strlen(once));
    if (x.n != y.n) return "the printed tree has another number of tokens";
    for (int i = 0; i < x.n; i++)
        if (!same_token(&x.v[i], &y.v[i])) return "the printed tree has other tokens";
    return NULL;
}

int main(int argc, char **argv) {
    int failed = argc < 2;
    for (int i = 1; i < argc; i++) {
        Arena a = {0};
        Diags d = {.arena = &a};
        const char *why = check(&a, &d, argv[i]);
        if (why) {
            Str s = {0};
            diag_print(&d, &s, false);
            printf("FAIL %s: %s\n%s", argv[i], why, str_get(&s));
            str_free(&s);
            failed++;
        }
        arena_free(&a);
    }
    printf("%d programs, %d failed\n", argc - 1, failed);
    return failed != 0;
}
