// wgmma: matrices from shared memory by descriptor, or from registers, to accumulators in
// registers.
#include <stdlib.h>

#include "runtime/emu/memory_int.h"
#include "runtime/emu/mma_int.h"
#include "runtime/emu/num_int.h"
#include "runtime/emu/ops_int.h"
#include "runtime/emu/race_int.h"
#include "runtime/emu/tmap_int.h"

// The arg of a row: types of A and B, of the accumulators, and whether A and B may be transposed.
enum { MMA_F16, MMA_BF16, MMA_TF32, MMA_E4M3, MMA_E5M2, MMA_S8, MMA_U8 };
enum { ACC_F32, ACC_F16, ACC_S32 };
#define TYPE_A(arg) ((arg) & 15)
#define TYPE_B(arg) ((arg) >> 4 & 15)
#define ACC(arg)    ((arg) >> 8 & 15)

enum { ROWS = 64, MOST_N = 256, MOST_K = 32 };
static const uint8_t type_bytes[] = {2, 2, 4, 1, 1, 1, 1};

static inline float value(uint32_t type, const uint8_t *p) {
    uint16_t half;
    uint32_t word;
    switch (type) {
    case MMA_F16: memcpy(&half, p, 2); return f16_to_f32(half);
    case MMA_BF16: memcpy(&half, p, 2); return bf16_to_f32(half);
    case MMA_TF32: memcpy(&word, p, 4); return num_f32(word & 0xffffe000u);
    case MMA_E4M3: return e4m3_to_f32(*p);
    case MMA_E5M2: return e5m2_to_f32(*p);
    case MMA_S8: return (int8_t)*p;
    default: return *p;
    }
}

// ---- shared memory by descriptor ----

typedef struct Matrix {
    uint32_t start, lead, stride, swizzle; // bytes
    bool transposed;                       // rows (of M or N) lie together, not k
    uint32_t type;
    bool is_a;
} Matrix;

static Step describe(Warp *w, const Ins *i, uint64_t d, bool is_a, bool transposed, Matrix *x) {
    static const uint8_t spans[4] = {0, 128, 64, 32};
    uint32_t type = is_a ? TYPE_A(i->form->arg) : TYPE_B(i->form->arg);
    *x = (Matrix){.start = (uint32_t)(d & 0x3fff) << 4,
                  .lead = (uint32_t)(d >> 16 & 0x3fff) << 4,
                  .stride = (uint32_t)(d >> 32 & 0x3fff) << 4,
                  .swizzle = spans[d >> 62],
                  .transposed = transposed,
                  .type = type,
                  .is_a = is_a};
    if (d >> 49 & 7)
        return report(w, i, -1, REPORT_DESCRIPTOR, "a base offset of %u", (uint32_t)(d >> 49 & 7));
    if (x->swizzle && x->start / x->swizzle % 8)
        return report(w, i, -1, REPORT_DESCRIPTOR,
                      "the matrix begins at shared address %u, in row %u of the 8 that the swizzle "
                      "of %u bytes repeats by",
                      x->start, x->start / x->swizzle % 8, x->swizzle);
    return NEXT;
}

// The address of the 16 bytes that begin at (row, byte of k) or, transposed, at (byte of a row, k).
static uint32_t chunk(const Matrix *x, uint32_t outer, uint32_t byte) {
    uint32_t span = x->swizzle, a = x->start + outer / 8 * x->stride;
    if (span && x->transposed)
        a += byte / span * x->lead + outer % 8 * span + byte % span;
    else if (span)
        a += outer % 8 * span + byte;
    else if (x->transposed)
        a = x->start + byte / 16 * x->stride + outer / 8 * x->lead + outer % 8 * 16;
    else
        a += byte / 16 * x->lead + outer % 8 * 16;
    return tmap_swizzle(a, span);
}

// The 16 bytes as values, `step` apart.
#define SPREAD(type)                                                                               \
    case type:                                                                                     \
        for (uint32_t q = 0; q < 16u / unit; q++) out[q * step] = value(type, p + q * unit);       \
        return;
