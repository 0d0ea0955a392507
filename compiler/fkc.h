/* fkc.h - the compiler as a library: source text and options in, module bytes, texts and messages
 * out.
 *
 *     fkc_options o = fkc_defaults();
 *     fkc_result *r;
 *     fkc_status s = fkc_compile("model.fk", text, size, &o, &r);
 *     fputs(fkc_messages(r), stderr);
 *     if (s == FKC_OK) bytes = fkc_output_get(r, FKC_MODULE, &n);
 *     fkc_free(r);
 *
 * The library opens no file but those that the program names with `use`, and ptxas, which it runs
 * as a process with files in TMPDIR. It writes nothing to standard output or standard error. Entry
 * points may be called from any thread; they take turns, since LLVM's options are the process's.
 * A fault of the compiler itself ends the process by abort().
 */
#ifndef FKC_H
#define FKC_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(_WIN32)
#define FKC_API
#else
#define FKC_API __attribute__((visibility("default")))
#endif

/* Also the exit codes of fkc; 70 is a bug of ours. */
typedef enum fkc_status {
    FKC_OK = 0,
    FKC_ERROR_PROGRAM = 1, /* the program is wrong */
    FKC_ERROR_OPTION = 2,  /* an option is wrong */
    FKC_ERROR_OUTSIDE = 3  /* a file, ptxas or the driver failed */
} fkc_status;

typedef enum fkc_output {
    FKC_AST,      /* the source as it was read */
    FKC_GRAPH,    /* each fn after the passes */
    FKC_TILE,     /* the tile program of each step */
    FKC_SCHEDULE, /* and its schedules */
    FKC_LLVM,     /* LLVM IR of every kernel */
    FKC_PTX,      /* PTX of every kernel, headed by how to launch it */
    FKC_CUBIN,    /* machine code: see fkc_cubin_get */
    FKC_REPORT,   /* what was decided and what it will cost */
    FKC_MODULE,   /* the bytes of a .fkm */
    FKC_OUTPUTS
} fkc_output;

typedef struct fkc_options {
    unsigned outputs;        /* bits 1u << FKC_...; 0 reads as FKC_MODULE alone */
    const char *arch;        /* comma list; NULL: "sm_90a" */
    const char *ptxas;       /* NULL: looked for; "none": machine code is left to the driver */
    const char *ptx_version; /* "8.0"; NULL: the lowest that will do */
    const char *const *bind; /* "NAME=VALUE", n_bind of them */
    int n_bind;
    int no_fuse, strict, invariant, fast_accum, no_expect, strip;
    const char *dump_after; /* a pass, or "all" */
    const char *stop_after; /* a pass: FKC_GRAPH is the graph then, nothing else is made */
    /* If n_run_pass > 0 the text is a graph, these passes run on it, and FKC_GRAPH is the result.
     */
    const char *const *run_pass;
    int n_run_pass;
    int time_passes, verbose;
    int error_limit; /* < 0: 20; 0: all */
    int color;       /* ANSI colours in messages */
    /* Dumps, times and steps taken, as they happen; NULL: not wanted. */
    void (*log)(void *ctx, const char *text);
    void *log_ctx;
} fkc_options;

typedef struct fkc_result fkc_result;

FKC_API fkc_options fkc_defaults(void);

/* Compiles all fns of the text into one module. `path` is shown in messages, and `use` is relative
 * to its folder. *result is always set and holds the messages. */
FKC_API fkc_status fkc_compile(const char *path, const char *text, size_t size,
                               const fkc_options *options, fkc_result **result);

/* Errors, warnings and notes, in clang's layout; "" when there are none. */
FKC_API const char *fkc_messages(const fkc_result *result);

/* An output that was asked for; NULL when it was not made. After an error there is at most the
 * report of the fns that went through, which says why an `expect` failed. Texts end in NUL, not
 * counted. */
FKC_API const void *fkc_output_get(const fkc_result *result, fkc_output what, size_t *size);

/* The machine code of kernel and chip number `index`; NULL beyond the last. */
typedef struct fkc_cubin {
    const char *kernel, *arch;
    const void *data;
    size_t size;
} fkc_cubin;
FKC_API int fkc_cubin_get(const fkc_result *result, int index, fkc_cubin *cubin);

FKC_API void fkc_free(fkc_result *result); /* NULL is allowed */

FKC_API const char *fkc_version(void);      /* "0.1.0" */
FKC_API const char *fkc_llvm_version(void); /* "19.1.7" */

#ifdef __cplusplus
}
#endif
#endif
