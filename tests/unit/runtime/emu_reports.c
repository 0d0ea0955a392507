// Small kernels, each of which must give one kind of report, or none (ctest: emu_reports).
//
//     emu_reports emu_reports.txt [PATTERN]     PATTERN: only kernels whose first line has it; says
//     all
//
// emu_reports.txt says how it is written. Every kind of runtime/emu/report.def must be there.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/device.h"

extern FkDeviceOpen fk_emu_device;

static const struct {
    const char *name, *text;
} kinds[] = {
#define REPORT(name, text, ends) {#name, text},
#include "runtime/emu/report.def"
#undef REPORT
};
enum { KINDS = sizeof kinds / sizeof *kinds, ROOM = 1 << 14, MOST_PIECES = 32, BYTES = 8192 };

typedef struct {
    char name[32];
    char text[1024];
} Piece;

typedef struct {
    int at;                           // line of the file
    char title[256], kind[32], *says; // as the first line has them; says: in title
    uint32_t ctas, threads, cluster, seed, early;
    char body[ROOM];
} Kernel;

static Piece pieces[MOST_PIECES];
static int n_pieces;
static bool seen[KINDS];

static void add(char *to, const char *text) {
    if (strlen(to) + strlen(text) < ROOM - 1)
        strcat(to, text);
    else
        fprintf(stderr, "a kernel is too long\n"), exit(2);
}

// A line, or the piece that it names.
static void add_line(char *to, const char *line) {
    while (*line == ' ') line++;
    if (*line != '$') {
        add(to, line);
        return;
    }
    for (int k = 0; k < n_pieces; k++)
        if (!strncmp(line + 1, pieces[k].name, strlen(pieces[k].name)) &&
            line[1 + strlen(pieces[k].name)] == '\n') {
            add(to, pieces[k].text);
            return;
        }
    fprintf(stderr, "there is no piece %s", line);
    exit(2);
}

// ---- a launch ----

static const FkDeviceOps *ops;
static void *self;
static uint8_t memory[4 * BYTES] __attribute__((aligned(128)));
static uint8_t *const input = memory, *const output = memory + 2 * BYTES; // apart from each other

static void make_ptx(const Kernel *k, char *ptx) {
    char cluster[64] = "";
    if (k->cluster > 1)
        snprintf(cluster, sizeof cluster, ".reqnctapercluster %u, 1, 1\n", k->cluster);
    *ptx = 0;
    add(ptx, ".version 8.0\n.target sm_90a\n.address_size 64\n"
             ".visible .entry k(.param .u64 in, .param .u64 out, .param .align 64 .b8 map[128])\n");
    add(ptx, cluster);
    add(ptx, "{\n");
    for (int p = 0; p < n_pieces; p++)
        if (!strcmp(pieces[p].name, "HEAD")) add(ptx, pieces[p].text);
    add(ptx, k->body);
    add(ptx, "ret;\n}\n");
}

// The line with the mark; 0: none.
static int faulty_line(const char *ptx) {
    const char *mark = strstr(ptx, "//!");
    int line = 1;
    for (const char *s = ptx; mark && s < mark; s++) line += *s == '\n';
    return mark ? line : 0;
}

static fk_status launch(const Kernel *k, const char *ptx, FkError *error) {
    FkTmap map = {.address = (uint64_t)(uintptr_t)input,
                  .extent = {64, 64},
                  .stride = {2, 128},
                  .box = {64, 8},
                  .rank = 2,
                  .swizzle = 128,
                  .dtype = {kDLBfloat, 16, 1}};
    static uint8_t encoded[FK_TMAP_BYTES] __attribute__((aligned(FK_TMAP_ALIGN)));
    FkRegion regions[] = {{(uint64_t)(uintptr_t)input, BYTES, FK_REGION_INPUT, 0, 0, 0, "x"},
                          {(uint64_t)(uintptr_t)output, BYTES, FK_REGION_OUTPUT, 1, 0, 0, "y"}};
    FkGrid grid = {{k->ctas, 1, 1}, {k->threads, 1, 1}, 0, 0, k->early};
    void *module, *call, *in = input, *out = output, *params[] = {&in, &out, encoded};
    FkFunction f;
    fk_status s = ops->tensor_map(self, &map, encoded, error);
    if (s || (s = ops->module_load(self, ptx, strlen(ptx) + 1, true, &module, error))) return s;
    s = ops->function(self, module, "k", &f, error);
    if (!s) s = ops->begin(self, regions, 2, &call, error);
    if (!s) {
        s = ops->launch(self, &f, &grid, params, 3, call, NULL, error);
        ops->end(self, call);
    }
    ops->module_unload(self, module);
    return s;
}

