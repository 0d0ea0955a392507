/* run_args.c - the tensors of a launch on the host: layouts, poison and values. */
#include "compiler/run_int.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- options that name a tensor -------------------------------------------------------
 */

const char *run_lookup(const OptMany *list, const char *name) {
    size_t n = strlen(name);
    const char *found = NULL; /* the last one wins */
    for (int i = 0; i < list->n; i++)
        if (!strncmp(list->v[i], name, n) && (list->v[i][n] == '=' || !list->v[i][n]))
            found = list->v[i] + n + (list->v[i][n] == '=');
    return found;
}

bool run_number(const char *s, int64_t *v) {
    char *end;
    errno = 0;
    long long x = strtoll(s, &end, 10);
    *v = x;
    return end != s && !*end && x >= 0 && !errno;
}

/* ---- layout -------------------------------------------------------------------------------------
 */

static size_t bytes_of(DType t, int64_t elements) {
    return (size_t)(elements * dtype_bits(t) + 7) / 8;
}

static bool layout_option(Run *r, const OptMany *list, const char *option, const char *name,
                          int64_t *v) {
    const char *s = run_lookup(list, name);
    *v = 0;
    if (!s || run_number(s, v)) return true;
    str_printf(&r->why, "--%s=%s=%s: needs a number", option, name, s);
    return false;
}

#define MOST_ELEMENTS ((int64_t)1 << 50) /* their bits count in 64 bits */

/* Strides of a dense tensor whose rows are lengthened by `pad` elements, with the last two
 * dimensions swapped in memory if `swap`. Returns the elements it spans; -1: too many for any
 * memory.
 */
static int64_t set_strides(RunTensor *t, int64_t pad, bool swap) {
    int order[RUN_RANK]; /* dimensions, innermost first */
    int64_t next = 1;
    for (int d = 0; d < t->rank; d++) order[d] = t->rank - 1 - d;
    if (swap) order[0] = t->rank - 2, order[1] = t->rank - 1;
    for (int k = 0; k < t->rank; k++) {
        t->stride[order[k]] = next;
        int64_t extent = t->extent[order[k]] > 0 ? t->extent[order[k]] : 1;
        if (k == 0 && __builtin_add_overflow(extent, pad, &extent)) return -1;
        if (extent > MOST_ELEMENTS) return -1;
        if (k == 0 && dtype_bits(t->type) < 8) extent = (extent + 1) & ~(int64_t)1;
        if (__builtin_mul_overflow(next, extent, &next) || next > MOST_ELEMENTS) return -1;
    }
    return next;
}

static bool set_shape(Run *r, RunTensor *t, const FkmTensor *x) {
    FkmEnv env = {.tensors = r->fn->tensors, .size = r->sizes};
    t->count = 1;
    for (int d = 0; d < t->rank; d++) {
        if (!fkm_eval(&x->dims[d].size, &env, &t->extent[d]) || t->extent[d] < 0) {
            str_printf(&r->why, "dimension %d of %s, %s, is no number of elements here", d, x->name,
                       x->dims[d].text);
            return false;
        }
        if (__builtin_mul_overflow(t->count, t->extent[d], &t->count)) {
            str_printf(&r->why, "%s has too many elements", x->name);
            return false;
        }
    }
    return true;
}

static DLDataType dl_type(DType t) {
    static const DLDataType table[] = {
#define DTYPE(name, text, code, bits) {code, bits, 1},
#include "runtime/dtype.def"
#undef DTYPE
    };
    return table[fkm_dtype_named(dtype_name(t))];
}

void run_poison(RunTensor *t) {
    memset(t->host, dtype_class(t->type) == DC_REAL ? 0xFF : 0xA5, t->total);
}

static bool set_tensor(Run *r, RunTensor *t, const FkmTensor *x) {
    const char *type = fkm_dtype_name(x->dtype);
    int64_t pad, offset;
    *t = (RunTensor){.name = x->name, .rank = (int)x->rank, .out = x->is_output};
    t->type = dtype_named(type, strlen(type));
    t->dl = dl_type(t->type);
    if (t->rank > RUN_RANK) {
        str_printf(&r->why, "%s has %d dimensions; fkrun takes %d", t->name, t->rank, RUN_RANK);
        return false;
    }
    bool swap = run_lookup(&r->opt->transpose, t->name) != NULL;
    if (!set_shape(r, t, x) || !layout_option(r, &r->opt->pad, "pad", t->name, &pad) ||
        !layout_option(r, &r->opt->offset, "offset", t->name, &offset))
        return false;
    if (swap && (t->rank < 2 || dtype_bits(t->type) < 8)) {
        str_printf(&r->why, "--transpose=%s: needs two dimensions of whole bytes", t->name);
        return false;
    }
    t->offset = (size_t)offset;
    int64_t span = set_strides(t, pad, swap);
    if (span < 0 || offset > MOST_ELEMENTS) {
        str_printf(&r->why, "%s has too many elements", t->name);
        return false;
    }
    t->total = 2 * RUN_GUARD + t->offset + bytes_of(t->type, span);
    t->host = malloc(t->total);
    if (!t->host) {
        str_printf(&r->why, "no memory for %s, %zu bytes", t->name, t->total);
        r->outside = true;
        return false;
    }
    run_poison(t);
    return true;
}

