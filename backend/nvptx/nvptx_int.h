/* nvptx_int.h - what the files of this folder share: the state of one lowering.
 *
 * A tile value is a fragment: an array of LLVM values, one for each element that a thread holds.
 * Its mask names the axes on which the elements differ within a thread (those of which the thread
 * holds more than one element now); the array is row-major over them, the last axis fastest. Ops
 * map over fragments and read operands with fewer axes at the projected place, so broadcasting
 * costs nothing. Where an element lies is known from the axis states alone.
 */
#ifndef FK_NVPTX_INT_H
#define FK_NVPTX_INT_H

#include <llvm-c/Core.h>

#include "backend/backend.h"

typedef LLVMValueRef Val;
typedef LLVMTypeRef Ty;

enum { MAX_AXES = 64 };
typedef uint64_t AxisSet; /* bit a: axis a */

static inline AxisSet axis_bit(int64_t axis) {
    return (AxisSet)1 << axis;
}

typedef struct Frag {
    AxisSet mask;
    int n;
    Val *v;
} Frag;

/* Elements [0, count) of an open axis that a thread holds. e: where they are (i64), moved back
 * into range where the tile hangs over the end; in: whether they were in range (NULL: always).
 * Element i is e[0] + step[i] whenever in[i] holds. */
typedef struct AxisState {
    bool open;
    int count;
    Val first; /* of a grid axis on which some store does not depend: is this its element 0? */
    Val some;  /* and has it any? NULL: yes */
    Val *e, *in;
    const int64_t *step;
    Val base;   /* from where the steps are; NULL: e[0] */
    bool raw;   /* e is not moved back, always e[0] + step[i]: who touches memory asks `in` */
    bool pairs; /* e[2 i] is even and e[2 i + 1] follows it */
} AxisState;

/* A factor of the thread index. */
typedef struct LaneDim {
    int lanes, stride; /* threads between neighbours */
    Val lane;          /* i32 */
} LaneDim;

typedef struct AxisMap { /* of the schedule, by axis */
    int lanes, regs, vec;
    int dim; /* lane dimension, -1 */
} AxisMap;

typedef struct CarryState {
    const TCarry *c;
    AxisSet mask;
    int n;
    Val *slot;     /* alloca of each element */
    Val *stepped;  /* alloca of i1, with a finish value or a frame only */
    bool is_frame; /* of another carry */
    bool open;     /* inside of its loop */
    bool whole;    /* all lanes know whether it was stepped */
    AxisSet inner; /* axes of its loop and of loops inside: what a step folds */
} CarryState;

/* A kernel parameter: used through a placeholder, made real when all are known. */
typedef struct Arg {
    KParam kp;
    Val use[2]; /* second: the raw bytes of a scalar */
    Ty type;
    int order;
} Arg;

/* How a value may be computed (approx.c), the strictest first. */
typedef enum Approx { APPROX_NONE, APPROX_F32, APPROX_FINE, APPROX_BF16, APPROX_FACTOR } Approx;

/* A tensor that a later step wants exact. */
typedef struct ExactTensor {
    TMem mem;
    int id;
    const struct ExactTensor *next;
} ExactTensor;

/* A polynomial of one value: sum of c[i] * base^i; base -1: a constant. */
enum { POLY_MAX = 5 };
typedef struct Poly {
    int base;
    double c[POLY_MAX + 1];
} Poly;

/* base + add, exactly; *used: somebody asked. */
typedef struct RealOf {
    Val base;
    double add;
    bool *used;
} RealOf;

