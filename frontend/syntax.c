/* syntax.c - the text of a syntax error: what was expected, what was found, and the cure.
 *
 * The parser knows the token that does not fit and those that would (exactly: it uses LAC). Each
 * cure below recognises one common mistake from these, the token before, and the open brackets;
 * the first that knows its case speaks. What no cure knows gets the list of what was expected.
 */
#include "frontend/syntax_int.h"

#include "frontend/fk.tab.h"

#include <string.h>

static const int expr_starts[] = {NAME, INT, REAL, INF, '(', '-', NOT, REDUCE, MAXMIN, TYPE, 0};
static const int operators[] = {'+', '-', '*', '/', '%', '^', EQ, NE, '<', LE, '>', GE, AND, OR, 0};

static bool among(const int *list, int tok) {
    for (; *list; list++)
        if (*list == tok) return true;
    return false;
}

static bool wants_expr(const SyntaxError *e) {
    return e->want[INT] && e->want[NAME];
}

static bool wants_operator(const SyntaxError *e) {
    return e->want['*'] && e->want['-'];
}

static bool is_word(const Parse *p, Span sp) {
    return lex_is_keyword(p->src->text + sp.off, sp.len);
}

/* ---- texts
 * --------------------------------------------------------------------------------------- */

static const char *found_text(Parse *p, const SyntaxError *e) {
    if (e->got == END) return "the end of the file";
    if (e->got == NL) return "the end of the line";
    int n = (int)e->span.len;
    return arena_printf(p->arena, "'%.*s%s'", n > 40 ? 40 : n, p->src->text + e->span.off,
                        n > 40 ? "..." : "");
}

static const char *wanted_text(Parse *p, int tok) {
    static const struct {
        int tok;
        const char *text;
    } names[] = {{NAME, "a name"},
                 {NL, "the end of the line"},
                 {END, "the end of the file"},
                 {TYPE, "a type"},
                 {STRING, "a path in \"...\""},
                 {INT, "a number"},
                 {CONST, "'const'"},
                 {DEF, "'def'"},
                 {FN, "'fn'"},
                 {GRAD, "'grad'"},
                 {USE, "'use'"},
                 {EXPECT, "'expect'"},
                 {WHERE, "'where'"},
                 {IN, "'in'"},
                 {ARROW, "'->'"},
                 {EQ, "'=='"},
                 {LE, "'<='"},
                 {0, NULL}};
    for (int i = 0; names[i].text; i++)
        if (names[i].tok == tok) return names[i].text;
    return tok < 256 ? arena_printf(p->arena, "'%c'", tok) : NULL;
}

static const char *expected_text(Parse *p, const SyntaxError *e) {
    VEC(const char *) items = {0};
    bool expr = wants_expr(e), op = wants_operator(e);
    if (expr) vec_push(p->arena, &items, "an expression");
    if (op) vec_push(p->arena, &items, "an operator");
    for (int t = 0; t < SYNTAX_TOKENS; t++) {
        if (!e->want[t] || (expr && among(expr_starts, t))) continue;
        if (op && (among(operators, t) || t == '[' || t == '(')) continue;
        if (t == REAL && e->want[INT]) continue;
        const char *text = wanted_text(p, t);
        if (text) vec_push(p->arena, &items, text);
    }
    const char *s = "";
    for (int i = 0; i < items.n; i++)
        s = arena_printf(p->arena, "%s%s%s", s,
                         i == 0             ? ""
                         : i + 1 == items.n ? " or "
                                            : ", ",
                         items.v[i]);
    return items.n ? s : "nothing more";
}

/* ---- cures: true if the mistake was known and has been reported
 * ----------------------------------- */

/* A line that goes on with the one above: either its first token does not fit, or the end of the
 * line above does not, and then the first token is still held. */
static bool cure_line_above(Parse *p, const SyntaxError *e) {
    bool held = e->got == NL && p->held > 0;
    int tok = held ? p->held : e->got;
    Span at = held ? p->held_span : e->span, end = held ? e->span : p->before_span;
    bool joins = among(operators, tok) || (tok > 0 && tok < 128 && strchr(",:=([", tok));
    if ((!held && p->before != NL) || !joins) return false;
    int n = (int)at.len;
    const char *s = p->src->text + at.off;
    diag_error(p->diags, at, "line-complete",
               "a line cannot start with '%.*s': the line above is complete; put '%.*s' at its end",
               n, s, n, s);
    diag_note(p->diags, end, "the statement ends here");
    return true;
}

