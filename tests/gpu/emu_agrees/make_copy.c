// Asynchronous copies: rows of bytes and boxes of tensors, both ways, their groups.
#include <string.h>

#include "tests/gpu/emu_agrees/makers.h"

void copy_bytes(Make *m, const char *to, const char *to_space, const char *from,
                const char *from_space, uint32_t bytes) {
    uint32_t step = m->t->block * 16;
    say(m, "mov.u32 %%r40, %%tid.x;\nmul.wide.u32 %%d40, %%r40, 16;");
    say(m, "add.u64 %%d41, %s, %%d40;\nadd.u64 %%d42, %s, %%d40;", from, to);
    for (uint32_t at = 0; at < bytes; at += step) {
        const char *guard = "";
        if (at + step > bytes) {
            say(m, "setp.lt.u32 %%p40, %%r40, %u;", (bytes - at) / 16);
            guard = "@%p40 ";
        }
        say(m, "%sld.%s.v2.u64 {%%d43, %%d44}, [%%d41+%u];", guard, from_space, at);
        say(m, "%sst.%s.v2.u64 [%%d42+%u], {%%d43, %%d44};", guard, to_space, at);
    }
}

enum { BULK = 2048 }; // bytes of a row

// Shared memory at %d7, thread 0 in %p1, an mbarrier at %d4.
static void start(Make *m, uint32_t block, uint32_t bytes, uint32_t align) {
    begin(m, block, block);
    declare(m, ".shared .align %u .b8 place[%u];\n.shared .align 8 .b8 bar[8];", align, bytes);
    say(m, "mov.u32 %%r3, %%tid.x;\nsetp.eq.u32 %%p1, %%r3, 0;\nmov.u64 %%d7, place;");
    say(m, "mov.u64 %%d4, bar;\n@%%p1 mbarrier.init.shared::cta.b64 [%%d4], 1;");
    say(m, "@%%p1 fence.mbarrier_init.release.cluster;\nbar.sync 0;");
}

static void wait(Make *m, int phase) {
    say(m, "WAIT%d: mbarrier.try_wait.parity.shared::cta.b64 %%p2, [%%d4], %d;", phase, phase & 1);
    say(m, "@!%%p2 bra WAIT%d;", phase);
}

static void input_at(Make *m, const char *address, uint32_t at) {
    say(m, "add.u64 %s, %%d0, %u;", address, at);
}

static void output_at(Make *m, const char *address, uint32_t at) {
    say(m, "add.u64 %s, %%d1, %u;", address, at);
}

// ---- rows ----

static const char bulk_load[] = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes",
                  bulk_store[] = "cp.async.bulk.global.shared::cta.bulk_group",
                  commit[] = "cp.async.bulk.commit_group",
                  wait_group[] = "cp.async.bulk.wait_group",
                  expect[] = "mbarrier.arrive.expect_tx.shared::cta.b64";

static const char set_policy[] = "mov.u64 %d12, 0x1000000000000000;";
static const char meet[] = "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;";

// What follows the operands that all such copies have.
static const char *more_operands(const Make *m) {
    bool cast = has(m->name, "multicast::cluster"), hint = has(m->name, "L2::cache_hint");
    return cast ? hint ? ", %h8, %d12" : ", %h8" : hint ? ", %d12" : "";
}

// Each of a cluster's two CTAs has its mbarrier and expects the bytes, %h8 both, %r4 this one's
// rank, %p3 the thread that sends, of CTA `from`.
static void cast_from(Make *m, uint32_t from, uint32_t bytes) {
    say(m, "mov.u16 %%h8, 3;\nmov.u32 %%r4, %%cluster_ctarank;\n%s", meet);
    say(m, "@%%p1 %s _, [%%d4], %u;\n%s", expect, bytes, meet);
    say(m, "setp.eq.u32 %%p3, %%r4, %u;\nand.pred %%p3, %%p3, %%p1;", from);
}

