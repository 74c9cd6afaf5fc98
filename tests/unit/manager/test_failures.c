/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The eplb authors */
/**
 * The manager's rules when something goes wrong.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "bench.h"

static struct bench bench;

/** Up to the point where the first of `layers` layers can be prepared. */
static void start_round(int32_t layers, double prepare_timeout_s)
{
    bench_start(&bench, &(struct bench_options){.num_layers = layers,
                                                .interval_s = 1000,
                                                .prepare_timeout_s = prepare_timeout_s,
                                                .transfer_timeout_s = 1});
    bench_forward(&bench, "ddd");
    bench_wait(&bench, 1000);
    bench_tick(&bench);
    bench_policy(&bench);
    bench_expect(&bench, "command 1\nrun policy\n");
    bench.log[0] = '\0';
}

/** The same, with the first layer ready to be activated. */
static void start_ready(int32_t layers)
{
    start_round(layers, 1);
    bench_forward(&bench, "ddd");
    bench_expect(&bench, "command 2, prepare layer 0 as 1 on generation 0\n");
}

static void assert_logged(const char *sentence)
{
    if (strstr(bench.log, sentence) == NULL)
        fail_msg("'%s' is not in the log:\n%s", sentence, bench.log);
}

static int count_logged(const char *sentence)
{
    int count = 0;
    for (const char *hit = bench.log; (hit = strstr(hit, sentence)) != NULL; hit++)
        count++;
    return count;
}

static void activation_waits_for_the_last_rank(void **state)
{
    (void)state;
    start_round(2, 1000);
    uint64_t seq = bench_submit(&bench, "ddd");
    bench_prepare_ok(&bench, 0, 2);
    bench_output(&bench, seq);
    bench_forward(&bench, "ddd");
    struct bench before = bench;
    uint64_t late = bench_submit(&bench, "ddd");
    bench.levels[2] = before.levels[0];
    bench_output(&bench, late);
    bench_forward(&bench, "ddd");
    bench_expect(&bench, "command 2, prepare layer 0 as 1 on generation 0\n"
                         "command 3\n"
                         "command 4\n"
                         "open record 2\n"
                         "command 5, activate layer 0 as 2 after 1, prepare layer 1 as 3 on generation 0\n"
                         "committed layer 0, generation 1\n");
    bench_end(&bench);
}

static void a_failed_prepare_is_skipped_at_once(void **state)
{
    (void)state;
    start_round(2, 1000);
    uint64_t seq = bench_submit(&bench, "ddd");
    bench_prepare_ok(&bench, 0, BENCH_RANKS);
    bench.levels[1].prepare_status = EPLB_PREPARE_FAILED;
    bench.levels[1].prepare_reason = EPLB_REASON_HOOK_FAILED;
    bench_output(&bench, seq);
    bench_submit(&bench, "ddd");
    bench_expect(&bench, "command 2, prepare layer 0 as 1 on generation 0\n"
                         "aborted layer 0: a rank could not prepare\n"
                         "command 3, prepare layer 1 as 2 on generation 0\n");
    assert_logged(
        "layer 0: rank 1 could not prepare (prepare_token 1): a model hook failed; the layer is skipped");
    assert_int_equal(bench_status(&bench).layers_aborted, 1);
    assert_int_equal(bench_status(&bench).layers_timed_out, 0);
    bench_end(&bench);
}

