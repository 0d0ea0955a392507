// Where the workspace's parts lie: what lives at the same time never overlaps, and what does not
// shares.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "runtime/fkm.h"

enum { MOST = 24 };

typedef struct {
    FkmLife life[MOST];
    uint32_t order[MOST], live[MOST];
    uint64_t bytes[MOST], at[MOST], scratch[MOST], scratch_at[MOST];
    FkmPlaces p;
} Case;

static bool place(Case *c, uint32_t temps, uint32_t steps, uint64_t head) {
    c->p = (FkmPlaces){temps, steps,      c->life,       c->order, head, c->bytes,
                       c->at, c->scratch, c->scratch_at, c->live,  0};
    fkm_order(c->life, temps, steps, c->order);
    return fkm_place(&c->p);
}

static bool apart(uint64_t a, uint64_t n, uint64_t b, uint64_t m) {
    return a + n <= b || b + m <= a;
}

static void check(const Case *c) {
    const FkmPlaces *p = &c->p;
    for (uint32_t i = 0; i < p->n_temps; i++) {
        const FkmLife *x = &c->life[i];
        assert_int_equal(p->at[i] % FKM_ALIGN, 0);
        if (x->first > x->last || !p->bytes[i]) continue;
        assert_true(p->at[i] >= p->head && p->at[i] + p->bytes[i] <= p->total);
        for (uint32_t k = 0; k < i; k++) {
            const FkmLife *y = &c->life[k];
            if (y->first > y->last || x->last < y->first || y->last < x->first) continue;
            assert_true(apart(p->at[i], p->bytes[i], p->at[k], p->bytes[k]));
        }
        for (uint32_t s = x->first; s <= x->last; s++)
            assert_true(apart(p->at[i], p->bytes[i], p->scratch_at[s], p->scratch[s]));
    }
    for (uint32_t s = 0; s < p->n_steps; s++) {
        assert_int_equal(p->scratch_at[s] % FKM_ALIGN, 0);
        assert_true(p->scratch_at[s] >= p->head);
        assert_true(p->scratch_at[s] + p->scratch[s] <= p->total);
    }
}

// t0 -> t1 -> t2 -> t3, one step after the other: two places are enough.
static void a_chain_takes_two_places(void **state) {
    Case c = {.bytes = {1000, 1000, 1000, 1000}};
    (void)state;
    for (uint32_t i = 0; i < 4; i++) c.life[i] = (FkmLife){i, i + 1};
    assert_true(place(&c, 4, 5, 64));
    check(&c);
    assert_int_equal(c.p.head, 256);
    assert_int_equal(c.p.total, 256 + 2 * 1024);
    assert_int_equal(c.at[0], c.at[2]);
    assert_int_equal(c.at[1], c.at[3]);
}

static void scratch_lies_in_gaps(void **state) {
    Case c = {.bytes = {512, 512, 512}, .scratch = {0, 0, 500}};
    (void)state;
    c.life[0] = (FkmLife){0, 1}, c.life[1] = (FkmLife){0, 2}, c.life[2] = (FkmLife){3, 3};
    assert_true(place(&c, 3, 4, 0));
    check(&c);
    assert_int_equal(c.scratch_at[2], c.at[0]);
    assert_int_equal(c.p.total, 1024);
}

static void nobody_names_it(void **state) {
    Case c = {.bytes = {512, 512}};
    (void)state;
    c.life[0] = (FkmLife){1, 0}, c.life[1] = (FkmLife){0, 0};
    assert_true(place(&c, 2, 1, 0));
    assert_int_equal(c.p.total, 512);
}

static void beyond_64_bits(void **state) {
    Case c = {.bytes = {INT64_MAX / 2, INT64_MAX / 2, 1000}};
    (void)state;
    for (int i = 0; i < 3; i++) c.life[i] = (FkmLife){0, 0};
    assert_false(place(&c, 3, 1, 0));
    c.bytes[0] = INT64_MAX;
    assert_false(place(&c, 1, 1, 0));
}

// More scratch, no less of a workspace; never more of it than if nothing were shared.
static void random_plans(void **state) {
    (void)state;
    srand(1);
    for (int round = 0; round < 5000; round++) {
        Case c = {.p = {0}};
        uint32_t temps = (uint32_t)(rand() % MOST), steps = 1 + (uint32_t)(rand() % (MOST - 1));
        uint64_t sum = 0, most = 0;
        for (uint32_t i = 0; i < temps; i++) {
            c.life[i].first = (uint32_t)rand() % steps;
            c.life[i].last = c.life[i].first + (uint32_t)rand() % (steps - c.life[i].first);
            c.bytes[i] = (uint64_t)(rand() % 4 ? rand() % 5000 : 0);
            sum += (c.bytes[i] + 255) / 256 * 256;
        }
        for (uint32_t s = 0; s < steps; s++) {
            c.scratch[s] = (uint64_t)(rand() % 3 ? 0 : rand() % 3000);
            if (c.scratch[s] > most) most = c.scratch[s];
        }
        assert_true(place(&c, temps, steps, 0));
        check(&c);
        assert_true(c.p.total <= sum + (most + 255) / 256 * 256);
        uint64_t total = c.p.total;
        c.scratch[(uint32_t)rand() % steps] += (uint64_t)rand() % 3000;
        assert_true(place(&c, temps, steps, 0));
        assert_true(c.p.total >= total);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chain_takes_two_places),
        cmocka_unit_test(scratch_lies_in_gaps),
        cmocka_unit_test(nobody_names_it),
        cmocka_unit_test(beyond_64_bits),
        cmocka_unit_test(random_plans),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
