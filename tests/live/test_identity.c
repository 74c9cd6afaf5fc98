/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/*
 * What a run computes does not depend on where its experts are: with balancing and without, of every
 * policy, overlapped or not, the same samples to the last bit. And every slot holds what its table says.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "live/stage.h"
#include "support/tables.h"

enum { SEED = 20240520, MOST_RANKS = SANITIZED ? 8 : 16 };

static const char *const policies[] = {"balanced", "greedy"};

static void check_switches(const struct stage *stage)
{
    const struct eplb_run_outcome *outcome = &stage->outcome;
    const struct eplb_shape *shape = &stage->params.shape;
    print_message("%2d ranks, %s, overlap %d, decode only %d: %llu rounds, %llu layers switched, %llu slots "
                  "checked; peak / mean %.3f -> %.3f\n",
                  shape->ep_size, stage->params.policy->name, stage->params.overlap,
                  stage->params.decode_only_load, (unsigned long long)outcome->manager.rounds,
                  (unsigned long long)outcome->manager.layers_committed,
                  (unsigned long long)outcome->slots_checked, outcome->statistics.first_window.mean,
                  outcome->statistics.last_window.mean);
    assert_int_equal(outcome->statistics.forwards, stage->params.steps);
    assert_true(outcome->manager.layers_committed >= 2 && outcome->manager.rounds >= 2);
    assert_int_equal(outcome->manager.layers_aborted, 0);
    assert_int_equal(outcome->manager.samples_refused, 0);
    assert_int_equal(outcome->slots_checked, outcome->manager.layers_committed * (uint64_t)shape->num_layers *
                                                 (uint64_t)shape->num_slots);
}

/** Balancing on, with every slot checked; the digest must be that of the same run without it. */
static void compare(struct stage *stage, uint64_t digest)
{
    stage->params.verify = true;
    stage_run_well(stage);
    check_switches(stage);
    assert_int_equal(stage->outcome.statistics.digest, digest);
}

static uint64_t run_without(struct stage *stage)
{
    stage_turn_off(stage);
    stage_run_well(stage);
    assert_true(stage->outcome.statistics.tokens > 0);
    assert_int_equal(stage->outcome.manager.layers_committed, 0);
    uint64_t digest = stage->outcome.statistics.digest;
    stage_close(stage);
    return digest;
}

static void check_variants(int32_t ranks)
{
    struct shm_place place;
    shm_place_open(&place);
    uint64_t digest = run_without(stage_open(&place, "identity", ranks));
    for (int variant = 0; variant < 8; variant++) {
        struct stage *stage = stage_open(&place, "identity", ranks);
        stage->params.policy = eplb_policy_find(policies[variant & 1]).ops;
        stage->params.overlap = variant >> 1 & 1;
        stage->params.decode_only_load = variant >> 2 & 1;
        compare(stage, digest);
        stage_close(stage);
    }
    shm_place_close(&place);
}

static void test_2_ranks(void **state)
{
    (void)state;
    check_variants(2);
}

static void test_4_ranks(void **state)
{
    (void)state;
    check_variants(4);
}

static void test_8_ranks(void **state)
{
    (void)state;
    check_variants(8);
}

static void test_16_ranks(void **state)
{
    (void)state;
    if (MOST_RANKS < 16) {
        print_message("left out: 16 processes with a sanitizer are too much\n");
        skip();
    }
    check_variants(16);
}

/* ---- replica routings ---- */

/** A quarter and three quarters for the two replicas of an expert, in every layer. */
static void weigh_unevenly(const struct eplb_shape *shape, const int32_t *tables, int32_t *weights)
{
    int32_t seen[64];
    assert_in_range(shape->num_experts, 1, 64);
    for (int32_t layer = 0; layer < shape->num_layers; layer++) {
        const int32_t *table = tables + (size_t)layer * (size_t)shape->num_slots;
        int32_t *row = weights + (size_t)layer * (size_t)shape->num_slots;
        eplb_weights_equal(shape, table, seen, row);
        memset(seen, 0, sizeof seen);
        for (int32_t slot = 0; slot < shape->num_slots; slot++)
            if (row[slot] == EPLB_WEIGHT_UNIT / 2)
                row[slot] += seen[table[slot]]++ == 0 ? -EPLB_WEIGHT_UNIT / 4 : EPLB_WEIGHT_UNIT / 4;
    }
}

