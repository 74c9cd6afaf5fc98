/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/*
 * What a placement comes to under every routing: known figures, and on random placements what the figures of
 * one have to do with each other.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <math.h>

#include "base/prng.h"
#include "cli/routed.h"
#include "support/tables.h"

enum { SEED = 20260711, ROUNDS = 200, EXPERTS = 24, RANKS = 6, SLOTS = 36 };

static struct eplb_routed open_routed(const struct eplb_shape *shape, enum eplb_replica_routing routing)
{
    struct eplb_routed routed = {0};
    struct eplb_error error;
    if (eplb_routed_init(&routed, shape, routing, &error) != EPLB_OK)
        fail_msg("%s", error.text);
    return routed;
}

/* 0 1 2 | 3 0 1 with loads 8, 16, 4 and 2: an even split is 16 | 14, the best one 15 | 15. */
static const int32_t table[6] = {0, 1, 2, 3, 0, 1};
static const int64_t loads[4] = {8, 16, 4, 2};
static const int32_t quarters[6] = {EPLB_WEIGHT_UNIT / 4, EPLB_WEIGHT_UNIT / 4 * 3, EPLB_WEIGHT_UNIT,
                                    EPLB_WEIGHT_UNIT,     EPLB_WEIGHT_UNIT / 4 * 3, EPLB_WEIGHT_UNIT / 4};

static void known_figures(void **state)
{
    static const double peaks[EPLB_NUM_ROUTINGS] = {16, 16, 18, 15, 15};
    const struct eplb_shape shape = tables_shape(4, 2, 1);
    (void)state;
    for (int routing = 0; routing < EPLB_NUM_ROUTINGS; routing++) {
        struct eplb_routed routed = open_routed(&shape, (enum eplb_replica_routing)routing);
        const struct eplb_routed_figures figures = eplb_routed_measure(&routed, table, quarters, loads);
        double ranks[2];
        assert_true(figures.peak == peaks[routing]);
        assert_true(figures.even.peak == 16 && figures.even.mean == 15);
        assert_true(figures.best.peak == 15 && figures.best.num_components == 1);
        assert_int_equal(routed.cut[0], 3);
        assert_true(eplb_routed_ratio(&routed, table, quarters, loads) == peaks[routing] / 15);
        eplb_routed_ranks(&routed, table, quarters, loads, ranks);
        assert_true(fabs(fmax(ranks[0], ranks[1]) - peaks[routing]) < 1e-4);
        assert_true(fabs(ranks[0] + ranks[1] - 30) < 1e-4);
        eplb_routed_free(&routed);
    }
}

static void no_load_has_no_ratio(void **state)
{
    static const int64_t none[4] = {0};
    const struct eplb_shape shape = tables_shape(4, 2, 1);
    (void)state;
    for (int routing = 0; routing < EPLB_NUM_ROUTINGS; routing++) {
        struct eplb_routed routed = open_routed(&shape, (enum eplb_replica_routing)routing);
        assert_true(eplb_routed_ratio(&routed, table, quarters, none) == 0);
        assert_true(eplb_routed_measure(&routed, table, NULL, none).peak == 0);
        eplb_routed_free(&routed);
    }
}

/** Without weights `weighted` is the even split. */
static void no_weights_are_equal_ones(void **state)
{
    const struct eplb_shape shape = tables_shape(4, 2, 1);
    struct eplb_routed routed = open_routed(&shape, EPLB_ROUTING_WEIGHTED);
    double ranks[2];
    (void)state;
    assert_true(eplb_routed_measure(&routed, table, NULL, loads).peak == 16);
    assert_true(eplb_routed_ratio(&routed, table, NULL, loads) == 16.0 / 15);
    eplb_routed_ranks(&routed, table, NULL, loads, ranks);
    assert_true(ranks[0] == 16 && ranks[1] == 14);
    eplb_routed_free(&routed);
}

/* Whole tokens: each slot's within one of its share, and all that the expert has; also of 2^62. */
static void a_split_keeps_every_token(void **state)
{
    struct eplb_prng prng;
    const struct eplb_shape shape = tables_shape(EXPERTS, RANKS, 2);
    struct eplb_routed routed = open_routed(&shape, EPLB_ROUTING_WEIGHTED);
    (void)state;
    eplb_prng_seed(&prng, SEED);
    for (int32_t round = 0; round < ROUNDS; round++) {
        int32_t ids[SLOTS];
        int64_t load[EXPERTS], physical[SLOTS], sums[EXPERTS] = {0};
        const uint64_t most = round % 2 == 0 ? 100 : (uint64_t)EPLB_MAX_LOAD;
        tables_random(&prng, &shape, ids);
        for (int32_t expert = 0; expert < EXPERTS; expert++)
            load[expert] = (int64_t)eplb_prng_below(&prng, most + 1);
        const struct eplb_routed_figures figures = eplb_routed_measure(&routed, ids, NULL, load);
        eplb_routed_split(&routed, ids, routed.weights, load, physical);
        for (int32_t slot = 0; slot < SLOTS; slot++) {
            const double share = (double)load[ids[slot]] * ((double)routed.weights[slot] / EPLB_WEIGHT_UNIT);
            if (fabs((double)physical[slot] - share) > 1 + share * 1e-12)
                fail_msg("seed %d, round %" PRId32 ", slot %" PRId32 ": %" PRId64 " tokens of %.17g", SEED,
                         round, slot, physical[slot], share);
            sums[ids[slot]] += physical[slot];
        }
        assert_memory_equal(sums, load, sizeof load);
        assert_true(figures.best.peak <= figures.even.peak * (1 + 1e-12));
        assert_true(figures.best.peak >= figures.even.mean * (1 - 1e-6));
    }
    eplb_routed_free(&routed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_figures),
        cmocka_unit_test(no_load_has_no_ratio),
        cmocka_unit_test(no_weights_are_equal_ones),
        cmocka_unit_test(a_split_keeps_every_token),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
