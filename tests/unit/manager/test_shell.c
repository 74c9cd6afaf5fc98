/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * The manager with its thread and a real clock, over a decision record that only takes notes.
 */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "eplb/group.h"
#include "eplb/manager.h"
#include "metrics/metrics.h"

enum { RANKS = 2, EXPERTS = 4, SLOTS = 3, LAYERS = 2 };

#define PATIENCE_NS INT64_C(20000000000)

struct notes {
    uint64_t opened;
    uint64_t aborted;
};

static void note_open(void *self, struct eplb_activation_token token)
{
    ((struct notes *)self)->opened = token.value;
}

static void note_abort(void *self, struct eplb_activation_token token)
{
    ((struct notes *)self)->aborted = token.value;
}

static struct notes notes;
static const struct eplb_group group = {.size = sizeof group,
                                        .self = &notes,
                                        .num_ranks = RANKS,
                                        .record_open = note_open,
                                        .record_abort = note_abort};

static struct eplb_metrics *metrics;      /* of the next manager; NULL: none */
static enum eplb_replica_routing routing; /* likewise */

static struct eplb_manager *create(const struct eplb_policy_ops *ops)
{
    struct eplb_manager_params params;
    struct eplb_manager *manager = NULL;
    struct eplb_error error;
    notes = (struct notes){0, 0};
    eplb_manager_params_init(&params);
    assert_int_equal(eplb_shape_init(&params.shape, LAYERS, EXPERTS, RANKS, 1, &error), EPLB_OK);
    params.update_interval_seconds = routing == EPLB_ROUTING_STATIC ? 0 : 1000;
    params.group = &group;
    params.metrics = metrics;
    params.expert_bytes = 1000;
    params.replica_routing = routing;
    if (ops != NULL)
        params.ops = ops;
    if (eplb_manager_create(&params, &manager, &error) != EPLB_OK)
        fail_msg("%s", error.text);
    return manager;
}

/** Workers that obey every command at once. */
struct workers {
    struct eplb_worker_levels levels;
    uint64_t generations[LAYERS];
    uint64_t seq;
};

static struct eplb_command forward(struct eplb_manager *manager, struct workers *workers)
{
    static const int64_t prefix[RANKS][LAYERS][SLOTS] = {{{10, 110, 120}, {10, 110, 120}},
                                                         {{5, 10, 15}, {5, 10, 15}}};
    static const struct eplb_dp_batch decode = {.decode_tokens = 8};
    struct eplb_forward next = {
        .size = sizeof next, .seq = ++workers->seq, .batches = &decode, .num_batches = 1};
    struct eplb_worker_output outputs[RANKS];
    struct eplb_command command;
    struct eplb_error error;
    assert_int_equal(eplb_manager_submit(manager, &next, &command, &error), EPLB_OK);
    if (command.prepare_layer_id != EPLB_NO_LAYER) {
        workers->levels.prepare_token = command.prepare_token;
        workers->levels.prepare_status = EPLB_PREPARE_OK;
    }
    if (command.update_layer_id != EPLB_NO_LAYER) {
        workers->levels.activation_token = command.activation_token;
        workers->levels.activation_outcome = EPLB_ACTIVATION_SWITCHED;
    }
    for (int32_t rank = 0; rank < RANKS; rank++)
        outputs[rank] = (struct eplb_worker_output){.size = sizeof outputs[rank],
                                                    .seq = next.seq,
                                                    .ep_rank = rank,
                                                    .num_layers = LAYERS,
                                                    .slots_per_rank = SLOTS,
                                                    .prefix = prefix[rank][0],
                                                    .generations = workers->generations,
                                                    .levels = workers->levels};
    assert_int_equal(eplb_manager_outputs(manager, next.seq, outputs, RANKS, &error), EPLB_OK);
    if (command.update_layer_id != EPLB_NO_LAYER)
        workers->generations[command.update_layer_id]++;
    return command;
}

static void a_round_goes_through(void **state)
{
    (void)state;
    struct eplb_manager *manager = create(NULL);
    struct workers workers = {.seq = 0};
    struct eplb_manager_status status = {.layers_committed = 0};
    int64_t give_up = eplb_clock_system()->now(NULL) + PATIENCE_NS;
    while (status.layers_committed < LAYERS && eplb_clock_system()->now(NULL) < give_up) {
        forward(manager, &workers);
        eplb_manager_status(manager, &status);
        sched_yield();
    }
    assert_int_equal(status.layers_committed, LAYERS);
    assert_true(notes.opened > 0);
    assert_int_equal(notes.aborted, 0);
    int32_t table[RANKS * SLOTS];
    int32_t initial[RANKS * SLOTS];
    struct eplb_shape shape;
    assert_int_equal(eplb_shape_init(&shape, LAYERS, EXPERTS, RANKS, 1, NULL), EPLB_OK);
    eplb_placement_initial(&shape, initial);
    assert_true(eplb_manager_placement(manager, 1, table) >= 1);
    assert_int_equal(eplb_placement_check(&shape, table, NULL), EPLB_OK);
    assert_int_not_equal(memcmp(table, initial, sizeof table), 0);
    eplb_manager_destroy(manager);
}

