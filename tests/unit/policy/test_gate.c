/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * The gate: what is worth a migration.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fenv.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/wide.h"
#include "support/tables.h"
#include "unit/policy/plan.h"

static struct eplb_benefit gate(const struct eplb_shape *shape, const int32_t *active,
                                const int32_t *candidate, const int64_t *logical, const int64_t *physical,
                                double threshold)
{
    int32_t scratch[PLAN_MAX_EXPERTS];
    return eplb_gate(shape, active, candidate, logical, physical, threshold, scratch);
}

static void assert_benefit(struct eplb_benefit got, double current_peak, double candidate_peak,
                           double improvement, int sets_changed, int publish)
{
    if (got.current_peak != current_peak || got.candidate_peak != candidate_peak ||
        got.improvement != improvement || got.sets_changed != sets_changed || got.publish != publish)
        fail_msg("current %.17g, candidate %.17g, improvement %.17g, changed %d, publish %d",
                 got.current_peak, got.candidate_peak, got.improvement, got.sets_changed, got.publish);
}

/* ---- four experts on two ranks, without redundancy ---- */

static const int32_t contiguous[4] = {0, 1, 2, 3};
static const int32_t crossed[4] = {0, 3, 2, 1};
static const int32_t reordered[4] = {1, 0, 3, 2};
static const int64_t edge_load[4] = {55, 45, 50, 40}; /* contiguous: 100 and 90; crossed: 95 and 95 */

static void equality_publishes(void **state)
{
    (void)state;
    struct eplb_shape shape = tables_shape(4, 2, 0);
    assert_benefit(gate(&shape, contiguous, crossed, edge_load, edge_load, 0.05), 100, 95, 0.05, 1, 1);
    assert_benefit(gate(&shape, contiguous, crossed, edge_load, edge_load, 0.0500001), 100, 95, 0.05, 1, 0);
    assert_benefit(gate(&shape, contiguous, crossed, edge_load, edge_load, 0.1000001), 100, 95, 0.05, 1, 0);
    assert_benefit(gate(&shape, contiguous, crossed, edge_load, edge_load, 0), 100, 95, 0.05, 1, 1);
}