static void silent_for(double timeout_s)
{
    start_round(2, timeout_s);
    uint64_t seq = bench_submit(&bench, "ddd");
    struct eplb_command prepare = bench.command;
    bench_prepare_ok(&bench, 0, 2); /* rank 2 says nothing */
    bench_output(&bench, seq);
    bench_wait(&bench, timeout_s - 0.1);
    bench_forward(&bench, "ddd");
    bench_expect(&bench, "command 2, prepare layer 0 as 1 on generation 0\ncommand 3\n");
    bench_wait(&bench, 0.2);
    bench_forward(&bench, "ddd");
    bench_expect(&bench, "command 4\naborted layer 0: not all ranks prepared in time\n");
    assert_logged("layer 0: rank 2 has not prepared in time (prepare_token 1); the layer is skipped");
    assert_int_equal(bench_status(&bench).layers_timed_out, 1);
    /* The late report changes nothing; the next layer has a token of its own. */
    bench.command = prepare;
    bench_prepare_ok(&bench, 2, 3);
    seq = bench_submit(&bench, "ddd");
    bench_output(&bench, seq);
    assert_int_equal(bench.command.prepare_token.value, 2);
    bench_expect(&bench, "command 5, prepare layer 1 as 2 on generation 0\n");
    bench_submit(&bench, "ddd");
    bench_expect(&bench, "command 6\n");
    bench_end(&bench);
}

static void a_silent_prepare_is_skipped_at_the_timeout(void **state)
{
    (void)state;
    silent_for(1);
    silent_for(2);
}

static void an_idle_engine_times_nothing_out(void **state)
{
    (void)state;
    start_round(1, 1);
    uint64_t seq = bench_submit(&bench, "ddd");
    struct eplb_command prepare = bench.command;
    bench_output(&bench, seq);
    bench_forward(&bench, "---"); /* a later output, but before the timeout */
    for (int i = 0; i < 100; i++) {
        bench_wait(&bench, 1);
        bench_tick(&bench);
    }
    bench_expect(&bench, "command 2, prepare layer 0 as 1 on generation 0\ncommand 3\n");
    bench.command = prepare;
    bench_prepare_ok(&bench, 0, BENCH_RANKS); /* done long ago; nobody could report it */
    seq = bench_submit(&bench, "---");
    bench_output(&bench, seq);
    assert_true(bench_status(&bench).ready);
    bench_end(&bench);
}

static void a_later_forward_that_hangs_for_the_timeout_judges(void **state)
{
    (void)state;
    bench_start(
        &bench,
        &(struct bench_options){
            .num_layers = 1, .overlap = 1, .interval_s = 0, .prepare_timeout_s = 1, .transfer_timeout_s = 1});
    bench_start_round(&bench);
    uint64_t seq = bench_submit(&bench, "ddd");
    bench_output(&bench, seq);
    bench_submit(&bench, "---");
    bench_wait(&bench, 0.9);
    bench_tick(&bench);
    bench_expect(&bench,
                 "command 1\nrun policy\ncommand 2, prepare layer 0 as 1 on generation 0\ncommand 3\n");
    bench_wait(&bench, 0.2);
    bench_tick(&bench);
    bench_expect(&bench, "aborted layer 0: not all ranks prepared in time\nrun policy\n");
    bench_end(&bench);
}

static void a_dropped_forward_loses_neither_prepare_nor_activation(void **state)
{
    (void)state;
    start_round(2, 1);
    bench_drop(&bench, bench_submit(&bench, "ddd"));
    bench_wait(&bench, 100); /* its timer stands */
    bench_forward(&bench, "ddd");
    bench_expect(&bench, "command 2, prepare layer 0 as 1 on generation 0\n"
                         "command 3, prepare layer 0 as 1 on generation 0\n");
    bench_drop(&bench, bench_submit(&bench, "ddd"));
    bench_forward(&bench, "ppp");
    bench_forward(&bench, "ddd");
    bench_forward(&bench, "ddd");
    bench_expect(&bench, "open record 2\n"
                         "command 4, activate layer 0 as 2 after 1, prepare layer 1 as 3 on generation 0\n"
                         "command 5\n"
                         "command 6, activate layer 0 as 2 after 1, prepare layer 1 as 3 on generation 0\n"
                         "committed layer 0, generation 1\n"
                         "open record 4\n"
                         "command 7, activate layer 1 as 4 after 3\n"
                         "committed layer 1, generation 1\n");
    bench_end(&bench);
}

