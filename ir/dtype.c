/* dtype.c - facts of dtype.def, roundings, and elements in memory.
 *
 * Every real type of the language is a subset of the doubles, so a rounding is: scale so that the
 * spacing of the target at this magnitude becomes 1, round to the nearest even integer, scale
 * back. Scaling by powers of two is exact here, and one rounding happens in all.
 */
#include "ir/dtype.h"

#include <math.h>
#include <string.h>

typedef struct Facts {
    const char *name;
    int bits;
    DClass cls;
    DType value;
} Facts;

static const Facts facts[DT_COUNT] = {
#define DTYPE(name, bits, cls, value) {#name, bits, DC_##cls, DT_##value},
#include "ir/dtype.def"
#undef DTYPE
};

/* Real formats. mant: bits behind the point; emin: exponent of the smallest normal number. */
typedef struct Real {
    int mant, emin;
    double max;    /* largest finite */
    bool saturate; /* else a larger value is an infinity */
    double bias;   /* 2^(bias of an f32 - its bias) */
} Real;

static const Real *real_of(DType t) {
    static const Real f32 = {23, -126, 0x1.fffffep127, false, 1};
    static const Real f16 = {10, -14, 65504, false, 0x1p112};
    static const Real bf16 = {7, -126, 0x1.fep127, false, 1};
    static const Real e4m3 = {3, -6, 448, true, 0x1p120};
    static const Real e5m2 = {2, -14, 57344, true, 0x1p112};
    switch (t) {
    case DT_f32: return &f32;
    case DT_f16: return &f16;
    case DT_bf16: return &bf16;
    case DT_e4m3: return &e4m3;
    case DT_e5m2: return &e5m2;
    default: FK_BUG("%s is not a real type", dtype_name(t));
    }
}

static const Facts *fact(DType t) {
    FK_ASSERT((unsigned)t < DT_COUNT);
    return &facts[t];
}

const char *dtype_name(DType t) {
    return (unsigned)t < DT_COUNT ? facts[t].name : "none";
}

int dtype_bits(DType t) {
    return fact(t)->bits;
}

DClass dtype_class(DType t) {
    return fact(t)->cls;
}

DType dtype_value(DType t) {
    return fact(t)->value;
}

bool dtype_is_int(DType t) {
    return fact(t)->cls == DC_INT || fact(t)->cls == DC_UINT;
}

DType dtype_named(const char *name, size_t n) {
    for (int t = 0; t < DT_COUNT; t++)
        if (strlen(facts[t].name) == n && !memcmp(facts[t].name, name, n)) return (DType)t;
    return DT_none;
}

double dtype_round(DType t, double v) {
    const Real *f = real_of(t);
    if (isnan(v) || v == 0) return v;
    double mag = fabs(v);
    if (mag <= 2 * f->max) { /* beyond, the result is the same as at twice the largest */
        int e;
        frexp(mag, &e); /* mag = m 2^e, m in [1/2, 1) */
        e = (e - 1 > f->emin ? e - 1 : f->emin) - f->mant;
        mag = ldexp(nearbyint(ldexp(mag, -e)), e);
    }
    if (mag > f->max) mag = f->saturate ? f->max : (double)INFINITY;
    return copysign(mag, v);
}

int64_t dtype_lowest(DType t) {
    FK_ASSERT(fact(t)->cls != DC_REAL);
    return fact(t)->cls == DC_INT ? -1 - dtype_highest(t) : 0;
}

int64_t dtype_highest(DType t) {
    switch (fact(t)->cls) {
    case DC_INT: return (int64_t)(UINT64_MAX >> (65 - facts[t].bits));
    case DC_UINT: return (int64_t)(UINT64_MAX >> (64 - facts[t].bits));
    case DC_BOOL: return 1;
    case DC_REAL: break;
    }
    FK_BUG("%s is not an integer type", dtype_name(t));
}

int64_t dtype_clamp(DType t, int64_t v) {
    int64_t lo = dtype_lowest(t), hi = dtype_highest(t);
    return v < lo ? lo : v > hi ? hi : v;
}

int64_t dtype_to_int(DType t, double v) {
    if (isnan(v)) return 0;
    v = nearbyint(v);
    if (v >= 0x1p63) return dtype_highest(t);
    if (v < -0x1p63) return dtype_lowest(t);
    return dtype_clamp(t, (int64_t)v);
}