static inline void spread(uint32_t type, const uint8_t *p, float *out, uint32_t step) {
    uint32_t unit = type_bytes[type];
    switch (type) {
        SPREAD(MMA_F16)
        SPREAD(MMA_BF16)
        SPREAD(MMA_TF32)
        SPREAD(MMA_E4M3)
        SPREAD(MMA_E5M2)
        SPREAD(MMA_S8)
        SPREAD(MMA_U8)
    }
}

// A tile may have fewer rows than the 64 of A; what the others read then is of no consequence, and
// may be under way or of another matrix. So what is wrong with rows that not every tile has is
// reported when their sums are used (poison_int.h).
static bool is_idle(const Matrix *x, uint32_t row) {
    return x->is_a && row >= LEAST_ROWS;
}

// Chunks of 16 bytes that nothing wrote, by the first row that they hold.
typedef struct Missing {
    uint16_t n[MOST_N];
    Fault fault; // one of them
} Missing;

// A row that nothing wrote makes no number of its row or column of the result, which a kernel may
// leave unused, as beyond the end of a tensor. But a row is there for all of k, or not at all.
static Step judge(const Matrix *x, Missing *m, uint32_t rows, uint32_t of_row, uint32_t step,
                  uint8_t *bad) {
    bool part = false;
    for (uint32_t r = 0; r < rows; r += step) {
        part |= m->n[r] && m->n[r] < of_row && !is_idle(x, r);
        if (m->n[r]) memset(bad + r, 1, step);
    }
    return part ? race_report(&m->fault) : NEXT;
}

// 16 bytes at a shared address of a descriptor.
static Cta *chunk_at(Warp *w, const Ins *i, uint32_t a, uint32_t *at) {
    const Cluster *c = w->cta->cluster;
    *at = a - SHARED_BASE;
    if (a >= SHARED_BASE && *at + 16 <= c->grid->shared_bytes) return w->cta;
    report(w, i, -1, REPORT_DESCRIPTOR,
           "the matrix has bytes at shared address %u; the CTA's memory is %d to %u", a,
           SHARED_BASE, SHARED_BASE + c->grid->shared_bytes);
    return NULL;
}

// When it is asked for, each warp of the group sees to a quarter of what the group reads.
static Step mark_reads(Warp *w, const Ins *i, const Matrix *x, uint32_t rows, uint32_t k) {
    uint32_t per = 16 / type_bytes[x->type];
    uint32_t outer = x->transposed ? k : rows, inner = x->transposed ? rows : k;
    Mark m = order_mark_later(w, i, order_mma_agent(w), -1, w->mma->asked);
    m.swizzle = tmap_swizzle_code(x->swizzle) & 3;
    for (uint32_t o = w->id % GROUP_WARPS; o < outer; o += GROUP_WARPS)
        for (uint32_t e = 0; e < inner; e += per) {
            uint32_t at, row = x->transposed ? e : o;
            Cta *c = chunk_at(w, i, chunk(x, o, e * 16 / per), &at);
            if (!c) return STOP;
            m.idle = is_idle(x, row);
            if (!m.idle) {
                if (race_shared(w, i, -1, c, at, 16, DEED_MMA, m) == STOP) return STOP;
                continue;
            }
            Fault f = {.i = NULL};
            race_shared_idle(w, i, c, at, 16, m, &f);
            if (f.i) mma_spoil(w, (((uint64_t)1 << (x->transposed ? per : 1)) - 1) << row, &f);
        }
    return NEXT;
}

// 16 bytes that are not there. What is under way is of no row that is left unused, or of an idle
// one.
static Step miss(Warp *w, const Ins *i, const Matrix *x, uint32_t row, Cta *c, uint32_t at,
                 Missing *m) {
    bool comes = memchr(c->written + at, ON_THE_WAY, 16);
    Fault f = {.w = w, .i = i, .lane = -1, .deed = DEED_MMA, .cta = c, .at = at, .bytes = 16};
    f.kind = comes ? REPORT_NO_WAIT : REPORT_UNWRITTEN;
    m->n[row]++;
    if (!m->fault.i) m->fault = f;
    return comes && !is_idle(x, row) ? race_report(&f) : NEXT;
}

