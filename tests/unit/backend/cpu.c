/* cpu.c - see cpu.h. LLVM's JIT compiles it. The IR is text here: address spaces are dropped, NVVM
 * intrinsics become functions of this file, and the two kinds of inline asm (predicated load and
 * store) too.
 */
#include "tests/unit/backend/cpu.h"

#include "ir/dtype.h"

#include <llvm-c/Core.h>
#include <llvm-c/ExecutionEngine.h>
#include <llvm-c/IRReader.h>
#include <llvm-c/Target.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include <math.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

/* ---- threads as coroutines --------------------------------------------------------------------
 */

enum { MAX_BLOCK = 1024, STACK = 64 * 1024 };

/* A context starts a thread; from then on jumps switch, which need no system call. */
typedef struct Fiber {
    ucontext_t cx;
    jmp_buf at;
    bool begun, done;
    int64_t barriers, shuffles; /* met so far */
    uint32_t word;              /* offered to a shuffle */
} Fiber;

static struct {
    Fiber *f;
    char *stack;
    int block, now;
    int64_t cta, grid;
    ucontext_t start; /* where a thread that ends would go; none does so by returning */
    jmp_buf home;
    void (*entry)(const uint64_t *);
    const uint64_t *args;
    bool stuck;
} gpu;

static void yield(void) {
    if (!_setjmp(gpu.f[gpu.now].at)) _longjmp(gpu.home, 1);
}

static void fiber_main(void) {
    gpu.entry(gpu.args);
    gpu.f[gpu.now].done = true;
    _longjmp(gpu.home, 1);
}

static void resume(Fiber *f) {
    if (_setjmp(gpu.home)) return;
    if (f->begun) _longjmp(f->at, 1);
    f->begun = true;
    setcontext(&f->cx);
}

/* Runs all threads of a CTA by turns. When a whole turn changes nothing, they wait for each other
 * in vain. */
static bool run_cta(void) {
    memset(gpu.f, 0, sizeof(Fiber) * (size_t)gpu.block);
    for (int t = 0; t < gpu.block; t++) {
        getcontext(&gpu.f[t].cx);
        gpu.f[t].cx.uc_stack.ss_sp = gpu.stack + (size_t)t * STACK;
        gpu.f[t].cx.uc_stack.ss_size = STACK;
        gpu.f[t].cx.uc_link = &gpu.start;
        makecontext(&gpu.f[t].cx, fiber_main, 0);
    }
    for (int64_t before = -1;;) {
        int64_t progress = 0;
        bool all = true;
        for (int t = 0; t < gpu.block; t++) {
            Fiber *f = &gpu.f[t];
            gpu.now = t;
            if (!f->done) resume(f);
            all &= f->done;
            progress += f->barriers + f->shuffles + f->done;
        }
        if (all) return true;
        if (progress == before) return false;
        before = progress;
    }
}

/* Waits until threads [lo, hi) have met the point as often as this one. */
static void meet(int lo, int hi, int64_t count(const Fiber *)) {
    int64_t mine = count(&gpu.f[gpu.now]);
    for (int t = lo; t < hi; t++)
        while (count(&gpu.f[t]) < mine) yield();
}

static int64_t barriers(const Fiber *f) {
    return f->barriers;
}

static int64_t shuffles(const Fiber *f) {
    return f->shuffles;
}

#define NAMED(name) __asm__(name) __attribute__((visibility("default"), used))
uint32_t cpu_tid(void) NAMED("nvvm.read.ptx.sreg.tid.x");
uint32_t cpu_ctaid(void) NAMED("nvvm.read.ptx.sreg.ctaid.x");
uint32_t cpu_nctaid(void) NAMED("nvvm.read.ptx.sreg.nctaid.x");
void cpu_barrier(void) NAMED("nvvm.barrier0");
uint32_t cpu_shuffle(uint32_t, uint32_t, uint32_t, uint32_t) NAMED("nvvm.shfl.sync.bfly.i32");
float cpu_rcp(float) NAMED("nvvm.rcp.approx.ftz.f");
int32_t cpu_f2i(float) NAMED("nvvm.f2i.rn");
int64_t cpu_f2ll(float) NAMED("nvvm.f2ll.rn");
uint16_t cpu_bf16(float) NAMED("cpu.bf16");
float cpu_tanh(float) NAMED("cpu.tanh");
float cpu_ex2(float) NAMED("nvvm.ex2.approx.f");
float cpu_ex2_ftz(float) NAMED("nvvm.ex2.approx.ftz.f");
float cpu_lg2(float) NAMED("nvvm.lg2.approx.f");
float cpu_sqrt(float) NAMED("nvvm.sqrt.approx.f");
float cpu_rsqrt(float) NAMED("nvvm.rsqrt.approx.f");