/* ---- memory ------------------------------------------------------------------------------- */

/* Little-endian hosts only, as the GPU is. */
static uint64_t get_bits(const void *base, int64_t index, int bits) {
    const unsigned char *p = base;
    uint16_t v16;
    uint32_t v32;
    uint64_t v64;
    switch (bits) {
    case 4: return (uint64_t)(p[index / 2] >> (index % 2 * 4) & 15);
    case 8: return p[index];
    case 16: memcpy(&v16, p + 2 * index, sizeof v16); return v16;
    case 32: memcpy(&v32, p + 4 * index, sizeof v32); return v32;
    default: memcpy(&v64, p + 8 * index, sizeof v64); return v64;
    }
}

static void put_bits(void *base, int64_t index, int bits, uint64_t v) {
    unsigned char *p = base;
    if (bits == 4) {
        unsigned char *b = &p[index / 2];
        int shift = (int)(index % 2 * 4);
        *b = (unsigned char)((*b & ~(15 << shift)) | (int)(v & 15) << shift);
    } else {
        memcpy(p + index * (bits / 8), &v, (size_t)bits / 8);
    }
}

/* The pattern, moved to where an f32 has its exponent, reads as the number times a power of two:
 * the difference of the biases (subnormals too: the product is exact). */
static double real_decode(DType t, uint64_t b) {
    const Real *f = real_of(t);
    int bits = facts[t].bits, ebits = bits - 1 - f->mant;
    uint32_t mag = (uint32_t)b & ((1u << (bits - 1)) - 1), top = ((1u << ebits) - 1) << f->mant;
    double v;
    if (t == DT_e4m3 ? mag == 0x7F : mag > top) { /* e4m3's top exponent has numbers */
        v = (double)NAN;
    } else if (t != DT_e4m3 && mag == top) {
        v = (double)INFINITY;
    } else {
        float x;
        mag <<= 23 - f->mant;
        memcpy(&x, &mag, sizeof x);
        v = (double)x * f->bias;
    }
    return b >> (bits - 1) ? -v : v;
}

static uint64_t real_encode(DType t, double v) {
    const Real *f = real_of(t);
    int ebits = facts[t].bits - 1 - f->mant;
    uint64_t sign = (uint64_t)(signbit(v) != 0) << (facts[t].bits - 1);
    uint64_t top = (((uint64_t)1 << ebits) - 1) << f->mant; /* exponent all ones */
    if (isnan(v)) return t == DT_e4m3 ? 0x7F : top | (uint64_t)1 << (f->mant - 1);
    double mag = fabs(dtype_round(t, v));
    if (isinf(mag)) return sign | top;
    if (mag < ldexp(1, f->emin)) return sign | (uint64_t)ldexp(mag, f->mant - f->emin);
    int e;
    double m = frexp(mag, &e);
    uint64_t frac = (uint64_t)ldexp(m, f->mant + 1); /* with its leading one */
    return sign | (((uint64_t)(e - 1 - f->emin) << f->mant) + frac);
}

void dtype_load(DType t, const void *base, int64_t index, double *r, int64_t *i) {
    int bits = fact(t)->bits;
    uint64_t v = get_bits(base, index, bits);
    switch (facts[t].cls) {
    case DC_REAL:
        if (t == DT_f32) {
            float x;
            memcpy(&x, &(uint32_t){(uint32_t)v}, sizeof x);
            *r = (double)x;
        } else {
            *r = real_decode(t, v);
        }
        break;
    case DC_INT: *i = (int64_t)(v << (64 - bits)) >> (64 - bits); break;
    case DC_UINT: *i = (int64_t)v; break;
    case DC_BOOL: *i = v != 0; break;
    }
}

void dtype_store(DType t, void *base, int64_t index, double r, int64_t i) {
    if (fact(t)->cls == DC_REAL)
        put_bits(base, index, facts[t].bits, real_encode(t, r));
    else if (facts[t].cls == DC_BOOL)
        put_bits(base, index, 8, i != 0);
    else
        put_bits(base, index, facts[t].bits, (uint64_t)i);
}
