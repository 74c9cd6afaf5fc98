/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>

#include "base/histogram.h"
#include "base/prng.h"

enum { NUM_VALUES = 5000 };

static int ascending(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* The plain twin: the value at the same place of the sorted array. */
static int64_t exact_quantile(const int64_t *sorted, size_t count, int32_t parts)
{
    size_t place = (count * (size_t)parts + EPLB_QUANTILE_UNIT - 1) / EPLB_QUANTILE_UNIT;
    return sorted[place == 0 ? 0 : place - 1];
}

static void assert_quantiles(const struct eplb_histogram *histogram, int64_t *values, size_t count)
{
    static const int32_t parts[] = {0, 1, 10000, 250000, 500000, 900000, 990000, 999000, 999999, 1000000};
    qsort(values, count, sizeof values[0], ascending);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        int64_t exact = exact_quantile(values, count, parts[i]);
        int64_t approximate = eplb_histogram_quantile(histogram, parts[i]);
        assert_true(approximate >= exact);
        if (exact < 64)
            assert_int_equal(approximate, exact);
        else
            assert_true((uint64_t)(approximate - exact) * 32 < (uint64_t)exact || approximate == exact);
        assert_true(approximate <= values[count - 1]);
    }
}

static void empty(void **state)
{
    (void)state;
    static struct eplb_histogram histogram;
    eplb_histogram_init(&histogram);
    assert_int_equal(eplb_histogram_count(&histogram), 0);
    assert_int_equal(eplb_histogram_min(&histogram), 0);
    assert_int_equal(eplb_histogram_max(&histogram), 0);
    assert_true(eplb_histogram_sum(&histogram) == 0);
    assert_int_equal(eplb_histogram_quantile(&histogram, 500000), 0);
}

static void small_values_are_exact(void **state)
{
    (void)state;
    static struct eplb_histogram histogram;
    eplb_histogram_init(&histogram);
    for (int64_t value = 63; value >= 0; value--)
        eplb_histogram_record(&histogram, value);
    assert_int_equal(eplb_histogram_count(&histogram), 64);
    assert_int_equal(eplb_histogram_min(&histogram), 0);
    assert_int_equal(eplb_histogram_max(&histogram), 63);
    assert_true(eplb_histogram_sum(&histogram) == 63 * 64 / 2);
    for (int32_t place = 1; place <= 64; place++)
        assert_int_equal(eplb_histogram_quantile(&histogram, place * 15625), place - 1);
    assert_int_equal(eplb_histogram_quantile(&histogram, 15626), 1);
    assert_int_equal(eplb_histogram_quantile(&histogram, 0), 0);
}

static void buckets_end_where_they_should(void **state)
{
    (void)state;
    static const int64_t ends[][2] = {
        {64, 65},
        {65, 65},
        {66, 67},
        {126, 127},
        {127, 127},
        {128, 131},
        {1000, 1007},
        {1024, 1055},
        {INT64_C(1) << 62, (INT64_C(1) << 62) + (INT64_C(1) << 57) - 1},
        {INT64_MAX - 1, INT64_MAX},
    };
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        static struct eplb_histogram histogram;
        eplb_histogram_init(&histogram);
        eplb_histogram_record(&histogram, ends[i][0]);
        assert_int_equal(eplb_histogram_quantile(&histogram, 500000), ends[i][0]);
        eplb_histogram_record(&histogram, INT64_MAX);
        assert_true(eplb_histogram_quantile(&histogram, 500000) == ends[i][1]);
        assert_true(eplb_histogram_max(&histogram) == INT64_MAX);
    }
}

static void quantiles_stay_within_a_thirty_second(void **state)
{
    (void)state;
    static struct eplb_histogram histogram;
    static int64_t values[NUM_VALUES];
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct eplb_prng prng;
        eplb_prng_seed(&prng, seed);
        print_message("seed %d\n", (int)seed);
        eplb_histogram_init(&histogram);
        eplb_u128 sum = 0;
        for (size_t i = 0; i < NUM_VALUES; i++) {
            /* A random number of bits, so that every magnitude occurs. */
            values[i] = (int64_t)(eplb_prng_next(&prng) >> (1 + eplb_prng_below(&prng, 63)));
            sum += (uint64_t)values[i];
            eplb_histogram_record(&histogram, values[i]);
        }
        assert_quantiles(&histogram, values, NUM_VALUES);
        assert_int_equal(eplb_histogram_count(&histogram), NUM_VALUES);
        assert_true(eplb_histogram_sum(&histogram) == sum);
        assert_true(eplb_histogram_min(&histogram) == values[0]);
        assert_true(eplb_histogram_max(&histogram) == values[NUM_VALUES - 1]);
    }
}

static void merging_is_recording_both(void **state)
{
    (void)state;
    static struct eplb_histogram even;
    static struct eplb_histogram odd;
    static struct eplb_histogram both;
    static struct eplb_histogram empty_one;
    struct eplb_prng prng;
    eplb_prng_seed(&prng, 5);
    eplb_histogram_init(&even);
    eplb_histogram_init(&odd);
    eplb_histogram_init(&both);
    eplb_histogram_init(&empty_one);
    for (int i = 0; i < 1000; i++) {
        int64_t value = (int64_t)eplb_prng_below(&prng, 1000000);
        eplb_histogram_record(&both, value);
        eplb_histogram_record(i % 2 == 0 ? &even : &odd, value);
    }
    eplb_histogram_merge(&even, &odd);
    eplb_histogram_merge(&even, &empty_one);
    assert_memory_equal(&even, &both, sizeof both);
    eplb_histogram_merge(&empty_one, &both);
    assert_memory_equal(&empty_one, &both, sizeof both);
}

static void the_sum_does_not_wrap(void **state)
{
    (void)state;
    static struct eplb_histogram histogram;
    eplb_histogram_init(&histogram);
    for (int i = 0; i < 3; i++)
        eplb_histogram_record(&histogram, INT64_MAX);
    assert_true(eplb_histogram_sum(&histogram) == (eplb_u128)INT64_MAX * 3);
    assert_true(eplb_histogram_quantile(&histogram, 1) == INT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(empty),
        cmocka_unit_test(small_values_are_exact),
        cmocka_unit_test(buckets_end_where_they_should),
        cmocka_unit_test(quantiles_stay_within_a_thirty_second),
        cmocka_unit_test(merging_is_recording_both),
        cmocka_unit_test(the_sum_does_not_wrap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
