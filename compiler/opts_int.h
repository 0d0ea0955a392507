/* opts_int.h - command lines from a table (opts.def, run_opts.def). The struct of a program's
 * options and the table for the parser come from the same rows:
 *
 *     typedef struct Options {
 *     #define OPT(kind, field, name, letter, arg, help) OPT_TYPE_##kind field;
 *     #include "compiler/opts.def"
 *     } Options;
 */
#ifndef FK_COMPILER_OPTS_INT_H
#define FK_COMPILER_OPTS_INT_H

#include "ir/base/base.h"

typedef VEC(const char *) OptMany;

#define OPT_TYPE_FLAG bool
#define OPT_TYPE_TEXT const char *
#define OPT_TYPE_INT  int
#define OPT_TYPE_MANY OptMany
#define OPT_TYPE_ONE  int
#define OPT_TYPE_SET  unsigned

typedef enum OptKind { OPT_FLAG, OPT_TEXT, OPT_INT, OPT_MANY, OPT_ONE, OPT_SET, OPT_HEAD } OptKind;

typedef struct OptRow {
    OptKind kind;
    size_t offset; /* of the field */
    const char *name;
    char letter;
    const char *arg, *help; /* OPT_HEAD: name is the title */
} OptRow;

typedef struct OptTable {
    const char *program, *usage, *about;
    const OptRow *rows;
    int n;
} OptTable;

/* Fills `out`, a zeroed struct of options, and appends what is no option to `inputs`. With `rest`,
 * "--" hands what follows to it; without, what follows are inputs. False: the command line is
 * wrong, and `why` holds one line ("unknown option '--emti'; did you mean '--emit'?"). */
bool opts_parse(Arena *a, const OptTable *t, int argc, char **argv, void *out, OptMany *inputs,
                OptMany *rest, Str *why);

void opts_help(Str *out, const OptTable *t);

/* The candidate nearest to `word` when it is near enough to be a slip of the fingers; else NULL. */
const char *opts_nearest(const char *word, const char *const *candidates, int n);

/* Splits a comma list; empty parts are kept. */
void opts_split(Arena *a, const char *list, char sep, OptMany *out);

#endif
