// ldmatrix, stmatrix and mma.sync: matrices spread over a warp.
#include "runtime/emu/memory_int.h"
#include "runtime/emu/num_int.h"
#include "runtime/emu/ops_int.h"

// The arg of a row: how many matrices, and 16 if they are transposed.
#define MATRICES(arg)   ((arg) & 15)
#define TRANSPOSED(arg) ((arg) >> 4)

// Row r of matrix k lies at the address that lane 8k + r gives.
static bool rows(Warp *w, const Ins *i, const Opd *o, Access access, uint8_t **p) {
    uint64_t a[LANES];
    uint32_t n = 8 * MATRICES(i->form->arg);
    const void *base = operand(w, o);
    for (uint32_t l = 0; l < n; l++)
        a[l] = o->cls == OPD_64 ? ((const uint64_t *)base)[l] + (uint64_t)(int64_t)o->offset
                                : ((const uint32_t *)base)[l] + (uint32_t)o->offset;
    return memory_lanes(w, i, n == LANES ? ALL_LANES : (1u << n) - 1, SPACE_SHARED, a, 16, access,
                        p);
}

// Lane l of matrix k holds row l/4, columns 2(l%4) and the next; transposed, the other way round.
static uint8_t *cell(uint8_t **p, uint32_t k, uint32_t l, uint32_t e, bool transposed) {
    uint32_t row = l / 4, col = l % 4 * 2 + e;
    return transposed ? p[8 * k + col] + 2 * row : p[8 * k + row] + 2 * col;
}

RUN(ldmatrix) {
    uint8_t *p[LANES];
    (void)m;
    if (!rows(w, i, &i->o[1], READ, p)) return STOP;
    for (uint32_t k = 0; k < MATRICES(i->form->arg); k++) {
        uint32_t *d = operand(w, element(w, &i->o[0], (int)k));
        for (uint32_t l = 0; l < LANES; l++) {
            uint16_t v[2];
            for (uint32_t e = 0; e < 2; e++)
                memcpy(&v[e], cell(p, k, l, e, TRANSPOSED(i->form->arg)), 2);
            d[l] = v[0] | (uint32_t)v[1] << 16;
        }
    }
    return NEXT;
}

RUN(stmatrix) {
    uint8_t *p[LANES];
    (void)m;
    if (!rows(w, i, &i->o[0], WRITE, p)) return STOP;
    for (uint32_t k = 0; k < MATRICES(i->form->arg); k++) {
        const uint32_t *s = operand(w, element(w, &i->o[1], (int)k));
        for (uint32_t l = 0; l < LANES; l++)
            for (uint32_t e = 0; e < 2; e++) {
                uint16_t v = (uint16_t)(s[l] >> 16 * e);
                memcpy(cell(p, k, l, e, TRANSPOSED(i->form->arg)), &v, 2);
            }
    }
    return NEXT;
}

// ---- mma.sync.m16n8: D = A B + C, by lanes; operands {d}, {a}, {b}, {c} ----
// Register r of four holds row l/4 + 8(r/2), column 2(l%4) + r%2; of two with f16, a row's both.

enum { MMA_F16, MMA_BF16, MMA_TF32, MMA_E4M3, MMA_E5M2, MMA_S8, MMA_U8 };

static float element_of(uint32_t type, uint32_t v, uint32_t q) {
    switch (type) {
    case MMA_F16: return f16_to_f32(v >> 16 * q & 0xffff);
    case MMA_BF16: return bf16_to_f32(v >> 16 * q & 0xffff);
    case MMA_TF32: return num_f32(v & 0xffffe000u);
    case MMA_E4M3: return e4m3_to_f32(v >> 8 * q & 0xff);
    case MMA_E5M2: return e5m2_to_f32(v >> 8 * q & 0xff);
    case MMA_S8: return (int8_t)(v >> 8 * q);
    default: return (uint8_t)(v >> 8 * q);
    }
}

// Registers r of lane l: rows l/4 + 8(r%2), k (l%4 + 4(r/2)) * per + q; of B, k by r, column l/4.
static void fragments(const Warp *w, const Ins *i, uint32_t k, float *a, float *b) {
    uint32_t type = i->form->arg & 15, per = type <= MMA_BF16 ? 2 : type == MMA_TF32 ? 1 : 4;
    for (int r = 0; r < i->o[1].offset; r++) {
        const uint32_t *v = operand(w, element(w, &i->o[1], r));
        for (uint32_t l = 0; l < LANES; l++)
            for (uint32_t q = 0; q < per; q++)
                a[(l / 4 + (uint32_t)r % 2 * 8) * k + (l % 4 + (uint32_t)r / 2 * 4) * per + q] =
                    element_of(type, v[l], q);
    }
    for (int r = 0; r < i->o[2].offset; r++) {
        const uint32_t *v = operand(w, element(w, &i->o[2], r));
        for (uint32_t l = 0; l < LANES; l++)
            for (uint32_t q = 0; q < per; q++)
                b[((l % 4 + (uint32_t)r * 4) * per + q) * 8 + l / 4] =
                    element_of(i->form->arg >> 4 & 15, v[l], q);
    }
}

#define DEPTH(arg)    ((arg) >> 8 & 255)
#define HALF_SUM(arg) ((arg) >> 16)

// The r-th of a lane's four sums before.
static uint32_t sum_in(const Warp *w, const Ins *i, uint32_t r, uint32_t l) {
    bool half = HALF_SUM(i->form->arg);
    const uint32_t *c = operand(w, element(w, &i->o[3], (int)(half ? r / 2 : r)));
    return half ? num_bits(f16_to_f32(c[l] >> 16 * (r % 2) & 0xffff)) : c[l];
}

static uint32_t sum_of(const Ins *i, const float *a, const float *b, uint32_t before) {
    bool integer = (i->form->arg & 15) >= MMA_S8;
    float sum = num_f32(before);
    for (uint32_t e = 0; e < DEPTH(i->form->arg); e++) {
        if (integer)
            before += (uint32_t)((int32_t)a[e] * (int32_t)b[8 * e]);
        else
            sum = fmaf(a[e], b[8 * e], sum);
    }
    return integer ? before : HALF_SUM(i->form->arg) ? f32_to_f16(sum) : f32_result(sum);
}

RUN(mma_sync) {
    float a[16 * 32], b[32 * 8];
    uint32_t k = DEPTH(i->form->arg), out[4][LANES];
    (void)m;
    fragments(w, i, k, a, b);
    for (uint32_t r = 0; r < 4; r++)
        for (uint32_t l = 0; l < LANES; l++) {
            uint32_t row = l / 4 + r / 2 * 8, col = l % 4 * 2 + r % 2;
            out[r][l] = sum_of(i, a + row * k, b + col, sum_in(w, i, r, l));
        }
    for (uint32_t r = 0; r < 4 && HALF_SUM(i->form->arg); r += 2)
        for (uint32_t l = 0; l < LANES; l++) out[r / 2][l] = out[r][l] | out[r + 1][l] << 16;
    for (int r = 0; r < i->o[0].offset; r++)
        memcpy(operand(w, element(w, &i->o[0], r)), out[r], sizeof out[r]);
    return NEXT;
}
