/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/* The gate for routing that does not split evenly, and what a planner makes of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "eplb/policy.h"

#define UNIT EPLB_WEIGHT_UNIT

enum { SLOTS = 6, EXPERTS = 3 };

/* Three ranks of two slots. `ring` joins all ranks; `hot` has expert 0 everywhere. */
static const int32_t ring[SLOTS] = {0, 1, 1, 2, 2, 0};
static const int32_t hot[SLOTS] = {0, 1, 1, 0, 2, 0};
static const int64_t logical[EXPERTS] = {30, 9, 3};
static struct eplb_shape shape;
static void *scratch;

static int set_up(void **state)
{
    (void)state;
    assert_int_equal(eplb_shape_init(&shape, 1, EXPERTS, 3, 1, NULL), EPLB_OK);
    scratch = aligned_alloc(64, (eplb_gate_routed_scratch(&shape) + 63) / 64 * 64);
    return scratch == NULL;
}

static int tear_down(void **state)
{
    (void)state;
    free(scratch);
    return 0;
}

static struct eplb_benefit judge(enum eplb_replica_routing routing, const int32_t *weights,
                                 const int32_t *candidate, const int64_t *physical, double threshold)
{
    const struct eplb_gate_routing how = {routing, weights};
    return eplb_gate_routed(&shape, &how, ring, candidate, logical, physical, threshold, scratch);
}

static void static_and_local_are_the_plain_gate(void **state)
{
    (void)state;
    const int64_t physical[SLOTS] = {20, 3, 6, 1, 2, 10};
    int32_t replicas[EXPERTS];
    const struct eplb_benefit plain = eplb_gate(&shape, ring, hot, logical, physical, 0.05, replicas);
    for (int routing = EPLB_ROUTING_STATIC; routing <= EPLB_ROUTING_LOCAL; routing++) {
        const struct eplb_benefit benefit =
            judge((enum eplb_replica_routing)routing, NULL, hot, physical, 0.05);
        assert_memory_equal(&benefit, &plain, sizeof plain);
    }
}

static void weighted_judges_by_the_weights(void **state)
{
    (void)state;
    const int64_t physical[SLOTS] = {20, 3, 6, 1, 2, 10};
    /* 15 + 9/4 on rank 0, 27/4 + 15/2 on rank 1, 3 + 15/2 on rank 2. */
    const int32_t weights[SLOTS] = {UNIT / 2, UNIT / 4, UNIT / 4 * 3, UNIT / 4, UNIT, UNIT / 4};
    struct eplb_benefit benefit = judge(EPLB_ROUTING_WEIGHTED, weights, hot, physical, 0.05);
    assert_float_equal(benefit.current_peak, 23, 0);
    assert_float_equal(benefit.candidate_peak, 17.25, 0);
    assert_float_equal(benefit.improvement, 0.25, 0);
    assert_int_equal(benefit.publish, 1);
    assert_int_equal(judge(EPLB_ROUTING_WEIGHTED, weights, hot, physical, 0.25).publish, 1);
    assert_int_equal(judge(EPLB_ROUTING_WEIGHTED, weights, hot, physical, 0.26).publish, 0);
    /* Twice the tokens were measured. */
    const int64_t twice[SLOTS] = {40, 6, 12, 2, 4, 20};
    benefit = judge(EPLB_ROUTING_WEIGHTED, weights, hot, twice, 0.05);
    assert_float_equal(benefit.current_peak, 46, 0);
    assert_float_equal(benefit.candidate_peak, 34.5, 0);
    /* The same sets, in another order and better weights: nothing to migrate for. */
    assert_int_equal(
        judge(EPLB_ROUTING_WEIGHTED, weights, (int32_t[]){1, 0, 2, 1, 0, 2}, physical, 0).publish, 0);
}

