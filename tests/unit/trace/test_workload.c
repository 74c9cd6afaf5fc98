/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "trace/workload.h"

enum { SEED = 7 };

static int64_t sum_of(const int64_t *load, int32_t num_experts)
{
    int64_t sum = 0;
    for (int32_t expert = 0; expert < num_experts; expert++) {
        assert_true(load[expert] >= 0);
        sum += load[expert];
    }
    return sum;
}

static int descending(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;
    return x > y ? -1 : x < y;
}

static void powers_and_logarithms_are_close(void **state)
{
    (void)state;
    for (double x = -40; x <= 40; x += 0.0137) {
        double power = eplb_workload_exp2(x);
        assert_true(fabs(power / exp2(x) - 1) < 1e-15);
        assert_true(fabs(eplb_workload_log2(power) - x) < 1e-14);
        assert_true(fabs(eplb_workload_log2(power) - log2(power)) < 1e-15 * (1 + fabs(x)));
    }
    assert_true(eplb_workload_exp2(0) == 1);
    assert_true(eplb_workload_exp2(10) == 1024);
    assert_true(eplb_workload_exp2(-1000) == ldexp(1, -1000));
    assert_true(eplb_workload_log2(1) == 0);
    assert_true(eplb_workload_log2(4096) == 12);
}

static void zipf_shares_fall_by_rank(void **state)
{
    (void)state;
    struct eplb_prng prng;
    struct eplb_error error;
    int64_t load[5];
    eplb_prng_seed(&prng, SEED);
    assert_int_equal(eplb_workload_zipf(&prng, 5, 1, 137, load, &error), EPLB_OK);
    qsort(load, 5, sizeof *load, descending);
    /* 137 / (1 + 1/2 + 1/3 + 1/4 + 1/5) = 60, so the shares are 60, 30, 20, 15, 12. */
    static const int64_t expected[] = {60, 30, 20, 15, 12};
    assert_memory_equal(load, expected, sizeof expected);

    assert_int_equal(eplb_workload_zipf(&prng, 4, 0, 403, load, &error), EPLB_OK);
    static const int64_t uniform[] = {101, 101, 101, 100};
    assert_memory_equal(load, uniform, sizeof uniform);
}

static void seeds_shuffle_the_experts(void **state)
{
    (void)state;
    int hottest_seen[8] = {0};
    for (uint64_t seed = 0; seed < 100; seed++) {
        struct eplb_prng prng;
        struct eplb_error error;
        int64_t load[8];
        eplb_prng_seed(&prng, seed);
        assert_int_equal(eplb_workload_zipf(&prng, 8, 2, 1000, load, &error), EPLB_OK);
        int hottest = 0;
        for (int expert = 1; expert < 8; expert++)
            hottest = load[expert] > load[hottest] ? expert : hottest;
        hottest_seen[hottest]++;
    }
    for (int expert = 0; expert < 8; expert++)
        assert_in_range(hottest_seen[expert], 1, 30);
}

static void totals_are_exact(void **state)
{
    (void)state;
    enum { EXPERTS = 65536 };
    static const int64_t totals[] = {0, 1, 12345, INT64_C(1) << 62};
    struct eplb_prng prng;
    struct eplb_error error;
    int64_t *load = calloc(EXPERTS, sizeof *load);
    assert_non_null(load);
    eplb_prng_seed(&prng, SEED);
    for (size_t i = 0; i < sizeof totals / sizeof totals[0]; i++) {
        assert_int_equal(eplb_workload_zipf(&prng, EXPERTS, 1, totals[i], load, &error), EPLB_OK);
        assert_true(sum_of(load, EXPERTS) == totals[i]);
        assert_int_equal(eplb_workload_lognormal(&prng, EXPERTS, 8, totals[i], load, &error), EPLB_OK);
        assert_true(sum_of(load, EXPERTS) == totals[i]);
        assert_int_equal(eplb_workload_drift(&prng, EXPERTS, 1, load, &error), EPLB_OK);
        assert_true(sum_of(load, EXPERTS) == totals[i]);
    }
    free(load);
}