static void all_kept_aborts_the_layer(void **state)
{
    (void)state;
    start_ready(2);
    uint64_t seq = bench_submit(&bench, "ddd");
    bench_kept(&bench, 0, 2);
    bench_output(&bench, seq);
    bench_expect(&bench, "open record 2\n"
                         "command 3, activate layer 0 as 2 after 1, prepare layer 1 as 3 on generation 0\n");
    for (int rank = 0; rank < BENCH_RANKS; rank++)
        bench.levels[rank].activation_token.value = 2;
    bench.levels[2].activation_outcome = EPLB_ACTIVATION_KEPT;
    bench_output(&bench, bench_submit(&bench, "ppp"));
    bench_expect(&bench, "command 4\naborted layer 0: the ranks voted it down\n");
    assert_int_equal(eplb_manager_core_generation(bench.core, 0), 0);
    bench_end(&bench);
}

static void a_mixed_outcome_stops_the_run(void **state)
{
    (void)state;
    start_ready(1);
    uint64_t seq = bench_submit(&bench, "ddd");
    bench_switched(&bench, 0, 2);
    bench_kept(&bench, 2, 3);
    bench_output(&bench, seq);
    bench_expect(&bench,
                 "open record 2\n"
                 "command 3, activate layer 0 as 2 after 1\n"
                 "stop: layer 0, activation_token 2: 2 ranks switched and 1 kept the old placement\n");
    bench_end(&bench);
}

static void a_stuck_activation_is_named_and_a_late_report_resolves_it(void **state)
{
    (void)state;
    start_ready(1);
    uint64_t seq = bench_submit(&bench, "ddd");
    bench_switched(&bench, 0, 2);
    bench_output(&bench, seq);
    bench_wait(&bench, 2.5);
    bench_tick(&bench);
    assert_int_equal(count_logged("stuck"), 0);
    bench_output(&bench, bench_submit(&bench, "---"));
    bench_output(&bench, bench_submit(&bench, "---"));
    assert_int_equal(count_logged("stuck"), 1);
    assert_logged("activation is stuck: layer 0, activation_token 2, age 2.500 s, no report from rank 2");
    assert_true(bench_status(&bench).activation_stuck);
    bench.levels[2] = bench.levels[0];
    bench_output(&bench, bench_submit(&bench, "---"));
    bench_expect(&bench, "open record 2\n"
                         "command 3, activate layer 0 as 2 after 1\n"
                         "command 4\n"
                         "command 5\n"
                         "command 6\n"
                         "committed layer 0, generation 1\n");
    assert_false(bench_status(&bench).activation_stuck);
    bench_end(&bench);
}

static void a_dead_rank_gives_up_what_was_not_handed_out(void **state)
{
    (void)state;
    start_round(3, 1);
    bench_submit(&bench, "ddd");
    bench_dead(&bench, 1);
    bench_dead(&bench, 1);
    bench_expect(&bench, "command 2, prepare layer 0 as 1 on generation 0\n"
                         "aborted layer 0: a rank died\n"
                         "aborted layer 1: a rank died\n"
                         "aborted layer 2: a rank died\n");
    assert_false(bench_status(&bench).round);
    bench_end(&bench);
}

static void after_a_death_the_record_decides(void **state)
{
    (void)state;
    for (int committed = 0; committed < 2; committed++) {
        start_ready(1);
        uint64_t seq = bench_submit(&bench, "ddd");
        bench_dead(&bench, 1);
        assert_int_equal(bench_status(&bench).activating_layer, 0);
        if (committed)
            bench_switched(&bench, 0, BENCH_RANKS);
        else
            bench_kept(&bench, 0, BENCH_RANKS);
        bench.lacking[1] = true;
        bench_output(&bench, seq);
        bench_expect(&bench, committed ? "open record 2\n"
                                         "command 3, activate layer 0 as 2 after 1\n"
                                         "abort record 2\n"
                                         "committed layer 0, generation 1\n"
                                       : "open record 2\n"
                                         "command 3, activate layer 0 as 2 after 1\n"
                                         "abort record 2\n"
                                         "aborted layer 0: a rank died\n");
        bench_end(&bench);
    }
}

