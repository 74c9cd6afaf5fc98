/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * The even split, its peak, and what no placement can get below.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/wide.h"
#include "support/tables.h"
#include "unit/policy/plan.h"
#include "unit/policy/twin.h"

static const int64_t l1[12] = {90, 132, 40, 61, 104, 165, 39, 4, 73, 56, 183, 86};
static const int64_t l2[12] = {20, 107, 104, 64, 19, 197, 187, 157, 172, 86, 16, 27};

static struct eplb_balance balance(const struct eplb_shape *shape, const int32_t *expert_ids,
                                   const int64_t *load)
{
    int32_t scratch[PLAN_MAX_EXPERTS];
    return eplb_balance_of(shape, expert_ids, load, scratch);
}

static void assert_balance(const struct eplb_shape *shape, const int64_t *load, double peak, double mean,
                           double lower_bound)
{
    int32_t initial[PLAN_MAX_SLOTS];
    eplb_placement_initial(shape, initial);
    struct eplb_balance got = balance(shape, initial, load);
    if (got.peak != peak || got.mean != mean || got.lower_bound != lower_bound)
        fail_msg("peak %.17g, mean %.17g, lower bound %.17g", got.peak, got.mean, got.lower_bound);
}

static void a_contiguous_split_has_its_rank_sums(void **state)
{
    (void)state;
    struct eplb_shape shape = tables_shape(12, 4, 0);
    assert_balance(&shape, l1, 330, 258.25, 258.25);
    assert_balance(&shape, l2, 516, 289, 289);
}

/** Initial placement with one redundant slot: experts 0, 3, 6 and 9 have two replicas. */
static void a_replica_carries_its_share(void **state)
{
    (void)state;
    struct eplb_shape shape = tables_shape(12, 4, 1);
    assert_balance(&shape, l1, 342, 258.25, 258.25); /* rank 3: 28 + 183 + 86 + 45 */
    assert_balance(&shape, l2, 465.5, 289, 289);     /* rank 2: 93.5 + 157 + 172 + 43 */
}

static void the_lower_bound_knows_the_hottest_expert(void **state)
{
    (void)state;
    struct eplb_shape shape = tables_shape(4, 2, 0);
    const int64_t one_hot[4] = {100, 1, 1, 0};
    assert_balance(&shape, one_hot, 101, 51, 100);
    shape = tables_shape(4, 2, 1);
    assert_balance(&shape, one_hot, 51.5, 51, 51);
    /* Four ranks, one copy each: three replicas of 300 are 100 each, and 90 has one. */
    shape = tables_shape(4, 4, 1);
    const int64_t two_hot[4] = {900, 90, 1, 1};
    assert_balance(&shape, two_hot, 495, 248, 248);
    shape = tables_shape(6, 6, 0);
    const int64_t flat[6] = {0};
    assert_balance(&shape, flat, 0, 0, 0);
}

static void the_largest_loads_add_up(void **state)
{
    (void)state;
    struct eplb_shape shape = tables_shape(256, 64, 1);
    int64_t load[256];
    for (int32_t expert = 0; expert < 256; expert++)
        load[expert] = EPLB_MAX_LOAD;
    /* Three experts of their own and two halves; the mean is four. */
    assert_balance(&shape, load, 4 * 0x1p62, 4 * 0x1p62, 4 * 0x1p62);
}

/**
 * Every expert on every rank, so that each rank carries the mean; but a 17th of a token is no whole
 * number of units, and shares rounded down would add up to less.
 */
static void a_peak_of_many_replicas_is_not_below_the_mean(void **state)
{
    (void)state;
    enum { FEWEST = 17, MOST = 31 };
    const double unit = 1 / (720720 * 0x1p20);
    for (int32_t ranks = FEWEST; ranks <= MOST; ranks++) {
        struct eplb_shape shape = tables_shape(ranks, ranks, ranks - 1);
        int32_t initial[MOST * MOST];
        int64_t load[MOST] = {2};
        for (int32_t expert = 1; expert < ranks; expert++)
            load[expert] = 1;
        eplb_placement_initial(&shape, initial);
        struct eplb_balance got = balance(&shape, initial, load);
        if (!(got.mean <= got.peak && got.peak - got.mean <= MOST * unit))
            fail_msg("%d ranks: mean %.17g, peak %.17g", ranks, got.mean, got.peak);
        assert_true(fabs(got.mean - (ranks + 1) / (double)ranks) <= unit);
    }
}

