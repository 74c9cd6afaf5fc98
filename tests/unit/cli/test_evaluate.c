/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "cli/evaluate.h"

enum { LAYERS = 2, EXPERTS = 4, RANKS = 2, SLOTS = 3 };

/* The initial placement is 0 1 2 | 2 3 0 in both layers. */
static const int64_t morning[LAYERS * EXPERTS] = {10, 0, 7, 3, 1, 2, 3, 4};
static const int64_t evening[LAYERS * EXPERTS] = {0, 20, 0, 0, 5, 5, 5, 5};
static const int64_t silent[LAYERS * EXPERTS] = {0};

static struct eplb_evaluator_params params_of(const char *policy)
{
    struct eplb_evaluator_params params = {.plans = true};
    struct eplb_error error = {0};
    eplb_planner_params_init(&params.planner);
    assert_int_equal(eplb_shape_init(&params.planner.shape, LAYERS, EXPERTS, RANKS, 1, &error), EPLB_OK);
    params.planner.ops = eplb_policy_find(policy).ops;
    return params;
}

static struct eplb_evaluator *create(const struct eplb_evaluator_params *params)
{
    struct eplb_evaluator *evaluator = NULL;
    struct eplb_error error = {0};
    if (eplb_evaluator_create(params, &evaluator, &error) != EPLB_OK)
        fail_msg("%s", error.text);
    return evaluator;
}

static struct eplb_evaluation step(struct eplb_evaluator *evaluator, const int64_t *window,
                                   const int64_t *next)
{
    struct eplb_evaluation evaluation;
    struct eplb_planner_loads loads;
    struct eplb_error error = {0};
    eplb_planner_loads_init(&loads);
    loads.logical = window;
    if (eplb_evaluator_step(evaluator, &loads, next, &evaluation, &error) != EPLB_OK)
        fail_msg("%s", error.text);
    return evaluation;
}

static void check(double found, double expected)
{
    if (fabs(found - expected) > 1e-15)
        fail_msg("%.17g instead of %.17g", found, expected);
}

/** As near as weights, which are rounded, can be. */
static void check_near(double found, double expected)
{
    if (fabs(found - expected) > 8)
        fail_msg("%.17g instead of %.17g", found, expected);
}

static void check_score(const struct eplb_score *score, int32_t layers, double mean, double worst)
{
    assert_int_equal(score->layers, layers);
    check(score->mean, mean);
    check(score->worst, worst);
}

static void check_slots(struct eplb_evaluator *evaluator, int32_t layer, const int32_t *slots)
{
    const int32_t *active = eplb_evaluator_active(evaluator) + layer * RANKS * SLOTS;
    assert_memory_equal(active, slots, RANKS * SLOTS * sizeof *slots);
}

/**
 * Layer 0: the copies go to 0 and 2, as they lie; the candidate's peak is the current 11.5 of a mean of 10,
 * so it stays. Layer 1: copies of 3 and 2, 3 1 2 | 2 3 0 with 5.5 and 4.5 instead of 4 and 6.
 */
static void a_plan_is_scored_on_the_next_window(void **state)
{
    (void)state;
    struct eplb_evaluator_params params = params_of("balanced");
    struct eplb_evaluator *evaluator = create(&params);
    struct eplb_evaluation found = step(evaluator, morning, evening);
    check_score(&found.same, 2, (1.15 + 1.1) / 2, 1.15);
    /* Layer 0: all 20 tokens go to the one slot of expert 1. Layer 1: 2.5 + 5 + 2.5 on both ranks. */
    check_score(&found.next, 2, 1.5, 2);
    check_score(&found.initial, 2, 1.5, 2);
    assert_int_equal(found.published, 1);
    assert_int_equal(found.moved, 1);
    assert_int_equal(found.from_other_ranks, 1);
    check_slots(evaluator, 0, (const int32_t[]){0, 1, 2, 2, 3, 0});
    check_slots(evaluator, 1, (const int32_t[]){3, 1, 2, 2, 3, 0});
    eplb_evaluator_destroy(evaluator);
}

/**
 * From the evening on: layer 0 copies 1 and 0, 0 1 2 | 1 3 0, 10 on each rank. Back in the morning this has
 * 5 + 0 + 7 = 12 instead of 11.5; layer 1 has what the morning gave it, 5.5 of 5, and not the 6 of the start.
 */