void make_bulk_load(Make *m, int arg) {
    bool cast = has(m->name, "multicast::cluster");
    const char *more = more_operands(m);
    (void)arg;
    start(m, 64, BULK, 128);
    if (cast) m->t->cluster = m->t->grid = 2;
    input_at(m, "%d8", input(m, KIND_RANDOM, 8, BULK / 8));
    output_at(m, "%d9", output(m, TYPE_EXACT, 8, (cast + 1) * BULK / 8));
    if (has(m->name, "L2::cache_hint")) say(m, "%s", set_policy);
    if (cast) {
        cast_from(m, 1, BULK);
        say(m, "mul.wide.u32 %%d10, %%r4, %d;\nadd.u64 %%d9, %%d9, %%d10;", BULK);
        say(m, "@!%%p3 bra ISSUED;");
    } else {
        say(m, "@!%%p1 bra ISSUED;\n%s _, [%%d4], %d;", expect, BULK);
    }
    say(m, "%s [%%d7], [%%d8], 1024, [%%d4]%s;", m->name, more);
    say(m, "%s [%%d7+1024], [%%d8+1024], 1008, [%%d4]%s;", m->name, more);
    say(m, "%s [%%d7+2032], [%%d8+2032], 16, [%%d4]%s;\nISSUED:", m->name, more);
    wait(m, 0);
    copy_bytes(m, "%d9", "global", "%d7", "shared", BULK);
    if (cast) say(m, "%s", meet);
    end(m, "%s", "");
}

// arg: 1 to add to what is there
void make_bulk_store(Make *m, int arg) {
    const char *type = strrchr(m->name, '.') + 1;
    Kind kind = KIND_RANDOM;
    uint32_t unit = 8;
    if (arg) {
        unit = type_bytes(m->name);
        kind = kind_of(m->name, unit == 2 ? 'h' : 'r');
        if (!strcmp(type, "u64")) kind = KIND_INT;
    }
    start(m, 64, BULK, 128);
    for (int k = 0; k < 2; k++) { // what is there, and what comes
        uint32_t at = input(m, kind, unit, BULK / unit);
        m->t->in[k].index = (uint8_t)k;
        m->t->in[k].of = kind == KIND_RANDOM ? 1 : 3;
        input_at(m, k ? "%d9" : "%d8", at);
    }
    output_at(m, "%d10", output(m, TYPE_EXACT, unit, BULK / unit));
    copy_bytes(m, "%d10", "global", "%d8", "global", BULK);
    copy_bytes(m, "%d7", "shared", "%d9", "global", BULK);
    say(m, "fence.proxy.async;\nbar.sync 0;\n@!%%p1 bra OVER;");
    if (has(m->name, "L2::cache_hint")) say(m, "%s", set_policy);
    say(m, "%s [%%d10+16], [%%d7+16], 1024%s;", m->name, more_operands(m));
    say(m, "%s [%%d10+1040], [%%d7+1040], 32%s;", m->name, more_operands(m));
    say(m, "%s;\n%s 0;\nOVER:", commit, wait_group);
    end(m, "%s", "");
}

// Two groups of a row; arg: which instruction is under test: commit, wait, wait for reads, after
// which their places are written over.
void make_bulk_group(Make *m, int arg) {
    start(m, 64, BULK, 128);
    input_at(m, "%d8", input(m, KIND_RANDOM, 8, BULK / 8));
    output_at(m, "%d10", output(m, TYPE_EXACT, 8, BULK / 8));
    copy_bytes(m, "%d7", "shared", "%d8", "global", BULK);
    say(m, "fence.proxy.async;\nbar.sync 0;\n@!%%p1 bra OVER;");
    for (int k = 0; k < 2; k++)
        say(m, "%s [%%d10+%d], [%%d7+%d], 512;\n%s;", bulk_store, 512 * k, 1024 * k,
            arg == 0 ? m->name : commit);
    if (arg == 1) say(m, "%s 1;", m->name);
    if (arg == 2) {
        say(m, "%s 1;\nst.shared.u64 [%%d7+8], %%d0;", m->name);
        say(m, "%s 0;\nst.shared.u64 [%%d7+1024], %%d0;", m->name);
    }
    say(m, "%s 0;\nOVER:", arg == 1 ? m->name : wait_group);
    end(m, "%s", "");
}