// To out[k * pitch + row], rows x k elements; bad: by row, set where they are not there.
static Step gather(Warp *w, const Ins *i, const Matrix *x, uint32_t rows, uint32_t k, float *out,
                   uint32_t pitch, uint8_t *bad) {
    uint32_t per = 16 / type_bytes[x->type];
    uint32_t outer = x->transposed ? k : rows, inner = x->transposed ? rows : k;
    Missing missing = {.fault = {.i = NULL}};
    for (uint32_t o = 0; o < outer; o++)
        for (uint32_t e = 0; e < inner; e += per) {
            uint32_t a = chunk(x, o, e * 16 / per), at;
            Cta *c = chunk_at(w, i, a, &at);
            if (!c) return STOP;
            uint32_t here = x->transposed ? o * pitch + e : e * pitch + o;
            uint32_t step = x->transposed ? 1 : pitch;
            spread(x->type, c->shared + at, out + here, step);
            if (memory_spoilt(c, at, 16))
                memset(bad + (x->transposed ? e : o), 1, x->transposed ? per : 1);
            if (memory_has(c->written + at, 16)) continue;
            for (uint32_t q = 0; q < per; q++) out[here + q * step] = NAN;
            if (miss(w, i, x, x->transposed ? e : o, c, at, &missing) == STOP) return STOP;
        }
    if (!missing.fault.i) return NEXT;
    w->mma->queue->fault = missing.fault;
    return x->transposed ? judge(x, &missing, rows, k, per, bad)
                         : judge(x, &missing, rows, k / per, 1, bad);
}

// ---- registers ----

// A from registers, to out[k * ROWS + row]: each holds 4 bytes of k; pairs of rows 8 apart.
static void gather_registers(const Warp *group, const Opd *list, uint32_t type, float *out,
                             uint8_t *bad) {
    uint32_t unit = type_bytes[type], per = 4 / unit;
    for (uint32_t w = 0; w < GROUP_WARPS; w++)
        for (uint32_t r = 0; r < 4; r++) {
            const Opd *o = element(&group[w], list, (int)r);
            const uint8_t *v = operand(&group[w], o);
            for (uint32_t left = *poison_at(&group[w], o); left; left &= left - 1)
                bad[16 * w + (uint32_t)__builtin_ctz(left) / 4 + r % 2 * 8] = 1;
            for (uint32_t l = 0; l < LANES; l++)
                for (uint32_t q = 0; q < per; q++) {
                    uint32_t k = (r / 2 * 4 + l % 4) * per + q, row = 16 * w + l / 4 + r % 2 * 8;
                    out[k * ROWS + row] = value(type, v + 4 * l + q * unit);
                }
        }
}

typedef union Acc { // row by row
    float f[ROWS * MOST_N];
    int32_t s[ROWS * MOST_N];
} Acc;

// Register 4j + 2h + e holds row 16w + l/4 + 8h, column 8j + 2(l%4) + e; of f16, pairs of e.
static inline uint32_t acc_at(uint32_t w, uint32_t r, uint32_t l, uint32_t n) {
    uint32_t row = 16 * w + l / 4 + r / 2 % 2 * 8, col = r / 4 * 8 + l % 4 * 2 + r % 2;
    return row * n + col;
}

static void load_acc(const Warp *group, const Ins *i, uint32_t n, Acc *d) {
    bool half = ACC(i->form->arg) == ACC_F16;
    for (uint32_t w = 0; w < GROUP_WARPS; w++)
        for (int r = 0; r < i->o[0].offset; r++) {
            const uint32_t *v = operand(&group[w], element(&group[w], &i->o[0], r));
            uint32_t at = (uint32_t)(half ? 2 * r : r);
            for (uint32_t l = 0; l < LANES; l++) {
                uint32_t to = acc_at(w, at, l, n);
                if (half) {
                    d->f[to] = f16_to_f32(v[l] & 0xffff);
                    d->f[to + 1] = f16_to_f32(v[l] >> 16);
                } else {
                    memcpy(&d->s[to], &v[l], 4);
                }
            }
        }
}