static void the_metrics_tell_what_happened(void **state)
{
    (void)state;
    assert_int_equal(eplb_metrics_create(&metrics, NULL), EPLB_OK);
    struct eplb_manager *manager = create(NULL);
    struct workers workers = {.seq = 0};
    struct eplb_manager_status status = {.layers_committed = 0};
    int64_t give_up = eplb_clock_system()->now(NULL) + PATIENCE_NS;
    while (status.layers_committed < LAYERS && eplb_clock_system()->now(NULL) < give_up) {
        forward(manager, &workers);
        eplb_manager_status(manager, &status);
        sched_yield();
    }
    assert_int_equal(eplb_metrics_get(metrics, EPLB_METRIC_SAMPLES_TAKEN), workers.seq);
    assert_int_equal(eplb_metrics_get(metrics, EPLB_METRIC_LAYERS_ACTIVATED), LAYERS);
    assert_int_equal(eplb_metrics_get(metrics, EPLB_METRIC_MOVED_SLOTS), status.slots_moved);
    assert_true(status.slots_moved > 0 && status.slots_sent > 0 && status.slots_sent <= status.slots_moved);
    assert_int_equal(eplb_metrics_get(metrics, EPLB_METRIC_MOVED_BYTES), 1000 * status.slots_sent);
    assert_true(eplb_metrics_get(metrics, EPLB_METRIC_LAST_ACTIVATION_WAIT) >= 0);
    assert_int_equal(eplb_metrics_get(metrics, EPLB_METRIC_ACTIVATION_STUCK), 0);
    eplb_manager_destroy(manager);
    eplb_metrics_destroy(metrics);
    metrics = NULL;
}

static _Atomic int policy_gate; /* 1: the slow policy may go on */
static _Atomic int policy_entered;

static size_t no_scratch(const struct eplb_shape *shape, const struct eplb_policy_settings *settings)
{
    (void)settings;
    (void)shape;
    return 0;
}

static enum eplb_status slow(const struct eplb_policy_problem *problem, void *scratch,
                             struct eplb_policy_answer *answer, struct eplb_error *error)
{
    (void)scratch;
    (void)error;
    policy_entered = 1;
    while (!policy_gate)
        sched_yield();
    memcpy(answer->expert_ids, problem->active,
           (size_t)problem->shape->num_slots * sizeof *answer->expert_ids);
    return EPLB_OK;
}

static void a_slow_policy_does_not_stop_the_forwards(void **state)
{
    (void)state;
    static const struct eplb_policy_ops ops = {
        .size = sizeof ops, .name = "slow", .scratch_size = no_scratch, .plan_layer = slow};
    policy_gate = 0;
    policy_entered = 0;
    struct eplb_manager *manager = create(&ops);
    struct workers workers = {.seq = 0};
    int64_t give_up = eplb_clock_system()->now(NULL) + PATIENCE_NS;
    forward(manager, &workers);
    while (!policy_entered && eplb_clock_system()->now(NULL) < give_up)
        sched_yield();
    assert_true(policy_entered);
    struct eplb_manager_status status;
    for (int i = 0; i < 1000; i++)
        forward(manager, &workers);
    eplb_manager_status(manager, &status);
    assert_true(status.policy_running);
    assert_int_equal(status.samples_taken, 1001);
    policy_gate = 1;
    eplb_manager_destroy(manager);
}

static void parameters_are_checked(void **state)
{
    (void)state;
    struct eplb_manager_params params;
    struct eplb_manager *manager = NULL;
    struct eplb_error error;
    eplb_manager_params_init(&params);
    assert_int_equal(eplb_shape_init(&params.shape, LAYERS, EXPERTS, RANKS, 1, &error), EPLB_OK);
    assert_int_equal(eplb_manager_create(&params, &manager, &error), EPLB_INVALID);
    assert_string_equal(error.text, "a manager needs a process group and a clock");
    params.group = &group;
    params.prepare_timeout_seconds = 0;
    assert_int_equal(eplb_manager_create(&params, &manager, &error), EPLB_INVALID);
    params.prepare_timeout_seconds = 1;
    assert_int_equal(eplb_shape_init(&params.shape, LAYERS, EXPERTS, 4, 1, &error), EPLB_OK);
    assert_int_equal(eplb_manager_create(&params, &manager, &error), EPLB_INVALID);
    assert_string_equal(error.text, "the process group has 2 ranks and ep_size is 4; they must be equal");
    assert_null(manager);
}

