/* ptx_hopper.c - see hopper_int.h. Labels and registers inside { } are the block's own. */
#include "backend/nvptx/hopper_int.h"

static Ty none(const Lower *l) {
    return LLVMVoidTypeInContext(l->cx);
}

/* The values of an asm that has several. */
static void take(Lower *l, Val all, int n, Val *v) {
    for (int i = 0; i < n; i++) v[i] = LLVMBuildExtractValue(l->b, all, (unsigned)i, "");
}

Val ptx_map_address(Lower *l, const char *kernel, int param) {
    const char *text =
        arena_printf(l->arena, "mov.b64 $0, %s_param_%d;\n\tcvta.param.u64 $0, $0;", kernel, param);
    return ptx_asm(l, text, "=l", ASM_PURE, l->i64, NULL, 0);
}

void ptx_map_prefetch(Lower *l, Val map) {
    ptx_asm(l, "prefetch.tensormap [$0];", "l,~{memory}", ASM_EFFECT, none(l), &map, 1);
}

Val ptx_vote_any(Lower *l, Val v) {
    Val arg[2] = {LLVMConstInt(l->i32, 0xffffffffu, 0), v};
    return ptx_intrinsic(l, l->b, "llvm.nvvm.vote.any.sync", NULL, 0, arg, 2);
}

Val ptx_vote_ballot(Lower *l, Val v) {
    Val arg[2] = {LLVMConstInt(l->i32, 0xffffffffu, 0), v};
    return ptx_intrinsic(l, l->b, "llvm.nvvm.vote.ballot.sync", NULL, 0, arg, 2);
}

Val ptx_first_lane(Lower *l, Val ballot) {
    Val arg[2] = {ballot, LLVMConstInt(l->i1, 1, 0)};
    return ptx_intrinsic(l, l->b, "llvm.cttz", &l->i32, 1, arg, 2);
}

Val ptx_opaque(Lower *l, Val v) {
    return ptx_asm(l, "mov.b32 $0, $1;", "=r,r", ASM_EFFECT, l->i32, &v, 1);
}

Val ptx_elected(Lower *l) {
    return ptx_asm(l, "elect.sync _|$0, -1;", "=b", ASM_TOGETHER, l->i1, NULL, 0);
}

void ptx_rolled(Lower *l) {
    ptx_asm(l, ".pragma \"nounroll\";", "", ASM_EFFECT, none(l), NULL, 0);
}

Val ptx_shfl_first(Lower *l, Val v) {
    return ptx_shfl_from(l, v, LLVMConstInt(l->i32, 0, 0));
}

Val ptx_shfl_from(Lower *l, Val v, Val lane) {
    Val arg[4] = {LLVMConstInt(l->i32, 0xffffffffu, 0), v, lane, LLVMConstInt(l->i32, 31, 0)};
    return ptx_intrinsic(l, l->b, "llvm.nvvm.shfl.sync.idx.i32", NULL, 0, arg, 4);
}

void ptx_setmaxnreg(Lower *l, int regs, bool more) {
    Val n = LLVMConstInt(l->i32, (unsigned)regs, 0);
    const char *name = more ? "llvm.nvvm.setmaxnreg.inc.sync.aligned.u32"
                            : "llvm.nvvm.setmaxnreg.dec.sync.aligned.u32";
    ptx_intrinsic(l, l->b, name, NULL, 0, &n, 1);
}

/* ---- barriers ------------------------------------------------------------------------------- */

static void bar(Lower *l, const char *what, Val id, int n) {
    const char *text = arena_printf(l->arena, "bar.%s $0, %d;", what, n);
    ptx_asm(l, text, "r,~{memory}", ASM_TOGETHER, none(l), &id, 1);
}

void ptx_bar_sync(Lower *l, Val id, int n) {
    bar(l, "sync", id, n);
}

void ptx_bar_arrive(Lower *l, Val id, int n) {
    bar(l, "arrive", id, n);
}

