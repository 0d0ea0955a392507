// The .fkm module as a tree, its bytes, and its size expressions. Private to runtime and
// compiler/pack: the packer fills an FkmModule and calls fkm_encode; libfk calls fkm_decode.
//
// A file is a header (magic, version, length, checksum) and the tree below in order, little endian:
// counts and indices u32, texts a length, the bytes and a NUL, blobs aligned to 16. One function a
// struct in fkm_codec.c both writes and reads it, so the two cannot disagree. Nothing is believed:
// after decoding, fkm_check proves every index, count, arch, and expression (known opcodes,
// operands in range, bounded stack, exactly one result), so later stages index without looking.
//
// What a launch does with a fn:
//   1. sizes   bound sizes are known; each solve in order finds one more:
//                  size = number / divisor, exactly, number >= 0, divisor > 0
//   2. dims    every extent of every tensor must equal its dim expression
//   3. checks  value >= 0, unless `unless` is non-zero
//   4. steps   in order; of each the cheapest variant whose guard holds, whose tensor maps the
//              hardware can express, and which has an image for the device; its launches in order;
//              a launch with a 0 in its grid is skipped
// The workspace is [zeroed head][temporaries and scratch], each 256-aligned. A temporary has its
// place from the first step that names it to the last, scratch in its step, for all launches of the
// variant; what does not live at the same time may share a place (place.c).
#ifndef RUNTIME_FKM_H
#define RUNTIME_FKM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    FKM_VERSION = 5, // raised by any change of the bytes
    FKM_ALIGN = 256, // of temporaries, and the largest answer of ALIGN

    // Of a fn. A launch keeps on its stack what the fn at hand has: at the most 600 KiB.
    FKM_MAX_TENSORS = 1024,
    FKM_MAX_DIMS = 8192, // of all tensors together
    FKM_MAX_RANK = 32,
    FKM_MAX_SIZES = 1024,
    FKM_MAX_TEMPS = 8192,
    FKM_MAX_STEPS = 8192,
    FKM_MAX_VARIANTS = 64, // of a step
    FKM_MAX_LAUNCHES = 3,  // of a variant
    FKM_MAX_PARAMS = 4095, // of a launch: the 32764 bytes of the machine
    FKM_MAX_MAPS = 12,     // of a launch; each takes the room of MAP_BYTES, aligned to MAP_ALIGN
    FKM_MAP_BYTES = 128,
    FKM_MAP_ALIGN = 64,
    FKM_MAP_RANK = 5,
    FKM_MAP_BOX = 256,      // most elements of a box along a dimension
    FKM_MAX_CODE = 1 << 16, // instructions of an expression
    FKM_MAX_STACK = 128,
};

typedef enum {
#define DTYPE(name, text, code, bits) FKM_##name,
#include "runtime/dtype.def"
#undef DTYPE
    FKM_DTYPES
} FkmDtype;

typedef enum {
#define OP(name, operands, pops, pushes, formula) FKM_OP_##name,
#include "runtime/expr.def"
#undef OP
    FKM_OPS
} FkmOp;

typedef struct {
    uint8_t op;    // FkmOp
    uint16_t a, b; // operands A and B
    int64_t k;     // operand K
} FkmInsn;

// n == 0: absent. An absent guard holds, an absent `unless` is 0, absent bytes and offsets are 0.
typedef struct {
    FkmInsn *code;
    uint32_t n;
} FkmExpr;

typedef struct {
    char *text;   // as the program wrote it: "2*D"
    FkmExpr size; // over sizes only
} FkmDim;

typedef struct {
    char *name;
    uint8_t dtype; // FkmDtype
    bool is_output;
    FkmDim *dims;
    uint32_t rank;
    uint32_t first_dim; // derived, not stored: dims of the tensors before this one
} FkmTensor;

typedef struct {
    char *name;
    int64_t bound; // its fixed value, or -1
} FkmSize;

// size = number / divisor. `number` may use extents and sizes already known, `divisor` (absent: 1)
// sizes already known. tensor and dim say where the equation comes from, for messages.
typedef struct {
    uint32_t size, tensor, dim;
    FkmExpr number, divisor;
} FkmSolve;

// A condition on sizes. `text` is the message; "{needed}" and "{found}" in it become the two values
// (absent: 0): "h / G is exact: H must be a multiple of {needed}, found {found}".
typedef struct {
    FkmExpr value, unless, needed, found;
    char *text;
} FkmCheck;

