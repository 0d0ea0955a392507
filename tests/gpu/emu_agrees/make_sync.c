// Barriers, fences, mbarriers, clusters: data handed from threads to threads through what the
// instruction orders.
#include <string.h>

#include "tests/gpu/emu_agrees/makers.h"

static const Range any = {0};

// The instruction under test in its place, else the usual one.
static const char *either(const Make *m, const char *usual, bool here) {
    return here ? m->name : usual;
}

// Words of the output, one a thread, at %d3; this thread's at %d8.
static void global_words(Make *m, uint32_t words) {
    say(m, "add.u64 %%d3, %%d1, %u;\nmul.wide.u32 %%d8, %%r0, 4;\nadd.u64 %%d8, %%d8, %%d3;",
        words);
}

// CTAs of 64 threads in clusters of n, an operand in %r8, words of the output.
static void cluster_words(Make *m, uint32_t n, const char *shared) {
    begin(m, 512, 64);
    m->t->cluster = n;
    declare(m, "%s", shared);
    take(m, KIND_INT, 'r', 8, 0, 1, any);
    global_words(m, output(m, TYPE_EXACT, 4, 512));
}

// Thread 0 in %p1, an mbarrier at %d4 that it makes.
static void make_bar(Make *m, int count) {
    say(m, "mov.u32 %%r3, %%tid.x;\nsetp.eq.u32 %%p1, %%r3, 0;\nmov.u64 %%d4, bar;");
    say(m, "@%%p1 mbarrier.init.shared::cta.b64 [%%d4], %d;", count);
}

static void wait_bar(Make *m) {
    say(m, "WAIT: mbarrier.try_wait.parity.shared::cta.b64 %%p2, [%%d4], 0;");
    say(m, "@!%%p2 bra WAIT;");
}

// Gives the word whose number is in %r9.
static void give_word(Make *m) {
    say(m, "mul.wide.u32 %%d9, %%r9, 4;\nadd.u64 %%d9, %%d9, %%d3;\nld.global.u32 %%r10, [%%d9];");
    give(m, TYPE_EXACT, 'r', 10);
}

static void shared_words(Make *m, uint32_t words) {
    declare(m, ".shared .align 16 .b8 place[%u];", 4 * words);
    say(m, "mov.u32 %%r3, %%tid.x;\nmov.u64 %%d7, place;");
}

// %dTO: the place of the word whose number is in %rINDEX.
static void word_at(Make *m, int to, int index) {
    say(m, "mul.wide.u32 %%d%d, %%r%d, 4;\nadd.u64 %%d%d, %%d%d, %%d7;", to, index, to, to);
}

// ---- barriers ----

// arg: 0 all threads; 1 groups of a count; 2 half of them only arrive
void make_barrier(Make *m, int arg) {
    begin(m, 512, 128);
    shared_words(m, 128);
    take(m, KIND_INT, 'r', 8, 0, 1, any);
    say(m, "mov.u32 %%r11, %%r8;");
    word_at(m, 8, 3);
    say(m, "shr.u32 %%r9, %%r3, 6;\nadd.u32 %%r9, %%r9, 1;\nxor.b32 %%r10, %%r3, %d;",
        arg == 2 ? 64
        : arg    ? 41
                 : 101);
    word_at(m, 9, 10);
    say(m, "st.shared.u32 [%%d8], %%r8;");
    if (arg == 0) say(m, "%s 0;", m->name);
    if (arg == 1) say(m, "%s %%r9, 64;", m->name);
    if (arg == 2) {
        say(m, "setp.lt.u32 %%p1, %%r3, 64;\n@%%p1 bra FIRST;\nbar.sync 3, 128;\nbra LAST;");
        say(m, "FIRST: %s 3, 128;\nbra OVER;\nLAST:", m->name);
    }
    say(m, "ld.shared.u32 %%r11, [%%d9];");
    if (arg == 2) say(m, "OVER: add.u32 %%r11, %%r11, 0;");
    give(m, TYPE_EXACT, 'r', 11);
    end(m, "%s", "");
}

// A warp hands words to another through global memory and a flag.
void make_fence(Make *m, int arg) {
    (void)arg;
    begin(m, 64, 64);
    take(m, KIND_INT, 'r', 8, 0, 1, any);
    uint32_t words = output(m, TYPE_EXACT, 4, 64), flag = output(m, TYPE_EXACT, 4, 1);
    say(m, "add.u64 %%d3, %%d1, %u;\nadd.u64 %%d4, %%d1, %u;", words, flag);
    say(m, "mul.wide.u32 %%d8, %%r0, 4;\nadd.u64 %%d8, %%d8, %%d3;");
    say(m, "st.global.u32 [%%d8], 0;\nst.volatile.global.u32 [%%d4], 0;\nbar.sync 0;");
    say(m, "mov.u32 %%r9, %%r8;\nsetp.ge.u32 %%p1, %%r0, 32;\n@%%p1 bra READER;");
    say(m, "st.global.u32 [%%d8], %%r8;\n%s;\nbar.warp.sync 0xffffffff;", m->name);
    say(m, "setp.eq.u32 %%p2, %%r0, 0;\n@%%p2 st.volatile.global.u32 [%%d4], 1;\nbra OVER;");
    say(m, "READER: ld.volatile.global.u32 %%r10, [%%d4];\nsetp.eq.u32 %%p2, %%r10, 0;");
    say(m, "@%%p2 bra READER;\n%s;\nld.global.u32 %%r9, [%%d8+-128];", m->name);
    say(m, "OVER: add.u32 %%r9, %%r9, 0;");
    give(m, TYPE_EXACT, 'r', 9);
    end(m, "%s", "");
}

