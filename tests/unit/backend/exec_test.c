/* exec_test.c - what lowered kernels compute, run on the CPU (cpu.h): tails, strides, lanes and
 * their merges, guards, gathers, 4-bit rows, frames. References are plain loops here.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdlib.h>
#include <cmocka.h>

#include "tests/unit/backend/exec.h"

static const char *const names[] = {"M", "N", "K"};

static void bands(const float *f, int n) {
    for (int i = 1; i <= 64; i++) assert_true(isnan(f[-i]) && isnan(f[n + i - 1]));
}

/* y[m, n] = x[m, n] + b[n], x transposed in memory, y with a pitch, tails on both axes. */
static void broadcast_and_strides(void **state) {
    (void)state;
    Build b;
    build_init(&b, names, 3);
    const Ix *M = build_size(&b, 0), *N = build_size(&b, 1);
    int m = build_add_axis(&b, "m", M, true, 4, 2, 1),
        n = build_add_axis(&b, "n", N, true, 8, 4, 2);
    const Ix *i = build_axis(&b, m), *j = build_axis(&b, n);
    int x = build_tensor(&b, TM_IN, "x", DT_f32, 2, M, N);
    int v = build_tensor(&b, TM_IN, "b", DT_f32, 1, N, NULL);
    int y = build_tensor(&b, TM_OUT, "y", DT_f32, 2, M, N);
    int sum = build_op2(&b, OP_add, DT_f32, build_load(&b, x, i, j, 0), build_load(&b, v, j, 0, 0));
    build_store(&b, y, i, j, sum);
    int64_t size[3] = {11, 77, 1};
    float *px = exec_floats(&b, 11 * 77), *pv = exec_floats(&b, 77), *py = exec_output(&b, 11 * 80);
    Host h = {.data = {px, pv, py}, .stride = {{1, 11}, {1}, {80, 1}}};
    run(&b, &h, size);
    for (int r = 0; r < 11; r++)
        for (int c = 0; c < 80; c++) {
            float got = py[r * 80 + c];
            if (c >= 77)
                assert_true(isnan(got));
            else
                assert_float_equal(got, px[c * 11 + r] + pv[c], 0);
        }
    bands(py, 11 * 80);
    build_free(&b);
}

/* y[m] = red[k] x[m, k] with k on `lanes` lanes before or after those of m. */
static void one_row_reduction(Reduce red, int lanes_k, int regs_k, int vec_k, int lanes_m,
                              int regs_m, bool k_first, int rows, int k_size) {
    Build b;
    build_init(&b, names, 3);
    const Ix *M = build_size(&b, 0), *K = build_size(&b, 2);
    int m = build_add_axis(&b, "m", M, true, lanes_m, regs_m, 1);
    int k = build_add_axis(&b, "k", K, false, lanes_k, regs_k, vec_k);
    if (k_first) {
        SAxis s = b.s.axes.v[0];
        b.s.axes.v[0] = b.s.axes.v[1];
        b.s.axes.v[1] = s;
    }
    int x = build_tensor(&b, TM_IN, "x", DT_f32, 2, M, K);
    int y = build_tensor(&b, TM_OUT, "y", DT_f32, 1, M, NULL);
    BuildLoop l = build_loop(&b, k, red, DT_f32);
    build_step(&b, l.carry, build_load(&b, x, build_axis(&b, m), build_axis(&b, k), 0));
    b.at = l.outer;
    build_store(&b, y, build_axis(&b, m), NULL, l.carry);
    int64_t size[3] = {rows, 1, k_size};
    float *px = exec_floats(&b, rows * k_size + 1), *py = exec_output(&b, rows);
    Host h = {.data = {px, py}, .stride = {{k_size, 1}, {1}}};
    run(&b, &h, size);
    for (int r = 0; r < rows; r++) {
        float want = red == RED_sum ? 0 : -INFINITY;
        for (int c = 0; c < k_size; c++) {
            float e = px[r * k_size + c];
            want = red == RED_sum ? want + e : fmaxf(want, e);
        }
        assert_float_equal(py[r], want, 0); /* the values are eighths: sums are exact */
    }
    bands(py, rows);
    build_free(&b);
}