// Dense and row-major. `dims` say what a tensor map of it needs; bytes is what it takes.
typedef struct {
    FkmExpr bytes;
    uint8_t dtype; // FkmDtype
    FkmExpr *dims; // extents, over sizes only
    uint32_t rank;
} FkmTemp;

typedef enum {
    FKM_PARAM_VALUE,   // i64: `value`
    FKM_PARAM_TENSOR,  // address of tensor `index`
    FKM_PARAM_TEMP,    // address of temporary `index`
    FKM_PARAM_SCRATCH, // address of the variant's scratch
    FKM_PARAM_HEAD,    // address of the workspace's zeroed head
    FKM_PARAM_SCALAR, // rank-0 tensor `index`: TWO parameters: its address, or null if it is on the
                      // CPU; then its bytes, zero-extended to 8 (0 if it is on the device)
    FKM_PARAM_TMAP,   // MAP_BYTES by value: the tensor map `map` of tensor or temporary `index`
    FKM_PARAM_KINDS
} FkmParamKind;

// What cuTensorMapEncodeTiled is asked for besides the address, extents and strides of the launch.
// Its dimension i, innermost first, is dimension dim[i] of the tensor. Hardware can express it if
// every extent is 1 .. 2^31, the address and the strides of dimensions after the first are
// multiples of 16 bytes, those strides are positive and below 2^40 bytes, and the first
// dimension's stride is one element; strides of extents of 1 do not matter.
typedef struct {
    bool temp;             // of temporary `index`, else of tensor `index`
    uint8_t rank, swizzle; // 1 .. MAP_RANK; 0, 32, 64 or 128 bytes
    uint8_t dim[FKM_MAP_RANK];
    uint16_t box[FKM_MAP_RANK]; // elements
} FkmMap;

typedef struct {
    uint8_t kind; // FkmParamKind
    uint32_t index;
    FkmExpr value; // of VALUE; of an address: bytes added to it (absent: 0)
    FkmMap map;    // of TMAP, and stored only there; of 4-bit types it is one of bytes
} FkmParam;

typedef struct {
    uint32_t kernel;
    FkmExpr grid[3];
    uint32_t block[3];
    FkmExpr shared; // dynamic shared bytes
    FkmParam *params;
    uint32_t n_params;
} FkmLaunch;

typedef struct {
    char *name;    // for reports: "general"
    char *arch;    // least architecture: "sm_80"; "sm_90a" is that one only
    FkmExpr guard; // failed counts as 0
    FkmExpr cost;  // predicted ns, compared only; failed counts as the largest; absent is 0
    FkmExpr scratch;
    FkmLaunch *launches;
    uint32_t n_launches;
} FkmVariant;

typedef struct {
    char *name;
    FkmVariant *variants; // of equal costs the first wins
    uint32_t n_variants;
} FkmStep;

typedef struct {
    char *name;
    char *graph;        // graph text, or NULL
    FkmTensor *tensors; // inputs, then outputs
    uint32_t n_tensors;
    FkmSize *sizes;
    uint32_t n_sizes;
    FkmSolve *solves;
    uint32_t n_solves;
    FkmCheck *checks;
    uint32_t n_checks;
    FkmExpr head; // bytes at the head of the workspace that are 0 between launches
    FkmTemp *temps;
    uint32_t n_temps;
    FkmStep *steps;
    uint32_t n_steps;
    uint32_t n_dims; // derived, not stored: of all tensors together
} FkmFn;

// A fn that was left out, and why: "grad is not built yet".
typedef struct {
    char *name, *reason;
} FkmLeftOut;

typedef struct {
    char *arch;
    void *bytes;
    size_t size;
    uint32_t regs, shared, stack, spills; // as ptxas said; bytes: static, of a thread, moved
} FkmImage;

typedef struct {
    char *name;            // the entry's symbol, in every image
    char *ptx;             // or NULL
    uint16_t major, minor; // PTX ISA version of ptx
    char *arch;            // .target of ptx
    bool waits;            // it may begin before the launch before it in its fn has ended
    FkmImage *cubins;
    uint32_t n_cubins;
} FkmKernel;

