/* ptx_wgmma.c - batches of wgmma whose operands lie in pieces, or whose first one is in registers:
 * see hopper_int.h. One asm block a batch: fence, all steps, commit; nothing gets in between.
 */
#include "backend/nvptx/hopper_int.h"

static Ty floats(const Lower *l, int n) {
    Ty *t = ARENA_ARRAY(l->arena, Ty, n);
    for (int i = 0; i < n; i++) t[i] = l->f32;
    return LLVMStructTypeInContext(l->cx, t, (unsigned)n, 0);
}

static void outs(Str *regs, int n, bool tied) {
    for (int i = 0; i < n; i++) str_add(regs, i ? ",=f" : "=f");
    for (int i = 0; i < n && tied; i++) str_printf(regs, ",%d", i);
}

static void take(Lower *l, Val all, int n, Val *v) {
    for (int i = 0; i < n; i++) v[i] = LLVMBuildExtractValue(l->b, all, (unsigned)i, "");
}

static void instruction(Str *s, const WgmmaPieces *w) {
    const char *type = dtype_name(w->type);
    str_printf(s, "wgmma.mma_async.sync.aligned.m64n%dk16.f32.%s.%s {", w->n, type, type);
    for (int i = 0; i < w->n / 2; i++) str_printf(s, i ? ",$%d" : "$%d", i);
    str_add(s, "}, ");
}

static int offset(const WgmmaPieces *w, int step, int of_step, int of_piece) {
    return step / w->per_piece * of_piece + step % w->per_piece * of_step;
}

void ptx_wgmma_scores(Lower *l, const WgmmaPieces *w, Val a, Val b, Val *acc) {
    Str text = {0}, regs = {0};
    int n = w->n / 2;
    str_printf(&text,
               "{\n\t.reg .b32 lo, h;\n\t.reg .b64 da, db;\n\tmov.b32 h, %u;\n\t"
               "wgmma.fence.sync.aligned;\n\t",
               w->high);
    for (int k = 0; k < w->steps; k++) {
        str_printf(&text, "add.s32 lo, $%d, %d;\n\tmov.b64 da, {lo, h};\n\t", n,
                   offset(w, k, w->a_step, w->a_piece));
        str_printf(&text, "add.s32 lo, $%d, %d;\n\tmov.b64 db, {lo, h};\n\t", n + 1,
                   offset(w, k, w->b_step, w->b_piece));
        instruction(&text, w);
        str_printf(&text, "da, db, %d, 1, 1, 0, 0;\n\t", k > 0);
    }
    str_add(&text, "wgmma.commit_group.sync.aligned;\n\t}");
    outs(&regs, n, false);
    str_add(&regs, ",r,r,~{memory}");
    Val arg[2] = {a, b};
    take(l, ptx_asm(l, str_get(&text), str_get(&regs), ASM_TOGETHER, floats(l, n), arg, 2), n, acc);
    str_free(&text);
    str_free(&regs);
}

void ptx_wgmma_rows(Lower *l, const WgmmaPieces *w, const Val *a, Val b, Val *acc, bool first,
                    bool last) {
    Str text = {0}, regs = {0};
    int n = w->n / 2, words = 4 * w->steps, at = 2 * n;
    str_printf(&text, "{\n\t.reg .b32 lo, h;\n\t.reg .b64 db;\n\tmov.b32 h, %u;\n\t%s", w->high,
               first ? "wgmma.fence.sync.aligned;\n\t" : "");
    for (int k = 0; k < w->steps; k++) {
        int r = at + 4 * k;
        str_printf(&text, "add.s32 lo, $%d, %d;\n\tmov.b64 db, {lo, h};\n\t", at + words,
                   offset(w, k, w->b_step, w->b_piece));
        instruction(&text, w);
        str_printf(&text, "{$%d,$%d,$%d,$%d}, db, 1, 1, 1, 1;\n\t", r, r + 1, r + 2, r + 3);
    }
    str_printf(&text, "%s}", last ? "wgmma.commit_group.sync.aligned;\n\t" : "");
    outs(&regs, n, true);
    for (int i = 0; i < words; i++) str_add(&regs, ",r");
    str_add(&regs, ",r,~{memory}");
    Val *arg = ARENA_ARRAY(l->arena, Val, n + words + 1);
    for (int i = 0; i < n; i++) arg[i] = acc[i];
    for (int i = 0; i < words; i++) arg[n + i] = a[i];
    arg[n + words] = b;
    take(l,
         ptx_asm(l, str_get(&text), str_get(&regs), ASM_TOGETHER, floats(l, n), arg,
                 (unsigned)(n + words + 1)),
         n, acc);
    str_free(&text);
    str_free(&regs);
}

void ptx_wgmma_made(Lower *l, const WgmmaPieces *w, const Val *a, Val b, Val add, Val *acc) {
    Str text = {0}, regs = {0};
    int n = w->n / 2, words = 4 * w->steps, at = 2 * n;
    str_printf(&text, "{\n\t.reg .pred p;\n\t.reg .b32 lo, h;\n\t.reg .b64 db;\n\t");
    if (add) str_printf(&text, "setp.ne.b32 p, $%d, 0;\n\t", at + words + 1);
    str_printf(&text, "mov.b32 h, %u;\n\twgmma.fence.sync.aligned;\n\t", w->high);
    for (int k = 0; k < w->steps; k++) {
        int r = at + 4 * k;
        str_printf(&text, "add.s32 lo, $%d, %d;\n\tmov.b64 db, {lo, h};\n\t", at + words,
                   offset(w, k, w->b_step, w->b_piece));
        instruction(&text, w);
        str_printf(&text, "{$%d,$%d,$%d,$%d}, db, %s, 1, 1, %d;\n\t", r, r + 1, r + 2, r + 3,
                   add && !k ? "p" : "1", !w->k_major);
    }
    str_add(&text, "wgmma.commit_group.sync.aligned;\n\t}");
    outs(&regs, n, true);
    for (int i = 0; i < words; i++) str_add(&regs, ",r");
    str_add(&regs, add ? ",r,r,~{memory}" : ",r,~{memory}");
    Val *arg = ARENA_ARRAY(l->arena, Val, n + words + 2);
    for (int i = 0; i < n; i++) arg[i] = acc[i];
    for (int i = 0; i < words; i++) arg[n + i] = a[i];
    arg[n + words] = b, arg[n + words + 1] = add;
    take(l,
         ptx_asm(l, str_get(&text), str_get(&regs), ASM_TOGETHER, floats(l, n), arg,
                 (unsigned)(n + words + 1 + (add != NULL))),
         n, acc);
    str_free(&text);
    str_free(&regs);
}

void ptx_hold(Lower *l, int n, Val *v) {
    enum { MOST = 64 };
    for (int from = 0; from < n; from += MOST) {
        int k = n - from < MOST ? n - from : MOST;
        Str regs = {0};
        outs(&regs, k, true);
        Ty all = floats(l, k);
        take(l, ptx_asm(l, "", str_get(&regs), ASM_TOGETHER, all, v + from, (unsigned)k), k,
             v + from);
        str_free(&regs);
    }
}
