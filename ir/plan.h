/* plan.h - a fn cut into steps, each a kernel (tile program) with its schedules. */
#ifndef FK_IR_PLAN_H
#define FK_IR_PLAN_H

#include "ir/schedule.h"

typedef struct Temp {
    int node; /* the stored value */
    const char *name;
    DType type;
    int rank;
    const Ix **dims;
} Temp;

typedef struct Step {
    const char *name; /* "linear_gelu.0" */
    VEC(int) stores;  /* nodes of the graph that it stores */
    TProg *tile;
    bool joins; /* its loops read nothing but parts that other steps left: it belongs to them */
    VEC(Schedule *) schedules; /* best first; the last is the general one */
    const char
        *why; /* there is the general one alone though the step multiplies matrices; or NULL */
} Step;

typedef struct Plan {
    Graph *graph;
    VEC(Temp) temps;
    VEC(Step) steps; /* in execution order */
} Plan;

/* Steps that join no parts. */
int plan_kernels(const Plan *p);

/* Prints the temporaries and every step's tile program (and schedules). */
void plan_print(Str *out, const Plan *p, bool tiles, bool schedules);

#endif