static void what_new_weights_repair_is_not_migrated(void **state)
{
    (void)state;
    const enum eplb_replica_routing routings[] = {EPLB_ROUTING_ADAPTIVE, EPLB_ROUTING_BATCH};
    for (int i = 0; i < 2; i++) {
        /* Measured 39 on rank 0. The ring's best split is 15 (30 on two ranks), that of `hot` 14. */
        const int64_t bad[SLOTS] = {30, 9, 0, 0, 3, 0};
        struct eplb_benefit benefit = judge(routings[i], NULL, hot, bad, 0.05);
        assert_float_equal(benefit.current_peak, 15, 0);
        assert_float_equal(benefit.candidate_peak, 14, 1e-9);
        assert_int_equal(benefit.publish, 1);
        assert_int_equal(judge(routings[i], NULL, hot, bad, 0.07).publish, 0);
        /* Of 40 tokens 17 on rank 2: the ring's best is 15 of 42. Level ranks are better than that. */
        const int64_t good[SLOTS] = {14, 0, 9, 0, 3, 14};
        const int64_t level[SLOTS] = {14, 0, 9, 5, 3, 11};
        benefit = judge(routings[i], NULL, hot, good, 0);
        assert_float_equal(benefit.current_peak, 15.0 * 40 / 42, 1e-9);
        benefit = judge(routings[i], NULL, hot, level, 0);
        assert_float_equal(benefit.current_peak, 14, 0);
        assert_int_equal(benefit.publish, 0);
        /* Nobody has measured: the even split of the active placement. */
        benefit = judge(routings[i], NULL, hot, NULL, 0);
        assert_float_equal(benefit.current_peak, 15, 0);
        assert_int_equal(judge(routings[i], NULL, ring, bad, 0).publish, 0);
    }
}

static void no_load_publishes_nothing(void **state)
{
    (void)state;
    const int64_t none[SLOTS] = {0};
    const int32_t weights[SLOTS] = {UNIT / 2, UNIT / 2, UNIT / 2, UNIT / 4, UNIT, UNIT / 4};
    for (int routing = 0; routing < EPLB_NUM_ROUTINGS; routing++) {
        const struct eplb_gate_routing how = {(enum eplb_replica_routing)routing, weights};
        const struct eplb_benefit benefit = eplb_gate_routed(&shape, &how, ring, hot, none, none, 0, scratch);
        assert_float_equal(benefit.candidate_peak, 0, 0);
        assert_float_equal(benefit.improvement, 0, 0);
        assert_int_equal(benefit.publish, 0);
    }
}

/* ---- the planner ---- */

static struct {
    int32_t num_history, num_parts;
    int64_t history[4][EXPERTS], parts[4][EXPERTS];
} seen;

static size_t spy_scratch(const struct eplb_shape *of, const struct eplb_policy_settings *settings)
{
    (void)of;
    (void)settings;
    return 64;
}

static enum eplb_status spy(const struct eplb_policy_problem *problem, void *room,
                            struct eplb_policy_answer *answer, struct eplb_error *error)
{
    (void)room;
    (void)error;
    seen.num_history = problem->num_history;
    seen.num_parts = problem->num_parts;
    assert_int_equal(problem->history == NULL, problem->num_history == 0);
    for (int32_t i = 0; i < problem->num_history * EXPERTS; i++)
        seen.history[i / EXPERTS][i % EXPERTS] = problem->history[i];
    for (int32_t i = 0; i < problem->num_parts * EXPERTS; i++)
        seen.parts[i / EXPERTS][i % EXPERTS] = problem->parts[i];
    memcpy(answer->expert_ids, hot, sizeof hot);
    return EPLB_OK;
}

static const struct eplb_policy_ops spying = {
    .size = sizeof spying, .name = "spy", .scratch_size = spy_scratch, .plan_layer = spy};

static struct eplb_planner *make_planner(enum eplb_replica_routing routing)
{
    struct eplb_planner_params params;
    struct eplb_planner *planner;
    eplb_planner_params_init(&params);
    assert_int_equal(eplb_shape_init(&params.shape, 2, EXPERTS, 3, 1, NULL), EPLB_OK);
    params.ops = &spying;
    params.replica_routing = routing;
    assert_int_equal(eplb_planner_create(&params, &planner, NULL), EPLB_OK);
    return planner;
}

