/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/* A manager that rebalances without a pause, over traffic of every kind and with faults on the way. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/prng.h"
#include "e2e/engine.h"

enum { FORWARDS = 1000, SEED = 7 };

static bool chance(struct eplb_prng *prng, uint64_t in)
{
    return eplb_prng_below(prng, in) == 0;
}

/* ---- every kind of forward, and losses ---- */

static enum engine_traffic draw_traffic(struct eplb_prng *prng)
{
    return chance(prng, 4) ? (enum engine_traffic)eplb_prng_below(prng, ENGINE_TRAFFICS) : ENGINE_DECODE;
}

static enum engine_fate draw_fate(struct eplb_prng *prng)
{
    return !chance(prng, 12) ? ENGINE_DELIVERED : chance(prng, 2) ? ENGINE_LOST : ENGINE_REPEATED;
}

static void set_faults(struct engine *engine, struct eplb_prng *prng)
{
    int32_t rank = (int32_t)eplb_prng_below(prng, (uint64_t)team_shape(engine_team(engine))->ep_size);
    struct standin *model = team_model(engine_team(engine), rank);
    struct standin_fault fault = {.mood = chance(prng, 20) ? STANDIN_FAILS : STANDIN_WORKS,
                                  .delay_ns = (int64_t)eplb_prng_below(prng, 100000)};
    standin_set_fault(model, chance(prng, 2) ? STANDIN_PREPARE : STANDIN_START, fault);
    engine_set_fate(engine, rank, draw_fate(prng));
}

static void run_mixture(int32_t overlap)
{
    struct engine_params params;
    struct eplb_prng prng;
    engine_params_init(&params);
    params.team.overlap = overlap;
    params.team.jitter_ns = 20000;
    print_message("seed %d\n", SEED);
    eplb_prng_seed(&prng, SEED + (uint64_t)overlap);
    struct engine *engine = engine_create(&params);
    for (int32_t i = 0; i < FORWARDS; i++) {
        set_faults(engine, &prng);
        if (chance(&prng, 20))
            engine_drop(engine, draw_traffic(&prng));
        else
            engine_forward(engine, draw_traffic(&prng));
    }
    struct eplb_manager_status status = engine_status(engine);
    print_message("%d rounds, %d layers switched, %d given up\n", (int)status.rounds,
                  (int)status.layers_committed, (int)status.layers_aborted);
    assert_true(status.layers_committed > 10);
    assert_true(status.layers_aborted > 0);
    assert_true(status.samples_lacking > 0);
    assert_int_equal(status.samples_refused, 0);
    for (int32_t rank = 0; rank < params.team.shape.ep_size; rank++)
        engine_set_fate(engine, rank, ENGINE_DELIVERED);
    engine_settle(engine);
    engine_destroy(engine);
}

static void test_mixture(void **state)
{
    (void)state;
    run_mixture(0);
}

static void test_mixture_with_overlap(void **state)
{
    (void)state;
    run_mixture(1);
}

/* ---- B36: ten layers, a round after every forward ---- */

static void test_rebalancing_without_an_interval(void **state)
{
    (void)state;
    enum { LAYERS = 10 };
    struct engine_params params;
    engine_params_init(&params);
    assert_int_equal(eplb_shape_init(&params.team.shape, LAYERS, 16, 4, 1, NULL), EPLB_OK);
    params.manager.min_peak_load_improvement = 0;
    struct engine *engine = engine_create(&params);
    for (int32_t i = 0; i < FORWARDS; i++)
        engine_forward(engine, ENGINE_DECODE);
    struct eplb_manager_status status = engine_status(engine);
    print_message("%d policy runs, %d layers switched\n", (int)status.policy_runs,
                  (int)status.layers_committed);
    /* One run takes at least one new sample: the manager does not turn in circles. */
    assert_in_range(status.policy_runs, 10, FORWARDS);
    assert_int_equal(status.layers_aborted, 0);
    engine_settle(engine);
    uint64_t least = UINT64_MAX;
    uint64_t most = 0;
    for (int32_t layer = 0; layer < LAYERS; layer++) {
        uint64_t generation = eplb_manager_placement(engine_manager(engine), layer, NULL);
        least = generation < least ? generation : least;
        most = generation > most ? generation : most;
    }
    assert_true(least >= 3);
    assert_true(most <= 4 * least);
    engine_destroy(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mixture),
        cmocka_unit_test(test_mixture_with_overlap),
        cmocka_unit_test(test_rebalancing_without_an_interval),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