void ptx_mbar_init(Lower *l, Val b, int count) {
    const char *text = arena_printf(l->arena, "mbarrier.init.shared::cta.b64 [$0], %d;", count);
    ptx_asm(l, text, "r,~{memory}", ASM_EFFECT, none(l), &b, 1);
}

void ptx_mbar_init_done(Lower *l) {
    ptx_asm(l, "fence.mbarrier_init.release.cluster;", "~{memory}", ASM_EFFECT, none(l), NULL, 0);
}

void ptx_mbar_expect(Lower *l, Val b, Val bytes, Val pred) {
    Val arg[3] = {b, bytes, pred};
    const char *text = arena_printf(
        l->arena, "%smbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], $1;", pred ? "@$2 " : "");
    const char *in = arena_printf(l->arena, "r,%s%s,~{memory}", LLVMIsConstant(bytes) ? "n" : "r",
                                  pred ? ",b" : "");
    ptx_asm(l, text, in, ASM_EFFECT, none(l), arg, pred ? 3 : 2);
}

void ptx_mbar_arrive(Lower *l, Val b, Val pred) {
    Val arg[2] = {b, pred};
    if (pred)
        ptx_asm(l, "@$1 mbarrier.arrive.shared::cta.b64 _, [$0];", "r,b,~{memory}", ASM_EFFECT,
                none(l), arg, 2);
    else
        ptx_asm(l, "mbarrier.arrive.shared::cta.b64 _, [$0];", "r,~{memory}", ASM_EFFECT, none(l),
                arg, 1);
}

void ptx_mbar_wait(Lower *l, Val b, Val parity) {
    static const char text[] = "{\n\t.reg .pred p;\n"
                               "WAIT:\n\t"
                               "mbarrier.try_wait.parity.shared::cta.b64 p, [$0], $1;\n\t"
                               "@p bra DONE;\n\t"
                               "bra WAIT;\n"
                               "DONE:\n\t}";
    Val arg[2] = {b, parity};
    ptx_asm(l, text, "r,r,~{memory}", ASM_TOGETHER, none(l), arg, 2);
}

/* ---- clusters ------------------------------------------------------------------------------- */

Val ptx_cluster_rank(Lower *l) {
    return ptx_asm(l, "mov.u32 $0, %cluster_ctarank;", "=r", ASM_PURE, l->i32, NULL, 0);
}

Val ptx_cluster_map(Lower *l, Val a, Val rank) {
    Val arg[2] = {a, rank};
    return ptx_asm(l, "mapa.shared::cluster.u32 $0, $1, $2;", "=r,r,r", ASM_PURE, l->i32, arg, 2);
}

/* With .release.cluster it would be a fence of all memory and take hundreds of cycles; what is told
 * here is only that wgmma has read a stage. */
void ptx_mbar_arrive_at(Lower *l, Val b, Val pred) {
    Val arg[2] = {b, pred};
    ptx_asm(l, "@$1 mbarrier.arrive.shared::cluster.b64 _, [$0];", "r,b,~{memory}", ASM_EFFECT,
            none(l), arg, 2);
}

void ptx_cluster_barrier(Lower *l) {
    ptx_asm(l, "barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;",
            "~{memory}", ASM_TOGETHER, none(l), NULL, 0);
}

/* ---- TMA ------------------------------------------------------------------------------------ */

static const char *const coords[] = {"$3", "$3, $4", "$3, $4, $5", "$3, $4, $5, $6",
                                     "$3, $4, $5, $6, $7"};
static const char *const coord_regs[] = {"r", "r,r", "r,r,r", "r,r,r,r", "r,r,r,r,r"};
/* What createpolicy makes for all of the bytes; a constant saves the instruction. */
static const uint64_t evict_policy[] = {0, 0x12F0000000000000, 0x14F0000000000000};

