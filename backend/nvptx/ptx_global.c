/* ptx_global.c - global memory that threads of several CTAs share; see ptx_int.h. */
#include "backend/nvptx/ptx_int.h"

static Ty none(const Lower *l) {
    return LLVMVoidTypeInContext(l->cx);
}

Val ptx_atomic_add(Lower *l, Val ptr, Val by) {
    Val arg[2] = {ptr, by};
    return ptx_asm(l, "atom.acq_rel.gpu.global.add.u32 $0, [$1], $2;", "=r,l,r,~{memory}",
                   ASM_EFFECT, l->i32, arg, 2);
}

Val ptx_atomic_count(Lower *l, Val ptr, Val by) {
    Val arg[2] = {ptr, by};
    return ptx_asm(l, "atom.relaxed.gpu.global.add.u32 $0, [$1], $2;", "=r,l,r,~{memory}",
                   ASM_EFFECT, l->i32, arg, 2);
}

Val ptx_atomic_wrap(Lower *l, Val ptr, Val last) {
    Val arg[2] = {ptr, last};
    return ptx_asm(l, "atom.relaxed.gpu.global.inc.u32 $0, [$1], $2;", "=r,l,r,~{memory}",
                   ASM_EFFECT, l->i32, arg, 2);
}

Val ptx_load_acquire(Lower *l, Val ptr) {
    return ptx_asm(l, "ld.acquire.gpu.global.u32 $0, [$1];", "=r,l,~{memory}", ASM_EFFECT, l->i32,
                   &ptr, 1);
}

void ptx_store_relaxed(Lower *l, Val ptr, Val v) {
    Val arg[2] = {ptr, v};
    ptx_asm(l, "st.relaxed.gpu.global.u32 [$0], $1;", "l,r,~{memory}", ASM_EFFECT, none(l), arg, 2);
}

void ptx_store_floats(Lower *l, Val ptr, int64_t offset, const Val *v) {
    const char *text =
        arena_printf(l->arena, "st.global.v4.f32 [$0+%lld], {$1, $2, $3, $4};", (long long)offset);
    Val arg[5] = {ptr, v[0], v[1], v[2], v[3]};
    ptx_asm(l, text, "l,f,f,f,f,~{memory}", ASM_EFFECT, none(l), arg, 5);
}

void ptx_load_floats(Lower *l, Val ptr, int64_t offset, Val *v) {
    const char *text =
        arena_printf(l->arena, "ld.global.v4.f32 {$0, $1, $2, $3}, [$4+%lld];", (long long)offset);
    Ty f[4] = {l->f32, l->f32, l->f32, l->f32};
    Val all = ptx_asm(l, text, "=f,=f,=f,=f,l,~{memory}", ASM_EFFECT,
                      LLVMStructTypeInContext(l->cx, f, 4, 0), &ptr, 1);
    for (unsigned i = 0; i < 4; i++) v[i] = LLVMBuildExtractValue(l->b, all, i, "");
}
