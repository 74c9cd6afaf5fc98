/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * Rounds before their time: a shift is found, tokens are waited for, the round begins.
 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "bench.h"

static struct bench bench;

static void start(int32_t layers, double trigger, int64_t min_tokens)
{
    bench_start(&bench, &(struct bench_options){.num_layers = layers,
                                                .interval_s = 1000,
                                                .prepare_timeout_s = 1,
                                                .transfer_timeout_s = 1,
                                                .shift_trigger = trigger,
                                                .min_tokens_per_layer = min_tokens});
}

/** Counts per forward that go to the experts, `hot` of them to one, through the tables as they stand. */
static void route(int32_t hot_expert, int64_t hot, int64_t others)
{
    for (int32_t layer = 0; layer < bench.num_layers; layer++) {
        const int32_t *table =
            eplb_manager_core_tables(bench.core) + (size_t)layer * BENCH_RANKS * BENCH_SLOTS;
        int64_t given[BENCH_EXPERTS] = {0};
        for (int rank = 0; rank < BENCH_RANKS; rank++) {
            int64_t sum = 0;
            for (int slot = 0; slot < BENCH_SLOTS; slot++) {
                int32_t expert = table[rank * BENCH_SLOTS + slot];
                int64_t all = expert == hot_expert ? hot : others;
                int64_t half = given[expert] == 0 ? (all + 1) / 2 : all - given[expert];
                int32_t copies = 0;
                for (int i = 0; i < BENCH_RANKS * BENCH_SLOTS; i++)
                    copies += table[i] == expert;
                /* Two copies have half each, more have a part that does. */
                int64_t part = copies == 1 ? all : copies == 2 ? half : (all + copies - 1) / copies;
                if (given[expert] + part > all)
                    part = all - given[expert];
                given[expert] += part;
                sum += part;
                bench.prefix[rank][layer][slot] = sum;
            }
        }
    }
}

static void forwards(int number, int32_t hot_expert, int64_t hot, int64_t others)
{
    for (int i = 0; i < number; i++) {
        route(hot_expert, hot, others);
        bench_forward(&bench, "ddd");
        bench.trace[0] = '\0';
    }
}

/** A round by the timer, to its end; what follows has the tables that it made. */
static void round_by_timer(int32_t hot_expert, int64_t hot, int64_t others)
{
    forwards(10, hot_expert, hot, others);
    bench_wait(&bench, 1000);
    bench_tick(&bench);
    bench_policy(&bench);
    while (bench_status(&bench).round)
        forwards(1, hot_expert, hot, others);
    bench.trace[0] = '\0';
    bench.log[0] = '\0';
}

static void a_shift_starts_a_round_when_tokens_came(void **state)
{
    (void)state;
    start(2, 12, 0);
    round_by_timer(0, 100, 10);
    uint64_t runs = bench_status(&bench).policy_runs;
    forwards(40, 0, 100, 10);
    assert_int_equal(bench_status(&bench).shifts, 0);
    /* Found at the end of a block of 8 at most 15 forwards later. */
    int until = 0;
    for (; bench_status(&bench).shifts == 0 && until < 16; until++)
        forwards(1, 5, 100, 10);
    assert_in_range(until, 1, 15);
    assert_non_null(strstr(bench.log, "EPLB traffic shift | num_departed=2 | num_judged=2 | layers=0,1 | "));
    /* 128 for each of 6 experts are 768, at 150 a forward; at the sixth forward there would be enough, and
     * a block's 8 samples are waited for. */
    forwards(7, 5, 100, 10);
    assert_int_equal(bench_status(&bench).policy_runs, runs);
    forwards(1, 5, 100, 10);
    assert_int_equal(bench_status(&bench).policy_runs, runs + 1);
    /* Only what came after the shift is in the window that is planned from. */
    const struct eplb_window *window = eplb_manager_core_closed_window(bench.core);
    assert_int_equal(window->num_samples, 8);
    assert_int_equal(window->logical[0], 80);
    assert_int_equal(window->logical[5], 800);
    bench_end(&bench);
}

static void few_tokens_are_waited_for_however_long(void **state)
{
    (void)state;
    start(1, 12, 0);
    round_by_timer(0, 100, 10);
    while (bench_status(&bench).shifts == 0)
        forwards(1, 5, 100, 10);
    uint64_t runs = bench_status(&bench).policy_runs;
    /* 15 a forward: 52 of them have 768. The timer, which fires meanwhile, changes nothing. */
    forwards(20, 5, 10, 1);
    bench_wait(&bench, 5000);
    forwards(31, 5, 10, 1);
    assert_int_equal(bench_status(&bench).policy_runs, runs);
    forwards(1, 5, 10, 1);
    assert_int_equal(bench_status(&bench).policy_runs, runs + 1);
    bench_end(&bench);
}

