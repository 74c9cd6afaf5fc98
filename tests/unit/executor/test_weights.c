/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/* Replica weights in the executor core: which updates are taken, and what a switch makes of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "executor/core.h"

enum { SLOTS = 6, LAYERS = 2 };

#define UNIT EPLB_WEIGHT_UNIT

/* Two ranks of three slots, four experts; experts 0 and 2 have two replicas. */
static const int32_t initial[SLOTS] = {0, 1, 2, 2, 3, 0};
static const int32_t swapped[SLOTS] = {1, 0, 2, 2, 3, 0};
static const int32_t equal[SLOTS] = {UNIT / 2, UNIT, UNIT / 2, UNIT / 2, UNIT, UNIT / 2};
static const int32_t lopsided[SLOTS] = {UNIT - 7, UNIT, 1, UNIT - 1, UNIT, 7};
static const int32_t short_of_one[SLOTS] = {UNIT - 8, UNIT, 1, UNIT - 1, UNIT, 7};

static struct eplb_executor_core *core;
static uint64_t seq;
static char trace[1024];

static void start(bool takes_weights)
{
    struct eplb_executor_core_params params = {
        .ep_rank = 0,
        .expert_bytes = 8,
        .takes_weights = takes_weights,
        .limits = {.chunk_bytes = 8, .inflight_bytes = 64, .timeout_ns = 1000}};
    assert_int_equal(eplb_shape_init(&params.shape, LAYERS, 4, 2, 1, NULL), EPLB_OK);
    assert_int_equal(eplb_executor_core_create(&params, &core, NULL), EPLB_OK);
    seq = 0;
}

/** Takes what the core does, and writes down what it does about weights. */
static void take_actions(void)
{
    struct eplb_executor_action action;
    trace[0] = '\0';
    while (eplb_executor_core_next(core, &action)) {
        size_t length = strlen(trace);
        if (action.type == EPLB_EXECUTOR_WEIGHTS || action.type == EPLB_EXECUTOR_REFUSED)
            snprintf(trace + length, sizeof trace - length, "%s %d;",
                     action.type == EPLB_EXECUTOR_WEIGHTS ? "takes" : "refuses", action.layer);
        if (action.type == EPLB_EXECUTOR_MATERIALISE)
            eplb_executor_core_step(
                core, &(struct eplb_executor_event){.type = EPLB_EXECUTOR_MATERIALISED, .ok = true}, 0);
    }
}

static void step(struct eplb_executor_event event)
{
    eplb_executor_core_step(core, &event, 0);
    take_actions();
}

static struct eplb_command command(void)
{
    struct eplb_command made;
    eplb_command_init(&made, ++seq);
    return made;
}

static void run(const struct eplb_command *given)
{
    step(
        (struct eplb_executor_event){.type = EPLB_EXECUTOR_START_STEP, .command = given, .weights_epoch = 1});
}

static void update(int32_t layer, uint64_t generation, uint64_t version, const int32_t *weights)
{
    struct eplb_command given = command();
    given.num_weight_updates = 1;
    given.weight_updates[0] = (struct eplb_weight_update){layer, generation, version, weights};
    run(&given);
    step((struct eplb_executor_event){.type = EPLB_EXECUTOR_FINISH_STEP});
}

static void assert_runs(int32_t layer, uint64_t version, const int32_t *weights)
{
    assert_int_equal(eplb_executor_core_versions(core)[layer], version);
    assert_memory_equal(eplb_executor_core_replica_weights(core) + (ptrdiff_t)layer * SLOTS, weights,
                        sizeof equal);
}

static struct eplb_command prepare(uint64_t generation, const int32_t *from, const int32_t *to,
                                   const int32_t *weights)
{
    struct eplb_shape shape;
    struct eplb_command given = command();
    assert_int_equal(eplb_shape_init(&shape, LAYERS, 4, 2, 1, NULL), EPLB_OK);
    given.prepare_layer_id = 0;
    given.prepare_token.value = seq;
    given.base_generation = generation;
    given.base_hash = eplb_placement_hash(&shape, from);
    given.expert_ids = to;
    given.num_expert_ids = SLOTS;
    given.replica_weights = weights;
    return given;
}

/** The background thread's part. */
static void build(void)
{
    struct eplb_layer_plan *plan = eplb_executor_core_queued(core);
    assert_non_null(plan);
    step((struct eplb_executor_event){.type = EPLB_EXECUTOR_PREPARE_BEGAN, .token = plan->token});
    eplb_executor_core_build(core, plan);
    step((struct eplb_executor_event){.type = EPLB_EXECUTOR_PREPARED, .token = plan->token, .ok = true});
}

/** Activates a prepare. Nothing travels: the vote is in at once. */
static void activate(uint64_t prepared, enum eplb_decision decision)
{
    struct eplb_command given = command();
    given.update_layer_id = 0;
    given.activation_token.value = seq;
    given.update_prepare_token.value = prepared;
    run(&given);
    step((struct eplb_executor_event){.type = EPLB_EXECUTOR_FINISH_STEP});
    assert_false(eplb_executor_core_idle(core));
    step((struct eplb_executor_event){.type = EPLB_EXECUTOR_DECIDED, .decision = decision});
    assert_true(eplb_executor_core_idle(core));
}