void ptx_tma_load(Lower *l, Val map, int rank, const Val *coord, Val to, Val b, SEvict evict,
                  unsigned mask, Val pred) {
    FK_ASSERT(rank >= 1 && rank <= 5);
    unsigned n = 3 + (unsigned)rank, last = n + (mask ? 1 : 0) + (evict ? 1 : 0);
    const char *to_all = mask ? arena_printf(l->arena, ", $%u", n) : "";
    const char *policy = evict ? arena_printf(l->arena, ", $%u", mask ? n + 1 : n) : "";
    const char *text = arena_printf(
        l->arena,
        "%scp.async.bulk.tensor.%dd.shared::cluster.global.tile.mbarrier::complete_tx::bytes%s "
        "[$0], [$1, {%s}], [$2]%s;",
        pred ? arena_printf(l->arena, "@$%u ", last) : "", rank,
        arena_printf(l->arena, "%s%s", mask ? ".multicast::cluster" : "",
                     evict ? ".L2::cache_hint" : ""),
        coords[rank - 1], arena_printf(l->arena, "%s%s", to_all, policy));
    const char *in = arena_printf(l->arena, "r,l,r,%s%s%s%s,~{memory}", coord_regs[rank - 1],
                                  mask ? ",h" : "", evict ? ",l" : "", pred ? ",b" : "");
    Val arg[11] = {to, map, b};
    for (int i = 0; i < rank; i++) arg[3 + i] = coord[i];
    if (mask) arg[n++] = LLVMConstInt(l->i16, mask, 0);
    if (evict) arg[n++] = LLVMConstInt(l->i64, evict_policy[evict], 0);
    if (pred) arg[n++] = pred;
    ptx_asm(l, text, in, ASM_EFFECT, none(l), arg, n);
}

/* The text where pred ($0) holds. */
static void when(Lower *l, const char *text, Val pred) {
    if (pred)
        ptx_asm(l, arena_printf(l->arena, "@$0 %s", text), "b,~{memory}", ASM_EFFECT, none(l),
                &pred, 1);
    else
        ptx_asm(l, text, "~{memory}", ASM_EFFECT, none(l), NULL, 0);
}

void ptx_tma_store(Lower *l, Val map, int rank, const Val *coord, Val from, Val pred) {
    FK_ASSERT(rank >= 1 && rank <= 5);
    const char *text = arena_printf(
        l->arena, "%scp.async.bulk.tensor.%dd.global.shared::cta.tile.bulk_group [$1, {%s}], [$0];",
        pred ? "@$2 " : "", rank, coords[rank - 1]);
    const char *in = arena_printf(l->arena, "r,l,b,%s,~{memory}", coord_regs[rank - 1]);
    Val arg[8] = {from, map, pred ? pred : LLVMConstInt(l->i1, 1, 0)};
    for (int i = 0; i < rank; i++) arg[3 + i] = coord[i];
    ptx_asm(l, text, in, ASM_EFFECT, none(l), arg, 3 + (unsigned)rank);
}

void ptx_bulk_commit(Lower *l, Val pred) {
    when(l, "cp.async.bulk.commit_group;", pred);
}

void ptx_bulk_wait_read(Lower *l, int n, Val pred) {
    when(l, arena_printf(l->arena, "cp.async.bulk.wait_group.read %d;", n), pred);
}

void ptx_fence_async(Lower *l) {
    ptx_asm(l, "fence.proxy.async.shared::cta;", "~{memory}", ASM_EFFECT, none(l), NULL, 0);
}

void ptx_stmatrix4(Lower *l, Val to, const Val *v) {
    Val arg[5] = {to, v[0], v[1], v[2], v[3]};
    ptx_asm(l, "stmatrix.sync.aligned.m8n8.x4.shared.b16 [$0], {$1, $2, $3, $4};",
            "r,r,r,r,r,~{memory}", ASM_TOGETHER, none(l), arg, 5);
}

