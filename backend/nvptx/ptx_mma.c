/* ptx_mma.c - what multiplies and copies on every chip from sm_80 on: see ptx_int.h. All of it is
 * issued in the order of the calls: LLVM moves none of it, ptxas as registers allow.
 */
#include "backend/nvptx/ptx_int.h"

static Ty same(const Lower *l, Ty t, int n) {
    Ty part[4] = {t, t, t, t};
    FK_ASSERT(n <= 4);
    return LLVMStructTypeInContext(l->cx, part, (unsigned)n, 0);
}

static void take(Lower *l, Val all, int n, Val *v) {
    for (int i = 0; i < n; i++) v[i] = LLVMBuildExtractValue(l->b, all, (unsigned)i, "");
}

void ptx_ldmatrix(Lower *l, int n, bool trans, Val from, int offset, Val *v) {
    FK_ASSERT(n == 2 || n == 4);
    const char *text =
        arena_printf(l->arena, "ldmatrix.sync.aligned.m8n8.x%d%s.shared.b16 {%s}, [$%d%s];", n,
                     trans ? ".trans" : "", n == 4 ? "$0, $1, $2, $3" : "$0, $1", n,
                     offset ? arena_printf(l->arena, "+%d", offset) : "");
    const char *regs = n == 4 ? "=r,=r,=r,=r,r,~{memory}" : "=r,=r,r,~{memory}";
    take(l, ptx_asm(l, text, regs, ASM_TOGETHER, same(l, l->i32, n), &from, 1), n, v);
}

void ptx_mma(Lower *l, DType type, const Val *a, const Val *b, Val *acc) {
    FK_ASSERT(type == DT_bf16 || type == DT_f16);
    const char *t = dtype_name(type);
    const char *text = arena_printf(l->arena,
                                    "mma.sync.aligned.m16n8k16.row.col.f32.%s.%s.f32 "
                                    "{$0, $1, $2, $3}, {$4, $5, $6, $7}, {$8, $9}, "
                                    "{$0, $1, $2, $3};",
                                    t, t);
    Val arg[10] = {a[0], a[1], a[2], a[3], b[0], b[1], acc[0], acc[1], acc[2], acc[3]};
    Val got = ptx_asm(l, text, "=f,=f,=f,=f,r,r,r,r,r,r,0,1,2,3", ASM_TOGETHER, same(l, l->f32, 4),
                      arg, 10);
    take(l, got, 4, acc);
}

void ptx_copy16(Lower *l, Val to, int to_offset, Val from, int64_t offset, Val bytes, int ahead) {
    Str text = {0};
    str_add(&text, "cp.async.cg.shared.global");
    if (ahead) str_printf(&text, ".L2::%dB", ahead);
    str_printf(&text, to_offset ? " [$0+%d]" : " [$0]", to_offset);
    str_printf(&text, offset ? ", [$1+%lld], 16" : ", [$1], 16", (long long)offset);
    str_add(&text, bytes ? ", $2;" : ";");
    Val arg[3] = {to, from, bytes};
    ptx_asm(l, str_get(&text), bytes ? "r,l,r,~{memory}" : "r,l,~{memory}", ASM_EFFECT,
            LLVMVoidTypeInContext(l->cx), arg, bytes ? 3 : 2);
    str_free(&text);
}

Val ptx_load_early(Lower *l, Val from, int64_t offset, Val pred) {
    const char *text = arena_printf(
        l->arena, "mov.b16 $0, 0;\n\t@$2 ld.global.nc.u16 $0, [$1+%lld];", (long long)offset);
    Val arg[2] = {from, pred};
    return ptx_asm(l, text, "=&h,l,b", ASM_EFFECT, l->i16, arg, 2);
}

static void group(Lower *l, const char *text) {
    ptx_asm(l, text, "~{memory}", ASM_EFFECT, LLVMVoidTypeInContext(l->cx), NULL, 0);
}

void ptx_copy_commit(Lower *l) {
    group(l, "cp.async.commit_group;");
}

void ptx_copy_wait(Lower *l, int pending) {
    group(l, arena_printf(l->arena, "cp.async.wait_group %d;", pending));
}
