/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/* A rank dies, or everything stops, at every point of an activation. Nobody hangs, no layer is half switched.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "e2e/engine.h"
#include "support/process.h"

#define MS INT64_C(1000000)

enum { RANKS = 4 };

static struct engine *start(int32_t overlap)
{
    struct engine_params params;
    engine_params_init(&params);
    assert_int_equal(eplb_shape_init(&params.team.shape, 3, 16, RANKS, 1, NULL), EPLB_OK);
    params.team.overlap = overlap;
    return engine_create(&params);
}

/** What the live ranks report of the activation; the same of all of them. */
static enum eplb_activation_outcome outcome_of(const struct engine *engine,
                                               const struct eplb_worker_output *outputs,
                                               struct eplb_activation_token token)
{
    enum eplb_activation_outcome outcome = EPLB_ACTIVATION_NONE;
    for (int32_t rank = 0; rank < RANKS; rank++) {
        if (team_is_dead(engine_team(engine), rank))
            continue;
        assert_int_equal(outputs[rank].levels.activation_token.value, token.value);
        assert_int_not_equal(outputs[rank].levels.activation_outcome, EPLB_ACTIVATION_NONE);
        if (outcome != EPLB_ACTIVATION_NONE)
            assert_int_equal(outputs[rank].levels.activation_outcome, outcome);
        outcome = outputs[rank].levels.activation_outcome;
    }
    return outcome;
}

/* ---- B40 ---- */

/** Rank `victim` dies at a point of the forward that activates; returns what became of the layer. */
static enum eplb_activation_outcome die_at(enum team_point point, int32_t victim, int32_t overlap)
{
    struct engine *engine = start(overlap);
    struct team *team = engine_team(engine);
    engine_run_until(engine, engine_is_ready, "ready");
    team_hold(team, victim, point);
    struct eplb_command command = engine_submit(engine, ENGINE_DECODE);
    assert_int_not_equal(command.update_layer_id, EPLB_NO_LAYER);
    if (overlap > 0)
        engine_submit(engine, ENGINE_DECODE);
    team_await_held(team, victim);
    engine_kill(engine, victim);
    enum eplb_activation_outcome outcome =
        outcome_of(engine, engine_collect(engine), command.activation_token);
    engine_drain(engine);

    struct eplb_manager_status status = engine_status(engine);
    assert_int_equal(status.activating_layer, EPLB_NO_LAYER);
    assert_int_equal(status.preparing_layer, EPLB_NO_LAYER);
    assert_int_equal(status.layers_waiting, 0);
    assert_int_equal(status.layers_committed, outcome == EPLB_ACTIVATION_SWITCHED);
    engine_settle(engine);

    command = engine_forward(engine, ENGINE_DECODE);
    assert_int_equal(command.update_layer_id, EPLB_NO_LAYER);
    assert_int_equal(command.prepare_layer_id, EPLB_NO_LAYER);
    engine_drain(engine);
    char name[16];
    snprintf(name, sizeof name, "rank %d died", victim);
    for (int32_t rank = 0; rank < RANKS; rank++)
        if (rank != victim)
            assert_non_null(strstr(team_bereavement(team, rank), name));
    engine_destroy(engine);
    return outcome;
}

static void test_death_before_the_activation(void **state)
{
    (void)state;
    for (int32_t overlap = 0; overlap <= 1; overlap++)
        for (int32_t victim = 0; victim < RANKS; victim++)
            assert_int_equal(die_at(TEAM_BEFORE_START, victim, overlap), EPLB_ACTIVATION_KEPT);
}

static void test_death_during_the_transfer(void **state)
{
    (void)state;
    for (int32_t overlap = 0; overlap <= 1; overlap++)
        for (int32_t victim = 0; victim < RANKS; victim++)
            assert_int_equal(die_at(TEAM_BEFORE_FORWARD, victim, overlap), EPLB_ACTIVATION_KEPT);
}

/* A rank that has no part in the exchange has voted yes by then, and the others may have committed. */
static void test_death_before_the_decision(void **state)
{
    (void)state;
    for (int32_t overlap = 0; overlap <= 1; overlap++)
        for (int32_t victim = 0; victim < RANKS; victim++)
            assert_int_not_equal(die_at(TEAM_BEFORE_FINISH, victim, overlap), EPLB_ACTIVATION_NONE);
}

