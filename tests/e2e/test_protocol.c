/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/* Reports that are late, wrong, missing or never come: what the manager and four real ranks make of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "e2e/director.h"
#include "e2e/engine.h"
#include "support/hand_clock.h"
#include "support/notes.h"

#define SECOND INT64_C(1000000000)

enum { RANKS = 4 };

static struct notes notes;
static struct hand_clock hand;

static struct engine_params four_ranks(void)
{
    struct engine_params params;
    engine_params_init(&params);
    assert_int_equal(eplb_shape_init(&params.team.shape, 3, 16, RANKS, 1, NULL), EPLB_OK);
    return params;
}

/** The manager's time stands still unless a test moves it, and its log is kept. */
static struct engine_params watched_ranks(void)
{
    struct engine_params params = four_ranks();
    hand_clock_init(&hand);
    notes_clear(&notes);
    params.manager.clock = &hand.clock;
    params.manager.log = &notes.sink;
    return params;
}

/** Runs forwards until a command names a layer to prepare, and returns it. */
static struct eplb_command await_prepare(struct engine *engine)
{
    int64_t deadline = team_deadline();
    struct eplb_command command;
    do {
        command = engine_forward(engine, ENGINE_DECODE);
        if (eplb_clock_system()->now(NULL) > deadline)
            team_fail(engine_team(engine), "no prepare comes");
    } while (command.prepare_layer_id == EPLB_NO_LAYER);
    return command;
}

static void expect_switched(const struct eplb_worker_output *outputs, uint64_t token)
{
    for (int32_t rank = 0; rank < RANKS; rank++) {
        assert_int_equal(outputs[rank].levels.activation_token.value, token);
        assert_int_equal(outputs[rank].levels.activation_outcome, EPLB_ACTIVATION_SWITCHED);
    }
}

/* ---- B27: one rank reports two forwards later ---- */

static void test_one_rank_prepares_late(void **state)
{
    (void)state;
    struct engine_params params = four_ranks();
    struct engine *engine = engine_create(&params);
    struct standin *late = team_model(engine_team(engine), 3);
    standin_set_fault(late, STANDIN_PREPARE, (struct standin_fault){.mood = STANDIN_HANGS});
    struct eplb_command prepare = await_prepare(engine);
    assert_true(standin_await_hang(late, STANDIN_PREPARE, team_deadline()));
    for (int32_t i = 0; i < 2; i++) {
        struct eplb_command command = engine_forward(engine, ENGINE_DECODE);
        assert_int_equal(command.update_layer_id, EPLB_NO_LAYER);
        assert_int_equal(command.prepare_layer_id, EPLB_NO_LAYER);
        assert_false(engine_status(engine).ready);
    }
    standin_set_fault(late, STANDIN_PREPARE, (struct standin_fault){.mood = STANDIN_WORKS});
    engine_run_until(engine, engine_is_ready, "ready");
    struct eplb_command activation = engine_submit(engine, ENGINE_DECODE);
    assert_int_equal(activation.update_layer_id, prepare.prepare_layer_id);
    assert_int_equal(activation.update_prepare_token.value, prepare.prepare_token.value);
    expect_switched(engine_collect(engine), activation.activation_token.value);
    if (activation.prepare_layer_id == EPLB_NO_LAYER)
        activation = await_prepare(engine);
    assert_true(activation.prepare_token.value > prepare.prepare_token.value);
    engine_settle(engine);
    engine_destroy(engine);
}

/* ---- B29: activation of what was never prepared, or is not yet ---- */

