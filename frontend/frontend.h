/* frontend.h - from source text to the graph; the one public header of this folder.
 *
 *     Ast *ast = frontend_parse(&arena, &diags, &frontend_disk, "model.fk", NULL, 0);
 *     if (!diags.errors) ...
 *
 * What is wrong with the program goes to `diags`, several errors a run; results live in the arena.
 */
#ifndef FK_FRONTEND_H
#define FK_FRONTEND_H

#include "ir/graph.h"

typedef struct Ast Ast;

/* How files are read, the main one and those it uses. `read` gives the bytes of `path`, or NULL
 * and, in *why, a reason that reads well after "cannot read PATH: ". */
typedef struct FrontendReader {
    const char *(*read)(void *ctx, Arena *a, const char *path, size_t *len, const char **why);
    void *ctx;
} FrontendReader;

extern const FrontendReader frontend_disk; /* files of the system */

/* Parses a file, the files that it uses, and the prelude. With `text` the main file is given and
 * `path` only names it (and is where `use` starts from). Always gives a tree; it is whole only if
 * there were no errors. */
Ast *frontend_parse(Arena *a, Diags *d, const FrontendReader *reader, const char *path,
                    const char *text, size_t len);

/* The main file as .fk text that parses back to the same tree; comments are not kept. */
void frontend_print(const Ast *ast, Str *out);

/* What --bind said: "NAME=NUMBER", for consts and sizes. */
typedef struct FrontendBinds {
    const char *const *v;
    int n;
} FrontendBinds;

/* A fn that was asked for and is not made, with the reason. */
typedef struct FrontendLeft {
    const char *name, *why;
    Span span;
} FrontendLeft;

typedef struct FrontendFns {
    VEC(Graph *)
    fns; /* in the order of the file; each with its parameters, checks, solve and
                   expect */
    VEC(FrontendLeft) left;
} FrontendFns;

/* Checks the program and builds the graph of every fn of the main file. Fns with errors are left
 * out; look at d->errors. */
FrontendFns *frontend_build(Ast *ast, Arena *a, Diags *d, const FrontendBinds *binds);

/* The text of the prelude. */
extern const char frontend_prelude[];
extern const size_t frontend_prelude_len;

#endif
