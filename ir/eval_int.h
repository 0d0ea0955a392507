/* eval_int.h - private to the evaluators.
 *
 * Graphs. A node that is memoised, or anything eval_at asks for, is a Fn: straight-line code over
 * two register files, integers x (indices, offsets) and values v, with a loop for each reduced
 * axis. Pointwise nodes are compiled into their readers (eval_code.c says when not), so a MAC costs
 * two offsets, two loads, a product and a sum; these write a value's fields where they are, as one
 * that is returned whole cannot be read again at once. Calls run on a stack of our own: no C
 * recursion.
 */
#ifndef FK_IR_EVAL_INT_H
#define FK_IR_EVAL_INT_H

#include "ir/eval.h"

#include <pthread.h>
#include <stdatomic.h>

typedef EvalVal EvalFn(DType type, DType vt, const EvalVal *in);
EvalFn *eval_fn(Op op); /* the function of a row of op.def */

enum { EVAL_AXES_MAX = 64 };

typedef enum ECode {
    E_SET,   /* x[d] = imm */
    E_MADD,  /* x[d] = x[a] + x[b] * imm */
    E_SCALE, /* x[d] = x[a] * imm */
    E_MUL,   /* x[d] = x[a] * x[b] */
    E_DIV,   /* floor; 0 for a divisor <= 0 */
    E_MOD,
    E_MIN,
    E_MAX,
    E_INT,    /* x[d] = v[a].i */
    E_CONST,  /* v[d] = val */
    E_INDEX,  /* v[d] = x[a] */
    E_LOAD,   /* v[d] = element x[a] of type `type` at ptr */
    E_LOADR,  /* of a real type */
    E_OP,     /* v[d] = fn(v[a], v[b], v[c]) */
    E_OPN,    /* v[d] = fn(v[a], v[a + 1], ...) */
    E_MULR,   /* v[d] = v[a] * v[b], reals, inexact */
    E_TIMES,  /* v[d] = v[a] * v[b], reals, as the op says */
    E_JOIN,   /* v[d] = fn(v[d], v[a]): one more element of a reduction */
    E_JOINR,  /* v[d] += v[a], reals */
    E_WIDEN,  /* v[d] = v[a] as an f32 */
    E_MOVE,   /* v[d] = v[a] */
    E_LEAN,   /* v[d] = v[a], a real, times w.scale unless it is exact */
    E_TAINT,  /* v[d].unsure |= v[a].unsure */
    E_CALL,   /* v[d] = call at x[args...] */
    E_FALSE,  /* unless v[a]: goto to */
    E_FALSE1, /* if v[a] is false, and sure: goto to */
    E_TRUE1,  /* if v[a] is true, and sure: goto to */
    E_OUT,    /* unless 0 <= x[a] < imm: goto to */
    E_INSIDE, /* unless 0 <= x[a] < imm: a bug of node b */
    E_LOOP,   /* x[d] = 0; if imm <= 0: goto to */
    E_NEXT,   /* if ++x[d] < imm: goto to */
    E_RET     /* v[a] */
} ECode;

typedef struct EIns {
    unsigned char code, type, vt;
    int d, a, b, c;
    int to;
    union {
        int64_t imm;
        const void *ptr;
        EvalFn *fn;
        struct Fn *call;
    } u;
    union {
        const int *args;    /* E_CALL */
        const EvalVal *val; /* E_CONST */
        double scale;       /* E_LEAN */
    } w;
} EIns;

/* A direct-mapped cache of computed points; a slot is overwritten by whoever comes later. Where the
 * domain fits, that is a dense table. Readers and writers are kept apart by a sequence number: odd
 * while a slot is written. */
typedef struct MemoSlot {
    _Atomic uint32_t seq, flags;
    _Atomic uint64_t key, bits; /* key: linear index + 1 */
} MemoSlot;

typedef struct Fn {
    int node;
    int rank, nx, nv;
    EIns *code;
    const int64_t *pitch; /* of the linear index, per axis */
    MemoSlot *memo;       /* NULL: none */
    uint64_t mask;
    bool real;
    _Atomic bool ready;
} Fn;

typedef struct EFrame {
    const Fn *fn;
    int pc;
    size_t v, x; /* bases */
    uint64_t key;
} EFrame;

typedef struct EThread { /* stacks of one running thread */
    struct EThread *next;
    EvalVal *v;
    int64_t *x;
    EFrame *frame;
    size_t vcap, xcap, fcap;
} EThread;

/* Conditions outside of which a node is 0 by rule 4: each a bool node at a map over its axes. */
typedef struct Dom {
    int n;
    const Operand *cond;
} Dom;

struct Eval {
    Arena arena; /* everything but memos and stacks; grows under the lock only */
    const Graph *g;
    IxPool ix; /* of expressions with sizes put in */
    const int64_t *sizes;
    const Ix *const *size_ix;
    const EvalTensor *tensors;
    int64_t **extent;  /* per node, per axis */
    Dom *dom;          /* per node */
    bool *own;         /* per node: a Fn, never compiled into its readers */
    bool *memo;        /* per node: worth remembering */
    Fn **fn;           /* per node; NULL until wanted */
    Fn **last;         /* per param: an output's node without its last rounding */
    int64_t memo_left; /* slots that may still be allocated */
    double lean;       /* eval_lean */
    pthread_mutex_t lock;
    EThread *idle;
};

void eval_analyse(Eval *e); /* eval_prep.c: extents, dom, own, memo */
const Ix *eval_ix(Eval *e, const Ix *x, const Ix *const *axes, int nax); /* sizes put in */
Dom eval_dom(Eval *e, const Node *n); /* conditions under which an element of n is computed */
Fn *eval_compile(Eval *e, int node);  /* eval_code.c; the lock is held */
Fn *eval_compile_operand(Eval *e, int node); /* of the cast `node`: its operand */
EvalVal eval_run(EThread *t, const Fn *fn, const int64_t *index); /* eval_vm.c */

/* Threads to use for so many pieces of work; runs `run` on that many, this one among them. */
int eval_threads(int asked, int64_t work);
void eval_parallel(int threads, void *(*run)(void *), void *arg);

#endif
