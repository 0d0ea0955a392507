/* fold_int.h - between the engine (fold.c) and the rules (fold_rules.c, fold_index.c). */
#ifndef FK_PASSES_FOLD_INT_H
#define FK_PASSES_FOLD_INT_H

#include "passes/rebuild_int.h"

typedef struct Fold {
    Rebuild *r;
    Graph *g;
    Operand out; /* of a rule that says FOLD_OUT: over the node's value axes, of any type that
                    holds the node's value exactly; the engine adds the cast */
} Fold;

typedef enum Fate {
    FOLD_NOT,  /* not mine */
    FOLD_EDIT, /* the node was changed in place, to something lighter */
    FOLD_OUT   /* the node is f->out */
} Fate;

typedef Fate FoldFn(Fold *f, Node *n);

typedef struct FoldRule {
    const char *law;
    int kind; /* NodeKind */
    int op;   /* Op or Reduce, or FOLD_ANY */
    FoldFn *fn;
} FoldRule;
enum { FOLD_ANY = -1 };

/* A constant operand: a constant, or one rounded to a storage type. */
typedef struct Num {
    EvalVal v;
    DType type; /* value type */
} Num;
bool fold_const(const Graph *g, const Operand *o, Num *out);
bool fold_real(const Graph *g, const Operand *o, double *v); /* as a real; false: no constant */
bool fold_bool(const Graph *g, const Operand *o, bool *v);

Fate fold_out(Fold *f, Operand by);
Fate fold_out_num(Fold *f, DType type, double num, int64_t inum);
Fate fold_to(Node *n, Op op, int nin, Operand a, Operand b); /* edits the node to op(a[, b]) */
Operand fold_new(Fold *f, Node *n); /* a node that a rule appended, folded */
/* x may take the place of n, whose op does not pass "0 outside its domain" on. */
bool fold_plain(Fold *f, const Operand *x);

/* The rules, in the order they are tried; the tables end with fn NULL. */
extern const FoldRule fold_rules[];
extern const FoldRule fold_index_rules[];

#endif