static void after_the_round_a_new_promise_holds(void **state)
{
    (void)state;
    start(2, 12, 0);
    round_by_timer(0, 100, 10);
    while (bench_status(&bench).shifts == 0)
        forwards(1, 5, 100, 10);
    forwards(8, 5, 100, 10);
    bench_policy(&bench);
    while (bench_status(&bench).round)
        forwards(1, 5, 100, 10);
    assert_int_equal(bench_status(&bench).layers_committed, 4);
    uint64_t runs = bench_status(&bench).policy_runs;
    forwards(1000, 5, 100, 10);
    assert_int_equal(bench_status(&bench).shifts, 1);
    assert_int_equal(bench_status(&bench).policy_runs, runs);
    /* And back. */
    forwards(16, 0, 100, 10);
    assert_int_equal(bench_status(&bench).shifts, 2);
    /* The next interval began with the early round. */
    bench_end(&bench);
}

static void nothing_is_found_before_a_plan_or_without_a_trigger(void **state)
{
    (void)state;
    for (int with = 0; with < 2; with++) {
        start(1, with ? 1 : 0, 0);
        forwards(100, 0, 100, 10);
        forwards(100, 5, 100, 10);
        assert_int_equal(bench_status(&bench).shifts, 0);
        bench_end(&bench);
    }
    start(1, 0, 0);
    round_by_timer(0, 100, 10);
    forwards(100, 5, 100, 10);
    assert_int_equal(bench_status(&bench).shifts, 0);
    assert_int_equal(bench_status(&bench).policy_runs, 1);
    bench_end(&bench);
}

static void the_timer_waits_for_the_least_tokens(void **state)
{
    (void)state;
    start(1, 0, 1500);
    forwards(9, 0, 100, 10);
    bench_wait(&bench, 2000);
    bench_tick(&bench);
    assert_int_equal(bench_status(&bench).policy_runs, 0);
    forwards(1, 0, 100, 10);
    assert_int_equal(bench_status(&bench).policy_runs, 1);
    bench_end(&bench);
}

static int32_t history_told;

static enum eplb_status note_history(const struct eplb_policy_problem *problem, void *scratch,
                                     struct eplb_policy_answer *answer, struct eplb_error *error)
{
    history_told = problem->num_history;
    return eplb_policy_find("balanced").ops->plan_layer(problem, scratch, answer, error);
}

static void the_history_restarts_at_a_shift(void **state)
{
    (void)state;
    struct eplb_policy_ops ops = *eplb_policy_find("balanced").ops;
    ops.plan_layer = note_history;
    bench_start(&bench, &(struct bench_options){.num_layers = 1,
                                                .interval_s = 1000,
                                                .prepare_timeout_s = 1,
                                                .transfer_timeout_s = 1,
                                                .ops = &ops,
                                                .shift_trigger = 12});
    for (int32_t windows = 0; windows < 3; windows++) {
        round_by_timer(0, 100, 10);
        assert_int_equal(history_told, windows);
    }
    while (bench_status(&bench).shifts == 0)
        forwards(1, 5, 100, 10);
    forwards(8, 5, 100, 10);
    bench_policy(&bench);
    assert_int_equal(history_told, 0);
    while (bench_status(&bench).round)
        forwards(1, 5, 100, 10);
    round_by_timer(5, 100, 10);
    assert_int_equal(history_told, 1);
    bench_end(&bench);
}

static void what_is_out_of_range_is_refused(void **state)
{
    (void)state;
    struct eplb_manager_core_params params = {.ops = eplb_policy_find("balanced").ops,
                                              .prepare_timeout_ns = 1,
                                              .transfer_timeout_ns = 1,
                                              .first_token = 1,
                                              .first_seq = 1};
    struct eplb_manager_core *core;
    struct eplb_error error;
    assert_int_equal(eplb_shape_init(&params.shape, 1, BENCH_EXPERTS, BENCH_RANKS, 1, &error), EPLB_OK);
    params.shift_trigger = -1;
    assert_int_equal(eplb_manager_core_create(&params, &core, &error), EPLB_INVALID);
    assert_string_equal(error.text, "the shift trigger is -1; allowed is 0 to 1000");
    params.shift_trigger = 0;
    params.min_tokens_per_layer = -1;
    assert_int_equal(eplb_manager_core_create(&params, &core, &error), EPLB_INVALID);
    assert_string_equal(error.text, "a policy run is to wait for -1 tokens per layer; allowed is 0 or more");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_shift_starts_a_round_when_tokens_came),
        cmocka_unit_test(few_tokens_are_waited_for_however_long),
        cmocka_unit_test(after_the_round_a_new_promise_holds),
        cmocka_unit_test(nothing_is_found_before_a_plan_or_without_a_trigger),
        cmocka_unit_test(the_timer_waits_for_the_least_tokens),
        cmocka_unit_test(the_history_restarts_at_a_shift),
        cmocka_unit_test(what_is_out_of_range_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