static void the_lower_bound_is_never_above_the_peak(void **state)
{
    (void)state;
    enum { RUNS = 4500 };
    static const int32_t shapes[][3] = {{8, 4, 1},  {12, 3, 5},  {8, 8, 7},  {17, 17, 16}, {19, 19, 18},
                                        {16, 4, 0}, {23, 23, 4}, {64, 8, 1}, {9, 3, 4}};
    const uint64_t seed = 20240605;
    printf("seed %" PRIu64 "\n", seed);
    struct eplb_prng prng;
    eplb_prng_seed(&prng, seed);
    for (int run = 0; run < RUNS; run++) {
        const int32_t *sizes = shapes[(size_t)run % (sizeof shapes / sizeof *shapes)];
        struct eplb_shape shape = tables_shape(sizes[0], sizes[1], sizes[2]);
        int32_t table[PLAN_MAX_SLOTS];
        int64_t load[PLAN_MAX_EXPERTS];
        tables_random(&prng, &shape, table);
        plan_random_load(&prng, &shape, EPLB_MAX_LOAD, load);
        struct eplb_balance got = balance(&shape, table, load);
        if (!(got.mean <= got.lower_bound && got.lower_bound <= got.peak))
            fail_msg("run %d, %d experts, %d ranks: mean %.17g, lower bound %.17g, peak %.17g", run, sizes[0],
                     sizes[1], got.mean, got.lower_bound, got.peak);
    }
}

/* ---- the smallest possible largest replica, by trying everything ---- */

struct fraction {
    int64_t over;
    int32_t under;
};

static int larger(struct fraction a, struct fraction b)
{
    return (eplb_u128)a.over * (eplb_u128)b.under > (eplb_u128)b.over * (eplb_u128)a.under;
}

/** Gives the experts from `expert` on every allowed number of replicas; keeps the best largest one. */
static void try_all(const struct eplb_shape *shape, const int64_t *load, int32_t expert, int32_t slots_left,
                    struct fraction largest, struct fraction *best)
{
    if (expert == shape->num_experts) {
        if (slots_left == 0 && larger(*best, largest))
            *best = largest;
        return;
    }
    for (int32_t replicas = 1; replicas <= shape->ep_size && replicas <= slots_left; replicas++) {
        struct fraction replica = {load[expert], replicas};
        try_all(shape, load, expert + 1, slots_left - replicas, larger(replica, largest) ? replica : largest,
                best);
    }
}

static void the_lower_bound_is_the_smallest_largest_replica(void **state)
{
    (void)state;
    enum { RUNS = 3000 };
    static const int32_t shapes[][3] = {{2, 2, 0}, {2, 2, 1}, {4, 2, 1}, {4, 4, 1},
                                        {4, 4, 3}, {6, 3, 1}, {5, 5, 1}, {6, 2, 2}};
    const uint64_t seed = 20240606;
    printf("seed %" PRIu64 "\n", seed);
    struct eplb_prng prng;
    eplb_prng_seed(&prng, seed);
    int by_replica = 0;
    for (int run = 0; run < RUNS; run++) {
        const int32_t *sizes = shapes[(size_t)run % (sizeof shapes / sizeof *shapes)];
        struct eplb_shape shape = tables_shape(sizes[0], sizes[1], sizes[2]);
        int32_t table[PLAN_MAX_SLOTS];
        int64_t load[PLAN_MAX_EXPERTS];
        tables_random(&prng, &shape, table);
        plan_random_load(&prng, &shape, EPLB_MAX_LOAD, load);
        load[0] = eplb_prng_below(&prng, 2) == 0 ? load[0] : load[0] / 4 + EPLB_MAX_LOAD / 4 * 3;
        struct fraction best = {INT64_MAX, 1};
        try_all(&shape, load, 0, shape.num_slots, (struct fraction){0, 1}, &best);
        struct eplb_balance got = balance(&shape, table, load);
        double replica = (double)best.over / best.under;
        double expected = replica > got.mean ? replica : got.mean;
        by_replica += replica > got.mean;
        if (fabs(got.lower_bound - expected) > 1e-12 * expected)
            fail_msg("run %d: lower bound %.17g, expected %.17g", run, got.lower_bound, expected);
    }
    printf("%d of %d bounds are a replica\n", by_replica, RUNS);
    assert_true(by_replica > RUNS / 10 && by_replica < RUNS);
}