typedef struct Lower {
    Arena *arena;
    const Plan *plan;  /* the steps around; NULL: none */
    const TProg *t;    /* the program, or a view of it (ir/mma.h) */
    const TProg *step; /* the program */
    const Schedule *s;
    const BackendOptions *o;
    LLVMContextRef cx;
    LLVMModuleRef mod;
    LLVMBuilderRef b;     /* where code goes now */
    LLVMBuilderRef entry; /* once a kernel: parameters, uniform arithmetic */
    LLVMBuilderRef frame; /* allocas, before all */
    Val fn;               /* being made; in the end the kernel */
    Val body;             /* inlined into it when LLVM's passes have run */
    Val tile;             /* i64 */
    Ty i1, i8, i16, i32, i64, f32, f16, bf16, ptr, gptr, sptr;
    AxisMap map[MAX_AXES];
    AxisState axis[MAX_AXES];
    VEC(LaneDim) dims;
    Val tid;           /* i32 */
    AxisSet *deps;     /* by value: axes it depends on */
    AxisSet once;      /* grid axes on which the place of some store does not depend */
    DType *type;       /* by value */
    const TInst **def; /* by value: what defines it; NULL: a carry */
    Poly *poly;        /* by value: as an expression of one value, at worst of itself */
    Approx *approx;    /* by value */
    const ExactTensor *exact;
    Frag *value;        /* by value, of the current place */
    CarryState **carry; /* by value */
    VEC(Arg) args;
    Map uniform; /* Ix * -> value in the entry block */
    Map narrow;  /* (rounded value, type) -> its stored bits */
    Map wide;    /* 16 stored bits -> the f32 that they were rounded from */
    Map reals;   /* an i64 -> RealOf *: the same number, as an f32 */
    Val shared;  /* placeholder of the shared buffer; NULL: none */
    int shared_bytes;
    int exchanged;            /* of them: each used by one merge */
    int *wide_bytes;          /* by tensor: bytes of its widest access of a vector; NULL: none */
    Val **packed;             /* by value: words of a load of a held row */
    int turn;                 /* of loops over it */
    bool by_vectors;          /* at a loop that takes one vector after the other */
    int round;                /* of making its elements again */
    bool keeps;               /* values of its elements, too, from loop to loop */
    bool whole;               /* some loop takes them all at once */
    VEC(KGuard) runs;         /* strides that make several dimensions one */
    AxisState *held;          /* by axis: of rows that are held */
    VEC(const TInst *) known; /* computed of held rows */
    const TInst **same;       /* by value: what it is the same as */
    struct Cut *cut;          /* rows are cut into parts (rows_cut.c); NULL: not */
    bool math;                /* a function of libclc is used */
    bool unit_last;           /* the last dimension of every tensor has stride 1: guarded */
    bool online;              /* wgmma, and products of what was made of products */
    int ctas;   /* with roles, or held rows: of a multiprocessor, at once; 0 reads as 1 */
    bool kept;  /* loads of global memory stay between the memory operations around them */
    bool roles; /* warps have roles: nothing may move between their regions */
} Lower;

/* ---- frag.c: fragments and the layout of axes ---------------------------------------------------
 */

typedef Val MapFn(Lower *l, const void *ctx, const Val *in);

Frag frag_new(Lower *l, AxisSet mask);
Frag frag_one(Lower *l, Val v);
AxisSet frag_live(const Lower *l, AxisSet axes);              /* those with more than one element */
int frag_at(const Lower *l, AxisSet from, int i, AxisSet to); /* project element i */
int frag_coord(const Lower *l, AxisSet mask, int i, int axis); /* 0 when not in mask */
Frag frag_map(Lower *l, MapFn *fn, const void *ctx, const Frag *in, int n);
Val frag_only(const Frag *f, const char *what); /* the one element; else a bug of ours */
void axes_layout(Lower *l);                     /* fills map, dims; emits the lanes */
Val axis_lane(Lower *l, int axis);              /* i64 */

/* ---- ixgen.c: index expressions
 * ------------------------------------------------------------------ */

bool ix_uniform(const Ix *x);                    /* of sizes only */
Val uniform_ix(Lower *l, const Ix *x);           /* computed by the host, or a constant */
Frag frag_ix(Lower *l, const Ix *x);             /* i64 */
Frag axis_scaled(Lower *l, int axis, Val scale); /* scale * element, scale uniform */

/* ---- chain.c ---- */

/* Here the kernel waits for those before it in its plan, and lets the next one come. */
void chain_here(Lower *l, Kernel *k, LLVMBuilderRef b);

/* ---- param.c: kernel parameters
 * -------------------------------------------------------------------- */