static bool cure_chain(Parse *p, const SyntaxError *e) {
    static const int compare[] = {EQ, NE, '<', LE, '>', GE, 0};
    if (!among(compare, e->got) || !e->want[AND]) return false;
    diag_error(p->diags, e->span, "comparison-chain",
               "comparisons do not chain: 'a < b < c' is written 'a < b and b < c'");
    return true;
}

static bool cure_plain_index(Parse *p, const SyntaxError *e) {
    static const int not_names[] = {INT, REAL, INF, '(', '-', NOT, 0};
    bool after = e->want[IN] && (among(operators, e->got) || strchr("[(=", e->got & 127));
    bool first = (p->before == '[' || p->before == ',') && e->want[NAME] && !wants_expr(e) &&
                 among(not_names, e->got) && p->src->text[p->open.v[p->open.n - 1].span.off] == '[';
    if (!e->got || (!after && !first)) return false;
    diag_error(
        p->diags, after ? span_join(p->before_span, e->span) : e->span, "index-form",
        "an index that is defined here is a plain name, with its range after 'in' if need be");
    return true;
}

static bool cure_assign(Parse *p, const SyntaxError *e) {
    if (e->got != '=' || !e->want[EQ] || !e->want['*']) return false;
    diag_error(p->diags, e->span, "compare-equal",
               "'=' defines a name and cannot stand here; to compare, write '=='");
    return true;
}

static bool cure_subscript(Parse *p, const SyntaxError *e) {
    if (e->got != '[' || p->before != ']') return false;
    diag_error(p->diags, e->span, "index-list",
               "all indices stand in one pair of brackets: x[i][j] is written x[i, j]");
    return true;
}

static bool cure_reduction(Parse *p, const SyntaxError *e) {
    if (p->before != REDUCE || e->got == '[') return false;
    int n = (int)p->before_span.len;
    const char *word = p->src->text + p->before_span.off;
    diag_error(p->diags, span_join(p->before_span, e->span), "reduction-form",
               "'%.*s' names its indices in brackets: %.*s[k] x[k]", n, word, n, word);
    return true;
}

static bool cure_reserved(Parse *p, const SyntaxError *e) {
    bool item = e->got == FN || e->got == DEF || e->got == CONST || e->got == USE || e->got == GRAD;
    bool line_start = p->before == NL || p->before == '}' || p->before == 0;
    if (!e->want[NAME] || !is_word(p, e->span) || (item && line_start)) return false;
    diag_error(p->diags, e->span, "reserved-word",
               "%s is a word of the language and cannot be a name", found_text(p, e));
    return true;
}

static bool cure_type(Parse *p, const SyntaxError *e) {
    static const struct {
        const char *other, *ours;
    } known[] = {{"float", "f32"},
                 {"float32", "f32"},
                 {"fp32", "f32"},
                 {"half", "f16"},
                 {"float16", "f16"},
                 {"fp16", "f16"},
                 {"bfloat16", "bf16"},
                 {"bfloat", "bf16"},
                 {"int", "i32"},
                 {"int32", "i32"},
                 {"long", "i64"},
                 {"int64", "i64"},
                 {"int8", "i8"},
                 {"uint8", "u8"},
                 {"int4", "i4"},
                 {"uint4", "u4"},
                 {"fp8", "e4m3"},
                 {"f8", "e4m3"},
                 {"float8_e4m3fn", "e4m3"},
                 {"float8_e5m2", "e5m2"}};
    if (!e->want[TYPE] || wants_expr(e) || e->got != NAME) return false;
    const char *word = found_text(p, e), *ours = NULL;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strlen(known[i].other) == e->span.len &&
            !memcmp(known[i].other, p->src->text + e->span.off, e->span.len))
            ours = known[i].ours;
    if (ours) {
        diag_error(p->diags, e->span, "type-name", "%s is no type; did you mean '%s'?", word, ours);
        return true;
    }
    const char *all = "";
    for (int i = 0; i < DT_COUNT; i++)
        all = arena_printf(p->arena, "%s%s%s", all, i ? " " : "", dtype_name(i));
    diag_error(p->diags, e->span, "type-name", "%s is no type; the types are %s", word, all);
    return true;
}

