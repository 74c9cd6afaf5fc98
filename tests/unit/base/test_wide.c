/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Products of 128-bit integers, against the way they are taught at school: limb by limb.
 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/prng.h"
#include "base/wide.h"

enum { LIMBS = 4, RUNS = 100000 };

static const eplb_u128 LARGEST = ~(eplb_u128)0;

static void take_limbs(eplb_u128 value, uint32_t limbs[LIMBS])
{
    for (int i = 0; i < LIMBS; i++)
        limbs[i] = (uint32_t)(value >> (32 * i));
}

static struct eplb_u256 school(eplb_u128 a, eplb_u128 b)
{
    uint32_t left[LIMBS];
    uint32_t right[LIMBS];
    uint32_t digits[2 * LIMBS] = {0};
    take_limbs(a, left);
    take_limbs(b, right);
    for (int i = 0; i < LIMBS; i++) {
        uint64_t carry = 0;
        for (int j = 0; j < LIMBS; j++) {
            carry += (uint64_t)left[i] * right[j] + digits[i + j];
            digits[i + j] = (uint32_t)carry;
            carry >>= 32;
        }
        digits[i + LIMBS] = (uint32_t)carry;
    }
    struct eplb_u256 product = {0, 0};
    for (int i = LIMBS - 1; i >= 0; i--) {
        product.low = product.low << 32 | digits[i];
        product.high = product.high << 32 | digits[LIMBS + i];
    }
    return product;
}

static int is_same(struct eplb_u256 a, struct eplb_u256 b)
{
    return a.high == b.high && a.low == b.low;
}

static void the_edges_are_right(void **state)
{
    (void)state;
    assert_true(is_same(eplb_u128_multiply(0, LARGEST), (struct eplb_u256){0, 0}));
    assert_true(is_same(eplb_u128_multiply(LARGEST, 1), (struct eplb_u256){0, LARGEST}));
    assert_true(is_same(eplb_u128_multiply(LARGEST, LARGEST), (struct eplb_u256){LARGEST - 1, 1}));
    assert_true(
        is_same(eplb_u128_multiply((eplb_u128)1 << 64, (eplb_u128)1 << 64), (struct eplb_u256){1, 0}));
    assert_true(is_same(eplb_u128_multiply(UINT64_MAX, UINT64_MAX),
                        (struct eplb_u256){0, (eplb_u128)UINT64_MAX * UINT64_MAX}));
}

/** Numbers of every length, and many with runs of ones, where carries go far. */
static eplb_u128 draw(struct eplb_prng *prng)
{
    eplb_u128 value = (eplb_u128)eplb_prng_next(prng) << 64 | eplb_prng_next(prng);
    if (eplb_prng_below(prng, 2) == 0)
        value = LARGEST - (value >> 96);
    return value >> eplb_prng_below(prng, 128);
}

static void products_are_those_of_school(void **state)
{
    (void)state;
    const uint64_t seed = 20261129;
    struct eplb_prng prng;
    printf("seed %" PRIu64 "\n", seed);
    eplb_prng_seed(&prng, seed);
    for (int run = 0; run < RUNS; run++) {
        eplb_u128 a = draw(&prng);
        eplb_u128 b = draw(&prng);
        if (!is_same(eplb_u128_multiply(a, b), school(a, b)))
            fail_msg("run %d: another product", run);
    }
}

static void comparing_is_exact(void **state)
{
    (void)state;
    assert_false(eplb_product_less(6, 6, 4, 9));
    assert_true(eplb_product_less(6, 6, 37, 1));
    assert_false(eplb_product_less(37, 1, 6, 6));
    /* (n - 1) * (n + 1) is one less than n * n, however large. */
    eplb_u128 n = LARGEST / 2;
    assert_true(eplb_product_less(n - 1, n + 1, n, n));
    assert_false(eplb_product_less(n, n, n - 1, n + 1));
    assert_false(eplb_product_less(n, n, n, n));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_edges_are_right),
        cmocka_unit_test(products_are_those_of_school),
        cmocka_unit_test(comparing_is_exact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