/* Mean and deviation of log2 counts, against those that sigma promises. */
static void lognormal_has_its_sigma(void **state)
{
    (void)state;
    enum { EXPERTS = 20000 };
    struct eplb_prng prng;
    struct eplb_error error;
    int64_t *load = calloc(EXPERTS, sizeof *load);
    assert_non_null(load);
    eplb_prng_seed(&prng, SEED);
    assert_int_equal(eplb_workload_lognormal(&prng, EXPERTS, 0.5, INT64_C(1) << 50, load, &error), EPLB_OK);
    double mean = 0;
    double square = 0;
    double cube = 0;
    for (int32_t expert = 0; expert < EXPERTS; expert++)
        mean += log((double)load[expert]) / EXPERTS;
    for (int32_t expert = 0; expert < EXPERTS; expert++) {
        double off = log((double)load[expert]) - mean;
        square += off * off / EXPERTS;
        cube += off * off * off / EXPERTS;
    }
    assert_true(fabs(sqrt(square) - 0.5) < 0.01);
    assert_true(fabs(cube / (0.5 * 0.5 * 0.5)) < 0.1);
    free(load);
}

static void drift_moves_but_keeps_dead_experts(void **state)
{
    (void)state;
    struct eplb_prng prng;
    struct eplb_error error;
    int64_t load[4] = {1000000, 0, 500000, 500000};
    eplb_prng_seed(&prng, SEED);
    assert_int_equal(eplb_workload_drift(&prng, 4, 0, load, &error), EPLB_OK);
    static const int64_t same[] = {1000000, 0, 500000, 500000};
    assert_memory_equal(load, same, sizeof same);
    assert_int_equal(eplb_workload_drift(&prng, 4, 0.1, load, &error), EPLB_OK);
    assert_int_equal(load[1], 0);
    assert_int_not_equal(load[0], 1000000);
    assert_in_range(load[0], 700000, 1300000);
    assert_int_equal(sum_of(load, 4), 2000000);
}

/* Pinned: every machine and build must make these very counts. */
static void counts_are_the_same_everywhere(void **state)
{
    (void)state;
    struct eplb_prng prng;
    struct eplb_error error;
    int64_t zipf[8];
    int64_t lognormal[8];
    eplb_prng_seed(&prng, SEED);
    assert_int_equal(eplb_workload_zipf(&prng, 8, 1.2, 1000000007, zipf, &error), EPLB_OK);
    assert_int_equal(eplb_workload_lognormal(&prng, 8, 0.9, 1000000007, lognormal, &error), EPLB_OK);
    static const int64_t expected_zipf[] = {186571741, 41491985, 114692852, 81210067,
                                            62132360,  35348735, 428629303, 49922964};
    static const int64_t expected_lognormal[] = {43147197,  32873745, 102366699, 238676984,
                                                 137055186, 85655682, 80484554,  279739960};
    assert_memory_equal(zipf, expected_zipf, sizeof zipf);
    assert_memory_equal(lognormal, expected_lognormal, sizeof lognormal);
}

static void arguments_out_of_range_are_refused(void **state)
{
    (void)state;
    struct eplb_prng prng;
    struct eplb_error error;
    int64_t load[2] = {1, 2};
    eplb_prng_seed(&prng, SEED);
    assert_int_equal(eplb_workload_zipf(&prng, 0, 1, 1, load, &error), EPLB_INVALID);
    assert_string_equal(error.text, "num_experts is 0; allowed is 1 to 65536");
    assert_int_equal(eplb_workload_zipf(&prng, 2, nan(""), 1, load, &error), EPLB_INVALID);
    assert_string_equal(error.text, "exponent is nan; allowed is 0 to 8");
    assert_int_equal(eplb_workload_lognormal(&prng, 2, -0.5, 1, load, &error), EPLB_INVALID);
    assert_string_equal(error.text, "sigma is -0.5; allowed is 0 to 8");
    assert_int_equal(eplb_workload_lognormal(&prng, 2, 1, -1, load, &error), EPLB_INVALID);
    assert_string_equal(error.text, "tokens is -1; allowed is 0 to 2^62");
    assert_int_equal(eplb_workload_drift(&prng, 2, 8.5, load, &error), EPLB_INVALID);
    assert_int_equal(load[0], 1);
    assert_int_equal(load[1], 2);
}

int main(void)
{
    print_message("seed %d\n", SEED);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(powers_and_logarithms_are_close),
        cmocka_unit_test(zipf_shares_fall_by_rank),
        cmocka_unit_test(seeds_shuffle_the_experts),
        cmocka_unit_test(totals_are_exact),
        cmocka_unit_test(lognormal_has_its_sigma),
        cmocka_unit_test(drift_moves_but_keeps_dead_experts),
        cmocka_unit_test(counts_are_the_same_everywhere),
        cmocka_unit_test(arguments_out_of_range_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