Val param_value(Lower *l, const Ix *x);
Val param_pointer(Lower *l, const TTensor *t);
Val param_stride(Lower *l, const TTensor *t, int dim); /* in elements; temporaries: dense */
void param_scalar(Lower *l, const TTensor *t, Val *pointer, Val *bits);
Val param_memory(Lower *l, KParamKind kind);   /* KP_SCRATCH, KP_HEAD */
Val param_launch(Lower *l);                    /* i64: which launch of the variant */
int param_map(Lower *l, KTmap map, int index); /* its place among the kernel's parameters */
const Ix *dense_stride(const TProg *t, const TTensor *x, int dim); /* of a temporary */
bool params_finish(Lower *l, Kernel *k, Diags *d); /* the real body; false: too many */
void guard_add(Lower *l, Kernel *k, KGuard g);     /* unless it always holds, or is there */
Ty params_type(Lower *l, bool body);               /* of the kernel, or of its body */
Val params_value(Lower *l, Val fn, const Ix *x);   /* the parameter of fn that is x */

/* ---- types.c: stored types
 * --------------------------------------------------------------------------- */

Ty reg_type(const Lower *l, DType t); /* what a value of it is in registers */
Val const_real(const Lower *l, double v);
Val const_int(const Lower *l, DType t, int64_t v);
Val identity(const Lower *l, Reduce r, DType t);
/* Element at ptr (4-bit types: `nibble` i32 0 or 1). pred NULL: always; else 0 where false. */
Val type_load(Lower *l, DType t, Val ptr, Val nibble, Val pred);
Val type_bits(Lower *l, DType t, Val v); /* value to stored bits, an int of its width */
/* Bits of two values (8 to 32 bits each) side by side, the first in the low half. */
Val type_bits_pair(Lower *l, DType t, Val lo, Val hi);
Val type_from_bits(Lower *l, DType t, Val bits);         /* and back */
Val type_convert(Lower *l, DType from, DType to, Val v); /* a cast: rounds, saturates */
Val type_widen(Lower *l, DType from, DType to, Val v);   /* between value types, to meet in an op */

/* ---- ops.c: op.def
 * ---------------------------------------------------------------------------------- */

bool op_is_long(const Lower *l, const TInst *i); /* tens of instructions */
Val op_emit(Lower *l, Op op, DType type, const DType *from, const Val *in);
Val op_emit_exact(Lower *l, Op op, DType type, Val a, Val b); /* no contraction: merges */

/* ---- mem.c: loads and stores
 * -------------------------------------------------------------------------- */

Frag emit_load(Lower *l, const TInst *i);
void emit_store(Lower *l, const TInst *i);
Val stored_bits(Lower *l, const TInst *i, const TTensor *t, Val v); /* what a store writes */

/* ---- mem_pairs.c ---- */

/* Loads of 16 or 32 bits whose neighbours lie side by side here and in memory, two at once where
 * rows are aligned: of each pair a word, the first in the low half, at its first element. */
bool load_is_paired(const Lower *l, const TInst *i);
Frag emit_load_words(Lower *l, const TInst *i);
Frag load_of_words(Lower *l, const TInst *i, const Frag *words);

/* ---- loop.c: loops, carried values and their merge
 * ------------------------------------------------------ */

Frag carry_read(Lower *l, int id);
Frag carry_now(Lower *l, int id); /* the state */
/* The states in the frame of `moved` follow it from `old`. */
void carry_moved(Lower *l, const CarryState *moved, const Frag *old);
void emit_loop(Lower *l, const TInst *i);
void emit_step(Lower *l, const TInst *i);
void values_find(Lower *l);

/* ---- lower.c
 * ---------------------------------------------------------------------------------------------- */

void emit_block(Lower *l, const TBlock *b);
void emit_inst(Lower *l, const TInst *i);
Frag value_of(Lower *l, int id);
LLVMBasicBlockRef block_new(Lower *l, const char *name);
void block_enter(Lower *l, LLVMBasicBlockRef b);

/* ---- wgmma.c: the tier of TMA and wgmma
 * -------------------------------------------------------------------------------------- */

/* Makes the body, l->fn, and what k says about its launch. */
bool wgmma_emit(Lower *l, Kernel *k, Diags *d);
/* The same with cp.async and mma.sync (mma.c). */
bool mma_emit(Lower *l, Kernel *k, Diags *d);
/* The same for programs of the kind of ir/online.h (online.c). */
bool online_emit(Lower *l, Kernel *k, Diags *d);

/* ---- module.c: LLVM itself
 * ------------------------------------------------------------------------------- */

bool module_begin(Lower *l, const char *name);
const char *module_emit(Lower *l, int ptx_version, Str *llvm); /* PTX, in the arena */
void module_end(Lower *l);
void math_link(Lower *l);

#endif