/** Copying the largest replica, again and again, makes the largest one as small as it can be. */
static void the_lower_bound_is_that_of_copying_the_largest_replica(void **state)
{
    (void)state;
    enum { RUNS = 10000 };
    static const int32_t shapes[][3] = {{8, 8, 1},  {12, 4, 0},  {12, 4, 1},  {17, 17, 1},
                                        {64, 8, 1}, {64, 64, 0}, {31, 31, 2}, {128, 32, 4}};
    const uint64_t seed = 20240613;
    printf("seed %" PRIu64 "\n", seed);
    struct eplb_prng prng;
    eplb_prng_seed(&prng, seed);
    for (int run = 0; run < RUNS; run++) {
        const int32_t *sizes = shapes[(size_t)run % (sizeof shapes / sizeof *shapes)];
        struct eplb_shape shape = tables_shape(sizes[0], sizes[1], sizes[2]);
        int32_t initial[PLAN_MAX_SLOTS];
        int32_t replicas[PLAN_MAX_EXPERTS];
        int32_t chosen[PLAN_MAX_SLOTS];
        int64_t load[PLAN_MAX_EXPERTS];
        eplb_placement_initial(&shape, initial);
        plan_random_load(&prng, &shape, EPLB_MAX_LOAD, load);
        /* The steeper the load, the closer the bound of the replicas comes to the mean. */
        uint64_t heads = eplb_prng_below(&prng, (uint64_t)shape.num_experts) + 1;
        for (int32_t expert = 0; expert < shape.num_experts; expert++)
            load[expert] >>= (uint64_t)expert < heads ? 0 : 40;
        load[0] += load[0] == 0;
        twin_copies(&shape, TWIN_LARGEST_REPLICA, load, replicas, chosen);
        struct eplb_balance got = balance(&shape, initial, load);
        double expected = got.mean;
        for (int32_t expert = 0; expert < shape.num_experts; expert++)
            expected = fmax(expected, (double)load[expert] / replicas[expert]);
        if (fabs(got.lower_bound - expected) > 2e-12 * (1 + expected))
            fail_msg("run %d: lower bound %.17g, expected %.17g", run, got.lower_bound, expected);
    }
}

/* ---- the integral even split ---- */

static void the_rest_goes_to_the_first_replicas(void **state)
{
    (void)state;
    static const int32_t ids[] = {0, 1, 1, 0, 2, 0, 3, 7, 4, 2, 5, 3, 6, 4, 7, 5};
    static const int64_t load[8] = {11, 7, 0, 1, 4, 5, EPLB_MAX_LOAD, EPLB_MAX_LOAD - 1};
    static const int64_t expected[16] = {
        4, 4, 3, 4, 0, 3, 1, EPLB_MAX_LOAD / 2, 2, 0, 3, 0, EPLB_MAX_LOAD, 2, EPLB_MAX_LOAD / 2 - 1, 2};
    struct eplb_shape shape = tables_shape(8, 8, 1);
    int32_t scratch[8];
    int64_t physical[16];
    eplb_split_evenly(&shape, ids, load, scratch, physical);
    for (int32_t slot = 0; slot < 16; slot++)
        assert_int_equal(physical[slot], expected[slot]);
}

static void a_split_keeps_every_total(void **state)
{
    (void)state;
    enum { RUNS = 2000 };
    const uint64_t seed = 20240607;
    printf("seed %" PRIu64 "\n", seed);
    struct eplb_prng prng;
    eplb_prng_seed(&prng, seed);
    struct eplb_shape shape = tables_shape(12, 6, 4);
    for (int run = 0; run < RUNS; run++) {
        int32_t table[36];
        int32_t scratch[12];
        int64_t load[12];
        int64_t physical[36];
        tables_random(&prng, &shape, table);
        plan_random_load(&prng, &shape, EPLB_MAX_LOAD, load);
        eplb_split_evenly(&shape, table, load, scratch, physical);
        for (int32_t expert = 0; expert < 12; expert++) {
            int64_t sum = 0;
            int64_t first = -1;
            int64_t last = -1;
            for (int32_t slot = 0; slot < 36; slot++) {
                if (table[slot] != expert)
                    continue;
                first = first < 0 ? physical[slot] : first;
                assert_true(last < 0 || physical[slot] <= last);
                last = physical[slot];
                sum += last;
            }
            assert_int_equal(sum, load[expert]);
            assert_true(first - last <= 1);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_contiguous_split_has_its_rank_sums),
        cmocka_unit_test(a_replica_carries_its_share),
        cmocka_unit_test(the_lower_bound_knows_the_hottest_expert),
        cmocka_unit_test(the_largest_loads_add_up),
        cmocka_unit_test(a_peak_of_many_replicas_is_not_below_the_mean),
        cmocka_unit_test(the_lower_bound_is_never_above_the_peak),
        cmocka_unit_test(the_lower_bound_is_the_smallest_largest_replica),
        cmocka_unit_test(the_lower_bound_is_that_of_copying_the_largest_replica),
        cmocka_unit_test(the_rest_goes_to_the_first_replicas),
        cmocka_unit_test(a_split_keeps_every_total),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