Val ptx_load_shared(Lower *l, int bytes, Val from) {
    const char *text = arena_printf(l->arena, "ld.shared.b%d $0, [$1];", 8 * bytes);
    const char *regs = bytes == 2   ? "=h,r,~{memory}"
                       : bytes == 4 ? "=r,r,~{memory}"
                                    : "=l,r,~{memory}";
    Ty t = bytes == 2 ? l->i16 : bytes == 4 ? l->i32 : l->i64;
    return ptx_asm(l, text, regs, ASM_EFFECT, t, &from, 1);
}

void ptx_sync_warp(Lower *l) {
    ptx_asm(l, "bar.warp.sync 0xffffffff;", "~{memory}", ASM_TOGETHER, none(l), NULL, 0);
}

void ptx_store_shared(Lower *l, int bytes, Val to, Val v) {
    const char *text = arena_printf(l->arena, "st.shared.b%d [$0], $1;", 8 * bytes);
    const char *in = bytes == 2 ? "r,h,~{memory}" : bytes == 4 ? "r,r,~{memory}" : "r,l,~{memory}";
    Val arg[2] = {to, v};
    ptx_asm(l, text, in, ASM_EFFECT, none(l), arg, 2);
}

void ptx_store_shared4(Lower *l, Val to, int offset, const Val *v) {
    const char *text =
        arena_printf(l->arena, "st.shared.v4.b32 [$0+%d], {$1, $2, $3, $4};", offset);
    Val arg[5] = {to, v[0], v[1], v[2], v[3]};
    ptx_asm(l, text, "r,r,r,r,r,~{memory}", ASM_EFFECT, none(l), arg, 5);
}

static Ty words(const Lower *l) {
    Ty t[4] = {l->i32, l->i32, l->i32, l->i32};
    return LLVMStructTypeInContext(l->cx, t, 4, 0);
}

void ptx_load_shared4(Lower *l, Val from, int offset, Val *v) {
    const char *text =
        arena_printf(l->arena, "ld.shared.v4.b32 {$0, $1, $2, $3}, [$4+%d];", offset);
    take(l, ptx_asm(l, text, "=r,=r,=r,=r,r,~{memory}", ASM_EFFECT, words(l), &from, 1), 4, v);
}

void ptx_store_shifted(Lower *l, Val to, int offset, Val select, const Val *v) {
    const char *text = arena_printf(l->arena,
                                    "{\n\t.reg .b32 a, b, c, d;\n\t"
                                    "prmt.b32 a, $2, $3, $1;\n\tprmt.b32 b, $3, $4, $1;\n\t"
                                    "prmt.b32 c, $4, $5, $1;\n\tprmt.b32 d, $5, $6, $1;\n\t"
                                    "st.shared.v4.b32 [$0+%d], {a, b, c, d};\n\t}",
                                    offset);
    Val arg[7] = {to, select, v[0], v[1], v[2], v[3], v[4]};
    ptx_asm(l, text, "r,r,r,r,r,r,r,~{memory}", ASM_EFFECT, none(l), arg, 7);
}

void ptx_load_words(Lower *l, Val from, int offset, Val pred, Val *v) {
    const char *text =
        arena_printf(l->arena, "@$5 ld.global.nc.v4.b32 {$0, $1, $2, $3}, [$4+%d];", offset);
    Val arg[6] = {from, pred, v[0], v[1], v[2], v[3]};
    take(l, ptx_asm(l, text, "=r,=r,=r,=r,l,b,0,1,2,3", ASM_EFFECT, words(l), arg, 6), 4, v);
}

Val ptx_mad_wide(Lower *l, Val a, Val b, Val c) {
    Val arg[3] = {a, b, c};
    return ptx_asm(l, "mad.wide.s32 $0, $1, $2, $3;", "=l,r,r,l", ASM_PURE, l->i64, arg, 3);
}

/* ---- wgmma ---------------------------------------------------------------------------------- */

/* "=f" n times, then what ties inputs to them: accumulators stay in their registers. */
static void tied(Str *regs, int n, bool in) {
    for (int i = 0; i < n; i++) str_add(regs, i ? ",=f" : "=f");
    for (int i = 0; i < n && in; i++) str_printf(regs, ",%d", i);
}