static void policies_see_history_and_parts_of_their_layer(void **state)
{
    (void)state;
    struct eplb_planner *planner = make_planner(EPLB_ROUTING_STATIC);
    const int64_t load[2 * EXPERTS] = {0, 0, 0, 30, 9, 3};
    const int64_t before[2][2 * EXPERTS] = {{9, 9, 9, 1, 2, 3}, {9, 9, 9, 4, 5, 6}};
    const int64_t piece[2 * EXPERTS] = {9, 9, 9, 7, 8, 9};
    struct eplb_planner_loads loads;
    eplb_planner_loads_init(&loads);
    loads.logical = load;
    loads.history[0] = before[0];
    loads.history[1] = before[1];
    loads.num_history = 2;
    loads.parts[0] = piece;
    loads.num_parts = 1;
    assert_int_equal(eplb_planner_plan(planner, &loads, NULL), EPLB_OK);
    assert_int_equal(seen.num_history, 2);
    assert_memory_equal(seen.history[0], before[0] + EXPERTS, sizeof seen.history[0]);
    assert_memory_equal(seen.history[1], before[1] + EXPERTS, sizeof seen.history[1]);
    assert_int_equal(seen.num_parts, 1);
    assert_memory_equal(seen.parts[0], piece + EXPERTS, sizeof seen.parts[0]);
    assert_int_equal(eplb_planner_rebalance(planner, load, NULL, NULL), EPLB_OK);
    assert_int_equal(seen.num_history + seen.num_parts, 0);

    struct eplb_error error;
    loads.num_parts = 17;
    assert_int_equal(eplb_planner_plan(planner, &loads, &error), EPLB_INVALID);
    assert_string_equal(error.text, "a policy run is told of 17 pieces of the window; allowed is 0 to 16");
    const int64_t negative[2 * EXPERTS] = {0, 0, 0, 0, -1, 0};
    loads.num_parts = 1;
    loads.history[1] = negative;
    assert_int_equal(eplb_planner_plan(planner, &loads, &error), EPLB_INVALID);
    assert_string_equal(error.text, "layer 1: load of expert 1 is -1; allowed is 0 to 2^62");
    eplb_planner_destroy(planner);
}

static void candidates_without_weights_get_those_that_the_routing_needs(void **state)
{
    (void)state;
    const int64_t load[2 * EXPERTS] = {30, 9, 3, 30, 9, 3};
    for (int routing = 0; routing < EPLB_NUM_ROUTINGS; routing++) {
        struct eplb_planner *planner = make_planner((enum eplb_replica_routing)routing);
        assert_int_equal(eplb_planner_rebalance(planner, load, NULL, NULL), EPLB_OK);
        const int32_t *weights = eplb_planner_weights(planner) + SLOTS;
        int32_t replicas[EXPERTS], equal[SLOTS];
        eplb_weights_equal(&shape, hot, replicas, equal);
        bool uses_weights = routing == EPLB_ROUTING_WEIGHTED || routing == EPLB_ROUTING_ADAPTIVE;
        assert_int_equal(memcmp(weights, equal, sizeof equal) != 0, uses_weights);
        assert_int_equal(eplb_weights_check(&shape, hot, weights, replicas, NULL), EPLB_OK);
        double peak = 0;
        for (int rank = 0; rank < 3; rank++) {
            double sum = 0;
            for (int slot = 2 * rank; slot < 2 * rank + 2; slot++)
                sum += (double)logical[hot[slot]] * weights[slot] / UNIT;
            peak = sum > peak ? sum : peak;
        }
        if (uses_weights)
            assert_float_equal(peak, 14, 0.001);
        eplb_planner_destroy(planner);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(static_and_local_are_the_plain_gate, set_up, tear_down),
        cmocka_unit_test_setup_teardown(weighted_judges_by_the_weights, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_new_weights_repair_is_not_migrated, set_up, tear_down),
        cmocka_unit_test_setup_teardown(no_load_publishes_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(policies_see_history_and_parts_of_their_layer, set_up, tear_down),
        cmocka_unit_test_setup_teardown(candidates_without_weights_get_those_that_the_routing_needs, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