static void test_nothing_is_activated_that_was_not_prepared(void **state)
{
    (void)state;
    struct engine_params params = four_ranks();
    struct director director;
    director_init(&director, team_create(&params.team));
    director_activate_token(&director, 1, 999);
    const struct eplb_worker_output *outputs = director_forward(&director);
    assert_int_equal(director_outcome(&director, outputs), EPLB_ACTIVATION_KEPT);
    for (int32_t rank = 0; rank < RANKS; rank++)
        assert_int_equal(outputs[rank].levels.activation_reason, EPLB_REASON_NO_PLAN);
    director_check(&director);

    int32_t table[TEAM_MAX_SLOTS];
    struct standin *late = team_model(director.team, 2);
    memcpy(table, director_table(&director, 1), (size_t)director.shape.num_slots * sizeof *table);
    table[1] = 15;
    table[director.shape.num_slots - 2] = 1;
    standin_set_fault(late, STANDIN_PREPARE, (struct standin_fault){.mood = STANDIN_HANGS});
    director_prepare(&director, 1, table);
    director_forward(&director);
    assert_true(standin_await_hang(late, STANDIN_PREPARE, team_deadline()));
    director_activate(&director);
    outputs = director_forward(&director);
    assert_int_equal(director_outcome(&director, outputs), EPLB_ACTIVATION_KEPT);
    assert_int_equal(outputs[2].levels.prepare_status, EPLB_PREPARE_RUNNING);
    assert_int_equal(outputs[2].levels.activation_reason, EPLB_REASON_NO_PLAN);
    director_check(&director);

    standin_set_fault(late, STANDIN_PREPARE, (struct standin_fault){.mood = STANDIN_WORKS});
    director_move(&director, 1, table);
    team_destroy(director.team);
    director_destroy(&director);
}

/* ---- B30: the acknowledgement of an activation never comes ---- */

static void test_an_activation_without_reports_is_named(void **state)
{
    (void)state;
    char sentence[160];
    struct engine_params params = watched_ranks();
    struct engine *engine = engine_create(&params);
    engine_run_until(engine, engine_is_ready, "ready");
    engine_set_fate(engine, 3, ENGINE_LOST);
    struct eplb_command activation = engine_forward(engine, ENGINE_DECODE);
    assert_int_not_equal(activation.update_layer_id, EPLB_NO_LAYER);

    hand_clock_advance(&hand, 2 * 10 * SECOND - 1);
    engine_forward(engine, ENGINE_DECODE);
    assert_false(engine_status(engine).activation_stuck);
    hand_clock_advance(&hand, 1);
    for (int32_t i = 0; i < 5; i++)
        engine_forward(engine, ENGINE_DECODE);
    struct eplb_manager_status status = engine_status(engine);
    assert_true(status.activation_stuck);
    assert_int_equal(status.activating_layer, activation.update_layer_id);
    assert_int_equal(status.activation_token.value, activation.activation_token.value);
    assert_int_equal(status.activation_age_ns, 20 * SECOND);
    assert_int_equal(status.layers_committed, 0);
    snprintf(sentence, sizeof sentence,
             "activation is stuck: layer %d, activation_token %d, age 20.000 s, no report from rank 3",
             activation.update_layer_id, (int)activation.activation_token.value);
    assert_int_equal(notes_count(&notes, sentence), 1);
    assert_int_equal(eplb_manager_placement(engine_manager(engine), activation.update_layer_id, NULL), 0);

    engine_set_fate(engine, 3, ENGINE_DELIVERED);
    engine_forward(engine, ENGINE_DECODE);
    status = engine_status(engine);
    assert_int_equal(status.layers_committed, 1);
    assert_false(status.activation_stuck);
    assert_int_equal(notes_count(&notes, "activation is stuck"), 1);
    engine_settle(engine);
    engine_destroy(engine);
}

/* ---- B31: one rank never reports its prepare ---- */

/** Runs forwards until all ranks but one have reported their prepare. */
static void await_all_but(struct engine *engine, int32_t silent)
{
    int64_t deadline = team_deadline();
    int32_t done = 0;
    while (done < RANKS - 1) {
        engine_submit(engine, ENGINE_DECODE);
        const struct eplb_worker_output *outputs = engine_collect(engine);
        done = 0;
        for (int32_t rank = 0; rank < RANKS; rank++)
            done += rank != silent && outputs[rank].levels.prepare_status == EPLB_PREPARE_OK;
        if (eplb_clock_system()->now(NULL) > deadline)
            team_fail(engine_team(engine), "the other ranks do not prepare");
    }
}

