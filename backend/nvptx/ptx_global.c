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

Val ptx_again(Lower *l, Val v, int turn) {
    const char *text = arena_printf(l->arena, "mov.b32 $0, $1; // again %d", turn);
    return ptx_asm(l, text, "=r,r", ASM_PURE, l->i32, &v, 1);
}

static const char *const words_name[] = {"b32", "v2.b32", "v4.b32"};

void ptx_load_wide(Lower *l, int bytes, Val ptr, int64_t offset, Val pred, bool late, Val *word) {
    if (bytes < 4) {
        word[0] = LLVMBuildZExt(l->b, ptx_load_at(l, bytes, ptr, offset, pred), l->i32, "");
        return;
    }
    int n = bytes / 4;
    Str s = {0}, c = {0};
    if (pred)
        for (int k = 0; k < n; k++) str_printf(&s, "mov.b32 $%d, 0;\n\t", k);
    if (pred) str_printf(&s, "@$%d ", n + 1);
    str_printf(&s, "ld.global%s.%s %s", late ? "" : ".nc", words_name[n / 2], n > 1 ? "{" : "");
    for (int k = 0; k < n; k++) str_printf(&s, k ? ", $%d" : "$%d", k);
    str_printf(&s, "%s, [$%d+%lld];", n > 1 ? "}" : "", n, (long long)offset);
    for (int k = 0; k < n; k++) str_add(&c, pred ? "=&r," : "=r,");
    str_add(&c, pred ? "l,b" : "l");
    if (late) str_add(&c, ",~{memory}");
    Ty type[4] = {l->i32, l->i32, l->i32, l->i32};
    Ty ret = n > 1 ? LLVMStructTypeInContext(l->cx, type, (unsigned)n, 0) : l->i32;
    Val arg[2] = {ptr, pred};
    Val all = ptx_asm(l, arena_strdup(l->arena, str_get(&s)), arena_strdup(l->arena, str_get(&c)),
                      late ? ASM_EFFECT : ASM_PURE, ret, arg, pred ? 2 : 1);
    for (int k = 0; k < n; k++)
        word[k] = n > 1 ? LLVMBuildExtractValue(l->b, all, (unsigned)k, "") : all;
    str_free(&s);
    str_free(&c);
}

void ptx_store_wide(Lower *l, int bytes, Val ptr, int64_t offset, const Val *word, Val pred) {
    if (bytes < 4) {
        Ty t = bytes == 2 ? l->i16 : l->i8;
        Val v = LLVMTypeOf(word[0]) == t ? word[0] : LLVMBuildTrunc(l->b, word[0], t, "");
        Val by = LLVMConstInt(l->i64, (uint64_t)offset, 1);
        if (offset) ptr = LLVMBuildGEP2(l->b, l->i8, ptr, &by, 1, "");
        ptx_store(l, bytes, ptr, v, pred);
        return;
    }
    int n = bytes / 4;
    Str s = {0}, c = {0};
    if (pred) str_printf(&s, "@$%d ", n + 1);
    str_printf(&s, "st.global.%s [$0+%lld], %s", words_name[n / 2], (long long)offset,
               n > 1 ? "{" : "");
    for (int k = 0; k < n; k++) str_printf(&s, k ? ", $%d" : "$%d", k + 1);
    str_add(&s, n > 1 ? "};" : ";");
    str_add(&c, "l,");
    for (int k = 0; k < n; k++) str_add(&c, "r,");
    str_add(&c, pred ? "b,~{memory}" : "~{memory}");
    Val arg[6] = {ptr};
    for (int k = 0; k < n; k++) arg[k + 1] = word[k];
    arg[n + 1] = pred;
    ptx_asm(l, arena_strdup(l->arena, str_get(&s)), arena_strdup(l->arena, str_get(&c)), ASM_EFFECT,
            none(l), arg, (unsigned)n + 1 + (pred != NULL));
    str_free(&s);
    str_free(&c);
}
