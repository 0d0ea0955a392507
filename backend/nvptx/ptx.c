/* ptx.c - see ptx_int.h. */
#include "backend/nvptx/ptx_int.h"

#include <string.h>

Val ptx_intrinsic(Lower *l, LLVMBuilderRef b, const char *name, Ty *over, unsigned nover, Val *args,
                  unsigned nargs) {
    unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
    if (!id) FK_BUG("no intrinsic %s", name);
    Val fn = LLVMGetIntrinsicDeclaration(l->mod, id, over, nover);
    return LLVMBuildCall2(b, LLVMIntrinsicGetType(l->cx, id, over, nover), fn, args, nargs, "");
}

Val ptx_tid(Lower *l) {
    return ptx_intrinsic(l, l->entry, "llvm.nvvm.read.ptx.sreg.tid.x", NULL, 0, NULL, 0);
}

Val ptx_tid_now(Lower *l) {
    return ptx_asm(l, "mov.u32 $0, %tid.x;", "=r", ASM_EFFECT, l->i32, NULL, 0);
}

Val ptx_ctaid(Lower *l) {
    return ptx_intrinsic(l, l->entry, "llvm.nvvm.read.ptx.sreg.ctaid.x", NULL, 0, NULL, 0);
}

/* The grid has one row of CTAs. */
Val ptx_zero(Lower *l) {
    return ptx_intrinsic(l, l->b, "llvm.nvvm.read.ptx.sreg.ctaid.y", NULL, 0, NULL, 0);
}

Val ptx_zeros(Lower *l, int which) {
    static const char *const name[] = {"llvm.nvvm.read.ptx.sreg.ctaid.y",
                                       "llvm.nvvm.read.ptx.sreg.ctaid.z"};
    Val of[2];
    for (int k = 0; k < 2; k++) of[k] = ptx_intrinsic(l, l->entry, name[k], NULL, 0, NULL, 0);
    if (which < 2) return of[which];
    Val by = LLVMConstInt(l->i32, (unsigned)which / 2, 0);
    return LLVMBuildAdd(l->entry, LLVMBuildMul(l->entry, of[0], by, ""), of[1], "");
}

Val ptx_nctaid(Lower *l) {
    return ptx_intrinsic(l, l->entry, "llvm.nvvm.read.ptx.sreg.nctaid.x", NULL, 0, NULL, 0);
}

/* At another place than the current one. */
static void say_at(Lower *l, LLVMBuilderRef b, const char *text) {
    LLVMBuilderRef now = l->b;
    l->b = b;
    ptx_asm(l, text, "~{memory}", ASM_EFFECT, LLVMVoidTypeInContext(l->cx), NULL, 0);
    l->b = now;
}

void ptx_grid_wait(Lower *l, LLVMBuilderRef b) {
    say_at(l, b, "griddepcontrol.wait;");
}

void ptx_grid_go(Lower *l, LLVMBuilderRef b) {
    say_at(l, b, "griddepcontrol.launch_dependents;");
}

void ptx_barrier(Lower *l) {
    ptx_intrinsic(l, l->b, "llvm.nvvm.barrier0", NULL, 0, NULL, 0);
}

static Val shfl32(Lower *l, Val v, int mask) {
    Val arg[4] = {LLVMConstInt(l->i32, 0xffffffffu, 0), v, LLVMConstInt(l->i32, (unsigned)mask, 0),
                  LLVMConstInt(l->i32, 31, 0)};
    return ptx_intrinsic(l, l->b, "llvm.nvvm.shfl.sync.bfly.i32", NULL, 0, arg, 4);
}

Val ptx_shfl_xor(Lower *l, Val v, int mask) {
    Ty t = LLVMTypeOf(v);
    if (t == l->i32) return shfl32(l, v, mask);
    if (t == l->f32) {
        Val i = shfl32(l, LLVMBuildBitCast(l->b, v, l->i32, ""), mask);
        return LLVMBuildBitCast(l->b, i, l->f32, "");
    }
    Val half = LLVMConstInt(l->i64, 32, 0);
    Val lo = shfl32(l, LLVMBuildTrunc(l->b, v, l->i32, ""), mask);
    Val hi = shfl32(l, LLVMBuildTrunc(l->b, LLVMBuildLShr(l->b, v, half, ""), l->i32, ""), mask);
    hi = LLVMBuildShl(l->b, LLVMBuildZExt(l->b, hi, l->i64, ""), half, "");
    return LLVMBuildOr(l->b, hi, LLVMBuildZExt(l->b, lo, l->i64, ""), "");
}

static void call_attribute(Lower *l, Val call, const char *name) {
    unsigned kind = LLVMGetEnumAttributeKindForName(name, strlen(name));
    LLVMAddCallSiteAttribute(call, LLVMAttributeFunctionIndex,
                             LLVMCreateEnumAttribute(l->cx, kind, 0));
}

Val ptx_asm(Lower *l, const char *text, const char *constraints, AsmEffect effect, Ty ret, Val *arg,
            unsigned n) {
    Ty *type = ARENA_ARRAY(l->arena, Ty, n + 1);
    for (unsigned i = 0; i < n; i++) type[i] = LLVMTypeOf(arg[i]);
    Ty ft = LLVMFunctionType(ret, type, n, 0);
    Val fn = LLVMGetInlineAsm(ft, text, strlen(text), constraints, strlen(constraints),
                              effect != ASM_PURE, 0, LLVMInlineAsmDialectATT, 0);
    Val call = LLVMBuildCall2(l->b, ft, fn, arg, n, "");
    call_attribute(l, call, "nounwind");
    if (effect == ASM_PURE) call_attribute(l, call, "memory"); /* none */
    if (effect == ASM_TOGETHER) call_attribute(l, call, "convergent");
    return call;
}