// A warpgroup gives registers, two take them. arg: 1 the one that takes is under test
void make_setmaxnreg(Make *m, int arg) {
    static const char inc[] = "setmaxnreg.inc.sync.aligned.u32",
                      dec[] = "setmaxnreg.dec.sync.aligned.u32";
    begin(m, 384, 384);
    strcpy(m->directives, ".minnctapersm 1\n");
    take(m, KIND_INT, 'r', 8, 0, 1, any);
    say(m, "mov.u32 %%r3, %%tid.x;\nsetp.ge.u32 %%p1, %%r3, 128;\n@%%p1 bra MORE;");
    say(m, "%s 24;\nbra OVER;\nMORE: %s 240;\nadd.u32 %%r8, %%r8, 1;", either(m, dec, !arg),
        either(m, inc, arg));
    say(m, "OVER: add.u32 %%r8, %%r8, 2;");
    give(m, TYPE_EXACT, 'r', 8);
    end(m, "%s", "");
}

// ---- clusters ----

// CTAs of a cluster hand words on through global memory. arg: 0 arrive, 1 wait, 2 a fence, 3 the
// fence behind mbarrier.init
void make_cluster(Make *m, int arg) {
    for (uint32_t n = 2; n <= 4; n += 2) {
        cluster_words(m, n, ".shared .align 8 .b8 bar[8];");
        if (arg == 3) make_bar(m, 1);
        say(m, "st.global.u32 [%%d8], %%r8;\n%s;", either(m, "fence.acq_rel.cluster", arg >= 2));
        say(m, "%s;\n%s;", either(m, "barrier.cluster.arrive.aligned", arg == 0),
            either(m, "barrier.cluster.wait.aligned", arg == 1));
        if (arg == 3) { // threads of this CTA may now use it
            say(m, "@%%p1 mbarrier.arrive.shared::cta.b64 _, [%%d4];");
            wait_bar(m);
        }
        say(m, "fence.acq_rel.cluster;\nxor.b32 %%r9, %%r0, 64;");
        give_word(m);
        end(m, "cluster-of-%u", n);
    }
}

// Each CTA arrives at the mbarrier of the next in its cluster. arg: 1 mapa is under test
void make_remote(Make *m, int arg) {
    const char *arrive = either(m, "mbarrier.arrive.release.cluster.shared::cluster.b64", !arg);
    const char *mapa = either(m, "mapa.shared::cluster.u32", arg);
    for (uint32_t n = 2; n <= 4; n += 2) {
        cluster_words(m, n, ".shared .align 8 .b8 other[8];\n.shared .align 8 .b8 bar[8];");
        make_bar(m, 64);
        say(m, "@%%p1 fence.mbarrier_init.release.cluster;");
        say(m, "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;");
        say(m, "st.global.u32 [%%d8], %%r8;\nfence.acq_rel.cluster;");
        say(m, "mov.u32 %%r4, %%cluster_ctarank;\nadd.u32 %%r4, %%r4, 1;\nand.b32 %%r4, %%r4, %u;",
            n - 1);
        say(m, "cvt.u32.u64 %%r5, %%d4;\n%s %%r6, %%r5, %%r4;", mapa);
        say(m, "%s _, [%%r6];", arrive);
        wait_bar(m);
        say(m, "fence.acq_rel.cluster;");
        // the words of the CTA before
        say(m, "mov.u32 %%r4, %%cluster_ctarank;\nadd.u32 %%r5, %%r4, %u;\nand.b32 %%r5, %%r5, %u;",
            n - 1, n - 1);
        say(m, "sub.u32 %%r5, %%r5, %%r4;\nmad.lo.u32 %%r9, %%r5, 64, %%r0;");
        give_word(m);
        say(m, "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;"); // none ends early
        end(m, "cluster-of-%u", n);
    }
}

// ---- mbarriers ----

enum {
    ARRIVE_NOT_LAST = -1,
    INIT,
    INVAL,
    ARRIVE,
    ARRIVE_COUNT,
    EXPECT,
    ARRIVE_EXPECT,
    WAIT_PARITY,
    WAIT_HINT,
    WAIT_STATE
};

