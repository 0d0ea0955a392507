/* module.c - LLVM itself: one context, module and target machine a kernel, started when first
 * needed. No text of LLVM reaches the user: what it refuses is a bug of ours and names the kernel.
 */
#include "backend/nvptx/nvptx_int.h"

#include <stdlib.h>
#include <string.h>
#include <llvm-c/Analysis.h>
#include <llvm-c/BitReader.h>
#include <llvm-c/ErrorHandling.h>
#include <llvm-c/Linker.h>
#include <llvm-c/Support.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>

/* Every LLVM pass before code generation. Carried values leave memory; libclc is inlined; what is
 * uniform leaves the loops. No vectoriser, no unroller, no GVN: how much a thread does at once is
 * the schedule's, and nothing may move across roles of warps. */
static const char LLVM_PASSES[] =
    "always-inline,globaldce,"
    "function(mem2reg,early-cse,instcombine<no-verify-fixpoint>,simplifycfg,"
    "loop-mssa(licm),early-cse)";

/* The same where warps have roles: what is hoisted out of a loop over tiles is live, in registers,
 * while other work runs. */
static const char LLVM_PASSES_ROLES[] =
    "always-inline,globaldce,"
    "function(mem2reg,early-cse,instcombine<no-verify-fixpoint>,simplifycfg,early-cse)";

/* Then the body becomes part of the kernel's loop over tiles. */
static const char LLVM_LAST[] = "always-inline,globaldce,function(simplifycfg)";

/* Code generation's own hoister would undo what the last step is for. */
static const char *const LLVM_OPTIONS[] = {"fkc", "-disable-machine-licm"};

extern const unsigned char fk_math_bc[];
extern const size_t fk_math_bc_size;

static const char *current = "";

static void reason(const char *text) {
    if (getenv("FKC_LLVM_LOG")) fprintf(stderr, "LLVM: %s\n", text);
}

static void on_fatal(const char *text) {
    reason(text);
    FK_BUG("LLVM gave up on kernel %s (FKC_LLVM_LOG=1 prints its reason)", current);
}

static void on_diagnostic(LLVMDiagnosticInfoRef info, void *ctx) {
    (void)ctx;
    if (LLVMGetDiagInfoSeverity(info) != LLVMDSError) return;
    char *text = LLVMGetDiagInfoDescription(info);
    reason(text);
    LLVMDisposeMessage(text);
    FK_BUG("LLVM refused kernel %s (FKC_LLVM_LOG=1 prints its reason)", current);
}

const char *backend_llvm_version(void) {
    static char text[32];
    unsigned major, minor, patch;
    LLVMGetVersion(&major, &minor, &patch);
    snprintf(text, sizeof text, "%u.%u.%u", major, minor, patch);
    return text;
}

static void start(void) {
    static bool started;
    if (started) return;
    started = true;
    LLVMInstallFatalErrorHandler(on_fatal);
    LLVMParseCommandLineOptions(2, LLVM_OPTIONS, NULL);
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
}

bool module_begin(Lower *l, const char *name) {
    start();
    current = name;
    l->cx = LLVMContextCreate();
    LLVMContextSetDiagnosticHandler(l->cx, on_diagnostic, NULL);
    l->mod = LLVMModuleCreateWithNameInContext(name, l->cx);
    l->i1 = LLVMInt1TypeInContext(l->cx);
    l->i8 = LLVMInt8TypeInContext(l->cx);
    l->i16 = LLVMInt16TypeInContext(l->cx);
    l->i32 = LLVMInt32TypeInContext(l->cx);
    l->i64 = LLVMInt64TypeInContext(l->cx);
    l->f16 = LLVMHalfTypeInContext(l->cx);
    l->bf16 = LLVMBFloatTypeInContext(l->cx);
    l->f32 = LLVMFloatTypeInContext(l->cx);
    l->ptr = LLVMPointerTypeInContext(l->cx, 0);
    l->gptr = LLVMPointerTypeInContext(l->cx, 1);
    l->sptr = LLVMPointerTypeInContext(l->cx, 3);
    return true;
}

void module_end(Lower *l) {
    if (l->mod) LLVMDisposeModule(l->mod);
    if (l->cx) LLVMContextDispose(l->cx);
    l->mod = NULL;
    l->cx = NULL;
}

static void strip(Val fn, const char *name) {
    LLVMRemoveStringAttributeAtIndex(fn, LLVMAttributeFunctionIndex, name, (unsigned)strlen(name));
}