static void a_command_dropped_after_a_death_never_returns(void **state)
{
    (void)state;
    start_ready(1);
    uint64_t seq = bench_submit(&bench, "ddd");
    bench_dead(&bench, 0);
    bench_drop(&bench, seq);
    bench_submit(&bench, "ddd");
    bench_expect(&bench, "open record 2\n"
                         "command 3, activate layer 0 as 2 after 1\n"
                         "abort record 2\n"
                         "abort record 2\n"
                         "aborted layer 0: a rank died\n"
                         "command 4\n");
    bench_end(&bench);
}

static void a_policy_result_after_a_death_is_discarded(void **state)
{
    (void)state;
    bench_start(&bench,
                &(struct bench_options){
                    .num_layers = 2, .interval_s = 0, .prepare_timeout_s = 1, .transfer_timeout_s = 1});
    bench_forward(&bench, "ddd");
    bench_dead(&bench, 2);
    bench_policy(&bench);
    bench_submit(&bench, "ddd");
    bench_expect(&bench, "command 1\nrun policy\ncommand 2\n");
    assert_int_equal(bench_status(&bench).layers_published, 0);
    assert_false(bench_status(&bench).round);
    bench_end(&bench);
}

static size_t no_scratch(const struct eplb_shape *shape, const struct eplb_policy_settings *settings)
{
    (void)settings;
    (void)shape;
    return 0;
}

static enum eplb_status refuses(const struct eplb_policy_problem *problem, void *scratch,
                                struct eplb_policy_answer *answer, struct eplb_error *error)
{
    (void)problem;
    (void)scratch;
    (void)answer;
    return eplb_fail(error, EPLB_NO_MEMORY, "no memory left");
}

static void a_failing_policy_leaves_the_placement(void **state)
{
    (void)state;
    static const struct eplb_policy_ops ops = {
        .size = sizeof ops, .name = "broken", .scratch_size = no_scratch, .plan_layer = refuses};
    bench_start(
        &bench,
        &(struct bench_options){
            .num_layers = 1, .interval_s = 10, .prepare_timeout_s = 1, .transfer_timeout_s = 1, .ops = &ops});
    bench_forward(&bench, "ddd");
    bench_wait(&bench, 10);
    bench_tick(&bench);
    bench_policy(&bench);
    bench_forward(&bench, "ddd");
    bench_expect(&bench, "command 1\nrun policy\ncommand 2\n");
    assert_logged("policy run failed: policy broken, layer 0: no memory left");
    assert_int_equal(bench_status(&bench).policy_failures, 1);
    bench_wait(&bench, 60);
    bench_tick(&bench);
    assert_logged(
        "EPLB heartbeat | path=rebalance | rank=all | tasks_ok_since_last=0 | tasks_failed_since_last=1");
    bench_end(&bench);
}

static void a_ready_layer_that_waited_too_long_passes_the_gate_again(void **state)
{
    (void)state;
    start_ready(1);
    bench_wait(&bench, 1001);
    /* The traffic has turned: now rank 0 has nothing, and the plan would gain nothing. */
    for (int rank = 0; rank < BENCH_RANKS; rank++)
        for (int slot = 0; slot < BENCH_SLOTS; slot++)
            bench.prefix[rank][0][slot] = 10 * (slot + 1);
    for (int i = 0; i < 50; i++)
        bench_forward(&bench, "ppp");
    bench.trace[0] = '\0';
    bench_submit(&bench, "ddd");
    bench_expect(&bench, "aborted layer 0: it no longer passes the gate\ncommand 53\nrun policy\n");
    bench_end(&bench);
}