/** 49 * (1 / 49) is less than 1 in doubles; whether there is a gain is not left to them. */
static void a_gain_of_rounding_only_is_none(void **state)
{
    (void)state;
    static const int32_t active[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    static const int32_t candidate[8] = {0, 4, 1, 5, 2, 6, 3, 7};
    static const int64_t logical[8] = {49, 49, 49, 49, 49, 49, 49, 49};
    static const int64_t physical[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    struct eplb_shape shape = tables_shape(8, 4, 0);
    struct eplb_benefit got = gate(&shape, active, candidate, logical, physical, 0);
    assert_true(got.improvement > 0);
    assert_int_equal(got.publish, 0);
}

/** The tolerance is a billionth of the threshold: for decimal thresholds that binary cannot hold. */
static void the_tolerance_is_relative(void **state)
{
    (void)state;
    struct eplb_shape shape = tables_shape(4, 2, 0);
    assert_int_equal(gate(&shape, contiguous, crossed, edge_load, edge_load, 0.05 * (1 + 9e-10)).publish, 1);
    assert_int_equal(gate(&shape, contiguous, crossed, edge_load, edge_load, 0.05 * (1 + 2e-9)).publish, 0);
}

/** A gain of 2e10 - missing tokens of 4e11, where 2e10 are 5 %. */
static struct eplb_benefit gate_short_of_five_percent(int64_t missing)
{
    struct eplb_shape shape = tables_shape(4, 2, 0);
    const int64_t load[4] = {220000000000, 180000000000, 180000000000 - missing, 160000000000 + missing};
    return gate(&shape, contiguous, crossed, load, load, 0.05);
}

static void the_tolerance_is_a_billionth_of_the_threshold(void **state)
{
    (void)state;
    assert_benefit(gate_short_of_five_percent(10), 4e11, 38e10 + 10, (2e10 - 10) / 4e11, 1, 1);
    assert_int_equal(gate_short_of_five_percent(30).publish, 0);
    assert_benefit(gate_short_of_five_percent(1000), 4e11, 38e10 + 1000, (2e10 - 1000) / 4e11, 1, 0);
}

static void an_unchanged_table_is_not_published(void **state)
{
    (void)state;
    struct eplb_shape shape = tables_shape(4, 2, 0);
    assert_benefit(gate(&shape, contiguous, contiguous, edge_load, edge_load, 0), 100, 100, 0, 0, 0);
    /* Not even when the measured load says that the even split would be better. */
    const int64_t skewed[4] = {100, 20, 50, 20};
    assert_benefit(gate(&shape, contiguous, contiguous, edge_load, skewed, 0), 120, 100, 20 / 120.0, 0, 0);
    assert_benefit(gate(&shape, contiguous, reordered, edge_load, skewed, 0), 120, 100, 20 / 120.0, 0, 0);
}

/** Eight equal experts on four ranks: the plan is another table with the same peak. */
static void no_gain_is_not_published_at_threshold_zero(void **state)
{
    (void)state;
    struct eplb_shape shape = tables_shape(8, 4, 0);
    const int64_t load[8] = {10, 10, 10, 10, 10, 10, 10, 10};
    int32_t initial[8];
    int32_t candidate[8];
    eplb_placement_initial(&shape, initial);
    plan_once("balanced", &shape, load, initial, candidate);
    assert_benefit(gate(&shape, initial, candidate, load, load, 0), 20, 20, 0, 1, 0);
}

static void a_worse_plan_is_not_published(void **state)
{
    (void)state;
    struct eplb_shape shape = tables_shape(4, 2, 0);
    const int64_t measured[4] = {55, 40, 50, 45};
    assert_benefit(gate(&shape, crossed, contiguous, edge_load, measured, 0), 95, 100, -5 / 95.0, 1, 0);
}

static void one_hot_expert_split_four_ways_gains_three_quarters(void **state)
{
    (void)state;
    struct eplb_shape shape = tables_shape(8, 4, 1);
    const int64_t logical[8] = {1000};
    const int64_t physical[12] = {1000};
    int32_t initial[12];
    int32_t candidate[12];
    eplb_placement_initial(&shape, initial);
    plan_once("balanced", &shape, logical, initial, candidate);
    assert_benefit(gate(&shape, initial, candidate, logical, physical, 0.75), 1000, 250, 0.75, 1, 1);
}

/** The logical window may hold more than the physical one, which restarts at a commit. */
static void the_candidate_is_scaled_to_the_measured_total(void **state)
{
    (void)state;
    struct eplb_shape shape = tables_shape(4, 2, 0);
    const int64_t logical[4] = {220, 180, 200, 160};
    assert_benefit(gate(&shape, contiguous, crossed, logical, edge_load, 0.05), 100, 95, 0.05, 1, 1);
}

static void no_load_publishes_nothing_and_traps_nothing(void **state)
{
    (void)state;
    struct eplb_shape shape = tables_shape(4, 2, 0);
    const int64_t none[4] = {0};
    const int64_t some[4] = {5, 1, 1, 1};
    feclearexcept(FE_ALL_EXCEPT);
    feenableexcept(FE_DIVBYZERO | FE_INVALID | FE_OVERFLOW);
    assert_benefit(gate(&shape, contiguous, crossed, none, none, 0), 0, 0, 0, 1, 0);
    assert_benefit(gate(&shape, contiguous, crossed, some, none, 0), 0, 0, 0, 1, 0);
    assert_benefit(gate(&shape, contiguous, crossed, none, some, 0), 6, 0, 1, 1, 0);
    fedisableexcept(FE_ALL_EXCEPT);
}

static void the_largest_loads_do_not_overflow(void **state)
{
    (void)state;
    struct eplb_shape shape = tables_shape(256, 64, 1);
    static int64_t logical[256];
    static int64_t physical[320];
    int32_t active[320];
    int32_t candidate[320];
    for (int32_t expert = 0; expert < 256; expert++)
        logical[expert] = EPLB_MAX_LOAD;
    for (int32_t slot = 0; slot < 320; slot++)
        physical[slot] = EPLB_MAX_LOAD;
    eplb_placement_initial(&shape, active);
    plan_once("balanced", &shape, logical, active, candidate);
    /* 64 copies for 256 experts: a rank of the plan carries 3 experts and 2 halves, scaled by 320 / 256. */
    assert_benefit(gate(&shape, active, candidate, logical, physical, 0), 5 * 0x1p62, 5 * 0x1p62, 0, 1, 0);
}

/** Sums beyond 2^32, and one token more than a float can count to. */
static void long_lived_counts_keep_every_token(void **state)
{
    (void)state;
    struct eplb_shape shape = tables_shape(6, 2, 0);
    static const int32_t active[6] = {0, 1, 2, 3, 4, 5};
    static const int32_t candidate[6] = {0, 1, 5, 3, 4, 2};
    const int64_t wide[6] = {3000000000, 3000000000, 3000000000, 0, 0, 0};
    assert_benefit(gate(&shape, active, candidate, wide, wide, 0), 9e9, 6e9, 1 / 3.0, 1, 1);
    const int64_t fine[6] = {0, 16777216, 1, 0, 0, 16777216};
    assert_benefit(gate(&shape, active, candidate, fine, fine, 0), 16777217, 33554432, -16777215 / 16777217.0,
                   1, 0);
}

/* ---- against exact fractions ---- */

enum { PARTS = 840 }; /* divisible by every number of replicas up to 8 */

/** Largest rank sum of the even split, exactly, in units of 1/PARTS. */
static eplb_u128 exact_peak(const struct eplb_shape *shape, const int32_t *expert_ids, const int64_t *load)
{
    int32_t replicas[PLAN_MAX_EXPERTS];
    eplb_placement_replicas(shape, expert_ids, replicas);
    eplb_u128 peak = 0;
    for (int32_t rank = 0; rank < shape->ep_size; rank++) {
        eplb_u128 sum = 0;
        for (int32_t slot = 0; slot < shape->slots_per_rank; slot++) {
            int32_t expert = expert_ids[rank * shape->slots_per_rank + slot];
            sum += (eplb_u128)load[expert] * (eplb_u128)(PARTS / replicas[expert]);
        }
        peak = sum > peak ? sum : peak;
    }
    return peak;
}

static const int32_t small_shapes[][3] = {{8, 4, 1}, {8, 8, 3},  {12, 6, 5},
                                          {6, 3, 3}, {14, 7, 4}, {16, 4, 0}};

static struct eplb_shape small_shape(int run)
{
    const int32_t *sizes = small_shapes[(size_t)run % (sizeof small_shapes / sizeof *small_shapes)];
    return tables_shape(sizes[0], sizes[1], sizes[2]);
}

/** Loads so small that a peak in units of 2^-40 fits a double: the comparison is exact. */
static void the_candidate_peak_is_never_below_the_exact_one(void **state)
{
    (void)state;
    enum { RUNS = 10000 };
    const uint64_t seed = 20240608;
    printf("seed %" PRIu64 "\n", seed);
    struct eplb_prng prng;
    eplb_prng_seed(&prng, seed);
    int rounded = 0;
    for (int run = 0; run < RUNS; run++) {
        struct eplb_shape shape = small_shape(run);
        int32_t active[PLAN_MAX_SLOTS];
        int32_t candidate[PLAN_MAX_SLOTS];
        int64_t load[PLAN_MAX_EXPERTS];
        int64_t physical[PLAN_MAX_SLOTS];
        int32_t scratch[PLAN_MAX_EXPERTS];
        tables_random(&prng, &shape, active);
        tables_random(&prng, &shape, candidate);
        for (int32_t expert = 0; expert < shape.num_experts; expert++)
            load[expert] = (int64_t)eplb_prng_below(&prng, 500);
        eplb_split_evenly(&shape, active, load, scratch, physical);
        double got = gate(&shape, active, candidate, load, physical, 0).candidate_peak * 0x1p40;
        assert_true(got < 0x1p53 && got == floor(got));
        eplb_u128 exact = exact_peak(&shape, candidate, load) << 40;
        eplb_u128 units = (eplb_u128)(uint64_t)got * PARTS;
        assert_true(units >= exact);
        /* Each share is rounded up by less than one unit. */
        assert_true(units - exact < (eplb_u128)shape.slots_per_rank * PARTS);
        rounded += units > exact;
    }
    printf("%d of %d peaks were rounded\n", rounded, RUNS);
    assert_true(rounded > RUNS / 4);
}

/** With any loads, a plan whose exact peak is not below the measured one does not pass at threshold 0. */
static void zero_gain_never_passes(void **state)
{
    (void)state;
    enum { RUNS = 10000 };
    const uint64_t seed = 20240609;
    printf("seed %" PRIu64 "\n", seed);
    struct eplb_prng prng;
    eplb_prng_seed(&prng, seed);
    int published = 0;
    int without_gain = 0;
    for (int run = 0; run < RUNS; run++) {
        struct eplb_shape shape = small_shape(run);
        int32_t active[PLAN_MAX_SLOTS];
        int32_t candidate[PLAN_MAX_SLOTS];
        int64_t load[PLAN_MAX_EXPERTS];
        int64_t physical[PLAN_MAX_SLOTS];
        int32_t scratch[PLAN_MAX_EXPERTS];
        tables_random(&prng, &shape, active);
        tables_random(&prng, &shape, candidate);
        plan_random_load(&prng, &shape, INT64_C(1) << (10 + eplb_prng_below(&prng, 53)), load);
        eplb_split_evenly(&shape, active, load, scratch, physical);
        eplb_u128 measured = 0;
        for (int32_t rank = 0; rank < shape.ep_size; rank++) {
            eplb_u128 sum = 0;
            for (int32_t slot = 0; slot < shape.slots_per_rank; slot++)
                sum += (uint64_t)physical[rank * shape.slots_per_rank + slot];
            measured = sum > measured ? sum : measured;
        }
        struct eplb_benefit got = gate(&shape, active, candidate, load, physical, 0);
        eplb_u128 exact = exact_peak(&shape, candidate, load);
        assert_true(got.current_peak == (double)measured);
        if (exact >= measured * PARTS)
            assert_int_equal(got.publish, 0);
        else if (measured * PARTS - exact > measured / 1000000)
            assert_int_equal(got.publish, got.sets_changed);
        without_gain += exact >= measured * PARTS;
        published += got.publish;
    }
    printf("%d runs: %d published, %d without gain\n", RUNS, published, without_gain);
    assert_true(published > RUNS / 10 && without_gain > RUNS / 10);
}

/** Without a measurement the active placement counts with its exact even split, fractions and all. */
static void an_unmeasured_load_is_split_exactly(void **state)
{
    (void)state;
    static const int64_t fives[8] = {5, 5, 5, 5, 5, 5, 5, 5};
    static const int64_t odd[8] = {7, 1, 1, 1, 1, 1, 1, 1};
    static const int32_t active[12] = {0, 1, 2, 2, 3, 4, 4, 5, 6, 6, 7, 0};
    static const int32_t candidate[12] = {0, 1, 4, 5, 1, 0, 2, 3, 6, 3, 7, 2};
    struct eplb_shape shape = tables_shape(8, 4, 1);
    assert_benefit(gate(&shape, active, candidate, fives, NULL, 0), 10, 10, 0, 1, 0);
    assert_benefit(gate(&shape, active, candidate, odd, NULL, 0), 5, 5, 0, 1, 0);
}

static void unmeasured_gain_is_exact(void **state)
{
    (void)state;
    enum { RUNS = 10000 };
    const uint64_t seed = 20240610;
    printf("seed %" PRIu64 "\n", seed);
    struct eplb_prng prng;
    eplb_prng_seed(&prng, seed);
    int published = 0;
    int without_gain = 0;
    for (int run = 0; run < RUNS; run++) {
        struct eplb_shape shape = small_shape(run);
        int32_t active[PLAN_MAX_SLOTS];
        int32_t candidate[PLAN_MAX_SLOTS];
        int64_t load[PLAN_MAX_EXPERTS];
        tables_random(&prng, &shape, active);
        tables_random(&prng, &shape, candidate);
        plan_random_load(&prng, &shape, INT64_C(1) << (10 + eplb_prng_below(&prng, 53)), load);
        struct eplb_benefit got = gate(&shape, active, candidate, load, NULL, 0);
        eplb_u128 before = exact_peak(&shape, active, load);
        eplb_u128 after = exact_peak(&shape, candidate, load);
        assert_true(fabs(got.current_peak * PARTS - (double)before) <= 1e-9 * (double)before);
        if (after >= before)
            assert_int_equal(got.publish, 0);
        else if (before - after > before / 1000000)
            assert_int_equal(got.publish, got.sets_changed);
        without_gain += after >= before;
        published += got.publish;
    }
    printf("%d runs: %d published, %d without gain\n", RUNS, published, without_gain);
    assert_true(published > RUNS / 10 && without_gain > RUNS / 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equality_publishes),
        cmocka_unit_test(the_tolerance_is_relative),
        cmocka_unit_test(the_tolerance_is_a_billionth_of_the_threshold),
        cmocka_unit_test(an_unchanged_table_is_not_published),
        cmocka_unit_test(no_gain_is_not_published_at_threshold_zero),
        cmocka_unit_test(a_gain_of_rounding_only_is_none),
        cmocka_unit_test(a_worse_plan_is_not_published),
        cmocka_unit_test(one_hot_expert_split_four_ways_gains_three_quarters),
        cmocka_unit_test(the_candidate_is_scaled_to_the_measured_total),
        cmocka_unit_test(no_load_publishes_nothing_and_traps_nothing),
        cmocka_unit_test(the_largest_loads_do_not_overflow),
        cmocka_unit_test(long_lived_counts_keep_every_token),
        cmocka_unit_test(the_candidate_peak_is_never_below_the_exact_one),
        cmocka_unit_test(zero_gain_never_passes),
        cmocka_unit_test(an_unmeasured_load_is_split_exactly),
        cmocka_unit_test(unmeasured_gain_is_exact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
