// Outputs share no byte with any other tensor or the workspace.
//
// Byte ranges decide almost always. Where ranges cross, the tensors may still be disjoint columns
// of one buffer (q and k of a packed qkv; an output into a slice of a concatenation): if all long
// strides of both are multiples of a pitch, and the rest of each fits between two multiples of it,
// comparing the two windows modulo the pitch is exact enough.
#include "runtime/runtime_int.h"

static uint64_t gcd(uint64_t a, uint64_t b) {
    while (b) {
        uint64_t r = a % b;
        a = b;
        b = r;
    }
    return a;
}

static uint64_t stride_bytes(const FkBound *b, uint32_t t, uint32_t d) {
    const FkmTensor *f = &b->fn->fn->tensors[t];
    int64_t s = b->stride[f->first_dim + d];
    uint64_t n = s < 0 ? -(uint64_t)s : (uint64_t)s;
    return b->extent[f->first_dim + d] > 1 ? n * (unsigned)fkm_dtype_bits((FkmDtype)f->dtype) / 8
                                           : 0;
}

// The gcd of `pitch` and tensor t's strides of at least `least` bytes; *window is what the shorter
// ones span, in bytes.
static uint64_t split(const FkBound *b, uint32_t t, uint64_t least, uint64_t pitch,
                      uint64_t *window) {
    const FkmTensor *f = &b->fn->fn->tensors[t];
    *window = b->high[t] - b->low[t];
    for (uint32_t d = 0; d < f->rank; d++) {
        uint64_t s = stride_bytes(b, t, d);
        if (s < least) continue;
        pitch = gcd(pitch, s);
        *window -= s * (uint64_t)(b->extent[f->first_dim + d] - 1);
    }
    return pitch;
}

static bool disjoint_at(const FkBound *b, uint32_t t, uint32_t u, uint64_t least) {
    uint64_t wt, wu;
    uint64_t pitch = split(b, u, least, split(b, t, least, 0, &wt), &wu);
    if (!pitch || wt > pitch || wu > pitch) return false;
    uint64_t gap = b->low[u] % pitch + pitch - b->low[t] % pitch;
    gap %= pitch; // from t's window up to u's
    return gap >= wt && pitch - gap >= wu;
}

static bool interleave(const FkBound *b, uint32_t t, uint32_t u) {
    const FkmTensor *f = b->fn->fn->tensors;
    for (uint32_t d = 0; d < f[t].rank; d++)
        if (stride_bytes(b, t, d) && disjoint_at(b, t, u, stride_bytes(b, t, d))) return true;
    for (uint32_t d = 0; d < f[u].rank; d++)
        if (stride_bytes(b, u, d) && disjoint_at(b, t, u, stride_bytes(b, u, d))) return true;
    return false;
}

static bool cross(uint64_t low, uint64_t high, uint64_t low2, uint64_t high2) {
    return low < high2 && low2 < high;
}

static fk_status refuse(const FkBound *b, uint32_t out, const char *other, uint64_t low,
                        uint64_t high) {
    return fk_fail(FK_ERROR_OVERLAP,
                   "fn '%s', argument %u '%s': bytes [0x%llx, 0x%llx) share memory with %s at "
                   "[0x%llx, 0x%llx); an output may overlap nothing",
                   b->fn->fn->name, out, b->fn->fn->tensors[out].name,
                   (unsigned long long)b->low[out], (unsigned long long)b->high[out], other,
                   (unsigned long long)low, (unsigned long long)high);
}

fk_status fk_check_overlap(const FkBound *b, const void *workspace, uint64_t bytes) {
    const FkmFn *f = b->fn->fn;
    uint64_t low = (uint64_t)(uintptr_t)workspace, high = low + bytes;
    for (uint32_t t = 0; t < f->n_tensors; t++) {
        if (!b->address[t]) continue;
        if (bytes && cross(b->low[t], b->high[t], low, high))
            return refuse(b, t, "the workspace", low, high);
        for (uint32_t u = 0; u < t && f->tensors[t].is_output; u++) {
            char other[128];
            if (!b->address[u] || !cross(b->low[t], b->high[t], b->low[u], b->high[u]) ||
                interleave(b, t, u))
                continue;
            snprintf(other, sizeof other, "argument %u '%.80s'", u, f->tensors[u].name);
            return refuse(b, t, other, b->low[u], b->high[u]);
        }
    }
    return FK_OK;
}