static void a_gap_in_the_forwards_stops_the_run(void **state)
{
    (void)state;
    start_round(1, 1);
    bench.seq += 1;
    bench_submit(&bench, "ddd");
    bench_expect(&bench, "stop: forward 3 was submitted where 2 is next\ncommand 3\n");
    bench_end(&bench);

    start_round(1, 1);
    bench_submit(&bench, "ppp");
    bench_output(&bench, 3);
    bench_expect(&bench, "command 2\nstop: the output of forward 3 came where 2 is next\n");
    bench_end(&bench);
}

static void ranks_that_disagree_stop_the_run(void **state)
{
    (void)state;
    start_round(1, 1);
    bench.generations[2][0] = 1;
    bench_output(&bench, bench_submit(&bench, "ppp"));
    assert_non_null(strstr(bench.trace, "stop: forward 2: "));
    assert_non_null(strstr(bench.trace, "layer 0"));
    bench_end(&bench);
}

static void unknown_tokens_and_changed_outcomes_warn_once(void **state)
{
    (void)state;
    start_ready(1);
    bench.levels[1].activation_token.value = 77;
    bench.levels[1].activation_outcome = EPLB_ACTIVATION_SWITCHED;
    for (int i = 0; i < 3; i++)
        bench_output(&bench, bench_submit(&bench, "ppp"));
    assert_int_equal(
        count_logged("rank 1 reports activation_token 77, which was never issued; it is ignored"), 1);
    bench.levels[1].activation_outcome = EPLB_ACTIVATION_KEPT;
    for (int i = 0; i < 3; i++)
        bench_output(&bench, bench_submit(&bench, "ppp"));
    assert_int_equal(count_logged("rank 1 reports another outcome of activation_token 77 than before"), 1);
    bench_end(&bench);
}

static void an_outcome_once_told_stands(void **state)
{
    (void)state;
    start_ready(1);
    uint64_t seq = bench_submit(&bench, "ddd");
    bench_switched(&bench, 0, 1);
    bench_output(&bench, seq);
    bench_kept(&bench, 0, 1); /* rank 0 says something else now */
    for (int rank = 1; rank < BENCH_RANKS; rank++) {
        bench.levels[rank].activation_token.value = 2;
        bench.levels[rank].activation_outcome = EPLB_ACTIVATION_SWITCHED;
    }
    bench.levels[0].activation_token.value = 2;
    bench_output(&bench, bench_submit(&bench, "ppp"));
    bench_expect(&bench, "open record 2\n"
                         "command 3, activate layer 0 as 2 after 1\n"
                         "command 4\n"
                         "committed layer 0, generation 1\n");
    assert_logged("rank 0 reports another outcome of activation_token 2 than before; it is ignored");
    bench_end(&bench);
}

static void nobody_can_have_finished_what_was_not_handed_out(void **state)
{
    (void)state;
    start_ready(1);
    bench_drop(&bench, bench_submit(&bench, "ddd"));
    bench_switched(&bench, 0, BENCH_RANKS);
    bench_output(&bench, bench_submit(&bench, "ppp"));
    bench_expect(&bench, "open record 2\n"
                         "command 3, activate layer 0 as 2 after 1\n"
                         "command 4\n");
    assert_int_equal(bench_status(&bench).activating_layer, 0);
    bench_end(&bench);
}

static void a_death_names_the_rank(void **state)
{
    (void)state;
    start_ready(1);
    bench_submit(&bench, "ddd");
    bench_dead(&bench, 2);
    assert_logged(
        "rank 2 died while layer 0 was activating (activation_token 2); the decision record decides");
    bench_dead(&bench, 0);
    assert_int_equal(bench_status(&bench).num_dead, 2);
    bench_end(&bench);
    start_round(1, 1);
    bench_dead(&bench, 1);
    assert_logged("rank 1 died; no layer was activating");
    bench_end(&bench);
}