/* The units are wrong by as much as they may be on the chip. */
float cpu_tanh(float f) {
    float v = tanhf(f) * (1 + 0x1p-11f);
    return fabsf(v) > 1 ? copysignf(1, v) : v;
}

float cpu_ex2(float f) {
    return exp2f(f) * (1 + 0x1p-22f);
}

float cpu_ex2_ftz(float f) {
    float v = cpu_ex2(f);
    return v < 0x1p-126f ? 0 : v;
}

float cpu_lg2(float f) {
    return log2f(f) + 0x1p-22f;
}

float cpu_sqrt(float f) {
    return sqrtf(f) * (1 + 0x1p-22f);
}

float cpu_rsqrt(float f) {
    return 1 / sqrtf(f) * (1 + 0x1p-22f);
}

uint32_t cpu_tid(void) {
    return (uint32_t)gpu.now;
}

uint32_t cpu_ctaid(void) {
    return (uint32_t)gpu.cta;
}

uint32_t cpu_nctaid(void) {
    return (uint32_t)gpu.grid;
}

void cpu_barrier(void) {
    gpu.f[gpu.now].barriers++;
    meet(0, gpu.block, barriers);
}

uint32_t cpu_shuffle(uint32_t mask, uint32_t word, uint32_t lane_mask, uint32_t clamp) {
    (void)mask, (void)clamp;
    int lo = gpu.now & ~31, hi = lo + 32 < gpu.block ? lo + 32 : gpu.block;
    gpu.f[gpu.now].word = word;
    gpu.f[gpu.now].shuffles++;
    meet(lo, hi, shuffles);
    uint32_t got = gpu.f[gpu.now ^ (int)lane_mask].word;
    gpu.f[gpu.now].shuffles++; /* nobody offers again before all have read */
    meet(lo, hi, shuffles);
    return got;
}

float cpu_rcp(float f) {
    float r = 1 / f;
    uint32_t b;
    memcpy(&b, &r, 4);
    b ^= 1; /* as wrong as the instruction may be */
    memcpy(&r, &b, 4);
    return r;
}

int32_t cpu_f2i(float f) {
    return (int32_t)dtype_to_int(DT_i32, (double)f);
}

int64_t cpu_f2ll(float f) {
    if (f != f) return INT64_MIN; /* as cvt does; the backend must not rely on 0 */
    return dtype_to_int(DT_i64, (double)f);
}

uint16_t cpu_bf16(float f) {
    uint32_t b;
    memcpy(&b, &f, 4);
    if (f != f) return 0x7fff;
    return (uint16_t)((b + 0x7fff + (b >> 16 & 1)) >> 16);
}

/* ---- the IR -------------------------------------------------------------------------------------
 */

/* Appends s with every `from` replaced. */
static void replaced(Str *out, const char *s, const char *const (*pairs)[2], int n) {
    while (*s) {
        int hit = -1;
        for (int i = 0; i < n && hit < 0; i++)
            if (!strncmp(s, pairs[i][0], strlen(pairs[i][0]))) hit = i;
        if (hit < 0) {
            str_addc(out, *s++);
        } else {
            str_add(out, pairs[hit][1]);
            s += strlen(pairs[hit][0]);
        }
    }
}

static const char *const words[][2] = {
    {" addrspace(1)", ""}, {" addrspace(3)", ""}, {" addrspace(4)", ""}, {"@llvm.nvvm.", "@nvvm."}};

static int width(const char *text, const char *after) {
    const char *at = strstr(text, after);
    return at ? atoi(at + strlen(after)) : 0;
}