static void test_death_after_the_switch(void **state)
{
    (void)state;
    for (int32_t overlap = 0; overlap <= 1; overlap++)
        for (int32_t victim = 0; victim < RANKS; victim++)
            assert_int_equal(die_at(TEAM_BEFORE_REPORT, victim, overlap), EPLB_ACTIVATION_SWITCHED);
}

/* ---- B57: all stops with one layer in transfer and one preparing or ready ---- */

static bool is_ready_with_more(const struct eplb_manager_status *status)
{
    return status->ready && status->layers_waiting > 0;
}

/** Hands out an activation that no rank can resolve, because rank 3 does not come to its end. */
static struct eplb_command stall_in_transfer(struct engine *engine)
{
    team_hold(engine_team(engine), 3, TEAM_BEFORE_FINISH);
    struct eplb_command command = engine_submit(engine, ENGINE_DECODE);
    assert_int_not_equal(command.update_layer_id, EPLB_NO_LAYER);
    team_await_held(engine_team(engine), 3);
    for (int32_t rank = 0; rank < 3; rank++)
        team_await_finishing(engine_team(engine), rank);
    return command;
}

static void stop_executors(struct engine *engine)
{
    struct eplb_error error = {.status = EPLB_OK};
    for (int32_t rank = 0; rank < 3; rank++)
        if (eplb_executor_stop(team_executor(engine_team(engine), rank), TEAM_PATIENCE_NS, &error) != EPLB_OK)
            fail_msg("%s", error.text);
}

static void test_stop_in_a_transfer(void **state)
{
    (void)state;
    size_t threads = process_threads();
    struct engine *engine = start(0);
    engine_run_until(engine, engine_is_ready, "ready");
    struct eplb_command command = stall_in_transfer(engine);
    assert_int_equal(engine_status(engine).activating_layer, command.update_layer_id);
    int64_t begin = eplb_clock_system()->now(NULL);
    engine_stop_manager(engine);
    stop_executors(engine);
    /* Far from the transfer timeout of 30 s, which would end it too. */
    assert_true(eplb_clock_system()->now(NULL) - begin < 10000 * MS);
    team_release(engine_team(engine), 3);
    assert_int_equal(outcome_of(engine, engine_collect(engine), command.activation_token),
                     EPLB_ACTIVATION_KEPT);
    engine_destroy(engine);
    assert_int_equal(process_threads(), threads);
}

static void test_stop_in_a_transfer_and_a_prepare(void **state)
{
    (void)state;
    size_t threads = process_threads();
    struct engine *engine = start(0);
    struct team *team = engine_team(engine);
    struct standin *busy = team_model(team, 1);
    struct eplb_error error;
    engine_run_until(engine, is_ready_with_more, "ready, with another layer to come");
    standin_set_fault(busy, STANDIN_PREPARE, (struct standin_fault){.mood = STANDIN_HANGS});
    struct eplb_command command = stall_in_transfer(engine);
    assert_int_not_equal(command.prepare_layer_id, EPLB_NO_LAYER);
    assert_true(standin_await_hang(busy, STANDIN_PREPARE, team_deadline()));
    assert_int_equal(engine_status(engine).activating_layer, command.update_layer_id);
    assert_int_equal(engine_status(engine).preparing_layer, command.prepare_layer_id);
    engine_stop_manager(engine);
    assert_int_equal(eplb_executor_stop(team_executor(team, 1), 20 * MS, &error), EPLB_RANK_SILENT);
    assert_non_null(strstr(error.text, "the model's hook prepare_expert_weight for layer"));
    standin_set_fault(busy, STANDIN_PREPARE, (struct standin_fault){.mood = STANDIN_WORKS});
    stop_executors(engine);
    team_release(team, 3);
    engine_destroy(engine);
    assert_int_equal(process_threads(), threads);
}

static void test_stop_with_a_layer_that_is_ready(void **state)
{
    (void)state;
    size_t threads = process_threads();
    struct engine *engine = start(1);
    engine_run_until(engine, engine_is_ready, "ready");
    engine_stop_manager(engine);
    stop_executors(engine);
    engine_destroy(engine);
    assert_int_equal(process_threads(), threads);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_death_before_the_activation),
        cmocka_unit_test(test_death_during_the_transfer),
        cmocka_unit_test(test_death_before_the_decision),
        cmocka_unit_test(test_death_after_the_switch),
        cmocka_unit_test(test_stop_in_a_transfer),
        cmocka_unit_test(test_stop_in_a_transfer_and_a_prepare),
        cmocka_unit_test(test_stop_with_a_layer_that_is_ready),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
