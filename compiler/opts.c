/* opts.c - parses a command line by its table, prints --help from the same rows, and guesses what
 * a mistyped word was meant to be (edit distance, transpositions counted once).
 */
#include "compiler/opts_int.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* ---- did you mean ------------------------------------------------------------------------------
 */

static int least(int a, int b) {
    return a < b ? a : b;
}

/* Optimal string alignment distance. Words longer than 31 are never near anything. */
static int distance(const char *a, const char *b) {
    enum { MAX = 32 };
    int n = (int)strlen(a), m = (int)strlen(b), d[MAX][MAX];
    if (n >= MAX || m >= MAX) return MAX;
    for (int i = 0; i <= n; i++) d[i][0] = i;
    for (int j = 0; j <= m; j++) d[0][j] = j;
    for (int i = 1; i <= n; i++) {
        for (int j = 1; j <= m; j++) {
            int swap = a[i - 1] != b[j - 1];
            d[i][j] = least(least(d[i - 1][j] + 1, d[i][j - 1] + 1), d[i - 1][j - 1] + swap);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                d[i][j] = least(d[i][j], d[i - 2][j - 2] + 1);
        }
    }
    return d[n][m];
}

const char *opts_nearest(const char *word, const char *const *candidates, int n) {
    const char *best = NULL;
    int limit = (int)strlen(word) / 3 + 1, found = limit + 1;
    for (int i = 0; i < n; i++) {
        int d = distance(word, candidates[i]);
        if (d < found) found = d, best = candidates[i];
    }
    return best;
}

void opts_split(Arena *a, const char *list, char sep, OptMany *out) {
    for (const char *p = list;; p++) {
        size_t n = strcspn(p, (char[]){sep, 0});
        vec_push(a, out, arena_strndup(a, p, n));
        p += n;
        if (!*p) return;
    }
}

static void suggest(Str *why, const char *prefix, const char *word, const OptMany *words) {
    const char *near = opts_nearest(word, words->v, words->n);
    if (near) str_printf(why, "; did you mean '%s%s'?", prefix, near);
}

/* ---- parsing -----------------------------------------------------------------------------------
 */

typedef struct Parser {
    Arena *arena;
    const OptTable *table;
    char *out;
    Str *why;
} Parser;

static const OptRow *find_long(const OptTable *t, const char *name, size_t n) {
    for (int i = 0; i < t->n; i++) {
        const OptRow *r = &t->rows[i];
        if (r->kind != OPT_HEAD && strlen(r->name) == n && !memcmp(r->name, name, n)) return r;
    }
    return NULL;
}

static const OptRow *find_letter(const OptTable *t, char c) {
    for (int i = 0; i < t->n; i++)
        if (t->rows[i].kind != OPT_HEAD && t->rows[i].letter == c && c) return &t->rows[i];
    return NULL;
}

static bool unknown(Parser *p, const char *arg, const char *name, size_t n) {
    OptMany names = {0};
    for (int i = 0; i < p->table->n; i++)
        if (p->table->rows[i].kind != OPT_HEAD) vec_push(p->arena, &names, p->table->rows[i].name);
    str_printf(p->why, "unknown option '%s'", arg);
    if (name) suggest(p->why, "--", arena_strndup(p->arena, name, n), &names);
    return false;
}

/* The index of `word` in the words of the row; -1 after saying which there are. */
static int word_index(Parser *p, const OptRow *r, const char *word) {
    OptMany words = {0};
    opts_split(p->arena, r->arg, '|', &words);
    for (int i = 0; i < words.n; i++)
        if (!strcmp(words.v[i], word)) return i;
    str_printf(p->why, "--%s=%s: not one of %s", r->name, word, r->arg);
    suggest(p->why, "", word, &words);
    return -1;
}

static bool set_number(Parser *p, const OptRow *r, const char *value) {
    char *end;
    errno = 0;
    long v = strtol(value, &end, 10);
    if (errno || end == value || *end || v < 0 || v > INT_MAX) {
        str_printf(p->why, "--%s=%s: needs a number from 0 to %d", r->name, value, INT_MAX);
        return false;
    }
    *(int *)(void *)(p->out + r->offset) = (int)v;
    return true;
}