static void the_next_plan_starts_from_what_is_active(void **state)
{
    (void)state;
    struct eplb_evaluator_params params = params_of("balanced");
    struct eplb_evaluator *evaluator = create(&params);
    step(evaluator, morning, evening);
    struct eplb_evaluation found = step(evaluator, evening, morning);
    check_score(&found.same, 2, 1, 1);
    check_score(&found.next, 2, (1.2 + 1.1) / 2, 1.2);
    check_score(&found.initial, 2, (1.15 + 1.2) / 2, 1.2);
    assert_int_equal(found.published, 1);
    assert_int_equal(found.moved, 1);
    assert_int_equal(found.from_other_ranks, 1);
    check_slots(evaluator, 0, (const int32_t[]){0, 1, 2, 1, 3, 0});
    eplb_evaluator_destroy(evaluator);
}

/** The gate's threshold of 0.1 is above layer 1's gain of 0.5 / 6. */
static void what_the_gate_keeps_does_not_score(void **state)
{
    (void)state;
    struct eplb_evaluator_params params = params_of("balanced");
    params.planner.min_peak_load_improvement = 0.1;
    struct eplb_evaluator *evaluator = create(&params);
    struct eplb_evaluation found = step(evaluator, morning, morning);
    check_score(&found.same, 2, (1.15 + 1.1) / 2, 1.15);
    check_score(&found.next, 2, (1.15 + 1.2) / 2, 1.2);
    assert_int_equal(found.published, 0);
    assert_int_equal(found.moved, 0);
    eplb_evaluator_destroy(evaluator);
}

/** Greedy does not keep slots: 2 1 3 | 3 0 2 of layer 1 changes five, and only 3 comes from another rank. */
static void slots_of_the_same_rank_count_apart(void **state)
{
    (void)state;
    struct eplb_evaluator_params params = params_of("greedy");
    struct eplb_evaluator *evaluator = create(&params);
    struct eplb_evaluation found = step(evaluator, morning, evening);
    check_score(&found.same, 2, (1.15 + 1.1) / 2, 1.15);
    assert_int_equal(found.published, 1);
    assert_int_equal(found.moved, 5);
    assert_int_equal(found.from_other_ranks, 1);
    check_slots(evaluator, 1, (const int32_t[]){2, 1, 3, 3, 0, 2});
    eplb_evaluator_destroy(evaluator);
}

static void a_layer_without_load_has_no_score(void **state)
{
    (void)state;
    static const int64_t half[LAYERS * EXPERTS] = {0, 0, 0, 0, 1, 2, 3, 4};
    struct eplb_evaluator_params params = params_of("balanced");
    struct eplb_evaluator *evaluator = create(&params);
    struct eplb_evaluation found = step(evaluator, half, silent);
    check_score(&found.same, 1, 1.1, 1.1);
    check_score(&found.next, 0, 0, 0);
    check_score(&found.initial, 0, 0, 0);
    assert_int_equal(found.published, 1);
    found = step(evaluator, silent, half);
    check_score(&found.same, 0, 0, 0);
    check_score(&found.next, 1, 1.1, 1.1);
    check_score(&found.initial, 1, 1.2, 1.2);
    assert_int_equal(found.published, 0);
    eplb_evaluator_destroy(evaluator);
}

static void without_balancing_nothing_is_planned(void **state)
{
    (void)state;
    struct eplb_evaluator_params params = params_of("balanced");
    params.plans = false;
    struct eplb_evaluator *evaluator = create(&params);
    struct eplb_evaluation found = step(evaluator, morning, morning);
    check_score(&found.same, 2, (1.15 + 1.2) / 2, 1.2);
    check_score(&found.next, 2, (1.15 + 1.2) / 2, 1.2);
    assert_int_equal(found.published, 0);
    eplb_evaluator_destroy(evaluator);
}

/** Where it starts from decides what is compared as initial. */
static void another_start(void **state)
{
    (void)state;
    static const int32_t start[LAYERS * RANKS * SLOTS] = {0, 1, 2, 1, 3, 0, 3, 1, 2, 2, 3, 0};
    struct eplb_evaluator_params params = params_of("balanced");
    params.planner.initial = start;
    params.planner.min_peak_load_improvement = 1;
    struct eplb_evaluator *evaluator = create(&params);
    struct eplb_evaluation found = step(evaluator, silent, evening);
    check_score(&found.initial, 2, 1, 1);
    check_score(&found.next, 2, 1, 1);
    eplb_evaluator_destroy(evaluator);
}

