/* run_int.h - the parts of fkrun: a fn of a module, its tensors in memory, and what is done to
 * them.
 */
#ifndef FK_COMPILER_RUN_INT_H
#define FK_COMPILER_RUN_INT_H

#include "compiler/opts_int.h"
#include "ir/ir.h"
#include "ir/sample.h"
#include "runtime/fk.h"
#include "runtime/fkm.h"

typedef struct RunOptions {
#define OPT_GROUP(title)
#define OPT(kind, field, name, letter, arg, help) OPT_TYPE_##kind field;
#include "compiler/run_opts.def"
#undef OPT
#undef OPT_GROUP
} RunOptions;

enum { RUN_RANK = 8, RUN_GUARD = 4096, RUN_LARGEST = 128 /* size that is drawn */ };

/* A tensor and the whole memory around it: [guard][offset][elements and padding][guard]. The image
 * on the host and the device's memory are laid out alike. */
typedef struct RunTensor {
    const char *name;
    DType type;
    DLDataType dl;
    int rank;
    bool out;
    int64_t extent[RUN_RANK], stride[RUN_RANK]; /* strides in elements */
    int64_t count;                              /* elements */
    size_t offset;                              /* bytes from data to the first element */
    size_t total;                               /* bytes of the memory */
    unsigned char *host;
    void *device; /* NULL: a scalar that stays on the host */
    DLTensor dl_tensor;
} RunTensor;

/* The fn at hand. `graph` is NULL when the module was stripped. */
typedef struct Run {
    Arena *arena;
    const RunOptions *opt;
    const FkmFn *fn;
    Graph *graph;
    int64_t *sizes; /* by size of the fn */
    RunTensor *tensors;
    int n;
    Str why;      /* one line, when something failed */
    bool outside; /* what failed was not the command line, but a file or memory */
} Run;

/* ---- run_sizes.c -------------------------------------------------------------------------------
 */

bool run_sizes(
    Run *r); /* from --size and --in, else drawn; they suit the fn, or a device will say */
void run_put_sizes(Run *r, const char *before); /* " M=1 N=2" to r->why, if there are any */

/* ---- run_args.c: layouts, values ---------------------------------------------------------------
 */

bool run_tensors(Run *r);      /* extents and strides; memory on the host, poisoned */
bool run_fill(Run *r);         /* inputs, random or from files */
void run_poison(RunTensor *t); /* every byte; of reals NaN */

int64_t run_offset(const RunTensor *t, const int64_t *index); /* in elements */
unsigned char *run_base(const RunTensor *t);                  /* the first element, on the host */
EvalTensor run_eval_tensor(const RunTensor *t);
double run_get(const RunTensor *t, const int64_t *index);
/* index[] of the i-th element in row-major order */
void run_unflatten(const RunTensor *t, int64_t i, int64_t *index);
/* "NAME=REST" in a list: REST, or NULL. */
const char *run_lookup(const OptMany *list, const char *name);
bool run_number(const char *s, int64_t *v);           /* all of it, >= 0 */
void run_print(const RunTensor *t, const char *what); /* to standard output */

/* ---- run_graph.c: how exact outputs must be, and the work
 * ---------------------------------------- */

typedef struct Tolerance {
    double norm, element;
    int64_t integer; /* of integers: how far off they may be */
} Tolerance;
/* fast_accum: NULL, or the sizes: sums of fp8 products were left to tensor cores. */
Tolerance run_tolerance(const Graph *g, int param, const int64_t *fast_accum);

/* Multiply-adds of the sums of products, twice. */
double run_flops(const Graph *g, const int64_t *sizes);

/* ---- run_npy.c ---------------------------------------------------------------------------------
 */

typedef struct Npy {
    int rank;
    int64_t extent[RUN_RANK];
    char kind; /* f, i, u, b */
    int size;  /* bytes of an element */
    bool fortran;
    const unsigned char *data;
    bool read; /* the file was there, whatever it holds */
} Npy;
bool npy_read(Arena *a, const char *path, Npy *n, Str *why);
bool run_npy(Run *r, const char *path, Npy *n); /* tells r whose failure it is */
double npy_get(const Npy *n, const int64_t *index, int64_t *integer);
bool npy_write(const char *path, const RunTensor *t, Str *why);

/* ---- run_device.c ------------------------------------------------------------------------------
 */

