/* by_hand - launches the PTX of `fkc --emit=ptx` with nothing but the driver and what stands at the
 * head of that text: grid, block and parameters (CASES A85).
 *
 *     by_hand GRID.ptx        of tests/cases/a13_grid.fk: y[m, n] = 2 * x[m, n] + 1
 */
#include <ctype.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { M = 37, N = 5001, PARAMS = 32 };

/* ---- expressions of the heading: + - * / ( ) min, names M and N ---- */

static const char *at;

static int64_t sum(void);

static int64_t factor(void) {
    while (*at == ' ') at++;
    if (!strncmp(at, "min(", 4)) {
        at += 4;
        int64_t a = sum();
        at += strspn(at, " ,");
        int64_t b = sum();
        at++;
        return a < b ? a : b;
    }
    if (*at == '(') {
        at++;
        int64_t v = sum();
        at++;
        return v;
    }
    if (isdigit((unsigned char)*at)) return strtoll(at, (char **)&at, 10);
    char name = *at++;
    if (name != 'M' && name != 'N') {
        printf("FAIL cannot read '%s'\n", at - 1);
        exit(1);
    }
    return name == 'M' ? M : N;
}

static int64_t product(void) {
    int64_t v = factor();
    while (*at == '*' || *at == '/') {
        char op = *at++;
        int64_t f = factor();
        v = op == '*' ? v * f : v / f;
    }
    return v;
}

static int64_t sum(void) {
    int64_t v = product();
    while (at += strspn(at, " "), *at == '+' || *at == '-') {
        char op = *at++;
        int64_t f = product();
        v = op == '+' ? v + f : v - f;
    }
    return v;
}

static int64_t value(const char *text) {
    at = text;
    return sum();
}

/* ---- the driver ---- */

#define DRIVER(X)                                                                                  \
    X(int, cuInit, (unsigned))                                                                     \
    X(int, cuDevicePrimaryCtxRetain, (void **, int))                                               \
    X(int, cuCtxSetCurrent, (void *))                                                              \
    X(int, cuModuleLoadData, (void **, const void *))                                              \
    X(int, cuModuleGetFunction, (void **, void *, const char *))                                   \
    X(int, cuMemAlloc_v2, (uint64_t *, size_t))                                                    \
    X(int, cuMemcpyHtoD_v2, (uint64_t, const void *, size_t))                                      \
    X(int, cuMemcpyDtoH_v2, (void *, uint64_t, size_t))                                            \
    X(int, cuLaunchKernel,                                                                         \
      (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *,       \
       void **, void **))
#define X(ret, name, args) static ret(*name) args;
DRIVER(X)
#undef X

static void must(int rc, const char *what) {
    if (!rc) return;
    printf("FAIL %s: CUDA error %d\n", what, rc);
    exit(1);
}
#define MUST(call) must(call, #call)

static void open_driver(void) {
    void *h = dlopen("libcuda.so.1", RTLD_NOW);
    if (!h) {
        printf("SKIP no driver\n");
        exit(77);
    }
#define X(ret, name, args)                                                                         \
    *(void **)&name = dlsym(h, #name);                                                             \
    must(!name, "dlsym " #name);
    DRIVER(X)
#undef X
}

/* ---- the heading ---- */

typedef struct Launch {
    char name[64];
    unsigned grid, block;
    int n;
    int64_t param[PARAMS];
} Launch;

static int64_t param_value(char *text, const uint64_t *memory) {
    char *rest = text + strcspn(text, " ");
    *rest++ = 0;
    rest += strspn(rest, " ");
    if (!strcmp(text, "pointer")) return (int64_t)memory[rest[0] == 'y'];
    if (!strncmp(rest, "stride of ", 10)) return strstr(rest, "dimension 0") ? N : 1;
    return value(rest);
}

static void read_heading(char *text, const uint64_t *memory, Launch *l) {
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        char *p = line + 2;
        p += strspn(p, " ");
        if (strncmp(line, "//", 2)) {
            char *entry = strstr(line, ".entry ");
            if (entry) sscanf(entry + 7, "%63[a-zA-Z0-9_]", l->name);
        } else if (!strncmp(p, "grid ", 5)) {
            l->grid = (unsigned)value(p + 5);
        } else if (!strncmp(p, "block ", 6)) {
            l->block = (unsigned)value(p + 6);
        } else if (isdigit((unsigned char)*p)) {
            int index = (int)strtol(p, &p, 10);
            p += strspn(p, " ");
            must(index != l->n || l->n == PARAMS, "parameters in order");
            l->param[l->n++] = param_value(p, memory);
        }
    }
}

int main(int argc, char **argv) {
    static char text[1 << 20], copy[1 << 20];
    static float x[M * N], y[M * N];
    FILE *f = argc == 2 ? fopen(argv[1], "r") : NULL;
    if (!f || !fread(text, 1, sizeof text - 1, f)) return 2;
    fclose(f);
    open_driver();
    void *context, *module, *fn, *args[PARAMS];
    uint64_t memory[2];
    Launch l = {0};
    MUST(cuInit(0));
    MUST(cuDevicePrimaryCtxRetain(&context, 0));
    MUST(cuCtxSetCurrent(context));
    for (int i = 0; i < 2; i++) MUST(cuMemAlloc_v2(&memory[i], sizeof x));
    memcpy(copy, text, sizeof copy);
    read_heading(copy, memory, &l);
    for (int i = 0; i < M * N; i++) x[i] = (float)(i % 997);
    MUST(cuMemcpyHtoD_v2(memory[0], x, sizeof x));
    MUST(cuModuleLoadData(&module, text));
    MUST(cuModuleGetFunction(&fn, module, l.name));
    for (int i = 0; i < l.n; i++) args[i] = &l.param[i];
    MUST(cuLaunchKernel(fn, l.grid, 1, 1, l.block, 1, 1, 0, NULL, args, NULL));
    MUST(cuMemcpyDtoH_v2(y, memory[1], sizeof y));
    for (int i = 0; i < M * N; i++) must(y[i] != 2 * x[i] + 1, "an element is wrong");
    printf("PASS PTX launched by hand: %s, grid %u, block %u, %d parameters\n", l.name, l.grid,
           l.block, l.n);
    return 0;
}