static void row_reductions(void **state) {
    (void)state;
    one_row_reduction(RED_sum, 1, 1, 1, 32, 1, false, 40, 7);   /* no lanes */
    one_row_reduction(RED_sum, 32, 4, 1, 2, 3, true, 11, 300);  /* a warp a row */
    one_row_reduction(RED_sum, 128, 2, 2, 1, 2, true, 5, 1001); /* warps meet; a rest with vec */
    one_row_reduction(RED_max, 8, 2, 1, 4, 1, false, 9, 100);   /* lanes 4 threads apart */
    one_row_reduction(RED_sum, 8, 1, 1, 32, 2, false, 70, 33);  /* no two in one warp */
    one_row_reduction(RED_sum, 6, 3, 1, 4, 1, true, 9, 50);    /* no power of two, part of a warp */
    one_row_reduction(RED_max, 64, 1, 1, 1, 1, true, 3, 0);    /* empty */
    one_row_reduction(RED_sum, 64, 4, 1, 1, 12, true, 13, 70); /* shared memory in rounds */
}

/* Three carried values of different widths in one loop. */
static void mixed_merges(int lanes, int regs) {
    Build b;
    build_init(&b, names, 3);
    const Ix *M = build_size(&b, 0), *K = build_size(&b, 2);
    int k = -1, m = build_add_axis(&b, "m", M, true, 2, 1, 1);
    k = build_add_axis(&b, "k", K, false, lanes, regs, 1);
    int x = build_tensor(&b, TM_IN, "x", DT_i32, 2, M, K);
    int y = build_tensor(&b, TM_OUT, "y", DT_i32, 1, M, NULL);
    int z = build_tensor(&b, TM_OUT, "z", DT_i64, 1, M, NULL);
    int u = build_tensor(&b, TM_OUT, "u", DT_f32, 1, M, NULL);
    BuildLoop l = build_loop(&b, k, RED_min, DT_i32);
    TInst *loop = l.outer->inst.v[l.outer->inst.n - 1];
    TCarry wide = {.id = b.t->nvalues++, .type = DT_i64, .red = RED_sum, .frame = -1};
    TCarry real = {.id = b.t->nvalues++, .type = DT_f32, .red = RED_max, .frame = -1};
    vec_push(&b.arena, &loop->carries, wide);
    vec_push(&b.arena, &loop->carries, real);
    int v = build_load(&b, x, build_axis(&b, m), build_axis(&b, k), 0);
    build_step(&b, l.carry, v);
    int big = build_op1(&b, OP_cast, DT_i64, v);
    build_step(&b, wide.id, build_op2(&b, OP_mul, DT_i64, big, big));
    build_step(&b, real.id, build_op1(&b, OP_cast, DT_f32, v));
    b.at = l.outer;
    build_store(&b, y, build_axis(&b, m), NULL, l.carry);
    build_store(&b, z, build_axis(&b, m), NULL, wide.id);
    build_store(&b, u, build_axis(&b, m), NULL, real.id);
    enum { MM = 3, KK = 700 };
    int32_t *px = ARENA_ARRAY(&b.arena, int32_t, MM *KK), py[MM];
    int64_t pz[MM];
    float pu[MM];
    for (int i = 0; i < MM * KK; i++) px[i] = (int32_t)(i * 7919 % 100003) * (i % 2 ? 1000 : -1000);
    Host h = {.data = {px, py, pz, pu}, .stride = {{KK, 1}, {1}, {1}, {1}}};
    int64_t size[3] = {MM, 1, KK};
    run(&b, &h, size);
    for (int r = 0; r < MM; r++) {
        int32_t least = INT32_MAX, most = INT32_MIN;
        int64_t sum = 0;
        for (int e = 0; e < KK; e++) {
            int32_t q = px[r * KK + e];
            least = q < least ? q : least;
            most = q > most ? q : most;
            sum += (int64_t)q * q;
        }
        assert_int_equal(py[r], least);
        assert_true(pz[r] == sum);
        assert_float_equal(pu[r], (float)most, 0);
    }
    build_free(&b);
}

static void integer_merges(void **state) {
    (void)state;
    mixed_merges(16, 3);
    mixed_merges(128, 2);
    mixed_merges(48, 1);
}