static void keep_acc(const Warp *group, const Ins *i, uint32_t n, const Acc *d) {
    uint32_t kind = ACC(i->form->arg);
    for (uint32_t w = 0; w < GROUP_WARPS; w++)
        for (int r = 0; r < i->o[0].offset; r++) {
            uint32_t *v = operand(&group[w], element(&group[w], &i->o[0], r));
            uint32_t at = (uint32_t)(kind == ACC_F16 ? 2 * r : r);
            for (uint32_t l = 0; l < LANES; l++) {
                uint32_t from = acc_at(w, at, l, n);
                const float *f = &d->f[from];
                if (kind == ACC_F16)
                    v[l] = f32_to_f16(f[0]) | (uint32_t)f32_to_f16(f[1]) << 16;
                else if (kind == ACC_S32)
                    v[l] = (uint32_t)d->s[from];
                else
                    v[l] = f32_result(*f);
            }
        }
}

// ---- sums that are of no worth (poison_int.h) ----

typedef struct Bad {
    uint8_t row[ROWS], col[MOST_N], sum[ROWS * MOST_N];
    bool any; // of `sum`
} Bad;

static void load_bad(const Warp *group, const Ins *i, uint32_t n, Bad *b) {
    uint32_t step = ACC(i->form->arg) == ACC_F16 ? 2 : 1;
    b->any = group[0].poisoned || group[1].poisoned || group[2].poisoned || group[3].poisoned;
    if (!b->any) return;
    memset(b->sum, 0, ROWS * n);
    for (uint32_t w = 0; w < GROUP_WARPS; w++)
        for (int r = 0; r < i->o[0].offset; r++) {
            uint32_t left = *poison_at(&group[w], element(&group[w], &i->o[0], r));
            for (; left; left &= left - 1)
                memset(b->sum + acc_at(w, step * (uint32_t)r, (uint32_t)__builtin_ctz(left), n), 1,
                       step);
        }
}

// What an operation makes bad.
static void add_bad(Bad *b, uint32_t n, bool add) {
    if (!add || !b->any) memset(b->sum, 0, ROWS * n);
    b->any = b->any && add;
    for (uint32_t row = 0; row < ROWS; row++)
        if (b->row[row]) memset(b->sum + row * n, 1, n), b->any = true;
    for (uint32_t col = 0; col < n; col++)
        for (uint32_t row = 0; row < ROWS && b->col[col]; row++)
            b->sum[row * n + col] = 1, b->any = true;
}

static void keep_bad(Warp *group, const Ins *i, uint32_t n, const Bad *b) {
    uint32_t step = ACC(i->form->arg) == ACC_F16 ? 2 : 1;
    for (uint32_t w = 0; w < GROUP_WARPS; w++) {
        if (!b->any && !group[w].poisoned) continue;
        for (int r = 0; r < i->o[0].offset; r++) {
            uint32_t bad = 0;
            for (uint32_t l = 0; l < LANES && b->any; l++) {
                const uint8_t *s = b->sum + acc_at(w, step * (uint32_t)r, l, n);
                bad |= (uint32_t)(s[0] | s[step - 1]) << l;
            }
            *poison_at(&group[w], element(&group[w], &i->o[0], r)) = bad;
        }
        poison_settle(&group[w]);
    }
}

// ---- products ----

// d[64][n] = a[k][64]' b[k][n], or added; columns in blocks that stay in registers.
static void multiply(float *d, uint32_t n, const float *a, const float *b, uint32_t k, bool add) {
    enum { WIDTH = 32 };
    for (uint32_t row = 0; row < ROWS; row++)
        for (uint32_t col = 0; col < n; col += WIDTH) {
            float sum[WIDTH];
            uint32_t m = n - col < WIDTH ? n - col : WIDTH;
            for (uint32_t c = 0; c < WIDTH; c++) sum[c] = add && c < m ? d[row * n + col + c] : 0;
            for (uint32_t e = 0; e < k; e++) {
                float f = a[e * ROWS + row];
                const float *q = b + e * MOST_N + col;
                for (uint32_t c = 0; c < WIDTH; c++) sum[c] = fmaf(f, q[c], sum[c]);
            }
            memcpy(d + row * n + col, sum, sizeof *d * m);
        }
}

