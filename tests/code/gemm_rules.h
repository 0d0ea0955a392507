/* gemm_rules.h - what must hold of the machine code of a kernel on the tensor cores, whatever it
 * computes beside the products. */
#ifndef TESTS_CODE_GEMM_RULES_H
#define TESTS_CODE_GEMM_RULES_H

#include "backend/nvptx/sass_int.h"
#include "runtime/fkm.h"

/* A kernel, and what its schedule promises. */
typedef struct Subject {
    const char *name; /* of the variant: "coop_256x128" */
    const char *ptx;
    SassCode code;
    int threads;
    int groups; /* of 128 threads that multiply */
    int blocks; /* of 64 rows of the accumulator, in a group */
    int maps_in, maps_out;
    bool staged16; /* every output is stored through tensor maps in 16-bit elements */
} Subject;

bool subject_of(Subject *s, const FkmFn *f, const FkmVariant *v, const FkmKernel *k, Arena *a);

/* The rules in order; name NULL ends them. check: false, with the reason, if s breaks the rule. */
typedef struct Rule {
    const char *name;
    bool (*check)(const Subject *s, Str *why);
} Rule;
extern const Rule gemm_rules[];

#endif