/* Layers switch, and with adaptive weights change meanwhile; whether they do is for other tests to say. */
static void check_replica_routing(const struct shm_place *place, int32_t ranks, int variant, uint64_t digest)
{
    static const int32_t nodes[8] = {0, 0, 1, 1, 2, 2, 3, 3};
    struct stage *stage = stage_open(place, "identity", ranks);
    struct eplb_run_params *params = &stage->params;
    int32_t *weights =
        calloc((size_t)params->shape.num_layers * (size_t)params->shape.num_slots, sizeof *weights);
    assert_non_null(weights);
    weigh_unevenly(&params->shape, stage->initial, weights);
    params->replica_routing = (enum eplb_replica_routing)(variant % EPLB_NUM_ROUTINGS);
    params->overlap = variant / EPLB_NUM_ROUTINGS;
    params->decode_only_load = variant % 2;
    params->cost_per_active_slot = 3 * params->overlap;
    params->node_of_rank = nodes;
    params->initial_weights = weights;
    params->verify = true;
    stage_run_well(stage);
    print_message("%d ranks, %s, overlap %d: %llu layers switched; peak / mean %.3f -> %.3f\n", ranks,
                  eplb_replica_routing_name(params->replica_routing), params->overlap,
                  (unsigned long long)stage->outcome.manager.layers_committed,
                  stage->outcome.statistics.first_window.mean, stage->outcome.statistics.last_window.mean);
    assert_int_equal(stage->outcome.statistics.digest, digest);
    assert_int_equal(stage->outcome.manager.layers_aborted, 0);
    assert_int_equal(stage->outcome.manager.samples_refused, 0);
    assert_true(stage->outcome.statistics.routing_path_ns > 0);
    free(weights);
    stage_close(stage);
}

/** Every routing, from the first variant on: those from EPLB_NUM_ROUTINGS on overlap. */
static void check_replica_routings(int32_t ranks, int first)
{
    struct shm_place place;
    shm_place_open(&place);
    uint64_t digest = run_without(stage_open(&place, "identity", ranks));
    for (int variant = first; variant < 2 * EPLB_NUM_ROUTINGS; variant++)
        check_replica_routing(&place, ranks, variant, digest);
    shm_place_close(&place);
}

static void test_replica_routings_of_4_ranks(void **state)
{
    (void)state;
    check_replica_routings(4, 0);
}

static void test_replica_routings_of_8_ranks(void **state)
{
    (void)state;
    check_replica_routings(8, EPLB_NUM_ROUTINGS);
}

/* ---- other runs, each compared with itself without balancing ---- */

static void check_with(void (*change)(struct stage *stage))
{
    struct shm_place place;
    shm_place_open(&place);
    struct stage *stage = stage_open(&place, "identity", 4);
    change(stage);
    uint64_t digest = run_without(stage);
    stage = stage_open(&place, "identity", 4);
    change(stage);
    compare(stage, digest);
    stage_close(stage);
    shm_place_close(&place);
}

static void follow_the_router(struct stage *stage)
{
    stage->params.routing = EPLB_ROUTING_MODEL;
    stage->params.skew_phases = 0;
    stage->params.skew_rates = NULL;
    stage->params.skew_period = 0;
}

static void test_the_routers_own_choice(void **state)
{
    (void)state;
    check_with(follow_the_router);
}

static void leave_three_empty(struct stage *stage)
{
    stage->params.busy_ranks = 1;
}

static void test_empty_ranks(void **state)
{
    (void)state;
    check_with(leave_three_empty);
}

static void leave_out_the_shared_expert(struct stage *stage)
{
    stage->params.model.shared_hidden_size = 0;
}

static void test_no_shared_expert(void **state)
{
    (void)state;
    check_with(leave_out_the_shared_expert);
}

/* The weights of a table that is given must be in its slots before the first forward: the workers check
 * that, too, with verify. */
static void test_a_given_placement(void **state)
{
    (void)state;
    struct shm_place place;
    struct eplb_prng prng;
    shm_place_open(&place);
    eplb_prng_seed(&prng, SEED);
    print_message("seed %d\n", SEED);
    uint64_t digest = run_without(stage_open(&place, "identity", 4));
    struct stage *stage = stage_open(&place, "identity", 4);
    const struct eplb_shape *shape = &stage->params.shape;
    for (int32_t layer = 0; layer < shape->num_layers; layer++)
        tables_random(&prng, shape, stage->initial + (size_t)layer * (size_t)shape->num_slots);
    compare(stage, digest);
    stage_close(stage);
    shm_place_close(&place);
}

int main(int argc, char **argv)
{
    stage_main(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_2_ranks),
        cmocka_unit_test(test_4_ranks),
        cmocka_unit_test(test_8_ranks),
        cmocka_unit_test(test_16_ranks),
        cmocka_unit_test(test_replica_routings_of_4_ranks),
        cmocka_unit_test(test_replica_routings_of_8_ranks),
        cmocka_unit_test(test_the_routers_own_choice),
        cmocka_unit_test(test_empty_ranks),
        cmocka_unit_test(test_no_shared_expert),
        cmocka_unit_test(test_a_given_placement),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