/* call i32 asm "...ld.global.nc.u32...", "..."(ptr %1, i1 %2)  ->  call i32 @cpu.load.32(...) */
static bool asm_line(Str *out, const char *line) {
    const char *at = strstr(line, " asm ");
    if (!at) return false;
    const char *args = strstr(at, "\"(");
    int ld = width(at, "ld.global.nc.u"), st = width(at, "st.global.u");
    const char *unit = strstr(at, "tanh.approx") ? "tanh" : strstr(at, "div.full") ? "div" : NULL;
    if (args && unit) { /* on the chip, less exact */
        str_addn(out, line, (size_t)(at - line));
        str_printf(out, " @cpu.%s%s\n", unit, args + 1);
        return true;
    }
    if (!args || (!ld && !st)) FK_BUG("unknown inline asm: %s", line);
    str_addn(out, line, (size_t)(at - line));
    str_printf(out, " @cpu.%s.%d%s\n", ld ? "load" : "store", ld ? ld : st, args + 1);
    return true;
}

static const char units[] = "declare float @cpu.tanh(float)\n"
                            "define float @cpu.div(float %a, float %b) {\n"
                            "  %q = fdiv float %a, %b\n  ret float %q\n}\n";

static const char helpers[] =
    "define bfloat @nvvm.f2bf16.rn(float %f) {\n  %i = call i16 @cpu.bf16(float %f)\n"
    "  %b = bitcast i16 %i to bfloat\n  ret bfloat %b\n}\ndeclare zeroext i16 @cpu.bf16(float)\n";

/* reg: the register's type, mem: what is moved (u8 travels in 16 bits). */
static void moves(Str *out, int bits) {
    int reg = bits == 8 ? 16 : bits;
    str_printf(out,
               "define i%d @cpu.load.%d(ptr %%p, i1 %%c) {\n  br i1 %%c, label %%y, label %%n\n"
               "y:\n  %%v = load i%d, ptr %%p\n",
               reg, bits, bits);
    if (reg == bits)
        str_printf(out, "  ret i%d %%v\n", reg);
    else
        str_printf(out, "  %%w = zext i%d %%v to i%d\n  ret i%d %%w\n", bits, reg, reg);
    str_printf(out, "n:\n  ret i%d 0\n}\n", reg);
    str_printf(out,
               "define void @cpu.store.%d(ptr %%p, i%d %%v, i1 %%c) {\n"
               "  br i1 %%c, label %%y, label %%n\ny:\n",
               bits, reg);
    if (reg != bits) str_printf(out, "  %%w = trunc i%d %%v to i%d\n", reg, bits);
    str_printf(out, "  store i%d %s, ptr %%p\n  br label %%n\nn:\n  ret void\n}\n", bits,
               reg == bits ? "%v" : "%w");
}

/* void cpu_entry(const uint64_t *args): takes the parameters apart. */
static void entry_point(Str *out, const char *ir, const char *entry, int nargs) {
    char *start = NULL;
    Str find = {0};
    str_printf(&find, "@%s(", entry);
    start = strstr(ir, str_get(&find));
    if (!start) FK_BUG("no %s in the IR", entry);
    str_free(&find);
    str_add(out, "define void @cpu_entry(ptr %a) {\n");
    const char *at = start + strlen(entry) + 2;
    Str call = {0};
    for (int i = 0; i < nargs; i++) {
        const char *type = !strncmp(at, "ptr", 3) ? "ptr" : "i64";
        str_printf(out, "  %%p%d = getelementptr i64, ptr %%a, i64 %d\n", i, i);
        str_printf(out, "  %%v%d = load %s, ptr %%p%d\n", i, type, i);
        str_printf(&call, "%s%s %%v%d", i ? ", " : "", type, i);
        at = strstr(at, ", ");
        at = at ? at + 2 : "";
    }
    str_printf(out, "  call void @%s(%s)\n  ret void\n}\n", entry, str_get(&call));
    str_free(&call);
}