/* Its functions were made for a generic chip: they are inlined, so they become ours. */
void math_link(Lower *l) {
    LLVMMemoryBufferRef buf = LLVMCreateMemoryBufferWithMemoryRange((const char *)fk_math_bc,
                                                                    fk_math_bc_size, "libclc", 0);
    LLVMModuleRef math;
    if (LLVMParseBitcodeInContext2(l->cx, buf, &math)) FK_BUG("the embedded libclc does not parse");
    LLVMDisposeMemoryBuffer(buf);
    for (Val f = LLVMGetFirstFunction(math), next; f; f = next) {
        next = LLVMGetNextFunction(f);
        if (LLVMIsDeclaration(f)) continue;
        size_t n;
        const char *name = LLVMGetValueName2(f, &n);
        if (!LLVMGetNamedFunction(l->mod, name)) {
            LLVMDeleteFunction(f);
            continue;
        }
        strip(f, "target-features");
        strip(f, "frame-pointer");
        strip(f, "stack-protector-buffer-size");
    }
    LLVMSetTarget(math, LLVMGetTarget(l->mod));
    LLVMSetDataLayout(math, LLVMGetDataLayoutStr(l->mod));
    if (LLVMLinkModules2(l->mod, math)) FK_BUG("the embedded libclc does not link");
    for (Val f = LLVMGetFirstFunction(l->mod); f; f = LLVMGetNextFunction(f))
        if (!LLVMIsDeclaration(f) && f != l->fn) LLVMSetLinkage(f, LLVMInternalLinkage);
}

static LLVMTargetMachineRef machine(const Lower *l, int ptx_version) {
    const char *triple = "nvptx64-nvidia-cuda";
    LLVMTargetRef target;
    char *error = NULL;
    if (LLVMGetTargetFromTriple(triple, &target, &error)) FK_BUG("LLVM has no %s", triple);
    char features[32];
    snprintf(features, sizeof features, "+ptx%d", ptx_version);
    return LLVMCreateTargetMachine(target, triple, l->o->target->name, features,
                                   LLVMCodeGenLevelDefault, LLVMRelocDefault, LLVMCodeModelDefault);
}

static void append_ir(const Lower *l, Str *out) {
    char *text = LLVMPrintModuleToString(l->mod);
    str_add(out, text);
    LLVMDisposeMessage(text);
}

static void run_passes(Lower *l, const char *list, LLVMTargetMachineRef tm) {
    LLVMPassBuilderOptionsRef po = LLVMCreatePassBuilderOptions();
    LLVMErrorRef failed = LLVMRunPasses(l->mod, list, tm, po);
    LLVMDisposePassBuilderOptions(po);
    if (!failed) return;
    reason(LLVMGetErrorMessage(failed));
    FK_BUG("LLVM's passes failed on kernel %s (FKC_LLVM_LOG=1 prints why)", current);
}

const char *module_emit(Lower *l, int ptx_version, Str *llvm) {
    LLVMTargetMachineRef tm = machine(l, ptx_version);
    LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(tm);
    LLVMSetTarget(l->mod, "nvptx64-nvidia-cuda");
    LLVMSetModuleDataLayout(l->mod, layout);
    LLVMDisposeTargetData(layout);
    if (l->math) math_link(l);
    char *error = NULL;
    if (LLVMVerifyModule(l->mod, LLVMReturnStatusAction, &error)) {
        reason(error);
        FK_BUG("kernel %s is not valid LLVM IR (FKC_LLVM_LOG=1 prints why)", current);
    }
    LLVMDisposeMessage(error);
    run_passes(l, l->roles ? LLVM_PASSES_ROLES : LLVM_PASSES, tm);
    unsigned kind = LLVMGetEnumAttributeKindForName("alwaysinline", 12);
    LLVMAddAttributeAtIndex(l->body, LLVMAttributeFunctionIndex,
                            LLVMCreateEnumAttribute(l->cx, kind, 0));
    run_passes(l, LLVM_LAST, tm);
    if (llvm) append_ir(l, llvm);
    LLVMMemoryBufferRef buf;
    if (LLVMTargetMachineEmitToMemoryBuffer(tm, l->mod, LLVMAssemblyFile, &error, &buf)) {
        reason(error);
        FK_BUG("no PTX for kernel %s (FKC_LLVM_LOG=1 prints why)", current);
    }
    const char *ptx = arena_strndup(l->arena, LLVMGetBufferStart(buf), LLVMGetBufferSize(buf));
    LLVMDisposeMemoryBuffer(buf);
    LLVMDisposeTargetMachine(tm);
    return ptx;
}