static void multiply_int(int32_t *d, uint32_t n, const float *a, const float *b, uint32_t k,
                         bool add) {
    for (uint32_t row = 0; row < ROWS; row++)
        for (uint32_t col = 0; col < n; col++) {
            int32_t sum = 0; // of 32 products of bytes
            for (uint32_t e = 0; e < k; e++)
                sum += (int32_t)a[e * ROWS + row] * (int32_t)b[e * MOST_N + col];
            uint32_t before = add ? (uint32_t)d[row * n + col] : 0;
            d[row * n + col] = (int32_t)(before + (uint32_t)sum);
        }
}

// The matrices: of A, unless it is in registers, and of B.
static Step matrices(Warp *w, const Ins *i, uint64_t a, uint64_t b, Matrix *x, Matrix *y) {
    const Opd *flags = &i->o[4]; // scales of A and B, then transpositions, if there are any
    int n = i->n - 4;
    bool ta = n == 4 && flags[2].offset, tb = n > 2 && flags[n - 1].offset;
    if (i->o[1].cls != OPD_LIST && describe(w, i, a, true, ta, x) == STOP) return STOP;
    return describe(w, i, b, false, tb, y);
}

static uint32_t depth_of(const Ins *i) {
    return 32u / type_bytes[TYPE_A(i->form->arg)];
}

static Step operands(Warp *w, const MmaOp *op, uint32_t k, float *a, float *b, Bad *bad) {
    const Ins *i = op->i;
    const Opd *flags = &i->o[4];
    int n = i->n - 4;
    Matrix x, y;
    if (matrices(w, i, op->a, op->b, &x, &y) == STOP) return STOP;
    for (uint32_t row = 0; row < ROWS; row++) bad->row[row] = op->bad >> row & 1;
    memset(bad->col, 0, sizeof bad->col);
    if (i->o[1].cls == OPD_LIST)
        gather_registers(&w->cta->warps[w->id / GROUP_WARPS * GROUP_WARPS], &i->o[1],
                         TYPE_A(i->form->arg), a, bad->row);
    else if (gather(w, i, &x, ROWS, k, a, ROWS, bad->row) == STOP)
        return STOP;
    if (gather(w, i, &y, i->number, k, b, MOST_N, bad->col) == STOP) return STOP;
    for (uint32_t e = 0; n >= 2 && flags[0].offset < 0 && e < k * ROWS; e++) a[e] = -a[e];
    for (uint32_t e = 0; n >= 2 && flags[1].offset < 0 && e < k * MOST_N; e++) b[e] = -b[e];
    return NEXT;
}

typedef enum Overlap { DISJOINT, SAME, OVERLAPPING } Overlap;

static Overlap compare(const Warp *w, const Opd *x, const Opd *y) {
    uint64_t set[MMA_REGISTERS / 64] = {0};
    bool same = x->offset == y->offset, meet = false;
    for (int k = 0; k < x->offset; k++) {
        uint32_t r = element(w, x, k)->at / (4 * LANES);
        set[r / 64] |= (uint64_t)1 << r % 64;
        same = same && element(w, x, k)->at == element(w, y, k)->at;
    }
    for (int k = 0; k < y->offset && !same; k++) {
        uint32_t r = element(w, y, k)->at / (4 * LANES);
        meet |= set[r / 64] >> r % 64 & 1;
    }
    return same ? SAME : meet ? OVERLAPPING : DISJOINT;
}

typedef struct Work { // of an execution
    Acc d;
    float a[MOST_K * ROWS], b[MOST_K * MOST_N];
    Bad bad;
} Work;