static void contraction(void **state) {
    (void)state;
    Build b;
    build_init(&b, names, 3);
    const Ix *M = build_size(&b, 0), *N = build_size(&b, 1), *K = build_size(&b, 2);
    int m = build_add_axis(&b, "m", M, true, 4, 3, 1),
        n = build_add_axis(&b, "n", N, true, 8, 2, 1);
    int k = build_add_axis(&b, "k", K, false, 2, 2, 1);
    int x = build_tensor(&b, TM_IN, "x", DT_f32, 2, M, K);
    int w = build_tensor(&b, TM_IN, "w", DT_f32, 2, N, K);
    int y = build_tensor(&b, TM_OUT, "y", DT_f32, 2, M, N);
    BuildLoop l = build_loop(&b, k, RED_contract, DT_f32);
    int p = build_load(&b, x, build_axis(&b, m), build_axis(&b, k), 0);
    int q = build_load(&b, w, build_axis(&b, n), build_axis(&b, k), 0);
    build_step(&b, l.carry, build_op2(&b, OP_mul, DT_f32, p, q));
    b.at = l.outer;
    build_store(&b, y, build_axis(&b, m), build_axis(&b, n), l.carry);
    int64_t size[3] = {29, 35, 19};
    float *px = exec_floats(&b, 29 * 19), *pw = exec_floats(&b, 35 * 19),
          *py = exec_output(&b, 29 * 35);
    Host h = {.data = {px, pw, py}, .stride = {{19, 1}, {19, 1}, {35, 1}}};
    run(&b, &h, size);
    for (int i = 0; i < 29; i++)
        for (int j = 0; j < 35; j++) {
            float want = 0;
            for (int e = 0; e < 19; e++) want += px[i * 19 + e] * pw[j * 19 + e];
            assert_float_equal(py[i * 35 + j], want, 0);
        }
    bands(py, 29 * 35);
    build_free(&b);
}

/* u4 rows of odd extent from an i4 row: both nibbles, and 0 beyond the end. */
static void nibbles(void **state) {
    (void)state;
    Build b;
    build_init(&b, names, 3);
    const Ix *M = build_size(&b, 0), *N = build_size(&b, 1);
    int m = build_add_axis(&b, "m", M, true, 1, 1, 1),
        n = build_add_axis(&b, "n", N, true, 4, 2, 2);
    const Ix *i = build_axis(&b, m), *j = build_axis(&b, n);
    int x = build_tensor(&b, TM_IN, "x", DT_i4, 2, M, N);
    int y = build_tensor(&b, TM_OUT, "y", DT_u4, 2, M, N);
    int v = build_op1(&b, OP_abs, DT_i32, build_load(&b, x, i, j, 0));
    build_store(&b, y, i, j, build_op1(&b, OP_cast, DT_u4, v));
    int64_t size[3] = {3, 21, 1};
    unsigned char px[3 * 11], py[3 * 11 + 2];
    for (int k = 0; k < 33; k++) px[k] = (unsigned char)(k * 37 + 5);
    memset(py, 0xaa, sizeof py);
    Host h = {.data = {px, py + 1}, .stride = {{22, 1}, {22, 1}}};
    run(&b, &h, size);
    for (int r = 0; r < 3; r++)
        for (int c = 0; c < 22; c++) {
            int64_t in, out;
            dtype_load(DT_i4, px + 11 * r, c, NULL, &in);
            dtype_load(DT_u4, py + 1 + 11 * r, c, NULL, &out);
            assert_int_equal(out, c < 21 ? llabs(in) : 0);
        }
    assert_int_equal(py[0], 0xaa);
    assert_int_equal(py[34], 0xaa);
    build_free(&b);
}

