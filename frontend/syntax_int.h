/* syntax_int.h - what the parser hands to the writer of its messages. */
#ifndef FK_FRONTEND_SYNTAX_INT_H
#define FK_FRONTEND_SYNTAX_INT_H

#include "frontend/lex_int.h"

enum { SYNTAX_TOKENS = 320 }; /* over the largest token code */

typedef struct SyntaxError {
    Span span;
    int got;                  /* the token that does not fit */
    bool want[SYNTAX_TOKENS]; /* those that would */
} SyntaxError;

void syntax_error(Parse *p, const SyntaxError *e);

#endif