static bool cure_empty(Parse *p, const SyntaxError *e) {
    bool brackets = p->before == '[' && e->got == ']', parens = p->before == '(' && e->got == ')';
    if (!brackets && !(parens && wants_expr(e))) return false;
    Span both = span_join(p->before_span, e->span);
    if (brackets)
        diag_error(p->diags, both, "empty-brackets",
                   "empty brackets: a value without indices is written without brackets");
    else
        diag_error(p->diags, both, "empty-brackets", "empty parentheses: an argument is missing");
    return true;
}

static bool cure_comma(Parse *p, const SyntaxError *e) {
    if (p->before != ',' || (e->got != ')' && e->got != ']')) return false;
    diag_error(p->diags, p->before_span, "trailing-comma", "a comma cannot stand before %s",
               found_text(p, e));
    return true;
}

static bool cure_signature(Parse *p, const SyntaxError *e) {
    const char *found = found_text(p, e);
    if (e->want[ARROW]) {
        diag_error(p->diags, e->span, "signature",
                   "expected '->', found %s: a fn names its outputs, -> (y: f32[M])", found);
        return true;
    }
    if (e->want[':'] && !e->want['=']) {
        diag_error(p->diags, e->span, "signature",
                   "expected ':', found %s: a parameter of a fn has a type, x: f32[M, K]", found);
        return true;
    }
    if (e->got == ':' && e->want[','] && e->want[')'] && !wants_operator(e)) {
        diag_error(p->diags, e->span, "signature", "the parameters of a def have no types");
        return true;
    }
    return false;
}

/* A missing closing bracket shows at its partner, at the end, or when the next line begins. */
static bool cure_unclosed(Parse *p, const SyntaxError *e) {
    Bracket b = p->partner;
    if (!b.close && p->round) b = p->open.v[p->open.n - 1];
    if (!b.close || !e->want[(int)b.close]) return false;
    uint32_t from = p->before_span.off;
    bool new_line = memchr(p->src->text + from, '\n', p->tok_span.off - from);
    bool never_inside = e->got == '=' || e->got == ARROW || e->got == '{';
    if (!p->partner.close && !new_line && !never_inside) return false;
    diag_error(p->diags, e->span, "bracket", "expected '%c' before %s", b.close, found_text(p, e));
    diag_note(p->diags, b.span, "to close this '%c'", p->src->text[b.span.off]);
    return true;
}

static bool cure_operator(Parse *p, const SyntaxError *e) {
    bool operand = e->got == NAME || e->got == INT || e->got == REAL || e->got == '(' ||
                   e->got == REDUCE || e->got == MAXMIN || e->got == TYPE;
    if (!wants_operator(e) || !operand) return false;
    diag_error(p->diags, e->span, "missing-operator",
               "expected an operator before %s; a product is written with '*'", found_text(p, e));
    return true;
}

static bool cure_closes_nothing(Parse *p, const SyntaxError *e) {
    if (!p->stray) return false;
    diag_error(p->diags, e->span, "bracket", "this %s closes nothing", found_text(p, e));
    return true;
}

static bool (*const cures[])(Parse *, const SyntaxError *) = {
    cure_line_above, cure_chain,     cure_plain_index, cure_assign,         cure_subscript,
    cure_reduction,  cure_empty,     cure_comma,       cure_reserved,       cure_type,
    cure_unclosed,   cure_signature, cure_operator,    cure_closes_nothing,
};

void syntax_error(Parse *p, const SyntaxError *given) {
    if (p->stop) return;
    SyntaxError e = *given;
    if ((e.got == NL || e.got == END) && p->before_span.src)
        e.span = (Span){p->src, p->before_span.off + p->before_span.len, 1};
    bool known = false;
    for (size_t i = 0; !known && i < sizeof cures / sizeof *cures; i++) known = cures[i](p, &e);
    if (!known)
        diag_error(p->diags, e.span, "syntax", "expected %s, found %s", expected_text(p, &e),
                   found_text(p, &e));
    lex_recover(p);
}
