/* lex_int.h - the state of one parse, and the two halves of the scanner.
 *
 * fk.l cuts bytes into tokens; lex.c stands between it and the grammar and decides which newlines
 * end a statement (the NL rule of the language), matches brackets, and counts their depth.
 */
#ifndef FK_FRONTEND_LEX_INT_H
#define FK_FRONTEND_LEX_INT_H

#include "frontend/ast.h"

union FK_YYSTYPE;

typedef struct Bracket {
    char close; /* what would close it; 0: none */
    Span span;
} Bracket;

struct Parse {
    Arena *arena;
    Diags *diags;
    const Source *src;
    AstFile *file;
    void *scanner;
    uint32_t off; /* where the next raw token starts */

    int tok, before; /* the last token handed out and the one before it; 0 at the start */
    Span tok_span, before_span;
    int held; /* a token read but not yet handed out; -1: none */
    union FK_YYSTYPE *held_value;
    Span held_span;

    VEC(Bracket) open; /* ( [ { not yet closed */
    int round;         /* how many of them are ( or [ */
    Bracket partner;   /* if tok is a closing bracket or the end: what was open and does not fit */
    bool stray;        /* tok is a closing bracket, and nothing was open */
    bool in_expect;    /* between "expect" and its "}" */
    bool stop;         /* too deep to go on: the rest of the file is not read, in silence */
};

/* fk.l: the raw scanner; newlines are LEX_NEWLINE. */
enum { LEX_NEWLINE = 10000 };
int lex_raw(union FK_YYSTYPE *value, Span *span, void *scanner);
void lex_open(Parse *p);
void lex_close(Parse *p);

/* lex.c, for the scanner */
int lex_word(Parse *p, const char *text, int len, union FK_YYSTYPE *value);
int lex_number(Parse *p, const char *text, Span sp, bool real, union FK_YYSTYPE *value);
int lex_bad(Parse *p, const char *text, int len, Span sp);

/* lex.c, for the parser */
int fk_yylex(union FK_YYSTYPE *value, Span *span, Parse *p);
void lex_too_deep(Parse *p, Span sp); /* says so once, and ends the file there */
void lex_long_chain(Parse *p, Span sp, int terms);
void lex_recover(Parse *p); /* after a syntax error: newlines count again */
bool lex_is_keyword(const char *text, size_t len);

/* fk.y */
int fk_yyparse(Parse *p);

#endif
