/* main.c - fkc: a command line around the library (fkc.h). Reads the input, compiles, prints the
 * messages, publishes the outputs.
 */
#include "compiler/fkc.h"
#include "compiler/opts_int.h"
#include "compiler/tool_int.h"
#include "ir/ir.h"
#include "passes/passes.h"

#include <stdlib.h>
#include <string.h>

typedef struct Options {
#define OPT_GROUP(title)
#define OPT(kind, field, name, letter, arg, help) OPT_TYPE_##kind field;
#include "compiler/opts.def"
#undef OPT
#undef OPT_GROUP
} Options;

static const OptRow rows[] = {
#define OPT_GROUP(title) {OPT_HEAD, 0, title, 0, NULL, NULL},
#define OPT(kind, field, name, letter, arg, help)                                                  \
    {OPT_##kind, offsetof(Options, field), name, letter, arg, help},
#include "compiler/opts.def"
#undef OPT
#undef OPT_GROUP
};

static const OptTable table = {
    "fkc", "fkc [options] INPUT.fk",
    "Compiles tensor mathematics to a module of fused GPU kernels. INPUT - is standard input;\n"
    "its module goes to standard output.\n"
    "Exit codes: 0 done, 1 the program is wrong, 2 the command line is wrong, 3 a file, ptxas or\n"
    "the driver failed, 70 a bug in fkc.",
    rows, (int)(sizeof rows / sizeof *rows)};

static int fail(int code, Str *why) {
    fprintf(stderr, "fkc: error: %s\n", str_get(why));
    str_free(why);
    return code;
}

/* ---- lists -------------------------------------------------------------------------------------
 */

static void list_ops(Str *out) {
    for (int i = 0; i < OP_COUNT; i++)
        str_printf(out, "%-8s %d  %s\n", op_name((Op)i), op_arity((Op)i), op_formula((Op)i));
    str_add(out, "\n");
#define REDUCE(name, combine, identity, nan, factors, formula)                                     \
    str_printf(out, "%-8s    %s\n", #name, formula);
#include "ir/reduce.def"
#undef REDUCE
}

static void list_passes(Str *out) {
    for (int i = 0; pass_at(i); i++) {
        const Pass *p = pass_at(i);
        str_printf(out, "%-9s %s\n%9s   %s\n", p->name, p->what, "", p->why);
    }
}

static void list_archs(Str *out) {
    for (int i = 0; target_at(i); i++)
        str_printf(out, "%-7s %s\n", target_at(i)->name, target_at(i)->part);
}

/* True when the command line asked for a list, which was then printed. */
static bool listed(const Options *o) {
    Str s = {0};
    if (o->help)
        opts_help(&s, &table);
    else if (o->version)
        str_printf(&s, "fkc %s, LLVM %s\n", fkc_version(), fkc_llvm_version());
    else if (o->help_ops)
        list_ops(&s);
    else if (o->list_passes)
        list_passes(&s);
    else if (o->list_archs)
        list_archs(&s);
    bool any = s.n > 0;
    fputs(str_get(&s), stdout);
    str_free(&s);
    return any;
}

/* ---- outputs -----------------------------------------------------------------------------------
 */

static bool publish(const Options *o, const char *path, const void *bytes, size_t n, bool binary,
                    Str *why) {
    if (!tool_publish(path, bytes, n, binary, why)) return false;
    if (o->verbose) fprintf(stderr, "fkc: wrote %s, %zu bytes\n", path, n);
    return true;
}

/* "dir/model.fk" -> "model.fkm": beside the user, not beside a source that may be read-only. */
static const char *module_path(Arena *a, const char *input) {
    const char *base = strrchr(input, '/');
    base = base ? base + 1 : input;
    size_t n = strlen(base);
    if (!strcmp(base, "-")) return "-";
    if (n > 3 && !strcmp(base + n - 3, ".fk")) n -= 3;
    return arena_printf(a, "%.*s.fkm", (int)n, base);
}

static bool write_cubins(Arena *a, const Options *o, const fkc_result *r, Str *why) {
    fkc_cubin c, more;
    if (!fkc_cubin_get(r, 0, &c)) {
        str_add(why, "--emit=cubin: the program has no kernel");
        return false;
    }
    if (!fkc_cubin_get(r, 1, &more)) return publish(o, o->output, c.data, c.size, true, why);
    if (!strcmp(o->output, "-")) {
        str_add(why,
                "--emit=cubin: there are several; give -o FILE, and each gets FILE.KERNEL.ARCH");
        return false;
    }
    for (int i = 0; fkc_cubin_get(r, i, &c); i++) {
        const char *path = arena_printf(a, "%s.%s.%s", o->output, c.kernel, c.arch);
        if (!publish(o, path, c.data, c.size, true, why)) return false;
    }
    return true;
}

static bool write_outputs(Arena *a, const Options *o, const char *input, const fkc_result *r,
                          Str *why) {
    static const char *const title[] = {"ast",  "graph", "tile",  "schedule",
                                        "llvm", "ptx",   "cubin", "report"};
    _Static_assert(sizeof title / sizeof *title == FKC_MODULE, "as fkc_output and opts.def");
    size_t n;
    if (o->emit & (1u << FKC_CUBIN)) return write_cubins(a, o, r, why);
    const void *module = fkc_output_get(r, FKC_MODULE, &n);
    if (module)
        return publish(o, o->output ? o->output : module_path(a, input), module, n, true, why);
    Str all = {0};
    bool several = (o->emit & (o->emit - 1)) != 0;
    for (int k = 0; k < FKC_MODULE; k++) {
        const char *text = fkc_output_get(r, (fkc_output)k, &n);
        if (!text) continue;
        if (several) str_printf(&all, "# ==== %s\n", title[k]);
        str_addn(&all, text, n);
    }
    bool ok = publish(o, o->output ? o->output : "-", str_get(&all), all.n, false, why);
    str_free(&all);
    return ok;
}

/* ---- main --------------------------------------------------------------------------------------
 */

static void log_line(void *ctx, const char *text) {
    (void)ctx;
    fputs(text, stderr);
}

static bool is_graph_text(const char *path) {
    size_t n = strlen(path);
    return n > 4 && !strcmp(path + n - 4, ".fkg");
}

/* What the options say that only makes sense together. */
static bool consistent(const Options *o, const OptMany *inputs, Str *why) {
    unsigned cubin = 1u << FKC_CUBIN;
    if (inputs->n == 0)
        str_add(why, "no input; fkc --help shows how");
    else if (inputs->n > 1)
        str_printf(why, "one input at a time; '%s' is a second", inputs->v[1]);
    else if ((o->emit & cubin) && o->emit != cubin)
        str_add(why, "--emit=cubin goes alone");
    else if (o->emit == cubin && !o->output)
        str_add(why, "--emit=cubin needs -o FILE");
    else if (o->run_pass.n && !is_graph_text(inputs->v[0]))
        str_printf(why, "--run-pass needs a graph as text, INPUT.fkg, not %s", inputs->v[0]);
    else if (!o->run_pass.n && is_graph_text(inputs->v[0]))
        str_printf(why, "%s is a graph as text: say which --run-pass=PASS", inputs->v[0]);
    return why->n == 0;
}

static fkc_options library_options(const Options *o) {
    fkc_options f = fkc_defaults();
    f.outputs = o->emit;
    f.arch = o->arch;
    f.ptxas = o->ptxas;
    f.ptx_version = o->ptx_version;
    f.bind = o->bind.v;
    f.n_bind = o->bind.n;
    f.no_fuse = o->no_fuse;
    f.strict = o->strict;
    f.fast_accum = o->fast_accum;
    f.invariant = o->invariant;
    f.no_expect = o->no_expect;
    f.strip = o->strip;
    f.dump_after = o->dump_after;
    f.stop_after = o->stop_after;
    f.run_pass = o->run_pass.v;
    f.n_run_pass = o->run_pass.n;
    f.time_passes = o->time_passes;
    f.verbose = o->verbose;
    f.error_limit = o->error_limit;
    f.color = tool_color(o->color, 2);
    f.log = log_line;
    return f;
}

static int run(Arena *a, int argc, char **argv) {
    Options o = {0};
    OptMany inputs = {0};
    Str why = {0};
    if (!opts_parse(a, &table, argc, argv, &o, &inputs, NULL, &why)) return fail(EXIT_USAGE, &why);
    if (listed(&o)) return 0;
    if (!consistent(&o, &inputs, &why)) return fail(EXIT_USAGE, &why);

    size_t size;
    char *text = tool_read(a, inputs.v[0], &size, &why);
    if (!text) return fail(EXIT_OUTSIDE, &why);
    fkc_options lib = library_options(&o);
    fkc_result *r;
    int code = fkc_compile(inputs.v[0], text, size, &lib, &r);
    fputs(fkc_messages(r), stderr);
    bool some = code == FKC_OK || fkc_output_get(r, FKC_REPORT, &size);
    if (some && !write_outputs(a, &o, inputs.v[0], r, &why)) code = fail(EXIT_OUTSIDE, &why);
    fkc_free(r);
    return code;
}

int main(int argc, char **argv) {
    Arena arena = {0};
    tool_last_words("fkc", argc, argv);
    int code = run(&arena, argc, argv);
    arena_free(&arena);
    return code;
}
