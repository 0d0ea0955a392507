/* text_int.h - what the IR texts (graph, tile, schedule) share: tokens, index expressions, names.
 *
 * A reader is position-driven: what a word means follows from where it stands, so names may be
 * equal to keywords. Lines matter: a line end is a token, except inside ( ) and [ ]; blank lines
 * and "# ..." comments vanish. The first error is kept as a diagnostic (rule "ir-text"); after it
 * the reader stands at the end of the text and every read gives a neutral value (0, "", never
 * NULL), so that parsers check t->failed in their loops and nowhere else.
 *
 *     Text t;
 *     text_open(&t, arena, src, diags);
 *     if (text_accept(&t, "loop")) { const char *axis = text_name(&t); text_expect(&t, "{"); ...
 *
 * A value number is written %N. Names that are no plain word are written as strings; text_put_name
 * and text_name do both.
 */
#ifndef FK_IR_TEXT_INT_H
#define FK_IR_TEXT_INT_H

#include "ir/ix.h"

typedef enum TokKind {
    TOK_END,
    TOK_LINE,   /* one or more line ends */
    TOK_NAME,   /* [A-Za-z_] then letters, digits, _ and inner dots: "linear_gelu.0" */
    TOK_INT,    /* digits; num is the value, saturated at 2^63 */
    TOK_REAL,   /* with a point or an exponent */
    TOK_STRING, /* "...", with \" \\ \n \xHH */
    TOK_PUNCT   /* -> .. == != <= >= or one character */
} TokKind;

typedef struct Tok {
    TokKind kind;
    Span span;
    const char *text; /* name, decoded string, punctuation, digits; NUL-terminated */
    uint64_t num;
} Tok;

typedef struct Text {
    Arena *arena;
    const Source *src;
    Diags *diags;
    size_t pos;
    int depth; /* open ( and [ */
    int nest;  /* depth of text_ix's recursion */
    bool failed;
    Tok tok; /* the current token */
} Text;

void text_open(Text *t, Arena *a, const Source *src, Diags *d);
void text_next(Text *t);
void text_error(Text *t, const char *fmt, ...) FK_PRINTF(2, 3); /* at the current token */

/* `what` is a punctuation or a word (a string token is never a word). */
bool text_is(const Text *t, const char *what);
bool text_accept(Text *t, const char *what);
bool text_expect(Text *t, const char *what);

const char *text_name(Text *t);     /* a word or a string */
const char *text_string(Text *t);   /* a string */
int64_t text_int(Text *t);          /* with an optional '-' */
int text_count(Text *t, int limit); /* an integer in [0, limit) */
double text_real(Text *t);          /* integer or real with an optional '-', inf, nan */
int text_value(Text *t, int limit); /* %N, N in [0, limit) */
void text_end_line(Text *t);        /* a line end, or before '}' or the end of the text */
void text_skip_lines(Text *t);      /* an optional line end */

/* Index expressions as ix_print writes them:
 *     ix   := term {("+" | "-") term}
 *     term := atom {("*" | "/" | "%") atom}
 *     atom := INT | "-" atom | NAME | "%" INT [ "[" ix {"," ix} "]" ] | "(" ix ")"
 *           | ("min" | "max") "(" ix "," ix ")"  | NAME "[" ix {"," ix} "]"  a named value
 * A bare NAME is looked up in axis, then size, then value. */
typedef struct TextScope {
    IxPool *ix;
    const char *const *size;
    int nsizes;
    const char *const *axis;
    int naxes;
    const Map *value; /* names of values; may be NULL */
    int nvalues;      /* value numbers must be below it */
} TextScope;
const Ix *text_ix(Text *t, const TextScope *s);

/* Printing. */
void text_put_name(Str *out, const char *name);     /* quoted unless a plain word */
void text_put_string(Str *out, const char *string); /* always quoted */
bool text_is_word(const char *name);                /* NULL is none */

/* Names for n axes that are words, differ from each other and from taken[]: want[i] where it
 * already is so (NULL: "i"), else want[i] with a number behind it. Idempotent. */
const char *const *text_unique(Arena *a, const char *const *want, int n, const char *const *taken,
                               int ntaken);

#endif
