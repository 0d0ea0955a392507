/* parse.c - reads files, runs the parser over each, and follows `use`.
 *
 * A path in `use` is relative to the file that says it. Paths are compared after "." and ".." are
 * taken out of them; each file is read once, a file that is still being read is a cycle.
 */
#include "frontend/frontend.h"
#include "frontend/lex_int.h"

#include "frontend/fk.tab.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

enum { FILE_LIMIT = 16 << 20, USE_DEPTH = 100 };

typedef struct Opened {
    const char *path;
    bool reading; /* its own uses are not through yet */
    Span used_at;
} Opened;

typedef struct Loader {
    Arena *arena;
    Diags *diags;
    const FrontendReader *reader;
    Ast *ast;
    VEC(Opened) seen;
} Loader;

/* ---- the reader of real files
 * --------------------------------------------------------------------- */

static const char *disk_read(void *ctx, Arena *a, const char *path, size_t *len, const char **why) {
    (void)ctx;
    FILE *f = fopen(path, "rb");
    struct stat st;
    if (f && !fstat(fileno(f), &st) && S_ISDIR(st.st_mode)) {
        fclose(f);
        *why = "it is a directory";
        return NULL;
    }
    if (!f) {
        *why = arena_strdup(a, strerror(errno));
        return NULL;
    }
    Str text = {0};
    char block[65536];
    size_t n;
    while (text.n <= FILE_LIMIT && (n = fread(block, 1, sizeof block, f)) > 0)
        str_addn(&text, block, n);
    bool failed = ferror(f) != 0;
    if (failed) *why = arena_strdup(a, strerror(errno));
    fclose(f);
    const char *bytes = failed ? NULL : arena_strndup(a, str_get(&text), text.n);
    *len = text.n;
    str_free(&text);
    return bytes;
}

const FrontendReader frontend_disk = {disk_read, NULL};

/* ---- paths
 * ---------------------------------------------------------------------------------------- */

/* Takes out "." and "name/.."; a ".." that nothing can take back stays, and "." if all went. */
static const char *path_clean(Arena *a, const char *path) {
    bool absolute = path[0] == '/';
    char *out = arena_alloc(a, strlen(path) + 2);
    size_t n = 0, floor = absolute;
    if (absolute) out[n++] = '/';
    for (const char *s = path; *s; s += strspn(s, "/")) {
        size_t len = strcspn(s, "/");
        bool dot = len == 1 && s[0] == '.', up = len == 2 && s[0] == '.' && s[1] == '.';
        if (up && n > floor) {
            while (n > floor && out[n - 1] != '/') n--;
            n -= n > floor;
        } else if (len && !dot && !(up && absolute)) {
            if (n > absolute) out[n++] = '/';
            memcpy(out + n, s, len);
            n += len;
            if (up) floor = n;
        }
        s += len;
    }
    if (!n) out[n++] = '.';
    out[n] = 0;
    return out;
}

static const char *path_from(Arena *a, const char *base, const char *rel) {
    const char *slash = strrchr(base, '/');
    if (rel[0] == '/' || !slash) return path_clean(a, rel);
    return path_clean(a, arena_printf(a, "%.*s/%s", (int)(slash - base), base, rel));
}

/* ---- one file
 * ------------------------------------------------------------------------------------- */

static AstFile *parse_text(Loader *l, const char *path, const char *text, size_t len) {
    FK_YYSTYPE held;
    Parse p = {.arena = l->arena, .diags = l->diags, .held = -1, .held_value = &held};
    p.src = source_new(l->arena, path, text, len);
    p.file = ARENA_NEW(l->arena, AstFile);
    p.file->src = p.src;
    lex_open(&p);
    fk_yyparse(&p);
    lex_close(&p);
    return p.file;
}

static AstFile *load(Loader *l, const char *path, const char *text, size_t len, Span at);

static void follow_use(Loader *l, const AstFile *f, const Name *use) {
    const char *path = path_from(l->arena, f->src->path, use->s);
    for (int i = 0; i < l->seen.n; i++) {
        const Opened *o = &l->seen.v[i];
        if (strcmp(o->path, path)) continue;
        if (!o->reading) return;
        diag_error(l->diags, use->span, "use-cycle", "'%s' is in use of itself", path);
        for (int j = i + 1; j < l->seen.n; j++)
            if (l->seen.v[j].reading)
                diag_note(l->diags, l->seen.v[j].used_at, "'%s' is used from here",
                          l->seen.v[j].path);
        return;
    }
    load(l, path, NULL, 0, use->span);
}

/* A file comes after those that it uses. */
static AstFile *load(Loader *l, const char *path, const char *text, size_t len, Span at) {
    int depth = 0;
    for (int i = 0; i < l->seen.n; i++) depth += l->seen.v[i].reading;
    if (depth >= USE_DEPTH) {
        diag_error(l->diags, at, "use-depth", "files use files more than %d deep", USE_DEPTH);
        return NULL;
    }
    const char *why = "no such file";
    if (!text && !(text = l->reader->read(l->reader->ctx, l->arena, path, &len, &why))) {
        diag_error(l->diags, at, "file", "cannot read '%s': %s", path, why);
        return NULL;
    }
    if (len > FILE_LIMIT) {
        diag_error(l->diags, at, "file", "cannot read '%s': it is larger than %d MiB", path,
                   FILE_LIMIT >> 20);
        return NULL;
    }
    int me = l->seen.n;
    vec_push(l->arena, &l->seen, ((Opened){path_clean(l->arena, path), true, at}));
    AstFile *f = parse_text(l, path, text, len);
    for (int i = 0; i < f->decls.n; i++)
        if (f->decls.v[i]->kind == DECL_USE) follow_use(l, f, &f->decls.v[i]->name);
    l->seen.v[me].reading = false;
    vec_push(l->arena, &l->ast->files, f);
    return f;
}

Ast *frontend_parse(Arena *a, Diags *d, const FrontendReader *reader, const char *path,
                    const char *text, size_t len) {
    Loader l = {.arena = a, .diags = d, .reader = reader, .ast = ARENA_NEW(a, Ast)};
    l.ast->prelude = parse_text(&l, "prelude.fk", frontend_prelude, frontend_prelude_len);
    l.ast->main = load(&l, path, text, len, (Span){0});
    return l.ast;
}

void frontend_print(const Ast *ast, Str *out) {
    if (ast->main) ast_print_file(out, ast->main);
}
