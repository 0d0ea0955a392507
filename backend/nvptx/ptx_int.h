/* ptx_int.h - machine instructions as typed functions: intrinsics where LLVM 19 has them, one
 * inline asm each where it has none. Nothing else in the backend writes PTX text. Everything goes
 * to the current place (l->b) unless said otherwise.
 */
#ifndef FK_NVPTX_PTX_INT_H
#define FK_NVPTX_PTX_INT_H

#include "backend/nvptx/nvptx_int.h"

Val ptx_intrinsic(Lower *l, LLVMBuilderRef b, const char *name, Ty *over, unsigned nover, Val *args,
                  unsigned nargs);

/* What an inline asm is to LLVM: a function of its operands; something that happens, in order with
 * the others; the same, met by all threads of a warp or none. Constraints may list ~{memory}. */
typedef enum AsmEffect { ASM_PURE, ASM_EFFECT, ASM_TOGETHER } AsmEffect;
Val ptx_asm(Lower *l, const char *text, const char *constraints, AsmEffect effect, Ty ret, Val *arg,
            unsigned n);

Val ptx_tid(Lower *l);              /* threadIdx.x, i32; at the entry */
Val ptx_tid_now(Lower *l);          /* the same here, read again: a register less until then */
Val ptx_ctaid(Lower *l);            /* blockIdx.x, i32; at the entry */
Val ptx_zero(Lower *l);             /* 0, i32, which nobody knows before the launch */
Val ptx_zeros(Lower *l, int which); /* at the entry: several that nobody knows to be equal */
Val ptx_nctaid(Lower *l);           /* gridDim.x, i32; at the entry */

void ptx_barrier(Lower *l); /* bar.sync 0 */
/* All that launches before wrote is there, and they read no more; the next may begin its own wait.
 */
void ptx_grid_wait(Lower *l, LLVMBuilderRef b);
void ptx_grid_go(Lower *l, LLVMBuilderRef b);
Val ptx_shfl_xor(Lower *l, Val v, int mask); /* i32, f32 or i64; whole warps */

/* Global memory, `bytes` of 1, 2, 4, 8 as an int of that width. Reads are of data that no thread
 * of the launch writes (ld.global.nc). pred NULL: always; else 0 / nothing where it is false. */
Val ptx_load(Lower *l, int bytes, Val ptr, Val pred);
Val ptx_load_at(Lower *l, int bytes, Val ptr, int64_t offset, Val pred);
void ptx_store(Lower *l, int bytes, Val ptr, Val v, Val pred);
void ptx_store_at(Lower *l, int bytes, Val ptr, int64_t offset, Val v, Val pred); /* pred: given */

/* `bytes` of 1 to 16 at ptr + offset as words of 32 bits (of fewer: the low bits of one). late: it
 * stays behind the barriers before it (ptxas moves others to the front, where they take registers).
 */
void ptx_load_wide(Lower *l, int bytes, Val ptr, int64_t offset, Val pred, bool late, Val *word);
void ptx_store_wide(Lower *l, int bytes, Val ptr, int64_t offset, const Val *word, Val pred);

/* Global memory that CTAs of a launch share (ptx_global.c): u32 adding and reading that order all
 * memory of the thread before and after, with other CTAs too; a store that orders nothing; four f32
 * side by side, aligned to 16 bytes. */
Val ptx_atomic_add(Lower *l, Val ptr, Val by);   /* what was there */
Val ptx_atomic_count(Lower *l, Val ptr, Val by); /* the same, and orders nothing else */
Val ptx_atomic_wrap(Lower *l, Val ptr,
                    Val last); /* counts to `last`, then from 0 again; orders nothing */
Val ptx_load_acquire(Lower *l, Val ptr);
void ptx_store_relaxed(Lower *l, Val ptr, Val v);
void ptx_store_floats(Lower *l, Val ptr, int64_t offset, const Val *v);
void ptx_load_floats(Lower *l, Val ptr, int64_t offset, Val *v);

Val ptx_again(Lower *l, Val v, int turn); /* i32 v, but LLVM does not know it for that of another
                                             turn */
Val ptx_rcp(Lower *l, Val f);      /* 1 / f to an ulp, subnormals flushed: a start for Newton */
Val ptx_cvt_i32(Lower *l, Val f);  /* f32 to i32: nearest even, saturating, NaN gives 0 */
Val ptx_cvt_i64(Lower *l, Val f);  /* f32 to i64: the same but for NaN */
Val ptx_cvt_bf16(Lower *l, Val f); /* f32 to the 16 bits of a bf16, nearest even */
/* Two f32 to two bf16 or f16 in one i32, lo in the low half, nearest even (sm_80). */
Val ptx_cvt_pair(Lower *l, bool bf16, Val lo, Val hi);
/* Two f32 to two e4m3 or e5m2 in one i16, lo in the low half, nearest even, infinities and what is
 * too large to the largest finite, NaN to NaN; and two of them to two f16 in one i32 (sm_89). */
Val ptx_cvt_fp8_pair(Lower *l, bool e4m3, Val lo, Val hi);
Val ptx_cvt_fp8_f16(Lower *l, bool e4m3, Val pair);

/* Tensor cores and asynchronous copies of every chip from sm_80 on (ptx_mma.c). Addresses of shared
 * memory are i32.
 * ldmatrix: n = 2 or 4 matrices of 8 x 8 16-bit elements; thread t names row t % 8 of matrix t / 8
 * (16 bytes, aligned), and gets of each, in v, the elements 2 (t % 4) and + 1 of row t / 4; trans:
 * of column t / 4.
 * mma: acc (16 x 8 f32) += a (16 x 16) * b (16 x 8), bf16 or f16. Of thread t, g = t / 4 and
 * q = t % 4: acc[2 h + e] is row g + 8 h, column 2 q + e; a[h + 2 i] row g + 8 h, and b[i] column
 * g, both at k = 8 i + 2 q and, in the high half, the next. */
void ptx_ldmatrix(Lower *l, int n, bool trans, Val from, int offset, Val *v);
void ptx_mma(Lower *l, DType type, const Val *a, const Val *b, Val *acc);
/* 16 bytes of global memory, both sides aligned. bytes: i32, so many are read, the rest is 0 (with
 * 0 nothing is read); NULL: all. ahead: 0, or so many bytes around them are fetched to the
 * second-level cache, 64, 128 or 256 (PTX 7.4). The copies of a thread between two commits are a
 * group; wait until at most `pending` of its groups go on. What a thread waited for, others see
 * after a barrier. */
void ptx_copy16(Lower *l, Val to, int to_offset, Val from, int64_t offset, Val bytes, int ahead);
void ptx_copy_commit(Lower *l);
/* 16 bits of global memory, 0 where pred does not hold; read here, and not where they are used. */
Val ptx_load_early(Lower *l, Val from, int64_t offset, Val pred);
void ptx_copy_wait(Lower *l, int pending);

#endif