static bool set_words(Parser *p, const OptRow *r, const char *value) {
    OptMany parts = {0};
    opts_split(p->arena, value, ',', &parts);
    for (int i = 0; i < parts.n; i++) {
        int k = word_index(p, r, parts.v[i]);
        if (k < 0) return false;
        *(unsigned *)(void *)(p->out + r->offset) |= 1u << k;
    }
    return true;
}

static bool set(Parser *p, const OptRow *r, const char *value) {
    void *field = p->out + r->offset;
    switch (r->kind) {
    case OPT_FLAG: *(bool *)field = true; return true;
    case OPT_TEXT: *(const char **)field = value; return true;
    case OPT_INT: return set_number(p, r, value);
    case OPT_MANY: vec_push(p->arena, (OptMany *)field, value); return true;
    case OPT_SET: return set_words(p, r, value);
    case OPT_ONE: *(int *)field = word_index(p, r, value); return *(int *)field >= 0;
    case OPT_HEAD: break;
    }
    FK_BUG("option kind %d", (int)r->kind);
}

/* One argument that starts with '-'; may take the next one as its value. */
static bool option(Parser *p, char **argv, int argc, int *i) {
    const char *arg = argv[*i], *value = NULL;
    const OptRow *r;
    if (arg[1] == '-') {
        size_t n = strcspn(arg + 2, "=");
        r = find_long(p->table, arg + 2, n);
        if (!r) return unknown(p, arg, arg + 2, n);
        if (arg[2 + n]) value = arg + 3 + n;
    } else {
        r = find_letter(p->table, arg[1]);
        if (!r || (r->kind == OPT_FLAG && arg[2])) return unknown(p, arg, NULL, 0);
        if (arg[2]) value = arg + 2;
    }
    if (r->kind == OPT_FLAG && value) {
        str_printf(p->why, "--%s takes no value", r->name);
        return false;
    }
    if (r->kind != OPT_FLAG && !value) {
        if (*i + 1 >= argc) {
            str_printf(p->why, "--%s needs a value: --%s=%s", r->name, r->name, r->arg);
            return false;
        }
        value = argv[++*i];
    }
    return set(p, r, value);
}

bool opts_parse(Arena *a, const OptTable *t, int argc, char **argv, void *out, OptMany *inputs,
                OptMany *rest, Str *why) {
    Parser p = {a, t, out, why};
    for (int i = 0; i < t->n; i++) {
        void *field = p.out + t->rows[i].offset;
        if (t->rows[i].kind == OPT_INT || t->rows[i].kind == OPT_ONE) *(int *)field = -1;
    }
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--")) {
            for (i++; i < argc; i++) vec_push(a, rest ? rest : inputs, argv[i]);
        } else if (argv[i][0] == '-' && argv[i][1]) {
            if (!option(&p, argv, argc, &i)) return false;
        } else {
            vec_push(a, inputs, argv[i]);
        }
    }
    return true;
}

/* ---- help --------------------------------------------------------------------------------------
 */

/* `text` wrapped to 96 columns, continued at column `indent`; the first line starts at `col`. */
static void wrapped(Str *out, const char *text, int col, int indent) {
    while (*text) {
        int n = (int)strcspn(text, " ");
        if (col > indent && col + 1 + n > 96) {
            str_printf(out, "\n%*s", indent, "");
            col = indent;
        }
        if (col > indent) str_addc(out, ' '), col++;
        str_addn(out, text, (size_t)n);
        col += n;
        text += n;
        while (*text == ' ') text++;
    }
    str_add(out, "\n");
}

void opts_help(Str *out, const OptTable *t) {
    enum { COLUMN = 26 };
    str_printf(out, "usage: %s\n\n%s\n", t->usage, t->about);
    for (int i = 0; i < t->n; i++) {
        const OptRow *r = &t->rows[i];
        if (r->kind == OPT_HEAD) {
            str_printf(out, "\n%s:\n", r->name);
            continue;
        }
        Str left = {0};
        if (r->letter)
            str_printf(&left, "  -%c, ", r->letter);
        else
            str_add(&left, "  ");
        str_printf(&left, "--%s", r->name);
        if (r->kind != OPT_FLAG) str_printf(&left, "=%s", r->arg);
        str_add(out, str_get(&left));
        if (left.n >= COLUMN)
            str_printf(out, "\n%*s", COLUMN, "");
        else
            str_printf(out, "%*s", (int)(COLUMN - left.n), "");
        wrapped(out, r->help, COLUMN, COLUMN);
        str_free(&left);
    }
}
