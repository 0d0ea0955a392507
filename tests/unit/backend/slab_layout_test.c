/* slab_layout_test.c - where the elements of a slab lie, seen from both sides. One side is TMA: a
 * box line by line, each address with its bits swizzled. The other are the threads of a group: the
 * place P that the backend gives each of them (its arithmetic on constants folds to a number), the
 * rule of wgmma_int.h for the other columns and rows of a box, and what ldmatrix, stmatrix and
 * plain accesses do there. Each thread must find the elements that its accumulator holds, and no
 * bank of shared memory may be asked twice at a time.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "backend/nvptx/wgmma_int.h"

enum { GROUP = 128, ROWS = 192, MOST = ROWS * 128 };

typedef struct Box {
    int size, swizzle;
    int16_t row[MOST], byte[MOST]; /* of the tensor's line, by address */
    uint32_t place[GROUP];         /* P of each thread */
} Box;

/* What TMA does: bits 4.. of an address are xored with bits 7.. */
static void fill(Box *x) {
    int bits = x->swizzle == 128 ? 7 : x->swizzle == 64 ? 3 : 1;
    for (int row = 0; row < ROWS; row++)
        for (int byte = 0; byte < x->swizzle; byte++) {
            int at = row * x->swizzle + byte;
            at ^= (at >> 7 & bits) << 4;
            x->row[at] = (int16_t)row;
            x->byte[at] = (int16_t)byte;
        }
}

static void place(Box *x) {
    Lower l = {0};
    Wg w = {.l = &l};
    MmaStaged s = {.size = x->size, .swizzle = x->swizzle, .box = x->swizzle / x->size};
    module_begin(&l, "slab_layout");
    l.b = LLVMCreateBuilderInContext(l.cx);
    for (int t = 0; t < GROUP; t++) {
        w.tid = LLVMConstInt(l.i32, (unsigned)(2 * GROUP + t), 0);
        w.col = LLVMConstInt(l.i32, (unsigned)(2 * (t % 4)), 0);
        Val p = wg_place_in_box(&w, &s);
        assert_true(LLVMIsConstant(p));
        x->place[t] = (uint32_t)LLVMConstIntGetZExtValue(p);
    }
    LLVMDisposeBuilder(l.b);
    module_end(&l);
}

/* Of thread t, j-th 8 columns, block m of 64 rows. */
static int address(const Box *x, int t, int j, int m) {
    return (int)(x->place[t] ^ (uint32_t)(8 * x->size * j)) + m * 64 * x->swizzle;
}

static void is(const Box *x, int at, int row, int byte) {
    assert_in_range(at, 0, ROWS * x->swizzle - 1);
    assert_int_equal(x->row[at], row);
    assert_int_equal(x->byte[at], byte);
}

/* 8 rows of 16 bytes go at once: together all 32 banks, each once. */
static void banks_of_rows(const int *at) {
    uint32_t seen = 0;
    for (int r = 0; r < 8; r++) {
        assert_int_equal(at[r] % 16, 0);
        for (int word = 0; word < 4; word++) seen |= 1u << (at[r] / 4 + word) % 32;
    }
    assert_int_equal(seen, UINT32_MAX);
}

/* ldmatrix and stmatrix: lane 8 k + r names row r of matrix k; thread t has word t % 4 of row t / 4
 * of each. Matrix k must be the rows 8 (k % 2) of its warp, columns 8 (k / 2) further: what
 * registers 4 j + 2 h + e of the accumulator hold. With two matrices it is the first 8 columns. */
static void matrices(const Box *x, int n, int warp, int j, int m) {
    for (int k = 0; k < n; k++) {
        int at[8];
        for (int r = 0; r < 8; r++) at[r] = address(x, 32 * warp + 8 * k + r, j, m);
        banks_of_rows(at);
        for (int lane = 0; lane < 32; lane++)
            is(x, at[lane / 4] + 4 * (lane % 4), 64 * m + 16 * warp + lane / 4 + 8 * (k % 2),
               2 * (8 * (j + k / 2) + 2 * (lane % 4)));
    }
}

static void pairs(const Box *x, int t, int j, int m) {
    for (int h = 0; h < 2; h++) {
        int at = address(x, t, j, m) + h * 8 * x->swizzle;
        int row = 64 * m + 16 * (t / 32) + t % 32 / 4 + 8 * h, col = 8 * j + 2 * (t % 4);
        for (int b = 0; b < 2 * x->size; b++) is(x, at + b, row, col * x->size + b);
        assert_int_equal(at % (2 * x->size), 0);
    }
}

static void check(int size, int swizzle) {
    static Box x;
    memset(&x, 0, sizeof x);
    x.size = size, x.swizzle = swizzle;
    fill(&x);
    place(&x);
    for (int m = 0; m < ROWS / 64; m++)
        for (int j = 0; j < swizzle / size / 8; j++) {
            if (size != 2) {
                for (int t = 0; t < GROUP; t++) pairs(&x, t, j, m);
                continue;
            }
            for (int warp = 0; warp < 4; warp++) {
                matrices(&x, 2, warp, j, m);
                if (j % 2 == 0) matrices(&x, 4, warp, j, m);
            }
        }
}

static void sixteen_bits(void **state) {
    (void)state;
    for (int swizzle = 32; swizzle <= 128; swizzle *= 2) check(2, swizzle);
}

static void others(void **state) {
    (void)state;
    for (int swizzle = 32; swizzle <= 128; swizzle *= 2) {
        check(1, swizzle);
        check(4, swizzle);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(sixteen_bits), cmocka_unit_test(others)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
