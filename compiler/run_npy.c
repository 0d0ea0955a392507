/* run_npy.c - NumPy's .npy files: one array, versions 1 to 3, little endian. */
#include "compiler/run_int.h"
#include "compiler/tool_int.h"

#include <stdlib.h>
#include <string.h>

static bool refuse(Str *why, const char *path, const char *reason) {
    str_printf(why, "%s: %s", path, reason);
    return false;
}

/* The text behind 'key': in the header, which is a Python dict as text. */
static const char *entry(const char *header, const char *key) {
    const char *at = strstr(header, key);
    if (!at) return NULL;
    at += strlen(key);
    while (*at == ' ' || *at == ':' || *at == '\'' || *at == '"') at++;
    return at;
}

static bool read_header(Npy *n, const char *path, const char *header, Str *why) {
    const char *descr = entry(header, "descr"), *order = entry(header, "fortran_order"),
               *shape = entry(header, "shape");
    if (!descr || !order || !shape || *shape != '(')
        return refuse(why, path, "its .npy header is not understood");
    if (*descr == '>' || !strchr("<|=", *descr) || !strchr("fiub", descr[1]) || !descr[1])
        return refuse(why, path, "its type is none that fkrun reads (f, i, u, b, little endian)");
    n->kind = descr[1];
    n->size = atoi(descr + 2);
    if (n->size != 1 && n->size != 2 && n->size != 4 && n->size != 8)
        return refuse(why, path, "its elements are not 1, 2, 4 or 8 bytes");
    n->fortran = !strncmp(order, "True", 4);
    for (const char *p = shape + 1; *p && *p != ')';) {
        char *end;
        long long extent = strtoll(p, &end, 10);
        if (end == p || extent < 0) return refuse(why, path, "its shape is not understood");
        if (n->rank == RUN_RANK) return refuse(why, path, "it has more than 8 dimensions");
        n->extent[n->rank++] = extent;
        p = end;
        while (*p == ',' || *p == ' ') p++;
    }
    return true;
}

bool npy_read(Arena *a, const char *path, Npy *n, Str *why) {
    size_t size, head, bytes;
    *n = (Npy){0};
    unsigned char *file = (unsigned char *)tool_read(a, path, &size, why);
    if (!file) return false;
    n->read = true;
    if (size < 12 || memcmp(file, "\x93NUMPY", 6)) return refuse(why, path, "it is no .npy file");
    size_t start = file[6] == 1 ? 10 : 12;
    head = file[8] | (size_t)file[9] << 8;
    if (file[6] > 1) head |= (size_t)file[10] << 16 | (size_t)file[11] << 24;
    if (start + head > size) return refuse(why, path, "it ends inside its header");
    char *header = arena_strndup(a, (const char *)file + start, head);
    if (!read_header(n, path, header, why)) return false;
    bytes = (size_t)n->size;
    for (int d = 0; d < n->rank; d++)
        if (__builtin_mul_overflow(bytes, (size_t)n->extent[d], &bytes)) bytes = SIZE_MAX;
    if (bytes > size - start - head) return refuse(why, path, "it has fewer elements than it says");
    n->data = file + start + head;
    return true;
}

static double half(uint16_t bits) {
    double r;
    int64_t unused;
    dtype_load(DT_f16, &bits, 0, &r, &unused);
    return r;
}

static double load_real(const unsigned char *p, int size) {
    float f;
    double d;
    uint16_t h;
    if (size == 8) return memcpy(&d, p, 8), d;
    if (size == 4) return memcpy(&f, p, 4), (double)f;
    return memcpy(&h, p, 2), half(h);
}

static int64_t load_int(const unsigned char *p, int size, bool is_signed) {
    uint64_t v = 0;
    memcpy(&v, p, (size_t)size);
    int unused = 64 - 8 * size;
    return is_signed ? (int64_t)(v << unused) >> unused : (int64_t)v;
}

double npy_get(const Npy *n, const int64_t *index, int64_t *integer) {
    int64_t at = 0;
    for (int k = 0; k < n->rank; k++) {
        int d = n->fortran ? n->rank - 1 - k : k;
        at = at * n->extent[d] + index[d];
    }
    const unsigned char *p = n->data + at * n->size;
    *integer = 0;
    if (n->kind == 'f') return load_real(p, n->size);
    *integer = load_int(p, n->size, n->kind == 'i');
    return (double)*integer;
}

/* Reals as f4, integers as i8, conditions as b1: what NumPy has for every type of ours. */
bool npy_write(const char *path, const RunTensor *t, Str *why) {
    DClass c = dtype_class(t->type);
    const char *descr = c == DC_REAL ? "<f4" : c == DC_BOOL ? "|b1" : "<i8";
    Str s = {0}, header = {0};
    int64_t index[RUN_RANK];
    str_printf(&header, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr);
    for (int d = 0; d < t->rank; d++) str_printf(&header, "%lld, ", (long long)t->extent[d]);
    str_add(&header, "), }");
    while ((10 + header.n + 1) % 64) str_addc(&header, ' ');
    str_addc(&header, '\n');
    str_addn(&s, "\x93NUMPY\x01\x00", 8);
    str_addc(&s, (char)(header.n & 255));
    str_addc(&s, (char)(header.n >> 8));
    str_addn(&s, header.s, header.n);
    for (int64_t i = 0; i < t->count; i++) {
        double real = 0;
        int64_t integer = 0;
        run_unflatten(t, i, index);
        dtype_load(t->type, run_base(t), run_offset(t, index), &real, &integer);
        float f = (float)real;
        if (c == DC_REAL)
            str_addn(&s, (const char *)&f, 4);
        else if (c == DC_BOOL)
            str_addc(&s, (char)(integer != 0));
        else
            str_addn(&s, (const char *)&integer, 8);
    }
    bool ok = tool_publish(path, s.s, s.n, true, why);
    str_free(&s);
    str_free(&header);
    return ok;
}
