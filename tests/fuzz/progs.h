/* progs.h - random .fk programs: a program as a tree that can be drawn, printed, and made smaller.
 *
 *     progs_draw.c     draws one from a number        progs_run.c     compiles and runs one
 *     progs_gen.c      its expressions                progs_shrink.c  makes one that fails smaller
 *     progs_text.c     prints it
 *
 * Everything is an index into an array of the program, so that a copy of it is an assignment.
 */
#ifndef FK_TESTS_FUZZ_PROGS_H
#define FK_TESTS_FUZZ_PROGS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum {
    MAX_SIZES = 8,
    MAX_SETS = 4, /* of sizes */
    MAX_INPUTS = 24,
    MAX_STATEMENTS = 6,
    MAX_NODES = 400,
    MAX_INDICES = 32,
    MAX_DIMS = 5
};

typedef enum Kind { REAL, INT, COND } Kind; /* of a value */

typedef enum Type {
    T_F32,
    T_F16,
    T_BF16,
    T_E4M3,
    T_E5M2,
    T_I64,
    T_I32,
    T_I8,
    T_U8,
    T_I4,
    T_U4,
    T_BOOL,
    T_NONE
} Type;

/* How coarse a rounding of something inexact made a value: what comes out on the other side of a
 * tie there is off by so much, however exact it is from then on. */
typedef enum Grain { G_F32, G_F16, G_BF16, G_FP8 } Grain;

/* A dimension of an input: a, a + c, c*a, (a + c-1)/c, c, a + b; a and b are sizes. */
typedef enum DimKind { D_SIZE, D_PLUS, D_TIMES, D_CEIL, D_CONST, D_SUM } DimKind;
typedef struct Dim {
    DimKind kind;
    int a, b, c;
} Dim;

typedef struct Input {
    Type type;
    int rank;
    Dim dim[MAX_DIMS];
} Input;

/* What stands at a dimension of a read: i, i + c, c*i, i/c, i%c, i + j, A-1-i, t[i], and i - c
 * behind a select of i >= c. */
typedef enum SubKind {
    S_BARE,
    S_PLUS,
    S_TIMES,
    S_OVER,
    S_MOD,
    S_PAIR,
    S_BACK,
    S_GATHER,
    S_GUARDED
} SubKind;
typedef struct Sub {
    SubKind kind;
    int i, j, c, table;
} Sub;

typedef enum PNodeKind { P_NUMBER, P_IX, P_SIZE, P_READ, P_CALL, P_AXIS, P_REDUCTION } PNodeKind;

typedef struct PNode {
    PNodeKind kind;
    Kind value;
    int op;                    /* of CALL, AXIS, REDUCTION: its row in the tables of progs_text.c */
    double number;             /* NUMBER */
    int index;                 /* IX, AXIS; SIZE: the size */
    int indices[2], n_indices; /* REDUCTION: what it binds */
    bool stored;               /* READ: of a statement, else of an input */
    int tensor, rank;
    Sub sub[MAX_DIMS];
    int kid[3], n_kids;
    int where; /* AXIS, REDUCTION: a condition, or -1 */
} PNode;

typedef struct Statement {
    int rank, index[MAX_DIMS];
    Type type; /* of an output; of others T_NONE, or a rounding */
    bool out, dropped;
    int root;
    Kind value;
    Grain grain;
} Statement;

typedef struct Program {
    uint64_t seed, number;
    int n_sizes, n_sets, n_inputs, n_statements, n_nodes, n_indices;
    int64_t size[MAX_SETS][MAX_SIZES];
    bool wide[MAX_SIZES];  /* of a contraction of tensors */
    bool bound[MAX_SIZES]; /* a const, the same in all sets */
    Input input[MAX_INPUTS];
    Statement statement[MAX_STATEMENTS];
    PNode node[MAX_NODES];
    int index_size[MAX_INDICES]; /* the size that is an index's range */
    bool contraction, general;   /* general: compiled for a chip that has no other kernels */
    unsigned configs;            /* a bit each */
    int emu_seed, sms;           /* of the emulated device */
    int layout;                  /* how inputs lie in memory: a number to draw it from; 0: dense */
} Program;

/* A node's form; in text, a to c stand for its operands behind %, x for its axis. */
typedef struct Form {
    const char *text, *kids; /* kids: R, I, C */
    Kind value;
    bool steep; /* not of values with a grain */
    Grain grain;
} Form;
extern const Form forms[], axis_forms[], reductions[];
extern const int n_forms, n_axis_forms, n_reductions;
enum { FORM_PRODUCT = 2 }; /* (%a * %b), of reals */
enum { RED_SUM, RED_MEAN, RED_MAX, RED_MIN, RED_PROD, RED_LOGSUMEXP };
extern const char *const type_names[];

/* ---- progs_draw.c ---- */
void program_draw(Program *p, uint64_t seed, uint64_t number);
/* Sizes until a statement takes at most so many steps. */
void program_limit(Program *p, int64_t steps);

/* ---- progs_text.c ---- */
void program_print(const Program *p, FILE *to);
char *program_text(const Program *p); /* from malloc */
bool node_uses(const Program *p, int node, int index);
/* Sizes, inputs, and statements that the outputs need: a mark each. */
typedef struct Needed {
    bool size[MAX_SIZES], input[MAX_INPUTS], statement[MAX_STATEMENTS];
} Needed;
Needed program_needs(const Program *p);

/* ---- progs_run.c ---- */

typedef enum Outcome { PASSED, REFUSED, WRONG, LAUNCH_FAILED, CRASHED, HUNG, BROKEN } Outcome;
extern const char *const outcome_names[];

/* Which of its runs: -1, "": all. */
typedef struct Which {
    int config, set;
    char variant[96]; /* "*": the one that libfk takes */
} Which;
/* Bits of a config: options of fkc. */
enum { NO_FUSE = 1, STRICT = 2, INVARIANT = 4, FAST_ACCUM = 8, CONFIGS = 16 };

typedef struct Result {
    Outcome outcome;
    Which at; /* of the first that failed */
    char text[3000];
    char layout[400];      /* options of fkrun */
    int64_t runs, skipped; /* launches; of variants that do not take the sizes */
} Result;

/* In this process; a crash is a crash. *r may be shared with the one that waits for it. */
void program_run(const Program *p, Which which, Result *r);
void program_ended(int status, Result *r); /* the process did, with this status of wait */
/* In a process of its own. */
void program_try(const Program *p, Which which, Result *r);

/* ---- progs_shrink.c ---- */

/* The smallest program found that ends as r says, for at most so many seconds. */
void program_shrink(Program *p, Result *r, int seconds);

#endif