/**
 * Weighted, from the initial 0 1 2 | 2 3 0 with 0 and 2 by three quarters on rank 0. Morning, layer 0: 7.5 +
 * 0 + 5.25 of 10; layer 1: 0.75 + 2 + 2.25 of 5, and measured in whole tokens as much. The threshold of 1
 * keeps all.
 */
static void the_weights_of_the_start_count(void **state)
{
    (void)state;
    static const int32_t most = EPLB_WEIGHT_UNIT / 4 * 3;
    static const int32_t least = EPLB_WEIGHT_UNIT / 4;
    static const int32_t whole = EPLB_WEIGHT_UNIT;
    const int32_t weights[LAYERS * RANKS * SLOTS] = {most, whole, most, least, whole, least,
                                                     most, whole, most, least, whole, least};
    struct eplb_evaluator_params params = params_of("balanced");
    params.planner.replica_routing = EPLB_ROUTING_WEIGHTED;
    params.planner.min_peak_load_improvement = 1;
    params.initial_weights = weights;
    struct eplb_evaluator *evaluator = create(&params);
    struct eplb_evaluation found = step(evaluator, morning, morning);
    assert_int_equal(found.published, 0);
    check_score(&found.next, 2, (1.275 + 1) / 2, 1.275);
    check_score(&found.initial, 2, (1.275 + 1) / 2, 1.275);
    assert_memory_equal(eplb_evaluator_weights(evaluator), weights, sizeof weights);
    eplb_evaluator_destroy(evaluator);
}

/**
 * Weighted: balanced keeps layer 0 and gives layer 1 the table 3 1 2 | 2 3 0 with the weights that are best
 * in the morning. In the evening, 5 tokens for each expert, these decide: rank 0 has 1, and its shares of 3
 * and 2.
 */
static void weights_of_a_plan_meet_the_next_window(void **state)
{
    (void)state;
    struct eplb_evaluator_params params = params_of("balanced");
    params.planner.replica_routing = EPLB_ROUTING_WEIGHTED;
    struct eplb_evaluator *evaluator = create(&params);
    struct eplb_evaluation found = step(evaluator, morning, evening);
    const int32_t *weights = eplb_evaluator_weights(evaluator) + RANKS * SLOTS;
    check_slots(evaluator, 1, (const int32_t[]){3, 1, 2, 2, 3, 0});
    /* In the morning 2 + 4 a + 3 b = 5. */
    check_near(4.0 * weights[0] + 3.0 * weights[2], 3.0 * EPLB_WEIGHT_UNIT);
    double rank0 = 5 + 5.0 * weights[0] / EPLB_WEIGHT_UNIT + 5.0 * weights[2] / EPLB_WEIGHT_UNIT;
    double layer1 = (rank0 > 10 ? rank0 : 20 - rank0) / 10;
    assert_true(layer1 > 1.01);
    check_score(&found.next, 2, (2 + layer1) / 2, 2);
    eplb_evaluator_destroy(evaluator);
}

/**
 * Adaptive and batch: what counts is the best split. In the morning the start is even in both layers: 10 + 0
 * + 7 | 3 of 0 and 2 divides into 10 and 10, so nothing is published. In the evening layer 0 has one copy of
 * expert 1.
 */
static void the_best_split_of_the_window_counts(void **state)
{
    (void)state;
    for (int routing = EPLB_ROUTING_ADAPTIVE; routing <= EPLB_ROUTING_BATCH; routing++) {
        struct eplb_evaluator_params params = params_of("balanced");
        params.planner.replica_routing = (enum eplb_replica_routing)routing;
        struct eplb_evaluator *evaluator = create(&params);
        struct eplb_evaluation found = step(evaluator, morning, evening);
        check_score(&found.same, 2, 1, 1);
        check_score(&found.next, 2, 1.5, 2);
        assert_int_equal(found.published, 0);
        eplb_evaluator_destroy(evaluator);
    }
}

static int32_t windows_told;

static size_t no_scratch(const struct eplb_shape *shape, const struct eplb_policy_settings *settings)
{
    (void)shape;
    (void)settings;
    return 0;
}