// A fence between what threads write and what a copy reads: shared memory; arg 1: global memory.
void make_proxy(Make *m, int arg) {
    start(m, 64, BULK, 128);
    input_at(m, "%d8", input(m, KIND_RANDOM, 8, BULK / 8));
    output_at(m, "%d9", output(m, TYPE_EXACT, 8, BULK / 8));
    output_at(m, "%d10", output(m, TYPE_EXACT, 8, BULK / 8));
    copy_bytes(m, arg ? "%d9" : "%d7", arg ? "global" : "shared", "%d8", "global", BULK);
    say(m, "%s;\nbar.sync 0;\n@!%%p1 bra OVER;", m->name);
    if (arg) {
        say(m, "%s _, [%%d4], %d;\n%s [%%d7], [%%d9], %d, [%%d4];\nOVER:", expect, BULK, bulk_load,
            BULK);
        wait(m, 0);
        copy_bytes(m, "%d10", "global", "%d7", "shared", BULK);
    } else {
        say(m, "%s [%%d10], [%%d7], %d;\n%s;\n%s 0;\nOVER:", bulk_store, BULK, commit, wait_group);
    }
    end(m, "%s", "");
}

// ---- boxes ----

typedef struct Case {
    FkmDtype dtype;
    uint32_t swizzle;
} Case;
static const Case layouts[] = {{FKM_BF16, 128}, {FKM_F32, 64}, {FKM_U8, 32}, {FKM_F16, 0},
                               {FKM_U8, 128},   {FKM_I64, 64}, {FKM_I32, 0}, {FKM_BF16, 32}},
                  sums[] = {{FKM_F32, 128}, {FKM_BF16, 64}, {FKM_F16, 32}, {FKM_I32, 0}};

// Rows of a box as long as the swizzle; a tensor with room for two boxes and a bit.
static Mapped tensor(const Case *c, uint32_t rank) {
    static const uint32_t box[5] = {0, 9, 3, 2, 2}, extent[5] = {0, 20, 7, 5, 4};
    uint32_t unit = (uint32_t)fkm_dtype_bits(c->dtype) / 8, row = c->swizzle ? c->swizzle : 48;
    Mapped t = {.dtype = c->dtype, .rank = rank, .swizzle = c->swizzle};
    for (uint32_t d = 0; d < rank; d++) {
        t.box[d] = d ? box[d] : row / unit;
        t.extent[d] = d ? extent[d] : (2 * row + 16) / unit;
    }
    return t;
}

static uint32_t box_bytes(const Mapped *t) {
    uint32_t n = (uint32_t)fkm_dtype_bits(t->dtype) / 8;
    for (uint32_t d = 0; d < t->rank; d++) n *= t->box[d];
    return n;
}

static uint32_t elements(const Mapped *t) {
    uint32_t n = 1;
    for (uint32_t d = 0; d < t->rank; d++) n *= t->extent[d];
    return n;
}

// Where boxes begin: inside; before the tensor in every dimension; where they end past it; some of
// each. In dimension 0 at a multiple of 16 bytes: hardware refuses all else as an illegal
// instruction. Boxes that are stored begin at 0 instead of before the tensor, which the CUDA guide
// forbids, and an H200 had an illegal instruction in every test that did.
enum { PLACES = 4 };
static void coordinates(Make *m, const Mapped *t, int place, bool stored) {
    int step = 16 * 8 / fkm_dtype_bits(t->dtype);
    for (uint32_t d = 0; d < t->rank; d++) {
        int box = (int)t->box[d], extent = (int)t->extent[d], at;
        switch (place) {
        case 0: at = d ? 1 : step; break;
        case 1: at = -(box / 2); break;
        case 2: at = extent - (box + 1) / 2; break;
        default: at = d % 2 ? -1 : extent - box - 1; break;
        }
        if (stored && at < 0) at = 0;
        if (!d) at = at / step * step;
        say(m, "mov.b32 %%r%d, %d;", 10 + (int)d, at);
    }
}

static const char *coordinate_list(const Mapped *t) {
    static const char all[] = "%r10, %r11, %r12, %r13, %r14";
    static char text[sizeof all];
    snprintf(text, sizeof text, "%.*s", (int)(6 * t->rank - 2), all);
    return text;
}