static void bad_calls_are_refused_and_change_nothing(void **state)
{
    (void)state;
    struct eplb_manager *manager = create(NULL);
    struct workers workers = {.seq = 0};
    struct eplb_command command;
    struct eplb_error error;
    forward(manager, &workers);
    struct eplb_forward next = {.size = sizeof next, .seq = 2, .num_batches = 1};
    assert_int_equal(eplb_manager_submit(manager, &next, &command, &error), EPLB_INVALID);
    assert_string_equal(error.text, "forward 2 has 0 batches; every DP rank has one, if an empty one");
    assert_int_equal(eplb_manager_outputs(manager, 1, NULL, 2, &error), EPLB_INVALID);
    assert_string_equal(error.text, "2 outputs were announced and none was given");
    int64_t prefix[LAYERS][SLOTS] = {{0}};
    struct eplb_worker_output outputs[RANKS] = {{.size = 3, .prefix = prefix[0]},
                                                {.size = sizeof outputs[1]}};
    assert_int_equal(eplb_manager_outputs(manager, 2, outputs, RANKS, &error), EPLB_INVALID);
    outputs[0].size = sizeof outputs[0];
    outputs[0].levels.activation_token.value = 5;
    outputs[0].levels.activation_outcome = (enum eplb_activation_outcome)7;
    assert_int_equal(eplb_manager_outputs(manager, 2, outputs, RANKS, &error), EPLB_INVALID);
    forward(manager, &workers);
    eplb_manager_destroy(manager);
}

static void a_stop_leaves_nothing_behind(void **state)
{
    (void)state;
    for (int forwards = 0; forwards < 6; forwards++) {
        struct eplb_manager *manager = create(NULL);
        struct workers workers = {.seq = 0};
        for (int i = 0; i < forwards; i++)
            forward(manager, &workers);
        eplb_manager_rank_dead(manager, 1);
        eplb_manager_destroy(manager);
    }
}

/* Rank 0 has the hot expert 1, so its shares of experts 0 and 2 go to rank 1. Both layers are as bad. */
static void weights_are_solved_and_sent(void **state)
{
    (void)state;
    routing = EPLB_ROUTING_ADAPTIVE;
    assert_int_equal(eplb_metrics_create(&metrics, NULL), EPLB_OK);
    struct eplb_manager *manager = create(NULL);
    routing = EPLB_ROUTING_STATIC;
    struct workers workers = {.seq = 0};
    struct eplb_command command;
    struct eplb_manager_status status;
    int64_t end = eplb_clock_system()->now(NULL) + PATIENCE_NS;
    do {
        assert_true(eplb_clock_system()->now(NULL) < end);
        command = forward(manager, &workers);
    } while (command.num_weight_updates == 0);
    const struct eplb_weight_update *update = &command.weight_updates[0];
    assert_int_equal(update->version, 1);
    assert_int_equal(update->generation, 0);
    assert_int_equal(update->weights[1], EPLB_WEIGHT_UNIT);
    assert_true(update->weights[0] < EPLB_WEIGHT_UNIT / 10);
    assert_int_equal(update->weights[0] + update->weights[5], EPLB_WEIGHT_UNIT);
    assert_true(update->weights[2] < EPLB_WEIGHT_UNIT / 10);
    eplb_manager_status(manager, &status);
    assert_true(status.weight_solves > 0 && status.weight_updates > 0);
    /* Another solve may have begun since. */
    assert_true(eplb_metrics_get(metrics, EPLB_METRIC_WEIGHT_SOLVES) >= (int64_t)status.weight_solves);
    assert_int_equal(eplb_metrics_get(metrics, EPLB_METRIC_WEIGHT_UPDATES), status.weight_updates);
    eplb_manager_destroy(manager);
    eplb_metrics_destroy(metrics);
    metrics = NULL;

    struct eplb_manager_params params;
    struct eplb_error error;
    eplb_manager_params_init(&params);
    params.group = &group;
    params.solve_budget_us = 0;
    assert_int_equal(eplb_manager_create(&params, &manager, &error), EPLB_INVALID);
    assert_string_equal(error.text, "solve_budget_us is 0; it must be above 0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_round_goes_through),
        cmocka_unit_test(the_metrics_tell_what_happened),
        cmocka_unit_test(a_slow_policy_does_not_stop_the_forwards),
        cmocka_unit_test(parameters_are_checked),
        cmocka_unit_test(bad_calls_are_refused_and_change_nothing),
        cmocka_unit_test(a_stop_leaves_nothing_behind),
        cmocka_unit_test(weights_are_solved_and_sent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