// Expects bytes, and a bulk copy that brings them.
static void expect(Make *m, int arg, int phase) {
    uint32_t in = input(m, KIND_RANDOM, 4, 128);
    say(m, "add.u64 %%d3, %%d0, %u;\n@!%%p1 bra ISSUED%d;", in, phase);
    if (arg == EXPECT) {
        say(m, "%s [%%d4], 512;\nmbarrier.arrive.shared::cta.b64 _, [%%d4];", m->name);
    } else {
        say(m, "%s _, [%%d4], 512;", m->name);
    }
    say(m, "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%%d7], [%%d3], "
           "512, [%%d4];");
    say(m, "ISSUED%d: bar.warp.sync 0xffffffff;", phase);
    say(m, "@!%%p1 mbarrier.arrive.shared::cta.b64 _, [%%d4];");
}

static const char parity[] = "mbarrier.try_wait.parity.shared::cta.b64";

// What waits answer before the phase's end, and of the phase before.
static void give_answers(Make *m, const char *wait, const char *hint, int phase) {
    say(m, "%s %%p3, [%%d4], %d%s;", wait, phase & 1, hint);
    give(m, TYPE_EXACT, 'p', 3); // not yet
    say(m, "%s %%p3, [%%d4], %d%s;", wait, ~phase & 1, hint);
    give(m, TYPE_EXACT, 'p', 3);
    say(m, "bar.warp.sync 0xffffffff;");
}

// Each lane's arrival, behind its word.
static void arrive(Make *m, int arg) {
    say(m, "st.shared.u32 [%%d8], %%r8;");
    if (arg == ARRIVE_NOT_LAST) say(m, "%s %%d10, [%%d4], 2;\nbar.warp.sync 0xffffffff;", m->name);
    if (arg == ARRIVE_COUNT)
        say(m, "%s %%d10, [%%d4], 3;", m->name);
    else
        say(m, "%s %%d10, [%%d4];", either(m, "mbarrier.arrive.shared::cta.b64", arg == ARRIVE));
}

// The place of an mbarrier that is gone serves again.
static void use_again(Make *m) {
    say(m, "@%%p1 st.shared.u32 [bar], %%r3;\nbar.warp.sync 0xffffffff;");
    say(m, "@%%p1 mbarrier.init.shared::cta.b64 [%%d4], 32;\nbar.warp.sync 0xffffffff;");
    say(m, "mbarrier.arrive.shared::cta.b64 %%d10, [%%d4];");
    say(m, "AGAIN: %s %%p2, [%%d4], 0;\n@!%%p2 bra AGAIN;", parity);
    give(m, TYPE_EXACT, 'p', 2);
}

static void mbarrier_phase(Make *m, int arg, int phase) {
    const char *wait = either(m, parity, arg >= WAIT_PARITY);
    const char *hint = arg == WAIT_HINT ? ", 1000" : "";
    take(m, KIND_INT, 'r', 8, 0, 1, any);
    if (arg >= WAIT_PARITY && arg != WAIT_STATE) give_answers(m, wait, hint, phase);
    if (arg == EXPECT || arg == ARRIVE_EXPECT)
        expect(m, arg, phase);
    else
        arrive(m, arg);
    if (arg == WAIT_STATE)
        say(m, "WAIT%d: %s %%p2, [%%d4], %%d10;", phase, wait);
    else
        say(m, "WAIT%d: %s %%p2, [%%d4], %d%s;", phase, wait, phase & 1, hint);
    say(m, "@!%%p2 bra WAIT%d;\nld.shared.u32 %%r10, [%%d9];", phase);
    give(m, TYPE_EXACT, 'r', 10);
    say(m, "bar.warp.sync 0xffffffff;");
}

// Lanes hand words on, three phases; the waits' answers before and after count, too.
void make_mbarrier(Make *m, int arg) {
    begin(m, 32, 32);
    declare(m, ".shared .align 8 .b8 bar[8];");
    shared_words(m, 128);
    say(m, "setp.eq.u32 %%p1, %%r3, 0;\nmov.u64 %%d4, bar;");
    say(m, "@%%p1 %s [%%d4], %d;", either(m, "mbarrier.init.shared::cta.b64", arg == INIT),
        arg == ARRIVE_COUNT || arg == ARRIVE_NOT_LAST ? 96 : 32);
    say(m, "fence.mbarrier_init.release.cluster;\nbar.warp.sync 0xffffffff;");
    word_at(m, 8, 3);
    say(m, "xor.b32 %%r9, %%r3, 11;");
    word_at(m, 9, 9);
    for (int phase = 0; phase < 3; phase++) mbarrier_phase(m, arg, phase);
    say(m, "@%%p1 %s [%%d4];\nbar.warp.sync 0xffffffff;",
        either(m, "mbarrier.inval.shared::cta.b64", arg == INVAL));
    if (arg == INVAL) use_again(m);
    end(m, "%s", "");
}
