/* compiler_int.h - one compilation: what pipeline.c makes, and pack.c and report.c read. */
#ifndef FK_COMPILER_INT_H
#define FK_COMPILER_INT_H

#include "compiler/fkc.h"
#include "ir/ir.h"
#include "runtime/fkm.h"

/* One way to run a step: a schedule, and what the backend and ptxas made of it. */
typedef struct Variant {
    const Schedule *schedule;
    Kernel kernel;
    bool general; /* the last of its step: no guard, least architecture, a cubin per --arch */
    bool slow;    /* dropped for what ptxas made of it */
    const char *dropped; /* why it is not in the module; NULL: it is */
} Variant;
typedef VEC(Variant) Variants;

typedef struct BuiltFn {
    const Plan *plan;
    const char *source; /* the graph before any pass, as text: what the program means */
    Variants *variants; /* one list per step of the plan, in order of preference */
} BuiltFn;

typedef struct LeftOut {
    const char *name, *reason;
} LeftOut;

typedef struct Job {
    Arena *arena;
    const fkc_options *opt;
    Diags *diags;
    const char *path, *producer; /* of the source; "fkc 0.1.0, LLVM 19.1.7" */
    VEC(const Target *) archs;
    int ptx_version;   /* 0: the lowest */
    const char *ptxas; /* NULL: there is none, or none is wanted */
    VEC(BuiltFn) fns;
    VEC(LeftOut) left_out;
    Str text[FKC_OUTPUTS];
    bool bad_option, outside; /* what kind of failure the errors in diags are */
} Job;

bool job_wants(const Job *j, fkc_output what);
void job_log(const Job *j, const char *fmt, ...) FK_PRINTF(2, 3);
IxNames size_names(Arena *a, const Graph *g); /* to print expressions of sizes */

/* ---- pipeline.c: the whole compiler on one screen ----------------------------------------------
 */

void pipeline_run(Job *j, const char *text, size_t size);

/* ---- hard.c: aborts when what a pass left is not sound, in the hard build ---- */

void hard_check(Job *j, const Graph *g, const char *pass);
void hard_check_plan(Job *j, const Plan *p, const char *pass);

/* ---- lower.c: a plan's steps to kernels --------------------------------------------------------
 */

/* False when diags has an error. */
bool lower_fn(Job *j, BuiltFn *fn);

/* ---- pack.c ------------------------------------------------------------------------------------
 */

/* A module of the fns; everything in it lives in the arena. */
FkmModule *pack_module(Arena *a, const Job *j);

/* An expression of sizes as postfix code. Where IX_VALUE occurs it is the extent of dimension `dim`
 * of parameter `param` (a Solve's number); elsewhere pass -1. */
FkmExpr pack_ix(Arena *a, const Ix *x, int param, int dim);
FkmExpr pack_guards(Arena *a, const Graph *g, const Kernel *k); /* all must hold */

/* ---- limits.c ----------------------------------------------------------------------------------
 */

/* An error for each limit of a module that the packed fn passes. */
void check_limits(Job *j, const BuiltFn *fn, const FkmFn *packed);

/* False, with an error, when bytes leave 64 bits: those of a parameter, or (with a plan) those that
 * all steps move, or keep. Later stages may count bytes as they like. */
bool check_bytes(Job *j, const Graph *g, const Plan *p);

/* ---- crossing.c --------------------------------------------------------------------------------
 */

/* A warning for each statement's value that goes from kernel to kernel in f32. */
void warn_crossings(Job *j, const BuiltFn *fn);

/* ---- report.c ----------------------------------------------------------------------------------
 */

void report_fn(Str *out, const Job *j, const BuiltFn *fn);
void report_left_out(Str *out, const Job *j);

/* ---- workspace.c -------------------------------------------------------------------------------
 */

/* Bytes of all temporaries, if none shared a place with another; of those that live at the same
 * time, at the most: 0 if there are very many; and as they are laid out at some sizes. */
const Ix *workspace_apart(const Plan *p);
const Ix *workspace_least(const Plan *p);
bool workspace_at(const Plan *p, const int64_t *sizes, int64_t *bytes);

/* ---- expect.c ----------------------------------------------------------------------------------
 */

/* Predicted bytes of device memory that a launch moves (and one of its steps), and of all
 * parameters once. */
const Ix *expect_hbm(const Plan *p);
const Ix *expect_step_hbm(const Plan *p, int step);
const Ix *expect_io(const Plan *p);

const Ix *variant_cost(const Variant *v); /* predicted nanoseconds; NULL: not said */

/* Bytes of a dense row-major tensor; of 4-bit types each row starts on a byte. */
const Ix *expect_bytes(IxPool *p, DType type, int rank, const Ix *const *dims);

typedef struct ExpectVerdict {
    int verdict; /* 1 met, -1 failed, 0 cannot be checked */
    const char *clause, *found;
} ExpectVerdict;
ExpectVerdict expect_verdict(Arena *a, const BuiltFn *fn, const Expect *e);

/* Failed clauses are errors (warnings under --no-expect); those that cannot be checked, warnings.
 */
void check_expects(Job *j, const BuiltFn *fn);

#endif