static void wait_in_vain(int32_t timeout_seconds)
{
    struct engine_params params = watched_ranks();
    params.manager.prepare_timeout_seconds = timeout_seconds;
    struct engine *engine = engine_create(&params);
    struct standin *silent = team_model(engine_team(engine), 3);
    standin_set_fault(silent, STANDIN_PREPARE, (struct standin_fault){.mood = STANDIN_HANGS});
    struct eplb_command prepare = await_prepare(engine);
    assert_true(standin_await_hang(silent, STANDIN_PREPARE, team_deadline()));
    await_all_but(engine, 3);
    hand_clock_advance(&hand, timeout_seconds * SECOND - 1);
    engine_forward(engine, ENGINE_DECODE);
    assert_int_equal(engine_status(engine).preparing_layer, prepare.prepare_layer_id);
    assert_int_equal(engine_status(engine).layers_timed_out, 0);
    hand_clock_advance(&hand, 1);
    engine_forward(engine, ENGINE_DECODE);
    struct eplb_manager_status status = engine_status(engine);
    assert_int_equal(status.layers_timed_out, 1);
    assert_int_equal(status.layers_aborted, 1);
    assert_int_equal(notes_count(&notes, "rank 3 has not prepared in time"), 1);

    struct eplb_command next = await_prepare(engine);
    assert_true(next.prepare_token.value > prepare.prepare_token.value);
    standin_set_fault(silent, STANDIN_PREPARE, (struct standin_fault){.mood = STANDIN_WORKS});
    engine_run_until(engine, engine_has_committed, "done with a layer");
    assert_int_equal(engine_status(engine).layers_aborted, 1);
    assert_int_equal(notes_count(&notes, "EPLB warning"), 1);
    engine_settle(engine);
    engine_destroy(engine);
}

static void test_a_prepare_without_reports_times_out(void **state)
{
    (void)state;
    wait_in_vain(1);
    wait_in_vain(2);
}

/* ---- B32: empty DP ranks take part; a forward without decode, or with prefill, carries nothing ---- */

static void test_only_a_decode_boundary_carries_commands(void **state)
{
    (void)state;
    static const enum engine_traffic others[] = {ENGINE_EMPTY, ENGINE_PREFILL, ENGINE_MIXED, ENGINE_WARMUP};
    struct engine_params params = four_ranks();
    struct engine *engine = engine_create(&params);
    engine_run_until(engine, engine_is_ready, "ready");
    for (int32_t i = 0; i < 20; i++) {
        struct eplb_command command = engine_forward(engine, others[i % 4]);
        assert_int_equal(command.update_layer_id, EPLB_NO_LAYER);
        assert_int_equal(command.prepare_layer_id, EPLB_NO_LAYER);
        assert_true(engine_status(engine).ready);
    }
    struct eplb_command command = engine_submit(engine, ENGINE_SPARSE);
    assert_int_not_equal(command.update_layer_id, EPLB_NO_LAYER);
    expect_switched(engine_collect(engine), command.activation_token.value);
    engine_settle(engine);
    engine_destroy(engine);
}

/* ---- B38: one rank's output is lost now and then ---- */

static void test_all_ranks_see_the_same_commands(void **state)
{
    (void)state;
    struct engine_params params = four_ranks();
    struct engine *engine = engine_create(&params);
    uint64_t count;
    for (int32_t i = 1; i <= 1000; i++) {
        engine_set_fate(engine, 1, i % 100 == 0 ? ENGINE_LOST : ENGINE_DELIVERED);
        engine_forward(engine, ENGINE_DECODE);
    }
    engine_set_fate(engine, 1, ENGINE_DELIVERED);
    assert_int_equal(engine_status(engine).samples_lacking, 10);
    assert_int_equal(engine_status(engine).samples_taken, 990);
    assert_true(engine_status(engine).layers_committed > 0);
    uint64_t seen = team_commands_seen(engine_team(engine), 0, &count);
    assert_int_equal(count, 1000);
    for (int32_t rank = 1; rank < RANKS; rank++) {
        assert_int_equal(team_commands_seen(engine_team(engine), rank, &count), seen);
        assert_int_equal(count, 1000);
    }
    engine_settle(engine);
    engine_destroy(engine);
}

/* ---- an output that comes late, or twice, is not taken for the one that is awaited ---- */