static void ranks_that_disagree_in_a_warm_up_stop_the_run_too(void **state)
{
    (void)state;
    start_round(1, 1);
    bench.generations[1][0] = 3;
    bench_output(&bench, bench_submit(&bench, "wddd"));
    bench_expect(&bench, "command 2\n"
                         "stop: forward 2: layer 0: rank 0 ran the forward under generation 0, rank 1 under "
                         "generation 3\n");
    bench_end(&bench);
}

static void a_lacking_output_gives_no_sample_but_its_levels_return(void **state)
{
    (void)state;
    start_round(1, 1000);
    uint64_t seq = bench_submit(&bench, "ddd");
    bench_prepare_ok(&bench, 0, BENCH_RANKS);
    bench.lacking[2] = true;
    bench_output(&bench, seq);
    assert_false(bench_status(&bench).ready);
    assert_int_equal(bench_status(&bench).samples_lacking, 1);
    bench.lacking[2] = false;
    bench_output(&bench, bench_submit(&bench, "ppp"));
    assert_true(bench_status(&bench).ready);
    bench_end(&bench);
}

/* With an overlap of one, an output may be on its way when the next forward's command names a token. */
static void a_token_that_no_rank_can_have_heard_of_is_not_believed(void **state)
{
    (void)state;
    bench_start(
        &bench,
        &(struct bench_options){
            .num_layers = 1, .overlap = 1, .interval_s = 0, .prepare_timeout_s = 1, .transfer_timeout_s = 1});
    bench_start_round(&bench);
    uint64_t before = bench_submit(&bench, "ppp");
    uint64_t carrier = bench_submit(&bench, "ddd");
    bench_prepare_ok(&bench, 0, BENCH_RANKS);
    bench_output(&bench, before);
    assert_false(bench_status(&bench).ready);
    bench_drop(&bench, carrier);
    bench_forward(&bench, "ddd");
    assert_true(bench_status(&bench).ready);
    bench_end(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_token_that_no_rank_can_have_heard_of_is_not_believed),
        cmocka_unit_test(activation_waits_for_the_last_rank),
        cmocka_unit_test(a_failed_prepare_is_skipped_at_once),
        cmocka_unit_test(a_silent_prepare_is_skipped_at_the_timeout),
        cmocka_unit_test(an_idle_engine_times_nothing_out),
        cmocka_unit_test(a_later_forward_that_hangs_for_the_timeout_judges),
        cmocka_unit_test(a_dropped_forward_loses_neither_prepare_nor_activation),
        cmocka_unit_test(all_kept_aborts_the_layer),
        cmocka_unit_test(a_mixed_outcome_stops_the_run),
        cmocka_unit_test(a_stuck_activation_is_named_and_a_late_report_resolves_it),
        cmocka_unit_test(a_dead_rank_gives_up_what_was_not_handed_out),
        cmocka_unit_test(after_a_death_the_record_decides),
        cmocka_unit_test(a_command_dropped_after_a_death_never_returns),
        cmocka_unit_test(a_policy_result_after_a_death_is_discarded),
        cmocka_unit_test(a_failing_policy_leaves_the_placement),
        cmocka_unit_test(a_ready_layer_that_waited_too_long_passes_the_gate_again),
        cmocka_unit_test(a_gap_in_the_forwards_stops_the_run),
        cmocka_unit_test(ranks_that_disagree_stop_the_run),
        cmocka_unit_test(unknown_tokens_and_changed_outcomes_warn_once),
        cmocka_unit_test(an_outcome_once_told_stands),
        cmocka_unit_test(nobody_can_have_finished_what_was_not_handed_out),
        cmocka_unit_test(a_death_names_the_rank),
        cmocka_unit_test(ranks_that_disagree_in_a_warm_up_stop_the_run_too),
        cmocka_unit_test(a_lacking_output_gives_no_sample_but_its_levels_return),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