// ---- the verdict ----

static bool judge(const Kernel *k, const char *ptx, fk_status s, const char *said) {
    char want[64];
    int kind = 0, line = faulty_line(ptx);
    if (!strcmp(k->kind, "SILENT")) return !s;
    while (kind < KINDS && strcmp(kinds[kind].name, k->kind) != 0) kind++;
    if (kind == KINDS) return fprintf(stderr, "there is no kind %s\n", k->kind), false;
    seen[kind] = true;
    for (const char *at = said; at && s == FK_ERROR_LAUNCH; at = strchr(at, '\n')) {
        if (*at == '\n') at++;
        size_t n = strcspn(at, "\n"), text = strlen(kinds[kind].text);
        char report[2048];
        snprintf(report, sizeof report, "%.*s", (int)n, at);
        snprintf(want, sizeof want, ", PTX line %d '", line);
        if (!strncmp(report, kinds[kind].text, text) && report[text] == ',' &&
            (!line || !strncmp(report + text, want, strlen(want))) && strstr(report, k->says))
            return true;
    }
    return false;
}

static bool run(const Kernel *k, bool loud) {
    static char ptx[ROOM];
    FkError error = {{0}};
    char seed[16];
    snprintf(seed, sizeof seed, "%u", k->seed);
    setenv("FK_EMU_SEED", seed, 1);
    if (fk_emu_device(0, &ops, &self, &error)) return fprintf(stderr, "%s\n", error.text), false;
    make_ptx(k, ptx);
    fk_status s = launch(k, ptx, &error);
    ops->close(self);
    bool ok = judge(k, ptx, s, error.text);
    if (!ok || loud)
        printf("%s line %d: %s\n    line %d; status %d: %s\n", ok ? "ok" : "FAIL", k->at, k->title,
               faulty_line(ptx), (int)s, error.text);
    return ok;
}

// ---- the file ----

// KIND [ctas=N] [threads=N] [cluster=N] [seed=N] [early=N] | SAYS
static void read_title(Kernel *k, const char *line, int at) {
    *k = (Kernel){.at = at, .ctas = 1, .threads = 32, .cluster = 1};
    snprintf(k->title, sizeof k->title, "%.*s", (int)strcspn(line, "\n"), line);
    k->says = strstr(k->title, " | ");
    k->says = k->says ? k->says + 3 : k->title + strlen(k->title);
    sscanf(line, "%31s", k->kind);
    static const char *const names[] = {"ctas=", "threads=", "cluster=", "seed=", "early="};
    uint32_t *values[] = {&k->ctas, &k->threads, &k->cluster, &k->seed, &k->early};
    for (int n = 0; n < 5; n++) {
        const char *found = strstr(line, names[n]);
        if (found) *values[n] = (uint32_t)strtoul(found + strlen(names[n]), NULL, 10);
    }
}

int main(int argc, char **argv) {
    FILE *f = argc > 1 ? fopen(argv[1], "r") : NULL;
    static Kernel kernel;
    char line[512];
    int at = 0, n = 0, failed = 0;
    enum { OUTSIDE, PIECE, KERNEL } where = OUTSIDE;
    if (!f) return fprintf(stderr, "emu_reports FILE [PATTERN]\n"), 2;
    setenv("FK_EMU_LIMIT", "100000", 1);
    while (fgets(line, sizeof line, f)) {
        at++;
        if (where == OUTSIDE && (*line == '#' || *line == '\n')) continue;
        if (where == OUTSIDE && !strncmp(line, "let ", 4) && n_pieces < MOST_PIECES) {
            sscanf(line + 4, "%31s", pieces[n_pieces].name);
            where = PIECE;
        } else if (where == OUTSIDE) {
            read_title(&kernel, line, at);
            where = KERNEL;
        } else if (!strcmp(line, "end\n") && where == PIECE) {
            n_pieces++;
            where = OUTSIDE;
        } else if (!strcmp(line, "end\n")) {
            where = OUTSIDE;
            if (argc > 2 && !strstr(kernel.title, argv[2])) continue;
            n++;
            failed += !run(&kernel, argc > 2);
        } else {
            add_line(where == PIECE ? pieces[n_pieces].text : kernel.body, line);
        }
    }
    fclose(f);
    for (int k = 0; argc == 2 && k < KINDS; k++)
        if (!seen[k] && strcmp(kinds[k].name, "HOST") != 0)
            failed++, printf("FAIL: no %s\n", kinds[k].name);
    printf("%d kernels, %d failed\n", n, failed);
    return failed || !n;
}