static void test_an_output_of_another_forward_is_lost(void **state)
{
    (void)state;
    char sentence[160];
    struct engine_params params = watched_ranks();
    struct engine *engine = engine_create(&params);
    engine_forward(engine, ENGINE_DECODE);
    engine_set_fate(engine, 2, ENGINE_REPEATED);
    struct eplb_command command = engine_forward(engine, ENGINE_DECODE);
    engine_set_fate(engine, 2, ENGINE_DELIVERED);
    engine_forward(engine, ENGINE_DECODE);
    assert_int_equal(engine_status(engine).samples_taken, 2);
    assert_int_equal(engine_status(engine).samples_lacking, 1);
    snprintf(sentence, sizeof sentence,
             "the output of rank 2 for forward %d is rank 2's for forward %d; it counts as lost",
             (int)command.seq, (int)command.seq - 1);
    assert_int_equal(notes_count(&notes, sentence), 1);
    engine_settle(engine);
    engine_destroy(engine);
}

/* ---- B39: a failure inside rebalancing leaves serving alone ---- */

static size_t no_scratch(const struct eplb_shape *shape, const struct eplb_policy_settings *settings)
{
    (void)settings;
    (void)shape;
    return 0;
}

static enum eplb_status no_plan(const struct eplb_policy_problem *problem, void *scratch,
                                struct eplb_policy_answer *answer, struct eplb_error *error)
{
    (void)problem;
    (void)scratch;
    (void)answer;
    return eplb_fail(error, EPLB_INTERNAL, "this policy has no plan");
}

static bool has_failed_policy(const struct eplb_manager_status *status)
{
    return status->policy_failures > 0;
}

static void test_a_failing_policy(void **state)
{
    (void)state;
    static const struct eplb_policy_ops ops = {
        .size = sizeof ops, .name = "none", .scratch_size = no_scratch, .plan_layer = no_plan};
    struct engine_params params = watched_ranks();
    params.manager.ops = &ops;
    params.manager.update_interval_seconds = 1000;
    struct engine *engine = engine_create(&params);
    engine_forward(engine, ENGINE_DECODE);
    hand_clock_advance(&hand, 1000 * SECOND);
    engine_run_until(engine, has_failed_policy, "told of the failure");
    assert_int_equal(notes_count(&notes, "policy run failed: "), 1);
    notes_clear(&notes);
    for (int32_t i = 0; i < 100; i++) {
        struct eplb_command command = engine_forward(engine, ENGINE_DECODE);
        assert_int_equal(command.prepare_token.value, 0);
        assert_int_equal(command.activation_token.value, 0);
    }
    hand_clock_advance(&hand, 60 * SECOND);
    engine_forward(engine, ENGINE_DECODE);
    assert_int_equal(notes_count(&notes, "EPLB heartbeat | path=manager"), 1);
    assert_int_equal(notes_count(&notes, "tasks_failed_since_last=1"), 1);
    assert_int_equal(engine_status(engine).policy_failures, 1);
    engine_settle(engine);
    engine_destroy(engine);
}

static void test_a_rank_that_cannot_prepare(void **state)
{
    (void)state;
    struct engine_params params = watched_ranks();
    struct engine *engine = engine_create(&params);
    standin_set_fault(team_model(engine_team(engine), 2), STANDIN_PREPARE,
                      (struct standin_fault){.mood = STANDIN_FAILS});
    for (int32_t i = 0; i < 200; i++)
        assert_int_equal(engine_forward(engine, ENGINE_DECODE).activation_token.value, 0);
    struct eplb_manager_status status = engine_status(engine);
    assert_true(status.layers_aborted > 0);
    assert_int_equal(status.layers_committed, 0);
    assert_int_equal(status.layers_timed_out, 0);
    assert_true(notes_count(&notes, "rank 2 could not prepare") > 0);
    for (int32_t rank = 0; rank < RANKS; rank++)
        assert_int_equal(standin_calls(team_model(engine_team(engine), rank), STANDIN_START), 0);
    engine_settle(engine);
    engine_destroy(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_rank_prepares_late),
        cmocka_unit_test(test_nothing_is_activated_that_was_not_prepared),
        cmocka_unit_test(test_an_activation_without_reports_is_named),
        cmocka_unit_test(test_a_prepare_without_reports_times_out),
        cmocka_unit_test(test_only_a_decode_boundary_carries_commands),
        cmocka_unit_test(test_all_ranks_see_the_same_commands),
        cmocka_unit_test(test_an_output_of_another_forward_is_lost),
        cmocka_unit_test(test_a_failing_policy),
        cmocka_unit_test(test_a_rank_that_cannot_prepare),
    };
    notes_init(&notes);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    notes_destroy(&notes);
    return failed;
}
