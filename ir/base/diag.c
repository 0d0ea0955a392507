/* diag.c - source places, and diagnostics collected in order and printed in clang's layout. */
#include "ir/base/base.h"

#include <string.h>

Source *source_new(Arena *a, const char *path, const char *text, size_t len) {
    Source *s = ARENA_NEW(a, Source);
    s->path = arena_strdup(a, path);
    s->text = arena_strndup(a, text, len);
    s->len = len;
    VEC(size_t) lines = {0};
    vec_push(a, &lines, 0);
    for (size_t i = 0; i < len; i++)
        if (s->text[i] == '\n') vec_push(a, &lines, i + 1);
    s->line = lines.v;
    s->nlines = lines.n;
    return s;
}

void source_place(Span sp, int *line, int *col) {
    int lo = 0, hi = sp.src->nlines - 1;
    while (lo < hi) {
        int mid = (lo + hi + 1) / 2;
        if (sp.src->line[mid] <= sp.off)
            lo = mid;
        else
            hi = mid - 1;
    }
    *line = lo + 1;
    *col = (int)(sp.off - sp.src->line[lo]) + 1;
}

Span span_join(Span a, Span b) {
    if (!a.src) return b;
    if (!b.src || b.src != a.src) return a;
    uint32_t end_a = a.off + a.len, end_b = b.off + b.len;
    uint32_t off = a.off < b.off ? a.off : b.off;
    return (Span){a.src, off, (end_a > end_b ? end_a : end_b) - off};
}

static void diag_add(Diags *d, DiagLevel level, Span sp, const char *rule, const char *fmt,
                     va_list ap) {
    int limit = d->limit ? d->limit : 20;
    if (level == DIAG_ERROR) d->errors++;
    if (level == DIAG_WARNING) d->warnings++;
    if (d->errors > limit) return; /* the notes of a dropped error go with it */
    Diag one = {level, sp, arena_vprintf(d->arena, fmt, ap), rule};
    vec_push(d->arena, &d->list, one);
}

void diag_error(Diags *d, Span sp, const char *rule, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    diag_add(d, DIAG_ERROR, sp, rule, fmt, ap);
    va_end(ap);
}

void diag_warn(Diags *d, Span sp, const char *rule, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    diag_add(d, DIAG_WARNING, sp, rule, fmt, ap);
    va_end(ap);
}

void diag_note(Diags *d, Span sp, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    diag_add(d, DIAG_NOTE, sp, NULL, fmt, ap);
    va_end(ap);
}

/* Bytes of the printable character at s (a tab is one); 0 when there is none. */
static size_t utf8_len(const char *s, size_t n) {
    unsigned char c = (unsigned char)s[0];
    if (c < 0x80) return c >= 32 || c == '\t';
    size_t len = c >= 0xF0 ? 4 : c >= 0xE0 ? 3 : 2;
    if (c < 0xC2 || c > 0xF4 || n < len) return 0;
    if (c == 0xC2 && (unsigned char)s[1] < 0xA0) return 0; /* C1 controls */
    for (size_t i = 1; i < len; i++)
        if (((unsigned char)s[i] & 0xC0) != 0x80) return 0;
    return len;
}

/* The source line with its caret line. A tab stays a tab in both, so that they line up; bytes
 * that a terminal might obey are shown as '?'. Very long lines are cut around the caret. */
static void print_excerpt(Str *out, Span sp, int line, int col, const char *on, const char *off) {
    const Source *src = sp.src;
    size_t start = src->line[line - 1], end = start;
    while (end < src->len && src->text[end] != '\n') end++;
    if (end > start && src->text[end - 1] == '\r') end--;
    size_t caret = start + (size_t)(col - 1), from = start, to = end;
    if (end - start > 160) {
        from = caret > start + 60 ? caret - 60 : start;
        to = from + 160 < end ? from + 160 : end;
    }
    for (size_t i = from, n; i < to; i += n) {
        n = utf8_len(src->text + i, to - i);
        if (n && src->text[i] != 127)
            str_addn(out, src->text + i, n);
        else
            str_addc(out, '?');
        n += !n;
    }
    str_add(out, "\n");
    for (size_t i = from; i < caret && i < to; i++)
        if (((unsigned char)src->text[i] & 0xC0) != 0x80) /* UTF-8 tails take no column */
            str_addc(out, src->text[i] == '\t' ? '\t' : ' ');
    str_add(out, on);
    str_addc(out, '^');
    for (size_t i = caret + 1; i < caret + sp.len && i < to; i++)
        if (((unsigned char)src->text[i] & 0xC0) != 0x80) str_addc(out, '~');
    str_printf(out, "%s\n", off);
}

void diag_print(const Diags *d, Str *out, bool color) {
    static const char *const name[] = {"error", "warning", "note"};
    static const char *const hue[] = {"\033[1;31m", "\033[1;35m", "\033[1;36m"};
    const char *bold = color ? "\033[1m" : "", *off = color ? "\033[0m" : "";
    for (int i = 0; i < d->list.n; i++) {
        const Diag *g = &d->list.v[i];
        int line = 0, col = 0;
        if (g->span.src) {
            source_place(g->span, &line, &col);
            str_printf(out, "%s%s:%d:%d:%s ", bold, g->span.src->path, line, col, off);
        } else {
            str_printf(out, "%sfkc:%s ", bold, off);
        }
        str_printf(out, "%s%s:%s %s%s%s\n", color ? hue[g->level] : "", name[g->level], off, bold,
                   g->text, off);
        if (line) print_excerpt(out, g->span, line, col, color ? "\033[1;32m" : "", off);
    }
    int limit = d->limit ? d->limit : 20;
    if (d->errors > limit)
        str_printf(out, "fkc: %d more error%s not shown\n", d->errors - limit,
                   d->errors - limit == 1 ? "" : "s");
}