static Kind kind_of_dtype(FkmDtype t) {
    return t == FKM_F32    ? KIND_F32
           : t == FKM_F16  ? KIND_F16
           : t == FKM_BF16 ? KIND_BF16
           : t == FKM_I32  ? KIND_INT
                           : KIND_RANDOM;
}

#define TENSOR_LOAD                                                                                \
    "cp.async.bulk.tensor.%ud.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
static void load_boxes(Make *m, const Case *c) {
    bool cast = has(m->name, "multicast::cluster"), hint = has(m->name, "L2::cache_hint");
    Mapped t = tensor(c, m->number);
    uint32_t bytes = box_bytes(&t), unit = (uint32_t)fkm_dtype_bits(t.dtype) / 8;
    uint32_t ctas = cast ? 2 : 1;
    start(m, 64, (bytes + 127) & ~127u, 1024);
    m->t->map_in = t;
    if (cast) {
        m->t->cluster = m->t->grid = 2;
        say(m, "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;");
        say(m, "mov.u16 %%h8, 3;\nmov.u32 %%r4, %%cluster_ctarank;");
    }
    input(m, KIND_RANDOM, unit, elements(&t));
    uint32_t at = output(m, TYPE_EXACT, 4, ctas * PLACES * bytes / 4);
    if (hint) say(m, "mov.u64 %%d12, 0x1000000000000000;");
    say(m, "mov.b64 %%d8, map_in;\ncvta.param.u64 %%d8, %%d8;");
    for (int p = 0; p < PLACES; p++) {
        coordinates(m, &t, p, false);
        say(m, "@%%p1 %s _, [%%d4], %u;", expect, bytes);
        if (cast) { // one after the other is who sends
            say(m, "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;");
            say(m, "setp.eq.u32 %%p3, %%r4, %d;\nand.pred %%p3, %%p3, %%p1;", p & 1);
        }
        say(m, "@%%p%d %s [%%d7], [%%d8, {%s}], [%%d4]%s%s;", cast ? 3 : 1, m->name,
            coordinate_list(&t), cast ? ", %h8" : "", hint ? ", %d12" : "");
        wait(m, p);
        output_at(m, "%d9", at + (uint32_t)p * ctas * bytes);
        if (cast) say(m, "mul.wide.u32 %%d10, %%r4, %u;\nadd.u64 %%d9, %%d9, %%d10;", bytes);
        copy_bytes(m, "%d9", "global", "%d7", "shared", bytes);
        say(m, "bar.sync 0;");
    }
    if (cast) say(m, "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;");
    end(m, "%s-swizzle-%u", fkm_dtype_name(c->dtype), c->swizzle);
}

void make_tensor_load(Make *m, int arg) {
    bool plain = like("*complete_tx::bytes", m->name);
    (void)arg;
    for (size_t k = 0; k < (plain ? sizeof layouts / sizeof *layouts : 1); k++)
        load_boxes(m, &layouts[k]);
}

// arg: 1 a box is under test, else a tensor map.
void make_prefetch(Make *m, int arg) {
    Mapped t = tensor(&layouts[0], arg ? m->number : 2);
    start(m, 64, (box_bytes(&t) + 127) & ~127u, 1024);
    m->t->map_in = t;
    input(m, KIND_RANDOM, 2, elements(&t));
    output_at(m, "%d9", output(m, TYPE_EXACT, 4, box_bytes(&t) / 4));
    say(m, "mov.b64 %%d8, map_in;\ncvta.param.u64 %%d8, %%d8;\n@!%%p1 bra ISSUED;");
    if (arg) {
        coordinates(m, &t, 0, false);
        say(m, "%s\n%s [%%d8, {%s}]%s;", set_policy, m->name, coordinate_list(&t),
            more_operands(m));
        say(m, "%s _, [%%d4], %u;", expect, box_bytes(&t));
        say(m, TENSOR_LOAD " [%%d7], [%%d8, {%s}], [%%d4];\nISSUED:", t.rank, coordinate_list(&t));
    } else {
        say(m, "%s [%%d8];\n%s _, [%%d4], %u;", m->name, expect, box_bytes(&t));
        say(m, TENSOR_LOAD " [%%d7], [%%d8, {8, 1}], [%%d4];\nISSUED:", t.rank);
    }
    wait(m, 0);
    copy_bytes(m, "%d9", "global", "%d7", "shared", box_bytes(&t));
    end(m, "%s", "");
}