/* By log2 of the bytes: the register that holds them, and its name in the constraint. */
static const char *const width_name[] = {"u8", "u16", "u32", "u64"};
static const char *const mov_name[] = {"b16", "b16", "b32", "b64"};
static const char width_reg[] = {'h', 'h', 'r', 'l'};

static int width_log(int bytes) {
    return bytes == 1 ? 0 : bytes == 2 ? 1 : bytes == 4 ? 2 : 3;
}

static Ty width_type(const Lower *l, int bytes) {
    return bytes == 1 ? l->i8 : bytes == 2 ? l->i16 : bytes == 4 ? l->i32 : l->i64;
}

static const char *offset_text(Lower *l, int64_t offset) {
    return offset ? arena_printf(l->arena, "+%lld", (long long)offset) : "";
}

Val ptx_load(Lower *l, int bytes, Val ptr, Val pred) {
    return ptx_load_at(l, bytes, ptr, 0, pred);
}

Val ptx_load_at(Lower *l, int bytes, Val ptr, int64_t offset, Val pred) {
    Ty t = width_type(l, bytes);
    if (!pred) {
        Val by = LLVMConstInt(l->i64, (uint64_t)offset, 1);
        if (offset) ptr = LLVMBuildGEP2(l->b, l->i8, ptr, &by, 1, "");
        Val v = LLVMBuildLoad2(l->b, t, ptr, "");
        unsigned kind = LLVMGetMDKindIDInContext(l->cx, "invariant.load", 14);
        LLVMSetMetadata(v, kind, LLVMMetadataAsValue(l->cx, LLVMMDNodeInContext2(l->cx, NULL, 0)));
        return v;
    }
    int w = width_log(bytes);
    const char *text =
        arena_printf(l->arena, "mov.%s $0, 0;\n\t@$2 ld.global%s.%s $0, [$1%s];", mov_name[w],
                     l->kept ? "" : ".nc", width_name[w], offset_text(l, offset));
    const char *regs =
        arena_printf(l->arena, "=&%c,l,b%s", width_reg[w], l->kept ? ",~{memory}" : "");
    Val arg[2] = {ptr, pred};
    Val v =
        ptx_asm(l, text, regs, l->kept ? ASM_EFFECT : ASM_PURE, bytes == 1 ? l->i16 : t, arg, 2);
    return bytes == 1 ? LLVMBuildTrunc(l->b, v, l->i8, "") : v;
}

void ptx_store(Lower *l, int bytes, Val ptr, Val v, Val pred) {
    if (pred)
        ptx_store_at(l, bytes, ptr, 0, v, pred);
    else
        LLVMBuildStore(l->b, v, ptr);
}

void ptx_store_at(Lower *l, int bytes, Val ptr, int64_t offset, Val v, Val pred) {
    int w = width_log(bytes);
    if (bytes == 1) v = LLVMBuildZExt(l->b, v, l->i16, "");
    const char *text = arena_printf(l->arena, "@$2 st.global.%s [$0%s], $1;", width_name[w],
                                    offset_text(l, offset));
    const char *regs = arena_printf(l->arena, "l,%c,b,~{memory}", width_reg[w]);
    Val arg[3] = {ptr, v, pred};
    ptx_asm(l, text, regs, ASM_EFFECT, LLVMVoidTypeInContext(l->cx), arg, 3);
}

Val ptx_rcp(Lower *l, Val f) {
    return ptx_intrinsic(l, l->b, "llvm.nvvm.rcp.approx.ftz.f", NULL, 0, &f, 1);
}

Val ptx_cvt_i32(Lower *l, Val f) {
    return ptx_intrinsic(l, l->b, "llvm.nvvm.f2i.rn", NULL, 0, &f, 1);
}

Val ptx_cvt_i64(Lower *l, Val f) {
    return ptx_intrinsic(l, l->b, "llvm.nvvm.f2ll.rn", NULL, 0, &f, 1);
}

Val ptx_cvt_bf16(Lower *l, Val f) {
    Val h = ptx_intrinsic(l, l->b, "llvm.nvvm.f2bf16.rn", NULL, 0, &f, 1);
    return LLVMBuildBitCast(l->b, h, l->i16, "");
}

Val ptx_cvt_pair(Lower *l, bool bf16, Val lo, Val hi) {
    const char *text = bf16 ? "cvt.rn.bf16x2.f32 $0, $2, $1;" : "cvt.rn.f16x2.f32 $0, $2, $1;";
    Val arg[2] = {lo, hi};
    return ptx_asm(l, text, "=r,f,f", ASM_PURE, l->i32, arg, 2);
}

Val ptx_cvt_fp8_pair(Lower *l, bool e4m3, Val lo, Val hi) {
    const char *text = e4m3 ? "cvt.rn.satfinite.e4m3x2.f32 $0, $2, $1;"
                            : "cvt.rn.satfinite.e5m2x2.f32 $0, $2, $1;";
    Val arg[2] = {lo, hi};
    return ptx_asm(l, text, "=h,f,f", ASM_PURE, l->i16, arg, 2);
}

Val ptx_cvt_fp8_f16(Lower *l, bool e4m3, Val pair) {
    const char *text = e4m3 ? "cvt.rn.f16x2.e4m3x2 $0, $1;" : "cvt.rn.f16x2.e5m2x2 $0, $1;";
    return ptx_asm(l, text, "=r,h", ASM_PURE, l->i32, &pair, 1);
}