static void an_update_is_in_force_with_its_forward(void **state)
{
    (void)state;
    start(true);
    assert_runs(0, 0, equal);
    update(0, 0, 1, lopsided);
    assert_string_equal(trace, "");
    assert_runs(0, 1, lopsided);
    assert_runs(1, 0, equal);
    assert_int_equal(eplb_executor_core_ran_versions(core)[0], 1);
    struct eplb_command given = command();
    given.num_weight_updates = 2;
    given.weight_updates[0] = (struct eplb_weight_update){1, 0, 5, lopsided};
    given.weight_updates[1] = (struct eplb_weight_update){0, 0, 2, equal};
    run(&given);
    assert_string_equal(trace, "takes 1;takes 0;");
    assert_int_equal(eplb_executor_core_ran_versions(core)[0], 2);
    assert_int_equal(eplb_executor_core_ran_versions(core)[1], 5);
    assert_runs(1, 5, lopsided);
    eplb_executor_core_destroy(core);
}

static void old_strange_and_illegal_ones_are_left_out(void **state)
{
    (void)state;
    start(true);
    update(0, 0, 3, lopsided);
    update(0, 0, 3, equal);
    update(0, 0, 2, equal);
    update(0, 1, 9, equal);
    update(0, UINT64_MAX, 9, equal);
    update(7, 0, 9, equal);
    assert_runs(0, 3, lopsided);
    struct eplb_command given = command();
    given.num_weight_updates = 1;
    given.weight_updates[0] = (struct eplb_weight_update){0, 0, 4, short_of_one};
    run(&given);
    assert_string_equal(trace, "refuses 0;");
    assert_runs(0, 3, lopsided);
    eplb_executor_core_destroy(core);
}

static void a_model_without_weights_ignores_them(void **state)
{
    (void)state;
    start(false);
    update(0, 0, 1, lopsided);
    assert_runs(0, 0, equal);
    assert_int_equal(eplb_executor_core_ran_versions(core)[0], 0);
    eplb_executor_core_destroy(core);
}

static void a_switch_brings_the_candidates_weights_as_version_0(void **state)
{
    (void)state;
    start(true);
    update(0, 0, 6, lopsided);
    /* Experts 0 and 1 change places on rank 0. */
    const int32_t brought[SLOTS] = {UNIT, 9, 10, UNIT - 10, UNIT, UNIT - 9};
    struct eplb_command given = prepare(0, initial, swapped, brought);
    run(&given);
    build();
    step((struct eplb_executor_event){.type = EPLB_EXECUTOR_FINISH_STEP});
    activate(given.prepare_token.value, EPLB_COMMIT);
    assert_runs(0, 0, brought);
    /* The forward that switched it ran under the old ones. */
    assert_int_equal(eplb_executor_core_ran_versions(core)[0], 6);
    assert_int_equal(eplb_executor_core_ran_generations(core)[0], 0);
    update(0, 0, 7, lopsided);
    assert_runs(0, 0, brought);
    /* Back, without weights: equal ones. */
    given = prepare(1, swapped, initial, NULL);
    run(&given);
    build();
    step((struct eplb_executor_event){.type = EPLB_EXECUTOR_FINISH_STEP});
    update(0, 1, 1, brought);
    activate(given.prepare_token.value, EPLB_COMMIT);
    assert_runs(0, 0, equal);
    eplb_executor_core_destroy(core);
}

static void a_kept_layer_keeps_its_weights(void **state)
{
    (void)state;
    start(true);
    struct eplb_command given = prepare(0, initial, swapped, NULL);
    run(&given);
    build();
    step((struct eplb_executor_event){.type = EPLB_EXECUTOR_FINISH_STEP});
    update(0, 0, 1, lopsided);
    activate(given.prepare_token.value, EPLB_ABORT);
    assert_runs(0, 1, lopsided);
    eplb_executor_core_destroy(core);
}

static void a_prepare_with_illegal_weights_is_refused(void **state)
{
    (void)state;
    start(true);
    const struct eplb_command given = prepare(0, initial, initial, short_of_one);
    run(&given);
    const struct eplb_worker_levels levels = eplb_executor_core_levels(core);
    assert_int_equal(levels.prepare_status, EPLB_PREPARE_FAILED);
    assert_int_equal(levels.prepare_reason, EPLB_REASON_ILLEGAL_WEIGHTS);
    assert_null(eplb_executor_core_queued(core));
    eplb_executor_core_destroy(core);
}

static void initial_weights_are_checked(void **state)
{
    (void)state;
    struct eplb_executor_core_params params = {
        .expert_bytes = 8, .limits = {.chunk_bytes = 8, .inflight_bytes = 64, .timeout_ns = 1000}};
    struct eplb_error error;
    assert_int_equal(eplb_shape_init(&params.shape, 1, 4, 2, 1, NULL), EPLB_OK);
    params.initial_weights = lopsided;
    assert_int_equal(eplb_executor_core_create(&params, &core, &error), EPLB_OK);
    assert_runs(0, 0, lopsided);
    eplb_executor_core_destroy(core);
    params.initial_weights = short_of_one;
    assert_int_equal(eplb_executor_core_create(&params, &core, &error), EPLB_INVALID);
    assert_string_equal(error.text,
                        "the initial weights of layer 0 are not legal: the weights of expert 0 add "
                        "up to 1048575; they must add up to 1048576");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_update_is_in_force_with_its_forward),
        cmocka_unit_test(old_strange_and_illegal_ones_are_left_out),
        cmocka_unit_test(a_model_without_weights_ignores_them),
        cmocka_unit_test(a_switch_brings_the_candidates_weights_as_version_0),
        cmocka_unit_test(a_kept_layer_keeps_its_weights),
        cmocka_unit_test(a_prepare_with_illegal_weights_is_refused),
        cmocka_unit_test(initial_weights_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
