// emu_agrees: every instruction form of runtime/emu/forms.def as a kernel of its own, run on a GPU
// and on the emulated device, which must give the same bits, or, where the hardware approximates,
// values within a stated bound.
//
// rules.def says for every row which function makes its tests (make_*.c) or why it has none. A test
// is the text of a kernel, what its input holds (inputs.c), and how its output is compared
// (compare.c). Kernels take (in, out, word, tensor maps) and have inputs and outputs as one array
// after the other; most have one thread a case.
#ifndef EMU_AGREES_H
#define EMU_AGREES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "runtime/fkm.h"

// ---- what inputs hold: KIND(name, what) ----
#define KINDS(KIND)                                                                                \
    KIND(INT)    /* edges, then numbers of any size */                                             \
    KIND(RANDOM) /* bytes */                                                                       \
    KIND(PRED)   /* 0 or 1 */                                                                      \
    KIND(F32)    /* edges, then any bits, then numbers near 1 */                                   \
    KIND(F16)                                                                                      \
    KIND(BF16)                                                                                     \
    KIND(F16X2)                                                                                    \
    KIND(BF16X2)                                                                                   \
    KIND(BYTE) /* numbers below 256: what PTX allows for positions and lengths of bits */          \
    KIND(LOW)  /* numbers below 64: lanes, shifts */                                               \
    KIND(MASK) /* of shfl: clamp and segments */
typedef enum Kind {
#define KIND(name) KIND_##name,
    KINDS(KIND)
#undef KIND
} Kind;

// Elements of matrices, and what they are made of.
typedef enum Element { EL_F16, EL_BF16, EL_TF32, EL_E4M3, EL_E5M2, EL_S8, EL_U8, EL_F32 } Element;
typedef enum Fill {
    FILL_NONE,
    FILL_SMALL,  // whole numbers of which all sums are exact
    FILL_NORMAL, // numbers near 1
    FILL_TINY,   // subnormals
    FILL_SPECIAL // mostly 0 and 1, some infinities and NaNs
} Fill;

typedef struct Range {
    double low, high; // no range: both 0
} Range;

// An array of the input.
typedef struct Input {
    uint32_t unit, count, at; // bytes of an element; how many; first byte
    uint8_t kind;             // Kind; of a matrix (fill): Element
    uint8_t fill;             // Fill
    uint8_t index, of;        // which operand this is, of how many
    Range range;
} Input;

// An array of the output: compared bit by bit, or as numbers; or SCALE: what the bound of the array
// before it is relative to, instead of the value.
typedef enum Type { TYPE_EXACT, TYPE_F32, TYPE_F16, TYPE_BF16, TYPE_SCALE } Type;
typedef struct Output {
    uint32_t unit, count, at;
    uint8_t type;
} Output;

typedef struct Bound {
    double relative, absolute;
} Bound;

// A tensor that has a map, innermost dimension first, and its box.
typedef struct Mapped {
    FkmDtype dtype;
    uint32_t rank, extent[5], box[5], swizzle; // rank 0: none
} Mapped;

enum { MAX_ARRAYS = 48 };
typedef struct Test {
    char *id;                      // "add.f32 Rrr"
    char *ptx;                     // the kernel's text, without .version
    uint32_t row, number;          // of forms.def; what '#' stands for
    uint32_t grid, block, cluster; // cluster 0: none
    Input in[MAX_ARRAYS];
    Output out[MAX_ARRAYS];
    uint32_t n_in, n_out, in_bytes, out_bytes;
    Mapped map_in, map_out;
    Bound bound;
} Test;

// ---- memory: all of it lives to the end ----

void *keep_alloc(size_t bytes); // zeroed
void keep_free(void);           // all
char *text_of(const char *format, ...) __attribute__((format(printf, 1, 2)));

// ---- the rows ----

typedef struct Row {
    const char *name, *operands;
} Row;
extern const Row rows[];
extern const uint32_t n_rows;
bool like(const char *pattern, const char *text); // '*': any characters; '?': any one

typedef struct Tests {
    Test **v;
    uint32_t n, room;
} Tests;

// All tests, in the order of the rows. False, after a message, if a row has none and is not exempt.
bool tests_make(Tests *all);
uint32_t tests_forms(const Tests *all); // how many forms: rows, times numbers for '#'

// ---- making a kernel ----

// The kernel at hand: registers %p<64>, %h<64>, %r<96>, %d<64>; %r0 is the thread's number in the
// grid, %d0 and %d1 the addresses of input and output; %p, %h, %r, %d 8 to 19 are for snippets.
typedef struct Make {
    Tests *all;
    uint32_t row, number;
    const Row *form;
    const char *name; // with its number
    Test *t;
    char *text;
    size_t n, room;
    uint32_t cases;     // threads of the grid
    const char *prefix; // text in front of the kernel
    char more[600];     // declarations in front of the body
    char directives[128];
} Make;
typedef void Maker(Make *m, int arg);

void begin(Make *m, uint32_t cases, uint32_t block);
void say(Make *m, const char *format, ...) __attribute__((format(printf, 2, 3)));
void declare(Make *m, const char *format, ...) __attribute__((format(printf, 2, 3)));
// Ends the kernel; `variant` is added to the test's name, if it is not empty.
void end(Make *m, const char *variant, ...) __attribute__((format(printf, 2, 3)));

// The register of a class (p h r l) with a number: "%h12".
const char *reg(char class, int number);
uint32_t class_bytes(char class);
// One element a case, to the register; the address of an array instead, for others.
void take(Make *m, Kind kind, char class, int number, int index, int of, Range range);
uint32_t input(Make *m, Kind kind, uint32_t unit, uint32_t count); // where it begins
uint32_t matrix(Make *m, Element e, Fill fill, uint32_t count);
// Stores the register as an element a case; an array for others.
void give(Make *m, Type type, char class, int number);
uint32_t output(Make *m, Type type, uint32_t unit, uint32_t count);

// The operands as text: read and written registers, numbered from `first`; what stands for an
// address, a number and a label is given.
typedef struct Parts {
    const char *address, *number, *label;
    int first;
    char any; // the class that D and d stand for
} Parts;
void operands_text(const char *operands, const Parts *p, char *out, size_t room);
// Calls back with each register's letter and number, lists opened.
typedef void OperandFn(Make *m, char letter, int number, int index, int of, void *data);
void each_operand(Make *m, const char *operands, int first, OperandFn *fn, void *data);

// ---- running ----

typedef struct Result {
    uint8_t *bytes; // out_bytes
    bool failed;
    char why[600];
} Result;

struct fk_device;
char *test_ptx(const Test *t);                            // the whole module's text
bool tests_write_ptx(const Tests *all, const char *path); // all kernels as one text
uint8_t *test_input(const Test *t);                       // from malloc
bool test_run(struct fk_device *device, const Test *t, Result *result);

// ---- comparing, and the stored outputs ----

uint32_t test_digest(const Test *t); // of the kernel and its input
// What a run gave as the text of a line: hashes of exact arrays, the others' bytes.
char *result_text(const Test *t, const Result *r);
// "" if a result agrees with the text that is stored; else what differs.
const char *compare_stored(const Test *t, const Result *r, const char *text);
double worst_share(const Test *t, const Result *a, const Result *b);
const char *compare_results(const Test *t, const Result *a, const Result *b);

#endif