/* Every real type from f32 and back, at values that round, overflow, vanish; NaN and infinities. */
static void conversions(void **state) {
    (void)state;
    static const float special[] = {
        0,     -0.0f, 1,        448,       464,           465,           1e3f,  -1e3f, 1e9f,
        -1e9f, 65504, 65520,    1e-3f,     1e-8f,         0.0156f,       2.5f,  3.5f,  -2.5f,
        0.5f,  1.5f,  127.5f,   128.4f,    255.5f,        2147483648.0f, -3e9f, 1e19f, -1e19f,
        57344, 61440, INFINITY, -INFINITY, 0.0009765625f, 0.0029296875f, 1e-40f};
    int ns = (int)(sizeof special / sizeof *special), n = ns + 500 + 1;
    for (int to = 0; to < DT_COUNT; to++) {
        if (dtype_bits((DType)to) == 4) continue;
        Build b;
        build_init(&b, names, 3);
        int i = build_add_axis(&b, "i", build_size(&b, 1), true, 32, 2, 1);
        int x = build_tensor(&b, TM_IN, "x", DT_f32, 1, build_size(&b, 1), NULL);
        int y = build_tensor(&b, TM_OUT, "y", (DType)to, 1, build_size(&b, 1), NULL);
        int z = build_tensor(&b, TM_OUT, "z", DT_f32, 1, build_size(&b, 1), NULL);
        int c = build_op1(&b, OP_cast, (DType)to, build_load(&b, x, build_axis(&b, i), NULL, 0));
        build_store(&b, y, build_axis(&b, i), NULL, c);
        build_store(&b, z, build_axis(&b, i), NULL, build_op1(&b, OP_cast, DT_f32, c));
        float *px = exec_floats(&b, n), *pz = exec_output(&b, n);
        memcpy(px, special, sizeof special);
        uint32_t seed = 1;
        for (int k = ns; k < n - 1; k++) {
            seed = seed * 1664525u + 1013904223u;
            px[k] = ldexpf((float)(seed >> 8) - 0x800000, (int)(seed % 40) - 40);
        }
        px[n - 1] = NAN;
        char *py = ARENA_ARRAY(&b.arena, char, 8 * n);
        Host h = {.data = {px, py, pz}, .stride = {{1}, {1}, {1}}};
        int64_t size[3] = {1, n, 1};
        run(&b, &h, size);
        for (int k = 0; k < n; k++) {
            double r = 0, want = px[k];
            int64_t v = 0;
            dtype_load((DType)to, py, k, &r, &v);
            if (dtype_class((DType)to) == DC_REAL) {
                want = dtype_round((DType)to, want);
                if (isnan(want) ? !isnan(r) : r != want || signbit(r) != signbit(want))
                    fail_msg("%s(%a) = %a, not %a", dtype_name((DType)to), px[k], r, want);
            } else {
                int64_t iw = to == DT_bool ? want != 0 : dtype_to_int((DType)to, want);
                if (v != iw)
                    fail_msg("%s(%a) = %lld, not %lld", dtype_name((DType)to), px[k], (long long)v,
                             (long long)iw);
                r = (double)(float)v;
            }
            if (isnan(r) ? !isnan(pz[k]) : (double)pz[k] != r)
                fail_msg("f32(%s(%a)) = %a, not %a", dtype_name((DType)to), px[k], pz[k], r);
        }
        build_free(&b);
    }
}

/* fp8 bit patterns, all 256 of them, widened. */
static void fp8_widened(void **state) {
    (void)state;
    const DType types[] = {DT_e4m3, DT_e5m2, DT_bf16, DT_f16};
    for (int t = 0; t < 4; t++) {
        Build b;
        build_init(&b, names, 3);
        int i = build_add_axis(&b, "i", build_size(&b, 1), true, 32, 1, 1);
        int x = build_tensor(&b, TM_IN, "x", types[t], 1, build_size(&b, 1), NULL);
        int y = build_tensor(&b, TM_OUT, "y", DT_f32, 1, build_size(&b, 1), NULL);
        build_store(&b, y, build_axis(&b, i), NULL, build_load(&b, x, build_axis(&b, i), NULL, 0));
        unsigned char px[512];
        for (int k = 0; k < 512; k++)
            px[k] = (unsigned char)(dtype_bits(types[t]) == 8 ? k : k * 77);
        float *py = exec_output(&b, 256);
        Host h = {.data = {px, py}, .stride = {{1}, {1}}};
        int64_t size[3] = {1, 256, 1};
        run(&b, &h, size);
        for (int k = 0; k < 256; k++) {
            double r;
            dtype_load(types[t], px, k, &r, NULL);
            if (isnan(r) ? !isnan(py[k]) : r != (double)py[k])
                fail_msg("%s pattern %d is %a, not %a", dtype_name(types[t]), k, py[k], r);
        }
        build_free(&b);
    }
}

/* y[m] = sum[k where k % 3 < len[m]] t[clip[k], m]: a guard that each row decides, and a gather
 * that leaves the tensor. */