typedef struct RunDevice {
    fk_device *device;
    fk_module *module;
    fk_device_info info;
    void *stream;
} RunDevice;
bool device_open(RunDevice *d, const char *name, const void *bytes, size_t size, Str *why);
void device_close(RunDevice *d);

/* Memory for the tensors, and for the workspace that one launch of them needs. */
typedef struct Launch {
    fk_fn *fn;
    DLTensor **args;
    int n;
    void *workspace;
    size_t bytes;
    void *graph;          /* of --graph, once it is captured */
    const char *variants; /* that run, by step: "general,wgmma"; one name if all are the same */
} Launch;
bool device_alloc(RunDevice *d, Run *r);
bool device_prepare(RunDevice *d, Run *r, Launch *l);
/* The launch, captured in *graph first if --graph asks for that and there is none yet. */
bool device_enqueue(RunDevice *d, Run *r, const Launch *l, DLTensor *const *args, void **graph);
void device_drop_workspace(RunDevice *d, Launch *l);
bool device_launch(RunDevice *d, Run *r, Launch *l); /* poisons outputs, runs, reads them back */
/* Inputs, their padding and guards are as they were; what is not goes to `details`. */
bool device_inputs_intact(RunDevice *d, Run *r, Str *details);
void device_release(RunDevice *d, Run *r, Launch *l);

/* ---- run_variant.c -----------------------------------------------------------------------------
 */

/* Leaves the variants of this name alone in every step that has it; false, with what there is, when
 * no step has. */
bool variant_force(FkmModule *m, const char *name, Str *why);

/* ---- run_guard.c -------------------------------------------------------------------------------
 */

FkmEnv run_env(const Run *r, int64_t sms); /* of the tensors, for expressions of the module */
/* "; NAME needs .." for each variant of r->fn that does not take them. */
void guard_explain(const Run *r, int64_t sms, Str *out);

/* ---- run_cases.c ------------------------------------------------------------------------------
 */

/* One command line of fkrun; returns its exit code. What it opens of a device stays open: if *held
 * is NULL, it becomes the device. */
typedef int RunCommand(fk_device **held, int argc, char **argv);
int run_cases(const char *path, int seconds, RunCommand *command); /* the greatest code */

/* ---- run_check.c, run_bench.c ------------------------------------------------------------------
 */

typedef struct Verdict {
    int64_t samples, unsure;
    double norm, max; /* worst of the outputs, as a share of what is allowed */
    Str details;      /* lines that say what is wrong; empty when all is right */
} Verdict;
Eval *run_eval(Run *r); /* of the inputs on the host */
void check_run(Run *r, Verdict *v);
/* Bytes around and between the elements still hold the poison. */
void check_guards(Run *r, Verdict *v);

/* Copies of the tensors, together larger than the second-level cache; NULL: r->why says why. */
typedef struct RunBench RunBench;
RunBench *bench_open(RunDevice *d, Run *r);
void bench_close(RunBench *b);
/* Median milliseconds of a launch of l, which may be of another module, over so many launches (256
 * at the most) on cold inputs; < 0 when something failed. */
double bench_time(RunBench *b, const Launch *l, int rounds);
bool bench_run(RunDevice *d, Run *r, const Launch *l); /* --bench: times and prints */

/* ---- run_tune.c --------------------------------------------------------------------------------
 */

/* Makes the cost ns at these sizes of the fn, and leaves it what it is at all others. */
void tune_cost(Arena *a, const FkmFn *f, const int64_t *sizes, int64_t ns, FkmExpr *cost);
/* --list: prints the variants, what is predicted of them and what is kept of their machine code;
 * needs no device. `m` is the module of r->fn. */
void tune_list(Run *r, const FkmModule *m);
/* --tune: times the variants of each step and prints; r->fn is a fn of `tree`, whose costs become
 * what was measured, in memory of `a`. `usual` is the launch of the module as it is. */
bool tune_run(RunDevice *d, Run *r, Arena *a, FkmModule *tree, const Launch *usual);

/* ---- run_compile.c -----------------------------------------------------------------------------
 */

/* Compiles a .fk into memory by running fkc; *code is its exit status. NULL when it failed. */
void *compile_with_fkc(Arena *a, const RunOptions *o, const OptMany *more, const char *path,
                       size_t *size, int *code, Str *why);

#endif