static Ty many(const Lower *l, int n) {
    Ty *t = ARENA_ARRAY(l->arena, Ty, n);
    for (int i = 0; i < n; i++) t[i] = l->f32;
    return LLVMStructTypeInContext(l->cx, t, (unsigned)n, 0);
}

int wgmma_block(const Wgmma *w, int block) {
    return block / w->of_part * w->a.part + block % w->of_part * w->a.block;
}

/* a, b: the numbers of the operands with their low words. */
static void one_wgmma(Str *s, const Wgmma *w, int block, int step, int a, const char *add) {
    int per = w->n / 2, size = dtype_bits(w->a_type) / 8;
    str_printf(s, "add.s32 lo, $%d, %d;\n\tmov.b64 da, {lo, ha};\n\t", a,
               wgmma_block(w, block) + step * w->a.step);
    str_printf(s, "add.s32 lo, $%d, %d;\n\tmov.b64 db, {lo, hb};\n\t", a + 1, step * w->b.step);
    str_printf(s, "wgmma.mma_async.sync.aligned.m64n%dk%d.f32.%s.%s {", w->n, 32 / size,
               dtype_name(w->a_type), dtype_name(w->b_type));
    for (int i = 0; i < per; i++) str_printf(s, i ? ",$%d" : "$%d", block * per + i);
    str_printf(s, "}, da, db, %s, 1, 1", step ? "1" : add);
    if (size == 2) str_printf(s, ", %d, %d", w->a.mn, w->b.mn); /* fp8 is K-major */
    str_add(s, ";\n\t");
}

void ptx_wgmma(Lower *l, const Wgmma *w, Val a, Val b, Val add, Val *acc) {
    int n = w->blocks * w->n / 2, ins = add ? n : 0, at = n + ins;
    Str text = {0}, regs = {0};
    str_add(&text, "{\n\t.reg .pred p;\n\t.reg .b32 lo, ha, hb;\n\t.reg .b64 da, db;\n\t");
    if (add) str_printf(&text, "setp.ne.b32 p, $%d, 0;\n\t", at + 2);
    str_printf(&text, "mov.b32 ha, %u;\n\tmov.b32 hb, %u;\n\twgmma.fence.sync.aligned;\n\t",
               w->a.high, w->b.high);
    for (int k = 0; k < w->steps; k++)
        for (int m = 0; m < w->blocks; m++) one_wgmma(&text, w, m, k, at, add ? "p" : "0");
    str_add(&text, "wgmma.commit_group.sync.aligned;\n\t}");
    tied(&regs, n, add != NULL);
    str_add(&regs, add ? ",r,r,r,~{memory}" : ",r,r,~{memory}");
    Val *arg = ARENA_ARRAY(l->arena, Val, n + 3);
    for (int i = 0; i < ins; i++) arg[i] = acc[i];
    arg[ins] = a, arg[ins + 1] = b, arg[ins + 2] = add;
    Val all = ptx_asm(l, str_get(&text), str_get(&regs), ASM_TOGETHER, many(l, n), arg,
                      (unsigned)(ins + 2 + (add != NULL)));
    take(l, all, n, acc);
    str_free(&text);
    str_free(&regs);
}

void ptx_wgmma_wait_group(Lower *l, int pending) {
    const char *text = arena_printf(l->arena, "wgmma.wait_group.sync.aligned %d;", pending);
    ptx_asm(l, text, "~{memory}", ASM_TOGETHER, none(l), NULL, 0);
}

void ptx_wgmma_wait(Lower *l, int pending, int n, Val *acc) {
    Str regs = {0};
    const char *text = arena_printf(l->arena, "wgmma.wait_group.sync.aligned %d;", pending);
    tied(&regs, n, true);
    str_add(&regs, ",~{memory}");
    Val all = ptx_asm(l, text, str_get(&regs), ASM_TOGETHER, many(l, n), acc, (unsigned)n);
    take(l, all, n, acc);
    str_free(&regs);
}