static void guard_and_gather(void **state) {
    (void)state;
    Build b;
    build_init(&b, names, 3);
    IxPool *p = &b.ix;
    const Ix *M = build_size(&b, 0), *N = build_size(&b, 1), *K = build_size(&b, 2);
    int m = build_add_axis(&b, "m", M, true, 32, 1, 1),
        k = build_add_axis(&b, "k", K, false, 1, 1, 1);
    int tab = build_tensor(&b, TM_IN, "tab", DT_f32, 2, N, M);
    int idx = build_tensor(&b, TM_IN, "idx", DT_i32, 1, K, NULL);
    int len = build_tensor(&b, TM_IN, "len", DT_i32, 1, M, NULL);
    int y = build_tensor(&b, TM_OUT, "y", DT_f32, 1, M, NULL);
    BuildLoop l = build_loop(&b, k, RED_sum, DT_f32);
    const Ix *mod = ix_mod(p, build_axis(&b, k), ix_const(p, 3));
    int c = build_op2(&b, OP_lt, DT_bool, build_index(&b, mod),
                      build_load(&b, len, build_axis(&b, m), NULL, 0));
    TBlock *outer = build_guard(&b, c);
    int at = build_load(&b, idx, build_axis(&b, k), NULL, 0);
    int v = build_load(&b, tab, ix_value(p, at, NULL, 0), build_axis(&b, m), 1);
    build_step(&b, l.carry, v);
    b.at = outer;
    b.at = l.outer;
    build_store(&b, y, build_axis(&b, m), NULL, l.carry);
    enum { MM = 45, NN = 6, KK = 20 };
    float *pt = exec_floats(&b, NN * MM), *py = exec_output(&b, MM);
    int32_t pi[KK], pl[MM];
    for (int e = 0; e < KK; e++) pi[e] = e % 9 - 1; /* -1 and 6, 7 are outside */
    for (int e = 0; e < MM; e++) pl[e] = e % 5 - 1;
    Host h = {.data = {pt, pi, pl, py}, .stride = {{MM, 1}, {1}, {1}, {1}}};
    int64_t size[3] = {MM, NN, KK};
    run(&b, &h, size);
    for (int r = 0; r < MM; r++) {
        float want = 0;
        for (int e = 0; e < KK; e++)
            if (e % 3 < pl[r] && pi[e] >= 0 && pi[e] < NN) want += pt[pi[e] * MM + r];
        assert_float_equal(py[r], want, 0);
    }
    bands(py, MM);
    build_free(&b);
}

/* Two loops on the same lanes: mx = max[k] x; y[m, k] = x - mx, and a scalar from the host. */
static void shared_lanes(void **state) {
    (void)state;
    Build b;
    build_init(&b, names, 3);
    const Ix *M = build_size(&b, 0), *K = build_size(&b, 2);
    int m = build_add_axis(&b, "m", M, true, 2, 1, 1);
    int k = build_add_axis(&b, "k", K, false, 64, 2, 1);
    int j = build_add_axis(&b, "j", K, false, 64, 2, 1);
    b.s.threads = 128;
    b.s.axes.v[2].shared = true;
    int x = build_tensor(&b, TM_IN, "x", DT_f32, 2, M, K);
    int s = build_tensor(&b, TM_IN, "s", DT_f32, 0, NULL, NULL);
    int y = build_tensor(&b, TM_OUT, "y", DT_f32, 2, M, K);
    int z = build_tensor(&b, TM_OUT, "z", DT_f32, 1, M, NULL);
    BuildLoop l = build_loop(&b, k, RED_max, DT_f32);
    build_step(&b, l.carry, build_load(&b, x, build_axis(&b, m), build_axis(&b, k), 0));
    b.at = l.outer;
    build_store(&b, z, build_axis(&b, m), NULL, l.carry);
    int scale = build_load(&b, s, NULL, NULL, 0);
    BuildLoop a = build_loop(&b, j, RED_sum, DT_f32);
    int d = build_op2(&b, OP_sub, DT_f32,
                      build_load(&b, x, build_axis(&b, m), build_axis(&b, j), 0), l.carry);
    build_store(&b, y, build_axis(&b, m), build_axis(&b, j),
                build_op2(&b, OP_mul, DT_f32, d, scale));
    b.at = a.outer;
    enum { MM = 7, KK = 333 };
    float *px = exec_floats(&b, MM * KK), *py = exec_output(&b, MM * KK), *pz = exec_output(&b, MM);
    float ps[2] = {3, 0};
    Host h = {.data = {px, ps, py, pz}, .stride = {{KK, 1}, {0}, {KK, 1}, {1}}};
    int64_t size[3] = {MM, 1, KK};
    run(&b, &h, size);
    for (int r = 0; r < MM; r++) {
        float mx = -INFINITY;
        for (int e = 0; e < KK; e++) mx = fmaxf(mx, px[r * KK + e]);
        assert_float_equal(pz[r], (float)mx, 0);
        for (int e = 0; e < KK; e++)
            assert_float_equal(py[r * KK + e], 3 * (px[r * KK + e] - mx), 0);
    }
    bands(py, MM * KK);
    bands(pz, MM);
    build_free(&b);
}