static const char tensor_store[] = "cp.async.bulk.tensor.%ud.global.shared::cta.tile.bulk_group";

// Boxes with other contents at each place; with `add` each is stored first, then added to.
static void store_boxes(Make *m, const Case *c, bool add) {
    bool hint = has(m->name, "L2::cache_hint");
    Mapped t = tensor(c, m->number);
    uint32_t bytes = box_bytes(&t), unit = (uint32_t)fkm_dtype_bits(t.dtype) / 8;
    start(m, 64, (bytes + 127) & ~127u, 1024);
    m->t->map_out = t;
    if (hint) say(m, "mov.u64 %%d12, 0x1000000000000000;");
    output(m, TYPE_EXACT, unit, elements(&t));
    say(m, "mov.b64 %%d8, map_out;\ncvta.param.u64 %%d8, %%d8;");
    for (int p = 0; p < PLACES * (1 + add); p++) {
        uint32_t at = input(m, add ? kind_of_dtype(c->dtype) : KIND_RANDOM, unit, bytes / unit);
        Input *in = &m->t->in[m->t->n_in - 1];
        if (add) in->index = (uint8_t)(2 + p), in->of = 3;
        input_at(m, "%d9", at);
        copy_bytes(m, "%d7", "shared", "%d9", "global", bytes);
        say(m, "fence.proxy.async;\nbar.sync 0;");
        coordinates(m, &t, p / (1 + add), true);
        char plain[64];
        snprintf(plain, sizeof plain, tensor_store, m->number);
        bool first = add && p % 2 == 0;
        say(m, "@%%p1 %s [%%d8, {%s}], [%%d7]%s;", first ? plain : m->name, coordinate_list(&t),
            hint && !first ? ", %d12" : "");
        say(m, "@%%p1 %s;\n@%%p1 %s 0;\nbar.sync 0;", commit, wait_group);
    }
    end(m, "%s-swizzle-%u", fkm_dtype_name(c->dtype), c->swizzle);
}

// A box that begins wholly past the tensor's end in one dimension, behind one that is inside:
// nothing of it is stored, if the hardware takes it at all. agrees.sh runs these by themselves,
// last.
static void store_past(Make *m, const Case *c, uint32_t past) {
    Mapped t = tensor(c, m->number);
    uint32_t bytes = box_bytes(&t), unit = (uint32_t)fkm_dtype_bits(t.dtype) / 8;
    start(m, 64, (bytes + 127) & ~127u, 1024);
    m->t->map_out = t;
    output(m, TYPE_EXACT, unit, elements(&t));
    say(m, "mov.b64 %%d8, map_out;\ncvta.param.u64 %%d8, %%d8;");
    input_at(m, "%d9", input(m, KIND_RANDOM, unit, bytes / unit));
    copy_bytes(m, "%d7", "shared", "%d9", "global", bytes);
    say(m, "fence.proxy.async;\nbar.sync 0;");
    coordinates(m, &t, 0, true);
    char plain[64];
    snprintf(plain, sizeof plain, tensor_store, m->number);
    for (int k = 0; k < 2; k++) {
        say(m, "@%%p1 %s [%%d8, {%s}], [%%d7];", k ? m->name : plain, coordinate_list(&t));
        say(m, "@%%p1 %s;\n@%%p1 %s 0;", commit, wait_group);
        say(m, "mov.b32 %%r%u, %u;", 10 + past, t.extent[past]);
    }
    end(m, "past-the-end-of-%u", past);
}

// arg: 1 to add
void make_tensor_store(Make *m, int arg) {
    const Case *all = arg ? sums : layouts;
    size_t n = arg ? sizeof sums / sizeof *sums : sizeof layouts / sizeof *layouts;
    if (has(m->name, "L2::cache_hint")) n = 1;
    for (size_t k = 0; k < n; k++) store_boxes(m, &all[k], arg);
    for (uint32_t d = 0; d < m->number && n > 1; d++) store_past(m, &all[0], d);
}
