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
    struct eplb_error error = {0};
    if (eplb_evaluator_step(evaluator, window, next, &evaluation, &error) != EPLB_OK)
        fail_msg("%s", error.text);
    return evaluation;
}

static void check(double found, double expected)
{
    if (fabs(found - expected) > 1e-15)
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
    assert_int_equal(eplb_evaluator_step(evaluator, wrong, evening, &found, &error), EPLB_INVALID);
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
        cmocka_unit_test(a_refused_window_changes_nothing),
        cmocka_unit_test(sums_over_windows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