static void host_ir(Str *out, const char *ir, const char *entry, int nargs) {
    Str line = {0};
    for (const char *p = ir; *p;) {
        size_t n = strcspn(p, "\n");
        line.n = 0;
        str_addn(&line, p, n);
        p += n + (p[n] == '\n');
        const char *s = str_get(&line);
        if (!strncmp(s, "target ", 7) || strstr(s, "declare bfloat @llvm.nvvm.f2bf16")) continue;
        Str plain = {0};
        replaced(&plain, s, words, 4);
        if (!asm_line(out, str_get(&plain))) str_printf(out, "%s\n", str_get(&plain));
        str_free(&plain);
    }
    str_free(&line);
    if (strstr(ir, "f2bf16")) str_add(out, helpers);
    str_add(out, units);
    for (int bits = 8; bits <= 64; bits *= 2) moves(out, bits);
    entry_point(out, ir, entry, nargs);
}

/* ---- compile, load, launch
 * ------------------------------------------------------------------------ */

struct CpuKernel {
    void (*entry)(const uint64_t *);
};

/* As clang has them with -mfma -mf16c. */
static void features(LLVMModuleRef m) {
#ifdef __x86_64__
    for (LLVMValueRef f = LLVMGetFirstFunction(m); f; f = LLVMGetNextFunction(f))
        LLVMAddTargetDependentFunctionAttr(f, "target-features", "+avx2,+fma,+f16c");
#else
    (void)m;
#endif
}

/* Takes the text's module to the end of the process. */
static CpuKernel *load(const char *text, Str *why) {
    static LLVMContextRef cx;
    char *said = NULL;
    LLVMModuleRef m;
    LLVMExecutionEngineRef engine;
    struct LLVMMCJITCompilerOptions o;
    if (!cx) {
        cx = LLVMContextCreate();
        LLVMLinkInMCJIT();
        LLVMInitializeNativeTarget();
        LLVMInitializeNativeAsmPrinter();
    }
    LLVMInitializeMCJITCompilerOptions(&o, sizeof o);
    o.OptLevel = 1;
    if (LLVMParseIRInContext(
            cx, LLVMCreateMemoryBufferWithMemoryRangeCopy(text, strlen(text), "k.ll"), &m, &said)) {
        str_printf(why, "LLVM refuses %s: in\n%s", said, text);
        LLVMDisposeMessage(said);
        return NULL;
    }
    features(m);
    /* Values of bf16 may not be arguments: what would round them is in no library here. */
    LLVMPassBuilderOptionsRef none = LLVMCreatePassBuilderOptions();
    if (LLVMRunPasses(m, "default<O1>", NULL, none)) FK_BUG("no passes");
    LLVMDisposePassBuilderOptions(none);
    if (LLVMCreateMCJITCompilerForModule(&engine, m, &o, sizeof o, &said)) {
        str_printf(why, "no machine code: %s", said);
        LLVMDisposeMessage(said);
        return NULL;
    }
    CpuKernel *k = calloc(1, sizeof *k);
    uint64_t at = LLVMGetFunctionAddress(engine, "cpu_entry");
    if (!k || !at) FK_BUG("no cpu_entry");
    if (LLVMExecutionEngineGetErrMsg(engine, &said)) FK_BUG("%s", said);
    memcpy(&k->entry, &at, sizeof k->entry);
    return k;
}

/* What was compiled stays: fused or not, at these sizes or others, a kernel often has the same
 * text, and to compile it takes longer than to run it. */
CpuKernel *cpu_load(const char *ir, const char *entry, int nargs, Str *why) {
    static Arena arena;
    static Map loaded = {.arena = &arena};
    Str text = {0};
    host_ir(&text, ir, entry, nargs);
    intptr_t *slot = map_put(&loaded, str_get(&text), text.n);
    if (!*slot) *slot = (intptr_t)load(str_get(&text), why);
    str_free(&text);
    return (CpuKernel *)*slot;
}

bool cpu_launch(CpuKernel *k, const uint64_t *args, int64_t grid, int block, Str *why) {
    FK_ASSERT(block <= MAX_BLOCK);
    gpu.f = calloc((size_t)block, sizeof(Fiber));
    gpu.stack = malloc((size_t)block * STACK);
    gpu.block = block;
    gpu.grid = grid;
    gpu.entry = k->entry;
    gpu.args = args;
    bool ok = true;
    for (gpu.cta = 0; gpu.cta < grid && ok; gpu.cta++) ok = run_cta();
    if (!ok)
        str_printf(why, "threads wait for each other in vain in CTA %lld", (long long)gpu.cta - 1);
    free(gpu.f);
    free(gpu.stack);
    return ok;
}