/* l[m] = sum[k where k < len[m]] exp(x - running max): a frame that moves, merged across lanes,
 * with a value of its own for empty rows. */
static void frames(void **state) {
    (void)state;
    for (int lanes = 1; lanes <= 64; lanes *= 8) {
        Build b;
        build_init(&b, names, 3);
        const Ix *M = build_size(&b, 0), *K = build_size(&b, 2);
        int m = build_add_axis(&b, "m", M, true, 1, 1, 1);
        int k = build_add_axis(&b, "k", K, false, lanes, 1, 1);
        int x = build_tensor(&b, TM_IN, "x", DT_f32, 2, M, K);
        int len = build_tensor(&b, TM_IN, "len", DT_i32, 1, M, NULL);
        int y = build_tensor(&b, TM_OUT, "y", DT_f32, 1, M, NULL);
        int z = build_tensor(&b, TM_OUT, "z", DT_f32, 1, M, NULL);
        int n = build_load(&b, len, build_axis(&b, m), NULL, 0);
        BuildLoop l = build_loop(&b, k, RED_max, DT_f32);
        TInst *loop = l.outer->inst.v[l.outer->inst.n - 1];
        TCarry c = {.id = b.t->nvalues++, .type = DT_f32, .red = RED_sum, .frame = l.carry};
        c.has_finish = true;
        c.finish = 42;
        TFactor f[4] = {{.kind = TF_OLD},
                        {.kind = TF_NEW},
                        {.kind = TF_OP, .op = OP_sub},
                        {.kind = TF_OP, .op = OP_exp}};
        for (int e = 0; e < 4; e++) vec_push(&b.arena, &c.rescale, f[e]);
        vec_push(&b.arena, &loop->carries, c);
        int in = build_op2(&b, OP_lt, DT_bool, build_index(&b, build_axis(&b, k)), n);
        TBlock *outer = build_guard(&b, in);
        int v = build_load(&b, x, build_axis(&b, m), build_axis(&b, k), 0);
        build_step(&b, l.carry, v);
        int p = build_op1(&b, OP_exp, DT_f32, build_op2(&b, OP_sub, DT_f32, v, l.carry));
        build_step(&b, c.id, p);
        b.at = outer;
        b.at = l.outer;
        build_store(&b, y, build_axis(&b, m), NULL, c.id);
        build_store(&b, z, build_axis(&b, m), NULL, l.carry);
        enum { MM = 5, KK = 150 };
        float *px = exec_floats(&b, MM * KK), *py = exec_output(&b, MM), *pz = exec_output(&b, MM);
        int32_t pl[MM] = {KK, 0, 1, 70, 9};
        Host h = {.data = {px, pl, py, pz}, .stride = {{KK, 1}, {1}, {1}, {1}}};
        int64_t size[3] = {MM, 1, KK};
        run(&b, &h, size);
        for (int r = 0; r < MM; r++) {
            double mx = -INFINITY, sum = 0;
            for (int e = 0; e < pl[r]; e++) mx = fmax(mx, (double)px[r * KK + e]);
            for (int e = 0; e < pl[r]; e++) sum += exp((double)px[r * KK + e] - mx);
            if (!pl[r]) sum = 42;
            assert_float_equal(pz[r], (float)mx, 0);
            assert_float_equal(py[r], (float)sum, (float)sum * 1e-6f);
        }
        bands(py, MM);
        build_free(&b);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(broadcast_and_strides),
        cmocka_unit_test(row_reductions),
        cmocka_unit_test(contraction),
        cmocka_unit_test(integer_merges),
        cmocka_unit_test(nibbles),
        cmocka_unit_test(conversions),
        cmocka_unit_test(fp8_widened),
        cmocka_unit_test(guard_and_gather),
        cmocka_unit_test(shared_lanes),
        cmocka_unit_test(frames),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