// All operations on the accumulators of op[0] among n.
static Step chain(Warp *w, MmaOp *op, uint32_t n, Work *work) {
    Warp *group = &w->cta->warps[w->id / GROUP_WARPS * GROUP_WARPS];
    const Ins *first = op->i;
    uint32_t cols = first->number;
    load_acc(group, first, cols, &work->d);
    load_bad(group, first, cols, &work->bad);
    for (uint32_t k = 0; k < n; k++) {
        Overlap o = op[k].done ? DISJOINT : compare(w, &first->o[0], &op[k].i->o[0]);
        if (o == DISJOINT) continue;
        if (o == OVERLAPPING || ACC(op[k].i->form->arg) != ACC(first->form->arg)) break;
        uint32_t depth = depth_of(op[k].i);
        if (operands(w, &op[k], depth, work->a, work->b, &work->bad) == STOP) return STOP;
        add_bad(&work->bad, cols, op[k].add);
        if (ACC(first->form->arg) == ACC_S32)
            multiply_int(work->d.s, cols, work->a, work->b, depth, op[k].add);
        else
            multiply(work->d.f, cols, work->a, work->b, depth, op[k].add);
        op[k].done = true;
    }
    keep_acc(group, first, cols, &work->d);
    keep_bad(group, first, cols, &work->bad);
    return NEXT;
}

static Step execute(Warp *w, const Ins *i, uint64_t until) {
    MmaQueue *q = w->mma->queue;
    Work *work = NULL;
    Step s = NEXT;
    uint32_t n = (uint32_t)(until - q->first);
    for (uint32_t k = 0; k < n && s != STOP; k++) {
        if (q->op[k].done) continue;
        if (!work && !(work = aligned_alloc(64, (sizeof *work + 63) & ~(size_t)63)))
            return report(w, i, -1, REPORT_HOST, "out of memory for wgmma");
        s = chain(w, &q->op[k], n - k, work);
    }
    free(work);
    return s;
}

// ---- instructions ----

static Step uniform(Warp *w, const Ins *i, const Opd *o, uint64_t *v) {
    const uint64_t *d = operand(w, o);
    *v = d[0];
    for (int l = 1; l < LANES; l++)
        if (d[l] != d[0])
            return report(w, i, l, REPORT_DESCRIPTOR,
                          "the descriptor is 0x%llx, and 0x%llx in lane 0",
                          (unsigned long long)d[l], (unsigned long long)d[0]);
    return NEXT;
}

RUN(wgmma) {
    uint64_t a = 0, b;
    uint32_t add = w->pred[i->o[3].at];
    int32_t regs = ACC(i->form->arg) == ACC_F16 ? (int32_t)i->number / 4 : (int32_t)i->number / 2;
    (void)m;
    bool whole = ACC(i->form->arg) == ACC_S32 && i->number > 24; // then in steps of 16
    if (i->number % (whole ? 16 : 8) || i->number < 8 || i->number > MOST_N ||
        i->o[0].offset != regs)
        return report(w, i, -1, REPORT_WGMMA, "%d accumulators for n = %u", i->o[0].offset,
                      i->number);
    if (i->o[1].cls == OPD_LIST && i->o[1].offset != 4)
        return report(w, i, -1, REPORT_WGMMA, "%d registers of A", i->o[1].offset);
    if (add && add != ALL_LANES)
        return report(w, i, -1, REPORT_WGMMA, "lanes disagree about scale-d (0x%08x)", add);
    if (i->o[1].cls != OPD_LIST && uniform(w, i, &i->o[1], &a) == STOP) return STOP;
    if (uniform(w, i, &i->o[2], &b) == STOP) return STOP;
    Matrix x, y;
    if (mma_ask(w, i, a, b, add) == STOP || matrices(w, i, a, b, &x, &y) == STOP) return STOP;
    if (i->o[1].cls != OPD_LIST && mark_reads(w, i, &x, ROWS, depth_of(i)) == STOP) return STOP;
    return mark_reads(w, i, &y, i->number, depth_of(i));
}

RUN(wgmma_fence) {
    (void)i, (void)m;
    return mma_fence(w);
}

RUN(wgmma_commit) {
    (void)i, (void)m;
    mma_commit(w);
    return NEXT;
}

RUN(wgmma_wait) {
    uint64_t until;
    (void)m;
    Step s = mma_wait(w, i, (uint32_t)i->o[0].offset, &until);
    if (s == NEXT) s = execute(w, i, until);
    if (s == NEXT) mma_waited(w, until);
    return s;
}