typedef struct {
    char *producer; // "fkc 0.1.0"
    FkmFn *fns;
    uint32_t n_fns;
    FkmLeftOut *left_out;
    uint32_t n_left_out;
    FkmKernel *kernels;
    uint32_t n_kernels;
    struct FkmChunk *memory; // of a decoded module
} FkmModule;

typedef struct {
    char text[256];
} FkmError;

// The bytes of a module, from malloc; NULL, with the reason, if fkm_check refuses it or memory
// ends.
void *fkm_encode(const FkmModule *m, size_t *size, FkmError *error);
// The tree of `bytes`, whose texts and blobs lie in `bytes`; NULL and the reason if they are no
// valid module. `bytes` must be aligned to 16 and outlive the tree.
FkmModule *fkm_decode(void *bytes, size_t size, FkmError *error);
void fkm_free(FkmModule *m); // a decoded one
// Is the tree consistent? Also fills first_dim.
bool fkm_check(FkmModule *m, FkmError *error);
// Rewrites length and checksum of changed bytes (size >= the header's), for tests of the reader.
void fkm_seal(void *bytes, size_t size);

const char *fkm_dtype_name(FkmDtype t);
int fkm_dtype_bits(FkmDtype t);
// The code of "bf16", or -1.
int fkm_dtype_named(const char *text);

// "sm_90a" as number 90 and suffix 'a' (0 if none); false if it is no architecture.
typedef struct {
    int number;
    char suffix;
} FkmArch;
bool fkm_arch(const char *text, FkmArch *arch);

// ---- the workspace (place.c) ----

// The steps from and to which a temporary is named, by any variant; first > last: by none.
typedef struct {
    uint32_t first, last;
} FkmLife;
void fkm_lives(const FkmFn *f, FkmLife *life); // by temporary
// Temporaries by rising first step, those that nobody names last.
void fkm_order(const FkmLife *life, uint32_t n_temps, uint32_t n_steps, uint32_t *order);

typedef struct {
    uint32_t n_temps, n_steps;
    const FkmLife *life;
    const uint32_t *order;
    uint64_t head;                  // bytes; rounded up, as all bytes here are
    uint64_t *bytes, *at;           // by temporary; at: bytes from the start of the workspace
    uint64_t *scratch, *scratch_at; // by step
    uint32_t *live;                 // room for n_temps
    uint64_t total;                 // of the workspace
} FkmPlaces;
// Fills at, scratch_at and total; false: the bytes leave 64 bits.
bool fkm_place(FkmPlaces *p);

// ---- expressions (expr.c) ----

#define FKM_CONST(value) ((FkmInsn){.op = FKM_OP_CONST, .k = (value)})
#define FKM_SIZE(i)      ((FkmInsn){.op = FKM_OP_SIZE, .a = (uint16_t)(i)})
#define FKM_EXTENT(t, d) ((FkmInsn){.op = FKM_OP_EXTENT, .a = (uint16_t)(t), .b = (uint16_t)(d)})
#define FKM_STRIDE(t, d) ((FkmInsn){.op = FKM_OP_STRIDE, .a = (uint16_t)(t), .b = (uint16_t)(d)})
#define FKM_ALIGNOF(t)   ((FkmInsn){.op = FKM_OP_ALIGN, .a = (uint16_t)(t)})
#define FKM_DO(name)     ((FkmInsn){.op = FKM_OP_##name})

typedef struct {
    const FkmTensor *tensors; // for first_dim
    const int64_t *size;      // by size
    const int64_t *extent;    // by first_dim + dim
    const int64_t *stride;
    const int64_t *align; // by tensor
    int64_t sm_count;
} FkmEnv;

// False if the result is "failed". The expression must have been checked.
bool fkm_eval(const FkmExpr *e, const FkmEnv *env, int64_t *value);

// What an expression may mention; a bound of 0 sizes forbids SIZE, and so on.
typedef struct {
    const FkmFn *fn;
    const bool *known; // sizes that may be used; NULL: all
    bool extents;      // EXTENT allowed
    bool layout;       // STRIDE, ALIGN, SM_COUNT allowed
} FkmScope;
// Proves that evaluation stays in bounds; otherwise NULL is not returned, but what is wrong.
const char *fkm_expr_check(const FkmExpr *e, const FkmScope *scope);
// The values that evaluation keeps on its stack at the most; FKM_MAX_STACK bounds it.
int fkm_expr_depth(const FkmExpr *e);

#endif
