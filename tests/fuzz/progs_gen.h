/* progs_gen.h - what draws programs and expressions share (progs_draw.c, progs_gen.c). All that is
 * drawn comes from one sequence, so calls that draw stand in statements of their own. */
#ifndef FK_TESTS_FUZZ_PROGS_GEN_H
#define FK_TESTS_FUZZ_PROGS_GEN_H

#include "tests/fuzz/progs.h"

typedef struct Gen {
    Program *p;
    uint64_t random;
} Gen;

/* The indices an expression may use. */
typedef struct Scope {
    int index[MAX_INDICES], n;
} Scope;

int gen_below(Gen *g, int n);
bool gen_chance(Gen *g, int percent);
void gen_shuffle(Gen *g, int *v, int n);
int gen_node(Gen *g, PNode x);
int gen_number(Gen *g, Kind value);
int gen_call(Gen *g, Kind value, const char *text, int a, int b);
int gen_index(Gen *g, int size);
Grain gen_grain(const Program *p, int node);
Type gen_real_type(Gen *g);
Type gen_int_type(Gen *g);
Type gen_type(Gen *g, Kind value, int rank);
Kind type_kind(Type t);
Grain type_grain(Type t);
int gen_input(Gen *g, Input x);
Sub gen_sub(Gen *g, const Scope *s, int i, Dim *d);
void gen_one_guard(PNode *x);
int gen_read_known(Gen *g, const Scope *s, Kind value, int must);
int gen_read_some(Gen *g, const Scope *s, Kind value, int must);
int gen_expression(Gen *g, const Scope *s, Kind value, int depth);

#endif