/** Keeps the placement, and notes what it was told. */
static enum eplb_status note_history(const struct eplb_policy_problem *problem, void *scratch,
                                     struct eplb_policy_answer *answer, struct eplb_error *error)
{
    (void)scratch;
    (void)error;
    windows_told = problem->num_history;
    if (problem->num_history == 2)
        assert_int_equal(problem->history[EXPERTS + 1], problem->load[1]);
    memcpy(answer->expert_ids, problem->active, (size_t)problem->shape->num_slots * sizeof(int32_t));
    return EPLB_OK;
}

static void a_policy_is_told_of_the_windows_before(void **state)
{
    (void)state;
    static const struct eplb_policy_ops ops = {sizeof ops, "noting", no_scratch, note_history};
    struct eplb_evaluator_params params = params_of("balanced");
    params.planner.ops = &ops;
    struct eplb_evaluator *evaluator = create(&params);
    struct eplb_planner_loads loads;
    struct eplb_evaluation found;
    eplb_planner_loads_init(&loads);
    loads.logical = evening;
    loads.history[0] = morning;
    loads.history[1] = evening;
    loads.num_history = 2;
    assert_int_equal(eplb_evaluator_step(evaluator, &loads, morning, &found, NULL), EPLB_OK);
    assert_int_equal(windows_told, 2);
    eplb_evaluator_destroy(evaluator);
}

static void a_refused_window_changes_nothing(void **state)
{
    (void)state;
    int64_t wrong[LAYERS * EXPERTS];
    memcpy(wrong, morning, sizeof wrong);
    wrong[5] = -1;
    struct eplb_evaluator_params params = params_of("balanced");
    struct eplb_evaluator *evaluator = create(&params);
    struct eplb_evaluation found = {.published = 77};
    struct eplb_error error = {0};
    struct eplb_planner_loads loads;
    eplb_planner_loads_init(&loads);
    loads.logical = wrong;
    assert_int_equal(eplb_evaluator_step(evaluator, &loads, evening, &found, &error), EPLB_INVALID);
    assert_string_equal(error.text, "layer 1: load of expert 1 is -1; allowed is 0 to 2^62");
    assert_int_equal(found.published, 77);
    check_slots(evaluator, 1, (const int32_t[]){0, 1, 2, 2, 3, 0});
    eplb_evaluator_destroy(evaluator);
    params.planner.min_peak_load_improvement = 2;
    evaluator = NULL;
    assert_int_equal(eplb_evaluator_create(&params, &evaluator, &error), EPLB_INVALID);
    assert_null(evaluator);
}

/** Windows without load do not dilute the means. */
static void sums_over_windows(void **state)
{
    (void)state;
    const struct eplb_evaluation rows[] = {
        {.same = {2, 1.125, 1.25}, .next = {2, 1.5, 2}, .initial = {2, 1.75, 2.5}, 1, 3, 2},
        {.same = {1, 1.25, 1.25}, .published = 1, .moved = 2},
        {.next = {1, 1.25, 1.25}, .initial = {1, 1.25, 1.25}, .published = 0},
    };
    struct eplb_evaluation_total total;
    eplb_evaluation_sum(rows, 3, &total);
    assert_int_equal(total.windows_planned, 2);
    assert_int_equal(total.windows_scored, 2);
    check(total.same, 1.1875);
    check(total.next, 1.375);
    check(total.initial, 1.5);
    check(total.worst_next, 2);
    assert_int_equal(total.published, 2);
    assert_int_equal(total.moved, 5);
    assert_int_equal(total.from_other_ranks, 2);
    eplb_evaluation_sum(rows, 0, &total);
    assert_int_equal(total.windows_scored, 0);
    check(total.next, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plan_is_scored_on_the_next_window),
        cmocka_unit_test(the_next_plan_starts_from_what_is_active),
        cmocka_unit_test(what_the_gate_keeps_does_not_score),
        cmocka_unit_test(slots_of_the_same_rank_count_apart),
        cmocka_unit_test(a_layer_without_load_has_no_score),
        cmocka_unit_test(without_balancing_nothing_is_planned),
        cmocka_unit_test(another_start),
        cmocka_unit_test(the_weights_of_the_start_count),
        cmocka_unit_test(weights_of_a_plan_meet_the_next_window),
        cmocka_unit_test(the_best_split_of_the_window_counts),
        cmocka_unit_test(a_policy_is_told_of_the_windows_before),
        cmocka_unit_test(a_refused_window_changes_nothing),
        cmocka_unit_test(sums_over_windows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