bool run_tensors(Run *r) {
    r->n = (int)r->fn->n_tensors;
    r->tensors = ARENA_ARRAY(r->arena, RunTensor, r->n);
    for (int i = 0; i < r->n; i++)
        if (!set_tensor(r, &r->tensors[i], &r->fn->tensors[i])) return false;
    return true;
}

/* ---- elements -----------------------------------------------------------------------------------
 */

int64_t run_offset(const RunTensor *t, const int64_t *index) {
    int64_t at = 0;
    for (int d = 0; d < t->rank; d++) at += index[d] * t->stride[d];
    return at;
}

unsigned char *run_base(const RunTensor *t) {
    return t->host + RUN_GUARD + t->offset;
}

EvalTensor run_eval_tensor(const RunTensor *t) {
    EvalTensor e = {.type = t->type, .rank = t->rank, .data = run_base(t)};
    for (int d = 0; d < t->rank; d++) e.extent[d] = t->extent[d], e.stride[d] = t->stride[d];
    return e;
}

double run_get(const RunTensor *t, const int64_t *index) {
    double real = 0;
    int64_t integer = 0;
    dtype_load(t->type, run_base(t), run_offset(t, index), &real, &integer);
    return dtype_class(t->type) == DC_REAL ? real : (double)integer;
}

void run_unflatten(const RunTensor *t, int64_t i, int64_t *index) {
    for (int d = t->rank - 1; d >= 0; d--) {
        index[d] = i % t->extent[d];
        i /= t->extent[d];
    }
}

/* ---- values -------------------------------------------------------------------------------------
 */

static void put_extents(Str *s, const int64_t *extent, int rank) {
    for (int d = 0; d < rank; d++) str_printf(s, "%s%lld", d ? ", " : "[", (long long)extent[d]);
    str_add(s, rank ? "]" : "a scalar");
}

static bool fill_file(Run *r, RunTensor *t, const char *path) {
    Npy npy;
    int64_t index[RUN_RANK];
    if (!run_npy(r, path, &npy)) return false;
    bool same = npy.rank == t->rank;
    for (int d = 0; same && d < t->rank; d++) same = npy.extent[d] == t->extent[d];
    if (!same) {
        str_printf(&r->why, "%s is ", path);
        put_extents(&r->why, npy.extent, npy.rank);
        str_printf(&r->why, ", but %s is ", t->name);
        put_extents(&r->why, t->extent, t->rank);
        run_put_sizes(r, " with");
        return false;
    }
    for (int64_t i = 0; i < t->count; i++) {
        int64_t integer;
        run_unflatten(t, i, index);
        double v = npy_get(&npy, index, &integer);
        if (dtype_class(t->type) != DC_REAL && npy.kind == 'f') integer = dtype_to_int(t->type, v);
        if (dtype_class(t->type) != DC_REAL) integer = dtype_clamp(t->type, integer);
        dtype_store(t->type, run_base(t), run_offset(t, index), v, integer);
    }
    return true;
}

bool run_fill(Run *r) {
    uint64_t seed = r->opt->seed < 0 ? 1 : (uint64_t)r->opt->seed;
    for (int i = 0; i < r->n; i++) {
        RunTensor *t = &r->tensors[i];
        const char *path = run_lookup(&r->opt->in, t->name);
        if (t->out) continue;
        if (path) {
            if (!fill_file(r, t, path)) return false;
            continue;
        }
        if (!r->graph) {
            str_printf(&r->why,
                       "the module was stripped of its graph, which tells how to make up "
                       "%s: use --in, or give the .fk",
                       t->name);
            return false;
        }
        EvalTensor e = run_eval_tensor(t);
        sample_fill(r->graph, i, r->sizes, seed, &e);
    }
    return true;
}

void run_print(const RunTensor *t, const char *what) {
    int64_t index[RUN_RANK];
    printf("  %s %s: %s[", what, t->name, dtype_name(t->type));
    for (int d = 0; d < t->rank; d++) printf("%s%lld", d ? ", " : "", (long long)t->extent[d]);
    printf("] =");
    for (int64_t i = 0; i < t->count && i < 8; i++) {
        run_unflatten(t, i, index);
        printf(" %.6g", run_get(t, index));
    }
    printf("%s\n", t->count > 8 ? " ..." : "");
}
